//! Connections of TCP that carry paths, in the daemon's loop [specs/wire.md §9].
//!
//! ```text
//! drone    a path of its own for each connection: dialled, watched, dialled anew   (dial.rs),
//!          through an HTTP proxy where the file has one                            (proxy.rs)
//! station  whoever connects is a stranger until a session answers there            (strangers.rs)
//! in       bytes ─► deframer ─► endpoint
//! out      endpoint ─► length in front ─► the kernel, while it has little that has not left
//! ```
//! For a session a connection is a way [specs/paths.md §10], named by the address of its other end.
//! At the station that changes with each connection, and the path moves to the new one as it does
//! to another address; on the drone it is the station's address, and the path is absent while there
//! is no connection.
//!
//! Nothing is queued here or in the kernel that a session could still put in another order: a
//! connection that has so much that has not left counts as a full socket, and its path is bound to
//! nothing until there is room.

mod dial;
mod proxy;
mod report;
mod stand_in;
mod strangers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::{Duration, Endpoint, Instant, InterfaceId, Received, SessionId, Transmit, Via};
use sys::clock;
use sys::connection::{Connection, LEAST_UNSENT};
use sys::framing::{self, Deframer};
use sys::poller::{Interest, Poller, Ready};

use super::Daemon;
use super::tokens::Token;
use dial::Dials;
pub(super) use report::StreamCounts;
pub(super) use stand_in::Watched;

/// Bytes read from a connection at a time, so that a flood leaves room for the others.
const AT_A_TIME: usize = 65_536;
/// Bytes that wait here for the kernel, beside as many as it may hold: what it did not take, and
/// answers to handshakes. What comes beyond is dropped.
const WAITING: usize = 4 * LEAST_UNSENT;
/// How often connections are looked at that are dialled, watched or not known yet.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// For so long what the kernel may hold lasts, at the rate of the connection: between two turns of
/// the loop none runs dry.
const UNSENT_LASTS: Duration = Duration::from_millis(2);
/// The most that this comes to.
const MOST_UNSENT: u64 = 256 << 10;
/// A station's connection that brought nothing for so long is not a path's any more: paths in
/// reserve are probed more often.
const IDLE: Duration = Duration::from_secs(90);

/// What a connection is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// A drone's that has not come about.
    Dialled,
    /// A drone's that a proxy has been asked at.
    Asked,
    /// A drone's that carries its path.
    Own,
    /// A station's that no session has answered at, with how many bytes it has brought.
    Stranger(usize),
    /// A station's that one has.
    Known(SessionId),
}

/// A connection.
struct Stream {
    connection: Connection,
    standing: Standing,
    /// The slot of the socket that it was made at.
    slot: usize,
    /// The address of the other end, as sessions know it.
    remote: SocketAddr,
    since: Instant,
    /// When something authentic came last.
    heard: Instant,
    deframer: Deframer,
    /// What a proxy has answered so far.
    answer: Vec<u8>,
    out: Vec<u8>,
    /// Whether its path waits until the kernel takes more.
    is_blocked: bool,
    /// How much the kernel may hold that has not left.
    unsent: usize,
    /// Bytes that the kernel has taken, how many of them have arrived, and since when it has been
    /// so many while more were under way.
    written: u64,
    arrived: u64,
    stands_since: Option<Instant>,
}

/// All connections of a daemon.
#[derive(Default)]
pub(super) struct Streams {
    list: Vec<Option<Stream>>,
    /// Those that carry something, or may, by the slot and the address of the other end.
    by_remote: BTreeMap<(usize, SocketAddr), usize>,
    /// A drone's paths over connections, by slot.
    dials: Dials,
    /// Places of those that have something to write.
    waiting: Vec<usize>,
    buffer: Vec<u8>,
    next_look: Option<Instant>,
    /// Slots at which nothing is accepted for a moment, since that failed, …
    deaf: Vec<usize>,
    /// … and when that was said last.
    deaf_said: Option<Instant>,
    counts: StreamCounts,
}

