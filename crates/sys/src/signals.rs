//! The signals that end a program or let it read its file again, as a file descriptor for its loop, and
//! those that are sent to others.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

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
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks the signals in the calling thread and opens the descriptor.
    ///
    /// Call it before any other thread is started: threads inherit the mask.
    ///
    /// # Errors
    /// Those of `sigprocmask` and `signalfd`.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set; the other calls only read or extend it.
        let descriptor = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd has just returned this descriptor; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Returns what a signal asks for that came in since the last call, if one did.
    pub fn take(&self) -> Option<Asked> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as large as the length that is passed.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: the kernel has filled the whole structure.
        match unsafe { info.assume_init() }.ssi_signo as i32 {
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
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before it is used; both calls may be made after fork.
    let failed = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
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

/// Asks the process that listens at the other end of a socket to read its configuration again (SIGHUP).
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
