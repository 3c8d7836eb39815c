//! One run of a plan in the world: applications hand in, faults come and go, the judge looks on.

use netem::{HostClock, Nat, StepKind, World, WorldOptions};
use proto::{InterfaceId, PathId};
use std::net::Ipv4Addr;
use units::{Duration, Instant, Rng};
use world::{Driver, Identity};

use super::attack::Attacker;
use super::fault::{Fault, FaultKind};
use super::forge::Forger;
use super::judge::{Finding, Judge};
use super::peer::Peer;
use super::plan::Plan;
use super::silence::Silence;
use super::uses::Use;
use super::{DRONE, HOSTS, STATION, TWIN};

/// How often the judge looks at what the ends show.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a run goes on at least when the applications are silent: every outcome is told by then.
const QUIET: Duration = Duration::from_secs(8);
/// How long messages that must arrive are waited for.
const PATIENCE: Duration = Duration::from_secs(120);
/// Marks of the world: below it the numbers of flows, from it on those of what is said of links.
const USES: u64 = 500;
/// From it on those of faults, begin and end.
const FAULTS: u64 = 1_000;
/// Which life of the drone's the twin's randomness is: one that nobody gets to.
const TWINS_LIFE: u32 = u32::MAX;
/// The mark of the judge.
const LOOK: u64 = u64::MAX;

/// Runs a plan and returns the first thing that is wrong.
pub(super) fn run(plan: &Plan) -> Option<Finding> {
    let mut run = Run::new(plan);
    let found = run.play();
    found.err()
}

