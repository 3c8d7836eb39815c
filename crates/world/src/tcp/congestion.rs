//! What a congestion control decides, and the window that it decides about.
//!
//! Everything is counted in segments, as in Linux. What happens in a recovery (reduction in
//! proportion, undoing) is the same for all and stands in `recovery.rs`.

use units::{Duration, Instant};

use super::asran::{Asran, Form};
use super::cubic::Cubic;
use super::reno::Reno;

/// The initial window, in segments [RFC 6928 §2].
pub(super) const INITIAL_WINDOW: u32 = 10;

/// Names a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC with HyStart: what Linux has by default [RFC 9438].
    Cubic,
    /// NewReno [RFC 5681].
    Reno,
    /// ASRAN over CUBIC: what a loss on a bad link cost is slow-started back to [ASRAN alg. 1].
    AsranCubic,
    /// The same as the paper's simple hook: the window jumps back without having been reduced.
    AsranJump,
}

/// The window and the threshold of slow start, in segments.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    /// Acknowledged segments that count for the next growth.
    pub(super) count: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self { cwnd: INITIAL_WINDOW, ssthresh: u32::MAX, count: 0 }
    }
}

impl Window {
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by what was acknowledged, up to the threshold; returns what is left of it.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let used = cwnd - self.cwnd;
        self.cwnd = cwnd;
        acked - used
    }

    /// Grows by one segment for each `per` that are acknowledged.
    pub(super) fn grow(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        self.cwnd += self.count / per;
        self.count %= per;
    }
}

/// Where a connection stands when its congestion control is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// The oldest segment that is not acknowledged.
    pub(super) una: u64,
    /// The next new segment.
    pub(super) next: u64,
}

/// Decides how the window grows and falls.
pub(super) trait CongestionControl: std::fmt::Debug {
    /// Grows the window for what was acknowledged, where the window was what limited the sender.
    fn on_acked(&mut self, now: Instant, window: &mut Window, acked: u32);

    /// Returns the threshold after a loss.
    fn ssthresh(&mut self, window: &Window) -> u32;

    /// Takes a round-trip time of segments that were sent once.
    fn on_round_trip(&mut self, _moment: Moment, _window: &mut Window, _rtt: Duration) {}

    /// Forgets what a retransmission timeout makes void.
    fn on_timeout(&mut self, _moment: Moment, _window: &mut Window) {}

    /// Takes the news that the threshold was asked for because of a loss that a probe of the tail
    /// had mended.
    fn on_mended(&mut self, _window: &mut Window) {}

    /// Takes the end of a recovery from losses.
    fn on_recovered(&mut self, _window: &mut Window) {}

    /// Takes the news that nothing was lost after all.
    fn on_undone(&mut self) {}
}

impl Congestion {
    /// Returns its name, which is the kernel's where that has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::AsranCubic => "asran_cubic",
            Self::AsranJump => "asran_jump",
        }
    }

    pub(super) fn make(self, now: Instant) -> Box<dyn CongestionControl> {
        match self {
            Self::Cubic => Box::new(Cubic::new(now)),
            Self::Reno => Box::new(Reno),
            Self::AsranCubic => Box::new(Asran::new(now, Form::Restoring)),
            Self::AsranJump => Box::new(Asran::new(now, Form::Jumping)),
        }
    }
}
