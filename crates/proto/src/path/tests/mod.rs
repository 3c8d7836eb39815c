//! What a path's health promises, held against emulated links: silence is noticed in time, chance
//! condemns nobody, and what comes back is believed only when it is fresh [specs/paths.md §3].

pub(crate) mod testbed;

use netem::{
    Delay, GilbertElliott, LinkModel, LinkRate, LossModel, Outage, OutageMode, QueueLimit,
    StateChange,
};

use proptest::prelude::*;

use self::testbed::{Source, Testbed};
use super::*;
use crate::ids::InterfaceId;
use crate::recovery::{AckInfo, Arrival};
use crate::via::Via;

const TELEMETRY: Duration = Duration::from_millis(20);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn link(mbps: f64, rtt_ms: u64, loss: f64) -> LinkModel {
    LinkModel {
        delay: Delay::Fixed(Duration::from_millis(rtt_ms) / 2),
        rate: LinkRate::Constant(Rate::from_mbps(mbps)),
        queue: QueueLimit { packets: None, bytes: Some(125_000) },
        loss: LossModel { independent: loss, ..LossModel::default() },
        ..LinkModel::default()
    }
}

fn dead_from(start: Instant, mode: OutageMode, duration: Duration, model: LinkModel) -> LinkModel {
    LinkModel { outages: vec![Outage { start, duration, mode }], ..model }
}

#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// 50 messages a second each way.
    Telemetry,
    /// The same, and 5.8 Mbit/s of video-like bursts from the first end.
    Video,
    /// As much bulk as the path takes, from the first end.
    Greedy,
}

fn start(models: [LinkModel; 2], traffic: Traffic, seed: u64) -> Testbed {
    let mut bed = Testbed::new(&models, seed);
    let flow = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
    let every = Duration::from_millis(33);
    match traffic {
        Traffic::Telemetry => {}
        Traffic::Video => bed.set_source(flow, Source::Bursts { datagrams: 16, every }),
        Traffic::Greedy => bed.set_source(flow, Source::Greedy),
    }
    bed.set_control(flow, Some(TELEMETRY));
    bed.set_control(flow + 1, Some(TELEMETRY));
    bed
}

/// How long the first end took after a death, and how long it was allowed to.
#[derive(Debug)]
struct Silence {
    /// Until bulk is offered to other paths first.
    doubted: Duration,
    /// Until the path is suspected.
    suspected: Duration,
    /// max(100 ms, srtt + 4·rttvar + probe interval).
    one_round_trip: Duration,
    /// The same, plus a message interval until anything is sent at all, plus another round trip for
    /// the probes that make sure.
    two_round_trips: Duration,
}

/// Kills the links (forth, back, or both) at `death`.
fn die(model: &LinkModel, dead: [bool; 2], traffic: Traffic, death: Instant, seed: u64) -> Silence {
    let forever = Duration::from_secs(1_000);
    let models = dead.map(|dead| {
        let model = model.clone();
        if dead { dead_from(death, OutageMode::Drop, forever, model) } else { model }
    });
    let mut bed = start(models, traffic, seed);
    bed.run_until(death);
    let before = &bed.ends[0].path;
    let srtt = before.srtt().expect("traffic for seconds");
    let patience = before.probe_timeout() + (srtt / 4).min(Duration::from_millis(20));
    let (mut doubted, mut suspected) = (Duration::MAX, Duration::MAX);
    for after in (0..1_000).map(Duration::from_millis) {
        bed.run_until(death + after);
        let now = bed.ends[0].path.snapshot(bed.now, 0);
        if now.doubtful {
            doubted = doubted.min(after);
        }
        if now.state == PathState::Suspected {
            suspected = suspected.min(after);
        }
    }
    let tenth = Duration::from_millis(100);
    Silence {
        doubted,
        suspected,
        one_round_trip: patience.max(tenth),
        two_round_trips: (patience + TELEMETRY + srtt).max(tenth),
    }
}

#[test]
fn silence_is_noticed_in_time_at_telemetry_and_bulk_rates() {
    for traffic in [Traffic::Telemetry, Traffic::Video, Traffic::Greedy] {
        for (mbps, rtt, loss) in
            [(20.0, 20, 0.0), (20.0, 20, 0.02), (4.0, 70, 0.01), (10.0, 5, 0.02)]
        {
            for dead in [[true, true], [true, false], [false, true]] {
                for phase in 0..12 {
                    let death = at(6_000 + phase * 37);
                    let silence = die(&link(mbps, rtt, loss), dead, traffic, death, phase);
                    let what = format!(
                        "{traffic:?} {mbps} Mbit/s {rtt} ms {loss} {dead:?} at {death:?}, seed {phase}: {silence:?}"
                    );
                    assert!(silence.doubted <= silence.one_round_trip, "{what}");
                    assert!(silence.suspected <= silence.two_round_trips, "{what}");
                }
            }
        }
    }
}

