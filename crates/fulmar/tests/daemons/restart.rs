//! Either end is killed and comes back: how long control waits, from the moment the daemon is ready.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sys::netns::Namespace;
use sys::sandbox;

use crate::rig::{Daemon, Rig};
use crate::stream::Stream;

/// Kills of each end.
const KILLS: usize = 10;
/// What control may wait at worst: a timeout of three seconds, which was the rule once, is far beyond.
const PATIENCE: Duration = Duration::from_secs(1);

fn socket(host: &Namespace, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    socket
}

/// Kills a daemon, starts it again, and sends until something arrives; returns how long that took. The
/// drone goes on with its telemetry meanwhile, as vehicles do.
fn restart(
    daemon: &mut Option<Daemon>,
    start: impl Fn() -> Daemon,
    [sender, receiver, telemetry]: [&UdpSocket; 3],
    round: u64,
) -> Duration {
    drop(daemon.take());
    *daemon = Some(start());
    let began = Instant::now();
    let mut buffer = [0; 64];
    loop {
        sender.send(&round.to_le_bytes()).unwrap();
        telemetry.send(b"attitude").unwrap();
        if receiver.recv(&mut buffer).is_ok() && buffer[..8] == round.to_le_bytes() {
            return began.elapsed();
        }
        assert!(began.elapsed() < 10 * PATIENCE, "nothing came after a restart");
    }
}

#[test]
fn a_restart_of_either_end_costs_less_than_a_second() {
    let name = "restart::a_restart_of_either_end_costs_less_than_a_second";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let start_station = || rig.start_station(Stream::STATION);
    let start_drone = || rig.start_drone(&[0, 1], Stream::DRONE);
    let mut station = Some(start_station());
    let mut drone = Some(start_drone());
    drone.as_ref().unwrap().wait_for_paths(2);
    let receiver = socket(&rig.drone, "127.0.0.1:14901");
    let sender = socket(&rig.station, "127.0.0.1:0");
    sender.connect("127.0.0.1:14901").unwrap();
    let telemetry = socket(&rig.drone, "127.0.0.1:0");
    telemetry.connect("127.0.0.1:14902").unwrap();
    let mut round = 0;
    for end in ["station", "drone"] {
        let mut waits = Vec::new();
        for _ in 0..KILLS {
            round += 1;
            let sockets = [&sender, &receiver, &telemetry];
            waits.push(match end {
                "station" => restart(&mut station, start_station, sockets, round),
                _ => restart(&mut drone, start_drone, sockets, round),
            });
        }
        waits.sort();
        println!("{end} killed {KILLS} times, control waits: {waits:?}");
        assert!(waits[KILLS / 2] < PATIENCE, "{end}: {waits:?}");
    }
}
