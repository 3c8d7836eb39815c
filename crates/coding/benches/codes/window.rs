//! The sliding window: a repair symbol over 64, and a stream of 2,048 source symbols decoded.

use core::ops::Range;

use criterion::Criterion;
use fulmar_coding::CoefficientKey;
use fulmar_coding::window::{Decoder, Encoder};
use rand::RngCore;

use crate::{Aligned, Counter, group};

const WINDOW: usize = 64;
const BYTES: usize = 1_024;
const STREAM: u64 = 2_048;

enum Arrival {
    Source(u64),
    Repair(u64, Range<u64>, Vec<u8>),
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let key = CoefficientKey::new(1);
    let sources = Aligned::new(WINDOW, BYTES);
    let sources = sources.rows();
    let mut encoder = Encoder::new(BYTES, WINDOW, key).expect("sizes");
    sources[..WINDOW].iter().for_each(|symbol| _ = encoder.push(symbol).expect("room"));
    let (mut payload, mut id) = (Vec::new(), 0);
    group(criterion, "window-repair/fulmar", WINDOW * BYTES).bench_function(
        "w64/1024B",
        |bencher| {
            bencher.iter(|| {
                payload.clear();
                id += 1;
                encoder.repair(id, 0..WINDOW as u64, &mut payload).expect("symbols")
            });
        },
    );
    for percent in [0, 2, 5, 10] {
        let arrivals = stream(&sources, percent, key);
        let name = format!("loss{percent}/1024B");
        let bytes = STREAM as usize * BYTES;
        group(criterion, "window-decode/fulmar", bytes).bench_function(&name, |bencher| {
            let mut fresh = Decoder::new(BYTES, 4 * WINDOW, key).expect("sizes");
            // It has grown before.
            fresh.push_source(4 * WINDOW as u64 - 1, sources[WINDOW - 1]);
            bencher.iter_batched_ref(
                || fresh.clone(),
                |decoder| receive(decoder, &arrivals, &sources),
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group(criterion, "window-decode/memcpy", STREAM as usize * BYTES).bench_function(
        "1024B",
        |bencher| {
            let mut ring = vec![0; 4 * WINDOW * BYTES];
            bencher.iter(|| {
                for id in 0..STREAM as usize {
                    let row = &mut ring[id % (4 * WINDOW) * BYTES..][..BYTES];
                    row.copy_from_slice(sources[id % WINDOW]);
                    std::hint::black_box(row);
                }
            });
        },
    );
}

/// What arrives of a stream whose repair symbols, one and a half for each loss, each speak of the
/// last 64 source symbols.
fn stream(sources: &[&[u8]], percent: u64, key: CoefficientKey) -> Vec<Arrival> {
    let mut encoder = Encoder::new(BYTES, WINDOW, key).expect("sizes");
    let mut dice = Counter(7);
    let mut arrives = || (dice.next_u64() >> 20) % 100 >= percent;
    let (mut arrivals, mut owed, mut repair) = (Vec::new(), 0, 0);
    for id in 0..STREAM {
        encoder.trim((id + 1).saturating_sub(WINDOW as u64));
        encoder.push(sources[id as usize % WINDOW]).expect("room");
        if arrives() {
            arrivals.push(Arrival::Source(id));
        }
        owed += percent * 3 / 2;
        if owed >= 100 {
            owed -= 100;
            repair += 1;
            let mut payload = Vec::new();
            let range = encoder.first()..encoder.next();
            encoder.repair(repair, range.clone(), &mut payload).expect("symbols");
            if arrives() {
                arrivals.push(Arrival::Repair(repair, range, payload));
            }
        }
    }
    arrivals
}

fn receive(decoder: &mut Decoder, arrivals: &[Arrival], sources: &[&[u8]]) {
    for arrival in arrivals {
        match arrival {
            Arrival::Source(id) => {
                decoder.push_source(*id, sources[*id as usize % WINDOW]);
            }
            Arrival::Repair(id, range, payload) => {
                // What has left the sender's window is never repaired.
                decoder.skip_to(range.start);
                decoder.push_repair(*id, range.clone(), payload);
            }
        }
        decoder.release(decoder.next_in_order());
        while decoder.poll_decoded().is_some() {}
    }
}
