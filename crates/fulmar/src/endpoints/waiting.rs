//! What waits for an application that takes nothing at the moment: nothing of it is given once it
//! has outlived its time.
//!
//! ```text
//! a newer set-point of a stream comes     → the one that waits goes [`Policy::newest_counts`]
//! a frame's time to live ends             → it goes, counted, whatever has room
//! more bytes wait than the bound          → the oldest go, counted
//! a part of a frame has left              → the rest follows; where its time has ended meanwhile,
//!                                           with a wrong checksum, so that the stream stays whole
//!                                           and the frame is not taken
//! ```
//!
//! What the kernel has taken cannot be taken back. Each port keeps that small where the kernel lets
//! it: docs/mavlink.md has the list.
//!
//! [`Policy::newest_counts`]: proto::select::Policy::newest_counts

use std::collections::VecDeque;

use proto::select::{Class, MavlinkFrames, Policy};
use proto::{Duration, Instant};

/// A port that has taken nothing for so long is in trouble: a driver's queue of 20 ms, or a
/// program's turn, is over by then.
const TAKES_NOTHING: Duration = Duration::from_secs(1);

/// Something for an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed<'a> {
    pub(crate) class: Class,
    /// When it is of no use any more.
    pub(crate) expires: Option<Instant>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Passed<'a> {
    /// A frame of this host, made here, or said by one application to the others when it came.
    pub(crate) fn of_host(came: Instant, class: Class, bytes: &'a [u8]) -> Self {
        let life = match class {
            Class::Liveness => Policy::LIVENESS.ttl,
            _ => Policy::TELEMETRY.ttl,
        };
        Self { class, expires: Some(came + life), bytes }
    }
}

/// What became of what was given to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    /// It has left whole.
    pub(super) given: u64,
    /// It outlived its time before it could leave, or a newer one took its place.
    pub(super) too_old: u64,
    /// There was no room for it.
    pub(super) dropped: u64,
}

impl std::ops::AddAssign for Fates {
    fn add_assign(&mut self, other: Self) {
        self.given += other.given;
        self.too_old += other.too_old;
        self.dropped += other.dropped;
    }
}

/// The queue of one application.
pub(super) struct Waiting {
    /// Goes before the rest.
    urgent: VecDeque<Entry>,
    rest: VecDeque<Entry>,
    bytes: usize,
    most: usize,
    /// What is left of a frame of which a part has left.
    begun: Option<Entry>,
    /// Since when nothing was taken, though something waited.
    refused_since: Option<Instant>,
    fates: Fates,
}

#[derive(Debug)]
struct Entry {
    bytes: Vec<u8>,
    /// How much of that has left.
    left: usize,
    /// Its checksum was made wrong.
    is_spoilt: bool,
    expires: Option<Instant>,
    stream: Option<Stream>,
}

/// A stream whose newest frame counts: source, message and target.
type Stream = ((u8, u8), u32, (u8, u8));

impl Waiting {
    /// Starts empty; of more than `most` bytes the oldest are dropped.
    pub(super) fn new(most: usize) -> Self {
        let (urgent, rest, fates) = Default::default();
        Self { urgent, rest, bytes: 0, most, begun: None, refused_since: None, fates }
    }

    /// Takes another bound.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Appends something; what is urgent, behind what else is.
    pub(super) fn push(&mut self, now: Instant, passed: &Passed<'_>, urgent: bool) {
        let Passed { class, expires, bytes } = *passed;
        let stream = (class == Class::Live).then(|| stream_of(bytes)).flatten();
        let queue = if urgent { &mut self.urgent } else { &mut self.rest };
        if stream.is_some() {
            // It is among the last, where the stream is one that goes on.
            let older = queue.iter().rposition(|entry| entry.stream == stream);
            if let Some(entry) = older.and_then(|at| queue.remove(at)) {
                self.bytes -= entry.bytes.len();
                self.fates.too_old += 1;
            }
        }
        self.bytes += bytes.len();
        queue.push_back(Entry {
            bytes: bytes.to_vec(),
            left: 0,
            is_spoilt: false,
            expires,
            stream,
        });
        if self.bytes <= self.most {
            return;
        }
        self.drop_old(now);
        while self.bytes > self.most
            && let Some(entry) = self.rest.pop_front().or_else(|| self.urgent.pop_front())
        {
            self.bytes -= entry.bytes.len();
            let is_old = entry.is_old(now);
            self.fates.too_old += u64::from(is_old);
            self.fates.dropped += u64::from(!is_old);
        }
    }

