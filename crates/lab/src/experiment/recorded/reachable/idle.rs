//! One message alone on one link: when it arrives, whenever its transmission begins.
//!
//! ```text
//! bit(s) = bits sent before millisecond s
//! e(s)   = the millisecond in which bit(s) + length is reached
//! from s: e(s) + delay(e(s)); never where a bit of it is lost, or where the trace ends first
//! at any time from s: the least of that over all s' ≥ s
//! ```

use super::capacity::Capacity;

/// How much of a second must be fit for control for the link to count as alive in it.
const ALIVE_SHARE: f64 = 0.9;

/// When a message of one length arrives over an otherwise empty link.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    /// Arrival in milliseconds by the millisecond in which it is sent; infinite for never.
    at_once: Vec<f64>,
    /// The same when the best later moment may be chosen.
    any_time: Vec<f64>,
}

impl Idle {
    /// Computes when messages of `bits` arrive.
    pub(crate) fn new(capacity: &Capacity, bits: u64) -> Self {
        let slots = capacity.slots();
        let running = |lost: bool| {
            let sums = slots.iter().scan(0, move |sum, slot| {
                let counts = !lost || !slot.arrives;
                *sum += if counts { slot.bits } else { 0 };
                Some(*sum)
            });
            core::iter::once(0).chain(sums).collect::<Vec<u64>>()
        };
        let (sent, lost) = (running(false), running(true));
        let arrival = |start: usize| {
            let end = sent.partition_point(|sum| *sum < sent[start] + bits);
            // Sums are those before each millisecond.
            let last =
                slots.get(end.wrapping_sub(1)).filter(|_| lost.get(end) == Some(&lost[start]));
            last.map_or(f64::INFINITY, |slot| (end - 1) as f64 + slot.delay_ms)
        };
        let at_once: Vec<f64> = (0..slots.len()).map(arrival).collect();
        let mut any_time = at_once.clone();
        for ms in (1..any_time.len()).rev() {
            any_time[ms - 1] = any_time[ms - 1].min(any_time[ms]);
        }
        Self { at_once, any_time }
    }

    /// Returns the delay in seconds of a message that is sent at once; none when it never arrives.
    pub(crate) fn at_once(&self, sent_s: f64) -> Option<f64> {
        delay(&self.at_once, sent_s)
    }

    /// Returns the delay in seconds of a message that is sent at the best moment.
    pub(crate) fn any_time(&self, sent_s: f64) -> Option<f64> {
        delay(&self.any_time, sent_s)
    }

    /// Tells of each second whether the link is alive in it: at least nine tenths of the
    /// milliseconds in which a message could be sent see it arrive within `limit_s`.
    pub(crate) fn alive(&self, seconds: f64, limit_s: f64) -> Vec<bool> {
        let second = |second: usize| {
            let from = 1_000 * second;
            let timely = (from..from + 1_000).filter(|ms| {
                let arrival = self.at_once.get(*ms).copied().unwrap_or(f64::INFINITY);
                arrival - *ms as f64 <= limit_s * 1e3
            });
            timely.count() as f64 >= ALIVE_SHARE * 1e3
        };
        (0..seconds as usize).map(second).collect()
    }
}

fn delay(arrivals: &[f64], sent_s: f64) -> Option<f64> {
    let arrival = arrivals.get((sent_s * 1e3 + 1e-6) as usize)? / 1e3;
    // What arrives within the millisecond in which it was sent took no time.
    arrival.is_finite().then(|| (arrival - sent_s).max(0.0))
}

#[cfg(test)]
mod tests {
    use netem::{Delay, Duration, Instant, LinkModel, LinkRate, Outage, OutageMode, Rate};

    use super::*;

    /// A link of 8 kbit/s and 20 ms: a byte each millisecond; silent from 50 to 100 ms.
    fn link(mode: OutageMode) -> Idle {
        let (start, duration) = (Instant::from_millis(50), Duration::from_millis(50));
        let model = LinkModel {
            rate: LinkRate::Constant(Rate::from_bps(8_000)),
            delay: Delay::Fixed(Duration::from_millis(20)),
            outages: vec![Outage { start, duration, mode }],
            ..LinkModel::default()
        };
        Idle::new(&Capacity::new(&model, 0.2), 80)
    }

    fn milliseconds(delay: Option<f64>) -> Option<i64> {
        delay.map(|delay| (delay * 1e3).round() as i64)
    }

    #[test]
    fn a_message_takes_its_bits_and_the_delay() {
        let idle = link(OutageMode::Drop);
        // Its tenth byte leaves in the millisecond that begins 9 ms later.
        assert_eq!(milliseconds(idle.at_once(0.01)), Some(29));
        assert_eq!(milliseconds(idle.at_once(0.04)), Some(29));
        assert_eq!(idle.at_once(0.041), None, "its last byte is lost");
        assert_eq!(milliseconds(idle.any_time(0.041)), Some(59 + 29));
        assert_eq!(idle.at_once(0.195), None, "it is not out before the end");
        assert_eq!(idle.any_time(0.7), None);
    }

    #[test]
    fn what_a_link_holds_arrives_after_it() {
        let idle = link(OutageMode::Hold { queue: None });
        assert_eq!(milliseconds(idle.at_once(0.041)), Some(29 + 50));
        assert_eq!(idle.at_once(0.06), idle.any_time(0.06));
    }

    #[test]
    fn a_link_is_alive_in_a_second_in_which_nine_tenths_are_timely() {
        let outage = |start, ms| Outage {
            start: Instant::from_millis(start),
            duration: Duration::from_millis(ms),
            mode: OutageMode::Drop,
        };
        let model = LinkModel {
            outages: vec![outage(1_100, 99), outage(2_100, 102), outage(3_000, 2_000)],
            ..LinkModel::default()
        };
        let idle = Idle::new(&Capacity::new(&model, 6.0), 1_000);
        assert_eq!(idle.alive(6.0, 0.1), [true, true, false, false, false, true]);
    }
}
