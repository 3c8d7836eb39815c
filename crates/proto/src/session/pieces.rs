//! Datagrams that are longer than what their path carries in one piece [specs/wire.md §7].
//!
//! The frames of one are cut into pieces, each of which travels sealed in a datagram of its own by
//! the same path; the other end joins them and takes the frames as if they had come in one. So no
//! delivery knows of it: what was in the datagram has arrived when all pieces have, and is lost
//! with the first of them. Nothing is joined that was not authenticated.
//!
//! What a peer that sends beginnings alone can make us hold is [`limits::OPEN_DATAGRAMS`]
//! datagrams, for [`limits::OPEN_FOR`].

use std::collections::{BTreeMap, VecDeque};

use units::Instant;

use crate::delivery::Builder;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::{SentFrame, SentFrames};
use crate::rejection::Rejection;
use crate::wire::{DATA_HEADER, DATA_OVERHEAD, Frame, PIECE_OVERHEAD, PieceFrame};

/// Bytes of all pieces of a datagram.
const JOINED: usize = limits::MAX_DATAGRAM - DATA_OVERHEAD;
// What the narrowest path carries of each suffices.
const _: () =
    assert!(limits::PIECES * (limits::LEAST_DATAGRAM - DATA_OVERHEAD - PIECE_OVERHEAD) >= JOINED);

/// Cuts datagrams, and follows what becomes of their pieces.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    next: u32,
    /// Those that have not left yet, the next ones first.
    waiting: VecDeque<Piece>,
    /// Datagrams of which a piece waits or is under way.
    open: BTreeMap<u32, Whole>,
}

/// A piece that waits for its turn.
#[derive(Debug)]
struct Piece {
    path: PathId,
    whole: u32,
    place: u8,
    count: u8,
    bulk: bool,
    urgent: bool,
    is_control: bool,
    bytes: Vec<u8>,
}

/// What a datagram carried, and how many of its pieces have not arrived.
#[derive(Debug)]
struct Whole {
    left: u8,
    frames: SentFrames,
}

impl Cutter {
    /// Cuts what a datagram holds into as few pieces as its path takes, of one size.
    pub(super) fn cut(&mut self, path: PathId, longest: usize, datagram: Builder<'_>) {
        let Builder { buf, frames, bulk, urgent, .. } = datagram;
        let bytes = &buf[DATA_HEADER..];
        let room = longest - DATA_OVERHEAD - PIECE_OVERHEAD;
        let count = bytes.len().div_ceil(room);
        let (whole, is_control) = (self.next, !bulk && frames.iter().any(is_delivery));
        self.next = self.next.wrapping_add(1);
        let pieces = bytes.chunks(bytes.len().div_ceil(count)).enumerate();
        self.waiting.extend(pieces.map(|(place, piece)| Piece {
            path,
            whole,
            place: place as u8,
            count: count as u8,
            bulk,
            urgent,
            is_control,
            bytes: piece.to_vec(),
        }));
        self.open.insert(whole, Whole { left: count as u8, frames });
    }

    /// Tells whether a piece waits for a path.
    pub(super) fn waits_for(&self, path: PathId) -> bool {
        !self.waiting.is_empty() && self.waiting.iter().any(|piece| piece.path == path)
    }

    /// Adds the next piece that goes by a path to a datagram of its own.
    pub(super) fn poll(&mut self, path: PathId, datagram: &mut Builder<'_>) {
        let Some(at) = self.waiting.iter().position(|piece| piece.path == path) else { return };
        let Some(piece) = self.waiting.remove(at) else { return };
        let Piece { whole, place, count, urgent, .. } = piece;
        let frame =
            PieceFrame { datagram: whole as u16, place, count, urgent, payload: &piece.bytes };
        datagram.push(&Frame::Piece(frame));
        datagram.note_own(SentFrame::Piece { whole, is_control: piece.is_control });
        (datagram.bulk, datagram.urgent) = (piece.bulk, urgent);
    }

    /// Learns that a piece arrived; returns what the datagram carried when it was the last.
    pub(super) fn on_acked(&mut self, whole: u32) -> Option<SentFrames> {
        let open = self.open.get_mut(&whole)?;
        open.left -= 1;
        if open.left > 0 { None } else { self.close(whole) }
    }

