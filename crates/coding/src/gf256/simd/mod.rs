//! Vector kernels: one loop for all of them, and for each set of instructions the few operations
//! that differ.
//!
//! ```text
//! for up to four destination rows at a time              (products share the split of the source)
//!   for each block of W vectors                          (the sums stay in registers)
//!     for each source row: load, split, and for each destination multiply and add
//! ```
//!
//! So a destination is written once however many sources there are, and a source is read once for
//! four destinations. The remainder of a row that fills no vector is done by a masked vector, or by
//! the last whole vector of the row with the finished bytes masked out: no length is slow.
//!
//! Coefficients stand in matrices whose rows are whole lines, many of them empty: [`matrix`] has
//! two loops of its own for those.
//!
//! One file for each width of register says how to load, store and combine vectors; [`Product`]
//! builds the multiplication from that in one of two ways; [`instructions`] compiles all loops for
//! a set of instructions.
//!
//! All functions are unsafe because the processor must have their instructions: a [`Kernel`] can
//! only be made after a test for them. It checks everything else that they rely on at each call:
//! destinations of equal length, sources at least as long, all coefficients. This folder holds all
//! `unsafe` of the crate.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
mod matrix;
#[cfg(target_arch = "aarch64")]
mod neon;
mod product;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub use kernel::Kernel;
use kernel::instructions;
pub(crate) use matrix::Lines;
use product::{Product, Vector};

/// The rows of one call: source s is multiplied by `coefficients[s * stride + d * across]` for row
/// d.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, S> {
    pub(crate) sources: S,
    pub(crate) coefficients: &'a [u8],
    pub(crate) stride: usize,
    pub(crate) across: usize,
    /// Whether the sums are added to what the destinations hold.
    pub(crate) add: bool,
}

/// The combinations of one call within a slab: the row that begins at byte `rows[s]` is multiplied
/// by `coefficients[d * across + s]` for the one that begins at byte `dsts[d]`.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    /// One to four destinations, none of them among the sources.
    pub(crate) dsts: &'a [usize],
    pub(crate) rows: &'a [usize],
    pub(crate) coefficients: &'a [u8],
    /// At least the number of sources.
    pub(crate) across: usize,
    /// How long each row is.
    pub(crate) bytes: usize,
}

impl Within<'_> {
    /// Holds the caller to what the kernels rely on. Inlined into them, because it is cheaper with
    /// vectors.
    #[inline(always)]
    pub(super) fn check(&self, slab_bytes: usize) {
        let (count, dsts) = (self.rows.len(), self.dsts.len());
        let mut last = 0;
        self.rows.iter().for_each(|&row| last = row.max(last));
        self.dsts.iter().for_each(|&row| last = row.max(last));
        assert!((1..=4).contains(&dsts), "not one to four destinations");
        let there = self.bytes <= slab_bytes && last <= slab_bytes - self.bytes;
        assert!(there, "a row is too short");
        let enough = count <= self.across && dsts * self.across <= self.coefficients.len();
        assert!(enough, "not one coefficient for each pair of rows");
        let beside = || !self.rows.iter().any(|row| self.dsts.contains(row));
        debug_assert!(beside(), "a destination is a source");
    }
}

/// Where source rows begin.
pub(crate) trait Starts: Copy {
    /// How many there are.
    fn count(self) -> usize;
    /// Returns where one of them begins; `at` is less than their number.
    unsafe fn start(self, at: usize) -> *const u8;
}

/// Source rows that nobody writes meanwhile.
pub(crate) trait Sources: Starts {
    /// Lends the first `bytes` bytes of one; panics if it is shorter.
    fn row(&self, at: usize, bytes: usize) -> &[u8];
    /// Says whether each of them has this many bytes.
    fn have(self, bytes: usize) -> bool;
}

/// Rows anywhere.
impl Starts for &[&[u8]] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn start(self, at: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.get_unchecked(at).as_ptr() }
    }
}

impl Sources for &[&[u8]] {
    fn row(&self, at: usize, bytes: usize) -> &[u8] {
        &self[at][..bytes]
    }

    fn have(self, bytes: usize) -> bool {
        self.iter().all(|row| row.len() >= bytes)
    }
}

/// The first rows of a slab.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    pub(crate) slab: &'a [u8],
    /// Bytes from the beginning of one row to that of the next.
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl Starts for Strided<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.count
    }

    #[inline(always)]
    unsafe fn start(self, at: usize) -> *const u8 {
        self.slab.as_ptr().wrapping_add(at * self.stride)
    }
}

impl Sources for Strided<'_> {
    fn row(&self, at: usize, bytes: usize) -> &[u8] {
        &self.slab[at * self.stride..][..bytes]
    }

    fn have(self, bytes: usize) -> bool {
        let last = self.count.saturating_sub(1);
        self.count == 0 || last.saturating_mul(self.stride) + bytes <= self.slab.len()
    }
}

