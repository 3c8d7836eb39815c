//! The rates that the narrowest hop of a path had in the last twenty seconds, in slots of 250 ms.
//!
//! It holds only times in which the hop was busy: see `bottleneck.rs`. The clock is the receiver's:
//! it shows when packets left the hop, not when we hear of it.

use std::collections::VecDeque;

use units::{Duration, Instant, Rate};

use super::control_window::THIN;

/// Length of a slot: links of a moving vehicle change from one second to the next.
const SLOT: Duration = Duration::from_millis(250);
/// Memory: twenty seconds, as long as `strict` protection of control looks back (`bulk_bound.rs`).
const SLOTS: usize = 80;

/// If more than one in this many receptions came too early for the rate, what looks like a queue is
/// jitter.
const EARLY_SHARE: u32 = 5;

/// Remembers rates.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateHistory {
    slots: VecDeque<Slot>,
}

/// What the hop sent while it was busy, in one slot or several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    began: Instant,
    /// Bytes that it sent.
    pub(super) bytes: u64,
    /// How long it was busy.
    pub(super) busy: Duration,
    /// Receptions, and those among them that came too early for the rate, and as far apart as they
    /// were sent.
    pub(super) receptions: u32,
    pub(super) early: u32,
    pub(super) as_sent: u32,
}

/// How a packet came that was received while the hop was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    /// So soon after the one before that the hop must be faster than its rate.
    pub(super) early: bool,
    /// As long after the one before as it was sent after it.
    pub(super) as_sent: bool,
}

impl Slot {
    /// Returns the rate of the hop.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bytes_in(self.bytes, self.busy)
    }

    /// Notes a reception.
    pub(super) fn note(&mut self, came: Came) {
        self.receptions += 1;
        self.early += u32::from(came.early);
        self.as_sent += u32::from(came.as_sent);
    }

    /// Tells whether too many packets came too early after each other for the rate to be the hop's.
    pub(super) fn is_jitter(&self) -> bool {
        self.early * EARLY_SHARE > self.receptions
    }

    /// Tells whether most packets came as they were sent, so that what delays them is no thin hop:
    /// the path has become longer. Recorded operators, whose delay jumps: four in five. A full
    /// radio modem: one in five at most.
    pub(super) fn is_longer(&self) -> bool {
        self.rate() < THIN && self.as_sent * 2 > self.receptions
    }
}

impl RateHistory {
    /// Notes what the hop sent while it was busy.
    pub(super) fn on_busy(&mut self, at: Instant, bytes: u64, busy: Duration) {
        let slot = self.slot(at);
        slot.bytes += bytes;
        slot.busy += busy;
    }

    /// Notes a reception in a slot in which the hop was busy.
    pub(super) fn on_reception(&mut self, at: Instant, came: Came) {
        let Some(slot) = self.slots.back_mut() else { return };
        if at.since(slot.began) < SLOT {
            slot.note(came);
        }
    }

    /// Forgets what came too early for the rate in the last `memory`: it was the rate that was
    /// wrong.
    pub(super) fn excuse_early(&mut self, memory: Duration) {
        let newest = self.slots.back().map_or(Instant::ZERO, |slot| slot.began);
        let recent = self.slots.iter_mut().rev();
        let recent = recent.take_while(|slot| newest.since(slot.began) <= memory);
        recent.for_each(|slot| slot.early = 0);
    }

    /// Returns the `quantile` of the rates of the busy slots in the last `memory`; none when the
    /// hop was never busy.
    pub(super) fn low(&self, memory: Duration, quantile: f64) -> Option<Rate> {
        let mut rates = [Rate::ZERO; SLOTS];
        let mut count = 0;
        for slot in self.recent(memory) {
            rates[count] = slot.rate();
            count += 1;
        }
        let index = ((quantile * count as f64) as usize).min(count.checked_sub(1)?);
        Some(*rates[..count].select_nth_unstable(index).1)
    }

