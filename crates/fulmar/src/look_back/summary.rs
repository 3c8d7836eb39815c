//! What a flight comes to: a line for each path and for each peer's control, and misses by their
//! causes.

use std::collections::BTreeMap;
use std::fmt::Write;

use record::flight::{Flight, Series};
use record::schema::{Control, Path};
use serde::Serialize;

use crate::status::{columns, milliseconds, rate};
use record::date::utc;

/// Misses that lie no further apart are of one episode.
const APART_NS: u64 = 1_000_000_000;

/// Episodes of one peer that a table lists; JSON has them all.
const LISTED: usize = 200;
/// Letters of a name that a table shows.
const SHOWN: usize = 40;

/// A flight in figures.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) role: String,
    pub(super) version: String,
    /// When it began, in UTC by the computer's clock; empty of an empty record.
    pub(super) began: String,
    pub(super) seconds: f64,
    pub(super) paths: Vec<PathSummary>,
    pub(super) control: Vec<ControlSummary>,
    pub(super) events: usize,
    pub(super) positions: usize,
    /// Notes that were not recorded.
    pub(super) dropped: u64,
    /// Files that were cut, and why reading ended.
    pub(super) cut: BTreeMap<String, String>,
}

/// A path in figures.
#[derive(Debug, Serialize)]
pub(super) struct PathSummary {
    pub(super) peer: String,
    pub(super) path: String,
    pub(super) active_percent: f64,
    pub(super) rtt_p50_ms: Option<f64>,
    pub(super) rtt_p95_ms: Option<f64>,
    /// Of what was sent, by counters.
    pub(super) loss_percent: Option<f64>,
    pub(super) out_mbps: f64,
    pub(super) in_mbps: f64,
    pub(super) capacity_mbps: Option<f64>,
}

/// A peer's control in figures.
#[derive(Debug, Serialize)]
pub(super) struct ControlSummary {
    pub(super) peer: String,
    pub(super) messages: usize,
    pub(super) missed: usize,
    pub(super) delay_p50_ms: Option<f64>,
    pub(super) delay_p99_ms: Option<f64>,
    pub(super) copies_per_message: f64,
    pub(super) episodes: Vec<Episode>,
}

/// Misses in a row, of one cause.
#[derive(Debug, Serialize)]
pub(super) struct Episode {
    /// Seconds since the record began.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) misses: usize,
    /// The cause of its first.
    pub(super) why: String,
}

impl Summary {
    /// Counts a flight up.
    pub(super) fn of(flight: &Flight) -> Self {
        let (from, to) = flight.span().unwrap_or_default();
        let paths = flight.paths_in_order().into_iter();
        let paths = paths.map(|(peer, samples)| path_summary(peer, samples));
        let control = flight.control.iter();
        let control = control.map(|(peer, messages)| control_summary(peer, messages, from));
        let text = |key: &str| flight.info.get(key).cloned().unwrap_or_default();
        Self {
            role: text("role"),
            version: text("version"),
            began: if from > 0 { utc(from / 1_000_000_000) } else { String::new() },
            seconds: seconds(from, to),
            paths: paths.collect(),
            control: control.collect(),
            events: flight.events.len(),
            positions: flight.positions.len(),
            dropped: flight
                .recorder
                .iter()
                .map(|(_, recorder)| recorder.dropped)
                .max()
                .unwrap_or(0),
            cut: flight.cut.clone(),
        }
    }

    /// Lays it out for people.
    pub(super) fn table(&self) -> String {
        let Self { role, version, began, seconds, .. } = self;
        let mut text = format!("{role} {version}, from {began}, {seconds:.1} s\n\n");
        text += &columns(&self.path_rows());
        for control in &self.control {
            let ControlSummary { messages, missed, copies_per_message, .. } = control;
            let peer = short(&control.peer);
            let delay = |value: Option<f64>| value.map_or_else(|| "–".into(), milliseconds);
            let (p50, p99) = (delay(control.delay_p50_ms), delay(control.delay_p99_ms));
            let _ = writeln!(
                text,
                "\nto {peer}: {messages} messages under control delivery, {copies_per_message:.2} copies each, delay \
                 {p50}, p99 {p99}, {missed} of control missed"
            );
            for Episode { from_s, to_s, misses, why } in control.episodes.iter().take(LISTED) {
                let _ = writeln!(text, "  {from_s:8.2} to {to_s:8.2} s  {misses:5} missed  {why}");
            }
            if let Some(more @ 1..) = control.episodes.len().checked_sub(LISTED) {
                let _ = writeln!(text, "  and {more} more; --json has them all");
            }
        }
        let (events, positions) = (self.events, self.positions);
        let _ = writeln!(text, "\n{events} events, {positions} positions");
        if self.dropped > 0 {
            let _ = writeln!(text, "! {} notes were not recorded", self.dropped);
        }
        text
    }

