//! SSSE3: sixteen bytes at a time by two table look-ups; every x86-64 processor since 2006.

use core::arch::x86_64::*;

use super::super::tables::NIBBLES;
use super::{AFTER, Rows, Vector, drive, scale};

/// SSSE3.
///
/// # Safety
///
/// As [`drive`], for `ssse3`.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn nibbles(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Nibbles, 4, 2>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn nibbles_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Nibbles>(to, from, bytes, c, add) }
}

#[derive(Clone, Copy)]
struct Nibbles(__m128i);

impl Vector for Nibbles {
    type Split = (__m128i, __m128i);
    type Factor = (__m128i, __m128i);
    const BYTES: usize = 16;
    const MASKED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm_setzero_si128()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        let mut bytes = [0_u8; 16];
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count);
            Self::load(bytes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        let mut bytes = [0_u8; 16];
        unsafe {
            self.store(bytes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count);
        }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Split {
        unsafe {
            let low = _mm_set1_epi8(0x0f);
            (_mm_and_si128(self.0, low), _mm_and_si128(_mm_srli_epi16::<4>(self.0), low))
        }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        unsafe {
            let table = NIBBLES.0[usize::from(c)].as_ptr().cast::<__m128i>();
            (_mm_load_si128(table), _mm_load_si128(table.add(1)))
        }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(_mm_and_si128(self.0, Self::load(AFTER.as_ptr().add(32 - count)).0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: Self::Split, factor: Self::Factor) -> Self {
        unsafe {
            let low = _mm_shuffle_epi8(factor.0, source.0);
            let high = _mm_shuffle_epi8(factor.1, source.1);
            Self(_mm_xor_si128(self.0, _mm_xor_si128(low, high)))
        }
    }
}
