//! Every field of the status report, each declared once: JSON, the tables, `fulmar status --fields`
//! and docs/status.md follow from here.

use proto::{
    ClassStatus, MessageDelay, MessageStatus, MessageStreamStatus, PathStatus, Rate, Rejection,
    Rejections, ReliabilityStatus, SessionStatus, TunnelStatus,
};
use serde::{Deserialize, Serialize};

use super::field::Kind::{Counter, Flat, Gauge, List, Part, State, Text};
use super::field::{Field, Section, section};
use super::record::RecordReport;
use super::relay::RelayReport;
use super::strangers::StrangersReport;
use super::words::{
    call_words, direction_word, order_word, reliability_word, state_word, tiers, tunnel_word,
};
use crate::endpoints::LocalEndpoint;

section! {
    /// A daemon at one moment.
    Report;

    /// `drone` or `station`.
    role: String, State;
    /// Version of the daemon.
    version: String, Text;
    /// Our own public key.
    public_key: String, Text;
    /// Time since the daemon started.
    uptime_s: f64, Gauge("s");
    /// What of our file is not there, beside links and endpoints, in words; empty else.
    trouble: String, Text;
    /// The other ends, connected or not.
    peers: Vec<PeerReport>, List(&PeerReport::SECTION);
    /// The sockets and ports that applications use.
    endpoints: Vec<EndpointReport>, List(&EndpointReport::SECTION);
    /// The tunnel, where there is one.
    tunnel: Option<TunnelReport>, Part(&TunnelReport::SECTION);
    /// What came in that belongs to no session.
    strangers: StrangersReport, Part(&StrangersReport::SECTION);
    /// What the sessions hold.
    memory: MemoryReport, Part(&MemoryReport::SECTION);
    /// Events so far: the number of the last one of `fulmar events`.
    events: u64, Counter("events");
    /// What became of `fulmar reload`.
    reload: ReloadReport, Part(&ReloadReport::SECTION);
    /// The nodes of relayed links that this daemon is: gateways, or the one of a relay.
    relays: Vec<RelayReport>, List(&RelayReport::SECTION);
    /// The flight record, where there is one.
    record: Option<RecordReport>, Part(&RecordReport::SECTION);
}

section! {
    /// What all sessions hold: coders, and messages and packets that wait.
    MemoryReport;

    /// Memory that they take, about.
    held_bytes: u64, Gauge("bytes");
    /// The bound of that: `memory_mib` in our file.
    bound_bytes: u64, Gauge("bytes");
}

section! {
    /// How often the file was read again, and what came of the last time.
    ReloadReport;

    /// Times that the file was read again.
    count: u64, Counter("times");
    /// What changed, in words.
    changes: String, Text;
    /// Why nothing did; empty when the file was taken.
    problem: String, Text;
}

