//! A scenario: the hosts, their clocks, and the links between them, as plain data.
//!
//! `parse.rs` reads it from TOML; a test can just as well write it in Rust. The addresses of the
//! hosts follow from the order of the links, so that world and emulator agree on them.

mod fields;
mod keys;
mod parse;
mod radio;
mod write;

pub use radio::{RADIO_HOSTS_MAX, Radio, RadioMatrix};
pub use toml_keys::FileError as ScenarioError;
use toml_keys::{Change, Section};

use crate::clock::ClockModel;
use crate::link::{GilbertElliott, LinkModel, Outage};
use crate::medium::MediumModel;
use crate::net::LinkEnd;
use std::net::Ipv4Addr;

/// The most links of a scenario: each has a /24 network of its own in 10.77.0.0/16.
pub const MAX_LINKS: usize = 256;

/// The most hosts of a scenario: as many as a /24 network has addresses.
pub const MAX_HOSTS: usize = 254;

/// The words for whether kernels look for their neighbours.
const NEIGHBOURS: [(&str, bool); 2] = [("known", false), ("resolve", true)];

/// Hosts, clocks and links: everything that world and emulator need to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What logs and figures call it.
    pub name: String,
    /// How long a run lasts.
    pub seconds: f64,
    /// The seed of a run that is given no other.
    pub seed: u64,
    /// Whether the emulated hosts' kernels look for their neighbours, as they do on a real network.
    pub resolve_neighbours: bool,
    /// The hosts.
    pub hosts: Vec<HostModel>,
    /// The links between two hosts each.
    pub links: Vec<LinkPair>,
    /// The links from one host to several; they are numbered after those between two.
    pub broadcasts: Vec<Broadcast>,
    /// The networks of hosts that hear each other; they are numbered after the broadcasts.
    pub radios: Vec<Radio>,
    /// The media on which links take turns.
    pub media: Vec<MediumModel>,
    /// The groups of links that fail together.
    pub groups: Vec<GroupModel>,
}

/// One emulated host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostModel {
    /// What logs, figures and network namespaces call it.
    pub name: String,
    /// Its clock against virtual time.
    pub clock: ClockModel,
}

/// A link between two hosts with its two directions.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPair {
    /// What logs, figures and interfaces call it.
    pub name: String,
    /// The place of the first host in [`Scenario::hosts`].
    pub a: usize,
    /// The place of the second host in [`Scenario::hosts`].
    pub b: usize,
    /// From `a` to `b`.
    pub up: LinkModel,
    /// From `b` to `a`.
    pub down: LinkModel,
}

impl LinkPair {
    /// Returns the direction of what a host sends, by its place in [`Scenario::hosts`].
    ///
    /// # Panics
    /// When the host is at neither end.
    pub fn sent_by(&self, host: usize) -> (Direction, &LinkModel) {
        assert!(host == self.a || host == self.b, "host {host} is not on link {}", self.name);
        if host == self.a { (Direction::Up, &self.up) } else { (Direction::Down, &self.down) }
    }
}

/// A link from one host to several, which all hear the same transmission.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// What logs, figures and interfaces call it.
    pub name: String,
    /// The place of the sending host in [`Scenario::hosts`].
    pub from: usize,
    /// What they have in common: rate, queue, medium and the outages that hold.
    pub sender: LinkModel,
    /// The receivers.
    pub receivers: Vec<Receiver>,
}

/// One receiver of a [`Broadcast`].
#[derive(Clone, Debug, PartialEq)]
pub struct Receiver {
    /// Its place in [`Scenario::hosts`].
    pub host: usize,
    /// What happens on the way to it: delay, loss and the outages that drop. Whatever in it belongs
    /// to the transmitter is ignored.
    pub model: LinkModel,
}

/// Links that fail together: all links that name the group have these outages, and lose packets at
/// the same times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupModel {
    /// What links call it.
    pub name: String,
    /// A channel that changes over time and whose state is the same for all links of the group;
    /// which packets a state loses is each link's own luck.
    pub burst: Option<GilbertElliott>,
    /// When none of the links works.
    pub outages: Vec<Outage>,
}

/// The direction in which a packet travels over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the host that the scenario names first.
    Up,
    /// To the host that the scenario names first.
    Down,
    /// From one of the hosts of a radio, by its place among them.
    Member(u8),
}

impl Direction {
    /// Both directions of a link between two hosts.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Returns the word that older scenario files used; it still names the random processes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Member(_) => "member",
        }
    }
}

/// A host's end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The link's place in [`Scenario::links`], or behind them in [`Scenario::broadcasts`], or
    /// behind these in [`Scenario::radios`].
    pub link: usize,
    /// The direction of what the host sends on it.
    pub sends: Direction,
    /// The host's address on it; the network is a /24.
    pub address: Ipv4Addr,
}

