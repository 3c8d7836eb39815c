//! What goes wrong in a swarm's run: one fault, what it touches, and from when to when.

use core::fmt;

use netem::{
    ClockStep, Duplication, GilbertElliott, Jitter, JitterShape, LinkModel, LinkRate, Outage,
    OutageMode, Reordering, Scenario, Series, StateChange,
};
use units::{Duration, Instant, Rng};

use super::attack::Attack;
use super::draw::{log_uniform, moment, pick, span};
use super::fall::{self, Dip};
use super::plan::Link;
use super::{DRONE, STATION};

/// The longest flood of handshakes: each of its datagrams is work.
const LONGEST_FLOOD_S: f64 = 10.0;
/// An attack on handshakes lasts longer than a drone may have to wait for its session.
const SHORTEST_SIEGE_S: f64 = 2.5;
/// How long a daemon that restarts during an attack is down at most.
const LONGEST_RESTART_S: f64 = 1.0;
/// When a second daemon with the drone's key starts at the earliest: the first has a session by
/// then.
const TWIN_NOT_BEFORE: Duration = Duration::from_millis(6_500);
/// How long it lives at least: it asks again after two seconds.
const TWIN_LIVES: Duration = Duration::from_secs(6);

/// From when to when; [`ALWAYS`] is the whole run.
pub(super) type Span = (Instant, Instant);

/// The whole run.
pub(super) const ALWAYS: Span = (Instant::ZERO, Instant::from_nanos(u64::MAX));

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The link that it touches; what befalls a host touches none.
    pub(super) link: Option<usize>,
    /// The host that it befalls: the sender of the packets concerned, or for attacks the host that
    /// receives them. None is both.
    pub(super) host: Option<usize>,
    /// From when to when.
    pub(super) span: Span,
    /// What.
    pub(super) kind: FaultKind,
}

/// What can go wrong.
#[derive(Clone, Debug)]
pub(super) enum FaultKind {
    /// Packets are lost at random.
    Loss(f64),
    /// Packets are lost in bursts over time: mean good and bad state, loss in the bad one.
    Bursts(Duration, Duration, f64),
    /// Delays vary, exponentially or evenly; later packets may overtake.
    Jitter(Duration, bool),
    /// Packets arrive twice.
    Duplicates(f64, Duration),
    /// Packets are held back and overtaken.
    Overtaking(f64, Duration),
    /// A bit of a packet is inverted.
    Corruption(f64),
    /// The rate changes in steps, over and over, as factors of the link's own.
    Steps(Vec<(Duration, f64)>),
    /// Nothing arrives, or everything waits.
    Outage {
        /// Whether packets wait and leave afterwards.
        hold: bool,
    },
    /// A daemon is killed at the beginning, and started again at the end.
    Restart,
    /// The drone's carrier gives it another address and port.
    Move(u16),
    /// The socket of an interface is full.
    FullSocket,
    /// The interface is not there.
    Absent,
    /// The host's clock is off and runs wrong, by parts per 10⁹.
    Clock(i64, i64),
    /// The host's clock jumps forward at the beginning.
    ClockStep(Duration),
    /// Somebody on the link attacks what a host receives.
    Attack(Attack),
    /// A second daemon with the drone's key starts at the beginning, over a link of its own, and is
    /// killed at the end.
    Twin(Link),
    /// The rate falls, once or several times.
    Fall(Vec<Dip>),
}

