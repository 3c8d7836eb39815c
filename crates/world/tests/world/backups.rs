//! When a backup is called, which one, and what it costs while it is not.

use proto::{Call, Cost, Event, Instant, InterfaceId, PathId, PathState, PathUse, SessionConfig};

use fulmar_world::{DRONE, Pair, STATION, two_links};

use super::path_use::{FIRST, LTE, MS, SECOND, WIFI, backup, fly};

const THIRD: PathId = PathId(2);

/// Two hosts that fly for some seconds before anything happens, with the second link as a backup.
fn pair(main: &str, seed: u64, dies_s: Option<f64>) -> Pair {
    let mut pair = Pair::new(&two_links(main, LTE, dies_s), seed, SessionConfig::default());
    pair.use_path(SECOND, backup());
    pair.run_for(MS * 2_000);
    fly(&mut pair, 9);
    pair
}

/// The same with a third link, of 50 ms, that is a backup as well, at this price; the backups begin
/// with outages at 12 s where that is said.
fn two_backups(cost: f64, dead: [bool; 2], seed: u64) -> Pair {
    let outage = "[[link.outage]]\nstart_s = 12\nseconds = 1000\nmode = \"drop\"\n";
    let outage = |is_dead| if is_dead { outage } else { "" };
    let scenario = two_links(WIFI, &format!("{LTE}{}", outage(dead[0])), Some(13.0))
        + &format!(
            "[[link]]\nname = \"third\"\nbetween = [\"drone\", \"station\"]\ndelay_ms = 50\n{}",
            outage(dead[1])
        );
    let mut pair = Pair::new(&scenario, seed, SessionConfig::default());
    let third = PathUse { cost: Cost::new(cost).expect("a price"), ..backup() };
    pair.use_path(SECOND, backup());
    pair.use_path(THIRD, third);
    pair.run_for(MS * 2_000);
    fly(&mut pair, 10);
    pair
}

/// Returns what a host was told of backups after the beginning, when none of its paths works yet;
/// with the second.
fn news(pair: &Pair, host: usize) -> Vec<(u64, PathId, Option<Call>)> {
    let news = |(at, event): &(Instant, Event)| {
        let (path, call) = match event {
            Event::BackupCalled { path, call } => (*path, Some(*call)),
            Event::BackupRests { path } => (*path, None),
            _ => return None,
        };
        Some((at.as_micros() / 1_000_000, path, call))
    };
    pair.events[host].iter().filter_map(news).filter(|(second, ..)| *second > 5).collect()
}

/// Returns what a path costs in an hour at the pace of so many seconds of flight.
fn an_hour(pair: &mut Pair, link: usize, seconds: u64) -> u64 {
    let (before, start) = (pair.carried(link), pair.world.now());
    fly(pair, seconds);
    (pair.carried(link) - before) * 3_600_000 / pair.world.now().since(start).as_millis()
}

/// Seen to fail with answers overdue by RFC 9002's variation alone: 115 kB an hour with 5 ms.
#[test]
fn a_backup_costs_less_than_100_kb_an_hour_beside_a_link_with_jitter() {
    let shapes = [
        ("uniform", 2),
        ("uniform", 5),
        ("uniform", 10),
        ("uniform", 40),
        ("normal", 2),
        ("normal", 10),
    ];
    for (shape, jitter) in shapes {
        let main = format!("{WIFI}jitter_ms = {jitter}\njitter_shape = \"{shape}\"\n");
        let mut pair = pair(&main, 1, None);
        let spent = an_hour(&mut pair, 1, 300);
        assert!(spent < 100_000, "{shape} {jitter} ms: {spent} bytes an hour");
    }
}

/// The message that is lost first leaves up to 20 ms after the one before it, whose way may take 20
/// ms less than usual. An answer is missed after 40 ms and what is left of the margin; the backup
/// takes 35.
#[test]
fn control_goes_by_a_backup_within_115_ms_when_a_link_with_jitter_of_10_ms_dies() {
    let mut gaps = Vec::new();
    for seed in 1..21 {
        let dies = 15.0 + seed as f64 * 0.0017;
        let mut pair = pair(&format!("{WIFI}jitter_ms = 10\n"), seed, Some(dies));
        fly(&mut pair, 3);
        gaps.push(fly(&mut pair, 4));
    }
    gaps.sort();
    assert!(gaps[10] < MS * 90 && gaps[19] < MS * 115, "{gaps:?}");
}

/// Seen to fail without the bound on what control may take: a gap of 2.5 s.
#[test]
fn control_goes_by_a_backup_while_the_main_link_is_slow_and_leaves_it_once() {
    let falls = "delay_ms = 10\nrate_steps = [[0, 20], [12, 0.05], [22, 20]]\n";
    let steps =
        |ms: u64| format!("delay_csv = \"delay_ms 0:10,12:{ms},22:10,600:10\"\nrate_mbps = 20\n");
    for (main, seed) in [falls, &steps(100), &steps(300)].into_iter().zip(1..) {
        let mut pair = pair(main, seed, None);
        let before = [DRONE, STATION].map(|host| pair.seen[host].len());
        let gap = fly(&mut pair, 11);
        assert!(gap < MS * 90, "{main}: {gap:?}");
        for host in [DRONE, STATION] {
            let latest = pair.seen[host][before[host]..].iter().map(|seen| seen.delivery.age).max();
            assert!(latest < Some(MS * 100), "{main}: {latest:?}");
        }
        fly(&mut pair, 3);
        let before = pair.carried(1);
        fly(&mut pair, 10);
        assert!(pair.carried(1) - before < 1_500, "{main}: it rests again");
        for host in [DRONE, STATION] {
            let news = news(&pair, host);
            assert!(
                matches!(news[..], [(12, SECOND, Some(_)), (13..25, SECOND, None)]),
                "{main}: {news:?}"
            );
        }
    }
}

