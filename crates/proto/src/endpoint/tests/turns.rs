//! Two drones at one station, of which one floods: what waits, for whom, and what it is charged to.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// What a datagram costs here.
const COST: Duration = Duration::from_millis(1);

/// A station, an honest drone, and one that was taken over; the names of both sessions at the
/// station.
struct Three {
    wire: Wire,
    sessions: [SessionId; 2],
    theirs: [SessionId; 2],
}

const STATION: usize = 2;
const HONEST: usize = 0;
const THIEF: usize = 1;

impl Three {
    fn new() -> Self {
        let mut wire = Wire::new(1);
        wire.add_drone(1, 0);
        wire.add_drone(2, 0);
        wire.add_station(0);
        let thief = wire.hosts[THIEF].key;
        wire.hosts[STATION].endpoint.add_peer(thief, None);
        let honest = wire.introduce();
        let station = wire.hosts[STATION].key;
        let thief = wire.connect(THIEF, station);
        wire.run_for(5 * SECOND);
        let mut theirs: Vec<_> = wire.hosts[STATION].endpoint.sessions().collect();
        theirs.sort_by_key(|(_, peer)| *peer);
        // The thief became known first.
        Self { wire, sessions: [honest, thief], theirs: [theirs[1].0, theirs[0].0] }
    }

    /// Makes a datagram with a PING.
    fn ping(&mut self, drone: usize) -> Vec<u8> {
        let endpoint = &mut self.wire.hosts[drone].endpoint;
        endpoint.seal_frames(self.sessions[drone], PathId(0), &[0x01]).expect("a session")
    }

    fn admit(&mut self, drone: usize, bytes: &[u8]) -> bool {
        let source = self.wire.hosts[drone].addresses[0].into();
        let received = Received { interface: InterfaceId(0), local: None, source, ecn: 0 };
        let endpoint = &mut self.wire.hosts[STATION].endpoint;
        endpoint.admit_datagram(self.wire.now, &received, &mut bytes.to_vec())
    }

    /// Handles what is next; returns which drone's it was.
    fn serve(&mut self) -> Option<usize> {
        let endpoint = &mut self.wire.hosts[STATION].endpoint;
        let share = endpoint.serve(self.wire.now)?;
        endpoint.charge(share, COST);
        self.wire.now += COST;
        self.theirs.iter().position(|theirs| share == Share::Session(*theirs))
    }

    fn work(&self, drone: usize) -> Work {
        self.wire.hosts[STATION].endpoint.work(Share::Session(self.theirs[drone]))
    }
}

#[test]
fn a_flood_with_a_key_waits_behind_whoever_asks_for_little() {
    let mut three = Three::new();
    for _ in 0..1_000 {
        let ping = three.ping(THIEF);
        three.admit(THIEF, &ping);
    }
    for _ in 0..100 {
        assert_eq!(three.serve(), Some(THIEF), "while nobody else waits it is served");
        let ping = three.ping(HONEST);
        three.admit(HONEST, &ping);
        assert_eq!(three.serve(), Some(HONEST));
    }
    assert_eq!((three.work(HONEST).late, three.work(HONEST).processor), (0, 100 * COST));
    assert!(three.work(THIEF).late > 50);
    // Its queue has a bound, and what does not fit costs no cryptography.
    while three.work(THIEF).dropped == 0 {
        let ping = three.ping(THIEF);
        three.admit(THIEF, &ping);
    }
    assert_eq!(three.work(HONEST).dropped, 0);
    three.wire.hosts[STATION].endpoint.close(three.wire.now, three.theirs[THIEF]);
    while three.serve().is_some() {}
    let (now, honest) = (three.wire.now, three.sessions[HONEST]);
    three.wire.run_until(now + SECOND);
    three.wire.assert_carries(HONEST, honest, STATION, SECOND);
}

#[test]
fn a_datagram_is_said_to_be_authentic_once_and_never_when_it_was_altered() {
    let mut three = Three::new();
    let ping = three.ping(HONEST);
    let mut altered = ping.clone();
    *altered.last_mut().expect("it has a tag") ^= 1;
    assert!(!three.admit(THIEF, &altered), "it names a session, and is not from its peer");
    assert!(three.admit(HONEST, &ping));
    assert!(!three.admit(THIEF, &ping), "a replay");
    assert!(!three.admit(THIEF, &[4; 39]) && !three.admit(THIEF, &[0xFF; 200]));
}

#[test]
fn a_station_that_stood_still_hears_what_came_in_before_it_takes_a_path_for_silent() {
    for heard_first in [true, false] {
        let mut three = Three::new();
        let theirs = three.theirs[HONEST];
        let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
        // More than chance explains, if none of them is answered.
        for _ in 0..8 {
            let station = &mut three.wire.hosts[STATION].endpoint;
            assert!(station.send(three.wire.now, theirs, declared, b"up").is_ok());
            three.wire.drain();
            three.wire.now += Duration::from_millis(2);
        }
        // What answers it comes in at once, and is seen only half a second later.
        let flights: Vec<Flight> = std::mem::take(&mut three.wire.flights).into_values().collect();
        flights.iter().for_each(|flight| three.wire.deliver(flight));
        three.wire.now += Duration::from_millis(25);
        three.wire.hosts[HONEST].endpoint.handle_timeout(three.wire.now);
        three.wire.drain();
        let answers: Vec<Flight> = std::mem::take(&mut three.wire.flights).into_values().collect();
        three.wire.now += Duration::from_millis(500);
        for answer in answers.iter().filter(|_| heard_first) {
            let source = answer.source.into();
            let received = Received { interface: InterfaceId(0), local: None, source, ecn: 0 };
            let station = &mut three.wire.hosts[STATION].endpoint;
            station.admit_datagram(three.wire.now, &received, &mut answer.bytes.clone());
        }
        three.wire.hosts[STATION].events.clear();
        let station = &mut three.wire.hosts[STATION].endpoint;
        assert!(station.timeout().is_some_and(|at| at <= three.wire.now));
        station.handle_timeout(three.wire.now);
        if heard_first {
            assert!(station.timeout().is_some_and(|at| at <= three.wire.now), "it is still due");
        }
        while three.serve().is_some() {}
        let station = &mut three.wire.hosts[STATION];
        station.endpoint.handle_timeout(three.wire.now);
        station.collect();
        let of_it = |(id, event): &&(SessionId, Event)| {
            *id == theirs && matches!(event, Event::PathChanged { .. })
        };
        let suspected = station.events.iter().filter(of_it).count();
        assert_eq!(suspected == 0, heard_first, "{:?}", station.events);
    }
}

#[test]
fn who_has_no_key_spends_nobodys_turn() {
    let mut three = Three::new();
    let genuine = three.ping(HONEST);
    let before = three.wire.hosts[STATION].endpoint.table_sizes();
    // The index of the honest one's keys is there for everybody on its link to see.
    for count in 0..10_000_u32 {
        let mut forged = genuine.clone();
        forged[9..13].copy_from_slice(&count.to_le_bytes());
        forged.resize(1_400, 7);
        three.admit(THIEF, &forged);
    }
    assert_eq!(three.wire.hosts[STATION].endpoint.table_sizes(), before, "nothing waits");
    three.admit(HONEST, &genuine);
    // Said again while it waits.
    three.admit(THIEF, &genuine);
    assert_eq!((three.serve(), three.serve()), (Some(HONEST), None));
    let work = Work { processor: COST, ..Work::default() };
    assert_eq!(three.work(HONEST), work);
}
