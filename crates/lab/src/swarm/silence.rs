//! The judge of falls: a link that was fast and has become slow carries what it can, and what it
//! can is enough for the newest command.
//!
//! ```text
//! fit      the link is able but for its fall, and behind what may stand before it the largest
//!          control packet arrives in time: (3 control datagrams [+ 2 full ones where there is more
//!          than control]) / rate
//! known    begin of the fall, or end of being too slow, + 0.5 s + two round trips: so long may a
//!          sender go on as before
//! drained  when the last that had entered the hop by then is there, in both directions, but no
//!          more than what had entered it before the fall and what plain copies of everything have
//!          put in since [+ one window where there is more than control, and three times as long
//!          after `known`: it is halved once a round trip]
//! silent   time after that, or with the hop empty, in which commands wait that are not too old,
//!          and no control arrives
//!        ≤ 0.5 s (1 s where there is more than control) + a round trip + 2 datagrams / rate [+
//!        queue / rate where a sender may fill it]
//!          (four times that where the link loses)
//! ```
//! What a hop holds is not believed but seen: the world says when what enters a link arrives.
//!
//! It looks at falls alone. Commands over links that are able are the affair of `judge.rs`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use netem::VerdictRecord;
use proto::select::{Policy, Tier};
use proto::{CongestionKind, ProtectControl};
use units::{Duration, Instant, Rate};
use world::unwrap;

use super::able::{Abilities, SETTLED_AFTER};
use super::fall::{Dip, UNLIMITED};
use super::fault::{Fault, FaultKind};
use super::flow::{Kind, name_of};
use super::judge::{Finding, Rule};
use super::peer::Said;
use super::plan::{Link, Plan};
use super::{DRONE, HOSTS, STATION};

/// How long after a fall, beyond two round trips, a sender may go on as before: what it hears still
/// comes from before the fall, and one late answer is no silence.
const UNKNOWN_FOR: Duration = Duration::from_millis(500);
/// The queue that a sender of more than control may keep at a hop.
const OWN_QUEUE: Duration = Duration::from_millis(100);
/// How many times as long as the hop takes to drain it may be full where there is more than
/// control: a sender that sees the queue a round trip later, and halves what is under way once a
/// round trip, needs so long.
const DRAINS: u32 = 3;
/// The silence that needs no reason: what a plain program's copies may be ahead by. It is twice
/// that where there is more than control, which may come in bursts.
const MARGIN: Duration = Duration::from_millis(500);
/// The time in which a command must be there.
const IN_TIME: Duration = Policy::DECLARED.ttl;
/// A datagram that is full, with its headers.
const FULL: usize = 1_500;
/// The most that a sender puts into a datagram of control on any link, with its headers.
const CONTROL_DATAGRAM: usize = 600;
/// Headers of one control packet that goes alone: IP, UDP, ours, and an acknowledgement.
const HEADERS: usize = 100;
/// The least that a datagram takes of something larger.
const PIECE: usize = 1_000;
/// Control datagrams that must fit into [`IN_TIME`]: one in transmission, one of the other tiers of
/// control, our own.
const CONTROL_FITS: u32 = 3;
/// Full datagrams that must fit beside them where there is more than control: no window is smaller.
const FULL_FITS: u32 = 2;
/// A link that loses may be silent for so many times as long.
const LOSSY: u32 = 4;

/// What must come to be carried by a run's links that fall.
pub(super) struct Silence<'a> {
    plan: &'a Plan,
    abilities: Abilities,
    links: Vec<Fallen<'a>>,
    /// Commands that were handed in and have not come, by the sender: which, and until when they
    /// are good.
    awaited: [BTreeMap<(usize, u32), Instant>; HOSTS],
    looked_at: Instant,
    seen: Rc<RefCell<Vec<Arrival>>>,
    /// The most bytes of a control packet, headers not counted.
    control_bytes: usize,
    has_more: bool,
    /// Whether no sender may fill a queue.
    is_bounded: bool,
    /// What plain copies of all that was handed in would have put into each link so far, headers
    /// and acknowledgements with it, by the host that puts it in.
    plain_bytes: [u64; HOSTS],
}

/// When something that has entered a link arrives, in either direction.
struct Arrival {
    link: usize,
    at: Instant,
}

/// A link that falls.
struct Fallen<'a> {
    number: usize,
    link: Link,
    /// By the sender.
    dips: [&'a [Dip]; HOSTS],
    loses: bool,
    /// When it was hindered or too slow, or fell, the last time.
    upset_at: Instant,
    /// When the last that has entered it arrives.
    arrives: Instant,
    /// The same of what had entered it then.
    arrived: Instant,
    /// What plain copies had put into it then.
    plain_bytes: [u64; HOSTS],
    /// When what had entered it by the time at which a sender must have known has arrived, but no
    /// later than if the senders had done nothing worse than plain copies.
    drained: Instant,
    /// How long nothing has come from each host that should have come over it, and the most that
    /// this may be: as slow as the link was at any time meanwhile.
    quiet: [(Duration, Duration); HOSTS],
}

