//! The judge of a swarm's run: knows what was handed in, sees what is delivered and told, on the
//! world's clock, and says what must not be.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use proto::select::Tier;
use proto::{
    Delivery, Event, MAX_PATHS, MessageId, Outcome, PathState, SendError, SessionId, SessionStatus,
};
use units::{Duration, Instant};
use world::unwrap;

use super::able::Abilities;
use super::flow::{Flow, name_of};
use super::peer::{Peer, Said};
use super::plan::Plan;
use super::{DRONE, HOSTS, STATION, TWIN};

/// What clocks that run wrong, and timers, may add to the age of what is delivered.
const AGE_TOLERANCE: Duration = Duration::from_millis(5);
/// A path that was silent for longer is not active where it is probed every second or more often …
const SILENT_BEYOND: Duration = Duration::from_secs(8);
/// … unless that is less than so many of its round-trip times: at a kilobit per second they are
/// seconds; or than half of them, and as many of their variations: before that nothing is overdue
/// [RFC 9002 §6.2.1].
const SILENT_ROUNDS: u32 = 4;
/// Nor may all paths be suspected for longer while a link is able: a queue that grows by more than
/// the usual round-trip time cannot be told from silence until it answers.
const SUSPECTED_BEYOND: Duration = Duration::from_millis(500);
/// The longest interval of probes that the rule above looks at.
const PROBED_EVERY: Duration = Duration::from_secs(1);
/// Sessions of one endpoint with one peer: the one in use, and one that says farewell.
const SESSIONS: usize = 3;
/// Bytes of messages that wait, at most [limits of `proto`], and one message.
const WAITING_BYTES: usize = (4 << 20) + (1 << 20);
/// Bytes that a host may send in a second over each link, whatever is handed in …
const IDLE_BYTES: u64 = 200_000;
/// … and for each byte that was handed in lately.
const COPIES: u64 = 40;
/// For each byte that came in: acknowledgements that leave one by one.
const ANSWERS: u64 = 2;
/// How long what was handed in counts: messages wait for as long as it takes.
const LATELY: Duration = Duration::from_secs(60);
/// A drone that starts with a link that works is connected within this time.
const GREETED_WITHIN: Duration = Duration::from_secs(2);
/// A second daemon with the drone's key is turned away, and both ends say so, within this time.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(5);

/// What commands need of a link, and what messages do.
const CONTROL: Option<Tier> = Some(Tier::Control);
const MESSAGES: Option<Tier> = Some(Tier::Message);

/// What a daemon says of itself that was turned away has this in it.
const KEY_IN_USE: &str = "another one uses our key";

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nothing is delivered twice.
    Twice,
    /// Nothing is altered, invented or delivered elsewhere.
    Altered,
    /// Nothing comes behind what came later in its flow, or leaves a gap where none may be.
    Order,
    /// Nothing is delivered beyond its time to live.
    Late,
    /// What is told of a message is told once and true.
    Told,
    /// While a link is able, commands are taken and arrive in time.
    Starved,
    /// A link that was able and has become slow carries control still.
    Silent,
    /// While a link is able, both ends are connected; an active path is one that is heard of.
    Connected,
    /// A drone that starts with a link that works is connected soon.
    Greeted,
    /// A second daemon with the drone's key is turned away; both ends say so, the first feels none.
    Contested,
    /// While a link is able, messages without a deadline arrive.
    Lost,
    /// What is said of the drone's links holds at the station.
    Agreed,
    /// Bounds are kept.
    Bounds,
    /// Nothing panics.
    Panic,
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Which rule it breaks.
    pub(super) rule: Rule,
    /// When.
    pub(super) at: Instant,
    /// How.
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: at {:.3} s: {}", self.rule, self.at.as_secs_f64(), self.what)
    }
}

/// One life of a session at one host: starts of the daemon, which session, how often it began anew.
type Epoch = (u32, SessionId, u32);

