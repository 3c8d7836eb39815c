//! A session: the association of drone and station over all its paths.
//!
//! Control flow alone, in packet order: what a packet passes on its way out is `outbound.rs`, on
//! its way in `inbound.rs`, what happens when nothing comes is `timers.rs`, the coming and going
//! of paths is `paths.rs`. The algorithms live in modules of their own, and no name of one is
//! written here. Keys are agreed on by the endpoint's handshake, which also finds out whose
//! datagram it is.

mod config;
mod inbound;
mod notes;
mod outbound;
mod paths;
pub(crate) mod pieces;
mod snapshot;
mod timers;

use std::collections::{BTreeSet, VecDeque};

use units::{Duration, Instant, Rng};

pub use config::SessionConfig;
pub use paths::PathError;

use crate::crypto::{EpochKeys, KeyRing};
use crate::delivery::message::MessageStream;
use crate::delivery::tunnel::TunnelForm;
use crate::delivery::{Deliveries, DeliveryConfig};
use crate::event::{Delivery, Event, PathState};
use crate::ids::{PathId, PeerId, SessionId};
use crate::limits;
use crate::memory::{Account, Held, Room};
use crate::path::{Path, PathConfig, Paths};
use crate::recovery::ClockOffset;
use crate::rejection::Rejections;
use crate::schedule::Scheduler;
use crate::select::{Direction, Policy, Selector};
use crate::via::Via;
use crate::wire;
use notes::Notes;
use paths::Readdressed;
use pieces::{Cutter, Joiner};

/// Says which end of the session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The drone: begins the session and opens paths.
    Initiator,
    /// The station: answers from where it was spoken to.
    Responder,
}

impl Role {
    /// Says which way what this end sends goes.
    fn direction(self) -> Direction {
        match self {
            Self::Initiator => Direction::FromVehicle,
            Self::Responder => Direction::ToVehicle,
        }
    }
}

/// Says where a packet comes from, and with it how its delivery policy is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An IP packet of the tunnel: the packet selector inspects it.
    Tunnel,
    /// A datagram of a local MAVLink endpoint: the packet selector sorts its frames.
    Mavlink {
        /// The endpoint's channel; the peer delivers to the endpoint of the same channel.
        channel: u8,
    },
    /// A datagram whose policy the application has declared.
    Declared {
        /// The endpoint's channel.
        channel: u8,
        /// The policy of every datagram.
        policy: Policy,
    },
    /// A message of message delivery, of up to 1 MiB.
    Message {
        /// The endpoint's channel.
        channel: u8,
        /// Its stream: order and deadline.
        stream: MessageStream,
    },
}

/// Says why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Too much is in flight or queued; try again after the next event.
    Busy,
    /// It does not fit into a datagram.
    TooLarge {
        /// Bytes that fit.
        limit: usize,
    },
    /// It has outlived its time to live already.
    TooOld,
    /// There is no such session (any more).
    NoSession,
}

/// Numbers drawn for one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    /// Makes the tokens of challenges: the peer must not be able to guess it.
    pub(crate) seed: u64,
    /// Names the session to both ends.
    pub(crate) nonce: u64,
}

