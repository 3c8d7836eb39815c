//! What stalls of the machine can have done to figures, and which conclusions that leaves standing.
//!
//! Not the stalls, which the emulator notes. A figure of single messages is computed twice: from
//! what was seen, and from what would have been seen at best had nothing stood still; the
//! difference is its error. A figure of a stretch of time, such as a goodput, may be wrong by the
//! share of that time in doubt.
//!
//! ```text
//! delivered at best   as much earlier as the stalls that the message met; not sent at all where it
//!                     was lost and sent within the reach of a stall
//! error of a rate     rate · share of its time within the reach of a stall; of a ratio of two,
//!                     twice that
//! ranking in doubt    two schemes' figures differ by more than a tenth, and the other way round
//!                     may be true within their errors
//! ```

use emulator::Stalls;
use serde_json::{Map, Value, json};
use units::Duration;

use crate::figure::Figure;
use crate::report::{field, rounded};

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

    /// Says whether it seems better or worse than another, and may be the reverse.
    pub(crate) fn may_turn_over(self, other: Self) -> bool {
        let (low, high) = if self.value < other.value { (self, other) } else { (other, self) };
        let size = low.value.abs().max(high.value.abs());
        high.value - low.value > TOLD_APART * size
            && low.value + low.error > high.value - high.error
    }
}

/// Returns what stands beside a figure in the object `name` of its own object: its `error`, or what
/// it is `without_stalls`.
pub(crate) fn beside<'a>(result: &'a Value, name: &str, key: &str) -> &'a Value {
    match key.rsplit_once('.') {
        Some((object, last)) => &field(result, object)[name][last],
        None => &result[name][key],
    }
}

/// Moves a message to where it would have been at best had nothing stood still; returns whether it
/// counts. One that was lost within the reach of a stall does not count.
pub(crate) fn at_best(sent: Duration, delivered: &mut Option<Duration>, stalls: &Stalls) -> bool {
    let from_s = sent.as_secs_f64();
    let Some(at) = delivered else { return !stalls.reaches(from_s) };
    let error_s = stalls.error_s(from_s, at.as_secs_f64());
    *at = at.saturating_sub(Duration::from_secs_f64(error_s));
    true
}

/// Adds to each object an object `error` with the difference of each of its figures from the best
/// case.
pub(crate) fn add_errors(seen: &mut Value, best: &Value, declared: &[Figure]) {
    let Value::Object(figures) = seen else { return };
    let declaration = |key: &str| declared.iter().find(|figure| figure.key == key);
    let (mut errors, mut without) = (Map::new(), Map::new());
    for (key, value) in figures.iter_mut() {
        let best = &best[key.as_str()];
        if value.is_object() {
            add_errors(value, best, declared);
        } else if !declaration(key).is_some_and(|figure| figure.is_exact) {
            errors.extend(difference(value, best).map(|error| (key.clone(), error)));
            if declaration(key).is_some_and(|figure| figure.is_share) {
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

/// Adds an object `error` with what a share of the time in doubt can have done to each declared
/// figure, all of which were measured over that time.
pub(crate) fn add_errors_of_time(seen: &mut Value, share: f64, declared: &[Figure]) {
    let mut errors = Map::new();
    for figure in declared.iter().filter(|figure| !figure.is_exact) {
        let Some(value) = seen[figure.key].as_f64() else { continue };
        let measured = if figure.is_ratio { 2.0 } else { 1.0 };
        errors.insert(figure.key.to_owned(), json!(rounded(value * share * measured, 6)));
    }
    seen["error"] = errors.into();
}

/// Names the rankings of schemes that may turn over, as [`rankings_of`] does.
pub(crate) fn rankings_in_doubt<T: AsRef<str>>(
    results: &[Value],
    columns: &[(T, T)],
    point: &[&str],
) -> Vec<String> {
    rankings_of("scheme", results, columns, point)
}

/// Names the rankings that may turn over: of the first result and each other at the same point, by
/// the keys of `columns`. Results are of one point where the values of the keys of `point` are the
/// same; nothing is ranked with its like, by the key `who`.
pub(crate) fn rankings_of<T: AsRef<str>>(
    who: &str,
    results: &[Value],
    columns: &[(T, T)],
    point: &[&str],
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, other) in results.iter().enumerate() {
        let same = |one: &&Value| point.iter().all(|key| one[*key] == other[*key]);
        let Some(first) = results[..number].iter().find(same) else { continue };
        if first[who] == other[who] {
            continue;
        }
        for (key, _) in columns {
            let key = key.as_ref();
            let figures = (Doubtful::of(first, key), Doubtful::of(other, key));
            let (Some(ours), Some(theirs)) = figures else { continue };
            if ours.may_turn_over(theirs) {
                let show = |result: &Value, figure: Doubtful| {
                    let name = result[who].as_str().unwrap_or_default();
                    format!("{name} {} (+{})", figure.value, figure.error)
                };
                found.push(format!("{key}: {}, {}", show(first, ours), show(other, theirs)));
            }
        }
    }
    found
}

fn difference(seen: &Value, best: &Value) -> Option<Value> {
    match (seen.as_u64(), best.as_u64()) {
        (Some(seen), Some(best)) => Some(json!(seen.abs_diff(best))),
        _ => Some(json!(rounded((seen.as_f64()? - best.as_f64()?).abs(), 6))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::merged;

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

    #[test]
    fn a_figure_of_a_time_may_be_wrong_by_the_share_in_doubt_and_a_ratio_by_twice_that() {
        const DECLARED: [Figure; 3] = [
            Figure::new("loss", "loss").exact(),
            Figure::new("goodput_mbps", "Mbit/s"),
            Figure::new("to_one", "to one").ratio(),
        ];
        let mut result = json!({"scheme": "udp", "loss": 0.5, "goodput_mbps": 8.0, "to_one": 2.0});
        add_errors_of_time(&mut result, 0.05, &DECLARED);
        assert_eq!(result["error"], json!({"goodput_mbps": 0.4, "to_one": 0.2}));
    }

    #[test]
    fn nothing_is_ranked_with_its_like() {
        let flow =
            |flow: &str, share: f64| json!({"flow": flow, "share": share, "error": {"share": 0.2}});
        let found = rankings_of(
            "flow",
            &[flow("messages", 1.1), flow("messages", 0.9), flow("cubic", 0.9)],
            &[("share", "share")],
            &[],
        );
        assert_eq!(found, ["share: messages 1.1 (+0.2), cubic 0.9 (+0.2)"]);
    }
}
