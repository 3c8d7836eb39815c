//! One file of a record as it grows: MCAP, in chunks that each stand for themselves.
//!
//! Bytes come out here and go to disk in `store.rs`: so a disk that is full, or slow, is nothing
//! that the format has to know about, and a chunk is on disk whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcap::records::{MessageHeader, Metadata};
use mcap::write::NoSeek;
use mcap::{Compression, McapResult, WriteOptions, Writer};

use crate::schema::Schema;

/// Channels of one file: the paths and peers of a station with a hundred drones fit several times.
pub const CHANNELS: usize = 2_048;

/// The name of the metadata that a file begins with.
pub const INFO: &str = "fulmar";

/// An MCAP file that is being written.
pub struct Segment {
    writer: Writer<NoSeek<Buffer>>,
    buffer: Buffer,
    schemas: HashMap<&'static str, u16>,
    channels: HashMap<String, Channel>,
    text: Vec<u8>,
}

struct Channel {
    id: u16,
    sequence: u32,
}

/// Why something is not in the file.
#[derive(Debug)]
pub enum Refused {
    /// There are [`CHANNELS`] channels already.
    Channels,
    /// The format's library says so.
    Format(mcap::McapError),
}

/// Bytes on their way from the format to the disk.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Segment {
    /// Begins a file, with what is to be known of it first.
    ///
    /// # Errors
    /// Those of the format's library, which are mistakes of ours.
    pub fn begin(info: &BTreeMap<String, String>) -> McapResult<Self> {
        let buffer = Buffer::default();
        let options = WriteOptions::new()
            .profile("fulmar")
            .library(concat!("fulmar ", env!("CARGO_PKG_VERSION")))
            .compression(Some(Compression::Lz4))
            .chunk_size(None)
            .disable_seeking(true);
        let mut writer = options.create(NoSeek::new(buffer.clone()))?;
        writer.write_metadata(&Metadata { name: INFO.into(), metadata: info.clone() })?;
        let (schemas, channels) = (HashMap::new(), HashMap::new());
        Ok(Self { writer, buffer, schemas, channels, text: Vec::new() })
    }

    /// Adds a message to a channel, which is made when it is new.
    ///
    /// # Errors
    /// [`Refused::Channels`] where that would be one too many.
    pub fn add<T: Schema>(
        &mut self,
        topic: &str,
        time_ns: u64,
        message: &T,
    ) -> Result<(), Refused> {
        if !self.channels.contains_key(topic) {
            self.add_channel::<T>(topic)?;
        }
        let Some(channel) = self.channels.get_mut(topic) else { return Err(Refused::Channels) };
        channel.sequence = channel.sequence.wrapping_add(1);
        let header = MessageHeader {
            channel_id: channel.id,
            sequence: channel.sequence,
            log_time: time_ns,
            publish_time: time_ns,
        };
        self.text.clear();
        if serde_json::to_writer(&mut self.text, message).is_err() {
            return Ok(());
        }
        self.writer.write_to_known_channel(&header, &self.text).map_err(Refused::Format)
    }

    /// Ends the chunk, and takes what has to be written now.
    ///
    /// # Errors
    /// Those of the format's library.
    pub fn take(&mut self) -> McapResult<Vec<u8>> {
        self.writer.flush()?;
        Ok(std::mem::take(&mut *self.buffer.bytes()))
    }

    /// Ends the file, and takes what has to be written last.
    ///
    /// # Errors
    /// Those of the format's library.
    pub fn finish(mut self) -> McapResult<Vec<u8>> {
        self.writer.finish()?;
        Ok(std::mem::take(&mut *self.buffer.bytes()))
    }

    fn add_channel<T: Schema>(&mut self, topic: &str) -> Result<(), Refused> {
        if self.channels.len() >= CHANNELS {
            return Err(Refused::Channels);
        }
        let schema = match self.schemas.get(T::NAME) {
            Some(schema) => *schema,
            None => {
                let text = T::schema().to_string();
                let added = self.writer.add_schema(T::NAME, "jsonschema", text.as_bytes());
                let schema = added.map_err(Refused::Format)?;
                self.schemas.insert(T::NAME, schema);
                schema
            }
        };
        let id = self.writer.add_channel(schema, topic, "json", &BTreeMap::new());
        let id = id.map_err(Refused::Format)?;
        self.channels.insert(topic.to_owned(), Channel { id, sequence: 0 });
        Ok(())
    }
}

impl Buffer {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
