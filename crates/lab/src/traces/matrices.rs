//! `trace convert --to` anything but a scenario, and `trace info` and `trace plot` of slot matrices
//! and the logs of `trace record`.
//!
//! ```text
//! logs, FROM:TO=FILE, a set ─► SlotMatrix ─► a file, or for each pair a delivery, rate or loss trace
//! ```
//! What a conversion loses is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use netem::{LinkModel, LinkRate, MATRIX_SLOTS_MAX, SlotMatrix, SlotRow};
use sys::print::{print, tell};
use units::{Duration, Rng};

use super::command::{ConvertArgs, read_file};
use super::heard::{self, Heard};
use super::reading::{Assumed, Reading};
use super::{folder, link_sets, shared, slotted};
use crate::chart::{FunctionChart, FunctionPanel, Heights};

/// What `trace convert` makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// A scenario and its files, into a folder.
    #[default]
    Scenario,
    /// A slot matrix, into a file.
    Slots,
    /// A delivery trace (mahimahi) for each pair, into a folder.
    Deliveries,
    /// A table of rates for each pair, into a folder.
    Rate,
    /// A table of losses for each pair, into a folder.
    Loss,
}

/// The arguments of `trace plot`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlotArgs {
    /// A slot matrix, or logs of `trace record`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the picture goes, an SVG file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Leave out what this node has sent and heard.
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
}

/// Converts to anything but a scenario.
pub(super) fn convert(args: &ConvertArgs) -> Result<(), String> {
    let matrix = matrix_of(args)?;
    if args.to != Form::Slots {
        return each_row(&matrix, args.to, &args.out);
    }
    write(&args.out, &matrix.to_text())?;
    say(&matrix)?;
    print(args.out.display())
}

/// Says what a file holds if it is a slot matrix or a log; false if it is neither.
pub(super) fn info(path: &Path) -> Result<bool, String> {
    let file = path.display().to_string();
    let mut log = Heard::default();
    match read(path, &mut log)? {
        Kind::Other => return Ok(false),
        Kind::Matrix(matrix) => {
            print(format_args!("{file}: a slot matrix"))?;
            say(&matrix)?;
        }
        Kind::Log => {
            print(format_args!("{file}: a log of trace record"))?;
            say_log(&log)?;
        }
    }
    Ok(true)
}

/// Draws how much of each transmitter each receiver hears in each second.
pub(super) fn plot(args: &PlotArgs) -> Result<(), String> {
    let out = &args.out;
    let is_svg = out.extension().is_some_and(|ending| ending == "svg");
    let name = out.file_name().filter(|_| is_svg).map(|name| name.to_string_lossy().into_owned());
    let name =
        name.ok_or_else(|| format!("--out {}: say a file that ends in .svg", out.display()))?;
    let matrix = matrix_of_files(&args.files, &args.without)?;
    let seconds = matrix.slots() as f64 * matrix.slot().as_secs_f64();
    let mut panels: Vec<FunctionPanel> = Vec::new();
    for name in matrix.names() {
        panels.extend(panel(&matrix, name, seconds));
    }
    let ms = matrix.slot().as_secs_f64() * 1e3;
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let chart = FunctionChart {
        title: files.join(", "),
        subtitle: format!("{} slots of {ms} ms, {} pairs", matrix.slots(), matrix.rows().len()),
        panels,
    };
    let directory = out.parent().filter(|path| !path.as_os_str().is_empty());
    chart.write(directory.unwrap_or(Path::new(".")), &name)?;
    print(out.display())
}

