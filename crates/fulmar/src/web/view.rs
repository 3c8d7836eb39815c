//! What the page is shown: every drone in a line, worst first, and of those that are open
//! everything.
//!
//! The page asks for as many lines as it has room for, so that a thousand drones cost it no more
//! than forty.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::events::EventReport;
use crate::status::{PathReport, vehicle_words};
use crate::watch::{BUCKET, History, Rank, Row, Seen, key, rows};

/// Drones that a page is shown at most: as many as a station may have.
const SHOWN_AT_MOST: usize = 1_024;
/// Drones that may be open at a time.
const OPEN_AT_MOST: usize = 16;
/// Up to this many drones are open from the beginning.
const OPEN_BY_THEMSELVES: usize = 2;
/// The longest filter and name that are looked at.
const LONGEST: usize = 256;
/// Events that the page shows, and those of an open drone.
const EVENTS_SHOWN: usize = 40;
/// Streams of messages that an open drone shows; `fulmar status --json` has them all.
const STREAMS_SHOWN: usize = 16;
/// Drones that are told in words at the top.
const TOLD: usize = 6;

/// What the page asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// What it has seen already.
    pub(super) revision: Option<u64>,
    /// How many drones it has room for.
    rows: usize,
    /// What a drone's name must have in it.
    filter: String,
    /// Which ranks are shown; all where none is given.
    ranks: Vec<String>,
    /// Which drones are open; none where it has not chosen yet.
    open: Option<Vec<String>>,
}

impl Asked {
    /// Reads a query. What makes no sense is left out.
    pub(super) fn parse(query: &str) -> Self {
        let mut asked = Self { rows: 40, ..Self::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value: String = value.chars().take(LONGEST).collect();
            match &*name {
                "revision" => asked.revision = value.parse().ok(),
                "rows" => asked.rows = value.parse().unwrap_or(asked.rows).min(SHOWN_AT_MOST),
                "filter" => asked.filter = value.to_lowercase(),
                "rank" if asked.ranks.len() < Rank::ALL.len() => asked.ranks.push(value),
                "chosen" => _ = asked.open.get_or_insert_default(),
                "open" => {
                    let open = asked.open.get_or_insert_default();
                    if open.len() < OPEN_AT_MOST {
                        open.push(value);
                    }
                }
                _ => {}
            }
        }
        asked
    }
}

/// Shows all daemons as the page asks for them.
pub(super) fn show(daemons: &BTreeMap<String, Seen>, revision: u64, asked: &Asked) -> Value {
    let rows = rows(daemons);
    let counts: serde_json::Map<String, Value> = Rank::ALL
        .iter()
        .map(|(rank, word)| {
            ((*word).into(), rows.iter().filter(|row| row.rank == *rank).count().into())
        })
        .collect();
    let wrong: Vec<&Row<'_>> = rows.iter().filter(|row| row.rank < Rank::Notice).collect();
    let told: Vec<Value> = wrong.iter().take(TOLD).map(|row| wrong_text(row)).collect();
    let all = rows.len();
    let fits = |row: &&Row<'_>| {
        (asked.filter.is_empty() || row.peer.name.to_lowercase().contains(&asked.filter))
            && (asked.ranks.is_empty() || asked.ranks.iter().any(|rank| rank == row.rank.word()))
    };
    let matching: Vec<&Row<'_>> = rows.iter().filter(fits).collect();
    let is_open = |row: &Row<'_>| match &asked.open {
        Some(open) => open.contains(&row.id()),
        None => all <= OPEN_BY_THEMSELVES,
    };
    let shown = matching.iter().take(asked.rows).map(|row| drone(row, is_open(row)));
    json!({
        "revision": revision,
        "bucket_s": BUCKET.as_secs(),
        "daemons": daemons.iter().map(|(name, seen)| daemon(name, seen)).collect::<Vec<_>>(),
        "counts": counts,
        "wrong": { "told": told, "more": wrong.len().saturating_sub(TOLD) },
        "matching": matching.len(),
        "drones": shown.collect::<Vec<_>>(),
        "events": newest(daemons),
    })
}

fn daemon(name: &str, seen: &Seen) -> Value {
    let Some(report) = &seen.report else {
        return json!({"name": name, "trouble": seen.trouble});
    };
    let strangers = &report.strangers;
    json!({
        "name": name,
        "trouble": seen.trouble,
        "role": report.role,
        "version": report.version,
        "uptime_s": report.uptime_s,
        "peers": report.peers.len(),
        "held_bytes": report.memory.held_bytes,
        "bound_bytes": report.memory.bound_bytes,
        "unknown_peers": strangers.unknown_peers,
        "unknown_peers_last_s": strangers.unknown_peers_last_s,
        "other_keys": strangers.other_keys,
        "other_keys_last_s": strangers.other_keys_last_s,
    })
}

/// Says what is wrong with a drone.
fn wrong_text(row: &Row<'_>) -> Value {
    json!({"id": row.id(), "name": row.peer.name, "rank": row.rank.word(), "text": row.reason()})
}

fn drone(row: &Row<'_>, is_open: bool) -> Value {
    let peer = row.peer;
    let mut shown = json!({
        "id": row.id(),
        "daemon": row.daemon,
        "name": peer.name,
        "rank": row.rank.word(),
        "text": row.reason(),
        "connected": peer.connected,
        "session_s": peer.session_s,
        "paths": peer.paths.iter().map(path).collect::<Vec<_>>(),
        "vehicles": peer.vehicles.iter().map(vehicle_words).collect::<Vec<_>>(),
    });
    if is_open {
        shown["detail"] = detail(row);
    }
    shown
}

