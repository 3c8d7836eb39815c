//! All links of a scenario: finds the link that a packet enters and asks it for its verdict.
//!
//! What links share is joined here: the medium on which they take turns, the receivers of one
//! transmission, the channels and outages of a group. What one link does on its own is in `link/`.
//!
//! ```text
//! packet → way (sender, perhaps on a medium) → one air per receiver → one verdict per receiver
//! ```

use crate::link::{
    Air, Calendar, Channel, DropCause, LinkModel, LinkStats, Outage, Protocol, Region, Sender,
    StateChange, Verdict,
};
use crate::medium::Medium;
use crate::scenario::{Direction, Radio, Scenario};
use crate::verdict_log::VerdictRecord;
use core::ops::Range;
use smallvec::SmallVec;
use std::sync::Arc;
use units::{Duration, Instant, Rng};

/// Names the end at which a packet enters a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnd {
    /// The link's place in [`Scenario::links`], or behind them in [`Scenario::broadcasts`], or
    /// behind these in [`Scenario::radios`].
    pub link: usize,
    /// The direction in which the packet travels; [`Direction::Up`] for a broadcast,
    /// [`Direction::Member`] for a radio.
    pub direction: Direction,
}

/// What one receiver gets of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The receiving host's place in [`Scenario::hosts`].
    pub host: usize,
    /// How long the packet waits for the transmitter; zero where it is never transmitted.
    pub waited: Duration,
    /// What the link decided for it.
    pub verdict: Verdict,
}

/// The links of a scenario with their state.
#[derive(Clone, Debug)]
pub struct Net {
    host_names: Vec<String>,
    pairs: usize,
    broadcasts: usize,
    /// The way of the first host of each radio, and how many hosts it has.
    radios: Vec<(usize, usize)>,
    /// Up and down of each pair, then the broadcasts, then each host of each radio.
    ways: Vec<Way>,
    media: Vec<Medium>,
    packets: u64,
}

/// One transmitter and those that hear it.
#[derive(Clone, Debug)]
struct Way {
    name: String,
    /// Who sends.
    from: usize,
    sender: Sender,
    medium: Option<usize>,
    /// What does not get as far as the transmitter, …
    blocks: Vec<Protocol>,
    /// … and when; always where that is not said.
    blocks_during: Option<Range<Duration>>,
    /// The scenario's time zero, where it has begun.
    origin: Option<Instant>,
    ears: Vec<Ear>,
}

/// One that hears a transmitter.
#[derive(Clone, Debug)]
struct Ear {
    host: usize,
    air: Air,
    stats: LinkStats,
}

impl Way {
    /// Tells whether a protocol is kept from the transmitter.
    fn blocks(&self, protocol: Protocol, at: Instant) -> bool {
        let is_time = |span: &Range<Duration>| {
            self.origin.is_some_and(|zero| at >= zero && span.contains(&at.since(zero)))
        };
        self.blocks.contains(&protocol) && self.blocks_during.as_ref().is_none_or(is_time)
    }
}

