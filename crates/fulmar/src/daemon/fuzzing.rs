//! The door for the fuzz target of the tunnel's packets.

use std::net::IpAddr;

use ipnet::IpNet;
use proto::PublicKey;

use super::packet;
use super::tunnel::Rules;
use crate::config::{Peer, TunnelConfig};

/// Looks at what a peer tells of itself.
pub fn told(text: &[u8]) {
    super::notes::look_at(text);
}

/// Lets a packet go out by the tunnel and come in by it, and has it answered as too big. The first
/// three bytes choose the tunnel's MTU and how much the links take.
pub fn tunnel_packet(input: &[u8]) {
    let Some((&[choice, high, low], packet)) = input.split_first_chunk::<3>() else { return };
    let peers = [
        peer(&["10.77.0.0/24", "fd00::/64"]),
        peer(&["10.77.0.9/32", "fd00::9/128", "192.168.0.0/16"]),
        peer(&["0.0.0.0/0"]),
    ];
    let mtu = [576, 1_280, 1_420, 9_000][usize::from(choice % 4)];
    let config =
        TunnelConfig { interface: "t".into(), addresses: Vec::new(), mtu, mss_clamp: choice < 128 };
    let rules = Rules::new(&config, &peers);

    let mut sent = packet.to_vec();
    let to = rules.outgoing(&mut sent);
    assert_eq!(to, packet::addresses(packet).and_then(|(_, to)| owner(&peers, to)));
    assert_alike(packet, &sent, mtu);
    let (was, is) = (sent.clone(), rules.outgoing(&mut sent));
    assert!(is == to && was == sent, "once is enough");

    let mut came = packet.to_vec();
    let from: Vec<_> =
        (0..peers.len()).filter(|&peer| rules.incoming(peer, &mut came).is_some()).collect();
    let source = packet::addresses(packet).and_then(|(source, _)| owner(&peers, source));
    assert_eq!(from, Vec::from_iter(source));
    assert_alike(packet, &came, mtu);

    let limit = usize::from(u16::from_be_bytes([high, low]));
    if let Some(answer) = rules.too_big(packet, limit) {
        let (source, destination) = packet::addresses(packet).expect("it was answered");
        assert_eq!(packet::addresses(&answer), Some((destination, source)));
        assert!(answer.len() <= 1_280 && rules.too_big(&answer, limit).is_none());
    }
}

fn peer(allowed: &[&str]) -> Peer {
    let allowed = allowed.iter().map(|net| net.parse().expect("a prefix")).collect();
    Peer { name: String::new(), key: PublicKey([0; 32]), preshared_key: None, allowed }
}

fn owner(peers: &[Peer], address: IpAddr) -> Option<usize> {
    let nets = peers
        .iter()
        .enumerate()
        .flat_map(|(at, peer)| peer.allowed.iter().map(move |net| (net, at)));
    let best =
        nets.filter(|(net, _)| net.contains(&address)).max_by_key(|(net, _)| net.prefix_len());
    best.map(|(_, at): (&IpNet, usize)| at)
}

/// Nothing but a segment size and a checksum changes, and the checksum stays as right or wrong as
/// it was.
fn assert_alike(before: &[u8], after: &[u8], mtu: u16) {
    assert_eq!(before.len(), after.len());
    let changed: Vec<_> = (0..before.len()).filter(|&at| before[at] != after[at]).collect();
    assert!(changed.len() <= 4 && changed.first().is_none_or(|&at| at >= 20 + 16), "{changed:?}");
    assert!(changed.is_empty() || before.len() >= 40 && mtu >= 576);
    assert_eq!(sum(before) % 0xffff, sum(after) % 0xffff, "the checksum covers what changed");
}

/// Adds up words, as every checksum of the internet does: headers begin at even places.
fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}
