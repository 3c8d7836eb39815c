//! Moves a whole program into namespaces of its own, so that nothing it starts outlives it.
//!
//! Not the network part: `netns` makes network namespaces, and can, once the program owns the user
//! namespace that this module makes for a user without privileges. Runs first thing in `main`.
//!
//! The program forks. The first process stays outside and only passes signals in and the exit
//! status out; the second becomes process 1 of a new process namespace and goes on with `main`.
//! When the first dies, for whatever reason, the kernel kills the second, and with process 1 every
//! process below it, however it was started; with the last process go its network namespaces and
//! their links.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

/// This process's number outside.
static OUTER_PROCESS: OnceLock<u32> = OnceLock::new();

/// Signals that are passed on to the program inside.
const FORWARDED: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Says under which privileges the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// The machine's root: real-time scheduling is available.
    Root,
    /// Root of a user namespace of its own: owns its network namespaces, nothing else.
    UserNamespace,
}

/// Continues the program as process 1 of a process namespace of its own, as root of a user
/// namespace where it is not privileged already.
///
/// Its network namespace is a new and empty one too: nothing it does reaches the machine's network.
/// Returns in the inner process only; the outer one ends with the inner one's exit status.
///
/// # Errors
///
/// Says what the machine forbids and what to do about it.
///
/// # Panics
///
/// When the process has more than one thread: the kernel would refuse, and other threads would be
/// missing after the fork.
pub fn isolate() -> io::Result<Privileges> {
    assert_one_thread();
    // A container's root may lack the capability: then it takes the same way as an ordinary user.
    if unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNET).is_ok() {
        become_inner_process()?;
        mount_own_proc();
        return Ok(Privileges::Root);
    }
    isolate_as_user()
}

/// Does what [`isolate`] does for an ordinary user, even for root.
///
/// It shows root what everybody else gets.
///
/// # Errors
///
/// As for [`isolate`].
///
/// # Panics
///
/// As for [`isolate`].
pub fn isolate_as_user() -> io::Result<Privileges> {
    assert_one_thread();
    enter_user_namespace().map_err(explain_refusal)?;
    become_inner_process()?;
    mount_own_proc();
    Ok(Privileges::UserNamespace)
}

/// Returns the number that this process has outside, where it was started; `None` without
/// [`isolate`].
pub fn outer_process() -> Option<u32> {
    OUTER_PROCESS.get().copied()
}

fn assert_one_thread() {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert!(threads == 1, "isolate() must run before the first thread starts");
}

fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: these calls cannot fail and have no preconditions.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNET)
}

/// Replaces `/proc` by one that shows the inner processes under their own numbers.
fn mount_own_proc() {
    // Read while `/proc` is still the outer one.
    if let Some(number) =
        fs::read_link("/proc/self").ok().and_then(|path| path.to_str()?.parse().ok())
    {
        let _ = OUTER_PROCESS.set(number);
    }
    // A container may forbid it; then the outer `/proc` stays, which only `ps` and its like mind.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = unshare(libc::CLONE_NEWNS)
        .and_then(|()| Ok(mount_change("/", private)?))
        .and_then(|()| Ok(mount("proc", "/proc", "proc", flags, None)?));
}

fn explain_refusal(error: io::Error) -> io::Error {
    let reason = if flag_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts unprivileged user namespaces here: run it as root, or allow them with \
         `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if flag_is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "unprivileged user namespaces are switched off here: run it as root, or allow them with \
         `sysctl -w kernel.unprivileged_userns_clone=1`"
    } else {
        "neither privileges nor unprivileged user namespaces here: run it as root, outside a \
         container that forbids namespaces"
    };
    io::Error::new(error.kind(), format!("make a namespace: {error}; {reason}"))
}

fn flag_is(path: &str, value: &str) -> bool {
    fs::read_to_string(Path::new(path)).is_ok_and(|text| text.trim() == value)
}

fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers; the process has one thread, as its caller asserted.
    if unsafe { libc::unshare(flags) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forks; the parent stays behind as `stand_by`, the child returns.
fn become_inner_process() -> io::Result<()> {
    let mut watched = FORWARDED.to_vec();
    watched.push(libc::SIGCHLD);
    let set = signal_set(&watched);
    let mut pipe = [0; 2];
    // SAFETY: both pointers are valid for the call; the masks are initialised sets. The process has
    // one thread, so the child of the fork may go on running ordinary code.
    unsafe {
        let mut before = signal_set(&[]);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::close(pipe[1]);
                exit_if_orphaned(pipe[0]);
                libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                Ok(())
            }
            child => {
                libc::close(pipe[0]);
                stand_by(child, &set)
            }
        }
    }
}

/// Ends the process where its parent died before it asked to be told of that.
fn exit_if_orphaned(parent_pipe: c_int) {
    let mut poll = libc::pollfd { fd: parent_pipe, events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one valid entry; `_exit` never returns.
    unsafe {
        if libc::poll(&mut poll, 1, 0) > 0 {
            libc::_exit(1);
        }
        libc::close(parent_pipe);
    }
}

/// Passes signals to the child until it ends, then ends with its status.
fn stand_by(child: libc::pid_t, set: &libc::sigset_t) -> ! {
    loop {
        let (mut signal, mut status) = (0, 0);
        // SAFETY: all pointers are valid for the calls; `child` is our own and not yet waited for.
        unsafe {
            libc::sigwait(set, &mut signal);
            if signal != libc::SIGCHLD {
                libc::kill(child, signal);
            } else if libc::waitpid(child, &mut status, libc::WNOHANG) == child {
                let code = if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    // The shell's convention for a death by signal.
                    128 + libc::WTERMSIG(status)
                };
                libc::_exit(code);
            }
        }
    }
}

/// Makes a kernel signal set of the given numbers.
fn signal_set(numbers: &[i32]) -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data; `sigemptyset` initialises it, `sigaddset` gets valid
    // numbers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &number in numbers {
            libc::sigaddset(&mut set, number);
        }
        set
    }
}
