//! The one file that configures a daemon: what it means, checked before anything is opened.
//!
//! Reading keys is `toml-keys`; each other file here reads the sections of one concern. A file with
//! any mistake is not used at all: a daemon that runs on half of its configuration surprises its
//! operator.

mod carrier;
mod endpoints;
mod filter;
mod kind;
mod local;
mod message;
pub(crate) mod path_use;
mod peers;
mod proxy;
mod record;
pub(crate) mod relay;
mod reliability;
mod session;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ipnet::IpNet;
use proto::select::Policy;
use proto::{Duration, MessageStream, PathUse, PublicKey, Source, StaticSecret};
use toml_keys::{FileError, Mistake, Section};
use zeroize::Zeroizing;

use crate::interface::Families;

pub(crate) use carrier::{Beside, Carrier};
pub(crate) use filter::Filters;
pub(crate) use local::{RUN_DIRECTORY, TUNNEL, no_hosts};
pub(crate) use peers::is_of_one_host;
pub(crate) use proxy::{Login, Proxy};
pub(crate) use record::RecordConfig;
pub(crate) use relay::{GatewayConfig, HopConfig, RelayFile};
pub(crate) use session::Transport;

/// The largest file that can be a configuration: that of a station with a thousand drones fits
/// several times.
const LARGEST_FILE: u64 = 1 << 20;

/// Sockets that a daemon opens at its interfaces: paths of a drone, addresses that a station
/// listens at. Eight bits name them.
pub(crate) const MAX_SOCKETS: usize = 256;

/// The longest name in the domain name system.
const LONGEST_NAME: usize = 253;

/// Which end of the sessions this daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Opens the paths; beside the autopilot.
    Drone,
    /// Waits for drones; beside the ground station.
    Station,
}

/// What a file configures.
#[derive(Debug)]
pub(crate) enum Kind {
    /// An end of sessions.
    End(Box<Config>),
    /// A relay between them.
    Relay(Box<RelayFile>),
}

impl Kind {
    /// Returns how it is to be logged.
    pub(crate) fn log(&self) -> &LogConfig {
        match self {
            Self::End(config) => &config.log,
            Self::Relay(config) => &config.log,
        }
    }

    /// Returns what is allowed but hardly wanted.
    pub(crate) fn warnings(&self) -> &[String] {
        match self {
            Self::End(config) => &config.warnings,
            Self::Relay(config) => &config.warnings,
        }
    }
}

/// Everything that a daemon is told by its file.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where it was read.
    pub(crate) file: PathBuf,
    pub(crate) role: Role,
    /// Whether the daemon asks for real-time priority.
    pub(crate) realtime: bool,
    pub(crate) secret: StaticSecret,
    pub(crate) peers: Vec<Peer>,
    pub(crate) paths: Vec<PathConfig>,
    pub(crate) listens: Vec<Listen>,
    /// Relayed links whose gateway this daemon is.
    pub(crate) relays: Vec<GatewayConfig>,
    pub(crate) tunnel: Option<TunnelConfig>,
    pub(crate) endpoints: Vec<EndpointConfig>,
    pub(crate) transport: Transport,
    pub(crate) status: PathBuf,
    pub(crate) log: LogConfig,
    /// Where flights are recorded; nowhere without it.
    pub(crate) record: Option<RecordConfig>,
    /// What is allowed but hardly wanted; for the log and for `fulmar check`.
    pub(crate) warnings: Vec<String>,
}

/// The other end of a session.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    pub(crate) preshared_key: Option<Zeroizing<[u8; 32]>>,
    /// Sources that its tunnel packets may have, and destinations that are routed to it.
    pub(crate) allowed: Vec<IpNet>,
}

