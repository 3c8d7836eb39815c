//! The links of a cell: what each carries at which time, and the scenario that says so.

use std::sync::Arc;

use netem::{
    CsvLoss, Delay, LinkModel, LinkRate, LossModel, Outage, OutageMode, QueueLimit, Scenario,
    Series,
};
use units::{Duration, Instant, Rate};

use super::cell::{Cell, SCENE_LOSS, Scene};
use crate::experiment::streams::figures::Span;
use crate::scheme::Scheme;

/// One-way delays of the links.
pub(super) const DELAYS_MS: [u64; 2] = [30, 40];
/// What they jump to, in the scene of that name.
const JUMP_MS: u64 = 600;
/// How long each rate lasts in the scene `flap`.
const FLAP_S: f64 = 1.0;
/// What follows a fall: time to see when control comes back.
const AFTER_S: f64 = 10.0;
/// No run is as long: a series that repeats only then ends with its last value. One that never
/// repeats would have the mean of the fall, and not the rate before it, while a run's sessions
/// begin.
const FOR_EVER: Duration = Duration::from_secs(10_000_000);

/// When a cell's links fall, and how long its run lasts; seconds from the start of the workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The fall.
    pub(super) fall: Span,
    /// The end of the run.
    pub(super) seconds: f64,
}

/// One direction of a link, as both are.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// From when each rate holds, in seconds, and the rate.
    steps: Vec<(f64, Rate)>,
    model: LinkModel,
}

impl Times {
    /// Returns the times of a cell whose links fall `start_s` after the workload has begun.
    pub(super) fn of(cell: &Cell, start_s: f64) -> Self {
        let end = start_s + cell.fall_s;
        Self { fall: (start_s, end), seconds: end + AFTER_S }
    }
}

impl Hop {
    /// Returns the links of a cell.
    pub(super) fn all(cell: &Cell, times: Times) -> Vec<Self> {
        (0..cell.links.count()).map(|link| Self::of(cell, times, link)).collect()
    }

    fn of(cell: &Cell, times: Times, link: usize) -> Self {
        let (start, end) = times.fall;
        let steps = steps(cell, times, link);
        let seconds = Duration::from_secs_f64;
        let series = steps.iter().map(|(from, rate)| (seconds(*from), *rate));
        let series = Series::from_steps(series, Some(FOR_EVER), "falls")
            .expect("rates that last a second at least");
        let during = Outage {
            start: Instant::ZERO + seconds(start),
            duration: seconds(end - start),
            mode: OutageMode::Drop,
        };
        let (scene, delay) = (cell.scene, DELAYS_MS[link]);
        let model = LinkModel {
            rate: LinkRate::Csv { path: String::new(), series: Arc::new(series) },
            delay: if scene == Some(Scene::Jump) {
                let jumped = over([delay, JUMP_MS, delay].map(Duration::from_millis), times);
                Delay::Csv { path: String::new(), series: jumped }
            } else {
                Delay::Fixed(Duration::from_millis(delay))
            },
            loss: LossModel {
                independent: cell.loss,
                csv: (scene == Some(Scene::Loss85)).then(|| CsvLoss {
                    path: String::new(),
                    series: over([0.0, SCENE_LOSS, 0.0], times),
                }),
                ..LossModel::default()
            },
            queue: QueueLimit { packets: None, bytes: Some((cell.queue_kb * 1e3) as u64) },
            outages: if cell.links.dies(link) { vec![during] } else { Vec::new() },
            ..LinkModel::default()
        };
        Self { steps, model }
    }

    /// Returns the bytes that it carries within a span, its transmitter never idle.
    pub(super) fn carries(&self, (from, to): Span) -> f64 {
        let ends = self.steps.iter().skip(1).map(|(start, _)| *start).chain([f64::INFINITY]);
        let stretch = |((start, rate), end): (&(f64, Rate), f64)| {
            (end.min(to) - start.max(from)).max(0.0) * rate.as_bps() as f64 / 8.0
        };
        self.steps.iter().zip(ends).map(stretch).sum()
    }
}

/// Returns the links that a scheme has: plain UDP the better one alone, all others every one.
pub(super) fn scenario(cell: &Cell, hops: &[Hop], times: Times, scheme: Scheme) -> Scenario {
    let has = |link: &usize| scheme != Scheme::UDP || *link == cell.links.better();
    (0..hops.len()).filter(has).fold(Scenario::new("falls", times.seconds), |links, link| {
        links.link(&format!("link{link}"), "drone", "station", &hops[link].model)
    })
}

/// Returns from when a link has which rate.
fn steps(cell: &Cell, times: Times, link: usize) -> Vec<(f64, Rate)> {
    let (start, end) = times.fall;
    let from = Rate::from_mbps(cell.from_mbps);
    let to = Rate::from_mbps(cell.to_kbps / 1e3);
    if !cell.links.falls(link) {
        return vec![(0.0, from)];
    }
    let changes: Vec<(f64, Rate)> = match cell.scene {
        Some(Scene::Flap) => {
            let changes = ((end - start) / FLAP_S) as u32;
            let rate = |change: u32| if change.is_multiple_of(2) { to } else { from };
            (0..changes).map(|change| (start + f64::from(change) * FLAP_S, rate(change))).collect()
        }
        _ => vec![(start, to)],
    };
    [(0.0, from)].into_iter().chain(changes).chain([(end, from)]).collect()
}

/// Returns a value before, during and after the fall.
fn over<T: Copy>([before, meanwhile, after]: [T; 3], times: Times) -> Arc<Series<T>> {
    let (start, end) = times.fall;
    let steps = [(0.0, before), (start, meanwhile), (end, after)];
    let steps = steps.map(|(from, value)| (Duration::from_secs_f64(from), value));
    let series = Series::from_steps(steps, Some(FOR_EVER), "falls");
    Arc::new(series.expect("three stretches that last"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_takes_what_a_link_carries_and_plain_udp_has_the_better_link() {
        let cell: Cell = "first_10M_50k_30s_500kB_counted".parse().expect("a cell");
        let times = Times::of(&cell, 10.0);
        let hops = Hop::all(&cell, times);
        assert_eq!((times.fall, times.seconds), ((10.0, 40.0), 50.0));
        assert_eq!(hops[0].carries(times.fall), 30.0 * 50e3 / 8.0);
        assert_eq!(hops[0].carries((9.0, 11.0)), 10.05e6 / 8.0);
        assert_eq!(hops[1].carries(times.fall), 30.0 * 10e6 / 8.0);
        let names = |scheme| -> Vec<String> {
            let links = scenario(&cell, &hops, times, scheme).links;
            links.into_iter().map(|pair| pair.name).collect()
        };
        assert_eq!(names(Scheme::UDP), ["link1"]);
        assert_eq!(names(Scheme::FULMAR), ["link0", "link1"]);
        let flap = Cell::scene(Scene::Flap);
        let half = Hop::all(&flap, times)[0].carries(times.fall);
        assert_eq!(half, 15.0 * 10.02e6 / 8.0);
    }
}
