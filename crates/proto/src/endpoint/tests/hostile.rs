//! Garbage, truncated, replayed, reflected and forged datagrams change nothing, cost little, and
//! are never answered with more bytes than came in.

use super::*;
use crate::crypto::mac1_key;
use crate::limits;
use crate::path::PathUse;
use crate::rejection::Rejection;
use crate::select::{Class, Order};
use crate::wire::{
    AckFrame, AckRanges, ControlFrame, DatagramFrame, Frame, PACKET_NUMBER_MAX, PathUseFrame,
    RepairFrame, SourceFrame,
};

const SECOND: Duration = Duration::from_secs(1);
const ATTACKER: &str = "203.0.113.66:666";

/// Gives `bytes` to a host and returns what it answers at once, everything said before it.
pub(super) fn inject(
    wire: &mut Wire,
    host: usize,
    source: SocketAddr,
    bytes: &[u8],
) -> Vec<Vec<u8>> {
    let now = wire.now;
    let destination = wire.hosts[host].addresses[0];
    let (local, source) = (Some(destination.ip()), source.into());
    let received = Received { interface: InterfaceId(0), local, source, ecn: 0 };
    let endpoint = &mut wire.hosts[host].endpoint;
    endpoint.handle_datagram(now, &received, &mut bytes.to_vec());
    let (mut buf, mut answers) = (Vec::new(), Vec::new());
    while endpoint.poll_transmit(now, &mut buf).is_some() {
        answers.push(buf.clone());
    }
    answers
}

pub(super) fn attacker() -> SocketAddr {
    ATTACKER.parse().expect("an address")
}

/// A wire with a session that has carried messages both ways, with loss and repetition.
fn worn_in(seed: u64) -> (Wire, SessionId) {
    let (mut wire, session) = Wire::pair(seed);
    wire.loss = 0.2;
    wire.duplication = 0.2;
    wire.jitter = Duration::from_millis(30);
    let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
    for count in 0..200_u32 {
        let now = wire.now;
        let _ = wire.hosts[0].endpoint.send(now, session, declared, &count.to_le_bytes());
        let theirs = wire.hosts[1].endpoint.sessions().next();
        if let Some((theirs, _)) = theirs {
            let _ = wire.hosts[1].endpoint.send(now, theirs, declared, &[count as u8; 300]);
        }
        wire.run_for(Duration::from_millis(20));
    }
    (wire.loss, wire.duplication) = (0.0, 0.0);
    wire.run_for(5 * SECOND);
    (wire, session)
}

/// What an attacker may not change: sessions, events, deliveries, keys.
fn state(wire: &Wire) -> Vec<(usize, usize, usize, u64)> {
    let of = |host: &Host| {
        let sessions = host.endpoint.sessions().count();
        (sessions, host.events.len(), host.delivered.len(), host.endpoint.counters().handshakes)
    };
    wire.hosts.iter().map(of).collect()
}

#[test]
fn everything_ever_sent_changes_nothing_when_it_is_sent_again() {
    for wait in [0, 10, 130, 300] {
        let (mut wire, session) = worn_in(7);
        wire.run_for(wait * SECOND);
        let log = wire.arrived.clone();
        let before = state(&wire);
        for flight in &log {
            for source in [flight.source, attacker()] {
                for host in 0..2 {
                    wire.drain();
                    let answers = inject(&mut wire, host, source, &flight.bytes);
                    let len: usize = answers.iter().map(Vec::len).sum();
                    assert!(len <= flight.bytes.len());
                    let may_be = |answer: &Vec<u8>| [COOKIE, UNKNOWN].contains(&answer[0]);
                    assert!(answers.iter().all(may_be), "{answers:?}");
                }
            }
        }
        wire.drain();
        assert_eq!(state(&wire), before);
        wire.assert_carries(0, session, 1, SECOND);
    }
}

