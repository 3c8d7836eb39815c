//! Keys and what is done with them: the handshake's, the data datagrams', the cookies'.
//!
//! Primitives come from `snow` (Noise), `ring` (AES-256-GCM) and `blake2`; nothing here decides
//! when to talk to whom: that is the endpoint's. Randomness comes from a generator that the
//! driver seeds, never from the operating system.

mod key_ring;
mod keys;
mod replay;

pub(crate) use key_ring::{EpochKeys, KeyRing, OpenError, Opened, SealError};
pub use keys::{KeyError, PublicKey, StaticSecret};
pub(crate) use replay::ReplayWindow;
