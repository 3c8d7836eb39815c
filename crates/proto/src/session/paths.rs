//! The coming and going of paths, and what the session does when one changes.

use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{Drawn, Role, Session, SessionConfig};
use crate::delivery::Outlook;
use crate::event::{Event, PathState};
use crate::ids::{InterfaceId, PathId};
use crate::limits;
use crate::path::{BulkRole, Outcome, Path, PathUse, RelayRoom, Route};
use crate::recovery::Receipt;
use crate::rejection::Rejection;
use crate::select::Tier;
use crate::via::{RelayId, Via};
use crate::wire::PathUseFrame;

/// Says why a path was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The session has as many paths as it may, or has used up the 256 numbers that it can give.
    TooMany,
    /// There is no such session (any more).
    NoSession,
}

/// A path whose end here has another address: the peer is to be told by another path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readdressed {
    pub(super) path: PathId,
    pub(super) address: SocketAddr,
    /// It is to be said, or said again.
    pub(super) waits: bool,
}

impl Session {
    /// Opens a path from a local interface to the peer's address.
    pub(crate) fn add_path(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        remote: Via,
    ) -> Result<PathId, PathError> {
        if self.paths.len() >= limits::PATHS {
            return Err(PathError::TooMany);
        }
        let id = PathId(u8::try_from(self.next_path).map_err(|_| PathError::TooMany)?);
        self.next_path += 1;
        self.insert_path(now, id, Route { interface, local: None, remote });
        Ok(id)
    }

    /// Returns how many numbers are left for paths that are opened here.
    pub(crate) fn path_numbers_left(&self) -> usize {
        usize::from(u8::MAX) + 1 - usize::from(self.next_path)
    }

    /// Takes what the operator says of the use of a path.
    pub(crate) fn set_path_use(&mut self, now: Instant, id: PathId, usage: PathUse) {
        if let Some(path) = self.path_mut(id) {
            path.set_usage(usage);
        }
        self.after_change(now);
    }

    /// Takes what the initiator's operator says of the use of a path; what makes no sense is
    /// dropped.
    pub(super) fn handle_path_use(&mut self, frame: &PathUseFrame) {
        let is_ours = self.role == Role::Responder;
        let usage = PathUse::from_wire(frame.flags, frame.cost).filter(|_| is_ours);
        let reason = match (usage, self.path_mut(frame.path)) {
            (None, _) => Rejection::Malformed,
            (_, None) => Rejection::UnknownPath,
            (Some(usage), Some(path)) => return path.on_usage(frame.change, usage),
        };
        self.rejected.count(reason);
    }

    /// Gives up a path for good; the peer is told by another one.
    pub(crate) fn remove_path(&mut self, now: Instant, id: PathId) {
        if self.path(id).is_some() {
            self.close_path(now, id);
            self.closed_paths.push(id);
        }
    }

    /// Notes that the interface of a path is there or not.
    pub(crate) fn set_present(&mut self, now: Instant, id: PathId, present: bool) {
        if let Some(path) = self.path_mut(id) {
            let outcome = path.set_present(now, present);
            self.apply(now, id, outcome);
        }
        self.after_change(now);
    }

    /// Takes the address of a path as proved: a handshake succeeded by it, and its last answer
    /// `took` so long at most. Where it `moves`, a path goes to its candidate by that as well.
    pub(crate) fn confirm_address(
        &mut self,
        now: Instant,
        (interface, remote): (InterfaceId, Via),
        took: Duration,
        moves: bool,
    ) {
        let leads_there =
            |route: Route| route.interface == interface && route.remote.is_same(remote);
        let own = self.paths.iter().position(|path| leads_there(path.route()));
        let is_candidate = |path: &Path| path.candidate().is_some_and(leads_there);
        let candidate = self.paths.iter().position(is_candidate);
        let confirmed = match (own, candidate) {
            (Some(index), _) => Some((index, self.paths[index].confirm_address(now, took))),
            (None, Some(index)) if moves => {
                Some((index, self.paths[index].confirm_candidate(now, took)))
            }
            (None, _) => None,
        };
        if let Some((index, outcome)) = confirmed {
            self.apply(now, self.paths[index].id(), outcome);
        }
        self.after_change(now);
    }

    /// Looks for the peer's end of a path at another address as well.
    pub(crate) fn suggest(&mut self, now: Instant, id: PathId, remote: Via) {
        if let Some(path) = self.path_mut(id) {
            let news = path.suggest(now, remote);
            self.routes_changed |= news;
        }
        self.after_change(now);
    }