    /// Returns what the hop did in the last `memory`.
    pub(super) fn sum(&self, memory: Duration) -> Slot {
        self.recent(memory).fold(Slot::default(), |sum, slot| Slot {
            began: slot.began,
            bytes: sum.bytes + slot.bytes,
            busy: sum.busy + slot.busy,
            receptions: sum.receptions + slot.receptions,
            early: sum.early + slot.early,
            as_sent: sum.as_sent + slot.as_sent,
        })
    }

    fn slot(&mut self, at: Instant) -> &mut Slot {
        let is_new = self.slots.back().is_none_or(|slot| at.since(slot.began) >= SLOT);
        if is_new && self.slots.len() == SLOTS {
            self.slots.pop_front();
        }
        if is_new {
            self.slots.push_back(Slot { began: at, ..Slot::default() });
        }
        let last = self.slots.len() - 1;
        &mut self.slots[last]
    }

    fn recent(&self, memory: Duration) -> impl Iterator<Item = &Slot> {
        let newest = self.slots.back().map_or(Instant::ZERO, |slot| slot.began);
        self.slots.iter().rev().take_while(move |slot| newest.since(slot.began) <= memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_memory() {
        let mut history = RateHistory::default();
        let at = Instant::from_millis;
        let mut busy = |ms: u64, kilobytes: u64| {
            history.on_busy(at(ms), kilobytes * 1_000, Duration::from_millis(8));
        };
        (0..40).for_each(|slot| busy(slot * 250, if slot < 4 { 1 } else { 10 }));
        busy(9_750, 0);
        let (ten, two) = (Duration::from_secs(10), Duration::from_secs(2));
        let rate = |mbps: f64| Rate::from_mbps(mbps);
        assert_eq!(history.low(ten, 0.09), Some(rate(1.0)));
        assert_eq!(history.low(two, 0.1), Some(rate(5.0)), "10 kB and nothing in 16 ms");
        assert_eq!(history.low(two, 0.5), Some(rate(10.0)));
        let sum = history.sum(two);
        assert_eq!((sum.bytes, sum.busy), (90_000, Duration::from_millis(80)));
        assert_eq!(RateHistory::default().low(ten, 0.1), None);
    }

    #[test]
    fn memory_has_a_bound_and_forgets_the_oldest() {
        let mut history = RateHistory::default();
        let busy = Duration::from_millis(8);
        (0..1_000).for_each(|slot| {
            let kilobytes = if slot < 920 { 1 } else { 10 };
            history.on_busy(Instant::from_millis(slot * 250), kilobytes * 1_000, busy);
        });
        assert_eq!(history.slots.len(), SLOTS);
        assert_eq!(history.low(Duration::from_secs(60), 0.0), Some(Rate::from_mbps(10.0)));
    }

    #[test]
    fn the_least_and_the_best_are_quantiles_too() {
        let mut history = RateHistory::default();
        for (ms, bytes) in [(0, 3_000), (250, 1_000), (500, 2_000)] {
            history.on_busy(Instant::from_millis(ms), bytes, Duration::from_millis(8));
        }
        let second = Duration::from_secs(1);
        assert_eq!(history.low(second, 0.0), Some(Rate::from_mbps(1.0)));
        assert_eq!(history.low(second, 1.0), Some(Rate::from_mbps(3.0)));
    }

    #[test]
    fn receptions_count_in_the_slot_that_they_fall_into() {
        let (mut history, second) = (RateHistory::default(), Duration::from_secs(1));
        let at = Instant::from_millis;
        let early = Came { early: true, ..Came::default() };
        history.on_reception(at(0), early);
        assert_eq!(history.sum(second).receptions, 0, "no slot yet: the hop was never busy");
        history.on_busy(at(0), 1_000, Duration::from_millis(8));
        history.on_reception(at(10), early);
        history.on_reception(at(20), Came { as_sent: true, ..Came::default() });
        history.on_reception(at(250), early);
        let sum = history.sum(second);
        let counts = (sum.receptions, sum.early, sum.as_sent);
        assert_eq!(counts, (2, 1, 1), "the last is beyond the slot");
    }
}
