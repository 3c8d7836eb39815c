//! An attacker on the same network, who hears everything and says it again, cut, bent and made up.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::rig::{Daemon, Rig};
use crate::stream::Stream;
use sys::netns::Namespace;
use sys::packet_ring::{PacketRing, PacketSender};
use sys::{interface_setup, sandbox};
use units::Rng;

/// Hostile datagrams for each daemon.
const DATAGRAMS: usize = 1_000_000;
/// Sent in one go; then the attacker waits for a millisecond, so that it does not only fill queues.
const BURST: usize = 500;
/// Sent between two looks at what was answered.
const LOOK: usize = 50;
/// Datagrams that are remembered, for replays.
const RECORDED: usize = 2_000;
/// The largest UDP payload of the link.
const LARGEST: usize = 1_472;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// The attacker's place in 192.168.0.0/24, and the end of its hardware address.
const STRANGER: u8 = 66;
const DRONE: u8 = 1;
const STATION: u8 = 2;
/// No half's target: the attack is over.
const NOBODY: u8 = 255;
/// What control may wait for while the attacker takes what it can of the machine: its time to live.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a daemon may grow by under attack.
const GROWTH_KIB: u64 = 4_096;

/// What both halves of the attacker have heard, and which daemon is attacked: they take turns, so
/// that no half's own frames drown what the other one is to hear.
#[derive(Default)]
struct Ears {
    attacked: AtomicU8,
    heard: Mutex<Vec<Heard>>,
}

/// Ends the attack when the test ends, also by a panic: a half that waits for its turn would keep
/// the test from ending.
struct Curfew<'a>(&'a Ears);

impl Drop for Curfew<'_> {
    fn drop(&mut self) {
        self.0.attacked.store(NOBODY, Ordering::Relaxed);
    }
}

/// A datagram from the air.
#[derive(Clone)]
pub(crate) struct Heard {
    pub(crate) from: (u8, u16),
    pub(crate) to: (u8, u16),
    /// As it was on the link; more than `payload` holds where it was long.
    length: usize,
    pub(crate) payload: Vec<u8>,
}

/// Counts bytes of UDP payload of one half of the attacker.
#[derive(Debug, Default)]
struct Tally {
    /// Sent from the stranger's own address, and what the target said to it.
    as_stranger: usize,
    to_stranger: usize,
    /// Sent with the peer's address on it, and what the target said to the peer: of handshakes, and
    /// of data in each second before and during the attack.
    as_peer: usize,
    handshakes: usize,
    data_before: f64,
    data_during: f64,
    /// Frames that were not heard.
    missed: usize,
}

/// One half of the attacker: on the peer's side of the link, against `target`.
struct Half<'a> {
    ring: PacketRing,
    sender: PacketSender,
    interface: u32,
    peer: u8,
    target: u8,
    ears: &'a Ears,
    tally: Tally,
    data: usize,
}

impl<'a> Half<'a> {
    fn new(host: &Namespace, peer: u8, target: u8, ears: &'a Ears) -> std::io::Result<Self> {
        host.enter()?;
        let (ring, sender) = (PacketRing::open(16_384, 1_500)?, PacketSender::open()?);
        let (interface, tally) = (interface_setup::index("l0")?, Tally::default());
        Ok(Self { ring, sender, interface, peer, target, ears, tally, data: 0 })
    }

    /// Hears what the target has said since.
    fn listen(&mut self) {
        let target = self.target;
        while let Some(heard) = self.ring.with_next(|frame| hear(frame.bytes, frame.length, target))
        {
            let Some(heard) = heard else { continue };
            match (heard.to.0, heard.payload.first()) {
                (STRANGER, _) => self.tally.to_stranger += heard.length,
                (_, Some(4)) => self.data += heard.length,
                _ => self.tally.handshakes += heard.length,
            }
            let mut all = self.ears.heard.lock().unwrap();
            if all.len() < RECORDED && self.ears.attacked.load(Ordering::Relaxed) == 0 {
                all.push(heard);
            }
        }
    }