/// Keeps one session.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    peer: PeerId,
    role: Role,
    started: Instant,
    /// The latest moment that any input named.
    now: Instant,
    connected: bool,
    ended: bool,
    keys: KeyRing,
    path_config: PathConfig,
    paths: Paths,
    /// The path that a datagram left by last; the others come first.
    sent_last: PathId,
    /// The number of the next path to be opened here; numbers are never used again.
    next_path: u16,
    /// Numbers of paths that were given up: never used again, since another path of that number
    /// would begin with packet numbers, and a replay window, that these keys have seen.
    retired: BTreeSet<PathId>,
    /// Paths that were given up here and of which the peer is to be told.
    closed_paths: Vec<PathId>,
    /// At most one for each path.
    readdressed: Vec<Readdressed>,
    /// What each end tells the other of itself.
    notes: Notes,
    /// A path may be tried elsewhere than before.
    routes_changed: bool,
    /// Paths on which the end of the session is still to be told, and what to say.
    farewells: Vec<PathId>,
    close_reason: u8,
    /// The peer turned us away: another one holds our key, or the key was revoked.
    refused: bool,
    /// When it was last said that another one came with the peer's key.
    contested_at: Option<Instant>,
    /// When one came last, and from where.
    contested: Option<(Instant, Via)>,
    /// When the Response was made by which the peer began the session; its responder knows.
    responded_at: Option<Instant>,
    /// Whether the peer may not know our clock, since it may not have had an answer to anything
    /// yet.
    owes_clock: bool,
    /// When the newest acknowledged packet was sent.
    answered: Option<Instant>,
    clock: ClockOffset,
    selector: Selector,
    deliveries: Deliveries,
    scheduler: Box<dyn Scheduler>,
    delivered: VecDeque<Delivery>,
    events: VecDeque<Event>,
    rejected: Rejections,
    /// What the session holds, and how much more it may.
    account: Account,
    room: Room,
    /// Somebody said that the peer does not know our keys, and no new ones have come since.
    asks_anew: bool,
    /// When that was said last.
    unknown_at: Option<Instant>,
    /// The largest datagram that a path has carried, be it in pieces: the limit while none is
    /// active.
    largest_datagram: usize,
    cutter: Cutter,
    joiner: Joiner,
    rng: Rng,
}

impl Session {
    /// Starts a session without keys and paths.
    pub(crate) fn new(
        id: SessionId,
        peer: PeerId,
        role: Role,
        config: &SessionConfig,
        drawn: Drawn,
        (account, now): (Account, Instant),
    ) -> Self {
        let scheduler = config.scheduler.scheduler();
        Self {
            id,
            peer,
            role,
            started: now,
            now,
            connected: false,
            ended: false,
            keys: KeyRing::new(),
            path_config: PathConfig {
                congestion: config.congestion,
                initiator: role == Role::Initiator,
                idle_probe: config.idle_probe,
                protect_control: config.protect_control,
            },
            paths: Paths::default(),
            sent_last: PathId(0),
            next_path: 0,
            retired: BTreeSet::new(),
            closed_paths: Vec::new(),
            readdressed: Vec::new(),
            notes: Notes::default(),
            routes_changed: false,
            farewells: Vec::new(),
            close_reason: wire::CLOSED,
            refused: false,
            contested_at: None,
            contested: None,
            responded_at: None,
            owes_clock: role == Role::Initiator,
            answered: None,
            clock: ClockOffset::default(),
            selector: Selector::new(&config.selector, role.direction()),
            deliveries: Deliveries::new(&DeliveryConfig {
                form: config.message,
                nonce: drawn.nonce,
                coded_transfers: config.coded_transfers,
                bulk_max_age: config.bulk_max_age,
                rtp_life: config.rtp_deadline,
                tunnel: match scheduler.replicates() {
                    true => TunnelForm::Plain,
                    false => config.tunnel,
                },
                resequence_max: config.resequence_max,
                reliability: config.reliability,
                seed: drawn.seed,
            })
            .with_steps(config.steps),
            scheduler,
            delivered: VecDeque::new(),
            events: VecDeque::new(),
            rejected: Rejections::default(),
            account,
            room: Room::PLENTY,
            asks_anew: false,
            unknown_at: None,
            largest_datagram: limits::MAX_DATAGRAM,
            cutter: Cutter::default(),
            joiner: Joiner::default(),
            rng: Rng::new(drawn.seed),
        }
    }

    /// Takes another packet selector and other targets of classes, for what is handed in from now
    /// on.
    pub(crate) fn set_policies(&mut self, now: Instant, config: &SessionConfig) {
        self.selector.set_config(&config.selector, self.role.direction());
        self.deliveries.set_reliability(&config.reliability);
        self.after_change(now);
    }

    /// Takes the keys that a handshake agreed on.
    pub(crate) fn install_keys(&mut self, now: Instant, keys: EpochKeys) {
        self.now = now;
        let rekeyed = self.keys.has_keys();
        self.asks_anew = false;
        self.keys.install(now, keys);
        if rekeyed {
            self.events.push_back(Event::Rekeyed);
        } else if self.role == Role::Initiator {
            // The response proved that the responder holds the keys; only that one has to wait.
            self.on_connected();
        }
    }

