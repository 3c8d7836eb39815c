//! Doors for the fuzz targets in `fuzz/` and for benches; not part of the crate otherwise.

mod mad_peer;
mod planning;
mod relays;

use units::{Duration, Instant};

use crate::crypto::INITIATION;
use crate::delivery::message::{Feedback, MessageForm, Messages, Offer};
use crate::delivery::{Delivery as _, Taken};
use crate::limits;
use crate::path::{Path, PathConfig, PathSnapshot, Route};
use crate::recovery::{ClockOffset, PeerClock};
use crate::via::Via;
use crate::wire::{Frame, Frames};
use crate::{
    CongestionKind, Endpoint, EndpointConfig, InterfaceId, PathId, PathState, Received,
    SessionConfig, SessionId, Source, StaticSecret,
};

pub use mad_peer::mad_peer;
pub use planning::send_control;
pub use relays::{relay_frames, relay_group};

/// Decodes frames; what is accepted must mean the same when it is written anew.
pub fn decode_frames(plaintext: &[u8]) {
    for frame in Frames::new(plaintext).map_while(Result::ok) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(again.len(), frame.encoded_len());
        assert_eq!(Frames::new(&again).next(), Some(Ok(frame)));
    }
}

/// Puts messages together from symbols of any bytes, each behind its length; what is held stays
/// within the bounds.
pub fn reconstruct_messages(mut symbols: &[u8]) {
    let offset = ClockOffset::default();
    let clock = PeerClock { clock: &offset, started: Instant::ZERO };
    let mut messages = Messages::new(MessageForm::Elastic, 0);
    let mut now = Instant::from_millis(1_000);
    while let Some((&[high, low], rest)) = symbols.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes([high, low])) % (limits::SYMBOL_BYTES + 1);
        let (symbol, rest) = rest.split_at(len.min(rest.len()));
        symbols = rest;
        now += Duration::from_millis(1);
        messages.reconstruct_symbol(now, symbol, &clock);
        let (bytes, count) = messages.waits();
        assert!(bytes <= limits::HELD_MESSAGE_BYTES && count <= limits::HELD_WINDOW_MESSAGES);
        while let Some(message) = messages.poll_delivery() {
            assert!(message.payload.len() <= limits::MESSAGE_BYTES);
        }
    }
    messages.handle_timeout(now + Duration::from_secs(3_600), Duration::from_millis(100));
}

/// Gives frames of message delivery, whatever they say, to an end that sends messages of its own
/// over two paths: in our form, or with an odd last byte in the published one.
pub fn message_frames(plaintext: &[u8]) {
    let offset = ClockOffset::default();
    let clock = PeerClock { clock: &offset, started: Instant::ZERO };
    let form = match plaintext.last() {
        Some(last) if last % 2 == 1 => MessageForm::Lrt { k: 8, redundancy: 0.5, beta: 0.9 },
        _ => MessageForm::Elastic,
    };
    let mut messages = Messages::new(form, 0);
    let mut now = Instant::from_millis(1_000);
    let mut frames = Frames::new(plaintext).map_while(Result::ok);
    let paths = [0, 1].map(|id| working_path(now, PathId(id)));
    loop {
        let stream = crate::MessageStream::default();
        let _ = messages.divider.submit(now, 1, stream, &[7; limits::SYMBOL_BYTES + 300]);
        let room = limits::MAX_DATAGRAM;
        for PathSnapshot { id: path, .. } in paths {
            let is_best = path == PathId(0);
            let offer = Offer { path, is_best, has_budget: true, paths: &paths };
            while messages.form.poll_symbol(now, &offer, room, &mut messages.divider).is_some() {}
            while messages.form.poll_feedback(path, room).is_some() {}
        }
        let Some(frame) = frames.next() else { break };
        let _ = match &frame {
            Frame::Source(source) => messages.handle_source(now, source, &clock) == Taken::Done,
            Frame::Repair(repair) => messages.handle_repair(now, repair, &clock) == Taken::Done,
            Frame::Feedback(feedback) => {
                messages.handle_feedback(now, Feedback::Window(feedback), &paths)
            }
            Frame::Rank(rank) => messages.handle_feedback(now, Feedback::Rank(*rank), &paths),
            _ => true,
        };
        while messages.poll_delivery().is_some() {}
        now += Duration::from_millis(20);
        messages.handle_timeout(now, Duration::from_millis(100));
    }
}

