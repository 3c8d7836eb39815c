//! What a path itself has to send, how much the application may send on it, and the record of what
//! was sent.

use units::{Duration, Instant, Rate};

use super::control_window::FULL;
use super::service::RESERVE_PROBE;
use super::{MUCH_LOSS, Outcome, Outgoing, Path, Token};
use crate::congestion::{CongestionKind, LEAST_QUEUE};
use crate::event::PathState;
use crate::recovery::{AckToSend, SLOW_ACK_DELAY, SentFrame, SentPacket};
use crate::wire::UncountedFrame;

/// Bytes of a datagram that carries a challenge and nothing else, at most.
const CHALLENGE_BYTES: u64 = 64;

/// Bytes of a datagram with an acknowledgement alone, headers and all.
const ACK_ALONE: usize = 75;
/// How many times its own time at the hop such a datagram leaves to others.
const ACK_REST: u32 = 3;
/// The same where there is no room for copies: there nearly all acknowledgements ride.
const ACK_RIDES: u32 = 8;

/// How many windows urgent symbols may fill on a path without a queue: enough for what an
/// application hands in now and then, at the start of a session and through a burst of losses.
const EXCESS: u64 = 6;
/// Queue that messages may keep on a path: without one, links that fall and rise every tenth of a
/// second would run idle; with a shorter one the latest messages came later, with a longer one no
/// sooner.
const MESSAGE_QUEUE: Duration = Duration::from_millis(40);

impl Path {
    /// Tells whether an acknowledgement must leave now. On a slow path it rides with what leaves
    /// next, if that is soon.
    pub(crate) fn ack_is_due(&self, now: Instant) -> bool {
        let due_at = self.incoming.acks.due_at().filter(|at| *at <= now);
        due_at.is_some_and(|at| at + self.ack_patience(now, self.careful_since(now)) <= now)
    }

    /// Returns how long an acknowledgement waits for a datagram to ride in: so long that datagrams
    /// with nothing else take little of the hop's time.
    fn ack_patience(&self, now: Instant, careful: Option<Instant>) -> Duration {
        if let Some(since) = careful {
            // It stands before what may leave next, and so does the peer's.
            return self.careful_wait(now, since);
        }
        let rest = |rate: Rate| if self.ack_rides(rate) { ACK_RIDES } else { ACK_REST };
        let takes = |rate: Rate| rate.transmission_time(ACK_ALONE) * rest(rate);
        let rate = self.slow_rate(now);
        let rate = rate.filter(|_| self.is_thin() || self.loss() < MUCH_LOSS);
        rate.map_or(Duration::ZERO, |rate| takes(rate).min(SLOW_ACK_DELAY))
    }

    /// Tells whether nearly all acknowledgements find a datagram of control to ride in, and a hop
    /// that has no room to spare.
    pub(super) fn ack_rides(&self, rate: Rate) -> bool {
        rate < FULL
            && self.link.relayed.is_none()
            && self.sent.unheard().any(SentPacket::is_control)
    }

    /// Returns when the acknowledgement must leave at the latest.
    pub(super) fn ack_timeout(&self, now: Instant, careful: Option<Instant>) -> Option<Instant> {
        self.incoming.acks.due_at().map(|at| at + self.ack_patience(now, careful))
    }

    /// Tells whether an acknowledgement would tell the peer anything new: it is cheap to add to
    /// whatever leaves, on any path.
    pub(crate) fn ack_has_news(&self, now: Instant) -> bool {
        // On a thin hop what every datagram repeats takes the place of a message. What is not due
        // yet is of bulk.
        let due_at = self.incoming.acks.due_at().filter(|at| *at <= now);
        let rides = || self.slow_rate(now).is_some_and(|rate| self.ack_rides(rate));
        let careful = || self.careful_since(now);
        let is_thin = || careful().is_some() || rides();
        let waits = |at: Instant| at + self.ack_patience(now, careful()) / 2 > now && is_thin();
        self.incoming.acks.has_news() && !due_at.is_some_and(waits)
    }

