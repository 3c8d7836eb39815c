//! What a transmitter of `trace record` broadcasts: who it is, and the number of the slot.
//!
//! ```text
//! 0   "FLMRSLOT"            26  boot, 8 bytes: another at each start
//! 8   1, the version        34  number of the slot since 1970, 8 bytes
//! 9   length of the name    42  length of a slot in ns, 8 bytes
//! 10  name, 16 bytes        50  zeros, to 1,472 bytes in all
//! ```
//! Numbers have their lowest byte first.

/// Bytes of a datagram: with its headers an IP packet of 1,500 [FlowCode §IV].
pub(super) const FRAME_BYTES: usize = 1_472;

const MAGIC: &[u8; 8] = b"FLMRSLOT";
const VERSION: u8 = 1;
const NAME: usize = 10;
const BOOT: usize = 26;
const SLOT: usize = 34;
const SLOT_NS: usize = 42;

/// A broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The name of the transmitter.
    pub(super) sender: String,
    /// Tells two transmitters of one name apart.
    pub(super) boot: u64,
    /// The number of the slot in which it was sent, counted since 1970 by the sender's clock.
    pub(super) slot: u64,
    /// How long slots are, in nanoseconds.
    pub(super) slot_ns: u64,
}

impl Frame {
    pub(super) fn to_bytes(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = VERSION;
        // Names are checked where they come in.
        let name = &self.sender.as_bytes()[..self.sender.len().min(NAME_MAX)];
        bytes[9] = name.len() as u8;
        bytes[NAME..NAME + name.len()].copy_from_slice(name);
        for (at, number) in [(BOOT, self.boot), (SLOT, self.slot), (SLOT_NS, self.slot_ns)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads a datagram; `None` when it is no broadcast of ours.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != FRAME_BYTES || !bytes.starts_with(MAGIC) || bytes[8] != VERSION {
            return None;
        }
        let name = bytes[NAME..BOOT].get(..usize::from(bytes[9]))?;
        let sender = core::str::from_utf8(name).ok().filter(|name| is_name(name))?.to_owned();
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        let (boot, slot, slot_ns) = (number(BOOT), number(SLOT), number(SLOT_NS));
        (slot_ns > 0).then_some(Self { sender, boot, slot, slot_ns })
    }
}

/// The longest name of a node, as of a host in a scenario.
const NAME_MAX: usize = 15;

/// Says whether a node may be called so.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_reads_back_and_nothing_else_is_one() {
        let frame = Frame { sender: "m1".to_owned(), boot: 7, slot: 1 << 40, slot_ns: 11_776_000 };
        let bytes = frame.to_bytes();
        assert_eq!(Frame::parse(&bytes), Some(frame));
        assert_eq!(Frame::parse(&bytes[1..]), None);
        for (at, value) in [(0, 0), (8, 2), (9, 0), (9, 17), (9, 16), (10, b'/'), (10, 0xff)] {
            let mut wrong = bytes;
            wrong[at] = value;
            assert_eq!(Frame::parse(&wrong), None, "{value} at {at}");
        }
        let mut endless = bytes;
        endless[SLOT_NS..SLOT_NS + 8].fill(0);
        assert_eq!(Frame::parse(&endless), None);
    }
}
