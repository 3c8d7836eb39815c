//! A door for the fuzz target of flight records; not part of the program otherwise.

use std::collections::BTreeMap;
use std::io::Cursor;

use mcap::WriteOptions;
use mcap::records::{MessageHeader, Metadata};

use crate::flight::Flight;
use crate::schema::{Control, Event, Path, Position, Received, Recorder, Schema, Session};
use crate::{cut, segment, topic};

/// Reads bytes as a flight: those of a file, or what its messages say, a line for each: the first
/// letter chooses the channel, then come tenths of a second, a blank, and JSON.
pub fn flight(input: &[u8]) -> Option<Flight> {
    let (&kind, rest) = input.split_first()?;
    let bytes = if kind < 128 { rest.to_vec() } else { file(rest, kind & 1 == 1)? };
    let length = bytes.len() as u64;
    let whole = cut::whole_bytes(&mut Cursor::new(&bytes), length).expect("memory can be read");
    assert!(whole.is_none_or(|whole| whole <= length));
    Flight::read_from("fuzz.mcap", &bytes[..]).ok()
}

fn file(lines: &[u8], is_drone: bool) -> Option<Vec<u8>> {
    let options = WriteOptions::new().compression(None).use_chunks(false);
    let mut writer = options.create(Cursor::new(Vec::new())).ok()?;
    let role = if is_drone { "drone" } else { "station" };
    let metadata = BTreeMap::from([("role".to_owned(), role.to_owned())]);
    writer.write_metadata(&Metadata { name: segment::INFO.into(), metadata }).ok()?;
    let schemas = [
        (Path::NAME, topic::path("gcs", "wifi")),
        (Path::NAME, topic::path("gcs", "lte")),
        (Control::NAME, topic::control("gcs")),
        (Received::NAME, topic::received("gcs")),
        (Session::NAME, topic::session("gcs")),
        (Event::NAME, topic::EVENTS.to_owned()),
        (Position::NAME, topic::POSITION.to_owned()),
        (Recorder::NAME, topic::RECORDER.to_owned()),
    ];
    let mut channels = Vec::new();
    for (schema, topic) in schemas {
        let schema = writer.add_schema(schema, "jsonschema", b"{}").ok()?;
        channels.push(writer.add_channel(schema, &topic, "json", &BTreeMap::new()).ok()?);
    }
    for line in lines.split(|byte| *byte == b'\n') {
        let [letter, line @ ..] = line else { continue };
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let tenths =
            parts.next().and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        let (Some(tenths), Some(json)) = (tenths, parts.next()) else { continue };
        let log_time = tenths.saturating_mul(100_000_000);
        let channel_id = channels[usize::from(*letter) % channels.len()];
        let header = MessageHeader { channel_id, sequence: 0, log_time, publish_time: log_time };
        writer.write_to_known_channel(&header, json).ok()?;
    }
    writer.finish().ok()?;
    Some(writer.into_inner().into_inner())
}
