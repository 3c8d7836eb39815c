//! One socket for both families: paths whose station has a name do not know which it will be.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use fulmar_sys::udp::{Outgoing, ReceiveBuffers, UdpOptions, UdpSocket};

fn bind(local: &str, both_families: bool) -> Option<UdpSocket> {
    let options = UdpOptions {
        local: local.parse().unwrap(),
        both_families,
        interface: Some("lo".into()),
        send_buffer: 65_536,
        receive_buffer: 1 << 20,
        segmentation: true,
        shared: false,
    };
    UdpSocket::bind(&options).ok()
}

#[test]
fn a_socket_of_both_families_sends_marked_batches_and_hears_answers_in_each() {
    let (Some(mut both), Some(six)) = (bind("[::]:0", true), bind("[::1]:0", false)) else {
        fulmar_sys::sandbox::skip("both_families", "no IPv6 on the loopback");
        return;
    };
    let port = both.local_address().unwrap().port();
    let four = bind("127.0.0.1:0", false).unwrap();
    for (mut far, own) in [(four, "127.0.0.1"), (six, "::1")] {
        let bytes = [7; 2_500];
        let outgoing = Outgoing {
            destination: far.local_address().unwrap(),
            local: Some(own.parse().unwrap()),
            interface: None,
            dscp: 46,
            ecn: 2,
            bytes: &bytes,
            segment: 1_000,
        };
        assert_eq!(both.send(&outgoing).unwrap(), 2_500);
        let received = receive(&far, 3);
        let source = std::net::SocketAddr::new(own.parse().unwrap(), port);
        assert!(received.iter().all(|(from, ..)| *from == source), "{received:?}");
        assert!(received.iter().all(|(_, ecn, _)| *ecn == 2), "{received:?}");
        let answer = Outgoing { destination: source, bytes: b"answer", segment: 6, ..outgoing };
        far.send(&answer).unwrap();
        let received = receive(&both, 1);
        assert_eq!(
            received[0].0,
            far.local_address().unwrap(),
            "its own address, not a mapped one"
        );
        assert_eq!((received[0].1, received[0].2), (2, 6));
    }
}

/// Returns sender, ECN bits and length of each datagram.
fn receive(socket: &UdpSocket, count: usize) -> Vec<(std::net::SocketAddr, u8, usize)> {
    let mut buffers = ReceiveBuffers::default();
    let mut received = Vec::new();
    for _ in 0..1_000 {
        if socket.receive(&mut buffers).unwrap() {
            buffers.for_each(|from, bytes| received.push((from.source, from.ecn, bytes.len())));
        }
        if received.len() >= count {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    received
}
