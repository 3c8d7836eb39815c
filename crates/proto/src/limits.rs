//! Every bound on what a peer, an application or the network can make grow.

use units::Duration;

/// Sessions that one endpoint keeps, and handshakes of which each may become one.
pub(crate) const SESSIONS: usize = 1_024;
/// Bytes that each session may hold whatever the others do: control that waits, and messages of
/// some 100 kB.
pub(crate) const SESSION_SHARE: usize = 1 << 20;
/// Bytes that all sessions hold together, unless an operator says otherwise: a share for each, and
/// as much again for those that need more.
pub(crate) const MEMORY: usize = 2 * SESSIONS * SESSION_SHARE;
/// Bytes that a session without traffic takes, about.
pub(crate) const SESSION_BYTES: usize = 40 << 10;
/// Bytes of what a session's applications hand in, or of what its peer sends, that its other bounds
/// come to at most: a session that may hold so much is held back by those alone.
pub(crate) const SIDE: usize = 64 << 20;
/// Bytes that a message or packet takes beside its payload, about.
pub(crate) const BESIDE: usize = 128;
/// Paths of one session; also what a peer may open.
pub(crate) const PATHS: usize = 16;
/// Notes that an end keeps of the other: a name for each path, and as much again for each end's
/// endpoints.
pub(crate) const NOTES: usize = 4 * PATHS;
/// Bytes of one note: a name and a few figures.
pub(crate) const NOTE_BYTES: usize = 64;
/// Targets of reliability in one session: those of classes and of declared endpoints; what comes
/// beyond has a copy on every path.
pub(crate) const TARGETS: usize = 8;
/// Messages under one target whose fate is open: two seconds of 2,000 a second.
pub(crate) const FLIGHTS: usize = CONTROL_MESSAGES;
/// Copies of one message that are followed one by one, and copies on one path whose answers are
/// awaited.
pub(crate) const COPIES_FOLLOWED: usize = 32;
/// Streams of messages under one target whose pace is known.
pub(crate) const STREAMS_FOLLOWED: usize = 64;
/// The highest price of a byte, in thousandths of what it costs where nobody has said: sums of
/// prices fit into 64 bits, and no link is a million times as dear as another.
pub(crate) const HIGHEST_COST: u32 = 1_000_000_000;
/// Packet numbers that a replay window remembers, per path: at 10⁴ packets/s a skew of 0.8 s.
pub(crate) const REPLAY_WINDOW: u64 = 8_192;
/// Ranges in one ACK frame.
pub(crate) const ACK_RANGES: usize = 32;
/// Sent packets that one path remembers until they are acknowledged or lost.
pub(crate) const SENT_PACKETS: usize = 32_768;
/// Control messages in flight or queued; one more is refused.
pub(crate) const CONTROL_MESSAGES: usize = 4_096;
/// Lanes (domains of order) of one session and direction.
pub(crate) const LANES: usize = 1_024;
/// Control messages that wait at the receiver for an earlier one, over all lanes.
pub(crate) const HELD_MESSAGES: usize = 1_024;
/// The largest number of a control message: what a list of such numbers can hold. At a million a
/// second a session gets there after nine years.
pub(crate) const LAST_CONTROL_NUMBER: u64 = (1 << 48) - 1;
/// Those that it lists as not passed on until the sender knows: as many.
pub(crate) const DROPPED_MESSAGES: usize = HELD_MESSAGES;
/// Session-wide control numbers that the receiver remembers for removing duplicates.
pub(crate) const CONTROL_WINDOW: u64 = 16_384;
/// Bytes of bulk of one kind that wait: here, of datagrams that wait for a path.
pub(crate) const BULK_BYTES: usize = 4 << 20;
/// Packets that the resequencer holds.
pub(crate) const RESEQUENCED: usize = 4_096;
/// Flows of the tunnel's TCP that take turns, of one session: each is a domain of order too.
pub(crate) const TUNNEL_FLOWS: usize = LANES;
/// Bytes of the tunnel's TCP that wait to be numbered.
pub(crate) const TUNNEL_QUEUE_BYTES: usize = BULK_BYTES;
/// Symbols from the oldest that has not arrived to the newest, at the sender; the receiver holds no
/// more.
pub(crate) const TUNNEL_SYMBOLS: usize = if cfg!(fuzzing) { 64 } else { 8_192 };
/// Bytes of these: 300 ms at 190 Mbit/s.
pub(crate) const TUNNEL_BYTES: usize = 7 << 20;
/// Symbols of the tunnel that a repair symbol combines at most, and the sender keeps for it; the
/// receiver keeps twice as many: 300 ms at 35 Mbit/s.
pub(crate) const TUNNEL_COMBINED: usize = if cfg!(fuzzing) { 32 } else { 1_024 };
// A transfer each way takes no more than this of either end.
const _: () = assert!(
    TUNNEL_QUEUE_BYTES + 2 * TUNNEL_BYTES + 3 * TUNNEL_COMBINED * MAX_DATAGRAM <= 24_000_000
);
/// Symbols that the receiver remembers for removing duplicates.
pub(crate) const TUNNEL_SEEN: u64 = 2 * TUNNEL_SYMBOLS as u64;
/// Packets of a coded generation: beyond that a generation waits for too many, and one frame
/// carries too many coefficients.
pub(crate) const GENERATION_PACKETS: usize = 16;
/// Generations from the oldest that is not decoded to the newest, at the source; the destination
/// remembers twice as many.
pub(crate) const GENERATIONS: u64 = TUNNEL_SYMBOLS as u64;
/// The largest number of a generation, so that its packets can be numbered.
pub(crate) const LAST_GENERATION: u64 = (1 << 48) - 1;
/// Bytes that a generation takes at the destination beside its packets, about.
pub(crate) const BESIDE_GENERATION: usize = 1 << 10;
/// Decoded generations that the destination still has to tell of.
pub(crate) const DECODED_TO_TELL: usize = 1_024;
/// The largest UDP payload that a path is probed for.
pub(crate) const MAX_DATAGRAM: usize = 1_472;
/// The UDP payload that nearly every link carries.
pub(crate) const MIN_DATAGRAM: usize = 1_200;
/// The UDP payload that every path must carry: that of the 576 bytes of IPv4 which every host takes
/// [RFC 791 §3.1].
pub(crate) const LEAST_DATAGRAM: usize = 576 - IP_AND_UDP as usize;
/// Pieces of one datagram.
pub(crate) const PIECES: usize = 4;
/// Datagrams of which a session keeps some pieces: more than what paths reorder of what is cut.
pub(crate) const OPEN_DATAGRAMS: usize = 32;
/// For how long it keeps them: longer than that no piece of a datagram is behind the others.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(2);
/// Age of keys at which the initiator asks for new ones: bounds what a stolen key reveals.
pub(crate) const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Datagrams under one key, of either direction, after which the initiator asks for new ones.
pub(crate) const REKEY_AFTER_DATAGRAMS: u64 = 1 << 26;
/// Datagrams that one key may seal at all: AES-GCM with packets below 2¹¹ bytes [RFC 9001 §B.1].
pub(crate) const SEALED_PER_EPOCH: u64 = 1 << 28;
/// How long keys are kept beside those in use, ten times the slowest satellite's round trip: old
/// ones after others took over, and those of a handshake until the initiator's first datagram. The
/// message of a handshake is made anew at half this age, which is still beyond any round trip.
pub(crate) const OLD_KEYS_KEPT: Duration = Duration::from_secs(30);
/// Life of the secret behind cookies and challenges, as of keys; the one before it still counts.
pub(crate) const COOKIE_SECRET_AGE: Duration = REKEY_AFTER;
/// Age at which keys open nothing any more where no handshake has come through: three minutes of
/// tries after the two of [`REKEY_AFTER`], one a second on each path. Far below the 35 minutes from
/// which on the age of a message, which travels as 32 bits of µs, would look young.
pub(crate) const KEYS_OPEN_FOR: Duration = Duration::from_secs(5 * 60);
/// Keys under which nothing came in for this long, while something did under those before them, are
/// not the peer's.
pub(crate) const KEYS_UNHEARD: Duration = LONGEST_SIGN_OF_LIFE;
/// Bytes of telemetry that wait for a path: a second of a fast autopilot.
pub(crate) const TELEMETRY_BYTES: usize = 256 << 10;
/// An initiator that heard nothing for this long asks for keys anew: the peer may have restarted.
/// It takes others' word for that as seldom, since anybody who sees its datagrams can give it.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);
/// A path that was silent for longer is not in a burst of losses but gone. Bursts are long where
/// they last for a number of packets and few are sent, as on a way back that carries answers alone.
pub(crate) const LONGEST_BURST: Duration = SILENCE;
/// How long a sign of life is waited for at first, beyond most round trips: then an Initiation, a
/// challenge or a probe of a silent path is sent again, and keys are asked for anew where every
/// path is suspected. A session of which another one wants the key has two round trips besides,
/// until it counts as gone.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(100);
/// … and the longest: a link that comes back is found within a second.
pub(crate) const LONGEST_SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// An initiator that was turned away, since another one holds its key, asks again after this: twice
/// what that one may take to show that it lives.
pub(crate) const TURNED_AWAY: Duration = LONGEST_SIGN_OF_LIFE.saturating_mul(2);
/// That another one comes with a peer's key is said again after this.
pub(crate) const CONTESTED_AGAIN: Duration = Duration::from_secs(60);
/// What may be sent per byte received to an address that has not proved itself [RFC 9000 §8.1], and
/// unasked to one that has by a handshake alone.
pub(crate) const AMPLIFICATION: u64 = 3;
/// Handshakes of one peer that may cost Diffie–Hellmans, per second: 0.3 ms each. Those of two
/// seconds may come at once.
pub(crate) const HANDSHAKES_PER_SECOND_PEER: u32 = 20;
/// Peers whose codes are tried one after the other: they cost what a Diffie–Hellman does.
pub(crate) const CODES_TRIED: usize = 200;
/// Strangers that are told that they are, per second and at once: for people who look for a
/// mistake.
pub(crate) const REFUSALS_PER_SECOND: u32 = 20;
/// Data datagrams of indices that nobody has which are answered, per second: after a restart each
/// drone needs one answer, and a fleet is told within a second.
pub(crate) const UNKNOWNS_PER_SECOND: u32 = 200;
/// The same, at once.
pub(crate) const UNKNOWNS_BURST: u32 = 64;
/// Handshakes of one peer that wait for its first datagram: its tries overlap by at most two, a
/// restart adds one.
pub(crate) const WAITING_HANDSHAKES_PEER: usize = 4;
/// Initiations of one peer that are remembered against replay.
pub(crate) const SEEN_HANDSHAKES_PEER: usize = 64;
/// Datagrams of no session that wait, of each kind; more are dropped: Initiations for their turn
/// (20 ms of strangers), answers of the endpoint itself for the driver, and the first ones of new
/// sessions while those that hold their key are asked for a sign of life.
pub(crate) const SESSIONLESS: usize = 256;
/// Bytes of one session's datagrams that wait for their turn at the processor: what a socket may
/// hold.
pub(crate) const WAITING_BYTES: usize = 1 << 20;
/// The same of all sessions together. A session may have no more waiting than is left of it, so
/// that those which flood come to hold the same, and others still find room.
pub(crate) const ALL_WAITING_BYTES: usize = 64 << 20;
/// What waited longer for its turn was served late: a fifth of what is lost to control as a miss.
pub(crate) const SERVED_LATE: Duration = Duration::from_millis(20);
/// Sessions whose timers are handled before sockets are looked at again: a millisecond, where all
/// are due at once.
pub(crate) const TIMERS_A_TURN: usize = 32;
/// No datagram costs more, on slow machines either: the rest is other programs' time.
pub(crate) const DEAREST: Duration = Duration::from_millis(5);
/// Bytes of a symbol of message delivery: with its frame it fits into [`MIN_DATAGRAM`].
pub(crate) const SYMBOL_BYTES: usize = if cfg!(fuzzing) { 144 } else { 1_144 };
/// Bytes of the largest message of message delivery.
pub(crate) const MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of messages that wait to be divided; one more message is refused.
pub(crate) const QUEUED_MESSAGE_BYTES: usize = BULK_BYTES;
/// Messages that wait to be divided: bounds what tiny ones cost.
pub(crate) const QUEUED_MESSAGES: usize = 16_384;
/// Streams of message delivery, of one session and direction: these are domains of order too.
pub(crate) const MESSAGE_STREAMS: usize = LANES;
/// Symbols that a sender of message delivery keeps until they are decoded: 100 ms at 180 Mbit/s. A
/// receiver keeps twice as many. Fuzz targets have a shorter window, and shorter symbols: they
/// begin many sessions.
pub(crate) const WINDOW_SYMBOLS: usize = if cfg!(fuzzing) { 64 } else { 2_048 };
/// Symbols that a repair symbol combines at most: bounds the work for it at both ends.
pub(crate) const COMBINED_SYMBOLS: usize = 512;
/// Bytes of messages that a receiver holds: what an honest peer is dividing, what it divided within
/// the last window, and that window.
pub(crate) const HELD_MESSAGE_BYTES: usize =
    2 * QUEUED_MESSAGE_BYTES + MESSAGE_BYTES + WINDOW_SYMBOLS * SYMBOL_BYTES;
