//! What is told about the sessions: log lines, the status report, the line for the service manager.

use proto::{
    Duration, EndpointCounters, Event, Instant, InterfaceId, MessageStreamStatus, PathRef,
    PathState, PathStatus, Rate, SessionId, SessionStatus, Share, Via,
};

use super::Daemon;
use super::notes::link_name;
use super::relays::place_of;
use super::tokens::Token;
use crate::config::Role;
use crate::endpoints::{LocalEndpoint, Vehicle};
use crate::knock::Knock;
use crate::recorder::Recorder;
use crate::status::{
    Answer, EndpointReport, Lists, MemoryReport, MessageStreamReport, PathReport, PeerReport,
    Report, StrangersReport, VehicleReport, path_trouble, peer_trouble, reliability_reports, span,
    state_word, version_words,
};
use crate::ways;

/// So long after another daemon with a peer's key was turned away that is told; it comes again
/// every two seconds.
const CONTESTED: Duration = Duration::from_secs(10);
/// For so long a peer's handshakes are answered in vain before that is told: one takes a round
/// trip, and some get lost.
const IN_VAIN: Duration = Duration::from_secs(3);
/// So long after the last of them it is told.
const ASKED: Duration = Duration::from_secs(30);

/// The rates of a path between two looks at its counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    at: Instant,
    sent: u64,
    received: u64,
    out: Rate,
    back: Rate,
}

/// When strangers' handshakes last were more than before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StrangersSeen {
    counters: EndpointCounters,
    unknown_peer: Option<Instant>,
    other_key: Option<Instant>,
}

impl Daemon {
    /// Writes a log line for each event, and follows which peer has which session.
    pub(super) fn report_events(&mut self, now: Instant) {
        let mut has_moved = false;
        while let Some((session, event)) = self.endpoint.poll_event() {
            if self.is_of_guests(session, &event) {
                continue;
            }
            if let Event::Connected { peer } = event
                && let Some(place) = self.peers.iter().position(|state| state.id == peer)
            {
                let state = &mut self.peers[place];
                if let Some(old) = state.session {
                    self.places.remove(&old);
                }
                (state.session, state.connected_at) = (Some(session), Some(now));
                state.ended = None;
                self.places.insert(session, place);
            }
            if matches!(event, Event::RoomForMessages | Event::Connected { .. }) {
                self.offer_held(now, session);
            }
            has_moved |= matches!(event, Event::PathAdded { .. } | Event::PathMoved { .. });
            self.log_event(session, &event);
            self.note_event(now, session, &event);
            if let Event::Connected { .. } = event
                && let Some(place) = self.peer_of(session)
            {
                // It leaves with the first datagram: the other end never calls a link otherwise.
                self.peers[place].notes.begin(session);
                self.tell_peer(now, place, session);
            }
            if let Event::PathTold { path, remote: Via::Udp(remote) } = event
                && let Some(slot) = self.slot_of(PathRef { session, path })
            {
                self.remotes.learn(slot, remote);
            }
            let ended =
                if let Event::Disconnected { reason } = event { Some(reason) } else { None };
            // A path that has begun knows nothing yet of the room of relays.
            self.relays.tell_again();
            self.record_event(now, session, event);
            if let Some(reason) = ended
                && let Some(peer) = self.peer_of(session)
            {
                let state = &mut self.peers[peer];
                // One that never connected has nothing to end.
                if state.connected_at.take().is_some() {
                    state.ended = Some((now, reason));
                }
            }
        }
        if has_moved {
            self.follow_mtus(now);
        }
    }

    /// Answers new clients of the status socket, or goes on with one that reads slowly.
    pub(super) fn answer_status(&mut self, now: Instant, part: usize) {
        let Some(status) = self.status.get_mut() else { return };
        let answers: Vec<Answer> = if part > 0 {
            status.take(part).into_iter().collect()
        } else {
            let newcomers = status.newcomers().into_iter();
            self.strangers.look(now, self.endpoint.counters());
            newcomers.filter_map(|client| Answer::begin(client, &self.take_report(now))).collect()
        };
        for mut answer in answers {
            if answer.go_on(&Told(self, now))
                && let Some(status) = self.status.get_mut()
            {
                status.keep(answer, &self.poller, |part| Token::Status(part).encode());
            }
        }
    }

    /// Takes the counters of every path, once a second.
    pub(super) fn measure(&mut self, now: Instant) {
        self.strangers.look(now, self.endpoint.counters());
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
        let links = self.sockets.list.values().filter(|socket| socket.is_there()).count();
        let (peers, all) = (self.peers.len(), self.sockets.list.len());
        format!("{connected} of {peers} peers connected, {links} of {all} links there")
    }

