//! What the sender does with packets, paths and losses, step by step.

use super::super::segment::Flow;
use super::super::ways::Ways;
use super::*;

const ROOM: usize = 1_400;
const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);

struct Always(bool);

impl Ask for Always {
    fn is_for(&self, _backlog: usize, _packet: usize, _frame: usize) -> bool {
        self.0
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn sender() -> Sender {
    let mut sender = Sender::new(1);
    sender.set_paths(at(0), [WIFI, LTE].into_iter(), ROOM);
    sender.queue.set_ways(at(0), &Ways::test(1, 30.0));
    sender
}

fn submit(sender: &mut Sender, flow: u64, part: Part, tag: u8) {
    let payload = vec![tag; 1_000];
    sender.submit(Waiting {
        flow: Flow::test(flow),
        part,
        sequence: tag.into(),
        since: at(5_000),
        payload,
    });
}

/// Lets a path take what it is given; returns the symbol's number, how far back it points, and its
/// tag.
fn poll(sender: &mut Sender, path: PathId, ahead: usize) -> Option<(u64, u64, u8)> {
    let number = sender.poll(at(5_000), path, ahead, ROOM, &Always(true))?;
    let frame = sender.frame(number).expect("what leaves is kept");
    Some((number, frame.back, frame.payload[0]))
}

#[test]
fn what_was_lost_leaves_before_anything_new_and_stays_until_it_arrives() {
    let mut sender = sender();
    (0..4).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((2, 1, 1)));
    sender.on_lost(at(5_030), 1);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((3, 1, 2)));
    [2, 3].into_iter().for_each(|number| sender.on_acked(number));
    for _ in 0..20 {
        sender.on_lost(at(60_000), 1);
        assert_eq!(poll(&mut sender, LTE, 0).map(|(number, ..)| number), Some(1));
    }
    sender.on_acked(1);
    assert_eq!((sender.first, sender.window.len()), (4, 0));
    sender.on_acked(1);
    sender.on_lost(at(60_000), 1);
    assert_eq!(poll(&mut sender, LTE, 0), Some((4, 1, 3)));
    assert_eq!(sender.counters(), Sent { symbols: 4, again: 21, ..Sent::default() });
}

#[test]
fn a_slow_path_takes_what_the_fast_one_would_reach_later() {
    let mut sender = sender();
    (0..6).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    assert_eq!(poll(&mut sender, LTE, 2_500), Some((5, 1, 4)));
    let fast: Vec<_> = (0..4).filter_map(|_| poll(&mut sender, WIFI, 0)).collect();
    assert_eq!(fast, [(2, 1, 1), (3, 1, 2), (4, 1, 3), (6, 1, 5)]);
}

#[test]
fn a_request_waits_for_nothing_that_a_transfer_has_waiting() {
    let mut sender = sender();
    (0..8).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    assert_eq!(poll(&mut sender, LTE, 2_500), Some((5, 1, 4)));
    submit(&mut sender, 2, Part::Data, 90);
    submit(&mut sender, 2, Part::Data, 91);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((6, 0, 90)));
    let next: Vec<_> = (0..5).filter_map(|_| poll(&mut sender, WIFI, 0)).collect();
    assert_eq!(next, [(2, 1, 1), (3, 1, 2), (4, 1, 3), (7, 2, 5), (8, 2, 91)]);
    submit(&mut sender, 2, Part::Data, 92);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((9, 2, 6)), "two are under way");
    assert_eq!(poll(&mut sender, WIFI, 0), Some((10, 2, 92)));
    submit(&mut sender, 1, Part::Data, 8);
    (1..=10).for_each(|number| sender.on_acked(number));
    submit(&mut sender, 2, Part::Data, 93);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((11, 1, 93)));
}

#[test]
fn edges_of_a_connection_leave_on_every_path_that_works() {
    let mut sender = sender();
    submit(&mut sender, 1, Part::Edge, 7);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 7)));
    assert_eq!(poll(&mut sender, WIFI, 0), None);
    assert!(sender.wants());
    assert_eq!(poll(&mut sender, LTE, 0), Some((1, 0, 7)));
    sender.on_lost(at(5_030), 1);
    assert!(!sender.wants(), "the other copy may arrive");
    sender.on_lost(at(5_060), 1);
    assert_eq!(poll(&mut sender, LTE, 0), Some((1, 0, 7)));
}

