//! Which copies wait for which path: the queues between `outbox.rs` and the paths.
//!
//! A replicated message waits once per path, any other in one queue that paths are served from as
//! they ask: the choice falls when a path has room. Control is asked for whether or not there is
//! room, so its shared queue serves the best usable path alone; whether a path is good enough for
//! the tiers below is the scheduler's to say. Within a tier the order is by class, then by age.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::ControlPath;
use crate::ids::PathId;
use crate::limits;
use crate::select::{Class, Tier};

/// How many entries at the front of a queue are looked at for one that fits: more than the messages
/// of a second that are too large for the path, so that they do not block it for those that fit;
/// few enough to cost microseconds when none does.
const FIT_SCAN: usize = 256;

/// An entry of a queue: rank, then session-wide number.
pub(super) type Entry = (Class, u64);

/// Says which of the copies of a class goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Oldest,
    Newest,
}

/// The queues of copies.
#[derive(Debug, Default)]
pub(super) struct Pending {
    paths: SmallVec<[PathQueue; 4]>,
    best: BTreeSet<Entry>,
    best_path: Option<PathId>,
}

#[derive(Debug)]
struct PathQueue {
    path: ControlPath,
    copies: BTreeSet<Entry>,
    /// Copies that ask for no datagram of their own.
    rides: BTreeSet<Entry>,
}

/// What a new list of paths changed.
#[derive(Debug, Default)]
pub(super) struct PathChanges {
    /// New paths, and paths that work again.
    pub(super) gained: SmallVec<[PathId; 4]>,
    /// Paths that are gone or have fallen silent.
    pub(super) silent: SmallVec<[PathId; 4]>,
    /// Those among them that are gone.
    pub(super) removed: SmallVec<[PathId; 4]>,
}

impl Pending {
    /// Takes the list of paths over, the best first, and says what changed; paths past the bound
    /// are ignored.
    pub(super) fn set_paths(&mut self, paths: &[ControlPath]) -> PathChanges {
        let paths = &paths[..paths.len().min(limits::PATHS)];
        let mut changes = PathChanges::default();
        let best = |path: &&ControlPath| path.usable && path.takes(Class::Control);
        self.best_path = paths.iter().find(best).map(|path| path.id);
        self.paths.retain(|queue| {
            let kept = paths.iter().any(|path| path.id == queue.path.id);
            if !kept {
                changes.removed.push(queue.path.id);
                changes.silent.push(queue.path.id);
            }
            kept
        });
        for path in paths {
            match self.paths.iter_mut().find(|queue| queue.path.id == path.id) {
                None => {
                    changes.gained.push(path.id);
                    self.paths.push(PathQueue {
                        path: *path,
                        copies: BTreeSet::new(),
                        rides: BTreeSet::new(),
                    });
                }
                Some(queue) => {
                    let is_called = queue.path.backup && !path.backup
                        || path.carries.exceeds(queue.path.carries);
                    if path.usable && !queue.path.usable || is_called {
                        changes.gained.push(path.id);
                    } else if queue.path.usable && !path.usable {
                        changes.silent.push(path.id);
                    }
                    if path.backup && !queue.path.backup {
                        // What waits there waits, or was sent, elsewhere by now.
                        queue.copies.clear();
                        queue.rides.clear();
                    }
                    queue.copies.retain(|entry| path.carries.has(entry.0.tier()));
                    queue.rides.retain(|entry| path.carries.has(entry.0.tier()));
                    queue.path = *path;
                }
            }
        }
        changes
    }

    /// Takes over what is known now of paths that are the same as before.
    pub(super) fn refresh(&mut self, paths: &[ControlPath]) {
        for path in paths {
            if let Some(queue) = self.paths.iter_mut().find(|queue| queue.path.id == path.id) {
                queue.path = *path;
            }
        }
    }

    /// Returns the path that alone is usable, of those that take copies of a class; none where it
    /// loses nothing, so that a second copy there is for nothing.
    pub(super) fn lone_usable(&self, class: Class) -> Option<PathId> {
        let mut usable = self.usable_for(class);
        let first = usable.next()?;
        (usable.next().is_none() && !first.path.keeps()).then_some(first.path.id)
    }

