//! Reliability targets: no more copies than a target takes, and no more misses than it allows [specs/delivery.md §6].
//!
//! Fifty messages a second go from the station to the drone, as set-points and commands do.

use proto::select::Policy;
use proto::{
    Duration, Instant, Reliability, ReliabilityState, ReliabilityStatus, SessionConfig, Source,
    Target,
};

use fulmar_world::{DRONE, Pair, STATION};

/// Messages a second.
const HZ: u64 = 50;
const MESSAGE_BYTES: usize = 60;

/// What a run came to.
#[derive(Debug)]
struct Run {
    /// Messages that were not there in time.
    misses: usize,
    messages: usize,
    /// Share of the time in which the newest message was older than the deadline.
    stale_share: f64,
    /// Bytes that left at both ends, over all paths.
    bytes: u64,
    copies: f64,
    status: Option<ReliabilityStatus>,
    other: Option<ReliabilityStatus>,
}

struct Plan {
    scenario: String,
    policy: Policy,
    target: Option<f64>,
    deadline_ms: u64,
    /// What counts begins, and ends, so long after the first message.
    counted_s: (u64, u64),
}

fn link(name: &str, keys: &str) -> String {
    format!("[[link]]\nname = \"{name}\"\nbetween = [\"drone\", \"station\"]\n{keys}\n")
}

fn scenario(links: &[String]) -> String {
    format!(
        "name = \"test\"\nseconds = 100000\n\
         [[host]]\nname = \"drone\"\nclock_offset_ms = 1234.5\nclock_skew_ppm = 15\n\
         [[host]]\nname = \"station\"\nclock_offset_ms = -321.25\nclock_skew_ppm = -10\n{}",
        links.concat()
    )
}

fn wire_bytes(pair: &Pair) -> u64 {
    [DRONE, STATION].iter().map(|&host| sent_bytes(pair, host)).sum()
}

fn sent_bytes(pair: &Pair, host: usize) -> u64 {
    let status = pair.status(host).expect("connected");
    status.paths.iter().map(|path| path.sent.1 + 28 * path.sent.0).sum()
}

impl Plan {
    fn run(&self, seed: u64) -> Run {
        let deadline = Duration::from_millis(self.deadline_ms);
        let target = self.target.map(|share| Target::new(share, deadline).expect("a target"));
        let reliability = Reliability { control: target, liveness: target, live: target };
        let config = SessionConfig { reliability, ..SessionConfig::default() };
        let mut pair = Pair::new(&self.scenario, seed, config);
        while [DRONE, STATION].iter().any(|&host| pair.active_paths(host) < 2) {
            assert!(pair.step(Instant::from_millis(30_000)), "seed {seed}: not connected");
        }
        pair.run_for(Duration::from_secs(2));
        let (from, until) = (self.counted_s.0 * HZ, self.counted_s.1 * HZ);
        let start = pair.world.now();
        let source = Source::Declared { channel: 1, policy: self.policy };
        let (mut sent, mut bytes_before) = (Vec::new(), 0);
        for message in 0..until {
            // No multiple of anything that links do at fixed times.
            pair.run_until(start + Duration::from_micros(message * 20_003));
            if message == from {
                bytes_before = wire_bytes(&pair);
            }
            let mut bytes = [0; MESSAGE_BYTES];
            bytes[..8].copy_from_slice(&message.to_be_bytes());
            sent.push(pair.world.now());
            for host in [STATION, DRONE] {
                pair.send(host, source, &bytes).expect("there is room");
            }
        }
        let bytes = wire_bytes(&pair) - bytes_before;
        pair.run_for(Duration::from_secs(3));
        self.judge(&pair, &sent, from as usize, deadline, bytes)
    }

    fn judge(
        &self,
        pair: &Pair,
        sent: &[Instant],
        from: usize,
        deadline: Duration,
        bytes: u64,
    ) -> Run {
        let mut arrived: Vec<Option<Instant>> = vec![None; sent.len()];
        for seen in &pair.seen[DRONE] {
            let number = u64::from_be_bytes(seen.delivery.bytes[..8].try_into().expect("8 bytes"));
            let known = &mut arrived[number as usize];
            *known = Some(known.map_or(seen.at, |at| at.min(seen.at)));
        }
        let late =
            |index: &usize| arrived[*index].is_none_or(|at| at.since(sent[*index]) > deadline);
        let misses = (from..sent.len()).filter(late).count();
        // The newest is too old from its own deadline until a newer one comes.
        let mut stale = Duration::ZERO;
        let mut next = None;
        for index in (from + 1..sent.len()).rev() {
            next = [next, arrived[index]].into_iter().flatten().min();
            let gap = sent[index].since(sent[index - 1]);
            let from = sent[index - 1] + deadline;
            stale += next.map_or(gap, |at: Instant| at.since(from).min(gap));
        }
        let time = sent[sent.len() - 1].since(sent[from]);
        let status = pair.status(STATION).expect("connected");
        let copies: u64 = status.classes.iter().map(|class| class.copies_sent).sum();
        Run {
            misses,
            messages: sent.len() - from,
            stale_share: stale.as_secs_f64() / time.as_secs_f64(),
            bytes,
            copies: copies as f64 / sent.len() as f64,
            status: status.reliability.first().copied(),
            other: pair.status(DRONE).expect("connected").reliability.first().copied(),
        }
    }
}

