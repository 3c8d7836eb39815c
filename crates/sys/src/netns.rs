//! Network namespaces: a network stack of its own, with its own interfaces, addresses and sockets.
//!
//! Namespaces here have no name in the file system. They live as long as a descriptor, a process or
//! a socket holds them, and their interfaces vanish with them, so that even a killed program leaves
//! nothing behind. `interface_setup` puts interfaces into them; `isolate` gets the right to make
//! them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::isolate::outer_process;
use crate::signals;

/// Holds a network namespace open.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes a new, empty namespace (a loopback interface that is down).
    ///
    /// # Errors
    ///
    /// Needs CAP_SYS_ADMIN in its user namespace, which `isolate` gives.
    pub fn create() -> io::Result<Self> {
        // A thread of its own is moved and then ends: the caller stays where it is.
        on_own_thread(|| {
            // SAFETY: takes no pointers; affects this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(named("make a network namespace", io::Error::last_os_error()));
            }
            Self::current()
        })
    }

    /// Opens the namespace that the calling thread is in.
    pub fn current() -> io::Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Opens the namespace that `path` stands for, such as another program's [`Self::path`].
    pub fn open(path: &Path) -> io::Result<Self> {
        let operation = || format!("open the network namespace {}", path.display());
        let file = File::open(path).map_err(|error| named(&operation(), error))?;
        Ok(Self { file })
    }

    /// Opens the same namespace once more.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }

    /// Moves the calling thread into the namespace for the rest of its life.
    ///
    /// Sockets stay in the namespace they were made in, whichever thread uses them later.
    pub fn enter(&self) -> io::Result<()> {
        enter(self.file.as_raw_fd())
            .map_err(|error| named("move a thread into a network namespace", error))
    }

    /// Runs `work` on a thread of its own inside the namespace and returns its result.
    ///
    /// # Panics
    ///
    /// Passes on a panic of `work`.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_own_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Makes `command` run inside the namespace, with no signal blocked.
    ///
    /// The namespace must stay open until the command was spawned.
    pub fn place(&self, command: &mut Command) {
        let fd = self.file.as_raw_fd();
        // SAFETY: both make system calls alone, fit for the time between fork and exec.
        unsafe { command.pre_exec(move || enter(fd).and_then(|()| signals::unblock())) };
    }

    /// Returns a path of the namespace for `nsenter --net=PATH` in programs that this one starts,
    /// valid while this process lives and holds it.
    pub fn path(&self) -> PathBuf {
        let process = fs::read_link("/proc/self").unwrap_or_else(|_| PathBuf::from("self"));
        PathBuf::from("/proc").join(process).join("fd").join(self.file.as_raw_fd().to_string())
    }

    /// Returns the same for a shell outside the process namespace of [`crate::isolate`].
    pub fn outer_path(&self) -> PathBuf {
        match outer_process() {
            Some(process) => format!("/proc/{process}/fd/{}", self.file.as_raw_fd()).into(),
            None => self.path(),
        }
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Sets a kernel parameter, such as `net/ipv4/ip_forward`, of the calling thread's namespace.
pub fn set_parameter(name: &str, value: &str) -> io::Result<()> {
    fs::write(PathBuf::from("/proc/sys").join(name), value)
        .map_err(|error| named(&format!("set {name} to {value}"), error))
}

fn enter(fd: i32) -> io::Result<()> {
    // SAFETY: takes no pointers; affects this thread alone.
    if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn named(operation: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}
