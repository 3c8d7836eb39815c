//! What links share: media, receivers of one transmission, groups; and the log of verdicts.

use fulmar_netem::{
    Arrival, Direction, DropCause, Duration, Instant, LinkEnd, Net, Protocol, Scenario,
    VERDICT_LOG_HEADER,
};
use std::fmt::Write as _;

const UP: Direction = Direction::Up;
const DOWN: Direction = Direction::Down;

fn net(text: &str) -> Net {
    Net::new(&Scenario::from_toml(text, "net.toml").expect("it is a scenario"), 1)
}

fn send(net: &mut Net, at_us: u64, link: usize, direction: Direction, len: usize) -> Vec<Arrival> {
    let at = Instant::from_micros(at_us);
    net.handle_packet(at, LinkEnd { link, direction }, len).into_vec()
}

fn arrival_us(arrivals: &[Arrival]) -> u64 {
    assert_eq!(arrivals[0].verdict.dropped, None);
    arrivals[0].verdict.deliveries[0].at.as_micros()
}

const SHARED_CHANNEL: &str = r#"
[[medium]]
name = "ch6"
gap_ms = 0.1
[[link]]
name = "air1"
between = ["a", "b"]
rate_mbps = 12
medium = "ch6"
[[link]]
name = "air2"
between = ["a", "c"]
rate_mbps = 6
medium = "ch6"
"#;

#[test]
fn both_directions_and_both_links_take_turns_on_a_medium() {
    let mut net = net(SHARED_CHANNEL);
    assert_eq!(arrival_us(&send(&mut net, 0, 0, UP, 1_500)), 1_000);
    assert_eq!(arrival_us(&send(&mut net, 0, 0, DOWN, 1_500)), 2_100);
    assert_eq!(arrival_us(&send(&mut net, 10, 1, UP, 1_500)), 4_200);
    assert_eq!(arrival_us(&send(&mut net, 9_000, 0, UP, 1_500)), 10_000);
}

#[test]
fn a_medium_never_carries_two_transmissions_at_once_and_is_used_fully() {
    let mut net = net(SHARED_CHANNEL);
    let mut busy = Vec::new();
    for i in 0..2_000_u64 {
        let (link, direction) = ((i % 2) as usize, if i % 3 == 0 { UP } else { DOWN });
        let len = 100 + (i as usize * 131) % 1_400;
        let end = Duration::from_micros(arrival_us(&send(&mut net, i * 50, link, direction, len)));
        let nanos = len as u64 * 8_000 / if link == 0 { 12 } else { 6 };
        busy.push((end.as_nanos() - nanos.min(end.as_nanos()), end.as_nanos()));
    }
    busy.sort_unstable();
    for pair in busy.windows(2) {
        // Microseconds are rounded down: a start may seem up to one early.
        assert!(pair[1].0 + 1_000 >= pair[0].1 + 100_000, "{pair:?}");
        assert!(pair[1].0 <= pair[0].1 + 102_000, "idle while packets wait: {pair:?}");
    }
}

#[test]
fn a_transmission_is_heard_by_all_receivers_with_fates_of_their_own() {
    let text = r#"
[[broadcast]]
name = "air"
from = "drone"
to = ["g1", "g2"]
rate_mbps = 12
queue_packets = 10
loss = 0.3
delay_ms = 1
[[broadcast.receiver]]
host = "g2"
delay_ms = 3
loss = 0.6
"#;
    let mut net = net(text);
    let (mut lost, mut both) = ([0_u32; 2], 0_u32);
    for i in 0..10_000 {
        let arrivals = send(&mut net, i * 2_000, 0, UP, 1_500);
        assert_eq!(arrivals.iter().map(|arrival| arrival.host).collect::<Vec<_>>(), [1, 2]);
        let fates: Vec<bool> = arrivals.iter().map(|one| one.verdict.dropped.is_some()).collect();
        for (count, lost) in lost.iter_mut().zip(&fates) {
            *count += u32::from(*lost);
        }
        both += u32::from(fates == [true, true]);
        for (arrival, delay) in arrivals.iter().zip([1_000, 3_000]) {
            if let Some(delivery) = arrival.verdict.deliveries.first() {
                assert_eq!(delivery.at.as_micros(), i * 2_000 + 1_000 + delay);
            }
        }
    }
    assert!(lost[0].abs_diff(3_000) < 150 && lost[1].abs_diff(6_000) < 150, "{lost:?}");
    assert!(both.abs_diff(1_800) < 150, "receivers lose independently: {both}");
    let entry = LinkEnd { link: 0, direction: UP };
    assert_eq!(net.receivers(entry).map(|(host, _)| host).collect::<Vec<_>>(), [1, 2]);
    assert!(send(&mut net, 30_000_000, 0, DOWN, 100).is_empty(), "receivers do not send");
}

