//! How often a symbol that a relay combined is innovative, against theory.
//!
//! A uniform combination from a space of dimension r is no news to a receiver that knows d of its
//! dimensions with probability 256^(d − r); a relay never sends the zero combination, which for r =
//! 4 changes the tenth digit.

use fulmar_coding::block::{Decoder, Recoder};
use fulmar_coding::{CoefficientKey, Outcome};

/// Feeds receivers from a relay of full rank; counts the symbols sent while one was missing, and
/// how many of these were redundant.
fn last_symbols(k: usize, receivers: u32, relay: &mut Recoder) -> (u32, u32) {
    let (mut sent, mut redundant) = (0, 0);
    let mut receiver = Decoder::new(k, 1, CoefficientKey::new(0)).expect("sizes that make sense");
    let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
    for _ in 0..receivers {
        receiver.reset(CoefficientKey::new(0));
        while !receiver.is_complete() {
            coefficients.clear();
            payload.clear();
            relay.recode(&mut coefficients, &mut payload);
            let missing = k - receiver.rank();
            let outcome = receiver.push_coded(&coefficients, &payload);
            if missing == 1 {
                sent += 1;
                redundant += u32::from(outcome == Outcome::Redundant);
            } else {
                // Two missing: one in 65,536.
                assert!(outcome == Outcome::Innovative || missing == 2);
            }
        }
    }
    (sent, redundant)
}

#[test]
fn recoded_symbols_are_innovative_as_often_as_theory_says() {
    for k in [2, 4, 16] {
        let mut relay = Recoder::new(k, 1, CoefficientKey::new(k as u64)).unwrap();
        for index in 0..k {
            assert_eq!(relay.push_source(index, &[index as u8]), Outcome::Innovative);
        }
        let (sent, redundant) = last_symbols(k, 12_000, &mut relay);
        let expected = f64::from(sent) / 256.0;
        // Five standard deviations of a binomial.
        let slack = 5.0 * expected.sqrt();
        assert!((f64::from(redundant) - expected).abs() < slack, "k {k}: {redundant} of {sent}");
    }
}

#[test]
fn a_relay_of_relays_keeps_the_rank() {
    let k = 8;
    let mut first = Recoder::new(k, 1, CoefficientKey::new(1)).unwrap();
    let mut second = Recoder::new(k, 1, CoefficientKey::new(2)).unwrap();
    let mut sink = Decoder::new(k, 1, CoefficientKey::new(0)).expect("sizes that make sense");
    for index in 0..k {
        first.push_source(index, &[0x40 + index as u8]);
    }
    let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
    let mut sent = 0;
    while !sink.is_complete() {
        for relay in 0..2 {
            coefficients.clear();
            payload.clear();
            if relay == 0 {
                first.recode(&mut coefficients, &mut payload);
                second.push_coded(&coefficients, &payload);
            } else {
                second.recode(&mut coefficients, &mut payload);
                sink.push_coded(&coefficients, &payload);
            }
        }
        assert!(sink.rank() <= second.rank());
        sent += 1;
        assert!(sent < 20, "eight symbols take about eight transmissions over both hops");
    }
    assert!((0..k).all(|index| sink.get(index) == Some(&[0x40 + index as u8][..])));
}
