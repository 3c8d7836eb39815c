//! The first half of a link: drop-tail queue and transmitter.
//!
//! Decides at entry whether a packet is let into the queue and when its last bit leaves the
//! transmitter. What happens to it afterwards is the business of `air.rs`.
//!
//! ```text
//! start = max(entry, end of the packet before), moved out of holds
//! end   = start + ⌈8·len / rate⌉ nanoseconds, resting during holds
//! ```

use super::model::{LinkModel, LinkRate, QueueLimit};
use super::outage::Calendar;
use super::verdict::DropCause;
use std::collections::VecDeque;
use units::{Duration, Instant, Rate};

/// The queue and the transmitter of one direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    rate: LinkRate,
    limit: QueueLimit,
    holds: Calendar,
    /// When the last packet that was let in leaves the transmitter.
    free_at: Instant,
    /// Start of transmission and length of the packets that wait, in order.
    waiting: VecDeque<(Instant, u64)>,
    waiting_bytes: u64,
    packets_max: u64,
    bytes_max: u64,
}

impl Sender {
    pub(crate) fn new(model: &LinkModel) -> Self {
        Self {
            rate: model.rate.clone(),
            limit: model.queue,
            holds: Calendar::of_holds(&model.outages),
            free_at: Instant::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            packets_max: 0,
            bytes_max: 0,
        }
    }

    /// Lets a packet in at `at` and returns when its last bit leaves the transmitter.
    pub(crate) fn admit(&mut self, at: Instant, len: usize) -> Result<Instant, DropCause> {
        self.forget_started(at);
        let (start, end) = self.transmission(at, len);
        if start > at {
            self.check_room(at, len as u64)?;
        }
        if end == NEVER {
            return Err(DropCause::NeverServed);
        }
        if start > at {
            self.wait(start, len as u64);
        }
        self.free_at = end;
        Ok(end)
    }

    pub(crate) fn packets_max(&self) -> u64 {
        self.packets_max
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn forget_started(&mut self, at: Instant) {
        while let Some(&(start, len)) = self.waiting.front()
            && start <= at
        {
            self.waiting.pop_front();
            self.waiting_bytes -= len;
        }
    }

    fn transmission(&self, at: Instant, len: usize) -> (Instant, Instant) {
        let start = self.holds.first_free(at.max(self.free_at));
        let end = match self.rate {
            LinkRate::Unlimited => start,
            LinkRate::Constant(rate) => self.holds.finish(start, transmission_time(rate, len)),
        };
        (start, end)
    }

    fn check_room(&self, at: Instant, len: u64) -> Result<(), DropCause> {
        let limit = self.holds.queue(at).unwrap_or(self.limit);
        let packets_fit = limit.packets.is_none_or(|most| (self.waiting.len() as u64) < most);
        let bytes_fit = limit.bytes.is_none_or(|most| self.waiting_bytes + len <= most);
        if packets_fit && bytes_fit { Ok(()) } else { Err(DropCause::Queue) }
    }

    fn wait(&mut self, start: Instant, len: u64) {
        self.waiting.push_back((start, len));
        self.waiting_bytes += len;
        self.packets_max = self.packets_max.max(self.waiting.len() as u64);
        self.bytes_max = self.bytes_max.max(self.waiting_bytes);
    }
}

/// The instant of what does not happen.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Returns how long `len` bytes take, rounded up so that the rate is never exceeded.
fn transmission_time(rate: Rate, len: usize) -> Duration {
    if rate == Rate::ZERO {
        return Duration::MAX;
    }
    let nanos = (len as u128 * 8 * 1_000_000_000).div_ceil(u128::from(rate.as_bps()));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
