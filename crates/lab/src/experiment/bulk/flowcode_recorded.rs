//! `flowcode-recorded`: TCP over four recorded Wi-Fi links at once, which fall silent together,
//! without relays.
//!
//! ```text
//! achievable       what the scheme's own links carried in the recording, as TCP's payload in
//!                  packets of its own
//! efficiency_tcp   goodput ÷ achievable, over the whole window
//! of_all           goodput ÷ the ceiling, of all four links together
//! ```
//! Windows of the recording, in none of which a link's log has a gap; one flow of unlimited data
//! from drone to station and pings beside it, nothing else. TCP on a single link has the best one
//! of the window, as only hindsight knows it. The row of all windows has medians. In real time
//! schemes run in turn: a window carries 100 Mbit/s and more, five of them at once what two
//! processors do not. The runs themselves are those of `bulk-lossy`.

use clap::Args;
use serde_json::{Value, json};

use super::Cc;
use super::course::{Course, Ran};
use super::figures::{ACHIEVABLE, EFFICIENCY, OF_ALL, SECONDS_WITH_DATA, pooled, skipped};
use super::point::Scene;
use crate::arguments::{RepetitionArgs, RunArgs};
use crate::experiment::Description;
use crate::experiment::recorded::{lacks_recordings, parse_choice, recorded_windows};
use crate::figure::Figure;
use crate::report::{Mode, Report, merged};
use crate::scheme::{Known, Scheme};
use crate::traces::Choice;
use emulator::Failure;
use sys::print::tell;

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "flowcode-recorded",
    about: "TCP over four recorded Wi-Fi links at once: coded tunnels, one path at a time, one link",
    sim: Known {
        unasked: &[Scheme::FULMAR, Scheme::FLOWCODE, Scheme::MIN_RTT, Scheme::TCP_LRR],
        asked: &ASKED,
    },
    emu: Known {
        unasked: &[
            Scheme::FULMAR,
            Scheme::FLOWCODE,
            Scheme::MIN_RTT,
            Scheme::KERNEL_MPTCP,
            Scheme::TCP_LRR,
            Scheme::KERNEL_TCP,
        ],
        asked: &ASKED,
    },
    beside: &[&MORE],
    figures: &FIGURES,
};

/// The product without protection of control, of which there is none here.
const ASKED: [Scheme; 1] = [Scheme::FULMAR_OFF];
/// The recorded links: all four access points, heard at the same time.
const LINKS: &str = "wifi:ap1+ap2+ap3+ap4";

/// The columns of the table.
const FIGURES: [Figure; 17] = [
    Figure::new("scheme", "scheme"),
    Figure::new("cc", "cc"),
    Figure::new("window", "window"),
    Figure::new("goodput_mbps", "Mbit/s"),
    ACHIEVABLE,
    EFFICIENCY,
    OF_ALL,
    SECONDS_WITH_DATA,
    Figure::new("longest_gap_ms", "gap ms"),
    Figure::new("tcp_retransmits", "sent again"),
    Figure::new("tcp_timeouts", "timeouts"),
    Figure::new("srtt_ms", "srtt ms"),
    Figure::new("ping_p50_ms", "ping p50 ms"),
    Figure::new("ping_p99_ms", "p99 ms"),
    Figure::new("wire_overhead", "wire/payload"),
    Figure::new("of_plain", "Mbit/s of plain's").ratio(),
    Figure::new("skipped", "skipped"),
];

/// What results have beside these.
const MORE: [Figure; 3] = [
    Figure::new("ceiling_mbps", "ceiling").exact(),
    Figure::new("least_mbps", "least"),
    Figure::new("repair_share", "repair"),
];

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("repetitions", |arg| arg.default_value("1")))]
pub(crate) struct FlowcodeRecordedArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Congestion controls of the flow.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "cubic,reno")]
    cc: Vec<Cc>,
    /// Windows of the recording: worst:N by the seconds in which no link carries 1 Mbit/s, then by
    /// those in which one does; random:N by --window-seed. Those of one rule do not overlap;
    /// random:100 is nearly all of the recording.
    #[arg(long, value_delimiter = ',', value_name = "RULE:N,...", default_value = "random:8",
          value_parser = parse_choice)]
    windows: Vec<Choice>,
    /// What random windows are drawn with.
    #[arg(long, default_value_t = 1, value_name = "N")]
    window_seed: u64,
    /// Length of a window; where no more was recorded without a gap it is shorter, 20 at least.
    #[arg(long, default_value_t = 30, value_name = "S",
          value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    again: RepetitionArgs,
}

