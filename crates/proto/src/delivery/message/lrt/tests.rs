//! The published form alone: coders, acknowledgements and the bucket, over a link that loses
//! packets; no session.

use units::{Duration, Instant, Rng};

use super::*;
use crate::delivery::message::{MessageStream, SymbolFrame};
use crate::wire::RankFrame;

const KEY: u64 = 7;
const OFFER: Offer<'_> = Offer { path: PathId(0), is_best: true, has_budget: true, paths: &[] };
const ROOM: usize = 1_400;

/// A symbol on its way.
#[derive(Clone, Debug)]
enum Flying {
    Source { coder: u64, id: u64, payload: Vec<u8> },
    Repair { coder: u64, repair: u64, first: u64, count: u16, payload: Vec<u8> },
}

impl Flying {
    fn of(symbol: &SymbolFrame<'_>) -> Self {
        match *symbol {
            SymbolFrame::Source(SourceFrame { coder, id, payload, .. }) => {
                Self::Source { coder, id, payload: payload.to_vec() }
            }
            SymbolFrame::Repair(RepairFrame { coder, repair, first, count, payload }) => {
                Self::Repair { coder, repair, first, count, payload: payload.to_vec() }
            }
        }
    }

    fn land(&self, now: Instant, at: &mut Lrt) -> bool {
        match self {
            Self::Source { coder, id, payload } => {
                at.handle_source(now, &SourceFrame { coder: *coder, id: *id, back: *id, payload })
            }
            Self::Repair { coder, repair, first, count, payload } => at.handle_repair(
                now,
                &RepairFrame {
                    coder: *coder,
                    repair: *repair,
                    first: *first,
                    count: *count,
                    payload,
                },
            ),
        }
    }
}

fn submit(divider: &mut Divider, now: Instant, messages: u32) {
    for _ in 0..messages {
        divider.submit(now, 1, MessageStream::default(), &[1; 1_000]).expect("room");
    }
}

fn poll(lrt: &mut Lrt, now: Instant, divider: &mut Divider) -> Vec<Flying> {
    let mut symbols = Vec::new();
    while lrt.wants(divider)
        && let Some(symbol) = lrt.poll_symbol(now, &OFFER, ROOM, divider)
    {
        symbols.push(Flying::of(&symbol));
    }
    symbols
}

fn acks(lrt: &mut Lrt) -> Vec<RankFrame> {
    let mut ranks = Vec::new();
    while let Some(Frame::Rank(rank)) = lrt.poll_feedback(PathId(0), ROOM) {
        ranks.push(rank);
    }
    ranks
}

fn known(lrt: &mut Lrt) -> usize {
    core::iter::from_fn(|| lrt.poll_decoded()).count()
}

/// Runs messages every 5 ms over 50 ms each way; returns (known at the receiver, sender's half).
fn run(k: u16, redundancy: f64, loss: f64, messages: u32, seed: u64) -> (usize, Lrt) {
    let (mut sender, mut receiver) =
        (Lrt::new(KEY, k, redundancy, 1.0), Lrt::new(KEY, k, redundancy, 1.0));
    let mut divider = Divider::default();
    let mut rng = Rng::new(seed);
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    let mut symbols = 0;
    let delay = Duration::from_millis(50);
    for ms in 0..u64::from(messages) * 5 + 20_000 {
        let now = Instant::from_millis(1_000 + ms);
        if ms % 5 == 0 && ms / 5 < u64::from(messages) {
            submit(&mut divider, now, 1);
        }
        back.retain(|(at, rank): &(Instant, RankFrame)| {
            let lands = *at <= now;
            assert!(!lands || sender.handle_feedback(now, Feedback::Rank(*rank), &[]));
            !lands
        });
        if sender.timeout().is_some_and(|at| at <= now) {
            sender.handle_timeout(now, delay);
        }
        for symbol in poll(&mut sender, now, &mut divider) {
            if !rng.chance(loss) {
                forth.push((now + delay, symbol));
            }
        }
        forth.retain(|(at, symbol): &(Instant, Flying)| {
            let lands = *at <= now;
            assert!(!lands || symbol.land(now, &mut receiver));
            !lands
        });
        symbols += known(&mut receiver);
        for rank in acks(&mut receiver) {
            if !rng.chance(loss) {
                back.push((now + delay, rank));
            }
        }
    }
    (symbols, sender)
}

#[test]
fn every_symbol_arrives_once_and_repair_ends() {
    for (seed, loss) in [(1, 0.0), (2, 0.1), (3, 0.3), (4, 0.6)] {
        let (symbols, sender) = run(16, 0.5, loss, 500, seed);
        assert_eq!(symbols, 500, "seed {seed}");
        assert_eq!(sender.timeout(), None, "seed {seed}: nothing is needed any more");
        assert!(sender.sender.has_no_coder_in_need(), "seed {seed}");
    }
}

#[test]
fn repair_is_the_share_that_was_asked_for() {
    for redundancy in [0.25, 0.5, 1.0] {
        let (symbols, sender) = run(64, redundancy, 0.1, 2_000, 5);
        let counters = sender.counters();
        let share = counters.repair as f64 / counters.source as f64;
        assert_eq!(symbols, 2_000);
        assert!((share / redundancy - 1.0).abs() < 0.03, "{share} of {redundancy}");
    }
}

