//! What the log says: events of the sessions, and failures that raise no event.
//!
//! What can happen a thousand times a second is counted and said once in a while.

use std::collections::{BTreeMap, BTreeSet};

use proto::select::NotForwarded;
use proto::{
    Duration, EndpointCounters, Event, Instant, Outcome, PathId, PathRef, SessionId, Share,
};
use tracing::{debug, info, trace, warn};

use super::Daemon;
use super::not_forwarded::message_name;
use crate::config::Role;
use crate::status::{call_words, reliability_word, state_word, version_words};

/// A peer that is not connected for this long is worth a line.
const UNANSWERED: Duration = Duration::from_secs(5);
/// Time between two lines about the same peer's absence, or about strangers.
const AGAIN: Duration = Duration::from_secs(60);

/// Messages that ended, by what they were.
type Ended = BTreeMap<Kind, u64>;

/// What a control message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A MAVLink frame of this message id.
    Mavlink(u32),
    /// A MAVLink frame of one more message id than a line tells apart.
    OtherMavlink,
    /// No MAVLink frame: a datagram of a control endpoint, or a packet of the tunnel.
    Datagram,
}

/// Kinds of messages that one line tells apart; further MAVLink messages are counted together.
const KINDS: usize = 16;

/// What the log has to say of a peer, and when it last said it.
#[derive(Clone, Debug, Default)]
struct PeerNews {
    /// Messages that ended without having arrived, since the last line about them.
    expired: Ended,
    unknown: Ended,
    /// Since when there is no session.
    absent_since: Option<Instant>,
    warned: Option<Instant>,
    /// How many datagrams had been dropped for want of processor time at the last line about it,
    /// and when that was.
    crowded: Option<(u64, Instant)>,
}

/// What has been counted and said, for lines that come once in a while.
#[derive(Debug, Default)]
pub(super) struct Journal {
    peers: Vec<PeerNews>,
    strangers: EndpointCounters,
    strangers_warned: Option<Instant>,
    /// What has been reported as not forwarded; bounded by what is counted.
    not_forwarded: BTreeSet<(usize, u8, NotForwarded)>,
}

impl Daemon {
    /// Writes an event's line.
    pub(super) fn log_event(&mut self, session: SessionId, event: &Event) {
        let place = self.peer_of(session);
        if let (Event::MessageEnded { message, outcome, mavlink }, Some(place)) = (event, place) {
            let news = self.journal.of(place);
            match outcome {
                Outcome::Expired => count(&mut news.expired, *mavlink),
                Outcome::Indeterminate => count(&mut news.unknown, *mavlink),
                Outcome::Delivered | Outcome::Superseded => {
                    trace!(number = message.0, ?outcome, "control message ended");
                }
            }
            return;
        }
        let peer = place.map_or("?", |peer| &self.config.peers[peer].name);
        let name = |path: PathId| self.path_name(PathRef { session, path });
        match event {
            Event::Connected { .. } => info!(peer, "session connected"),
            Event::Disconnected { reason } => self.log_end(place, reason),
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
            Event::BackupCalled { path, call } => {
                info!(peer, path = name(*path), why = call_words(*call), "backup called");
            }
            Event::BackupRests { path } => info!(peer, path = name(*path), "backup let go"),
            Event::PathTold { path, remote } => {
                info!(peer, path = name(*path), %remote, "the peer says that it is there now");
            }
            Event::Reliability { class, channel, state } => {
                let state = reliability_word(*state);
                info!(peer, class = ?class, channel = *channel, state, "reliability target");
            }
            Event::MessageEnded { .. } | Event::RoomForMessages | Event::Step(_) => {}
            Event::ClockStepped => info!(peer, "the peer's clock stepped"),
        }
    }

    /// Says once in a while what goes on in silence.
    pub(super) fn log_silence(&mut self, now: Instant) {
        for place in 0..self.peers.len() {
            let peer = self.config.peers[place].name.clone();
            let news = std::mem::take(self.journal.of(place));
            if news.expired.len() + news.unknown.len() > 0 {
                let (expired, unknown) = (listed(&news.expired), listed(&news.unknown));
                warn!(peer, expired, unknown, "control messages ended undelivered, or perhaps so");
                self.note_undelivered(now, &peer, &expired, &unknown);
            }
            let is_connected = self.peers[place].connected_at.is_some();
            let since = if is_connected { None } else { news.absent_since.or(Some(now)) };
            let old = |at: Instant, age| now.since(at) >= age;
            let due = since.is_some_and(|since| old(since, UNANSWERED))
                && news.warned.is_none_or(|at| old(at, AGAIN));
            if due {
                self.log_absence(place);
            }
            self.log_not_forwarded(place);
            let crowded = self.log_crowding(now, place, news.crowded);
            let warned = if due { Some(now) } else { news.warned.filter(|_| !is_connected) };
            *self.journal.of(place) =
                PeerNews { absent_since: since, warned, crowded, ..PeerNews::default() };
        }
        self.log_strangers(now);
    }

