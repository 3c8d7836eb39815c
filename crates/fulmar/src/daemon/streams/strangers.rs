//! The station's side: who has connected, until a session answers there.
//!
//! ```text
//! accepted → at most 64 in all and 4 from an address (else: closed) → lengths that can be →
//!            handshakes and data as by UDP → a session sends there: no stranger any more
//! ```
//! A stranger is read 4 KiB at a time, holds one datagram at most, brings 16 KiB at most, and is
//! closed after 10 s. It hears nothing before its first datagram is one for our key; and a session
//! sends there only when what came was authentic and new, so that a repeated handshake is not
//! enough. Where all places are taken, or all of an address, one of them that has not brought
//! anything for a second makes room.

use std::net::{IpAddr, SocketAddr};

use proto::{Duration, Instant, SessionId};
use sys::connection::Connection;
use sys::poller::{Interest, Poller};

use super::super::Daemon;
use super::super::tokens::Token;
use super::{IDLE, Standing, Stream, Streams};

/// Strangers in all.
const MOST: usize = 64;
/// Strangers from one address.
pub(super) const MOST_OF_ADDRESS: usize = 4;
/// Connections of one session: all that it may have paths, twice, for those that take another's
/// place.
const MOST_OF_SESSION: usize = 2 * proto::MAX_PATHS;
/// How long one may be a stranger.
const STRANGER_FOR: Duration = Duration::from_secs(10);
/// Bytes that one is read at a time, …
const AT_A_TIME: usize = 4_096;
/// … and that it may bring: handshakes over and over for ten seconds, and some data.
const MAY_BRING: usize = 16_384;
/// One that has brought nothing for so long makes room for another.
const SPEAKS_WITHIN: Duration = Duration::from_secs(1);
/// Time between two lines in the log which say that none can be accepted.
const DEAF_SAID_EVERY: Duration = Duration::from_secs(60);
/// Connections accepted at a time, so that a flood leaves room for the others.
const ACCEPTED_AT_A_TIME: usize = 64;

/// Tells whether a stranger may hear an answer: that to a handshake, which whoever made it knew our
/// public key for. That keys are not known here it does not hear.
pub(super) fn may_hear(answer: &[u8]) -> bool {
    /// Response, Cookie, Refusal, Version [specs/wire.md §1].
    const TO_HANDSHAKES: [u8; 4] = [2, 3, 5, 7];
    answer.first().is_some_and(|kind| TO_HANDSHAKES.contains(kind))
}

/// Returns how much more a stranger is read now.
///
/// # Errors
/// Says that it has brought enough.
pub(super) fn may_bring(brought: usize) -> Result<usize, String> {
    match MAY_BRING.saturating_sub(brought) {
        0 => Err(format!("{MAY_BRING} bytes and no session")),
        more => Ok(more.min(AT_A_TIME)),
    }
}

impl Daemon {
    /// Takes the connections that wait at an address.
    pub(in super::super) fn accept_streams(&mut self, now: Instant, slot: usize) {
        for _ in 0..ACCEPTED_AT_A_TIME {
            let socket = self.sockets.list.get(&slot);
            let Some(Some(listener)) = socket.map(|socket| &socket.stream) else { return };
            let accepted = match listener.as_ref().map(|listener| listener.accept()) {
                Some(Ok(Some(accepted))) => accepted,
                None | Some(Ok(None)) => return,
                Some(Err(error)) => {
                    // Most likely too many files are open: whoever waits makes the loop spin.
                    if listener.as_ref().is_some_and(|it| self.poller.remove(it).is_ok()) {
                        self.streams.deaf.push(slot);
                    }
                    if self.streams.is_deaf_news(now) {
                        tracing::warn!(%error, "accept a connection; trying again all the time");
                    }
                    return;
                }
            };
            let Self { streams, poller, .. } = self;
            streams.take_in(now, slot, accepted, poller);
            self.drop_ended(now);
        }
        self.more = true;
    }

    /// Accepts again where that failed a moment ago.
    pub(super) fn listen_again(&mut self) {
        for slot in std::mem::take(&mut self.streams.deaf) {
            let socket = self.sockets.list.get(&slot);
            if let Some(Some(Some(listener))) = socket.map(|socket| &socket.stream) {
                let token = Token::Socket(slot).encode();
                if let Err(error) = self.poller.add(listener, token, Interest::Read) {
                    tracing::warn!(%error, "wait for connections");
                }
            }
        }
    }

