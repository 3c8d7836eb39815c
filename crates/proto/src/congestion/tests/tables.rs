//! The controllers measured on the bench: checked-in tables, so that a change shows as a difference
//! of numbers, and what must hold whatever the tables say.

use std::fmt::Write as _;
use std::sync::Arc;

use netem::{
    Delay, Jitter, JitterShape, LinkModel, LinkRate, LossModel, Outage, OutageMode, QueueLimit,
    Series,
};

use super::super::*;
use crate::path::tests::testbed::{End, Source, Testbed};

const KINDS: [CongestionKind; 6] = [
    CongestionKind::DelayBounded,
    CongestionKind::NewReno,
    CongestionKind::Cubic,
    CongestionKind::Asran,
    CongestionKind::AsranCubic,
    CongestionKind::AsranDelay,
];
/// UDP payload per byte on the link at full size.
const PAYLOAD_SHARE: f64 = 1_472.0 / 1_500.0;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// One direction of a link with half of `rtt_ms` of delay and a queue of `queue` bytes.
fn link(mbps: f64, rtt_ms: u64, loss: f64, queue: u64) -> LinkModel {
    LinkModel {
        delay: Delay::Fixed(Duration::from_millis(rtt_ms) / 2),
        rate: LinkRate::Constant(Rate::from_mbps(mbps)),
        queue: QueueLimit { packets: None, bytes: Some(queue) },
        loss: LossModel { independent: loss, ..LossModel::default() },
        ..LinkModel::default()
    }
}

/// A queue of 100 ms, at least that of an LTE modem.
fn deep(mbps: f64) -> u64 {
    (mbps * 12_500.0).max(125_000.0) as u64
}

fn compare(table: &str, checked_in: &str, file: &str) {
    assert!(table == checked_in, "congestion/tests/snapshots/{file} would be:\n{table}");
}

/// What a greedy flow got between two moments.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Goodput as a share of what the link can carry at its loss.
    share: f64,
    /// Delay beyond propagation, ms: median, 95th percentile, most.
    queue: [f64; 3],
    /// Share of packets that were lost.
    lost: f64,
}

fn figures(bed: &Testbed, flow: usize, mbps: f64, rtt_ms: u64, loss: f64) -> Figures {
    let (from, to) = (at(5_000), bed.now);
    let end = &bed.ends[flow + 1];
    let one_way = Duration::from_millis(rtt_ms) / 2;
    let delay = |q| ms(end.delay_quantile(from, to, q).saturating_sub(one_way));
    let status = bed.ends[flow].path.status(to);
    Figures {
        share: end.goodput_mbps(from, to) / (mbps * (1.0 - loss) * PAYLOAD_SHARE),
        queue: [delay(0.5), delay(0.95), delay(1.0)],
        lost: status.lost as f64 / status.sent.0 as f64,
    }
}

fn greedy(kind: CongestionKind, models: [LinkModel; 2], seconds: u64) -> (Testbed, usize) {
    let mut bed = Testbed::new(&models, 1);
    let flow = bed.add_flow(kind, 0, 1);
    bed.set_source(flow, Source::Greedy);
    bed.run_until(at(seconds * 1_000));
    (bed, flow)
}

fn run_greedy(kind: CongestionKind, mbps: f64, rtt: u64, loss: f64, queue: u64) -> Figures {
    let models = [link(mbps, rtt, loss, queue), link(mbps, rtt, loss, deep(mbps))];
    let (bed, flow) = greedy(kind, models, 30);
    figures(&bed, flow, mbps, rtt, loss)
}

/// Rate, round-trip time, loss.
const PATHS: [(f64, u64, f64); 15] = [
    (1.0, 40, 0.02),
    (4.0, 70, 0.0),
    (4.0, 70, 0.01),
    (4.0, 70, 0.05),
    (4.0, 70, 0.10),
    (6.0, 20, 0.02),
    (6.0, 40, 0.02),
    (10.0, 2, 0.02),
    (10.0, 80, 0.02),
    (10.0, 400, 0.02),
    (20.0, 20, 0.0),
    (20.0, 20, 0.02),
    (20.0, 20, 0.10),
    (20.0, 70, 0.05),
    (100.0, 20, 0.02),
];