/// Draws how much of one transmitter is heard; `None` of a node that is none.
fn panel(matrix: &SlotMatrix, from: &str, seconds: f64) -> Option<FunctionPanel> {
    let rows: Vec<&SlotRow> = matrix.rows().iter().filter(|row| row.from == from).collect();
    let is_heard = |row: &&&SlotRow| row.trace.slots().contains(&true);
    let curve = |row: &&SlotRow| {
        let mut shares = slotted::shares(&row.trace, matrix.slot());
        // The last second holds until the end.
        shares.extend(shares.last().map(|(_, share)| (seconds, *share)));
        (row.to.clone(), shares)
    };
    let never: Vec<&str> =
        rows.iter().filter(|row| !is_heard(row)).map(|row| row.to.as_str()).collect();
    let mut title = format!("{from}: share of its slots that was heard, for each second");
    if !never.is_empty() {
        title += &format!("; never by {}", never.join(", "));
    }
    (!rows.is_empty()).then(|| FunctionPanel {
        title,
        variable: "time, s".to_owned(),
        from: 0.0,
        to: seconds.max(1e-3),
        heights: Heights::Linear(0.0, 1.0),
        curves: rows.iter().filter(is_heard).map(curve).collect(),
        printed: Vec::new(),
    })
}

/// What a file is.
enum Kind {
    Matrix(SlotMatrix),
    Log,
    Other,
}

/// Reads a slot matrix, or adds a log to `logs`; any other file is left alone.
fn read(path: &Path, logs: &mut Heard) -> Result<Kind, String> {
    let file = path.display().to_string();
    let mut lines = shared::lines(path)?;
    let begin = lines.begin()?;
    if heard::is_log(&begin) {
        logs.read(&mut lines, &file)?;
        return lines.end().map(|()| Kind::Log);
    }
    let telling = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    let head = begin.lines().find(telling).and_then(|line| line.split_whitespace().next());
    if head != Some("slot_ms") {
        return Ok(Kind::Other);
    }
    let matrix =
        SlotMatrix::parse(&shared::text(path)?, &file).map_err(|error| error.to_string())?;
    Ok(Kind::Matrix(matrix))
}

/// Makes a matrix of whatever the command line names.
fn matrix_of(args: &ConvertArgs) -> Result<SlotMatrix, String> {
    let slot = Duration::from_secs_f64(args.slot_ms / 1e3);
    if slot.is_zero() {
        return Err(format!("--slot-ms {}: is too short", args.slot_ms));
    }
    if args.links.iter().any(|link| link.contains('=')) {
        let ways = args.links.iter().map(|link| named(link, args));
        return rendered(&ways.collect::<Result<Vec<_>, _>>()?, slot, args.seed);
    }
    if let [name] = &args.links[..]
        && !Path::new(name).exists()
    {
        return rendered(&of_set(name)?, slot, args.seed);
    }
    let files: Vec<PathBuf> = args.links.iter().map(PathBuf::from).collect();
    matrix_of_files(&files, &args.without)
}

/// One direction of a link: its two names, how long it is, and what it is like.
struct Way {
    from: String,
    to: String,
    seconds: f64,
    model: LinkModel,
    /// Whether the recording tells the rate.
    has_rate: bool,
}

impl Way {
    /// Returns how many slots it is long.
    fn slots(&self, slot: Duration) -> f64 {
        let slots = self.seconds / slot.as_secs_f64();
        match self.model.rate {
            // It ends with its last opportunity, somewhere in a slot.
            LinkRate::Deliveries { .. } => (slots - 1e-9).ceil(),
            _ => (slots + 1e-9).floor(),
        }
    }
}

