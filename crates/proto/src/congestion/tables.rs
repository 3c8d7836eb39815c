//! Figures.

use netem::{Delay, LinkModel, LinkRate, LossModel, Outage, OutageMode, QueueLimit};

use super::*;
use crate::path::testbed::{Source, Testbed};

const KINDS: [CongestionKind; 3] =
    [CongestionKind::DelayBounded, CongestionKind::NewReno, CongestionKind::Cubic];

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn link(mbps: f64, one_way: Duration, loss: f64, queue: u64) -> LinkModel {
    LinkModel {
        delay: Delay::Fixed(one_way),
        rate: LinkRate::Constant(Rate::from_mbps(mbps)),
        queue: QueueLimit { packets: None, bytes: Some(queue) },
        loss: LossModel { independent: loss, ..LossModel::default() },
        ..LinkModel::default()
    }
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

#[test]
fn explore() {
    for kind in [CongestionKind::DelayBounded] {
        println!("{kind:?}");
        for (mbps, rtt, loss, buf) in [
            (4.0, 70, 0.0, 125),
            (4.0, 70, 0.01, 125),
            (4.0, 70, 0.05, 125),
            (4.0, 70, 0.10, 125),
            (6.0, 20, 0.02, 125),
            (6.0, 40, 0.02, 125),
            (20.0, 20, 0.0, 250),
            (20.0, 20, 0.02, 250),
            (20.0, 20, 0.10, 250),
            (10.0, 20, 0.02, 250),
            (10.0, 80, 0.02, 250),
            (1.0, 40, 0.02, 250),
            (100.0, 20, 0.02, 1000),
            (100.0, 100, 0.02, 1000),
            (10.0, 400, 0.02, 250),
            (10.0, 2, 0.02, 250),
            (100.0, 2, 0.02, 250),
            (20.0, 20, 0.0, 20),
            (20.0, 20, 0.02, 20),
            (20.0, 20, 0.02, 10),
            (10.0, 40, 0.02, 8),
            (10.0, 40, 0.0, 3),
            (10.0, 20, 0.284, 250),
            (10.0, 20, 0.20, 250),
            (100.0, 20, 0.02, 50),
        ] {
            let one_way = Duration::from_millis(rtt) / 2;
            let forth = link(mbps, one_way, loss, buf * 1000);
            let back = link(mbps, one_way, loss, 250_000);
            let mut bed = Testbed::new(&[forth, back], 1);
            let flow = bed.add_flow(kind, 0, 1);
            bed.set_source(flow, Source::Greedy);
            bed.run_until(at(30_000));
            let end = &bed.ends[flow + 1];
            let (from, to) = (at(5_000), at(30_000));
            let q = |q| ms(end.delay_quantile(from, to, q).saturating_sub(one_way));
            let whole = ms(end.delay_quantile(Instant::ZERO, to, 1.0).saturating_sub(one_way));
            let s = bed.ends[flow].path.snapshot(to);
            println!(
                "{mbps:5} {rtt:4} {loss:4} buf {buf} | {:5.1} % | q50 {:5.1} q95 {:5.1} max {:5.1} all {whole:5.1} | sus {} late {} loss {:.3} {:.1}",
                end.goodput_mbps(from, to) / mbps / (1.0 - loss) * 1500.0 / 1472.0 * 100.0,
                q(0.5),
                q(0.95),
                q(1.0),
                s.counters.suspicions,
                s.counters.packets_late,
                s.counters.packets_lost as f64 / s.counters.datagrams_sent as f64,
                s.loss * 100.0
            );
        }
    }
}

/// 5 s of control at 50 Hz, then greedy.
#[test]
fn ramp() {
    for kind in KINDS {
        for (mbps, rtt, loss) in [
            (4.0, 70, 0.0),
            (4.0, 70, 0.01),
            (4.0, 70, 0.05),
            (10.0, 20, 0.02),
            (20.0, 20, 0.02),
            (20.0, 70, 0.02),
            (50.0, 40, 0.02),
            (4.0, 200, 0.01),
        ] {
            for seed in 1..4 {
                let one_way = Duration::from_millis(rtt) / 2;
                let mut bed = Testbed::new(
                    &[link(mbps, one_way, loss, 125_000), link(mbps, one_way, loss, 125_000)],
                    seed,
                );
                let flow = bed.add_flow(kind, 0, 1);
                bed.set_control(flow, Some(Duration::from_millis(20)));
                bed.set_control(flow + 1, Some(Duration::from_millis(20)));
                bed.run_until(at(5_000));
                bed.set_source(flow, Source::Greedy);
                bed.run_until(at(10_000));
                let end = &bed.ends[flow + 1];
                let full = mbps * (1.0 - loss);
                let reached = (0..300)
                    .map(|i| at(5_000 + i * 10))
                    .find(|&t| end.goodput_mbps(t, t + Duration::from_millis(100)) >= 0.9 * full);
                let q = |from, to, q| {
                    ms(end.delay_quantile(at(from), at(to), q).saturating_sub(one_way))
                };
                println!(
                    "{kind:?} {mbps:5} {rtt:4} {loss:4} s{seed} | 90% at {:.0} ms | max q first 1 s {:5.1} | 1-2 s {:5.1} of {full:.1} Mbit/s",
                    reached.map_or(f64::NAN, |t| ms(t.since(at(5_000)))),
                    q(5_000, 6_000, 1.0),
                    end.goodput_mbps(at(6_000), at(7_000))
                );
            }
        }
    }
}

#[test]
fn fairness() {
    for (mbps, rtt, loss) in [
        (10.0, 20, 0.0),
        (10.0, 20, 0.02),
        (4.0, 70, 0.0),
        (4.0, 70, 0.01),
        (20.0, 40, 0.02),
        (20.0, 2, 0.0),
        (10.0, 200, 0.0),
        (100.0, 20, 0.0),
        (100.0, 100, 0.02),
    ] {
        for second in [500, 10_000] {
            let one_way = Duration::from_millis(rtt) / 2;
            let back = link(mbps, one_way, loss, 1_250_000);
            let mut bed = Testbed::new(
                &[link(mbps, one_way, loss, (mbps * 25_000.0) as u64), back.clone(), back],
                1,
            );
            let a = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
            let b = bed.add_flow(CongestionKind::DelayBounded, 0, 2);
            bed.set_source(a, Source::Greedy);
            bed.run_until(at(second));
            bed.set_source(b, Source::Greedy);
            bed.run_until(at(60_000));
            print!("{mbps} {rtt} {loss} {second} |");
            for (from, to) in [
                (second, second + 1000),
                (second + 1000, second + 2000),
                (second + 2000, second + 5_000),
                (second + 5_000, second + 10_000),
                (second + 10_000, second + 15_000),
                (30_000, 60_000),
            ] {
                let rate = |end: usize| bed.ends[end + 1].goodput_mbps(at(from), at(to));
                let q = ms(bed.ends[b + 1]
                    .delay_quantile(at(from), at(to), 0.5)
                    .saturating_sub(one_way));
                print!(" {:5.2}+{:5.2} q{q:4.1} |", rate(a), rate(b));
            }
            println!();
        }
    }
}

#[test]
fn stall() {
    for kind in KINDS {
        for (what, mode) in [("hold", OutageMode::Hold { queue: None }), ("drop", OutageMode::Drop)]
        {
            let outage = Outage { start: at(10_000), duration: Duration::from_secs(2), mode };
            let one_way = Duration::from_millis(35);
            let mut model = link(4.0, one_way, 0.01, 125_000);
            model.outages.push(outage);
            let mut bed = Testbed::new(&[model.clone(), model], 1);
            let flow = bed.add_flow(kind, 0, 1);
            bed.set_source(flow, Source::Greedy);
            bed.set_control(flow, Some(Duration::from_millis(20)));
            bed.set_control(flow + 1, Some(Duration::from_millis(20)));
            bed.run_until(at(10_000));
            let before = bed.ends[flow].path.snapshot(bed.now);
            for t in [11_999, 12_100, 12_200, 12_300, 12_400, 12_500, 13_000, 14_000, 20_000] {
                bed.run_until(at(t));
                let s = bed.ends[flow].path.snapshot(bed.now);
                println!(
                    "{kind:?} {what} {t} {:?} min {:?}->{:?} srtt {:?}->{:?} {:.2} Mbit/s cwnd {}->{} changes {:?}",
                    s.state,
                    before.min_rtt,
                    s.min_rtt,
                    before.srtt,
                    s.srtt,
                    bed.ends[flow + 1].goodput_mbps(at(t - 100), at(t)),
                    before.cwnd,
                    s.cwnd,
                    bed.ends[flow].changes
                );
            }
        }
    }
}

#[test]
fn video() {
    for (mbps, rtt, loss, frames) in
        [(20.0, 20, 0.02, 16), (20.0, 20, 0.02, 50), (4.0, 70, 0.01, 6)]
    {
        let one_way = Duration::from_millis(rtt) / 2;
        let mut bed = Testbed::new(
            &[link(mbps, one_way, loss, 125_000), link(mbps, one_way, loss, 125_000)],
            1,
        );
        let flow = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
        bed.set_source(
            flow,
            Source::Bursts { datagrams: frames, every: Duration::from_millis(33) },
        );
        for t in [100, 500, 1_000, 5_000, 20_000] {
            bed.run_until(at(t));
            let s = bed.ends[flow].path.snapshot(bed.now);
            println!(
                "video {mbps} {frames} {t} cwnd {} rate {:?} {:.2} Mbit/s delay p50 {:?} p99 {:?}",
                s.cwnd,
                s.delivery_rate,
                bed.ends[flow + 1].goodput_mbps(at(t * 9 / 10), at(t)),
                bed.ends[flow + 1].delay_quantile(at(t / 2), at(t), 0.5),
                bed.ends[flow + 1].delay_quantile(at(t / 2), at(t), 0.99)
            );
        }
    }
}

#[test]
fn trace_one() {
    let arg = |name: &str, default: f64| {
        std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
    };
    let (mbps, rtt, loss, buf) =
        (arg("MBPS", 20.0), arg("RTT", 20.0), arg("LOSS", 0.0), arg("BUF", 250.0));
    let one_way = Duration::from_secs_f64(rtt / 2e3);
    let mut bed = Testbed::new(
        &[link(mbps, one_way, loss, buf as u64 * 1000), link(mbps, one_way, loss, 250_000)],
        1,
    );
    let flow = bed.add_flow(CongestionKind::DelayBounded, 0, 1);
    bed.set_source(flow, Source::Greedy);
    let step = arg("STEP", 100.0) as u64;
    for t in (step..arg("END", 20_000.0) as u64).step_by(step as usize) {
        let (from, to) = (bed.now, at(t));
        bed.run_until(to);
        let s = bed.ends[flow].path.snapshot(to);
        let end = &bed.ends[flow + 1];
        let d = ms(end.delay_quantile(from, to, 0.5).saturating_sub(one_way));
        println!(
            "{t:6} {:6.2} q {d:5.1} srtt {:?} min {:?} cwnd {} fl {} rate {:?} lost {} {:?} {:?}",
            end.goodput_mbps(from, to),
            s.srtt,
            s.min_rtt,
            s.cwnd,
            s.in_flight,
            s.delivery_rate,
            bed.ends[flow].lost,
            bed.ends[flow].changes.last(),
            bed.ends[flow].path.congestion_state()
        );
    }
}
