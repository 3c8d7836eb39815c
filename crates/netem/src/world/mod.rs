//! The deterministic world: hosts with clocks of their own, joined by emulated links, in virtual
//! time.
//!
//! Not an emulator: nothing real runs in it. A [`Host`] is a state machine (a session of `proto`
//! with its driver, an opponent, a source of traffic); the world hands it datagrams and time-outs,
//! takes what it transmits, and lets virtual time jump from event to event. Everything follows from
//! the scenario and the seed.
//!
//! ```text
//! poll_transmit → length + 28 → Net::handle_packet → arrival event → handle_datagram
//! timeout → host clock → virtual time (+ timer jitter) → handle_timeout
//! ```

mod host;
mod jitter;
mod queue;

pub use host::{Host, HostTransmit, Nat};
pub use jitter::TimerJitter;

use crate::clock::HostClock;
use crate::net::{LinkEnd, Net};
use crate::scenario::Scenario;
use crate::verdict_log::VerdictRecord;
use host::{End, Slot};
use jitter::Lateness;
use queue::{Event, EventQueue, Passenger};
use std::net::Ipv4Addr;
use units::Instant;

/// The bytes of an IPv4 and a UDP header, which links carry beside the datagram.
pub const UDP_IP_OVERHEAD: usize = 28;

/// The most datagrams that a host may transmit at one instant; more is an endless loop.
const TRANSMITS_MAX: u32 = 1_000_000;

/// How often hosts may be woken at one instant; more is a time-out that is never served.
const WAKES_MAX: u32 = 10_000;

/// The end of time, for runs without a limit.
const END_OF_TIME: Instant = Instant::from_nanos(u64::MAX);

/// What a run depends on beside its scenario and its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldOptions {
    /// The seed of all randomness; `None` takes the scenario's.
    pub seed: Option<u64>,
    /// How late the operating system wakes the hosts.
    pub timer_jitter: TimerJitter,
    /// True when the scenario's time zero is still to come: [`World::begin`] says when. Until then
    /// the links are those of [`Net::calm`].
    pub calm: bool,
}

/// One thing that happened in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in virtual time.
    pub at: Instant,
    /// What.
    pub kind: StepKind,
}

/// Says what happened in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A host was handed a datagram.
    Datagram {
        /// The host's place in [`Scenario::hosts`].
        host: usize,
    },
    /// A host was woken.
    Timeout {
        /// The host's place in [`Scenario::hosts`].
        host: usize,
    },
    /// A mark of the harness has come.
    Mark(u64),
}

/// Counts what the world did beside what its links count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Datagrams that hosts transmitted.
    pub transmitted: u64,
    /// Datagrams that hosts were handed, copies included.
    pub delivered: u64,
    /// Datagrams that reached the end of a link and were for nobody there, or that were sent on an
    /// interface that the host does not have or that only receives.
    pub unroutable: u64,
    /// Times that hosts were woken.
    pub timeouts: u64,
}