#[test]
fn an_initiation_taken_from_the_air_is_useless() {
    let (mut wire, session) = worn_in(7);
    let initiation = wire.sent(INITIATION).last().expect("there was one").clone();
    let before = state(&wire);

    // The same one: it was answered before. From elsewhere: its cookie is for another address, and
    // whoever gets one for his own cannot work it in.
    let known = wire.hosts[1].endpoint.counters().replayed;
    assert!(inject(&mut wire, 1, initiation.source, &initiation.bytes).is_empty());
    assert_eq!(wire.hosts[1].endpoint.counters().replayed, known + 1);
    for _ in 0..3 {
        let answers = inject(&mut wire, 1, attacker(), &initiation.bytes);
        assert!(answers.len() == 1 && answers[0][0] == COOKIE, "{answers:?}");
        wire.run_for(100 * SECOND);
    }
    // Long after, when nobody remembers it: its cookie has grown old.
    let before_it = state(&wire);
    let answers = inject(&mut wire, 1, initiation.source, &initiation.bytes);
    assert!(answers.len() == 1 && answers[0][0] == COOKIE, "{answers:?}");
    assert_eq!((state(&wire), before[0].0), (before_it, 1));
    wire.assert_carries(0, session, 1, SECOND);
}

#[test]
fn an_initiation_that_was_held_back_gets_keys_that_nobody_can_use() {
    let (mut wire, session) = worn_in(7);
    // The drone loses its links and asks anew; the attacker takes what it sends.
    let drone: Vec<SocketAddr> = wire.hosts[0].addresses.clone();
    wire.delays.extend(drone.iter().map(|address| (*address, None)));
    wire.run_for(limits::SILENCE + SECOND);
    wire.delays.clear();
    let held = wire.sent(INITIATION).last().expect("it asked").clone();
    wire.run_for(5 * SECOND);
    let before = state(&wire);
    let answers = inject(&mut wire, 1, held.source, &held.bytes);
    assert!(answers.iter().map(Vec::len).sum::<usize>() <= held.bytes.len());
    wire.run_for(SECOND);
    assert_eq!(state(&wire), before);
    wire.assert_carries(0, session, 1, SECOND);
}

#[test]
fn strangers_cost_no_diffie_hellman_and_spend_nobody_elses_share() {
    let (mut wire, session) = worn_in(7);
    let initiation = wire.sent(INITIATION)[0].clone();
    let key = mac1_key(&wire.hosts[1].key);
    let before = wire.hosts[1].endpoint.counters();
    let mut answers = 0;
    for count in 0..5_000_u32 {
        // Another ephemeral key each time, and a right mac1: from the drone's own address too.
        let mut forged = initiation.bytes.clone();
        forged[5..9].copy_from_slice(&count.to_le_bytes());
        let end = forged.len() - 48;
        let mac1 = key.code(&[&forged[..end]]);
        forged[end..end + 16].copy_from_slice(&mac1);
        let source = if count % 2 == 0 { attacker() } else { initiation.source };
        answers += inject(&mut wire, 1, source, &forged).len();
    }
    let after = wire.hosts[1].endpoint.counters();
    assert_eq!(after.unknown_peer - before.unknown_peer, 5_000);
    assert_eq!(after.unauthentic + after.rate_limited, before.unauthentic + before.rate_limited);
    assert_eq!(answers, limits::REFUSALS_PER_SECOND as usize);
    let rekeyed = wire.hosts[0].count(|event| *event == Event::Rekeyed);
    wire.run_for(limits::REKEY_AFTER + SECOND);
    assert!(wire.hosts[0].count(|event| *event == Event::Rekeyed) > rekeyed);
    wire.assert_carries(0, session, 1, SECOND);
}

#[test]
fn among_a_thousand_peers_a_drone_is_found_by_its_key_and_nobody_by_anothers() {
    let mut wire = Wire::new(7);
    wire.add_drone(1, 0);
    wire.add_station(0);
    let mut rng = Rng::new(7);
    for _ in 1..1_024 {
        let mut other = [0; 32];
        rng.fill(&mut other);
        wire.hosts[1].endpoint.add_peer(PublicKey(other), None);
    }
    let session = wire.introduce();
    wire.assert_carries(0, session, 1, SECOND);
    // It claims the drone's key, and knows what both public keys tell.
    let mut forged = wire.sent(INITIATION)[0].bytes.clone();
    let end = forged.len() - 1;
    forged[end - 16] ^= 1;
    let before = wire.hosts[1].endpoint.counters();
    let answers = inject(&mut wire, 1, attacker(), &forged);
    assert!(answers.len() == 1 && answers[0][0] == REFUSAL, "{answers:?}");
    // Nor does one whose key cannot even be read.
    forged[40] ^= 1;
    let mac1 = mac1_key(&wire.hosts[1].key).code(&[&forged[..109]]);
    forged[109..125].copy_from_slice(&mac1);
    inject(&mut wire, 1, attacker(), &forged);
    let after = wire.hosts[1].endpoint.counters();
    assert_eq!(after.unknown_peer - before.unknown_peer, 2);
    assert_eq!(after.cookies_sent, before.cookies_sent);
    wire.assert_carries(0, session, 1, SECOND);
}

