//! Looks into an IP packet of the tunnel for its UDP or TCP payload.
//!
//! Reads just enough to find ports and payload. What cannot be read (fragments after the first,
//! other protocols, nonsense) is simply not found: the packet is then plain bulk.

use ip::{Packet, TCP, UDP, UDP_HEADER};

/// Least bytes of a TCP header.
const TCP_HEADER: usize = 20;

/// The UDP or TCP part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) is_tcp: bool,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// A hash of addresses, ports and protocol, which tells flows apart; never zero.
    pub(super) flow: u32,
    pub(super) payload: &'a [u8],
}

/// Finds the UDP or TCP segment of an IPv4 or IPv6 packet.
pub(super) fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    let packet = Packet::read(packet)?;
    let transport = packet.transport().filter(|transport| transport.is_beginning)?;
    let ports = transport.bytes.get(..4)?;
    let header = match transport.protocol {
        UDP => UDP_HEADER,
        TCP => {
            Some(usize::from(transport.bytes.get(12)? >> 4) * 4).filter(|at| *at >= TCP_HEADER)?
        }
        _ => return None,
    };
    Some(Segment {
        is_tcp: transport.protocol == TCP,
        source_port: u16::from_be_bytes([ports[0], ports[1]]),
        destination_port: u16::from_be_bytes([ports[2], ports[3]]),
        flow: flow(packet.address_bytes(), ports, transport.protocol),
        payload: transport.bytes.get(header..)?,
    })
}

/// FNV-1a: flows need to be told apart, not protected from each other; zero means no flow.
fn flow(addresses: &[u8], ports: &[u8], protocol: u8) -> u32 {
    let bytes = addresses.iter().chain(ports).chain([&protocol]);
    let hash = bytes
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

    use proptest::prelude::*;

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// Builds an IPv4 packet with a UDP payload.
    pub(in super::super) fn udp4(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        ip::udp4(SocketAddrV4::new(A, ports.0), SocketAddrV4::new(B, ports.1), payload)
    }

    /// Builds an IPv4 packet with a TCP payload.
    pub(in super::super) fn tcp4(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        segment.extend_from_slice(payload);
        ip::ipv4(A, B, TCP, &segment)
    }

    #[test]
    fn ports_and_payload_are_found_in_both_versions() {
        let udp = udp4((1, 14_550), b"hello");
        let found = segment(&udp).expect("a segment");
        assert_eq!((found.is_tcp, found.source_port, found.destination_port), (false, 1, 14_550));
        assert_eq!(found.payload, b"hello");
        let tcp = tcp4((5_760, 2), b"hello");
        let found = segment(&tcp).expect("a segment");
        assert_eq!((found.is_tcp, found.source_port, found.payload), (true, 5_760, &b"hello"[..]));
        let with_options = [&[17, 1][..], &[0; 14], &udp[20..]].concat();
        let packet = ip::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 60, &with_options);
        assert_eq!(segment(&packet).expect("a segment").payload, b"hello");
    }

    #[test]
    fn later_fragments_and_what_is_not_as_long_as_it_says_are_not_read() {
        let packet = udp4((1, 2), b"hello");
        let mut fragment = packet.clone();
        fragment[7] = 1;
        assert_eq!(segment(&fragment), None);
        assert_eq!(segment(&[&packet[..], &[0; 20]].concat()), None);
        assert_eq!(segment(&packet[..packet.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn nonsense_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), version in 0_u8..8) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xf;
            }
            let _ = segment(&bytes);
        }
    }
}