    /// Listens until the attack begins, and attacks.
    fn run(mut self, ready: &mpsc::Sender<()>) -> Tally {
        ready.send(()).unwrap();
        // Before the daemons run nothing is heard: the clock starts with the first datagram.
        let mut first = None;
        while self.ears.attacked.load(Ordering::Relaxed) != self.target {
            self.listen();
            first = first.or((self.data > 0).then(Instant::now));
            if self.ears.attacked.load(Ordering::Relaxed) == NOBODY {
                return self.tally;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let calm = first.map_or(f64::MAX, |first| first.elapsed().as_secs_f64());
        self.tally.data_before = self.data as f64 / calm;
        let heard = self.ears.heard.lock().unwrap().clone();
        let ports = heard.iter().find(|one| one.from.0 == self.peer && one.to.0 == self.target);
        let (from, to) = ports.map(|one| (one.from.1, one.to.1)).unwrap();
        (self.tally.handshakes, self.tally.to_stranger, self.data) = (0, 0, 0);
        let missed = self.ring.statistics().unwrap().dropped;
        let mut rng = Rng::new(u64::from(self.target));
        let began = Instant::now();
        for sent in 0..DATAGRAMS {
            let payload = nonsense(&mut rng, &heard);
            let source = if rng.chance(0.5) {
                self.tally.as_peer += payload.len();
                (self.peer, from)
            } else {
                self.tally.as_stranger += payload.len();
                (STRANGER, 1_000 + rng.below(60_000) as u16)
            };
            let frame = frame(source, (self.target, to), &payload);
            // A link that is full for a moment is the attacker's bad luck.
            let _ = self.sender.send(self.interface, &frame);
            if sent % LOOK == 0 {
                self.listen();
            }
            if sent % BURST == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        self.listen();
        self.tally.data_during = self.data as f64 / began.elapsed().as_secs_f64();
        self.tally.missed = (self.ring.statistics().unwrap().dropped - missed) as usize;
        self.tally
    }
}

/// Takes a frame apart if it is a UDP datagram that `target` itself has sent.
pub(crate) fn hear(frame: &[u8], length: usize, target: u8) -> Option<Heard> {
    let is_udp = frame.len() > HEADERS && frame[12..14] == [8, 0] && frame[23] == 17;
    if !is_udp || frame[11] != target {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    Some(Heard {
        from: (frame[29], port(34)),
        to: (frame[33], port(36)),
        length: length - HEADERS,
        payload: frame[HEADERS..].to_vec(),
    })
}

/// Makes a frame of the attacker's, between places of 192.168.0.0/24.
pub(crate) fn frame(from: (u8, u16), to: (u8, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to.0, 2, 0, 0, 0, 0, STRANGER, 8, 0];
    let length = (payload.len() + 28) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 168, 0, from.0];
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip.extend_from_slice(&[192, 168, 0, to.0]);
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&ip);
    for field in [from.1, to.1, length - 20, 0] {
        frame.extend_from_slice(&field.to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

/// Makes one hostile datagram: garbage, or something that was heard, from either end, and what can
/// be made of it.
fn nonsense(rng: &mut Rng, heard: &[Heard]) -> Vec<u8> {
    let mut garbage = vec![0; rng.below(300) as usize];
    rng.fill(&mut garbage);
    let mut real = heard[rng.below(heard.len() as u64) as usize].payload.clone();
    match rng.below(7) {
        0 => return garbage,
        1 => {
            garbage.insert(0, 1 + rng.below(4) as u8);
            return garbage;
        }
        2 => real.truncate(rng.below(real.len() as u64) as usize),
        3 => {
            let bit = rng.below(real.len() as u64 * 8) as usize;
            real[bit / 8] ^= 1 << (bit % 8);
        }
        4 => {
            // The header of a real one with another packet number, and nothing real behind it.
            real.truncate(12);
            if let Some(number) = real.get_mut(6..12) {
                rng.fill(&mut number[..2]);
            }
            real.extend_from_slice(&garbage);
        }
        5 => real.extend_from_slice(&garbage[..garbage.len() / 8]),
        _ => {}
    }
    // More does not fit the link.
    real.truncate(LARGEST);
    real
}

/// Asserts that what a daemon said is what it would have said anyway, and cookies for less.
fn assert_quiet(tally: &Tally, target: u8) {
    // Whatever the attacker did not hear may have been an answer of the largest size.
    let unheard = tally.missed * LARGEST;
    assert!(tally.to_stranger + unheard <= tally.as_stranger, "{tally:?}");
    assert!(tally.handshakes + unheard <= tally.as_peer, "{tally:?}");
    // Only a station asks strangers for cookies.
    assert_eq!(tally.to_stranger > 0, target == STATION, "{tally:?}");
    assert!(tally.data_during <= 1.5 * tally.data_before + 2_000.0, "{tally:?}");
}

/// The session and its only path, without what counts on.
fn identity(daemon: &Daemon) -> (bool, String, usize) {
    let status = daemon.status();
    let peer = &status["peers"][0];
    let paths = peer["paths"].as_array().unwrap();
    let remote = paths[0]["remote"].as_str().unwrap().to_owned();
    (peer["connected"] == true, remote, paths.len())
}

#[test]
fn a_million_hostile_datagrams_to_each_daemon_change_nothing() {
    let name = "attacker::a_million_hostile_datagrams_to_each_daemon_change_nothing";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    for host in [&rig.drone, &rig.station] {
        let address = [192, 168, 0, STRANGER].into();
        let mac = [2, 0, 0, 0, 0, STRANGER];
        host.run(|| interface_setup::add_neighbour("l0", address, mac).unwrap()).unwrap();
    }
    let ears = Ears::default();
    let (ready, made) = mpsc::channel();
    let sides = [(&rig.drone, DRONE, STATION), (&rig.station, STATION, DRONE)];
    std::thread::scope(|scope| {
        let _curfew = Curfew(&ears);
        let halves = sides.map(|(host, peer, target)| {
            let (ears, ready) = (&ears, ready.clone());
            scope.spawn(move || Half::new(host, peer, target, ears).unwrap().run(&ready))
        });
        drop(ready);
        assert_eq!(made.iter().take(2).count(), 2);
        let station = rig.start_station(Stream::STATION);
        let drone = rig.start_drone(&[0], Stream::DRONE);
        drone.wait_for_paths(1);
        station.wait_for_paths(1);
        let stream = Stream::new(&rig);
        let usual = stream.run_for(Duration::from_secs(2));
        let before = [&drone, &station].map(|daemon| (identity(daemon), daemon.memory_kib()));

        let mut worst = Duration::ZERO;
        for (half, (_, _, target)) in halves.into_iter().zip(sides) {
            ears.attacked.store(target, Ordering::Relaxed);
            worst = worst.max(stream.run_while(|| !half.is_finished()));
            assert_quiet(&half.join().unwrap(), target);
        }
        for (daemon, (before, memory)) in [&drone, &station].into_iter().zip(before) {
            assert_eq!(identity(daemon), before);
            let status = daemon.status();
            let rejected = status["peers"][0]["rejected_datagrams"].as_u64().unwrap();
            let garbage = status["strangers"]["garbage"].as_u64().unwrap();
            assert!(rejected + garbage > DATAGRAMS as u64 / 10, "few arrived: {status:#}");
            let grown = daemon.memory_kib().saturating_sub(memory);
            assert!(grown <= GROWTH_KIB, "{grown} KiB more than before");
        }
        assert!(worst < PATIENCE, "control waited {worst:?}, usually {usual:?}");
    });
}
