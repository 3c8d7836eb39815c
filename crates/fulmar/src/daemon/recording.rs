//! What the flight recorder is told, where `[record]` asks for one: events and steps of control
//! messages, paths and sessions as they are, MAVLink as it passes.

use std::sync::Arc;

use proto::select::Class;
use proto::{
    Delivery, Event, Instant, MessageStreamStatus, PathId, PathRef, PathStatus, SessionId,
    SessionStatus,
};
use record::{schema, tlog};

use super::Daemon;
use crate::recorder::{Note, Recorder, class_word};
use crate::status::{call_words, millis, reliability_word, state_word};

/// Severities of `foxglove.Log`.
const DEBUG: u8 = 1;
const INFO: u8 = 2;
const WARNING: u8 = 3;

impl Daemon {
    /// Samples what is due, and hands the notes on.
    pub(super) fn record(&mut self, now: Instant) {
        let Some(recorder) = self.recorder.as_mut().filter(|it| it.timeout() <= now) else {
            return;
        };
        let sessions = self.peers.iter().filter_map(|peer| peer.session);
        let paths = sessions.map(|session| self.endpoint.paths(session).count()).sum();
        let of_sessions = recorder.on_sample(now, paths);
        let mut notes = Vec::new();
        for (place, peer) in self.peers.iter().enumerate() {
            let Some(session) = peer.session else { continue };
            let name: Arc<str> = self.config.peers[place].name.as_str().into();
            for status in self.endpoint.path_statuses(now, session) {
                let path = PathRef { session, path: status.id };
                let sample = path_sample(&status, self.path_name(path));
                notes.push(Note::Path(now, Arc::clone(&name), path, Box::new(sample)));
            }
            if of_sessions && let Some(status) = self.endpoint.status(now, session) {
                notes.push(Note::Session(now, name, Box::new(session_sample(now, &status))));
            }
        }
        let Some(recorder) = &mut self.recorder else { return };
        notes.into_iter().for_each(|note| recorder.note(note));
        recorder.hand_on();
    }

    /// Tells the recorder what happened.
    pub(super) fn record_event(&mut self, now: Instant, session: SessionId, event: Event) {
        if self.recorder.is_none() {
            return;
        }
        let place = self.peer_of(session);
        let peer: Arc<str> = place.map_or("?", |peer| &self.config.peers[peer].name).into();
        let said = self.event_text(session, &event);
        let Some(recorder) = &mut self.recorder else { return };
        if let Some((level, text)) = said {
            recorder.note(Note::Event(now, Arc::clone(&peer), level, text));
        }
        match event {
            Event::Step(step) => recorder.note(Note::Step(peer, session, step)),
            Event::Connected { .. } => recorder.note(Note::Began(session)),
            _ => {}
        }
    }

    /// Tells the recorder something that is no event of the session.
    pub(super) fn record_text(&mut self, now: Instant, peer: &str, is_warning: bool, text: &str) {
        let level = if is_warning { WARNING } else { INFO };
        if let Some(recorder) = &mut self.recorder {
            recorder.note(Note::Event(now, peer.into(), level, text.into()));
        }
    }

