//! The scene of `mixed-blackout` and of the demo: links, traffic and figures.

use std::path::PathBuf;

use netem::{Outage, OutageMode, Scenario};
use proto::ElasticRedundancy;
use serde_json::{Map, Value, json};

use units::Duration;

use super::doubt::with_errors;
use super::emu::{Links, Progress, run_streams};
use super::figures::{
    ControlFigures, LATE_S, LiveFigures, Span, VIDEO_LIMIT_S, flight_figures, flow_figures,
    goodput_mbps, timely_frames, timely_share, worse_flow,
};
use super::ledger::{Ledger, StreamRun};
use super::workload::{Flow, Workload};
use crate::chart::{Chart, Curve};
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::testbed::{Direction, Recording, Stream};
use emulator::Audit;

/// The scene that comes with the program.
pub(crate) const SCENARIO: &str = include_str!("../../../scenarios/mixed-blackout.toml");

/// What an emulated run claims to tell apart: the delays of the two links, and gaps of 80 ms from
/// gaps of 100 ms; the emulator's audit judges by it.
const RESOLUTION: Duration = Duration::from_millis(10);

/// More outages than this would shade a picture all over.
const SPANS_MAX: usize = 12;

/// The scene with what its figures need to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Blackout {
    /// The links; times count from the start of the workload.
    pub(crate) scenario: Scenario,
    /// What the applications send.
    pub(crate) workload: Workload,
    /// When the Wi-Fi is silently dead; none in a scene of another's making.
    pub(crate) dead: Option<Span>,
    /// When the LTE stalls and then releases; none in a scene of another's making.
    pub(crate) stall: Option<Span>,
    /// Constants of message delivery's redundancy in the world, where they are not a session's own.
    pub(crate) elastic: Option<ElasticRedundancy>,
    /// Where daemons keep their flight records, where they keep any.
    pub(crate) records: Option<PathBuf>,
}

impl Blackout {
    /// Reads the scene that comes with the program.
    pub(crate) fn new() -> Result<Self, String> {
        let scenario = Scenario::from_toml(SCENARIO, "mixed-blackout.toml");
        Ok(Self::of(scenario.map_err(|error| error.to_string())?))
    }

    /// Makes a scene of a scenario. Only where it has the shape of the scene that comes with the
    /// program (a link `wifi` that is out silently once, a link `lte` that stalls once) are its
    /// outages taken for that scene's; otherwise gaps are those of the whole run.
    pub(crate) fn of(scenario: Scenario) -> Self {
        let only = |name: &str| {
            let pair = scenario.links.iter().find(|pair| pair.name == name)?;
            let [outage] = &pair.up.outages[..] else { return None };
            (pair.up.outages == pair.down.outages).then_some(*outage)
        };
        let (dead, stall) = match (only("wifi"), only("lte")) {
            (Some(wifi), Some(lte))
                if scenario.links.len() == 2
                    && wifi.mode == OutageMode::Drop
                    && lte.mode != OutageMode::Drop =>
            {
                let seen = |span: Span| (span.0 < scenario.seconds).then_some(span);
                (seen(span(&wifi)), seen(span(&lte)))
            }
            _ => (None, None),
        };
        let workload = Workload { seconds: scenario.seconds, ..Workload::default() };
        Self { scenario, workload, dead, stall, elastic: None, records: None }
    }

    /// Runs schemes at once over emulated links, each over links of its own.
    pub(crate) fn run_emu(
        &self,
        schemes: &[Scheme],
        recording: &Recording,
        seed: u64,
        progress: &mut Progress<'_>,
    ) -> Result<(Vec<(Scheme, StreamRun)>, Audit), String> {
        let played = (&self.workload, recording);
        let links = Links { records: self.records.as_deref(), ..Links::of(&self.scenario) };
        run_streams(links, schemes, played, seed, RESOLUTION, progress)
    }

