//! Reads measurements in the forms in which they are found: tables, iperf3, ping, mahimahi.
//!
//! Nothing here opens a file. Errors name file, line and, in tables, column. Whatever a file holds,
//! the memory that it takes is a small multiple of its length.

use netem::{DeliveryTrace, Table};
use serde::Deserialize;

use super::ping::ping;
use super::reading::{Reading, Sample};
use super::time;

/// The names that a column of times may have when nobody says which it is; the unit behind `_`.
const TIMES: [&str; 9] = [
    "time_s",
    "time_ms",
    "timestamp",
    "time",
    "datetime",
    "date",
    "systime",
    "interval-start",
    "t",
];
/// Rates, with what makes Mbit/s of them.
const RATES: [(&str, f64); 8] = [
    ("rate_mbps", 1.0),
    ("rate_kbps", 1e-3),
    ("rate_bps", 1e-6),
    ("throughput_mbps", 1.0),
    ("throughput_kbps", 1e-3),
    ("bits_per_second", 1e-6),
    ("data-rate", 1e-6),
    ("nBytesReceived", 8e-6),
];
/// Delays, with what makes one-way milliseconds of them.
const DELAYS: [(&str, f64); 5] =
    [("delay_ms", 1.0), ("delay_s", 1e3), ("rtt_ms", 0.5), ("rtt_s", 500.0), ("rtt", 0.5)];
/// Losses, with what makes a share of them.
const LOSSES: [(&str, f64); 4] =
    [("loss", 1.0), ("loss_percent", 0.01), ("lost_percent", 0.01), ("lost", 1.0)];
/// Units that may stand behind the name of a column, as in `--rate downlink:kbps`.
const UNITS: [(&str, f64); 11] = [
    ("mbps", 1.0),
    ("kbps", 1e-3),
    ("bps", 1e-6),
    ("Bps", 8e-6),
    ("kBps", 8e-3),
    ("MBps", 8.0),
    ("ms", 1.0),
    ("s", 1e3),
    ("us", 1e-3),
    ("percent", 0.01),
    ("share", 1.0),
];

/// Says how a file is to be read, where it does not say so itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct HowToRead {
    /// Columns of a table, each as `NAME` or `NAME:UNIT`.
    pub(crate) time: Option<String>,
    pub(crate) rate: Option<String>,
    pub(crate) delay: Option<String>,
    pub(crate) rtt: Option<String>,
    pub(crate) loss: Option<String>,
    /// Only rows in which this column has this value.
    pub(crate) only: Option<(String, String)>,
    /// The shortest stretch without a sample that counts as a gap.
    pub(crate) gap_s: Option<f64>,
    /// From one ping to the next.
    pub(crate) ping_s: Option<f64>,
}

/// Reads a file of any known form; `file` is its name for errors.
///
/// # Errors
/// With file and line: what is wrong, and what would be right.
pub(crate) fn read(text: &str, file: &str, how: &HowToRead) -> Result<Reading, String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines().find(|line| !line.starts_with('#')).unwrap_or("");
    if first.starts_with('{') {
        return iperf3(text, file, how);
    }
    if lines().take(5).any(|line| line.contains("PING ") || line.contains("icmp_seq")) {
        return ping(text, file, how);
    }
    if first.parse::<u64>().is_ok() {
        let trace = DeliveryTrace::parse(text, file).map_err(|error| error.to_string())?;
        let length_s = trace.period().as_secs_f64();
        let format = "mahimahi: a line per opportunity for 1,500 bytes";
        return Ok(Reading { format, deliveries: Some(trace), length_s, ..Reading::default() });
    }
    table(text, file, how)
}

