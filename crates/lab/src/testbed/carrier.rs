//! A scheme on its copy of the links: what carries the streams, and the sockets at its ends.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use sys::clock::now;
use units::Duration;

use super::Stream;
use super::channel::stream as stream_channel;
use super::channel::{Channel, datagrams};
use super::command;
use super::daemon::Daemons;
use super::interruption;
use super::links::{Copy, Side};
use super::program::Programs;
use super::{forwarded, kcptun, kernel_stream, tcp_copies, wireguard};
use crate::scheme::{Carries, CommandScheme, KernelTransport, OtherTunnel, Scheme, SessionScheme};

/// First port of the measured streams; none that the packet selector looks into.
const PORT: u16 = 5_600;
/// First port of the applications that speak to a daemon's local endpoints.
const APPLICATION_PORT: u16 = 5_700;

/// How long a daemon may take to make its tunnel.
const TUNNEL_PATIENCE: Duration = Duration::from_secs(10);

/// Carries the streams of a run by one scheme.
pub(crate) struct Carrier {
    /// The sockets of the applications.
    pub(crate) channels: BTreeMap<(Side, Stream), Channel>,
    /// The daemons, where the scheme has any; they end when this is dropped.
    pub(crate) daemons: Option<Daemons>,
    /// The programs of others; they end when this is dropped.
    pub(crate) programs: Programs,
    /// What waits for further sub-flows of the kernel, or connections that a tunnel makes.
    pub(crate) listeners: Vec<TcpListener>,
}

impl Carrier {
    /// Starts what the scheme needs and opens a channel for each stream.
    ///
    /// # Errors
    /// Says what could not be started, or that the scheme does not exist in real time.
    pub(crate) fn start(
        scheme: Scheme,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        match scheme {
            Scheme::Session(SessionScheme::Lrt) => {
                Err(format!("{scheme} carries messages alone: fulmar-lab run lrt-tcp"))
            }
            Scheme::Session(session) => Self::through_daemons(session, copy, streams),
            Scheme::Kernel(transport) => Self::over_kernel(transport, copy, streams),
            Scheme::Tunnel(tunnel) => Self::through_other(tunnel, copy, streams),
            Scheme::Command(scheme) => Self::through_command(scheme, copy, streams),
            Scheme::Congestion(_) => {
                Err(format!("{scheme} carries one flow: fulmar-lab run asran-loss"))
            }
            Scheme::Yardstick(_) => Err(format!("{scheme} exists in the world only: use --sim")),
        }
    }

    /// Waits until the scheme uses every link that it can use; comes after the greetings.
    ///
    /// # Errors
    /// When some link stays unused.
    pub(crate) fn await_paths(&self, scheme: Scheme, copy: &Copy<'_>) -> Result<(), String> {
        if ![Scheme::KERNEL_MPTCP, Scheme::KERNEL_MPTCP_BBR].contains(&scheme) {
            return Ok(());
        }
        let connections = self.channels.keys().filter(|(side, _)| *side == Side::Drone);
        kernel_stream::await_subflows(copy, connections.count())
    }

    fn through_daemons(
        scheme: SessionScheme,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        let daemons = Daemons::start(scheme, copy)?;
        let channels =
            open(copy, streams, |side, stream| Ok(daemon_addresses(scheme, side, stream)))?;
        Ok(Self { daemons: Some(daemons), ..Self::of(channels) })
    }

    fn over_kernel(
        transport: KernelTransport,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        let (channels, listeners) = match transport.connection() {
            Some((_, congestion)) if transport == KernelTransport::ConcloneTcp => {
                tcp_copies::connect(copy, streams, congestion, PORT)?
            }
            Some(connection) => kernel_stream::connect(connection, copy, streams, port)?,
            None => {
                let channels = open(copy, streams, |side, stream| {
                    let at =
                        |side| copy.address(side, 0).map(|address| (address, port(stream)).into());
                    Ok((at(side)?, at(side.other())?))
                })?;
                (channels, Vec::new())
            }
        };
        Ok(Self { listeners, ..Self::of(channels) })
    }

    fn through_other(
        tunnel: OtherTunnel,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        if tunnel == OtherTunnel::WireguardGo {
            let programs = wireguard::start(copy)?.into();
            let channels = open(copy, streams, tunnelled)?;
            return Ok(Self { programs, ..Self::of(channels) });
        }
        let (programs, listener) = kcptun::start(copy)?;
        let channels =
            connected(streams, || forwarded::connect(copy, &listener, "cubic", || Ok(())))?;
        Ok(Self { programs: programs.into(), listeners: vec![listener], ..Self::of(channels) })
    }

