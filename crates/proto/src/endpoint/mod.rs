//! The endpoint: which session a datagram belongs to, and how sessions come to have keys.
//!
//! The public surface of the crate. It owns the sessions, turns strangers away before the
//! costly part of a handshake, and makes handshakes. What happens inside a session (selection,
//! delivery, paths, congestion) is not here.
//!
//! ```text
//! add_peer → connect → add_path → poll_transmit … handle_datagram → poll_event: Connected → send
//! after every input: poll_transmit until None, poll_delivery, poll_event, then sleep until timeout
//! ```
//!
//! A driver that is short of time splits `handle_datagram`: it admits everything that has come, and
//! then serves the sessions in turns, the one that has cost the least first (`turns`).
//!
//! What is called for each packet is never inlined: a driver's own code may be compiled to be
//! small, this is to be fast.

mod counters;
mod due;
mod inbound;
mod initiator;
mod limiter;
mod outbound;
mod peers;
mod responder;
mod sessions;
mod turns;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use units::Instant;

pub use counters::EndpointCounters;
pub use turns::{Share, Work};

use crate::crypto::{Entropy, PublicKey, StaticSecret, WIRE_VERSION};
use crate::event::{Delivery, Event, MessageId};
use crate::ids::{InterfaceId, PathId, PathRef, PeerId, Received, SessionId};
use crate::limits;
use crate::memory::{Account, Memory};
use crate::path::{PathUse, RelayRoom};
use crate::select::{NotForwarded, Reliability, SelectorConfig};
use crate::session::{Drawn, PathError, Role, SendError, Session, SessionConfig, Source};
use crate::status::{PathGlance, PathStatus, SessionStatus};
use crate::via::{RelayId, Via};
use inbound::Job;
use initiator::Initiator;
pub(crate) use limiter::TokenBucket;
use outbound::Answer;
use peers::Peers;
pub use responder::Asking;
use responder::Responder;
use sessions::{Sessions, Slot};
use turns::Turns;

/// Configures an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Our key pair.
    pub secret: StaticSecret,
    /// Random bytes of the operating system, fresh at every start: they seed every key.
    pub entropy: [u8; 32],
    /// Whether peers may begin sessions with us: a station does that.
    pub accept: bool,
    /// How sessions work.
    pub session: SessionConfig,
}

/// Keeps the sessions of one daemon: a drone's one, or a station's many.
///
/// Nothing here blocks, reads a clock or touches a socket. `now` never goes back.
pub struct Endpoint {
    secret: StaticSecret,
    /// The version of the wire: [`WIRE_VERSION`], but for tests.
    wire: u8,
    accept: bool,
    config: SessionConfig,
    entropy: Entropy,
    peers: Peers,
    sessions: Sessions,
    responder: Responder,
    answers: VecDeque<Answer>,
    /// What came in and waits for its turn.
    turns: Turns<Job>,
    /// How often senders of data that we have no keys for are told.
    unknowns: TokenBucket,
    /// Datagrams of sessions that are to take the place of others, and until when those may show
    /// that they live.
    held: VecDeque<(Instant, Received, Vec<u8>)>,
    /// An answer went out last: a session's datagram comes before the next one.
    answered_last: bool,
    /// What sessions that are gone have left behind.
    events: VecDeque<(SessionId, Event)>,
    deliveries: VecDeque<Delivery>,
    counters: EndpointCounters,
    /// Datagrams of sessions that came over relays and were not authentic.
    not_authentic: BTreeMap<RelayId, u64>,
    memory: Arc<Memory>,
    /// The latest moment that any input told.
    now: Instant,
}

impl Endpoint {
    /// Makes an endpoint without peers and sessions.
    pub fn new(config: EndpointConfig, now: Instant) -> Self {
        let mut entropy = Entropy::new(config.entropy);
        let responder = Responder::new(now, &config.secret.public(), &mut entropy);
        Self {
            secret: config.secret,
            wire: WIRE_VERSION,
            accept: config.accept,
            config: config.session,
            entropy,
            peers: Peers::default(),
            sessions: Sessions::default(),
            responder,
            answers: VecDeque::new(),
            turns: Turns::default(),
            unknowns: TokenBucket::new(limits::UNKNOWNS_PER_SECOND, limits::UNKNOWNS_BURST),
            held: VecDeque::new(),
            answered_last: false,
            events: VecDeque::new(),
            deliveries: VecDeque::new(),
            counters: EndpointCounters::default(),
            not_authentic: BTreeMap::new(),
            memory: Arc::default(),
            now,
        }
    }

