//! Reads the folders of `shared/traces` into sets of links.
//!
//! What each folder holds, and under which licence, is in its SOURCE.md. What a recording does not
//! say, a link needs all the same: each reader adds it and says so in the link's notes.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use netem::{CsvLoss, Delay, DeliveryTrace, LinkModel, LinkRate, Series, Table};
use units::{Duration, Rate};

use super::{LinkSet, RecordedLink, Take};

/// The most bytes that are read of one file, decompressed: ten times the largest at hand.
const FILE_MAX: u64 = 64 << 20;
/// One-way delay of an LTE link whose recording has none.
const LTE_DELAY: Duration = Duration::from_millis(30);
/// One-way delay of an EV-DO link whose recording has none.
const EVDO_DELAY: Duration = Duration::from_millis(60);
/// One-way delay of a Wi-Fi link whose recording has none.
const WIFI_DELAY: Duration = Duration::from_millis(5);
/// Rate of a link whose recording has none: enough for control and video beside it.
const RATE: Rate = Rate::from_bps(12_000_000);
/// Less than one packet in 10 s is nothing.
const RATE_MIN_BPS: u64 = 1_200;
/// Simultaneous sessions that overlap for less than this are left out.
const OVERLAP_MIN_MS: i64 = 20_000;

/// Returns the folder of the recordings.
pub(crate) fn folder() -> PathBuf {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("FULMAR_SHARED").map_or(beside.into(), PathBuf::from);
    shared.join("traces")
}

/// Reads every set of the folder.
///
/// # Errors
/// Says which file does not read, and why.
pub(crate) fn link_sets(folder: &Path) -> Result<Vec<LinkSet>, String> {
    let drives = mahimahi(&folder.join("mahimahi-lte"))?;
    let starlink = leocc(&folder.join("leocc-starlink"))?;
    let lte = drives.iter().filter(|link| link.name != "evdo").cloned();
    let mixed: Vec<RecordedLink> = std::iter::once(starlink).chain(lte).collect();
    let nr = cicv5g(&folder.join("cicv5g-rtt"))?;
    let one = |name: &str, with: Option<&str>, links| LinkSet {
        name: name.to_owned(),
        simultaneous: false,
        with: with.map(str::to_owned),
        takes: vec![Take { name: String::new(), links }],
    };
    Ok(vec![
        one("lte-drives", None, drives),
        one("starlink-lte", Some("starlink"), mixed),
        LinkSet {
            name: "operators".to_owned(),
            simultaneous: true,
            with: None,
            takes: nuwins(folder)?,
        },
        LinkSet {
            name: "wifi".to_owned(),
            simultaneous: true,
            with: None,
            takes: vec![feup(&folder.join("feup-wifi-4links"))?],
        },
        one("5g-rtt", None, nr),
    ])
}

/// Returns the text of a file, decompressed where its name ends in `.gz`.
pub(super) fn text(path: &Path) -> Result<String, String> {
    let describe = |what: &dyn core::fmt::Display| format!("read {}: {what}", path.display());
    let (mut lines, mut bytes) = (lines(path)?, Vec::new());
    let read = lines.by_ref().take(FILE_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| describe(&error))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(describe(&format!("is longer than {FILE_MAX} bytes")));
    }
    lines.end()?;
    String::from_utf8(bytes).map_err(|error| describe(&error))
}

/// A file that is read line by line, decompressed where its name ends in `.gz`.
pub(super) struct Lines {
    name: String,
    text: BufReader<Box<dyn Read>>,
    gzip: Option<Child>,
}

