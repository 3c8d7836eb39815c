//! What waits for a neighbour that does not answer holds nothing else up.
//!
//! The kernel keeps a datagram for seconds while it asks who has the address, and counts it against
//! the socket that it came from.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sys::netns::Namespace;
use sys::packet_ring::{PacketRing, PacketSender};
use sys::{interface_setup, sandbox};

use crate::attacker::{Heard, frame, hear};
use crate::rig::Rig;
use crate::stream::Stream;

/// How long each fault lasts: twice as long as the kernel asks for a neighbour.
const FAULT: Duration = Duration::from_secs(6);
/// What control may wait for meanwhile, on a machine that does much else; behind such a neighbour
/// it is three seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two datagrams of the attacker.
const PACE: Duration = Duration::from_millis(5);
/// Addresses of the network that nobody has.
const UNUSED: std::ops::Range<u8> = 100..250;
const DRONE: u8 = 1;
const STATION: u8 = 2;

/// Tells a thread to stop, also when the test panics: the scope would wait for it.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hears the drone's Initiations at the station's end of the first link, until it is told to stop.
fn overhear(host: &Namespace, ready: mpsc::Sender<()>, stop: &AtomicBool) -> Vec<Heard> {
    host.enter().unwrap();
    let mut ring = PacketRing::open(1_024, 1_500).unwrap();
    ready.send(()).unwrap();
    let mut initiations = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        while let Some(heard) = ring.with_next(|seen| {
            let is_first_link = seen.bytes.get(10) == Some(&0);
            hear(seen.bytes, seen.length, DRONE).filter(|_| is_first_link)
        }) {
            initiations.extend(heard.filter(|heard| heard.payload.first() == Some(&1)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    initiations
}

/// Says an Initiation again, from addresses that nobody has.
fn repeat(host: &Namespace, initiation: &Heard) {
    host.enter().unwrap();
    let (sender, interface) =
        (PacketSender::open().unwrap(), interface_setup::index("l0").unwrap());
    let end = Instant::now() + FAULT;
    for address in UNUSED.cycle() {
        if Instant::now() >= end {
            break;
        }
        let bytes = frame((address, 4_000), (STATION, initiation.to.1), &initiation.payload);
        let _ = sender.send(interface, &bytes);
        std::thread::sleep(PACE);
    }
}

#[test]
fn answers_to_addresses_that_nobody_has_hold_nothing_up() {
    let name = "neighbours::answers_to_addresses_that_nobody_has_hold_nothing_up";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let (ready, listening) = mpsc::channel();
    let (host, stopped) = (&rig.station, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = Stop(&stopped);
        let ears = scope.spawn(|| overhear(host, ready, &stopped));
        listening.recv().unwrap();
        let station = rig.start_station(Stream::STATION);
        let drone = rig.start_drone(&[0, 1], Stream::DRONE);
        drone.wait_for_paths(2);
        station.wait_for_paths(2);
        drop(stop);
        let initiation = ears.join().unwrap().pop().expect("an Initiation was heard");
        let stream = Stream::new(&rig);
        let attacker = &rig.drone;
        let attack = scope.spawn(move || repeat(attacker, &initiation));
        let worst = stream.run_while(|| !attack.is_finished());
        let status = station.status();
        let answered = status["strangers"]["cookies"].as_u64().unwrap();
        assert!(answered > 500, "the attack did not work: {status:#}");
        assert!(worst < PATIENCE, "control waited {worst:?}: {status:#}");
    });
}

#[test]
fn a_drone_that_left_one_network_is_reached_by_the_other() {
    let name = "neighbours::a_drone_that_left_one_network_is_reached_by_the_other";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0, 1], Stream::DRONE);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    // It neither hears nor answers there any more, and the station's kernel has to ask for it anew.
    let commands: [(&Namespace, &[&str]); 2] = [
        (&rig.drone, &["link", "set", "l0", "address", "02:00:00:00:00:77", "arp", "off"]),
        (&rig.station, &["neigh", "del", "192.168.0.1", "dev", "l0"]),
    ];
    for (host, arguments) in commands {
        let mut ip = Command::new("ip");
        host.place(ip.args(arguments));
        if !ip.status().is_ok_and(|status| status.success()) {
            return sandbox::skip(name, "ip cannot change a link and forget a neighbour");
        }
    }
    let worst = stream.run_for(FAULT);
    let status = station.status();
    assert!(worst < PATIENCE, "control waited {worst:?}: {status:#}");
}
