//! Whole groups in virtual time.

mod field;
mod hostile;
mod session;
mod share;

use std::collections::BTreeSet;

use coding::block::{Decoder, Encoder, Recoder};
use coding::{CoefficientKey, Outcome};
use units::Duration;

use super::*;
use field::{Field, MS};

const RANKED: RelayForm = RelayForm::Ranked { f: None };
const PUBLISHED: RelayForm = RelayForm::Published { f: Some(2), r: 10 };
const SECOND: Duration = Duration::from_millis(1_000);

#[test]
fn a_generation_completes_through_any_one_transmitter_and_receiver() {
    for form in [RANKED, PUBLISHED] {
        for (tx, rx) in (1..=3).flat_map(|tx| (1..=3).map(move |rx| (tx, rx))) {
            for side in [Side::Ground, Side::Air] {
                let mut field = Field::new(form, [3, 3], 10.0, 1);
                field.hears = Box::new(move |shot| {
                    let (up, down) = if shot.from.side == side {
                        (shot.from.number, shot.to.number)
                    } else {
                        (shot.to.number, shot.from.number)
                    };
                    (up, down) == (tx, rx)
                });
                field.run(SECOND);
                let sent = field.offer(side, 6, 1_200);
                field.run(5 * SECOND);
                assert_eq!(field.came(side.other()), sent, "{form:?} {side} {tx} {rx}");
            }
        }
    }
}

#[test]
fn both_directions_carry_at_once_and_small_ones_overtake() {
    for form in [RANKED, PUBLISHED] {
        let mut field = Field::new(form, [2, 2], 2.0, 2);
        field.run(SECOND);
        let up = field.offer(Side::Ground, 200, 1_300);
        let down = field.offer(Side::Air, 200, 1_300);
        field.run(50 * MS);
        field.post(Side::Ground, 0).offered.push_front(vec![7; 150]);
        field.run(20 * MS);
        let came = field.came(Side::Air);
        assert!(came.contains(&vec![7; 150]) && came.len() < 100, "{form:?} {}", came.len());
        field.run(10 * SECOND);
        assert_eq!(field.came(Side::Ground), down, "{form:?}");
        assert_eq!(field.came(Side::Air).len(), up.len() + 1, "{form:?}");
    }
}

#[test]
fn relays_killed_and_started_again_mid_transfer_lose_nothing() {
    for seed in 0..2 {
        let mut field = Field::new(RANKED, [4, 4], 20.0, seed);
        let mut rng = units::Rng::new(seed);
        field.hears = Box::new(move |shot| !shot.is_coded() || rng.chance(0.7));
        field.run(SECOND);
        let sent = field.offer(Side::Ground, 20_000, 1_300);
        let mut longest_gap = Duration::ZERO;
        let mut came = (0, field.now);
        for step in 0..400_u16 {
            field.run(25 * MS);
            let pair = [(Side::Ground, 1), (Side::Ground, 3), (Side::Air, 2), (Side::Air, 4)];
            match step % 40 {
                10 => pair.map(|(side, number)| field.kill(field.at(side, number))),
                30 => pair.map(|(side, number)| field.start(field.at(side, number))),
                _ => [(); 4],
            };
            let count = field.post(Side::Air, 0).came.len();
            if count > came.0 {
                longest_gap = longest_gap.max(field.now.since(came.1));
                came = (count, field.now);
            }
        }
        assert_eq!(field.came(Side::Air), sent, "seed {seed}");
        assert!(longest_gap <= 200 * MS, "seed {seed}: {longest_gap:?}");
        let fates = &field.post(Side::Ground, 0).fates;
        assert!(fates.iter().all(|fate| fate.arrived) && fates.len() == 20_000);
    }
}