/// A packet that was handed in.
struct Packet {
    at: Instant,
    bytes: Vec<u8>,
    /// The session that took it; none if it was refused.
    epoch: Option<Epoch>,
    delivered: Option<Instant>,
    /// Whether a second daemon with the drone's key got it.
    is_twins: bool,
    outcome: Option<Outcome>,
}

/// Looks on.
pub(super) struct Judge<'a> {
    plan: &'a Plan,
    abilities: Abilities,
    /// By place of the flow, then by number.
    packets: Vec<Vec<Packet>>,
    /// The last packet that was delivered, of each flow, and into which life of the receiver.
    last: Vec<Option<u32>>,
    names: BTreeMap<(usize, Epoch, MessageId), (usize, u32)>,
    generations: BTreeMap<(usize, u32, SessionId), u32>,
    lives: [u32; HOSTS],
    /// When a session ended anywhere or a daemon was killed, the last time.
    broken_at: Instant,
    /// When a daemon was killed or started, the last time.
    killed_at: [Option<Instant>; HOSTS],
    /// Commands whose time is not up yet: when it is, and which.
    awaited: VecDeque<(Instant, usize, u32)>,
    /// Whether each host showed an active path when it was looked at last.
    is_active: [bool; HOSTS],
    /// When the drone was started, until it is known to have been greeted.
    started: Option<Instant>,
    /// Whether the station, and the second daemon with the drone's key, have said so.
    said_contested: [bool; 2],
    handed_in: [VecDeque<(Instant, u64)>; HOSTS],
    sent: [VecDeque<(Instant, u64)>; HOSTS],
    /// When a host last showed an active path, or no link was able.
    fine_at: [Instant; HOSTS],
}

impl<'a> Judge<'a> {
    /// Begins with nothing handed in.
    pub(super) fn new(plan: &'a Plan) -> Self {
        let count = plan.flows.len();
        Self {
            plan,
            abilities: Abilities::of(plan),
            packets: (0..count).map(|_| Vec::new()).collect(),
            last: vec![None; count],
            names: BTreeMap::new(),
            generations: BTreeMap::new(),
            lives: [0; HOSTS],
            broken_at: Instant::ZERO,
            killed_at: [None; HOSTS],
            awaited: VecDeque::new(),
            is_active: [false; HOSTS],
            started: Some(Instant::ZERO),
            said_contested: [false; 2],
            handed_in: Default::default(),
            sent: Default::default(),
            fine_at: [Instant::ZERO; HOSTS],
        }
    }

    /// Notes a packet, and what the session said to it; nothing where there is no session.
    pub(super) fn on_handed_in(
        &mut self,
        now: Instant,
        flow: usize,
        bytes: Vec<u8>,
        sent: Option<(SessionId, Result<Option<MessageId>, SendError>)>,
    ) -> Result<(), Finding> {
        let (number, its) = &self.plan.flows[flow];
        let sequence = self.packets[flow].len() as u32;
        self.handed_in[its.from].push_back((now, bytes.len() as u64));
        let taken = sent.and_then(|(session, result)| Some((session, result.ok()?)));
        let epoch = taken.map(|(session, _)| self.epoch(its.from, session));
        if let (Some((_, Some(name))), Some(epoch)) = (taken, epoch) {
            self.names.insert((its.from, epoch, name), (flow, sequence));
        }
        let packet =
            Packet { at: now, bytes, epoch, delivered: None, is_twins: false, outcome: None };
        self.packets[flow].push(packet);
        if !its.is_command() {
            return Ok(());
        }
        match its.life().filter(|_| epoch.is_some()) {
            Some(life) => self.awaited.push_back((now + life, flow, sequence)),
            None if self.abilities.is_able(CONTROL, now, now) => {
                let why = sent.map(|(_, result)| result);
                return found(Rule::Starved, now, format!("flow{number} is refused: {why:?}"));
            }
            None => {}
        }
        Ok(())
    }

