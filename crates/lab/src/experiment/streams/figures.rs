//! Turns ledgers into the figures that reports carry, and declares these.
//!
//! Named figures of a scheme are the worse of its two directions, so that one object tells the
//! truth about both; `up` and `down` hold each direction's own.

use serde::Serialize;
use serde_json::{Value, json};
use units::Duration;

use super::ledger::{Ledger, StreamLedger};
use crate::figure::Figure;
use crate::report::{rounded, rounded_option};
use crate::statistics::{longest_gap, percentile};
use crate::testbed::Stream;

/// A control message that takes longer than this is late: a fifth of the time in which an
/// autopilot on set-points takes action of its own, and below what a pilot feels.
pub(crate) const LATE_S: f64 = 0.1;

/// A video packet that takes longer is of no use to a pilot.
pub(crate) const VIDEO_LIMIT_S: f64 = 0.25;

/// A span of the workload's time, in seconds.
pub(crate) type Span = (f64, f64);

// What the figures of streams are called, and what several runs of them make.
pub(crate) const CONTROL_SENT: Figure = Figure::sum("control_sent", "sent").exact();
pub(crate) const CONTROL_LOST: Figure = Figure::sum("control_lost", "lost");
pub(crate) const CONTROL_LATE: Figure = Figure::sum("control_late_100ms", ">100 ms");
pub(crate) const CONTROL_MISSED: Figure = Figure::sum("control_missed", "missed");
pub(crate) const CONTROL_MISS_SHARE: Figure = Figure::share("control_miss_share", "miss");
pub(crate) const CONTROL_DUPLICATES: Figure = Figure::sum("control_duplicates", "twice");
pub(crate) const CONTROL_GAP: Figure = Figure::worst("control_gap_s", "gap s");
pub(crate) const CONTROL_GAP_WHOLE_RUN: Figure =
    Figure::worst("control_gap_whole_run_s", "gap of the run s");
pub(crate) const CONTROL_P50: Figure = Figure::mean("control_p50_ms", "p50 ms");
pub(crate) const CONTROL_P99: Figure = Figure::mean("control_p99_ms", "p99 ms");
pub(crate) const CONTROL_MAX: Figure = Figure::worst("control_max_ms", "max ms");
pub(crate) const LIVE_AGE_P50: Figure = Figure::mean("live_age_p50_ms", "live p50 ms");
pub(crate) const LIVE_AGE_P99: Figure = Figure::mean("live_age_p99_ms", "live p99 ms");
pub(crate) const LIVE_AGE_MAX: Figure = Figure::worst("live_age_max_ms", "live max ms");
pub(crate) const VIDEO_SHARE: Figure = Figure::share("video_share_250ms", "video in 250 ms");
pub(crate) const VIDEO_FRAMES: Figure = Figure::share("video_frames_250ms", "frames in 250 ms");
pub(crate) const VIDEO_SHARE_WIFI_UP: Figure =
    Figure::share("video_share_250ms_wifi_up", "in 250 ms");
pub(crate) const VIDEO_GOODPUT_WIFI_DEAD: Figure =
    Figure::mean("video_goodput_wifi_dead_mbps", "Wi-Fi dead");
pub(crate) const DATA_GOODPUT: Figure = Figure::mean("data_goodput_mbps", "video Mbit/s");
pub(crate) const FLIGHT_LOST: Figure = Figure::sum("lost", "flight lost");
pub(crate) const FLIGHT_P99: Figure = Figure::mean("p99_ms", "flight p99 ms");
pub(crate) const WIRE_BYTES: Figure = Figure::sum("wire_bytes", "wire bytes");
pub(crate) const QUEUE_DROPPED_BYTES: Figure = Figure::sum("queue_dropped_bytes", "queue full");
pub(crate) const WIRE_SHARE: Figure = Figure::mean("wire_share", "of the links");
pub(crate) const WIRE_TO_REDUNDANT: Figure = Figure::mean("wire_to_redundant", "to redundant");

// What a flow with a name has.
const SENT: Figure = Figure::sum("sent", "sent").exact();
const DUPLICATES: Figure = Figure::sum("duplicates", "twice");
const FLOW_LOST: Figure = FLIGHT_LOST.titled("lost");
const FLOW_P99: Figure = FLIGHT_P99.titled("p99 ms");
const LATE: Figure = Figure::sum("late", "late");
const MISS_SHARE: Figure = Figure::share("miss_share", "miss");
const GAP: Figure = Figure::worst("gap_s", "gap s");
const P50: Figure = Figure::mean("p50_ms", "p50 ms");
const MAX: Figure = Figure::worst("max_ms", "max ms");
const AGE_P99: Figure = Figure::mean("age_p99_ms", "age p99 ms");
const AGE_MAX: Figure = Figure::worst("age_max_ms", "age max ms");
const GOODPUT: Figure = Figure::mean("goodput_mbps", "Mbit/s");

