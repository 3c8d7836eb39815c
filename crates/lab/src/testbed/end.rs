//! One end of a scheme in the world: what the applications see, and what the links see.

use std::net::{Ipv4Addr, SocketAddr};

use netem::{Host, HostTransmit, Scenario};
use proto::{MessageStream, PathUse, SessionConfig, SessionStatus, Source};
use units::{Duration, Instant};
use world::{DatagramHost, SessionHost};

use super::Stream;
use super::block_end::{BlockEnd, BlockPlan};
use super::tcp_copies::CopiesEnd;
use super::world::Places;
use crate::scheme::{DECLARED, KernelTransport, Scheme, SessionScheme};

/// One end of a scheme.
pub(crate) enum End {
    /// A session of Fulmar, and where the streams enter it.
    Session(Box<SessionHost>, SessionScheme),
    /// Plain datagrams.
    Plain(DatagramHost),
    /// Messages in blocks.
    Block(Box<BlockEnd>),
    /// A TCP connection for each link.
    Copies(CopiesEnd),
}

impl End {
    /// Makes both ends of a scheme, in the order of the scenario's hosts.
    ///
    /// # Errors
    /// When the scheme needs a real kernel.
    pub(crate) fn pair(
        scheme: Scheme,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let [at_station, at_drone] = match scheme {
            Scheme::Kernel(KernelTransport::Udp) => [
                Self::Plain(DatagramHost::new(station[0], drone[0])),
                Self::Plain(DatagramHost::new(drone[0], station[0])),
            ],
            // Coders of the paper's size carry messages alone.
            Scheme::Session(scheme)
                if scheme != SessionScheme::Lrt && scheme.carried().is_none() =>
            {
                Self::sessions(scheme, &scheme.config(), [&station, &drone], seed)
            }
            _ => return Err(format!("{scheme} needs a real kernel: run it with --emu")),
        };
        Ok(places.ordered(at_station, at_drone))
    }

    /// Makes both ends of a session with a configuration of its own, in the order of the scenario's
    /// hosts.
    ///
    /// # Errors
    /// When the scenario lacks the hosts.
    pub(crate) fn session_pair(
        scheme: SessionScheme,
        config: &SessionConfig,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let [at_station, at_drone] = Self::sessions(scheme, config, [&station, &drone], seed);
        Ok(places.ordered(at_station, at_drone))
    }

