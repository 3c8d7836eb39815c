//! Health by time: is a path silent, and is it back? [specs/paths.md §3]
//!
//! ```text
//! T        = srtt + max(4·rttvar, 4 ms) + acknowledgement delay, or what a thin hop sends first
//! p        = 1 − (1 − loss)(1 − loss of acknowledgements) + 1 %          an answer fails by chance
//! k        = least k with pᵏ ≤ 10⁻⁷, 12 at most
//! late     : the oldest packet sent since the last one acknowledged is older than
//!            srtt + max(2·rttvar, 2 ms) + acknowledgement delay
//!            → a probe leaves now and every srtt/4 (2.5…5 ms, all within 20 ms), until as many
//!            answers are under way as a decision takes; where the path loses in bursts, every
//!            srtt/8 (5…20 ms) beyond that
//! doubtful : it is older than T
//! patience = max(25 ms, 1.5 · the second longest silent run of late; `bursts.rs`)
//! suspected: it is older than T + patience, and k answers since then are missing that had time to
//!            come; packets of bulk that one acknowledgement would cover are one answer
//! revived  : a packet sent at most 2 T ago is acknowledged; or, where the path has become slower
//!            than that, acknowledgements keep coming for 200 ms without getting any younger
//! slower   : so revived, or revived by a packet older than T for the second time in 2 s: that
//!            age is the round-trip time from now on
//! ```
//! A packet that was lost by chance never makes a path suspect, because a later one that is
//! acknowledged takes its place; so the chance of k unanswered ones in a row decides. That chance
//! holds only for independent losses. Where they come in bursts all k share one fate, and how long
//! the bursts of this path last decides instead: bulk leaves a path in a burst as soon as it leaves
//! any other, by doubt, but it is given up only when the silence outlasts what the path is known
//! for. Meanwhile bulk still goes there if every other path is in doubt as well.
//!
//! Round-trip times of packets sent before or during a suspicion are not believed: a link that
//! stalled and releases what it held would poison the estimate.

use units::{Duration, Instant};

use super::HARDLY_CHANCE;
use super::answers::Answers;
use super::bursts::Bursts;
use crate::event::PathState;
use crate::limits;
use crate::recovery::{LOSS_DOUBT, PACKETS_PER_ACK, SentPacket};

/// Chance, per packet, of suspecting a path that only loses packets at random.
const FALSE_ALARM: f64 = 1e-7;
/// Chance, per packet, of calling for a backup because of losses at random: at 50 packets/s each
/// way and 2 % of loss that costs 40 kB an hour.
const FALSE_CALL: f64 = 1e-3;
/// Largest number of unanswered packets: what a path that loses half may demand.
pub(super) const MOST_UNANSWERED: usize = 12;
/// Least allowance for variation: timers and scheduling of two operating systems.
const LEAST_VARIATION: Duration = Duration::from_millis(4);
/// Silence beyond the first overdue packet: pauses of the peer's processor. A run that is shorter
/// is no silence.
pub(super) const SILENCE: Duration = Duration::from_millis(25);
/// All probes that a decision needs leave within this time; in a burst one does.
const PROBES_WITHIN: Duration = Duration::from_millis(20);
/// If the answers that come get no younger for this long, the path is slow, not silent.
const STEADY: Duration = Duration::from_millis(200);

/// What a path is good for, and what led to that.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) state: PathState,
    pub(super) suspicion: Option<Suspicion>,
    /// The silences that it came back from.
    pub(super) bursts: Bursts,
    /// The same that are too long for a burst of losses.
    pub(super) stalls: Bursts,
    pub(super) answers: Answers,
    /// An answer is late: the path is being probed.
    pub(super) late: bool,
    pub(super) doubtful: bool,
    pub(super) revived_at: Option<Instant>,
    /// Samples of packets sent before this are not believed.
    pub(super) trusted_since: Instant,
    /// Since when answers have been missing, until one comes to what was sent since then.
    pub(super) silence: Option<Instant>,
}

impl Health {
    /// Begins with an address that is to be validated.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: PathState::Validating,
            suspicion: None,
            bursts: Bursts::new(now),
            stalls: Bursts::stalls(now),
            answers: Answers::new(),
            late: false,
            doubtful: false,
            revived_at: None,
            trusted_since: now,
            silence: None,
        }
    }
}

/// What health depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthView {
    pub(super) srtt: Duration,
    pub(super) rttvar: Duration,
    /// Loss of our packets, 0 to 1.
    pub(super) loss: f64,
    /// Loss of the peer's packets, 0 to 1: acknowledgements among them.
    pub(super) loss_in: f64,
    /// The longest that the peer holds back an acknowledgement of bulk.
    pub(super) ack_delay: Duration,
    /// The same for control, which a peer acknowledges at once unless datagrams are dear.
    pub(super) control_ack_delay: Duration,
    /// The silent run that the path has come back from lately.
    pub(super) burst: Duration,
    /// How long an answer may take by what is usual, where a backup relies on the path.
    pub(super) usual: Duration,
}