section! {
    /// A peer and the session with it. Counters begin with the session.
    PeerReport of session: SessionStatus;

    /// Its name in our file.
    name: String, Text;
    /// Its public key.
    public_key: String, Text;
    /// Whether keys are agreed with it.
    connected: bool, State;
    /// Time since the session began.
    session_s: Option<f64>, Gauge("s");
    /// Time since its last session ended, when it was last heard; none before that, and while it is
    /// connected.
    ended_s: Option<f64>, Gauge("s");
    /// Why that session ended, in words.
    ended_why: String, Text;
    /// Whether it says that it does not know our key, or that one end has another preshared key.
    refused: bool, State;
    /// What the clock of the peer's daemon shows more than ours. They count since the computers
    /// started, and tell no date.
    clock_offset_ms: Option<f64>, Gauge("ms"),
        session.clock_offset_us.map(|(offset, _)| offset as f64 / 1e3);
    /// How far that may be off: so well both ends agree on when something happened.
    clock_error_ms: Option<f64>, Gauge("ms"),
        session.clock_offset_us.map(|(_, error)| error as f64 / 1e3);
    /// Share of the queue for bulk and telemetry that is free.
    queue_free_percent: u8, Gauge("%"), session.queue_free_percent;
    /// MAVLink frames of our applications that were looked at.
    mavlink_frames: u64, Counter("frames"), session.mavlink.frames;
    /// Of those, frames whose ids the public definitions do not know.
    unknown_mavlink_frames: u64, Counter("frames"), session.mavlink.unknown;
    /// Datagrams, or frames in them, that came in under the session's name and were not taken.
    rejected_datagrams: u64, Counter("datagrams"), session.rejected.total();
    /// The same by reason.
    rejected: RejectedReport, Part(&RejectedReport::SECTION), (&session.rejected).into();
    /// Processor time that its datagrams took.
    processor_s: f64, Counter("s");
    /// Datagrams that waited for others' turns.
    late_datagrams: u64, Counter("datagrams");
    /// Datagrams that were dropped because too many waited.
    dropped_datagrams: u64, Counter("datagrams");
    /// Time since its last handshake that came in and whose answer it has not taken: there is no
    /// session, and it goes on.
    asked_s: Option<f64>, Gauge("s");
    /// Where that came from; empty where there is none.
    asked_from: String, Text;
    /// What is wrong, in words; empty when nothing is.
    trouble: String, Text;
    /// Which version of the wire it speaks, where that is another one than ours, and there is no
    /// session for it, in words.
    other_version: String, Text;
    /// Whether the vehicle's autopilot, at whichever end it is, is not heard or not reached by its
    /// endpoint.
    autopilot_silent: bool, State;
    /// The vehicles that are heard through the session, at whichever end they are.
    vehicles: Vec<VehicleReport>, List(&VehicleReport::SECTION);
    /// The endpoints of the other end, as it tells of them.
    far_endpoints: Vec<FarEndpointReport>, List(&FarEndpointReport::SECTION);
    /// Its paths.
    paths: Vec<PathReport>, List(&PathReport::SECTION);
    /// Its traffic by class.
    classes: Vec<ClassReport>, List(&ClassReport::SECTION),
        session.classes.iter().map(ClassReport::from).collect();
    /// How its reliability targets are kept: those of our file, while there is a session.
    reliability: Vec<ReliabilityReport>, List(&ReliabilityReport::SECTION);
    /// TCP of its tunnel.
    tcp: TcpReport, Part(&TcpReport::SECTION), (&session.tunnel).into();
    /// What of our applications' MAVLink was not forwarded.
    not_forwarded: Vec<NotForwardedReport>, List(&NotForwardedReport::SECTION);
    /// Its messages, of all streams.
    messages: MessageReport, Part(&MessageReport::SECTION), (&session.messages).into();
    /// Its messages by stream: of each direction the first 1,024.
    message_streams: Vec<MessageStreamReport>, List(&MessageStreamReport::SECTION);
}

section! {
    /// Why what came in under the session's name was not taken.
    RejectedReport of rejected: Rejections;

    /// Did not authenticate: forged, damaged, or under keys that are not held any more.
    bad_tag: u64, Counter("datagrams"), rejected.of(Rejection::BadTag);
    /// Had come in before, or was so old that it may have.
    replayed: u64, Counter("datagrams"), rejected.of(Rejection::Replay);
    /// Came by a path that was given up, or never opened here.
    unknown_path: u64, Counter("datagrams"), rejected.of(Rejection::UnknownPath);
    /// Could not be parsed, or made no sense.
    malformed: u64, Counter("datagrams"), rejected.of(Rejection::Malformed);
    /// Asked for more than there is room for: of paths, lanes, numbers or memory.
    beyond_bound: u64, Counter("datagrams"), rejected.of(Rejection::BeyondBound);
}

section! {
    /// A vehicle, from its HEARTBEAT and SYS_STATUS.
    VehicleReport;

    /// Its MAVLink system.
    system: u8, Text;
    /// Its flight mode, as its makers call it.
    mode: String, Text;
    /// Whether it is armed.
    armed: bool, State;
    /// `standby`, `active`, `critical`, `emergency` … : MAV_STATE.
    state: String, State;
    /// What is left in its battery; none where it does not say.
    battery_percent: Option<u8>, Gauge("%");
    /// Voltage of its battery; none where it does not say.
    battery_v: Option<f64>, Gauge("volts");
    /// Time since its last heartbeat.
    heard_s: f64, Gauge("s");
}

