//! The report as a table for people: first what is wrong, then the figures.

use std::fmt::Write;

use super::{ClassReport, MessageReport, PathReport, PeerReport, Report};

/// Lays the report out; columns are as wide as what stands in them.
pub(crate) fn table(report: &Report) -> String {
    let mut text = String::new();
    let up = span(report.uptime_s);
    let _ =
        writeln!(text, "{} {}, up {up}, key {}", report.role, report.version, report.public_key);
    for peer in &report.peers {
        text.push('\n');
        text += &peer_text(peer);
    }
    if !report.endpoints.is_empty() {
        text.push('\n');
        text += &endpoints_text(report);
    }
    if let Some(tunnel) = &report.tunnel {
        let _ = write!(
            text,
            "\ntunnel {}: {} packets out, {} in",
            tunnel.interface, tunnel.out_packets, tunnel.in_packets
        );
        for (count, what) in [
            (tunnel.unrouted, "to nobody"),
            (tunnel.spoofed, "from a wrong address"),
            (tunnel.too_large, "too large"),
            (tunnel.refused, "turned away"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        text.push('\n');
    }
    let strangers = &report.strangers;
    if strangers.garbage + strangers.limited > 0 {
        let _ = writeln!(
            text,
            "\nstrangers: {} datagrams were not ours, {} over the limits on handshakes",
            strangers.garbage, strangers.limited
        );
    }
    text
}

/// Lays rows out, each column as wide as what stands in it.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or(0);
            let _ = write!(line, "{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

pub(crate) fn milliseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ms") } else { format!("{value:.0} ms") }
}

pub(crate) fn rate(mbps: f64) -> String {
    if mbps >= 10.0 {
        format!("{mbps:.0} Mbit/s")
    } else if mbps >= 0.1 {
        format!("{mbps:.2} Mbit/s")
    } else {
        format!("{:.1} kbit/s", mbps * 1e3)
    }
}

fn peer_text(peer: &PeerReport) -> String {
    let mut text = format!("{}: ", peer.name);
    match peer.session_s {
        Some(seconds) if peer.connected => {
            let _ = write!(text, "connected for {}", span(seconds));
        }
        _ => text += "not connected",
    }
    if let (Some(offset), Some(error)) = (peer.clock_offset_ms, peer.clock_error_ms) {
        let _ = write!(text, ", clock {offset:+.1} ms (± {error:.1})");
    }
    if peer.rejected_datagrams > 0 {
        let _ = write!(text, ", {} datagrams rejected", peer.rejected_datagrams);
    }
    text.push('\n');
    if !peer.trouble.is_empty() {
        let _ = writeln!(text, "  ! {}", peer.trouble);
    }
    let mut rows = vec![words(&[
        "path",
        "state",
        "rtt",
        "±",
        "loss",
        "burst",
        "out",
        "in",
        "can carry",
        "mtu",
        "what is wrong",
    ])];
    rows.extend(peer.paths.iter().map(path_row));
    text += &columns(&rows);
    let used: Vec<&ClassReport> =
        peer.classes.iter().filter(|class| class.submitted + class.delivered > 0).collect();
    if !used.is_empty() {
        let mut rows = vec![words(&[
            "class",
            "sent",
            "copies",
            "dropped",
            "received",
            "duplicates",
            "late",
            "p50",
            "p95",
            "p99",
            "max",
        ])];
        rows.extend(used.into_iter().map(class_row));
        text += &columns(&rows);
    }
    text + &messages_text(&peer.messages)
}

/// Tells in two lines what message delivery has sent and received; nothing while it is not used.
fn messages_text(messages: &MessageReport) -> String {
    let mut text = String::new();
    if messages.submitted > 0 {
        let extra = messages.repair_symbols + messages.resent_symbols;
        let _ = writeln!(
            text,
            "  messages out: {} handed in, {} bytes wait, {} too late; {} symbols, {} repair and {} \
             again (+{:.0} %)",
            messages.submitted,
            messages.waiting_bytes,
            messages.expired,
            messages.source_symbols,
            messages.repair_symbols,
            messages.resent_symbols,
            100.0 * extra as f64 / messages.source_symbols.max(1) as f64,
        );
    }
    if messages.delivered + messages.skipped > 0 {
        let _ = writeln!(
            text,
            "  messages in: {} delivered, {} skipped; {} of {} symbols decoded; mean delay: division \
             {} + coding {} + way {} + decoding {} + order {}",
            messages.delivered,
            messages.skipped,
            messages.decoded_symbols,
            messages.received_symbols + messages.decoded_symbols,
            milliseconds(messages.division_ms),
            milliseconds(messages.encoding_ms),
            milliseconds(messages.end_to_end_ms),
            milliseconds(messages.decoding_ms),
            milliseconds(messages.reconstruction_ms),
        );
    }
    text
}

fn path_row(path: &PathReport) -> Vec<String> {
    let millis = |value: Option<f64>| value.map_or("–".into(), milliseconds);
    let mut figures = vec![
        millis(path.srtt_ms),
        millis(path.rttvar_ms),
        format!("{:.1} %", path.loss_percent),
        format!("{:.1}", path.burst),
        rate(path.out_mbps),
        rate(path.in_mbps),
        rate(path.delivery_rate_mbps),
        path.mtu.to_string(),
    ];
    if path.state == "absent" {
        figures.fill("–".into());
    }
    let trouble = if path.trouble.is_empty() { "ok".into() } else { path.trouble.clone() };
    let named = [path.name.clone(), path.state.clone()].into_iter();
    named.chain(figures).chain([trouble]).collect()
}

fn class_row(class: &ClassReport) -> Vec<String> {
    let mut row = vec![class.class.clone()];
    row.extend(
        [
            class.submitted,
            class.copies_sent,
            class.dropped,
            class.delivered,
            class.duplicates,
            class.late,
        ]
        .map(|count| count.to_string()),
    );
    row.extend(
        [class.delay_p50_ms, class.delay_p95_ms, class.delay_p99_ms, class.delay_max_ms]
            .map(milliseconds),
    );
    row
}

fn endpoints_text(report: &Report) -> String {
    let mut rows = vec![words(&[
        "endpoint", "peer", "channel", "taken", "refused", "given", "dropped", "what",
    ])];
    for endpoint in &report.endpoints {
        let counts = [endpoint.taken, endpoint.refused, endpoint.given, endpoint.dropped];
        let stream = endpoint.stream.map_or(String::new(), |stream| format!("/{stream}"));
        let channel = format!("{}{stream}", endpoint.channel);
        let mut row = vec![endpoint.name.clone(), endpoint.peer.clone(), channel];
        row.extend(counts.map(|count| count.to_string()));
        row.push(endpoint.description.clone());
        rows.push(row);
    }
    columns(&rows)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_says_what_is_wrong_with_which_path() {
        let wifi = PathReport {
            name: "wifi".into(),
            state: "suspected".into(),
            trouble: "silent for 4.2 s: dead or out of range".into(),
            ..PathReport::default()
        };
        let lte = PathReport {
            name: "lte".into(),
            state: "active".into(),
            srtt_ms: Some(71.3),
            rttvar_ms: Some(4.25),
            out_mbps: 3.2,
            mtu: 1_372,
            ..PathReport::default()
        };
        let peer = PeerReport {
            name: "ground".into(),
            connected: true,
            session_s: Some(192.0),
            trouble: "only one path works: nothing is left if it fails".into(),
            paths: vec![wifi, lte],
            classes: vec![ClassReport {
                class: "control".into(),
                submitted: 3,
                ..Default::default()
            }],
            messages: MessageReport {
                submitted: 10,
                source_symbols: 20,
                repair_symbols: 4,
                resent_symbols: 1,
                delivered: 9,
                end_to_end_ms: 50.4,
                reconstruction_ms: 2.0,
                ..MessageReport::default()
            },
            ..PeerReport::default()
        };
        let report = Report { role: "drone".into(), peers: vec![peer], ..Report::default() };
        let text = table(&report);
        let line = |word: &str| {
            text.lines().find(|line| line.trim_start().starts_with(word)).unwrap().to_owned()
        };
        assert_eq!(line("ground"), "ground: connected for 3 min 12 s");
        assert!(line("!").contains("only one path works"));
        assert!(line("wifi").ends_with("silent for 4.2 s: dead or out of range"));
        assert!(line("lte").contains("71 ms") && line("lte").ends_with("ok"));
        assert!(line("control").contains('3'));
        assert!(line("messages out").ends_with("20 symbols, 4 repair and 1 again (+25 %)"));
        assert!(line("messages in").ends_with("way 50 ms + decoding 0.0 ms + order 2.0 ms"));
    }
}
