//! The report as a table for people: first what is wrong, then the figures.

use std::fmt::Write;

use super::{
    ClassReport, DelayReport, EndpointReport, MessageReport, MessageStreamReport,
    NotForwardedReport, PathReport, PeerReport, Report,
};

/// Streams of messages that a table shows of each peer; JSON has them all.
const STREAMS_SHOWN: usize = 16;

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
            "\nstrangers: {} datagrams were not ours, {} over the limits on handshakes, which took \
             {:.1} s of the processor",
            strangers.garbage, strangers.limited, strangers.processor_s
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
    if peer.late_datagrams + peer.dropped_datagrams > 0 {
        let _ = write!(
            text,
            ", {:.1} s of the processor: {} datagrams served late, {} dropped",
            peer.processor_s, peer.late_datagrams, peer.dropped_datagrams
        );
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
            "replaced",
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
    text += &not_forwarded_text(&peer.not_forwarded);
    text + &messages_text(&peer.messages) + &streams_text(&peer.message_streams)
}

/// Tells in a line for each channel what of MAVLink was kept back.
fn not_forwarded_text(rows: &[NotForwardedReport]) -> String {
    let mut text = String::new();
    for rows in rows.chunk_by(|one, next| one.channel == next.channel) {
        let from = match rows[0].channel {
            0 => "the tunnel".to_owned(),
            channel => format!("channel {channel}"),
        };
        let counts: Vec<_> = rows.iter().map(|row| format!("{} {}", row.count, row.what)).collect();
        let _ = writeln!(text, "  not forwarded from {from}: {}", counts.join(", "));
    }
    text
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
            "  messages in: {} delivered, {} skipped; {} of {} symbols decoded",
            messages.delivered,
            messages.skipped,
            messages.decoded_symbols,
            messages.received_symbols + messages.decoded_symbols,
        );
    }
    text
}

/// Tells of each stream what it sent and received, and where the mean delay of what came in arose.
fn streams_text(streams: &[MessageStreamReport]) -> String {
    if streams.is_empty() {
        return String::new();
    }
    let mut rows = vec![words(&[
        "messages",
        "channel",
        "order",
        "sent",
        "waiting",
        "too late",
        "received",
        "skipped",
        "delay",
        "= division",
        "+ coding",
        "+ way",
        "+ decoding",
        "+ order",
    ])];
    rows.extend(streams.iter().take(STREAMS_SHOWN).map(stream_row));
    let mut text = columns(&rows);
    if let Some(more) = streams.len().checked_sub(STREAMS_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more streams of messages; --json shows all");
    }
    text
}

fn stream_row(stream: &MessageStreamReport) -> Vec<String> {
    let name = if stream.name.is_empty() { "(no endpoint)" } else { &stream.name };
    let channel = format!("{}/{}", stream.channel, stream.stream);
    let mut row = vec![name.to_owned(), channel, stream.order.clone()];
    let dash = || "–".to_owned();
    if stream.direction == "in" {
        row.extend([dash(), dash(), dash()]);
    } else {
        row.extend([stream.sent.to_string(), bytes(stream.waiting_bytes)]);
        row.push(stream.expired.to_string());
    }
    if stream.direction == "out" {
        row.extend([dash(), dash()]);
    } else {
        row.extend([stream.delivered.to_string(), stream.skipped.to_string()]);
    }
    let DelayReport { division_ms, encoding_ms, end_to_end_ms, decoding_ms, reconstruction_ms } =
        stream.delay;
    let parts = [division_ms, encoding_ms, end_to_end_ms, decoding_ms, reconstruction_ms];
    if stream.delivered > 0 {
        row.push(milliseconds(parts.iter().sum()));
        row.extend(parts.map(milliseconds));
    } else {
        row.extend(std::iter::repeat_with(dash).take(1 + parts.len()));
    }
    row
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
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
        path.can_carry_mbps.map_or("–".into(), rate),
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
            class.superseded,
            class.delivered,
            class.duplicates,
            class.late,
        ]
        .map(|count| count.to_string()),
    );
    row.extend(
        [class.delay_p50_ms, class.delay_p95_ms, class.delay_p99_ms, class.delay_max_ms]
            .map(|value| value.map_or("–".into(), milliseconds)),
    );
    row
}

