//! What is told about the sessions: log lines, the status report, the line for the service manager.

use proto::{
    ClassStatus, Event, Instant, MessageDelay, MessageOrder, MessageStatus, MessageStreamStatus,
    PathRef, PathState, PathStatus, Rate, SessionId, Share,
};

use super::Daemon;
use super::tokens::Token;
use crate::config::Role;
use crate::status::{
    ClassReport, DelayReport, EndpointReport, MessageReport, MessageStreamReport, PathReport,
    PeerReport, Report, StrangersReport, TunnelReport, path_trouble, peer_trouble,
};

/// Measures the rates of a path between two looks at its counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    at: Instant,
    sent: u64,
    received: u64,
    out: Rate,
    back: Rate,
}

impl Daemon {
    /// Writes a log line for each event, and follows which peer has which session.
    pub(super) fn report_events(&mut self, now: Instant) {
        while let Some((session, event)) = self.endpoint.poll_event() {
            if let Event::Connected { peer } = event
                && let Some(place) = self.peers.iter().position(|state| state.id == peer)
            {
                let state = &mut self.peers[place];
                if let Some(old) = state.session {
                    self.places.remove(&old);
                }
                (state.session, state.connected_at) = (Some(session), Some(now));
                self.places.insert(session, place);
            }
            if matches!(event, Event::RoomForMessages | Event::Connected { .. }) {
                self.offer_held(now, session);
            }
            self.log_event(session, &event);
            if let Event::PathTold { path, remote } = event {
                self.remotes.learn(&self.paths, PathRef { session, path }, remote);
            }
            if let Event::Disconnected { .. } = event
                && let Some(peer) = self.peer_of(session)
            {
                self.peers[peer].connected_at = None;
            }
        }
    }

    /// Answers who has come to the status socket, or goes on with a client that reads slowly.
    pub(super) fn answer_status(&mut self, now: Instant, part: usize) {
        if part > 0 {
            return self.status.go_on(part);
        }
        for client in self.status.newcomers() {
            let report = self.take_report(now);
            self.status.give(client, &report, &self.poller, |part| Token::Status(part).encode());
        }
    }

    /// Takes the counters of every path, once a second.
    pub(super) fn measure(&mut self, now: Instant) {
        let sessions: Vec<SessionId> = self.endpoint.sessions().map(|(id, _)| id).collect();
        let old = std::mem::take(&mut self.meters);
        for session in sessions {
            for path in self.endpoint.paths(session) {
                let key = PathRef { session, path: path.id };
                let meter = old.get(&key).copied().unwrap_or_default();
                self.meters.insert(key, meter.next(now, path.sent_bytes, path.received_bytes));
            }
        }
    }

    /// Says in one line how the daemon is.
    pub(super) fn summary(&self) -> String {
        let connected = self.peers.iter().filter(|peer| peer.connected_at.is_some()).count();
        let links = self.sockets.list.iter().filter(|socket| socket.udp.is_some()).count();
        let (peers, all) = (self.peers.len(), self.sockets.list.len());
        format!("{connected} of {peers} peers connected, {links} of {all} links there")
    }

    /// Names a path: a drone's as its file does, a station's by where it comes from.
    pub(super) fn path_name(&self, path: PathRef) -> String {
        if let Some(slot) = self.paths.iter().position(|known| *known == Some(path)) {
            return self.sockets.list[slot].name.clone();
        }
        let found = self.endpoint.paths(path.session).find(|known| known.id == path.path);
        found.map_or_else(|| format!("#{}", path.path.0), |known| known.remote.to_string())
    }

    fn take_report(&self, now: Instant) -> Report {
        let role = match self.config.role {
            Role::Drone => "drone",
            Role::Station => "station",
        };
        let counters = self.endpoint.counters();
        let handshake_refusals = counters.bad_mac + counters.unauthentic + counters.unknown_peer;
        Report {
            role: role.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            public_key: self.config.secret.public().to_string(),
            uptime_s: now.since(self.started).as_secs_f64(),
            peers: (0..self.peers.len()).map(|peer| self.peer_report(now, peer, role)).collect(),
            endpoints: self.locals.values().map(|local| self.endpoint_report(local)).collect(),
            tunnel: self.tunnel_report(),
            strangers: StrangersReport {
                garbage: counters.garbage + counters.unknown_index + handshake_refusals,
                handshakes: counters.handshakes,
                cookies: counters.cookies_sent,
                limited: counters.rate_limited,
                processor_s: self.endpoint.work(Share::Handshakes).processor.as_secs_f64(),
            },
            reload: self.reload.clone(),
        }
    }

