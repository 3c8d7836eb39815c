//! AVX2 in two forms: with GFNI (and AVX-512VL, which names it for 32 bytes on every processor that
//! has both), and with two table look-ups by nibble.

use core::arch::x86_64::*;

use super::super::tables::{MATRICES, NIBBLES};
use super::{AFTER, Rows, Vector, drive, scale};

/// AVX2 with GFNI.
///
/// # Safety
///
/// As [`drive`], for `avx2` and `gfni`.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn affine(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Affine, 4, 2>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn affine_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Affine>(to, from, bytes, c, add) }
}

/// AVX2 without GFNI.
///
/// # Safety
///
/// As [`drive`], for `avx2`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn nibbles(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Nibbles, 4, 2>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn nibbles_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Nibbles>(to, from, bytes, c, add) }
}

/// Loads what there is; the rest is zero.
#[inline(always)]
unsafe fn load_part(from: *const u8, count: usize) -> __m256i {
    let mut bytes = [0_u8; 32];
    unsafe {
        core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count);
        _mm256_loadu_si256(bytes.as_ptr().cast())
    }
}

#[inline(always)]
unsafe fn store_part(vector: __m256i, to: *mut u8, count: usize) {
    let mut bytes = [0_u8; 32];
    unsafe {
        _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count);
    }
}

#[derive(Clone, Copy)]
struct Affine(__m256i);

impl Vector for Affine {
    type Split = __m256i;
    type Factor = __m256i;
    const BYTES: usize = 32;
    const MASKED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        unsafe { Self(load_part(from, count)) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        unsafe { store_part(self.0, to, count) }
    }

    #[inline(always)]
    unsafe fn split(self) -> __m256i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> __m256i {
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(c)] as i64) }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(_mm256_and_si256(self.0, Self::load(AFTER.as_ptr().add(32 - count)).0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: __m256i, factor: __m256i) -> Self {
        unsafe {
            Self(_mm256_xor_si256(self.0, _mm256_gf2p8affine_epi64_epi8::<0>(source, factor)))
        }
    }
}

#[derive(Clone, Copy)]
struct Nibbles(__m256i);

impl Vector for Nibbles {
    type Split = (__m256i, __m256i);
    type Factor = (__m256i, __m256i);
    const BYTES: usize = 32;
    const MASKED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        unsafe { Self(load_part(from, count)) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        unsafe { store_part(self.0, to, count) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Split {
        unsafe {
            let low = _mm256_set1_epi8(0x0f);
            let high = _mm256_srli_epi16::<4>(self.0);
            (_mm256_and_si256(self.0, low), _mm256_and_si256(high, low))
        }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        unsafe {
            let table = NIBBLES.0[usize::from(c)].as_ptr().cast::<__m128i>();
            (
                _mm256_broadcastsi128_si256(_mm_load_si128(table)),
                _mm256_broadcastsi128_si256(_mm_load_si128(table.add(1))),
            )
        }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(_mm256_and_si256(self.0, Self::load(AFTER.as_ptr().add(32 - count)).0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: Self::Split, factor: Self::Factor) -> Self {
        unsafe {
            let low = _mm256_shuffle_epi8(factor.0, source.0);
            let high = _mm256_shuffle_epi8(factor.1, source.1);
            Self(_mm256_xor_si256(self.0, _mm256_xor_si256(low, high)))
        }
    }
}
