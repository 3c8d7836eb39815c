//! What a scenario was made of, in a table and for scripts.

use std::fmt::Write as _;
use std::path::Path;

use record::date;
use serde_json::{Value, json};

use super::direction::Way;
use super::view::View;

/// What was made, and of what.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) notes: Vec<String>,
    began_ns: u64,
    seconds: f64,
    links: Vec<(String, [Row; 2])>,
    /// Control messages that were handed in and missed: on the drone, at the station; none without
    /// the record.
    control: [Option<(usize, usize)>; 2],
}

/// One direction.
#[derive(Clone, Debug)]
struct Row {
    is_measured: bool,
    copies: (usize, usize),
    outages: usize,
    outage_s: f64,
    loss: f64,
    delay_ms: [f64; 2],
    rate_mbps: [f64; 2],
    filled_s: f64,
    carried_mbps: f64,
}

impl Told {
    pub(super) fn new(views: &[View], begin: f64, end: f64) -> Self {
        let mut control = [None, None];
        for view in views {
            let of_span = view.control.iter().filter(|(at, _)| (begin..end).contains(at));
            let missed = of_span.clone().filter(|(_, missed)| *missed).count();
            control[view.role as usize] = Some((of_span.count(), missed));
        }
        let origin = views.first().map_or(0, |view| view.origin_ns);
        let began_ns = origin.saturating_add_signed((begin * 1e9) as i64);
        Self { notes: Vec::new(), began_ns, seconds: end - begin, links: Vec::new(), control }
    }

    pub(super) fn add(&mut self, name: &str, ways: &[Way; 2]) {
        let seconds = self.seconds;
        self.links
            .push((name.to_owned(), [Row::of(&ways[0], seconds), Row::of(&ways[1], seconds)]));
    }

    /// Returns when it began, as the date of its computer had it.
    pub(super) fn began(&self) -> String {
        date::utc(self.began_ns / 1_000_000_000)
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("{:.1} s, begun {}\n", self.seconds, self.began());
        let mut rows = vec![
            [
                "link", "from", "known", "copies", "lost", "outages", "loss", "delay ms", "Mbit/s",
                "carried",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (name, ways) in &self.links {
            for (row, from) in ways.iter().zip(["drone", "station"]) {
                rows.push(row.cells(name, from));
            }
        }
        let widths: Vec<usize> = (0..rows[0].len())
            .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
            .collect();
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        for (who, control) in ["drone", "station"].iter().zip(self.control) {
            if let Some((messages, missed)) = control {
                let _ =
                    writeln!(text, "control of the {who}: {missed} of {messages} missed in flight");
            }
        }
        text
    }

    pub(super) fn json(&self, scenario: &Path) -> Value {
        let links = self.links.iter().map(|(name, [from_drone, from_station])| {
            json!({"name": name, "from_drone": from_drone.json(), "from_station": from_station.json()})
        });
        let control = |control: Option<(usize, usize)>| {
            control.map(|(messages, missed)| json!({"messages": messages, "missed": missed}))
        };
        json!({
            "scenario": scenario.display().to_string(),
            "began": self.began(),
            "seconds": self.seconds,
            "links": links.collect::<Vec<_>>(),
            "control": {"drone": control(self.control[0]), "station": control(self.control[1])},
            "notes": self.notes,
        })
    }
}

impl Row {
    fn of(way: &Way, seconds: f64) -> Self {
        let all = || way.outages.iter().chain(&way.holds);
        // From a positive zero: an empty sum is a negative one.
        let outage_s = all().fold(0.0, |sum, (from, to)| sum + to - from);
        Self {
            is_measured: way.is_measured,
            copies: way.copies,
            outages: all().count(),
            outage_s,
            loss: mean(&way.losses, seconds),
            delay_ms: spread(&way.delays_ms, seconds),
            rate_mbps: spread(&way.rates_mbps, seconds),
            filled_s: way.filled_s,
            carried_mbps: way.carried_mbps,
        }
    }

    fn cells(&self, name: &str, from: &str) -> Vec<String> {
        let copies =
            |count: usize| if self.is_measured { count.to_string() } else { String::new() };
        let range = |[least, most]: [f64; 2]| {
            if least == most { format!("{least:.1}") } else { format!("{least:.1}–{most:.1}") }
        };
        vec![
            name.to_owned(),
            from.to_owned(),
            if self.is_measured { "recorded" } else { "assumed" }.to_owned(),
            copies(self.copies.0),
            copies(self.copies.1),
            format!("{} ({:.1} s)", self.outages, self.outage_s),
            format!("{:.2} %", self.loss * 1e2),
            range(self.delay_ms),
            range(self.rate_mbps),
            format!("{:.3}", self.carried_mbps),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "recorded": self.is_measured,
            "copies": self.copies.0,
            "copies_lost": self.copies.1,
            "outages": self.outages,
            "outage_s": self.outage_s,
            "loss": self.loss,
            "delay_p5_ms": self.delay_ms[0],
            "delay_p95_ms": self.delay_ms[1],
            "rate_p5_mbps": self.rate_mbps[0],
            "rate_p95_mbps": self.rate_mbps[1],
            "rate_known_s": self.filled_s,
            "carried_mbps": self.carried_mbps,
        })
    }
}

/// Returns how long each value holds.
fn held(steps: &[(f64, f64)], seconds: f64) -> impl Iterator<Item = (f64, f64)> + '_ {
    let ends = steps.iter().skip(1).map(|(at, _)| *at).chain([seconds]);
    steps.iter().zip(ends).map(|((at, value), end)| (*value, (end - at).max(0.0)))
}

fn mean(steps: &[(f64, f64)], seconds: f64) -> f64 {
    held(steps, seconds).map(|(value, time)| value * time).sum::<f64>() / seconds
}

/// Returns what values lie between for all but a tenth of the time.
fn spread(steps: &[(f64, f64)], seconds: f64) -> [f64; 2] {
    let mut values: Vec<(f64, f64)> = held(steps, seconds).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| {
        let mut before = 0.0;
        let found = values.iter().find(|(_, time)| {
            before += time;
            before >= share * seconds
        });
        found.or(values.last()).map_or(0.0, |(value, _)| *value)
    };
    [at(0.05), at(0.95)]
}