/// Rows of a slab whose other rows are written to: held by address, not by reference.
#[derive(Clone, Copy)]
struct Beside<'a> {
    slab: *const u8,
    rows: &'a [usize],
}

impl Starts for Beside<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    unsafe fn start(self, at: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        self.slab.wrapping_add(unsafe { *self.rows.get_unchecked(at) })
    }
}

/// Sets rows of a slab to combinations of other rows of it, in blocks of `WIDE` vectors for one
/// row, of `BLOCK` vectors for two to four.
///
/// # Safety
///
/// The processor has the instructions of `P`.
#[inline(always)]
unsafe fn drive_within<P: Product, const WIDE: usize, const BLOCK: usize>(
    slab: &mut [u8],
    within: Within<'_>,
) {
    within.check(slab.len());
    let slab = slab.as_mut_ptr();
    let sources = Beside { slab, rows: within.rows };
    let Within { coefficients, across, .. } = within;
    let rows = Rows { sources, coefficients, stride: 1, across, add: false };
    let at = |dst: usize| slab.wrapping_add(dst);
    // SAFETY: check has seen to the lengths; all pointers come from the one borrow of the slab.
    unsafe {
        match *within.dsts {
            [a] => sweep::<P, _, 1, WIDE>([at(a)], within.bytes, rows),
            [a, b] => sweep::<P, _, 2, BLOCK>([at(a), at(b)], within.bytes, rows),
            [a, b, c] => sweep::<P, _, 3, BLOCK>([at(a), at(b), at(c)], within.bytes, rows),
            [a, b, c, d] => {
                sweep::<P, _, 4, BLOCK>([at(a), at(b), at(c), at(d)], within.bytes, rows);
            }
            _ => {}
        }
    }
}

/// Does a whole call with products `P`: blocks of `WIDE` vectors for one row, of `BLOCK` vectors
/// for two to four.
///
/// # Safety
///
/// The processor has the instructions of `P`; destinations are equally long, no source is shorter,
/// and there is a coefficient for each source and destination.
#[inline(always)]
unsafe fn drive<P: Product, S: Sources, const WIDE: usize, const BLOCK: usize>(
    dsts: &mut [&mut [u8]],
    rows: Rows<'_, S>,
) {
    let bytes = dsts.first().map_or(0, |dst| dst.len());
    let mut first = 0;
    for group in dsts.chunks_mut(4) {
        let rows =
            Rows { coefficients: &rows.coefficients[first.min(rows.coefficients.len())..], ..rows };
        first += group.len();
        // SAFETY: the caller's promises hold for any part of the destinations.
        unsafe {
            match group {
                [a] => sweep::<P, S, 1, WIDE>([a.as_mut_ptr()], bytes, rows),
                [a, b] => sweep::<P, S, 2, BLOCK>([a.as_mut_ptr(), b.as_mut_ptr()], bytes, rows),
                [a, b, c] => {
                    sweep::<P, S, 3, BLOCK>(
                        [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()],
                        bytes,
                        rows,
                    );
                }
                [a, b, c, d] => {
                    let dsts = [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr(), d.as_mut_ptr()];
                    sweep::<P, S, 4, BLOCK>(dsts, bytes, rows);
                }
                _ => {}
            }
        }
    }
}

/// Multiplies one row: the short way for rows of coefficients, where a call costs more than its
/// work.
///
/// # Safety
///
/// The processor has the instructions of `P`; `bytes` bytes lie at `to` and `from`, which may be
/// the same.
#[inline(always)]
unsafe fn scale<P: Product>(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: `at` plus what is touched never passes `bytes`.
    unsafe {
        let factor = P::factor(c);
        let mut at = 0;
        while at + P::Vector::BYTES <= bytes {
            let sum = if add { P::Vector::load(to.add(at)) } else { P::Vector::zero() };
            let source = P::split(P::Vector::load(from.add(at)));
            P::mul_add(sum, source, factor).store(to.add(at));
            at += P::Vector::BYTES;
        }
        if at < bytes {
            let count = bytes - at;
            let sum = if add { P::Vector::load_part(to.add(at), count) } else { P::Vector::zero() };
            let source = P::split(P::Vector::load_part(from.add(at), count));
            P::mul_add(sum, source, factor).store_part(to.add(at), count);
        }
    }
}

