//! When a packet's transmission begins and when its last bit is out, by the rate of the link.
//!
//! ```text
//! constant    end = start + ⌈8·len / rate⌉ ns, resting during holds
//! CSV         end: ∫ rate dt = 8·len, resting during holds
//! deliveries  each opportunity takes up to 1,500 bytes of what waits; none during holds
//! slots       `slots.rs`
//! ```
//! Recorded rates count from the scenario's time zero. Before that the link has their mean.
//!
//! Knows nothing of queues: `sender.rs` decides who is let in.

use super::model::{LinkModel, LinkRate};
use super::outage::Calendar;
use super::slots::Clock;
use crate::medium::Medium;
use crate::trace::{DeliveryTrace, OPPORTUNITY_BYTES, Series};
use units::{Duration, Instant, Rate};

/// The instant of what does not happen.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// When a packet is transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// When it stops waiting.
    pub(crate) start: Instant,
    /// When its last bit is out.
    pub(crate) end: Instant,
    /// An instant of the slot that carries it: the beginning of a clock's, otherwise `end`.
    pub(crate) slot: Instant,
    /// True when it went past what waits, as small packets do where others take slots.
    pub(crate) aside: bool,
    /// What is left of the last opportunity that it used.
    rest: Rest,
    /// What it takes of a medium beside slots, and what it waited for of what others took.
    takes: Duration,
    pays: Duration,
}

impl Transmission {
    fn new(start: Instant, end: Instant, rest: Rest) -> Self {
        let (takes, pays) = (Duration::ZERO, Duration::ZERO);
        Self { start, end, slot: end, aside: false, rest, takes, pays }
    }
}

/// The opportunity of a delivery trace that was used last, and the bytes left in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rest {
    opportunity: u64,
    used: u64,
}

/// Transmits one packet after the other.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    rate: LinkRate,
    /// When the last packet's last bit is out.
    free_at: Instant,
    rest: Rest,
    /// When the recording begins.
    origin: Instant,
    /// The mean of the recorded rates, which the link has until then.
    mean: Rate,
    clock: Option<Clock>,
}

impl Transmitter {
    pub(crate) fn new(model: &LinkModel) -> Self {
        let mean = match &model.rate {
            LinkRate::Unlimited | LinkRate::Constant(_) | LinkRate::Slots(_) => Rate::ZERO,
            LinkRate::Csv { series, .. } => series.mean_rate(),
            LinkRate::Deliveries { trace, .. } => trace.mean_rate(),
        };
        let rest = Rest::default();
        let (rate, clock) = (model.rate.clone(), Clock::new(model));
        Self { rate, free_at: Instant::ZERO, rest, origin: NEVER, mean, clock }
    }

    /// Sets the beginning of the recording to `origin`; until this is called it never begins.
    pub(crate) fn begin(&mut self, origin: Instant) {
        self.origin = origin;
        if let Some(clock) = &mut self.clock {
            clock.begin(origin);
        }
    }

    /// Finds out when a packet that is let in at `at` would be transmitted.
    pub(crate) fn plan(
        &self,
        at: Instant,
        len: usize,
        holds: &Calendar,
        medium: Option<&Medium>,
    ) -> Transmission {
        if let Some(clock) = &self.clock {
            return self.by_clock(clock, at, len, holds, medium);
        }
        let from = holds.first_free(at.max(self.free_at));
        let rest = self.rest;
        match &self.rate {
            LinkRate::Unlimited | LinkRate::Slots(_) => Transmission::new(from, from, rest),
            LinkRate::Constant(rate) => {
                let time = transmission_time(*rate, len);
                let Some(medium) = medium else {
                    return Transmission::new(from, holds.finish(from, time), rest);
                };
                let start = turn(from, time, holds, medium);
                Transmission::new(start, start + time, rest)
            }
            LinkRate::Csv { series, .. } => {
                let rates = Rates { series, origin: self.origin, mean: self.mean };
                let start = rates.first_served(from, holds);
                Transmission::new(start, rates.finish(start, len, holds), rest)
            }
            LinkRate::Deliveries { trace, .. } => self.deliver(trace, from, len, holds),
        }
    }

