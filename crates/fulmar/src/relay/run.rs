//! The daemon of a relay: one node between wire and radio, without a session, a tunnel or anything
//! local.
//!
//! ```text
//! wait → frames in → timers → frames out → wait …
//! ```

use std::io;

use proto::{Duration, Instant};
use sys::interfaces::{self, InterfaceWatch};
use sys::notify::Notifier;
use sys::poller::{Interest, Poller, Ready};
use sys::realtime;
use sys::signals::{Asked, Signals};
use sys::udp::ReceiveBuffers;
use sys::{capabilities, clock};

use super::post::{Post, Tokens};
use crate::awaited::Awaited;
use crate::config::{Kind, RelayFile};
use crate::daemon::{LOOK_EVERY, REALTIME_PRIORITY, Token, open_notifier};
use crate::events::EventServer;
use crate::log::Log;
use crate::reading::Loader;
use crate::rights;
use crate::status::{
    Answer, EndpointReport, Lists, PeerReport, ReloadReport, Report, StatusServer,
};

/// How often the service manager is told how it is.
const TICK: Duration = Duration::from_secs(1);

/// A relay that runs.
struct Relay {
    config: RelayFile,
    log: Log,
    poller: Poller,
    signals: Signals,
    watch: InterfaceWatch,
    notifier: Notifier,
    post: Post,
    status: Awaited<StatusServer>,
    /// Nothing of a relay is an event, but those who follow them find the socket.
    events: EventServer,
    reload: ReloadReport,
    loader: Loader,
    /// What the log has said is wrong.
    trouble: Option<String>,
    started: Instant,
    next_tick: Instant,
    next_look: Instant,
    next_sign_of_life: Option<Instant>,
    received: ReceiveBuffers,
    more: bool,
    running: bool,
}

/// Runs a relay until a signal ends it.
///
/// # Errors
/// Say the operation, the subject and what to do about it.
pub(crate) fn run(config: RelayFile, log: &Log) -> Result<(), String> {
    let mut relay = Relay::open(config, log.clone())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "running as a relay");
    relay.run().map_err(|error| format!("the event loop: {error}"))
}

impl Relay {
    fn open(config: RelayFile, log: Log) -> Result<Self, String> {
        let signals = Signals::block().map_err(|error| format!("block the signals: {error}"))?;
        prepare_thread(config.realtime);
        let poller = Poller::new().map_err(|error| format!("open the poller: {error}"))?;
        let watch = InterfaceWatch::open().map_err(|error| format!("watch interfaces: {error}"))?;
        let status = StatusServer::start(&config.status, &poller, Token::Status(0).encode())?;
        let events = EventServer::new(&config.status)
            .map_err(|error| format!("draw random numbers: {error}"))?;
        let notifier = open_notifier();
        let post = Post::relay(&config, tokens())?;
        poller
            .add(&signals, Token::Signals.encode(), Interest::Read)
            .and_then(|()| poller.add(&watch, Token::Interfaces.encode(), Interest::Read))
            .map_err(|error| format!("wait for descriptors: {error}"))?;
        let loader = Loader::open(&poller, Token::File.encode())
            .map_err(|error| format!("wait for the file: {error}"))?;
        let now = clock::now();
        let next_sign_of_life = notifier.watchdog().map(|every| now + every);
        let mut relay = Self {
            config,
            log,
            poller,
            signals,
            watch,
            notifier,
            post,
            status,
            events,
            reload: ReloadReport::default(),
            loader,
            trouble: None,
            started: now,
            next_tick: now + TICK,
            next_look: now + LOOK_EVERY,
            next_sign_of_life,
            received: ReceiveBuffers::default(),
            more: true,
            running: true,
        };
        relay.open_doors(now);
        relay.give_up_rights();
        relay.refresh(now);
        Ok(relay)
    }

    fn run(&mut self) -> io::Result<()> {
        self.notifier.ready();
        let mut ready: Vec<Ready> = Vec::new();
        while self.running {
            let now = clock::now();
            let deadline = if self.more { now } else { self.deadline(now) };
            self.poller.wait(now, Some(deadline), &mut ready)?;
            self.more = false;
            for event in ready.drain(..) {
                self.handle_ready(event);
            }
            let now = clock::now();
            self.handle_timers(now);
            self.more |= self.post.transmit(now, &self.poller, |_| false);
        }
        self.notifier.stopping();
        Ok(())
    }

    fn deadline(&self, now: Instant) -> Instant {
        let (look, file) = (Some(self.next_look), self.loader.timeout());
        let due = [self.next_sign_of_life, self.post.timeout(now), look, file];
        due.into_iter().flatten().fold(self.next_tick, Instant::min)
    }

    fn handle_ready(&mut self, event: Ready) {
        match Token::decode(event.token) {
            Token::Signals => match self.signals.take() {
                Some(Asked::End(signal)) => {
                    tracing::info!(signal, "stopping");
                    self.running = false;
                }
                Some(Asked::Reload) => self.loader.load(clock::now(), &self.config.file),
                None => {}
            },
            Token::File => self.take_file(clock::now()),
            Token::Interfaces if !matches!(self.watch.changed(), Ok(false)) => {
                self.refresh(clock::now());
            }
            Token::Hop(_, part) => {
                self.more |= self.post.handle_ready(part, &mut self.received, &self.poller);
            }
            Token::Status(part) => self.answer_status(part),
            Token::Events(part) => {
                let token = |part| Token::Events(part).encode();
                match part {
                    0 => self.events.take_newcomers(&self.poller, token),
                    part => self.events.go_on(part, &self.poller, token(part)),
                }
            }
            _ => {}
        }
    }

