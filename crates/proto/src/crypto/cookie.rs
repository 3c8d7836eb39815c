//! Cookies: an initiator proves its source address before the responder spends a Diffie–Hellman.
//!
//! ```text
//! cookie(source)  = MAC(secret, "cookie" ‖ address ‖ port)      what mac2 of an Initiation is keyed by
//! challenge       = MAC(secret, "challenge")                    what its sealed payload must repeat
//! Cookie datagram = 3 ‖ receiver ‖ cookie ‖ challenge ‖ MAC(key of responder, all that ‖ mac1)
//! ```
//!
//! The secret is drawn at start and every two minutes; the one before still counts. The cookie
//! binds the datagram to an address; the challenge, sealed by the initiator's static key, bounds
//! the life of an Initiation by the responder's own secret instead of anybody's wall clock. The
//! code over `mac1` shows that the answer comes from somebody who saw the Initiation.

use std::net::{IpAddr, SocketAddr};

use units::Instant;

use super::Entropy;
use super::mac::{Code, MacKey};
use crate::limits;
use crate::wire::{DatagramType, Reader, WireError};

/// Bytes of a Cookie datagram.
pub(crate) const COOKIE: usize = 1 + 4 + 16 + 16 + 16;
const SIGNED: usize = COOKIE - 16;

/// Issues and recognises the cookies of a responder.
pub(crate) struct CookieJar {
    current: MacKey,
    previous: Option<MacKey>,
    rotated: Instant,
    answer_key: MacKey,
}

impl CookieJar {
    /// Starts with a fresh secret; `public` is the responder's key.
    pub(crate) fn new(now: Instant, public: &[u8; 32], entropy: &mut Entropy) -> Self {
        Self {
            current: MacKey::from_random(entropy.array()),
            previous: None,
            rotated: now,
            answer_key: answer_key(public),
        }
    }

    /// Changes the secret when it is time.
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

    /// Checks that `code` over `message` is keyed by a cookie of this source address.
    pub(crate) fn admits(&self, source: SocketAddr, message: &[u8], code: &Code) -> bool {
        self.secrets().any(|secret| keyed_by(&cookie(secret, source)).verify(&[message], code))
    }

    /// Checks that a challenge is one of the last two to four minutes.
    pub(crate) fn knows_challenge(&self, challenge: &Code) -> bool {
        self.secrets().any(|secret| secret.verify(&[b"challenge"], challenge))
    }

    /// Makes the answer to an Initiation that came without a cookie of its source address.
    pub(crate) fn answer(&self, source: SocketAddr, sender: u32, mac1: &Code) -> [u8; COOKIE] {
        let mut datagram = [0; COOKIE];
        datagram[0] = DatagramType::Cookie as u8;
        datagram[1..5].copy_from_slice(&sender.to_le_bytes());
        datagram[5..21].copy_from_slice(&cookie(&self.current, source));
        datagram[21..37].copy_from_slice(&self.current.code(&[b"challenge"]));
        let code = self.answer_key.code(&[&datagram[..SIGNED], mac1]);
        datagram[SIGNED..].copy_from_slice(&code);
        datagram
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
    /// Keys mac2 of what is sent from this address from now on.
    pub(crate) cookie: Code,
    /// Goes into the sealed payload.
    pub(crate) challenge: Code,
    code: Code,
}

impl CookieAnswer {
    /// Reads a Cookie datagram; whether it is authentic is for [`CookieAnswer::answers`] to say.
    pub(crate) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if datagram.len() != COOKIE {
            return Err(WireError::Truncated);
        }
        let mut reader = Reader::new(&datagram[1..]);
        Ok(Self {
            receiver: reader.u32()?,
            cookie: reader.array()?,
            challenge: reader.array()?,
            code: reader.array()?,
        })
    }

    /// Checks that whoever sent it saw the Initiation of this `mac1` to the responder of that key.
    pub(crate) fn answers(&self, responder: &[u8; 32], mac1: &Code) -> bool {
        let kind = [DatagramType::Cookie as u8];
        let receiver = self.receiver.to_le_bytes();
        let parts: [&[u8]; 5] = [&kind, &receiver, &self.cookie, &self.challenge, mac1];
        answer_key(responder).verify(&parts, &self.code)
    }
}

/// Keys mac2 by a cookie.
pub(crate) fn keyed_by(cookie: &Code) -> MacKey {
    let mut key = [0; 32];
    key[..16].copy_from_slice(cookie);
    MacKey::from_random(key)
}

fn answer_key(responder: &[u8; 32]) -> MacKey {
    MacKey::derive("fulmar cookie", responder)
}

fn cookie(secret: &MacKey, source: SocketAddr) -> Code {
    let address = match source.ip().to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    secret.code(&[b"cookie", &address, &source.port().to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONDER: [u8; 32] = [9; 32];

    fn source(text: &str) -> SocketAddr {
        text.parse().expect("a socket address")
    }

    #[test]
    fn a_cookie_is_good_for_one_source_and_two_secrets() {
        let mut entropy = Entropy::new([1; 32]);
        let mut jar = CookieJar::new(Instant::ZERO, &RESPONDER, &mut entropy);
        let here = source("10.0.0.1:500");
        let datagram = jar.answer(here, 77, &[5; 16]);
        let answer = CookieAnswer::decode(&datagram).expect("its own length");
        assert!(answer.answers(&RESPONDER, &[5; 16]) && answer.receiver == 77);
        assert!(!answer.answers(&RESPONDER, &[6; 16]) && !answer.answers(&[8; 32], &[5; 16]));

        let code = keyed_by(&answer.cookie).code(&[b"message"]);
        assert!(jar.admits(here, b"message", &code));
        assert!(jar.admits(source("[::ffff:10.0.0.1]:500"), b"message", &code), "the same address");
        assert!(!jar.admits(source("10.0.0.1:501"), b"message", &code));
        assert!(!jar.admits(source("10.0.0.2:500"), b"message", &code));

        for (secrets, known) in [(1, true), (2, false)] {
            jar.refresh(Instant::ZERO + limits::COOKIE_SECRET_AGE * secrets, &mut entropy);
            assert_eq!(jar.admits(here, b"message", &code), known);
            assert_eq!(jar.knows_challenge(&answer.challenge), known);
        }
    }

    #[test]
    fn a_secret_that_lay_idle_too_long_does_not_count_any_more() {
        let mut entropy = Entropy::new([1; 32]);
        let mut jar = CookieJar::new(Instant::ZERO, &RESPONDER, &mut entropy);
        let answer = CookieAnswer::decode(&jar.answer(source("10.0.0.1:5"), 0, &[0; 16]));
        jar.refresh(Instant::ZERO + limits::COOKIE_SECRET_AGE * 2, &mut entropy);
        assert!(!jar.knows_challenge(&answer.expect("its own length").challenge));
    }
}
