//! Cookies: an initiator proves its source address before the responder spends a Diffie–Hellman.
//!
//! ```text
//! cookie(source)   = MAC(secret, address ‖ port)            what mac3 of an Initiation is over
//! Cookie datagram  = 3 ‖ receiver ‖ cookie ‖ MAC(key that both share, all that ‖ mac2)
//! Refusal datagram = 5 ‖ receiver ‖ MAC(key of the responder's public key, all that ‖ mac2)
//! ```
//!
//! The secret is drawn at start and every two minutes; the previous one still counts. mac3 shows
//! that the peer itself made the Initiation within that time and receives at its source address,
//! without comparing clocks. A Cookie counts only for the Initiation that it answers, and only the
//! responder can make it. A Refusal tells a stranger that it is one; anybody can make it, and
//! nothing depends on it.

use units::Instant;

use super::Entropy;
use super::handshake::Asked;
use super::mac::{Code, MacKey};
use super::{PeerKey, PublicKey};
use crate::limits;
use crate::via::Via;
use crate::wire::{DatagramType, Reader, WireError};

/// Bytes of a Cookie datagram.
pub(crate) const COOKIE: usize = 1 + 4 + 16 + 16;
/// Bytes of a Refusal datagram.
pub(crate) const REFUSAL: usize = 1 + 4 + 16;

/// Issues and recognises the cookies of a responder.
pub(crate) struct CookieJar {
    current: MacKey,
    previous: Option<MacKey>,
    rotated: Instant,
}

impl CookieJar {
    /// Starts with a fresh secret.
    pub(crate) fn new(now: Instant, entropy: &mut Entropy) -> Self {
        Self { current: MacKey::from_random(entropy.array()), previous: None, rotated: now }
    }

    /// Changes the secret when it is due.
    pub(crate) fn refresh(&mut self, now: Instant, entropy: &mut Entropy) {
        let age = now.since(self.rotated);
        if age < limits::COOKIE_SECRET_AGE {
            return;
        }
        let fresh = MacKey::from_random(entropy.array());
        let old = core::mem::replace(&mut self.current, fresh);
        self.previous = (age < 2 * limits::COOKIE_SECRET_AGE).then_some(old);
        self.rotated = now;
    }

    /// Checks that the peer of `key` made an Initiation with a cookie of this source address.
    pub(crate) fn admits(&self, source: Via, asked: &Asked<'_>, key: &PeerKey) -> bool {
        self.secrets().any(|secret| asked.knows(key, &cookie(secret, source)))
    }

    /// Makes the answer to an Initiation that came without a cookie of its source address.
    pub(crate) fn answer(&self, source: Via, asked: &Asked<'_>, key: &PeerKey) -> [u8; COOKIE] {
        let mut datagram = [0; COOKIE];
        datagram[0] = DatagramType::Cookie as u8;
        datagram[1..5].copy_from_slice(&asked.sender.to_le_bytes());
        datagram[5..21].copy_from_slice(&cookie(&self.current, source));
        let code = key.code(&[&datagram[..21], &asked.mac2]);
        datagram[21..].copy_from_slice(&code);
        datagram
    }

    /// Returns the cookies of a source address that count.
    pub(crate) fn cookies(&self, source: Via) -> impl Iterator<Item = Code> {
        self.secrets().map(move |secret| cookie(secret, source))
    }

    fn secrets(&self) -> impl Iterator<Item = &MacKey> {
        core::iter::once(&self.current).chain(&self.previous)
    }
}

/// Holds what a Cookie datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CookieAnswer {
    /// The initiator's name for its handshake.
    pub(crate) receiver: u32,
    /// What mac3 of an Initiation from this address is over from now on.
    pub(crate) cookie: Code,
    code: Code,
}

impl CookieAnswer {
    /// Reads a Cookie datagram; [`CookieAnswer::answers`] tells whether it is authentic.
    pub(crate) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if datagram.len() != COOKIE {
            return Err(WireError::Truncated);
        }
        let mut reader = Reader::new(&datagram[1..]);
        Ok(Self { receiver: reader.u32()?, cookie: reader.array()?, code: reader.array()? })
    }

    /// Checks that the peer of `key` made it for the Initiation of this `mac2`.
    pub(crate) fn answers(&self, key: &PeerKey, mac2: &Code) -> bool {
        let head = head(DatagramType::Cookie, self.receiver);
        key.verify(&[&head, &self.cookie, mac2], &self.code)
    }
}

/// Holds what a Refusal datagram says: the responder does not know the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusalAnswer {
    /// The initiator's name for its handshake.
    pub(crate) receiver: u32,
    code: Code,
}

impl RefusalAnswer {
    /// Makes the Refusal of an Initiation; `public` is the responder's key.
    pub(crate) fn make(asked: &Asked<'_>, public: &PublicKey) -> [u8; REFUSAL] {
        let mut datagram = [0; REFUSAL];
        datagram[..5].copy_from_slice(&head(DatagramType::Refusal, asked.sender));
        let code = refusal_key(public).code(&[&datagram[..5], &asked.mac2]);
        datagram[5..].copy_from_slice(&code);
        datagram
    }

