//! TCP in the world: what it reaches over links and over a session, and how it gets over what goes
//! wrong.

use netem::{Scenario, WorldOptions};
use proto::select::Policy;
use proto::{Duration, SessionConfig, Source};

use fulmar_world::tcp::{Congestion, FlowHost, FlowOptions, FlowWorld, Statistics};
use fulmar_world::{DRONE, STATION, one_link, two_links};

const BOTH: [Congestion; 2] = [Congestion::Cubic, Congestion::Reno];
/// Bytes of payload in a packet of 1,280 bytes, and what the packet takes of a link.
const MSS: f64 = 1_228.0;
const ON_LINK: f64 = 1_308.0;

fn over_links(scenario: &str, seed: u64) -> FlowWorld {
    let scenario = Scenario::from_toml(scenario, "test.toml").expect("a valid scenario");
    let hosts = FlowHost::over_links(&scenario).expect("a station and a drone");
    let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
    FlowWorld::new(&scenario, hosts, &options)
}

fn over_session(scenario: &str, seed: u64) -> FlowWorld {
    let scenario = Scenario::from_toml(scenario, "test.toml").expect("a valid scenario");
    let config = SessionConfig::default();
    let hosts = FlowHost::over_session(&scenario, &config, seed).expect("a station and a drone");
    let options = WorldOptions { seed: Some(seed), ..WorldOptions::default() };
    let mut world = FlowWorld::new(&scenario, hosts, &options);
    assert!(world.connect(world.world.now() + Duration::from_secs(10)), "connected");
    world.run_for(Duration::from_secs(2));
    world
}

/// Sends for so long, and returns the goodput without the first `lead`, in Mbit/s.
fn goodput(
    world: &mut FlowWorld,
    congestion: Congestion,
    lead: u64,
    seconds: u64,
) -> (f64, Statistics) {
    let flow = world.start(DRONE, FlowOptions { congestion, ..FlowOptions::default() });
    let start = world.world.now();
    world.run_for(Duration::from_secs(seconds));
    let goodput = world.goodput(flow, start + Duration::from_secs(lead), world.world.now());
    (goodput.as_mbps(), world.statistics(flow))
}

#[test]
fn a_clean_link_is_filled() {
    // The queue holds what the link carries in a round trip.
    let link = one_link("delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 50_000");
    for congestion in BOTH {
        let (mbps, statistics) = goodput(&mut over_links(&link, 1), congestion, 0, 30);
        assert!(
            mbps >= 0.95 * 10.0 * MSS / ON_LINK,
            "{congestion:?}: {mbps} Mbit/s, {statistics:?}"
        );
        assert_eq!(statistics.rto_timeouts, 0);
    }
}

/// A link with random loss and room for any window.
fn lossy(delay_ms: u64, loss: f64) -> String {
    one_link(&format!(
        "delay_ms = {delay_ms}\nrate_mbps = 200\nqueue_bytes = 4_000_000\nloss = {loss}"
    ))
}

#[test]
fn random_loss_leaves_what_the_equations_say() {
    // NewReno's window by M. Mathis and others, 1997: 1.22/√p segments. CUBIC's is the same here.
    for congestion in BOTH {
        let (mbps, _) = goodput(&mut over_links(&lossy(20, 0.01), 1), congestion, 10, 200);
        let expected = 1.22 * MSS * 8e-6 / (0.04 * 0.01_f64.sqrt());
        assert!((0.7..1.3).contains(&(mbps / expected)), "{congestion:?}: {mbps}, not {expected}");
    }
    // [RFC 9438 §5.1]: 1.054·(RTT/p)^0.75 segments.
    let (rtt, loss) = (0.4_f64, 0.0005);
    let mut world = over_links(&lossy(200, loss), 1);
    let (mbps, _) = goodput(&mut world, Congestion::Cubic, 20, 600);
    let expected = 1.054 * (rtt / loss).powf(0.75) * MSS * 8e-6 / rtt;
    assert!((0.7..1.3).contains(&(mbps / expected)), "{mbps}, not {expected}");
}

