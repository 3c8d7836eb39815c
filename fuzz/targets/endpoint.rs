//! A drone and a station with an attacker between them, who does to their datagrams what the input
//! says: passes them on, drops, alters, cuts, repeats, reflects and invents them, and lets time
//! pass.
//!
//! Promises: no panic, no sending without end, no asking for the same moment over and over.
#![no_main]

use std::net::SocketAddr;

use proto::{Duration, Endpoint, EndpointConfig, Instant, InterfaceId, Received, SessionConfig};
use proto::{Source, StaticSecret};

/// Datagrams that the attacker remembers.
const REMEMBERED: usize = 32;
const TRANSMITS_AT_ONCE: usize = 100_000;
const ROUNDS_AT_ONCE: usize = 16;

struct End {
    endpoint: Endpoint,
    address: SocketAddr,
}

struct Wire {
    now: Instant,
    ends: [End; 2],
    /// Datagrams on their way: the end that they go to, and their bytes.
    caught: Vec<(usize, Vec<u8>)>,
}

impl Wire {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let secrets = [[1; 32], [2; 32]].map(StaticSecret::from_bytes);
        let publics = [secrets[0].public(), secrets[1].public()];
        let mut index = 0;
        let mut ends = secrets.map(|secret| {
            let entropy = [index + 3; 32];
            let config = EndpointConfig {
                secret,
                entropy,
                accept: index == 1,
                session: SessionConfig::default(),
            };
            index += 1;
            let address = SocketAddr::from(([192, 0, 2, index], 14_700));
            End { endpoint: Endpoint::new(config, now), address }
        });
        let station = ends[0].endpoint.add_peer(publics[1], None);
        ends[1].endpoint.add_peer(publics[0], None);
        let session = ends[0].endpoint.connect(now, station);
        let remote = ends[1].address;
        let _ = ends[0].endpoint.add_path(now, session, InterfaceId(0), remote);
        Self { now, ends, caught: Vec::new() }
    }

    fn act(&mut self, what: u8, script: &mut &[u8]) {
        let which = usize::from(what >> 3) % self.caught.len().max(1);
        match what % 8 {
            0 | 1 => self.pass(which, what % 8 == 0, |_| {}),
            2 => {
                let (at, bits) = (usize::from(byte(script)), byte(script));
                self.pass(which, true, |bytes| {
                    let at = at % bytes.len().max(1);
                    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
                });
            }
            3 => {
                let keep = usize::from(byte(script));
                self.pass(which, false, |bytes| bytes.truncate(keep));
            }
            4 => {
                // Reflected to the end that it came from.
                if let Some((to, bytes)) = self.caught.get(which).cloned() {
                    self.deliver(1 - to, bytes);
                }
            }
            5 => self.now += Duration::from_millis(u64::from(byte(script)) * 4),
            6 => {
                let length = usize::from(byte(script)).min(script.len());
                let (invented, rest) = script.split_at(length);
                *script = rest;
                self.deliver(usize::from(what >> 7), invented.to_vec());
            }
            _ => {
                let end = &mut self.ends[usize::from(what >> 7)].endpoint;
                let first = end.sessions().next();
                if let Some((session, _)) = first {
                    let _ = end.send(self.now, session, Source::Tunnel, &[0x45; 40]);
                }
            }
        }
        self.settle();
    }

    /// Passes a caught datagram on, altered; keeps it for another time or not.
    fn pass(&mut self, which: usize, keep: bool, alter: impl FnOnce(&mut Vec<u8>)) {
        let Some((to, mut bytes)) = self.caught.get(which).cloned() else { return };
        if !keep {
            self.caught.remove(which);
        }
        alter(&mut bytes);
        self.deliver(to, bytes);
    }

    fn deliver(&mut self, to: usize, mut bytes: Vec<u8>) {
        let source = self.ends[1 - to].address.into();
        let received = Received { interface: InterfaceId(0), local: None, source, ecn: 0 };
        self.ends[to].endpoint.handle_datagram(self.now, &received, &mut bytes);
    }

    fn settle(&mut self) {
        for from in 0..2 {
            for round in 0.. {
                let endpoint = &mut self.ends[from].endpoint;
                endpoint.handle_timeout(self.now);
                let mut sent = 0;
                let mut buffer = Vec::new();
                while endpoint.poll_transmit(self.now, &mut buffer).is_some() {
                    sent += 1;
                    assert!(sent < TRANSMITS_AT_ONCE, "sends without end");
                    self.caught.push((1 - from, std::mem::take(&mut buffer)));
                }
                while endpoint.poll_delivery().is_some() {}
                while endpoint.poll_event().is_some() {}
                let due = endpoint.timeout();
                if due.is_none_or(|due| due > self.now) {
                    break;
                }
                assert!(round < ROUNDS_AT_ONCE, "asks for {due:?} again, now is {:?}", self.now);
            }
        }
        let forgotten = self.caught.len().saturating_sub(REMEMBERED);
        self.caught.drain(..forgotten);
    }
}

fn byte(script: &mut &[u8]) -> u8 {
    let Some((&first, rest)) = script.split_first() else { return 0 };
    *script = rest;
    first
}

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let mut script = script;
    let mut wire = Wire::new();
    wire.settle();
    while let Some((&what, rest)) = script.split_first() {
        script = rest;
        wire.act(what, &mut script);
    }
});