    fn peer_report(&self, now: Instant, peer: usize, role: &str) -> PeerReport {
        let (state, config) = (&self.peers[peer], &self.config.peers[peer]);
        let mut report = PeerReport {
            name: config.name.clone(),
            public_key: config.key.to_string(),
            connected: state.connected_at.is_some(),
            queue_free_percent: 100,
            ..PeerReport::default()
        };
        let status = state.session.and_then(|id| Some((id, self.endpoint.status(now, id)?)));
        if let Some((session, status)) = status {
            let connected = state.connected_at.map(|since| now.since(since).as_secs_f64());
            report.session_s = connected;
            report.clock_offset_ms = status.clock_offset_us.map(|(offset, _)| offset as f64 / 1e3);
            report.clock_error_ms = status.clock_offset_us.map(|(_, error)| error as f64 / 1e3);
            report.queue_free_percent = status.queue_free_percent;
            report.rejected_datagrams = status.rejected_datagrams;
            let work = self.endpoint.work(Share::Session(session));
            report.processor_s = work.processor.as_secs_f64();
            (report.late_datagrams, report.dropped_datagrams) = (work.late, work.dropped);
            let path = |path: &PathStatus| self.path_report(session, path);
            report.paths = status.paths.iter().map(path).collect();
            report.paths.extend(self.paths_without_address(peer));
            report.classes = status.classes.iter().map(class_report).collect();
            report.messages = message_report(&status.messages);
            let stream = |stream: &MessageStreamStatus| self.stream_report(peer, stream);
            report.message_streams = status.message_streams.iter().map(stream).collect();
        }
        report.not_forwarded = self.not_forwarded_report(peer);
        report.trouble = peer_trouble(&report, role);
        report
    }

    /// Shows the paths whose remote address is not known yet.
    fn paths_without_address(&self, peer: usize) -> impl Iterator<Item = PathReport> {
        let slots = self.config.paths.iter().enumerate();
        let unknown = slots.filter(move |(slot, path)| {
            path.peer == peer && self.paths.get(*slot).is_some_and(Option::is_none)
        });
        unknown.map(|(slot, path)| PathReport {
            name: path.name.clone(),
            interface: path.interface.clone(),
            remote: path.remotes[0].to_string(),
            state: state_word(PathState::Absent).into(),
            trouble: self.remotes.trouble(slot),
            ..PathReport::default()
        })
    }

    fn path_report(&self, session: SessionId, path: &PathStatus) -> PathReport {
        let key = PathRef { session, path: path.id };
        let meter = self.meters.get(&key).copied().unwrap_or_default();
        let socket = self.sockets.place(path.interface).map(|(slot, _)| &self.sockets.list[slot]);
        let millis = |time: Option<proto::Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        let mut report = PathReport {
            name: self.path_name(key),
            interface: self.sockets.interface_name(path.interface),
            remote: path.remote.to_string(),
            state: state_word(path.state).into(),
            trouble: String::new(),
            srtt_ms: millis(path.srtt),
            rttvar_ms: millis(path.rttvar),
            min_rtt_ms: millis(path.min_rtt),
            loss_percent: path.loss * 100.0,
            burst: path.burst,
            delivery_rate_mbps: path.delivery_rate.as_mbps(),
            can_carry_mbps: path.capacity.map(Rate::as_mbps),
            out_mbps: meter.out.as_mbps(),
            in_mbps: meter.back.as_mbps(),
            cwnd_bytes: path.cwnd,
            in_flight_bytes: path.in_flight,
            mtu: path.mtu,
            sent_datagrams: path.sent.0,
            sent_bytes: path.sent.1,
            received_datagrams: path.received.0,
            received_bytes: path.received.1,
            send_errors: socket.map_or(0, |socket| socket.errors),
            silent_ms: millis(path.silent_for),
        };
        let refused = socket
            .and_then(|socket| socket.last_error.as_ref())
            .map(|error| format!("cannot send: {error}; is there a route to {}?", report.remote));
        let lacks = socket.and_then(|socket| socket.trouble.clone()).or(refused);
        report.trouble = path_trouble(&report, lacks.as_deref());
        report
    }

