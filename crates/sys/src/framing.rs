//! Datagrams in a stream of bytes: each has its length in front [specs/wire.md §9].
//!
//! ```text
//! length u16, little endian ‖ datagram of so many bytes, 1 to 1,472
//! ```
//! Nothing in a stream says where a frame begins, so the first length that cannot be is the end of
//! it: what follows has no meaning any more. What is whole is read where it lies; only what is cut
//! off at the end of a read is kept, one datagram at most.

use std::fmt;

/// Bytes of the length in front.
pub const LENGTH: usize = 2;
/// The longest datagram.
pub const LONGEST: usize = 1_472;

/// Says why nothing more can be read from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// A length of zero.
    Empty,
    /// A length above [`LONGEST`].
    TooLong(u16),
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a length of 0"),
            Self::TooLong(length) => write!(f, "a length of {length}, above {LONGEST}"),
        }
    }
}

impl std::error::Error for FramingError {}

/// Appends a datagram with its length in front.
///
/// # Panics
/// Where the datagram is empty or longer than [`LONGEST`]: nobody could read it.
pub fn put(datagram: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    assert!((1..=LONGEST).contains(&usize::from(length)), "a datagram of {length} bytes");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(datagram);
}

/// Takes datagrams out of a stream of bytes that comes in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// What came of a frame that is not whole yet, its length first.
    left: Vec<u8>,
}

impl Deframer {
    /// Reads what came next and hands each datagram that is whole to `take`, in place.
    ///
    /// # Errors
    /// [`FramingError`] at the first length that cannot be; what came before was handed over.
    pub fn feed(
        &mut self,
        mut bytes: &mut [u8],
        mut take: impl FnMut(&mut [u8]),
    ) -> Result<(), FramingError> {
        while !self.left.is_empty() && !bytes.is_empty() {
            let wanted = match self.left.get(..LENGTH) {
                Some(length) => LENGTH + checked(length)?,
                None => LENGTH,
            };
            let more = (wanted - self.left.len()).min(bytes.len());
            let (head, rest) = std::mem::take(&mut bytes).split_at_mut(more);
            self.left.extend_from_slice(head);
            bytes = rest;
            if let Some(length) = self.left.get(..LENGTH)
                && self.left.len() == LENGTH + checked(length)?
            {
                take(&mut self.left[LENGTH..]);
                self.left.clear();
            }
        }
        while let Some(length) = bytes.get(..LENGTH) {
            let length = checked(length)?;
            if bytes.len() < LENGTH + length {
                break;
            }
            let (frame, rest) = std::mem::take(&mut bytes).split_at_mut(LENGTH + length);
            take(&mut frame[LENGTH..]);
            bytes = rest;
        }
        self.left.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns how many bytes are kept: less than a frame.
    pub fn kept(&self) -> usize {
        self.left.len()
    }
}

/// Reads a length.
fn checked(length: &[u8]) -> Result<usize, FramingError> {
    let length = u16::from_le_bytes([length[0], length[1]]);
    match usize::from(length) {
        0 => Err(FramingError::Empty),
        bytes if bytes > LONGEST => Err(FramingError::TooLong(length)),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(datagrams: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        datagrams.iter().for_each(|datagram| put(datagram, &mut bytes));
        bytes
    }

    #[test]
    fn datagrams_come_out_as_they_went_in_however_the_stream_is_cut() {
        let datagrams: Vec<_> = [1, 2, 300, LONGEST, 7].map(|size| vec![size as u8; size]).into();
        let whole = stream(&datagrams);
        for piece in [1, 2, 3, 5, 299, 1_000, whole.len()] {
            let (mut deframer, mut out) = (Deframer::default(), Vec::new());
            for bytes in whole.clone().chunks_mut(piece) {
                deframer.feed(bytes, |datagram| out.push(datagram.to_vec())).unwrap();
                assert!(deframer.kept() < LENGTH + LONGEST);
            }
            assert_eq!(out, datagrams, "in pieces of {piece}");
            assert_eq!(deframer.kept(), 0);
        }
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_stream_and_what_came_before_counts() {
        for (length, error) in [
            (0, FramingError::Empty),
            (1_473, FramingError::TooLong(1_473)),
            (u16::MAX, FramingError::TooLong(u16::MAX)),
        ] {
            let mut whole = stream(&[vec![9; 20]]);
            whole.extend_from_slice(&length.to_le_bytes());
            whole.extend_from_slice(&[1; 4]);
            for piece in [1, 3, whole.len()] {
                let (mut deframer, mut out) = (Deframer::default(), 0);
                let fed: Result<Vec<()>, _> = (whole.clone().chunks_mut(piece))
                    .map(|bytes| deframer.feed(bytes, |_| out += 1))
                    .collect();
                assert_eq!((fed, out), (Err(error), 1));
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_no_datagram_and_takes_no_more_than_one() {
        let mut whole = stream(&[vec![9; LONGEST]]);
        whole.pop();
        let mut deframer = Deframer::default();
        deframer.feed(&mut whole, |_| panic!("it is not whole")).unwrap();
        assert_eq!(deframer.kept(), LENGTH + LONGEST - 1);
    }
}
