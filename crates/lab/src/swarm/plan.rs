//! The plan of a run: everything that its seed decides, in parts that can be left out one at a
//! time.
//!
//! Each part draws from a stream of random numbers of its own, and links, faults and flows keep
//! their numbers whatever is left out: what remains is what it was.

use core::fmt;
use core::str::FromStr;

use netem::{Delay, LinkModel, LinkRate, QueueLimit, Scenario};
use proto::{CongestionKind, ProtectControl, SchedulerKind, SessionConfig};
use units::{Duration, Instant, Rate, Rng};

use super::HOSTS;
use super::draw::{log_uniform, pick};
use super::fall;
use super::fault::{Fault, FaultKind, Span};
use super::flow::Flow;
use super::uses::{self, Use};

/// The most links of a run.
const LINKS_MAX: u64 = 4;
/// The most faults of a run.
const FAULTS_MAX: u64 = 9;
/// The most flows of a run beside the commands of each direction.
const FLOWS_MAX: u64 = 5;
/// The share of runs that last beyond the change of keys, which comes after two minutes.
const LONG_SHARE: f64 = 0.06;
/// How long applications send in those.
const LONG: Duration = Duration::from_secs(150);
/// The share of runs in which somebody knows both public keys.
const SIEGE_SHARE: f64 = 0.4;
/// The share of those that last beyond the change of keys.
const LONG_SIEGE_SHARE: f64 = 0.1;
/// The number of the first fault of a siege, beyond those of every run.
const SIEGE: usize = 10;
/// The number of the link that is added then, which nobody hinders.
const HAVEN: usize = 9;
/// The share of runs with a second daemon that has the drone's key.
const TWIN_SHARE: f64 = 0.1;
/// The number of the fault that it is.
const TWIN: usize = 12;
/// The share of runs in which links fall.
const FALLS_SHARE: f64 = 0.25;
/// The number of the fall of the first link, beyond those of all other faults.
const FALLS: usize = 20;
/// The number of the first fast link that is added then …
const EDGE: usize = 5;
/// … and that of the first flow.
const FALLS_FLOWS: usize = 10;
/// How long a queue that is not deep takes to drain.
const SHALLOW: Duration = Duration::from_millis(250);
/// How long commands go on after the last fall: a link that was fast is able again by then.
const AFTER_FALLS: Duration = Duration::from_secs(8);
/// How long a scenario lasts at most: outages end, time does not.
const SCENARIO_SECONDS: f64 = 600.0;

/// One link as it is where nothing goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Its rate; none is no limit.
    pub(super) rate: Option<Rate>,
    /// Its one-way delay.
    pub(super) delay: Duration,
    /// What may wait for its transmitter.
    pub(super) queue_bytes: u64,
}

/// Everything that a run does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Decides what is left to chance.
    pub(super) seed: u64,
    /// How long the applications send.
    pub(super) traffic: Duration,
    /// The links, with their numbers.
    pub(super) links: Vec<(usize, Link)>,
    /// What goes wrong.
    pub(super) faults: Vec<(usize, Fault)>,
    /// What the applications send.
    pub(super) flows: Vec<(usize, Flow)>,
    /// How the drone and the station are configured.
    pub(super) sessions: [SessionConfig; HOSTS],
    /// What is said of the drone's links, in the order of time.
    pub(super) uses: Vec<Use>,
    /// Whether they are configured in any way.
    pub(super) is_configured: bool,
    /// The pre-shared key of both, if they have one.
    pub(super) psk: Option<[u8; 32]>,
}

/// A part that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// What goes wrong.
    Fault(usize),
    /// What is sent.
    Flow(usize),
    /// A link, and what goes wrong there.
    Link(usize),
    /// What is said of the drone's links: without it each carries everything.
    Uses,
    /// The configuration of both ends: without it they have the defaults.
    Config,
    /// Somebody who knows both public keys, and what the run has for that.
    Siege,
    /// A second daemon with the drone's key, and what the run has for that.
    Twin,
    /// Links that fall, and what the run has for that.
    Falls,
}

