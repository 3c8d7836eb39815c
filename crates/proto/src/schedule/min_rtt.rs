//! `min_rtt`: the active path with the lowest smoothed round-trip time that has room
//! [ConClone §3.3.2], with the question that late binding allows: is it worth to wait?
//!
//! A path F that is faster than the one offered, P, but has no room is waited for when the packet
//! would arrive earlier that way:
//! ```text
//! arrival on P        ≈ now + srtt_P/2
//! arrival through F   ≈ now + backlog / rate_F + srtt_F/2
//! wait  ⇔  some faster F:  backlog / rate_F + srtt_F/2 < srtt_P/2
//! ```
//! So a slow path begins to help when the backlog of the fast ones is as long as the difference of
//! their delays, and from then on packets of both arrive nearly in the order in which they left.
//! A path on which an answer is overdue counts as the slowest of all: it is offered bulk again when
//! the answer comes, or suspected within a few tens of milliseconds.
//!
//! Source: the idea of [ECF] and [BLEST], which compare whole round trips of a TCP that cannot take
//! a packet back. *Deviations*: 1. one-way times, because a packet here is not bound to a path
//! before it leaves; 2. the whole backlog counts against waiting, because every packet of it would
//! wait behind this one; 3. no hysteresis: nothing is lost by asking again.

use units::Duration;

use super::{Decision, ScheduleView, Scheduler};
use crate::event::PathState;
use crate::ids::PathId;
use crate::path::PathSnapshot;

/// Prefers the path of the lowest smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt;

impl Scheduler for MinRtt {
    fn offer(&self, view: &ScheduleView<'_>, path: PathId) -> Decision {
        let Some(offered) = view.paths.iter().find(|candidate| candidate.id == path) else {
            return Decision::Wait;
        };
        let mut others =
            view.paths.iter().filter(|other| other.state == PathState::Active && other.id != path);
        if others.any(|other| is_worth_waiting_for(view, other, offered)) {
            Decision::Wait
        } else {
            Decision::Send
        }
    }
}

fn is_worth_waiting_for(
    view: &ScheduleView<'_>,
    other: &PathSnapshot,
    offered: &PathSnapshot,
) -> bool {
    if other.doubtful != offered.doubtful {
        return offered.doubtful;
    }
    if (other.srtt_or_initial(), other.id) > (offered.srtt_or_initial(), offered.id) {
        return false;
    }
    other.has_room(view.packet) || arrives_earlier(view, other, offered)
}

/// Tells whether a packet that waits for `faster` arrives before it would over `offered`.
fn arrives_earlier(view: &ScheduleView<'_>, faster: &PathSnapshot, offered: &PathSnapshot) -> bool {
    let backlog = usize::try_from(view.backlog).unwrap_or(usize::MAX);
    let waiting = faster.send_rate.transmission_time(backlog);
    waiting.saturating_add(one_way(faster)) < one_way(offered)
}

fn one_way(path: &PathSnapshot) -> Duration {
    path.srtt_or_initial() / 2
}
