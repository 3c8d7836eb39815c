//! Start-up: everything that can fail does so here, with what to do about it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

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
use super::reload::Loader;
use super::remotes::Remotes;
use super::sockets::{LOOK_EVERY, Sockets};
use super::tokens::Token;
use super::tunnel::Tunnel;
use super::{Daemon, PeerState, TICK, places};
use crate::config::{Config, EndpointConfig as LocalConfig, PathConfig, Peer, Role};
use crate::endpoints::{LocalEndpoint, Tokens};
use crate::events::EventServer;
use crate::log::Log;
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
        let recorder = open_recorder(now, &config)?;
        let poller = Poller::new().map_err(|error| format!("open the poller: {error}"))?;
        let watch = InterfaceWatch::open().map_err(|error| format!("watch interfaces: {error}"))?;
        let status = open_status(&config.status)?;
        let events = open_events(&config.status)?;
        let guests = open_guests(&config, &poller);
        let sockets = open_sockets(&config, &poller)?;
        let tunnel = open_tunnel(&config, &poller)?;
        let locals = open_locals(&config, &poller)?;
        let relays = Relays::open(&config)?;
        let mut endpoint = open_endpoint(&config)?;
        let peers = open_sessions(&config, &mut endpoint);
        let remotes =
            Remotes::open(&poller).map_err(|error| format!("wait for names of hosts: {error}"))?;
        let loader = Loader::open(&poller)
            .map_err(|error| format!("wait for the file to be read again: {error}"))?;
        let notifier = Notifier::from_environment()
            .map_err(|error| format!("speak to the service manager (NOTIFY_SOCKET): {error}"))?;
        let wanted = poller
            .add(&signals, Token::Signals.encode(), Interest::Read)
            .and_then(|()| poller.add(&watch, Token::Interfaces.encode(), Interest::Read))
            .and_then(|()| poller.add(&status, Token::Status(0).encode(), Interest::Read))
            .and_then(|()| poller.add(&events, Token::Events(0).encode(), Interest::Read));
        wanted.map_err(|error| format!("wait for descriptors: {error}"))?;
        let next_sign_of_life = notifier.watchdog().map(|every| now + every);
        let mut daemon = Self {
            config,
            poller,
            signals,
            watch,
            notifier,
            events,
            status,
            guests,
            endpoint,
            places: places(&peers),
            peers,
            sockets,
            paths: Default::default(),
            remotes,
            relays,
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
            recorder,
            reload: Default::default(),
            loader,
            started: now,
            next_tick: now + TICK,
            next_look: now + LOOK_EVERY,
            next_sign_of_life,
            more: true,
            running: true,
            given_up: Vec::new(),
            anew: None,
        };
        daemon.give_up_rights();
        daemon.add_paths(now);
        Ok(daemon)
    }

    /// Adds the paths of the file, and opens those whose interfaces are there.
    fn add_paths(&mut self, now: Instant) {
        let paths = std::mem::take(&mut self.config.paths);
        paths.iter().for_each(|path| self.add_path(now, path));
        self.config.paths = paths;
        self.sockets.refresh(&self.poller);
        self.refresh_relays(now);
        self.open_missing_paths(now);
    }
}

/// Opens a local endpoint, whose descriptors are known to the poller by `place`.
pub(super) fn open_local(
    place: usize,
    endpoint: &LocalConfig,
    poller: &Poller,
) -> Result<LocalEndpoint, String> {
    let tokens = Tokens(Token::Endpoint(place, 0).encode());
    LocalEndpoint::open(endpoint.clone(), tokens, clock::now(), poller).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "; another program is there, ss -tulpn shows which",
            ErrorKind::AddrNotAvailable => "; no interface of this host has that address",
            ErrorKind::PermissionDenied => "; ports below 1024 need root",
            _ => "",
        };
        format!("endpoint {}: {error}{hint}", endpoint.name)
    })
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

fn open_recorder(now: Instant, config: &Config) -> Result<Option<Recorder>, String> {
    let role = match config.role {
        Role::Drone => "drone",
        Role::Station => "station",
    };
    config.record.as_ref().map(|record| Recorder::open(now, record, role)).transpose()
}

fn open_status(path: &Path) -> Result<StatusServer, String> {
    StatusServer::open(path).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "",
            _ => "; [status] socket names another place",
        };
        format!("status socket {}: {error}{hint}", path.display())
    })
}

fn open_events(status: &Path) -> Result<EventServer, String> {
    EventServer::open(status)
        .map_err(|error| format!("open the socket of events beside {}: {error}", status.display()))
}

/// Opens the door for guests of a station. Without it everything works but `fulmar pair`.
fn open_guests(config: &Config, poller: &Poller) -> Option<Guests> {
    if config.role == Role::Drone {
        return None;
    }
    let opened = Guests::open(&config.status, poller);
    opened.inspect_err(|error| tracing::warn!(%error, "fulmar pair will not work")).ok()
}

fn open_sockets(config: &Config, poller: &Poller) -> Result<Sockets, String> {
    let mut sockets = Sockets::new(&config.transport);
    for listen in &config.listens {
        sockets.listen(listen, poller)?;
    }
    Ok(sockets)
}

fn open_tunnel(config: &Config, poller: &Poller) -> Result<Option<Tunnel>, String> {
    let Some(tunnel) = &config.tunnel else { return Ok(None) };
    Tunnel::open(tunnel, &config.peers, poller).map(Some).map_err(|error| {
        format!(
            "tunnel {}: {error}; it needs /dev/net/tun and CAP_NET_ADMIN, and a name that is free",
            tunnel.interface
        )
    })
}

fn open_locals(config: &Config, poller: &Poller) -> Result<BTreeMap<usize, LocalEndpoint>, String> {
    let numbered = config.endpoints.iter().enumerate();
    numbered.map(|(place, endpoint)| Ok((place, open_local(place, endpoint, poller)?))).collect()
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
