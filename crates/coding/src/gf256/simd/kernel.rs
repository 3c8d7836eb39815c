//! Which instructions do the work: detected at run time, or chosen by name.

use core::fmt;

use super::super::scalar;
use super::{Lines, Rows, Sources, Strided, Within};
use crate::gf256::LINE;

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
#[derive(Clone, Copy)]
pub struct Kernel(&'static Instructions);

/// Rows that are written to.
type Destinations<'a, 'b> = &'a mut [&'b mut [u8]];

/// The loops, compiled for one set of instructions. Calling them is unsafe where the processor
/// lacks these.
pub(super) struct Instructions {
    pub(super) name: &'static str,
    pub(super) is_here: fn() -> bool,
    pub(super) combine: unsafe fn(Destinations<'_, '_>, Rows<'_, &[&[u8]]>),
    pub(super) combine_strided: unsafe fn(Destinations<'_, '_>, Rows<'_, Strided<'_>>),
    pub(super) combine_within: unsafe fn(&mut [u8], Within<'_>),
    pub(super) scale: unsafe fn(*mut u8, *const u8, usize, u8, bool),
    pub(super) common: unsafe fn(*const u8, *const u8) -> u64,
    pub(super) gather: unsafe fn(&mut [u8], &[u8], usize, &[u8], Lines),
    pub(super) scatter: unsafe fn(&mut [u8], usize, usize, &[u8], Lines),
}

/// Makes [`Instructions`] of the loops. Arguments: the names of the static and of the kernel, the
/// features of the target, the product, how many vectors make a block for one row and for several,
/// and the test that the processor has them.
macro_rules! instructions {
    ($it:ident, $name:literal, $features:literal, $product:ty, ($wide:literal, $block:literal), $here:expr) => {
        pub(super) static $it: super::kernel::Instructions = {
            use super::{Lines, Rows, Strided, Within, drive, drive_within, matrix, scale};

            #[target_feature(enable = $features)]
            unsafe fn combine(dsts: &mut [&mut [u8]], rows: Rows<'_, &[&[u8]]>) {
                // SAFETY: as the caller promises.
                unsafe { drive::<$product, _, $wide, $block>(dsts, rows) }
            }

            #[target_feature(enable = $features)]
            unsafe fn combine_strided(dsts: &mut [&mut [u8]], rows: Rows<'_, Strided<'_>>) {
                // SAFETY: as the caller promises.
                unsafe { drive::<$product, _, $wide, $block>(dsts, rows) }
            }

            #[target_feature(enable = $features)]
            unsafe fn combine_within(slab: &mut [u8], within: Within<'_>) {
                // SAFETY: as the caller promises.
                unsafe { drive_within::<$product, $wide, $block>(slab, within) }
            }

            #[target_feature(enable = $features)]
            unsafe fn one(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
                // SAFETY: as the caller promises.
                unsafe { scale::<$product>(to, from, bytes, c, add) }
            }

            #[target_feature(enable = $features)]
            unsafe fn common(a: *const u8, b: *const u8) -> u64 {
                // SAFETY: as the caller promises.
                unsafe { matrix::common::<$product>(a, b) }
            }

            #[target_feature(enable = $features)]
            unsafe fn gather(
                to: &mut [u8],
                from: &[u8],
                stride: usize,
                factors: &[u8],
                lines: Lines,
            ) {
                // SAFETY: as the caller promises.
                unsafe { matrix::gather::<$product>(to, from, stride, factors, lines) }
            }

            #[target_feature(enable = $features)]
            unsafe fn scatter(
                matrix: &mut [u8],
                stride: usize,
                row: usize,
                factors: &[u8],
                lines: Lines,
            ) {
                // SAFETY: as the caller promises.
                unsafe { matrix::scatter::<$product>(matrix, stride, row, factors, lines) }
            }

            super::kernel::Instructions {
                name: $name,
                is_here: || $here,
                combine,
                combine_strided,
                combine_within,
                scale: one,
                common,
                gather,
                scatter,
            }
        };
    };
}
pub(super) use instructions;

static SCALAR: Instructions = {
    unsafe fn one(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
        for at in 0..bytes {
            // SAFETY: as many bytes lie there.
            unsafe {
                let product = super::super::mul(c, *from.add(at));
                *to.add(at) = if add { *to.add(at) ^ product } else { product };
            }
        }
    }

    unsafe fn common(a: *const u8, b: *const u8) -> u64 {
        (0..LINE).fold(0, |bits, at| {
            // SAFETY: a line lies at both.
            let both = unsafe { *a.add(at) & *b.add(at) };
            bits | u64::from(both != 0) << at
        })
    }

    Instructions {
        name: "scalar",
        is_here: || true,
        combine: |dsts, rows| scalar::rows(dsts, rows),
        combine_strided: |dsts, rows| scalar::rows(dsts, rows),
        combine_within: |slab, within| scalar::within(slab, within),
        scale: one,
        common,
        gather: scalar::gather,
        scatter: scalar::scatter,
    }
};

/// The sets of instructions of this architecture, the fastest first.
static ALL: &[&Instructions] = &[
    #[cfg(target_arch = "x86_64")]
    &super::avx512::AFFINE,
    #[cfg(target_arch = "x86_64")]
    &super::avx2::AFFINE,
    #[cfg(target_arch = "x86_64")]
    &super::avx512::NIBBLES,
    #[cfg(target_arch = "x86_64")]
    &super::avx2::NIBBLES,
    #[cfg(target_arch = "x86_64")]
    &super::ssse3::NIBBLES,
    #[cfg(target_arch = "aarch64")]
    &super::neon::NIBBLES,
    &SCALAR,
];

/// The names of all kernels, on any architecture.
const NAMES: [&str; 7] = ["avx512-gfni", "avx2-gfni", "avx512", "avx2", "ssse3", "neon", "scalar"];

impl Kernel {
    /// Returns the fastest kernel of this processor.
    pub fn detect() -> Self {
        Self::available().next().unwrap_or(Self(&SCALAR))
    }

    /// Returns all kernels of this processor, the fastest first; the last is `scalar`.
    pub fn available() -> impl Iterator<Item = Self> {
        ALL.iter().filter(|it| (it.is_here)()).map(|it| Self(it))
    }

    /// Finds a kernel by its name; none where this processor does not have it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|kernel| kernel.name() == name)
    }

    /// Returns the name of every kernel, also of those that this processor does not have.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Adds `c` times `src` to `dst`.
    ///
    /// # Panics
    ///
    /// If `src` is shorter than `dst`.
    pub fn mul_add(self, dst: &mut [u8], src: &[u8], c: u8) {
        assert!(src.len() >= dst.len(), "the source row is too short");
        // SAFETY: a Kernel is made of instructions that are here; both have the bytes of `dst`.
        unsafe { (self.0.scale)(dst.as_mut_ptr(), src.as_ptr(), dst.len(), c, true) }
    }

    /// Adds to each row of `dsts` a combination of the rows `srcs`.
    ///
    /// `coefficients[s * dsts.len() + d]` is the coefficient of source row `s` in destination row
    /// `d`.
    ///
    /// # Panics
    ///
    /// If the rows of `dsts` differ in length, a source row is shorter than they are, or there is
    /// not one coefficient for each pair of rows: a mistake of the caller, which knows its own
    /// rows.
    pub fn mul_add_rows(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        let stride = dsts.len();
        self.run(dsts, Rows { sources: srcs, coefficients, stride, across: 1, add: true });
    }

    /// Sets each row of `dsts` to a combination of the rows `srcs`; otherwise as
    /// [`Kernel::mul_add_rows`].
    pub fn combine_rows(self, dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
        let stride = dsts.len();
        self.run(dsts, Rows { sources: srcs, coefficients, stride, across: 1, add: false });
    }

    /// Multiplies every byte of `row` by `c`.
    pub fn scale(self, row: &mut [u8], c: u8) {
        let row_at = row.as_mut_ptr();
        // SAFETY: the instructions are here; source and destination are the same row.
        unsafe { (self.0.scale)(row_at, row_at, row.len(), c, false) }
    }

    /// Sets or adds combinations.
    pub(crate) fn run(self, dsts: &mut [&mut [u8]], rows: Rows<'_, &[&[u8]]>) {
        check(dsts, rows);
        // SAFETY: the instructions are here, and check has seen to the lengths.
        unsafe { (self.0.combine)(dsts, rows) }
    }

    /// Sets or adds combinations of the first rows of a slab.
    pub(crate) fn run_strided(self, dsts: &mut [&mut [u8]], rows: Rows<'_, Strided<'_>>) {
        check(dsts, rows);
        // SAFETY: the instructions are here, and check has seen to the lengths.
        unsafe { (self.0.combine_strided)(dsts, rows) }
    }

    /// Sets rows of a slab to combinations of other rows of it.
    pub(crate) fn run_within(self, slab: &mut [u8], within: Within<'_>) {
        // SAFETY: the instructions are here.
        unsafe { (self.0.combine_within)(slab, within) }
    }

    /// Compares the cache lines that begin at byte `line` of two rows; returns a bit for each byte,
    /// set where neither row is zero.
    #[inline]
    pub(crate) fn common(self, a: &[u8], b: &[u8], line: usize) -> u64 {
        let (a, b) = (&a[line..line + LINE], &b[line..line + LINE]);
        // SAFETY: the instructions are here, and a line of both.
        unsafe { (self.0.common)(a.as_ptr(), b.as_ptr()) }
    }

    /// Adds to `to` the rows of a matrix, each times its factor, in the lines given. Rows begin
    /// every `stride` bytes of `from`.
    pub(crate) fn gather(
        self,
        to: &mut [u8],
        from: &[u8],
        stride: usize,
        factors: &[u8],
        lines: Lines,
    ) {
        check_matrix(to, from, stride, factors, lines);
        // SAFETY: the instructions are here, and check_matrix has seen to the lengths.
        unsafe { (self.0.gather)(to, from, stride, factors, lines) }
    }

    /// Adds row `row` of a matrix to its rows, times the factor of each, in the lines given. Rows
    /// begin every `stride` bytes of `matrix`.
    pub(crate) fn scatter(
        self,
        matrix: &mut [u8],
        stride: usize,
        row: usize,
        factors: &[u8],
        lines: Lines,
    ) {
        check_matrix(&matrix[row * stride..], matrix, stride, factors, lines);
        // SAFETY: the instructions are here, and check_matrix has seen to the lengths.
        unsafe { (self.0.scatter)(matrix, stride, row, factors, lines) }
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Kernel {}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Holds the caller to what the kernels rely on.
fn check(dsts: &[&mut [u8]], rows: Rows<'_, impl Sources>) {
    let bytes = dsts.first().map_or(0, |dst| dst.len());
    assert!(dsts.iter().all(|dst| dst.len() == bytes), "destination rows differ in length");
    assert!(rows.sources.have(bytes), "a source row is too short");
    let needed = rows.sources.count() * rows.stride;
    let enough = rows.coefficients.len() == needed && rows.across == 1 && rows.stride >= dsts.len();
    assert!(enough, "not one coefficient for each pair of rows");
}

/// The same for matrices.
fn check_matrix(row: &[u8], matrix: &[u8], stride: usize, factors: &[u8], lines: Lines) {
    let end = lines.end();
    assert!(row.len() >= end && stride >= end, "a row has not got all lines");
    assert!(factors.len() * stride <= matrix.len(), "not one row for each factor");
}
