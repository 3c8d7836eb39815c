//! Whole codecs over blocks: encode and recode one symbol; decode a block with none, one in eight
//! and all of its source symbols lost. Bytes are those of the block.

use criterion::Criterion;
use fulmar_coding::CoefficientKey;
use fulmar_coding::block::{Decoder, Encoder, Recoder};

use crate::isal::IsaL;
use crate::{Aligned, Counter, group};

pub(crate) fn bench(criterion: &mut Criterion, isal: Option<&IsaL>) {
    for k in [4, 16, 32, 64] {
        for bytes in [64, 1_024, 1_472] {
            ours(criterion, k, bytes);
            theirs(criterion, k, bytes);
            if let Some(isal) = isal {
                isal_decode(criterion, isal, k, bytes);
            }
        }
    }
}

fn ours(criterion: &mut Criterion, k: usize, bytes: usize) {
    let key = CoefficientKey::new(1);
    let sources = Aligned::new(k, bytes);
    let sources = sources.rows();
    let mut encoder = Encoder::new(k, bytes, key).expect("sizes");
    sources[..k].iter().for_each(|symbol| _ = encoder.push(symbol).expect("room"));
    let mut repairs = vec![Vec::new(); k];
    for (id, repair) in (0..).zip(&mut repairs) {
        encoder.repair(id, repair).expect("symbols");
    }
    let shape = format!("k{k}/{bytes}B");
    let (mut vector, mut payload, mut id) = (Vec::new(), Vec::new(), 0);
    group(criterion, "encode/fulmar", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| {
            payload.clear();
            id += 1;
            encoder.repair(id, &mut payload).expect("symbols")
        });
    });
    let mut relay = Recoder::new(k, bytes, key).expect("sizes");
    for (id, repair) in (0..).zip(&repairs) {
        vector.clear();
        encoder.coefficients(id, &mut vector);
        relay.push_coded(&vector, repair);
    }
    group(criterion, "recode/fulmar", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| {
            vector.clear();
            payload.clear();
            relay.recode(&mut vector, &mut payload)
        });
    });
    let mut decoder = Decoder::new(k, bytes, key).expect("sizes");
    for (name, lost) in [("none", k + 1), ("eighth", 8), ("all", 1)] {
        let name = format!("decode-{name}/fulmar");
        group(criterion, &name, k * bytes).bench_function(&shape, |bencher| {
            bencher.iter(|| {
                decoder.reset(key);
                let mut repair = 0;
                for (index, symbol) in sources[..k].iter().enumerate() {
                    if index % lost != lost - 1 && !(lost == 8 && k < 8 && index == 0) {
                        decoder.push_source(index, symbol);
                    }
                }
                while !decoder.is_complete() {
                    decoder.push_repair(repair as u64, k, &repairs[repair % k]);
                    repair += 1;
                }
            });
        });
    }
}

fn theirs(criterion: &mut Criterion, k: usize, bytes: usize) {
    let sources = Aligned::new(k, bytes);
    let data = sources.rows()[..k].concat();
    let encoder = rlnc::full::Encoder::new(data[..k * bytes - 1].to_vec(), k).expect("sizes");
    let mut counter = Counter(1);
    let pieces: Vec<Vec<u8>> = (0..k).map(|_| encoder.code(&mut counter)).collect();
    let mut piece = vec![0; encoder.get_full_coded_piece_byte_len()];
    let shape = format!("k{k}/{bytes}B");
    group(criterion, "encode/rlnc", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| encoder.code_with_buf(&mut counter, &mut piece).expect("sizes"));
    });
    let mut relay = rlnc::full::Recoder::new(pieces.concat(), piece.len(), k).expect("sizes");
    group(criterion, "recode/rlnc", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| relay.recode_with_buf(&mut counter, &mut piece).expect("sizes"));
    });
    group(criterion, "decode-all/rlnc", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| {
            let mut decoder = rlnc::full::Decoder::new(bytes, k).expect("sizes");
            pieces.iter().for_each(|piece| _ = decoder.decode(piece));
            std::hint::black_box(decoder.is_already_decoded())
        });
    });
}

/// Invert, make tables, multiply: what ISA-L's users do when a whole block arrives coded.
fn isal_decode(criterion: &mut Criterion, isal: &IsaL, k: usize, bytes: usize) {
    let sources = Aligned::new(k, bytes);
    let mut dsts = Aligned::new(k, bytes);
    let mut matrix = vec![0; k * k];
    CoefficientKey::new(3).fill(0, 0, &mut matrix);
    let (mut scratch, mut inverse) = (matrix.clone(), matrix.clone());
    let mut job = isal.job(&mut dsts.rows_mut()[..k], &sources.rows()[..k], &matrix);
    let shape = format!("k{k}/{bytes}B");
    group(criterion, "decode-all/isal", k * bytes).bench_function(&shape, |bencher| {
        bencher.iter(|| {
            scratch.copy_from_slice(&matrix);
            assert!(isal.invert(&mut scratch, &mut inverse, k));
            job.set(&inverse);
            job.run();
        });
    });
}
