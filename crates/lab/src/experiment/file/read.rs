//! Reads the file of an experiment, and tells every mistake in it with its line and key.
//!
//! Links stand in a scenario file, or beside the streams as a scenario has them. Then the file is
//! two in one: each is read from the whole text, in which the lines of the other are blank, so that
//! lines keep their numbers.

use std::path::Path;

use clap::ValueEnum;
use emulator::read_scenario;
use netem::Scenario;

use super::section;
use super::section::Section;
use super::sweep::Sweep;
use super::{DESCRIPTION, mixed_blackout};
use crate::arguments::parse_seeds;
use crate::experiment::streams::figures::{
    CONTROL_DUPLICATES, CONTROL_GAP_WHOLE_RUN, CONTROL_MAX, FLIGHT_LOST, FLIGHT_P99, LIVE_AGE_MAX,
    LIVE_AGE_P50, LIVE_AGE_P99, VIDEO_FRAMES, VIDEO_SHARE,
};
use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::Workload;
use crate::figure::Figure;
use crate::report::Mode;
use crate::scenario_file::check_hosts;
use crate::scheme::Scheme;
use crate::testbed::STAMP_BYTES;

/// Sections of a scenario, in a file that has its links itself.
const OF_SCENARIO: [&str; 5] = ["host", "link", "broadcast", "medium", "group"];
/// The longest run.
const SECONDS_MAX: f64 = 3_600.0;
/// The most messages of a kind per second.
const RATE_MAX_HZ: f64 = 1_000.0;
/// The most bytes of a control message: it fits into one datagram on every path.
const BYTES_MAX: f64 = 1_200.0;
/// The highest rate of video.
const VIDEO_MAX_MBPS: f64 = 1_000.0;
/// The most seeds of a run.
const SEEDS_MAX: u64 = 10_000;
/// The most values of a sweep, and points of a run.
const POINTS_MAX: usize = 1_000;

/// The kinds of streams that run side by side.
const KINDS: [(&str, Kind); 4] = [
    ("control", Kind::Control),
    ("live", Kind::Live),
    ("flight", Kind::Flight),
    ("video", Kind::Video),
];
/// The kinds that an experiment of their own measures, and its name.
const ELSEWHERE: [(&str, &str); 3] = [
    ("messages", "run lrt-tcp or message-share"),
    ("tcp", "run throughput; there is no kernel in the world: its TCP needs --emu"),
    ("ping", "use `fulmar-lab emulate`"),
];
/// How video is spread in time.
const SHAPES: [(&str, VideoShape); 2] =
    [("camera", VideoShape::Camera), ("even", VideoShape::Even)];
/// Figures that a result has beside those of the table.
const FIGURES: [Figure; 10] = [
    CONTROL_DUPLICATES.titled("duplicates"),
    CONTROL_GAP_WHOLE_RUN,
    CONTROL_MAX,
    LIVE_AGE_P50,
    LIVE_AGE_P99,
    LIVE_AGE_MAX,
    VIDEO_SHARE,
    VIDEO_FRAMES,
    FLIGHT_LOST.within("mavlink", "flight lost"),
    FLIGHT_P99.within("mavlink", "flight p99 ms"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Control,
    Live,
    Flight,
    Video,
}

/// What a file asks for.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What reports call it.
    pub(super) name: String,
    /// The links.
    pub(super) scenario: Scenario,
    /// The streams.
    pub(super) workload: Workload,
    /// Empty: those that `mixed-blackout` runs.
    pub(super) schemes: Vec<Scheme>,
    /// First and last, where the file has any.
    pub(super) seeds: Option<(u64, u64)>,
    /// Keys and titles of the table.
    pub(super) columns: Vec<(String, String)>,
    /// What varies.
    pub(super) sweeps: Vec<Sweep>,
}

impl Plan {
    /// Reads a file for a run in one of the two lives.
    ///
    /// # Errors
    /// Names every mistake in the file with its line and key, or in its scenario.
    pub(super) fn read(path: &Path, mode: Mode) -> Result<Self, String> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("read {name}: {error}"))?;
        Self::parse(&text, path, mode)
    }

    pub(super) fn parse(text: &str, path: &Path, mode: Mode) -> Result<Self, String> {
        let file = path.display().to_string();
        let [own, links] = halves(text);
        let inline = links.lines().any(|line| !line.is_empty());
        let read = |root: &Section<'_>| {
            let scenario = if inline {
                root.has("scenario").then(|| root.wrong("scenario", "not together with [[link]]"));
                Scenario::from_toml(&links, &file).map_err(|error| error.to_string())
            } else {
                beside(root, path)
            };
            plan(root, scenario, mode, path)
        };
        section::read(&own, &file, read)?
    }
}

