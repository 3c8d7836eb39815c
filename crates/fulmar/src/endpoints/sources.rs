//! At which end of a session the sources of MAVLink live, so that a program that passes frames on
//! makes no loop [specs/delivery.md §2] (rule 8).
//!
//! Such a program (mavlink-router, a ground station that forwards) gives back at one endpoint what
//! it was given at another. Taken, that would go to the other end, and to every endpoint that
//! shares, and so to the program again. Two rules end it:
//!
//! 1. *What was given is not taken back*: a frame that was given to programs within the last moment
//!    is not taken, neither from another program than the one that sent it nor from that one, which
//!    may hear itself at another endpoint. Who gives all its frames one number may say the same
//!    again.
//! 2. *A source lives at one end* [mavlink-router, `Endpoint::accept_msg`]: frames of a system and
//!    component that are heard from the other end are not taken at this one. Whoever speaks first
//!    lives where it speaks, and moves once it has been silent there: so a forged frame from the
//!    other end shuts nobody out who speaks here, nor anybody else for long. Ground stations are
//!    excepted, by their heartbeat: all of them call themselves 255, wherever they are.
//!
//! The first rule knows nothing of a program that changes the frames, the second nothing of frames
//! of this end.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use proto::select::{MavlinkFrame, MavlinkFrames};
use proto::{Duration, Instant};

use super::Origin;
use super::statustext::HEARTBEAT;
use super::vehicles::Vehicles;

/// After so long without a word a source may be elsewhere: heartbeats come every second, and
/// autopilots and ground stations take each other for gone after 3.5 to 5 s.
const SPEAKS: Duration = Duration::from_secs(5);
/// Sources that are known; what further ones send is taken. A swarm behind one endpoint has some
/// hundred components.
const SOURCES: usize = 256;
/// How long what was given may take to come back: programs pass on within milliseconds. Whoever
/// sends the same frame from another port each time, with the same number, must not wait for long.
const COMES_BACK: Duration = Duration::from_millis(500);
/// Frames given that are remembered: half a second of a vehicle's telemetry at three endpoints.
const GIVEN: usize = 512;
/// Where a heartbeat says what it is of, and MAV_TYPE_GCS.
const TYPE_AT: usize = 4;
const STATION: u8 = 6;

/// A program: one of those at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The endpoint's number.
    pub(super) endpoint: u64,
    pub(super) origin: Origin,
}

/// The sources of one peer's MAVLink, of either end.
#[derive(Default)]
pub(crate) struct Sources {
    known: HashMap<(u8, u8), Source>,
    /// What programs were given, the latest last.
    given: VecDeque<Given>,
    keys: RandomState,
    vehicles: Vehicles,
}

struct Source {
    end: End,
    heard: Instant,
    is_station: bool,
    /// Number and hash of the last frame that a program of this end brought, and whether frames
    /// that differ have one number.
    last: (u8, u64),
    is_unnumbered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Near,
    Far,
}

struct Given {
    at: Instant,
    frame: u64,
    /// Who had sent it, unless it came from the other end.
    from: Option<Program>,
}

impl Sources {
    /// Returns what is known of the vehicles among them.
    pub(crate) fn vehicles(&self) -> &Vehicles {
        &self.vehicles
    }

    /// Notes what has come from the other end.
    pub(crate) fn on_far(&mut self, now: Instant, bytes: &[u8]) {
        for frame in MavlinkFrames::new(bytes) {
            self.note(now, End::Far, &frame);
        }
    }

    /// Notes what the programs of an endpoint are given, and who had sent it.
    pub(super) fn on_given(&mut self, now: Instant, bytes: &[u8], from: Option<Program>) {
        if self.given.len() == GIVEN {
            self.given.pop_front();
        }
        self.given.push_back(Given { at: now, frame: self.keys.hash_one(bytes), from });
    }

    /// Tells whether a frame of a program is to be taken.
    pub(super) fn admits(&mut self, now: Instant, from: Program, frame: &MavlinkFrame<'_>) -> bool {
        let hash = self.keys.hash_one(frame.bytes);
        let source = self.known.get_mut(&(frame.system, frame.component));
        let may_repeat = source.is_some_and(|source| source.is_unnumbered(frame.sequence(), hash));
        let lately = self.given.iter().rev().take_while(|given| now.since(given.at) < COMES_BACK);
        let mut same = lately.filter(|given| given.frame == hash);
        let comes_back = same.any(|given| given.from != Some(from) || !may_repeat);
        // What only comes back is no word of its source.
        !comes_back && self.note(now, End::Near, frame) == End::Near
    }

    /// Notes a frame that was heard at an end, and tells at which its source lives.
    fn note(&mut self, now: Instant, end: End, frame: &MavlinkFrame<'_>) -> End {
        self.vehicles.on_frame(now, frame);
        let speaks = |source: &Source| now.since(source.heard) < SPEAKS;
        let key = (frame.system, frame.component);
        if self.known.len() >= SOURCES && !self.known.contains_key(&key) {
            self.known.retain(|_, source| speaks(source));
            if self.known.len() >= SOURCES {
                return end;
            }
        }
        let source = self.known.entry(key).or_insert_with(|| Source::new(end, now));
        if source.end != end && !speaks(source) {
            *source = Source::new(end, now);
        }
        if source.end == end {
            source.heard = now;
        }
        let kind = frame.payload.get(TYPE_AT);
        source.is_station |= frame.message == HEARTBEAT && kind == Some(&STATION);
        if source.is_station { end } else { source.end }
    }
}

