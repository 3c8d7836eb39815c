//! The responder's side of handshakes: what may be answered, what was answered, what waits.
//!
//! ```text
//! length → mac1 → which peer? (none: a Refusal) → cookie (else: a Cookie) → answered before (then: the
//!        same Response) → the peer's limit → Diffie–Hellman → Response, keys wait
//! ```
//!
//! Only a peer gets as far as a Response, so the limit is the peer's own: nobody else spends it. A
//! station with hundreds of peers spends one Diffie–Hellman to find out which one it is.
//!
//! The keys of a Response wait here until the first datagram under them authenticates: only that
//! shows that somebody who holds the initiator's keys is there *now*. A replayed Initiation never
//! gets that far, and nothing of a running session changes before [specs/wire.md §5].
//!
//! Where a peer asks for long in vain and has no session here, nearly all is lost. Its Cookies are
//! sent twice then, which is still less than what it sent. Until its keys are used, a Response is
//! sent again unasked, to an address that a cookie has proved: for each Initiation that arrives, up
//! to three times its payload [RFC 9000 §8.1]. What has arrived is worth more than the next one,
//! which may not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::counters::EndpointCounters;
use super::limiter::TokenBucket;
use super::peers::{Peer, Peers};
use crate::crypto::{
    Asked, COOKIE, CookieJar, Entropy, EpochKeys, HandshakeError, INITIATION, MacKey, OtherVersion,
    PublicKey, RESPONSE, RefusalAnswer, StaticSecret, VersionAnswer, mac1_key,
};
use crate::ids::{PeerId, Received};
use crate::limits;
use crate::via::Via;
use crate::wire::DataHeader;

/// Decides about Initiations and keeps the keys that wait for their first use.
pub(super) struct Responder {
    public: PublicKey,
    mac1: MacKey,
    jar: CookieJar,
    /// Handshakes that a peer may still make us answer.
    allowances: BTreeMap<PeerId, TokenBucket>,
    refusals: TokenBucket,
    seen: Seen,
    /// By our index, which is also what data datagrams name.
    waiting: BTreeMap<u32, Waiting>,
    /// Indices of `waiting`, oldest first.
    order: VecDeque<u32>,
    /// When Responses are sent again; those of keys that do not wait any more are passed over.
    again: BTreeSet<(Instant, u32)>,
    /// Peers whose Initiations came, a first one without a cookie too, and that have used no keys
    /// since.
    asking: BTreeMap<PeerId, Asking>,
    /// Peers whose Initiations are of another version, each with the index of its last.
    foreign: BTreeMap<PeerId, (u32, OtherVersion)>,
}

/// A peer whose Initiations are answered, and that has used none of the keys: it does not get the
/// Responses, as far as this end knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// When the first of these Initiations came.
    pub since: Instant,
    /// When the last one came.
    pub last: Instant,
    /// Where that came from.
    pub from: Via,
}

/// Holds keys until the initiator uses them.
pub(super) struct Waiting {
    /// Who holds the other half.
    pub(super) peer: PeerId,
    /// Which of its sessions they are for.
    pub(super) session_nonce: u64,
    /// Whether the Response said that we hold this session.
    pub(super) continues: bool,
    /// The keys.
    pub(super) keys: EpochKeys,
    /// The Response, for Initiations that come again.
    pub(super) response: [u8; RESPONSE],
    /// When the Response was made, which the peer had before it used them.
    pub(super) responded_at: Instant,
    /// Where the Initiation came from, with a cookie that was bound to it; where answers are lost,
    /// each time.
    pub(super) sources: Sources,
    /// The same of the last one.
    pub(super) asked: Received,
    /// Whether answers to it are lost.
    pub(super) are_lost: bool,
    /// When its Response is sent again …
    again: Option<Instant>,
    /// … and how long to wait then.
    wait: Duration,
    /// Bytes of Responses that may still leave unasked.
    room: usize,
}

/// Addresses that a handshake has proved.
pub(super) type Sources = SmallVec<[Via; 2]>;

impl Waiting {
    /// Begins with the first Response.
    pub(super) fn new(
        (peer, session_nonce): (PeerId, u64),
        continues: bool,
        (response, keys): ([u8; RESPONSE], EpochKeys),
        (responded_at, asked): (Instant, Received),
        are_lost: bool,
    ) -> Self {
        let mut waiting = Self {
            peer,
            session_nonce,
            continues,
            keys,
            response,
            responded_at,
            sources: Sources::new(),
            asked,
            are_lost,
            again: None,
            wait: limits::SIGN_OF_LIFE,
            room: 0,
        };
        waiting.on_asked(responded_at, &asked, are_lost);
        waiting
    }

