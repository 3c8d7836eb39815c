//! A block decoder and a recoder fed by a peer that is authenticated and out of its mind: any
//! indices, coefficient vectors and lengths.
//!
//! With an even first byte the contents fit the vectors, and then whatever is decoded must be right.

#![no_main]

use coding::block::{Decoder, Recoder};
use coding::{CoefficientKey, Outcome, gf256};
use libfuzzer_sys::fuzz_target;

fn take<'a>(data: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = data.split_at(count.min(data.len()));
    *data = rest;
    taken
}

fn byte(data: &mut &[u8]) -> usize {
    take(data, 1).first().map_or(0, |&byte| usize::from(byte))
}

fn source(index: usize, bytes: usize) -> Vec<u8> {
    let mut symbol = vec![0; bytes];
    CoefficientKey::new(1).fill_uniform(index as u64, 0, &mut symbol);
    symbol
}

fn combination(coefficients: &[u8], bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    for (index, &c) in coefficients.iter().enumerate() {
        gf256::mul_add(&mut payload, &source(index, bytes), c);
    }
    payload
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let honest = byte(&mut data) % 2 == 0;
    let bytes = [1, 7, 64, 65][byte(&mut data) % 4];
    let k = 1 + byte(&mut data) % 20;
    let key = CoefficientKey::new(byte(&mut data) as u64);
    let mut decoder = Decoder::new(k, bytes, key).expect("sizes in range");
    let mut relay = Recoder::new(k, bytes, key).expect("sizes in range");
    let mut rank = 0;
    while !data.is_empty() {
        let kind = byte(&mut data);
        let length = if honest { bytes } else { byte(&mut data) };
        let outcome = match kind % 8 {
            0 | 1 => {
                let index = byte(&mut data) % 24;
                let symbol = source(index, length);
                relay.push_source(index, &symbol);
                decoder.push_source(index, &symbol)
            }
            2 | 3 => {
                let (id, symbols) = (byte(&mut data) as u64, byte(&mut data) % 24);
                let mut coefficients = vec![0; symbols];
                key.fill(id, 0, &mut coefficients);
                decoder.push_repair(id, symbols, &combination(&coefficients, length))
            }
            4 | 5 => {
                let count = byte(&mut data) % 24;
                let coefficients = take(&mut data, count);
                let payload = combination(coefficients, length);
                relay.push_coded(coefficients, &payload);
                decoder.push_coded(coefficients, &payload)
            }
            6 => {
                let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
                relay.recode(&mut coefficients, &mut payload);
                decoder.push_coded(&coefficients, &payload)
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
            assert!(!honest || symbol == source(index, bytes), "{index} is wrong");
        }
    }
});
