//! The IP packets that applications' datagrams become at the tunnel.
//!
//! Written here because no kernel takes part in the world. IPv4 and UDP, no options, no fragments.

use std::net::{Ipv4Addr, SocketAddrV4};

use ip::{Packet, UDP, UDP_HEADER};

/// Wraps a payload into a UDP packet between two addresses of the tunnel.
///
/// The payload is at most 65,507 bytes long.
pub fn wrap(payload: &[u8], source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> Vec<u8> {
    let at = |address| SocketAddrV4::new(address, port);
    ip::udp4(at(source), at(destination), payload)
}

/// Returns the payload of a packet that [`wrap`] made; none for anything else.
pub fn unwrap(packet: &[u8]) -> Option<&[u8]> {
    let transport = Packet::read(packet)?.transport()?;
    let is_udp = transport.protocol == UDP && transport.is_beginning;
    is_udp.then(|| transport.bytes.get(UDP_HEADER..))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_unwrap_to_their_payload() {
        let (a, b) = (Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2));
        assert_eq!(unwrap(&wrap(b"payload", a, b, 5_600)), Some(&b"payload"[..]));
        assert_eq!(unwrap(b"no packet"), None);
    }
}
