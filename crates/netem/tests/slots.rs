//! Links and radios whose transmitters work slot by slot: exact times, and who hears what.

use fulmar_netem::{Arrival, Direction, DropCause, Instant, LinkEnd, Net, Scenario};

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;

/// Two masts and two receivers in the air; the second mast is heard later.
const FLIGHT: &str =
    "slot_ms 10\nm1 r1 1100000000\nm1 r2 0110000000\nm2 r1 0000110000\nm2 r2 0000011000\n";

/// Plays the recordings that the scenarios here name.
fn read(path: &str) -> Result<String, String> {
    match path {
        "all.01" => Ok("1".to_owned()),
        "holes.01" => Ok("1000010000".to_owned()),
        "late.01" => Ok("0000000010".to_owned()),
        "flight.slots" => Ok(FLIGHT.to_owned()),
        other => Err(format!("no file {other}")),
    }
}

fn net(text: &str) -> Net {
    let scenario = Scenario::from_toml_with(text, "slots.toml", &mut read);
    Net::new(&scenario.unwrap_or_else(|error| panic!("{error}")), 1)
}

/// Returns what becomes of a packet for each receiver: when it arrives, in ms, or why it does not.
fn fates(net: &mut Net, at_ms: f64, entry: LinkEnd, len: usize) -> Vec<Result<f64, DropCause>> {
    let at = Instant::from_nanos((at_ms * 1e6) as u64);
    let fate = |arrival: &Arrival| match arrival.verdict.dropped {
        Some(cause) => Err(cause),
        None => Ok(arrival.verdict.deliveries[0].at.as_nanos() as f64 / 1e6),
    };
    net.handle_packet(at, entry, len).iter().map(fate).collect()
}

fn fate(net: &mut Net, at_ms: f64, direction: Direction, len: usize) -> Result<f64, DropCause> {
    fates(net, at_ms, LinkEnd { link: 0, direction }, len)[0]
}

