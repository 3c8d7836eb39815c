//! A cell: which links fall from what to what, for how long, and what is sent meanwhile.
//!
//! Its name says all of it, and is read again: `both_10M_50k_30s_500kB_counted`, with `_loss0.05`
//! behind where links lose; a scene is called by its own. Which cells there are is `grid`, what
//! their links are like is `links`.

use core::fmt;
use core::str::FromStr;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use crate::experiment::streams::workload::Workload;

/// Commands a second beside live messages.
const COMMAND_HZ: f64 = 5.0;
/// Messages a second of which each counts, and set-points a second.
const MESSAGE_HZ: f64 = 50.0;
/// Rate of the video, Mbit/s.
const VIDEO_MBPS: f64 = 5.8;
/// What both links lose in the scenes of that name.
pub(super) const SCENE_LOSS: f64 = 0.85;

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// The scene that it is; none where it is one of the grid.
    pub(super) scene: Option<Scene>,
    pub(super) links: Links,
    /// Rate before the fall and after it.
    pub(super) from_mbps: f64,
    /// Rate meanwhile.
    pub(super) to_kbps: f64,
    /// How long that lasts.
    pub(super) fall_s: f64,
    /// What the queue of each direction of each link holds, kB.
    pub(super) queue_kb: f64,
    pub(super) load: Load,
    /// Random loss of every link, all the time.
    pub(super) loss: f64,
}

/// Says which links there are, and which of them fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Links {
    /// Two, both fall.
    Both,
    /// Two, of which that of 30 ms falls.
    First,
    /// Two, of which that of 40 ms falls.
    Second,
    /// One, which falls.
    Alone,
    /// Two: that of 30 ms falls, the other is dead meanwhile.
    OtherDead,
}

/// Says what is sent each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// 50 messages of 100 bytes a second, of which each counts.
    Counted,
    /// The same beside video from the drone.
    CountedVideo,
    /// 50 set-points of 50 bytes a second, of which the newest counts, and 5 commands.
    Live,
    /// The same beside video from the drone.
    LiveVideo,
}

/// Names what is no fall from one rate to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scene {
    /// Two links of 10 Mbit/s lose 85 % at random for 40 s.
    Loss85,
    /// The same all the time, from before there is a session.
    Loss85Always,
    /// Two links change between 20 kbit/s and 10 Mbit/s each second, for 30 s.
    Flap,
    /// The delays of two links of 10 Mbit/s jump from 30 and 40 to 600 ms for 30 s.
    Jump,
    /// Two links fall from 10 Mbit/s to 64 kbit/s for 30 s, beside video.
    BesideVideo,
}

impl Links {
    /// Returns how many there are.
    pub(super) const fn count(self) -> usize {
        if matches!(self, Self::Alone) { 1 } else { 2 }
    }

    /// Tells whether a link falls.
    pub(super) const fn falls(self, link: usize) -> bool {
        match self {
            Self::Both | Self::Alone => true,
            Self::First | Self::OtherDead => link == 0,
            Self::Second => link == 1,
        }
    }

    /// Tells whether a link is dead during the fall.
    pub(super) const fn dies(self, link: usize) -> bool {
        matches!(self, Self::OtherDead) && link == 1
    }

    /// Returns the link that a program with one socket had better use: one that does not fall,
    /// otherwise the first.
    pub(super) const fn better(self) -> usize {
        if matches!(self, Self::First) { 1 } else { 0 }
    }
}

impl Load {
    /// Tells whether set-points are among it.
    pub(super) const fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::LiveVideo)
    }

    /// Returns what is sent for so long.
    pub(super) fn workload(self, seconds: f64) -> Workload {
        let (control_hz, live_hz) =
            if self.is_live() { (COMMAND_HZ, MESSAGE_HZ) } else { (MESSAGE_HZ, 0.0) };
        let has_video = matches!(self, Self::CountedVideo | Self::LiveVideo);
        let video_mbps = if has_video { VIDEO_MBPS } else { 0.0 };
        let none = Workload { recording: false, ..Workload::default() };
        Workload { seconds, control_hz, live_hz, video_mbps, ..none }
    }
}

