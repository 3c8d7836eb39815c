//! AVX-512 in two forms: with GFNI one instruction multiplies 64 bytes; without it two table
//! look-ups by nibble do.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is one instruction or two, and its caller has promised what the trait asks for"
)]

use core::arch::x86_64::*;

use super::product::{Affine, ByMatrix, ByNibbles, Lookup, Vector};

super::instructions!(AFFINE, "avx512-gfni", "avx512f,avx512bw,gfni", ByMatrix<__m512i>, (8, 4), {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("gfni")
});

super::instructions!(NIBBLES, "avx512", "avx512f,avx512bw", ByNibbles<__m512i>, (8, 4), {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
});

/// The first `count` of 64 bytes.
#[inline(always)]
fn first(count: usize) -> __mmask64 {
    (1 << count) - 1
}

impl Vector for __m512i {
    const BYTES: usize = 64;
    const MASKED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { _mm512_and_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn nonzero(self) -> u64 {
        unsafe { _mm512_test_epi8_mask(self, self) }
    }

    #[inline(always)]
    unsafe fn xor_both(self, a: Self, b: Self) -> Self {
        // 0x96: the exclusive or of all three.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(self, a, b) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        unsafe { _mm512_maskz_loadu_epi8(first(count), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(count), self) }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { _mm512_maskz_mov_epi8(!first(count), self) }
    }
}

impl Affine for __m512i {
    #[inline(always)]
    unsafe fn matrix(matrix: u64) -> Self {
        unsafe { _mm512_set1_epi64(matrix as i64) }
    }

    #[inline(always)]
    unsafe fn affine(self, matrix: Self) -> Self {
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self, matrix) }
    }
}

impl Lookup for __m512i {
    #[inline(always)]
    unsafe fn repeat(table: *const u8) -> Self {
        // A broadcast from memory runs on the load port, which has nothing else to do.
        unsafe { _mm512_broadcast_i32x4(_mm_load_si128(table.cast())) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        unsafe {
            let low = _mm512_set1_epi8(0x0f);
            [_mm512_and_si512(self, low), _mm512_and_si512(_mm512_srli_epi16::<4>(self), low)]
        }
    }

    #[inline(always)]
    unsafe fn lookup(self, index: Self) -> Self {
        unsafe { _mm512_shuffle_epi8(self, index) }
    }
}
