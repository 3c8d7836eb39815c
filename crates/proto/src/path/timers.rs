//! What time does to a path: losses, overdue answers, suspicion and revival, a missing interface
//! [specs/paths.md §3].

use units::{Duration, Instant};

use super::health::{self, Answer, Suspicion, Verdict};
use super::{Marks, Outcome, Path};
use crate::event::PathState;

/// A path that is suspected again this soon after its revival may have become slower, not silent.
const SUSPECTED_AGAIN: Duration = Duration::from_secs(2);

/// When the path asks whether it still works.
#[derive(Debug)]
pub(super) struct Probes {
    /// One is to leave at once.
    pub(super) wanted: bool,
    /// When one leaves else.
    pub(super) at: Instant,
    /// When something left last that the peer acknowledges.
    pub(super) last_eliciting_at: Instant,
}

impl Probes {
    /// Begins with none.
    pub(super) fn new(now: Instant) -> Self {
        Self { wanted: false, at: now, last_eliciting_at: now }
    }
}

impl Path {
    /// Returns when [`Path::on_timeout`] must be called next.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if matches!(self.health.state, PathState::Absent | PathState::Closed) {
            return None;
        }
        let careful = self.careful_since(self.looked_at);
        let ack = self.ack_timeout(self.looked_at, careful);
        let mut timers = [ack, self.address.timeout(), None, None, None, None, None, None, None];
        if self.health.state != PathState::Validating {
            timers[2] = self.sent.loss_time();
            timers[3] = self.health_timeout();
            let is_plain = self.link.relayed.is_none() && !self.is_stream();
            let probes = self.health.state == PathState::Active && is_plain;
            timers[4] = self.mtu.timeout().filter(|_| probes);
            timers[5] = self.alarm_at(self.looked_at).map(|(at, _)| at);
            timers[6] = self.control_ready_at(self.looked_at);
            timers[7] = careful.map(|since| self.patient_from(since));
            timers[8] = self.marks.timeout().filter(|_| self.health.state == PathState::Active);
        }
        timers.into_iter().flatten().filter(|&at| at > self.looked_at).min()
    }

    fn health_timeout(&self) -> Option<Instant> {
        let probe = (!self.probes.wanted).then_some(self.probes.at);
        if self.health.suspicion.is_some() {
            return probe;
        }
        let view = self.health_view(self.looked_at);
        match health::judge(self.looked_at, &view, self.sent.unanswered()) {
            Verdict::Healthy { look_at } => {
                let idle = self.idle_at().filter(|_| !self.probes.wanted);
                look_at.into_iter().chain(idle).min()
            }
            Verdict::Late { look_at, enough: false } => probe.into_iter().chain([look_at]).min(),
            Verdict::Late { look_at, enough: true } => Some(look_at),
            Verdict::Doubtful { look_at: Some(look_at) } if view.is_patient() => {
                let probe = self.probes.last_eliciting_at + view.burst_probe_interval();
                let probe = (!self.probes.wanted).then_some(probe);
                probe.into_iter().chain([look_at]).min()
            }
            Verdict::Doubtful { look_at } => look_at.or(probe),
            Verdict::Silent => Some(self.looked_at),
        }
    }

    /// Lets time pass: finds what is lost, due or silent. The session asks for what is to be sent.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        if matches!(self.health.state, PathState::Active | PathState::Suspected) {
            self.detect_lost(now, &mut outcome);
            self.look(now, &mut outcome);
        }
        self.looked_at = now;
        outcome
    }

    /// Judges the path's health and decides whether it is to be probed.
    pub(super) fn look(&mut self, now: Instant, outcome: &mut Outcome) {
        let view = self.health_view(now);
        if self.health.state == PathState::Suspected {
            if !self.is_stream() {
                self.give_up_before(now - view.overdue_after(true), now, outcome);
            }
            self.probes.wanted |= self.probes.at <= now;
            return;
        }
        if self.health.state != PathState::Active {
            return;
        }
        let verdict = health::judge(now, &view, self.sent.unanswered());
        let was_late =
            std::mem::replace(&mut self.health.late, !matches!(verdict, Verdict::Healthy { .. }));
        self.health.doubtful = matches!(verdict, Verdict::Doubtful { .. });
        self.probes.wanted |= match verdict {
            Verdict::Healthy { .. } => self.idle_at().is_some_and(|at| at <= now),
            Verdict::Late { enough: false, .. } | Verdict::Doubtful { look_at: None } => {
                !was_late || self.probes.at <= now
            }
            // Long patience should end with the first answer, not with whatever happens to be sent
            // next.
            Verdict::Doubtful { .. } if view.is_patient() => {
                now.since(self.probes.last_eliciting_at) >= view.burst_probe_interval()
            }
            Verdict::Late { .. } | Verdict::Doubtful { .. } | Verdict::Silent => false,
        };
        if verdict == Verdict::Silent {
            self.suspect(now, outcome);
        }
    }

    /// Returns when a path that carries nothing is to be probed.
    fn idle_at(&self) -> Option<Instant> {
        let interval = self.idle_probe();
        (interval > Duration::ZERO).then_some(self.probes.last_eliciting_at + interval)
    }

    fn suspect(&mut self, now: Instant, outcome: &mut Outcome) {
        let again = self.health.revived_at.is_some_and(|at| now.since(at) < SUSPECTED_AGAIN);
        let view = self.health_view(now);
        let overdue_for = health::overdue_for(now, &view, self.sent.unanswered());
        self.health.suspicion = Some(Suspicion::new(now, &view, overdue_for, again));
        self.health.doubtful = true;
        self.probes.wanted = true;
        self.counters.suspicions += 1;
        self.link.was_thin = self.may_be_thin();
        if !self.is_stream() {
            self.give_up_before(Instant::ZERO + Duration::MAX, now, outcome);
        }
        self.change_state(PathState::Suspected, outcome);
    }

    /// Reports what was sent before then as lost to silence: neither the loss estimate nor the
    /// congestion controller hears of it.
    pub(super) fn give_up_before(&mut self, before: Instant, now: Instant, outcome: &mut Outcome) {
        let lost = self.sent.give_up_before(before);
        let data = || lost.iter().filter(|packet| packet.counts);
        self.mtu.on_silence(now, data().map(|packet| packet.bytes.into()));
        for packet in data() {
            self.marks.on_lost(now, packet);
        }
        self.counters.packets_lost += data().count() as u64;
        outcome.lost.extend(lost);
    }

    pub(super) fn revive(&mut self, now: Instant, newest_sent_at: Instant, outcome: &mut Outcome) {
        let view = self.health_view(now);
        let Some(suspicion) = &mut self.health.suspicion else { return };
        match suspicion.on_answer(now, newest_sent_at) {
            Answer::Stale => return,
            Answer::Fresh => {
                let on_time = now.since(newest_sent_at) <= view.overdue_after(true);
                if on_time {
                    self.health.bursts.on_return(now, suspicion.run(now));
                }
            }
            Answer::Slower(rtt) => self.link.rtt.reset(now, rtt),
        }
        let age = now.since(newest_sent_at);
        self.health.answers.on_answer(now, age, self.link.rtt.srtt_or_initial());
        self.health.revived_at = Some(now);
        self.health.suspicion = None;
        self.health.doubtful = false;
        self.health.trusted_since = now;
        self.link.proved = 0;
        self.mtu.on_alive(now);
        let view = self.link_view(now);
        self.bulk.congestion.on_revival(&view);
        self.change_state(PathState::Active, outcome);
    }

    /// Notes whether the path's interface is there. A path whose interface has come back proves its
    /// address again.
    pub(crate) fn set_present(&mut self, now: Instant, present: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let absent = self.health.state == PathState::Absent;
        if self.health.state == PathState::Closed || absent != present {
            return outcome;
        }
        if present {
            self.address.restart(now);
            self.marks = Marks::default();
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
        self.spare_all();
        self.give_up_before(Instant::ZERO + Duration::MAX, now, outcome);
        self.health.suspicion = None;
        self.health.doubtful = false;
        self.probes.wanted = false;
        self.health.trusted_since = now;
        self.change_state(state, outcome);
    }

    pub(super) fn change_state(&mut self, to: PathState, outcome: &mut Outcome) {
        if self.health.state != to {
            let from = outcome.changed.map_or(self.health.state, |(from, _)| from);
            outcome.changed = Some((from, to));
            self.health.state = to;
        }
    }
}