    /// Makes a peer known by its public key and, where there is one, the pre-shared key.
    ///
    /// A key that is known already keeps its name; the pre-shared key is replaced.
    pub fn add_peer(&mut self, key: PublicKey, psk: Option<&[u8; 32]>) -> PeerId {
        self.peers.add(&self.secret, key, psk)
    }

    /// Forgets a peer: its sessions end at once, and it is told; the last datagrams still have to
    /// be polled. Nothing that it had asked for before is answered any more.
    pub fn remove_peer(&mut self, now: Instant, peer: PeerId) {
        self.now = now;
        self.peers.remove(peer);
        self.responder.forget_peer(peer);
        for id in self.sessions.with(peer) {
            if let Some(slot) = self.sessions.get_mut(id) {
                slot.closed = true;
                slot.session.revoke(now);
            }
        }
    }

    /// Returns the public key of a peer.
    pub fn peer_key(&self, peer: PeerId) -> Option<PublicKey> {
        self.peers.get(peer).map(|peer| peer.key)
    }

    /// Begins a session with a peer: as soon as there is a path, handshakes are tried until one
    /// succeeds, and again whenever the peer falls silent or has lost the session.
    ///
    /// There is one such session with a peer: until it is closed, it is what comes back.
    pub fn connect(&mut self, now: Instant, peer: PeerId) -> SessionId {
        self.now = now;
        if let Some(id) = self.sessions.begun_with(peer) {
            return id;
        }
        let id = self.sessions.next_id();
        let nonce = self.entropy.u64();
        let session = self.new_session(now, id, (peer, nonce), Role::Initiator);
        self.sessions.insert(id, Slot::new(peer, nonce, session, Some(Initiator::new())));
        id
    }

    /// Opens a path of a session that [`Endpoint::connect`] began; before it has keys or after.
    ///
    /// # Errors
    /// [`PathError::TooMany`] beyond the bound on paths, [`PathError::NoSession`] for a session
    /// that is gone or that the peer began.
    pub fn add_path(
        &mut self,
        now: Instant,
        session: SessionId,
        interface: InterfaceId,
        remote: impl Into<Via>,
    ) -> Result<PathId, PathError> {
        self.now = now;
        let slot = self.sessions.get_mut(session).filter(|slot| slot.initiator.is_some());
        let slot = slot.ok_or(PathError::NoSession)?;
        let path = slot.session.add_path(now, interface, remote.into())?;
        slot.follow_paths(now);
        Ok(path)
    }

    /// Returns how many more paths a session can open in its life: it has 256 numbers for them, and
    /// none serves twice.
    pub fn path_numbers_left(&self, session: SessionId) -> usize {
        self.sessions.get(session).map_or(0, |slot| slot.session.path_numbers_left())
    }

