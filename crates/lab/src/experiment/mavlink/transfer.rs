//! A vehicle and a ground station that move parameters and a file over MAVLink, without sockets and
//! without a clock.
//!
//! ```text
//! ground                                   vehicle
//! PARAM_REQUEST_LIST ─────────────────────→
//!                    ←──────── PARAM_VALUE … paced; what is missing is asked for by its index
//! BurstReadFile 0    ─────────────────────→
//!                    ←──────── chunks …      paced; what is missing is read one by one
//! ReadFile, one after another, each when the one before has been answered
//! ```
//! Both ends wait as QGroundControl 4 does: a second without news, then they ask again.

use std::collections::VecDeque;

use proto::select::{Version, encode_frame};
use units::{Duration, Instant};

/// Message ids.
const PARAM_REQUEST_READ: u32 = 20;
const PARAM_REQUEST_LIST: u32 = 21;
const PARAM_VALUE: u32 = 22;
const FILE_TRANSFER_PROTOCOL: u32 = 110;
/// Where names begin in the payloads of parameters is of no interest here: these are their lengths.
const PARAM_VALUE_BYTES: usize = 25;
const PARAM_REQUEST_READ_BYTES: usize = 20;
/// Bytes of a file in one message; before them come three bytes of addresses and twelve of a
/// header.
pub(crate) const CHUNK: usize = 239;
const FTP_HEADER: usize = 15;
/// Operations of the file transfer protocol.
const READ_FILE: u8 = 5;
const BURST_READ_FILE: u8 = 15;
const ACK: u8 = 128;
/// After this long without news the ground asks again.
const RETRY: Duration = Duration::from_secs(1);
/// Parameters that are asked for at once.
const AT_ONCE: usize = 10;
/// System and component of both.
const VEHICLE: (u8, u8) = (1, 1);
const GROUND: (u8, u8) = (255, 190);

/// What is moved at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The list of parameters.
    Parameters,
    /// A file in a burst.
    Burst,
    /// Its first chunks once more, one by one.
    Reads,
}

/// How much is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferPlan {
    pub(crate) parameters: u16,
    pub(crate) chunks: u32,
    pub(crate) reads: u32,
    /// From one message of the vehicle to the next.
    pub(crate) pace: Duration,
}

/// What one step took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) began: Instant,
    /// None when it was not finished.
    pub(crate) seconds: Option<f64>,
    /// Requests of the ground.
    pub(crate) requests: u32,
}

/// Reads id and payload of a MAVLink 2 frame; zeros that were cut off are put back.
pub(crate) fn read_frame(frame: &[u8]) -> Option<(u32, Vec<u8>)> {
    let [0xFD, len, _, _, _, _, _, a, b, c, rest @ ..] = frame else { return None };
    let mut payload = rest.get(..usize::from(*len))?.to_vec();
    payload.resize(255, 0);
    Some((u32::from_le_bytes([*a, *b, *c, 0]), payload))
}

/// Writes a frame of the vehicle or of the ground.
fn frame(source: (u8, u8), id: u32, payload: &[u8]) -> Vec<u8> {
    encode_frame(Version::V2, 0, source, id, payload).unwrap_or_default()
}

fn ftp(source: (u8, u8), opcode: u8, size: u8, offset: u32, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; FTP_HEADER + CHUNK];
    (payload[1], payload[2]) = if source == GROUND { VEHICLE } else { GROUND };
    (payload[6], payload[7]) = (opcode, size);
    payload[11..15].copy_from_slice(&offset.to_le_bytes());
    payload[FTP_HEADER..FTP_HEADER + data.len()].copy_from_slice(data);
    frame(source, FILE_TRANSFER_PROTOCOL, &payload)
}

fn ftp_fields(payload: &[u8]) -> Option<(u8, u32)> {
    let offset = payload.get(11..15)?.try_into().ok()?;
    Some((*payload.get(6)?, u32::from_le_bytes(offset)))
}

/// Answers what the ground asks.
#[derive(Debug)]
pub(crate) struct Vehicle {
    plan: TransferPlan,
    waiting: VecDeque<Vec<u8>>,
    next: Instant,
}

impl Vehicle {
    pub(crate) fn new(plan: TransferPlan) -> Self {
        Self { plan, waiting: VecDeque::new(), next: Instant::ZERO }
    }

