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

mod jitter;
mod queue;

pub use jitter::TimerJitter;

use crate::clock::HostClock;
use crate::net::{LinkEnd, Net};
use crate::scenario::{Interface, Scenario};
use jitter::Lateness;
use queue::{Event, EventQueue};
use std::net::{IpAddr, SocketAddr};
use units::Instant;

/// The bytes of an IPv4 and a UDP header, which links carry beside the datagram.
pub const UDP_IP_OVERHEAD: usize = 28;

/// The most datagrams that a host may transmit at one instant; more is a loop without end.
const TRANSMITS_MAX: u32 = 1_000_000;

/// How often a host may be woken at one instant; more is a time-out that is never served.
const WAKES_MAX: u32 = 10_000;

/// What the world runs: a state machine that speaks UDP. `now` is always on the host's own clock.
pub trait Host {
    /// Takes a datagram that arrived on `interface` (the host's interfaces in the order of
    /// [`Scenario::interfaces`]).
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    );

    /// Does what is due; called when [`timeout`](Self::timeout) has come.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns when the host wants to be woken, on its own clock.
    fn timeout(&self) -> Option<Instant>;

    /// Writes the next datagram to transmit into `bytes`, which comes empty.
    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit>;
}

/// Describes a datagram that a host transmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTransmit {
    /// The host's interface, in the order of [`Scenario::interfaces`].
    pub interface: usize,
    /// The sending address and port; the address is the interface's own unless the host lies.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
}

/// What a run depends on beside its scenario and its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldOptions {
    /// The seed of all randomness; `None` takes the scenario's.
    pub seed: Option<u64>,
    /// How late the operating system wakes the hosts.
    pub timer_jitter: TimerJitter,
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
    /// Datagrams to an address that nobody on the link has, or by an interface that the host has not.
    pub unroutable: u64,
    /// Times that hosts were woken.
    pub timeouts: u64,
}

/// Hosts and links in virtual time.
pub struct World<H> {
    now: Instant,
    net: Net,
    hosts: Vec<Slot<H>>,
    events: EventQueue,
    spare: Vec<Vec<u8>>,
    stats: WorldStats,
    /// Wakes since virtual time last moved.
    wakes: u32,
}

/// A host with what the world keeps about it.
struct Slot<H> {
    host: H,
    clock: HostClock,
    interfaces: Vec<Interface>,
    lateness: Lateness,
    /// What the host last asked for on its own clock, and when it is due in virtual time.
    wake: Option<(Instant, Instant)>,
    /// True when the harness may have changed the host.
    touched: bool,
}

