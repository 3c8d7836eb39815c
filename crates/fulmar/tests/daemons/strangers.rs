//! A flood of handshakes that are nobody's, from many addresses, at a station with few peers or
//! with all that there may be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::{PublicKey, StaticSecret};
use sys::netns::Namespace;
use sys::packet_ring::PacketSender;
use sys::{interface_setup, sandbox};
use units::Rng;

use crate::attacker::frame;
use crate::middle::{public_key, sign};
use crate::rig::Rig;
use crate::stream::{Stream, percentile};

/// Peers that a station may have, the drone among them.
const PEERS: usize = 1_024;
/// What a stranger may cost, in multiples of what it takes to make a public key: it is a
/// Diffie–Hellman, 1.7. Trying the codes of all peers costs eight times as much.
const COST: f64 = 4.0;
/// Of the attacker: addresses of the network, and the time between two datagrams.
const ADDRESSES: std::ops::Range<u8> = 100..200;
const PACE: Duration = Duration::from_micros(500);
/// An Initiation, and where its first code ends.
const INITIATION: usize = 157;
const CODE_END: usize = 125;
const STATION: u8 = 2;
/// How long control passes under the flood.
const WHILE: Duration = Duration::from_secs(3);

/// Sends handshakes with the code that the station's public key makes, from many addresses.
fn flood(host: &Namespace, station: &PublicKey, stop: &AtomicBool) {
    host.enter().unwrap();
    let (sender, interface) =
        (PacketSender::open().unwrap(), interface_setup::index("l0").unwrap());
    let (mut rng, mut bytes, began) = (Rng::new(9), [0; INITIATION], Instant::now());
    for (number, address) in (1..).zip(ADDRESSES.cycle()) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        rng.fill(&mut bytes);
        bytes[0] = 1;
        sign(&mut bytes[..CODE_END], "fulmar mac1", station);
        let _ = sender.send(interface, &frame((address, 4_000), (STATION, 14_700), &bytes));
        std::thread::sleep((PACE * number).saturating_sub(began.elapsed()));
    }
}

/// Ends the flood when the test ends, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Peers that nobody is.
fn others(count: usize) -> String {
    let mut rng = Rng::new(5);
    let peer = |number| {
        let mut key = [0; 32];
        rng.fill(&mut key);
        let key = PublicKey(key);
        format!("[[peer]]\nname = \"other {number}\"\npublic_key = \"{key}\"\n")
    };
    (0..count).map(peer).collect()
}

/// Connects a drone while a station with so many peers is flooded, and measures control with and
/// without; returns what a stranger has cost.
fn connect_under_a_flood(peers: usize) -> f64 {
    let rig = Rig::new(1);
    let key = public_key(&rig, "station");
    let endpoints = Stream::STATION.replace("[[control]]", "[[control]]\npeer = \"drone\"");
    let station = rig.start_station(&format!("{}{endpoints}", others(peers - 1)));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&stop);
        scope.spawn(|| flood(&rig.drone, &key, &stop));
        station.wait_for("the flood is there", |status| {
            status["strangers"]["garbage"].as_u64() > Some(1_000)
        });
        let began = Instant::now();
        let drone = rig.start_drone(&[0], Stream::DRONE);
        drone.wait_for_paths(1);
        station.wait_for_paths(1);
        eprintln!("{peers} peers: connected after {:?}", began.elapsed());
        let stream = Stream::new(&rig);
        // Every message arrives, or the stream ends the test.
        let flooded = measure(&stream);
        let strangers = station.status()["strangers"].clone();
        stop.store(true, Ordering::Relaxed);
        let calm = measure(&stream);
        for percent in [50, 90, 99] {
            let [calm, flooded] = [&calm, &flooded].map(|delays| percentile(delays, percent));
            eprintln!("{percent} % of control: {calm:?} without the flood, {flooded:?} with it");
        }
        let part = |name: &str| strangers[name].as_f64().unwrap();
        part("processor_s") / part("garbage")
    })
}

fn measure(stream: &Stream) -> Vec<Duration> {
    let began = Instant::now();
    stream.delays_while(|| began.elapsed() < WHILE)
}

#[test]
fn a_drone_connects_and_control_passes_under_a_flood_of_strangers() {
    let name = "strangers::a_drone_connects_and_control_passes_under_a_flood_of_strangers";
    if sandbox::inside(name) {
        connect_under_a_flood(1);
    }
}

#[test]
fn a_drone_connects_under_a_flood_at_a_station_with_all_the_peers_that_there_may_be() {
    let name = "strangers::a_drone_connects_under_a_flood_at_a_station_with_all_the_peers_that_there_may_be";
    if sandbox::inside(name) {
        let cost = connect_under_a_flood(PEERS);
        let (secret, count) = (StaticSecret::generate([7; 32]), 10_000);
        let began = Instant::now();
        (0..count)
            .for_each(|_| assert_ne!(std::hint::black_box(&secret).public(), PublicKey([0; 32])));
        let known = began.elapsed().as_secs_f64() / f64::from(count);
        eprintln!("a stranger costs {:.0} µs, a public key {:.0}", cost * 1e6, known * 1e6);
        assert!(cost < COST * known);
    }
}
