//! How the plan of a run is drawn: the few distributions that its parts share.

use units::{Duration, Instant, Rng};

/// Draws one of several, evenly.
pub(super) fn pick<T: Clone>(rng: &mut Rng, among: &[T]) -> T {
    among[rng.below(among.len() as u64) as usize].clone()
}

/// Draws a number whose logarithm is uniform: small ones as often as large ones.
pub(super) fn log_uniform(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(rng.unit())
}

/// Draws a time within the first `within` of a run, in whole milliseconds.
pub(super) fn moment(rng: &mut Rng, within: Duration) -> Instant {
    Instant::from_millis(rng.below(within.as_millis()))
}

/// Draws a stretch that begins within the first `within` of a run and lasts 50 ms to as long as
/// that.
pub(super) fn span(rng: &mut Rng, within: Duration) -> (Instant, Instant) {
    let begin = moment(rng, within);
    let millis = log_uniform(rng, 50.0, within.as_millis() as f64);
    (begin, begin + Duration::from_millis(millis as u64))
}
