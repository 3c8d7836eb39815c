//! Whether a path's address has proved itself, and what to do when packets come from another one
//! [specs/paths.md §2].
//!
//! An address proves itself by answering a challenge sent to it [RFC 9000 §8.2]; until then no more
//! than three times what came from it is sent to it [RFC 9000 §8.1]. When an authenticated packet
//! newer than all before comes from elsewhere (a carrier's NAT has changed its mind, the vehicle
//! got a new address), the new address becomes a candidate and is challenged; the path moves when
//! the answer comes. One candidate at a time, the newest; a newer packet from the old address
//! withdraws it. An address that the peer has named, or that was configured, is a candidate too;
//! packets from the old one do not withdraw it. The old address is challenged as well [RFC 9000
//! §9.3.3]: if an attacker repeats datagrams from elsewhere, its answer brings the path back.

use std::net::IpAddr;

use smallvec::SmallVec;
use units::{Instant, Rng};

use crate::ids::InterfaceId;
use crate::limits;
use crate::via::Via;

/// Challenges that a candidate gets before it is forgotten.
const CANDIDATE_CHALLENGES: u32 = 5;
/// Challenges that the address before the present one gets.
const FORMER_CHALLENGES: u32 = 3;
/// Challenges of either side that may be open: so many of the latest tokens still count as answers,
/// and so many answers to the peer's wait to be sent.
const TOKENS: usize = 4;

/// Says where a path's datagrams leave and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The local socket or interface.
    pub(crate) interface: InterfaceId,
    /// The local address, where it matters.
    pub(crate) local: Option<IpAddr>,
    /// The remote address.
    pub(crate) remote: Via,
}

impl Route {
    /// Tells whether datagrams of `other` are of this route. Where no local address was named, as
    /// on paths that were opened here, any that the kernel chooses will do.
    fn covers(&self, other: &Self) -> bool {
        let free = self.local.is_none() || self.local == other.local;
        free && (self.interface, self.remote) == (other.interface, other.remote)
    }
}

/// Describes a challenge or an answer to one that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The number that the answer repeats.
    pub(crate) token: u64,
    /// Where it goes: not always the path's own route.
    pub(crate) route: Route,
}

/// Challenges one address until it answers.
#[derive(Clone, Debug)]
struct Challenge {
    tokens: SmallVec<[u64; TOKENS]>,
    sent: u32,
    next_at: Instant,
    /// Bytes that came from the address and went to it, for the amplification limit.
    received: u64,
    sent_bytes: u64,
}

impl Challenge {
    fn new(now: Instant) -> Self {
        Self { tokens: SmallVec::new(), sent: 0, next_at: now, received: 0, sent_bytes: 0 }
    }

    fn allowance(&self) -> u64 {
        (self.received * limits::AMPLIFICATION).saturating_sub(self.sent_bytes)
    }

    fn make(&mut self, now: Instant, rng: &mut Rng) -> u64 {
        let token = rng.next_u64();
        if self.tokens.len() == TOKENS {
            self.tokens.remove(0);
        }
        self.tokens.push(token);
        // Each is waited for twice as long as the one before.
        let wait = limits::SIGN_OF_LIFE * (1 << self.sent.min(4));
        self.next_at = now + wait.min(limits::LONGEST_SIGN_OF_LIFE);
        self.sent += 1;
        token
    }
}

/// An address that a path may move to.
#[derive(Clone, Debug)]
struct Candidate {
    route: Route,
    challenge: Challenge,
    /// The peer or the configuration has named it; nothing has come from there.
    named: bool,
}

impl Candidate {
    fn allows(&self, bytes: u64) -> bool {
        self.named || self.challenge.allowance() >= bytes
    }
}

/// Says what an answer to a challenge proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing: the token is not ours, or too old.
    None,
    /// The path's own address.
    Own,
    /// The candidate: it is the path's address from now on.
    Moved,
}

/// Keeps a path's address, its proof, and the candidate for its next one.
#[derive(Clone, Debug)]
pub(super) struct Address {
    route: Route,
    /// The initiator's interface defines the path: it never moves.
    fixed_interface: bool,
    /// The amplification limit holds for addresses that a peer brought up, not for configured ones.
    limited: bool,
    own: Option<Challenge>,
    candidate: Option<Candidate>,
    /// Something has come from the path's address.
    heard: bool,
    /// The address before this one: if it answers, the answer is a packet from there.
    former: Option<(Route, Challenge)>,
    responses: SmallVec<[Token; TOKENS]>,
    rng: Rng,
}

