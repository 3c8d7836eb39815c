//! GF(2⁸) and its kernels: multiply-add of rows of bytes, at the speed that the processor allows.
//!
//! An element is a byte; addition is XOR; multiplication is that of polynomials over GF(2) modulo
//! x⁸ + x⁴ + x³ + x² + 1 (0x11D), the field of [RFC 8681 §3.7.1] and of most storage libraries.
//! Every operation on rows comes down to one: for destination rows d and source rows s,
//!
//! ```text
//! row[d] ← (row[d]) + Σ_s coefficient[s, d] · row[s]
//! ```
//!
//! Nothing here knows of matrices or of who holds which row. A [`Kernel`] is one instruction set's
//! way of doing this operation; all of them give the same bytes.

mod scalar;
#[allow(unsafe_code, reason = "vector instructions")]
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "there are no kernels for this processor"
    )
)]
mod simd;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "tables of the vector kernels")
)]
mod tables;

pub use simd::Kernel;
pub(crate) use simd::{Lines, Rows, Strided, Within};

/// Bytes of a cache line, and of the widest vector register.
pub(crate) const LINE: usize = 64;

/// Multiplies two elements.
///
/// ```
/// use fulmar_coding::gf256;
///
/// assert_eq!(gf256::mul(2, 0x80), 0x1d);
/// assert_eq!(gf256::mul(7, gf256::inv(7)), 1);
/// ```
pub fn mul(a: u8, b: u8) -> u8 {
    tables::PRODUCTS[usize::from(a)][usize::from(b)]
}

/// Returns the inverse of an element; zero, which has none, gives zero.
pub fn inv(a: u8) -> u8 {
    tables::INVERSES[usize::from(a)]
}

/// Lists the products of an element with all elements.
pub(crate) fn products(a: u8) -> &'static [u8; 256] {
    &tables::PRODUCTS[usize::from(a)]
}

/// Adds `c` times `src` to `dst` with the fastest kernel of this processor.
///
/// # Panics
///
/// If `src` is shorter than `dst`.
pub fn mul_add(dst: &mut [u8], src: &[u8], c: u8) {
    Kernel::detect().mul_add(dst, src, c);
}

/// Adds combinations of the rows `srcs` to each of the rows `dsts`; see [`Kernel::mul_add_rows`].
pub fn mul_add_rows(dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
    Kernel::detect().mul_add_rows(dsts, srcs, coefficients);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies as on paper: shift, add, reduce.
    fn mul_on_paper(a: u8, b: u8) -> u8 {
        let product = (0..8)
            .filter(|bit| b >> bit & 1 == 1)
            .fold(0_u16, |sum, bit| sum ^ u16::from(a) << bit);
        (8..16).rev().fold(product, |rest, bit| {
            if rest >> bit & 1 == 1 { rest ^ 0x11d << (bit - 8) } else { rest }
        }) as u8
    }

    #[test]
    fn products_are_those_on_paper_and_inverses_invert() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_on_paper(a, b));
            }
            assert_eq!(mul(a, inv(a)), u8::from(a != 0));
        }
    }
}