    /// Returns from when on the initiator has to begin a handshake for new keys, if nothing comes
    /// in.
    ///
    /// Beside the age of the keys there are two reasons: nothing came in for a while although every
    /// path is probed, or somebody says that the peer has lost its keys. New keys are given the
    /// same while.
    pub(crate) fn rekey_from(&self) -> Option<Instant> {
        if self.role != Role::Initiator || self.ended || !self.keys.has_keys() {
            return None;
        }
        let asked = self.asks_anew.then_some(Instant::ZERO);
        [asked, self.keys.rekey_from(), self.silent_from()].into_iter().flatten().min()
    }

    /// Notes that somebody says the peer has no keys of this index. That is not authenticated, so
    /// the peer is asked, and its answer counts.
    pub(crate) fn on_unknown(&mut self, now: Instant, index: u32) -> bool {
        if self.role != Role::Initiator || self.keys.remote_index() != Some(index) {
            return false;
        }
        let recent = |at: Instant| now.since(at) < limits::SILENCE;
        if !self.unknown_at.is_some_and(recent) {
            self.unknown_at = Some(now);
            self.asks_anew = true;
        }
        true
    }

    fn silent_from(&self) -> Option<Instant> {
        let (mut heard, mut works, mut is_suspected) = (None, false, false);
        for path in self.paths.iter() {
            heard = heard.max(path.last_received_at());
            works |= path.state() == PathState::Active;
            is_suspected |= path.state() == PathState::Suspected;
        }
        let since = heard.max(self.keys.installed_at()).unwrap_or(self.started);
        if is_suspected && !works {
            let slow = self.paths.iter().map(Path::may_be_quiet_for).max();
            return Some(since + limits::SIGN_OF_LIFE.max(slow.unwrap_or_default()));
        }
        // Where idle paths are not probed, silence says nothing unless a path is suspected.
        let idle_probe = self.path_config.idle_probe;
        let probed = !idle_probe.is_zero() || is_suspected;
        probed.then(|| since + limits::SILENCE.max(idle_probe * 3))
    }

    /// Sends a probe on every path; [`Session::lives`] tells what came of it.
    pub(crate) fn ask_for_life(&mut self) {
        self.paths.iter_mut().for_each(Path::want_probe);
    }

    /// Tells whether the peer has answered something that was sent at `asked_at` or later; none
    /// while it still may.
    pub(crate) fn lives(&self, now: Instant, asked_at: Instant) -> Option<bool> {
        if self.answered.is_some_and(|sent_at| sent_at >= asked_at) {
            return Some(true);
        }
        (now.since(asked_at) >= self.patience()).then_some(false)
    }

    /// Returns how long to wait for a sign of life: by the fastest path that brings one for certain
    /// or, where none does, by the fastest of all.
    pub(crate) fn patience(&self) -> Duration {
        let sure = self.paths.iter().filter(|path| path.loses_little()).filter_map(Path::srtt);
        let any = self.paths.iter().filter_map(Path::srtt);
        let srtt = sure.min().or(any.min()).unwrap_or_default();
        (limits::SIGN_OF_LIFE + srtt * 2).min(limits::LONGEST_SIGN_OF_LIFE)
    }

    /// Notes that somebody else came with the peer's key and was turned away; says so now and then.
    pub(crate) fn on_contested(&mut self, now: Instant, from: Via) {
        self.contested = Some((now, from));
        if self.contested_at.is_none_or(|said| now.since(said) >= limits::CONTESTED_AGAIN) {
            self.contested_at = Some(now);
            self.events.push_back(Event::Contested { from });
        }
    }

    /// Returns when somebody else came with the peer's key last, and from where.
    pub(crate) fn contested(&self) -> Option<(Instant, Via)> {
        self.contested
    }

    /// Learns that another one holds the peer's key: nobody here is told that it came.
    pub(crate) fn begin_to_end(&mut self) {
        self.close_reason = wire::KEY_IN_USE;
    }

    /// Tells the peer that another one holds its key.
    pub(crate) fn turn_away(&mut self, now: Instant) {
        self.begin_to_end();
        self.close(now);
        self.events.clear();
    }

