//! What `fulmar-lab trace predict` takes and prints.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use netem::SlotMatrix;
use serde::Serialize;
use sys::print::print;
use units::Duration;
use world::tcp::Congestion;

use super::model::{Around, Over, best, play};
use super::stretches::{Arrived, Positions, Stretch, arrived, stretches};
use crate::arguments::positive;
use crate::traces::shared;
use crate::traces::synth::{aligned, heard};

/// Bytes of a recorded packet: those of the paper's [FlowCode §IV].
const PACKET_BYTES: u64 = 1_472;
/// Silence that ends a pass where no table of positions says, seconds.
const GAP_S: f64 = 5.0;

const AFTER_HELP: &str = "\
Two figures for each pass: TCP over an ideal code, for which every packet heard is of use, and TCP over the pair that
hears most, with 15 repeats of a frame, and of the last packet while TCP is silent (TCP+LRR). The second is what one radio alone would do only if the recording is one of a
transmitter alone (trace synth --alone).

From a flight file to what TCP would make of it:
  fulmar-lab trace synth flights/circuit.toml --out circuit.slots --course circuit.csv
  fulmar-lab trace predict circuit.slots --course circuit.csv

A pass is a stretch of one region of the table of positions (columns time_s, region and, for the way over ground,
ground_speed_mps); without one, what lies between 5 s of silence.";

/// The arguments of `trace predict`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PredictArgs {
    /// The slot matrix.
    #[arg(value_name = "MATRIX")]
    matrix: PathBuf,
    /// A table of positions, which says where passes begin and end.
    #[arg(long, value_name = "FILE.csv")]
    course: Option<PathBuf>,
    /// How TCP's window grows and falls.
    #[arg(long, value_enum, default_value_t = Cc::Cubic)]
    cc: Cc,
    /// Bytes of TCP's payload in a packet: less where something is around them.
    #[arg(long, default_value_t = 1_448, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=65_000))]
    payload: u64,
    /// Each way, beside the slots.
    #[arg(long, default_value_t = 5.0, value_name = "MS", value_parser = positive)]
    delay_ms: f64,
    /// Acknowledgements pass up to so long before and after a packet that was heard.
    #[arg(long, default_value_t = 1_000.0, value_name = "MS", value_parser = positive)]
    region_ms: f64,
    /// Packets that may wait for the slots of a pair, if not 50; over the code the tunnel's own
    /// queue says it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queue: Option<u32>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// What the world's TCP knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cc {
    Cubic,
    Reno,
}

/// What is told about a recording.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Prediction {
    pub(super) slots: usize,
    pub(super) slot_ms: f64,
    pub(super) cc: &'static str,
    pub(super) payload_bytes: u64,
    pub(super) passes: Vec<Passed>,
}

/// A pass over some link.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Passed {
    pub(super) region: String,
    /// `coded`, or the pair.
    pub(super) link: String,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Recorded payload of the packets heard, and TCP's that arrived.
    pub(super) heard: Arrived,
    pub(super) arrived: Arrived,
    pub(super) achievable_mbps: f64,
    /// TCP's payload in the seconds in which any arrived.
    pub(super) predicted_mbps: f64,
    /// Share of what the packets heard could carry that arrived.
    pub(super) efficiency: Option<f64>,
}

/// Reads, plays and tells.
pub(crate) fn run(args: &PredictArgs) -> Result<(), String> {
    let file = args.matrix.display().to_string();
    let matrix = SlotMatrix::parse(&shared::text(&args.matrix)?, &file);
    let matrix = matrix.map_err(|error| error.to_string())?;
    let positions = args
        .course
        .as_ref()
        .map(|course| Positions::parse(&shared::text(course)?, &course.display().to_string()));
    let positions = positions.transpose()?;
    let prediction = Prediction::of(&matrix, positions.as_ref(), &args.around());
    if args.json {
        let text = serde_json::to_string(&prediction);
        return print(text.map_err(|error| format!("write JSON: {error}"))?);
    }
    print(prediction.table().trim_end())
}

