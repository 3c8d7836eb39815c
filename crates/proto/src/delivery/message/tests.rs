//! Messages through both halves, without a session between them.

use proptest::prelude::*;
use units::Rng;

use super::record::Records;
use super::*;
use crate::congestion::CongestionKind;
use crate::delivery::Delivery as _;
use crate::event::PathState;
use crate::ids::{InterfaceId, PathId};
use crate::limits;
use crate::path::{Path, PathConfig, Route};
use crate::recovery::ClockOffset;
use crate::wire::{FeedbackFrame, Frame, Frames};

const ORDERED: MessageStream =
    MessageStream { id: 1, order: MessageOrder::InOrder, deadline: None };
const UNORDERED: MessageStream = MessageStream { order: MessageOrder::Unordered, ..ORDERED };

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000 + ms)
}

fn path() -> PathSnapshot {
    let remote = crate::via::Via::Udp(([192, 0, 2, 1], 1).into());
    let route = Route { interface: InterfaceId(0), local: None, remote };
    let config = PathConfig {
        congestion: CongestionKind::default(),
        initiator: true,
        idle_probe: Duration::ZERO,
        protect_control: Default::default(),
    };
    let path = Path::new(at(0), PathId(0), route, config, 0);
    PathSnapshot { state: PathState::Active, ..path.snapshot(at(0), 0) }
}

/// Writes everything that a sender wants to send now.
fn datagrams(messages: &mut Messages, now: Instant) -> Vec<Vec<u8>> {
    datagrams_on(messages, now, path())
}

fn datagrams_on(messages: &mut Messages, now: Instant, path: PathSnapshot) -> Vec<Vec<u8>> {
    let paths = [path];
    let offer = Offer { path: PathId(0), is_best: true, has_budget: true, paths: &paths };
    let mut datagrams = Vec::new();
    while let Some(symbol) =
        messages.form.poll_symbol(now, &offer, limits::MAX_DATAGRAM, &mut messages.divider)
    {
        let mut bytes = Vec::new();
        symbol.frame().encode(&mut bytes);
        datagrams.push(bytes);
    }
    datagrams
}

fn take(messages: &mut Messages, now: Instant, datagram: &[u8]) -> bool {
    let offset = ClockOffset::default();
    let clock = PeerClock { clock: &offset, started: Instant::ZERO };
    Frames::new(datagram).all(|frame| match frame {
        Ok(Frame::Source(source)) => messages.handle_source(now, &source, &clock) == Taken::Done,
        Ok(Frame::Repair(repair)) => messages.handle_repair(now, &repair, &clock) == Taken::Done,
        Ok(Frame::Feedback(feedback)) => {
            messages.handle_feedback(now, Feedback::Window(&feedback), &[path()])
        }
        _ => false,
    })
}

fn feedback(messages: &mut Messages) -> Option<Vec<u8>> {
    let frame = messages.form.poll_feedback(PathId(0), limits::MAX_DATAGRAM)?;
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    Some(bytes)
}

fn divide(divider: &mut Divider, now: Instant) -> Vec<u8> {
    let mut symbol = Vec::new();
    divider.divide(now, &mut symbol).expect("something waits");
    symbol
}

#[test]
fn the_rest_of_a_symbol_is_filled_with_the_next_message_if_one_waits() {
    let mut divider = Divider::default();
    divider.submit(at(0), 1, ORDERED, &[1; 1_500]).expect("room");
    divider.submit(at(0), 1, ORDERED, &[2; 100]).expect("room");
    let symbols = [divide(&mut divider, at(0)), divide(&mut divider, at(0))];
    assert_eq!(symbols[0].len(), limits::SYMBOL_BYTES);
    let records = |symbol: &[u8]| -> Vec<(u64, u32, usize)> {
        let read = Records::new(symbol).map(|read| read.expect("well-formed"));
        read.map(|(record, piece)| (record.number, record.offset, piece.len())).collect()
    };
    let [(0, 0, first)] = records(&symbols[0])[..] else { panic!("one piece") };
    assert_eq!(records(&symbols[1]), [(0, first as u32, 1_500 - first), (1, 0, 100)]);
    assert!(divider.is_empty());
    divider.submit(at(0), 1, ORDERED, &[3; 10]).expect("room");
    assert!(divide(&mut divider, at(0)).len() < 30, "zeros are not sent");
    let padded = [&symbols[1][..], &[0; 300]].concat();
    assert_eq!(records(&padded), records(&symbols[1]), "zeros mean nothing");
}