section! {
    /// An endpoint of the other end, in that end's words.
    FarEndpointReport;

    /// Its name there: of a serial port, its device.
    name: String, Text;
    /// `well`, `missing`, `silent`, `noise` or `takes nothing`.
    state: String, State;
    /// Whether the vehicle's autopilot is behind it.
    autopilot: bool, Text;
    /// Time since something came in there; none while it is well.
    silent_s: Option<f64>, Gauge("s");
    /// What is wrong, in words; empty when nothing is.
    trouble: String, Text;
}

section! {
    /// A path.
    PathReport of path: PathStatus;

    /// Its name in the drone's file, which the station is told; the address that it comes from,
    /// where it is not.
    name: String, Text;
    /// The interface or socket that it is bound to.
    interface: String, Text;
    /// Its remote address.
    remote: String, Text, path.remote.to_string();
    /// What its datagrams travel in: `udp`, `tcp` or `relay`.
    carrier: String, Text, super::words::carrier_word(path.remote).into();
    /// `absent`, `validating`, `active`, `suspected` or `closed`.
    state: String, State, state_word(path.state).into();
    /// What a byte costs, relative to the other paths: a drone's file says so, and its station is
    /// told.
    cost: f64, Gauge(""), path.usage.cost.get();
    /// Whether it is kept in reserve.
    backup: bool, State, path.usage.backup;
    /// What it may carry: `control`, `telemetry`, `message`, `bulk`.
    carries: String, Text, tiers(Some(path.usage.carries));
    /// What goes there now: less than it may carry while it is a backup that nothing calls for.
    serves: String, Text, tiers(path.serves);
    /// Why a backup is in use, in words; empty while it is in reserve.
    in_use: String, Text, path.call.map_or("", call_words).into();
    /// Whether it drops packets with the mark of control (`control_dscp`), which go there unmarked.
    marks_dropped: bool, State, path.marks_dropped;
    /// What is wrong, in words; empty when nothing is.
    trouble: String, Text;
    /// What is wrong with the names of its remote, of a drone's path, or with the way to it on this
    /// host; empty when nothing is.
    name_trouble: String, Text;
    /// Smoothed round-trip time.
    srtt_ms: Option<f64>, Gauge("ms"), path.srtt.map(millis);
    /// Its variation.
    rttvar_ms: Option<f64>, Gauge("ms"), path.rttvar.map(millis);
    /// The least round-trip time of the last seconds.
    min_rtt_ms: Option<f64>, Gauge("ms"), path.min_rtt.map(millis);
    /// Share of our packets that are lost on the way to the peer.
    loss_percent: f64, Gauge("%"), path.loss * 100.0;
    /// Share of the peer's packets that are lost on the way to us.
    loss_in_percent: f64, Gauge("%"), path.loss_in * 100.0;
    /// Mean number of packets lost in a row.
    burst: f64, Gauge("packets"), path.burst;
    /// Rate at which the peer receives what we send.
    delivery_rate_mbps: f64, Gauge("Mbit/s"), path.delivery_rate.as_mbps();
    /// Rate of the narrowest hop; none where nothing has filled it lately.
    can_carry_mbps: Option<f64>, Gauge("Mbit/s"), path.capacity.map(Rate::as_mbps);
    /// What went out during the last second.
    out_mbps: f64, Gauge("Mbit/s");
    /// What came in during the last second.
    in_mbps: f64, Gauge("Mbit/s");
    /// Congestion window.
    cwnd_bytes: u64, Gauge("bytes"), path.cwnd;
    /// Sent, and neither acknowledged nor lost yet.
    in_flight_bytes: u64, Gauge("bytes"), path.in_flight;
    /// UDP payload that the path is known to carry.
    mtu: usize, Gauge("bytes"), path.mtu;
    /// Datagrams that went in pieces, being longer than that.
    cut_datagrams: u64, Counter("datagrams"), path.cut;
    /// Datagrams sent.
    sent_datagrams: u64, Counter("datagrams"), path.sent.0;
    /// UDP payload sent.
    sent_bytes: u64, Counter("bytes"), path.sent.1;
    /// Datagrams received.
    received_datagrams: u64, Counter("datagrams"), path.received.0;
    /// UDP payload received.
    received_bytes: u64, Counter("bytes"), path.received.1;
    /// Packets of ours that the peer has acknowledged.
    acked_packets: u64, Counter("packets"), path.acked;
    /// Packets of ours that were declared lost.
    lost_packets: u64, Counter("packets"), path.lost;
    /// Of those, packets that were acknowledged after all.
    late_packets: u64, Counter("packets"), path.late;
    /// Acknowledgements that made no sense.
    bad_acks: u64, Counter("frames"), path.bad_acks;
    /// Times that the path was suspected to be silent.
    suspicions: u64, Counter("times"), path.suspicions;
    /// Datagrams that the kernel refused to send.
    send_errors: u64, Counter("datagrams");
    /// Connections that it has had, of a drone's path over TCP.
    connections: u64, Counter("connections");
    /// Bytes in its connection that have not arrived; none where it has no connection.
    held_bytes: Option<u64>, Gauge("bytes");
    /// For how long none of them has: one that is lost below holds up those after it.
    held_up_ms: Option<f64>, Gauge("ms");
    /// Segments that the kernel has sent again, of its present connection.
    repeated_segments: Option<u64>, Gauge("segments");
    /// Time since the last datagram came in.
    silent_ms: Option<f64>, Gauge("ms"), path.silent_for.map(millis);
    /// Time since what we send has not been answered any more, while the path is suspected.
    unanswered_ms: Option<f64>, Gauge("ms"), path.suspected_for.map(millis);
}

