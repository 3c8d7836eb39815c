//! Finds addresses and transport in an IP packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{HEADER4, HEADER6};

/// Extension headers that are walked through; real packets carry one or two.
const EXTENSION_HEADERS: usize = 8;

// Protocol numbers of the extension headers that are walked through [RFC 8200 §4].
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// An IPv4 or IPv6 packet whose header is whole and names the packet's own length.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    is_v4: bool,
}

/// What follows the IP headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport<'a> {
    /// Number of its protocol.
    pub protocol: u8,
    /// Whether it begins here: false in every fragment but the first.
    pub is_beginning: bool,
    /// Where in the packet it stands.
    pub at: usize,
    /// From there to the packet's end.
    pub bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet that must be as long as its header says, to the byte.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        Self::read_padded(bytes).filter(|packet| packet.bytes.len() == bytes.len())
    }

    /// Reads a packet that may have padding behind it, as in an Ethernet frame.
    pub fn read_padded(bytes: &'a [u8]) -> Option<Self> {
        let is_v4 = match bytes.first()? >> 4 {
            4 => true,
            6 => false,
            _ => return None,
        };
        let (header, length) = if is_v4 {
            let header = bytes.get(..HEADER4)?;
            (usize::from(header[0] & 0xf) * 4, length_at(header, 2))
        } else {
            let header = bytes.get(..HEADER6)?;
            (HEADER6, HEADER6 + length_at(header, 4))
        };
        let whole = header >= HEADER4 && header <= length;
        whole.then_some(Self { bytes: bytes.get(..length)?, is_v4 })
    }

    /// Returns the bytes of the packet, without padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Says whether it is an IPv4 packet.
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Returns the source and the destination.
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        let (source, destination) = self.address_bytes().split_at(if self.is_v4 { 4 } else { 16 });
        (address(source), address(destination))
    }

    /// Returns the source and then the destination, as they stand in the packet.
    pub fn address_bytes(&self) -> &'a [u8] {
        if self.is_v4 { &self.bytes[12..20] } else { &self.bytes[8..40] }
    }

    /// Says whether routers may cut the packet into fragments.
    pub fn may_be_cut(&self) -> bool {
        self.is_v4 && self.bytes[6] & 0x40 == 0
    }

    /// Finds what follows the IP headers, extension headers included; none where they are cut short
    /// or too many.
    pub fn transport(&self) -> Option<Transport<'a>> {
        if !self.is_v4 {
            return self.transport6();
        }
        let at = usize::from(self.bytes[0] & 0xf) * 4;
        Some(Transport {
            protocol: self.bytes[9],
            is_beginning: (length_at(self.bytes, 6) & 0x1fff) == 0,
            at,
            bytes: &self.bytes[at..],
        })
    }

    fn transport6(&self) -> Option<Transport<'a>> {
        let (mut protocol, mut at) = (self.bytes[6], HEADER6);
        for _ in 0..=EXTENSION_HEADERS {
            let bytes = self.bytes.get(at..)?;
            let length = match protocol {
                // Their length is in units of 8 bytes, beyond the first.
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 + usize::from(*bytes.get(1)?) * 8,
                FRAGMENT if bytes.len() < 8 => return None,
                // Behind the header of a later fragment stands no further header.
                FRAGMENT if length_at(bytes, 2) >> 3 != 0 => {
                    let (protocol, at) = (bytes[0], at + 8);
                    return Some(Transport {
                        protocol,
                        is_beginning: false,
                        at,
                        bytes: &bytes[8..],
                    });
                }
                FRAGMENT => 8,
                _ => return Some(Transport { protocol, is_beginning: true, at, bytes }),
            };
            (protocol, at) = (bytes[0], at + length);
        }
        None
    }
}

