//! The way in, in the order of cost: type, index, keys; strangers last.

use std::borrow::Cow;
use std::net::SocketAddr;

use units::{Duration, Instant};

use super::outbound::Answer;
use super::responder::{Screened, Waiting};
use super::sessions::{Proved, Rival, Slot};
use super::turns::Share;
use super::{Endpoint, fresh_index};
use crate::crypto::{
    CookieAnswer, HandshakeError, INITIATION, RefusalAnswer, VersionAnswer, response_receiver,
};
use crate::ids::{PeerId, Received, SessionId};
use crate::limits;
use crate::recovery::ClockSample;
use crate::rejection::Rejection;
use crate::session::Role;
use crate::via::Via;
use crate::wire::{DataHeader, DatagramType, unknown_index};

/// What waits for its turn.
pub(super) enum Job {
    /// A handshake begins.
    Initiation(Received, Vec<u8>),
    /// A session's datagram.
    Data(Data<'static>),
}

/// A datagram that has been opened.
pub(super) struct Data<'a> {
    received: Received,
    header: DataHeader,
    frames: Cow<'a, [u8]>,
    /// Whether this is the first datagram under its keys.
    confirms: bool,
}

impl Endpoint {
    /// Takes in a UDP datagram, in place, and all that waits; what it brought is to be polled
    /// afterwards.
    ///
    /// Never fails: nonsense is counted and forgotten.
    pub fn handle_datagram(&mut self, now: Instant, received: &Received, bytes: &mut [u8]) {
        if self.turns.is_empty() && DatagramType::of(bytes) == Ok(DatagramType::Data) {
            // Nobody waits: it has its turn at once.
            self.now = now;
            self.counters.received += 1;
            if let Some((id, data)) = self.open_data(now, received, bytes) {
                self.handle_data(now, id, &data);
            }
            return;
        }
        self.admit_datagram(now, received, bytes);
        while self.serve(now).is_some() {}
    }

    /// Takes in a UDP datagram, in place, as far as that is cheap; the rest waits for
    /// [`Endpoint::serve`]. Tells whether it is authentic and new: a session's peer has sent it.
    #[inline(never)]
    pub fn admit_datagram(&mut self, now: Instant, received: &Received, bytes: &mut [u8]) -> bool {
        self.now = now;
        self.counters.received += 1;
        match DatagramType::of(bytes) {
            Ok(DatagramType::Data) => return self.admit_data(now, received, bytes),
            Ok(DatagramType::Initiation) => self.admit_initiation(now, received, bytes),
            Ok(DatagramType::Response) => self.handle_response(now, received, bytes),
            Ok(DatagramType::Cookie) => self.handle_cookie(now, received, bytes),
            Ok(DatagramType::Refusal) => self.handle_refusal(bytes),
            Ok(DatagramType::Unknown) => self.handle_unknown(now, bytes),
            Ok(DatagramType::Version) => self.handle_version(now, received, bytes),
            Err(_) => self.counters.garbage += 1,
        }
        false
    }

    /// Handles the oldest datagram of the one that has cost the least, and returns who that is;
    /// none when nothing waits.
    ///
    /// What it took is to be charged afterwards ([`Endpoint::charge`]).
    #[inline(never)]
    pub fn serve(&mut self, now: Instant) -> Option<Share> {
        self.now = now;
        let (share, job) = self.turns.pop(now)?;
        match (share, job) {
            (_, Job::Initiation(received, bytes)) => {
                self.handle_initiation(now, &received, &bytes);
            }
            (Share::Session(id), Job::Data(data)) => self.handle_data(now, id, &data),
            (Share::Handshakes, Job::Data(_)) => {}
        }
        Some(share)
    }

    /// Notes how much processor time a turn has taken, with all that came of it.
    pub fn charge(&mut self, share: Share, cost: Duration) {
        self.turns.charge(share, cost);
    }