    /// Takes the peer's word that its end of a path has another address: the path is tried there.
    pub(super) fn handle_path_address(&mut self, now: Instant, id: PathId, address: SocketAddr) {
        let Some(path) = self.path(id).filter(|_| self.role == Role::Initiator) else { return };
        let Some(remote) = path.route().remote.readdressed(address) else {
            self.rejected.count(Rejection::Malformed);
            return;
        };
        self.suggest(now, id, remote);
        self.events.push_back(Event::PathTold { path: id, remote });
    }

    /// Sends from another address of this host where the one used is gone: `moved` knows it. The
    /// peer is told by another path as well, since what comes from there may be kept from it. Tells
    /// whether there is any such path.
    pub(crate) fn move_local(
        &mut self,
        now: Instant,
        moved: impl Fn(InterfaceId, IpAddr) -> Option<SocketAddr>,
    ) -> bool {
        let mut any = false;
        for path in self.paths.iter_mut() {
            let Route { interface, local, .. } = path.route();
            if let Some(address) = local.and_then(|local| moved(interface, local)) {
                path.set_local(address.ip());
                let path = path.id();
                self.readdressed.retain(|known| known.path != path);
                self.readdressed.push(Readdressed { path, address, waits: true });
                any = true;
            }
        }
        if any {
            self.after_change(now);
        }
        any
    }

    /// Notes that the peer was told, or that what told it was lost.
    pub(super) fn on_address_told(&mut self, id: PathId, arrived: bool) {
        // What waits is news since.
        self.readdressed.retain(|known| known.path != id || !arrived || known.waits);
        self.readdressed.iter_mut().filter(|known| known.path == id).for_each(|known| {
            known.waits = true;
        });
    }

    /// Tells whether the handshake has to look where the paths lead.
    pub(crate) fn take_routes_changed(&mut self) -> bool {
        std::mem::take(&mut self.routes_changed)
    }

    /// Returns where the paths lead, or may, whose interface is there.
    pub(crate) fn routes(&self) -> SmallVec<[(PathId, Route); 4]> {
        let present = self.paths.iter().filter(|path| path.state() != PathState::Absent);
        let routes = |path: &Path| {
            let routes = [Some(path.route()), path.candidate()].into_iter().flatten();
            routes.map(|route| (path.id(), route)).collect::<SmallVec<[_; 2]>>()
        };
        present.flat_map(routes).collect()
    }

    /// Makes a session without keys and memory in the place of this one, over the same paths.
    pub(crate) fn successor(&self, config: &SessionConfig, drawn: Drawn, now: Instant) -> Self {
        let mut successor = Self::new(
            self.id,
            self.peer,
            self.role,
            config,
            drawn,
            (self.account.successor(), now),
        );
        successor.notes = self.notes.successor();
        successor.next_path = self.next_path;
        successor.sent_last = self.sent_last;
        for path in self.paths.iter() {
            successor.insert_path(now, path.id(), path.route());
            successor.set_path_use(now, path.id(), path.usage());
            if path.state() == PathState::Absent {
                successor.set_present(now, path.id(), false);
            }
        }
        successor
    }

    /// Notes that the socket of an interface, or the one for an address behind it, takes nothing
    /// for now, or takes datagrams again: its paths stay what they are, but nothing is bound to
    /// them meanwhile. Tells whether that is news.
    pub(crate) fn set_blocked(
        &mut self,
        interface: InterfaceId,
        remote: Option<Via>,
        blocked: bool,
    ) -> bool {
        let is_news = self.paths.set_blocked((interface, remote), blocked);
        // A backup may have to be called a while later.
        self.paths.assign(self.now);
        is_news
    }

    /// Learns what a gateway takes; tells whether one of the paths is its.
    pub(crate) fn set_relay_room(&mut self, relay: RelayId, room: RelayRoom) -> bool {
        let mut is_any = false;
        for index in 0..self.paths.len() {
            if self.paths[index].route().remote == Via::Relay(relay) {
                self.paths[index].set_relay_room(room);
                is_any = true;
            }
        }
        is_any
    }

    /// Learns that a connection has ended that a path went by: it is absent until it comes by
    /// another one.
    pub(crate) fn on_stream_ended(&mut self, now: Instant, remote: Via) {
        for index in 0..self.paths.len() {
            if self.paths[index].route().remote == remote {
                let (id, outcome) =
                    (self.paths[index].id(), self.paths[index].on_stream_ended(now));
                self.apply(now, id, outcome);
            }
        }
        self.after_change(now);
    }

    /// Learns how long IP packets are that the interfaces of paths carry, where that is known.
    pub(crate) fn set_interface_mtus(
        &mut self,
        now: Instant,
        mtu: impl Fn(InterfaceId) -> Option<usize>,
    ) {
        for path in self.paths.iter_mut() {
            if let Some(mtu) = mtu(path.route().interface) {
                path.set_interface_mtu(now, mtu);
            }
        }
    }

