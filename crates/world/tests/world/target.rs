//! Reliability targets: no more copies than a target takes, and no more misses than it allows
//! [specs/delivery.md §6].
//!
//! Fifty messages a second go from the station to the drone, as set-points and commands do.

use proto::select::{Copies, Policy};
use proto::{
    Duration, Instant, PathId, PathUse, Reliability, ReliabilityLimit, ReliabilityState,
    ReliabilityStatus, SessionConfig, Source, Target,
};

use fulmar_world::{DRONE, Pair, STATION};
use units::Rng;

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
        let links = self.scenario.matches("[[link]]").count();
        while [DRONE, STATION].iter().any(|&host| pair.active_paths(host) < links) {
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
        }
    }
}

/// Links of 10 and 35 ms that lose 2 % and 1 %, whatever the other one does.
fn independent() -> String {
    scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.02"),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.01"),
    ])
}

/// The same links, which lose everything in bursts of a mean length, 2 % and 1 % of the time, and
/// 0.2 % beside.
fn bursty(mean_ms: u32) -> String {
    let burst = |share: f64| {
        let good_ms = f64::from(mean_ms) * (1.0 - share) / share;
        format!("[link.burst_loss]\ngood_ms = {good_ms}\nbad_ms = {mean_ms}\nloss_good = 0.002")
    };
    scenario(&[
        link("wifi", &format!("delay_ms = 10\nrate_mbps = 20\n{}", burst(0.02))),
        link("lte", &format!("delay_ms = 35\nrate_mbps = 10\n{}", burst(0.01))),
    ])
}

/// The same links, which lose 1 % each, and everything in common bursts of 100 ms, 0.1 % of the
/// time.
fn correlated() -> String {
    scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.01\ngroups = [\"mast\"]"),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.01\ngroups = [\"mast\"]"),
        "[[group]]\nname = \"mast\"\n[group.burst_loss]\ngood_ms = 99900\nbad_ms = 100\n"
            .to_owned(),
    ])
}

/// Runs commands or set-points under a target, and with a copy everywhere.
fn beside_all(
    scenario: &str,
    policy: Policy,
    (share, deadline_ms): (f64, u64),
    counted_s: (u64, u64),
) -> [Run; 2] {
    [Some(share), None].map(|target| {
        let scenario = scenario.to_owned();
        Plan { scenario, policy, target, deadline_ms, counted_s }.run(1)
    })
}

fn share_of(planned: &Run, all: &Run) -> f64 {
    planned.bytes as f64 / all.bytes as f64
}

/// Bytes of a message each way, with all headers, where a copy goes on both of two paths and each
/// is answered at once. So it was everywhere before answers rode, which takes a copy everywhere
/// down to 320; bars are shares of this one, so that a target is held to what it was held to then.
const ANSWERED: f64 = 444.0;

fn share_of_answered(planned: &Run) -> f64 {
    planned.bytes as f64 / (2 * planned.messages) as f64 / ANSWERED
}

#[test]
fn a_target_of_999_in_100_ms_is_kept_for_three_fifths_of_the_bytes_of_answered_copies() {
    for (name, links) in [
        ("independent", independent()),
        ("bursts of 100 ms", bursty(100)),
        ("bursts of 1 s", bursty(1_000)),
        ("common bursts", correlated()),
    ] {
        // With flights on suspected paths alone, on which nothing leaves, each misses one burst of
        // 1 s whole.
        for seed in [1, 4] {
            let [planned, all] = [Some(0.999), None].map(|target| {
                let (scenario, policy, counted_s) = (links.clone(), Policy::DECLARED, (60, 600));
                Plan { scenario, policy, target, deadline_ms: 100, counted_s }.run(seed)
            });
            let bytes = share_of_answered(&planned);
            assert!(bytes <= 0.6, "{name}: {bytes:.3} of the bytes");
            assert!(planned.bytes < all.bytes, "{name}: {planned:?}, {all:?}");
            assert!(planned.misses * 1_000 <= planned.messages, "{name}: {planned:?}");
            let status = planned.status.expect("under a target");
            assert_eq!(status.state, ReliabilityState::Met, "{name}: {status:?}");
            assert!(status.predicted_miss.is_some_and(|miss| miss < 1e-3), "{name}: {status:?}");
        }
    }
}