#[test]
fn goodput_and_queue_over_rate_rtt_and_loss() {
    let mut table = String::from(
        "controller     Mbit/s  rtt ms  loss % | carried % | queue ms: p50   p95   max\n",
    );
    for kind in KINDS {
        for (mbps, rtt, loss) in PATHS {
            let Figures { share, queue: [p50, p95, most], .. } =
                run_greedy(kind, mbps, rtt, loss, deep(mbps));
            let name = format!("{kind:?}");
            let (loss_percent, percent) = (loss * 100.0, share * 100.0);
            let _ = writeln!(
                table,
                "{name:14} {mbps:6} {rtt:7} {loss_percent:7} | {percent:9.1} | {p50:13.0} {p95:5.0} {most:5.0}"
            );
            if kind == CongestionKind::DelayBounded {
                let least = if rtt < 400 { 0.95 } else { 0.94 };
                assert!(share >= least, "{mbps} Mbit/s, {rtt} ms, {loss}: carried {share}");
                assert!(p50 <= if mbps < 4.0 { 50.0 } else { 35.0 }, "{mbps} {rtt} {loss}: {p50}");
            }
        }
    }
    compare(&table, include_str!("snapshots/goodput.txt"), "goodput.txt");
}

/// Rate, round-trip time, loss, bytes of the queue: shorter than the target, or much loss.
const HOSTILE: [(f64, u64, f64, u64); 7] = [
    (20.0, 20, 0.0, 20_000),
    (20.0, 20, 0.02, 20_000),
    (20.0, 20, 0.02, 10_000),
    (10.0, 40, 0.02, 8_000),
    (100.0, 20, 0.02, 50_000),
    (10.0, 20, 0.20, 250_000),
    (10.0, 20, 0.284, 250_000),
];

#[test]
fn short_buffers_and_heavy_loss() {
    let mut table =
        String::from("Mbit/s  rtt ms  loss %  buffer kB | carried %   lost % | queue ms: p50\n");
    for (mbps, rtt, loss, buffer) in HOSTILE {
        let run = run_greedy(CongestionKind::DelayBounded, mbps, rtt, loss, buffer);
        let _ = writeln!(
            table,
            "{mbps:6} {rtt:7} {:7} {:10} | {:9.1} {:8.1} | {:13.0}",
            loss * 100.0,
            buffer / 1_000,
            run.share * 100.0,
            run.lost * 100.0,
            run.queue[0]
        );
        assert!(run.share > 0.75, "{mbps} {rtt} {loss} {buffer}: {run:?}");
        // A buffer of a few packets teaches nothing; one of four milliseconds or more does.
        let excess = if buffer >= 20_000 { 0.03 } else { 0.30 };
        assert!(run.lost < loss + excess, "{mbps} {rtt} {loss} {buffer}: {run:?}");
    }
    compare(&table, include_str!("snapshots/hostile.txt"), "hostile.txt");
}

#[test]
fn from_idle_to_full_rate() {
    let mut table = String::from(
        "controller     Mbit/s  rtt ms  loss % | 90 % after ms | queue ms, most of the first second\n",
    );
    for kind in KINDS {
        for (mbps, rtt, loss) in
            [(4.0, 70, 0.0), (4.0, 70, 0.01), (10.0, 20, 0.02), (20.0, 70, 0.02), (50.0, 40, 0.02)]
        {
            let model = link(mbps, rtt, loss, 125_000);
            let mut bed = Testbed::new(&[model.clone(), model], 1);
            let flow = bed.add_flow(kind, 0, 1);
            let every = Some(Duration::from_millis(20));
            bed.set_control(flow, every);
            bed.set_control(flow + 1, every);
            bed.run_until(at(5_000));
            bed.set_source(flow, Source::Greedy);
            bed.run_until(at(8_000));
            let end = &bed.ends[flow + 1];
            let full = 0.9 * mbps * (1.0 - loss) * PAYLOAD_SHARE;
            let reached = (0..250)
                .map(|step| step * 10)
                .find(|&after| end.goodput_mbps(at(5_000 + after), at(5_100 + after)) >= full);
            let one_way = Duration::from_millis(rtt) / 2;
            let most = ms(end.delay_quantile(at(5_000), at(6_000), 1.0).saturating_sub(one_way));
            let after = reached.map_or_else(|| "never".into(), |after| after.to_string());
            let name = format!("{kind:?}");
            let loss_percent = loss * 100.0;
            let _ = writeln!(
                table,
                "{name:14} {mbps:6} {rtt:7} {loss_percent:7} | {after:>13} | {most:5.0}"
            );
            if kind == CongestionKind::DelayBounded {
                assert!(reached.is_some_and(|after| after < 600), "{mbps} {rtt} {loss}");
                assert!(most <= 50.0, "{mbps} {rtt} {loss}: {most}");
            }
        }
    }
    compare(&table, include_str!("snapshots/ramp.txt"), "ramp.txt");
}

