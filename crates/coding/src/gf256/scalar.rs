//! The kernel without vector instructions: what every other one must agree with.

use super::simd::Rows;
use super::tables::PRODUCTS;

/// Sets or adds the combinations of the sources.
pub(super) fn rows(dsts: &mut [&mut [u8]], rows: Rows<'_>) {
    if !rows.add {
        dsts.iter_mut().for_each(|dst| dst.fill(0));
    }
    for (s, src) in rows.sources.iter().enumerate() {
        for (d, dst) in dsts.iter_mut().enumerate() {
            let products = &PRODUCTS[usize::from(rows.coefficients[s * rows.stride + d])];
            for (to, &from) in dst.iter_mut().zip(*src) {
                *to ^= products[usize::from(from)];
            }
        }
    }
}
