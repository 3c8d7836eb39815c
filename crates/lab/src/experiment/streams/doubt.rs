//! What stalls of the machine can have done to figures, and which conclusions that leaves standing.
//!
//! Not the stalls, which the emulator notes. Every figure of a run is computed twice: from what was seen,
//! and from what would have been seen at best had nothing stood still; the difference is its error.
//!
//! ```text
//! delivered at best   as much earlier as the stalls that the message met; not sent at all where it was
//!                     lost and sent within the reach of a stall
//! error of a gap      what the stalls did to the message that ended it, or to the one that began it
//! ranking in doubt    two schemes' figures differ by more than a tenth, and the other way round may be
//!                     true within their errors
//! ```

use emulator::Stalls;
use serde_json::{Map, Value, json};
use units::Duration;

use super::figures::FIGURES;
use super::figures::Span;
use super::ledger::{StreamLedger, StreamRun};
use crate::figure::Figure;
use crate::report::{field, rounded};
use crate::statistics::{longest_gap, outside};
use crate::testbed::{Direction, Stream};

/// Differences below this part of the larger figure are no ranking.
const TOLD_APART: f64 = 0.1;

/// A figure with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doubtful {
    /// What was seen.
    pub(crate) value: f64,
    /// By how much that may be wrong.
    pub(crate) error: f64,
}

impl Doubtful {
    /// Returns a figure of a result; `up.control_lost` reaches into objects.
    pub(crate) fn of(result: &Value, key: &str) -> Option<Self> {
        let value = field(result, key).as_f64()?;
        Some(Self { value, error: beside(result, "error", key).as_f64().unwrap_or(0.0) })
    }

    /// Says whether it is below another whatever the stalls did.
    pub(crate) fn is_below(self, other: Self) -> bool {
        self.value + self.error < other.value - other.error
    }

    /// Returns the sum of two counts.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { value: self.value + other.value, error: self.error + other.error }
    }

    /// Returns what was seen, taken for exact.
    pub(crate) fn exact(self) -> Self {
        Self { error: 0.0, ..self }
    }

    /// Says whether it seems to be another's better or worse, and may be the reverse.
    pub(crate) fn may_turn_over(self, other: Self) -> bool {
        let (low, high) = if self.value < other.value { (self, other) } else { (other, self) };
        let size = low.value.abs().max(high.value.abs());
        high.value - low.value > TOLD_APART * size
            && low.value + low.error > high.value - high.error
    }
}

/// Returns what stands beside a figure in the object `name` of its own object: its `error`, or what it is
/// `without_stalls`.
pub(crate) fn beside<'a>(result: &'a Value, name: &str, key: &str) -> &'a Value {
    match key.rsplit_once('.') {
        Some((object, last)) => &field(result, object)[name][last],
        None => &result[name][key],
    }
}

/// Computes the figures of a run, and where it was a real one their errors; gaps leave `excluded` out.
pub(crate) fn with_errors(
    run: &StreamRun,
    (seconds, excluded): (f64, Option<Span>),
    figures: impl Fn(&StreamRun) -> Value,
) -> Value {
    let mut seen = figures(run);
    let Some(stalls) = &run.stalls else { return seen };
    add_errors(&mut seen, &figures(&run.at_best(stalls)));
    for (key, excluded) in [("control_gap_s", excluded), ("control_gap_whole_run_s", None)] {
        let mut worse = 0.0_f64;
        for direction in Direction::BOTH {
            let control = run.ledger(direction).stream(Stream::Control);
            let error = rounded(gap_error_s(control, seconds, excluded, stalls), 6);
            worse = worse.max(error);
            set_error(&mut seen[direction.name()], key, error);
        }
        set_error(&mut seen, key, worse);
    }
    seen
}

/// Names the rankings that may turn over: of the first scheme and each other at the same point, by the keys
/// of `columns`. Results are of one point where the values of the keys of `point` are the same.
pub(crate) fn rankings_in_doubt<T: AsRef<str>>(
    results: &[Value],
    columns: &[(T, T)],
    point: &[&str],
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, other) in results.iter().enumerate() {
        let same = |one: &&Value| point.iter().all(|key| one[*key] == other[*key]);
        let Some(first) = results[..number].iter().find(same) else { continue };
        for (key, _) in columns {
            let key = key.as_ref();
            let figures = (Doubtful::of(first, key), Doubtful::of(other, key));
            let (Some(ours), Some(theirs)) = figures else { continue };
            if ours.may_turn_over(theirs) {
                let show = |result: &Value, figure: Doubtful| {
                    let scheme = result["scheme"].as_str().unwrap_or_default();
                    format!("{scheme} {} (+{})", figure.value, figure.error)
                };
                found.push(format!("{key}: {}, {}", show(first, ours), show(other, theirs)));
            }
        }
    }
    found
}

