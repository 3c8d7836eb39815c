//! Messages to the service manager (`sd_notify`) and its watchdog, without its library.
//!
//! Where no service manager listens (`NOTIFY_SOCKET` is unset) every call does nothing.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use units::Duration;

/// Speaks to the service manager that started this process, if any.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    ///
    /// # Errors
    /// When the socket that the environment names cannot be spoken to.
    pub fn from_environment() -> io::Result<Self> {
        let Some(path) = env::var_os("NOTIFY_SOCKET") else {
            return Ok(Self::default());
        };
        let path = path.to_string_lossy();
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(path.as_ref())?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some((socket, address)), watchdog: watchdog_interval() })
    }

    /// Returns half of the time within which the watchdog wants a sign of life, if it watches us.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Says that start-up is over.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// Says that shutdown has begun.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Gives the watchdog its sign of life.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Sets the line that `systemctl status` shows.
    pub fn status(&self, line: &str) {
        self.send(&format!("STATUS={line}"));
    }

    /// A manager that does not listen is no reason to stop flying: failures are ignored.
    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

fn watchdog_interval() -> Option<Duration> {
    let micros: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let meant_for_us = match env::var("WATCHDOG_PID") {
        Ok(pid) => pid.parse() == Ok(std::process::id()),
        Err(_) => true,
    };
    (meant_for_us && micros > 0).then(|| Duration::from_micros(micros / 2))
}
