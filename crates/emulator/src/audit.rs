//! What an emulation says about itself: how late it was, what it lost, and whether its figures may
//! be believed.
//!
//! Not the measuring: the engine and the witness fill histograms while the emulation runs; here
//! they are summed up and judged against what the run claims to measure.
//!
//! The judgement of a run as a whole: it is INVALID where its error reaches a tenth of what it
//! claims to measure. Whoever computes figures one by one judges them instead, by the [`Stalls`]
//! that each met; then only the faults count that no stall accounts for.
//!
//! Percentiles of a run are moved by the 99th percentile of the emulator's error, its extremes
//! (the longest gap, the latest message) by the largest, so each has a claim of its own.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::queue_delay::QueueDelays;
use crate::stalls::{StallLog, Stalled, Stalls};
use units::{Duration, Instant};

/// The error may reach this part of what is claimed.
const TOLERATED_PART: u32 = 10;

/// The share of wake-ups by which is said how late they are as a rule. On two processors full of
/// compilers the median delay of a control message through two daemons grew by 1.3 ms, of which the
/// stalls that are noted one by one explain 0.8.
const USUALLY: f64 = 0.9;

/// Says what a run wants to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The shortest time that its percentiles of delay are to tell apart.
    pub resolution: Duration,
    /// The shortest time that its extremes are to tell apart: of gaps, of the latest message.
    pub extremes: Duration,
    /// Whether threads of ordinary priority take part. Where all of them run in real time, as the
    /// emulator does, what ordinary ones suffer says nothing about the figures.
    pub ordinary: bool,
}

impl Claim {
    /// Claims percentiles to `resolution` and extremes to ten times that.
    pub const fn to(resolution: Duration) -> Self {
        Self { resolution, extremes: resolution.saturating_mul(10), ordinary: true }
    }

    /// Returns the shortest stall that matters to percentiles.
    pub(crate) fn tolerance(&self) -> Duration {
        self.resolution / TOLERATED_PART
    }

    /// Says whether threads of ordinary priority count: without the right to run the emulator in
    /// real time there is none to run the programs so.
    fn is_of_ordinary(self, scheduling: &str) -> bool {
        self.ordinary || scheduling != "fifo"
    }

    /// Claims the same for programs that run in real time where the emulator may.
    pub const fn of_realtime_programs(resolution: Duration) -> Self {
        Self { ordinary: false, ..Self::to(resolution) }
    }
}

impl Default for Claim {
    /// Claims 10 ms, fit for figures such as "later than 100 ms".
    fn default() -> Self {
        Self::to(Duration::from_millis(10))
    }
}

/// A summary of how late something was, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// How many times it was measured.
    pub count: u64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl Lateness {
    /// Sums up a histogram of nanoseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| (nanos as f64 / 100.0).round() / 10.0;
        Self {
            count: histogram.len(),
            p50_us: micros(histogram.value_at_quantile(0.50)),
            p99_us: micros(histogram.value_at_quantile(0.99)),
            max_us: micros(histogram.max()),
        }
    }
}

/// What happened to frames outside the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Frames that found the receive ring full.
    pub ring_full: u64,
    /// Frames longer than the emulated links carry.
    pub too_long: u64,
    /// Frames that found no memory while they waited for their time.
    pub no_memory: u64,
    /// Frames that the kernel refused to deliver: too many at once.
    pub refused: u64,
    /// Frames to a host that had switched its interface off; no fault of the emulator.
    pub interface_down: u64,
}

impl Losses {
    /// Counts the frames whose loss is the emulator's fault.
    pub fn total(&self) -> u64 {
        self.ring_full + self.too_long + self.no_memory + self.refused
    }
}

/// What the processors did meanwhile; shares of the elapsed time, `None` where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessorUse {
    /// Share of one processor that the emulator used.
    pub emulator: Option<f64>,
    /// Share of the time in which the emulator was ready and had no processor.
    pub emulator_waiting: Option<f64>,
    /// Share of the time in which some task of the machine waited for a processor.
    pub pressure: Option<f64>,
    /// Processors' worth of time that the hypervisor gave to others.
    pub stolen: Option<f64>,
}