    /// Returns the paths as rows of a table, its head first.
    pub(super) fn path_rows(&self) -> Vec<Vec<String>> {
        let head = ["peer", "path", "active", "rtt", "rtt p95", "lost", "out", "in", "can carry"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for path in &self.paths {
            let delay = |value: Option<f64>| value.map_or_else(|| "–".into(), milliseconds);
            let percent =
                |value: Option<f64>| value.map_or_else(|| "–".into(), |it| format!("{it:.1} %"));
            rows.push(vec![
                short(&path.peer),
                short(&path.path),
                percent(Some(path.active_percent)),
                delay(path.rtt_p50_ms),
                delay(path.rtt_p95_ms),
                percent(path.loss_percent),
                rate(path.out_mbps),
                rate(path.in_mbps),
                path.capacity_mbps.map_or_else(|| "–".into(), rate),
            ]);
        }
        rows
    }
}

/// Returns the seconds from one moment to another.
pub(super) fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}

/// Joins misses into episodes: those of one cause that follow each other closely.
pub(super) fn episodes(messages: &Series<Control>, began: u64) -> Vec<Episode> {
    let mut episodes: Vec<(u64, Episode)> = Vec::new();
    for (at, message) in messages.iter().filter(|(_, message)| message.missed) {
        let now = seconds(began, *at);
        match episodes.last_mut() {
            Some((last, episode)) if at.saturating_sub(*last) <= APART_NS => {
                (*last, episode.to_s) = (*at, now);
                episode.misses += 1;
            }
            _ => {
                let why = message.why.clone();
                episodes.push((*at, Episode { from_s: now, to_s: now, misses: 1, why }));
            }
        }
    }
    episodes.into_iter().map(|(_, episode)| episode).collect()
}

/// Cuts a name that would leave no room for anything else.
fn short(name: &str) -> String {
    let cut = name.char_indices().nth(SHOWN).map(|(at, _)| format!("{}…", &name[..at]));
    cut.unwrap_or_else(|| name.to_owned())
}

fn path_summary(peer: &str, samples: &Series<Path>) -> PathSummary {
    let all = samples.len().max(1) as f64;
    let active = samples.iter().filter(|(_, sample)| sample.state == "active").count();
    let rtts: Vec<f64> = samples.iter().filter_map(|(_, sample)| sample.srtt_ms).collect();
    let (mut acked, mut lost) = (0, 0);
    for pair in samples.windows(2) {
        let (before, after) = (&pair[0].1, &pair[1].1);
        acked += after.acked.saturating_sub(before.acked);
        lost += after.lost.saturating_sub(before.lost);
        // Acknowledged after all: these were counted twice.
        lost = lost.saturating_sub(after.late.saturating_sub(before.late));
    }
    let mean =
        |of: fn(&Path) -> f64| samples.iter().map(|(_, sample)| of(sample)).sum::<f64>() / all;
    let capacities: Vec<f64> =
        samples.iter().filter_map(|(_, sample)| sample.capacity_mbps).collect();
    PathSummary {
        peer: peer.into(),
        path: samples.last().map_or(String::new(), |(_, sample)| sample.name.clone()),
        active_percent: active as f64 / all * 100.0,
        rtt_p50_ms: quantile(&rtts, 0.5),
        rtt_p95_ms: quantile(&rtts, 0.95),
        loss_percent: (acked + lost > 0).then(|| lost as f64 / (acked + lost) as f64 * 100.0),
        out_mbps: mean(|sample| sample.out_mbps),
        in_mbps: mean(|sample| sample.in_mbps),
        capacity_mbps: quantile(&capacities, 0.5),
    }
}

fn control_summary(peer: &str, messages: &Series<Control>, began: u64) -> ControlSummary {
    let delays: Vec<f64> = messages.iter().filter_map(|(_, message)| message.delay_ms).collect();
    let copies: usize = messages.iter().map(|(_, message)| message.copies.len()).sum();
    ControlSummary {
        peer: peer.into(),
        messages: messages.len(),
        missed: messages.iter().filter(|(_, message)| message.missed).count(),
        delay_p50_ms: quantile(&delays, 0.5),
        delay_p99_ms: quantile(&delays, 0.99),
        copies_per_message: copies as f64 / messages.len().max(1) as f64,
        episodes: episodes(messages, began),
    }
}

fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_that_follow_each_other_are_one_episode() {
        let message = |second: f64, missed| {
            let why = if missed { "why" } else { "" };
            ((second * 1e9) as u64, Control { missed, why: why.into(), ..Control::default() })
        };
        let messages =
            vec![message(1.0, true), message(1.5, false), message(1.9, true), message(5.0, true)];
        let found = episodes(&messages, 0);
        let counts: Vec<_> = found.iter().map(|it| (it.from_s, it.to_s, it.misses)).collect();
        assert_eq!(counts, [(1.0, 1.9, 2), (5.0, 5.0, 1)]);
    }

    #[test]
    fn loss_is_counted_from_what_was_sent_between_samples() {
        let sample = |acked, lost, late| (acked, Path { acked, lost, late, ..Path::default() });
        let samples = vec![sample(100, 50, 0), sample(190, 62, 2), sample(10, 0, 0)];
        assert_eq!(path_summary("gcs", &samples).loss_percent, Some(10.0));
    }
}