/// Reads a table with named columns: CSV, or columns between white space where no comma is in the
/// first line.
fn table(text: &str, file: &str, how: &HowToRead) -> Result<Reading, String> {
    let said = |error: netem::TraceError| error.to_string();
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let (table, format) = if header.contains(',') {
        (Table::from_csv(text, file).map_err(said)?, "CSV")
    } else {
        (Table::from_columns(text, file).map_err(said)?, "columns between white space")
    };
    let columns = Columns::of(&table, file, how)?;
    let times = table.texts(&columns.time).map_err(said)?;
    let only = match &how.only {
        Some((column, value)) => Some((table.texts(column).map_err(said)?, value.as_str())),
        None => None,
    };
    let fields = |column: &Option<(String, f64)>| match column {
        Some((name, factor)) => {
            let fields = table.texts(name).map_err(said)?;
            Ok(Some(Column { name: name.clone(), factor: *factor, fields }))
        }
        None => Ok::<_, String>(None),
    };
    let (rates, delays, losses) =
        (fields(&columns.rate)?, fields(&columns.delay)?, fields(&columns.loss)?);
    let (mut samples, mut start) = (Vec::new(), None::<f64>);
    for (row, &(line, field)) in times.iter().enumerate() {
        if only.as_ref().is_some_and(|(fields, value)| fields[row].1 != *value) {
            continue;
        }
        let wrong = || {
            format!(
                "{file}:{line}: column {}: {field:?} is neither a number nor a time such as \
                 2023-05-13T14:22:42Z",
                columns.time
            )
        };
        let (mut at_s, is_absolute) = time::seconds(field).ok_or_else(wrong)?;
        if columns.time.ends_with("_ms") && !is_absolute {
            at_s /= 1e3;
        }
        if is_absolute {
            start = Some(start.map_or(at_s, |start| start.min(at_s)));
        }
        let value = |column: &Option<Column<'_>>| match column {
            Some(column) => column.value(row, file),
            None => Ok(None),
        };
        let (rate_mbps, delay_ms, loss) = (value(&rates)?, value(&delays)?, value(&losses)?);
        let loss = columns.loss_of(loss, delay_ms);
        if loss.is_some_and(|loss| !(0.0..=1.0).contains(&loss)) {
            return Err(format!("{file}:{line}: loss must be from 0 to 1, or say its unit"));
        }
        samples.push(Sample { at_s, rate_mbps, delay_ms, loss });
    }
    if samples.is_empty() {
        return Err(format!("{file}: has no row that counts"));
    }
    let mut reading = Reading::of(samples, how.gap_s);
    (reading.format, reading.start_s) = (format, start);
    reading.notes.extend(columns.notes());
    Ok(reading)
}

/// One column of numbers.
struct Column<'a> {
    name: String,
    factor: f64,
    fields: Vec<(usize, &'a str)>,
}

impl Column<'_> {
    /// Reads the number of a row, which is not negative; an empty field is none.
    fn value(&self, row: usize, file: &str) -> Result<Option<f64>, String> {
        let (line, field) = self.fields[row];
        if ["", "-", "NaN", "nan", "NA", "null"].contains(&field) {
            return Ok(None);
        }
        let number = field.parse().ok().filter(|number: &f64| (0.0..1e15).contains(number));
        let wrong =
            || format!("{file}:{line}: column {}: {field:?} is not a number from 0", self.name);
        number.map(|number| Some(number * self.factor)).ok_or_else(wrong)
    }
}

/// Says which columns of a table are what.
struct Columns {
    time: String,
    rate: Option<(String, f64)>,
    delay: Option<(String, f64)>,
    loss: Option<(String, f64)>,
    is_round_trip: bool,
}

impl Columns {
    fn of(table: &Table, file: &str, how: &HowToRead) -> Result<Self, String> {
        let there = || table.header().join(", ");
        let asked = |asked: &Option<String>, known: &[(&str, f64)]| match asked {
            Some(asked) => {
                let (name, factor) = match asked.rsplit_once(':') {
                    Some((name, unit)) if !table.has(asked) => {
                        let factor = UNITS.iter().find(|(known, _)| *known == unit);
                        let units: Vec<&str> = UNITS.iter().map(|(unit, _)| *unit).collect();
                        let unknown =
                            || format!("{unit}: no such unit; there are {}", units.join(" "));
                        (name, factor.ok_or_else(unknown)?.1)
                    }
                    _ => {
                        let own = known.iter().find(|(known, _)| known == asked);
                        (asked.as_str(), own.map_or(1.0, |own| own.1))
                    }
                };
                if !table.has(name) {
                    return Err(format!("{file}:1: no column {name}; there are {}", there()));
                }
                Ok(Some((name.to_owned(), factor)))
            }
            None => {
                let own = known.iter().find(|(name, _)| table.has(name));
                Ok(own.map(|(name, factor)| ((*name).to_owned(), *factor)))
            }
        };
        let time = match &how.time {
            Some(name) => Some(name.clone()),
            None => TIMES.iter().find(|name| table.has(name)).map(|name| (*name).to_owned()),
        };
        let time = time.filter(|name| table.has(name)).ok_or_else(|| {
            format!("{file}:1: which column is the time? Say --time NAME; there are {}", there())
        })?;
        let rtt = asked(&how.rtt, &[])?.map(|(name, factor)| (name, factor / 2.0));
        let one_way = asked(&how.delay, &DELAYS)?;
        let is_round_trip =
            rtt.is_some() || one_way.as_ref().is_some_and(|(name, _)| name.starts_with("rtt"));
        let columns = Self {
            time,
            rate: asked(&how.rate, &RATES)?,
            delay: rtt.or(one_way),
            loss: asked(&how.loss, &LOSSES)?,
            is_round_trip,
        };
        if columns.rate.is_none() && columns.delay.is_none() && columns.loss.is_none() {
            return Err(format!(
                "{file}:1: which column is a rate, a delay or a loss? Say --rate NAME:UNIT, --rtt, \
                 --delay or --loss; there are {}",
                there()
            ));
        }
        Ok(columns)
    }