impl Daemon {
    /// Follows a connection: it has come about, something has come, or there is room.
    pub(super) fn handle_stream(&mut self, now: Instant, place: usize, event: Ready) {
        let Some(stream) = self.streams.get(place) else { return };
        match stream.standing {
            Standing::Dialled => return self.finish_dial(now, place),
            Standing::Asked => return self.hear_proxy(now, place),
            Standing::Own | Standing::Stranger(_) | Standing::Known(_) => {}
        }
        if event.writable {
            self.streams.flush(now, place, &mut self.endpoint, &self.poller);
        }
        if event.readable {
            self.read_stream(now, place);
        }
        self.drop_ended(now);
    }

    /// Sends a session's datagram by a connection.
    pub(super) fn push_to_stream(&mut self, now: Instant, remote: SocketAddr, transmit: &Transmit) {
        let Self { streams, sockets, endpoint, datagram, poller, .. } = self;
        let place = sockets.place(transmit.interface).map(|(slot, _)| (slot, remote));
        let place = place.and_then(|place| streams.by_remote.get(&place).copied());
        let is_taken = place.is_some_and(|place| {
            if let Some(path) = transmit.path {
                streams.admit(place, path.session);
            }
            streams.push(place, datagram, transmit.path.is_some())
        });
        match (place, is_taken) {
            (Some(place), true) => {
                if streams.wants_flush(place) {
                    streams.flush(now, place, endpoint, poller);
                }
            }
            // The connection has ended: that is no loss of the link.
            _ => {
                let Some(path) = transmit.path else { return };
                if let Some(number) = transmit.number {
                    endpoint.on_unsent(path, number);
                }
                // Otherwise what is to leave would come back at once, and for ever.
                if place.is_none() {
                    endpoint.on_stream_ended(now, path.session, remote);
                }
            }
        }
    }

    /// Writes what waits for its connection.
    pub(super) fn flush_streams(&mut self, now: Instant) {
        if self.streams.waiting.is_empty() {
            return;
        }
        for place in std::mem::take(&mut self.streams.waiting) {
            self.streams.flush(now, place, &mut self.endpoint, &self.poller);
        }
        self.drop_ended(now);
    }

    /// Does what is due with connections.
    pub(super) fn handle_stream_timers(&mut self, now: Instant) {
        let streams = &mut self.streams;
        if streams.next_look.is_none() && !streams.is_any() {
            return;
        }
        if streams.next_look.is_some_and(|due| due > now) {
            return;
        }
        streams.next_look = Some(now + LOOK_EVERY).filter(|_| streams.is_any());
        streams.measure(now);
        self.listen_again();
        self.end_strangers(now);
        self.choose_stand_ins(now);
        self.dial(now);
        self.drop_ended(now);
    }

    /// Ends the connections that were made at a socket.
    pub(super) fn close_streams(&mut self, now: Instant, slot: usize) {
        self.streams.end_at(slot);
        self.drop_ended(now);
    }

    fn read_stream(&mut self, now: Instant, place: usize) {
        let Self { streams, sockets, endpoint, .. } = self;
        let mut buffer = std::mem::take(&mut streams.buffer);
        buffer.resize(AT_A_TIME, 0);
        if let Some(Some(stream)) = streams.list.get_mut(place) {
            let interface = sockets.interface_id(stream.slot, 0);
            let before = stream.heard;
            let ended = stream.read(now, interface, &mut buffer, endpoint, &mut streams.counts);
            let has_brought = stream.heard > before;
            match ended {
                Ok(()) if has_brought => streams.settle(place),
                Ok(()) => {}
                Err(why) => {
                    tracing::debug!(remote = %stream.remote, why, "connection ended");
                    streams.end(place);
                }
            }
        }
        self.streams.buffer = buffer;
    }

    /// Forgets the connections that have ended: their paths have none now.
    fn drop_ended(&mut self, now: Instant) {
        for stream in self.streams.take_ended() {
            if stream.is_blocked {
                let id = self.sockets.interface_id(stream.slot, 0);
                self.endpoint.set_blocked(id, Some(Via::Stream(stream.remote)), false);
            }
            match stream.standing {
                Standing::Own if self.streams.is_carried(stream.slot) => {}
                Standing::Own => self.set_carried(now, stream.slot, false),
                Standing::Known(session) => {
                    self.endpoint.on_stream_ended(now, session, stream.remote);
                }
                Standing::Dialled | Standing::Asked | Standing::Stranger(_) => {}
            }
            stream.connection.abort();
        }
    }