section! {
    /// The traffic of a class.
    ClassReport of class: ClassStatus;

    /// `liveness`, `live`, `control`, `telemetry`, `message` or `bulk`.
    class: String, State, format!("{:?}", class.class).to_lowercase();
    /// Handed in by our applications.
    submitted: u64, Counter("packets"), class.submitted;
    /// Dropped here: too old, replaced before it could leave, or there was no room.
    dropped: u64, Counter("packets"), class.dropped;
    /// Sent, and replaced by a newer one before the peer said whether it had arrived.
    superseded: u64, Counter("packets"), class.superseded;
    /// Copies sent, first copies included.
    copies_sent: u64, Counter("copies"), class.copies_sent;
    /// Of control: acknowledged by the peer, and not said to have been dropped there.
    acknowledged: u64, Counter("packets"), class.acknowledged;
    /// Of control: under way when the session ended, or dropped there for all that is known.
    indeterminate: u64, Counter("packets"), class.indeterminate;
    /// Delivered to our applications.
    delivered: u64, Counter("packets"), class.delivered;
    /// Of control: had to wait for an earlier one of its lane.
    held: u64, Counter("packets"), class.held;
    /// Copies that came in again and were removed.
    duplicates: u64, Counter("copies"), class.duplicates;
    /// Came in beyond its maximum age or after a newer one, and was dropped.
    late: u64, Counter("packets"), class.late;
    /// Median delay of what was delivered; none where nothing was.
    delay_p50_ms: Option<f64>, Gauge("ms"), delay(class, class.delay.p50);
    /// 95th percentile of that delay.
    delay_p95_ms: Option<f64>, Gauge("ms"), delay(class, class.delay.p95);
    /// 99th percentile of that delay.
    delay_p99_ms: Option<f64>, Gauge("ms"), delay(class, class.delay.p99);
    /// Maximum of that delay.
    delay_max_ms: Option<f64>, Gauge("ms"), delay(class, class.delay.max);
}