#[test]
fn random_loss_of_one_or_two_percent_never_condemns_in_a_million_packets() {
    for (mbps, rtt, loss, traffic, seconds) in [
        (20.0, 20, 0.02, Traffic::Telemetry, 2_500),
        (4.0, 70, 0.01, Traffic::Telemetry, 2_500),
        (20.0, 20, 0.02, Traffic::Video, 400),
        (4.0, 70, 0.01, Traffic::Greedy, 400),
        (10.0, 40, 0.02, Traffic::Greedy, 200),
    ] {
        let mut bed = start([link(mbps, rtt, loss), link(mbps, rtt, loss)], traffic, 11);
        let mut sent = 0;
        for second in 1..=seconds {
            bed.run_until(at(second * 1_000));
            bed.ends.iter_mut().for_each(|end| end.forget_deliveries());
        }
        for end in &bed.ends {
            let counters = end.path.counters;
            assert_eq!(counters.suspicions, 0, "{mbps} {rtt} {loss} {traffic:?}");
            sent += counters.datagrams_sent;
        }
        assert!(sent > 200_000, "{sent}");
    }
}

#[test]
fn a_stall_is_suspected_and_what_it_releases_poisons_nothing() {
    for traffic in [Traffic::Telemetry, Traffic::Greedy] {
        let hold = OutageMode::Hold { queue: None };
        let model = dead_from(at(10_000), hold, Duration::from_secs(2), link(4.0, 70, 0.01));
        let mut bed = start([model.clone(), model], traffic, 3);
        bed.run_until(at(10_000));
        let before = bed.ends[0].path.snapshot(bed.now, 0);
        bed.ends[0].changes.clear();
        bed.run_until(at(13_000));
        let after = bed.ends[0].path.snapshot(bed.now, 0);
        let states: Vec<PathState> = bed.ends[0].changes.iter().map(|&(_, state)| state).collect();
        assert_eq!(states, [PathState::Suspected, PathState::Active], "{traffic:?}");
        let (revived, _) = bed.ends[0].changes[1];
        // What the link held leaves it in up to a quarter of a second; a fresh answer is behind it.
        assert!(revived > at(12_000) && revived < at(12_400), "{revived:?}");
        let spread = |now: Option<Duration>, then: Option<Duration>| {
            now.unwrap_or_default().abs_diff(then.unwrap_or_default())
        };
        assert!(spread(after.min_rtt, before.min_rtt) < Duration::from_millis(4), "{after:?}");
        assert!(spread(after.srtt, before.srtt) < Duration::from_millis(25), "{after:?}");
        assert!(after.loss < 0.05, "what silence cost is no loss of the link: {}", after.loss);
    }
}

#[test]
fn a_flapping_link_is_suspected_each_time_and_revived_each_time() {
    let outages = (0..20).map(|n| Outage {
        start: at(5_000 + n * 1_000),
        duration: Duration::from_millis(400),
        mode: OutageMode::Drop,
    });
    let model = LinkModel { outages: outages.collect(), ..link(20.0, 20, 0.02) };
    let mut bed = start([model.clone(), model], Traffic::Video, 5);
    bed.run_until(at(26_000));
    let end = &bed.ends[0];
    let suspected = end.changes.iter().filter(|(_, state)| *state == PathState::Suspected).count();
    assert_eq!(suspected, 20, "{:?}", end.changes);
    assert_eq!(end.path.state(), PathState::Active);
    for pair in end.changes.windows(2) {
        let ((when, state), (next, _)) = (pair[0], pair[1]);
        if state == PathState::Suspected {
            assert!(next.since(when) < Duration::from_millis(500), "{:?}", end.changes);
        }
    }
    let srtt = end.path.snapshot(bed.now, 0).srtt.expect("traffic");
    assert!(srtt < Duration::from_millis(35), "{srtt:?}");
}

