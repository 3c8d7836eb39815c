//! One path: a local interface and a remote address with their own packet numbers, round-trip
//! time, loss, window, MTU and health.
//!
//! The session drives it in packet order: `on_datagram` (authenticated), its frames, then
//! `on_packet_received`; on the way out `take_…` for what the path itself wants to say,
//! [`Path::bulk_budget`] for what the application may, `next_packet_number`, `on_packet_sent`.
//! Whatever that ends — packets delivered or lost, a change of state — comes back as an
//! [`Outcome`]. Nothing here knows what control messages are, or any other path.

mod address;
mod health;
mod mtu;
mod pacer;
mod snapshot;
#[cfg(test)]
pub(crate) mod testbed;

use units::{Duration, Instant, Rate};

pub(crate) use address::{Route, Token};
pub(crate) use snapshot::{Counters, PathSnapshot};

use address::{Address, Proof};
use health::{Answer, HealthView, Suspicion, Verdict};
use mtu::MtuDiscovery;
use pacer::Pacer;

use crate::congestion::{Acked, CongestionKind, Controller, LinkView, Lost};
use crate::crypto::ReplayWindow;
use crate::event::PathState;
use crate::ids::PathId;
use crate::limits;
use crate::recovery::{
    AckInfo, AckToSend, AckTracker, Arrival, ClockSample, DeliveryRate, MAX_ACK_DELAY,
    RttEstimator, SentFrame, SentFrames, SentPacket, SentPackets,
};

/// Bytes of a datagram that carries a challenge and nothing else, at most.
const CHALLENGE_BYTES: u64 = 64;

/// A path that is suspected so soon after its revival may have become slower, not silent.
const SUSPECTED_AGAIN: Duration = Duration::from_secs(2);

/// Configures a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathConfig {
    /// Which congestion controller.
    pub(crate) congestion: CongestionKind,
    /// True on the side that opened the path: its interface is fixed, and its remote address was
    /// configured and not brought up by a stranger.
    pub(crate) initiator: bool,
    /// A path that carried nothing for this long is probed; zero never probes.
    pub(crate) idle_probe: Duration,
}

/// Collects what an input or a timeout has brought to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Packets that the peer has received, those among them that had been declared lost included.
    pub(crate) acked: Vec<SentPacket>,
    /// Packets declared lost.
    pub(crate) lost: Vec<SentPacket>,
    /// The state before and after, where it changed.
    pub(crate) changed: Option<(PathState, PathState)>,
    /// True when the path moved to another address, which has proved itself.
    pub(crate) moved: bool,
    /// A bound on the offset of the peer's clock.
    pub(crate) clock: Option<ClockSample>,
}

/// Describes a datagram that is being sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// Its number, from [`Path::next_packet_number`].
    pub(crate) pn: u64,
    /// Its UDP payload.
    pub(crate) bytes: usize,
    /// Whether the peer must acknowledge it.
    pub(crate) ack_eliciting: bool,
    /// Whether it carries bulk: it obeyed [`Path::bulk_budget`], and the peer may hold its
    /// acknowledgement back.
    pub(crate) bulk: bool,
    /// Where it goes, when not to the path's own route.
    pub(crate) route: Option<Route>,
    /// What it carries.
    pub(crate) frames: SentFrames,
}

/// One path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    config: PathConfig,
    state: PathState,
    address: Address,
    next_pn: u64,
    largest_received: Option<u64>,
    replay: ReplayWindow,
    sent: SentPackets,
    received: AckTracker,
    rtt: RttEstimator,
    rate: DeliveryRate,
    delivery_rate: Rate,
    congestion: Box<dyn Controller>,
    pacer: Pacer,
    mtu: MtuDiscovery,
    suspicion: Option<Suspicion>,
    doubtful: bool,
    revived_at: Option<Instant>,
    /// Samples of packets sent earlier are not believed.
    trusted_since: Instant,
    probe_wanted: bool,
    probe_at: Instant,
    last_eliciting_at: Instant,
    window_full_at: Option<Instant>,
    ecn_ce: u32,
    last_received_at: Option<Instant>,
    counters: Counters,
    looked_at: Instant,
}