impl Source {
    fn new(end: End, heard: Instant) -> Self {
        Self { end, heard, is_station: false, last: (0, 0), is_unnumbered: false }
    }

    /// Notes a frame's number and hash; tells whether the source's numbers say nothing.
    fn is_unnumbered(&mut self, number: u8, hash: u64) -> bool {
        if self.last != (number, hash) {
            self.is_unnumbered = self.last.0 == number && self.last.1 != 0;
            self.last = (number, hash);
        }
        self.is_unnumbered
    }
}

#[cfg(test)]
mod tests {
    use proto::select::{Version, encode_frame};

    use super::*;

    fn frame(source: (u8, u8), sequence: u8, kind: u8) -> Vec<u8> {
        let payload = [0, 0, 0, 0, kind, 3, 81, 4, 3];
        encode_frame(Version::V2, sequence, source, HEARTBEAT, &payload).unwrap()
    }

    fn program(endpoint: u64) -> Program {
        Program { endpoint, origin: Origin::Only }
    }

    /// A peer's sources, and the time.
    struct Peer(Sources, Instant, u8);

    impl Peer {
        fn new() -> Self {
            Self(Sources::default(), Instant::from_millis(9_000), 0)
        }

        fn after(&mut self, ms: u64) -> &mut Self {
            self.1 += Duration::from_millis(ms);
            self
        }

        /// A heartbeat from the other end.
        fn far(&mut self, source: (u8, u8), kind: u8) {
            self.2 = self.2.wrapping_add(1);
            self.0.on_far(self.1, &frame(source, self.2, kind));
        }

        /// Whether a heartbeat of this end is taken.
        fn near(&mut self, source: (u8, u8), kind: u8) -> bool {
            self.2 = self.2.wrapping_add(1);
            self.takes(program(1), &frame(source, self.2, kind))
        }

        fn takes(&mut self, from: Program, bytes: &[u8]) -> bool {
            self.0.admits(self.1, from, &MavlinkFrames::new(bytes).next().unwrap())
        }
    }

    #[test]
    fn a_source_of_the_other_end_is_not_taken_here_until_it_has_been_silent_there() {
        let mut peer = Peer::new();
        peer.far((1, 1), 2);
        assert!(!peer.after(4_999).near((1, 1), 2));
        assert!(peer.near((1, 191), 2), "another component may be here");
        peer.far((1, 1), 2);
        assert!(!peer.after(4_999).near((1, 1), 2), "it still speaks there");
        assert!(peer.after(1).near((1, 1), 2), "it has moved");
        peer.far((1, 1), 2);
        assert!(peer.after(4_999).near((1, 1), 2), "and lives here now");
        peer.after(5_000).far((1, 1), 2);
        assert!(!peer.near((1, 1), 2), "and there again");
    }

    #[test]
    fn whoever_speaks_here_first_is_not_shut_out_by_what_is_forged_there() {
        let mut peer = Peer::new();
        for _ in 0..60 {
            assert!(peer.near((1, 1), 2));
            (0..10).for_each(|_| peer.far((1, 1), 2));
            peer.after(1_000);
        }
    }

    #[test]
    fn ground_stations_of_one_number_may_be_at_both_ends() {
        let mut peer = Peer::new();
        peer.far((255, 190), 6);
        assert!(peer.near((255, 190), 6));
        peer.far((254, 190), 2);
        assert!(!peer.near((254, 190), 2), "what it is, is not known");
        assert!(peer.near((254, 190), 6));
        assert!(peer.near((254, 190), 2));
    }

    #[test]
    fn what_was_given_is_taken_back_from_nobody_but_who_sent_it() {
        let mut peer = Peer::new();
        let (of_far, of_near) = (frame((255, 190), 1, 6), frame((255, 190), 2, 6));
        peer.0.on_given(peer.1, &of_far, None);
        peer.0.on_given(peer.1, &of_near, Some(program(1)));
        assert!(!peer.takes(program(1), &of_far));
        assert!(!peer.takes(program(2), &of_near));
        assert!(!peer.takes(program(1), &of_near), "it hears itself elsewhere");
        peer.after(500);
        assert!(peer.takes(program(2), &of_near) && peer.takes(program(1), &of_far));
    }

    #[test]
    fn who_gives_all_its_frames_one_number_may_say_the_same_again() {
        let mut peer = Peer::new();
        let [one, other] = [6, 18].map(|kind| frame((255, 190), 0, kind));
        for bytes in [&one, &other, &one, &one, &one] {
            assert!(peer.takes(program(1), bytes));
            peer.0.on_given(peer.1, bytes, Some(program(1)));
        }
        assert!(!peer.takes(program(2), &one), "but nobody else");
    }

    #[test]
    fn memory_is_bounded_and_invented_sources_push_nobody_out() {
        let mut peer = Peer::new();
        peer.far((1, 1), 2);
        for key in 2..=u16::MAX {
            let [system, component] = key.to_be_bytes();
            assert!((system, component) == (1, 1) || peer.near((system, component), 2));
            peer.0.on_given(peer.1, &[system, component], None);
        }
        assert!(!peer.near((1, 1), 2));
        assert_eq!((peer.0.known.len(), peer.0.given.len()), (SOURCES, GIVEN));
        assert!(peer.after(5_000).near((2, 2), 2));
        assert_eq!(peer.0.known.len(), 1);
    }
}
