//! What a user may say about the selector. Being written: the signatures are final.

use std::collections::BTreeMap;

use super::Policy;

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
    /// On these, as source or destination.
    Listed(Vec<u16>),
    /// On every port.
    Any,
}

/// Says what a direction deviates in from the default table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyTable {
    /// Policies by message id that differ from the default; none: the message is not forwarded.
    pub overrides: BTreeMap<u32, Option<Policy>>,
    /// The policy of ids that no dialect knows; the default is telemetry.
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

impl Default for SelectorConfig {
    fn default() -> Self {
        Self {
            to_vehicle: PolicyTable::default(),
            from_vehicle: PolicyTable::default(),
            ports: InspectedPorts::Listed(vec![14_550, 14_551, 14_540, 5_760]),
            forward_setup_signing: false,
        }
    }
}

/// Returns the message id for a name such as `COMMAND_LONG`, or for a number such as `76`.
pub fn message_id(name_or_id: &str) -> Option<u32> {
    name_or_id.parse().ok()
}