/// Adds to each object an object `error` with the difference of each of its figures from the best case.
fn add_errors(seen: &mut Value, best: &Value) {
    let Value::Object(figures) = seen else { return };
    let (mut errors, mut without) = (Map::new(), Map::new());
    for (key, value) in figures.iter_mut() {
        let best = &best[key.as_str()];
        if value.is_object() {
            add_errors(value, best);
        } else if !declared(key).is_some_and(|figure| figure.is_exact) {
            errors.extend(difference(value, best).map(|error| (key.clone(), error)));
            if declared(key).is_some_and(|figure| figure.is_share) {
                without.insert(key.clone(), best.clone());
            }
        }
    }
    // An object of objects alone has no errors of its own.
    if !errors.is_empty() {
        figures.insert("error".to_owned(), errors.into());
    }
    if !without.is_empty() {
        figures.insert("without_stalls".to_owned(), without.into());
    }
}

/// Returns the declaration of a figure.
fn declared(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.key == key)
}

fn difference(seen: &Value, best: &Value) -> Option<Value> {
    match (seen.as_u64(), best.as_u64()) {
        (Some(seen), Some(best)) => Some(json!(seen.abs_diff(best))),
        _ => Some(json!(rounded((seen.as_f64()? - best.as_f64()?).abs(), 6))),
    }
}

/// Sets the error of a figure that is there.
fn set_error(figures: &mut Value, key: &str, error: f64) {
    if figures[key].is_number() {
        figures["error"][key] = json!(error);
    }
}