#[test]
fn one_large_packet_leaves_in_each_slot_beginning_at_its_edge() {
    let mut net = net(r#"
[[link]]
name = "radio"
between = ["a", "b"]
delay_ms = 1
[link.slots]
slot_ms = 10
"#);
    assert_eq!(fate(&mut net, 3.0, UP, 1_500), Ok(21.0), "from the edge at 10 to the one at 20");
    assert_eq!(fate(&mut net, 4.0, UP, 201), Ok(31.0), "a slot each, however long it is");
    assert_eq!(fate(&mut net, 40.0, UP, 9_000), Ok(51.0), "an edge is of its own slot");
    assert_eq!(fate(&mut net, 3.0, DOWN, 1_500), Ok(21.0), "the other way is another transmitter");
}

#[test]
fn small_packets_take_no_slot_and_wait_for_nothing() {
    let mut net = net(r#"
[[link]]
name = "radio"
between = ["a", "b"]
delay_ms = 1
queue_packets = 3
[link.slots]
slot_ms = 10
"#);
    let large: Vec<_> = (0..5).map(|_| fate(&mut net, 1.0, UP, 1_500)).collect();
    let full = Err(DropCause::Queue);
    assert_eq!(large, [Ok(21.0), Ok(31.0), Ok(41.0), full, full]);
    assert_eq!(fate(&mut net, 2.0, UP, 200), Ok(3.0), "past what waits");
    assert_eq!(fate(&mut net, 2.0, UP, 40), Ok(3.0));
    assert_eq!(fate(&mut net, 12.0, UP, 1_500), Ok(51.0), "and nobody waits for them");
}

#[test]
fn the_slot_in_which_a_packet_leaves_decides_about_it() {
    let mut net = net(r#"
[[link]]
name = "radio"
between = ["a", "b"]
[link.slots]
slot_ms = 10
[link.slot_loss]
file = "holes.01"
"#);
    // 1000010000: the slots from 0 and from 50 ms, and again 100 ms later.
    let lost = Err(DropCause::Loss);
    let fates: Vec<_> = (0..11).map(|_| fate(&mut net, 0.0, UP, 1_500)).collect();
    let mut expected = [lost; 11];
    for slot in [0, 5, 10] {
        expected[slot] = Ok(slot as f64 * 10.0 + 10.0);
    }
    assert_eq!(fates, expected);
}

#[test]
fn retries_hold_the_transmitter_until_a_slot_lets_the_packet_through_and_give_up_after_sixteen() {
    let scene = |file: &str| {
        net(&format!(
            r#"
[[link]]
name = "radio"
between = ["a", "b"]
retries = 15
[link.slots]
slot_ms = 10
[link.slot_loss]
file = "{file}"
"#
        ))
    };
    let mut holes = scene("holes.01");
    let out: Vec<_> = (0..4).map(|_| fate(&mut holes, 0.0, UP, 1_500)).collect();
    assert_eq!(out, [Ok(10.0), Ok(60.0), Ok(110.0), Ok(160.0)], "nothing is lost, in order");
    // A recording whose only 1 is 16 slots behind the first edge, and one slot less.
    let only = |behind: usize| {
        let mut digits = vec![b'0'; 40];
        digits[behind] = b'1';
        String::from_utf8(digits).expect("digits")
    };
    for (behind, expected) in [(15, Ok(160.0)), (16, Err(DropCause::Loss))] {
        let text = r#"
[[link]]
name = "radio"
between = ["a", "b"]
retries = 15
[link.slots]
slot_ms = 10
[link.slot_loss]
file = "only"
"#;
        let mut read = |_: &str| Ok(only(behind));
        let scenario = Scenario::from_toml_with(text, "s.toml", &mut read).expect("it reads");
        let mut net = Net::new(&scenario, 1);
        assert_eq!(fate(&mut net, 0.0, UP, 1_500), expected, "{behind}");
        // The next packet begins where the transmitter is free: after the 16th slot.
        let next = net.handle_packet(Instant::ZERO, LinkEnd { link: 0, direction: UP }, 1_500);
        assert_eq!(next[0].waited.as_millis(), 160);
    }
}

#[test]
fn small_packets_pass_where_any_clocked_link_is_connected_in_either_direction() {
    let mut net = net(r#"
[[link]]
name = "one"
between = ["a", "b"]
[link.slots]
slot_ms = 10
[link.from_a.slot_loss]
file = "holes.01"
region_ms = 10

[[link]]
name = "two"
between = ["a", "c"]
[link.slots]
slot_ms = 10
[link.from_c.slot_loss]
file = "late.01"
[link.from_a.slot_loss]
file = "holes.01"

[[link]]
name = "apart"
between = ["a", "d"]
[link.from_a.slot_loss]
file = "all.01"
slot_ms = 10
small_bytes = 200
[link.from_d.slot_loss]
file = "late.01"
slot_ms = 10
small_bytes = 200
"#);
    let mut passes = |link: usize, direction: Direction| -> String {
        let entry = LinkEnd { link, direction };
        // Each link and direction in a round of the recordings of its own.
        let round = (2 * link + usize::from(direction == DOWN)) as f64 * 100.0;
        let at = |slot: u32| round + f64::from(slot) * 10.0 + 4.0;
        let mut passes = |slot| fates(&mut net, at(slot), entry, 100)[0].is_ok();
        (0..10).map(|slot| if passes(slot) { '1' } else { '0' }).collect()
    };
    // 1000010000 reaches one slot to each side and over the seam; 0000000010 reaches no further.
    let whole = "1100111011";
    assert_eq!(passes(0, UP), whole);
    assert_eq!(passes(0, DOWN), "1111111111", "there is no recording of this direction");
    assert_eq!(passes(1, UP), whole);
    assert_eq!(passes(1, DOWN), whole);
    assert_eq!(passes(2, UP), "1111111111", "no clock: its own recording alone");
    assert_eq!(passes(2, DOWN), "0000000010");
}

#[test]
fn hosts_that_no_link_joins_have_regions_of_their_own() {
    let pair = |name: &str, ends: [&str; 2], file: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = {ends:?}\n[link.slots]\nslot_ms = 10\n\
             [link.slot_loss]\nfile = \"{file}\"\n"
        )
    };
    let passes = |text: &str| -> String {
        let (mut net, entry) = (net(text), LinkEnd { link: 0, direction: UP });
        let mut passes =
            |slot: u32| fates(&mut net, f64::from(slot) * 10.0 + 4.0, entry, 100)[0].is_ok();
        (0..10).map(|slot| if passes(slot) { '1' } else { '0' }).collect()
    };
    let one = pair("one", ["a", "b"], "late.01");
    let other = pair("other", ["c", "d"], "all.01");
    assert_eq!(passes(&(one.clone() + &other)), "0000000010");
    let between = "[[link]]\nname = \"between\"\nbetween = [\"b\", \"d\"]\n";
    assert_eq!(passes(&(one + &other + between)), "1111111111");
}

#[test]
fn an_outage_that_holds_stops_the_clock_and_small_packets() {
    let mut net = net(r#"
[[link]]
name = "radio"
between = ["a", "b"]
[link.slots]
slot_ms = 10
[[link.outage]]
start_s = 0.095
seconds = 0.02
mode = "hold"
"#);
    assert_eq!(fate(&mut net, 89.0, UP, 1_500), Ok(100.0), "it had begun");
    assert_eq!(fate(&mut net, 96.0, UP, 1_500), Ok(130.0));
    assert_eq!(fate(&mut net, 97.0, UP, 100), Ok(115.0));
    assert_eq!(fate(&mut net, 98.0, UP, 1_500), Ok(140.0));
}

#[test]
fn a_link_takes_a_row_of_a_matrix_and_small_packets_the_union_of_all() {
    let mut net = net(r#"
[[link]]
name = "radio"
between = ["station", "drone"]
[link.slots]
slot_ms = 10
[link.from_station.slot_loss]
matrix = "flight.slots"
from = "m1"
to = "r2"
[link.from_drone.slot_loss]
matrix = "flight.slots"
"#);
    let mut heard = |round: u32, direction: Direction, len: usize| -> String {
        let at = |slot: u32| f64::from(10 * round + slot) * 10.0;
        let mut heard = |slot: u32| fate(&mut net, at(slot), direction, len).is_ok();
        (0..10).map(|slot| if heard(slot) { '1' } else { '0' }).collect()
    };
    assert_eq!(heard(0, UP, 1_500), "0110000000");
    assert_eq!(heard(0, DOWN, 1_500), "0000000000", "no row: no large packet");
    assert_eq!([heard(1, UP, 200), heard(1, DOWN, 200)], ["1110111000"; 2]);
}

/// Who hears what a host of a radio sends, as far as it may: `(host, fate)` in the order of the
/// hosts.
fn heard(net: &mut Net, at_ms: f64, from: u8, len: usize) -> Vec<(usize, Result<f64, DropCause>)> {
    let entry = LinkEnd { link: 0, direction: Direction::Member(from) };
    let at = Instant::from_nanos((at_ms * 1e6) as u64);
    let hosts: Vec<usize> = {
        let receivers = net.receivers(entry).map(|(host, _)| host);
        receivers.collect()
    };
    let arrivals = net.handle_packet(at, entry, len);
    assert_eq!(arrivals.iter().map(|arrival| arrival.host).collect::<Vec<_>>(), hosts);
    let fate = |arrival: &Arrival| match arrival.verdict.dropped {
        Some(cause) => (arrival.host, Err(cause)),
        None => (arrival.host, Ok(arrival.verdict.deliveries[0].at.as_nanos() as f64 / 1e6)),
    };
    arrivals.iter().map(fate).collect()
}

const RADIO: &str = r#"
[[radio]]
name = "air"
hosts = ["m1", "m2", "r1", "r2"]
[radio.matrix]
file = "flight.slots"
"#;

#[test]
fn on_a_radio_each_is_heard_by_each_other_as_the_matrix_says() {
    let mut net = net(RADIO);
    let lost = Err(DropCause::Loss);
    // m1: 11 for r1, 011 for r2; the masts have not recorded each other.
    let of_m1: Vec<_> = (0..4).map(|_| heard(&mut net, 0.0, 0, 1_500)).collect();
    assert_eq!(of_m1[0], [(1, lost), (2, Ok(10.0)), (3, lost)]);
    assert_eq!(of_m1[1], [(1, lost), (2, Ok(20.0)), (3, Ok(20.0))]);
    assert_eq!(of_m1[2], [(1, lost), (2, lost), (3, Ok(30.0))]);
    assert_eq!(of_m1[3], [(1, lost), (2, lost), (3, lost)]);
    // Transmitters have slots of their own: m2 sends in the same slots, and is heard in its.
    assert_eq!(heard(&mut net, 41.0, 1, 1_500), [(0, lost), (2, Ok(60.0)), (3, Ok(60.0))]);
    assert_eq!(heard(&mut net, 41.0, 1, 1_500), [(0, lost), (2, lost), (3, Ok(70.0))]);
}

#[test]
fn on_a_radio_small_packets_pass_to_all_and_both_ways_where_anybody_is_connected() {
    let mut net = net(RADIO);
    let (now, lost) = (Ok(41.0), Err(DropCause::Loss));
    assert_eq!(heard(&mut net, 41.0, 0, 200), [(1, now), (2, now), (3, now)], "m2 is heard now");
    assert_eq!(heard(&mut net, 41.0, 3, 200), [(0, now), (1, now), (2, now)], "no row of r2");
    assert_eq!(heard(&mut net, 35.0, 0, 200), [(1, now), (2, now), (3, now)], "as before it");
    assert_eq!(heard(&mut net, 75.0, 0, 200), [(1, lost), (2, lost), (3, lost)]);
    assert_eq!(heard(&mut net, 75.0, 0, 201), [(1, lost), (2, lost), (3, lost)]);
}

#[test]
fn the_hosts_of_a_radio_may_have_other_names_than_in_its_matrix() {
    let mut net = net(r#"
[[radio]]
name = "air"
hosts = ["a", "b"]
[radio.matrix]
file = "flight.slots"
names = ["m2", "r2"]
"#);
    assert_eq!(heard(&mut net, 50.0, 0, 1_500), [(1, Ok(60.0))]);
    assert_eq!(heard(&mut net, 70.0, 0, 1_500), [(1, Err(DropCause::Loss))]);
}

#[test]
fn a_radio_without_a_matrix_is_a_wired_network_with_a_transmitter_for_each_host() {
    let mut net = net(r#"
[[link]]
name = "other"
between = ["a", "b"]

[[radio]]
name = "wire"
hosts = ["a", "b", "c"]
rate_mbps = 12
delay_ms = 1
"#);
    let mut send = |from: u8| {
        let entry = LinkEnd { link: 1, direction: Direction::Member(from) };
        fates(&mut net, 0.0, entry, 1_500)
    };
    assert_eq!(send(0), [Ok(2.0), Ok(2.0)]);
    assert_eq!(send(0), [Ok(3.0), Ok(3.0)]);
    assert_eq!(send(1), [Ok(2.0), Ok(2.0)], "the wires of others are free");
    assert!(send(3).is_empty(), "there are three");
    assert!(fates(&mut net, 0.0, LinkEnd { link: 1, direction: UP }, 9).is_empty());
}
