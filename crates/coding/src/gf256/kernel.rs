//! Which instructions do the work: found out at run time, or chosen by name.

use core::fmt;

use super::scalar;

/// Names a set of instructions that this processor has, and does the field's arithmetic with it.
///
/// ```
/// use fulmar_coding::gf256::Kernel;
///
/// let (a, b) = ([1, 2, 3], [4, 5, 6]);
/// let mut sum = [0; 3];
/// for kernel in Kernel::available() {
///     kernel.combine_rows(&mut [&mut sum], &[&a, &b], &[1, 2]);
///     assert_eq!(sum, [1 ^ 8, 2 ^ 10, 3 ^ 12], "{kernel}");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Tier);

/// Sets of instructions, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Scalar,
}

const TIERS: [Tier; 1] = [Tier::Scalar];

impl Kernel {
    /// Returns the fastest kernel of this processor.
    pub fn detect() -> Self {
        TIERS.into_iter().find(|tier| tier.is_here()).map_or(Self(Tier::Scalar), Self)
    }

    /// Returns all kernels of this processor, the fastest first; the last is `scalar`.
    pub fn available() -> impl Iterator<Item = Self> {
        TIERS.into_iter().filter(|tier| tier.is_here()).map(Self)
    }

    /// Finds a kernel by its name; none where this processor does not have it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|kernel| kernel.name() == name)
    }

    /// Returns the name of every kernel, also of those that this processor does not have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TIERS.into_iter().map(Tier::name)
    }

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Adds `c` times `src` to `dst`.
    ///
    /// # Panics
    ///
    /// If `src` is shorter than `dst`.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
        self.mul_add_rows(&mut [dst], &[src], &[c]);
    }

    /// Adds to each row of `dsts` a combination of the rows `srcs`.
    ///
    /// `coefficients[s * dsts.len() + d]` is the coefficient of source row `s` in destination row `d`.
    ///
    /// # Panics
    ///
    /// If the rows of `dsts` differ in length, a source row is shorter than they are, or there is not
    /// one coefficient for each pair of rows: a mistake of the caller, which knows its own rows.
    pub fn mul_add_rows(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        check(dsts, srcs, coefficients);
        match self.0 {
            Tier::Scalar => scalar::mul_add_rows(dsts, srcs, coefficients),
        }
    }

    /// Sets each row of `dsts` to a combination of the rows `srcs`; otherwise as
    /// [`Kernel::mul_add_rows`].
    pub fn combine_rows(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        dsts.iter_mut().for_each(|dst| dst.fill(0));
        self.mul_add_rows(dsts, srcs, coefficients);
    }

    /// Multiplies every byte of `row` by `c`.
    pub fn scale(self, row: &mut [u8], c: u8) {
        scalar::scale(row, c);
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
        }
    }

    fn is_here(self) -> bool {
        match self {
            Self::Scalar => true,
        }
    }
}

/// Holds the caller to what the kernels rely on.
fn check(dsts: &[&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
    let bytes = dsts.first().map_or(0, |dst| dst.len());
    assert!(dsts.iter().all(|dst| dst.len() == bytes), "destination rows differ in length");
    assert!(srcs.iter().all(|src| src.len() >= bytes), "a source row is too short");
    assert!(coefficients.len() == dsts.len() * srcs.len(), "not one coefficient for each pair");
}