/// Returns by how much the longest gap may be wrong, in seconds.
fn gap_error_s(
    ledger: &StreamLedger,
    seconds: f64,
    excluded: Option<Span>,
    stalls: &Stalls,
) -> f64 {
    let pairs = ledger.sent.iter().zip(&ledger.delivered);
    let seconds_of = |at: Duration| at.as_secs_f64();
    let mut arrivals: Vec<(f64, f64)> =
        pairs.filter_map(|(sent, at)| Some((seconds_of((*at)?), seconds_of((*sent)?)))).collect();
    arrivals.retain(|(at, _)| (0.0..seconds).contains(at));
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let times: Vec<f64> = arrivals.iter().map(|(at, _)| *at).collect();
    arrivals.push((seconds, seconds));
    let (mut before, mut began_late) = (0.0, 0.0);
    let (mut shortest, mut longest) = (0.0_f64, 0.0_f64);
    for (at, sent) in arrivals {
        // A sender that stood still made the gap longer too.
        let ended_late = stalls.error_s(sent.min(before), at).min(at - before);
        shortest = shortest.max(outside(before, at - ended_late, excluded));
        longest = longest.max(outside(before - began_late, at, excluded));
        (before, began_late) = (at, stalls.error_s(sent, at));
    }
    let seen = longest_gap(&times, 0.0, seconds, excluded);
    (seen - shortest).max(longest - seen).max(0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use emulator::{Stall, Stalled};

    use super::*;
    use crate::experiment::streams::figures::ControlFigures;
    use crate::experiment::streams::ledger::Ledger;
    use crate::experiment::streams::workload::PlannedPacket;
    use crate::report::{merged, tall_table};
    use crate::testbed::WireBytes;
    use crate::testbed::{Recording, Stamp};

    /// A message every 20 ms for a second, each way, with a delay of 10 ms but for those named here.
    fn run(slow: &[(u32, Option<u64>)], stalls_ms: &[(u32, u32)]) -> StreamRun {
        let recording = Recording::load().expect("sound");
        let packet = |sequence: u32| PlannedPacket {
            flow: 0,
            at: Duration::from_millis(20 * u64::from(sequence)),
            stream: Stream::Control,
            sequence,
            len: 100,
            taken: Duration::ZERO,
        };
        let plan: Vec<PlannedPacket> = (0..50).map(packet).collect();
        let ledgers = Direction::BOTH.map(|direction| {
            let mut ledger = Ledger::new(&plan, direction, &recording);
            for packet in &plan {
                ledger.on_sent(packet, packet.at);
                let named = slow.iter().find(|(sequence, _)| *sequence == packet.sequence);
                let delay = named.map_or(Some(10), |(_, delay)| *delay);
                let stamp = Stamp {
                    flow: 0,
                    stream: packet.stream,
                    sequence: packet.sequence,
                    sent: packet.at,
                };
                if let Some(ms) = delay {
                    ledger.on_delivered(&stamp.packet(100), packet.at + Duration::from_millis(ms));
                }
            }
            ledger
        });
        let stall = |(from, to): &(u32, u32)| Stall {
            who: Stalled::Programs,
            from_s: f64::from(*from) / 1e3,
            to_s: f64::from(*to) / 1e3,
        };
        let stalls = Stalls::new(stalls_ms.iter().map(stall).collect(), 0.0);
        StreamRun { ledgers, wire: [WireBytes::default(); 2], stalls: Some(Arc::new(stalls)) }
    }

    fn figures(run: &StreamRun) -> Value {
        with_errors(run, (1.0, None), |run| {
            let way = |direction| {
                let control = run.ledger(direction).stream(Stream::Control);
                let figures = ControlFigures::new(control, 1.0, None);
                let share = json!({"control_miss_share": figures.miss_share()});
                (figures, merged([json!(figures), share]))
            };
            let ((up, all_up), (down, all_down)) = (way(Direction::Up), way(Direction::Down));
            merged([json!(up.worse(down)), json!({"up": all_up, "down": all_down})])
        })
    }

    #[test]
    fn a_stall_is_in_the_figures_that_it_met_and_in_no_other() {
        // Message 10, of 200 ms, comes 11 ms late because something stood still for so long.
        let met = figures(&run(&[(10, Some(21))], &[(205, 216)]));
        assert_eq!(
            (&met["control_max_ms"], &met["error"]["control_max_ms"]),
            (&21.0.into(), &11.0.into())
        );
        assert_eq!(met["control_gap_s"], 0.031);
        assert_eq!(met["error"]["control_gap_s"], 0.011);
        assert_eq!(met["up"]["error"]["control_gap_s"], 0.011);
        assert_eq!(
            (&met["control_p50_ms"], &met["error"]["control_p50_ms"]),
            (&10.0.into(), &0.0.into())
        );
        assert!(met["error"]["control_sent"].is_null(), "what was sent is exact");
        // The same message, and a stall that it did not meet.
        let missed = figures(&run(&[(10, Some(21))], &[(850, 851)]));
        assert_eq!(missed["error"]["control_max_ms"], 0.0);
        assert_eq!(missed["error"]["control_gap_s"], 0.0);
        let table = tall_table(&[met], &[("control_gap_s", "gap"), ("control_p50_ms", "p50")]);
        assert_eq!(table, "gap  0.0310 (+0.0110)\np50             10.00");
    }

    #[test]
    fn counts_and_shares_are_told_with_and_without_what_is_in_doubt() {
        // Three late or lost: one met a stall, one was lost in the reach of one, one is the links' own.
        let slow = [(5, Some(104)), (10, None), (20, Some(150))];
        let figures = figures(&run(&slow, &[(150, 160), (195, 205)]));
        assert_eq!(
            (&figures["control_late_100ms"], &figures["control_lost"]),
            (&2.into(), &1.into())
        );
        let errors = &figures["error"];
        assert_eq!(
            (&errors["control_late_100ms"], &errors["control_lost"]),
            (&1.into(), &1.into())
        );
        assert_eq!(figures["up"]["control_miss_share"], 0.06);
        assert_eq!(figures["up"]["without_stalls"]["control_miss_share"], 1.0 / 49.0);
        let table = tall_table(&[figures], &[("up.control_miss_share", "miss")]);
        assert_eq!(table, "miss  0.0600 (0.0204)");
    }

    #[test]
    fn a_gap_that_a_late_beginning_hid_is_within_what_is_told() {
        // 220 ms never comes; 200 ms came 11 ms late, so that the silence looks shorter.
        let figures = figures(&run(&[(10, Some(21)), (11, None)], &[(205, 216)]));
        assert_eq!(figures["control_gap_s"], 0.031);
        assert_eq!(
            figures["error"]["control_gap_s"], 0.009,
            "the next one: 29 ms seen, 40 without"
        );
        let quiet = figures_of_the_world();
        assert!(quiet["error"].is_null(), "nothing stands still in the world: {quiet}");
    }

    fn figures_of_the_world() -> Value {
        figures(&StreamRun { stalls: None, ..run(&[], &[]) })
    }

    #[test]
    fn a_ranking_is_in_doubt_where_it_turns_over_within_the_errors() {
        let result = |scheme: &str, gap: f64, error: f64, lost: u64, doubtful: u64| {
            json!({
                "scheme": scheme, "gap": gap, "lost": lost, "error": {"gap": error, "lost": doubtful},
            })
        };
        let columns = [("scheme", "scheme"), ("gap", "gap"), ("lost", "lost")];
        let doubts = |other: Value| {
            rankings_in_doubt(&[result("fulmar", 46.0, 11.0, 0, 0), other], &columns, &[])
        };
        assert!(
            doubts(result("mptcp", 1_465.0, 11.0, 4, 4)).is_empty(),
            "far apart, and never below"
        );
        assert!(doubts(result("near", 47.0, 11.0, 0, 0)).is_empty(), "nobody would rank these");
        let found = doubts(result("close", 60.0, 11.0, 0, 0));
        assert_eq!(found, ["gap: fulmar 46 (+11), close 60 (+11)"]);
        let of_other_point = rankings_in_doubt(
            &[
                result("a", 46.0, 11.0, 0, 0),
                merged([result("b", 60.0, 11.0, 0, 0), json!({"w": 1})]),
            ],
            &columns,
            &["w"],
        );
        assert!(of_other_point.is_empty());
    }
}
