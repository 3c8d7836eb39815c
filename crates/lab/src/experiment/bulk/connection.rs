//! The kernel's TCP connections from drone to station: the same for every scheme, but for the way
//! they take.
//!
//! Buffers are the kernel's own choice, as for any program. They are made, and have carried a byte
//! each way, before the flow begins: a lost SYN shifts nothing, and multipath TCP has its
//! sub-flows.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use sys::byte_stream::{Transport, reset_on_close};
use sys::clock::now;
use sys::tcp_info::tcp_info;
use units::{Duration, Instant, Rng};

use super::flow::Flow;
use crate::scheme::{OtherTunnel, Scheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::daemon::tunnel_address;
use crate::testbed::interruption::{is_asked, sleep_until};
use crate::testbed::kernel_stream::{Dialled, await_subflows, dial, greet, prepare_path_managers};
use crate::testbed::links::{Copy, Side};
use crate::testbed::{command, forwarded, low_rate_retry, wireguard};

/// Port of the first connection's receiver; those of others follow.
const PORT: u16 = 5_900;
/// How often the sender looks whether the flow is over, and asks the kernel for the round-trip
/// time.
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

impl Connection {
    /// Makes connections through what a scheme has set up.
    ///
    /// # Errors
    /// When one does not come about, or has no sub-flow on some link.
    pub(super) fn open(
        scheme: Scheme,
        carrier: &mut Carrier,
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
            greet([&connection.sending, &connection.receiving])?;
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
        carrier: &mut Carrier,
        copy: &Copy<'_>,
        congestion: &str,
        port: u16,
    ) -> Result<Self, String> {
        let (sending, receiving, listener) = match (scheme, carrier.listeners.first()) {
            (Scheme::Tunnel(OtherTunnel::Kcptun), Some(listener)) => {
                let [drone, station] = forwarded::connect(copy, listener, congestion, || Ok(()))?;
                (drone, station, None)
            }
            (Scheme::Command(_), Some(listener)) => {
                let programs = &mut carrier.programs;
                let [drone, station] = command::connect(copy, listener, congestion, programs)?;
                (drone, station, None)
            }
            _ => {
                let (transport, to) = match scheme {
                    Scheme::Session(_) => (Transport::Tcp, tunnel_address(Side::Station)),
                    Scheme::Tunnel(_) | Scheme::Command(_) => {
                        (Transport::Tcp, wireguard::address(Side::Station))
                    }
                    Scheme::TCP_LRR => (Transport::Tcp, low_rate_retry::address(Side::Station)),
                    Scheme::KERNEL_MPTCP => (Transport::Mptcp, copy.address(Side::Station, 0)?),
                    _ => (Transport::Tcp, copy.address(Side::Station, 0)?),
                };
                let Dialled { drone, station, listener } =
                    dial(copy, transport, congestion, (to, port).into())?;
                (drone, station, Some(listener))
            }
        };
        Ok(Self { sending, receiving, _listener: listener })
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

/// Waits for a thread.
pub(super) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Tells whether a socket only has nothing now.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
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
