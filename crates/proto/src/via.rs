//! How the other end is reached.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Where datagrams for the other end go, and where its own come from.
///
/// Sessions compare and show these, the cookie binds to them, and only drivers look inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// UDP straight to an address.
    Udp(SocketAddr),
    /// A connection of TCP, by the address of its other end: its paths differ as specs/paths.md §10
    /// says.
    Stream(SocketAddr),
    /// A relayed link, by its gateway here: its paths differ as specs/paths.md §9 says.
    Relay(RelayId),
}

/// Names a gateway beside the endpoint; the driver chooses the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub u16);

impl Via {
    /// Tells whether both are the same place on the wire: a socket of both families maps IPv4 into
    /// IPv6.
    pub(crate) fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Udp(one), Self::Udp(other)) | (Self::Stream(one), Self::Stream(other)) => {
                one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port()
            }
            (one, other) => one == other,
        }
    }

    /// Tells whether datagrams go there over IPv6.
    pub(crate) fn is_ipv6(self) -> bool {
        match self {
            Self::Udp(address) | Self::Stream(address) => address.ip().to_canonical().is_ipv6(),
            Self::Relay(_) => false,
        }
    }

    /// Tells whether it is a relayed link.
    pub(crate) fn is_relayed(self) -> bool {
        matches!(self, Self::Relay(_))
    }

    /// Tells whether it is a connection, which keeps order and loses nothing while it lasts.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Returns what a cookie is bound to: the same for the same place on the wire. A connection and
    /// datagrams from one address prove the same.
    pub(crate) fn binding(self) -> [u8; 18] {
        let (ip, port) = match self {
            Self::Udp(address) | Self::Stream(address) => {
                let ip = match address.ip().to_canonical() {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                (ip, address.port())
            }
            // No host sends from there.
            Self::Relay(RelayId(number)) => ([0xff; 16], number),
        };
        let mut binding = [0; 18];
        binding[..16].copy_from_slice(&ip);
        binding[16..].copy_from_slice(&port.to_le_bytes());
        binding
    }

    /// Returns the way to another address of the same host; none where an address of this kind does
    /// not lead there, is of another family, or of nobody.
    pub(crate) fn readdressed(self, address: SocketAddr) -> Option<Self> {
        let (Self::Udp(now), ip) = (self, address.ip()) else { return None };
        let leads_somewhere = !ip.is_unspecified() && !ip.is_multicast() && address.port() != 0;
        (leads_somewhere && ip.is_ipv4() == now.is_ipv4()).then_some(Self::Udp(address))
    }
}

impl From<SocketAddr> for Via {
    fn from(address: SocketAddr) -> Self {
        Self::Udp(address)
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) | Self::Stream(address) => address.fmt(f),
            Self::Relay(RelayId(number)) => write!(f, "relay {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(text: &str) -> Via {
        Via::Udp(text.parse().unwrap())
    }

    #[test]
    fn a_mapped_address_is_the_same_place() {
        let (plain, mapped) = (via("192.0.2.1:9"), via("[::ffff:192.0.2.1]:9"));
        assert!(plain.is_same(mapped) && plain.binding() == mapped.binding() && plain != mapped);
        let relay = Via::Relay(RelayId(9));
        assert!(relay.is_same(relay));
        for other in [via("192.0.2.1:10"), via("192.0.2.2:9"), via("[::1]:9"), relay] {
            assert!(!plain.is_same(other) && plain.binding() != other.binding());
        }
        assert_eq!(plain.to_string(), "192.0.2.1:9");
    }

    #[test]
    fn a_connection_is_another_place_than_datagrams_of_the_same_address() {
        let (plain, stream) = (via("192.0.2.1:9"), Via::Stream("192.0.2.1:9".parse().unwrap()));
        assert!(stream.is_same(Via::Stream("[::ffff:192.0.2.1]:9".parse().unwrap())));
        assert!(!stream.is_same(plain) && stream.is_stream() && !plain.is_stream());
        assert_eq!(stream.binding(), plain.binding(), "both prove the address");
        assert_eq!(stream.readdressed("192.0.2.7:9".parse().unwrap()), None);
    }

    #[test]
    fn a_way_is_readdressed_within_its_family_alone_and_to_somebody() {
        let way = via("192.0.2.1:9");
        let to = |text: &str| way.readdressed(text.parse().unwrap());
        assert_eq!(to("192.0.2.7:10"), Some(via("192.0.2.7:10")));
        for nobody in ["[::1]:9", "0.0.0.0:9", "224.0.0.1:9", "192.0.2.7:0"] {
            assert_eq!(to(nobody), None);
        }
    }
}