/// A path that a drone opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathConfig {
    pub(crate) name: String,
    pub(crate) interface: String,
    /// Where the peer, or its proxy, may be found, most likely first; at least one, but over relays
    /// none.
    pub(crate) remotes: Vec<Remote>,
    /// What its connections go through.
    pub(crate) proxy: Option<Proxy>,
    /// Index into [`Config::relays`], of one over relays; it has no interface of its own.
    pub(crate) relay: Option<usize>,
    /// What its datagrams travel in.
    pub(crate) carrier: Carrier,
    /// The path that it shares its interface with, of one that the file has not named itself.
    pub(crate) beside: Option<Beside>,
    /// Index into [`Config::peers`].
    pub(crate) peer: usize,
    /// What it costs, and what it is for.
    pub(crate) usage: PathUse,
}

impl PathConfig {
    /// Returns the families of its remotes; a name may have addresses of both.
    pub(crate) fn families(&self) -> Families {
        if self.remotes.iter().any(|remote| remote.address().is_none()) {
            return Families::BOTH;
        }
        Families::of(self.remotes.iter().filter_map(Remote::address).map(|address| address.ip()))
    }
}

/// Where a peer may be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// At an address.
    Address(SocketAddr),
    /// At the addresses of a host's name, and a port.
    Name(String, u16),
}

impl Remote {
    /// Returns the address, of one that has no name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(..) => None,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for Remote {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        // The last part of a name is no number: what looks like an address and is none is a
        // mistake.
        let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        let is_name = host.len() <= LONGEST_NAME
            && host.bytes().all(is_plain)
            && last.contains(|letter: char| letter.is_ascii_alphabetic());
        if is_name {
            Ok(Self::Name(host.to_owned(), port.parse().map_err(|_| ())?))
        } else {
            Err(())
        }
    }
}

/// An address that a station waits at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) name: String,
    pub(crate) carrier: Carrier,
    pub(crate) address: SocketAddr,
    pub(crate) interface: Option<String>,
}

/// The tunnel's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TunnelConfig {
    pub(crate) interface: String,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) mtu: u16,
    pub(crate) mss_clamp: bool,
}

/// A local endpoint: a socket or serial port that applications use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointConfig {
    pub(crate) name: String,
    pub(crate) channel: u8,
    /// Index into [`Config::peers`].
    pub(crate) peer: usize,
    pub(crate) kind: EndpointKind,
    pub(crate) content: Content,
}

/// What an endpoint is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// Waits at an address and answers every program that speaks to it.
    UdpServer(SocketAddr),
    /// Speaks to an address.
    UdpClient(Remote),
    /// Accepts connections.
    TcpServer(SocketAddr),
    /// Connects to an address.
    TcpClient(Remote),
    /// Reads and writes a device at a speed.
    Serial(PathBuf, Line),
    /// A Unix SEQPACKET socket at a path, with permissions.
    Seqpacket(PathBuf, u32),
}

/// How a serial port is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) baud: u32,
    /// It sends while CTS is on, and says by RTS that it takes.
    pub(crate) rts_cts: bool,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = if self.rts_cts { ", RTS/CTS" } else { "" };
        write!(f, "{} baud{flow}", self.baud)
    }
}

impl EndpointKind {
    /// Returns the address that it speaks to, of a client.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Self::UdpClient(remote) | Self::TcpClient(remote) => Some(remote),
            Self::UdpServer(_) | Self::TcpServer(_) | Self::Serial(..) | Self::Seqpacket(..) => {
                None
            }
        }
    }

    /// Tells whether one may take over the other's port: a socket at the same address, the same
    /// device or path.
    pub(crate) fn shares_port(&self, other: &Self) -> bool {
        self == other || self.collides_with(other)
    }

    /// Tells whether it waits for programs, at a place that must be free.
    pub(crate) fn is_place(&self) -> bool {
        matches!(self, Self::UdpServer(_) | Self::TcpServer(_) | Self::Seqpacket(..))
    }

    /// Tells whether both would open the same thing.
    pub(crate) fn collides_with(&self, other: &Self) -> bool {
        match (self, other) {
            // Each has a socket of its own.
            (Self::UdpClient(_), Self::UdpClient(_)) | (Self::TcpClient(_), Self::TcpClient(_)) => {
                false
            }
            (Self::Serial(one, _), Self::Serial(other, _))
            | (Self::Seqpacket(one, _), Self::Seqpacket(other, _)) => one == other,
            _ => self == other,
        }
    }
}

