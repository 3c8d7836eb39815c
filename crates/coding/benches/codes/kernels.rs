//! Multiply-add: bytes of source rows times destination rows per second.

use criterion::Criterion;
use fulmar_coding::CoefficientKey;
use fulmar_coding::gf256::Kernel;

use crate::isal::IsaL;
use crate::{Aligned, Counter, group};

pub(crate) fn bench(criterion: &mut Criterion, isal: Option<&IsaL>) {
    for k in [4, 16, 32, 64] {
        for bytes in [64, 256, 1_024, 1_400, 1_408, 1_472] {
            for rows in [1, 4] {
                compare(criterion, isal, (k, bytes, rows));
            }
            others(criterion, k, bytes);
        }
    }
    for kernel in Kernel::available() {
        let name = format!("tiers/{kernel}");
        one(criterion, &name, kernel, (16, 1_024, 1));
        one(criterion, &name, kernel, (16, 1_024, 4));
    }
}

fn one(criterion: &mut Criterion, name: &str, kernel: Kernel, shape: (usize, usize, usize)) {
    let (k, bytes, rows) = shape;
    let sources = Aligned::new(k, bytes);
    let mut dsts = Aligned::new(rows, bytes);
    let mut coefficients = vec![0; k * rows];
    CoefficientKey::new(2).fill(0, 0, &mut coefficients);
    let (sources, mut dsts) = (sources.rows(), dsts.rows_mut());
    let mut group = group(criterion, name, k * bytes * rows);
    group.bench_function(format!("k{k}/{bytes}B/{rows}rows"), |bencher| {
        bencher.iter(|| {
            kernel.combine_rows(&mut dsts[..rows], &sources[..k], &coefficients);
            std::hint::black_box(&mut dsts);
        });
    });
}

fn compare(criterion: &mut Criterion, isal: Option<&IsaL>, shape: (usize, usize, usize)) {
    one(criterion, "kernel/fulmar", Kernel::detect(), shape);
    let Some(isal) = isal else { return };
    let (k, bytes, rows) = shape;
    let sources = Aligned::new(k, bytes);
    let mut dsts = Aligned::new(rows, bytes);
    let mut coefficients = vec![0; k * rows];
    CoefficientKey::new(2).fill(0, 0, &mut coefficients);
    let job = isal.job(&mut dsts.rows_mut()[..rows], &sources.rows()[..k], &coefficients);
    let mut group = group(criterion, "kernel/isal", k * bytes * rows);
    group.bench_function(format!("k{k}/{bytes}B/{rows}rows"), |bencher| bencher.iter(|| job.run()));
}

/// The crate `rlnc`, which makes one row at a time, and a memcpy of the sources.
fn others(criterion: &mut Criterion, k: usize, bytes: usize) {
    let sources = Aligned::new(k, bytes);
    let data = sources.rows()[..k].concat();
    let name = format!("k{k}/{bytes}B/1rows");
    // One byte less: the crate appends a mark of its own.
    let encoder = rlnc::full::Encoder::new(data[..k * bytes - 1].to_vec(), k).expect("sizes");
    let mut piece = vec![0; encoder.get_full_coded_piece_byte_len()];
    let mut counter = Counter(1);
    group(criterion, "kernel/rlnc", k * bytes).bench_function(&name, |bencher| {
        bencher.iter(|| encoder.code_with_buf(&mut counter, &mut piece).expect("sizes"));
    });
    let mut copy = data.clone();
    group(criterion, "kernel/memcpy", k * bytes).bench_function(&name, |bencher| {
        bencher.iter(|| {
            copy.copy_from_slice(std::hint::black_box(&data));
            std::hint::black_box(&mut copy);
        });
    });
}
