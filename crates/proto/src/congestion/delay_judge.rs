//! What the delay of a path says: how long its queue is, whose it is, and which window the path
//! carries.
//!
//! The integer arithmetic of `crates/tcp-asran/bpf/asran_delay.h`, function by function, in
//! datagrams and µs, so that both give the same results. Pure: no window of its own, no clock.
//! `asran_delay.rs` uses it.

use super::LEAST_WINDOW;

/// Rates are in datagrams per 2^24 µs: one datagram in 16 s is 1.
pub(super) const RATE_SHIFT: u32 = 24;
/// µs; the extremes of the delay are forgotten after one to two of these. Probes, which show them,
/// come as often.
const SPAN_US: u64 = 5_000_000;
/// Round trips; the highest rate is forgotten after one to two of these.
const RATE_SPAN: u64 = 5;
/// Datagrams that may always wait: enough that a loss, which drains the queue, does not leave the
/// link idle.
const LEAST_LIMIT: u64 = 8;
/// Round trips in a row that are no chance: a queue that stood for so many without a loss is safe;
/// where the window was lowered in so many but the queue stayed, a probe is due early.
const SURE_ROUNDS: u64 = 4;

/// What congestion avoidance does in a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Growth {
    #[default]
    Grow,
    Hold,
    Shrink,
}

/// The stage of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    /// The window is low.
    Low,
    /// What was sent at the low window is being acknowledged.
    Watch,
}

/// Says what one acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now_us: u64,
    /// Round-trip time of the newest datagram acknowledged; 0 for none.
    pub(super) rtt_us: u64,
    /// Rate of delivery, datagrams per 2^24 µs; 0 for none.
    pub(super) rate: u64,
    pub(super) cwnd: u64,
}

/// Says where window and threshold are to be, and whether NewReno may let the window grow from
/// there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) grows: bool,
}

/// Remembers delays and rates. The second of every pair belongs to the previous span, or the
/// previous half of a round trip; 0 stands for none.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    last_max_cwnd: u64,
    min_rtt_us: [u64; 2],
    /// Longest q.
    longest_us: [u64; 2],
    /// Longest q that stood without a loss.
    safe_us: [u64; 2],
    span_until_us: u64,
    /// Shortest q of the round trips without a loss that are being counted, and how many these are.
    run_us: u64,
    run_rounds: u64,
    rate: [u64; 2],
    rate_rounds: u64,
    half_min_us: [u64; 2],
    /// Whether a round trip ends with this half.
    second_half: bool,
    half_until_us: u64,
    growth: Growth,
    /// Round trips in a row with [`Growth::Shrink`].
    shrinks: u64,
    /// Whether others have a part of the queue.
    shared: bool,
    /// Whether others fill it.
    crowded: bool,
    probe: Probe,
    /// When the next stage of the probe is due, or the next probe.
    probe_us: u64,
    /// Least RTT since the probe began.
    probe_min_us: u64,
    /// q when it began.
    probe_queue_us: u64,
}

impl Judge {
    /// Knows nothing; the first probe is due after a span.
    pub(super) fn new() -> Self {
        Self { probe_us: SPAN_US, ..Self::default() }
    }

    /// Learns from an acknowledgement, during a recovery too.
    pub(super) fn on_sample(&mut self, sample: &Sample) {
        let Sample { now_us, rtt_us, rate, .. } = *sample;
        if rtt_us > 0 {
            if now_us >= self.half_until_us {
                self.end_half_round(sample);
            }
            if now_us >= self.span_until_us {
                self.end_span(now_us);
            }
            self.min_rtt_us[0] = lesser(self.min_rtt_us[0], rtt_us);
            self.half_min_us[0] = lesser(self.half_min_us[0], rtt_us);
            self.probe_min_us = lesser(self.probe_min_us, rtt_us);
        }
        self.rate[0] = self.rate[0].max(rate);
    }