    /// Tells a drone's path whether it has a connection.
    fn set_carried(&mut self, now: Instant, slot: usize, carried: bool) {
        if let Some(path) = self.paths.get(&slot).and_then(|path| path.path) {
            self.endpoint.set_path_present(now, path.session, path.path, carried);
        }
    }
}

impl Streams {
    /// Returns when [`Daemon::handle_stream_timers`] is due.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        self.next_look.or_else(|| self.is_any().then_some(now))
    }

    /// Tells whether a path waits until its connection has room.
    pub(super) fn is_any_blocked(&self) -> bool {
        self.list.iter().flatten().any(|stream| stream.is_blocked)
    }

    fn is_any(&self) -> bool {
        !self.dials.is_empty() || !self.deaf.is_empty() || self.list.iter().any(Option::is_some)
    }

    fn get(&self, place: usize) -> Option<&Stream> {
        self.list.get(place)?.as_ref()
    }

    fn get_mut(&mut self, place: usize) -> Option<&mut Stream> {
        self.list.get_mut(place)?.as_mut()
    }

    /// Keeps a connection, and returns its place.
    fn add(
        &mut self,
        now: Instant,
        (connection, standing): (Connection, Standing),
        (slot, remote): (usize, SocketAddr),
        poller: &Poller,
    ) -> std::io::Result<usize> {
        let free = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        let interest = if standing == Standing::Dialled { Interest::Write } else { Interest::Read };
        poller.add(&connection, Token::Stream(free).encode(), interest)?;
        let stream = Stream {
            connection,
            standing,
            slot,
            remote,
            since: now,
            heard: now,
            deframer: Deframer::default(),
            answer: Vec::new(),
            out: Vec::new(),
            is_blocked: false,
            unsent: LEAST_UNSENT,
            written: 0,
            arrived: 0,
            stands_since: None,
        };
        if free == self.list.len() {
            self.list.push(None);
        }
        self.list[free] = Some(stream);
        Ok(free)
    }

    /// Takes a datagram that is to leave; false where too much waits already, or a stranger is not
    /// to hear it.
    fn push(&mut self, place: usize, datagram: &[u8], of_session: bool) -> bool {
        let Some(stream) = self.list.get_mut(place).and_then(Option::as_mut) else { return false };
        let is_heard = of_session
            || !matches!(stream.standing, Standing::Stranger(_))
            || strangers::may_hear(datagram);
        if !is_heard || stream.out.len() + datagram.len() > stream.unsent + WAITING {
            return false;
        }
        if stream.out.is_empty() {
            self.waiting.push(place);
        }
        framing::put(datagram, &mut stream.out);
        true
    }

    fn wants_flush(&self, place: usize) -> bool {
        self.get(place).is_some_and(|stream| stream.out.len() >= stream.unsent)
    }

    /// Writes what the kernel takes, and tells the sessions where it takes no more, or does again.
    fn flush(&mut self, now: Instant, place: usize, endpoint: &mut Endpoint, poller: &Poller) {
        let Some(Some(stream)) = self.list.get_mut(place) else { return };
        match stream.flush(now) {
            Ok(is_blocked) if is_blocked != stream.is_blocked => {
                stream.is_blocked = is_blocked;
                let interest = if is_blocked { Interest::ReadWrite } else { Interest::Read };
                let token = Token::Stream(place).encode();
                if let Err(error) = poller.modify(&stream.connection, token, interest) {
                    tracing::warn!(%error, "wait for room in a connection");
                }
                // A station's socket for all interfaces has connections of each under one number.
                let id = InterfaceId(stream.slot as u32);
                endpoint.set_blocked(id, Some(Via::Stream(stream.remote)), is_blocked);
            }
            Ok(_) => {}
            Err(why) => {
                tracing::debug!(remote = %stream.remote, %why, "connection ended");
                self.end(place);
            }
        }
    }

    /// Measures how much each connection may have that has not left, and since when nothing has
    /// arrived of what is under way.
    fn measure(&mut self, now: Instant) {
        for stream in self.list.iter_mut().flatten() {
            if matches!(stream.standing, Standing::Own | Standing::Known(_)) {
                stream.measure(now);
            }
        }
    }

    /// Marks a connection as ended, for [`Streams::take_ended`].
    fn end(&mut self, place: usize) {
        if let Some(stream) = self.get_mut(place) {
            let key = (stream.slot, stream.remote);
            if self.by_remote.get(&key) == Some(&place) {
                self.by_remote.remove(&key);
            }
            if let Some((slot, label, spare)) = self.dials.forget(place) {
                self.by_remote.insert((slot, label), spare);
            }
            self.counts.ended.push(place);
        }
    }

    fn end_at(&mut self, slot: usize) {
        let places: Vec<usize> = (self.list.iter().enumerate())
            .filter(|(_, stream)| stream.as_ref().is_some_and(|stream| stream.slot == slot))
            .map(|(place, _)| place)
            .collect();
        places.into_iter().for_each(|place| self.end(place));
    }

    fn take_ended(&mut self) -> Vec<Stream> {
        let ended = std::mem::take(&mut self.counts.ended);
        ended.into_iter().filter_map(|place| self.list.get_mut(place)?.take()).collect()
    }
}