#[test]
fn set_points_are_hardly_staler_than_with_a_copy_everywhere_for_three_fifths_of_the_bytes() {
    for (name, links) in
        [("independent", independent()), ("bursts", bursty(100)), ("common bursts", correlated())]
    {
        let [planned, all] = beside_all(&links, Policy::LIVE, (0.999, 100), (60, 1_200));
        let bytes = share_of_answered(&planned);
        assert!(bytes <= 0.6, "{name}: {bytes:.3} of the bytes");
        assert!(planned.bytes < all.bytes, "{name}: {planned:?}, {all:?}");
        let bound = 1.2 * all.stale_share + 1e-5;
        eprintln!("{name}: {:.2e} {:.2e} {bytes:.3}", planned.stale_share, all.stale_share);
        assert!(planned.stale_share <= bound, "{name}: {:.1e} > {bound:.1e}", planned.stale_share);
    }
}

#[test]
fn set_points_on_links_that_leave_no_time_for_a_second_try_go_on_both() {
    let [planned, all] = beside_all(&bursty(100), Policy::LIVE, (0.999, 70), (60, 600));
    assert!(planned.stale_share <= 1.2 * all.stale_share + 2e-5, "{planned:?}, {all:?}");
    assert!(planned.copies > 1.5, "{planned:?}");
    let limit = planned.status.expect("under a target").limit;
    let ReliabilityLimit::NoRetry { path: PathId(1), needs } = limit else { panic!("{limit:?}") };
    assert!((71..=110).contains(&needs.as_millis()), "a second try on the other link: {needs:?}");
    let [planned, _] = beside_all(&bursty(100), Policy::LIVE, (0.999, 100), (60, 600));
    let limit = planned.status.expect("under a target").limit;
    assert!(matches!(limit, ReliabilityLimit::Together { .. }), "there is time for one: {limit:?}");
}

/// One link of 20 ms: a copy and the error of the clocks take 40 ms, a repeat after a late answer
/// 90 ms.
fn lone(loss: &str) -> String {
    scenario(&[link("only", &format!("delay_ms = 20\nrate_mbps = 10\n{loss}"))])
}

/// Seen to fail where a second copy always follows: then the bytes are those of a copy everywhere.
#[test]
fn a_second_copy_on_a_lone_path_leaves_where_the_target_takes_it() {
    let run = |loss: &str, target| {
        let [planned, all] = beside_all(&lone(loss), Policy::DECLARED, target, (60, 600));
        (share_of(&planned, &all), planned)
    };
    let (bytes, planned) = run("loss = 0.02", (0.999, 150));
    assert!(bytes <= 0.65, "there is time for another round: {bytes:.3} of the bytes");
    assert!(planned.misses * 1_000 <= planned.messages, "{planned:?}");
    let (bytes, planned) = run("loss = 0.02", (0.95, 60));
    assert!(bytes <= 0.65, "one is enough: {bytes:.3} of the bytes");
    assert!(planned.misses * 20 <= planned.messages, "{planned:?}");
    let (_, planned) = run("loss = 0.02", (0.99, 60));
    assert!(planned.copies >= 1.9 && planned.misses * 100 <= planned.messages, "{planned:?}");
    let bursts = "[link.burst_loss]\ngood_ms = 4900\nbad_ms = 100\nloss_good = 0.002";
    let (_, planned) = run(bursts, (0.99, 60));
    assert!(planned.copies >= 1.9, "out of reach, nothing is saved: {planned:?}");
}

/// A copy that rides 20 ms later is known to be there after 60 ms, a repeat after 90.
#[test]
fn where_there_is_no_time_for_a_repeat_a_copy_on_a_lone_path_rides_with_the_next_message() {
    let bursts = "[link.burst_loss]\ngood_ms = 980\nbad_ms = 20";
    for (loss, seconds) in [("loss = 0.02", 300), (bursts, 600)] {
        let target = (0.99, 80);
        let [planned, all] = beside_all(&lone(loss), Policy::DECLARED, target, (60, seconds));
        let bytes = share_of(&planned, &all);
        assert!(bytes <= 0.85, "{loss}: {bytes:.3} of the bytes");
        assert!(planned.misses * 100 <= planned.messages, "{loss}: {planned:?}");
        assert!(planned.misses <= all.misses + 20, "{loss}: {planned:?}, {all:?}");
    }
}

#[test]
fn savings_begin_within_seconds_of_the_first_message() {
    for (share, seconds, most) in [(0.999, 60, 0.7), (0.9999, 120, 0.75), (0.99999, 600, 0.75)] {
        let [planned, all] =
            beside_all(&independent(), Policy::DECLARED, (share, 100), (0, seconds));
        let bytes = share_of_answered(&planned);
        assert!(planned.bytes < all.bytes, "{share}: {planned:?}, {all:?}");
        assert!(bytes <= most, "{share}: {bytes:.3} of the bytes of the first {seconds} s");
        assert_eq!(planned.misses, 0, "{share}");
    }
}

