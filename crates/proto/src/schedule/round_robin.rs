//! `round_robin`: each active path in turn, whatever its delay. A path without room is skipped.

use super::{Decision, ScheduleView, Scheduler};
use crate::ids::PathId;

/// Sends on each path in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn offer(&self, view: &ScheduleView<'_>, path: PathId) -> Decision {
        let with_room = view.candidates().filter(|path| path.has_room(view.packet));
        let turn = |id: PathId| (self.last.is_some_and(|last| id <= last), id);
        let next = with_room.map(|path| path.id).min_by_key(|&id| turn(id));
        if next.is_none_or(|next| next == path) { Decision::Send } else { Decision::Wait }
    }

    fn on_sent(&mut self, path: PathId) {
        self.last = Some(path);
    }
}