    fn by_clock(
        &self,
        clock: &Clock,
        at: Instant,
        len: usize,
        holds: &Calendar,
        medium: Option<&Medium>,
    ) -> Transmission {
        let slot = clock.slot();
        if clock.is_small(len) {
            let now = holds.first_free(at);
            let time = transmission_time(Rate::from_bytes_in(OPPORTUNITY_BYTES, slot), len);
            let takes = medium.map_or(Duration::ZERO, |medium| medium.aside(time));
            return Transmission { aside: true, takes, ..Transmission::new(now, now, self.rest) };
        }
        let pays = medium.map_or(Duration::ZERO, |medium| medium.owed_slots(slot));
        let turn = clock.turn(at.max(self.free_at + pays), holds);
        let takes = medium.map_or(Duration::ZERO, |medium| medium.acknowledgements(turn.tries));
        let whole = Transmission::new(turn.start, turn.end, self.rest);
        Transmission { slot: turn.slot, takes, pays, ..whole }
    }

    /// Transmits at the mean rate until the recording begins, and by its opportunities from then
    /// on.
    fn deliver(
        &self,
        trace: &DeliveryTrace,
        from: Instant,
        len: usize,
        holds: &Calendar,
    ) -> Transmission {
        let slots = Slots { trace, origin: self.origin };
        if from >= self.origin {
            return slots.deliver(self.rest, from, len as u64, holds);
        }
        let end = from + transmission_time(self.mean, len);
        if end <= self.origin {
            return Transmission::new(from, end, self.rest);
        }
        let sent = self.mean.bytes_in(self.origin.since(from));
        let left = (len as u64).saturating_sub(sent).max(1);
        let rest = slots.deliver(self.rest, self.origin, left, holds);
        let start = if sent > 0 { from } else { rest.start };
        Transmission { start, ..rest }
    }

    /// Transmits a packet as planned.
    pub(crate) fn commit(
        &mut self,
        at: Instant,
        transmission: &Transmission,
        medium: Option<&mut Medium>,
    ) {
        if !transmission.aside {
            self.free_at = transmission.end;
        }
        self.rest = transmission.rest;
        match medium {
            Some(medium) if self.clock.is_some() => {
                medium.settle(transmission.takes, transmission.pays);
            }
            Some(medium) => medium.reserve(at, transmission.start, transmission.end),
            None => {}
        }
    }
}

/// Returns how long `len` bytes take, rounded up so that the rate is never exceeded.
fn transmission_time(rate: Rate, len: usize) -> Duration {
    if rate == Rate::ZERO {
        return Duration::MAX;
    }
    let nanos = (len as u128 * BITS_NANOS).div_ceil(u128::from(rate.as_bps()));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Finds the first free stretch of a medium, `from` or later, that does not begin in a hold.
fn turn(from: Instant, time: Duration, holds: &Calendar, medium: &Medium) -> Instant {
    let mut start = from;
    loop {
        let free = medium.first_gap(start, time);
        let awake = holds.first_free(free);
        if awake == free {
            return free;
        }
        start = awake;
    }
}

/// Recorded rates, and the instant from which they count.
struct Rates<'a> {
    series: &'a Series<Rate>,
    origin: Instant,
    mean: Rate,
}

impl Rates<'_> {
    /// Returns the rate at `at`, and when the next one begins.
    fn at(&self, at: Instant) -> (Rate, Instant) {
        if at < self.origin {
            return (self.mean, self.origin);
        }
        let (rate, end) = self.series.at_with_end(Instant::ZERO + at.since(self.origin));
        (rate, self.origin + end.since(Instant::ZERO))
    }

    /// Returns the first instant, `from` or later, with a rate above zero and no hold.
    fn first_served(&self, from: Instant, holds: &Calendar) -> Instant {
        // A link whose rate is always zero is asked once, not round after round.
        if self.mean == Rate::ZERO {
            return NEVER;
        }
        let mut at = from;
        while at < NEVER {
            let (rate, end) = self.at(at);
            if rate == Rate::ZERO {
                at = end;
                continue;
            }
            let awake = holds.first_free(at);
            if awake == at {
                return at;
            }
            at = awake;
        }
        NEVER
    }

    /// Returns when `len` bytes that start at `start` are out.
    fn finish(&self, start: Instant, len: usize, holds: &Calendar) -> Instant {
        let mut left = len as u128 * BITS_NANOS;
        let mut at = start;
        while at < NEVER {
            at = self.first_served(at, holds);
            let (rate, rate_end) = self.at(at);
            let end = rate_end.min(holds.next_start(at));
            let bps = u128::from(rate.as_bps());
            let room = bps * u128::from(end.since(at).as_nanos());
            if at < NEVER && room >= left {
                return at
                    + Duration::from_nanos(u64::try_from(left.div_ceil(bps)).unwrap_or(u64::MAX));
            }
            left = left.saturating_sub(room);
            at = end.max(at);
        }
        NEVER
    }
}