    /// Drops what is too old at the front of each queue: what is behind that is looked at when it
    /// gets there.
    fn drop_old(&mut self, now: Instant) {
        for queue in [&mut self.urgent, &mut self.rest] {
            while queue.front().is_some_and(|entry| entry.is_old(now))
                && let Some(old) = queue.pop_front()
            {
                self.bytes -= old.bytes.len();
                self.fates.too_old += 1;
            }
        }
    }

    /// Returns what is to leave next.
    pub(super) fn next(&mut self, now: Instant) -> Option<&[u8]> {
        if let Some(begun) = &mut self.begun {
            if begun.is_old(now) {
                begun.spoil();
            }
        } else {
            self.drop_old(now);
        }
        let first = || self.urgent.front().or_else(|| self.rest.front());
        let entry = self.begun.as_ref().or_else(first)?;
        Some(&entry.bytes[entry.left..])
    }

    /// Tells whether what is to leave next has a time to live.
    pub(super) fn expires_next(&self) -> bool {
        let first = || self.urgent.front().or_else(|| self.rest.front());
        self.begun.as_ref().or_else(first).is_some_and(|entry| entry.expires.is_some())
    }

    /// Notes that so many bytes of [`Waiting::next`] have left.
    pub(super) fn on_left(&mut self, length: usize) {
        self.refused_since = None;
        let first = || self.urgent.pop_front().or_else(|| self.rest.pop_front());
        let Some(mut entry) = self.begun.take().or_else(first) else { return };
        if entry.left == 0 {
            self.bytes -= entry.bytes.len();
        }
        entry.left += length;
        if entry.left < entry.bytes.len() {
            self.begun = Some(entry);
        } else if entry.is_spoilt {
            self.fates.too_old += 1;
        } else {
            self.fates.given += 1;
        }
    }

    /// Notes that nothing of it could leave, and that the application has taken nothing else.
    pub(super) fn on_refused(&mut self, now: Instant) {
        self.refused_since.get_or_insert(now);
    }

    /// Notes that the application has taken something.
    pub(super) fn on_taken(&mut self) {
        self.refused_since = None;
    }

    /// Tells for how long nothing was taken, where that is long.
    pub(super) fn takes_nothing_for(&self, now: Instant) -> Option<Duration> {
        let time = self.refused_since.map(|since| now.since(since));
        time.filter(|time| *time >= TAKES_NOTHING)
    }

    /// Returns the bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops everything: the application is gone.
    pub(super) fn clear(&mut self) {
        let begun = usize::from(self.begun.take().is_some());
        self.fates.dropped += (self.urgent.len() + self.rest.len() + begun) as u64;
        self.urgent.clear();
        self.rest.clear();
        (self.bytes, self.refused_since) = (0, None);
    }

    /// Returns what became of what was pushed, since this was asked last.
    pub(super) fn take_fates(&mut self) -> Fates {
        std::mem::take(&mut self.fates)
    }
}

impl Entry {
    fn is_old(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Makes the checksum of a MAVLink frame wrong, unless that has left already.
    fn spoil(&mut self) {
        let end = MavlinkFrames::new(&self.bytes).next().map(|frame| frame.checksum_end());
        if let Some(byte) =
            end.filter(|end| *end >= self.left).and_then(|end| self.bytes.get_mut(end))
            && !self.is_spoilt
        {
            *byte = !*byte;
            self.is_spoilt = true;
        }
    }
}

fn stream_of(bytes: &[u8]) -> Option<Stream> {
    let frame = MavlinkFrames::new(bytes).next()?;
    Some(((frame.system, frame.component), frame.message, frame.target()))
}

#[cfg(test)]
mod tests {
    use proto::select::{Tier, Version, encode_frame};