/// Every figure of a flow with a name.
pub(crate) const OF_FLOW: [Figure; 12] = [
    SENT, FLOW_LOST, LATE, MISS_SHARE, DUPLICATES, GAP, P50, FLOW_P99, MAX, AGE_P99, AGE_MAX,
    GOODPUT,
];

/// Those that a table has of each flow with a name, unless said.
pub(crate) const USUAL_OF_FLOW: [Figure; 3] = [FLOW_LOST, LATE, FLOW_P99];

/// Every figure of streams, in results and in the objects within them.
pub(crate) const FIGURES: [Figure; 36] = [
    CONTROL_SENT,
    CONTROL_LOST,
    CONTROL_LATE,
    CONTROL_MISSED,
    CONTROL_MISS_SHARE,
    CONTROL_DUPLICATES,
    CONTROL_GAP,
    CONTROL_GAP_WHOLE_RUN,
    CONTROL_P50,
    CONTROL_P99,
    CONTROL_MAX,
    LIVE_AGE_P50,
    LIVE_AGE_P99,
    LIVE_AGE_MAX,
    VIDEO_SHARE,
    VIDEO_FRAMES,
    VIDEO_SHARE_WIFI_UP,
    VIDEO_GOODPUT_WIFI_DEAD,
    DATA_GOODPUT,
    FLIGHT_LOST,
    FLIGHT_P99,
    WIRE_BYTES,
    QUEUE_DROPPED_BYTES,
    SENT,
    DUPLICATES,
    P50,
    LATE,
    MISS_SHARE,
    GAP,
    MAX,
    AGE_P99,
    AGE_MAX,
    GOODPUT,
    Figure::sum("strangers", "strangers"),
    WIRE_SHARE,
    WIRE_TO_REDUNDANT,
];

/// Gives the figures of the control stream of one direction.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ControlFigures {
    pub(crate) control_sent: usize,
    pub(crate) control_lost: usize,
    pub(crate) control_late_100ms: usize,
    pub(crate) control_duplicates: u64,
    pub(crate) control_gap_s: f64,
    pub(crate) control_gap_whole_run_s: f64,
    pub(crate) control_p50_ms: Option<f64>,
    pub(crate) control_p99_ms: Option<f64>,
    pub(crate) control_max_ms: Option<f64>,
}

impl ControlFigures {
    /// Computes the figures of `ledger`, whose stream is sent from 0 to `seconds`.
    ///
    /// `control_gap_s` is the longest stretch without a delivery outside `excluded`;
    /// percentiles are over what was delivered.
    pub(crate) fn new(ledger: &StreamLedger, seconds: f64, excluded: Option<Span>) -> Self {
        let mut delays: Vec<f64> = ledger.delays().collect();
        delays.sort_by(f64::total_cmp);
        let times = ledger.delivery_times();
        let milliseconds = |p| percentile(&delays, p).map(|delay| rounded(delay * 1e3, 3));
        let sent = ledger.sent_count();
        Self {
            control_sent: sent,
            control_lost: sent - delays.len(),
            control_late_100ms: delays.iter().filter(|delay| **delay > LATE_S).count(),
            control_duplicates: ledger.duplicates,
            control_gap_s: rounded(longest_gap(&times, 0.0, seconds, excluded), 6),
            control_gap_whole_run_s: rounded(longest_gap(&times, 0.0, seconds, None), 6),
            control_p50_ms: milliseconds(0.5),
            control_p99_ms: milliseconds(0.99),
            control_max_ms: milliseconds(1.0),
        }
    }