impl Plan {
    /// Draws the plan of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        Self::draw_plain(seed).with_siege().with_twin().with_falls()
    }

    /// Draws a plan without what some runs have on top.
    fn draw_plain(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, "plan");
        let traffic = draw_traffic(&mut rng);
        let links = 1 + rng.below(LINKS_MAX) as usize;
        let faults = rng.below(FAULTS_MAX + 1) as usize;
        let flows = HOSTS + rng.below(FLOWS_MAX + 1) as usize;
        let stream = |what: &str, number| Rng::stream(seed, &format!("{what} {number}"));
        let fault = |number| Fault::draw(links, traffic, &mut stream("fault", number));
        let flow = |number| Flow::draw(number, traffic, &mut stream("flow", number));
        let is_configured = rng.chance(0.5);
        let session = |host| match is_configured {
            true => draw_session(&mut stream("session", host)),
            false => SessionConfig::default(),
        };
        Self {
            seed,
            traffic,
            links: (0..links)
                .map(|number| (number, Link::draw(&mut stream("link", number))))
                .collect(),
            faults: (0..faults).map(|number| (number, fault(number))).collect(),
            flows: (0..flows).map(|number| (number, flow(number))).collect(),
            sessions: [session(0), session(1)],
            uses: uses::draw(seed, links, traffic),
            is_configured,
            psk: rng.chance(0.2).then_some([7; 32]),
        }
    }

    /// Lets somebody who knows both public keys attack, perhaps.
    fn with_siege(mut self) -> Self {
        let mut rng = Rng::stream(self.seed, "siege");
        if !rng.chance(SIEGE_SHARE) {
            return self;
        }
        if rng.chance(LONG_SIEGE_SHARE) {
            self.lengthen(LONG);
        }
        let mut faults = Fault::draw_siege(self.traffic, &mut rng);
        let is_spoofed = matches!(faults[0].kind, FaultKind::Attack(attack) if attack.is_spoofed());
        let haven = Link::draw_good(&mut rng);
        faults[0].link = Some(if is_spoofed { HAVEN } else { self.attackers_link(&mut rng) });
        if is_spoofed {
            // What belongs to one address is missed where there is no other.
            let links: Vec<Part> = self.links.iter().map(|(link, _)| Part::Link(*link)).collect();
            self.leave_out(&links);
        }
        self.links.push((HAVEN, haven));
        self.faults.extend((SIEGE..).zip(faults));
        self
    }

    /// Draws the link of an attacker who wants to come first: the fastest as a rule.
    fn attackers_link(&self, rng: &mut Rng) -> usize {
        let fastest = self.links.iter().min_by_key(|(_, link)| link.delay);
        match fastest.filter(|_| rng.chance(0.7)) {
            Some((link, _)) => *link,
            None => rng.below(self.links.len() as u64) as usize,
        }
    }

    /// Lets a second daemon have the drone's key, perhaps.
    fn with_twin(mut self) -> Self {
        let mut rng = Rng::stream(self.seed, "twin");
        if rng.chance(TWIN_SHARE) {
            // Whether there is a siege as well must not matter.
            let traffic = draw_traffic(&mut Rng::stream(self.seed, "plan"));
            let fault = Fault::draw_twin(traffic, &mut rng);
            self.lengthen(fault.span.1.since(Instant::ZERO));
            self.faults.push((TWIN, fault));
        }
        self
    }

    /// Lets links fall, perhaps: not the one that a siege has left.
    fn with_falls(mut self) -> Self {
        let mut rng = Rng::stream(self.seed, "falls");
        if !rng.chance(FALLS_SHARE) {
            return self;
        }
        // Whether there is a siege or a twin as well must not matter.
        let traffic = draw_traffic(&mut Rng::stream(self.seed, "plan"));
        let is_besieged = self.place(HAVEN).is_some();
        let edges = 1 + rng.below(2) as usize;
        let (is_alone, is_control) = (rng.chance(0.7), rng.chance(0.6));
        if !is_besieged {
            if is_alone {
                let links: Vec<Part> = self.links.iter().map(|it| Part::Link(it.0)).collect();
                self.leave_out(&links);
                self.flows.retain(|(_, flow)| !is_control || flow.life().is_some());
            }
            let edge =
                |number| Link::draw_fast(&mut Rng::stream(self.seed, &format!("link {number}")));
            self.links.extend((EDGE..EDGE + edges).map(|number| (number, edge(number))));
        }
        let mut falls = fall::draw(self.seed, traffic, EDGE, &mut rng);
        falls.retain(|fall| {
            fall.link.is_some_and(|link| link != HAVEN && self.place(link).is_some())
        });
        if falls.is_empty() {
            return self;
        }
        for fall in falls {
            self.lengthen(fall.span.1.since(Instant::ZERO) + AFTER_FALLS);
            self.faults.push((FALLS + fall.link.unwrap_or_default(), fall));
        }
        for (from, number) in (FALLS_FLOWS..).enumerate().take(HOSTS) {
            let mut rng = Rng::stream(self.seed, &format!("flow {number}"));
            self.flows.push((number, Flow::draw_steady(from, self.traffic, &mut rng)));
        }
        self
    }

    /// Lets the commands of each direction go on for at least this long.
    fn lengthen(&mut self, traffic: Duration) {
        self.traffic = self.traffic.max(traffic);
        for (_, flow) in &mut self.flows[..HOSTS] {
            flow.span.1 = Instant::ZERO + self.traffic;
        }
    }

    /// Returns the plan of the same seed without some parts.
    pub(super) fn without(&self, left_out: &[Part]) -> Self {
        let mut plan = Self::draw_plain(self.seed);
        if !left_out.contains(&Part::Siege) {
            plan = plan.with_siege();
        }
        if !left_out.contains(&Part::Twin) {
            plan = plan.with_twin();
        }
        if !left_out.contains(&Part::Falls) {
            plan = plan.with_falls();
        }
        plan.leave_out(left_out);
        plan
    }

    fn leave_out(&mut self, parts: &[Part]) {
        self.links.retain(|(number, _)| !parts.contains(&Part::Link(*number)));
        self.flows.retain(|(number, _)| !parts.contains(&Part::Flow(*number)));
        self.faults.retain(|(number, fault)| {
            let link_is_there =
                fault.link.is_none_or(|link| self.links.iter().any(|(number, _)| *number == link));
            link_is_there && !parts.contains(&Part::Fault(*number))
        });
        self.uses.retain(|said| {
            let link_is_there = self.links.iter().any(|(number, _)| *number == said.link);
            link_is_there && !parts.contains(&Part::Uses)
        });
        if parts.contains(&Part::Config) {
            self.sessions = [SessionConfig::default(), SessionConfig::default()];
            self.is_configured = false;
            self.psk = None;
        }
    }

    /// Returns the parts that can be left out, those that explain most first.
    pub(super) fn parts(&self) -> Vec<Part> {
        let links = self.links.iter().map(|(number, _)| Part::Link(*number));
        let faults = self.faults.iter().map(|(number, _)| Part::Fault(*number));
        let flows = self.flows.iter().map(|(number, _)| Part::Flow(*number));
        let config = (self.is_configured || self.psk.is_some()).then_some(Part::Config);
        let uses = (!self.uses.is_empty()).then_some(Part::Uses);
        // There is no run without a link.
        let links = links.filter(|_| self.links.len() > 1);
        let is_besieged = self.links.iter().any(|(number, _)| *number == HAVEN);
        let siege = is_besieged.then_some(Part::Siege);
        let twin = self.twin().map(|_| Part::Twin);
        let is_fall = |fault: &Fault| matches!(fault.kind, FaultKind::Fall(_));
        let falls = self.faults.iter().any(|(_, fault)| is_fall(fault)).then_some(Part::Falls);
        let added = siege.into_iter().chain(twin).chain(falls);
        added.chain(links).chain(faults).chain(uses).chain(config).chain(flows).collect()
    }

    /// Returns the place of a link among those that are there.
    pub(super) fn place(&self, link: usize) -> Option<usize> {
        self.links.iter().position(|(number, _)| *number == link)
    }

    /// Returns the second daemon with the drone's key: the place of its fault, when it lives, its
    /// link.
    pub(super) fn twin(&self) -> Option<(usize, Span, Link)> {
        self.faults.iter().enumerate().find_map(|(place, (_, fault))| match fault.kind {
            FaultKind::Twin(link) => Some((place, fault.span, link)),
            _ => None,
        })
    }

    /// Writes the links down, and what goes wrong with them and with clocks.
    pub(super) fn scenario(&self) -> Scenario {
        let mut scenario = Scenario::new(&format!("swarm-{}", self.seed), SCENARIO_SECONDS);
        scenario.seed = self.seed;
        for (number, link) in &self.links {
            scenario = scenario.link(&format!("link{number}"), "drone", "station", &link.model());
        }
        if let Some((.., link)) = self.twin() {
            scenario = scenario.link("twin", "twin", "station", &link.model());
        }
        for (_, fault) in &self.faults {
            fault.put_into(&mut scenario, fault.link.and_then(|link| self.place(link)));
        }
        for host in &mut scenario.hosts {
            host.clock.steps.sort_by_key(|step| step.at);
        }
        scenario
    }

    /// Tells whether a socket is full for a while: what cannot be sent is not missed.
    pub(super) fn has_full_sockets(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault.kind, FaultKind::FullSocket))
    }

    /// Tells whether anybody's clock jumps.
    pub(super) fn has_clock_steps(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault.kind, FaultKind::ClockStep(_)))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, applications send for {:?}", self.seed, self.traffic)?;
        for (number, link) in &self.links {
            writeln!(
                f,
                "link{number}: {:?}, {:?}, queue {} bytes",
                link.rate, link.delay, link.queue_bytes
            )?;
        }
        for (number, fault) in &self.faults {
            writeln!(f, "fault{number}: {fault}")?;
        }
        for (number, flow) in &self.flows {
            writeln!(f, "flow{number}: {flow}")?;
        }
        for said in &self.uses {
            writeln!(f, "uses: {said}")?;
        }
        if self.is_configured {
            writeln!(
                f,
                "config: drone {:?}\n        station {:?}",
                self.sessions[0], self.sessions[1]
            )?;
        }
        if self.psk.is_some() {
            writeln!(f, "config: a pre-shared key")?;
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(number) => write!(f, "fault{number}"),
            Self::Flow(number) => write!(f, "flow{number}"),
            Self::Link(number) => write!(f, "link{number}"),
            Self::Uses => f.write_str("uses"),
            Self::Config => f.write_str("config"),
            Self::Siege => f.write_str("siege"),
            Self::Twin => f.write_str("twin"),
            Self::Falls => f.write_str("falls"),
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |prefix| text.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        let part = number("fault").map(Self::Fault);
        let part = part.or_else(|| number("flow").map(Self::Flow));
        let part = part.or_else(|| number("link").map(Self::Link));
        let part = part.or(match text {
            "uses" => Some(Self::Uses),
            "config" => Some(Self::Config),
            "siege" => Some(Self::Siege),
            "twin" => Some(Self::Twin),
            "falls" => Some(Self::Falls),
            _ => None,
        });
        part.ok_or_else(|| {
            format!(
                "`{text}` is no part like fault3, flow1, link0, uses, config, siege, twin or falls"
            )
        })
    }
}