    fn handle_timers(&mut self, now: Instant) {
        self.post.handle_timeout(now);
        if self.next_sign_of_life.is_some_and(|due| due <= now) {
            self.notifier.alive();
            self.next_sign_of_life = self.notifier.watchdog().map(|every| now + every);
        }
        if self.next_tick <= now {
            self.next_tick = now + TICK;
            self.open_doors(now);
            let trouble = self.post.trouble(now);
            self.notifier.status(trouble.as_deref().unwrap_or("relaying"));
            if trouble != self.trouble {
                match &trouble {
                    Some(trouble) => tracing::warn!("{trouble}"),
                    None => tracing::info!("relaying: nothing is wrong any more"),
                }
                self.trouble = trouble;
            }
        }
        if self.next_look <= now {
            self.refresh(now);
        }
        if self.loader.timeout().is_some_and(|due| due <= now) {
            self.take_file(now);
        }
    }

    /// Opens the sockets of status and events where they are not there, as far as that is due.
    fn open_doors(&mut self, now: Instant) {
        let token = Token::Status(0).encode();
        StatusServer::try_again(&mut self.status, now, &self.config.status, &self.poller, token);
        // It goes before the directory of the other does.
        if self.status.get().is_some() {
            self.events.listen(now, &self.poller, Token::Events(0).encode());
        }
    }

    fn refresh(&mut self, now: Instant) {
        self.next_look = now + LOOK_EVERY;
        match interfaces::list() {
            Ok(interfaces) => {
                self.post.refresh(&interfaces, &self.poller);
            }
            Err(error) => tracing::warn!(%error, "cannot list the interfaces; looking again soon"),
        }
    }

    /// Begins anew with what was read of the file: nothing is lost by that, since a relay keeps
    /// nothing.
    fn take_file(&mut self, now: Instant) {
        let Some(read) = self.loader.take(now) else { return };
        self.reload.count += 1;
        match read.and_then(|kind| self.take_on(kind)) {
            Ok(changes) => {
                tracing::info!(changes, "the file was read again");
                (self.reload.changes, self.reload.problem) = (changes, String::new());
            }
            Err(problem) => {
                tracing::error!(problem, "the file was read again, and nothing was changed");
                (self.reload.changes, self.reload.problem) = (String::new(), problem);
            }
        }
        if self.loader.is_asked_again() {
            self.loader.load(now, &self.config.file);
        }
    }

    fn take_on(&mut self, kind: Kind) -> Result<String, String> {
        let Kind::Relay(new) = kind else {
            return Err("role: cannot change while the daemon runs: restart it".into());
        };
        if new.status != self.config.status || new.realtime != self.config.realtime {
            return Err(
                "[status], realtime: cannot change while the daemon runs: restart it".into()
            );
        }
        for warning in &new.warnings {
            tracing::warn!("{warning}");
        }
        let post = Post::relay(&new, tokens())?;
        self.log.set(&new.log);
        self.config = *new;
        // The sockets of the one before go first.
        drop(std::mem::replace(&mut self.post, post));
        self.refresh(clock::now());
        Ok("the relay began anew".into())
    }

    fn give_up_rights(&self) {
        let needs = rights::relay_needs();
        let kept: Vec<_> = needs.iter().filter(|need| !need.at_start).collect();
        let kept: Vec<_> = kept.iter().map(|need| need.capability).collect();
        if let Err(error) = capabilities::keep_only(&kept) {
            tracing::warn!(%error, "capabilities that a relay does not need cannot be given up");
        }
    }

    fn answer_status(&mut self, part: usize) {
        let now = clock::now();
        let Some(status) = self.status.get_mut() else { return };
        let answers: Vec<Answer> = if part > 0 {
            status.take(part).into_iter().collect()
        } else {
            let newcomers = status.newcomers().into_iter();
            newcomers.filter_map(|client| Answer::begin(client, &self.report(now))).collect()
        };
        for mut answer in answers {
            if answer.go_on(&Nobody)
                && let Some(status) = self.status.get_mut()
            {
                status.keep(answer, &self.poller, |part| Token::Status(part).encode());
            }
        }
    }

    fn report(&self, now: Instant) -> Report {
        Report {
            role: "relay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: now.since(self.started).as_secs_f64(),
            reload: self.reload.clone(),
            relays: vec![self.post.report(now)],
            ..Report::default()
        }
    }
}

/// A relay's report has neither peers nor endpoints.
struct Nobody;

impl Lists for Nobody {
    fn peer(&self, _: usize) -> Option<PeerReport> {
        None
    }

    fn endpoint(&self, _: usize) -> Option<(usize, EndpointReport)> {
        None
    }
}

fn tokens() -> Tokens {
    Tokens(|place, part| Token::Hop(place, part).encode(), 0)
}

/// Lets the one thread wake on time, as far as the system permits.
fn prepare_thread(is_realtime: bool) {
    if let Err(error) = realtime::set_timer_slack(Duration::from_nanos(1)) {
        tracing::warn!(%error, "timers will be up to 50 µs late");
    }
    if is_realtime {
        realtime::prefer_realtime(REALTIME_PRIORITY);
    } else {
        realtime::prefer_short_slice();
    }
}
