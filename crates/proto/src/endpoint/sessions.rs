//! The table of sessions: which peer, which keys, and who has to ask for new ones.
//!
//! An initiator's session keeps its name for ever: when its peer has lost the other half, what was
//! in flight is reported and the session starts again under the same name, with the same paths. A
//! responder's session ends when its peer comes back with another one.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::due::{Due, Marks, mark, order, order_by, until};
use super::initiator::Initiator;
use super::responder::Sources;
use crate::crypto::EpochKeys;
use crate::event::{Delivery, Event};
use crate::ids::{PeerId, SessionId, Transmit};
use crate::limits;
use crate::session::Session;
use crate::via::Via;

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
    /// What the last handshake has proved.
    pub(super) proved: Option<Proved>,
    marks: Marks,
}

/// Addresses that a handshake has proved and nothing has come from since.
pub(super) struct Proved {
    pub(super) sources: Sources,
    /// When its Response was made, and whether Responses were lost.
    pub(super) responded_at: Instant,
    pub(super) are_lost: bool,
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
            proved: None,
            marks: Marks::default(),
        }
    }

    /// Returns what waits for an answer to the Initiation of this index.
    pub(super) fn initiator_of(&mut self, index: u32) -> Option<&mut Initiator> {
        self.initiator.as_mut().filter(|initiator| initiator.expects(index))
    }

    /// Tells the initiator which paths it may try.
    pub(super) fn follow_paths(&mut self, now: Instant) {
        if let Some(initiator) = &mut self.initiator {
            initiator.follow(now, &self.session.routes());
        }
    }

    /// Returns when an Initiation is to be sent, if nothing comes in until then.
    fn asks_from(&self) -> Option<Instant> {
        Some(self.initiator.as_ref()?.timeout()?.max(self.wants_keys_from()?))
    }

    /// Returns true when a handshake is under way that nobody needs any more.
    pub(super) fn is_done_asking(&self, now: Instant) -> bool {
        let under_way = self.initiator.as_ref().is_some_and(|one| one.indices().next().is_some());
        under_way && !self.wants_keys(now)
    }

    /// When the first datagram has come from an address since a handshake has proved it: tells how
    /// long a round trip there takes at most; zero where that is not known, as Responses were lost.
    pub(super) fn take_proof(&mut self, now: Instant, source: Via) -> Option<Duration> {
        let recent = |at: Instant| now.since(at) < limits::OLD_KEYS_KEPT;
        let proved = self.proved.as_mut().filter(|proved| recent(proved.responded_at))?;
        let place = proved.sources.iter().position(|known| *known == source)?;
        proved.sources.remove(place);
        Some(if proved.are_lost { Duration::ZERO } else { now.since(proved.responded_at) })
    }

    /// Returns when the session or its handshake has to be attended to.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        let asks = self.asks_at(now, self.wants_keys_from());
        self.session.timeout().into_iter().chain(asks).min()
    }

    fn asks_at(&self, now: Instant, wants_from: Option<Instant>) -> Option<Instant> {
        let wants = wants_from.is_some_and(|from| from <= now);
        self.initiator.as_ref().filter(|_| wants)?.timeout()
    }

    fn wants_keys(&self, now: Instant) -> bool {
        self.wants_keys_from().is_some_and(|from| from <= now)
    }

    fn wants_keys_from(&self) -> Option<Instant> {
        match self.session.is_connected() {
            _ if self.closed || self.initiator.is_none() => None,
            true => self.session.rekey_from(),
            false => Some(Instant::ZERO),
        }
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
    of_peer: BTreeSet<(PeerId, SessionId)>,
    due: Due,
    /// The session that sent last; the others come first.
    sent_last: Option<SessionId>,
    next: u32,
    /// How often any session was looked at.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Sessions {
    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the sizes of the tables.
    #[cfg(test)]
    pub(super) fn table_sizes(&self) -> [usize; 3] {
        [self.slots.len(), self.indices.len(), self.of_peer.len()]
    }

    /// Gives the name of the next session.
    pub(super) fn next_id(&mut self) -> SessionId {
        self.next += 1;
        SessionId(self.next)
    }

    /// Adds a session.
    pub(super) fn insert(&mut self, id: SessionId, slot: Slot) {
        self.of_peer.insert((slot.peer, id));
        let slot = self.slots.entry(id).or_insert(slot);
        self.due.touch(id, &mut slot.marks);
    }

    /// Removes a session and every index of it.
    pub(super) fn remove(&mut self, id: SessionId) {
        if let Some(mut slot) = self.slots.remove(&id) {
            self.of_peer.remove(&(slot.peer, id));
            self.due.remove(id, &mut slot.marks);
        }
        self.indices.retain(|_, owner| *owner != id);
    }

    /// Returns a session.
    pub(super) fn get(&self, id: SessionId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    /// Returns a session for an input.
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(&id)?;
        self.due.touch(id, &mut slot.marks);
        Some(slot)
    }

    /// Walks the sessions in the order in which they were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    /// Gives an input to every session; `give` tells whether it changed anything.
    pub(super) fn give_all(&mut self, mut give: impl FnMut(&mut Slot) -> bool) {
        for (id, slot) in &mut self.slots {
            if give(slot) {
                self.due.touch(*id, &mut slot.marks);
            }
        }
    }

    /// Writes the next datagram of any session: they take turns.
    pub(super) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.look(now);
        let mut place = self.sent_last.and_then(|last| self.due.senders.after(last));
        let mut turned = false;
        loop {
            let id = match place {
                Some(id) => id,
                None if turned => return None,
                None => {
                    turned = true;
                    self.due.senders.first()?
                }
            };
            let transmit =
                self.slots.get_mut(&id).and_then(|slot| slot.session.poll_transmit(now, buf));
            if transmit.is_some() {
                self.look_at(now, id);
                self.sent_last = Some(id);
                return transmit;
            }
            self.has_nothing(id);
            place = self.due.senders.after(id);
        }
    }

    /// Returns what happened next.
    pub(super) fn poll_event(&mut self, now: Instant) -> Option<(SessionId, Event)> {
        self.look(now);
        let id = self.due.talkers.first()?;
        let slot = self.slots.get_mut(&id)?;
        let event = slot.session.poll_event();
        mark(&mut self.due.talkers, id, &mut slot.marks.talks, slot.session.has_events());
        event.map(|event| (id, event))
    }

    /// Returns what the application is to get next.
    pub(super) fn poll_delivery(&mut self, now: Instant) -> Option<Delivery> {
        self.look(now);
        let id = self.due.givers.first()?;
        self.poll_delivery_of(id)
    }

    /// Returns what the application is to get next of one session.
    pub(super) fn poll_delivery_of(&mut self, id: SessionId) -> Option<Delivery> {
        let slot = self.slots.get_mut(&id)?;
        let delivery = slot.session.poll_delivery();
        mark(&mut self.due.givers, id, &mut slot.marks.gives, slot.session.has_deliveries());
        delivery
    }

    /// Returns when the first session or handshake has to be attended to.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        if let Some(known) = self.due.first_timer(now) {
            return known;
        }
        let unknown = self.due.unknown(now).filter_map(|id| self.slots.get(&id)?.timeout(now));
        let is_timed = |id: &SessionId| self.slots.get(id).is_some_and(|it| it.marks.is_timed());
        let known = self.due.timers.iter().find(|(_, id)| is_timed(id)).map(|(at, _)| *at);
        unknown.chain(known).min()
    }

    /// Lets time pass for those that have waited for it: [`limits::TIMERS_A_TURN`] at most, which
    /// have waited longest.
    ///
    /// Of what came in before its moment was noticed a session hears first: a process that stood
    /// still for a while would take all its paths for silent otherwise. `waits_since` tells when
    /// the oldest of that came in.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        waits_since: impl Fn(SessionId) -> Option<Instant>,
    ) {
        self.find_timers(now);
        let mut due: SmallVec<[SessionId; limits::TIMERS_A_TURN]> = SmallVec::new();
        for id in until(&self.due.timers, now) {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if slot.marks.own_timer.is_none_or(|timer| timer > now) {
                continue;
            }
            let noticed = *slot.marks.overdue_since.get_or_insert(now);
            if waits_since(id).is_none_or(|since| since > noticed) {
                due.push(id);
            }
            if due.len() == limits::TIMERS_A_TURN {
                break;
            }
        }
        due.sort_unstable();
        for id in due {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.marks.overdue_since = None;
            slot.session.handle_timeout(now);
            self.due.touch(id, &mut slot.marks);
        }
    }

    /// Looks up the timers of those that had an input.
    pub(super) fn find_timers(&mut self, now: Instant) {
        self.look(now);
        while let Some(id) = self.due.next_untimed() {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            let wants_from = slot.wants_keys_from();
            let own = slot.session.timeout();
            let timer = own.into_iter().chain(slot.asks_at(now, wants_from)).min();
            slot.marks.own_timer = own;
            slot.marks.overdue_since.take_if(|_| own.is_none_or(|at| at > now));
            let later = wants_from.filter(|from| *from > now);
            self.due.set_timer(now, id, &mut slot.marks, timer, later);
        }
    }

    /// Returns the next session that has a handshake under way that it does not need any more.
    pub(super) fn done_asking(&mut self, now: Instant) -> Option<SessionId> {
        self.look(now);
        loop {
            let id = self.due.resting.first()?;
            let slot = self.slots.get_mut(&id)?;
            mark(&mut self.due.resting, id, &mut slot.marks.rests, false);
            if slot.is_done_asking(now) {
                return Some(id);
            }
        }
    }

    /// Returns the session that has waited longest for an Initiation to be sent.
    pub(super) fn next_asker(&mut self, now: Instant) -> Option<SessionId> {
        self.look(now);
        loop {
            let id = until(&self.due.askers, now).next()?;
            let slot = self.slots.get_mut(&id)?;
            let (asks_from, known) = (slot.asks_from(), &mut slot.marks.asks_from);
            if *known == asks_from {
                return Some(id);
            }
            order(&mut self.due.askers, id, known, asks_from);
        }
    }

    /// Returns the sessions that are over and of which `is_over` holds.
    pub(super) fn over(&mut self, now: Instant, is_over: fn(&Session) -> bool) -> Vec<SessionId> {
        self.look(now);
        let is_over = |id: &SessionId| self.slots.get(id).is_some_and(|it| is_over(&it.session));
        self.due.ended.iter().filter(is_over).collect()
    }

    /// Returns the session that owns an index.
    pub(super) fn owner(&self, index: u32) -> Option<SessionId> {
        self.indices.get(&index).copied()
    }

    /// Returns the session in which `peer` is the initiator.
    pub(super) fn begun_by(&self, peer: PeerId) -> Option<SessionId> {
        self.find(peer, |slot| slot.initiator.is_none())
    }

    /// Looks at the session that a peer has while it begins another one: a restarted peer leaves a
    /// dead one behind, and a second daemon with the same key must not drive out the first. A
    /// moment is named until which the old one may still answer.
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
        self.find(peer, |slot| slot.initiator.is_some() && !slot.closed)
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
        self.due.touch(id, &mut slot.marks);
        let old: SmallVec<[u32; 2]> = slot.session.key_indices().collect();
        self.indices.insert(keys.local_index, id);
        slot.session.install_keys(now, keys);
        let kept: SmallVec<[u32; 2]> = slot.session.key_indices().collect();
        for index in old.iter().filter(|index| !kept.contains(index)) {
            self.indices.remove(index);
        }
    }

    /// Returns the sessions with a peer.
    pub(super) fn with(&self, peer: PeerId) -> SmallVec<[SessionId; 2]> {
        let all = (peer, SessionId(0))..=(peer, SessionId(u32::MAX));
        self.of_peer.range(all).map(|(_, id)| *id).collect()
    }

    fn find(&self, peer: PeerId, is_it: impl Fn(&Slot) -> bool) -> Option<SessionId> {
        self.with(peer).into_iter().find(|id| self.slots.get(id).is_some_and(&is_it))
    }

    /// Looks at those that had an input: each may have something to send.
    fn look(&mut self, now: Instant) {
        while let Some(id) = self.due.next_changed() {
            self.look_at(now, id);
        }
    }

    /// Notes that a session has nothing to send until its next input.
    fn has_nothing(&mut self, id: SessionId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        mark(&mut self.due.senders, id, &mut slot.marks.sends, false);
        self.due.forget_timer(id, &mut slot.marks);
    }

    /// Finds out what there is to do for a session that may have something to send.
    fn look_at(&mut self, now: Instant, id: SessionId) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let (rests, asks_from) = (slot.is_done_asking(now), slot.asks_from());
        let Slot { session, marks, .. } = slot;
        let due = &mut self.due;
        mark(&mut due.senders, id, &mut marks.sends, true);
        mark(&mut due.talkers, id, &mut marks.talks, session.has_events());
        mark(&mut due.givers, id, &mut marks.gives, session.has_deliveries());
        mark(&mut due.ended, id, &mut marks.ended, session.is_ended());
        mark(&mut due.resting, id, &mut marks.rests, rests);
        order_by(now, &mut due.askers, id, &mut marks.asks_from, asks_from);
        due.forget_timer(id, marks);
    }
}
