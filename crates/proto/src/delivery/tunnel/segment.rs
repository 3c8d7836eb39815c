//! What a packet of the tunnel is to TCP.

use core::hash::Hasher;

use ip::{Packet, TCP};
use siphasher::sip::SipHasher13;

/// Least bytes of a TCP header.
const HEADER: usize = 20;
/// Where the flags stand in it, and those that begin or end a connection.
const FLAGS_AT: usize = 13;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// Names a flow: a hash of its addresses and ports under a key that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow(u64);

/// A part of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It carries payload.
    Data,
    /// It begins or ends the connection: SYN, FIN, RST.
    Edge,
    /// It says what has arrived, and nothing else.
    Ack,
}

/// A TCP packet as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The part of the connection.
    pub(crate) part: Part,
    /// The connection, in one direction.
    pub(crate) flow: Flow,
    /// The sequence number of its first byte [RFC 9293 §3.1].
    pub(crate) sequence: u32,
}

impl Segment {
    /// Reads the beginning of an IP packet of TCP; none if it is something else. `key` is secret:
    /// whoever could foresee flows' names could make two that share one queue.
    pub(crate) fn read(packet: &[u8], key: (u64, u64)) -> Option<Self> {
        let packet = Packet::read(packet)?;
        let transport = packet.transport().filter(|transport| transport.is_beginning)?;
        let header = transport.bytes.get(..HEADER).filter(|_| transport.protocol == TCP)?;
        let payload_at = usize::from(header[12] >> 4) * 4;
        let part = match header[FLAGS_AT] {
            flags if flags & (SYN | FIN | RST) != 0 => Part::Edge,
            _ if transport.bytes.len() > payload_at => Part::Data,
            _ => Part::Ack,
        };
        let mut hasher = SipHasher13::new_with_keys(key.0, key.1);
        hasher.write(packet.address_bytes());
        hasher.write(&header[..4]);
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        Some(Self { part, flow: Flow(hasher.finish()), sequence })
    }
}

#[cfg(any(test, fuzzing, feature = "doors"))]
impl Flow {
    pub(super) fn test(number: u64) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn packet(ports: (u16, u16), flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        segment.extend_from_slice(payload);
        ip::ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), TCP, &segment)
    }

    fn read(packet: &[u8]) -> Segment {
        Segment::read(packet, (1, 2)).expect("TCP")
    }

    #[test]
    fn parts_of_a_connection_are_told_apart() {
        for (flags, payload, part) in [
            (0x10, &b""[..], Part::Ack),
            (0x18, b"data", Part::Data),
            (0x02, b"", Part::Edge),
            (0x12, b"", Part::Edge),
            (0x11, b"last", Part::Edge),
            (0x04, b"", Part::Edge),
        ] {
            assert_eq!(read(&packet((1, 2), flags, payload)).part, part, "{flags:#x}");
        }
    }

    #[test]
    fn a_flow_has_a_direction_and_its_name_a_key() {
        let there = packet((1, 2), 0x10, b"");
        assert_eq!(read(&there).flow, read(&packet((1, 2), 0x18, b"data")).flow);
        assert_ne!(read(&there).flow, read(&packet((2, 1), 0x10, b"")).flow);
        let other = Segment::read(&there, (1, 3)).expect("TCP");
        assert_ne!(read(&there).flow, other.flow);
    }

    #[test]
    fn what_is_not_the_beginning_of_tcp_is_left_alone() {
        let udp = ip::ipv4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, ip::UDP, &[0; 40]);
        assert_eq!(Segment::read(&udp, (1, 2)), None);
        let mut later = packet((1, 2), 0x10, b"data");
        later[7] = 1;
        assert_eq!(Segment::read(&later, (1, 2)), None);
        assert_eq!(Segment::read(&packet((1, 2), 0x10, b"")[..30], (1, 2)), None);
    }
}
