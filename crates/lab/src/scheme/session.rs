//! What a session of Fulmar is, and where each stream enters it, under each scheme that runs on
//! one.

use proto::select::{Copies, Order, Policy};
use proto::{
    CongestionKind, FlowCodeParameters, MessageStream, ProtectControl, Reliability, SchedulerKind,
    SessionConfig, Source, Target, TunnelForm,
};
use units::Duration;

use super::About;
use crate::testbed::Stream;

/// The local endpoint whose every datagram is control, and that messages belong to.
pub(crate) const DECLARED: u8 = 1;
/// The local endpoint that speaks MAVLink.
const MAVLINK: u8 = 2;
/// The local endpoint of which the newest datagram wins.
const LIVE: u8 = 3;
/// The local endpoint of messages that run beside other streams.
const MESSAGES: u8 = 4;
/// The local endpoint that speaks the MAVLink of one message a frame, made here.
const TELEMETRY: u8 = 5;

/// A scheme that runs on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionScheme {
    Fulmar,
    /// With this target for all that is control, or a usual one.
    FulmarTarget(Option<Target>),
    /// With every link but the first in reserve.
    FulmarBackup,
    FulmarStrict,
    FulmarOff,
    /// With paths over something else than UDP.
    FulmarBy(Carried),
    /// With so many packets in a generation.
    FlowCode(Packets),
    MinRtt,
    RoundRobin,
    Redundant,
    Lrt,
}

/// What carries the paths, where it is not UDP alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// UDP, and TCP while nothing comes by it.
    Auto,
    Tcp,
    /// TCP, one connection for each link.
    TcpOne,
}

impl Carried {
    const fn about(self) -> About {
        match self {
            Self::Auto => About {
                name: "fulmar_auto",
                meaning: "the same, by TCP where nothing comes by UDP",
                help: "Fulmar with `carrier = \"auto\"` on every link: UDP, and TCP while nothing comes by UDP",
            },
            Self::Tcp => About {
                name: "fulmar_tcp",
                meaning: "the same, over two TCP connections for each link",
                help: "Fulmar with `carrier = \"tcp\"` on every link",
            },
            Self::TcpOne => About {
                name: "fulmar_tcp_one",
                meaning: "the same, over one TCP connection for each link",
                help: "Fulmar with `carrier = \"tcp\"` and `connections = 1` on every link",
            },
        }
    }
}

/// Packets of a coded generation: the paper's and others beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    Two,
    Four,
    Eight,
    Sixteen,
}

impl Packets {
    const fn count(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

impl SessionScheme {
    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::Fulmar => About {
                name: "fulmar",
                meaning: "control copied to every path, data by least delay",
                help: "The product's own choice: control copied to every path, data by least delay",
            },
            Self::FulmarTarget(_) => About {
                name: "fulmar_target",
                meaning: "control in as few copies as its reliability target takes",
                help: "Fulmar with a reliability target: no more copies of control than it takes; 0.999 in 100 ms unless the experiment says another",
            },
            Self::FulmarBackup => About {
                name: "fulmar_backup",
                meaning: "every link but the first in reserve, until nothing else works",
                help: "Fulmar with `backup = true` on every link but the first",
            },
            Self::FulmarStrict => About {
                name: "fulmar_strict",
                meaning: "the same, control protected strictly",
                help: "Fulmar with `protect_control = \"strict\"`: bulk leaves control room whatever a link does",
            },
            Self::FulmarOff => About {
                name: "fulmar_off",
                meaning: "the same, control not protected from data",
                help: "Fulmar with `protect_control = \"off\"`: bulk fills what congestion control allows",
            },
            Self::FulmarBy(carried) => carried.about(),
            Self::FlowCode(packets) => About {
                name: match packets {
                    Packets::Two => "flowcode_k2",
                    Packets::Four => "flowcode",
                    Packets::Eight => "flowcode_k8",
                    Packets::Sixteen => "flowcode_k16",
                },
                meaning: "the same, TCP of the tunnel in coded generations as published",
                help: "Fulmar with `tunnel_form = \"flowcode\"`: TCP of the tunnel as the FlowCode paper has it",
            },
            Self::MinRtt => About {
                name: "min_rtt",
                meaning: "one path at a time: least delay",
                help: "Fulmar's session without copies: everything on the path of least delay",
            },
            Self::RoundRobin => About {
                name: "round_robin",
                meaning: "one path at a time: in turn",
                help: "Fulmar's session without copies: everything on the paths in turn",
            },
            Self::Redundant => About {
                name: "redundant",
                meaning: "everything on every path (selector and congestion control off)",
                help: "Everything on every path, nothing told apart, nothing held back",
            },
            Self::Lrt => About {
                name: "lrt",
                meaning: "messages as in the LRT paper: coders of bounded size",
                help: "Messages by online network coding as the paper has it, with coders of bounded size",
            },
        }
    }