    /// Tells whether a gap in this path's packets is news that a faster path should tell as well.
    pub(crate) fn has_news_of_gap(&self) -> bool {
        self.incoming.acks.has_news_of_gap()
    }

    /// Makes the acknowledgement that a faster path carries.
    pub(crate) fn take_ack_elsewhere(&mut self, now: Instant) -> Option<AckToSend> {
        self.incoming.acks.take_elsewhere(now)
    }

    /// Makes the acknowledgement of this path's packets, due or not, and counts it as sent.
    pub(crate) fn take_ack(&mut self, now: Instant) -> Option<AckToSend> {
        self.incoming.acks.take(now)
    }

    /// Tells whether a challenge or an answer to one may have to be sent now.
    pub(crate) fn may_have_token(&self, now: Instant) -> bool {
        self.address.may_have_token(now)
    }

    /// Returns the answer to a challenge that is to be sent now.
    pub(crate) fn take_response(&mut self) -> Option<Token> {
        self.address.take_response()
    }

    /// Returns the challenge that is to be sent now; its datagram must not exceed 64 bytes unless
    /// [`Path::allowance`] permits it.
    pub(crate) fn take_challenge(&mut self, now: Instant) -> Option<Token> {
        let token = self.address.take_challenge(now, CHALLENGE_BYTES);
        if self.rests() {
            self.address.put_off(now + RESERVE_PROBE);
        }
        token
    }

    /// Tells whether a PING is to be sent now. Anything that elicits an acknowledgement at once
    /// will do instead.
    pub(crate) fn probe_is_wanted(&self) -> bool {
        self.probes.wanted && !self.answers_for_probes()
    }

    /// Tells whether an MTU probe would no longer be in the way of the first messages: the path has
    /// had time to show whether it is thin, or carries bulk.
    pub(crate) fn is_settled(&self, now: Instant) -> bool {
        self.mtu.is_settled(now) || self.has_bulk()
    }

    /// Tells whether more than control is under way.
    pub(super) fn has_bulk(&self) -> bool {
        self.sent.in_flight() > self.sent.control_in_flight()
    }

    /// Returns the size of the MTU probe that is to be sent now: a PING padded to that many bytes,
    /// noted as [`SentFrame::MtuProbe`].
    pub(crate) fn mtu_probe(&self, now: Instant) -> Option<usize> {
        let size = self.mtu.probe(now)?;
        let fit = self.health.state == PathState::Active
            && self.link.relayed.is_none()
            && !self.is_stream()
            && !self.health.doubtful
            && self.slow_rate(now).is_none()
            && !(self.rests() && self.mtu.has_failed())
            && self.link.rtt.srtt().is_some();
        fit.then_some(size)
    }

    /// Tells whether a probe with the mark of control is to leave now: the path has dropped what
    /// was marked.
    pub(crate) fn marked_probe_is_due(&self, now: Instant) -> bool {
        self.health.state == PathState::Active && !self.rests() && self.marks.probe_is_due(now)
    }

    /// Tells whether the next datagram with control is to be marked as such.
    pub(crate) fn marks_next(&mut self) -> bool {
        self.marks.marks_next()
    }

    /// Returns how many bytes of bulk may leave now: window and pacing permitting.
    pub(crate) fn bulk_budget(&self, now: Instant) -> usize {
        self.paced(now, || self.bulk_bound(now))
    }

    /// Returns how many bytes of messages may leave now. Up to a short queue they are not bounded
    /// as bulk is: a bound that keeps control's way free lets messages wait here while every link
    /// is poor.
    pub(crate) fn message_budget(&self, now: Instant) -> usize {
        self.paced(now, || self.message_bound(now))
    }

    /// Tells whether a packet sent here is nearly always answered at once.
    pub(crate) fn loses_little(&self) -> bool {
        self.loss().max(self.incoming.acks.loss().loss()) < MUCH_LOSS
    }

    /// Notes that the peer may let the acknowledgement of the datagram that leaves now wait.
    pub(crate) fn on_let_wait(&mut self, now: Instant) {
        self.link.let_wait_at = Some(now);
    }

