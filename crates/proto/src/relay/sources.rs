//! Whose numbers count: a source that starts anew takes the place of the one before [specs/relay.md
//! §4].

use std::collections::VecDeque;

use units::Instant;

use super::members::Refusal;
use super::{ALIVE, FORMER};

/// The source of a direction, as one node knows it.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The one that counts, and when it was heard.
    current: Option<(u32, Instant)>,
    former: VecDeque<u32>,
}

impl Sources {
    /// Returns the one that counts.
    pub(super) fn current(&self) -> Option<u32> {
        self.current.map(|(source, _)| source)
    }

    /// Hears a source, if it counts; tells whether it is new, and counts from now on.
    ///
    /// One that has lost its place has it back when the one that took it is silent: that one has
    /// ended, or never was.
    pub(super) fn admit(&mut self, now: Instant, source: u32) -> Result<bool, Refusal> {
        let is_new = self.current() != Some(source);
        if is_new {
            let is_heard = self.current.is_some_and(|(_, heard_at)| now.since(heard_at) < ALIVE);
            if is_heard && self.former.contains(&source) {
                return Err(Refusal::Stale);
            }
            self.former.retain(|former| *former != source);
            if self.former.len() == FORMER {
                self.former.pop_front();
            }
            self.former.extend(self.current());
        }
        self.current = Some((source, now));
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lost_its_place_does_not_get_it_back_while_the_other_is_heard() {
        let mut sources = Sources::default();
        let at = Instant::from_millis;
        assert_eq!(sources.admit(at(0), 1), Ok(true));
        assert_eq!(sources.admit(at(0), 1), Ok(false));
        assert_eq!(sources.admit(at(1), 2), Ok(true));
        assert_eq!(sources.admit(at(1_000), 1), Err(Refusal::Stale));
        assert_eq!(sources.current(), Some(2));
        for source in 3..100 {
            assert_eq!(sources.admit(at(1_000), source), Ok(true));
            assert_eq!(sources.admit(at(1_999), source - 1), Err(Refusal::Stale));
        }
        assert_eq!(sources.admit(at(2_000), 98), Ok(true));
        assert_eq!(sources.admit(at(2_999), 99), Err(Refusal::Stale));
        assert!(sources.former.len() <= FORMER);
    }
}
