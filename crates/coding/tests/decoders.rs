//! The online decoders against plain Gauss: after every symbol both know exactly the same.

mod gauss;

use fulmar_coding::{CoefficientKey, Outcome, block, window};
use gauss::Gauss;
use proptest::prelude::*;

const BYTES: usize = 5;

/// A source symbol that its id determines.
fn source(id: u64) -> Vec<u8> {
    let length = 1 + (id % BYTES as u64) as usize;
    (0..length).map(|at| (id * 37 + at as u64 * 11 + 1) as u8).collect()
}

fn padded(id: u64) -> Vec<u8> {
    let mut symbol = source(id);
    symbol.resize(BYTES, 0);
    symbol
}

#[derive(Clone, Debug)]
enum Arrival {
    Source(u64),
    Repair(u64, u64),
}

fn arrivals(ids: u64) -> impl Strategy<Value = Vec<Arrival>> {
    let arrival = prop_oneof![
        (0..ids).prop_map(Arrival::Source),
        (0..ids, 1..=ids).prop_map(|(start, span)| Arrival::Repair(start, span)),
    ];
    proptest::collection::vec(arrival, 1..60)
}

proptest! {
    #[test]
    fn window_decoder_knows_what_plain_gauss_knows(arrivals in arrivals(20), key: u64) {
        const IDS: u64 = 20;
        let key = CoefficientKey::new(key);
        let mut encoder = window::Encoder::new(BYTES, 32, key).unwrap();
        (0..IDS).for_each(|id| assert_eq!(encoder.push(&source(id)).unwrap(), id));
        let mut decoder = window::Decoder::new(BYTES, 32, key).unwrap();
        let mut gauss = Gauss::new(IDS as usize);
        let mut announced = std::collections::BTreeSet::new();
        for (repair, arrival) in arrivals.into_iter().enumerate() {
            let innovative = match arrival {
                Arrival::Source(id) => {
                    let mut unit = vec![0; IDS as usize];
                    unit[id as usize] = 1;
                    let told = decoder.push_source(id, &source(id));
                    (told, gauss.add(&unit, &padded(id)))
                }
                Arrival::Repair(start, span) => {
                    let range = start..(start + span).min(IDS);
                    let mut payload = Vec::new();
                    encoder.repair(repair as u64, range.clone(), &mut payload).unwrap();
                    let mut coefficients = vec![0; IDS as usize];
                    let columns = range.start as usize..range.end as usize;
                    key.fill(repair as u64, range.start, &mut coefficients[columns]);
                    let told = decoder.push_repair(repair as u64, range, &payload);
                    payload.resize(BYTES, 0);
                    (told, gauss.add(&coefficients, &payload))
                }
            };
            prop_assert_eq!(innovative.0 == Outcome::Innovative, innovative.1);
            prop_assert_eq!(decoder.rank(), gauss.rank() as u64);
            for id in 0..IDS {
                prop_assert_eq!(decoder.get(id), gauss.symbol(id as usize));
                prop_assert!(decoder.get(id).is_none_or(|symbol| symbol == padded(id)));
            }
            let known = |id: &u64| gauss.symbol(*id as usize).is_some();
            let in_order = (0..IDS).take_while(known).count() as u64;
            prop_assert_eq!(decoder.next_in_order(), in_order);
            let seen = (0..IDS).take_while(|&id| gauss.leads(id as usize)).count() as u64;
            prop_assert_eq!(decoder.seen(), seen);
            let missing: Vec<u64> = (0..IDS).filter(|id| !known(id)).collect();
            prop_assert_eq!(decoder.missing(0..IDS).collect::<Vec<_>>(), missing);
            while let Some(id) = decoder.poll_decoded() {
                prop_assert!(announced.insert(id) && known(&id));
            }
            prop_assert_eq!(announced.len(), (0..IDS).filter(known).count());
        }
    }

    #[test]
    fn block_decoder_knows_what_plain_gauss_knows(
        k in 1..20_usize,
        symbols in proptest::collection::vec((0..20_usize, any::<[u8; 20]>(), 0..4_u8), 1..50),
        key: u64,
    ) {
        let key = CoefficientKey::new(key);
        let mut encoder = block::Encoder::new(k, BYTES, key).unwrap();
        let mut decoder = block::Decoder::new(k, BYTES, key).unwrap();
        let mut gauss = Gauss::new(k);
        for (number, (index, mut vector, kind)) in symbols.into_iter().enumerate() {
            if !encoder.is_full() && kind != 3 {
                encoder.push(&source(encoder.rank() as u64)).unwrap();
            }
            let rank = encoder.rank();
            if rank == 0 {
                continue;
            }
            let mut payload = Vec::new();
            let (told, coefficients) = match kind {
                0 => {
                    let index = index % rank;
                    let mut unit = vec![0; rank];
                    unit[index] = 1;
                    payload = source(index as u64);
                    (decoder.push_source(index, &payload), unit)
                }
                1 => {
                    let mut coefficients = Vec::new();
                    encoder.repair(number as u64, &mut payload).unwrap();
                    encoder.coefficients(number as u64, &mut coefficients);
                    (decoder.push_repair(number as u64, rank, &payload), coefficients)
                }
                _ => {
                    // Sparse vectors, so that parts of the block are determined before the rest.
                    vector.iter_mut().skip(index % 5).for_each(|c| *c = 0);
                    encoder.combine(&vector[..rank], &mut payload).unwrap();
                    (decoder.push_coded(&vector[..rank], &payload), vector[..rank].to_vec())
                }
            };
            payload.resize(BYTES, 0);
            prop_assert_eq!(told == Outcome::Innovative, gauss.add(&coefficients, &payload));
            prop_assert_eq!(decoder.rank(), gauss.rank());
            for index in 0..k {
                prop_assert_eq!(decoder.get(index), gauss.symbol(index));
            }
            prop_assert_eq!(decoder.seen(), (0..k).take_while(|&at| gauss.leads(at)).count());
        }
    }

    /// Long runs: the ring wraps, acknowledgements are late, some symbols are given up.
    #[test]
    fn window_decoder_stays_right_as_the_window_moves(
        losses in proptest::collection::vec(any::<(bool, bool, u8)>(), 100..400),
        capacity in 8..40_u64,
        key: u64,
    ) {
        let key = CoefficientKey::new(key);
        let mut encoder = window::Encoder::new(BYTES, capacity as usize, key).unwrap();
        let mut decoder = window::Decoder::new(BYTES, 2 * capacity as usize, key).unwrap();
        let mut announced = std::collections::BTreeSet::new();
        for (step, (lost, repair_lost, dice)) in losses.into_iter().enumerate() {
            if let Ok(id) = encoder.push(&source(encoder.next()))
                && !lost
            {
                prop_assert_eq!(decoder.push_source(id, &source(id)), Outcome::Innovative);
            }
            if !repair_lost && encoder.next() > encoder.first() {
                let range = encoder.first()..encoder.next();
                let mut payload = Vec::new();
                encoder.repair(step as u64, range.clone(), &mut payload).unwrap();
                decoder.push_repair(step as u64, range, &payload);
            }
            for id in encoder.first()..encoder.next() {
                let expected = padded(id);
                prop_assert!(decoder.get(id).is_none_or(|symbol| symbol == expected));
            }
            while let Some(id) = decoder.poll_decoded() {
                prop_assert!(announced.insert(id) && decoder.get(id).is_some());
            }
            for id in encoder.first()..encoder.next() {
                prop_assert!(decoder.get(id).is_none() || announced.contains(&id));
            }
            match dice {
                0..64 => decoder.release(decoder.next_in_order()),
                64..128 => {
                    decoder.release(decoder.next_in_order());
                    encoder.trim(decoder.next_in_order());
                }
                128..144 => {
                    encoder.trim(encoder.first() + 3);
                    decoder.skip_to(encoder.first());
                    prop_assert!(decoder.next_in_order() >= encoder.first());
                    decoder.release(encoder.first());
                }
                _ => {}
            }
        }
        // What is still missing arrives: all of it, and in order.
        decoder.skip_to(encoder.first());
        for id in encoder.first()..encoder.next() {
            decoder.push_source(id, &source(id));
        }
        prop_assert_eq!(decoder.next_in_order(), encoder.next());
    }

    /// Rows of coefficients of many lines, most of them empty, at any place of the ring.
    #[test]
    fn window_decoder_is_right_however_wide_its_window(
        losses in proptest::collection::vec(any::<(bool, bool, u8)>(), 200..500),
        capacity in prop_oneof![Just(256), Just(1_024), Just(4_096)],
        skipped in 0..5_000_u64,
        key: u64,
    ) {
        const WINDOW: u64 = 90;
        let key = CoefficientKey::new(key);
        let mut encoder = window::Encoder::new(BYTES, 2 * WINDOW as usize, key).unwrap();
        let mut decoder = window::Decoder::new(BYTES, capacity, key).unwrap();
        for _ in 0..skipped {
            let id = encoder.push(&source(encoder.next())).unwrap();
            decoder.push_source(id, &source(id));
            decoder.release(decoder.next_in_order());
            encoder.trim(encoder.next());
        }
        for (step, (lost, repair_lost, dice)) in losses.into_iter().enumerate() {
            let id = encoder.push(&source(encoder.next())).unwrap();
            if !lost || dice < 96 {
                decoder.push_source(id, &source(id));
            }
            if !repair_lost && dice % 2 == 0 {
                let start = encoder.next().saturating_sub(WINDOW).max(encoder.first());
                let mut payload = Vec::new();
                encoder.repair(step as u64, start..encoder.next(), &mut payload).unwrap();
                decoder.push_repair(step as u64, start..encoder.next(), &payload);
            }
            if encoder.next() - encoder.first() > WINDOW {
                encoder.trim(encoder.next() - WINDOW);
                decoder.skip_to(encoder.first());
            }
            while let Some(id) = decoder.poll_decoded() {
                prop_assert_eq!(decoder.get(id), Some(&padded(id)[..]));
            }
            if dice % 3 == 0 {
                decoder.release(decoder.next_in_order());
            }
        }
    }

    /// Grows, and gives memory back at any moment: nothing else changes.
    #[test]
    fn window_decoder_that_gives_memory_back_knows_the_same(
        steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 50..300),
        key: u64,
    ) {
        const WINDOW: usize = 120;
        let key = CoefficientKey::new(key);
        let mut encoder = window::Encoder::new(BYTES, WINDOW, key).unwrap();
        let mut plain = window::Decoder::new(BYTES, 2 * WINDOW, key).unwrap();
        let mut thrifty = plain.clone();
        let mut heard = 0;
        for (step, (fate, burst, dice)) in steps.into_iter().enumerate() {
            // Up to sixteen at once, so that the ring grows by any number of steps.
            for at in 0..=burst / 16 {
                let Ok(id) = encoder.push(&source(encoder.next())) else { break };
                if (fate.wrapping_mul(at + 3)) % 4 != 0 {
                    let symbol = source(id);
                    heard = id + 1;
                    prop_assert_eq!(plain.push_source(id, &symbol), thrifty.push_source(id, &symbol));
                }
            }
            let range = encoder.first()..encoder.next();
            for repair in 0..u64::from(dice % 8) {
                let (repair, mut payload) = (8 * step as u64 + repair, Vec::new());
                if encoder.repair(repair, range.clone(), &mut payload).is_ok() {
                    heard = range.end;
                    let told = plain.push_repair(repair, range.clone(), &payload);
                    prop_assert_eq!(told, thrifty.push_repair(repair, range.clone(), &payload));
                }
            }
            if dice >= 240 {
                // The sender gives up what is missing.
                encoder.trim(encoder.next());
                plain.skip_to(encoder.first());
                thrifty.skip_to(encoder.first());
            }
            let next = plain.next_in_order();
            prop_assert_eq!(next, thrifty.next_in_order());
            prop_assert_eq!((plain.rank(), plain.seen()), (thrifty.rank(), thrifty.seen()));
            let missing = |decoder: &window::Decoder| decoder.missing(0..heard).collect::<Vec<_>>();
            prop_assert_eq!(missing(&plain), missing(&thrifty));
            for id in encoder.first()..encoder.next() {
                prop_assert_eq!(plain.get(id), thrifty.get(id));
            }
            while let Some(id) = plain.poll_decoded() {
                prop_assert_eq!(Some(id), thrifty.poll_decoded());
            }
            plain.release(next);
            thrifty.release(next);
            encoder.trim(next);
            if dice % 3 == 0 {
                thrifty.forget(encoder.first());
                encoder.shrink(0);
            }
        }
        // All of it arrives.
        for id in encoder.first()..encoder.next() {
            prop_assert_eq!(plain.push_source(id, &source(id)), thrifty.push_source(id, &source(id)));
        }
        thrifty.release(encoder.next());
        thrifty.forget(encoder.next());
        encoder.trim(encoder.next());
        encoder.shrink(0);
        prop_assert!(thrifty.bytes() < 3_000, "{} bytes", thrifty.bytes());
        prop_assert!(encoder.bytes() < 100, "{} bytes", encoder.bytes());
    }
}

#[test]
fn coders_take_no_more_memory_than_they_may() {
    let key = CoefficientKey::new(1);
    let mut encoder = window::Encoder::new(1_000, 1_024, key).unwrap();
    let mut decoder = window::Decoder::new(1_000, 1_024, key).unwrap();
    encoder.set_memory(100_000);
    decoder.set_memory(100_000);
    while !encoder.is_full() {
        encoder.push(&[1; 1_000]).unwrap();
    }
    assert!(encoder.bytes() <= 100_000 && encoder.next() == 64, "{}", encoder.bytes());
    let taken = (1..200).filter(|&id| decoder.push_source(id, &[1; 1_000]) == Outcome::Innovative);
    assert_eq!(taken.count(), 63, "as many as there is room for behind the one that is missing");
    assert!(decoder.bytes() <= 100_000, "{}", decoder.bytes());
    // The window moves on in what it has.
    for id in 0..500 {
        decoder.push_source(id, &[1; 1_000]);
        decoder.release(decoder.next_in_order());
    }
    assert_eq!(decoder.next_in_order(), 500);
    assert!(decoder.bytes() <= 100_000, "{}", decoder.bytes());
}
