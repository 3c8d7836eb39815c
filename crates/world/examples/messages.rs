//! Sends messages from a drone to its station over a link that loses a tenth of all packets.
//!
//! Everything that a program needs to carry sessions itself: two endpoints, keys, a path, and the
//! loop around them. The link is emulated and time is virtual, so that it ends at once and prints
//! the same every time; with sockets and a clock in the place of [`netem::World`] it is a daemon.
//!
//! ```text
//! cargo run -p fulmar-proto --example messages
//! ```
#![allow(clippy::expect_used, reason = "an example shows the way that succeeds")]

use std::net::{Ipv4Addr, SocketAddr};

use fulmar_proto::{
    Duration, Endpoint, EndpointConfig, Event, Instant, InterfaceId, MessageOrder, MessageStream,
    Received, SessionConfig, SessionId, Source, StaticSecret,
};
use netem::{CLOCK_ORIGIN, Host, HostTransmit, Scenario, World, WorldOptions};

const PORT: u16 = 14_700;
const DRONE: usize = 0;
const STATION: usize = 1;

const SCENARIO: &str = r#"
name = "example"
seconds = 60
[[host]]
name = "drone"
[[host]]
name = "station"
[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 50
rate_mbps = 20
loss = 0.1
"#;

/// What drives an endpoint: datagrams and time go in, datagrams come out.
struct Driver {
    endpoint: Endpoint,
    address: Ipv4Addr,
    /// Known from the event [`Event::Connected`] on.
    session: Option<SessionId>,
    /// What was delivered: its stream, how old it was, and what it says.
    delivered: Vec<(Option<u16>, Duration, String)>,
}

impl Driver {
    fn new(secret: &StaticSecret, entropy: u8, address: Ipv4Addr, accept: bool) -> Self {
        let config = EndpointConfig {
            secret: secret.clone(),
            // In earnest: fresh random bytes of the operating system.
            entropy: [entropy; 32],
            accept,
            session: SessionConfig::default(),
        };
        let endpoint = Endpoint::new(config, CLOCK_ORIGIN);
        Self { endpoint, address, session: None, delivered: Vec::new() }
    }

    /// After every input: what happened, and what has arrived.
    fn collect(&mut self) {
        while let Some((session, event)) = self.endpoint.poll_event() {
            if let Event::Connected { .. } = event {
                self.session = Some(session);
            }
        }
        while let Some(delivery) = self.endpoint.poll_delivery() {
            let text = String::from_utf8_lossy(&delivery.bytes).into_owned();
            self.delivered.push((delivery.stream, delivery.age, text));
        }
    }
}

impl Host for Driver {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        ecn: u8,
        bytes: &mut [u8],
    ) {
        let interface = InterfaceId(interface as u32);
        let received = Received { interface, local: Some(destination.ip()), source, ecn };
        self.endpoint.handle_datagram(now, &received, bytes);
        self.collect();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.collect();
    }

    fn timeout(&self) -> Option<Instant> {
        self.endpoint.timeout()
    }

    fn poll_transmit(&mut self, now: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        let transmit = self.endpoint.poll_transmit(now, bytes)?;
        let interface = transmit.interface.0 as usize;
        let source = (self.address, PORT).into();
        Some(HostTransmit { interface, source, destination: transmit.destination })
    }
}

fn main() {
    let scenario = Scenario::from_toml(SCENARIO, "example.toml").expect("a sound scenario");
    let address = |host| scenario.interfaces(host)[0].address;
    let secrets = [StaticSecret::generate([1; 32]), StaticSecret::generate([2; 32])];
    let mut drone = Driver::new(&secrets[DRONE], 3, address(DRONE), false);
    let mut station = Driver::new(&secrets[STATION], 4, address(STATION), true);

    // Each knows the other's public key; the drone begins, and opens a path per interface.
    station.endpoint.add_peer(secrets[DRONE].public(), None);
    let peer = drone.endpoint.add_peer(secrets[STATION].public(), None);
    let session = drone.endpoint.connect(CLOCK_ORIGIN, peer);
    let remote = (address(STATION), PORT).into();
    drone
        .endpoint
        .add_path(CLOCK_ORIGIN, session, InterfaceId(0), remote)
        .expect("room for a path");
    let options = WorldOptions { seed: Some(1), ..WorldOptions::default() };
    let mut world = World::new(&scenario, vec![drone, station], &options);
    let run_until = |world: &mut World<Driver>, limit| while world.step_until(limit).is_some() {};
    let start = world.now() + Duration::from_secs(2);
    run_until(&mut world, start);

    // Waypoints in order, each of them certain; positions that are of no use after 120 ms.
    let waypoints = MessageStream::default();
    let deadline = Some(Duration::from_millis(120));
    let positions = MessageStream { id: 1, order: MessageOrder::Unordered, deadline };
    for number in 0..200_u32 {
        run_until(&mut world, start + Duration::from_millis(20) * number);
        for (stream, text) in [(waypoints, "waypoint"), (positions, "position")] {
            let (now, host) = (world.host_now(DRONE), world.host_mut(DRONE));
            let text = format!("{text} {number}");
            let session = host.session.expect("connected");
            // `Err(SendError::Busy)` is back-pressure; `Event::RoomForMessages` ends it.
            let source = Source::Message { channel: 30, stream };
            host.endpoint.send(now, session, source, text.as_bytes()).expect("there is room");
        }
    }
    let end = world.now() + Duration::from_secs(2);
    run_until(&mut world, end);

    println!(
        "50 ms and a tenth of all packets lost, each way; a waypoint and a position every 20 ms"
    );
    for (stream, name) in [(waypoints, "waypoint"), (positions, "position")] {
        let delivered = &world.host(STATION).delivered;
        let ours = delivered.iter().filter(|(id, ..)| *id == Some(stream.id));
        let mut ages: Vec<Duration> = ours.clone().map(|(_, age, _)| *age).collect();
        let numbers: Vec<u32> =
            ours.filter_map(|(.., text)| text.split(' ').nth(1)?.parse().ok()).collect();
        ages.sort();
        let ms = |age: Option<&Duration>| age.map_or(0.0, Duration::as_secs_f64) * 1e3;
        println!(
            "{name}s: {} of 200 delivered, {}; half within {:.0} ms, the slowest {:.0} ms",
            ages.len(),
            if numbers.is_sorted() { "in order" } else { "as they came" },
            ms(ages.get(ages.len() / 2)),
            ms(ages.last()),
        );
        if stream.order == MessageOrder::InOrder {
            assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "every one, once, in order");
        }
    }
    show_status(&world);
}

/// What either end knows: how much repair was sent, what it was good for, and where delay arises.
fn show_status(world: &World<Driver>) {
    let status = |host| {
        let driver: &Driver = world.host(host);
        let session = driver.session.expect("connected");
        driver.endpoint.status(world.host_now(host), session).expect("the session lives")
    };
    let (sent, received) = (status(DRONE).messages, status(STATION).messages);
    println!(
        "the drone sent {} symbols, {} combinations of them and {} once more; the station computed {} \
         that were lost",
        sent.source_symbols, sent.repair_symbols, sent.resent_symbols, received.decoded_symbols
    );
    for row in status(STATION).message_streams {
        let delay = row.delay;
        println!(
            "stream {}: {} skipped; mean delay: {:.1?} for a path, {:.1?} on the way, {:.1?} decoding, {:.1?} for \
             earlier messages",
            row.stream,
            row.late,
            delay.division,
            delay.end_to_end,
            delay.decoding,
            delay.reconstruction
        );
    }
}
