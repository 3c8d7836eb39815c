//! Local endpoints: the sockets and serial ports that applications use.
//!
//! Bytes that come in go to the session of the endpoint's peer; deliveries of its channel come out. Where a
//! channel is shared, frames also pass from one of its applications to the others.

mod intake;
mod radio_status;
mod renumber;
mod seqpacket;
mod serial;
mod share;
mod sources;
mod statustext;
mod tcp;
mod udp;

use std::io;

use proto::select::{Class, MavlinkFrame, MavlinkFrames, StreamLoss};
use proto::{Duration, Instant};
use sys::poller::{Poller, Ready};

use crate::config::{Content, EndpointConfig, EndpointKind};
use intake::Piece;
use radio_status::RadioStatus;
use renumber::Renumber;
pub(crate) use seqpacket::SEND_BUFFER as MESSAGE_BUFFER;
pub(crate) use share::{Origin, Shared};
pub(crate) use sources::{Program, Sources};
use statustext::StatusText;
pub(crate) use statustext::{LONGEST as LONGEST_TEXT, Severity};

/// A device or address that was lost, or is not there yet, is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// A message that the session had no room for is offered again after this time, should the session's word
/// that there is room not come earlier.
const OFFER_AGAIN: Duration = Duration::from_millis(100);

/// A local endpoint with its port.
pub(crate) struct LocalEndpoint {
    pub(crate) config: EndpointConfig,
    pub(crate) counts: Counts,
    /// A number that no other endpoint has.
    id: u64,
    port: Port,
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
    offer_at: Instant,
}

/// What the session did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the session's business now.
    Yes,
    /// Turned away for good.
    Refused,
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
    /// Given to applications.
    pub(crate) given: u64,
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

enum Port {
    Udp(udp::UdpPort),
    Tcp(tcp::TcpPort),
    Serial(serial::SerialPort),
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
    /// Opens the endpoint; `tokens` leaves the lower 16 bits free.
    ///
    /// A serial port that is missing is no error, it is tried again; an address that cannot be
    /// bound is one.
    pub(crate) fn open(
        config: EndpointConfig,
        tokens: Tokens,
        now: Instant,
        poller: &Poller,
    ) -> io::Result<Self> {
        let port = match &config.kind {
            EndpointKind::UdpServer(address) => {
                Port::Udp(udp::UdpPort::server(*address, tokens, poller)?)
            }
            EndpointKind::UdpClient(address) => {
                Port::Udp(udp::UdpPort::client(*address, tokens, now))
            }
            EndpointKind::TcpServer(address) => {
                Port::Tcp(tcp::TcpPort::open(*address, tokens, poller)?)
            }
            EndpointKind::Serial(device, baud) => {
                Port::Serial(serial::SerialPort::new(device.clone(), *baud, tokens, now))
            }
            EndpointKind::Seqpacket(path, mode) => {
                Port::Seqpacket(seqpacket::SeqpacketPort::open(path, *mode, tokens, poller)?)
            }
        };
        let radio_status = radio_status_every(&config).map(|every| RadioStatus::new(every, now));
        let status_text = tells_pilot(&config).then(StatusText::default);
        let renumber = numbers_anew(&config).then(Renumber::default);
        let (counts, shared) = (Counts::default(), Vec::new());
        let (held, streams_due) = (None, None);
        Ok(Self {
            config,
            counts,
            id: tokens.0,
            port,
            radio_status,
            status_text,
            renumber,
            held,
            streams_due,
            shared,
        })
    }

    /// Takes another configuration of the same port, whose programs do not notice: it may be of another peer or
    /// channel, with other targets or filters. A serial port at another speed is opened again.
    pub(crate) fn adopt(&mut self, now: Instant, config: EndpointConfig, poller: &Poller) {
        match (&mut self.port, &config.kind) {
            (Port::Serial(port), EndpointKind::Serial(_, baud)) => port.set_baud(*baud, now),
            (Port::Seqpacket(port), EndpointKind::Seqpacket(path, mode)) => {
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
        let old = std::mem::replace(&mut self.config, config);
        // What waits for room would go to another stream, or to nobody.
        if self.held.is_some() && old.content != self.config.content {
            self.held = None;
            self.counts.refused += 1;
            self.set_paused(false, poller);
        }
    }

    /// Reads what came in and gives each piece to `take`, which says what the session did with it.
    pub(crate) fn handle_ready(
        &mut self,
        now: Instant,
        part: usize,
        ready: Ready,
        poller: &Poller,
        sources: &mut Sources,
        take: &mut dyn FnMut(&[u8]) -> Taken,
    ) {
        let is_stream = self.mavlink().is_some();
        let (port, mut intake) = self.intake(now, sources, take);
        match port {
            Port::Udp(port) => {
                port.handle_ready(now, is_stream, &mut |from, piece| intake.take(from, piece));
            }
            Port::Tcp(port) => {
                let origin = Origin::Client(part);
                let take = &mut |frame: &MavlinkFrame<'_>| {
                    intake.take(origin, Piece::Frame(frame));
                };
                port.handle_ready(now, part, ready, poller, take);
            }
            Port::Serial(port) => {
                let take = &mut |frame: &MavlinkFrame<'_>| {
                    intake.take(Origin::Only, Piece::Frame(frame));
                };
                port.handle_ready(now, ready, take);
            }
            Port::Seqpacket(port) => {
                let take = &mut |bytes: &[u8]| intake.take(Origin::Only, Piece::Datagram(bytes));
                port.handle_ready(part, ready, poller, take);
            }
        }
        self.look_at_streams();
        if self.held.is_some() {
            self.set_paused(true, poller);
        }
    }