impl Address {
    pub(super) fn new(now: Instant, route: Route, initiator: bool, seed: u64) -> Self {
        Self {
            route,
            fixed_interface: initiator,
            limited: !initiator,
            own: Some(Challenge::new(now)),
            candidate: None,
            heard: false,
            former: None,
            responses: SmallVec::new(),
            rng: Rng::new(seed),
        }
    }

    pub(super) fn route(&self) -> Route {
        self.route
    }

    /// Forgets the proof and challenges the address again.
    pub(super) fn restart(&mut self, now: Instant) {
        self.own = Some(Challenge::new(now));
        (self.candidate, self.former) = (None, None);
    }

    /// Goes on from another address, of which nothing is proved yet.
    pub(super) fn rejoin(&mut self, route: Route) {
        (self.route, self.limited, self.heard) = (route, true, true);
    }

    /// Tries an address that was named; the path moves there if it answers. Returns whether it is
    /// new.
    pub(super) fn suggest(&mut self, now: Instant, remote: Via) -> bool {
        let route = Route { remote, ..self.route };
        let known = self.candidate.as_ref().is_some_and(|candidate| candidate.route == route);
        if known || route == self.route {
            return false;
        }
        self.candidate = Some(Candidate { route, challenge: Challenge::new(now), named: true });
        true
    }

    /// Returns the address that the path may move to.
    pub(super) fn candidate(&self) -> Option<Route> {
        self.candidate.as_ref().map(|candidate| candidate.route)
    }

    /// Sends from another local address from now on.
    pub(super) fn set_local(&mut self, local: IpAddr) {
        self.route.local = Some(local);
    }

    /// Moves to the candidate, which has proved itself.
    pub(super) fn move_on(&mut self, now: Instant) {
        if let Some(candidate) = self.candidate.take() {
            let former = std::mem::replace(&mut self.route, candidate.route);
            // An address that has not proved itself, or has never sent anything, is not worth going
            // back to.
            let was_home = self.own.is_none() && self.heard;
            self.former = was_home.then(|| (former, Challenge::new(now)));
        }
        self.heard = true;
        self.confirm();
    }

    /// Takes the address as proved by other means.
    pub(super) fn confirm(&mut self) {
        self.own = None;
        self.limited = false;
    }

    /// Tells whether datagrams to this route, or to the path's own, go where it has proved that
    /// they arrive.
    pub(super) fn is_proved(&self, route: Option<Route>) -> bool {
        self.own.is_none() && route.is_none_or(|route| route == self.route)
    }

    /// Returns how many bytes may be sent to the path's own address.
    pub(super) fn allowance(&self) -> u64 {
        match &self.own {
            Some(challenge) if self.limited => challenge.allowance(),
            _ => u64::MAX,
        }
    }

    /// Notes an authenticated datagram; `newest` when its number is the largest so far.
    pub(super) fn on_received(&mut self, now: Instant, from: Route, bytes: usize, newest: bool) {
        if self.route.covers(&from) {
            self.heard = true;
            if let Some(own) = &mut self.own {
                own.received += bytes as u64;
            }
            if newest {
                self.candidate.take_if(|candidate| !candidate.named);
            }
            return;
        }
        if self.fixed_interface && from.interface != self.route.interface {
            return;
        }
        match &mut self.candidate {
            Some(known) if known.route == from => known.challenge.received += bytes as u64,
            _ if newest => {
                let mut challenge = Challenge::new(now);
                challenge.received = bytes as u64;
                self.candidate = Some(Candidate { route: from, challenge, named: false });
            }
            _ => {}
        }
    }

    pub(super) fn on_sent(&mut self, to: Route, bytes: usize) {
        if to == self.route {
            if let Some(own) = &mut self.own {
                own.sent_bytes += bytes as u64;
            }
        } else if let Some(candidate) = &mut self.candidate
            && candidate.route == to
        {
            candidate.challenge.sent_bytes += bytes as u64;
        }
    }

    /// Remembers to answer a challenge that came from `from`; beyond the bound the oldest is
    /// dropped.
    pub(super) fn on_challenge(&mut self, token: u64, from: Route) {
        if self.responses.len() == TOKENS {
            self.responses.remove(0);
        }
        self.responses.push(Token { token, route: from });
    }

