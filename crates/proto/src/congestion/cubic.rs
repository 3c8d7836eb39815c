//! CUBIC, as QUIC uses it.
//!
//! ```text
//! W(t) = C (t − K)³ + W_max        K = ∛((W_max − cwnd_epoch) / C)          [RFC 9438 eq. 1, 2]
//! W_est ← W_est + α · acked / cwnd α = 3 (1 − β) / (1 + β) until W_max, then 1   [RFC 9438 eq. 4]
//! congestion avoidance: cwnd follows the larger of W(t + rtt) and W_est
//! loss, once per round trip: W_max ← cwnd (or (1 + β)/2 · cwnd when it is less than the
//! last W_max), ssthresh ← cwnd ← β · cwnd
//! ```
//! with C = 0.4 datagrams/s³ and β = 0.7. Source: [RFC 9438]. *Deviations*: 1. no HyStart; 2. no
//! undo of spurious reductions; 3. no persistent congestion (see `reno.rs`).

use units::{Instant, Rate};

use super::asran::LossBased;
use super::{Acked, Controller, LinkView, Lost, initial_window};

/// Growth, in datagrams per second cubed [RFC 9438 §5].
const C: f64 = 0.4;
/// What is left of the window after a loss [RFC 9438 §4.6].
const BETA: f64 = 0.7;

/// Grows its window by the cube of the time since the last loss [RFC 9438].
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    cwnd: u64,
    ssthresh: u64,
    /// W_max, bytes.
    w_max: f64,
    epoch: Option<Epoch>,
    recovery_began: Option<Instant>,
}

/// Congestion avoidance since the last loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// K, seconds.
    k: f64,
    /// W_est, bytes.
    w_est: f64,
}

impl Cubic {
    pub(super) fn new(mtu: u64) -> Self {
        Self {
            cwnd: initial_window(mtu),
            ssthresh: u64::MAX,
            w_max: 0.0,
            epoch: None,
            recovery_began: None,
        }
    }

    fn avoid_congestion(&mut self, view: &LinkView, acked: u64) {
        let (mtu, cwnd) = (view.mtu as f64, self.cwnd as f64);
        self.w_max = self.w_max.max(if self.epoch.is_none() { cwnd } else { 0.0 });
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: view.now,
            k: ((w_max - cwnd) / mtu / C).cbrt(),
            w_est: cwnd,
        });
        let alpha = if epoch.w_est < w_max { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        epoch.w_est += alpha * mtu * acked as f64 / cwnd;
        let t = view.now.since(epoch.began).as_secs_f64() + view.srtt.as_secs_f64();
        let w_cubic = C * (t - epoch.k).powi(3) * mtu + w_max;
        let target = w_cubic.clamp(cwnd, 1.5 * cwnd);
        let grown = cwnd + (target - cwnd) * acked as f64 / cwnd;
        self.cwnd = grown.max(epoch.w_est) as u64;
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        if self.has_counted(acked.newest_sent_at) || !acked.window_limited {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.bytes;
        } else {
            self.avoid_congestion(view, acked.bytes);
        }
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        if self.has_counted(lost.newest_sent_at) {
            return;
        }
        let cwnd = self.cwnd as f64;
        self.recovery_began = Some(view.now);
        self.epoch = None;
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.cwnd = ((cwnd * BETA) as u64).max(2 * view.mtu);
        self.ssthresh = self.cwnd;
    }

    fn on_revival(&mut self, view: &LinkView) {
        self.epoch = None;
        self.cwnd = self.cwnd.min(initial_window(view.mtu));
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        Some(self.pace(view))
    }
}

impl LossBased for Cubic {
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