#[test]
fn forged_responses_of_an_eavesdropper_do_not_use_up_the_limit_of_the_real_one() {
    let (mut wire, session) = Wire::pair(3);
    wire.drain();
    for _ in 0..100 {
        wire.run_for(Duration::from_millis(1));
        // The index is in the Initiation for everybody to see; the drone's public key is not.
        let initiation = wire.sent(INITIATION).last().expect("it asks").bytes.clone();
        let mut forged = [0x55; 82];
        forged[0] = RESPONSE;
        forged[1..5].copy_from_slice(&initiation[1..5]);
        for _ in 0..20 {
            inject(&mut wire, 0, attacker(), &forged);
        }
    }
    let counters = wire.hosts[0].endpoint.counters();
    assert_eq!((counters.rate_limited, counters.handshakes), (0, 1));
    wire.assert_carries(0, session, 1, SECOND);
}

#[test]
fn a_path_that_was_given_up_does_not_come_back_by_replay() {
    let (mut wire, session) = Wire::pair(5);
    wire.run_for(SECOND);
    let best = Policy { class: Class::Telemetry, reliable: false, ..Policy::TELEMETRY };
    for count in 0..50_u8 {
        let declared = Source::Declared { channel: 1, policy: best };
        wire.hosts[0].endpoint.send(wire.now, session, declared, &[count; 9]).expect("room");
        wire.run_for(Duration::from_millis(5));
    }
    wire.run_for(SECOND);
    assert_eq!(wire.hosts[1].delivered.len(), 50);
    let now = wire.now;
    wire.hosts[0].endpoint.remove_path(now, session, PathId(0));
    wire.run_for(SECOND);
    let (theirs, _) = wire.hosts[1].endpoint.sessions().next().expect("the session");
    let paths = |wire: &Wire| {
        wire.hosts[1].endpoint.status(wire.now, theirs).expect("the session").paths.len()
    };
    assert_eq!(paths(&wire), 1);
    for flight in wire.arrived.clone() {
        inject(&mut wire, 1, attacker(), &flight.bytes);
    }
    wire.drain();
    assert_eq!((paths(&wire), wire.hosts[1].delivered.len()), (1, 50));
    wire.assert_carries(0, session, 1, SECOND);

    // Names of paths run out in the end; until then each is another one.
    let remote = wire.hosts[1].addresses[0];
    let drone = &mut wire.hosts[0].endpoint;
    let added = (0..300).map_while(|_| {
        let path = drone.add_path(now, session, InterfaceId(0), remote).ok()?;
        drone.remove_path(now, session, path);
        Some(path)
    });
    let added: Vec<PathId> = added.collect();
    assert_eq!(added.len(), 254);
    assert!(!added.contains(&PathId(0)) && !added.contains(&PathId(1)));
}

#[test]
fn forged_cookies_and_responses_do_not_disturb_a_handshake() {
    let (mut wire, session) = Wire::pair(3);
    for _ in 0..40 {
        wire.run_for(Duration::from_millis(5));
        let seen: Vec<Flight> = wire.log.iter().map(|(_, flight)| flight.clone()).collect();
        for flight in seen.iter().filter(|flight| matches!(flight.bytes[0], RESPONSE | COOKIE)) {
            let mut bytes = flight.bytes.clone();
            let bit = wire.rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(inject(&mut wire, 0, flight.source, &bytes).iter().all(|a| a[0] == DATA));
        }
    }
    assert_eq!((wire.hosts[0].connections(), wire.hosts[1].connections()), (1, 1));
    wire.assert_carries(0, session, 1, SECOND);
}

