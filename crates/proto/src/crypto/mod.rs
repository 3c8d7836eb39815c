//! Keys and what is done with them: the handshake's, the data datagrams', the cookies'.
//!
//! Primitives come from `snow` (Noise), `ring` (AES-256-GCM) and `blake2`; the endpoint, not this
//! module, decides when to talk to whom. Randomness comes from a generator that the driver seeds,
//! never from the operating system.

mod claimed_key;
mod cookie;
mod entropy;
mod handshake;
mod key_ring;
mod keys;
mod mac;
mod pairing;
mod peer_key;
mod version;

pub(crate) use cookie::{COOKIE, CookieAnswer, CookieJar, RefusalAnswer};
pub(crate) use entropy::Entropy;
pub use handshake::WIRE_VERSION;
pub(crate) use handshake::{
    Agreed, Asked, HandshakeError, INITIATION, Initiation, Parties, RESPONSE, mac1_key,
    response_receiver,
};
pub(crate) use key_ring::{EpochKeys, KeyRing};
pub use keys::{KeyError, PublicKey, StaticSecret};
pub(crate) use mac::{Code, MacKey};
pub use pairing::{Guest, is_proof, prove};
pub(crate) use peer_key::PeerKey;
pub use version::OtherVersion;
pub(crate) use version::{VERSION, VersionAnswer};