impl HealthView {
    /// Returns the age at which an unanswered packet is overdue.
    pub(super) fn overdue_after(&self, bulk: bool) -> Duration {
        let varied = self.srtt + (self.rttvar * 4).max(LEAST_VARIATION) + self.held_back(bulk);
        // What is usual for control has been held back as long as that is.
        varied.max(self.usual + (self.held_back(bulk) - self.held_back(false)))
    }

    /// Returns the age at which an unanswered packet is late.
    pub(super) fn late_after(&self, bulk: bool) -> Duration {
        self.srtt + (self.rttvar * 2).max(LEAST_VARIATION / 2) + self.held_back(bulk)
    }

    /// Returns the age at which a packet has had time for an answer, once an older one is overdue.
    fn answerable_after(&self, bulk: bool) -> Duration {
        self.srtt + self.rttvar.max(LEAST_VARIATION / 2) + self.held_back(bulk)
    }

    fn held_back(&self, bulk: bool) -> Duration {
        if bulk { self.ack_delay } else { self.control_ack_delay }
    }

    /// Returns how many unanswered packets in a row chance does not explain.
    pub(super) fn unanswered_limit(&self) -> usize {
        self.least_run(FALSE_ALARM).min(MOST_UNANSWERED)
    }

    /// Returns the least number of answers in a row that do not fail by chance: two at least, for
    /// what is added to the loss. A single one is overdue after each loss.
    pub(super) fn run_by_chance(&self) -> usize {
        self.least_run(FALSE_CALL)
    }

    /// Returns the least number of answers that chance makes fail in a row no more often than that.
    fn least_run(&self, chance: f64) -> usize {
        let fails = 1.0 - (1.0 - self.loss) * (1.0 - self.loss_in) + LOSS_DOUBT;
        (chance.ln() / fails.min(0.99).ln()).ceil() as usize
    }

    /// Returns how long an answer must be overdue before the path is given up. A silent run that is
    /// half as long again as those it has come back from is still usual.
    pub(super) fn patience(&self) -> Duration {
        (self.burst * 3 / 2).max(SILENCE)
    }

    /// Returns how much later than late an answer may be because of bursts of losses alone.
    pub(super) fn burst_patience(&self) -> Duration {
        if self.is_patient() { self.patience() } else { Duration::ZERO }
    }

    /// Tells whether the path has come back from runs that call for more than the usual patience.
    pub(super) fn is_patient(&self) -> bool {
        self.patience() > SILENCE
    }

    /// Returns the time between probes of a path that is likely to come back: as soon as it does,
    /// everything that the burst cost can be sent again.
    pub(super) fn burst_probe_interval(&self) -> Duration {
        (self.srtt / 8).clamp(PROBES_WITHIN / 4, PROBES_WITHIN)
    }

    /// Returns the time between probes of a doubtful path.
    pub(super) fn probe_interval(&self) -> Duration {
        let within = PROBES_WITHIN / self.unanswered_limit() as u32;
        (self.srtt / 4).min(within).max(PROBES_WITHIN / 8)
    }
}

/// Says what the age of the unanswered packets means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is late; worth another look at this time.
    Healthy { look_at: Option<Instant> },
    /// An answer is late: probe unless enough answers are under way, and look again at this time.
    Late { look_at: Instant, enough: bool },
    /// An answer is overdue: probe unless enough answers are under way, and let bulk go elsewhere.
    /// With enough under way there is a time to look again.
    Doubtful { look_at: Option<Instant> },
    /// The path is silent.
    Silent,
}

/// Returns when so many answers are missing that control goes to a backup as well; none before so
/// many are due.
pub(super) fn alarm_at<'a>(
    view: &HealthView,
    mut unanswered: impl Iterator<Item = &'a SentPacket>,
) -> Option<Instant> {
    let oldest = unanswered.next()?;
    // Fewer than condemn a path: a copy that was not needed costs its bytes alone.
    let limit = view.run_by_chance().min(MOST_UNANSWERED);
    let last = missing_answer(view, oldest, unanswered, limit)?;
    let overdue_at = oldest.sent_at + view.overdue_after(oldest.bulk);
    Some(overdue_at.max(last.sent_at + view.late_after(last.bulk)))
}