impl Stream {
    /// Reads what has come, once.
    fn read(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        buffer: &mut [u8],
        endpoint: &mut Endpoint,
        counts: &mut StreamCounts,
    ) -> Result<(), String> {
        let most = match self.standing {
            Standing::Stranger(brought) => strangers::may_bring(brought)?,
            _ => buffer.len(),
        };
        let bytes = match self.connection.read(&mut buffer[..most]) {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => return Err("the other end closed it".into()),
            Ok(Some(bytes)) => bytes,
            Err(error) => return Err(error.to_string()),
        };
        if let Standing::Stranger(brought) = &mut self.standing {
            *brought += bytes;
        }
        // What came in during the turn is later than the turn's own time.
        let now = clock::now().max(now);
        let source = Via::Stream(self.remote);
        let received = Received { interface, local: None, source, ecn: 0 };
        let fed = self.deframer.feed(&mut buffer[..bytes], |datagram| {
            if endpoint.admit_datagram(now, &received, datagram) {
                self.heard = now;
            }
        });
        fed.map_err(|error| {
            counts.malformed += 1;
            error.to_string()
        })
    }

    /// Writes what the kernel takes while it has little that has not left; tells whether something
    /// is left.
    fn flush(&mut self, now: Instant) -> std::io::Result<bool> {
        while !self.out.is_empty() {
            let room = self.unsent.saturating_sub(self.connection.unsent()?);
            if room == 0 {
                return Ok(true);
            }
            let piece = self.out.len().min(room);
            let written = self.connection.write(&self.out[..piece])?;
            self.written += written as u64;
            self.out.drain(..written);
            self.stands_since.get_or_insert(now);
            if written < piece {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn measure(&mut self, now: Instant) {
        let unacknowledged = self.connection.unacknowledged().unwrap_or(0) as u64;
        let arrived = self.written.saturating_sub(unacknowledged);
        if arrived > self.arrived || unacknowledged == 0 {
            self.arrived = arrived;
            self.stands_since = (unacknowledged > 0).then_some(now);
        }
        if self.is_blocked
            && let Ok(info) = self.connection.info()
        {
            let lasts = info.delivery_rate.bytes_in(UNSENT_LASTS).min(MOST_UNSENT) as usize;
            let unsent = lasts.max(LEAST_UNSENT);
            // The kernel says that there is room when less than half of it is taken.
            if unsent != self.unsent && self.connection.set_unsent(unsent).is_ok() {
                self.unsent = unsent;
            }
        }
    }

    /// Returns for how long nothing has arrived of what is under way.
    fn stands_for(&self, now: Instant) -> Duration {
        self.stands_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}
