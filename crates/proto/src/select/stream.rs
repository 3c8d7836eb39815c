//! MAVLink frames from byte streams: TCP connections, serial ports, and datagrams of whoever cuts
//! them anywhere.
//!
//! `mavlink.rs` handles bytes that are whole; a stream has no boundaries, so an incomplete frame
//! waits here for its rest, for a time. No more than one frame's bytes ever wait. A serial port
//! behind a bridge to UDP is a stream as well: such bridges send what has come when a timer runs
//! out or a buffer is full.

use std::collections::VecDeque;
use std::ops::AddAssign;

use units::{Duration, Instant};

use super::mavlink::{FALSE_STARTS, MAX_FRAME, MavlinkFrame, Parsed, is_magic, parse};

/// How long the beginning of a frame waits for its rest. Bridges send what they have after 5 to 50
/// ms, and the network behind them adds as much; what began no frame holds back what follows it for
/// as long.
const PATIENCE: Duration = Duration::from_millis(100);
/// Bytes for which one more false start is allowed at a time: start bytes are 2 of 256 values, so
/// noise has one every 128 bytes, and checksums of false starts cost no more than about four times
/// those of frames.
const FALSE_START_EVERY: usize = 64;

/// Cuts a byte stream into MAVLink frames and finds the next one after corruption.
///
/// ```
/// use fulmar_proto::Instant;
/// use fulmar_proto::select::{StreamFramer, Version, encode_frame};
///
/// let heartbeat = encode_frame(Version::V2, 0, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap();
/// let (mut framer, now) = (StreamFramer::default(), Instant::ZERO);
/// let mut frames = Vec::new();
/// for piece in [&b"boot: ok\r\n"[..], &heartbeat[..5], &heartbeat[5..]] {
///     framer.push(now, piece, |frame| frames.push(frame.bytes.to_vec()));
/// }
/// assert_eq!(frames, [heartbeat]);
/// assert_eq!(framer.take_loss().bytes, 10);
/// ```
#[derive(Clone, Debug)]
pub struct StreamFramer {
    waiting: Vec<u8>,
    /// When what waits came, and how much of it each time.
    came: VecDeque<(Instant, usize)>,
    patience: Duration,
    /// False once something was skipped, until a frame follows.
    in_step: bool,
    loss: StreamLoss,
}

/// Counts what a stream lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLoss {
    /// Frames that were broken: a wrong checksum, or an end that did not come in time.
    pub frames: u64,
    /// Bytes that belonged to no frame, those of broken ones included.
    pub bytes: u64,
}

impl AddAssign for StreamLoss {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
    }
}

impl Default for StreamFramer {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl StreamFramer {
    /// Starts at the beginning of a stream, in which a frame's rest may come this much later than
    /// its beginning.
    pub fn with_patience(patience: Duration) -> Self {
        let (waiting, came) = (Vec::new(), VecDeque::new());
        Self { waiting, came, patience, in_step: true, loss: StreamLoss::default() }
    }

    /// Starts at the beginning of a serial line of `baud` bits a second, on which a long frame may
    /// take its time.
    pub fn of_line(baud: u32) -> Self {
        // Ten bits a byte, and twice the time: whoever writes may pause within a frame.
        let bits = 2 * 10 * MAX_FRAME as u64;
        let frame = Duration::from_micros(bits * 1_000_000 / u64::from(baud.max(1)));
        Self::with_patience(PATIENCE.max(frame))
    }