/// Takes each verdict as it is given.
type VerdictSink = Box<dyn FnMut(&VerdictRecord<'_>)>;

/// Hosts and links in virtual time.
pub struct World<H> {
    now: Instant,
    net: Net,
    hosts: Vec<Slot<H>>,
    events: EventQueue,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    stats: WorldStats,
    /// Wakes since virtual time last moved.
    wakes: u32,
    verdict_log: Option<VerdictSink>,
}

impl<H: Host> World<H> {
    /// Puts `hosts`, in the order of the scenario's, at the ends of the scenario's links.
    ///
    /// # Panics
    /// When there are not as many hosts as the scenario has, or as [`Net::new`] does.
    pub fn new(scenario: &Scenario, hosts: Vec<H>, options: &WorldOptions) -> Self {
        assert_eq!(scenario.hosts.len(), hosts.len(), "the scenario names other hosts");
        let seed = options.seed.unwrap_or(scenario.seed);
        let slots = hosts.into_iter().enumerate().map(|(index, host)| {
            let model = &scenario.hosts[index];
            let interfaces = scenario.interfaces(index).into_iter();
            Slot {
                host,
                clock: HostClock::beginning(&model.clock, (!options.calm).then_some(Instant::ZERO)),
                clock_model: model.clock.clone(),
                lateness: Lateness::new(&options.timer_jitter, seed, &model.name),
                ends: interfaces.map(|interface| End { interface, nat: None }).collect(),
                wake: None,
                touched: true,
            }
        });
        Self {
            now: Instant::ZERO,
            net: if options.calm { Net::calm(scenario, seed) } else { Net::new(scenario, seed) },
            hosts: slots.collect(),
            events: EventQueue::default(),
            spare: Vec::new(),
            stats: WorldStats::default(),
            wakes: 0,
            verdict_log: None,
        }
    }

    /// Sets the scenario's time zero to `origin`, now or in the future: outages, recordings and the
    /// steps of clocks count from there.
    ///
    /// # Panics
    /// When `origin` is past.
    pub fn begin(&mut self, origin: Instant) {
        assert!(origin >= self.now, "the scenario cannot begin in the past");
        self.net.begin(origin);
        for slot in &mut self.hosts {
            if !slot.clock_model.steps.is_empty() {
                slot.clock = HostClock::beginning(&slot.clock_model, Some(origin));
                // The wake-up that was asked for on the old clock is due by the new one.
                slot.wake = None;
                slot.touched = true;
            }
        }
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time that a host's clock shows.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn host_now(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now)
    }

    /// Returns a host's clock.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn clock(&self, host: usize) -> &HostClock {
        &self.hosts[host].clock
    }

    /// Returns a host.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn host(&self, host: usize) -> &H {
        &self.hosts[host].host
    }

    /// Returns a host for the harness to change; what it then wants to transmit leaves at the
    /// present virtual time, before the next event.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn host_mut(&mut self, host: usize) -> &mut H {
        let slot = &mut self.hosts[host];
        slot.touched = true;
        &mut slot.host
    }

    /// Returns a host for the harness to take out what it holds ready for applications. What it
    /// wants to transmit, and when it wants to be woken, must not depend on that: it is not asked
    /// again.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn take_from(&mut self, host: usize) -> &mut H {
        &mut self.hosts[host].host
    }

    /// Replaces a host by another, as a restart does, and returns the old one. What is on its way
    /// reaches the new host.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn replace_host(&mut self, host: usize, new: H) -> H {
        self.hosts[host].wake = None;
        std::mem::replace(self.host_mut(host), new)
    }

    /// Gives an interface another address, as a handover does. What is on its way to the old one
    /// is lost on arrival.
    ///
    /// # Panics
    /// When there is no such host or interface.
    pub fn set_address(&mut self, host: usize, interface: usize, address: Ipv4Addr) {
        self.hosts[host].ends[interface].interface.address = address;
    }

    /// Puts a network address translation in front of an interface, changes it or takes it away.
    /// What is on its way to an old outer address is lost on arrival.
    ///
    /// # Panics
    /// When there is no such host or interface.
    pub fn set_nat(&mut self, host: usize, interface: usize, nat: Option<Nat>) {
        self.hosts[host].ends[interface].nat = nat;
    }

    /// Hands each verdict to `sink`; [`VERDICT_LOG_HEADER`](crate::VERDICT_LOG_HEADER) names its
    /// columns.
    pub fn set_verdict_log(&mut self, sink: impl FnMut(&VerdictRecord<'_>) + 'static) {
        self.verdict_log = Some(Box::new(sink));
    }

    /// Returns the links.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Returns what happened so far.
    pub fn stats(&self) -> WorldStats {
        self.stats
    }

    /// Makes [`step`](Self::step) return `mark` at the virtual time `at`, or now if that is past.
    pub fn schedule(&mut self, at: Instant, mark: u64) {
        self.events.push(at.max(self.now), Event::Mark(mark));
    }

    /// Returns when the next thing will happen, in virtual time.
    ///
    /// # Panics
    /// When a host transmits without end.
    pub fn next_event_at(&mut self) -> Option<Instant> {
        self.serve_touched();
        let wake = self.next_wake().map(|(at, _)| at);
        match (self.events.next_at(), wake) {
            (Some(event), Some(wake)) => Some(event.min(wake)),
            (event, wake) => event.or(wake),
        }
    }

    /// Lets the next thing happen and returns what it was; `None` when nothing ever will.
    ///
    /// # Panics
    /// When a host transmits without end, or does not handle a time-out that is due.
    pub fn step(&mut self) -> Option<Step> {
        self.step_until(END_OF_TIME)
    }

    /// Lets the next thing happen if it happens at `limit` or before; otherwise moves virtual time
    /// to `limit` and returns `None`.
    ///
    /// # Panics
    /// As [`step`](Self::step) does.
    pub fn step_until(&mut self, limit: Instant) -> Option<Step> {
        while let Some(at) = self.next_event_at().filter(|&at| at <= limit && at < END_OF_TIME) {
            if at > self.now {
                self.now = at;
                self.wakes = 0;
            }
            // What arrives goes before what is due at the same instant: an acknowledgement that
            // comes just in time stops the timer.
            let kind = match self.events.pop_at(at) {
                Some(Event::Mark(mark)) => StepKind::Mark(mark),
                Some(Event::Arrival(passenger)) => match self.arrive(passenger) {
                    Some(host) => StepKind::Datagram { host },
                    None => continue,
                },
                None => match self.wake() {
                    Some(host) => StepKind::Timeout { host },
                    None => continue,
                },
            };
            return Some(Step { at: self.now, kind });
        }
        // The end of time as a limit means "as long as something happens": time then stays where it
        // is.
        if limit != END_OF_TIME {
            self.now = self.now.max(limit);
        }
        None
    }

    /// Lets everything happen up to and including `limit`, and moves virtual time there.
    ///
    /// Marks that come on the way are not reported.
    ///
    /// # Panics
    /// As [`step`](Self::step) does.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step_until(limit).is_some() {}
    }

    /// Hands a datagram to the host that it has reached, if it is for that host, and returns which
    /// one it is.
    fn arrive(&mut self, mut passenger: Passenger) -> Option<usize> {
        let slot = &mut self.hosts[passenger.host];
        let Some(destination) = slot.ends[passenger.interface].inside(passenger.destination) else {
            self.stats.unroutable += 1;
            self.spare.push(passenger.bytes);
            return None;
        };
        self.stats.delivered += 1;
        let now = slot.clock.local(self.now);
        let Passenger { interface, source, bytes, .. } = &mut passenger;
        slot.host.handle_datagram(now, *interface, *source, destination, 0, bytes);
        self.spare.push(passenger.bytes);
        self.serve(passenger.host);
        Some(passenger.host)
    }

    /// Wakes the host whose time-out is due first, and returns which one that is.
    fn wake(&mut self) -> Option<usize> {
        let (_, host) = self.next_wake()?;
        self.wakes += 1;
        assert!(self.wakes < WAKES_MAX, "host {host} asks to be woken at one instant for ever");
        self.stats.timeouts += 1;
        let slot = &mut self.hosts[host];
        slot.wake = None;
        slot.host.handle_timeout(slot.clock.local(self.now));
        self.serve(host);
        Some(host)
    }

    fn next_wake(&self) -> Option<(Instant, usize)> {
        let wakes = self.hosts.iter().enumerate();
        wakes.filter_map(|(host, slot)| slot.wake.map(|(_, at)| (at, host))).min()
    }

    fn serve_touched(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].touched {
                self.serve(host);
            }
        }
    }

    /// Takes what a host wants to transmit and asks when it wants to be woken.
    fn serve(&mut self, host: usize) {
        let mut count = 0;
        let now = self.hosts[host].clock.local(self.now);
        loop {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            let Some(transmit) = self.hosts[host].host.poll_transmit(now, &mut bytes) else {
                self.spare.push(bytes);
                break;
            };
            count += 1;
            assert!(count < TRANSMITS_MAX, "host {host} transmits at one instant for ever");
            self.transmit(host, &transmit, &bytes);
            self.spare.push(bytes);
        }
        self.hosts[host].ask_for_wake(self.now);
    }

    fn transmit(&mut self, host: usize, transmit: &HostTransmit, bytes: &[u8]) {
        self.stats.transmitted += 1;
        let Some(end) = self.hosts[host].ends.get(transmit.interface) else {
            self.stats.unroutable += 1;
            return;
        };
        let source = end.outside(transmit.source);
        let entry = LinkEnd { link: end.interface.link, direction: end.interface.sends };
        let len = bytes.len() + UDP_IP_OVERHEAD;
        // Whatever is modelled inside, the world carries datagrams.
        let udp = Some(crate::Protocol::Udp);
        let arrivals = self.net.handle_packet_of(udp, self.now, entry, len);
        self.stats.unroutable += u64::from(arrivals.is_empty());
        for arrival in arrivals {
            if let Some(sink) = &mut self.verdict_log {
                sink(&self.net.record(self.now, entry, len, &arrival));
            }
            let Some(interface) = self.hosts[arrival.host].end_on(entry.link) else { continue };
            for delivery in &arrival.verdict.deliveries {
                let mut copy = self.spare.pop().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(bytes);
                delivery.damage(&mut copy);
                let destination = transmit.destination;
                let passenger =
                    Passenger { host: arrival.host, interface, source, destination, bytes: copy };
                self.events.push(delivery.at, Event::Arrival(passenger));
            }
        }
    }
}
