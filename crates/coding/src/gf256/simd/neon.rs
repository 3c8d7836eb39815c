//! NEON: sixteen bytes at a time by two table look-ups; every 64-bit Arm processor.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is one instruction or two, and its caller has promised what the trait asks for"
)]

use core::arch::aarch64::*;

use super::product::{ByNibbles, Lookup, Vector};

super::instructions!(NIBBLES, "neon", "neon", ByNibbles<uint8x16_t>, (4, 4), {
    std::arch::is_aarch64_feature_detected!("neon")
});

impl Vector for uint8x16_t {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { vdupq_n_u8(0) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        unsafe { vandq_u8(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        unsafe { veorq_u8(self, other) }
    }
}

impl Lookup for uint8x16_t {
    #[inline(always)]
    unsafe fn repeat(table: *const u8) -> Self {
        unsafe { vld1q_u8(table) }
    }

    #[inline(always)]
    unsafe fn nibbles(self) -> [Self; 2] {
        unsafe { [vandq_u8(self, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self)] }
    }

    #[inline(always)]
    unsafe fn lookup(self, index: Self) -> Self {
        unsafe { vqtbl1q_u8(self, index) }
    }
}
