//! The multipath session of Fulmar as a pure state machine.
//!
//! Bytes and time come in as arguments, decisions go out as return values: nothing here opens a
//! socket or reads a clock. An [`Endpoint`] finds out which session a datagram belongs to (cookies
//! and rate limits come before the costly part of a handshake) and owns the sessions; a session
//! turns packets of the application into sealed datagrams for its paths and back.
//!
//! ```text
//! send → select → control | message | tunnel | datagram → schedule → path → wire, crypto → poll_transmit
//! admit_datagram → serve → crypto, wire → recovery → control | message | tunnel | datagram → poll_delivery
//! ```

mod congestion;
mod crypto;
mod delivery;
mod endpoint;
mod event;
#[cfg(any(fuzzing, feature = "doors"))]
#[doc(hidden)]
pub mod fuzzing;
mod ids;
mod limits;
mod memory;
mod path;
mod recovery;
mod rejection;
mod relay;
mod schedule;
pub mod select;
mod session;
mod status;
mod via;
mod window;
mod wire;

pub use congestion::CongestionKind;
pub use crypto::{
    Guest, KeyError, OtherVersion, PublicKey, StaticSecret, WIRE_VERSION, is_proof, prove,
};
pub use delivery::message::{ElasticRedundancy, MessageForm, MessageOrder, MessageStream};
pub use delivery::tunnel::{FlowCodeParameters, TunnelForm, TunnelQueue};
pub use endpoint::{Asking, Endpoint, EndpointConfig, EndpointCounters, Share, Work};
pub use event::{Call, Delivery, Event, MessageId, Outcome, PathState, Step, StepKind};
pub use ids::{InterfaceId, PathId, PathRef, PeerId, Received, SessionId, Transmit};
pub use path::{Carries, Cost, PathUse, ProtectControl, RelayRoom};
pub use rejection::{Rejection, Rejections};
pub use relay::{
    Fate, Hop as RelayHop, NodeName, REFUSALS, Received as RelayReceived, Refusal, Refusals,
    RelayConfig, RelayError, RelayForm, RelayMember, RelayNode, RelayRole, RelayStatus, Relayed,
    Sent as RelaySent, Side as RelaySide, longest_datagram as longest_relay_datagram,
};
pub use schedule::SchedulerKind;
pub use select::{Reliability, Target};
pub use session::{PathError, SendError, SessionConfig, Source};
pub use status::{
    ClassStatus, DelayPercentiles, MessageDelay, MessageStatus, MessageStreamStatus, PathGlance,
    PathStatus, ReliabilityLimit, ReliabilityState, ReliabilityStatus, SessionStatus, TunnelStatus,
};
pub use units::{Duration, Instant, Rate};
pub use via::{RelayId, Via};

/// Bytes of a datagram that relays pass on uncoded, at once, at most.
pub const RELAY_SMALL: usize = limits::RELAY_SMALL;

/// Paths of one session, at most.
pub const MAX_PATHS: usize = limits::PATHS;

/// Bytes that the sessions of an endpoint hold together at most, unless
/// [`Endpoint::set_memory_bound`] says otherwise.
pub const MEMORY: usize = limits::MEMORY;

/// Bytes of them that each session may count on.
pub const SESSION_SHARE: usize = limits::SESSION_SHARE;

/// Bytes of a note, at most ([`Endpoint::set_note`]).
pub const NOTE_BYTES: usize = limits::NOTE_BYTES;

/// Notes of one end, at most; one more is not told.
pub const MAX_NOTES: usize = limits::NOTES;

/// Sessions that an endpoint keeps at most: a station has no use for more peers.
pub const MAX_SESSIONS: usize = limits::SESSIONS;
