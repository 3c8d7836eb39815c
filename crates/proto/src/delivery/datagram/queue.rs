//! The sender's queue of plain packets: short, and dropped from its oldest end.
//!
//! When a link grows thin, what waits longest is worth least: dropping it keeps the queue's delay
//! bounded. Where RTP shows frames, whole ones are dropped [specs/delivery.md §5] (rule 8):
//! ```text
//! a frame that has begun to leave goes on as long as its pieces come in time for the player
//! one of which nothing has left is dropped sooner than other packets, and all of it with its first
//! piece: what begins late on a thin link will not be whole
//! ```
//! Otherwise a link that carries half of a stream would bring the first half of each of its frames,
//! and not one of them whole. Where paths lose much, packets are dropped one by one: they wait for
//! the end of bursts, and frames lack pieces whatever is dropped here. A queue belongs to one tier
//! (telemetry, bulk). Which path is served is not decided here [specs/delivery.md §5] (rule 1).

use std::collections::VecDeque;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::Sequence;
use super::again::{Again, Expected};
use super::frames::Frames;
use super::kept::Kept;
use crate::ids::PathId;
use crate::select::{Class, RtpFrame};
use crate::wire::DatagramFrame;

/// What a packet costs beside its payload, bytes: bounds the number of tiny packets as well.
const PACKET_OVERHEAD: usize = 64;
/// What is sent again waits behind new packets while one of those has waited for this part of its
/// time: half of what makes a viewer's picture stutter.
const CROWDED: u32 = 3;
/// Of the life of a frame, when it begins to leave at the latest on paths that lose little: later,
/// the path is so slow that there is no time for the rest of it.
const BEGINS: (u32, u32) = (2, 5);

/// Hands a packet to [`DatagramQueue::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The consumer at the other end.
    pub(crate) channel: u8,
    /// Its class: telemetry or bulk.
    pub(crate) class: Class,
    /// Whether the receiver restores its order (TCP).
    pub(crate) resequence: bool,
    /// Where it is RTP, and may be sent again.
    pub(crate) rtp: Option<RtpPiece>,
    /// The packet.
    pub(crate) payload: Vec<u8>,
}

/// Says what is known of a packet of RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpPiece {
    /// The frame that it is a piece of.
    pub(crate) frame: RtpFrame,
    /// For how long it is of use.
    pub(crate) life: Duration,
}

/// Keeps packets until a path has room for them or they are too old.
///
/// Only one queue of a session may hold packets to resequence, and only one may replicate: each
/// queue counts for itself, and the receiver has one [`super::Resequencer`].
#[derive(Debug)]
pub(crate) struct DatagramQueue {
    max_age: Duration,
    max_bytes: usize,
    /// How many bytes more the session may hold of what can be lost.
    room: usize,
    packets: VecDeque<Waiting>,
    /// Number of packets that have left at the front; the place of `packets[0]`.
    front: u64,
    bytes: usize,
    /// How far each path has come where packets are replicated; empty: each packet goes once.
    replicas: SmallVec<[Cursor; 4]>,
    /// The packet that left last, kept while its frame is read.
    left: Option<Waiting>,
    again: Again,
    /// Frames of which a piece has left, and those of which one was dropped.
    begun: Frames,
    broken: Frames,
    /// How long a packet that leaves now takes to arrive.
    reach: Duration,
    /// Whether paths lose much.
    lossy: bool,
    /// Whether no path works, and what grew old meanwhile.
    outage: bool,
    kept: Kept,
    next_ordered: u32,
    next_replicated: u32,
    dropped: u64,
}

#[derive(Debug)]
struct Waiting {
    packet: Plain,
    since: Instant,
    /// Its number, once a path has taken it.
    sequence: Option<Sequence>,
    is_taken: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    path: PathId,
    place: u64,
}

