//! Whose static key an Initiation carries, at the cost of one Diffie–Hellman: a station with many
//! peers asks that first.
//!
//! ```text
//! h = HASH(name), ck = h; mix into h: prologue, responder's key, e; ck, _ = HKDF(ck, e)     [Noise §7.1, §9.3]
//! ck, k = HKDF(ck, X25519(responder's secret, e)); s = DECRYPT(k, 0, h, the 48 bytes after e)
//! ```
//!
//! These are the first steps of what the Noise library does with the message before a second
//! Diffie–Hellman. They prove nothing: anyone who knows the responder's key can write any key here.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Hash;
use zeroize::Zeroizing;

use super::{PublicKey, StaticSecret};

/// An encrypted key and its tag.
const SEALED: usize = 32 + 16;

/// Reads the static key out of the first message of a handshake called `name`; our own key is given
/// in both halves, because computing the public one would cost as much again.
pub(super) fn claimed_key(
    name: &str,
    prologue: &[u8],
    (secret, public): (&StaticSecret, &PublicKey),
    message: &[u8],
) -> Option<PublicKey> {
    let (ephemeral, rest) = message.split_first_chunk::<32>()?;
    let sealed = rest.first_chunk::<SEALED>()?;
    let mut hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s)?;
    let mut cipher = DefaultResolver.resolve_cipher(&CipherChoice::AESGCM)?;
    let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519)?;
    dh.set(secret.as_bytes());
    let mut shared = Zeroizing::new([0; 32]);
    dh.dh(ephemeral, &mut *shared).ok()?;

    let mut chaining = Zeroizing::new(digest(&mut *hash, &[name.as_bytes()]));
    let mut transcript = *chaining;
    for part in [prologue, &public.0, ephemeral] {
        transcript = digest(&mut *hash, &[&transcript, part]);
    }
    let mut key = Zeroizing::new([0; 32]);
    // With a pre-shared key, Noise mixes in the ephemeral key too.
    for input in [ephemeral, &*shared] {
        let mut next = Zeroizing::new([0; 32]);
        hash.hkdf(&*chaining, input, 2, &mut *next, &mut *key, &mut []);
        chaining = next;
    }
    cipher.set(&key);
    let mut claimed = [0; SEALED];
    cipher.decrypt(0, &transcript, sealed, &mut claimed).ok()?;
    claimed.first_chunk().copied().map(PublicKey)
}

fn digest(hash: &mut dyn Hash, parts: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    hash.reset();
    parts.iter().for_each(|part| hash.input(part));
    hash.result(&mut out);
    out
}