#[test]
fn a_full_queue_drops_for_all_receivers() {
    let text = r#"
[[broadcast]]
name = "air"
from = "drone"
to = ["g1", "g2"]
rate_mbps = 1
queue_packets = 1
"#;
    let mut net = net(text);
    for _ in 0..2 {
        assert!(send(&mut net, 0, 0, UP, 1_000).iter().all(|one| one.verdict.dropped.is_none()));
    }
    let third = send(&mut net, 0, 0, UP, 1_000);
    assert!(third.iter().all(|one| one.verdict.dropped == Some(DropCause::Queue)));
    assert_eq!(third.len(), 2);
}

const TOWER: &str = r#"
[[group]]
name = "tower"
[group.burst_loss]
good_ms = 800
bad_ms = 200
[[group.outage]]
start_s = 100
seconds = 5
mode = "drop"
[[group.outage]]
start_s = 200
seconds = 5
mode = "hold"
[[link]]
name = "lte1"
between = ["drone", "station"]
groups = ["tower"]
[[link]]
name = "lte2"
between = ["drone", "station"]
groups = ["tower"]
delay_ms = 20
[[link]]
name = "wifi"
between = ["drone", "station"]
[link.burst_loss]
good_ms = 800
bad_ms = 200
"#;

#[test]
fn links_of_a_group_lose_at_the_same_times_and_others_do_not() {
    let mut net = net(TOWER);
    let mut lost = [0_u32; 3];
    let (mut together, mut with_wifi) = (0_u32, 0_u32);
    for i in 0..95_000_u64 {
        let fates = [0, 1, 2].map(|link| {
            // The second link is asked at other instants, and for fewer packets.
            let arrivals = send(&mut net, i * 1_000, link, UP, 100);
            arrivals[0].verdict.dropped
        });
        assert_eq!(fates[0], fates[1], "packet {i}");
        assert!(fates[0].is_none_or(|cause| cause == DropCause::SharedLoss));
        for (count, fate) in lost.iter_mut().zip(fates) {
            *count += u32::from(fate.is_some());
        }
        together += u32::from(fates[0].is_some() && fates[1].is_some());
        with_wifi += u32::from(fates[0].is_some() && fates[2].is_some());
    }
    assert!(lost[0].abs_diff(19_000) < 5_000, "{lost:?}");
    assert_eq!(together, lost[0]);
    assert!(with_wifi < lost[0] / 2, "wifi fails on its own: {with_wifi} of {lost:?}");
}

#[test]
fn outages_of_a_group_hit_all_its_links() {
    let text = TOWER.replace("bad_ms = 200\n[[group.outage]]", "bad_ms = 0\n[[group.outage]]");
    let mut net = net(&text);
    for link in 0..2 {
        let arrivals = send(&mut net, 101_000_000, link, UP, 100);
        assert_eq!(arrivals[0].verdict.dropped, Some(DropCause::Outage));
    }
    assert_eq!(arrival_us(&send(&mut net, 201_000_000, 0, DOWN, 100)), 205_000_000);
    assert_eq!(arrival_us(&send(&mut net, 201_000_000, 1, DOWN, 100)), 205_020_000);
}

