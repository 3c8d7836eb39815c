//! `[[stream]]`: the kinds of streams and their keys, in one table for reading them and for
//! `--help`.

use core::ops::RangeInclusive;

use toml_keys::{Section, did_you_mean};

use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::{Flow, Workload};
use crate::testbed::{Direction, FLOW_MAX, STAMP_BYTES, Stream, TELEMETRY_BYTES};

/// Packets of a kind per second; none leaves the stream out.
const RATE_HZ: RangeInclusive<f64> = 0.0..=1_000.0;
/// Bytes of a message: room for what is measured on it, and one datagram on every path.
const BYTES: RangeInclusive<f64> = STAMP_BYTES as f64..=1_200.0;
/// Bytes of a telemetry frame.
const FRAME_BYTES: RangeInclusive<f64> =
    *TELEMETRY_BYTES.start() as f64..=*TELEMETRY_BYTES.end() as f64;
/// Rate of video; none leaves it out.
const MBPS: RangeInclusive<f64> = 0.0..=1_000.0;
/// How video is spread in time.
const SHAPES: [(&str, VideoShape); 2] =
    [("camera", VideoShape::Camera), ("even", VideoShape::Even)];

/// How late a packet of a flow may be, in milliseconds.
const DEADLINE_MS: RangeInclusive<f64> = 1.0..=60_000.0;
/// From where a flow is sent; none for both ends.
const FROM: [(&str, Option<Direction>); 5] = [
    ("both", None),
    ("drone", Some(Direction::Down)),
    ("station", Some(Direction::Up)),
    ("down", Some(Direction::Down)),
    ("up", Some(Direction::Up)),
];
/// The longest name of a stream.
const NAME_MAX: usize = 32;

const RATE: Key = Key::new("rate_hz", RATE_HZ, 50.0, |flow, hz| flow.rate_hz = hz);

/// Every kind of stream.
pub(super) const KINDS: [Kind; 8] = [
    Kind {
        word: "control",
        means: "messages of which each counts, both ways",
        stream: Stream::Control,
        keys: &[RATE, size(100.0), deadline(100.0)],
        way: None,
        figures: &["control_"],
        enter: |workload, flow| {
            (workload.control_hz, workload.control_bytes) = (flow.rate_hz, flow.bytes);
        },
        is_sent: |workload| workload.control_hz > 0.0,
    },
    Kind {
        word: "live",
        means: "set-points of which the newest counts, both ways",
        stream: Stream::Live,
        keys: &[RATE, size(50.0), deadline(100.0)],
        way: None,
        figures: &["live_"],
        enter: |workload, flow| {
            (workload.live_hz, workload.live_bytes) = (flow.rate_hz, flow.bytes);
        },
        is_sent: |workload| workload.live_hz > 0.0,
    },
    Kind {
        word: "flight",
        means: "the recorded flight, MAVLink both ways",
        stream: Stream::Mavlink,
        keys: &[deadline(250.0)],
        way: None,
        figures: &["mavlink"],
        enter: |workload, _| workload.recording = true,
        is_sent: |workload| workload.recording,
    },
    Kind {
        word: "telemetry",
        means: "what a vehicle says of itself, in MAVLink, from the drone",
        stream: Stream::Telemetry,
        keys: &[RATE, Key { range: FRAME_BYTES, ..size(40.0) }, deadline(250.0)],
        way: Some(Direction::Down),
        figures: &[],
        enter: |_, _| {},
        is_sent: |_| true,
    },
    Kind {
        word: "video",
        means: "what a camera sends, 30 frames a second, from the drone",
        stream: Stream::Video,
        keys: &[Key::new("mbps", MBPS, 5.8, |flow, mbps| flow.mbps = mbps), deadline(250.0)],
        way: Some(Direction::Down),
        figures: &["video_", "data_goodput_mbps"],
        enter: |workload, flow| {
            (workload.video_mbps, workload.video_shape) = (flow.mbps, flow.shape);
        },
        is_sent: |workload| workload.video_mbps > 0.0,
    },
    Kind {
        word: "datagrams",
        means: "what another program sends through the tunnel, both ways",
        stream: Stream::Datagrams,
        keys: &[RATE, size(200.0), deadline(250.0)],
        way: None,
        figures: &[],
        enter: |_, _| {},
        is_sent: |_| true,
    },
    Kind {
        word: "messages",
        means: "messages that must all arrive, in order, both ways",
        stream: Stream::Messages,
        keys: &[RATE, size(1_000.0), deadline(500.0)],
        way: None,
        figures: &[],
        enter: |_, _| {},
        is_sent: |_| true,
    },
    Kind {
        word: "ping",
        means: "datagrams through the tunnel that come back, from the drone: delays are round trips",
        stream: Stream::Ping,
        keys: &[Key { default: 5.0, ..RATE }, size(64.0), deadline(500.0)],
        way: Some(Direction::Down),
        figures: &[],
        enter: |_, _| {},
        is_sent: |_| true,
    },
];

