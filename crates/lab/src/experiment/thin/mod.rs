//! `thin-links`: control over links thinner than what is to be said, at one rate after the other.
//!
//! ```text
//! links    two (or one) of the rate, 30 and 40 ms, queues of 16 kB, no loss unless asked for
//! counted  50 messages of 100 bytes a second each way, each of which counts: 40 kbit/s of payload
//! live     50 set-points of 50 bytes a second each way, of which the newest counts, and five
//!          commands
//! ```
//! The question is whether there is a cliff: a rate below which a little less costs much of what
//! arrives.

use std::path::Path;

use clap::Args;
use netem::{Delay, LinkModel, LinkRate, LossModel, QueueLimit, Scenario};
use serde::Serialize;
use serde_json::{Value, json};
use units::{Duration, Rate};

use super::Description;
use crate::arguments::{RunArgs, loss, positive, seeds_shown};
use crate::chart::{SweepCase, SweepChart, SweepCurve};
use crate::experiment::streams::figures::{
    CONTROL_GAP, CONTROL_LATE, CONTROL_LOST, CONTROL_P99, CONTROL_SENT, FIGURES, LIVE_AGE_MAX,
    LIVE_AGE_P99, WIRE_BYTES, WIRE_SHARE,
};
use crate::experiment::streams::figures::{ControlFigures, LiveFigures};
use crate::experiment::streams::ledger::StreamRun;
use crate::experiment::streams::sim::run_stream;
use crate::experiment::streams::workload::Workload;
use crate::figure::{Figure, pooled};
use crate::report::{Mode, Report, merged, rounded};
use crate::scheme::{Known, Scheme};
use crate::testbed::{Direction, Stream};
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "thin-links",
    about: "control over links thinner than what is to be said",
    sim: Known::all(&[Scheme::FULMAR, Scheme::UDP, Scheme::REDUNDANT, Scheme::MIN_RTT]),
    emu: Known::all(&[]),
    beside: &[&FIGURES],
    figures: &[
        Figure::new("case", "case"),
        Figure::new("rate_kbps", "kbit/s"),
        Figure::new("scheme", "scheme"),
        CONTROL_SENT,
        CONTROL_LOST,
        CONTROL_LATE,
        CONTROL_P99,
        CONTROL_GAP,
        LIVE_AGE_P99,
        LIVE_AGE_MAX.titled("max ms"),
        WIRE_BYTES,
        WIRE_SHARE,
    ],
};

/// One-way delays of the links.
const DELAYS_MS: [u64; 2] = [30, 40];
/// What a modem's queue holds: two seconds at 64 kbit/s.
const QUEUE_BYTES: u64 = 16_000;
/// Commands a second beside live messages.
const COMMAND_HZ: f64 = 5.0;
/// Set-points a second.
const LIVE_HZ: f64 = 50.0;
/// Where the axis of delays begins.
const LEAST_MS: f64 = 30.0;

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct ThinLinksArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Rates of each link, each way, kbit/s.
    #[arg(long, value_delimiter = ',', value_name = "KBPS,...", value_parser = positive,
          default_value = "8,12,16,24,32,48,64,96,128,192,256,512,1000")]
    rates_kbps: Vec<f64>,
    /// Number of links.
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=2))]
    links: u8,
    /// Random loss of each link, each way, 0 to below 1.
    #[arg(long, default_value_t = 0.0, value_name = "P", value_parser = loss)]
    loss: f64,
    /// How long packets are sent, seconds.
    #[arg(long, default_value_t = 60.0, value_name = "S", value_parser = positive)]
    seconds: f64,
}

/// Says what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Case {
    /// Messages of which each counts.
    Counted,
    /// Messages of which the newest counts, and commands.
    Live,
}

impl Case {
    const BOTH: [Self; 2] = [Self::Counted, Self::Live];

    fn workload(self, seconds: f64) -> Workload {
        let (control_hz, live_hz) = match self {
            Self::Counted => (50.0, 0.0),
            Self::Live => (COMMAND_HZ, LIVE_HZ),
        };
        let none = Workload { recording: false, video_mbps: 0.0, ..Workload::default() };
        Workload { seconds, control_hz, live_hz, ..none }
    }
}

/// Runs the experiment.
pub(super) fn run(args: &ThinLinksArgs) -> Result<Report, Failure> {
    if args.run.mode() == Mode::Emu {
        return Err(Failure::Usage("thin-links: in the world only (--sim)".to_owned()));
    }
    let schemes = args.run.schemes(DESCRIPTION.sim)?;
    let recording = args.run.recording()?;
    let (first, last) = args.run.seeds();
    let mut results = Vec::new();
    for case in Case::BOTH {
        for kbps in &args.rates_kbps {
            tell(format_args!("thin-links --sim: {kbps} kbit/s, {}", seeds_shown((first, last))));
            let scenario = links(args, *kbps);
            let workload = case.workload(args.seconds);
            for scheme in &schemes {
                let mut by_seed = Vec::new();
                for seed in first..=last {
                    let run = run_stream(&scenario, *scheme, &workload, &recording, seed)?;
                    by_seed.push((seed, figures(args, case, *kbps, *scheme, &run)));
                }
                results.push(pooled(&FIGURES, &by_seed));
            }
        }
    }
    if let Some(directory) = &args.run.out {
        draw(args, directory, &schemes, &results)?;
    }
    let parameters = json!({
        "links": args.links,
        "delays_ms": DELAYS_MS,
        "queue_bytes": QUEUE_BYTES,
        "loss": args.loss,
        "counted": Case::Counted.workload(args.seconds),
        "live": Case::Live.workload(args.seconds),
        "figures": "the worse of both directions; wire_share of the fuller one",
    });
    Ok(Report::sim(DESCRIPTION.experiment, (first, last), parameters, results))
}

