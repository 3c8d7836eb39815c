//! The clock of one emulated host: its offset, its skew and its steps against virtual time.
//!
//! ```text
//! local(t) = CLOCK_ORIGIN + offset + t + t·skew + Σ steps at or before t
//! ```

use units::Instant;

/// What a clock without offset shows when virtual time begins: 1,000 s.
///
/// Not zero, so that no host can take its clock's origin for the beginning of the run, and offsets
/// may be negative.
pub const CLOCK_ORIGIN: Instant = Instant::from_millis(1_000_000);

/// Describes the clock of one host against virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockModel {
    /// What the clock shows at the start, beyond [`CLOCK_ORIGIN`], in nanoseconds.
    pub offset_ns: i64,
    /// How much too fast it runs, in parts per 10⁹.
    pub skew_ppb: i64,
    /// Its jumps, in order of time.
    pub steps: Vec<ClockStep>,
}

/// A jump of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When it happens, from the scenario's time zero.
    pub at: Instant,
    /// How far the clock jumps, in nanoseconds; negative jumps go back.
    pub by_ns: i64,
}

/// Translates between virtual time and one host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostClock {
    skew_ppb: i64,
    /// Where each stretch between steps begins, and what is added to the skewed time in it.
    stretches: Vec<(Instant, i128)>,
}

impl HostClock {
    /// Makes the clock that `model` describes, where the scenario's time zero is that of virtual
    /// time.
    pub fn new(model: &ClockModel) -> Self {
        Self::beginning(model, Some(Instant::ZERO))
    }

    /// Makes the clock whose steps count from `origin`; without an origin there are no steps yet.
    pub(crate) fn beginning(model: &ClockModel, origin: Option<Instant>) -> Self {
        let steps = origin.map(|origin| {
            let later = |step: &ClockStep| ClockStep {
                at: origin + step.at.since(Instant::ZERO),
                by_ns: step.by_ns,
            };
            model.steps.iter().map(later).collect()
        });
        let mut steps: Vec<ClockStep> = steps.unwrap_or_default();
        steps.sort_by_key(|step| step.at);
        let mut added = i128::from(CLOCK_ORIGIN.as_nanos()) + i128::from(model.offset_ns);
        let mut stretches = vec![(Instant::ZERO, added)];
        for step in steps {
            added += i128::from(step.by_ns);
            stretches.push((step.at, added));
        }
        Self { skew_ppb: model.skew_ppb, stretches }
    }

    /// Returns what the clock shows at the virtual time `at`.
    pub fn local(&self, at: Instant) -> Instant {
        let index = self.stretches.partition_point(|&(start, _)| start <= at);
        // The first stretch starts at zero, so `index` is at least one.
        self.local_in(index.saturating_sub(1), at)
    }

    /// Returns the first virtual time, `from` or later, at which the clock shows `local` or more.
    ///
    /// For a clock that never gets there, this is the end of time.
    pub fn reaches(&self, local: Instant, from: Instant) -> Instant {
        let first = self.stretches.partition_point(|&(start, _)| start <= from).saturating_sub(1);
        for index in first..self.stretches.len() {
            let start = self.stretches[index].0.max(from);
            let end = self.stretches.get(index + 1).map_or(END, |next| next.0);
            let reached = self.reaches_in(index, local).max(start);
            if reached < end {
                return reached;
            }
        }
        END
    }

    fn local_in(&self, index: usize, at: Instant) -> Instant {
        let t = at.as_nanos();
        to_instant(self.stretches[index].1 + i128::from(t) + skewed(t, self.skew_ppb))
    }

    /// Solves `local_in(index, t) ≥ local` for the smallest t, whatever the stretch's bounds.
    fn reaches_in(&self, index: usize, local: Instant) -> Instant {
        let distance = i128::from(local.as_nanos()) - self.stretches[index].1;
        if distance <= 0 {
            return Instant::ZERO;
        }
        if self.skew_ppb == 0 {
            return to_instant(distance);
        }
        // t + ⌊t·skew / 10⁹⌋ ≥ d  ⇔  t·(10⁹ + skew) ≥ d·10⁹
        let speed = PPB + i128::from(self.skew_ppb);
        if speed <= 0 {
            return END;
        }
        to_instant((distance * PPB + speed - 1) / speed)
    }
}

const PPB: i128 = 1_000_000_000;
const END: Instant = Instant::from_nanos(u64::MAX);

/// Returns ⌊t·skew / 10⁹⌋, in 128 bits only where 64 do not hold it: this is asked for each event.
fn skewed(t: u64, skew_ppb: i64) -> i128 {
    match i64::try_from(t).ok().and_then(|t| t.checked_mul(skew_ppb)) {
        Some(product) => product.div_euclid(PPB as i64).into(),
        None => (i128::from(t) * i128::from(skew_ppb)).div_euclid(PPB),
    }
}

fn to_instant(nanos: i128) -> Instant {
    Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(offset_ms: i64, skew_ppm: i64, steps: &[(u64, i64)]) -> HostClock {
        let steps = steps
            .iter()
            .map(|&(at, by)| ClockStep { at: Instant::from_millis(at), by_ns: by * 1_000_000 });
        HostClock::new(&ClockModel {
            offset_ns: offset_ms * 1_000_000,
            skew_ppb: skew_ppm * 1_000,
            steps: steps.collect(),
        })
    }

    #[test]
    fn offset_skew_and_steps_add_up() {
        let clock = clock(-250, 100, &[(5_000, 40), (8_000, -100)]);
        let shown = |ms| clock.local(Instant::from_millis(ms)).as_micros() as i64 - 1_000_000_000;
        assert_eq!(shown(0), -250_000);
        assert_eq!(shown(1_000), 750_100);
        assert_eq!(shown(5_000), 4_790_500);
        assert_eq!(shown(8_000), 7_690_800);
    }

    #[test]
    fn reaches_is_the_first_instant_that_shows_the_time() {
        for skew in [-200, -1, 0, 1, 37, 250] {
            let clock = clock(3, skew, &[(5_000, 40), (8_000, -100)]);
            for ms in (0..9_000).step_by(7) {
                let local = CLOCK_ORIGIN + units::Duration::from_micros(ms * 1_000 + 333);
                let at = clock.reaches(local, Instant::ZERO);
                assert!(clock.local(at) >= local);
                if at > Instant::ZERO {
                    let before = at - units::Duration::from_nanos(1);
                    assert!(clock.local(before) < local, "skew {skew}, {ms} ms");
                }
            }
        }
    }

    #[test]
    fn a_step_back_makes_a_time_be_reached_again() {
        let clock = clock(0, 0, &[(5_000, -100)]);
        let local = CLOCK_ORIGIN + units::Duration::from_millis(4_950);
        assert_eq!(clock.reaches(local, Instant::ZERO), Instant::from_millis(4_950));
        assert_eq!(clock.reaches(local, Instant::from_millis(5_001)), Instant::from_millis(5_050));
    }
}