#[test]
fn goodput_under_loss_is_that_of_a_kernel() {
    // Linux 6.18 with iperf3 over the emulator, means of seeds 1 to 3, 20 s each after 2 s: Mbit/s
    // of CUBIC and of Reno. The machine was busy, so the emulator called the runs INVALID.
    let kernel = [(0.01, [2.44, 2.74]), (0.05, [0.89, 1.09]), (0.1, [0.48, 0.63])];
    for (loss, figures) in kernel {
        let link = format!("delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 100_000\nloss = {loss}");
        for (congestion, expected) in BOTH.into_iter().zip(figures) {
            let run = |seed| {
                let mut world = over_links(&one_link(&link), seed);
                let options = FlowOptions { congestion, mtu: 1_500, ..FlowOptions::default() };
                let flow = world.start(DRONE, options);
                world.run_for(Duration::from_secs(22));
                let lead = netem::Instant::from_millis(2_000);
                world.goodput(flow, lead, world.world.now()).as_mbps()
            };
            let mean = (1..=10).map(run).sum::<f64>() / 10.0;
            let ratio = mean / expected;
            assert!(
                (0.8..1.25).contains(&ratio),
                "{congestion:?} at {loss}: {mean}, not {expected}"
            );
        }
    }
}

#[test]
fn timeouts_double_through_an_outage_of_20_s_and_the_flow_goes_on() {
    let link = "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 50_000\n\
                [[link.outage]]\nstart_s = 10\nseconds = 20\nmode = \"drop\"";
    for congestion in BOTH {
        let mut world = over_links(&one_link(link), 1);
        let (_, statistics) = goodput(&mut world, congestion, 0, 60);
        let at = |seconds: f64| netem::Instant::ZERO + Duration::from_secs_f64(seconds);
        let back = world.delivered(0).iter().find(|(when, _)| *when > at(10.5)).expect("goes on").0;
        // From 0.25 to 0.35 s, doubled six or seven times.
        assert!((5..=8).contains(&statistics.rto_timeouts), "{statistics:?}");
        assert!(back > at(30.0) && back < at(53.0), "{back:?}");
        assert!(world.goodput(0, back + Duration::from_secs(2), at(60.0)).as_mbps() > 8.0);
    }
}

#[test]
fn reordering_slows_nothing_once_rack_has_adapted() {
    let link = |delay_ms| format!("delay_ms = {delay_ms}\nrate_mbps = 10\nqueue_bytes = 150_000");
    for congestion in BOTH {
        let mut world = over_links(&two_links(&link(20), &link(28), None), 1);
        let (mbps, statistics) = goodput(&mut world, congestion, 10, 40);
        assert!(
            mbps >= 0.9 * 20.0 * MSS / ON_LINK,
            "{congestion:?}: {mbps} Mbit/s, {statistics:?}"
        );
        assert_eq!(statistics.rto_timeouts, 0);
    }
}

#[test]
fn a_lost_last_segment_is_repaired_by_a_probe() {
    // The tenth segment leaves the transmitter 50.7 ms after the SYN.
    let link = "delay_ms = 20\nrate_mbps = 10\n\
                [[link.outage]]\nstart_s = 0.0500\nseconds = 0.005\nmode = \"drop\"";
    let mut world = over_links(&one_link(link), 1);
    let options = FlowOptions { bytes: Some(10 * MSS as u64 - 100), ..FlowOptions::default() };
    let flow = world.start(DRONE, options);
    world.run_for(Duration::from_secs(1));
    let statistics = world.statistics(flow);
    assert!(world.sender(flow).is_done(), "{statistics:?}");
    assert_eq!((statistics.retransmitted_segments, statistics.probes), (1, 1));
    assert_eq!(statistics.rto_timeouts, 0);
}

#[test]
fn lost_syns_are_repeated_after_one_and_two_seconds() {
    let link = "delay_ms = 20\nrate_mbps = 10\n\
                [[link.outage]]\nstart_s = 0\nseconds = 2.5\nmode = \"drop\"";
    let mut world = over_links(&one_link(link), 1);
    let flow = world.start(DRONE, FlowOptions::default());
    world.run_for(Duration::from_secs(5));
    let first = world.delivered(flow)[0].0.as_secs_f64();
    assert!((3.06..3.07).contains(&first), "{first}");
    assert_eq!(world.statistics(flow).retransmitted_syns, 2);
}

