//! An attacker on one link: it sees what arrives for a host there, and decides what the host gets.
//!
//! It holds no secret, but may know both public keys. What it learns on its link it uses on its
//! link alone, under any source address.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use units::{Duration, Instant, Rng};

use super::draw::{log_uniform, pick};
use super::forge::{Code, DATA, Forger, INITIATION, INITIATION_BYTES, cookie_of};
use super::{DRONE, STATION};

/// Datagrams that it remembers for a later replay, and cookies.
const KEPT: usize = 256;
/// First bytes of a datagram: its type, and the index that it is for or from.
const INDEX: std::ops::Range<usize> = 1..5;
/// What of a handshake's datagram is altered: its indices, one at a time, or something else.
const PLACES: [std::ops::Range<usize>; 3] = [INDEX, 5..9, 9..INITIATION_BYTES];
/// Addresses that a flood comes from.
const FLOOD_ADDRESSES: u64 = 100;
/// A forged Cookie comes after this time, and the others at distances that grow: the first come
/// before what is genuine, the last after it.
const SOONEST: Duration = Duration::from_micros(10);

/// What an attacker does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attack {
    /// Repeats a share of what it heard, up to this much later, from the address that it came from
    /// or from another.
    Replay(f64, Duration, bool),
    /// Alters a bit of a share of the datagrams; the genuine one follows, or does not.
    Tamper(f64, Option<Duration>),
    /// Alters the index in every datagram of a handshake; the genuine one follows, or does not.
    Indices(Option<Duration>),
    /// Lets every datagram come from another address first; the genuine one follows, or does not.
    Readdress(Option<Duration>),
    /// Holds a share back for this long.
    HoldBack(f64, Duration),
    /// Lets no handshake through.
    DropHandshakes,
    /// Lets no data through.
    DropData,
    /// Lets every Initiation through this much later, after all that follows it.
    LateHandshakes(Duration),
    /// Sends nonsense, this many datagrams a second, with types and indices that it has seen.
    Garbage(u64),
    /// Sends what looks like the beginning of handshakes, this many a second, from many addresses.
    Strangers(u64),
    /// Lets altered copies of each datagram of a handshake come first, with codes that the public
    /// keys make; the genuine one follows, or does not.
    Forge(Option<Duration>),
    /// Answers each Initiation with this many forged Cookies, whose codes the public keys make.
    Cookies(u32),
    /// Begins handshakes with codes that the public keys make, so many a second: from a hundred
    /// addresses of its own, or from the address of whoever it hears.
    Flood(u64, bool),
}

/// A datagram that an attacker hands over.
#[derive(Clone, Debug)]
pub(super) struct Forged {
    /// How much later than now.
    pub(super) after: Duration,
    /// Where it seems to come from.
    pub(super) source: SocketAddr,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

/// One attacker at work.
pub(super) struct Attacker {
    attack: Attack,
    /// The place of the fault that it is.
    pub(super) fault: usize,
    /// The host's interface that it sits before.
    pub(super) interface: usize,
    is_at_work: bool,
    heard: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The last cookie that the host sent to each address.
    cookies: BTreeMap<SocketAddr, Code>,
    next: Option<Instant>,
    /// How it makes codes, with one of the two public keys.
    forgers: [Forger; 2],
    rng: Rng,
}

impl Attack {
    /// Draws an attack.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let share = log_uniform(rng, 0.01, 1.0);
        let lag = Duration::from_secs_f64(log_uniform(rng, 0.001, 10.0));
        let short = Duration::from_secs_f64(log_uniform(rng, 0.000_1, 0.5));
        let follows = rng.chance(0.7).then_some(short);
        let rate = log_uniform(rng, 10.0, 1_000.0) as u64;
        match rng.below(11) {
            0 | 1 => Self::Replay(share, lag, rng.chance(0.5)),
            2 => Self::Tamper(share, follows),
            3 | 4 => Self::Indices(follows),
            5 => Self::Readdress(follows),
            6 => Self::HoldBack(share, lag),
            7 => pick(rng, &[Self::DropHandshakes, Self::DropData]),
            8 => Self::LateHandshakes(lag),
            9 => Self::Garbage(rate),
            _ => Self::Strangers(rate),
        }
    }

