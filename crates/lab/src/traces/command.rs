//! `fulmar-lab trace`: looks at recordings, and makes scenarios of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use units::{Duration, Rate};

use super::flown::{self, FromRecordArgs};
use super::formats;
use super::formats::HowToRead;
use super::heard::{self, RecordArgs};
use super::matrices::{self, Form, PlotArgs};
use super::predict::{self, PredictArgs};
use super::reading;
use super::reading::{Assumed, GAPS_SAID, Reading};
use super::synth::{self, SynthArgs};
use super::write::{folder_name, write};
use super::{Choice, LinkSet, RecordedLink, Take, Window, WindowOptions};
use super::{combinations, folder, link_sets, shared};
use crate::arguments::positive;
use crate::statistics::percentile;
use emulator::Failure;
use sys::print::{print, tell};

const AFTER_HELP: &str = "\
What a file may be, which is found out by looking at it (files may end in .gz):
  CSV or white-space columns with a header   --time, --rate, --delay, --rtt, --loss name the columns
  iperf3 --json                              what arrived in each interval
  ping                                       round trips and losses; with -D also the times
  log of trace record, slot matrix           what several nodes heard of each other (info, plot, convert --to)
  mahimahi                                   a line per opportunity for 1,500 bytes, milliseconds

A column is NAME or NAME:UNIT; units are mbps kbps bps Bps kBps MBps, ms s us, percent share. Times
are seconds, milliseconds or ISO 8601 (2023-05-13T14:22:42.5+02:00).

From a download to a scenario in one command, and a run of it:
  fulmar-lab trace convert lte=drive.csv sat=iperf.json --rate dl:kbps --out drive
  fulmar-lab run recorded --sim --scenario drive/scenario.toml

The worst two minutes of two links, and three at random:
  fulmar-lab trace window lte=drive.csv sat=iperf.json --worst 1 --random 3 --out windows

Slots of a flight, of other recordings, and what others read, for each pair of transmitter and receiver:
  fulmar-lab trace convert --to slots m1.log m2.log r1.log r2.log --out flight.slots
  fulmar-lab trace convert --to slots m1:r1=drive.csv m1:r2=ping.txt --out drive.slots
  fulmar-lab trace convert --to deliveries flight.slots --out flight

The recordings beside the checkout (../shared/traces, or where FULMAR_SHARED says):
  fulmar-lab trace window --list
  fulmar-lab trace window lte-drives:att+verizon --worst 3 --random 3 --out windows

Gaps in time are gaps: a link carries nothing in them, no window contains one, and they are named.";

/// What `trace` can do.
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum TraceCommand {
    /// Say what files hold: length, rates, delays, losses, gaps.
    #[command(after_help = AFTER_HELP)]
    Info(InfoArgs),
    /// Make one scenario of whole files, a link of each; or slots of logs and recordings, and other
    /// forms of these (--to).
    #[command(after_help = AFTER_HELP)]
    Convert(ConvertArgs),
    /// Make scenarios of windows of recorded links, the worst or any.
    #[command(after_help = AFTER_HELP)]
    Window(WindowArgs),
    /// Make a scenario of a flight record: fly yesterday's flight again.
    FromRecord(FromRecordArgs),
    /// Make a slot matrix of a flight file: a flight past radios that nobody has to fly.
    Synth(SynthArgs),
    /// Tell what TCP would make of a slot matrix, pass by pass.
    Predict(PredictArgs),
    /// Broadcast in slots on a radio, and write down what is heard of others.
    Record(RecordArgs),
    /// Draw how much of each transmitter each receiver hears over time.
    Plot(PlotArgs),
}

/// Says how files are to be read.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReadArgs {
    /// Column of the times.
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Column of the rates.
    #[arg(long, value_name = "COLUMN[:UNIT]")]
    rate: Option<String>,
    /// Column of the one-way delays.
    #[arg(long, value_name = "COLUMN[:UNIT]", conflicts_with = "rtt")]
    delay: Option<String>,
    /// Column of the round-trip times; half of each counts, and an empty one is a loss.
    #[arg(long, value_name = "COLUMN[:UNIT]")]
    rtt: Option<String>,
    /// Column of the share that was lost.
    #[arg(long, value_name = "COLUMN[:UNIT]")]
    loss: Option<String>,
    /// Take only the rows with this value in this column.
    #[arg(long, value_name = "COLUMN=VALUE", value_parser = parse_only)]
    only: Option<(String, String)>,
    /// How long nothing must have been measured to be a gap; default: three times the usual.
    #[arg(long, value_name = "S", value_parser = positive)]
    gap_s: Option<f64>,
    /// From one ping to the next, where ping was not told to print times (-D) and not every second.
    #[arg(long, value_name = "S", value_parser = positive)]
    ping_s: Option<f64>,
}

