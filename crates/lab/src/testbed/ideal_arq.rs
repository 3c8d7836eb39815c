//! Retransmission as good as it can be: the floor for every scheme that sends one copy at a time.
//!
//! ```text
//! send on the first link; when the packet is lost the sender knows it exactly one round trip
//! later (2 × one-way delay, feedback never lost) and sends it again at once
//! ```
//! No session, no world: the link alone. What a real protocol adds to this is timers and lost
//! acknowledgements.

use netem::{LinkEnd, LinkPair, Net, Scenario};
use units::{Duration, Instant};

/// Bytes of the IP and UDP headers around a message.
const HEADERS: usize = netem::UDP_IP_OVERHEAD;
/// A link without delay is not asked again at the same instant for ever.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(1);

/// The first link of a scenario, from station to drone, and what is known about it.
pub(crate) struct IdealArq<'a> {
    net: Net,
    entry: LinkEnd,
    link: &'a LinkPair,
}

impl<'a> IdealArq<'a> {
    /// Takes the first link of a scenario.
    pub(crate) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let station = scenario.host("station").unwrap_or_default();
        let link = &scenario.links[0];
        let entry = LinkEnd { link: 0, direction: link.sent_by(station).0 };
        Self { net: Net::new(scenario, seed), entry, link }
    }

    /// Sends a message of `bytes`: when it arrives, or none when it is lost.
    pub(crate) fn send(&mut self, at: Instant, bytes: usize) -> Option<Instant> {
        let arrivals = self.net.handle_packet(at, self.entry, bytes + HEADERS);
        let delivery = arrivals.first()?.verdict.deliveries.first()?;
        Some(delivery.at)
    }

    /// Returns when the loss of what was sent at `at` is known: after the round-trip time of the
    /// link without any queue.
    pub(crate) fn knows_at(&self, at: Instant) -> Instant {
        let round_trip = self.link.up.delay_at(at) + self.link.down.delay_at(at);
        at + round_trip.max(ROUND_TRIP_MIN)
    }
}