    /// Ends strangers whose time is over, what brings nothing any more, and what is left of a
    /// session that is over.
    pub(super) fn end_strangers(&mut self, now: Instant) {
        let Self { streams, endpoint, .. } = self;
        let is_over = |stream: &Stream| match stream.standing {
            Standing::Stranger(_) => now.since(stream.since) >= STRANGER_FOR,
            Standing::Known(session) => {
                now.since(stream.heard) >= IDLE || endpoint.paths(session).next().is_none()
            }
            Standing::Dialled | Standing::Asked | Standing::Own => false,
        };
        for place in streams.places(is_over) {
            if matches!(streams.get(place).map(|it| it.standing), Some(Standing::Stranger(_))) {
                streams.counts.cut_off += 1;
            }
            streams.end(place);
        }
    }
}

impl Streams {
    /// Takes note that a session sends to a connection: it is no stranger's, nor that of a session
    /// which went by it before.
    pub(super) fn admit(&mut self, place: usize, session: SessionId) {
        let Some(stream) = self.get_mut(place) else { return };
        let standing = std::mem::replace(&mut stream.standing, Standing::Known(session));
        match standing {
            Standing::Stranger(_) => self.counts.known += 1,
            Standing::Known(other) if other != session => {}
            same => return stream.standing = same,
        }
        let is_its = |stream: &Stream| stream.standing == Standing::Known(session);
        let own = self.places(is_its);
        if own.len() > MOST_OF_SESSION
            && let Some(oldest) =
                own.into_iter().min_by_key(|own| self.get(*own).map(|it| it.heard))
        {
            self.end(oldest);
        }
    }

    pub(super) fn take_in(
        &mut self,
        now: Instant,
        slot: usize,
        (connection, from): (Connection, SocketAddr),
        poller: &Poller,
    ) {
        self.counts.accepted += 1;
        if !self.has_room(now, from.ip()) {
            self.counts.refused += 1;
            return connection.abort();
        }
        let standing = Standing::Stranger(0);
        match self.add(now, (connection, standing), (slot, from), poller) {
            Ok(place) => {
                if let Some(old) = self.by_remote.insert((slot, from), place) {
                    self.end(old);
                }
            }
            Err(error) => tracing::debug!(%error, "wait for a connection"),
        }
    }

    /// Tells whether it is to be said that nothing can be accepted: it goes on for a while, and is
    /// tried ten times a second.
    fn is_deaf_news(&mut self, now: Instant) -> bool {
        let is_news = self.deaf_said.is_none_or(|said| now.since(said) >= DEAF_SAID_EVERY);
        if is_news {
            self.deaf_said = Some(now);
        }
        is_news
    }

    fn has_room(&mut self, now: Instant, from: IpAddr) -> bool {
        let is_stranger = |stream: &Stream| matches!(stream.standing, Standing::Stranger(_));
        let of_address = |stream: &Stream| {
            is_stranger(stream) && stream.remote.ip().to_canonical() == from.to_canonical()
        };
        let is_full_there = self.places(of_address).len() >= MOST_OF_ADDRESS;
        if !is_full_there && self.places(is_stranger).len() < MOST {
            return true;
        }
        let is_mute = |stream: &Stream| {
            let is_silent = stream.standing == Standing::Stranger(0);
            let counts = !is_full_there || of_address(stream);
            is_silent && counts && now.since(stream.since) >= SPEAKS_WITHIN
        };
        let oldest = self.places(is_mute).into_iter();
        let oldest = oldest.min_by_key(|place| self.get(*place).map(|stream| stream.since));
        oldest.is_some_and(|place| {
            self.counts.cut_off += 1;
            self.end(place);
            true
        })
    }

    /// Lists the places of connections.
    pub(super) fn places(&self, of: impl Fn(&Stream) -> bool) -> Vec<usize> {
        let all = self.list.iter().enumerate();
        let own = all.filter(|(_, stream)| stream.as_ref().is_some_and(&of));
        own.map(|(place, _)| place).collect()
    }
}
