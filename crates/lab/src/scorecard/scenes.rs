//! The scenes of the card: each an experiment of the laboratory with parameters that keep it short.
//!
//! What a scene is for, in a line, stands in `about`; docs/scorecard.md says it at length. A rule
//! of the engine that no scene shows is one that nobody can judge: whoever adds the one adds the
//! other.

use std::collections::BTreeMap;

use crate::experiment::file::Inputs;

use super::figures::{
    BOTH_GAP, BOTH_LIVE_AGE, BOTH_MISSED, BOTH_P99, BULK_MISSED, COPIES, DATA_GAP, DOWN_VIDEO,
    EACH_MISSED, EFFICIENCY, FLOW_GAP, Figure, GAP, GOODPUT, JAIN, LIVE_AGE, LIVE_AGE_FALL,
    MESSAGE_P99, MESSAGE_P999, MISSED, OUTSIDE, OVERHEAD, P99, PING, REQUEST, REQUEST_ALONE,
    RETURNED, SENT_BYTES, STALE, STREAM_MISSED, STREAM_MOST, STREAM_P99, TARGET_MISSED, VIDEO,
    WIRE,
};

/// One scene.
#[derive(Debug)]
pub(super) struct Scene {
    /// Its name in the card.
    pub(super) name: &'static str,
    /// What it is for.
    pub(super) about: &'static str,
    pub(super) what: What,
    /// The schemes that play it.
    pub(super) schemes: &'static str,
    /// Which of a result's keys name the point.
    pub(super) by: &'static [&'static str],
    /// A key that results must have with this value, where others are left out.
    pub(super) only: Option<(&'static str, &'static str)>,
    pub(super) figures: &'static [&'static Figure],
    /// Processor time of one seed, about: what progress is told by, and what begins first.
    pub(super) seconds: f64,
}

