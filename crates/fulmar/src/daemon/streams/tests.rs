//! Connections over the loopback, at instants that the tests say.

use std::net::{Ipv4Addr, TcpStream};

use sys::connection::Listener;

use super::strangers::MOST_OF_ADDRESS;
use super::*;

/// The place of what is listened at.
const SLOT: usize = 3;

/// A station's connections, and what connects to it.
struct Hall {
    streams: Streams,
    poller: Poller,
    listener: Listener,
    /// Both ends live as long as the hall does.
    callers: Vec<TcpStream>,
}

impl Hall {
    fn new() -> Self {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), None).unwrap();
        let (streams, callers) = Default::default();
        Self { streams, poller: Poller::new().unwrap(), listener, callers }
    }

    /// Has somebody connect from 127.0.0.`host`; returns whether there was room.
    fn take_in(&mut self, now: Instant, host: u8) -> bool {
        let (connection, mut from) = self.pair();
        from.set_ip(Ipv4Addr::new(127, 0, 0, host).into());
        let before = self.streams.counts.refused;
        self.streams.take_in(now, SLOT, (connection, from), &self.poller);
        drop(self.streams.take_ended());
        self.streams.counts.refused == before
    }

    fn pair(&mut self) -> (Connection, SocketAddr) {
        self.callers.push(TcpStream::connect(self.listener.local_address().unwrap()).unwrap());
        loop {
            if let Some(accepted) = self.listener.accept().unwrap() {
                return accepted;
            }
        }
    }

    fn add(&mut self, standing: Standing, remote: SocketAddr) -> usize {
        let connection = self.pair().0;
        let place = (SLOT, remote);
        self.streams.add(Instant::ZERO, (connection, standing), place, &self.poller).unwrap()
    }
}

#[test]
fn of_the_strangers_at_an_address_one_that_is_mute_makes_room_and_none_at_another() {
    let at = Instant::from_millis;
    let mut hall = Hall::new();
    for _ in 0..MOST_OF_ADDRESS {
        assert!(hall.take_in(at(0), 2));
    }
    assert!(hall.take_in(at(0), 3), "another address");
    assert!(!hall.take_in(at(900), 2), "they may still speak");
    assert!(hall.take_in(at(1_000), 2));
    assert_eq!(hall.streams.counts.cut_off, 1);
    let of = |streams: &Streams, host| {
        streams.places(|it| it.remote.ip() == Ipv4Addr::new(127, 0, 0, host)).len()
    };
    assert_eq!((of(&hall.streams, 2), of(&hall.streams, 3)), (MOST_OF_ADDRESS, 1));
    // Those that have said something are let finish.
    hall.streams.list.iter_mut().flatten().for_each(|it| it.standing = Standing::Stranger(40));
    assert!(!hall.take_in(at(5_000), 2));
}

#[test]
fn a_session_that_begins_anew_takes_the_connection_over_and_is_no_newcomer_there() {
    let mut hall = Hall::new();
    assert!(hall.take_in(Instant::ZERO, 2));
    let is_known =
        |streams: &Streams| streams.places(|it| matches!(it.standing, Standing::Known(_)));
    let [first, second] = [1, 2].map(SessionId);
    for (session, known) in [(first, 1), (first, 1), (second, 1)] {
        hall.streams.admit(0, session);
        assert_eq!(hall.streams.counts.known, known, "counted once");
        assert_eq!(hall.streams.get(0).map(|it| it.standing), Some(Standing::Known(session)));
    }
    assert_eq!(is_known(&hall.streams), [0]);
}

#[test]
fn of_two_connections_of_a_path_the_one_that_brings_something_goes_on() {
    let label: SocketAddr = ([192, 0, 2, 1], 443).into();
    for brings in 0..2 {
        let mut hall = Hall::new();
        assert_eq!(hall.streams.add_dial(SLOT, label, false), label);
        let ends = [0, 1].map(|_| hall.add(Standing::Own, label));
        hall.streams.by_remote.insert((SLOT, label), ends[1]);
        hall.streams.dials.get_mut(SLOT).unwrap().set([ends[0], ends[1]]);
        hall.streams.settle(ends[brings]);
        assert_eq!(hall.streams.by_remote.get(&(SLOT, label)), Some(&ends[brings]));
        assert_eq!(hall.streams.take_ended().len(), 1);
        assert!(hall.streams.is_carried(SLOT) && hall.streams.get(ends[brings]).is_some());
    }
}

#[test]
fn what_is_not_authentic_does_not_count_as_heard() {
    let mut hall = Hall::new();
    let place = hall.add(Standing::Own, ([192, 0, 2, 1], 443).into());
    let config = proto::EndpointConfig {
        secret: proto::StaticSecret::from_bytes([7; 32]),
        entropy: [7; 32],
        accept: true,
        session: proto::SessionConfig::default(),
    };
    let mut endpoint = Endpoint::new(config, Instant::ZERO);
    std::io::Write::write_all(&mut hall.callers[0], &[&[39, 0][..], &[4; 39]].concat()).unwrap();
    let stream = hall.streams.get_mut(place).unwrap();
    let (mut buffer, mut counts) = (vec![0; AT_A_TIME], StreamCounts::default());
    while endpoint.counters().received == 0 {
        let now = Instant::from_millis(60_000);
        stream.read(now, InterfaceId(3), &mut buffer, &mut endpoint, &mut counts).unwrap();
    }
    assert_eq!(stream.heard, Instant::ZERO);
}
