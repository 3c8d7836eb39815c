//! What an operator says of a path: what its bytes cost, whether it is kept in reserve, and what it
//! may carry [specs/paths.md §8].
//!
//! The initiator's configuration says so. The responder is told, because the initiator's modem pays
//! for both directions. What follows for the paths together is `service.rs`.

use crate::limits;
use crate::select::Tier;

/// Flag of PATH_USE: the path is a backup.
const BACKUP: u8 = 1;
/// The classes that it carries stand above that.
const CARRIES_SHIFT: u8 = 1;

/// The price of a byte on a path, relative to the other paths' prices, in thousandths: more than
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u32);

/// Which tiers of traffic a path may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carries(u8);

/// How the initiator's operator wants a path to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathUse {
    /// What a byte costs.
    pub cost: Cost,
    /// Whether it is silent until nothing else works.
    pub backup: bool,
    /// What it may carry.
    pub carries: Carries,
}

impl Cost {
    /// The least price of a byte.
    pub const LEAST: f64 = 1e-3;
    /// The highest price of a byte.
    pub const MOST: f64 = limits::HIGHEST_COST as f64 / 1e3;

    /// Takes a price between [`Cost::LEAST`] and [`Cost::MOST`]; none where it is anything else.
    pub fn new(price: f64) -> Option<Self> {
        // NaN lies between no two numbers.
        let in_bounds = (Self::LEAST..=Self::MOST).contains(&price);
        in_bounds.then(|| Self((price * 1e3).round() as u32))
    }

    /// Returns the price.
    pub fn get(self) -> f64 {
        f64::from(self.0) / 1e3
    }
}

impl Default for Cost {
    /// Returns the price where none is given.
    fn default() -> Self {
        Self(1_000)
    }
}

impl Carries {
    /// Everything.
    pub const ALL: Self = Self(0b1111);
    /// Nothing: what a path in reserve carries for now.
    pub(crate) const NONE: Self = Self(0);
    /// Every tier.
    pub const TIERS: [Tier; 4] = [Tier::Control, Tier::Telemetry, Tier::Message, Tier::Bulk];

    /// Collects tiers; none where there are none.
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Option<Self> {
        let all = tiers.into_iter().fold(Self::NONE, Self::with);
        (all != Self::NONE).then_some(all)
    }

    /// Tells whether a tier is among them.
    pub fn has(self, tier: Tier) -> bool {
        self.0 & bit(tier) != 0
    }

    /// Walks those that are among them.
    pub fn tiers(self) -> impl Iterator<Item = Tier> {
        Self::TIERS.into_iter().filter(move |tier| self.has(*tier))
    }

    /// Tells whether something is among them that is not among others.
    pub(crate) fn exceeds(self, others: Self) -> bool {
        self.0 & !others.0 != 0
    }

    /// Adds a tier.
    pub(crate) fn with(self, tier: Tier) -> Self {
        Self(self.0 | bit(tier))
    }
}

impl Default for Carries {
    fn default() -> Self {
        Self::ALL
    }
}

impl PathUse {
    /// Returns flags and price as PATH_USE has them [specs/wire.md §3] (3.11).
    pub(crate) fn to_wire(self) -> (u8, u32) {
        let backup = if self.backup { BACKUP } else { 0 };
        (self.carries.0 << CARRIES_SHIFT | backup, self.cost.0)
    }

    /// Takes what a peer says; none where it makes no sense.
    pub(crate) fn from_wire(flags: u8, cost: u32) -> Option<Self> {
        let carries = Carries(flags >> CARRIES_SHIFT);
        let makes_sense = carries != Carries::NONE && carries.0 <= Carries::ALL.0;
        let makes_sense = makes_sense && (1..=limits::HIGHEST_COST).contains(&cost);
        let backup = flags & BACKUP != 0;
        makes_sense.then_some(Self { cost: Cost(cost), backup, carries })
    }
}

fn bit(tier: Tier) -> u8 {
    1 << tier as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_out_as_it_went_in() {
        for backup in [false, true] {
            for bits in 1..16 {
                for price in [Cost::LEAST, 0.1, 1.0, 12.5, Cost::MOST] {
                    let cost = Cost::new(price).expect("a price");
                    let usage = PathUse { cost, backup, carries: Carries(bits) };
                    let (flags, cost) = usage.to_wire();
                    assert_eq!(PathUse::from_wire(flags, cost), Some(usage));
                }
            }
        }
    }

    #[test]
    fn nonsense_says_nothing() {
        let (flags, cost) = PathUse::default().to_wire();
        for odd in [0, 1, 0b10_0000, 0b1000_0010, 0xff] {
            assert_eq!(PathUse::from_wire(odd, cost), None, "flags {odd:#b}");
        }
        for odd in [0, limits::HIGHEST_COST + 1, u32::MAX] {
            assert_eq!(PathUse::from_wire(flags, odd), None, "cost {odd}");
        }
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, -0.0, 1e-30, 1e30] {
            assert_eq!(Cost::new(odd), None, "cost {odd}");
        }
        assert_eq!(Carries::new([]), None);
    }

    #[test]
    fn tiers_are_told_apart() {
        let carries = Carries::new([Tier::Control, Tier::Message]).expect("two");
        assert!(carries.tiers().eq([Tier::Control, Tier::Message]));
        assert!(Carries::ALL.tiers().eq(Carries::TIERS));
    }
}
