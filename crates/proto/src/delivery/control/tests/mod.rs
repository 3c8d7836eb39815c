//! The promises of control delivery as claims about an outbox and an inbox over bad paths.

mod simulation;

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use units::{Duration, Instant, Rate, Rng};

use self::simulation::{Line, MS, Sim};
use super::inbox::{Inbox, Reception};
use super::message::SecondCopy;
use super::outbox::Outbox;
use super::plan::Due;
use super::{ControlPath, LaneFloor, Submission};
use crate::event::{MessageId, Outcome};
use crate::ids::PathId;
use crate::limits;
use crate::path::CopyRoom;
use crate::recovery::Age;
use crate::select::{Class, Copies, LaneKey, Order, Policy, Reliability, StreamKey, Tier};
use crate::wire::{AckRanges, ControlFrame, DroppedFrame};

fn line(delay: u64, jitter: u64, loss: f64) -> Line {
    let [delay, jitter] = [delay, jitter].map(Duration::from_millis);
    Line { delay, jitter, loss, duplicate: 0.0, outage: None }
}

fn lane(source: u8) -> LaneKey {
    LaneKey { channel: 1, flow: 0, source: (source, 1), stream: None }
}

fn stream(source: u8, message: u32) -> LaneKey {
    LaneKey { stream: Some(StreamKey { message, target: (1, 1) }), ..lane(source) }
}