    /// Lists the paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &ControlPath> {
        self.paths.iter().map(|queue| &queue.path)
    }

    /// Returns the paths that are usable.
    pub(super) fn usable(&self) -> SmallVec<[PathId; 4]> {
        self.paths.iter().filter(|queue| queue.path.usable).map(|queue| queue.path.id).collect()
    }

    pub(super) fn any_usable(&self, class: Class) -> bool {
        self.usable_for(class).next().is_some()
    }

    /// Tells whether a path takes copies of a class as a matter of course.
    pub(super) fn takes(&self, path: PathId, class: Class) -> bool {
        self.paths().any(|known| known.id == path && known.takes(class))
    }

    /// Tells whether what was sent on a path is late at worst, and never lost.
    pub(super) fn keeps(&self, path: PathId) -> bool {
        self.paths().any(|known| known.id == path && known.keeps())
    }

    /// Queues a copy for one path, if that may carry it.
    pub(super) fn add_on(&mut self, path: PathId, entry: Entry) {
        let may_carry = |queue: &&mut PathQueue| {
            queue.path.id == path && queue.path.carries.has(entry.0.tier())
        };
        if let Some(queue) = self.paths.iter_mut().find(may_carry) {
            queue.copies.insert(entry);
        }
    }

    /// Queues a copy for one path that leaves with another message there.
    pub(super) fn add_ride(&mut self, path: PathId, entry: Entry) {
        if let Some(queue) = self.paths.iter_mut().find(|queue| queue.path.id == path) {
            queue.rides.insert(entry);
        }
    }

    /// Ends the wait for another message's datagram.
    pub(super) fn end_ride(&mut self, entry: Entry) {
        self.paths.iter_mut().for_each(|queue| _ = queue.rides.remove(&entry));
    }

    /// Takes the first copy of a tier that shares a datagram on the path and `fits`.
    pub(super) fn take_ride(
        &mut self,
        path: PathId,
        tier: Tier,
        mut fits: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let queue = self.paths.iter_mut().find(|queue| queue.path.id == path)?;
        let entry = first_fitting(&queue.rides, tier, &mut fits)?;
        queue.rides.remove(&entry);
        Some(entry.1)
    }

    /// Tells whether a copy would share a datagram on the path.
    pub(super) fn has_rides(&self, path: PathId) -> bool {
        self.paths.iter().any(|queue| queue.path.id == path && !queue.rides.is_empty())
    }

    /// Queues one copy for whichever usable path asks first.
    pub(super) fn add_best(&mut self, entry: Entry) {
        self.best.insert(entry);
    }

    /// Takes the first entry of a tier for a path that `fits`.
    pub(super) fn take(
        &mut self,
        path: PathId,
        tier: Tier,
        turn: impl Fn(u64) -> Turn,
        mut fits: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let queue = self.paths.iter_mut().find(|queue| queue.path.id == path)?;
        let own = next_fitting(&queue.copies, tier, &turn, &mut fits);
        let serves = shares(queue, self.best_path, tier);
        let shared = if serves { next_fitting(&self.best, tier, &turn, &mut fits) } else { None };
        let entry = [own, shared].into_iter().flatten().min()?;
        if own == Some(entry) {
            queue.copies.remove(&entry);
        } else {
            self.best.remove(&entry);
        }
        Some(entry.1)
    }

    /// Lists the messages of which a copy of the tier waits for the path, the oldest of a class
    /// first.
    pub(super) fn oldest(&self, path: PathId, tier: Tier) -> impl Iterator<Item = u64> {
        let queue = self.paths.iter().find(move |queue| queue.path.id == path);
        queue
            .into_iter()
            .flat_map(move |queue| in_tier(&queue.copies, tier).take(FIT_SCAN).map(|entry| entry.1))
    }

    /// Returns true when something of the tier waits for the path.
    pub(super) fn waits_for(&self, path: PathId, tier: Tier) -> bool {
        let queue = self.paths.iter().find(|queue| queue.path.id == path);
        queue.filter(|queue| !(queue.copies.is_empty() && self.best.is_empty())).is_some_and(
            |queue| {
                in_tier(&queue.copies, tier).next().is_some()
                    || shares(queue, self.best_path, tier)
                        && in_tier(&self.best, tier).next().is_some()
            },
        )
    }

    /// Returns true when a copy waits anywhere.
    pub(super) fn contains(&self, entry: Entry) -> bool {
        self.best.contains(&entry) || self.paths.iter().any(|queue| queue.copies.contains(&entry))
    }

    /// Returns true when a copy waits for a path that is believed to work.
    pub(super) fn contains_usable(&self, entry: Entry) -> bool {
        self.best.contains(&entry)
            || self.paths.iter().any(|queue| queue.path.usable && queue.copies.contains(&entry))
    }

    /// Returns true when a copy waits for every path that is believed to work.
    pub(super) fn waits_everywhere(&self, entry: Entry) -> bool {
        let mut usable = self.usable_for(entry.0);
        self.best.contains(&entry)
            || self.any_usable(entry.0) && usable.all(|queue| queue.copies.contains(&entry))
    }

    /// Moves every waiting copy of a message to a more urgent rank.
    pub(super) fn promote(&mut self, from: Entry, to: Entry) {
        if self.best.remove(&from) {
            self.best.insert(to);
        }
        for queue in &mut self.paths {
            for copies in [&mut queue.copies, &mut queue.rides] {
                if copies.remove(&from) {
                    copies.insert(to);
                }
            }
        }
    }

    /// Drops every waiting copy of a message.
    pub(super) fn remove(&mut self, entry: Entry) {
        self.best.remove(&entry);
        for queue in &mut self.paths {
            queue.copies.remove(&entry);
            queue.rides.remove(&entry);
        }
    }

    fn usable_for(&self, class: Class) -> impl Iterator<Item = &PathQueue> {
        self.paths.iter().filter(move |queue| queue.path.usable && queue.path.takes(class))
    }
}

