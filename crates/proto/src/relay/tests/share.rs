//! The useful share of frames heard, on the slot model of the design: four transmitters of 1
//! Mbit/s, each frame heard by one receiver or by none.

use std::cell::Cell;
use std::rc::Rc;

use units::{Duration, Rng};

use super::super::*;
use super::field::{Field, MS};

/// Returns the part of the coded frames heard that told the destination something new, and the same
/// of what could be heard.
fn share(form: RelayForm, reception: f64, feedback: Duration, seed: u64) -> [f64; 2] {
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
    field.offer(Side::Ground, 12_000, longest_datagram(4));
    field.run(5_000 * MS);
    let before = (field.status(Side::Air, 0).received.useful, heard.get());
    field.run(30_000 * MS);
    let useful = field.status(Side::Air, 0).received.useful - before.0;
    assert!(!field.post(Side::Ground, 0).offered.is_empty(), "the load is without end");
    let slots = 30.0 * 1e6 / (8.0 * 1_472.0);
    [useful as f64 / (heard.get() - before.1) as f64, useful as f64 / (4.0 * slots * reception)]
}

/// What passes from the decision until a report tells of a frame without any delay of the radio: 4
/// ms until the frame before has left, 12 ms on the air, up to 10 ms until the report leaves, 1 ms
/// until it is there.
const AIR: u32 = 24;

#[test]
fn ranked_wastes_next_to_nothing_of_what_is_heard() {
    let form = RelayForm::Ranked { f: Some(8) };
    let points = [24, 48].map(|feedback| [0.8, 0.5, 0.2].map(|reception| (feedback, reception)));
    let mut short = Vec::new();
    for (feedback, reception) in points.concat() {
        let [heard, all] = share(form, reception, (feedback - AIR) * MS, 1);
        println!("ranked f = 8, {feedback} ms, {reception}: {heard:.3}, {all:.3} of all");
        // The aim is 0.98 everywhere. With 48 ms eight generations are too few for it here: reports
        // wait for up to 10 ms besides. As many as the form itself takes are enough, see below.
        let least = if feedback < 48 { 0.98 } else { 0.96 };
        if heard < least || all < least {
            short.push((feedback, reception, heard, all));
        }
    }
    assert!(short.is_empty(), "{short:?}");
}

#[test]
fn ranked_finds_as_many_generations_as_it_needs() {
    for feedback in [24, 48, 200] {
        let [heard, all] = share(RelayForm::Ranked { f: None }, 0.5, (feedback - AIR) * MS, 2);
        println!("ranked, {feedback} ms: {heard:.3}, {all:.3} of all");
        // Beyond some 200 ms the 64 generations that may be open are too few.
        let least = if feedback < 200 { 0.98 } else { 0.9 };
        assert!(heard >= least && all >= least, "{feedback} ms: {heard:.3} {all:.3}");
    }
}

#[test]
fn published_wastes_what_its_paper_leaves_open() {
    for (reception, near) in [(0.8, 0.74), (0.5, 0.45), (0.2, 0.31)] {
        let form = RelayForm::Published { f: Some(2), r: 10 };
        let [heard, all] = share(form, reception, (24 - AIR) * MS, 3);
        println!("published f = 2, {reception}: {heard:.3}, {all:.3} of all, in the design {near}");
        assert!(all < 0.9, "{reception}: {all:.3}");
    }
}