/// Says what a link has that files do not tell about.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// One-way delay of a link whose file has none.
    #[arg(long, default_value_t = 30.0, value_name = "MS", value_parser = positive)]
    delay_ms: f64,
    /// Rate of a link whose file has none.
    #[arg(long, default_value_t = 12.0, value_name = "MBPS", value_parser = positive)]
    pub(super) rate_mbps: f64,
    /// Queue of each direction of each link.
    #[arg(long, default_value_t = 250.0, value_name = "KB", value_parser = positive)]
    queue_kb: f64,
    /// Rate from drone to station as a share of that from station to drone, 0 to 1; default: as
    /// recorded, or the same where one direction was.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    to_station: Option<f64>,
}

/// The arguments of `trace info`.
#[derive(Clone, Debug, Args)]
pub(crate) struct InfoArgs {
    /// Files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
}

/// The arguments of `trace convert`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A link's name and its file; behind a comma that of the direction from drone to station. With
    /// --to anything else: logs of trace record, a slot matrix, FROM:TO=FILE of other recordings,
    /// or a set beside the checkout.
    #[arg(required = true, value_name = "NAME=FILE[,FILE]")]
    pub(super) links: Vec<String>,
    /// What to make.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(super) to: Form,
    /// Where it goes: a folder, or with --to slots a file.
    #[arg(long, value_name = "PATH")]
    pub(super) out: PathBuf,
    /// How long a slot lasts, of recordings that have none: 1,472 bytes at 1 Mbit/s.
    #[arg(long, default_value_t = 11.776, value_name = "MS", value_parser = positive)]
    pub(super) slot_ms: f64,
    /// Leave out what this node has sent and heard, of logs of trace record.
    #[arg(long, value_name = "NAME")]
    pub(super) without: Vec<String>,
    /// What the losses of slots are drawn with, where a recording tells only how likely they are.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) read: ReadArgs,
    #[command(flatten)]
    pub(super) link: LinkArgs,
}

/// The arguments of `trace window`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WindowArgs {
    /// SET or SET:LINK+LINK of the recordings beside the checkout, or NAME=FILE or NAME=FILE,FILE
    /// of your own.
    #[arg(value_name = "LINKS")]
    links: Vec<String>,
    /// List the sets beside the checkout and their links.
    #[arg(long)]
    list: bool,
    /// How many of the worst windows: most seconds in which no link carries --alive-mbps.
    #[arg(long, default_value_t = 0, value_name = "N")]
    worst: usize,
    /// How many windows at random.
    #[arg(long, default_value_t = 0, value_name = "N")]
    random: usize,
    /// What the windows at random are drawn with.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How long a window is.
    #[arg(long, default_value_t = 120, value_name = "S",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// A link lives in a second in which both directions carry at least this.
    #[arg(long, default_value_t = 1.0, value_name = "MBPS", value_parser = positive)]
    alive_mbps: f64,
    /// Where a folder for each window goes; without it they are only listed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    link: LinkArgs,
}

/// Does what was asked for.
pub(crate) fn run(command: &TraceCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        TraceCommand::Info(args) => info(args),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Window(args) => window(args),
        TraceCommand::FromRecord(args) => flown::run(args),
        TraceCommand::Synth(args) => synth::run(args),
        TraceCommand::Predict(args) => predict::run(args),
        TraceCommand::Record(args) => return heard::run(args).map(|()| ExitCode::SUCCESS),
        TraceCommand::Plot(args) => matrices::plot(args),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(Failure::Usage)
}

/// Reads a file of measurements of one link, whatever its form.
///
/// # Errors
/// With file and line: what is wrong.
pub(super) fn read_file(file: &Path, read: &ReadArgs) -> Result<Reading, String> {
    let how = HowToRead {
        time: read.time.clone(),
        rate: read.rate.clone(),
        delay: read.delay.clone(),
        rtt: read.rtt.clone(),
        loss: read.loss.clone(),
        only: read.only.clone(),
        gap_s: read.gap_s,
        ping_s: read.ping_s,
    };
    formats::read(&shared::text(file)?, &file.display().to_string(), &how)
}