/// Reads every key; the scenario's mistakes are told where the file itself has none.
fn plan(
    root: &Section<'_>,
    scenario: Result<Scenario, String>,
    mode: Mode,
    path: &Path,
) -> Result<Plan, String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("file");
    let name = root.text("name").unwrap_or(stem).to_owned();
    let seconds = root.fraction("seconds", 0.1..=SECONDS_MAX);
    let mut workload = streams(root);
    let schemes = schemes(root, mode);
    let seeds = root.text("seeds").and_then(|text| seeds(root, text));
    let sweeps = sweeps(root, scenario.as_ref().ok());
    let mut columns = columns(root);
    let swept = sweeps.iter().map(|sweep| (sweep.key.clone(), sweep.key.clone()));
    columns.splice(1..1, swept.collect::<Vec<_>>());
    scenario.and_then(|mut scenario| {
        scenario.seconds = seconds.unwrap_or(scenario.seconds);
        workload.seconds = scenario.seconds;
        check_hosts(&scenario).map_err(|what| format!("{}: {what}", path.display()))?;
        Ok(Plan { name, scenario, workload, schemes, seeds, columns, sweeps })
    })
}

/// Reads the scenario that a file names, relative to it.
fn beside(root: &Section<'_>, path: &Path) -> Result<Scenario, String> {
    let Some(scenario) = root.required_text("scenario") else { return Err(String::new()) };
    let directory = path.parent().unwrap_or(Path::new(""));
    let read = read_scenario(&directory.join(scenario));
    if let Err(error) = &read {
        root.wrong("scenario", error.clone());
    }
    read
}

fn streams(root: &Section<'_>) -> Workload {
    let mut workload = Workload::silent();
    let mut kinds = Vec::new();
    root.require("stream");
    for section in root.sections("stream") {
        let kind = kind(&section);
        match kind {
            Some(Kind::Control) => {
                let rate = section.fraction("rate_hz", 0.1..=RATE_MAX_HZ);
                let bytes = section.fraction("bytes", STAMP_BYTES as f64..=BYTES_MAX);
                workload.control_hz = rate.unwrap_or(Workload::default().control_hz);
                workload.control_bytes = bytes.map_or(workload.control_bytes, |n| n as usize);
            }
            Some(Kind::Live) => {
                let rate = section.fraction("rate_hz", 0.1..=RATE_MAX_HZ);
                workload.live_hz = rate.unwrap_or(Workload::default().control_hz);
            }
            Some(Kind::Flight) => workload.recording = true,
            Some(Kind::Video) => {
                let mbps = section.fraction("mbps", 0.01..=VIDEO_MAX_MBPS);
                workload.video_mbps = mbps.unwrap_or(Workload::default().video_mbps);
                workload.video_shape =
                    section.choice("shape", &SHAPES).unwrap_or(VideoShape::Camera);
            }
            // What its keys mean is not known.
            None => continue,
        }
        if kinds.contains(&kind) {
            section.wrong("kind", "there is another stream of this kind");
        }
        kinds.push(kind);
        section.finish();
    }
    workload
}

fn kind(section: &Section<'_>) -> Option<Kind> {
    let elsewhere = ELSEWHERE.iter().find(|(kind, _)| section.is_text("kind", kind));
    if let Some((kind, what)) = elsewhere {
        section.wrong("kind", format!("{kind:?} does not run beside other streams: {what}"));
        return None;
    }
    section.require("kind").then(|| section.choice("kind", &KINDS)).flatten()
}

/// Reads the schemes, all of which this life must have.
fn schemes(root: &Section<'_>, mode: Mode) -> Vec<Scheme> {
    let (here, there) = (DESCRIPTION.sim, DESCRIPTION.emu);
    let (known, other, option) = match mode {
        Mode::Sim => (here, there, "--emu"),
        Mode::Emu => (there, here, "--sim"),
    };
    let mut schemes = Vec::new();
    for name in root.texts("schemes") {
        match Scheme::from_str(name, false).ok() {
            Some(scheme) if known.iter().any(|known| known == scheme) => schemes.push(scheme),
            Some(scheme) if other.iter().any(|known| known == scheme) => {
                root.wrong("schemes", format!("{name:?} cannot be had here: it needs {option}"));
            }
            _ => {
                let names: Vec<&str> = known.iter().map(Scheme::name).collect();
                root.wrong("schemes", format!("{name:?} is none of {}", names.join(", ")));
            }
        }
    }
    schemes
}