    /// Learns that a piece was lost, and with it the datagram; returns what that carried when it is
    /// news.
    pub(super) fn on_lost(&mut self, whole: u32) -> Option<SentFrames> {
        self.waiting.retain(|piece| piece.whole != whole);
        self.close(whole)
    }

    /// Forgets what waits for a path that is given up; returns what the datagrams carried.
    pub(super) fn drop_path(&mut self, path: PathId) -> Vec<SentFrames> {
        let wholes = self.waiting.iter().filter(|piece| piece.path == path);
        let mut wholes: Vec<u32> = wholes.map(|piece| piece.whole).collect();
        wholes.dedup();
        wholes.into_iter().filter_map(|whole| self.on_lost(whole)).collect()
    }

    fn close(&mut self, whole: u32) -> Option<SentFrames> {
        self.open.remove(&whole).map(|whole| whole.frames)
    }
}

/// Joins pieces of authenticated datagrams.
#[derive(Debug, Default)]
pub(crate) struct Joiner(VecDeque<Open>);

/// A datagram of which pieces are missing.
#[derive(Debug)]
struct Open {
    path: PathId,
    number: u16,
    since: Instant,
    pieces: [Option<Vec<u8>>; limits::PIECES],
    count: u8,
}

impl Joiner {
    /// Takes a piece, and returns the frames of its datagram when it was the last that was missing.
    ///
    /// # Errors
    /// When it contradicts those that are there: the datagram is given up.
    pub(crate) fn handle_piece(
        &mut self,
        now: Instant,
        path: PathId,
        piece: &PieceFrame<'_>,
    ) -> Result<Option<Vec<u8>>, Rejection> {
        self.tidy(now);
        let at = self.0.iter().position(|open| (open.path, open.number) == (path, piece.datagram));
        let mut open = at.and_then(|at| self.0.remove(at)).unwrap_or_else(|| Open {
            path,
            number: piece.datagram,
            since: now,
            pieces: Default::default(),
            count: piece.count,
        });
        let slot = open.pieces.get_mut(usize::from(piece.place));
        let Some(slot) = slot.filter(|slot| slot.is_none() && open.count == piece.count) else {
            return Err(Rejection::Malformed);
        };
        *slot = Some(piece.payload.to_vec());
        if open.bytes() > JOINED {
            return Err(Rejection::Malformed);
        }
        if open.pieces.iter().flatten().count() == usize::from(open.count) {
            return Ok(Some(open.pieces.into_iter().flatten().collect::<Vec<_>>().concat()));
        }
        if self.0.len() >= limits::OPEN_DATAGRAMS {
            self.0.pop_front();
        }
        self.0.push_back(open);
        Ok(None)
    }

    /// Lets go of what has waited too long.
    pub(crate) fn tidy(&mut self, now: Instant) {
        self.0.retain(|open| now.since(open.since) < limits::OPEN_FOR);
    }

    /// Returns how many bytes it holds.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().map(|open| open.bytes() + limits::BESIDE).sum()
    }
}

impl Open {
    fn bytes(&self) -> usize {
        self.pieces.iter().flatten().map(Vec::len).sum()
    }
}

fn is_delivery(frame: &SentFrame) -> bool {
    matches!(frame, SentFrame::Delivery { .. })
}

#[cfg(test)]
mod tests {
    use units::{Duration, Rng};

    use super::*;
    use crate::wire::Frames;

    const PATH: PathId = PathId(3);

    /// Cuts a datagram of so many bytes of frames, and returns the plaintexts of its pieces.
    fn cut(cutter: &mut Cutter, bytes: &[u8], longest: usize) -> Vec<Vec<u8>> {
        let mut buf = Vec::new();
        let datagram = Builder::new(&mut buf, limits::MAX_DATAGRAM);
        datagram.buf.extend_from_slice(bytes);
        cutter.cut(PATH, longest, datagram);
        let mut pieces = Vec::new();
        while cutter.waits_for(PATH) {
            let mut buf = Vec::new();
            let mut datagram = Builder::new(&mut buf, longest);
            cutter.poll(PATH, &mut datagram);
            assert!(!datagram.is_empty() && datagram.ack_eliciting);
            pieces.push(buf[DATA_HEADER..].to_vec());
        }
        pieces
    }

