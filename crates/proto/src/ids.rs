//! Names of things that cross the public surface, and the two shapes in which datagrams cross it.

use std::net::IpAddr;

use crate::via::Via;

/// Names a local socket or interface; the driver chooses the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// Names a peer whose public key the endpoint knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// Names a session within one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// Names a path within one session; the initiator chooses it and both sides use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

/// Names a path within one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathRef {
    /// The session that the path belongs to.
    pub session: SessionId,
    /// The path within that session.
    pub path: PathId,
}

/// Describes a datagram that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The socket or interface that it came in on.
    pub interface: InterfaceId,
    /// The local address that it was sent to, where the driver knows it: answers leave from there.
    pub local: Option<IpAddr>,
    /// Where the sender is.
    pub source: Via,
    /// The two ECN bits of the IP header. No session asks the network for marks, so none counts
    /// [specs/paths.md §6] (rule 4).
    pub ecn: u8,
}

/// Describes a datagram that is to go out; its bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The path that it belongs to; none for handshakes and other answers of the endpoint itself.
    pub path: Option<PathRef>,
    /// The socket or interface that it leaves by.
    pub interface: InterfaceId,
    /// The local address that it leaves from, where that matters.
    pub local: Option<IpAddr>,
    /// Where it goes.
    pub destination: Via,
    /// True when it carries control, or is to be treated as such: the driver marks it with the DSCP
    /// of control. Where a path drops what is marked, nothing is.
    pub urgent: bool,
    /// The packet's number on its path: what a gateway of a relayed link gives up is told by it.
    pub number: Option<u64>,
}
