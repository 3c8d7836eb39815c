//! The way out: what the sessions have to say and, in turn with it, answers and our own handshakes.

use std::net::IpAddr;

use units::Instant;

use super::peers::Peer;
use super::{Endpoint, fresh_index};
use crate::crypto::{Initiation, Parties};
use crate::ids::{InterfaceId, SessionId, Transmit};
use crate::session::Session;
use crate::via::Via;

/// Holds an answer of the endpoint itself until the driver takes it.
pub(super) struct Answer {
    /// The interface that the question came in on.
    pub(super) interface: InterfaceId,
    /// The local address that the question was sent to.
    pub(super) local: Option<IpAddr>,
    /// Where the question came from.
    pub(super) destination: Via,
    /// The answer.
    pub(super) datagram: Vec<u8>,
}

impl Endpoint {
    /// Writes the next datagram into `buf`, which is cleared, and returns where it goes.
    ///
    /// To be called after every input and every timeout until there is none.
    #[inline(never)]
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.now = now;
        // In turn: strangers must not hold up a session's control, nor a session's bulk them.
        let transmit = match self.answered_last {
            true => self.poll_sessions(now, buf).or_else(|| self.poll_handshakes(now, buf)),
            false => self.poll_handshakes(now, buf).or_else(|| self.poll_sessions(now, buf)),
        };
        if transmit.is_none() {
            self.reap(now, Session::is_ended);
            self.sessions.find_timers(now);
        }
        transmit
    }

    /// Ends the handshake of a session, or what is left of it.
    pub(super) fn rest(&mut self, now: Instant, id: SessionId) {
        let initiator = self.sessions.get_mut(id).and_then(|slot| slot.initiator.as_mut());
        for index in initiator.map(|initiator| initiator.rest(now)).into_iter().flatten() {
            self.sessions.release(index);
        }
    }

    fn poll_sessions(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.sessions.poll_transmit(now, buf)?;
        self.answered_last = false;
        Some(transmit)
    }

    fn poll_handshakes(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let answer = self.answers.pop_front().map(|answer| write_answer(answer, buf));
        let transmit = answer.or_else(|| self.poll_initiation(now, buf))?;
        self.answered_last = true;
        Some(transmit)
    }

    fn poll_initiation(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(id) = self.sessions.done_asking(now) {
            self.rest(now, id);
        }
        let id = self.sessions.next_asker(now)?;
        let index = fresh_index(&mut self.entropy, &self.sessions, &self.responder);
        let slot = self.sessions.get_mut(id)?;
        let peer = self.peers.get(slot.peer)?;
        let Peer { key, psk, shared } = peer;
        let (secret, wire) = (&self.secret, self.wire);
        let parties = Parties { secret, peer: *key, psk, key: shared, wire };
        let (entropy, nonce) = (&mut self.entropy, slot.nonce);
        let initiator = slot.initiator.as_mut()?;
        let (outgoing, forgotten) =
            initiator.poll(now, || Initiation::new(&parties, index, nonce, entropy))?;
        if initiator.indices().any(|used| used == index) {
            self.sessions.claim(index, id);
        }
        forgotten.into_iter().for_each(|index| self.sessions.release(index));
        self.counters.initiations_sent += 1;
        buf.clear();
        buf.extend_from_slice(&outgoing.datagram);
        Some(Transmit {
            path: None,
            interface: outgoing.interface,
            local: None,
            destination: outgoing.destination,
            urgent: outgoing.marked,
            number: None,
        })
    }
}

fn write_answer(answer: Answer, buf: &mut Vec<u8>) -> Transmit {
    buf.clear();
    buf.extend_from_slice(&answer.datagram);
    Transmit {
        path: None,
        interface: answer.interface,
        local: answer.local,
        destination: answer.destination,
        // Nobody knows here whether the network on the way takes marks.
        urgent: false,
        number: None,
    }
}
