//! What TCP makes of recordings that a person can read.

use netem::{SlotMatrix, SlotRow, SlotTrace};
use units::{Duration, Instant};
use world::tcp::Congestion;

use super::command::Prediction;
use super::model::{Around, Over, best, play, regions};
use super::stretches::{Positions, Stretch, stretches};
use super::waiting::Waiting;

const AROUND: Around = Around {
    congestion: Congestion::Cubic,
    payload_bytes: 1_448,
    delay: Duration::from_millis(5),
    region: Duration::from_secs(1),
    queue: None,
};

/// Transmitter, receiver, and in which slots it is heard.
type Heard<'a> = (&'a str, &'a str, &'a dyn Fn(usize) -> bool);

/// Slots of 10 ms; each row is heard where its function says.
fn matrix(slots: usize, rows: &[Heard<'_>]) -> SlotMatrix {
    let row = |(from, to, heard): &Heard<'_>| SlotRow {
        from: (*from).to_owned(),
        to: (*to).to_owned(),
        trace: SlotTrace::new((0..slots).map(heard).collect()).into(),
    };
    SlotMatrix::new(Duration::from_millis(10), rows.iter().map(row).collect()).unwrap()
}

/// Returns how many packets of TCP have arrived in the end.
fn last(played: &[u64]) -> u64 {
    played.last().unwrap() / AROUND.payload_bytes
}

#[test]
fn over_an_ideal_code_tcp_takes_every_packet_that_is_heard_but_for_the_start() {
    // Two transmitters, each heard half of the time, now together and now in turn.
    let half = matrix(
        6_000,
        &[("m1", "r1", &|slot| slot % 2 == 0), ("m2", "r2", &|slot| slot / 16 % 2 == 0)],
    );
    let arrived = last(&play(&half, &Over::Coded, &AROUND));
    assert!((5_950..=6_008).contains(&arrived), "{arrived} of 6,008");
    // The same matrix makes the same figure.
    assert_eq!(arrived, last(&play(&half, &Over::Coded, &AROUND)));
}

#[test]
fn one_pair_repeats_until_a_slot_lets_a_packet_through_and_knows_nothing_of_the_others() {
    let both =
        matrix(6_000, &[("m1", "r1", &|slot| slot % 3 == 0), ("m2", "r2", &|slot| slot % 2 == 0)]);
    let row = best(&both).unwrap();
    assert_eq!((row.from.as_str(), row.to.as_str()), ("m2", "r2"));
    let arrived = last(&play(&both, &Over::Pair(row), &AROUND));
    // One was on its way when the recording began.
    assert!((2_900..=3_001).contains(&arrived), "{arrived} of 3,000");
}

#[test]
fn silences_of_two_seconds_cost_a_repeat_now_and_then_over_an_ideal_code() {
    let gaps = matrix(6_000, &[("m1", "r1", &|slot| slot % 1_000 < 800)]);
    let arrived = last(&play(&gaps, &Over::Coded, &AROUND));
    assert!((4_750..=4_800).contains(&arrived), "{arrived} of 4,800");
}

#[test]
fn a_pair_is_found_again_at_once_after_a_minute_of_silence() {
    let heard = |slot: usize| !(1_000..7_000).contains(&slot);
    let back = matrix(8_000, &[("m1", "r1", &heard)]);
    let played = play(&back, &Over::Pair(best(&back).unwrap()), &AROUND);
    let packets = |slot: usize| played[slot] / AROUND.payload_bytes;
    // A packet of 1,500 bytes at 10 kbit/s every 1.2 s; TCP alone would wait for up to a minute.
    let soon = packets(7_200) - packets(6_999);
    assert!(soon > 40, "{soon} packets within 2 s");
    assert!(packets(7_999) - packets(6_999) > 800);
}

#[test]
fn what_nobody_hears_does_not_arrive() {
    let silent = matrix(300, &[("m1", "r1", &|_| false)]);
    for over in [Over::Coded, Over::Pair(best(&silent).unwrap())] {
        // But for what was on its way when the recording began.
        assert!(last(&play(&silent, &over, &AROUND)) <= 1, "{over:?}");
    }
    let prediction = Prediction::of(&silent, None, &AROUND);
    assert!(prediction.table().contains("no pass: nothing was heard"));
}

#[test]
fn acknowledgements_pass_near_what_was_heard_and_nowhere_else() {
    let heard: Vec<u16> = (0..12).map(|slot| u16::from([0, 5, 6, 11].contains(&slot))).collect();
    let slots = |reach: u64| -> String {
        let [slot, reach] = [10, reach].map(Duration::from_millis);
        let near = regions(&heard, slot, reach).into_iter();
        near.map(|connected| if connected { '1' } else { '0' }).collect()
    };
    assert_eq!(slots(9), "100001100001");
    assert_eq!(slots(10), "110011110011");
    assert_eq!(slots(25), "111111111111");
    assert_eq!(slots(u64::MAX / 1_000_000), "111111111111");
}

#[test]
fn a_radio_drops_what_comes_while_too_many_wait() {
    let now = Instant::from_millis(10);
    let mut radio = Waiting::radio(3);
    [1, 2, 3, 1, 4].into_iter().for_each(|packet| radio.push(now, vec![packet]));
    let left: Vec<_> = core::iter::from_fn(|| radio.pop(now)).flatten().collect();
    assert_eq!(left, [1, 2, 3]);
}

#[test]
fn passes_are_rows_of_one_region_or_stretches_between_silences() {
    let heard = |slot: usize| (100..300).contains(&slot) || (900..1_000).contains(&slot);
    let matrix = matrix(1_200, &[("m1", "r1", &heard)]);
    let pass = |region: &str, from, to| Stretch { region: region.to_owned(), from, to };
    let counts: Vec<u16> = (0..1_200).map(|slot| u16::from(heard(slot))).collect();
    assert_eq!(stretches(&counts, 500), [pass("1", 100, 300), pass("2", 900, 1_000)]);
    assert_eq!(stretches(&counts, 601), [pass("1", 100, 1_000)]);
    let course = "time_s,region,ground_speed_mps\n0,,20\n0.5,A,20\n1.5,A,30\n3.5,,20\n8,B,15\n";
    let positions = Positions::parse(course, "c.csv").unwrap();
    assert_eq!(positions.passes(&matrix), [pass("A", 50, 350), pass("B", 800, 1_200)]);
    let prediction = Prediction::of(&matrix, Some(&positions), &AROUND);
    let first = &prediction.passes[0];
    // From 0.5 s on: packets were heard in its second second and the one after, at 20 and 30 m/s.
    assert_eq!((first.heard.bytes, first.heard.seconds), (200 * 1_472, 3.0));
    assert_eq!(first.heard.range_m, Some(80.0));
    assert!(first.efficiency.unwrap() > 0.8, "{first:?}");
}

#[test]
fn mistakes_of_a_table_of_positions_are_told_with_file_and_line() {
    for (text, expected) in [
        ("time_s\n0\n", "c.csv:1: no column region; there are time_s"),
        ("time_s,region\n0,A\nx,A\n", "c.csv:3: time_s must be a number, is \"x\""),
        ("time_s,region\n1,A\n1,A\n", "c.csv:3: time_s: 1 must be 0 or later, and later than"),
        ("time_s,region,ground_speed_mps\n1,A,-1\n", "c.csv:2: ground_speed_mps: is below 0"),
    ] {
        let error = Positions::parse(text, "c.csv").unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
