//! The few paths that are planned with, and sets of them.
//!
//! Sets of paths are what failures are counted by, so their number is bounded: four paths make
//! sixteen sets. A session with more has copies on the others only where everything goes
//! everywhere.

use crate::ids::PathId;

/// Paths that are planned with.
pub(super) const SLOTS: usize = 4;

/// A set of the paths that are planned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(u8);

impl Mask {
    /// None of them.
    pub(super) const NONE: Self = Self(0);

    /// Every set but the empty one.
    pub(super) fn sets() -> impl Iterator<Item = Self> {
        (1..1_u8 << SLOTS).map(Self)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns a bit for each path.
    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn contains(self, path: usize) -> bool {
        self.0 & (1 << path) != 0
    }

    /// Tells whether all of them are in `other` as well.
    pub(super) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) const fn with(self, path: usize) -> Self {
        Self(self.0 | 1 << path)
    }

    pub(super) const fn without(self, path: usize) -> Self {
        Self(self.0 & !(1 << path))
    }

    /// Returns what is in either.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is in both.
    pub(super) const fn of(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Lists its paths.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..SLOTS).filter(move |path| self.contains(*path))
    }

    /// Lists its subsets, itself and the empty one included.
    pub(super) fn subsets(self) -> impl Iterator<Item = Self> {
        (0..1_u8 << SLOTS).map(Self).filter(move |set| set.is_within(self))
    }
}

/// Which path has which place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots([Option<PathId>; SLOTS]);

impl Slots {
    /// Takes over the paths there are, the best first; returns the places that have another path
    /// than before.
    pub(super) fn set(&mut self, paths: &[PathId]) -> Mask {
        let mut changed = Mask::NONE;
        for slot in 0..SLOTS {
            if self.0[slot].is_some_and(|path| !paths.contains(&path)) {
                self.0[slot] = None;
                changed = changed.with(slot);
            }
        }
        for path in paths {
            if self.find(*path).is_none()
                && let Some(slot) = self.0.iter().position(Option::is_none)
            {
                self.0[slot] = Some(*path);
                changed = changed.with(slot);
            }
        }
        changed
    }

    /// Returns a path's place.
    pub(super) fn find(&self, path: PathId) -> Option<usize> {
        self.0.iter().position(|slot| *slot == Some(path))
    }

    /// Returns the path at a place.
    pub(super) fn path(&self, slot: usize) -> Option<PathId> {
        self.0[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_know_their_subsets() {
        let set = Mask::NONE.with(0).with(2);
        assert_eq!(set.subsets().count(), 4);
        assert!(set.subsets().all(|subset| subset.is_within(set)));
        assert_eq!((set.len(), set.without(0).iter().collect::<Vec<_>>()), (2, vec![2]));
        assert_eq!(Mask::sets().count(), 15);
    }

    #[test]
    fn paths_keep_their_places() {
        let mut slots = Slots::default();
        assert_eq!(slots.set(&[PathId(1), PathId(0)]).len(), 2);
        assert_eq!(slots.set(&[PathId(0), PathId(1)]), Mask::NONE);
        assert_eq!(slots.set(&[PathId(0), PathId(2)]), Mask::NONE.with(0));
        assert_eq!((slots.find(PathId(2)), slots.find(PathId(1))), (Some(0), None));
    }
}