impl<H: Host> World<H> {
    /// Puts `hosts`, in the order of the scenario's, at the ends of the scenario's links.
    ///
    /// # Panics
    /// When there are not as many hosts as the scenario has.
    pub fn new(scenario: &Scenario, hosts: Vec<H>, options: &WorldOptions) -> Self {
        assert_eq!(scenario.hosts.len(), hosts.len(), "the scenario names other hosts");
        let seed = options.seed.unwrap_or(scenario.seed);
        let slots = hosts.into_iter().enumerate().map(|(index, host)| Slot {
            host,
            clock: HostClock::new(&scenario.hosts[index].clock),
            interfaces: scenario.interfaces(index),
            lateness: Lateness::new(&options.timer_jitter, seed, &scenario.hosts[index].name),
            wake: None,
            touched: true,
        });
        Self {
            now: Instant::ZERO,
            net: Net::new(scenario, seed),
            hosts: slots.collect(),
            events: EventQueue::default(),
            spare: Vec::new(),
            stats: WorldStats::default(),
            wakes: 0,
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
    pub fn next_event_at(&mut self) -> Option<Instant> {
        self.serve_touched();
        let wake = self.next_wake().map(|(at, _)| at);
        match (self.events.next_at(), wake) {
            (Some(event), Some(wake)) => Some(event.min(wake)),
            (event, wake) => event.or(wake),
        }
    }

    /// Lets the next thing happen and returns what it was; `None` when nothing ever will.
    pub fn step(&mut self) -> Option<Step> {
        self.step_until(Instant::from_nanos(u64::MAX))
    }

    /// Lets the next thing happen if it happens at `limit` or before; otherwise moves virtual time
    /// to `limit` and returns `None`.
    pub fn step_until(&mut self, limit: Instant) -> Option<Step> {
        let Some(at) = self.next_event_at().filter(|&at| at <= limit) else {
            // An endless limit means "as long as something happens": time stays where it is.
            if limit != Instant::from_nanos(u64::MAX) {
                self.now = self.now.max(limit);
            }
            return None;
        };
        if at > self.now {
            self.now = at;
            self.wakes = 0;
        }
        // What arrives goes before what is due at the same instant: an acknowledgement that comes
        // just in time stops the timer.
        let kind = if self.events.next_at() == Some(at) { self.take_event() } else { self.wake() };
        Some(Step { at: self.now, kind })
    }

    /// Lets everything happen up to and including `limit`, and moves virtual time there.
    ///
    /// Marks that come on the way are not reported.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step_until(limit).is_some() {}
    }

    fn take_event(&mut self) -> StepKind {
        match self.events.pop() {
            Some(Event::Arrival(mut arrival)) => {
                self.stats.delivered += 1;
                let slot = &mut self.hosts[arrival.host];
                let now = slot.clock.local(self.now);
                slot.host.handle_datagram(
                    now,
                    arrival.interface,
                    arrival.source,
                    arrival.destination,
                    0,
                    &mut arrival.bytes,
                );
                self.spare.push(arrival.bytes);
                self.serve(arrival.host);
                StepKind::Datagram { host: arrival.host }
            }
            Some(Event::Mark(mark)) => StepKind::Mark(mark),
            None => unreachable!("the caller saw an event"),
        }
    }

    fn wake(&mut self) -> StepKind {
        let Some((_, host)) = self.next_wake() else { unreachable!("the caller saw a wake") };
        self.wakes += 1;
        assert!(self.wakes < WAKES_MAX, "host {host} asks to be woken at one instant for ever");
        self.stats.timeouts += 1;
        let slot = &mut self.hosts[host];
        slot.wake = None;
        slot.host.handle_timeout(slot.clock.local(self.now));
        self.serve(host);
        StepKind::Timeout { host }
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
            self.transmit(host, &transmit, bytes);
        }
        self.hosts[host].ask_for_wake(self.now);
    }

    fn transmit(&mut self, host: usize, transmit: &HostTransmit, bytes: Vec<u8>) {
        self.stats.transmitted += 1;
        let Some(interface) = self.hosts[host].interfaces.get(transmit.interface).copied() else {
            self.stats.unroutable += 1;
            self.spare.push(bytes);
            return;
        };
        let entry = LinkEnd { link: interface.link, direction: interface.sends };
        let len = bytes.len() + UDP_IP_OVERHEAD;
        for arrival in self.net.handle_packet(self.now, entry, len) {
            let Some(at_receiver) =
                self.hosts[arrival.host].interface_for(interface.link, transmit.destination.ip())
            else {
                self.stats.unroutable += 1;
                continue;
            };
            for delivery in &arrival.verdict.deliveries {
                let mut copy = self.spare.pop().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(&bytes);
                delivery.damage(&mut copy);
                let arrival = queue::Arrival {
                    host: arrival.host,
                    interface: at_receiver,
                    source: transmit.source,
                    destination: transmit.destination,
                    bytes: copy,
                };
                self.events.push(delivery.at, Event::Arrival(arrival));
            }
        }
        self.spare.push(bytes);
    }
}

impl<H: Host> Slot<H> {
    fn ask_for_wake(&mut self, now: Instant) {
        self.touched = false;
        let wanted = self.host.timeout();
        let Some(local) = wanted else {
            self.wake = None;
            return;
        };
        if self.wake.is_some_and(|(asked, _)| asked == local) {
            return;
        }
        let due = self.clock.reaches(local, now);
        self.wake = Some((local, (due + self.lateness.draw()).max(now)));
    }

