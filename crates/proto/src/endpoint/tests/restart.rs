//! Either end is killed and comes back: how long control waits, and who may say that an end has.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// Kills of each end and seed.
const KILLS: u8 = 50;
const SEEDS: u64 = 3;
/// From a kill until the process runs again, at least.
const AWAY: Duration = Duration::from_millis(20);
const DECLARED: Source = Source::Declared { channel: 1, policy: Policy::DECLARED };
const DRONE: [&str; 2] = ["10.0.1.1:1000", "10.1.1.1:1000"];

/// A drone and a station over links of 40 and 80 ms there and back, and the drone's session.
struct Flown {
    wire: Wire,
    session: SessionId,
}

impl Flown {
    fn new(loss: f64, seed: u64) -> Self {
        let (mut wire, session) = Wire::pair(seed);
        wire.loss = loss;
        wire.jitter = Duration::from_millis(3);
        wire.delays.insert(DRONE[1].parse().expect("an address"), Some(Duration::from_millis(40)));
        Self { wire, session }
    }

    /// Lets time pass; the drone sends 50 messages a second.
    fn fly(&mut self, time: Duration) {
        let end = self.wire.now + time;
        while self.wire.now < end {
            let now = self.wire.now;
            let _ = self.wire.hosts[0].endpoint.send(now, self.session, DECLARED, b"before");
            self.wire.run_until(end.min(now + Duration::from_millis(20)));
        }
    }

    fn restart_drone(&mut self, boot: u8) {
        self.wire.hosts[0] = Host::new(1, boot, false, &DRONE, self.wire.now);
        self.wire.run_for(AWAY + Duration::from_millis(boot.into()));
        let station = self.wire.hosts[1].key;
        self.session = self.wire.connect(0, station);
    }

    fn restart_station(&mut self, boot: u8) {
        self.wire.hosts[1] = Host::new(200, boot, true, &[], self.wire.now);
        self.fly(AWAY + Duration::from_millis(boot.into()));
        self.wire.hosts.pop();
        self.wire.add_station(boot);
        let drone = self.wire.hosts[0].key;
        self.wire.hosts[1].endpoint.add_peer(drone, None);
    }

    /// Sends until something arrives; returns how long that took.
    fn wait(&mut self) -> Duration {
        let began = self.wire.now;
        let since = b"since".to_vec();
        while !self.wire.hosts[1].delivered.contains(&since) {
            let now = self.wire.now;
            let _ = self.wire.hosts[0].endpoint.send(now, self.session, DECLARED, &since);
            self.wire.run_for(Duration::from_millis(5));
            assert!(now.since(began) < 10 * SECOND, "nothing comes any more");
        }
        self.wire.now.since(began)
    }
}

/// What control waits, in order, after kills of an end, from when it runs again.
fn waits(drone: bool, loss: f64) -> Vec<Duration> {
    let mut waits = Vec::new();
    for seed in 0..SEEDS {
        let mut flown = Flown::new(loss, seed);
        for boot in 1..=KILLS {
            // At times so soon after the last one that the paths have hardly shown anything.
            flown.fly(SECOND * u32::from(boot % 4) / 2);
            flown.wire.run_for(SECOND / 2);
            match drone {
                true => flown.restart_drone(boot),
                false => flown.restart_station(boot),
            }
            flown.wire.hosts[1].delivered.clear();
            waits.push(flown.wait());
        }
    }
    waits.sort_unstable();
    waits
}

#[test]
fn a_restart_of_either_end_costs_some_round_trips() {
    for (drone, loss, median_ms, most_ms) in [
        (false, 0.0, 150, 160),
        (true, 0.0, 270, 280),
        (false, 0.2, 270, 1_000),
        (true, 0.2, 350, 1_000),
    ] {
        let waits = waits(drone, loss);
        let [median, p99, most] =
            [50, 99, 100].map(|percent| waits[(waits.len() - 1) * percent / 100]);
        println!("drone {drone}, loss {loss}: median {median:?}, p99 {p99:?}, most {most:?}");
        assert!(
            median <= Duration::from_millis(median_ms),
            "drone {drone}, loss {loss}: {median:?}"
        );
        assert!(p99 <= Duration::from_millis(most_ms), "drone {drone}, loss {loss}: {p99:?}");
    }
}