    /// Starts somebody's own programs; where they fail that is noted with the scheme, and the
    /// channels lead nowhere.
    fn through_command(
        scheme: CommandScheme,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        let started = match scheme.has_failed() {
            true => Err(String::new()),
            false => Self::start_command(scheme, copy, streams),
        };
        interruption::check()?;
        started.or_else(|why| {
            scheme.fail(why);
            let programs = Programs::of_scheme(scheme, Vec::new());
            Ok(Self { programs, ..Self::of(command::nowhere(copy, streams)?) })
        })
    }

    fn start_command(
        scheme: CommandScheme,
        copy: &Copy<'_>,
        streams: &[Stream],
    ) -> Result<Self, String> {
        match scheme.carries() {
            Carries::Datagrams => {
                let mut channels = BTreeMap::new();
                for side in Side::BOTH {
                    for stream in streams {
                        let channel = command::channel(scheme, copy, side, *stream)?;
                        channels.insert((side, *stream), channel);
                    }
                }
                let programs = command::start(scheme, copy, streams)?;
                Ok(Self { programs, ..Self::of(channels) })
            }
            Carries::Connections => {
                let listener = forwarded::listen(copy)?;
                let mut programs = command::start(scheme, copy, streams)?;
                let channels = connected(streams, || {
                    command::connect(copy, &listener, "cubic", &mut programs)
                })?;
                Ok(Self { programs, listeners: vec![listener], ..Self::of(channels) })
            }
            Carries::Tunnel => {
                let programs = command::start(scheme, copy, streams)?;
                let channels =
                    open(copy, streams, tunnelled).map_err(|why| programs.with_last_words(why))?;
                Ok(Self { programs, ..Self::of(channels) })
            }
        }
    }

    fn of(channels: BTreeMap<(Side, Stream), Channel>) -> Self {
        let (programs, listeners) = (Programs::default(), Vec::new());
        Self { channels, daemons: None, programs, listeners }
    }
}

/// Returns the port of a stream.
fn port(stream: Stream) -> u16 {
    PORT + stream as u16
}

/// Returns where an application binds, and whom it talks to, in a tunnel of others.
fn tunnelled(side: Side, stream: Stream) -> Result<(SocketAddr, SocketAddr), String> {
    let at = |side| (wireguard::address(side), port(stream)).into();
    Ok((at(side), at(side.other())))
}

/// Makes a connection for each stream, whose packets go through it one behind the other.
fn connected(
    streams: &[Stream],
    mut connect: impl FnMut() -> Result<[TcpStream; 2], String>,
) -> Result<BTreeMap<(Side, Stream), Channel>, String> {
    let mut channels = BTreeMap::new();
    for stream in streams {
        for (side, socket) in [Side::Drone, Side::Station].into_iter().zip(connect()?) {
            let channel = stream_channel(socket).map_err(|error| error.to_string())?;
            channels.insert((side, *stream), channel);
        }
    }
    Ok(channels)
}

/// Returns where an application binds, and whom it talks to, beside a daemon.
fn daemon_addresses(scheme: SessionScheme, side: Side, stream: Stream) -> (SocketAddr, SocketAddr) {
    let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let through_tunnel = |side| (super::daemon::tunnel_address(side), port(stream)).into();
    let application = APPLICATION_PORT + stream as u16;
    match (scheme, stream) {
        // Replicate-everything tools tell nothing apart: everything goes through the tunnel.
        (SessionScheme::Redundant, _) | (_, Stream::Video | Stream::Datagrams | Stream::Ping) => {
            (through_tunnel(side), through_tunnel(side.other()))
        }
        (_, Stream::Control) => (local(application), local(super::daemon::DECLARED_PORT)),
        (_, Stream::Live) => (local(application), local(super::daemon::LIVE_PORT)),
        (_, Stream::Mavlink) => (local(application), local(super::daemon::MAVLINK_PORT)),
        (_, Stream::Messages) => (local(application), local(super::daemon::MESSAGES_PORT)),
        (_, Stream::Telemetry) => (local(application), local(super::daemon::TELEMETRY_PORT)),
    }
}

/// Opens datagram channels for each stream at both sides.
fn open(
    copy: &Copy<'_>,
    streams: &[Stream],
    addresses: impl Fn(Side, Stream) -> Result<(SocketAddr, SocketAddr), String>,
) -> Result<BTreeMap<(Side, Stream), Channel>, String> {
    let mut channels = BTreeMap::new();
    for side in Side::BOTH {
        for stream in streams {
            let (local, remote) = addresses(side, *stream)?;
            let channel = copy.enter(side, || open_patiently(local, remote))?;
            channels.insert((side, *stream), channel);
        }
    }
    Ok(channels)
}

/// Opens a datagram channel; a tunnel that a daemon is about to make is awaited.
fn open_patiently(local: SocketAddr, remote: SocketAddr) -> io::Result<Channel> {
    let started = now();
    loop {
        match datagrams(local, remote) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrNotAvailable
                    && now().since(started) < TUNNEL_PATIENCE =>
            {
                thread::sleep(Duration::from_millis(50).into());
            }
            result => return result,
        }
    }
}
