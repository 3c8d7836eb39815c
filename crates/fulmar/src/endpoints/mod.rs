//! Local endpoints: the sockets and serial ports that applications use.
//!
//! Bytes that come in go to the session of the endpoint's peer; deliveries of its channel come out.
//! Where a channel is shared, frames also pass from one of its applications to the others.

mod dialer;
mod health;
mod intake;
mod modes;
mod named;
mod radio_status;
mod renumber;
mod seqpacket;
mod serial;
mod share;
mod sources;
mod statustext;
mod tcp;
mod udp;
mod vehicles;
mod waiting;
mod whereabouts;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use proto::select::{Class, MavlinkFrame, MavlinkFrames, StreamLoss};
use proto::{Duration, Instant};
use sys::interfaces::Interface;
use sys::poller::{Poller, Ready};

use crate::awaited::{Awaited, RETRY};
use crate::config::{Content, EndpointConfig, EndpointKind, Remote};
use crate::status::span;
pub(crate) use health::EndpointState;
use health::Health;
use intake::Piece;
use radio_status::RadioStatus;
use renumber::Renumber;
pub(crate) use seqpacket::SEND_BUFFER as MESSAGE_BUFFER;
pub(crate) use share::{Origin, Shared};
pub(crate) use sources::{Program, Sources};
use statustext::StatusText;
pub(crate) use statustext::{LONGEST as LONGEST_TEXT, Severity};
pub(crate) use vehicles::Vehicle;
use waiting::Fates;
pub(crate) use waiting::Passed;
use whereabouts::Whereabouts;

/// A message that the session had no room for is offered again after this time, should the
/// session's word that there is room not come earlier.
const OFFER_AGAIN: Duration = Duration::from_millis(100);

/// A local endpoint with its port.
pub(crate) struct LocalEndpoint {
    pub(crate) config: EndpointConfig,
    pub(crate) counts: Counts,
    health: Health,
    /// A number that no other endpoint has.
    id: u64,
    port: Awaited<Port>,
    /// Where a client of UDP finds a name.
    far: Option<Whereabouts>,
    opened_at: Instant,
    tokens: Tokens,
    radio_status: Option<RadioStatus>,
    status_text: Option<StatusText>,
    renumber: Option<Renumber>,
    held: Option<Held>,
    /// When what waits in a stream is given up.
    streams_due: Option<Instant>,
    /// Frames of this turn that others of the channel are to hear.
    shared: Vec<Shared>,
}

/// A message that waits for room in the session; nothing is read meanwhile.
struct Held {
    message: Vec<u8>,
    came: Instant,
    offer_at: Instant,
}

/// What the session did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the session's business now.
    Yes,
    /// Turned away for good.
    Refused,
    /// It has outlived its time to live already.
    TooOld,
    /// There is no room at the moment.
    Busy,
    /// The peer is not connected.
    NotConnected,
}

/// What has passed, in messages: frames of MAVLink, datagrams otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Taken from applications.
    pub(crate) taken: u64,
    /// Taken, and turned away by the session.
    pub(crate) refused: u64,
    /// Taken, and not passed on: its time to live was over by then.
    pub(crate) read_too_late: u64,
    /// Given to applications; to each of them where they have streams of their own.
    pub(crate) given: u64,
    /// Not given, since its time was over before an application took it, or a newer one had come.
    pub(crate) too_old: u64,
    /// Not given, since no application was there to take it or it did not keep up.
    pub(crate) dropped: u64,
    /// Of MAVLink: frames that were broken, and bytes that belonged to no frame.
    pub(crate) lost: StreamLoss,
    /// Frames that the endpoint's filters kept back, coming in and going out.
    pub(crate) filtered: u64,
    /// Frames that a program passed back, and were not taken, and the source of the last of them.
    pub(crate) came_back: u64,
    pub(crate) came_back_of: (u8, u8),
}

impl Counts {
    /// Counts what did not become the session's business.
    fn on_taken(&mut self, taken: Taken) {
        match taken {
            Taken::Yes => {}
            Taken::TooOld => self.read_too_late += 1,
            Taken::Refused | Taken::Busy | Taken::NotConnected => self.refused += 1,
        }
    }
}

enum Port {
    Udp(udp::UdpPort),
    Tcp(tcp::TcpPort),
    Serial(Box<serial::SerialPort>),
    Seqpacket(seqpacket::SeqpacketPort),
}