/// Joins both halves of tunnel delivery by two paths that do what the bytes say.
pub fn tunnel_symbols(bytes: &[u8]) {
    crate::delivery::tunnel::drive(bytes);
}

/// Joins pieces of datagrams that say what the bytes say; each is followed by how much time passes.
pub fn join_pieces(mut plaintext: &[u8]) {
    let (mut joiner, mut now) = (crate::session::pieces::Joiner::default(), Instant::ZERO);
    let bound = limits::OPEN_DATAGRAMS * (limits::MAX_DATAGRAM + limits::BESIDE);
    while let Some((&head, rest)) = plaintext.split_first() {
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(head)));
        plaintext = rest;
        let Some(Ok(Frame::Piece(piece))) = Frames::new(frame).next() else { continue };
        now += Duration::from_millis(u64::from(head) * 8);
        if let Ok(Some(whole)) = joiner.handle_piece(now, PathId(head % 2), &piece) {
            assert!(whole.len() <= limits::MAX_DATAGRAM);
            decode_frames(&whole);
        }
        assert!(joiner.held() <= bound);
    }
    joiner.tidy(now + limits::OPEN_FOR);
    assert_eq!(joiner.held(), 0);
}

/// Joins both halves of the tunnel's coded generations by two paths that do what the bytes say.
pub fn tunnel_generations(bytes: &[u8]) {
    crate::delivery::tunnel::drive_generations(bytes);
}

/// Changes the use of a responder's paths, and the paths, as the bytes say.
pub fn path_use(bytes: &[u8]) {
    crate::path::drive(bytes);
}

/// Seals frames that no session would build, as a peer that has its key and means harm does.
pub fn seal(
    endpoint: &mut Endpoint,
    session: SessionId,
    path: PathId,
    frames: &[u8],
) -> Option<Vec<u8>> {
    endpoint.seal_frames(session, path, frames)
}

/// A drone and a station with a session over two paths, joined by a wire without faults.
pub struct Pair {
    /// The time on both clocks.
    pub now: Instant,
    ends: [Endpoint; 2],
    drone_session: SessionId,
    /// Datagrams to neither end: from which, and their bytes.
    elsewhere: Vec<(usize, Vec<u8>)>,
    /// Packets that the station was given by the drone.
    delivered: usize,
}