/// A delivery trace, and the instant from which it counts.
struct Slots<'a> {
    trace: &'a DeliveryTrace,
    origin: Instant,
}

impl Slots<'_> {
    /// Hands `left` bytes to the opportunities from `from` on.
    fn deliver(&self, rest: Rest, from: Instant, left: u64, holds: &Calendar) -> Transmission {
        let mut rest = self.skip_to(rest, from);
        let mut left = left;
        let mut start = None;
        loop {
            let at = self.time(rest.opportunity);
            let awake = holds.first_free(at);
            if at == NEVER || awake == NEVER {
                return Transmission::new(start.unwrap_or(NEVER), NEVER, rest);
            }
            if awake > at {
                rest = self.skip_to(rest, awake);
                continue;
            }
            start.get_or_insert(at);
            let taken = left.min(OPPORTUNITY_BYTES - rest.used);
            left -= taken;
            rest.used += taken;
            if rest.used == OPPORTUNITY_BYTES {
                rest = Rest { opportunity: rest.opportunity + 1, used: 0 };
            }
            if left == 0 {
                return Transmission::new(start.unwrap_or(at), at, rest);
            }
        }
    }

    fn time(&self, index: u64) -> Instant {
        self.origin + self.trace.time(index).since(Instant::ZERO)
    }

    /// Moves on to the first opportunity at `from` or later; what is left of earlier ones is lost.
    fn skip_to(&self, rest: Rest, from: Instant) -> Rest {
        let first = self.trace.first_from(Instant::ZERO + from.since(self.origin));
        if first > rest.opportunity { Rest { opportunity: first, used: 0 } } else { rest }
    }
}

