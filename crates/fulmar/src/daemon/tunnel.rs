//! The tunnel: which peer a packet goes to, and which packets of a peer are let in.
//!
//! Allowed addresses are both: a packet goes to the peer whose prefix matches its destination
//! best, and a peer's packet is let in when its source is the peer's own by the same rule.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use proto::Instant;
use sys::interfaces::Interface;
use sys::poller::{Interest, Poller};
use sys::tun::Tun;

use super::beyond::{Beyond, taken_twice};
use super::packet;
use super::strays::Strays;
use super::tokens::Token;
use super::upkeep::{Look, Upkeep};
use crate::awaited::Awaited;
use crate::config::{Peer, TunnelConfig};
use crate::status::TunnelReport;

/// Answers to packets that are too large never promise less than what every IPv4 host takes.
const LEAST_MTU: usize = 576;

/// The tunnel's device and its rules.
pub(super) struct Tunnel {
    /// Not there before the interface can be made, and after it was removed from outside.
    pub(super) device: Awaited<Tun>,
    pub(super) rules: Rules,
    /// What has passed, and what did not.
    pub(super) counts: TunnelReport,
    pub(super) strays: Strays,
    config: TunnelConfig,
    upkeep: Upkeep,
    /// What this computer does with packets for networks behind it.
    pub(super) beyond: Beyond,
    /// Why packets do not go to a network of the tunnel, or to one of this computer's.
    elsewhere: Option<String>,
}

/// The rules of a tunnel, apart from its device.
pub(super) struct Rules {
    allowed: Prefixes,
    mtu: u16,
    clamp: bool,
}

impl Tunnel {
    /// Creates the interface with its addresses and the routes to the peers, or does so later in
    /// [`Tunnel::restore`].
    pub(super) fn open(
        now: Instant,
        config: &TunnelConfig,
        peers: &[Peer],
        poller: &Poller,
    ) -> Self {
        let rules = Rules::new(config, peers);
        let interface = config.interface.clone();
        let device = Awaited::new(format!("tunnel {interface}"));
        let counts = TunnelReport { interface, ..TunnelReport::default() };
        let (strays, upkeep, config) = (Strays::default(), Upkeep::new(), config.clone());
        let (beyond, elsewhere) = Default::default();
        let mut tunnel = Self { device, rules, counts, strays, config, upkeep, beyond, elsewhere };
        tunnel.restore(now, poller);
        tunnel
    }

    /// Forgets the interface after it was removed from outside.
    pub(super) fn lose(&mut self, now: Instant, error: &io::Error) {
        self.device.lose(now, format!("the interface is gone: {error}"));
    }

    /// Makes the interface where it is not there, as far as that is due.
    pub(super) fn restore(&mut self, now: Instant, poller: &Poller) {
        let Self { device, rules, config, .. } = self;
        device.try_again(now, || {
            create(config, rules, poller).map_err(|error| {
                format!("{error}; it needs /dev/net/tun and CAP_NET_ADMIN, and a name that is free")
            })
        });
    }

    /// Says what is wrong with the interface.
    pub(super) fn trouble(&self) -> Option<&str> {
        let behind = self.elsewhere.as_deref().or(self.beyond.trouble());
        self.device.trouble().or(self.upkeep.trouble()).or(behind)
    }

    /// Notes that interfaces, addresses or routes of this host have changed.
    pub(super) fn on_change(&mut self) {
        self.upkeep.on_change();
    }

    /// Puts back what somebody took from the interface since the last look, where one is due.
    pub(super) fn keep_up(&mut self, now: Instant) {
        let Some(device) = self.device.get().filter(|_| self.upkeep.is_due(now)) else { return };
        let Ok(interfaces) = sys::interfaces::list() else { return };
        let seen = interfaces.iter().find(|seen: &&Interface| seen.index == device.index());
        let Some(seen) = seen else {
            let gone = io::Error::new(io::ErrorKind::NotFound, "it is not on this host any more");
            return self.lose(now, &gone);
        };
        let routes = self.rules.routes(&self.config);
        let look = Look::new(device, seen, &self.config, routes.iter());
        self.upkeep.on_look(now, &seen.name, &look);
        self.counts.put_back = self.upkeep.times();
        let elsewhere = taken_twice(routes.iter().chain(&self.config.addresses), seen, &interfaces);
        if let Some(told) = elsewhere.as_ref().filter(|_| self.elsewhere != elsewhere) {
            tracing::warn!("tunnel {}: {told}", seen.name);
        }
        self.elsewhere = elsewhere;
    }