    /// Learns what a gateway says has become of a packet.
    pub(crate) fn on_relay_fate(&mut self, now: Instant, id: PathId, number: u64, arrived: bool) {
        if let Some(path) = self.path_mut(id) {
            let outcome = path.on_relay_fate(now, number, arrived);
            self.apply(now, id, outcome);
            self.after_change(now);
        }
    }

    /// Notes that a datagram has not left: the kernel refused it.
    pub(crate) fn on_unsent(&mut self, id: PathId, number: u64) {
        if let Some(path) = self.path_mut(id) {
            let outcome = path.on_unsent(number);
            if !outcome.lost.is_empty() {
                self.apply(self.now, id, outcome);
                self.after_change(self.now);
            }
        }
    }

    pub(super) fn insert_path(&mut self, now: Instant, id: PathId, route: Route) {
        let seed = self.rng.next_u64();
        self.paths.push(Path::new(now, id, route, self.path_config, seed));
        self.events.push_back(Event::PathAdded { path: id, remote: route.remote });
        self.after_change(now);
    }

    pub(super) fn close_path(&mut self, now: Instant, id: PathId) {
        if let Some(path) = self.path_mut(id) {
            let outcome = path.close(now);
            self.apply(now, id, outcome);
            for frames in self.cutter.drop_path(id) {
                self.on_frames_lost(now, id, false, &frames);
            }
            self.paths.remove(id);
            self.retired.insert(id);
            self.readdressed.retain(|known| known.path != id);
        }
        self.after_change(now);
    }

    /// Passes on what an input or a timeout of a path has brought to its end.
    pub(super) fn apply(&mut self, now: Instant, id: PathId, outcome: Outcome) {
        if let Some((from, to)) = outcome.changed {
            self.events.push_back(Event::PathChanged { path: id, from, to });
        }
        if outcome.cheated {
            self.farewell(now, "the peer acknowledges what was never sent");
        }
        self.routes_changed |= outcome.moved;
        if outcome.moved
            && let Some(path) = self.path(id)
        {
            self.events.push_back(Event::PathMoved { path: id, remote: path.route().remote });
        }
        if let Some(sample) = outcome.clock
            && self.clock.on_sample(now, sample)
        {
            self.events.push_back(Event::ClockStepped);
        }
        if !outcome.acked.is_empty() {
            let arrived = self.clock.by_ours(now, outcome.received_at_us);
            for packet in &outcome.acked {
                let sent_at = packet.sent_at;
                self.answered = self.answered.max(Some(sent_at));
                let earlier = outcome.repeats_lost.map_or(Duration::ZERO, |at| at.since(sent_at));
                let arrived =
                    arrived.map(|(at, error)| (at.max(sent_at + earlier) - earlier, error));
                self.on_frames_acked(&packet.frames, &Receipt { now, path: id, sent_at, arrived });
            }
        }
        for packet in &outcome.lost {
            self.on_frames_lost(now, id, packet.counts, &packet.frames);
        }
    }

    /// Brings what depends on the paths up to date, and passes on what became ready.
    pub(super) fn after_change(&mut self, now: Instant) {
        self.now = now;
        let largest = self.paths.active().map(Path::longest_datagram).max();
        self.largest_datagram = largest.unwrap_or(self.largest_datagram);
        self.paths.set_target_calls(self.deliveries.needs_backups());
        self.paths.assign(now);
        for (path, call) in self.paths.take_call_news() {
            self.events.push_back(match call {
                Some(call) => Event::BackupCalled { path, call },
                None => Event::BackupRests { path },
            });
        }
        self.choose_free_path(now);
        let replicates = self.scheduler.replicates();
        let changed = self.paths.take_changed();
        self.deliveries.set_paths(&Outlook { now, paths: &self.paths, changed, replicates });
        self.collect_events();
        self.collect_deliveries();
    }

    /// Lets the path with the best present rate be filled by bulk; the others are sanctuaries.
    fn choose_free_path(&mut self, now: Instant) {
        let candidates =
            self.paths.active_for(Tier::Bulk).map(|path| (path.fitness(now), path.id()));
        let free = candidates.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        for index in 0..self.paths.len() {
            let is_free = free.is_none_or(|(_, id)| id == self.paths[index].id());
            let role = if is_free { BulkRole::Free } else { BulkRole::Sanctuary };
            if self.paths[index].bulk_role() != role {
                self.paths[index].set_bulk_role(role);
            }
        }
    }
}
