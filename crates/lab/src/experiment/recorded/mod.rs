//! `recorded`: control, live messages and a recorded flight over links that change, alone and
//! beside video.
//!
//! Each scheme runs twice through each window, over the same links. Beside the schemes stand
//! bounds: what a sender that knows the links' future could have reached.

mod bounds;
mod choice;
mod messages;
mod picture;
mod reachable;
mod window;

use clap::Args;
use serde_json::{Value, json};
use units::Duration;

use super::Description;
use crate::arguments::RunArgs;
use crate::doubt::rankings_in_doubt;
use crate::experiment::streams::emu::{Links, run_streams};
use crate::experiment::streams::figures::{
    CONTROL_GAP, CONTROL_LOST, CONTROL_MISSED, FIGURES, LIVE_AGE_MAX, LIVE_AGE_P99,
    QUEUE_DROPPED_BYTES, VIDEO_FRAMES, VIDEO_SHARE, WIRE_BYTES,
};
use crate::experiment::streams::mixed_blackout;
use crate::experiment::streams::sim::run_stream;
use crate::experiment::streams::workload::Workload;
use crate::figure::{Figure, pooled, pooled_object};
use crate::report::{Mode, Report, merged};
use crate::scheme::Scheme;
use crate::testbed::{Direction, Recording};
use bounds::Bounds;
use choice::WindowArgs;
pub(crate) use choice::{lacks_recordings, parse_choice, recorded_windows};
use emulator::Audit;
use emulator::Failure;
use messages::write_messages;
pub(crate) use reachable::{Capacity, capacities};
use sys::print::tell;
use window::{Played, Window};

/// What an emulated run claims to tell apart: a message that is late from one that is not.
const RESOLUTION: Duration = Duration::from_millis(10);

/// For how many seconds at least two links, one and none are alive.
const ALIVE: [Figure; 3] = [
    Figure::sum("seconds_alive_2", "≥2 alive"),
    Figure::sum("seconds_alive_1", "1"),
    Figure::sum("seconds_alive_0", "0"),
];

/// Describes the experiment.
pub(super) const DESCRIPTION: Description = Description {
    experiment: "recorded",
    about: "control over recorded links, alone and beside video, and what could be reached",
    sim: mixed_blackout::DESCRIPTION.sim,
    emu: mixed_blackout::DESCRIPTION.emu,
    beside: &[&FIGURES, &ALIVE],
    figures: &[
        Figure::new("window", "window"),
        Figure::new("scheme", "scheme"),
        Figure::new("case", "case"),
        ALIVE[0].within("down", "≥2 alive"),
        ALIVE[1].within("down", "1"),
        ALIVE[2].within("down", "0"),
        CONTROL_MISSED.within("down", "down: missed"),
        CONTROL_LOST.within("down", "lost"),
        CONTROL_GAP.within("down", "gap s"),
        LIVE_AGE_P99.within("down", "live p99"),
        LIVE_AGE_MAX.within("down", "max ms"),
        CONTROL_MISSED.within("up", "up: missed"),
        CONTROL_LOST.within("up", "lost"),
        CONTROL_GAP.within("up", "gap s"),
        LIVE_AGE_P99.within("up", "live p99"),
        LIVE_AGE_MAX.within("up", "max ms"),
        VIDEO_SHARE.within("down", "video"),
        VIDEO_FRAMES.within("down", "frames"),
        WIRE_BYTES,
        QUEUE_DROPPED_BYTES,
    ],
};

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordedArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(flatten)]
    windows: WindowArgs,
    /// Rate of the video from drone to station in the second run of each window; 0 for no such run.
    #[arg(long, default_value_t = 5.8, value_name = "MBIT/S", value_parser = none_or_more)]
    video_mbps: f64,
    /// Control messages each second, each way, of 100 bytes.
    #[arg(long, default_value_t = 50.0, value_name = "HZ", value_parser = crate::arguments::positive)]
    control_hz: f64,
    /// Live messages each second, each way, of 50 bytes, of which the newest counts; 0 for none.
    #[arg(long, default_value_t = 50.0, value_name = "HZ", value_parser = none_or_more)]
    live_hz: f64,
    /// Leave the recorded flight out.
    #[arg(long)]
    no_recording: bool,
}

