//! What the log says: events of the sessions, and what goes wrong in silence.
//!
//! What can happen a thousand times a second is counted and said once in a while.

use proto::{Duration, EndpointCounters, Event, Instant, Outcome, PathId, PathRef, SessionId};
use tracing::{debug, info, trace, warn};

use super::Daemon;
use super::report::state_word;
use crate::config::Role;

/// A peer that is not connected for this long is worth a line …
const UNANSWERED: Duration = Duration::from_secs(5);
/// … and again after this; so are strangers.
const AGAIN: Duration = Duration::from_secs(60);

/// What the log has to say of a peer, and when it last said it.
#[derive(Clone, Copy, Debug, Default)]
struct PeerNews {
    /// Messages that ended without having arrived, since it was last said.
    expired: u64,
    unknown: u64,
    /// Since when there is no session.
    absent_since: Option<Instant>,
    warned: Option<Instant>,
}

/// Keeps what is said once in a while.
#[derive(Debug, Default)]
pub(super) struct Journal {
    peers: Vec<PeerNews>,
    strangers: EndpointCounters,
    strangers_warned: Option<Instant>,
}

impl Daemon {
    /// Writes what an event has to say.
    pub(super) fn log_event(&mut self, now: Instant, session: SessionId, event: &Event) {
        let place = self.peer_of(session);
        if let (Event::MessageEnded { message, outcome }, Some(place)) = (event, place) {
            let news = self.journal.of(place);
            match outcome {
                Outcome::Expired => news.expired += 1,
                Outcome::Indeterminate => news.unknown += 1,
                Outcome::Delivered | Outcome::Superseded => {
                    trace!(number = message.0, ?outcome, "control message ended");
                }
            }
            return;
        }
        let peer = place.map_or("?", |peer| &self.config.peers[peer].name);
        let name = |path: PathId| self.path_name(now, PathRef { session, path });
        match event {
            Event::Connected { .. } => info!(peer, "session connected"),
            Event::Disconnected { reason } => warn!(peer, reason, "session ended"),
            Event::Rekeyed => debug!(peer, "new keys"),
            Event::Contested { from } => {
                warn!(peer, %from, "another daemon has this peer's key; it was turned away");
            }
            Event::PathAdded { path, remote } => {
                info!(peer, path = name(*path), %remote, "path known");
            }
            Event::PathChanged { path, from, to } => {
                let (path, from, to) = (name(*path), state_word(*from), state_word(*to));
                info!(peer, path, from, to, "path changed");
            }
            Event::PathMoved { path, remote } => {
                info!(peer, path = name(*path), %remote, "path moved");
            }
            Event::PathTold { path, remote } => {
                info!(peer, path = name(*path), %remote, "the peer says that it is there now");
            }
            Event::MessageEnded { .. } | Event::RoomForMessages => {}
            Event::ClockStepped => info!(peer, "the peer's clock stepped"),
        }
    }

    /// Says once in a while what goes on in silence.
    pub(super) fn log_silence(&mut self, now: Instant) {
        for place in 0..self.peers.len() {
            let peer = self.config.peers[place].name.clone();
            let news = *self.journal.of(place);
            if news.expired + news.unknown > 0 {
                let (expired, unknown) = (news.expired, news.unknown);
                warn!(peer, expired, unknown, "control messages ended undelivered, or perhaps so");
            }
            let is_connected = self.peers[place].connected_at.is_some();
            let since = if is_connected { None } else { news.absent_since.or(Some(now)) };
            let old = |at: Instant, age| now.since(at) >= age;
            let due = since.is_some_and(|since| old(since, UNANSWERED))
                && news.warned.is_none_or(|at| old(at, AGAIN));
            if due {
                self.log_absence(place);
            }
            let warned = if due { Some(now) } else { news.warned.filter(|_| !is_connected) };
            *self.journal.of(place) =
                PeerNews { absent_since: since, warned, ..PeerNews::default() };
        }
        self.log_strangers(now);
    }

    /// Says why a drone's peer is not connected, as far as one can know.
    fn log_absence(&self, place: usize) {
        let peer = &self.config.peers[place].name;
        let Some(session) = self.peers[place].session else { return };
        if self.endpoint.is_refused(session) {
            warn!(
                peer,
                "it answers, but does not know this public key, or has another preshared key"
            );
        } else if self.config.role == Role::Drone {
            warn!(
                peer,
                "no answer: not reached, or it does not have the public key that is configured"
            );
        }
    }

    /// Says who came in vain.
    fn log_strangers(&mut self, now: Instant) {
        let (before, counters) = (self.journal.strangers, self.endpoint.counters());
        let unknown = counters.unknown_peer - before.unknown_peer;
        let other_key = counters.bad_mac - before.bad_mac;
        let warned = self.journal.strangers_warned;
        if unknown + other_key == 0 || warned.is_some_and(|at| now.since(at) < AGAIN) {
            return;
        }
        if unknown > 0 {
            warn!(count = unknown, "handshakes of a key, or preshared key, that no peer here has");
        }
        if other_key > 0 {
            warn!(count = other_key, "handshakes for another public key than this daemon's");
        }
        (self.journal.strangers, self.journal.strangers_warned) = (counters, Some(now));
    }
}

impl Journal {
    /// Forgets the peers, which have other places now.
    pub(super) fn forget_peers(&mut self) {
        self.peers.clear();
    }

    fn of(&mut self, place: usize) -> &mut PeerNews {
        if self.peers.len() <= place {
            self.peers.resize(place + 1, PeerNews::default());
        }
        &mut self.peers[place]
    }
}