    /// Takes other peers, or other addresses of them, and brings the routes up to date.
    pub(super) fn follow(&mut self, peers: &[Peer]) {
        let old = std::mem::replace(&mut self.rules, Rules::new(&self.config, peers));
        let Some(device) = self.device.get() else { return };
        let (before, after) = (old.routes(&self.config), self.rules.routes(&self.config));
        for net in before.iter().filter(|net| !after.contains(net)) {
            note(device.remove_route(net.network(), net.prefix_len()));
        }
        for net in after.iter().filter(|net| !before.contains(net)) {
            note(device.add_route(net.network(), net.prefix_len()).map(drop));
        }
    }

    /// Counts a packet for this host that it does not keep, and does not pass on either.
    pub(super) fn note_destination(&mut self, now: Instant, to: IpAddr) {
        if self.beyond.drops(now, to, &self.config.addresses) {
            self.counts.not_passed_on += 1;
        }
    }

    /// Queues a packet for this host; nothing without an interface.
    pub(super) fn send(&mut self, packet: &[u8]) {
        if let Some(device) = self.device.get_mut()
            && let Err(error) = device.send(packet)
        {
            tracing::debug!(%error, "write to the tunnel");
        }
    }

    /// Writes what is queued.
    pub(super) fn flush(&mut self) {
        if let Some(device) = self.device.get_mut()
            && let Err(error) = device.flush()
        {
            tracing::debug!(%error, "write to the tunnel");
        }
    }
}

fn create(config: &TunnelConfig, rules: &Rules, poller: &Poller) -> io::Result<Tun> {
    let addresses: Vec<(IpAddr, u8)> =
        config.addresses.iter().map(|net| (net.addr(), net.prefix_len())).collect();
    let device = Tun::create(&config.interface, config.mtu, &addresses)?;
    for net in rules.routes(config) {
        device.add_route(net.network(), net.prefix_len())?;
    }
    poller.add(&device, Token::Tunnel.encode(), Interest::Read)?;
    Ok(device)
}

impl Rules {
    /// Prepares a packet of this host, and returns the peer that it goes to.
    pub(super) fn outgoing(&self, packet: &mut [u8]) -> Option<usize> {
        let (_, destination) = packet::addresses(packet)?;
        let peer = self.owner(destination)?;
        if self.clamp {
            packet::clamp_segment_size(packet, self.mtu);
        }
        Some(peer)
    }

    /// Prepares a packet of a peer; returns where it goes, if it may come in.
    pub(super) fn incoming(&self, peer: usize, packet: &mut [u8]) -> Option<IpAddr> {
        let (source, destination) = packet::addresses(packet)?;
        if self.owner(source) != Some(peer) {
            return None;
        }
        if self.clamp {
            packet::clamp_segment_size(packet, self.mtu);
        }
        Some(destination)
    }

    /// Makes the answer to a packet of which the session takes only `limit` bytes.
    pub(super) fn too_big(&self, packet: &[u8], limit: usize) -> Option<Vec<u8>> {
        let fits = limit.clamp(LEAST_MTU, usize::from(self.mtu));
        packet::too_big(packet, fits as u16)
    }

    pub(super) fn new(config: &TunnelConfig, peers: &[Peer]) -> Self {
        let of_peer = |(at, peer): (usize, &Peer)| {
            peer.allowed.iter().map(move |&net| (net, at)).collect::<Vec<_>>()
        };
        let allowed = Prefixes::new(peers.iter().enumerate().flat_map(of_peer));
        Self { allowed, mtu: config.mtu, clamp: config.mss_clamp }
    }

    /// Returns the prefixes that need a route of their own.
    fn routes(&self, config: &TunnelConfig) -> BTreeSet<IpNet> {
        let covered = |net: &IpNet| config.addresses.iter().any(|own| own.contains(net));
        let nets = self.allowed.owners.keys().copied();
        // A default route is the operator's own decision: it would carry off the links too.
        nets.filter(|net| !covered(net) && net.prefix_len() > 0).collect()
    }

    fn owner(&self, address: IpAddr) -> Option<usize> {
        self.allowed.owner(address)
    }
}

/// Which peer each prefix belongs to. A look-up asks once for each length of prefix in use, the
/// longest first.
struct Prefixes {
    owners: BTreeMap<IpNet, usize>,
    /// Of IPv4 and of IPv6.
    lengths: [BTreeSet<u8>; 2],
}

impl Prefixes {
    fn new(nets: impl Iterator<Item = (IpNet, usize)>) -> Self {
        let mut prefixes = Self { owners: BTreeMap::new(), lengths: Default::default() };
        for (net, owner) in nets {
            let net = net.trunc();
            prefixes.owners.entry(net).or_insert(owner);
            prefixes.lengths[family(net.addr())].insert(net.prefix_len());
        }
        prefixes
    }

