//! The network of an emulation: a namespace for each host, one for the emulator, and between them a
//! virtual cable for each end of each link.
//!
//! Nothing moves here. The engine, in the emulator's namespace, carries frames from cable to cable;
//! programs under test run in the hosts' namespaces.
//!
//! ```text
//! host a: wifi ═══ e0-1   engine   e0-2 ═══ wifi :host b
//!         lte  ═══ e1-1            e1-2 ═══ lte
//! ```
//! A host between others forwards, and `routes` says by which neighbour each link is reached. Where
//! nothing is to be emulated, a link is one cable from host to host.

use std::io;
use std::net::Ipv4Addr;
use std::thread;

use netem::{Direction, LinkEnd, Scenario};
use sys::clock::now;
use sys::interface_setup::{self, MacAddress, VethEnd};
use sys::interfaces;
use sys::netns::{Namespace, set_parameter};

use crate::routes;
use units::Duration;

/// How long an interface may take to come up; the kernel checks at least once a second.
const RUNNING_PATIENCE: Duration = Duration::from_secs(10);
/// Prefix length of a link's network.
const PREFIX: u8 = 24;

/// An emulated host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    /// What its programs' clocks show beyond the machine's, in nanoseconds.
    pub(crate) clock_offset_ns: i64,
}

/// The emulator's end of a host's cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The number of the interface in the emulator's namespace.
    pub(crate) interface: u32,
    /// The link's place in the scenario.
    pub(crate) link: usize,
    /// The host's place in the scenario.
    pub(crate) host: usize,
    /// The direction of what the host sends on it.
    pub(crate) sends: Direction,
}

impl Port {
    /// Returns where the host's packets enter the link.
    pub(crate) fn entry(&self) -> LinkEnd {
        LinkEnd { link: self.link, direction: self.sends }
    }
}

/// Everything that `build` made; it vanishes when this is dropped and the programs in it have
/// ended.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) hosts: Vec<Host>,
    pub(crate) emulator: Namespace,
    pub(crate) ports: Vec<Port>,
}

/// Makes the namespaces and cables of `scenario`; links carry IP packets of up to `mtu` bytes.
/// `direct` cables go from host to host, past the emulator.
pub(crate) fn build(scenario: &Scenario, mtu: u32, direct: bool) -> io::Result<Network> {
    let emulator = Namespace::create()?;
    // The emulator is a cable: it must not speak for itself.
    emulator.run(|| set_ipv6("default/disable_ipv6", "1"))??;
    let mut hosts = Vec::new();
    for host in &scenario.hosts {
        let namespace = Namespace::create()?;
        namespace.run(prepare_host)??;
        let (name, clock_offset_ns) = (host.name.clone(), host.clock.offset_ns);
        hosts.push(Host { name, namespace, clock_offset_ns });
    }
    let mut ports = Vec::new();
    if direct {
        for (link, pair) in scenario.links.iter().enumerate() {
            lay_directly(scenario, mtu, link, [pair.a, pair.b].map(|end| (end, &hosts[end])))?;
        }
    }
    for (index, host) in hosts.iter().enumerate().filter(|_| !direct) {
        for interface in scenario.interfaces(index) {
            let (link, sends) = (interface.link, interface.sends);
            let name = scenario.link_name(link).expect("the scenario names its own links");
            let cable = Cable { scenario, mtu, emulator: &emulator, link, name };
            let number = cable.lay(host, interface.address)?;
            ports.push(Port { interface: number, link, host: index, sends });
        }
    }
    for (index, host) in hosts.iter().enumerate() {
        host.namespace.run(|| {
            await_running(&host.name)?;
            connect(scenario, index)
        })??;
    }
    Ok(Network { hosts, emulator, ports })
}

