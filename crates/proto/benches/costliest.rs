//! What the costliest datagram of each type costs a station: `cargo bench -p fulmar-proto`.
//!
//! The peer has its key and means harm, so every datagram authenticates. The first row is a
//! datagram that does nothing, to set the others beside.

use std::cell::RefCell;
use std::time::Duration as Time;

use criterion::{BatchSize, Criterion};
use fulmar_proto::Duration;
use fulmar_proto::fuzzing::Pair;

/// Brings the station to where a datagram costs most; returns its frames.
type Prepare = fn(&mut Attacker) -> Vec<u8>;

/// Bytes of frames in a datagram.
const ROOM: usize = 1_400;
/// Symbols that a receiver has room for.
const CAPACITY: u64 = 4_096;
/// Symbols that one repair symbol combines.
const COMBINED: u64 = 512;
/// Repair symbols that a receiver holds.
const HELD: u64 = 256;
/// Bytes of a whole symbol.
const SYMBOL: usize = 1_144;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Time::from_millis(100))
        .measurement_time(Time::from_secs(1))
        .without_plots()
        .configure_from_args();
    let cases: [(&str, Prepare); 12] = [
        ("nothing", |_| vec![0x01]),
        ("a symbol that jumps ahead", Attacker::jump),
        ("symbols that jump ahead", Attacker::jumps),
        ("a symbol that jumps over held repair", Attacker::jump_over_repair),
        ("empty symbols beside held repair", Attacker::sources_beside_repair),
        ("a symbol that drives repair out", Attacker::push_out_repair),
        ("repair beside held repair", Attacker::repair_beside_repair),
        ("the repair that solves all", Attacker::solve_all),
        ("acknowledgements", |_| acknowledgements()),
        ("control, a lane each", Attacker::control_in_new_lanes),
        ("control, numbers back and forth", Attacker::control_back_and_forth),
        ("feedback", |_| filled(|_| [&[0x1a][..], &[0; 6]].concat())),
    ];
    for (name, prepare) in cases {
        let attacker = RefCell::new(Attacker::new());
        criterion.bench_function(name, |bencher| {
            bencher.iter_batched(
                || attacker.borrow_mut().prepare(prepare),
                |datagram| attacker.borrow_mut().pair.inject(true, 1, &datagram),
                BatchSize::PerIteration,
            );
        });
    }
    criterion.final_summary();
}

/// A peer that has its key, and what it has brought the station to.
struct Attacker {
    pair: Pair,
    /// The symbol that the station waits for.
    next: u64,
    repair: u64,
    number: u32,
}

impl Attacker {
    fn new() -> Self {
        Self { pair: Pair::new(), next: 0, repair: 0, number: 0 }
    }

    /// Returns the datagram, sealed.
    fn prepare(&mut self, frames: Prepare) -> Vec<u8> {
        self.pair.run(Duration::from_micros(100));
        // Whatever the one before has done: the station waits for `next`.
        self.send(&source(self.next, 0, &[]));
        self.next += 1;
        let frames = frames(self);
        self.sealed(&frames)
    }

    fn sealed(&mut self, frames: &[u8]) -> Vec<u8> {
        self.pair.seal(false, 0, frames).expect("a session")
    }

    fn send(&mut self, frames: &[u8]) {
        let datagram = self.sealed(frames);
        self.pair.inject(true, 1, &datagram);
    }

    /// The farthest symbol that the station takes, which gives up all before it.
    fn jump(&mut self) -> Vec<u8> {
        self.next += CAPACITY;
        source(self.next - 1, 0, &[])
    }

    fn jumps(&mut self) -> Vec<u8> {
        let first = self.next;
        let frames = filled(|_| self.jump());
        self.next = first + CAPACITY;
        frames
    }

    fn repair(&mut self, first: u64) -> Vec<u8> {
        self.repair += 1;
        repair(self.repair, first, &[self.repair as u8; SYMBOL])
    }

    /// Makes the station hold as much repair as it can, of all that it has room for.
    fn hold_repair(&mut self, slots: u64) {
        for slot in 0..slots {
            let first = self.next + slot % (CAPACITY / COMBINED) * COMBINED;
            let frames = self.repair(first);
            self.send(&frames);
        }
    }

    fn jump_over_repair(&mut self) -> Vec<u8> {
        self.hold_repair(HELD);
        self.jump()
    }

