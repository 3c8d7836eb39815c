//! Guests: peers that `fulmar pair` has a station take on for a while, each with a session that
//! carries texts of enrolment and nothing else. What those mean is none of the daemon's business.
//!
//! ```text
//! fulmar pair ── guest socket ── Desk ── Guest ── session ── drone
//! ```
//!
//! A guest lives no longer than the connection that asked for it. Tunnel, endpoints and the status
//! of peers do not know it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use proto::{
    Delivery, Duration, Event, Instant, MAX_SESSIONS, MessageStream, PeerId, PublicKey, SessionId,
    Source, StaticSecret,
};
use sys::poller::{Interest, Poller, Ready};
use sys::seqpacket::{Incoming, Seqpacket, SeqpacketListener};

use super::Daemon;
use super::tokens::Token;
use crate::guest_socket::{
    Identity, LONGEST_REQUEST, LONGEST_STAY, LONGEST_TEXT, Report, Request, beside,
};
use crate::socket_file::{MadeDirectories, make_room};

/// The channel of what guests say.
pub(crate) const CHANNEL: u8 = 1;
/// Connections at a time; one more is turned away.
const DESKS: usize = 4;
/// Requests that one turn takes from a connection.
const AT_A_TIME: usize = 16;
/// Texts that are heard of one guest in all: each of a drone's attempts takes four.
const TEXTS: u32 = 256;
/// Room for what is said to `fulmar pair`; what does not fit is dropped, and drones repeat
/// themselves.
const ROOM: usize = 1 << 20;

/// Who waits at the door.
pub(super) struct Guests {
    listener: SeqpacketListener,
    /// By the part that they have in tokens, from 1 on.
    desks: BTreeMap<usize, Desk>,
    /// Sessions of guests that were turned away, until they are over.
    leaving: BTreeSet<SessionId>,
    buffer: Vec<u8>,
    _directories: MadeDirectories,
}

/// One connection of `fulmar pair`, and what it has asked for.
struct Desk {
    socket: Seqpacket,
    /// Nothing was asked for yet where there is no end.
    until: Option<Instant>,
    guests: Vec<Guest>,
}

struct Guest {
    id: PeerId,
    key: PublicKey,
    session: Option<SessionId>,
    /// Texts that were heard of it.
    heard: u32,
}

impl Guests {
    /// Waits for `fulmar pair` beside the status socket.
    ///
    /// # Errors
    /// Those of the file system, and of [`make_room`].
    pub(super) fn open(status: &Path, poller: &Poller) -> io::Result<Self> {
        let path = beside(status);
        let directories = make_room(&path)?;
        // Whoever connects may let peers in: that is for the daemon's user and root.
        let listener = SeqpacketListener::bind(&path, 0o600)?;
        poller.add(&listener, Token::Guests(0).encode(), Interest::Read)?;
        Ok(Self {
            listener,
            desks: BTreeMap::new(),
            leaving: BTreeSet::new(),
            buffer: vec![0; LONGEST_REQUEST],
            _directories: directories,
        })
    }

