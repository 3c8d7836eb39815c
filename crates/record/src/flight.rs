//! A record read again, whole or cut: what was seen of each path, each control message's end,
//! events, positions.
//!
//! It may be somebody else's: what it holds is bounded, in number and in memory, and its texts
//! cannot steer a terminal.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path as FilePath;

use mcap::records::Record;
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};
use serde::de::DeserializeOwned;

use crate::harmless::{harmless, make_harmless};
use crate::schema::{
    Class, Control, CopySent, Event, Path, Position, Received, Recorder, Schema, Session, Stream,
};
use crate::{segment, topic};

/// The largest record of the format that is read: a chunk holds one second.
const LARGEST: usize = 256 << 20;
/// Records of the format that are read of one flight: eight hours at 200 control messages a second
/// and ten paths.
const RECORDS: usize = 16_000_000;
/// Memory that a flight may take, in bytes: eight hours at 50 control messages a second and five
/// paths fit.
const MEMORY: usize = 2 << 30;
/// Series of one flight, over all its files: several files with as many channels as are ever
/// written.
const SERIES: usize = 4 * segment::CHANNELS;
/// The longest message, in bytes: a session with all its streams is a tenth of that.
const LONGEST_MESSAGE: usize = 256 << 10;
/// The longest topic, in bytes; names in configurations are words.
const LONGEST_TOPIC: usize = 1_024;
/// What a file says of itself, at most: entries, and letters of each.
const INFO: (usize, usize) = (64, 256);
/// Where Linux says how much memory there is.
const MEMORY_INFO: &str = "/proc/meminfo";

/// Values with their times, in nanoseconds since 1970, in the order of these.
pub type Series<T> = Vec<(u64, T)>;

/// What one or several files hold.
#[derive(Debug, Default)]
pub struct Flight {
    /// What the first file says of itself: `role`, `version`.
    pub info: BTreeMap<String, String>,
    /// Samples of paths, by peer and name.
    pub paths: BTreeMap<(String, String), Series<Path>>,
    /// Control messages that were handed in, by peer, each once; their times are those of handing
    /// in.
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
    bounds: Bounds,
}

/// How much was read, and how much may be.
#[derive(Debug, Default)]
struct Bounds {
    records: usize,
    series: usize,
    /// Bytes that are kept, and how many may be; 0 before anything is.
    memory: usize,
    most_memory: usize,
}

/// What a channel holds.
#[derive(Clone, Debug)]
struct Channel {
    schema: &'static str,
    peer: String,
    path: String,
}

/// Channels and schemas of the file that is being read; those of others are left out.
#[derive(Debug, Default)]
struct Known {
    schemas: HashMap<u16, &'static str>,
    channels: HashMap<u16, Channel>,
}

/// What a message takes beside its structure: its texts and lists.
trait Kept: DeserializeOwned {
    fn beside(&self) -> usize;
}

impl Kept for Path {
    fn beside(&self) -> usize {
        text(&self.name) + text(&self.state)
    }
}

impl Kept for Control {
    fn beside(&self) -> usize {
        let paths: usize = self.copies.iter().map(|copy| text(&copy.path)).sum();
        let texts = text(&self.class) + text(&self.outcome) + text(&self.why);
        texts + paths + self.copies.capacity() * size_of::<CopySent>()
    }
}

impl Kept for Received {
    fn beside(&self) -> usize {
        text(&self.class)
    }
}

impl Kept for Session {
    fn beside(&self) -> usize {
        let classes: usize = self.classes.iter().map(|class| text(&class.class)).sum();
        let lists = self.classes.capacity() * size_of::<Class>();
        classes + lists + self.streams.capacity() * size_of::<Stream>()
    }
}

impl Kept for Recorder {
    fn beside(&self) -> usize {
        0
    }
}

impl Kept for Event {
    fn beside(&self) -> usize {
        text(&self.message) + text(&self.name) + text(&self.file)
    }
}

impl Kept for Position {
    fn beside(&self) -> usize {
        text(&self.frame_id)
    }
}

/// The schemas that are read.
const OURS: [&str; 7] = [
    Path::NAME,
    Control::NAME,
    Received::NAME,
    Session::NAME,
    Event::NAME,
    Position::NAME,
    Recorder::NAME,
];

impl Flight {
    /// Reads files, in any order.
    ///
    /// # Errors
    /// When a file cannot be opened, is no record, or holds more than is read. A file that is cut
    /// is no error: [`Flight::cut`] says so.
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

    /// Returns the samples of each path with its peer, by peer and in the order of the paths'
    /// numbers: that of the drone's file, whatever either end calls them.
    pub fn paths_in_order(&self) -> Vec<(&str, &Series<Path>)> {
        let paths = self.paths.iter().map(|((peer, _), samples)| (peer.as_str(), samples));
        let mut paths: Vec<_> = paths.collect();
        paths.sort_by_key(|(peer, samples)| (*peer, samples.first().map(|(_, first)| first.id)));
        paths
    }

    fn add(&mut self, path: &FilePath) -> Result<(), String> {
        let name = harmless(&path.display().to_string());
        let file = File::open(path).map_err(|error| format!("read {name}: {error}"))?;
        self.add_from(&name, file)
    }

    fn add_from(&mut self, name: &str, source: impl Read) -> Result<(), String> {
        let mut known = Known::default();
        let stopped = records(name, source, |record| {
            self.take(&mut known, record).map_err(|why| format!("{name}: {why}"))?;
            Ok(true)
        })?;
        if let Some(why) = stopped {
            self.cut.insert(name.to_owned(), harmless(&why));
        }
        Ok(())
    }