/// How many nanoseconds a byte takes at one bit per second.
const BITS_NANOS: u128 = 8 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::model::{Outage, OutageMode, SlotClock};
    use super::*;
    use crate::medium::MediumModel;
    use std::sync::Arc;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn model(rate: &LinkRate) -> LinkModel {
        LinkModel { rate: rate.clone(), ..LinkModel::default() }
    }

    fn hold(start: u64, millis: u64) -> Calendar {
        let duration = Duration::from_millis(millis);
        Calendar::of_holds(&[Outage {
            start: ms(start),
            duration,
            mode: OutageMode::Hold { queue: None },
        }])
    }

    /// Sends packets of `(entry ms, bytes)` and returns when each is out, in ms.
    fn ends(rate: &LinkRate, holds: &Calendar, packets: &[(u64, usize)]) -> Vec<f64> {
        let mut transmitter = Transmitter::new(&model(rate));
        transmitter.begin(ms(0));
        let send = |&(at, len): &(u64, usize)| {
            let transmission = transmitter.plan(ms(at), len, holds, None);
            assert!(transmission.start >= ms(at) && transmission.end >= transmission.start);
            transmitter.commit(ms(at), &transmission, None);
            transmission.end.as_nanos() as f64 / 1e6
        };
        packets.iter().map(send).collect()
    }

    fn trace(text: &str) -> LinkRate {
        let trace = Arc::new(DeliveryTrace::parse(text, "t").unwrap());
        LinkRate::Deliveries { path: "t".to_owned(), trace }
    }

    fn csv(rows: &str) -> LinkRate {
        let text = format!("time_s,rate_mbps\n{rows}");
        let series = Arc::new(Series::rates_csv(&text, "r").unwrap());
        LinkRate::Csv { path: "r".to_owned(), series }
    }

    #[test]
    fn an_opportunity_takes_several_small_packets_or_part_of_a_large_one() {
        let rate = trace("5\n6\n10\n");
        let out = ends(&rate, &Calendar::default(), &[(0, 700), (0, 700), (0, 700), (0, 3_000)]);
        assert_eq!(out, [5.0, 5.0, 6.0, 15.0]);
    }

    #[test]
    fn an_opportunity_that_nobody_waits_for_is_lost() {
        let rate = trace("5\n6\n10\n");
        assert_eq!(ends(&rate, &Calendar::default(), &[(7, 1_500), (7, 100)]), [10.0, 15.0]);
        assert_eq!(ends(&rate, &Calendar::default(), &[(5, 100), (6, 100)]), [5.0, 6.0]);
    }

    #[test]
    fn a_gap_of_the_trace_and_a_hold_delay_what_waits() {
        let rate = trace("1\n12000\n");
        assert_eq!(ends(&rate, &Calendar::default(), &[(2, 10)]), [12_000.0]);
        let rate = trace("1\n2\n3\n4\n5\n6\n7\n8\n");
        assert_eq!(ends(&rate, &hold(3, 3), &[(2, 1_500), (2, 3_000)]), [2.0, 7.0]);
    }

    #[test]
    fn a_rate_that_changes_is_integrated() {
        let rate = csv("0,12\n1,0\n3,1.2\n4,12\n");
        // 1,500 bytes take 1 ms at 12 Mbit/s and 10 ms at 1.2 Mbit/s.
        let none = Calendar::default();
        assert_eq!(ends(&rate, &none, &[(0, 1_500), (999, 3_000)]), [1.0, 3_010.0]);
        assert_eq!(ends(&rate, &none, &[(1_500, 1_500)]), [3_010.0]);
        assert_eq!(ends(&rate, &none, &[(3_995, 1_500)]), [4_000.5]);
        assert_eq!(ends(&rate, &hold(3_005, 10), &[(3_000, 1_500)]), [3_020.0]);
    }

    #[test]
    fn large_packets_of_recorded_slots_wait_for_what_others_take_of_their_medium() {
        let clock = SlotClock { slot: Duration::from_millis(10), small_bytes: 200 };
        let mut transmitter = Transmitter::new(&model(&LinkRate::Slots(clock)));
        transmitter.begin(ms(0));
        let mut medium = Medium::new(&MediumModel {
            gap: Duration::from_millis(3),
            acknowledgement: Duration::from_millis(1),
            ..MediumModel::default()
        });
        let mut end = |at: u64, len: usize| {
            let none = Calendar::default();
            let transmission = transmitter.plan(ms(at), len, &none, Some(&medium));
            transmitter.commit(ms(at), &transmission, Some(&mut medium));
            transmission.end.as_nanos() / 1_000_000
        };
        // A small packet leaves at once, and takes 1 + 3 ms; a large one owes 1 ms.
        assert_eq!([end(0, 1_500), end(1, 150), end(1, 150), end(1, 1_500)], [10, 1, 1, 20]);
        assert_eq!(end(2, 1_500), 40, "1 + 4 + 4 + 1 ms are a slot");
        // Nobody waits at 100 ms for what was owed before.
        assert_eq!([end(41, 150), end(42, 150), end(43, 150), end(100, 1_500)], [41, 42, 43, 110]);
    }

    #[test]
    fn what_is_never_transmitted_ends_never() {
        let rate = LinkRate::Constant(Rate::ZERO);
        let plan = Transmitter::new(&model(&rate)).plan(ms(0), 1, &Calendar::default(), None);
        assert_eq!(plan.end, NEVER);
        let forever = Calendar::of_holds(&[Outage {
            start: ms(1),
            duration: Duration::MAX,
            mode: OutageMode::Hold { queue: None },
        }]);
        for rate in [LinkRate::Unlimited, trace("5\n"), csv("0,1\n")] {
            let mut transmitter = Transmitter::new(&model(&rate));
            transmitter.begin(ms(0));
            assert_eq!(transmitter.plan(ms(2), 1, &forever, None).end, NEVER);
        }
        let steps = [(Duration::ZERO, Rate::ZERO), (Duration::from_secs(1), Rate::ZERO)];
        let series = Series::from_steps(steps, Some(Duration::from_secs(2)), "r").unwrap();
        let dead = LinkRate::Csv { path: "r".to_owned(), series: Arc::new(series) };
        for begun in [false, true] {
            let mut transmitter = Transmitter::new(&model(&dead));
            if begun {
                transmitter.begin(ms(5));
            }
            assert_eq!(transmitter.plan(ms(2), 1, &Calendar::default(), None).end, NEVER);
        }
    }

    #[test]
    fn a_recording_counts_from_when_it_begins_and_the_link_has_its_mean_before() {
        // Both have a mean of 6 Mbit/s, at which 1,500 bytes take 2 ms.
        let opportunities = trace("1\n2\n3\n4\n5\n12\n");
        for (rate, across) in [(csv("0,12\n0.006,0\n"), 100.5), (opportunities, 101.0)] {
            let mut transmitter = Transmitter::new(&model(&rate));
            transmitter.begin(ms(100));
            let none = Calendar::default();
            let end = |at| transmitter.plan(ms(at), 1_500, &none, None).end.as_nanos() as f64;
            assert_eq!([end(50), end(99), end(100)].map(|ns| ns / 1e6), [52.0, across, 101.0]);
        }
    }
}
