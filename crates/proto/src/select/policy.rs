//! Delivery policies: what a packet of a class may cost and what it may expect.

use units::Duration;

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

/// Says how many paths carry a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// A copy on every path [ConClone §3.3.2].
    All,
    /// The best path alone.
    Best,
}

/// Says in which order the packets of a lane are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// As they come.
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
}