    pub(crate) fn handle(&mut self, id: u32, payload: &[u8]) {
        let plan = self.plan;
        match id {
            PARAM_REQUEST_LIST => {
                self.waiting.extend((0..plan.parameters).map(|index| parameter(plan, index)));
            }
            PARAM_REQUEST_READ => {
                let index = u16::from_le_bytes([payload[0], payload[1]]);
                self.waiting.push_back(parameter(plan, index));
            }
            FILE_TRANSFER_PROTOCOL => {
                let Some((opcode, offset)) = ftp_fields(payload) else { return };
                let first = offset / CHUNK as u32;
                let last = if opcode == BURST_READ_FILE { plan.chunks } else { first + 1 };
                self.waiting.extend((first..last).map(chunk));
            }
            _ => {}
        }
    }

    /// Returns the next frame that is due, or when one will be.
    pub(crate) fn poll(&mut self, now: Instant) -> Result<Vec<u8>, Option<Instant>> {
        if self.waiting.is_empty() {
            return Err(None);
        }
        if now < self.next {
            return Err(Some(self.next));
        }
        // What a late wake-up missed is made up for, up to a few messages.
        self.next = (self.next + self.plan.pace).max(now - self.plan.pace * 4);
        self.waiting.pop_front().ok_or(None)
    }
}

fn parameter(plan: TransferPlan, index: u16) -> Vec<u8> {
    let mut payload = [7; PARAM_VALUE_BYTES];
    payload[4..6].copy_from_slice(&plan.parameters.to_le_bytes());
    payload[6..8].copy_from_slice(&index.to_le_bytes());
    frame(VEHICLE, PARAM_VALUE, &payload)
}

fn chunk(number: u32) -> Vec<u8> {
    ftp(VEHICLE, ACK, CHUNK as u8, number * CHUNK as u32, &[number as u8 | 1; CHUNK])
}

/// Asks until it has everything, one step after the other.
#[derive(Debug)]
pub(crate) struct Ground {
    plan: TransferPlan,
    step: Option<Step>,
    missing: Vec<bool>,
    left: usize,
    began: Instant,
    news: Instant,
    /// The first chunk is asked for alone from here on: the burst is over.
    one_by_one: bool,
    out: VecDeque<Vec<u8>>,
    requests: u32,
    taken: [Taken; 3],
}

impl Ground {
    /// Begins with the parameters at `now`.
    pub(crate) fn new(plan: TransferPlan, now: Instant) -> Self {
        let mut ground = Self {
            plan,
            step: None,
            missing: Vec::new(),
            left: 0,
            began: now,
            news: now,
            one_by_one: false,
            out: VecDeque::new(),
            requests: 0,
            taken: [Taken { began: now, seconds: None, requests: 0 }; 3],
        };
        ground.begin(now, Step::Parameters);
        ground
    }

    /// Returns what each step took, in their order.
    pub(crate) fn taken(&self) -> [Taken; 3] {
        self.taken
    }

    pub(crate) fn is_done(&self) -> bool {
        self.step.is_none()
    }

    pub(crate) fn handle(&mut self, now: Instant, id: u32, payload: &[u8]) {
        let number = match (self.step, id) {
            (Some(Step::Parameters), PARAM_VALUE) => {
                usize::from(u16::from_le_bytes([payload[6], payload[7]]))
            }
            (Some(Step::Burst | Step::Reads), FILE_TRANSFER_PROTOCOL) => {
                match ftp_fields(payload) {
                    Some((ACK, offset)) => offset as usize / CHUNK,
                    _ => return,
                }
            }
            _ => return,
        };
        let Some(missing) = self.missing.get_mut(number).filter(|missing| **missing) else {
            return;
        };
        (*missing, self.news) = (false, now);
        self.left -= 1;
        if self.left == 0 {
            return self.end(now);
        }
        // The last chunk of a burst ends it.
        self.one_by_one |= number + 1 == self.missing.len() || self.step == Some(Step::Reads);
        if self.one_by_one && self.step != Some(Step::Parameters) {
            self.ask();
        }
    }

    /// Returns the next frame to send, or when to ask again.
    pub(crate) fn poll(&mut self, now: Instant, limit: Duration) -> Result<Vec<u8>, Instant> {
        if self.step.is_some() && now.since(self.began) > limit {
            // Given up: the next step may do better.
            self.next_step(now, None);
        }
        if self.step.is_some() && now.since(self.news) >= RETRY {
            self.news = now;
            self.one_by_one = self.missing.first() != Some(&true) || self.left < self.missing.len();
            self.ask();
        }
        self.out.pop_front().ok_or(self.news + RETRY)
    }