impl DatagramQueue {
    /// Starts empty. Packets older than `max_age` are dropped, and the oldest ones when there are
    /// more than `max_bytes`.
    pub(crate) fn new(max_age: Duration, max_bytes: usize) -> Self {
        Self {
            max_age,
            max_bytes,
            room: usize::MAX,
            packets: VecDeque::new(),
            front: 0,
            bytes: 0,
            replicas: SmallVec::new(),
            left: None,
            again: Again::default(),
            begun: Frames::default(),
            broken: Frames::default(),
            reach: Duration::ZERO,
            lossy: false,
            outage: false,
            kept: Kept::default(),
            next_ordered: 0,
            next_replicated: 0,
            dropped: 0,
        }
    }

    /// Gives every packet to each of these paths (`redundant`); with an empty list each packet goes
    /// once. A path that is new in the list begins at the oldest packet.
    pub(crate) fn set_replicas(&mut self, paths: impl IntoIterator<Item = PathId>) {
        let cursor = |path: PathId| {
            let known = self.replicas.iter().find(|cursor| cursor.path == path);
            Cursor { path, place: known.map_or(self.front, |cursor| cursor.place) }
        };
        self.replicas = paths.into_iter().map(cursor).collect();
        self.drop_taken();
    }

    /// Notes how long a packet that leaves now takes to arrive, and whether paths lose much: there
    /// what waits may wait for the end of a burst, and frames lack pieces whatever is dropped here.
    pub(crate) fn set_outlook(&mut self, reach: Duration, lossy: bool) {
        (self.reach, self.lossy) = (reach, lossy);
    }

    /// Notes whether no path works: meanwhile TCP's packets are kept, and they leave first
    /// afterwards.
    pub(crate) fn set_outage(&mut self, now: Instant, outage: bool) {
        self.outage = outage;
        if outage {
            return;
        }
        for packet in self.kept.give_back() {
            self.bytes += cost(&packet);
            self.front -= 1;
            self.packets.push_front(Waiting {
                packet,
                since: now,
                sequence: None,
                is_taken: false,
            });
        }
    }

    /// Appends a packet; makes room at the oldest end.
    pub(crate) fn push(&mut self, now: Instant, packet: Plain) {
        self.drop_stale(now);
        let most = self.max_bytes.min(self.bytes.saturating_add(self.room));
        self.bytes += cost(&packet);
        self.packets.push_back(Waiting { packet, since: now, sequence: None, is_taken: false });
        while self.bytes > most && self.packets.len() > 1 {
            self.drop_front();
        }
    }

