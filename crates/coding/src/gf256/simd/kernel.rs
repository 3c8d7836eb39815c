//! Which instructions do the work: found out at run time, or chosen by name.

use core::fmt;

use super::super::scalar;
use super::Rows;

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
    Avx512Gfni,
    Avx2Gfni,
    Avx512,
    Avx2,
    Ssse3,
    Neon,
    Scalar,
}

const TIERS: [Tier; 7] = [
    Tier::Avx512Gfni,
    Tier::Avx2Gfni,
    Tier::Avx512,
    Tier::Avx2,
    Tier::Ssse3,
    Tier::Neon,
    Tier::Scalar,
];

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
        assert!(src.len() >= dst.len(), "the source row is too short");
        // SAFETY: both have the bytes of `dst`.
        unsafe { self.one(dst.as_mut_ptr(), src.as_ptr(), dst.len(), c, true) }
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
        let stride = dsts.len();
        self.run(dsts, Rows { sources: srcs, coefficients, stride, add: true });
    }

    /// Sets each row of `dsts` to a combination of the rows `srcs`; otherwise as
    /// [`Kernel::mul_add_rows`].
    pub fn combine_rows(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        let stride = dsts.len();
        self.run(dsts, Rows { sources: srcs, coefficients, stride, add: false });
    }

    /// Multiplies every byte of `row` by `c`.
    pub fn scale(self, row: &mut [u8], c: u8) {
        let row_at = row.as_mut_ptr();
        // SAFETY: source and destination are the same row.
        unsafe { self.one(row_at, row_at, row.len(), c, false) }
    }

    /// Sets or adds `bytes` bytes at `from`, times `c`, to those at `to`.
    unsafe fn one(self, to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
        // SAFETY: a tier in a Kernel has passed is_here; the rest is the caller's promise.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Tier::Avx512Gfni => super::avx512::affine_scale(to, from, bytes, c, add),
                #[cfg(target_arch = "x86_64")]
                Tier::Avx2Gfni => super::avx2::affine_scale(to, from, bytes, c, add),
                #[cfg(target_arch = "x86_64")]
                Tier::Avx512 => super::avx512::nibbles_scale(to, from, bytes, c, add),
                #[cfg(target_arch = "x86_64")]
                Tier::Avx2 => super::avx2::nibbles_scale(to, from, bytes, c, add),
                #[cfg(target_arch = "x86_64")]
                Tier::Ssse3 => super::ssse3::nibbles_scale(to, from, bytes, c, add),
                #[cfg(target_arch = "aarch64")]
                Tier::Neon => super::neon::nibbles_scale(to, from, bytes, c, add),
                _ => {
                    for at in 0..bytes {
                        let product = super::super::mul(c, *from.add(at));
                        *to.add(at) = if add { *to.add(at) ^ product } else { product };
                    }
                }
            }
        }
    }

    /// Sets or adds combinations.
    pub(crate) fn run(self, dsts: &mut [&mut [u8]], rows: Rows<'_>) {
        check(dsts, rows);
        // SAFETY: a tier in a Kernel has passed is_here, and check has seen to the lengths.
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512Gfni => unsafe { super::avx512::affine(dsts, rows) },
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2Gfni => unsafe { super::avx2::affine(dsts, rows) },
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => unsafe { super::avx512::nibbles(dsts, rows) },
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => unsafe { super::avx2::nibbles(dsts, rows) },
            #[cfg(target_arch = "x86_64")]
            Tier::Ssse3 => unsafe { super::ssse3::nibbles(dsts, rows) },
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => unsafe { super::neon::nibbles(dsts, rows) },
            _ => scalar::rows(dsts, rows),
        }
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
            Self::Avx512Gfni => "avx512-gfni",
            Self::Avx2Gfni => "avx2-gfni",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Ssse3 => "ssse3",
            Self::Neon => "neon",
            Self::Scalar => "scalar",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Self::Avx512Gfni => has!("avx512f") && has!("avx512bw") && has!("gfni"),
            Self::Avx2Gfni => has!("avx2") && has!("gfni"),
            Self::Avx512 => has!("avx512f") && has!("avx512bw"),
            Self::Avx2 => has!("avx2"),
            Self::Ssse3 => has!("ssse3"),
            Self::Neon => false,
            Self::Scalar => true,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn is_here(self) -> bool {
        match self {
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Scalar => true,
            _ => false,
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn is_here(self) -> bool {
        matches!(self, Self::Scalar)
    }
}

/// Holds the caller to what the kernels rely on.
fn check(dsts: &[&mut [u8]], rows: Rows<'_>) {
    let bytes = dsts.first().map_or(0, |dst| dst.len());
    assert!(dsts.iter().all(|dst| dst.len() == bytes), "destination rows differ in length");
    assert!(rows.sources.iter().all(|src| src.len() >= bytes), "a source row is too short");
    let needed = rows.sources.len() * rows.stride;
    let enough = rows.coefficients.len() == needed && rows.stride >= dsts.len();
    assert!(enough, "not one coefficient for each pair of rows");
}
