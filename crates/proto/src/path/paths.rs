//! The paths of a session seen together: what one of them cannot say alone.

use std::net::SocketAddr;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::{CopyRoom, Path, PathSnapshot};
use crate::event::PathState;
use crate::ids::InterfaceId;
use crate::recovery::INITIAL_RTT;

/// Loss of a path whose answers to single packets are waited for: where less is lost, a later packet
/// is nearly always answered and tells what is missing.
pub(crate) const MUCH_LOSS: f64 = 0.05;
/// How long an answer is waited for while no path is known to work: the first guess alone, without a
/// variation. What waits for so long cannot be sent anyway, and the next path may be there at once.
pub(crate) const PATIENCE_WITHOUT_PATH: Duration = INITIAL_RTT;

/// An interface, or an address behind it, whose socket takes nothing now.
pub(crate) type Blocked = (InterfaceId, Option<SocketAddr>);

/// Snapshots of all paths of a session.
pub(crate) type Snapshots = SmallVec<[PathSnapshot; 4]>;

/// All paths of a session, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths<'a> {
    /// The paths.
    pub(crate) all: &'a [Path],
    /// What is bound to none of them for now.
    pub(crate) blocked: &'a [Blocked],
}

impl<'a> Paths<'a> {
    /// Lists the paths that work.
    pub(crate) fn active(self) -> impl Iterator<Item = &'a Path> {
        self.all.iter().filter(|path| path.state() == PathState::Active)
    }

    /// Tells whether the path's socket takes nothing now.
    pub(crate) fn is_blocked(self, path: &Path) -> bool {
        self.blocked.iter().any(|place| lies_at(path, *place))
    }

    /// Shows every path; one that is blocked has room for nothing.
    pub(crate) fn snapshots(self, now: Instant) -> Snapshots {
        let snapshot = |path: &Path| {
            let mut snapshot = path.snapshot(now);
            if self.is_blocked(path) {
                snapshot.budget = 0;
            }
            snapshot
        };
        self.all.iter().map(snapshot).collect()
    }

    /// Returns how long a packet that leaves now takes to arrive, on the fastest path that works.
    pub(crate) fn reach(self) -> Duration {
        self.active().map(Path::one_way).min().unwrap_or_default()
    }

    /// Tells whether a path that works loses much.
    pub(crate) fn loses_much(self) -> bool {
        self.active().any(|path| path.loss() >= MUCH_LOSS)
    }

    /// Returns the time after which an answer of the best path is overdue.
    pub(crate) fn probe_timeout(self) -> Duration {
        self.active().map(Path::probe_timeout).min().unwrap_or(PATIENCE_WITHOUT_PATH)
    }

    /// Returns the room that a path has for control. On a thin path a message that is under way
    /// nowhere is left to one that takes it sooner.
    pub(crate) fn control_room(self, now: Instant, path: &Path) -> CopyRoom {
        let room = path.control_room(now);
        if !path.is_thin(now) {
            return room;
        }
        let sooner = self.active().any(|other| {
            !self.is_blocked(other)
                && (other.control_arrival(now), other.id()) < (path.control_arrival(now), path.id())
                && other.control_room(now).fresh > 0
        });
        if sooner { CopyRoom { fresh: 0, ..room } } else { room }
    }
}

/// Tells whether a path leaves by an interface, to an address where one is given.
pub(crate) fn lies_at(path: &Path, (interface, remote): Blocked) -> bool {
    let route = path.route();
    route.interface == interface && remote.is_none_or(|remote| route.remote == remote)
}
