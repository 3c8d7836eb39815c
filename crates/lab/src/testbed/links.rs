//! The emulated links of a run: a copy of the scenario's links for every scheme.
//!
//! One emulation carries all copies, so that there is one audit. Copy number n has the hosts
//! `stationN` and `droneN` and the links of the scenario with the number behind their names; where
//! relays are between them, these and their radios too.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use netem::{HostModel, LinkModel, LinkPair, LinkStats, MediumModel, Radio, Scenario};
use units::{Duration, Instant};

use super::Direction;
use super::WireBytes;
use emulator::{Audit, Claim, Emulation, LinkReport, Options};

/// Which end of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    Station,
    Drone,
}

impl Side {
    /// Both sides, in the order of the directions that they send in.
    pub(crate) const BOTH: [Self; 2] = [Self::Station, Self::Drone];

    /// Returns the name in scenarios.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Station => "station",
            Self::Drone => "drone",
        }
    }

    /// Returns the direction that the side sends in.
    pub(crate) const fn sends(self) -> Direction {
        match self {
            Self::Station => Direction::Up,
            Self::Drone => Direction::Down,
        }
    }

    /// Returns the other side.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Station => Self::Drone,
            Self::Drone => Self::Station,
        }
    }
}

/// Emulated links in real time, in several copies.
pub(crate) struct Testbed {
    emulation: Emulation,
    /// What the links of each copy are called in its scenario.
    links: Vec<Vec<String>>,
    /// The price of a byte on each link, where they differ.
    costs: Vec<f64>,
    /// Where daemons keep their flight records, where they keep any.
    records: Option<PathBuf>,
}

impl Testbed {
    /// Starts `copies` copies of the scenario's links between its hosts `station` and `drone`.
    pub(crate) fn start(
        scenario: &Scenario,
        copies: usize,
        seed: u64,
        resolution: Duration,
    ) -> Result<Self, String> {
        Self::start_each(&vec![scenario.clone(); copies], seed, Claim::to(resolution))
    }

    /// Starts links that differ from copy to copy in all but their names: a scenario for each.
    pub(crate) fn start_each(
        scenarios: &[Scenario],
        seed: u64,
        claim: Claim,
    ) -> Result<Self, String> {
        Self::start_with(scenarios, seed, &Options { claim, ..Options::default() })
    }

    /// Starts plain cables in place of links: nothing is emulated, and nothing limits them.
    pub(crate) fn start_cables(scenarios: &[Scenario], claim: Claim) -> Result<Self, String> {
        Self::start_with(scenarios, 0, &Options { claim, cables: true, ..Options::default() })
    }

    /// Starts links that differ from copy to copy, as the options say.
    pub(crate) fn start_with(
        scenarios: &[Scenario],
        seed: u64,
        options: &Options,
    ) -> Result<Self, String> {
        let combined = combined(scenarios)?;
        let emulation =
            Emulation::start(&combined, seed, options).map_err(|error| error.to_string())?;
        let names =
            |scenario: &Scenario| scenario.links.iter().map(|pair| pair.name.clone()).collect();
        let links = scenarios.iter().map(names).collect();
        Ok(Self { emulation, links, costs: Vec::new(), records: None })
    }

    /// Says what a byte costs on each link; without this all cost the same.
    pub(crate) fn set_costs(&mut self, costs: &[f64]) {
        self.costs = costs.to_vec();
    }

    /// Says where daemons keep flight records; without this they keep none.
    ///
    /// # Errors
    /// When nobody knows which folder this is.
    pub(crate) fn set_records(&mut self, records: Option<&Path>) -> Result<(), String> {
        let absolute = records.map(std::path::absolute).transpose();
        self.records = absolute.map_err(|error| format!("--record: {error}"))?;
        Ok(())
    }

    /// Starts anew with idle links and a fresh audit; returns when the scenario's time is zero,
    /// `lead` from now. Until then the links are calm.
    pub(crate) fn begin(&mut self, lead: Duration) -> Instant {
        self.emulation.begin(lead)
    }