fn path(path: &PathReport) -> Value {
    json!({
        "name": path.name,
        "interface": path.interface,
        "state": path.state,
        "backup": path.backup,
        "in_use": path.in_use,
        "rtt_ms": path.srtt_ms,
        "loss": path.loss_percent.max(path.loss_in_percent),
        "out_mbps": path.out_mbps,
        "in_mbps": path.in_mbps,
        "trouble": path.trouble,
    })
}

fn detail(row: &Row<'_>) -> Value {
    let Row { peer, seen, .. } = row;
    let histories = peer.paths.iter().map(|path| seen.histories.get(&key(peer, path)).map(history));
    let of_peer = seen.events.iter().rev().filter(|event| event.peer == peer.name);
    let is_used = |class: &Value| class["submitted"] != 0 || class["delivered"] != 0;
    let classes = peer.classes.iter().map(|class| json!(class)).filter(is_used);
    json!({
        "paths": peer.paths,
        "far_endpoints": peer.far_endpoints,
        "histories": histories.collect::<Vec<_>>(),
        "classes": classes.collect::<Vec<_>>(),
        "reliability": peer.reliability,
        "streams": peer.message_streams.iter().take(STREAMS_SHOWN).collect::<Vec<_>>(),
        "clock_offset_ms": peer.clock_offset_ms,
        "clock_error_ms": peer.clock_error_ms,
        "events": of_peer.take(EVENTS_SHOWN).collect::<Vec<_>>(),
    })
}

/// Shows a history as rows of numbers, the newest last.
fn history(history: &History) -> Value {
    let delay: Vec<_> = history.buckets().map(|bucket| bucket.delay_ms()).collect();
    let loss: Vec<_> = history.buckets().map(|bucket| bucket.loss_percent()).collect();
    let out: Vec<_> = history.buckets().map(|bucket| Some(bucket.kbps()?.0)).collect();
    let back: Vec<_> = history.buckets().map(|bucket| Some(bucket.kbps()?.1)).collect();
    let works: Vec<_> = history.buckets().map(|bucket| u8::from(bucket.works())).collect();
    json!({"delay_ms": delay, "loss_percent": loss, "out_kbps": out, "in_kbps": back, "works": works})
}

/// Shows the newest events of all daemons, the newest first.
fn newest(daemons: &BTreeMap<String, Seen>) -> Vec<Value> {
    let mut all: Vec<(&str, &EventReport)> = Vec::new();
    for (name, seen) in daemons {
        all.extend(seen.events.iter().rev().take(EVENTS_SHOWN).map(|event| (name.as_str(), event)));
    }
    all.sort_by(|one, other| other.1.time.cmp(&one.1.time).then(other.1.seq.cmp(&one.1.seq)));
    all.truncate(EVENTS_SHOWN);
    all.into_iter()
        .map(|(daemon, event)| {
            let mut shown = json!(event);
            shown["daemon"] = daemon.into();
            shown
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::status::{PeerReport, Report};

    fn fleet() -> BTreeMap<String, Seen> {
        let path = PathReport { state: "active".into(), ..PathReport::default() };
        let mut peers: Vec<PeerReport> = (0..1_000)
            .map(|number| PeerReport {
                name: format!("drone-{number:03}"),
                connected: true,
                paths: vec![path.clone(); 2],
                ..PeerReport::default()
            })
            .collect();
        peers[700].trouble = "only one path works".into();
        peers[800].paths.iter_mut().for_each(|path| path.state = "suspected".into());
        peers[900] = PeerReport { name: "drone-900".into(), ..PeerReport::default() };
        let report = Report { role: "station".into(), peers, ..Report::default() };
        let seen = Seen { report: Some(Arc::new(report)), ..Seen::default() };
        [("station".to_owned(), seen)].into()
    }

    #[test]
    fn what_is_wrong_comes_first_and_only_what_is_asked_for_is_told() {
        let fleet = fleet();
        let shown = show(&fleet, 7, &Asked::parse("rows=5"));
        let names: Vec<_> =
            shown["drones"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
        assert_eq!(names, ["drone-800", "drone-700", "drone-000", "drone-001", "drone-002"]);
        assert_eq!(
            shown["counts"],
            json!({"lost": 1, "warning": 1, "notice": 0, "well": 997, "away": 1})
        );
        assert_eq!((&shown["matching"], &shown["revision"]), (&json!(1_000), &json!(7)));
        assert_eq!(shown["wrong"]["told"][1]["text"], "only one path works");
        assert!(shown["drones"][0]["detail"].is_null(), "of many, none opens by itself");

        let asked = Asked::parse("filter=DRONE-7&rank=warning&open=station/drone-700&open=nobody");
        let shown = show(&fleet, 8, &asked);
        assert_eq!((&shown["matching"], shown["drones"].as_array().unwrap().len()), (&json!(1), 1));
        assert_eq!(shown["drones"][0]["detail"]["paths"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_query_of_nonsense_is_bounded() {
        let many = "open=x&rank=y&rows=many&".repeat(1_000) + "filter=" + &"z".repeat(100_000);
        let asked = Asked::parse(&many);
        assert_eq!(asked.open.unwrap().len(), OPEN_AT_MOST);
        assert_eq!((asked.ranks.len(), asked.rows), (5, 40));
        assert!(asked.filter.len() <= LONGEST);
        assert_eq!(Asked::parse("rows=4294967295").rows, SHOWN_AT_MOST);
        assert_eq!(Asked::parse("chosen=1").open, Some(Vec::new()));
    }
}
