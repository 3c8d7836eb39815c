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
//! four destinations. The rest of a row that fills no vector is done by a masked vector, or by the last
//! whole vector of the row with the bytes that are done already masked out: no length is slow.
//!
//! The functions of the submodules are unsafe because the processor must have their instructions:
//! a [`Kernel`] exists only after it has looked. Everything else that they rely on it checks for each
//! call: equal destinations, sources that are as long, all coefficients. This folder holds all
//! `unsafe` of the crate.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod ssse3;

pub use kernel::Kernel;

/// What a set of instructions does with one vector.
///
/// All functions are to be inlined into one that enables the instructions.
trait Vector: Copy {
    /// A source made ready for multiplication, in the form that all destinations share.
    type Split: Copy;
    /// A coefficient in the form that multiplies a vector.
    type Factor: Copy;
    /// Bytes of a vector.
    const BYTES: usize;
    /// Whether a part of a vector is loaded as fast as a whole one.
    const MASKED: bool;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Loads `count` < `BYTES` bytes; the rest is zero. No other byte is touched.
    unsafe fn load_part(from: *const u8, count: usize) -> Self;
    /// Stores the first `count` < `BYTES` bytes.
    unsafe fn store_part(self, to: *mut u8, count: usize);
    unsafe fn split(self) -> Self::Split;
    unsafe fn factor(c: u8) -> Self::Factor;
    /// Returns zero in the first `count` < `BYTES` bytes and the vector in the rest.
    unsafe fn after(self, count: usize) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Adds factor · source.
    unsafe fn mul_add(self, source: Self::Split, factor: Self::Factor) -> Self;
}

/// Zeros, then ones: a vector loaded `count` bytes before the middle keeps what follows `count` bytes.
static AFTER: [u8; 64] = {
    let mut mask = [0; 64];
    let mut at = 32;
    while at < 64 {
        mask[at] = 0xff;
        at += 1;
    }
    mask
};

/// The rows of one call: `sources[s]` is multiplied by `coefficients[s * stride + d]` for row d.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) sources: &'a [&'a [u8]],
    pub(crate) coefficients: &'a [u8],
    /// At least the number of destinations.
    pub(crate) stride: usize,
    /// Whether the sums are added to what the destinations hold.
    pub(crate) add: bool,
}

/// Does a whole call with vectors `V`: blocks of `WIDE` vectors for one row, of `BLOCK` vectors for
/// two to four.
///
/// # Safety
///
/// The processor has the instructions of `V`; destinations are equally long, no source is shorter, and
/// there are `sources.len() * stride` coefficients, `stride` being at least the number of
/// destinations.
#[inline(always)]
unsafe fn drive<V: Vector, const WIDE: usize, const BLOCK: usize>(
    dsts: &mut [&mut [u8]],
    rows: Rows<'_>,
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
                [a] => sweep::<V, 1, WIDE>([a.as_mut_ptr()], bytes, rows),
                [a, b] => sweep::<V, 2, BLOCK>([a.as_mut_ptr(), b.as_mut_ptr()], bytes, rows),
                [a, b, c] => {
                    sweep::<V, 3, BLOCK>(
                        [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()],
                        bytes,
                        rows,
                    );
                }
                [a, b, c, d] => {
                    let dsts = [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr(), d.as_mut_ptr()];
                    sweep::<V, 4, BLOCK>(dsts, bytes, rows);
                }
                _ => {}
            }
        }
    }
}

/// Multiplies one row: the short way for rows of coefficients, where a call costs more than its work.
///
/// # Safety
///
/// The processor has the instructions of `V`; `bytes` bytes lie at `to` and `from`, which may be the same.
#[inline(always)]
unsafe fn scale<V: Vector>(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: `at` plus what is touched never passes `bytes`.
    unsafe {
        let factor = V::factor(c);
        let mut at = 0;
        while at + V::BYTES <= bytes {
            let sum = if add { V::load(to.add(at)) } else { V::zero() };
            sum.mul_add(V::load(from.add(at)).split(), factor).store(to.add(at));
            at += V::BYTES;
        }
        if at < bytes {
            let count = bytes - at;
            let sum = if add { V::load_part(to.add(at), count) } else { V::zero() };
            let source = V::load_part(from.add(at), count).split();
            sum.mul_add(source, factor).store_part(to.add(at), count);
        }
    }
}

