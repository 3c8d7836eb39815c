//! Behaviour of the world: clocks, timers, addresses, the same seed giving the same run, speed.

use fulmar_netem::{
    CLOCK_ORIGIN, Delay, Direction, Duration, Host, HostTransmit, Instant, LinkEnd, LinkModel,
    LossModel, Nat, Scenario, Step, StepKind, TimerJitter, VERDICT_LOG_HEADER, World, WorldOptions,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Sends what it is told to, answers while it has answers left, and notes what happens to it.
#[derive(Default)]
struct Peer {
    outbox: VecDeque<(usize, SocketAddr, Vec<u8>)>,
    addresses: Vec<SocketAddr>,
    answers: u32,
    got: Vec<(Instant, usize, SocketAddr, SocketAddr, Vec<u8>)>,
    alarms: VecDeque<Instant>,
    rung: Vec<Instant>,
}

impl Peer {
    fn new(scenario: &Scenario, host: usize) -> Self {
        let interfaces = scenario.interfaces(host);
        let addresses = interfaces.iter().map(|interface| (interface.address, 7_000).into());
        Self { addresses: addresses.collect(), ..Self::default() }
    }

    fn send(&mut self, interface: usize, destination: SocketAddr, bytes: &[u8]) {
        self.outbox.push_back((interface, destination, bytes.to_vec()));
    }
}

impl Host for Peer {
    fn handle_datagram(
        &mut self,
        now: Instant,
        interface: usize,
        source: SocketAddr,
        destination: SocketAddr,
        _: u8,
        bytes: &mut [u8],
    ) {
        self.got.push((now, interface, source, destination, bytes.to_vec()));
        if self.answers > 0 {
            self.answers -= 1;
            self.send(interface, source, bytes);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.rung.push(now);
        self.alarms.pop_front();
    }

    fn timeout(&self) -> Option<Instant> {
        self.alarms.front().copied()
    }

    fn poll_transmit(&mut self, _: Instant, bytes: &mut Vec<u8>) -> Option<HostTransmit> {
        let (interface, destination, payload) = self.outbox.pop_front()?;
        bytes.extend_from_slice(&payload);
        Some(HostTransmit { interface, source: self.addresses[interface], destination })
    }
}

fn delayed(millis: u64) -> LinkModel {
    LinkModel { delay: Delay::Fixed(ms(millis)), ..LinkModel::default() }
}

fn world(scenario: &Scenario, options: &WorldOptions) -> World<Peer> {
    let peers = (0..scenario.hosts.len()).map(|host| Peer::new(scenario, host)).collect();
    World::new(scenario, peers, options)
}

fn two(model: &LinkModel) -> (Scenario, World<Peer>) {
    let scenario = Scenario::new("two", 1.0).link("wifi", "drone", "station", model);
    let world = world(&scenario, &WorldOptions::default());
    (scenario, world)
}

#[test]
fn datagrams_arrive_on_the_clock_of_the_receiver() {
    let mut scenario = Scenario::new("two", 1.0).link("wifi", "a", "b", &delayed(10));
    scenario.hosts[1].clock.offset_ns = 5_000_000_000;
    let mut world = world(&scenario, &WorldOptions::default());
    let b = world.host(1).addresses[0];
    world.host_mut(1).answers = 1;
    world.host_mut(0).send(0, b, b"ping");
    world.run_until(at(25));
    assert_eq!(world.host(1).got[0].0, CLOCK_ORIGIN + ms(5_010));
    assert_eq!(world.host(0).got[0].0, CLOCK_ORIGIN + ms(20));
    assert_eq!(world.now(), at(25));
    let stats = world.stats();
    assert_eq!((stats.transmitted, stats.delivered, stats.unroutable), (2, 2, 0));
}

#[test]
fn the_length_on_a_link_includes_the_headers() {
    let (_, mut world) = two(&delayed(1));
    let b = world.host(1).addresses[0];
    world.host_mut(0).send(0, b, &[0; 100]);
    world.run_until(at(10));
    let up = LinkEnd { link: 0, direction: Direction::Up };
    assert_eq!(world.net().stats(up).bytes_in, 128);
}

#[test]
fn hosts_are_woken_when_they_ask_on_their_own_clock() {
    let mut scenario = Scenario::new("two", 1.0).link("wifi", "a", "b", &delayed(10));
    scenario.hosts[0].clock.skew_ppb = -200_000;
    let mut world = world(&scenario, &WorldOptions::default());
    let alarm = world.host_now(0) + Duration::from_secs(10);
    world.host_mut(0).alarms.push_back(alarm);
    world.schedule(at(1), 42);
    let steps: Vec<Step> = std::iter::from_fn(|| world.step()).collect();
    let slow = Instant::from_nanos(10_002_000_401);
    assert_eq!(steps[0], Step { at: at(1), kind: StepKind::Mark(42) });
    assert_eq!(steps[1], Step { at: slow, kind: StepKind::Timeout { host: 0 } });
    assert_eq!(steps.len(), 2);
    assert_eq!(world.host(0).rung, [alarm]);
}

#[test]
fn an_alarm_in_the_past_rings_at_once() {
    let (_, mut world) = two(&delayed(10));
    world.run_until(at(500));
    world.host_mut(0).alarms.push_back(Instant::ZERO);
    assert_eq!(world.next_event_at(), Some(at(500)));
    world.run_until(at(500));
    assert_eq!(world.host(0).rung, [CLOCK_ORIGIN + ms(500)]);
}

#[test]
#[should_panic(expected = "for ever")]
fn a_time_out_that_is_never_served_is_a_bug_of_the_host() {
    let (_, mut world) = two(&delayed(10));
    world.host_mut(0).alarms = vec![Instant::ZERO; 20_000].into();
    world.run_until(at(1));
}

#[test]
fn timer_jitter_only_delays_and_has_its_mean() {
    let scenario = Scenario::new("two", 1.0).link("wifi", "a", "b", &delayed(10));
    let timer_jitter =
        TimerJitter { mean: Duration::from_micros(60), spike_probability: 0.01, spike: ms(3) };
    let mut world = world(&scenario, &WorldOptions { seed: Some(3), timer_jitter, calm: false });
    let alarms: Vec<Instant> = (1..=10_000).map(|i| CLOCK_ORIGIN + ms(10 * i)).collect();
    world.host_mut(0).alarms = alarms.clone().into();
    world.run_until(at(200_000));
    let late: Vec<f64> = world
        .host(0)
        .rung
        .iter()
        .zip(&alarms)
        .map(|(rung, due)| rung.since(*due).as_secs_f64())
        .collect();
    assert!(world.host(0).rung.iter().zip(&alarms).all(|(rung, due)| rung >= due));
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!((mean - 90e-6).abs() < 10e-6, "{mean}");
    assert!(late.iter().filter(|&&late| late > 2e-3).count().abs_diff(100) < 40);
}

#[test]
fn what_arrives_goes_before_what_is_due_at_the_same_instant() {
    let (_, mut world) = two(&delayed(10));
    let b = world.host(1).addresses[0];
    world.host_mut(1).alarms.push_back(CLOCK_ORIGIN + ms(10));
    world.host_mut(0).send(0, b, b"just in time");
    let kinds: Vec<StepKind> = std::iter::from_fn(|| world.step()).map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Datagram { host: 1 }, StepKind::Timeout { host: 1 }]);
}

