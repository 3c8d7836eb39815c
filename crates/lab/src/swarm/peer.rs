//! A host of a swarm's run: an endpoint that may be down, and the attackers on its links.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netem::{Host, HostTransmit};
use proto::{Delivery, Event, SessionId, SessionStatus};
use units::Instant;
use world::Driver;

use super::attack::{Attacker, Forged, is_stranger};

/// What an endpoint said.
pub(super) enum Said {
    /// A packet for the application.
    Delivered(Delivery),
    /// An event of a session.
    Happened(SessionId, Event),
}

/// One host.
pub(super) struct Peer {
    /// None while the daemon is down.
    pub(super) driver: Option<Driver>,
    /// Those that sit before its interfaces.
    pub(super) attackers: Vec<Attacker>,
    /// What attackers hand over later, by the time on this host's clock.
    pending: BTreeMap<(Instant, u64), (usize, SocketAddr, Forged)>,
    forged: u64,
    /// What the endpoint said since the judge looked last.
    pub(super) said: Vec<Said>,
    /// Datagrams and bytes handed to the links so far.
    pub(super) sent: (u64, u64),
    /// Bytes that came in.
    pub(super) received: u64,
    /// Bytes that came from addresses that nobody has, and bytes that went to them.
    pub(super) strangers: (u64, u64),
}

impl Peer {
    /// Makes a host whose daemon is down.
    pub(super) fn new(attackers: Vec<Attacker>) -> Self {
        Self {
            driver: None,
            attackers,
            pending: BTreeMap::new(),
            forged: 0,
            said: Vec::new(),
            sent: (0, 0),
            received: 0,
            strangers: (0, 0),
        }
    }

    /// Shows its session.
    pub(super) fn status(&self, now: Instant) -> Option<SessionStatus> {
        let driver = self.driver.as_ref()?;
        driver.endpoint.status(now, driver.session?)
    }

    /// Takes what the endpoint has to say.
    pub(super) fn collect(&mut self) {
        let Some(driver) = &mut self.driver else { return };
        while let Some(delivery) = driver.endpoint.poll_delivery() {
            self.said.push(Said::Delivered(delivery));
        }
        while let Some((session, event)) = driver.poll_event() {
            self.said.push(Said::Happened(session, event));
        }
    }

    /// Lets the attackers from `first` on have their way with a datagram, then hands it to the
    /// endpoint.
    fn pass(&mut self, now: Instant, interface: usize, to: SocketAddr, first: usize, it: Forged) {
        let next = (first..self.attackers.len())
            .find(|index| self.attackers[*index].interface == interface);
        let Some(index) = next else {
            return self.receive(now, interface, to, it);
        };
        for forged in self.attackers[index].handle_datagram(it.source, &it.bytes) {
            if forged.after.is_zero() {
                self.pass(now, interface, to, index + 1, forged);
            } else {
                self.wait(now, interface, to, forged);
            }
        }
    }

    /// Lets the attackers see what goes out, and keeps what comes of it.
    fn show(&mut self, now: Instant, transmit: &HostTransmit, bytes: &[u8]) {
        for index in 0..self.attackers.len() {
            if self.attackers[index].interface == transmit.interface {
                let added = self.attackers[index].overhear(transmit.destination, bytes);
                for it in added {
                    self.wait(now, transmit.interface, transmit.source, it);
                }
            }
        }
    }

    fn wait(&mut self, now: Instant, interface: usize, to: SocketAddr, it: Forged) {
        self.forged += 1;
        self.pending.insert((now + it.after, self.forged), (interface, to, it));
    }

    fn receive(&mut self, now: Instant, interface: usize, to: SocketAddr, mut it: Forged) {
        let Some(driver) = &mut self.driver else { return };
        self.received += it.bytes.len() as u64;
        if is_stranger(it.source) {
            self.strangers.0 += it.bytes.len() as u64;
        }
        driver.handle_datagram(now, interface, [it.source, to], 0, &mut it.bytes);
        self.collect();
    }
}

impl Host for Peer {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        _ecn: u8,
        bytes: &mut [u8],
    ) {
        let it = Forged { after: units::Duration::ZERO, source, bytes: bytes.to_vec() };
        self.pass(now, interface, destination, 0, it);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            let (interface, to, it) = entry.remove();
            self.receive(now, interface, to, it);
        }
        for index in 0..self.attackers.len() {
            let interface = self.attackers[index].interface;
            if let Some(it) = self.attackers[index].handle_timeout(now) {
                // Nobody looks at where its own address stands.
                let to = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
                self.receive(now, interface, to, it);
            }
        }
        if let Some(driver) = &mut self.driver {
            driver.endpoint.handle_timeout(now);
            self.collect();
        }
    }

    fn timeout(&self) -> Option<Instant> {
        let endpoint = self.driver.as_ref().and_then(|driver| driver.endpoint.timeout());
        let pending = self.pending.first_key_value().map(|((at, _), _)| *at);
        let attackers = self.attackers.iter().filter_map(Attacker::timeout);
        attackers.chain(endpoint).chain(pending).min()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        let transmit = self.driver.as_mut()?.poll_transmit(now, bytes)?;
        self.sent = (self.sent.0 + 1, self.sent.1 + bytes.len() as u64);
        if is_stranger(transmit.destination) {
            self.strangers.1 += bytes.len() as u64;
        }
        self.show(now, &transmit, bytes);
        self.collect();
        Some(transmit)
    }
}
