//! TCP flows that share one emulated link, many such links at the same time.
//!
//! Not `testbed`, which copies the links of a scenario for every scheme: here every cell is a link
//! with a loss, a delay and a queue of its own, and with one flow or several on it. One emulation
//! carries all cells of a batch, so that what is compared was measured under the same load.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use netem::{Direction as LinkDirection, Scenario};
use units::{Duration, Rate};

use super::congestion::Congestion;
use super::tcp_flow::{FlowPlan, FlowRun, run_flows};
use crate::scheme::Scheme;
use crate::statistics::{mean, percentile};
use emulator::{Audit, Claim, Emulation, LinkReport, Options};

/// Port of the first flow of a link; the others follow.
const PORT: u16 = 5_001;
/// How often windows are sampled.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Shorter packets are no data: handshakes.
const DATA_BYTES: f64 = 200.0;

/// Is a link and the flows on it, all from the same host to the same other.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Probability that the link loses a packet, the same in both directions.
    pub(crate) loss: f64,
    /// Twice the one-way delay.
    pub(crate) rtt_ms: f64,
    /// Packets that may wait at the bottleneck.
    pub(crate) queue_packets: u32,
    /// Rate of the bottleneck; the way back is as fast.
    pub(crate) rate: Rate,
    /// The congestion control of each flow.
    pub(crate) flows: Vec<Scheme>,
}

/// What came of a cell.
#[derive(Clone, Debug)]
pub(crate) struct CellRun {
    /// In the order of the cell's flows.
    pub(crate) flows: Vec<FlowRun>,
    /// Time that data waited for the bottleneck, by the emulator's own record.
    pub(crate) queue: QueueDelay,
    /// Data packets that found the queue full.
    pub(crate) overflows: u64,
}

/// How long packets waited for a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueDelay {
    /// The mean, ms; none where nothing arrived.
    pub(crate) mean_ms: Option<f64>,
    /// The 95th percentile, ms.
    pub(crate) p95_ms: Option<f64>,
}

/// Runs all cells at once for `start_up` and then `seconds`; queueing delays count after the first.
///
/// # Errors
/// Says what could not be set up, or which flow broke.
pub(crate) fn run_cells(
    cells: &[Cell],
    congestion: &Congestion,
    (start_up, seconds): (Duration, Duration),
    seed: u64,
    claim: Claim,
) -> Result<(Vec<CellRun>, Audit), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("make a folder: {error}"))?;
    let log = folder.path().join("verdicts.csv");
    let options = Options { claim, log: Some(log.clone()), ..Options::default() };
    let scenario =
        Scenario::from_toml(&describe(cells), "bottlenecks").map_err(|error| error.to_string())?;
    let mut emulation =
        Emulation::start(&scenario, seed, &options).map_err(|error| error.to_string())?;
    let mut plans = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let (from, to, link) = names(number);
        let address = emulation.address(&to, &link).ok_or("the station is not on its link")?;
        for (flow, scheme) in cell.flows.iter().enumerate() {
            plans.push(FlowPlan {
                from: from.clone(),
                to: to.clone(),
                address,
                port: PORT + flow as u16,
                congestion: congestion.name(*scheme).to_owned(),
                start: Duration::ZERO,
                duration: start_up + seconds,
                offered: None,
                sample_every: SAMPLE_EVERY,
            });
        }
    }
    let mut flows = run_flows(&mut emulation, &plans)?.into_iter();
    let (audit, links) = emulation.finish();
    let queues = read_queues(&log, cells, start_up)?;
    let runs = cells.iter().zip(queues).enumerate().map(|(number, (cell, queue))| CellRun {
        flows: flows.by_ref().take(cell.flows.len()).collect(),
        queue,
        overflows: overflows(&links, &names(number).2),
    });
    Ok((runs.collect(), audit))
}

/// Names the hosts of a cell and its link.
fn names(cell: usize) -> (String, String, String) {
    (format!("uav{cell}"), format!("station{cell}"), format!("radio{cell}"))
}

/// Writes the scenario of all cells.
fn describe(cells: &[Cell]) -> String {
    let link = |(number, cell): (usize, &Cell)| {
        let (from, to, link) = names(number);
        format!(
            "[[link]]\nname = \"{link}\"\nbetween = [\"{from}\", \"{to}\"]\ndelay_ms = {}\n\
             rate_mbps = {}\nqueue_packets = {}\nloss = {}\n",
            cell.rtt_ms / 2.0,
            cell.rate.as_mbps(),
            cell.queue_packets,
            cell.loss,
        )
    };
    cells.iter().enumerate().map(link).collect()
}