impl Fault {
    /// Draws a fault of a run with links of these numbers, in which applications send for so long.
    pub(super) fn draw(links: usize, traffic: Duration, rng: &mut Rng) -> Self {
        let on_link = Some(rng.below(links as u64) as usize);
        let host = pick(rng, &[DRONE, STATION]);
        let either = pick(rng, &[None, Some(DRONE), Some(STATION)]);
        let at = span(rng, traffic);
        let short = log_uniform(rng, 0.002, 2.0);
        let brief = Duration::from_secs_f64(short);
        let share = log_uniform(rng, 0.001, 0.5);
        let always = |kind| Self { link: on_link, host: either, span: ALWAYS, kind };
        let within = |kind| Self { link: on_link, host: either, span: at, kind };
        match rng.below(20) {
            0 | 1 => always(FaultKind::Loss(share)),
            2 => {
                let good = Duration::from_secs_f64(log_uniform(rng, 0.1, 10.0));
                always(FaultKind::Bursts(good, brief, 0.5 + rng.unit() / 2.0))
            }
            3 => always(FaultKind::Jitter(brief.min(Duration::from_millis(300)), rng.chance(0.5))),
            4 => always(FaultKind::Duplicates(share, brief)),
            5 => always(FaultKind::Overtaking(share, brief.min(Duration::from_millis(500)))),
            6 => always(FaultKind::Corruption(share / 2.0)),
            7 => always(FaultKind::Steps(draw_steps(rng))),
            8..=10 => within(FaultKind::Outage { hold: rng.chance(0.4) }),
            11 | 12 => {
                let down = Duration::from_secs_f64(log_uniform(rng, 0.001, 8.0));
                let at = moment(rng, traffic);
                Self {
                    link: None,
                    host: Some(host),
                    span: (at, at + down),
                    kind: FaultKind::Restart,
                }
            }
            13 => Self { host: Some(DRONE), ..within(FaultKind::Move(1 + rng.below(999) as u16)) },
            14 => Self { host: Some(host), ..within(FaultKind::FullSocket) },
            15 => Self { host: Some(DRONE), ..within(FaultKind::Absent) },
            16 => draw_clock(host, traffic, rng),
            _ => Self { host: Some(host), ..within(FaultKind::Attack(Attack::draw(rng))) },
        }
    }

    /// Draws what somebody who knows both public keys does, and often a restart meanwhile; the
    /// attacker's link is not drawn here.
    pub(super) fn draw_siege(traffic: Duration, rng: &mut Rng) -> Vec<Self> {
        let (attack, host) = Attack::draw_with_keys(rng);
        let begin = if rng.chance(0.6) { Instant::ZERO } else { moment(rng, traffic) };
        let all = traffic.as_secs_f64();
        let least = SHORTEST_SIEGE_S.min(all);
        let (least, most) = match (attack.only_adds(), rng.chance(0.5)) {
            (true, _) => (least, all.min(LONGEST_FLOOD_S)),
            (false, true) => (all, all),
            (false, false) => (least, all),
        };
        let lasts = Duration::from_secs_f64(log_uniform(rng, least, most));
        let siege = (begin, begin + lasts);
        let kind = FaultKind::Attack(attack);
        let mut faults = vec![Self { link: None, host: Some(host), span: siege, kind }];
        if attack.only_adds() || rng.chance(0.5) {
            let at = begin + lasts.mul_f64(rng.unit() / 2.0);
            let down = Duration::from_secs_f64(log_uniform(rng, 0.001, LONGEST_RESTART_S));
            let host = Some(if attack.only_adds() { DRONE } else { pick(rng, &[DRONE, STATION]) });
            let kind = FaultKind::Restart;
            faults.push(Self { link: None, host, span: (at, at + down), kind });
        }
        faults
    }

    /// Draws a second daemon with the drone's key.
    pub(super) fn draw_twin(traffic: Duration, rng: &mut Rng) -> Self {
        let begin = moment(rng, traffic) + TWIN_NOT_BEFORE;
        let lives = TWIN_LIVES.mul_f64(1.0 + rng.unit());
        let kind = FaultKind::Twin(Link::draw_good(rng));
        Self { link: None, host: None, span: (begin, begin + lives), kind }
    }

    /// Writes into the scenario what belongs to its links and clocks; `place` is that of the link.
    pub(super) fn put_into(&self, scenario: &mut Scenario, place: Option<usize>) {
        if let (Some(host), FaultKind::Clock(offset_ns, skew_ppb)) = (self.host, &self.kind) {
            scenario.hosts[host].clock.offset_ns = *offset_ns;
            scenario.hosts[host].clock.skew_ppb = *skew_ppb;
        }
        if let (Some(host), FaultKind::ClockStep(by)) = (self.host, &self.kind) {
            let step = ClockStep { at: self.span.0, by_ns: by.as_nanos() as i64 };
            scenario.hosts[host].clock.steps.push(step);
        }
        let Some(pair) = place.map(|place| &mut scenario.links[place]) else { return };
        if self.host != Some(STATION) {
            self.put_into_model(&mut pair.up);
        }
        if self.host != Some(DRONE) {
            self.put_into_model(&mut pair.down);
        }
    }

