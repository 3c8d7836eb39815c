//! What an endpoint did with datagrams, and what of them belonged to no session: counted, never
//! answered with a log line.

/// Counts what an endpoint did with datagrams, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams that came in.
    pub received: u64,
    /// Of no type, or of a wrong length for their type.
    pub garbage: u64,
    /// Data datagrams whose index names no keys.
    pub unknown_index: u64,
    /// Handshake datagrams of a sender that did not know whom it talked to.
    pub bad_mac: u64,
    /// Handshake datagrams that were forged, damaged or made with another pre-shared key.
    pub unauthentic: u64,
    /// Initiations of keys that are not among the peers.
    pub unknown_peer: u64,
    /// Handshake datagrams that came again after their time.
    pub replayed: u64,
    /// Handshakes refused because their source, or all of them, came too often.
    pub rate_limited: u64,
    /// Initiations answered with a cookie.
    pub cookies_sent: u64,
    /// Cookies received and used.
    pub cookies_received: u64,
    /// Initiations sent.
    pub initiations_sent: u64,
    /// Initiations that cost Diffie–Hellmans and were answered.
    pub responses_made: u64,
    /// Initiations that came again, by another path for instance, and got the same answer.
    pub responses_repeated: u64,
    /// Handshakes completed: new keys took over.
    pub handshakes: u64,
    /// Answers that were not sent because too many waited already.
    pub answers_dropped: u64,
    /// Sessions refused because the endpoint has as many as it may.
    pub sessions_refused: u64,
    /// Sessions refused because there was no memory for their share.
    pub sessions_without_memory: u64,
}
