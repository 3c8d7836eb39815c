//! What keeps packets of the tunnel from networks behind this computer or the other one, in words:
//! a computer that passes nothing on drops them without a word, and a network of this computer with
//! the same addresses takes them for itself.

use std::net::IpAddr;

use ipnet::IpNet;
use proto::{Duration, Instant};
use sys::interfaces::{self, Interface};
use sys::routes;

use crate::ways::same_network;

/// How long it is told that packets were dropped.
const TOLD_FOR: Duration = Duration::from_secs(60);
/// Addresses of a network that are tried for one that is not this computer's own.
const TRIED: usize = 8;

/// What this computer does with packets that are not for itself.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// Its own addresses.
    own: Vec<IpAddr>,
    /// Whether it passes on what is not for itself, of IPv4 and of IPv6; taken for granted until it
    /// is known.
    drops: [bool; 2],
    dropped: Option<(Instant, IpAddr)>,
    trouble: Option<String>,
}

impl Beyond {
    /// Learns what this computer's addresses and settings are now.
    pub(super) fn follow(&mut self, now: Instant, tunnel: &str, interfaces: &[Interface]) {
        self.own = interfaces.iter().flat_map(|one| one.addresses.iter().copied()).collect();
        self.drops = ["ipv4", "ipv6"].map(|family| {
            let setting = format!("/proc/sys/net/{family}/conf/{tunnel}/forwarding");
            std::fs::read_to_string(setting).is_ok_and(|is| is.trim() == "0")
        });
        let is_over = |(at, to): &mut (Instant, IpAddr)| {
            now.since(*at) >= TOLD_FOR || !self.drops[usize::from(to.is_ipv6())]
        };
        self.dropped.take_if(is_over);
        let Some((_, to)) = self.dropped else {
            self.trouble = None;
            return;
        };
        let setting =
            if to.is_ipv6() { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" };
        let told = format!(
            "packets for {to} are dropped here: this computer passes nothing on to what is behind it ({setting} = 0)"
        );
        if self.trouble.is_none() {
            tracing::warn!("tunnel {tunnel}: {told}");
        }
        self.trouble = Some(told);
    }

    /// Takes note of a packet that came out of the tunnel; tells whether the kernel drops it.
    pub(super) fn drops(&mut self, now: Instant, to: IpAddr, tunnel: &[IpNet]) -> bool {
        let is_ours = |net: &IpNet| net.addr() == to || net.broadcast() == to;
        if !self.drops[usize::from(to.is_ipv6())]
            || tunnel.iter().any(is_ours)
            || self.own.contains(&to)
            || is_for_any(to)
        {
            return false;
        }
        self.dropped = Some((now, to));
        true
    }

    /// Says that packets were dropped of late, and what to do about it.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

/// Says which network of the tunnel, a peer's or its own, is one of this computer's as well: only
/// one of the two is reached.
pub(super) fn taken_twice<'n>(
    nets: impl Iterator<Item = &'n IpNet>,
    tunnel: &Interface,
    interfaces: &[Interface],
) -> Option<String> {
    let networks = interfaces::networks().unwrap_or_default();
    let is_own = |address: &IpAddr| interfaces.iter().any(|one| one.addresses.contains(address));
    nets.map(IpNet::trunc).find_map(|net| {
        let by = same_network(net, &networks, &tunnel.name);
        let tunnel_name = &tunnel.name;
        let address = net.hosts().take(TRIED).find(|address| !is_own(address))?;
        let index = routes::way(address, None, None).ok()??.interface?;
        if index != tunnel.index {
            let by = &interfaces.iter().find(|one| one.index == index)?.name;
            return Some(format!(
                "packets for {net} leave by {by} and not by {tunnel_name}: the network there has the same addresses as one of \
                 the tunnel (allowed_addresses; ip route get)"
            ));
        }
        by.map(|by| {
            format!(
                "packets for {net} go into {tunnel_name}, and nobody is reached on {by}, whose network has the same addresses \
                 as one of the tunnel (allowed_addresses)"
            )
        })
    })
}

/// Tells whether a packet is for whoever hears it.
fn is_for_any(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(to) => to.is_multicast() || to.is_broadcast() || to.is_loopback(),
        IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local() || to.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_this_computer_or_for_all_is_not_dropped() {
        let own: IpAddr = "192.168.144.11".parse().unwrap();
        let mut beyond = Beyond { own: vec![own], drops: [true, false], ..Beyond::default() };
        let tunnel: [IpNet; 1] = ["10.77.0.1/24".parse().unwrap()];
        let mut drops = |to: &str| beyond.drops(Instant::ZERO, to.parse().unwrap(), &tunnel);
        for to in ["10.77.0.1", "10.77.0.255", "192.168.144.11", "224.0.0.251", "255.255.255.255"] {
            assert!(!drops(to), "{to}");
        }
        assert!(!drops("fd00::1"), "IPv6 is passed on");
        assert!(drops("192.168.144.25") && drops("10.77.0.2"));
    }
}
