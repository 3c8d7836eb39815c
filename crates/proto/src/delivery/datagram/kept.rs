//! The newest packets of TCP that grew old while no path worked: they leave when one is back.
//!
//! A TCP sends again after waits that double. When its last try before a link comes back is
//! dropped, the next one is as far away as the outage was long [RFC 6298 §5.5].

use std::collections::VecDeque;

/// Bytes of packets that are kept: the last tries of some dozens of connections.
const MOST: usize = 64 << 10;

/// Keeps packets, the newest ones.
#[derive(Debug, Default)]
pub(super) struct Kept {
    packets: VecDeque<super::Plain>,
    bytes: usize,
}

impl Kept {
    /// Keeps a packet; returns how many older ones it has driven out.
    pub(super) fn keep(&mut self, packet: super::Plain) -> u64 {
        self.bytes += packet.payload.len();
        self.packets.push_back(packet);
        let mut dropped = 0;
        while self.bytes > MOST
            && let Some(oldest) = self.packets.pop_front()
        {
            self.bytes -= oldest.payload.len();
            dropped += 1;
        }
        dropped
    }

    /// Returns the bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// Gives everything back, the newest first.
    pub(super) fn give_back(&mut self) -> impl Iterator<Item = super::Plain> + '_ {
        self.bytes = 0;
        self.packets.drain(..).rev()
    }
}

#[cfg(test)]
mod tests {
    use units::{Duration, Instant};

    use super::super::{DatagramQueue, Plain};
    use super::*;
    use crate::ids::PathId;
    use crate::select::Class;

    fn packet(tag: u8, resequence: bool) -> Plain {
        let (channel, class, rtp) = (0, Class::Bulk, None);
        Plain { channel, class, resequence, rtp, payload: vec![tag; 1_000] }
    }

    #[test]
    fn tcp_that_no_path_took_leaves_when_one_is_back_and_the_rest_is_dropped() {
        let mut queue = DatagramQueue::new(Duration::from_millis(150), 1 << 20);
        queue.set_outage(Instant::ZERO, true);
        for (at_ms, tag, tcp) in [(0, 1, true), (0, 2, false), (400, 3, true), (3_000, 4, true)] {
            queue.push(Instant::from_millis(at_ms), packet(tag, tcp));
        }
        let back = Instant::from_millis(20_000);
        queue.handle_timeout(back);
        assert!(queue.is_empty());
        queue.set_outage(back, false);
        queue.push(back, packet(5, true));
        let taken = core::iter::from_fn(|| {
            let (frame, _) = queue.poll(back, PathId(0), 2_000)?;
            Some((frame.payload[0], frame.sequence.is_some()))
        });
        assert_eq!(taken.collect::<Vec<_>>(), [1, 3, 4, 5].map(|tag| (tag, true)));
        assert_eq!(queue.dropped(), 1);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut kept = Kept::default();
        let dropped: u64 = (0..200).map(|tag| kept.keep(packet(tag, true))).sum();
        assert_eq!(dropped, 200 - (MOST / 1_000) as u64);
        assert_eq!(kept.give_back().next().map(|packet| packet.payload[0]), Some(199));
        assert_eq!(kept.give_back().count(), 0);
    }
}