    /// Takes the next packet for a path; none when it does not fit into `room` payload bytes.
    ///
    /// With it comes the number under which its fate is to be reported, where it may be sent again.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        path: PathId,
        room: usize,
    ) -> Option<(DatagramFrame<'_>, Option<u32>)> {
        self.drop_stale(now);
        let again = self.is_again_first(now);
        if again || self.is_last_next(path) {
            let len = if again { self.again.next_len() } else { self.again.next_last_len(path) };
            if len? > room {
                return None;
            }
            let taken = if again { self.again.take() } else { self.again.take_last(path) };
            let (number, packet, since) = taken?;
            let sequence = Some(Sequence::Replicated(number));
            return Some((frame(packet, since, sequence), Some(number)));
        }
        let index = self.next_index(path)?;
        if self.packets[index].packet.payload.len() > room {
            return None;
        }
        self.number(index);
        self.packets[index].is_taken = true;
        if let Some(rtp) = self.packets[index].packet.rtp {
            self.begun.insert(rtp.frame, self.packets[index].since);
        }
        let place = self.front + index as u64;
        match self.replicas.iter_mut().find(|cursor| cursor.path == path) {
            Some(cursor) => cursor.place = place + 1,
            None => return self.take_front(),
        }
        self.drop_taken();
        // A packet that every path has taken was moved to `left`.
        let waiting = match place.checked_sub(self.front) {
            Some(index) => self.packets.get(index as usize),
            None => self.left.as_ref(),
        };
        waiting.map(|waiting| (waiting.frame(), None))
    }

    /// Tells whether nothing waits but copies that are to take another path than the packets
    /// themselves did, and one of them may take this one.
    pub(crate) fn is_last_next(&self, path: PathId) -> bool {
        self.packets.is_empty() && self.again.is_empty() && self.again.next_last_len(path).is_some()
    }

    /// Notes what is expected of a packet that has just left and may be sent again.
    pub(crate) fn expect(&mut self, number: u32, expected: Expected) {
        self.again.expect(number, expected);
    }

    /// Notes that a packet arrived that may be sent again.
    pub(crate) fn on_acked(&mut self, number: u32) {
        self.again.on_acked(number);
    }

    /// Notes that a packet was lost that may be sent again; if it leaves now it takes `reach` to
    /// arrive.
    pub(crate) fn on_lost(&mut self, now: Instant, number: u32, reach: Duration) {
        self.again.on_lost(now, number, reach);
    }

    /// Returns the payload length of the next packet for a path.
    pub(crate) fn next_len(&mut self, now: Instant, path: PathId) -> Option<usize> {
        self.drop_stale(now);
        if self.is_again_first(now) {
            return self.again.next_len();
        }
        if self.is_last_next(path) {
            return self.again.next_last_len(path);
        }
        self.next_index(path).map(|index| self.packets[index].packet.payload.len())
    }

    /// Returns which share of the queue is free, in percent: of its bytes or of its age, whichever
    /// is less.
    pub(crate) fn free_percent(&self, now: Instant) -> u8 {
        let oldest = self.packets.front().map_or(Duration::ZERO, |oldest| now.since(oldest.since));
        let by_age = ratio(oldest.as_secs_f64(), self.max_age.as_secs_f64());
        let by_bytes = ratio(self.bytes as f64, self.max_bytes as f64);
        (100.0 * (1.0 - by_age.max(by_bytes))).round() as u8
    }

    /// Returns true when no packet waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.again.is_empty() && self.again.has_no_last()
    }

    /// Returns the bytes that wait, with an allowance for each packet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.again.lost_bytes()
    }

    /// Returns the bytes that are held, those that have left and may be sent again among them.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.again.held() + self.kept.held()
    }

    /// Notes how many bytes more the session may hold of what can be lost.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
        self.again.set_room(room);
    }

    /// Returns how many packets were dropped: too old, or the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns when the oldest packet grows too old.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let oldest = self.packets.front().map(|oldest| self.stale_at(oldest));
        oldest.into_iter().chain(self.again.timeout()).min()
    }

    /// Drops what is too old.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.drop_stale(now);
    }

    /// Tells whether what was lost goes next: it has less time left than what is new, unless that
    /// waits so long already that there is no room for both.
    fn is_again_first(&self, now: Instant) -> bool {
        let oldest = self.packets.front();
        let crowded = oldest.is_some_and(|oldest| now.since(oldest.since) > self.max_age / CROWDED);
        !self.again.is_empty() && !crowded
    }

    /// Takes the packet at the front, and keeps it where it may be sent again.
    fn take_front(&mut self) -> Option<(DatagramFrame<'_>, Option<u32>)> {
        let waiting = self.pop_front()?;
        let Waiting { packet, since, sequence, .. } = match (waiting.packet.rtp, waiting.sequence) {
            (Some(RtpPiece { life, .. }), Some(Sequence::Replicated(number))) => {
                let Waiting { packet, since, sequence, .. } = waiting;
                let packet = self.again.keep(number, packet, since, life);
                return Some((frame(packet, since, sequence), Some(number)));
            }
            _ => self.left.insert(waiting),
        };
        Some((frame(packet, *since, *sequence), None))
    }

    fn next_index(&self, path: PathId) -> Option<usize> {
        let place = if self.replicas.is_empty() {
            self.front
        } else {
            self.replicas.iter().find(|cursor| cursor.path == path)?.place
        };
        let index = place.saturating_sub(self.front) as usize;
        (index < self.packets.len()).then_some(index)
    }

    /// Numbers a packet at the moment when its first copy leaves, so that dropped packets leave no
    /// gap that a receiver would wait for.
    fn number(&mut self, index: usize) {
        let waiting = &mut self.packets[index];
        if waiting.is_taken {
            return;
        }
        if waiting.packet.resequence {
            waiting.sequence = Some(Sequence::Ordered(self.next_ordered));
            self.next_ordered = self.next_ordered.wrapping_add(1);
        } else if !self.replicas.is_empty() || waiting.packet.rtp.is_some() {
            waiting.sequence = Some(Sequence::Replicated(self.next_replicated));
            self.next_replicated = self.next_replicated.wrapping_add(1);
        }
    }

    fn drop_stale(&mut self, now: Instant) {
        self.again.handle_timeout(now);
        while self.packets.front().is_some_and(|oldest| self.is_stale(now, oldest)) {
            self.drop_front();
        }
    }

    /// Tells whether a packet is too old, or a piece of a frame that will not be whole.
    fn is_stale(&self, now: Instant, waiting: &Waiting) -> bool {
        let is_broken = |rtp: RtpPiece| self.broken.contains(rtp.frame, waiting.since);
        let rtp = waiting.packet.rtp.filter(|_| !self.lossy);
        self.stale_at(waiting) <= now || rtp.is_some_and(is_broken)
    }

    fn stale_at(&self, waiting: &Waiting) -> Instant {
        let rtp = waiting.packet.rtp.filter(|_| !self.lossy);
        let Some(rtp) = rtp else { return waiting.since + self.max_age };
        if self.begun.contains(rtp.frame, waiting.since) {
            return waiting.since + rtp.life.saturating_sub(self.reach).max(self.max_age);
        }
        waiting.since + (rtp.life * BEGINS.0 / BEGINS.1).min(self.max_age)
    }

    /// Lets go of packets at the front that every path has taken.
    fn drop_taken(&mut self) {
        while let Some(least) = self.replicas.iter().map(|cursor| cursor.place).min()
            && least > self.front
            && !self.packets.is_empty()
        {
            self.left = self.pop_front();
        }
    }

    fn drop_front(&mut self) {
        let Some(waiting) = self.pop_front().filter(|waiting| !waiting.is_taken) else { return };
        if self.outage && waiting.packet.resequence {
            self.dropped += self.kept.keep(waiting.packet);
            return;
        }
        self.dropped += 1;
        if let Some(rtp) = waiting.packet.rtp.filter(|_| !self.lossy)
            && self.broken.insert(rtp.frame, waiting.since)
        {
            self.again.forget_frame(rtp.frame);
        }
    }

    fn pop_front(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.front += 1;
        self.bytes -= cost(&waiting.packet);
        Some(waiting)
    }
}