#[test]
fn an_address_that_changed_is_not_reached_any_more() {
    let (_, mut world) = two(&delayed(10));
    let b = world.host(1).addresses[0];
    world.host_mut(0).send(0, b, b"old");
    world.run_until(at(5));
    let new = Ipv4Addr::new(10, 77, 0, 99);
    world.set_address(1, 0, new);
    world.host_mut(0).send(0, (new, 7_000).into(), b"new");
    world.run_until(at(50));
    assert_eq!(world.host(1).got.len(), 1);
    assert_eq!(world.host(1).got[0].4, b"new");
    assert_eq!(world.stats().unroutable, 1);
}

#[test]
fn a_carriers_nat_shows_another_address_and_brings_answers_back() {
    let (_, mut world) = two(&delayed(10));
    let (a, b) = (world.host(0).addresses[0], world.host(1).addresses[0]);
    let outer = Ipv4Addr::new(100, 64, 0, 1);
    world.set_nat(0, 0, Some(Nat { address: outer, port_shift: 1_000 }));
    world.host_mut(1).answers = 1;
    world.host_mut(0).send(0, b, b"x");
    world.run_until(at(50));
    assert_eq!(world.host(1).got[0].2, (outer, 8_000).into());
    let (_, _, source, destination, _) = &world.host(0).got[0];
    assert_eq!((*source, *destination), (b, a));

    // The mapping expires: what comes for the old one is lost, and so is what comes for the
    // address behind it.
    world.set_nat(0, 0, Some(Nat { address: outer, port_shift: 2_000 }));
    world.host_mut(1).send(0, a, b"inner");
    world.run_until(at(100));
    assert_eq!(world.host(0).got.len(), 1);
    world.host_mut(0).send(0, b, b"y");
    world.run_until(at(150));
    assert_eq!(world.host(1).got[1].2, (outer, 9_000).into());
}

