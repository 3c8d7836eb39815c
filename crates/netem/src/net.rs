//! All links of a scenario: finds the link that a packet enters and asks it for its verdict.
//!
//! What links share is decided here; what one link does on its own is decided in `link/`.

use crate::link::{Link, LinkStats, Verdict};
use crate::scenario::{Direction, Scenario};
use smallvec::{SmallVec, smallvec};
use units::Instant;

/// Names the end at which a packet enters a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnd {
    /// The link's place in [`Scenario::links`].
    pub link: usize,
    /// The direction in which the packet travels.
    pub direction: Direction,
}

/// What one receiver gets of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The receiving host's place in [`Scenario::hosts`].
    pub host: usize,
    /// What the link decided for it.
    pub verdict: Verdict,
}

/// The links of a scenario with their state.
#[derive(Clone, Debug)]
pub struct Net {
    links: Vec<TwoWay>,
}

#[derive(Clone, Debug)]
struct TwoWay {
    a: usize,
    b: usize,
    up: Link,
    down: Link,
}

impl Net {
    /// Makes the idle links of `scenario`; the same seed gives the same verdicts.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let links = scenario.links.iter().map(|pair| TwoWay {
            a: pair.a,
            b: pair.b,
            up: Link::new(&pair.up, seed, &format!("{}/up", pair.name)),
            down: Link::new(&pair.down, seed, &format!("{}/down", pair.name)),
        });
        Self { links: links.collect() }
    }

    /// Decides the fate of a packet of `len` bytes (IP header included) that enters at `at`.
    ///
    /// Packets are to come in the order of their entry.
    ///
    /// # Panics
    /// When the scenario has no such link.
    pub fn handle_packet(
        &mut self,
        at: Instant,
        entry: LinkEnd,
        len: usize,
    ) -> SmallVec<[Arrival; 1]> {
        let two_way = &mut self.links[entry.link];
        let (host, link) = match entry.direction {
            Direction::Up => (two_way.b, &mut two_way.up),
            Direction::Down => (two_way.a, &mut two_way.down),
        };
        smallvec![Arrival { host, verdict: link.handle_packet(at, len) }]
    }

    /// Returns what one direction of a link has done so far.
    ///
    /// # Panics
    /// When the scenario has no such link.
    pub fn stats(&self, entry: LinkEnd) -> &LinkStats {
        let two_way = &self.links[entry.link];
        match entry.direction {
            Direction::Up => two_way.up.stats(),
            Direction::Down => two_way.down.stats(),
        }
    }
}