#[test]
fn flows_fill_a_session_over_a_clean_link_and_share_it() {
    let link = one_link("delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 100_000");
    let run = || {
        let mut world = over_session(&link, 1);
        let start = world.world.now();
        world.start(DRONE, FlowOptions { mtu: 1_400, ..FlowOptions::default() });
        world.run_for(Duration::from_secs(30));
        let settled = start + Duration::from_secs(2);
        let alone = world.goodput(0, settled, world.world.now()).as_mbps();
        let settled = world.world.now() + Duration::from_secs(2);
        world.start(DRONE, FlowOptions { mtu: 1_400, ..FlowOptions::default() });
        world.run_for(Duration::from_secs(60));
        let both = [0, 1].map(|flow| world.goodput(flow, settled, world.world.now()).as_mbps());
        (alone, both, world.delivered(1).to_vec(), world.statistics(0), world.statistics(1))
    };
    let first = run();
    assert!(first.0 >= 9.0, "{} Mbit/s, {:?}", first.0, first.3);
    assert!(first.1[0] + first.1[1] >= 9.0 && first.1[1] > 2.0, "{:?} Mbit/s", first.1);
    assert!(first == run(), "the same seed gives the same run");
}

#[test]
fn requests_are_answered_and_datagrams_pass_beside_a_flow() {
    let link = one_link("delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 100_000");
    let declared = Source::Declared { channel: 1, policy: Policy::DECLARED };
    for world in [&mut over_links(&link, 1), &mut over_session(&link, 1)] {
        let bulk = world.start(DRONE, FlowOptions::default());
        // Packets of 1,052 bytes have a payload of 1,000.
        let small = FlowOptions { mtu: 1_052, bytes: Some(0), ..FlowOptions::default() };
        let flow = world.start(DRONE, small);
        world.run_for(Duration::from_secs(2));
        assert_eq!(world.delivered(flow), []);
        for request in 1..=5 {
            world.write(flow, 1_000);
            for source in [Source::Tunnel, declared] {
                world.send_datagram(DRONE, source, b"beside");
            }
            world.run_for(Duration::from_millis(300));
            assert_eq!(world.delivered(flow).last().expect("it came").1, 1_000 * request);
            for _ in 0..2 {
                assert_eq!(world.poll_datagram(STATION).as_deref(), Some(&b"beside"[..]));
            }
        }
        assert_eq!((world.poll_datagram(STATION), world.poll_datagram(DRONE)), (None, None));
        world.finish(bulk);
        world.run_for(Duration::from_secs(2));
        assert!(world.sender(bulk).is_done() && world.sender(flow).is_done());
    }
}

#[test]
fn every_byte_arrives_whatever_the_link_does() {
    let link = one_link(
        "delay_ms = 15\nrate_mbps = 20\nqueue_bytes = 30_000\nloss = 0.04\n\
         jitter_ms = 6\nkeep_order = false\nduplicate = 0.03\nduplicate_lag_ms = 20\n\
         reorder = 0.05\nreorder_lag_ms = 60\ncorrupt = 0.02",
    );
    for seed in 0..40 {
        let congestion = BOTH[seed as usize % 2];
        let mut world = over_links(&link, seed);
        let flows = [700_000, 1, 1_228_001].map(|bytes| {
            let options = FlowOptions { congestion, bytes: Some(bytes), ..FlowOptions::default() };
            (world.start(seed as usize % 2, options), bytes)
        });
        world.run_for(Duration::from_secs(400));
        for (flow, bytes) in flows {
            let statistics = world.statistics(flow);
            assert!(world.sender(flow).is_done(), "seed {seed}: {statistics:?}");
            assert_eq!(world.delivered(flow).last().expect("some").1, bytes, "seed {seed}");
            assert_eq!(statistics.acknowledged_bytes, bytes, "seed {seed}");
        }
    }
}
