//! Whose frames count: each boot of a sender proves itself by answering a challenge [specs/relay.md
//! §2].
//!
//! ```text
//! frame of a boot ─► place ─► code ─► has it answered? no ─► challenge, dropped
//!                                                      yes ─► counter new? ─► body
//! ```

use std::collections::{BTreeMap, VecDeque};

use units::{Duration, Instant};

use super::frame::{self, Asked, Body, Header, Hop, NodeName, Numbers, Said};
use super::keys::{self, Boot, GroupKey};
use super::{ALIVE, ANSWERED, FORMER};
use crate::crypto::{Entropy, MacKey};
use crate::endpoint::TokenBucket;
use crate::limits;
use crate::window::SeenWindow;

/// A token is drawn anew after this, and an answer to it no longer counts after twice as long: an
/// answer that was held back proves nothing.
const TOKEN: Duration = Duration::from_secs(1);
/// Boots of one name that are asked at a time.
const CANDIDATES: usize = 4;

/// Says why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It could not be parsed, or says what no node says.
    Malformed,
    /// Its code is wrong: forged, altered, or of another group.
    BadCode,
    /// It had come in before, or is so old that it may have.
    Replay,
    /// Its boot had its place taken by a later one.
    EarlierBoot,
    /// Its boot has not answered a challenge: new here, or replayed.
    Unproved,
    /// It was our own.
    Reflected,
    /// It was made for the other hop.
    CrossHop,
    /// It was made for the other side or direction.
    Misdirected,
    /// It came from a relay of the own side, over the radio.
    Overheard,
    /// It is of a source whose place another has taken, or of generations long past.
    Stale,
    /// There are more senders than a group has, or more comes than is taken away.
    BeyondBound,
}

/// Every reason, in the order in which they are counted.
pub const REFUSALS: [Refusal; 11] = [
    Refusal::Malformed,
    Refusal::BadCode,
    Refusal::Replay,
    Refusal::EarlierBoot,
    Refusal::Unproved,
    Refusal::Reflected,
    Refusal::CrossHop,
    Refusal::Misdirected,
    Refusal::Overheard,
    Refusal::Stale,
    Refusal::BeyondBound,
];

/// Counts the frames that were not taken, by their reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; REFUSALS.len()]);

impl Refusals {
    /// Returns how often it was for this reason.
    pub fn of(&self, reason: Refusal) -> u64 {
        self.0[reason as usize]
    }

    pub(super) fn count(&mut self, reason: Refusal) {
        self.0[reason as usize] += 1;
    }
}

/// A boot that has answered.
struct Proved {
    boot: u64,
    key: MacKey,
    /// Smaller counters do not count.
    floor: u64,
    seen: SeenWindow,
}

/// A boot that is asked.
struct Candidate {
    boot: u64,
    key: MacKey,
    token: u64,
    drawn_at: Instant,
    asked_at: Option<Instant>,
}

#[derive(Default)]
struct Member {
    proved: Option<Proved>,
    candidates: Vec<Candidate>,
    former: VecDeque<u64>,
    /// When a frame that counted came in, by hop.
    heard_at: [Option<Instant>; 2],
    /// When two boots were last found to live.
    doubled_at: Option<Instant>,
}

/// The other nodes, as far as they were heard.
pub(super) struct Members {
    group: GroupKey,
    members: BTreeMap<NodeName, Member>,
    challenges: TokenBucket,
    answers: TokenBucket,
    refusals: Refusals,
    entropy: Entropy,
    /// Names that two nodes were found to have since they were last asked for.
    doubled: VecDeque<NodeName>,
}

impl Members {
    pub(super) fn new(group: GroupKey, entropy: Entropy) -> Self {
        let bucket = || TokenBucket::new(limits::RELAY_CHALLENGES, limits::RELAY_CHALLENGES_BURST);
        Self {
            group,
            members: BTreeMap::new(),
            challenges: bucket(),
            answers: bucket(),
            refusals: Refusals::default(),
            entropy,
            doubled: VecDeque::new(),
        }
    }

