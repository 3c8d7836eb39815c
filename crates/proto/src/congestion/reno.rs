//! NewReno, as QUIC uses it.
//!
//! ```text
//! slow start:            cwnd ← cwnd + acked, up to ssthresh
//! congestion avoidance:  cwnd ← cwnd + mtu for each cwnd of bytes acked
//! loss, once per round trip:  ssthresh ← cwnd ← max(cwnd/2, 2 mtu)
//! ```
//! Source: [RFC 9002 §7]. The window grows by whole datagrams, as Linux's NewReno does, so that the
//! two can be compared step by step. *Deviations*: 1. no persistent congestion, because the path's
//! health deals with silence; 2. growth only while the window limits the sender [RFC 9002 §7.8].

use units::{Instant, Rate};

use super::asran::LossBased;
use super::{Acked, Controller, LinkView, Lost, initial_window};

/// Halves its window on loss and grows it by one datagram per round trip [RFC 9002 §7].
#[derive(Clone, Debug)]
pub(super) struct NewReno {
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    counted: u64,
    recovery_began: Option<Instant>,
}

impl NewReno {
    pub(super) fn new(mtu: u64) -> Self {
        Self { cwnd: initial_window(mtu), ssthresh: u64::MAX, counted: 0, recovery_began: None }
    }

    /// Begins a recovery with a window of `remains`, at least two datagrams.
    pub(super) fn reduce(&mut self, view: &LinkView, remains: u64) {
        self.recovery_began = Some(view.now);
        self.cwnd = remains.max(2 * view.mtu);
        self.ssthresh = self.cwnd;
    }

    /// Goes back to a window of `cwnd`.
    pub(super) fn restart(&mut self, cwnd: u64) {
        (self.cwnd, self.counted) = (cwnd, 0);
    }

    /// Sets the window, for an algorithm built on this one.
    pub(super) fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
    }

    /// Grows by `acked` up to ssthresh; returns the bytes that are left for congestion avoidance.
    fn start_slowly(&mut self, acked: u64) -> u64 {
        let growth = acked.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd += growth;
        acked - growth
    }

    /// Grows by a datagram for each window of `acked` bytes.
    fn avoid_congestion(&mut self, mtu: u64, acked: u64) {
        if acked == 0 {
            return;
        }
        // The window has shrunk below what was counted: one step, not several at once.
        if self.counted >= self.cwnd {
            self.counted = 0;
            self.cwnd += mtu;
        }
        self.counted += acked;
        let windows = self.counted / self.cwnd;
        self.counted -= windows * self.cwnd;
        self.cwnd += windows * mtu;
    }
}

impl Controller for NewReno {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        if self.has_counted(acked.newest_sent_at) || !acked.window_limited {
            return;
        }
        let left = self.start_slowly(acked.bytes);
        self.avoid_congestion(view.mtu, left);
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        if self.has_counted(lost.newest_sent_at) {
            return;
        }
        self.reduce(view, self.cwnd / 2);
    }

    fn on_revival(&mut self, view: &LinkView) {
        self.restart(self.cwnd.min(initial_window(view.mtu)));
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        Some(self.pace(view))
    }
}

impl LossBased for NewReno {
    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
    }

    fn recovery_began(&self) -> Option<Instant> {
        self.recovery_began
    }
}
