//! What a record says in words.

use proto::select::Class;
use proto::{Duration, Outcome};
use record::schema::{Control, Path};

/// A message that waited longer than this for a path was late on account of that.
const WAITED_MS: f64 = 50.0;

/// Returns a time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the word for a class.
pub(crate) fn class(class: Class) -> String {
    format!("{class:?}").to_lowercase()
}

/// Returns the word for an outcome.
pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Expired => "expired",
        Outcome::Superseded => "superseded",
        Outcome::Indeterminate => "indeterminate",
    }
}

/// Returns the state of a path as causes of misses name it.
pub(super) fn state(sample: &Path) -> String {
    if sample.rests { "in reserve".into() } else { sample.state.clone() }
}

/// Says why a control message was missed; nothing where it was not. `states` is what the paths were
/// when it was handed in.
pub(super) fn why_missed(control: &Control, states: &str) -> String {
    let copies = &control.copies;
    if let Some(delay) = control.delay_ms {
        return if delay > ms(super::fates::IN_TIME) {
            why_late(control, delay, states)
        } else {
            String::new()
        };
    }
    let is_acked = copies.iter().any(|copy| copy.acked);
    let is_dropped = control.outcome == "expired" || control.outcome == "indeterminate";
    if is_acked && !is_dropped {
        return String::new();
    }
    if is_acked {
        return "the peer did not pass it on: it came too old, or after a newer one".into();
    }
    let is_replaced = control.outcome == "superseded";
    if copies.is_empty() {
        let what = if is_replaced {
            "a newer one took its place before a path took a copy"
        } else {
            "no path took a copy"
        };
        return with_states(format!("{what}:"), states);
    }
    let by_path = by_path(control, |_| true);
    let what = match copies.iter().all(|copy| copy.lost) {
        true => "every copy was lost",
        false if is_replaced => "a newer one took its place before an answer came to its copies",
        false => "no answer came to its copies",
    };
    with_states(format!("{what}: {by_path};"), states)
}

fn why_late(control: &Control, delay: f64, states: &str) -> String {
    let arrived = control.copies.iter().find(|copy| copy.arrived_ms == control.delay_ms);
    let late = format!("{delay:.0} ms late:");
    let Some(copy) = arrived else { return late };
    let lost =
        control.copies.iter().filter(|other| other.lost && other.sent_ms < copy.sent_ms).count();
    if lost > 0 && copy.sent_ms > WAITED_MS {
        let on = by_path(control, |other| other.lost && other.sent_ms < copy.sent_ms);
        let on = if lost == 1 {
            format!("1 copy was lost on {}", on.trim_start_matches("1 on "))
        } else {
            format!("{lost} copies were lost ({on})")
        };
        return format!(
            "{late} {on}; one that left after {:.0} ms arrived by {}",
            copy.sent_ms, copy.path
        );
    }
    let first = control.copies.iter().map(|copy| copy.sent_ms).fold(f64::INFINITY, f64::min);
    if first > WAITED_MS {
        return with_states(format!("{late} it waited {first:.0} ms for a path;"), states);
    }
    format!("{late} the way by {} took {:.0} ms", copy.path, delay - copy.sent_ms)
}

/// Counts copies by path: `2 on wifi, 1 on lte`.
fn by_path(control: &Control, counts: impl Fn(&record::schema::CopySent) -> bool) -> String {
    let mut paths: Vec<(&str, usize)> = Vec::new();
    for copy in control.copies.iter().filter(|copy| counts(copy)) {
        match paths.iter_mut().find(|(path, _)| *path == copy.path) {
            Some((_, count)) => *count += 1,
            None => paths.push((&copy.path, 1)),
        }
    }
    let paths: Vec<String> =
        paths.iter().map(|(path, count)| format!("{count} on {path}")).collect();
    paths.join(", ")
}

fn with_states(what: String, states: &str) -> String {
    if states.is_empty() {
        return what.trim_end_matches([':', ';']).to_owned();
    }
    format!("{what} {states}")
}
