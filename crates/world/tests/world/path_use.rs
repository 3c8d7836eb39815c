//! What an operator says of a path holds at both ends: what it carries, and when a backup does.

use std::net::Ipv4Addr;

use proto::select::{Class, Copies, Policy, Tier};
use proto::{
    Carries, Cost, Duration, FlowCodeParameters, Instant, MessageForm, MessageOrder, MessageStream,
    PathId, PathState, PathUse, SchedulerKind, SessionConfig, Source, TunnelForm,
};

use fulmar_world::{DRONE, Pair, STATION, two_links};

pub(super) const LIVE: Source = Source::Declared { channel: 1, policy: Policy::LIVE };
const COMMANDS: Source = Source::Declared { channel: 2, policy: Policy::TRANSACTIONAL };
const MESSAGES: Source = Source::Message {
    channel: 4,
    stream: MessageStream { id: 1, order: MessageOrder::InOrder, deadline: None },
};
pub(super) const WIFI: &str = "delay_ms = 10\nrate_mbps = 20\n";
pub(super) const LTE: &str = "delay_ms = 35\nrate_mbps = 10\n";
/// The places of these links.
pub(super) const FIRST: PathId = PathId(0);
pub(super) const SECOND: PathId = PathId(1);
pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) fn backup() -> PathUse {
    PathUse { backup: true, cost: Cost::new(10.0).expect("a price"), ..PathUse::default() }
}

/// Sends a set-point each way every 20 ms; returns the longest time between two that came, at
/// either host.
pub(super) fn fly(pair: &mut Pair, seconds: u64) -> Duration {
    let before = [DRONE, STATION].map(|host| pair.seen[host].len());
    let start = pair.world.now();
    for number in 0..seconds * 50 {
        pair.run_until(start + MS * 20 * number as u32);
        for host in [DRONE, STATION] {
            pair.send(host, LIVE, &[7; 60]).expect("there is room");
        }
    }
    pair.run_for(MS * 100);
    let gaps = [DRONE, STATION].into_iter().flat_map(|host| {
        let came: Vec<Instant> =
            pair.seen[host][before[host]..].iter().map(|seen| seen.at).collect();
        came.windows(2).map(|two| two[1].since(two[0])).collect::<Vec<_>>()
    });
    gaps.max().expect("something came")
}

fn carrying(tiers: &[Tier]) -> PathUse {
    let carries = Carries::new(tiers.iter().copied()).expect("not nothing");
    PathUse { carries, ..PathUse::default() }
}

/// Two hosts that were told of the use of a path before they met.
fn pair(links: [&str; 2], seed: u64, dies_s: Option<f64>, uses: [PathUse; 2]) -> Pair {
    let mut pair =
        Pair::new(&two_links(links[0], links[1], dies_s), seed, SessionConfig::default());
    for (path, usage) in [FIRST, SECOND].into_iter().zip(uses) {
        pair.use_path(path, usage);
    }
    pair.run_for(Duration::from_secs(3));
    pair
}

/// Returns what the station knows of the use of the second path.
fn told(pair: &Pair) -> PathUse {
    let status = pair.status(STATION).expect("a session");
    status.paths.iter().find(|path| path.id == SECOND).expect("it has come").usage
}

/// Hands in video for some seconds: datagrams of the tunnel, 4 Mbit/s.
fn play(pair: &mut Pair, host: usize, seconds: u64) {
    let mut packet = vec![0; 1_000];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&1_000_u16.to_be_bytes());
    packet[9] = 17;
    packet[24..26].copy_from_slice(&980_u16.to_be_bytes());
    for _ in 0..seconds * 500 {
        // What has no path is dropped by its age.
        let _ = pair.send(host, Source::Tunnel, &packet);
        pair.run_for(MS * 2);
    }
}

