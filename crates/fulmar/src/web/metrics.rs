//! Metrics for Prometheus, made from the declaration of the status report: a field that is added
//! there is here too.
//!
//! Their names follow Prometheus's conventions: `fulmar_`, the section, the field, the base unit
//! (seconds, bytes, ratio, bytes per second), and `_total` for what only grows. A state is a metric
//! of the value 1 whose label is the state; `trouble` is 1 where something is wrong. What is not
//! known is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::status::{Field, Kind, Report, Section};

/// A section of the report: its place there, the words of its metrics, and the labels that name
/// one, with their fields.
type Scope = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SCOPES: &[Scope] = &[
    ("", "", &[]),
    (".peers", "peer", &[("peer", "name")]),
    (".peers.rejected", "peer_rejected", &[]),
    (".peers.vehicles", "vehicle", &[("system", "system")]),
    (".peers.far_endpoints", "far_endpoint", &[("endpoint", "name"), ("autopilot", "autopilot")]),
    (".peers.paths", "path", &[("path", "name"), ("interface", "interface")]),
    (".peers.classes", "class", &[("class", "class")]),
    (".peers.reliability", "reliability", &[("target", "name"), ("channel", "channel")]),
    (".peers.tcp", "tunnel_tcp", &[]),
    (".peers.not_forwarded", "not_forwarded", &[("channel", "channel"), ("what", "what")]),
    (".peers.messages", "messages", &[]),
    (
        ".peers.message_streams",
        "message_stream",
        &[("name", "name"), ("channel", "channel"), ("stream", "stream")],
    ),
    (".endpoints", "endpoint", &[("endpoint", "name"), ("peer", "peer")]),
    (".tunnel", "tunnel", &[("interface", "interface")]),
    (".strangers", "strangers", &[]),
    (".memory", "memory", &[]),
    (".reload", "reload", &[]),
    (".record", "record", &[]),
    (".relays", "relay", &[("relay", "name"), ("node", "node")]),
    (".relays.members", "relay_member", &[("member", "name")]),
    (".relays.refused", "relay_refused", &[]),
    (".relays.sent", "relay_sent", &[]),
    (".relays.received", "relay_received", &[]),
    (".relays.relayed", "relay_relayed", &[]),
];

/// A metric: its type, its help, and its samples, each by its labels.
struct Family {
    kind: &'static str,
    help: String,
    samples: Vec<(Rc<str>, f64)>,
}