impl Net {
    /// Makes the idle links of `scenario`, whose time zero is now; the same seed gives the same
    /// verdicts.
    ///
    /// # Panics
    /// As [`calm`](Self::calm) does.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut net = Self::calm(scenario, seed);
        net.begin(Instant::ZERO);
        net
    }

    /// Makes the idle links of `scenario` before its time zero, which [`begin`](Self::begin) sets.
    ///
    /// Until then there are no outages and no recorded losses. A link with a recorded rate has its
    /// mean, one with recorded delays has the first of them. Everything that does not change with
    /// time is in force, random loss included.
    ///
    /// # Panics
    /// When a link names a group or medium that the scenario does not have, when a link with a
    /// medium has neither a constant rate nor slots, or when a group's channel changes per packet.
    /// Scenarios read from TOML never do.
    pub fn calm(scenario: &Scenario, seed: u64) -> Self {
        let builder = Builder { scenario, seed, islands: islands(scenario) };
        let mut ways = Vec::new();
        for pair in &scenario.links {
            for (direction, from, to, model) in [
                (Direction::Up, pair.a, pair.b, &pair.up),
                (Direction::Down, pair.b, pair.a, &pair.down),
            ] {
                let label = format!("{}/{}", pair.name, direction.name());
                let ears = vec![builder.ear(to, model, model, &label)];
                ways.push(builder.way(&pair.name, from, model, ears));
            }
        }
        for broadcast in &scenario.broadcasts {
            let ear = |receiver: &crate::scenario::Receiver| {
                let host = &scenario.hosts[receiver.host].name;
                let label = format!("{}/{host}", broadcast.name);
                builder.ear(receiver.host, &broadcast.sender, &receiver.model, &label)
            };
            let ears = broadcast.receivers.iter().map(ear).collect();
            ways.push(builder.way(&broadcast.name, broadcast.from, &broadcast.sender, ears));
        }
        let mut radios = Vec::with_capacity(scenario.radios.len());
        for radio in &scenario.radios {
            radios.push((ways.len(), radio.hosts.len()));
            ways.extend(builder.members(radio));
        }
        Self {
            broadcasts: scenario.broadcasts.len(),
            radios,
            host_names: scenario.hosts.iter().map(|host| host.name.clone()).collect(),
            pairs: scenario.links.len(),
            ways,
            media: scenario.media.iter().map(Medium::new).collect(),
            packets: 0,
        }
    }

    /// Sets the scenario's time zero to `origin`: outages, rates, delays and losses that change
    /// with time count from there.
    pub fn begin(&mut self, origin: Instant) {
        for way in &mut self.ways {
            way.origin = Some(origin);
            way.sender.begin(origin);
            for ear in &mut way.ears {
                ear.air.begin(origin);
            }
        }
    }

    /// Decides the fate of a packet of `len` bytes (IP header included) that enters at `at`, for
    /// each host that may receive it. It is of no protocol that a link may block.
    ///
    /// Packets must come in the order of their entry. What enters a broadcast at a receiver's end
    /// reaches nobody.
    ///
    /// # Panics
    /// When the scenario has no such link.
    pub fn handle_packet(
        &mut self,
        at: Instant,
        entry: LinkEnd,
        len: usize,
    ) -> SmallVec<[Arrival; 1]> {
        self.handle_packet_of(None, at, entry, len)
    }

    /// Does the same for a packet of a protocol.
    ///
    /// # Panics
    /// When the scenario has no such link.
    pub fn handle_packet_of(
        &mut self,
        protocol: Option<Protocol>,
        at: Instant,
        entry: LinkEnd,
        len: usize,
    ) -> SmallVec<[Arrival; 1]> {
        self.packets += 1;
        let Some(index) = self.way(entry) else { return SmallVec::new() };
        let way = &mut self.ways[index];
        let medium = way.medium.map(|medium| &mut self.media[medium]);
        let is_blocked = protocol.is_some_and(|protocol| way.blocks(protocol, at));
        let admitted = match is_blocked {
            true => Err(DropCause::Blocked),
            false => way.sender.admit(at, len, medium),
        };
        let waited = admitted.map_or(Duration::ZERO, |transmission| transmission.start.since(at));
        let mut arrivals = SmallVec::with_capacity(way.ears.len());
        for ear in &mut way.ears {
            let verdict = match admitted {
                Ok(transmission) => ear.air.carry(&transmission, len),
                Err(cause) => Verdict::dropped(cause),
            };
            ear.stats.count(len, &verdict);
            way.sender.report(&mut ear.stats);
            arrivals.push(Arrival { host: ear.host, waited, verdict });
        }
        arrivals
    }

    /// Returns what one direction of a link has done so far; for a broadcast, what it has done for
    /// its first receiver.
    ///
    /// # Panics
    /// When the scenario has no such link.
    pub fn stats(&self, entry: LinkEnd) -> &LinkStats {
        match self.receivers(entry).next() {
            Some((_, stats)) => stats,
            None => panic!("nobody receives what enters at {entry:?}"),
        }
    }

    /// Returns each host that hears what enters at `entry`, with what the link has done for it.
    pub fn receivers(&self, entry: LinkEnd) -> impl Iterator<Item = (usize, &LinkStats)> {
        let way = self.way(entry).map(|index| &self.ways[index]);
        way.into_iter().flat_map(|way| way.ears.iter().map(|ear| (ear.host, &ear.stats)))
    }

    /// Describes a verdict just given, for the log.
    ///
    /// # Panics
    /// When the scenario has no such link or host.
    pub fn record<'a>(
        &'a self,
        at: Instant,
        entry: LinkEnd,
        len: usize,
        arrival: &'a Arrival,
    ) -> VerdictRecord<'a> {
        VerdictRecord {
            number: self.packets,
            at,
            link: self.way(entry).map_or("", |index| &self.ways[index].name),
            sender: self.way(entry).map_or("", |index| &self.host_names[self.ways[index].from]),
            receiver: &self.host_names[arrival.host],
            len,
            verdict: &arrival.verdict,
        }
    }

    fn way(&self, entry: LinkEnd) -> Option<usize> {
        let LinkEnd { link, direction } = entry;
        let others = self.pairs + self.broadcasts;
        assert!(link < others + self.radios.len(), "the scenario has no link number {link}");
        match direction {
            Direction::Up if link < others => Some(link + link.min(self.pairs)),
            Direction::Down if link < self.pairs => Some(2 * link + 1),
            Direction::Member(place) if link >= others => {
                let (first, hosts) = self.radios[link - others];
                (usize::from(place) < hosts).then_some(first + usize::from(place))
            }
            // The receivers of a broadcast do not send.
            _ => None,
        }
    }
}