    /// Notes that an Initiation came in and is answered now, and again where answers are lost.
    fn on_asked(&mut self, now: Instant, asked: &Received, are_lost: bool) {
        let is_room = self.sources.is_empty() || are_lost && self.sources.len() < limits::PATHS;
        if is_room && !self.sources.contains(&asked.source) {
            self.sources.push(asked.source);
        }
        self.asked = *asked;
        self.are_lost |= are_lost;
        self.room = INITIATION * limits::AMPLIFICATION as usize - RESPONSE;
        if are_lost {
            // One that comes again makes it no sooner: it may have stood before a thin hop.
            self.again.get_or_insert(now + self.wait);
        }
    }
}

/// What is to be done with an Initiation before any Diffie–Hellman.
pub(super) enum Screened<'a> {
    /// Nothing.
    Drop,
    /// This datagram answers it.
    Answer(Vec<u8>),
    /// This one does; where answers are lost, as often as makes up less than the question on the
    /// way.
    Cookie { answer: [u8; COOKIE], are_lost: bool },
    /// It is this peer's, and may cost Diffie–Hellmans; whether answers to it are lost.
    Open(Asked<'a>, (PeerId, &'a Peer), bool),
}

impl Responder {
    /// Starts with fresh secrets; `public` is our own key.
    pub(super) fn new(now: Instant, public: &PublicKey, entropy: &mut Entropy) -> Self {
        Self {
            public: *public,
            mac1: mac1_key(public),
            jar: CookieJar::new(now, entropy),
            allowances: BTreeMap::new(),
            refusals: TokenBucket::new(limits::REFUSALS_PER_SECOND, limits::REFUSALS_PER_SECOND),
            seen: Seen::default(),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            again: BTreeSet::new(),
            asking: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// Looks at an Initiation as far as that is cheap.
    pub(super) fn screen<'a>(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &'a [u8],
        (secret, peers, has_session): (&StaticSecret, &'a Peers, impl Fn(PeerId) -> bool),
        entropy: &mut Entropy,
        counters: &mut EndpointCounters,
    ) -> Screened<'a> {
        let source = received.source;
        let asked = match Asked::decode(datagram, &self.mac1) {
            Ok(asked) => asked,
            Err(error) => {
                counters.on_refused(error);
                return Screened::Drop;
            }
        };
        let Some((id, peer)) = peers.find(&asked, (secret, &self.public)) else {
            counters.unknown_peer += 1;
            return self.refuse(now, &asked);
        };
        let asking =
            self.asking.entry(id).or_insert(Asking { since: now, last: now, from: source });
        if now.since(asking.last) > limits::OLD_KEYS_KEPT {
            asking.since = now;
        }
        (asking.last, asking.from) = (now, source);
        // Beside a session, which a restarted peer has left behind, answers may wait in a queue.
        let are_lost = now.since(asking.since) >= limits::SILENCE && !has_session(id);
        self.jar.refresh(now, entropy);
        if !self.jar.admits(source, &asked, &peer.shared) {
            let answer = self.jar.answer(source, &asked, &peer.shared);
            return Screened::Cookie { answer, are_lost };
        }
        if let Some(index) = self.seen.index_of(&asked.ephemeral) {
            return self.repeat(now, index, (received, are_lost), counters);
        }
        let allowance = self.allowances.entry(id).or_insert_with(|| {
            let per_second = limits::HANDSHAKES_PER_SECOND_PEER;
            TokenBucket::new(per_second, 2 * per_second)
        });
        if !allowance.take(now) {
            counters.rate_limited += 1;
            return Screened::Drop;
        }
        Screened::Open(asked, (id, peer), are_lost)
    }

    /// Returns true when keys of this index wait here.
    pub(super) fn holds(&self, index: u32) -> bool {
        self.waiting.contains_key(&index)
    }

    /// Keeps keys until their first use, and their Response for Initiations that come again.
    pub(super) fn keep(&mut self, now: Instant, ephemeral: [u8; 32], waiting: Waiting) {
        self.handle_timeout(now);
        self.foreign.remove(&waiting.peer);
        let (peer, index) = (waiting.peer, waiting.keys.local_index);
        self.seen.insert(now, ephemeral, peer, index);
        let of_peer = self.order.iter().filter(|index| self.is_of(**index, peer));
        let room = if of_peer.count() >= limits::WAITING_HANDSHAKES_PEER {
            self.order.iter().position(|index| self.is_of(*index, peer))
        } else if self.order.len() >= limits::SESSIONS {
            Some(0)
        } else {
            None
        };
        if let Some(index) = room.and_then(|position| self.order.remove(position)) {
            self.waiting.remove(&index);
        }
        self.order.push_back(index);
        self.again.extend(waiting.again.map(|at| (at, index)));
        self.waiting.insert(index, waiting);
    }

    /// Returns the next Response that is due again, and to what.
    pub(super) fn poll_again(&mut self, now: Instant) -> Option<(Received, [u8; RESPONSE])> {
        while let Some((at, index)) = self.again.first().copied().filter(|(at, _)| *at <= now) {
            self.again.pop_first();
            let Some(waiting) = self.waiting.get_mut(&index) else { continue };
            if waiting.again.take_if(|known| *known == at).is_none() {
                continue;
            }
            waiting.room -= RESPONSE;
            waiting.wait = (waiting.wait * 3 / 2).min(limits::LONGEST_SIGN_OF_LIFE);
            waiting.again = (waiting.room >= RESPONSE).then_some(now + waiting.wait);
            self.again.extend(waiting.again.map(|at| (at, index)));
            return Some((waiting.asked, waiting.response));
        }
        None
    }

    /// Returns whose keys of this index wait here, and for which session.
    pub(super) fn waiting_for(&self, index: u32) -> Option<(PeerId, u64)> {
        let waiting = self.waiting.get(&index)?;
        Some((waiting.peer, waiting.session_nonce))
    }

    /// Tells whether a datagram is authentic under keys that wait.
    pub(super) fn is_authentic(&self, header: &DataHeader, datagram: &[u8]) -> bool {
        let waiting = self.waiting.get(&header.receiver);
        waiting.is_some_and(|waiting| waiting.keys.open(header, &mut datagram.to_vec()).is_ok())
    }

    /// Hands out waiting keys when `datagram` is authentic under them.
    ///
    /// Older keys that wait for the same peer are forgotten: their initiator has given them up.
    pub(super) fn confirm(&mut self, header: &DataHeader, datagram: &[u8]) -> Option<Waiting> {
        let waiting = self.waiting.get(&header.receiver)?;
        waiting.keys.open(header, &mut datagram.to_vec()).ok()?;
        let confirmed = self.waiting.remove(&header.receiver)?;
        self.again.retain(|(_, index)| *index != header.receiver);
        self.asking.remove(&confirmed.peer);
        let position = self.order.iter().position(|index| *index == header.receiver)?;
        let newer = self.order.split_off(position + 1);
        self.order.pop_back();
        let older = core::mem::take(&mut self.order);
        for index in older {
            if self.is_of(index, confirmed.peer) {
                self.waiting.remove(&index);
            } else {
                self.order.push_back(index);
            }
        }
        self.order.extend(newer);
        Some(confirmed)
    }

    /// Forgets everything of a peer, keys that wait for it above all.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        self.waiting.retain(|_, waiting| waiting.peer != peer);
        let waiting = &self.waiting;
        self.order.retain(|index| waiting.contains_key(index));
        self.allowances.remove(&peer);
        self.asking.remove(&peer);
        self.foreign.remove(&peer);
        self.seen.forget_peer(peer);
    }

