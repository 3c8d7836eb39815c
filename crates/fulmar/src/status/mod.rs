//! What `fulmar status` shows: one report for people and scripts, taken by the daemon, sent over a
//! local socket as one JSON object, and laid out as a table by the other end.

mod advice;
mod client;
mod server;
mod table;

use serde::{Deserialize, Serialize};

pub(crate) use advice::{path_trouble, peer_trouble};
pub(crate) use client::{fetch, find_socket, reload};
pub(crate) use server::StatusServer;
pub(crate) use table::{columns, milliseconds, rate, table};

/// Shows a daemon at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// `drone` or `station`.
    pub(crate) role: String,
    /// Version of the daemon.
    pub(crate) version: String,
    /// Our own public key.
    pub(crate) public_key: String,
    /// Time since the daemon started.
    pub(crate) uptime_s: f64,
    /// The other ends, connected or not.
    pub(crate) peers: Vec<PeerReport>,
    /// The sockets and ports that applications use.
    pub(crate) endpoints: Vec<EndpointReport>,
    /// The tunnel, where there is one.
    pub(crate) tunnel: Option<TunnelReport>,
    /// What came in that belongs to no session.
    pub(crate) strangers: StrangersReport,
    /// What became of `fulmar reload`.
    #[serde(default)]
    pub(crate) reload: ReloadReport,
}

/// Shows how often the file was read again, and what came of the last time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReloadReport {
    pub(crate) count: u64,
    /// What changed, in words.
    pub(crate) changes: String,
    /// Why nothing did; empty when the file was taken.
    pub(crate) problem: String,
}

/// Shows a peer and the session with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerReport {
    pub(crate) name: String,
    pub(crate) public_key: String,
    pub(crate) connected: bool,
    /// Time since the session began.
    pub(crate) session_s: Option<f64>,
    /// What the peer's clock shows more than ours, and the bound of the error.
    pub(crate) clock_offset_ms: Option<f64>,
    pub(crate) clock_error_ms: Option<f64>,
    /// Share of the queue for bulk and telemetry that is free.
    pub(crate) queue_free_percent: u8,
    /// Datagrams that failed authentication, were replayed or could not be parsed.
    pub(crate) rejected_datagrams: u64,
    /// Processor time that its datagrams took, and those of them that waited for others' turns, or were
    /// dropped because too many waited.
    #[serde(default)]
    pub(crate) processor_s: f64,
    #[serde(default)]
    pub(crate) late_datagrams: u64,
    #[serde(default)]
    pub(crate) dropped_datagrams: u64,
    /// What is wrong, in words; empty when nothing is.
    pub(crate) trouble: String,
    pub(crate) paths: Vec<PathReport>,
    pub(crate) classes: Vec<ClassReport>,
    /// What of our applications' MAVLink was not forwarded.
    pub(crate) not_forwarded: Vec<NotForwardedReport>,
    /// Message delivery, with the five parts of its delay.
    pub(crate) messages: MessageReport,
    /// The same by stream.
    pub(crate) message_streams: Vec<MessageStreamReport>,
}

/// Shows a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathReport {
    pub(crate) name: String,
    pub(crate) interface: String,
    pub(crate) remote: String,
    /// `absent`, `validating`, `active`, `suspected` or `closed`.
    pub(crate) state: String,
    /// What is wrong, in words; empty when nothing is.
    pub(crate) trouble: String,
    pub(crate) srtt_ms: Option<f64>,
    pub(crate) rttvar_ms: Option<f64>,
    pub(crate) min_rtt_ms: Option<f64>,
    /// Share of our packets that are lost on the way to the peer.
    pub(crate) loss_percent: f64,
    /// Mean number of packets lost in a row.
    pub(crate) burst: f64,
    /// Rate at which the peer receives what we send.
    pub(crate) delivery_rate_mbps: f64,
    /// Rate of the narrowest hop; none where nothing has filled it lately.
    pub(crate) can_carry_mbps: Option<f64>,
    /// What went out and came in during the last second.
    pub(crate) out_mbps: f64,
    pub(crate) in_mbps: f64,
    pub(crate) cwnd_bytes: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) mtu: usize,
    pub(crate) sent_datagrams: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_datagrams: u64,
    pub(crate) received_bytes: u64,
    /// Datagrams that the kernel refused to send.
    pub(crate) send_errors: u64,
    pub(crate) silent_ms: Option<f64>,
}

/// Shows the traffic of a class since the session began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassReport {
    /// `liveness`, `live`, `control`, `telemetry`, `message` or `bulk`.
    pub(crate) class: String,
    pub(crate) submitted: u64,
    /// Dropped here: too old, replaced before it could leave, or there was no room.
    pub(crate) dropped: u64,
    /// Sent, and replaced by a newer one before the peer said whether it had arrived.
    pub(crate) superseded: u64,
    pub(crate) copies_sent: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) late: u64,
    /// The delay of what came in; none where nothing did.
    pub(crate) delay_p50_ms: Option<f64>,
    pub(crate) delay_p95_ms: Option<f64>,
    pub(crate) delay_p99_ms: Option<f64>,
    pub(crate) delay_max_ms: Option<f64>,
}

