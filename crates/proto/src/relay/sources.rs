//! Whose numbers count: a source that starts anew takes the place of the one before [specs/relay.md
//! §4].

use std::collections::VecDeque;

use units::{Duration, Instant};

/// Sources that lost their place and are remembered: what is still on its way comes of the last
/// few.
const FORMER: usize = 8;
/// One that has lost its place has it back when the one that took it is silent for so long: that
/// one has ended, or never was.
const SILENT: Duration = Duration::from_secs(1);

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

    /// Tells whether another source counts from now on, if this one is heard.
    pub(super) fn would_change(&self, now: Instant, source: u32) -> bool {
        match self.current {
            Some((current, _)) if current == source => false,
            Some((_, heard_at)) if self.former.contains(&source) => now.since(heard_at) >= SILENT,
            Some(_) | None => true,
        }
    }

    /// Hears a source; tells whether it counts. One that is new does from now on.
    pub(super) fn admit(&mut self, now: Instant, source: u32) -> bool {
        if self.would_change(now, source) {
            self.former.retain(|former| *former != source);
            if self.former.len() == FORMER {
                self.former.pop_front();
            }
            self.former.extend(self.current());
        } else if self.current() != Some(source) {
            return false;
        }
        self.current = Some((source, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lost_its_place_does_not_get_it_back_while_the_other_is_heard() {
        let mut sources = Sources::default();
        let at = Instant::from_millis;
        assert!(sources.admit(at(0), 1) && sources.admit(at(0), 1) && sources.admit(at(1), 2));
        assert!(!sources.admit(at(1_000), 1) && sources.current() == Some(2));
        for source in 3..100 {
            assert!(sources.admit(at(1_000), source) && !sources.admit(at(1_999), source - 1));
        }
        assert!(sources.would_change(at(2_000), 98) && sources.admit(at(2_000), 98));
        assert!(!sources.admit(at(2_999), 99) && sources.former.len() <= FORMER);
    }
}
