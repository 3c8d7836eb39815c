//! The doors for the fuzz targets of measurements, of files of experiments and of flights, of
//! flight records, of logs of `trace record` and of the page of the papers; not part of the program
//! otherwise.

use netem::{Instant, Link};
use units::{Duration, Rate};

use crate::experiment::file::try_text;
use crate::record::try_page;
use crate::traces::{Assumed, HowToRead, link, read, try_flight, try_flights, try_log};

/// Packets that are sent over a link which was made of a measurement.
const PACKETS: u64 = 50;

/// Reads a measurement of whatever form, and uses the link that it makes. The first byte says how
/// the columns of a table are told.
pub fn measurement(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let told = |bit: u8, name: &str| (choice >> bit & 1 == 1).then(|| name.to_owned());
    let how = HowToRead {
        time: told(0, "a"),
        rate: told(1, "b:kbps"),
        delay: told(2, "c:ms"),
        loss: told(3, "d:percent"),
        only: told(4, "e").map(|column| (column, "1".to_owned())),
        gap_s: (choice >> 5 & 1 == 1).then_some(0.5),
        ..HowToRead::default()
    };
    let Ok(reading) = read(text, "fuzz.csv", &how) else { return };
    assert!(reading.length_s.is_finite() && reading.length_s >= 0.0, "{}", reading.length_s);
    assert!(reading.samples.is_sorted_by(|a, b| a.at_s <= b.at_s));
    let assumed = Assumed { rate: Rate::from_mbps(10.0), delay: Duration::from_millis(20) };
    let Ok(recorded) = link("fuzz", &reading, None, assumed) else { return };
    let mut link = Link::new(&recorded.to_drone, 1, "fuzz");
    for packet in 0..PACKETS {
        let at = Instant::from_micros(packet * packet * 700);
        let verdict = link.handle_packet(at, 1 + packet as usize * 30);
        assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
        assert!(verdict.deliveries.iter().all(|delivery| delivery.at >= at));
    }
}

/// Makes a scenario of a flight record, and uses its links.
pub fn flight_record(input: &[u8]) {
    let Some(flight) = record::fuzzing::flight(input) else { return };
    let Ok(scenario) = try_flights(vec![flight]) else { return };
    assert!((1.0..=86_400.0).contains(&scenario.seconds), "{}", scenario.seconds);
    for pair in &scenario.links {
        for model in [&pair.up, &pair.down] {
            let mut link = Link::new(model, 1, &pair.name);
            for packet in 0..PACKETS {
                let verdict = link.handle_packet(Instant::from_millis(packet * packet), 300);
                assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
            }
        }
    }
}

/// Reads a log of `trace record` and makes a slot matrix of it, and hears the bytes as a datagram.
pub fn record_log(input: &[u8]) {
    if let Err(mistake) = try_log(input) {
        assert!(mistake.starts_with("fuzz.log:"), "{mistake}");
    }
}

/// Reads the file of an experiment, and every point of what it varies.
pub fn experiment_file(text: &str) {
    if let Err(mistakes) = try_text(text) {
        assert!(mistakes.lines().all(|line| line.starts_with("fuzz.toml:")), "{mistakes}");
    }
}

/// Reads a flight file, and flies what it says.
pub fn flight_file(text: &str) {
    if let Err(mistakes) = try_flight(text) {
        assert!(mistakes.lines().all(|line| line.starts_with("fuzz.toml:")), "{mistakes}");
    }
}

/// Makes the page of the papers of a record and of what is kept of its run, a zero byte between
/// them.
pub fn papers_page(input: &[u8]) {
    try_page(input);
}
