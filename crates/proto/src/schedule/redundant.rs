//! `redundant`: a copy of every packet on every path. What people run today to be safe, and the
//! baseline that shows its price [ConClone Fig. 1].

use smallvec::SmallVec;

use super::{Decision, ScheduleView, Scheduler};
use crate::event::PathState;
use crate::ids::PathId;
use crate::path::PathSnapshot;

/// Sends everything on every path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redundant;

impl Scheduler for Redundant {
    fn offer(&self, _view: &ScheduleView<'_>, _path: PathId) -> Decision {
        Decision::Send
    }

    fn replicas(&self, paths: &[PathSnapshot]) -> SmallVec<[PathId; 4]> {
        let active = paths.iter().filter(|path| path.state == PathState::Active);
        active.map(|path| path.id).collect()
    }
}