/// Waits until all interfaces of a host are running: programs in it may rely on that.
fn await_running(host: &str) -> io::Result<()> {
    let start = now();
    loop {
        let interfaces = interfaces::list()?;
        let Some(idle) = interfaces.iter().find(|interface| !interface.running) else {
            return Ok(());
        };
        if now().since(start) > RUNNING_PATIENCE {
            let message = format!("{host}: its interface {} does not come up", idle.name);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(Duration::from_millis(1).into());
    }
}

/// Makes a host forward where it lies between others, and gives it its routes.
fn connect(scenario: &Scenario, host: usize) -> io::Result<()> {
    if routes::forwards(scenario, host) {
        set_parameter("net/ipv4/ip_forward", "1")?;
    }
    for route in routes::routes(scenario, host) {
        let interface = scenario.link_name(route.over).expect("the scenario names its own links");
        interface_setup::add_gateway_route(interface, route.network, PREFIX, route.gateway)?;
    }
    Ok(())
}

/// Connects two hosts by a cable as the kernel makes it, offloads included.
fn lay_directly(
    scenario: &Scenario,
    mtu: u32,
    link: usize,
    ends: [(usize, &Host); 2],
) -> io::Result<()> {
    let name = scenario.link_name(link).expect("the scenario names its own links");
    let address = |host: usize| {
        let interfaces = scenario.interfaces(host);
        let own = interfaces.iter().find(|interface| interface.link == link);
        own.expect("a link's host has an interface on it").address
    };
    let addresses = ends.map(|(place, _)| address(place));
    let [one, other] = [0, 1].map(|end| {
        let [.., number] = addresses[end].octets();
        VethEnd { name, mac: mac(link, number, 0), namespace: &ends[end].1.namespace }
    });
    interface_setup::create_veth(&one, &other, mtu)?;
    for ((_, host), address) in ends.into_iter().zip(addresses) {
        host.namespace.run(|| {
            interface_setup::add_address(name, address, PREFIX)?;
            interface_setup::set_up(name)
        })??;
    }
    Ok(())
}

fn prepare_host() -> io::Result<()> {
    interface_setup::set_up("lo")?;
    // Answers may leave by another link than the question came in on.
    set_parameter("net/ipv4/conf/all/rp_filter", "0")?;
    set_parameter("net/ipv4/conf/default/rp_filter", "0")?;
    // Link-local addresses are usable at once, and nobody is asked for routers.
    set_ipv6("default/accept_dad", "0")?;
    set_ipv6("default/router_solicitations", "0")
}

/// Sets an IPv6 parameter where the kernel has IPv6 at all.
fn set_ipv6(name: &str, value: &str) -> io::Result<()> {
    match set_parameter(&format!("net/ipv6/conf/{name}"), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

struct Cable<'a> {
    scenario: &'a Scenario,
    mtu: u32,
    emulator: &'a Namespace,
    link: usize,
    name: &'a str,
}

impl Cable<'_> {
    /// Connects `host` to the emulator; returns the number of the interface at the emulator's end.
    fn lay(&self, host: &Host, address: Ipv4Addr) -> io::Result<u32> {
        let name = self.name;
        let [.., own] = address.octets();
        let far_name = format!("e{}-{own}", self.link);
        let near = VethEnd { name, mac: mac(self.link, own, 0), namespace: &host.namespace };
        let far =
            VethEnd { name: &far_name, mac: mac(self.link, own, 1), namespace: self.emulator };
        interface_setup::create_veth(&near, &far, self.mtu)?;
        let number = self.emulator.run(|| {
            interface_setup::disable_offloads(&far_name)?;
            interface_setup::set_up(&far_name)?;
            interface_setup::index(&far_name)
        })??;
        // The host's end last: it has a carrier at once then. The other way round the kernel would
        // find out later, on a busy machine too late for the first packets.
        host.namespace.run(|| {
            interface_setup::disable_offloads(name)?;
            interface_setup::add_address(name, address, PREFIX)?;
            interface_setup::set_up(name)?;
            self.add_neighbours(name, address)
        })??;
        Ok(number)
    }

    fn add_neighbours(&self, name: &str, own: Ipv4Addr) -> io::Result<()> {
        if self.scenario.resolve_neighbours {
            return Ok(());
        }
        for host in 0..self.scenario.hosts.len() {
            for interface in self.scenario.interfaces(host) {
                if interface.link == self.link && interface.address != own {
                    let [.., number] = interface.address.octets();
                    interface_setup::add_neighbour(
                        name,
                        interface.address,
                        mac(self.link, number, 0),
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the Ethernet address of host number `host` on a link (`end` 0) or of its counterpart at
/// the emulator (`end` 1): locally administered, the same in every run.
fn mac(link: usize, host: u8, end: u8) -> MacAddress {
    [0x02, 0x46, 0x4c, link as u8, end, host]
}
