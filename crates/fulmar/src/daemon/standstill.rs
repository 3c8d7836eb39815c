//! Whether the loop stood still: a process that is stopped, a virtual machine that is paused, a
//! page that is swapped in.
//!
//! What came meanwhile is as old as that. Sockets of datagrams and messages say when each came
//! (`sys::arrival`); of what a serial port, a TCP client or the tunnel brings first afterwards
//! nothing is known but that it may have come when the loop last looked.

use proto::{Duration, Instant};

/// The loop looks at least this often: half of the shortest time to live, beyond which a standstill
/// would pass unseen, less what a busy machine takes ([`LONG`]).
const BEAT: Duration = Duration::from_millis(100);
/// The loop has stood still where it did not look for so long.
const LONG: Duration = Duration::from_millis(150);
/// How long what streams bring may be from before the standstill's end: a few turns, each of which
/// empties one of them.
const REST: Duration = Duration::from_millis(200);

/// When the loop looked, and what follows for what it reads.
#[derive(Debug)]
pub(super) struct Standstill {
    looked: Instant,
    beat: Instant,
    /// When what streams bring may have come, and until when that holds.
    old: Option<(Instant, Instant)>,
}

impl Standstill {
    pub(super) fn new(now: Instant) -> Self {
        Self { looked: now, beat: now + BEAT, old: None }
    }

    /// Notes that the loop looks at what has come in; returns how long it stood still, where it
    /// did.
    pub(super) fn on_look(&mut self, now: Instant) -> Option<Duration> {
        let stood = now.since(self.looked);
        let has_stood = stood >= LONG;
        if has_stood {
            self.old = Some((self.looked, now + REST));
        } else {
            self.old = self.old.filter(|(_, until)| now < *until);
        }
        self.looked = now;
        if self.beat <= now {
            self.beat = now + BEAT;
        }
        has_stood.then_some(stood)
    }

    /// Returns when what a stream brings now came, at the earliest.
    pub(super) fn came(&self, now: Instant) -> Instant {
        self.old.map_or(now, |(since, _)| since)
    }

    /// Tells whether what is handled now may be from before the end of a standstill.
    pub(super) fn was(&self, now: Instant) -> bool {
        self.old.is_some_and(|(_, until)| now < until)
    }

    /// Returns when the loop is to look, whatever happens.
    pub(super) fn timeout(&self) -> Instant {
        self.beat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_first_after_a_standstill_is_as_old() {
        let at = Instant::from_millis;
        let mut standstill = Standstill::new(at(0));
        assert_eq!(standstill.on_look(at(100)), None);
        assert_eq!(standstill.came(at(100)), at(100));
        assert_eq!(standstill.on_look(at(10_100)), Some(Duration::from_secs(10)));
        assert_eq!(standstill.came(at(10_110)), at(100));
        assert_eq!(standstill.on_look(at(10_200)), None);
        assert_eq!(standstill.came(at(10_200)), at(100));
        // Once more, before all of it was read.
        assert_eq!(standstill.on_look(at(12_200)), Some(Duration::from_secs(2)));
        assert_eq!(standstill.came(at(12_210)), at(10_200));
        assert_eq!(standstill.on_look(at(12_300)), None);
        assert_eq!(standstill.on_look(at(12_400)), None);
        assert_eq!(standstill.came(at(12_400)), at(12_400));
        assert_eq!(standstill.timeout(), at(12_500));
    }
}
