//! Which sources sign their MAVLink frames.
//!
//! An autopilot rejects a signed frame that is older than the last one of its source, whatever
//! messages they carry: all frames of such a source must keep their order [specs/delivery.md §2]
//! (rule 5).

use super::LaneKey;

/// Sources that are remembered; a flood of invented ones pushes out those silent for longest, which
/// come back with their next signed frame.
const SIGNING_SOURCES: usize = 256;

/// The sources that have sent a signed frame, the last heard one last.
#[derive(Clone, Debug, Default)]
pub(super) struct SigningSources {
    sources: Vec<LaneKey>,
}

impl SigningSources {
    /// Notes a frame of a source; returns true when the source signs.
    pub(super) fn note(&mut self, source: LaneKey, is_signed: bool) -> bool {
        let source = LaneKey { stream: None, ..source };
        match self.sources.iter().position(|known| *known == source) {
            Some(index) => {
                self.sources[index..].rotate_left(1);
                true
            }
            None if is_signed => {
                if self.sources.len() == SIGNING_SOURCES {
                    self.sources.remove(0);
                }
                self.sources.push(source);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(flow: u32) -> LaneKey {
        LaneKey { channel: 1, flow, source: (255, 190), stream: None }
    }

    #[test]
    fn one_signed_frame_makes_its_source_sign_and_no_other() {
        let mut signing = SigningSources::default();
        assert!(!signing.note(source(1), false));
        assert!(signing.note(source(1), true));
        assert!(signing.note(source(1), false));
        assert!(!signing.note(source(2), false));
    }

    #[test]
    fn invented_sources_push_out_the_unheard_ones_only() {
        let mut signing = SigningSources::default();
        signing.note(source(0), true);
        for flow in 1..10_000 {
            signing.note(source(flow), true);
            assert!(signing.note(source(0), false));
            assert!(signing.sources.len() <= SIGNING_SOURCES);
        }
        assert!(!signing.note(source(1), false));
    }
}
