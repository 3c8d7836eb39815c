//! NewReno: one segment more in a round trip, half of it after a loss [RFC 5681 §3.1].
//!
//! ```text
//! slow start: cwnd ← cwnd + acked        beyond: cwnd ← cwnd + acked/cwnd        loss: ssthresh ← cwnd/2
//! ```
//! *Deviation from the RFC*: the threshold is half of the window, as in Linux, not of what is under
//! way.

use units::Instant;

use super::congestion::{CongestionControl, Window};

/// NewReno, which remembers nothing but the window.
#[derive(Debug)]
pub(super) struct Reno;

impl CongestionControl for Reno {
    fn on_acked(&mut self, _now: Instant, window: &mut Window, acked: u32) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.grow(window.cwnd, left);
        }
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        (window.cwnd / 2).max(2)
    }
}
