//! The file read again while the daemon runs: peers and local endpoints come, go and change.
//!
//! All or nothing: a file with a mistake, with a change of anything else, or whose endpoints cannot be
//! opened changes nothing. Peers and endpoints that stay the same do not notice.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use proto::Instant;
use sys::poller::{Interest, Poller};
use sys::wakeup::Wakeup;

use super::open::{open_local, open_path, open_session};
use super::tokens::Token;
use super::{Daemon, PeerState, places};
use crate::config::{self, Config, EndpointConfig, PathConfig, Peer};
use crate::endpoints::LocalEndpoint;

/// Where each peer of the old file is in the new one.
struct Moves(Vec<Option<usize>>);

/// The reader of the file, in a thread of its own: a thousand peers take tenths of a second, and control
/// does not wait for that.
pub(super) struct Loader {
    sender: Sender<Result<Config, String>>,
    files: Receiver<Result<Config, String>>,
    bell: Arc<Wakeup>,
    busy: bool,
    /// Another reload was asked for meanwhile.
    again: bool,
}

impl Daemon {
    /// Takes what was read of the file, and says what came of it.
    pub(super) fn take_file(&mut self, now: Instant) {
        let Some(read) = self.loader.take() else { return };
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
        if std::mem::take(&mut self.loader.again) {
            self.loader.load(&self.config.file);
        }
    }

    /// Takes another configuration on; returns what changed.
    fn take_on(&mut self, now: Instant, new: Config) -> Result<String, String> {
        let moves = Moves::between(&self.config.peers, &new.peers);
        let fixed = fixed_sections(&self.config, &new, &moves);
        if !fixed.is_empty() {
            let what = "changed, which needs a restart; peers, endpoints as a whole, and cost, backup and carries \
                        of a [[path]] do not";
            return Err(format!("{} {what}", fixed.join(", ")));
        }
        let opened = self.open_new_locals(&new, &moves)?;
        for warning in &new.warnings {
            tracing::warn!("{warning}");
        }
        let gone = moves.0.iter().filter(|to| to.is_none()).count();
        let come = new.peers.len() + gone - moves.0.len();
        let others = self.count_changed_addresses(&new, &moves);
        let (closed, opened) = self.replace_locals(&new, &moves, opened);
        self.replace_peers(now, &new, &moves);
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.follow(&new.peers);
        }
        let used_otherwise = self.use_paths(now, &new);
        self.config = new;
        self.open_missing_paths(now);
        let paths = match used_otherwise {
            0 => String::new(),
            count => format!("; paths: {count} used otherwise"),
        };
        Ok(format!(
            "peers: {come} added, {gone} removed, {others} with other addresses; endpoints: \
             {opened} opened, {closed} closed{paths}"
        ))
    }

    /// Uses paths as the new file says; returns how many are used otherwise than before.
    fn use_paths(&mut self, now: Instant, new: &Config) -> usize {
        let mut changed = 0;
        for (slot, (old, new)) in self.config.paths.iter().zip(&new.paths).enumerate() {
            if old.usage == new.usage {
                continue;
            }
            changed += 1;
            if let Some(path) = self.paths[slot] {
                self.endpoint.set_path_use(now, path.session, path.path, new.usage);
            }
        }
        changed
    }

    /// Opens the endpoints that only the new file has.
    fn open_new_locals(
        &self,
        new: &Config,
        moves: &Moves,
    ) -> Result<Vec<(usize, LocalEndpoint)>, String> {
        let is_kept = |local: &LocalEndpoint| find_kept(&local.config, new, moves).is_some();
        let kept: Vec<_> = self.locals.values().filter(|local| is_kept(local)).collect();
        let same = |local: &LocalEndpoint, one| moves.endpoint(&local.config).as_ref() == Some(one);
        let fresh = new.endpoints.iter().filter(|one| !kept.iter().any(|local| same(local, one)));
        let first = self.locals.last_key_value().map_or(0, |(last, _)| last + 1);
        let open = |(count, endpoint): (usize, &EndpointConfig)| {
            let is_taken = |local: &&LocalEndpoint| local.config.kind.collides_with(&endpoint.kind);
            if let Some(other) = self.locals.values().find(is_taken) {
                let (name, other) = (&endpoint.name, &other.config.name);
                if name == other {
                    return Err(format!(
                        "endpoint {name}: what it does changes with a restart, or by a reload without it and \
                         another one with it"
                    ));
                }
                return Err(format!(
                    "endpoint {name}: its address or device is that of endpoint {other} until a \
                     restart"
                ));
            }
            Ok((first + count, open_local(first + count, endpoint, &self.poller)?))
        };
        fresh.enumerate().map(open).collect()
    }

    /// Closes the endpoints that the new file has not; returns how many, and how many came.
    fn replace_locals(
        &mut self,
        new: &Config,
        moves: &Moves,
        opened: Vec<(usize, LocalEndpoint)>,
    ) -> (usize, usize) {
        let before = self.locals.len();
        self.locals.retain(|_, local| {
            let kept = find_kept(&local.config, new, moves);
            kept.inspect(|kept| local.config = (*kept).clone()).is_some()
        });
        let (closed, opening) = (before - self.locals.len(), opened.len());
        self.locals.extend(opened);
        (closed, opening)
    }

    /// Ends the sessions of peers that are gone, and makes new ones known.
    fn replace_peers(&mut self, now: Instant, new: &Config, moves: &Moves) {
        for (place, to) in moves.0.iter().enumerate() {
            if to.is_none() {
                self.endpoint.remove_peer(now, self.peers[place].id);
            }
        }
        // While the log still knows them by name.
        self.report_events(now);
        let old = std::mem::take(&mut self.peers).into_iter().zip(&moves.0);
        let mut kept: BTreeMap<usize, PeerState> =
            old.filter_map(|(state, to)| Some(((*to)?, state))).collect();
        let endpoint = &mut self.endpoint;
        let state = |(place, peer): (usize, &Peer)| {
            kept.remove(&place).unwrap_or_else(|| open_session(now, new.role, peer, endpoint))
        };
        self.peers = new.peers.iter().enumerate().map(state).collect();
        self.places = places(&self.peers);
        self.journal.forget_peers();
    }

    /// Opens a drone's paths to peers whose session has begun anew.
    fn open_missing_paths(&mut self, now: Instant) {
        for (slot, path) in self.config.paths.iter().enumerate() {
            let Some(session) = self.peers[path.peer].session else { continue };
            let remote = self.remotes.first(slot);
            if let Some(remote) = remote
                && self.paths[slot].is_none_or(|known| known.session != session)
            {
                let place = (slot, path.usage);
                self.paths[slot] =
                    open_path(now, place, remote, session, &mut self.endpoint, &self.sockets);
            }
        }
    }

    fn count_changed_addresses(&self, new: &Config, moves: &Moves) -> usize {
        let pairs = self.config.peers.iter().zip(&moves.0);
        let changed = |(peer, to): &(&Peer, &Option<usize>)| {
            to.is_some_and(|to| new.peers[to].allowed != peer.allowed)
        };
        pairs.filter(changed).count()
    }
}

