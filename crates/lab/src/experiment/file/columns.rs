//! `figures`: the columns of a file's table.

use toml_keys::{Section, did_you_mean};

use super::mixed_blackout;
use super::streams::{KINDS, Streams};
use crate::experiment::streams::figures::{
    CONTROL_DUPLICATES, CONTROL_GAP_WHOLE_RUN, CONTROL_MAX, FLIGHT_LOST, FLIGHT_P99, LIVE_AGE_MAX,
    LIVE_AGE_P50, LIVE_AGE_P99, OF_FLOW, VIDEO_FRAMES, VIDEO_SHARE,
};
use crate::experiment::streams::workload::Flow;
use crate::figure::Figure;

/// Keys and titles of a table.
pub(super) type Columns = Vec<(String, String)>;

/// Figures that a result has beside those of the table of `mixed-blackout`.
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

/// Columns of each flow with a name, unless said: lost, late and the 99th percentile.
const USUAL_OF_FLOW: [Figure; 3] = [OF_FLOW[1], OF_FLOW[2], OF_FLOW[7]];

/// Reads the columns: the scheme, and the figures asked for, of which the file must have the streams;
/// else those of `mixed-blackout` that it has.
pub(super) fn read(root: &Section<'_>, streams: &Streams) -> Columns {
    let kinds = &streams.kinds;
    let known: Columns = mixed_blackout::DESCRIPTION
        .columns()
        .into_iter()
        .chain(FIGURES.iter().map(Figure::column))
        .collect();
    let mut columns = Vec::new();
    let asked: Vec<String> = root.list("figures", "the name of a figure");
    for key in &asked {
        if let Some(of_flow) = key.strip_prefix("streams.") {
            match flow_title(of_flow, &streams.workload.flows) {
                Ok(title) => columns.push((key.clone(), title)),
                Err(what) => root.wrong("figures", format!("{key:?}: {what}")),
            }
            continue;
        }
        let bare = key.strip_prefix("up.").or_else(|| key.strip_prefix("down.")).unwrap_or(key);
        let both = bare == key;
        let is_known = |known: &str| {
            known == bare && (if both { !of_flight(known) } else { has_directions(known) })
        };
        match known.iter().find(|(known, _)| is_known(known)) {
            Some((known, title)) => match lacking(known, kinds) {
                Some(kind) => {
                    let what = format!("{key:?} needs a stream of kind {kind:?}{}", goes(kind));
                    root.wrong("figures", what);
                }
                None if both => columns.push((key.clone(), title.clone())),
                None => columns.push((key.clone(), key.clone())),
            },
            None => root.wrong("figures", unknown(key, &known)),
        }
    }
    if asked.is_empty() {
        let there = |(key, _): &(String, String)| lacking(key, kinds).is_none();
        let own = mixed_blackout::DESCRIPTION.columns().into_iter().filter(there);
        let of_flow = |flow: &Flow| {
            let column = |figure: &Figure| {
                let (key, title) = figure.column();
                (format!("streams.{}.{key}", flow.name), format!("{} {title}", flow.name))
            };
            USUAL_OF_FLOW.each_ref().map(column)
        };
        return own.chain(streams.workload.flows.iter().flat_map(of_flow)).collect();
    }
    columns.insert(0, known[0].clone());
    columns
}

/// Returns the title of a figure of a flow, such as `uplink.p99_ms` and `pilot.up.lost`.
fn flow_title(key: &str, flows: &[Flow]) -> Result<String, String> {
    let names: Vec<&str> = flows.iter().map(|flow| &flow.name[..]).collect();
    let (name, rest) = key.split_once('.').unwrap_or((key, ""));
    let Some(flow) = flows.iter().find(|flow| flow.name == name) else {
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let meant = did_you_mean(name, &names);
        return Err(format!("no stream has the name {name:?}; there are {there}{meant}"));
    };
    let figure = match rest.split_once('.') {
        Some(("up" | "down", figure)) if flow.way.is_none() => figure,
        _ => rest,
    };
    match OF_FLOW.iter().find(|known| known.key == figure) {
        Some(known) if figure == rest => Ok(format!("{name} {}", known.column().1)),
        Some(_) => Ok(key.to_owned()),
        None => {
            let keys = OF_FLOW.map(|known| known.key);
            let (all, meant) = (keys.join(", "), did_you_mean(figure, &keys));
            Err(format!("{rest:?} is none of {all}{meant}"))
        }
    }
}

/// Returns the kind of stream that a figure is of, where the file has none.
fn lacking(figure: &str, kinds: &[&str]) -> Option<&'static str> {
    let of = |kind: &&super::streams::Kind| {
        kind.figures.iter().any(|beginning| figure.starts_with(beginning))
    };
    let kind = KINDS.iter().find(of)?.word;
    (!kinds.contains(&kind)).then_some(kind)
}

/// Says which way the stream of a kind goes that the kind's figures are of.
fn goes(kind: &str) -> &'static str {
    if kind == "video" { " from the drone" } else { " that goes both ways" }
}

/// Tells whether a figure is one of the flight, which each direction has by itself.
fn of_flight(key: &str) -> bool {
    key.starts_with("mavlink.")
}

/// Tells whether a figure can be had of one direction.
fn has_directions(key: &str) -> bool {
    of_flight(key) || key.starts_with("control_")
}

/// Says which figures there are.
fn unknown(key: &str, known: &[(String, String)]) -> String {
    let keys: Vec<&str> = known.iter().skip(1).map(|(key, _)| &key[..]).collect();
    let meant = did_you_mean(key, &keys);
    let (flight, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| of_flight(key));
    let flight: Vec<String> = flight.iter().map(|key| format!("up.{key}, down.{key}")).collect();
    format!(
        "{key:?} is none of {}; those of control also with up. or down. before them; {}{meant}",
        others.join(", "),
        flight.join(", ")
    )
}
