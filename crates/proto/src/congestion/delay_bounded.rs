//! The default controller: tolerates random loss and bounds the queue that it builds itself.
//!
//! ```text
//! queue   = standing rtt − base rtt                                        (`standing_queue.rs`)
//! x       = cwnd / srtt
//! T(x)    = clamp(20 s − 3 log2(x / 5 Mbit/s), 10 s, 30) ms + 2 s · noise
//! holds   = bandwidth · base                 (bandwidth: largest delivery rate of 10 round trips)
//! steady:   cwnd ← cwnd + κ · acked · (T − queue) / rtt,  κ = 1/2
//!           per round trip at most ± a quarter; where it grows, by one datagram at least
//! fast:     with queue < T/3 for a round trip, growth doubles per round trip up to
//!           min(1/4, s · 15 ms / rtt) per round trip
//! radio:    where more than 20 % is lost and there was no queue for 5 to 10 s, up to 1/4; and what
//!           is always lost counts as acknowledged for growth
//! start:    cwnd ← cwnd + acked / 2  until queue > 8 ms, or loss is in excess
//! bounds:   cwnd ≥ 3/4 holds; growth ends at bandwidth / (1 − usual loss) · (base + queue + 2 T)
//! dry:      cwnd ← max(1 − 3 queue / base, 1/4) · holds  for two round trips when the empty path
//!           was not seen for 7.5 s, when half of it has passed and the queue falls by half
//!           (another flow runs dry), or after 6 round trips at the floor
//! excess of loss, once per round trip:
//!           s ← 0.7 s, cwnd ← bandwidth / (1 − usual loss) · (base + queue), a cut of 15 to 50 %;
//!           s recovers by 0.03 per second
//! ```
//! The law is that of FAST \[FAST\] with its number of queued packets α written as a delay, as
//! LEDBAT's target is [RFC 6817]. Every flow at a bottleneck sees the same queue, and T falls with
//! the rate, so flows settle where their rates are equal; the logarithm makes the time that this
//! takes the same at all rates. The slope stays the same where s has cut T, so that flows of
//! different s settle too, and s grows by the same amount for all. A latecomer takes the queue that
//! it finds for part of the base. Running dry shows it the empty path, and flows that see it at the
//! same moment run dry together from then on \[BBR\]. A flow that stays squeezed although it ran
//! dry three times concludes that the route has become longer.
//!
//! Random loss changes nothing: lost bytes leave the flight and are replaced. On a long path that
//! loses half in bursts the first burst ends start-up, and the window would need half a minute to
//! make up for that; where no queue was seen for seconds there is room to grow faster. Loss beyond
//! what the path always has (`loss_guard.rs`) shows a bottleneck whose buffer is shorter than T: T
//! shrinks. Nothing grows while the application, not the window, limits the sender.
//!
//! *Deviations from FAST*: 1. the window moves with each acknowledgement, not every other round
//! trip; 2. T depends on the rate; 3. start-up by half per round trip, so that the overshoot stays
//! below half a round trip;
//! 4. bounds, dry periods, loss guard; 5. a step of the route moves the base at once.

use units::{Duration, Instant, Rate};

use super::loss_guard::LossGuard;
use super::max_filter::MaxFilter;
use super::standing_queue::{BASE_MEMORY, NEAR_BASE, StandingQueue};
use super::{
    Acked, Controller, LEAST_QUEUE, LEAST_WINDOW, LinkView, Lost, MOST_MADE_UP, initial_window,
    window_rate,
};

