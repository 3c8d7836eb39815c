//! What the emulator looks at in an Ethernet frame: whether the model applies to it.
//!
//! A frame comes from the packet ring and is classified here before the model sees its length.
//! Nothing here parses traffic: `proto` and the lab's workloads look into packets.

/// Bytes of an Ethernet header: two addresses and the type.
pub(crate) const ETHERNET_HEADER: usize = 14;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const IPV6_HEADER: usize = 40;
const NEXT_HOP_BY_HOP: u8 = 0;
const NEXT_ICMPV6: u8 = 58;

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

fn is_neighbour_talk(packet: &[u8]) -> bool {
    // Listener reports hide behind a hop-by-hop header of eight bytes (router alert).
    let icmp = match (packet.get(6).copied(), packet.get(IPV6_HEADER).copied()) {
        (Some(NEXT_ICMPV6), _) => packet.get(IPV6_HEADER),
        (Some(NEXT_HOP_BY_HOP), Some(NEXT_ICMPV6)) => packet.get(IPV6_HEADER + 8),
        _ => None,
    };
    // 130–132 and 143: multicast listeners; 133–137: routers and neighbours.
    matches!(icmp, Some(130..=137 | 143))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, packet: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_HEADER + 60];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
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
        assert!(is_modelled(&frame(TYPE_IPV6, &[])[..14]), "an empty IPv6 packet is traffic");
    }
}
