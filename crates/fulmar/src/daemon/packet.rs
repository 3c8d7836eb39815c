//! The little that the daemon has to know about IP packets: their addresses, the segment size that
//! a TCP connection agrees on, and the answer to a packet that is too large for the links.

use std::net::IpAddr;

use ip::{HEADER4, HEADER6, ICMP, ICMP6, Packet, TCP, Transport, adjusted, checksum, sum};

/// TCP options: the end, padding, the segment size (kind 2, four bytes).
const OPTION_END: u8 = 0;
const OPTION_PADDING: u8 = 1;
const OPTION_SEGMENT: u8 = 2;
const SYN: u8 = 0x02;
/// Least bytes of a TCP header, and of an ICMP error before what it repeats.
const TCP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;
/// An ICMPv6 error must fit the least MTU of IPv6.
const LEAST_MTU6: usize = 1_280;
/// Types of ICMP: queries and their answers; and from which type on ICMPv6 has them.
const QUERIES: [u8; 6] = [0, 8, 13, 14, 17, 18];
const LEAST_QUERY6: u8 = 128;
/// Redirects, and what a router says of itself.
const REDIRECT: u8 = 5;
const REDIRECT6: u8 = 137;
const ROUTER6: u8 = 134;
/// What an ICMP error repeats of the packet that it is about: enough for every transport header.
const REPEATED4: usize = 128;

/// Returns source and destination; none for what is no IP packet of its own length.
pub(super) fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    Some(Packet::read(packet)?.addresses())
}

/// Lowers the segment size in a TCP packet that opens a connection, so that full segments fit into
/// packets of `mtu` bytes.
pub(super) fn clamp_segment_size(packet: &mut [u8], mtu: u16) {
    let Some((start, headers)) = tcp_start(packet) else { return };
    let most = mtu.saturating_sub(headers);
    let Some(tcp) = packet.get_mut(start..) else { return };
    if tcp.len() < TCP_HEADER || tcp[13] & SYN == 0 {
        return;
    }
    let end = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
    let mut at = TCP_HEADER;
    while at + 1 < end {
        match (tcp[at], tcp[at + 1]) {
            (OPTION_END, _) => return,
            (OPTION_PADDING, _) => at += 1,
            (OPTION_SEGMENT, 4) if at + 4 <= end => {
                let size = u16::from_be_bytes([tcp[at + 2], tcp[at + 3]]);
                if size > most {
                    let checksum = u16::from_be_bytes([tcp[16], tcp[17]]);
                    let mut checksum = adjusted(checksum, size, most);
                    if at % 2 == 1 {
                        // The size lies across two words of the sum: its bytes change places.
                        let swapped = u16::from_be_bytes([tcp[16], tcp[17]]);
                        checksum = adjusted(swapped, size.swap_bytes(), most.swap_bytes());
                    }
                    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
                    tcp[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                }
                return;
            }
            (_, length) if length >= 2 => at += usize::from(length),
            _ => return,
        }
    }
}

/// Makes the answer to a packet of which only `mtu` bytes would fit: "fragmentation needed" or
/// "packet too big". None for what must not be answered so.
pub(super) fn too_big(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let read = Packet::read(packet)?;
    // Errors are not answered with errors, and who allows fragments is not told.
    if is_error(&read.transport()?) || read.may_be_cut() {
        return None;
    }
    // From the address that the packet was for: an address of this host's own would be dropped by
    // it as a lie.
    match read.addresses() {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let repeated = &packet[..packet.len().min(REPEATED4)];
            let mut icmp = vec![3, 4, 0, 0, 0, 0];
            icmp.extend_from_slice(&mtu.to_be_bytes());
            icmp.extend_from_slice(repeated);
            let sum = checksum(&icmp, 0);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            Some(ip::ipv4(destination, source, ICMP, &icmp))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let repeated = &packet[..packet.len().min(LEAST_MTU6 - HEADER6 - ICMP_HEADER)];
            let mut icmp = vec![2, 0, 0, 0, 0, 0];
            icmp.extend_from_slice(&mtu.to_be_bytes());
            icmp.extend_from_slice(repeated);
            let partial = sum(read.address_bytes()) + icmp.len() as u32 + u32::from(ICMP6);
            let sum = checksum(&icmp, partial);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            Some(ip::ipv6(destination, source, ICMP6, &icmp))
        }
        _ => None,
    }
}

