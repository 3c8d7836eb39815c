//! `min_rtt`: the active path with the lowest smoothed round-trip time that has room
//! [ConClone §3.3.2], with the question that late binding allows: is it worth to wait?
//!
//! A path F that is faster but has no room is waited for when the packet would arrive earlier:
//! ```text
//! arrival on P        ≈ now + srtt_P/2
//! arrival through F   ≈ now + backlog / rate_F + srtt_F/2
//! wait  ⇔  some faster F:  backlog / rate_F + srtt_F/2 < srtt_P/2
//! ```
//! Source: the idea of ECF [Lim et al. 2017] and BLEST [Ferlin et al. 2016], which compare whole
//! round trips of a TCP that cannot take a packet back; *deviations*: 1. one-way times, because a
//! packet here is not bound to a path before it leaves; 2. the whole backlog counts against
//! waiting, because every packet of it would wait behind this one.

use core::time::Duration;

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
        let better = |other: &&PathSnapshot| {
            other.state == PathState::Active
                && other.id != path
                && (other.doubtful, other.srtt_or_initial(), other.id)
                    < (offered.doubtful, offered.srtt_or_initial(), offered.id)
        };
        let wait = view
            .paths
            .iter()
            .filter(better)
            .any(|other| other.has_room(view.packet) || arrives_earlier(view, other, offered));
        if wait { Decision::Wait } else { Decision::Send }
    }
}

/// Tells whether a packet that waits for `faster` arrives before it would over `offered`.
fn arrives_earlier(view: &ScheduleView<'_>, faster: &PathSnapshot, offered: &PathSnapshot) -> bool {
    if faster.doubtful {
        return false;
    }
    let waiting = faster.send_rate.transmission_time(view.backlog as usize);
    waiting.saturating_add(one_way(faster)) < one_way(offered)
}

fn one_way(path: &PathSnapshot) -> Duration {
    path.srtt_or_initial() / 2
}
