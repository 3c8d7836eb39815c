//! The kernel's TCP connections from drone to station: the same for every scheme, but for the way they take.
//!
//! Buffers are the kernel's own choice, as for any program. They are made, and have carried a byte each way,
//! before the flow begins: a lost SYN shifts nothing, and multipath TCP has its sub-flows.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use sys::byte_stream::{Transport, connect, listen, reset_on_close};
use sys::clock::now;
use sys::netns::set_parameter;
use sys::tcp_info::tcp_info;
use units::{Duration, Instant, Rng};

use super::flow::Flow;
use crate::scheme::{OtherTunnel, Scheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::daemon::tunnel_address;
use crate::testbed::interruption::{is_asked, sleep_until};
use crate::testbed::kernel_stream::{await_subflows, counter, prepare_path_managers};
use crate::testbed::links::{Copy, Side};
use crate::testbed::{kcptun, wireguard};

/// Port of the first connection's receiver; those of others follow.
const PORT: u16 = 5_900;
/// How long the connection may take: several SYNs.
const CONNECT: Duration = Duration::from_secs(20);
/// How often the sender looks whether the flow is over, and asks the kernel for the round-trip time.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// What is written at once.
const CHUNK: usize = 1 << 16;

/// A connection that waits for the flow to begin.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sending: TcpStream,
    pub(super) receiving: TcpStream,
    /// Open for sub-flows that join again after an outage.
    _listener: Option<TcpListener>,
}

/// A flow under way.
#[derive(Debug)]
pub(super) struct Running {
    sender: JoinHandle<io::Result<Vec<f64>>>,
    receiver: JoinHandle<io::Result<Flow>>,
    _listener: Option<TcpListener>,
}

/// What the kernel counted of TCP in one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
}

impl Connection {
    /// Makes connections through what a scheme has set up.
    ///
    /// # Errors
    /// When one does not come about, or has no sub-flow on some link.
    pub(super) fn open(
        scheme: Scheme,
        carrier: &Carrier,
        copy: &Copy<'_>,
        congestion: &str,
        count: usize,
    ) -> Result<Vec<Self>, String> {
        if scheme == Scheme::KERNEL_MPTCP {
            prepare_path_managers(copy)?;
        }
        let mut connections = Vec::new();
        for port in (PORT..).take(count) {
            let connection = Self::connect(scheme, carrier, copy, congestion, port)?;
            connection.greet().map_err(|error| format!("a first byte each way: {error}"))?;
            connections.push(connection);
        }
        if scheme == Scheme::KERNEL_MPTCP {
            await_subflows(copy, count)?;
        }
        Ok(connections)
    }

    /// Starts the flow, which lasts from `start` for `seconds`.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(super) fn begin(self, start: Instant, seconds: f64) -> io::Result<Running> {
        let Self { sending, receiving, _listener } = self;
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let receiver = spawn("receive bulk").spawn(move || receive(receiving, start, seconds))?;
        let end = start + Duration::from_secs_f64(seconds);
        let sender = spawn("send bulk").spawn(move || send(sending, start, end))?;
        Ok(Running { sender, receiver, _listener })
    }

    fn connect(
        scheme: Scheme,
        carrier: &Carrier,
        copy: &Copy<'_>,
        congestion: &str,
        port: u16,
    ) -> Result<Self, String> {
        let (sending, receiving, listener) = match (scheme, carrier.listeners.first()) {
            (Scheme::Tunnel(OtherTunnel::Kcptun), Some(listener)) => {
                let [drone, station] = kcptun::connect(copy, listener, congestion)?;
                (drone, station, None)
            }
            _ => {
                let (transport, to) = match scheme {
                    Scheme::Session(_) => (Transport::Tcp, tunnel_address(Side::Station)),
                    Scheme::Tunnel(_) => (Transport::Tcp, wireguard::address(Side::Station)),
                    Scheme::KERNEL_MPTCP => (Transport::Mptcp, copy.address(Side::Station, 0)?),
                    _ => (Transport::Tcp, copy.address(Side::Station, 0)?),
                };
                direct(copy, transport, congestion, (to, port).into())?
            }
        };
        Ok(Self { sending, receiving, _listener: listener })
    }

    /// Lets a byte go each way.
    fn greet(&self) -> io::Result<()> {
        for (mut from, mut to) in
            [(&self.sending, &self.receiving), (&self.receiving, &self.sending)]
        {
            to.set_read_timeout(Some(CONNECT.into()))?;
            from.write_all(&[1])?;
            to.read_exact(&mut [0])?;
        }
        Ok(())
    }
}

