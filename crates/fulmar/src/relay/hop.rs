//! One hop of a node: its socket, which exists as long as the interface does.

use std::net::IpAddr;

use sys::broadcast::{BroadcastOptions, BroadcastSocket};
use sys::interfaces::Interface;
use sys::poller::{Interest, Poller};
use sys::udp::ReceiveBuffers;

use crate::config::HopConfig;
use crate::interface::{Families, find_usable};

/// Bytes of the send buffer: what waits there is decided, and cannot be overtaken.
const SEND_BUFFER: usize = 16_384;
/// Bytes of the receive buffer: 80 ms at 100 Mbit/s.
pub(crate) const RECEIVE_BUFFER: usize = 1 << 20;

/// A hop, and its socket while its interface is there.
pub(super) struct HopSocket {
    pub(super) config: HopConfig,
    /// What it is, for the log: wire or radio.
    what: &'static str,
    socket: Option<BroadcastSocket>,
    /// What it lacks, in words, while it is not there.
    pub(super) trouble: Option<String>,
    /// Number and addresses of the interface as they were last seen.
    seen: Option<(u32, Vec<IpAddr>)>,
    /// A frame that found the socket full: at most one waits.
    waiting: Option<Vec<u8>>,
    /// Frames that the kernel refused, and why it refused the last one.
    pub(super) errors: u64,
    pub(super) last_error: Option<String>,
}

impl HopSocket {
    /// Knows where it will be; its socket opens with the first [`HopSocket::refresh`].
    pub(super) fn new(config: HopConfig, what: &'static str) -> Self {
        let (socket, trouble, seen, waiting, last_error) = Default::default();
        Self { config, what, socket, trouble, seen, waiting, errors: 0, last_error }
    }

    /// Tells whether its interface is there.
    pub(super) fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// Tells whether a frame may be given to it.
    pub(super) fn has_room(&self) -> bool {
        self.is_there() && self.waiting.is_none()
    }

    /// Compares the socket with the host's interfaces, opens or closes it; returns whether that
    /// changed anything. The tokens are those of what comes in and of room to send.
    pub(super) fn refresh(
        &mut self,
        interfaces: &[Interface],
        poller: &Poller,
        tokens: (u64, u64),
    ) -> bool {
        let was_there = self.is_there();
        let usable = find_usable(&self.config.interface, Families::IPV4, interfaces, &[]);
        let opened = usable.map(|found| (found.index, found.addresses)).and_then(|seen| {
            if was_there && self.seen.as_ref() == Some(&seen) {
                return Ok(seen);
            }
            self.close();
            let socket = self.open(seen.0, poller, tokens).map_err(|error| error.to_string())?;
            self.socket = Some(socket);
            tracing::info!(interface = %self.config.interface, "the {} is there", self.what);
            Ok(seen)
        });
        match opened {
            Ok(seen) => (self.seen, self.trouble) = (Some(seen), None),
            Err(trouble) => {
                self.close();
                let is_news = self.trouble.as_ref() != Some(&trouble);
                if is_news {
                    tracing::warn!(%trouble, "the {} is absent; it joins when it can", self.what);
                }
                self.trouble = Some(trouble);
            }
        }
        was_there != self.is_there()
    }

    /// Takes in what one call of the kernel gives, but for our own frames; returns whether there
    /// may be more.
    pub(super) fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(&[u8]),
    ) -> bool {
        let Some(socket) = &self.socket else { return false };
        match socket.receive(buffers) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                tracing::debug!(%error, "receive from the {}", self.what);
                return false;
            }
        }
        let more = buffers.is_full();
        let own = self.seen.as_ref().map_or(&[][..], |(_, addresses)| addresses);
        buffers.for_each(|from, bytes| {
            if !socket.is_own(from, own) {
                take(bytes);
            }
        });
        more
    }

    /// Sends a frame; where the socket is full it waits, and the poller tells of room.
    pub(super) fn send(&mut self, frame: &[u8], poller: &Poller, room: u64) {
        let Some(socket) = &self.socket else { return };
        match socket.send(frame) {
            Ok(true) => self.last_error = None,
            Ok(false) => {
                self.waiting = Some(frame.to_vec());
                if let Err(error) = poller.add(socket.outgoing(), room, Interest::Write) {
                    tracing::warn!(%error, "wait for room in a socket");
                    self.waiting = None;
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.last_error.as_ref() != Some(&error) {
                    let interface = &self.config.interface;
                    tracing::warn!(%interface, error, "send by the {}", self.what);
                }
                self.errors += 1;
                self.last_error = Some(error);
            }
        }
    }

    /// Sends what waited, now that there is room.
    pub(super) fn on_room(&mut self, poller: &Poller, room: u64) {
        if let Some(socket) = &self.socket {
            let _ = poller.remove(socket.outgoing());
        }
        if let Some(frame) = self.waiting.take() {
            self.send(&frame, poller, room);
        }
    }

    fn open(
        &self,
        index: u32,
        poller: &Poller,
        (token, _): (u64, u64),
    ) -> std::io::Result<BroadcastSocket> {
        let HopConfig { interface, address } = self.config.clone();
        let at = address;
        let (send_buffer, receive_buffer) = (SEND_BUFFER, RECEIVE_BUFFER);
        let options = BroadcastOptions { interface, index, address, send_buffer, receive_buffer };
        let socket = BroadcastSocket::bind(&options).map_err(|error| {
            let place = &options.interface;
            std::io::Error::new(error.kind(), format!("bind {at} {place}: {error}"))
        })?;
        poller.add(socket.incoming(), token, Interest::Read)?;
        Ok(socket)
    }

    fn close(&mut self) {
        (self.socket, self.seen, self.waiting) = (None, None, None);
    }
}