/// Tells whether a packet would change this host's routes, were it believed: another router for an
/// address, or a router that says it is one. A peer has no say in them.
pub(super) fn misleads(packet: &[u8]) -> bool {
    let Some(transport) = Packet::read(packet).and_then(|packet| packet.transport()) else {
        return false;
    };
    let kind = transport.bytes.first().filter(|_| transport.is_beginning);
    match transport.protocol {
        ICMP => kind == Some(&REDIRECT),
        ICMP6 => kind.is_some_and(|kind| [ROUTER6, REDIRECT6].contains(kind)),
        _ => false,
    }
}

/// Tells whether it is an error of ICMP, or may be one.
fn is_error(transport: &Transport<'_>) -> bool {
    let kind = transport.bytes.first().copied().filter(|_| transport.is_beginning);
    match transport.protocol {
        ICMP => kind.is_none_or(|kind| !QUERIES.contains(&kind)),
        ICMP6 => kind.is_none_or(|kind| kind < LEAST_QUERY6),
        _ => false,
    }
}

/// Returns where the TCP header of an unfragmented packet begins, and the size of the headers
/// without options and extensions.
fn tcp_start(packet: &[u8]) -> Option<(usize, u16)> {
    let packet = Packet::read(packet)?;
    let transport = packet.transport().filter(|transport| transport.is_beginning)?;
    let header = if packet.is_v4() { HEADER4 } else { HEADER6 };
    (transport.protocol == TCP).then_some((transport.at, (header + TCP_HEADER) as u16))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    /// A SYN whose options are `options`, with a right checksum.
    fn syn(options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 0, 0, 0, 0];
        tcp.push((((20 + options.len()) / 4) << 4) as u8);
        tcp.extend_from_slice(&[SYN, 0xFF, 0xFF, 0, 0, 0, 0]);
        tcp.extend_from_slice(options);
        let mut packet = ip::ipv4(A, B, TCP, &tcp);
        packet[6] = 0;
        let sum = tcp_checksum(&packet);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn tcp_checksum(packet: &[u8]) -> u16 {
        let length = packet.len() as u32 - 20;
        checksum(&packet[20..], sum(&packet[12..20]) + u32::from(TCP) + length)
    }

    #[test]
    fn segment_size_is_lowered_and_the_checksum_stays_right() {
        // Alone, after padding that puts it across words, behind other options.
        for options in [
            &[2, 4, 0x05, 0xB4][..],
            &[1, 2, 4, 0x05, 0xB4, 1, 1, 0],
            &[4, 2, 1, 1, 2, 4, 0x05, 0xB4],
        ] {
            let mut packet = syn(options);
            assert_eq!(tcp_checksum(&packet), 0);
            clamp_segment_size(&mut packet, 1_280);
            let at = packet.windows(2).rposition(|pair| pair == 1_240_u16.to_be_bytes());
            assert!(at.is_some(), "{options:?}");
            assert_eq!(tcp_checksum(&packet), 0, "{options:?}");
        }
    }

    /// An IPv6 packet whose `payload` stands behind a header of destination options.
    fn with_options(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let behind = [&[protocol, 0, 1, 4, 0, 0, 0, 0], payload].concat();
        ip::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 60, &behind)
    }

    #[test]
    fn extension_headers_hide_neither_connections_nor_errors_within() {
        let segment = &syn(&[2, 4, 0x05, 0xB4])[20..];
        let mut packet = with_options(TCP, segment);
        clamp_segment_size(&mut packet, 1_280);
        assert_eq!(packet[40 + 8 + 22..][..2], 1_220_u16.to_be_bytes());
        assert!(too_big(&packet, 1_280).is_some());
        assert_eq!(too_big(&with_options(ICMP6, &[1, 0, 0, 0]), 1_280), None);
    }

    #[test]
    fn smaller_sizes_other_packets_and_nonsense_stay_as_they_are() {
        let mut plain = syn(&[2, 4, 0x05, 0xB4]);
        plain[33] = 0x10;
        for packet in [
            syn(&[2, 4, 0x02, 0x18]),
            syn(&[2, 3, 0, 0]),
            syn(&[8, 0, 0, 0]),
            syn(&[0, 2, 4, 5]),
            plain,
            vec![],
            vec![0x45],
            vec![0x60; 40],
        ] {
            let mut clamped = packet.clone();
            clamp_segment_size(&mut clamped, 1_280);
            assert_eq!(clamped, packet);
        }
        let whole = syn(&[2, 4, 0x05, 0xB4]);
        for cut in 0..whole.len() {
            clamp_segment_size(&mut whole[..cut].to_vec(), 1_280);
            assert_eq!(addresses(&whole[..cut]), None);
            assert_eq!(too_big(&whole[..cut], 1_000), None);
        }
        assert_eq!(addresses(&whole), Some((A.into(), B.into())));
    }

    #[test]
    fn sender_of_a_large_packet_is_told_what_fits() {
        let mut packet = syn(&[]);
        assert_eq!(too_big(&packet, 1_100), None);
        packet[6] = 0x40;
        let answer = too_big(&packet, 1_100).unwrap();
        assert_eq!(addresses(&answer), Some((B.into(), A.into())));
        assert_eq!((answer[20], answer[21], checksum(&answer[20..], 0)), (3, 4, 0));
        assert_eq!(answer[26..28], 1_100_u16.to_be_bytes());
        assert_eq!(too_big(&answer, 1_100), None);

        let (here, there) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let packet = ip::ipv6(here, there, ip::UDP, &[0; 8]);
        let answer = too_big(&packet, 1_280).unwrap();
        let (source, destination) = addresses(&answer).unwrap();
        assert_eq!(source, Ipv6Addr::UNSPECIFIED);
        assert_eq!(destination, Ipv6Addr::LOCALHOST);
        let length = answer.len() as u32 - 40;
        assert_eq!(checksum(&answer[40..], sum(&answer[8..40]) + length + u32::from(ICMP6)), 0);
        assert_eq!(too_big(&answer, 1_280), None);
    }

    #[test]
    fn an_echo_request_that_is_too_large_is_answered_and_an_error_is_not() {
        for (kind, is_answered) in [(8, true), (0, true), (3, false), (5, false), (11, false)] {
            let mut packet = ip::ipv4(A, B, ICMP, &[kind; 1_200]);
            packet[6] = 0x40;
            assert_eq!(too_big(&packet, 1_000).is_some(), is_answered, "ICMP {kind}");
        }
        let (here, there) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        for (kind, is_answered) in [(128, true), (129, true), (1, false), (2, false)] {
            let packet = ip::ipv6(here, there, ICMP6, &[kind; 1_200]);
            assert_eq!(too_big(&packet, 1_280).is_some(), is_answered, "ICMPv6 {kind}");
        }
    }

    #[test]
    fn what_would_change_routes_is_known() {
        let (here, there) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        for kind in 0..=255 {
            assert_eq!(misleads(&ip::ipv4(A, B, ICMP, &[kind; 8])), kind == 5);
            let is_one = [134, 137].contains(&kind);
            assert_eq!(misleads(&ip::ipv6(here, there, ICMP6, &[kind; 8])), is_one);
            assert_eq!(misleads(&with_options(ICMP6, &[kind; 8])), is_one, "behind options");
            assert!(!misleads(&ip::ipv4(A, B, ip::UDP, &[kind; 8])));
        }
        assert!(!misleads(&[]));
    }

    #[test]
    fn nonsense_never_panics_and_never_grows() {
        let mut rng = units::Rng::new(11);
        let mut packet = [0; 120];
        for _ in 0..200_000 {
            let length = rng.below(packet.len() as u64 + 1) as usize;
            rng.fill(&mut packet[..length]);
            // Mostly headers that look right, so that what follows them is looked at.
            if length > 40 && rng.chance(0.9) {
                let version4 = rng.chance(0.5);
                packet[0] = if version4 { 0x40 | rng.below(16) as u8 } else { 0x60 };
                packet[9] = TCP;
                packet[6] = if version4 { 0x40 } else { TCP };
                packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                packet[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
            }
            let bytes = &mut packet[..length];
            addresses(bytes);
            misleads(bytes);
            let answer = too_big(bytes, 1_280);
            assert!(answer.is_none_or(|answer| answer.len() <= length + 48));
            clamp_segment_size(bytes, 1_280);
        }
    }
}
