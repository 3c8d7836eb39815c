//! A host as the world sees it: the state machine, its clock, its timer and its interfaces.

use super::jitter::Lateness;
use crate::clock::{ClockModel, HostClock};
use crate::scenario::Interface;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use units::Instant;

/// What the world runs: a state machine that speaks UDP. `now` is always on the host's own clock.
pub trait Host {
    /// Takes a datagram that arrived on `interface` (the host's interfaces in the order of
    /// [`Scenario::interfaces`](crate::Scenario::interfaces)).
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
    /// The host's interface, in the order of
    /// [`Scenario::interfaces`](crate::Scenario::interfaces).
    pub interface: usize,
    /// The sending address and port; the address is the interface's own unless the host forges it.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
}

/// Describes a network address translation between an interface and its link, as at mobile
/// carriers.
///
/// What the interface sends from its own address appears to come from `address`, with ports moved
/// by `port_shift`; what comes for `address` reaches the interface with ports moved back. What
/// comes for the interface's own address reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The address that the other side sees.
    pub address: Ipv4Addr,
    /// What is added to ports on the way out, modulo 2¹⁶.
    pub port_shift: u16,
}

/// A host with what the world keeps about it.
pub(super) struct Slot<H> {
    pub(super) host: H,
    pub(super) clock: HostClock,
    pub(super) clock_model: ClockModel,
    pub(super) lateness: Lateness,
    pub(super) ends: Vec<End>,
    /// The wake-up that the host last asked for on its own clock, and when it is due in virtual
    /// time.
    pub(super) wake: Option<(Instant, Instant)>,
    /// True when the harness may have changed the host.
    pub(super) touched: bool,
}

/// One interface of a host with its present address.
pub(super) struct End {
    pub(super) interface: Interface,
    pub(super) nat: Option<Nat>,
}

impl<H: Host> Slot<H> {
    /// Asks the host when it wants to be woken.
    pub(super) fn ask_for_wake(&mut self, now: Instant) {
        self.touched = false;
        let Some(local) = self.host.timeout() else {
            self.wake = None;
            return;
        };
        // The same wish again is the same timer, with the lateness that it has already drawn.
        if self.wake.is_some_and(|(asked, _)| asked == local) {
            return;
        }
        let due = self.clock.reaches(local, now);
        self.wake = Some((local, (due + self.lateness.draw()).max(now)));
    }

    /// Returns the number of the host's interface on `link`.
    pub(super) fn end_on(&self, link: usize) -> Option<usize> {
        self.ends.iter().position(|end| end.interface.link == link)
    }
}

impl End {
    /// Returns the source address as the other side sees it.
    pub(super) fn outside(&self, source: SocketAddr) -> SocketAddr {
        match self.nat {
            Some(nat) if source.ip() == self.interface.address => {
                (nat.address, source.port().wrapping_add(nat.port_shift)).into()
            }
            _ => source,
        }
    }

    /// Returns the destination as the host sees it; `None` when it is not for this interface.
    pub(super) fn inside(&self, destination: SocketAddr) -> Option<SocketAddr> {
        let own = IpAddr::V4(self.interface.address);
        match self.nat {
            Some(nat) if destination.ip() == nat.address => {
                Some((own, destination.port().wrapping_sub(nat.port_shift)).into())
            }
            Some(_) => None,
            None if destination.ip() == own || self.is_for_all(destination.ip()) => {
                Some(destination)
            }
            None => None,
        }
    }

    fn is_for_all(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return address.is_multicast() };
        let [a, b, c, _] = self.interface.address.octets();
        address.is_broadcast() || address.is_multicast() || address.octets() == [a, b, c, 255]
    }
}