/// The emulator's account of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// False when the error reached a tenth of what the run claims to measure.
    pub valid: bool,
    /// Why it is not valid; empty when it is.
    pub reasons: Vec<String>,
    /// What no error of a figure accounts for: frames lost and the like, and stalls for a tenth of
    /// the time.
    pub faults: Vec<String>,
    /// How long the run was, in seconds.
    pub seconds: f64,
    /// The claim for percentiles, in milliseconds.
    pub claims_ms: f64,
    /// The claim for extremes, in milliseconds.
    pub claims_extremes_ms: f64,
    /// How the kernel scheduled the emulator: `fifo`, `short_slice` or `fair`.
    pub scheduling: &'static str,
    /// Send time against due time, over all delivered frames.
    pub lateness: Lateness,
    /// Frames that left later than a tenth of the claim.
    pub late_frames: u64,
    /// Return from sleep against the time asked for, of the emulator.
    pub wakeups: Lateness,
    /// Wake-ups so late that spinning could not make up for it.
    pub late_wakeups: u64,
    /// Wake-ups of an ordinary thread that sleeps most of the time: what programs under test
    /// suffer.
    pub ordinary_wakeups: Lateness,
    /// Frames lost outside the model.
    pub losses: Losses,
    /// Frames that passed around the model: address resolution and the like.
    pub passed: u64,
    /// Steps of the wall clock, which disturb the kernel's timestamps.
    pub clock_steps: u64,
    /// Use of processors.
    pub processor: ProcessorUse,
    /// When the emulator or ordinary programs stood still, for at least a tenth of the claim for
    /// percentiles.
    pub stalls: Stalls,
}

/// What the engine and the witness measured, before judgement.
#[derive(Clone, Debug)]
pub(crate) struct Measurements {
    pub(crate) elapsed: Duration,
    pub(crate) scheduling: &'static str,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) wakeups: Histogram<u64>,
    pub(crate) late_wakeups: u64,
    pub(crate) ordinary_wakeups: Histogram<u64>,
    pub(crate) losses: Losses,
    pub(crate) passed: u64,
    pub(crate) clock_steps: u64,
    pub(crate) processor: ProcessorUse,
    pub(crate) queue_delays: QueueDelays,
    /// The engine's and the witnesses'.
    pub(crate) stalls: Vec<StallLog>,
}

impl Audit {
    /// Judges what was measured against what is claimed.
    pub(crate) fn judge(measured: &Measurements, claim: Claim, zero: Instant) -> Self {
        let limit = claim.tolerance();
        let late = measured.lateness.count_between(limit.as_nanos(), u64::MAX);
        let ordinary = claim.is_of_ordinary(measured.scheduling);
        let wakeups = if ordinary { &measured.ordinary_wakeups } else { &measured.wakeups };
        let usual = Duration::from_nanos(wakeups.value_at_quantile(USUALLY)).min(limit);
        let noted = measured.stalls.iter().flat_map(|log| log.stalls(zero));
        let noted = noted.filter(|stall| ordinary || stall.who != Stalled::Programs);
        let stalls = Stalls::new(noted.collect(), usual.as_secs_f64());
        let losses = find_losses(measured);
        let mut audit = Self {
            valid: true,
            reasons: Vec::new(),
            faults: losses.iter().cloned().chain(overload(&stalls, measured.elapsed)).collect(),
            seconds: (measured.elapsed.as_secs_f64() * 1e3).round() / 1e3,
            claims_ms: claim.resolution.as_secs_f64() * 1e3,
            claims_extremes_ms: claim.extremes.as_secs_f64() * 1e3,
            scheduling: measured.scheduling,
            lateness: Lateness::of(&measured.lateness),
            late_frames: late,
            wakeups: Lateness::of(&measured.wakeups),
            late_wakeups: measured.late_wakeups,
            ordinary_wakeups: Lateness::of(&measured.ordinary_wakeups),
            losses: measured.losses,
            passed: measured.passed,
            clock_steps: measured.clock_steps,
            processor: measured.processor,
            stalls,
        };
        audit.reasons = audit.find_reasons(claim);
        audit.reasons.extend(losses);
        audit.valid = audit.reasons.is_empty();
        audit
    }

    /// Says in one line what the audit found, for people.
    pub fn summary(&self) -> String {
        let verdict = match self.valid {
            true => "valid".to_owned(),
            false => format!("INVALID: {}", self.reasons.join("; ")),
        };
        format!("emulator audit: {verdict}; {}", self.account())
    }