section! {
    /// A reliability target. Its shares are of messages; of set-points and whatever else the newest
    /// replaces, of time.
    ReliabilityReport of kept: ReliabilityStatus;

    /// The class, `liveness`, `live` or `control`, or the endpoint whose own it is.
    name: String, Text;
    /// The channel of that endpoint; none where it is a class.
    channel: Option<u8>, Text, kept.channel;
    /// Share that is to be in time.
    target: f64, Gauge(""), kept.target.share();
    /// Age up to which a message is in time.
    deadline_ms: f64, Gauge("ms"), millis(kept.target.deadline());
    /// `learning`, `met` or `not reachable`: whether these links give it on average.
    state: String, State, reliability_word(kept.state).into();
    /// Share that was expected to be in time, over the last ten minutes; none before there is
    /// evidence, and where the uncertainty of the clocks leaves more open than the target allows.
    predicted: Option<f64>, Gauge(""), kept_share(kept, kept.predicted_miss);
    /// Share that was in time in these minutes, as far as the peer's acknowledgements prove it;
    /// none where the uncertainty of the clocks leaves more open than the target allows.
    achieved: Option<f64>, Gauge(""), kept_share(kept, kept.miss_share);
    /// Share that these minutes prove with 95 % confidence; misses of one outage are one sample.
    /// None where achieved is none.
    proven: Option<f64>, Gauge(""), kept_share(kept, kept.bound_95);
    /// Share of which the uncertainty of the clocks leaves open whether it was in time; it counts
    /// as missed.
    open: Option<f64>, Gauge(""), kept.open_share;
    /// That uncertainty.
    clock_error_ms: Option<f64>, Gauge("ms"), kept.clock_error.map(millis);
    /// Messages of these minutes whose fate is known.
    messages: u64, Gauge("messages"), kept.messages;
    /// Of those, messages that were missed.
    missed: u64, Gauge("messages"), kept.misses;
    /// Outages that they were missed in.
    episodes: u64, Gauge("outages"), kept.episodes;
    /// Copies that left of each message of these minutes.
    copies_per_message: Option<f64>, Gauge("copies"), kept.copies_per_message;
    /// Share of a copy on every path that these minutes did not cost.
    saved_percent: Option<f64>, Gauge("%"), kept.saved_share.map(|share| share * 100.0);
    /// Bytes that a copy on every path would have cost more.
    saved_bytes: u64, Counter("bytes"), kept.saved_bytes;
    /// What keeps these links from more, and how many more links like the best one would give the
    /// target, in words; empty when nothing is known to.
    limit: String, Text;
    /// How many more links like the best one would give it; none where no number would, or too
    /// little is known.
    more_links: Option<u32>, Gauge("links"), kept.more_links;
}

section! {
    /// TCP of the tunnel: sent until it arrives, and passed on in the order of each flow.
    TcpReport of tcp: TunnelStatus;

    /// `window`, `flowcode` or `plain`: how ours travels. The peer's may travel otherwise.
    form: String, State, tunnel_word(tcp.form).into();
    /// Flows of ours that are known.
    flows: u64, Gauge("flows"), tcp.flows;
    /// Packets of ours that left for the first time; ACKs alone are not counted.
    packets: u64, Counter("packets"), tcp.symbols;
    /// Times that one left again because a path had lost it; in the form `flowcode`, combinations
    /// of a generation beyond its first ones.
    sent_again: u64, Counter("times"), tcp.again;
    /// Coded generations that they were packed into.
    generations: u64, Counter("generations"), tcp.generations;
    /// Combinations of these that left.
    combinations: u64, Counter("combinations"), tcp.combinations;
    /// Coded generations of the peer that were decoded.
    decoded: u64, Counter("generations"), tcp.decoded;
    /// Copies of SYN, FIN and RST beside the first.
    copies: u64, Counter("copies"), tcp.copies;
    /// Repair symbols of ours: combinations from which the peer decodes what paths lose.
    repairs: u64, Counter("symbols"), tcp.repairs;
    /// Packets of the peer that were decoded from repair symbols before they came.
    recovered: u64, Counter("packets"), tcp.recovered;
    /// Packets that were dropped here because a flow had too many waiting: what tells TCP how fast
    /// to send.
    dropped: u64, Counter("packets"), tcp.dropped;
    /// Packets that no path could carry any more.
    given_up: u64, Counter("packets"), tcp.given_up;
    /// Packets of the peer that were passed on although an earlier one was missing.
    not_waited_for: u64, Counter("times"), tcp.expired;
    /// Median time for which packets of the peer waited for earlier ones.
    order_p50_ms: f64, Gauge("ms"), millis(tcp.wait.p50);
    /// 99th percentile of that time.
    order_p99_ms: f64, Gauge("ms"), millis(tcp.wait.p99);
}