struct Run<'a> {
    plan: &'a Plan,
    world: World<Peer>,
    judge: Judge<'a>,
    /// Looks at links that fall, where there are any.
    silence: Option<Silence<'a>>,
    /// Of each host's interfaces.
    addresses: Vec<Vec<Ipv4Addr>>,
    /// The numbers of the next packets, and the rhythm of their flows.
    rhythms: Vec<(u32, Rng)>,
    lives: [u32; HOSTS],
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan) -> Self {
        let scenario = plan.scenario();
        let addresses: Vec<Vec<Ipv4Addr>> = (0..scenario.hosts.len())
            .map(|host| scenario.interfaces(host).iter().map(|at| at.address).collect())
            .collect();
        let start = |host: usize| HostClock::new(&scenario.hosts[host].clock).local(Instant::ZERO);
        let mut hosts: Vec<Peer> = (0..scenario.hosts.len())
            .map(|host| Peer::new(attackers(plan, host, start(host))))
            .collect();
        for (host, peer) in hosts.iter_mut().enumerate().take(HOSTS) {
            let mut driver = driver(plan, &addresses, host, 0, start(host));
            let first = plan.uses.iter().filter(|said| host == DRONE && said.is_first());
            first.for_each(|said| say(plan, said, &mut driver, start(host)));
            peer.driver = Some(driver);
        }
        let options = WorldOptions { seed: Some(plan.seed), ..WorldOptions::default() };
        let mut world = World::new(&scenario, hosts, &options);
        for (index, (_, flow)) in plan.flows.iter().enumerate() {
            world.schedule(flow.span.0, index as u64);
        }
        for (index, (_, fault)) in plan.faults.iter().enumerate() {
            world.schedule(fault.span.0, FAULTS + 2 * index as u64);
            world.schedule(fault.span.1, FAULTS + 2 * index as u64 + 1);
        }
        for (index, said) in plan.uses.iter().enumerate().filter(|(_, said)| !said.is_first()) {
            world.schedule(said.at, USES + index as u64);
        }
        world.schedule(Instant::ZERO + LOOK_EVERY, LOOK);
        let rhythm = |number: usize| Rng::stream(plan.seed, &format!("rhythm {number}"));
        let rhythms = plan.flows.iter().map(|(number, _)| (0, rhythm(*number))).collect();
        let silence = Silence::new(plan);
        if let Some(silence) = &silence {
            world.set_verdict_log(silence.watch());
        }
        let judge = Judge::new(plan);
        Self { plan, world, judge, silence, addresses, rhythms, lives: [0; HOSTS] }
    }

    fn play(&mut self) -> Result<(), Finding> {
        let end = Instant::ZERO + self.plan.traffic;
        self.play_until(end + QUIET)?;
        while self.judge.waits_for_messages(self.world.now()) && self.world.now() < end + PATIENCE {
            self.play_until(self.world.now() + Duration::from_secs(1))?;
        }
        self.judge.end(self.world.now())?;
        let shown = [DRONE, STATION].map(|host| {
            let local = self.world.host_now(host);
            self.world.host(host).status(local)
        });
        self.judge.on_uses(self.world.now(), shown)
    }

    fn play_until(&mut self, limit: Instant) -> Result<(), Finding> {
        while let Some(step) = self.world.step_until(limit) {
            if let StepKind::Mark(mark) = step.kind {
                self.handle_mark(mark)?;
            }
            for host in 0..self.addresses.len() {
                self.judge_host(host)?;
            }
        }
        Ok(())
    }

    fn judge_host(&mut self, host: usize) -> Result<(), Finding> {
        if self.world.host(host).said.is_empty() {
            return Ok(());
        }
        let said = std::mem::take(&mut self.world.host_mut(host).said);
        for said in said {
            self.silence.iter_mut().for_each(|silence| silence.on_said(host, &said));
            self.judge.on_said(self.world.now(), host, said)?;
        }
        Ok(())
    }

    fn handle_mark(&mut self, mark: u64) -> Result<(), Finding> {
        match mark {
            LOOK => {
                self.world.schedule(self.world.now() + LOOK_EVERY, LOOK);
                [DRONE, STATION].into_iter().try_for_each(|host| self.look(host))?;
                let now = self.world.now();
                self.silence.iter_mut().try_for_each(|silence| silence.on_look(now))
            }
            flow if flow < USES => self.hand_in(flow as usize),
            said if said < FAULTS => {
                let now = self.world.host_now(DRONE);
                if let Some(driver) = &mut self.world.host_mut(DRONE).driver {
                    say(self.plan, &self.plan.uses[(said - USES) as usize], driver, now);
                }
                Ok(())
            }
            fault => {
                let (index, ends) = ((fault - FAULTS) / 2, (fault - FAULTS) % 2 == 1);
                let (_, fault) = &self.plan.faults[index as usize];
                self.apply(fault, index as usize, ends);
                Ok(())
            }
        }
    }

    fn look(&mut self, host: usize) -> Result<(), Finding> {
        let local = self.world.host_now(host);
        let peer = self.world.host(host);
        let status = peer.status(local);
        self.judge.on_look(self.world.now(), host, status, peer)
    }

    fn hand_in(&mut self, index: usize) -> Result<(), Finding> {
        let (number, flow) = &self.plan.flows[index];
        let now = self.world.now();
        let (sequence, rng) = &mut self.rhythms[index];
        let next = now + flow.pause(rng).max(Duration::from_micros(100));
        if next < flow.span.1.min(Instant::ZERO + self.plan.traffic) {
            self.world.schedule(next, index as u64);
        }
        let local = self.world.host_now(flow.from);
        let peer = self.world.host_mut(flow.from);
        let Some(driver) = &mut peer.driver else { return Ok(()) };
        let packet = flow.packet(self.plan.seed, *number, *sequence);
        if let Some(silence) = &mut self.silence {
            silence.on_handed_in(now, index, *sequence, packet.len());
        }
        *sequence += 1;
        let source = flow.source(*number);
        let wrapped = flow.wrapped(&packet);
        let bytes = wrapped.as_deref().unwrap_or(&packet);
        let sent = driver
            .session
            .map(|session| (session, driver.endpoint.send(local, session, source, bytes)));
        peer.collect();
        self.judge.on_handed_in(now, index, packet, sent)?;
        self.judge_host(flow.from)
    }

    /// Lets a fault begin or end, as far as it is not the links' and the clocks'.
    fn apply(&mut self, fault: &Fault, index: usize, ends: bool) {
        let place = fault.link.and_then(|link| self.plan.place(link));
        let host = fault.host.unwrap_or(DRONE);
        match (&fault.kind, place) {
            (FaultKind::Restart, _) if ends => self.start(host),
            (FaultKind::Restart, _) => self.kill(host),
            (FaultKind::Move(shift), Some(place)) => {
                let address = Ipv4Addr::new(100, 64, place as u8, 1 + (shift % 200) as u8);
                let nat = Nat { address, port_shift: *shift };
                self.world.set_nat(DRONE, place, (!ends).then_some(nat));
            }
            (FaultKind::FullSocket, Some(place)) => {
                if let Some(driver) = &mut self.world.host_mut(host).driver {
                    driver.endpoint.set_blocked(InterfaceId(place as u32), None, !ends);
                }
            }
            (FaultKind::Twin(_), _) => self.set_twin(!ends),
            (FaultKind::Absent, Some(place)) => self.set_present(place, ends),
            (FaultKind::Attack(_), _) => self.set_at_work(host, index, !ends),
            _ => {}
        }
    }

    fn set_at_work(&mut self, host: usize, fault: usize, is_at_work: bool) {
        let now = self.world.host_now(host);
        let attackers = &mut self.world.host_mut(host).attackers;
        if let Some(attacker) = attackers.iter_mut().find(|one| one.fault == fault) {
            attacker.set_at_work(now, is_at_work);
        }
    }

    fn set_present(&mut self, place: usize, present: bool) {
        let now = self.world.host_now(DRONE);
        let peer = self.world.host_mut(DRONE);
        if let Some(driver) = &mut peer.driver
            && let Some(session) = driver.session
        {
            // The drone's paths are numbered as its interfaces are.
            driver.endpoint.set_path_present(now, session, PathId(place as u8), present);
        }
    }

    fn kill(&mut self, host: usize) {
        self.world.host_mut(host).driver = None;
        self.judge.on_restart(self.world.now(), host, false);
    }

    /// Starts or kills the second daemon with the drone's key.
    fn set_twin(&mut self, lives: bool) {
        let now = self.world.host_now(TWIN);
        let one = lives.then(|| driver(self.plan, &self.addresses, TWIN, 0, now));
        self.world.host_mut(TWIN).driver = one;
    }

    fn start(&mut self, host: usize) {
        let now = self.world.host_now(host);
        self.lives[host] += 1;
        let mut driver = driver(self.plan, &self.addresses, host, self.lives[host], now);
        let so_far = self.plan.uses.iter().filter(|said| said.at <= self.world.now());
        so_far.filter(|_| host == DRONE).for_each(|said| say(self.plan, said, &mut driver, now));
        self.world.host_mut(host).driver = Some(driver);
        self.judge.on_restart(self.world.now(), host, true);
    }
}