#[test]
fn a_restarted_host_gets_what_was_on_its_way() {
    let (scenario, mut world) = two(&delayed(10));
    let b = world.host(1).addresses[0];
    world.host_mut(1).alarms.push_back(CLOCK_ORIGIN + ms(20));
    world.host_mut(0).send(0, b, b"hello");
    world.run_until(at(5));
    let old = world.replace_host(1, Peer::new(&scenario, 1));
    assert!(old.got.is_empty());
    world.run_until(at(50));
    assert_eq!((world.host(1).got.len(), world.host(1).rung.len()), (1, 0));
}

#[test]
fn a_broadcast_reaches_all_and_a_unicast_on_it_one() {
    let text = r#"
[[broadcast]]
name = "air"
from = "drone"
to = ["g1", "g2", "g3"]
delay_ms = 1
[[broadcast.receiver]]
host = "g2"
delay_ms = 2
[[broadcast.receiver]]
host = "g3"
loss = 1
"#;
    let scenario = Scenario::from_toml(text, "air.toml").unwrap();
    let mut world = world(&scenario, &WorldOptions::default());
    world.host_mut(0).send(0, ([10, 77, 0, 255], 7_000).into(), b"all");
    world.run_until(at(10));
    world.host_mut(0).send(0, ([10, 77, 0, 3], 7_000).into(), b"one");
    world.run_until(at(20));
    let got = |host: usize| {
        world.host(host).got.iter().map(|got| got.0.since(CLOCK_ORIGIN)).collect::<Vec<_>>()
    };
    assert_eq!(got(1), [ms(1)]);
    assert_eq!(got(2), [ms(2), ms(12)]);
    assert!(got(3).is_empty());
}

#[test]
fn on_a_radio_everybody_sends_and_hears_on_one_interface() {
    let text = r#"
[[radio]]
name = "lan"
hosts = ["a", "b", "c"]
delay_ms = 1
"#;
    let scenario = Scenario::from_toml(text, "lan.toml").unwrap();
    let mut world = world(&scenario, &WorldOptions::default());
    for host in 0..3 {
        assert_eq!(world.host(host).addresses, [([10, 77, 0, 1 + host as u8], 7_000).into()]);
    }
    world.host_mut(1).send(0, ([10, 77, 0, 255], 7_000).into(), b"all");
    world.run_until(at(10));
    world.host_mut(2).send(0, ([10, 77, 0, 1], 7_000).into(), b"one");
    world.run_until(at(20));
    let got = |host: usize| {
        let got = world.host(host).got.iter();
        got.map(|got| (got.0.since(CLOCK_ORIGIN), got.2.ip().to_string())).collect::<Vec<_>>()
    };
    let (of_b, of_c) = ("10.77.0.2".to_owned(), "10.77.0.3".to_owned());
    assert_eq!(got(0), [(ms(1), of_b.clone()), (ms(11), of_c)]);
    assert_eq!(got(1), []);
    assert_eq!(got(2), [(ms(1), of_b)]);
}

/// Runs peers that answer each other over lossy, jittery links; returns the log of verdicts and
/// what the peers noted.
fn chatter(seed: u64) -> (String, String) {
    let text = r#"
[[host]]
name = "a"
clock_skew_ppm = 30
[[host]]
name = "b"
clock_offset_ms = -70
[[link]]
name = "l1"
between = ["a", "b"]
delay_ms = 5
jitter_ms = 4
keep_order = false
rate_mbps = 3
loss = 0.1
duplicate = 0.1
reorder = 0.1
reorder_lag_ms = 20
corrupt = 0.1
[[link]]
name = "l2"
between = ["b", "a"]
delay_ms = 7
queue_packets = 3
rate_mbps = 1
[link.burst_loss]
to_bad = 0.05
to_good = 0.3
"#;
    let scenario = Scenario::from_toml(text, "chatter.toml").expect("it is a scenario");
    let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
    let mut world = world(&scenario, &options);
    let log = Rc::new(RefCell::new(format!("{VERDICT_LOG_HEADER}\n")));
    let sink = Rc::clone(&log);
    world.set_verdict_log(move |record| {
        use std::fmt::Write as _;
        writeln!(sink.borrow_mut(), "{record}").expect("strings take everything");
    });
    let addresses = world.host(1).addresses.clone();
    world.host_mut(1).answers = 10_000;
    world.host_mut(0).answers = 10_000;
    for i in 0..200_u64 {
        for (interface, &address) in addresses.iter().enumerate() {
            let payload = vec![i as u8; 50 + (i as usize * 37) % 900];
            world.host_mut(0).send(interface, address, &payload);
        }
        world.run_until(at(10 * (i + 1)));
    }
    let notes = format!("{:?}{:?}", world.host(0).got, world.host(1).got);
    let log = log.borrow().clone();
    (log, notes)
}