/// Goes over the columns of up to four destinations.
#[inline(always)]
unsafe fn sweep<V: Vector, const R: usize, const W: usize>(
    dsts: [*mut u8; R],
    bytes: usize,
    rows: Rows<'_>,
) {
    let mut at = 0;
    // SAFETY: `at` plus what each block covers never passes `bytes`, which all rows have.
    unsafe {
        while at + W * V::BYTES <= bytes {
            block::<V, R, W>(dsts, at, rows);
            at += W * V::BYTES;
        }
        if W > 4 && at + 4 * V::BYTES <= bytes {
            block::<V, R, 4>(dsts, at, rows);
            at += 4 * V::BYTES;
        }
        if W > 2 && at + 2 * V::BYTES <= bytes {
            block::<V, R, 2>(dsts, at, rows);
            at += 2 * V::BYTES;
        }
        if at + V::BYTES <= bytes {
            block::<V, R, 1>(dsts, at, rows);
            at += V::BYTES;
        }
        if at < bytes {
            if V::MASKED || bytes < V::BYTES {
                part::<V, R>(dsts, at, bytes - at, rows);
            } else {
                last::<V, R>(dsts, bytes - V::BYTES, at + V::BYTES - bytes, rows);
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
unsafe fn block<V: Vector, const R: usize, const W: usize>(
    dsts: [*mut u8; R],
    at: usize,
    rows: Rows<'_>,
) {
    // SAFETY: W vectors from `at` on lie within all rows, and coefficients within theirs.
    unsafe {
        let mut sums = [[V::zero(); W]; R];
        if rows.add {
            for r in 0..R {
                for w in 0..W {
                    sums[r][w] = V::load(dsts[r].add(at + w * V::BYTES));
                }
            }
        }
        let mut coefficient = rows.coefficients.as_ptr();
        for source in rows.sources {
            let from = source.as_ptr().add(at);
            let mut split = [V::zero().split(); W];
            for w in 0..W {
                split[w] = V::load(from.add(w * V::BYTES)).split();
            }
            for r in 0..R {
                let factor = V::factor(*coefficient.add(r));
                for w in 0..W {
                    sums[r][w] = sums[r][w].mul_add(split[w], factor);
                }
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for r in 0..R {
            for w in 0..W {
                sums[r][w].store(dsts[r].add(at + w * V::BYTES));
            }
        }
    }
}

/// Does the last vector of rows that are longer than one; its first `done` bytes are done already.
#[inline(always)]
unsafe fn last<V: Vector, const R: usize>(
    dsts: [*mut u8; R],
    at: usize,
    done: usize,
    rows: Rows<'_>,
) {
    // SAFETY: a vector from `at` on ends where the rows end, or before.
    unsafe {
        let mut sums = [V::zero(); R];
        let mut coefficient = rows.coefficients.as_ptr();
        for source in rows.sources {
            let split = V::load(source.as_ptr().add(at)).split();
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = sum.mul_add(split, V::factor(*coefficient.add(r)));
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for (sum, dst) in sums.into_iter().zip(dsts) {
            let to = dst.add(at);
            // Where nothing is added, what is done already comes out the same again.
            let sum = if rows.add { V::load(to).xor(sum.after(done)) } else { sum };
            sum.store(to);
        }
    }
}

/// Does the last `count` bytes, fewer than a vector, which start at byte `at`.
#[inline(always)]
unsafe fn part<V: Vector, const R: usize>(
    dsts: [*mut u8; R],
    at: usize,
    count: usize,
    rows: Rows<'_>,
) {
    // SAFETY: `count` bytes from `at` on lie within all rows, and no others are touched.
    unsafe {
        let mut sums = [V::zero(); R];
        if rows.add {
            for (sum, dst) in sums.iter_mut().zip(dsts) {
                *sum = V::load_part(dst.add(at), count);
            }
        }
        let mut coefficient = rows.coefficients.as_ptr();
        for source in rows.sources {
            let split = V::load_part(source.as_ptr().add(at), count).split();
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = sum.mul_add(split, V::factor(*coefficient.add(r)));
            }
            coefficient = coefficient.wrapping_add(rows.stride);
        }
        for (sum, dst) in sums.into_iter().zip(dsts) {
            sum.store_part(dst.add(at), count);
        }
    }
}
