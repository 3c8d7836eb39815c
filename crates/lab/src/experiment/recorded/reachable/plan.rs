//! Everything that is sent, in the order of its deadlines, by a sender that knows the future of all
//! links.
//!
//! ```text
//! for each message in the order of sending, which is that of the deadlines of its kind:
//!     of the milliseconds, on whatever link, that begin when it was sent or later, and out of which
//!     it arrives in time, take the earliest first until all its bits are placed
//!     a message that cannot be placed whole is dropped and gives back what it took
//! ```
//! *Source*: matching in a convex bipartite graph (Glover 1967): a millisecond serves the messages
//! that were sent before it and whose deadline is not over when it arrives, an interval in the
//! order of sending; taking first what expires first serves as many bits as can be served. For
//! messages of equal length no other order places more of them.
//!
//! Who calls `serve` first goes first: control before live messages, before the flight, before
//! video.

use super::capacity::Capacity;

/// A message that is to be carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    /// When it was sent.
    pub(crate) sent_s: f64,
    /// Its bits on a link.
    pub(crate) bits: u64,
}

/// What is left of the links.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// (bits left, arrival in milliseconds) by millisecond, then link.
    slots: Vec<(u64, f64)>,
    links: usize,
}

impl Plan {
    /// Begins with empty links, all of one length.
    pub(crate) fn new(capacities: &[&Capacity]) -> Self {
        let len = capacities.iter().map(|capacity| capacity.slots().len()).min().unwrap_or(0);
        let slot = |ms: usize, capacity: &Capacity| {
            let slot = capacity.slots()[ms];
            (if slot.arrives { slot.bits } else { 0 }, ms as f64 + slot.delay_ms)
        };
        let slots = (0..len).flat_map(|ms| capacities.iter().map(move |link| slot(ms, link)));
        Self { slots: slots.collect(), links: capacities.len() }
    }

    /// Places messages, which come in the order of sending; returns each one's delay in seconds,
    /// none where it was dropped.
    pub(crate) fn serve(&mut self, demands: &[Demand], limit_s: f64) -> Vec<Option<f64>> {
        // Everything before it is used up.
        let mut first = 0;
        let mut taken = Vec::new();
        let mut delays = Vec::with_capacity(demands.len());
        for demand in demands {
            let sent_ms = demand.sent_s * 1e3;
            first = first.max((sent_ms + 1e-6) as usize * self.links);
            while self.slots.get(first).is_some_and(|(bits, _)| *bits == 0) {
                first += 1;
            }
            delays.push(self.place(demand, first, sent_ms + limit_s * 1e3, &mut taken));
        }
        delays
    }

    /// Places one message; `taken` is room for what it took where.
    fn place(
        &mut self,
        demand: &Demand,
        first: usize,
        deadline_ms: f64,
        taken: &mut Vec<(usize, u64)>,
    ) -> Option<f64> {
        taken.clear();
        let (mut left, mut arrival) = (demand.bits, 0.0_f64);
        // What begins after the deadline arrives after it.
        let end = self.slots.len().min((deadline_ms as usize + 1) * self.links);
        for place in first..end {
            let (bits, arrives_ms) = &mut self.slots[place];
            if *bits == 0 || *arrives_ms > deadline_ms {
                continue;
            }
            let part = left.min(*bits);
            *bits -= part;
            left -= part;
            arrival = arrival.max(*arrives_ms);
            taken.push((place, part));
            if left == 0 {
                return Some((arrival / 1e3 - demand.sent_s).max(0.0));
            }
        }
        for (place, part) in taken.drain(..) {
            self.slots[place].0 += part;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use netem::{Delay, Duration, LinkModel, LinkRate, Rate};

    use super::*;

    fn link(bps: u64, delay_ms: u64) -> Capacity {
        let model = LinkModel {
            rate: LinkRate::Constant(Rate::from_bps(bps)),
            delay: Delay::Fixed(Duration::from_millis(delay_ms)),
            ..LinkModel::default()
        };
        Capacity::new(&model, 2.0)
    }

    /// Messages of 10 bytes, one each 10 ms for a second.
    fn demands() -> Vec<Demand> {
        (0..100).map(|i| Demand { sent_s: f64::from(i) * 0.01, bits: 80 }).collect()
    }

    fn placed(links: &[&Capacity], limit_s: f64) -> usize {
        Plan::new(links).serve(&demands(), limit_s).iter().flatten().count()
    }

    #[test]
    fn a_link_of_just_the_rate_carries_everything_and_one_of_half_of_it_half() {
        // 80 bits in 10 ms are 8 kbit/s.
        assert_eq!(placed(&[&link(8_000, 20)], 0.03), 100);
        // Half of them in 1,000 ms, and what the deadline lets through after it.
        assert_eq!(placed(&[&link(4_000, 20)], 0.05), 51);
        assert_eq!(placed(&[&link(4_000, 20), &link(4_000, 20)], 0.05), 100);
    }

    #[test]
    fn the_deadline_counts_the_way() {
        let delays = Plan::new(&[&link(8_000, 20)]).serve(&demands(), 0.03);
        assert!(delays.iter().flatten().all(|delay| (delay - 0.029).abs() < 1e-9), "{delays:?}");
        assert_eq!(placed(&[&link(8_000, 25)], 0.03), 0);
        // What cannot arrive in time takes nothing from what can.
        assert_eq!(placed(&[&link(80_000, 40), &link(8_000, 20)], 0.03), 100);
    }

    #[test]
    fn who_comes_later_gets_what_is_left() {
        let link = link(12_000, 0);
        let mut plan = Plan::new(&[&link]);
        let count = |delays: Vec<Option<f64>>| delays.iter().flatten().count();
        assert_eq!(count(plan.serve(&demands(), 0.02)), 100);
        let second = count(plan.serve(&demands(), 0.02));
        assert!((50..=52).contains(&second), "a third of 12 kbit/s is left, not {second}");
    }
}