    /// Computes the figures of one scheme, with their errors where the run was a real one.
    pub(crate) fn figures(&self, scheme: Scheme, run: &StreamRun) -> Value {
        let span = (self.workload.seconds, self.stall);
        with_errors(run, span, |run| self.seen(scheme, run))
    }

    /// Says what was run, for the report.
    pub(crate) fn parameters(&self) -> Value {
        json!({
            "scenario": self.scenario.name,
            "workload": self.workload,
            "wifi_dead_s": self.dead,
            "lte_stall_s": self.stall,
            "late_s": LATE_S,
            "named_figures": match self.stall {
                Some(_) => "the worse of both directions; control_gap_s leaves the LTE stall out",
                None => "the worse of both directions",
            },
            "directions": "up is from station to drone, down from drone to station",
            "redundant": "stands for replicate-everything tools: no selector, no congestion control",
        })
    }

    /// Draws control delay over time of several schemes' runs.
    pub(crate) fn chart(&self, runs: &[(Scheme, StreamRun)], subtitle: String) -> Chart {
        let panel = |direction, title: &str| {
            let curve = |(scheme, run): &(Scheme, StreamRun)| Curve {
                scheme: *scheme,
                messages: run.ledger(direction).stream(Stream::Control).messages().collect(),
            };
            (title.to_owned(), runs.iter().map(curve).collect())
        };
        let beside = if self.workload.video_mbps > 0.0 { ", beside the video" } else { "" };
        Chart {
            title: "Delay of control messages while the links misbehave".to_owned(),
            subtitle,
            seconds: self.workload.seconds,
            spans: self.spans(),
            panels: vec![
                panel(Direction::Up, "up: station to drone"),
                panel(Direction::Down, &format!("down: drone to station{beside}")),
            ],
        }
    }

    /// Returns what is shaded in pictures: the outages, each once though both directions have it.
    fn spans(&self) -> Vec<(Span, String)> {
        if self.dead.is_some() || self.stall.is_some() {
            let name = |span: Option<Span>, name: &str| span.map(|span| (span, name.to_owned()));
            let spans = [name(self.dead, "Wi-Fi silently dead"), name(self.stall, "LTE stalls")];
            return spans.into_iter().flatten().collect();
        }
        let mut spans: Vec<(Span, String)> = Vec::new();
        for link in &self.scenario.links {
            for outage in link.up.outages.iter().chain(&link.down.outages) {
                let what = if outage.mode == OutageMode::Drop { "dead" } else { "stalls" };
                let span = (span(outage), format!("{} {what}", link.name));
                if span.0.0 < self.workload.seconds && !spans.contains(&span) {
                    spans.push(span);
                }
                if spans.len() > SPANS_MAX {
                    return Vec::new();
                }
            }
        }
        spans
    }

    fn seen(&self, scheme: Scheme, run: &StreamRun) -> Value {
        let [up, down] = Direction::BOTH.map(|direction| run.ledger(direction));
        let (control_up, control_down) = (self.control(up), self.control(down));
        let worse = control_up.worse(control_down);
        merged([
            json!({"scheme": scheme}),
            json!(worse),
            json!({"control_miss_share": control_up.worse_miss_share(&control_down)}),
            self.live_figures(up, down),
            self.video_figures(down),
            json!({
                "wire_bytes": run.wire_bytes(),
                "up": direction_figures(up, control_up),
                "down": direction_figures(down, control_down),
            }),
            self.flows(run),
        ])
    }

    /// Returns the figures of flows with names, by these: the worse of both directions and each
    /// one's own, where there are two.
    fn flows(&self, run: &StreamRun) -> Value {
        let of = |flow: &Flow, direction| {
            let ledger = run.ledger(direction).flow(flow.kind, flow.number);
            ledger.map_or(Value::Null, |ledger| {
                flow_figures(ledger, self.workload.seconds, flow.deadline_ms / 1e3)
            })
        };
        let figures = |flow: &Flow| {
            let figures = match flow.way {
                Some(direction) => of(flow, direction),
                None => {
                    let [up, down] = Direction::BOTH.map(|direction| of(flow, direction));
                    merged([worse_flow(&up, &down), json!({"up": up, "down": down})])
                }
            };
            (flow.name.clone(), figures)
        };
        match &self.workload.flows[..] {
            [] => Value::Null,
            flows => json!({"streams": flows.iter().map(figures).collect::<Map<_, _>>()}),
        }
    }