    /// A round trip without a time is a packet that was lost.
    fn loss_of(&self, loss: Option<f64>, delay_ms: Option<f64>) -> Option<f64> {
        let is_lost = self.is_round_trip && self.loss.is_none();
        if is_lost { Some(if delay_ms.is_some() { 0.0 } else { 1.0 }) } else { loss }
    }

    fn notes(&self) -> Vec<String> {
        let part = |what: &str, column: &Option<(String, f64)>| {
            column.as_ref().map(|(name, factor)| format!("{what}: column {name} × {factor}"))
        };
        let mut notes: Vec<String> = [
            part("rate in Mbit/s", &self.rate),
            part("one-way delay in ms", &self.delay),
            part("share lost", &self.loss),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.is_round_trip {
            notes.push(
                "half of the round-trip time each way; a row without one was lost".to_owned(),
            );
        }
        notes
    }
}

/// The report of `iperf3 --json`, as far as it is used.
#[derive(Deserialize)]
struct Iperf3 {
    #[serde(default)]
    start: Iperf3Start,
    intervals: Vec<Iperf3Interval>,
}

#[derive(Default, Deserialize)]
struct Iperf3Start {
    timestamp: Option<Iperf3Time>,
}

#[derive(Deserialize)]
struct Iperf3Time {
    timesecs: f64,
}

#[derive(Deserialize)]
struct Iperf3Interval {
    sum: Iperf3Sum,
}

#[derive(Deserialize)]
struct Iperf3Sum {
    start: f64,
    bits_per_second: f64,
    lost_percent: Option<f64>,
}

fn iperf3(text: &str, file: &str, how: &HowToRead) -> Result<Reading, String> {
    let report: Iperf3 = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{file}:{line}:{column}: is not what iperf3 --json writes: {error}")
    })?;
    let first = report.intervals.first().map_or(0.0, |interval| interval.sum.start);
    let mut samples = Vec::with_capacity(report.intervals.len());
    for (number, interval) in report.intervals.iter().enumerate() {
        let sum = &interval.sum;
        let is_sound = sum.start.is_finite()
            && (0.0..1e15).contains(&sum.bits_per_second)
            && (0.0..=100.0).contains(&sum.lost_percent.unwrap_or(0.0));
        if !is_sound {
            return Err(format!("{file}: intervals[{number}].sum has a value out of range"));
        }
        samples.push(Sample {
            at_s: sum.start - first,
            rate_mbps: Some(sum.bits_per_second / 1e6),
            delay_ms: None,
            loss: None,
        });
    }
    if samples.is_empty() {
        return Err(format!("{file}: has no interval"));
    }
    let mut reading = Reading::of(samples, how.gap_s);
    reading.format = "iperf3 --json";
    reading.start_s = report.start.timestamp.map(|time| time.timesecs);
    if report.intervals.iter().any(|interval| interval.sum.lost_percent.unwrap_or(0.0) > 0.0) {
        reading.notes.push(
            "the rate is what arrived; what iperf3 lost, it lost by offering more than that: no \
             loss is added"
                .to_owned(),
        );
    }
    Ok(reading)
}
