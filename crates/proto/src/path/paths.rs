//! The paths of a session seen together: what one of them cannot say alone, such as which of them a
//! message is left to where one is thin ([`Paths::control_room`]).
//!
//! A session asks each path much more often than it changes it, and mostly at one moment. What is
//! derived from a path is kept until somebody takes hold of the path to change it.

use std::cell::{Cell, Ref, RefCell};
use std::ops::{Index, IndexMut};

use units::{Duration, Instant};

use super::{CopyRoom, Path, PathSnapshot};
use crate::event::{Call, PathState};
use crate::ids::{InterfaceId, PathId};
use crate::recovery::INITIAL_RTT;
use crate::select::Tier;
use crate::via::Via;

/// Loss of a path whose answers to single packets are waited for: where less is lost, a later
/// packet is nearly always answered and tells what is missing. So much more than another is much as
/// well: less is repaired, or hardly noticed.
pub(crate) const MUCH_LOSS: f64 = 0.05;
/// Share of messages of which every first copy is lost that nobody hurries for: three times it
/// would be seen among the 3,000 of a minute.
const ALL_LOST: f64 = 1e-3;
/// How long an answer is waited for while no path is known to work: the first guess alone, without
/// a variation. What waits for so long cannot be sent anyway, and the next path may be there at
/// once.
pub(crate) const PATIENCE_WITHOUT_PATH: Duration = INITIAL_RTT;

/// An interface, or an address behind it, whose socket takes nothing now.
type Blocked = (InterfaceId, Option<Via>);

/// All paths of a session, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    all: Vec<Kept>,
    /// What is bound to none of them for now; at most one for each path.
    blocked: Vec<Blocked>,
    /// Whether any has changed since that was asked last.
    changed: bool,
    /// Whether an operator has said of any what it may carry, or that it is a backup.
    pub(super) are_limited: bool,
    /// Whether a target needs backups that nothing else calls for.
    pub(super) target_calls: bool,
    /// Backups that are called or were let go, and what for.
    pub(super) call_news: Vec<(PathId, Option<Call>)>,
    /// How each was shown last.
    shown: RefCell<Vec<PathSnapshot>>,
}

/// A path, and what was found out about it since it changed last.
#[derive(Debug)]
struct Kept {
    path: Path,
    /// When it was shown as it still is.
    shown_at: Cell<Option<Instant>>,
    timeout: Cell<Option<Option<Instant>>>,
    /// What of bulk could leave, and when.
    budget: Cell<Option<(Instant, usize)>>,
}

impl Kept {
    /// Gives out the path to be changed: nothing that is known of it counts any more.
    fn change(&mut self) -> &mut Path {
        self.shown_at.set(None);
        self.timeout.set(None);
        self.budget.set(None);
        &mut self.path
    }

    fn bulk_budget(&self, now: Instant) -> usize {
        let known = self.budget.get().filter(|(at, _)| *at == now).map(|(_, budget)| budget);
        let budget = known.unwrap_or_else(|| self.path.bulk_budget(now));
        self.budget.set(Some((now, budget)));
        budget
    }
}

impl Paths {
    /// Adds a path.
    pub(crate) fn push(&mut self, path: Path) {
        let (shown_at, timeout, budget) = Default::default();
        self.all.push(Kept { path, shown_at, timeout, budget });
        self.changed = true;
        self.shown.get_mut().clear();
    }

    /// Removes a path.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.all.retain(|kept| kept.path.id() != id);
        self.changed = true;
        self.shown.get_mut().clear();
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the place of a path.
    pub(crate) fn position(&self, id: PathId) -> Option<usize> {
        self.all.iter().position(|kept| kept.path.id() == id)
    }