    /// Tells whether answers come here, and the hop is known to have room for copies of control.
    pub(crate) fn is_sound_for_control(&self, now: Instant) -> bool {
        let is_proved = || self.link.proved >= FULL.bytes_in(self.link.hop.round_trip());
        let is_known = self.slow_rate(now).is_some() || !self.link.was_thin || is_proved();
        self.health.state == PathState::Active
            && !self.health.late
            && is_known
            && !self.may_be_slow(now)
    }

    /// Tells whether packets queue on the way: what is lost then is lost to congestion.
    pub(crate) fn has_queue(&self) -> bool {
        self.link.rtt.standing_queue() > LEAST_QUEUE
    }

    /// Tells whether a symbol of message delivery may leave although window or pacing say no: the
    /// path has no queue, so the window is small only because little was sent so far. A path that
    /// has fallen silent may carry them as it carries copies of control.
    pub(crate) fn may_exceed(&self, now: Instant) -> bool {
        matches!(self.health.state, PathState::Active | PathState::Suspected)
            && self.link.relayed.is_none()
            && !self.is_stream()
            && !self.sent.is_full()
            && !self.has_queue()
            && self.stands() < self.bulk.congestion.cwnd().saturating_mul(EXCESS)
            && !self.is_overfull(now)
    }

    /// Tells whether the path has fallen silent and has fewer bytes than `limit` under way.
    pub(crate) fn may_drip(&self, now: Instant, limit: u64) -> bool {
        let may_be_thin = || self.slow_rate(now).is_some() || self.careful_since(now).is_some();
        self.health.state == PathState::Suspected && self.stands() < limit && !may_be_thin()
    }

    /// Returns when pacing lets bulk leave, where pacing is what holds it back.
    pub(crate) fn pacing_deadline(&self, now: Instant) -> Option<Instant> {
        let ready = self.bulk.pacer.ready_at(now, self.pacing_rate(now), self.mtu.current());
        let holds = ready > now
            && self.window_room(now, || self.message_bound(now)) >= self.mtu.current() as u64;
        holds.then_some(ready)
    }

    fn message_bound(&self, now: Instant) -> u64 {
        let rate = self.link.hop.rate().filter(|_| self.config.protect_control.is_balanced());
        let time = self.link.rtt.min_rtt().unwrap_or_default() + MESSAGE_QUEUE;
        self.bulk_bound(now).max(rate.unwrap_or_default().bytes_in(time))
    }

    fn paced(&self, now: Instant, bound: impl FnOnce() -> u64) -> usize {
        let room = self.window_room(now, bound);
        let is_ready = || {
            self.is_stream()
                || self.bulk.pacer.ready_at(now, self.pacing_rate(now), self.mtu.current()) <= now
        };
        if room > 0 && is_ready() { usize::try_from(room).unwrap_or(usize::MAX) } else { 0 }
    }

    /// Returns how many bytes the window leaves, and what else is bound to be no more than `bound`:
    /// that costs more to find out, and matters only where the window is not full.
    fn window_room(&self, now: Instant, bound: impl FnOnce() -> u64) -> u64 {
        if self.sent.is_full() {
            return 0;
        }
        if self.lets_all_go() {
            return u64::MAX;
        }
        if self.health.state != PathState::Active {
            return 0;
        }
        if self.is_stream() {
            return u64::MAX;
        }
        if let Some(relayed) = &self.link.relayed {
            return if relayed.is_open() { u64::MAX } else { 0 };
        }
        if self.is_overfull(now) {
            return 0;
        }
        let stands = self.stands();
        match self.bulk.congestion.cwnd().saturating_sub(stands) {
            0 => 0,
            room => room.min(bound().saturating_sub(stands)),
        }
    }

    /// Tells whether nothing is held back, whatever the hop does, and however silent it is.
    pub(super) fn lets_all_go(&self) -> bool {
        let is_proved = matches!(self.health.state, PathState::Active | PathState::Suspected);
        is_proved
            && self.link.relayed.is_none()
            && !self.is_stream()
            && self.config.congestion == CongestionKind::None
    }