/// Prints what a plan comes to, beside a copy everywhere.
#[test]
#[ignore = "a table for people"]
fn table() {
    let long: u64 = std::env::var("LONG").map_or(600, |long| long.parse().unwrap());
    let independent = [
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.02"),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.01"),
    ];
    let bursty = |ms: u32| {
        let bad = |share: f64| f64::from(ms) * (1.0 - share) / share;
        [
            link(
                "wifi",
                &format!(
                    "delay_ms = 10\nrate_mbps = 20\n[link.burst_loss]\ngood_ms = {}\nbad_ms = {ms}\nloss_good = 0.002",
                    bad(0.02)
                ),
            ),
            link(
                "lte",
                &format!(
                    "delay_ms = 35\nrate_mbps = 10\n[link.burst_loss]\ngood_ms = {}\nbad_ms = {ms}\nloss_good = 0.002",
                    bad(0.01)
                ),
            ),
        ]
    };
    let correlated = [
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.01\ngroups = [\"mast\"]"),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.01\ngroups = [\"mast\"]"),
        "[[group]]\nname = \"mast\"\n[group.burst_loss]\ngood_ms = 99900\nbad_ms = 100\n"
            .to_owned(),
    ];
    let step = [
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss_csv = \"STEP\""),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.005"),
    ];
    let dying = [
        link(
            "wifi",
            "delay_ms = 10\nrate_mbps = 20\nloss = 0.005\n[[link.outage]]\nstart_s = 400\nseconds = 10\nmode = \"drop\"",
        ),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.005"),
    ];
    let _ = step;
    let cases: Vec<(&str, String, Policy, f64, u64, (u64, u64))> = vec![
        ("independent 1st minute", scenario(&independent), Policy::DECLARED, 0.999, 100, (0, 60)),
        (
            "independent 0.9999 two minutes",
            scenario(&independent),
            Policy::DECLARED,
            0.9999,
            100,
            (0, 120),
        ),
        ("independent", scenario(&independent), Policy::DECLARED, 0.999, 100, (60, long)),
        ("independent 0.9999", scenario(&independent), Policy::DECLARED, 0.9999, 100, (60, long)),
        ("independent 0.99999", scenario(&independent), Policy::DECLARED, 0.99999, 100, (0, 600)),
        ("bursts 100 ms", scenario(&bursty(100)), Policy::DECLARED, 0.999, 100, (60, long)),
        ("bursts 1 s", scenario(&bursty(1000)), Policy::DECLARED, 0.999, 100, (60, long)),
        ("correlated", scenario(&correlated), Policy::DECLARED, 0.999, 100, (60, long)),
        ("dying", scenario(&dying), Policy::DECLARED, 0.999, 100, (60, long)),
        ("independent 60 ms", scenario(&independent), Policy::DECLARED, 0.999, 60, (60, long)),
        ("independent 30 ms", scenario(&independent), Policy::DECLARED, 0.999, 30, (60, long)),
        ("live independent", scenario(&independent), Policy::LIVE, 0.999, 100, (60, long)),
        ("live bursts 100 ms", scenario(&bursty(100)), Policy::LIVE, 0.999, 100, (60, long)),
        ("live bursts, 70 ms", scenario(&bursty(100)), Policy::LIVE, 0.999, 70, (60, long)),
        ("live correlated", scenario(&correlated), Policy::LIVE, 0.999, 100, (60, long)),
        ("live bursts 1 s", scenario(&bursty(1000)), Policy::LIVE, 0.999, 100, (60, long)),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, scenario, policy, share, ms, counted_s) in cases {
        if !name.contains(&only) {
            continue;
        }
        let plan = |target| Plan {
            scenario: scenario.clone(),
            policy,
            target,
            deadline_ms: ms,
            counted_s,
        };
        for seed in 1..=std::env::var("SEEDS").map_or(1, |seeds| seeds.parse().unwrap()) {
            let planned = plan(Some(share)).run(seed);
            let all = plan(None).run(seed);
            let status = planned.status.expect("under a target");
            println!(
                "{name:32} misses {:5} / {:5} of {}  stale {:.1e} / {:.1e}  bytes {:.1} %  copies {:.2}  {:?} predicted {:.1e} seen {:.1e} bound {:.1e} misses {} episodes {}",
                planned.misses,
                all.misses,
                planned.messages,
                planned.stale_share,
                all.stale_share,
                100.0 * planned.bytes as f64 / all.bytes as f64,
                planned.copies,
                status.state,
                status.predicted_miss.unwrap_or(9.0),
                status.miss_share.unwrap_or(9.0),
                status.bound_95.unwrap_or(9.0),
                status.misses,
                status.episodes,
            );
        }
    }
    let _ = ReliabilityState::Met;
}