fn endpoints_text(report: &Report) -> String {
    let mut rows = vec![words(&[
        "endpoint", "peer", "channel", "taken", "refused", "given", "dropped", "filtered", "what",
    ])];
    for endpoint in &report.endpoints {
        let EndpointReport { taken, refused, given, dropped, filtered, .. } = endpoint;
        let counts = [taken, refused, given, dropped, filtered];
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
            processor_s: 2.54,
            late_datagrams: 7,
            dropped_datagrams: 1,
            not_forwarded: vec![
                NotForwardedReport { channel: 1, what: "SETUP_SIGNING".into(), count: 2 },
                NotForwardedReport { channel: 1, what: "broken frames".into(), count: 3 },
            ],
            classes: vec![ClassReport {
                class: "control".into(),
                submitted: 3,
                superseded: 2,
                ..Default::default()
            }],
            messages: MessageReport {
                submitted: 10,
                source_symbols: 20,
                repair_symbols: 4,
                resent_symbols: 1,
                delivered: 9,
                received_symbols: 18,
                decoded_symbols: 2,
                ..MessageReport::default()
            },
            ..PeerReport::default()
        };
        let report = Report { role: "drone".into(), peers: vec![peer], ..Report::default() };
        let text = table(&report);
        let line = |word: &str| {
            text.lines().find(|line| line.trim_start().starts_with(word)).unwrap().to_owned()
        };
        let heading = "ground: connected for 3 min 12 s, 2.5 s of the processor: 7 datagrams served late, \
                       1 dropped";
        assert_eq!(line("ground"), heading);
        assert!(line("!").contains("only one path works"));
        assert!(line("wifi").ends_with("silent for 4.2 s: dead or out of range"));
        assert!(line("lte").contains("71 ms") && line("lte").ends_with("ok"));
        let control = line("control");
        let cells: Vec<_> = control.split_whitespace().collect();
        assert_eq!(cells, ["control", "3", "0", "0", "2", "0", "0", "0", "–", "–", "–", "–"]);
        let kept = "not forwarded from channel 1: 2 SETUP_SIGNING, 3 broken frames";
        assert_eq!(line("not forwarded").trim(), kept);
        assert!(line("messages out").ends_with("20 symbols, 4 repair and 1 again (+25 %)"));
        assert!(line("messages in").ends_with("9 delivered, 0 skipped; 2 of 20 symbols decoded"));
    }

    #[test]
    fn table_shows_of_each_stream_where_its_delay_arises() {
        let maps = MessageStreamReport {
            name: "maps".into(),
            channel: 31,
            stream: 2,
            order: "in-order".into(),
            direction: "both".into(),
            sent: 7,
            waiting_bytes: 1_048_576,
            delivered: 9,
            skipped: 1,
            delay: DelayReport {
                division_ms: 4.0,
                end_to_end_ms: 50.4,
                decoding_ms: 3.5,
                reconstruction_ms: 12.3,
                ..DelayReport::default()
            },
            ..MessageStreamReport::default()
        };
        let out = MessageStreamReport { direction: "out".into(), expired: 3, ..Default::default() };
        let shown = |streams: Vec<MessageStreamReport>| {
            let text = streams_text(&streams);
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.map(|words| words.join(" ")).collect::<Vec<String>>()
        };
        let lines = shown(vec![maps.clone(), out]);
        assert_eq!(
            lines[1],
            "maps 31/2 in-order 7 1048 kB 0 9 1 70 ms 4.0 ms 0.0 ms 50 ms 3.5 ms 12 ms"
        );
        assert_eq!(lines[2], "(no endpoint) 0/0 0 0 B 3 – – – – – – – –");
        assert_eq!(shown(Vec::new()), Vec::<String>::new());
        let many = shown(vec![maps; STREAMS_SHOWN + 5]);
        assert_eq!(many.len(), 1 + STREAMS_SHOWN + 1);
        assert!(many.last().is_some_and(|line| line.starts_with("and 5 more")));
    }
}
