//! The packet selector's configuration.
//!
//! These types are filled in by the daemon, which reads the file and reports its errors.

use std::collections::BTreeMap;

use super::Policy;
use super::mavlink::message_id;
use super::table::{SETUP_SIGNING, default_policy};

/// Says which way traffic goes, seen from the vehicle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the ground station to the vehicle.
    ToVehicle,
    /// From the vehicle to the ground station.
    FromVehicle,
}

/// Says on which UDP and TCP ports packets of the tunnel are searched for MAVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectedPorts {
    /// On these, as source or destination; an empty list turns the search off.
    Listed(Vec<u16>),
    /// On every port. Only frames of known messages with a right checksum count then.
    Any,
}

/// How a direction deviates from the default table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTable {
    /// Policies that differ from the default, by message id; with `None` the message is not
    /// forwarded.
    pub overrides: BTreeMap<u32, Option<Policy>>,
    /// The policy of ids that the public definitions do not know; with `None` they are not
    /// forwarded.
    pub unknown: Option<Policy>,
}

/// Configures the packet selector of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorConfig {
    /// What goes to the vehicle.
    pub to_vehicle: PolicyTable,
    /// What comes from the vehicle.
    pub from_vehicle: PolicyTable,
    /// Where the tunnel's packets are searched for MAVLink.
    pub ports: InspectedPorts,
    /// Whether SETUP_SIGNING, which carries a secret, is forwarded; by default it is not.
    pub forward_setup_signing: bool,
}

/// Says that a name is no message of the public MAVLink definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMessage;

impl std::fmt::Display for UnknownMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no such MAVLink message: give a name such as COMMAND_LONG, or its number")
    }
}

impl std::error::Error for UnknownMessage {}

impl Default for PolicyTable {
    fn default() -> Self {
        Self { overrides: BTreeMap::new(), unknown: Some(Policy::TELEMETRY) }
    }
}

impl PolicyTable {
    /// Gives a message, by id or name, another policy; with `None` it is not forwarded.
    ///
    /// # Errors
    /// [`UnknownMessage`] when it is neither a number of at most 24 bits nor a known name.
    pub fn set(&mut self, name_or_id: &str, policy: Option<Policy>) -> Result<(), UnknownMessage> {
        let id = message_id(name_or_id).ok_or(UnknownMessage)?;
        self.overrides.insert(id, policy);
        Ok(())
    }

    /// Tells whether the configuration names this message.
    pub(super) fn names(&self, message: u32) -> bool {
        self.overrides.contains_key(&message)
    }

    /// Returns the policy of a message; `None` when it is not forwarded.
    pub(super) fn policy(&self, message: u32, is_known: bool) -> Option<Policy> {
        match self.overrides.get(&message) {
            Some(policy) => *policy,
            None if is_known => default_policy(message),
            None => self.unknown,
        }
    }
}

impl Default for SelectorConfig {
    fn default() -> Self {
        // Ground station, its second consumer, offboard control, and mavlink-router's TCP server.
        let ports = InspectedPorts::Listed(vec![14_550, 14_551, 14_540, 5_760]);
        Self {
            to_vehicle: PolicyTable::default(),
            from_vehicle: PolicyTable::default(),
            ports,
            forward_setup_signing: false,
        }
    }
}

impl SelectorConfig {
    /// Returns the table of a direction, with the rule for SETUP_SIGNING applied.
    pub(super) fn table(&self, direction: Direction) -> PolicyTable {
        let mut table = match direction {
            Direction::ToVehicle => self.to_vehicle.clone(),
            Direction::FromVehicle => self.from_vehicle.clone(),
        };
        if self.forward_setup_signing {
            table.overrides.entry(SETUP_SIGNING).or_insert(Some(Policy::TRANSACTIONAL));
        } else {
            table.overrides.insert(SETUP_SIGNING, None);
        }
        table
    }
}

impl InspectedPorts {
    /// Returns true when packets between these ports are searched.
    pub(super) fn contains(&self, source: u16, destination: u16) -> bool {
        match self {
            Self::Listed(ports) => ports.contains(&source) || ports.contains(&destination),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_set_by_name_or_id() {
        let mut table = PolicyTable::default();
        assert_eq!(table.set("ATTITUDE", Some(Policy::LIVE)), Ok(()));
        assert_eq!(table.set("1", None), Ok(()));
        assert_eq!(table.set("ALTITUDES", None), Err(UnknownMessage));
        assert_eq!(table.set("16777216", None), Err(UnknownMessage));
        assert_eq!(table.policy(30, true), Some(Policy::LIVE));
        assert_eq!(table.policy(1, true), None);
        assert_eq!(table.policy(76, true), Some(Policy::TRANSACTIONAL));
        assert_eq!(table.policy(59_999, false), Some(Policy::TELEMETRY));
    }

    #[test]
    fn setup_signing_passes_only_when_asked_for() {
        let mut config = SelectorConfig::default();
        let policy = |config: &SelectorConfig| {
            config.table(Direction::ToVehicle).policy(SETUP_SIGNING, true)
        };
        assert_eq!(policy(&config), None);
        config.forward_setup_signing = true;
        assert_eq!(policy(&config), Some(Policy::TRANSACTIONAL));
    }
}