    /// Draws what somebody who knows both public keys does about handshakes, and before which host.
    pub(super) fn draw_with_keys(rng: &mut Rng) -> (Self, usize) {
        let host = pick(rng, &[DRONE, STATION]);
        let short = Duration::from_secs_f64(log_uniform(rng, 0.000_1, 0.5));
        let follows = rng.chance(0.7).then_some(short);
        let rate = log_uniform(rng, 200.0, 2_000.0) as u64;
        match rng.below(6) {
            0 | 1 => (Self::Forge(follows), host),
            2 | 3 => (Self::Cookies(log_uniform(rng, 60.0, 250.0) as u32), DRONE),
            _ => (Self::Flood(rate, rng.chance(0.5)), STATION),
        }
    }

    /// Tells whether it uses up what another's address may ask for: that is felt where there is no
    /// other address.
    pub(super) fn is_spoofed(self) -> bool {
        matches!(self, Self::Flood(_, true))
    }

    /// Tells whether it adds to what a link carries and changes nothing of it: nobody must feel it.
    pub(super) fn only_adds(self) -> bool {
        matches!(self, Self::Cookies(..) | Self::Flood(..))
    }
}

impl Attacker {
    /// Makes one that waits.
    pub(super) fn new(
        attack: Attack,
        fault: usize,
        interface: usize,
        forgers: [Forger; 2],
        rng: Rng,
    ) -> Self {
        Self {
            attack,
            fault,
            interface,
            is_at_work: false,
            heard: VecDeque::new(),
            cookies: BTreeMap::new(),
            next: None,
            forgers,
            rng,
        }
    }

    /// Begins or ends the attack.
    pub(super) fn set_at_work(&mut self, now: Instant, is_at_work: bool) {
        self.is_at_work = is_at_work;
        self.next = (is_at_work && self.pause().is_some()).then_some(now);
    }

    /// Takes what arrives and returns what the host gets in its place.
    pub(super) fn handle_datagram(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Forged> {
        let genuine = |after| Forged { after, source, bytes: bytes.to_vec() };
        self.heard.push_back((source, bytes.to_vec()));
        if self.heard.len() > KEPT {
            self.heard.pop_front();
        }
        let at_once = genuine(Duration::ZERO);
        if !self.is_at_work {
            return vec![at_once];
        }
        let is_handshake = bytes.first().is_some_and(|kind| *kind != DATA);
        let forged = |bytes, source| Forged { after: Duration::ZERO, source, bytes };
        match self.attack {
            Attack::Replay(share, lag, spoofed) => {
                let mut all = vec![at_once];
                if self.rng.chance(share) {
                    all.extend(self.replay(lag, spoofed));
                }
                all
            }
            Attack::Tamper(share, follows) if self.rng.chance(share) => {
                let altered = forged(self.flip(bytes, 0..bytes.len()), source);
                std::iter::once(altered).chain(follows.map(genuine)).collect()
            }
            Attack::Indices(follows) if is_handshake => {
                let altered = forged(self.flip(bytes, INDEX), source);
                std::iter::once(altered).chain(follows.map(genuine)).collect()
            }
            Attack::Forge(follows) if is_handshake => {
                let altered = self.alter(source, bytes);
                let altered = altered.into_iter().map(|bytes| forged(bytes, source));
                altered.chain(follows.map(genuine)).collect()
            }
            Attack::Readdress(follows) => {
                let elsewhere = forged(bytes.to_vec(), self.stranger());
                std::iter::once(elsewhere).chain(follows.map(genuine)).collect()
            }
            Attack::HoldBack(share, lag) if self.rng.chance(share) => vec![genuine(lag)],
            Attack::DropHandshakes if is_handshake => Vec::new(),
            Attack::DropData if !is_handshake => Vec::new(),
            Attack::LateHandshakes(lag) if is_handshake => vec![genuine(lag)],
            _ => vec![at_once],
        }
    }

    /// Sees what the host sends by the link, and returns what the host gets for that.
    pub(super) fn overhear(&mut self, destination: SocketAddr, bytes: &[u8]) -> Vec<Forged> {
        if let Some(cookie) = cookie_of(bytes) {
            self.cookies.insert(destination, cookie);
            if self.cookies.len() > KEPT {
                self.cookies.pop_first();
            }
        }
        let Attack::Cookies(count) = self.attack else { return Vec::new() };
        if !self.is_at_work || bytes.first() != Some(&INITIATION) {
            return Vec::new();
        }
        let mut forged = Vec::new();
        for number in 1..=count {
            let after = SOONEST * (number * number);
            let answers = self.forgers.iter().map(|forger| forger.cookie(bytes, &mut self.rng));
            let it = |bytes| Forged { after, source: destination, bytes };
            forged.extend(answers.flatten().map(it));
        }
        forged
    }

    /// Returns when it sends something of its own.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Sends something of its own, if it is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Forged> {
        let pause = self.pause()?;
        if self.next.is_none_or(|next| next > now) {
            return None;
        }
        self.next = Some(now + pause);
        if let Attack::Flood(_, spoofed) = self.attack {
            return self.begin_handshake(spoofed);
        }
        let len = match self.attack {
            Attack::Strangers(_) => INITIATION_BYTES,
            _ => 1 + self.rng.below(1_400) as usize,
        };
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        bytes[0] = if len == INITIATION_BYTES { 1 } else { self.rng.below(7) as u8 };
        let source = self.stranger();
        let heard = self.rng.below(self.heard.len().max(1) as u64) as usize;
        if let (Attack::Garbage(_), Some((_, model))) = (self.attack, self.heard.get(heard)) {
            let same = self.rng.below(24).min(model.len().min(len) as u64) as usize;
            bytes[..same].copy_from_slice(&model[..same]);
        }
        Some(Forged { after: Duration::ZERO, source, bytes })
    }