/// Messages that a receiver holds: 16 of the smallest in each symbol of a window.
pub(crate) const HELD_WINDOW_MESSAGES: usize = 16 * WINDOW_SYMBOLS;
/// Separate pieces of one message that a receiver holds: every symbol of a window can be missing.
pub(crate) const MESSAGE_PIECES: usize = WINDOW_SYMBOLS;
/// Ranges of missing symbols in one feedback frame.
pub(crate) const MISSING_RANGES: usize = 16;

/// Bytes of the headers of IPv4 and UDP around a datagram: links carry those as well.
pub(crate) const IP_AND_UDP: u64 = 28;
/// The same of IPv6.
pub(crate) const IPV6_AND_UDP: u64 = 48;
/// Senders of a relay group that a node knows: both sides.
pub(crate) const RELAY_MEMBERS: usize = 64;
/// Counters that a node remembers of each sender: 0.1 s of 10⁴ frames/s.
pub(crate) const RELAY_REPLAY_WINDOW: u64 = 1_024;
/// Challenges that a node of a relay group sends and answers, per second.
pub(crate) const RELAY_CHALLENGES: u32 = 100;
/// The same, at once.
pub(crate) const RELAY_CHALLENGES_BURST: u32 = 32;
/// Bytes of a datagram that relays pass on uncoded.
pub(crate) const RELAY_SMALL: usize = 200;
/// Generations from the oldest to the newest of a relayed link's source.
pub(crate) const RELAY_GENERATIONS: u64 = 64;
/// Generations of a direction that a relay, or the destination, remembers.
pub(crate) const RELAY_REMEMBERED: u64 = 2 * RELAY_GENERATIONS;
/// Transmitters that a report names.
pub(crate) const RELAY_HEARD: usize = 16;
/// Frames of one kind that wait at a node for a hop; more are dropped.
pub(crate) const RELAY_QUEUE: usize = 64;
