//! What a path learns from what comes in: datagrams, the answers to its challenges, ACK frames.
//!
//! The session takes the frames apart. What acknowledgements do to the congestion controller, the
//! estimators and the path's health starts here, in the order that [`Path::on_ack`] gives.

use std::net::IpAddr;

use smallvec::SmallVec;
use units::{Duration, Instant, Rate};

use super::address::Proof;
use super::bottleneck::{LATEST_US, Sample};
use super::{Marks, Outcome, Path, Route, health};
use crate::congestion::{Acked, Lost};
use crate::event::PathState;
use crate::limits;
use crate::recovery::{
    AckInfo, Arrival, ClockSample, MAX_ACK_DELAY, NewlyAcked, RIDE, SLOW_ACK_DELAY, SentFrame,
    SentPacket,
};
use crate::via::Via;
use crate::wire::UncountedFrame;

impl Path {
    /// Tells whether a datagram of this number may still come in for the first time.
    pub(crate) fn is_new(&self, pn: u64) -> bool {
        self.incoming.replay.is_new(pn)
    }

    /// Returns when the last authenticated datagram came in.
    pub(crate) fn last_received_at(&self) -> Option<Instant> {
        self.incoming.last_at
    }

    /// Notes an authenticated datagram that came in for the first time, before its frames.
    pub(crate) fn on_datagram(&mut self, now: Instant, pn: u64, from: Route, bytes: usize) {
        let newest = self.incoming.on_datagram(now, pn);
        self.address.on_received(now, from, bytes, newest);
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    /// Notes the packet of that datagram, after its frames.
    pub(crate) fn on_packet_received(&mut self, now: Instant, pn: u64, arrival: Arrival) {
        // Beside bulk an answer says how long the queue is, and is wanted soon.
        let arrival = Arrival { may_wait: arrival.may_wait && !self.has_bulk(), ..arrival };
        self.incoming.acks.on_received(now, pn, arrival);
    }

    /// Learns from the peer which of its packets are no loss of the path if they are missing.
    pub(crate) fn on_uncounted(&mut self, frame: UncountedFrame) {
        self.incoming.acks.on_uncounted(frame.first, frame.first + (frame.count - 1));
    }

    /// Remembers to answer the peer's challenge to where it came from.
    pub(crate) fn on_challenge(&mut self, token: u64, from: Route) {
        self.address.on_challenge(token, from);
    }

    /// Takes the answer to a challenge, by whatever path it came.
    pub(crate) fn on_response(&mut self, now: Instant, token: u64) -> Outcome {
        let mut outcome = Outcome::default();
        match self.address.on_response(now, token) {
            Proof::None => {}
            Proof::Own => self.on_address_proved(now, &mut outcome),
            Proof::Moved => {
                outcome.moved = true;
                self.spare_all();
                self.leave_stream(now, &mut outcome);
                self.marks = Marks::default();
                self.on_address_proved(now, &mut outcome);
            }
        }
        outcome
    }

    /// Takes the address as proved by the handshake, whose cookie was bound to it, and whose answer
    /// `took` so long at most.
    ///
    /// A PING follows at once: the responder waits for the first datagram under new keys, and the
    /// path has no RTT yet.
    pub(crate) fn confirm_address(&mut self, now: Instant, took: Duration) -> Outcome {
        let mut outcome = Outcome::default();
        self.link.rtt.suppose(took);
        self.probes.wanted = true;
        self.address.confirm();
        self.on_address_proved(now, &mut outcome);
        outcome
    }

    /// Takes the candidate's address as proved by the handshake, and moves there.
    pub(crate) fn confirm_candidate(&mut self, now: Instant, took: Duration) -> Outcome {
        self.spare_all();
        self.address.move_on(now);
        let mut outcome = self.confirm_address(now, took);
        outcome.moved = true;
        self.leave_stream(now, &mut outcome);
        outcome
    }

    /// Tries an address that the peer or the configuration has named; returns whether it is news.
    pub(crate) fn suggest(&mut self, now: Instant, remote: Via) -> bool {
        self.address.suggest(now, remote)
    }

    /// Sends from another address of this host from now on, and lets the peer hear it at once.
    pub(crate) fn set_local(&mut self, local: IpAddr) {
        self.spare_all();
        self.address.set_local(local);
        self.probes.wanted = true;
    }

    fn on_address_proved(&mut self, now: Instant, outcome: &mut Outcome) {
        if self.health.state == PathState::Validating {
            self.probes.last_eliciting_at = now;
            self.mtu.on_alive(now);
            self.change_state(PathState::Active, outcome);
        }
    }

    /// Takes an ACK frame for packets of this path, by whatever path it came.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &AckInfo<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if ack.largest >= self.numbers.next {
            self.counters.bad_acks += 1;
            return outcome;
        }
        if self.numbers.skipped.is_any_in(ack.ranges) {
            outcome.cheated = true;
            return outcome;
        }
        let view = self.health_view(now);
        let silent = health::overdue_for(now, &view, self.sent.unanswered());
        let is_run = health::is_run(now, &view, self.sent.unanswered());
        let silent_since = self.silent_since(now);
        let newly = self.sent.on_ack(now, ack);
        let mut all = newly.packets.iter().chain(&newly.late);
        let newest_sent_at = all.clone().map(|packet| packet.sent_at).max();
        let Some(newest_sent_at) = newest_sent_at else { return outcome };
        self.numbers.uncounted.on_acked(ack.largest);
        let largest = all.find(|packet| packet.pn == ack.largest).map(|packet| packet.sent_at);
        outcome.clock = largest.map(|sent_at| ClockSample {
            sent_at,
            received_at_us: ack.received_at_us,
            acked_at: now - ack.delay,
        });
        // A late answer shows no loss: the path is slow, or stood still.
        let on_time = now.since(newest_sent_at) <= view.overdue_after(true);
        let is_over = silent > health::overdue_for(now, &view, self.sent.unanswered());
        if is_run && on_time && is_over && self.health.suspicion.is_none() {
            self.health.bursts.on_return(now, silent);
        }
        self.revive(now, newest_sent_at, &mut outcome);
        let late_bytes = newly.late.iter().map(|packet| u64::from(packet.bytes)).sum();
        let acked = self.measure(now, ack, &newly.packets, late_bytes);
        self.measure_hop(now, ack, &newly, silent_since.is_some());
        self.health.silence = silent_since.filter(|since| newest_sent_at < *since);
        if let Some(since) = silent_since {
            self.on_silence_ended(now, since);
        }
        for packet in &newly.packets {
            self.on_packet_acked(now, packet);
        }
        for packet in newly.late.iter().chain(&newly.packets) {
            self.marks.on_acked(now, packet);
        }
        self.counters.packets_acked += (newly.packets.len() + newly.late.len()) as u64;
        self.counters.packets_late += newly.late.len() as u64;
        if let Some(acked) = acked {
            let view = self.link_view(now);
            self.bulk.congestion.on_ack(&view, &acked);
        }
        outcome.received_at_us = ack.received_at_us;
        let is_gap = std::mem::take(&mut self.incoming.gap_since_ack);
        outcome.repeats_lost = largest.filter(|_| is_gap);
        outcome.acked = newly.packets;
        outcome.acked.extend(newly.late);
        self.detect_lost(now, &mut outcome);
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
        let trusted =
            self.health.suspicion.is_none() && newest.sent_at >= self.health.trusted_since;
        let is_round_trip =
            newest.pn == ack.largest && !ack.elsewhere && self.is_timed(newest.bytes);
        let rtt = (trusted && is_round_trip && newest.ack_eliciting)
            .then(|| self.link.rtt.on_sample(now, now.since(newest.sent_at), ack.delay));
        if rtt.is_some() && !newest.bulk {
            // Where acknowledgements of the peer were lost, older packets waited for want of those.
            let first =
                acked.iter().filter(|packet| packet.ack_eliciting && !self.incoming.gap_since_ack);
            let first =
                first.map(|packet| packet.sent_at).filter(|at| *at >= self.health.trusted_since);
            let took = now.since(first.min().unwrap_or(newest.sent_at));
            self.health.answers.on_answer(now, took, self.link.rtt.srtt_or_initial());
        }
        for packet in acked.iter().filter(|packet| packet.ack_eliciting) {
            self.link.rate.on_acked(now, packet.bytes.into(), packet.sent_at, packet.delivery);
        }
        let min_rtt = self.link.rtt.min_rtt().unwrap_or_default();
        let rate = self.link.rate.take_sample(now, min_rtt).filter(|_| trusted);
        if let Some(sample) = rate
            && sample.rate > Rate::ZERO
        {
            let (old, new) = (self.link.delivery_rate.as_bps(), sample.rate.as_bps());
            self.link.delivery_rate = Rate::from_bps(old - old / 8 + new / 8);
            if self.link.relayed.is_some() {
                self.link.hop.on_delivered(sample.rate);
            }
        }
        if is_round_trip && newest.ack_eliciting && !newest.bulk {
            let usual =
                if self.link.let_wait_at >= Some(newest.sent_at) { RIDE } else { MAX_ACK_DELAY };
            let fallen = self.link.peer_holds - self.link.peer_holds / 16;
            let held = if ack.delay > usual { ack.delay } else { Duration::ZERO };
            self.link.peer_holds = held.min(SLOW_ACK_DELAY).max(fallen);
        }
        let recently = self.link.rtt.srtt_or_initial();
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
            window_limited: self.bulk.full_at.is_some_and(|at| now.since(at) <= recently),
        })
    }

    /// Samples what the hop shows: to control packets that were given up too, whatever they
    /// carried. What stood before it while nobody answered shows best that it has become thin; and
    /// what is left out of one sample is time without bytes in the next.
    fn measure_hop(
        &mut self,
        now: Instant,
        ack: &AckInfo<'_>,
        newly: &NewlyAcked,
        was_silent: bool,
    ) {
        let sampled = |packet: &&SentPacket| self.is_timed(packet.bytes);
        let acked: SmallVec<[&SentPacket; 16]> = newly.packets.iter().filter(sampled).collect();
        let late = newly.late.iter().filter(sampled);
        let all: SmallVec<[&SentPacket; 16]> = late.chain(acked.iter().copied()).collect();
        let Some(newest) = all.iter().copied().max_by_key(|packet| packet.pn) else { return };
        if newest.pn != ack.largest || ack.elsewhere || !self.shows_hop() {
            return;
        }
        let received_at_us = ack.received_at_us.min(LATEST_US);
        let rtt = now.since(newest.sent_at).saturating_sub(ack.delay);
        let is_control = all.iter().any(|packet| packet.is_control())
            || self.sent.unheard().any(SentPacket::is_control);
        let may_be_thin = was_silent && is_control && self.incoming.comes_slowly();
        let sample = |acked| Sample { acked, newest, received_at_us, rtt, may_be_thin };
        let is_news = acked.iter().any(|packet| packet.pn == newest.pn);
        let trusted = self.health.suspicion.is_none()
            && newest.sent_at >= self.health.trusted_since
            && is_news;
        self.link.seen = (newest.sent_at, usize::from(newest.bytes) + limits::IP_AND_UDP as usize);
        self.link.hop.on_ack(now, &sample(&all));
        if trusted {
            self.link.known = (newest.sent_at, newest.delivery.in_flight());
            self.prove(newest);
        }
    }

    fn on_packet_acked(&mut self, now: Instant, packet: &SentPacket) {
        match packet.frames.iter().find_map(mtu_probe_size) {
            Some(size) => self.mtu.on_probe_acked(now, size),
            None if packet.ack_eliciting => self.mtu.on_acked(now, packet.bytes.into()),
            None => {}
        }
    }

    /// Declares packets lost, and tells the controller of them.
    pub(super) fn detect_lost(&mut self, now: Instant, outcome: &mut Outcome) {
        let patience = self.link.rtt.srtt_or_initial().max(self.link.rtt.latest());
        let patience = self.patience_of_stream().unwrap_or(patience);
        let lost = self.sent.detect_lost(now, patience);
        self.counters.packets_lost += lost.iter().filter(|packet| packet.counts).count() as u64;
        for packet in &lost {
            self.marks.on_lost(now, packet);
            if let Some(size) = packet.frames.iter().find_map(mtu_probe_size) {
                self.mtu.on_probe_lost(now, size);
            } else if packet.counts {
                self.mtu.on_lost(now, packet.bytes.into());
            }
        }
        let congestion = lost.iter().filter(|packet| packet.counts);
        let bytes = congestion.clone().map(|packet| u64::from(packet.bytes)).sum();
        let newest = congestion.map(|packet| packet.sent_at).max();
        if let Some(newest_sent_at) = newest {
            let view = self.link_view(now);
            let lost = Lost { bytes, newest_sent_at };
            self.bulk.congestion.on_loss(&view, &lost);
        }
        outcome.lost.extend(lost);
    }

    /// Notes that the peer has received our acknowledgement of its packets up to `largest` that
    /// left at `sent_at`.
    pub(crate) fn on_ack_of_ack(&mut self, largest: u64, sent_at: Instant) {
        self.incoming.acks.on_ack_of_ack(largest, sent_at);
    }
}

fn mtu_probe_size(frame: &SentFrame) -> Option<usize> {
    match frame {
        SentFrame::MtuProbe { size } => Some((*size).into()),
        _ => None,
    }
}