    /// Names a path: as the drone's file does, which its station is told; before that, by where it
    /// comes from.
    pub(super) fn path_name(&self, path: PathRef) -> String {
        if let Some(slot) = self.slot_of(path) {
            return self.paths[&slot].config.name.clone();
        }
        if let Some(told) = link_name(&self.endpoint, path.session, path.path) {
            return told;
        }
        let found = self.endpoint.paths(path.session).find(|known| known.id == path.path);
        found.map_or_else(|| format!("#{}", path.path.0), |known| self.via_name(known.remote))
    }

    /// Names an interface that a path is over.
    pub(super) fn interface_name(&self, id: InterfaceId) -> String {
        match place_of(id).and_then(|place| self.config.relays.get(place)) {
            Some(relay) => relay.wire.interface.clone(),
            None => self.sockets.interface_name(id),
        }
    }

    /// Returns the slot of a drone's path.
    pub(super) fn slot_of(&self, path: PathRef) -> Option<usize> {
        let found = self.paths.iter().find(|(_, known)| known.path == Some(path));
        found.map(|(slot, _)| *slot)
    }

    /// Names a way to the other end: relayed links have the names of our file.
    fn via_name(&self, via: Via) -> String {
        match via {
            Via::Relay(id) => match self.config.relays.get(usize::from(id.0)) {
                Some(relay) => format!("relay {}", relay.name),
                None => via.to_string(),
            },
            Via::Udp(_) | Via::Stream(_) => via.to_string(),
        }
    }

    /// Takes the report without its peers and endpoints, of which each is told when its turn comes.
    fn take_report(&self, now: Instant) -> Report {
        let role = match self.config.role {
            Role::Drone => "drone",
            Role::Station => "station",
        };
        Report {
            role: role.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            public_key: self.config.secret.public().to_string(),
            uptime_s: now.since(self.started).as_secs_f64(),
            trouble: self.trouble(),
            peers: Vec::new(),
            endpoints: Vec::new(),
            tunnel: self.tunnel.as_ref().map(|tunnel| tunnel.counts.clone()),
            strangers: StrangersReport {
                unknown_peers_last_s: since(now, self.strangers.unknown_peer),
                other_keys_last_s: since(now, self.strangers.other_key),
                processor_s: self.endpoint.work(Share::Handshakes).processor.as_secs_f64(),
                ..self.streams.counts().told(&self.endpoint.counters())
            },
            memory: MemoryReport {
                held_bytes: self.endpoint.memory_held() as u64,
                bound_bytes: self.endpoint.memory_bound() as u64,
            },
            events: self.events.count(),
            reload: self.reload.clone(),
            relays: self.relays.reports(now),
            record: self.recorder.as_ref().map(Recorder::report),
        }
    }

    /// Says what of the file is not there, beside links and endpoints, which tell for themselves.
    fn trouble(&self) -> String {
        let named = |what: String, trouble: Option<&str>| Some(format!("{what}: {}", trouble?));
        let listens = self.sockets.list.values().filter(|socket| socket.listens());
        let listens = listens
            .map(|socket| named(format!("listen {}", socket.name), socket.trouble.as_deref()));
        let tunnel = self.tunnel.as_ref().and_then(|tunnel| {
            named(format!("tunnel {}", tunnel.counts.interface), tunnel.trouble())
        });
        let doors = [
            tunnel,
            named("socket of events".into(), self.events.trouble()),
            named("socket of fulmar pair".into(), self.guests.trouble()),
        ];
        listens.chain(doors).flatten().collect::<Vec<_>>().join("; ")
    }

    fn peer_report(&self, now: Instant, peer: usize) -> PeerReport {
        let (state, config) = (&self.peers[peer], &self.config.peers[peer]);
        let status = state.session.and_then(|id| Some((id, self.endpoint.status(now, id)?)));
        let mut report = match status {
            Some((session, status)) => self.session_report(now, peer, session, &status),
            None => PeerReport { queue_free_percent: 100, ..PeerReport::default() },
        };
        report.name.clone_from(&config.name);
        report.public_key = config.key.to_string();
        report.connected = state.connected_at.is_some();
        if let Some((at, why)) = state.ended {
            (report.ended_s, report.ended_why) = (since(now, Some(at)), why.into());
        }
        report.refused = state.session.is_some_and(|session| self.endpoint.is_refused(session));
        let other = self.endpoint.other_version(state.id).filter(|_| !report.connected);
        report.other_version = other.as_ref().map_or(String::new(), version_words);
        let why_none = match other {
            Some(_) => Some("no session: the peer speaks another version"),
            None => report.refused.then_some("no session: the peer refuses our key"),
        };
        if let Some(why) = why_none.filter(|_| !report.connected) {
            let is_trying = |path: &&mut PathReport| path.state == "validating";
            for path in report.paths.iter_mut().filter(is_trying) {
                path.trouble = why.into();
            }
        }
        report.not_forwarded = self.not_forwarded_report(peer);
        if let Some((at, from)) = self.asks_in_vain(now, peer) {
            (report.asked_s, report.asked_from) = (since(now, Some(at)), from.to_string());
        }
        let own_key = self.config.secret.public().to_string();
        report.far_endpoints = self.far_endpoint_reports(now, peer);
        report.vehicles =
            state.sources.vehicles().iter().map(|known| vehicle(now, known)).collect();
        report.autopilot_silent = self.autopilot_trouble(now, peer).is_some();
        let of_links = peer_trouble(&report, self.config.role, &own_key);
        // Where nothing gets through, nobody knows how it is there; elsewhere the vehicle comes
        // first.
        let mut troubles = self.endpoints_trouble(now, peer);
        troubles.extend(self.twin_trouble(peer));
        troubles.extend(self.unclaimed(now, peer));
        troubles.extend(state.session.and_then(|session| self.contested(now, session)));
        let place = if report.connected { troubles.len() } else { 0 };
        troubles.insert(place, of_links);
        troubles.retain(|trouble| !trouble.is_empty());
        report.trouble = troubles.join("; ");
        report
    }

