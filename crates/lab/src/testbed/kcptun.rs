//! kcptun between the two hosts, over the first link: it takes TCP connections at the drone,
//! carries them over KCP with block codes, and connects to the station's application at the other
//! end.
//!
//! As it comes, but without compression, which would tell more about the payload than about the
//! link.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use sys::byte_stream::{Transport, connect as connect_stream, listen};
use sys::clock::now;
use units::Duration;

use super::links::{Copy, Side};
use super::program::Program;

/// Where the drone's applications connect to.
const ENTRY: u16 = 12_948;
/// Where the station's application listens.
const TARGET: u16 = 5_600;
/// The port on the link.
const PORT: u16 = 29_900;
/// How long a connection through it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts both ends; the listener is the station's application.
///
/// # Errors
/// When it is not installed or does not start.
pub(crate) fn start(copy: &Copy<'_>) -> Result<(Vec<Program>, TcpListener), String> {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, TARGET));
    let listener = copy.enter(Side::Station, || {
        let listener = listen(Transport::Tcp, "cubic", target)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })?;
    let link = format!("{}:{PORT}", copy.address(Side::Station, 0)?);
    let (target, entry) = (target.to_string(), format!("127.0.0.1:{ENTRY}"));
    let server = ["-t", &target, "-l", &link, "--nocomp"];
    let client = ["-r", &link, "-l", &entry, "--nocomp"];
    let programs = vec![
        Program::start(copy, Side::Station, "kcptun-server", &server)?,
        Program::start(copy, Side::Drone, "kcptun-client", &client)?,
    ];
    Ok((programs, listener))
}

/// Makes a connection through it; returns the drone's end, then the station's.
///
/// # Errors
/// When it does not come about.
pub(crate) fn connect(
    copy: &Copy<'_>,
    listener: &TcpListener,
    congestion: &str,
) -> Result<[TcpStream; 2], String> {
    let started = now();
    let entry = SocketAddr::from((Ipv4Addr::LOCALHOST, ENTRY));
    let drone = patiently(started, || {
        copy.enter(Side::Drone, || {
            connect_stream(Transport::Tcp, congestion, entry, PATIENCE.into())
        })
    })?;
    let station = patiently(started, || {
        let accepted = listener.accept().and_then(|(socket, _)| {
            socket.set_nonblocking(false)?;
            Ok(socket)
        });
        accepted.map_err(|error: io::Error| format!("no connection at the station: {error}"))
    })?;
    Ok([drone, station])
}

/// Tries again and again for a while.
fn patiently<T>(
    started: units::Instant,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    loop {
        match attempt() {
            Err(_) if now().since(started) < PATIENCE => {
                thread::sleep(Duration::from_millis(50).into());
            }
            result => return result,
        }
    }
}
