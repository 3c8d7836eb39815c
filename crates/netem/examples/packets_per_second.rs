//! Measures how many packets per second a link decides about and a world carries:
//! `cargo run --release -p fulmar-netem --example packets_per_second`.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]

use fulmar_netem::{Host, HostTransmit, Instant, Link, Scenario, World, WorldOptions};
use std::net::SocketAddr;
use std::time;

const SCENARIO: &str = r#"
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
jitter_ms = 2
rate_mbps = 1000
loss = 0.02
duplicate = 0.001
[link.burst_loss]
good_ms = 900
bad_ms = 10
"#;

const PACKETS: u64 = 2_000_000;

/// Sends a datagram of 1,200 bytes every 20 µs and throws away what comes.
struct Source {
    own: SocketAddr,
    peer: SocketAddr,
    next: Instant,
    due: u32,
    left: u64,
    got: u64,
}

impl Host for Source {
    fn handle_datagram(
        &mut self,
        _: Instant,
        _: usize,
        _: SocketAddr,
        _: SocketAddr,
        _: u8,
        _: &mut [u8],
    ) {
        self.got += 1;
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.due += 1;
        self.left -= 1;
        self.next += fulmar_netem::Duration::from_micros(20);
    }

    fn timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn poll_transmit(&mut self, _: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        self.due = self.due.checked_sub(1)?;
        bytes.resize(1_200, 0);
        Some(HostTransmit { interface: 0, source: self.own, destination: self.peer })
    }
}

fn main() {
    let scenario = Scenario::from_toml(SCENARIO, "packets_per_second").expect("it is a scenario");
    let mut link = Link::new(&scenario.links[0].up, 1, "link");
    let begin = time::Instant::now();
    for i in 0..PACKETS {
        link.handle_packet(Instant::from_micros(i * 20), 1_228);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let out = link.stats().packets_out;
    println!("link:  {:.2} million packets/s ({out} delivered)", PACKETS as f64 / seconds / 1e6);

    let address = |host: usize| SocketAddr::from((scenario.interfaces(host)[0].address, 9));
    let source = |host: usize| {
        let (own, peer) = (address(host), address(1 - host));
        let next = fulmar_netem::CLOCK_ORIGIN;
        Source { own, peer, next, due: 0, left: PACKETS / 2, got: 0 }
    };
    let hosts = vec![source(0), source(1)];
    let mut world = World::new(&scenario, hosts, &WorldOptions::default());
    let begin = time::Instant::now();
    world.run_until(Instant::from_millis(60_000));
    let seconds = begin.elapsed().as_secs_f64();
    let got = world.host(0).got + world.host(1).got;
    println!("world: {:.2} million packets/s ({got} delivered)", PACKETS as f64 / seconds / 1e6);
}
