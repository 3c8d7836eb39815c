//! When a generation is packed, how many combinations leave, and when more do: as published
//! [FlowCode §III-A, §III-B].

use units::{Duration, Rate};

use super::LONGEST_WAIT;

/// Generations that may be in flight however short the way is: the paper's own setting.
const LEAST_IN_FLIGHT: usize = 2;
/// Part of the fastest round trip for which an incomplete generation waits: "a short time
/// commensurate with the estimated RTT" [FlowCode §III-A]. A whole one would show in every pause of
/// TCP's slow start.
const WAIT: u32 = 4;

/// What a source knows of its way to the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Those that combine for themselves (n_Tx); paths of one session do not: together they are
    /// one.
    pub(crate) transmitters: usize,
    /// What all of them send together.
    pub(crate) rate: Rate,
    /// From a combination by the slowest of them to its ACK (t_RTT).
    pub(crate) rtt: Duration,
    /// The same by the fastest, at best.
    pub(crate) least_rtt: Duration,
}

/// More combinations that are to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct More {
    /// When, counted from the last one that left, if no ACK has come (t_ARQ).
    pub(crate) after: Duration,
    /// How many.
    pub(crate) combinations: usize,
}

/// k combinations of each generation, and one more for each t_ARQ without an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// Generations in flight; none: what the way holds.
    pub(crate) f: Option<usize>,
    /// Combinations for each packet of a generation, at most.
    pub(crate) r: usize,
    /// One more for each transmitter, not one in all.
    pub(crate) of_each: bool,
}

impl Published {
    /// Returns how long fewer than k packets wait for more of them.
    pub(super) fn wait(&self, way: &Way) -> Duration {
        way.least_rtt / WAIT
    }

    /// Returns how many generations may be in flight, each of so many bytes:
    /// f = t_RTT · n_Tx / (t_pkt · k), where n_Tx / t_pkt is the rate of all transmitters in
    /// packets.
    pub(super) fn in_flight(&self, way: &Way, generation: usize) -> usize {
        let held = || way.rate.bytes_in(way.rtt).div_ceil(generation.max(1) as u64);
        self.f.unwrap_or_else(|| usize::try_from(held()).unwrap_or(usize::MAX).max(LEAST_IN_FLIGHT))
    }

    /// Returns how many combinations each transmitter is asked for at first: s = ⌈k / n_Tx⌉.
    pub(super) fn first(&self, k: usize, way: &Way) -> usize {
        k.div_ceil(way.transmitters.max(1))
    }

    /// Returns what is asked for without an ACK once `sent` combinations have left, while so many
    /// bytes are in flight; none when the retries are over.
    pub(super) fn more(&self, k: usize, sent: usize, in_flight: usize, way: &Way) -> Option<More> {
        let after = way.rate.transmission_time(in_flight).min(LONGEST_WAIT);
        let combinations = if self.of_each { way.transmitters.max(1) } else { 1 };
        (sent < k * self.r).then_some(More { after, combinations })
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn parameters_are_the_papers() {
        let pace = Published { f: None, r: 10, of_each: false };
        // Four transmitters of 1 Mbit/s, packets of 1,472 bytes, k = 4, a round trip of two
        // generations: f = 2.
        let way = Way {
            transmitters: 4,
            rate: Rate::from_mbps(4.0),
            rtt: Rate::from_mbps(4.0).transmission_time(2 * 4 * 1_472),
            least_rtt: 20 * MS,
        };
        assert_eq!(pace.in_flight(&way, 4 * 1_472), 2);
        assert_eq!([3, 4, 5, 16].map(|k| pace.first(k, &way)), [1, 1, 2, 4]);
        assert_eq!(pace.wait(&way), 5 * MS);
        let more = pace.more(4, 39, 2 * 4 * 1_472, &way).expect("the last retry");
        assert!(more.combinations == 1 && more.after <= way.rtt && more.after + MS > way.rtt);
        assert_eq!(pace.more(4, 40, 0, &way), None);
        let more = Published { of_each: true, ..pace }.more(4, 39, 0, &way);
        assert_eq!(more.map(|more| more.combinations), Some(4));
    }

    #[test]
    fn what_is_set_holds_and_a_way_without_a_rate_ends_no_wait() {
        let way = Way { transmitters: 1, ..Way::default() };
        assert_eq!(Published { f: Some(1), r: 1, of_each: false }.in_flight(&way, 0), 1);
        let pace = Published { f: None, r: 1, of_each: false };
        assert_eq!((pace.in_flight(&way, 0), pace.first(4, &way)), (2, 4));
        assert_eq!(pace.more(4, 0, 1, &way).map(|more| more.after), Some(LONGEST_WAIT));
    }
}
