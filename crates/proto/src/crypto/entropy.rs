//! Randomness for keys: a generator that the driver seeds once from the operating system.
//!
//! ChaCha20 with its key erased after every draw: reading the memory later reveals nothing of the
//! ephemeral keys that were drawn before. `snow` would ask the operating system by itself; it gets
//! a generator from here instead, so that this crate does no I/O and tests repeat exactly.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroize;

/// Draws unpredictable bytes.
pub(crate) struct Entropy {
    key: [u8; 32],
}

impl Drop for Entropy {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Entropy {
    /// Starts from 32 bytes of the operating system's random numbers.
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { key: seed }
    }

    /// Fills `bytes` and forgets how.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut rng = ChaCha20Rng::from_seed(self.key);
        rng.fill_bytes(&mut self.key);
        rng.fill_bytes(bytes);
    }

    /// Draws an array.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Draws 32 bits.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Draws 64 bits.
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Makes the primitives of one handshake: `snow`'s own, with randomness from here.
    pub(crate) fn resolver(&mut self) -> Box<Primitives> {
        Box::new(Primitives { seed: self.array() })
    }
}

/// Gives `snow` its primitives for one handshake, which draws one ephemeral key.
pub(crate) struct Primitives {
    seed: [u8; 32],
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Draw(Entropy::new(self.seed))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

struct Draw(Entropy);

impl Random for Draw {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_repeat_with_the_seed() {
        let draws = |seed| {
            let mut entropy = Entropy::new([seed; 32]);
            [entropy.u64(), entropy.u64(), u64::from(entropy.u32())]
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_ne!(draws(1)[0], draws(1)[1]);
    }
}
