//! The sockets that applications hold: datagrams, or messages framed in a byte stream.
//!
//! Not the transport under test: that is below the socket. A byte stream carries each message
//! behind its length in two bytes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use sys::poller::Interest;
use sys::seqpacket::{Incoming, Seqpacket};
use units::Duration;

use super::command::LocalSocket;
use super::interruption;
use super::tcp_copies::{CopiesInlet, CopiesOutlet};

/// How long a reading application waits before it looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Longer messages are nobody's.
pub(super) const MESSAGE_MAX: usize = 2_048;

/// A channel's two halves at one side.
pub(crate) type Channel = (Outlet, Inlet);

/// The sending half of a channel.
pub(crate) enum Outlet {
    /// A connected datagram socket.
    Datagrams(UdpSocket),
    /// A datagram socket beside somebody's own program.
    Local(Arc<LocalSocket>),
    /// A byte stream that never blocks, with what it has not taken yet.
    Stream(TcpStream, VecDeque<u8>),
    /// A connection that keeps messages whole; the sender waits while the transport is behind.
    Messages(Arc<Seqpacket>),
    /// Connections over every link.
    Copies(CopiesOutlet),
}

/// The receiving half of a channel.
pub(crate) enum Inlet {
    /// A connected datagram socket.
    Datagrams(UdpSocket),
    /// A datagram socket beside somebody's own program.
    Local(Arc<LocalSocket>),
    /// A byte stream, with what does not make a message yet.
    Stream(TcpStream, Vec<u8>),
    /// A connection that keeps messages whole.
    Messages(Arc<Seqpacket>),
    /// Connections over every link.
    Copies(CopiesInlet),
}

/// Makes both halves from a datagram socket that talks to one address.
pub(crate) fn datagrams(local: SocketAddr, remote: SocketAddr) -> io::Result<(Outlet, Inlet)> {
    let named = |what: &str, at: SocketAddr| {
        let what = what.to_owned();
        move |error: io::Error| io::Error::new(error.kind(), format!("{what} {at}: {error}"))
    };
    let socket = UdpSocket::bind(local).map_err(named("bind UDP socket to", local))?;
    socket.connect(remote).map_err(named("connect UDP socket to", remote))?;
    let receiving = socket.try_clone()?;
    receiving.set_read_timeout(Some(LOOK.into()))?;
    Ok((Outlet::Datagrams(socket), Inlet::Datagrams(receiving)))
}

/// Makes both halves from a connected byte stream.
pub(crate) fn stream(socket: TcpStream) -> io::Result<(Outlet, Inlet)> {
    let sending = socket.try_clone()?;
    socket.set_read_timeout(Some(LOOK.into()))?;
    Ok((Outlet::Stream(sending, VecDeque::new()), Inlet::Stream(socket, Vec::new())))
}

/// Makes both halves from a SEQPACKET socket.
pub(crate) fn messages(socket: Seqpacket) -> (Outlet, Inlet) {
    let socket = Arc::new(socket);
    (Outlet::Messages(Arc::clone(&socket)), Inlet::Messages(socket))
}

/// Makes both halves from those of connections over every link.
pub(super) fn copies(outlet: CopiesOutlet, inlet: CopiesInlet) -> (Outlet, Inlet) {
    (Outlet::Copies(outlet), Inlet::Copies(inlet))
}

impl Outlet {
    /// Sends a message; false where it was refused because the transport is behind.
    ///
    /// `droppable` messages are refused while earlier bytes wait for the transport; others wait in
    /// line.
    pub(crate) fn send(&mut self, message: &[u8], droppable: bool) -> bool {
        match self {
            // A full socket buffer, or a route that is gone, loses the datagram as a link would.
            Self::Datagrams(socket) => socket.send(message).is_ok(),
            Self::Local(socket) => socket.send(message),
            Self::Stream(_, waiting) => {
                if droppable && !waiting.is_empty() {
                    self.flush();
                    return false;
                }
                let len = (message.len() as u16).to_be_bytes();
                waiting.extend(len.iter().chain(message));
                self.flush();
                true
            }
            Self::Copies(copies) => copies.send(message),
            Self::Messages(socket) => loop {
                match socket.send(message) {
                    Ok(()) => return true,
                    Err(error) if is_passing(&error) && !droppable => {
                        // Errors show when it is tried again.
                        let _ = socket.wait(Interest::Write, LOOK);
                    }
                    Err(_) => return false,
                }
                if interruption::is_asked() {
                    return false;
                }
            },
        }
    }

