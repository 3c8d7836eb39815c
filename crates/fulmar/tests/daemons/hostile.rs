//! A station under fire from somebody who can reach its port.

use std::net::UdpSocket;

use sys::sandbox;
use units::Rng;

use crate::rig::Rig;

/// Datagrams of the attack: a few seconds of what one Wi-Fi link could bring.
const ATTACK: usize = 100_000;

/// Takes what was answered; returns its bytes.
fn answers(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2_048];
    let mut bytes = 0;
    while let Ok(length) = socket.recv(&mut buffer) {
        bytes += length;
    }
    bytes
}

#[test]
fn garbage_is_answered_with_less_and_costs_neither_memory_nor_the_session() {
    let name = "hostile::garbage_is_answered_with_less_and_costs_neither_memory_nor_the_session";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let control = |kind: &str, port: u16| {
        format!(
            "[[control]]\nname = \"c\"\nchannel = 9\nkind = \"{kind}\"\n\
             address = \"127.0.0.1:{port}\"\n"
        )
    };
    let station = rig.start_station(&control("udp-client", 7_000));
    let drone = rig.start_drone(&[0], &control("udp-server", 7_001));
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let before = station.memory_kib();

    let attacker = rig.drone.run(|| UdpSocket::bind("192.168.0.1:0").unwrap()).unwrap();
    attacker.connect("192.168.0.2:14700").unwrap();
    attacker.set_nonblocking(true).unwrap();
    let mut rng = Rng::new(7);
    let (mut sent, mut answered) = (0, 0);
    let mut datagram = [0; 1_472];
    for number in 0..ATTACK {
        let length = rng.below(datagram.len() as u64 + 1) as usize;
        rng.fill(&mut datagram[..length]);
        // Every type that there is, and some that there are not.
        datagram[0] = rng.below(6) as u8;
        if attacker.send(&datagram[..length]).is_ok() {
            sent += length;
        }
        if number % 64 == 0 {
            answered += answers(&attacker);
        }
    }
    let status = station.wait_for("the attack is over", |status| {
        status["strangers"]["garbage"].as_u64() > Some(ATTACK as u64 / 10)
    });
    answered += answers(&attacker);
    assert!(answered < sent / 10, "{answered} bytes in answer to {sent}");
    let growth = station.memory_kib().saturating_sub(before);
    assert!(growth < 4_096, "{growth} kB more than {before} kB");
    assert_eq!(status["peers"][0]["connected"], true);

    // Control still passes.
    let far = rig.station.run(|| UdpSocket::bind("127.0.0.1:7000").unwrap()).unwrap();
    far.set_read_timeout(Some(units::Duration::from_secs(5).into())).unwrap();
    let near = rig.drone.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    near.send_to(b"still here", "127.0.0.1:7001").unwrap();
    let mut buffer = [0; 64];
    let length = far.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"still here");
}
