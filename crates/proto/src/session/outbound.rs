//! The way out, in packet order: select, queue, and build the datagram when a path has room.
//!
//! Late binding: nothing is tied to a path before [`Session::poll_transmit`] asks on behalf of one
//! that has room, and what matters most at that moment goes first. Control is never held back by
//! a congestion window; telemetry, messages and bulk are.

use units::Instant;

use super::{SendError, Session, Source};
use crate::delivery::{Builder, Packet, Refused, Turn, Waiting};
use crate::event::{MessageId, PathState};
use crate::ids::{PathId, PathRef, Transmit};
use crate::limits;
use crate::path::{Outgoing, Path, Route};
use crate::recovery::{AckToSend, SentFrame};
use crate::select::{Class, LaneKey, Tier};
use crate::wire::{
    self, AckFrame, AckRanges, CONTROL_OVERHEAD, DATA_OVERHEAD, Frame, PathUseFrame,
};

/// Bytes of bulk that are under way on a silent path at most, where every path is silent: four full
/// datagrams, of which one gets through at 40 % loss nearly for certain.
const TRICKLE: u64 = 4 * limits::MAX_DATAGRAM as u64;

/// What a path's next datagram is for.
#[derive(Clone, Copy)]
struct Due {
    ack_is_due: bool,
    tells_of_gap: bool,
    waiting: Waiting,
}

impl Session {
    /// Takes in a packet of the application; see [`crate::Endpoint::send_late`].
    pub(crate) fn send(
        &mut self,
        (now, came): (Instant, Instant),
        source: Source,
        bytes: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        self.settle_account();
        match source {
            Source::Message { .. } => check_length(bytes, limits::MESSAGE_BYTES)?,
            // It depends on what the packet turns out to be.
            Source::Tunnel => {}
            Source::Mavlink { .. } => check_length(bytes, self.payload_limit(Tier::Control))?,
            Source::Declared { policy, .. } => {
                check_length(bytes, self.payload_limit(policy.class.tier()))?;
            }
        }
        match source {
            Source::Tunnel => self.send_packet((now, came), bytes),
            Source::Mavlink { channel } => self.send_frames((now, came), channel, bytes),
            Source::Declared { channel, policy } => {
                let (lane, payload) = (LaneKey::declared(channel), bytes);
                let packet =
                    Packet { channel, policy, lane, resequence: false, rtp: None, came, payload };
                self.deliveries.submit(now, packet).map_err(send_error)
            }
            Source::Message { channel, stream } => self
                .deliveries
                .submit_message((now, came), channel, stream, bytes)
                .map_err(send_error),
        }
    }

    fn send_packet(
        &mut self,
        (now, came): (Instant, Instant),
        packet: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let Some(selected) = self.selector.select_packet(packet) else {
            self.deliveries.on_withheld(Class::Bulk);
            return Ok(None);
        };
        let is_symbol = selected.policy.is_plain() && self.deliveries.is_symbol(packet);
        let limit = match is_symbol {
            true => self.payload_limit(Tier::Bulk).saturating_sub(self.deliveries.beyond_control()),
            false => self.payload_limit(selected.policy.class.tier()),
        };
        check_length(packet, limit)?;
        let packet = Packet {
            channel: 0,
            policy: selected.policy,
            lane: selected.lane,
            resequence: selected.resequence,
            rtp: selected.rtp,
            came,
            payload: packet,
        };
        self.deliveries.submit(now, packet).map_err(send_error)
    }

    /// Sends every frame of a datagram on its own; the last frame's name stands for them all.
    fn send_frames(
        &mut self,
        (now, came): (Instant, Instant),
        channel: u8,
        datagram: &[u8],
    ) -> Result<Option<MessageId>, SendError> {
        let mut result = Ok(None);
        for selected in self.selector.select_frames(channel, datagram) {
            let (policy, lane, payload) = (selected.policy, selected.lane, selected.frame);
            let packet =
                Packet { channel, policy, lane, resequence: false, rtp: None, came, payload };
            let sent = self.deliveries.submit(now, packet);
            if result.is_ok() {
                result = sent;
            }
        }
        result.map_err(send_error)
    }