    /// Tells the peer that its key is not known any more, and ends the session.
    pub(crate) fn revoke(&mut self, now: Instant) {
        self.close_reason = wire::REVOKED;
        self.farewell(now, "its key was removed here");
    }

    /// Tells whether the peer ended the session because of our key: another one holds it, or it was
    /// removed there.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Returns our names for the keys that open.
    pub(crate) fn key_indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys.indices()
    }

    /// Tells the peer something of this end, under a name, for people; an empty text takes it back.
    pub(crate) fn set_note(&mut self, name: u16, text: &[u8]) {
        self.notes.set(name, text);
    }

    /// Tells whether [`Session::set_note`] would change anything.
    pub(crate) fn is_note_news(&self, name: u16, text: &[u8]) -> bool {
        self.notes.is_news(name, text)
    }

    /// Walks what the peer tells of itself.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.notes.theirs()
    }

    /// Returns a number that changes whenever the peer tells something new.
    pub(crate) fn notes_revision(&self) -> u64 {
        self.notes.revision()
    }

    /// Takes the peer's reading of its clock from the handshake.
    pub(crate) fn on_clock_sample(&mut self, now: Instant, sample: crate::recovery::ClockSample) {
        self.clock.on_sample(now, sample);
    }

    /// Notes when the Response was made after which the peer used its keys.
    pub(crate) fn on_used(&mut self, responded_at: Instant) {
        if self.responded_at.is_none() {
            self.responded_at = Some(responded_at);
        }
    }

    /// Tells the peer that the session is over, and ends it.
    pub(crate) fn close(&mut self, now: Instant) {
        self.farewell(now, "it was closed here");
    }

    /// Ends the session: what is in flight becomes indeterminate, nothing more is taken.
    pub(crate) fn end(&mut self, now: Instant, reason: &'static str) {
        self.now = now;
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.deliveries.end(now);
        self.collect_events();
        self.collect_deliveries();
        self.events.push_back(Event::Disconnected { reason });
    }

    /// Learns that the peer knows nothing of a session of which nothing was heard: it may have lost
    /// one in which it delivered control that left before.
    pub(crate) fn give_up_sent(&mut self, now: Instant) {
        self.now = now;
        self.deliveries.give_up_sent();
        self.collect_events();
    }

    /// Tells whether the session is over and everything was said that remained to be said.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.farewells.is_empty()
    }

    /// Tells whether the session is over, even if the peer has not been told everywhere.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Tells whether an authentic datagram of the peer ever came in: then it knows the session.
    pub(crate) fn has_heard(&self) -> bool {
        self.keys.has_opened()
    }

    /// Tells whether keys are agreed and confirmed.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected && !self.ended
    }

    /// Returns how many bytes the session holds, about.
    pub(crate) fn held(&self) -> usize {
        self.account.held()
    }

    /// Returns what the application is to get next.
    pub(crate) fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Tells whether there is something for the application.
    pub(crate) fn has_deliveries(&self) -> bool {
        !self.delivered.is_empty()
    }

    /// Tells whether something has happened.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns what happened next.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn farewell(&mut self, now: Instant, reason: &'static str) {
        if self.keys.has_keys() && !self.ended {
            self.farewells = self.paths.iter().map(Path::id).collect();
        }
        self.end(now, reason);
    }

    /// Takes note of what is held, and how much more may be, before anything comes in or leaves.
    fn settle_account(&mut self) {
        let pieces = Held { ours: 0, theirs: self.joiner.held() };
        self.account.settle(self.deliveries.held().and(pieces));
        let room = self.account.room();
        if room != self.room {
            self.room = room;
            self.deliveries.set_room(&room);
        }
    }

    fn on_connected(&mut self) {
        let is_welcome = self.close_reason != wire::KEY_IN_USE;
        if is_welcome && !std::mem::replace(&mut self.connected, true) {
            self.events.push_back(Event::Connected { peer: self.peer });
        }
    }

    fn collect_events(&mut self) {
        while let Some(event) = self.deliveries.poll_event() {
            self.events.push_back(event);
        }
    }

    fn path(&self, id: PathId) -> Option<&Path> {
        self.paths.position(id).map(|index| &self.paths[index])
    }

    fn path_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths.position(id).map(|index| &mut self.paths[index])
    }
}