impl Loader {
    /// Reads nothing yet.
    pub(super) fn open(poller: &Poller) -> io::Result<Self> {
        let bell = Arc::new(Wakeup::new()?);
        poller.add(&*bell, Token::File.encode(), Interest::Read)?;
        let (sender, files) = channel();
        Ok(Self { sender, files, bell, busy: false, again: false })
    }

    /// Reads the file; where a reading is under way, once more after it.
    pub(super) fn load(&mut self, file: &Path) {
        if self.busy {
            self.again = true;
            return;
        }
        self.busy = true;
        let (file, sender, bell) = (file.to_owned(), self.sender.clone(), Arc::clone(&self.bell));
        let answer = move |read: Result<Config, String>| {
            // The receiver is gone when the daemon ends.
            let _ = sender.send(read);
            bell.ring();
        };
        let refused = answer.clone();
        let reader = move || answer(config::load(&file).map_err(|error| error.to_string()));
        if let Err(error) = std::thread::Builder::new().name("reload".into()).spawn(reader) {
            refused(Err(format!("start a thread that reads the file: {error}")));
        }
    }

    fn take(&mut self) -> Option<Result<Config, String>> {
        self.bell.silence();
        let read = self.files.try_recv().ok()?;
        self.busy = false;
        Some(read)
    }
}

impl Moves {
    /// A peer is its key: with another key, or another pre-shared one, it is another peer.
    fn between(old: &[Peer], new: &[Peer]) -> Self {
        let places: BTreeMap<_, usize> =
            new.iter().enumerate().map(|(place, peer)| (peer.key, place)).collect();
        let moved = |peer: &Peer| {
            let place = *places.get(&peer.key)?;
            (new[place].preshared_key == peer.preshared_key).then_some(place)
        };
        Self(old.iter().map(moved).collect())
    }

    /// Returns an endpoint's configuration with its peer's place in the new file; none when that is gone.
    fn endpoint(&self, old: &EndpointConfig) -> Option<EndpointConfig> {
        Some(EndpointConfig { peer: self.0[old.peer]?, ..old.clone() })
    }
}

/// Finds the endpoint of the new file that is this one.
fn find_kept<'c>(
    old: &EndpointConfig,
    new: &'c Config,
    moves: &Moves,
) -> Option<&'c EndpointConfig> {
    let moved = moves.endpoint(old)?;
    new.endpoints.iter().find(|endpoint| **endpoint == moved)
}

/// Names what differs and cannot be changed while the daemon runs.
fn fixed_sections(old: &Config, new: &Config, moves: &Moves) -> Vec<&'static str> {
    // A drone's path stays the path of a peer whose key was replaced: it is known by its name, too.
    let same_peer = |one: &PathConfig, other: &PathConfig| {
        moves.0[one.peer] == Some(other.peer)
            || old.peers[one.peer].name == new.peers[other.peer].name
    };
    let same_path = |(one, other): (&PathConfig, &PathConfig)| {
        let PathConfig { peer, usage, .. } = *other;
        same_peer(one, other) && PathConfig { peer, usage, ..one.clone() } == *other
    };
    let same_paths =
        old.paths.len() == new.paths.len() && old.paths.iter().zip(&new.paths).all(same_path);
    let sections = [
        ("role", old.role == new.role),
        ("realtime", old.realtime == new.realtime),
        ("private_key", old.secret.public() == new.secret.public()),
        ("[[path]]", same_paths),
        ("[[listen]]", old.listens == new.listens),
        ("[tunnel]", old.tunnel == new.tunnel),
        ("[transport], [selector] or [reliability]", old.transport == new.transport),
        ("[status]", old.status == new.status),
        ("[log]", old.log == new.log),
        ("[record]", old.record == new.record),
    ];
    sections.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}
