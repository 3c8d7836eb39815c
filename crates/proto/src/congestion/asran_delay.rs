//! ASRAN that looks at the delay, to tell a full queue from a bad link.
//!
//! After every loss ASRAN gives back the window that the path carried before the previous one, so
//! its window ratchets up until the buffer of the bottleneck is full: the throughput is kept, and
//! everything on the link waits. The round-trip time says how long the queue is, the rate of
//! delivery which window the path carries without one:
//!
//! ```text
//! q       = standing − min_rtt                  standing: least RTT of the last half to whole round trip
//! backlog = cwnd · q / standing                 own datagrams in the queue
//! bdp     = highest rate of delivery · min_rtt  of the last 5 to 10 round trips
//! limit   = max(8, bdp / 8)                     datagrams of our own that may wait
//!
//! loss, full queue:   ssthresh = cwnd / 2, nothing is given back
//! loss, otherwise:    ssthresh = max(cwnd / 2, min(cwnd, bdp)) during the recovery, and after it
//!                     min(max(last_max_cwnd, cwnd), bdp + 3/4 limit)
//! congestion avoidance, each round trip: NewReno's growth while backlog < 3/4 limit, −1 above limit
//! slow start ends when backlog > limit
//! every 5 s: bdp − 1 for a round trip, to see min_rtt, and whether others have a part of the queue
//!                     (shared), or most of it (crowded)
//! ```
//! Beside senders that fill a queue until it overflows (crowded) it is NewReno.
//!
//! Source: our own; of the paper it keeps last_max_cwnd and the order of events [ASRAN alg. 1].
//! This is the algorithm of `crates/tcp-asran/bpf/asran_delay.h`, whose head gives all of it, with
//! reasons; `tests/asran_twin.rs` compares the two. *Deviations from it*: 1. the window moves
//! only with an ACK at which it limits the sender, because a session often has nothing to send; 2.
//! silence of the path takes the place of a timeout.

use units::{Instant, Rate};

use super::asran::LossBased;
use super::delay_judge::{Judge, RATE_SHIFT, Sample};
use super::reno::NewReno;
use super::{Acked, Controller, LinkView, Lost};

/// Keeps the link busy after a loss on the radio, and its own queue short.
#[derive(Clone, Debug)]
pub(super) struct AsranDelay {
    base: NewReno,
    judge: Judge,
    /// When the present recovery began, and the threshold that holds after it, bytes.
    pending: Option<(Instant, u64)>,
}

impl AsranDelay {
    pub(super) fn new(mtu: u64) -> Self {
        Self { base: NewReno::new(mtu), judge: Judge::new(), pending: None }
    }

    #[cfg(test)]
    pub(super) fn ssthresh(&self) -> u64 {
        self.base.ssthresh()
    }

    #[cfg(test)]
    pub(super) fn judge(&mut self) -> &mut Judge {
        &mut self.judge
    }

    /// Lets the judge move window and threshold; returns whether NewReno may let the window grow.
    fn steer(&mut self, view: &LinkView) -> bool {
        let (cwnd, ssthresh) = (self.base.cwnd() / view.mtu, self.base.ssthresh() / view.mtu);
        let window = self.judge.on_ack(view.now.as_micros(), cwnd, ssthresh);
        if window.cwnd != cwnd {
            self.base.set_cwnd(window.cwnd * view.mtu);
        }
        if window.ssthresh != ssthresh {
            self.base.set_ssthresh(window.ssthresh * view.mtu);
        }
        window.grows
    }
}

impl Controller for AsranDelay {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        self.judge.on_sample(&Sample {
            now_us: view.now.as_micros(),
            rtt_us: acked.rtt.map_or(0, |rtt| rtt.as_micros()),
            rate: acked.rate.map_or(0, |sample| packets_per_span(sample.rate, view.mtu)),
            cwnd: self.base.cwnd() / view.mtu,
        });
        if self.base.has_counted(acked.newest_sent_at) {
            return;
        }
        if let Some((_, restored)) = self.pending.take() {
            self.base.set_ssthresh(restored.max(self.base.ssthresh()));
        }
        if acked.window_limited && acked.bytes > 0 && self.steer(view) {
            self.base.on_ack(view, acked);
        }
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        if self.base.has_counted(lost.newest_sent_at) {
            return;
        }
        let cwnd = self.base.cwnd() / view.mtu;
        let (original, restored) = self.judge.on_reduction(cwnd);
        self.pending = Some((view.now, restored * view.mtu));
        self.base.reduce(view, original * view.mtu);
    }

    fn on_revival(&mut self, view: &LinkView) {
        if self.pending.take().is_none() {
            self.judge.on_reduction(self.base.cwnd() / view.mtu);
        }
        self.base.on_revival(view);
    }

    fn cwnd(&self) -> u64 {
        self.base.cwnd()
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        self.base.pacing_rate(view)
    }
}

/// Returns a rate in datagrams per 2^24 µs.
fn packets_per_span(rate: Rate, mtu: u64) -> u64 {
    let bits = u128::from(rate.as_bps()) << RATE_SHIFT;
    (bits / 8 / u128::from(mtu) / 1_000_000) as u64
}
