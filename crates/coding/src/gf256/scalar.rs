//! The kernel without vector instructions: what every other one must agree with.

use super::tables::PRODUCTS;

/// Adds the combinations of `srcs` to `dsts`; `coefficients[s·dsts.len() + d]` is that of source `s`
/// in destination `d`.
pub(super) fn mul_add_rows(dsts: &mut [&mut [u8]], srcs: &[&[u8]], coefficients: &[u8]) {
    let rows = dsts.len();
    for (s, src) in srcs.iter().enumerate() {
        for (d, dst) in dsts.iter_mut().enumerate() {
            let products = &PRODUCTS[usize::from(coefficients[s * rows + d])];
            for (to, &from) in dst.iter_mut().zip(*src) {
                *to ^= products[usize::from(from)];
            }
        }
    }
}

/// Multiplies every byte of `row` by `c`.
pub(super) fn scale(row: &mut [u8], c: u8) {
    let products = &PRODUCTS[usize::from(c)];
    for byte in row {
        *byte = products[usize::from(*byte)];
    }
}
