//! TCP of the tunnel over paths that do not carry the same.

use std::net::Ipv4Addr;

use super::*;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Makes a packet of so many bytes, of this flow.
fn packet(protocol: u8, flow: u16, number: u32, bytes: usize) -> Vec<u8> {
    let mut segment = [flow.to_be_bytes(), 80_u16.to_be_bytes()].concat();
    segment.extend_from_slice(&number.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.resize(bytes - 20, 7);
    ip::ipv4(Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), protocol, &segment)
}

#[test]
fn a_fast_path_that_carries_less_does_not_keep_a_slow_one_from_what_it_cannot_carry() {
    let (mut wire, session) = Wire::pair(1);
    let [fast, slow] = [0, 1].map(|link| wire.hosts[0].addresses[link]);
    wire.delays.insert(fast, Some(Duration::from_millis(10)));
    wire.delays.insert(slow, Some(Duration::from_millis(60)));
    wire.longest.insert(fast, 1_300);
    wire.run_for(Duration::from_secs(30));
    // The first is as long as what the fast one carries, but for the frame around it.
    for (protocol, bytes) in [(TCP, 1_250), (TCP, 1_400), (UDP, 1_250), (UDP, 1_400)] {
        let long = packet(protocol, 1_000, bytes as u32, bytes);
        let sent = wire.hosts[0].endpoint.send(wire.now, session, Source::Tunnel, &long);
        assert!(sent.is_ok(), "{sent:?}");
        wire.run_for(Duration::from_millis(100));
        assert_eq!(wire.hosts[1].delivered.pop(), Some(long), "{bytes} bytes of {protocol}");
    }
}
