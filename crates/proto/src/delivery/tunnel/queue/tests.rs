//! Claims about the queue: who goes first, what is dropped, what is refused.

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn push(queue: &mut Queue, ms: u64, flow: u64, tag: u8) {
    let far = queue.flows.get(&Flow::test(flow)).and_then(|packets| packets.farthest);
    push_at(queue, ms, flow, tag, far.map_or(u32::MAX - 2, |far| far.wrapping_add(1)));
}

fn push_at(queue: &mut Queue, ms: u64, flow: u64, tag: u8, sequence: u32) {
    let (flow, part, since) = (Flow::test(flow), Part::Data, at(ms));
    queue.push(Waiting { flow, part, sequence, since, payload: vec![tag; 1_000] }, 0);
}

fn pop(queue: &mut Queue, ms: u64, number: u64) -> Option<(u8, Option<u64>)> {
    queue.pop(at(ms), number).map(|(packet, before)| (packet.payload[0], before))
}

/// A queue after the time in which nothing is dropped.
fn queue(mbps: f64) -> Queue {
    let mut queue = Queue::default();
    queue.set_ways(at(0), &Ways::test(1, mbps));
    queue
}

#[test]
fn flows_take_turns_and_each_knows_its_packet_before() {
    let mut queue = queue(10.0);
    for (flow, tag) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (3, 31)] {
        push(&mut queue, 5_000, flow, tag);
    }
    let order: Vec<_> = (1..=6).filter_map(|number| pop(&mut queue, 5_000, number)).collect();
    let expected =
        [(10, None), (20, None), (30, None), (11, Some(1)), (31, Some(3)), (12, Some(4))];
    assert_eq!(order, expected);
    assert!(queue.is_empty() && queue.bytes() == 0);
}

#[test]
fn a_flow_holds_a_tenth_of_a_second_and_drops_its_oldest() {
    let mut queue = queue(20.0);
    (0..400).for_each(|number| push(&mut queue, 5_000, 1, number as u8));
    assert!(queue.bytes() <= 250_000 && queue.bytes() > 248_000, "{}", queue.bytes());
    let kept = queue.len() as u64;
    assert_eq!(queue.dropped(), 400 - kept);
    assert_eq!(pop(&mut queue, 5_001, 1), Some(((400 - kept) as u8, None)));
    let mut far = self::queue(20.0);
    let rtt = Duration::from_millis(300);
    far.set_ways(at(0), &Ways { least_rtt: rtt, ..Ways::test(1, 20.0) });
    (0..800).for_each(|number| push(&mut far, 5_000, 1, number as u8));
    assert!((740_000..=750_000).contains(&far.bytes()), "{}", far.bytes());
    let mut slow = self::queue(2.0);
    (0..100).for_each(|number| push(&mut slow, 5_000, 1, number));
    assert_eq!((slow.len(), pop(&mut slow, 5_001, 1)), (LEAST_PACKETS, Some((36, None))));
}

#[test]
fn a_slow_link_refuses_the_newest_data_and_drops_the_oldest_acknowledgement() {
    let mut queue = queue(0.5);
    (0..100).for_each(|number| push(&mut queue, 5_000, 1, number));
    assert_eq!((queue.len(), queue.dropped()), (LEAST_PACKETS, 36));
    assert_eq!(pop(&mut queue, 5_001, 1), Some((0, None)));
    let (flow, part, since) = (Flow::test(2), Part::Ack, at(5_001));
    for tag in 0..100 {
        let sequence = u32::from(tag);
        queue.push(Waiting { flow, part, sequence, since, payload: vec![tag; 1_000] }, 0);
    }
    assert_eq!(queue.flows[&flow].waiting.front().map(|packet| packet.payload[0]), Some(36));
}

#[test]
fn on_a_slow_link_what_tcp_sends_again_takes_the_place_of_what_it_would_overtake() {
    // Where each of them lies is its number; 64 of the first 70 find room.
    let full = || {
        let mut queue = queue(0.5);
        (0..70).for_each(|sequence| push_at(&mut queue, 5_000, 1, sequence as u8, sequence));
        for number in 0..4 {
            assert_eq!(pop(&mut queue, 5_050, number).map(|it| it.0), Some(number as u8));
        }
        (70..73).for_each(|sequence| push_at(&mut queue, 5_050, 1, sequence as u8, sequence));
        queue
    };
    let tags = |queue: &Queue| -> Vec<u8> {
        queue.flows[&Flow::test(1)].waiting.iter().map(|packet| packet.payload[0]).collect()
    };
    let mut queue = full();
    let expected: Vec<u8> = (4..64).chain(70..73).collect();
    assert_eq!(tags(&queue), expected);
    push_at(&mut queue, 5_300, 1, 200, 64);
    let expected: Vec<u8> = (4..64).chain([200]).collect();
    assert_eq!((tags(&queue), queue.dropped()), (expected, 6 + 3));
    assert_eq!(queue.bytes(), queue.flows[&Flow::test(1)].bytes);
    // TCP hears of them and sends them again, in order: nothing waits behind, and nothing goes.
    (70..73).for_each(|sequence| push_at(&mut queue, 5_300, 1, 201, sequence));
    assert_eq!((queue.len(), queue.dropped()), (64, 9));

    // What was not refused waits or is under way: nothing is dropped for its sake, nor while the
    // oldest waits but a moment.
    for sequence in [3, 6] {
        let mut queue = full();
        push_at(&mut queue, 6_000, 1, 200, sequence);
        assert_eq!((queue.dropped(), tags(&queue).contains(&72)), (6, true));
    }
    let mut queue = full();
    push_at(&mut queue, 5_170, 1, 200, 3);
    push_at(&mut queue, 5_170, 1, 200, 65);
    assert_eq!((queue.len(), tags(&queue).contains(&72)), (64, false));
}

