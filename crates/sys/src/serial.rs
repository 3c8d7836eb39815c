//! Serial ports: raw bytes at a given speed, without waiting.
//!
//! Nothing can overtake what waits in the driver, and at 57,600 baud its 4 kB take 0.7 s: so the
//! writer asks how much waits there ([`Serial::queued`]) and holds the rest back.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, SpecialCodeIndex, tcflush, tcgetattr, tcsetattr,
};

/// Reads and writes a serial port without waiting.
#[derive(Debug)]
pub struct Serial(OwnedFd);

impl Serial {
    /// Opens the port raw, 8 data bits, no parity, one stop bit, no flow control.
    ///
    /// # Errors
    /// Those of `open` and `tcsetattr`: no such device, not a terminal, an impossible speed.
    pub fn open(device: &Path, baud: u32) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let port = rustix::fs::open(device, flags, Mode::empty())?;
        let mut settings = tcgetattr(&port)?;
        settings.make_raw();
        let off = ControlModes::CSTOPB | ControlModes::PARENB | ControlModes::CRTSCTS;
        settings.control_modes.remove(off);
        settings.control_modes.insert(ControlModes::CREAD | ControlModes::CLOCAL);
        settings.special_codes[SpecialCodeIndex::VMIN] = 0;
        settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        settings.set_speed(baud)?;
        tcsetattr(&port, OptionalActions::Now, &settings)?;
        // Bytes that a boot loader or the last owner left behind are not for us.
        tcflush(&port, QueueSelector::IOFlush)?;
        Ok(Self(port))
    }

    /// Reads what waits; nothing gives `None`.
    ///
    /// # Errors
    /// Those of `read`; the port is gone when it fails.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.0, buffer) {
            // With VMIN = 0 an empty port reads as zero bytes, and so does one that hung up: the
            // latter is told by the poller's hang-up and by the next write.
            Ok(0) => Ok(None),
            Ok(count) => Ok(Some(count)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what fits; returns how many bytes that were.
    ///
    /// # Errors
    /// Those of `write`; the port is gone when it fails.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.0, bytes) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how many written bytes wait in the driver; 0 where the driver does not tell.
    pub fn queued(&self) -> usize {
        let mut count: libc::c_int = 0;
        // SAFETY: TIOCOUTQ writes one int, which outlives the call.
        let failed = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &mut count) };
        if failed == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
    }
}

impl AsFd for Serial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stands in for a serial port: what is written to its device is read here, and the other way.
#[derive(Debug)]
pub struct PseudoTerminal {
    master: OwnedFd,
    device: PathBuf,
}

impl PseudoTerminal {
    /// Makes a pair of ends.
    ///
    /// # Errors
    /// Those of `openpt`: no more pseudo-terminals, or none at all.
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let device = ptsname(&master, Vec::new())?;
        let device = PathBuf::from(OsStr::from_bytes(device.as_bytes()));
        Ok(Self { master, device })
    }

    /// Returns the name of the device that a program opens.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Reads what was written to the device; waits for the first byte.
    ///
    /// # Errors
    /// Those of `read`; nobody has the device open when it fails.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 4_096];
        let length = rustix::io::read(&self.master, &mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    }

    /// Writes what is read from the device.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.master, bytes)?)
    }
}

impl AsFd for PseudoTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_unaltered_over_a_pseudo_terminal() {
        let line = PseudoTerminal::open().unwrap();
        let port = Serial::open(line.device(), 57_600).unwrap();

        // Every byte value: a line discipline that is not raw would eat or change some.
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(port.write(&all).unwrap(), 256);
        assert_eq!(line.read().unwrap(), all);

        let mut buffer = [0_u8; 512];
        assert_eq!(port.read(&mut buffer).unwrap(), None);
        line.write(&all).unwrap();
        let count = port.read(&mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..count], all);

        drop(line);
        assert!(port.write(b"x").is_err());
    }

    #[test]
    fn what_is_not_a_terminal_is_an_error() {
        assert!(Serial::open(Path::new("/dev/null"), 57_600).is_err());
        assert!(Serial::open(Path::new("/nonexistent/tty"), 57_600).is_err());
    }
}