    /// Learns that a connection has ended that a session's path went by: the path is absent until
    /// something comes by another one. Of paths that were opened here,
    /// [`Endpoint::set_path_present`] says it.
    pub fn on_stream_ended(&mut self, now: Instant, session: SessionId, remote: SocketAddr) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(session) {
            slot.session.on_stream_ended(now, Via::Stream(remote));
        }
    }

    fn admit_data(&mut self, now: Instant, received: &Received, bytes: &mut [u8]) -> bool {
        // A queue is full of what was authentic: nobody else makes this drop anything.
        if let Ok(header) = DataHeader::decode(bytes)
            && let Some(id) = self.sessions.owner(header.receiver)
            && !self.turns.admits(Share::Session(id), bytes.len())
        {
            return false;
        }
        let len = bytes.len();
        let Some((id, data)) = self.open_data(now, received, bytes) else { return false };
        let data = Data { frames: Cow::Owned(data.frames.into_owned()), ..data };
        self.turns.push(now, Share::Session(id), len, Job::Data(data));
        true
    }

    fn admit_initiation(&mut self, now: Instant, received: &Received, bytes: &[u8]) {
        if !self.accept || bytes.len() != INITIATION {
            self.counters.garbage += 1;
        } else if self.turns.admits(Share::Handshakes, bytes.len()) {
            let job = Job::Initiation(*received, bytes.to_vec());
            self.turns.push(now, Share::Handshakes, bytes.len(), job);
        } else {
            self.counters.rate_limited += 1;
        }
    }

    fn open_data<'a>(
        &mut self,
        now: Instant,
        received: &Received,
        bytes: &'a mut [u8],
    ) -> Option<(SessionId, Data<'a>)> {
        let Ok(header) = DataHeader::decode(bytes) else {
            self.counters.garbage += 1;
            return None;
        };
        let mut confirms = false;
        let owner = self.sessions.owner(header.receiver).or_else(|| {
            let id = self.confirm(now, received, &header, bytes)?;
            confirms = true;
            Some(id)
        });
        let Some((id, slot)) = owner.and_then(|id| Some((id, self.sessions.get_mut(id)?))) else {
            self.counters.unknown_index += 1;
            self.disown(now, received, &header);
            return None;
        };
        let opened = slot.session.open(now, received, &header, bytes);
        if let (Err(Rejection::BadTag), Via::Relay(relay)) = (&opened, received.source) {
            *self.not_authentic.entry(relay).or_default() += 1;
        }
        let frames = opened.ok()?;
        Some((id, Data { received: *received, header, frames: frames.into(), confirms }))
    }

    fn handle_data(&mut self, now: Instant, id: SessionId, data: &Data<'_>) {
        let Data { received, header, frames, confirms } = data;
        let Some(slot) = self.sessions.get_mut(id) else { return };
        slot.session.handle_opened(now, received, header, frames);
        let from = (received.interface, received.source);
        if let Some(took) = slot.take_proof(now, received.source) {
            slot.session.confirm_address(now, from, took, *confirms);
        }
        if slot.session.take_routes_changed() {
            slot.follow_paths(now);
        }
        let peer = slot.peer;
        if *confirms
            && self.sessions.begun_by(peer) != Some(id)
            && let Some(slot) = self.sessions.get_mut(id)
        {
            // It has begun beside an older one of its peer.
            slot.session.turn_away(now);
        }
    }

    /// Takes in what was held until it is clear whether an older session lives.
    pub(super) fn release_held(&mut self, now: Instant) {
        while self.held.front().is_some_and(|(until, ..)| *until <= now)
            && let Some((_, received, mut bytes)) = self.held.pop_front()
        {
            if let Some((id, data)) = self.open_data(now, &received, &mut bytes) {
                self.handle_data(now, id, &data);
            }
        }
    }

    /// Lets waiting keys take over when this datagram is the first under them [specs/wire.md §5].
    ///
    /// Returns the session, which knows then what addresses the handshake's cookies have proved.
    fn confirm(
        &mut self,
        now: Instant,
        received: &Received,
        header: &DataHeader,
        bytes: &[u8],
    ) -> Option<SessionId> {
        let (peer, nonce) = self.responder.waiting_for(header.receiver)?;
        let lives = self.sessions.rival(now, peer, nonce);
        if let Some(Rival::Asked { until }) = lives {
            if self.held.len() < limits::SESSIONLESS && self.responder.is_authentic(header, bytes) {
                self.held.push_back((until, *received, bytes.to_vec()));
            }
            return None;
        }
        let waiting = self.responder.confirm(header, bytes)?;
        let Waiting { peer, session_nonce, continues, keys, responded_at, .. } = waiting;
        let Waiting { sources, are_lost, .. } = waiting;
        let id = match self.continued(peer, session_nonce) {
            _ if lives == Some(Rival::Lives) => {
                self.begin_to_end(now, peer, nonce, waiting.asked.source)?
            }
            Some(id) => id,
            // It has ended since we said that we hold it: the peer must hear that first.
            None if continues => return None,
            None => self.replace_session(now, peer, session_nonce)?,
        };
        self.sessions.install(now, id, keys);
        if let Some(slot) = self.sessions.get_mut(id) {
            slot.session.on_used(responded_at);
            // Elsewhere an address that does not use the keys at once proves itself soon.
            let counts = are_lost || sources.contains(&received.source);
            slot.proved = counts.then_some(Proved { sources, responded_at, are_lost });
        }
        self.counters.handshakes += 1;
        Some(id)
    }

    /// Makes a session whose only purpose is to tell its peer that another one holds its key.
    fn begin_to_end(
        &mut self,
        now: Instant,
        peer: PeerId,
        nonce: u64,
        from: Via,
    ) -> Option<SessionId> {
        let old = self.sessions.begun_by(peer)?;
        self.sessions.get_mut(old)?.session.on_contested(now, from);
        let new = self.add_session(now, peer, nonce)?;
        self.sessions.get_mut(new)?.session.begin_to_end();
        Some(new)
    }

    /// Returns the session that a peer means by its nonce.
    fn continued(&self, peer: PeerId, session_nonce: u64) -> Option<SessionId> {
        let id = self.sessions.begun_by(peer)?;
        let slot = self.sessions.get(id)?;
        (slot.nonce == session_nonce && !slot.session.is_ended()).then_some(id)
    }

    /// Makes a session that a peer began, in the place of an earlier one.
    fn replace_session(&mut self, now: Instant, peer: PeerId, nonce: u64) -> Option<SessionId> {
        if let Some(old) = self.sessions.begun_by(peer) {
            if let Some(slot) = self.sessions.get_mut(old) {
                slot.session.end(now, "the peer began another session");
            }
            self.bequeath(old);
            self.sessions.remove(old);
        }
        self.add_session(now, peer, nonce)
    }

    fn add_session(&mut self, now: Instant, peer: PeerId, nonce: u64) -> Option<SessionId> {
        if self.sessions.len() >= limits::SESSIONS {
            self.counters.sessions_refused += 1;
            return None;
        }
        if !self.memory.has_share() {
            self.counters.sessions_without_memory += 1;
            return None;
        }
        let id = self.sessions.next_id();
        let session = self.new_session(now, id, (peer, nonce), Role::Responder);
        self.sessions.insert(id, Slot::new(peer, nonce, session, None));
        Some(id)
    }

    fn handle_initiation(&mut self, now: Instant, received: &Received, bytes: &[u8]) {
        let (entropy, counters) = (&mut self.entropy, &mut self.counters);
        let sessions = &self.sessions;
        let has_session = |peer| sessions.begun_by(peer).is_some();
        let known = (&self.secret, &self.peers, has_session);
        let screened = self.responder.screen(now, received, bytes, known, entropy, counters);
        let (asked, (id, peer), are_lost) = match screened {
            Screened::Drop => return,
            Screened::Answer(answer) => return self.answer(received, answer),
            Screened::Cookie { answer, are_lost } => {
                let on_the_way = |bytes: usize| bytes + limits::IP_AND_UDP as usize;
                let most = on_the_way(INITIATION) / on_the_way(answer.len());
                // In a flood others' answers need the room.
                let is_room = self.answers.len() < limits::SESSIONLESS / 2;
                for _ in 0..if are_lost && is_room { most } else { 1 } {
                    self.counters.cookies_sent += 1;
                    self.answer(received, answer.to_vec());
                }
                return;
            }
            Screened::Open(asked, peer, are_lost) => (asked, peer, are_lost),
        };
        let admitted = match asked.open((&self.secret, self.wire), &mut self.entropy) {
            Ok(admitted) if admitted.peer == peer.key => admitted,
            Ok(_) => return self.counters.on_refused(HandshakeError::Unauthentic),
            Err(error) => {
                // Its peer made it, as its codes show, and knew our cookie: it was made in another
                // version.
                self.counters.on_refused(error);
                let shared = &peer.shared;
                let told = VersionAnswer::make(asked.sender, self.wire, shared, &asked.mac2);
                self.responder.on_other_version(id, asked.sender);
                return self.answer(received, told.to_vec());
            }
        };
        let nonce = admitted.session_nonce;
        let continues = self.continued(id, nonce).is_some();
        if !continues {
            self.sessions.rival(now, id, nonce);
        }
        let index = fresh_index(&mut self.entropy, &self.sessions, &self.responder);
        let shared = (&peer.shared, &*peer.psk);
        let (response, keys) = admitted.respond(shared, index, now.as_micros(), continues);
        let made = (response, keys);
        let waiting = Waiting::new((id, nonce), continues, made, (now, *received), are_lost);
        self.responder.keep(now, asked.ephemeral, waiting);
        self.counters.responses_made += 1;
        self.answer(received, response.to_vec());
    }

    fn handle_response(&mut self, now: Instant, received: &Received, bytes: &[u8]) {
        let Ok(index) = response_receiver(bytes) else {
            self.counters.garbage += 1;
            return;
        };
        let from = (received.interface, received.source);
        let owner = self.sessions.owner(index);
        let finished = owner.and_then(|id| {
            let initiator = self.sessions.get_mut(id)?.initiator.as_mut()?;
            initiator.handle_response(index, from, bytes).map(|finished| (id, finished))
        });
        let (id, finished) = match finished {
            Some((id, Ok(finished))) => (id, finished),
            Some((_, Err(error))) => return self.counters.on_refused(error),
            None => {
                self.counters.replayed += 1;
                return;
            }
        };
        let slot = self.sessions.get(id).map(|slot| (slot.nonce, slot.session.has_heard()));
        match slot.filter(|_| !finished.agreed.continues) {
            Some((nonce, true)) => self.end_lost_session(now, id, nonce),
            Some((_, false)) => {
                // With the first keys nothing has left so far.
                if let Some(slot) = self.sessions.get_mut(id) {
                    slot.session.give_up_sent(now);
                }
            }
            None => {}
        }
        self.rest(now, id);
        self.sessions.install(now, id, finished.agreed.keys);
        self.counters.handshakes += 1;
        let sample = ClockSample {
            sent_at: finished.since,
            received_at_us: finished.agreed.clock_us,
            acked_at: now,
        };
        if let Some(slot) = self.sessions.get_mut(id) {
            slot.session.on_clock_sample(now, sample);
            let took = finished.asked_at.map_or(Duration::ZERO, |at| now.since(at));
            slot.session.confirm_address(now, from, took, true);
            slot.follow_paths(now);
        }
    }

    /// Begins anew under the same nonce: the peer has answered it as one that it does not know.
    fn end_lost_session(&mut self, now: Instant, id: SessionId, nonce: u64) {
        if let Some(slot) = self.sessions.get_mut(id) {
            slot.session.end(now, "the peer has lost the session");
        }
        self.restart(now, id, nonce);
    }

    fn handle_cookie(&mut self, now: Instant, received: &Received, bytes: &[u8]) {
        let Ok(answer) = CookieAnswer::decode(bytes) else {
            self.counters.garbage += 1;
            return;
        };
        let Some(id) = self.sessions.owner(answer.receiver) else {
            self.counters.replayed += 1;
            return;
        };
        let Some(slot) = self.sessions.get_mut(id) else { return };
        let peer = self.peers.get(slot.peer);
        let Some(initiator) = slot.initiator_of(answer.receiver) else {
            // Another path was faster: the handshake is over.
            self.counters.replayed += 1;
            return;
        };
        let Received { interface, source, .. } = *received;
        let used = peer.is_some_and(|peer| {
            initiator.handle_cookie(now, interface, source, &peer.shared, &answer)
        });
        match used {
            true => self.counters.cookies_received += 1,
            false => self.counters.bad_mac += 1,
        }
    }

    fn handle_refusal(&mut self, bytes: &[u8]) {
        let answer = RefusalAnswer::decode(bytes).ok();
        let slot = answer.and_then(|answer| {
            let id = self.sessions.owner(answer.receiver)?;
            Some((answer, self.sessions.get_mut(id)?))
        });
        let Some((answer, slot)) = slot else {
            self.counters.garbage += 1;
            return;
        };
        let peer = self.peers.get(slot.peer);
        let Some(initiator) = slot.initiator_of(answer.receiver) else {
            self.counters.replayed += 1;
            return;
        };
        if !peer.is_some_and(|peer| initiator.handle_refusal(&peer.key, &answer)) {
            self.counters.bad_mac += 1;
        }
    }

    /// Tells a peer that we do not have the keys it sends under: after a restart of ours this saves
    /// it the wait for silence.
    fn disown(&mut self, now: Instant, received: &Received, header: &DataHeader) {
        if self.accept && !self.responder.holds(header.receiver) && self.unknowns.take(now) {
            self.answer(received, header.unknown().to_vec());
        }
    }

    fn handle_unknown(&mut self, now: Instant, bytes: &[u8]) {
        // A station begins no session, and may have many.
        let index = unknown_index(bytes).ok().filter(|_| !self.accept);
        let heard = index.is_some_and(|index| {
            let mut heard = false;
            self.sessions.give_all(|slot| {
                let is_its = slot.session.on_unknown(now, index);
                heard |= is_its;
                is_its
            });
            heard
        });
        if !heard {
            self.counters.garbage += 1;
        }
    }

    /// Queues a datagram to where another came from.
    pub(super) fn answer(&mut self, received: &Received, datagram: Vec<u8>) {
        if self.answers.len() >= limits::SESSIONLESS {
            self.counters.answers_dropped += 1;
            return;
        }
        let Received { interface, local, source, .. } = *received;
        self.answers.push_back(Answer { interface, local, destination: source, datagram });
    }
}
