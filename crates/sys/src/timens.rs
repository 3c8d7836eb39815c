//! Time namespaces: a program whose monotonic clock has another origin than the machine's.
//!
//! Not the wall clock, which belongs to the machine, and not a clock that runs faster: the kernel
//! offers an offset and nothing else. The emulator gives hosts clocks of their own with it, so that
//! no program can get away with comparing clocks across a link.

use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const OFFSETS: &CStr = c"/proc/self/timens_offsets";
const FOR_CHILDREN: &CStr = c"/proc/self/ns/time_for_children";
const NANOS: i64 = 1_000_000_000;

/// Says whether the kernel has time namespaces (Linux 5.6).
pub fn is_available() -> bool {
    Path::new("/proc/self/ns/time").exists()
}

/// Makes `command` run with its monotonic clocks shifted by `offset_ns` nanoseconds.
///
/// Starting it fails where the right to do so is missing, or where the offset would make a clock
/// negative: no offset may reach further back than the machine has been up.
pub fn place(command: &mut Command, offset_ns: i64) {
    let (seconds, nanos) = (offset_ns.div_euclid(NANOS), offset_ns.rem_euclid(NANOS));
    let text = format!("monotonic {seconds} {nanos}\nboottime {seconds} {nanos}\n");
    // SAFETY: between fork and exec `enter` makes system calls only and allocates nothing.
    unsafe { command.pre_exec(move || enter(text.as_bytes())) };
}

fn enter(offsets: &[u8]) -> io::Result<()> {
    // SAFETY: all pointers are valid for the calls; the descriptors are this function's own.
    unsafe {
        // The caller stays where it is until it moves itself; offsets can be set until then.
        check(libc::unshare(libc::CLONE_NEWTIME) as isize)?;
        let file = check(libc::open(OFFSETS.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) as isize)?;
        let written = libc::write(file as i32, offsets.as_ptr().cast(), offsets.len());
        let written = check(written);
        libc::close(file as i32);
        written?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let namespace = check(libc::open(FOR_CHILDREN.as_ptr(), flags) as isize)?;
        let moved = check(libc::setns(namespace as i32, libc::CLONE_NEWTIME) as isize);
        libc::close(namespace as i32);
        moved.map(|_| ())
    }
}

fn check(result: isize) -> io::Result<isize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
