//! The daemon: one thread, one loop, both directions.
//!
//! ```text
//! wait → input (links, tunnel, local endpoints) → serve → timers → report → deliver → transmit → wait …
//! ```
//!
//! Wake-ups dominate latency, so nothing is handed to another thread; every handler takes a bounded
//! batch, so that no input starves the others. What a packet means is decided in `proto`.

mod anew;
mod batches;
mod beyond;
mod endpoints;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod guests;
mod happened;
mod input;
mod journal;
mod knocks;
mod locals;
mod not_forwarded;
mod notes;
mod open;
mod outlets;
mod output;
mod packet;
mod paths;
mod pilot;
mod places;
mod recording;
mod relays;
mod reload;
mod remotes;
mod renewal;
mod report;
mod rights;
mod sockets;
mod standstill;
mod strays;
mod streams;
mod tokens;
mod tunnel;
mod twins;
mod upkeep;

use std::collections::BTreeMap;

use proto::{Duration, Endpoint, Instant, PathRef, PeerId, SessionId};
use sys::capabilities::Capability;
use sys::clock;
use sys::interfaces::InterfaceWatch;
use sys::notify::Notifier;
use sys::poller::{Poller, Ready};
use sys::signals::{Asked, Signals};
use sys::udp::ReceiveBuffers;

use crate::awaited::Awaited;
use crate::config::Config;
use crate::endpoints::{EndpointState, LocalEndpoint, Sources};
use crate::events::EventServer;
use crate::log::Log;
use crate::reading::Loader;
use crate::recorder::Recorder;
use crate::status::{ReloadReport, StatusServer};
use anew::Anew;
pub(crate) use anew::run;
use batches::Batches;
use guests::Guests;
use journal::Journal;
use locals::Locals;
pub(crate) use not_forwarded::message_name;
use notes::Notes;
pub(crate) use open::{REALTIME_PRIORITY, open_notifier};
use paths::DronePath;
use pilot::Watch;
use relays::Relays;
use remotes::Remotes;
use report::{Meter, StrangersSeen};
pub(crate) use sockets::LOOK_EVERY;
use sockets::{SocketChange, Sockets};
use standstill::Standstill;
use strays::Unclaimed;
use streams::Streams;
pub(crate) use tokens::Token;
use tunnel::Tunnel;
use twins::Twin;

/// How often rates are measured and the service manager hears from us.
const TICK: Duration = Duration::from_secs(1);
/// The least time between two turns while a socket is full.
const BLOCKED_TURN: Duration = Duration::from_millis(1);

/// A running daemon.
pub(crate) struct Daemon {
    config: Config,
    poller: Poller,
    signals: Signals,
    watch: InterfaceWatch,
    notifier: Notifier,
    endpoint: Endpoint,
    /// The sessions with the peers of the configuration, in its order.
    peers: Vec<PeerState>,
    /// Their places, by session.
    places: BTreeMap<SessionId, usize>,
    sockets: Sockets,
    /// A drone's paths, by the slot of their link.
    paths: BTreeMap<usize, DronePath>,
    remotes: Remotes,
    relays: Relays,
    streams: Streams,
    tunnel: Option<Tunnel>,
    locals: Locals,
    /// Goes before the socket of the status, for whose place directories may have been made.
    events: EventServer,
    /// Goes after the endpoints, which may have sockets in the directory that was made for its own.
    status: Awaited<StatusServer>,
    /// A station's; a drone's is never opened.
    guests: Awaited<Guests>,
    batches: Batches,
    received: ReceiveBuffers,
    datagram: Vec<u8>,
    meters: BTreeMap<PathRef, Meter>,
    strangers: StrangersSeen,
    journal: Journal,
    log: Log,
    /// How many paths over relays there have been.
    next_relayed_slot: usize,
    /// The peer whose links are looked at first, for the pilot.
    next_watched: usize,
    /// Peers whose vehicles one ground station cannot tell apart.
    twins: BTreeMap<usize, Twin>,
    recorder: Option<Recorder>,
    reload: ReloadReport,
    loader: Loader,
    started: Instant,
    standstill: Standstill,
    next_tick: Instant,
    next_look: Instant,
    next_sign_of_life: Option<Instant>,
    /// There is more to handle or to send than one turn may take.
    more: bool,
    running: bool,
    /// What the process had the right to do and gave up, since the file did not need it.
    given_up: Vec<Capability>,
    /// The configuration to begin anew with.
    anew: Option<Config>,
}

