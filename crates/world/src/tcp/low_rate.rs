//! Low-rate retry below a sender of TCP: an un-ACKed packet is repeated while TCP is silent
//! [FlowCode §V].
//!
//! ```text
//! released    the end of the newest sequence number that has left
//! repeated    of the packets not acknowledged the one that left last, when nothing was released
//!             for one interval, and again after each further one
//! ```
//! It is a shim below unmodified TCP: it sees packets of one connection go and acknowledgements
//! come.
//!
//! *Deviations from the paper*, which puts it into TCP and says no more than "the last un-ACKed
//! packet": after a time-out that is the repeated first one, whose acknowledgement lets TCP go on.

use std::collections::VecDeque;

use units::{Duration, Instant, Rate};

use super::segment::Segment;

/// Packets that it keeps at most: a window of 16 MiB.
const KEPT_MAX: usize = 12_000;

/// Repeats what is not acknowledged.
#[derive(Debug)]
pub struct LowRateRetry {
    interval: Duration,
    /// What is not acknowledged, in the order in which it left: the end of its sequence numbers,
    /// the packet.
    kept: VecDeque<(u32, Vec<u8>)>,
    released: Option<u32>,
    due_at: Option<Instant>,
    repeats: u64,
}

impl LowRateRetry {
    /// Makes one that repeats packets of so many bytes at a rate.
    pub fn new(rate: Rate, bytes: usize) -> Self {
        let interval = rate.transmission_time(bytes);
        Self { interval, kept: VecDeque::new(), released: None, due_at: None, repeats: 0 }
    }

    /// Notes a packet of the sender that leaves.
    pub fn on_sent(&mut self, now: Instant, packet: &[u8]) {
        let Some(segment) = Segment::read(packet) else { return };
        let len = segment.len as u32 + u32::from(segment.syn.is_some());
        if len == 0 {
            return;
        }
        let end = segment.sequence.wrapping_add(len);
        self.kept.retain(|(other, _)| *other != end);
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((end, packet.to_vec()));
        if self.released.is_none_or(|released| is_after(end, released)) {
            self.released = Some(end);
            self.due_at = Some(now + self.interval);
        }
    }

    /// Notes a packet that comes for the sender.
    pub fn on_received(&mut self, packet: &[u8]) {
        if let Some(ack) = Segment::read(packet).and_then(|segment| segment.ack) {
            self.kept.retain(|(end, _)| is_after(*end, ack));
        }
    }

    /// Returns when [`Self::poll`] has something, if nothing is released before.
    pub fn timeout(&self) -> Option<Instant> {
        self.due_at.filter(|_| !self.kept.is_empty())
    }

    /// Returns the packet that is to be repeated now.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.timeout().filter(|due| *due <= now)?;
        self.due_at = Some(now + self.interval);
        self.repeats += 1;
        self.kept.back().map(|(_, packet)| packet.clone())
    }

    /// Returns how many packets it has repeated.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }
}

/// Tells whether one sequence number lies after another.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
mod tests {
    use super::super::segment::SACK_BLOCKS;
    use super::*;

    fn packet(sequence: u32, ack: Option<u32>, len: usize) -> Vec<u8> {
        let segment = Segment {
            source: "10.0.0.1:1".parse().expect("an address"),
            destination: "10.0.0.2:2".parse().expect("an address"),
            sequence,
            ack,
            syn: None,
            window: 100,
            timestamps: (1, 2),
            sack: [(0, 0); SACK_BLOCKS],
            len,
        };
        segment.write()
    }

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn what_left_last_is_repeated_at_the_low_rate_until_something_new_leaves_or_all_is_acknowledged()
     {
        // 1,500 bytes at 10 kbit/s are 1.2 s.
        let mut retry = LowRateRetry::new(Rate::from_bps(10_000), 1_500);
        let start = u32::MAX - 500;
        let second = start.wrapping_add(1_000);
        retry.on_sent(ms(0), &packet(start, Some(1), 1_000));
        retry.on_sent(ms(10), &packet(second, Some(1), 1_000));
        assert_eq!(retry.timeout(), Some(ms(1_210)));
        assert_eq!(retry.poll(ms(1_209)), None);
        // TCP's own time-out releases nothing new, and is repeated from then on.
        retry.on_sent(ms(300), &packet(start, Some(1), 1_000));
        assert_eq!(retry.poll(ms(1_210)), Some(packet(start, Some(1), 1_000)));
        assert_eq!(retry.timeout(), Some(ms(2_410)));
        retry.on_received(&packet(1, Some(second), 0));
        assert_eq!(retry.poll(ms(2_410)), Some(packet(second, Some(1), 1_000)));
        retry.on_sent(ms(2_500), &packet(second.wrapping_add(1_000), Some(1), 1_000));
        assert_eq!(retry.timeout(), Some(ms(3_700)));
        retry.on_received(&packet(1, Some(second.wrapping_add(2_000)), 0));
        assert_eq!((retry.timeout(), retry.poll(ms(9_000))), (None, None));
        assert_eq!(retry.repeats(), 2);
    }
}
