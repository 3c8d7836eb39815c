//! The table of sessions: which peer, which keys, and who has to ask for new ones.
//!
//! An initiator's session keeps its name for ever: when its peer has lost the other half, what was
//! in flight is reported and the session starts again under the same name, with the same paths. A
//! responder's session ends when its peer comes back with another one.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use units::Instant;

use super::initiator::Initiator;
use crate::crypto::EpochKeys;
use crate::ids::{PathId, PeerId, SessionId, Transmit};
use crate::limits;
use crate::session::Session;

/// Holds one session and what the endpoint knows about it.
pub(super) struct Slot {
    /// Who is at the other end.
    pub(super) peer: PeerId,
    /// Names the session to the peer; a handshake that repeats it continues the session.
    pub(super) nonce: u64,
    /// The session.
    pub(super) session: Session,
    /// Asks for keys; a responder's session has none.
    pub(super) initiator: Option<Initiator>,
    /// True when the application has closed it.
    pub(super) closed: bool,
    /// When it was asked for a sign of life, because another one came with its peer's key.
    pub(super) asked_at: Option<Instant>,
    sent_last: PathId,
}

impl Slot {
    /// Starts without keys.
    pub(super) fn new(
        peer: PeerId,
        nonce: u64,
        session: Session,
        initiator: Option<Initiator>,
    ) -> Self {
        Self {
            peer,
            nonce,
            session,
            initiator,
            closed: false,
            asked_at: None,
            sent_last: PathId(0),
        }
    }

    /// Writes the next datagram of any path: the paths take turns, so that no path's bulk delays
    /// another one's control.
    pub(super) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let paths = self.session.path_ids();
        let first = paths.iter().position(|path| *path > self.sent_last).unwrap_or(0);
        for path in paths[first..].iter().chain(&paths[..first]) {
            let transmit = self.session.poll_transmit(now, *path, limits::MAX_DATAGRAM, buf);
            if transmit.is_some() {
                self.sent_last = *path;
                return transmit;
            }
        }
        None
    }

    /// Tells the initiator which paths it may try.
    pub(super) fn follow_paths(&mut self, now: Instant) {
        if let Some(initiator) = &mut self.initiator {
            initiator.follow(now, &self.session.routes());
        }
    }

    /// Returns true when an Initiation is to be sent now.
    pub(super) fn is_asking_due(&self, now: Instant) -> bool {
        self.asks_at(now).is_some_and(|at| at <= now)
    }

    /// Returns true when a handshake is under way that nobody needs any more.
    pub(super) fn is_done_asking(&self, now: Instant) -> bool {
        let under_way = self.initiator.as_ref().is_some_and(|one| one.indices().next().is_some());
        under_way && !self.wants_keys(now)
    }

    /// Returns when the session or its handshake has to be attended to.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        [self.session.timeout(), self.asks_at(now)].into_iter().flatten().min()
    }

    fn asks_at(&self, now: Instant) -> Option<Instant> {
        self.initiator.as_ref().filter(|_| self.wants_keys(now))?.timeout()
    }

    fn wants_keys(&self, now: Instant) -> bool {
        !self.closed && (!self.session.is_connected() || self.session.rekey_due(now))
    }
}

/// Says what is known of the session that a peer has, while it begins another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// It has been asked for a sign of life, and may still give one.
    Asked {
        /// Then it counts as gone.
        until: Instant,
    },
    /// It has given one.
    Lives,
}

/// Holds all sessions of an endpoint, by name and by index.
#[derive(Default)]
pub(super) struct Sessions {
    slots: BTreeMap<SessionId, Slot>,
    /// Indices of keys in use and of handshakes under way.
    indices: BTreeMap<u32, SessionId>,
    next: u32,
}

impl Sessions {
    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the sizes of the tables.
    #[cfg(test)]
    pub(super) fn table_sizes(&self) -> [usize; 2] {
        [self.slots.len(), self.indices.len()]
    }