#[test]
fn same_seed_same_log_and_another_seed_another() {
    let (first, second, other) = (chatter(1), chatter(1), chatter(2));
    assert!(first.0.lines().count() > 1_000);
    assert_eq!(first, second);
    assert_ne!(first.0, other.0);
}

#[test]
fn nothing_gets_lost_that_no_link_dropped() {
    let loss = LossModel { independent: 0.3, ..LossModel::default() };
    let (_, mut world) = two(&LinkModel { loss, ..delayed(10) });
    let b = world.host(1).addresses[0];
    for i in 0..5_000 {
        world.host_mut(0).send(0, b, &[i as u8; 20]);
        world.run_until(at(i));
    }
    world.run_until(at(6_000));
    let up = world.net().stats(LinkEnd { link: 0, direction: Direction::Up });
    assert_eq!(world.stats().transmitted, 5_000);
    assert_eq!(up.packets_in, 5_000);
    assert_eq!(up.packets_out + up.dropped.iter().sum::<u64>(), 5_000);
    assert_eq!(world.stats().delivered, up.packets_out);
}

/// Sends a datagram every 10 ms and returns, for each that arrived, when it was sent and how long
/// it took, in milliseconds.
fn travels(scenario: &Scenario, calm: bool, origin: u64) -> Vec<(u64, u64)> {
    let mut world = world(scenario, &WorldOptions { calm, ..WorldOptions::default() });
    if calm {
        world.begin(at(origin));
    }
    let b = world.host(1).addresses[0];
    for time in (0..300).step_by(10) {
        world.run_until(at(time));
        world.host_mut(0).send(0, b, &time.to_be_bytes());
    }
    world.run_until(at(1_000));
    let arrived = world.host(1).got.iter().map(|(local, .., bytes)| {
        let sent = u64::from_be_bytes(bytes[..].try_into().expect("eight bytes"));
        (sent, local.since(CLOCK_ORIGIN).as_millis() - sent)
    });
    arrived.collect()
}

#[test]
fn everything_counts_from_when_the_scenario_begins() {
    let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[host.clock_step]]\nat_s = 0.15\nby_ms = 500\n\
        [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
        delay_csv = \"delay.csv\"\nloss_csv = \"loss.csv\"\n\
        [[link.outage]]\nstart_s = 0.1\nseconds = 0.02\nmode = \"drop\"\n";
    let mut read = |path: &str| {
        Ok(match path {
            "delay.csv" => "time_s,delay_ms\n0,5\n0.05,1\n",
            _ => "time_s,loss\n0,1\n0.02,0\n9,0\n",
        }
        .to_owned())
    };
    let scenario = Scenario::from_toml_with(text, "s.toml", &mut read).expect("it reads");
    let at_once = travels(&scenario, false, 0);
    let later = travels(&scenario, true, 100);
    // Before the scenario begins nothing is lost, and the delay is the first one recorded.
    assert!((0..100).step_by(10).all(|sent| later.contains(&(sent, 5))), "{later:?}");
    let moved: Vec<_> = at_once.iter().map(|&(sent, took)| (sent + 100, took)).collect();
    let from_100: Vec<_> = later.into_iter().filter(|&(sent, _)| sent >= 100).collect();
    let of_both = |sent: u64| (100..300).contains(&sent);
    let moved: Vec<_> = moved.into_iter().filter(|&(sent, _)| of_both(sent)).collect();
    assert_eq!(from_100, moved);
    assert_eq!(from_100.first(), Some(&(120, 5)), "two were lost by the recording");
    assert!(from_100.contains(&(150, 1)) && !from_100.iter().any(|one| one.0 == 200));
    assert!(from_100.contains(&(250, 501)), "the clock stepped");
}