    fn stream_report(&self, peer: usize, status: &MessageStreamStatus) -> MessageStreamReport {
        let user = self.locals.values().map(|local| &local.config).find(|config| {
            config.peer == peer
                && config.channel == status.channel
                && config.takes(Some(status.stream))
        });
        let name = match (status.channel, user) {
            (0, _) if status.stream == u16::MAX => "signed MAVLink",
            (0, _) => "tunnel",
            (_, user) => user.map_or("", |config| &config.name),
        };
        let direction = match (status.submitted, status.delivered + status.late) {
            (1.., 1..) => "both",
            (1.., 0) => "out",
            (0, _) => "in",
        };
        let order = match status.order {
            MessageOrder::InOrder => "in-order",
            MessageOrder::Unordered => "unordered",
        };
        MessageStreamReport {
            name: name.into(),
            channel: status.channel,
            stream: status.stream,
            order: order.into(),
            direction: direction.into(),
            submitted: status.submitted,
            sent: status.sent,
            expired: status.expired,
            waiting_bytes: status.waiting_bytes as u64,
            delivered: status.delivered,
            skipped: status.late,
            delay: delay_report(&status.delay),
        }
    }

    fn endpoint_report(&self, local: &crate::endpoints::LocalEndpoint) -> EndpointReport {
        EndpointReport {
            name: local.config.name.clone(),
            peer: self.config.peers[local.config.peer].name.clone(),
            channel: local.config.channel,
            stream: local.config.stream(),
            description: local.describe(),
            taken: local.counts.taken,
            refused: local.counts.refused,
            given: local.counts.given,
            dropped: local.counts.dropped,
            filtered: local.counts.filtered,
        }
    }

    fn tunnel_report(&self) -> Option<TunnelReport> {
        let (tunnel, config) = (self.tunnel.as_ref()?, self.config.tunnel.as_ref()?);
        let counts = tunnel.counts;
        Some(TunnelReport {
            interface: config.interface.clone(),
            out_packets: counts.out_packets,
            in_packets: counts.in_packets,
            unrouted: counts.unrouted,
            spoofed: counts.spoofed,
            too_large: counts.too_large,
            refused: counts.refused,
        })
    }
}

impl Meter {
    fn next(self, now: Instant, sent: u64, received: u64) -> Self {
        let time = now.since(self.at);
        let out = Rate::from_bytes_in(sent.saturating_sub(self.sent), time);
        let back = Rate::from_bytes_in(received.saturating_sub(self.received), time);
        Self { at: now, sent, received, out, back }
    }
}

/// Returns the word for a state.
pub(super) fn state_word(state: PathState) -> &'static str {
    match state {
        PathState::Absent => "absent",
        PathState::Validating => "validating",
        PathState::Active => "active",
        PathState::Suspected => "suspected",
        PathState::Closed => "closed",
    }
}

fn class_report(class: &ClassStatus) -> ClassReport {
    let millis = |time: proto::Duration| (class.delivered > 0).then_some(time.as_secs_f64() * 1e3);
    ClassReport {
        class: format!("{:?}", class.class).to_lowercase(),
        submitted: class.submitted,
        dropped: class.dropped,
        superseded: class.superseded,
        copies_sent: class.copies_sent,
        delivered: class.delivered,
        duplicates: class.duplicates,
        late: class.late,
        delay_p50_ms: millis(class.delay.p50),
        delay_p95_ms: millis(class.delay.p95),
        delay_p99_ms: millis(class.delay.p99),
        delay_max_ms: millis(class.delay.max),
    }
}

fn message_report(status: &MessageStatus) -> MessageReport {
    MessageReport {
        submitted: status.submitted,
        expired: status.expired,
        waiting_bytes: status.waiting_bytes as u64,
        source_symbols: status.source_symbols,
        repair_symbols: status.repair_symbols,
        resent_symbols: status.resent_symbols,
        given_up_symbols: status.given_up_symbols,
        received_symbols: status.received_symbols,
        decoded_symbols: status.decoded_symbols,
        redundant_symbols: status.redundant_symbols,
        delivered: status.delivered,
        skipped: status.late,
        refused_pieces: status.refused,
        delay: delay_report(&status.delay),
    }
}

fn delay_report(delay: &MessageDelay) -> DelayReport {
    let millis = |time: proto::Duration| time.as_secs_f64() * 1e3;
    DelayReport {
        division_ms: millis(delay.division),
        encoding_ms: millis(delay.encoding),
        end_to_end_ms: millis(delay.end_to_end),
        decoding_ms: millis(delay.decoding),
        reconstruction_ms: millis(delay.reconstruction),
    }
}