#[test]
fn a_message_that_expires_unsent_leaves_no_gap() {
    let mut divider = Divider::default();
    let stream = MessageStream { deadline: Some(Duration::from_millis(50)), ..ORDERED };
    divider.submit(at(0), 1, stream, b"old").expect("room");
    divider.submit(at(60), 1, stream, b"new").expect("room");
    let symbol = divide(&mut divider, at(70));
    let (record, piece) = Records::new(&symbol).next().expect("one").expect("well-formed");
    assert_eq!((record.number, piece), (0, &b"new"[..]));
    let counters = divider.counters();
    assert_eq!((counters.submitted, counters.divided, counters.expired), (2, 1, 1));
}

#[test]
fn an_unordered_message_is_dropped_when_it_is_not_whole_in_time() {
    let (mut sender, mut receiver) =
        (Messages::new(MessageForm::Elastic, 1), Messages::new(MessageForm::Elastic, 1));
    let stream = MessageStream { deadline: Some(Duration::from_millis(100)), ..UNORDERED };
    sender.divider.submit(at(0), 1, stream, &[1; 2_000]).expect("room");
    let sent = datagrams(&mut sender, at(0));
    assert!(take(&mut receiver, at(10), &sent[0]));
    let (bytes, messages) = receiver.waits();
    assert!((1..sent[0].len()).contains(&bytes) && messages == 1, "what came, not what will come");
    let due = receiver.timeout().expect("held");
    receiver.handle_timeout(due.max(at(200)), Duration::from_millis(100));
    assert_eq!((receiver.waits(), receiver.status().late), ((0, 0), 1));
    // The other piece comes after all: the message does not count twice.
    assert!(take(&mut receiver, at(210), &sent[1]));
    receiver.handle_timeout(at(400), Duration::from_millis(100));
    assert_eq!(receiver.waits(), (0, 0));
    let [row] = receiver.stream_status()[..] else { panic!("one stream") };
    assert_eq!((row.order, row.delivered, row.late), (MessageOrder::Unordered, 0, 1));
}

#[test]
fn an_ordered_gap_is_given_up_before_what_waits_behind_it_is_too_old() {
    let mut divider = Divider::default();
    let stream = MessageStream { deadline: Some(Duration::from_millis(100)), ..ORDERED };
    let offset = ClockOffset::default();
    let clock = PeerClock { clock: &offset, started: Instant::ZERO };
    let mut receiver = Messages::new(MessageForm::Elastic, 1);
    divider.submit(at(0), 1, stream, b"lost").expect("room");
    divide(&mut divider, at(0));
    divider.submit(at(0), 1, stream, b"kept").expect("room");
    receiver.reconstruct_symbol(at(20), &divide(&mut divider, at(0)), &clock);
    assert_eq!(receiver.poll_delivery(), None);
    let due = receiver.timeout().expect("held");
    assert!(due < at(120));
    receiver.handle_timeout(due, Duration::from_millis(100));
    let delivery = receiver.poll_delivery().expect("released");
    assert_eq!(delivery.payload, b"kept");
}