    /// Says that another daemon came with a peer's key of late.
    fn contested(&self, now: Instant, session: SessionId) -> Option<String> {
        let (at, from) = self.endpoint.contested(session)?;
        let age = now.since(at);
        let ago = span(age.as_secs_f64());
        (age < CONTESTED).then(|| {
            format!(
                "another daemon with its key came from {from} {ago} ago and was turned away: each airframe needs a key of \
                 its own"
            )
        })
    }

    /// Returns when a peer came last whose answers do not arrive, and from where.
    fn asks_in_vain(&self, now: Instant, peer: usize) -> Option<(Instant, Via)> {
        let state = &self.peers[peer];
        let asked = self.endpoint.asked(state.id).filter(|_| state.connected_at.is_none())?;
        let is_lasting = asked.last.since(asked.since) >= IN_VAIN;
        (is_lasting && now.since(asked.last) < ASKED).then_some((asked.last, asked.from))
    }

    fn session_report(
        &self,
        now: Instant,
        peer: usize,
        session: SessionId,
        status: &SessionStatus,
    ) -> PeerReport {
        let work = self.endpoint.work(Share::Session(session));
        let paths = status.paths.iter().map(|path| self.path_report(now, session, path));
        let streams = status.message_streams.iter();
        PeerReport {
            session_s: since(now, self.peers[peer].connected_at),
            processor_s: work.processor.as_secs_f64(),
            late_datagrams: work.late,
            dropped_datagrams: work.dropped,
            paths: paths.chain(self.paths_without_address(peer)).collect(),
            reliability: reliability_reports(&self.config, peer, &status.reliability, |path| {
                self.path_name(PathRef { session, path })
            }),
            message_streams: streams.map(|stream| self.stream_report(peer, stream)).collect(),
            ..PeerReport::from(status)
        }
    }

    /// Shows the paths whose remote address is not known yet.
    fn paths_without_address(&self, peer: usize) -> impl Iterator<Item = PathReport> {
        let unknown = self.paths.iter().filter(move |(_, path)| {
            path.config.peer == peer && path.path.is_none() && path.leaving.is_none()
        });
        unknown.map(|(slot, path)| PathReport {
            name: path.config.name.clone(),
            interface: self.sockets.interface_of(*slot).unwrap_or_default(),
            remote: path.config.remotes.first().map_or(String::new(), ToString::to_string),
            carrier: path.config.carrier.word().into(),
            state: state_word(PathState::Absent).into(),
            trouble: joined(
                self.sockets.list.get(slot).and_then(|socket| socket.trouble.as_deref()),
                &self.remotes.trouble(*slot),
            ),
            name_trouble: self.remotes.trouble(*slot),
            ..PathReport::default()
        })
    }

    fn path_report(&self, now: Instant, session: SessionId, path: &PathStatus) -> PathReport {
        let key = PathRef { session, path: path.id };
        let meter = self.meters.get(&key).copied().unwrap_or_default();
        let socket =
            self.sockets.place(path.interface).and_then(|(slot, _)| self.sockets.list.get(&slot));
        let mut report = PathReport {
            name: self.path_name(key),
            interface: self.interface_name(path.interface),
            remote: self.via_name(path.remote),
            out_mbps: meter.out.as_mbps(),
            in_mbps: meter.back.as_mbps(),
            send_errors: socket.map_or(0, |socket| socket.errors),
            ..PathReport::from(path)
        };
        let refused = socket
            .and_then(|socket| socket.last_error.as_ref())
            .map(|error| refusal(error, &report.remote));
        report.marks_dropped &= self.config.transport.control_dscp != 0;
        let relay = place_of(path.interface);
        let lacks = socket.and_then(|socket| socket.trouble.clone());
        let way = self.way_trouble(path).filter(|_| lacks.is_none());
        let knock = self.slot_of(key).and_then(|slot| self.paths.get(&slot)?.knock.as_ref());
        let way = way.or_else(|| knock.and_then(Knock::trouble).map(str::to_owned));
        let lacks = lacks.or_else(|| way.clone()).or(refused);
        let lacks = lacks.or_else(|| self.relays.trouble(now, relay?));
        let lacks = lacks.or_else(|| self.dial_trouble(key, path));
        report.trouble = path_trouble(&report, lacks.as_deref());
        self.report_stream(now, path, &mut report);
        if let Some(longest) = relay.and_then(|place| self.relays.max_datagram(place)) {
            report.mtu = longest;
        }
        if let Some(slot) = self.slot_of(key) {
            report.name_trouble = self.remotes.trouble(slot);
        }
        if let Some(way) = way.filter(|_| report.name_trouble.is_empty()) {
            report.name_trouble = way;
        }
        report
    }