    /// Reads a Refusal datagram.
    pub(crate) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if datagram.len() != REFUSAL {
            return Err(WireError::Truncated);
        }
        let mut reader = Reader::new(&datagram[1..]);
        Ok(Self { receiver: reader.u32()?, code: reader.array()? })
    }

    /// Checks that its sender saw the Initiation of this `mac2` to the owner of `public`.
    pub(crate) fn answers(&self, public: &PublicKey, mac2: &Code) -> bool {
        let head = head(DatagramType::Refusal, self.receiver);
        refusal_key(public).verify(&[&head, mac2], &self.code)
    }
}

fn head(kind: DatagramType, receiver: u32) -> [u8; 5] {
    let [a, b, c, d] = receiver.to_le_bytes();
    [kind as u8, a, b, c, d]
}

fn refusal_key(public: &PublicKey) -> MacKey {
    MacKey::derive("fulmar refusal", &public.0)
}

fn cookie(secret: &MacKey, source: Via) -> Code {
    secret.code(&[&source.binding()])
}

#[cfg(test)]
mod tests {
    use super::super::{Initiation, Parties, StaticSecret, mac1_key};
    use super::*;

    fn source(text: &str) -> Via {
        Via::Udp(text.parse().expect("a socket address"))
    }

    /// The handshake of a drone with a station, and what both share.
    fn handshake(entropy: &mut Entropy) -> (Initiation, PeerKey, PublicKey) {
        let [drone, station] = [1, 2].map(|seed| StaticSecret::generate([seed; 32]));
        let (peer, psk) = (station.public(), [0; 32]);
        let key = PeerKey::agree(&drone, &peer, &psk);
        let wire = super::super::WIRE_VERSION;
        let parties = Parties { secret: &drone, peer, psk: &psk, key: &key, wire };
        (Initiation::new(&parties, 77, 1, entropy), key, peer)
    }

    #[test]
    fn a_cookie_is_good_for_one_source_and_two_secrets() {
        let mut entropy = Entropy::new([1; 32]);
        let mut jar = CookieJar::new(Instant::ZERO, &mut entropy);
        let (initiation, key, public) = handshake(&mut entropy);
        let here = source("10.0.0.1:500");
        let datagram = initiation.datagram(None);
        let asked = Asked::decode(&datagram, &mac1_key(&public)).expect("sound");
        assert!(!jar.admits(here, &asked, &key));
        let answer = CookieAnswer::decode(&jar.answer(here, &asked, &key)).expect("its length");
        assert!(answer.answers(&key, &initiation.mac2()) && answer.receiver == 77);
        assert!(!answer.answers(&key, &[6; 16]), "of another Initiation");

        let datagram = initiation.datagram(Some(&answer.cookie));
        let asked = Asked::decode(&datagram, &mac1_key(&public)).expect("sound");
        assert!(jar.admits(here, &asked, &key));
        assert!(jar.admits(source("[::ffff:10.0.0.1]:500"), &asked, &key), "the same address");
        assert!(!jar.admits(source("10.0.0.1:501"), &asked, &key));
        assert!(!jar.admits(source("10.0.0.2:500"), &asked, &key));
        for (secrets, known) in [(1, true), (2, false)] {
            jar.refresh(Instant::ZERO + limits::COOKIE_SECRET_AGE * secrets, &mut entropy);
            assert_eq!(jar.admits(here, &asked, &key), known);
        }
    }

    #[test]
    fn a_secret_that_lay_idle_too_long_does_not_count_any_more() {
        let mut entropy = Entropy::new([1; 32]);
        let mut jar = CookieJar::new(Instant::ZERO, &mut entropy);
        let (initiation, key, public) = handshake(&mut entropy);
        let cookie = cookie(&jar.current, source("10.0.0.1:5"));
        let datagram = initiation.datagram(Some(&cookie));
        let asked = Asked::decode(&datagram, &mac1_key(&public)).expect("sound");
        jar.refresh(Instant::ZERO + limits::COOKIE_SECRET_AGE * 2, &mut entropy);
        assert!(!jar.admits(source("10.0.0.1:5"), &asked, &key));
    }

    #[test]
    fn only_who_shares_a_key_makes_a_cookie_and_anybody_a_refusal() {
        let mut entropy = Entropy::new([1; 32]);
        let jar = CookieJar::new(Instant::ZERO, &mut entropy);
        let (initiation, key, public) = handshake(&mut entropy);
        let datagram = initiation.datagram(None);
        let asked = Asked::decode(&datagram, &mac1_key(&public)).expect("sound");
        let genuine = jar.answer(source("10.0.0.1:5"), &asked, &key);
        for bit in 8..COOKIE * 8 {
            let mut altered = genuine;
            altered[bit / 8] ^= 1 << (bit % 8);
            let answer = CookieAnswer::decode(&altered).expect("its length");
            assert!(!answer.answers(&key, &initiation.mac2()), "bit {bit}");
        }
        let refusal = RefusalAnswer::decode(&RefusalAnswer::make(&asked, &public));
        let refusal = refusal.expect("its length");
        assert!(refusal.answers(&public, &initiation.mac2()) && refusal.receiver == 77);
        assert!(!refusal.answers(&public, &[6; 16]), "of another Initiation");
    }
}
