//! Names of lanes: the domains within which packets keep an order.
//!
//! The selector names lanes by what it sees in a packet; `delivery/control/` gives each name a
//! number for the wire. A lane is not a queue: there is a queue per class.

/// Names the domain within which a packet keeps its order.
///
/// The same packet belongs to a wide domain, its source, and a narrow one, its stream within the
/// source. The policy's order says which one counts: `InOrder` and `Sequenced` order the source,
/// `Latest` orders the stream, and a newer packet of a stream supersedes an older live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The local endpoint that it came from; 0 is the tunnel.
    pub channel: u8,
    /// Tells the flows of the tunnel apart; 0 for local endpoints.
    pub flow: u32,
    /// MAVLink system and component of the sender; zeros where there is no MAVLink.
    pub source: (u8, u8),
    /// The stream within the source; none when all of the source's packets are one stream.
    pub stream: Option<StreamKey>,
}

/// Names messages of a source that each replace the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// MAVLink message id.
    pub message: u32,
    /// MAVLink system and component that it is addressed to; zeros when it names none.
    pub target: (u8, u8),
}

impl LaneKey {
    /// Names the one lane of an endpoint whose datagrams are declared to be control.
    pub const fn declared(channel: u8) -> Self {
        Self { channel, flow: 0, source: (0, 0), stream: None }
    }
}
