//! The initiator's side of handshakes: one handshake at a time, tried on every path.
//!
//! ```text
//! on every path at once: Initiation → (Cookie → Initiation with it) → Response; the first one wins
//! again on each path after 100 ms, growing by half up to 1 s, for ever
//! after 3 s without a Cookie there, and after a first one that comes then: 100 ms again, growing by
//! a fifth up to 1 s, by a twentieth once there was one
//! ```
//!
//! All paths carry the same Noise message, because the responder answers the same ephemeral key
//! with the same Response, whichever path brings it first; only the cookie of the source address
//! differs. The message is made anew when it has grown old. Whether a session needs a handshake at
//! all is the endpoint's to say.

use units::{Duration, Instant};

use crate::crypto::{
    Agreed, Code, CookieAnswer, HandshakeError, Initiation, OtherVersion, PeerKey, PublicKey,
    RefusalAnswer, VERSION, VersionAnswer,
};
use crate::ids::{InterfaceId, PathId};
use crate::limits;
use crate::path::Route;
use crate::via::Via;

/// Age at which a cookie is not used any more: shorter than the life of the secret behind it.
const COOKIE_AGE: Duration = Duration::from_secs(110);
/// A responder that has answered with cookies alone for this long, and to so many Initiations that
/// had one, opens none of them: where half is lost each way, one time in a thousand.
const MUTE: Duration = Duration::from_secs(10);
const MUTE_TRIES: u32 = 24;
/// Cookies that are acted upon at once between two tries of a path; one is the rule.
const PROMPT_TRIES: u8 = 3;

/// Tries handshakes for one session.
pub(super) struct Initiator {
    handshake: Option<Handshake>,
    /// Index and mac2 of the handshake before: its late Cookies still count.
    earlier: Option<(u32, Code)>,
    tries: Vec<PathTry>,
    /// Nothing is tried before.
    rests_until: Instant,
    /// Somebody who has our Initiation, the responder as a rule, says that it does not know us.
    refused: bool,
    /// What the responder says of its version, where it is another one.
    other: Option<OtherVersion>,
    /// Since when the responder has answered with cookies alone, and how many Initiations have had
    /// one since.
    mute: Option<(Instant, u32)>,
}

struct Handshake {
    initiation: Initiation,
    since: Instant,
    /// A new one is to take its place at the next try.
    is_stale: bool,
}

/// Where and when an Initiation goes next.
struct PathTry {
    path: PathId,
    interface: InterfaceId,
    remote: Via,
    cookie: Option<(Code, Instant)>,
    /// When the first Initiation with that cookie left.
    asked_at: Option<Instant>,
    send_at: Instant,
    wait: Duration,
    /// When the last Cookie of this round of tries came or, before any, the first Initiation left.
    quiet_since: Option<Instant>,
    /// Much is lost, and the tries are close together because of that.
    hurries: bool,
    /// A cookie came: the next try does not wait.
    prompt: bool,
    /// How often that happened since the last try that waited.
    prompted: u8,
    /// Every other one is marked as control: some networks drop what is.
    marked: bool,
}

/// Holds an Initiation on its way out.
pub(super) struct Outgoing {
    /// The interface that it leaves by.
    pub(super) interface: InterfaceId,
    /// Where it goes.
    pub(super) destination: Via,
    /// Whether it leaves with the mark of control.
    pub(super) marked: bool,
    /// Its bytes.
    pub(super) datagram: [u8; crate::crypto::INITIATION],
}

/// Holds what a Response brought, and when its handshake began.
pub(super) struct Finished {
    /// What both ends agreed on.
    pub(super) agreed: Agreed,
    /// The responder made the Response between this moment and now.
    pub(super) since: Instant,
    /// When the first Initiation that it may answer left on its path.
    pub(super) asked_at: Option<Instant>,
}

impl Initiator {
    /// Starts without a handshake.
    pub(super) fn new() -> Self {
        Self {
            handshake: None,
            earlier: None,
            tries: Vec::new(),
            rests_until: Instant::ZERO,
            refused: false,
            other: None,
            mute: None,
        }
    }

    /// Follows the session's paths; a new one is tried at once.
    pub(super) fn follow(&mut self, now: Instant, paths: &[(PathId, Route)]) {
        let is_of = |try_: &PathTry, (path, route): &(PathId, Route)| {
            (try_.path, try_.remote) == (*path, route.remote)
        };
        self.tries.retain(|try_| paths.iter().any(|route| is_of(try_, route)));
        for route in paths {
            let &(path, Route { interface, remote, .. }) = route;
            if self.tries.iter().all(|try_| !is_of(try_, route)) {
                self.tries.push(PathTry {
                    path,
                    interface,
                    remote,
                    cookie: None,
                    asked_at: None,
                    send_at: now,
                    // Where a fifth is lost each way, one handshake in three waits.
                    wait: limits::SIGN_OF_LIFE,
                    quiet_since: None,
                    hurries: false,
                    prompt: false,
                    prompted: 0,
                    marked: false,
                });
            }
        }
    }

