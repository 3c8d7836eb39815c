//! Local endpoints: the sockets and serial ports that applications use.
//!
//! Bytes that come in go to the session of the endpoint's peer, deliveries of its channel come
//! out. Nothing here passes traffic from one local endpoint to another: that is a router's job.

mod radio_status;
mod serial;
mod tcp;
mod udp;

use std::io;

use proto::select::Class;
use proto::{Duration, Instant};
use sys::poller::{Poller, Ready};

use crate::config::{Content, EndpointConfig, EndpointKind};
use radio_status::RadioStatus;

/// A device or address that was lost, or is not there yet, is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// A local endpoint with its port.
pub(crate) struct LocalEndpoint {
    pub(crate) config: EndpointConfig,
    pub(crate) counts: Counts,
    port: Port,
    radio_status: Option<RadioStatus>,
}

/// What has passed, in messages: datagrams, or chunks of a stream.
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
}

enum Port {
    Udp(udp::UdpPort),
    Tcp(tcp::TcpPort),
    Serial(serial::SerialPort),
}

/// Makes the token under which a port's descriptors are polled: its own and those of its clients.
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
        };
        let radio_status = match config.content {
            Content::Mavlink { radio_status } => {
                radio_status.map(|every| RadioStatus::new(every, now))
            }
            Content::Told(_) => None,
        };
        Ok(Self { config, counts: Counts::default(), port, radio_status })
    }

    /// Reads what came in and gives each piece to `take`, which says whether the session took it.
    pub(crate) fn handle_ready(
        &mut self,
        now: Instant,
        part: usize,
        ready: Ready,
        poller: &Poller,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        let Self { counts, port, radio_status, .. } = self;
        let mut take = |bytes: &[u8]| {
            counts.taken += 1;
            if let Some(radio_status) = radio_status {
                radio_status.on_input(bytes);
            }
            if !take(bytes) {
                counts.refused += 1;
            }
        };
        match port {
            Port::Udp(port) => port.handle_ready(now, &mut take),
            Port::Tcp(port) => port.handle_ready(now, part, ready, poller, &mut take),
            Port::Serial(port) => port.handle_ready(now, ready, &mut take),
        }
    }

    /// Gives a message to the applications.
    pub(crate) fn deliver(&mut self, now: Instant, class: Class, bytes: &[u8], poller: &Poller) {
        let given = match &mut self.port {
            Port::Udp(port) => port.deliver(now, bytes),
            Port::Tcp(port) => port.deliver(bytes, poller),
            Port::Serial(port) => port.deliver(now, class, bytes),
        };
        if given { self.counts.given += 1 } else { self.counts.dropped += 1 }
    }

    /// Tells when [`LocalEndpoint::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let port = match &self.port {
            Port::Udp(port) => port.timeout(),
            Port::Tcp(_) => None,
            Port::Serial(port) => port.timeout(),
        };
        let radio_status = self.radio_status.as_ref().and_then(RadioStatus::timeout);
        [port, radio_status].into_iter().flatten().min()
    }

    /// Opens again what was lost, writes what had to wait, and tells the autopilot about the link.
    ///
    /// `queue_free_percent` gives the state of the session's queue; none while it is not connected.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        poller: &Poller,
        queue_free_percent: &mut dyn FnMut() -> Option<u8>,
    ) {
        match &mut self.port {
            Port::Udp(port) => port.handle_timeout(now, poller),
            Port::Tcp(_) => {}
            Port::Serial(port) => port.handle_timeout(now, poller),
        }
        let due = self.radio_status.as_mut().filter(|status| status.timeout() <= Some(now));
        if let Some(frame) = due.and_then(|status| status.frame(now, queue_free_percent)) {
            self.deliver(now, Class::Liveness, &frame, poller);
        }
    }

    /// Says in a few words what the endpoint is and who uses it.
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
            _ => String::new(),
        }
    }
}

fn clients(count: usize) -> String {
    match count {
        0 => "no client".into(),
        1 => "1 client".into(),
        more => format!("{more} clients"),
    }
}
