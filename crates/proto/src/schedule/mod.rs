//! Which path carries the next packet of bulk [specs/paths.md §7]. Nothing here touches a queue or
//! a path: there is a trait, read-only snapshots and one file per algorithm.
//!
//! Binding is late: the session asks when a path has room, not when a packet arrives. Control does
//! not pass through here at all; its copies go on every path in [`control_order`].

mod min_rtt;
mod redundant;
mod round_robin;

use core::fmt::Debug;

use smallvec::SmallVec;
use units::{Duration, Instant};

use crate::event::PathState;
use crate::ids::PathId;
use crate::path::PathSnapshot;

/// Names a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// The path with the lowest smoothed round-trip time that has room; a slower one only when
    /// waiting would take longer.
    #[default]
    MinRtt,
    /// Each path in turn.
    RoundRobin,
    /// A copy of everything on every path.
    Redundant,
}

impl SchedulerKind {
    /// Makes a scheduler in its initial state.
    pub(crate) fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Self::MinRtt => Box::new(min_rtt::MinRtt),
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::Redundant => Box::new(redundant::Redundant),
        }
    }
}

/// Shows a scheduler the paths and the queue at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduleView<'a> {
    /// Every path of the session, in any order.
    pub(crate) paths: &'a [PathSnapshot],
    /// The moment.
    pub(crate) now: Instant,
    /// Bytes of bulk that wait, the packet in question included.
    pub(crate) backlog: u64,
    /// Bytes of the packet in question.
    pub(crate) packet: usize,
    /// The same with the frame around it, where that is known: what a path must be able to carry.
    pub(crate) frame: usize,
}

impl ScheduleView<'_> {
    /// Returns the paths that work and can carry the packet at all: nothing waits for any other.
    fn candidates(&self) -> impl Iterator<Item = &PathSnapshot> {
        let carries =
            |path: &&PathSnapshot| path.state == PathState::Active && path.carries >= self.frame;
        self.paths.iter().filter(carries)
    }
}

/// Says what to do with the packet at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It goes on the path that was offered.
    Send,
    /// It waits for a better path. Asked again when that one has room or anything else changes.
    Wait,
}

