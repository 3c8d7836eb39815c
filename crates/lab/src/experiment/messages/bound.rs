//! A bound on every code that sends as much at the same moments: here each packet that arrives
//! brings everything that was handed in before it left.
//!
//! ```text
//! message n    handed in at n · interval, and 1 + r packets leave with it: as many as the tokens
//!              that r brings allow, one on each link in turn
//! arrival      of a packet that left with message n: the messages up to n are there
//! delay of n   least arrival of a packet that left with n or later − n · interval
//! ```
//! No code, no feedback, no session: the links alone. A packet of a real code brings one symbol at
//! most, so it is later wherever more than one is missing. Where bursts last for a time, the bound
//! holds for every code that sends at these moments, however much it sends. Where they last for a
//! number of packets, it holds for codes that send no more *then*: who sends more into a burst ends
//! it sooner.

use netem::{LinkEnd, Net, Scenario, UDP_IP_OVERHEAD};
use units::Instant;

use super::point::{LrtParameters, MessageLog, REDUNDANCY};

/// Packets that leave after the last message was handed in, until it has arrived: 50 s at the usual
/// interval, more than any burst lasts.
const MOST_AFTER: u32 = 10_000;

/// Runs messages at a constant interval from station to drone.
pub(super) fn run_messages(
    scenario: &Scenario,
    parameters: &LrtParameters,
    seed: u64,
) -> MessageLog {
    let mut net = Net::new(scenario, seed);
    let station = scenario.host("station").unwrap_or_default();
    let mut log = MessageLog::new(parameters.messages);
    let redundancy = parameters.redundancy.unwrap_or(match parameters.paths {
        1 => REDUNDANCY,
        paths => f64::from(paths - 1),
    });
    let len = parameters.bytes + UDP_IP_OVERHEAD;
    let mut tokens = 0.0;
    // The first arrival of a packet that left with each message.
    let mut arrivals: Vec<Option<Instant>> = Vec::new();
    for number in 0..parameters.messages + MOST_AFTER {
        let submitted = parameters.interval * number;
        if number < parameters.messages {
            log.on_submitted(number, submitted);
        } else if arrivals.last().is_some_and(Option::is_some) {
            break;
        }
        tokens += 1.0 + redundancy;
        let mut first = None;
        let mut copy = 0;
        while tokens >= 1.0 - 1e-9 {
            tokens -= 1.0;
            log.sent += 1;
            log.sent_bytes += len as u64;
            let link = copy % scenario.links.len();
            let direction = scenario.links[link].sent_by(station).0;
            let entry = LinkEnd { link, direction };
            let arrived = net.handle_packet(Instant::ZERO + submitted, entry, len);
            let delivery = arrived.first().and_then(|arrival| arrival.verdict.deliveries.first());
            first = first.into_iter().chain(delivery.map(|delivery| delivery.at)).min();
            copy += 1;
        }
        arrivals.push(first);
    }
    // From the end: what arrives first of all that left from then on.
    for next in (1..arrivals.len()).rev() {
        arrivals[next - 1] = arrivals[next - 1].into_iter().chain(arrivals[next]).min();
    }
    for (arrived, number) in arrivals.into_iter().zip(0..parameters.messages) {
        if let Some(at) = arrived {
            log.on_fetched(number, at.since(Instant::ZERO));
        }
    }
    log
}