const DRONE: usize = 0;
const STATION: usize = 1;
/// The station's port; the drone's interfaces have ports 1 and 2.
const STATION_PORT: u8 = 9;
/// The first byte of a datagram that says that keys are unknown.
const UNKNOWN: u8 = 6;
/// Datagrams to neither end that are kept.
const ELSEWHERE: usize = 64;

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Connects a drone and a station.
    pub fn new() -> Self {
        let now = Instant::from_millis(1_000);
        let mut ends = [1, 2].map(|seed| {
            let config = EndpointConfig {
                secret: StaticSecret::generate([seed; 32]),
                entropy: [seed; 32],
                accept: seed == 2,
                session: SessionConfig::default(),
            };
            Endpoint::new(config, now)
        });
        let keys = [1, 2].map(|seed| StaticSecret::generate([seed; 32]).public());
        ends[1].add_peer(keys[0], None);
        let peer = ends[0].add_peer(keys[1], None);
        let drone_session = ends[0].connect(now, peer);
        for interface in 0..2 {
            let added =
                ends[0].add_path(now, drone_session, InterfaceId(interface), address(STATION_PORT));
            assert!(added.is_ok(), "two paths are not too many");
        }
        let (elsewhere, delivered) = (Vec::new(), 0);
        let mut pair = Self { now, ends, drone_session, elsewhere, delivered };
        pair.run(Duration::from_millis(50));
        assert!(pair.is_connected());
        pair
    }

    /// Tells whether the station still has a session.
    pub fn is_connected(&self) -> bool {
        self.ends[STATION].sessions().next().is_some()
    }

    /// Gives a datagram to the station or the drone; returns the bytes that it answers at once. A
    /// drone that is told that the station has lost the keys may ask for new ones (specs/wire.md,
    /// 5.12): of its station alone, which is no answer to whoever told it.
    pub fn inject(&mut self, to_station: bool, source: u8, datagram: &[u8]) -> usize {
        let end = &mut self.ends[usize::from(to_station)];
        let received = received(InterfaceId(0), address(source));
        // A station's datagrams wait for their turn.
        if to_station {
            end.admit_datagram(self.now, &received, &mut datagram.to_vec());
            while end.serve(self.now).is_some() {}
        } else {
            end.handle_datagram(self.now, &received, &mut datagram.to_vec());
        }
        let (mut buf, mut answered) = (Vec::new(), 0);
        let says_unknown = !to_station && datagram.first() == Some(&UNKNOWN);
        while let Some(transmit) = end.poll_transmit(self.now, &mut buf) {
            if says_unknown
                && buf.len() == INITIATION
                && transmit.destination == address(STATION_PORT)
            {
                continue;
            }
            answered += buf.len();
        }
        answered
    }

    /// Seals frames with the keys of the drone or the station, as its peer would get them.
    pub fn seal(&mut self, by_station: bool, path: u8, frames: &[u8]) -> Option<Vec<u8>> {
        let session = match by_station {
            true => self.ends[STATION].sessions().next()?.0,
            false => self.drone_session,
        };
        self.ends[usize::from(by_station)].seal_frames(session, PathId(path), frames)
    }

    /// Lets time pass, and both ends talk.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.exchange();
            let timeout = self.ends.iter().filter_map(Endpoint::timeout).min();
            let least = self.now + Duration::from_micros(100);
            self.now = timeout.unwrap_or(end).max(least).min(end);
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
        self.exchange();
    }

    /// Tells whether a session of the station is the drone's; it has been given that peer first.
    fn is_drones(&self, session: SessionId) -> bool {
        let mut sessions = self.ends[STATION].sessions();
        sessions.any(|(id, peer)| id == session && peer == crate::PeerId(0))
    }

    /// Tells whether a packet of the drone still gets to the station.
    fn carries(&mut self) -> bool {
        let before = self.delivered;
        let sent = self.ends[DRONE].send(self.now, self.drone_session, Source::Tunnel, &[0x45; 40]);
        self.run(Duration::from_millis(200));
        sent.is_ok() && self.delivered > before
    }

    fn exchange(&mut self) {
        let forgotten = self.elsewhere.len().saturating_sub(ELSEWHERE);
        self.elsewhere.drain(..forgotten);
        let mut buf = Vec::new();
        for _ in 0..100 {
            let mut quiet = true;
            for from in 0..2 {
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut buf) {
                    quiet = false;
                    let Via::Udp(to) = transmit.destination else { continue };
                    let (interface, source) = match (from, u8::try_from(to.port())) {
                        (STATION, Ok(port @ 1..=2)) => {
                            (InterfaceId(u32::from(port) - 1), STATION_PORT)
                        }
                        (DRONE, Ok(STATION_PORT)) => {
                            (InterfaceId(0), transmit.interface.0 as u8 + 1)
                        }
                        _ => {
                            self.elsewhere.push((from, buf.clone()));
                            continue;
                        }
                    };
                    let received = received(interface, address(source));
                    self.ends[1 - from].handle_datagram(self.now, &received, &mut buf);
                }
                while self.ends[from].poll_event().is_some() {}
                while let Some(delivery) = self.ends[from].poll_delivery() {
                    let is_drones = from == STATION && self.is_drones(delivery.session);
                    self.delivered += usize::from(is_drones);
                }
            }
            if quiet {
                return;
            }
        }
    }
}

fn working_path(now: Instant, id: PathId) -> PathSnapshot {
    let route = Route { interface: InterfaceId(0), local: None, remote: address(STATION_PORT) };
    let config = PathConfig {
        congestion: CongestionKind::default(),
        initiator: true,
        idle_probe: Duration::ZERO,
        protect_control: Default::default(),
    };
    let path = Path::new(now, id, route, config, 0);
    PathSnapshot { state: PathState::Active, ..path.snapshot(now, 0) }
}

fn address(port: u8) -> Via {
    Via::Udp(([192, 0, 2, 1], u16::from(port)).into())
}

fn received(interface: InterfaceId, source: Via) -> Received {
    Received { interface, local: None, source, ecn: 0 }
}
