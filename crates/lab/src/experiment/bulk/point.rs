//! The points: which links, how long, what falls silent, what runs beside, and the ceiling of each.

use clap::ValueEnum;
use netem::{Delay, LinkModel, Outage, OutageMode, Scenario};
use serde_json::{Value, json};
use units::{Duration, Instant, Rate};

use super::bound::{Bound, bounds};
use crate::experiment::recorded::{capacities, recorded_windows};
use crate::report::rounded_option;
use crate::scheme::Scheme;
use crate::testbed::Direction;
use crate::traces::Choice;

/// The links of the experiment.
const LOSSY: &str = include_str!("../../../scenarios/two-lossy.toml");
/// MTU of the daemons' tunnels in the lab.
pub(super) const TUNNEL_MTU: u64 = 1_280;
/// IP and TCP headers with timestamps, inside the tunnel.
pub(super) const TCP_HEADERS: u64 = 52;
/// What a session puts around a tunnel's packet: IP and UDP headers, its own header, the tag, the
/// frame.
const AROUND: u64 = 72;
/// MTU of links, for packets of the kernel's TCP.
pub(super) const LINK_MTU: u64 = 1_500;
/// When links fall silent, and how long the flow lasts after they are back, seconds.
const BEFORE_S: f64 = 10.0;
const AFTER_S: f64 = 10.0;
/// Control messages each second, each way, beside the flow over recorded links, and their bytes.
const CONTROL_HZ: f64 = 50.0;
const CONTROL_BYTES: u64 = 100;
/// How much longer the way of somebody else's flow is, each way, where it is longer.
const FARTHER_MS: u64 = 40;
/// Between the end of the flow and the requests without it: its queues are empty then, seconds.
const PAUSE_S: f64 = 2.0;
/// From when on a flow counts as steady, seconds.
pub(super) const STEADY_S: f64 = 10.0;

/// What the links are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Point {
    /// 20 Mbit/s, 10 ms, 2 % and 10 Mbit/s, 35 ms, 1 %.
    Lossy,
    /// The same with 5 % on both.
    Loss5,
    /// The same with 10 % on both.
    Loss10,
    /// Two links of 4 Mbit/s, 150 ms, 2 %.
    Long,
    /// The same without loss.
    LongClean,
    /// 500 and 128 kbit/s, 30 and 50 ms, half a second of queue, and control beside the flow.
    Thin,
    /// One link of 128 kbit/s, 30 ms.
    ThinOne,
    /// Without loss.
    Clean,
    /// All links silent for 20 s.
    Outage,
    /// The two worst windows of recorded links and two at random.
    Recorded,
    /// The better link silent for 10 s.
    OneDies,
    /// The links of `lossy`, and two flows at once.
    Two,
    /// The same with eight.
    Many,
    /// The links of `lossy`, and requests of 1 kB beside the flow and after it.
    Requests,
    /// The links of `loss10`, and 1 kB over a connection of its own each 50 ms, beside the flow and
    /// after it.
    Connections,
    /// The links of `clean`, the first shared with a plain TCP flow of somebody else's, and control
    /// beside ours.
    Outside,
    /// The same, and that flow's way is 40 ms longer each way.
    OutsideFar,
    /// Two plain cables in place of links: what the processors carry. Schemes run in turn.
    Veth,
}

/// Links and a flow over them.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) point: Point,
    /// The name of the recorded window.
    pub(super) window: Option<String>,
    /// Times count from the beginning of the flow.
    pub(super) scenario: Scenario,
    /// Length of the flow.
    pub(super) seconds: f64,
    /// When links are silent, seconds.
    pub(super) silence: Option<(f64, f64)>,
    /// Control messages a second, each way, beside the flow; zero for none.
    pub(super) control_hz: f64,
    /// TCP flows that begin together.
    pub(super) flows: usize,
    /// Bits that may arrive in each millisecond, all links together; nothing where nothing limits
    /// them.
    arriving: Vec<f64>,
    /// The same of the first link, the better one.
    of_first: Vec<f64>,
    /// What a sender could have of recorded links that knew them.
    pub(super) bounds: Vec<Bound>,
}

