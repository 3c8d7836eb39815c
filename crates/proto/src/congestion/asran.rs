//! ASRAN over a loss-based controller: a loss on an unstable link does not cost the window for
//! long.
//!
//! ```text
//! at the loss that begins a recovery, with cwnd as it was just before:
//!     original_ssthresh     = what the base asks for (NewReno: cwnd/2; CUBIC: β · cwnd)
//!     recalculated_ssthresh = max(original_ssthresh, last_max_cwnd)
//!     last_max_cwnd         = cwnd
//! during the recovery:         cwnd = ssthresh = original_ssthresh
//! when the recovery is over:   ssthresh = recalculated_ssthresh
//!     cwnd < ssthresh          slow start: back at the old capacity within a few round trips
//!     cwnd ≥ ssthresh          congestion avoidance of the base
//! ```
//! Source: [ASRAN §3.2], [ASRAN alg. 1]. The first loss finds last_max_cwnd = 0, and a queue that
//! overflows at a window grown well past the last loss finds original_ssthresh ≥ last_max_cwnd:
//! both behave as the base. The same algorithm for the host's TCP is `crates/tcp-asran`;
//! `tests/asran_twin.rs` compares the two.
//!
//! *Deviations from the paper*: 1. the recalculated value is installed after the recovery, not
//! during it, so that the window falls first (the kernel's recovery asks for the same order); 2.
//! silence of the path takes the place of a retransmission timeout: ASRAN behaves as the base, and
//! notes last_max_cwnd (unless a recovery was under way, which has noted it already).
//!
//! Known limit: after a loss that *was* a full queue it regains its window at the expense of other
//! flows. On a clean link it leaves CUBIC 7 % (over NewReno) or 1 % (over CUBIC):
//! `tests/snapshots/beside.txt`. So it is for links that one has to oneself; `asran_delay.rs`
//! yields.

use units::{Instant, Rate};

use super::{Acked, Controller, LinkView, Lost, window_rate};

/// A controller whose window falls with each loss, for ASRAN to stand on.
pub(super) trait LossBased: Controller {
    /// Returns the window below which the controller is in slow start, bytes.
    fn ssthresh(&self) -> u64;

    /// Sets it; the window stays.
    fn set_ssthresh(&mut self, ssthresh: u64);

    /// Returns when the last recovery began: what was sent before is part of that loss.
    fn recovery_began(&self) -> Option<Instant>;

    /// Tells whether what was sent at `sent_at` is part of the last loss.
    fn has_counted(&self, sent_at: Instant) -> bool {
        self.recovery_began().is_some_and(|began| sent_at <= began)
    }

    /// Returns the pacing rate: a little faster than the window, so that the window decides
    /// [RFC 9002 §7.7], and faster still in slow start.
    fn pace(&self, view: &LinkView) -> Rate {
        let gain = if self.cwnd() < self.ssthresh() { 2.0 } else { 1.25 };
        window_rate(self.cwnd(), view.srtt, gain)
    }
}

/// Slow-starts back to the window that the path had carried before [ASRAN §3.2].
#[derive(Clone, Debug)]
pub(super) struct Asran<B> {
    base: B,
    /// last_max_cwnd, bytes: the window just before the last loss; 0 before the first.
    last_max_cwnd: u64,
    pending: Option<Pending>,
}

/// What takes effect when a recovery is over.
#[derive(Clone, Copy, Debug)]
struct Pending {
    began: Instant,
    recalculated_ssthresh: u64,
}

impl<B: LossBased> Asran<B> {
    pub(super) fn over(base: B) -> Self {
        Self { base, last_max_cwnd: 0, pending: None }
    }

    #[cfg(test)]
    pub(super) fn ssthresh(&self) -> u64 {
        self.base.ssthresh()
    }

    #[cfg(test)]
    pub(super) fn last_max_cwnd(&self) -> u64 {
        self.last_max_cwnd
    }
}

impl<B: LossBased> Controller for Asran<B> {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        if let Some(pending) = self.pending.take_if(|pending| acked.newest_sent_at > pending.began)
        {
            self.base.set_ssthresh(pending.recalculated_ssthresh);
        }
        self.base.on_ack(view, acked);
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        let (cwnd, began) = (self.base.cwnd(), self.base.recovery_began());
        self.base.on_loss(view, lost);
        let part_of_the_last = self.base.recovery_began() == began;
        if part_of_the_last {
            return;
        }
        self.pending = Some(Pending {
            began: view.now,
            // [ASRAN alg. 1, line 4]
            recalculated_ssthresh: self.base.ssthresh().max(self.last_max_cwnd),
        });
        self.last_max_cwnd = cwnd;
    }

    fn on_revival(&mut self, view: &LinkView) {
        // In the middle of a recovery the path has carried the window before the loss, not the
        // present one.
        if self.pending.take().is_none() {
            self.last_max_cwnd = self.base.cwnd();
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