    /// Walks the paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(|kept| &kept.path)
    }

    /// Walks the paths, to change each.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.changed = true;
        self.all.iter_mut().map(Kept::change)
    }

    /// Gives out a path to note what came in: nothing that is sent depends on that.
    pub(crate) fn receiving(&mut self, index: usize) -> &mut Path {
        self.all[index].change()
    }

    /// Tells whether any has changed otherwise since this was asked last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Lists the paths that work.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Path> {
        self.iter().filter(|path| path.state() == PathState::Active)
    }

    /// Tells whether the path's socket takes nothing now.
    pub(crate) fn is_blocked(&self, path: &Path) -> bool {
        self.blocked.iter().any(|place| lies_at(path, *place))
    }

    /// Notes that the socket of an interface, or the one for an address behind it, takes nothing
    /// for now, or takes datagrams again; tells whether that is news.
    pub(crate) fn set_blocked(&mut self, place: Blocked, blocked: bool) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|known| *known != place);
        self.changed = true;
        let was_blocked = self.blocked.len() < before;
        let is_blocked = blocked && self.iter().any(|path| lies_at(path, place));
        if is_blocked {
            self.blocked.push(place);
        }
        self.shown.get_mut().clear();
        was_blocked != is_blocked
    }

    /// Returns how many bytes of bulk may leave now by the path at this place.
    pub(crate) fn bulk_budget(&self, now: Instant, index: usize) -> usize {
        self.all[index].bulk_budget(now)
    }

    /// Shows every path; one that is blocked has room for nothing.
    pub(crate) fn snapshots(&self, now: Instant) -> Ref<'_, [PathSnapshot]> {
        // Whoever holds snapshots has no way to change a path meanwhile: they are of this moment.
        if let Ok(mut shown) = self.shown.try_borrow_mut() {
            self.show(now, &mut shown);
        }
        Ref::map(self.shown.borrow(), Vec::as_slice)
    }

    /// Returns when the first of them has to be attended to.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let timeout = |kept: &Kept| {
            let known = kept.timeout.get().unwrap_or_else(|| kept.path.timeout());
            kept.timeout.set(Some(known));
            known
        };
        self.all.iter().filter_map(timeout).min()
    }

    /// Returns how long a packet of bulk that leaves now takes to arrive, on the fastest path that
    /// works.
    pub(crate) fn reach(&self) -> Duration {
        self.active_for(Tier::Bulk).map(Path::one_way).min().unwrap_or_default()
    }

    /// Tells whether a path that works, and serves bulk, loses much.
    pub(crate) fn loses_much(&self) -> bool {
        self.active_for(Tier::Bulk).any(|path| path.loss() >= MUCH_LOSS)
    }

    /// Returns the time after which an answer of the best path is overdue.
    pub(crate) fn probe_timeout(&self) -> Duration {
        let serving = self.active().filter(|path| !path.rests());
        serving.map(Path::probe_timeout).min().unwrap_or(PATIENCE_WITHOUT_PATH)
    }

    /// Tells whether nothing depends on quick answers to copies of control that leave on every
    /// path: one arrives nearly for certain, no backup waits to be called, and no bulk has to be
    /// taken elsewhere soon.
    pub(crate) fn answers_may_wait(&self, now: Instant) -> bool {
        let carrying =
            || self.iter().filter(|path| path.is_usable() && path.carries().has(Tier::Control));
        let sound = || carrying().filter(|path| path.is_sound_for_control(now));
        let all_lost: f64 = sound().map(Path::loss).product();
        let is_calm = |path: &Path| path.serves(Tier::Control) && !path.has_bulk();
        sound().count() > 1 && all_lost < ALL_LOST && carrying().all(is_calm)
    }

    /// Returns the room that a path has for control. On a thin path a message that is under way
    /// nowhere is left to one that takes it sooner.
    pub(crate) fn control_room(&self, now: Instant, path: &Path) -> CopyRoom {
        let mut room = path.control_room(now);
        if path.slow_rate(now).is_none() {
            return room;
        }
        let is_alone = self.active_for(Tier::Control).all(|other| other.id() == path.id());
        // What is under way here comes from here, or not at all.
        room.repeat = if is_alone { 0 } else { room.repeat };
        if !path.is_thin() {
            return room;
        }
        let own = (path.control_arrival(now), path.id());
        let others = self.active_for(Tier::Control).filter(|other| {
            !self.is_blocked(other) && (other.control_arrival(now), other.id()) < own
        });
        others.map(|other| other.control_room(now)).fold(room, |room, sooner| CopyRoom {
            fresh: if sooner.fresh > 0 { 0 } else { room.fresh },
            newest: if sooner.newest > 0 { 0 } else { room.newest },
            ..room
        })
    }

    /// Brings up to date how the paths are shown.
    fn show(&self, now: Instant, shown: &mut Vec<PathSnapshot>) {
        for (index, kept) in self.all.iter().enumerate() {
            if index < shown.len() && kept.shown_at.get() == Some(now) {
                continue;
            }
            let is_blocked = self.is_blocked(&kept.path);
            let budget = if is_blocked { 0 } else { kept.bulk_budget(now) };
            let snapshot = kept.path.snapshot(now, budget);
            match shown.get_mut(index) {
                Some(place) => *place = snapshot,
                None => shown.push(snapshot),
            }
            kept.shown_at.set(Some(now));
        }
    }
}

