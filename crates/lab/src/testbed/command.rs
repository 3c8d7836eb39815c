//! Somebody's own programs between the two hosts (`scheme/command.rs`), and the sockets of the
//! applications beside them.
//!
//! ```text
//! datagrams     application ─► 127.0.0.1:{udp_in}, program ═ links ═ program, 127.0.0.1:{udp_out} ─► application
//!               a command that names either is started for each stream, whose ports these are
//! connections   drone's application ─► 127.0.0.1:{tcp_in} … 127.0.0.1:{tcp_out} ─► station's application
//! tunnel        the applications' sockets are at {tunnel} of their side: nothing else is special
//! ```
//! What fails is noted with the scheme, whose channels then lead nowhere: the others' run goes on,
//! and its rows say why they have no figures.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use units::Duration;

use super::channel::{Channel, Inlet, LOOK, Outlet};
use super::forwarded::{self, ENTRY, TARGET};
use super::links::{Copy, Side};
use super::program::{Program, Programs};
use super::{Stream, wireguard};
use crate::scheme::{CommandScheme, SchemeCommand, link_of};

/// The first ports on the links; each stream has one of both.
const PORT: u16 = 29_000;
const SECOND_PORT: u16 = 29_100;
/// The first port at which a program takes datagrams.
const UDP_IN: u16 = 6_000;
/// The first port at which an application awaits them.
const UDP_OUT: u16 = 6_100;
/// What fails within this could not begin.
const AT_ONCE: Duration = Duration::from_millis(500);

/// An application's socket: it sends to a program's port or, where the program has none for that,
/// to where the last datagram came from.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    socket: UdpSocket,
    to: Option<SocketAddr>,
    heard: Mutex<Option<SocketAddr>>,
}

impl LocalSocket {
    /// Sends a datagram; false where nobody takes it.
    pub(super) fn send(&self, bytes: &[u8]) -> bool {
        let heard = || *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let to = self.to.or_else(heard);
        to.is_some_and(|to| self.socket.send_to(bytes, to).is_ok())
    }

    /// Waits a little for a datagram.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let (len, from) = self.socket.recv_from(bytes)?;
        if self.to.is_none() {
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
        }
        Ok(len)
    }
}

/// Opens an application's channel for a stream of datagrams.
///
/// # Errors
/// When its port is taken.
pub(super) fn channel(
    scheme: CommandScheme,
    copy: &Copy<'_>,
    side: Side,
    stream: Stream,
) -> Result<Channel, String> {
    let local = |first: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, first + stream as u16));
    let takes = scheme.commands(side).any(|command| command.names("udp_in"));
    let socket = copy.enter(side, || {
        let socket = UdpSocket::bind(local(UDP_OUT))?;
        socket.set_read_timeout(Some(LOOK.into()))?;
        Ok(socket)
    })?;
    let to = takes.then(|| local(UDP_IN));
    let socket = Arc::new(LocalSocket { socket, to, heard: Mutex::default() });
    Ok((Outlet::Local(Arc::clone(&socket)), Inlet::Local(socket)))
}

/// Opens channels that lead nowhere, for a scheme that has failed.
///
/// # Errors
/// When the machine gives no socket.
pub(super) fn nowhere(
    copy: &Copy<'_>,
    streams: &[Stream],
) -> Result<BTreeMap<(Side, Stream), Channel>, String> {
    let mut channels = BTreeMap::new();
    for side in Side::BOTH {
        for stream in streams {
            let socket = copy.enter(side, || {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.set_read_timeout(Some(LOOK.into()))?;
                Ok(socket)
            })?;
            let socket = Arc::new(LocalSocket { socket, to: None, heard: Mutex::default() });
            let channel = (Outlet::Local(Arc::clone(&socket)), Inlet::Local(socket));
            channels.insert((side, *stream), channel);
        }
    }
    Ok(channels)
}

/// Starts the commands of both hosts; those that name a port of a stream, for each stream.
///
/// # Errors
/// Names a placeholder that nothing is known for, or the command that ended at once.
pub(super) fn start(
    scheme: CommandScheme,
    copy: &Copy<'_>,
    streams: &[Stream],
) -> Result<Programs, String> {
    let mut programs = Vec::new();
    // What listens is mostly at the station, and started first.
    for side in Side::BOTH {
        for command in scheme.commands(side) {
            let is_of_stream = ["udp_in", "udp_out"].iter().any(|word| command.names(word));
            let streams = if is_of_stream { streams } else { streams.get(..1).unwrap_or_default() };
            for stream in streams {
                let line = line(command, copy, side, *stream)?;
                programs.push(Program::start_line(copy, side, &line)?);
            }
        }
    }
    thread::sleep(AT_ONCE.into());
    let mut programs = Programs::of_scheme(scheme, programs);
    programs.check_failed()?;
    Ok(programs)
}

/// Makes a connection through a scheme's programs; returns the drone's end, then the station's.
///
/// # Errors
/// When it does not come about.
pub(crate) fn connect(
    copy: &Copy<'_>,
    listener: &TcpListener,
    congestion: &str,
    programs: &mut Programs,
) -> Result<[TcpStream; 2], String> {
    let made = forwarded::connect(copy, listener, congestion, || programs.check_failed());
    made.map_err(|why| programs.with_last_words(why))
}

/// Fills a command in for a side and a stream.
fn line(
    command: &SchemeCommand,
    copy: &Copy<'_>,
    side: Side,
    stream: Stream,
) -> Result<String, String> {
    let port = |first: u16| (first + stream as u16).to_string();
    command.filled(|word| match word {
        "side" => Some(side.name().to_owned()),
        "port" => Some(port(PORT)),
        "port2" => Some(port(SECOND_PORT)),
        "udp_in" => Some(port(UDP_IN)),
        "udp_out" => Some(port(UDP_OUT)),
        "tcp_in" => Some(ENTRY.to_string()),
        "tcp_out" => Some(TARGET.to_string()),
        "tunnel" => Some(wireguard::address(side).to_string()),
        "tunnel_peer" => Some(wireguard::address(side.other()).to_string()),
        _ => {
            let (word, link) = link_of(word)?;
            match word {
                _ if link >= copy.link_count() => None,
                "address" => copy.address(side, link).ok().map(|address| address.to_string()),
                "peer" => copy.address(side.other(), link).ok().map(|address| address.to_string()),
                _ => Some(copy.interface(link)),
            }
        }
    })
}