/// Standing queue that a flow of [`TARGET_RATE_BPS`] aims at, seconds.
const TARGET: f64 = 0.020;
/// The rate at which a flow aims at [`TARGET`].
const TARGET_RATE_BPS: f64 = 5e6;
/// What doubling the rate takes off the target, seconds: this makes rates equal.
const TARGET_SLOPE: f64 = 0.003;
/// κ: the share of the error that a round trip corrects. Start-up grows as if a whole round-trip
/// time were missing.
const STEP: f64 = 0.5;
/// The most that a round trip changes the window by, outside start-up.
const MOST_CHANGE: f64 = 0.25;
/// Pacing rate after start-up, in windows per round trip: more would ripple the queue, less would
/// not fill the window.
const PACING: f64 = 1.1;
/// What an excess of loss leaves of the target.
const EXCESS_TARGET: f64 = 0.7;
/// What an excess of loss leaves of the window at most.
const EXCESS_WINDOW: f64 = 0.85;
/// The least that excesses leave of the target.
const LEAST_SCALE: f64 = 0.1;
/// How the target recovers, per second without excess: by the same amount for all flows at a
/// bottleneck, so that those whose targets were cut more often come up with the others.
const SCALE_RECOVERY: f64 = 0.03;
/// Beyond this loss nothing grows fast where there are queues.
const CAREFUL_LOSS: f64 = 0.2;
/// The least window, as a share of what the empty path holds: less than all of it, because the
/// largest delivery rates of several flows add up to more than the link's.
const FLOOR: f64 = 0.75;
/// After this many round trips at the floor behind a queue, some flow has a wrong base.
const SQUEEZED_ROUNDS: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Start,
    Steady,
    /// Running dry until the given time.
    Dry {
        until: Instant,
        window: f64,
    },
}

/// Bounds its own queue to about 20 ms.
#[derive(Clone, Debug)]
pub(super) struct DelayBounded {
    cwnd: f64,
    phase: Phase,
    queue: StandingQueue,
    loss: LossGuard,
    bandwidth: MaxFilter,
    /// Round trips, counted in deliveries: the count that ends this one, and how many there were.
    round_end: u64,
    rounds: u64,
    /// s: what excess loss has left of the target.
    scale: f64,
    /// Growth per round trip while the queue is empty; 0 outside fast growth.
    fast: f64,
    squeezed: u32,
    /// How often running dry did not end the squeeze.
    vain: u32,
    dried_at: Instant,
    /// The queue at the end of the last round trip, seconds.
    last_queue: f64,
    cut_at: Option<Instant>,
    judged_at: Instant,
}

impl DelayBounded {
    pub(super) fn new(mtu: u64) -> Self {
        Self {
            cwnd: initial_window(mtu) as f64,
            phase: Phase::Start,
            queue: StandingQueue::default(),
            loss: LossGuard::default(),
            bandwidth: MaxFilter::default(),
            round_end: 0,
            rounds: 0,
            scale: 1.0,
            fast: 0.0,
            squeezed: 0,
            vain: 0,
            dried_at: Instant::ZERO,
            last_queue: 0.0,
            cut_at: None,
            judged_at: Instant::ZERO,
        }
    }

    /// T, seconds: the noise of the standing round-trip time counts twice.
    fn target(&self, srtt: Duration) -> f64 {
        let rate_bps = self.cwnd * 8.0 / srtt.as_secs_f64().max(1e-4);
        let (mean, most) = (self.scale * TARGET, 1.5 * TARGET);
        let target = mean - TARGET_SLOPE * (rate_bps / TARGET_RATE_BPS).log2();
        let noise = (2.0 * self.queue.noise().as_secs_f64()).min(most);
        target.clamp(mean / 2.0, most) + self.scale * noise
    }

    /// Bytes per second that are worth sending: what arrives, and what the path always loses.
    fn useful_rate(&self) -> f64 {
        self.bandwidth.max().as_bps() as f64 / 8.0 / (1.0 - self.made_up())
    }

    /// The share that the path always loses, as far as we make up for it.
    fn made_up(&self) -> f64 {
        self.loss.usual().min(MOST_MADE_UP)
    }

    /// Bytes that the empty path holds.
    fn path_holds(&self) -> f64 {
        self.bandwidth.max().as_bps() as f64 / 8.0 * self.queue.base().as_secs_f64()
    }

    fn start(&mut self, view: &LinkView, acked: &Acked, excess: bool) {
        if acked.window_limited {
            self.cwnd += STEP * acked.bytes as f64;
        }
        if self.queue.queue_soon() > LEAST_QUEUE || excess || self.loss.is_heavy() {
            self.end_start(view);
        }
    }

