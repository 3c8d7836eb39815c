//! Options of sockets that no library sets.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// Sets an option whose value is an int.
///
/// # Errors
/// Those of `setsockopt`.
pub(crate) fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int that lives during the call, and its size is passed.
    let failed = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size)
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