/// What is known of a peer.
struct PeerState {
    id: PeerId,
    session: Option<SessionId>,
    connected_at: Option<Instant>,
    /// When its last session ended, and why, while there is no other.
    ended: Option<(Instant, &'static str)>,
    /// What the pilot knows of its links.
    watch: Watch,
    /// At which end the sources of its MAVLink live.
    sources: Sources,
    /// What both ends have told each other of themselves.
    notes: Notes,
    /// How the endpoints of its applications were, by their numbers.
    endpoint_states: BTreeMap<u64, EndpointState>,
    /// What it sends to no endpoint of this end.
    unclaimed: Unclaimed,
}

impl PeerState {
    /// Returns the session while it is connected.
    fn connected(&self) -> Option<SessionId> {
        self.session.filter(|_| self.connected_at.is_some())
    }
}

/// Returns the places of peers by their sessions.
fn places(peers: &[PeerState]) -> BTreeMap<SessionId, usize> {
    let peers = peers.iter().enumerate();
    peers.filter_map(|(place, peer)| Some((peer.session?, place))).collect()
}

impl Daemon {
    /// Runs until a signal ends it; then the peers are told, and nothing is left behind. Returns
    /// how to begin anew, where that is why it ends.
    ///
    /// # Errors
    /// Those of the poller: without it nothing works.
    fn run(mut self) -> std::io::Result<Option<Anew>> {
        self.notifier.ready();
        self.note_start();
        let mut ready: Vec<Ready> = Vec::new();
        while self.running {
            let now = clock::now();
            let deadline = if self.more { now } else { self.deadline(now) };
            self.poller.wait(now, Some(deadline), &mut ready)?;
            let now = clock::now();
            self.note_standstill(now);
            for event in ready.drain(..) {
                self.handle_ready(now, event);
            }
            // Under load, what we have to say leaves before more is taken in.
            if std::mem::take(&mut self.more) {
                self.transmit(now);
            }
            self.serve();
            let now = clock::now();
            self.handle_timers(now);
            self.report_events(now);
            self.deliver(now);
            self.transmit(now);
        }
        if let Some(new) = self.anew {
            return Ok(Some(Anew { new, old: self.config, reload: self.reload }));
        }
        self.shut_down();
        Ok(None)
    }

    /// Notes that what has come in is looked at, and says so where that took long.
    fn note_standstill(&mut self, now: Instant) {
        if let Some(stood) = self.standstill.on_look(now).filter(|stood| *stood >= TICK) {
            let seconds = stood.as_secs_f64();
            tracing::warn!(
                seconds,
                "stood still; what came meanwhile and has grown too old is dropped"
            );
        }
    }

    fn deadline(&self, now: Instant) -> Instant {
        let (beat, sessions) = (Some(self.standstill.timeout()), self.session_deadline(now));
        let file = self.loader.timeout();
        let own = [Some(self.next_tick), beat, self.next_sign_of_life, sessions, file];
        let locals = self.locals.values().filter_map(LocalEndpoint::timeout);
        let locals = locals.chain(self.relays.timeout(now)).chain(self.streams.timeout(now));
        let locals = locals.chain(self.recorder.as_ref().map(Recorder::timeout));
        own.into_iter().flatten().chain(locals).min().unwrap_or(self.next_tick)
    }

    /// When the sessions want to be asked again. What is due but cannot leave, because a socket is
    /// full, must not keep the loop spinning.
    fn session_deadline(&self, now: Instant) -> Option<Instant> {
        let blocked = self.sockets.list.values().any(|socket| socket.outlets.is_any_blocked());
        let blocked = blocked || self.streams.is_any_blocked();
        Some(not_spinning(self.endpoint.timeout()?, now, blocked))
    }

    fn handle_ready(&mut self, now: Instant, event: Ready) {
        match Token::decode(event.token) {
            Token::Socket(slot) => self.handle_socket(now, slot, event),
            Token::Hop(place, part) => self.handle_relay(now, place, part),
            Token::Stream(place) => self.handle_stream(now, place, event),
            Token::Outlet(slot, place) => self.handle_room(slot, place),
            Token::Tunnel => self.handle_tunnel(now),
            Token::Endpoint(place, part) => self.handle_local(now, place, part, event),
            Token::Status(part) => self.answer_status(now, part),
            Token::Events(part) => self.serve_events(part),
            Token::Guests(part) => self.handle_guests(now, part, event),
            Token::Interfaces => {
                if !matches!(self.watch.changed(), Ok(false)) {
                    self.refresh_sockets(now);
                    if let Some(tunnel) = &mut self.tunnel {
                        tunnel.on_change();
                        tunnel.keep_up(now);
                    }
                }
            }
            Token::Names => self.take_names(now),
            Token::File => self.take_file(now),
            Token::Signals => match self.signals.take() {
                Some(Asked::End(signal)) => {
                    tracing::info!(signal, "stopping");
                    self.running = false;
                }
                Some(Asked::Reload) => self.loader.load(now, &self.config.file),
                None => {}
            },
        }
    }

