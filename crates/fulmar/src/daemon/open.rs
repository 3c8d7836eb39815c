//! Start-up: what no daemon can be without fails here, with what to do about it; all else is tried
//! again.

use std::collections::BTreeMap;

use proto::{
    Endpoint, EndpointConfig, Instant, InterfaceId, PathRef, SessionConfig, SessionId, Via,
};
use sys::interfaces::InterfaceWatch;
use sys::notify::Notifier;
use sys::poller::{Interest, Poller};
use sys::realtime::{self, Scheduling};
use sys::signals::Signals;
use sys::udp::ReceiveBuffers;
use sys::{clock, entropy};

use super::batches::Batches;
use super::guests::Guests;
use super::locals::Locals;
use super::relays::Relays;
use super::remotes::Remotes;
use super::sockets::{LOOK_EVERY, Sockets};
use super::standstill::Standstill;
use super::streams::Streams;
use super::tokens::Token;
use super::tunnel::Tunnel;
use super::{Daemon, PeerState, TICK, places};
use crate::awaited::Awaited;
use crate::config::{Config, EndpointConfig as LocalConfig, PathConfig, Peer, Role};
use crate::endpoints::{LocalEndpoint, Tokens};
use crate::events::EventServer;
use crate::log::Log;
use crate::reading::Loader;
use crate::recorder::Recorder;
use crate::status::StatusServer;

/// Above ordinary programs, below the kernel's threaded interrupts (50).
pub(crate) const REALTIME_PRIORITY: i32 = 10;

impl Daemon {
    /// Opens everything that the configuration names.
    ///
    /// # Errors
    /// Say the operation, the subject and what to do about it.
    pub(crate) fn open(config: Config, log: Log) -> Result<Self, String> {
        let signals = Signals::block().map_err(|error| format!("block the signals: {error}"))?;
        prepare_thread(&config);
        let now = clock::now();
        let recorder = open_recorder(now, &config);
        let poller = Poller::new().map_err(|error| format!("open the poller: {error}"))?;
        let watch = InterfaceWatch::open().map_err(|error| format!("watch interfaces: {error}"))?;
        let status = StatusServer::start(&config.status, &poller, Token::Status(0).encode())?;
        let events = EventServer::new(&config.status)
            .map_err(|error| format!("draw random numbers: {error}"))?;
        let sockets = open_sockets(&config)?;
        let open_tunnel = |tunnel| Tunnel::open(now, tunnel, &config.peers, &poller);
        let tunnel = config.tunnel.as_ref().map(open_tunnel);
        let locals = open_locals(&config, &poller);
        let relays = Relays::open(&config)?;
        let mut endpoint = open_endpoint(&config)?;
        let peers = open_sessions(&config, &mut endpoint);
        let of_names = |error| format!("wait for names of hosts: {error}");
        let remotes = Remotes::open(&poller).map_err(of_names)?;
        let of_file = |error| format!("wait for the file to be read again: {error}");
        let loader = Loader::open(&poller, Token::File.encode()).map_err(of_file)?;
        let notifier = open_notifier();
        wait_for(&poller, &signals, &watch)?;
        let mut daemon = Self {
            config,
            poller,
            signals,
            watch,
            next_sign_of_life: notifier.watchdog().map(|every| now + every),
            notifier,
            events,
            status,
            guests: Awaited::new("socket of fulmar pair"),
            endpoint,
            places: places(&peers),
            peers,
            sockets,
            paths: Default::default(),
            remotes,
            relays,
            streams: Streams::default(),
            tunnel,
            locals: Locals::new(locals),
            batches: Batches::default(),
            received: ReceiveBuffers::default(),
            datagram: Vec::with_capacity(2_048),
            meters: Default::default(),
            strangers: Default::default(),
            journal: Default::default(),
            log,
            next_relayed_slot: 0,
            next_watched: 0,
            twins: BTreeMap::new(),
            recorder,
            reload: Default::default(),
            loader,
            started: now,
            standstill: Standstill::new(now),
            next_tick: now + TICK,
            next_look: now + LOOK_EVERY,
            more: true,
            running: true,
            given_up: Vec::new(),
            anew: None,
        };
        daemon.open_doors(now);
        daemon.give_up_rights();
        daemon.add_paths(now);
        Ok(daemon)
    }

    /// Opens the sockets by which commands reach the daemon, and the tunnel, where they are not
    /// there and that is due.
    pub(super) fn open_doors(&mut self, now: Instant) {
        let Self { config, poller, .. } = self;
        let token = Token::Status(0).encode();
        StatusServer::try_again(&mut self.status, now, &config.status, poller, token);
        // Those beside it go before its directory does.
        if self.status.get().is_some() {
            self.events.listen(now, poller, Token::Events(0).encode());
            if config.role == Role::Station {
                let open = || Guests::open(&config.status, poller);
                self.guests.try_again(now, || open().map_err(|error| error.to_string()));
            }
        }
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.restore(now, poller);
            tunnel.keep_up(now);
        }
    }

    /// Adds the paths of the file, and opens those whose interfaces are there.
    fn add_paths(&mut self, now: Instant) {
        let paths = std::mem::take(&mut self.config.paths);
        paths.iter().for_each(|path| self.add_path(path));
        self.config.paths = paths;
        self.sockets.refresh(&self.poller);
        self.refresh_relays(now);
        self.look_elsewhere(now);
        self.open_missing_paths(now);
    }
}

