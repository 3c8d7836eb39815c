//! AVX2 in two forms: with GFNI one instruction multiplies 32 bytes; without it two table look-ups
//! by nibble do.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is one instruction or two, and its caller has promised what the trait asks for"
)]

use core::arch::x86_64::*;

use super::product::{Affine, ByMatrix, ByNibbles, Lookup, Vector};

super::instructions!(AFFINE, "avx2-gfni", "avx2,gfni", ByMatrix<__m256i>, (4, 2), {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("gfni")
});

super::instructions!(NIBBLES, "avx2", "avx2", ByNibbles<__m256i>, (4, 2), {
    std::arch::is_x86_feature_detected!("avx2")
});

impl Vector for __m256i {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { _mm256_and_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn nonzero(self) -> u64 {
        unsafe { u64::from(!_mm256_movemask_epi8(_mm256_cmpeq_epi8(self, Self::zero())) as u32) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm256_xor_si256(self, other) }
    }
}

impl Affine for __m256i {
    #[inline(always)]
    unsafe fn matrix(matrix: u64) -> Self {
        unsafe { _mm256_set1_epi64x(matrix as i64) }
    }

    #[inline(always)]
    unsafe fn affine(self, matrix: Self) -> Self {
        unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self, matrix) }
    }
}

impl Lookup for __m256i {
    #[inline(always)]
    unsafe fn repeat(table: *const u8) -> Self {
        unsafe { _mm256_broadcastsi128_si256(_mm_load_si128(table.cast())) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        unsafe {
            let low = _mm256_set1_epi8(0x0f);
            [_mm256_and_si256(self, low), _mm256_and_si256(_mm256_srli_epi16::<4>(self), low)]
        }
    }

    #[inline(always)]
    unsafe fn lookup(self, index: Self) -> Self {
        unsafe { _mm256_shuffle_epi8(self, index) }
    }
}
