//! Looks into an IP packet of the tunnel for its UDP or TCP payload.
//!
//! Reads just enough to find ports and payload. What cannot be read (fragments after the first,
//! other protocols, nonsense) is simply not found: the packet is then plain bulk.

/// IP protocol number of TCP.
const TCP: u8 = 6;
/// IP protocol number of UDP.
const UDP: u8 = 17;
/// Extension headers that are walked through; real packets carry one or two.
const EXTENSION_HEADERS: usize = 8;

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
    let (protocol, addresses, transport) = match packet.first()? >> 4 {
        4 => ipv4(packet)?,
        6 => ipv6(packet)?,
        _ => return None,
    };
    let ports = transport.get(..4)?;
    let header = match protocol {
        UDP => 8,
        TCP => usize::from(transport.get(12)? >> 4) * 4,
        _ => return None,
    };
    if protocol == TCP && header < 20 {
        return None;
    }
    Some(Segment {
        is_tcp: protocol == TCP,
        source_port: u16::from_be_bytes([ports[0], ports[1]]),
        destination_port: u16::from_be_bytes([ports[2], ports[3]]),
        flow: flow(addresses, ports, protocol),
        payload: transport.get(header..)?,
    })
}

type Parts<'a> = (u8, &'a [u8], &'a [u8]);

fn ipv4(packet: &[u8]) -> Option<Parts<'_>> {
    let header = usize::from(packet[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let fragment_offset = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
    if header < 20 || fragment_offset != 0 {
        return None;
    }
    Some((*packet.get(9)?, packet.get(12..20)?, packet.get(header..total)?))
}

fn ipv6(packet: &[u8]) -> Option<Parts<'_>> {
    let len = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
    let mut protocol = *packet.get(6)?;
    let mut rest = packet.get(40..40 + len)?;
    for _ in 0..EXTENSION_HEADERS {
        let length = match protocol {
            // Hop-by-hop options, routing, destination options: length in 8 bytes beyond the first.
            0 | 43 | 60 => 8 + usize::from(*rest.get(1)?) * 8,
            44 => {
                let offset = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]) >> 3;
                if offset != 0 {
                    return None;
                }
                8
            }
            _ => return Some((protocol, packet.get(8..40)?, rest)),
        };
        protocol = rest[0];
        rest = rest.get(length..)?;
    }
    None
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
    use proptest::prelude::*;

    use super::*;

    /// Builds an IPv4 packet with a UDP payload.
    pub(in super::super) fn udp4(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        segment.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        segment.extend_from_slice(&[0, 0]);
        segment.extend_from_slice(payload);
        ip4(UDP, &segment)
    }

    /// Builds an IPv4 packet with a TCP payload.
    pub(in super::super) fn tcp4(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        segment.extend_from_slice(payload);
        ip4(TCP, &segment)
    }

    fn ip4(protocol: u8, segment: &[u8]) -> Vec<u8> {
        let total = (20 + segment.len() as u16).to_be_bytes();
        let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend_from_slice(segment);
        packet
    }

    fn ip6(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(rest.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[first, 64]);
        packet.extend_from_slice(&[0xfd; 32]);
        packet.extend_from_slice(rest);
        packet
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
        let packet = ip6(60, &with_options);
        assert_eq!(segment(&packet).expect("a segment").payload, b"hello");
    }

    #[test]
    fn padding_behind_the_packet_is_not_payload() {
        let mut packet = udp4((1, 2), b"hello");
        packet.extend_from_slice(&[0; 20]);
        assert_eq!(segment(&packet).expect("a segment").payload, b"hello");
    }

    #[test]
    fn fragments_after_the_first_and_endless_headers_are_not_read() {
        let mut packet = udp4((1, 2), b"hello");
        packet[7] = 1;
        assert_eq!(segment(&packet), None);
        let endless: Vec<u8> = [0_u8; 8].repeat(12);
        assert_eq!(segment(&ip6(0, &endless)), None);
        assert_eq!(segment(&ip6(44, &[17, 0, 0, 9, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])), None);
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