/// Returns since when answers are missing that neither chance nor the bursts of this path explain;
/// none before so many are due, and none after `now`.
pub(super) fn silent_since<'a>(
    now: Instant,
    view: &HealthView,
    queued: Duration,
    mut unheard: impl Iterator<Item = &'a SentPacket>,
) -> Option<Instant> {
    let oldest = unheard.next()?;
    let overdue_at =
        oldest.sent_at + queued + view.overdue_after(oldest.bulk) + view.burst_patience();
    if overdue_at >= now {
        return None;
    }
    let last = missing_answer(view, oldest, unheard, view.run_by_chance())?;
    Some(overdue_at.max(last.sent_at + view.late_after(last.bulk)))
}

/// Returns how long the oldest of the unanswered packets has been overdue.
pub(super) fn overdue_for<'a>(
    now: Instant,
    view: &HealthView,
    mut unanswered: impl Iterator<Item = &'a SentPacket>,
) -> Duration {
    let oldest = unanswered.next();
    oldest.map_or(Duration::ZERO, |packet| {
        now.since(packet.sent_at + view.overdue_after(packet.bulk))
    })
}

/// Tells whether too many unanswered packets are overdue to be chance: a single packet lost on a
/// path that carries little is overdue for a round trip, until a probe is answered.
pub(super) fn is_run<'a>(
    now: Instant,
    view: &HealthView,
    unanswered: impl Iterator<Item = &'a SentPacket>,
) -> bool {
    let overdue = |packet: &&SentPacket| packet.sent_at + view.overdue_after(packet.bulk) < now;
    unanswered.take_while(overdue).nth(HARDLY_CHANCE as usize - 1).is_some()
}

/// Judges a path by the packets sent since the last one that was acknowledged, oldest first.
pub(super) fn judge<'a>(
    now: Instant,
    view: &HealthView,
    mut unanswered: impl Iterator<Item = &'a SentPacket>,
) -> Verdict {
    let Some(oldest) = unanswered.next() else { return Verdict::Healthy { look_at: None } };
    let late_at = oldest.sent_at + view.late_after(oldest.bulk);
    if now < late_at {
        return Verdict::Healthy { look_at: Some(late_at) };
    }
    let overdue_at = oldest.sent_at + view.overdue_after(oldest.bulk);
    let last = missing_answer(view, oldest, unanswered, view.unanswered_limit());
    if now < overdue_at {
        return Verdict::Late { look_at: overdue_at, enough: last.is_some() };
    }
    let Some(last) = last else { return Verdict::Doubtful { look_at: None } };
    let silent_at =
        (overdue_at + view.patience()).max(last.sent_at + view.answerable_after(last.bulk));
    if now < silent_at {
        return Verdict::Doubtful { look_at: Some(silent_at) };
    }
    Verdict::Silent
}

/// Returns the packet whose answer, if it is missing, is the last of so many in a row: with as many
/// as chance does not explain, the path is silent.
fn missing_answer<'a>(
    view: &HealthView,
    oldest: &'a SentPacket,
    rest: impl Iterator<Item = &'a SentPacket>,
    limit: usize,
) -> Option<&'a SentPacket> {
    let mut missing = limit - 1;
    let (mut covered_since, mut covered) = (oldest.sent_at, 1);
    for packet in rest {
        if packet.bulk {
            covered += 1;
            let held = packet.sent_at.since(covered_since) < view.ack_delay;
            if held && covered < PACKETS_PER_ACK {
                continue;
            }
            (covered_since, covered) = (packet.sent_at, 0);
        }
        missing -= 1;
        if missing == 0 {
            return Some(packet);
        }
    }
    None
}

/// Says what an acknowledgement means to a suspected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It answers something old: no evidence.
    Stale,
    /// The path lives.
    Fresh,
    /// The path lives and has become slower; this is its round-trip time now.
    Slower(Duration),
}

/// Follows a path from suspicion to revival.
#[derive(Clone, Debug)]
pub(super) struct Suspicion {
    began: Instant,
    /// How long the answer had been overdue when the suspicion began.
    overdue_for: Duration,
    /// Acknowledgements of packets older than this prove nothing.
    fresh_within: Duration,
    /// A fresh answer of this age is believed to be the path's round-trip time now.
    slow_from: Duration,
    /// The age of the youngest answer so far, and when it came.
    youngest: Option<(Duration, Instant)>,
}

impl Suspicion {
    /// Begins a suspicion; `again` when the path was revived a moment ago: if it answers late this
    /// time, it is believed to be slow.
    pub(super) fn new(now: Instant, view: &HealthView, overdue_for: Duration, again: bool) -> Self {
        let overdue_after = view.overdue_after(false);
        let slow_from = if again { overdue_after } else { Duration::MAX };
        let fresh_within = overdue_after * 2;
        Self { began: now, overdue_for, fresh_within, slow_from, youngest: None }
    }

