//! TCP through a program that ends it: the drone's application connects to a local port of the
//! program's, which carries what comes and connects to the station's application at the other end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use sys::byte_stream::{Transport, connect as connect_stream, listen as listen_stream};
use sys::clock::now;
use units::{Duration, Instant};

use super::interruption;
use super::links::{Copy, Side};

/// Where the drone's applications connect to.
pub(super) const ENTRY: u16 = 12_948;
/// Where the station's application listens.
pub(super) const TARGET: u16 = 5_600;
/// How long a connection through it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the station's application's port.
///
/// # Errors
/// When it is taken.
pub(super) fn listen(copy: &Copy<'_>) -> Result<TcpListener, String> {
    copy.enter(Side::Station, || {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, TARGET));
        let listener = listen_stream(Transport::Tcp, "cubic", target)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    })
}

/// Makes a connection through it; returns the drone's end, then the station's.
///
/// # Errors
/// When it does not come about, or what `check` says meanwhile.
pub(crate) fn connect(
    copy: &Copy<'_>,
    listener: &TcpListener,
    congestion: &str,
    mut check: impl FnMut() -> Result<(), String>,
) -> Result<[TcpStream; 2], String> {
    let started = now();
    let entry = SocketAddr::from((Ipv4Addr::LOCALHOST, ENTRY));
    let drone = patiently(started, &mut check, || {
        copy.enter(Side::Drone, || {
            connect_stream(Transport::Tcp, congestion, entry, PATIENCE.into())
        })
    })?;
    let station = patiently(started, &mut check, || {
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
    started: Instant,
    check: &mut impl FnMut() -> Result<(), String>,
    mut attempt: impl FnMut() -> Result<T, String>,
) -> Result<T, String> {
    loop {
        match attempt() {
            Err(_) if now().since(started) < PATIENCE => {
                check()?;
                interruption::check()?;
                thread::sleep(Duration::from_millis(50).into());
            }
            result => return result,
        }
    }
}