impl Scenario {
    /// Makes a scenario without links that lasts `seconds`, for code that writes one down.
    pub fn new(name: &str, seconds: f64) -> Self {
        Self {
            name: name.to_owned(),
            seconds,
            seed: 1,
            resolve_neighbours: false,
            hosts: Vec::new(),
            links: Vec::new(),
            broadcasts: Vec::new(),
            radios: Vec::new(),
            media: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Adds a link with the same model in both directions, and its hosts where they are new.
    pub fn link(mut self, name: &str, a: &str, b: &str, model: &LinkModel) -> Self {
        let (a, b) = (self.host_or_new(a), self.host_or_new(b));
        let (up, down) = (model.clone(), model.clone());
        self.links.push(LinkPair { name: name.to_owned(), a, b, up, down });
        self
    }

    /// Reads a scenario that refers to no trace files; `file` is its name for error messages.
    ///
    /// # Errors
    /// Everything that is wrong with the text, with file, line and key.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let mut no_files = |path: &str| Err(format!("no way to read {path} was given"));
        Self::from_toml_with(text, file, &mut no_files)
    }

    /// Reads a scenario; `read` returns the text of the trace file at a path, or what went wrong.
    /// It is given the path as the scenario writes it: relative to the scenario's own directory.
    ///
    /// # Errors
    /// Everything that is wrong with the text or with trace files, with file, line and key.
    pub fn from_toml_with(
        text: &str,
        file: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, ScenarioError> {
        Self::from_toml_changed(text, file, &[], read)
    }

    /// Reads a scenario as if the values of `changes` stood in it.
    ///
    /// # Errors
    /// As of [`Scenario::from_toml_with`]; and changes of what the scenario has not.
    pub fn from_toml_changed(
        text: &str,
        file: &str,
        changes: &[Change],
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Self, ScenarioError> {
        parse::scenario(text, file, changes, read)
    }

    /// Reads the hosts and links of a file that has keys of another reader beside them; what is
    /// wrong is reported to the section.
    pub fn from_section(
        root: &Section<'_>,
        name: &str,
        seconds: f64,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Self {
        let mut scenario = Self::new(name, seconds);
        parse::network(root, &mut scenario, read);
        scenario
    }

    /// Returns the scenario as TOML that reads back as the same scenario, for the record of a run.
    pub fn to_toml(&self) -> String {
        write::scenario(self)
    }

    /// Returns the place of the host called `name` in [`Scenario::hosts`].
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// Returns the interfaces of a host, in the order of the links.
    ///
    /// Link number n has the network 10.77.n.0/24; its first host is number 1 in it, its second
    /// host number 2. The receivers of a broadcast are numbers 2, 3 and so on; they receive only.
    /// The hosts of a radio are numbers 1, 2 and so on.
    pub fn interfaces(&self, host: usize) -> Vec<Interface> {
        let mut interfaces = Vec::new();
        for (link, pair) in self.links.iter().enumerate() {
            if pair.a == host {
                interfaces.push(Interface { link, sends: Direction::Up, address: number(link, 1) });
            }
            if pair.b == host {
                let address = number(link, 2);
                interfaces.push(Interface { link, sends: Direction::Down, address });
            }
        }
        for (index, broadcast) in self.broadcasts.iter().enumerate() {
            let link = self.links.len() + index;
            if broadcast.from == host {
                interfaces.push(Interface { link, sends: Direction::Up, address: number(link, 1) });
            }
            if let Some(place) = broadcast.receivers.iter().position(|one| one.host == host) {
                // There are at most as many receivers as a network has addresses.
                let address = number(link, 2 + place as u8);
                interfaces.push(Interface { link, sends: Direction::Down, address });
            }
        }
        for (index, radio) in self.radios.iter().enumerate() {
            let link = self.links.len() + self.broadcasts.len() + index;
            if let Some(place) = radio.hosts.iter().position(|&one| one == host) {
                let (sends, address) =
                    (Direction::Member(place as u8), number(link, 1 + place as u8));
                interfaces.push(Interface { link, sends, address });
            }
        }
        interfaces
    }

    /// Returns how many links, broadcasts and radios there are.
    pub fn link_count(&self) -> usize {
        self.links.len() + self.broadcasts.len() + self.radios.len()
    }

    /// Returns the name of the host whose packets enter a link at this end.
    ///
    /// # Panics
    /// When the scenario has no such end.
    pub fn sender(&self, entry: LinkEnd) -> &str {
        let pair = self.links.get(entry.link);
        let behind = entry.link.saturating_sub(self.links.len());
        let host = match (pair, entry.direction) {
            (Some(pair), Direction::Down) => pair.b,
            (Some(pair), _) => pair.a,
            (None, Direction::Member(place)) => {
                self.radios[behind - self.broadcasts.len()].hosts[usize::from(place)]
            }
            (None, _) => self.broadcasts[behind].from,
        };
        &self.hosts[host].name
    }

    /// Returns the name of a link, broadcast or radio by its number.
    pub fn link_name(&self, link: usize) -> Option<&str> {
        let pairs = self.links.iter().map(|pair| &pair.name);
        let broadcasts = self.broadcasts.iter().map(|broadcast| &broadcast.name);
        let radios = self.radios.iter().map(|radio| &radio.name);
        pairs.chain(broadcasts).chain(radios).nth(link).map(String::as_str)
    }

    fn host_or_new(&mut self, name: &str) -> usize {
        self.host(name).unwrap_or_else(|| {
            self.hosts.push(HostModel { name: name.to_owned(), ..HostModel::default() });
            self.hosts.len() - 1
        })
    }
}

fn number(link: usize, host: u8) -> Ipv4Addr {
    assert!(link < MAX_LINKS, "a scenario has at most {MAX_LINKS} links");
    Ipv4Addr::new(10, 77, link as u8, host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_order_of_the_links() {
        let model = LinkModel::default();
        let scenario = Scenario::new("s", 1.0)
            .link("wifi", "drone", "station", &model)
            .link("lte", "station", "drone", &model);
        let station = scenario.interfaces(1);
        assert_eq!(station[0].address, Ipv4Addr::new(10, 77, 0, 2));
        assert_eq!(station[0].sends, Direction::Down);
        assert_eq!(station[1].address, Ipv4Addr::new(10, 77, 1, 1));
        assert_eq!(station[1].sends, Direction::Up);
    }
}