/// The tokens under which a port's descriptors are polled: its own and those of its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens(pub(crate) u64);

impl Tokens {
    fn token(self, part: usize) -> u64 {
        self.0 | part as u64
    }
}

impl LocalEndpoint {
    /// Opens the endpoint; `tokens` leaves the lower 16 bits free. What is missing is tried again.
    pub(crate) fn open(
        config: EndpointConfig,
        tokens: Tokens,
        now: Instant,
        poller: &Poller,
    ) -> Self {
        let port = Awaited::new(format!("endpoint {}", config.name));
        let radio_status = radio_status_every(&config).map(|every| RadioStatus::new(every, now));
        let status_text = tells_pilot(&config).then(StatusText::default);
        let renumber = numbers_anew(&config).then(Renumber::default);
        let (counts, shared) = (Counts::default(), Vec::new());
        let (held, streams_due) = (None, None);
        let far = match &config.kind {
            EndpointKind::UdpClient(remote @ Remote::Name(..)) => {
                Some(Whereabouts::new(remote.clone()))
            }
            _ => None,
        };
        let mut local = Self {
            config,
            counts,
            health: Health::new(now),
            id: tokens.0,
            port,
            far,
            opened_at: now,
            tokens,
            radio_status,
            status_text,
            renumber,
            held,
            streams_due,
            shared,
        };
        local.open_port(now, poller);
        local
    }

    /// Opens the port where that is due.
    fn open_port(&mut self, now: Instant, poller: &Poller) {
        let Self { config, tokens, far, .. } = self;
        let open = || {
            if let Some(far) = far {
                return named::open(far, *tokens, now, poller);
            }
            Port::open(&config.kind, *tokens, now, poller).map_err(|error| {
                let is_port =
                    matches!(config.kind, EndpointKind::UdpServer(_) | EndpointKind::TcpServer(_));
                told(&error, is_port)
            })
        };
        if self.port.try_again(now, open) {
            self.opened_at = now;
            // A message still waits for room: nothing is read before it.
            if self.held.is_some() {
                self.set_paused(true, poller);
            }
        }
    }

    /// Follows this host's addresses and routes, by which UDP is heard and sent.
    pub(crate) fn follow(&mut self, interfaces: &[Interface], poller: &Poller) {
        if let Some(Port::Udp(port)) = self.port.get_mut() {
            port.follow(interfaces, poller);
        }
    }

    /// Takes another configuration of the same port, unnoticed by its programs: of another peer or
    /// channel, with other targets or filters. A serial port at another speed is opened again.
    pub(crate) fn adopt(&mut self, now: Instant, config: EndpointConfig, poller: &Poller) {
        match (self.port.get_mut(), &config.kind) {
            (Some(Port::Serial(port)), EndpointKind::Serial(_, line)) => port.set_line(*line, now),
            (Some(Port::Seqpacket(port)), EndpointKind::Seqpacket(path, mode)) => {
                port.set_mode(path, *mode);
            }
            _ => {}
        }
        let every = radio_status_every(&config);
        if every != radio_status_every(&self.config) {
            self.radio_status = every.map(|every| RadioStatus::new(every, now));
        }
        match tells_pilot(&config) {
            true => _ = self.status_text.get_or_insert_default(),
            false => self.status_text = None,
        }
        match numbers_anew(&config) {
            true => _ = self.renumber.get_or_insert_default(),
            false => self.renumber = None,
        }
        if self.config.name != config.name {
            self.counts = Counts::default();
        }
        if self.config.name != config.name || self.config.kind != config.kind {
            self.health = Health::new(now);
        }
        let old = std::mem::replace(&mut self.config, config);
        // What waits for room would go to another stream, or to nobody.
        if self.held.is_some() && old.content != self.config.content {
            self.held = None;
            self.counts.refused += 1;
            self.set_paused(false, poller);
        }
    }

