//! An attacker on one link: it sees what arrives for a host there, and decides what the host gets.
//!
//! It holds no key. What it learns on its link it uses on its link alone, under any source address.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use units::{Duration, Instant, Rng};

use super::draw::{log_uniform, pick};

/// Datagrams that it remembers for a later replay.
const KEPT: usize = 256;
/// First bytes of a datagram: its type, and the index that it is for or from.
const INDEX: std::ops::Range<usize> = 1..5;
/// The first byte of datagrams that carry data; smaller ones are of handshakes.
const DATA: u8 = 4;
/// Bytes of an Initiation.
const INITIATION_BYTES: usize = 157;

/// What an attacker does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attack {
    /// Repeats what it heard, a share of it, up to so much later, from where it came or not.
    Replay(f64, Duration, bool),
    /// Alters a bit of a share of the datagrams; the genuine one follows, or does not.
    Tamper(f64, Option<Duration>),
    /// Alters the index in every datagram of a handshake; the genuine one follows, or does not.
    Indices(Option<Duration>),
    /// Lets every datagram come from another address first; the genuine one follows, or does not.
    Readdress(Option<Duration>),
    /// Holds a share back for so long.
    HoldBack(f64, Duration),
    /// Lets no handshake through.
    DropHandshakes,
    /// Lets no data through.
    DropData,
    /// Lets every Initiation through after all that follows it for so long.
    LateHandshakes(Duration),
    /// Sends nonsense, so many a second, with types and indices that it has seen.
    Garbage(u64),
    /// Sends what looks like the beginning of handshakes, so many a second, from many addresses.
    Strangers(u64),
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
    next: Option<Instant>,
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
}

impl Attacker {
    /// Makes one that waits.
    pub(super) fn new(attack: Attack, fault: usize, interface: usize, rng: Rng) -> Self {
        Self {
            attack,
            fault,
            interface,
            is_at_work: false,
            heard: VecDeque::new(),
            next: None,
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
            Attack::Garbage(rate) | Attack::Strangers(rate) => {
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

    /// Inverts one bit within a range of bytes.
    fn flip(&mut self, bytes: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let range = range.start.min(bytes.len())..range.end.min(bytes.len());
        let bit = self.rng.below(range.len() as u64 * 8) as usize;
        if let Some(byte) = bytes[range].get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        bytes
    }

    /// Draws an address that nobody has.
    fn stranger(&mut self) -> SocketAddr {
        let number = self.rng.below(4_000) as u16;
        let [high, low] = number.to_be_bytes();
        (Ipv4Addr::new(10, 200, high, low), 1_024 + number).into()
    }
}

/// Tells whether an address is one that attackers invent.
pub(super) fn is_stranger(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V4(v4) if v4.ip().octets()[..2] == [10, 200])
}