#[test]
fn what_is_dropped_at_once_is_counted_and_its_foremost_are_remembered() {
    let mut queue = queue(0.5);
    (0..65).for_each(|sequence| push_at(&mut queue, 5_000, 1, 1, sequence));
    queue.set_ways(at(5_000), &Ways::default());
    (65..2_000).for_each(|sequence| push_at(&mut queue, 5_000, 1, 1, sequence));
    assert_eq!((queue.len(), queue.dropped()), (1_999, 1), "nothing is dropped in an outage");
    push_at(&mut queue, 6_000, 1, 2, 64);
    let packets = &queue.flows[&Flow::test(1)];
    assert_eq!((packets.waiting.len(), packets.repeats.len()), (65, 65));
    assert_eq!((queue.dropped(), packets.refused.len()), (1 + 1_935, 4 * LEAST_PACKETS));
    assert!(packets.refused.contains(&65) && !packets.refused.contains(&1_999));
    assert_eq!(queue.bytes(), packets.bytes);
}

#[test]
fn on_a_slow_link_in_an_outage_what_tcp_sends_again_takes_the_place_of_its_first_copy() {
    let mut queue = queue(0.5);
    (0..64).for_each(|sequence| push_at(&mut queue, 5_000, 1, sequence as u8, sequence));
    for number in 0..4 {
        assert_eq!(pop(&mut queue, 5_050, number).map(|it| it.0), Some(number as u8));
    }
    // An acknowledgement of another flow stays, and so does what lies before.
    let (flow, part, since) = (Flow::test(2), Part::Ack, at(5_060));
    queue.push(Waiting { flow, part, sequence: 0, since, payload: vec![9; 60] }, 0);
    let tags = |queue: &Queue| -> Vec<u8> {
        queue.flows[&Flow::test(1)].waiting.iter().map(|packet| packet.payload[0]).collect()
    };
    push_at(&mut queue, 6_000, 1, 200, 6);
    assert_eq!(tags(&queue), (4..64).chain([200]).collect::<Vec<_>>());
    for (ms, tag) in [(6_100, 201), (8_100, 202)] {
        push_at(&mut queue, ms, 1, tag, 6);
        assert_eq!(tags(&queue), [4, 5, tag], "at {ms}");
    }
    assert_eq!(queue.flows[&flow].waiting.len(), 1);
    assert_eq!(queue.bytes(), queue.flows.values().map(|packets| packets.bytes).sum::<usize>());
}

#[test]
fn the_bound_falls_slowly_and_not_while_nothing_leaves() {
    let mut queue = queue(20.0);
    queue.set_ways(at(5_000), &Ways::test(1, 1.0));
    for ms in 0..300_u64 {
        push(&mut queue, 5_000 + 10 * ms, 1, 0);
        pop(&mut queue, 5_000 + 10 * ms, ms);
    }
    let bound = queue.bound.bytes();
    assert!((124_000..127_000).contains(&bound), "half after three seconds: {bound}");
    push(&mut queue, 60_000, 1, 0);
    pop(&mut queue, 70_000, 400);
    assert_eq!(queue.bound.bytes(), bound, "nothing left meanwhile");
}

#[test]
fn where_a_path_goes_the_bound_is_what_the_others_carry() {
    let mut queue = Queue::default();
    let set = |queue: &mut Queue, paths, mbps| {
        queue.set_ways(at(0), &Ways::test(paths, mbps));
        queue.bound.bytes()
    };
    assert_eq!(set(&mut queue, 2, 28.0), 350_000);
    assert_eq!(set(&mut queue, 2, 10.0), 350_000, "a lower rate alone takes its time");
    queue.set_ways(at(0), &Ways { is_known: false, ..Ways::test(1, 8.0) });
    assert_eq!(set(&mut queue, 2, 10.0), 350_000, "who knows what the other carries");
    assert_eq!(set(&mut queue, 1, 8.0), 100_000);
    assert_eq!(set(&mut queue, 0, 0.0), 100_000);
    assert_eq!(set(&mut queue, 1, 6.0), 100_000);
    assert_eq!(set(&mut queue, 2, 20.0), 250_000);
}