    /// Returns, figure by figure, the worse of two directions.
    pub(crate) fn worse(self, other: Self) -> Self {
        let later = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            // A direction that delivered nothing has no percentile; the other's would hide that.
            _ => None,
        };
        Self {
            control_sent: self.control_sent.min(other.control_sent),
            control_lost: self.control_lost.max(other.control_lost),
            control_late_100ms: self.control_late_100ms.max(other.control_late_100ms),
            control_duplicates: self.control_duplicates.max(other.control_duplicates),
            control_gap_s: self.control_gap_s.max(other.control_gap_s),
            control_gap_whole_run_s: self
                .control_gap_whole_run_s
                .max(other.control_gap_whole_run_s),
            control_p50_ms: later(self.control_p50_ms, other.control_p50_ms),
            control_p99_ms: later(self.control_p99_ms, other.control_p99_ms),
            control_max_ms: later(self.control_max_ms, other.control_max_ms),
        }
    }

    /// Returns the figures of two runs together: counts add up, times take the worse.
    pub(crate) fn pooled(self, other: Self) -> Self {
        Self {
            control_sent: self.control_sent + other.control_sent,
            control_lost: self.control_lost + other.control_lost,
            control_late_100ms: self.control_late_100ms + other.control_late_100ms,
            control_duplicates: self.control_duplicates + other.control_duplicates,
            ..self.worse(other)
        }
    }

    /// Returns the share of one direction's messages that were lost or late.
    pub(crate) fn miss_share(&self) -> f64 {
        let missed = self.control_lost + self.control_late_100ms;
        missed as f64 / self.control_sent.max(1) as f64
    }

    /// Returns that of the worse of two directions: what the one lost and what came late in the
    /// other is no share of anything.
    pub(crate) fn worse_miss_share(&self, other: &Self) -> f64 {
        rounded(self.miss_share().max(other.miss_share()), 6)
    }
}

/// Gives the age of the newest live message at the receiver, over the time of the run.
///
/// It grows while nothing newer comes, and falls to its delay when something does; until the first
/// message is there it is the time since that one was sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LiveFigures {
    pub(crate) live_age_p50_ms: Option<f64>,
    pub(crate) live_age_p99_ms: Option<f64>,
    pub(crate) live_age_max_ms: Option<f64>,
}

impl LiveFigures {
    /// Computes the figures of a stream that is sent until `seconds`.
    pub(crate) fn new(ledger: &StreamLedger, seconds: f64) -> Self {
        let mut ages = ages_ms(ledger, seconds);
        ages.sort_by(f64::total_cmp);
        let of = |p| percentile(&ages, p).map(|age| rounded(age, 3));
        Self { live_age_p50_ms: of(0.5), live_age_p99_ms: of(0.99), live_age_max_ms: of(1.0) }
    }

    /// Returns, figure by figure, the worse of two directions.
    pub(crate) fn worse(self, other: Self) -> Self {
        let older = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
        Self {
            live_age_p50_ms: older(self.live_age_p50_ms, other.live_age_p50_ms),
            live_age_p99_ms: older(self.live_age_p99_ms, other.live_age_p99_ms),
            live_age_max_ms: older(self.live_age_max_ms, other.live_age_max_ms),
        }
    }
}

/// Returns the greatest age of the newest live message within a span; none where none was sent.
pub(crate) fn oldest_ms(ledger: &StreamLedger, (from, to): Span) -> Option<f64> {
    let first = ledger.sent.iter().flatten().min()?.as_secs_f64();
    let before = (from - first).max(0.0) * 1e3;
    let ages = ages_ms(ledger, to).into_iter().skip(before as usize);
    ages.reduce(f64::max)
}

/// Counts the packets of a run in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Control messages handed in.
    pub(crate) sent: usize,
    /// Control messages delivered.
    pub(crate) delivered: usize,
    /// Control messages delivered later than [`LATE_S`].
    pub(crate) late: usize,
    /// Video packets handed in.
    pub(crate) video_sent: usize,
    /// Video packets delivered.
    pub(crate) video_delivered: usize,
}

impl Tally {
    /// Counts what two streams' ledgers hold.
    pub(crate) fn of(control: &StreamLedger, video: &StreamLedger) -> Self {
        Self {
            sent: control.sent_count(),
            delivered: control.delivered_count(),
            late: control.delays().filter(|delay| *delay > LATE_S).count(),
            video_sent: video.sent_count(),
            video_delivered: video.delivered_count(),
        }
    }
}

/// Returns the payload bytes per second, in Mbit/s, delivered within a span.
pub(crate) fn goodput_mbps(ledger: &StreamLedger, span: Span) -> f64 {
    let delivered = ledger.delivered.iter().zip(&ledger.lens);
    let within = delivered
        .filter(|(at, _)| at.is_some_and(|at| (span.0..span.1).contains(&at.as_secs_f64())));
    let bytes: usize = within.map(|(_, len)| len).sum();
    bytes as f64 * 8.0 / 1e6 / (span.1 - span.0)
}

