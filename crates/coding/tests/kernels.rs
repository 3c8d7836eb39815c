//! Every kernel of this processor against the multiplication table, byte by byte.

use fulmar_coding::CoefficientKey;
use fulmar_coding::gf256::{Kernel, mul};
use proptest::prelude::*;

/// Reproducible bytes.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    CoefficientKey::new(seed).fill_uniform(0, 0, &mut bytes);
    bytes
}

/// What stands around the destinations, and must stay.
const MARGIN: usize = 65;

/// Runs a kernel on rows cut out of larger buffers at `offset` and compares every byte, including
/// those around the destinations.
fn compare(kernel: Kernel, length: usize, offset: usize, dsts: usize, sources: usize, add: bool) {
    let seed = (length * 7 + offset * 5 + dsts * 3 + sources) as u64;
    let offsets = |row: usize| (offset + row * 13) % 64;
    let sources: Vec<Vec<u8>> = (0..sources).map(|s| bytes(seed + s as u64, 64 + length)).collect();
    let coefficients = bytes(seed ^ 0xff, sources.len() * dsts);
    let before: Vec<Vec<u8>> =
        (0..dsts).map(|d| bytes(!seed + d as u64, 64 + length + MARGIN)).collect();
    let rows: Vec<&[u8]> =
        sources.iter().enumerate().map(|(s, row)| &row[offsets(s)..][..length]).collect();
    let mut after = before.clone();
    let mut cut: Vec<&mut [u8]> =
        after.iter_mut().enumerate().map(|(d, row)| &mut row[offsets(d)..][..length]).collect();
    if add {
        kernel.mul_add_rows(&mut cut, &rows, &coefficients);
    } else {
        kernel.combine_rows(&mut cut, &rows, &coefficients);
    }
    for d in 0..dsts {
        let mut expected = before[d].clone();
        for at in 0..length {
            let sum = rows
                .iter()
                .enumerate()
                .fold(0, |sum, (s, row)| sum ^ mul(coefficients[s * dsts + d], row[at]));
            let byte = &mut expected[offsets(d) + at];
            *byte = if add { *byte ^ sum } else { sum };
        }
        assert!(after[d] == expected, "{kernel}: {length} bytes at {offset}, row {d}, add {add}");
    }
}

fn here() -> Vec<Kernel> {
    for name in Kernel::names() {
        if Kernel::named(name).is_none() {
            println!("SKIPPED: kernels::{name}: this processor has no such instructions");
        }
    }
    Kernel::available().collect()
}

#[test]
fn every_kernel_multiplies_at_every_length() {
    for kernel in here() {
        for length in (0..300).chain(1_395..=1_475) {
            let sources = 1 + length % 3;
            compare(kernel, length, length * 31 % 64, 1, sources, length % 2 == 0);
            compare(kernel, length, length * 29 % 64, 2 + length % 8, sources, length % 2 == 1);
        }
    }
}

#[test]
fn every_kernel_multiplies_at_every_offset() {
    for kernel in here() {
        for offset in 0..64 {
            compare(kernel, 200 + offset, offset, 1 + offset % 5, 2, offset % 2 == 0);
        }
    }
}

#[test]
fn every_kernel_knows_every_product() {
    let all: Vec<u8> = (0..=255).collect();
    for kernel in here() {
        for c in 0..=255 {
            let mut sum = vec![0; 256];
            kernel.mul_add(&mut sum, &all, c);
            assert!(sum.iter().zip(&all).all(|(&sum, &x)| sum == mul(c, x)), "{kernel}: {c}");
            kernel.scale(&mut sum, c);
            assert!(
                sum.iter().zip(&all).all(|(&sum, &x)| sum == mul(c, mul(c, x))),
                "{kernel}: {c}"
            );
        }
    }
}

proptest! {
    #[test]
    fn every_kernel_agrees_on_any_rows(
        length in 0..700_usize,
        offset in 0..64_usize,
        dsts in 0..10_usize,
        sources in 0..70_usize,
        add: bool,
    ) {
        for kernel in Kernel::available() {
            compare(kernel, length, offset, dsts, sources, add);
        }
    }
}
