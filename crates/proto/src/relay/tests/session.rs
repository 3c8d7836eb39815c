//! Sessions over a relayed link: what is different for them, and what is not.

use std::net::Ipv4Addr;

use units::{Duration, Rate};

use super::super::*;
use super::field::{Field, Listener, MS, name};
use super::{RANKED, SECOND};
use crate::event::PathState;
use crate::select::Policy;
use crate::{Event, Rejection, RelayId, SessionConfig, Source};

const CONTROL: Source = Source::Declared { channel: 1, policy: Policy::DECLARED };

/// Makes a packet of TCP, of so many bytes.
fn packet(number: u32, bytes: usize) -> Vec<u8> {
    let mut segment = [1_000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
    segment.extend_from_slice(&number.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.resize(bytes - 20, number as u8);
    ip::ipv4(Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), 6, &segment)
}

fn connected(relays: [u8; 2], mbps: f64, seed: u64) -> Field {
    connect(Field::new(RANKED, relays, mbps, seed))
}

fn connect(mut field: Field) -> Field {
    field.run(500 * MS);
    field.connect(&SessionConfig::default());
    field.run(2 * SECOND);
    let now = field.now;
    let status = field.end(Side::Air).status(now);
    assert!(status.connected && status.paths[0].state == PathState::Active, "{status:?}");
    field
}

/// Returns the packets of the tunnel that came at a side, in their order.
fn came(field: &mut Field, side: Side) -> Vec<Vec<u8>> {
    let delivered = field.end(side).delivered.iter().filter(|delivery| delivery.channel == 0);
    delivered.map(|delivery| delivery.bytes.clone()).collect()
}

fn suspicions(field: &mut Field) -> u64 {
    let now = field.now;
    [Side::Ground, Side::Air]
        .map(|side| field.end(side).status(now).paths[0].suspicions)
        .iter()
        .sum()
}

#[test]
fn a_relayed_path_is_not_suspected_while_its_generations_wait() {
    for seed in 0..5 {
        let mut field = connected([2, 2], 2.0, seed);
        field.hears = Box::new(|shot| !shot.is_coded());
        let sent: Vec<_> = (0..40).map(|number| packet(number, 1_200)).collect();
        for bytes in &sent {
            assert!(field.send(Side::Air, Source::Tunnel, bytes));
        }
        for _ in 0..25 {
            field.run(100 * MS);
            let now = field.now;
            let path = field.end(Side::Air).status(now).paths[0].clone();
            assert_eq!((path.state, path.lost), (PathState::Active, 0), "seed {seed}");
            assert!(path.in_flight > 1_000 && path.in_flight < 100_000, "{}", path.in_flight);
        }
        assert!(came(&mut field, Side::Ground).is_empty());
        field.hears = Box::new(|_| true);
        field.run(3 * SECOND);
        assert_eq!(came(&mut field, Side::Ground), sent, "seed {seed}");
        assert_eq!(suspicions(&mut field), 0);
    }
}

#[test]
fn a_relayed_path_that_is_silent_is_suspected_as_others_are() {
    let mut field = connected([2, 2], 2.0, 6);
    for number in 0..40 {
        assert!(field.send(Side::Air, Source::Tunnel, &packet(number, 1_200)));
    }
    field.hears = Box::new(|_| false);
    field.run(500 * MS);
    let now = field.now;
    let path = field.end(Side::Air).status(now).paths[0].clone();
    assert_eq!((path.state, path.in_flight < 10_000), (PathState::Suspected, true));
    field.hears = Box::new(|_| true);
    field.run(3 * SECOND);
    let now = field.now;
    let path = field.end(Side::Air).status(now).paths[0].clone();
    assert_eq!(path.state, PathState::Active);
    assert_eq!(came(&mut field, Side::Ground).len(), 40);
}

#[test]
fn what_relays_give_up_is_sent_again() {
    let mut field = connected([2, 2], 2.0, 7);
    field.hears = Box::new(|shot| !shot.is_coded());
    let sent: Vec<_> = (0..40).map(|number| packet(number, 1_200)).collect();
    for bytes in &sent {
        assert!(field.send(Side::Air, Source::Tunnel, bytes));
    }
    field.run(5 * SECOND);
    let now = field.now;
    assert!(field.end(Side::Air).status(now).paths[0].lost > 0, "the gateway gave up");
    field.hears = Box::new(|_| true);
    field.run(5 * SECOND);
    assert_eq!(came(&mut field, Side::Ground), sent);
    assert_eq!(suspicions(&mut field), 0);
}

#[test]
fn control_passes_a_full_relayed_link_at_once_and_bulk_fills_it() {
    let mut field = connected([4, 4], 1.0, 8);
    let mut rng = units::Rng::new(8);
    field.hears = Box::new(move |shot| !shot.is_coded() || rng.chance(0.4));
    let (mut number, mut longest) = (0, Duration::ZERO);
    let (seconds, began) = (10, field.now);
    for step in 0..100 * seconds {
        let now = field.now;
        let left = field.end(Side::Air).status(now).tunnel.symbols;
        while u64::from(number) < left + 50 {
            field.send(Side::Air, Source::Tunnel, &packet(number, 1_200));
            number += 1;
        }
        if u32::is_multiple_of(step, 20) {
            assert!(field.send(Side::Air, CONTROL, &[step as u8; 60]));
        }
        field.run(10 * MS);
    }
    for delivery in &field.end(Side::Ground).delivered {
        if delivery.channel == 1 {
            longest = longest.max(delivery.age);
        }
    }
    let bytes: usize = came(&mut field, Side::Ground).iter().map(Vec::len).sum();
    let mbps = bytes as f64 * 8.0 / field.now.since(began).as_secs_f64() / 1e6;
    println!("{mbps:.2} Mbit/s of packets, control at most {longest:?}");
    assert!(longest < 100 * MS, "{longest:?}");
    // Of what four transmitters send, a frame is heard by one of four receivers at least in 0.87 of
    // all cases.
    assert!(mbps > 0.85 * 4.0 * 0.87 * 1_200.0 / 1_310.0, "{mbps}");
}

/// Sends 20 messages of 60 bytes a second each way for 40 s over radios that carry so little while
/// their relays say 20 Mbit/s; returns how many came, and the largest age of those of the last
/// half.
fn over_thin_radios(kbps: u64, bulk: bool) -> (usize, Duration) {
    let mut field = Field::new(RANKED, [4, 4], 20.0, 10);
    field.thin(kbps);
    let mut rng = units::Rng::new(10);
    field.hears = Box::new(move |_| rng.chance(0.9));
    let mut field = connect(field);
    let (mut number, mut half) = (0, [0; 2]);
    for step in 0..800_u32 {
        if step == 400 {
            half = [Side::Ground, Side::Air].map(|side| field.end(side).delivered.len());
        }
        let now = field.now;
        let left = field.end(Side::Air).status(now).tunnel.symbols;
        while bulk && u64::from(number) < left + 20 {
            field.send(Side::Air, Source::Tunnel, &packet(number, 1_200));
            number += 1;
        }
        for side in [Side::Ground, Side::Air] {
            assert!(field.send(side, CONTROL, &[step as u8; 60]));
        }
        field.run(50 * MS);
    }
    field.run(2 * SECOND);
    let (mut count, mut longest) = (0, Duration::ZERO);
    for (side, half) in [Side::Ground, Side::Air].into_iter().zip(half) {
        let delivered = &field.end(side).delivered;
        let control = |delivery: &&crate::Delivery| delivery.channel == 1;
        count += delivered.iter().filter(control).count();
        longest = delivered[half..]
            .iter()
            .filter(control)
            .map(|one| one.age)
            .fold(longest, Duration::max);
    }
    (count, longest)
}

#[test]
fn control_passes_radios_that_are_thinner_than_it_though_their_relays_say_20_mbit_s() {
    // Twenty messages a second with all their headers take 28 kbit/s: beside anything else 30 are
    // not enough for all of them.
    let scenes = [
        (30, false, 1_590, 800),
        (60, false, 1_590, 800),
        (30, true, 1_400, 2_000),
        (60, true, 1_590, 300),
        (100, true, 1_590, 300),
    ];
    for (kbps, bulk, least, late) in scenes {
        let (count, longest) = over_thin_radios(kbps, bulk);
        println!("{kbps} kbit/s, bulk {bulk}: {count} of 1600 came, after 20 s within {longest:?}");
        assert!(count > least && longest < late * MS, "{kbps} {bulk}: {count} {longest:?}");
    }
}

#[test]
fn acknowledgements_that_are_made_at_once_leave_at_once_and_uncoded() {
    let mut field = connected([2, 2], 1.0, 9);
    field.hears = Box::new(|shot| !shot.is_coded());
    let sent: Vec<_> = (0..20).map(|number| packet(number, 40)).collect();
    let [first @ .., last] = &sent[..] else { unreachable!("there are twenty") };
    let (now, end) = (field.now, field.end(Side::Air));
    for bytes in first {
        let session = end.session.expect("it is connected");
        assert!(end.endpoint.send(now, session, Source::Tunnel, bytes).is_ok());
    }
    // The session is asked only now, as a daemon asks after a batch of its kernel's.
    assert!(field.send(Side::Air, Source::Tunnel, last));
    field.run(20 * MS);
    // The shorter one overtakes on this radio.
    let mut came = came(&mut field, Side::Ground);
    came.sort();
    assert_eq!(came, sent);
    assert_eq!(field.status(Side::Air, 0).sent.datagrams, 0);
}

#[test]
fn what_a_lying_relay_makes_fails_the_session_alone() {
    let mut field = connected([2, 2], 5.0, 9);
    // What it passes on nobody else does: a frame that came before from another would make it
    // harmless.
    field.hears = Box::new(|shot| !shot.is_coded() || [shot.from.number, shot.to.number] == [2, 2]);
    let (mut listener, mut count) = (Listener::new(), 0);
    field.insider = Box::new(move |hop, bytes| {
        let Some(header) = listener.header(bytes) else { return };
        let is_liar =
            header.sender == name(Side::Ground, 2) && hop == Hop::Wire && bytes.len() > 400;
        count += u32::from(is_liar);
        if is_liar && u32::is_multiple_of(count, 10) {
            listener.change(&header, 300, bytes);
        }
    });
    let sent: Vec<_> = (0..1_000).map(|number| packet(number, 1_200)).collect();
    for bytes in &sent {
        while !field.send(Side::Air, Source::Tunnel, bytes) {
            field.run(10 * MS);
        }
        field.run(3 * MS);
    }
    field.run(10 * SECOND);
    let came = came(&mut field, Side::Ground);
    assert!(came.iter().all(|bytes| sent.contains(bytes)), "nothing wrong comes out");
    let now = field.now;
    let rejected = field.end(Side::Ground).status(now).rejected.of(Rejection::BadTag);
    println!("{} of {} came, {rejected} failed the session's tag", came.len(), sent.len());
    assert!(rejected > 10, "it is counted");
    assert_eq!(field.end(Side::Ground).endpoint.not_authentic_by(RelayId(0)), rejected);
    assert_eq!(field.end(Side::Air).endpoint.not_authentic_by(RelayId(0)), 0);
    assert_eq!(came.len(), sent.len(), "what has failed is sent again");
    let lost = |event: &Event| matches!(event, Event::PathChanged { to: PathState::Suspected, .. });
    assert!(!field.end(Side::Air).events.iter().any(lost));
}

#[test]
fn what_is_long_passes_thin_radios_of_which_one_alone_is_heard() {
    for heard in [1, 2] {
        let mut field = Field::new(RANKED, [2, 2], 20.0, 11);
        field.thin(100);
        let mut field = connect(field);
        let mut number = 0;
        let mut counts = Vec::new();
        for step in 0..600 {
            // Both are heard for 10 s, then one.
            if step == 200 {
                field.hears = Box::new(move |shot| {
                    shot.from.side == Side::Ground || shot.from.number == heard
                });
            }
            let now = field.now;
            let left = field.end(Side::Air).status(now).tunnel.symbols;
            while u64::from(number) < left + 20 {
                field.send(Side::Air, Source::Tunnel, &packet(number, 1_200));
                number += 1;
            }
            field.run(50 * MS);
            if step % 200 == 199 {
                counts.push(came(&mut field, Side::Ground).len());
            }
        }
        println!("{heard} alone is heard after 10 s: {counts:?} packets after 10, 20, 30 s");
        // Of 100 kbit/s that is two thirds.
        assert!(counts[1] - counts[0] > 30 && counts[2] - counts[1] > 50, "{counts:?}");
    }
}

#[test]
fn one_radio_that_falls_to_a_two_hundredth_holds_nothing_up() {
    let mut field = connected([4, 4], 20.0, 12);
    let mut rng = units::Rng::new(12);
    field.hears = Box::new(move |_| rng.chance(0.9));
    let slow = field.at(Side::Air, 1);
    let (mut number, mut longest, mut last) = (0, Duration::ZERO, (0, field.now));
    for step in 0..1_000 {
        if step == 300 {
            field.carries.insert(slow, Rate::from_bps(100_000));
        }
        let now = field.now;
        let left = field.end(Side::Air).status(now).tunnel.symbols;
        while u64::from(number) < left + 150 {
            field.send(Side::Air, Source::Tunnel, &packet(number, 1_200));
            number += 1;
        }
        field.run(10 * MS);
        let count = field.end(Side::Ground).delivered.len();
        if count > last.0 {
            last = (count, field.now);
        }
        longest = longest.max(field.now.since(last.1));
    }
    println!("{longest:?} without a packet, {} came", last.0);
    assert!(longest <= 200 * MS, "{longest:?}");
}
