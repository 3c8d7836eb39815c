//! Which links are able to carry something, and when: what a run may be expected to deliver
//! follows.
//!
//! The rules are cautious: a link that is not able may still carry everything.

use proto::select::Tier;
use proto::{Carries, CongestionKind};
use units::{Duration, Instant, Rate};

use super::fault::{Fault, FaultKind, Span};
use super::plan::{Link, Plan};
use super::{DRONE, STATION};

/// A link slower than this is not relied upon: it may not carry all that is sent.
const LEAST_RATE: Rate = Rate::from_bps(1_000_000);
/// A link with a longer one-way delay is not relied upon.
const MOST_DELAY: Duration = Duration::from_millis(150);
/// A link that loses more is not relied upon: two seconds have room for many tries.
const MOST_LOSS: f64 = 0.1;
/// Variation of the delay beyond this is not relied upon.
const MOST_JITTER: Duration = Duration::from_millis(50);
/// Packets that are overtaken by more are not relied upon.
const MOST_LAG: Duration = Duration::from_millis(200);
/// The queue of a link whose sender fills it must be empty within this time.
const MOST_QUEUE: Duration = Duration::from_millis(300);
/// A queue of less has no room for bursts.
const LEAST_QUEUE: u64 = 15_000;
/// How long after a hindrance a link counts as hindered: handshakes are tried every second at
/// least, and an initiator that was turned away asks again after two.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// A link that loses more need not bring a handshake through in two seconds.
const MOST_LOSS_OF_GREETING: f64 = 0.02;

/// When each link is hindered; links that never are able are not in it.
pub(super) struct Abilities {
    links: Vec<Able>,
    /// When there is a second daemon with the drone's key.
    twin: Option<Span>,
}

/// A link that is able when it is not hindered.
struct Able {
    number: usize,
    /// What it carries whatever is said of it; nothing where it is a backup, which need not be
    /// tried often.
    carries: Option<Carries>,
    hindrances: Vec<Span>,
    /// Whether it loses next to nothing.
    is_sound: bool,
}

impl Abilities {
    /// Finds them.
    pub(super) fn of(plan: &Plan) -> Self {
        Self::by(plan, hindrance)
    }

    /// Finds what they would be if no link's rate ever fell. What an attacker sends, and the
    /// answers to it, take a link's rate: that does not matter to one that is fast, and here it
    /// does. And a twin may take the key of one that has to be silent while a link that has fallen
    /// drains.
    pub(super) fn but_for_falls(plan: &Plan) -> Self {
        Self::by(plan, |fault| match fault.kind {
            FaultKind::Fall(_) => Hindrance::None,
            FaultKind::Attack(_) | FaultKind::Twin(_) => Hindrance::During(fault.span),
            _ => hindrance(fault),
        })
    }

    /// Tells whether one link was able to carry a tier, or just to be there where none is given,
    /// all the time from `from` to `to`.
    ///
    /// Of two daemons with one key the older stays for as long as it is not silent: while there are
    /// two, and shortly after, a link must have been able since before the second came.
    pub(super) fn is_able(&self, tier: Option<Tier>, from: Instant, to: Instant) -> bool {
        self.ready(tier, from, to).next().is_some()
    }

    /// Tells whether it was the link of this number.
    pub(super) fn is_link_able(
        &self,
        number: usize,
        tier: Option<Tier>,
        from: Instant,
        to: Instant,
    ) -> bool {
        self.ready(tier, from, to).any(|link| link.number == number)
    }

    /// Tells whether a link of this number was able to be there for all this time.
    pub(super) fn is_there(&self, number: usize, from: Instant, to: Instant) -> bool {
        let apart = |(begin, end): &Span| *begin > to || *end + SETTLED_AFTER < from;
        let mut links = self.links.iter().filter(|link| link.number == number);
        links.any(|link| link.hindrances.iter().all(apart))
    }

    /// Tells whether a drone that started at `from` must have had an answer by `to`: over a link
    /// that nothing but the start itself has touched lately.
    pub(super) fn greets(&self, from: Instant, to: Instant) -> bool {
        let apart = |(begin, end): &Span| {
            *begin > to || *end + SETTLED_AFTER < from || *end == from || *end == Instant::ZERO
        };
        let is_alone = self.twin.is_none_or(|twin| apart(&twin));
        let mut sound = self.links.iter().filter(|link| link.is_sound);
        is_alone && sound.any(|link| link.hindrances.iter().all(apart))
    }

