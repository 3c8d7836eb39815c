//! `fulmar-lab demo`: the scene of `mixed-blackout` to watch, with a table and a picture at the
//! end.
//!
//! Not an experiment of its own: links, traffic and figures are those of `blackout`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::blackout::{Blackout, relate_wire_bytes};
use super::figures::{
    CONTROL_GAP, CONTROL_LATE, CONTROL_LOST, CONTROL_P50, CONTROL_P99, DATA_GOODPUT, Span, Tally,
    VIDEO_GOODPUT_WIFI_DEAD, VIDEO_SHARE_WIFI_UP, WIRE_TO_REDUNDANT,
};
use crate::chart::CHART_NOTE;
use crate::doubt::{Doubtful, rankings_in_doubt};
use crate::figure::Figure;
use crate::report::{Report, tall_table, try_directory};
use crate::scheme::Scheme;
use crate::testbed;
use crate::testbed::Recording;
use emulator::Failure;
use sys::print::{print, tell};

/// What the demo takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seed of the links.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Where the picture and the report go.
    #[arg(long, default_value = "demo-out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// What plays: ours, the kernel's best, what people run to be safe, what people run.
const SCHEMES: [Scheme; 4] = [Scheme::FULMAR, Scheme::KERNEL_MPTCP, Scheme::REDUNDANT, Scheme::UDP];

/// The rows of the table.
const ROWS: [Figure; 14] = [
    Figure::new("scheme", ""),
    CONTROL_LOST.within("up", "control lost, up"),
    CONTROL_LOST.within("down", "control lost, down"),
    CONTROL_LATE.within("up", "later than 100 ms, up"),
    CONTROL_LATE.within("down", "later than 100 ms, down"),
    CONTROL_GAP.within("up", "longest gap, up, s"),
    CONTROL_GAP.within("down", "longest gap, down, s"),
    CONTROL_P50.titled("median delay, ms"),
    CONTROL_P99.titled("99th percentile, ms"),
    DATA_GOODPUT.titled("video goodput, Mbit/s"),
    VIDEO_SHARE_WIFI_UP.titled("  within 250 ms, Wi-Fi up"),
    VIDEO_GOODPUT_WIFI_DEAD.titled("  Mbit/s while it is dead"),
    Figure::new("wire_mb", "bytes on the wire, MB"),
    WIRE_TO_REDUNDANT.titled("  of redundant's"),
];

/// Plays the scene.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    testbed::prepare()?;
    try_directory(&args.out)?;
    let scene = Blackout::new()?;
    tell(format_args!(
        "Wi-Fi: 10 ms, 20 Mbit/s, 2 % loss. LTE: 35 ms, 4 Mbit/s, 1 % loss. A recorded flight both \
         ways,\n50 control messages a second each way, {} Mbit/s of video down. Each scheme has \
         links of its own.",
        scene.workload.video_mbps
    ));
    let schemes: Vec<Scheme> = SCHEMES.into_iter().filter(|scheme| available(*scheme)).collect();
    let mut screen = Screen::new(scene.dead, scene.stall, scene.workload.seconds);
    let mut show = |seconds, tallies: &[_]| screen.show(seconds, tallies);
    let (runs, audit) = scene.run_emu(&schemes, &Recording::load()?, args.seed, &mut show)?;
    let mut results: Vec<Value> =
        runs.iter().map(|(scheme, run)| with_megabytes(scene.figures(*scheme, run))).collect();
    relate_wire_bytes(&mut results);
    let subtitle =
        format!("Real daemons and kernel, emulated links, seed {}. {CHART_NOTE}", args.seed);
    let picture = scene.chart(&runs, subtitle).write(&args.out)?;
    let rows: Vec<(String, String)> = ROWS.iter().map(Figure::column).collect();
    print(format_args!("\n{}\n", tall_table(&results, &rows)))?;
    print(format_args!(
        "Of {} control messages each way. Percentiles are the worse of both directions; gaps leave \
         the LTE stall\nout. redundant stands for the tools that replicate everything. (+x): up to \
         so much of it may be this\nmachine's doing, not the links'; of a share, what it is without.\n",
        results.first().map_or(0, |fulmar| fulmar["control_sent"].as_u64().unwrap_or(0))
    ))?;
    let belief = Belief::of(&results);
    let doubts = rankings_in_doubt(&results, &rows, &[]);
    let audits = [audit];
    let report =
        Report::emu("mixed-blackout", args.seed, scene.parameters(), &audits, doubts, results);
    print(&report.audit_summary)?;
    print(format_args!(
        "picture: {}\nreport:  {}",
        picture.display(),
        report.write(&args.out)?.display()
    ))?;
    print(format_args!("\n{}", belief.sentence(&report.faults, audits[0].stalls.extent())))?;
    let holds = report.faults.is_empty() && belief.turns_over.is_empty();
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What the table says of the first scheme against each other one, given the errors.
#[derive(Debug, Default, PartialEq)]
struct Belief {
    first: String,
    /// Those that fare worse with control in some judged row and better in none, whatever stalls
    /// did.
    beaten: Vec<String>,
    /// Those that seem to, and may not.
    turns_over: Vec<String>,
    /// Those that do not even seem to.
    unbeaten: Vec<String>,
    /// Those that fare worse in some rows and better in others: which, and the rows in which they
    /// fare better.
    mixed: Vec<(String, Vec<String>)>,
    /// Rows in which one seems ahead of another and may be behind.
    doubtful: Vec<String>,
}