/// What is run.
#[derive(Debug)]
pub(super) enum What {
    /// Words for `fulmar-lab run`.
    Run(&'static str),
    /// The same of falls, which no seed changes where nothing is lost: each begins a little later
    /// than the one before.
    Fall(&'static str),
    /// The same over a set of recordings, which are not part of the project.
    Recorded { set: &'static str, words: &'static str },
    /// An experiment's file, and what varies in it.
    File(File),
}

/// An experiment's file of experiments/, and the points at which it is run.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: &'static str,
    text: &'static str,
    beside: &'static [(&'static str, &'static str)],
    pub(super) points: &'static [Point],
}

/// A point: its name in the card, keys of the file and their values.
pub(super) type Point = (&'static str, &'static [(&'static str, f64)]);

impl File {
    /// Returns the file and what it names.
    pub(super) fn inputs(&self) -> Inputs {
        let own = |text: &&str| (*text).to_owned();
        let beside: BTreeMap<String, String> =
            self.beside.iter().map(|(name, text)| (own(name), own(text))).collect();
        Inputs { name: format!("experiments/{}", self.name), text: own(&self.text), beside }
    }
}

/// Cases of the scheme `bound` of recorded links, and which case of the others each is the bound
/// of.
pub(super) const BOUNDS: [(&str, &str); 2] = [("any_time", "alone"), ("edf_copies", "beside")];
/// The name of the only point of a scene.
pub(super) const ONLY_POINT: &str = "one";

const FOUR: &str = "fulmar,redundant,min_rtt,udp";
const CONTROL: &[&Figure] = &[&MISSED, &GAP, &P99, &WIRE];
const WITH_LIVE: &[&Figure] = &[&MISSED, &GAP, &P99, &LIVE_AGE, &WIRE];
const WITH_VIDEO: &[&Figure] = &[&EACH_MISSED, &GAP, &P99, &VIDEO, &WIRE];
const WITH_BOTH: &[&Figure] = &[&EACH_MISSED, &GAP, &P99, &LIVE_AGE, &VIDEO, &WIRE];
const OF_RECORDED: &[&Figure] =
    &[&BOTH_MISSED, &BOTH_GAP, &BOTH_P99, &BOTH_LIVE_AGE, &DOWN_VIDEO, &WIRE];
const OF_TCP: &[&Figure] =
    &[&GOODPUT, &FLOW_GAP, &PING, &REQUEST, &REQUEST_ALONE, &JAIN, &OVERHEAD];

/// Links that are dead for two fifths of the time.
const TWO_FIFTHS: &[(&str, f64)] =
    &[("link.a.burst_loss.good_ms", 60.0), ("link.b.burst_loss.good_ms", 60.0)];
/// Links on which no packet is set aside.
const NONE_LATE: &[(&str, f64)] = &[("link.a.reorder", 0.0), ("link.b.reorder", 0.0)];

const PLAIN: Scene = Scene {
    name: "",
    about: "",
    what: What::Run(""),
    schemes: FOUR,
    by: &[],
    only: None,
    figures: WITH_VIDEO,
    seconds: 1.0,
};
const RECORDED: Scene = Scene {
    schemes: "fulmar,fulmar_strict,redundant,min_rtt,udp",
    by: &["case"],
    only: Some(("window", "all")),
    figures: OF_RECORDED,
    seconds: 6.0,
    ..PLAIN
};

/// Every scene, in the order of the card.
pub(super) const ALL: &[Scene] = &[
    Scene {
        name: "blackout",
        about: "Wi-Fi dies for 10 s, LTE stands still for 2 s; control, a flight and video",
        what: What::Run("mixed-blackout"),
        seconds: 1.8,
        ..PLAIN
    },
    Scene {
        name: "failover",
        about: "the faster link dies, stalls or becomes slow, 30 times; control beside 1 Mbit/s, the other a backup or not",
        what: What::Run("failover --deaths 30 --faults dies,stalls,slows"),
        schemes: "fulmar,fulmar_backup,redundant,min_rtt,udp",
        by: &["fault"],
        figures: &[&MISSED, &GAP, &P99, &DATA_GAP, &WIRE],
        seconds: 1.5,
        ..PLAIN
    },
    Scene {
        name: "lossy",
        about: "two links that lose 5 and 10 %; control and 8 Mbit/s of video",
        what: What::File(File {
            name: "lossy.toml",
            text: include_str!("../../experiments/lossy.toml"),
            beside: &[],
            points: &[(ONLY_POINT, &[])],
        }),
        seconds: 0.7,
        ..PLAIN
    },
    Scene {
        name: "bursts",
        about: "links that lose everything for 40 ms, again and again; control and video, or datagrams of another program",
        what: What::File(File {
            name: "bursts.toml",
            text: include_str!("../../experiments/bursts.toml"),
            beside: &[],
            points: &[
                ("fifth", &[]),
                ("two-fifths", TWO_FIFTHS),
                (
                    "two-fifths-far",
                    &[
                        TWO_FIFTHS[0],
                        TWO_FIFTHS[1],
                        ("link.a.delay_ms", 70.0),
                        ("link.b.delay_ms", 90.0),
                    ],
                ),
                ("bulk", &[("stream.video.mbps", 0.0), ("stream.bulk.rate_hz", 500.0)]),
            ],
        }),
        figures: &[&EACH_MISSED, &GAP, &P99, &VIDEO, &BULK_MISSED, &WIRE],
        seconds: 4.5,
        ..PLAIN
    },
    Scene {
        name: "reordering",
        about: "delays that vary by more than the distance of packets, which overtake each other; control and video",
        what: What::File(File {
            name: "reordering.toml",
            text: include_str!("../../experiments/reordering.toml"),
            beside: &[],
            points: &[
                ("some", &[]),
                (
                    "jitter-4ms",
                    &[
                        ("link.a.jitter_ms", 4.0),
                        ("link.b.jitter_ms", 4.0),
                        NONE_LATE[0],
                        NONE_LATE[1],
                    ],
                ),
                (
                    "jitter-8ms",
                    &[
                        ("link.a.jitter_ms", 8.0),
                        ("link.b.jitter_ms", 8.0),
                        NONE_LATE[0],
                        NONE_LATE[1],
                    ],
                ),
            ],
        }),
        seconds: 3.0,
        ..PLAIN
    },
    Scene {
        name: "mtu",
        about: "what is longer than a link takes vanishes, always, or for a while where there is no other; control and video",
        what: What::File(File {
            name: "mtu.toml",
            text: include_str!("../../experiments/mtu.toml"),
            beside: &[("mtu-slots.txt", include_str!("../../experiments/mtu-slots.txt"))],
            points: &[
                ("always", &[("link.a.slot_loss.slot_ms", 1e6)]),
                ("changes-alone", &[("link.b.loss", 1.0)]),
            ],
        }),
        seconds: 3.4,
        ..PLAIN
    },
    Scene {
        name: "backup",
        about: "a backup: silent while the first link works, whatever its answers take, and there when it does not",
        what: What::File(File {
            name: "backup.toml",
            text: include_str!("../../experiments/backup.toml"),
            beside: &[],
            points: &[
                ("calm", &[]),
                ("jitter", &[("link.wifi.jitter_ms", 8.0)]),
                ("dies", &[("link.wifi.outage.0.seconds", 1.0)]),
            ],
        }),
        schemes: "fulmar_backup,redundant,min_rtt,udp",
        figures: WITH_LIVE,
        seconds: 1.6,
        ..PLAIN
    },
    Scene {
        name: "crowded",
        about: "more video than both links carry, by what their queues hold: half a second, and next to nothing",
        what: What::File(File {
            name: "crowded.toml",
            text: include_str!("../../experiments/crowded.toml"),
            beside: &[],
            points: &[
                ("deep", &[]),
                ("20kB", &[("link.a.queue_bytes", 20_000.0), ("link.b.queue_bytes", 20_000.0)]),
                ("10kB", &[("link.a.queue_bytes", 10_000.0), ("link.b.queue_bytes", 10_000.0)]),
                ("5kB", &[("link.a.queue_bytes", 5_000.0), ("link.b.queue_bytes", 5_000.0)]),
            ],
        }),
        seconds: 4.5,
        ..PLAIN
    },
    Scene {
        name: "live",
        about: "age of set-points beside video that fits, and beside more than both links carry",
        what: What::File(File {
            name: "live.toml",
            text: include_str!("../../experiments/live.toml"),
            beside: &[],
            points: &[
                ("fits", &[]),
                ("too-much", &[("stream.video.mbps", 20.0)]),
                ("lossy", &[("link.wifi.loss", 0.05), ("link.lte.loss", 0.05)]),
            ],
        }),
        figures: WITH_BOTH,
        seconds: 3.0,
        ..PLAIN
    },
    Scene {
        name: "jumps",
        about: "delays that jump by 100 ms and back without a queue; control, set-points and video",
        what: What::File(File {
            name: "jumps.toml",
            text: include_str!("../../experiments/jumps.toml"),
            beside: &[
                ("jumps-a.csv", include_str!("../../experiments/jumps-a.csv")),
                ("jumps-b.csv", include_str!("../../experiments/jumps-b.csv")),
            ],
            points: &[(ONLY_POINT, &[])],
        }),
        figures: WITH_BOTH,
        seconds: 1.0,
        ..PLAIN
    },
    Scene {
        name: "clocks",
        about: "clocks that run apart by 0, 100 and 500 millionths, and one that jumps; control, set-points and video",
        what: What::File(File {
            name: "clocks.toml",
            text: include_str!("../../experiments/clocks.toml"),
            beside: &[],
            points: &[
                ("still", &[]),
                ("100ppm", &[("host.drone.clock_skew_ppm", 100.0)]),
                ("500ppm", &[("host.drone.clock_skew_ppm", 500.0)]),
                ("slow-500ppm", &[("host.drone.clock_skew_ppm", -500.0)]),
                ("steps", &[("host.drone.clock_step.0.by_ms", -2_000.0)]),
            ],
        }),
        schemes: "fulmar,redundant,udp",
        figures: WITH_BOTH,
        seconds: 5.0,
        ..PLAIN
    },
    Scene {
        name: "thin",
        about: "control, and set-points beside commands, over two links of 8 kbit/s to 1 Mbit/s",
        what: What::Run("thin-links --rates-kbps 8,16,24,32,48,64,96,128,192,256,1000"),
        by: &["case", "rate_kbps"],
        figures: WITH_LIVE,
        seconds: 10.0,
        ..PLAIN
    },
    Scene {
        name: "thin-lossy",
        about: "the same where both lose 5 %",
        what: What::Run("thin-links --rates-kbps 8,16,24,32,48,64,96,128,192,256,1000 --loss 0.05"),
        by: &["case", "rate_kbps"],
        figures: WITH_LIVE,
        seconds: 10.0,
        ..PLAIN
    },
    Scene {
        name: "thin-one",
        about: "the same over one link, without loss",
        what: What::Run("thin-links --rates-kbps 16,32,64,128,256 --links 1"),
        by: &["case", "rate_kbps"],
        figures: WITH_LIVE,
        seconds: 3.0,
        ..PLAIN
    },
    Scene {
        name: "falls",
        about: "one and both links fall from any rate to any rate, and rise again; control alone",
        what: What::Fall(
            "falls --only both_10M_64k_30s_500kB_counted,both_10M_20k_30s_500kB_counted,both_50M_500k_5s_64kB_counted,\
             both_10M_5k_5s_16kB_counted,both_1M_100k_30s_64kB_counted_loss0.05,first_10M_64k_30s_500kB_counted,\
             second_3M_20k_5s_64kB_counted,alone_10M_50k_30s_500kB_counted,other-dead_10M_64k_30s_500kB_counted,\
             loss85,flap,jump",
        ),
        by: &["cell"],
        figures: CONTROL,
        seconds: 2.5,
        ..PLAIN
    },
    Scene {
        name: "falls-live",
        about: "the same with set-points, alone and beside video",
        what: What::Fall(
            "falls --only alone_0.3M_64k_30s_16kB_live,both_0.3M_10k_30s_16kB_live_loss0.05,both_10M_64k_30s_500kB_live,\
             both_3M_200k_30s_64kB_live-video,first_10M_100k_30s_64kB_live-video",
        ),
        by: &["cell"],
        figures: &[&MISSED, &GAP, &LIVE_AGE, &LIVE_AGE_FALL, &WIRE],
        seconds: 2.0,
        ..PLAIN
    },
    Scene {
        name: "falls-video",
        about: "the same with control beside video",
        what: What::Fall(
            "falls --only beside-video,both_50M_200k_30s_1000kB_counted-video,first_10M_20k_30s_64kB_counted-video",
        ),
        by: &["cell"],
        figures: CONTROL,
        seconds: 2.5,
        ..PLAIN
    },
    Scene {
        name: "target",
        about: "control alone over links of every kind, beside plain copies and with a target of 0.999 in 100 ms",
        what: What::Run(
            "conclone-target --links independent,bursts,long_bursts,correlated,changing,dying,dear,thin --classes control \
             --targets 0.999 --deadlines-ms 100 --messages 36000",
        ),
        schemes: "fulmar,fulmar_target,redundant,min_rtt,udp",
        by: &["links"],
        figures: &[&TARGET_MISSED, &STALE, &COPIES, &WIRE],
        seconds: 16.0,
        ..PLAIN
    },
    Scene {
        name: "messages",
        about: "messages that must all arrive, over one path that loses 2 and 10 %",
        what: What::Run("lrt-tcp --messages 5000 --loss 0.02,0.1"),
        schemes: "fulmar,bound,ideal_arq,udp",
        by: &["loss"],
        figures: &[&MESSAGE_P99, &MESSAGE_P999, &SENT_BYTES, &RETURNED],
        seconds: 0.2,
        ..PLAIN
    },
    Scene {
        name: "messages-bursts",
        about: "the same over two paths that lose 5 % in bursts",
        what: What::Run("lrt-tcp --messages 5000 --links 2 --burst 50 --loss 0.05"),
        schemes: "fulmar,bound,ideal_arq,udp",
        figures: &[&MESSAGE_P99, &MESSAGE_P999, &SENT_BYTES, &RETURNED],
        seconds: 0.2,
        ..PLAIN
    },
    Scene {
        name: "messages-turns",
        about: "the same over two links that fall to a twentieth in turn",
        what: What::File(File {
            name: "turns.toml",
            text: include_str!("../../experiments/turns.toml"),
            beside: &[],
            points: &[
                (ONLY_POINT, &[]),
                ("lossy", &[("link.a.loss", 0.01), ("link.b.loss", 0.01)]),
                ("much", &[("stream.messages.rate_hz", 1_000.0)]),
            ],
        }),
        schemes: "fulmar,udp",
        figures: &[&STREAM_MISSED, &STREAM_P99, &STREAM_MOST, &WIRE],
        seconds: 1.0,
        ..PLAIN
    },
    Scene {
        name: "tcp",
        about: "TCP through the tunnel: one flow, two, eight, beside requests and short connections; links that lose, have long delays, or die",
        what: What::Run(
            "bulk-lossy --points lossy,clean,long,long-clean,one-dies,two,many,requests,connections --cc cubic --seconds 15",
        ),
        schemes: "fulmar,min_rtt",
        by: &["point"],
        figures: OF_TCP,
        seconds: 7.0,
        ..PLAIN
    },
    Scene {
        name: "tcp-thin",
        about: "the same over links of 128 and 500 kbit/s, with control beside it, and over one of 128",
        what: What::Run("bulk-lossy --points thin,thin-one --cc cubic --seconds 60"),
        schemes: "fulmar,min_rtt",
        by: &["point"],
        figures: &[&GOODPUT, &BOTH_MISSED, &FLOW_GAP, &PING, &OVERHEAD],
        seconds: 1.0,
        ..PLAIN
    },
    Scene {
        name: "tcp-beside-us",
        about: "a plain TCP flow of somebody else's shares the first link with TCP in our tunnel and with control",
        what: What::Run("bulk-lossy --points outside,outside-far --cc cubic --seconds 30"),
        schemes: "fulmar,min_rtt",
        by: &["point"],
        figures: &[&GOODPUT, &OUTSIDE, &BOTH_MISSED, &FLOW_GAP, &PING, &OVERHEAD],
        seconds: 4.0,
        ..PLAIN
    },
    Scene {
        name: "relays",
        about: "a third of a lap past four masts: TCP over relays, and over single links",
        what: What::Run("flowcode-flight --cc cubic --laps 0.3"),
        schemes: "fulmar,min_rtt",
        by: &["region"],
        figures: &[&GOODPUT, &EFFICIENCY],
        seconds: 0.6,
        ..PLAIN
    },
    Scene {
        name: "lte",
        about: "two recorded LTE links, a bad window and one at random; control, set-points, and the same beside video",
        what: What::Recorded {
            set: "lte-drives:att+verizon",
            words: "--windows worst:1,random:1 --seconds 60 --no-recording",
        },
        ..RECORDED
    },
    Scene {
        name: "lte-tenth",
        about: "the same with a tenth of the rate from the drone, and a third link",
        what: What::Recorded {
            set: "lte-drives:att+verizon+tmobile",
            words: "--windows worst:1,random:1 --seconds 60 --no-recording --to-station 0.1",
        },
        ..RECORDED
    },
    Scene {
        name: "wifi",
        about: "two recorded Wi-Fi links",
        what: What::Recorded {
            set: "wifi:ap1+ap2",
            words: "--windows worst:2,random:1 --seconds 60 --no-recording",
        },
        ..RECORDED
    },
    Scene {
        name: "operators",
        about: "two operators, recorded at the same time from a car",
        what: What::Recorded {
            set: "operators:att+tmobile",
            words: "--windows worst:1,random:1 --seconds 60 --no-recording",
        },
        seconds: 2.2,
        ..RECORDED
    },
    Scene {
        name: "starlink",
        about: "a satellite link and LTE",
        what: What::Recorded {
            set: "starlink-lte:starlink+att",
            words: "--windows worst:1,random:1 --seconds 60 --no-recording",
        },
        seconds: 7.8,
        ..RECORDED
    },
    Scene {
        name: "5g",
        about: "two 5G links: round trips that change",
        what: What::Recorded {
            set: "5g-rtt:south1+south2",
            words: "--windows worst:1,random:1 --seconds 60 --no-recording",
        },
        ..RECORDED
    },
];
