//! Versions: two ends that do not speak the same one say so, since neither can open the other's
//! handshake [specs/wire.md §4] (4.8).
//!
//! ```text
//! Version datagram = 7 ‖ receiver ‖ version of the wire ‖ release (24) ‖ MAC(key that both share,
//!                    all that ‖ what it answers)
//! ```
//!
//! What it answers is mac2 of the Initiation where the responder says it, and the cookie where the
//! initiator does: each shows that the other end has just said something. Nothing depends on what
//! it says but what people are told.

use super::PeerKey;
use super::mac::Code;
use crate::wire::{DatagramType, Reader, WireError};

/// Bytes of a release, with zeros behind it.
const RELEASE: usize = 24;
const HEAD: usize = 1 + 4 + 1 + RELEASE;
/// Bytes of a Version datagram.
pub(crate) const VERSION: usize = HEAD + 16;

/// Says that the other end of a session speaks another version of the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version that it speaks; none where it does not say, as releases before these datagrams.
    pub wire: Option<u8>,
    /// Its release; empty where it does not say.
    pub release: String,
}

/// Holds a Version datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionAnswer {
    /// The initiator's name for its handshake.
    pub(crate) receiver: u32,
    wire: u8,
    release: [u8; RELEASE],
    code: Code,
}

impl VersionAnswer {
    /// Makes a datagram that says what this end speaks.
    pub(crate) fn make(receiver: u32, wire: u8, key: &PeerKey, answered: &Code) -> [u8; VERSION] {
        let mut release = [0; RELEASE];
        let own = env!("CARGO_PKG_VERSION").bytes();
        release.iter_mut().zip(own).for_each(|(byte, own)| *byte = own);
        let mut datagram = [0; VERSION];
        datagram[..HEAD].copy_from_slice(&head(receiver, wire, &release));
        let code = key.code(&[&datagram[..HEAD], answered]);
        datagram[HEAD..].copy_from_slice(&code);
        datagram
    }

    /// Reads one; [`VersionAnswer::answers`] tells whether it is authentic.
    pub(crate) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if datagram.len() != VERSION {
            return Err(WireError::Truncated);
        }
        let mut reader = Reader::new(&datagram[1..]);
        let (receiver, wire) = (reader.u32()?, reader.u8()?);
        Ok(Self { receiver, wire, release: reader.array()?, code: reader.array()? })
    }

    /// Checks that the peer of `key` made it, and knew what it answers.
    pub(crate) fn answers(&self, key: &PeerKey, answered: &Code) -> bool {
        key.verify(&[&head(self.receiver, self.wire, &self.release), answered], &self.code)
    }

    /// Returns what it says: of the release, what may be shown.
    pub(crate) fn said(&self) -> OtherVersion {
        let shown = self.release.iter().take_while(|byte| byte.is_ascii_graphic());
        let release = shown.map(|byte| char::from(*byte)).collect();
        OtherVersion { wire: Some(self.wire), release }
    }
}

fn head(receiver: u32, wire: u8, release: &[u8; RELEASE]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = DatagramType::Version as u8;
    head[1..5].copy_from_slice(&receiver.to_le_bytes());
    head[5] = wire;
    head[6..].copy_from_slice(release);
    head
}
