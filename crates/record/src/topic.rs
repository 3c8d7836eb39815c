//! The channels of a record: which topic says what, and of whom.

/// Events of all peers.
pub const EVENTS: &str = "/events";
/// The recorder itself.
pub const RECORDER: &str = "/recorder";
/// Positions, of whichever vehicle.
pub const POSITION: &str = "/position";

/// The samples of a path.
pub fn path(peer: &str, path: &str) -> String {
    format!("/path/{}/{}", word(peer), word(path))
}

/// The control messages that were handed in for a peer.
pub fn control(peer: &str) -> String {
    format!("/control/{}", word(peer))
}

/// The control messages that came from a peer.
pub fn received(peer: &str) -> String {
    format!("/received/{}", word(peer))
}

/// The session with a peer.
pub fn session(peer: &str) -> String {
    format!("/session/{}", word(peer))
}

/// Returns what a topic is about: the kind of channel, then the peer, then the path.
pub fn parts(topic: &str) -> (&str, &str, &str) {
    let mut parts = topic.trim_start_matches('/').splitn(3, '/');
    let mut next = || parts.next().unwrap_or_default();
    (next(), next(), next())
}

/// A name as one part of a topic.
fn word(name: &str) -> String {
    name.replace('/', "_")
}
