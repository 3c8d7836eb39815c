//! What the report says of those who are no peers.

use proto::EndpointCounters;
use serde::{Deserialize, Serialize};

use super::field::Kind::{Counter, Gauge};
use super::field::{Field, Section, section};

section! {
    /// What came in and belongs to no session.
    StrangersReport of all: EndpointCounters;

    /// Datagrams that came in, those of sessions included.
    received: u64, Counter("datagrams"), all.received;
    /// Datagrams that are none of ours.
    garbage: u64, Counter("datagrams"), not_ours(all);
    /// Of those, data under keys that are not held here.
    unknown_keys: u64, Counter("datagrams"), all.unknown_index;
    /// Of those, handshakes for another public key than ours.
    other_keys: u64, Counter("datagrams"), all.bad_mac;
    /// Time since the last of them, to a second.
    other_keys_last_s: Option<f64>, Gauge("s");
    /// Of those, handshakes of a key, or preshared key, that no peer here has.
    unknown_peers: u64, Counter("datagrams"), all.unknown_peer;
    /// Time since the last of them, to a second.
    unknown_peers_last_s: Option<f64>, Gauge("s");
    /// Of those, handshakes that were forged, damaged or made with another preshared key.
    unauthentic: u64, Counter("datagrams"), all.unauthentic;
    /// Handshakes that came again after their time.
    replayed: u64, Counter("datagrams"), all.replayed;
    /// Handshakes begun here, each try counted.
    begun: u64, Counter("datagrams"), all.initiations_sent;
    /// Handshakes of peers that were answered.
    answered: u64, Counter("handshakes"), all.responses_made;
    /// The same answers given again, to a copy that came by another path for instance.
    answered_again: u64, Counter("datagrams"), all.responses_repeated;
    /// Handshakes completed.
    handshakes: u64, Counter("handshakes"), all.handshakes;
    /// Initiations answered with a cookie.
    cookies: u64, Counter("datagrams"), all.cookies_sent;
    /// Cookies that we were given and used.
    cookies_used: u64, Counter("datagrams"), all.cookies_received;
    /// Sessions refused because there are as many as there may be.
    sessions_refused: u64, Counter("sessions"), all.sessions_refused;
    /// Sessions refused because there was no memory for another one's share.
    sessions_without_memory: u64, Counter("sessions"), all.sessions_without_memory;
    /// Answers to handshakes that were not sent because too many waited already.
    answers_dropped: u64, Counter("datagrams"), all.answers_dropped;
    /// Datagrams dropped by the limits on handshakes.
    limited: u64, Counter("datagrams"), all.rate_limited;
    /// Connections that were accepted, those of peers included.
    connections: u64, Counter("connections");
    /// Of those, the ones at which a session has answered.
    connections_of_sessions: u64, Counter("connections");
    /// Of those, the ones that were closed at once, since strangers had as many as they may have.
    connections_refused: u64, Counter("connections");
    /// Of those, the ones that were closed later: ten seconds without a session, or others had to
    /// have their place.
    connections_cut_off: u64, Counter("connections");
    /// Of those, the ones that ended by a length that no datagram has.
    connections_malformed: u64, Counter("connections");
    /// Processor time that handshakes took, those of strangers included.
    processor_s: f64, Counter("s");
}

fn not_ours(all: &EndpointCounters) -> u64 {
    all.garbage + all.unknown_index + all.bad_mac + all.unauthentic + all.unknown_peer
}