#[test]
fn a_path_that_becomes_ten_times_slower_is_carried_on_not_given_up() {
    let interval = Duration::from_secs(5);
    let delays = netem::Series::delays("20\n200\n200\n200\n200\n200\n", "delays", interval);
    let series = std::sync::Arc::new(delays.expect("well-formed"));
    let delay = Delay::File { path: "delays".into(), interval, series };
    let model = LinkModel { delay, ..link(20.0, 40, 0.01) };
    let mut bed = start([model.clone(), model], Traffic::Video, 7);
    bed.run_until(at(8_000));
    let path = bed.ends[0].path.snapshot(bed.now, 0);
    assert_eq!(path.state, PathState::Active);
    assert!(path.srtt.expect("traffic") > Duration::from_millis(350), "{path:?}");
    bed.ends[0].changes.clear();
    bed.run_until(at(25_000));
    assert_eq!(bed.ends[0].changes, [], "steady once the new round-trip time is known");
}

#[test]
fn losing_a_quarter_of_everything_in_bursts_leaves_a_path_usable() {
    let burst = GilbertElliott {
        change: StateChange::PerPacket { to_bad: 0.1, to_good: 0.3 },
        loss_good: 0.0,
        loss_bad: 1.0,
    };
    let loss = LossModel { burst: Some(burst), ..LossModel::default() };
    let model = LinkModel { loss, ..link(20.0, 20, 0.0) };
    let mut bed = start([model.clone(), model], Traffic::Telemetry, 9);
    bed.run_until(at(200_000));
    let path = bed.ends[0].path.snapshot(bed.now, 0);
    assert!((0.05..0.5).contains(&path.loss), "{}", path.loss);
    assert!(path.burst > 1.4, "{}", path.burst);
    let suspected: Duration = bed.ends[0]
        .changes
        .windows(2)
        .filter(|pair| pair[0].1 == PathState::Suspected)
        .map(|pair| pair[1].0.since(pair[0].0))
        .sum();
    assert!(suspected < Duration::from_secs(10), "{suspected:?} of 200 s");
}

#[test]
fn an_idle_path_that_dies_is_suspected_within_its_probe_interval_and_a_tenth_of_a_second() {
    let forever = Duration::from_secs(1_000);
    let model = dead_from(at(10_000), OutageMode::Drop, forever, link(20.0, 20, 0.0));
    let mut bed = Testbed::new(&[model.clone(), model], 1);
    bed.add_flow(CongestionKind::DelayBounded, 0, 1);
    bed.run_until(at(12_000));
    let (when, state) = *bed.ends[0].changes.last().expect("suspected");
    assert_eq!(state, PathState::Suspected);
    assert!(when < at(11_100), "{when:?}");
    let probes = bed.ends[0].path.counters.datagrams_sent;
    bed.run_until(at(200_000));
    let later = bed.ends[0].path.counters.datagrams_sent - probes;
    assert!(later < 600, "a dead path is probed more and more rarely: {later}");
}

/// After a suspicion a whole window left once more, into the queue in which the first one stood.
#[test]
fn bulk_that_stands_before_a_hop_that_fell_is_not_sent_again() {
    let rates = "time_s,rate_mbps\n0,20\n5,0.05\n1000,20\n";
    let series = netem::Series::rates_csv(rates, "rates").expect("well-formed");
    let rate = LinkRate::Csv { path: String::new(), series: std::sync::Arc::new(series) };
    let queue = QueueLimit { packets: None, bytes: Some(10_000_000) };
    let model = LinkModel { rate, queue, ..link(20.0, 60, 0.0) };
    let mut bed = start([model.clone(), model], Traffic::Greedy, 3);
    bed.run_until(at(5_000));
    let window = bed.ends[0].path.snapshot(bed.now, 0).cwnd;
    let before = bed.links[0].stats().bytes_in;
    bed.run_until(at(7_000));
    let sent = bed.links[0].stats().bytes_in - before;
    assert!(sent < window * 5 / 4, "{sent} bytes with a window of {window}");
}

/// Plain copies waited for a thin hop and for the end of a silence: no opponent any more.
#[test]
fn without_congestion_control_nothing_is_held_back_whatever_the_hop_does() {
    let model =
        dead_from(at(5_000), OutageMode::Drop, Duration::from_secs(10), link(0.05, 60, 0.0));
    let mut bed = Testbed::new(&[model.clone(), model], 1);
    bed.add_flow(CongestionKind::None, 0, 1);
    (0..2).for_each(|end| bed.set_control(end, Some(TELEMETRY)));
    bed.run_until(at(4_000));
    let end = |bed: &Testbed| {
        let path = &bed.ends[0].path;
        let is_careful = path.careful_since(bed.now).is_some();
        (path.state(), path.bulk_budget(bed.now) > 1 << 40, path.slow_rate(bed.now), is_careful)
    };
    assert_eq!(end(&bed), (PathState::Active, true, None, false), "the hop is full");
    bed.run_until(at(9_000));
    assert_eq!(end(&bed), (PathState::Suspected, true, None, false));
}