/// Says of each datagram of the drone, on one of its links, that nobody has keys for it.
fn liar() -> Eavesdropper {
    Box::new(|flight| {
        if flight.bytes[0] != DATA {
            return Vec::new();
        }
        let mut bytes = vec![UNKNOWN];
        bytes.extend_from_slice(&flight.bytes[1..5]);
        let (source, destination) = (flight.destination, flight.source);
        vec![(Duration::from_millis(1), Flight { source, destination, bytes })]
    })
}

#[test]
fn whoever_says_that_the_station_has_no_keys_gets_a_handshake_in_three_seconds_and_no_more() {
    let mut flown = Flown::new(0.0, 1);
    flown.wire.eavesdropper = Some(liar());
    flown.fly(2 * SECOND);
    let before = [0, 1].map(|host| flown.wire.hosts[host].endpoint.counters());
    let known = flown.wire.hosts[1].delivered.len();
    flown.fly(30 * SECOND);
    let after = [0, 1].map(|host| flown.wire.hosts[host].endpoint.counters());
    assert_eq!(flown.wire.hosts[1].delivered.len() - known, 30 * 50, "nothing was missed");
    let handshakes = after[0].handshakes - before[0].handshakes;
    assert!((9..=10).contains(&handshakes), "{handshakes} in 30 s");
    assert_eq!(after[1].responses_made - before[1].responses_made, handshakes);
    assert_eq!((flown.wire.hosts[0].connections(), flown.wire.hosts[1].connections()), (1, 1));
}

#[test]
fn who_does_not_see_what_the_drone_sends_cannot_say_that_nobody_has_keys_for_it() {
    let mut flown = Flown::new(0.0, 1);
    flown.fly(2 * SECOND);
    let of_drone = flown.wire.sent(DATA).into_iter().find(|flight| flight.source.port() == 1_000);
    let index: [u8; 4] = of_drone.expect("it sent").bytes[1..5].try_into().expect("an index");
    let before = flown.wire.hosts[0].endpoint.counters();
    let mut tell = |host: usize, index: u32, length: usize| {
        let mut bytes = [&[UNKNOWN], &index.to_le_bytes()[..], &[0; 8]].concat();
        bytes.truncate(length);
        let source = flown.wire.hosts[1 - host].addresses[0].into();
        let (local, interface) = (None, InterfaceId(0));
        let received = Received { interface, local, source, ecn: 0 };
        let now = flown.wire.now;
        flown.wire.hosts[host].endpoint.handle_datagram(now, &received, &mut bytes);
    };
    let index = u32::from_le_bytes(index);
    (1..1_000).for_each(|guess| tell(0, index ^ guess, 5));
    [0, 1, 4, 6, 13].into_iter().for_each(|length| tell(0, index, length));
    tell(1, index, 5);
    flown.fly(2 * SECOND);
    let after = flown.wire.hosts[0].endpoint.counters();
    assert_eq!(after.handshakes, before.handshakes);
    assert_eq!(after.garbage - before.garbage, 999 + 5);
}

#[test]
fn what_nobody_has_keys_for_is_answered_by_a_station_alone_and_not_without_end() {
    let mut flown = Flown::new(0.0, 1);
    flown.fly(2 * SECOND);
    let stranger = Via::Udp("203.0.113.7:9".parse().expect("an address"));
    let (now, interface) = (flown.wire.now, InterfaceId(0));
    let received = Received { interface, local: None, source: stranger, ecn: 0 };
    let mut answers = [0, 0];
    for (host, answers) in answers.iter_mut().enumerate() {
        flown.wire.drain();
        for count in 0..1_000_u32 {
            let index = count.to_le_bytes();
            let mut bytes = [&[DATA], &index[..], &[0; 23]].concat();
            let endpoint = &mut flown.wire.hosts[host].endpoint;
            endpoint.handle_datagram(now, &received, &mut bytes);
            let mut buf = Vec::new();
            while endpoint.poll_transmit(now, &mut buf).is_some() {
                assert!(buf.len() < bytes.len() && buf == [&[UNKNOWN], &index[..]].concat());
                *answers += 1;
            }
        }
    }
    assert_eq!(answers, [0, limits::UNKNOWNS_BURST]);
}
