//! How the endpoints of both ends are: which silence is trouble, what the other end is told, and
//! what happened.
//!
//! Silence is trouble where a vehicle is behind an endpoint: a vehicle has been heard there, it is
//! a serial port, or it is a drone's only one for MAVLink. Where the vehicle is heard at another
//! endpoint now, it has moved there.

use proto::{Instant, PathId, SessionId};

use super::Daemon;
use super::notes::{ENDPOINTS, EndpointNote};
use crate::config::{Content, Role};
use crate::endpoints::{EndpointState, LocalEndpoint};
use crate::status::{EndpointWords, FarEndpointReport, Whose};

impl Daemon {
    /// Looks at the endpoints of both ends, once a second; says what is new.
    pub(super) fn exchange_notes(&mut self, now: Instant) {
        for place in 0..self.peers.len() {
            self.follow_endpoints(now, place);
            if let Some(session) = self.peers[place].connected() {
                self.tell_peer(now, place, session);
                self.hear_peer(now, place, session);
            }
        }
    }

    /// Tells a peer how this end's links and endpoints are called, and how they are.
    pub(super) fn tell_peer(&mut self, now: Instant, place: usize, session: SessionId) {
        let endpoints = self
            .locals
            .of(place)
            .take(ENDPOINTS)
            .map(|local| (self.endpoint_note(now, local), now.since(local.quiet_since())));
        let endpoints = endpoints.collect();
        let links = self.own_links(session);
        let Self { peers, endpoint, .. } = self;
        let notes = &mut peers[place].notes;
        if !notes.is_of(session) {
            notes.begin(session);
        }
        notes.tell_links(session, &links, endpoint);
        notes.tell_endpoints(session, endpoints, endpoint);
    }

    /// Returns how an endpoint of this host is.
    pub(super) fn endpoint_note(&self, now: Instant, local: &LocalEndpoint) -> EndpointNote {
        let state = local.state(now);
        let is_mavlink =
            |local: &LocalEndpoint| matches!(local.config.content, Content::Mavlink(_));
        let is_drone = self.config.role == Role::Drone;
        let others = || {
            let of_peer = self.locals.of(local.config.peer).filter(|other| is_mavlink(other));
            of_peer.filter(|other| !std::ptr::eq(*other, local))
        };
        let moved =
            || others().any(|other| other.has_vehicle() && other.state(now) == EndpointState::Well);
        let is_awaited = is_mavlink(local)
            && (local.is_serial()
                || (local.has_vehicle() && !moved())
                || (is_drone && others().next().is_none()));
        let is_autopilot = local.has_vehicle()
            || (is_drone && is_awaited && !others().any(LocalEndpoint::has_vehicle));
        let (is_serial, name) = (local.is_serial(), local.place_name());
        EndpointNote { state, is_autopilot, is_serial, is_awaited, name }
    }

    /// Says in words what is wrong with an endpoint of this host; nothing where nothing is.
    pub(super) fn own_trouble(&self, now: Instant, local: &LocalEndpoint) -> Option<String> {
        let note = self.endpoint_note(now, local);
        let quiet_s = now.since(local.quiet_since()).as_secs_f64();
        note.trouble(Whose::Ours, quiet_s)
    }

