//! Wakes a thread that waits in its loop for something else.
//!
//! Not a channel: it carries no message, only "look again". One thread waits on it together with
//! its own descriptors, any thread rings it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use units::Duration;

/// A bell that stays rung until it is heard.
#[derive(Debug)]
pub struct Wakeup {
    fd: OwnedFd,
}

impl Wakeup {
    /// Makes a bell that nobody has rung.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Rings: the waiting thread wakes now, or does not fall asleep next time.
    pub fn ring(&self) {
        // A write fails only when the bell has been rung 2⁶⁴ − 2 times unheard; then it is rung.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Waits until the bell rings, `other` becomes readable or `timeout` passes; silences the bell.
    ///
    /// Returns false when the time was up and neither had happened. `None` waits for ever.
    pub fn wait_with(&self, other: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        // A duration beyond the kernel's range is for ever.
        let timeout = timeout.map(std::time::Duration::from);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds =
            [PollFd::from_borrowed_fd(other, PollFlags::IN), PollFd::new(&self.fd, PollFlags::IN)];
        let ready = match poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => ready,
            // A signal was handled: look again.
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if fds[1].revents().contains(PollFlags::IN) {
            self.silence();
        }
        Ok(ready > 0)
    }

    /// Silences the bell, for who waits for it in a poller of its own.
    pub fn silence(&self) {
        // Nonblocking: it fails when nobody has rung.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rung_before_the_wait_is_heard_once() {
        let (bell, quiet) = (Wakeup::new().unwrap(), Wakeup::new().unwrap());
        bell.ring();
        bell.ring();
        assert!(bell.wait_with(quiet.as_fd(), None).unwrap());
        assert!(!bell.wait_with(quiet.as_fd(), Some(Duration::from_millis(1))).unwrap());
    }
}