/// Runs the experiment.
pub(super) fn run(args: &RecordedArgs) -> Result<Report, Failure> {
    let known = match args.run.mode() {
        Mode::Sim => DESCRIPTION.sim,
        Mode::Emu => DESCRIPTION.emu,
    };
    let schemes = args.run.schemes(known)?;
    let windows = args.windows.windows(&traffic(args)).map_err(Failure::Usage)?;
    let recording = args.run.recording()?;
    let (mut results, mut described, mut audits) = (Vec::new(), Vec::new(), Vec::new());
    for (number, window) in windows.iter().enumerate() {
        let bounds = window.bounds(&recording)?;
        let stage = Stage {
            args,
            window,
            bounds: &bounds,
            recording: &recording,
            place: format!("window {} of {}", number + 1, windows.len()),
        };
        let of_window = match args.run.mode() {
            Mode::Sim => stage.run_sim(&schemes)?,
            Mode::Emu => stage.run_emu(&schemes, &mut audits)?,
        };
        let all = of_window.into_iter().chain(bounds.results());
        results.extend(all.map(|result| stage.complete(result)));
        described.push(window.description(&bounds));
    }
    results.extend(sums(&results, windows.len()));
    let parameters = json!({
        "windows": described,
        "workload": windows.first().map(Window::traffic),
        "figures": "each way; up is from station to drone; missed is lost or later than 100 ms",
    });
    let name = DESCRIPTION.experiment;
    Ok(match args.run.mode() {
        Mode::Sim => Report::sim(name, args.run.seeds(), parameters, results),
        Mode::Emu => {
            let doubts = rankings_in_doubt(&results, &DESCRIPTION.columns(), &["window", "case"]);
            Report::emu(name, args.run.seed(), parameters, &audits, doubts, results)
        }
    })
}

/// Returns what is sent, whatever the window's length.
fn traffic(args: &RecordedArgs) -> Workload {
    Workload {
        control_hz: args.control_hz,
        live_hz: args.live_hz,
        recording: !args.no_recording,
        video_mbps: args.video_mbps,
        ..Workload::default()
    }
}

/// One window while it is run.
struct Stage<'a> {
    args: &'a RecordedArgs,
    window: &'a Window,
    bounds: &'a Bounds,
    recording: &'a Recording,
    /// Which of how many.
    place: String,
}

impl Stage<'_> {
    /// Runs every scheme in the world, with every seed, without video and with it.
    fn run_sim(&self, schemes: &[Scheme]) -> Result<Vec<Value>, Failure> {
        let (first, last) = self.args.run.seeds();
        let (mut results, mut of_first_seed) = (Vec::new(), Vec::new());
        for scheme in schemes {
            for case in self.window.cases() {
                tell(format_args!("recorded --sim: {}, {scheme} {}", self.title(), case.name()));
                let workload = self.window.workload(case);
                let mut by_seed = Vec::new();
                for seed in first..=last {
                    let scenario = &self.window.scenario;
                    let run = run_stream(scenario, *scheme, &workload, self.recording, seed)?;
                    let played = Played { scheme: *scheme, case, run };
                    by_seed.push((seed, self.window.figures(&played)));
                    if seed == first {
                        self.keep(&played)?;
                        of_first_seed.push(played);
                    }
                }
                results.push(pooled(&FIGURES, &by_seed));
            }
        }
        self.draw(&of_first_seed, &format!("In the deterministic world, seed {first}."))?;
        Ok(results)
    }

    /// Runs all schemes at once in real time, first without video, then with it.
    fn run_emu(&self, schemes: &[Scheme], audits: &mut Vec<Audit>) -> Result<Vec<Value>, Failure> {
        let seed = self.args.run.seed();
        let mut all = Vec::new();
        for case in self.window.cases() {
            let workload = self.window.workload(case);
            let mut shown = 0;
            let mut progress = |seconds: f64, _: &[_]| {
                if seconds as u32 / 10 > shown {
                    shown = seconds as u32 / 10;
                    let title = format!("{} {}", self.title(), case.name());
                    tell(format_args!(
                        "recorded --emu: {title}: {seconds:.0} of {} s",
                        workload.seconds
                    ));
                }
            };
            let scenario = &self.window.scenario;
            let (runs, audit) = run_streams(
                Links::of(scenario),
                schemes,
                (&workload, self.recording),
                seed,
                RESOLUTION,
                &mut progress,
            )?;
            audits.push(audit);
            for (scheme, run) in runs {
                let played = Played { scheme, case, run };
                self.keep(&played)?;
                all.push(played);
            }
        }
        all.sort_by_key(|played| schemes.iter().position(|scheme| *scheme == played.scheme));
        self.draw(&all, &format!("Real daemons and kernel, emulated links, seed {seed}."))?;
        Ok(all.iter().map(|played| self.window.figures(played)).collect())
    }

    /// Adds to a result which window it is of, and how many links are alive in it.
    fn complete(&self, result: Value) -> Value {
        let way = |direction: Direction| {
            merged([result[direction.name()].clone(), self.bounds.alive(direction)])
        };
        let both = json!({
            "window": self.window.name(),
            "up": way(Direction::Up),
            "down": way(Direction::Down),
        });
        merged([both.clone(), result, both])
    }

    fn title(&self) -> String {
        format!("{}, {}", self.place, self.window.name())
    }

    /// Keeps every message where `--out` asks for it.
    fn keep(&self, played: &Played) -> Result<(), Failure> {
        let Some(directory) = &self.args.run.out else { return Ok(()) };
        Ok(write_messages(directory, self.window.name(), played)?)
    }

    fn draw(&self, played: &[Played], made: &str) -> Result<(), Failure> {
        let Some(directory) = &self.args.run.out else { return Ok(()) };
        Ok(self.window.draw(directory, self.bounds, played, made)?)
    }
}