    fn owner(&self, address: IpAddr) -> Option<usize> {
        let mut lengths = self.lengths[family(address)].iter().rev();
        lengths.find_map(|length| {
            let net = IpNet::new(address, *length).ok()?;
            self.owners.get(&net.trunc()).copied()
        })
    }
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

fn note(done: io::Result<()>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the tunnel's routes");
    }
}

#[cfg(test)]
mod tests {
    use proto::PublicKey;

    use super::*;

    fn peer(allowed: &[&str]) -> Peer {
        Peer {
            name: String::new(),
            key: PublicKey([0; 32]),
            preshared_key: None,
            allowed: allowed.iter().map(|net| net.parse().unwrap()).collect(),
        }
    }

    /// An empty packet from one address to another.
    fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend_from_slice(&source);
        packet.extend_from_slice(&destination);
        packet
    }

    /// The definition: of all prefixes that hold the address, the one with the most bits.
    fn longest(owned: &[(IpNet, usize)], address: IpAddr) -> Option<usize> {
        let mut best: Option<&(IpNet, usize)> = None;
        for candidate in owned.iter().filter(|(net, _)| net.contains(&address)) {
            if best.is_none_or(|(net, _)| candidate.0.prefix_len() > net.prefix_len()) {
                best = Some(candidate);
            }
        }
        best.map(|&(_, peer)| peer)
    }

    fn eight(base: IpAddr) -> impl Iterator<Item = IpAddr> {
        (0..8).map(move |last| match base {
            IpAddr::V4(base) => IpAddr::V4((u32::from(base) + last).into()),
            IpAddr::V6(base) => IpAddr::V6((u128::from(base) + u128::from(last)).into()),
        })
    }

    /// All prefixes of eight addresses, from the addresses themselves to everything.
    fn prefixes(base: IpAddr) -> Vec<IpNet> {
        let bits = IpNet::from(base).prefix_len();
        let lengths = [0, 8].into_iter().chain(bits - 3..=bits);
        let net = |length, address| IpNet::new(address, length).unwrap().trunc();
        let nets = lengths.flat_map(|length| eight(base).map(move |at| net(length, at)));
        nets.collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn owner_of_an_address_has_the_longest_prefix() {
        let config =
            TunnelConfig { interface: "t".into(), addresses: vec![], mtu: 1_280, mss_clamp: false };
        // Outside the eight, outside everything, and of the other family.
        let others = ["10.77.0.16", "9.9.9.9", "fd00::", "::ffff:10.77.0.9"];
        for base in ["10.77.0.8", "fd00::8"].map(|base| base.parse::<IpAddr>().unwrap()) {
            let asked = eight(base).chain(others.map(|other| other.parse().unwrap()));
            let (asked, nets) = (asked.collect::<Vec<_>>(), prefixes(base));
            for choice in 0..nets.len().pow(3) {
                let [a, b, c] =
                    [0, 1, 2].map(|place| nets[choice / nets.len().pow(place) % nets.len()]);
                if a == c || b == c {
                    continue; // a prefix of two peers is refused when the file is read
                }
                let [first, second] =
                    [vec![a, b], vec![c]].map(|allowed| Peer { allowed, ..peer(&[]) });
                let rules = Rules::new(&config, &[first, second]);
                for &address in &asked {
                    let expected = longest(&[(a, 0), (b, 0), (c, 1)], address);
                    assert_eq!(rules.owner(address), expected, "{address} in {a}, {b} and {c}");
                }
            }
        }
    }

    #[test]
    fn best_prefix_wins_and_spoofed_sources_stay_out() {
        let config = TunnelConfig {
            interface: "fulmar0".into(),
            addresses: vec!["10.77.0.1/24".parse().unwrap()],
            mtu: 1_280,
            mss_clamp: true,
        };
        let peers = [peer(&["10.77.0.0/24"]), peer(&["10.77.0.9/32", "192.168.5.0/24"])];
        let rules = Rules::new(&config, &peers);
        let to = |last| rules.outgoing(&mut packet([10, 77, 0, 1], [10, 77, 0, last]));
        assert_eq!((to(2), to(9)), (Some(0), Some(1)));
        assert_eq!(rules.outgoing(&mut packet([10, 77, 0, 1], [10, 78, 0, 1])), None);
        assert_eq!(rules.outgoing(&mut [0x45, 0]), None);

        let from =
            |peer, source| rules.incoming(peer, &mut packet(source, [10, 77, 0, 1])).is_some();
        assert!(from(0, [10, 77, 0, 2]) && from(1, [10, 77, 0, 9]) && from(1, [192, 168, 5, 1]));
        assert!(!from(0, [10, 77, 0, 9]) && !from(1, [10, 77, 0, 2]) && !from(0, [8, 8, 8, 8]));
    }
}
