//! What a set of instructions does with one vector, and the two ways to multiply by it.
//!
//! All functions are to be inlined into one that enables the instructions.

use core::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
use super::super::tables::MATRICES;
use super::super::tables::NIBBLES;

/// A register full of bytes.
///
/// # Safety
///
/// Whoever calls a function of this trait or of the others here promises that the processor has the
/// vector's instructions, and that as many bytes as the function names, or a vector has, lie where
/// a pointer points.
pub(super) trait Vector: Copy {
    /// Bytes of a vector: a divisor of a line.
    const BYTES: usize;
    /// Whether a part of a vector is loaded as fast as a whole one.
    const MASKED: bool = false;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;

    /// Returns a bit for each byte, set where it is not zero.
    #[inline(always)]
    unsafe fn nonzero(self) -> u64 {
        let mut bytes = [0_u8; MOST_BYTES];
        // SAFETY: a vector without masks fits.
        unsafe { self.store(bytes.as_mut_ptr()) };
        let mut bits = 0;
        let mut at = 0;
        while at < Self::BYTES {
            bits |= u64::from(bytes[at] != 0) << at;
            at += 1;
        }
        bits
    }

    /// Adds two vectors.
    #[inline(always)]
    unsafe fn xor_both(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { self.xor(a.xor(b)) }
    }

    /// Loads `count` < `BYTES` bytes; the rest is zero. No other byte is touched.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        let mut bytes = [0_u8; MOST_BYTES];
        // SAFETY: a vector without masks fits; the rest is as the caller promises.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count);
            Self::load(bytes.as_ptr())
        }
    }

    /// Stores the first `count` < `BYTES` bytes.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        let mut bytes = [0_u8; MOST_BYTES];
        // SAFETY: a vector without masks fits; the rest is as the caller promises.
        unsafe {
            self.store(bytes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count);
        }
    }

    /// Returns zero in the first `count` < `BYTES` bytes and the vector in the rest.
    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        // SAFETY: `AFTER` has twice the bytes of a vector without masks.
        unsafe { self.and(Self::load(AFTER.as_ptr().add(MOST_BYTES - count))) }
    }
}

/// A vector that can be looked up in tables of sixteen bytes.
pub(super) trait Lookup: Vector {
    /// Repeats the sixteen bytes at an address that is a multiple of 16.
    unsafe fn repeat(table: *const u8) -> Self;
    /// Returns the low and the high nibble of each byte.
    unsafe fn nibbles(self) -> [Self; 2];
    /// Returns, for each byte of `index`, that entry of a repeated table.
    unsafe fn lookup(self, index: Self) -> Self;
}

/// A vector that GFNI multiplies by matrices of 8 × 8 bits.
#[cfg(target_arch = "x86_64")]
pub(super) trait Affine: Vector {
    /// Repeats a matrix.
    unsafe fn matrix(matrix: u64) -> Self;
    /// Multiplies each byte by a repeated matrix.
    unsafe fn affine(self, matrix: Self) -> Self;
}

/// Multiplication of vectors by coefficients.
pub(super) trait Product {
    /// The register.
    type Vector: Vector;
    /// A source made ready for multiplication, in the form that all destinations share.
    type Split: Copy;
    /// A coefficient in the form that multiplies a vector.
    type Factor: Copy;

    unsafe fn split(source: Self::Vector) -> Self::Split;
    unsafe fn factor(c: u8) -> Self::Factor;
    /// Adds factor · source.
    unsafe fn mul_add(sum: Self::Vector, source: Self::Split, factor: Self::Factor)
    -> Self::Vector;
}

/// Two look-ups by nibble.
pub(super) struct ByNibbles<V>(PhantomData<V>);

impl<V: Lookup> Product for ByNibbles<V> {
    type Vector = V;
    type Split = [V; 2];
    type Factor = [V; 2];

    #[inline(always)]
    unsafe fn split(source: V) -> [V; 2] {
        // SAFETY: as the caller promises.
        unsafe { source.nibbles() }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> [V; 2] {
        let table = NIBBLES.0[usize::from(c)].as_ptr();
        // SAFETY: each table has 32 bytes at a multiple of 16.
        unsafe { [V::repeat(table), V::repeat(table.add(16))] }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: V, [low, high]: [V; 2], factor: [V; 2]) -> V {
        // SAFETY: as the caller promises.
        unsafe { sum.xor_both(factor[0].lookup(low), factor[1].lookup(high)) }
    }
}

/// One multiplication by a matrix.
#[cfg(target_arch = "x86_64")]
pub(super) struct ByMatrix<V>(PhantomData<V>);

#[cfg(target_arch = "x86_64")]
impl<V: Affine> Product for ByMatrix<V> {
    type Vector = V;
    type Split = V;
    type Factor = V;

    #[inline(always)]
    unsafe fn split(source: V) -> V {
        source
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> V {
        // SAFETY: as the caller promises.
        unsafe { V::matrix(MATRICES[usize::from(c)]) }
    }

    #[inline(always)]
    unsafe fn mul_add(sum: V, source: V, factor: V) -> V {
        // SAFETY: as the caller promises.
        unsafe { sum.xor(source.affine(factor)) }
    }
}

/// Bytes of the widest vector that has no masks.
const MOST_BYTES: usize = 32;

/// Zeros, then ones: a vector loaded `count` bytes before the middle keeps what follows `count`
/// bytes.
static AFTER: [u8; 2 * MOST_BYTES] = {
    let mut mask = [0; 2 * MOST_BYTES];
    let mut at = MOST_BYTES;
    while at < mask.len() {
        mask[at] = 0xff;
        at += 1;
    }
    mask
};