/// All metrics, by name.
#[derive(Default)]
struct Families {
    all: BTreeMap<String, Family>,
    /// The things that were added, by their words and labels: two of the same would make the whole
    /// answer worthless.
    things: BTreeSet<(&'static str, Rc<str>)>,
}

/// Writes the metrics of daemons: each with its name, its report if it answers, and how long the
/// answer took.
pub(super) fn text(daemons: &[(String, Option<Arc<Report>>, Duration)]) -> String {
    let mut families = Families::default();
    for (name, report, took) in daemons {
        let labels: Rc<str> = labelled("", "daemon", name).into();
        let up = f64::from(u8::from(report.is_some()));
        add(&mut families, "fulmar_up", ("gauge", "Whether the daemon answers."), &labels, up);
        let Some(report) = report else { continue };
        let help = "Time that the daemon's last answer took.";
        let took = took.as_secs_f64();
        add(&mut families, "fulmar_answer_seconds", ("gauge", help), &labels, took);
        let info = labelled(&labels, "version", &report.version);
        let info = labelled(&info, "role", &report.role).into();
        add(&mut families, "fulmar_info", ("gauge", "Version and role of the daemon."), &info, 1.0);
        if let Ok(value) = serde_json::to_value(&**report) {
            add_section(&mut families, "", &Report::SECTION, &value, &labels);
        }
    }
    let mut text = String::new();
    for (name, family) in &families.all {
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}", family.help, family.kind);
        for (labels, value) in &family.samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

/// Adds what a section says, and those within it; `labels` name the thing around it.
fn add_section(
    families: &mut Families,
    place: &str,
    section: &Section,
    value: &Value,
    labels: &str,
) {
    let Some((_, words, own)) = SCOPES.iter().find(|(known, ..)| *known == place) else { return };
    if !value.is_object() {
        return;
    }
    let mut labels = labels.to_owned();
    for (label, field) in *own {
        labels = labelled(&labels, label, &shown(&value[*field]));
    }
    let labels: Rc<str> = labels.into();
    if families.things.insert((words, labels.clone())) {
        add_fields(families, place, words, section, value, &labels);
    }
}

fn add_fields(
    families: &mut Families,
    place: &str,
    words: &str,
    section: &Section,
    value: &Value,
    labels: &Rc<str>,
) {
    for field in section.fields {
        let (inner, at) = (&value[field.name], format!("{place}.{}", field.name));
        match field.kind {
            Kind::Flat(section) => add_fields(families, place, words, section, value, labels),
            Kind::Part(section) => add_section(families, &at, section, inner, labels),
            Kind::List(section) => {
                for item in inner.as_array().into_iter().flatten() {
                    add_section(families, &at, section, item, labels);
                }
            }
            _ => add_field(families, words, field, inner, labels),
        }
    }
}

/// Adds what a field says, if it is a figure or a state.
fn add_field(families: &mut Families, words: &str, field: &Field, value: &Value, labels: &Rc<str>) {
    let Some(name) = metric_name(words, field) else { return };
    let (kind, factor) = match field.kind {
        Kind::Counter(unit) => ("counter", base_unit(unit).1),
        Kind::Gauge(unit) => ("gauge", base_unit(unit).1),
        _ => ("gauge", 1.0),
    };
    let of_label = format!("{}=\"", field.name);
    let (value, labels) = match value {
        Value::Number(number) => (number.as_f64().unwrap_or_default() * factor, labels.clone()),
        Value::Bool(is) => (f64::from(u8::from(*is)), labels.clone()),
        Value::String(trouble) if field.name == "trouble" => {
            (f64::from(u8::from(!trouble.is_empty())), labels.clone())
        }
        // A state that is the thing's name already, such as a class, says nothing more.
        Value::String(state) if !state.is_empty() && !labels.contains(&of_label) => {
            (1.0, labelled(labels, field.name, state).into())
        }
        _ => return,
    };
    add(families, &name, (kind, field.help), &labels, value);
}

/// Names the metric of a field; none where it is text.
fn metric_name(words: &str, field: &Field) -> Option<String> {
    let (unit, is_counter) = match field.kind {
        Kind::Counter(unit) => (base_unit(unit).0, true),
        Kind::Gauge(unit) => (base_unit(unit).0, false),
        Kind::State => ("", false),
        Kind::Text if field.name == "trouble" => ("", false),
        _ => return None,
    };
    let field_name = match field.name {
        // The count of a section is the section's own.
        "count" => "",
        name => ["_ms", "_s", "_percent", "_mbps"]
            .into_iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name),
    };
    let has_unit = words.split('_').chain(field_name.split('_')).any(|word| word == unit);
    let unit = if has_unit { "" } else { unit };
    let total = if is_counter { "total" } else { "" };
    let parts = ["fulmar", words, field_name, unit, total];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(parts.join("_"))
}

/// Returns the base unit of a unit of the report, and how many of it that is.
fn base_unit(unit: &'static str) -> (&'static str, f64) {
    match unit {
        "s" => ("seconds", 1.0),
        "ms" => ("seconds", 1e-3),
        "%" => ("ratio", 1e-2),
        "Mbit/s" => ("bytes_per_second", 1e6 / 8.0),
        "times" => ("", 1.0),
        // What is counted: bytes, datagrams, packets …
        other => (other, 1.0),
    }
}

fn add(
    families: &mut Families,
    name: &str,
    (kind, help): (&'static str, &str),
    labels: &Rc<str>,
    value: f64,
) {
    if !families.all.contains_key(name) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        families.all.insert(name.into(), Family { kind, help, samples: Vec::new() });
    }
    if let Some(family) = families.all.get_mut(name) {
        family.samples.push((labels.clone(), value));
    }
}

/// Adds a label.
fn labelled(labels: &str, name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let comma = if labels.is_empty() { "" } else { "," };
    format!("{labels}{comma}{name}=\"{value}\"")
}

/// Shows a value that is a name.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::status::{
        ClassReport, EndpointReport, FarEndpointReport, MessageStreamReport, NotForwardedReport,
        PathReport, PeerReport, ReliabilityReport, TunnelReport,
    };

    /// A path, with a name that would break out of a label.
    fn path() -> PathReport {
        PathReport {
            name: "a\"} 1\n# \\".into(),
            state: "active".into(),
            srtt_ms: Some(25.0),
            loss_percent: 12.0,
            out_mbps: 8.0,
            min_rtt_ms: Some(1.0),
            rttvar_ms: Some(1.0),
            can_carry_mbps: Some(1.0),
            silent_ms: Some(1.0),
            unanswered_ms: Some(1.0),
            sent_bytes: 1_200,
            suspicions: 3,
            ..PathReport::default()
        }
    }

    /// A station that has everything.
    fn report() -> Report {
        let path = path();
        let class = ClassReport {
            class: "control".into(),
            delay_p50_ms: Some(1.0),
            delay_p95_ms: Some(1.0),
            delay_p99_ms: Some(7.0),
            delay_max_ms: Some(1.0),
            ..ClassReport::default()
        };
        let kept = ReliabilityReport {
            name: "control".into(),
            state: "not reachable".into(),
            predicted: Some(0.5),
            achieved: Some(0.5),
            proven: Some(0.5),
            open: Some(0.5),
            clock_error_ms: Some(1.0),
            copies_per_message: Some(1.0),
            saved_percent: Some(1.0),
            more_links: Some(1),
            ..ReliabilityReport::default()
        };
        let peer = PeerReport {
            name: "drone-1".into(),
            far_endpoints: vec![FarEndpointReport {
                state: "missing".into(),
                ..Default::default()
            }],
            connected: true,
            trouble: "only one path works".into(),
            session_s: Some(1.0),
            ended_s: Some(1.0),
            clock_offset_ms: Some(1.0),
            clock_error_ms: Some(1.0),
            // The same twice: the answer must stay valid.
            paths: vec![path.clone(), path],
            classes: vec![class],
            reliability: vec![kept],
            not_forwarded: vec![NotForwardedReport::default()],
            message_streams: vec![MessageStreamReport {
                order: "in-order".into(),
                direction: "out".into(),
                ..Default::default()
            }],
            ..PeerReport::default()
        };
        let mut report = Report {
            role: "station".into(),
            version: "0.1.0".into(),
            peers: vec![peer],
            endpoints: vec![EndpointReport {
                state: "well".into(),
                heard_s: Some(1.0),
                ..Default::default()
            }],
            tunnel: Some(TunnelReport::default()),
            ..Report::default()
        };
        report.peers[0].tcp.form = "window".into();
        report.strangers.unknown_peers_last_s = Some(1.0);
        report.strangers.other_keys_last_s = Some(1.0);
        report
    }

    fn whole() -> String {
        let daemons = [
            ("station".into(), Some(Arc::new(report())), Duration::from_millis(4)),
            ("gone".into(), None, Duration::ZERO),
        ];
        text(&daemons)
    }

    #[test]
    fn figures_have_base_units_and_labels_that_nobody_breaks_out_of() {
        let text = whole();
        let path = r#"daemon="station",peer="drone-1",path="a\"} 1\n# \\",interface="""#;
        for line in [
            format!("fulmar_path_srtt_seconds{{{path}}} 0.025"),
            format!("fulmar_path_loss_ratio{{{path}}} 0.12"),
            format!("fulmar_path_out_bytes_per_second{{{path}}} 1000000"),
            format!("fulmar_path_sent_bytes_total{{{path}}} 1200"),
            format!("fulmar_path_suspicions_total{{{path}}} 3"),
            format!("fulmar_path_state{{{path},state=\"active\"}} 1"),
            r#"fulmar_class_delay_p99_seconds{daemon="station",peer="drone-1",class="control"} 0.007"#.into(),
            r#"fulmar_peer_trouble{daemon="station",peer="drone-1"} 1"#.into(),
            r#"fulmar_peer_connected{daemon="station",peer="drone-1"} 1"#.into(),
            r#"fulmar_up{daemon="gone"} 0"#.into(),
            r#"fulmar_events_total{daemon="station"} 0"#.into(),
        ] {
            assert_eq!(text.lines().filter(|told| **told == line).count(), 1, "{line}\n{text}");
        }
    }

    #[test]
    fn every_section_of_the_report_has_a_place_among_the_metrics() {
        fn look(place: &str, section: &Section) {
            assert!(SCOPES.iter().any(|(known, ..)| *known == place), "{place} has no scope");
            for field in section.fields {
                if let Kind::Part(inner) | Kind::List(inner) = field.kind {
                    look(&format!("{place}.{}", field.name), inner);
                }
            }
        }
        look("", &Report::SECTION);
    }

    /// The names that stand in a text.
    fn names(text: &str) -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c: char| !is_part(c));
        words.filter(|word| word.starts_with("fulmar_")).map(str::to_owned).collect()
    }

    #[test]
    fn dashboard_and_alerts_speak_of_metrics_that_there_are() {
        let text = whole();
        let known: BTreeSet<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        for file in ["grafana/fulmar.json", "prometheus/alerts.yml"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(file);
            let used = names(&std::fs::read_to_string(path).unwrap());
            assert!(used.len() >= 5, "{file}");
            let unknown: Vec<_> = used.difference(&known).collect();
            assert!(unknown.is_empty(), "{file} speaks of {unknown:?}");
        }
    }
}