/// Reads FROM:TO=FILE.
fn named(text: &str, args: &ConvertArgs) -> Result<Way, String> {
    let parts = text.split_once('=').and_then(|(pair, file)| Some((pair.split_once(':')?, file)));
    let Some(((from, to), file)) = parts else {
        return Err(format!("{text}: say FROM:TO=FILE, the names of transmitter and receiver"));
    };
    let reading: Reading = read_file(Path::new(file), &args.read)?;
    let rate = units::Rate::from_mbps(args.link.rate_mbps);
    let assumed = Assumed { rate, delay: Duration::ZERO };
    // Slots have no delays, and so none is assumed.
    for note in reading.assumptions(assumed).iter().filter(|note| !note.starts_with("delay")) {
        tell(format_args!("{from} {to}: {note}"));
    }
    if reading.samples.iter().any(|sample| sample.delay_ms.is_some()) {
        tell(format_args!(
            "{from} {to}: slots have no delays: those of the recording are left out"
        ));
    }
    let model = reading.way("slots", assumed)?;
    let has_rate = reading.deliveries.is_some()
        || reading.samples.iter().any(|sample| sample.rate_mbps.is_some());
    let (from, to, seconds) = (from.to_owned(), to.to_owned(), reading.length_s);
    Ok(Way { from, to, seconds, model, has_rate })
}

/// Takes the links of a set beside the checkout, in both directions.
fn of_set(name: &str) -> Result<Vec<Way>, String> {
    let folder = folder();
    let none = || format!("{name}: no such file");
    let sets = if folder.is_dir() { link_sets(&folder)? } else { return Err(none()) };
    let known: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let unknown = || format!("{}, and no such set; there are {}", none(), known.join(", "));
    let set = sets.iter().find(|set| set.name == name).ok_or_else(unknown)?;
    let take = set.takes.first().ok_or_else(unknown)?;
    if set.takes.len() > 1 {
        tell(format_args!("{name}: the first of {} takes", set.takes.len()));
    }
    let mut ways = Vec::new();
    for link in &take.links {
        for note in &link.notes {
            tell(format_args!("{}: {note}", link.name));
        }
        if !link.gaps.is_empty() {
            let unknown: f64 = link.gaps.iter().map(|(from, to)| to - from).sum();
            let gaps = link.gaps.len();
            tell(format_args!(
                "{}: nothing is known in {gaps} gaps, {unknown:.3} s: zeros",
                link.name
            ));
        }
        let seconds = link.length.as_secs_f64();
        let ends = ["s", "d"].map(|end| format!("{}-{end}", link.name));
        let [station, drone] = &ends;
        for (from, to, model) in
            [(station, drone, &link.to_drone), (drone, station, &link.to_station)]
        {
            let (from, to, model) = (from.clone(), to.clone(), model.clone());
            ways.push(Way { from, to, seconds, model, has_rate: true });
        }
    }
    Ok(ways)
}

/// Renders links as slots, as long as the shortest of them.
fn rendered(ways: &[Way], slot: Duration, seed: u64) -> Result<SlotMatrix, String> {
    let seconds = ways.iter().map(|way| way.seconds).fold(f64::MAX, f64::min);
    let slots = ways.iter().map(|way| way.slots(slot)).fold(f64::MAX, f64::min);
    if !(1.0..=MATRIX_SLOTS_MAX as f64).contains(&slots) {
        return Err(format!(
            "{seconds} s are {slots} slots of {} ms, and a matrix has 1 to {MATRIX_SLOTS_MAX}",
            slot.as_secs_f64() * 1e3
        ));
    }
    if ways.iter().any(|way| way.seconds > seconds + 1.0) {
        tell(format_args!("as long as the shortest: {seconds:.3} s"));
    }
    let row = |way: &Way| {
        let (from, to) = (way.from.clone(), way.to.clone());
        let mut rng = Rng::stream(seed, &format!("{from} {to}"));
        let made = slotted::of_link(&way.model, slot, slots as usize, &mut rng);
        if way.has_rate && made.cut >= 0.001 {
            tell(format_args!(
                "{from} {to}: a slot takes one packet: {:.1} % of what the recording carries is cut",
                made.cut * 1e2
            ));
        }
        if made.drawn > 0 {
            let drawn = made.drawn;
            tell(format_args!(
                "{from} {to}: which {drawn} slots lose theirs is drawn (--seed {seed})"
            ));
        }
        SlotRow { from, to, trace: Arc::new(made.trace) }
    };
    SlotMatrix::new(slot, ways.iter().map(row).collect())
}

