//! Whether the computer at an address says that nobody takes what is sent to it: an empty datagram
//! from a socket of its own, whose connection has the kernel keep the answer of ICMP. A station's
//! daemon that does not run, or listens at another port, is so told from a firewall, which says
//! nothing.
//!
//! Anybody on the way can answer so: what is learned is for people alone.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

use proto::{Duration, Instant};
use sys::bound;

/// One address that is asked by one interface.
#[derive(Debug)]
pub(crate) struct Knock {
    remote: SocketAddr,
    socket: UdpSocket,
    /// How often it is asked.
    every: Duration,
    next: Instant,
    trouble: Option<String>,
}

impl Knock {
    /// Opens a socket for it; nothing is sent before `first`.
    ///
    /// # Errors
    /// Those of the system, that of an address to which there is no way by the interface among
    /// them.
    pub(crate) fn new(
        interface: &str,
        remote: SocketAddr,
        first: Instant,
        every: Duration,
    ) -> io::Result<Self> {
        let socket = bound::udp(interface, remote.is_ipv6())?;
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        Ok(Self { remote, socket, every, next: first, trouble: None })
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Looks whether there is an answer.
    pub(crate) fn look(&mut self) {
        let answer = self.socket.recv(&mut [0; 16]).err();
        self.take(answer);
    }

    /// Asks once more where that is due.
    pub(crate) fn ask(&mut self, now: Instant) {
        if self.next <= now {
            self.next = now + self.every;
            // Sending tells of an answer as well.
            let answer = self.socket.send(&[]).err();
            self.take(answer);
        }
    }

    /// Says what was answered.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn take(&mut self, answer: Option<io::Error>) {
        let told = answer.and_then(|error| self.told(&error));
        self.trouble = told.or(self.trouble.take());
    }

    fn told(&self, error: &io::Error) -> Option<String> {
        let remote = self.remote;
        match error.kind() {
            ErrorKind::ConnectionRefused => Some(format!(
                "{remote} answers that nothing takes UDP there: does the station's daemon run, is that the port of its \
                 [[listen]], does it turn us away?"
            )),
            ErrorKind::HostUnreachable | ErrorKind::PermissionDenied => Some(format!(
                "a firewall on the way to {remote} answers that it lets nothing through"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::clock;

    use super::*;

    /// Looks until something is told, or for a while.
    fn asked(knock: &mut Knock) -> Option<String> {
        for _ in 0..20 {
            knock.ask(clock::now());
            knock.look();
            if knock.trouble().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        knock.trouble().map(str::to_owned)
    }

    #[test]
    fn a_port_where_nobody_is_says_so_and_one_where_somebody_is_says_nothing() {
        let name = "a_port_where_nobody_is_says_so_and_one_where_somebody_is_says_nothing";
        if !sys::sandbox::kernel_answers(name) {
            return;
        }
        let of = |there| Knock::new("lo", there, Instant::ZERO, Duration::from_secs(1)).unwrap();
        // A port that is free may be another test's in the next moment.
        let told = (0..10).find_map(|_| {
            let somebody = UdpSocket::bind("127.0.0.1:0").unwrap();
            let there = somebody.local_addr().unwrap();
            assert_eq!(asked(&mut of(there)), None);
            drop(somebody);
            asked(&mut of(there)).map(|told| (there, told))
        });
        let (there, told) = told.expect("one of ten ports stays free");
        assert!(told.starts_with(&format!("{there} answers that nothing takes UDP")), "{told}");
    }
}