impl Waiting {
    fn frame(&self) -> DatagramFrame<'_> {
        frame(&self.packet, self.since, self.sequence)
    }
}

fn frame(packet: &Plain, since: Instant, sequence: Option<Sequence>) -> DatagramFrame<'_> {
    DatagramFrame {
        channel: packet.channel,
        class: packet.class,
        sequence: sequence.map(Sequence::to_wire),
        submitted_us: since.as_micros() as u32,
        payload: &packet.payload,
    }
}

fn cost(packet: &Plain) -> usize {
    packet.payload.len() + PACKET_OVERHEAD
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const A: PathId = PathId(0);
    const B: PathId = PathId(1);

    fn packet(tag: u8, len: usize, resequence: bool) -> Plain {
        Plain { channel: 0, class: Class::Bulk, resequence, rtp: None, payload: vec![tag; len] }
    }

    /// A packet of RTP, of a frame.
    fn piece(tag: u8, timestamp: u32) -> Plain {
        let frame = RtpFrame { source: 7, timestamp };
        Plain { rtp: Some(RtpPiece { frame, life: 250 * MS }), ..packet(tag, 100, false) }
    }

    fn take(queue: &mut DatagramQueue, now: Instant, path: PathId) -> Option<(u8, Option<u32>)> {
        queue.poll(now, path, 2_000).map(|(frame, _)| (frame.payload[0], frame.sequence))
    }

    #[test]
    fn oldest_packets_make_room_and_are_counted() {
        let mut queue = DatagramQueue::new(150 * MS, 3 * (1_000 + PACKET_OVERHEAD));
        let now = Instant::from_millis(1);
        (0..5).for_each(|tag| queue.push(now, packet(tag, 1_000, false)));
        assert_eq!((queue.dropped(), queue.free_percent(now)), (2, 0));
        assert_eq!(queue.next_len(now, A), Some(1_000));
        assert_eq!(take(&mut queue, now, A), Some((2, None)));
        assert_eq!(take(&mut queue, now + 149 * MS, B), Some((3, None)));
        assert_eq!(take(&mut queue, now + 150 * MS, B), None);
        assert_eq!((queue.dropped(), queue.bytes(), queue.free_percent(now)), (3, 0, 100));
    }

    #[test]
    fn free_share_falls_with_age_as_well() {
        let mut queue = DatagramQueue::new(100 * MS, 1 << 20);
        queue.push(Instant::ZERO, packet(0, 10, false));
        assert_eq!(queue.free_percent(Instant::from_millis(75)), 25);
        assert_eq!(queue.timeout(), Some(Instant::from_millis(100)));
    }

    #[test]
    fn packet_that_does_not_fit_stays() {
        let mut queue = DatagramQueue::new(100 * MS, 1 << 20);
        queue.push(Instant::ZERO, packet(0, 1_300, false));
        assert!(queue.poll(Instant::ZERO, A, 1_200).is_none());
        assert_eq!(take(&mut queue, Instant::ZERO, B), Some((0, None)));
    }

    #[test]
    fn only_what_is_sent_gets_a_number() {
        let mut queue = DatagramQueue::new(100 * MS, 1 << 20);
        queue.push(Instant::ZERO, packet(0, 10, true));
        queue.push(Instant::from_millis(60), packet(1, 10, false));
        queue.push(Instant::from_millis(60), packet(2, 10, true));
        let now = Instant::from_millis(110);
        assert_eq!(take(&mut queue, now, A), Some((1, None)));
        assert_eq!(take(&mut queue, now, A), Some((2, Some(Sequence::Ordered(0).to_wire()))));
    }

    #[test]
    fn replicated_packets_go_to_every_path_under_one_number() {
        let mut queue = DatagramQueue::new(100 * MS, 1 << 20);
        queue.set_replicas([A, B]);
        let now = Instant::ZERO;
        (0..3).for_each(|tag| queue.push(now, packet(tag, 10, tag == 1)));
        let expected = [
            Some((0, Some(Sequence::Replicated(0).to_wire()))),
            Some((1, Some(Sequence::Ordered(0).to_wire()))),
            Some((2, Some(Sequence::Replicated(1).to_wire()))),
        ];
        for path in [A, B] {
            for expected in expected {
                assert_eq!(take(&mut queue, now, path), expected);
            }
            assert_eq!(take(&mut queue, now, path), None);
        }
        assert!(queue.is_empty());
        assert_eq!(take(&mut queue, now, PathId(2)), None);
    }

    #[test]
    fn what_was_lost_goes_again_under_its_number_unless_new_packets_wait_long() {
        let mut queue = DatagramQueue::new(150 * MS, 1 << 20);
        let rtp = |tag| piece(tag, 0);
        let now = Instant::from_millis(1_000);
        (0..3).for_each(|tag| queue.push(now, rtp(tag)));
        queue.push(now, packet(3, 100, false));
        for number in 0..3_u32 {
            let (frame, name) = queue.poll(now, A, 2_000).expect("a packet");
            assert_eq!((frame.sequence, name), (Some(number), Some(number)));
        }
        queue.on_acked(0);
        queue.on_lost(now + 40 * MS, 1, 20 * MS);
        queue.on_lost(now + 40 * MS, 2, 20 * MS);
        assert_eq!(take(&mut queue, now + 40 * MS, B), Some((1, Some(1))));
        assert_eq!(take(&mut queue, now + 60 * MS, B), Some((3, None)), "it waits for 60 ms");
        assert_eq!(queue.bytes(), 100);
        assert_eq!(take(&mut queue, now + 60 * MS, B), Some((2, Some(2))));
        assert!(queue.is_empty());
        queue.on_lost(now + 200 * MS, 1, 20 * MS);
        assert_eq!(queue.timeout(), Some(now + 230 * MS));
        assert_eq!(take(&mut queue, now + 230 * MS, B), None, "it would come too late");
    }

    #[test]
    fn a_frame_that_began_to_leave_goes_on_and_one_that_did_not_is_dropped_whole() {
        let mut queue = DatagramQueue::new(150 * MS, 1 << 20);
        queue.set_outlook(30 * MS, false);
        // Two frames of three packets, 2 ms apart.
        for tag in 0..6 {
            let now = Instant::ZERO + 33 * MS * u32::from(tag / 3) + 2 * MS * u32::from(tag % 3);
            queue.push(now, piece(tag, u32::from(tag / 3)));
        }
        let at = |ms: u32| Instant::ZERO + ms * MS;
        assert_eq!(take(&mut queue, at(90), A), Some((0, Some(0))));
        assert_eq!(queue.timeout(), Some(at(222)));
        queue.push(at(130), piece(6, 1));
        assert_eq!(take(&mut queue, at(134), A), Some((1, Some(1))));
        assert_eq!(take(&mut queue, at(170), A), Some((2, Some(2))), "old, but in time");
        assert_eq!((take(&mut queue, at(170), A), queue.dropped()), (None, 4), "a late piece too");
    }

    #[test]
    fn a_frame_begins_in_time_for_the_rest_of_it_where_paths_lose_little() {
        for (lossy, begins) in [(false, 100), (true, 150)] {
            let mut queue = DatagramQueue::new(150 * MS, 1 << 20);
            queue.set_outlook(30 * MS, lossy);
            queue.push(Instant::ZERO, piece(0, 0));
            assert_eq!(queue.timeout(), Some(Instant::ZERO + begins * MS));
        }
    }

    #[test]
    fn nothing_is_left_of_a_frame_that_comes_too_late() {
        let mut queue = DatagramQueue::new(150 * MS, 1 << 20);
        queue.set_outlook(30 * MS, false);
        let now = Instant::ZERO;
        (0..3).for_each(|tag| queue.push(now, piece(tag, 0)));
        assert_eq!(take(&mut queue, now, A), Some((0, Some(0))));
        assert_eq!(take(&mut queue, now + 219 * MS, A), Some((1, Some(1))));
        queue.on_lost(now + 200 * MS, 0, 30 * MS);
        assert_eq!(take(&mut queue, now + 220 * MS, A), None);
        assert!(queue.is_empty() && queue.timeout().is_none());
    }

    #[test]
    fn path_that_leaves_the_list_holds_nothing_back() {
        let mut queue = DatagramQueue::new(100 * MS, 1 << 20);
        queue.set_replicas([A, B]);
        queue.push(Instant::ZERO, packet(0, 10, false));
        take(&mut queue, Instant::ZERO, A);
        queue.set_replicas([A]);
        assert!(queue.is_empty());
        assert_eq!(queue.dropped(), 0);
    }
}
