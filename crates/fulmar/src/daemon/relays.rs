//! Gateways of relayed links, beside the sessions: their frames come and go in the daemon's loop.
//!
//! ```text
//! frames in ─► gateway ─► datagrams ─► endpoint; fates ─► endpoint
//! endpoint ─► room? ─► datagram for Via::Relay ─► gateway ─► frames out
//! ```
//! What a session sends there is bound as late as on other paths: nothing leaves it before a relay
//! has room.

use std::collections::BTreeMap;

use proto::{
    Duration, Endpoint, Instant, InterfaceId, PathRef, Received, RelayId, RelayNode, RelayRoom,
    Transmit, Via,
};
use sys::clock;
use sys::poller::Poller;

use super::Daemon;
use super::tokens::Token;
use crate::config::{Config, GatewayConfig, Role};
use crate::relay::{Post, Tokens};
use crate::status::RelayReport;

/// Interfaces of relayed links have the last numbers: sockets at interfaces have none of these.
const FIRST_INTERFACE: u32 = 0xFFFF_FF00;
/// Datagrams of a gateway that one turn gives to the sessions.
const AT_A_TIME: usize = 256;
/// So long after a datagram that was not authentic relays are said to lie.
const LIED: Duration = Duration::from_secs(10);

/// The gateways of a daemon, by their place in the file.
#[derive(Default)]
pub(super) struct Relays(Vec<Gateway>);

struct Gateway {
    post: Post,
    /// What the sessions were told last.
    told: Option<RelayRoom>,
    /// Datagrams whose fate is open, by their token.
    flights: BTreeMap<u64, (PathRef, u64)>,
    tokens: u64,
    /// Datagrams of sessions that were not authentic, and when the last one came.
    not_authentic: (u64, Option<Instant>),
    /// A station takes what comes only where its file says so.
    takes: bool,
}

impl Daemon {
    /// Takes in frames of a relayed link.
    pub(super) fn handle_relay(&mut self, now: Instant, place: usize, part: usize) {
        let Self { relays, received, poller, .. } = self;
        let Some(gateway) = relays.0.get_mut(place) else { return };
        self.more |= gateway.post.handle_ready(part, received, poller);
        self.collect_relay(now, place);
    }

    /// Does what is due at the gateways.
    pub(super) fn handle_relay_timers(&mut self, now: Instant) {
        for place in 0..self.relays.0.len() {
            self.relays.0[place].post.handle_timeout(now);
            self.collect_relay(now, place);
        }
    }

    /// Follows the interfaces of the wires: paths leave and join with them.
    pub(super) fn refresh_relays(&mut self, now: Instant) {
        let Self { relays, endpoint, paths, poller, sockets, .. } = self;
        for (place, gateway) in relays.0.iter_mut().enumerate() {
            if !gateway.post.refresh(sockets.interfaces(), poller) {
                continue;
            }
            let present = gateway.post.is_there();
            let own = paths.values().filter(|path| path.config.relay == Some(place));
            for path in own.filter_map(|path| path.path) {
                endpoint.set_path_present(now, path.session, path.path, present);
            }
        }
    }

    /// Sends a session's datagram over relays.
    pub(super) fn push_to_relay(&mut self, now: Instant, relay: RelayId, transmit: &Transmit) {
        let Some(gateway) = self.relays.0.get_mut(relay.0 as usize) else { return };
        gateway.tokens += 1;
        // Where a handshake or a small datagram finds no room, it is lost, and sent again.
        let pushed = gateway.post.node().push(now, gateway.tokens, &self.datagram);
        if let (Ok(()), Some(path), Some(number)) = (pushed, transmit.path, transmit.number)
            && self.datagram.len() > proto::RELAY_SMALL
        {
            gateway.flights.insert(gateway.tokens, (path, number));
        }
    }

    /// Gives the sessions what came to a gateway, and what became of what they sent.
    fn collect_relay(&mut self, now: Instant, place: usize) {
        let Self { relays, endpoint, .. } = self;
        let Some(gateway) = relays.0.get_mut(place) else { return };
        while let Some(fate) = gateway.post.node().poll_fate() {
            if let Some((path, number)) = gateway.flights.remove(&fate.token) {
                endpoint.on_relay_fate(now, path, number, fate.arrived);
            }
        }
        let (interface, source) = (interface_id(place), Via::Relay(relay_id(place)));
        for given in 0.. {
            if given == AT_A_TIME {
                self.more = true;
                break;
            }
            let Some(mut datagram) = gateway.post.node().poll_delivery() else { break };
            if gateway.takes {
                let received = Received { interface, local: None, source, ecn: 0 };
                endpoint.admit_datagram(clock::now().max(now), &received, &mut datagram);
            }
        }
        let count = endpoint.not_authentic_by(relay_id(place));
        if count > gateway.not_authentic.0 {
            gateway.not_authentic = (count, Some(now));
        }
    }
}

