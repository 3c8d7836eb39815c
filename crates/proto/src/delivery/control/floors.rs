//! Floors to announce: the receiver of an ordered lane must hear that the sender gave up.
//!
//! A message that is given up leaves a gap that later messages of its lane wait behind at the
//! receiver. Later copies carry the floor too; this is for lanes where nothing later is left to
//! send. An announcement is repeated on every path until it is acknowledged or no longer matters
//! [specs/delivery.md §3] (rule 8).

use std::collections::BTreeMap;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::LaneFloor;
use crate::ids::PathId;

/// The announcements of one direction of a session; at most one per lane.
#[derive(Debug, Default)]
pub(super) struct FloorNotices {
    notices: BTreeMap<u16, Notice>,
}

#[derive(Debug)]
struct Notice {
    floor: u64,
    /// When the last message that may wait for it has expired at the receiver too.
    until: Instant,
    /// Paths that have sent it in the present round.
    sent_on: SmallVec<[PathId; 4]>,
    /// When the next round begins.
    again: Option<Instant>,
}

impl FloorNotices {
    /// Announces a floor; a higher one takes the place of a lower one.
    pub(super) fn announce(&mut self, lane: u16, floor: u64, until: Instant) {
        let notice = Notice { floor, until, sent_on: SmallVec::new(), again: None };
        self.notices.insert(lane, notice);
    }

    /// Takes the next floor for a path; it goes out again a `probe` later.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        path: PathId,
        probe: Duration,
    ) -> Option<LaneFloor> {
        let (&lane, notice) =
            self.notices.iter_mut().find(|(_, notice)| !notice.sent_on.contains(&path))?;
        notice.sent_on.push(path);
        notice.again.get_or_insert(now + probe);
        Some(LaneFloor { lane, floor: notice.floor as u32 })
    }

    pub(super) fn waits_for(&self, path: PathId) -> bool {
        self.notices.values().any(|notice| !notice.sent_on.contains(&path))
    }

    pub(super) fn contains(&self, lane: u16) -> bool {
        self.notices.contains_key(&lane)
    }

    pub(super) fn on_acked(&mut self, floor: LaneFloor) {
        if self.notices.get(&floor.lane).is_some_and(|notice| notice.floor as u32 == floor.floor) {
            self.notices.remove(&floor.lane);
        }
    }

    /// Lets the path send it again at once.
    pub(super) fn on_lost(&mut self, floor: LaneFloor, path: PathId) {
        if let Some(notice) = self.notices.get_mut(&floor.lane)
            && notice.floor as u32 == floor.floor
        {
            notice.sent_on.retain(|sent_on| *sent_on != path);
        }
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.notices
            .values()
            .map(|notice| notice.again.map_or(notice.until, |at| at.min(notice.until)))
            .min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.notices.retain(|_, notice| {
            if notice.again.is_some_and(|at| at <= now) {
                notice.again = None;
                notice.sent_on.clear();
            }
            notice.until > now
        });
    }

    pub(super) fn clear(&mut self) {
        self.notices.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_goes_out_on_every_path_again_and_again_until_acknowledged() {
        let mut floors = FloorNotices::default();
        let probe = Duration::from_millis(20);
        let now = Instant::from_millis(100);
        floors.announce(3, 7, Instant::from_millis(1_000));
        let expected = Some(LaneFloor { lane: 3, floor: 7 });
        assert_eq!(floors.poll(now, PathId(0), probe), expected);
        assert_eq!(floors.poll(now, PathId(0), probe), None);
        assert_eq!(floors.poll(now, PathId(1), probe), expected);
        assert_eq!(floors.timeout(), Some(now + probe));
        floors.handle_timeout(now + probe);
        assert_eq!(floors.poll(now + probe, PathId(0), probe), expected);
        floors.on_acked(LaneFloor { lane: 3, floor: 6 });
        assert!(floors.contains(3));
        floors.on_acked(LaneFloor { lane: 3, floor: 7 });
        assert_eq!(floors.timeout(), None);
    }

    #[test]
    fn floor_is_forgotten_when_nobody_can_wait_for_it() {
        let mut floors = FloorNotices::default();
        floors.announce(0, 1, Instant::from_millis(50));
        floors.handle_timeout(Instant::from_millis(50));
        assert!(!floors.contains(0));
    }
}