#[derive(Clone, Debug)]
enum Step {
    Wait { us: u64 },
    Send { bytes: usize, ack_eliciting: bool, bulk: bool },
    Ack { largest: u64, length: u64, delay_us: u32, received_ms: u32 },
    Receive { pn: u64, port: u16, ack_eliciting: bool },
    Challenge { token: u64 },
    Answer,
    Present { present: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..200_000).prop_map(|us| Step::Wait { us }),
        (1_usize..1_500, any::<bool>(), any::<bool>())
            .prop_map(|(bytes, ack_eliciting, bulk)| Step::Send { bytes, ack_eliciting, bulk }),
        (0_u64..60, 0_u64..60, any::<u32>(), any::<u32>()).prop_map(
            |(largest, length, delay_us, received_ms)| Step::Ack {
                largest,
                length,
                delay_us,
                received_ms
            }
        ),
        (any::<u64>(), 1_u16..4, any::<bool>())
            .prop_map(|(pn, port, ack_eliciting)| Step::Receive { pn, port, ack_eliciting }),
        any::<u64>().prop_map(|token| Step::Challenge { token }),
        Just(Step::Answer),
        any::<bool>().prop_map(|present| Step::Present { present }),
    ]
}

fn route(port: u16) -> Route {
    let remote = Via::Udp(([192, 0, 2, 1], port).into());
    Route { interface: InterfaceId(0), local: None, remote }
}

/// The same address, by a connection.
fn stream_route(port: u16) -> Route {
    Route { remote: Via::Stream(([192, 0, 2, 1], port).into()), ..route(port) }
}

fn take(path: &mut Path, now: Instant, step: &Step) {
    match *step {
        Step::Wait { .. } => {}
        Step::Send { bytes, ack_eliciting, bulk } => {
            let pn = path.next_packet_number();
            let frames = SentFrames::new();
            let outgoing =
                Outgoing { pn, bytes, ack_eliciting, bulk, marked: false, route: None, frames };
            path.on_packet_sent(now, outgoing);
        }
        Step::Ack { largest, length, delay_us, received_ms } => {
            let ranges = [largest.saturating_sub(length)..=largest];
            let delay = Duration::from_micros(delay_us.into());
            let received_at_us = u64::from(received_ms) << 20;
            path.on_ack(
                now,
                &AckInfo { largest, received_at_us, delay, ranges: &ranges, elsewhere: false },
            );
        }
        Step::Receive { pn, port, ack_eliciting } => {
            path.on_datagram(now, pn, route(port), 100);
            let arrival = Arrival {
                ack_eliciting,
                urgent: pn % 2 == 0,
                may_wait: pn % 5 == 0,
                in_order: false,
            };
            path.on_packet_received(now, pn, arrival);
        }
        Step::Challenge { token } => path.on_challenge(token, route(1)),
        Step::Answer => {
            path.take_response();
            path.take_ack(now);
            if let Some(challenge) = path.take_challenge(now) {
                path.on_response(now, challenge.token);
            }
        }
        Step::Present { present } => {
            path.set_present(now, present);
        }
    }
}