    /// Returns one copy of the links.
    pub(crate) fn copy(&self, number: usize) -> Copy<'_> {
        Copy { testbed: self, number }
    }

    /// Returns the bytes that entered the links of a copy in both directions, IP headers included.
    pub(crate) fn wire_bytes(&self, copy: usize) -> u64 {
        let reports = self.emulation.links();
        let of_copy = |report: &&LinkReport| {
            self.links[copy].iter().any(|link| report.link == numbered(link, copy))
        };
        reports.iter().filter(of_copy).map(|report| report.bytes_in).sum()
    }

    /// Returns what each direction of a copy handed to its links, in the order of
    /// [`Direction::BOTH`].
    pub(crate) fn wire(&self, copy: usize) -> [WireBytes; 2] {
        Side::BOTH.map(|side| {
            let mut wire = WireBytes::default();
            self.sent_by(side, copy).iter().for_each(|stats| wire.add(stats));
            wire
        })
    }

    /// Returns the bytes that entered each link of a copy, both directions.
    pub(crate) fn entered(&self, copy: usize) -> Vec<u64> {
        let [up, down] = Side::BOTH.map(|side| self.sent_by(side, copy));
        let entered = |stats: &LinkStats| stats.bytes_in - stats.queue_dropped_bytes;
        up.iter().zip(&down).map(|(up, down)| entered(up) + entered(down)).collect()
    }

    /// Returns what a side of a copy put on its links, in their order.
    pub(crate) fn sent_by(&self, side: Side, copy: usize) -> Vec<LinkStats> {
        let to = numbered(side.other().name(), copy);
        let from_side = self.emulation.links().into_iter().filter(|report| report.to == to);
        from_side.map(|report| report.stats).collect()
    }

    /// Ends the emulation and returns its audit.
    pub(crate) fn finish(self) -> Audit {
        self.emulation.finish().0
    }
}

/// One copy of the scenario's links with its two hosts.
#[derive(Clone, core::marker::Copy)]
pub(crate) struct Copy<'a> {
    testbed: &'a Testbed,
    number: usize,
}

impl<'a> Copy<'a> {
    /// Returns the name of a side's host.
    pub(crate) fn host(&self, side: Side) -> String {
        self.named(side.name())
    }

    /// Returns what a host or a network of the scenario is called here.
    pub(crate) fn named(&self, name: &str) -> String {
        numbered(name, self.number)
    }

    /// Returns the emulation, to start programs in.
    pub(crate) fn emulation(&self) -> &'a Emulation {
        &self.testbed.emulation
    }

    /// Returns the number of links.
    pub(crate) fn link_count(&self) -> usize {
        self.testbed.links[self.number].len()
    }

    /// Returns what a byte costs on a link; none where that is nothing to speak of.
    pub(crate) fn cost(&self, link: usize) -> Option<f64> {
        self.testbed.costs.get(link).copied().filter(|cost| *cost != 1.0)
    }

    /// Returns what a link is called in the scenario.
    pub(crate) fn link(&self, link: usize) -> &'a str {
        &self.testbed.links[self.number][link]
    }

    /// Returns where daemons keep flight records, where they keep any.
    pub(crate) fn records(&self) -> Option<&'a Path> {
        self.testbed.records.as_deref()
    }

    /// Returns the interface name of a link at both hosts.
    pub(crate) fn interface(&self, link: usize) -> String {
        self.named(self.link(link))
    }

    /// Returns a side's address on a link.
    pub(crate) fn address(&self, side: Side, link: usize) -> Result<Ipv4Addr, String> {
        let (host, interface) = (self.host(side), self.interface(link));
        let address = self.testbed.emulation.address(&host, &interface);
        address.ok_or_else(|| format!("{host} is not on link {interface}"))
    }

    /// Runs `work` inside a side's host and passes its error on with the host's name.
    pub(crate) fn enter<T: Send>(
        &self,
        side: Side,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, String> {
        let host = self.host(side);
        let result = self.testbed.emulation.enter(&host, work).and_then(|result| result);
        result.map_err(|error| format!("{host}: {error}"))
    }
}

/// Returns a name with the number of its copy.
fn numbered(name: &str, copy: usize) -> String {
    format!("{name}{copy}")
}

