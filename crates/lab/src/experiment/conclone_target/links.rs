//! The links that a target is set for: how they lose, what their bytes cost, when they change.
//!
//! ```text
//! independent   10 ms 2 %, 35 ms 1 %
//! bursts        10 ms dead 2 % of the time, 35 ms 1 %, for 100 ms on average; 0.2 % beside
//! long_bursts   the same for 1 s on average
//! correlated    1 % each, and both dead 0.1 % of the time, for 100 ms on average
//! changing      10 ms 0.5 %, but 20 % for 30 s of every 300; 35 ms 1 %
//! dying         10 ms 0.5 %, but dead for 10 s of every 300; 35 ms 1 %
//! dear          as independent, and 60 ms 0.5 % at ten times the price
//! thin          10 ms 2 %, dead for 10 s of every 60; a half-duplex modem of 64 kbit/s, 30 ms, 1 s
//!               of queue
//! operators     three recorded operators, the instants at which all three were measured, joined
//! ```
//! A link that is dead is so in both directions; what is lost beside that is each direction's own
//! luck.

use std::sync::Arc;

use clap::ValueEnum;
use netem::{
    CsvLoss, Delay, GilbertElliott, GroupModel, LinkModel, LinkPair, LinkRate, LossModel,
    MediumModel, Outage, OutageMode, QueueLimit, Scenario, Series, StateChange,
};
use serde::Serialize;
use units::{Duration, Instant, Rate};

use crate::traces;

/// Rate of every link but the modem, Mbit/s: control alone never fills it.
const LINK_MBPS: f64 = 10.0;
/// How often a link changes or dies, seconds.
const PERIOD_S: f64 = 300.0;
/// When in each period it does: not at the very beginning, where everything is new.
const CHANGE_S: f64 = 135.0;
/// How long it loses more.
const CHANGED_S: f64 = 30.0;
/// How long it is dead.
const DEAD_S: f64 = 10.0;
/// How often, and when in each period, the Wi-Fi beside the modem dies.
const THIN_PERIOD_S: f64 = 60.0;
const THIN_CHANGE_S: f64 = 25.0;
/// Rate of the modem, shared by both directions.
const MODEM_BPS: u64 = 64_000;
/// What waits for it in each direction: a second.
const MODEM_QUEUE_BYTES: u64 = MODEM_BPS / 8;
/// Commands a second each way beside set-points, where links are thin.
const COMMAND_HZ: f64 = 5.0;

/// Names a kind of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Each packet is lost by itself.
    Independent,
    /// Bursts of 100 ms, each link's own.
    Bursts,
    /// Bursts of a second.
    LongBursts,
    /// Bursts that both links have in common.
    Correlated,
    /// The better link loses more for a while.
    Changing,
    /// The better link dies silently for a while.
    Dying,
    /// A third link is ten times as dear.
    Dear,
    /// A Wi-Fi that dies, and a half-duplex modem.
    Thin,
    /// Three recorded operators.
    Operators,
}

impl Kind {
    /// Those that need no recording.
    pub(super) const MADE: [Self; 8] = [
        Self::Independent,
        Self::Bursts,
        Self::LongBursts,
        Self::Correlated,
        Self::Changing,
        Self::Dying,
        Self::Dear,
        Self::Thin,
    ];
}

/// Links that a target is set for.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// What results call them.
    pub(super) name: String,
    /// The links, the better first.
    pub(super) scenario: Scenario,
    /// The price of a byte on each.
    pub(super) costs: Vec<f64>,
    /// When the first link changes for better or worse, seconds.
    pub(super) steps_s: Vec<f64>,
    /// When the first link is dead, seconds.
    pub(super) dead_s: Vec<(f64, f64)>,
    /// What both directions of the last link carry together, bit/s, where it is thin.
    pub(super) thin_bps: Option<u64>,
    /// Commands a second each way beside set-points.
    pub(super) command_hz: f64,
    /// How long the recording is, where there is one.
    pub(super) recorded_s: Option<f64>,
}

