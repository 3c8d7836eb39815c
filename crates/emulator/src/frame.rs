//! What the emulator looks at in an Ethernet frame: whether the model applies to it.
//!
//! A frame comes from the packet ring and is classified here before the model sees its length.
//! Of the packet inside only what kind of talk it is: `proto` and the lab's workloads look further.

use ip::{ICMP6, Packet};
use netem::Protocol;

/// Bytes of an Ethernet header: two addresses and the type.
pub(crate) const ETHERNET_HEADER: usize = 14;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;

/// Says whether a frame carries a packet that the link's model is to decide about.
///
/// Address resolution (ARP, IPv6 neighbour discovery) and multicast listener reports are the
/// kernel's own noise: they pass at once, cost no random numbers, and so leave the verdicts on the
/// traffic under test as the seed has them.
pub(crate) fn is_modelled(frame: &[u8]) -> bool {
    let Some(kind) = frame.get(12..14) else { return false };
    match u16::from_be_bytes([kind[0], kind[1]]) {
        TYPE_IPV4 => true,
        TYPE_IPV6 => !is_neighbour_talk(&frame[ETHERNET_HEADER..]),
        _ => false,
    }
}

/// Returns the protocol of the packet inside, where a link may block it. Of fragments the first
/// alone shows it, and nothing is put together from the others.
pub(crate) fn protocol_of(frame: &[u8]) -> Option<Protocol> {
    let packet = Packet::read_padded(frame.get(ETHERNET_HEADER..)?)?;
    match packet.transport()?.protocol {
        ip::UDP => Some(Protocol::Udp),
        ip::TCP => Some(Protocol::Tcp),
        _ => None,
    }
}

fn is_neighbour_talk(packet: &[u8]) -> bool {
    // Listener reports hide behind an extension header (router alert).
    let transport = Packet::read_padded(packet).and_then(|packet| packet.transport());
    // 130–132 and 143: multicast listeners; 133–137: routers and neighbours.
    transport.is_some_and(|transport| {
        transport.protocol == ICMP6 && matches!(transport.bytes.first(), Some(130..=137 | 143))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with padding behind a packet of 50 bytes.
    fn frame(kind: u16, packet: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_HEADER + 60];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        (frame[ETHERNET_HEADER], frame[ETHERNET_HEADER + 5]) = (0x60, 10);
        for &(at, byte) in packet {
            frame[ETHERNET_HEADER + at] = byte;
        }
        frame
    }

    #[test]
    fn the_model_applies_to_traffic_and_not_to_address_resolution() {
        assert!(is_modelled(&frame(TYPE_IPV4, &[])));
        assert!(is_modelled(&frame(TYPE_IPV6, &[(6, 17)])), "UDP");
        assert!(is_modelled(&frame(TYPE_IPV6, &[(6, 58), (40, 128)])), "echo request");
        assert!(!is_modelled(&frame(0x0806, &[])), "ARP");
        assert!(!is_modelled(&frame(TYPE_IPV6, &[(6, 58), (40, 135)])), "neighbour solicitation");
        assert!(!is_modelled(&frame(TYPE_IPV6, &[(6, 0), (40, 58), (48, 143)])), "listener report");
        assert!(!is_modelled(&[0; 13]), "too short");
    }

    #[test]
    fn a_frame_shows_what_a_filter_looks_at() {
        assert_eq!(protocol_of(&frame(TYPE_IPV6, &[(6, 17)])), Some(Protocol::Udp));
        assert_eq!(protocol_of(&frame(TYPE_IPV6, &[(6, 6)])), Some(Protocol::Tcp));
        assert_eq!(protocol_of(&frame(TYPE_IPV6, &[(6, 58)])), None);
        assert_eq!(protocol_of(&[0; 13]), None);
        assert!(is_modelled(&frame(TYPE_IPV6, &[])[..14]), "an empty IPv6 packet is traffic");
    }
}
