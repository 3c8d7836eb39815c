//! When a packet's transmission begins and when its last bit is out, by the rate of the link.
//!
//! ```text
//! constant    end = start + ⌈8·len / rate⌉ ns, resting during holds
//! CSV         end: ∫ rate dt = 8·len, resting during holds
//! deliveries  each opportunity takes up to 1,500 bytes of what waits; none during holds
//! ```
//!
//! Knows nothing of queues: `sender.rs` decides who is let in.

use super::model::LinkRate;
use super::outage::Calendar;
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
    /// What is left of the last opportunity that it used.
    rest: Rest,
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
}

impl Transmitter {
    pub(crate) fn new(rate: &LinkRate) -> Self {
        Self { rate: rate.clone(), free_at: Instant::ZERO, rest: Rest::default() }
    }

    /// Finds out when a packet would be transmitted that is let in at `at`.
    pub(crate) fn plan(
        &self,
        at: Instant,
        len: usize,
        holds: &Calendar,
        medium: Option<&Medium>,
    ) -> Transmission {
        let from = holds.first_free(at.max(self.free_at));
        let rest = self.rest;
        match &self.rate {
            LinkRate::Unlimited => Transmission { start: from, end: from, rest },
            LinkRate::Constant(rate) => {
                let time = transmission_time(*rate, len);
                let Some(medium) = medium else {
                    return Transmission { start: from, end: holds.finish(from, time), rest };
                };
                let start = turn(from, time, holds, medium);
                Transmission { start, end: start + time, rest }
            }
            LinkRate::Csv { series, .. } => {
                let start = first_served(series, from, holds);
                Transmission { start, end: finish(series, start, len, holds), rest }
            }
            LinkRate::Deliveries { trace, .. } => deliveries(trace, rest, from, len, holds),
        }
    }

    /// Transmits a packet as planned.
    pub(crate) fn commit(
        &mut self,
        at: Instant,
        transmission: &Transmission,
        medium: Option<&mut Medium>,
    ) {
        self.free_at = transmission.end;
        self.rest = transmission.rest;
        if let Some(medium) = medium {
            medium.reserve(at, transmission.start, transmission.end);
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

/// Returns the first instant, `from` or later, with a rate above zero and no hold.
fn first_served(series: &Series<Rate>, from: Instant, holds: &Calendar) -> Instant {
    let mut at = from;
    while at < NEVER {
        let (rate, end) = series.at_with_end(at);
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

/// Returns when `len` bytes are out that start at `start`.
fn finish(series: &Series<Rate>, start: Instant, len: usize, holds: &Calendar) -> Instant {
    let mut left = len as u128 * BITS_NANOS;
    let mut at = start;
    while at < NEVER {
        at = first_served(series, at, holds);
        let (rate, rate_end) = series.at_with_end(at);
        let end = rate_end.min(holds.next_start(at));
        let bps = u128::from(rate.as_bps());
        let room = bps * end.since(at).as_nanos();
        if room >= left {
            return at
                + Duration::from_nanos(u64::try_from(left.div_ceil(bps)).unwrap_or(u64::MAX));
        }
        left -= room;
        at = end;
    }
    NEVER
}

/// Hands `len` bytes to the opportunities of a delivery trace.
fn deliveries(
    trace: &DeliveryTrace,
    rest: Rest,
    from: Instant,
    len: usize,
    holds: &Calendar,
) -> Transmission {
    let mut rest = skip_to(trace, rest, from);
    let mut left = len as u64;
    let mut start = None;
    loop {
        let at = trace.time(rest.opportunity);
        let awake = holds.first_free(at);
        if at == NEVER || awake == NEVER {
            return Transmission { start: start.unwrap_or(NEVER), end: NEVER, rest };
        }
        if awake > at {
            rest = skip_to(trace, rest, awake);
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
            return Transmission { start: start.unwrap_or(at), end: at, rest };
        }
    }
}

/// Moves on to the first opportunity at `from` or later; what is left of earlier ones is lost.
fn skip_to(trace: &DeliveryTrace, rest: Rest, from: Instant) -> Rest {
    let first = trace.first_from(from);
    if first > rest.opportunity { Rest { opportunity: first, used: 0 } } else { rest }
}

/// A byte at one bit per second takes so many nanoseconds.
const BITS_NANOS: u128 = 8 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::model::{Outage, OutageMode};
    use super::*;
    use std::sync::Arc;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
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
        let mut transmitter = Transmitter::new(rate);
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
    fn what_is_never_transmitted_ends_never() {
        let rate = LinkRate::Constant(Rate::ZERO);
        let plan = Transmitter::new(&rate).plan(ms(0), 1, &Calendar::default(), None);
        assert_eq!(plan.end, NEVER);
        let forever = Calendar::of_holds(&[Outage {
            start: ms(1),
            duration: Duration::MAX,
            mode: OutageMode::Hold { queue: None },
        }]);
        for rate in [LinkRate::Unlimited, trace("5\n"), csv("0,1\n")] {
            let plan = Transmitter::new(&rate).plan(ms(2), 1, &forever, None);
            assert_eq!(plan.end, NEVER);
        }
    }
}
