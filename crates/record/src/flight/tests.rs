//! Records that are whole, cut, odd, and of somebody else.

use super::*;
use crate::cut;
use crate::segment::Segment;

const SECOND: u64 = 1_000_000_000;

/// Writes a record of some seconds, one chunk each; returns where each chunk ends, and all bytes.
fn written(seconds: u64) -> (Vec<usize>, Vec<u8>) {
    let info = BTreeMap::from([("role".to_owned(), "drone".to_owned())]);
    let mut segment = Segment::begin(&info).unwrap();
    let (mut ends, mut bytes) = (Vec::new(), Vec::new());
    for second in 1..=seconds {
        for number in 0..100 {
            let message = Control { number: second * 100 + number, ..Control::default() };
            segment.add(&topic::control("gcs"), second * SECOND + number, &message).unwrap();
        }
        let sample = Path { name: "wifi".into(), ..Path::default() };
        segment.add(&topic::path("gcs", "wifi"), second * SECOND, &sample).unwrap();
        bytes.extend(segment.take().unwrap());
        ends.push(bytes.len());
    }
    bytes.extend(segment.finish().unwrap());
    (ends, bytes)
}

#[test]
fn record_cut_anywhere_holds_every_chunk_that_was_whole_and_can_be_given_an_end() {
    let (ends, bytes) = written(6);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.mcap");
    for cut in (ends[0]..bytes.len()).step_by(97).chain([bytes.len()]) {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let held = |flight: &Flight| {
            assert_eq!(flight.info["role"], "drone");
            let paths = flight.paths[&("gcs".into(), "wifi".into())].len();
            assert_eq!(flight.control["gcs"].len(), paths * 100, "cut at {cut}");
            paths
        };
        let found = held(&Flight::read(&[&file]).unwrap());
        // A chunk is whole before the indexes that follow it are.
        assert!(found == whole || found == whole + 1, "cut at {cut}: {found} of {whole}");
        assert_eq!(cut::give_end(&file).unwrap(), cut < bytes.len(), "cut at {cut}");
        assert!(!cut::give_end(&file).unwrap(), "once is enough");
        let flight = Flight::read(&[&file]).unwrap();
        assert_eq!(held(&flight), found, "cut at {cut}");
        assert!(flight.cut.is_empty(), "cut at {cut}: {:?}", flight.cut);
    }
}

#[test]
fn record_that_holds_nothing_yet_is_one_without_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("begun.mcap");
    for length in 0..=mcap::MAGIC.len() {
        std::fs::write(&file, &mcap::MAGIC[..length]).unwrap();
        let flight = Flight::read(&[&file]).unwrap();
        assert_eq!((flight.bounds.records, flight.cut.len()), (0, 1), "{length} bytes");
    }
    std::fs::write(&file, "{}").unwrap();
    assert!(Flight::read(&[&file]).unwrap_err().contains("is no record"));
}

#[test]
fn message_that_was_written_twice_counts_as_it_was_last() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("twice.mcap");
    let mut segment = Segment::begin(&BTreeMap::new()).unwrap();
    for outcome in ["open", "delivered"] {
        let message = Control { number: 7, outcome: outcome.into(), ..Control::default() };
        segment.add(&topic::control("gcs"), SECOND, &message).unwrap();
    }
    std::fs::write(&file, segment.finish().unwrap()).unwrap();
    let flight = Flight::read(&[&file]).unwrap();
    assert_eq!(flight.control["gcs"].len(), 1);
    assert_eq!(flight.control["gcs"][0].1.outcome, "delivered");
    assert_eq!(flight.span(), Some((SECOND, SECOND)));
}

#[test]
fn nonsense_is_an_error_and_never_a_panic() {
    let (_, bytes) = written(2);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("odd.mcap");
    std::fs::write(&file, b"not a record").unwrap();
    assert!(Flight::read(&[&file]).unwrap_err().contains("is no record"));
    for place in (0..bytes.len()).step_by(23) {
        let mut odd = bytes.clone();
        odd[place] ^= 0x41;
        std::fs::write(&file, &odd).unwrap();
        let _ = Flight::read(&[&file]);
        let _ = cut::give_end(&file);
    }
}

/// Writes a record with a channel of paths for each name, and messages of this text in each.
fn foreign(names: impl Iterator<Item = String>, messages: &[&str]) -> Vec<u8> {
    let options = mcap::WriteOptions::new().compression(Some(mcap::Compression::Lz4));
    let mut writer = options.create(std::io::Cursor::new(Vec::new())).unwrap();
    let schema = writer.add_schema(Path::NAME, "jsonschema", b"{}").unwrap();
    for name in names {
        let id = writer.add_channel(schema, &name, "json", &BTreeMap::new()).unwrap();
        for message in messages {
            let header = mcap::records::MessageHeader {
                channel_id: id,
                sequence: 0,
                log_time: SECOND,
                publish_time: SECOND,
            };
            writer.write_to_known_channel(&header, message.as_bytes()).unwrap();
        }
    }
    writer.finish().unwrap();
    writer.into_inner().into_inner()
}

#[test]
fn a_foreign_record_is_bounded_in_peers_names_and_memory() {
    let read = |bytes: &[u8]| Flight::read_from("odd.mcap", bytes);
    let many = foreign((0..60_000).map(|number| format!("/path/p{number}/w")), &["{}"]);
    let refused = read(&many).unwrap_err();
    assert_eq!(refused.lines().count(), 1, "{refused}");
    assert!(refused.starts_with("odd.mcap: more than 2048 channels"), "{refused}");
    let long = |letters: usize| foreign(["x".repeat(letters)].into_iter(), &["{}"]);
    assert!(read(&long(300)).is_ok() && read(&long(2_000)).unwrap_err().contains("a topic of"));

    let mut bounds = Bounds { most_memory: 1 << 20, ..Bounds::default() };
    let mut series: Series<Path> = Series::new();
    let refused = (0..1_000_000).find_map(|at| bounds.add(&mut series, at, b"{}").err()).unwrap();
    assert!(refused.contains("more than 1 MiB"), "{refused}");
    assert!(series.len() * size_of::<(u64, Path)>() <= 1 << 20, "{}", series.len());
    // Copies are large, and their text is not.
    let (mut bounds, mut series) =
        (Bounds { most_memory: 1 << 20, ..Bounds::default() }, Series::<Control>::new());
    let copies = format!("{{\"copies\":[{}{{}}]}}", "{},".repeat(20_000));
    assert!(bounds.add(&mut series, 1, copies.as_bytes()).is_err());
    let mut bounds = Bounds { records: RECORDS, ..Bounds::default() };
    assert!(bounds.count_record().unwrap_err().contains("messages"));
}

#[test]
fn no_text_of_a_foreign_record_steers_a_terminal() {
    let evil = "/path/\u{1b}[2Jpeer/\u{9b}31m\u{202e}w";
    let escaped = "{\"name\":\"\\u001b]0;ok\\u0007\",\"state\":\"\u{9b}2J\u{7f}\\nx\"}";
    let flight =
        Flight::read_from("x", &*foreign([evil.to_owned()].into_iter(), &[escaped])).unwrap();
    let shown = format!("{:?}", flight.paths);
    let ((peer, path), samples) = flight.paths.first_key_value().unwrap();
    let texts = [peer, path, &samples[0].1.name, &samples[0].1.state];
    let is_harmless = |text: &&String| !text.chars().any(crate::harmless::steers_a_terminal);
    assert!(texts.iter().all(is_harmless) && samples.len() == 1, "{shown}");
    assert_eq!(peer, "\u{fffd}[2Jpeer");
}
