//! Packets that may be sent again until their deadline: RTP, whose receiver waits that long.
//!
//! ```text
//! leaves for the first time → kept, under a number by which the receiver removes duplicates
//! a copy was acknowledged   → forgotten
//! every copy was lost, or on a path that loses much the answer is overdue
//!                           → waits for a path again, unless it would come too late
//! leaves on such a path, and could not be repeated in time
//!                           → a copy for another path waits as well, behind everything else
//! ```
//! What is sent again is only what was lost, so a link that loses nothing carries no byte more, and
//! nothing waits for what is missing: the player's own buffer restores the order. Which path it
//! takes is decided as for all of bulk; but a last copy is for a path that has room to spare.

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

use super::Plain;
use crate::ids::PathId;
use crate::limits;
use crate::select::RtpFrame;

/// Bytes that are kept: a quarter of a second at 32 Mbit/s. The oldest is forgotten for a new one.
const KEPT_BYTES: usize = 1 << 20;

/// Names a packet that waits, by the time from which on it comes too late.
type Place = (Instant, u32);

/// What a path that loses much is expected to do with a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The path that it left by.
    pub(crate) path: PathId,
    /// When its answer is overdue.
    pub(crate) overdue_at: Instant,
    /// How long one that leaves later takes to arrive.
    pub(crate) reach: Duration,
}

#[derive(Debug)]
struct Kept {
    packet: Plain,
    since: Instant,
    /// When it is of no use to the player any more.
    expires: Instant,
    /// Copies of which nothing was heard yet.
    under_way: u32,
    /// Where it waits for a path.
    lost: Option<Place>,
    /// Where it waits for a path other than this one.
    last: Option<(PathId, Place)>,
    /// When its answer is overdue, and how long the next copy would take.
    overdue: Option<(Instant, Duration)>,
}

/// Keeps packets by number from their first departure to their deadline.
#[derive(Debug, Default)]
pub(super) struct Again {
    kept: BTreeMap<u32, Kept>,
    bytes: usize,
    /// No more are kept, if the session may not hold more.
    most: Option<usize>,
    /// Those that wait for a path.
    lost: BTreeSet<Place>,
    lost_bytes: usize,
    /// Last copies that wait for a path other than this one.
    last: BTreeMap<PathId, BTreeSet<Place>>,
    /// Those whose answers are waited for, by the time at which they are overdue.
    answers: BTreeSet<Place>,
}

impl Again {
    /// Keeps a packet that leaves now. Returns it.
    pub(super) fn keep(
        &mut self,
        number: u32,
        packet: Plain,
        since: Instant,
        life: Duration,
    ) -> &Plain {
        self.forget(number);
        self.bytes += packet.payload.len();
        while self.bytes > self.most.unwrap_or(KEPT_BYTES)
            && let Some((&oldest, _)) = self.kept.first_key_value()
        {
            self.forget(oldest);
        }
        let expires = since + life;
        let (lost, last, overdue) = (None, None, None);
        let kept = Kept { packet, since, expires, under_way: 1, lost, last, overdue };
        &self.kept.entry(number).or_insert(kept).packet
    }

    /// Notes what is expected of the copy that has just left.
    pub(super) fn expect(&mut self, number: u32, expected: Expected) {
        let Some(kept) = self.kept.get_mut(&number) else { return };
        let Expected { path, overdue_at, reach } = expected;
        if let Some((at, _)) = kept.overdue.take() {
            self.answers.remove(&(at, number));
        }
        if overdue_at + reach < kept.expires {
            kept.overdue = Some((overdue_at, reach));
            self.answers.insert((overdue_at, number));
        } else if kept.last.is_none() {
            let place = (kept.expires - reach, number);
            kept.last = Some((path, place));
            self.last.entry(path).or_default().insert(place);
        }
    }