proptest! {
    /// Whatever comes in and whatever is sent, time moves on and bulk waits for an active path.
    #[test]
    fn no_sequence_of_events_breaks_a_path(
        steps in proptest::collection::vec(step(), 1..300),
        congestion in prop_oneof![
            Just(CongestionKind::DelayBounded), Just(CongestionKind::NewReno),
            Just(CongestionKind::Cubic), Just(CongestionKind::Asran),
            Just(CongestionKind::AsranCubic), Just(CongestionKind::AsranDelay),
            Just(CongestionKind::None)
        ],
        initiator in any::<bool>(),
        by_stream in any::<bool>(),
    ) {
        let idle_probe = Duration::from_secs(1);
        let config = PathConfig { congestion, initiator, idle_probe, protect_control: ProtectControl::Off };
        let mut now = at(1);
        let begun = if by_stream { stream_route(1) } else { route(1) };
        let mut path = Path::new(now, PathId(0), begun, config, 9);
        for step in &steps {
            if let Step::Wait { us } = step {
                now += Duration::from_micros(*us);
            }
            take(&mut path, now, step);
            path.on_timeout(now);
            prop_assert!(path.timeout().is_none_or(|timeout| timeout > now));
            prop_assert!(path.state() == PathState::Active || path.lets_all_go() || path.bulk_budget(now) == 0);
            prop_assert!(path.pacing_deadline(now).is_none_or(|deadline| deadline > now));
            let snapshot = path.snapshot(now, 0);
            prop_assert!((0.0..=1.0).contains(&snapshot.loss) && path.max_datagram() <= 1_472);
        }
        // Left alone, a path that is silent settles into probes that grow rare.
        let mut calls = 0;
        let end = now + Duration::from_secs(100);
        while let Some(timeout) = path.timeout().filter(|&timeout| timeout < end) {
            now = timeout;
            path.on_timeout(now);
            if path.probe_is_wanted() {
                let ping = Step::Send { bytes: 60, ack_eliciting: true, bulk: false };
                take(&mut path, now, &ping);
            }
            path.take_challenge(now);
            path.take_ack(now);
            calls += 1;
            prop_assert!(calls < 3_000, "{:?} {path:?}", path.timeout());
        }
    }
}

#[test]
fn what_a_connection_has_not_answered_is_late_until_it_ends_and_no_loss_of_the_link_then() {
    let (mut now, config) = (
        at(1),
        PathConfig {
            congestion: CongestionKind::DelayBounded,
            initiator: true,
            idle_probe: Duration::from_secs(1),
            protect_control: ProtectControl::Balanced,
        },
    );
    let mut path = Path::new(now, PathId(0), stream_route(1), config, 9);
    path.confirm_address(now, Duration::from_millis(20));
    let control = Step::Send { bytes: 100, ack_eliciting: true, bulk: false };
    (0..20).for_each(|_| take(&mut path, now, &control));
    now += Duration::from_millis(20);
    // Numbers that are left out do not matter here: the first few never are.
    let ranges = [0..=3, 10..=12];
    let answered = AckInfo {
        largest: 12,
        received_at_us: 0,
        delay: Duration::ZERO,
        ranges: &ranges,
        elsewhere: false,
    };
    assert_eq!(path.on_ack(now, &answered).lost.len(), 6, "the peer has dropped them");
    let bulk = path.bulk_budget(now);
    assert!(bulk > 1 << 30, "the kernel bounds it: {bulk}");
    let late = now + Duration::from_secs(10);
    while path.state() == PathState::Active && now < late {
        now = path.timeout().expect("it is watched");
        assert_eq!(path.on_timeout(now).lost.len(), 0);
        if path.probe_is_wanted() {
            take(&mut path, now, &control);
        }
    }
    assert_eq!((path.state(), path.bulk_budget(now)), (PathState::Suspected, 0));
    let (pn, unsent) = (path.next_packet_number(), SentFrames::new());
    let (bytes, marked) = (100, false);
    let unsent = Outgoing {
        pn,
        bytes,
        ack_eliciting: true,
        bulk: true,
        marked,
        route: None,
        frames: unsent,
    };
    path.on_packet_sent(now, unsent);
    assert_eq!(path.on_unsent(pn).lost.len(), 1, "nobody else tells of it");
    let ended = path.on_stream_ended(now);
    assert_eq!((path.state(), ended.lost.len() >= 20 - 13), (PathState::Absent, true));
    assert_eq!(path.mtu_probe(now), None);
    assert!(!path.rejoins(stream_route(2)), "this end connects");
    let mut path =
        Path::new(now, PathId(0), stream_route(1), PathConfig { initiator: false, ..config }, 9);
    path.confirm_address(now, Duration::from_millis(20));
    path.on_stream_ended(now);
    assert!(path.rejoins(stream_route(2)) && !path.rejoins(route(2)));
    let back = path.rejoin(now, stream_route(2));
    assert_eq!(back.changed, Some((PathState::Absent, PathState::Validating)));
    assert_eq!(path.take_challenge(now), None, "nothing has come by it");
    path.on_datagram(now, 1, stream_route(2), 100);
    let challenge = path.take_challenge(now).expect("it has to prove itself");
    assert_eq!(challenge.route, stream_route(2));
    path.on_response(now, challenge.token);
    assert_eq!(path.state(), PathState::Active);
}
