//! A window of recorded links: what is sent over them, and how each scheme fares against the
//! bounds.
//!
//! Not where the links come from (`emulator::read_scenario`), and not how they are run (`sim`,
//! `emu`): this turns ledgers into figures, files and a picture.

use netem::Scenario;
use serde::Serialize;
use serde_json::{Value, json};

use super::bounds::Bounds;
use crate::experiment::streams::doubt::with_errors;
use crate::experiment::streams::figures::{
    ControlFigures, LiveFigures, VIDEO_LIMIT_S, flight_figures, timely_frames, timely_share,
};
use crate::experiment::streams::ledger::{Ledger, StreamRun};
use crate::experiment::streams::workload::Workload;
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::testbed::WireBytes;
use crate::testbed::{Direction, Recording, Stream};

/// Says what is sent beside control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Case {
    /// Nothing.
    Alone,
    /// The video.
    Beside,
}

impl Case {
    /// Returns the name in figures, tables and files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Beside => "beside",
        }
    }
}

/// One run of a window.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) scheme: Scheme,
    pub(crate) case: Case,
    pub(crate) run: StreamRun,
}

/// A window of recorded links.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The links; times count from the start of the workload.
    pub(crate) scenario: Scenario,
    /// How long it is.
    pub(crate) seconds: f64,
    /// What the applications send beside the video and with it, whatever its length says; the
    /// recorded flight plays in the first minute.
    pub(crate) traffic: Workload,
    /// When it begins in each recording, in seconds, and what was assumed about its links.
    pub(crate) notes: Vec<String>,
    /// How many links live in each second by the rule that windows are chosen by; none of
    /// scenarios.
    pub(crate) living: Option<Vec<usize>>,
}

impl Window {
    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Returns the runs that each scheme makes.
    pub(crate) fn cases(&self) -> Vec<Case> {
        if self.traffic.video_mbps > 0.0 {
            vec![Case::Alone, Case::Beside]
        } else {
            vec![Case::Alone]
        }
    }

    /// Returns what the applications send, video and all.
    pub(crate) fn traffic(&self) -> Workload {
        Workload { seconds: self.seconds, ..self.traffic.clone() }
    }

    /// Returns what the applications send in a run.
    pub(crate) fn workload(&self, case: Case) -> Workload {
        let all = self.traffic();
        let video_mbps = if case == Case::Beside { all.video_mbps } else { 0.0 };
        Workload { video_mbps, ..all }
    }

    /// Says what the window is, for the report.
    pub(crate) fn description(&self, bounds: &Bounds) -> Value {
        let names: Vec<&str> = self.scenario.links.iter().map(|pair| pair.name.as_str()).collect();
        let digits = |counts: &[usize]| -> String { counts.iter().map(usize::to_string).collect() };
        let alive = |direction| digits(bounds.alive_by_second(direction));
        json!({
            "window": self.name(),
            "seconds": self.seconds,
            "links": names,
            "notes": self.notes,
            "links_living": self.living.as_deref().map(digits),
            "links_alive_up": alive(Direction::Up),
            "links_alive_down": alive(Direction::Down),
        })
    }

    /// Computes the bounds.
    ///
    /// # Errors
    /// When the scenario has no hosts called drone and station.
    pub(crate) fn bounds(&self, recording: &Recording) -> Result<Bounds, String> {
        Bounds::new(&self.scenario, &self.traffic(), recording)
    }

    /// Computes the figures of one run, with their errors where it was a real one.
    pub(crate) fn figures(&self, played: &Played) -> Value {
        with_errors(&played.run, (self.seconds, None), |run| self.seen(played, run))
    }

    fn seen(&self, played: &Played, run: &StreamRun) -> Value {
        let direction = |direction| {
            let ledger = run.ledger(direction);
            let wire = run.wire[direction as usize];
            merged([self.direction_figures(ledger, wire), video_figures(ledger)])
        };
        let wire = |of: fn(WireBytes) -> u64| -> u64 { run.wire.into_iter().map(of).sum() };
        json!({
            "scheme": played.scheme,
            "case": played.case,
            "wire_bytes": wire(WireBytes::entered),
            "queue_dropped_bytes": wire(|wire| wire.queue_dropped),
            "up": direction(Direction::Up),
            "down": direction(Direction::Down),
        })
    }

    fn direction_figures(&self, ledger: &Ledger, wire: WireBytes) -> Value {
        let control = ControlFigures::new(ledger.stream(Stream::Control), self.seconds, None);
        merged([
            json!(control),
            json!(LiveFigures::new(ledger.stream(Stream::Live), self.seconds)),
            json!({
                "control_missed": control.control_lost + control.control_late_100ms,
                "control_miss_share": rounded(control.miss_share(), 6),
                "mavlink": flight_figures(ledger),
                "wire_bytes": wire.entered(),
                "queue_dropped_bytes": wire.queue_dropped,
            }),
        ])
    }
}

/// Returns a window's name as it may stand in the name of a file.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(safe).collect()
}

fn video_figures(ledger: &Ledger) -> Value {
    let video = ledger.stream(Stream::Video);
    let Some(share) = timely_share(video, VIDEO_LIMIT_S, None) else { return json!({}) };
    json!({
        "video_share_250ms": rounded(share, 5),
        "video_frames_250ms": rounded_option(timely_frames(video, VIDEO_LIMIT_S), 5),
    })
}