    fn end_start(&mut self, view: &LinkView) {
        self.phase = Phase::Steady;
        let bandwidth = self.bandwidth.max().as_bps() as f64 / 8.0;
        let holds = bandwidth * (self.queue.base().as_secs_f64() + self.target(view.srtt) / 2.0);
        self.cwnd = holds.clamp(self.cwnd / 2.0, self.cwnd);
    }

    fn steady(&mut self, view: &LinkView, acked: &Acked) {
        let queue = self.queue.queue(view.now, view.srtt).as_secs_f64();
        let target = self.target(view.srtt);
        let rtt = view.srtt.as_secs_f64();
        let correction = (STEP * (target - queue) / rtt).clamp(-MOST_CHANGE, MOST_CHANGE);
        let one_datagram = (view.mtu as f64 / self.cwnd).min(MOST_CHANGE);
        let least =
            if queue < target { self.fast.max(one_datagram * self.scale) } else { correction };
        let gain = correction.max(least);
        let spare = if self.loss.is_calm() { 2.0 } else { 1.0 };
        let holds = self.queue.base().as_secs_f64() + queue + 2.0 * target;
        let most = spare * self.useful_rate() * holds;
        if gain < 0.0 || (acked.window_limited && self.cwnd < most) {
            let answered = if self.loss.is_calm() { 1.0 - self.made_up() } else { 1.0 };
            self.cwnd += gain * acked.bytes as f64 / if gain > 0.0 { answered } else { 1.0 };
        }
        if gain < 0.0 && self.cut_at.is_none_or(|at| view.now.since(at) > view.srtt) {
            self.cwnd = self.cwnd.max(FLOOR * self.path_holds());
        }
    }

    fn on_round(&mut self, view: &LinkView, acked: &Acked) {
        self.rounds += 1;
        if self.phase != Phase::Steady {
            return;
        }
        let queue = self.queue.queue(view.now, view.srtt).as_secs_f64();
        let target = self.target(view.srtt);
        self.grow_fast(view, queue < target / 3.0 && acked.window_limited);
        self.unsqueeze(view, queue > target);
        let unseen = view.now.since(self.queue.base_seen_at());
        let falls = queue > NEAR_BASE.as_secs_f64() && queue < self.last_queue / 2.0;
        self.last_queue = queue;
        // Long before the base is forgotten; sooner where another flow runs dry.
        let due = unseen > BASE_MEMORY / if falls { 4 } else { 2 };
        if self.phase == Phase::Steady && acked.window_limited && due {
            self.run_dry(view);
        }
    }

    fn grow_fast(&mut self, view: &LinkView, empty: bool) {
        let lossy = self.loss.last() > CAREFUL_LOSS;
        let careful = self.scale < 0.5 || (lossy && !self.loss.is_calm());
        if !empty || careful {
            self.fast = 0.0;
            return;
        }
        let rtt = view.srtt.as_secs_f64();
        let first = STEP * self.target(view.srtt) / rtt;
        // The queue may be overshot by three quarters of the target.
        let most = if lossy { MOST_CHANGE } else { self.scale * (0.75 * TARGET) / rtt };
        self.fast = (self.fast * 2.0).max(first).min(most.min(MOST_CHANGE));
    }

    /// Handles a queue that stays although the window is at its floor: others keep it, or the base
    /// is wrong. Running dry, once a second at most, shows the base to all flows; where that was in
    /// vain twice, the path has become longer.
    fn unsqueeze(&mut self, view: &LinkView, queued: bool) {
        let squeezed = queued && self.cwnd <= FLOOR * self.path_holds() * 1.05;
        self.squeezed = if squeezed { self.squeezed + 1 } else { 0 };
        if !queued {
            self.vain = 0;
        }
        let just_dried = view.now.since(self.dried_at) < Duration::from_secs(1);
        if self.squeezed < SQUEEZED_ROUNDS || just_dried {
            return;
        }
        self.squeezed = 0;
        self.vain += 1;
        if self.vain > 2 {
            self.vain = 0;
            let least = self.queue.standing_since(self.dried_at);
            self.queue.rebase(view.now, least);
        }
        self.run_dry(view);
    }

