//! A stream of control messages both ways, 50 a second each: what must go on whatever happens.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::rig::Rig;

/// Half of the time between two messages of one direction: they take turns.
const TURN: Duration = Duration::from_millis(10);

/// The sockets of the applications at both ends.
pub(crate) struct Stream {
    directions: [(UdpSocket, UdpSocket); 2],
}

impl Stream {
    /// What the drone's file needs for it.
    pub(crate) const DRONE: &str = "\
[[control]]
name = \"up\"
channel = 20
kind = \"udp-client\"
address = \"127.0.0.1:14901\"
[[control]]
name = \"down\"
channel = 21
address = \"127.0.0.1:14902\"
";
    /// What the station's file needs for it.
    pub(crate) const STATION: &str = "\
[[control]]
name = \"up\"
channel = 20
address = \"127.0.0.1:14901\"
[[control]]
name = \"down\"
channel = 21
kind = \"udp-client\"
address = \"127.0.0.1:14902\"
";

    /// Opens the applications' sockets.
    pub(crate) fn new(rig: &Rig) -> Self {
        let [up, down] = ["127.0.0.1:14901", "127.0.0.1:14902"];
        let open = |from: &sys::netns::Namespace, to: &sys::netns::Namespace, port| {
            let sender = from.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            sender.connect(port).unwrap();
            let receiver = to.run(|| UdpSocket::bind(port).unwrap()).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            (sender, receiver)
        };
        let (drone, station) = (&rig.drone, &rig.station);
        Self { directions: [open(station, drone, up), open(drone, station, down)] }
    }

    /// Runs for a time; returns the longest delay.
    pub(crate) fn run_for(&self, time: Duration) -> Duration {
        let end = Instant::now() + time;
        self.run_while(|| Instant::now() < end)
    }

    /// Runs while `go_on` says so; every message must arrive, once and in turn. Returns the longest
    /// delay.
    pub(crate) fn run_while(&self, go_on: impl Fn() -> bool) -> Duration {
        self.delays_while(go_on).last().copied().unwrap_or_default()
    }

    /// Does the same, and returns all delays, the shortest first.
    pub(crate) fn delays_while(&self, go_on: impl Fn() -> bool) -> Vec<Duration> {
        let mut delays = Vec::new();
        for number in 0_u64.. {
            if !go_on() {
                break;
            }
            let (sender, receiver) = &self.directions[(number % 2) as usize];
            let (sent, message) = (Instant::now(), number.to_le_bytes());
            sender.send(&message).unwrap();
            let mut buffer = [0; 64];
            let length = receiver.recv(&mut buffer).expect("control arrives");
            assert_eq!(buffer[..length], message);
            delays.push(sent.elapsed());
            std::thread::sleep(TURN.saturating_sub(sent.elapsed()));
        }
        delays.sort();
        delays
    }
}

/// Below which so many of a hundred delays are.
pub(crate) fn percentile(delays: &[Duration], percent: usize) -> Duration {
    delays[(delays.len() - 1) * percent / 100]
}