/// Decides which path carries bulk.
///
/// ```text
/// let view = ScheduleView { paths: &snapshots, now, backlog: 30_000, packet: 1_200, frame: 1_220
///            };
/// if scheduler.offer(&view, path) == Decision::Send { /* seal it for `path` */ scheduler.on_sent(path) }
/// ```
pub(crate) trait Scheduler: Debug + Send {
    /// Decides whether the packet at the head of the queue goes on `path`, which has room.
    fn offer(&self, view: &ScheduleView<'_>, path: PathId) -> Decision;

    /// Decides whether a new symbol of message delivery goes on `path`: every message waits for it.
    fn offer_symbol(&self, view: &ScheduleView<'_>, path: PathId) -> Decision {
        self.offer(view, path)
    }

    /// Learns that a packet of bulk was sent on `path`.
    fn on_sent(&mut self, _path: PathId) {}

    /// Tells whether each packet of bulk goes by every path that works; otherwise it goes once.
    fn replicates(&self) -> bool {
        false
    }
}

/// Returns the paths that carry copies of control, in the order in which they are sent: every path
/// that has proved its address, the silent ones last, lowest smoothed round-trip time first
/// [ConClone §3.3.2]. `place` says what that depends on.
pub(crate) fn control_order<T>(
    paths: impl Iterator<Item = T>,
    place: impl Fn(&T) -> (PathState, Duration, PathId),
) -> SmallVec<[T; 8]> {
    let is_proven = |state| matches!(state, PathState::Active | PathState::Suspected);
    let placed = paths.map(|path| (place(&path), path));
    let mut order: SmallVec<[_; 8]> = placed.filter(|((state, ..), _)| is_proven(*state)).collect();
    order.sort_unstable_by_key(|(place, _)| *place);
    order.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::path::{Carries, Drain};

    const ROOM: usize = 100_000;

    /// A path of 10 Mbit/s.
    fn path(id: u8, srtt_ms: u64, budget: usize) -> PathSnapshot {
        let rtt = Some(Duration::from_millis(srtt_ms));
        PathSnapshot {
            id: PathId(id),
            state: PathState::Active,
            doubtful: false,
            carries: 1_400,
            srtt: rtt,
            rttvar: rtt,
            min_rtt: rtt,
            loss: 0.0,
            loss_deviation: 0.02,
            burst: 0.0,
            cwnd: 0,
            in_flight: 0,
            send_rate: Rate::from_mbps(10.0),
            drain: Drain::default(),
            budget,
            bytes_sent: 0,
            last_received_at: None,
            serves: Carries::ALL,
        }
    }

    fn suspected(id: u8, srtt_ms: u64) -> PathSnapshot {
        PathSnapshot { state: PathState::Suspected, ..path(id, srtt_ms, 0) }
    }

    fn offers(kind: SchedulerKind, paths: &[PathSnapshot], backlog: u64) -> Vec<Decision> {
        let scheduler = kind.scheduler();
        let view = ScheduleView { paths, now: Instant::ZERO, backlog, packet: 1_200, frame: 1_220 };
        paths.iter().map(|path| scheduler.offer(&view, path.id)).collect()
    }

    #[test]
    fn control_goes_on_the_lowest_round_trip_first_and_on_silent_paths_last() {
        use PathState::{Active, Suspected, Validating};
        let paths = [(Active, 70), (Suspected, 5), (Active, 20), (Active, 20), (Validating, 1)];
        let paths = (0..).zip(paths);
        let paths = paths.map(|(id, (state, ms))| (state, Duration::from_millis(ms), PathId(id)));
        let order = control_order(paths, |place| *place);
        assert!(order.iter().map(|(.., id)| id.0).eq([2, 3, 0, 1]));
    }

    #[test]
    fn min_rtt_takes_the_fastest_path_with_room() {
        let paths = [path(0, 80, ROOM), path(1, 20, ROOM)];
        assert_eq!(
            offers(SchedulerKind::MinRtt, &paths, 1 << 30),
            [Decision::Wait, Decision::Send]
        );
        let paths = [path(0, 20, ROOM), path(1, 20, ROOM)];
        let decisions = offers(SchedulerKind::MinRtt, &paths, 1_200);
        assert_eq!(
            decisions,
            [Decision::Send, Decision::Wait],
            "equal paths do not wait for each other"
        );
    }

    #[test]
    fn min_rtt_uses_a_slower_path_when_waiting_would_take_longer() {
        // 30 ms of difference one way are 37.5 kB at 10 Mbit/s.
        let paths = [path(0, 20, 0), path(1, 80, ROOM)];
        assert_eq!(offers(SchedulerKind::MinRtt, &paths, 36_000)[1], Decision::Wait);
        assert_eq!(offers(SchedulerKind::MinRtt, &paths, 39_000)[1], Decision::Send);
    }

    #[test]
    fn min_rtt_prefers_the_path_that_loses_less_while_that_costs_little() {
        let lossy = |loss, path| PathSnapshot { loss, ..path };
        let decide =
            |paths: &[PathSnapshot], backlog| offers(SchedulerKind::MinRtt, paths, backlog);
        let paths = [lossy(0.3, path(0, 20, ROOM)), lossy(0.1, path(1, 80, ROOM))];
        assert_eq!(decide(&paths, 1_200), [Decision::Wait, Decision::Send]);
        let paths = [lossy(0.14, path(0, 20, ROOM)), lossy(0.1, path(1, 80, ROOM))];
        assert_eq!(decide(&paths, 1_200), [Decision::Send, Decision::Wait], "four points");
        let paths = [lossy(0.3, path(0, 20, ROOM)), lossy(0.0, path(1, 500, ROOM))];
        assert_eq!(decide(&paths, 1_200), [Decision::Send, Decision::Send], "240 ms later");
        // 50 ms less 30 of delay are 25 kB at 10 Mbit/s.
        let paths = [lossy(0.3, path(0, 20, ROOM)), lossy(0.1, path(1, 80, 0))];
        assert_eq!(decide(&paths, 24_000)[0], Decision::Wait);
        assert_eq!(decide(&paths, 26_000)[0], Decision::Send);
    }

    #[test]
    fn min_rtt_leaves_a_doubtful_path_while_there_is_another() {
        let doubtful = PathSnapshot { doubtful: true, ..path(0, 20, ROOM) };
        let decisions = offers(SchedulerKind::MinRtt, &[doubtful, path(1, 80, 0)], 1_200);
        assert_eq!(decisions, [Decision::Wait, Decision::Send]);
        assert_eq!(
            offers(SchedulerKind::MinRtt, &[doubtful, suspected(1, 5)], 1_200)[0],
            Decision::Send
        );
    }

    #[test]
    fn nothing_waits_for_a_path_that_cannot_carry_it() {
        let narrow = PathSnapshot { carries: 1_219, ..path(0, 5, ROOM) };
        for kind in [SchedulerKind::MinRtt, SchedulerKind::RoundRobin] {
            let decisions = offers(kind, &[narrow, path(1, 80, ROOM)], 1_200);
            assert_eq!(decisions[1], Decision::Send, "{kind:?}");
        }
    }

    #[test]
    fn round_robin_takes_turns_and_skips_paths_without_room() {
        let paths = [path(0, 20, ROOM), path(1, 80, ROOM), path(2, 5, 0)];
        let mut scheduler = SchedulerKind::RoundRobin.scheduler();
        let view = ScheduleView {
            paths: &paths,
            now: Instant::ZERO,
            backlog: 1_200,
            packet: 1_200,
            frame: 1_220,
        };
        let mut order = Vec::new();
        for _ in 0..4 {
            let next = paths
                .iter()
                .find(|path| path.budget > 0 && scheduler.offer(&view, path.id) == Decision::Send);
            let next = next.expect("one path has the turn").id;
            scheduler.on_sent(next);
            order.push(next.0);
        }
        assert_eq!(order, [0, 1, 0, 1]);
    }

    #[test]
    fn redundant_never_waits() {
        let paths = [path(0, 20, ROOM), path(1, 80, ROOM)];
        assert_eq!(offers(SchedulerKind::Redundant, &paths, 1_200), [Decision::Send; 2]);
        assert!(SchedulerKind::Redundant.scheduler().replicates());
    }
}
