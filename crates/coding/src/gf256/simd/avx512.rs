//! AVX-512 in two forms: with GFNI one instruction multiplies 64 bytes; without it two table
//! look-ups by nibble do.

use core::arch::x86_64::*;

use super::super::tables::{MATRICES, NIBBLES};
use super::{Rows, Vector, drive, scale};

/// AVX-512 with GFNI.
///
/// # Safety
///
/// As [`drive`], for `avx512f`, `avx512bw` and `gfni`.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn affine(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Affine, 8, 4>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn affine_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Affine>(to, from, bytes, c, add) }
}

/// AVX-512 without GFNI.
///
/// # Safety
///
/// As [`drive`], for `avx512f` and `avx512bw`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn nibbles(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Nibbles, 8, 4>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn nibbles_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Nibbles>(to, from, bytes, c, add) }
}

/// The first `count` of 64 bytes.
#[inline(always)]
fn first(count: usize) -> __mmask64 {
    (1 << count) - 1
}

#[derive(Clone, Copy)]
struct Affine(__m512i);

impl Vector for Affine {
    type Split = __m512i;
    type Factor = __m512i;
    const BYTES: usize = 64;
    const MASKED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_loadu_epi8(first(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn split(self) -> __m512i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> __m512i {
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(c)] as i64) }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_mov_epi8(!first(count), self.0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: __m512i, factor: __m512i) -> Self {
        unsafe {
            Self(_mm512_xor_si512(self.0, _mm512_gf2p8affine_epi64_epi8::<0>(source, factor)))
        }
    }
}

#[derive(Clone, Copy)]
struct Nibbles(__m512i);

impl Vector for Nibbles {
    type Split = (__m512i, __m512i);
    type Factor = (__m512i, __m512i);
    const BYTES: usize = 64;
    const MASKED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_loadu_epi8(first(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, count: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn split(self) -> Self::Split {
        unsafe {
            let low = _mm512_set1_epi8(0x0f);
            let high = _mm512_srli_epi16::<4>(self.0);
            (_mm512_and_si512(self.0, low), _mm512_and_si512(high, low))
        }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        unsafe {
            // A broadcast from memory is done by the load port, which has nothing else to do.
            let table = NIBBLES.0[usize::from(c)].as_ptr().cast::<__m128i>();
            (
                _mm512_broadcast_i32x4(_mm_load_si128(table)),
                _mm512_broadcast_i32x4(_mm_load_si128(table.add(1))),
            )
        }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_mov_epi8(!first(count), self.0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: Self::Split, factor: Self::Factor) -> Self {
        unsafe {
            let low = _mm512_shuffle_epi8(factor.0, source.0);
            let high = _mm512_shuffle_epi8(factor.1, source.1);
            // 0x96: the exclusive or of all three.
            Self(_mm512_ternarylogic_epi64::<0x96>(self.0, low, high))
        }
    }
}