    fn handle_timers(&mut self, now: Instant) {
        if self.endpoint.timeout().is_some_and(|timeout| timeout <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.handle_local_timers(now);
        self.handle_relay_timers(now);
        self.handle_stream_timers(now);
        if self.next_sign_of_life.is_some_and(|due| due <= now) {
            self.notifier.alive();
            self.next_sign_of_life = self.notifier.watchdog().map(|every| now + every);
        }
        if self.next_tick <= now {
            self.next_tick = now + TICK;
            self.measure(now);
            self.sockets.tidy(now);
            self.relays.tell_again();
            self.look_elsewhere(now);
            self.renew_ports(now);
            self.look_at_silent(now);
            self.close_leaving_paths(now);
            self.end_guests(now);
            self.log_silence(now);
            self.exchange_notes(now);
            self.find_twins(now);
            self.tell_pilot(now);
            self.notifier.status(&self.summary());
            self.open_doors(now);
        }
        if self.next_look <= now {
            self.refresh_sockets(now);
        }
        if self.loader.timeout().is_some_and(|due| due <= now) {
            self.take_file(now);
        }
        self.record(now);
    }

    /// Follows the interfaces: paths leave and join with them.
    fn refresh_sockets(&mut self, now: Instant) {
        self.next_look = now + LOOK_EVERY;
        let changes = self.sockets.refresh(&self.poller);
        let has_changed = !changes.is_empty();
        for change in changes {
            let (slot, states): (usize, &[bool]) = match change {
                SocketChange::Up(slot) => (slot, &[true]),
                SocketChange::Down(slot) => (slot, &[false]),
                // Another address, or another device of the same name: the path begins anew.
                SocketChange::Anew(slot) => (slot, &[false, true]),
            };
            self.batches.forget(slot);
            self.follow_blocked();
            let Some(socket) = self.sockets.list.get(&slot) else { continue };
            tracing::info!(link = %socket.name, present = states.last(), "link changed");
            if socket.is_of_streams() {
                // What was accepted lives on without the address that it was accepted at.
                if !socket.listens || states == [false] {
                    self.close_streams(now, slot);
                }
                continue;
            }
            for &present in states {
                if let Some(path) = self.paths.get(&slot).and_then(|path| path.path) {
                    self.endpoint.set_path_present(now, path.session, path.path, present);
                }
            }
        }
        if has_changed {
            self.look_elsewhere(now);
            self.open_missing_paths(now);
        }
        self.refresh_relays(now);
        self.follow_addresses(now);
        self.follow_mtus(now);
        let Self { locals, sockets, poller, .. } = self;
        locals.iter_mut().for_each(|(_, local)| local.follow(sockets.interfaces(), poller));
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.beyond.follow(now, &tunnel.counts.interface, sockets.interfaces());
        }
    }

    /// Follows this host's addresses: what is sent from one that is gone does not leave.
    fn follow_addresses(&mut self, now: Instant) {
        let Self { endpoint, sockets, .. } = self;
        endpoint.move_local(now, |interface, local| {
            let successor = sockets.successor(interface, local)?;
            tracing::info!(%local, %successor, "an address of this host is another one now");
            Some(successor)
        });
    }

    /// Tells paths how long packets are that their interfaces carry.
    fn follow_mtus(&mut self, now: Instant) {
        let Self { endpoint, sockets, .. } = self;
        endpoint.set_interface_mtus(now, |interface| sockets.interface_mtu(interface));
    }

    fn shut_down(&mut self) {
        self.notifier.stopping();
        let now = clock::now();
        let sessions: Vec<SessionId> = self.endpoint.sessions().map(|(id, _)| id).collect();
        for session in sessions {
            self.endpoint.close(now, session);
        }
        self.transmit(now);
        self.report_events(now);
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
    }
}

/// Returns when the loop is to go on: what is due but cannot leave, because something is blocked,
/// waits for a little, so that the loop does not spin.
fn not_spinning(timeout: Instant, now: Instant, blocked: bool) -> Instant {
    if blocked && timeout <= now { now + BLOCKED_TURN } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_blocked_makes_no_timer_late_that_is_still_to_come() {
        let at = |us: u64| Instant::ZERO + proto::Duration::from_micros(us);
        assert_eq!(not_spinning(at(1_100), at(1_000), true), at(1_100));
        assert_eq!(not_spinning(at(900), at(1_000), true), at(2_000));
        assert_eq!(not_spinning(at(900), at(1_000), false), at(900));
    }
}