/// The kinds that are called otherwise, or that an experiment of their own measures.
const ELSEWHERE: [(&str, &str); 1] = [(
    "tcp",
    "it does not run beside other streams: run bulk-lossy, in either life, or throughput --emu",
)];

/// A kind of stream.
pub(super) struct Kind {
    /// What files call it.
    pub(super) word: &'static str,
    /// What it sends.
    pub(super) means: &'static str,
    stream: Stream,
    /// The numbers that it takes.
    pub(super) keys: &'static [Key],
    /// From where it is sent, unless said.
    way: Option<Direction>,
    /// What the figures of its first stream begin with; none, where all streams of the kind have
    /// those of their names.
    pub(super) figures: &'static [&'static str],
    /// Makes a flow the workload's own stream of the kind.
    enter: fn(&mut Workload, &Flow),
    /// Whether a workload has a stream of its own of the kind, and any rate.
    pub(super) is_sent: fn(&Workload) -> bool,
}

/// A number that a stream takes.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) range: RangeInclusive<f64>,
    is_whole: bool,
    pub(super) default: f64,
    set: fn(&mut Flow, f64),
}

impl Key {
    const fn new(
        name: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
        set: fn(&mut Flow, f64),
    ) -> Self {
        Self { name, range, is_whole: false, default, set }
    }

    /// Says which values the key takes.
    pub(super) fn takes(&self) -> String {
        let (from, to, default) = (self.range.start(), self.range.end(), self.default);
        let what = if self.is_whole { "whole, " } else { "" };
        format!("{what}{from} to {to}, {default} unless said")
    }

    fn read(&self, section: &Section<'_>, flow: &mut Flow) {
        let value = if self.is_whole {
            let range = *self.range.start() as u64..=*self.range.end() as u64;
            section.number(self.name, range).map(|value| value as f64)
        } else {
            section.fraction(self.name, self.range.clone())
        };
        (self.set)(flow, value.unwrap_or(self.default));
    }
}

/// The streams of a file.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// What is sent.
    pub(super) workload: Workload,
    /// The kinds of which the workload has a stream of its own, whose figures bear the kind's name.
    pub(super) kinds: Vec<&'static str>,
    /// Those streams' names, where they are given one.
    own: Vec<(&'static str, Option<String>)>,
    /// The kind of every stream.
    all: Vec<&'static str>,
}

/// Reads every stream.
///
/// The first of a kind that goes as the kind does is the workload's own; it has a name only where
/// it is given one. Every other stream is a flow with a name.
pub(super) fn read(root: &Section<'_>) -> Streams {
    let (kinds, own, all) = (Vec::new(), Vec::new(), Vec::new());
    let mut streams = Streams { workload: Workload::silent(), kinds, own, all };
    let (mut names, mut is_understood) = (Vec::new(), root.require("stream"));
    for section in root.sections("stream") {
        // Without a kind, nobody knows what its keys mean.
        let Some(kind) = kind(&section) else {
            is_understood = false;
            continue;
        };
        streams.add(section, kind, &mut names);
    }
    if streams.workload.flows.iter().any(|flow| flow.number > FLOW_MAX) {
        root.wrong("stream", format!("more than {FLOW_MAX} streams with names"));
    }
    if !is_understood {
        // It may be any of them.
        streams.kinds = KINDS.iter().map(|kind| kind.word).collect();
    }
    streams
}

impl Streams {
    /// Says which stream the figures with a kind's name describe, where there are several of the
    /// kind.
    pub(super) fn which(&self, kind: &str) -> Option<&str> {
        let is_one_of_several = self.all.iter().filter(|word| **word == kind).count() > 1;
        let (_, name) = self.own.iter().find(|(word, _)| *word == kind)?;
        is_one_of_several.then(|| name.as_deref().unwrap_or("the one without a name"))
    }

