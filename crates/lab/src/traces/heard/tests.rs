//! Recorded, converted, emulated, recorded: in virtual time, over the model that the emulator runs
//! in real time.

use std::collections::BTreeMap;
use std::sync::Arc;

use netem::{Direction, LinkEnd, Net, Scenario, SlotMatrix, SlotRow, SlotTrace};
use units::{Duration, Instant, Rng};

use super::ears::Ears;
use super::frame::Frame;
use super::log::{Entry, LOG_HEADER};
use super::{Heard, matrix};

const HOSTS: [&str; 8] = ["m1", "m2", "m3", "m4", "r1", "r2", "r3", "r4"];
const MASTS: usize = 4;
const SLOTS: u64 = 500;
const SLOT: Duration = Duration::from_micros(11_776);
/// The number of the slot that begins at time zero.
const BASE: u64 = 149_754_583_251;

/// What four masts and four receivers might have heard of each other.
fn flight(seed: u64) -> SlotMatrix {
    let mut rng = Rng::stream(seed, "a flight");
    let mut rows = Vec::new();
    for from in &HOSTS[..MASTS] {
        for to in HOSTS.iter().filter(|to| *to != from) {
            let share = rng.unit();
            let received = (0..SLOTS).map(|_| rng.chance(share)).collect();
            let (from, to) = ((*from).to_owned(), (*to).to_owned());
            rows.push(SlotRow { from, to, trace: Arc::new(SlotTrace::new(received)) });
        }
    }
    SlotMatrix::new(SLOT, rows).unwrap()
}

/// Flies a matrix: each mast sends in its slots, `late` after their edges, and all nodes write
/// their logs.
fn flown(flight: &SlotMatrix, sends: impl Fn(usize, u64) -> bool, late: Duration) -> Vec<String> {
    let scene = "[[radio]]\nname = \"air\"\nhosts = [\"m1\", \"m2\", \"m3\", \"m4\", \"r1\", \"r2\", \"r3\", \
                 \"r4\"]\nmatrix = { file = \"flight.slots\" }\n";
    let mut read = |_: &str| Ok(flight.to_text());
    let scenario = Scenario::from_toml_with(scene, "s.toml", &mut read).unwrap();
    let mut net = Net::new(&scenario, 1);
    let slot_ns = SLOT.as_nanos();
    let mut logs = HOSTS.map(|_| format!("{LOG_HEADER}\n"));
    let mut ears = HOSTS.map(|name| Ears::new(name, 1, slot_ns));
    for slot in 0..SLOTS {
        let at = Instant::from_nanos(slot * slot_ns) + late;
        for mast in (0..MASTS).filter(|&mast| sends(mast, slot)) {
            let (sender, number) = (HOSTS[mast], BASE + slot);
            let frame = Frame { sender: sender.to_owned(), boot: 7, slot: number, slot_ns };
            let mut write = |node: usize, sent: bool, at: Instant, frame: &Frame| {
                let entry = Entry {
                    time_ns: BASE * slot_ns + at.as_nanos(),
                    sent,
                    node: HOSTS[node],
                    sender: &frame.sender,
                    slot: frame.slot,
                    slot_ns,
                    position: None,
                };
                logs[node] += &(entry.to_line() + "\n");
            };
            write(mast, true, at, &frame);
            let entry = LinkEnd { link: 0, direction: Direction::Member(mast as u8) };
            for arrival in net.handle_packet(at, entry, frame.to_bytes().len() + 28) {
                let node = scenario.hosts[arrival.host].name.clone();
                let node = HOSTS.iter().position(|name| *name == node).unwrap();
                for delivery in &arrival.verdict.deliveries {
                    let heard = ears[node].hear(delivery.at, &frame.to_bytes()).unwrap();
                    write(node, false, delivery.at, &heard);
                }
            }
        }
    }
    logs.to_vec()
}

fn converted(logs: &[String]) -> (SlotMatrix, Vec<String>) {
    let mut heard = Heard::default();
    for (log, host) in logs.iter().zip(HOSTS) {
        heard.read(&mut log.as_bytes(), host).unwrap();
    }
    matrix(&heard).unwrap()
}

fn rows(matrix: &SlotMatrix) -> BTreeMap<(&str, &str), &[bool]> {
    let rows = matrix.rows().iter();
    rows.map(|row| ((&*row.from, &*row.to), row.trace.slots())).collect()
}

#[test]
fn what_was_recorded_and_is_flown_again_records_as_the_same_matrix() {
    for seed in 1..4 {
        let first = flight(seed);
        let (second, notes) = converted(&flown(&first, |_, _| true, Duration::ZERO));
        assert_eq!((rows(&second), &notes[..]), (rows(&first), &[][..]));
        // And so on, by the file that it is kept in.
        let kept = SlotMatrix::parse(&second.to_text(), "kept.slots").unwrap();
        let (third, _) = converted(&flown(&kept, |_, _| true, Duration::ZERO));
        assert_eq!(third.to_text(), second.to_text());
    }
}

#[test]
fn clocks_that_differ_by_part_of_a_slot_move_all_rows_alike() {
    let first = flight(9);
    // Each frame waits for the edge that comes next.
    let (second, _) = converted(&flown(&first, |_, _| true, SLOT / 3));
    for (pair, slots) in rows(&second) {
        let last = slots.len() - 1;
        assert_eq!(slots[..last], rows(&first)[&pair][1..], "{pair:?}");
    }
}

#[test]
fn slots_in_which_a_mast_is_silent_are_zeros_and_told() {
    let first = flight(5);
    // The masts begin one after the other, and the second is silent for a while.
    let sends = |mast: usize, slot: u64| slot >= 10 * mast as u64 && (mast != 1 || slot % 50 > 7);
    let (second, notes) = converted(&flown(&first, sends, Duration::ZERO));
    for (pair, slots) in rows(&second) {
        let mast = HOSTS.iter().position(|name| *name == pair.0).unwrap();
        for (slot, received) in slots.iter().enumerate() {
            let expected = rows(&first)[&pair][slot] && sends(mast, slot as u64);
            assert_eq!(*received, expected, "{pair:?} in slot {slot}");
        }
    }
    assert_eq!(notes[1], "m3 did not send in 20 of 500 slots: a 0 each");
}