/// Opens a local endpoint, whose descriptors are known to the poller by `place`.
pub(super) fn open_local(place: usize, endpoint: &LocalConfig, poller: &Poller) -> LocalEndpoint {
    let tokens = Tokens(Token::Endpoint(place, 0).encode());
    LocalEndpoint::open(endpoint.clone(), tokens, clock::now(), poller)
}

/// Makes a peer known; a drone begins its session.
pub(super) fn open_session(
    now: Instant,
    role: Role,
    peer: &Peer,
    endpoint: &mut Endpoint,
) -> PeerState {
    let id = endpoint.add_peer(peer.key, peer.preshared_key.as_deref());
    let session = (role == Role::Drone).then(|| endpoint.connect(now, id));
    PeerState {
        id,
        session,
        connected_at: None,
        ended: None,
        watch: Default::default(),
        sources: Default::default(),
        notes: Default::default(),
        endpoint_states: Default::default(),
        unclaimed: Default::default(),
    }
}

/// How the datagrams of a path leave.
pub(super) struct Way {
    pub(super) interface: InterfaceId,
    pub(super) remote: Via,
    /// Whether its link is there.
    pub(super) is_there: bool,
}

/// Opens a drone's path; where its link is not there, the path waits for it.
pub(super) fn open_path(
    now: Instant,
    (config, way): (&PathConfig, Way),
    session: SessionId,
    endpoint: &mut Endpoint,
) -> Option<PathRef> {
    match endpoint.add_path(now, session, way.interface, way.remote) {
        Ok(id) => {
            endpoint.set_path_use(now, session, id, config.usage);
            if !way.is_there {
                endpoint.set_path_present(now, session, id, false);
            }
            Some(PathRef { session, path: id })
        }
        Err(error) => {
            tracing::error!(path = %config.name, ?error, "path not opened");
            None
        }
    }
}

/// A service manager that cannot be told how it goes is no reason to stay on the ground.
pub(crate) fn open_notifier() -> Notifier {
    let opened = Notifier::from_environment();
    opened.unwrap_or_else(|error| {
        tracing::warn!(%error, "the service manager (NOTIFY_SOCKET) cannot be told how it goes");
        Notifier::default()
    })
}

fn wait_for(poller: &Poller, signals: &Signals, watch: &InterfaceWatch) -> Result<(), String> {
    poller
        .add(signals, Token::Signals.encode(), Interest::Read)
        .and_then(|()| poller.add(watch, Token::Interfaces.encode(), Interest::Read))
        .map_err(|error| format!("wait for descriptors: {error}"))
}

/// Lets the one thread wake on time, as far as the system permits.
fn prepare_thread(config: &Config) {
    if let Err(error) = realtime::set_timer_slack(proto::Duration::from_nanos(1)) {
        tracing::warn!(%error, "timers will be up to 50 µs late");
    }
    let scheduling = if config.realtime {
        realtime::prefer_realtime(REALTIME_PRIORITY)
    } else {
        realtime::prefer_short_slice()
    };
    if config.realtime && scheduling != Scheduling::Fifo {
        tracing::warn!(
            "no right to real-time priority (CAP_SYS_NICE or a limit, LimitRTPRIO=10); running without it"
        );
    }
}

fn open_recorder(now: Instant, config: &Config) -> Option<Recorder> {
    let role = match config.role {
        Role::Drone => "drone",
        Role::Station => "station",
    };
    config.record.as_ref().map(|record| Recorder::open(now, record, role))
}

/// Makes the addresses known that a station waits at; they open with the first look at the
/// interfaces.
fn open_sockets(config: &Config) -> Result<Sockets, String> {
    let mut sockets = Sockets::new(&config.transport);
    sockets.set_tunnel(config.tunnel.as_ref().map(|tunnel| tunnel.interface.as_str()));
    config.listens.iter().try_for_each(|listen| sockets.add_listen(listen).map(|_| ()))?;
    Ok(sockets)
}

fn open_locals(config: &Config, poller: &Poller) -> BTreeMap<usize, LocalEndpoint> {
    let numbered = config.endpoints.iter().enumerate();
    numbered.map(|(place, endpoint)| (place, open_local(place, endpoint, poller))).collect()
}

fn open_endpoint(config: &Config) -> Result<Endpoint, String> {
    let entropy = entropy::seed().map_err(|error| format!("draw random numbers: {error}"))?;
    let endpoint = EndpointConfig {
        secret: config.secret.clone(),
        entropy,
        accept: config.role == Role::Station,
        session: SessionConfig {
            steps: config.record.is_some(),
            ..config.transport.session.clone()
        },
    };
    let mut endpoint = Endpoint::new(endpoint, clock::now());
    endpoint.set_memory_bound(config.transport.memory);
    Ok(endpoint)
}

/// Makes the peers known; a drone begins its sessions.
fn open_sessions(config: &Config, endpoint: &mut Endpoint) -> Vec<PeerState> {
    let now = clock::now();
    config.peers.iter().map(|peer| open_session(now, config.role, peer, endpoint)).collect()
}