#[test]
fn feedback_that_makes_no_sense_is_refused() {
    let mut sender = Messages::new(MessageForm::Elastic, 1);
    let refuses = |sender: &mut Messages, feedback: FeedbackFrame| {
        assert!(!sender.handle_feedback(at(1), Feedback::Window(&feedback), &[path()]));
    };
    refuses(&mut sender, FeedbackFrame::default());
    sender.divider.submit(at(0), 1, ORDERED, b"one").expect("room");
    datagrams(&mut sender, at(0));
    refuses(&mut sender, FeedbackFrame { end: 2, ..FeedbackFrame::default() });
    refuses(&mut sender, FeedbackFrame { next: 9, end: 9, ..FeedbackFrame::default() });
    refuses(&mut sender, FeedbackFrame { end: 1, repairs: 9, ..FeedbackFrame::default() });
}

#[test]
fn nothing_is_sent_again_before_a_short_round_trip_could_answer_it() {
    let path = || PathSnapshot { srtt: Some(Duration::from_micros(1_400)), ..path() };
    let mut sender = Messages::new(MessageForm::Elastic, 1);
    for message in [b"lost", b"came"] {
        sender.divider.submit(at(0), 1, ORDERED, message).expect("room");
        datagrams_on(&mut sender, at(0), path());
    }
    let missing = FeedbackFrame {
        end: 2,
        missing: [(0, 1)].into_iter().collect(),
        ..FeedbackFrame::default()
    };
    let mut sent_at = |micros: u64| {
        let now = at(0) + Duration::from_micros(micros);
        sender.handle_feedback(now, Feedback::Window(&missing), &[path()]);
        let before = sender.status().resent_symbols;
        datagrams_on(&mut sender, now, path());
        sender.status().resent_symbols - before
    };
    assert_eq!([200, 800, 1_400, 1_600, 2_800].map(&mut sent_at), [0, 0, 1, 0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_message_comes_once_and_in_order_whatever_is_lost_or_reordered(
        seed in any::<u64>(),
        loss in 0.0..0.5,
        sizes in prop::collection::vec(0_usize..4_000, 1..40),
    ) {
        let (mut sender, mut receiver) =
            (Messages::new(MessageForm::Elastic, 9), Messages::new(MessageForm::Elastic, 9));
        let (mut rng, mut flying) = (Rng::new(seed), Vec::new());
        let message = |index: usize| vec![index as u8; sizes[index]];
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        for step in 0..4_000 {
            let now = at(step * 5);
            if (step as usize) < sizes.len() {
                sender.divider.submit(now, 1, ORDERED, &message(step as usize)).expect("room");
            }
            flying.extend(datagrams(&mut sender, now));
            while !flying.is_empty() && rng.chance(0.8) {
                let datagram = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                if !rng.chance(loss) {
                    prop_assert!(take(&mut receiver, now, &datagram));
                }
            }
            if let Some(feedback) = feedback(&mut receiver).filter(|_| !rng.chance(loss)) {
                prop_assert!(take(&mut sender, now, &feedback));
            }
            sender.handle_timeout(now, Duration::from_millis(100));
            arrived.extend(std::iter::from_fn(|| receiver.poll_delivery()).map(|d| d.payload));
            if arrived.len() == sizes.len() {
                break;
            }
        }
        let expected: Vec<_> = (0..sizes.len()).map(message).collect();
        prop_assert!(arrived == expected, "{} of {}", arrived.len(), sizes.len());
        prop_assert_eq!(receiver.waits(), (0, 0));
    }

    #[test]
    fn symbols_of_any_bytes_hold_no_more_than_the_bounds(
        symbols in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..60),
    ) {
        let offset = ClockOffset::default();
        let clock = PeerClock { clock: &offset, started: Instant::ZERO };
        let mut receiver = Messages::new(MessageForm::Elastic, 1);
        for mut symbol in symbols {
            if let Some(first) = symbol.first_mut() {
                *first = 0x80 | *first & 3;
            }
            receiver.reconstruct_symbol(at(0), &symbol, &clock);
            prop_assert!(receiver.waits().0 <= limits::HELD_MESSAGE_BYTES);
        }
    }
}