impl Belief {
    fn of(results: &[Value]) -> Self {
        let Some((first, others)) = results.split_first() else { return Self::default() };
        let name = |result: &Value| result["scheme"].as_str().unwrap_or_default().to_owned();
        let mut belief = Self { first: name(first), ..Self::default() };
        for other in others {
            let figures: Vec<(String, Doubtful, Doubtful)> = judged(first)
                .zip(judged(other))
                .map(|((t, ours), (_, theirs))| (t, ours, theirs))
                .collect();
            let ahead = |exact: bool| {
                let seen = |figure: Doubtful| if exact { figure.exact() } else { figure };
                let all = || figures.iter().map(|(_, ours, theirs)| (seen(*ours), seen(*theirs)));
                all().any(|(ours, theirs)| ours.is_below(theirs))
                    && !all().any(|(ours, theirs)| theirs.is_below(ours))
            };
            let better = figures.iter().any(|(_, ours, theirs)| ours.is_below(*theirs));
            let worse = figures.iter().filter(|(_, ours, theirs)| theirs.is_below(*ours));
            let worse: Vec<String> = worse.map(|(title, ..)| title.clone()).collect();
            match (ahead(true), ahead(false)) {
                (_, true) => belief.beaten.push(name(other)),
                (true, false) => belief.turns_over.push(name(other)),
                (false, false) if better => belief.mixed.push((name(other), worse)),
                (false, false) => belief.unbeaten.push(name(other)),
            }
            let rows = figures.iter().filter(|(_, ours, theirs)| ours.may_turn_over(*theirs));
            belief.doubtful.extend(rows.map(|(title, ..)| format!("{title} ({})", name(other))));
        }
        belief
    }

    /// Says in one sentence what may be believed.
    fn sentence(&self, faults: &[String], (stalls, longest_s): (usize, f64)) -> String {
        if !faults.is_empty() {
            return format!("INVALID: none of this may be believed, for {}.", faults.join("; "));
        }
        let Self { first, beaten, turns_over, unbeaten, mixed, doubtful } = self;
        let machine = match stalls {
            0 => "this machine never stood still".to_owned(),
            _ => format!(
                "this machine stood still {stalls} times, {:.0} ms at most",
                longest_s * 1e3
            ),
        };
        let mut clauses = Vec::new();
        let mut clause = |schemes: &[String], text: &str| {
            if !schemes.is_empty() {
                clauses.push(format!("{text} {}", schemes.join(", ")));
            }
        };
        clause(beaten, &format!("{first}'s control fares better than that of"));
        let worse_in = |(other, rows): &(String, Vec<String>)| {
            format!("{other} (worse in: {})", rows.join("; "))
        };
        let mixed: Vec<String> = mixed.iter().map(worse_in).collect();
        clause(&mixed, &format!("{first}'s control fares partly better than that of"));
        clause(unbeaten, &format!("{first}'s control does not fare better than that of"));
        clause(turns_over, "NOT to be believed is that it fares better than that of");
        clause(doubtful, "too close to tell:");
        format!("What may be believed ({machine}): {}.", clauses.join("; "))
    }
}

/// Returns the figures by which schemes are compared, less being better: for each direction the
/// longest gap, and what was lost or late, both together, because a scheme that loses everything is
/// late with nothing.
fn judged(result: &Value) -> impl Iterator<Item = (String, Doubtful)> {
    ["up", "down"].into_iter().flat_map(move |way| {
        let figure = |key: &str| Doubtful::of(result, &format!("{way}.{key}"));
        let missed = figure("control_lost").zip(figure("control_late_100ms"));
        let missed = missed.map(|(lost, late)| lost.and(late));
        let gap = figure("control_gap_s");
        let titled =
            |title: &str, figure: Option<Doubtful>| Some((format!("{title}, {way}"), figure?));
        [titled("lost or late", missed), titled("longest gap", gap)].into_iter().flatten()
    })
}

/// Tells whether this kernel has what a scheme needs, and says so where it does not.
fn available(scheme: Scheme) -> bool {
    let missing =
        scheme == Scheme::KERNEL_MPTCP && !Path::new("/proc/sys/net/mptcp/enabled").exists();
    if missing {
        tell(format_args!("{scheme} is left out: this kernel has no multipath TCP"));
    }
    !missing
}

/// Adds the bytes on the wire in a unit for people.
fn with_megabytes(mut figures: Value) -> Value {
    if let Some(bytes) = figures["wire_bytes"].as_f64() {
        figures["wire_mb"] = crate::report::rounded(bytes / 1e6, 1).into();
    }
    figures
}

/// Shows progress on stderr: in place on a terminal, else a block every ten seconds.
struct Screen {
    dead: Option<Span>,
    stall: Option<Span>,
    seconds: f64,
    in_place: bool,
    /// Lines to go up before the next block.
    drawn: usize,
    /// When the next block is due where blocks follow each other.
    next: f64,
}

