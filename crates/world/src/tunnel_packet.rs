//! The IP packets that applications' datagrams become at the tunnel.
//!
//! Written here because no kernel takes part in the world. IPv4 and UDP, no options, no fragments.

use std::net::Ipv4Addr;

/// Bytes of the two headers.
const HEADERS: usize = 28;
/// Protocol number of UDP.
const UDP: u8 = 17;

/// Wraps a payload into a UDP packet between two addresses of the tunnel.
///
/// The payload is at most 65,507 bytes long.
pub fn wrap(payload: &[u8], source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> Vec<u8> {
    let total = (payload.len() + HEADERS) as u16;
    let mut packet = Vec::with_capacity(usize::from(total));
    packet.extend_from_slice(&[0x45, 0]);
    packet.extend_from_slice(&total.to_be_bytes());
    // No identification, "don't fragment", 64 hops, checksum still zero.
    packet.extend_from_slice(&[0, 0, 0x40, 0, 64, UDP, 0, 0]);
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    for field in [port, port, total - 20, 0] {
        packet.extend_from_slice(&field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

/// Returns the payload of a packet that [`wrap`] made; none for anything else.
pub fn unwrap(packet: &[u8]) -> Option<&[u8]> {
    let udp = packet.first() == Some(&0x45) && packet.get(9) == Some(&UDP);
    if udp { packet.get(HEADERS..) } else { None }
}

/// Returns the ones' complement sum of a header [RFC 791 §3.1].
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_unwrap_to_their_payload_and_carry_a_valid_checksum() {
        let (a, b) = (Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2));
        let packet = wrap(b"payload", a, b, 5_600);
        assert_eq!(packet.len(), 35);
        assert_eq!(unwrap(&packet), Some(&b"payload"[..]));
        assert_eq!(checksum(&packet[..20]), 0);
        assert_eq!(unwrap(b"no packet"), None);
    }
}
