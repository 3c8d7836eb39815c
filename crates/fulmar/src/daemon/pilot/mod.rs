//! What the pilot is told of the links: the daemon's part. What there is to say is found in
//! `watch.rs`, and the programs of a peer's MAVLink endpoints are told (`endpoints/statustext.rs`).

mod watch;

use std::net::SocketAddr;

use proto::{Duration, Instant, PathRef, PathState, PathStatus, SessionId};

use super::Daemon;
use super::notes::link_name;
use crate::config::Role;
use crate::endpoints::{LocalEndpoint, Severity};
pub(super) use watch::Watch;
use watch::{Look, Seen, said_of};

/// A path that loses so much, either way, is just enough at best.
const MUCH_LOSS: f64 = 0.1;
/// So is what leaves no more room than this in the session's queue, in percent.
const LITTLE_ROOM: u8 = 25;

/// Links that fall within this time have fallen together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Peers that are looked at in one turn, so that a fleet holds nothing up; of more, each is looked
/// at less often than once a second.
const AT_ONCE: usize = 64;

impl Daemon {
    /// Looks at every peer's links, or at those of the next [`AT_ONCE`], and tells the pilot what
    /// is new.
    pub(super) fn tell_pilot(&mut self, now: Instant) {
        let all = self.peers.len();
        let first = self.next_watched;
        self.next_watched = (first + AT_ONCE) % all.max(1);
        for place in (0..all.min(AT_ONCE)).map(|ahead| (first + ahead) % all) {
            let has_pilot = self.locals.of(place).any(LocalEndpoint::has_pilot);
            if !has_pilot && self.config.role == Role::Drone {
                continue;
            }
            let look = self.look(now, place);
            let Some((severity, text)) = self.peers[place].watch.look(now, &look) else { continue };
            tracing::debug!(peer = %self.config.peers[place].name, ?severity, text, "told the pilot");
            // Whoever watches reads and hears the same.
            self.note_told(now, place, severity < Severity::Notice, said_of(&text));
            let Self { locals, peers, poller, .. } = self;
            let sources = &mut peers[place].sources;
            locals.for_each_of(place, |_, local| {
                if local.has_pilot() {
                    local.tell_pilot(now, severity, &text, sources, poller);
                }
            });
        }
    }

    /// Returns what is to be seen of a peer's links.
    fn look(&self, now: Instant, place: usize) -> Look {
        let state = &self.peers[place];
        let status = state.session.and_then(|session| {
            let status = self.endpoint.status(now, session)?;
            Some((session, status))
        });
        let Some((session, status)) = status else { return Look::default() };
        let names = self.link_names(session, &status.paths);
        let is_own_line = self.is_own_line(place, &status.paths);
        let (autopilot, twin) = (self.autopilot_trouble(now, place), self.twin_of(place));
        let is_full = status.queue_free_percent <= LITTLE_ROOM;
        let seen = |(path, name): (&PathStatus, String)| Seen {
            path: path.id,
            name,
            works: path.state == PathState::Active && state.connected_at.is_some(),
            loses: Some(path.loss.max(path.loss_in)).filter(|loss| *loss >= MUCH_LOSS),
        };
        let stands_by =
            |path: &PathStatus| self.stands_by(PathRef { session, path: path.id }, path);
        let links = status.paths.iter().zip(names).filter(|(path, _)| !stands_by(path));
        let links = links.map(seen).collect();
        Look { is_full, is_own_line, autopilot, twin, links }
    }

    /// Tells whether all links of a station's peer, which come in by one interface, fell at one
    /// moment, and no other peer is reached: then it is the station's own line that fell, or the
    /// drone has no power.
    fn is_own_line(&self, place: usize, paths: &[PathStatus]) -> bool {
        let works = |state: PathState| state == PathState::Active;
        let [first, _, ..] = paths else { return false };
        let of_one_interface = paths.iter().all(|path| path.interface == first.interface);
        if self.config.role == Role::Drone
            || !of_one_interface
            || paths.iter().any(|path| works(path.state))
        {
            return false;
        }
        let others = self.peers.iter().enumerate().filter(|(other, _)| *other != place);
        let mut sessions = others.filter_map(|(_, peer)| peer.connected());
        let is_reached = |session| self.endpoint.paths(session).any(|path| works(path.state));
        fell_at_once(paths) && !sessions.any(is_reached)
    }

    /// Names links as a pilot knows them: as the drone's file does, which its station is told;
    /// before that, by the `[[listen]]`, the interface or the address that they come in by,
    /// whichever tells them apart first.
    fn link_names(&self, session: SessionId, paths: &[PathStatus]) -> Vec<String> {
        let own = |path: &PathStatus| self.path_name(PathRef { session, path: path.id });
        let own: Vec<String> = paths.iter().map(own).collect();
        let told = |path: &PathStatus| link_name(&self.endpoint, session, path.id).is_some();
        if self.config.role == Role::Drone || paths.iter().all(told) {
            return own;
        }
        let listen = |path: &PathStatus| {
            let (slot, _) = self.sockets.place(path.interface)?;
            let name = self.sockets.list.get(&slot)?.name.clone();
            // One that the file does not name is called after its address.
            name.parse::<SocketAddr>().is_err().then_some(name)
        };
        let ways = [
            paths.iter().map(|path| listen(path).unwrap_or_default()).collect(),
            paths.iter().map(|path| self.interface_name(path.interface)).collect(),
            own.iter().map(|address| host(address)).collect(),
        ];
        let named = |(at, own): (usize, &String)| {
            let tells_apart = |names: &&Vec<String>| {
                let is_one = names.iter().filter(|name| **name == names[at]).count() == 1;
                is_one && !names[at].is_empty()
            };
            ways.iter().find(tells_apart).map_or_else(|| own.clone(), |names| names[at].clone())
        };
        own.iter().enumerate().map(named).collect()
    }
}

/// Tells whether all fell within [`TOGETHER`], by when each was suspected or by when each was heard
/// last: an idle link is heard but once a second.
fn fell_at_once(paths: &[PathStatus]) -> bool {
    let is_one_moment = |since: fn(&PathStatus) -> Option<Duration>| {
        let times: Option<Vec<Duration>> = paths.iter().map(since).collect();
        let Some(times) = times else { return false };
        let (least, most) = (times.iter().min(), times.iter().max());
        least.zip(most).is_some_and(|(least, most)| *most - *least <= TOGETHER)
    };
    is_one_moment(|path| path.suspected_for) || is_one_moment(|path| path.silent_for)
}

/// Returns the address of an address and port: a pilot has no use for the latter.
fn host(address: &str) -> String {
    let parsed = address.parse::<SocketAddr>();
    parsed.map_or_else(|_| address.to_owned(), |address| address.ip().to_string())
}