/// Returns the share of packets sent outside `excluded` that arrived within `limit_s`.
///
/// None where nothing was sent.
pub(crate) fn timely_share(
    ledger: &StreamLedger,
    limit_s: f64,
    excluded: Option<Span>,
) -> Option<f64> {
    let pairs = ledger.sent.iter().zip(&ledger.delivered);
    let relevant = pairs.filter_map(|(sent, delivered)| {
        let sent = (*sent)?.as_secs_f64();
        let left_out = excluded.is_some_and(|(from, to)| (from..to).contains(&sent));
        (!left_out).then(|| delivered.is_some_and(|at| at.as_secs_f64() - sent <= limit_s))
    });
    let (timely, all) =
        relevant.fold((0_u64, 0_u64), |(timely, all), is| (timely + u64::from(is), all + 1));
    (all > 0).then(|| timely as f64 / all as f64)
}

/// Returns the share of frames of which every packet arrived within `limit_s`.
///
/// None where nothing was sent.
pub(crate) fn timely_frames(ledger: &StreamLedger, limit_s: f64) -> Option<f64> {
    let (mut frames, mut whole, mut last) = (0_u64, 0_u64, None);
    let mut is_whole = true;
    for ((taken, sent), delivered) in ledger.taken.iter().zip(&ledger.sent).zip(&ledger.delivered) {
        let Some(sent) = sent else { continue };
        if last.replace(taken) != Some(taken) {
            whole += u64::from(frames > 0 && is_whole);
            (frames, is_whole) = (frames + 1, true);
        }
        is_whole &= delivered.is_some_and(|at| at.saturating_sub(*sent).as_secs_f64() <= limit_s);
    }
    whole += u64::from(frames > 0 && is_whole);
    (frames > 0).then(|| whole as f64 / frames as f64)
}

/// Gives the figures of the recorded flight of one direction.
pub(crate) fn flight_figures(ledger: &Ledger) -> Value {
    let flight = ledger.stream(Stream::Mavlink);
    if flight.sent_count() == 0 {
        return Value::Null;
    }
    let mut delays: Vec<f64> = flight.delays().collect();
    delays.sort_by(f64::total_cmp);
    json!({
        "sent": flight.sent_count(),
        "lost": flight.sent_count() - flight.delivered_count(),
        "duplicates": flight.duplicates,
        "p50_ms": rounded_option(percentile(&delays, 0.5).map(|delay| delay * 1e3), 3),
        "p99_ms": rounded_option(percentile(&delays, 0.99).map(|delay| delay * 1e3), 3),
    })
}

/// Gives the figures of a flow of one direction that is sent until `seconds`.
pub(crate) fn flow_figures(ledger: &StreamLedger, seconds: f64, deadline_s: f64) -> Value {
    let mut delays: Vec<f64> = ledger.delays().collect();
    delays.sort_by(f64::total_cmp);
    let sent = ledger.sent_count();
    if sent == 0 {
        return Value::Null;
    }
    let late = delays.iter().filter(|delay| **delay > deadline_s).count();
    let lost = sent - delays.len();
    let of = |p| rounded_option(percentile(&delays, p).map(|delay| delay * 1e3), 3);
    let live = LiveFigures::new(ledger, seconds);
    json!({
        "sent": sent,
        "lost": lost,
        "late": late,
        "miss_share": rounded((lost + late) as f64 / sent as f64, 6),
        "duplicates": ledger.duplicates,
        "gap_s": rounded(longest_gap(&ledger.delivery_times(), 0.0, seconds, None), 6),
        "p50_ms": of(0.5),
        "p99_ms": of(0.99),
        "max_ms": of(1.0),
        "age_p99_ms": live.live_age_p99_ms,
        "age_max_ms": live.live_age_max_ms,
        "goodput_mbps": rounded(goodput_mbps(ledger, (0.0, seconds)), 4),
    })
}

/// Returns, figure by figure, the worse of two directions of a flow: the less of what is wanted,
/// the more of the others; nothing, where a direction cannot tell.
pub(crate) fn worse_flow(up: &Value, down: &Value) -> Value {
    let worse = |figure: &Figure| {
        let (up, down) = (&up[figure.key], &down[figure.key]);
        let wanted = [SENT.key, GOODPUT.key].contains(&figure.key);
        let value = match (up.as_f64(), down.as_f64()) {
            (Some(a), Some(b)) if (a < b) == wanted => up.clone(),
            (Some(_), Some(_)) => down.clone(),
            _ => Value::Null,
        };
        (figure.key.to_owned(), value)
    };
    Value::Object(OF_FLOW.iter().map(worse).collect())
}

