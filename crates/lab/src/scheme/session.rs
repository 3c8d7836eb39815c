//! What a session of Fulmar is, and where each stream enters it, under each scheme that runs on one.

use proto::select::{Copies, Order, Policy};
use proto::{CongestionKind, ProtectControl, SchedulerKind, SessionConfig, Source};
use units::Duration;

use super::Scheme;
use crate::testbed::Stream;

/// The local endpoint whose every datagram is control, and that messages belong to.
pub(crate) const DECLARED: u8 = 1;
/// The local endpoint that speaks MAVLink.
const MAVLINK: u8 = 2;
/// The local endpoint of which the newest datagram wins.
const LIVE: u8 = 3;

/// A scheme that runs on a session; [`Scheme`] says what each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionScheme {
    Fulmar,
    FulmarStrict,
    FulmarOff,
    MinRtt,
    RoundRobin,
    Redundant,
    Lrt,
}

impl SessionScheme {
    /// Returns the configuration of both ends' sessions.
    pub(crate) fn config(self) -> SessionConfig {
        // What stands for others, or for a session without copies, is left as it was.
        let protect_control = match self {
            Self::Fulmar | Self::Lrt => ProtectControl::Balanced,
            Self::FulmarStrict => ProtectControl::Strict,
            _ => ProtectControl::Off,
        };
        let mut config = SessionConfig { protect_control, ..SessionConfig::default() };
        if !self.is_fulmar() {
            // What others stand for does not know video when it sees it.
            config.rtp_deadline = Duration::ZERO;
        }
        match self {
            Self::RoundRobin => config.scheduler = SchedulerKind::RoundRobin,
            Self::Redundant => {
                config.scheduler = SchedulerKind::Redundant;
                config.congestion = CongestionKind::None;
            }
            _ => {}
        }
        config
    }

    /// Returns where a stream enters the session.
    pub(crate) fn source(self, stream: Stream) -> Source {
        match (self, stream) {
            // Replicate-everything tools tell nothing apart.
            (Self::Redundant, _) | (_, Stream::Video) => Source::Tunnel,
            (scheme, Stream::Mavlink) if scheme.is_fulmar() => Source::Mavlink { channel: MAVLINK },
            (scheme, Stream::Control) if scheme.is_fulmar() => {
                Source::Declared { channel: DECLARED, policy: Policy::DECLARED }
            }
            (scheme, Stream::Live) if scheme.is_fulmar() => {
                Source::Declared { channel: LIVE, policy: Policy::LIVE }
            }
            // A session without copies: as reliable, on one path at a time.
            (_, Stream::Live) => Source::Declared {
                channel: LIVE,
                policy: Policy { copies: Copies::Best, ..Policy::LIVE },
            },
            (_, Stream::Control) => Source::Declared { channel: DECLARED, policy: uncopied() },
            (_, Stream::Mavlink) => Source::Declared { channel: MAVLINK, policy: uncopied() },
        }
    }

    fn is_fulmar(self) -> bool {
        matches!(self, Self::Fulmar | Self::FulmarStrict | Self::FulmarOff)
    }
}

impl Scheme {
    /// Returns the scheme as one that runs on a session, if it is.
    pub(crate) const fn session(self) -> Option<SessionScheme> {
        Some(match self {
            Self::Fulmar => SessionScheme::Fulmar,
            Self::FulmarStrict => SessionScheme::FulmarStrict,
            Self::FulmarOff => SessionScheme::FulmarOff,
            Self::MinRtt => SessionScheme::MinRtt,
            Self::RoundRobin => SessionScheme::RoundRobin,
            Self::Redundant => SessionScheme::Redundant,
            Self::Lrt => SessionScheme::Lrt,
            _ => return None,
        })
    }
}

/// Returns the policy of control in a session without copies.
fn uncopied() -> Policy {
    Policy { copies: Copies::Best, order: Order::None, ..Policy::TRANSACTIONAL }
}
