//! The report as a table for people: first what is wrong, then the figures.

use std::fmt::Write;

use super::layout::{Column, rows, wrapped};
use super::{
    ClassReport, DelayReport, EndpointReport, MessageReport, MessageStreamReport,
    NotForwardedReport, PathReport, PeerReport, ReliabilityReport, Report, StrangersReport,
    TcpReport, vehicle_words,
};

/// Streams of messages that a table shows of each peer; JSON has them all.
const STREAMS_SHOWN: usize = 16;

/// Stands where there is nothing to show.
pub(super) const NOTHING: &str = "–";

/// What a path carries over plain Ethernet at least: nothing is too long for it.
const ETHERNET: usize = 1_452;

const PATHS: &[Column<PathReport>] = &[
    ("path", |path| path.name.clone()),
    ("interface", interface),
    ("state", state),
    ("rtt", |path| figure(path, path.srtt_ms.map(milliseconds))),
    ("±", |path| figure(path, path.rttvar_ms.map(milliseconds))),
    ("loss out", |path| figure(path, Some(percent(path.loss_percent)))),
    ("loss in", |path| figure(path, Some(percent(path.loss_in_percent)))),
    ("burst", |path| figure(path, Some(format!("{:.1}", path.burst)))),
    ("out", |path| figure(path, Some(rate(path.out_mbps)))),
    ("in", |path| figure(path, Some(rate(path.in_mbps)))),
    ("can carry", |path| figure(path, path.can_carry_mbps.map(rate))),
    ("mtu", |path| figure(path, Some(fits(path)))),
    ("what is wrong", |path| if_any(&path.trouble, "ok")),
];

const CLASSES: &[Column<ClassReport>] = &[
    ("class", |class| class.class.clone()),
    ("sent", |class| class.submitted.to_string()),
    ("copies", |class| class.copies_sent.to_string()),
    ("dropped", |class| class.dropped.to_string()),
    ("replaced", |class| class.superseded.to_string()),
    ("received", |class| class.delivered.to_string()),
    ("duplicates", |class| class.duplicates.to_string()),
    ("late", |class| class.late.to_string()),
    ("p50", |class| or_nothing(class.delay_p50_ms.map(milliseconds))),
    ("p95", |class| or_nothing(class.delay_p95_ms.map(milliseconds))),
    ("p99", |class| or_nothing(class.delay_p99_ms.map(milliseconds))),
    ("max", |class| or_nothing(class.delay_max_ms.map(milliseconds))),
];

const TARGETS: &[Column<ReliabilityReport>] = &[
    ("target", |kept| kept.name.clone()),
    ("asked", |kept| format!("{} in {:.0} ms", share(kept.target), kept.deadline_ms)),
    ("state", |kept| kept.state.clone()),
    ("predicted", |kept| or_nothing(kept.predicted.map(share))),
    ("achieved", |kept| or_nothing(kept.achieved.map(share))),
    ("proven", |kept| or_nothing(kept.proven.map(share))),
    ("missed", |kept| kept.missed.to_string()),
    ("outages", |kept| kept.episodes.to_string()),
    ("copies", |kept| or_nothing(kept.copies_per_message.map(|copies| format!("{copies:.2}")))),
    ("saved", |kept| or_nothing(kept.saved_percent.map(percent))),
    ("what limits", |kept| if_any(&kept.limit, NOTHING)),
];

const STREAMS: &[Column<MessageStreamReport>] = &[
    ("messages", |stream| if_any(&stream.name, "(no endpoint)")),
    ("channel", |stream| format!("{}/{}", stream.channel, stream.stream)),
    ("order", |stream| stream.order.clone()),
    ("sent", |stream| outward(stream, stream.sent.to_string())),
    ("waiting", |stream| outward(stream, bytes(stream.waiting_bytes))),
    ("too late", |stream| outward(stream, stream.expired.to_string())),
    ("received", |stream| inward(stream, stream.delivered.to_string())),
    ("skipped", |stream| inward(stream, stream.skipped.to_string())),
    ("delay", |stream| delay(stream, whole_delay(&stream.delay))),
    ("= division", |stream| delay(stream, stream.delay.division_ms)),
    ("+ way", |stream| delay(stream, stream.delay.end_to_end_ms)),
    ("+ decoding", |stream| delay(stream, stream.delay.decoding_ms)),
    ("+ order", |stream| delay(stream, stream.delay.reconstruction_ms)),
];

const ENDPOINTS: &[Column<EndpointReport>] = &[
    ("endpoint", |endpoint| endpoint.name.clone()),
    ("peer", |endpoint| endpoint.peer.clone()),
    ("channel", |endpoint| {
        let stream = endpoint.stream.map_or(String::new(), |stream| format!("/{stream}"));
        format!("{}{stream}", endpoint.channel)
    }),
    ("taken", |endpoint| endpoint.taken.to_string()),
    ("refused", |endpoint| endpoint.refused.to_string()),
    ("given", |endpoint| endpoint.given.to_string()),
    ("dropped", |endpoint| endpoint.dropped.to_string()),
    ("filtered", |endpoint| endpoint.filtered.to_string()),
    ("too old", |endpoint| (endpoint.read_too_late + endpoint.too_old).to_string()),
    ("what", |endpoint| endpoint.description.clone()),
];