    /// Gives the name of the next session.
    pub(super) fn next_id(&mut self) -> SessionId {
        self.next += 1;
        SessionId(self.next)
    }

    /// Adds a session.
    pub(super) fn insert(&mut self, id: SessionId, slot: Slot) {
        self.slots.insert(id, slot);
    }

    /// Removes a session and every index of it.
    pub(super) fn remove(&mut self, id: SessionId) {
        self.slots.remove(&id);
        self.indices.retain(|_, owner| *owner != id);
    }

    /// Returns a session.
    pub(super) fn get(&self, id: SessionId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    /// Returns a session.
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Slot> {
        self.slots.get_mut(&id)
    }

    /// Walks the sessions in the order in which they were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    /// Walks the sessions in the order in which they were made.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Slot)> {
        self.slots.iter_mut().map(|(id, slot)| (*id, slot))
    }

    /// Returns the names of the sessions, those after `last` first.
    pub(super) fn ids_after(&self, last: SessionId) -> Vec<SessionId> {
        let after = self.slots.range(SessionId(last.0.saturating_add(1))..);
        after.chain(self.slots.range(..=last)).map(|(id, _)| *id).collect()
    }

    /// Returns the session that owns an index.
    pub(super) fn owner(&self, index: u32) -> Option<SessionId> {
        self.indices.get(&index).copied()
    }

    /// Returns the session in which `peer` is the initiator.
    pub(super) fn begun_by(&self, peer: PeerId) -> Option<SessionId> {
        self.find(|slot| slot.peer == peer && slot.initiator.is_none())
    }

    /// Looks at the session that a peer has while it begins another one: a restarted peer leaves a dead
    /// one behind, and a second daemon with the same key must not drive out the first.
    /// A moment is named until which the old one may still answer.
    pub(super) fn rival(&mut self, now: Instant, peer: PeerId, nonce: u64) -> Option<Rival> {
        let id = self.begun_by(peer)?;
        let slot = self.get_mut(id)?;
        if slot.nonce == nonce || slot.session.is_ended() {
            return None;
        }
        let old = |asked_at: &Instant| now.since(*asked_at) >= limits::TURNED_AWAY;
        if slot.asked_at.is_none_or(|asked_at| old(&asked_at)) {
            slot.asked_at = Some(now);
            slot.session.ask_for_life();
        }
        let asked_at = slot.asked_at.unwrap_or(now);
        match slot.session.lives(now, asked_at) {
            None => Some(Rival::Asked { until: asked_at + slot.session.patience() }),
            Some(true) => Some(Rival::Lives),
            Some(false) => None,
        }
    }

    /// Returns the session in which `peer` is the responder, unless it was closed.
    pub(super) fn begun_with(&self, peer: PeerId) -> Option<SessionId> {
        self.find(|slot| slot.peer == peer && slot.initiator.is_some() && !slot.closed)
    }

    /// Gives an index to a handshake of a session.
    pub(super) fn claim(&mut self, index: u32, id: SessionId) {
        self.indices.insert(index, id);
    }

    /// Takes an index back.
    pub(super) fn release(&mut self, index: u32) {
        self.indices.remove(&index);
    }

    /// Installs keys; the keys before those before them lose their index.
    pub(super) fn install(&mut self, now: Instant, id: SessionId, keys: EpochKeys) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let old: SmallVec<[u32; 2]> = slot.session.key_indices().collect();
        self.indices.insert(keys.local_index, id);
        slot.session.install_keys(now, keys);
        let kept: SmallVec<[u32; 2]> = slot.session.key_indices().collect();
        for index in old.iter().filter(|index| !kept.contains(index)) {
            self.indices.remove(index);
        }
    }

    fn find(&self, is_it: impl Fn(&Slot) -> bool) -> Option<SessionId> {
        self.iter().find(|(_, slot)| is_it(slot)).map(|(id, _)| id)
    }
}
