//! Puts a scheme into the deterministic world, in virtual time.
//!
//! ```text
//! workload → End::send → session or socket → World (links) → End → delivered
//! ```
//! The applications at both ends are this harness: it hands packets in when the plan says so and
//! takes deliveries the instant they happen, both on the world's clock. What the hosts themselves
//! know of time is on clocks of their own.

use netem::{Host, LinkEnd, Scenario, World, WorldOptions};
use proto::{ElasticRedundancy, MessageForm, SessionConfig};
use units::Instant;

use super::Direction;
use super::WireBytes;
use super::end::End;
use crate::scheme::Scheme;

/// Finds the two hosts of the lab's scenarios.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) station: usize,
    pub(crate) drone: usize,
}

impl Places {
    /// Looks the hosts up by name.
    pub(crate) fn of(scenario: &Scenario) -> Result<Self, String> {
        let place = |name: &str| {
            let missing = || format!("scenario {}: no host called {name}", scenario.name);
            scenario.host(name).ok_or_else(missing)
        };
        Ok(Self { station: place("station")?, drone: place("drone")? })
    }

    /// Returns the host that sends in a direction.
    pub(crate) fn sender(self, direction: Direction) -> usize {
        match direction {
            Direction::Up => self.station,
            Direction::Down => self.drone,
        }
    }

    /// Puts the two ends in the order of the scenario's hosts.
    pub(crate) fn ordered<T>(self, station: T, drone: T) -> Vec<T> {
        if self.station < self.drone { vec![station, drone] } else { vec![drone, station] }
    }

    /// Returns the direction of what a host receives.
    pub(crate) fn received_by(self, host: usize) -> Direction {
        if host == self.drone { Direction::Up } else { Direction::Down }
    }
}

/// Puts the two ends of a scheme into a world whose scenario has not begun: the links are calm.
pub(crate) fn world(scenario: &Scenario, scheme: Scheme, seed: u64) -> Result<World<End>, String> {
    world_with(scenario, scheme, None, seed)
}

/// The same with other constants of message delivery's redundancy, where the scheme is one of
/// sessions.
pub(crate) fn world_with(
    scenario: &Scenario,
    scheme: Scheme,
    elastic: Option<ElasticRedundancy>,
    seed: u64,
) -> Result<World<End>, String> {
    let ends = match (scheme, elastic) {
        (Scheme::Session(session), Some(elastic)) if scheme != Scheme::LRT => {
            let message = MessageForm::Tuned(elastic);
            let config = SessionConfig { message, ..session.config() };
            End::session_pair(session, &config, scenario, seed)?
        }
        _ => End::pair(scheme, scenario, seed)?,
    };
    Ok(World::new(scenario, ends, &calm(seed)))
}

/// Returns the options of a run whose scenario begins with the workload.
pub(crate) fn calm(seed: u64) -> WorldOptions {
    WorldOptions { seed: Some(seed), calm: true, ..WorldOptions::default() }
}

/// Lets both ends find each other over every link, until `deadline` at most: ends that have not by
/// then, because no link carries anything, go on trying while the workload plays.
pub(crate) fn connect(world: &mut World<End>, deadline: Instant) {
    loop {
        let ready = |host| world.host(host).ready(world.host_now(host));
        if ready(0) && ready(1) {
            return;
        }
        if world.now() >= deadline || world.step_until(deadline).is_none() {
            return;
        }
    }
}

/// Counts the bytes that each end has handed to the links, in the order of [`Direction::BOTH`].
pub(crate) fn wire_bytes<H: Host>(
    world: &World<H>,
    scenario: &Scenario,
    places: Places,
) -> [WireBytes; 2] {
    Direction::BOTH.map(|direction| {
        let mut wire = WireBytes::default();
        for interface in scenario.interfaces(places.sender(direction)) {
            let end = LinkEnd { link: interface.link, direction: interface.sends };
            wire.add(world.net().stats(end));
        }
        wire
    })
}