/// Pools the windows of each scheme and case, where there are several: counts add up, gaps take the
/// longest, the rest takes the mean.
fn sums(results: &[Value], windows: usize) -> Vec<Value> {
    if windows < 2 {
        return Vec::new();
    }
    let same = |a: &Value, b: &Value| a["scheme"] == b["scheme"] && a["case"] == b["case"];
    let figures = [&FIGURES[..], &ALIVE].concat();
    let first = results.iter().take(results.len() / windows);
    let sum = |first: &Value| {
        let of_scheme: Vec<&Value> = results.iter().filter(|result| same(result, first)).collect();
        merged([pooled_object(&figures, &of_scheme), json!({"window": "all"})])
    };
    first.map(sum).collect()
}

/// Reads a rate; 0 is none.
fn none_or_more(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1_000.0).contains(rate));
    rate.ok_or_else(|| format!("`{text}` is not a rate from 0 to 1,000"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// A link that is dead at first, and one that is dead later; both for two of four seconds.
    const SCENARIO: &str = "name = \"turns\"\nseconds = 4\n\
        [[link]]\nname = \"late\"\nbetween = [\"drone\", \"station\"]\n\
        delay_ms = 10\nrate_csv = \"late.csv\"\nqueue_bytes = 50_000\n\
        [[link]]\nname = \"early\"\nbetween = [\"drone\", \"station\"]\n\
        delay_ms = 20\nrate_csv = \"early.csv\"\nqueue_bytes = 50_000\n";

    fn report(folder: &std::path::Path, more: &[&str]) -> Report {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
        write("turns.toml", SCENARIO).expect("a writable folder");
        write("late.csv", "time_s,rate_mbps\n0,0\n2,8\n10,8\n").expect("a writable folder");
        write("early.csv", "time_s,rate_mbps\n0,8\n2,0\n10,0\n").expect("a writable folder");
        let scenario = folder.join("turns.toml").display().to_string();
        let words = ["fulmar-lab", "run", "recorded", "--sim", "--scenario", &scenario];
        let cli = Cli::try_parse_from(words.iter().chain(more)).expect("a sound command line");
        let Command::Run { experiment } = cli.command else { panic!("not a run") };
        experiment.run().expect("it runs")
    }

    fn result<'a>(report: &'a Report, scheme: &str, case: &str) -> &'a Value {
        let is = |result: &&Value| result["scheme"] == scheme && result["case"] == case;
        report.results.iter().find(is).expect("a result")
    }

    #[test]
    fn windows_are_run_alone_and_beside_the_video_and_every_message_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let out_text = out.display().to_string();
        let report = report(folder.path(), &["--schemes", "fulmar,udp", "--out", &out_text]);
        // Two cases of two schemes, and four bounds; one window has no sum.
        assert_eq!(report.results.len(), 8);
        let (alone, beside) = (result(&report, "udp", "alone"), result(&report, "udp", "beside"));
        assert!(alone["down"]["video_share_250ms"].is_null());
        let share = beside["down"]["video_share_250ms"].as_f64().expect("a share");
        assert!((0.4..0.6).contains(&share), "the first link lives half of the time: {share}");
        assert_eq!(alone["up"]["seconds_alive_1"], 4);
        let missed = |result: &Value| result["down"]["control_missed"].as_u64().expect("a count");
        assert!(missed(alone) >= 95, "plain UDP has one link: {}", missed(alone));
        let fulmar = missed(result(&report, "fulmar", "alone"));
        assert!(fulmar <= 10, "a link that is dead at first is no hindrance: {fulmar}");
        assert!(missed(result(&report, "bound", "any_time")) <= fulmar);
        let table = std::fs::read_to_string(out.join("turns-beside-fulmar.csv")).expect("kept");
        let video = table.lines().filter(|line| line.starts_with("video,down,")).count();
        assert!(video > 2_000 && table.lines().count() > video + 800, "{video}");
        let picture = std::fs::read_to_string(out.join("turns.svg")).expect("drawn");
        assert!(picture.contains("fulmar beside") && picture.contains("early"));
    }

    #[test]
    fn several_windows_have_a_sum_and_several_seeds_are_pooled() {
        let folder = tempfile::tempdir().expect("a folder");
        let again = folder.path().join("turns.toml").display().to_string();
        let more = ["--scenario", &again, "--video-mbps", "0", "--no-recording"];
        let report =
            report(folder.path(), &[&more[..], &["--seeds", "1-2", "--schemes", "udp"]].concat());
        // One scheme and four bounds, of two windows and of both.
        assert_eq!(report.results.len(), 3 * 5);
        let of = |window: &str| {
            let is = |result: &&Value| result["window"] == window && result["scheme"] == "udp";
            report.results.iter().find(is).expect("a result")
        };
        let sent = |window: &str| of(window)["up"]["control_sent"].as_u64();
        assert_eq!((sent("turns"), sent("all")), (Some(400), Some(800)));
        assert_eq!(of("turns")["up"]["seconds_alive_1"], 4, "seconds are not added up over seeds");
        assert_eq!(of("all")["up"]["seconds_alive_1"], 8);
    }
}