    fn take(&mut self, known: &mut Known, record: Record<'_>) -> Result<(), String> {
        self.bounds.count_record()?;
        match record {
            Record::Metadata(metadata)
                if metadata.name == segment::INFO && self.info.is_empty() =>
            {
                self.info = info_of(metadata.metadata);
            }
            Record::Schema { header, .. } => {
                let ours = OURS.into_iter().find(|name| *name == header.name);
                match ours {
                    Some(name) => _ = known.schemas.insert(header.id, name),
                    None => _ = known.schemas.remove(&header.id),
                }
            }
            Record::Channel(channel) => {
                let Some(schema) = known.schemas.get(&channel.schema_id) else {
                    known.channels.remove(&channel.id);
                    return Ok(());
                };
                let length = channel.topic.len();
                if length > LONGEST_TOPIC {
                    return Err(format!(
                        "a topic of {length} bytes: Fulmar writes {LONGEST_TOPIC} at most"
                    ));
                }
                let topic = harmless(&channel.topic);
                let (_, peer, path) = topic::parts(&topic);
                let (peer, path) = (peer.to_owned(), path.to_owned());
                known.channels.insert(channel.id, Channel { schema, peer, path });
                if known.channels.len() > segment::CHANNELS {
                    return Err(too_many(segment::CHANNELS, "channels"));
                }
            }
            Record::Message { header, data } => {
                if let Some(channel) = known.channels.get(&header.channel_id) {
                    self.take_message(channel, header.log_time, &data)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a message in; what has another schema, or does not fit its own, is somebody else's.
    fn take_message(&mut self, channel: &Channel, at: u64, data: &[u8]) -> Result<(), String> {
        let Self { paths, control, received, sessions, bounds, .. } = self;
        let (peer, path) = (&channel.peer, &channel.path);
        match channel.schema {
            Path::NAME => bounds.add_of(paths, &(peer.clone(), path.clone()), at, data),
            Control::NAME => bounds.add_of(control, peer, at, data),
            Received::NAME => bounds.add_of(received, peer, at, data),
            Session::NAME => bounds.add_of(sessions, peer, at, data),
            Event::NAME => bounds.add(&mut self.events, at, data),
            Position::NAME => bounds.add(&mut self.positions, at, data),
            _ => bounds.add(&mut self.recorder, at, data),
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
    let name = harmless(&path.display().to_string());
    let file = File::open(path).map_err(|error| format!("read {name}: {error}"))?;
    let (mut info, mut bounds) = (BTreeMap::new(), Bounds::default());
    records(&name, file, |record| match record {
        Record::Metadata(metadata) if metadata.name == segment::INFO => {
            info = info_of(metadata.metadata);
            Ok(false)
        }
        _ => bounds.count_record().map(|()| true).map_err(|why| format!("{name}: {why}")),
    })?;
    Ok(info)
}

/// Hands each record of a file to `take` until that says false or the file is over; returns why it
/// was not read to its end.
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

impl Bounds {
    fn count_record(&mut self) -> Result<(), String> {
        self.records += 1;
        if self.records > RECORDS { Err(too_many(RECORDS, "messages")) } else { Ok(()) }
    }

    /// Adds a message to one of many series.
    fn add_of<K: Ord + Clone, T: Kept>(
        &mut self,
        all: &mut BTreeMap<K, Series<T>>,
        key: &K,
        at: u64,
        data: &[u8],
    ) -> Result<(), String> {
        if !all.contains_key(key) {
            self.series += 1;
            if self.series > SERIES {
                return Err(too_many(SERIES, "peers and paths"));
            }
            all.insert(key.clone(), Series::new());
        }
        all.get_mut(key).map_or(Ok(()), |series| self.add(series, at, data))
    }

    fn add<T: Kept>(&mut self, series: &mut Series<T>, at: u64, data: &[u8]) -> Result<(), String> {
        if data.len() > LONGEST_MESSAGE {
            return Ok(());
        }
        let Some(value) = parsed::<T>(data) else { return Ok(()) };
        let room = series.capacity();
        self.memory += value.beside();
        series.push((at, value));
        self.memory += (series.capacity() - room) * size_of::<(u64, T)>();
        if self.most_memory == 0 {
            self.most_memory = most_memory();
        }
        if self.memory > self.most_memory {
            let mib = self.most_memory >> 20;
            return Err(format!(
                "it takes more than {mib} MiB of memory, which is all that is given to it here: give fewer files at once"
            ));
        }
        Ok(())
    }
}

/// Returns what a text takes, with what the allocator needs for it.
fn text(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { text.capacity() + 16 }
}

/// Reads a message, with texts that cannot steer a terminal.
fn parsed<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    // Most are plain; a control character stands behind a backslash, or is none of ASCII.
    if data.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t') && *byte != b'\\') {
        return serde_json::from_slice(data).ok();
    }
    let mut value = serde_json::from_slice(data).ok()?;
    make_harmless(&mut value);
    serde_json::from_value(value).ok()
}

/// Returns what a flight may take: half of the memory that this computer has left, and no more than
/// [`MEMORY`].
fn most_memory() -> usize {
    let text = std::fs::read_to_string(MEMORY_INFO).unwrap_or_default();
    let left = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let left = left.and_then(|left| left.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    left.map_or(MEMORY, |kib| (kib << 9).min(MEMORY))
}

fn info_of(metadata: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (entries, letters) = INFO;
    let text = |text: &str| harmless(text).chars().take(letters).collect::<String>();
    metadata.iter().take(entries).map(|(key, value)| (text(key), text(value))).collect()
}

fn too_many(most: usize, what: &str) -> String {
    format!(
        "more than {most} {what}: no daemon writes so many into one record; give fewer files at once"
    )
}

fn sort<T>(series: &mut Series<T>) {
    series.sort_by_key(|(at, _)| *at);
}

#[cfg(test)]
mod tests;
