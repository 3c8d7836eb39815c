//! A sliding-window decoder fed by a peer that is authenticated and out of its mind: any ids,
//! ranges and lengths, in any order, with the owner releasing and giving up at any moment.
//!
//! With an even first byte the contents are right whatever the ids are, and then whatever is
//! decoded must be right as well.

#![no_main]

use std::sync::LazyLock;

use coding::gf256::Kernel;
use coding::{CoefficientKey, Outcome, window::Decoder};
use libfuzzer_sys::fuzz_target;

/// More than a peer can ask for: a length is a byte.
const BYTES: usize = 256;

/// Contents of source symbols, by their id modulo a prime that no window is as wide as: symbols
/// that can meet, or share a place one after the other, differ. Drawn once: drawing them took most
/// of a run.
static SOURCES: LazyLock<Vec<[u8; BYTES]>> = LazyLock::new(|| {
    let mut sources = vec![[0; BYTES]; 1_021];
    for (id, symbol) in (0..).zip(&mut sources) {
        CoefficientKey::new(1).fill_uniform(id, 0, symbol);
    }
    sources
});

static KERNEL: LazyLock<Kernel> = LazyLock::new(Kernel::detect);

fn source(id: u64) -> &'static [u8; BYTES] {
    &SOURCES[(id % SOURCES.len() as u64) as usize]
}

/// The most source symbols that a repair symbol speaks of.
const SPAN: usize = 70;

/// Computes a repair symbol as the sender does.
fn repair(key: CoefficientKey, id: u64, range: core::ops::Range<u64>, payload: &mut [u8]) {
    let mut coefficients = [0; SPAN];
    let span = range.end.saturating_sub(range.start) as usize;
    key.fill(id, range.start, &mut coefficients[..span]);
    payload.fill(0);
    for (source_id, &c) in range.zip(&coefficients) {
        KERNEL.mul_add(payload, source(source_id), c);
    }
}

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
    let mut payload = *source(0);
    let (mut rank, mut in_order) = (0, 0);
    while !input.0.is_empty() {
        let base = decoder.next_in_order();
        let outcome = match input.byte() % 8 {
            0..=2 => {
                let id = input.id(base);
                let length = if honest { bytes } else { usize::from(input.byte()) };
                decoder.push_source(id, &source(id)[..length])
            }
            3..=5 => {
                let (id, start) = (u64::from(input.byte()), input.id(base));
                let span = u64::from(input.byte()) % SPAN as u64;
                let end = start.saturating_add(span).saturating_sub(2);
                let length = if honest { bytes } else { usize::from(input.byte()) };
                if honest {
                    repair(key, id, start..end, &mut payload[..length]);
                }
                decoder.push_repair(id, start..end, &payload[..length])
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
        // All that is missing is gone through once, at the end: it is what the window is wide.
        let missing = if input.0.is_empty() { 0..u64::MAX } else { 0..in_order.saturating_add(16) };
        assert!(decoder.missing(missing).all(|id| id >= in_order && decoder.get(id).is_none()));
        while let Some(id) = decoder.poll_decoded() {
            let symbol = decoder.get(id).expect("what is announced and not released is there");
            assert!(!honest || symbol == &source(id)[..bytes], "{id} is wrong");
        }
    }
});
