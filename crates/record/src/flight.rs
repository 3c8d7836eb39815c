//! A record read again, whole or cut: what was seen of each path, each control message's end, events, positions.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path as FilePath;

use mcap::records::Record;
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};
use serde::de::DeserializeOwned;

use crate::schema::{Control, Event, Path, Position, Received, Recorder, Schema, Session};
use crate::{segment, topic};

/// The largest record of the format that is read: a chunk holds one second.
const LARGEST: usize = 256 << 20;
/// Messages of one flight, at most: eight hours at 200 control messages a second and ten paths.
const MESSAGES: usize = 16_000_000;

/// Values with their times, in nanoseconds since 1970, in the order of these.
pub type Series<T> = Vec<(u64, T)>;

/// What one or several files hold.
#[derive(Debug, Default)]
pub struct Flight {
    /// What the first file says of itself: `role`, `version`.
    pub info: BTreeMap<String, String>,
    /// Samples of paths, by peer and name.
    pub paths: BTreeMap<(String, String), Series<Path>>,
    /// Control messages that were handed in, by peer, each once; their times are those of handing in.
    pub control: BTreeMap<String, Series<Control>>,
    /// Control messages that came, by peer.
    pub received: BTreeMap<String, Series<Received>>,
    /// Sessions, by peer.
    pub sessions: BTreeMap<String, Series<Session>>,
    /// What happened.
    pub events: Series<Event>,
    /// Where the vehicle was.
    pub positions: Series<Position>,
    /// The recorder itself.
    pub recorder: Series<Recorder>,
    /// Why a file was not read to its end, by file; those that were are not in it.
    pub cut: BTreeMap<String, String>,
    messages: usize,
}

/// What a channel holds.
#[derive(Clone, Debug)]
struct Channel {
    schema: String,
    topic: String,
}

/// Channels and schemas of the file that is being read.
#[derive(Debug, Default)]
struct Known {
    schemas: HashMap<u16, String>,
    channels: HashMap<u16, Channel>,
}

impl Flight {
    /// Reads files, in any order.
    ///
    /// # Errors
    /// When a file cannot be opened, is no record, or holds more than is read. A file that is cut is no error:
    /// [`Flight::cut`] says so.
    pub fn read(files: &[impl AsRef<FilePath>]) -> Result<Self, String> {
        let mut flight = Self::default();
        for file in files {
            flight.add(file.as_ref())?;
        }
        flight.settle();
        Ok(flight)
    }

    /// Reads one file from elsewhere; `name` is what errors call it.
    ///
    /// # Errors
    /// As of [`Flight::read`].
    pub fn read_from(name: &str, source: impl Read) -> Result<Self, String> {
        let mut flight = Self::default();
        flight.add_from(name, source)?;
        flight.settle();
        Ok(flight)
    }

    /// Returns the first and the last moment of what was recorded; none of an empty record.
    pub fn span(&self) -> Option<(u64, u64)> {
        fn ends<T>(series: &Series<T>) -> [Option<u64>; 2] {
            [series.first().map(|(at, _)| *at), series.last().map(|(at, _)| *at)]
        }
        let times = self.paths.values().map(ends);
        let times = times.chain(self.control.values().map(ends));
        let times = times.chain(self.received.values().map(ends));
        let times = times.chain([ends(&self.events), ends(&self.recorder), ends(&self.positions)]);
        let times: Vec<u64> = times.flatten().flatten().collect();
        Some((*times.iter().min()?, *times.iter().max()?))
    }

    /// Returns the samples of each path with its peer, by peer and in the order of the paths' numbers: that of the drone's
    /// file, whatever either end calls them.
    pub fn paths_in_order(&self) -> Vec<(&str, &Series<Path>)> {
        let paths = self.paths.iter().map(|((peer, _), samples)| (peer.as_str(), samples));
        let mut paths: Vec<_> = paths.collect();
        paths.sort_by_key(|(peer, samples)| (*peer, samples.first().map(|(_, first)| first.id)));
        paths
    }