/// Runs the experiment; without the recordings every row says so.
pub(crate) fn run(args: &FlowcodeRecordedArgs) -> Result<Report, Failure> {
    let known = match args.run.mode() {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    };
    let schemes = args.run.schemes(known)?;
    let lacks = lacks_recordings();
    let scenes = if lacks.is_some() { Vec::new() } else { scenes(args)? };
    let course = Course {
        experiment: DESCRIPTION.experiment,
        run: &args.run,
        schemes: &schemes,
        scenes: &scenes,
        cc: &args.cc,
        repetitions: args.again.repetitions,
        in_turn: true,
    };
    let ran = course.run()?;
    let mut results = ran.pooled(&course);
    results.extend(medians(&course, &ran));
    if let Some(why) = lacks {
        tell(format_args!("SKIPPED: flowcode-recorded: {why}"));
        for cc in &args.cc {
            let of = |scheme: &Scheme| skipped(*scheme, cc.name(), None, &why);
            results.extend(schemes.iter().map(of));
        }
    }
    let results = results.into_iter().map(declared).collect();
    Ok(course.report(ran, parameters(args, &scenes), results))
}

/// Returns a scene for each window.
fn scenes(args: &FlowcodeRecordedArgs) -> Result<Vec<Scene>, String> {
    let seeded = |choice: &Choice| match *choice {
        Choice::Random { count, .. } => Choice::Random { count, seed: args.window_seed },
        worst => worst,
    };
    let choices: Vec<Choice> = args.windows.iter().map(seeded).collect();
    let windows = recorded_windows(LINKS, &choices, args.seconds as f64)?;
    windows.into_iter().map(Scene::recorded_best_first).collect()
}

/// Returns a row for each scheme and congestion control with the medians of its windows, where
/// there are several.
fn medians(course: &Course<'_>, ran: &Ran) -> Vec<Value> {
    let of_scene = course.cc.len() * course.schemes.len();
    if course.scenes.len() < 2 {
        return Vec::new();
    }
    let of = |number: usize| {
        let rows = ran.all.iter().skip(number).step_by(of_scene).flatten().cloned();
        let mut all = pooled(&rows.collect::<Vec<_>>(), course.run.seeds().0, true);
        if let Some(row) = all.as_object_mut() {
            row.remove("by_seed");
        }
        merged([all, json!({"window": "all"})])
    };
    (0..of_scene).map(of).collect()
}

/// Keeps what is declared of a row, and what goes with it.
fn declared(row: Value) -> Value {
    let is_declared = |key: &str| {
        let mut figures = FIGURES.iter().chain(&MORE);
        figures.any(|figure| figure.key == key) || key == "error"
    };
    let Value::Object(row) = row else { return row };
    let keep = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("by_seed", Value::Array(rows)) => Some((key, rows.into_iter().map(declared).collect())),
        (name, value) => (is_declared(name) || name == "seed").then_some((key, value)),
    };
    row.into_iter().filter_map(keep).collect()
}

/// Says what was asked for, and what the windows are.
fn parameters(args: &FlowcodeRecordedArgs, scenes: &[Scene]) -> Value {
    json!({
        "links": LINKS,
        "seconds": args.seconds,
        "window_seed": args.window_seed,
        "repetitions": args.again.repetitions,
        "scenes": scenes.iter().map(Scene::description).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::experiment::Experiment;

    fn arguments(more: &str) -> FlowcodeRecordedArgs {
        let words = format!("fulmar-lab run flowcode-recorded --sim {more}");
        let cli = Cli::try_parse_from(words.split_whitespace()).expect("a sound command line");
        match cli.command {
            Command::Run { experiment: Experiment::FlowcodeRecorded(args) } => args,
            _ => panic!("not this experiment"),
        }
    }

    #[test]
    fn four_links_carry_more_than_the_best_one_and_windows_have_a_median() {
        if let Some(why) = lacks_recordings() {
            eprintln!("SKIPPED: four_links_carry_more_than_the_best_one: {why}");
            return;
        }
        let args = arguments("--cc reno --seconds 20 --windows random:2 --schemes fulmar,tcp_lrr");
        let report = run(&args).expect("it runs");
        let of = |number: usize, key: &str| report.results[number][key].as_f64().expect("a number");
        assert_eq!(report.results.len(), 3 * 2);
        for window in 0..2 {
            let (fulmar, single) = (2 * window, 2 * window + 1);
            assert!(of(fulmar, "goodput_mbps") > 1.3 * of(single, "goodput_mbps"));
            assert!(of(single, "of_all") > 0.25, "the best of four carries a quarter of all");
            assert!(of(fulmar, "efficiency_tcp") > 0.8 && of(single, "efficiency_tcp") <= 1.0);
            assert_eq!(report.results[fulmar].get("jain"), None, "of bulk-lossy alone");
        }
        let middle = (of(0, "goodput_mbps") + of(2, "goodput_mbps")) / 2.0;
        assert!((of(4, "goodput_mbps") - middle).abs() < 1e-3);
        assert_eq!(report.results[4]["window"], "all");
    }
}