#[test]
fn two_flows_share_a_link() {
    let mut table = String::from(
        "Mbit/s  rtt ms  loss %  second after s | shares of the first and the second, queue ms\n",
    );
    for (mbps, rtt, loss) in
        [(4.0, 70, 0.01), (10.0, 20, 0.0), (10.0, 20, 0.02), (20.0, 2, 0.0), (20.0, 40, 0.02)]
    {
        for begins in [500, 10_000] {
            let back = link(mbps, rtt, loss, deep(mbps));
            let mut bed = Testbed::new(&[link(mbps, rtt, loss, deep(mbps)), back.clone(), back], 1);
            let first = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
            let second = bed.add_flow(CongestionKind::DelayBounded, 0, 2);
            bed.set_source(first, Source::Greedy);
            bed.run_until(at(begins));
            bed.set_source(second, Source::Greedy);
            bed.run_until(at(60_000));
            let whole = mbps * (1.0 - loss) * PAYLOAD_SHARE;
            let begins_s = begins as f64 / 1e3;
            let _ = write!(table, "{mbps:6} {rtt:7} {:7} {begins_s:15} |", loss * 100.0);
            for (from, to) in [(0, 2_000), (2_000, 5_000), (5_000, 10_000), (10_000, 40_000)] {
                let (from, to) = (at(begins + from), at(begins + to));
                let share = |end: &End| end.goodput_mbps(from, to) / whole;
                let (a, b) = (share(&bed.ends[first + 1]), share(&bed.ends[second + 1]));
                let one_way = Duration::from_millis(rtt) / 2;
                let delay = bed.ends[second + 1].delay_quantile(from, to, 0.5);
                let queue = ms(delay.saturating_sub(one_way));
                let _ = write!(table, " {a:.2} {b:.2} {queue:3.0} |");
                if to > at(begins + 10_000) {
                    let equal = (a + b) / 2.0;
                    let fair = (a - equal).abs() < 0.2 * equal;
                    assert!(fair && a + b > 0.9, "{mbps} {rtt} {loss} {begins}: {a} {b}");
                }
            }
            table.push('\n');
        }
    }
    compare(&table, include_str!("snapshots/fairness.txt"), "fairness.txt");
}

#[test]
fn shares_beside_cubic() {
    let mut table = String::from(
        "beside cubic   Mbit/s  rtt ms  loss % | its share, cubic's share, queue ms\n",
    );
    for kind in &KINDS[1..] {
        for (mbps, rtt, loss) in [(10.0, 40, 0.0), (10.0, 40, 0.005)] {
            let back = link(mbps, rtt, loss, deep(mbps));
            let mut bed = Testbed::new(&[link(mbps, rtt, loss, deep(mbps)), back.clone(), back], 1);
            let flow = bed.add_flow(*kind, 0, 1);
            let cubic = bed.add_flow(CongestionKind::Cubic, 0, 2);
            bed.set_source(flow, Source::Greedy);
            bed.set_source(cubic, Source::Greedy);
            bed.run_until(at(60_000));
            let own = figures(&bed, flow, mbps, rtt, loss);
            let other = figures(&bed, cubic, mbps, rtt, loss);
            let name = format!("{kind:?}");
            let (loss, queue) = (loss * 100.0, own.queue[0]);
            let (own, other) = (own.share, other.share);
            let _ = writeln!(
                table,
                "{name:14} {mbps:6} {rtt:7} {loss:7} | {own:.2} {other:.2} {queue:4.0}"
            );
            assert!(own + other > 0.5, "{name}: {own} {other}");
        }
    }
    compare(&table, include_str!("snapshots/beside.txt"), "beside.txt");
}

#[test]
fn a_stall_or_an_outage_of_two_seconds_is_over_when_it_is_over() {
    let mut table =
        String::from("what      ms after its end | goodput Mbit/s  srtt ms  min_rtt ms  cwnd kB\n");
    for (what, mode) in [("stall", OutageMode::Hold { queue: None }), ("outage", OutageMode::Drop)]
    {
        let mut model = link(4.0, 70, 0.01, 125_000);
        model.outages.push(Outage { start: at(10_000), duration: Duration::from_secs(2), mode });
        let mut bed = Testbed::new(&[model.clone(), model], 1);
        let flow = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
        bed.set_source(flow, Source::Greedy);
        bed.run_until(at(10_000));
        let before = bed.ends[flow].path.snapshot(bed.now, 0);
        for after in [200, 300, 500, 1_000, 3_000] {
            bed.run_until(at(12_000 + after));
            let now = bed.ends[flow].path.snapshot(bed.now, 0);
            let goodput = bed.ends[flow + 1].goodput_mbps(at(11_900 + after), bed.now);
            let rtt = |rtt: Option<Duration>| ms(rtt.unwrap_or_default());
            let (srtt, min_rtt) = (rtt(now.srtt), rtt(now.min_rtt));
            let kilobytes = now.cwnd / 1_000;
            let _ = writeln!(
                table,
                "{what:8} {after:17} | {goodput:14.1} {srtt:8.0} {min_rtt:11.0} {kilobytes:8}"
            );
            assert!(srtt < 1.5 * rtt(before.srtt), "{what} {after}: {srtt}");
            assert!((min_rtt - rtt(before.min_rtt)).abs() < 5.0, "{what} {after}: {min_rtt}");
            assert!(now.cwnd < before.cwnd * 3 / 2 && now.cwnd > before.cwnd / 2);
            assert!(after < 500 || goodput > 3.3, "{what} {after}: {goodput}");
        }
    }
    compare(&table, include_str!("snapshots/stall.txt"), "stall.txt");
}

