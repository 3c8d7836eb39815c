//! What a session tells its driver: deliveries, and one closed enum of everything that happened.

use units::{Duration, Instant};

use crate::ids::{PathId, PeerId, SessionId};
use crate::select::Class;
use crate::status::ReliabilityState;
use crate::via::Via;

/// Names a message that was handed in for reliable delivery, within one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// Carries one packet or message to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The session that it came by.
    pub session: SessionId,
    /// The consumer that it is for: 0 is the tunnel, others are local endpoints.
    pub channel: u8,
    /// The class that the sender's packet selector gave it.
    pub class: Class,
    /// The stream that it came by, for what message delivery carried.
    pub stream: Option<u16>,
    /// The time since it was handed in at the sender, as far as the clock offset is known.
    pub age: Duration,
    /// When it has outlived its time to live, by our clock, and is not to be given to anybody any
    /// more; none where nothing bounds that.
    pub expires: Option<Instant>,
    /// The packet or message, as it was handed in.
    pub bytes: Vec<u8>,
}

/// Says what became of a message that was handed in for reliable delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The peer's session has received it within its time to live.
    Delivered,
    /// It was not delivered and will not be: its time to live ended without an acknowledgement, or
    /// the receiver dropped it, as too old or as overtaken in its lane.
    Expired,
    /// A newer one of its lane took its place before it was acknowledged.
    Superseded,
    /// The session ended or the peer restarted while it was in flight: delivered at most once. Or
    /// so many messages were dropped at once that the receiver could not name them all.
    Indeterminate,
}

/// One step of a message through control delivery, for whoever records flights: see
/// [`crate::SessionConfig::steps`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it happened here.
    pub at: Instant,
    /// Which message: its number in the session, which for those of reliable delivery is their
    /// [`MessageId`].
    pub message: u64,
    /// What happened.
    pub kind: StepKind,
}

/// What happened to a message of control delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// It was handed in.
    HandedIn {
        /// Its class.
        class: Class,
        /// The consumer at the other end.
        channel: u8,
        /// Its MAVLink message id, where it is a frame.
        mavlink: Option<u32>,
        /// Its bytes.
        bytes: usize,
        /// Its time to live.
        life: Duration,
    },
    /// A copy left.
    Sent {
        /// The path that took it.
        path: PathId,
    },
    /// The peer acknowledged a copy.
    Acked {
        /// The path that the copy went by.
        path: PathId,
        /// When it was sent.
        sent_at: Instant,
        /// When it arrived, by our clock, and how far that may be off; none before the peer's clock
        /// is known.
        arrived: Option<(Instant, Duration)>,
    },
    /// A copy was declared lost.
    Lost {
        /// The path that the copy went by.
        path: PathId,
    },
    /// Nothing more of it will leave, and what became of it is known.
    Ended(Outcome),
    /// So many steps before this one were not kept, because nobody asked for them.
    Skipped(u64),
}

/// Says what a path is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathState {
    /// Its interface is missing.
    Absent,
    /// Its address has not proved itself yet.
    Validating,
    /// It carries traffic.
    Active,
    /// It has gone silent: it carries copies of control and probes, and a little bulk while no path
    /// is active.
    Suspected,
    /// It was given up by either side.
    Closed,
}

/// Says what a backup is called for: why no path before it carries what it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Answers are missing.
    Silent,
    /// Control takes too long.
    Slow,
    /// The socket takes nothing.
    Full,
    /// None is active.
    Down,
    /// None may carry it.
    Alone,
    /// They do not give a reliability target.
    Target,
}

/// Everything that can happen to a session, for logs, metrics, the status page, figures and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Keys are agreed and confirmed; the session carries traffic.
    Connected {
        /// The peer at its other end.
        peer: PeerId,
    },
    /// The session is over.
    Disconnected {
        /// Why, for a log line.
        reason: &'static str,
    },
    /// New keys took over.
    Rekeyed,
    /// Another one came with the peer's key and was turned away: two daemons have the same.
    Contested {
        /// Where it came from.
        from: Via,
    },
    /// A path came to be known.
    PathAdded {
        /// Which path.
        path: PathId,
        /// Its remote address.
        remote: Via,
    },
    /// A path changed its state.
    PathChanged {
        /// Which path.
        path: PathId,
        /// What it was.
        from: PathState,
        /// What it is now.
        to: PathState,
    },
    /// A path's remote address changed and proved itself.
    PathMoved {
        /// Which path.
        path: PathId,
        /// Its new remote address.
        remote: Via,
    },
    /// A backup is called.
    BackupCalled {
        /// Which path.
        path: PathId,
        /// What for.
        call: Call,
    },
    /// A backup has not been called for a second.
    BackupRests {
        /// Which path.
        path: PathId,
    },
    /// The peer says that its end of a path has another address; the path is tried there.
    PathTold {
        /// Which path.
        path: PathId,
        /// The address.
        remote: Via,
    },
    /// The end of a message that was handed in for reliable delivery.
    MessageEnded {
        /// Which message, as [`crate::Endpoint::send`] named it.
        message: MessageId,
        /// What became of it.
        outcome: Outcome,
        /// Its MAVLink message id, where the packet selector found a frame in it.
        mavlink: Option<u32>,
    },
    /// Whether a target is kept has changed.
    Reliability {
        /// The class whose messages are under it.
        class: Class,
        /// The declared endpoint whose own it is; none where it is the class's.
        channel: Option<u8>,
        /// What it is now.
        state: ReliabilityState,
    },
    /// A step of a message through control delivery, where the configuration asks for steps.
    Step(Step),
    /// Message delivery refused a message for want of room, and has room again.
    RoomForMessages,
    /// The peer's clock stepped, or our estimate of its offset was found wrong and set anew.
    ClockStepped,
}
