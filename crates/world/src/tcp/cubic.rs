//! CUBIC in the whole numbers of Linux's `tcp_cubic.c` [RFC 9438].
//!
//! ```text
//! W(t) = C·(t − K)³ + W_max      K = ∛((W_max − cwnd)/C)      C = 0.4 segments/s³              [eq. 1, 2]
//! loss: ssthresh = 0.7·cwnd;  fast convergence: W_max = cwnd·(1 + 0.7)/2 where cwnd < W_max     [§4.6, 4.7]
//! Reno-friendly: W_est ← W_est + α·acked/cwnd,  α = 3·(1 − β)/(1 + β) ≈ 8/15                     [eq. 4]
//! ```
//! Times count in 1/1024 s, as in Linux with its coarsest clock of 1 ms. *Deviations from the RFC*,
//! all of them Linux's: (1) the target is that of the present moment plus the least round trip; (2)
//! W_est counts acknowledged segments in steps of 15/8·cwnd; (3) the window grows by one segment
//! for two that are acknowledged at most; (4) an idle time does not move the epoch (here alone).

use units::{Duration, Instant};

use super::congestion::{CongestionControl, Moment, Window};
use super::hystart::{HyStart, LOW_WINDOW};

/// β, in 1/1024: 0.7.
const BETA: u32 = 717;
/// C·2¹⁰/(1/1024 s)³, Linux's scale of the curve: 410/1024 = 0.4.
const SCALE: u64 = 410;
/// Eight times the window's part after which W_est grows: 8·(1 + β)/3/(1 − β).
const FRIENDLY: u64 = 15;
/// How often the curve is looked at while the window stands.
const REST: Duration = Duration::from_micros(31_250);

/// What CUBIC remembers of one connection.
#[derive(Debug)]
pub(super) struct Cubic {
    hystart: HyStart,
    /// The window before the last loss, in segments; zero before the first.
    w_max: u32,
    epoch: Option<Epoch>,
    /// Segments to be acknowledged for one more.
    per: u32,
    last_cwnd: u32,
    last_at: Option<Instant>,
    /// The least round-trip time since the last timeout.
    delay_min: Option<Duration>,
}

/// What begins with a loss.
#[derive(Debug)]
struct Epoch {
    start: Instant,
    /// Where the curve is flat: window in segments, and when in 1/1024 s.
    origin: u32,
    k: u64,
    /// What NewReno would have, and acknowledged segments towards its next one.
    w_est: u32,
    acked: u64,
}

impl Cubic {
    /// Begins a connection.
    pub(super) fn new(now: Instant) -> Self {
        let hystart = HyStart::new(Moment { now, una: 0, next: 0 });
        Self {
            hystart,
            w_max: 0,
            epoch: None,
            per: 0,
            last_cwnd: 0,
            last_at: None,
            delay_min: None,
        }
    }

    /// Sets how many segments are to be acknowledged for one more.
    fn update(&mut self, now: Instant, cwnd: u32, acked: u32) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += u64::from(acked);
        }
        let elapsed = self.last_at.map(|last| now.since(last));
        if self.last_cwnd == cwnd && elapsed.is_some_and(|elapsed| elapsed <= REST) {
            return;
        }
        // The curve is looked at once a millisecond.
        let same =
            self.last_at.is_some_and(|last| last.as_micros() / 1_000 == now.as_micros() / 1_000);
        if !(same && self.epoch.is_some()) {
            (self.last_cwnd, self.last_at) = (cwnd, Some(now));
            self.follow_curve(now, cwnd, acked);
        }
        self.befriend(cwnd);
        self.per = self.per.max(2);
    }

    fn follow_curve(&mut self, now: Instant, cwnd: u32, acked: u32) {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            origin: w_max.max(cwnd),
            k: k(u64::from(w_max.saturating_sub(cwnd))),
            w_est: cwnd,
            acked: u64::from(acked),
        });
        let t = now.since(epoch.start) + self.delay_min.unwrap_or_default();
        let target = w_cubic(t, epoch.k, epoch.origin);
        self.per = match target.checked_sub(cwnd) {
            Some(more) if more > 0 => cwnd / more,
            _ => cwnd.saturating_mul(100),
        };
        if self.w_max == 0 {
            // Nothing is known of the link: 5 % in a round trip at least.
            self.per = self.per.min(20);
        }
    }

    /// Grows no slower than NewReno would [RFC 9438 §4.3].
    fn befriend(&mut self, cwnd: u32) {
        let Some(epoch) = &mut self.epoch else { return };
        let step = (u64::from(cwnd) * FRIENDLY / 8).max(1);
        epoch.w_est += (epoch.acked.saturating_sub(1) / step) as u32;
        epoch.acked -= epoch.acked.saturating_sub(1) / step * step;
        if epoch.w_est > cwnd {
            self.per = self.per.min(cwnd / (epoch.w_est - cwnd));
        }
    }
}

