//! Unix sockets of the type SEQPACKET: connections that keep messages whole and in order, on which
//! a writer waits while the reader is behind.
//!
//! A message lies in the kernel in one piece and must fit the writer's send buffer. With
//! CAP_NET_ADMIN a process gets a buffer as large as it asks for, otherwise at most
//! `net.core.wmem_max`; a message that does not fit is refused with `EMSGSIZE`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, send, socket_with, sockopt,
};
use socket2::SockRef;
use units::{Duration, Instant};

use crate::arrival::{self, Arrival};
use crate::poller::Interest;

/// Tells whether a program listens at `path`, to sockets of any type; never blocks. One that is too
/// busy to accept does.
pub fn answers(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    [SocketType::STREAM, SocketType::SEQPACKET, SocketType::DGRAM].into_iter().any(|kind| {
        socket_with(AddressFamily::UNIX, kind, flags, None)
            .is_ok_and(|socket| matches!(connect(&socket, &address), Ok(()) | Err(Errno::AGAIN)))
    })
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// Waits for connections at a path of the file system; the path goes when this does.
pub struct SeqpacketListener {
    socket: OwnedFd,
    path: PathBuf,
}

/// One connection.
pub struct Seqpacket {
    socket: OwnedFd,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message of this many bytes.
    Message(usize),
    /// A message of this many bytes, more than the buffer holds; it is lost.
    TooLong(usize),
    /// The other end has closed.
    End,
}

impl SeqpacketListener {
    /// Listens at `path`, where nothing may lie, with the permissions `mode`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        let socket = make()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // From here on the path is ours to remove.
        let listener = Self { socket, path: path.to_owned() };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Takes the next connection that waits.
    ///
    /// # Errors
    /// `WouldBlock` when none does.
    pub fn accept(&self) -> io::Result<Seqpacket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Seqpacket { socket: accept_with(&self.socket, flags)? })
    }
}

impl Drop for SeqpacketListener {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.path);
    }
}

impl AsFd for SeqpacketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Seqpacket {
    /// Connects to the listener at `path`; neither this nor what follows blocks.
    ///
    /// # Errors
    /// `NotFound` and `ConnectionRefused` when nobody listens, `WouldBlock` when too many wait.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = make()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self { socket })
    }

    /// Asks for room for `bytes` on their way to the reader, and returns how much there is.
    ///
    /// # Errors
    /// Those of the socket options; less room than asked for is no error.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        let size = bytes.max(4_096);
        if sockopt::set_socket_send_buffer_size_force(&self.socket, size).is_err() {
            SockRef::from(&self.socket).set_send_buffer_size(size)?;
        }
        SockRef::from(&self.socket).send_buffer_size()
    }

    /// Sends a message; an empty one would end the connection for its reader and is not sent.
    ///
    /// # Errors
    /// `WouldBlock` while the reader is behind; `EMSGSIZE` for what the buffer can never hold.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() {
            return Ok(());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.socket, message, flags)?;
        Ok(())
    }

    /// Waits until there is something to receive, or room to send, and tells whether there is.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn wait(&self, interest: Interest, within: Duration) -> io::Result<bool> {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
            Interest::ReadWrite => PollFlags::IN | PollFlags::OUT,
        };
        let timeout = Timespec::try_from(std::time::Duration::from(within))
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives a message. An empty one cannot be told from the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming> {
        Ok(self.receive_stamped(buffer)?.0)
    }

    /// Does the same, and says when the message was written, where the kernel was asked for that
    /// ([`arrival::stamp`]).
    ///
    /// # Errors
    /// Those of [`Seqpacket::receive`].
    pub fn receive_stamped(&self, buffer: &mut [u8]) -> io::Result<(Incoming, Option<Instant>)> {
        let Arrival { length, at, .. } = arrival::receive(&self.socket, buffer)?;
        let incoming = match length {
            0 => Incoming::End,
            _ if length > buffer.len() => Incoming::TooLong(length),
            _ => Incoming::Message(length),
        };
        Ok((incoming, at))
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn make() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener in a folder of its own, which goes with it.
    fn listener() -> (PathBuf, SeqpacketListener) {
        let unique =
            format!("fulmar-seqpacket-{}-{:?}", std::process::id(), std::thread::current().id());
        let folder = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let _ = fs::remove_file(&path);
        let listener = SeqpacketListener::bind(&path, 0o600).unwrap();
        (path, listener)
    }

    #[test]
    fn messages_stay_whole_and_the_writer_waits_for_the_reader() {
        let (path, listener) = listener();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let near = Seqpacket::connect(&path).unwrap();
        let far = listener.accept().unwrap();
        assert_eq!(listener.accept().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        near.set_send_buffer(65_536).unwrap();
        let mut sent = 0_u32;
        let full = loop {
            let mut message = vec![0; 3_000];
            message[..4].copy_from_slice(&sent.to_le_bytes());
            match near.send(&message) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!near.wait(Interest::Write, Duration::from_millis(1)).unwrap());
        assert!(far.wait(Interest::Read, Duration::from_secs(1)).unwrap());
        let mut buffer = [0; 4_096];
        for number in 0..sent {
            assert_eq!(far.receive(&mut buffer).unwrap(), Incoming::Message(3_000));
            assert_eq!(buffer[..4], number.to_le_bytes());
        }
        assert_eq!(far.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        near.send(&[7; 5_000]).unwrap();
        assert_eq!(far.receive(&mut buffer).unwrap(), Incoming::TooLong(5_000));
        drop(near);
        assert_eq!(far.receive(&mut buffer).unwrap(), Incoming::End);
        drop(listener);
        assert!(!path.exists());
        assert_eq!(Seqpacket::connect(&path).err().unwrap().kind(), io::ErrorKind::NotFound);
        fs::remove_dir(path.parent().unwrap()).unwrap();
    }
}