/// Tells whether a path is served from the shared queue. A backup may be called for by one tier and
/// not by another: below control that is for the session to say.
fn shares(queue: &PathQueue, best: Option<PathId>, tier: Tier) -> bool {
    queue.path.usable && (tier != Tier::Control || best == Some(queue.path.id))
}

fn in_tier(queue: &BTreeSet<Entry>, tier: Tier) -> impl Iterator<Item = &Entry> {
    // Classes sort as their tiers do, so a tier is one stretch of the queue.
    let first = match tier {
        Tier::Control => Class::Liveness,
        Tier::Telemetry => Class::Telemetry,
        Tier::Message => Class::Message,
        Tier::Bulk => Class::Bulk,
    };
    queue.range((first, 0)..).take_while(move |entry| entry.0.tier() == tier)
}

/// Returns the copy that goes next: the first class that has one that fits; in it the oldest of
/// those that keep an order, then the newest of the others where that is their turn.
fn next_fitting(
    queue: &BTreeSet<Entry>,
    tier: Tier,
    turn: &impl Fn(u64) -> Turn,
    fits: &mut impl FnMut(u64) -> bool,
) -> Option<Entry> {
    let oldest = first_fitting(queue, tier, fits)?;
    if turn(oldest.1) == Turn::Oldest {
        return Some(oldest);
    }
    let class = queue.range((oldest.0, 0)..=(oldest.0, u64::MAX)).rev();
    class.take(FIT_SCAN).find(|entry| turn(entry.1) == Turn::Newest && fits(entry.1)).copied()
}