    fn begin(&mut self, now: Instant, step: Step) {
        let count = match step {
            Step::Parameters => usize::from(self.plan.parameters),
            Step::Burst => self.plan.chunks as usize,
            Step::Reads => self.plan.reads as usize,
        };
        (self.missing, self.left) = (vec![true; count], count);
        (self.step, self.began, self.news) = (Some(step), now, now);
        (self.one_by_one, self.requests) = (false, 0);
        self.ask();
    }

    /// Asks for everything at first, later for what is missing.
    fn ask(&mut self) {
        let missing = (0..).zip(&self.missing).filter(|(_, missing)| **missing);
        let first: Vec<u32> = missing.map(|(number, _)| number).take(AT_ONCE).collect();
        let before = self.out.len();
        match self.step {
            Some(Step::Parameters) if self.one_by_one => {
                for index in first {
                    let mut payload = [0; PARAM_REQUEST_READ_BYTES];
                    payload[..2].copy_from_slice(&(index as u16).to_le_bytes());
                    (payload[2], payload[3]) = VEHICLE;
                    self.out.push_back(frame(GROUND, PARAM_REQUEST_READ, &payload));
                }
            }
            Some(Step::Parameters) => {
                self.out.push_back(frame(GROUND, PARAM_REQUEST_LIST, &[VEHICLE.0, VEHICLE.1]));
            }
            Some(Step::Burst) if !self.one_by_one => {
                self.out.push_back(ftp(GROUND, BURST_READ_FILE, CHUNK as u8, 0, &[]));
            }
            Some(Step::Burst | Step::Reads) => {
                let offset = first.first().map_or(0, |number| number * CHUNK as u32);
                self.out.push_back(ftp(GROUND, READ_FILE, CHUNK as u8, offset, &[]));
            }
            None => {}
        }
        self.requests += (self.out.len() - before) as u32;
    }

    fn end(&mut self, now: Instant) {
        self.next_step(now, Some(now.since(self.began).as_secs_f64()));
    }

    fn next_step(&mut self, now: Instant, seconds: Option<f64>) {
        let taken = Taken { began: self.began, seconds, requests: self.requests };
        let Some(step) = self.step else { return };
        self.taken[step as usize] = taken;
        match step {
            Step::Parameters => self.begin(now, Step::Burst),
            Step::Burst => self.begin(now, Step::Reads),
            Step::Reads => self.step = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends with a millisecond each way, and a way back that loses every `nth` frame.
    fn run(nth: usize) -> [Taken; 3] {
        let pace = Duration::from_millis(2);
        let plan = TransferPlan { parameters: 100, chunks: 50, reads: 10, pace };
        let mut now = Instant::from_millis(1_000);
        let (mut vehicle, mut ground) = (Vehicle::new(plan), Ground::new(plan, now));
        let mut count = 0;
        while !ground.is_done() {
            while let Ok(asked) = ground.poll(now, Duration::from_secs(60)) {
                let (id, payload) = read_frame(&asked).expect("a frame");
                vehicle.handle(id, &payload);
            }
            now += Duration::from_millis(1);
            while let Ok(answer) = vehicle.poll(now) {
                count += 1;
                let (id, payload) = read_frame(&answer).expect("a frame");
                if count % nth != 0 {
                    ground.handle(now, id, &payload);
                }
            }
        }
        ground.taken()
    }

    #[test]
    fn everything_is_asked_for_once_where_nothing_is_lost() {
        let [parameters, burst, reads] = run(usize::MAX);
        assert_eq!((parameters.requests, burst.requests, reads.requests), (1, 1, 10));
        // 100 every 2 ms, of which the vehicle makes up for six at the beginning.
        assert!(parameters.seconds.is_some_and(|seconds| (0.18..0.2).contains(&seconds)));
    }

    #[test]
    fn what_is_lost_is_asked_for_until_it_comes() {
        let taken = run(7);
        assert!(taken.iter().all(|taken| taken.seconds.is_some_and(|seconds| seconds < 20.0)));
        assert!(taken[0].requests > 10 && taken[1].requests > 5, "{taken:?}");
    }
}