/// Reads a number of two bytes, which are there.
fn length_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// Makes an address of four bytes, or of sixteen.
fn address(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(octets) => Ipv4Addr::from(octets).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap_or_default()).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{TCP, UDP, ipv4, ipv6};

    const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn packet6(first: u8, rest: &[u8]) -> Vec<u8> {
        ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, first, rest)
    }

    fn transport(packet: &[u8]) -> Option<Transport<'_>> {
        Packet::read(packet)?.transport()
    }

    #[test]
    fn addresses_and_transport_are_found_in_both_versions() {
        let packet = ipv4(A4, B4, UDP, b"hello");
        assert_eq!(Packet::read(&packet).unwrap().addresses(), (A4.into(), B4.into()));
        let expected = Transport { protocol: UDP, is_beginning: true, at: 20, bytes: b"hello" };
        assert_eq!(transport(&packet), Some(expected));

        let packet = packet6(TCP, b"hello");
        let (source, destination) = Packet::read(&packet).unwrap().addresses();
        assert_eq!(source, Ipv6Addr::LOCALHOST);
        assert_eq!(destination, Ipv6Addr::UNSPECIFIED);
        let expected = Transport { protocol: TCP, is_beginning: true, at: 40, bytes: b"hello" };
        assert_eq!(transport(&packet), Some(expected));
    }

    #[test]
    fn a_packet_is_as_long_as_it_says_and_padding_is_none_of_it() {
        for packet in [ipv4(A4, B4, UDP, b"hello"), packet6(UDP, b"hello")] {
            for cut in 0..packet.len() {
                assert!(Packet::read_padded(&packet[..cut]).is_none(), "{cut}");
            }
            let padded = [&packet[..], &[0; 6]].concat();
            assert!(Packet::read(&padded).is_none());
            assert_eq!(Packet::read_padded(&padded).unwrap().bytes(), packet);
        }
        let mut short_header = ipv4(A4, B4, UDP, b"hello");
        short_header[0] = 0x44;
        assert!(Packet::read(&short_header).is_none());
        short_header[0] = 0x4f;
        assert!(Packet::read(&short_header).is_none(), "options beyond the end");
    }

    #[test]
    fn extension_headers_are_walked_through() {
        let chain = [&[60, 0, 0, 0, 0, 0, 0, 0][..], &[43, 1], &[0; 14], &[44, 0], &[0; 6]];
        let chain = [&chain.concat()[..], &[UDP, 0, 0, 1, 0, 0, 0, 0], b"hello"].concat();
        let packet = packet6(HOP_BY_HOP, &chain);
        let found = transport(&packet).unwrap();
        assert_eq!((found.protocol, found.is_beginning, found.bytes), (UDP, true, &b"hello"[..]));
        assert_eq!(found.at, packet.len() - 5);
        for cut in 0..chain.len() - 5 {
            assert_eq!(transport(&packet6(HOP_BY_HOP, &chain[..cut])), None, "{cut}");
        }
        let many = |count: usize| [[0; 8].repeat(count - 1), vec![UDP; 8]].concat();
        let last = [UDP, 0, 0, 0, 0, 0, 0, 0];
        let most = [many(8)[..56].to_vec(), last.to_vec()].concat();
        assert!(transport(&packet6(HOP_BY_HOP, &most)).is_some());
        let endless = [&[0; 8][..], &most].concat();
        assert!(transport(&packet6(HOP_BY_HOP, &endless)).is_none());
    }

    #[test]
    fn later_fragments_are_told_as_such() {
        let mut packet = ipv4(A4, B4, UDP, b"hello");
        packet[7] = 1;
        assert!(!transport(&packet).unwrap().is_beginning);
        let packet = packet6(FRAGMENT, &[HOP_BY_HOP, 0, 0, 9, 0, 0, 0, 0, 1, 2, 3]);
        let found = transport(&packet).unwrap();
        let expected = (HOP_BY_HOP, false, &[1, 2, 3][..]);
        assert_eq!((found.protocol, found.is_beginning, found.bytes), expected);
    }

    proptest! {
        #[test]
        fn nonsense_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), v4: bool) {
            let mut bytes = bytes;
            if bytes.len() > 6 {
                let length = bytes.len() as u8;
                bytes[0] = if v4 { 0x40 | bytes[0] & 0xf } else { 0x60 };
                (bytes[2], bytes[4]) = (0, 0);
                bytes[if v4 { 3 } else { 5 }] = if v4 { length } else { length.wrapping_sub(40) };
            }
            if let Some(transport) = transport(&bytes) {
                prop_assert_eq!(transport.bytes, &bytes[transport.at..]);
            }
        }
    }
}