    fn control(&self, ledger: &Ledger) -> ControlFigures {
        ControlFigures::new(ledger.stream(Stream::Control), self.workload.seconds, self.stall)
    }

    /// Returns the figures of live messages, where there are any.
    fn live_figures(&self, up: &Ledger, down: &Ledger) -> Value {
        let [up, down] = [up, down]
            .map(|ledger| LiveFigures::new(ledger.stream(Stream::Live), self.workload.seconds));
        if self.workload.live_hz > 0.0 { json!(up.worse(down)) } else { Value::Null }
    }

    fn video_figures(&self, down: &Ledger) -> Value {
        let video = down.stream(Stream::Video);
        let whole = goodput_mbps(video, (0.0, self.workload.seconds));
        let timely = timely_share(video, VIDEO_LIMIT_S, self.dead);
        let dead = self.dead.map(|dead| goodput_mbps(video, dead));
        json!({
            "video_share_250ms": rounded_option(timely_share(video, VIDEO_LIMIT_S, None), 5),
            "video_frames_250ms": rounded_option(timely_frames(video, VIDEO_LIMIT_S), 5),
            "data_goodput_mbps": rounded(whole, 4),
            "video_share_250ms_wifi_up": rounded_option(timely, 5),
            "video_goodput_wifi_dead_mbps": rounded_option(dead, 4),
        })
    }
}

/// Adds to each result how many bytes it sent against `redundant` of the same run, where that ran.
pub(crate) fn relate_wire_bytes(results: &mut [Value]) {
    let bytes = |result: &Value| result["wire_bytes"].as_f64().filter(|bytes| *bytes > 0.0);
    let redundant = results.iter().find(|result| result["scheme"] == Scheme::REDUNDANT.name());
    let Some(redundant) = redundant.and_then(bytes) else { return };
    for result in results {
        if let Some(bytes) = bytes(result) {
            result["wire_to_redundant"] = json!(rounded(bytes / redundant, 4));
        }
    }
}

fn direction_figures(ledger: &Ledger, control: ControlFigures) -> Value {
    let miss = rounded(control.miss_share(), 6);
    let flight = flight_figures(ledger);
    let rest =
        json!({"control_miss_share": miss, "mavlink": flight, "strangers": ledger.strangers});
    merged([json!(control), rest])
}

/// Returns an outage as a span of the workload's time.
fn span(outage: &Outage) -> Span {
    let start = outage.start.as_secs_f64();
    (start, start + outage.duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scene_is_the_one_that_the_figures_speak_of() {
        let scene = Blackout::new().expect("the scenario is sound");
        let names: Vec<&str> = scene.scenario.links.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["wifi", "lte"]);
        let length = |span: Option<Span>| span.map(|(from, to)| to - from);
        assert_eq!((length(scene.dead), length(scene.stall)), (Some(10.0), Some(2.0)));
        assert_eq!(scene.workload.seconds, 60.0);
    }

    #[test]
    fn outages_of_another_scene_are_not_taken_for_those_of_this_one() {
        let own = Blackout::new().expect("the scenario is sound").scenario;
        let mut renamed = own.clone();
        renamed.links[0].name = "satellite".to_owned();
        let mut twice = own.clone();
        let again = twice.links[0].up.outages[0];
        twice.links[0].up.outages.push(again);
        twice.links[0].down.outages.push(again);
        let mut other_way = own;
        other_way.links.swap(0, 1);
        (other_way.links[0].name, other_way.links[1].name) = ("wifi".into(), "lte".into());
        for other in [renamed, twice, other_way] {
            let scene = Blackout::of(other);
            assert_eq!((scene.dead, scene.stall), (None, None));
        }
    }
}