fn driver(
    plan: &Plan,
    addresses: &[Vec<Ipv4Addr>],
    host: usize,
    life: u32,
    now: Instant,
) -> Driver {
    let identity = Identity { seed: plan.seed, psk: plan.psk, life, member: 0 };
    let station = &addresses[STATION];
    if host == STATION {
        let config = plan.sessions[STATION].clone();
        return Driver::station(identity, config, station, now);
    }
    // The twin's link is the station's last one. Its randomness is nobody else's.
    let (identity, theirs) = match host {
        TWIN => (Identity { life: TWINS_LIFE, ..identity }, &station[plan.links.len()..]),
        _ => (identity, &station[..plan.links.len()]),
    };
    let config = plan.sessions[DRONE].clone();
    Driver::drone(identity, config, &addresses[host], theirs, now)
}

/// Tells the drone what is said of a link.
fn say(plan: &Plan, said: &Use, driver: &mut Driver, now: Instant) {
    if let (Some(place), Some(session)) = (plan.place(said.link), driver.session) {
        // The drone's paths are numbered as its interfaces are.
        driver.endpoint.set_path_use(now, session, PathId(place as u8), said.usage);
    }
}

/// Makes the attackers before a host; those that are there from the beginning see the first
/// datagram.
fn attackers(plan: &Plan, host: usize, start: Instant) -> Vec<Attacker> {
    let identity = Identity { seed: plan.seed, ..Identity::default() };
    let keys = ["drone", "station"].map(|name| identity.public(name));
    let forgers = keys.map(|key| Forger::new(&keys[STATION], &key));
    let attacker = |(index, (number, fault)): (usize, &(usize, Fault))| {
        let FaultKind::Attack(attack) = fault.kind else { return None };
        let place = plan.place(fault.link?)?;
        let rng = Rng::stream(plan.seed, &format!("attacker {number}"));
        (fault.host == Some(host)).then(|| {
            let mut attacker = Attacker::new(attack, index, place, forgers, rng);
            attacker.set_at_work(start, fault.span.0 == Instant::ZERO);
            attacker
        })
    };
    plan.faults.iter().enumerate().filter_map(attacker).collect()
}