    /// Says in one line what was measured, without the verdict on the run as a whole.
    pub fn account(&self) -> String {
        let (stalls, longest_s) = self.stalls.extent();
        let share = |share: Option<f64>| {
            share.map_or("unknown".to_owned(), |share| format!("{:.0} %", share * 100.0))
        };
        format!(
            "{} frames, late p50 {} p99 {} max {} µs; ordinary wake-ups late p99 {} max {} µs; {stalls} \
             stalls, the longest of {:.1} ms; {} lost outside the model; scheduling {}, processor {}, \
             machine under pressure {}",
            self.lateness.count,
            self.lateness.p50_us,
            self.lateness.p99_us,
            self.lateness.max_us,
            self.ordinary_wakeups.p99_us,
            self.ordinary_wakeups.max_us,
            longest_s * 1e3,
            self.losses.total(),
            self.scheduling,
            share(self.processor.emulator),
            share(self.processor.pressure),
        )
    }

    fn find_reasons(&self, claim: Claim) -> Vec<String> {
        let mut reasons = Vec::new();
        let percentile_us = (claim.resolution / TOLERATED_PART).as_secs_f64() * 1e6;
        let extreme_us = (claim.extremes / TOLERATED_PART).as_secs_f64() * 1e6;
        let mut compare = |what: &str, measured: f64, limit: f64| {
            if measured >= limit {
                reasons.push(format!("{what} {measured} µs, a tenth of the claim is {limit} µs"));
            }
        };
        compare("p99 of frames' lateness", self.lateness.p99_us, percentile_us);
        compare("largest lateness of a frame", self.lateness.max_us, extreme_us);
        if claim.is_of_ordinary(self.scheduling) {
            let ordinary = self.ordinary_wakeups;
            compare("p99 of ordinary wake-ups' lateness", ordinary.p99_us, percentile_us);
            compare("largest lateness of an ordinary wake-up", ordinary.max_us, extreme_us);
        }
        reasons
    }
}

/// Makes a histogram for lateness: nanoseconds, to a minute, three digits.
pub(crate) fn lateness_histogram() -> Histogram<u64> {
    const MINUTE_NANOS: u64 = 60_000_000_000;
    Histogram::new_with_bounds(1, MINUTE_NANOS, 3).expect("the bounds are constants and fit")
}

/// Adds one lateness to a histogram; what exceeds its range counts as its largest.
pub(crate) fn record(histogram: &mut Histogram<u64>, lateness: Duration) {
    histogram.saturating_record(lateness.as_nanos());
}

/// Names what went wrong that is no matter of time.
fn find_losses(measured: &Measurements) -> Vec<String> {
    let (losses, beyond) = (measured.losses, measured.stalls.iter().map(StallLog::beyond).sum());
    let counts = [
        (losses.ring_full, "frames found the receive ring full"),
        (losses.too_long, "frames were longer than the links carry"),
        (losses.no_memory, "frames found no memory to wait in"),
        (losses.refused, "frames were refused by the kernel"),
        (beyond, "stalls are more than can be kept"),
    ];
    let found = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut faults: Vec<String> = found.map(|(count, what)| format!("{count} {what}")).collect();
    if measured.clock_steps > 0 {
        faults.push(format!("the wall clock was set {} times", measured.clock_steps));
    }
    faults
}