    fn add(&mut self, path: &FilePath) -> Result<(), String> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| format!("read {name}: {error}"))?;
        self.add_from(&name, file)
    }

    fn add_from(&mut self, name: &str, source: impl Read) -> Result<(), String> {
        let mut known = Known::default();
        let stopped = records(name, source, |record| {
            self.take(&mut known, record);
            if self.messages > MESSAGES {
                return Err(format!(
                    "{name}: more than {MESSAGES} messages; give fewer files at once"
                ));
            }
            Ok(true)
        })?;
        if let Some(why) = stopped {
            self.cut.insert(name.to_owned(), why);
        }
        Ok(())
    }

    fn take(&mut self, known: &mut Known, record: Record<'_>) {
        match record {
            Record::Metadata(metadata)
                if metadata.name == segment::INFO && self.info.is_empty() =>
            {
                self.info = metadata.metadata;
            }
            Record::Schema { header, .. } => {
                known.schemas.insert(header.id, header.name);
            }
            Record::Channel(channel) => {
                let schema = known.schemas.get(&channel.schema_id).cloned().unwrap_or_default();
                known.channels.insert(channel.id, Channel { schema, topic: channel.topic });
            }
            Record::Message { header, data } => {
                if let Some(channel) = known.channels.get(&header.channel_id) {
                    self.messages += 1;
                    self.take_message(channel, header.log_time, &data);
                }
            }
            _ => {}
        }
    }

    /// Takes a message in; what has another schema, or does not fit its own, is somebody else's.
    fn take_message(&mut self, channel: &Channel, at: u64, data: &[u8]) {
        let (_, peer, path) = topic::parts(&channel.topic);
        let peer = || peer.to_owned();
        match channel.schema.as_str() {
            Path::NAME => add(self.paths.entry((peer(), path.to_owned())).or_default(), at, data),
            Control::NAME => add(self.control.entry(peer()).or_default(), at, data),
            Received::NAME => add(self.received.entry(peer()).or_default(), at, data),
            Session::NAME => add(self.sessions.entry(peer()).or_default(), at, data),
            Event::NAME => add(&mut self.events, at, data),
            Position::NAME => add(&mut self.positions, at, data),
            Recorder::NAME => add(&mut self.recorder, at, data),
            _ => {}
        }
    }

    /// Puts everything in the order of time, and leaves each control message once.
    fn settle(&mut self) {
        for messages in self.control.values_mut() {
            let mut places = HashMap::new();
            let mut kept: Series<Control> = Vec::with_capacity(messages.len());
            for (at, message) in messages.drain(..) {
                match places.get(&message.number) {
                    Some(&place) => kept[place] = (at, message),
                    None => {
                        places.insert(message.number, kept.len());
                        kept.push((at, message));
                    }
                }
            }
            *messages = kept;
            sort(messages);
        }
        self.paths.values_mut().for_each(sort);
        self.received.values_mut().for_each(sort);
        self.sessions.values_mut().for_each(sort);
        sort(&mut self.events);
        sort(&mut self.positions);
        sort(&mut self.recorder);
    }
}

/// Returns what a file says of itself, [`Flight::info`], without reading all of it.
///
/// # Errors
/// When it cannot be opened, or is no record.
pub fn info(path: &FilePath) -> Result<BTreeMap<String, String>, String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| format!("read {name}: {error}"))?;
    let mut info = BTreeMap::new();
    records(&name, file, |record| match record {
        Record::Metadata(metadata) if metadata.name == segment::INFO => {
            info = metadata.metadata;
            Ok(false)
        }
        _ => Ok(true),
    })?;
    Ok(info)
}

/// Hands each record of a file to `take` until that says false or the file is over; returns why it was not read to its
/// end.
fn records(
    name: &str,
    mut source: impl Read,
    mut take: impl FnMut(Record<'_>) -> Result<bool, String>,
) -> Result<Option<String>, String> {
    let options = LinearReaderOptions::default()
        .with_skip_end_magic(true)
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(LARGEST);
    let mut reader = LinearReader::new_with_options(options);
    // A record that was begun a moment ago may hold nothing yet, or a part of the magic bytes.
    let (mut start, mut any) = (Vec::new(), false);
    let stopped = loop {
        match reader.next_event() {
            None => break Some("it has no end".to_owned()),
            Some(Ok(LinearReadEvent::ReadRequest(need))) => {
                let space = reader.insert(need);
                let read = source.read(space);
                let read = read.map_err(|error| format!("read {name}: {error}"))?;
                start.extend(space[..read].iter().take(mcap::MAGIC.len() - start.len()));
                reader.notify_read(read);
            }
            Some(Ok(LinearReadEvent::Record { opcode, data })) => {
                let Ok(record) = mcap::parse_record(opcode, data) else {
                    break Some("it has a record that cannot be read".to_owned());
                };
                any = true;
                if matches!(record, Record::Footer(_)) || !take(record)? {
                    return Ok(None);
                }
            }
            Some(Err(error)) => break Some(error.to_string()),
        }
    };
    match stopped {
        Some(why) if !any && !mcap::MAGIC.starts_with(&start) => {
            Err(format!("{name} is no record: {why}"))
        }
        stopped => Ok(stopped),
    }
}

fn add<T: DeserializeOwned>(series: &mut Series<T>, at: u64, data: &[u8]) {
    if let Ok(value) = serde_json::from_slice(data) {
        series.push((at, value));
    }
}

fn sort<T>(series: &mut Series<T>) {
    series.sort_by_key(|(at, _)| *at);
}

#[cfg(test)]
mod tests {
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
            assert_eq!((flight.messages, flight.cut.len()), (0, 1), "{length} bytes");
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
}