impl Config {
    /// Warns of a station's peers that are allowed addresses which are its own.
    pub(crate) fn warnings_of_own(&self, own: &[IpAddr]) -> Vec<String> {
        match self.role {
            Role::Station => peers::warnings_of_own(self.peers.iter(), own),
            Role::Drone => Vec::new(),
        }
    }
}

/// What passes through an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// MAVLink frames, told apart by the packet selector.
    Mavlink(MavlinkContent),
    /// Datagrams that are all control.
    Declared(Policy),
    /// Messages of one stream.
    Message(MessageContent),
}

/// What a MAVLink endpoint does with frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MavlinkContent {
    /// Time between two reports of the link's state to the autopilot; none where it gets none.
    pub(crate) radio_status: Option<Duration>,
    /// Whether they are told what the pilot should know of the links.
    pub(crate) status_text: bool,
    /// Frames are numbered anew, in the order in which its programs are given them.
    pub(crate) renumber: bool,
    /// Whether applications of the channel hear each other here.
    pub(crate) share: bool,
    pub(crate) filters: Filters,
}

/// How the messages of an endpoint are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageContent {
    /// Their stream within the channel, with its order and deadline.
    pub(crate) stream: MessageStream,
    /// Whether they are packets of RTP and nothing else is taken.
    pub(crate) rtp: bool,
}

impl EndpointConfig {
    /// Returns how the session is to take what the endpoint reads.
    pub(crate) fn source(&self) -> Source {
        let channel = self.channel;
        match self.content {
            Content::Mavlink(_) => Source::Mavlink { channel },
            Content::Declared(policy) => Source::Declared { channel, policy },
            Content::Message(content) => Source::Message { channel, stream: content.stream },
        }
    }

    /// Returns the stream of an endpoint for messages.
    pub(crate) fn stream(&self) -> Option<u16> {
        match &self.content {
            Content::Message(content) => Some(content.stream.id),
            Content::Mavlink(_) | Content::Declared(_) => None,
        }
    }

    /// Tells whether the endpoint is given what comes by a stream of its channel. What did not come
    /// by message delivery has no stream.
    pub(crate) fn takes(&self, stream: Option<u16>) -> bool {
        self.stream().is_none_or(|ours| stream == Some(ours))
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub(crate) level: tracing::Level,
    pub(crate) json: bool,
}

/// Reads and checks the file of a drone or station; files that it names are looked for beside it.
pub(crate) fn load(file: &Path) -> Result<Config, FileError> {
    end_of(load_any(file)?, file)
}

/// Reads and checks a file of any role.
pub(crate) fn load_any(file: &Path) -> Result<Kind, FileError> {
    let of_file = |what: String| FileError {
        file: file.display().to_string(),
        mistakes: vec![Mistake::of_file(what)],
    };
    let text = read_text(file).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::IsADirectory => "; name the file in it",
            io::ErrorKind::PermissionDenied => "; it may be root's: sudo",
            io::ErrorKind::NotFound => "; ls shows what is there",
            _ => "",
        };
        of_file(format!("cannot read: {error}{hint}"))
    })?;
    if text.trim().is_empty() {
        return Err(of_file(
            "is empty: begin with the example of your end, drone.toml or station.toml".into(),
        ));
    }
    parse_any(&text, file)
}

/// Reads and checks the text of a file of a drone or station.
pub(crate) fn parse(text: &str, file: &Path) -> Result<Config, FileError> {
    end_of(parse_any(text, file)?, file)
}

/// Reads and checks the text of a file of any role.
pub(crate) fn parse_any(text: &str, file: &Path) -> Result<Kind, FileError> {
    toml_keys::read(text, &file.display().to_string(), |root| read(root, file))
}

/// Tells that a file is a drone's or a station's.
pub(crate) fn end_of(kind: Kind, file: &Path) -> Result<Config, FileError> {
    match kind {
        Kind::End(config) => Ok(*config),
        Kind::Relay(_) => {
            let what = "is a relay's file: a drone's or a station's is needed here";
            let file = file.display().to_string();
            Err(FileError { file, mistakes: vec![Mistake::of_file(what)] })
        }
    }
}