    /// Notes that a peer asks in another version; what it has said of that stays known.
    pub(super) fn on_other_version(&mut self, peer: PeerId, index: u32) {
        self.foreign.entry(peer).or_default().0 = index;
    }

    /// Takes what an initiator says of its version; false when it answers nothing.
    pub(super) fn handle_version(
        &mut self,
        source: Via,
        answer: &VersionAnswer,
        peers: &Peers,
    ) -> bool {
        let asked = self.foreign.iter_mut().find(|(_, (index, _))| *index == answer.receiver);
        let Some((id, (_, said))) = asked else { return false };
        let Some(peer) = peers.get(*id) else { return false };
        let is_its = self.jar.cookies(source).any(|cookie| answer.answers(&peer.shared, &cookie));
        if is_its {
            *said = answer.said();
        }
        is_its
    }

    /// Returns what is known of the version of a peer that asks in another one.
    pub(super) fn other_version(&self, peer: PeerId) -> Option<&OtherVersion> {
        self.foreign.get(&peer).map(|(_, said)| said)
    }

    /// Returns what is known of a peer that is answered in vain.
    pub(super) fn asking(&self, peer: PeerId) -> Option<Asking> {
        self.asking.get(&peer).copied()
    }

    /// Returns when a Response is to be sent again, or the oldest waiting keys are to be forgotten.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let again = self.again.first().map(|(at, _)| *at);
        again.into_iter().chain(self.forgets_at()).min()
    }

    fn forgets_at(&self) -> Option<Instant> {
        let oldest = self.waiting.get(self.order.front()?)?;
        Some(oldest.responded_at + limits::OLD_KEYS_KEPT)
    }

    /// Forgets what nobody has come back for.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while self.forgets_at().is_some_and(|at| at <= now) {
            if let Some(index) = self.order.pop_front() {
                self.waiting.remove(&index);
            }
        }
        self.seen.forget(now);
    }

    /// Returns the sizes of the tables.
    #[cfg(test)]
    pub(super) fn table_sizes(&self) -> [usize; 5] {
        let Self { waiting, order, again, seen, allowances, .. } = self;
        [waiting.len(), order.len(), again.len(), seen.order.len(), allowances.len()]
    }

    /// Tells a stranger that it is one, a few times a second: a person may be looking for the
    /// reason.
    fn refuse<'a>(&mut self, now: Instant, asked: &Asked<'_>) -> Screened<'a> {
        match self.refusals.take(now) {
            true => Screened::Answer(RefusalAnswer::make(asked, &self.public).to_vec()),
            false => Screened::Drop,
        }
    }

    /// Answers an Initiation that came again, as long as its keys wait.
    fn repeat<'a>(
        &mut self,
        now: Instant,
        index: u32,
        (asked, are_lost): (&Received, bool),
        counters: &mut EndpointCounters,
    ) -> Screened<'a> {
        match self.waiting.get_mut(&index) {
            Some(waiting) => {
                counters.responses_repeated += 1;
                waiting.on_asked(now, asked, are_lost);
                self.again.extend(waiting.again.map(|at| (at, index)));
                Screened::Answer(waiting.response.to_vec())
            }
            None => {
                counters.replayed += 1;
                Screened::Drop
            }
        }
    }

    fn is_of(&self, index: u32, peer: PeerId) -> bool {
        self.waiting.get(&index).is_some_and(|waiting| waiting.peer == peer)
    }
}