    /// Takes the next bytes of the stream and calls `each` with every frame that they complete.
    pub fn push(&mut self, now: Instant, bytes: &[u8], mut each: impl FnMut(&MavlinkFrame<'_>)) {
        let mut false_starts = FALSE_STARTS as usize + bytes.len() / FALSE_START_EVERY;
        let mut fresh = self.waiting.len();
        // Taking one frame's worth at a time bounds what waits, however much is read at once.
        for piece in bytes.chunks(MAX_FRAME) {
            if false_starts == 0 {
                self.loss.bytes += piece.len() as u64;
                continue;
            }
            self.waiting.extend_from_slice(piece);
            self.came.push_back((now, piece.len()));
            let used = self.cut(fresh, None, &mut false_starts, &mut each);
            fresh = fresh.saturating_sub(used);
        }
    }

    /// Tells when [`StreamFramer::handle_timeout`] is due; never, while nothing waits.
    pub fn timeout(&self) -> Option<Instant> {
        self.came.front().map(|(came, _)| *came + self.patience)
    }

    /// Gives up frames whose rest has not come in time, and calls `each` with the frames behind
    /// their beginnings.
    pub fn handle_timeout(&mut self, now: Instant, each: impl FnMut(&MavlinkFrame<'_>)) {
        if self.timeout().is_some_and(|due| due <= now) {
            self.give_up(now - self.patience, each);
        }
    }

    /// Ends the stream: what waits is given up, and the frames in it are found.
    pub fn end(&mut self, each: impl FnMut(&MavlinkFrame<'_>)) {
        self.give_up(Instant::from_nanos(u64::MAX), each);
        self.in_step = true;
    }

    /// Returns what was lost since the last call.
    pub fn take_loss(&mut self) -> StreamLoss {
        std::mem::take(&mut self.loss)
    }

    fn give_up(&mut self, until: Instant, mut each: impl FnMut(&MavlinkFrame<'_>)) {
        let (fresh, mut false_starts) = (self.waiting.len(), usize::MAX);
        self.cut(fresh, Some(until), &mut false_starts, &mut each);
    }

    /// Cuts frames off the front of what waits, and returns how many bytes are finished with.
    ///
    /// What lies from `fresh` on came in one piece; what came at `given_up` or before waits no
    /// longer; all that is there is given up with the last of the `false_starts`.
    fn cut(
        &mut self,
        fresh: usize,
        given_up: Option<Instant>,
        false_starts: &mut usize,
        each: &mut impl FnMut(&MavlinkFrame<'_>),
    ) -> usize {
        let mut at = 0;
        while at < self.waiting.len() {
            let waits = given_up.is_none_or(|until| self.came_at(at) > until);
            let is_false_start = match parse(&self.waiting[at..]) {
                Parsed::Frame(frame) => {
                    let next = self.waiting.get(at + frame.bytes.len());
                    // A frame of an unknown id may be two that lost what was between them, or none
                    // at all.
                    let is_credible = frame.definition.is_some()
                        || (self.in_step && at >= fresh)
                        || next.map_or(self.in_step || !waits, |byte| is_magic(*byte));
                    if is_credible {
                        each(&frame);
                        at += frame.bytes.len();
                        self.in_step = true;
                        continue;
                    }
                    if next.is_none() {
                        break;
                    }
                    true
                }
                Parsed::Incomplete if waits => break,
                Parsed::Incomplete | Parsed::BadChecksum => true,
                Parsed::NoFrame => false,
            };
            *false_starts -= usize::from(is_false_start);
            let skipped = if *false_starts > 0 { 1 } else { self.waiting.len() - at };
            self.loss += StreamLoss { frames: is_false_start.into(), bytes: skipped as u64 };
            self.in_step = false;
            at += skipped;
        }
        self.finish(at);
        at
    }

    /// Tells when a byte of what waits came.
    fn came_at(&self, at: usize) -> Instant {
        let mut end = 0;
        let mut ends = self.came.iter().map(|(came, length)| {
            end += length;
            (*came, end)
        });
        ends.find(|(_, end)| at < *end).map_or(Instant::ZERO, |(came, _)| came)
    }

    /// Drops bytes from the front of what waits.
    fn finish(&mut self, mut bytes: usize) {
        self.waiting.drain(..bytes);
        while let Some((_, length)) = self.came.front_mut() {
            if *length > bytes {
                *length -= bytes;
                break;
            }
            bytes -= *length;
            self.came.pop_front();
        }
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
        let mut framer = StreamFramer::default();
        let found = pushed(&mut framer, 0, &stream);
        assert_eq!(found.len(), frames.len() - 1);
        let loss = framer.take_loss();
        assert_eq!(loss.bytes, frames[1].len() as u64);
        assert!(loss.frames >= 1);
    }

    #[test]
    fn a_beginning_waits_for_its_rest_and_holds_nothing_back_for_longer() {
        let frames = frames();
        let (mut framer, at) = (StreamFramer::default(), Instant::from_millis);
        // What looks like the beginning of a long frame, a frame behind it, and the beginning of
        // another.
        let begun = [&[0xfd, 255, 0, 0, 1, 1, 1][..], &frames[0]].concat();
        assert_eq!(pushed(&mut framer, 1_000, &begun), [[0; 0]; 0]);
        assert_eq!(pushed(&mut framer, 1_060, &frames[1][..9]), [[0; 0]; 0]);
        assert_eq!(timed_out(&mut framer, 1_099), [[0; 0]; 0]);
        assert_eq!(framer.timeout(), Some(at(1_100)));
        assert_eq!(timed_out(&mut framer, 1_100), [&frames[0][..]]);
        assert_eq!(framer.take_loss(), StreamLoss { frames: 1, bytes: 7 });
        // The other one came later, and may still be whole.
        assert_eq!(framer.timeout(), Some(at(1_160)));
        assert_eq!(pushed(&mut framer, 1_150, &frames[1][9..]), [&frames[1][..]]);
        assert_eq!((framer.timeout(), framer.take_loss()), (None, StreamLoss::default()));
        assert_eq!(pushed(&mut framer, 2_000, &frames[2][..9]), [[0; 0]; 0]);
        framer.end(|_| panic!("half a frame is none"));
        assert_eq!(framer.take_loss(), StreamLoss { frames: 1, bytes: 9 });
        assert_eq!(pushed(&mut framer, 2_001, &frames[3]), [&frames[3][..]]);
    }

    #[test]
    fn a_long_frame_on_a_slow_line_has_its_time() {
        let due = |baud| {
            let mut framer = StreamFramer::of_line(baud);
            pushed(&mut framer, 0, &[0xfe]);
            framer.timeout().map(|due| due.since(Instant::ZERO).as_millis())
        };
        assert_eq!([921_600, 57_600, 9_600].map(due), [Some(100), Some(100), Some(583)]);
    }

    #[test]
    fn an_unknown_id_is_believed_where_nothing_says_that_it_is_two_halves() {
        let private = [&[0xfd, 20, 0, 0, 1, 1, 1, 0xff, 0xff, 0xff][..], &[7; 22]].concat();
        let frame = &frames()[0];
        let mut framer = StreamFramer::default();
        assert_eq!(pushed(&mut framer, 0, &[&private[..], b"??"].concat()), [&private[..]]);
        assert_eq!(pushed(&mut framer, 0, &private), [[0; 0]; 0], "out of step");
        assert_eq!(timed_out(&mut framer, 100), [&private[..]], "the end");
        for cut in 1..private.len() {
            pushed(&mut framer, 200, &private[..cut]);
            assert_eq!(pushed(&mut framer, 201, &private[cut..]), [&private[..]], "cut at {cut}");
        }
        // Its second half was lost on the way: what follows is not taken for it.
        pushed(&mut framer, 300, &private[..20]);
        assert_eq!(pushed(&mut framer, 301, frame), [&frame[..]]);
    }

    #[test]
    fn hostile_bytes_ask_for_a_bounded_number_of_checksums() {
        let hostile = [0xfd, 0xff, 0, 0, 0, 1, 1, 0, 0, 0].repeat(6_000);
        let mut framer = StreamFramer::default();
        assert_eq!(pushed(&mut framer, 0, &hostile), [[0; 0]; 0]);
        let loss = framer.take_loss();
        let most = FALSE_STARTS as usize + hostile.len() / FALSE_START_EVERY;
        assert_eq!((loss.frames, loss.bytes), (most as u64, hostile.len() as u64));
        assert_eq!(pushed(&mut framer, 1, &frames()[0]), [&frames()[0][..]]);
    }

    fn pushed(framer: &mut StreamFramer, ms: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        framer.push(Instant::from_millis(ms), bytes, |frame| found.push(frame.bytes.to_vec()));
        found
    }

    fn timed_out(framer: &mut StreamFramer, ms: u64) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        framer.handle_timeout(Instant::from_millis(ms), |frame| found.push(frame.bytes.to_vec()));
        found
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_frames(
            sizes in prop::collection::vec(1_usize..50, 1..200),
        ) {
            let expected = frames();
            let stream = expected.concat();
            let mut framer = StreamFramer::default();
            let (mut found, mut rest) = (Vec::new(), &stream[..]);
            for size in sizes.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                found.extend(pushed(&mut framer, 0, piece));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn nonsense_never_piles_up_nor_waits_for_long(
            bytes in prop::collection::vec(
                prop_oneof![Just(0xfe_u8), Just(0xfd_u8), any::<u8>()], 0..2_000),
            size in 1_usize..400,
        ) {
            let mut framer = StreamFramer::default();
            let (mut used, mut ms) = (0, 0);
            for piece in bytes.chunks(size) {
                used += pushed(&mut framer, ms, piece).concat().len();
                prop_assert!(framer.waiting.len() <= MAX_FRAME);
                prop_assert!(framer.came.len() <= MAX_FRAME);
                let came: usize = framer.came.iter().map(|(_, length)| length).sum();
                prop_assert_eq!(came, framer.waiting.len());
                ms += 30;
                used += timed_out(&mut framer, ms).concat().len();
                prop_assert!(framer.timeout().is_none_or(|due| due > Instant::from_millis(ms)));
            }
            framer.end(|frame| used += frame.bytes.len());
            prop_assert_eq!(used as u64 + framer.take_loss().bytes, bytes.len() as u64);
            prop_assert_eq!(framer.timeout(), None);
        }
    }
}
