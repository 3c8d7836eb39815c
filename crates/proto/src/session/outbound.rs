//! The way out, in packet order: select, queue, and build the datagram when a path has room.
//!
//! Late binding: nothing is tied to a path before [`Session::poll_transmit`] asks on behalf of one
//! that has room, and what matters most at that moment goes first. Control is never held back by
//! a congestion window; telemetry, messages and bulk are.

use units::{Duration, Instant};

use super::build::Builder;
use super::{SendError, Session, Source};
use crate::delivery::control::{CopyRoom, Rejected, Submission};
use crate::delivery::datagram::{Expected, Plain, RtpPiece};
use crate::delivery::message::{MessageOrder, MessageStream};
use crate::event::{MessageId, PathState};
use crate::ids::{PathId, PathRef, Transmit};
use crate::limits;
use crate::path::{Outgoing, Path, Route};
use crate::recovery::SentFrame;
use crate::schedule::{Decision, ScheduleView};
use crate::select::{Class, LaneKey, Order, Policy, RtpFrame, Tier};
use crate::wire::{self, AckFrame, AckRanges, DATA_OVERHEAD, Frame};

/// Bytes of a frame around its payload, at most: a control frame with every field at its longest.
pub(super) const FRAME_OVERHEAD: usize = 15 + 3 + 5 + 3 + 3;
/// A message that has waited for so long is late for every autopilot.
const LATE: Duration = Duration::from_millis(200);
/// Loss of a path whose answers to single packets are waited for: where less is lost, a later packet
/// is nearly always answered and tells what is missing.
pub(super) const MUCH_LOSS: f64 = 0.05;
/// Bytes of bulk that are under way on a silent path at most, where every path is silent: four full
/// datagrams, of which one gets through at 40 % loss nearly for certain.
const TRICKLE: u64 = 4 * limits::MAX_DATAGRAM as u64;
/// Bytes that a message may have for the schedulers' question whether a path has room for it.
const MESSAGE_GUESS: usize = 300;

impl Session {
    /// Takes in a packet of the application; see [`crate::Endpoint::send`].
    pub(crate) fn send(
        &mut self,
        now: Instant,
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let limit = match source {
            Source::Message { .. } => limits::MESSAGE_BYTES,
            _ => self.payload_limit(),
        };
        if bytes.len() > limit {
            return Err(SendError::TooLarge { limit });
        }
        match source {
            Source::Tunnel => self.send_packet(now, bytes),
            Source::Mavlink { channel } => self.send_frames(now, channel, bytes),
            Source::Declared { channel, policy } => {
                self.enqueue(now, channel, policy, LaneKey::declared(channel), false, bytes)
            }
            Source::Message { channel, stream } => self.send_message(now, channel, stream, bytes),
        }
    }

    fn send_packet(&mut self, now: Instant, packet: &[u8]) -> Result<Option<MessageId>, SendError> {
        match self.selector.select_packet(packet) {
            Some(selected) => {
                let (policy, lane) = (selected.policy, selected.lane);
                if let Some(frame) = selected.rtp.filter(|_| !self.rtp_life.is_zero()) {
                    return self.send_rtp(now, policy.class, frame, packet);
                }
                self.enqueue(now, 0, policy, lane, selected.resequence, packet)
            }
            None => {
                self.accounts.of(Class::Bulk).dropped += 1;
                Ok(None)
            }
        }
    }

    /// Queues a packet of a stream whose receiver waits a while for what was lost.
    fn send_rtp(
        &mut self,
        now: Instant,
        class: Class,
        frame: RtpFrame,
        packet: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        self.accounts.of(class).submitted += 1;
        let (rtp, payload) = (Some(RtpPiece { frame, life: self.rtp_life }), packet.to_vec());
        self.bulk.push(now, Plain { channel: 0, class, resequence: false, rtp, payload });
        Ok(None)
    }

    /// Sends every frame of a datagram on its own; the last frame's name stands for them all.
    fn send_frames(
        &mut self,
        now: Instant,
        channel: u8,
        datagram: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let frames: Vec<_> = self
            .selector
            .select_frames(channel, datagram)
            .map(|selected| (selected.policy, selected.lane, selected.frame))
            .collect();
        let mut result = Ok(None);
        for (policy, lane, frame) in frames {
            let sent = self.enqueue(now, channel, policy, lane, false, frame);
            if result.is_ok() {
                result = sent;
            }
        }
        result
    }