    /// Judges a loss; returns the threshold of the recovery and the one that holds after it.
    pub(super) fn on_reduction(&mut self, cwnd: u64) -> (u64, u64) {
        let half = (cwnd / 2).max(2);
        let last_max_cwnd = core::mem::replace(&mut self.last_max_cwnd, cwnd);
        self.probe = Probe::None;
        self.run_rounds = 0;
        if self.is_queue_full(cwnd) {
            return (half, half);
        }
        let carried = self.bdp();
        let original = half.max(cwnd.min(carried));
        let restored = last_max_cwnd.max(cwnd).min(carried + self.backlog_limit() * 3 / 4);
        (original, restored.max(original))
    }

    /// Moves the window at an acknowledgement outside recoveries, after [`Judge::on_sample`].
    pub(super) fn on_ack(&mut self, now_us: u64, cwnd: u64, ssthresh: u64) -> Window {
        let mut window = Window { cwnd, ssthresh, grows: true };
        self.advance_probe(&mut window, now_us);
        if self.probe == Probe::Low {
            window.grows = false;
        } else if window.cwnd < window.ssthresh {
            let (bdp, limit) = (self.bdp(), self.backlog_limit());
            if !self.crowded && bdp > 0 && self.backlog(cwnd) > limit {
                window.cwnd = cwnd.min(bdp + limit / 2).max(LEAST_WINDOW);
                window.ssthresh = window.cwnd;
                window.grows = false;
            }
        } else if self.growth != Growth::Grow {
            if self.growth == Growth::Shrink {
                window.cwnd -= u64::from(window.cwnd > LEAST_WINDOW);
                self.growth = Growth::Hold;
            }
            window.grows = false;
        }
        window
    }

    #[cfg(test)]
    pub(super) fn last_max_cwnd(&self) -> u64 {
        self.last_max_cwnd
    }

    fn min_rtt_us(&self) -> u64 {
        lesser(self.min_rtt_us[0], self.min_rtt_us[1])
    }

    fn standing_us(&self) -> u64 {
        lesser(self.half_min_us[0], self.half_min_us[1])
    }

    /// q: the delay that the queue makes.
    fn queue_us(&self) -> u64 {
        self.standing_us().saturating_sub(self.min_rtt_us())
    }

    /// Own datagrams in the queue, by Little's law.
    fn backlog(&self, cwnd: u64) -> u64 {
        (cwnd * self.queue_us()).checked_div(self.standing_us()).unwrap_or(0)
    }

    /// Rounded up, so that a slow path has room for one datagram; 0 before the first rate.
    fn bdp(&self) -> u64 {
        let rate = self.rate[0].max(self.rate[1]);
        (rate * self.min_rtt_us() + (1 << RATE_SHIFT) - 1) >> RATE_SHIFT
    }

    fn backlog_limit(&self) -> u64 {
        LEAST_LIMIT.max(self.bdp() / 8)
    }

    fn is_queue_full(&self, cwnd: u64) -> bool {
        let (queue, waiting, limit) = (self.queue_us(), self.backlog(cwnd), self.backlog_limit());
        if self.shared {
            return 2 * queue > self.longest_us[0].max(self.longest_us[1]);
        }
        let safe = self.safe_us[0].max(self.safe_us[1]);
        waiting > limit || (waiting > limit / 2 && queue / 4 * 3 > safe)
    }

    /// Once a round trip: what congestion avoidance does in the next one.
    fn decide(&mut self, cwnd: u64) {
        let (waiting, limit) = (self.backlog(cwnd), self.backlog_limit());
        self.crowded &= waiting > limit / 2;
        self.growth = if self.crowded || waiting < limit * 3 / 4 {
            Growth::Grow
        } else if waiting > limit {
            Growth::Shrink
        } else {
            Growth::Hold
        };
        self.shrinks = if self.growth == Growth::Shrink { self.shrinks + 1 } else { 0 };
    }