    /// Reads what came in and gives each piece to `take`, with the moment at which it came; that
    /// says what the session did with it. `came` is when it came at the earliest where the kernel
    /// does not tell.
    pub(crate) fn handle_ready(
        &mut self,
        (now, came): (Instant, Instant),
        part: usize,
        ready: Ready,
        poller: &Poller,
        sources: &mut Sources,
        take: &mut dyn FnMut(Instant, &[u8]) -> Taken,
    ) {
        let is_stream = self.mavlink().is_some();
        let Some((port, mut intake)) = self.intake(now, sources, take) else { return };
        match port {
            Port::Udp(port) => {
                let take = &mut |from, at, piece: Piece<'_>| intake.take(from, at, piece);
                port.handle_ready(now, came, is_stream, take);
            }
            Port::Tcp(port) => {
                let origin = Origin::Client(part);
                let take = &mut |frame: &MavlinkFrame<'_>| {
                    intake.take(origin, came, Piece::Frame(frame));
                };
                port.handle_ready(now, part, ready, poller, take);
            }
            Port::Serial(port) => {
                let take = &mut |frame: &MavlinkFrame<'_>| {
                    intake.take(Origin::Only, came, Piece::Frame(frame));
                };
                port.handle_ready(now, ready, take);
            }
            Port::Seqpacket(port) => {
                let take =
                    &mut |at, bytes: &[u8]| intake.take(Origin::Only, at, Piece::Datagram(bytes));
                port.handle_ready(now, came, part, ready, poller, take);
            }
        }
        self.look_at_streams();
        self.health.look(now, &self.counts);
        self.count_fates();
        if self.held.is_some() {
            self.set_paused(true, poller);
        }
    }

    /// Offers the session again what it had no room for, and reads on once it is taken.
    pub(crate) fn offer_held(
        &mut self,
        now: Instant,
        poller: &Poller,
        take: &mut dyn FnMut(Instant, &[u8]) -> Taken,
    ) {
        let Some(held) = &mut self.held else { return };
        let taken = take(held.came, &held.message);
        if taken != Taken::Yes && self.config.waits_for(taken) {
            held.offer_at = now + OFFER_AGAIN;
            return;
        }
        self.counts.on_taken(taken);
        self.held = None;
        self.set_paused(false, poller);
    }

    /// Gives a message to the applications, as far as the endpoint's filter lets it pass. The one
    /// that it is `from`, if any is, is left out.
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        passed: Passed<'_>,
        from: Option<Program>,
        sources: &mut Sources,
        poller: &Poller,
    ) {
        let Passed { class, bytes, expires } = passed;
        if expires.is_some_and(|expires| expires <= now) {
            self.counts.too_old += 1;
            return;
        }
        if let Some(status_text) = &mut self.status_text {
            status_text.on_frames(bytes);
        }
        let filter = self.mavlink().map(|content| &content.filters.outgoing);
        let filter = filter.filter(|filter| !filter.is_open());
        let kept_back = filter.map_or(0, |filter| {
            MavlinkFrames::new(bytes).filter(|frame| !filter.passes(frame)).count()
        });
        self.counts.filtered += kept_back as u64;
        // What a program of this host says has its own numbers in order.
        let is_own = from.is_some_and(|from| from.endpoint == self.id);
        let renumber = self.renumber.as_mut().filter(|_| !is_own);
        let numbered = renumber.map(|renumber| renumber.on_frames(class, bytes, kept_back == 0));
        if kept_back == 0 {
            let bytes = numbered.as_deref().unwrap_or(bytes);
            self.give(now, &Passed { bytes, ..passed }, from, sources, poller);
        }
    }

    fn give(
        &mut self,
        now: Instant,
        passed: &Passed<'_>,
        from: Option<Program>,
        sources: &mut Sources,
        poller: &Poller,
    ) {
        let but = from.filter(|from| from.endpoint == self.id).map(|from| from.origin);
        let given = match self.port.get_mut() {
            Some(Port::Udp(port)) => {
                let given = port.deliver(now, passed.bytes, but, poller);
                self.counts.given += u64::from(given);
                given
            }
            Some(Port::Tcp(port)) => port.deliver(now, passed, but, poller),
            Some(Port::Serial(port)) => but.is_some() || port.deliver(now, passed),
            Some(Port::Seqpacket(port)) => port.deliver(now, passed, poller),
            None => false,
        };
        if given && self.mavlink().is_some() {
            sources.on_given(now, passed.bytes, from);
        }
        // What one application says to the others is not lost where there are none.
        self.counts.dropped += u64::from(!given && but.is_none());
        self.count_fates();
    }

    fn count_fates(&mut self) {
        let fates = match self.port.get_mut() {
            Some(Port::Tcp(port)) => port.take_fates(),
            Some(Port::Serial(port)) => port.take_fates(),
            Some(Port::Seqpacket(port)) => port.take_fates(),
            Some(Port::Udp(_)) | None => Fates::default(),
        };
        self.counts.given += fates.given;
        self.counts.too_old += fates.too_old;
        self.counts.dropped += fates.dropped;
    }

    /// Returns the number that no other endpoint has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Tells in a word which numbers frames have as they are given; nothing of what is not MAVLink.
    pub(crate) fn numbers(&self) -> &'static str {
        match (&self.renumber, self.mavlink()) {
            (Some(renumber), _) if renumber.sees_signatures() => "signed",
            (Some(_), _) => "anew",
            (None, Some(_)) => "as-sent",
            (None, None) => "",
        }
    }

    /// Tells when [`LocalEndpoint::handle_timeout`], or one of those beside it, is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let port = match self.port.get() {
            Some(Port::Serial(port)) => port.timeout(),
            Some(Port::Tcp(port)) => port.timeout(),
            Some(Port::Udp(_) | Port::Seqpacket(_)) => None,
            None => self.port.due(),
        };
        let name = self.far.as_ref().and_then(Whereabouts::timeout);
        let radio_status = self.radio_status.as_ref().and_then(RadioStatus::timeout);
        let held = self.held.as_ref().map(|held| held.offer_at);
        [port, name, radio_status, held, self.streams_due].into_iter().flatten().min()
    }

    /// Opens what was lost, writes what had to wait, and tells the autopilot about the link.
    ///
    /// `queue_free_percent` gives the state of the session's queue; none while it is not connected.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        poller: &Poller,
        sources: &mut Sources,
        queue_free_percent: &mut dyn FnMut() -> Option<u8>,
    ) {
        self.follow_name(now);
        match self.port.get_mut() {
            Some(Port::Serial(port)) => port.handle_timeout(now, poller),
            Some(Port::Tcp(port)) => port.handle_timeout(now, poller),
            Some(Port::Udp(_) | Port::Seqpacket(_)) => {}
            None => self.open_port(now, poller),
        }
        self.count_fates();
        let due = self.radio_status.as_mut().filter(|status| status.timeout() <= Some(now));
        if let Some(frame) = due.and_then(|status| status.frame(now, queue_free_percent)) {
            let passed = Passed::of_host(now, Class::Liveness, &frame);
            self.give(now, &passed, None, sources, poller);
        }
    }

    /// Tells whether its programs can be told something that the pilot should know.
    pub(crate) fn has_pilot(&self) -> bool {
        self.status_text.as_ref().is_some_and(StatusText::knows_vehicle)
    }

    /// Tells its programs something that the pilot should know. It is no message of the peer:
    /// filters, which are for those, do not hold it back.
    pub(crate) fn tell_pilot(
        &mut self,
        now: Instant,
        severity: Severity,
        text: &str,
        sources: &mut Sources,
        poller: &Poller,
    ) {
        let frame = self.status_text.as_mut().and_then(|status| status.frame(severity, text));
        if let Some(frame) = frame {
            let passed = Passed::of_host(now, Class::Liveness, &frame);
            self.give(now, &passed, None, sources, poller);
        }
    }

    /// Says in a few words what the endpoint is, and how many use it.
    pub(crate) fn describe(&self) -> String {
        let what = match &self.config.kind {
            EndpointKind::UdpServer(address) => format!("UDP {address}"),
            EndpointKind::UdpClient(address) => format!("UDP to {address}"),
            EndpointKind::TcpServer(address) => format!("TCP {address}"),
            EndpointKind::TcpClient(address) => format!("TCP to {address}"),
            EndpointKind::Serial(device, _) => device.display().to_string(),
            EndpointKind::Seqpacket(path, _) => format!("SEQPACKET {}", path.display()),
        };
        if !self.is_there() {
            return format!("{what}: does not work");
        }
        match (&self.config.kind, self.port.get()) {
            (EndpointKind::Serial(_, line), _) => format!("{what} at {line}"),
            (EndpointKind::UdpClient(Remote::Name(..)), Some(Port::Udp(port))) => {
                let at = port.remote().map_or(String::new(), |at| format!(" ({at})"));
                format!("{what}{at}")
            }
            (EndpointKind::TcpClient(_), _) => format!("{what}, connected"),
            (EndpointKind::UdpServer(_), Some(Port::Udp(port))) => {
                format!("{what}, {}", clients(port.clients()))
            }
            (_, Some(Port::Tcp(port))) => format!("{what}, {}", clients(port.clients())),
            (_, Some(Port::Seqpacket(port))) => format!("{what}, {}", clients(port.clients())),
            _ => what,
        }
    }

    fn set_paused(&mut self, paused: bool, poller: &Poller) {
        match self.port.get_mut() {
            Some(Port::Udp(port)) => port.set_paused(paused, poller),
            Some(Port::Seqpacket(port)) => port.set_paused(paused, poller),
            // Their contents never wait.
            Some(Port::Tcp(_) | Port::Serial(_)) | None => {}
        }
    }
}

