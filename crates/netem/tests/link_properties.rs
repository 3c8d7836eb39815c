//! What holds for every link, whatever its model and its packets.

use fulmar_netem::{
    Delay, Delivery, DeliveryTrace, DropCause, Duplication, Duration, GilbertElliott, Instant,
    Jitter, JitterShape, Link, LinkModel, LinkRate, LossModel, OPPORTUNITY_BYTES, Outage,
    OutageMode, QueueLimit, Rate, Reordering, Series, StateChange, Verdict,
};
use proptest::prelude::*;
use std::sync::Arc;

/// Entry times with lengths, in order of time.
type Packets = Vec<(Instant, usize)>;

fn packets() -> impl Strategy<Value = Packets> {
    prop::collection::vec((0_u64..3_000_000, 1_usize..2_000), 1..300).prop_map(|steps| {
        let mut at = 0;
        let enter = |(gap, len)| {
            // A third of the packets come in bursts, at the same instant as the one before.
            at += if gap < 1_000_000 { 0 } else { gap };
            (Instant::from_nanos(at), len)
        };
        steps.into_iter().map(enter).collect()
    })
}

fn duration(most_ms: u64) -> impl Strategy<Value = Duration> {
    (0..most_ms * 1_000_000).prop_map(Duration::from_nanos)
}

fn delivery_trace() -> impl Strategy<Value = Arc<DeliveryTrace>> {
    prop::collection::vec(0_u64..20, 1..50).prop_map(|gaps| {
        let mut ms = 1;
        let mut text = String::new();
        for gap in gaps {
            ms += gap.saturating_sub(8);
            text += &format!("{ms}\n");
        }
        Arc::new(DeliveryTrace::parse(&text, "generated").expect("it is a trace"))
    })
}

fn rates() -> impl Strategy<Value = LinkRate> {
    prop_oneof![
        Just(LinkRate::Unlimited),
        (100_000_u64..100_000_000).prop_map(|bps| LinkRate::Constant(Rate::from_bps(bps))),
        delivery_trace()
            .prop_map(|trace| LinkRate::Deliveries { path: "generated".to_owned(), trace }),
        prop::collection::vec(0_u64..10, 1..10).prop_map(|steps| {
            let mut text = "time_s,rate_mbps\n0,5\n".to_owned();
            for (index, mbps) in steps.iter().enumerate() {
                text += &format!("{},{}\n", 0.05 * (index + 1) as f64, mbps / 2);
            }
            let series = Series::rates_csv(&text, "generated").expect("it is a series");
            LinkRate::Csv { path: "generated".to_owned(), series: Arc::new(series) }
        }),
    ]
}

fn outages() -> impl Strategy<Value = Vec<Outage>> {
    let mode = prop_oneof![Just(OutageMode::Drop), Just(OutageMode::Hold { queue: None })];
    let outage = (0_u64..400, duration(100), mode).prop_map(|(start, duration, mode)| Outage {
        start: Instant::from_millis(start),
        duration,
        mode,
    });
    prop::collection::vec(outage, 0..4)
}

fn queues() -> impl Strategy<Value = QueueLimit> {
    let packets = prop::option::of(1_u64..50);
    let bytes = prop::option::of(2_000_u64..50_000);
    (packets, bytes).prop_map(|(packets, bytes)| QueueLimit { packets, bytes })
}

fn models() -> impl Strategy<Value = LinkModel> {
    let jitter = (
        prop_oneof![
            Just(JitterShape::Uniform),
            Just(JitterShape::Normal),
            Just(JitterShape::Exponential)
        ],
        duration(30),
    )
        .prop_map(|(shape, size)| Jitter { shape, size });
    let loss = (0.0..0.5, prop::option::of((0.0..0.3, 0.1..1.0))).prop_map(|(p, burst)| {
        let burst = burst.map(|(to_bad, to_good)| GilbertElliott {
            change: StateChange::PerPacket { to_bad, to_good },
            loss_good: 0.0,
            loss_bad: 0.9,
        });
        LossModel { independent: p, burst, ..LossModel::default() }
    });
    let chances = (0.0..0.5, 0.0..0.5, 0.0..0.5);
    (duration(50), jitter, any::<bool>(), rates(), queues(), loss, outages(), chances).prop_map(
        |(delay, jitter, keep_order, rate, queue, loss, outages, (twice, late, damaged))| {
            LinkModel {
                delay: Delay::Fixed(delay),
                jitter,
                keep_order,
                rate,
                queue,
                loss,
                outages,
                duplication: Duplication { probability: twice, lag: Duration::from_micros(70) },
                reordering: Reordering { probability: late, lag: Duration::from_millis(9) },
                corruption: damaged,
                ..LinkModel::default()
            }
        },
    )
}

fn run(model: &LinkModel, seed: u64, packets: &Packets) -> (Vec<Verdict>, Link) {
    let mut link = Link::new(model, seed, "link");
    let verdicts = packets.iter().map(|&(at, len)| link.handle_packet(at, len)).collect();
    (verdicts, link)
}