impl Index<usize> for Paths {
    type Output = Path;

    fn index(&self, index: usize) -> &Path {
        &self.all[index].path
    }
}

impl IndexMut<usize> for Paths {
    fn index_mut(&mut self, index: usize) -> &mut Path {
        self.changed = true;
        self.all[index].change()
    }
}

/// Tells whether a path leaves by an interface, to an address where one is given.
fn lies_at(path: &Path, (interface, remote): Blocked) -> bool {
    let route = path.route();
    route.interface == interface && remote.is_none_or(|remote| route.remote == remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionKind;
    use crate::path::{Outgoing, PathConfig, ProtectControl, Route};

    const NOW: Instant = Instant::from_millis(1_000);

    fn path(id: u8) -> Path {
        let remote = Via::from(std::net::SocketAddr::from(([192, 0, 2, id], 4_600)));
        let route = Route { interface: InterfaceId(0), local: None, remote };
        let config = PathConfig {
            congestion: CongestionKind::DelayBounded,
            initiator: true,
            idle_probe: Duration::ZERO,
            protect_control: ProtectControl::Balanced,
        };
        let mut path = Path::new(NOW, PathId(id), route, config, 1);
        path.confirm_address(NOW, Duration::ZERO);
        path
    }

    fn send(path: &mut Path) {
        let (pn, frames) = (path.next_packet_number(), Default::default());
        let outgoing = Outgoing {
            pn,
            bytes: 1_000,
            ack_eliciting: true,
            bulk: true,
            marked: false,
            route: None,
            frames,
        };
        path.on_packet_sent(NOW, outgoing);
    }

    #[test]
    fn what_is_kept_of_a_path_never_outlives_a_change() {
        let mut paths = Paths::default();
        paths.push(path(1));
        paths.push(path(2));
        let in_flight = |paths: &Paths| {
            paths.snapshots(NOW).iter().map(|path| (path.id.0, path.in_flight)).collect::<Vec<_>>()
        };
        let idle_until = paths.timeout();
        assert_eq!(in_flight(&paths), [(1, 0), (2, 0)]);
        send(&mut paths[1]);
        assert_eq!(in_flight(&paths), [(1, 0), (2, 1_000)]);
        assert!(paths.timeout() < idle_until, "an answer is waited for");
        paths.remove(PathId(1));
        assert_eq!(in_flight(&paths), [(2, 1_000)]);
        paths.push(path(3));
        assert_eq!(in_flight(&paths), [(2, 1_000), (3, 0)]);
        paths.iter_mut().for_each(send);
        assert_eq!(in_flight(&paths), [(2, 2_000), (3, 1_000)]);
    }
}
