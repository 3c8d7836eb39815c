//! Somebody who holds one of two links, knows both public keys, and alters, invents and repeats
//! what goes by it.

use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use blake2::digest::consts::U16;
use blake2::digest::{Digest, KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac};
use proto::PublicKey;
use sys::sandbox;

use crate::rig::Rig;
use crate::stream::Stream;

/// Port at which the station's daemon listens behind the forwarders.
const BEHIND: u16 = 14_701;
/// What is genuine comes so much later by the other link.
const DETOUR: Duration = Duration::from_millis(20);
/// After three seconds of silence the drone asks for new keys.
const STANDSTILL: Duration = Duration::from_secs(4);
/// Copies of each Initiation.
const COPIES: usize = 100;
const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE: u8 = 3;
const REFUSAL: u8 = 5;

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq)]
enum Towards {
    Drone,
    Station,
}

/// What becomes of a datagram: what is sent in its place, in this order.
type Fate = Box<dyn FnMut(Towards, &[u8]) -> Vec<(Towards, Vec<u8>)> + Send>;

/// Stands in one link, in front of the station's daemon, while it lives.
struct Middle {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Middle {
    fn new(rig: &Rig, link: u8, delay: Duration, mut fate: Fate) -> Self {
        let bind = |at: String| {
            let socket = rig.station.run(|| UdpSocket::bind(at).unwrap()).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let (front, back) = (bind(format!("192.168.{link}.2:14700")), bind("127.0.0.1:0".into()));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut drone, mut waiting) = (None, VecDeque::new());
            let mut buffer = [0; 2_048];
            while !stopped.load(Ordering::Relaxed) {
                let (mut seen, due) = (Vec::new(), Instant::now() + delay);
                while let Ok((length, source)) = front.recv_from(&mut buffer) {
                    // By an empty one the drone asks whether anybody is there, from a socket of its
                    // own.
                    if length == 0 {
                        continue;
                    }
                    drone = Some(source);
                    seen.extend(fate(Towards::Station, &buffer[..length]));
                }
                while let Ok(length) = back.recv(&mut buffer) {
                    seen.extend(fate(Towards::Drone, &buffer[..length]));
                }
                waiting.extend(seen.into_iter().map(|one| (due, one)));
                while waiting.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                    let Some((_, (towards, bytes))) = waiting.pop_front() else { break };
                    let station = SocketAddr::from(([127, 0, 0, 1], BEHIND));
                    let _ = match (towards, drone) {
                        (Towards::Station, _) => back.send_to(&bytes, station),
                        (Towards::Drone, Some(drone)) => front.send_to(&bytes, drone),
                        (Towards::Drone, None) => Ok(0),
                    };
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the attacker has seen, to tell that there was something to alter.
#[derive(Default)]
struct Seen {
    /// The ephemeral keys of Responses: one for each change of keys.
    responses: BTreeSet<Vec<u8>>,
    initiations: usize,
    data: usize,
}

/// The attacker: whose keys it knows, and what it has seen.
struct Attacker {
    drone: PublicKey,
    station: PublicKey,
    seen: Arc<Mutex<Seen>>,
}

impl Attacker {
    /// What is made of a datagram; the genuine one comes last.
    fn fate(&self, towards: Towards, genuine: &[u8]) -> Vec<(Towards, Vec<u8>)> {
        let kind = genuine.first().copied();
        let mut all = match kind.unwrap_or_default() {
            INITIATION => self.initiation(genuine),
            RESPONSE => {
                self.seen.lock().unwrap().responses.insert(genuine[5..37].to_vec());
                altered(genuine, &[1, 5, 40], genuine.len(), &self.drone)
            }
            COOKIE => altered(genuine, &[1, 5, 21], genuine.len(), &self.drone),
            _ => {
                self.seen.lock().unwrap().data += 1;
                let mut copies = altered(genuine, &[1, 5, 6, 20], genuine.len(), &self.drone);
                copies.push(genuine.to_vec());
                copies
            }
        };
        all.push(genuine.to_vec());
        let mut all: Vec<_> = all.into_iter().map(|bytes| (towards, bytes)).collect();
        if kind == Some(INITIATION) {
            for (kind, length) in [(COOKIE, 37), (REFUSAL, 21)] {
                let mut forged = vec![0x66; length];
                forged[0] = kind;
                forged[1..5].copy_from_slice(&genuine[1..5]);
                sign(&mut forged, "fulmar refusal", &self.station);
                all.insert(0, (Towards::Drone, forged));
            }
        }
        all
    }

    /// Altered copies of an Initiation, with the code that whoever knows the station's key can
    /// make; and the genuine one again and again.
    fn initiation(&self, genuine: &[u8]) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().initiations += 1;
        let mut all = altered(genuine, &[1, 5, 40, 108], genuine.len() - 32, &self.station);
        all.extend(std::iter::repeat_n(genuine.to_vec(), COPIES));
        all
    }
}

/// Replaces the last bytes by a code that the public key of a party keys.
pub(crate) fn sign(bytes: &mut [u8], label: &str, key: &PublicKey) {
    let Some((before, code)) = bytes.split_last_chunk_mut::<16>() else { return };
    let key = Blake2s256::new().chain_update(label).chain_update(key.0).finalize();
    let mut mac = <Blake2sMac<U16> as KeyInit>::new_from_slice(&key).unwrap();
    mac.update(before);
    *code = mac.finalize().into_bytes().into();
}

/// Reads the public key of an end.
pub(crate) fn public_key(rig: &Rig, end: &str) -> PublicKey {
    let text = std::fs::read_to_string(rig.directory.path().join(format!("{end}.pub"))).unwrap();
    text.trim().parse().unwrap()
}

/// Copies with one bit changed at each of `places`, as they are and with a code at `end` that a
/// public key keys.
fn altered(genuine: &[u8], places: &[usize], end: usize, key: &PublicKey) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for place in places {
        let mut copy = genuine.to_vec();
        let Some(byte) = copy.get_mut(*place) else { continue };
        *byte ^= 1;
        all.push(copy.clone());
        sign(&mut copy[..end], "fulmar mac1", key);
        all.push(copy);
    }
    all
}

#[test]
fn who_holds_one_link_holds_up_nothing_on_the_other_through_two_changes_of_keys() {
    let name =
        "middle::who_holds_one_link_holds_up_nothing_on_the_other_through_two_changes_of_keys";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(2);
    rig.station_port = BEHIND;
    let [drone, station] = ["drone", "station"].map(|end| public_key(&rig, end));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let attacker = Attacker { drone, station, seen: Arc::clone(&seen) };
    let hold = Box::new(move |towards, bytes: &[u8]| attacker.fate(towards, bytes));
    let _held = Middle::new(&rig, 0, Duration::ZERO, hold);
    let _free = Middle::new(&rig, 1, DETOUR, Box::new(|to, bytes| vec![(to, bytes.to_vec())]));
    let station = rig.start_station(Stream::STATION);
    let drone = rig.start_drone(&[0, 1], Stream::DRONE);
    drone.wait_for("the other link works", |status| {
        let paths = status["peers"][0]["paths"].as_array().unwrap();
        paths.iter().any(|path| path["name"] == "l1" && path["state"] == "active")
    });
    let (stream, began) = (Stream::new(&rig), Instant::now());
    stream.run_for(Duration::from_secs(2));
    let changes = || seen.lock().unwrap().responses.len();
    for _ in 0..2 {
        let before = changes();
        station.signal("STOP");
        std::thread::sleep(STANDSTILL);
        station.signal("CONT");
        drone.wait_for("new keys are agreed", |status| {
            let paths = status["peers"][0]["paths"].as_array().unwrap();
            let is_back =
                paths.iter().any(|path| path["name"] == "l1" && path["state"] == "active");
            is_back && changes() > before
        });
        // Every message arrives, or the stream ends the test.
        stream.run_for(Duration::from_secs(3));
    }
    let age = began.elapsed().as_secs_f64();
    for daemon in [&drone, &station] {
        let status = daemon.status();
        let peer = &status["peers"][0];
        assert!(peer["session_s"].as_f64().unwrap() >= age, "another session: {status:#}");
    }
    let seen = seen.lock().unwrap();
    assert!(seen.initiations > 2 && seen.data > 100, "there was little to alter");
}