section! {
    /// What of MAVLink was not forwarded by one rule.
    NotForwardedReport;

    /// Where it came in: 0 is the tunnel.
    channel: u8, Text;
    /// The name of a message, `unknown ids`, `broken frames`, `bytes of no frame` or `frames that
    /// came back`.
    what: String, Text;
    /// How much of it.
    count: u64, Counter("frames");
}

section! {
    /// Message delivery, all streams together.
    MessageReport of messages: MessageStatus;

    /// Messages handed in by our applications.
    submitted: u64, Counter("messages"), messages.submitted;
    /// Of those, messages whose deadline passed before a path had room.
    expired: u64, Counter("messages"), messages.expired;
    /// What waits for a path.
    waiting_bytes: u64, Gauge("bytes"), messages.waiting_bytes as u64;
    /// Symbols sent for the first time.
    source_symbols: u64, Counter("symbols"), messages.source_symbols;
    /// Symbols sent combined, for repair.
    repair_symbols: u64, Counter("symbols"), messages.repair_symbols;
    /// Symbols sent once more as they are.
    resent_symbols: u64, Counter("symbols"), messages.resent_symbols;
    /// Symbols given up since their deadlines had passed.
    given_up_symbols: u64, Counter("symbols"), messages.given_up_symbols;
    /// Symbols received as they are.
    received_symbols: u64, Counter("symbols"), messages.received_symbols;
    /// Symbols decoded from combinations.
    decoded_symbols: u64, Counter("symbols"), messages.decoded_symbols;
    /// Symbols and combinations received that told nothing new.
    redundant_symbols: u64, Counter("symbols"), messages.redundant_symbols;
    /// Messages delivered to our applications.
    delivered: u64, Counter("messages"), messages.delivered;
    /// Messages that came too late or not whole.
    skipped: u64, Counter("messages"), messages.late;
    /// Pieces that made no sense or were beyond the bounds.
    refused_pieces: u64, Counter("pieces"), messages.refused;
    /// The mean delay of what was delivered here.
    #[serde(flatten)]
    delay: DelayReport, Flat(&DelayReport::SECTION), (&messages.delay).into();
}

section! {
    /// A stream of messages.
    MessageStreamReport of stream: MessageStreamStatus;

    /// The local endpoint that uses it, `tunnel`, or `signed MAVLink`; empty when none does.
    name: String, Text;
    /// The endpoint's channel.
    channel: u8, Text, stream.channel;
    /// Its number in the channel.
    stream: u16, Text, stream.stream;
    /// `in-order` or `unordered`.
    order: String, State, order_word(stream.order).into();
    /// `out`, `in` or `both`: what has been handed in here, and what has come from the peer.
    direction: String, State, direction_word(stream).into();
    /// Messages handed in by our applications.
    submitted: u64, Counter("messages"), stream.submitted;
    /// Of those, messages whose last piece has left.
    sent: u64, Counter("messages"), stream.sent;
    /// Of those, messages whose deadline passed before a path had room.
    expired: u64, Counter("messages"), stream.expired;
    /// What waits for a path.
    waiting_bytes: u64, Gauge("bytes"), stream.waiting_bytes as u64;
    /// Messages delivered to our applications.
    delivered: u64, Counter("messages"), stream.delivered;
    /// Messages that came too late or not whole.
    skipped: u64, Counter("messages"), stream.late;
    /// The mean delay of what was delivered here.
    #[serde(flatten)]
    delay: DelayReport, Flat(&DelayReport::SECTION), (&stream.delay).into();
}

