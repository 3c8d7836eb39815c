//! What a datagram of one session costs does not depend on how many others there are.

use super::*;

/// Sessions of the fleet.
const MANY: u8 = 150;

/// Connects drones to a station, which is the last host.
fn fleet(drones: u8) -> Wire {
    let mut wire = Wire::new(3);
    (1..=drones).for_each(|seed| wire.add_drone(seed, 0));
    wire.add_station(0);
    let station = usize::from(drones);
    let key = wire.hosts[station].key;
    for drone in 0..station {
        let peer = wire.hosts[drone].key;
        wire.hosts[station].endpoint.add_peer(peer, None);
        wire.connect(drone, key);
    }
    wire.run_for(Duration::from_secs(5));
    assert_eq!(wire.hosts[station].connections(), station);
    wire
}

/// Lets the first drone send a message, and counts how often the station looks at any session while
/// it takes that in and answers it.
fn looks(wire: &mut Wire) -> u64 {
    let session = wire.hosts[0].endpoint.sessions().next().expect("a session").0;
    let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
    let sent = wire.hosts[0].endpoint.send(wire.now, session, declared, b"hello");
    assert!(sent.is_ok());
    wire.drain();
    let station = wire.hosts.last_mut().expect("a station");
    let before = station.endpoint.sessions.looks;
    let flights: Vec<Flight> = std::mem::take(&mut wire.flights).into_values().collect();
    for flight in &flights {
        wire.deliver(flight);
        wire.drain();
    }
    let station = wire.hosts.last().expect("a station");
    assert!(station.endpoint.timeout().is_some_and(|at| at > wire.now));
    assert_eq!(station.delivered.len(), 1);
    station.endpoint.sessions.looks - before
}

#[test]
fn a_message_of_each_session_takes_little_memory() {
    let mut wire = fleet(MANY);
    for drone in 0..usize::from(MANY) {
        let session = wire.hosts[drone].endpoint.sessions().next().expect("a session").0;
        let message = Source::Message { channel: 1, stream: crate::MessageStream::default() };
        let sent = wire.hosts[drone].endpoint.send(wire.now, session, message, &[7; 4_000]);
        assert!(sent.is_ok());
    }
    wire.run_for(Duration::from_millis(200));
    let station = &wire.hosts.last().expect("a station").endpoint;
    let each = station.memory_held() / usize::from(MANY);
    assert!(each < crate::limits::SESSION_BYTES + (24 << 10), "{each} bytes");
}

#[test]
fn a_datagram_makes_the_station_look_at_its_own_session_alone() {
    let (alone, among) = (looks(&mut fleet(1)), looks(&mut fleet(MANY)));
    assert!((1..=20).contains(&alone), "{alone}");
    assert_eq!(among, alone);
}

#[test]
fn timers_of_a_fleet_that_are_due_at_once_are_handled_some_at_a_time_until_none_is_left() {
    let mut wire = fleet(MANY);
    wire.now += Duration::from_secs(1);
    let station = &mut wire.hosts.last_mut().expect("a station").endpoint;
    let mut turns = 0;
    while station.timeout().is_some_and(|at| at <= wire.now) {
        let before = station.sessions.looks;
        station.handle_timeout(wire.now);
        while station.poll_transmit(wire.now, &mut Vec::new()).is_some() {}
        turns += 1;
        // A look for each that was due, and one for each datagram that it sends.
        assert!(station.sessions.looks - before < 8 * limits::TIMERS_A_TURN as u64, "turn {turns}");
        assert!(turns < 100, "time that has passed is handled in the end");
    }
    assert!(turns >= usize::from(MANY) / limits::TIMERS_A_TURN, "{turns} turns");
}