#[test]
fn a_deadline_that_one_path_alone_keeps_is_said_to_be_out_of_reach_and_nothing_is_saved() {
    let [planned, all] = beside_all(&independent(), Policy::DECLARED, (0.999, 30), (0, 60));
    let status = planned.status.expect("under a target");
    assert_eq!(status.state, ReliabilityState::NotReachable, "within a minute: {status:?}");
    let ReliabilityLimit::TooSlow { path: PathId(1), by } = status.limit else {
        panic!("{status:?}")
    };
    assert!((4..=6).contains(&by.as_millis()), "lte is 5 ms too slow: {by:?}");
    assert!(status.more_links.is_some_and(|links| (1..=3).contains(&links)), "{status:?}");
    let slack = all.misses / 10 + 3;
    assert!(planned.misses <= all.misses + slack, "{} and {}", planned.misses, all.misses);
    let bytes = share_of(&planned, &all);
    assert!((0.95..1.03).contains(&bytes), "and nothing is paid for it: {bytes:.3}");
}

#[test]
fn a_path_that_becomes_bad_is_no_longer_relied_on_within_five_seconds() {
    const STEP_S: u64 = 150;
    // A second try is in time on the fast path alone: good enough while it loses little.
    let links = scenario(&[
        link(
            "wifi",
            &format!("delay_ms = 10\nrate_mbps = 20\nloss_csv = \"loss 0:0.002,{STEP_S}:0.3\""),
        ),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.002"),
    ]);
    let copies = |counted_s: (u64, u64)| {
        let (target, deadline_ms) = (Some(0.999), 50);
        let scenario = links.clone();
        let plan = Plan { scenario, policy: Policy::DECLARED, target, deadline_ms, counted_s };
        plan.run(1).copies * counted_s.1 as f64
    };
    // The first message is handed in some two seconds after the world began.
    let at = [120, STEP_S - 10, STEP_S + 4, STEP_S + 14].map(|second| copies((0, second)));
    let (before, after) = ((at[1] - at[0]) / 20.0, (at[3] - at[2]) / 10.0);
    assert!(before < 1.3, "{before:.2} copies of a message while the path is good");
    assert!(after > 1.9, "{after:.2} copies of a message from five seconds after the step on");
}

/// Seeds with a target that costs more than none: 1.30 and 1.25 times its bytes. While it is
/// learned what second tries would do, and where it is out of reach, a copy leaves everywhere and
/// each is answered at once, which tells.
const DEARER: [u64; 2] = [2, 4];

#[test]
fn a_target_is_never_less_reliable_than_one_path_at_a_time_and_seldom_dearer_than_every_path() {
    for seed in 1..=12 {
        let mut rng = Rng::new(seed);
        let mut random = |name: &str| {
            let (delay, loss) = (5 + rng.below(60), 0.05 * rng.unit() * rng.unit());
            let jitter = rng.below(delay / 2);
            let bursts = format!(
                "[link.burst_loss]\ngood_ms = {}\nbad_ms = {}",
                3_000 + rng.below(20_000),
                10 + rng.below(300)
            );
            let keys = format!(
                "delay_ms = {delay}\njitter_ms = {jitter}\nrate_mbps = 5\nloss = {loss}\n{bursts}"
            );
            link(name, &keys)
        };
        let links = scenario(&[random("one"), random("other")]);
        let deadline_ms = [60, 100, 150, 250][rng.below(4) as usize];
        let share = [0.99, 0.999, 0.9999][rng.below(3) as usize];
        let run = |policy, target| {
            let scenario = links.clone();
            Plan { scenario, policy, target, deadline_ms, counted_s: (0, 120) }.run(seed)
        };
        let planned = run(Policy::DECLARED, Some(share));
        let best = run(Policy { copies: Copies::Best, ..Policy::DECLARED }, None);
        let all = run(Policy::DECLARED, None);
        let name = format!("seed {seed}, {share} in {deadline_ms} ms");
        assert!(
            planned.misses <= best.misses + 2,
            "{name}: {} and {}",
            planned.misses,
            best.misses
        );
        let answered = share_of_answered(&planned);
        assert!(answered <= 1.03, "{name}: {answered:.3} of the bytes of answered copies");
        let bytes = share_of(&planned, &all);
        let is_dearer = bytes > 1.03;
        assert_eq!(is_dearer, DEARER.contains(&seed), "{name}: {bytes:.3} of a copy everywhere");
    }
}

