//! The useful share of frames heard, on the slot model of the design: four transmitters of 1 Mbit/s, each frame heard by one
//! receiver or by none.

use std::cell::Cell;
use std::rc::Rc;

use units::{Duration, Rng};

use super::super::*;
use super::field::{Field, MS};

/// Returns the part of the coded frames heard that told the destination something new.
fn share(form: RelayForm, reception: f64, feedback: Duration, seed: u64) -> f64 {
    let mut field = Field::new(form, [4, 4], 1.0, seed);
    let heard = Rc::new(Cell::new(0_u64));
    let (counts, mut rng) = (heard.clone(), Rng::new(seed));
    // What becomes of a frame is drawn once, when its first hearer is asked.
    let mut drawn = (0, false);
    field.hears = Box::new(move |shot| {
        if !shot.is_coded() {
            return true;
        }
        if drawn.0 != shot.number {
            drawn = (shot.number, rng.chance(reception));
            counts.set(counts.get() + u64::from(drawn.1));
        }
        drawn.1 && shot.to.number == shot.from.number
    });
    field.radio_delay[Side::Air as usize] = feedback;
    field.run(1_000 * MS);
    field.offer(Side::Ground, 12_000, 1_414);
    field.run(5_000 * MS);
    let before = (field.status(Side::Air, 0).received.useful, heard.get());
    field.run(30_000 * MS);
    let useful = field.status(Side::Air, 0).received.useful - before.0;
    assert!(!field.post(Side::Ground, 0).offered.is_empty(), "the load is without end");
    useful as f64 / (heard.get() - before.1) as f64
}

#[test]
fn ranked_wastes_next_to_nothing_of_what_is_heard() {
    for feedback in [24, 48] {
        for reception in [0.8, 0.5, 0.2] {
            let share = share(RelayForm::Ranked { f: Some(8) }, reception, feedback * MS, 1);
            println!("ranked f = 8, {feedback} ms, {reception}: {share:.3}");
            assert!(share >= 0.98, "{feedback} ms, {reception}: {share:.3}");
        }
    }
}

#[test]
fn ranked_finds_as_many_generations_as_it_needs() {
    for feedback in [24, 48, 200] {
        let share = share(RelayForm::Ranked { f: None }, 0.5, feedback * MS, 2);
        println!("ranked, {feedback} ms: {share:.3}");
        assert!(share >= 0.98, "{feedback} ms: {share:.3}");
    }
}

#[test]
fn published_wastes_what_its_paper_leaves_open() {
    for (reception, near) in [(0.8, 0.74), (0.5, 0.45), (0.2, 0.31)] {
        let share = share(RelayForm::Published { f: Some(2), r: 10 }, reception, 24 * MS, 3);
        println!("published f = 2, {reception}: {share:.3}, in the design {near}");
        assert!((0.1..0.95).contains(&share));
    }
}