/// Hosts that links join, directly or by way of others, and where small packets pass on their
/// clocked links.
struct Island {
    hosts: Vec<usize>,
    region: Arc<Region>,
}

/// Returns the islands of a scenario. In each of them small packets pass wherever one of its links
/// is connected, in either direction.
fn islands(scenario: &Scenario) -> Vec<Island> {
    let mut islands: Vec<Vec<usize>> = Vec::new();
    let pairs = scenario.links.iter().map(|pair| vec![pair.a, pair.b]);
    let broadcasts = scenario.broadcasts.iter().map(|broadcast| {
        let receivers = broadcast.receivers.iter().map(|receiver| receiver.host);
        receivers.chain([broadcast.from]).collect()
    });
    let radios = scenario.radios.iter().map(|radio| radio.hosts.clone());
    for mut joined in pairs.chain(broadcasts).chain(radios) {
        islands.retain(|other| {
            let apart = other.iter().all(|host| !joined.contains(host));
            if !apart {
                joined.extend(other);
            }
            apart
        });
        islands.push(joined);
    }
    let island = |hosts: Vec<usize>| {
        let region = Arc::new(region(scenario, &hosts));
        Island { hosts, region }
    };
    islands.into_iter().map(island).collect()
}

/// Returns where small packets pass on the clocked links of some hosts.
fn region(scenario: &Scenario, hosts: &[usize]) -> Region {
    // One way of each radio: a matrix brings all its pairs, and anything else is the same for all.
    let radios = scenario.radios.iter().filter(|radio| radio.hosts.len() > 1);
    let radios = radios.filter(|radio| hosts.contains(&radio.hosts[0]));
    let radios: Vec<(LinkModel, LinkModel)> =
        radios.map(|radio| (radio.sender(), radio.way(0, 1))).collect();
    let pairs = scenario.links.iter().filter(|pair| hosts.contains(&pair.a));
    let pairs = pairs.flat_map(|pair| [&pair.up, &pair.down]).map(|model| (model, model));
    let broadcasts = scenario.broadcasts.iter().filter(|broadcast| hosts.contains(&broadcast.from));
    let heard = broadcasts.flat_map(|broadcast| {
        broadcast.receivers.iter().map(|receiver| (&broadcast.sender, &receiver.model))
    });
    let all = pairs.chain(heard).chain(radios.iter().map(|(sender, way)| (sender, way)));
    let clocked = all.filter(|(sender, _)| sender.has_slot_clock());
    Region::of(clocked.filter_map(|(_, way)| way.loss.slots.as_ref()))
}

