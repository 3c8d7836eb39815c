//! Fields in hostile bytes: fixed integers (little endian) and variable-length ones.
//!
//! The variable-length integer is that of [RFC 9000 §16]: the two top bits of the first byte say
//! whether it takes 1, 2, 4 or 8 bytes (big endian). Encodings need not be minimal.

use super::WireError;

/// The largest value that a variable-length integer holds.
pub(crate) const VARINT_MAX: u64 = (1 << 62) - 1;

/// Takes fields off the front of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns true when nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns how many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true when the next byte is zero.
    pub(crate) fn starts_with_zero(&self) -> bool {
        self.bytes.first() == Some(&0)
    }

    /// Takes `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.bytes.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    /// Takes an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Takes one byte.
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a 32-bit integer.
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a 64-bit integer.
    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a variable-length integer.
    pub(crate) fn varint(&mut self) -> Result<u64, WireError> {
        let first = *self.bytes.first().ok_or(WireError::Truncated)?;
        let bytes = self.take(1 << (first >> 6))?;
        let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        Ok(value & (u64::MAX >> (66 - 8 * bytes.len())))
    }

    /// Takes a variable-length integer that must fit into `T`; `field` names it in the error.
    pub(crate) fn varint_as<T: TryFrom<u64>>(
        &mut self,
        field: &'static str,
    ) -> Result<T, WireError> {
        T::try_from(self.varint()?).map_err(|_| WireError::Invalid(field))
    }

    /// Takes as many zero bytes as there are and returns how many.
    pub(crate) fn zeros(&mut self) -> usize {
        let count = self.bytes.iter().take_while(|byte| **byte == 0).count();
        self.bytes = &self.bytes[count..];
        count
    }
}

/// Appends a variable-length integer; values above [`VARINT_MAX`] are a bug of the caller.
pub(crate) fn put_varint(value: u64, out: &mut Vec<u8>) {
    assert!(value <= VARINT_MAX, "{value} does not fit a variable-length integer");
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 1 << 14).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 2 << 30).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 3 << 62).to_be_bytes()),
    }
}

/// Returns how many bytes [`put_varint`] appends.
pub(crate) const fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_boundary() {
        let edges = [0, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, VARINT_MAX];
        for value in edges {
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            assert_eq!(bytes.len(), varint_len(value));
            assert_eq!(Reader::new(&bytes).varint(), Ok(value));
            for len in 0..bytes.len() {
                assert_eq!(Reader::new(&bytes[..len]).varint(), Err(WireError::Truncated));
            }
        }
    }

    #[test]
    fn varints_round_trip_around_every_power_of_two() {
        for bit in 0..62 {
            for value in (1_u64 << bit).saturating_sub(300)..=((1 << bit) + 300).min(VARINT_MAX) {
                let mut bytes = vec![0xaa];
                put_varint(value, &mut bytes);
                assert_eq!(bytes.len(), 1 + varint_len(value));
                bytes.push(0xaa);
                let mut reader = Reader::new(&bytes[1..]);
                assert_eq!((reader.varint(), reader.len()), (Ok(value), 1));
            }
        }
    }

    /// Every string of up to three bytes: the definition, written out.
    #[test]
    fn every_short_string_is_a_varint_or_cut_off() {
        for len in 0..=3_usize {
            for number in 0..1_u32 << (8 * len) {
                let bytes = &number.to_be_bytes()[4 - len..];
                let (first, second) = (bytes.first().copied(), bytes.get(1).copied());
                let expected = match (first.map(|first| first >> 6), first, second) {
                    (Some(0), Some(first), _) => Ok((u64::from(first), 1)),
                    (Some(1), Some(first), Some(second)) => {
                        Ok((256 * u64::from(first & 0x3f) + u64::from(second), 2))
                    }
                    _ => Err(WireError::Truncated),
                };
                let mut reader = Reader::new(bytes);
                let read = reader.varint().map(|value| (value, len - reader.len()));
                assert_eq!(read, expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn the_examples_of_rfc_9000_decode() {
        let decode = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(
            decode(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
            Ok(151_288_809_941_952_652)
        );
        assert_eq!(decode(&[0x9d, 0x7f, 0x3e, 0x7d]), Ok(494_878_333));
        assert_eq!(decode(&[0x7b, 0xbd]), Ok(15_293));
        assert_eq!(decode(&[0x40, 0x25]), Ok(37));
    }
}