    /// Says that a peer wants more of the processor than its share.
    fn log_crowding(
        &self,
        now: Instant,
        place: usize,
        said: Option<(u64, Instant)>,
    ) -> Option<(u64, Instant)> {
        let session = self.peers[place].session?;
        let dropped = self.endpoint.work(Share::Session(session)).dropped;
        let before = said.map_or(0, |(before, _)| before.min(dropped));
        if dropped == before || said.is_some_and(|(_, at)| now.since(at) < AGAIN) {
            return said;
        }
        let (peer, dropped_now) = (&self.config.peers[place].name, dropped - before);
        warn!(
            peer,
            dropped = dropped_now,
            "its datagrams cost more than its share of the processor: some were dropped"
        );
        Some((dropped, now))
    }

    /// Says that a session is over: when we end it ourselves, that is no trouble, and nothing at
    /// all where there was none yet.
    fn log_end(&self, place: Option<usize>, reason: &str) {
        let peer = place.map_or("?", |peer| &self.config.peers[peer].name);
        let is_connected = place.is_some_and(|peer| self.peers[peer].connected_at.is_some());
        match (self.running, is_connected) {
            (true, _) => warn!(peer, reason, "session ended"),
            (false, true) => info!(peer, reason, "session ended"),
            (false, false) => debug!(peer, "there was no session yet"),
        }
    }

    /// Says why a drone's peer is not connected, as far as the daemon can tell.
    fn log_absence(&self, place: usize) {
        let peer = &self.config.peers[place].name;
        if let Some(other) = self.endpoint.other_version(self.peers[place].id) {
            warn!(peer, "{}", version_words(&other));
            return;
        }
        let Some(session) = self.peers[place].session else { return };
        if self.endpoint.is_refused(session) {
            let public_key = self.config.secret.public();
            warn!(
                peer,
                %public_key,
                "it answers, but does not know this public key, or has another preshared key"
            );
        } else if self.config.role == Role::Drone {
            let public_key = self.config.peers[place].key;
            warn!(
                peer,
                %public_key,
                "no answer: not reached, or it does not have the public key that is configured"
            );
        }
    }

    /// Says how many strangers were turned away.
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

/// Counts one more.
fn count(ended: &mut Ended, mavlink: Option<u32>) {
    let kind = mavlink.map_or(Kind::Datagram, Kind::Mavlink);
    let is_told = ended.len() < KINDS || ended.contains_key(&kind) || mavlink.is_none();
    *ended.entry(if is_told { kind } else { Kind::OtherMavlink }).or_default() += 1;
}

/// Says how many of what, the most first.
fn listed(ended: &Ended) -> String {
    let mut kinds: Vec<_> = ended.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kind = |(kind, count): (&Kind, &u64)| match kind {
        Kind::Mavlink(id) => format!("{count} {}", message_name(*id)),
        Kind::OtherMavlink => format!("{count} MAVLink messages of other kinds"),
        Kind::Datagram => format!("{count} datagrams that are not MAVLink"),
    };
    let kinds: Vec<_> = kinds.into_iter().map(kind).collect();
    if kinds.is_empty() { "none".into() } else { kinds.join(", ") }
}

impl Journal {
    /// Forgets the peers, which have other places now.
    pub(super) fn forget_peers(&mut self) {
        self.peers.clear();
        self.not_forwarded.clear();
    }

    /// Notes that something is not forwarded; true for the first time.
    pub(super) fn is_news(&mut self, what: (usize, u8, NotForwarded)) -> bool {
        self.not_forwarded.insert(what)
    }

    fn of(&mut self, place: usize) -> &mut PeerNews {
        if self.peers.len() <= place {
            self.peers.resize(place + 1, PeerNews::default());
        }
        &mut self.peers[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_is_named_and_counted_in_one_line() {
        let mut ended = Ended::new();
        assert_eq!(listed(&ended), "none");
        [Some(76), None, Some(76), Some(73)].into_iter().for_each(|id| count(&mut ended, id));
        let told = "2 COMMAND_LONG, 1 MISSION_ITEM_INT, 1 datagrams that are not MAVLink";
        assert_eq!(listed(&ended), told);
        (100..10_000).for_each(|id| count(&mut ended, Some(id)));
        assert_eq!((ended.len(), ended.values().sum::<u64>()), (KINDS + 1, 9_904));
        assert!(listed(&ended).starts_with("9887 MAVLink messages of other kinds, "));
    }
}