    fn pause(&self) -> Option<Duration> {
        match self.attack {
            Attack::Garbage(rate) | Attack::Strangers(rate) | Attack::Flood(rate, _) => {
                Some(Duration::from_secs(1) / rate.max(1) as u32)
            }
            _ => None,
        }
    }

    fn replay(&mut self, lag: Duration, spoofed: bool) -> Option<Forged> {
        let which = self.rng.below(self.heard.len() as u64) as usize;
        let (source, bytes) = self.heard.get(which)?.clone();
        let source = if spoofed { self.stranger() } else { source };
        Some(Forged { after: lag.mul_f64(self.rng.unit()), source, bytes })
    }

    fn begin_handshake(&mut self, spoofed: bool) -> Option<Forged> {
        let source = match spoofed {
            true => self.heard.back()?.0,
            false => stranger(self.rng.below(FLOOD_ADDRESSES)),
        };
        let forger = pick(&mut self.rng, &self.forgers);
        let bytes = forger.initiation(self.cookies.get(&source), &mut self.rng);
        Some(Forged { after: Duration::ZERO, source, bytes })
    }

    /// Alters a handshake's datagram here and there, with codes of either key.
    fn alter(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
        let cookie = self.cookies.get(&source).copied();
        let mut copies = Vec::new();
        for place in PLACES {
            let altered = self.flip(bytes, place);
            for forger in &self.forgers {
                let mut copy = altered.clone();
                forger.sign(&mut copy, cookie.as_ref());
                copies.push(copy);
            }
        }
        copies
    }

    /// Inverts one bit within a range of bytes.
    fn flip(&mut self, bytes: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let range = range.start.min(bytes.len())..range.end.min(bytes.len());
        let bit = self.rng.below((range.len() as u64 * 8).max(1)) as usize;
        if let Some(byte) = bytes[range].get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        bytes
    }

    /// Draws an address that nobody has.
    fn stranger(&mut self) -> SocketAddr {
        stranger(self.rng.below(4_000))
    }
}

/// Tells whether an address is one that attackers invent.
pub(super) fn is_stranger(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V4(v4) if v4.ip().octets()[..2] == [10, 200])
}

/// Returns an address that nobody has.
fn stranger(number: u64) -> SocketAddr {
    let number = number as u16;
    let [high, low] = number.to_be_bytes();
    (Ipv4Addr::new(10, 200, high, low), 1_024 + number).into()
}