    /// Offers the session again what it had no room for, and reads on once it is taken.
    pub(crate) fn offer_held(
        &mut self,
        now: Instant,
        poller: &Poller,
        take: &mut dyn FnMut(&[u8]) -> Taken,
    ) {
        let Some(held) = &mut self.held else { return };
        let taken = take(&held.message);
        if taken != Taken::Yes && self.config.waits_for(taken) {
            held.offer_at = now + OFFER_AGAIN;
            return;
        }
        if taken != Taken::Yes {
            self.counts.refused += 1;
        }
        self.held = None;
        self.set_paused(false, poller);
    }

    /// Gives a message to the applications, as far as the endpoint's filter lets it pass. The one that it is `from`, if any
    /// is, is left out.
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        class: Class,
        bytes: &[u8],
        from: Option<Program>,
        sources: &mut Sources,
        poller: &Poller,
    ) {
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
            self.give(now, class, bytes, from, sources, poller);
        }
    }

    fn give(
        &mut self,
        now: Instant,
        class: Class,
        bytes: &[u8],
        from: Option<Program>,
        sources: &mut Sources,
        poller: &Poller,
    ) {
        let but = from.filter(|from| from.endpoint == self.id).map(|from| from.origin);
        let given = match &mut self.port {
            Port::Udp(port) => port.deliver(now, bytes, but),
            Port::Tcp(port) => port.deliver(bytes, but, poller),
            Port::Serial(port) => but.is_some() || port.deliver(now, class, bytes),
            Port::Seqpacket(port) => port.deliver(bytes, poller),
        };
        if given && self.mavlink().is_some() {
            sources.on_given(now, bytes, from);
        }
        // What one application says to the others is not lost where there are none.
        match (given, but) {
            (true, _) => self.counts.given += 1,
            (false, None) => self.counts.dropped += 1,
            (false, Some(_)) => {}
        }
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
        let port = match &self.port {
            Port::Udp(port) => port.timeout(),
            Port::Tcp(_) | Port::Seqpacket(_) => None,
            Port::Serial(port) => port.timeout(),
        };
        let radio_status = self.radio_status.as_ref().and_then(RadioStatus::timeout);
        let held = self.held.as_ref().map(|held| held.offer_at);
        [port, radio_status, held, self.streams_due].into_iter().flatten().min()
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
        match &mut self.port {
            Port::Udp(port) => port.handle_timeout(now, poller),
            Port::Tcp(_) | Port::Seqpacket(_) => {}
            Port::Serial(port) => port.handle_timeout(now, poller),
        }
        let due = self.radio_status.as_mut().filter(|status| status.timeout() <= Some(now));
        if let Some(frame) = due.and_then(|status| status.frame(now, queue_free_percent)) {
            self.give(now, Class::Liveness, &frame, None, sources, poller);
        }
    }

    /// Tells whether its programs can be told something that the pilot should know.
    pub(crate) fn has_pilot(&self) -> bool {
        self.status_text.as_ref().is_some_and(StatusText::knows_vehicle)
    }

    /// Tells its programs something that the pilot should know. It is no message of the peer: filters, which are
    /// for those, do not hold it back.
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
            self.give(now, Class::Liveness, &frame, None, sources, poller);
        }
    }

    /// Says in a few words what the endpoint is, and how many use it.
    pub(crate) fn describe(&self) -> String {
        match (&self.config.kind, &self.port) {
            (EndpointKind::UdpServer(address), Port::Udp(port)) => {
                format!("UDP {address}, {}", clients(port.clients()))
            }
            (EndpointKind::UdpClient(address), _) => format!("UDP to {address}"),
            (EndpointKind::TcpServer(address), Port::Tcp(port)) => {
                format!("TCP {address}, {}", clients(port.clients()))
            }
            (EndpointKind::Serial(device, baud), Port::Serial(port)) => match port.trouble() {
                None => format!("{} at {baud} baud", device.display()),
                Some(trouble) => format!("{}: {trouble}", device.display()),
            },
            (EndpointKind::Seqpacket(path, _), Port::Seqpacket(port)) => {
                format!("SEQPACKET {}, {}", path.display(), clients(port.clients()))
            }
            _ => String::new(),
        }
    }

    fn set_paused(&mut self, paused: bool, poller: &Poller) {
        match &mut self.port {
            Port::Udp(port) => port.set_paused(paused, poller),
            Port::Seqpacket(port) => port.set_paused(paused, poller),
            // Their contents never wait.
            Port::Tcp(_) | Port::Serial(_) => {}
        }
    }
}

impl EndpointConfig {
    /// Tells whether a message that was not taken for this reason waits, and its writer with it.
    fn waits_for(&self, taken: Taken) -> bool {
        let Content::Message(content) = &self.content else { return false };
        match taken {
            Taken::Busy => !content.rtp,
            // Datagrams would be old when the peer comes; a writer to a stream wants to wait.
            Taken::NotConnected => matches!(self.kind, EndpointKind::Seqpacket(..)),
            Taken::Yes | Taken::Refused => false,
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

fn clients(count: usize) -> String {
    match count {
        0 => "no client".into(),
        1 => "1 client".into(),
        more => format!("{more} clients"),
    }
}