impl Point {
    /// Returns the name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lossy => "lossy",
            Self::Loss5 => "loss5",
            Self::Loss10 => "loss10",
            Self::Long => "long",
            Self::LongClean => "long-clean",
            Self::Thin => "thin",
            Self::ThinOne => "thin-one",
            Self::Clean => "clean",
            Self::Outage => "outage",
            Self::Recorded => "recorded",
            Self::OneDies => "one-dies",
            Self::Two => "two",
            Self::Many => "many",
            Self::Requests => "requests",
            Self::Connections => "connections",
            Self::Outside => "outside",
            Self::OutsideFar => "outside-far",
            Self::Veth => "veth",
        }
    }

    /// Returns how much longer the way of somebody else's flow is, each way, where one shares the
    /// first link.
    pub(super) fn outside(self) -> Option<Duration> {
        match self {
            Self::Outside => Some(Duration::ZERO),
            Self::OutsideFar => Some(Duration::from_millis(FARTHER_MS)),
            _ => None,
        }
    }

    /// Tells whether it is of the world alone.
    pub(super) fn is_of_world(self) -> bool {
        matches!(self, Self::Connections) || self.outside().is_some()
    }

    /// Returns the point's links; of recorded ones, several windows.
    ///
    /// # Errors
    /// When there are no recordings, or none of the name.
    pub(super) fn scenes(self, seconds: u64, set: &str, seed: u64) -> Result<Vec<Scene>, String> {
        let seconds = seconds as f64;
        if self == Self::Recorded {
            let choices = [Choice::Worst(2), Choice::Random { count: 2, seed }];
            let windows = recorded_windows(set, &choices, seconds)?;
            return windows.into_iter().map(|window| Scene::recorded(window, CONTROL_HZ)).collect();
        }
        let read = Scenario::from_toml(LOSSY, "two-lossy.toml");
        let mut scenario = read.map_err(|error| error.to_string())?;
        let mut silence = None;
        let mut each = |change: &dyn Fn(&mut LinkModel)| {
            for pair in &mut scenario.links {
                change(&mut pair.up);
                change(&mut pair.down);
            }
        };
        match self {
            Self::Lossy | Self::Recorded | Self::Two | Self::Many | Self::Requests => {}
            Self::Veth => each(&|model| *model = LinkModel::default()),
            Self::Loss5 => each(&|model| model.loss.independent = 0.05),
            Self::Loss10 | Self::Connections => each(&|model| model.loss.independent = 0.1),
            Self::Clean | Self::Outside | Self::OutsideFar => {
                each(&|model| model.loss.independent = 0.0);
            }
            Self::Long | Self::LongClean => each(&|model| {
                model.delay = Delay::Fixed(Duration::from_millis(150));
                model.rate = netem::LinkRate::Constant(Rate::from_mbps(4.0));
                model.loss.independent = if self == Self::Long { 0.02 } else { 0.0 };
            }),
            Self::Thin => {
                for (pair, (kbps, ms)) in scenario.links.iter_mut().zip([(500, 30), (128, 50)]) {
                    thin(pair, kbps, ms);
                }
            }
            Self::ThinOne => {
                scenario.links.truncate(1);
                scenario.links.iter_mut().for_each(|pair| thin(pair, 128, 30));
            }
            Self::Outage => {
                silence = Some((BEFORE_S, BEFORE_S + 20.0));
                each(&|model| model.outages.push(outage(20)));
            }
            Self::OneDies => {
                silence = Some((BEFORE_S, BEFORE_S + 10.0));
                let first = &mut scenario.links[0];
                first.up.outages.push(outage(10));
                first.down.outages.push(outage(10));
            }
        }
        let seconds = silence.map_or(seconds, |(_, end)| end + AFTER_S);
        let is_beside = self.outside().is_some() || self == Self::Thin;
        let control_hz = if is_beside { CONTROL_HZ } else { 0.0 };
        Ok(vec![Scene::new(self, scenario, seconds, silence, control_hz)?])
    }
}

