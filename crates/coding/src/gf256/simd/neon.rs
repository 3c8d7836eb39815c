//! NEON: sixteen bytes at a time by two table look-ups; every 64-bit Arm processor.

use core::arch::aarch64::*;

use super::super::tables::NIBBLES;
use super::{AFTER, Rows, Vector, drive, scale};

/// NEON.
///
/// # Safety
///
/// As [`drive`], for `neon`.
#[target_feature(enable = "neon")]
pub(super) unsafe fn nibbles(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    // SAFETY: the caller's promise.
    unsafe { drive::<Nibbles, 4, 4>(dsts, rows) }
}

/// The same for one row, see [`scale`].
///
/// # Safety
///
/// As [`scale`], for the same instructions.
#[target_feature(enable = "neon")]
pub(super) unsafe fn nibbles_scale(to: *mut u8, from: *const u8, bytes: usize, c: u8, add: bool) {
    // SAFETY: the caller's promise.
    unsafe { scale::<Nibbles>(to, from, bytes, c, add) }
}

#[derive(Clone, Copy)]
struct Nibbles(uint8x16_t);

impl Vector for Nibbles {
    type Split = (uint8x16_t, uint8x16_t);
    type Factor = (uint8x16_t, uint8x16_t);
    const BYTES: usize = 16;
    const MASKED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(vdupq_n_u8(0)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(vld1q_u8(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self.0) }
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
        unsafe { (vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn factor(c: u8) -> Self::Factor {
        unsafe {
            let table = NIBBLES.0[usize::from(c)].as_ptr();
            (vld1q_u8(table), vld1q_u8(table.add(16)))
        }
    }

    #[inline(always)]
    unsafe fn after(self, count: usize) -> Self {
        unsafe { Self(vandq_u8(self.0, Self::load(AFTER.as_ptr().add(32 - count)).0)) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { Self(veorq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, source: Self::Split, factor: Self::Factor) -> Self {
        unsafe {
            let low = vqtbl1q_u8(factor.0, source.0);
            let high = vqtbl1q_u8(factor.1, source.1);
            Self(veorq_u8(self.0, veorq_u8(low, high)))
        }
    }
}
