//! The network of the paper's experiments: operating UAVs, two relays, a station [ASRAN fig. 4].
//!
//! ```text
//! uav1 ── air1 ─┐
//! uav2 ── air2 ─┼─ relay1 ── hop ── relay2 ── ground ── station
//! uav3 ── air3 ─┘            ~~~ unstable
//! ```
//! Several copies share one emulation, so that repetitions run at the same time under one audit.

use netem::{Delay, Direction, LinkModel, LinkRate, Outage, QueueLimit, Scenario, UDP_IP_OVERHEAD};
use units::{Duration, Rate};

/// Bytes of the longest packet: Ethernet's.
pub(super) const LINK_MTU: usize = 1_500;
/// Delay of the links that are not the unstable hop, one way: Wi-Fi in sight.
const ACCESS_DELAY: Duration = Duration::from_millis(2);
/// Rate of those links, Mbit/s: more than the hop, which is the bottleneck.
const ACCESS_MBPS: f64 = 24.0;

/// Describes the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UavNetwork {
    /// Number of operating UAVs.
    pub(crate) senders: usize,
    /// From a UAV to the station and back, without queues.
    pub(crate) rtt: Duration,
    /// Rate of the unstable hop.
    pub(crate) hop_rate: Rate,
    /// Packets that may wait for the hop.
    pub(crate) queue_packets: u64,
}

impl UavNetwork {
    /// Adds a copy of the network, whose hop has `outages` in both directions, to a scenario.
    pub(crate) fn add_to(&self, scenario: Scenario, copy: usize, outages: &[Outage]) -> Scenario {
        let access = LinkModel {
            delay: Delay::Fixed(ACCESS_DELAY),
            rate: LinkRate::Constant(Rate::from_mbps(ACCESS_MBPS)),
            ..LinkModel::default()
        };
        let unstable = LinkModel {
            delay: Delay::Fixed((self.rtt / 2).saturating_sub(ACCESS_DELAY * 2)),
            rate: LinkRate::Constant(self.hop_rate),
            queue: QueueLimit { packets: Some(self.queue_packets), bytes: None },
            outages: outages.to_vec(),
            ..LinkModel::default()
        };
        let [relay1, relay2] = [1, 2].map(|number| format!("relay{number}-{copy}"));
        let mut scenario = scenario;
        for number in 0..self.senders {
            let (name, uav) = (format!("air{}-{copy}", number + 1), uav(copy, number));
            scenario = scenario.link(&name, &uav, &relay1, &access);
        }
        let scenario = scenario.link(&hop(copy), &relay1, &relay2, &unstable);
        scenario.link(&ground(copy), &relay2, &station(copy), &access)
    }

    /// Returns the hop as the only link, with the delay of the whole way, from one host to another
    /// of the world.
    ///
    /// There each packet is longer by what the world puts around it, and the hop faster by as much:
    /// a full packet takes as long.
    pub(super) fn hop_alone(&self, from: &str, to: &str, outages: &[Outage]) -> Scenario {
        let longer = (LINK_MTU + UDP_IP_OVERHEAD) as f64 / LINK_MTU as f64;
        let hop = LinkModel {
            delay: Delay::Fixed(self.rtt / 2),
            rate: LinkRate::Constant(self.hop_rate.mul_f64(longer)),
            queue: QueueLimit { packets: Some(self.queue_packets), bytes: None },
            outages: outages.to_vec(),
            ..LinkModel::default()
        };
        Scenario::new("hop", 1.0).link("hop", from, to, &hop)
    }

    /// Returns the way from the first UAV of the first copy to its station.
    pub(crate) fn way(&self) -> Vec<(usize, Direction)> {
        [0, self.senders, self.senders + 1].map(|link| (link, Direction::Up)).to_vec()
    }
}

/// Returns the name of an operating UAV, counted from 0, of a copy.
pub(crate) fn uav(copy: usize, number: usize) -> String {
    format!("uav{}-{copy}", number + 1)
}

/// Returns the name of a copy's station.
pub(crate) fn station(copy: usize) -> String {
    format!("station-{copy}")
}

/// Returns the name of a copy's unstable link.
pub(crate) fn hop(copy: usize) -> String {
    format!("hop-{copy}")
}

/// Returns the name of the link that a copy's station is on.
pub(crate) fn ground(copy: usize) -> String {
    format!("ground-{copy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tcp_instability::offered::{OfferedCdf, offered_in_the_world};
    use crate::experiment::tcp_instability::outages::{Instability, Target};

    #[test]
    fn the_offered_flow_sees_the_fitted_hop_through_the_whole_network() {
        let network = UavNetwork {
            senders: 2,
            rtt: Duration::from_millis(150),
            hop_rate: Rate::from_mbps(12.0),
            queue_packets: 200,
        };
        let target = Target { zero: 0.19, full: 0.45 };
        let hop = Instability::fit(target, 2.0, 0.04, false).expect("possible");
        let scenario = Scenario::new("uavs", 600.0);
        let scenario = network.add_to(scenario, 0, &hop.outages(3, 0.0, 600.0));
        let names: Vec<&str> = scenario.links.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["air1-0", "air2-0", "hop-0", "ground-0"]);
        let cdf = OfferedCdf::of(&offered_in_the_world(&scenario, &network.way(), 1, 600));
        assert!((cdf.zero_share - 0.19).abs() < 0.015, "{cdf:?}");
        assert!((cdf.full_share - 0.45).abs() < 0.03, "{cdf:?}");
        let read_back = Scenario::from_toml(&scenario.to_toml(), "written").expect("it reads back");
        assert_eq!(read_back.links.len(), 4);
    }
}