/// Returns links of a rate.
fn links(args: &ThinLinksArgs, kbps: f64) -> Scenario {
    let model = |delay| LinkModel {
        delay: Delay::Fixed(Duration::from_millis(delay)),
        rate: LinkRate::Constant(Rate::from_mbps(kbps / 1e3)),
        loss: LossModel { independent: args.loss, ..LossModel::default() },
        queue: QueueLimit { packets: None, bytes: Some(QUEUE_BYTES) },
        ..LinkModel::default()
    };
    let delays = DELAYS_MS.iter().take(args.links.into()).enumerate();
    delays.fold(Scenario::new(DESCRIPTION.experiment, args.seconds), |links, (index, delay)| {
        links.link(&format!("link{index}"), "drone", "station", &model(*delay))
    })
}

fn figures(args: &ThinLinksArgs, case: Case, kbps: f64, scheme: Scheme, run: &StreamRun) -> Value {
    let control = |direction| {
        let ledger = run.ledger(direction).stream(Stream::Control);
        ControlFigures::new(ledger, args.seconds, None)
    };
    let live =
        |direction| LiveFigures::new(run.ledger(direction).stream(Stream::Live), args.seconds);
    let carries = kbps * 1e3 / 8.0 * args.seconds * f64::from(args.links);
    let entered = run.wire.iter().map(|wire| wire.entered()).max().unwrap_or(0);
    let ways = Direction::BOTH.map(control);
    let control = ways[0].worse(ways[1]);
    merged([
        json!({"case": case, "rate_kbps": kbps, "scheme": scheme}),
        json!(control),
        json!({"control_miss_share": ways[0].worse_miss_share(&ways[1])}),
        json!(live(Direction::Up).worse(live(Direction::Down))),
        json!({
            "wire_bytes": run.wire_bytes(),
            "wire_share": rounded(entered as f64 / carries, 4),
        }),
    ])
}

/// Draws what each scheme brings at each rate.
fn draw(
    args: &ThinLinksArgs,
    directory: &Path,
    schemes: &[Scheme],
    results: &[Value],
) -> Result<(), String> {
    let curve = |case: Case, scheme: &Scheme| {
        let of = results
            .iter()
            .filter(|result| result["case"] == json!(case) && result["scheme"] == json!(scheme));
        let points = of.map(|result| point(case, result)).collect();
        SweepCurve { scheme: *scheme, points }
    };
    let curves = |case| schemes.iter().map(|scheme| curve(case, scheme)).collect();
    let chart = SweepChart {
        title: "Control over links thinner than what is to be said".to_owned(),
        subtitle: format!(
            "{}, queues of 16 kB, {}; the worse direction; in the deterministic world",
            if args.links == 1 { "One link of 30 ms" } else { "Two links of 30 and 40 ms" },
            if args.loss == 0.0 { "no loss".to_owned() } else { format!("{} lost", args.loss) }
        ),
        parameter: "kbit/s of each link".to_owned(),
        values: args.rates_kbps.clone(),
        least_ms: LEAST_MS,
        cases: vec![
            SweepCase {
                share: "50 messages of 100 bytes a second: delivered".to_owned(),
                delay: "one in a hundred takes longer than".to_owned(),
                curves: curves(Case::Counted),
            },
            SweepCase {
                share: "5 commands beside 50 set-points a second: commands delivered".to_owned(),
                delay: "age of the newest set-point, exceeded one hundredth of the time".to_owned(),
                curves: curves(Case::Live),
            },
        ],
    };
    let file = chart.write(directory, "thin-links.svg")?;
    tell(format_args!("picture: {}", file.display()));
    Ok(())
}

/// Returns a rate, the share that arrived, and the delay or age.
fn point(case: Case, result: &Value) -> (f64, f64, Option<f64>) {
    let of = |key: &str| result[key].as_f64();
    let share = 1.0 - of("control_lost").unwrap_or(0.0) / of("control_sent").unwrap_or(1.0);
    let delay = match case {
        Case::Counted => of("control_p99_ms"),
        Case::Live => of("live_age_p99_ms"),
    };
    (of("rate_kbps").unwrap_or(0.0), share, delay)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_sweep_has_both_cases_at_each_rate_and_a_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().display().to_string();
        let words = ["fulmar-lab", "run", "thin-links", "--sim", "--rates-kbps", "32,256"];
        let more = ["--seconds", "5", "--schemes", "fulmar,udp", "--out", &out];
        let cli = Cli::try_parse_from(words.iter().chain(&more)).expect("a sound command line");
        let Command::Run { experiment } = cli.command else { panic!("not a run") };
        let report = experiment.run().expect("it runs");
        assert_eq!(report.results.len(), 2 * 2 * 2);
        let of = |case: &str, kbps: f64, scheme: &str| {
            let is = |result: &&Value| {
                result["case"] == case && result["rate_kbps"] == kbps && result["scheme"] == scheme
            };
            report.results.iter().find(is).expect("a result")
        };
        assert!(of("counted", 256.0, "udp")["live_age_p99_ms"].is_null());
        assert_eq!(of("counted", 256.0, "fulmar")["control_lost"], 0);
        assert!(of("live", 32.0, "udp")["live_age_p99_ms"].as_f64() > Some(500.0));
        let full = of("counted", 32.0, "fulmar")["wire_share"].as_f64().expect("a share");
        assert!(
            (0.5..=1.1).contains(&full),
            "{full} of what the links carry in the time of sending"
        );
        let picture = std::fs::read_to_string(folder.path().join("thin-links.svg"));
        assert!(picture.expect("drawn").contains("newest set-point"));
    }
}