/// Reads one matrix, or makes one of logs.
fn matrix_of_files(files: &[PathBuf], without: &[String]) -> Result<SlotMatrix, String> {
    let mut logs = Heard::default();
    for file in files {
        let name = file.display();
        match read(file, &mut logs)? {
            Kind::Log => {}
            Kind::Matrix(matrix) if files.len() == 1 && without.is_empty() => return Ok(matrix),
            Kind::Matrix(_) => {
                return Err(format!(
                    "{name}: is a slot matrix already: say it alone, without --without"
                ));
            }
            Kind::Other => {
                return Err(format!(
                    "{name}: is neither a log of trace record nor a slot matrix; of another recording \
                     trace convert --to slots FROM:TO={name} makes one"
                ));
            }
        }
    }
    without.iter().try_for_each(|name| logs.leave_out(name))?;
    let (matrix, notes) = heard::matrix(&logs)?;
    notes.iter().for_each(tell);
    Ok(matrix)
}

/// Writes a file for each row, and tells what it does not hold.
fn each_row(matrix: &SlotMatrix, form: Form, out: &Path) -> Result<(), String> {
    fs::create_dir_all(out).map_err(|error| format!("make {}: {error}", out.display()))?;
    tell(match form {
        Form::Deliveries => {
            "an opportunity is in the middle of its slot, to a millisecond, and a trace ends with its last one"
        }
        Form::Rate => "what is kept is how much each second lets through, not in which slots",
        _ => "what is kept is how much each second loses, not in which slots",
    });
    for row in matrix.rows() {
        let (trace, slot) = (&row.trace, matrix.slot());
        let (ending, text) = match form {
            Form::Deliveries => ("deliveries", slotted::deliveries(trace, slot)),
            Form::Rate => ("rate.csv", Some(slotted::rates_csv(trace, slot))),
            _ => ("loss.csv", Some(slotted::losses_csv(trace, slot))),
        };
        let Some(text) = text else {
            tell(format_args!("{} has heard nothing of {}: no file", row.to, row.from));
            continue;
        };
        let path = out.join(format!("{}-{}.{ending}", row.from, row.to));
        write(&path, &text)?;
        print(path.display())?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))
}

/// Prints how much each pair hears.
fn say(matrix: &SlotMatrix) -> Result<(), String> {
    let slot = matrix.slot().as_secs_f64();
    print(format_args!(
        "  length     {:.3} s, {} slots of {} ms, {} pairs",
        matrix.slots() as f64 * slot,
        matrix.slots(),
        slot * 1e3,
        matrix.rows().len()
    ))?;
    for row in matrix.rows() {
        let longest = |value: bool| {
            let runs = row.trace.slots().split(|&received| received != value);
            runs.map(<[bool]>::len).max().unwrap_or(0) as f64 * slot
        };
        print(format_args!(
            "  {:<15} heard by {:<15} {:>6.2} % of the slots; longest run without {:.3} s, with {:.3} s",
            row.from,
            row.to,
            (1.0 - row.trace.loss()) * 1e2,
            longest(false),
            longest(true)
        ))?;
    }
    Ok(())
}

/// Prints how many frames a log holds.
fn say_log(log: &Heard) -> Result<(), String> {
    let mut pairs = log.pairs().peekable();
    if pairs.peek().is_none() {
        return print("  no frame was sent or received");
    }
    print(format_args!("  slots      {} ms", log.slot_ms()))?;
    for (pair, frames) in pairs {
        let seconds = frames.to_s - frames.from_s;
        let (n, placed) = (frames.slots.len(), frames.placed);
        let did = match pair.sent {
            true => format!("{} sent", pair.sender),
            false => format!("{} heard of {}", pair.node, pair.sender),
        };
        print(format_args!("  {did}: {n} frames in {seconds:.3} s, {placed} with a position"))?;
    }
    log.notes().iter().try_for_each(|note| print(format_args!("  note       {note}")))
}