impl Screen {
    fn new(dead: Option<Span>, stall: Option<Span>, seconds: f64) -> Self {
        let in_place = io::stderr().is_terminal();
        Self { dead, stall, seconds, in_place, drawn: 0, next: 0.0 }
    }

    fn show(&mut self, seconds: f64, tallies: &[(Scheme, [Tally; 2])]) {
        if !self.in_place && seconds < self.next {
            return;
        }
        self.next = seconds + 10.0;
        let block = self.block(seconds, tallies);
        let mut text = String::new();
        if self.in_place && self.drawn > 0 {
            // Up, and clear to the end of the screen.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.drawn);
        }
        self.drawn = block.lines().count();
        text += &block;
        // Progress that cannot be shown is no reason to stop.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn block(&self, seconds: f64, tallies: &[(Scheme, [Tally; 2])]) -> String {
        let mut text =
            format!("\n{seconds:5.1} of {:.0} s   {}\n", self.seconds, self.now(seconds));
        text += "                 control up              control down            video down\n";
        text += "               missing    late         missing    late         delivered\n";
        for (scheme, [up, down]) in tallies {
            let missing = |tally: &Tally| tally.sent.saturating_sub(tally.delivered);
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "{scheme:<13}{:>9}{:>8}       {:>9}{:>8}         {:>7.1} %",
                missing(up),
                up.late,
                missing(down),
                down.late,
                100.0 * down.video_delivered as f64 / down.video_sent.max(1) as f64,
            );
        }
        text
    }

    /// Says what the links are doing.
    fn now(&self, seconds: f64) -> &'static str {
        let within = |span: Option<Span>| span.is_some_and(|(a, b)| (a..b).contains(&seconds));
        match (within(self.dead), within(self.stall)) {
            (true, _) => "the Wi-Fi is silently dead",
            (_, true) => "the LTE stalls",
            _ => "both links are up",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A result with gaps in seconds and their error, each way, and nothing lost or late.
    fn result(scheme: &str, gap_s: f64, error_s: f64) -> Value {
        let figures = json!({"control_lost": 0, "control_late_100ms": 0, "control_gap_s": gap_s,
            "error": {"control_lost": 0, "control_late_100ms": 0, "control_gap_s": error_s}});
        json!({"scheme": scheme, "up": figures, "down": figures})
    }

    #[test]
    fn what_stalls_cannot_turn_over_may_be_believed() {
        let ours = || result("fulmar", 0.046, 0.011);
        let far = Belief::of(&[ours(), result("kernel_mptcp", 1.465, 0.036)]);
        assert_eq!(
            (&far.beaten[..], &far.doubtful[..]),
            (&["kernel_mptcp".to_owned()][..], &[][..])
        );
        let sentence = far.sentence(&[], (120, 0.036));
        let expected = "What may be believed (this machine stood still 120 times, 36 ms at most): \
                        fulmar's control fares better than that of kernel_mptcp.";
        assert_eq!(sentence, expected);

        let near = Belief::of(&[ours(), result("redundant", 0.060, 0.011)]);
        assert_eq!((near.beaten.len(), &near.turns_over[..]), (0, &["redundant".to_owned()][..]));
        let sentence = near.sentence(&[], (120, 0.036));
        assert!(sentence.contains("NOT to be believed is that it fares better"), "{sentence}");
        assert!(sentence.contains("longest gap, up (redundant)"), "{sentence}");

        let mut late = ours();
        late["up"]["control_late_100ms"] = json!(1);
        let mut lost = result("udp", 10.0, 0.0);
        lost["up"]["control_lost"] = json!(555);
        assert_eq!(
            Belief::of(&[late, lost]).beaten,
            ["udp"],
            "nothing of it came late, for it was lost"
        );

        let mut shorter = result("redundant", 0.030, 0.0);
        shorter["up"]["control_lost"] = json!(7);
        let sentence = Belief::of(&[ours(), shorter]).sentence(&[], (0, 0.0));
        let expected = "fulmar's control fares partly better than that of redundant \
                        (worse in: longest gap, up; longest gap, down)";
        assert!(sentence.contains(expected), "{sentence}");

        let worse = Belief::of(&[ours(), result("udp", 0.020, 0.0)]);
        assert_eq!(worse.unbeaten, ["udp"]);
        let lost = ["3 frames found the receive ring full".to_owned()];
        assert!(worse.sentence(&lost, (0, 0.0)).starts_with("INVALID: "));
    }

    #[test]
    fn progress_has_a_row_per_scheme_and_says_what_happens() {
        let screen = Screen::new(Some((20.0, 30.0)), Some((42.0, 44.0)), 60.0);
        let tally = Tally { sent: 1_000, delivered: 990, late: 3, ..Tally::default() };
        let block = screen.block(25.0, &[(Scheme::FULMAR, [tally; 2]), (Scheme::UDP, [tally; 2])]);
        assert!(
            block.contains("silently dead") && block.contains("fulmar              10       3")
        );
        assert_eq!(block.lines().count(), 6);
    }
}
