//! What a session says of its target, beside what became of the messages.
//!
//! ```text
//! predicted     mean of what was expected to be missed, over the seconds that count and both
//!               senders
//! met_share     share of these seconds in which a sender said `met`
//! contradicted  the messages of these seconds miss the target even at the lower end of a 99 %
//!               interval
//! ```

use proto::{PathId, ReliabilityLimit, ReliabilityState, ReliabilityStatus};
use serde_json::{Value, json};

use super::figures::{BATCH_MIN_S, BATCHES_MAX, Stretch, Tally};
use super::ledger::{Lateness, Way};
use super::sim::Run;
use super::{Class, Point};
use crate::report::{rounded, rounded_option};
use crate::statistics::{maximum, mean, ratio_of_batches_interval};

/// Returns what was said and whether it was so; nulls under a scheme that says nothing.
pub(super) fn said(
    point: &Point<'_>,
    run: &Run,
    ways: &[(&Way, &Lateness)],
    counted: Stretch,
    both: &Tally,
) -> Value {
    let rows = || run.said[counted.from..=counted.to].iter().flat_map(|said| said.iter().flatten());
    let predicted: Vec<f64> = rows().filter_map(|row| row.predicted_miss).collect();
    let predicted = mean(&predicted);
    let achieved = match point.class {
        Class::Control => both.miss_share(),
        Class::Live => both.stale_share(),
    };
    let last: Vec<&ReliabilityStatus> = run.said[counted.to].iter().flatten().collect();
    let bounds: Vec<f64> = last.iter().filter_map(|row| row.bound_95).collect();
    let is_met = |row: &&ReliabilityStatus| row.state == ReliabilityState::Met;
    let met_share =
        (rows().count() > 0).then(|| rows().filter(is_met).count() as f64 / rows().count() as f64);
    let met = while_met(point.class, run, ways, counted);
    let whole = met.iter().map(|batch| batch.1).sum::<f64>();
    let met_miss = (whole > 0.0).then(|| met.iter().map(|batch| batch.0).sum::<f64>() / whole);
    let contradicted = point.target.zip(ratio_of_batches_interval(&met));
    json!({
        "state": states(&last),
        "limit": last.first().and_then(|row| limit(point, row)),
        "predicted": rounded_option(predicted, 8),
        "predicted_to_achieved": rounded_option(
            predicted.filter(|_| achieved > 0.0).map(|predicted| predicted / achieved), 3),
        "bound_95": rounded_option(maximum(&bounds), 8),
        "met_share": rounded_option(met_share, 4),
        "met_miss_share": rounded_option(met_miss, 8),
        "contradicted": contradicted.map(|(target, (low, _))| low > 1.0 - target + 1e-12),
        "not_reachable_after_s": not_reachable_after_s(run),
    })
}

/// Returns misses and messages, or stale and whole seconds, of each batch, of the seconds in which
/// the sender says that the target is met.
fn while_met(
    class: Class,
    run: &Run,
    ways: &[(&Way, &Lateness)],
    counted: Stretch,
) -> Vec<(f64, f64)> {
    let seconds = counted.to - counted.from;
    let count = (seconds / BATCH_MIN_S).clamp(1, BATCHES_MAX);
    let batch = |number: usize| {
        let range =
            counted.from + seconds * number / count..counted.from + seconds * (number + 1) / count;
        let mut sum = (0.0, 0.0);
        for second in range {
            for (place, (way, late)) in ways.iter().enumerate() {
                let said = run.said[second][place];
                if said.is_none_or(|row| row.state != ReliabilityState::Met) {
                    continue;
                }
                let sent = f64::from(way.sent[second]);
                let (missed, whole) = match class {
                    Class::Control => (sent - f64::from(late.in_time[second]), sent),
                    Class::Live => (late.stale_s[second], 1.0),
                };
                sum = (sum.0 + missed, sum.1 + whole);
            }
        }
        sum
    };
    (0..count).map(batch).filter(|batch| batch.1 > 0.0).collect()
}

/// Returns after how many seconds both senders say that the target is not reachable; none where one
/// never does.
fn not_reachable_after_s(run: &Run) -> Option<usize> {
    let first = |way: usize| {
        let says = |said: &[Option<ReliabilityStatus>; 2]| {
            said[way].is_some_and(|row| row.state == ReliabilityState::NotReachable)
        };
        run.said.iter().position(says)
    };
    Some(first(0)?.max(first(1)?))
}

/// Returns what both senders say, once where they agree.
fn states(last: &[&ReliabilityStatus]) -> Option<String> {
    let word = |row: &&ReliabilityStatus| match row.state {
        ReliabilityState::Learning => "learning",
        ReliabilityState::Met => "met",
        ReliabilityState::NotReachable => "not_reachable",
    };
    let mut words: Vec<&str> = last.iter().map(word).collect();
    words.dedup();
    (!words.is_empty()).then(|| words.join("/"))
}

/// Says in words what limits.
fn limit(point: &Point<'_>, row: &ReliabilityStatus) -> Option<String> {
    let name = |path: PathId| {
        let link = point.links.scenario.link_name(usize::from(path.0));
        link.unwrap_or("a path").to_owned()
    };
    let percent = |share: f64| format!("{} %", rounded(share * 100.0, 1));
    Some(match row.limit {
        ReliabilityLimit::Unknown => return None,
        ReliabilityLimit::Clock { error } => {
            format!("the clocks are known to ± {} ms", error.as_millis())
        }
        ReliabilityLimit::Alone { path, share, .. } => {
            format!("{} alone misses {}", name(path), percent(share))
        }
        ReliabilityLimit::TooSlow { path, by } => {
            format!("{} is {} ms too slow", name(path), by.as_millis())
        }
        ReliabilityLimit::Together { paths: [one, other], share, .. } => {
            format!("{} and {} fail together in {}", name(one), name(other), percent(share))
        }
        ReliabilityLimit::NoRetry { path, needs } => {
            format!("a second try on {} takes {} ms", name(path), needs.as_millis())
        }
    })
}