impl<'a> Silence<'a> {
    /// Begins before the first packet; none where no link falls.
    pub(super) fn new(plan: &'a Plan) -> Option<Self> {
        let links: Vec<Fallen<'a>> =
            plan.links.iter().filter_map(|it| Fallen::new(plan, it)).collect();
        let flows = || plan.flows.iter().map(|(_, flow)| flow);
        let control = flows().filter(|flow| flow.life().is_some());
        let is_bounded = plan.sessions.iter().all(|session| {
            session.congestion == CongestionKind::DelayBounded
                && session.protect_control != ProtectControl::Off
        });
        (!links.is_empty()).then(|| Self {
            plan,
            abilities: Abilities::but_for_falls(plan),
            links,
            awaited: Default::default(),
            looked_at: Instant::ZERO,
            seen: Rc::default(),
            control_bytes: control.map(|flow| flow.bytes.1 as usize).max().unwrap_or_default(),
            has_more: flows().any(|flow| flow.life().is_none()),
            is_bounded,
            plain_bytes: [0; HOSTS],
        })
    }

    /// Returns what wants to see each datagram that enters a link.
    pub(super) fn watch(&self) -> impl FnMut(&VerdictRecord<'_>) + 'static {
        let seen = Rc::clone(&self.seen);
        move |record| {
            let link = record.link.strip_prefix("link").and_then(|number| number.parse().ok());
            let arrival = record.verdict.deliveries.first();
            if let (Some(link), Some(arrival)) = (link, arrival) {
                seen.borrow_mut().push(Arrival { link, at: arrival.at });
            }
        }
    }

    /// Notes a packet that was handed in, whatever the session said to it.
    pub(super) fn on_handed_in(&mut self, now: Instant, flow: usize, sequence: u32, bytes: usize) {
        let (number, flow) = &self.plan.flows[flow];
        let datagrams = bytes.div_ceil(PIECE);
        self.plain_bytes[flow.from] += (bytes + datagrams * HEADERS) as u64;
        self.plain_bytes[1 - flow.from] += (datagrams * HEADERS) as u64;
        let counts = matches!(flow.kind, Kind::Declared(_, policy) if policy.reliable);
        if let Some(life) = flow.life().filter(|life| counts && *life >= IN_TIME) {
            self.awaited[flow.from].insert((*number, sequence), now + life);
        }
    }

    /// Takes what an endpoint said: control that comes ends the silence of its sender.
    pub(super) fn on_said(&mut self, host: usize, said: &Said) {
        let Said::Delivered(delivery) = said else { return };
        let payload =
            if delivery.channel == 0 { unwrap(&delivery.bytes) } else { Some(&*delivery.bytes) };
        let Some(name) = payload.and_then(name_of).filter(|_| host < HOSTS) else { return };
        let from = 1 - host;
        self.awaited[from].remove(&name);
        let flow = self.plan.flows.iter().find(|(number, _)| *number == name.0);
        if flow.is_some_and(|(_, flow)| flow.life().is_some()) {
            self.links.iter_mut().for_each(|link| link.quiet[from] = Default::default());
        }
    }

    /// Looks at how long it has been silent.
    pub(super) fn on_look(&mut self, now: Instant) -> Result<(), Finding> {
        for Arrival { link, at } in self.seen.borrow_mut().drain(..) {
            let its = self.links.iter_mut().find(|its| its.number == link);
            its.into_iter().for_each(|its| its.arrives = its.arrives.max(at));
        }
        self.awaited.iter_mut().for_each(|those| those.retain(|_, until| *until > now));
        let since = std::mem::replace(&mut self.looked_at, now);
        for place in 0..self.links.len() {
            let number = self.links[place].number;
            let is_able = self.abilities.is_link_able(number, Some(Tier::Control), now, now);
            let patience = self.links[place].patience(now, self);
            let (plain_bytes, has_more) = (self.plain_bytes, self.has_more);
            let link = &mut self.links[place];
            link.note(since, now, is_able && patience.is_some(), plain_bytes, has_more);
            if !is_able || !link.is_concerned(now) {
                link.quiet = Default::default();
                continue;
            }
            if link.is_excused(now, has_more) {
                continue;
            }
            let Some(patience) = patience else { continue };
            for host in [DRONE, STATION] {
                if self.awaited[host].is_empty() {
                    continue;
                }
                let (quiet, most) = &mut link.quiet[host];
                // What came last may have come just before a look.
                let certain = *quiet;
                *quiet += now.since(since);
                *most = patience.max(*most);
                if certain > *most {
                    let name = ["drone", "station"][host];
                    let what = format!(
                        "link{number} could carry control, and for {certain:?} nothing came from the {name}: {most:?} at most"
                    );
                    return Err(Finding { rule: Rule::Silent, at: now, what });
                }
            }
        }
        Ok(())
    }
}

impl<'a> Fallen<'a> {
    fn new(plan: &'a Plan, (number, link): &(usize, Link)) -> Option<Self> {
        let faults = || {
            plan.faults.iter().map(|(_, fault)| fault).filter(|fault| fault.link == Some(*number))
        };
        let of = |host: usize, fault: &'a Fault| match &fault.kind {
            FaultKind::Fall(dips) if fault.host.is_none_or(|its| its == host) => Some(&dips[..]),
            _ => None,
        };
        let dips = [DRONE, STATION]
            .map(|host| faults().find_map(|fault| of(host, fault)).unwrap_or_default());
        let is_loss =
            |fault: &Fault| matches!(fault.kind, FaultKind::Loss(_) | FaultKind::Corruption(_));
        dips.iter().any(|dips| !dips.is_empty()).then(|| Self {
            number: *number,
            link: *link,
            dips,
            loses: faults().any(is_loss),
            upset_at: Instant::ZERO,
            arrives: Instant::ZERO,
            arrived: Instant::ZERO,
            plain_bytes: [0; HOSTS],
            drained: Instant::ZERO,
            quiet: Default::default(),
        })
    }