impl PredictArgs {
    fn around(&self) -> Around {
        Around {
            congestion: match self.cc {
                Cc::Cubic => Congestion::Cubic,
                Cc::Reno => Congestion::Reno,
            },
            payload_bytes: self.payload,
            delay: Duration::from_secs_f64(self.delay_ms / 1e3),
            region: Duration::from_secs_f64(self.region_ms / 1e3),
            queue: self.queue.map(|packets| packets as usize),
        }
    }
}

impl Prediction {
    /// Plays a recording over the ideal code and over its best pair.
    pub(super) fn of(matrix: &SlotMatrix, positions: Option<&Positions>, around: &Around) -> Self {
        let slot_s = matrix.slot().as_secs_f64();
        let all = heard(matrix);
        let passes = match positions {
            Some(positions) => positions.passes(matrix),
            None => stretches(&all, (GAP_S / slot_s).ceil() as usize),
        };
        let mut over = vec![(Over::Coded, all, "coded".to_owned())];
        if let Some(row) = best(matrix) {
            let own = row.trace.slots().iter().map(|heard| u16::from(*heard)).collect();
            over.push((Over::Pair(row), own, format!("{} to {}", row.from, row.to)));
        }
        let mut all = Vec::new();
        for (over, counts, link) in over {
            let played = play(matrix, &over, around);
            for pass in &passes {
                let of = |bytes: &dyn Fn(usize) -> u64| arrived(bytes, pass, slot_s, positions);
                let heard = of(&|slot| u64::from(counts[slot]) * PACKET_BYTES);
                let bytes =
                    |slot: usize| played[slot] - slot.checked_sub(1).map_or(0, |one| played[one]);
                let arrived = of(&bytes);
                all.push(Passed::of(pass, &link, slot_s, [heard, arrived], around.payload_bytes));
            }
        }
        let cc = around.congestion.name();
        let payload_bytes = around.payload_bytes;
        Self { slots: matrix.slots(), slot_ms: slot_s * 1e3, cc, payload_bytes, passes: all }
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{} slots of {:.3} ms, TCP with {}, {} bytes of it in a packet\n\n",
            self.slots, self.slot_ms, self.cc, self.payload_bytes
        );
        if self.passes.is_empty() {
            text.push_str(
                "no pass: nothing was heard, or the table of positions names no region\n",
            );
            return text;
        }
        let is_placed = self.passes.iter().any(|pass| pass.heard.range_m.is_some());
        let heading =
            ["region", "link", "from s", "to s", "achievable Mbit/s", "TCP Mbit/s", "efficiency"];
        let ranges = ["achievable m", "TCP m"].into_iter().filter(|_| is_placed);
        let mut lines = vec![heading.into_iter().chain(ranges).map(str::to_owned).collect()];
        lines.extend(self.passes.iter().map(Passed::cells));
        text + &aligned(&lines)
    }
}

impl Passed {
    fn of(
        pass: &Stretch,
        link: &str,
        slot_s: f64,
        [heard, arrived]: [Arrived; 2],
        payload_bytes: u64,
    ) -> Self {
        let mbps = |arrived: Arrived| match arrived.seconds {
            0.0 => 0.0,
            seconds => (arrived.bytes * 8) as f64 / seconds / 1e6,
        };
        let most = (heard.bytes / PACKET_BYTES * payload_bytes) as f64;
        Self {
            region: pass.region.clone(),
            link: link.to_owned(),
            from_s: pass.from as f64 * slot_s,
            to_s: pass.to as f64 * slot_s,
            achievable_mbps: mbps(heard),
            predicted_mbps: mbps(arrived),
            efficiency: (most > 0.0).then(|| arrived.bytes as f64 / most),
            heard,
            arrived,
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![
            toml_keys::one_line(&self.region),
            self.link.clone(),
            format!("{:.1}", self.from_s),
            format!("{:.1}", self.to_s),
            format!("{:.3}", self.achievable_mbps),
            format!("{:.3}", self.predicted_mbps),
            self.efficiency.map_or("—".to_owned(), |share| format!("{:.1} %", share * 1e2)),
        ];
        let ranges = [self.heard.range_m, self.arrived.range_m];
        cells.extend(ranges.into_iter().flatten().map(|way| format!("{way:.0}")));
        cells
    }
}