impl Relays {
    /// Sets up the gateways of a file; their sockets open with the first look at the interfaces.
    ///
    /// # Errors
    /// Say that there is no randomness to be had.
    pub(super) fn open(config: &Config) -> Result<Self, String> {
        let gateway = |(place, gateway): (usize, &GatewayConfig)| {
            let tokens = Tokens(|place, part| Token::Hop(place, part).encode(), place);
            let (told, flights) = (None, BTreeMap::new());
            let takes = config.role == Role::Drone || gateway.listens;
            let post = Post::gateway(gateway, tokens)?;
            let not_authentic = (0, None);
            Ok(Gateway { post, told, flights, tokens: 0, not_authentic, takes })
        };
        config.relays.iter().enumerate().map(gateway).collect::<Result<_, _>>().map(Self)
    }

    /// Tells the sessions what the gateways take, where that has changed.
    pub(super) fn tell_room(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for (place, gateway) in self.0.iter_mut().enumerate() {
            let room = gateway.room(now);
            if gateway.told != Some(room) {
                gateway.told = Some(room);
                endpoint.set_relay_room(relay_id(place), room);
            }
        }
    }

    /// Forgets what the sessions were told: there is another one, or another path.
    pub(super) fn tell_again(&mut self) {
        self.0.iter_mut().for_each(|gateway| gateway.told = None);
    }

    /// Sends what the gateways have to say, until one has room for a datagram that it was not told
    /// of; returns whether that is so, and whether there may be more.
    pub(super) fn transmit(&mut self, now: Instant, poller: &Poller) -> Flushed {
        let mut flushed = Flushed::default();
        for gateway in &mut self.0 {
            let was_open = gateway.told.is_some_and(|room| room.open);
            let has_room = |node: &RelayNode| !was_open && node.wants(now);
            flushed.more |= gateway.post.transmit(now, poller, has_room);
            let room = gateway.room(now);
            flushed.has_room |= gateway.told != Some(room);
        }
        flushed
    }

    /// Returns when a gateway is to be asked again.
    pub(super) fn timeout(&self, now: Instant) -> Option<Instant> {
        self.0.iter().filter_map(|gateway| gateway.post.timeout(now)).min()
    }

    /// Tells whether the wire of a gateway is there.
    pub(super) fn is_there(&self, place: usize) -> bool {
        self.0.get(place).is_some_and(|gateway| gateway.post.is_there())
    }

    /// Returns how long a datagram may be that a gateway takes.
    pub(super) fn max_datagram(&self, place: usize) -> Option<usize> {
        self.0.get(place).map(|gateway| gateway.post.max_datagram())
    }

    /// Returns what is wrong with a gateway, in words, if anything is.
    pub(super) fn trouble(&self, now: Instant, place: usize) -> Option<String> {
        self.0.get(place)?.trouble(now)
    }

    /// Says what the gateways do.
    pub(super) fn reports(&self, now: Instant) -> Vec<RelayReport> {
        let report = |gateway: &Gateway| RelayReport {
            trouble: gateway.trouble(now).unwrap_or_default(),
            not_authentic: gateway.not_authentic.0,
            ..gateway.post.report(now)
        };
        self.0.iter().map(report).collect()
    }
}

impl Gateway {
    fn room(&mut self, now: Instant) -> RelayRoom {
        let room = self.post.node().room(now);
        RelayRoom { open: room.open && self.post.is_there(), ..room }
    }

    fn trouble(&self, now: Instant) -> Option<String> {
        let lies = || {
            self.not_authentic.1.filter(|at| now.since(*at) < LIED).map(|_| {
                "a relay that has the group's key sends what is not authentic: stop relays one by one until this line is \
                 gone, then change the key"
                    .to_owned()
            })
        };
        self.post.trouble(now).or_else(lies)
    }
}

/// What a turn of sending has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushed {
    /// A gateway takes something else than the sessions know.
    pub(super) has_room: bool,
    /// There may be more to send.
    pub(super) more: bool,
}

/// Names the gateway at a place, as the sessions know it.
pub(super) fn relay_id(place: usize) -> RelayId {
    RelayId(u16::try_from(place).unwrap_or(u16::MAX))
}

/// Names the interface of the gateway at a place, as the sessions know it.
pub(super) fn interface_id(place: usize) -> InterfaceId {
    InterfaceId(FIRST_INTERFACE + u32::from(relay_id(place).0))
}

/// Returns the place of the gateway that an interface stands for, if it is one's.
pub(super) fn place_of(id: InterfaceId) -> Option<usize> {
    id.0.checked_sub(FIRST_INTERFACE).map(|place| place as usize)
}