    /// Returns how long the path has been silent if it answers now.
    pub(super) fn run(&self, now: Instant) -> Duration {
        self.overdue_for + self.lasts(now)
    }

    /// Judges the acknowledgement of a packet sent at `sent_at`, the newest of its ACK frame.
    pub(super) fn on_answer(&mut self, now: Instant, sent_at: Instant) -> Answer {
        let age = now.since(sent_at);
        if age <= self.fresh_within {
            return if age >= self.slow_from { Answer::Slower(age) } else { Answer::Fresh };
        }
        match self.youngest {
            Some((youngest, at)) if age * 10 > youngest * 9 => {
                if now.since(at) >= STEADY {
                    Answer::Slower(age)
                } else {
                    Answer::Stale
                }
            }
            _ => {
                self.youngest = Some((age, now));
                Answer::Stale
            }
        }
    }

    /// Returns how long it has lasted.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        now.since(self.began)
    }

    /// Returns the time between probes: rarer the longer the path is silent.
    pub(super) fn probe_interval(&self, now: Instant, srtt: Duration) -> Duration {
        match self.lasts(now).as_secs() {
            0..10 => srtt.clamp(limits::SIGN_OF_LIFE / 2, limits::SIGN_OF_LIFE),
            10..60 => Duration::from_millis(250),
            _ => limits::LONGEST_SIGN_OF_LIFE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(loss: f64, loss_in: f64) -> HealthView {
        HealthView {
            srtt: Duration::from_millis(20),
            rttvar: Duration::from_millis(1),
            loss,
            loss_in,
            ack_delay: Duration::from_millis(10),
            control_ack_delay: Duration::ZERO,
            burst: Duration::ZERO,
            usual: Duration::ZERO,
        }
    }

    #[test]
    fn the_more_a_path_loses_the_more_answers_must_be_missing() {
        let limits = [0.0, 0.01, 0.02, 0.05, 0.1, 0.284].map(|p| view(p, p).unanswered_limit());
        assert_eq!(limits, [4, 5, 6, 8, 11, 12]);
    }

    #[test]
    fn probes_come_every_quarter_round_trip_within_bounds() {
        let interval = |srtt_ms, loss| {
            let srtt = Duration::from_millis(srtt_ms);
            HealthView { srtt, ..view(loss, loss) }.probe_interval()
        };
        assert_eq!(interval(4, 0.0), PROBES_WITHIN / 8);
        assert_eq!(interval(400, 0.0), PROBES_WITHIN / 4);
        assert_eq!(interval(400, 0.5), PROBES_WITHIN / 8);
    }

    #[test]
    fn patience_follows_the_bursts_that_a_path_came_back_from() {
        let patience = |burst_ms| {
            let burst = Duration::from_millis(burst_ms);
            HealthView { burst, ..view(0.4, 0.4) }.patience().as_millis()
        };
        assert_eq!([0, 10, 40, 200].map(patience), [25, 25, 60, 300]);
    }

    #[test]
    fn only_a_fresh_answer_revives() {
        let now = Instant::from_millis(10_000);
        let mut suspicion = Suspicion::new(now, &view(0.0, 0.0), Duration::ZERO, false);
        let later = now + Duration::from_secs(2);
        let sent = |ago_ms| later - Duration::from_millis(ago_ms);
        assert_eq!(suspicion.on_answer(later, sent(2_000)), Answer::Stale);
        assert_eq!(suspicion.on_answer(later, sent(500)), Answer::Stale);
        assert_eq!(suspicion.on_answer(later, sent(45)), Answer::Fresh);
    }

    #[test]
    fn answers_that_stay_old_mean_a_slower_path() {
        let now = Instant::from_millis(10_000);
        let mut suspicion = Suspicion::new(now, &view(0.0, 0.0), Duration::ZERO, false);
        let rtt = Duration::from_millis(300);
        let answers = (0..8).map(|n| {
            let at = now + Duration::from_millis(500 + n * 50);
            suspicion.on_answer(at, at - rtt)
        });
        let answers: Vec<Answer> = answers.collect();
        assert_eq!(answers[3], Answer::Stale);
        assert_eq!(answers[4], Answer::Slower(rtt));
    }

    #[test]
    fn soon_after_a_revival_a_late_answer_is_believed_to_be_slow() {
        let now = Instant::from_millis(10_000);
        let mut suspicion = Suspicion::new(now, &view(0.0, 0.0), Duration::ZERO, true);
        let at = now + Duration::from_millis(40);
        assert_eq!(suspicion.on_answer(at, at - Duration::from_millis(22)), Answer::Fresh);
        let age = Duration::from_millis(40);
        assert_eq!(suspicion.on_answer(at, at - age), Answer::Slower(age));
    }
}