    /// Once a round trip: which queues there were, and which of them stood.
    fn record_queue(&mut self) {
        let queue = self.queue_us();
        self.longest_us[0] = self.longest_us[0].max(queue);
        self.run_us = if self.run_rounds > 0 { self.run_us.min(queue) } else { queue };
        self.run_rounds += 1;
        if self.run_rounds >= SURE_ROUNDS.max(self.backlog_limit() / 2) {
            self.safe_us[0] = self.safe_us[0].max(self.run_us);
            self.run_rounds = 0;
        }
    }

    fn end_half_round(&mut self, sample: &Sample) {
        if self.second_half {
            // What a probe sees is neither a queue to remember nor room to grow into.
            if self.probe == Probe::None {
                self.record_queue();
                self.decide(sample.cwnd);
            }
            self.rate_rounds += 1;
            if self.rate_rounds >= RATE_SPAN {
                self.rate = [0, self.rate[0]];
                self.rate_rounds = 0;
            }
        }
        self.second_half = !self.second_half;
        self.half_min_us = [0, self.half_min_us[0]];
        self.half_until_us = sample.now_us + sample.rtt_us / 2;
    }

    fn end_span(&mut self, now_us: u64) {
        for pair in [&mut self.min_rtt_us, &mut self.longest_us, &mut self.safe_us] {
            *pair = [0, pair[0]];
        }
        self.span_until_us = now_us + SPAN_US;
    }

    fn advance_probe(&mut self, window: &mut Window, now_us: u64) {
        match self.probe {
            Probe::None => {
                let early = self.shrinks >= SURE_ROUNDS;
                // Added to the time now, not taken off the time due, which in the first seconds
                // could fall below zero.
                let until_us = now_us + if early { SPAN_US / 5 * 4 } else { 0 };
                if until_us >= self.probe_us && window.cwnd >= window.ssthresh && self.bdp() > 0 {
                    self.begin_probe(window, now_us);
                }
            }
            Probe::Low if now_us >= self.probe_us => {
                self.probe = Probe::Watch;
                self.probe_us = now_us + self.standing_us();
            }
            Probe::Watch if now_us >= self.probe_us => {
                self.judge_probe();
                self.probe = Probe::None;
                self.probe_us = now_us + SPAN_US;
            }
            Probe::Low | Probe::Watch => {}
        }
    }

    fn begin_probe(&mut self, window: &mut Window, now_us: u64) {
        self.probe = Probe::Low;
        self.probe_us = now_us + self.standing_us();
        self.probe_min_us = 0;
        self.probe_queue_us = self.queue_us();
        self.shrinks = 0;
        self.growth = Growth::Hold;
        window.ssthresh = window.cwnd;
        window.cwnd = window.cwnd.min(self.bdp().max(1) - 1).max(LEAST_WINDOW);
    }

    /// What was sent at the low window is acknowledged a round trip later; only then is the delay
    /// without our own backlog known.
    fn judge_probe(&mut self) {
        let least = self.min_rtt_us();
        let left = self.probe_min_us.saturating_sub(least);
        self.shared = left > self.probe_queue_us / 8 && left > least / 32;
        self.crowded = left > self.probe_queue_us / 2 && left > least / 8;
    }
}

/// Returns the lesser of two times; 0 stands for none.
fn lesser(a: u64, b: u64) -> u64 {
    if a > 0 && (b == 0 || a < b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_ends_a_probe_in_the_first_seconds() {
        // Reached by a probe that begins early and that a loss ends, 1.2 s after the clock began.
        let mut judge = Judge {
            shrinks: SURE_ROUNDS,
            probe_us: 1_200_000,
            min_rtt_us: [40_000, 0],
            half_min_us: [45_000, 0],
            rate: [1 << RATE_SHIFT, 0],
            ..Judge::default()
        };

        let window = judge.on_ack(1_100_000, 60_000, 50_000);

        assert_eq!(judge.probe, Probe::Low);
        assert_eq!(window.cwnd, 40_000 - 1);
    }
}