    pub(super) fn on_response(&mut self, now: Instant, token: u64) -> Proof {
        if self.own.as_ref().is_some_and(|own| own.tokens.contains(&token)) {
            self.confirm();
            return Proof::Own;
        }
        let is_answer = |challenge: &Challenge| challenge.tokens.contains(&token);
        self.former.take_if(|(_, challenge)| is_answer(challenge));
        if self.candidate.as_ref().is_some_and(|candidate| is_answer(&candidate.challenge)) {
            self.move_on(now);
            return Proof::Moved;
        }
        Proof::None
    }

    /// Tells whether an answer waits or a challenge is due, whether or not it may be sent.
    pub(super) fn may_have_token(&self, now: Instant) -> bool {
        !self.responses.is_empty() || self.timeout().is_some_and(|at| at <= now)
    }

    pub(super) fn take_response(&mut self) -> Option<Token> {
        if self.responses.is_empty() { None } else { Some(self.responses.remove(0)) }
    }

    /// Returns the challenge that is due, of the candidate first, if a datagram of `bytes` may be
    /// sent to its address.
    pub(super) fn take_challenge(&mut self, now: Instant, bytes: u64) -> Option<Token> {
        if let Some(candidate) = &mut self.candidate
            && candidate.challenge.next_at <= now
        {
            if candidate.challenge.sent >= CANDIDATE_CHALLENGES {
                self.candidate = None;
            } else if candidate.allows(bytes) {
                let token = candidate.challenge.make(now, &mut self.rng);
                return Some(Token { token, route: candidate.route });
            }
        }
        if let Some((route, challenge)) = &mut self.former
            && challenge.next_at <= now
        {
            let token = Token { token: challenge.make(now, &mut self.rng), route: *route };
            self.former.take_if(|(_, challenge)| challenge.sent >= FORMER_CHALLENGES);
            return Some(token);
        }
        let limited = self.limited;
        let own = self.own.as_mut()?;
        if own.next_at > now || (limited && own.allowance() < bytes) {
            return None;
        }
        Some(Token { token: own.make(now, &mut self.rng), route: self.route })
    }

    /// Challenges an address that has not answered for a minute no sooner than that.
    pub(super) fn put_off(&mut self, until: Instant) {
        // One leaves each second, and four more in the first.
        if let Some(own) = self.own.as_mut().filter(|own| own.sent >= 60 + 4) {
            own.next_at = own.next_at.max(until);
        }
    }