    /// Returns the bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.kept.len() * limits::BESIDE
    }

    /// Notes how many bytes more the session may hold of what can be lost.
    pub(super) fn set_room(&mut self, room: usize) {
        self.most = Some(self.bytes.saturating_add(room).min(KEPT_BYTES));
    }

    /// Notes that a copy arrived.
    pub(super) fn on_acked(&mut self, number: u32) {
        self.forget(number);
    }

    /// Notes that a copy was lost; one that leaves now takes `reach` to arrive.
    pub(super) fn on_lost(&mut self, now: Instant, number: u32, reach: Duration) {
        let Some(kept) = self.kept.get_mut(&number) else { return };
        kept.under_way = kept.under_way.saturating_sub(1);
        if kept.under_way == 0 {
            self.give_back(now, number, reach);
        }
    }

    /// Forgets a frame of which the rest will not be sent.
    pub(super) fn forget_frame(&mut self, frame: RtpFrame) {
        let is_piece = |kept: &Kept| kept.packet.rtp.is_some_and(|rtp| rtp.frame == frame);
        let pieces = self.kept.iter().filter(|(_, kept)| is_piece(kept));
        for number in pieces.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.forget(number);
        }
    }

    /// Returns the length of the lost packet that is the most urgent.
    pub(super) fn next_len(&self) -> Option<usize> {
        self.lost.first().and_then(|(_, number)| self.len(*number))
    }

    /// Takes the lost packet that is the most urgent: its number, itself and when it came.
    pub(super) fn take(&mut self) -> Option<(u32, &Plain, Instant)> {
        let (_, number) = self.lost.pop_first()?;
        let kept = self.kept.get_mut(&number)?;
        kept.under_way += 1;
        kept.lost = None;
        self.lost_bytes -= kept.packet.payload.len();
        Some((number, &kept.packet, kept.since))
    }

    /// Returns the length of the last copy that is the most urgent on the path.
    pub(super) fn next_last_len(&self, path: PathId) -> Option<usize> {
        self.first_last(path).and_then(|(_, (_, number))| self.len(number))
    }

    /// Takes the last copy that is the most urgent on the path.
    pub(super) fn take_last(&mut self, path: PathId) -> Option<(u32, &Plain, Instant)> {
        let (other, place) = self.first_last(path)?;
        self.last.get_mut(&other)?.remove(&place);
        let kept = self.kept.get_mut(&place.1)?;
        // What waits no more stays marked: there is one such copy.
        kept.under_way += 1;
        Some((place.1, &kept.packet, kept.since))
    }

    /// Tells whether no lost packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty()
    }

    /// Tells whether no last copy waits.
    pub(super) fn has_no_last(&self) -> bool {
        self.last.values().all(BTreeSet::is_empty)
    }

    /// Returns the bytes of the lost packets that wait.
    pub(super) fn lost_bytes(&self) -> usize {
        self.lost_bytes
    }

    /// Returns when the first of those that wait comes too late, or an answer is overdue.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let answer = self.answers.first();
        self.lost.first().into_iter().chain(answer).map(|(at, _)| *at).min()
    }

    /// Takes back what has no answer, and forgets what would come too late.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.answers.first()
            && at <= now
        {
            self.answers.pop_first();
            let kept = self.kept.get_mut(&number);
            if let Some((_, reach)) = kept.and_then(|kept| kept.overdue.take()) {
                self.give_back(now, number, reach);
            }
        }
        while let Some(&(at, number)) = self.lost.first()
            && at <= now
        {
            self.forget(number);
        }
        while let Some((&number, kept)) = self.kept.first_key_value()
            && kept.expires <= now
        {
            self.forget(number);
        }
    }

    /// Lets a packet wait for a path again if it can arrive in time.
    fn give_back(&mut self, now: Instant, number: u32, reach: Duration) {
        let Some(kept) = self.kept.get_mut(&number) else { return };
        if now + reach < kept.expires && kept.lost.is_none() {
            let place = (kept.expires - reach, number);
            kept.lost = Some(place);
            self.lost.insert(place);
            self.lost_bytes += kept.packet.payload.len();
        }
    }

    fn first_last(&self, path: PathId) -> Option<(PathId, Place)> {
        let others = self.last.iter().filter(|(other, _)| **other != path);
        let firsts = others.filter_map(|(other, places)| Some((*other, *places.first()?)));
        firsts.min_by_key(|(_, place)| *place)
    }

    fn len(&self, number: u32) -> Option<usize> {
        self.kept.get(&number).map(|kept| kept.packet.payload.len())
    }

    fn forget(&mut self, number: u32) {
        let Some(kept) = self.kept.remove(&number) else { return };
        self.bytes -= kept.packet.payload.len();
        if let Some(place) = kept.lost {
            self.lost.remove(&place);
            self.lost_bytes -= kept.packet.payload.len();
        }
        if let Some((path, place)) = kept.last
            && let Some(places) = self.last.get_mut(&path)
        {
            places.remove(&place);
        }
        if let Some((at, _)) = kept.overdue {
            self.answers.remove(&(at, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Class;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn keep(again: &mut Again, number: u32, since: u64) {
        let packet = Plain {
            channel: 0,
            class: Class::Bulk,
            resequence: false,
            rtp: None,
            payload: vec![number as u8; 1_000],
        };
        again.keep(number, packet, at(since), 250 * MS);
    }

    fn take(again: &mut Again) -> Option<(u32, u8)> {
        again.take().map(|(number, packet, _)| (number, packet.payload[0]))
    }

    #[test]
    fn what_was_lost_leaves_again_the_most_urgent_first_and_once() {
        let mut again = Again::default();
        (0..4).for_each(|number| keep(&mut again, number, 10 * u64::from(number)));
        for number in [2, 1, 1] {
            again.on_lost(at(60), number, 20 * MS);
        }
        assert_eq!((again.next_len(), again.lost_bytes()), (Some(1_000), 2_000));
        assert_eq!(take(&mut again), Some((1, 1)));
        assert_eq!(take(&mut again), Some((2, 2)));
        assert_eq!((take(&mut again), again.is_empty(), again.lost_bytes()), (None, true, 0));
        again.on_lost(at(120), 1, 20 * MS);
        assert_eq!(take(&mut again), Some((1, 1)), "its second copy was lost as well");
    }

    #[test]
    fn what_arrived_or_comes_too_late_is_not_sent_again() {
        let mut again = Again::default();
        (0..3).for_each(|number| keep(&mut again, number, 0));
        again.on_lost(at(60), 0, 20 * MS);
        again.on_acked(0);
        again.on_lost(at(231), 1, 20 * MS);
        assert_eq!(take(&mut again), None);
        again.on_lost(at(200), 2, 20 * MS);
        assert_eq!(again.timeout(), Some(at(230)));
        again.handle_timeout(at(230));
        assert_eq!((take(&mut again), again.lost_bytes()), (None, 0));
    }

    #[test]
    fn an_overdue_answer_counts_as_a_loss_and_a_last_copy_waits_for_another_path() {
        let expected =
            |overdue| Expected { path: PathId(0), overdue_at: at(overdue), reach: 20 * MS };
        let mut again = Again::default();
        keep(&mut again, 1, 0);
        again.expect(1, expected(60));
        assert_eq!((again.timeout(), take(&mut again)), (Some(at(60)), None));
        again.handle_timeout(at(60));
        assert_eq!(take(&mut again), Some((1, 1)));
        again.on_lost(at(70), 1, 20 * MS);
        assert_eq!(take(&mut again), None, "another copy is under way");
        assert!(again.has_no_last());
        again.expect(1, expected(235));
        assert_eq!(again.next_last_len(PathId(0)), None, "it has just left by that one");
        assert_eq!(again.next_last_len(PathId(1)), Some(1_000));
        assert_eq!(again.take_last(PathId(1)).map(|(number, ..)| number), Some(1));
        again.expect(1, expected(240));
        assert!(again.has_no_last(), "one last copy is enough");
        again.on_acked(1);
        assert_eq!((again.timeout(), again.bytes), (None, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut again = Again::default();
        for number in 0..5_000 {
            keep(&mut again, number, 0);
            let (path, overdue_at) = (PathId(0), at(1 + 249 * u64::from(number % 2)));
            again.expect(number, Expected { path, overdue_at, reach: MS });
            again.on_lost(at(1), number, MS);
        }
        assert!(again.bytes <= KEPT_BYTES && again.kept.len() == again.lost.len());
        assert_eq!(again.lost_bytes(), again.bytes);
        again.handle_timeout(at(250));
        assert!(again.kept.is_empty() && again.is_empty() && again.bytes == 0);
        assert!(again.has_no_last() && again.answers.is_empty());
    }
}