    /// Takes a frame, or counts why not; and says what is to be sent in return.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        hop: Hop,
        bytes: &[u8],
        own: &Boot,
    ) -> (Option<(Header, Body)>, Option<Body>) {
        let mut reply = None;
        match self.judge(now, hop, bytes, own, &mut reply) {
            Ok(taken) => (taken, reply),
            Err(refusal) => {
                self.refusals.count(refusal);
                (None, reply)
            }
        }
    }

    /// Counts a frame that made no sense after all.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refusals.count(refusal);
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Tells whether a node was heard on a hop within the last second.
    pub(super) fn is_alive(&self, now: Instant, name: NodeName, hop: Hop) -> bool {
        let member = self.members.get(&name);
        let at = member.and_then(|member| member.heard_at[hop as usize]);
        at.is_some_and(|at| now.since(at) < ALIVE)
    }

    /// Lists the nodes that ever answered: name, when a frame that counted came last, by hop, and
    /// when two were last seen to have the name.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (NodeName, [Option<Instant>; 2], Option<Instant>)> {
        self.members.iter().filter_map(|(name, member)| {
            member.proved.as_ref()?;
            Some((*name, member.heard_at, member.doubled_at))
        })
    }

    /// Returns the next name that two nodes have.
    pub(super) fn poll_doubled(&mut self) -> Option<NodeName> {
        self.doubled.pop_front()
    }

    fn judge(
        &mut self,
        now: Instant,
        hop: Hop,
        bytes: &[u8],
        own: &Boot,
        reply: &mut Option<Body>,
    ) -> Result<Option<(Header, Body)>, Refusal> {
        let said = frame::read_header(bytes).map_err(|_| Refusal::Malformed)?;
        let sender = said.sender;
        if said.hop != hop {
            return Err(Refusal::CrossHop);
        }
        if sender == own.name && said.is_of(own.boot) {
            return Err(Refusal::Reflected);
        }
        match hop {
            Hop::Wire if sender.side != own.name.side => return Err(Refusal::Misdirected),
            Hop::Radio if sender.side == own.name.side => return Err(Refusal::Overheard),
            Hop::Radio if sender.number == 0 => return Err(Refusal::Misdirected),
            Hop::Wire | Hop::Radio => {}
        }
        let header = self.authenticate(&said, bytes)?;
        let (boot, counter) = (header.boot, header.counter);
        let is_known = self.members.contains_key(&sender);
        if !is_known && self.members.len() >= limits::RELAY_MEMBERS {
            return Err(Refusal::BeyondBound);
        }
        let body = frame::read_body(bytes).map_err(|_| Refusal::Malformed)?;
        if !is_placed(&header, &body) {
            return Err(Refusal::Misdirected);
        }
        match &body {
            Body::Challenge(asked) => {
                if (asked.name, asked.boot) == (own.name, own.boot) && self.answers.take(now) {
                    *reply = Some(Body::Answer(Asked { name: sender, boot, token: asked.token }));
                }
                return Ok(None);
            }
            Body::Answer(asked) => {
                if (asked.name, asked.boot) == (own.name, own.boot) {
                    self.prove(now, &header, asked.token);
                }
                return Ok(None);
            }
            Body::State(_) | Body::Small { .. } | Body::Coded(_) | Body::Ranks(_) => {}
        }
        let member = self.members.entry(sender).or_default();
        let Some(proved) = member.proved.as_mut().filter(|proved| proved.boot == boot) else {
            let is_former = member.former.contains(&boot);
            *reply = self.challenge(now, &header);
            return Err(if is_former { Refusal::EarlierBoot } else { Refusal::Unproved });
        };
        if counter < proved.floor || !proved.seen.insert(counter) {
            return Err(Refusal::Replay);
        }
        member.heard_at[hop as usize] = Some(now);
        Ok(Some((header, body)))
    }

    /// Returns the header of a frame in full, if its code shows who wrote it.
    fn authenticate(&self, said: &Said, bytes: &[u8]) -> Result<Header, Refusal> {
        let member = self.members.get(&said.sender);
        let proved = member.and_then(|member| member.proved.as_ref());
        let proved = proved.filter(|proved| said.is_of(proved.boot));
        let header = match (said.numbers, proved) {
            (Numbers::Whole { boot, counter }, _) => said.complete(boot, counter),
            (Numbers::Low { .. }, Some(proved)) => said.complete(proved.boot, proved.seen.next()),
            // Too little is told to ask it: what the node says of itself will be.
            (Numbers::Low { .. }, None) => {
                let mut former = member.into_iter().flat_map(|member| &member.former);
                let is_former = former.any(|boot| said.is_of(*boot));
                return Err(if is_former { Refusal::EarlierBoot } else { Refusal::Unproved });
            }
        };
        let Header { boot, counter, .. } = header;
        let is_genuine = match proved {
            Some(proved) => keys::is_genuine(&proved.key, counter, bytes),
            None => {
                let candidates = member.map_or(&[][..], |member| &member.candidates);
                match candidates.iter().find(|candidate| candidate.boot == boot) {
                    Some(candidate) => keys::is_genuine(&candidate.key, counter, bytes),
                    None => keys::is_genuine(&self.group.of(header.sender, boot), counter, bytes),
                }
            }
        };
        if is_genuine { Ok(header) } else { Err(Refusal::BadCode) }
    }

    /// Asks a boot whether it lives.
    fn challenge(&mut self, now: Instant, header: &Header) -> Option<Body> {
        let Header { sender, boot, .. } = *header;
        let member = self.members.get_mut(&sender)?;
        let place = member.candidates.iter().position(|candidate| candidate.boot == boot);
        let is_due =
            |candidate: &Candidate| candidate.asked_at.is_none_or(|at| now.since(at) >= ANSWERED);
        let place = match place {
            Some(place) => place,
            None if member.candidates.len() < CANDIDATES => {
                let key = self.group.of(sender, boot);
                let token = self.entropy.u64();
                let candidate = Candidate { boot, key, token, drawn_at: now, asked_at: None };
                member.candidates.push(candidate);
                member.candidates.len() - 1
            }
            None => {
                // Whoever has been asked longest has had time to answer. Boots of the past must not
                // keep others out.
                let oldest = (0..CANDIDATES).min_by_key(|at| member.candidates[*at].asked_at)?;
                if !is_due(&member.candidates[oldest]) || member.former.contains(&boot) {
                    return None;
                }
                let key = self.group.of(sender, boot);
                let token = self.entropy.u64();
                let candidate = Candidate { boot, key, token, drawn_at: now, asked_at: None };
                member.candidates[oldest] = candidate;
                oldest
            }
        };
        let candidate = &mut member.candidates[place];
        if !is_due(candidate) || !self.challenges.take(now) {
            return None;
        }
        candidate.asked_at = Some(now);
        if now.since(candidate.drawn_at) >= TOKEN {
            (candidate.token, candidate.drawn_at) = (self.entropy.u64(), now);
        }
        Some(Body::Challenge(Asked { name: sender, boot, token: candidate.token }))
    }

    /// Takes the answer of a boot.
    fn prove(&mut self, now: Instant, header: &Header, token: u64) {
        let Header { sender, hop, boot, counter, .. } = *header;
        let Some(member) = self.members.get_mut(&sender) else { return };
        let asked = |candidate: &Candidate| {
            let is_fresh = now.since(candidate.drawn_at) < TOKEN * 2;
            candidate.boot == boot && candidate.token == token && is_fresh
        };
        let Some(place) = member.candidates.iter().position(asked) else { return };
        let key = member.candidates.swap_remove(place).key;
        if let Some(before) = member.proved.take() {
            if member.former.len() == FORMER {
                member.former.pop_front();
            }
            member.former.push_back(before.boot);
        }
        // It had lost its place to one that started later, and still lives.
        if let Some(place) = member.former.iter().position(|former| *former == boot) {
            member.former.remove(place);
            let again = member.doubled_at.is_none_or(|at| now.since(at) >= limits::CONTESTED_AGAIN);
            if again && self.doubled.len() < limits::RELAY_MEMBERS {
                self.doubled.push_back(sender);
            }
            member.doubled_at = Some(now);
        }
        let mut seen = SeenWindow::new(limits::RELAY_REPLAY_WINDOW);
        seen.insert(counter);
        member.proved = Some(Proved { boot, key, floor: counter, seen });
        member.heard_at = [None; 2];
        member.heard_at[hop as usize] = Some(now);
    }
}

/// Tells whether what a frame says may come from there [specs/relay.md §1] (rule 3).
fn is_placed(header: &Header, body: &Body) -> bool {
    let is_own = header.sender.side == header.direction;
    let is_gateway = header.sender.number == 0;
    match body {
        Body::Challenge(_) | Body::Answer(_) | Body::State(_) => is_own,
        Body::Small { .. } | Body::Coded(_) => is_own == (is_gateway || header.hop == Hop::Radio),
        Body::Ranks(_) => is_own != (is_gateway || header.hop == Hop::Radio),
    }
}
