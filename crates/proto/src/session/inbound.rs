//! The way in, in packet order: open, frames, acknowledgements, delivery.
//!
//! Everything is hostile until the datagram is opened; after that it is a peer's, which may have
//! bugs but not unbounded claims on memory: every table that a frame can grow has its limit.

use units::{Duration, Instant};

use super::messages::{LANES_CHANNEL, LANES_STREAM};
use super::{Role, Session};
use crate::delivery::control::{LaneFloor, Reception};
use crate::delivery::message::{Feedback, PeerClock};
use crate::event::Delivery;
use crate::ids::{PathId, Received};
use crate::limits;
use crate::path::{Path, Route};
use crate::recovery::{AckInfo, Age, Arrival, ClockSample, SentFrame, SentPacket};
use crate::select::Class;
use crate::wire::{self, AckFrame, ControlFrame, DataHeader, DatagramFrame, Frame, Frames};

impl Session {
    /// Opens a data datagram whose header names this session, and returns its frames: the cheap part.
    pub(crate) fn open<'a>(
        &mut self,
        now: Instant,
        received: &Received,
        header: &DataHeader,
        bytes: &'a mut [u8],
    ) -> Option<&'a [u8]> {
        if self.ended || !self.is_welcome(header) {
            self.rejected += 1;
            return None;
        }
        let Ok(opened) = self.keys.open(now, header, bytes) else {
            self.rejected += 1;
            return None;
        };
        if opened.newly_confirmed {
            self.on_connected();
        }
        let Some(path) = self.path_for(now, header, received) else {
            self.rejected += 1;
            return None;
        };
        let len = bytes.len();
        self.paths[path].on_datagram(now, header.packet_number, route(received), len);
        Some(&bytes[opened.plaintext])
    }

    /// Takes what an opened datagram says: the part that may cost much.
    pub(crate) fn handle_opened(
        &mut self,
        now: Instant,
        received: &Received,
        header: &DataHeader,
        frames: &[u8],
    ) {
        if self.ended {
            return;
        }
        let arrival = self.handle_frames(now, header.path, received, frames);
        if let Some(path) = self.path_mut(header.path) {
            path.on_packet_received(now, header.packet_number, arrival);
        }
        self.after_change(now);
    }

    /// Refuses, before any cryptography, what was received before and paths beyond the bound.
    fn is_welcome(&self, header: &DataHeader) -> bool {
        match self.path(header.path) {
            Some(path) => path.is_new(header.packet_number),
            None => {
                self.role == Role::Responder
                    && self.paths.len() < limits::PATHS
                    && !self.retired.contains(&header.path)
            }
        }
    }

    /// Finds the path of an authenticated datagram; the initiator's datagrams open new ones.
    fn path_for(
        &mut self,
        now: Instant,
        header: &DataHeader,
        received: &Received,
    ) -> Option<usize> {
        if self.path(header.path).is_none() {
            self.insert_path(now, header.path, route(received));
        }
        self.paths.iter().position(|path| path.id() == header.path)
    }

    /// Takes the frames of an opened datagram, up to the first that makes no sense. The second symbol or
    /// feedback makes none: no sender adds one, and a full datagram of them would cost milliseconds.
    fn handle_frames(
        &mut self,
        now: Instant,
        path: PathId,
        received: &Received,
        frames: &[u8],
    ) -> Arrival {
        let mut arrival = Arrival { ecn_ce: received.ecn & 3 == 3, ..Arrival::default() };
        let (mut symbols, mut feedback) = (0, 0);
        for frame in Frames::new(frames) {
            symbols += u32::from(matches!(frame, Ok(Frame::Source(_) | Frame::Repair(_))));
            feedback += u32::from(matches!(frame, Ok(Frame::Feedback(_))));
            let Some(frame) = frame.ok().filter(|_| symbols.max(feedback) <= 1) else {
                self.rejected += 1;
                break;
            };
            arrival.ack_eliciting |= frame.is_ack_eliciting();
            arrival.urgent |= is_urgent(&frame);
            self.handle_frame(now, path, received, &frame);
        }
        arrival
    }

    fn handle_frame(&mut self, now: Instant, path: PathId, received: &Received, frame: &Frame<'_>) {
        match frame {
            Frame::Padding(_) | Frame::Ping => {}
            Frame::Ack(ack) => self.handle_ack(now, ack),
            Frame::PathChallenge { token } => {
                if let Some(path) = self.path_mut(path) {
                    path.on_challenge(*token, route(received));
                }
            }
            Frame::PathResponse { token } => self.handle_response(now, *token),
            Frame::PathClose { path } => self.close_path(now, *path),
            Frame::PathAddress { path, address } => {
                self.handle_path_address(now, *path, *address);
            }
            Frame::Control(control) => self.handle_control(now, control),
            Frame::LaneFloor { lane, floor } => {
                self.inbox.handle_floor(now, LaneFloor { lane: *lane, floor: *floor });
            }
            Frame::Datagram(datagram) => self.handle_plain(now, path, datagram),
            Frame::Source(_) | Frame::Repair(_) | Frame::Feedback(_) | Frame::Rank(_) => {
                self.handle_message_frame(now, frame);
            }
            Frame::Dropped(dropped) => self.outbox.on_dropped(dropped),
            Frame::Clock { clock_us } => self.handle_clock(now, path, *clock_us),
            Frame::Close { reason: wire::KEY_IN_USE } => {
                self.refused = true;
                self.end(now, "another one uses our key: two daemons must not have the same");
            }
            Frame::Close { reason: wire::REVOKED } => {
                self.refused = true;
                self.end(now, "the peer does not know our key any more: it was removed there");
            }
            Frame::Close { .. } => self.end(now, "the peer closed it"),
        }
    }

    fn handle_message_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let snapshots = self.snapshots(now);
        let clock = PeerClock { clock: &self.clock };
        let taken = match frame {
            Frame::Source(source) => self.messages.handle_source(now, source, &clock),
            Frame::Repair(repair) => self.messages.handle_repair(now, repair, &clock),
            Frame::Feedback(feedback) => {
                self.messages.handle_feedback(now, Feedback::Window(feedback), &snapshots)
            }
            Frame::Rank(rank) => {
                self.messages.handle_feedback(now, Feedback::Rank(*rank), &snapshots)
            }
            _ => true,
        };
        self.rejected += u64::from(!taken);
    }

    fn handle_ack(&mut self, now: Instant, ack: &AckFrame) {
        let Some(path) = self.path_mut(ack.path) else {
            return;
        };
        let ranges: smallvec::SmallVec<[_; 8]> = ack.ranges.iter().collect();
        let info = AckInfo {
            largest: ack.ranges.largest(),
            received_at_us: ack.received_at_us,
            delay: Duration::from_micros(u64::from(ack.delay_us)),
            ranges: &ranges,
            ecn_ce: ack.ecn_ce,
        };
        let outcome = path.on_ack(now, &info);
        self.apply(now, ack.path, outcome);
    }

    /// Takes the answer to a challenge, whichever path it was for: it may come by another one.
    fn handle_response(&mut self, now: Instant, token: u64) {
        for index in 0..self.paths.len() {
            let outcome = self.paths[index].on_response(now, token);
            let id = self.paths[index].id();
            self.apply(now, id, outcome);
        }
    }

    pub(super) fn on_packet_acked(&mut self, now: Instant, path: PathId, packet: &SentPacket) {
        for frame in &packet.frames {
            match *frame {
                SentFrame::Control { seq } => self.outbox.on_acked(seq),
                SentFrame::Dropped { changes } => self.inbox.on_dropped_told(changes),
                SentFrame::LaneFloor { lane, floor } => {
                    self.outbox.on_floor_acked(LaneFloor { lane, floor });
                }
                SentFrame::Ack { path, largest } => {
                    self.owes_clock = false;
                    if let Some(path) = self.path_mut(path) {
                        path.on_ack_of_ack(largest);
                    }
                }
                SentFrame::Plain { number } => self.bulk.on_acked(number),
                SentFrame::Symbol(symbol) => self.messages.form.on_acked(now, symbol, path),
                SentFrame::PathAddress { path } => self.on_address_told(path, true),
                SentFrame::PathClose { .. } | SentFrame::MtuProbe { .. } => {}
            }
        }
    }

    pub(super) fn on_packet_lost(&mut self, now: Instant, path: PathId, packet: &SentPacket) {
        let congested = self.path(path).is_some_and(Path::has_queue);
        for frame in &packet.frames {
            match *frame {
                SentFrame::Control { seq } => self.outbox.on_lost(now, seq, path),
                SentFrame::LaneFloor { lane, floor } => {
                    self.outbox.on_floor_lost(LaneFloor { lane, floor }, path);
                }
                SentFrame::Plain { number } => self.bulk.on_lost(now, number, self.reach()),
                SentFrame::Symbol(symbol) => {
                    self.messages.form.on_lost(now, symbol, path, congested);
                }
                SentFrame::PathClose { path } => self.closed_paths.push(path),
                SentFrame::PathAddress { path } => self.on_address_told(path, false),
                SentFrame::Ack { .. } | SentFrame::Dropped { .. } | SentFrame::MtuProbe { .. } => {}
            }
        }
    }

    /// Takes the clock of an initiator that cannot know yet whether we know it: it was read after our
    /// Response had come, as an acknowledgement of that would have been. The answer to a probe says more.
    fn handle_clock(&mut self, now: Instant, path: PathId, clock_us: u64) {
        if let (None, Some(path)) = (self.clock.estimate_us(now), self.path_mut(path)) {
            path.want_probe();
        }
        if let Some(sent_at) = self.responded_at {
            self.clock
                .on_sample(now, ClockSample { sent_at, received_at_us: clock_us, acked_at: now });
        }
    }

    fn handle_control(&mut self, now: Instant, control: &ControlFrame<'_>) {
        let age = self.message_age(now, control.submitted_us);
        if self.inbox.handle_control(now, control, age) == Reception::Refused {
            self.rejected += 1;
        }
    }

    fn handle_plain(&mut self, now: Instant, path: PathId, datagram: &DatagramFrame<'_>) {
        let age = self.message_age(now, datagram.submitted_us);
        self.resequencer.handle_datagram(now, path, datagram, age.estimate);
    }

    /// Returns the age of a message of the peer.
    ///
    /// Before the first clock sample all that is known is that it is younger than the session,
    /// because nothing survives from one session to the next.
    pub(super) fn message_age(&self, now: Instant, submitted_us: u32) -> Age {
        let unknown = Age { estimate: Duration::ZERO, error: now.since(self.started) };
        self.clock.age(now, submitted_us).unwrap_or(unknown)
    }

    /// Passes on what has become deliverable, from either delivery.
    pub(super) fn collect_deliveries(&mut self) {
        while let Some(ready) = self.messages.poll_delivery() {
            if (ready.channel, ready.stream) == (LANES_CHANNEL, LANES_STREAM.id) {
                self.handle_carried(self.now, &ready.payload);
                continue;
            }
            let (session, class, stream) = (self.id, Class::Message, Some(ready.stream));
            let (channel, age, bytes) = (ready.channel, ready.age, ready.payload);
            self.accounts.of(class).on_delivered(age);
            self.deliveries.push_back(Delivery { session, channel, class, stream, age, bytes });
        }
        while let Some(ready) = self.inbox.poll_delivery() {
            self.deliver(ready.channel, ready.class, ready.age, ready.payload);
        }
        while let Some(ready) = self.resequencer.poll_delivery() {
            self.deliver(ready.channel, ready.class, ready.age, ready.payload);
        }
    }

    fn deliver(&mut self, channel: u8, class: Class, age: Duration, bytes: Vec<u8>) {
        self.accounts.of(class).on_delivered(age);
        let (session, stream) = (self.id, None);
        self.deliveries.push_back(Delivery { session, channel, class, stream, age, bytes });
    }
}

/// Tells whether the peer waits for the acknowledgement: it learns of silence by it.
fn is_urgent(frame: &Frame<'_>) -> bool {
    matches!(
        frame,
        Frame::Control(_) | Frame::LaneFloor { .. } | Frame::Ping | Frame::PathChallenge { .. }
    )
}

fn route(received: &Received) -> Route {
    Route { interface: received.interface, local: received.local, remote: received.source }
}
