//! What came of a run: what arrived of its flows in each hundredth of a second, what their senders
//! did, and what went beside them.

use super::requests::Requests;
use crate::experiment::streams::ledger::StreamRun;

/// Length of a bin, seconds.
const BIN_S: f64 = 0.01;

/// What came of a scheme's flow, or of several at once, and of what was sent beside it.
#[derive(Debug)]
pub(super) struct BulkRun {
    /// All flows together.
    pub(super) flow: Flow,
    /// The payload that each of them brought, bytes.
    pub(super) each: Vec<u64>,
    /// Pings, and control, which the world has not.
    pub(super) beside: StreamRun,
    /// Of the point that has them.
    pub(super) requests: Option<Requests>,
    /// Bytes that entered the links while the flow lasted, both ways; none where they were not
    /// counted.
    pub(super) wire_bytes: Option<u64>,
    /// What somebody else's flow on the first link had, Mbit/s, where there is one.
    pub(super) outside_mbps: Option<f64>,
    /// Repair over what it repairs; none where nothing is coded.
    pub(super) repair_share: Option<f64>,
    /// Processor time of the programs that carry it while the flow lasted, both ends', seconds;
    /// none in the world, and where the kernel alone carries it.
    pub(super) cpu_s: Option<f64>,
}

/// The record of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Payload bytes that the receiving application got in each bin.
    bins: Vec<u64>,
    /// Segments that the sender sent again.
    pub(super) retransmits: Option<u64>,
    /// How often its timer fired.
    pub(super) timeouts: Option<u64>,
    /// Smoothed round-trip times, as the sender had them now and then, milliseconds.
    pub(super) srtt_ms: Vec<f64>,
}

impl Flow {
    /// Makes the record of a flow of a length.
    pub(super) fn new(seconds: f64) -> Self {
        Self { bins: vec![0; (seconds / BIN_S).round() as usize], ..Self::default() }
    }

    /// Adds flows of the same time up; returns the bytes of each as well.
    pub(super) fn together(flows: Vec<Self>) -> (Self, Vec<u64>) {
        let each = flows.iter().map(Self::bytes).collect();
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        let all = flows.into_iter().reduce(|mut all, flow| {
            all.bins.iter_mut().zip(flow.bins).for_each(|(all, bytes)| *all += bytes);
            all.retransmits = sum(all.retransmits, flow.retransmits);
            all.timeouts = sum(all.timeouts, flow.timeouts);
            all.srtt_ms.extend(flow.srtt_ms);
            all
        });
        (all.unwrap_or_default(), each)
    }

    /// Notes that bytes arrived; what comes after the end counts for nothing.
    pub(super) fn on_delivered(&mut self, at_s: f64, bytes: usize) {
        if let Some(bin) = self.bins.get_mut((at_s / BIN_S) as usize) {
            *bin += bytes as u64;
        }
    }

    /// Returns the payload that arrived, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Returns the goodput between two times, Mbit/s; none beyond the flow's end.
    pub(super) fn mbps(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let bins = self.bins.get(place(from_s)..place(to_s)).filter(|bins| !bins.is_empty())?;
        let bytes: u64 = bins.iter().sum();
        Some(bytes as f64 * 8.0 / 1e6 / (bins.len() as f64 * BIN_S))
    }

    /// Returns the beginning and the end of the longest stretch in which nothing arrived, seconds.
    pub(super) fn longest_gap(&self) -> (f64, f64) {
        let (mut longest, mut from) = ((0, 0), 0);
        for (number, bytes) in self.bins.iter().chain([&1]).enumerate() {
            if *bytes > 0 {
                if number - from > longest.1 - longest.0 {
                    longest = (from, number);
                }
                from = number + 1;
            }
        }
        (longest.0 as f64 * BIN_S, longest.1 as f64 * BIN_S)
    }

    /// Returns in how many seconds of the flow anything arrived.
    pub(super) fn seconds_with_data(&self) -> usize {
        let seconds = self.bins.chunks(place(1.0));
        seconds.filter(|bins| bins.iter().any(|bytes| *bytes > 0)).count()
    }

    /// Returns how long after a time the first byte arrived, seconds; none where none did.
    pub(super) fn first_after(&self, at_s: f64) -> Option<f64> {
        let later = self.bins.get(place(at_s)..)?;
        later.iter().position(|bytes| *bytes > 0).map(|bin| bin as f64 * BIN_S)
    }

    /// Returns the goodput of each half second: its middle in seconds, Mbit/s.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let half = |(number, bins): (usize, &[u64])| {
            let bytes: u64 = bins.iter().sum();
            let mbps = bytes as f64 * 8.0 / 1e6 / (bins.len() as f64 * BIN_S);
            (number as f64 * 0.5 + 0.25, mbps)
        };
        self.bins.chunks(place(0.5)).enumerate().map(half).collect()
    }
}

/// Returns the bin that begins at a time.
fn place(at_s: f64) -> usize {
    (at_s / BIN_S).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_arrived() {
        let mut flow = Flow::new(2.0);
        for (at_s, bytes) in [(0.0, 1_000), (0.1, 1_000), (0.105, 500), (1.2, 10_000), (2.0, 9)] {
            flow.on_delivered(at_s, bytes);
        }
        assert_eq!((flow.bytes(), flow.mbps(0.0, 1.0)), (12_500, Some(0.02)));
        assert_eq!((flow.mbps(1.0, 2.0), flow.mbps(1.0, 3.0)), (Some(0.08), None));
        assert_eq!(flow.longest_gap(), (0.11, 1.2));
        assert_eq!((flow.first_after(1.0), flow.first_after(1.5)), (Some(0.2), None));
        assert_eq!(flow.curve()[2], (1.25, 0.16));
        assert_eq!((flow.seconds_with_data(), Flow::new(1.0).seconds_with_data()), (2, 0));
        assert_eq!(Flow::new(1.0).longest_gap(), (0.0, 1.0), "nothing at all");
        let mut other = Flow::new(2.0);
        other.on_delivered(0.5, 1_500);
        let (both, each) = Flow::together(vec![flow, other]);
        assert_eq!((both.bytes(), both.longest_gap()), (14_000, (1.21, 2.0)));
        assert_eq!(each, [12_500, 1_500]);
    }
}
