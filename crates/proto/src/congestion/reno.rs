//! NewReno, as QUIC uses it.
//!
//! ```text
//! slow start:            cwnd ← cwnd + acked
//! congestion avoidance:  cwnd ← cwnd + mtu · acked / cwnd
//! loss or mark, once per round trip:  ssthresh ← cwnd ← max(cwnd/2, 2 mtu)
//! ```
//! Source: [RFC 9002 §7]. *Deviations*: 1. no persistent congestion, because silence is the business
//! of the path's health; 2. growth only while the window limits the sender [RFC 9002 §7.8].

use units::{Instant, Rate};

use super::{Acked, Controller, LinkView, Lost, initial_window, window_rate};

/// Pacing is a little faster than the window, so that the window decides [RFC 9002 §7.7].
const PACING_GAIN: f64 = 1.25;

/// Halves its window on loss and grows it by one datagram per round trip [RFC 9002 §7].
#[derive(Clone, Debug)]
pub(super) struct NewReno {
    cwnd: u64,
    ssthresh: u64,
    recovery_began: Option<Instant>,
}

impl NewReno {
    pub(super) fn new(mtu: u64) -> Self {
        Self { cwnd: initial_window(mtu), ssthresh: u64::MAX, recovery_began: None }
    }
}

impl Controller for NewReno {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        let in_recovery = self.recovery_began.is_some_and(|began| acked.newest_sent_at <= began);
        if in_recovery || !acked.window_limited {
            return;
        }
        self.cwnd += if self.cwnd < self.ssthresh {
            acked.bytes
        } else {
            (view.mtu * acked.bytes / self.cwnd).max(1)
        };
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        if self.recovery_began.is_some_and(|began| lost.newest_sent_at <= began) {
            return;
        }
        self.recovery_began = Some(view.now);
        self.cwnd = (self.cwnd / 2).max(2 * view.mtu);
        self.ssthresh = self.cwnd;
    }

    fn on_revival(&mut self, view: &LinkView) {
        self.cwnd = self.cwnd.min(initial_window(view.mtu));
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        let gain = if self.cwnd < self.ssthresh { 2.0 } else { PACING_GAIN };
        Some(window_rate(self.cwnd, view.srtt, gain))
    }
}
