//! The readers on recorded traces, which are not part of the project: each test says so and ends
//! where they are absent. They are looked for in `FULMAR_SHARED`, or else in a directory `shared`
//! beside the checkout.
#![expect(clippy::disallowed_methods, reason = "tests read files, the crate does not")]

use fulmar_netem::{
    DeliveryTrace, Direction, Duration, Instant, Link, LinkModel, LinkRate, QueueLimit, Scenario,
    Series, Table,
};
use std::path::PathBuf;
use std::sync::Arc;

fn traces() -> PathBuf {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    PathBuf::from(std::env::var("FULMAR_SHARED").unwrap_or_else(|_| beside.to_owned()))
        .join("traces")
}

/// Returns the text of a trace; `None`, with a line that says so, when it is absent.
fn trace(path: &str) -> Option<String> {
    let file = traces().join(path);
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("traces");
            eprintln!("SKIPPED: {test}: {}: {error}", file.display());
            None
        }
    }
}

/// The figures that the traces' own description gives: mean Mbit/s and longest gap in seconds.
const MAHIMAHI: [(&str, f64, f64); 8] = [
    ("ATT-LTE-driving-2016.up", 1.91, 4.06),
    ("ATT-LTE-driving-2016.down", 4.56, 1.12),
    ("Verizon-LTE-short.up", 5.95, 1.72),
    ("Verizon-LTE-short.down", 5.03, 1.45),
    ("TMobile-LTE-short.up", 13.3, 0.72),
    ("TMobile-LTE-short.down", 16.7, 0.92),
    ("Verizon-EVDO-driving.up", 0.84, 11.2),
    ("Verizon-EVDO-driving.down", 0.52, 11.6),
];

#[test]
fn delivery_traces_have_the_rates_and_gaps_that_were_measured() {
    for (name, mbps, gap_s) in MAHIMAHI {
        let Some(text) = trace(&format!("mahimahi-lte/{name}")) else { return };
        let trace = DeliveryTrace::parse(&text, name).expect("the trace reads");
        let rate = trace.mean_rate().as_mbps();
        assert!((rate / mbps - 1.0).abs() < 0.02, "{name}: {rate} Mbit/s");
        let gap = trace.longest_gap().as_secs_f64();
        assert!((gap / gap_s - 1.0).abs() < 0.02, "{name}: {gap} s");
    }
}

#[test]
fn a_link_with_a_gap_of_eleven_seconds_stalls_and_goes_on() {
    let name = "Verizon-EVDO-driving.down";
    let Some(text) = trace(&format!("mahimahi-lte/{name}")) else { return };
    let trace = Arc::new(DeliveryTrace::parse(&text, name).expect("the trace reads"));
    let period = trace.period();
    let rate = LinkRate::Deliveries { path: name.to_owned(), trace: Arc::clone(&trace) };
    let queue = QueueLimit { packets: Some(20), bytes: None };
    let mut link = Link::new(&LinkModel { rate, queue, ..LinkModel::default() }, 1, "evdo");
    let (mut longest, mut latest, mut bytes) = (Duration::ZERO, Instant::ZERO, 0_u64);
    // 1 Mbit/s for two rounds of the trace: more than it carries.
    let packets = 2 * period.as_millis() / 12;
    for i in 0..packets {
        let verdict = link.handle_packet(Instant::from_millis(i * 12), 1_500);
        if let Some(delivery) = verdict.deliveries.first() {
            longest = longest.max(delivery.at.since(latest));
            latest = delivery.at;
            bytes += 1_500;
        }
    }
    assert!(longest >= trace.longest_gap(), "{longest:?}");
    let carried = bytes as f64 / (2.0 * trace.opportunities() as f64 * 1_500.0);
    assert!((0.8..=1.01).contains(&carried), "{carried}");
}

#[test]
fn the_delay_file_of_a_satellite_link_reads() {
    let Some(text) = trace("leocc-starlink/delay_example.txt") else { return };
    let interval = Duration::from_millis(10);
    let delays = Series::delays(&text, "delay_example.txt", interval).expect("the file reads");
    let ms: Vec<f64> = delays.values().iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
    let mean = ms.iter().sum::<f64>() / ms.len() as f64;
    assert!((mean - 10.7).abs() < 0.1, "{mean}");
    assert_eq!(ms.iter().copied().fold(0.0, f64::max), 68.0);
    assert_eq!(ms.iter().copied().fold(f64::MAX, f64::min), 7.0);
    let period = delays.period().expect("a file with many lines loops");
    assert!(period.as_secs_f64() > 119.0 && period.as_secs_f64() < 121.0);
}

#[test]
fn tables_of_measurements_read() {
    let Some(text) = trace("cicv5g-rtt/south_n8_v10_01.txt") else { return };
    let table = Table::from_columns(&text, "south_n8_v10_01.txt").expect("the table reads");
    let delays = table.numbers("delay(ms)").expect("it has delays");
    assert_eq!(delays.len(), 2_042);
    let over = delays.iter().filter(|&&(_, ms)| ms > 500.0).count();
    assert_eq!(over, 277);

    let Some(text) = trace("feup-wifi-4links/final-exp-log.csv") else { return };
    let table = Table::from_csv(&text, "final-exp-log.csv").expect("the table reads");
    assert!(table.len() > 4_000, "{}", table.len());
}

#[test]
fn a_scenario_takes_its_traces_through_the_reader_it_is_given() {
    if trace("README.md").is_none() {
        return;
    }
    let text = r#"
[[link]]
name = "lte"
between = ["drone", "station"]
queue_bytes = 60_000
[link.up]
delivery_file = "mahimahi-lte/ATT-LTE-driving-2016.up"
delay_ms = 25
[link.down]
delivery_file = "mahimahi-lte/ATT-LTE-driving-2016.down"
delay_file = "leocc-starlink/delay_example.txt"
delay_interval_ms = 10
"#;
    let mut read = |path: &str| trace(path).ok_or_else(|| format!("cannot read {path}"));
    let scenario = Scenario::from_toml_with(text, "lte.toml", &mut read).expect("it reads");
    let again = Scenario::from_toml_with(&scenario.to_toml(), "again.toml", &mut read);
    assert_eq!(again.as_ref(), Ok(&scenario));
    let mut down = Link::new(&scenario.links[0].down, 1, Direction::Down.name());
    let verdict = down.handle_packet(Instant::ZERO, 1_500);
    assert!(verdict.deliveries[0].at >= Instant::from_millis(7));
}