    fn sources_beside_repair(&mut self) -> Vec<u8> {
        let frames = self.jump();
        self.send(&frames);
        self.hold_repair(HELD);
        let first = self.next;
        filled(|n| {
            let id = n % 8 * COMBINED + n / 8;
            source(first + id, id, &[])
        })
    }

    /// The repair speaks of symbols that are known and leave when the next ones come.
    fn push_out_repair(&mut self) -> Vec<u8> {
        let frames = self.jump();
        self.send(&frames);
        for n in 1..COMBINED {
            let frames = source(self.next + n - 1, n - 1, &[1; SYMBOL]);
            self.send(&frames);
        }
        let first = self.next;
        self.next += COMBINED - 1;
        // Each speaks of known ones and of some that are not.
        for slot in 0..HELD {
            let frames = self.repair(first + slot + 1);
            self.send(&frames);
        }
        source(self.next + CAPACITY - 1, CAPACITY - 1, &[])
    }

    fn repair_beside_repair(&mut self) -> Vec<u8> {
        let frames = self.jump();
        self.send(&frames);
        self.hold_repair(HELD - 1);
        let (first, newest) = (self.next, self.repair);
        let slots = CAPACITY / COMBINED;
        // Those that are held already, once more.
        filled(|n| {
            let slot = (HELD - 2 - n) % slots;
            repair(newest - n, first + slot * COMBINED, &[])
        })
    }

    /// One more than what is missing are known or held: the last repair decodes them all.
    fn solve_all(&mut self) -> Vec<u8> {
        let frames = self.jump();
        self.send(&frames);
        let first = self.next;
        for n in HELD..COMBINED {
            let frames = source(first + n, n, &[1; SYMBOL]);
            self.send(&frames);
        }
        for _ in 1..HELD {
            let frames = self.repair(first);
            self.send(&frames);
        }
        self.next = first + COMBINED;
        self.repair(first)
    }

    fn control_in_new_lanes(&mut self) -> Vec<u8> {
        filled(|_| {
            self.number = self.number.wrapping_add(1);
            control(self.number, self.number % 1_024, self.number)
        })
    }

    fn control_back_and_forth(&mut self) -> Vec<u8> {
        filled(|n| {
            let ahead = if n.is_multiple_of(2) { 16_000 } else { 0 };
            self.number = self.number.wrapping_add(ahead);
            control(self.number.wrapping_sub(16_000 - ahead), 0, self.number)
        })
    }
}

/// Fills a datagram with frames.
fn filled(mut frame: impl FnMut(u64) -> Vec<u8>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut longest = 0;
    for n in 0.. {
        if all.len() + longest > ROOM {
            break;
        }
        let next = frame(n);
        longest = longest.max(next.len());
        all.extend(next);
    }
    all
}

fn source(id: u64, back: u64, symbol: &[u8]) -> Vec<u8> {
    let numbers = [0, id, back, symbol.len() as u64].map(varint).concat();
    [&[0x18], &numbers[..], symbol].concat()
}

fn repair(id: u64, first: u64, payload: &[u8]) -> Vec<u8> {
    let numbers = [0, id, first, COMBINED, payload.len() as u64].map(varint).concat();
    [&[0x19], &numbers[..], payload].concat()
}

/// Sequenced, of class control, 10 s to live.
fn control(number: u32, lane: u32, lane_number: u32) -> Vec<u8> {
    let numbers = [number, lane_number, 0].map(u32::to_le_bytes).concat();
    let rest = [u64::from(lane), 1 << 20, 10_000, 0].map(varint).concat();
    [&[0x10, 1, 3 | 2 << 2], &numbers[..], &rest].concat()
}

/// As many as fit, each of 32 ranges of one packet.
fn acknowledgements() -> Vec<u8> {
    filled(|_| {
        let ranges = [[64_u64, 31, 0].map(varint).concat(), vec![0; 62]].concat();
        [&[0x02, 0], &[0; 8][..], &[0, 0], &ranges].concat()
    })
}

fn varint(value: u64) -> Vec<u8> {
    match value {
        0..=0x3f => vec![value as u8],
        0x40..=0x3fff => (value as u16 | 1 << 14).to_be_bytes().into(),
        0x4000..=0x3fff_ffff => (value as u32 | 2 << 30).to_be_bytes().into(),
        _ => (value | 3 << 62).to_be_bytes().into(),
    }
}