impl Link {
    /// Draws a link over which everything must arrive, and which is seldom the fastest.
    pub(super) fn draw_good(rng: &mut Rng) -> Self {
        Self {
            rate: Some(Rate::from_mbps(log_uniform(rng, 2.0, 50.0))),
            delay: Duration::from_micros(log_uniform(rng, 20_000.0, 120_000.0) as u64),
            queue_bytes: 50_000,
        }
    }

    /// Draws a link that is fast until it falls, as a cell's is far from its edge.
    fn draw_fast(rng: &mut Rng) -> Self {
        let rate = Rate::from_mbps(log_uniform(rng, 1.0, 50.0));
        let queue_bytes = log_uniform(rng, 16_000.0, 1e6) as u64;
        // No congestion control but one suits a deep queue.
        let most = if rng.chance(0.5) { u64::MAX } else { rate.bytes_in(SHALLOW) };
        Self {
            rate: Some(rate),
            delay: Duration::from_micros(log_uniform(rng, 2_000.0, 120_000.0) as u64),
            queue_bytes: queue_bytes.min(most),
        }
    }

    fn draw(rng: &mut Rng) -> Self {
        let rate = Rate::from_mbps(log_uniform(rng, 0.05, 50.0));
        let wait = Duration::from_secs_f64(log_uniform(rng, 0.01, 3.0));
        Self {
            rate: (!rng.chance(0.1)).then_some(rate),
            delay: Duration::from_micros(log_uniform(rng, 200.0, 400_000.0) as u64),
            queue_bytes: rate.bytes_in(wait).max(3_000),
        }
    }