/// Returns the age of the newest message at the end of each millisecond in which there was one.
fn ages_ms(ledger: &StreamLedger, seconds: f64) -> Vec<f64> {
    let Some(first) = ledger.sent.iter().flatten().min().copied() else { return Vec::new() };
    let pairs = ledger.sent.iter().zip(&ledger.delivered);
    let mut arrivals: Vec<_> = pairs.filter_map(|(sent, at)| Some(((*at)?, (*sent)?))).collect();
    arrivals.sort_unstable();
    let mut arrivals = arrivals.into_iter().peekable();
    let mut newest = first;
    let age = |ms| {
        let at = Duration::from_millis(ms);
        while let Some((_, sent)) = arrivals.next_if(|(arrived, _)| *arrived <= at) {
            newest = newest.max(sent);
        }
        at.saturating_sub(newest).as_secs_f64() * 1e3
    };
    let milliseconds = first.as_micros() / 1_000 + 1..=(seconds * 1e3) as u64;
    milliseconds.map(age).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten messages, one every 20 ms, each with a delay in milliseconds or lost.
    fn ledger(delays_ms: [Option<u64>; 10]) -> StreamLedger {
        let mut ledger = StreamLedger::new(vec![1_000; 10]);
        for (i, delay) in delays_ms.into_iter().enumerate() {
            let sent = Duration::from_millis(20 * i as u64);
            ledger.sent[i] = Some(sent);
            ledger.delivered[i] = delay.map(|ms| sent + Duration::from_millis(ms));
        }
        ledger
    }

    #[test]
    fn lost_and_late_are_counted_apart() {
        let mut delays = [Some(10); 10];
        delays[3] = None;
        delays[4] = Some(150);
        let figures = ControlFigures::new(&ledger(delays), 0.2, None);
        assert_eq!((figures.control_lost, figures.control_late_100ms), (1, 1));
        assert!((figures.control_gap_s - 0.06).abs() < 1e-9);
        assert!((figures.miss_share() - 0.2).abs() < 1e-9);
        assert_eq!(figures.control_p50_ms, Some(10.0));
        let good = ControlFigures::new(&ledger([Some(10); 10]), 0.2, None);
        assert_eq!(good.worse(figures).control_lost, 1);
    }

    #[test]
    fn the_newest_ages_until_a_newer_one_comes() {
        // Every 20 ms a message that takes 10 ms; the one of 60 ms is lost, the one of 120 ms is
        // overtaken by that of 140 ms.
        let mut delays = [Some(10); 10];
        delays[3] = None;
        delays[6] = Some(40);
        let figures = LiveFigures::new(&ledger(delays), 0.2);
        assert_eq!(figures.live_age_max_ms, Some(49.0), "just before that of 80 ms comes");
        let even = LiveFigures::new(&ledger([Some(10); 10]), 0.2);
        assert_eq!((even.live_age_p50_ms, even.live_age_max_ms), (Some(19.0), Some(29.0)));
        assert_eq!(oldest_ms(&ledger(delays), (0.16, 0.2)), Some(29.0));
        let silent = LiveFigures::new(&ledger([None; 10]), 0.2);
        assert_eq!(silent.live_age_max_ms, Some(200.0));
        assert_eq!(LiveFigures::new(&StreamLedger::default(), 1.0).live_age_max_ms, None);
    }

    #[test]
    fn goodput_and_timeliness_look_at_their_spans() {
        let mut delays = [Some(10); 10];
        delays[0] = None;
        let ledger = ledger(delays);
        assert_eq!(timely_share(&ledger, 0.25, None), Some(0.9));
        assert_eq!(timely_share(&ledger, 0.25, Some((0.0, 0.01))), Some(1.0));
        assert_eq!(timely_share(&ledger, 0.005, None), Some(0.0));
    }

    #[test]
    fn a_frame_is_whole_when_all_of_it_came_in_time() {
        let mut ledger = ledger([Some(10); 10]);
        assert_eq!(timely_frames(&ledger, 0.25), None);
        ledger.taken = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3].map(Duration::from_secs).to_vec();
        assert_eq!(timely_frames(&ledger, 0.25), Some(1.0));
        ledger.delivered[4] = None;
        assert_eq!(timely_frames(&ledger, 0.25), Some(0.75));
        assert_eq!(timely_frames(&ledger, 0.005), Some(0.0));
        assert!((goodput_mbps(&ledger, (0.0, 0.1)) - 0.32).abs() < 1e-9);
    }
}