/// The deliveries of packets that were not dropped, with their place among the packets.
fn originals(verdicts: &[Verdict]) -> impl Iterator<Item = (usize, Delivery)> {
    let first = |verdict: &Verdict| verdict.deliveries.first().copied();
    verdicts.iter().enumerate().filter_map(move |(i, verdict)| Some((i, first(verdict)?)))
}

/// A model that only has a transmitter: what comes out is what left it.
fn transmitter_only(model: &LinkModel) -> LinkModel {
    LinkModel {
        rate: model.rate.clone(),
        queue: model.queue,
        outages: model.outages.iter().copied().filter(|o| o.mode != OutageMode::Drop).collect(),
        ..LinkModel::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_goes_in_comes_out_or_is_counted_as_dropped(model in models(), packets in packets()) {
        let (verdicts, link) = run(&model, 1, &packets);
        let stats = link.stats();
        let dropped: u64 = stats.dropped.iter().sum();
        prop_assert_eq!(stats.packets_in, packets.len() as u64);
        prop_assert_eq!(stats.packets_in, stats.packets_out + dropped);
        let copies: usize = verdicts.iter().map(|verdict| verdict.deliveries.len()).sum();
        prop_assert_eq!(copies as u64, stats.packets_out + stats.duplicates);
        let bytes: usize = originals(&verdicts).map(|(i, _)| packets[i].1).sum();
        prop_assert_eq!(stats.bytes_out, bytes as u64);
        for cause in DropCause::ALL {
            let counted = verdicts.iter().filter(|v| v.dropped == Some(cause)).count();
            prop_assert_eq!(stats.drops(cause), counted as u64);
        }
        for verdict in &verdicts {
            prop_assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
        }
    }

    #[test]
    fn nothing_arrives_before_it_entered(model in models(), packets in packets()) {
        let (verdicts, _) = run(&model, 2, &packets);
        for (verdict, &(entry, _)) in verdicts.iter().zip(&packets) {
            for delivery in &verdict.deliveries {
                prop_assert!(delivery.at >= entry);
            }
        }
    }

    #[test]
    fn order_is_kept_where_it_is_to_be_kept(model in models(), packets in packets()) {
        let model =
            LinkModel { keep_order: true, reordering: Reordering::default(), ..model };
        let (verdicts, _) = run(&model, 3, &packets);
        let arrivals: Vec<Instant> = originals(&verdicts).map(|(_, one)| one.at).collect();
        prop_assert!(arrivals.is_sorted());
    }

    #[test]
    fn a_constant_rate_is_never_exceeded_and_fully_used(
        bps in 100_000_u64..50_000_000, packets in packets(), queue in queues(),
    ) {
        let rate = LinkRate::Constant(Rate::from_bps(bps));
        let model = LinkModel { rate, queue, ..LinkModel::default() };
        let (verdicts, _) = run(&model, 4, &packets);
        let mut idle_since = Instant::ZERO;
        for (i, out) in originals(&verdicts) {
            let (entry, len) = packets[i];
            let start = entry.max(idle_since);
            let took = u128::from(out.at.since(start).as_nanos());
            let bits_nanos = len as u128 * 8_000_000_000;
            prop_assert!(took * u128::from(bps) >= bits_nanos, "too fast");
            prop_assert!((took - 1) * u128::from(bps) < bits_nanos, "a nanosecond too slow");
            idle_since = out.at;
        }
    }

    #[test]
    fn a_delivery_trace_is_never_exceeded(trace in delivery_trace(), packets in packets()) {
        let rate = LinkRate::Deliveries { path: String::new(), trace: Arc::clone(&trace) };
        let model = LinkModel { rate, ..LinkModel::default() };
        let (verdicts, _) = run(&model, 5, &packets);
        let mut bytes = 0;
        for (i, out) in originals(&verdicts) {
            bytes += packets[i].1 as u64;
            let round = out.at.as_nanos() / trace.period().as_nanos();
            // At most all opportunities of the rounds that have begun, and one round more for the
            // seam.
            let most = (round + 1) * trace.opportunities() as u64 * OPPORTUNITY_BYTES;
            prop_assert!(bytes <= most);
            prop_assert_eq!(out.at.as_nanos() % 1_000_000, 0);
        }
    }

    #[test]
    fn the_queue_never_holds_more_than_its_limit(model in models(), packets in packets()) {
        let model = transmitter_only(&model);
        let (_, link) = run(&model, 6, &packets);
        let stats = link.stats();
        prop_assert!(model.queue.packets.is_none_or(|most| stats.queue_packets_max <= most));
        prop_assert!(model.queue.bytes.is_none_or(|most| stats.queue_bytes_max <= most));
    }

    #[test]
    fn without_limit_of_rate_the_delay_is_exact_to_the_nanosecond(
        delay in duration(1_000), packets in packets(),
    ) {
        let model = LinkModel { delay: Delay::Fixed(delay), ..LinkModel::default() };
        let (verdicts, _) = run(&model, 7, &packets);
        for (i, out) in originals(&verdicts) {
            prop_assert_eq!(out.at, packets[i].0 + delay);
        }
        prop_assert_eq!(originals(&verdicts).count(), packets.len());
    }

    #[test]
    fn the_delay_file_is_exact_at_the_instant_of_departure(
        delays in prop::collection::vec(0_u64..100, 1..20), packets in packets(),
    ) {
        let text: String = delays.iter().map(|ms| format!("{ms}\n")).collect();
        let interval = Duration::from_millis(7);
        let series = Arc::new(Series::delays(&text, "d", interval).expect("it is a delay file"));
        let delay = Delay::File { path: String::new(), interval, series };
        let model = LinkModel { delay, keep_order: false, ..LinkModel::default() };
        let (verdicts, _) = run(&model, 8, &packets);
        for (i, out) in originals(&verdicts) {
            let entry = packets[i].0;
            let line = entry.as_nanos() / 7_000_000 % delays.len() as u64;
            prop_assert_eq!(out.at, entry + Duration::from_millis(delays[line as usize]));
        }
    }

    #[test]
    fn nothing_leaves_during_a_hold_and_nothing_is_lost_by_it(
        model in models(), packets in packets(),
    ) {
        let model = LinkModel { queue: QueueLimit::UNLIMITED, ..transmitter_only(&model) };
        let (verdicts, _) = run(&model, 9, &packets);
        prop_assert_eq!(originals(&verdicts).count(), packets.len());
        for (_, out) in originals(&verdicts) {
            for hold in &model.outages {
                // The last bit may be out at the very instant at which a hold begins.
                let inside = out.at > hold.start && out.at < hold.start + hold.duration;
                prop_assert!(!inside);
            }
        }
    }

    #[test]
    fn a_drop_outage_loses_exactly_what_departs_in_it(model in models(), packets in packets()) {
        let clear = LinkModel { outages: Vec::new(), loss: LossModel::default(), ..model.clone() };
        let clear = LinkModel { jitter: Jitter::default(), delay: Delay::Fixed(Duration::ZERO),
            reordering: Reordering::default(), ..clear };
        let drops: Vec<Outage> =
            model.outages.iter().copied().filter(|o| o.mode == OutageMode::Drop).collect();
        let broken = LinkModel { outages: drops.clone(), ..clear.clone() };
        let (without, _) = run(&clear, 10, &packets);
        let (with, _) = run(&broken, 10, &packets);
        for (without, with) in without.iter().zip(&with) {
            let Some(departure) = without.deliveries.first().map(|one| one.at) else {
                prop_assert_eq!(without, with);
                continue;
            };
            let out = drops.iter().any(|o| departure >= o.start && departure < o.start + o.duration);
            prop_assert_eq!(with.dropped, out.then_some(DropCause::Outage));
        }
    }

    #[test]
    fn same_seed_same_verdicts(model in models(), packets in packets(), seed in any::<u64>()) {
        prop_assert_eq!(run(&model, seed, &packets).0, run(&model, seed, &packets).0);
    }

    #[test]
    fn what_else_a_link_does_leaves_its_losses_as_they_were(
        model in models(), packets in packets(), seed in any::<u64>(),
    ) {
        let plain = LinkModel {
            rate: model.rate.clone(),
            queue: model.queue,
            loss: model.loss.clone(),
            ..LinkModel::default()
        };
        let fancy = LinkModel { outages: Vec::new(), ..model };
        let (plain, _) = run(&plain, seed, &packets);
        let (fancy, _) = run(&fancy, seed, &packets);
        for (plain, fancy) in plain.iter().zip(&fancy) {
            prop_assert_eq!(plain.dropped, fancy.dropped);
        }
    }
}

#[test]
fn links_of_other_names_draw_other_numbers() {
    let loss = LossModel { independent: 0.5, ..LossModel::default() };
    let model = LinkModel { loss, ..LinkModel::default() };
    let (mut one, mut other) = (Link::new(&model, 1, "one"), Link::new(&model, 1, "other"));
    let mut both = 0;
    for ms in 0..10_000 {
        let at = Instant::from_millis(ms);
        let lost = [&mut one, &mut other].map(|link| link.handle_packet(at, 100).dropped.is_some());
        both += u32::from(lost == [true, true]);
    }
    assert!(both.abs_diff(2_500) < 150, "{both}");
}

#[test]
fn a_rate_of_one_opportunity_per_millisecond_is_12_mbps() {
    let trace = Arc::new(DeliveryTrace::parse("1\n", "t").expect("it is a trace"));
    let traced = LinkModel {
        rate: LinkRate::Deliveries { path: String::new(), trace },
        ..LinkModel::default()
    };
    let constant =
        LinkModel { rate: LinkRate::Constant(Rate::from_mbps(12.0)), ..LinkModel::default() };
    let packets: Packets = (0..900).map(|i| (Instant::from_micros(i * 900), 1_500)).collect();
    let (traced, _) = run(&traced, 1, &packets);
    let (constant, _) = run(&constant, 1, &packets);
    for (i, (traced, constant)) in traced.iter().zip(&constant).enumerate().skip(1) {
        let (traced, constant) = (traced.deliveries[0].at, constant.deliveries[0].at);
        assert!(constant.since(traced) <= Duration::from_millis(1), "packet {i}");
        assert!(traced.since(constant) <= Duration::from_millis(1), "packet {i}");
    }
}