    use super::*;

    const STICKS: u32 = 70;
    const COMMAND: u32 = 76;

    fn frame(message: u32, sequence: u8) -> Vec<u8> {
        encode_frame(Version::V2, sequence, (255, 190), message, &[7; 33][..]).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn push(waiting: &mut Waiting, ms: u64, class: Class, life_ms: u64, bytes: &[u8]) {
        let passed = Passed { class, expires: Some(at(ms + life_ms)), bytes };
        waiting.push(at(ms), &passed, class.tier() == Tier::Control);
    }

    /// Takes everything, a few bytes at a time.
    fn drain(waiting: &mut Waiting, ms: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(next) = waiting.next(at(ms)) {
            let length = next.len().min(7);
            out.extend_from_slice(&next[..length]);
            waiting.on_left(length);
        }
        out
    }

    #[test]
    fn nothing_leaves_beyond_its_time_and_of_a_stream_only_the_newest() {
        let mut waiting = Waiting::new(65_536);
        for number in 0..100 {
            let ms = u64::from(number) * 20;
            push(&mut waiting, ms, Class::Live, 300, &frame(STICKS, number));
            if number % 50 == 0 {
                push(&mut waiting, ms, Class::Control, 2_000, &frame(COMMAND, number));
            }
        }
        assert_eq!(drain(&mut waiting, 2_000), [frame(COMMAND, 50), frame(STICKS, 99)].concat());
        assert_eq!(waiting.take_fates(), Fates { given: 2, too_old: 100, dropped: 0 });
        push(&mut waiting, 3_000, Class::Live, 300, &frame(STICKS, 1));
        assert!(drain(&mut waiting, 3_300).is_empty());
        assert_eq!(waiting.bytes(), 0);
    }

    #[test]
    fn what_is_begun_ends_and_is_not_taken_where_it_is_old() {
        let mut waiting = Waiting::new(65_536);
        let command = frame(COMMAND, 1);
        for (end, is_taken) in [(100, true), (5_000, false)] {
            push(&mut waiting, 0, Class::Control, 2_000, &command);
            waiting.next(at(0)).unwrap();
            waiting.on_left(3);
            push(&mut waiting, end, Class::Control, 2_000, &command);
            let out = [&command[..3], &drain(&mut waiting, end)].concat();
            assert_eq!(out.len(), 2 * command.len());
            let taken = MavlinkFrames::new(&out).count();
            assert_eq!(taken, if is_taken { 2 } else { 1 }, "after {end} ms");
            assert_eq!(&out[command.len()..], command);
        }
    }

    #[test]
    fn bytes_are_bounded_and_the_oldest_of_the_rest_go_first() {
        let mut waiting = Waiting::new(1_000);
        let command = frame(COMMAND, 0);
        push(&mut waiting, 0, Class::Control, 2_000, &command);
        for number in 0..=255 {
            push(&mut waiting, 1, Class::Telemetry, 1_000, &frame(COMMAND, number));
        }
        assert!(waiting.bytes() <= 1_000);
        let out = drain(&mut waiting, 2);
        assert_eq!(out[..command.len()], command);
        assert!(out.ends_with(&frame(COMMAND, 255)));
        let fates = waiting.take_fates();
        assert_eq!(fates.given + fates.dropped, 257);
    }

    #[test]
    fn who_takes_nothing_is_known_by_it() {
        let mut waiting = Waiting::new(1_000);
        push(&mut waiting, 0, Class::Live, 300, &frame(STICKS, 1));
        waiting.on_refused(at(0));
        waiting.on_refused(at(900));
        assert_eq!(waiting.takes_nothing_for(at(900)), None);
        assert_eq!(waiting.takes_nothing_for(at(1_500)), Some(Duration::from_millis(1_500)));
        waiting.on_left(1);
        assert_eq!(waiting.takes_nothing_for(at(1_600)), None);
    }
}
