//! Translators of addresses on the way whose entry for a flow is dead, while another flow would
//! work: those of a line that was connected anew, or that was not ready when the first packet came.
//! Each packet keeps such an entry.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use sys::sandbox;

use crate::rig::{Daemon, Rig};
use crate::stream::Stream;

/// Port at which the station's daemon listens behind the translator.
const BEHIND: u16 = 14_701;

/// What a flow lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Works,
    Dead,
    /// The drone's packets do not come out, the station's do.
    DeadFromDrone,
}

/// What has become of the flows so far, by the drone's address, and what becomes of new ones.
struct Fates {
    flows: BTreeMap<SocketAddr, Flow>,
    new: Flow,
}

/// A translator in front of the station's daemon, at one of its addresses, while it lives: each of
/// the drone's ports gets one.
struct Translator {
    fates: Arc<Mutex<Fates>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Translator {
    fn new(rig: &Rig, link: u8) -> Self {
        let fates = Arc::new(Mutex::new(Fates { flows: BTreeMap::new(), new: Flow::Works }));
        let stop = Arc::new(AtomicBool::new(false));
        let bind = |at: &str| {
            let socket = UdpSocket::bind(at).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let front = rig.station.run(|| bind(&format!("192.168.{link}.2:14700"))).unwrap();
        // As many as there may be flows; a socket belongs to the namespace in which it was made.
        let mut spare: Vec<_> =
            (0..16).map(|_| rig.station.run(|| bind("127.0.0.1:0")).unwrap()).collect();
        let (known, stopped) = (Arc::clone(&fates), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let station = SocketAddr::from(([127, 0, 0, 1], BEHIND));
            let mut outs: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
            let mut buffer = [0; 2_048];
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((length, drone)) = front.recv_from(&mut buffer) {
                    let mut fates = known.lock().unwrap();
                    let new = fates.new;
                    let flow = *fates.flows.entry(drone).or_insert(new);
                    let out = outs.entry(drone).or_insert_with(|| spare.pop().unwrap());
                    if flow == Flow::Works {
                        let _ = out.send_to(&buffer[..length], station);
                    }
                }
                for (drone, out) in &outs {
                    while let Ok(length) = out.recv(&mut buffer) {
                        if known.lock().unwrap().flows[drone] != Flow::Dead {
                            let _ = front.send_to(&buffer[..length], drone);
                        }
                    }
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        Self { fates, stop, thread: Some(thread) }
    }

    /// Decides what becomes of the flows that are there.
    fn turn(&self, flow: Flow) {
        self.fates.lock().unwrap().flows.values_mut().for_each(|one| *one = flow);
    }

    /// Decides what becomes of flows to come.
    fn turn_new(&self, flow: Flow) {
        self.fates.lock().unwrap().new = flow;
    }

    fn flows(&self) -> usize {
        self.fates.lock().unwrap().flows.len()
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A drone and a station with a translator on the first of their links; the station waits at all
/// others as well.
fn rig(links: u8) -> (Rig, Translator) {
    let mut rig = Rig::new(links);
    rig.station_port = BEHIND;
    let translator = Translator::new(&rig, 0);
    (rig, translator)
}

fn wait_until_active(drone: &Daemon, path: usize) {
    drone.wait_for_within(40, "the path works again", |status| {
        status["peers"][0]["paths"][path]["state"] == "active"
    });
}

fn wait_until_suspected(drone: &Daemon, path: usize) {
    drone.wait_for_within(20, "the path is silent", |status| {
        status["peers"][0]["paths"][path]["state"] == "suspected"
    });
}

#[test]
fn a_flow_that_is_dead_on_its_way_ends_no_link() {
    if !sandbox::inside("flows::a_flow_that_is_dead_on_its_way_ends_no_link") {
        return;
    }
    let (rig, translator) = rig(1);
    let station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0], Stream::DRONE);
    drone.wait_for_paths(1);
    for time in 1..=2 {
        translator.turn(Flow::Dead);
        wait_until_suspected(&drone, 0);
        wait_until_active(&drone, 0);
        assert!(translator.flows() <= 2 * (1 + time), "no more ports than it takes");
    }
    station.wait_for_paths(1);
    assert!(!drone.log().contains("session ended"), "{}", drone.log());
    assert!(drone.log().contains("sends from another port"), "{}", drone.log());
    Stream::new(&rig).run_for(Duration::from_secs(1));
}

#[test]
fn a_translator_that_was_not_ready_at_the_first_packet_keeps_no_session_away() {
    let name = "flows::a_translator_that_was_not_ready_at_the_first_packet_keeps_no_session_away";
    if !sandbox::inside(name) {
        return;
    }
    let (rig, translator) = rig(1);
    translator.turn_new(Flow::Dead);
    let _station = rig.start_station("");
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_log("no answer");
    translator.turn_new(Flow::Works);
    wait_until_active(&drone, 0);
    assert!(translator.flows() >= 2);
}

#[test]
fn what_is_heard_at_the_old_port_goes_on_while_others_are_tried() {
    let name = "flows::what_is_heard_at_the_old_port_goes_on_while_others_are_tried";
    if !sandbox::inside(name) {
        return;
    }
    let (rig, translator) = rig(1);
    let _station = rig.start_station("");
    let drone = rig.start_drone(&[0], "");
    drone.wait_for_paths(1);
    // No port's packets come out: what the station sends to the first one is all that there is.
    translator.turn(Flow::DeadFromDrone);
    translator.turn_new(Flow::DeadFromDrone);
    drone.wait_for_within(40, "another port is tried", |_| translator.flows() >= 2);
    let received =
        || drone.status()["peers"][0]["paths"][0]["received_datagrams"].as_u64().unwrap();
    drone.wait_for_within(40, "three ports have been tried", |_| translator.flows() >= 3);
    let before = received();
    drone.wait_for("the station is heard", |_| received() > before);
    translator.turn_new(Flow::Works);
    wait_until_active(&drone, 0);
}