    fn model(self) -> LinkModel {
        LinkModel {
            delay: Delay::Fixed(self.delay),
            rate: self.rate.map_or(LinkRate::Unlimited, LinkRate::Constant),
            queue: QueueLimit { packets: None, bytes: Some(self.queue_bytes) },
            ..LinkModel::default()
        }
    }
}

fn draw_traffic(rng: &mut Rng) -> Duration {
    match rng.chance(LONG_SHARE) {
        true => LONG,
        false => Duration::from_millis(log_uniform(rng, 2_000.0, 25_000.0) as u64),
    }
}

fn draw_session(rng: &mut Rng) -> SessionConfig {
    let congestion = [
        CongestionKind::DelayBounded,
        CongestionKind::DelayBounded,
        CongestionKind::NewReno,
        CongestionKind::Cubic,
        CongestionKind::Asran,
        CongestionKind::AsranCubic,
        CongestionKind::AsranDelay,
        CongestionKind::None,
    ];
    let schedulers = [SchedulerKind::MinRtt, SchedulerKind::RoundRobin, SchedulerKind::Redundant];
    let protections = [ProtectControl::Balanced, ProtectControl::Strict, ProtectControl::Off];
    let millis = |rng: &mut Rng, most| Duration::from_millis(rng.below(most));
    SessionConfig {
        scheduler: pick(rng, &schedulers),
        congestion: pick(rng, &congestion),
        coded_transfers: rng.chance(0.7),
        bulk_max_age: Duration::from_millis(5) + millis(rng, 1_000),
        rtp_deadline: millis(rng, 500),
        resequence_max: millis(rng, 200),
        idle_probe: if rng.chance(0.1) {
            Duration::ZERO
        } else {
            Duration::from_millis(100) + millis(rng, 2_000)
        },
        protect_control: pick(rng, &protections),
        ..SessionConfig::default()
    }
}
