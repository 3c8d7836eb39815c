//! The file read again while the daemon runs: peers, paths, addresses to listen at, local
//! endpoints, targets, the packet selector and the log change, and no session of a peer that stays
//! is dropped.
//!
//! All or nothing: a file with a mistake, with a change of anything else, or of which something
//! cannot be opened changes nothing. What stays the same does not notice.

mod listens;
mod locals;
mod moves;
mod paths;

use std::collections::BTreeMap;

use proto::Instant;

use super::open::open_session;
use super::{Daemon, PeerState, places};
use crate::config::{self, Config, Peer, Transport};
use moves::Moves;

impl Daemon {
    /// Takes what was read of the file, and says what came of it.
    pub(super) fn take_file(&mut self, now: Instant) {
        let Some(read) = self.loader.take(now) else { return };
        let read = read.and_then(|kind| {
            config::end_of(kind, &self.config.file).map_err(|error| error.to_string())
        });
        let done = read.and_then(|new| self.take_on(now, new));
        self.reload.count += 1;
        match done {
            Ok(changes) => {
                tracing::info!(changes, "the file was read again");
                (self.reload.changes, self.reload.problem) = (changes, String::new());
            }
            Err(problem) => {
                tracing::error!(problem, "the file was read again, and nothing was changed");
                (self.reload.changes, self.reload.problem) = (String::new(), problem);
            }
        }
        if self.loader.is_asked_again() {
            self.loader.load(now, &self.config.file);
        }
    }

    /// Takes another configuration on; returns what changed. What can fail comes first, and is
    /// undone where it does.
    fn take_on(&mut self, now: Instant, new: Config) -> Result<String, String> {
        let moves = Moves::between(&self.config.peers, &new.peers);
        let fixed = fixed_sections(&self.config, &new);
        if !fixed.is_empty() && self.may_begin_anew() {
            return Ok(self.begin_anew(new));
        }
        if !fixed.is_empty() {
            let what =
                "cannot change while the daemon runs: restart it, or put back what was there";
            return Err(format!("{}: {what}", fixed.join(", ")));
        }
        self.check_rights(&new)?;
        let paths = self.compare_paths(&new, &moves)?;
        let locals = self.open_new_locals(&new, &moves)?;
        let listens = match self.replace_listens(now, &new) {
            Ok(listens) => listens,
            Err(problem) => {
                self.keep_old_locals(locals);
                return Err(problem);
            }
        };
        for warning in &new.warnings {
            tracing::warn!("{warning}");
        }
        let mut changes = Changes::default();
        self.count_peers(&new, &moves, &mut changes);
        let locals = self.replace_locals(now, &new, locals);
        self.replace_peers(now, &new, &moves);
        let paths = self.replace_paths(now, &new, paths);
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.follow(&new.peers);
        }
        self.take_policies(now, &new, &mut changes);
        self.config = new;
        self.refresh_sockets(now);
        self.open_missing_paths(now);
        self.give_up_rights();
        changes.count(
            "endpoints",
            &[(locals.opened, "opened"), (locals.closed, "closed"), (locals.changed, "changed")],
        );
        changes.count(
            "paths",
            &[
                (paths.added, "added"),
                (paths.removed, "removed"),
                (paths.used_otherwise, "used otherwise"),
            ],
        );
        changes.count("listens", &[(listens.opened, "opened"), (listens.closed, "closed")]);
        Ok(changes.text())
    }

    /// Takes what holds for all sessions, and for the log.
    fn take_policies(&mut self, now: Instant, new: &Config, changes: &mut Changes) {
        let (old, session) = (&self.config.transport.session, &new.transport.session);
        changes.note("[selector]", old.selector != session.selector);
        changes.note("[reliability]", old.reliability != session.reliability);
        let (selector, reliability) = (session.selector.clone(), session.reliability);
        self.endpoint.set_policies(now, selector, reliability);
        if self.config.log != new.log {
            changes.note("[log]", true);
            self.log.set(&new.log);
        }
    }

    /// Ends the sessions of peers that are gone, and makes new ones known.
    fn replace_peers(&mut self, now: Instant, new: &Config, moves: &Moves) {
        for (place, to) in moves.iter().enumerate() {
            if to.is_none() {
                self.endpoint.remove_peer(now, self.peers[place].id);
            }
        }
        // While the log still knows them by name.
        self.report_events(now);
        let old = std::mem::take(&mut self.peers).into_iter().zip(moves.iter());
        let mut kept: BTreeMap<usize, PeerState> =
            old.filter_map(|(state, to)| Some((to?, state))).collect();
        let endpoint = &mut self.endpoint;
        let state = |(place, peer): (usize, &Peer)| {
            kept.remove(&place).unwrap_or_else(|| open_session(now, new.role, peer, endpoint))
        };
        self.peers = new.peers.iter().enumerate().map(state).collect();
        self.places = places(&self.peers);
        self.journal.forget_peers();
    }

    fn count_peers(&self, new: &Config, moves: &Moves, changes: &mut Changes) {
        let gone = moves.iter().filter(Option::is_none).count();
        let come = new.peers.len() + gone - self.config.peers.len();
        let pairs = self.config.peers.iter().zip(moves.iter());
        let kept = pairs.filter_map(|(old, to)| Some((old, &new.peers[to?])));
        let (mut readdressed, mut renamed) = (0, 0);
        for (old, new) in kept {
            readdressed += usize::from(old.allowed != new.allowed);
            renamed += usize::from(old.name != new.name);
        }
        changes.count(
            "peers",
            &[
                (come, "added"),
                (gone, "removed"),
                (readdressed, "with other addresses"),
                (renamed, "renamed"),
            ],
        );
    }
}

/// What a reload has changed, in words.
#[derive(Default)]
struct Changes(Vec<String>);

impl Changes {
    fn count(&mut self, what: &str, counts: &[(usize, &str)]) {
        let counts: Vec<_> = (counts.iter().filter(|(count, _)| *count > 0))
            .map(|(count, how)| format!("{count} {how}"))
            .collect();
        if !counts.is_empty() {
            self.0.push(format!("{what}: {}", counts.join(", ")));
        }
    }

    fn note(&mut self, section: &str, has_changed: bool) {
        if has_changed {
            self.0.push(format!("{section} changed"));
        }
    }

    fn text(self) -> String {
        if self.0.is_empty() { "nothing has changed".into() } else { self.0.join("; ") }
    }
}

/// Names what differs and cannot be changed while the daemon runs.
fn fixed_sections(old: &Config, new: &Config) -> Vec<&'static str> {
    let Transport { session, .. } = &new.transport;
    let mut transport = old.transport.clone();
    transport.session.selector.clone_from(&session.selector);
    transport.session.reliability = session.reliability;
    let sections = [
        ("role", old.role == new.role),
        ("realtime", old.realtime == new.realtime),
        ("private_key", old.secret.public() == new.secret.public()),
        ("[[relay]]", old.relays == new.relays),
        ("[tunnel]", old.tunnel == new.tunnel),
        ("[transport]", transport == new.transport),
        ("[status]", old.status == new.status),
        ("[record]", old.record == new.record),
    ];
    sections.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}