impl Scene {
    fn new(
        point: Point,
        scenario: Scenario,
        seconds: f64,
        silence: Option<(f64, f64)>,
        control_hz: f64,
    ) -> Result<Self, String> {
        let (links, slots) = match point {
            Point::Veth => (Vec::new(), 0),
            _ => {
                (capacities(&scenario, Direction::Down, seconds)?, (seconds * 1e3).ceil() as usize)
            }
        };
        let drone = scenario.host("drone");
        let (mut arriving, mut of_first) = (vec![0.0; slots], Vec::new());
        // Control goes by every link.
        let control = control_hz * ((CONTROL_BYTES + AROUND) * 8) as f64 / 1e3;
        for (pair, capacity) in scenario.links.iter().zip(&links) {
            let model = if Some(pair.a) == drone { &pair.up } else { &pair.down };
            let bursts = model.loss.burst.map_or(0.0, |burst| burst.mean_loss());
            let kept = (1.0 - model.loss.independent) * (1.0 - bursts);
            for (sum, slot) in arriving.iter_mut().zip(capacity.slots()) {
                if slot.arrives {
                    *sum += (slot.bits as f64 - control).max(0.0) * kept;
                }
            }
            if of_first.is_empty() {
                of_first.clone_from(&arriving);
            }
        }
        let flows = match point {
            Point::Two => 2,
            Point::Many => 8,
            _ => 1,
        };
        let bounds = match point {
            Point::Recorded => {
                let bits = ((CONTROL_BYTES + AROUND) * 8) as f64;
                bounds(&links, STEADY_S.min(seconds / 2.0), (1e3 / CONTROL_HZ) as usize, bits)
            }
            _ => Vec::new(),
        };
        Ok(Self {
            point,
            window: None,
            scenario,
            seconds,
            silence,
            control_hz,
            flows,
            arriving,
            of_first,
            bounds,
        })
    }

    /// Makes one of a window of recorded links, as long as the window.
    ///
    /// # Errors
    /// When the drone and the station are not there.
    pub(super) fn recorded(scenario: Scenario, control_hz: f64) -> Result<Self, String> {
        let (window, seconds) = (Some(scenario.name.clone()), scenario.seconds);
        let scene = Self::new(Point::Recorded, scenario, seconds, None, control_hz)?;
        Ok(Self { window, ..scene })
    }

    /// Makes one of a window of recorded links in the order of what they carry from the drone, the
    /// best one first: what has a single link has that one.
    ///
    /// # Errors
    /// As [`Scene::recorded`].
    pub(super) fn recorded_best_first(mut scenario: Scenario) -> Result<Self, String> {
        let capacities = capacities(&scenario, Direction::Down, scenario.seconds)?;
        let carried = capacities.iter().map(|capacity| {
            let slots = capacity.slots().iter().filter(|slot| slot.arrives);
            slots.map(|slot| slot.bits as f64).sum::<f64>()
        });
        let mut links: Vec<_> = carried.zip(std::mem::take(&mut scenario.links)).collect();
        links.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        scenario.links = links.into_iter().map(|(_, link)| link).collect();
        Self::recorded(scenario, 0.0)
    }

    /// Tells whether nothing is emulated.
    pub(super) fn is_of_cables(&self) -> bool {
        self.point == Point::Veth
    }

    /// Tells whether each request has a connection of its own.
    pub(super) fn has_connections(&self) -> bool {
        self.point == Point::Connections
    }

    /// Returns when requests go without the flow, after those beside it, seconds; none where there
    /// are none.
    pub(super) fn requests_alone(&self) -> Option<(f64, f64)> {
        let from = self.seconds + PAUSE_S;
        let asks = self.point == Point::Requests || self.has_connections();
        asks.then_some((from, from + self.seconds))
    }

    /// Returns when the last is sent, seconds.
    pub(super) fn end(&self) -> f64 {
        self.requests_alone().map_or(self.seconds, |(_, end)| end)
    }

    /// Returns the name of the point, or of the window.
    pub(super) fn name(&self) -> String {
        let point = self.point.name();
        self.window.as_ref().map_or_else(|| point.to_owned(), |window| format!("{point} {window}"))
    }

    /// Returns the ceiling of the whole flow, Mbit/s of TCP payload in our own tunnel; none where
    /// nothing limits the links.
    pub(super) fn ceiling_mbps(&self) -> Option<f64> {
        (!self.arriving.is_empty()).then(|| self.ceiling_between(0.0, self.seconds))
    }

    /// Says the same, for people.
    pub(super) fn ceiling_text(&self) -> String {
        let mbps = |mbps| format!("ceiling {mbps:.1} Mbit/s");
        self.ceiling_mbps().map_or_else(|| "no ceiling".to_owned(), mbps)
    }

    /// Returns what the links of a scheme can carry of TCP's payload in packets of its own, Mbit/s:
    /// sessions and multipath TCP have all links, others the first; none where nothing limits the
    /// links.
    pub(super) fn achievable_mbps(&self, scheme: Scheme) -> Option<f64> {
        let of_kernel = (LINK_MTU - TCP_HEADERS) as f64 / LINK_MTU as f64;
        let (slots, share) = match scheme {
            Scheme::Session(_) => return self.ceiling_mbps(),
            Scheme::KERNEL_MPTCP => (&self.arriving, of_kernel),
            _ => (&self.of_first, of_kernel),
        };
        (!slots.is_empty()).then(|| mean(slots) * share)
    }