fn seeds(root: &Section<'_>, text: &str) -> Option<(u64, u64)> {
    match parse_seeds(text) {
        Ok((first, last)) if last - first < SEEDS_MAX => return Some((first, last)),
        Ok(_) => root.wrong("seeds", format!("more than {SEEDS_MAX} seeds")),
        Err(what) => root.wrong("seeds", what),
    }
    None
}

/// Reads the table's columns: the scheme, and the figures asked for or those of `mixed-blackout`.
fn columns(root: &Section<'_>) -> Vec<(String, String)> {
    let known: Vec<(String, String)> = mixed_blackout::DESCRIPTION
        .columns()
        .into_iter()
        .chain(FIGURES.iter().map(Figure::column))
        .collect();
    let mut columns = Vec::new();
    for key in root.texts("figures") {
        let bare = key.strip_prefix("up.").or_else(|| key.strip_prefix("down.")).unwrap_or(key);
        let both = bare == key;
        let is_known = |known: &str| {
            known == bare && (if both { !of_flight(known) } else { has_directions(known) })
        };
        match known.iter().find(|(known, _)| is_known(known)) {
            Some((_, title)) if both => columns.push((key.to_owned(), title.clone())),
            Some(_) => columns.push((key.to_owned(), key.to_owned())),
            None => root.wrong("figures", format!("{key:?} is none of {}", choices(&known))),
        }
    }
    if columns.is_empty() {
        return mixed_blackout::DESCRIPTION.columns();
    }
    columns.insert(0, known[0].clone());
    columns
}

/// Tells whether a figure is one of the flight, which each direction has by itself.
fn of_flight(key: &str) -> bool {
    key.starts_with("mavlink.")
}

/// Tells whether a figure can be had of one direction.
fn has_directions(key: &str) -> bool {
    of_flight(key) || key.starts_with("control_")
}

/// Lists what may be asked for.
fn choices(known: &[(String, String)]) -> String {
    let keys = known.iter().skip(1).map(|(key, _)| &key[..]);
    let (flight, others): (Vec<_>, Vec<_>) = keys.partition(|key| of_flight(key));
    let flight: Vec<String> = flight.iter().map(|key| format!("up.{key}, down.{key}")).collect();
    format!(
        "{}; those of control also with up. or down. before them; {}",
        others.join(", "),
        flight.join(", ")
    )
}

fn sweeps(root: &Section<'_>, scenario: Option<&Scenario>) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for section in root.sections("sweep") {
        let key = section.required_text("key").map(str::to_owned);
        section.require("values");
        let values = section.fractions("values", POINTS_MAX);
        if let Some(sweep) = key.map(|key| Sweep { key, values }) {
            if sweeps.iter().any(|other| other.key == sweep.key) {
                section.wrong("key", "another sweep varies this key");
            }
            if let Some(mistake) = scenario.and_then(|scenario| sweep.mistake(scenario)) {
                section.wrong("key", mistake);
            }
            sweeps.push(sweep);
        }
        section.finish();
    }
    let count =
        sweeps.iter().map(|sweep| sweep.values.len().max(1)).try_fold(1, usize::checked_mul);
    if count.is_none_or(|count| count > POINTS_MAX) {
        root.wrong("sweep", format!("more than {POINTS_MAX} points in all"));
        return Vec::new();
    }
    sweeps
}

/// Splits the text into what is the experiment's and what is the scenario's, by its headings.
fn halves(text: &str) -> [String; 2] {
    let (mut halves, mut of) = ([String::new(), String::new()], 0);
    for line in text.lines() {
        if let Some(word) = heading(line) {
            of = usize::from(OF_SCENARIO.contains(&word));
        }
        halves[of].push_str(line);
        halves.iter_mut().for_each(|half| half.push('\n'));
    }
    halves
}

/// Returns the first word of a section's heading; none for other lines, such as `[0, 5],` of a list of lists.
fn heading(line: &str) -> Option<&str> {
    let word = line.trim_start().strip_prefix('[')?.trim_start_matches('[').trim_start();
    let word = word.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    word.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(word)
}
