//! How old something is where clocks are wrong: many drones have none that lasts without power, and
//! GPS sets it late, or by a week or 1,024 of them too far.

use std::time::{Duration, Instant, SystemTime};

/// 1 January 2025, in seconds since 1970. No record is older than Fulmar; clocks without a battery
/// begin at 1970, 1980 or 2000, and one that forgets a rollover of GPS shows 2007 or earlier.
const EARLIEST_S: u64 = 1_735_689_600;
/// A clock that is set may gain this much and be believed: it was somewhat slow. Age counts in
/// days.
const SET_AHEAD: Duration = Duration::from_secs(3_600);

/// Returns how old something of a date is; nothing where one of both dates cannot be true.
pub(crate) fn age(date: SystemTime, now: SystemTime) -> Option<Duration> {
    now.duration_since(date).ok().filter(|_| can_be(date))
}

fn can_be(date: SystemTime) -> bool {
    date >= SystemTime::UNIX_EPOCH + Duration::from_secs(EARLIEST_S)
}

/// The date as far as it is believed: it goes on with time. From a date that cannot be true it is
/// set to any other, from one that can, back and a little ahead; a clock that jumps far ahead may
/// be wrong, and what it shows is not believed before the next start.
#[derive(Debug)]
pub(crate) struct Calendar {
    clock: fn() -> SystemTime,
    /// What was believed last, and when that was.
    believed: (SystemTime, Instant),
}

impl Calendar {
    /// Believes what a clock shows at first.
    pub(crate) fn new(clock: fn() -> SystemTime) -> Self {
        Self { clock, believed: (clock(), Instant::now()) }
    }

    /// Returns the date.
    pub(crate) fn now(&mut self) -> SystemTime {
        let (date, at) = self.believed;
        let now = Instant::now();
        let (shown, expected) = ((self.clock)(), date + now.duration_since(at));
        let is_believed = !can_be(date) || shown <= expected + SET_AHEAD;
        self.believed = (if is_believed { shown } else { expected }, now);
        self.believed.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_clock_is_believed_when_it_is_set_right_or_back_and_not_when_it_jumps_ahead() {
        static SHOWN_S: AtomicU64 = AtomicU64::new(0);
        const RIGHT_S: u64 = 1_795_547_717;
        const WEEK_S: u64 = 604_800;
        let mut calendar =
            Calendar::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(SHOWN_S.load(Relaxed)));
        let mut believed = |shown: u64| {
            SHOWN_S.store(shown, Relaxed);
            calendar.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
        };
        // From 1970, by NTP, and a correction.
        assert_eq!([believed(60), believed(RIGHT_S)], [60, RIGHT_S]);
        assert_eq!(believed(RIGHT_S + 1_800), RIGHT_S + 1_800);
        // By GPS, a week or a rollover too far. The time that the test takes goes on.
        for wrong in [WEEK_S, 1_024 * WEEK_S] {
            assert!((RIGHT_S..RIGHT_S + WEEK_S / 2).contains(&believed(RIGHT_S + wrong)));
        }
        assert_eq!(believed(RIGHT_S - WEEK_S), RIGHT_S - WEEK_S, "nothing grows old by that");
    }
}
