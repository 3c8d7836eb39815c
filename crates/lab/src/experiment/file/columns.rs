//! `figures`: the columns of a file's table.

use toml_keys::{Section, did_you_mean};

use super::mixed_blackout;
use super::streams::{KINDS, Kind, Streams};
use crate::experiment::streams::blackout::Blackout;
use crate::experiment::streams::figures::{
    CONTROL_DUPLICATES, CONTROL_GAP_WHOLE_RUN, CONTROL_MAX, FLIGHT_LOST, FLIGHT_P99, LIVE_AGE_MAX,
    LIVE_AGE_P50, LIVE_AGE_P99, OF_FLOW, USUAL_OF_FLOW, VIDEO_FRAMES, VIDEO_GOODPUT_WIFI_DEAD,
    VIDEO_SHARE, WIRE_TO_REDUNDANT,
};
use crate::experiment::streams::workload::Flow;
use crate::figure::Figure;
use crate::scheme::Scheme;

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

/// Reads the columns: the scheme, and the figures asked for, of which the file must have the
/// streams; else those of `mixed-blackout` that it has.
///
/// Where a file has several streams of a kind, the kind's figures say of which one they are.
///
/// Also tells whether any were asked for.
pub(super) fn read(root: &Section<'_>, streams: &Streams) -> (Columns, bool) {
    let kinds = &streams.kinds;
    let titled = |(key, title): (String, String)| {
        let which = kind_of(without_direction(&key)).and_then(|kind| streams.which(kind.word));
        let title = which.map_or(title.clone(), |which| format!("{title} ({which})"));
        (key, title)
    };
    let usual = || mixed_blackout::DESCRIPTION.columns().into_iter().map(titled);
    let known: Columns = usual().chain(FIGURES.iter().map(Figure::column).map(titled)).collect();
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
        let bare = without_direction(key);
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
                None => columns.push(titled((key.clone(), key.clone()))),
            },
            None => root.wrong("figures", unknown(key, &known)),
        }
    }
    if asked.is_empty() {
        if root.is_empty_list("figures") {
            root.wrong("figures", "is empty: name some, or leave it out for the usual ones");
        }
        let there = |(key, _): &(String, String)| lacking(key, kinds).is_none();
        let own = usual().filter(there);
        let of_flow = |flow: &Flow| {
            let column = |figure: &Figure| {
                let (key, title) = figure.column();
                (format!("streams.{}.{key}", flow.name), format!("{} {title}", flow.name))
            };
            USUAL_OF_FLOW.each_ref().map(column)
        };
        return (own.chain(streams.workload.flows.iter().flat_map(of_flow)).collect(), false);
    }
    columns.insert(0, known[0].clone());
    (columns, true)
}

/// Reports figures asked for that no point of the run can have: `scene` is none where it varies.
pub(super) fn check(
    root: &Section<'_>,
    columns: &Columns,
    schemes: &[Scheme],
    scene: Option<&Blackout>,
) {
    let asked = |figure: Figure| columns.iter().any(|(key, _)| *key == figure.path());
    if asked(WIRE_TO_REDUNDANT) && !schemes.is_empty() && !schemes.contains(&Scheme::REDUNDANT) {
        let what = format!("{:?} needs the scheme {}", WIRE_TO_REDUNDANT.key, Scheme::REDUNDANT);
        root.wrong("figures", what);
    }
    if asked(VIDEO_GOODPUT_WIFI_DEAD) && scene.is_some_and(|scene| scene.dead.is_none()) {
        let what = format!(
            "{:?} needs the links of mixed-blackout: \"wifi\", silently out once within seconds, and \
             \"lte\", which stalls once",
            VIDEO_GOODPUT_WIFI_DEAD.key
        );
        root.wrong("figures", what);
    }
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
    let kind = kind_of(figure)?.word;
    (!kinds.contains(&kind)).then_some(kind)
}

/// Returns the kind of stream that a figure is of; none where it is of the run.
fn kind_of(figure: &str) -> Option<&'static Kind> {
    let of = |kind: &&Kind| kind.figures.iter().any(|beginning| figure.starts_with(beginning));
    KINDS.iter().find(of)
}

/// Says which way the stream goes that a kind's figures describe.
fn goes(kind: &str) -> &'static str {
    if kind == "video" { " from the drone" } else { " that goes both ways" }
}

/// Returns the name of a figure that may be one of a direction.
fn without_direction(key: &str) -> &str {
    key.strip_prefix("up.").or_else(|| key.strip_prefix("down.")).unwrap_or(key)
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