#[test]
fn jitter_reordering_and_steps_of_rate_and_delay() {
    let mut table = String::from(
        "path                                  | carried % | delay ms: p5   p50   p95\n",
    );
    for (name, model, mbps) in unsteady_links() {
        let back = LinkModel { rate: LinkRate::Constant(Rate::from_mbps(20.0)), ..model.clone() };
        let (bed, flow) = greedy(CongestionKind::DelayBounded, [model, back], 40);
        let end = &bed.ends[flow + 1];
        let (from, to) = (at(10_000), bed.now);
        let delay = |q| ms(end.delay_quantile(from, to, q));
        let share = end.goodput_mbps(from, to) / (mbps * 0.99 * PAYLOAD_SHARE);
        let (p5, p50, p95) = (delay(0.05), delay(0.5), delay(0.95));
        let _ =
            writeln!(table, "{name:37} | {:9.1} | {p5:12.0} {p50:5.0} {p95:5.0}", share * 100.0);
        assert!(share > 0.7, "{name}: {share}");
    }
    compare(&table, include_str!("snapshots/unsteady.txt"), "unsteady.txt");
}

/// Links whose delay or rate changes, each with its mean rate.
fn unsteady_links() -> Vec<(String, LinkModel, f64)> {
    let mut links = Vec::new();
    for (shape, size) in
        [(JitterShape::Uniform, 4), (JitterShape::Normal, 3), (JitterShape::Exponential, 5)]
    {
        for (mbps, rtt) in [(4.0, 70), (20.0, 40)] {
            for keep_order in [true, false] {
                let jitter = Jitter { shape, size: Duration::from_millis(size) };
                let order = if keep_order { "in order" } else { "reordered" };
                let name = format!("{mbps} Mbit/s {shape:?} {size} ms {order}");
                let model = LinkModel { jitter, keep_order, ..link(mbps, rtt, 0.01, deep(mbps)) };
                links.push((name, model, mbps));
            }
        }
    }
    let rates = "time_s,rate_mbps\n0,20\n5,5\n10,20\n15,5\n20,20\n25,5\n30,20\n35,5\n40,20\n";
    let rates = Arc::new(Series::rates_csv(rates, "rates").expect("well-formed"));
    let rate = LinkRate::Csv { path: "rates".into(), series: rates };
    let stepped = LinkModel { rate, ..link(20.0, 40, 0.01, deep(20.0)) };
    links.push(("20 and 5 Mbit/s, 5 s each".into(), stepped, 12.5));
    let interval = Duration::from_secs(5);
    let delays = Arc::new(Series::delays("35\n80\n", "delays", interval).expect("well-formed"));
    for mbps in [4.0, 20.0] {
        let delay = Delay::File { path: "delays".into(), interval, series: delays.clone() };
        let stepped = LinkModel { delay, ..link(mbps, 70, 0.01, deep(mbps)) };
        links.push((format!("{mbps} Mbit/s, 35 and 80 ms, 5 s each"), stepped, mbps));
    }
    links
}

#[test]
fn an_application_below_the_rate_of_the_link_does_not_grow_the_window() {
    // 5.7 Mbit/s of video on 20 Mbit/s: 16 datagrams 30 times a second.
    let model = link(20.0, 20, 0.02, 125_000);
    let mut bed = Testbed::new(&[model.clone(), model], 1);
    let flow = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
    let every = Duration::from_nanos(33_333_333);
    bed.set_source(flow, Source::Bursts { datagrams: 16, every });
    bed.run_until(at(5_000));
    let early = bed.ends[flow].path.snapshot(bed.now, 0).cwnd;
    bed.run_until(at(60_000));
    let late = bed.ends[flow].path.snapshot(bed.now, 0).cwnd;
    assert!(late < 80_000 && late < 2 * early, "{early} {late}");
    let delay = bed.ends[flow + 1].delay_quantile(at(1_000), bed.now, 0.99);
    assert!(delay < Duration::from_millis(25), "{delay:?}");
}