impl Running {
    /// Waits for the flow's end.
    ///
    /// # Errors
    /// When the connection broke.
    pub(super) fn finish(self) -> io::Result<Flow> {
        let srtt_ms = join(self.sender)?;
        let mut flow = join(self.receiver)?;
        flow.srtt_ms = srtt_ms;
        Ok(flow)
    }
}

impl Counters {
    /// Reads those of the drone's host, in which there is no TCP but the flow's, and that of requests.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(super) fn read(copy: &Copy<'_>) -> Result<Self, String> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let (snmp, netstat) = copy.enter(Side::Drone, || Ok((read("snmp")?, read("netstat")?)))?;
        let missing = || "the kernel tells no counters of TCP".to_owned();
        let retransmits = counter(&snmp, "Tcp:", "RetransSegs").ok_or_else(missing)?;
        let timeouts = counter(&netstat, "TcpExt:", "TCPTimeouts").ok_or_else(missing)?;
        Ok(Self { retransmits, timeouts })
    }
}

/// Waits for a thread.
pub(super) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Tells whether a socket only has nothing now.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Connects from the drone to an address of the station's.
fn direct(
    copy: &Copy<'_>,
    transport: Transport,
    congestion: &str,
    to: SocketAddr,
) -> Result<(TcpStream, TcpStream, Option<TcpListener>), String> {
    // Sub-flows come to other addresses of the station: it listens at all of them.
    let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, to.port()));
    let listener = copy.enter(Side::Station, || listen(transport, congestion, anywhere))?;
    let sending = copy.enter(Side::Drone, || {
        // What an earlier connection learnt about the way is not to help or harm.
        set_parameter("net/ipv4/tcp_no_metrics_save", "1")?;
        connect(transport, congestion, to, CONNECT.into())
    })?;
    let (receiving, _) = listener.accept().map_err(|error| format!("accept: {error}"))?;
    Ok((sending, receiving, Some(listener)))
}

/// Writes without pause; returns the round-trip times that the kernel told, milliseconds.
fn send(mut stream: TcpStream, start: Instant, end: Instant) -> io::Result<Vec<f64>> {
    // Bytes that nobody can make fewer.
    let mut rng = Rng::stream(1, "bulk payload");
    let bytes: Vec<u8> = (0..CHUNK).map(|_| rng.below(256) as u8).collect();
    stream.set_write_timeout(Some(LOOK.into()))?;
    reset_on_close(&stream)?;
    let (mut samples, mut next_sample) = (Vec::new(), start + LOOK);
    // An interruption is noticed below.
    let _ = sleep_until(start);
    while now() < end && !is_asked() {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            // The receiver has counted to the end and is gone.
            Err(_) if now() >= end => break,
            Err(error) => return Err(error),
        }
        if now() >= next_sample {
            samples.push(tcp_info(&stream)?.srtt.as_secs_f64() * 1e3);
            next_sample = now() + LOOK;
        }
    }
    Ok(samples)
}

/// Counts what arrives until the flow is over.
fn receive(mut stream: TcpStream, start: Instant, seconds: f64) -> io::Result<Flow> {
    let mut flow = Flow::new(seconds);
    let mut bytes = vec![0; 1 << 18];
    stream.set_read_timeout(Some(LOOK.into()))?;
    let end = start + Duration::from_secs_f64(seconds);
    while now() < end && !is_asked() {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => flow.on_delivered(now().since(start).as_secs_f64(), length),
            Err(error) if is_passing(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(flow)
}
