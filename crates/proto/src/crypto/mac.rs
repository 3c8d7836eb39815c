//! Short message authentication codes: keyed BLAKE2s of 128 bits, compared in constant time.

use blake2::digest::consts::U16;
use blake2::digest::{Digest, KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac};
use zeroize::Zeroize;

/// A code, or a cookie: a code over an address.
pub(crate) type Code = [u8; 16];

/// The key of such codes.
#[derive(Clone)]
pub(crate) struct MacKey([u8; 32]);

impl Drop for MacKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl MacKey {
    /// Takes random bytes as key.
    pub(crate) fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Derives a key from something known to few: a code then proves that its sender is one of
    /// them.
    pub(crate) fn derive(label: &str, known: &[u8]) -> Self {
        Self(Blake2s256::new().chain_update(label).chain_update(known).finalize().into())
    }

    /// Computes the code over `parts`, one after the other.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Code {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Checks a code in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], code: &Code) -> bool {
        self.mac(parts).verify_slice(code).is_ok()
    }

    /// Checks the first bytes of a code, in constant time: a forgery passes with a chance of 2⁻⁶⁴.
    pub(crate) fn verify_start(&self, parts: &[&[u8]], start: &[u8; 8]) -> bool {
        self.mac(parts).verify_truncated_left(start).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Blake2sMac<U16> {
        let mac = <Blake2sMac<U16> as KeyInit>::new_from_slice(&self.0);
        let mut mac = mac.expect("BLAKE2s takes keys of 32 bytes");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_proves_key_label_and_content() {
        let key = MacKey::derive("label", &[7; 32]);
        let code = key.code(&[b"one", b"two"]);
        assert!(key.verify(&[b"onetwo"], &code), "parts are one message");
        assert!(!key.verify(&[b"onetwO"], &code));
        let start = *code.first_chunk().expect("16 bytes");
        assert!(key.verify_start(&[b"onetwo"], &start));
        assert!(!key.verify_start(&[b"onetwO"], &start));
        assert!(!key.verify_start(&[b"onetwo"], code.last_chunk().expect("16 bytes")));
        assert!(!MacKey::derive("other", &[7; 32]).verify(&[b"onetwo"], &code));
        assert!(!MacKey::from_random([7; 32]).verify(&[b"onetwo"], &code));
    }
}