    /// Returns the ceiling between two times of the flow; zero of links that are silent, or that
    /// nothing limits.
    pub(super) fn ceiling_between(&self, from_s: f64, to_s: f64) -> f64 {
        let place = |s: f64| ((s * 1e3) as usize).min(self.arriving.len());
        let slots = &self.arriving[place(from_s)..place(to_s)];
        let share = (TUNNEL_MTU - TCP_HEADERS) as f64 / (TUNNEL_MTU + AROUND) as f64;
        mean(slots) * share
    }

    /// Says what the links are, for the report.
    pub(super) fn description(&self) -> Value {
        json!({
            "point": self.point.name(),
            "window": self.window,
            "seconds": self.seconds,
            "silence_s": self.silence,
            "flows": self.flows,
            "requests_alone_s": self.requests_alone(),
            "ceiling_mbps": rounded_option(self.ceiling_mbps(), 2),
            "bounds": self.bounds.iter().map(Bound::description).collect::<Vec<_>>(),
        })
    }
}

/// Returns the mean rate of bits in each millisecond, Mbit/s.
fn mean(slots: &[f64]) -> f64 {
    slots.iter().sum::<f64>() / slots.len().max(1) as f64 / 1e3
}

/// Makes a link thin, with half a second of queue, and without loss.
fn thin(pair: &mut netem::LinkPair, kbps: u64, ms: u64) {
    for model in [&mut pair.up, &mut pair.down] {
        model.delay = Delay::Fixed(Duration::from_millis(ms));
        model.rate = netem::LinkRate::Constant(Rate::from_bps(kbps * 1_000));
        model.queue.bytes = Some(kbps * 1_000 / 8 / 2);
        model.loss.independent = 0.0;
    }
}

/// Returns an outage that begins when outages do.
fn outage(seconds: u64) -> Outage {
    let start = Instant::ZERO + Duration::from_secs_f64(BEFORE_S);
    Outage { start, duration: Duration::from_secs(seconds), mode: OutageMode::Drop }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::rounded;

    fn scene(point: Point) -> Scene {
        point.scenes(30, "", 1).expect("a sound scenario").remove(0)
    }

    #[test]
    fn ceilings_are_as_the_trial_had_them() {
        use Point::{Clean, Connections, Long, LongClean, Loss5, Loss10, Lossy};
        use Point::{Many, Requests, ThinOne, Two, Veth};
        let of = |point| rounded(scene(point).ceiling_mbps().expect("they have limits"), 1);
        assert_eq!([Lossy, Loss5, Loss10, Long, Clean].map(of), [26.8, 25.9, 24.5, 7.1, 27.2]);
        assert_eq!([Two, Many, Requests, Connections].map(of), [26.8, 26.8, 26.8, 24.5]);
        assert_eq!([LongClean, ThinOne].map(of), [7.3, 0.1]);
        let cables = scene(Veth);
        assert_eq!((cables.ceiling_mbps(), cables.ceiling_text()), (None, "no ceiling".to_owned()));
    }

    #[test]
    fn a_scheme_is_measured_by_the_links_that_it_can_use() {
        let lossy = scene(Point::Lossy);
        let of = |scheme| rounded(lossy.achievable_mbps(scheme).expect("they have limits"), 1);
        let all = [Scheme::FULMAR, Scheme::KERNEL_MPTCP, Scheme::TCP_LRR, Scheme::KERNEL_TCP];
        assert_eq!(all.map(of), [26.8, 28.5, 18.9, 18.9]);
        assert_eq!(scene(Point::Veth).achievable_mbps(Scheme::TCP_LRR), None);
    }

    #[test]
    fn what_is_silent_has_no_ceiling() {
        let (outage, dies) = (scene(Point::Outage), scene(Point::OneDies));
        assert_eq!((outage.seconds, dies.seconds), (40.0, 30.0));
        assert_eq!(outage.ceiling_between(10.0, 30.0), 0.0);
        assert_eq!(rounded(outage.ceiling_between(30.0, 40.0), 1), 26.8);
        assert_eq!(rounded(dies.ceiling_between(10.0, 20.0), 1), 9.0);
    }

    #[test]
    fn every_point_is_called_on_the_command_line_as_in_figures() {
        for point in Point::value_variants() {
            let value = point.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), point.name());
        }
    }
}