    fn put_into_model(&self, model: &mut LinkModel) {
        match &self.kind {
            FaultKind::Loss(share) => model.loss.independent = *share,
            FaultKind::Bursts(good, bad, loss_bad) => {
                let change = StateChange::OverTime { good: *good, bad: *bad };
                let channel = GilbertElliott { change, loss_good: 0.0, loss_bad: *loss_bad };
                model.loss.burst = Some(channel);
            }
            FaultKind::Jitter(size, keep_order) => {
                model.jitter = Jitter { shape: JitterShape::Exponential, size: *size };
                model.keep_order = *keep_order;
            }
            FaultKind::Duplicates(probability, lag) => {
                model.duplication = Duplication { probability: *probability, lag: *lag };
            }
            FaultKind::Overtaking(probability, lag) => {
                model.reordering = Reordering { probability: *probability, lag: *lag };
            }
            FaultKind::Corruption(probability) => model.corruption = *probability,
            FaultKind::Steps(steps) => steps_of(model, steps),
            FaultKind::Fall(dips) => fall::put_into(model, dips),
            FaultKind::Outage { hold } => {
                let mode = if *hold { OutageMode::Hold { queue: None } } else { OutageMode::Drop };
                let (start, end) = self.span;
                model.outages.push(Outage { start, duration: end.since(start), mode });
            }
            _ => {}
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::Fall(dips) => {
                let dips: Vec<String> = dips.iter().map(ToString::to_string).collect();
                write!(f, "Fall to {}", dips.join(", "))?;
            }
            kind => write!(f, "{kind:?}")?,
        }
        if let Some(link) = self.link {
            write!(f, " on link{link}")?;
        }
        match self.host {
            Some(DRONE) => f.write_str(", drone")?,
            Some(_) => f.write_str(", station")?,
            None => {}
        }
        if self.span != ALWAYS {
            let (from, to) = (self.span.0.as_secs_f64(), self.span.1.as_secs_f64());
            write!(f, ", {from:.3} to {to:.3} s")?;
        }
        Ok(())
    }
}

fn draw_clock(host: usize, traffic: Duration, rng: &mut Rng) -> Fault {
    let host = Some(host);
    if rng.chance(0.3) {
        let by = Duration::from_secs_f64(log_uniform(rng, 0.001, 100.0));
        let at = moment(rng, traffic);
        let kind = FaultKind::ClockStep(by);
        return Fault { link: None, host, span: (at, at), kind };
    }
    // Clocks show 1,000 s more than a run is old; crystals are off by up to 200 parts in 10⁶.
    let offset = (rng.unit() * 2.0 - 1.0) * 9e11;
    let skew = (rng.unit() * 2.0 - 1.0) * 2e5;
    Fault { link: None, host, span: ALWAYS, kind: FaultKind::Clock(offset as i64, skew as i64) }
}

fn draw_steps(rng: &mut Rng) -> Vec<(Duration, f64)> {
    let mut at = Duration::ZERO;
    let count = 2 + rng.below(4);
    let mut steps = Vec::new();
    for _ in 0..count {
        let factor = if rng.chance(0.1) { 0.0 } else { log_uniform(rng, 0.01, 1.0) };
        steps.push((at, factor));
        at += Duration::from_secs_f64(log_uniform(rng, 0.2, 5.0));
    }
    steps
}

/// Lets the rate of a model change; one without limit stays so.
fn steps_of(model: &mut LinkModel, steps: &[(Duration, f64)]) {
    let LinkRate::Constant(rate) = model.rate else { return };
    let last = steps.last().map_or(Duration::ZERO, |(at, _)| *at) + Duration::from_secs(1);
    let rates = steps.iter().map(|(at, factor)| (*at, rate.mul_f64(*factor)));
    if let Ok(series) = Series::from_steps(rates, Some(last), "steps") {
        model.rate = LinkRate::Csv { path: String::new(), series: series.into() };
    }
}
