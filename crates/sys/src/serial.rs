//! Serial ports: raw bytes at a given speed, without waiting.
//!
//! Nothing can overtake what waits in the driver, and at 57,600 baud its 4 kB take 0.7 s: so the
//! writer asks how much waits there ([`Serial::queued`]) and holds the rest back.
//!
//! Two programs that read one port get a part of the bytes each, so a port is opened for one
//! program alone. What others honour, and is honoured here:
//!
//! | | by whom |
//! | --- | --- |
//! | `TIOCEXCL` | the kernel: nobody but a process with `CAP_SYS_ADMIN` opens the port; Qt (QGroundControl) sets it |
//! | `flock` of the device | pyserial with `exclusive=True`, picocom, minicom |
//! | a file `LCK..ttyUSB0` | Qt (QGroundControl), minicom, ModemManager's forerunners: `uucp_lock.rs` |

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, SpecialCodeIndex, ioctl_tiocexcl, ioctl_tiocnxcl,
    tcflush, tcgetattr, tcsetattr,
};

use crate::uucp_lock::UucpLock;

/// Reads and writes a serial port without waiting, alone.
#[derive(Debug)]
pub struct Serial {
    port: OwnedFd,
    _lock: UucpLock,
}

/// How the two ends of a line hold each other up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// Not at all.
    None,
    /// By wires: we send while CTS is on, and RTS says whether we take.
    RtsCts,
}

impl Serial {
    /// Opens the port raw, 8 data bits, no parity, one stop bit, and keeps other programs out.
    ///
    /// # Errors
    /// `ResourceBusy` where another program has it for itself, in words with its name where that is
    /// known; those of `open` and `tcsetattr`: no such device, not a terminal, an impossible speed.
    pub fn open(device: &Path, baud: u32, flow: FlowControl) -> io::Result<Self> {
        UucpLock::check(device)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let port = rustix::fs::open(device, flags, Mode::empty()).map_err(|error| match error {
            Errno::BUSY => taken(),
            error => error.into(),
        })?;
        let mut settings = tcgetattr(&port)?;
        // Of a pseudo-terminal the mark outlives whoever made it, as long as the other end is open.
        let may_mark = !is_pseudo(&port);
        // Before anything of the port is changed.
        if may_mark && is_exclusive(&port) {
            return Err(taken());
        }
        flock(&port, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => taken(),
            error => error.into(),
        })?;
        let lock = UucpLock::take(device)?;
        if may_mark {
            // A driver that knows no such thing has the lock at least.
            let _ = ioctl_tiocexcl(&port);
        }
        let port = Self { port, _lock: lock };
        settings.make_raw();
        let off = ControlModes::CSTOPB | ControlModes::PARENB | ControlModes::CRTSCTS;
        settings.control_modes.remove(off);
        settings.control_modes.insert(ControlModes::CREAD | ControlModes::CLOCAL);
        if flow == FlowControl::RtsCts {
            settings.control_modes.insert(ControlModes::CRTSCTS);
        }
        settings.special_codes[SpecialCodeIndex::VMIN] = 0;
        settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        settings.set_speed(baud)?;
        tcsetattr(&port.port, OptionalActions::Now, &settings)?;
        // Bytes that a boot loader or the last owner left behind are not for us.
        tcflush(&port.port, QueueSelector::IOFlush)?;
        Ok(port)
    }

    /// Tells whether the other end lets us send by CTS; nothing where the port has no such wire.
    pub fn is_clear_to_send(&self) -> Option<bool> {
        let mut lines: libc::c_int = 0;
        // SAFETY: TIOCMGET writes one int, which outlives the call.
        let failed = unsafe { libc::ioctl(self.port.as_raw_fd(), libc::TIOCMGET, &mut lines) };
        (failed == 0).then_some(lines & libc::TIOCM_CTS != 0)
    }

    /// Reads what waits; nothing gives `None`.
    ///
    /// # Errors
    /// Those of `read`; the port is gone when it fails.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.port, buffer) {
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
        match rustix::io::write(&self.port, bytes) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how many written bytes wait in the driver; 0 where the driver does not tell.
    pub fn queued(&self) -> usize {
        let mut count: libc::c_int = 0;
        // SAFETY: TIOCOUTQ writes one int, which outlives the call.
        let failed = unsafe { libc::ioctl(self.port.as_raw_fd(), libc::TIOCOUTQ, &mut count) };
        if failed == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
    }
}

impl AsFd for Serial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl Drop for Serial {
    /// Lets others in: where another program has the port open as well, it stays as it is when we
    /// close it.
    fn drop(&mut self) {
        let _ = ioctl_tiocnxcl(&self.port);
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

/// Tells whether another program has the port for itself: a process with `CAP_SYS_ADMIN` opens it
/// nevertheless.
fn is_exclusive(port: &OwnedFd) -> bool {
    let mut exclusive: libc::c_int = 0;
    // SAFETY: TIOCGEXCL writes one int, which outlives the call.
    let failed = unsafe { libc::ioctl(port.as_raw_fd(), libc::TIOCGEXCL, &mut exclusive) };
    failed == 0 && exclusive != 0
}

/// Tells whether the port is the slave of a pseudo-terminal (majors 136 to 143 of Linux).
fn is_pseudo(port: &OwnedFd) -> bool {
    fstat(port).is_ok_and(|found| (136..=143).contains(&libc::major(found.st_rdev)))
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another program has it for itself")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: FlowControl = FlowControl::None;

    #[test]
    fn bytes_pass_unaltered_over_a_pseudo_terminal() {
        let line = PseudoTerminal::open().unwrap();
        let port = Serial::open(line.device(), 57_600, NONE).unwrap();

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
        assert!(Serial::open(Path::new("/dev/null"), 57_600, NONE).is_err());
        assert!(Serial::open(Path::new("/nonexistent/tty"), 57_600, NONE).is_err());
    }
    #[test]
    fn one_program_alone_has_the_port_and_another_may_have_it_afterwards() {
        let line = PseudoTerminal::open().unwrap();
        let first = Serial::open(line.device(), 57_600, NONE).unwrap();
        let busy = Serial::open(line.device(), 57_600, NONE).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy, "{busy}");
        drop(first);
        drop(Serial::open(line.device(), 57_600, NONE).unwrap());
    }

    #[test]
    fn what_others_do_to_have_the_port_alone_is_honoured() {
        let line = PseudoTerminal::open().unwrap();
        let open = || std::fs::File::open(line.device()).unwrap();
        let refused = || Serial::open(line.device(), 57_600, NONE).unwrap_err().kind();
        // pyserial with exclusive=True.
        let other = open();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        assert_eq!(refused(), io::ErrorKind::ResourceBusy);
        drop(other);
        // Qt; a pseudo-terminal keeps the mark when its maker is gone, so there it counts for
        // nothing.
        let other: OwnedFd = open().into();
        assert!(is_pseudo(&other) && !is_exclusive(&other));
        ioctl_tiocexcl(&other).unwrap();
        assert!(is_exclusive(&other));
        ioctl_tiocnxcl(&other).unwrap();
        drop(other);
        // One that reads along takes nothing away from us but bytes, and is told elsewhere.
        let _along = open();
        drop(Serial::open(line.device(), 57_600, FlowControl::RtsCts).unwrap());
        drop(Serial::open(line.device(), 57_600, NONE).unwrap());
    }
}
