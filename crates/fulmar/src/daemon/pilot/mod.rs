//! What the pilot is told of the links: the daemon's part. What there is to say is found in `watch.rs`, and the
//! programs of a peer's MAVLink endpoints are told (`endpoints/statustext.rs`).

mod watch;

use proto::{Instant, PathRef, PathState, PathStatus, SessionId};

use super::Daemon;
use crate::config::Role;
use crate::endpoints::LocalEndpoint;
pub(super) use watch::Watch;
use watch::{Look, Seen};

/// A path that loses so much, either way, is just enough at best.
const MUCH_LOSS: f64 = 0.1;
/// So is what leaves no more room than this in the session's queue, in percent.
const LITTLE_ROOM: u8 = 25;

impl Daemon {
    /// Looks at every peer's links, and tells the pilot what is new.
    pub(super) fn tell_pilot(&mut self, now: Instant) {
        for place in 0..self.peers.len() {
            let hears = |local: &LocalEndpoint| local.config.peer == place && local.has_pilot();
            if !self.locals.values().any(hears) {
                continue;
            }
            let look = self.look(now, place);
            let Some((severity, text)) = self.peers[place].watch.look(now, &look) else { continue };
            tracing::debug!(peer = %self.config.peers[place].name, ?severity, text, "told the pilot");
            let Self { locals, poller, .. } = self;
            for local in locals.values_mut().filter(|local| hears(local)) {
                local.tell_pilot(now, severity, &text, poller);
            }
        }
    }

    /// Returns what is to be seen of a peer's links.
    fn look(&self, now: Instant, place: usize) -> Look {
        let state = &self.peers[place];
        let status = state.session.and_then(|session| {
            let status = self.endpoint.status(now, session)?;
            Some((session, status))
        });
        let Some((session, status)) = status else { return Look::default() };
        let names = self.link_names(session, &status.paths);
        let is_full = status.queue_free_percent <= LITTLE_ROOM;
        let seen = |(path, name): (&PathStatus, String)| Seen {
            path: path.id,
            name,
            works: path.state == PathState::Active && state.connected_at.is_some(),
            loses: Some(path.loss.max(path.loss_in)).filter(|loss| *loss >= MUCH_LOSS),
        };
        Look { is_full, links: status.paths.iter().zip(names).map(seen).collect() }
    }

    /// Names links as a pilot knows them: a drone's as its file does; a station's by where they come in, where that
    /// tells them apart, and by their address otherwise.
    fn link_names(&self, session: SessionId, paths: &[PathStatus]) -> Vec<String> {
        let own = |path: &PathStatus| self.path_name(PathRef { session, path: path.id });
        if self.config.role == Role::Drone {
            return paths.iter().map(own).collect();
        }
        let come_in: Vec<String> =
            paths.iter().map(|path| self.sockets.interface_name(path.interface)).collect();
        let is_alone = |name: &String| come_in.iter().filter(|other| *other == name).count() == 1;
        let named = come_in.iter().zip(paths).map(|(name, path)| {
            if is_alone(name) && !name.is_empty() { name.clone() } else { host(&own(path)) }
        });
        named.collect()
    }
}

/// Returns the address of an address and port: a pilot has no use for the latter.
fn host(address: &str) -> String {
    let parsed = address.parse::<std::net::SocketAddr>();
    parsed.map_or_else(|_| address.to_owned(), |address| address.ip().to_string())
}