#[test]
fn what_no_path_takes_waits_where_it_was() {
    let mut sender = sender();
    (0..2).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    assert_eq!(sender.poll(at(5_000), LTE, 0, ROOM, &Always(false)), None);
    assert_eq!(sender.poll(at(5_000), LTE, 0, 900, &Always(true)), None, "no room for it");
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((2, 1, 1)));
}

#[test]
fn what_fits_no_path_any_more_is_given_up_after_a_second() {
    let mut sender = sender();
    (0..3).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    poll(&mut sender, WIFI, 0);
    poll(&mut sender, WIFI, 0);
    sender.set_paths(at(6_000), [LTE].into_iter(), 900);
    sender.on_lost(at(6_000), 1);
    assert_eq!(sender.timeout(), Some(at(7_000)));
    sender.handle_timeout(at(6_999));
    assert!(sender.frame(1).is_some());
    sender.handle_timeout(at(7_000));
    assert_eq!((sender.counters().given_up, sender.timeout()), (1, None));
    assert_eq!(sender.queue.dropped(), 1);
    sender.on_lost(at(7_100), 2);
    assert!(sender.is_idle(), "what was under way is not waited for either");
}

#[test]
fn an_outage_gives_nothing_up() {
    let mut sender = sender();
    submit(&mut sender, 1, Part::Data, 0);
    poll(&mut sender, WIFI, 0);
    sender.set_paths(at(6_000), [].into_iter(), 0);
    sender.on_lost(at(6_000), 1);
    sender.handle_timeout(at(60_000));
    sender.set_paths(at(60_000), [WIFI].into_iter(), 1_100);
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
}

#[test]
fn the_window_is_bounded_until_its_oldest_arrives() {
    let mut sender = sender();
    for tag in 0..2 * limits::TUNNEL_SYMBOLS {
        submit(&mut sender, 1, Part::Data, tag as u8);
        poll(&mut sender, WIFI, 0);
        if tag > 0 {
            sender.on_acked(tag as u64 + 1);
        }
    }
    assert!(sender.window_bytes <= limits::TUNNEL_BYTES + 2_000);
    assert!(!sender.wants() && !sender.queue.is_empty());
    sender.on_acked(1);
    assert!(sender.wants() && sender.window.is_empty());
}

#[test]
fn what_was_lost_late_is_given_up_too_though_the_longest_has_changed_since() {
    for outage in [false, true] {
        let mut sender = sender();
        (0..2).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
        (0..2).for_each(|_| assert!(poll(&mut sender, WIFI, 0).is_some()));
        sender.set_paths(at(6_000), [LTE].into_iter(), 900);
        sender.on_lost(at(6_000), 1);
        sender.handle_timeout(at(7_000));
        assert_eq!(sender.counters().given_up, 1);
        if outage {
            sender.set_paths(at(7_050), [].into_iter(), 0);
            sender.on_lost(at(7_060), 2);
            sender.set_paths(at(7_100), [LTE].into_iter(), 900);
        } else {
            sender.set_paths(at(7_100), [LTE].into_iter(), 950);
            sender.on_lost(at(7_110), 2);
        }
        assert_eq!(sender.timeout(), Some(at(8_100)), "outage: {outage}");
        sender.handle_timeout(at(8_100));
        assert_eq!(sender.counters().given_up, 2);
        assert!(sender.is_idle() && !sender.wants() && sender.timeout().is_none());
    }
}

#[test]
fn a_datagram_that_is_full_has_nothing_left_to_faster_paths() {
    let mut sender = sender();
    (0..60).for_each(|tag| submit(&mut sender, 1, Part::Data, tag));
    assert_eq!(poll(&mut sender, WIFI, 0), Some((1, 0, 0)));
    for _ in 0..10 {
        assert!(poll(&mut sender, LTE, 2_500).is_some());
        // What is left of that datagram.
        assert_eq!(sender.poll(at(5_000), LTE, 2_500, 300, &Always(true)), None);
    }
    assert!(sender.committed.len() <= 4, "{} are left to the faster", sender.committed.len());
}