    /// Notes when it was upset, and what is in it that may be: of a link that is too slow, or not
    /// able, anything.
    fn note(
        &mut self,
        since: Instant,
        now: Instant,
        is_fit: bool,
        plain_bytes: [u64; HOSTS],
        has_more: bool,
    ) {
        let begins = self.dips.iter().copied().flatten().map(|dip| dip.span.0);
        let fell = begins.filter(|at| since < *at && *at <= now).max();
        if let Some(at) = fell.or((!is_fit).then_some(now)) {
            self.upset_at = at;
            self.arrived = self.arrives;
            self.plain_bytes = plain_bytes;
        }
        if now > self.known_at() {
            return;
        }
        let rate = self.rates(now).into_iter().flatten().min();
        let takes =
            |bytes: u64| rate.map_or(Duration::ZERO, |rate| rate.transmission_time(bytes as usize));
        let window = self.link.rate.unwrap_or(UNLIMITED).bytes_in(self.link.delay * 2 + OWN_QUEUE);
        let window = if has_more { window } else { 0 };
        let plain = [DRONE, STATION].map(|host| plain_bytes[host] - self.plain_bytes[host]);
        let plain = plain.into_iter().max().unwrap_or_default();
        let at_most = self.arrived.max(self.upset_at) + takes(plain + window);
        self.drained = self.arrives.min(at_most).max(self.known_at());
    }

    /// Tells whether it has fallen, or had a moment ago.
    fn is_concerned(&self, now: Instant) -> bool {
        let mut dips = self.dips.iter().copied().flatten();
        dips.any(|Dip { span: (from, to), .. }| *from <= now && now <= *to + SETTLED_AFTER)
    }

    /// Tells whether nothing need come yet: the hop is still full of what may be in it.
    fn is_excused(&self, now: Instant, has_more: bool) -> bool {
        let drains = self.drained.since(self.known_at());
        let until = self.drained + if has_more { drains * (DRAINS - 1) } else { Duration::ZERO };
        now <= self.known_at() || now <= until.min(self.arrives)
    }

    /// Returns when a sender must know of what upset it last.
    fn known_at(&self) -> Instant {
        self.upset_at + UNKNOWN_FOR + self.link.delay * 4
    }

    /// Returns how long it may be silent now; none where it is too slow.
    fn patience(&self, now: Instant, run: &Silence<'_>) -> Option<Duration> {
        let rate = self.rates(now).into_iter().flatten().min();
        let takes =
            |bytes: usize| rate.map_or(Duration::ZERO, |rate| rate.transmission_time(bytes));
        let control = takes(run.control_bytes + HEADERS) * CONTROL_FITS;
        let (rest, datagram, margin) = match run.has_more {
            true => (takes(FULL) * FULL_FITS, FULL, MARGIN * 2),
            false => (Duration::ZERO, CONTROL_DATAGRAM, MARGIN),
        };
        let is_filled = run.has_more && !run.is_bounded;
        let queue = if is_filled { takes(self.link.queue_bytes as usize) } else { Duration::ZERO };
        let fits = control + rest + queue + self.link.delay <= IN_TIME;
        let patience = margin + self.link.delay * 2 + takes(datagram) * 2 + queue;
        fits.then_some(if self.loses { patience * LOSSY } else { patience })
    }

    /// Returns the rate of what each host sends.
    fn rates(&self, now: Instant) -> [Option<Rate>; HOSTS] {
        self.dips.map(|dips| {
            let dip = dips.iter().find(|dip| dip.span.0 <= now && now < dip.span.1);
            match (dip, self.link.rate) {
                (Some(dip), Some(own)) => Some(own.min(dip.rate)),
                (Some(dip), None) => Some(dip.rate),
                (None, own) => own,
            }
        })
    }
}