impl Links {
    /// Makes links of a kind for a run of so many seconds.
    ///
    /// # Errors
    /// When there are no recordings.
    pub(super) fn new(kind: Kind, seconds: f64) -> Result<Self, String> {
        let name = kind.to_possible_value().map_or_else(String::new, |is| is.get_name().to_owned());
        let empty = Scenario::new(&name, seconds);
        let scenario = match kind {
            Kind::Independent => two(empty, loss(0.02), loss(0.01)),
            Kind::Bursts => bursting(two(empty, loss(0.002), loss(0.002)), 0.1),
            Kind::LongBursts => bursting(two(empty, loss(0.002), loss(0.002)), 1.0),
            Kind::Correlated => together(two(empty, loss(0.01), loss(0.01))),
            Kind::Changing => two(empty, changing(), loss(0.01)),
            Kind::Dying | Kind::Dear | Kind::Thin => {
                let first = loss(if kind == Kind::Dying { 0.005 } else { 0.02 });
                if kind == Kind::Thin { thin(empty) } else { two(empty, first, loss(0.01)) }
            }
            Kind::Operators => return operators(name),
        };
        let mut links = Self::of(name, scenario);
        match kind {
            Kind::Changing => {
                links.steps_s = times(seconds, PERIOD_S, CHANGE_S)
                    .flat_map(|at| [at, at + CHANGED_S])
                    .collect();
            }
            Kind::Dying => links.die(times(seconds, PERIOD_S, CHANGE_S)),
            Kind::Dear => {
                let satellite = LinkModel { loss: loss(0.005), ..model(60) };
                links.scenario = links.scenario.link("satellite", "drone", "station", &satellite);
                links.costs = vec![1.0, 1.0, 10.0];
            }
            Kind::Thin => {
                links.die(times(seconds, THIN_PERIOD_S, THIN_CHANGE_S));
                (links.thin_bps, links.command_hz) = (Some(MODEM_BPS), COMMAND_HZ);
            }
            _ => {}
        }
        Ok(links)
    }

    /// Takes links of a scenario, whose bytes all cost the same.
    pub(super) fn of(name: String, mut scenario: Scenario) -> Self {
        // Two clocks are two clocks: neither host may rely on the other's.
        if let Some(host) =
            scenario.hosts.first_mut().filter(|host| host.clock == Default::default())
        {
            host.clock.offset_ns = 17_000_000_000;
            host.clock.skew_ppb = 20_000;
        }
        Self {
            name,
            costs: vec![1.0; scenario.links.len()],
            scenario,
            steps_s: Vec::new(),
            dead_s: Vec::new(),
            thin_bps: None,
            command_hz: 0.0,
            recorded_s: None,
        }
    }

    /// Lets the first link die silently at these times.
    fn die(&mut self, at: impl Iterator<Item = f64>) {
        for from in at {
            let outage = Outage {
                start: Instant::ZERO + Duration::from_secs_f64(from),
                duration: Duration::from_secs_f64(DEAD_S),
                mode: OutageMode::Drop,
            };
            let LinkPair { up, down, .. } = &mut self.scenario.links[0];
            up.outages.push(outage);
            down.outages.push(outage);
            self.dead_s.push((from, from + DEAD_S));
            self.steps_s.extend([from, from + DEAD_S]);
        }
    }
}

fn model(delay_ms: u64) -> LinkModel {
    LinkModel {
        delay: Delay::Fixed(Duration::from_millis(delay_ms)),
        rate: LinkRate::Constant(Rate::from_mbps(LINK_MBPS)),
        ..LinkModel::default()
    }
}

fn loss(independent: f64) -> LossModel {
    LossModel { independent, ..LossModel::default() }
}

/// Makes the two links that most kinds have.
fn two(empty: Scenario, wifi: LossModel, lte: LossModel) -> Scenario {
    let wifi = LinkModel { loss: wifi, ..model(10) };
    let lte = LinkModel { loss: lte, ..model(35) };
    empty.link("wifi", "drone", "station", &wifi).link("lte", "drone", "station", &lte)
}

/// Returns a channel that is dead for a share of the time.
fn dead(share: f64, mean_s: f64) -> GilbertElliott {
    let change = StateChange::OverTime {
        good: Duration::from_secs_f64(mean_s * (1.0 - share) / share),
        bad: Duration::from_secs_f64(mean_s),
    };
    GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 }
}

/// Lets each link die in bursts of its own. A group of one is what its two directions have in
/// common.
fn bursting(mut scenario: Scenario, mean_s: f64) -> Scenario {
    for (place, share) in [0.02, 0.01].into_iter().enumerate() {
        join(&mut scenario, &[place], dead(share, mean_s));
    }
    scenario
}