/// Opens a file to be read line by line, however long it is.
pub(super) fn lines(path: &Path) -> Result<Lines, String> {
    let name = path.display().to_string();
    let describe = |what: &dyn core::fmt::Display| format!("read {name}: {what}");
    let file = std::fs::File::open(path).map_err(|error| describe(&error))?;
    if path.extension().is_none_or(|end| end != "gz") {
        return Ok(Lines { name, text: BufReader::new(Box::new(file)), gzip: None });
    }
    let mut gzip = Command::new("gzip");
    gzip.arg("-dc").stdin(file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = gzip.spawn().map_err(|error| describe(&format!("start gzip: {error}")))?;
    let out = child.stdout.take().ok_or_else(|| describe(&"gzip has no output"))?;
    Ok(Lines { name, text: BufReader::new(Box::new(out)), gzip: Some(child) })
}

impl Lines {
    /// Returns how the text begins: what one read gives.
    pub(super) fn begin(&mut self) -> Result<String, String> {
        let bytes = self.text.fill_buf().map_err(|error| format!("read {}: {error}", self.name))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Says whether all of it could be decompressed, after it was read.
    pub(super) fn end(mut self) -> Result<(), String> {
        // gzip waits until somebody takes what it writes.
        let drained = io::copy(&mut self.text, &mut io::sink());
        drained.map_err(|error| format!("read {}: {error}", self.name))?;
        let Some(child) = &mut self.gzip else { return Ok(()) };
        let ended = child.wait().map_err(|error| format!("read {}: {error}", self.name))?;
        let failed = || format!("read {}: gzip cannot decompress it", self.name);
        ended.success().then_some(()).ok_or_else(failed)
    }
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.text.read(into)
    }
}

impl BufRead for Lines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.text.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.text.consume(amount);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(child) = &mut self.gzip {
            // One that has been read to its end has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads every session of pings of the three operators.
pub(super) fn pings(folder: &Path) -> Result<Vec<Session>, String> {
    let path = folder.join("nuwins-3operators-ping").join("all_sessions_derived.csv.gz");
    sessions(&text(&path)?, &path.display().to_string())
}

/// Makes a link of pings, one after the other; `before` is the round-trip time before the first, in
/// ms.
pub(super) fn pinged(
    name: &str,
    pings: &[Option<f64>],
    mut before: f64,
) -> Result<RecordedLink, String> {
    let (mut delays, mut losses) = (Vec::new(), Vec::new());
    for (place, rtt) in pings.iter().enumerate() {
        let at = Duration::from_millis(place as u64 * PING_MS as u64);
        before = rtt.unwrap_or(before);
        delays.push((at, Duration::from_secs_f64(before / 2e3)));
        losses.push((at, if rtt.is_some() { 0.0 } else { 1.0 }));
    }
    let length = Duration::from_millis(pings.len() as u64 * PING_MS as u64);
    let mut way = delayed(name, &delays, length)?;
    let series = Series::from_steps(losses, Some(length), name);
    let series = Arc::new(series.map_err(|error| error.to_string())?);
    way.loss.csv = Some(CsvLoss { path: format!("{name}-loss.csv"), series });
    Ok(RecordedLink {
        name: name.to_owned(),
        to_drone: way.clone(),
        to_station: way,
        length,
        gaps: Vec::new(),
        notes: vec![
            format!("rate {} Mbit/s each way: the recording has none", RATE.as_mbps()),
            "half of the round-trip time each way; a ping that was lost is 0.2 s without \
             anything in both directions, with the delay of the ping before it"
                .to_owned(),
        ],
    })
}

/// Reads pairs of delivery traces; the phone that recorded them is the drone.
fn mahimahi(folder: &Path) -> Result<Vec<RecordedLink>, String> {
    let links = [
        ("att", "ATT-LTE-driving-2016", LTE_DELAY),
        ("verizon", "Verizon-LTE-short", LTE_DELAY),
        ("tmobile", "TMobile-LTE-short", LTE_DELAY),
        ("evdo", "Verizon-EVDO-driving", EVDO_DELAY),
    ];
    let read = |(name, file, delay): (&str, &str, Duration)| {
        let way = |end: &str| {
            let path = folder.join(format!("{file}.{end}"));
            let trace = DeliveryTrace::parse(&text(&path)?, &path.display().to_string());
            let trace = trace.map_err(|error| error.to_string())?;
            let model = LinkModel { delay: Delay::Fixed(delay), ..LinkModel::default() };
            Ok::<_, String>((trace.period(), with_deliveries(model, name, trace)))
        };
        let ((sent, to_station), (received, to_drone)) = (way("up")?, way("down")?);
        let notes = vec![
            format!("delay {} ms each way: the recording has none", delay.as_millis()),
            "no loss but that of a full queue: the recording has none".to_owned(),
        ];
        let (name, gaps) = (name.to_owned(), Vec::new());
        let length = sent.min(received);
        Ok(RecordedLink { name, to_drone, to_station, length, gaps, notes })
    };
    links.into_iter().map(read).collect()
}

/// Reads a delivery trace and a delay file of one direction.
fn leocc(folder: &Path) -> Result<RecordedLink, String> {
    let (rates, delays) = (folder.join("bw_example.txt.gz"), folder.join("delay_example.txt"));
    let trace = DeliveryTrace::parse(&text(&rates)?, &rates.display().to_string());
    let trace = trace.map_err(|error| error.to_string())?;
    let interval = Duration::from_millis(10);
    let series = Series::delays(&text(&delays)?, &delays.display().to_string(), interval);
    let series = Arc::new(series.map_err(|error| error.to_string())?);
    let length = trace.period();
    let delay = Delay::Csv { path: "starlink-delay.csv".to_owned(), series };
    let to_drone = with_deliveries(LinkModel { delay, ..LinkModel::default() }, "starlink", trace);
    Ok(RecordedLink {
        name: "starlink".to_owned(),
        to_station: to_drone.clone(),
        to_drone,
        length,
        gaps: Vec::new(),
        notes: vec!["one direction was recorded: the other is the same".to_owned()],
    })
}

/// Reads pings of three operators; a take is a time at which all three have a session.
fn nuwins(folder: &Path) -> Result<Vec<Take>, String> {
    let sessions = pings(folder)?;
    let of = |operator: &'static str| sessions.iter().filter(move |one| one.operator == operator);
    let mut takes = Vec::new();
    for att in of("atnt") {
        let best = |operator: &'static str| {
            let overlap = |other: &&Session| {
                other.end_ms().min(att.end_ms()) - other.start_ms.max(att.start_ms)
            };
            of(operator).max_by_key(overlap)
        };
        let (Some(tmobile), Some(verizon)) = (best("tmobile"), best("verizon")) else { continue };
        let three = [("att", att), ("tmobile", tmobile), ("verizon", verizon)];
        let start = three.iter().map(|(_, one)| one.start_ms).max().unwrap_or(0);
        let end = three.iter().map(|(_, one)| one.end_ms()).min().unwrap_or(0);
        if end - start < OVERLAP_MIN_MS {
            continue;
        }
        let links = three.iter().map(|(name, one)| one.link(name, start, end));
        takes.push(Take { name: start.to_string(), links: links.collect::<Result<_, _>>()? });
    }
    Ok(takes)
}

/// One session of pings of one operator.
pub(super) struct Session {
    pub(super) operator: String,
    pub(super) start_ms: i64,
    /// The round-trip time of each ping; none when it was lost.
    pub(super) rtts_ms: Vec<Option<f64>>,
}

/// From one ping to the next.
pub(super) const PING_MS: i64 = 200;

impl Session {
    /// Returns the ping of an instant, if one was sent then.
    pub(super) fn at(&self, ms: i64) -> Option<Option<f64>> {
        let place = usize::try_from((ms - self.start_ms).div_euclid(PING_MS)).ok()?;
        self.rtts_ms.get(place).copied()
    }

    fn end_ms(&self) -> i64 {
        self.start_ms + PING_MS * self.rtts_ms.len() as i64
    }

    /// Makes a link of what was measured from `start` to `end`.
    fn link(&self, name: &str, start: i64, end: i64) -> Result<RecordedLink, String> {
        let skip = usize::try_from((start - self.start_ms) / PING_MS).unwrap_or(0);
        let count = usize::try_from((end - start) / PING_MS).unwrap_or(0);
        let pings: Vec<_> = self.rtts_ms.iter().skip(skip).take(count).copied().collect();
        let before = self.rtts_ms.iter().flatten().next().copied().unwrap_or(0.0);
        pinged(name, &pings, before)
    }
}

fn sessions(text: &str, file: &str) -> Result<Vec<Session>, String> {
    let table = Table::from_csv(text, file).map_err(|error| error.to_string())?;
    let column = |name| table.texts(name).map_err(|error| error.to_string());
    let numbers = |name| table.numbers(name).map_err(|error| error.to_string());
    let (operators, rtts) = (column("operator")?, column("rtt_ms")?);
    let (starts, sequence) = (numbers("session_start_ms")?, numbers("icmp_seq")?);
    let mut sessions: Vec<Session> = Vec::new();
    for (row, &(line, operator)) in operators.iter().enumerate() {
        let start_ms = starts[row].1 as i64;
        let rtt: Option<f64> = match rtts[row].1 {
            "" => None,
            rtt => Some(rtt.parse().map_err(|_| format!("{file}:{line}: rtt_ms: {rtt:?}"))?),
        };
        let same = |one: &&mut Session| one.operator == operator && one.start_ms == start_ms;
        if sessions.last_mut().filter(same).is_none() {
            let (operator, rtts_ms) = (operator.to_owned(), Vec::new());
            sessions.push(Session { operator, start_ms, rtts_ms });
        }
        let Some(session) = sessions.last_mut() else { continue };
        if sequence[row].1 as usize != session.rtts_ms.len() + 1 {
            return Err(format!("{file}:{line}: icmp_seq {} leaves a gap", sequence[row].1));
        }
        session.rtts_ms.push(rtt);
    }
    Ok(sessions)
}

/// Reads what four clients received from four access points, second by second.
fn feup(folder: &Path) -> Result<Take, String> {
    let path = folder.join("final-exp-log.csv");
    let file = path.display().to_string();
    let table = Table::from_csv(&text(&path)?, &file).map_err(|error| error.to_string())?;
    let numbers = |name| table.numbers(name).map_err(|error| error.to_string());
    let senders = table.texts("senderId").map_err(|error| error.to_string())?;
    let (times, sends) = (numbers("systime")?, numbers("isIperfOn")?);
    let bytes = numbers("nBytesReceived")?;
    let origin = times.iter().map(|&(_, time)| time).fold(f64::MAX, f64::min);
    let mut links = Vec::new();
    for name in ["ap1", "ap2", "ap3", "ap4"] {
        let (mut rates, mut gaps) = (Vec::new(), Vec::<(f64, f64)>::new());
        let mut next = 0.0;
        for (row, &(line, sender)) in senders.iter().enumerate() {
            if sender != name {
                continue;
            }
            let at = times[row].1 - origin;
            if at < next {
                return Err(format!("{file}:{line}: systime is not after the row before it"));
            }
            if at > next {
                gaps.push((next, at));
            }
            if sends[row].1 == 0.0 {
                gaps.push((at, at + 1.0));
            }
            let bps = (bytes[row].1.max(0.0) * 8.0) as u64;
            let rate = if bps < RATE_MIN_BPS { Rate::ZERO } else { Rate::from_bps(bps) };
            rates.push((Duration::from_secs_f64(at), rate));
            next = at + 1.0;
        }
        let length = Duration::from_secs_f64(next);
        let series = Series::from_steps(rates, Some(length), &file);
        let series = Arc::new(series.map_err(|error| error.to_string())?);
        let rate = LinkRate::Csv { path: format!("{name}-rate.csv"), series };
        let delay = Delay::Fixed(WIFI_DELAY);
        let to_drone = LinkModel { rate, delay, ..LinkModel::default() };
        let to_station = to_drone.clone();
        let notes = vec![
            "rate: what the client received of 50 Mbit/s in each second, loss included; one \
             direction was recorded: the other is the same"
                .to_owned(),
            format!("delay {} ms each way: the recording has none", WIFI_DELAY.as_millis()),
        ];
        let name = name.to_owned();
        links.push(RecordedLink { name, to_drone, to_station, length, gaps, notes });
    }
    Ok(Take { name: String::new(), links })
}

/// Reads round-trip times of messages over 5G, which stalls and then delivers.
fn cicv5g(folder: &Path) -> Result<Vec<RecordedLink>, String> {
    let runs = [
        ("south1", "south_n8_v10_01"),
        ("south2", "south_n8_v10_02"),
        ("south5", "south_n8_v10_05"),
        ("strong-weak", "s2w_n8_v30_run01"),
        ("weak-strong", "w2s_n78_v30_run01"),
    ];
    let read = |(name, file): (&str, &str)| {
        let path = folder.join(format!("{file}.txt"));
        round_trips(name, &text(&path)?, &path.display().to_string())
    };
    runs.into_iter().map(read).collect()
}

/// Messages further apart than this were not sent: 20 intervals.
const MESSAGES_APART_MAX_S: f64 = 1.0;

fn round_trips(name: &str, text: &str, file: &str) -> Result<RecordedLink, String> {
    let (mut delays, mut gaps) = (Vec::<(Duration, Duration)>::new(), Vec::new());
    let mut origin = None;
    let mut last = 0.0;
    for (index, line) in text.lines().enumerate().skip(1) {
        let mut fields = line.split_whitespace();
        let mut number = |what: &str| {
            let field = fields.next().and_then(|field| field.parse::<f64>().ok());
            let wrong = || format!("{file}:{}: {what} must be a number from 0", index + 1);
            field.filter(|number| *number >= 0.0 && *number < 1e15).ok_or_else(wrong)
        };
        let (sent, _, rtt) = (number("pub_time")?, number("sub_time")?, number("delay")?);
        let at = (sent - *origin.get_or_insert(sent)) / 1e3;
        if at - last > MESSAGES_APART_MAX_S {
            gaps.push((last, at));
        }
        let delay = Duration::from_secs_f64(rtt / 2e3);
        if delays.is_empty() || at >= last + 0.001 {
            delays.push((Duration::from_secs_f64(at), delay));
            last = at;
        }
    }
    let length = Duration::from_secs_f64(last.max(1.0));
    // The last message ends the recording: how long its delay held is not known.
    delays.retain(|(at, _)| *at + Duration::from_millis(1) <= length);
    let way = delayed(name, &delays, length)?;
    Ok(RecordedLink {
        name: name.to_owned(),
        to_drone: way.clone(),
        to_station: way,
        length,
        gaps,
        notes: vec![
            format!("rate {} Mbit/s each way: the recording has none", RATE.as_mbps()),
            "half of the round-trip time each way; nothing is lost, as in the recording".to_owned(),
        ],
    })
}

fn delayed(
    name: &str,
    delays: &[(Duration, Duration)],
    length: Duration,
) -> Result<LinkModel, String> {
    let series = Series::from_steps(delays.iter().copied(), Some(length), name);
    let series = Arc::new(series.map_err(|error| error.to_string())?);
    let delay = Delay::Csv { path: format!("{name}-delay.csv"), series };
    Ok(LinkModel { delay, rate: LinkRate::Constant(RATE), ..LinkModel::default() })
}

fn with_deliveries(model: LinkModel, name: &str, trace: DeliveryTrace) -> LinkModel {
    let (path, trace) = (format!("{name}.deliveries"), Arc::new(trace));
    LinkModel { rate: LinkRate::Deliveries { path, trace }, ..model }
}