    /// Returns the bytes that may stand before the hop: what is in flight, and what was given up in
    /// silence, but for what chance alone may have taken.
    fn stands(&self) -> u64 {
        let is_empty = self.sent.given_up(0) == 0;
        let lost = if is_empty { 0 } else { self.health_view(self.looked_at).run_by_chance() };
        self.sent.in_flight() + self.sent.given_up(lost)
    }

    pub(super) fn pacing_rate(&self, now: Instant) -> Option<Rate> {
        self.bulk.congestion.pacing_rate(&self.link_view(now))
    }

    /// Returns which packets the peer is not to miss: every datagram says so until it is known.
    pub(crate) fn uncounted(&self) -> Option<UncountedFrame> {
        self.numbers.uncounted.untold()
    }

    /// Notes that a packet has not left: the kernel refused it. Where time declares none lost, it
    /// is lost now.
    pub(crate) fn on_unsent(&mut self, pn: u64) -> Outcome {
        let mut outcome = Outcome::default();
        if self.sent.spare(pn) {
            self.numbers.uncounted.note(pn, pn);
            if self.is_stream() {
                outcome.lost.extend(self.sent.give_up(pn));
            }
        }
        outcome
    }

    /// Lets what is under way count for nothing: it goes where the path does not any more.
    pub(super) fn spare_all(&mut self) {
        if let Some((first, last)) = self.sent.spare_all() {
            self.numbers.uncounted.note(first, last);
        }
    }

    /// Leaves the next packet number out now and then.
    pub(crate) fn skip_number(&mut self) {
        self.numbers.skip();
    }

    /// Returns the next packet number; it is used up whether or not it is sent.
    pub(crate) fn next_packet_number(&mut self) -> u64 {
        self.numbers.take()
    }

    /// Notes a datagram that is being sent.
    pub(crate) fn on_packet_sent(&mut self, now: Instant, outgoing: Outgoing) {
        let Outgoing { pn, bytes, ack_eliciting, bulk, marked, route, frames } = outgoing;
        let (rate, mtu) = (self.pacing_rate(now), self.mtu.current());
        let in_flight = self.sent.in_flight();
        if self.bulk.pacer.is_full(now, rate, mtu)
            && in_flight + 2 * mtu as u64 <= self.bulk.congestion.cwnd()
        {
            self.link.rate.on_app_limited(in_flight);
        }
        self.bulk.pacer.on_sent(now, rate, mtu, bytes);
        self.address.on_sent(route.unwrap_or(self.address.route()), bytes);
        let is_mtu_probe = frames.iter().any(|frame| matches!(frame, SentFrame::MtuProbe { .. }));
        if is_mtu_probe {
            self.mtu.on_probe_sent();
        }
        let is_marked_probe = frames.contains(&SentFrame::MarkedProbe);
        if is_marked_probe {
            self.marks.on_probe_sent(now);
        }
        let counts = !is_mtu_probe && !is_marked_probe && self.address.is_proved(route);
        if !counts {
            self.numbers.uncounted.note(pn, pn);
        }
        if ack_eliciting {
            self.probes.last_eliciting_at = now;
            self.probes.wanted = false;
            self.probes.at = now + self.probe_interval(now);
        }
        let before =
            if self.link.relayed.is_some() { self.sent.control_in_flight() } else { in_flight };
        let stood = before + self.sent.given_up(0);
        let delivery = self.link.rate.on_sent(now, in_flight == 0, before);
        let size = u16::try_from(bytes).unwrap_or(u16::MAX);
        self.sent.on_sent(SentPacket {
            pn,
            sent_at: now,
            bytes: size,
            ack_eliciting,
            bulk,
            delivery,
            counts,
            marked,
            stood,
            frames,
        });
        if self.sent.in_flight() + mtu as u64 > self.bulk.congestion.cwnd() {
            self.bulk.full_at = Some(now);
        }
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += bytes as u64;
    }
}
