//! Message delivery: every message once and in order, and when.

use fulmar_proto::{Duration, MessageOrder, MessageStream, SendError, Source};

use crate::harness::{DRONE, Pair, STATION, one_link, two_links};

const IN_ORDER: MessageStream =
    MessageStream { id: 1, order: MessageOrder::InOrder, deadline: None };

fn source(stream: MessageStream) -> Source {
    Source::Message { channel: 3, stream }
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