    fn run_dry(&mut self, view: &LinkView) {
        self.dried_at = view.now;
        let queue = self.queue.queue(view.now, view.srtt);
        let base = self.queue.base();
        let until = view.now + (queue + base) * 2 + Duration::from_millis(10);
        // By three queues, more than our own, for other flows' sake; but a quarter stays.
        let left = 1.0 - 3.0 * queue.as_secs_f64() / base.as_secs_f64().max(1e-6);
        let window = (left.max(0.25) * self.path_holds()).max((LEAST_WINDOW * view.mtu) as f64);
        self.phase = Phase::Dry { until, window };
    }

    fn on_excess(&mut self, view: &LinkView) {
        if self.cut_at.is_some_and(|at| view.now.since(at) < view.srtt) {
            return;
        }
        self.cut_at = Some(view.now);
        self.scale = (self.scale * EXCESS_TARGET).max(LEAST_SCALE);
        let queue = self.queue.queue(view.now, view.srtt);
        let useful = self.useful_rate() * (self.queue.base() + queue).as_secs_f64();
        self.cwnd = useful.clamp(self.cwnd / 2.0, self.cwnd * EXCESS_WINDOW);
        self.fast = 0.0;
    }
}

impl Controller for DelayBounded {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        if let Some(rtt) = acked.rtt {
            let base = self.queue.base();
            self.queue.on_sample(view.now, rtt, view.srtt);
            if base > Duration::ZERO && self.queue.base() > base {
                // The route has become longer and holds more.
                self.cwnd = self.cwnd.max(self.path_holds());
            }
            self.loss.on_queue(view.now, rtt.saturating_sub(self.queue.base()));
        }
        self.loss.on_late(acked.late_bytes as f64 / view.mtu as f64);
        let packets = acked.bytes as f64 / view.mtu as f64;
        let verdict = self.loss.on_delivered(view.now, packets, view.srtt);
        match verdict {
            Some(true) => self.on_excess(view),
            Some(false) => {
                let elapsed = view.now.since(self.judged_at).as_secs_f64().min(1.0);
                self.scale = (self.scale + SCALE_RECOVERY * elapsed).min(1.0);
                self.judged_at = view.now;
            }
            None => {}
        }
        if let Some(sample) = acked.rate {
            if sample.rate > self.bandwidth.max() || !sample.app_limited {
                self.bandwidth.on_sample(self.rounds, sample.rate);
            }
            if sample.prior_delivered >= self.round_end {
                self.round_end = sample.delivered;
                self.on_round(view, acked);
            }
        }
        match self.phase {
            Phase::Start => self.start(view, acked, verdict == Some(true)),
            Phase::Steady => self.steady(view, acked),
            Phase::Dry { until, .. } if view.now >= until => {
                self.queue.looked_for_base(view.now);
                self.phase = Phase::Steady;
            }
            Phase::Dry { .. } => {}
        }
        self.cwnd = self.cwnd.max((LEAST_WINDOW * view.mtu) as f64);
    }

    fn on_loss(&mut self, view: &LinkView, lost: &Lost) {
        self.loss.on_lost(lost.bytes as f64 / view.mtu as f64);
    }

    fn on_revival(&mut self, view: &LinkView) {
        self.queue.on_silence(view.now, view.min_rtt);
        self.loss.on_silence(view.now);
        self.fast = 0.0;
        self.squeezed = 0;
        if matches!(self.phase, Phase::Dry { .. }) {
            self.phase = Phase::Steady;
        }
    }

    fn cwnd(&self) -> u64 {
        match self.phase {
            Phase::Dry { window, .. } => self.cwnd.min(window) as u64,
            _ => self.cwnd as u64,
        }
    }

    fn runs_dry(&self) -> bool {
        matches!(self.phase, Phase::Dry { .. })
    }

    fn usual_loss(&self) -> f64 {
        self.loss.usual()
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        // In start-up as fast as the window grows.
        let gain = if self.phase == Phase::Start { 1.0 + STEP } else { PACING };
        Some(window_rate(self.cwnd(), view.srtt, gain))
    }
}
