//! The senders and receivers of one host, and whose packet goes next.

use units::Instant;

use super::receiver::Receiver;
use super::segment::Segment;
use super::sender::Sender;

/// The ends of flows at one host.
#[derive(Debug, Default)]
pub struct Flows {
    /// Sending ends, in the order in which they were added.
    pub senders: Vec<Sender>,
    /// Receiving ends.
    pub receivers: Vec<Receiver>,
    /// The sender whose turn it is.
    turn: usize,
}

impl Flows {
    /// Takes an IP packet; false when it is no flow's.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Some(segment) = Segment::read(packet) else { return false };
        self.senders.iter_mut().any(|sender| sender.handle_segment(now, &segment))
            || self.receivers.iter_mut().any(|receiver| receiver.handle_segment(now, &segment))
    }

    /// Returns the next IP packet to send: acknowledgements first, then the senders in turn.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        let ack = self.receivers.iter_mut().find_map(|receiver| receiver.poll_packet(now));
        ack.or_else(|| (0..self.senders.len()).find_map(|_| self.poll_sender(now)))
    }

    /// Returns when [`Self::handle_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        let senders = self.senders.iter().filter_map(Sender::timeout);
        senders.chain(self.receivers.iter().filter_map(Receiver::timeout)).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.senders.iter_mut().for_each(|sender| sender.handle_timeout(now));
        self.receivers.iter_mut().for_each(|receiver| receiver.handle_timeout(now));
    }

    fn poll_sender(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.turn = (self.turn + 1) % self.senders.len();
        self.senders[self.turn].poll_packet(now)
    }
}
