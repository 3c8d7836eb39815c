//! Retransmission as good as it can be: the floor for every scheme that sends one copy at a time.
//!
//! ```text
//! send on the first link; when the packet is lost the sender knows it exactly one round trip
//! later (2 × one-way delay, feedback never lost) and sends it again at once
//! ```
//! No session, no world: the link alone. What a real protocol adds to this is timers and lost
//! acknowledgements.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netem::{Delay, Direction as LinkDirection, LinkEnd, Net, Scenario};
use units::{Duration, Instant};

use super::interval::{IntervalPlan, IntervalRun};
use crate::lrt::{LrtParameters, MessageLog};

/// Bytes of the IP and UDP headers around a message.
const HEADERS: usize = netem::UDP_IP_OVERHEAD;

/// Runs the plan of one message at a time over the first link, from station to drone.
pub(super) fn run_interval(scenario: &Scenario, plan: &IntervalPlan, seed: u64) -> IntervalRun {
    let mut net = Net::new(scenario, seed);
    // Both hosts of the lab's scenarios are at the ends of every link; either direction will do.
    let entry = LinkEnd { link: 0, direction: LinkDirection::Down };
    let round_trip = round_trip(scenario);
    let mut run = IntervalRun::default();
    let mut last = Instant::ZERO;
    for _ in 0..plan.messages {
        let first_try = last + plan.interval;
        let mut at = first_try;
        let delivered = loop {
            let arrivals = net.handle_packet(at, entry, plan.bytes + HEADERS);
            let delivery = arrivals.first().and_then(|arrival| arrival.verdict.deliveries.first());
            if let Some(delivery) = delivery {
                break Some(delivery.at);
            }
            at += round_trip;
            if at.since(first_try) >= plan.give_up {
                break None;
            }
        };
        match delivered {
            Some(at) => {
                run.intervals.push(at.since(last).as_secs_f64());
                last = at;
            }
            None => {
                run.lost += 1;
                last = at;
            }
        }
    }
    run.completion_s = last.as_secs_f64();
    run
}

/// Runs messages at a constant interval over the first link, from station to drone, in order.
pub(super) fn run_messages(
    scenario: &Scenario,
    parameters: &LrtParameters,
    seed: u64,
) -> MessageLog {
    let mut net = Net::new(scenario, seed);
    let entry = LinkEnd { link: 0, direction: LinkDirection::Down };
    let round_trip = round_trip(scenario);
    let mut log = MessageLog::new(parameters.messages);
    let mut due = BinaryHeap::new();
    for number in 0..parameters.messages {
        let at = parameters.interval * number;
        log.on_submitted(number, at);
        due.push(Reverse((Instant::ZERO + at, number)));
    }
    let mut arrived = vec![Instant::ZERO; parameters.messages as usize];
    while let Some(Reverse((at, number))) = due.pop() {
        let len = parameters.bytes + HEADERS;
        log.sent += 1;
        log.sent_bytes += len as u64;
        let arrivals = net.handle_packet(at, entry, len);
        match arrivals.first().and_then(|arrival| arrival.verdict.deliveries.first()) {
            Some(delivery) => arrived[number as usize] = delivery.at,
            None => due.push(Reverse((at + round_trip, number))),
        }
    }
    // In order: a message is fetched when it and everything before it has arrived.
    let mut fetched = Instant::ZERO;
    for (arrived, number) in arrived.into_iter().zip(0..) {
        fetched = fetched.max(arrived);
        log.on_fetched(number, fetched.since(Instant::ZERO));
    }
    log
}

/// Returns the round-trip time of the first link without any queue.
///
/// # Panics
/// When the link has no constant delay: then it has no one round trip either.
fn round_trip(scenario: &Scenario) -> Duration {
    let one_way = |delay: &Delay| match delay {
        Delay::Fixed(delay) => *delay,
        other => panic!("ideal_arq needs a link of constant delay, not {other:?}"),
    };
    let pair = &scenario.links[0];
    one_way(&pair.up.delay) + one_way(&pair.down.delay)
}