/// Bytes that left on a path at both ends, with all headers.
fn path_bytes(pair: &Pair, path: PathId) -> u64 {
    let rows = [DRONE, STATION].map(|host| {
        let status = pair.status(host).expect("connected");
        status.paths.into_iter().find(|row| row.id == path).expect("a path")
    });
    rows.iter().map(|row| row.sent.1 + 28 * row.sent.0).sum()
}

/// Lets both ends send set-points, 50 a second, under a target for some seconds; returns what each
/// path has carried, in bytes a second, and how the station's target is kept.
fn set_points(
    links: &str,
    usage: Option<PathUse>,
    (share, deadline_ms): (f64, u64),
    seconds: u64,
) -> ([f64; 2], ReliabilityStatus) {
    let live = Target::new(share, Duration::from_millis(deadline_ms));
    let reliability = Reliability { live, ..Reliability::default() };
    let config = SessionConfig { reliability, ..SessionConfig::default() };
    let mut pair = Pair::new(links, 1, config);
    pair.run_until(Instant::from_millis(5_000));
    if let Some(usage) = usage {
        pair.use_path(PathId(1), usage);
        pair.run_for(Duration::from_secs(5));
    }
    let start = pair.world.now();
    let before = [0, 1].map(|path| path_bytes(&pair, PathId(path)));
    let source = Source::Declared { channel: 1, policy: Policy::LIVE };
    for message in 0..seconds * HZ {
        pair.run_until(start + Duration::from_micros(message * 20_003));
        for host in [STATION, DRONE] {
            pair.send(host, source, &[0; MESSAGE_BYTES]).expect("there is room");
        }
    }
    let after = [0, 1].map(|path| path_bytes(&pair, PathId(path)));
    let rate = |path: usize| (after[path] - before[path]) as f64 / seconds as f64;
    let status = pair.status(STATION).expect("connected");
    ([rate(0), rate(1)], status.reliability[0])
}

#[test]
fn a_backup_costs_no_more_than_100_kb_an_hour_while_the_target_is_kept_without_it() {
    let links = scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.005"),
        link("lte", "delay_ms = 35\nrate_mbps = 10\nloss = 0.005"),
    ]);
    let usage = PathUse { backup: true, ..PathUse::default() };
    let ([_, backup], status) = set_points(&links, Some(usage), (0.99, 100), 600);
    assert_eq!(status.state, ReliabilityState::Met, "{status:?}");
    assert!(backup * 3_600.0 <= 100e3, "{:.0} kB an hour", backup * 3.6);
}

#[test]
fn a_backup_is_called_for_where_nothing_else_gives_the_target() {
    let links = scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.05"),
        link("lte", "delay_ms = 12\nrate_mbps = 10\nloss = 0.01"),
    ]);
    let usage = PathUse { backup: true, ..PathUse::default() };
    // There is no time for a second try, and one in twenty is lost.
    let ([wifi, backup], status) = set_points(&links, Some(usage), (0.9999, 45), 300);
    assert!(backup > 0.3 * wifi, "{backup:.0} and {wifi:.0} bytes a second, {status:?}");
}

/// The Wi-Fi alone misses as much as the target allows, or twice that, which the samples of a
/// minute do not prove. Seen to fail where the backup is called only once that is proved: then it
/// carries 2 %. Where the Wi-Fi loses 0.4, it keeps the target by chance or not, and whether the
/// backup is called is chance as well.
#[test]
fn a_backup_is_called_for_before_it_is_proved_that_nothing_else_gives_the_target() {
    let links = scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.45"),
        link("lte", "delay_ms = 35\nrate_mbps = 4"),
    ]);
    let usage = PathUse { backup: true, ..PathUse::default() };
    let ([wifi, backup], status) = set_points(&links, Some(usage), (0.999, 100), 60);
    // At rest it carries 30 bytes a second at most.
    assert!(backup > 0.1 * wifi, "{backup:.0} and {wifi:.0} bytes a second, {status:?}");
    assert!(status.miss_share.is_some_and(|missed| missed <= 0.001), "{status:?}");
}

#[test]
fn a_modem_of_64_kbit_keeps_three_quarters_of_its_rate_free_while_the_wifi_works() {
    let links = scenario(&[
        link("wifi", "delay_ms = 10\nrate_mbps = 20\nloss = 0.01"),
        link("modem", "delay_ms = 40\nrate_mbps = 0.064\nqueue_bytes = 8_000"),
    ]);
    let ([_, modem], status) = set_points(&links, None, (0.999, 250), 300);
    // Both directions share the modem's air.
    let used = modem * 8.0 / 64e3;
    assert!(used <= 0.25, "{used:.3} of the modem's rate, {status:?}");
    assert_eq!(status.state, ReliabilityState::Met, "{status:?}");
}