fn is_increasing(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

fn any_line() -> impl Strategy<Value = Line> {
    let outage = prop::option::of((0_u64..3_000, 1_u64..4_000));
    (1_u64..200, 0_u64..100, 0.0..0.6, 0.0..0.3, outage).prop_map(
        |(delay, jitter, loss, duplicate, outage)| {
            let outage = outage.map(|(from, len)| {
                let from = Instant::from_millis(1_000 + from);
                (from, from + Duration::from_millis(len))
            });
            Line { duplicate, outage, ..line(delay, jitter, loss) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn transactional_is_exactly_once_in_order_within_its_life(
        seed in any::<u64>(), lines in prop::collection::vec(any_line(), 1..4), gap in 0_u64..40,
    ) {
        let mut sim = Sim::new(seed, lines);
        let mut ids = BTreeMap::new();
        for number in 0..250 {
            let source = (number % 2) as u8;
            let id = sim.submit(Policy::TRANSACTIONAL, lane(source)).expect("room");
            ids.insert(number, id.expect("reliable"));
            sim.run_for(Duration::from_millis(gap));
        }
        sim.run_for(Duration::from_secs(5));
        sim.assert_kept_promises(&ids, Policy::TRANSACTIONAL.ttl);
        for source in 0..2 {
            let numbers: Vec<_> =
                sim.numbers().into_iter().filter(|number| number % 2 == source).collect();
            prop_assert!(is_increasing(&numbers));
        }
        prop_assert_eq!(sim.outbox.len(), 0);
    }

    #[test]
    fn sequenced_lane_never_goes_back_whatever_the_class(
        seed in any::<u64>(), lines in prop::collection::vec(any_line(), 1..4),
    ) {
        // Without outages: both ends agree on the probe timeout, which is what outcomes count on.
        let lines = lines.into_iter().map(|line| Line { outage: None, ..line }).collect();
        let mut sim = Sim::new(seed, lines);
        let all = [
            Policy::TRANSACTIONAL, Policy::LIVE, Policy::LIVENESS, Policy::TELEMETRY, Policy::TRANSFER,
        ];
        let mut ids = BTreeMap::new();
        for number in 0..400_u64 {
            let class = (sim.rng.below(5)) as usize;
            let policy = Policy { order: Order::Sequenced, ..all[class] };
            if let Some(id) = sim.submit(policy, stream(1, class as u32)).expect("room") {
                ids.insert(number, id);
            }
            sim.run_for(Duration::from_millis(7));
        }
        sim.run_for(Duration::from_secs(12));
        sim.assert_kept_promises(&ids, Policy::TRANSFER.ttl);
        prop_assert!(is_increasing(&sim.numbers()));
        prop_assert_eq!(sim.outbox.len(), 0);
    }

    #[test]
    fn bulk_arrives_once_on_one_path_at_a_time(
        seed in any::<u64>(), loss in 0.0..0.4, delay in 1_u64..100,
    ) {
        let mut sim = Sim::new(seed, vec![line(delay, 5, loss), line(10, 5, loss)]);
        let mut ids = BTreeMap::new();
        for number in 0..200 {
            ids.insert(number, sim.submit(Policy::TRANSFER, lane(1)).expect("room").expect("reliable"));
            sim.run_for(5 * MS);
        }
        sim.run_for(Duration::from_secs(12));
        sim.assert_kept_promises(&ids, Policy::TRANSFER.ttl);
        prop_assert_eq!(sim.delivered.len(), 200);
        // What is lost is sent again, and little else.
        let needed = 200.0 / ((1.0 - loss) * (1.0 - loss));
        prop_assert!((sim.copies as f64) < needed * 1.6 + 20.0, "{} copies", sim.copies);
    }
}

#[test]
fn live_is_never_older_after_newer_nor_beyond_its_age() {
    let mut sim = Sim::new(7, vec![line(20, 15, 0.1), line(400, 300, 0.05)]);
    sim.age_error = 5 * MS;
    for number in 0..100_000_u64 {
        sim.submit(Policy::LIVE, stream(1, 70)).expect("room");
        assert!(sim.outbox.len() <= 1);
        sim.run_for(Duration::from_millis(10 + number % 21));
        // Outcomes and deliveries are looked at in pieces: memory is for the tested, not the test.
        if number % 10_000 == 9_999 {
            assert!(is_increasing(&sim.numbers()));
            assert!(sim.delivered.iter().all(|(_, age)| *age <= Policy::LIVE.ttl));
            // One in ten is lost on the fast path, and its successor is there before its probe.
            assert!(sim.delivered.len() > 8_500, "{}", sim.delivered.len());
            let last = sim.delivered.pop();
            sim.delivered = last.into_iter().collect();
        }
    }
}

#[test]
fn outage_of_everything_ends_with_every_expiry_reported_and_nothing_stale() {
    let dead = Instant::from_millis(3_000);
    let outage = Some((dead, dead + Duration::from_secs(30)));
    let lines = vec![Line { outage, ..line(10, 2, 0.02) }, Line { outage, ..line(35, 5, 0.01) }];
    let mut sim = Sim::new(3, lines);
    let mut ids = BTreeMap::new();
    for number in 0..2_000 {
        ids.insert(number, sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room").expect("id"));
        sim.run_for(20 * MS);
    }
    sim.run_for(Duration::from_secs(5));
    sim.assert_kept_promises(&ids, Policy::TRANSACTIONAL.ttl);
    assert!(is_increasing(&sim.numbers()));
    let expired: Vec<u64> = ids
        .iter()
        .filter(|(_, id)| sim.outcomes[*id] == Outcome::Expired)
        .map(|(number, _)| *number)
        .collect();
    // 28 s of the outage at 50 messages a second; the last two seconds' messages get through.
    assert!((1_390..=1_410).contains(&expired.len()), "{}", expired.len());
    let after_outage = sim.delivered.iter().filter(|(_, age)| *age > 2_000 * MS).count();
    assert_eq!(after_outage, 0);
    assert!(sim.numbers().contains(&1_999) && sim.delivered.len() >= 590);
}

#[test]
fn what_waits_behind_a_message_that_is_given_up_comes_out_when_it_is() {
    let mut sim = Sim::new(6, vec![line(10, 0, 0.0), line(30, 0, 0.0)]);
    sim.doomed = Some(1);
    for _ in 0..4 {
        sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room");
        sim.run_for(500 * MS);
    }
    sim.run_for(2_000 * MS);
    // Number 1 went in at 0.5 s and expires at 2.5 s; the floor takes 10 ms.
    let expected = [(0, 10), (2, 1_510), (3, 1_010)].map(|(number, age)| (number, age * MS));
    assert_eq!(sim.delivered, expected);
    assert_eq!(sim.outcomes[&MessageId(1)], Outcome::Expired);
}

#[test]
fn one_of_two_paths_may_die_at_any_instant() {
    for death in 0..60 {
        let dead = Instant::from_millis(2_000 + death);
        let outage = Some((dead, Instant::from_millis(1_000_000)));
        let lines = vec![Line { outage, ..line(10, 0, 0.0) }, line(35, 0, 0.0)];
        let mut sim = Sim::new(death, lines);
        for _ in 0..100 {
            sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room");
            sim.run_for(20 * MS);
        }
        sim.run_for(3_000 * MS);
        assert_eq!(sim.delivered.len(), 100);
        assert!(sim.delivered.iter().all(|(_, age)| *age <= 35 * MS), "died at {death} ms");
    }
}

#[test]
fn copy_lost_on_the_only_path_is_made_good_by_the_second() {
    let mut sim = Sim::new(1, vec![line(20, 0, 0.3)]);
    for _ in 0..2_000 {
        sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room");
        sim.run_for(500 * MS);
    }
    assert_eq!(sim.delivered.len(), 2_000);
    let within = |limit| sim.delivered.iter().filter(|(_, age)| *age <= limit).count() as f64;
    // Each copy is lost with probability 0.3; the second follows after 5 ms.
    assert!((within(20 * MS) / 2_000.0 - 0.7).abs() < 0.04);
    assert!((within(25 * MS) / 2_000.0 - 0.91).abs() < 0.03);
    assert!(sim.delivered.iter().all(|(_, age)| *age < 500 * MS));
}

#[test]
fn interval_of_the_paper_at_its_loss() {
    // Two paths, 28.4 % loss each way, the next message half a second after delivery of the last.
    let mut sim = Sim::new(11, vec![line(10, 0, 0.284), line(10, 0, 0.284)]);
    let mut delays = Vec::new();
    for number in 0..2_000 {
        sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room");
        while sim.delivered.len() == number {
            sim.run_for(MS);
        }
        delays.push(sim.delivered[number].1);
        sim.run_for(500 * MS);
    }
    let mean = delays.iter().sum::<Duration>() / 2_000;
    let max = delays.iter().max().copied().unwrap_or_default();
    assert!(mean <= 25 * MS && max <= 300 * MS, "mean {mean:?}, max {max:?}");
}

#[test]
fn restart_leaves_what_was_in_flight_indeterminate() {
    let mut sim = Sim::new(2, vec![line(50, 0, 0.0)]);
    let first = sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room").expect("reliable");
    sim.run_for(500 * MS);
    let second = sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room").expect("reliable");
    sim.submit(Policy::LIVENESS, lane(1)).expect("room");
    // Nothing more is sent once the session is over; what is under way comes to a new inbox.
    sim.outbox.end();
    sim.inbox = Inbox::new();
    sim.run_for(500 * MS);
    assert_eq!(sim.outcomes[&first], Outcome::Delivered);
    assert_eq!(sim.outcomes[&second], Outcome::Indeterminate);
    assert_eq!((sim.outbox.len(), sim.outbox.timeout()), (0, None));
}

#[test]
fn what_the_receiver_drops_is_not_told_to_be_delivered() {
    // An idea of ages that may be off by 750 ms: more than a set-point lives.
    for (policy, delivered) in [(Policy::TRANSACTIONAL, true), (Policy::LIVE, false)] {
        let mut sim = Sim::new(3, vec![line(20, 0, 0.0), line(30, 0, 0.0)]);
        sim.age_error = 750 * MS;
        let id = sim.submit(policy, lane(1)).expect("room").expect("reliable");
        sim.run_for(3_000 * MS);
        let expected = if delivered { Outcome::Delivered } else { Outcome::Expired };
        assert_eq!((sim.outcomes[&id], sim.delivered.len()), (expected, usize::from(delivered)));
    }
}

#[test]
fn what_may_be_missing_in_the_list_is_not_told_to_be_delivered() {
    let mut sim = Sim::new(3, vec![line(20, 0, 0.0)]);
    let ids: Vec<_> = (0..3)
        .map(|_| sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room").expect("reliable"))
        .collect();
    let numbers = AckRanges::new(1..=1);
    sim.outbox.on_dropped(&DroppedFrame { unlisted: 1, numbers });
    sim.run_for(200 * MS);
    let outcomes = [Outcome::Indeterminate, Outcome::Expired, Outcome::Delivered];
    assert_eq!(ids.iter().map(|id| sim.outcomes[id]).collect::<Vec<_>>(), outcomes);
}

#[test]
fn what_waits_for_an_earlier_one_is_passed_on_when_the_session_ends() {
    let mut sim = Sim::new(2, vec![line(50, 0, 0.0)]);
    sim.doomed = Some(0);
    for _ in 0..3 {
        sim.submit(Policy::TRANSACTIONAL, lane(1)).expect("room");
    }
    sim.run_for(200 * MS);
    assert_eq!((sim.numbers(), sim.inbox.held()), (vec![], 2), "acknowledged, and waiting");
    sim.inbox.end(sim.now);
    sim.run_for(MS);
    assert_eq!(sim.numbers(), [1, 2]);
}

#[test]
fn downloads_leave_room_for_control_and_bounds_hold() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let mut submit = |policy: Policy, lane: LaneKey| {
        outbox.submit(now, Submission { channel: 1, policy, lane, payload: vec![0; 200] }).is_ok()
    };
    let bulk = (0..limits::CONTROL_MESSAGES).filter(|_| submit(Policy::TRANSFER, lane(1))).count();
    assert_eq!(bulk, limits::CONTROL_MESSAGES / 2);
    let ordered = (0..limits::CONTROL_MESSAGES)
        .filter(|number| submit(Policy::TRANSACTIONAL, lane((number % 7) as u8)))
        .count();
    assert_eq!(ordered, limits::HELD_MESSAGES);
    let declared = Policy { order: Order::None, ..Policy::TRANSACTIONAL };
    let rest = (0..limits::CONTROL_MESSAGES).filter(|_| submit(declared, lane(1))).count();
    assert_eq!(bulk + ordered + rest, limits::CONTROL_MESSAGES);
}

#[test]
fn unreliable_copies_go_out_once_per_path_and_are_forgotten() {
    let mut sim = Sim::new(4, vec![line(10, 0, 0.0), line(20, 0, 0.0)]);
    assert_eq!(sim.submit(Policy::LIVENESS, lane(1)), Ok(None));
    assert_eq!((sim.copies, sim.outbox.len()), (2, 0));
    sim.run_for(100 * MS);
    assert_eq!((sim.copies, sim.delivered.len()), (2, 1));
    assert_eq!(sim.inbox.counters()[Class::Liveness.index()].duplicates, 1);
}

#[test]
fn signed_command_does_not_overtake_the_download_before_it() {
    // Nothing is sent yet, so everything is still queued when the command comes.
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let mut submit = |policy: Policy| {
        let policy = Policy { order: Order::Sequenced, ..policy };
        let submission = Submission { channel: 1, policy, lane: lane(1), payload: Vec::new() };
        outbox.submit(now, submission).expect("room");
    };
    submit(Policy::TRANSFER);
    submit(Policy::TELEMETRY);
    submit(Policy::TRANSACTIONAL);
    submit(Policy::TRANSFER);
    let path = PathId(0);
    outbox.set_paths(now, &[ControlPath::plain(path, true, Duration::ZERO)], 20 * MS);
    let mut taken = VecDeque::new();
    while let Some((seq, _)) = outbox.poll(now, path, Tier::Control, CopyRoom::both(1_000)) {
        taken.push_back(seq);
    }
    assert_eq!(taken, [0, 1, 2]);
    assert!(outbox.wants(path, Tier::Message));
}

#[test]
fn what_came_a_while_ago_has_as_much_less_time_left() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let (came, now) = (Instant::from_millis(1), Instant::from_millis(1_901));
    let policy = Policy::TRANSACTIONAL;
    let submission = Submission { channel: 1, policy, lane: lane(1), payload: vec![0; 10] };
    outbox.submit_late((now, came), submission.clone()).expect("room");
    let path = PathId(0);
    outbox.set_paths(now, &[ControlPath::plain(path, true, Duration::ZERO)], 20 * MS);
    let (_, frame) = outbox.poll(now, path, Tier::Control, CopyRoom::both(1_000)).unwrap();
    assert_eq!(frame.submitted_us, 1_000, "the receiver judges its age by that");
    let second = outbox.submit_late((now, came), submission).expect("room");
    outbox.handle_timeout(now + 110 * MS);
    let ended = outbox.poll_outcome().map(|ended| (Some(ended.message), ended.outcome));
    assert_eq!(ended, Some((second, Outcome::Expired)), "no path took it in time");
}

#[test]
fn unreplicated_message_moves_when_its_path_falls_silent() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let paths = |first| {
        [
            ControlPath::plain(PathId(0), first, Duration::ZERO),
            ControlPath::plain(PathId(1), true, Duration::ZERO),
        ]
    };
    outbox.set_paths(now, &paths(true), 20 * MS);
    let policy = Policy { copies: Copies::Best, ..Policy::TRANSFER };
    let submission = Submission { channel: 1, policy, lane: lane(1), payload: Vec::new() };
    outbox.submit(now, submission).expect("room");
    assert!(outbox.poll(now, PathId(0), Tier::Message, CopyRoom::both(100)).is_some());
    assert!(!outbox.wants(PathId(1), Tier::Message));
    outbox.set_paths(now, &paths(false), 20 * MS);
    assert!(outbox.wants(PathId(1), Tier::Message) && !outbox.wants(PathId(0), Tier::Message));
}

#[test]
fn path_that_comes_back_gets_what_is_unacknowledged_unless_it_waits_in_a_queue() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let path = |usable, repeat_after| [ControlPath::plain(PathId(0), usable, repeat_after)];
    outbox.set_paths(now, &path(false, Duration::ZERO), 20 * MS);
    let policy = Policy::TRANSACTIONAL;
    let submission = Submission { channel: 1, policy, lane: lane(1), payload: Vec::new() };
    outbox.submit(now, submission).expect("room");
    assert!(outbox.poll(now, PathId(0), Tier::Control, CopyRoom::both(100)).is_some());
    assert!(!outbox.wants(PathId(0), Tier::Control));
    outbox.set_paths(now + MS, &path(true, 20 * MS), 20 * MS);
    assert!(!outbox.wants(PathId(0), Tier::Control), "it waits");
    outbox.set_paths(now + 2 * MS, &path(false, Duration::ZERO), 20 * MS);
    outbox.set_paths(now + 3 * MS, &path(true, Duration::ZERO), 20 * MS);
    assert!(outbox.wants(PathId(0), Tier::Control));
}

/// In doubt, a lone thin path was given all that stood before its hop once more, every 40 ms.
#[test]
fn what_is_under_way_on_a_path_is_no_less_so_while_an_answer_is_overdue_there() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let path = |usable| [ControlPath::plain(PathId(0), usable, Duration::ZERO)];
    outbox.set_paths(now, &path(true), 20 * MS);
    submit(&mut outbox, now);
    assert!(outbox.poll(now, PathId(0), Tier::Control, CopyRoom::both(100)).is_some());
    for usable in [false, true, false] {
        outbox.set_paths(now + 10 * MS, &path(usable), 20 * MS);
    }
    let later = now + 10 * MS;
    assert!(outbox.wants(PathId(0), Tier::Control));
    let no_repeat = CopyRoom { repeat: 0, ..CopyRoom::both(100) };
    assert!(outbox.poll(later, PathId(0), Tier::Control, no_repeat).is_none());
    assert!(outbox.poll(later, PathId(0), Tier::Control, CopyRoom::both(100)).is_some());
}

#[test]
fn a_lost_message_goes_again_although_a_copy_waits_for_a_path_that_leaves_it_to_others() {
    let mut outbox = Outbox::new(&Reliability::default(), 0);
    let now = Instant::from_millis(1);
    let path = |id| ControlPath::plain(PathId(id), true, Duration::ZERO);
    outbox.set_paths(now, &[path(0), path(1)], 20 * MS);
    let policy = Policy::TRANSACTIONAL;
    let submission = Submission { channel: 1, policy, lane: lane(1), payload: vec![0; 10] };
    outbox.submit(now, submission).expect("room");
    let none_fresh = CopyRoom { fresh: 0, ..CopyRoom::both(100) };
    assert!(outbox.poll(now, PathId(1), Tier::Control, none_fresh).is_none());
    let (seq, _) = outbox.poll(now, PathId(0), Tier::Control, CopyRoom::both(100)).expect("sent");
    outbox.on_lost(now + 5 * MS, seq, PathId(0));
    assert!(outbox.poll(now + 5 * MS, PathId(1), Tier::Control, none_fresh).is_none());
    assert!(outbox.poll(now + 5 * MS, PathId(0), Tier::Control, CopyRoom::both(100)).is_some());
}

#[test]
fn a_copy_that_rides_asks_for_no_datagram_and_leaves_with_the_next_message_or_by_itself_at_last() {
    let now = Instant::from_millis(1);
    let sent = || {
        let mut outbox = Outbox::new(&Reliability::default(), 0);
        outbox.set_paths(now, &[ControlPath::plain(PathId(0), true, Duration::ZERO)], 100 * MS);
        submit(&mut outbox, now);
        let (seq, _) = outbox.poll(now, PathId(0), Tier::Control, RIDE).expect("sent");
        let message = outbox.messages.get_mut(&seq).expect("kept");
        let due = Due::WithNext { from: now + 5 * MS, until: now + 40 * MS };
        message.second = SecondCopy::Due(due);
        outbox.pending.add_ride(PathId(0), (message.rank, seq));
        outbox.arm(now, seq);
        assert!(outbox.pending.has_rides(PathId(0)) && !outbox.wants(PathId(0), Tier::Control));
        assert!(outbox.poll(now, PathId(0), Tier::Control, RIDE).is_none(), "not with its first");
        (outbox, seq)
    };
    let (mut outbox, first) = sent();
    let next = now + 20 * MS;
    submit(&mut outbox, next);
    assert!(outbox.poll(next, PathId(0), Tier::Control, RIDE).is_some_and(|(seq, _)| seq != first));
    let alone = CopyRoom { ride: 0, ..RIDE };
    assert!(outbox.poll(next, PathId(0), Tier::Control, alone).is_none());
    let ridden = outbox.poll(next, PathId(0), Tier::Control, RIDE).map(|(seq, _)| seq);
    assert_eq!((ridden, outbox.pending.has_rides(PathId(0))), (Some(first), false));
    let (mut outbox, first) = sent();
    let last = now + 40 * MS;
    assert_eq!(outbox.timeout(), Some(last));
    let alone = outbox.poll(last, PathId(0), Tier::Control, alone).map(|(seq, _)| seq);
    assert_eq!((alone, outbox.pending.has_rides(PathId(0))), (Some(first), false));
    let (mut outbox, first) = sent();
    outbox.on_lost(now + 10 * MS, first, PathId(0));
    assert!(!outbox.pending.has_rides(PathId(0)), "the next round has its own copy");
}

/// Room of a datagram that leaves anyway.
const RIDE: CopyRoom = CopyRoom {
    fresh: 100,
    newest: 100,
    repeat: 100,
    ride: 100,
    transit: Duration::ZERO,
    rate: Rate::from_bps(u64::MAX),
    doubt: Duration::ZERO,
};

fn submit(outbox: &mut Outbox, now: Instant) {
    let policy = Policy::TRANSACTIONAL;
    let submission = Submission { channel: 1, policy, lane: lane(1), payload: vec![0; 10] };
    outbox.submit(now, submission).expect("room");
}

#[test]
fn numbers_that_run_away_are_refused_and_not_listed() {
    let mut inbox = Inbox::new();
    let age = Age { estimate: 2_000 * MS, error: MS };
    let mut seq = 0_u32;
    // Each is as far ahead of the one before as can be told: 2⁴⁸ after 131,072 of them.
    for count in 0..140_000_u64 {
        seq = seq.wrapping_add(0x7fff_ffff);
        let frame = ControlFrame {
            channel: 0,
            class: Class::Control,
            order: Order::None,
            seq,
            lane: 0,
            lane_seq: 0,
            floor: 0,
            ttl_ms: 0,
            submitted_us: 0,
            payload: &[1],
        };
        let reception = inbox.handle_control(Instant::from_millis(1), &frame, age);
        let (frame, _) = inbox.dropped(1_000).expect("something was dropped");
        if (count + 1) * 0x7fff_ffff > limits::LAST_CONTROL_NUMBER {
            assert_eq!(reception, Reception::Refused);
            return;
        }
        assert_eq!(reception, Reception::Late);
        assert_eq!(frame.numbers.largest(), (count + 1) * 0x7fff_ffff);
    }
    panic!("none was too large");
}

#[test]
fn hostile_frames_neither_grow_nor_hang_the_inbox() {
    let mut inbox = Inbox::new();
    let mut rng = Rng::new(9);
    let orders = [Order::None, Order::Latest, Order::InOrder, Order::Sequenced];
    for step in 0..200_000_u64 {
        let now = Instant::from_nanos(step * 10_000);
        let wild = rng.chance(0.5);
        let mut number =
            |near: u64| if wild { rng.next_u64() as u32 } else { rng.below(near) as u32 };
        let (seq, lane_seq, floor) = (number(40_000), number(500), number(500));
        let frame = ControlFrame {
            channel: 0,
            class: Class::ALL[rng.below(6) as usize],
            order: orders[rng.below(4) as usize],
            seq,
            lane: rng.below(if wild { 65_536 } else { 8 }) as u16,
            lane_seq,
            floor,
            ttl_ms: rng.next_u64() as u16,
            submitted_us: 0,
            payload: &[1, 2, 3],
        };
        let estimate = Duration::from_millis(rng.below(3_000));
        let error = if rng.chance(0.01) { Duration::MAX } else { MS };
        inbox.handle_control(now, &frame, Age { estimate, error });
        if rng.chance(0.1) {
            let lane = rng.next_u64() as u16;
            inbox.handle_floor(now, LaneFloor { lane, floor: rng.next_u64() as u32 });
        }
        while inbox.poll_delivery().is_some() {}
        assert!(inbox.held() <= limits::HELD_MESSAGES);
        assert!(inbox.lanes() <= limits::LANES);
        assert!(inbox.timeout().is_none_or(|at| at > now));
    }
}

#[test]
fn a_connection_gets_one_copy_and_another_only_after_it_has_ended() {
    for copies in [Copies::All, Copies::Best] {
        let now = Instant::from_millis(1_000);
        let mut outbox = Outbox::new(&Reliability::default(), 7);
        let kept = |usable| [ControlPath::plain(PathId(0), usable, Duration::MAX)];
        outbox.set_paths(now, &kept(true), 20 * MS);
        let policy = Policy { copies, ..Policy::TRANSACTIONAL };
        let submission = Submission { channel: 1, policy, lane: lane(1), payload: vec![7; 20] };
        outbox.submit(now, submission).expect("room");
        let room = CopyRoom::both(1_000);
        assert!(outbox.poll(now, PathId(0), Tier::Control, room).is_some());
        for ms in 1..1_500 {
            let now = now + ms * MS;
            // It falls silent, and works again.
            outbox.set_paths(now, &kept(ms % 500 < 400), 20 * MS);
            outbox.handle_timeout(now);
            assert!(outbox.poll(now, PathId(0), Tier::Control, room).is_none(), "{copies:?} {ms}");
        }
        let now = now + 1_500 * MS;
        outbox.set_paths(now, &kept(true), 20 * MS);
        outbox.on_lost(now, 0, PathId(0));
        assert!(outbox.poll(now, PathId(0), Tier::Control, room).is_some(), "{copies:?}");
    }
}
