//! A sliding-window decoder fed by a peer that is authenticated and out of its mind: any ids, ranges and
//! lengths, in any order, with the owner releasing and giving up at any moment.
//!
//! With an even first byte the contents are right whatever the ids are, and then whatever is decoded
//! must be right as well.

#![no_main]

use coding::{CoefficientKey, Outcome, gf256, window::Decoder};
use libfuzzer_sys::fuzz_target;

/// Reads numbers off the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// An id near `base` as a rule, and now and then any at all.
    fn id(&mut self, base: u64) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(core::array::from_fn(|_| self.byte())),
            254 => u64::MAX - u64::from(self.byte()),
            offset => base.saturating_add(u64::from(offset)).saturating_sub(16),
        }
    }
}

fn source(id: u64, bytes: usize) -> Vec<u8> {
    let mut symbol = vec![0; bytes];
    CoefficientKey::new(1).fill_uniform(id, 0, &mut symbol);
    symbol
}

fn repair(key: CoefficientKey, id: u64, range: core::ops::Range<u64>, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    for source_id in range {
        let mut c = [0];
        key.fill(id, source_id, &mut c);
        gf256::mul_add(&mut payload, &source(source_id, bytes), c[0]);
    }
    payload
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let honest = input.byte() % 2 == 0;
    let bytes = [1, 7, 64, 65][usize::from(input.byte() % 4)];
    // Now and then so wide that coefficients fill several lines.
    let capacity = match input.byte() {
        wide @ 224.. => usize::from(wide),
        narrow => 1 + usize::from(narrow % 40),
    };
    let key = CoefficientKey::new(u64::from(input.byte()));
    let mut decoder = Decoder::new(bytes, capacity, key).expect("sizes in range");
    let (mut rank, mut in_order) = (0, 0);
    while !input.0.is_empty() {
        let base = decoder.next_in_order();
        let outcome = match input.byte() % 8 {
            0..=2 => {
                let id = input.id(base);
                let length = if honest { bytes } else { usize::from(input.byte()) };
                let symbol = source(id, length);
                decoder.push_source(id, &symbol)
            }
            3..=5 => {
                let (id, start) = (u64::from(input.byte()), input.id(base));
                let end = start.saturating_add(u64::from(input.byte() % 70)).saturating_sub(2);
                let length = if honest { bytes } else { usize::from(input.byte()) };
                let payload = repair(key, id, start..end, length);
                decoder.push_repair(id, start..end, &payload)
            }
            6 => {
                decoder.release(input.id(base));
                Outcome::Stale
            }
            _ => {
                decoder.skip_to(input.id(base));
                Outcome::Stale
            }
        };
        rank += u64::from(outcome == Outcome::Innovative);
        assert_eq!(decoder.rank(), rank);
        assert!(decoder.next_in_order() >= in_order);
        in_order = decoder.next_in_order();
        assert!(decoder.seen() >= in_order);
        assert!(decoder.missing(0..u64::MAX).all(|id| id >= in_order && decoder.get(id).is_none()));
        while let Some(id) = decoder.poll_decoded() {
            let symbol = decoder.get(id).expect("what is announced and not released is there");
            assert!(!honest || symbol == source(id, bytes), "{id} is wrong");
        }
    }
});