    /// Makes both ends of connections over every link, in the order of the scenario's hosts; their
    /// timeout is at least `rto_min` above the smoothed round trip.
    ///
    /// # Errors
    /// When the scenario lacks the hosts.
    pub(crate) fn copies_pair(scenario: &Scenario, rto_min: Duration) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let [at_station, at_drone] = CopiesEnd::pair([&station, &drone], rto_min).map(Self::Copies);
        Ok(places.ordered(at_station, at_drone))
    }

    /// Makes both ends of a code by blocks, in the order of the scenario's hosts.
    ///
    /// # Errors
    /// When the scenario lacks the hosts, or there is no code for symbols of this size.
    pub(crate) fn block_pair(plan: BlockPlan, scenario: &Scenario) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let end = |local, remote| {
            BlockEnd::new(local, remote, plan).map(|end| Self::Block(Box::new(end)))
        };
        Ok(places.ordered(end(station[0], drone[0])?, end(drone[0], station[0])?))
    }

    /// Makes both ends of a session.
    fn sessions(
        scheme: SessionScheme,
        config: &SessionConfig,
        [station, drone]: [&[Ipv4Addr]; 2],
        seed: u64,
    ) -> [Self; 2] {
        let mut hosts = SessionHost::pair(config, station, drone, seed);
        for link in (0..drone.len()).filter(|link| scheme.is_backup(*link)) {
            let usage = PathUse { backup: true, ..PathUse::default() };
            hosts[1].use_path(netem::CLOCK_ORIGIN, link as u8, usage);
        }
        hosts.map(|host| Self::Session(Box::new(host), scheme))
    }

    /// Tells whether packets may be handed in.
    pub(crate) fn ready(&self, now: Instant) -> bool {
        match self {
            Self::Session(end, _) => end.ready(now),
            Self::Copies(end) => end.ready(),
            Self::Plain(_) | Self::Block(_) => true,
        }
    }

    /// Returns what the session says of itself; none where there is none.
    pub(crate) fn status(&self, now: Instant) -> Option<SessionStatus> {
        match self {
            Self::Session(end, _) => end.status(now),
            Self::Plain(_) | Self::Block(_) | Self::Copies(_) => None,
        }
    }

    /// Says how a path is to be used, at the drone's end of a session.
    pub(crate) fn use_path(&mut self, now: Instant, link: u8, usage: PathUse) {
        if let Self::Session(end, _) = self {
            end.use_path(now, link, usage);
        }
    }

    /// Takes a packet of an application; false when it is refused.
    pub(crate) fn send(&mut self, now: Instant, stream: Stream, bytes: &[u8]) -> bool {
        match self {
            Self::Session(end, scheme) => end.send(now, scheme.source(stream), bytes),
            Self::Plain(end) => {
                end.send(bytes);
                true
            }
            Self::Block(end) => end.send(now, bytes),
            Self::Copies(end) => end.send(stream, bytes),
        }
    }

    /// Takes a message of an application; false when the transport pushes back.
    pub(crate) fn send_message(&mut self, now: Instant, bytes: &[u8]) -> bool {
        match self {
            Self::Session(end, _) => {
                let stream = MessageStream::default();
                end.send(now, Source::Message { channel: DECLARED, stream }, bytes)
            }
            Self::Plain(_) | Self::Block(_) | Self::Copies(_) => {
                self.send(now, Stream::Control, bytes)
            }
        }
    }

    /// Tells whether packets for an application wait.
    pub(crate) fn has_delivered(&self) -> bool {
        match self {
            Self::Session(end, _) => end.has_delivered(),
            Self::Plain(end) => end.has_delivered(),
            Self::Block(end) => end.has_delivered(),
            Self::Copies(end) => end.has_delivered(),
        }
    }

    /// Returns the next packet for an application.
    pub(crate) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Session(end, _) => end.poll_delivered(),
            Self::Plain(end) => end.poll_delivered(),
            Self::Block(end) => end.poll_delivered(),
            Self::Copies(end) => end.poll_delivered(),
        }
    }
}

impl Host for End {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    ) {
        match self {
            Self::Session(end, _) => {
                end.handle_datagram(now, interface, source, destination, ecn, bytes);
            }
            Self::Plain(end) => {
                end.handle_datagram(now, interface, source, destination, ecn, bytes);
            }
            Self::Block(end) => end.handle_datagram(now, bytes),
            Self::Copies(end) => end.handle_datagram(now, interface, bytes),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Session(end, _) => end.handle_timeout(now),
            Self::Plain(_) => {}
            Self::Block(end) => end.handle_timeout(now),
            Self::Copies(end) => end.handle_timeout(now),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Session(end, _) => end.timeout(),
            Self::Plain(_) => None,
            Self::Block(end) => end.timeout(),
            Self::Copies(end) => end.timeout(),
        }
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        match self {
            Self::Session(end, _) => end.poll_transmit(now, bytes),
            Self::Plain(end) => end.poll_transmit(now, bytes),
            Self::Block(end) => end.poll_transmit(bytes),
            Self::Copies(end) => end.poll_transmit(now, bytes),
        }
    }
}

/// Returns the addresses of the station's and of the drone's interfaces.
fn addresses(scenario: &Scenario) -> Result<(Places, [Vec<Ipv4Addr>; 2]), String> {
    let places = Places::of(scenario)?;
    let of = |host| scenario.interfaces(host).iter().map(|interface| interface.address).collect();
    Ok((places, [of(places.station), of(places.drone)]))
}