/// The log of a net with most features, compared with the one that is checked in: a change of any
/// verdict shows as a difference of lines.
#[test]
fn the_log_of_verdicts_is_as_it_was() {
    let text = r#"
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
jitter_ms = 3
rate_mbps = 2
queue_packets = 2
loss = 0.1
duplicate = 0.1
duplicate_lag_ms = 0.5
reorder = 0.1
reorder_lag_ms = 8
corrupt = 0.1
[[link.outage]]
start_s = 0.04
seconds = 0.01
mode = "drop"
[[link.outage]]
start_s = 0.06
seconds = 0.02
mode = "hold"
queue_packets = 4
[link.down.burst_loss]
to_bad = 0.2
to_good = 0.4
"#;
    let mut net = net(text);
    let mut log = format!("{VERDICT_LOG_HEADER}\n");
    for i in 0..60_u64 {
        let entry = LinkEnd { link: 0, direction: if i % 4 == 3 { DOWN } else { UP } };
        let (at, len) = (Instant::from_micros(i * 1_700), 300 + (i as usize * 37) % 200);
        for arrival in net.handle_packet(at, entry, len) {
            writeln!(log, "{}", net.record(at, entry, len, &arrival)).expect("strings take all");
        }
    }
    let checked_in = include_str!("snapshots/verdicts.csv");
    assert!(log == checked_in, "tests/snapshots/verdicts.csv would be:\n{log}");
}

#[test]
fn a_link_blocks_a_protocol_by_the_direction_and_says_so_and_nothing_else_is_changed() {
    let text = r#"
[[link]]
name = "hotel"
between = ["a", "b"]
rate_mbps = 12
[link.from_a]
blocks = ["udp"]
"#;
    let scenario = Scenario::from_toml(text, "net.toml").unwrap();
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again.toml").unwrap(), scenario);
    let mut net = Net::new(&scenario, 1);
    let mut send = |protocol, direction| {
        let entry = LinkEnd { link: 0, direction };
        let arrivals = net.handle_packet_of(protocol, Instant::ZERO, entry, 1_500);
        arrivals[0].verdict.dropped
    };
    assert_eq!(send(Some(Protocol::Udp), UP), Some(DropCause::Blocked));
    for (protocol, direction) in
        [(Some(Protocol::Tcp), UP), (None, UP), (Some(Protocol::Udp), DOWN)]
    {
        assert_eq!(send(protocol, direction), None);
    }
    let stats = net.stats(LinkEnd { link: 0, direction: UP });
    assert_eq!((stats.drops(DropCause::Blocked), stats.packets_out), (1, 2));
    let wrong = text.replace("udp", "icmp");
    let error = Scenario::from_toml(&wrong, "net.toml").unwrap_err().to_string();
    assert!(error.contains("net.toml:7: link.hotel.from_a.blocks: \"icmp\" is not"), "{error}");
}

#[test]
fn a_link_blocks_from_one_instant_to_another_and_nothing_before_the_scenario_begins() {
    let text = r#"
[[link]]
name = "hotel"
between = ["a", "b"]
blocks = ["udp"]
blocks_from_s = 10
blocks_until_s = 20
"#;
    let scenario = Scenario::from_toml(text, "net.toml").unwrap();
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again.toml").unwrap(), scenario);
    let passes = |net: &mut Net, at_s: u64| {
        let (at, entry) = (Instant::from_millis(at_s * 1_000), LinkEnd { link: 0, direction: UP });
        let arrivals = net.handle_packet_of(Some(Protocol::Udp), at, entry, 100);
        arrivals[0].verdict.dropped.is_none()
    };
    let mut calm = Net::calm(&scenario, 1);
    assert!(passes(&mut calm, 15), "it has not begun");
    calm.begin(Instant::from_millis(100_000));
    let told = [99, 109, 110, 119, 120].map(|at_s| passes(&mut calm, at_s));
    assert_eq!(told, [true, true, false, false, true]);
    for (own, says) in [
        ("blocks_from_s = 10\nblocks_until_s = 10\n", "blocks_until_s: must be later than"),
        ("blocks_until_s = 10\n", "blocks"),
    ] {
        let what = if own.contains("from") { "blocks = [\"udp\"]\n" } else { "" };
        let wrong = format!("[[link]]\nname = \"hotel\"\nbetween = [\"a\", \"b\"]\n{what}{own}");
        let error = Scenario::from_toml(&wrong, "net.toml").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
