//! SSSE3: sixteen bytes at a time by two table look-ups; every x86-64 processor since 2006.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is one instruction or two, and its caller has promised what the trait asks for"
)]

use core::arch::x86_64::*;

use super::product::{ByNibbles, Lookup, Vector};

super::instructions!(NIBBLES, "ssse3", "ssse3", ByNibbles<__m128i>, (4, 2), {
    std::arch::is_x86_feature_detected!("ssse3")
});

impl Vector for __m128i {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { _mm_and_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn nonzero(self) -> u64 {
        unsafe { u64::from(!_mm_movemask_epi8(_mm_cmpeq_epi8(self, Self::zero())) as u16) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm_xor_si128(self, other) }
    }
}

impl Lookup for __m128i {
    #[inline(always)]
    unsafe fn repeat(table: *const u8) -> Self {
        unsafe { _mm_load_si128(table.cast()) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        unsafe {
            let low = _mm_set1_epi8(0x0f);
            [_mm_and_si128(self, low), _mm_and_si128(_mm_srli_epi16::<4>(self), low)]
        }
    }

    #[inline(always)]
    unsafe fn lookup(self, index: Self) -> Self {
        unsafe { _mm_shuffle_epi8(self, index) }
    }
}