fn first_fitting(
    queue: &BTreeSet<Entry>,
    tier: Tier,
    fits: &mut impl FnMut(u64) -> bool,
) -> Option<Entry> {
    in_tier(queue, tier).take(FIT_SCAN).find(|entry| fits(entry.1)).copied()
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::path::Carries;

    fn pending(paths: &[(u8, bool)]) -> Pending {
        let mut pending = Pending::default();
        pending.set_paths(&views(paths));
        pending
    }

    fn views(paths: &[(u8, bool)]) -> Vec<ControlPath> {
        paths
            .iter()
            .map(|&(id, usable)| ControlPath::plain(PathId(id), usable, Duration::ZERO))
            .collect()
    }

    fn add_on_all(pending: &mut Pending, entry: Entry) {
        let paths: Vec<PathId> = pending.paths().map(|path| path.id).collect();
        paths.into_iter().for_each(|path| pending.add_on(path, entry));
    }

    #[test]
    fn classes_go_in_order_within_a_tier_and_tiers_do_not_mix() {
        let mut pending = pending(&[(0, true)]);
        add_on_all(&mut pending, (Class::Control, 1));
        add_on_all(&mut pending, (Class::Liveness, 2));
        pending.add_best((Class::Message, 0));
        let path = PathId(0);
        assert_eq!(pending.take(path, Tier::Control, |_| Turn::Oldest, |_| true), Some(2));
        assert_eq!(pending.take(path, Tier::Control, |_| Turn::Oldest, |_| true), Some(1));
        assert_eq!(pending.take(path, Tier::Control, |_| Turn::Oldest, |_| true), None);
        assert_eq!(pending.take(path, Tier::Telemetry, |_| Turn::Oldest, |_| true), None);
        assert_eq!(pending.take(path, Tier::Message, |_| Turn::Oldest, |_| true), Some(0));
    }

    #[test]
    fn suspected_path_gets_replicas_but_nothing_of_the_shared_queue() {
        let mut pending = pending(&[(0, false), (1, true)]);
        add_on_all(&mut pending, (Class::Control, 1));
        pending.add_best((Class::Control, 0));
        assert_eq!(pending.lone_usable(Class::Control), Some(PathId(1)));
        assert_eq!(pending.take(PathId(0), Tier::Control, |_| Turn::Oldest, |_| true), Some(1));
        assert_eq!(pending.take(PathId(0), Tier::Control, |_| Turn::Oldest, |_| true), None);
        assert_eq!(pending.take(PathId(1), Tier::Control, |_| Turn::Oldest, |_| true), Some(0));
        assert_eq!(pending.take(PathId(1), Tier::Control, |_| Turn::Oldest, |_| true), Some(1));
    }

    #[test]
    fn small_ones_pass_one_that_does_not_fit() {
        let mut pending = pending(&[(0, true)]);
        add_on_all(&mut pending, (Class::Control, 1));
        add_on_all(&mut pending, (Class::Control, 2));
        assert_eq!(
            pending.take(PathId(0), Tier::Control, |_| Turn::Oldest, |seq| seq == 2),
            Some(2)
        );
        assert!(pending.waits_for(PathId(0), Tier::Control));
    }

    #[test]
    fn a_backup_in_reserve_is_no_path_of_its_own_accord_and_is_gained_when_it_is_called() {
        let mut pending = pending(&[(0, true), (1, true)]);
        let mut paths = views(&[(0, true), (1, true)]);
        paths[1].backup = true;
        pending.set_paths(&paths);
        assert_eq!(pending.lone_usable(Class::Control), Some(PathId(0)));
        assert!(!pending.takes(PathId(1), Class::Control));
        add_on_all(&mut pending, (Class::Control, 1));
        assert!(pending.waits_for(PathId(1), Tier::Control), "a plan may name it");
        paths[1].backup = false;
        assert_eq!(pending.set_paths(&paths).gained.as_slice(), [PathId(1)]);
        paths[1].backup = true;
        let changes = pending.set_paths(&paths);
        assert!(changes.gained.is_empty() && changes.silent.is_empty(), "{changes:?}");
        assert!(!pending.waits_for(PathId(1), Tier::Control), "it goes elsewhere");
    }

    #[test]
    fn no_copy_waits_for_a_path_that_may_not_carry_it() {
        let mut pending = Pending::default();
        let mut paths = views(&[(0, true), (1, true)]);
        paths[0].carries = Carries::new([Tier::Telemetry, Tier::Bulk]).expect("two");
        pending.set_paths(&paths);
        add_on_all(&mut pending, (Class::Control, 1));
        add_on_all(&mut pending, (Class::Telemetry, 2));
        pending.add_best((Class::Live, 3));
        assert_eq!(pending.take(PathId(0), Tier::Control, |_| Turn::Oldest, |_| true), None);
        assert_eq!(pending.take(PathId(0), Tier::Telemetry, |_| Turn::Oldest, |_| true), Some(2));
        assert_eq!(pending.take(PathId(1), Tier::Control, |_| Turn::Oldest, |_| true), Some(3));
        assert_eq!(pending.lone_usable(Class::Control), Some(PathId(1)));
    }

    #[test]
    fn changes_name_gained_silent_and_removed_paths() {
        let mut pending = pending(&[(0, true), (1, true), (2, false)]);
        let changes = pending.set_paths(&views(&[(1, false), (2, true), (3, true)]));
        assert_eq!(changes.gained.as_slice(), [PathId(2), PathId(3)]);
        assert_eq!(changes.silent.as_slice(), [PathId(0), PathId(1)]);
        assert_eq!(changes.removed.as_slice(), [PathId(0)]);
    }
}
