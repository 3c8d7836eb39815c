//! Links that carry little: what does not fit goes in pieces [specs/wire.md §7].

use std::net::Ipv4Addr;

use super::*;
use crate::event::PathState;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// UDP payload that links of 576, 1,000, 1,228 and 1,280 bytes carry.
const CARRIED: [usize; 4] = [548, 972, 1_200, 1_252];

/// Makes a packet of so many bytes.
fn packet(protocol: u8, number: u32, bytes: usize) -> Vec<u8> {
    let mut segment = [5_000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
    segment.extend_from_slice(&number.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.resize(bytes - 20, 7);
    ip::ipv4(Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), protocol, &segment)
}

/// Joins a drone and a station over two links that carry so much.
fn narrow(seed: u64, carried: usize) -> (Wire, SessionId) {
    let (mut wire, session) = Wire::pair(seed);
    for link in 0..2 {
        let address = wire.hosts[0].addresses[link];
        wire.longest.insert(address, carried);
    }
    wire.run_for(Duration::from_millis(500));
    (wire, session)
}

/// Hands packets in, some apart, and returns how many came out whole.
fn carry(wire: &mut Wire, session: SessionId, packets: &[Vec<u8>]) -> usize {
    for packet in packets {
        let sent = wire.hosts[0].endpoint.send(wire.now, session, Source::Tunnel, packet);
        assert!(sent.is_ok(), "{sent:?}");
        wire.run_for(Duration::from_millis(10));
    }
    wire.run_for(Duration::from_secs(1));
    packets.iter().filter(|packet| wire.hosts[1].delivered.contains(packet)).count()
}

#[test]
fn tcp_passes_links_that_carry_little_from_its_first_packet() {
    for carried in CARRIED {
        let (mut wire, session) = narrow(1, carried);
        let packets: Vec<_> = (0..50).map(|number| packet(TCP, number, 1_280)).collect();
        assert_eq!(carry(&mut wire, session, &packets), 50, "{carried} bytes");
    }
}

#[test]
fn packets_of_all_sizes_pass_links_that_carry_little() {
    for carried in CARRIED {
        let (mut wire, session) = narrow(2, carried);
        // What a link does not carry is found by losing some of it.
        let first: Vec<_> = (0..50).map(|number| packet(UDP, number, 1_280)).collect();
        carry(&mut wire, session, &first);
        wire.run_for(Duration::from_secs(3));
        let sizes = [40, 500, 600, 900, 1_000, 1_143, 1_200, 1_252, 1_280, 1_400];
        let packets: Vec<_> = sizes.into_iter().map(|bytes| packet(UDP, 0, bytes)).collect();
        assert_eq!(carry(&mut wire, session, &packets), sizes.len(), "{carried} bytes");
    }
}

#[test]
fn messages_and_control_pass_links_that_carry_little() {
    for carried in CARRIED {
        let (mut wire, session) = narrow(3, carried);
        let message = vec![7; 100_000];
        let stream = crate::MessageStream::default();
        let source = Source::Message { channel: 1, stream };
        let sent = wire.hosts[0].endpoint.send(wire.now, session, source, &message);
        assert!(sent.is_ok(), "{sent:?}");
        wire.run_for(Duration::from_secs(5));
        assert!(wire.hosts[1].delivered.pop() == Some(message), "{carried} bytes");
        let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
        let sent = wire.hosts[0].endpoint.send(wire.now, session, declared, &[9; 1_100]);
        assert!(sent.is_ok(), "{sent:?}");
        wire.run_for(Duration::from_millis(500));
        assert!(wire.hosts[1].delivered.pop() == Some(vec![9; 1_100]), "{carried} bytes");
    }
}

#[test]
fn what_a_path_carries_is_found_within_seconds() {
    for carried in CARRIED {
        let (mut wire, session) = narrow(4, carried);
        let packets: Vec<_> = (0..50).map(|number| packet(TCP, number, 1_280)).collect();
        carry(&mut wire, session, &packets);
        wire.run_for(Duration::from_secs(10));
        let status = wire.hosts[0].endpoint.status(wire.now, session).expect("a session");
        for path in status.paths {
            assert_eq!((path.state, path.mtu), (PathState::Active, carried));
        }
    }
}
