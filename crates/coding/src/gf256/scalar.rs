//! The kernel without vector instructions: what every other one must agree with.

use super::simd::{Lines, Rows, Sources, Within};
use super::tables::PRODUCTS;

/// Sets or adds the combinations of the sources.
pub(super) fn rows(dsts: &mut [&mut [u8]], rows: Rows<'_, impl Sources>) {
    let bytes = dsts.first().map_or(0, |dst| dst.len());
    if !rows.add {
        dsts.iter_mut().for_each(|dst| dst.fill(0));
    }
    for s in 0..rows.sources.count() {
        for (d, dst) in dsts.iter_mut().enumerate() {
            let products =
                &PRODUCTS[usize::from(rows.coefficients[s * rows.stride + d * rows.across])];
            for (to, &from) in dst.iter_mut().zip(rows.sources.row(s, bytes)) {
                *to ^= products[usize::from(from)];
            }
        }
    }
}

/// Sets rows of a slab to combinations of other rows of it.
pub(super) fn within(slab: &mut [u8], within: Within<'_>) {
    within.check(slab.len());
    let Within { dsts, rows, coefficients, across, bytes } = within;
    for (&dst, factors) in dsts.iter().zip(coefficients.chunks(across)) {
        slab[dst..dst + bytes].fill(0);
        for (&row, &c) in rows.iter().zip(factors) {
            let products = &PRODUCTS[usize::from(c)];
            for at in 0..bytes {
                slab[dst + at] ^= products[usize::from(slab[row + at])];
            }
        }
    }
}

/// Adds to `to` the rows of a matrix, each times its factor.
pub(super) fn gather(to: &mut [u8], from: &[u8], stride: usize, factors: &[u8], lines: Lines) {
    for (row, &c) in from.chunks(stride).zip(factors) {
        add(to, row, c, lines);
    }
}

/// Adds row `row` of a matrix to all its rows, times the factor of each.
pub(super) fn scatter(matrix: &mut [u8], stride: usize, row: usize, factors: &[u8], lines: Lines) {
    // First the other rows, in any order, then the row itself.
    let (before, rest) = matrix.split_at_mut(row * stride);
    let (from, after) = rest.split_at_mut(rest.len().min(stride));
    for (to, &c) in before.chunks_mut(stride).zip(factors) {
        add(to, from, c, lines);
    }
    for (to, &c) in after.chunks_mut(stride).zip(factors.iter().skip(row + 1)) {
        add(to, from, c, lines);
    }
    if let Some(&c) = factors.get(row) {
        let products = &PRODUCTS[usize::from(c ^ 1)];
        for line in lines {
            from[line..line + lines.bytes()]
                .iter_mut()
                .for_each(|c| *c = products[usize::from(*c)]);
        }
    }
}

fn add(to: &mut [u8], from: &[u8], c: u8, lines: Lines) {
    let products = &PRODUCTS[usize::from(c)];
    for line in lines {
        for (to, &from) in to[line..].iter_mut().zip(&from[line..]).take(lines.bytes()) {
            *to ^= products[usize::from(from)];
        }
    }
}