/// Makes ways out of models and of what the scenario's groups and media add to them.
struct Builder<'a> {
    scenario: &'a Scenario,
    seed: u64,
    islands: Vec<Island>,
}

impl Builder<'_> {
    fn way(&self, name: &str, from: usize, model: &LinkModel, ears: Vec<Ear>) -> Way {
        let holds = Calendar::of_holds(&self.outages(model));
        let medium = model.medium.as_ref().map(|medium| self.medium(medium, model));
        Way {
            name: name.to_owned(),
            from,
            sender: Sender::new(model, holds),
            medium,
            blocks: model.blocks.clone(),
            blocks_during: model.blocks_during.clone(),
            origin: None,
            ears,
        }
    }

    /// One way for each host of a radio, which all others hear.
    fn members(&self, radio: &Radio) -> Vec<Way> {
        let sender = radio.sender();
        let name = |place: usize| &self.scenario.hosts[radio.hosts[place]].name;
        let way = |from: usize| {
            let ear = |to: usize| {
                let label = format!("{}/{} to {}", radio.name, name(from), name(to));
                self.ear(radio.hosts[to], &sender, &radio.way(from, to), &label)
            };
            let others = (0..radio.hosts.len()).filter(|&to| to != from);
            self.way(&radio.name, radio.hosts[from], &sender, others.map(ear).collect())
        };
        (0..radio.hosts.len()).map(way).collect()
    }

    fn ear(&self, host: usize, sender: &LinkModel, model: &LinkModel, label: &str) -> Ear {
        let drops = Calendar::of_drops(&self.outages(model));
        let island = self.islands.iter().find(|island| island.hosts.contains(&host));
        let region = island.filter(|_| sender.has_slot_clock()).map(|island| &island.region);
        let air = Air::new(model, drops, self.shared(model, label), region, self.seed, label);
        Ear { host, air, stats: LinkStats::default() }
    }

    /// The outages of the link and of its groups.
    fn outages(&self, model: &LinkModel) -> Vec<Outage> {
        let groups = model.groups.iter().flat_map(|name| &self.group(name).outages);
        model.outages.iter().chain(groups).copied().collect()
    }

    /// The channels of the link's groups: with the state of the group and the luck of the link.
    fn shared(&self, model: &LinkModel, label: &str) -> Vec<Channel> {
        let channel = |name: &String| {
            let burst = self.group(name).burst.as_ref()?;
            let over_time = matches!(burst.change, StateChange::OverTime { .. });
            assert!(over_time, "group {name}: a shared channel changes over time");
            let state = Rng::stream(self.seed, &format!("group {name}"));
            let luck = Rng::stream(self.seed, &format!("{label}/group {name}"));
            Some(Channel::new(burst, state, luck))
        };
        model.groups.iter().filter_map(channel).collect()
    }

    fn group(&self, name: &str) -> &crate::scenario::GroupModel {
        match self.scenario.groups.iter().find(|group| group.name == name) {
            Some(group) => group,
            None => panic!("the scenario has no group {name}"),
        }
    }

    fn medium(&self, name: &str, model: &LinkModel) -> usize {
        assert!(model.takes_turns(), "a link on medium {name} needs a constant rate, or slots");
        match self.scenario.media.iter().position(|medium| medium.name == name) {
            Some(index) => index,
            None => panic!("the scenario has no medium {name}"),
        }
    }
}