    fn by(plan: &Plan, hindrance: fn(&Fault) -> Hindrance) -> Self {
        let able = plan.links.iter().filter_map(|(number, link)| {
            is_good(plan, link).then(|| able(plan, *number, hindrance))?
        });
        Self { links: able.collect(), twin: plan.twin().map(|(_, span, _)| span) }
    }

    fn ready(&self, tier: Option<Tier>, from: Instant, to: Instant) -> impl Iterator<Item = &Able> {
        let is_near = |(begin, end): &Span| *begin <= to && from <= *end + SETTLED_AFTER;
        let from = self.twin.filter(is_near).map_or(from, |(begin, _)| from.min(begin));
        let apart = move |(begin, end): &Span| *begin > to || *end + SETTLED_AFTER < from;
        let carries = move |link: &&Able| {
            link.carries.is_some_and(|carries| tier.is_none_or(|tier| carries.has(tier)))
        };
        let links = self.links.iter().filter(carries);
        links.filter(move |link| link.hindrances.iter().all(apart))
    }
}

fn is_good(plan: &Plan, link: &Link) -> bool {
    let congestion = |kind| plan.sessions.iter().any(|session| session.congestion == kind);
    let all_bounded =
        plan.sessions.iter().all(|session| session.congestion == CongestionKind::DelayBounded);
    let drains = link
        .rate
        .is_none_or(|rate| rate.transmission_time(link.queue_bytes as usize) <= MOST_QUEUE);
    link.rate.is_none_or(|rate| rate >= LEAST_RATE)
        && link.delay <= MOST_DELAY
        && link.queue_bytes >= LEAST_QUEUE
        && !congestion(CongestionKind::None)
        && (all_bounded || drains)
}

/// Returns when the link is hindered; none if it always is.
fn able(plan: &Plan, link: usize, hindrance: fn(&Fault) -> Hindrance) -> Option<Able> {
    let mut spans = vec![(Instant::ZERO, Instant::ZERO)];
    let mut is_sound = true;
    let touching = |fault: &&Fault| fault.link.is_none_or(|its| its == link);
    // A drone that neither says anything nor asks cannot know that the station has forgotten it.
    let is_mute = plan.sessions[DRONE].idle_probe.is_zero();
    let forgets =
        |fault: &Fault| matches!(fault.kind, FaultKind::Restart) && fault.host == Some(STATION);
    for fault in plan.faults.iter().map(|(_, fault)| fault).filter(touching) {
        if is_mute && forgets(fault) {
            return None;
        }
        if let FaultKind::Loss(share) | FaultKind::Corruption(share) = fault.kind {
            is_sound &= share <= MOST_LOSS_OF_GREETING;
        }
        match hindrance(fault) {
            Hindrance::None => {}
            Hindrance::During(span) => spans.push(span),
            Hindrance::Always => return None,
        }
    }
    Some(Able { number: link, carries: carries(plan, link), hindrances: spans, is_sound })
}

/// Returns what a link carries whatever is said of it, unless it may be a backup.
fn carries(plan: &Plan, link: usize) -> Option<Carries> {
    let said = || plan.uses.iter().filter(|said| said.link == link).map(|said| said.usage);
    let carry = |tier: &Tier| said().all(|usage| usage.carries.has(*tier));
    let all = Carries::new(Carries::TIERS.into_iter().filter(carry));
    all.filter(|_| said().all(|usage| !usage.backup))
}

enum Hindrance {
    None,
    During(Span),
    Always,
}

fn hindrance(fault: &Fault) -> Hindrance {
    let unless = |is_mild: bool| if is_mild { Hindrance::None } else { Hindrance::Always };
    match &fault.kind {
        FaultKind::Loss(share) | FaultKind::Corruption(share) => unless(*share <= MOST_LOSS),
        FaultKind::Jitter(size, _) => unless(*size <= MOST_JITTER),
        FaultKind::Overtaking(_, lag) => unless(*lag <= MOST_LAG),
        FaultKind::Duplicates(..) | FaultKind::Clock(..) => Hindrance::None,
        FaultKind::Bursts(..) | FaultKind::Steps(_) => Hindrance::Always,
        FaultKind::Twin(_) => Hindrance::None,
        FaultKind::Attack(attack) if attack.only_adds() => Hindrance::None,
        FaultKind::Outage { .. }
        | FaultKind::Restart
        | FaultKind::Move(_)
        | FaultKind::FullSocket
        | FaultKind::Absent
        | FaultKind::ClockStep(_)
        | FaultKind::Fall(_)
        | FaultKind::Attack(_) => Hindrance::During(fault.span),
    }
}