/// Counts what of MAVLink was not forwarded by one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NotForwardedReport {
    /// Where it came in: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The name of a message, `unknown ids`, `broken frames` or `bytes of no frame`.
    pub(crate) what: String,
    pub(crate) count: u64,
}

/// Shows message delivery since the session began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageReport {
    /// Messages handed in, and those whose deadline passed before a path had room.
    pub(crate) submitted: u64,
    pub(crate) expired: u64,
    /// Bytes of messages that wait for a path.
    pub(crate) waiting_bytes: u64,
    /// Symbols sent: as they are, combined for repair, as they are once more, and given up since
    /// their deadlines had passed.
    pub(crate) source_symbols: u64,
    pub(crate) repair_symbols: u64,
    pub(crate) resent_symbols: u64,
    pub(crate) given_up_symbols: u64,
    /// Symbols received: as they are, decoded from combinations, and those that told nothing new.
    pub(crate) received_symbols: u64,
    pub(crate) decoded_symbols: u64,
    pub(crate) redundant_symbols: u64,
    /// Messages delivered, and those that came too late or not whole.
    pub(crate) delivered: u64,
    pub(crate) skipped: u64,
    /// Pieces that made no sense.
    pub(crate) refused_pieces: u64,
    #[serde(flatten)]
    pub(crate) delay: DelayReport,
}

/// Shows one stream of messages since the session began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageStreamReport {
    /// The local endpoint that uses it, `tunnel`, or `signed MAVLink`; empty when none does.
    pub(crate) name: String,
    pub(crate) channel: u8,
    pub(crate) stream: u16,
    /// `in-order` or `unordered`.
    pub(crate) order: String,
    /// `out`, `in` or `both`: what has been handed in here, and what has come from the peer.
    pub(crate) direction: String,
    /// Messages handed in here; wholly sent; and those whose deadline passed before a path had room.
    pub(crate) submitted: u64,
    pub(crate) sent: u64,
    pub(crate) expired: u64,
    /// Bytes of messages that wait for a path.
    pub(crate) waiting_bytes: u64,
    /// Messages delivered here, and those that came too late or not whole.
    pub(crate) delivered: u64,
    pub(crate) skipped: u64,
    #[serde(flatten)]
    pub(crate) delay: DelayReport,
}

/// Shows the mean parts of the delay of what was delivered here: the wait for a path, coding, the way,
/// what decoding took longer than the way, the wait for earlier messages [LRT eq. 1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DelayReport {
    pub(crate) division_ms: f64,
    pub(crate) encoding_ms: f64,
    pub(crate) end_to_end_ms: f64,
    pub(crate) decoding_ms: f64,
    pub(crate) reconstruction_ms: f64,
}

/// Shows a local endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndpointReport {
    pub(crate) name: String,
    pub(crate) peer: String,
    pub(crate) channel: u8,
    /// The stream, of an endpoint for messages.
    pub(crate) stream: Option<u16>,
    /// What it is and who uses it.
    pub(crate) description: String,
    /// Messages taken from applications, and how many of them the session turned away.
    pub(crate) taken: u64,
    pub(crate) refused: u64,
    /// Messages given to applications, and those that nobody was there to take.
    pub(crate) given: u64,
    pub(crate) dropped: u64,
    /// Frames that the endpoint's own filters kept back, coming in or going out.
    pub(crate) filtered: u64,
}

/// Shows the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunnelReport {
    pub(crate) interface: String,
    /// Packets that went into the tunnel and came out of it.
    pub(crate) out_packets: u64,
    pub(crate) in_packets: u64,
    /// Packets to an address that no peer is allowed, or whose peer is not connected.
    pub(crate) unrouted: u64,
    /// Packets from a peer whose source the peer is not allowed.
    pub(crate) spoofed: u64,
    /// Packets that do not fit a datagram; their senders were told.
    pub(crate) too_large: u64,
    /// Packets that the session turned away.
    pub(crate) refused: u64,
}

/// Counts what came in and belongs to no session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StrangersReport {
    /// Datagrams that are none of ours.
    pub(crate) garbage: u64,
    /// Handshakes that were begun, and answered.
    pub(crate) handshakes: u64,
    /// Questions for a cookie.
    pub(crate) cookies: u64,
    /// Datagrams dropped by the limits on handshakes.
    pub(crate) limited: u64,
    /// Processor time that handshakes took, those of strangers included.
    #[serde(default)]
    pub(crate) processor_s: f64,
}
