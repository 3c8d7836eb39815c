//! Long-term key pairs: who a peer is.

use core::fmt;
use core::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::{Zeroize, Zeroizing};

/// The X25519 secret key of an endpoint: 32 bytes that never leave it, and are wiped when it is
/// dropped.
#[derive(Clone)]
pub struct StaticSecret([u8; 32]);

impl Drop for StaticSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl FromStr for StaticSecret {
    type Err = KeyError;

    /// Reads what is written as a public key is: base64 of 44 characters.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| KeyError)?);
        let bytes: &[u8; 32] = bytes.as_slice().try_into().map_err(|_| KeyError)?;
        Ok(Self(*bytes))
    }
}

impl StaticSecret {
    /// Makes a secret key from 32 bytes of the operating system's random numbers.
    pub fn generate(entropy: [u8; 32]) -> Self {
        let mut bytes = entropy;
        // [RFC 7748 §5]: every implementation clamps when it multiplies; clamping here as well
        // makes the stored form the one that is used.
        bytes[0] &= 0xf8;
        bytes[31] &= 0x7f;
        bytes[31] |= 0x40;
        Self(bytes)
    }

    /// Takes a stored secret key.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Computes the public key.
    pub fn public(&self) -> PublicKey {
        let mut dh = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("the default resolver is built with X25519");
        dh.set(&self.0);
        let mut public = [0; 32];
        public.copy_from_slice(dh.pubkey());
        PublicKey(public)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for StaticSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticSecret(…)")
    }
}

/// Names a peer: its X25519 public key; written and read as base64 of 44 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Tells whether it is one of the few points with which every secret agrees on zeros. No secret
    /// belongs to such a key, so anybody could pose as its owner [RFC 7748 §6.1].
    pub fn is_weak(&self) -> bool {
        let mut dh = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("the default resolver is built with X25519");
        // Clamped secrets are multiples of the cofactor: any of them will do.
        dh.set(&[1; 32]);
        let mut agreed = [0; 32];
        dh.dh(&self.0, &mut agreed).is_err() || agreed == [0; 32]
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// Says that a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key is base64 of 32 bytes: 44 characters, the last one '='")
    }
}

impl core::error::Error for KeyError {}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| KeyError)?;
        bytes.try_into().map(Self).map_err(|_| KeyError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_is_that_of_rfc_7748() {
        // [RFC 7748 §6.1], Alice.
        let alice = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public = StaticSecret::from_bytes(alice).public();
        assert_eq!(public.to_string(), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=");
        assert_eq!(public.to_string().parse(), Ok(public));
    }

    #[test]
    fn keys_that_belong_to_nobody_are_weak() {
        let number = |low: u8, rest: u8, high: u8| {
            let mut bytes = [rest; 32];
            (bytes[0], bytes[31]) = (low, high);
            PublicKey(bytes)
        };
        // 0, 1, then −1, 0 and 1 again as they are written with the prime 2²⁵⁵ − 19.
        let weak =
            [(0, 0, 0), (1, 0, 0), (0xec, 0xff, 0x7f), (0xed, 0xff, 0x7f), (0xee, 0xff, 0x7f)];
        for (low, rest, high) in weak {
            assert!(number(low, rest, high).is_weak());
            assert!(number(low, rest, high | 0x80).is_weak(), "the top bit does not count");
        }
        // A point of order eight.
        let eighth = "4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA=".parse::<PublicKey>();
        assert!(eighth.expect("32 bytes").is_weak());
        assert!(!StaticSecret::generate([7; 32]).public().is_weak());
        assert!(!number(9, 0, 0).is_weak(), "the base point");
    }

    #[test]
    fn nonsense_is_no_key() {
        for text in ["", "AAAA", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTm", "?"] {
            assert_eq!(text.parse::<PublicKey>(), Err(KeyError));
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let secret = StaticSecret::generate([0x5a; 32]);
        assert_eq!(format!("{secret:?}"), "StaticSecret(…)");
        assert_eq!(StaticSecret::from_bytes(secret.to_bytes()).public(), secret.public());
    }
}
