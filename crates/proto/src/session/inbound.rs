//! The way in, in packet order: open, frames, acknowledgements, delivery.
//!
//! Everything is hostile until the datagram is opened; after that it is a peer's, which may have
//! bugs but not unbounded claims on memory: every table that a frame can grow has its limit.

use std::ops::Range;

use units::{Duration, Instant};

use super::{Role, Session};
use crate::delivery::{Delivered, Incoming, Loss};
use crate::event::Delivery;
use crate::ids::{PathId, Received};
use crate::limits;
use crate::path::{Path, Route};
use crate::recovery::{AckInfo, Arrival, ClockSample, PeerClock, Receipt, SentFrame, SentFrames};
use crate::rejection::Rejection;
use crate::wire::{self, AckFrame, DataHeader, Frame, Frames};

impl Session {
    /// Opens a data datagram whose header names this session, and returns its frames: the cheap
    /// part.
    ///
    /// # Errors
    /// Says why it is not taken, and has counted that.
    pub(crate) fn open<'a>(
        &mut self,
        now: Instant,
        received: &Received,
        header: &DataHeader,
        bytes: &'a mut [u8],
    ) -> Result<&'a [u8], Rejection> {
        let opened = self.open_datagram(now, received, header, bytes);
        let frames = opened.inspect_err(|reason| self.rejected.count(*reason))?;
        Ok(&bytes[frames])
    }

    fn open_datagram(
        &mut self,
        now: Instant,
        received: &Received,
        header: &DataHeader,
        bytes: &mut [u8],
    ) -> Result<Range<usize>, Rejection> {
        self.check_path(header)?;
        let opened = self.keys.open(now, header, bytes).map_err(|_| Rejection::BadTag)?;
        if opened.newly_confirmed {
            self.on_connected();
        }
        let path = self.path_for(now, header, received).ok_or(Rejection::UnknownPath)?;
        if self.paths[path].rejoins(route(received)) {
            let (id, outcome) =
                (self.paths[path].id(), self.paths[path].rejoin(now, route(received)));
            self.apply(now, id, outcome);
        }
        self.paths.receiving(path).on_datagram(
            now,
            header.packet_number,
            route(received),
            bytes.len(),
        );
        Ok(opened.plaintext)
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
        self.settle_account();
        let arrival = self.handle_frames(now, header.path, received, frames);
        if let Some(path) = self.paths.position(header.path) {
            let path = self.paths.receiving(path);
            path.on_packet_received(now, header.packet_number, arrival);
        }
        self.after_change(now);
    }

    /// Refuses, before any cryptography, what was received before and paths beyond the bound.
    fn check_path(&self, header: &DataHeader) -> Result<(), Rejection> {
        let may_open = self.role == Role::Responder && !self.retired.contains(&header.path);
        match self.path(header.path) {
            _ if self.ended => Err(Rejection::UnknownPath),
            Some(path) if !path.is_new(header.packet_number) => Err(Rejection::Replay),
            None if !may_open => Err(Rejection::UnknownPath),
            None if self.paths.len() >= limits::PATHS => Err(Rejection::BeyondBound),
            _ => Ok(()),
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
        self.paths.position(header.path)
    }

    /// Takes the frames of an opened datagram, up to the first that makes no sense. A second frame
    /// of a type that a datagram holds once ([`Frame::single`]) makes none either.
    fn handle_frames(
        &mut self,
        now: Instant,
        path: PathId,
        received: &Received,
        frames: &[u8],
    ) -> Arrival {
        // Nobody sends what may be marked as having met congestion: such a mark is a middle box's,
        // and means nothing [specs/paths.md §6] (rule 4).
        let mut arrival = Arrival::default();
        let joined = self.take_frames((now, path, received), frames, true, &mut arrival);
        if let Some(joined) = joined {
            self.take_frames((now, path, received), &joined, false, &mut arrival);
        }
        arrival
    }

    /// Takes frames, and returns those of a datagram that went in pieces when its last one is among
    /// them; in such a datagram is no piece of another.
    fn take_frames(
        &mut self,
        (now, path, received): (Instant, PathId, &Received),
        frames: &[u8],
        may_be_pieces: bool,
        arrival: &mut Arrival,
    ) -> Option<Vec<u8>> {
        let (mut singles, mut joined) = (0, None);
        for frame in Frames::new(frames) {
            let Some(frame) = frame.ok().filter(|frame| frame.single() & singles == 0) else {
                self.rejected.count(Rejection::Malformed);
                break;
            };
            singles |= frame.single();
            arrival.ack_eliciting |= frame.is_ack_eliciting();
            arrival.urgent |= frame.is_urgent();
            arrival.may_wait |= matches!(frame, Frame::AckLater);
            arrival.in_order |= frame.is_in_order();
            let Frame::Piece(piece) = &frame else {
                self.handle_frame(now, path, received, &frame);
                continue;
            };
            let taken = match may_be_pieces {
                true => self.joiner.handle_piece(now, path, piece),
                false => Err(Rejection::Malformed),
            };
            match taken {
                Ok(whole) => joined = whole,
                Err(reason) => self.rejected.count(reason),
            }
        }
        joined
    }

    fn handle_frame(&mut self, now: Instant, path: PathId, received: &Received, frame: &Frame<'_>) {
        match frame {
            Frame::Padding(_) | Frame::Ping | Frame::AckLater => {}
            Frame::Ack(ack) => self.handle_ack(now, path, ack),
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
            Frame::PathUse(usage) => self.handle_path_use(usage),
            Frame::Uncounted(uncounted) => {
                if let Some(path) = self.path_mut(path) {
                    path.on_uncounted(*uncounted);
                }
            }
            Frame::Note(note) => {
                if let Err(reason) = self.notes.take(note) {
                    self.rejected.count(reason);
                }
            }
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
            _ => {
                let clock = PeerClock { clock: &self.clock, started: self.started };
                let incoming = Incoming { now, path, clock, paths: &self.paths };
                self.deliveries.handle_frame(&incoming, frame);
            }
        }
    }

    fn handle_ack(&mut self, now: Instant, by: PathId, ack: &AckFrame) {
        let Some(path) = self.path_mut(ack.path) else {
            return;
        };
        let ranges: smallvec::SmallVec<[_; 8]> = ack.ranges.iter().collect();
        let info = AckInfo {
            largest: ack.ranges.largest(),
            received_at_us: ack.received_at_us,
            delay: Duration::from_micros(u64::from(ack.delay_us)),
            ranges: &ranges,
            elsewhere: by != ack.path,
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

    /// Learns that what frames carried has arrived.
    pub(super) fn on_frames_acked(&mut self, frames: &SentFrames, receipt: &Receipt) {
        for frame in frames {
            match *frame {
                SentFrame::Delivery { owner, mark } => {
                    self.deliveries.on_acked(owner, mark, receipt);
                }
                SentFrame::Ack { path, largest } => {
                    self.owes_clock = false;
                    if let Some(path) = self.path_mut(path) {
                        path.on_ack_of_ack(largest, receipt.sent_at);
                    }
                }
                SentFrame::PathAddress { path } => self.on_address_told(path, true),
                SentFrame::PathUse { change } => {
                    if let Some(path) = self.path_mut(receipt.path) {
                        path.on_usage_told(change);
                    }
                }
                SentFrame::Note { name, change } => self.notes.on_fate(name, change, true),
                SentFrame::Piece { whole, .. } => {
                    if let Some(frames) = self.cutter.on_acked(whole) {
                        self.on_frames_acked(&frames, receipt);
                    }
                }
                SentFrame::PathClose { .. }
                | SentFrame::MtuProbe { .. }
                | SentFrame::MarkedProbe => {}
            }
        }
    }

    /// Takes back what frames carried; what says nothing of the path asks for no repair either.
    pub(super) fn on_frames_lost(
        &mut self,
        now: Instant,
        path: PathId,
        counts: bool,
        frames: &SentFrames,
    ) {
        let congested = !counts || self.path(path).is_some_and(Path::has_queue);
        for frame in frames {
            match *frame {
                SentFrame::Delivery { owner, mark } => {
                    let loss = Loss { now, path, congested, paths: &self.paths };
                    self.deliveries.on_lost(owner, mark, &loss);
                }
                SentFrame::PathClose { path } => self.closed_paths.push(path),
                SentFrame::PathAddress { path } => self.on_address_told(path, false),
                SentFrame::Piece { whole, .. } => {
                    if let Some(frames) = self.cutter.on_lost(whole) {
                        self.on_frames_lost(now, path, counts, &frames);
                    }
                }
                SentFrame::Note { name, change } => self.notes.on_fate(name, change, false),
                // It is told until it has arrived.
                SentFrame::PathUse { .. }
                | SentFrame::Ack { .. }
                | SentFrame::MtuProbe { .. }
                | SentFrame::MarkedProbe => {}
            }
        }
    }

    /// Takes the clock of an initiator that cannot know yet whether we know it. It was read after
    /// our Response had come, so it says as much as an acknowledgement of that; the answer to a
    /// probe says more.
    fn handle_clock(&mut self, now: Instant, path: PathId, clock_us: u64) {
        if let (None, Some(path)) = (self.clock.estimate_us(now), self.path_mut(path)) {
            path.want_probe();
        }
        if let Some(sent_at) = self.responded_at {
            self.clock
                .on_sample(now, ClockSample { sent_at, received_at_us: clock_us, acked_at: now });
        }
    }

    /// Passes on what has become deliverable.
    pub(super) fn collect_deliveries(&mut self) {
        let clock = PeerClock { clock: &self.clock, started: self.started };
        while let Some(ready) = self.deliveries.poll_delivery(self.now, clock) {
            let Delivered { channel, class, stream, age, life, payload: bytes } = ready;
            let (session, expires) = (self.id, life.map(|life| self.now + life));
            let delivery = Delivery { session, channel, class, stream, age, expires, bytes };
            self.delivered.push_back(delivery);
        }
    }
}

fn route(received: &Received) -> Route {
    Route { interface: received.interface, local: received.local, remote: received.source }
}