    fn enqueue(
        &mut self,
        now: Instant,
        channel: u8,
        policy: Policy,
        lane: LaneKey,
        resequence: bool,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        if self.coded_transfers && policy.is_coded() {
            // Frames of one time to live expire in the order in which they came.
            let id = u16::try_from(policy.ttl.as_secs()).unwrap_or(u16::MAX);
            let order = MessageOrder::Unordered;
            let stream = MessageStream { id, order, deadline: Some(policy.ttl) };
            return self.send_message(now, channel, stream, bytes);
        }
        let payload = bytes.to_vec();
        if self.coded_transfers && policy.order == Order::Sequenced {
            return self.send_carried(now, Submission { channel, policy, lane, payload });
        }
        self.accounts.of(policy.class).submitted += 1;
        if policy.is_plain() {
            let packet = Plain { channel, class: policy.class, resequence, rtp: None, payload };
            match policy.class {
                Class::Telemetry => self.telemetry.push(now, packet),
                _ => self.bulk.push(now, packet),
            }
            return Ok(None);
        }
        let submission = Submission { channel, policy, lane, payload };
        self.outbox.submit(now, submission).map_err(|Rejected::Busy| {
            self.accounts.of(policy.class).dropped += 1;
            SendError::Busy
        })
    }

    /// Builds the next datagram for a path, of at most `budget` bytes of UDP payload, into `buf`;
    /// none when there is nothing that the path may carry now.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        id: PathId,
        budget: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.now = now;
        let index = self.paths.iter().position(|path| path.id() == id)?;
        let path = &self.paths[index];
        if !self.keys.has_keys() || path.state() == PathState::Absent || self.is_blocked(path) {
            return None;
        }
        if self.ended {
            return self.poll_farewell(now, index, buf);
        }
        if let Some(transmit) = self.poll_token(now, index, buf) {
            return Some(transmit);
        }
        let allowance = usize::try_from(self.paths[index].allowance()).unwrap_or(usize::MAX);
        let limit = self.paths[index].max_datagram().min(budget).min(allowance);
        let mut datagram = self.begin(now, buf, limit);
        self.add_own_ack(now, index, self.paths[index].ack_is_due(now), &mut datagram);
        self.add_control(now, index, &mut datagram);
        if !datagram.urgent {
            self.add_probe(index, &mut datagram);
        }
        if datagram.is_empty() {
            if let Some(size) = self.mtu_probe(now, index).filter(|size| *size <= budget) {
                return self.send_mtu_probe(now, index, size, buf);
            }
            datagram = self.begin(now, buf, limit);
        }
        if !datagram.urgent {
            self.add_best_path_traffic(now, index, &mut datagram);
        }
        if !datagram.is_empty() || self.feedback_is_due(now, index) {
            self.add_feedback(now, id, &mut datagram);
        }
        if datagram.is_empty() {
            return None;
        }
        let news = self.paths[index].ack_has_news();
        self.add_own_ack(now, index, news, &mut datagram);
        self.finish(now, index, None, datagram)
    }

    /// Starts a datagram, with our clock as long as the peer may not know how old our messages are.
    fn begin<'a>(&self, now: Instant, buf: &'a mut Vec<u8>, limit: usize) -> Builder<'a> {
        let mut datagram = Builder::new(buf, limit);
        if self.owes_clock {
            datagram.preface(&Frame::Clock { clock_us: now.as_micros() });
        }
        datagram
    }

    /// Seals frames that no session would build: the peer's bugs, for tests.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(crate) fn seal_frames(&mut self, id: PathId, frames: &[u8]) -> Option<Vec<u8>> {
        let packet_number = self.path_mut(id)?.next_packet_number();
        let mut datagram = vec![0; wire::DATA_HEADER];
        datagram.extend_from_slice(frames);
        self.keys.seal(id, packet_number, &mut datagram).ok()?;
        Some(datagram)
    }

    /// Returns how many bytes of payload fit into a datagram of the path that carries most. While none is
    /// active it is what one has carried: a kernel that is told less keeps to that for minutes.
    fn payload_limit(&self) -> usize {
        let active = self.paths.iter().filter(|path| path.state() == PathState::Active);
        let datagram = active.map(Path::max_datagram).max();
        datagram.unwrap_or(self.largest_datagram) - DATA_OVERHEAD - FRAME_OVERHEAD
    }

    /// Tells the peer on one path that the session is over.
    fn poll_farewell(&mut self, now: Instant, index: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let id = self.paths[index].id();
        let waiting = self.farewells.iter().position(|path| *path == id)?;
        self.farewells.remove(waiting);
        let mut datagram = Builder::new(buf, limits::MIN_DATAGRAM);
        datagram.push(&Frame::Close { reason: self.close_reason });
        self.finish(now, index, None, datagram)
    }

    /// Builds a challenge or an answer to one: alone in its datagram, as it may go elsewhere than
    /// the path's other datagrams.
    fn poll_token(&mut self, now: Instant, index: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let path = &mut self.paths[index];
        let (frame, token) = match path.take_response() {
            Some(token) => (Frame::PathResponse { token: token.token }, token),
            None => {
                let token = path.take_challenge(now)?;
                (Frame::PathChallenge { token: token.token }, token)
            }
        };
        let mut datagram = Builder::new(buf, limits::MIN_DATAGRAM);
        datagram.push(&frame);
        self.finish(now, index, Some(token.route), datagram)
    }

    fn add_own_ack(
        &mut self,
        now: Instant,
        index: usize,
        wanted: bool,
        datagram: &mut Builder<'_>,
    ) {
        if !wanted || !self.add_dropped(datagram) || datagram.room() < wire::ACK_LEAST {
            return;
        }
        let path = &mut self.paths[index];
        let id = path.id();
        let Some(ack) = path.take_ack(now) else { return };
        let Some(ranges) = AckRanges::from_descending(ack.ranges) else { return };
        let largest = ranges.largest();
        let mut frame = AckFrame {
            path: id,
            ranges,
            received_at_us: ack.received_at.as_micros(),
            delay_us: u32::try_from(ack.delay.as_micros()).unwrap_or(u32::MAX),
            ecn_ce: ack.ecn_ce,
        };
        // The peer has heard of older ranges when it has heard of a frame that names them all.
        if frame.fit(datagram.room()) {
            datagram.note(SentFrame::Ack { path: id, largest });
        }
        datagram.push(&Frame::Ack(frame));
    }

    /// Adds which messages were not passed on, and tells whether an acknowledgement may follow: none
    /// leaves without.
    fn add_dropped(&mut self, datagram: &mut Builder<'_>) -> bool {
        let is_added = |frame: &SentFrame| matches!(frame, SentFrame::Dropped { .. });
        if datagram.frames.iter().any(is_added) {
            return true;
        }
        let Some(room) = datagram.room().checked_sub(wire::ACK_LEAST) else { return false };
        let Some((frame, changes)) = self.inbox.dropped(room) else { return true };
        let fits = room >= wire::DROPPED_LEAST && datagram.push(&Frame::Dropped(frame));
        if fits {
            datagram.note(SentFrame::Dropped { changes });
        }
        fits
    }

    /// Adds what goes before everything: copies of control, floors of lanes, the end of paths.
    fn add_control(&mut self, now: Instant, index: usize, datagram: &mut Builder<'_>) {
        let id = self.paths[index].id();
        while let Some(closed) = self.closed_paths.last() {
            if !datagram.push(&Frame::PathClose { path: *closed }) {
                return;
            }
            datagram.note(SentFrame::PathClose { path: *closed });
            self.closed_paths.pop();
        }
        self.add_addresses(index, datagram);
        if !self.outbox.wants(id, Tier::Control) {
            return;
        }
        let mut room = self.control_room(now, index);
        let one_repeat = self.paths[index].may_be_slow(now);
        let most = |path: &Path, age| path.control_datagram(now, age > LATE);
        let mut age = Duration::ZERO;
        while datagram.len() < most(&self.paths[index], age)
            && let Some(added) = self.add_message(now, id, Tier::Control, room, datagram)
        {
            age = added;
            datagram.urgent = true;
            room.repeat = if one_repeat { 0 } else { room.repeat };
        }
        // Copies carry their lane's floor: a floor alone may wait for one.
        while (room.fresh > 0 || datagram.urgent)
            && datagram.room() >= FRAME_OVERHEAD
            && let Some(floor) = self.outbox.poll_floor(now, id)
        {
            datagram.push(&Frame::LaneFloor { lane: floor.lane, floor: floor.floor });
            datagram.note(SentFrame::LaneFloor { lane: floor.lane, floor: floor.floor });
            datagram.urgent = true;
        }
    }

    /// Adds which other paths have another address at this end.
    fn add_addresses(&mut self, index: usize, datagram: &mut Builder<'_>) {
        let path = &self.paths[index];
        if path.state() != PathState::Active {
            return;
        }
        let id = path.id();
        for known in self.readdressed.iter_mut().filter(|known| known.path != id && known.waits) {
            let (path, address) = (known.path, known.address);
            if !datagram.push(&Frame::PathAddress { path, address }) {
                return;
            }
            datagram.note(SentFrame::PathAddress { path });
            known.waits = false;
        }
    }

    /// Returns the room that a path has for control. On a thin path a message that is under way
    /// nowhere is left to one that takes it sooner.
    fn control_room(&self, now: Instant, index: usize) -> CopyRoom {
        let path = &self.paths[index];
        let room = path.control_room(now);
        if !path.is_thin(now) {
            return room;
        }
        let sooner = self.paths.iter().any(|other| {
            other.state() == PathState::Active
                && !self.is_blocked(other)
                && (other.control_arrival(now), other.id()) < (path.control_arrival(now), path.id())
                && other.control_room(now).fresh > 0
        });
        if sooner { CopyRoom { fresh: 0, ..room } } else { room }
    }

    /// Adds one copy of a message of `tier` if one waits for the path and fits; returns its age.
    fn add_message(
        &mut self,
        now: Instant,
        id: PathId,
        tier: Tier,
        room: CopyRoom,
        datagram: &mut Builder<'_>,
    ) -> Option<Duration> {
        let room = room.within(datagram.room().saturating_sub(FRAME_OVERHEAD));
        if room.fresh.max(room.repeat) == 0 || !self.outbox.wants(id, tier) {
            return None;
        }
        let (seq, frame) = self.outbox.poll(now, id, tier, room)?;
        let age = (now.as_micros() as u32).wrapping_sub(frame.submitted_us);
        datagram.push(&Frame::Control(frame));
        datagram.note(SentFrame::Control { seq });
        Some(Duration::from_micros(age.into()))
    }

    fn add_probe(&mut self, index: usize, datagram: &mut Builder<'_>) {
        if self.paths[index].probe_is_wanted() {
            datagram.push(&Frame::Ping);
        }
    }

    /// Returns the size of the MTU probe that is to be sent now; the first one lets messages go before.
    fn mtu_probe(&self, now: Instant, index: usize) -> Option<usize> {
        let path = &self.paths[index];
        let bulk = !self.bulk.is_empty() || self.wants_symbol(path.id());
        if bulk || path.is_settled(now) { path.mtu_probe(now) } else { None }
    }

    fn send_mtu_probe(
        &mut self,
        now: Instant,
        index: usize,
        size: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut datagram = Builder::new(buf, size);
        datagram.push(&Frame::Ping);
        let padding = datagram.room();
        datagram.push(&Frame::Padding(padding));
        datagram.note(SentFrame::MtuProbe { size: u16::try_from(size).unwrap_or(u16::MAX) });
        self.finish(now, index, None, datagram)
    }

    /// Adds what goes on one path only, in the order of priority, while the scheduler and the
    /// path's window let it.
    fn add_best_path_traffic(&mut self, now: Instant, index: usize, datagram: &mut Builder<'_>) {
        let id = self.paths[index].id();
        let (telemetry, bulk) = (!self.telemetry.is_empty(), !self.bulk.is_empty());
        let messages =
            self.outbox.wants(id, Tier::Message) || self.outbox.wants(id, Tier::Telemetry);
        let symbols = self.wants_symbol(id);
        if !(symbols || telemetry || bulk || messages) {
            return;
        }
        let has_budget =
            self.paths[index].bulk_budget(now) > 0 || self.may_trickle(now, &self.paths[index]);
        if !(symbols || has_budget) {
            return;
        }
        let snapshots = self.snapshots(now);
        if symbols && datagram.frames.is_empty() {
            self.add_symbol(now, index, &snapshots, datagram);
        }
        if !has_budget || datagram.bulk {
            return;
        }
        let backlog = (self.telemetry.bytes() + self.bulk.bytes()) as u64;
        let view = |packet| ScheduleView { paths: &snapshots, now, backlog, packet };
        while let Some(len) = self.telemetry.next_len(now, id)
            && self.scheduler.offer(&view(len), id) == Decision::Send
            && self.add_plain(now, id, Class::Telemetry, datagram)
        {}
        for tier in [Tier::Telemetry, Tier::Message] {
            while self.outbox.wants(id, tier)
                && self.scheduler.offer(&view(MESSAGE_GUESS), id) == Decision::Send
                && self.add_message(now, id, tier, CopyRoom::both(usize::MAX), datagram).is_some()
            {
                datagram.bulk = true;
            }
        }
        while let Some(len) = self.bulk.next_len(now, id)
            && self.may_take_bulk(index, &view(len))
            && self.add_plain(now, id, Class::Bulk, datagram)
        {
            self.scheduler.on_sent(id);
        }
    }

    /// Tells whether the path takes the next packet of bulk. A last copy only goes where there is
    /// room to spare.
    fn may_take_bulk(&self, index: usize, view: &ScheduleView<'_>) -> bool {
        let path = &self.paths[index];
        if self.bulk.is_last_next(path.id()) {
            return path.state() == PathState::Active && !path.has_queue();
        }
        self.scheduler.offer(view, path.id()) == Decision::Send
    }

    /// Tells whether a silent path carries a little bulk nevertheless: none does better, and it
    /// spoke so lately that it may be in a burst of losses. What gets through ends the silence.
    fn may_trickle(&self, now: Instant, path: &Path) -> bool {
        let lately =
            path.last_received_at().is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        lately
            && path.may_drip(TRICKLE)
            && self.paths.iter().all(|other| other.state() != PathState::Active)
    }

    /// Adds the next packet of plain delivery if it fits.
    fn add_plain(
        &mut self,
        now: Instant,
        id: PathId,
        class: Class,
        datagram: &mut Builder<'_>,
    ) -> bool {
        let queue = if class == Class::Telemetry { &mut self.telemetry } else { &mut self.bulk };
        let room = datagram.room().saturating_sub(wire::DATAGRAM_OVERHEAD);
        let Some((frame, number)) = queue.poll(now, id, room) else { return false };
        datagram.bulk = true;
        self.accounts.of(frame.class).copies_sent += 1;
        let fits = datagram.push(&Frame::Datagram(frame));
        if let Some(number) = number {
            datagram.note(SentFrame::Plain { number });
            if let Some(expected) = self.expected(now, id) {
                self.bulk.expect(number, expected);
            }
        }
        fits
    }

    /// Returns what to expect of a packet that leaves on a path that loses much: on others the
    /// answers to later packets tell soon enough.
    fn expected(&self, now: Instant, id: PathId) -> Option<Expected> {
        let path = self.path(id).filter(|path| path.loss() >= MUCH_LOSS)?;
        let overdue_at = now + path.overdue_after();
        Some(Expected { path: id, overdue_at, reach: self.reach() })
    }

    /// Seals the datagram and notes that it was sent.
    fn finish(
        &mut self,
        now: Instant,
        index: usize,
        route: Option<Route>,
        datagram: Builder<'_>,
    ) -> Option<Transmit> {
        let path = &mut self.paths[index];
        path.skip_number();
        let pn = path.next_packet_number();
        let Builder { buf, frames, ack_eliciting, bulk, urgent, .. } = datagram;
        self.keys.seal(path.id(), pn, buf).ok()?;
        let bytes = buf.len();
        path.on_packet_sent(now, Outgoing { pn, bytes, ack_eliciting, bulk, route, frames });
        let route = route.unwrap_or(path.route());
        Some(Transmit {
            path: Some(PathRef { session: self.id, path: path.id() }),
            interface: route.interface,
            local: route.local,
            destination: route.remote,
            urgent,
        })
    }
}
