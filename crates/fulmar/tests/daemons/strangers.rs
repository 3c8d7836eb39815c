//! A flood of handshakes that are nobody's, from many addresses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::PublicKey;
use sys::netns::Namespace;
use sys::packet_ring::PacketSender;
use sys::{link, sandbox};
use units::Rng;

use crate::attacker::frame;
use crate::middle::{public_key, sign};
use crate::rig::Rig;
use crate::stream::Stream;

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
    let (sender, interface) = (PacketSender::open().unwrap(), link::index("l0").unwrap());
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

#[test]
fn a_drone_connects_and_control_passes_under_a_flood_of_strangers() {
    let name = "strangers::a_drone_connects_and_control_passes_under_a_flood_of_strangers";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let key = public_key(&rig, "station");
    let station = rig.start_station(Stream::STATION);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&stop);
        scope.spawn(|| flood(&rig.drone, &key, &stop));
        station.wait_for("the flood is there", |status| {
            status["strangers"]["garbage"].as_u64() > Some(1_000)
        });
        let drone = rig.start_drone(&[0], Stream::DRONE);
        drone.wait_for_paths(1);
        station.wait_for_paths(1);
        // Every message arrives, or the stream ends the test.
        Stream::new(&rig).run_for(WHILE);
    });
}