/// The first steps of [LRT Fig. 3]: a symbol behind a gap is received, not seen.
#[test]
fn rank_counts_what_is_seen() {
    let now = Instant::from_millis(1_000);
    let (mut sender, mut receiver) = (Lrt::new(KEY, 8, 0.5, 1.0), Lrt::new(KEY, 8, 0.5, 1.0));
    let mut divider = Divider::default();
    submit(&mut divider, now, 2);
    let symbols = poll(&mut sender, now, &mut divider);
    let [Flying::Source { .. }, second, repair] = symbols.as_slice() else {
        panic!("two source symbols, then a repair symbol: {symbols:?}")
    };
    assert!(second.land(now, &mut receiver));
    assert_eq!(acks(&mut receiver), [], "the first is not seen, so neither is the second");
    assert_eq!(known(&mut receiver), 1, "it is delivered to reconstruction all the same");
    assert!(repair.land(now, &mut receiver));
    assert_eq!(acks(&mut receiver), [RankFrame { coder: 0, rank: 2, filter: 0 }]);
    assert_eq!(known(&mut receiver), 1);
    // Two more are lost; a combination of all four makes the third seen, and decodes nothing.
    submit(&mut divider, now, 2);
    let symbols = poll(&mut sender, now, &mut divider);
    assert!(symbols[2].land(now, &mut receiver));
    assert_eq!(acks(&mut receiver), [RankFrame { coder: 0, rank: 3, filter: 0 }]);
    assert_eq!(known(&mut receiver), 0);
}

#[test]
fn out_of_date_symbols_are_answered_with_the_full_rank() {
    let now = Instant::from_millis(1_000);
    let (mut sender, mut receiver) = (Lrt::new(KEY, 2, 1.0, 1.0), Lrt::new(KEY, 2, 1.0, 1.0));
    let mut divider = Divider::default();
    submit(&mut divider, now, 2);
    let symbols = poll(&mut sender, now, &mut divider);
    assert_eq!(symbols.len(), 4);
    assert!(symbols[..2].iter().all(|symbol| symbol.land(now, &mut receiver)));
    let full = RankFrame { coder: 0, rank: 2, filter: 1 };
    assert_eq!(acks(&mut receiver), [full]);
    // That ACK is lost; the repair symbol fetches another.
    assert!(symbols[2].land(now, &mut receiver));
    assert_eq!(acks(&mut receiver), [full]);
    assert!(sender.handle_feedback(now, Feedback::Rank(full), &[]));
    assert!(sender.sender.has_no_coder_in_need());
}

#[test]
fn repair_goes_round_the_coders_that_need_it() {
    let now = Instant::from_millis(1_000);
    let mut sender = Lrt::new(KEY, 2, 1.0, 1.0);
    let mut divider = Divider::default();
    submit(&mut divider, now, 6);
    let symbols = poll(&mut sender, now, &mut divider);
    let repaired: Vec<u64> = symbols
        .iter()
        .filter_map(|symbol| match symbol {
            Flying::Repair { coder, .. } => Some(*coder),
            Flying::Source { .. } => None,
        })
        .collect();
    // The bucket holds no more than a coder's size.
    assert_eq!(repaired, [0, 1]);
}

#[test]
fn nonsense_is_refused_and_holds_nothing() {
    let now = Instant::from_millis(1_000);
    let mut lrt = Lrt::new(KEY, 8, 0.5, 1.0);
    let source = |coder, id| SourceFrame { coder, id, back: 0, payload: &[1] };
    assert!(!lrt.handle_source(now, &source(0, 8)), "beyond K");
    assert!(!lrt.handle_source(now, &source(coders_alive(8), 0)), "a coder too far ahead");
    let repair = |first, count| RepairFrame { coder: 0, repair: 0, first, count, payload: &[1] };
    assert!(
        !lrt.handle_repair(now, &repair(4, 5)) && !lrt.handle_repair(now, &repair(u64::MAX, 1))
    );
    let rank = |coder, rank, filter| Feedback::Rank(RankFrame { coder, rank, filter });
    assert!(!lrt.handle_feedback(now, rank(0, 1, 0), &[]), "nothing was sent");
    let mut divider = Divider::default();
    submit(&mut divider, now, 3);
    poll(&mut lrt, now, &mut divider);
    assert!(!lrt.handle_feedback(now, rank(0, 4, 0), &[]), "more than was added");
    assert!(!lrt.handle_feedback(now, rank(0, 3, 2), &[]), "a filter beyond the last coder");
    assert!(lrt.handle_feedback(now, rank(0, 3, 1), &[]));
    assert!(!lrt.sender.has_no_coder_in_need() || lrt.timeout().is_none());
}

#[test]
fn a_sender_that_nobody_answers_stops_taking_messages() {
    let now = Instant::from_millis(1_000);
    let mut lrt = Lrt::new(KEY, 16, 0.5, 1.0);
    let mut divider = Divider::default();
    submit(&mut divider, now, 3_000);
    poll(&mut lrt, now, &mut divider);
    assert_eq!(lrt.counters().source, limits::WINDOW_SYMBOLS as u64);
    assert!(!divider.is_empty());
}