/// Reads no more than a configuration can be, whatever the file is.
pub(crate) fn read_text(file: &Path) -> io::Result<Zeroizing<String>> {
    // A private key may be in it: no piece of it is left behind by a buffer that grew.
    let mut text = Zeroizing::new(Vec::with_capacity(LARGEST_FILE as usize + 1));
    std::fs::File::open(file)?.take(LARGEST_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        let what = format!("larger than {LARGEST_FILE} bytes: not a configuration");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let what = "not text in UTF-8: save it so, not as UTF-16 or in an older code page";
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, what);
    String::from_utf8(std::mem::take(&mut *text)).map(Zeroizing::new).map_err(no_text)
}

/// Returns none only after a problem was reported.
fn read(root: &Section<'_>, file: &Path) -> Option<Kind> {
    let roles = [("drone", Some(Role::Drone)), ("station", Some(Role::Station)), ("relay", None)];
    let role = root.choice("role", &roles);
    if role == Some(None) {
        return relay::relay_file(root, file).map(Box::new).map(Kind::Relay);
    }
    if !root.has("role") {
        root.wrong("role", "is missing: write role = \"drone\" or role = \"station\" at the top");
    }
    read_end(root, role.flatten(), file).map(Box::new).map(Kind::End)
}

/// Returns none only after a problem was reported.
fn read_end(root: &Section<'_>, role: Option<Role>, file: &Path) -> Option<Config> {
    let mut warnings = Vec::new();
    let realtime = root.flag("realtime").unwrap_or(false);
    let secret = peers::secret(root, file, &mut warnings);
    let peers = peers::peers(root, secret.as_ref(), file, &mut warnings);
    let mut relays = relay::gateways(root, role, file, &mut warnings);
    let paths = peers::paths(root, role, file, &peers, &relays, &mut warnings);
    let listens = peers::listens(root, role, &mut relays);
    relay::warn_of_unused(&relays.read, &paths, &mut warnings);
    let tunnel = local::tunnel(root, &peers);
    let endpoints = endpoints::read(root, role, &peers);
    let transport = session::read(root);
    let classes = &transport.session.reliability;
    reliability::warn_of_lone_paths(classes, &endpoints, &paths, &peers, &mut warnings);
    let shares = transport.memory / proto::SESSION_SHARE;
    if shares < peers.len() {
        let all = peers.len();
        warnings.push(format!("memory_mib is enough for {shares} of {all} peers: each needs 1"));
    }
    let status = local::status(root, file);
    let log = local::log(root);
    let record = record::read(root);
    if role == Some(Role::Station) {
        let listens = listens.iter().map(|listen| listen.address.ip());
        let inside = tunnel.iter().flat_map(|tunnel| &tunnel.addresses).map(IpNet::addr);
        let own: Vec<_> = listens.chain(inside).filter(|own| !own.is_unspecified()).collect();
        warnings.extend(peers::warnings_of_own(peers.iter().map(|(peer, _)| peer), &own));
    }
    if tunnel.is_some() {
        for (peer, _) in peers.iter().filter(|(peer, _)| peer.allowed.is_empty()) {
            let name = &peer.name;
            warnings.push(format!(
                "peer \"{name}\" has no allowed_addresses: nothing of the tunnel goes to it or comes from it"
            ));
        }
    }
    endpoints::warn_of_strangers(&endpoints, &mut warnings);
    if endpoints.is_empty() && tunnel.is_none() && !peers.is_empty() {
        let sections = "[tunnel], no [[mavlink]], no [[control]] and no [[message]]";
        warnings.push(format!("there is no {sections}: nothing to carry"));
    }
    Some(Config {
        file: file.to_owned(),
        role: role?,
        realtime,
        secret: secret?,
        peers: peers.into_iter().map(|(peer, _)| peer).collect(),
        paths,
        listens,
        relays: relays.read,
        tunnel,
        endpoints,
        transport,
        status,
        log,
        record,
        warnings,
    })
}