/// Says so where something stood still for too large a part of the run: then programs react to it
/// in ways that no sum of stalls accounts for. At 8 % of the time every figure of the demo was that
/// of a quiet machine within its error; at 18 % the daemon's congestion control had halved its
/// rate.
fn overload(stalls: &Stalls, elapsed: Duration) -> Option<String> {
    let share = stalls.share(elapsed.as_secs_f64().max(f64::MIN_POSITIVE));
    let percent = share * 100.0;
    (share >= 1.0 / f64::from(TOLERATED_PART))
        .then(|| format!("the emulator or programs stood still for {percent:.0} % of the time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(measured: &Measurements, claim: Claim) -> Audit {
        Audit::judge(measured, claim, Instant::ZERO)
    }

    fn measured(lateness_us: &[u64]) -> Measurements {
        let mut lateness = lateness_histogram();
        for &micros in lateness_us {
            record(&mut lateness, Duration::from_micros(micros));
        }
        Measurements {
            elapsed: Duration::from_secs(1),
            scheduling: "fifo",
            lateness,
            wakeups: lateness_histogram(),
            late_wakeups: 0,
            ordinary_wakeups: lateness_histogram(),
            losses: Losses::default(),
            passed: 0,
            clock_steps: 0,
            processor: ProcessorUse::default(),
            queue_delays: QueueDelays::new(None),
            stalls: Vec::new(),
        }
    }

    #[test]
    fn a_tenth_of_the_claim_is_the_limit() {
        let claim = Claim::to(Duration::from_millis(1));
        let good = judge(&measured(&[98; 1_000]), claim);
        assert!(good.valid, "{:?}", good.reasons);
        let bad = judge(&measured(&[101; 1_000]), claim);
        assert_eq!((bad.valid, bad.reasons.len(), bad.late_frames), (false, 1, 1_000));
        let coarse = judge(&measured(&[101; 1_000]), Claim::default());
        assert!(coarse.valid, "{:?}", coarse.reasons);
    }

    #[test]
    fn one_extreme_invalidates_extremes_only_where_they_are_claimed_that_finely() {
        let mut lateness = vec![5; 1_000];
        lateness.push(2_000);
        let fine = judge(&measured(&lateness), Claim::to(Duration::from_millis(1)));
        assert!(!fine.valid && fine.reasons[0].starts_with("largest"), "{:?}", fine.reasons);
        let claim = Claim { extremes: Duration::from_millis(80), ..fine_claim() };
        assert!(judge(&measured(&lateness), claim).valid);
    }

    #[test]
    fn ordinary_wakeups_count_where_ordinary_programs_take_part() {
        let mut measured = measured(&[1]);
        record(&mut measured.ordinary_wakeups, Duration::from_millis(50));
        let claim = Claim::of_realtime_programs(Duration::from_millis(10));
        assert!(judge(&measured, claim).valid);
        assert!(!judge(&measured, Claim { ordinary: true, ..claim }).valid);
        measured.scheduling = "fair";
        assert!(!judge(&measured, claim).valid);
    }

    #[test]
    fn a_machine_that_stands_still_for_a_tenth_of_the_time_is_beyond_errors() {
        let overloaded = |still_ms: u64| {
            let mut log = StallLog::new(Stalled::Programs, Duration::from_millis(1));
            log.note(Instant::from_millis(200), Instant::from_millis(200 + still_ms));
            judge(&Measurements { stalls: vec![log], ..measured(&[1]) }, Claim::default())
        };
        let (still, free) = (overloaded(101), overloaded(99));
        assert_eq!(still.faults, ["the emulator or programs stood still for 10 % of the time"]);
        assert!(free.faults.is_empty() && free.valid && still.valid, "of the run as a whole");
    }

    #[test]
    fn what_ordinary_threads_suffer_is_in_no_figure_of_programs_in_real_time() {
        let log = |who| {
            let mut log = StallLog::new(who, Duration::from_millis(1));
            log.note(Instant::from_millis(200), Instant::from_millis(400));
            log
        };
        let judged =
            |who, claim| judge(&Measurements { stalls: vec![log(who)], ..measured(&[1]) }, claim);
        let realtime = Claim::of_realtime_programs(Duration::from_millis(10));
        let spared = judged(Stalled::Programs, realtime);
        assert!(spared.faults.is_empty() && !spared.stalls.reaches(0.3), "{:?}", spared.stalls);
        assert!(judged(Stalled::Processor, realtime).stalls.reaches(0.3), "taken away from all");
        assert!(judged(Stalled::Programs, Claim::default()).stalls.reaches(0.3));
    }

    fn fine_claim() -> Claim {
        Claim::to(Duration::from_millis(1))
    }

    #[test]
    fn a_frame_lost_outside_the_model_invalidates() {
        let mut measured = measured(&[1]);
        measured.losses.ring_full = 1;
        let audit = judge(&measured, Claim::default());
        assert_eq!(audit.reasons, ["1 frames found the receive ring full"]);
        assert!(audit.summary().contains("INVALID"));
    }
}