impl Cell {
    /// Returns a scene.
    pub(super) const fn scene(scene: Scene) -> Self {
        let (to_kbps, fall_s, load) = match scene {
            Scene::Loss85 | Scene::Loss85Always => (10_000.0, 40.0, Load::Counted),
            Scene::Flap => (20.0, 30.0, Load::Counted),
            Scene::Jump => (10_000.0, 30.0, Load::Counted),
            Scene::BesideVideo => (64.0, 30.0, Load::CountedVideo),
        };
        let loss = if matches!(scene, Scene::Loss85Always) { SCENE_LOSS } else { 0.0 };
        let (scene, links, from_mbps, queue_kb) = (Some(scene), Links::Both, 10.0, 500.0);
        Self { scene, links, from_mbps, to_kbps, fall_s, queue_kb, load, loss }
    }

    /// Tells whether its links fall at all.
    pub(super) fn is_fall(&self) -> bool {
        self.to_kbps < self.from_mbps * 1e3
    }

    /// Returns the point that it is, for results.
    pub(super) fn point(&self) -> Value {
        json!({
            "cell": self.to_string(),
            "links": self.links,
            "from_mbps": self.from_mbps,
            "to_kbps": self.to_kbps,
            "fall_s": self.fall_s,
            "queue_kb": self.queue_kb,
            "load": self.load,
            "loss": self.loss,
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scene) = self.scene {
            return f.write_str(&word(scene));
        }
        let Self { from_mbps, to_kbps, fall_s, queue_kb, .. } = self;
        let (links, load) = (word(self.links), word(self.load));
        write!(f, "{links}_{from_mbps}M_{to_kbps}k_{fall_s}s_{queue_kb}kB_{load}")?;
        if self.loss > 0.0 { write!(f, "_loss{}", self.loss) } else { Ok(()) }
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Ok(scene) = Scene::from_str(name, false) {
            return Ok(Self::scene(scene));
        }
        let read = || {
            let words: Vec<&str> = name.split('_').collect();
            let [links, from, to, fall, queue, load, loss @ ..] = &words[..] else { return None };
            let number = |text: &str, unit: &str| {
                text.strip_suffix(unit)?.parse::<f64>().ok().filter(|value| *value > 0.0)
            };
            let loss = match loss {
                [] => 0.0,
                [loss] => crate::arguments::loss(loss.strip_prefix("loss")?).ok()?,
                _ => return None,
            };
            Some(Self {
                scene: None,
                links: Links::from_str(links, false).ok()?,
                from_mbps: number(from, "M")?,
                to_kbps: number(to, "k")?,
                fall_s: number(fall, "s")?,
                queue_kb: number(queue, "kB")?,
                load: Load::from_str(load, false).ok()?,
                loss,
            })
        };
        read().filter(Self::is_fall).ok_or_else(|| {
            format!(
                "`{name}` is no scene, and no cell like both_10M_50k_30s_500kB_counted_loss0.05"
            )
        })
    }
}

/// Returns what a value is called on the command line.
fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_cell_it_is() {
        for name in ["other-dead_0.3M_64k_5s_16kB_live-video_loss0.05", "loss85", "beside-video"] {
            let cell: Cell = name.parse().expect("a cell");
            assert_eq!(cell.to_string(), name);
        }
        let plain: Cell = "both_10M_50k_30s_500kB_counted".parse().expect("a cell");
        assert_eq!((plain.from_mbps, plain.to_kbps, plain.loss), (10.0, 50.0, 0.0));
        for wrong in ["", "both", "both_0.1M_100k_30s_500kB_counted", "all_1M_5k_1s_16kB_live"] {
            assert!(wrong.parse::<Cell>().is_err(), "{wrong}");
        }
    }
}