#[test]
fn the_share_of_each_follows_who_is_alive() {
    let mut field = Field::new(PUBLISHED, [4, 1], 10.0, 3);
    field.hears = Box::new(|shot| !shot.is_coded());
    field.run(SECOND);
    let shares = |field: &mut Field| {
        field.log = Some(Vec::new());
        field.offer(Side::Ground, 4, 1_000);
        field.run(100 * MS);
        let log = field.log.take().expect("it was kept");
        let shares = log.iter().filter_map(|(_, hop, bytes)| match frame::read_body(bytes) {
            Ok(frame::Body::Coded(coded)) if *hop == Hop::Wire && coded.node == frame::NOBODY => {
                Some(coded.share)
            }
            _ => None,
        });
        shares.collect::<BTreeSet<u8>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(shares(&mut field), [1]);
    field.kill(field.at(Side::Ground, 1));
    field.kill(field.at(Side::Ground, 2));
    field.run(1_500 * MS);
    field.hears = Box::new(|_| true);
    field.run(SECOND);
    assert_eq!(shares(&mut field), [2]);
    field.start(field.at(Side::Ground, 1));
    field.start(field.at(Side::Ground, 2));
    field.run(SECOND);
    assert_eq!(shares(&mut field), [1]);
}

#[test]
fn what_hangs_in_the_radio_is_given_up_and_told() {
    let mut field = Field::new(RANKED, [2, 2], 1.0, 4);
    field.run(SECOND);
    field.hears = Box::new(|_| false);
    field.offer(Side::Ground, 100, 1_000);
    field.run(2 * SECOND);
    let waits = field.post(Side::Ground, 0).offered.len();
    assert!(waits > 60, "it says blocked: {waits} of 100 wait");
    assert!(field.post(Side::Ground, 0).fates.is_empty());
    field.run(2 * SECOND);
    let fates = &field.post(Side::Ground, 0).fates;
    assert!(!fates.is_empty() && fates.iter().all(|fate| !fate.arrived));
    field.hears = Box::new(|_| true);
    field.run(5 * SECOND);
    let given_up = field.post(Side::Ground, 0).fates.iter().filter(|fate| !fate.arrived).count();
    let came = field.came(Side::Air).len();
    assert!(came + given_up >= 100 && came > 0, "{came} came, {given_up} were given up");
}

#[test]
fn a_report_that_was_lost_comes_again_when_what_is_over_is_heard() {
    for form in [RANKED, PUBLISHED] {
        let mut field = Field::new(form, [2, 2], 5.0, 6);
        field.run(SECOND);
        // Radios of which nothing was reported yet get little.
        let mut sent = field.offer(Side::Ground, 8, 1_200);
        field.run(500 * MS);
        assert_eq!(field.post(Side::Ground, 0).fates.len(), 8, "{form:?}");
        field.post(Side::Ground, 0).fates.clear();
        field.hears = Box::new(|shot| shot.from.side == Side::Ground);
        sent.extend(field.offer(Side::Ground, 8, 1_200));
        field.run(500 * MS);
        assert_eq!(field.came(Side::Air), sent, "{form:?}");
        assert!(field.post(Side::Ground, 0).fates.is_empty(), "{form:?}: nobody has told");
        field.hears = Box::new(|_| true);
        field.run(500 * MS);
        let fates = &field.post(Side::Ground, 0).fates;
        assert!(fates.iter().all(|fate| fate.arrived) && fates.len() == 8, "{form:?} {fates:?}");
        assert_eq!(field.came(Side::Air), sent, "{form:?}: each once");
    }
}

#[test]
fn a_generation_of_which_the_destination_gains_is_not_given_up() {
    let mut field = Field::new(RANKED, [1, 1], 1.0, 7);
    field.run(SECOND);
    // One in a second or so: the four packets of a generation take longer than it may stand still.
    let mut frames = 0_u32;
    field.hears = Box::new(move |shot| {
        frames += u32::from(shot.is_coded());
        !shot.is_coded() || u32::is_multiple_of(frames, 100)
    });
    let sent = field.offer(Side::Ground, 4, 1_300);
    field.run(8 * SECOND);
    assert_eq!(field.came(Side::Air), sent);
    let fates = &field.post(Side::Ground, 0).fates;
    assert!(fates.iter().all(|fate| fate.arrived) && fates.len() == 4, "{fates:?}");
}

#[test]
fn a_gateway_that_starts_again_begins_anew_and_is_understood() {
    for (form, side) in [(RANKED, Side::Ground), (RANKED, Side::Air), (PUBLISHED, Side::Ground)] {
        let mut field = Field::new(form, [2, 2], 5.0, 5);
        field.run(SECOND);
        field.offer(Side::Ground, 300, 1_000);
        field.run(SECOND);
        field.start(field.at(side, 0));
        field.run(SECOND);
        let sent = field.offer(Side::Ground, 300, 1_000);
        field.run(5 * SECOND);
        let came = field.came(Side::Air);
        assert!(sent.is_subset(&came), "{form:?} {side}: {}", came.len());
        if form == RANKED {
            let dropped = [1, 2].map(|number| field.status(Side::Ground, number).relayed.dropped);
            assert_eq!(dropped, [0, 0], "orders keep to the room that there is");
        }
    }
}

#[test]
fn a_gateway_and_its_only_relay_that_start_again_together_are_understood() {
    for form in [RANKED, PUBLISHED] {
        let mut field = Field::new(form, [1, 1], 5.0, 5);
        field.run(SECOND);
        field.offer(Side::Ground, 300, 1_000);
        field.hears = Box::new(|shot| !shot.is_coded() || shot.number % 3 == 0);
        field.run(150 * MS);
        // The other end reports of the source that has ended before it hears of the new one, which
        // its relay has heard of.
        field.hears = Box::new(|shot| shot.from.side == Side::Air || !shot.is_coded());
        let restarted = [0, 1].map(|number| field.at(Side::Ground, number));
        restarted.into_iter().for_each(|at| field.start(at));
        let sent = field.offer(Side::Ground, 300, 1_000);
        field.run(2 * SECOND);
        field.hears = Box::new(|_| true);
        field.run(5 * SECOND);
        let came = field.came(Side::Air);
        let given_up = field.status(Side::Ground, 0).sent.given_up as usize;
        let missing = sent.difference(&came).count();
        assert!(missing <= given_up, "{form:?}: {missing} are missing, {given_up} were given up");
        assert!(missing < 100, "{form:?}: {missing}");
    }
}

#[test]
fn to_a_relay_reports_of_a_source_that_has_ended_make_no_source() {
    let rate = units::Rate::from_mbps(5.0);
    let mut relay = repeater::Repeater::new(Side::Ground, 1, rate, 1);
    let header = |side, number, hop| frame::Header {
        sender: NodeName { side, number },
        hop,
        direction: Side::Ground,
        boot: 1,
        counter: 1,
    };
    let at = units::Instant::from_millis;
    let mut small = |ms, source, number| {
        let body = frame::Body::Small { source, number, datagram: vec![1; 100] };
        relay.handle(at(ms), Hop::Wire, &header(Side::Ground, 0, Hop::Wire), body)
    };
    assert_eq!((small(0, 1, 0), small(1, 2, 0)), (Ok(()), Ok(())));
    assert_eq!(small(2, 1, 1), Err(Refusal::Stale), "the gateway has begun anew");
    for (ms, source, outcome) in
        [(3, 1, Err(Refusal::Stale)), (4, 9, Err(Refusal::Stale)), (5, 2, Ok(()))]
    {
        let ranks = frame::Ranks {
            source,
            destination: 7,
            number: ms as u32,
            floor: 0,
            ranks: vec![1],
            heard: Vec::new(),
        };
        let header = header(Side::Air, 1, Hop::Radio);
        let said = relay.handle(at(ms), Hop::Radio, &header, frame::Body::Ranks(ranks));
        assert_eq!(said, outcome, "of {source}");
    }
    let body = frame::Body::Small { source: 2, number: 1, datagram: vec![1; 100] };
    let header = header(Side::Ground, 0, Hop::Wire);
    assert_eq!(relay.handle(at(6), Hop::Wire, &header, body), Ok(()));
}

#[test]
fn small_datagrams_beyond_the_rate_of_a_radio_take_its_room_no_longer_than_they_last() {
    let at = units::Instant::from_millis;
    let rate = units::Rate::from_mbps(1.0);
    let mut relay = repeater::Repeater::new(Side::Ground, 1, rate, 1);
    let rested = relay.state(at(0)).room;
    for ms in 0..1_000 {
        (0..3).for_each(|_| relay.on_radio(at(ms), 200));
    }
    assert_eq!((relay.state(at(1_000)).room, relay.state(at(1_200)).room), (0, rested));
}

/// P(a combination innovates) when the receiver lacks one: 1 − (q^(r−1) − 1) / (q^r − 1), r what
/// the sender holds.
#[test]
fn two_hops_of_recoding_innovate_as_theory_says() {
    const K: usize = 4;
    const RUNS: u64 = 40_000;
    let key = CoefficientKey::new(1);
    let mut source = Encoder::new(K, 8, key).unwrap();
    (0..K).for_each(|at| assert!(source.push(&[at as u8 + 1; 8]).is_ok()));
    let mut whole = 0;
    for run in 0..RUNS {
        let key = CoefficientKey::new(run);
        let mut tx = Recoder::new(K, 8, key.for_block(1)).unwrap();
        (0..K).for_each(|at| {
            assert!(tx.push_source(at, source.symbol(at).unwrap()) == Outcome::Innovative)
        });
        let mut rx = Recoder::new(K, 8, key.for_block(2)).unwrap();
        let mut sink = Decoder::new(K, 8, CoefficientKey::new(0)).unwrap();
        let all = (0..K).all(|_| {
            let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
            tx.recode(&mut coefficients, &mut payload);
            let first = rx.push_coded(&coefficients, &payload) == Outcome::Innovative;
            let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
            rx.recode(&mut coefficients, &mut payload);
            first & (sink.push_coded(&coefficients, &payload) == Outcome::Innovative)
        });
        whole += u64::from(all);
    }
    let q = 256.0_f64;
    // The transmitter has all k, the receiver lacks k − held; the receiver has one more than the
    // destination.
    let first = (0..K as i32).map(|held| 1.0 - (q.powi(held) - 1.0) / (q.powi(K as i32) - 1.0));
    let second = (1..=K as i32).map(|held| 1.0 - (q.powi(held - 1) - 1.0) / (q.powi(held) - 1.0));
    let expected: f64 = first.chain(second).product();
    let (share, runs) = (whole as f64 / RUNS as f64, RUNS as f64);
    let deviation = (expected * (1.0 - expected) / runs).sqrt();
    assert!((share - expected).abs() < 4.0 * deviation, "{share} of {expected} ± {deviation}");
}

#[test]
fn random_scripts_of_the_fuzz_targets_find_nothing() {
    let mut rng = units::Rng::new(1);
    for run in 0..300 {
        let mut script = vec![0; 200 + run];
        rng.fill(&mut script);
        crate::fuzzing::relay_frames(&script);
        crate::fuzzing::relay_group(&script[..100]);
    }
}

/// What the fuzz target found (fuzz/corpus/relay_group): the last report passed every relay, and
/// was lost between one and its gateway.
#[test]
fn a_report_that_only_the_gateway_missed_comes_again() {
    let script = "6d6d6d6d0b558fffcfcfcfcfcfcf846640ff0096ddff006601d555ffddddddcdff25ddddfefd\
                  cdddffcf9d55ffff00cdcdcdcdcdcdfefdcdcdcdcdcdcdcdcdcdcdcdcdcdddfecdcdcdcdcdcdcd";
    let byte = |at: usize| u8::from_str_radix(&script[at..at + 2], 16).expect("two digits");
    let script: Vec<u8> = (0..script.len()).step_by(2).map(byte).collect();
    crate::fuzzing::relay_group(&script);
}