impl CongestionControl for Cubic {
    fn on_acked(&mut self, now: Instant, window: &mut Window, acked: u32) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            self.update(now, window.cwnd, left);
            window.grow(self.per, left);
        }
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let cwnd = window.cwnd;
        // Fast convergence: who has to give way gives more.
        self.w_max = if cwnd < self.w_max { cwnd * (1_024 + BETA) / 2_048 } else { cwnd };
        (cwnd * BETA / 1_024).max(2)
    }

    fn on_round_trip(&mut self, moment: Moment, window: &mut Window, rtt: Duration) {
        let began = self.epoch.as_ref().map(|epoch| moment.now.since(epoch.start));
        // What comes right after a recovery is not what the link's delay is.
        if began.is_some_and(|began| began < Duration::from_secs(1)) {
            return;
        }
        let min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(min);
        if window.in_slow_start()
            && window.cwnd >= LOW_WINDOW
            && self.hystart.on_round_trip(moment, rtt, min)
        {
            window.ssthresh = window.cwnd;
        }
    }

    fn on_timeout(&mut self, moment: Moment, _window: &mut Window) {
        *self = Self { hystart: HyStart::new(moment), ..Self::new(moment.now) };
    }
}

/// Returns K in 1/1024 s for a window that many segments below W_max [RFC 9438 eq. 2].
fn k(below: u64) -> u64 {
    cube_root((1 << 40) / SCALE * below)
}

/// Returns the window, in segments, at a time in the epoch [RFC 9438 eq. 1].
fn w_cubic(t: Duration, k: u64, origin: u32) -> u32 {
    // Beyond some hours the curve is steeper than anything that could matter.
    let t = (t.as_millis() << 10).min(1 << 34) / 1_000;
    let offset = u128::from(t.abs_diff(k));
    let delta = (u128::from(SCALE) * offset * offset * offset) >> 40;
    let delta = u32::try_from(delta).unwrap_or(u32::MAX);
    if t < k { origin.saturating_sub(delta) } else { origin.saturating_add(delta) }
}

/// Returns the whole part of a cube root.
fn cube_root(of: u64) -> u64 {
    let (mut low, mut high) = (0, 1 << 22);
    while low < high {
        let middle = u64::midpoint(low, high + 1);
        if u128::from(middle).pow(3) <= u128::from(of) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_is_that_of_the_rfc() {
        for below in [1_u32, 10, 100, 1_000] {
            let k = k(u64::from(below));
            let expected = (f64::from(below) / 0.4).cbrt();
            assert!((k as f64 / 1_024.0 - expected).abs() < 0.01 * expected, "{below}: {k}");
            for seconds in [0_u32, 1, 3, 8, 20] {
                let w = w_cubic(Duration::from_secs(seconds.into()), k, 2_000);
                let w_rfc = 0.4 * (f64::from(seconds) - expected).powi(3) + 2_000.0;
                let error = (f64::from(w) - w_rfc).abs();
                assert!(error < 2.0 + 0.01 * w_rfc, "{w} {w_rfc}");
            }
        }
    }

    #[test]
    fn cube_roots_are_whole_parts() {
        for root in [1_u64, 2, 1_000, 99_999, 2_000_000] {
            let cube = root.pow(3);
            assert_eq!((cube_root(cube), cube_root(cube + 1)), (root, root));
        }
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    #[test]
    fn loss_leaves_seven_tenths_and_the_second_makes_room() {
        let mut cubic = Cubic::new(Instant::ZERO);
        let mut window = Window { cwnd: 1_000, ..Window::default() };
        assert_eq!((cubic.ssthresh(&window), cubic.w_max), (700, 1_000));
        window.cwnd = 800;
        assert_eq!((cubic.ssthresh(&window), cubic.w_max), (560, 680));
    }
}
