//! The frames of coded generations [specs/tunnel.md §7].

use super::{Reader, WireError, put_varint, varint_len};
use crate::limits;

/// Bytes of a COMBINATION frame around its payload, at most, beside its coefficients.
pub(crate) const COMBINATION_OVERHEAD: usize = 1 + 8 + 1 + 2;

/// Bytes of a DECODED frame, at most.
pub(crate) const DECODED_BYTES: usize = 1 + 8;

/// Carries a combination of the packets of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CombinationFrame<'a> {
    /// Numbers the generations of one direction.
    pub(crate) generation: u64,
    /// The coefficient of each packet, dummies included: as many as a generation has packets.
    pub(crate) coefficients: &'a [u8],
    /// The combination.
    pub(crate) payload: &'a [u8],
}

impl<'a> CombinationFrame<'a> {
    /// Returns how many bytes follow the type.
    pub(super) fn encoded_len(&self) -> usize {
        varint_len(self.generation)
            + 1
            + self.coefficients.len()
            + varint_len(self.payload.len() as u64)
            + self.payload.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.generation, out);
        out.push(self.coefficients.len() as u8);
        out.extend_from_slice(self.coefficients);
        put_varint(self.payload.len() as u64, out);
        out.extend_from_slice(self.payload);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let generation = generation(reader)?;
        let packets = usize::from(reader.u8()?);
        if !(1..=limits::GENERATION_PACKETS).contains(&packets) {
            return Err(WireError::Invalid("packets of a generation"));
        }
        let coefficients = reader.take(packets)?;
        let len = reader.varint_as("payload length")?;
        Ok(Self { generation, coefficients, payload: reader.take(len)? })
    }
}

/// Reads the number of a generation.
pub(super) fn generation(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    let number = reader.varint()?;
    if number > limits::LAST_GENERATION {
        return Err(WireError::Invalid("generation"));
    }
    Ok(number)
}