    /// Returns the configuration of both ends' sessions.
    pub(crate) fn config(self) -> SessionConfig {
        // Schemes that stand for other tools, or for a session without copies, are left as they
        // were.
        let protect_control = match self {
            Self::Fulmar
            | Self::FulmarTarget(_)
            | Self::FulmarBackup
            | Self::FulmarBy(_)
            | Self::FlowCode(_)
            | Self::Lrt => ProtectControl::Balanced,
            Self::FulmarStrict => ProtectControl::Strict,
            _ => ProtectControl::Off,
        };
        let mut config = SessionConfig { protect_control, ..SessionConfig::default() };
        if !self.is_fulmar() {
            // The tools that these schemes stand for do not know video when they see it.
            config.rtp_deadline = Duration::ZERO;
            // Nor does it send again what a link lost.
            config.tunnel = TunnelForm::Plain;
        }
        match self {
            Self::FulmarTarget(_) => {
                let target = self.target();
                config.reliability =
                    Reliability { control: target, liveness: target, live: target };
            }
            Self::FlowCode(packets) => {
                let parameters = FlowCodeParameters { k: packets.count(), ..Default::default() };
                config.tunnel = TunnelForm::FlowCode(parameters);
            }
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
            (Self::Redundant, _) | (_, Stream::Video | Stream::Datagrams | Stream::Ping) => {
                Source::Tunnel
            }
            (_, Stream::Messages) => {
                Source::Message { channel: MESSAGES, stream: MessageStream::default() }
            }
            // Its own policy asks for no copies: sessions without them have the same.
            (_, Stream::Telemetry) => Source::Mavlink { channel: TELEMETRY },
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

    /// Returns the lines of a daemon's `[transport]` that say the same as
    /// [`SessionScheme::config`].
    pub(crate) const fn daemon_lines(self) -> &'static str {
        match self {
            Self::Fulmar | Self::FulmarTarget(_) | Self::FulmarBackup | Self::FulmarBy(_) => "",
            Self::FlowCode(packets) => match packets {
                Packets::Two => "tunnel_form = \"flowcode\"\nflowcode_k = 2\n",
                Packets::Four => "tunnel_form = \"flowcode\"\n",
                Packets::Eight => "tunnel_form = \"flowcode\"\nflowcode_k = 8\n",
                Packets::Sixteen => "tunnel_form = \"flowcode\"\nflowcode_k = 16\n",
            },
            Self::Lrt => "tunnel_form = \"plain\"\n",
            Self::FulmarStrict => "protect_control = \"strict\"\n",
            Self::FulmarOff => "protect_control = \"off\"\n",
            Self::MinRtt => "tunnel_form = \"plain\"\nprotect_control = \"off\"\n",
            Self::RoundRobin => {
                "scheduler = \"round_robin\"\ntunnel_form = \"plain\"\nprotect_control = \"off\"\n"
            }
            Self::Redundant => {
                "scheduler = \"redundant\"\ncongestion = \"none\"\nprotect_control = \"off\"\n"
            }
        }
    }

    /// Tells whether a link is kept in reserve.
    pub(crate) const fn is_backup(self, link: usize) -> bool {
        matches!(self, Self::FulmarBackup) && link > 0
    }

    /// Returns what carries the paths, where it is not UDP alone.
    pub(crate) const fn carried(self) -> Option<Carried> {
        match self {
            Self::FulmarBy(carried) => Some(carried),
            _ => None,
        }
    }

    /// Returns what a daemon's file says of copies in the section of an endpoint whose datagrams
    /// are all control.
    pub(crate) fn daemon_copies(self) -> String {
        match (self, self.target()) {
            (_, Some(target)) => format!(
                "target = {}\ndeadline_ms = {}\n",
                target.share(),
                target.deadline().as_millis()
            ),
            (scheme, None) if scheme.is_fulmar() => "copies = \"all\"\n".to_owned(),
            _ => "copies = \"best\"\n".to_owned(),
        }
    }

    /// Returns the sections of a daemon's file that ask the same of MAVLink.
    pub(crate) fn daemon_sections(self) -> String {
        let Some(_) = self.target() else { return String::new() };
        let keys = self.daemon_copies();
        let section = |class| format!("\n[reliability.{class}]\n{keys}");
        ["control", "liveness", "live"].map(section).concat()
    }

    /// Returns the target, where there is one.
    fn target(self) -> Option<Target> {
        match self {
            Self::FulmarTarget(target) => target.or_else(usual_target),
            _ => None,
        }
    }

    /// Tells whether it is the product itself, however it protects control.
    pub(crate) const fn is_fulmar(self) -> bool {
        matches!(
            self,
            Self::Fulmar
                | Self::FulmarTarget(_)
                | Self::FulmarBackup
                | Self::FulmarStrict
                | Self::FulmarOff
                | Self::FulmarBy(_)
                | Self::FlowCode(_)
        )
    }
}

/// Returns the target where none is said: what the documents take for an example.
fn usual_target() -> Option<Target> {
    Target::new(0.999, Duration::from_millis(100))
}

/// Returns the policy of control in a session without copies.
fn uncopied() -> Policy {
    Policy { copies: Copies::Best, order: Order::None, ..Policy::TRANSACTIONAL }
}
