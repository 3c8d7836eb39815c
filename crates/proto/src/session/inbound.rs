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
use crate::recovery::{AckInfo, Arrival, ClockSample, PeerClock, Receipt, SentFrame, SentPacket};
use crate::rejection::Rejection;
use crate::wire::{self, AckFrame, DataHeader, Frame, Frames};

impl Session {
    /// Opens a data datagram whose header names this session, and returns its frames: the cheap part.
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
        let mut arrival = Arrival { ecn_ce: received.ecn & 3 == 3, ..Arrival::default() };
        let mut singles = 0;
        for frame in Frames::new(frames) {
            let Some(frame) = frame.ok().filter(|frame| frame.single() & singles == 0) else {
                self.rejected.count(Rejection::Malformed);
                break;
            };
            singles |= frame.single();
            arrival.ack_eliciting |= frame.is_ack_eliciting();
            arrival.urgent |= frame.is_urgent();
            arrival.in_order |= frame.is_in_order();
            self.handle_frame(now, path, received, &frame);
        }
        arrival
    }

    fn handle_frame(&mut self, now: Instant, path: PathId, received: &Received, frame: &Frame<'_>) {
        match frame {
            Frame::Padding(_) | Frame::Ping => {}
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
            ecn_ce: ack.ecn_ce,
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

    pub(super) fn on_packet_acked(&mut self, packet: &SentPacket, receipt: &Receipt) {
        for frame in &packet.frames {
            match *frame {
                SentFrame::Delivery { owner, mark } => {
                    self.deliveries.on_acked(owner, mark, receipt);
                }
                SentFrame::Ack { path, largest } => {
                    self.owes_clock = false;
                    if let Some(path) = self.path_mut(path) {
                        path.on_ack_of_ack(largest, packet.sent_at);
                    }
                }
                SentFrame::PathAddress { path } => self.on_address_told(path, true),
                SentFrame::PathUse { change } => {
                    if let Some(path) = self.path_mut(receipt.path) {
                        path.on_usage_told(change);
                    }
                }
                SentFrame::Note { name, change } => self.notes.on_fate(name, change, true),
                SentFrame::PathClose { .. } | SentFrame::MtuProbe { .. } => {}
            }
        }
    }

    pub(super) fn on_packet_lost(&mut self, now: Instant, path: PathId, packet: &SentPacket) {
        let congested = self.path(path).is_some_and(Path::has_queue);
        for frame in &packet.frames {
            match *frame {
                SentFrame::Delivery { owner, mark } => {
                    let loss = Loss { now, path, congested, paths: &self.paths };
                    self.deliveries.on_lost(owner, mark, &loss);
                }
                SentFrame::PathClose { path } => self.closed_paths.push(path),
                SentFrame::PathAddress { path } => self.on_address_told(path, false),
                SentFrame::Note { name, change } => self.notes.on_fate(name, change, false),
                // It is told until it has arrived.
                SentFrame::PathUse { .. } | SentFrame::Ack { .. } | SentFrame::MtuProbe { .. } => {}
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
