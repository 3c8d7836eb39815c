//! What travels in clear: the type of a datagram and the header of a data datagram.
//!
//! The layouts of the handshake's own datagrams are in `crypto::handshake`, beside the code that
//! fills them: they are mostly ciphertext.

use super::{Reader, WireError};
use crate::ids::PathId;

/// Bytes of a data datagram before its ciphertext.
pub(crate) const DATA_HEADER: usize = 12;
/// Bytes that a data datagram adds to its frames: header and authentication tag.
pub(crate) const DATA_OVERHEAD: usize = DATA_HEADER + 16;
/// Bytes of an Unknown datagram: type and index.
pub(crate) const UNKNOWN: usize = 1 + 4;
/// The largest packet number: 48 bits on the wire.
pub(crate) const PACKET_NUMBER_MAX: u64 = (1 << 48) - 1;

/// Tells the kinds of datagrams apart by their first byte [specs/wire.md §1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DatagramType {
    /// An initiator asks for keys.
    Initiation = 1,
    /// A responder grants them.
    Response = 2,
    /// A responder asks for proof of the source address first.
    Cookie = 3,
    /// Sealed frames of a session.
    Data = 4,
    /// A responder does not know the sender.
    Refusal = 5,
    /// A responder has no keys under the index that a data datagram names.
    Unknown = 6,
    /// An end speaks another version of the wire.
    Version = 7,
}

impl DatagramType {
    /// Reads the type of a datagram; an empty one has none.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, WireError> {
        match *bytes.first().ok_or(WireError::Truncated)? {
            1 => Ok(Self::Initiation),
            2 => Ok(Self::Response),
            3 => Ok(Self::Cookie),
            4 => Ok(Self::Data),
            5 => Ok(Self::Refusal),
            6 => Ok(Self::Unknown),
            7 => Ok(Self::Version),
            other => Err(WireError::UnknownType(other)),
        }
    }
}

/// Heads a data datagram: which keys, which path, which packet [specs/wire.md §2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DataHeader {
    /// The receiver's name for the session and its epoch of keys.
    pub(crate) receiver: u32,
    /// The path that the sender chose.
    pub(crate) path: PathId,
    /// Counts the sender's datagrams on this path, over all epochs; 48 bits.
    pub(crate) packet_number: u64,
}

impl DataHeader {
    /// Reads the header of a data datagram that is long enough to hold a tag as well.
    pub(crate) fn decode(datagram: &[u8]) -> Result<Self, WireError> {
        if datagram.len() < DATA_OVERHEAD {
            return Err(WireError::Truncated);
        }
        let mut reader = Reader::new(datagram);
        match reader.u8()? {
            4 => {}
            other => return Err(WireError::UnknownType(other)),
        }
        let receiver = reader.u32()?;
        let path = PathId(reader.u8()?);
        let mut packet_number = [0; 8];
        packet_number[..6].copy_from_slice(&reader.array::<6>()?);
        Ok(Self { receiver, path, packet_number: u64::from_le_bytes(packet_number) })
    }

    /// Returns the datagram that tells the sender that we have no keys under its index.
    pub(crate) fn unknown(&self) -> [u8; UNKNOWN] {
        let [a, b, c, d] = self.receiver.to_le_bytes();
        [DatagramType::Unknown as u8, a, b, c, d]
    }

    /// Returns the header's bytes.
    pub(crate) fn encode(&self) -> [u8; DATA_HEADER] {
        assert!(self.packet_number <= PACKET_NUMBER_MAX, "packet numbers have 48 bits");
        let mut bytes = [0; DATA_HEADER];
        bytes[0] = DatagramType::Data as u8;
        bytes[1..5].copy_from_slice(&self.receiver.to_le_bytes());
        bytes[5] = self.path.0;
        bytes[6..12].copy_from_slice(&self.packet_number.to_le_bytes()[..6]);
        bytes
    }
}

/// Returns the index that an Unknown datagram names.
pub(crate) fn unknown_index(datagram: &[u8]) -> Result<u32, WireError> {
    let bytes: &[u8; UNKNOWN] = datagram.try_into().map_err(|_| WireError::Truncated)?;
    let [_, a, b, c, d] = *bytes;
    Ok(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_header_round_trips_and_wants_room_for_a_tag() {
        let header = DataHeader {
            receiver: 0xdead_beef,
            path: PathId(7),
            packet_number: PACKET_NUMBER_MAX - 1,
        };
        let mut datagram = header.encode().to_vec();
        datagram.extend_from_slice(&[0; 16]);
        assert_eq!(DataHeader::decode(&datagram), Ok(header));
        for len in 0..datagram.len() {
            assert_eq!(DataHeader::decode(&datagram[..len]), Err(WireError::Truncated));
        }
        datagram[0] = 3;
        assert_eq!(DataHeader::decode(&datagram), Err(WireError::UnknownType(3)));
    }

    #[test]
    fn data_header_round_trips_in_every_bit() {
        for bit in 0..88 {
            for fill in [0, u128::MAX] {
                let mut datagram = (fill ^ 1 << bit).to_le_bytes().to_vec();
                datagram.insert(0, 4);
                datagram.resize(DATA_OVERHEAD, 0);
                let header = DataHeader::decode(&datagram).expect("long enough");
                assert_eq!(header.encode(), datagram[..DATA_HEADER]);
            }
        }
    }
}
