//! Makes IP packets: no options, no extension headers, no fragments.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

use super::checksum::checksum;
use super::{HEADER4, HEADER6, UDP, UDP_HEADER};

/// Hops that a packet may make.
const HOPS: u8 = 64;

/// Makes an IPv4 packet that nobody may cut; `payload` is at most 65,515 bytes long.
pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER4 + payload.len());
    packet.extend_from_slice(&header4(source, destination, protocol, payload.len()));
    packet.extend_from_slice(payload);
    packet
}

/// Makes an IPv4 packet with a UDP datagram that has no checksum, as IPv4 allows; `payload` is at
/// most 65,507 bytes long.
pub fn udp4(source: SocketAddrV4, destination: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let length = UDP_HEADER + payload.len();
    let mut packet = Vec::with_capacity(HEADER4 + length);
    packet.extend_from_slice(&header4(*source.ip(), *destination.ip(), UDP, length));
    for field in [source.port(), destination.port(), length as u16, 0] {
        packet.extend_from_slice(&field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

/// Makes an IPv6 packet; `payload` is at most 65,535 bytes long.
pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER6 + payload.len());
    packet.extend_from_slice(&[0x60, 0, 0, 0]);
    packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[protocol, HOPS]);
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    packet.extend_from_slice(payload);
    packet
}

fn header4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: usize) -> [u8; HEADER4] {
    let mut header = [0; HEADER4];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((HEADER4 + payload) as u16).to_be_bytes());
    // No identification, and "don't fragment".
    header[6] = 0x40;
    (header[8], header[9]) = (HOPS, protocol);
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    let sum = checksum(&header, 0);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn what_is_made_is_read_and_has_a_right_checksum() {
        let (a, b) = (Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2));
        let packet = udp4(SocketAddrV4::new(a, 1), SocketAddrV4::new(b, 2), b"payload");
        assert_eq!((packet.len(), checksum(&packet[..20], 0)), (35, 0));
        let read = Packet::read(&packet).unwrap();
        assert!(!read.may_be_cut());
        assert_eq!(read.addresses(), (a.into(), b.into()));
        let transport = read.transport().unwrap();
        assert_eq!((transport.protocol, &transport.bytes[8..]), (UDP, &b"payload"[..]));
        assert_eq!(transport.bytes[..6], [0, 1, 0, 2, 0, 15]);
    }
}
