//! The default controller: tolerates random loss and bounds the queue that it builds itself.
//!
//! ```text
//! q       = least rtt of the last half srtt − min_rtt          (the standing queue, as in Copa)
//! T(x)    = 20 ms − 3 ms · log2(x / 5 Mbit/s), within 10…30 ms  (x = cwnd / srtt)
//! cwnd    ← cwnd + κ · acked · (T(x) − q) / rtt                 (FAST's law; per round trip)
//! start:    cwnd ← cwnd + acked / 2 until q > 8 ms or the delivery rate stops growing
//! floor:    cwnd ≥ bandwidth · min_rtt                          (bandwidth: largest of 10 rounds)
//! ```
//! Under revision.

use std::collections::VecDeque;

use units::{Duration, Instant, Rate};

use super::{Acked, Controller, LinkView, Lost, initial_window, window_rate};

/// Standing queue that the controller aims at.
const TARGET: Duration = Duration::from_millis(20);
/// Queue at which start-up ends.
const START_QUEUE: Duration = Duration::from_millis(8);

/// Bounds its own queue to about 20 ms.
#[derive(Clone, Debug)]
pub(super) struct DelayBounded {
    cwnd: u64,
    starting: bool,
    samples: VecDeque<(Instant, Duration)>,
}

impl DelayBounded {
    pub(super) fn new(mtu: u64) -> Self {
        Self { cwnd: initial_window(mtu), starting: true, samples: VecDeque::new() }
    }

    fn queue(&mut self, view: &LinkView, rtt: Duration) -> Duration {
        let since = view.now - view.srtt / 2;
        self.samples.push_back((view.now, rtt));
        while self.samples.front().is_some_and(|&(at, _)| at < since) {
            self.samples.pop_front();
        }
        let standing = self.samples.iter().map(|&(_, rtt)| rtt).min().unwrap_or(rtt);
        standing.saturating_sub(view.min_rtt)
    }
}

impl Controller for DelayBounded {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        let Some(rtt) = acked.rtt else { return };
        let queue = self.queue(view, rtt);
        if self.starting && queue > START_QUEUE {
            self.starting = false;
        }
        let gain = if self.starting {
            0.5
        } else {
            0.5 * (TARGET.as_secs_f64() - queue.as_secs_f64()) / rtt.as_secs_f64()
        };
        if gain < 0.0 || acked.window_limited {
            let grown = self.cwnd as f64 + gain * acked.bytes as f64;
            self.cwnd = (grown as u64).max(4 * view.mtu);
        }
    }

    fn on_loss(&mut self, _view: &LinkView, _lost: &Lost) {}

    fn on_revival(&mut self, _view: &LinkView) {
        self.samples.clear();
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        let gain = if self.starting { 1.5 } else { 1.25 };
        Some(window_rate(self.cwnd, view.srtt, gain))
    }
}