    fn join(joiner: &mut Joiner, now: Instant, piece: &[u8]) -> Result<Option<Vec<u8>>, Rejection> {
        match Frames::new(piece).next() {
            Some(Ok(Frame::Piece(piece))) => joiner.handle_piece(now, PATH, &piece),
            other => panic!("no piece: {other:?}"),
        }
    }

    #[test]
    fn every_length_is_joined_in_every_order_over_every_path() {
        let (mut cutter, mut rng) = (Cutter::default(), Rng::new(1));
        let mut joiner = Joiner::default();
        for longest in [548, 600, 772, 972, 1_200, 1_252, 1_400] {
            for length in longest - DATA_OVERHEAD + 1..=JOINED {
                let mut bytes = vec![0; length];
                rng.fill(&mut bytes);
                let mut pieces = cut(&mut cutter, &bytes, longest);
                assert!((2..=limits::PIECES).contains(&pieces.len()));
                let turn = length % pieces.len();
                pieces.rotate_left(turn);
                let last = pieces.pop().unwrap();
                for piece in &pieces {
                    assert_eq!(join(&mut joiner, Instant::ZERO, piece), Ok(None));
                }
                assert_eq!(join(&mut joiner, Instant::ZERO, &last), Ok(Some(bytes)));
                assert_eq!(joiner.held(), 0);
            }
        }
    }

    #[test]
    fn what_was_cut_has_arrived_with_its_last_piece_and_is_lost_with_its_first() {
        let mut cutter = Cutter::default();
        cut(&mut cutter, &[7; 1_400], 548);
        assert_eq!([0, 0, 0].map(|whole| cutter.on_acked(whole).is_some()), [false, false, true]);
        assert!(cutter.on_lost(0).is_none());
        cut(&mut cutter, &[7; 1_400], 548);
        assert!(cutter.on_acked(1).is_none() && cutter.on_lost(1).is_some());
        assert!(cutter.on_lost(1).is_none() && cutter.on_acked(1).is_none());
        assert!(cutter.open.is_empty());
    }

    #[test]
    fn what_waits_for_a_path_that_is_given_up_is_lost() {
        let mut cutter = Cutter::default();
        let mut buf = Vec::new();
        let datagram = Builder::new(&mut buf, limits::MAX_DATAGRAM);
        datagram.buf.extend_from_slice(&[7; 1_400]);
        cutter.cut(PATH, 548, datagram);
        assert_eq!(cutter.drop_path(PathId(0)).len(), 0);
        assert_eq!(cutter.drop_path(PATH).len(), 1);
        assert!(!cutter.waits_for(PATH) && cutter.open.is_empty());
    }

    #[test]
    fn contradictions_end_a_datagram() {
        let piece = |place, count, payload| PieceFrame {
            datagram: 1,
            place,
            count,
            urgent: false,
            payload,
        };
        let (now, part) = (Instant::ZERO, &[1; 400][..]);
        for wrong in [piece(0, 3, part), piece(1, 2, part), piece(1, 3, &[1; 1_200])] {
            let mut joiner = Joiner::default();
            assert_eq!(joiner.handle_piece(now, PATH, &piece(0, 3, part)), Ok(None));
            assert_eq!(joiner.handle_piece(now, PathId(4), &piece(0, 2, part)), Ok(None));
            assert_eq!(joiner.handle_piece(now, PATH, &wrong), Err(Rejection::Malformed));
            assert_eq!(joiner.0.len(), 1, "that of the other path stays");
        }
    }

    #[test]
    fn beginnings_are_bounded_in_number_and_time() {
        let mut joiner = Joiner::default();
        for datagram in 0..1_000 {
            let payload = &[1; JOINED];
            let piece = PieceFrame { datagram, place: 0, count: 4, urgent: true, payload };
            let now = Instant::from_millis(u64::from(datagram));
            assert_eq!(joiner.handle_piece(now, PATH, &piece), Ok(None));
            assert!(joiner.held() <= limits::OPEN_DATAGRAMS * (JOINED + limits::BESIDE));
        }
        assert_eq!(joiner.0.len(), limits::OPEN_DATAGRAMS);
        joiner.tidy(Instant::from_millis(999) + limits::OPEN_FOR - Duration::from_micros(1));
        assert_eq!(joiner.0.len(), 1);
        joiner.tidy(Instant::from_millis(999) + limits::OPEN_FOR);
        assert_eq!(joiner.held(), 0);
    }
}