#[test]
fn half_of_what_is_silent_counts_but_no_more_than_what_works() {
    for (silent, bytes) in [(0.0, 100_000), (6.0, 137_500), (16.0, 200_000), (90.0, 200_000)] {
        let mut queue = queue(28.0);
        queue.set_ways(at(0), &Ways::test(2, 28.0));
        let silent = Rate::from_mbps(silent);
        queue.set_ways(at(0), &Ways { silent, ..Ways::test(1, 8.0) });
        assert_eq!(queue.bound.bytes(), bytes, "{silent:?}");
    }
}

#[test]
fn what_tcp_sends_again_stays_where_something_else_can_go() {
    let mut queue = queue(20.0);
    (0..50).for_each(|number| push(&mut queue, 5_000, 1, number));
    (0..50).for_each(|number| assert!(pop(&mut queue, 5_000, number).is_some()));
    (10..13).for_each(|sequence| push_at(&mut queue, 5_000, 1, 99, sequence));
    (0..400).for_each(|_| push(&mut queue, 5_000, 1, 1));
    assert!(queue.dropped() > 100);
    let next: Vec<_> = (60..64).filter_map(|number| pop(&mut queue, 5_000, number)).collect();
    assert_eq!(next.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [99, 99, 99, 1]);
    // Nothing but repeats: the oldest of them goes.
    (0..400).for_each(|_| push_at(&mut queue, 5_001, 2, 7, 5));
    assert!(queue.flows[&Flow::test(2)].bytes <= queue.bound.bytes());
}

#[test]
fn while_a_path_runs_dry_nothing_is_dropped_for_its_sake() {
    let mut queue = queue(20.0);
    queue.set_ways(at(5_000), &Ways { runs_dry: true, ..Ways::test(1, 5.0) });
    (0..400).for_each(|_| push(&mut queue, 5_000, 1, 0));
    (0..9).for_each(|number| assert!(pop(&mut queue, 5_020 + 20 * number, number).is_some()));
    queue.set_ways(at(5_200), &Ways::test(1, 20.0));
    (9..20).for_each(|number| assert!(pop(&mut queue, 5_020 + 20 * number, number).is_some()));
    push(&mut queue, 5_399, 1, 0);
    assert_eq!(queue.dropped(), 0);
    push(&mut queue, 5_401, 1, 0);
    assert!(queue.dropped() > 100, "for as long after as it lasted, and no longer");
}

#[test]
fn an_outage_drops_nothing_that_fits_and_spares_what_comes_after() {
    let mut queue = queue(5.0);
    queue.set_ways(at(5_000), &Ways::test(0, 0.0));
    (0..1_000).for_each(|number| push(&mut queue, 6_000, 1, number as u8));
    assert_eq!((queue.len(), queue.dropped()), (1_000, 0));
    (0..4_000).for_each(|_| push(&mut queue, 7_000, 1, 99));
    assert!(queue.bytes() <= limits::TUNNEL_QUEUE_BYTES);
    queue.set_ways(at(25_000), &Ways::test(1, 5.0));
    assert_eq!(pop(&mut queue, 25_000, 1), Some((0, None)), "the oldest is still there");
    let before = queue.len();
    push(&mut queue, 26_000, 1, 0);
    assert_eq!(queue.len(), before + 1);
}

#[test]
fn a_stall_that_nobody_has_noticed_yet_drops_nothing() {
    let mut queue = queue(5.0);
    push(&mut queue, 5_000, 1, 0);
    (0..200).for_each(|number| push(&mut queue, 5_200, 1, number));
    assert_eq!(queue.dropped(), 0);
}

#[test]
fn flows_are_bounded_and_quiet_ones_give_way() {
    let mut queue = queue(5.0);
    for flow in 0..2 * limits::TUNNEL_FLOWS as u64 {
        push(&mut queue, 5_000, flow, 0);
        pop(&mut queue, 5_000, flow);
    }
    assert_eq!(queue.flows(), limits::TUNNEL_FLOWS);
    assert_eq!(queue.dropped(), 0);
    (0..limits::TUNNEL_FLOWS as u64).for_each(|flow| push(&mut queue, 5_000, flow, 0));
    push(&mut queue, 5_000, 1 << 40, 0);
    assert_eq!(queue.dropped(), 1, "each of them has something waiting");
}

#[test]
fn what_no_path_carries_any_more_is_dropped() {
    let mut queue = queue(5.0);
    push(&mut queue, 5_000, 1, 1);
    push(&mut queue, 5_000, 2, 2);
    let (flow, part, since) = (Flow::test(1), Part::Data, at(5_000));
    queue.push(Waiting { flow, part, sequence: 9, since, payload: vec![3; 500] }, 0);
    queue.drop_longer(600);
    assert_eq!((queue.len(), queue.dropped(), queue.waiting_flows()), (1, 2, 1));
    assert_eq!(pop(&mut queue, 5_001, 1), Some((3, None)));
}