    /// Whether anybody is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.desks.is_empty()
    }

    fn accept(&mut self, poller: &Poller) {
        let Ok(socket) = self.listener.accept() else { return };
        let free = (1..=DESKS).find(|part| !self.desks.contains_key(part));
        let Some(part) = free else { return };
        // A smaller buffer holds fewer texts.
        let _ = socket.set_send_buffer(ROOM);
        if poller.add(&socket, Token::Guests(part).encode(), Interest::Read).is_ok() {
            self.desks.insert(part, Desk { socket, until: None, guests: Vec::new() });
        }
    }

    /// Receives a request; none where there is no other for now, an error where there will be none.
    fn request(&mut self, part: usize) -> Result<Option<Request>, ()> {
        let Some(desk) = self.desks.get(&part) else { return Err(()) };
        match desk.socket.receive(&mut self.buffer) {
            Ok(Incoming::Message(length)) => {
                serde_json::from_slice(&self.buffer[..length]).map(Some).map_err(|_| ())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Ok(Incoming::TooLong(_) | Incoming::End) | Err(_) => Err(()),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Guest> {
        self.desks.values().flat_map(|desk| &desk.guests)
    }

    /// Finds a guest, with the connection that asked for it and its number there.
    fn find(&mut self, is: impl Fn(&Guest) -> bool) -> Option<(&Seqpacket, usize, &mut Guest)> {
        self.desks.values_mut().find_map(|Desk { socket, guests, .. }| {
            let (number, guest) = guests.iter_mut().enumerate().find(|(_, guest)| is(guest))?;
            Some((&*socket, number, guest))
        })
    }
}

impl Daemon {
    /// Hears `fulmar pair`.
    pub(super) fn handle_guests(&mut self, now: Instant, part: usize, ready: Ready) {
        let Some(guests) = self.guests.get_mut() else { return };
        if part == 0 {
            return guests.accept(&self.poller);
        }
        if !ready.readable {
            return self.close_desk(now, part);
        }
        for _ in 0..AT_A_TIME {
            let Some(guests) = self.guests.get_mut() else { return };
            let done = match guests.request(part) {
                Ok(None) => return,
                Ok(Some(request)) => self.handle_request(now, part, request),
                Err(()) => Err(()),
            };
            if done.is_err() {
                return self.close_desk(now, part);
            }
        }
        // What is left is told again: the poller tells what is so, not what has changed.
    }

    /// Turns away guests whose time is over.
    pub(super) fn end_guests(&mut self, now: Instant) {
        let Some(guests) = self.guests.get() else { return };
        let is_over = |desk: &Desk| desk.until.is_some_and(|until| until <= now);
        let over = guests.desks.iter().filter(|(_, desk)| is_over(desk)).map(|(part, _)| *part);
        for part in over.collect::<Vec<_>>() {
            self.close_desk(now, part);
        }
    }

    /// Follows the sessions of guests; tells whether an event was one of theirs.
    pub(super) fn is_of_guests(&mut self, session: SessionId, event: &Event) -> bool {
        let Self { guests, endpoint, .. } = self;
        let Some(guests) = guests.get_mut() else { return false };
        let is_over = matches!(event, Event::Disconnected { .. });
        if guests.leaving.contains(&session) {
            if is_over {
                guests.leaving.remove(&session);
            }
            return true;
        }
        let peer = match event {
            Event::Connected { peer } => Some(*peer),
            _ => None,
        };
        let found = guests.find(|guest| Some(guest.id) == peer || guest.session == Some(session));
        let Some((socket, number, guest)) = found else { return false };
        match event {
            Event::Connected { .. } => {
                guest.session = Some(session);
                let from = endpoint.paths(session).next().map(|path| path.remote);
                let from = from.map_or_else(String::new, |from| from.to_string());
                tracing::info!(guest = %guest.key, from, "somebody uses a pairing code");
                report(socket, &Report::Came { guest: number, from });
            }
            Event::Contested { from } => {
                tracing::warn!(%from, "a second one uses the same pairing code; it was turned away");
                report(socket, &Report::Doubled { guest: number, from: from.to_string() });
            }
            Event::Disconnected { .. } => {
                guest.session = None;
                report(socket, &Report::Left { guest: number });
            }
            _ => {}
        }
        true
    }

    /// Passes on what a guest says; everything else that it may send ends here.
    pub(super) fn take_from_guest(&mut self, delivery: &Delivery) {
        let Some(guests) = self.guests.get_mut() else { return };
        let found = guests.find(|guest| guest.session == Some(delivery.session));
        let Some((socket, number, guest)) = found else { return };
        if (delivery.channel, delivery.stream) != (CHANNEL, Some(0)) || guest.heard > TEXTS {
            return;
        }
        guest.heard += 1;
        if delivery.bytes.len() > LONGEST_TEXT || guest.heard > TEXTS {
            guest.heard = TEXTS + 1;
            tracing::warn!(guest = %guest.key, "a guest says too much and is no longer heard");
            return;
        }
        let text = String::from_utf8_lossy(&delivery.bytes).into_owned();
        report(socket, &Report::Said { guest: number, text });
    }

    fn handle_request(&mut self, now: Instant, part: usize, request: Request) -> Result<(), ()> {
        let (number, text) = match request {
            Request::TakeOn { seconds, guests } => {
                return self.take_guests_on(now, part, seconds, guests);
            }
            Request::Tell { guest, text } => (guest, text),
        };
        let Some(guests) = self.guests.get() else { return Err(()) };
        let desk = guests.desks.get(&part).ok_or(())?;
        let source = Source::Message { channel: CHANNEL, stream: MessageStream::default() };
        if let Some(session) = desk.guests.get(number).ok_or(())?.session {
            // Where it does not go, the drone asks again.
            let _ = self.endpoint.send(now, session, source, text.as_bytes());
        }
        Ok(())
    }

    fn take_guests_on(
        &mut self,
        now: Instant,
        part: usize,
        seconds: u64,
        identities: Vec<Identity>,
    ) -> Result<(), ()> {
        let taken = self.admit(now, part, seconds, &identities);
        let Some(guests) = self.guests.get() else { return Err(()) };
        let desk = guests.desks.get(&part).ok_or(())?;
        match taken {
            Ok(()) => {
                let count = identities.len();
                tracing::info!(count, seconds, "pairing codes are valid");
                report(&desk.socket, &Report::TakenOn);
                Ok(())
            }
            Err(why) => {
                report(&desk.socket, &Report::Refused { why });
                Err(())
            }
        }
    }

    /// Takes guests on, or none of them.
    fn admit(
        &mut self,
        now: Instant,
        part: usize,
        seconds: u64,
        identities: &[Identity],
    ) -> Result<(), String> {
        let read = |identity: &Identity| {
            let key =
                identity.public_key.parse::<PublicKey>().map_err(|error| error.to_string())?;
            let shared = identity.preshared_key.parse::<StaticSecret>();
            Ok((key, shared.map_err(|error| error.to_string())?))
        };
        let identities: Vec<_> = identities.iter().map(read).collect::<Result<_, String>>()?;
        let Self { guests, endpoint, config, .. } = self;
        let Some(guests) = guests.get_mut() else {
            return Err("its socket is not open".into());
        };
        let longest = LONGEST_STAY.as_secs();
        if !(1..=longest).contains(&seconds) {
            return Err(format!("guests stay for 1 to {longest} s"));
        }
        let (peers, others) = (config.peers.len(), guests.all().count());
        if peers + others + identities.len() > MAX_SESSIONS {
            return Err(format!(
                "with {peers} peers and {others} other guests they are more than {MAX_SESSIONS}"
            ));
        }
        let mut known: BTreeSet<PublicKey> = config.peers.iter().map(|peer| peer.key).collect();
        known.extend(guests.all().map(|guest| guest.key));
        known.insert(config.secret.public());
        if identities.iter().any(|(key, _)| key.is_weak() || !known.insert(*key)) {
            return Err("one of their keys is known already, or nobody's".into());
        }
        let desk = guests.desks.get_mut(&part).ok_or("it has gone")?;
        if desk.until.is_some() {
            return Err("it has guests already".into());
        }
        desk.until = Some(now + Duration::from_secs(seconds));
        let guest = |(key, shared): &(PublicKey, StaticSecret)| {
            let id = endpoint.add_peer(*key, Some(&shared.to_bytes()));
            Guest { id, key: *key, session: None, heard: 0 }
        };
        desk.guests = identities.iter().map(guest).collect();
        Ok(())
    }

    /// Ends a connection of `fulmar pair`, and with it its guests.
    fn close_desk(&mut self, now: Instant, part: usize) {
        let Some(guests) = self.guests.get_mut() else { return };
        let Some(desk) = guests.desks.remove(&part) else { return };
        if desk.until.is_some() {
            tracing::info!(count = desk.guests.len(), "pairing codes are no longer valid");
        }
        desk.guests.iter().for_each(|guest| self.turn_away(now, guest));
    }

    fn turn_away(&mut self, now: Instant, guest: &Guest) {
        if let (Some(session), Some(guests)) = (guest.session, self.guests.get_mut()) {
            guests.leaving.insert(session);
        }
        self.endpoint.remove_peer(now, guest.id);
    }
}

/// Tells `fulmar pair` something; what it has no room for is dropped.
fn report(socket: &Seqpacket, report: &Report) {
    let Ok(text) = serde_json::to_vec(report) else { return };
    if let Err(error) = socket.send(&text) {
        tracing::debug!(%error, "tell fulmar pair");
    }
}