impl EndpointCounters {
    /// Counts a handshake datagram that was not taken.
    pub(super) fn on_refused(&mut self, error: HandshakeError) {
        match error {
            HandshakeError::Malformed => self.garbage += 1,
            HandshakeError::BadMac => self.bad_mac += 1,
            HandshakeError::Unauthentic => self.unauthentic += 1,
        }
    }
}

/// Remembers authentic Initiations for as long as their cookie could be recent.
///
/// Only peers get in here, so it grows by what peers do; the bound per peer holds off a peer that
/// restarts in a loop. What it forgets before its time costs four Diffie–Hellmans when replayed,
/// and changes nothing.
#[derive(Default)]
struct Seen {
    ephemerals: BTreeMap<[u8; 32], Answered>,
    order: VecDeque<(Instant, [u8; 32])>,
    of_peer: BTreeMap<PeerId, usize>,
}

/// Who sent an Initiation, and our index of the keys that answered it.
struct Answered {
    peer: PeerId,
    index: u32,
}

impl Seen {
    fn index_of(&self, ephemeral: &[u8; 32]) -> Option<u32> {
        self.ephemerals.get(ephemeral).map(|answered| answered.index)
    }

    fn insert(&mut self, now: Instant, ephemeral: [u8; 32], peer: PeerId, index: u32) {
        if self.of_peer.get(&peer).is_some_and(|count| *count >= limits::SEEN_HANDSHAKES_PEER) {
            let is_of_peer = |key| self.ephemerals.get(key).is_some_and(|seen| seen.peer == peer);
            let oldest = self.order.iter().position(|(_, key)| is_of_peer(key));
            if let Some(position) = oldest {
                self.remove(position);
            }
        }
        if self.ephemerals.insert(ephemeral, Answered { peer, index }).is_none() {
            self.order.push_back((now, ephemeral));
            *self.of_peer.entry(peer).or_default() += 1;
        }
    }

    fn forget(&mut self, now: Instant) {
        let life = 2 * limits::COOKIE_SECRET_AGE;
        while self.order.front().is_some_and(|(since, _)| now.since(*since) > life) {
            self.remove(0);
        }
    }

    fn forget_peer(&mut self, peer: PeerId) {
        self.ephemerals.retain(|_, answered| answered.peer != peer);
        let ephemerals = &self.ephemerals;
        self.order.retain(|(_, ephemeral)| ephemerals.contains_key(ephemeral));
        self.of_peer.remove(&peer);
    }

    fn remove(&mut self, position: usize) {
        let Some((_, ephemeral)) = self.order.remove(position) else {
            return;
        };
        if let Some(answered) = self.ephemerals.remove(&ephemeral)
            && let Some(count) = self.of_peer.get_mut(&answered.peer)
        {
            *count -= 1;
        }
    }
}
