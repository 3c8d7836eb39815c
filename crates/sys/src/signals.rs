//! The signals that end a program or let it read its file again, as a file descriptor for its loop,
//! and those that are sent to others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Pid;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end; the name of the signal.
    End(&'static str),
    /// To read the configuration again (SIGHUP).
    Reload,
}

/// Turns SIGTERM, SIGINT and SIGHUP into readiness of a file descriptor.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals in the calling thread and opens the descriptor.
    ///
    /// Call it before any other thread is started: threads inherit the mask.
    ///
    /// # Errors
    /// Those of `sigprocmask` and `signalfd`.
    pub fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }

    /// Returns what a signal asks for that came in since the last call, if one did.
    pub fn take(&self) -> Option<Asked> {
        match self.0.read_signal().ok()??.ssi_signo as i32 {
            libc::SIGTERM => Some(Asked::End("SIGTERM")),
            libc::SIGINT => Some(Asked::End("SIGINT")),
            _ => Some(Asked::Reload),
        }
    }
}

/// Lets every signal through in the calling thread: for a child between fork and exec, which would
/// otherwise never hear the signals that [`Signals`] blocked in its parent.
///
/// # Errors
/// Those of `sigprocmask`.
pub(crate) fn unblock() -> io::Result<()> {
    // Both calls underneath, sigemptyset and pthread_sigmask, may be made after fork.
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Asks a child to end (SIGTERM).
///
/// # Errors
/// Those of `kill`.
pub fn terminate(child: &Child) -> io::Result<()> {
    // A child that was not waited for keeps its number, even when it has ended.
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return Ok(()) };
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
}

/// Ends a child and every process of its group (SIGKILL), of which it is the first: one that was
/// started with `process_group(0)`.
///
/// # Errors
/// Those of `kill`; `ESRCH` where none of them is left.
pub fn kill_group(child: &Child) -> io::Result<()> {
    let Some(group) = Pid::from_raw(child.id() as i32) else { return Ok(()) };
    Ok(rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?)
}

/// Asks this process to end (SIGTERM), of which one of its threads has [`Signals`].
///
/// # Errors
/// Those of `kill`.
pub fn end_this_process() -> io::Result<()> {
    let this = rustix::process::getpid();
    Ok(rustix::process::kill_process(this, rustix::process::Signal::TERM)?)
}

/// Asks the process that listens at the other end of a socket to read its configuration again
/// (SIGHUP).
///
/// # Errors
/// Those of `kill`: it takes the right to signal the process.
pub fn ask_to_reload(listener: &UnixStream) -> io::Result<()> {
    let owner = rustix::net::sockopt::socket_peercred(listener)?;
    Ok(rustix::process::kill_process(owner.pid, rustix::process::Signal::HUP)?)
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