impl Path {
    /// Makes a path whose address is to be validated; `seed` must not be guessable by the peer.
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        route: Route,
        config: PathConfig,
        seed: u64,
    ) -> Self {
        Self {
            id,
            config,
            state: PathState::Validating,
            address: Address::new(now, route, config.initiator, seed),
            next_pn: 0,
            largest_received: None,
            replay: ReplayWindow::new(),
            sent: SentPackets::new(),
            received: AckTracker::default(),
            rtt: RttEstimator::new(),
            rate: DeliveryRate::default(),
            delivery_rate: Rate::ZERO,
            congestion: config.congestion.controller(limits::MIN_DATAGRAM),
            pacer: Pacer::new(now),
            mtu: MtuDiscovery::new(now),
            suspicion: None,
            doubtful: false,
            revived_at: None,
            trusted_since: now,
            probe_wanted: false,
            probe_at: now,
            last_eliciting_at: now,
            window_full_at: None,
            ecn_ce: 0,
            last_received_at: None,
            counters: Counters::default(),
            looked_at: now,
        }
    }

    /// Returns which path this is.
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Returns what it is good for.
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Returns where its datagrams leave and go.
    pub(crate) fn route(&self) -> Route {
        self.address.route()
    }

    /// Returns the largest datagram that it carries, in bytes of UDP payload.
    pub(crate) fn max_datagram(&self) -> usize {
        self.mtu.current()
    }

    /// Returns how many bytes may be sent before its address has proved itself; without limit
    /// after that. Holds for everything, control included.
    pub(crate) fn allowance(&self) -> u64 {
        self.address.allowance()
    }

    // ── in ──────────────────────────────────────────────────────────────────────────────────

    /// Tells whether a datagram of this number may still come in for the first time.
    pub(crate) fn is_new(&self, pn: u64) -> bool {
        self.replay.check(pn)
    }

    /// Returns when the last authenticated datagram came in.
    pub(crate) fn last_received_at(&self) -> Option<Instant> {
        self.last_received_at
    }

    /// Notes an authenticated datagram that came in for the first time, before its frames.
    pub(crate) fn on_datagram(&mut self, now: Instant, pn: u64, from: Route, bytes: usize) {
        self.replay.mark(pn);
        let newest = self.largest_received.is_none_or(|largest| pn > largest);
        self.largest_received = self.largest_received.max(Some(pn));
        self.address.on_received(now, from, bytes, newest);
        self.last_received_at = Some(now);
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    /// Notes its packet, after its frames.
    pub(crate) fn on_packet_received(&mut self, now: Instant, pn: u64, arrival: Arrival) {
        self.received.on_received(now, pn, arrival);
    }

    /// Remembers to answer the peer's challenge to where it came from.
    pub(crate) fn on_challenge(&mut self, token: u64, from: Route) {
        self.address.on_challenge(token, from);
    }

    /// Takes the answer to a challenge, by whatever path it came.
    pub(crate) fn on_response(&mut self, now: Instant, token: u64) -> Outcome {
        let mut outcome = Outcome::default();
        match self.address.on_response(token) {
            Proof::None => {}
            Proof::Own => self.on_address_proved(now, &mut outcome),
            Proof::Moved => {
                outcome.moved = true;
                self.on_address_proved(now, &mut outcome);
            }
        }
        outcome
    }

    /// Takes the address as proved by the handshake, whose cookie was bound to it.
    ///
    /// A PING follows at once: the responder waits for the first datagram under new keys, and the
    /// path has no RTT yet.
    pub(crate) fn confirm_address(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        self.probe_wanted = true;
        self.address.confirm();
        self.on_address_proved(now, &mut outcome);
        outcome
    }

    fn on_address_proved(&mut self, now: Instant, outcome: &mut Outcome) {
        if self.state == PathState::Validating {
            self.last_eliciting_at = now;
            self.change_state(PathState::Active, outcome);
        }
    }

    /// Takes an ACK frame for packets of this path, by whatever path it came.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &AckInfo<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if ack.largest >= self.next_pn {
            self.counters.bad_acks += 1;
            return outcome;
        }
        let newly = self.sent.on_ack(now, ack);
        let newest_sent_at =
            newly.packets.iter().chain(&newly.late).map(|packet| packet.sent_at).max();
        let Some(newest_sent_at) = newest_sent_at else { return outcome };
        outcome.clock = newly.packets.iter().chain(&newly.late).find_map(|packet| {
            (packet.pn == ack.largest).then(|| ClockSample {
                sent_at: packet.sent_at,
                received_at_us: ack.received_at_us,
                acked_at: now - ack.delay,
            })
        });
        self.revive(now, newest_sent_at, &mut outcome);
        let late_bytes = newly.late.iter().map(|packet| u64::from(packet.bytes)).sum();
        let acked = self.measure(now, ack, &newly.packets, late_bytes);
        for packet in &newly.packets {
            self.on_packet_acked(packet);
        }
        self.counters.packets_acked += (newly.packets.len() + newly.late.len()) as u64;
        self.counters.packets_late += newly.late.len() as u64;
        if let Some(acked) = acked {
            let view = self.link_view(now);
            self.congestion.on_ack(&view, &acked);
        }
        let ecn_ce = ack.ecn_ce.wrapping_sub(self.ecn_ce) as i32 > 0;
        self.ecn_ce = if ecn_ce { ack.ecn_ce } else { self.ecn_ce };
        outcome.acked = newly.packets;
        outcome.acked.extend(newly.late);
        self.detect_lost(now, ecn_ce.then_some(newest_sent_at), &mut outcome);
        self.look(now, &mut outcome);
        outcome
    }

    /// Samples round-trip time and delivery rate, unless a stall has made them worthless.
    fn measure(
        &mut self,
        now: Instant,
        ack: &AckInfo<'_>,
        acked: &[SentPacket],
        late_bytes: u64,
    ) -> Option<Acked> {
        let newest = acked.iter().max_by_key(|packet| packet.pn)?;
        let trusted = self.suspicion.is_none() && newest.sent_at >= self.trusted_since;
        let rtt = (trusted && newest.pn == ack.largest && newest.ack_eliciting)
            .then(|| self.rtt.on_sample(now, now.since(newest.sent_at), ack.delay));
        for packet in acked.iter().filter(|packet| packet.ack_eliciting) {
            self.rate.on_acked(now, packet.bytes.into(), packet.sent_at, packet.delivery);
        }
        let min_rtt = self.rtt.min_rtt().unwrap_or_default();
        let rate = self.rate.take_sample(now, min_rtt).filter(|_| trusted);
        if let Some(sample) = rate
            && sample.rate > Rate::ZERO
        {
            let (old, new) = (self.delivery_rate.as_bps(), sample.rate.as_bps());
            self.delivery_rate = Rate::from_bps(old - old / 8 + new / 8);
        }
        let recently = self.rtt.srtt_or_initial();
        Some(Acked {
            bytes: acked
                .iter()
                .filter(|packet| packet.ack_eliciting)
                .map(|p| u64::from(p.bytes))
                .sum(),
            late_bytes,
            newest_sent_at: newest.sent_at,
            rtt,
            rate,
            window_limited: self.window_full_at.is_some_and(|at| now.since(at) <= recently),
        })
    }

    fn on_packet_acked(&mut self, packet: &SentPacket) {
        let probe = packet.frames.iter().find_map(|frame| match frame {
            SentFrame::MtuProbe { size } => Some(*size),
            _ => None,
        });
        match probe {
            Some(size) => self.mtu.on_probe_acked(size.into()),
            None if packet.ack_eliciting => self.mtu.on_acked(packet.bytes.into()),
            None => {}
        }
    }

    /// Declares lost what is lost, and tells the controller, of a mark at `marked` as well.
    fn detect_lost(&mut self, now: Instant, marked: Option<Instant>, outcome: &mut Outcome) {
        let patience = self.rtt.srtt_or_initial().max(self.rtt.latest());
        let lost = self.sent.detect_lost(now, patience);
        self.counters.packets_lost += lost.len() as u64;
        for packet in &lost {
            if let Some(size) = packet.frames.iter().find_map(mtu_probe_size) {
                self.mtu.on_probe_lost(now, size);
            } else {
                self.mtu.on_lost(now, packet.bytes.into());
            }
        }
        let congestion = lost.iter().filter(|packet| !packet.is_mtu_probe());
        let bytes = congestion.clone().map(|packet| u64::from(packet.bytes)).sum();
        let newest = congestion.map(|packet| packet.sent_at).max().max(marked);
        if let Some(newest_sent_at) = newest {
            let view = self.link_view(now);
            let lost = Lost { bytes, newest_sent_at, ecn_ce: marked.is_some() };
            self.congestion.on_loss(&view, &lost);
        }
        outcome.lost.extend(lost);
    }

    /// Notes that the peer has received our acknowledgement of its packets up to `largest`.
    pub(crate) fn on_ack_of_ack(&mut self, largest: u64) {
        self.received.on_ack_of_ack(largest);
    }

    // ── out ─────────────────────────────────────────────────────────────────────────────────

    /// Tells whether the path itself wants to send something now, apart from what the application
    /// wants: any of the `take_…` methods would give something.
    pub(crate) fn wants_transmit(&self, now: Instant) -> bool {
        if matches!(self.state, PathState::Absent | PathState::Closed) {
            return false;
        }
        self.ack_is_due(now)
            || self.address.wants_transmit(now, CHALLENGE_BYTES)
            || self.probe_wanted
            || self.mtu_probe(now).is_some()
    }

    /// Tells whether an acknowledgement must leave now.
    pub(crate) fn ack_is_due(&self, now: Instant) -> bool {
        self.received.due_at().is_some_and(|at| at <= now)
    }

    /// Tells whether an acknowledgement would tell the peer anything new: cheap to add to whatever
    /// leaves, on any path.
    pub(crate) fn ack_has_news(&self) -> bool {
        self.received.has_news()
    }

    /// Makes the acknowledgement of this path's packets, due or not, and counts it as sent.
    pub(crate) fn take_ack(&mut self, now: Instant) -> Option<AckToSend> {
        self.received.take(now)
    }

    /// Returns the answer to a challenge that is to be sent now.
    pub(crate) fn take_response(&mut self) -> Option<Token> {
        self.address.take_response()
    }

    /// Returns the challenge that is to be sent now; its datagram must not exceed 64 bytes unless
    /// [`Path::allowance`] permits it.
    pub(crate) fn take_challenge(&mut self, now: Instant) -> Option<Token> {
        self.address.take_challenge(now, CHALLENGE_BYTES)
    }

    /// Tells whether a PING is to be sent now. Anything that elicits an acknowledgement at once
    /// will do instead.
    pub(crate) fn probe_is_wanted(&self) -> bool {
        self.probe_wanted
    }

    /// Returns the size of the MTU probe that is to be sent now: a PING padded to that many bytes,
    /// noted as [`SentFrame::MtuProbe`].
    pub(crate) fn mtu_probe(&self, now: Instant) -> Option<usize> {
        let fit = self.state == PathState::Active && !self.doubtful && self.rtt.srtt().is_some();
        if fit { self.mtu.probe(now) } else { None }
    }

    /// Returns how many bytes of bulk may leave now: window and pacing permitting.
    pub(crate) fn bulk_budget(&self, now: Instant) -> usize {
        let room = self.window_room();
        let ready = self.pacer.ready_at(now, self.pacing_rate(now), self.mtu.current()) <= now;
        if ready { usize::try_from(room).unwrap_or(usize::MAX) } else { 0 }
    }

    /// Returns when pacing lets bulk leave, where pacing is what holds it back.
    pub(crate) fn pacing_deadline(&self, now: Instant) -> Option<Instant> {
        if self.window_room() < self.mtu.current() as u64 {
            return None;
        }
        let ready = self.pacer.ready_at(now, self.pacing_rate(now), self.mtu.current());
        (ready > now).then_some(ready)
    }

    fn window_room(&self) -> u64 {
        if self.state != PathState::Active || self.sent.is_full() {
            return 0;
        }
        self.congestion.cwnd().saturating_sub(self.sent.in_flight())
    }

    fn pacing_rate(&self, now: Instant) -> Option<Rate> {
        self.congestion.pacing_rate(&self.link_view(now))
    }

    /// Returns the next packet number; it is used up whether or not it is sent.
    pub(crate) fn next_packet_number(&mut self) -> u64 {
        let pn = self.next_pn;
        self.next_pn += 1;
        pn
    }

    /// Notes a datagram that is being sent.
    pub(crate) fn on_packet_sent(&mut self, now: Instant, outgoing: Outgoing) {
        let Outgoing { pn, bytes, ack_eliciting, bulk, route, frames } = outgoing;
        let (rate, mtu) = (self.pacing_rate(now), self.mtu.current());
        let in_flight = self.sent.in_flight();
        if self.pacer.is_full(now, rate, mtu)
            && in_flight + 2 * mtu as u64 <= self.congestion.cwnd()
        {
            self.rate.on_app_limited(in_flight);
        }
        self.pacer.on_sent(now, rate, mtu, bytes);
        self.address.on_sent(route.unwrap_or(self.address.route()), bytes);
        if frames.iter().any(|frame| matches!(frame, SentFrame::MtuProbe { .. })) {
            self.mtu.on_probe_sent();
        }
        if ack_eliciting {
            self.last_eliciting_at = now;
            self.probe_wanted = false;
            self.probe_at = now + self.probe_interval(now);
        }
        let delivery = self.rate.on_sent(now, in_flight);
        let size = u16::try_from(bytes).unwrap_or(u16::MAX);
        self.sent.on_sent(SentPacket {
            pn,
            sent_at: now,
            bytes: size,
            ack_eliciting,
            bulk,
            delivery,
            frames,
        });
        if self.sent.in_flight() + mtu as u64 > self.congestion.cwnd() {
            self.window_full_at = Some(now);
        }
        self.counters.datagrams_sent += 1;
        self.counters.bytes_sent += bytes as u64;
    }

    // ── time ────────────────────────────────────────────────────────────────────────────────

    /// Returns when [`Path::on_timeout`] must be called next.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if matches!(self.state, PathState::Absent | PathState::Closed) {
            return None;
        }
        let mut timers = [self.received.due_at(), self.address.timeout(), None, None, None];
        if self.state != PathState::Validating {
            timers[2] = self.sent.loss_time();
            timers[3] = self.health_timeout();
            timers[4] = self.mtu.timeout().filter(|_| self.state == PathState::Active);
        }
        timers.into_iter().flatten().filter(|&at| at > self.looked_at).min()
    }

    fn health_timeout(&self) -> Option<Instant> {
        let probe = (!self.probe_wanted).then_some(self.probe_at);
        let idle = self.last_eliciting_at + self.config.idle_probe;
        let idle = (self.config.idle_probe > Duration::ZERO && !self.probe_wanted).then_some(idle);
        if self.suspicion.is_some() {
            return probe;
        }
        match health::judge(self.looked_at, &self.health_view(), self.sent.unanswered()) {
            Verdict::Healthy { look_at } => look_at.into_iter().chain(idle).min(),
            Verdict::Doubtful { look_at } => look_at.into_iter().chain(probe).min(),
            Verdict::Silent => Some(self.looked_at),
        }
    }

    /// Lets time pass: finds what is lost, due, silent. What is to be sent shows in
    /// [`Path::wants_transmit`].
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        if matches!(self.state, PathState::Active | PathState::Suspected) {
            self.detect_lost(now, None, &mut outcome);
            self.look(now, &mut outcome);
        }
        self.looked_at = now;
        outcome
    }

    /// Judges the path's health and decides whether it is to be probed.
    fn look(&mut self, now: Instant, outcome: &mut Outcome) {
        let view = self.health_view();
        if self.state == PathState::Suspected {
            let lost = self.sent.give_up_before(now - view.overdue_after(true));
            self.on_given_up(lost, outcome);
            self.probe_wanted |= self.probe_at <= now;
            return;
        }
        if self.state != PathState::Active {
            return;
        }
        match health::judge(now, &view, self.sent.unanswered()) {
            Verdict::Healthy { .. } => {
                self.doubtful = false;
                let idle = now.since(self.last_eliciting_at) >= self.config.idle_probe;
                self.probe_wanted |= idle && self.config.idle_probe > Duration::ZERO;
            }
            Verdict::Doubtful { .. } => {
                if !self.doubtful {
                    self.doubtful = true;
                    self.probe_wanted = true;
                }
                self.probe_wanted |= self.probe_at <= now;
            }
            Verdict::Silent => self.suspect(now, outcome),
        }
    }

    fn suspect(&mut self, now: Instant, outcome: &mut Outcome) {
        let again = self.revived_at.is_some_and(|at| now.since(at) < SUSPECTED_AGAIN);
        self.suspicion = Some(Suspicion::new(now, &self.health_view(), again));
        self.doubtful = true;
        self.probe_wanted = true;
        self.counters.suspicions += 1;
        let lost = self.sent.give_up_before(now + Duration::from_secs(1));
        self.on_given_up(lost, outcome);
        self.change_state(PathState::Suspected, outcome);
    }

    /// Reports packets that silence cost: neither the loss estimate nor the congestion controller
    /// hears of them.
    fn on_given_up(&mut self, lost: Vec<SentPacket>, outcome: &mut Outcome) {
        self.mtu.on_silence();
        self.counters.packets_lost += lost.len() as u64;
        outcome.lost.extend(lost);
    }

    fn revive(&mut self, now: Instant, newest_sent_at: Instant, outcome: &mut Outcome) {
        let Some(suspicion) = &mut self.suspicion else { return };
        match suspicion.on_answer(now, newest_sent_at) {
            Answer::Stale => return,
            Answer::Fresh => {}
            Answer::Slower(rtt) => self.rtt.reset(now, rtt),
        }
        self.revived_at = Some(now);
        self.suspicion = None;
        self.doubtful = false;
        self.trusted_since = now;
        let view = self.link_view(now);
        self.congestion.on_revival(&view);
        self.change_state(PathState::Active, outcome);
    }

    /// Notes that the path's interface is there or not. A path whose interface came back proves
    /// its address again.
    pub(crate) fn set_present(&mut self, now: Instant, present: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let absent = self.state == PathState::Absent;
        if self.state == PathState::Closed || absent != present {
            return outcome;
        }
        if present {
            self.address.restart(now);
            self.change_state(PathState::Validating, &mut outcome);
        } else {
            self.give_up(PathState::Absent, now, &mut outcome);
        }
        outcome
    }

    /// Gives the path up for good.
    pub(crate) fn close(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        self.give_up(PathState::Closed, now, &mut outcome);
        outcome
    }

    fn give_up(&mut self, state: PathState, now: Instant, outcome: &mut Outcome) {
        let lost = self.sent.give_up_before(now + Duration::from_secs(1));
        self.on_given_up(lost, outcome);
        self.suspicion = None;
        self.doubtful = false;
        self.probe_wanted = false;
        self.trusted_since = now;
        self.change_state(state, outcome);
    }

    fn change_state(&mut self, to: PathState, outcome: &mut Outcome) {
        if self.state != to {
            let from = outcome.changed.map_or(self.state, |(from, _)| from);
            outcome.changed = Some((from, to));
            self.state = to;
        }
    }

    // ── views ───────────────────────────────────────────────────────────────────────────────

    /// Shows the path to schedulers and to the status page.
    pub(crate) fn snapshot(&self, now: Instant) -> PathSnapshot {
        let view = self.link_view(now);
        PathSnapshot {
            id: self.id,
            route: self.address.route(),
            state: self.state,
            doubtful: self.doubtful,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min_rtt(),
            probe_timeout: self.rtt.probe_timeout(),
            loss: self.sent.loss().loss(),
            loss_in: self.received.loss().loss(),
            burst: self.sent.loss().burst(),
            cwnd: self.congestion.cwnd(),
            in_flight: self.sent.in_flight(),
            send_rate: Rate::from_bytes_in(self.congestion.cwnd(), view.srtt),
            delivery_rate: self.delivery_rate,
            budget: self.bulk_budget(now),
            mtu: self.mtu.current(),
            counters: self.counters,
            last_received_at: self.last_received_at,
        }
    }

    /// Shows the inner state of the controller, for traces of tests.
    #[cfg(test)]
    pub(crate) fn congestion_state(&self) -> String {
        format!("{:?}", self.congestion)
    }

    fn link_view(&self, now: Instant) -> LinkView {
        let srtt = self.rtt.srtt_or_initial();
        LinkView {
            now,
            srtt,
            min_rtt: self.rtt.min_rtt().unwrap_or(srtt),
            in_flight: self.sent.in_flight(),
            mtu: self.mtu.current() as u64,
        }
    }

    fn health_view(&self) -> HealthView {
        let srtt = self.rtt.srtt_or_initial();
        HealthView {
            srtt,
            rttvar: self.rtt.rttvar().unwrap_or(srtt / 2),
            loss: self.sent.loss().loss(),
            loss_in: self.received.loss().loss(),
            ack_delay: MAX_ACK_DELAY,
        }
    }

    fn probe_interval(&self, now: Instant) -> Duration {
        match &self.suspicion {
            Some(suspicion) => suspicion.probe_interval(now, self.rtt.srtt_or_initial()),
            None => self.health_view().probe_interval(),
        }
    }
}

fn mtu_probe_size(frame: &SentFrame) -> Option<usize> {
    match frame {
        SentFrame::MtuProbe { size } => Some((*size).into()),
        _ => None,
    }
}