    /// Returns the indices that answers may name.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let current = self.handshake.as_ref().map(|handshake| handshake.initiation.local_index);
        current.into_iter().chain(self.earlier.map(|(index, _)| index))
    }

    /// Gives the next Initiation that is due; `make` makes a handshake.
    ///
    /// Returns it with the index that nobody has to know any more, if there is one.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        make: impl FnOnce() -> Initiation,
    ) -> Option<(Outgoing, Option<u32>)> {
        let due = self.tries.iter().position(|try_| try_.send_at <= now)?;
        if self.rests_until > now {
            return None;
        }
        let is_old =
            |it: &Handshake| it.is_stale || now.since(it.since) >= limits::OLD_KEYS_KEPT / 2;
        let stale = self.handshake.as_ref().is_none_or(is_old);
        let forgotten = if stale { self.renew(now, make()) } else { None };
        let initiation = &self.handshake.as_ref()?.initiation;

        let try_ = &mut self.tries[due];
        try_.cookie = try_.cookie.filter(|(_, since)| now.since(*since) < COOKIE_AGE);
        let datagram = initiation.datagram(try_.cookie.as_ref().map(|(cookie, _)| cookie));
        if try_.cookie.is_some() {
            try_.asked_at.get_or_insert(now);
        }
        if let (Some(_), Some((_, tries))) = (try_.cookie, &mut self.mute) {
            *tries = tries.saturating_add(1);
        }
        // Where nothing is lost each try has an answer, however long that takes: they come as often
        // as tries leave, also through a slow hop with a queue, which must not be filled.
        let quiet_since = *try_.quiet_since.get_or_insert(now);
        let is_quiet = now.since(quiet_since) >= limits::SILENCE;
        if is_quiet && !std::mem::replace(&mut try_.hurries, true) {
            try_.wait = limits::SIGN_OF_LIFE;
        }
        try_.send_at = now + try_.wait;
        if !core::mem::take(&mut try_.prompt) {
            try_.prompted = 0;
            try_.marked = !try_.marked;
            try_.wait = match (try_.hurries, try_.cookie) {
                (false, _) => try_.wait * 3 / 2,
                // Thirteen tries in five seconds, as nobody may be there.
                (true, None) => try_.wait * 6 / 5,
                // Where 85 % is lost each way, one try in seven arrives: there are 47 before they
                // leave a second apart.
                (true, Some(_)) => try_.wait * 21 / 20,
            };
            try_.wait = try_.wait.min(limits::LONGEST_SIGN_OF_LIFE);
        }
        let (interface, destination, marked) = (try_.interface, try_.remote, try_.marked);
        let outgoing = Outgoing { interface, destination, marked, datagram };
        Some((outgoing, forgotten))
    }

    /// Tells whether an answer to the Initiation of this index may still come.
    pub(super) fn expects(&self, index: u32) -> bool {
        self.mac2(index).is_some()
    }

    /// Takes a Cookie datagram that came in on `interface`; false when it answers nothing.
    pub(super) fn handle_cookie(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: Via,
        key: &PeerKey,
        answer: &CookieAnswer,
    ) -> bool {
        if !self.mac2(answer.receiver).is_some_and(|mac2| answer.answers(key, &mac2)) {
            return false;
        }
        self.refused = false;
        self.mute.get_or_insert((now, 0));
        for try_ in &mut self.tries {
            if try_.interface != interface || !try_.remote.is_same(source) {
                continue;
            }
            let is_new = try_.cookie.is_none_or(|(before, _)| before != answer.cookie);
            if let (true, Some(handshake)) = (is_new, &mut self.handshake) {
                // The responder has not answered it on that path, and how well both ends know each
                // other's clocks at first is how long the handshake took.
                handshake.is_stale |= now.since(handshake.since) >= limits::LONGEST_SIGN_OF_LIFE;
            }
            let had_none = try_.cookie.replace((answer.cookie, now)).is_none();
            if is_new {
                try_.asked_at = None;
            }
            try_.quiet_since = Some(now);
            // At a first one alone: whoever sees an Initiation can have Cookies for it made, for
            // addresses of his own, and bring as many of them as he likes.
            if had_none && try_.hurries {
                try_.wait = limits::SIGN_OF_LIFE;
            }
            // Tries that leave close together need no more.
            if (is_new || !try_.hurries) && try_.prompted < PROMPT_TRIES {
                try_.prompted += 1;
                try_.prompt = true;
                try_.send_at = now;
            }
        }
        true
    }

    /// Takes a Refusal, which changes nothing but what a person is told; false when it answers
    /// nothing.
    pub(super) fn handle_refusal(&mut self, responder: &PublicKey, answer: &RefusalAnswer) -> bool {
        let mac2 = self.mac2(answer.receiver);
        self.refused = mac2.is_some_and(|mac2| answer.answers(responder, &mac2));
        self.refused
    }

    /// Takes what the responder says of its version, and returns what it is to be told of ours,
    /// where it has given us a cookie to say so with; none where this answers nothing.
    pub(super) fn handle_version(
        &mut self,
        now: Instant,
        (interface, source): (InterfaceId, Via),
        (key, wire): (&PeerKey, u8),
        answer: &VersionAnswer,
    ) -> Option<Option<[u8; VERSION]>> {
        let mac2 = self.mac2(answer.receiver)?;
        if !answer.answers(key, &mac2) {
            return None;
        }
        self.other = Some(answer.said());
        let is_there = |try_: &&PathTry| try_.interface == interface && try_.remote.is_same(source);
        let cookie = self.tries.iter().find(is_there).and_then(|try_| try_.cookie);
        let cookie = cookie.filter(|(_, since)| now.since(*since) < COOKIE_AGE);
        Some(cookie.map(|(cookie, _)| VersionAnswer::make(answer.receiver, wire, key, &cookie)))
    }

    /// Returns what is known of the responder's version, where it is another one: what it says, or
    /// that it has long answered with cookies and nothing else.
    pub(super) fn other_version(&self, now: Instant) -> Option<OtherVersion> {
        let is_mute =
            self.mute.is_some_and(|(since, tries)| now.since(since) >= MUTE && tries >= MUTE_TRIES);
        self.other.clone().or_else(|| is_mute.then(OtherVersion::default))
    }

    /// Tells whether the last answer was a Refusal.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Leaves the responder alone for a while.
    pub(super) fn pause(&mut self, until: Instant) {
        self.rests_until = until;
    }

    /// Takes a Response to the current handshake, which ends with it.
    pub(super) fn handle_response(
        &mut self,
        index: u32,
        (interface, source): (InterfaceId, Via),
        datagram: &[u8],
    ) -> Option<Result<Finished, HandshakeError>> {
        let is_there = |try_: &&PathTry| try_.interface == interface && try_.remote.is_same(source);
        // Where much is lost the time that it took says nothing of the path.
        let try_ = self.tries.iter().find(is_there).filter(|try_| !try_.hurries);
        let asked_at = try_.and_then(|try_| try_.asked_at);
        let handshake = self.handshake.as_mut()?;
        if handshake.initiation.local_index != index {
            return None;
        }
        let since = handshake.since;
        Some(handshake.initiation.finish(datagram).map(|agreed| Finished {
            agreed,
            since,
            asked_at,
        }))
    }

    /// Gives up the handshake: it ended well, or the session is fine without it.
    ///
    /// Cookies stay: the next handshake may come before they are stale. Returns the indices that
    /// nobody has to know any more.
    pub(super) fn rest(&mut self, now: Instant) -> Vec<u32> {
        let indices = self.indices().collect();
        self.handshake = None;
        self.earlier = None;
        self.refused = false;
        (self.other, self.mute) = (None, None);
        for try_ in &mut self.tries {
            try_.asked_at = None;
            try_.send_at = now;
            try_.wait = limits::SIGN_OF_LIFE;
            (try_.quiet_since, try_.hurries) = (None, false);
            try_.prompt = false;
            try_.prompted = 0;
        }
        indices
    }

    /// Returns when the next Initiation is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.tries.iter().map(|try_| try_.send_at.max(self.rests_until)).min()
    }

    /// Returns the code that an answer to the Initiation of this index has to know.
    fn mac2(&self, index: u32) -> Option<Code> {
        let current = self.handshake.as_ref();
        let current = current.map(|h| (h.initiation.local_index, h.initiation.mac2()));
        let mut known = [current, self.earlier].into_iter().flatten();
        known.find(|(known, _)| *known == index).map(|(_, mac2)| mac2)
    }

    fn renew(&mut self, now: Instant, initiation: Initiation) -> Option<u32> {
        let fresh = Handshake { initiation, since: now, is_stale: false };
        let forgotten = self.earlier.take().map(|(index, _)| index);
        self.tries.iter_mut().for_each(|try_| try_.asked_at = None);
        self.earlier = self
            .handshake
            .replace(fresh)
            .map(|old| (old.initiation.local_index, old.initiation.mac2()));
        forgotten
    }
}