    /// Takes what an endpoint said.
    pub(super) fn on_said(&mut self, now: Instant, host: usize, said: Said) -> Result<(), Finding> {
        match said {
            Said::Happened(_, Event::Disconnected { reason }) if host == TWIN => {
                self.said_contested[1] |= reason.contains(KEY_IN_USE);
                Ok(())
            }
            Said::Delivered(delivery) if host == TWIN => {
                self.on_delivery_to_twin(&delivery);
                Ok(())
            }
            _ if host == TWIN => Ok(()),
            Said::Happened(_, Event::Contested { .. }) => self.on_contested(now),
            Said::Delivered(delivery) => self.on_delivery(now, host, &delivery),
            Said::Happened(session, Event::MessageEnded { message, outcome, .. }) => {
                self.on_outcome(now, host, session, message, outcome)
            }
            Said::Happened(session, Event::Disconnected { .. }) => {
                self.broken_at = now;
                *self.generations.entry((host, self.lives[host], session)).or_default() += 1;
                Ok(())
            }
            Said::Happened(..) => Ok(()),
        }
    }

    /// Notes that the daemon of a host was killed or started.
    pub(super) fn on_restart(&mut self, now: Instant, host: usize, is_up: bool) {
        self.lives[host] += 1;
        self.broken_at = now;
        self.killed_at[host] = Some(now);
        if host == DRONE {
            self.started = is_up.then_some(now);
        }
    }

    /// Looks at what a host shows.
    pub(super) fn on_look(
        &mut self,
        now: Instant,
        host: usize,
        status: Option<SessionStatus>,
        peer: &Peer,
    ) -> Result<(), Finding> {
        self.check_awaited(now)?;
        self.check_bounds(now, host, peer, status.as_ref())?;
        let active = |status: &SessionStatus| {
            status.connected && status.paths.iter().any(|path| path.state == PathState::Active)
        };
        let is_active = status.as_ref().is_some_and(active);
        self.is_active[host] = is_active;
        if host == STATION {
            self.check_greeting(now)?;
            self.check_twin(now)?;
        }
        if !self.abilities.is_able(None, now, now) || is_active {
            self.fine_at[host] = now;
        } else if now.since(self.fine_at[host]) > SUSPECTED_BEYOND {
            let shown = status.map(|status| (status.connected, status.paths));
            return found(Rule::Connected, now, format!("host {host} is not: {shown:?}"));
        }
        let probe = self.plan.sessions[host].idle_probe;
        // A path in reserve is probed every 25 s.
        let excused = self.plan.has_clock_steps()
            || self.plan.has_full_sockets()
            || self.plan.uses.iter().any(|said| said.usage.backup);
        if probe.is_zero() || probe > PROBED_EVERY || excused {
            return Ok(());
        }
        let silent = status.iter().flat_map(|status| &status.paths).find(|path| {
            path.state == PathState::Active
                && path.silent_for.is_some_and(|silent| {
                    let srtt = path.srtt.unwrap_or_default();
                    let varies = path.rttvar.unwrap_or_default();
                    silent > SILENT_BEYOND.max(srtt.max(srtt / 2 + varies) * SILENT_ROUNDS)
                })
        });
        match silent {
            Some(path) => {
                let what = format!("host {host} shows a silent path as active: {path:?}");
                found(Rule::Connected, now, what)
            }
            None => Ok(()),
        }
    }

    /// Tells whether messages that must arrive are still to come.
    pub(super) fn waits_for_messages(&self, now: Instant) -> bool {
        self.abilities.is_able(MESSAGES, now, now) && self.missing_message().is_some()
    }