section! {
    /// The mean parts of the delay of what was delivered here [LRT eq. 1].
    DelayReport of delay: MessageDelay;

    /// From handing in to division into symbols: the wait for a path.
    division_ms: f64, Gauge("ms"), millis(delay.division);
    /// The way over the network.
    end_to_end_ms: f64, Gauge("ms"), millis(delay.end_to_end);
    /// What decoding took longer than the way.
    decoding_ms: f64, Gauge("ms"), millis(delay.decoding);
    /// The wait for earlier messages of the same stream.
    reconstruction_ms: f64, Gauge("ms"), millis(delay.reconstruction);
}

section! {
    /// A local endpoint. It counts messages: frames of MAVLink, datagrams otherwise.
    EndpointReport of local: LocalEndpoint;

    /// Its name in our file.
    name: String, Text, local.config.name.clone();
    /// The peer that its applications speak to.
    peer: String, Text;
    /// Its channel.
    channel: u8, Text, local.config.channel;
    /// The stream, of an endpoint for messages.
    stream: Option<u16>, Text, local.config.stream();
    /// What it is and who uses it.
    description: String, Text, local.describe();
    /// `well`, `missing`, `silent` (nothing comes in), `noise` (bytes come in, and no MAVLink) or
    /// `takes nothing`.
    state: String, State;
    /// Time since something came in from an application; none where nothing ever has.
    heard_s: Option<f64>, Gauge("s");
    /// Taken from applications.
    taken: u64, Counter("messages"), local.counts.taken;
    /// Taken, and turned away by the session.
    refused: u64, Counter("messages"), local.counts.refused;
    /// Taken from applications, and not passed on: it had waited beyond its time to live before we
    /// read it.
    read_too_late: u64, Counter("messages"), local.counts.read_too_late;
    /// Given to applications; of TCP and SEQPACKET, to each client.
    given: u64, Counter("messages"), local.counts.given;
    /// Not given, since no application was there to take it or it did not keep up.
    dropped: u64, Counter("messages"), local.counts.dropped;
    /// Not given, since its time to live was over before an application took it, or a newer one had
    /// come.
    too_old: u64, Counter("messages"), local.counts.too_old;
    /// Kept back by the endpoint's own filters, coming in or going out.
    filtered: u64, Counter("frames"), local.counts.filtered;
    /// Of MAVLink, the numbers of the frames that applications are given: `as-sent`; `anew`
    /// (`renumber`); `signed` where that is wanted, and a source signs, whose frames keep theirs.
    numbers: String, State, local.numbers().into();
    /// What is wrong, in words; empty when nothing is.
    trouble: String, Text;
}

section! {
    /// The tunnel.
    TunnelReport;

    /// The interface's name.
    interface: String, Text;
    /// Packets that went into the tunnel.
    out_packets: u64, Counter("packets");
    /// Packets that came out of it.
    in_packets: u64, Counter("packets");
    /// Packets to an address that no peer is allowed, or whose peer is not connected.
    unrouted: u64, Counter("packets");
    /// The address of the last of them, and why it is nobody's, in words.
    unrouted_why: String, Text;
    /// Packets from a peer whose source the peer is not allowed.
    spoofed: u64, Counter("packets");
    /// The source of the last of them, and whose it was, in words.
    spoofed_why: String, Text;
    /// Packets that do not fit a datagram; their senders were told.
    too_large: u64, Counter("packets");
    /// Packets that the session turned away.
    refused: u64, Counter("packets");
    /// Packets of a peer that would change this host's routes, and were not let in.
    misleading: u64, Counter("packets");
    /// Packets of peers for networks behind this computer, which passes nothing on.
    not_passed_on: u64, Counter("packets");
    /// Times that an address, a route or a setting of the interface was put back which somebody had
    /// taken away.
    put_back: u64, Counter("times");
}

/// Returns a time in milliseconds.
pub(crate) fn millis(time: proto::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the share that is in time, of one that is missed; none where the clocks do not tell.
fn kept_share(kept: &ReliabilityStatus, missed: Option<f64>) -> Option<f64> {
    missed.filter(|_| !kept.is_hidden_by_clock()).map(|missed| 1.0 - missed)
}

fn delay(class: &ClassStatus, time: proto::Duration) -> Option<f64> {
    (class.delivered > 0).then(|| millis(time))
}
