//! `fulmar-lab trace from-record`: a scenario of a flight record, so that the flight can be flown
//! again.
//!
//! ```text
//! files → view (a computer's paths and copies) ┐
//! files → view (the other's)   → aligned       ┘→ direction (outages, loss, delay, rate) → scenario.toml
//! ```
//! A record says what its computer sent, and what became of it: its own direction is measured, the
//! other is measured by the peer's record, or else assumed from what is known here. What is assumed
//! stands at the head of the scenario.

mod aligned;
mod direction;
mod losses;
mod report;
#[cfg(test)]
mod tests;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use netem::{
    CsvLoss, Delay, Instant, LinkModel, LinkRate, MAX_LINKS, Outage, OutageMode, QueueLimit,
    Scenario, Series,
};
use record::flight::{self, Flight};
use sys::print::{print, tell};
use units::{Duration, Rate};

use super::Window;
use super::write::write;
use crate::arguments::positive;
use direction::Way;
use report::Told;
use view::{Role, View};

const AFTER_HELP: &str = "\
A flight of yesterday, from the records of both computers, and other settings over the same links:
  fulmar-lab trace from-record drone/*.mcap station/*.mcap --out yesterday
  fulmar-lab run mixed-blackout --emu --scenario yesterday/scenario.toml --schemes fulmar,redundant

What a record says, and so the scenario:
  outages   a path that was gone, or silent: from the last thing that passed to the first that passed again
  loss      what became of each copy of each control message; of all packets where there were few copies
  delay     that of each copy, by the estimate of the peer's clock, without what its own traffic queued up
  rate      what the narrowest hop carried, where the flight filled it

With one computer's record the other direction is assumed: as long and as uneven, silent when nothing came
in by the path, otherwise with the loss that its daemon estimated. What a link could have carried and did
not is in no record: --rate-mbps. Every assumption stands at the head of scenario.toml.";

/// A flight longer than this is given in parts.
const LONGEST_S: f64 = 86_400.0;
/// What is kept behind the end, for what is delivered after the last packet.
const TAIL_S: f64 = 10.0;

/// The arguments of `trace from-record`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FromRecordArgs {
    /// Flight records (.mcap) of the drone, of the station or of both, in any order.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where scenario.toml and its files go.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Begin so many seconds after the flight's first control message; may be negative.
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parse_seconds)]
    from: Option<f64>,
    /// End so many seconds after the flight's first control message; default: with the record.
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parse_seconds)]
    to: Option<f64>,
    /// The peer whose links are meant, where a record has several; once for each record.
    #[arg(long, value_name = "NAME")]
    peer: Vec<String>,
    /// Rate of a link where nothing filled it; more where it carried more.
    #[arg(long, default_value_t = 12.0, value_name = "MBPS", value_parser = positive)]
    rate_mbps: f64,
    /// Queue of each direction of each link.
    #[arg(long, default_value_t = 250.0, value_name = "KB", value_parser = positive)]
    queue_kb: f64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Makes the scenario, and says what it is made of.
pub(super) fn run(args: &FromRecordArgs) -> Result<(), String> {
    let (told, path) = make(args)?;
    if args.json {
        return print(told.json(&path));
    }
    for note in &told.notes {
        tell(note);
    }
    print(told.table().trim_end())?;
    print(path.display())
}

/// Reads files that lie in memory as `run` does, and makes the scenario of them.
#[cfg(fuzzing)]
pub(crate) fn try_flights(flights: Vec<Flight>) -> Result<Scenario, String> {
    let args = FromRecordArgs {
        files: Vec::new(),
        out: PathBuf::new(),
        from: None,
        to: None,
        peer: Vec::new(),
        rate_mbps: 12.0,
        queue_kb: 250.0,
        json: false,
    };
    let views = flights.into_iter().map(|flight| View::of(flight, &[]));
    let views = views.collect::<Result<Vec<_>, _>>()?;
    scenario(&views, &args, "fuzz").map(|(scenario, _)| scenario)
}

/// Writes the scenario; returns what it was made of, and where it is.
fn make(args: &FromRecordArgs) -> Result<(Told, PathBuf), String> {
    let name = args.out.file_name().map_or("flight".into(), |name| name.to_string_lossy());
    let views = views(&args.files, &args.peer)?;
    let (scenario, told) = scenario(&views, args, &name)?;
    let window = Window {
        name: format!("{name}: a flight of {}, from its record", told.began()),
        scenario,
        alive: Vec::new(),
        starts_s: Vec::new(),
        notes: told.notes.clone(),
    };
    let path = write(&window, &args.out)?;
    Ok((told, path))
}

/// Reads the records of one or two computers.
fn views(files: &[PathBuf], peers: &[String]) -> Result<Vec<View>, String> {
    let mut of_role: [Vec<&Path>; 2] = [Vec::new(), Vec::new()];
    for file in files {
        let info = flight::info(file)?;
        let role = Role::of(&info).ok_or_else(|| {
            format!("{}: does not say whether it is a drone's or a station's", file.display())
        })?;
        of_role[role as usize].push(file);
    }
    let mut views = Vec::new();
    for files in of_role.iter().filter(|files| !files.is_empty()) {
        let flight = Flight::read(files)?;
        for (file, why) in &flight.cut {
            tell(format_args!("{file} was cut, and is read as far as it goes: {why}"));
        }
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let view = View::of(flight, peers);
        views.push(view.map_err(|error| format!("{}: {error}", names.join(", ")))?);
    }
    let known: Vec<&str> = views.iter().map(|view| &view.peer[..]).collect();
    match peers.iter().find(|peer| !known.contains(&&peer[..])) {
        Some(peer) => Err(format!("--peer {peer}: the records are of {}", known.join(", "))),
        None => Ok(views),
    }
}

/// Makes a scenario of what one computer saw, or both.
fn scenario(views: &[View], args: &FromRecordArgs, name: &str) -> Result<(Scenario, Told), String> {
    let mut notes = Vec::new();
    let links = aligned::links(views, &mut notes)?;
    if links.len() > MAX_LINKS {
        return Err(format!("{} links are too many: a scenario has {MAX_LINKS}", links.len()));
    }
    let (begin, end) = span(views, &links, args)?;
    let mut scenario = Scenario::new(name, ((end - begin) * 1e3).round() / 1e3);
    let mut told = Told::new(views, begin, end);
    let assumed = Rate::from_mbps(args.rate_mbps);
    for (number, link) in links.iter().enumerate() {
        let mut ways = direction::ways(&links, number, (begin, end), assumed);
        let [from_drone, from_station] = &mut ways;
        notes.append(&mut from_drone.notes);
        notes.append(&mut from_station.notes);
        let queue = QueueLimit { packets: None, bytes: Some((args.queue_kb * 1e3) as u64) };
        let model = |way: &Way| model(way, end - begin, queue);
        let (up, down) = (model(&ways[0])?, model(&ways[1])?);
        scenario = scenario.link(&link.name, "drone", "station", &up);
        if let Some(pair) = scenario.links.last_mut() {
            pair.down = down;
        }
        told.add(&link.name, &ways);
    }
    notes.dedup();
    told.notes = notes;
    Ok((scenario, told))
}

/// Returns from when to when the flight is flown again, on the clock of the first record.
fn span(
    views: &[View],
    links: &[aligned::Link],
    args: &FromRecordArgs,
) -> Result<(f64, f64), String> {
    let (first, last) = recorded(links);
    let zero = views.iter().filter_map(|view| view.first_control).fold(f64::MAX, f64::min);
    let zero = if zero < f64::MAX { zero.max(first) } else { first };
    let begin = args.from.map_or(zero, |from| zero + from).max(first);
    let end = args.to.map_or(last, |to| zero + to).min(last);
    if end - begin < 1.0 {
        return Err(format!(
            "less than a second is left to fly again: the record has seconds {:.1} to {:.1} of the flight; \
             --from and --to count from its first control message",
            first - zero,
            last - zero
        ));
    }
    if end - begin > LONGEST_S {
        return Err(format!(
            "{:.0} s are too many for one scenario: give --from and --to, at most a day apart",
            end - begin
        ));
    }
    Ok((begin, end))
}

/// Returns from when to when every record that is there says something of some link.
fn recorded(links: &[aligned::Link]) -> (f64, f64) {
    let of = |role: Role| {
        let seen = links.iter().filter_map(|link| link.seen[role as usize].as_ref());
        let ends = seen.filter_map(|path| Some((path.samples.first()?.0, path.samples.last()?.0)));
        ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    };
    let both = [of(Role::Drone), of(Role::Station)].into_iter().flatten();
    both.reduce(|one, other| (one.0.max(other.0), one.1.min(other.1))).unwrap_or_default()
}

/// Makes a direction of a link of what is known of it.
fn model(way: &Way, seconds: f64, queue: QueueLimit) -> Result<LinkModel, String> {
    let length = Some(duration(seconds + TAIL_S));
    let text = |error: netem::TraceError| error.to_string();
    let mut model = LinkModel { queue, ..LinkModel::default() };
    let delays = way.delays_ms.iter().map(|&(at, ms)| (duration(at), duration(ms / 1e3)));
    model.delay = match way.delays_ms[..] {
        [(_, ms)] => Delay::Fixed(duration(ms / 1e3)),
        _ => {
            let series = Series::from_steps(delays, length, "delays").map_err(text)?;
            Delay::Csv { path: String::new(), series: Arc::new(series) }
        }
    };
    let rate = |mbps: f64| Rate::from_bps((mbps * 1e6) as u64);
    let rates = way.rates_mbps.iter().map(|&(at, mbps)| (duration(at), rate(mbps)));
    model.rate = match way.rates_mbps[..] {
        [(_, mbps)] => LinkRate::Constant(rate(mbps)),
        _ => {
            let series = Series::from_steps(rates, length, "rates").map_err(text)?;
            LinkRate::Csv { path: String::new(), series: Arc::new(series) }
        }
    };
    if way.losses.iter().any(|(_, share)| *share > 0.0) {
        let losses = way.losses.iter().map(|&(at, share)| (duration(at), share));
        let series = Series::from_steps(losses, length, "losses").map_err(text)?;
        model.loss.csv = Some(CsvLoss { path: String::new(), series: Arc::new(series) });
    }
    let outages = |spans: &[(f64, f64)], mode: OutageMode| -> Vec<Outage> {
        let outage = |&(from, to): &(f64, f64)| {
            let start = Instant::ZERO + duration(from);
            Outage { start, duration: duration(to - from), mode }
        };
        spans.iter().map(outage).collect()
    };
    model.outages = outages(&way.outages, OutageMode::Drop);
    model.outages.extend(outages(&way.holds, OutageMode::Hold { queue: None }));
    Ok(model)
}

/// Returns seconds to the microsecond: what is written then reads back as the same.
fn duration(seconds: f64) -> Duration {
    Duration::from_micros((seconds.clamp(0.0, 1e8) * 1e6).round() as u64)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.abs() <= 1e7);
    value.ok_or_else(|| format!("`{text}` is not a number of seconds"))
}