    /// Gives up a path for good.
    pub fn remove_path(&mut self, now: Instant, session: SessionId, path: PathId) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(session) {
            slot.session.remove_path(now, path);
            slot.follow_paths(now);
        }
    }

    /// Says how a path that was opened here is to be used; the peer is told. Until it is said, a
    /// path costs what others do and carries everything.
    pub fn set_path_use(&mut self, now: Instant, session: SessionId, path: PathId, usage: PathUse) {
        self.now = now;
        let slot = self.sessions.get_mut(session).filter(|slot| slot.initiator.is_some());
        if let Some(slot) = slot {
            slot.session.set_path_use(now, path, usage);
        }
    }

    /// Tells the peer of a session something of this end, for people: a text of up to
    /// [`crate::NOTE_BYTES`] under a name, of which the newest counts; an empty one takes it back.
    /// It is told until it has arrived, in a session that takes the place of this one too.
    pub fn set_note(&mut self, session: SessionId, name: u16, text: &[u8]) {
        // Whoever says the same each second costs no look at the session.
        let is_news = |slot: &Slot| slot.session.is_note_news(name, text);
        if self.sessions.get(session).is_some_and(is_news)
            && let Some(slot) = self.sessions.get_mut(session)
        {
            slot.session.set_note(name, text);
        }
    }

    /// Walks what the peer of a session tells of itself. It is the peer's word: of any bytes, and
    /// of any sense.
    pub fn notes(&self, session: SessionId) -> impl Iterator<Item = (u16, &[u8])> {
        self.sessions.get(session).into_iter().flat_map(|slot| slot.session.notes())
    }

    /// Returns what the peer of a session tells of itself under a name.
    pub fn note(&self, session: SessionId, name: u16) -> Option<&[u8]> {
        self.notes(session).find(|(known, _)| *known == name).map(|(_, text)| text)
    }

    /// Returns a number that changes whenever the peer of a session tells something new.
    pub fn notes_revision(&self, session: SessionId) -> u64 {
        self.sessions.get(session).map_or(0, |slot| slot.session.notes_revision())
    }

    /// Takes another packet selector and other targets of classes, for everything that is handed in
    /// from now on.
    ///
    /// Targets of declared endpoints come with each packet; those of which none comes any more are
    /// forgotten.
    pub fn set_policies(
        &mut self,
        now: Instant,
        selector: SelectorConfig,
        reliability: Reliability,
    ) {
        self.now = now;
        (self.config.selector, self.config.reliability) = (selector, reliability);
        let config = &self.config;
        self.sessions.give_all(|slot| {
            slot.session.set_policies(now, config);
            true
        });
    }

    /// Looks for the peer's end of a path at another address too, one of the same family; the path
    /// moves there when it answers, and handshakes go there as well.
    pub fn suggest_remote(
        &mut self,
        now: Instant,
        session: SessionId,
        path: PathId,
        remote: impl Into<Via>,
    ) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(session) {
            slot.session.suggest(now, path, remote.into());
            slot.follow_paths(now);
        }
    }

    /// Follows addresses of this host that are gone: `moved` is told an interface and the address
    /// that a path sends from, and returns the one in its place, with the port to reach us at, if
    /// it is gone. Peers hear of it by what comes from there, and by their other paths.
    pub fn move_local(
        &mut self,
        now: Instant,
        moved: impl Fn(InterfaceId, IpAddr) -> Option<SocketAddr>,
    ) {
        self.now = now;
        self.sessions.give_all(|slot| slot.session.move_local(now, &moved));
    }

    /// Learns how long IP packets are that interfaces carry, where that is known: paths need not
    /// find that out. To be called when one has changed, or a path is new there.
    pub fn set_interface_mtus(&mut self, now: Instant, mtu: impl Fn(InterfaceId) -> Option<usize>) {
        self.now = now;
        self.sessions.give_all(|slot| {
            slot.session.set_interface_mtus(now, &mtu);
            true
        });
    }

    /// Notes that the interface of a path has vanished or is there again.
    pub fn set_path_present(
        &mut self,
        now: Instant,
        session: SessionId,
        path: PathId,
        present: bool,
    ) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(session) {
            slot.session.set_present(now, path, present);
            slot.follow_paths(now);
        }
    }

    /// Notes that the socket of an interface, or the one for an address behind it, is full or takes
    /// datagrams again: until then nothing is given out for its paths, and the other paths carry
    /// on.
    pub fn set_blocked(&mut self, interface: InterfaceId, remote: Option<Via>, blocked: bool) {
        self.sessions.give_all(|slot| slot.session.set_blocked(interface, remote, blocked));
    }

    /// Learns what the gateway of a relayed link takes. To be called before each
    /// [`Endpoint::poll_transmit`] when that has changed: nothing is bound to the link before it
    /// has room.
    pub fn set_relay_room(&mut self, relay: RelayId, room: RelayRoom) {
        self.sessions.give_all(|slot| slot.session.set_relay_room(relay, room));
    }

    /// Learns what the gateway of a relayed link says has become of a datagram ([`crate::Fate`]),
    /// by the path and number that [`crate::Transmit`] had: nobody else says that one is lost.
    pub fn on_relay_fate(&mut self, now: Instant, path: PathRef, number: u64, arrived: bool) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(path.session) {
            slot.session.on_relay_fate(now, path.path, number, arrived);
        }
    }

    /// Notes that a datagram has not left, since the kernel refused it, by the path and number that
    /// [`crate::Transmit`] had: it is missing, but the path has not lost it.
    pub fn on_unsent(&mut self, path: PathRef, number: u64) {
        if let Some(slot) = self.sessions.get_mut(path.session) {
            slot.session.on_unsent(path.path, number);
        }
    }

    /// Returns how many datagrams of sessions came by a relayed link that were not authentic:
    /// somebody with the key of its group lies [specs/relay.md §2].
    pub fn not_authentic_by(&self, relay: RelayId) -> u64 {
        self.not_authentic.get(&relay).copied().unwrap_or_default()
    }

    /// Takes in a packet of the application.
    ///
    /// Returns a name for a message of reliable delivery, whose end an event will tell; nothing
    /// for other packets.
    ///
    /// # Errors
    /// [`SendError::Busy`] is back-pressure: try again after the next event.
    /// [`SendError::TooLarge`] says how much fits. [`SendError::NoSession`] when it is gone.
    pub fn send(
        &mut self,
        now: Instant,
        session: SessionId,
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        self.send_late((now, now), session, source, bytes)
    }

    /// Takes in a packet that came to this host before now: its age counts from then.
    ///
    /// # Errors
    /// Those of [`Endpoint::send`]; [`SendError::TooOld`] where its time to live is over.
    #[inline(never)]
    pub fn send_late(
        &mut self,
        (now, came): (Instant, Instant),
        session: SessionId,
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        self.now = now;
        let slot = self.sessions.get_mut(session).filter(|slot| !slot.closed);
        slot.ok_or(SendError::NoSession)?.session.send((now, came), source, bytes)
    }

    /// Returns the next packet or message for the application.
    #[inline(never)]
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        let kept = self.deliveries.pop_front();
        kept.or_else(|| self.sessions.poll_delivery(self.now))
    }

    /// Returns the next packet or message that one session has for the application.
    pub fn poll_delivery_of(&mut self, session: SessionId) -> Option<Delivery> {
        self.sessions.poll_delivery_of(session)
    }

    /// Returns what happened next, and to which session.
    pub fn poll_event(&mut self) -> Option<(SessionId, Event)> {
        self.events.pop_front().or_else(|| self.sessions.poll_event(self.now))
    }

    /// Returns when [`Endpoint::handle_timeout`] must be called next, if nothing else happens.
    pub fn timeout(&self) -> Option<Instant> {
        let held = self.held.front().map(|(until, ..)| *until);
        let own = self.responder.timeout().into_iter().chain(held);
        own.chain(self.sessions.timeout(self.now)).min()
    }

    /// Lets time pass; [`Endpoint::poll_transmit`] is to be called afterwards.
    ///
    /// What waits for [`Endpoint::serve`] is handled before the timers of its session, and of many
    /// sessions that are due some are left for the next call: [`Endpoint::timeout`] says then that
    /// it has come.
    #[inline(never)]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.responder.handle_timeout(now);
        while let Some((asked, response)) = self.responder.poll_again(now) {
            self.counters.responses_repeated += 1;
            self.answer(&asked, response.to_vec());
        }
        self.release_held(now);
        let Self { sessions, turns, .. } = self;
        sessions.handle_timeout(now, |id| turns.waits_since(Share::Session(id)));
        self.reap(now, Session::is_over);
    }

    /// Tells whether the peer has answered a handshake of this session lately by saying that it
    /// does not know our key, or has another pre-shared key. Anybody on the way can say so: for
    /// people alone.
    pub fn is_refused(&self, session: SessionId) -> bool {
        let initiator = self.sessions.get(session).and_then(|slot| slot.initiator.as_ref());
        initiator.is_some_and(Initiator::is_refused)
    }

    /// Returns since when a peer's handshakes are answered in vain: none of the answers has been
    /// used. Whoever recorded a handshake can send it once more, so it is for people alone.
    pub fn asked(&self, peer: PeerId) -> Option<Asking> {
        self.responder.asking(peer)
    }

    /// Returns when another one came with the key of a session's peer last, and was turned away,
    /// and from where.
    pub fn contested(&self, session: SessionId) -> Option<(Instant, Via)> {
        self.sessions.get(session)?.session.contested()
    }

    /// Lists what of MAVLink a session has not forwarded: by which channel, why, and how much of
    /// it.
    pub fn not_forwarded(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = (u8, NotForwarded, u64)> + '_ {
        self.sessions.get(session).into_iter().flat_map(|slot| slot.session.not_forwarded())
    }

    /// Ends a session and tells the peer; its last datagrams still have to be polled.
    pub fn close(&mut self, now: Instant, session: SessionId) {
        self.now = now;
        if let Some(slot) = self.sessions.get_mut(session) {
            slot.closed = true;
            slot.session.close(now);
        }
    }

    /// Walks the sessions, connected or not.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, PeerId)> + '_ {
        self.sessions.iter().map(|(id, slot)| (id, slot.peer))
    }

    /// Shows a session at this moment.
    pub fn status(&self, now: Instant, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(session).map(|slot| slot.session.status(now))
    }

    /// Shows each path of a session, which costs less than the session as a whole.
    pub fn path_statuses(
        &self,
        now: Instant,
        session: SessionId,
    ) -> impl Iterator<Item = PathStatus> + '_ {
        let slot = self.sessions.get(session).into_iter();
        slot.flat_map(move |slot| slot.session.path_statuses(now))
    }

    /// Shows the least of each path of a session.
    pub fn paths(&self, session: SessionId) -> impl Iterator<Item = PathGlance> + '_ {
        self.sessions.get(session).into_iter().flat_map(|slot| slot.session.glances())
    }

    /// Returns what a session's datagrams, or handshakes, have cost so far.
    pub fn work(&self, share: Share) -> Work {
        self.turns.work(share)
    }

    /// Sets how many bytes the sessions may hold together; without it that is [`crate::MEMORY`].
    /// Each may hold [`crate::SESSION_SHARE`] whatever the others do, so there are as many sessions
    /// as there are shares.
    pub fn set_memory_bound(&mut self, bytes: usize) {
        self.memory.set_bound(bytes);
    }

    /// Returns how many bytes the sessions may hold together.
    pub fn memory_bound(&self) -> usize {
        self.memory.bound()
    }

    /// Returns how many bytes they hold, about.
    pub fn memory_held(&self) -> usize {
        self.sessions.iter().map(|(_, slot)| slot.session.held()).sum()
    }

    /// Returns what was done with datagrams so far.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Seals frames that no session would build; see `fuzzing`.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(crate) fn seal_frames(
        &mut self,
        session: SessionId,
        path: PathId,
        frames: &[u8],
    ) -> Option<Vec<u8>> {
        self.sessions.get_mut(session)?.session.seal_frames(path, frames)
    }

    fn new_session(
        &mut self,
        now: Instant,
        id: SessionId,
        (peer, nonce): (PeerId, u64),
        role: Role,
    ) -> Session {
        let account = Account::new(Arc::clone(&self.memory));
        let drawn = Drawn { seed: self.entropy.u64(), nonce };
        Session::new(id, peer, role, &self.config, drawn, (account, now))
    }

    /// Buries sessions that are over; those that we began start again unless we closed them.
    fn reap(&mut self, now: Instant, is_over: fn(&Session) -> bool) {
        for id in self.sessions.over(now, is_over) {
            let ours = self.sessions.get(id).is_some_and(|s| s.initiator.is_some() && !s.closed);
            if ours {
                let nonce = self.entropy.u64();
                self.restart(now, id, nonce);
            } else {
                self.bequeath(id);
                self.sessions.remove(id);
            }
        }
    }

    /// Starts a session again under its old name and with its old paths.
    fn restart(&mut self, now: Instant, id: SessionId, nonce: u64) {
        self.bequeath(id);
        let seed = self.entropy.u64();
        if let Some(slot) = self.sessions.get_mut(id) {
            if let (true, Some(initiator)) = (slot.session.was_refused(), &mut slot.initiator) {
                initiator.pause(now + limits::TURNED_AWAY);
            }
            slot.nonce = nonce;
            slot.session = slot.session.successor(&self.config, Drawn { seed, nonce }, now);
            slot.follow_paths(now);
        }
    }

    /// Keeps what a session has still to say when it goes; what it has not heard yet is forgotten.
    fn bequeath(&mut self, id: SessionId) {
        self.turns.remove(Share::Session(id));
        if let Some(slot) = self.sessions.get_mut(id) {
            self.events.extend(core::iter::from_fn(|| slot.session.poll_event()).map(|e| (id, e)));
            self.deliveries.extend(core::iter::from_fn(|| slot.session.poll_delivery()));
        }
    }
}

/// Draws an index that names nothing yet.
fn fresh_index(entropy: &mut Entropy, sessions: &Sessions, responder: &Responder) -> u32 {
    loop {
        let index = entropy.u32();
        if sessions.owner(index).is_none() && !responder.holds(index) {
            return index;
        }
    }
}