    /// Says in words what is wrong with the endpoints of both ends, the vehicle's autopilot first.
    pub(super) fn endpoints_trouble(&self, now: Instant, place: usize) -> Vec<String> {
        let own = self.locals.of(place).map(|local| {
            (self.endpoint_note(now, local).is_autopilot, self.own_trouble(now, local))
        });
        let far = self.far_endpoints(place).map(|(note, quiet_since)| {
            let quiet_s = now.since(quiet_since).as_secs_f64();
            (note.is_autopilot, note.trouble(Whose::Theirs, quiet_s))
        });
        let told = far.chain(own).filter_map(|(is_autopilot, text)| Some((is_autopilot, text?)));
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|(is_autopilot, _)| !is_autopilot);
        told.into_iter().map(|(_, text)| text).collect()
    }

    /// Says what is wrong with the autopilot of a session, for a pilot, who has little room for
    /// words; nothing where nothing is, or another one is well.
    pub(super) fn autopilot_trouble(&self, now: Instant, place: usize) -> Option<String> {
        let own = self.locals.of(place).map(|local| self.endpoint_note(now, local));
        let far = self.far_endpoints(place).map(|(note, _)| note.clone());
        let autopilots: Vec<_> = far.chain(own).filter(|note| note.is_autopilot).collect();
        let is_wrong = |note: &EndpointNote| note.trouble(Whose::Ours, 0.0).is_some();
        if autopilots.iter().any(|note| !is_wrong(note)) {
            return None;
        }
        let note = autopilots.first()?;
        Some(format!("{} {}", note.name, note.words().in_brief()))
    }

    /// Lists the endpoints of the other end for the status report.
    pub(super) fn far_endpoint_reports(
        &self,
        now: Instant,
        place: usize,
    ) -> Vec<FarEndpointReport> {
        let report = |(note, quiet_since): (&EndpointNote, Instant)| {
            let quiet_s = now.since(quiet_since).as_secs_f64();
            // While it is well it is heard.
            let silent_s = (note.state != EndpointState::Well).then_some(quiet_s);
            FarEndpointReport {
                name: note.name.clone(),
                state: note.state.word().into(),
                autopilot: note.is_autopilot,
                silent_s,
                trouble: note.trouble(Whose::Theirs, quiet_s).unwrap_or_default(),
            }
        };
        self.far_endpoints(place).map(report).collect()
    }

    fn far_endpoints(&self, place: usize) -> impl Iterator<Item = (&EndpointNote, Instant)> {
        let peer = &self.peers[place];
        let far = peer.connected().into_iter().flat_map(|session| peer.notes.far(session));
        far.map(|far| (&far.note, far.quiet_since))
    }

    /// Names a drone's paths of a session as its file does.
    fn own_links(&self, session: SessionId) -> Vec<(PathId, String)> {
        let of_session = self.paths.values().filter_map(|path| {
            let known = path.path.filter(|known| known.session == session)?;
            Some((known.path, path.config.name.clone()))
        });
        of_session.collect()
    }

    /// Says what has become of this host's endpoints.
    fn follow_endpoints(&mut self, now: Instant, place: usize) {
        let mut news = Vec::new();
        let mut states = std::mem::take(&mut self.peers[place].endpoint_states);
        let known: Vec<u64> = self.locals.of(place).map(LocalEndpoint::id).collect();
        states.retain(|id, _| known.contains(id));
        for local in self.locals.of(place) {
            let note = self.endpoint_note(now, local);
            let trouble = note.trouble(Whose::Ours, now.since(local.quiet_since()).as_secs_f64());
            // One whose silence means nothing is as good as one that speaks.
            let state = if trouble.is_some() { note.state } else { EndpointState::Well };
            let before = states.insert(local.id(), state).unwrap_or_default();
            if before != state {
                news.push((local.config.name.clone(), before, state, trouble));
            }
        }
        self.peers[place].endpoint_states = states;
        for (name, before, state, trouble) in news {
            let text = trouble.unwrap_or_else(|| format!("the endpoint {name} is well again"));
            self.note_endpoint(now, place, "endpoint-changed", (before, state), text);
        }
    }

    /// Hears what a peer says of its endpoints.
    fn hear_peer(&mut self, now: Instant, place: usize, session: SessionId) {
        let Self { peers, endpoint, .. } = self;
        let news = peers[place].notes.hear(now, session, endpoint);
        // A peer that invents news is told of no oftener than it is looked at.
        let worst = news.into_iter().max_by_key(|(_, note)| (note.is_autopilot, note.state));
        let Some((before, note)) = worst else { return };
        let quiet = self.far_endpoints(place).find(|(known, _)| **known == note);
        let quiet_s = quiet.map_or(0.0, |(_, since)| now.since(since).as_secs_f64());
        let shown = |note: &EndpointNote| match note.trouble(Whose::Theirs, 0.0) {
            Some(_) => note.state,
            None => EndpointState::Well,
        };
        let (before, state) = (before.as_ref().map(shown).unwrap_or_default(), shown(&note));
        if before != state {
            let text = note.trouble(Whose::Theirs, quiet_s);
            let text = text.unwrap_or_else(|| format!("its endpoint {} is well again", note.name));
            self.note_endpoint(now, place, "far-endpoint-changed", (before, state), text);
        }
    }
}

impl EndpointNote {
    /// Says in words what is wrong; nothing where nothing is.
    fn trouble(&self, whose: Whose, quiet_s: f64) -> Option<String> {
        let is_trouble = match self.state {
            EndpointState::Well => false,
            EndpointState::Silent | EndpointState::Noise => self.is_awaited,
            EndpointState::Missing | EndpointState::TakesNothing => true,
        };
        is_trouble.then(|| self.words().told(whose, quiet_s))
    }

    fn words(&self) -> EndpointWords<'_> {
        let Self { state, is_autopilot, is_serial, ref name, .. } = *self;
        EndpointWords { state, is_autopilot, is_serial, name }
    }
}
