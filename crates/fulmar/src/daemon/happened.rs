//! What happened, for those who follow it (`fulmar events`): the same as the lines of the log, as
//! data.

use proto::{Event, Instant, PathId, PathRef, PathState, ReliabilityState, SessionId};
use sys::clock;

use super::Daemon;
use super::tokens::Token;
use crate::config::Role;
use crate::endpoints::EndpointState;
use crate::events::EventReport;
use crate::status::{call_words, reliability_word, state_word};

impl Daemon {
    /// Serves the socket of events: new clients, or one that goes on.
    pub(super) fn serve_events(&mut self, part: usize) {
        let token = |part| Token::Events(part).encode();
        match part {
            0 => self.events.take_newcomers(&self.poller, token),
            part => self.events.go_on(part, &self.poller, token(part)),
        }
    }

    /// Notes that the daemon runs.
    pub(super) fn note_start(&mut self) {
        let role = match self.config.role {
            Role::Drone => "drone",
            Role::Station => "station",
        };
        let text = format!("{role} {} started", env!("CARGO_PKG_VERSION"));
        self.note(clock::now(), EventReport { text, ..report("started", false) });
    }

    /// Notes what happened to a session.
    pub(super) fn note_event(&mut self, now: Instant, session: SessionId, event: &Event) {
        let Some(told) = self.told(session, event) else { return };
        let peer = self.peer_of(session).map(|place| self.config.peers[place].name.clone());
        self.note(now, EventReport { peer: peer.unwrap_or_default(), ..told });
    }

    /// Notes which control messages ended undelivered, or perhaps so.
    pub(super) fn note_undelivered(
        &mut self,
        now: Instant,
        peer: &str,
        expired: &str,
        unknown: &str,
    ) {
        let text = format!("control messages ended undelivered: {expired}; perhaps so: {unknown}");
        self.note(now, EventReport { peer: peer.into(), text, ..report("undelivered", true) });
    }

    /// Notes that an endpoint of this end or the other is no longer as it was, and says so in the
    /// log.
    pub(super) fn note_endpoint(
        &mut self,
        now: Instant,
        place: usize,
        word: &str,
        (from, to): (EndpointState, EndpointState),
        text: String,
    ) {
        let peer = self.config.peers[place].name.clone();
        let is_warning = to != EndpointState::Well;
        match is_warning {
            true => tracing::warn!(peer, "{text}"),
            false => tracing::info!(peer, "{text}"),
        }
        self.record_text(now, &peer, is_warning, &text);
        let (from, to) = (from.word().into(), to.word().into());
        self.note(now, EventReport { peer, from, to, text, ..report(word, is_warning) });
    }

    /// Notes what the pilot is told of a peer, in the same words.
    pub(super) fn note_told(&mut self, now: Instant, place: usize, is_warning: bool, text: &str) {
        let peer = self.config.peers[place].name.clone();
        let text = text.into();
        self.note(now, EventReport { peer, text, ..report("pilot-told", is_warning) });
    }

    fn note(&mut self, now: Instant, event: EventReport) {
        let uptime_s = now.since(self.started).as_secs_f64();
        let event = EventReport { uptime_s, ..event };
        self.events.push(event, &self.poller, |part| Token::Events(part).encode());
    }

    /// Says what an event is; none where it is no news to people.
    fn told(&self, session: SessionId, event: &Event) -> Option<EventReport> {
        let of_path = |path: &PathId, word, is_warning, text: String| {
            let path = self.path_name(PathRef { session, path: *path });
            EventReport { path, text, ..report(word, is_warning) }
        };
        let of_session =
            |word, is_warning, text: String| EventReport { text, ..report(word, is_warning) };
        Some(match event {
            Event::Connected { .. } => of_session("connected", false, "connected".into()),
            Event::Disconnected { reason } => {
                of_session("disconnected", true, format!("the session is over: {reason}"))
            }
            Event::Contested { from } => {
                let text =
                    format!("another daemon has this peer's key; it was turned away, at {from}");
                of_session("contested", true, text)
            }
            Event::PathAdded { path, remote } => {
                of_path(path, "path-added", false, format!("known, to {remote}"))
            }
            Event::PathChanged { path, from, to } => {
                let is_warning = matches!(to, PathState::Suspected | PathState::Absent);
                let (from, to) = (state_word(*from), state_word(*to));
                let text = format!("{to}, was {from}");
                let event = of_path(path, "path-changed", is_warning, text);
                EventReport { from: from.into(), to: to.into(), ..event }
            }
            Event::PathMoved { path, remote } => {
                of_path(path, "path-moved", false, format!("moved to {remote}"))
            }
            Event::BackupCalled { path, call } => {
                let text = format!("backup called: {}", call_words(*call));
                of_path(path, "backup-called", true, text)
            }
            Event::BackupRests { path } => {
                of_path(path, "backup-rests", false, "backup let go".into())
            }
            Event::PathTold { path, remote } => {
                let text = format!("the peer says that it is at {remote} now");
                of_path(path, "path-told", false, text)
            }
            Event::Reliability { class, channel, state } => {
                let is_warning = *state == ReliabilityState::NotReachable;
                let of = channel.map_or(String::new(), |channel| format!(", channel {channel}"));
                let state = reliability_word(*state);
                let class = format!("{class:?}").to_lowercase();
                let text = format!("reliability target of {class}{of}: {state}");
                EventReport { to: state.into(), ..of_session("reliability", is_warning, text) }
            }
            Event::ClockStepped => {
                of_session("clock-stepped", false, "the peer's clock stepped".into())
            }
            // New keys come every two minutes; what became of messages is said once a second.
            Event::Rekeyed
            | Event::MessageEnded { .. }
            | Event::RoomForMessages
            | Event::Step(_) => return None,
        })
    }
}

fn report(event: &str, is_warning: bool) -> EventReport {
    let level = if is_warning { "warning" } else { "info" };
    EventReport { level: level.into(), event: event.into(), ..EventReport::default() }
}
