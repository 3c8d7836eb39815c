//! Messages at a constant interval over the first link, in order, with every loss known after one
//! round trip.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netem::{Scenario, UDP_IP_OVERHEAD};
use units::{Duration, Instant};

use super::point::{LrtParameters, MessageLog};
use crate::testbed::ideal_arq::IdealArq;

/// How long after the last message was submitted a lost one is still sent again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs them from station to drone.
pub(super) fn run_messages(
    scenario: &Scenario,
    parameters: &LrtParameters,
    seed: u64,
) -> MessageLog {
    let mut arq = IdealArq::new(scenario, seed);
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
        log.sent += 1;
        log.sent_bytes += (parameters.bytes + UDP_IP_OVERHEAD) as u64;
        match arq.send(at, parameters.bytes) {
            Some(delivered) => arrived[number as usize] = Some(delivered),
            None if at < give_up => due.push(Reverse((arq.knows_at(at), number))),
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
