//! `min_rtt`: the active path with the lowest smoothed round-trip time that has room [ConClone
//! §3.3.2], and a question that late binding lets us ask: is it worth waiting?
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
//! Loss outweighs delay, because what is lost does not arrive at all: a path L that loses much less
//! than P counts as the better one, and is waited for as long as that costs little:
//! ```text
//! loss_P > loss_L + 5 % + 2 deviations of the estimate of loss_P
//!     →  wait  ⇔  backlog / rate_L + srtt_L/2 < srtt_P/2 + 50 ms
//! ```
//! where the backlog counts as zero if L has room; and no packet that L could take waits for P.
//!
//! A path on which an answer is overdue counts as the slowest of all: it is offered bulk again when
//! the answer comes, or suspected within a few tens of milliseconds.
//!
//! A new symbol of message delivery goes where it arrives first, judging by the one-way delay, the
//! queue that acknowledgements show and what is under way (`path/drain.rs`): the round-trip time
//! shows a queue too late, and that of the other direction as well.
//!
//! Source: the idea of \[ECF\] and \[BLEST\], which compare whole round trips of a TCP that cannot
//! take a packet back. *Deviations*: 1. one-way times, because a packet here is not bound to a path
//! before it leaves; 2. the whole backlog counts against waiting, because every packet of it would
//! wait behind this one; 3. no hysteresis: nothing is lost by asking again; 4. loss counts.

use units::Duration;

use super::{Decision, ScheduleView, Scheduler};
use crate::event::PathState;
use crate::ids::PathId;
use crate::path::{MUCH_LOSS, PathSnapshot};

/// How much delay a path with less loss is worth: a frame and a half of video, which every player
/// buffers.
const WORTH: Duration = Duration::from_millis(50);

/// Prefers the path of the lowest smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt;

impl Scheduler for MinRtt {
    fn offer(&self, view: &ScheduleView<'_>, path: PathId) -> Decision {
        let Some(offered) = view.paths.iter().find(|candidate| candidate.id == path) else {
            return Decision::Wait;
        };
        let mut others = view.candidates().filter(|other| other.id != path);
        if others.any(|other| is_worth_waiting_for(view, other, offered)) {
            Decision::Wait
        } else {
            Decision::Send
        }
    }

    fn offer_symbol(&self, view: &ScheduleView<'_>, path: PathId) -> Decision {
        let Some(offered) = view.paths.iter().find(|candidate| candidate.id == path) else {
            return Decision::Wait;
        };
        let mut others = view.candidates().filter(|other| other.id != path);
        let delivers_earlier = |other: &PathSnapshot| {
            let (its, ours) = (other.expected_delay(view.now), offered.expected_delay(view.now));
            let waiting = || other.send_rate.transmission_time(backlog(view)).saturating_add(its);
            offered.state != PathState::Active
                || ((its, other.id) < (ours, path)
                    && (other.has_room(view.packet) || waiting() < ours))
        };
        if others.any(delivers_earlier) { Decision::Wait } else { Decision::Send }
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
    if loses_much_less(offered, other) {
        return false;
    }
    if loses_much_less(other, offered) {
        return arrives_within(view, other, offered, WORTH);
    }
    if (other.srtt_or_initial(), other.id) > (offered.srtt_or_initial(), offered.id) {
        return false;
    }
    other.has_room(view.packet) || arrives_within(view, other, offered, Duration::ZERO)
}

fn loses_much_less(better: &PathSnapshot, worse: &PathSnapshot) -> bool {
    // By chance an estimate may be off by two deviations.
    worse.loss > better.loss + MUCH_LOSS + 2.0 * worse.loss_deviation
}

/// Tells whether a packet that waits for `better` arrives at most `worth` later than it would over
/// `offered`.
fn arrives_within(
    view: &ScheduleView<'_>,
    better: &PathSnapshot,
    offered: &PathSnapshot,
    worth: Duration,
) -> bool {
    let waiting = if better.has_room(view.packet) {
        Duration::ZERO
    } else {
        better.send_rate.transmission_time(backlog(view))
    };
    waiting.saturating_add(one_way(better)) < one_way(offered).saturating_add(worth)
}

fn backlog(view: &ScheduleView<'_>) -> usize {
    usize::try_from(view.backlog).unwrap_or(usize::MAX)
}

fn one_way(path: &PathSnapshot) -> Duration {
    path.srtt_or_initial() / 2
}