/// Goes over the columns of up to four destinations.
#[inline(always)]
unsafe fn sweep<P: Product, S: Starts, const R: usize, const W: usize>(
    dsts: [*mut u8; R],
    bytes: usize,
    rows: Rows<'_, S>,
) {
    let mut at = 0;
    // SAFETY: `at` plus what each block covers never passes `bytes`, which all rows have.
    unsafe {
        while at + W * P::Vector::BYTES <= bytes {
            block::<P, S, R, W>(dsts, at, rows);
            at += W * P::Vector::BYTES;
        }
        if W > 4 && at + 4 * P::Vector::BYTES <= bytes {
            block::<P, S, R, 4>(dsts, at, rows);
            at += 4 * P::Vector::BYTES;
        }
        if W > 2 && at + 2 * P::Vector::BYTES <= bytes {
            block::<P, S, R, 2>(dsts, at, rows);
            at += 2 * P::Vector::BYTES;
        }
        if at + P::Vector::BYTES <= bytes {
            block::<P, S, R, 1>(dsts, at, rows);
            at += P::Vector::BYTES;
        }
        if at < bytes {
            if P::Vector::MASKED || bytes < P::Vector::BYTES {
                part::<P, S, R>(dsts, at, bytes - at, rows);
            } else {
                last::<P, S, R>(
                    dsts,
                    bytes - P::Vector::BYTES,
                    at + P::Vector::BYTES - bytes,
                    rows,
                );
            }
        }
    }
}

/// Does `W` vectors of each destination, which start at byte `at`.
///
/// No closure and no iterator over vectors: they would be functions of their own without the
/// instructions, and where they are not inlined every vector would go through memory.
#[allow(clippy::needless_range_loop, reason = "indices keep the vectors in registers, see above")]
#[inline(always)]
unsafe fn block<P: Product, S: Starts, const R: usize, const W: usize>(
    dsts: [*mut u8; R],
    at: usize,
    rows: Rows<'_, S>,
) {
    // SAFETY: W vectors from `at` on lie within all rows, and coefficients within theirs.
    unsafe {
        let mut sums = [[P::Vector::zero(); W]; R];
        if rows.add {
            for r in 0..R {
                for w in 0..W {
                    sums[r][w] = P::Vector::load(dsts[r].add(at + w * P::Vector::BYTES));
                }
            }
        }
        let mut coefficient = rows.coefficients.as_ptr();
        let across = rows.across;
        let mut s = 0;
        while s < rows.sources.count() {
            let from = rows.sources.start(s).add(at);
            s += 1;
            let mut split = [P::split(P::Vector::zero()); W];
            for w in 0..W {
                split[w] = P::split(P::Vector::load(from.add(w * P::Vector::BYTES)));
            }
            for r in 0..R {
                let factor = P::factor(*coefficient.add(r * across));
                for w in 0..W {
                    sums[r][w] = P::mul_add(sums[r][w], split[w], factor);
                }
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for r in 0..R {
            for w in 0..W {
                sums[r][w].store(dsts[r].add(at + w * P::Vector::BYTES));
            }
        }
    }
}

/// Does the last vector of rows that are longer than one; its first `done` bytes are done already.
#[inline(always)]
unsafe fn last<P: Product, S: Starts, const R: usize>(
    dsts: [*mut u8; R],
    at: usize,
    done: usize,
    rows: Rows<'_, S>,
) {
    // SAFETY: a vector from `at` on ends where the rows end, or before.
    unsafe {
        let mut sums = [P::Vector::zero(); R];
        let mut coefficient = rows.coefficients.as_ptr();
        let across = rows.across;
        let mut s = 0;
        while s < rows.sources.count() {
            let split = P::split(P::Vector::load(rows.sources.start(s).add(at)));
            s += 1;
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = P::mul_add(*sum, split, P::factor(*coefficient.add(r * across)));
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for (sum, dst) in sums.into_iter().zip(dsts) {
            let to = dst.add(at);
            // Where nothing is added, the finished bytes come out the same again.
            let sum = if rows.add { P::Vector::load(to).xor(sum.after(done)) } else { sum };
            sum.store(to);
        }
    }
}

/// Does the last `count` bytes, fewer than a vector, which start at byte `at`.
#[inline(always)]
unsafe fn part<P: Product, S: Starts, const R: usize>(
    dsts: [*mut u8; R],
    at: usize,
    count: usize,
    rows: Rows<'_, S>,
) {
    // SAFETY: `count` bytes from `at` on lie within all rows, and no others are touched.
    unsafe {
        let mut sums = [P::Vector::zero(); R];
        if rows.add {
            for (sum, dst) in sums.iter_mut().zip(dsts) {
                *sum = P::Vector::load_part(dst.add(at), count);
            }
        }
        let mut coefficient = rows.coefficients.as_ptr();
        let across = rows.across;
        let mut s = 0;
        while s < rows.sources.count() {
            let split = P::split(P::Vector::load_part(rows.sources.start(s).add(at), count));
            s += 1;
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = P::mul_add(*sum, split, P::factor(*coefficient.add(r * across)));
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for (sum, dst) in sums.into_iter().zip(dsts) {
            sum.store_part(dst.add(at), count);
        }
    }
}