/// Gathers hosts, links and radios, numbered; each scenario needs a station and a drone.
fn combined(scenarios: &[Scenario]) -> Result<Scenario, String> {
    let mut all = scenarios.first().cloned().ok_or("a testbed needs a scenario")?;
    all.hosts.clear();
    all.links.clear();
    all.radios.clear();
    all.media.clear();
    for (copy, scenario) in scenarios.iter().enumerate() {
        let ends = ["station", "drone"].map(|name| scenario.host(name));
        let [Some(_), Some(_)] = ends else {
            return Err(format!(
                "scenario {}: needs hosts called station and drone",
                scenario.name
            ));
        };
        let first = all.hosts.len();
        let named =
            |host: &HostModel| HostModel { name: numbered(&host.name, copy), ..host.clone() };
        all.hosts.extend(scenario.hosts.iter().map(named));
        // Copies do not hear each other: each has its own air.
        let own_air = |link: &LinkModel| LinkModel {
            medium: link.medium.as_ref().map(|medium| numbered(medium, copy)),
            ..link.clone()
        };
        let medium = |medium: &MediumModel| MediumModel {
            name: numbered(&medium.name, copy),
            ..medium.clone()
        };
        all.media.extend(scenario.media.iter().map(medium));
        let moved = |pair: &LinkPair| LinkPair {
            name: numbered(&pair.name, copy),
            a: pair.a + first,
            b: pair.b + first,
            up: own_air(&pair.up),
            down: own_air(&pair.down),
        };
        all.links.extend(scenario.links.iter().map(moved));
        let apart = |radio: &Radio| Radio {
            name: numbered(&radio.name, copy),
            hosts: radio.hosts.iter().map(|host| host + first).collect(),
            model: own_air(&radio.model),
            matrix: radio.matrix.clone(),
        };
        all.radios.extend(scenario.radios.iter().map(apart));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use sys::sandbox::skip;

    use super::*;
    use crate::experiment::streams::blackout::Blackout;

    #[test]
    fn copies_have_links_and_hosts_of_their_own() {
        let scenario = Blackout::new().expect("the scenario is sound").scenario;
        let all = combined(&vec![scenario.clone(); 3]).expect("both hosts are there");
        assert_eq!((all.hosts.len(), all.links.len()), (6, 6));
        assert_eq!(all.links[4].name, "wifi2");
        assert_eq!(all.hosts[all.links[4].a].name, numbered(&scenario.hosts[0].name, 2));
        assert_eq!(all.links[4].up, scenario.links[0].up);
    }

    #[test]
    fn copies_may_differ_and_have_radios_of_their_own() {
        let text = "[[radio]]\nname = \"ground\"\nhosts = [\"station\", \"g1\", \"drone\"]\n";
        let relayed = Scenario::from_toml(text, "relayed").expect("a sound scenario");
        let blackout = Blackout::new().expect("the scenario is sound").scenario;
        let all = combined(&[blackout, relayed.clone(), relayed]).expect("both hosts are there");
        assert_eq!((all.hosts.len(), all.links.len(), all.radios.len()), (8, 2, 2));
        assert_eq!(all.radios[1].name, "ground2");
        let names: Vec<_> = all.radios[1].hosts.iter().map(|host| &all.hosts[*host].name).collect();
        assert_eq!(names, ["station2", "g12", "drone2"]);
    }

    #[test]
    fn copies_do_not_share_their_air() {
        let mut scenario = Blackout::new().expect("the scenario is sound").scenario;
        let name = || "radio".to_owned();
        scenario.media.push(MediumModel { name: name(), ..MediumModel::default() });
        let LinkPair { up, down, .. } = &mut scenario.links[1];
        (up.medium, down.medium) = (Some(name()), Some(name()));
        let all = combined(&vec![scenario; 2]).expect("both hosts are there");
        let media: Vec<&str> = all.media.iter().map(|medium| medium.name.as_str()).collect();
        assert_eq!(media, ["radio0", "radio1"]);
        assert_eq!(all.links[3].up.medium, Some("radio1".to_owned()));
        assert_eq!(all.links[3].down.medium, all.links[3].up.medium);
    }

    #[test]
    fn cables_lead_from_host_to_host_past_the_emulator() {
        let scenario = Blackout::new().expect("the scenario is sound").scenario;
        let testbed = match Testbed::start_cables(&[scenario], Claim::default()) {
            Ok(testbed) => testbed,
            Err(error) => return skip("cables_lead_from_host_to_host_past_the_emulator", &error),
        };
        let copy = testbed.copy(0);
        for link in 0..copy.link_count() {
            let [station, drone] = Side::BOTH.map(|side| {
                let address = copy.address(side, link).expect("both are on every link");
                copy.enter(side, || UdpSocket::bind((address, 7_000))).expect("a free port")
            });
            let patience = Some(std::time::Duration::from_secs(5));
            station.set_read_timeout(patience).expect("a sound time");
            drone.send_to(b"direct", station.local_addr().expect("bound")).expect("sent");
            let mut bytes = [0; 16];
            assert_eq!(station.recv(&mut bytes).expect("it arrives"), 6);
        }
        assert_eq!(testbed.wire_bytes(0), 0, "nobody counts");
    }
}