impl Port {
    fn open(
        kind: &EndpointKind,
        tokens: Tokens,
        now: Instant,
        poller: &Poller,
    ) -> io::Result<Self> {
        Ok(match kind {
            EndpointKind::UdpServer(address) => {
                Self::Udp(udp::UdpPort::server(*address, tokens, poller)?)
            }
            EndpointKind::UdpClient(remote) => {
                // Names are looked up first.
                let address = remote.address().ok_or(ErrorKind::InvalidInput)?;
                Self::Udp(udp::UdpPort::client(address, tokens, poller)?)
            }
            EndpointKind::TcpServer(address) => {
                Self::Tcp(tcp::TcpPort::open(*address, tokens, poller)?)
            }
            EndpointKind::TcpClient(remote) => {
                Self::Tcp(tcp::TcpPort::client(remote.clone(), tokens))
            }
            // One that is missing is tried again there.
            EndpointKind::Serial(device, line) => {
                let port = serial::SerialPort::new(device.clone(), *line, tokens, now);
                Self::Serial(Box::new(port))
            }
            EndpointKind::Seqpacket(path, mode) => {
                Self::Seqpacket(seqpacket::SeqpacketPort::open(path, *mode, tokens, poller)?)
            }
        })
    }
}

/// Says why nothing can be sent to an address, if that is so.
pub(crate) fn way_trouble(remote: SocketAddr) -> Option<String> {
    udp::speak_to(remote).err().map(|error| format!("{remote}: {}", told(&error, false)))
}

