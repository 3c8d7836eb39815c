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

use netem::{LinkEnd, Net, Scenario};
use units::{Duration, Instant};

use super::interval::{IntervalPlan, IntervalRun};
use crate::lrt::{LrtParameters, MessageLog};

/// Bytes of the IP and UDP headers around a message.
const HEADERS: usize = netem::UDP_IP_OVERHEAD;
/// A link without delay is not asked again at the same instant for ever.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(1);
/// How long after the last message was submitted a lost one is still sent again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the plan of one message at a time over the first link, from station to drone.
pub(super) fn run_interval(scenario: &Scenario, plan: &IntervalPlan, seed: u64) -> IntervalRun {
    let mut net = Net::new(scenario, seed);
    let entry = entry(scenario);
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
            at += round_trip(scenario, at);
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
    let entry = entry(scenario);
    let mut log = MessageLog::new(parameters.messages);
    let give_up = Instant::ZERO + parameters.submitting() + PATIENCE;
    let mut due = BinaryHeap::new();
    for number in 0..parameters.messages {
        let at = parameters.interval * number;
        log.on_submitted(number, at);
        due.push(Reverse((Instant::ZERO + at, number)));
    }
    let mut arrived: Vec<Option<Instant>> = vec![None; parameters.messages as usize];
    while let Some(Reverse((at, number))) = due.pop() {
        let len = parameters.bytes + HEADERS;
        log.sent += 1;
        log.sent_bytes += len as u64;
        let arrivals = net.handle_packet(at, entry, len);
        match arrivals.first().and_then(|arrival| arrival.verdict.deliveries.first()) {
            Some(delivery) => arrived[number as usize] = Some(delivery.at),
            None if at < give_up => due.push(Reverse((at + round_trip(scenario, at), number))),
            None => {}
        }
    }
    // In order: a message is fetched when it and everything before it has arrived.
    let mut fetched = Instant::ZERO;
    for (arrived, number) in arrived.into_iter().zip(0..) {
        // What never arrives holds up everything behind it for ever.
        let Some(arrived) = arrived else { break };
        fetched = fetched.max(arrived);
        log.on_fetched(number, fetched.since(Instant::ZERO));
    }
    log
}

/// Returns where packets from the station enter the first link.
fn entry(scenario: &Scenario) -> LinkEnd {
    let station = scenario.host("station").unwrap_or_default();
    LinkEnd { link: 0, direction: scenario.links[0].sent_by(station).0 }
}

/// Returns the round-trip time at `at` of the first link without any queue.
fn round_trip(scenario: &Scenario, at: Instant) -> Duration {
    let pair = &scenario.links[0];
    (pair.up.delay_at(at) + pair.down.delay_at(at)).max(ROUND_TRIP_MIN)
}
