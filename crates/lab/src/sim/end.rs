//! One end of a scheme in the world: what the applications see, and what the links see.

use netem::{Host, HostTransmit, Scenario};
use std::net::{Ipv4Addr, SocketAddr};
use units::Instant;

use super::Places;
use super::block_end::BlockEnd;
use super::plain_end::PlainEnd;
use super::session_end::SessionEnd;
use crate::lrt::LrtParameters;
use crate::scheme::Scheme;
use crate::workload::Stream;

/// Is one end of a scheme.
pub(super) enum End {
    /// A session of Fulmar under one of its schedulers.
    Session(Box<SessionEnd>),
    /// Plain datagrams.
    Plain(PlainEnd),
    /// Messages in blocks.
    Block(Box<BlockEnd>),
}

impl End {
    /// Makes both ends of a scheme, in the order of the scenario's hosts.
    ///
    /// # Errors
    /// When the scheme needs a real kernel.
    pub(super) fn pair(
        scheme: Scheme,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let [at_station, at_drone] = match scheme {
            Scheme::Fulmar
            | Scheme::FulmarStrict
            | Scheme::FulmarOff
            | Scheme::MinRtt
            | Scheme::RoundRobin
            | Scheme::Redundant => {
                let ends = SessionEnd::pair(scheme, &station, &drone, seed);
                ends.map(|end| Self::Session(Box::new(end)))
            }
            Scheme::Udp => [
                Self::Plain(PlainEnd::new(station[0], drone[0])),
                Self::Plain(PlainEnd::new(drone[0], station[0])),
            ],
            other => return Err(format!("{other} needs a real kernel: run it with --emu")),
        };
        Ok(places.ordered(at_station, at_drone))
    }

    /// Makes both ends of a scheme that carries messages, in the order of the scenario's hosts.
    ///
    /// # Errors
    /// When the scheme does not carry messages in the world.
    pub(super) fn for_messages(
        scheme: Scheme,
        scenario: &Scenario,
        parameters: &LrtParameters,
        seed: u64,
    ) -> Result<Vec<Self>, String> {
        let (places, [station, drone]) = addresses(scenario)?;
        let [at_station, at_drone] = match scheme {
            Scheme::Fulmar | Scheme::Lrt => {
                let ends = SessionEnd::message_pair(scheme, parameters, &station, &drone, seed);
                ends.map(|end| Self::Session(Box::new(end)))
            }
            Scheme::BlockRlnc => {
                let end = |local, remote| {
                    BlockEnd::new(local, remote, parameters).map(|end| Self::Block(Box::new(end)))
                };
                [end(station[0], drone[0])?, end(drone[0], station[0])?]
            }
            Scheme::Udp => return Self::pair(scheme, scenario, seed),
            other => return Err(format!("{other} does not carry messages in the world")),
        };
        Ok(places.ordered(at_station, at_drone))
    }

    /// Tells whether packets may be handed in.
    pub(super) fn ready(&self, now: Instant) -> bool {
        match self {
            Self::Session(end) => end.ready(now),
            Self::Plain(_) | Self::Block(_) => true,
        }
    }

    /// Takes a packet of an application; false when it is refused.
    pub(super) fn send(&mut self, now: Instant, stream: Stream, bytes: &[u8]) -> bool {
        match self {
            Self::Session(end) => end.send(now, stream, bytes),
            Self::Plain(end) => {
                end.send(bytes);
                true
            }
            Self::Block(end) => end.send(now, bytes),
        }
    }

    /// Takes a message of an application; false when the transport pushes back.
    pub(super) fn send_message(&mut self, now: Instant, bytes: &[u8]) -> bool {
        match self {
            Self::Session(end) => end.send_message(now, bytes),
            Self::Plain(_) | Self::Block(_) => self.send(now, Stream::Control, bytes),
        }
    }

    /// Tells whether packets for an application wait.
    pub(super) fn has_delivered(&self) -> bool {
        match self {
            Self::Session(end) => end.has_delivered(),
            Self::Plain(end) => end.has_delivered(),
            Self::Block(end) => end.has_delivered(),
        }
    }

    /// Returns the next packet for an application.
    pub(super) fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Session(end) => end.poll_delivered(),
            Self::Plain(end) => end.poll_delivered(),
            Self::Block(end) => end.poll_delivered(),
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
            Self::Session(end) => {
                end.handle_datagram(now, interface, source, destination, ecn, bytes);
            }
            Self::Plain(end) => end.handle_datagram(bytes),
            Self::Block(end) => end.handle_datagram(now, bytes),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Session(end) => end.handle_timeout(now),
            Self::Plain(_) => {}
            Self::Block(end) => end.handle_timeout(now),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Session(end) => end.timeout(),
            Self::Plain(_) => None,
            Self::Block(end) => end.timeout(),
        }
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        match self {
            Self::Session(end) => end.poll_transmit(now, bytes),
            Self::Plain(end) => end.poll_transmit(bytes),
            Self::Block(end) => end.poll_transmit(bytes),
        }
    }
}

/// Returns the addresses of the station's and of the drone's interfaces.
fn addresses(scenario: &Scenario) -> Result<(Places, [Vec<Ipv4Addr>; 2]), String> {
    let places = Places::of(scenario)?;
    let of = |host| scenario.interfaces(host).iter().map(|interface| interface.address).collect();
    Ok((places, [of(places.station), of(places.drone)]))
}