/// Seen to fail with a full socket taken for a link that works: the backup is not called.
#[test]
fn control_goes_by_a_backup_while_the_socket_of_the_main_path_is_full() {
    let mut pair = pair(WIFI, 1, None);
    let block = |pair: &mut Pair, blocked| {
        let endpoint = &mut pair.world.host_mut(DRONE).driver.endpoint;
        endpoint.set_blocked(InterfaceId(0), None, blocked);
    };
    block(&mut pair, true);
    let gap = fly(&mut pair, 3);
    assert!(gap < MS * 90, "{gap:?}");
    assert_eq!(news(&pair, DRONE).len(), 1, "{:?}", news(&pair, DRONE));
    assert_eq!(news(&pair, DRONE)[0].2, Some(Call::Full));
    block(&mut pair, false);
    fly(&mut pair, 3);
    let before = pair.carried(1);
    fly(&mut pair, 10);
    assert!(pair.carried(1) - before < 1_500, "it rests again");
}

/// Seen to fail with all of them called together: the dear one carried as much as the cheap one.
#[test]
fn the_cheapest_backup_is_called_first_and_the_others_rest() {
    for (cost, [cheap, dear]) in [(20.0, [1, 2]), (5.0, [2, 1])] {
        let mut pair = two_backups(cost, [false; 2], 1);
        let before = [1, 2].map(|link| pair.carried(link));
        let gap = fly(&mut pair, 9);
        let spent = |link: usize| pair.carried(link) - before[link - 1];
        assert!(gap < MS * if cheap == 1 { 90 } else { 105 }, "{cost}: {gap:?}");
        assert!(
            spent(cheap) > 100_000 && spent(dear) < 1_500,
            "{cost}: {} {}",
            spent(cheap),
            spent(dear)
        );
    }
}

#[test]
fn the_next_backup_is_called_when_the_one_called_does_not_answer_in_its_round_trip() {
    for (seed, (cost, dead)) in
        [(20.0, [true, false]), (5.0, [false, true])].into_iter().enumerate()
    {
        let mut pair = two_backups(cost, dead, seed as u64 + 1);
        let gap = fly(&mut pair, 9);
        // The main path's 27 ms and the gap before them, the round trip and half of the one that is
        // dead, and the way of the next.
        assert!(gap < MS * 240, "{cost}: {gap:?}");
        let called: Vec<PathId> = news(&pair, DRONE).iter().map(|(_, path, _)| *path).collect();
        let order = if cost > 10.0 { [SECOND, THIRD] } else { [THIRD, SECOND] };
        assert_eq!(called[..2], order, "{cost}");
    }
}

#[test]
fn a_main_link_that_flaps_is_one_use_of_the_backup_and_costs_no_gap_of_90_ms() {
    let outages: String = (0..30)
        .map(|second| {
            format!("[[link.outage]]\nstart_s = {}\nseconds = 0.5\nmode = \"drop\"\n", 12 + second)
        })
        .collect();
    let mut pair = pair(&format!("{WIFI}{outages}"), 1, None);
    let gap = fly(&mut pair, 40);
    assert!(gap < MS * 90, "{gap:?}");
    for host in [DRONE, STATION] {
        assert_eq!(news(&pair, host).len(), 2, "{:?}", news(&pair, host));
    }
}

#[test]
fn a_link_that_works_in_one_direction_alone_calls_the_backup_at_both_ends() {
    let outage = "[[link.outage]]\nstart_s = 12\nseconds = 10\nmode = \"drop\"\n";
    for direction in ["from_drone", "from_station"] {
        let mut pair = pair(&format!("{WIFI}{outage}direction = \"{direction}\"\n"), 1, None);
        let gap = fly(&mut pair, 15);
        assert!(gap < MS * 90, "{direction}: {gap:?}");
        assert!([DRONE, STATION].iter().all(|host| news(&pair, *host).len() == 2), "{direction}");
    }
}

#[test]
fn a_station_that_restarts_while_the_backup_carries_all_is_found_again_by_it() {
    let mut pair = pair(WIFI, 1, Some(12.0));
    fly(&mut pair, 5);
    pair.restart(STATION);
    pair.run_for(MS * 3_000);
    let gap = fly(&mut pair, 5);
    assert!(gap < MS * 46, "{gap:?}");
    assert_eq!(pair.path_state(DRONE, SECOND), Some(PathState::Active));
    assert_ne!(pair.path_state(DRONE, FIRST), Some(PathState::Active));
}
