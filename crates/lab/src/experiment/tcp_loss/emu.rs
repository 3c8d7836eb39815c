//! Runs TCP flows that share an emulated link, over many such links at the same time.
//!
//! Not over `testbed::links`, which copies a scenario for every scheme: here every cell is a link
//! with a loss, a delay and a queue of its own, and with one flow or several on it. One emulation
//! carries all cells of a batch, so that what is compared was measured under the same load.

use netem::{
    Delay, Direction as LinkDirection, DropCause, LinkModel, LinkRate, LossModel, QueueLimit,
    Scenario,
};
use units::{Duration, Rate};

use crate::scheme::CongestionControl;
use crate::testbed::congestion::Congestion;
use crate::testbed::tcp_flow::{FlowPlan, FlowRun, run_flows};
use emulator::{Audit, Claim, Emulation, LinkReport, Options, QueueDelay, QueueWatch};

/// Port of the first flow of a link; the others follow.
const PORT: u16 = 5_001;
/// How often windows are sampled.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Shorter packets are no data: handshakes.
const DATA_BYTES: usize = 200;

/// A link and the flows on it, all from the same host to the same other.
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
    pub(crate) flows: Vec<CongestionControl>,
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
    let queue_watch = Some(QueueWatch { from: start_up, at_least_bytes: DATA_BYTES });
    let options = Options { claim, queue_watch, ..Options::default() };
    let scenario = scenario(cells, start_up + seconds);
    let mut emulation =
        Emulation::start(&scenario, seed, &options).map_err(|error| error.to_string())?;
    let mut plans = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let (from, to, link) = names(number);
        let address = emulation.address(&to, &link).ok_or("the station is not on its link")?;
        for (flow, control) in cell.flows.iter().enumerate() {
            plans.push(FlowPlan {
                from: from.clone(),
                to: to.clone(),
                address,
                port: PORT + flow as u16,
                congestion: congestion.name(*control).to_owned(),
                start: Duration::ZERO,
                duration: start_up + seconds,
                offered: None,
                sample_every: SAMPLE_EVERY,
            });
        }
    }
    let mut flows = run_flows(&mut emulation, &plans)?.into_iter();
    let (audit, links) = emulation.finish();
    let runs = cells.iter().enumerate().map(|(number, cell)| {
        let report = forth(&links, &names(number).2);
        CellRun {
            flows: flows.by_ref().take(cell.flows.len()).collect(),
            queue: report.and_then(|report| report.queue_delay).unwrap_or_default(),
            overflows: report.map_or(0, |report| report.stats.drops(DropCause::Queue)),
        }
    });
    Ok((runs.collect(), audit))
}

/// Names the hosts of a cell and its link.
fn names(cell: usize) -> (String, String, String) {
    (format!("uav{cell}"), format!("station{cell}"), format!("radio{cell}"))
}

/// Makes the scenario of all cells.
fn scenario(cells: &[Cell], length: Duration) -> Scenario {
    let start = Scenario::new("bottlenecks", length.as_secs_f64());
    cells.iter().enumerate().fold(start, |scenario, (number, cell)| {
        let (from, to, link) = names(number);
        let packets = Some(u64::from(cell.queue_packets));
        let model = LinkModel {
            delay: Delay::Fixed(Duration::from_secs_f64(cell.rtt_ms / 2e3)),
            rate: LinkRate::Constant(cell.rate),
            queue: QueueLimit { packets, bytes: None },
            loss: LossModel { independent: cell.loss, ..LossModel::default() },
            ..LinkModel::default()
        };
        scenario.link(&link, &from, &to, &model)
    })
}

/// Returns what the emulator counted of the way forth of a cell's link.
fn forth<'a>(links: &'a [LinkReport], link: &str) -> Option<&'a LinkReport> {
    links.iter().find(|report| report.link == link && report.entry.direction == LinkDirection::Up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(loss: f64, rtt_ms: f64) -> Cell {
        let rate = Rate::from_mbps(6.0);
        Cell { loss, rtt_ms, queue_packets: 50, rate, flows: vec![CongestionControl::Reno] }
    }

    #[test]
    fn cells_become_links_of_one_scenario() {
        let cells = [cell(0.0, 40.0), cell(0.005, 100.0)];
        let scenario = scenario(&cells, Duration::from_secs(1));
        let text = "[[link]]\nname = \"radio1\"\nbetween = [\"uav1\", \"station1\"]\n\
            delay_ms = 50\nrate_mbps = 6\nqueue_packets = 50\nloss = 0.005\n";
        let written = Scenario::from_toml(text, "cells").expect("a sound scenario");
        assert_eq!(scenario.links[1].up, written.links[0].up);
        assert_eq!((scenario.hosts.len(), scenario.links.len()), (4, 2));
        assert_eq!(scenario.links[1].name, "radio1");
    }
}
