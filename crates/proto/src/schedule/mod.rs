//! Which path carries the next packet of bulk. Nothing here touches a queue or a path: a policy is
//! a trait, read-only snapshots and one file per algorithm.
//!
//! Binding is late: the session asks when a path has room, not when a packet arrives. Control does
//! not come by here at all; its copies go on every path in [`control_order`].

mod min_rtt;
mod redundant;
mod round_robin;

use core::fmt::Debug;

use smallvec::SmallVec;

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
    /// Bytes of bulk that wait, the packet in question included.
    pub(crate) backlog: u64,
    /// Bytes of the packet in question.
    pub(crate) packet: usize,
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
/// let view = ScheduleView { paths: &snapshots, backlog: 30_000, packet: 1_200 };
/// if scheduler.offer(&view, path) == Decision::Send { /* seal it for `path` */ scheduler.on_sent(path) }
/// ```
pub(crate) trait Scheduler: Debug + Send {
    /// Decides whether the packet at the head of the queue goes on `path`, which has room.
    fn offer(&self, view: &ScheduleView<'_>, path: PathId) -> Decision;

    /// Learns that a packet of bulk was sent on `path`.
    fn on_sent(&mut self, _path: PathId) {}

    /// Tells whether every path carries a copy of every packet.
    fn replicates(&self) -> bool {
        false
    }
}

/// Returns the paths that carry copies of control, in the order in which they are sent: every path
/// that has proved its address, the silent ones last, lowest smoothed round-trip time first
/// [ConClone §3.3.2].
pub(crate) fn control_order(paths: &[PathSnapshot]) -> SmallVec<[PathId; 4]> {
    let mut usable: SmallVec<[&PathSnapshot; 4]> = paths
        .iter()
        .filter(|path| matches!(path.state, PathState::Active | PathState::Suspected))
        .collect();
    usable.sort_by_key(|path| (path.state, path.srtt_or_initial(), path.id));
    usable.iter().map(|path| path.id).collect()
}
