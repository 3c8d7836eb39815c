//! What a flight could have carried: the achievable goodput and range of each pass of a region
//! [FlowCode §V].
//!
//! ```text
//! achievable = payload of the distinct (transmitter, slot) pairs that any receiver heard ÷ the
//!              seconds in which any was
//! range      = way over ground in those seconds
//! ```
//! A pass is a stretch of legs of one region; its seconds are counted from its beginning.

use netem::SlotMatrix;
use serde::Serialize;

use super::course::Fix;
use super::flight::Flight;
use crate::statistics::{mean, standard_deviation};

/// A pass of a region.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pass {
    /// The region.
    pub(crate) region: String,
    /// When it begins and ends, seconds.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// What could have been delivered in the seconds in which anything was heard, Mbit/s.
    pub(crate) achievable_mbps: f64,
    /// Way over ground in these seconds, metres.
    pub(crate) range_m: f64,
}

/// What the passes of a region have in common.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The region.
    pub(crate) region: String,
    /// How many passes.
    pub(crate) passes: usize,
    /// Means and standard deviations; no deviation of one pass.
    pub(crate) achievable_mbps: f64,
    pub(crate) achievable_mbps_sd: Option<f64>,
    pub(crate) range_m: f64,
    pub(crate) range_m_sd: Option<f64>,
}

/// Returns how many different packets were heard in each slot: one for each transmitter that
/// anybody heard.
pub(crate) fn heard(matrix: &SlotMatrix) -> Vec<u16> {
    let mut counts = vec![0; matrix.slots()];
    let mut senders: Vec<&str> = Vec::new();
    for row in matrix.rows() {
        if !senders.contains(&row.from.as_str()) {
            senders.push(&row.from);
        }
    }
    for sender in senders {
        let own: Vec<_> = matrix.rows().iter().filter(|row| row.from == sender).collect();
        for (slot, count) in counts.iter_mut().enumerate() {
            *count += u16::from(own.iter().any(|row| row.trace.slots()[slot]));
        }
    }
    counts
}

/// Returns the passes of a flight in which so many packets were heard in each slot.
pub(crate) fn passes(flight: &Flight, course: &[Fix], heard: &[u16]) -> Vec<Pass> {
    let region = |fix: &Fix| flight.course.waypoints[fix.leg].region.as_deref();
    let slot_s = flight.air.slot_s();
    let mut all = Vec::new();
    let mut from = 0;
    while from < course.len() {
        let here = region(&course[from]);
        let length = course[from..].iter().take_while(|fix| region(fix) == here).count();
        let to = from + length;
        if let Some(region) = here {
            let (seconds, way_m, packets) = sums(&course[from..to], &heard[from..to], slot_s);
            let bits = packets as f64 * flight.air.packet_bytes as f64 * 8.0;
            all.push(Pass {
                region: region.to_owned(),
                from_s: from as f64 * slot_s,
                to_s: to as f64 * slot_s,
                achievable_mbps: if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 },
                range_m: way_m,
            });
        }
        from = to;
    }
    all
}

/// Returns the row of each region, in the order in which the flight meets them.
pub(crate) fn rows(passes: &[Pass]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for pass in passes {
        if rows.iter().any(|row| row.region == pass.region) {
            continue;
        }
        let own = passes.iter().filter(|other| other.region == pass.region);
        let (rates, ranges): (Vec<f64>, Vec<f64>) =
            own.map(|own| (own.achievable_mbps, own.range_m)).unzip();
        rows.push(Row {
            region: pass.region.clone(),
            passes: rates.len(),
            achievable_mbps: mean(&rates).unwrap_or(0.0),
            achievable_mbps_sd: standard_deviation(&rates),
            range_m: mean(&ranges).unwrap_or(0.0),
            range_m_sd: standard_deviation(&ranges),
        });
    }
    rows
}

/// Returns time and way of the seconds in which there was anything, and how much in all; the first
/// slot begins one.
pub(crate) fn sums<T: Copy + Into<u64>>(
    course: &[Fix],
    heard: &[T],
    slot_s: f64,
) -> (f64, f64, u64) {
    let (mut seconds, mut way_m, mut packets) = (0.0, 0.0, 0);
    let second = |slot: usize| (slot as f64 * slot_s) as u64;
    let mut from = 0;
    while from < heard.len() {
        let to = (from..heard.len()).find(|slot| second(*slot) > second(from));
        let to = to.unwrap_or(heard.len());
        let count: u64 = heard[from..to].iter().map(|&count| count.into()).sum();
        if count > 0 {
            packets += count;
            seconds += (to - from) as f64 * slot_s;
            way_m += course[from..to].iter().map(|fix| fix.speed_mps * slot_s).sum::<f64>();
        }
        from = to;
    }
    (seconds, way_m, packets)
}