fn overflows(links: &[LinkReport], link: &str) -> u64 {
    let mut forward = links
        .iter()
        .filter(|report| report.link == link && report.entry.direction == LinkDirection::Up);
    forward.next().and_then(|report| report.dropped["queue"].as_u64()).unwrap_or(0)
}

/// Reads from the log of verdicts how long the data of each cell waited for the transmitter.
fn read_queues(log: &Path, cells: &[Cell], from: Duration) -> Result<Vec<QueueDelay>, String> {
    let named = |error: std::io::Error| format!("read {}: {error}", log.display());
    let file = BufReader::new(File::open(log).map_err(named)?);
    let mut waits: Vec<Vec<f64>> = vec![Vec::new(); cells.len()];
    for line in file.lines() {
        let line = line.map_err(named)?;
        let Some((number, entry_ns, bytes, arrival_ns)) = read_verdict(&line) else { continue };
        let Some(cell) = cells.get(number) else { continue };
        if bytes < DATA_BYTES || entry_ns < from.as_nanos() as f64 {
            continue;
        }
        let transmission_ms = bytes * 8.0 / cell.rate.as_mbps() / 1e3;
        waits[number].push((arrival_ns - entry_ns) / 1e6 - cell.rtt_ms / 2.0 - transmission_ms);
    }
    Ok(waits.into_iter().map(queue_delay).collect())
}

/// Reads a delivered packet of the way forth: the cell, entry, length and arrival.
fn read_verdict(line: &str) -> Option<(usize, f64, f64, f64)> {
    let mut fields = line.split(',').skip(1);
    let entry_ns = fields.next()?.parse().ok()?;
    let cell = fields.next()?.strip_prefix("radio")?.parse().ok()?;
    let forth = fields.next()?.starts_with("from_uav");
    let bytes = fields.nth(1)?.parse().ok()?;
    let delivered = fields.next()? == "delivered";
    let arrival_ns = fields.next()?.parse().ok()?;
    (forth && delivered).then_some((cell, entry_ns, bytes, arrival_ns))
}

fn queue_delay(mut waits_ms: Vec<f64>) -> QueueDelay {
    waits_ms.sort_by(f64::total_cmp);
    QueueDelay { mean_ms: mean(&waits_ms), p95_ms: percentile(&waits_ms, 0.95) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(loss: f64, rtt_ms: f64) -> Cell {
        let rate = Rate::from_mbps(6.0);
        Cell { loss, rtt_ms, queue_packets: 50, rate, flows: vec![Scheme::Reno] }
    }

    #[test]
    fn cells_become_links_of_one_scenario() {
        let text = describe(&[cell(0.0, 40.0), cell(0.005, 100.0)]);
        let scenario = Scenario::from_toml(&text, "cells").expect("a sound scenario");
        assert_eq!((scenario.hosts.len(), scenario.links.len()), (4, 2));
        assert_eq!(scenario.links[1].name, "radio1");
    }

    #[test]
    fn waits_are_what_the_log_says_beyond_delay_and_transmission() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log.csv");
        // 1,500 bytes take 2 ms at 6 Mbit/s, and 20 ms to arrive.
        let text = "packet,entry_ns,link,direction,receiver,bytes,fate,arrival_ns\n\
            1,500000000,radio0,from_uav0,station0,1500,delivered,999000000\n\
            2,1000000000,radio0,from_uav0,station0,1500,delivered,1032000000\n\
            3,1000000000,radio0,from_station0,uav0,1500,delivered,1090000000\n\
            4,1000000000,radio0,from_uav0,station0,52,delivered,1090000000\n\
            5,2000000000,radio0,from_uav0,station0,1500,loss,\n\
            6,2000000000,radio0,from_uav0,station0,1500,delivered,2042000000\n";
        std::fs::write(&log, text).expect("written");
        let queues = read_queues(&log, &[cell(0.0, 40.0)], Duration::from_secs(1)).expect("read");
        assert_eq!((queues[0].mean_ms, queues[0].p95_ms), (Some(15.0), Some(20.0)));
    }
}