/// Says why an endpoint, which may wait at a port, does not work, and what to do about it.
fn told(error: &io::Error, is_port: bool) -> String {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => "; another program is there, ss -tulpnx shows which",
        ErrorKind::AddrNotAvailable => "; no interface of this host has that address",
        ErrorKind::PermissionDenied if is_port => "; ports below 1024 need root",
        ErrorKind::NetworkUnreachable => "; ip route shows where this host can send",
        _ => "",
    };
    format!("{error}{hint}")
}

impl EndpointConfig {
    /// Tells whether a message that was not taken for this reason waits, and its writer with it.
    fn waits_for(&self, taken: Taken) -> bool {
        let Content::Message(content) = &self.content else { return false };
        match taken {
            Taken::Busy => !content.rtp,
            // Datagrams would be old when the peer comes; a writer to a stream wants to wait.
            Taken::NotConnected => matches!(self.kind, EndpointKind::Seqpacket(..)),
            Taken::Yes | Taken::Refused | Taken::TooOld => false,
        }
    }
}

fn tells_pilot(config: &EndpointConfig) -> bool {
    matches!(&config.content, Content::Mavlink(content) if content.status_text)
}

fn numbers_anew(config: &EndpointConfig) -> bool {
    matches!(&config.content, Content::Mavlink(content) if content.renumber)
}

fn radio_status_every(config: &EndpointConfig) -> Option<Duration> {
    match &config.content {
        Content::Mavlink(content) => content.radio_status,
        Content::Declared(_) | Content::Message(_) => None,
    }
}

/// Says that what is there takes nothing.
fn takes_nothing(time: Duration) -> String {
    let time = span(time.as_secs_f64());
    format!("has taken nothing for {time}; what grows too old meanwhile is dropped")
}

fn clients(count: usize) -> String {
    match count {
        0 => "no client".into(),
        1 => "1 client".into(),
        more => format!("{more} clients"),
    }
}