    /// Says what on this host keeps a path from working. A path that works is not asked for; nor
    /// is, at a station, one that has worked: most drones that are gone are out of range.
    fn way_trouble(&self, path: &PathStatus) -> Option<String> {
        let is_asked = match path.state {
            PathState::Validating => true,
            PathState::Suspected => self.config.role == Role::Drone,
            _ => false,
        };
        let Via::Udp(remote) = path.remote else { return None };
        let name = self.interface_name(path.interface);
        let interface = self.sockets.interfaces().iter().find(|at| at.name == name);
        ways::trouble(interface.filter(|_| is_asked)?, remote.ip())
    }

    fn stream_report(&self, peer: usize, status: &MessageStreamStatus) -> MessageStreamReport {
        let user =
            self.locals.of(peer).map(|local| &local.config).find(|config| {
                config.channel == status.channel && config.takes(Some(status.stream))
            });
        let name = match (status.channel, user) {
            (0, _) if status.stream == u16::MAX => "signed MAVLink",
            (0, _) => "tunnel",
            (_, user) => user.map_or("", |config| &config.name),
        };
        MessageStreamReport { name: name.into(), ..MessageStreamReport::from(status) }
    }

    fn endpoint_report(&self, now: Instant, local: &LocalEndpoint) -> EndpointReport {
        let peer = self.config.peers[local.config.peer].name.clone();
        let trouble = local.trouble(now).or_else(|| self.own_trouble(now, local));
        EndpointReport {
            peer,
            state: local.state(now).word().into(),
            heard_s: since(now, local.heard()),
            trouble: trouble.unwrap_or_default(),
            ..EndpointReport::from(local)
        }
    }
}

/// A daemon at a moment, as the lists of its report tell it.
struct Told<'a>(&'a Daemon, Instant);

impl Lists for Told<'_> {
    fn peer(&self, place: usize) -> Option<PeerReport> {
        let Self(daemon, now) = *self;
        (place < daemon.peers.len()).then(|| daemon.peer_report(now, place))
    }

    fn endpoint(&self, from: usize) -> Option<(usize, EndpointReport)> {
        let (place, local) = self.0.locals.range(from..).next()?;
        Some((*place, self.0.endpoint_report(self.1, local)))
    }
}

/// Says why the kernel sends nothing.
fn refusal(error: &str, remote: &str) -> String {
    // What a firewall's rule refuses is `EPERM`.
    if error.starts_with("Operation not permitted") {
        return format!(
            "cannot send: {error}; a firewall of this computer lets nothing out to {remote}"
        );
    }
    format!("cannot send: {error}; is there a route to {remote}?")
}

fn since(now: Instant, at: Option<Instant>) -> Option<f64> {
    at.map(|at| now.since(at).as_secs_f64())
}

fn vehicle(now: Instant, (system, vehicle): (u8, &Vehicle)) -> VehicleReport {
    VehicleReport {
        system,
        mode: vehicle.mode(),
        armed: vehicle.is_armed(),
        state: vehicle.state().into(),
        battery_percent: vehicle.battery_percent,
        battery_v: vehicle.battery_v,
        heard_s: now.since(vehicle.heard).as_secs_f64(),
    }
}

/// Joins what is wrong with an interface and with a name.
fn joined(interface: Option<&str>, name: &str) -> String {
    match interface {
        Some(interface) if name.is_empty() => interface.to_owned(),
        Some(interface) => format!("{interface}; {name}"),
        None => name.to_owned(),
    }
}

impl StrangersSeen {
    /// Notes what was counted since the last look.
    fn look(&mut self, now: Instant, counters: EndpointCounters) {
        if counters.unknown_peer > self.counters.unknown_peer {
            self.unknown_peer = Some(now);
        }
        if counters.bad_mac > self.counters.bad_mac {
            self.other_key = Some(now);
        }
        self.counters = counters;
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