    /// Gives the transport what it takes of what waits; tells whether more waits.
    pub(crate) fn flush(&mut self) -> bool {
        if let Self::Copies(copies) = self {
            return copies.flush();
        }
        let Self::Stream(socket, waiting) = self else { return false };
        while !waiting.is_empty() {
            let (front, _) = waiting.as_slices();
            match sys::byte_stream::send_now(socket, front) {
                Ok(taken) if taken > 0 => drop(waiting.drain(..taken)),
                // Full for now, or broken for good: the ledger will tell.
                _ => return true,
            }
        }
        false
    }
}

impl Inlet {
    /// Sends an answer to where the messages come from, on a channel that is not otherwise sent on
    /// from here; what cannot be sent is lost.
    pub(crate) fn answer(&mut self, message: &[u8]) {
        let _ = match self {
            Self::Datagrams(socket) => socket.send(message).map(drop),
            Self::Local(socket) => {
                socket.send(message);
                Ok(())
            }
            Self::Stream(socket, _) => {
                let len = (message.len() as u16).to_be_bytes();
                socket.write_all(&[&len[..], message].concat())
            }
            Self::Messages(socket) => socket.send(message),
            Self::Copies(copies) => {
                copies.answer(message);
                Ok(())
            }
        };
    }

    /// Waits a little for messages; calls `handle` for each.
    ///
    /// # Errors
    /// When the channel is broken for good.
    pub(crate) fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = [0; 65_536];
        match self {
            Self::Datagrams(socket) => match socket.recv(&mut buffer) {
                Ok(len) => handle(&buffer[..len]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            },
            Self::Local(socket) => match socket.receive(&mut buffer) {
                Ok(len) => handle(&buffer[..len]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            },
            Self::Stream(socket, partial) => match socket.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    partial.extend_from_slice(&buffer[..len]);
                    take_messages(partial, &mut handle)?;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            },
            Self::Copies(copies) => copies.receive(LOOK, handle)?,
            Self::Messages(socket) => {
                if !socket.wait(Interest::Read, LOOK)? {
                    return Ok(());
                }
                match socket.receive(&mut buffer) {
                    Ok(Incoming::Message(len)) => handle(&buffer[..len]),
                    Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Hands over every whole message at the front of `partial`.
fn take_messages(partial: &mut Vec<u8>, handle: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut taken = 0;
    while let Some((len, rest)) = partial[taken..].split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len));
        if len > MESSAGE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(message) = rest.get(..len) else { break };
        handle(message);
        taken += 2 + len;
    }
    partial.drain(..taken);
    Ok(())
}

/// Tells whether reading may go on: nothing came, or an earlier datagram met a closed port.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_the_stream_wherever_it_was_split() {
        let stream = [0, 3, b'a', b'b', b'c', 0, 0, 0, 1, b'd'];
        for cut in 0..stream.len() {
            let (mut partial, mut messages) = (Vec::new(), Vec::new());
            for piece in [&stream[..cut], &stream[cut..]] {
                partial.extend_from_slice(piece);
                let mut handle = |message: &[u8]| messages.push(message.to_vec());
                take_messages(&mut partial, &mut handle).expect("lengths are sound");
            }
            assert_eq!(messages, [b"abc".to_vec(), Vec::new(), b"d".to_vec()]);
        }
        let mut nonsense = vec![0xFF, 0xFF, 1];
        assert!(take_messages(&mut nonsense, &mut |_| {}).is_err());
    }
}