/// Hands in packets of a TCP connection, as many.
fn upload(pair: &mut Pair, host: usize, seconds: u64) {
    let at = |host: usize| Ipv4Addr::new(10, 99, 0, host as u8 + 1);
    for number in 0..seconds as u32 * 500 {
        let mut segment = [7_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
        segment.extend_from_slice(&(number * 1_000).to_be_bytes());
        segment.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        segment.resize(segment.len() + 1_000, 0);
        let _ =
            pair.send(host, Source::Tunnel, &ip::ipv4(at(host), at(1 - host), ip::TCP, &segment));
        pair.run_for(MS * 2);
    }
}

#[test]
fn a_backup_costs_less_than_100_kb_an_hour_while_others_work() {
    let lossy = format!("{WIFI}loss = 0.01\n");
    for links in [[WIFI, LTE], [LTE, WIFI], [&lossy, LTE]] {
        let mut pair = pair(links, 1, None, [PathUse::default(), backup()]);
        let (before, start) = (pair.carried(1), pair.world.now());
        fly(&mut pair, 500);
        let hours = pair.world.now().since(start).as_secs_f64() / 3_600.0;
        let an_hour = (pair.carried(1) - before) as f64 / hours;
        assert!(an_hour < 100e3, "{links:?}: {an_hour:.0} bytes an hour");
        assert_eq!(pair.active_paths(DRONE) + pair.active_paths(STATION), 4, "it is kept open");
    }
}

#[test]
fn a_backup_that_is_dead_costs_little_and_is_tried_at_once_when_it_is_needed() {
    let outage = |start: u64, seconds: u64| {
        format!("[[link.outage]]\nstart_s = {start}\nseconds = {seconds}\nmode = \"drop\"\n")
    };
    for begins in [0, 4] {
        let scenario = two_links(&format!("{WIFI}{}", outage(300, 10)), LTE, None)
            + &outage(begins, 299 - begins);
        let mut pair = Pair::new(&scenario, 1, SessionConfig::default());
        pair.use_path(SECOND, backup());
        pair.run_until(Instant::from_millis(100_000));
        let before = pair.carried(1);
        fly(&mut pair, 199);
        let an_hour = (pair.carried(1) - before) * 18;
        assert!(an_hour < 60_000, "from {begins} s: {an_hour} bytes an hour");
        let gap = fly(&mut pair, 9);
        assert!(gap < MS * 300, "from {begins} s: {gap:?}");
        assert_eq!(pair.path_state(STATION, FIRST), Some(PathState::Suspected));
    }
}

#[test]
fn control_goes_by_a_backup_before_a_gap_of_90_ms_when_all_others_die() {
    for links in [[WIFI, LTE], [LTE, WIFI]] {
        for seed in 1..41 {
            let dies = 5.0 + seed as f64 * 0.0017;
            let mut pair = pair(links, seed, Some(dies), [PathUse::default(), backup()]);
            let gap = fly(&mut pair, 4);
            assert!(gap < MS * 90, "{links:?}, seed {seed}: {gap:?}");
            assert_eq!(pair.path_state(DRONE, FIRST), Some(PathState::Suspected));
        }
    }
}

#[test]
fn video_moves_to_a_backup_when_all_others_are_silent_and_back_when_one_is_not() {
    let outage = "[[link.outage]]\nstart_s = 6\nseconds = 4\nmode = \"drop\"\n";
    let mut pair = pair([&format!("{WIFI}{outage}"), LTE], 1, None, [PathUse::default(), backup()]);
    let mut spent = [0; 4];
    for second in 0..16 {
        let before = pair.carried(1);
        play(&mut pair, DRONE, 1);
        // 3 to 6 s, 6 to 10 s, a second to come back, and from 11 s on.
        spent[usize::from(second >= 3) + usize::from(second >= 7) + usize::from(second >= 8)] +=
            pair.carried(1) - before;
    }
    assert!(spent[0] < 2_000 && spent[3] < 5_000, "{spent:?}");
    assert!(spent[1] > 4 * 400_000, "4 Mbit/s less the time to notice: {spent:?}");
}

#[test]
fn a_backup_is_silent_while_one_of_two_others_works() {
    let scenario = two_links(WIFI, LTE, Some(6.0))
        + "[[link]]\nname = \"third\"\nbetween = [\"drone\", \"station\"]\ndelay_ms = 50\n";
    let mut pair = Pair::new(&scenario, 1, SessionConfig::default());
    pair.use_path(PathId(2), backup());
    pair.run_for(MS * 4_000);
    let before = pair.carried(2);
    let gap = fly(&mut pair, 10);
    assert_eq!(pair.path_state(DRONE, FIRST), Some(PathState::Suspected));
    assert!(gap < MS * 46, "{gap:?}");
    assert!(pair.carried(2) - before < 1_500, "{} bytes", pair.carried(2) - before);
}

#[test]
fn no_bulk_over_a_path_that_does_not_carry_it() {
    let all = SessionConfig::default;
    let configs = [
        all(),
        SessionConfig { tunnel: TunnelForm::Plain, ..all() },
        SessionConfig { tunnel: TunnelForm::FlowCode(FlowCodeParameters::default()), ..all() },
        SessionConfig { scheduler: SchedulerKind::RoundRobin, ..all() },
        SessionConfig { scheduler: SchedulerKind::Redundant, ..all() },
    ];
    for config in configs {
        for [carrier, other] in [[WIFI, LTE], [LTE, WIFI]] {
            let what = format!("{:?} {:?} {carrier:?}", config.scheduler, config.tunnel);
            let carrier = format!("{carrier}loss = 0.02\n");
            let scenario = two_links(&carrier, other, Some(44.0));
            let mut pair = Pair::new(&scenario, 1, config.clone());
            pair.use_path(SECOND, carrying(&[Tier::Control, Tier::Telemetry, Tier::Message]));
            pair.run_for(MS * 3_000);
            let (before, first) = (pair.carried(1), pair.carried(0));
            for _ in 0..10 {
                for host in [DRONE, STATION] {
                    play(&mut pair, host, 1);
                    upload(&mut pair, host, 1);
                }
            }
            let (spent, carried) = (pair.carried(1) - before, pair.carried(0) - first);
            assert!(carried > 18_000_000, "{what}: {carried} bytes by the other");
            // Pings, probes of the MTU, and acknowledgements of gaps by the faster path.
            assert!(spent < 60_000, "{what}: {spent} bytes, beside {carried}");
            pair.run_until(Instant::from_millis(45_000));
            let after = pair.carried(1);
            play(&mut pair, DRONE, 2);
            upload(&mut pair, STATION, 2);
            let spent = pair.carried(1) - after;
            assert!(spent < 5_000, "{what}: {spent} bytes while the other is dead");
        }
    }
}

#[test]
fn messages_keep_to_the_paths_that_carry_them() {
    let lrt = MessageForm::Lrt { k: 8, redundancy: 0.5, beta: 0.9 };
    for form in [MessageForm::Elastic, lrt] {
        for [carrier, other] in [[WIFI, LTE], [LTE, WIFI]] {
            let what = format!("{form:?} {carrier:?}");
            let config = SessionConfig { message: form, ..SessionConfig::default() };
            let scenario = two_links(&format!("{carrier}loss = 0.1\n"), other, Some(14.0));
            let mut pair = Pair::new(&scenario, 1, config);
            pair.use_path(SECOND, carrying(&[Tier::Control, Tier::Telemetry, Tier::Bulk]));
            pair.run_for(MS * 3_000);
            let before = pair.carried(1);
            for _ in 0..1_000 {
                for host in [DRONE, STATION] {
                    pair.send(host, MESSAGES, &[7; 1_000]).expect("there is room");
                }
                pair.run_for(MS * 10);
            }
            pair.run_until(Instant::from_millis(13_900));
            for host in [DRONE, STATION] {
                let came = pair.seen[host].len();
                assert!(came >= 995, "{what}: {came} of 1000 came");
            }
            let spent = pair.carried(1) - before;
            assert!(spent < 10_000, "{what}: {spent} bytes");
            // What its only path cannot take now waits for it.
            pair.run_until(Instant::from_millis(15_000));
            let before = pair.carried(1);
            pair.send(DRONE, MESSAGES, &[7; 200_000]).expect("there is room");
            pair.run_for(MS * 2_000);
            let spent = pair.carried(1) - before;
            assert!(spent < 5_000, "{what}: {spent} bytes while the other is dead");
        }
    }
}

#[test]
fn telemetry_keeps_to_the_paths_that_carry_it() {
    let reliable = Policy { reliable: true, ..Policy::TELEMETRY };
    for policy in [Policy::TELEMETRY, reliable, Policy { copies: Copies::All, ..reliable }] {
        let scenario = two_links(&format!("{LTE}loss = 0.1\n"), WIFI, Some(14.0));
        let mut pair = Pair::new(&scenario, 1, SessionConfig::default());
        pair.use_path(SECOND, carrying(&[Tier::Control, Tier::Message, Tier::Bulk]));
        pair.run_for(MS * 3_000);
        let before = pair.carried(1);
        let telemetry = Source::Declared { channel: 3, policy };
        for _ in 0..1_000 {
            for host in [DRONE, STATION] {
                let _ = pair.send(host, telemetry, &[7; 1_000]);
            }
            pair.run_for(MS * 12);
        }
        let came = pair.seen[STATION].len();
        assert!((700..=1_000).contains(&came), "{policy:?}: {came} came");
        let spent = pair.carried(1) - before;
        assert!(spent < 10_000, "{policy:?}: {spent} bytes");
    }
}

#[test]
fn a_backup_that_alone_carries_a_class_always_does() {
    for copies in [Copies::Best, Copies::All] {
        let lte = PathUse { backup: true, ..PathUse::default() };
        let mut pair = pair([WIFI, LTE], 1, None, [carrying(&[Tier::Control, Tier::Bulk]), lte]);
        let policy = Policy { copies, reliable: true, ..Policy::TELEMETRY };
        let before = pair.carried(0);
        for _ in 0..500 {
            let telemetry = Source::Declared { channel: 3, policy };
            pair.send(STATION, telemetry, &[7; 1_000]).expect("there is room");
            pair.run_for(MS * 10);
        }
        assert!(pair.seen[DRONE].len() >= 490, "{copies:?}: {}", pair.seen[DRONE].len());
        assert!(pair.carried(0) - before < 20_000, "{copies:?}");
        let status = pair.status(DRONE).expect("a session");
        let path = status.paths.iter().find(|path| path.id == SECOND).expect("it is there");
        assert_eq!(path.serves, Carries::new([Tier::Telemetry, Tier::Message]));
    }
}

#[test]
fn control_keeps_to_the_paths_that_carry_it_and_so_does_what_is_announced_of_its_order() {
    let outage = "[[link.outage]]\nstart_s = 6\nseconds = 3\nmode = \"drop\"\n";
    let mut pair = pair(
        [&format!("{WIFI}loss = 0.1\n{outage}"), LTE],
        1,
        None,
        [PathUse::default(), carrying(&[Tier::Telemetry, Tier::Message, Tier::Bulk])],
    );
    let before = pair.carried(1);
    for number in 0..500_u32 {
        for source in [LIVE, COMMANDS] {
            pair.send(STATION, source, &number.to_be_bytes()).expect("there is room");
        }
        pair.run_for(MS * 20);
    }
    // Floors of the lane of commands are among what waits for the one path.
    let spent = pair.carried(1) - before;
    assert!(spent < 8_000, "{spent} bytes");
    let class = |host: usize, class: Class| {
        let status = pair.status(host).expect("a session");
        status.classes.into_iter().find(|row| row.class == class).expect("every class has a row")
    };
    let (sent, came) = (class(STATION, Class::Control), class(DRONE, Class::Control));
    assert!(came.delivered >= 430, "{sent:?}");
}

#[test]
fn where_no_path_is_said_to_carry_control_every_path_does() {
    let none = carrying(&[Tier::Telemetry, Tier::Bulk]);
    let mut pair = pair([WIFI, LTE], 1, None, [none, none]);
    let before = [0, 1].map(|link| pair.carried(link));
    assert!(fly(&mut pair, 10) < MS * 21);
    for link in [0, 1] {
        assert!(pair.carried(link) - before[link] > 100_000, "link {link}");
    }
}

#[test]
fn what_no_path_carries_waits_for_one_within_its_bounds() {
    let none = carrying(&[Tier::Control]);
    let mut pair = pair([WIFI, LTE], 1, None, [none, none]);
    let before = pair.carried(0) + pair.carried(1);
    play(&mut pair, DRONE, 10);
    upload(&mut pair, STATION, 10);
    let spent = pair.carried(0) + pair.carried(1) - before;
    assert!(spent < 20_000, "{spent} bytes");
    assert!(pair.seen.iter().all(Vec::is_empty));
    // When one carries it after all, what has waited too long is not sent.
    pair.use_path(FIRST, PathUse::default());
    pair.run_for(MS * 200);
    play(&mut pair, DRONE, 1);
    assert!((450..600).contains(&pair.seen[STATION].len()), "{}", pair.seen[STATION].len());
}

#[test]
fn the_station_is_told_however_often_that_is_lost() {
    for seed in 1..21 {
        let usage = PathUse { backup: true, ..carrying(&[Tier::Control, Tier::Telemetry]) };
        let lossy = format!("{LTE}loss = 0.6\n");
        let mut pair = pair([WIFI, &lossy], seed, None, [PathUse::default(), usage]);
        let before = pair.carried(1);
        play(&mut pair, STATION, 3);
        let spent = pair.carried(1) - before;
        // A probe of the MTU is sent until it arrives.
        assert!(spent < 60_000, "seed {seed}: {spent} bytes");
        pair.run_for(MS * 10_000);
        assert_eq!(told(&pair), usage, "seed {seed}");
        let status = pair.status(STATION).expect("a session");
        assert_eq!(status.rejected.total(), 0, "seed {seed}");
    }
}

#[test]
fn what_is_said_last_holds_at_both_ends_soon() {
    for seed in 1..6 {
        let lossy = format!("{WIFI}loss = 0.03\n");
        let mut pair = pair([LTE, &lossy], seed, None, [PathUse::default(); 2]);
        for round in 0..20 {
            let (one, other) = (carrying(&[Tier::Control]), carrying(&[Tier::Control, Tier::Bulk]));
            pair.use_path(SECOND, if round % 2 == 0 { one } else { other });
            pair.run_for(MS * (round * 7 % 40));
        }
        for usage in [carrying(&[Tier::Control]), PathUse::default()] {
            pair.use_path(SECOND, usage);
            pair.run_for(MS * 1_000);
            assert_eq!(told(&pair), usage, "seed {seed}");
            let before = pair.carried(1);
            play(&mut pair, STATION, 3);
            let spent = pair.carried(1) - before;
            let is_used = usage == PathUse::default();
            assert!(if is_used { spent > 200_000 } else { spent < 5_000 }, "seed {seed}: {spent}");
        }
    }
}

#[test]
fn a_station_that_has_restarted_is_told_again() {
    let usage = PathUse { cost: Cost::new(12.5).expect("a price"), ..carrying(&[Tier::Control]) };
    let mut pair = pair([LTE, WIFI], 1, None, [PathUse::default(), usage]);
    fly(&mut pair, 2);
    pair.restart(STATION);
    pair.run_for(MS * 3_000);
    let before = pair.carried(1);
    play(&mut pair, STATION, 3);
    let spent = pair.carried(1) - before;
    assert!(spent < 3_000, "{spent} bytes");
    assert_eq!(told(&pair), usage);
}
