//! A drone's paths: which link each has, and how one goes that the file no longer has.
//!
//! A path that goes stays until another of its session carries what it carried: whoever moves the
//! vehicle from one link to another does not want the moment between.

use proto::{Duration, Instant, PathRef, PathState, Via};

use super::Daemon;
use super::open::{Way, open_path};
use super::relays::{interface_id, relay_id};
use super::renewal::Renewal;
use super::streams::Watched;
use crate::config::{Carrier, MAX_SOCKETS, PathConfig};
use crate::knock::Knock;

/// How long a path that goes stays at least: what is under way to us by it arrives, and the other
/// end begins to use the one in its place.
const LEAVES_AFTER: Duration = Duration::from_secs(1);
/// How long it stays at most, where no other path works: it is no longer wanted.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// A path of a drone, known by the slot of its socket; one over relays has a number beyond those.
pub(super) struct DronePath {
    pub(super) config: PathConfig,
    /// None until an address of its peer is known.
    pub(super) path: Option<PathRef>,
    /// Since when the file no longer has it.
    pub(super) leaving: Option<Instant>,
    /// When it sends from another port.
    pub(super) renewal: Renewal,
    /// What is asked at its address while nothing comes from there.
    pub(super) knock: Option<Knock>,
    /// How the path is that it stands in for.
    pub(super) watched: Watched,
}

impl Daemon {
    /// Makes a path known; its socket opens with the next look at the interfaces.
    pub(super) fn add_path(&mut self, path: &PathConfig) {
        let slot = if path.relay.is_some() {
            self.next_relayed_slot += 1;
            MAX_SOCKETS + self.next_relayed_slot
        } else {
            let Some(slot) = self.sockets.add_path(path) else {
                tracing::error!(path = %path.name, "path not opened: too many sockets");
                return;
            };
            self.remotes.add(slot, path);
            slot
        };
        let config = path.clone();
        let (path, leaving, renewal, knock, watched) = Default::default();
        self.paths.insert(slot, DronePath { config, path, leaving, renewal, knock, watched });
    }

    /// Opens the paths whose session has begun, or begun anew, and whose peer's address is known.
    pub(super) fn open_missing_paths(&mut self, now: Instant) {
        let Self { paths, peers, remotes, relays, streams, endpoint, sockets, .. } = self;
        for (slot, path) in paths.iter_mut().filter(|(_, path)| path.leaving.is_none()) {
            let Some(session) = peers[path.config.peer].session else { continue };
            let way = match path.config.relay {
                Some(place) => Way {
                    interface: interface_id(place),
                    remote: Via::Relay(relay_id(place)),
                    is_there: relays.is_there(place),
                },
                None => {
                    let Some(remote) = remotes.first(*slot) else { continue };
                    let interface = sockets.interface_id(*slot, 0);
                    if path.config.carrier == Carrier::Tcp {
                        let beside = path.config.beside.as_ref();
                        let stands_in = beside.is_some_and(|beside| beside.stands_in);
                        let remote = streams.add_dial(*slot, remote, stands_in);
                        let is_there = streams.is_carried(*slot);
                        Way { interface, remote: Via::Stream(remote), is_there }
                    } else {
                        let socket = sockets.list.get(slot);
                        let is_there = socket.is_some_and(|socket| socket.udp.is_some());
                        Way { interface, remote: Via::Udp(remote), is_there }
                    }
                }
            };
            if path.path.is_none_or(|known| known.session != session) {
                path.path = open_path(now, (&path.config, way), session, endpoint);
                relays.tell_again();
            }
        }
    }

    /// Closes the paths whose time has come, of those that go.
    pub(super) fn close_leaving_paths(&mut self, now: Instant) {
        let is_over = |since: Instant, path: Option<PathRef>| {
            let age = now.since(since);
            let is_replaced = path.is_none_or(|path| self.is_replaced(path));
            age >= GONE_AFTER || (age >= LEAVES_AFTER && is_replaced)
        };
        let over: Vec<usize> = (self.paths.iter())
            .filter(|(_, path)| path.leaving.is_some_and(|since| is_over(since, path.path)))
            .map(|(slot, _)| *slot)
            .collect();
        over.into_iter().for_each(|slot| self.close_path(now, slot));
    }

    /// Closes all paths that go.
    pub(super) fn close_all_leaving_paths(&mut self, now: Instant) {
        let leaving = self.paths.iter().filter(|(_, path)| path.leaving.is_some());
        let slots: Vec<usize> = leaving.map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.close_path(now, slot));
    }

    /// Forgets a link: its socket and what waits there.
    pub(super) fn close_link(&mut self, now: Instant, slot: usize) {
        self.batches.forget(slot);
        self.close_streams(now, slot);
        self.streams.remove_dial(slot);
        self.sockets.remove(slot);
        self.follow_blocked();
    }

    fn close_path(&mut self, now: Instant, slot: usize) {
        let Some(path) = self.paths.remove(&slot) else { return };
        if let Some(known) = path.path {
            self.endpoint.remove_path(now, known.session, known.path);
        }
        tracing::info!(path = %path.config.name, "path closed: the file no longer has it");
        self.remotes.remove(slot);
        self.close_link(now, slot);
    }

    /// Tells whether another path of the session that stays carries traffic; or there is no such
    /// session any more.
    fn is_replaced(&self, path: PathRef) -> bool {
        if self.peer_of(path.session).is_none() {
            return true;
        }
        let stays = |id| {
            let known = Some(PathRef { session: path.session, path: id });
            self.paths.values().any(|other| other.path == known && other.leaving.is_none())
        };
        let mut paths = self.endpoint.paths(path.session);
        paths.any(|known| known.state == PathState::Active && stays(known.id))
    }
}