    /// Builds the next datagram of any path into `buf`; none when there is nothing that one may
    /// carry now. The paths take turns, so that no path's bulk delays another one's control.
    pub(crate) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.now = now;
        if !self.keys.has_keys() {
            return None;
        }
        let first = self.paths.iter().position(|path| path.id() > self.sent_last).unwrap_or(0);
        let mut waiting = self.deliveries.waiting();
        let has_gaps = self.paths.iter().any(Path::has_news_of_gap);
        for index in (first..self.paths.len()).chain(0..first) {
            let transmit = self.poll_path(now, index, (&mut waiting, has_gaps), buf);
            if let Some(path) = transmit.and_then(|transmit| transmit.path) {
                self.sent_last = path.path;
                return transmit;
            }
        }
        None
    }

    /// Builds the next datagram of the path at this place of the list; `any` is what waits for any
    /// path, and whether there is news of a gap.
    fn poll_path(
        &mut self,
        now: Instant,
        index: usize,
        (any, has_gaps): (&mut Waiting, bool),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = &self.paths[index];
        if path.state() == PathState::Absent || self.paths.is_blocked(path) {
            return None;
        }
        if self.ended {
            return self.poll_farewell(now, index, buf);
        }
        if let Some(transmit) = self.poll_token(now, index, buf) {
            return Some(transmit);
        }
        if self.cutter.waits_for(self.paths[index].id()) {
            return self.send_piece(now, index, buf);
        }
        let path = &self.paths[index];
        let (ack_is_due, own) = (path.ack_is_due(now), self.deliveries.waiting_for(now, path));
        let waiting = any.and(own).served_by(path);
        let tells_of_gap = has_gaps && self.slower_with_gap(index).is_some();
        if !ack_is_due
            && !tells_of_gap
            && !waiting.urgent
            && !waiting.along
            && !self.may_go_once(now, index, waiting)
            && !path.probe_is_wanted()
            && !self.has_path_news()
            && !self.has_notes_for(index)
        {
            if !waiting.is_any() && self.paths[index].marked_probe_is_due(now) {
                return self.send_marked_probe(now, index, buf);
            }
            let size = self.mtu_probe(now, index, waiting)?;
            return self.send_mtu_probe(now, index, size, buf);
        }
        let due = Due { ack_is_due, tells_of_gap, waiting };
        let mut lengths = self.paths[index].lengths().into_iter();
        let transmit = lengths.find_map(|length| self.fill(now, index, length, &due, buf));
        if transmit.is_none() && any.goes_once() {
            // What was too old has been dropped.
            *any = self.deliveries.waiting();
        }
        transmit
    }

    /// Builds a datagram of some length at most out of what is due; none where nothing of it fits.
    fn fill(
        &mut self,
        now: Instant,
        index: usize,
        length: usize,
        due: &Due,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let Due { ack_is_due, tells_of_gap, waiting } = *due;
        let mut datagram = self.begin(now, index, length, buf);
        self.add_own_ack(now, index, ack_is_due, &mut datagram);
        if tells_of_gap {
            self.add_acks_of_gaps(now, index, &mut datagram);
        }
        let waiting = self.add_urgent(now, index, waiting, &mut datagram);
        if datagram.is_empty()
            && let Some(size) = self.mtu_probe(now, index, waiting)
        {
            drop(datagram);
            return self.send_mtu_probe(now, index, size, buf);
        }
        if !datagram.urgent {
            self.add_best_path_traffic(now, index, waiting, &mut datagram);
        }
        if waiting.along || !datagram.is_empty() {
            self.deliveries.poll_along(&self.paths[index], &mut datagram);
        }
        if !datagram.is_empty() {
            let news = self.paths[index].ack_has_news(now);
            self.add_own_ack(now, index, news, &mut datagram);
        }
        self.add_notes(index, &mut datagram);
        if datagram.is_empty() {
            return None;
        }
        let longest = self.paths[index].max_datagram();
        let may_wait = datagram.urgent
            && datagram.may_wait
            && !datagram.bulk
            && datagram.datagram_len() < longest;
        if may_wait && datagram.push(&Frame::AckLater) {
            self.paths[index].on_let_wait(now);
        }
        if datagram.datagram_len() <= longest {
            return self.finish(now, index, None, datagram);
        }
        self.cutter.cut(self.paths[index].id(), longest, datagram);
        self.paths[index].on_cut();
        self.send_piece(now, index, buf)
    }

    /// Sends the next piece of a datagram that is longer than what its path carries.
    fn send_piece(&mut self, now: Instant, index: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let mut datagram = Builder::new(buf, limits::MAX_DATAGRAM);
        self.cutter.poll(self.paths[index].id(), &mut datagram);
        self.finish(now, index, None, datagram)
    }

    /// Starts a datagram, with our clock as long as the peer may not know how old our messages are.
    fn begin<'a>(
        &self,
        now: Instant,
        index: usize,
        length: usize,
        buf: &'a mut Vec<u8>,
    ) -> Builder<'a> {
        let path = &self.paths[index];
        let allowance = usize::try_from(path.allowance()).unwrap_or(usize::MAX);
        let mut datagram = Builder::new(buf, length.min(allowance));
        if self.owes_clock {
            datagram.preface(&Frame::Clock { clock_us: now.as_micros() });
        }
        self.add_path_use(index, &mut datagram);
        self.add_uncounted(index, &mut datagram);
        datagram
    }

    /// Adds how the path is to be used, as long as the peer may not know: it may not send there
    /// meanwhile what must not go there.
    fn add_path_use(&self, index: usize, datagram: &mut Builder<'_>) {
        let path = &self.paths[index];
        if let Some((change, usage)) = path.untold_usage() {
            let (flags, cost) = usage.to_wire();
            let frame = PathUseFrame { path: path.id(), change, flags, cost };
            datagram.preface_noted(&Frame::PathUse(frame), SentFrame::PathUse { change });
        }
    }

    /// Adds which packets of the path are no loss of it, as long as the peer may not know.
    fn add_uncounted(&self, index: usize, datagram: &mut Builder<'_>) {
        if let Some(uncounted) = self.paths[index].uncounted() {
            datagram.preface(&Frame::Uncounted(uncounted));
        }
    }

    /// Seals frames that no session would build: the peer's bugs, for tests.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(crate) fn seal_frames(&mut self, id: crate::ids::PathId, frames: &[u8]) -> Option<Vec<u8>> {
        let packet_number = self.path_mut(id)?.next_packet_number();
        let mut datagram = vec![0; wire::DATA_HEADER];
        datagram.extend_from_slice(frames);
        self.keys.seal(id, packet_number, &mut datagram).ok()?;
        Some(datagram)
    }

    /// Returns how many bytes of payload fit into a datagram of the path that carries most, of
    /// those that serve a tier. While none is active it is what one has carried: a kernel that is
    /// told less keeps to that for minutes.
    fn payload_limit(&self, tier: Tier) -> usize {
        let datagram = self.paths.active_for(tier).map(Path::longest_datagram).max();
        datagram.unwrap_or(self.largest_datagram) - DATA_OVERHEAD - CONTROL_OVERHEAD
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
        if !self.paths[index].may_have_token(now) {
            return None;
        }
        let path = &mut self.paths[index];
        let (frame, token) = match path.take_response() {
            Some(token) => (Frame::PathResponse { token: token.token }, token),
            None => {
                let token = path.take_challenge(now)?;
                (Frame::PathChallenge { token: token.token }, token)
            }
        };
        let mut datagram = Builder::new(buf, limits::MIN_DATAGRAM);
        self.add_path_use(index, &mut datagram);
        self.add_uncounted(index, &mut datagram);
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
        if !wanted
            || !self.deliveries.poll_before_ack(datagram)
            || datagram.room() < wire::ACK_LEAST
        {
            return;
        }
        let path = &mut self.paths[index];
        let id = path.id();
        let ack = path.take_ack(now);
        add_ack(id, ack, datagram);
    }

    /// Returns a slower path with a gap that the peer should hear of by this one, which is the
    /// fastest.
    fn slower_with_gap(&self, index: usize) -> Option<usize> {
        let gap = self.paths.iter().position(|path| path.has_news_of_gap())?;
        let speed = |path: &Path| (path.srtt_or_initial(), path.id());
        let serving = self.paths.active().filter(|path| !path.rests());
        let fastest = serving.map(speed).min()?;
        let own = speed(&self.paths[index]);
        let others = gap..self.paths.len();
        others
            .filter(|_| own == fastest)
            .find(|other| *other != index && self.paths[*other].has_news_of_gap())
    }

    /// Adds what slower paths have to tell of gaps: a flow of the tunnel waits for it.
    fn add_acks_of_gaps(&mut self, now: Instant, index: usize, datagram: &mut Builder<'_>) {
        while let Some(other) = self.slower_with_gap(index)
            && datagram.room() >= wire::ACK_LEAST
        {
            let path = self.paths.receiving(other);
            let id = path.id();
            let ack = path.take_ack_elsewhere(now);
            add_ack(id, ack, datagram);
        }
    }

    /// Adds what no congestion window holds back; returns what waits then.
    fn add_urgent(
        &mut self,
        now: Instant,
        index: usize,
        mut waiting: Waiting,
        datagram: &mut Builder<'_>,
    ) -> Waiting {
        let fits = self.add_path_news(index, datagram);
        if fits && waiting.urgent {
            let (paths, clock_error) = (&self.paths, self.clock.error(now));
            let turn = Turn { now, path: &paths[index], paths, clock_error };
            self.deliveries.poll_urgent(&turn, datagram);
            let own = self.deliveries.waiting_for(now, &self.paths[index]);
            waiting = self.deliveries.waiting().and(own).served_by(&self.paths[index]);
        }
        if !datagram.urgent && self.paths[index].probe_is_wanted() {
            datagram.push(&Frame::Ping);
        }
        waiting
    }

    /// Tells whether there may be something to say about paths.
    fn has_path_news(&self) -> bool {
        !self.closed_paths.is_empty() || !self.readdressed.is_empty()
    }

    /// Tells whether a path may carry what the peer is to be told of this end.
    fn has_notes_for(&self, index: usize) -> bool {
        self.paths[index].state() == PathState::Active && self.notes.wait()
    }

    /// Adds what the peer is to be told of this end, behind all else: one that does not know of
    /// notes ignores what follows.
    fn add_notes(&mut self, index: usize, datagram: &mut Builder<'_>) {
        if !self.has_notes_for(index) {
            return;
        }
        while let Some(note) = self.notes.next() {
            let (name, change) = (note.name, note.change);
            if !datagram.push(&Frame::Note(note)) {
                return;
            }
            datagram.note_own(SentFrame::Note { name, change });
            self.notes.on_sent(name);
        }
    }

    /// Adds the end of paths and where others have moved; false when not all of it fits.
    fn add_path_news(&mut self, index: usize, datagram: &mut Builder<'_>) -> bool {
        while let Some(closed) = self.closed_paths.last() {
            if !datagram.push(&Frame::PathClose { path: *closed }) {
                return false;
            }
            datagram.note_own(SentFrame::PathClose { path: *closed });
            self.closed_paths.pop();
        }
        self.add_addresses(index, datagram);
        true
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
            datagram.note_own(SentFrame::PathAddress { path });
            known.waits = false;
        }
    }

    /// Returns the size of the MTU probe that is to be sent now; the first one lets messages go
    /// before.
    fn mtu_probe(&self, now: Instant, index: usize, waiting: Waiting) -> Option<usize> {
        let path = &self.paths[index];
        let size = path.mtu_probe(now)?;
        (waiting.bulk || waiting.alone || path.is_settled(now)).then_some(size)
    }

    fn send_mtu_probe(
        &mut self,
        now: Instant,
        index: usize,
        size: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut datagram = Builder::new(buf, size);
        self.add_uncounted(index, &mut datagram);
        datagram.push(&Frame::Ping);
        let padding = datagram.room();
        datagram.push(&Frame::Padding(padding));
        datagram.note_own(SentFrame::MtuProbe { size: u16::try_from(size).unwrap_or(u16::MAX) });
        self.finish(now, index, None, datagram)
    }

    /// Tries whether the path takes marked packets again.
    fn send_marked_probe(
        &mut self,
        now: Instant,
        index: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut datagram = self.begin(now, index, limits::MIN_DATAGRAM, buf);
        datagram.push(&Frame::Ping);
        datagram.note_own(SentFrame::MarkedProbe);
        self.finish(now, index, None, datagram)
    }

    /// Adds what goes on one path only, in the order of priority, while the scheduler and the
    /// path's window let it.
    fn add_best_path_traffic(
        &mut self,
        now: Instant,
        index: usize,
        waiting: Waiting,
        datagram: &mut Builder<'_>,
    ) {
        if !self.may_go_once(now, index, waiting) {
            return;
        }
        let has_budget = self.has_budget(now, index);
        let (paths, clock_error) = (&self.paths, self.clock.error(now));
        let turn = Turn { now, path: &paths[index], paths, clock_error };
        let scheduler = &mut *self.scheduler;
        self.deliveries.poll_once(turn, waiting, has_budget, scheduler, datagram);
    }

    /// Tells whether the path may take any of what goes on one path only.
    fn may_go_once(&self, now: Instant, index: usize, waiting: Waiting) -> bool {
        waiting.goes_once() && (waiting.alone || self.has_budget(now, index))
    }

    fn has_budget(&self, now: Instant, index: usize) -> bool {
        self.paths.bulk_budget(now, index) > 0 || self.may_trickle(now, &self.paths[index])
    }

    /// Tells whether a silent path carries a little bulk all the same: no path does better, and it
    /// was heard so recently that this may be a burst of losses. What gets through ends the
    /// silence.
    fn may_trickle(&self, now: Instant, path: &Path) -> bool {
        let lately =
            path.last_received_at().is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        lately && path.may_drip(now, TRICKLE) && self.paths.active_for(Tier::Bulk).next().is_none()
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
        let marked = frames.contains(&SentFrame::MarkedProbe) || (urgent && path.marks_next());
        let outgoing = Outgoing { pn, bytes, ack_eliciting, bulk, marked, route, frames };
        path.on_packet_sent(now, outgoing);
        let route = route.unwrap_or(path.route());
        Some(Transmit {
            path: Some(PathRef { session: self.id, path: path.id() }),
            interface: route.interface,
            local: route.local,
            destination: route.remote,
            urgent: marked,
            number: Some(pn),
        })
    }
}

/// Adds an acknowledgement of a path's packets.
fn add_ack(path: PathId, ack: Option<AckToSend>, datagram: &mut Builder<'_>) {
    let Some(ack) = ack else { return };
    let Some(ranges) = AckRanges::from_descending(ack.ranges) else { return };
    let largest = ranges.largest();
    let mut frame = AckFrame {
        path,
        ranges,
        received_at_us: ack.received_at.as_micros(),
        delay_us: u32::try_from(ack.delay.as_micros()).unwrap_or(u32::MAX),
        ecn_ce: 0,
    };
    // The peer has heard of older ranges when it has heard of a frame that names them all.
    if frame.fit(datagram.room()) {
        datagram.note_own(SentFrame::Ack { path, largest });
    }
    datagram.push(&Frame::Ack(frame));
}

fn check_length(bytes: &[u8], limit: usize) -> Result<(), SendError> {
    if bytes.len() > limit { Err(SendError::TooLarge { limit }) } else { Ok(()) }
}

fn send_error(refused: Refused) -> SendError {
    match refused {
        Refused::Busy => SendError::Busy,
        Refused::TooOld => SendError::TooOld,
        Refused::TooLarge => SendError::TooLarge { limit: limits::MESSAGE_BYTES },
    }
}
