//! `redundant`: a copy of every packet on every path. What people run today to be safe, and the
//! baseline that shows its price [ConClone Fig. 1].

use super::{Decision, ScheduleView, Scheduler};
use crate::ids::PathId;

/// Sends everything on every path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redundant;

impl Scheduler for Redundant {
    fn offer(&self, _view: &ScheduleView<'_>, _path: PathId) -> Decision {
        Decision::Send
    }

    fn replicates(&self) -> bool {
        true
    }
}