    /// Judges the run as a whole when it is over.
    pub(super) fn end(&mut self, now: Instant) -> Result<(), Finding> {
        self.check_awaited(now)?;
        let quiet_since = Instant::ZERO + self.plan.traffic;
        if let Some((flow, sequence)) = self.missing_message()
            && self.abilities.is_able(MESSAGES, quiet_since, now)
        {
            let number = self.plan.flows[flow].0;
            return found(
                Rule::Lost,
                now,
                format!("message {sequence} of flow{number} never came"),
            );
        }
        for (flow, packets) in self.packets.iter().enumerate() {
            let (number, its) = &self.plan.flows[flow];
            for (sequence, packet) in packets.iter().enumerate().filter(|_| its.is_accounted_for())
            {
                if let Some(what) = self.wrong_end(its, packet) {
                    return found(
                        Rule::Told,
                        now,
                        format!("packet {sequence} of flow{number}: {what}"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Compares what both ends know of the use of the paths that work at both, when a run is over.
    pub(super) fn on_uses(
        &self,
        now: Instant,
        [drone, station]: [Option<SessionStatus>; HOSTS],
    ) -> Result<(), Finding> {
        let (Some(drone), Some(station)) = (drone, station) else { return Ok(()) };
        let quiet_since = Instant::ZERO + self.plan.traffic;
        for ours in drone.paths.iter().filter(|path| path.state == PathState::Active) {
            let theirs = station.paths.iter().find(|path| path.id == ours.id);
            let theirs = theirs.filter(|path| path.state == PathState::Active);
            let link = self.plan.links.get(usize::from(ours.id.0)).map(|(number, _)| *number);
            let is_there = link.is_some_and(|link| self.abilities.is_there(link, quiet_since, now));
            let Some(theirs) = theirs.filter(|_| is_there && self.plan.twin().is_none()) else {
                continue;
            };
            if ours.usage != theirs.usage {
                let what =
                    format!("{:?} at the drone, {:?} at the station", ours.usage, theirs.usage);
                return found(Rule::Agreed, now, format!("path {}: {what}", ours.id.0));
            }
        }
        Ok(())
    }

    fn wrong_end(&self, flow: &Flow, packet: &Packet) -> Option<&'static str> {
        let (life, ..) = packet.epoch?;
        let killed = |host: usize| self.killed_at[host].is_some_and(|at| at >= packet.at);
        match packet.outcome {
            None => (life == self.lives[flow.from]).then_some("its end was never told"),
            Some(Outcome::Delivered) if packet.delivered.is_none() && !packet.is_twins => {
                let excused = killed(1 - flow.from) || self.plan.has_clock_steps();
                (!excused).then_some("told to be delivered, and was not")
            }
            Some(_) => None,
        }
    }

    fn missing_message(&self) -> Option<(usize, u32)> {
        let flows = self.plan.flows.iter().enumerate();
        let mut complete = flows.filter(|(_, (_, flow))| flow.is_complete());
        complete.find_map(|(place, _)| {
            let is_missing = |packet: &Packet| {
                packet.epoch.is_some() && packet.delivered.is_none() && packet.at > self.broken_at
            };
            let sequence = self.packets[place].iter().position(is_missing)?;
            Some((place, sequence as u32))
        })
    }

    fn epoch(&self, host: usize, session: SessionId) -> Epoch {
        let life = self.lives[host];
        let generation = self.generations.get(&(host, life, session)).copied();
        (life, session, generation.unwrap_or_default())
    }

    fn on_delivery(
        &mut self,
        now: Instant,
        host: usize,
        delivery: &Delivery,
    ) -> Result<(), Finding> {
        let payload = match delivery.channel {
            0 => unwrap(&delivery.bytes).unwrap_or_default(),
            _ => &delivery.bytes,
        };
        let flows = &self.plan.flows;
        let name = name_of(payload).and_then(|(number, sequence)| {
            let place = flows.iter().position(|(its, _)| *its == number)?;
            Some((place, number, sequence))
        });
        let known = name.and_then(|(place, number, sequence)| {
            let packet = self.packets[place].get_mut(sequence as usize)?;
            let flow = &flows[place].1;
            let same = packet.bytes == payload
                && flow.channel(number) == delivery.channel
                && flow.from != host
                && packet.epoch.is_some();
            same.then_some((place, sequence, packet))
        });
        let Some((place, sequence, packet)) = known else {
            let head = &delivery.bytes[..delivery.bytes.len().min(40)];
            let what = format!("host {host} got by channel {}: {head:?}", delivery.channel);
            return found(Rule::Altered, now, what);
        };
        let (number, flow) = &flows[place];
        let what = |wrong: String| format!("packet {sequence} of flow{number} {wrong}");
        if let Some(before) = packet.delivered.replace(now) {
            let wrong = format!("was delivered at {:.3} s before", before.as_secs_f64());
            return found(Rule::Twice, now, what(wrong));
        }
        let age = now.since(packet.at);
        if let Some(life) = flow.life().filter(|life| age > *life + AGE_TOLERANCE)
            && !self.plan.has_clock_steps()
        {
            return found(Rule::Late, now, what(format!("lived for {life:?}, is {age:?} old")));
        }
        if packet.outcome == Some(Outcome::Expired) && !self.plan.has_clock_steps() {
            return found(Rule::Told, now, what("was told to have expired".to_owned()));
        }
        self.check_order(now, place, sequence)
    }

    fn check_order(&mut self, now: Instant, place: usize, sequence: u32) -> Result<(), Finding> {
        let (number, flow) = &self.plan.flows[place];
        let before = self.last[place];
        self.last[place] = before.max(Some(sequence));
        if !flow.keeps_order() {
            return Ok(());
        }
        if let Some(before) = before.filter(|before| *before > sequence) {
            let what = format!("packet {sequence} of flow{number} came behind {before}");
            return found(Rule::Order, now, what);
        }
        let from = before.map_or(0, |before| before + 1);
        let packets = &self.packets[place];
        let epoch = packets[sequence as usize].epoch;
        let skipped = (from..sequence).find(|&one| packets[one as usize].epoch == epoch);
        match skipped.filter(|_| flow.is_complete()) {
            // What a receiver had that was killed meanwhile is not in this order any more.
            Some(one) if self.killed_at[1 - flow.from].is_none() => {
                let what = format!("packet {sequence} of flow{number} came before {one}");
                found(Rule::Order, now, what)
            }
            _ => Ok(()),
        }
    }

    fn on_outcome(
        &mut self,
        now: Instant,
        host: usize,
        session: SessionId,
        message: MessageId,
        outcome: Outcome,
    ) -> Result<(), Finding> {
        let epoch = self.epoch(host, session);
        let Some(&(flow, sequence)) = self.names.get(&(host, epoch, message)) else {
            let what = format!("host {host} is told of {message:?}, which it never handed in");
            return found(Rule::Told, now, what);
        };
        let number = self.plan.flows[flow].0;
        match self.packets[flow][sequence as usize].outcome.replace(outcome) {
            None => Ok(()),
            Some(before) => {
                let what =
                    format!("packet {sequence} of flow{number}: {before:?}, then {outcome:?}");
                found(Rule::Told, now, what)
            }
        }
    }

    /// Notes what a second daemon got, which has taken the place of a first that was silent.
    fn on_delivery_to_twin(&mut self, delivery: &Delivery) {
        let named = name_of(&delivery.bytes).and_then(|(number, sequence)| {
            let place = self.plan.flows.iter().position(|(known, _)| *known == number)?;
            self.packets[place].get_mut(sequence as usize)
        });
        if let Some(packet) = named {
            packet.is_twins = true;
        }
    }

    /// Looks at the commands whose time is up.
    fn check_awaited(&mut self, now: Instant) -> Result<(), Finding> {
        self.awaited.make_contiguous().sort_unstable();
        while let Some(&(until, flow, sequence)) = self.awaited.front().filter(|due| due.0 <= now) {
            self.awaited.pop_front();
            let packet = &self.packets[flow][sequence as usize];
            if packet.delivered.is_none() && self.abilities.is_able(CONTROL, packet.at, until) {
                let (number, told) = (self.plan.flows[flow].0, packet.outcome);
                let at = packet.at.as_secs_f64();
                let what = format!(
                    "packet {sequence} of flow{number}, handed in at {at:.3} s, did not come, and was told {told:?}"
                );
                return found(Rule::Starved, now, what);
            }
        }
        Ok(())
    }

    /// Looks at whether a drone that has started is connected, and the station with it.
    fn check_greeting(&mut self, now: Instant) -> Result<(), Finding> {
        let is_active = self.is_active == [true; HOSTS];
        let Some(started) = self.started.filter(|at| is_active || now > *at + GREETED_WITHIN)
        else {
            return Ok(());
        };
        self.started = None;
        match is_active || !self.abilities.greets(started, now) {
            true => Ok(()),
            false => {
                let at = started.as_secs_f64();
                found(
                    Rule::Greeted,
                    now,
                    format!("the drone, started at {at:.3} s, is alone: {:?}", self.is_active),
                )
            }
        }
    }

    /// Takes what the station says of a second daemon.
    fn on_contested(&mut self, now: Instant) -> Result<(), Finding> {
        self.said_contested[0] = true;
        match self.plan.twin() {
            Some(_) => Ok(()),
            None => found(Rule::Contested, now, "there is one daemon with the key".to_owned()),
        }
    }

    /// Looks at whether both ends have said that there is a second daemon.
    fn check_twin(&self, now: Instant) -> Result<(), Finding> {
        let Some((_, (begin, end), _)) = self.plan.twin() else { return Ok(()) };
        let due = begin + TURNED_AWAY_WITHIN;
        if now < due || now > end || !self.abilities.is_able(None, begin, now) {
            return Ok(());
        }
        match self.said_contested {
            [true, true] => Ok(()),
            [station, second] => {
                let what = format!("told of two daemons: station {station}, second {second}");
                found(Rule::Contested, now, what)
            }
        }
    }

    fn check_bounds(
        &mut self,
        now: Instant,
        host: usize,
        peer: &Peer,
        status: Option<&SessionStatus>,
    ) -> Result<(), Finding> {
        let endpoint = peer.driver.as_ref().map(|driver| &driver.endpoint);
        let sessions = endpoint.map_or(0, |endpoint| endpoint.sessions().count());
        let paths = status.map_or(0, |status| status.paths.len());
        let waiting = status.map_or(0, |status| status.messages.waiting_bytes);
        if sessions > SESSIONS || paths > MAX_PATHS || waiting > WAITING_BYTES {
            let what = format!("host {host}: {sessions} sessions, {paths} paths, {waiting} bytes");
            return found(Rule::Bounds, now, what);
        }
        let (received, answered) = peer.strangers;
        if answered > 3 * received {
            let what = format!("host {host} answered {answered} bytes to {received} of strangers");
            return found(Rule::Bounds, now, what);
        }
        let (handed_in, sent) = (&mut self.handed_in[host], &mut self.sent[host]);
        sent.push_back((now, peer.sent.1.saturating_sub(ANSWERS * peer.received)));
        while handed_in.front().is_some_and(|(at, _)| now.since(*at) > LATELY) {
            handed_in.pop_front();
        }
        while sent.front().is_some_and(|(at, _)| now.since(*at) > Duration::from_secs(1)) {
            sent.pop_front();
        }
        let bytes = sent
            .back()
            .map_or(0, |(_, bytes)| *bytes)
            .saturating_sub(sent.front().map_or(0, |(_, bytes)| *bytes));
        let offered: u64 = handed_in.iter().map(|(_, bytes)| *bytes).sum();
        let offered = offered.max(waiting as u64);
        if bytes > IDLE_BYTES * self.plan.links.len() as u64 + COPIES * offered {
            let what = format!("host {host} sent {bytes} bytes in a second for {offered}");
            return found(Rule::Bounds, now, what);
        }
        Ok(())
    }
}

fn found(rule: Rule, at: Instant, what: String) -> Result<(), Finding> {
    Err(Finding { rule, at, what })
}