    /// Says what happened, and how grave it is; nothing for what is told in another way.
    fn event_text(&self, session: SessionId, event: &Event) -> Option<(u8, String)> {
        let name = |path: PathId| self.path_name(PathRef { session, path });
        Some(match event {
            Event::Connected { .. } => (INFO, "session connected".into()),
            Event::Disconnected { reason } => (WARNING, format!("session ended: {reason}")),
            Event::Rekeyed => (DEBUG, "new keys".into()),
            Event::Contested { from } => (
                WARNING,
                format!("another daemon at {from} has this peer's key; it was turned away"),
            ),
            Event::PathAdded { path, remote } => {
                (INFO, format!("path {} known, to {remote}", name(*path)))
            }
            Event::PathChanged { path, from, to } => {
                let level = if *to == proto::PathState::Active { INFO } else { WARNING };
                let (from, to) = (state_word(*from), state_word(*to));
                (level, format!("path {}: {from} → {to}", name(*path)))
            }
            Event::PathMoved { path, remote } => {
                (INFO, format!("path {} moved to {remote}", name(*path)))
            }
            Event::BackupCalled { path, call } => {
                (WARNING, format!("backup {} called: {}", name(*path), call_words(*call)))
            }
            Event::BackupRests { path } => (INFO, format!("backup {} let go", name(*path))),
            Event::PathTold { path, remote } => {
                (INFO, format!("path {}: the peer says that it is at {remote} now", name(*path)))
            }
            Event::Reliability { class, channel, state } => {
                let of = channel.map_or(String::new(), |channel| format!(" of endpoint {channel}"));
                let (class, state) = (class_word(*class), reliability_word(*state));
                (INFO, format!("reliability target of {class}{of}: {state}"))
            }
            Event::ClockStepped => (INFO, "the peer's clock stepped".into()),
            Event::MessageEnded { .. } | Event::RoomForMessages | Event::Step(_) => return None,
        })
    }
}

/// Tells the recorder what the peer's applications have sent.
pub(super) fn record_delivery(
    recorder: &mut Recorder,
    now: Instant,
    peer: &str,
    delivery: &Delivery,
    is_mavlink: bool,
) {
    if matches!(delivery.class, Class::Liveness | Class::Live | Class::Control) {
        let message = schema::Received {
            class: class_word(delivery.class),
            channel: delivery.channel,
            mavlink: if is_mavlink { tlog::message_id(&delivery.bytes) } else { None },
            bytes: delivery.bytes.len() as u64,
            age_ms: millis(delivery.age),
        };
        recorder.note(Note::Received(now, peer.into(), message));
    }
    if is_mavlink {
        recorder.on_mavlink(now, &delivery.bytes);
    }
}

fn path_sample(status: &PathStatus, name: String) -> schema::Path {
    schema::Path {
        name,
        id: status.id.0,
        state: state_word(status.state).into(),
        rests: status.serves.is_none() && status.usage.backup,
        srtt_ms: status.srtt.map(millis),
        rttvar_ms: status.rttvar.map(millis),
        min_rtt_ms: status.min_rtt.map(millis),
        loss_out: status.loss,
        loss_in: status.loss_in,
        burst: status.burst,
        delivery_mbps: status.delivery_rate.as_mbps(),
        capacity_mbps: status.capacity.map(proto::Rate::as_mbps),
        cwnd_bytes: status.cwnd,
        in_flight_bytes: status.in_flight,
        mtu_bytes: status.mtu as u64,
        sent: status.sent.0,
        sent_bytes: status.sent.1,
        received: status.received.0,
        received_bytes: status.received.1,
        acked: status.acked,
        lost: status.lost,
        late: status.late,
        silent_ms: status.silent_for.map(millis),
        ..schema::Path::default()
    }
}

fn session_sample(now: Instant, status: &SessionStatus) -> schema::Session {
    let classes = status.classes.iter().map(|class| schema::Class {
        class: class_word(class.class),
        submitted: class.submitted,
        dropped: class.dropped,
        copies_sent: class.copies_sent,
        delivered: class.delivered,
        late: class.late,
    });
    schema::Session {
        connected: status.connected,
        clock_ms: now.as_nanos() as f64 / 1e6,
        clock_offset_ms: status.clock_offset_us.map(|(offset, _)| offset as f64 / 1e3),
        clock_error_ms: status.clock_offset_us.map(|(_, error)| error as f64 / 1e3),
        classes: classes.collect(),
        streams: status.message_streams.iter().map(stream_sample).collect(),
    }
}

fn stream_sample(status: &MessageStreamStatus) -> schema::Stream {
    schema::Stream {
        channel: status.channel,
        stream: status.stream.into(),
        submitted: status.submitted,
        waiting_bytes: status.waiting_bytes as u64,
        expired: status.expired,
        delivered: status.delivered,
        late: status.late,
    }
}
