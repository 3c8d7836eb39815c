//! Message delivery: every message once and in order, and when.

use fulmar_proto::{Duration, Instant, MessageOrder, MessageStream, SendError, Source};

use crate::harness::{DRONE, Pair, STATION, one_link, two_links};

const IN_ORDER: MessageStream =
    MessageStream { id: 1, order: MessageOrder::InOrder, deadline: None };
/// Bytes of a message: with its heads a datagram takes 0.09 ms at 100 Mbit/s.
const BYTES: usize = 1_024;

fn source(stream: MessageStream) -> Source {
    Source::Message { channel: 3, stream }
}

/// Sends `count` messages, one each 5 ms; returns their delays in ms, in the order of delivery.
fn run(pair: &mut Pair, count: u32) -> Vec<f64> {
    let start = pair.world.now();
    let mut message = vec![7; BYTES];
    for index in 0..count {
        pair.run_until(start + Duration::from_millis(5) * index);
        message[..4].copy_from_slice(&index.to_be_bytes());
        pair.send(DRONE, source(IN_ORDER), &message).expect("there is room");
    }
    pair.run_for(Duration::from_secs(3));
    let seed = pair.seed;
    let delay = |(index, seen): (usize, &crate::harness::Seen)| {
        let number = u32::from_be_bytes(seen.delivery.bytes[..4].try_into().expect("4 bytes"));
        assert_eq!(number, index as u32, "seed {seed}: in order");
        assert_eq!(seen.delivery.bytes.len(), BYTES);
        let submitted: Instant = start + Duration::from_millis(5) * number;
        seen.at.since(submitted).as_secs_f64() * 1e3
    };
    let delays: Vec<f64> = pair.seen[STATION].iter().enumerate().map(delay).collect();
    assert_eq!(delays.len(), count as usize, "seed {seed}: every message once");
    delays
}

#[test]
fn every_message_arrives_once_and_in_order_through_loss() {
    for seed in 1..=3 {
        let mut pair =
            Pair::connected(&one_link("delay_ms = 50\nrate_mbps = 100\nloss = 0.1"), seed);
        let delays = run(&mut pair, 2_000);
        let exact = delays.iter().filter(|delay| **delay <= 50.1).count();
        println!(
            "seed {seed}: exact {exact}, {:?}",
            pair.status(DRONE).expect("connected").messages
        );
    }
}

#[test]
fn long_messages_arrive_whole_and_short_ones_of_other_streams_pass_them() {
    let scenario = two_links(
        "delay_ms = 10\nrate_mbps = 20\nloss = 0.02",
        "delay_ms = 35\nrate_mbps = 4\nloss = 0.01",
        None,
    );
    let mut pair = Pair::connected(&scenario, 1);
    let long: Vec<u8> = (0..1 << 20).map(|index: u32| (index * 7 + index / 251) as u8).collect();
    pair.send(DRONE, source(MessageStream { id: 2, ..IN_ORDER }), &long).expect("there is room");
    pair.run_for(Duration::from_millis(100));
    let sent = pair.world.now();
    pair.send(DRONE, source(IN_ORDER), b"short").expect("there is room");
    pair.run_for(Duration::from_secs(20));
    let seen = &pair.seen[STATION];
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].delivery.bytes, b"short");
    assert_eq!(seen[0].delivery.stream, Some(1));
    let delay = seen[0].at.since(sent);
    assert!(delay <= Duration::from_millis(200), "{delay:?}");
    assert!(seen[1].delivery.bytes == long, "the long message is whole");
    let took = seen[1].at.since(sent);
    assert!(took <= Duration::from_secs(3), "{took:?}");
}

#[test]
fn what_is_refused_for_want_of_room_is_told_when_there_is_room() {
    let mut pair = Pair::connected(&one_link("delay_ms = 10\nrate_mbps = 20"), 1);
    let long = vec![0; 1 << 20];
    let mut taken = 0;
    while pair.send(DRONE, source(IN_ORDER), &long).is_ok() {
        taken += 1;
    }
    assert_eq!(pair.send(DRONE, source(IN_ORDER), &long), Err(SendError::Busy));
    assert_eq!(taken, 4);
    let limit = 1 << 20;
    let too_long = vec![0; limit + 1];
    assert_eq!(pair.send(DRONE, source(IN_ORDER), &too_long), Err(SendError::TooLarge { limit }));
    pair.run_for(Duration::from_secs(5));
    let told =
        pair.events[DRONE].iter().filter(|(_, e)| *e == fulmar_proto::Event::RoomForMessages);
    assert_eq!(told.count(), 1);
    assert_eq!(pair.seen[STATION].len(), 4);
}