fn info(args: &InfoArgs) -> Result<(), String> {
    for file in &args.files {
        if matrices::info(file)? {
            continue;
        }
        let reading = read_file(file, &args.read)?;
        print(format_args!("{}: {}", file.display(), reading.format))?;
        print(format_args!(
            "  length     {:.3} s, {} samples",
            reading.length_s,
            reading.samples.len()
        ))?;
        if let Some(start) = reading.start_s {
            print(format_args!("  begins     {start:.3} s after 1970-01-01 00:00 UTC"))?;
        }
        if let Some(trace) = &reading.deliveries {
            print(format_args!(
                "  rate       mean {:.3} Mbit/s; longest time without {:.3} s",
                trace.mean_rate().as_mbps(),
                trace.longest_gap().as_secs_f64()
            ))?;
        }
        let values = |of: fn(&reading::Sample) -> Option<f64>| {
            let mut values: Vec<f64> = reading.samples.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        spread("rate Mbit/s", &values(|sample| sample.rate_mbps))?;
        spread("delay ms", &values(|sample| sample.delay_ms))?;
        let losses = values(|sample| sample.loss);
        if !losses.is_empty() {
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            print(format_args!("  loss       mean {:.3} %", mean * 1e2))?;
        }
        let unknown = reading.gaps.iter().fold(0.0, |sum, (from, to)| sum + to - from);
        print(format_args!("  gaps       {}, {unknown:.3} s in all", reading.gaps.len()))?;
        for (from, to) in reading.gaps.iter().take(GAPS_SAID) {
            print(format_args!("             from {from:.3} to {to:.3} s"))?;
        }
        for note in &reading.notes {
            print(format_args!("  note       {note}"))?;
        }
    }
    Ok(())
}

/// Prints how values are spread, where there are any; they come in order.
fn spread(what: &str, values: &[f64]) -> Result<(), String> {
    if values.is_empty() {
        return Ok(());
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let at = |p| percentile(values, p).unwrap_or(f64::NAN);
    print(format_args!(
        "  {what:<10} mean {mean:.3}, least {:.3}, p10 {:.3}, p50 {:.3}, p90 {:.3}, most {:.3}",
        at(0.0),
        at(0.1),
        at(0.5),
        at(0.9),
        at(1.0)
    ))
}

fn convert(args: &ConvertArgs) -> Result<(), String> {
    if args.to != Form::Scenario {
        return matrices::convert(args);
    }
    let set = own_set(&args.links, &args.read, &args.link)?;
    let take = set.takes.into_iter().next().ok_or("no links")?;
    for link in &take.links {
        for (from, to) in link.gaps.iter().take(GAPS_SAID) {
            tell(format_args!(
                "{}: nothing is known from {from:.3} to {to:.3} s: it carries nothing",
                link.name
            ));
        }
        if link.gaps.len() > GAPS_SAID {
            tell(format_args!("{}: and {} gaps more", link.name, link.gaps.len() - GAPS_SAID));
        }
    }
    let seconds = take.links.iter().map(|link| link.length.as_secs()).max().unwrap_or(1);
    let options = WindowOptions { seconds: seconds as usize, ..options(&args.link, 1.0) };
    let name = args.out.file_name().map_or("converted".into(), |name| name.to_string_lossy());
    let window = Window::whole(&name, &take, &options);
    for note in &window.notes {
        tell(note);
    }
    print(write(&window, &args.out)?.display())
}

fn window(args: &WindowArgs) -> Result<(), String> {
    if args.list {
        return list();
    }
    if args.links.is_empty() {
        return Err("say which links; --list shows the sets, --help teaches".to_owned());
    }
    if args.worst + args.random == 0 {
        return Err("say how many windows: --worst N, --random N or both".to_owned());
    }
    let mut options = options(&args.link, args.alive_mbps);
    options.seconds = args.seconds as usize;
    let random = Choice::Random { count: args.random, seed: args.seed };
    print(format_args!(
        "{:<44} {:>7}  {:>5} seconds in which 0, 1, 2 and more live",
        "window", "begins", "long"
    ))?;
    for combination in asked_for(args)? {
        for choice in [Choice::Worst(args.worst), random] {
            for window in combination.windows(choice, &options) {
                show(&window)?;
                if let Some(out) = &args.out {
                    let path = write(&window, &out.join(folder_name(&window.name)))?;
                    print(format_args!("    {}", path.display()))?;
                }
            }
        }
    }
    Ok(())
}

fn show(window: &Window) -> Result<(), String> {
    let count = |lives: fn(usize) -> bool| window.alive.iter().filter(|&&n| lives(n)).count();
    let starts: Vec<String> = window.starts_s.iter().map(ToString::to_string).collect();
    print(format_args!(
        "{:<44} {:>7}  {:>5} {:>4} {:>4} {:>4}",
        window.name,
        starts.join(","),
        window.alive.len(),
        count(|n| n == 0),
        count(|n| n == 1),
        count(|n| n >= 2)
    ))
}

fn list() -> Result<(), String> {
    let folder = folder();
    if !folder.is_dir() {
        return Err(format!("no recordings in {}; FULMAR_SHARED says where", folder.display()));
    }
    for set in link_sets(&folder)? {
        let kind = if set.simultaneous { "recorded together" } else { "comparable" };
        print(format_args!("{} ({kind}, {} takes)", set.name, set.takes.len()))?;
        for link in set.takes.first().map_or(&[][..], |take| &take.links) {
            print(format_args!("    {:<14} {:.0} s", link.name, link.length.as_secs_f64()))?;
            for note in &link.notes {
                print(format_args!("        {note}"))?;
            }
        }
    }
    Ok(())
}

/// Returns the combinations that the command line names.
fn asked_for(args: &WindowArgs) -> Result<Vec<super::Combination>, String> {
    if args.links.iter().any(|link| link.contains('=')) {
        let set = own_set(&args.links, &args.read, &args.link)?;
        let all = set.takes.first().map_or(0, |take| take.links.len());
        return Ok(combinations(&set, all..=all));
    }
    let sets = link_sets(&folder())?;
    let mut found = Vec::new();
    for asked in &args.links {
        let (name, links) =
            asked.split_once(':').map_or((asked.as_str(), None), |(name, links)| {
                (name, Some(links.split('+').collect::<Vec<_>>()))
            });
        let known: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        let unknown = || format!("{name}: no such set; there are {}", known.join(", "));
        let set = sets.iter().find(|set| set.name == name).ok_or_else(unknown)?;
        let all = combinations(set, 1..=4);
        let before = found.len();
        found.extend(all.into_iter().filter(|one| match &links {
            None => (2..=3).contains(&one.links().len()),
            Some(links) => {
                let own = one.links();
                links.len() == own.len() && links.iter().all(|link| own.contains(link))
            }
        }));
        if found.len() == before {
            return Err(format!("{asked}: no such links; --list shows them"));
        }
    }
    Ok(found)
}

/// Reads the files of the command line into one set.
fn own_set(links: &[String], read: &ReadArgs, link: &LinkArgs) -> Result<LinkSet, String> {
    let assumed = Assumed {
        rate: Rate::from_mbps(link.rate_mbps),
        delay: Duration::from_secs_f64(link.delay_ms / 1e3),
    };
    let mut all: BTreeMap<usize, (RecordedLink, Option<f64>)> = BTreeMap::new();
    for (number, text) in links.iter().enumerate() {
        let (name, files) = text.split_once('=').ok_or_else(|| {
            format!("{text}: say NAME=FILE, or NAME=FILE,FILE for both directions")
        })?;
        let is_name = (1..=14).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !is_name {
            return Err(format!("{name:?}: a link's name has 1 to 14 letters, digits, - or _"));
        }
        let (first, second) = files.split_once(',').map_or((files, None), |(a, b)| (a, Some(b)));
        let to_drone = read_file(Path::new(first), read)?;
        let to_station = second.map(|file| read_file(Path::new(file), read)).transpose()?;
        let link = reading::link(name, &to_drone, to_station.as_ref(), assumed)?;
        all.insert(number, (link, to_drone.start_s));
    }
    let starts: Option<Vec<f64>> = all.values().map(|(_, start)| *start).collect();
    let mut links: Vec<RecordedLink> = all.into_values().map(|(link, _)| link).collect();
    // Files that say when they begin are laid beside each other by that.
    let simultaneous =
        links.len() > 1 && starts.as_ref().is_some_and(|starts| aligned(&mut links, starts));
    let takes = vec![Take { name: String::new(), links }];
    Ok(LinkSet { name: "own".to_owned(), simultaneous, with: None, takes })
}

/// Cuts links so that all begin at the same time; false where they do not overlap.
fn aligned(links: &mut [RecordedLink], starts: &[f64]) -> bool {
    let begin = starts.iter().copied().fold(f64::MIN, f64::max);
    let ends = links.iter().zip(starts).map(|(link, start)| start + link.length.as_secs_f64());
    let end = ends.fold(f64::MAX, f64::min);
    if end - begin < 1.0 {
        return false;
    }
    for (link, start) in links.iter_mut().zip(starts) {
        link.cut(begin - start, end - begin);
    }
    true
}

fn options(link: &LinkArgs, alive_mbps: f64) -> WindowOptions {
    WindowOptions {
        alive: Rate::from_mbps(alive_mbps),
        to_station: link.to_station,
        queue_bytes: (link.queue_kb * 1e3) as u64,
        ..WindowOptions::default()
    }
}

fn parse_only(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("say COLUMN=VALUE")?;
    Ok((column.to_owned(), value.to_owned()))
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share from 0 to 1"))
}
