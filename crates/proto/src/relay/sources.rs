//! Whose numbers count: a source that starts anew takes the place of the one before [specs/relay.md §4].

use std::collections::VecDeque;

/// Sources that lost their place and are remembered: what is still on its way comes of the last few.
const FORMER: usize = 8;

/// The source of a direction, as one node knows it.
#[derive(Debug, Default)]
pub(super) struct Sources {
    current: Option<u32>,
    former: VecDeque<u32>,
}

impl Sources {
    /// Returns the one that counts.
    pub(super) fn current(&self) -> Option<u32> {
        self.current
    }

    /// Tells whether a source has not been heard of.
    pub(super) fn is_new(&self, source: u32) -> bool {
        self.current != Some(source) && !self.former.contains(&source)
    }

    /// Tells whether a source counts; one that is new does from now on.
    pub(super) fn admit(&mut self, source: u32) -> bool {
        if self.is_new(source) {
            if self.former.len() == FORMER {
                self.former.pop_front();
            }
            self.former.extend(self.current.replace(source));
        }
        self.current == Some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lost_its_place_does_not_get_it_back() {
        let mut sources = Sources::default();
        assert!(sources.admit(1) && sources.admit(1) && sources.admit(2));
        assert!(!sources.admit(1) && sources.current() == Some(2));
        for source in 3..100 {
            assert!(sources.admit(source) && !sources.admit(source - 1));
        }
    }
}