/// Lets both links die together.
fn together(mut scenario: Scenario) -> Scenario {
    join(&mut scenario, &[0, 1], dead(0.001, 0.1));
    scenario
}

/// Gives links a channel in common.
fn join(scenario: &mut Scenario, links: &[usize], burst: GilbertElliott) {
    let name = format!("bursts{}", scenario.groups.len());
    for link in links {
        let LinkPair { up, down, .. } = &mut scenario.links[*link];
        up.groups.push(name.clone());
        down.groups.push(name.clone());
    }
    scenario.groups.push(GroupModel { name, burst: Some(burst), outages: Vec::new() });
}

/// Loses more for a while, again and again.
fn changing() -> LossModel {
    let steps = [(0.0, 0.005), (CHANGE_S, 0.2), (CHANGE_S + CHANGED_S, 0.005)];
    let steps = steps.map(|(at, loss)| (Duration::from_secs_f64(at), loss));
    let period = Some(Duration::from_secs_f64(PERIOD_S));
    let series = Series::from_steps(steps, period, "changing").ok();
    let csv = series.map(|series| CsvLoss { path: String::new(), series: Arc::new(series) });
    LossModel { csv, ..LossModel::default() }
}

/// Makes the Wi-Fi and the modem, whose directions take turns.
fn thin(empty: Scenario) -> Scenario {
    const RADIO: &str = "radio";
    let wifi = LinkModel { loss: loss(0.02), ..model(10) };
    let modem = LinkModel {
        rate: LinkRate::Constant(Rate::from_bps(MODEM_BPS)),
        queue: QueueLimit { packets: None, bytes: Some(MODEM_QUEUE_BYTES) },
        medium: Some(RADIO.to_owned()),
        ..model(30)
    };
    let mut scenario =
        empty.link("wifi", "drone", "station", &wifi).link("modem", "drone", "station", &modem);
    scenario.media.push(MediumModel { name: RADIO.to_owned(), ..MediumModel::default() });
    scenario
}

/// Joins all instants at which three operators were measured.
fn operators(name: String) -> Result<Links, String> {
    let recorded = traces::operators_joined(&traces::folder())?;
    let seconds = recorded.iter().map(|link| link.length.as_secs_f64()).fold(f64::MAX, f64::min);
    let empty = Scenario::new(&name, seconds);
    let scenario = recorded.iter().fold(empty, |scenario, link| {
        let mut scenario = scenario.link(&link.name, "drone", "station", &link.to_station);
        if let Some(pair) = scenario.links.last_mut() {
            pair.down = link.to_drone.clone();
        }
        scenario
    });
    Ok(Links { recorded_s: Some(seconds), ..Links::of(name, scenario) })
}

/// Returns the times at which something begins, as often as it is over before the end.
fn times(seconds: f64, period_s: f64, first_s: f64) -> impl Iterator<Item = f64> {
    let nth = move |n: u32| first_s + period_s * f64::from(n);
    (0..).map(nth).take_while(move |at| *at < seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lose_what_their_names_say() {
        let long = Links::new(Kind::LongBursts, 600.0).expect("no recording");
        let shares: Vec<f64> = long
            .scenario
            .groups
            .iter()
            .filter_map(|group| group.burst.map(|burst| burst.bad_share()))
            .collect();
        assert!((shares[0] - 0.02).abs() < 1e-9 && (shares[1] - 0.01).abs() < 1e-9, "{shares:?}");
        let common = Links::new(Kind::Correlated, 600.0).expect("no recording").scenario;
        assert_eq!(common.links[0].up.groups, common.links[1].down.groups);
        let dying = Links::new(Kind::Dying, 600.0).expect("no recording");
        assert_eq!(dying.dead_s, [(135.0, 145.0), (435.0, 445.0)]);
        assert_eq!(dying.steps_s, [135.0, 145.0, 435.0, 445.0]);
        let dear = Links::new(Kind::Dear, 600.0).expect("no recording");
        assert_eq!((dear.costs.len(), dear.scenario.links.len()), (3, 3));
        let changing = Links::new(Kind::Changing, 600.0).expect("no recording").scenario;
        let csv = changing.links[0].up.loss.csv.as_ref().expect("a loss that changes");
        let at = |s| csv.series.at(Instant::ZERO + Duration::from_secs(s));
        assert_eq!([at(0), at(134), at(136), at(166), at(436)], [0.005, 0.005, 0.2, 0.005, 0.2]);
    }
}
