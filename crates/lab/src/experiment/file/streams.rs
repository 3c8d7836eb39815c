//! `[[stream]]`: the kinds of streams and their keys, in one table for reading them and for `--help`.

use core::ops::RangeInclusive;

use toml_keys::{Section, did_you_mean};

use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::Workload;
use crate::testbed::STAMP_BYTES;

/// Packets of a kind per second; none leaves the stream out.
const RATE_HZ: RangeInclusive<f64> = 0.0..=1_000.0;
/// Bytes of a message: room for what is measured on it, and one datagram on every path.
const BYTES: RangeInclusive<f64> = STAMP_BYTES as f64..=1_200.0;
/// Rate of video; none leaves it out.
const MBPS: RangeInclusive<f64> = 0.0..=1_000.0;
/// How video is spread in time.
const SHAPES: [(&str, VideoShape); 2] =
    [("camera", VideoShape::Camera), ("even", VideoShape::Even)];

/// Every kind of stream.
pub(super) const KINDS: [Kind; 4] = [
    Kind {
        word: "control",
        means: "messages of which each counts, both ways",
        keys: &[
            Key::new("rate_hz", RATE_HZ, 50.0, |workload, hz| workload.control_hz = hz),
            Key::whole("bytes", BYTES, 100.0, |workload, bytes| {
                workload.control_bytes = bytes as usize;
            }),
        ],
        has_shape: false,
        figures: &["control_"],
        is_sent: |workload| workload.control_hz > 0.0,
    },
    Kind {
        word: "live",
        means: "set-points of 50 bytes of which the newest counts, both ways",
        keys: &[Key::new("rate_hz", RATE_HZ, 50.0, |workload, hz| workload.live_hz = hz)],
        has_shape: false,
        figures: &["live_"],
        is_sent: |workload| workload.live_hz > 0.0,
    },
    Kind {
        word: "flight",
        means: "the recorded flight, MAVLink both ways",
        keys: &[],
        has_shape: false,
        figures: &["mavlink"],
        is_sent: |workload| workload.recording,
    },
    Kind {
        word: "video",
        means: "what the drone's camera sends, 30 frames a second",
        keys: &[Key::new("mbps", MBPS, 5.8, |workload, mbps| workload.video_mbps = mbps)],
        has_shape: true,
        figures: &["video_", "data_goodput_mbps"],
        is_sent: |workload| workload.video_mbps > 0.0,
    },
];

/// The kinds that an experiment of their own measures, and its name.
const ELSEWHERE: [(&str, &str); 3] = [
    ("messages", "run lrt-tcp or message-share"),
    ("tcp", "run throughput; there is no kernel in the world: its TCP needs --emu"),
    ("ping", "use `fulmar-lab emulate`"),
];

/// A kind of stream.
pub(super) struct Kind {
    /// What files call it.
    pub(super) word: &'static str,
    /// What it sends.
    pub(super) means: &'static str,
    /// The numbers that it takes.
    pub(super) keys: &'static [Key],
    /// Whether it takes the shape of video.
    has_shape: bool,
    /// What its figures begin with.
    pub(super) figures: &'static [&'static str],
    /// Whether a workload sends any of it.
    pub(super) is_sent: fn(&Workload) -> bool,
}

/// A number that a stream takes.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) range: RangeInclusive<f64>,
    is_whole: bool,
    pub(super) default: f64,
    set: fn(&mut Workload, f64),
}

impl Key {
    const fn new(
        name: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
        set: fn(&mut Workload, f64),
    ) -> Self {
        Self { name, range, is_whole: false, default, set }
    }

    const fn whole(
        name: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
        set: fn(&mut Workload, f64),
    ) -> Self {
        Self { is_whole: true, ..Self::new(name, range, default, set) }
    }

    /// Says which values the key takes.
    pub(super) fn takes(&self) -> String {
        let (from, to, default) = (self.range.start(), self.range.end(), self.default);
        let what = if self.is_whole { "whole, " } else { "" };
        format!("{what}{from} to {to}, {default} unless said")
    }

    fn read(&self, section: &Section<'_>, workload: &mut Workload) {
        let value = if self.is_whole {
            let range = *self.range.start() as u64..=*self.range.end() as u64;
            section.number(self.name, range).map(|value| value as f64)
        } else {
            section.fraction(self.name, self.range.clone())
        };
        (self.set)(workload, value.unwrap_or(self.default));
    }
}

/// The streams of a file.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// What is sent.
    pub(super) workload: Workload,
    /// The kinds that there are.
    pub(super) kinds: Vec<&'static str>,
}

/// Reads every stream.
pub(super) fn read(root: &Section<'_>) -> Streams {
    let mut streams = Streams { workload: Workload::silent(), kinds: Vec::new() };
    let mut is_understood = root.require("stream");
    for mut section in root.sections("stream") {
        // Without its kind, what its keys mean is not known.
        let Some(kind) = kind(&section) else {
            is_understood = false;
            continue;
        };
        if streams.kinds.contains(&kind.word) {
            section.wrong("kind", format!("there is another stream of kind {:?}", kind.word));
        }
        section.call(kind.word);
        for key in kind.keys {
            key.read(&section, &mut streams.workload);
        }
        if kind.has_shape {
            let shape = section.choice("shape", &SHAPES);
            streams.workload.video_shape = shape.unwrap_or(VideoShape::Camera);
        }
        streams.workload.recording |= kind.word == "flight";
        streams.kinds.push(kind.word);
        section.finish();
    }
    if !is_understood {
        // It may be any of them.
        streams.kinds = KINDS.iter().map(|kind| kind.word).collect();
    }
    streams
}

/// Lists the kinds and their keys for `--help`.
pub(super) fn help() -> String {
    let line = |kind: &Kind| {
        let keys = kind.keys.iter().map(|key| format!("{} ({})", key.name, key.takes()));
        let shape = kind.has_shape.then(|| "shape (camera or even)".to_owned());
        let keys: Vec<String> = keys.chain(shape).collect();
        let keys = if keys.is_empty() { "no keys".to_owned() } else { keys.join("; ") };
        format!("  {}: {}\n    {keys}\n", kind.word, kind.means)
    };
    KINDS.iter().map(line).collect()
}

fn kind(section: &Section<'_>) -> Option<&'static Kind> {
    let word = section.required_text("kind")?;
    let kind = KINDS.iter().find(|kind| kind.word == word);
    if kind.is_none() {
        let words: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
        let what = match ELSEWHERE.iter().find(|(other, _)| *other == word) {
            Some((_, what)) => format!("{word:?} does not run beside other streams: {what}"),
            None => {
                let meant = did_you_mean(word, &words);
                format!("{word:?} is not one of {}{meant}", words.join(", "))
            }
        };
        section.wrong("kind", what);
    }
    kind
}
