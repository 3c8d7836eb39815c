//! What the kernel says of itself without `/proc/sys`, which a confined service does not see.

use std::io;

use socket2::{Domain, Socket, Type};

/// The largest buffers of a socket that need no capability, in bytes: `net.core.rmem_max` and
/// `net.core.wmem_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// What may come in while the process does not run.
    pub receive: usize,
    /// What may wait to be sent.
    pub send: usize,
}

/// Asks a socket how large its buffers may become.
///
/// # Errors
/// Those of the socket.
pub fn largest_buffers() -> io::Result<BufferLimits> {
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    // Cut to what is allowed, then told doubled (socket(7)).
    let wanted = i32::MAX as usize;
    socket.set_recv_buffer_size(wanted)?;
    socket.set_send_buffer_size(wanted)?;
    Ok(BufferLimits {
        receive: socket.recv_buffer_size()? / 2,
        send: socket.send_buffer_size()? / 2,
    })
}

/// Tells the running kernel's release, such as `6.1.0-rpi7`.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_socket_and_uname_tell_is_what_proc_tells() {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).unwrap();
        let bytes = |name: &str| read(name).trim().parse::<usize>().unwrap();
        let limits = largest_buffers().unwrap();
        assert_eq!(limits.receive, bytes("net/core/rmem_max"));
        assert_eq!(limits.send, bytes("net/core/wmem_max"));
        assert_eq!(kernel_release(), read("kernel/osrelease").trim());
    }
}
