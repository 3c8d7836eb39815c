//! Kernels and codecs against the crate `rlnc` and ISA-L, in the same run: `cargo bench -p
//! fulmar-coding`.
//!
//! ISA-L is opened at run time (`libisal.so.2`, Debian's libisal2); where it is absent its rows are
//! left out and the run says so. A memcpy of the same bytes stands beside everything. The figures
//! of `docs/coding.md` are the medians that this prints.

mod codecs;
mod isal;
mod kernels;
mod window;

use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use fulmar_coding::CoefficientKey;
use isal::IsaL;

fn main() {
    let isal = IsaL::open();
    if isal.is_none() {
        println!("SKIPPED: benches::isal: libisal.so.2 is not here; install the package libisal2");
    }
    let mut criterion = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(80))
        .measurement_time(Duration::from_millis(300))
        .without_plots()
        .configure_from_args();
    println!("kernel: {}", fulmar_coding::gf256::Kernel::detect());
    kernels::bench(&mut criterion, isal.as_ref());
    codecs::bench(&mut criterion, isal.as_ref());
    window::bench(&mut criterion);
    criterion.final_summary();
}

/// A group with bytes per second.
fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    bytes: usize,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(criterion::Throughput::Bytes(bytes as u64));
    group
}

/// Rows that start on cache lines, filled with reproducible bytes.
struct Aligned {
    bytes: Vec<u8>,
    offset: usize,
    stride: usize,
    row_bytes: usize,
}

impl Aligned {
    fn new(rows: usize, row_bytes: usize) -> Self {
        let stride = row_bytes.next_multiple_of(64);
        let mut bytes = vec![0; rows * stride + 64];
        CoefficientKey::new(1).fill_uniform(0, 0, &mut bytes);
        let offset = (64 - bytes.as_ptr().addr() % 64) % 64;
        Self { bytes, offset, stride, row_bytes }
    }

    fn rows(&self) -> Vec<&[u8]> {
        let all = &self.bytes[self.offset..];
        all.chunks_exact(self.stride).map(|row| &row[..self.row_bytes]).collect()
    }

    fn rows_mut(&mut self) -> Vec<&mut [u8]> {
        let all = &mut self.bytes[self.offset..];
        all.chunks_exact_mut(self.stride).map(|row| &mut row[..self.row_bytes]).collect()
    }
}

/// Numbers for the crate that wants to draw its own; cheaper than any serious generator.
struct Counter(u64);

impl rand::RngCore for Counter {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 ^ self.0 >> 29
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }
}