/// Makes one hostile datagram for `host` from what it and its peer have sent.
fn nonsense(wire: &mut Wire, log: &[Flight]) -> Vec<u8> {
    let rng = &mut wire.rng;
    let random = |rng: &mut Rng, len: u64| {
        let mut bytes = vec![0; rng.below(len) as usize];
        rng.fill(&mut bytes);
        bytes
    };
    let real = log[rng.below(log.len() as u64) as usize].bytes.clone();
    match rng.below(8) {
        0 => random(rng, 1_500),
        1 => {
            let mut bytes = random(rng, 200);
            bytes.insert(0, 1 + rng.below(4) as u8);
            bytes
        }
        2 => real[..rng.below(real.len() as u64) as usize].to_vec(),
        3 => {
            let mut bytes = real;
            for _ in 0..1 + rng.below(3) {
                let bit = rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes
        }
        4 => real,
        5 => {
            let mut bytes = real;
            bytes.extend(random(rng, 300));
            bytes
        }
        6 => {
            // Right header, fresh packet number, forged content.
            let mut bytes = real[..real.len().min(12)].to_vec();
            if bytes.len() == 12 {
                bytes[8] = rng.below(256) as u8;
            }
            bytes.extend(random(rng, 1_400));
            bytes
        }
        _ => {
            // An Initiation of somebody who knows the public key alone.
            let mut bytes = vec![1; 157 - 48];
            rng.fill(&mut bytes[1..]);
            let mac1 = mac1_key(&wire.hosts[1].key).code(&[&bytes]);
            bytes.extend_from_slice(&mac1);
            bytes.extend_from_slice(&[0; 32]);
            bytes
        }
    }
}

/// Floods one end of a live session and asserts that it stays what it was.
fn flood(target: usize, count: u32) {
    let (mut wire, session) = worn_in(11);
    let log = wire.arrived.clone();
    let before = state(&wire);
    for round in 0..count {
        if round % 1_000 == 0 {
            // Time goes on: limits recover, acknowledgements and probes of the session itself run.
            wire.run_for(Duration::from_millis(10));
            wire.log.clear();
            wire.arrived.clear();
        }
        let bytes = nonsense(&mut wire, &log);
        let spoofed = log[wire.rng.below(log.len() as u64) as usize].source;
        let source = if wire.rng.chance(0.5) { spoofed } else { attacker() };
        let answers = inject(&mut wire, target, source, &bytes);
        let len: usize = answers.iter().map(Vec::len).sum();
        assert!(len <= bytes.len(), "{len} bytes for {} in round {round}", bytes.len());
    }
    let sizes = wire.hosts[target].endpoint.table_sizes();
    assert!(sizes.iter().all(|size| *size <= 64), "{sizes:?}");
    wire.drain();
    assert_eq!(state(&wire), before);
    wire.assert_carries(0, session, 1, SECOND);
    let (theirs, _) = wire.hosts[1].endpoint.sessions().next().expect("the session");
    wire.assert_carries(1, theirs, 0, SECOND);
}

#[test]
fn a_million_hostile_datagrams_leave_a_station_as_it_was() {
    flood(1, 1_000_000);
}

#[test]
fn a_flood_of_hostile_datagrams_leaves_a_drone_as_it_was() {
    flood(0, 200_000);
}

/// Makes the frames of a peer that has the keys and no sense.
fn senseless_frames(rng: &mut Rng) -> Vec<u8> {
    let mut frames = Vec::new();
    let payload = vec![rng.below(256) as u8; rng.below(200) as usize];
    for _ in 0..1 + rng.below(5) {
        let word = rng.next_u64() >> rng.below(64);
        let path = PathId(rng.below(20) as u8);
        let order = [Order::None, Order::Latest, Order::InOrder, Order::Sequenced];
        let frame = match rng.below(10) {
            0 => Frame::Ping,
            1 => {
                let low = word & PACKET_NUMBER_MAX;
                let ranges = AckRanges::new(low / 2..=low);
                let (received_at_us, delay_us, ecn_ce) = (rng.next_u64(), word as u32, 7);
                Frame::Ack(AckFrame { path, ranges, received_at_us, delay_us, ecn_ce })
            }
            2 => Frame::PathChallenge { token: word },
            3 => Frame::PathResponse { token: word },
            // The two paths that carry the test stay open, as a rule.
            4 if path.0 > 1 || rng.chance(0.01) => Frame::PathClose { path },
            4 => Frame::Padding(1 + rng.below(100) as usize),
            5 => Frame::LaneFloor { lane: word as u16, floor: rng.next_u64() as u32 },
            6 | 7 => Frame::Datagram(DatagramFrame {
                channel: word as u8,
                class: Class::Bulk,
                sequence: rng.chance(0.8).then_some(word as u32),
                submitted_us: rng.next_u64() as u32,
                payload: &payload,
            }),
            _ => Frame::Control(ControlFrame {
                channel: word as u8,
                class: Class::Control,
                order: order[rng.below(4) as usize],
                seq: word as u32,
                lane: rng.next_u64() as u16 >> rng.below(16),
                lane_seq: rng.next_u64() as u32 >> rng.below(32),
                floor: rng.next_u64() as u32 >> rng.below(32),
                ttl_ms: rng.next_u64() as u16,
                submitted_us: rng.next_u64() as u32,
                payload: &payload,
            }),
        };
        frame.encode(&mut frames);
    }
    if rng.chance(0.1) {
        frames.push(rng.below(256) as u8);
    }
    frames
}

#[test]
fn a_peer_without_sense_is_borne() {
    for seed in 0..20 {
        let (mut wire, session) = Wire::pair(seed);
        wire.run_for(SECOND);
        for _ in 0..2_000 {
            let path = wire.rng.below(2) as u8;
            let frames = senseless_frames(&mut wire.rng);
            let endpoint = &mut wire.hosts[0].endpoint;
            let Some(datagram) = endpoint.seal_frames(session, PathId(path), &frames) else {
                break;
            };
            let source = wire.hosts[0].addresses[usize::from(path)];
            inject(&mut wire, 1, source, &datagram);
            wire.run_for(Duration::from_micros(500));
        }
        // The paths may be closed by now; a new session shows that the station is well.
        let station = wire.hosts[1].key;
        wire.hosts[0] = Host::new(1, 1, false, &["10.0.1.1:1000", "10.1.1.1:1000"], wire.now);
        let session = wire.connect(0, station);
        wire.run_for(SECOND);
        wire.assert_carries(0, session, 1, SECOND);
    }
}

/// Gives the station frames that the drone seals; returns its state after that.
fn station_after(wire: &mut Wire, session: SessionId, frames: &[Frame<'_>]) -> (u64, u64) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    let drone = &mut wire.hosts[0];
    let datagram = drone.endpoint.seal_frames(session, PathId(0), &bytes).expect("a session");
    let source = drone.addresses[0];
    inject(wire, 1, source, &datagram);
    let station = &wire.hosts[1].endpoint;
    let id = station.sessions().next().expect("a session").0;
    let status = station.status(wire.now, id).expect("a session");
    (status.messages.received_symbols, status.rejected.total())
}

#[test]
fn a_datagram_brings_one_symbol_and_no_longer_a_combination_than_a_sender_makes() {
    let (mut wire, session) = Wire::pair(1);
    wire.run_for(SECOND);
    let source = |id| Frame::Source(SourceFrame { coder: 0, id, back: 0, payload: &[] });
    let (_, before) = station_after(&mut wire, session, &[Frame::Ping]);
    // However far it jumps, the station does the work of one.
    let jumps = [source(4_000), Frame::Ping, source(8_000), source(12_000)];
    assert_eq!(station_after(&mut wire, session, &jumps), (1, before + 1));
    assert_eq!(station_after(&mut wire, session, &[source(4_001)]), (2, before + 1));
    let combination = |count| {
        let (coder, repair, first) = (0, 1, 4_002);
        Frame::Repair(RepairFrame { coder, repair, first, count, payload: &[] })
    };
    assert_eq!(station_after(&mut wire, session, &[combination(512)]), (2, before + 1));
    assert_eq!(station_after(&mut wire, session, &[combination(513)]), (2, before + 2));
}

#[test]
fn what_is_rejected_says_why() {
    let (mut wire, session) = Wire::pair(9);
    wire.run_for(SECOND);
    let seal = |wire: &mut Wire, path: u8, frame: &Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let endpoint = &mut wire.hosts[0].endpoint;
        endpoint.seal_frames(session, PathId(path), &bytes).expect("a session")
    };
    let control = ControlFrame {
        seq: 0,
        channel: 0,
        class: Class::Control,
        order: Order::InOrder,
        lane: limits::LANES as u16,
        lane_seq: 0,
        floor: 0,
        ttl_ms: 100,
        submitted_us: 0,
        payload: &[],
    };
    let good = seal(&mut wire, 0, &Frame::Ping);
    let beyond = seal(&mut wire, 0, &Frame::Control(control));
    let senseless = wire.hosts[0].endpoint.seal_frames(session, PathId(0), &[0xFF]);
    let late = seal(&mut wire, 1, &Frame::Ping);
    let mut forged = good.clone();
    forged.iter_mut().next_back().into_iter().for_each(|byte| *byte ^= 1);
    let now = wire.now;
    wire.hosts[0].endpoint.remove_path(now, session, PathId(1));
    wire.run_for(SECOND);
    let source = wire.hosts[0].addresses[0];
    for datagram in [forged, good.clone(), good, senseless.expect("a session"), beyond, late] {
        inject(&mut wire, 1, source, &datagram);
    }
    let station = &wire.hosts[1].endpoint;
    let id = station.sessions().next().expect("a session").0;
    let rejected = station.status(wire.now, id).expect("a session").rejected;
    for reason in [
        Rejection::BadTag,
        Rejection::Replay,
        Rejection::UnknownPath,
        Rejection::Malformed,
        Rejection::BeyondBound,
    ] {
        assert_eq!(rejected.of(reason), 1, "{reason:?} of {rejected:?}");
    }
    assert_eq!(rejected.total(), 5);
}

#[test]
fn a_use_of_a_path_that_makes_no_sense_is_dropped_and_counted_and_costs_no_session() {
    let (mut wire, session) = Wire::pair(3);
    wire.run_for(SECOND);
    let (flags, cost) = PathUse::default().to_wire();
    let frame = |path, flags, cost| {
        let change = 1;
        Frame::PathUse(PathUseFrame { path: PathId(path), change, flags, cost })
    };
    let (_, before) = station_after(&mut wire, session, &[Frame::Ping]);
    // No class, unknown flags, no price, one beyond the bound, a path that was never opened.
    let nonsense = [(0, 0, cost), (0, 1, cost), (0, 0x3e, cost), (0, 0xff, cost), (0, flags, 0)];
    let more = [(0, flags, u32::MAX), (0, flags, f32::NAN.to_bits()), (9, flags, cost)];
    for (count, (path, flags, cost)) in (1..).zip(nonsense.into_iter().chain(more)) {
        // What stands behind it in the datagram is taken.
        let frames = [frame(path, flags, cost), frame(1, 0b11, 2_000)];
        assert_eq!(station_after(&mut wire, session, &frames).1, before + count);
    }
    let theirs = wire.hosts[1].endpoint.sessions().next().expect("a session").0;
    let uses = |wire: &Wire| {
        let status = wire.hosts[1].endpoint.status(wire.now, theirs).expect("a session");
        status.paths.iter().map(|path| (path.id.0, path.usage)).collect::<Vec<_>>()
    };
    let told = PathUse::from_wire(0b11, 2_000).expect("it makes sense");
    assert!(uses(&wire).contains(&(0, PathUse::default())) && uses(&wire).contains(&(1, told)));
    // A responder has nothing to say about a path.
    let mut bytes = Vec::new();
    frame(0, 0b11, 2_000).encode(&mut bytes);
    let station = &mut wire.hosts[1];
    let datagram = station.endpoint.seal_frames(theirs, PathId(0), &bytes).expect("a session");
    let source = station.addresses[0];
    inject(&mut wire, 0, source, &datagram);
    let drone = wire.hosts[0].endpoint.status(wire.now, session).expect("a session");
    assert_eq!(drone.rejected.of(Rejection::Malformed), 1);
    assert!(drone.paths.iter().all(|path| path.usage == PathUse::default()));
    wire.assert_carries(0, session, 1, SECOND);
}
