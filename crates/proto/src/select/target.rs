//! What an operator asks of control: which share of it is to be in time.
//!
//! The wish alone. Which copies leave to fulfil it is decided by `delivery/control/plan`, and what
//! came of it is told by [`crate::SessionStatus`].

use units::Duration;

use super::Class;

/// Misses are counted in billionths: the dearest target that anybody asks for, 0.999999, is a
/// thousand of them.
const BILLION: f64 = 1e9;

/// A share of messages, or of time, and the delay within which it is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Billionths that may be missed, so that targets can be compared.
    misses: u64,
    deadline: Duration,
}

impl Target {
    /// Makes the target that a `share` above 0 and below 1 is in time, which is `deadline` after it
    /// was handed in; none where the share is another, or closer than 10⁻⁹ to 0 or 1, or the
    /// deadline is zero.
    pub fn new(share: f64, deadline: Duration) -> Option<Self> {
        let misses = ((1.0 - share) * BILLION).round();
        let makes_sense = (1.0..BILLION).contains(&misses) && deadline > Duration::ZERO;
        makes_sense.then_some(Self { misses: misses as u64, deadline })
    }

    /// Returns the share that is to be in time.
    pub fn share(&self) -> f64 {
        1.0 - self.miss()
    }

    /// Returns the share that may be missed.
    pub fn miss(&self) -> f64 {
        self.misses as f64 / BILLION
    }

    /// Returns the delay within which a message is in time.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Targets of the classes that are control; a class without one has a copy on every path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reliability {
    /// Share of commands that the other application has in time.
    pub control: Option<Target>,
    /// Share of heartbeats that the other application has in time.
    pub liveness: Option<Target>,
    /// Share of the time in which the newest set-point that the other application has is no older
    /// than the deadline.
    pub live: Option<Target>,
}

impl Reliability {
    /// Returns the target of a class.
    pub fn of(&self, class: Class) -> Option<Target> {
        match class {
            Class::Control => self.control,
            Class::Liveness => self.liveness,
            Class::Live => self.live,
            Class::Telemetry | Class::Message | Class::Bulk => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_make_no_sense_are_none() {
        let deadline = Duration::from_millis(100);
        for share in [0.0, 1.0, 1.5, -0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0 - 1e-12]
        {
            assert_eq!(Target::new(share, deadline), None, "{share}");
        }
        assert_eq!(Target::new(0.999, Duration::ZERO), None);
        let target = Target::new(0.999, deadline).expect("it makes sense");
        assert!((target.miss() - 1e-3).abs() < 1e-12 && (target.share() - 0.999).abs() < 1e-12);
        assert_eq!(target.deadline(), deadline);
    }

    #[test]
    fn only_what_is_control_has_targets() {
        let target = Target::new(0.99, Duration::from_millis(100));
        let all = Reliability { control: target, liveness: target, live: target };
        let has = Class::ALL.map(|class| all.of(class).is_some());
        assert_eq!(has, [true, true, true, false, false, false]);
    }
}
