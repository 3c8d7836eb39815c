//! MAVLink frames from byte streams: TCP connections and serial ports of local endpoints.
//!
//! `mavlink.rs` handles a datagram at once; a stream has no boundaries, so an incomplete frame
//! waits here for its rest. No more than one frame's bytes ever wait.

use super::mavlink::{MAX_FRAME, Parsed, is_magic, parse};

/// Cuts a byte stream into MAVLink frames and finds the next one after corruption.
///
/// ```
/// use fulmar_proto::select::{StreamFramer, Version, encode_frame};
///
/// let heartbeat = encode_frame(Version::V2, 0, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap();
/// let mut framer = StreamFramer::new();
/// let mut frames = Vec::new();
/// framer.push(b"boot: ok\r\n", |frame| frames.push(frame.to_vec()));
/// framer.push(&heartbeat[..5], |frame| frames.push(frame.to_vec()));
/// framer.push(&heartbeat[5..], |frame| frames.push(frame.to_vec()));
/// assert_eq!(frames, [heartbeat]);
/// assert_eq!(framer.skipped(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct StreamFramer {
    waiting: Vec<u8>,
    /// False once something was skipped, until a frame follows.
    in_step: bool,
    skipped: u64,
    broken: u64,
}

impl Default for StreamFramer {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamFramer {
    /// Starts at the beginning of a stream.
    pub fn new() -> Self {
        Self { waiting: Vec::new(), in_step: true, skipped: 0, broken: 0 }
    }

    /// Takes the next bytes of the stream and calls `each` with every frame that they complete.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        // Taking one frame's worth at a time bounds what waits, however much is read at once.
        for piece in bytes.chunks(MAX_FRAME) {
            self.waiting.extend_from_slice(piece);
            let used = self.cut(&mut each);
            self.waiting.drain(..used);
        }
    }

    /// Returns how many bytes belonged to no frame.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns how many frames were broken.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Returns how many frames were broken and how many bytes belonged to none since the last call.
    pub fn take_lost(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.broken), std::mem::take(&mut self.skipped))
    }

    /// Cuts frames off the front of what waits; returns how many bytes are finished with.
    fn cut(&mut self, each: &mut impl FnMut(&[u8])) -> usize {
        let mut at = 0;
        while at < self.waiting.len() {
            match parse(&self.waiting[at..]) {
                Parsed::Incomplete => break,
                Parsed::Frame(frame) => {
                    let next = self.waiting.get(at + frame.bytes.len());
                    if frame.definition.is_some()
                        || self.in_step
                        || next.is_some_and(|b| is_magic(*b))
                    {
                        each(frame.bytes);
                        at += frame.bytes.len();
                        self.in_step = true;
                    } else if next.is_none() {
                        // When out of step, an unknown id is believed only once another frame
                        // follows.
                        break;
                    } else {
                        at += 1;
                        self.skip(true);
                    }
                }
                Parsed::BadChecksum => {
                    at += 1;
                    self.skip(true);
                }
                Parsed::NoFrame => {
                    at += 1;
                    self.skip(false);
                }
            }
        }
        at
    }

    fn skip(&mut self, is_broken: bool) {
        self.skipped += 1;
        self.broken += u64::from(is_broken);
        self.in_step = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Version, encode_frame};
    use super::*;

    fn frames() -> Vec<Vec<u8>> {
        let ids = [0, 76, 30, 70, 22, 1];
        let frame = |(sequence, id): (usize, &u32)| {
            let version = if sequence % 2 == 0 { Version::V2 } else { Version::V1 };
            encode_frame(version, sequence as u8, (1, 1), *id, &[sequence as u8 + 1; 40])
        };
        ids.iter().enumerate().filter_map(frame).collect()
    }

    #[test]
    fn corruption_costs_the_frame_that_it_hits() {
        let frames = frames();
        let mut stream = frames.concat();
        stream[frames[0].len() + 10] ^= 0x10;
        let mut framer = StreamFramer::new();
        let mut found = Vec::new();
        framer.push(&stream, |frame| found.push(frame.to_vec()));
        assert_eq!(found.len(), frames.len() - 1);
        assert_eq!(framer.skipped(), frames[1].len() as u64);
        assert!(framer.broken() >= 1);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_frames(
            sizes in prop::collection::vec(1_usize..50, 1..200),
        ) {
            let expected = frames();
            let stream = expected.concat();
            let mut framer = StreamFramer::new();
            let (mut found, mut rest) = (Vec::new(), &stream[..]);
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                framer.push(piece, |frame| found.push(frame.to_vec()));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn nonsense_never_piles_up(bytes in prop::collection::vec(
            prop_oneof![Just(0xfe_u8), Just(0xfd_u8), any::<u8>()], 0..2_000)) {
            let mut framer = StreamFramer::new();
            let mut used = 0;
            framer.push(&bytes, |frame| used += frame.len() as u64);
            prop_assert!(framer.waiting.len() <= MAX_FRAME);
            prop_assert_eq!(used + framer.skipped() + framer.waiting.len() as u64, bytes.len() as u64);
        }
    }
}