    /// Challenges the address at once, if it has not answered yet.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let Some(own) = &mut self.own {
            own.next_at = own.next_at.min(now);
        }
    }

    /// Returns when the next challenge is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let own = self.own.as_ref().map(|own| own.next_at);
        let candidate = self.candidate.as_ref().map(|candidate| candidate.challenge.next_at);
        let former = self.former.as_ref().map(|(_, challenge)| challenge.next_at);
        [own, candidate, former].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn route(interface: u32, port: u16) -> Route {
        let remote = Via::Udp(([192, 0, 2, 1], port).into());
        Route { interface: InterfaceId(interface), local: None, remote }
    }

    /// A responder's address that has proved itself.
    fn proved() -> Address {
        let mut address = Address::new(at(0), route(0, 1), false, 7);
        address.confirm();
        address
    }

    #[test]
    fn an_address_proves_itself_by_a_token_of_its_own() {
        let mut address = Address::new(at(0), route(0, 1), true, 7);
        let token = address.take_challenge(at(0), SIZE).expect("due at once");
        assert_eq!(token.route, route(0, 1));
        assert_eq!(address.take_challenge(at(0), SIZE), None, "not again at once");
        assert_eq!(address.on_response(at(1), token.token ^ 1), Proof::None);
        assert_eq!(address.on_response(at(6), token.token), Proof::Own);
        assert_eq!(address.timeout(), None);
    }

    #[test]
    fn an_older_challenge_may_be_answered_while_a_newer_one_is_under_way() {
        let mut address = Address::new(at(0), route(0, 1), true, 7);
        let first = address.take_challenge(at(0), SIZE).expect("due");
        address.take_challenge(at(100), SIZE).expect("due again");
        assert_eq!(address.on_response(at(101), first.token), Proof::Own);
    }

    #[test]
    fn strangers_get_no_more_than_three_times_what_came_from_them() {
        let mut address = Address::new(at(0), route(0, 1), false, 7);
        assert_eq!((address.allowance(), address.take_challenge(at(0), SIZE)), (0, None));
        address.on_received(at(0), route(0, 1), 50, true);
        assert_eq!(address.allowance(), 150);
        let mut sent = 0;
        for ms in (0..60_000).step_by(10) {
            if address.take_challenge(at(ms), SIZE).is_some() {
                address.on_sent(route(0, 1), SIZE as usize);
                sent += SIZE;
            }
        }
        assert!(sent <= 150, "{sent}");
    }

    #[test]
    fn a_path_moves_when_the_new_address_has_answered_and_not_before() {
        let mut address = proved();
        address.on_received(at(5), route(0, 2), 100, true);
        assert_eq!(address.route(), route(0, 1));
        let token = address.take_challenge(at(5), SIZE).expect("the candidate is challenged");
        assert_eq!(token.route, route(0, 2));
        assert_eq!(address.on_response(at(6), token.token), Proof::Moved);
        assert_eq!((address.route(), address.allowance()), (route(0, 2), u64::MAX));
    }

    #[test]
    fn after_a_move_the_old_address_is_asked_and_what_comes_from_there_brings_the_path_back() {
        let mut address = proved();
        address.on_received(at(1), route(0, 1), 100, true);
        // An attacker repeats a packet from elsewhere, and its copy comes first.
        address.on_received(at(5), route(0, 2), 100, true);
        let token = address.take_challenge(at(5), SIZE).expect("the candidate is challenged");
        assert_eq!(address.on_response(at(6), token.token), Proof::Moved);
        let asked = (6..60_000).filter_map(|ms| address.take_challenge(at(ms), SIZE));
        let asked: Vec<Route> = asked.map(|token| token.route).collect();
        assert_eq!(asked, [route(0, 1); 3]);
        // Its answer is a packet from there.
        address.on_received(at(60_000), route(0, 1), 100, true);
        let token = address.take_challenge(at(60_000), SIZE).expect("a candidate again");
        assert_eq!(token.route, route(0, 1));
        assert_eq!(address.on_response(at(60_001), token.token), Proof::Moved);
        assert_eq!(address.route(), route(0, 1));
    }

    #[test]
    fn an_old_packet_from_elsewhere_is_no_reason_to_move_and_a_new_one_from_home_is_one_to_stay() {
        let mut address = proved();
        address.on_received(at(5), route(0, 2), 100, false);
        assert_eq!(address.take_challenge(at(5), SIZE), None);
        address.on_received(at(6), route(0, 2), 100, true);
        address.on_received(at(7), route(0, 1), 100, true);
        assert_eq!(address.take_challenge(at(8), SIZE), None);
    }

    #[test]
    fn a_candidate_that_does_not_answer_is_forgotten_after_five_challenges() {
        let mut address = proved();
        address.on_received(at(0), route(0, 2), 10_000, true);
        let challenges = (0..60_000).step_by(10).filter(|&ms| {
            let challenge = address.take_challenge(at(ms), SIZE);
            challenge.inspect(|token| address.on_sent(token.route, SIZE as usize)).is_some()
        });
        assert_eq!(challenges.count(), 5);
        assert_eq!((address.timeout(), address.route()), (None, route(0, 1)));
    }

    #[test]
    fn the_initiator_follows_a_station_that_moves_but_not_to_another_interface() {
        let mut address = Address::new(at(0), route(0, 1), true, 7);
        address.confirm();
        address.on_received(at(1), route(3, 1), 100, true);
        assert_eq!(address.take_challenge(at(1), SIZE), None);
        address.on_received(at(2), route(0, 9), 100, true);
        assert!(address.take_challenge(at(2), SIZE).is_some());
    }

    #[test]
    fn answers_wait_in_a_short_queue_and_go_where_the_challenge_came_from() {
        let mut address = proved();
        (0..10).for_each(|token| address.on_challenge(token, route(0, token as u16)));
        let answers: Vec<u64> =
            std::iter::from_fn(|| address.take_response()).map(|token| token.token).collect();
        assert_eq!(answers, [6, 7, 8, 9]);
    }
}