    fn add(&mut self, mut section: Section<'_>, kind: &'static Kind, names: &mut Vec<String>) {
        let given = section.text("name");
        let name = given.unwrap_or(kind.word).to_owned();
        check_name(&section, &name, names);
        section.call(&name);
        names.push(name.clone());
        let mut flow = kind.flow(name);
        for key in kind.keys {
            key.read(&section, &mut flow);
        }
        if kind.stream == Stream::Video {
            flow.shape = section.choice("shape", &SHAPES).unwrap_or(flow.shape);
        }
        // A recording has its two directions.
        if kind.stream != Stream::Mavlink {
            flow.way = section.choice("from", &FROM).unwrap_or(kind.way);
        }
        if kind.stream == Stream::Ping && flow.way.is_none() {
            section.wrong("from", "a ping is from one end: \"drone\" or \"station\"");
        }
        let is_named = given.is_some() || section.has("deadline_ms");
        self.all.push(kind.word);
        let may_be_own = !kind.figures.is_empty() && flow.way == kind.way;
        if may_be_own && !self.kinds.contains(&kind.word) {
            (kind.enter)(&mut self.workload, &flow);
            self.kinds.push(kind.word);
            self.own.push((kind.word, given.map(str::to_owned)));
            if is_named {
                self.workload.flows.push(flow);
            }
        } else if kind.stream == Stream::Mavlink {
            section.wrong("kind", "the flight was recorded once: there is another of this kind");
        } else {
            flow.number = self.next_number();
            self.workload.flows.push(flow);
        }
        section.finish();
    }

    fn next_number(&self) -> u8 {
        let last = self.workload.flows.iter().map(|flow| flow.number).max();
        last.unwrap_or(0).saturating_add(1)
    }
}

impl Kind {
    /// Makes a flow that has yet to be told its numbers.
    fn flow(&self, name: String) -> Flow {
        let (kind, way, shape) = (self.stream, self.way, VideoShape::Camera);
        let (rate_hz, bytes, mbps, deadline_ms) = (0.0, 0, 0.0, 0.0);
        Flow { name, kind, number: 0, way, rate_hz, bytes, mbps, shape, deadline_ms }
    }
}

/// Lists the kinds and their keys for `--help`.
pub(super) fn help() -> String {
    let line = |kind: &Kind| {
        let keys = kind.keys.iter().map(|key| format!("{} ({})", key.name, key.takes()));
        let shape = (kind.stream == Stream::Video).then(|| "shape (camera or even)".to_owned());
        let from = match kind.stream {
            Stream::Mavlink => None,
            Stream::Ping => Some("from (drone or station)".to_owned()),
            _ => Some("from (drone, station or both)".to_owned()),
        };
        let keys: Vec<String> = keys.chain(shape).chain(from).collect();
        format!("  {}: {}\n    name; {}\n", kind.word, kind.means, keys.join("; "))
    };
    KINDS.iter().map(line).collect()
}

fn kind(section: &Section<'_>) -> Option<&'static Kind> {
    let word = section.required_text("kind")?;
    let kind = KINDS.iter().find(|kind| kind.word == word);
    if kind.is_none() {
        let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
        let what = match ELSEWHERE.iter().find(|(other, _)| *other == word) {
            Some((_, what)) => format!("{word:?}: {what}"),
            None => {
                let meant = did_you_mean(word, &words);
                format!("{word:?} is not one of {}{meant}", words.join(", "))
            }
        };
        section.wrong("kind", what);
    }
    kind
}

fn check_name(section: &Section<'_>, name: &str, names: &[String]) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        section.wrong("name", format!("{name:?} is not 1 to {NAME_MAX} letters, digits, - or _"));
    } else if names.iter().any(|other| other == name) {
        section
            .wrong("name", format!("there is another stream {name:?}: give it a name of its own"));
    }
}

const fn size(default: f64) -> Key {
    let key = Key::new("bytes", BYTES, default, |flow, bytes| flow.bytes = bytes as usize);
    Key { is_whole: true, ..key }
}

const fn deadline(default: f64) -> Key {
    Key::new("deadline_ms", DEADLINE_MS, default, |flow, ms| flow.deadline_ms = ms)
}