    fn interface_for(&self, link: usize, address: IpAddr) -> Option<usize> {
        self.interfaces
            .iter()
            .position(|interface| interface.link == link && interface.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::CLOCK_ORIGIN;
    use crate::link::{Delay, LinkModel, LossModel};
    use units::Duration;

    /// Answers every datagram and starts with one of its own.
    struct Echo {
        from: SocketAddr,
        first_to: Option<SocketAddr>,
        answers: Vec<(SocketAddr, Vec<u8>)>,
        log: Vec<(Instant, u8)>,
        alarm: Option<Instant>,
        rung: Vec<Instant>,
    }

    impl Echo {
        fn new(address: [u8; 4], first_to: Option<SocketAddr>) -> Self {
            Self {
                from: (address, 7).into(),
                first_to,
                answers: Vec::new(),
                log: Vec::new(),
                alarm: None,
                rung: Vec::new(),
            }
        }
    }

    impl Host for Echo {
        fn handle_datagram(
            &mut self,
            now: Instant,
            _: usize,
            source: SocketAddr,
            destination: SocketAddr,
            _: u8,
            bytes: &mut [u8],
        ) {
            assert_eq!(destination, self.from);
            self.log.push((now, bytes[0]));
            self.answers.push((source, vec![bytes[0] + 1; 10]));
        }

        fn handle_timeout(&mut self, now: Instant) {
            self.rung.push(now);
            self.alarm = None;
        }

        fn timeout(&self) -> Option<Instant> {
            self.alarm
        }

        fn poll_transmit(&mut self, _: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
            if let Some(destination) = self.first_to.take() {
                bytes.push(0);
                return Some(HostTransmit { interface: 0, source: self.from, destination });
            }
            let (destination, answer) = self.answers.pop()?;
            bytes.extend_from_slice(&answer);
            Some(HostTransmit { interface: 0, source: self.from, destination })
        }
    }

    fn world(loss: f64, options: &WorldOptions) -> World<Echo> {
        let model = LinkModel {
            delay: Delay::Fixed(Duration::from_millis(10)),
            loss: LossModel { independent: loss, ..LossModel::default() },
            ..LinkModel::default()
        };
        let mut scenario = Scenario::new("echo", 1.0).link("wifi", "a", "b", &model);
        scenario.hosts[1].clock.offset_ns = 5_000_000_000;
        let b = Echo::new([10, 77, 0, 2], None);
        let a = Echo::new([10, 77, 0, 1], Some(b.from));
        World::new(&scenario, vec![a, b], options)
    }

    #[test]
    fn datagrams_arrive_on_the_clock_of_the_receiver() {
        let mut world = world(0.0, &WorldOptions::default());
        world.run_until(Instant::from_millis(25));
        let ms = Duration::from_millis;
        assert_eq!(world.host(1).log, [(CLOCK_ORIGIN + ms(5_010), 0)]);
        assert_eq!(world.host(0).log, [(CLOCK_ORIGIN + ms(20), 1)]);
        assert_eq!(world.now(), Instant::from_millis(25));
        assert_eq!(world.stats().transmitted, 3);
    }

    #[test]
    fn hosts_are_woken_when_they_ask_and_later_with_jitter() {
        let mut exact = world(1.0, &WorldOptions::default());
        let alarm = exact.host_now(0) + Duration::from_millis(3);
        exact.host_mut(0).alarm = Some(alarm);
        exact.schedule(Instant::from_millis(1), 42);
        let kinds: Vec<_> = std::iter::from_fn(|| exact.step()).map(|step| step.kind).collect();
        assert_eq!(kinds, [StepKind::Mark(42), StepKind::Timeout { host: 0 }]);
        assert_eq!(exact.host(0).rung, [alarm]);

        let timer_jitter =
            TimerJitter { mean: Duration::from_micros(80), ..TimerJitter::default() };
        let mut late = world(1.0, &WorldOptions { timer_jitter, ..WorldOptions::default() });
        late.host_mut(0).alarm = Some(alarm);
        late.run_until(Instant::from_millis(1_000));
        assert!(late.host(0).rung[0] > alarm);
    }
}
