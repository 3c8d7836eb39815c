//! A block decoder and a recoder fed by a peer that is authenticated and out of its mind: any
//! indices, coefficient vectors and lengths.
//!
//! With an even first byte the contents fit the vectors, and then whatever is decoded must be
//! right.

#![no_main]

use std::sync::LazyLock;

use coding::block::{Decoder, Recoder};
use coding::gf256::Kernel;
use coding::{CoefficientKey, Outcome};
use libfuzzer_sys::fuzz_target;

/// Symbols that an index may name; some are beyond the block.
const INDICES: usize = 24;

/// More than a peer can ask for: a length is a byte.
const BYTES: usize = 256;

/// The source symbols, drawn once: drawing them took most of a run.
static SOURCES: LazyLock<[[u8; BYTES]; INDICES]> = LazyLock::new(|| {
    let mut sources = [[0; BYTES]; INDICES];
    for (index, symbol) in (0..).zip(&mut sources) {
        CoefficientKey::new(1).fill_uniform(index, 0, symbol);
    }
    sources
});

static KERNEL: LazyLock<Kernel> = LazyLock::new(Kernel::detect);

/// Reads numbers off the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> usize {
        self.take(1).first().map_or(0, |&byte| usize::from(byte))
    }
}

/// What a peer sends: the payload that belongs to a vector, or any.
struct Peer {
    honest: bool,
    payload: [u8; BYTES],
}

impl Peer {
    fn combination(&mut self, coefficients: &[u8], bytes: usize) -> &[u8] {
        let payload = &mut self.payload[..bytes];
        if self.honest {
            payload.fill(0);
            for (symbol, &c) in SOURCES.iter().zip(coefficients) {
                KERNEL.mul_add(payload, symbol, c);
            }
        }
        payload
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let honest = input.byte() % 2 == 0;
    let bytes = [1, 7, 64, 65][input.byte() % 4];
    let k = 1 + input.byte() % 20;
    let key = CoefficientKey::new(input.byte() as u64);
    let mut decoder = Decoder::new(k, bytes, key).expect("sizes in range");
    let mut relay = Recoder::new(k, bytes, key).expect("sizes in range");
    let mut peer = Peer { honest, payload: SOURCES[0] };
    let (mut recoded_vector, mut recoded) = (Vec::new(), Vec::new());
    let mut rank = 0;
    while !input.0.is_empty() {
        let kind = input.byte();
        let length = if honest { bytes } else { input.byte() };
        let outcome = match kind % 8 {
            0 | 1 => {
                let index = input.byte() % INDICES;
                let symbol = &SOURCES[index][..length];
                relay.push_source(index, symbol);
                decoder.push_source(index, symbol)
            }
            2 | 3 => {
                let (id, symbols) = (input.byte() as u64, input.byte() % INDICES);
                let mut coefficients = [0; INDICES];
                key.fill(id, 0, &mut coefficients[..symbols]);
                decoder.push_repair(id, symbols, peer.combination(&coefficients, length))
            }
            4 | 5 => {
                let count = input.byte() % INDICES;
                let coefficients = input.take(count);
                let payload = peer.combination(coefficients, length);
                relay.push_coded(coefficients, payload);
                decoder.push_coded(coefficients, payload)
            }
            6 => {
                recoded_vector.clear();
                recoded.clear();
                relay.recode(&mut recoded_vector, &mut recoded);
                decoder.push_coded(&recoded_vector, &recoded)
            }
            _ if kind == 255 => {
                decoder.reset(key);
                relay.reset();
                rank = 0;
                Outcome::Stale
            }
            _ => Outcome::Stale,
        };
        rank += usize::from(outcome == Outcome::Innovative);
        assert_eq!(decoder.rank(), rank);
        assert!(rank <= k && decoder.seen() <= rank && relay.rank() <= k);
        assert_eq!(decoder.is_complete(), decoder.missing(k).next().is_none());
        while let Some(index) = decoder.poll_decoded() {
            let symbol = decoder.get(index).expect("what is announced is there");
            assert!(!honest || symbol == &SOURCES[index][..bytes], "{index} is wrong");
        }
    }
});