/// Tells whether a path that works is a backup that nothing calls for.
pub(super) fn is_in_reserve(path: &PathReport) -> bool {
    path.state == "active" && path.backup && path.in_use.is_empty()
}

/// Lays the report out, in lines of a width at most; nothing is cut off.
pub(crate) fn table(report: &Report, width: usize) -> String {
    wrapped(&sections(report, width), width)
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

/// Shows a time in the units that a person would say.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// Lists the counts that are not zero.
pub(super) fn counts(all: &[(u64, &str)]) -> String {
    let some = all.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = some.map(|(count, what)| format!("{count} {what}")).collect();
    words.join(", ")
}

pub(super) fn or_nothing(value: Option<String>) -> String {
    value.unwrap_or_else(|| NOTHING.to_owned())
}

/// Says what a path carries in one piece and, where that is little, how many datagrams went in
/// several: elsewhere it is those that left before it was known.
fn fits(path: &PathReport) -> String {
    match path.cut_datagrams {
        cut if cut > 0 && path.mtu < ETHERNET => format!("{}, {cut} cut", path.mtu),
        _ => path.mtu.to_string(),
    }
}

/// Names the interface, and what carries the path where that is not UDP.
fn interface(path: &PathReport) -> String {
    match path.carrier.as_str() {
        "tcp" => format!("{}, tcp", path.interface),
        _ => path.interface.clone(),
    }
}

/// Says what a path is good for, and whether it is a backup.
fn state(path: &PathReport) -> String {
    match path.state.as_str() {
        "absent" if path.carrier == "tcp" && path.trouble.is_empty() => "stands by".into(),
        state if !path.backup => state.into(),
        "active" if path.in_use.is_empty() => "backup".into(),
        "active" => "backup, in use".into(),
        state => format!("backup, {state}"),
    }
}

/// Lays its tables out, and says the rest in sentences, each of a line.
fn sections(report: &Report, width: usize) -> String {
    let mut text = String::new();
    let up = span(report.uptime_s);
    let _ = write!(text, "{} {}, up {up}", report.role, report.version);
    if !report.public_key.is_empty() {
        let _ = write!(text, ", key {}", report.public_key);
    }
    text.push('\n');
    if !report.trouble.is_empty() {
        let _ = writeln!(text, "! {}", report.trouble);
    }
    for endpoint in report.endpoints.iter().filter(|endpoint| !endpoint.trouble.is_empty()) {
        let _ = writeln!(text, "! endpoint {}: {}", endpoint.name, endpoint.trouble);
    }
    for peer in &report.peers {
        text.push('\n');
        text += &peer_text(peer, width);
    }
    report.relays.iter().for_each(|relay| text += &relay.text(width));
    if !report.endpoints.is_empty() {
        text.push('\n');
        text += &rows(ENDPOINTS, &report.endpoints, width);
    }
    if let Some(tunnel) = &report.tunnel {
        let _ = write!(
            text,
            "\ntunnel {}: {} packets out, {} in",
            tunnel.interface, tunnel.out_packets, tunnel.in_packets
        );
        let with = |what: &str, why: &str| match why {
            "" => what.to_owned(),
            why => format!("{what} (the last {why})"),
        };
        let more = counts(&[
            (tunnel.unrouted, &with("to nobody", &tunnel.unrouted_why)),
            (tunnel.spoofed, &with("from a wrong address", &tunnel.spoofed_why)),
            (tunnel.too_large, "too large"),
            (tunnel.refused, "turned away"),
            (tunnel.misleading, "about routes"),
            (tunnel.not_passed_on, "not passed on"),
            (tunnel.put_back, "times put right"),
        ]);
        if !more.is_empty() {
            let _ = write!(text, ", {more}");
        }
        text.push('\n');
    }
    text += &report.record.as_ref().map_or(String::new(), |record| format!("\n{}", record.line()));
    text + &strangers_text(&report.strangers)
}

fn tcp_text(tcp: &TcpReport) -> String {
    if tcp.packets == 0 && tcp.order_p99_ms == 0.0 {
        return String::new();
    }
    let mut text = format!("  TCP of the tunnel ({}): {} packets out", tcp.form, tcp.packets);
    let more = counts(&[
        (tcp.flows, "flows"),
        (tcp.generations, "generations"),
        (tcp.combinations, "combinations"),
        (tcp.sent_again, if tcp.generations > 0 { "of them repeats" } else { "sent again" }),
        (tcp.decoded, "generations decoded"),
        (tcp.repairs, "repair symbols"),
        (tcp.recovered, "of the peer's recovered"),
        (tcp.dropped, "dropped by the queue"),
        (tcp.given_up, "too large for every path"),
        (tcp.not_waited_for, "passed on before an earlier one"),
    ]);
    if !more.is_empty() {
        let _ = write!(text, ", {more}");
    }
    let (p50, p99) = (milliseconds(tcp.order_p50_ms), milliseconds(tcp.order_p99_ms));
    let _ = writeln!(text, "; those that came waited {p50} for earlier ones, p99 {p99}");
    text
}

fn peer_text(peer: &PeerReport, width: usize) -> String {
    let mut text = format!("{}: ", peer.name);
    match peer.session_s {
        Some(seconds) if peer.connected => {
            let _ = write!(text, "connected for {}", span(seconds));
        }
        _ => text += "not connected",
    }
    // The offset itself is for programs: it is of clocks that count since the computers started.
    if let Some(error) = peer.clock_error_ms {
        let _ = write!(text, ", clocks known to ± {error:.1} ms");
    }
    if peer.rejected_datagrams > 0 {
        let _ = write!(text, ", {} datagrams rejected", peer.rejected_datagrams);
        let reasons = counts(&[
            (peer.rejected.bad_tag, "not authentic"),
            (peer.rejected.replayed, "replayed"),
            (peer.rejected.unknown_path, "of an unknown path"),
            (peer.rejected.malformed, "malformed"),
            (peer.rejected.beyond_bound, "beyond a bound"),
        ]);
        if !reasons.is_empty() {
            let _ = write!(text, " ({reasons})");
        }
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
    for vehicle in &peer.vehicles {
        let _ = writeln!(text, "  {}", vehicle_words(vehicle));
    }
    if !peer.paths.is_empty() {
        text += &rows(PATHS, &peer.paths, width);
    }
    let is_used = |class: &&ClassReport| class.submitted + class.delivered > 0;
    let used: Vec<&ClassReport> = peer.classes.iter().filter(is_used).collect();
    if !used.is_empty() {
        text += &rows(CLASSES, used, width);
    }
    if !peer.reliability.is_empty() {
        text += &rows(TARGETS, &peer.reliability, width);
    }
    text += &tcp_text(&peer.tcp);
    text += &not_forwarded_text(&peer.not_forwarded);
    text + &messages_text(&peer.messages) + &streams_text(&peer.message_streams, width)
}

/// Tells what came in that was nobody's, first what an operator can put right.
fn strangers_text(strangers: &StrangersReport) -> String {
    let wrong_keys = [
        (
            "handshakes with a key, or preshared key, that no peer here has",
            strangers.unknown_peers,
            strangers.unknown_peers_last_s,
        ),
        (
            "handshakes for another public key than ours",
            strangers.other_keys,
            strangers.other_keys_last_s,
        ),
    ];
    let mut text = String::new();
    for (what, count, last) in wrong_keys.into_iter().filter(|(_, count, _)| *count > 0) {
        let last = last.map_or(String::new(), |last| format!(", last {} ago", span(last)));
        let _ = writeln!(text, "strangers: {what}: {count}{last}");
    }
    if strangers.garbage + strangers.limited > 0 {
        let _ = writeln!(
            text,
            "strangers: {} datagrams were not ours, {} over the limits on handshakes, which took \
             {:.1} s of the processor",
            strangers.garbage, strangers.limited, strangers.processor_s
        );
    }
    if text.is_empty() { text } else { format!("\n{text}") }
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
fn streams_text(streams: &[MessageStreamReport], width: usize) -> String {
    if streams.is_empty() {
        return String::new();
    }
    let mut text = rows(STREAMS, streams.iter().take(STREAMS_SHOWN), width);
    if let Some(more) = streams.len().checked_sub(STREAMS_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more streams of messages; --json shows all");
    }
    text
}

/// Shows a figure of a path; one that is absent has none.
fn figure(path: &PathReport, value: Option<String>) -> String {
    or_nothing(value.filter(|_| path.state != "absent"))
}

/// Shows what only a stream that sends has.
fn outward(stream: &MessageStreamReport, value: String) -> String {
    or_nothing((stream.direction != "in").then_some(value))
}

/// Shows what only a stream that receives has.
fn inward(stream: &MessageStreamReport, value: String) -> String {
    or_nothing((stream.direction != "out").then_some(value))
}

/// Shows a delay of a stream, once something was delivered.
fn delay(stream: &MessageStreamReport, ms: f64) -> String {
    or_nothing((stream.delivered > 0).then(|| milliseconds(ms)))
}

fn whole_delay(delay: &DelayReport) -> f64 {
    let DelayReport { division_ms, end_to_end_ms, decoding_ms, reconstruction_ms } = delay;
    division_ms + end_to_end_ms + decoding_ms + reconstruction_ms
}

fn if_any(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise } else { text }.to_owned()
}

/// Writes a share with as many digits as tell it from all.
fn share(value: f64) -> String {
    let missing = (1.0 - value).max(1e-6);
    let digits = (-(missing * 100.0).log10()).ceil().clamp(0.0, 4.0) as usize + 1;
    format!("{:.digits$} %", value * 100.0)
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests;
