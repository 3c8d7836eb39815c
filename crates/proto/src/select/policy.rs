//! Delivery policies: what a packet of a class may cost and what it may expect.
//!
//! The six policies of MAVLink are constants here; which message gets which is `table.rs`, who
//! carries them out is `delivery/control/` and `delivery/datagram/` [specs/delivery.md §1].

use units::Duration;

use super::Target;

/// Sorts traffic by what it is to the vehicle; lower sorts before higher in every queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Heartbeats, time and ping: at once, never delayed by anything.
    Liveness,
    /// Set-points and stick input: the newest wins.
    Live,
    /// Commands and mission items: exactly once.
    Control,
    /// The autopilot's stream: best path, unreliable.
    Telemetry,
    /// Parameters, files, logs, corrections: reliable, never replicated.
    Message,
    /// What else the tunnel carries.
    Bulk,
}

/// Ranks classes for sending: a tier is served only when those before it have nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Liveness, live and transactional control, which do not overtake each other.
    Control,
    /// The autopilot's stream.
    Telemetry,
    /// Parameters, files, logs, corrections.
    Message,
    /// What else the tunnel carries.
    Bulk,
}

/// Says how many paths carry a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// A copy on every path [ConClone §3.3.2].
    All,
    /// The best path alone.
    Best,
}

/// Says in which order the packets of a lane are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// In the order of their arrival.
    None,
    /// An older one never follows a newer one; it is dropped.
    Latest,
    /// Each waits until the earlier ones were delivered or given up by the sender.
    InOrder,
    /// Each waits at most one probe timeout for an earlier one, which is then dropped.
    Sequenced,
}

/// Says how a packet is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its class: priority and accounting.
    pub class: Class,
    /// How many paths carry it.
    pub copies: Copies,
    /// Whether it is sent again until it is acknowledged or its time to live ends.
    pub reliable: bool,
    /// Its order within its lane.
    pub order: Order,
    /// Beyond this age it is dropped, wherever it is.
    pub ttl: Duration,
    /// How much of what is copied to every path is to be in time, where its class is not asked for
    /// the same: then no more copies leave than that takes.
    pub target: Option<Target>,
}

impl Class {
    /// Every class, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Liveness, Self::Live, Self::Control, Self::Telemetry, Self::Message, Self::Bulk];

    /// Returns the class's place in [`Class::ALL`], for tables by class.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the tier that the class is sent in.
    pub const fn tier(self) -> Tier {
        match self {
            Self::Liveness | Self::Live | Self::Control => Tier::Control,
            Self::Telemetry => Tier::Telemetry,
            Self::Message => Tier::Message,
            Self::Bulk => Tier::Bulk,
        }
    }
}

impl Policy {
    /// Commands and mission items: replicated, delivered exactly once, in order, within two
    /// seconds.
    pub const TRANSACTIONAL: Self = Self {
        class: Class::Control,
        copies: Copies::All,
        reliable: true,
        order: Order::InOrder,
        ttl: Duration::from_secs(2),
        target: None,
    };
    /// Stick input and set-points: replicated, sent again while newest; the newest wins.
    pub const LIVE: Self = Self {
        class: Class::Live,
        copies: Copies::All,
        reliable: true,
        order: Order::Latest,
        ttl: Duration::from_millis(300),
        target: None,
    };
    /// Heartbeats, time and ping: replicated, never sent again.
    pub const LIVENESS: Self = Self {
        class: Class::Liveness,
        copies: Copies::All,
        reliable: false,
        order: Order::None,
        ttl: Duration::from_secs(1),
        target: None,
    };
    /// Parameters, files and logs: reliable on the best path.
    pub const TRANSFER: Self = Self {
        class: Class::Message,
        copies: Copies::Best,
        reliable: true,
        order: Order::None,
        ttl: Duration::from_secs(10),
        target: None,
    };
    /// Corrections that grow old: reliable on the best path within two seconds.
    pub const EXPIRING: Self = Self { ttl: Duration::from_secs(2), ..Self::TRANSFER };
    /// The autopilot's stream: once, on the best path; the time to live bounds the queue.
    pub const TELEMETRY: Self = Self {
        class: Class::Telemetry,
        copies: Copies::Best,
        reliable: false,
        order: Order::None,
        ttl: Duration::from_secs(1),
        target: None,
    };
    /// What the tunnel carries beside MAVLink: once, on the best path; the session bounds its age.
    pub const BULK: Self =
        Self { class: Class::Bulk, ttl: Duration::from_millis(150), ..Self::TELEMETRY };
    /// What an application declares to be control: replicated, delivered exactly once, in any
    /// order.
    pub const DECLARED: Self = Self { order: Order::None, ..Self::TRANSACTIONAL };

    /// Returns the policy that a configuration calls `name`: `transactional`, `live`, `liveness`,
    /// `bulk`, `expiring` or `telemetry`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "transactional" => Self::TRANSACTIONAL,
            "live" => Self::LIVE,
            "liveness" => Self::LIVENESS,
            "bulk" => Self::TRANSFER,
            "expiring" => Self::EXPIRING,
            "telemetry" => Self::TELEMETRY,
            _ => return None,
        })
    }

    /// Returns true when every path may carry a copy.
    pub const fn is_replicated(&self) -> bool {
        matches!(self.copies, Copies::All)
    }

    /// Returns true when a newer message of the stream makes up for an older one.
    pub const fn newest_counts(&self) -> bool {
        matches!(self.class, Class::Live) || matches!(self.order, Order::Latest)
    }

    /// Returns true when plain datagram delivery carries the packet: once, on one path, unordered.
    ///
    /// Control delivery carries what neither this nor message delivery does.
    pub const fn is_plain(&self) -> bool {
        matches!(self.copies, Copies::Best) && !self.reliable && matches!(self.order, Order::None)
    }

    /// Returns true when message delivery carries the packet: coded, reliable, on the best path,
    /// unordered within its time to live.
    pub const fn is_coded(&self) -> bool {
        matches!(self.class, Class::Message)
            && matches!(self.copies, Copies::Best)
            && self.reliable
            && matches!(self.order, Order::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_index_their_list_and_tiers_follow_priority() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
        }
        assert!(Class::ALL.windows(2).all(|pair| pair[0].tier() <= pair[1].tier()));
    }

    #[test]
    fn only_telemetry_and_bulk_are_plain() {
        assert!(Policy::TELEMETRY.is_plain() && Policy::BULK.is_plain());
        assert!(!Policy::LIVENESS.is_plain() && !Policy::TRANSFER.is_plain());
        let signed = Policy { order: Order::Sequenced, ..Policy::TELEMETRY };
        assert!(!signed.is_plain());
        assert!(Policy::TRANSFER.is_coded() && Policy::EXPIRING.is_coded());
        assert!(!Policy::TRANSACTIONAL.is_coded() && !Policy::TELEMETRY.is_coded());
        let signed = Policy { order: Order::Sequenced, ..Policy::TRANSFER };
        assert!(!signed.is_coded(), "its receiver rejects what is older than what it has seen");
    }
}
