//! The recorder's thread: notes become messages of a record, twice a second they go to disk.
//!
//! A disk that takes nothing pauses the record; it goes on in a new file as soon as there is room.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::SystemTime;

use proto::select::MavlinkFrames;
use proto::{Duration, Instant, PathRef, StepKind};
use record::schema::{self, Event, Schema, Time};
use record::segment::{Refused, Segment};
use record::store::{Part, Store};
use record::{date, tlog, topic};
use sys::clock;

use super::fates::{Fates, Known};
use super::{Batch, Note, Shared, words};
use crate::config::RecordConfig;

/// How often what was noted goes to disk.
const WRITE: Duration = Duration::from_millis(500);
/// Of these, every so many waits until it is there: a second, which is what a failure of power may
/// cost.
const SYNC_EVERY: u32 = 2;
/// A disk that took nothing is tried again after this time.
const PAUSE: Duration = Duration::from_secs(5);
/// A file is ended after this time: the index of its chunks is kept in memory until then.
const LONGEST: Duration = Duration::from_secs(7_200);
/// The clock of this computer has stepped where it is off by more: what follows goes to a file of
/// its own.
const STEP_NS: i128 = 1_000_000_000;
/// Paths whose last sample is remembered.
const PATHS: usize = 4_096;

/// The record as the thread has it.
pub(crate) struct Recording {
    store: Store,
    info: BTreeMap<String, String>,
    shared: Arc<Shared>,
    /// What this computer's date is, in nanoseconds since 1970.
    date: fn() -> u64,
    /// What 1970 plus so many nanoseconds is instant zero.
    epoch_ns: u64,
    file: Option<Growing>,
    paused: Option<Instant>,
    /// Whether the disk has refused something since it last took anything: a full one lets files
    /// begin, and takes nothing.
    refused: bool,
    mavlink: Vec<u8>,
    fates: Fates,
    seen: HashMap<PathRef, Seen>,
    next_write: Instant,
    writes: u32,
}

/// The file that grows.
struct Growing {
    segment: Segment,
    began: Instant,
}

/// What was seen of a path last, and since.
#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    bytes: (u64, u64),
    /// Delays of copies since, in ms: how many, their sum, the least; and the clock's error.
    delays: (u32, f64, f64),
    error_ms: f64,
}

impl Recording {
    /// Begins a file; where the directory takes none the record pauses from the beginning.
    pub(super) fn open(config: &RecordConfig, role: &str, shared: Arc<Shared>) -> Self {
        Self::open_at(clock::now(), unix_ns, config, role, shared)
    }

    fn open_at(
        now: Instant,
        date: fn() -> u64,
        config: &RecordConfig,
        role: &str,
        shared: Arc<Shared>,
    ) -> Self {
        let store = Store::new(&config.directory, config.limits);
        let info = BTreeMap::from([
            ("role".to_owned(), role.to_owned()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let mut recording = Self {
            store,
            info,
            shared,
            date,
            epoch_ns: 0,
            file: None,
            paused: None,
            refused: false,
            mavlink: Vec::new(),
            fates: Fates::new(date() / 1_000_000_000),
            seen: HashMap::new(),
            next_write: now + WRITE,
            writes: 0,
        };
        recording.epoch_ns = recording.epoch_ns_at(now);
        if let Err(error) = recording.begin(now) {
            recording.pause(now, &error.to_string());
        }
        recording
    }

    /// Records until the flight loop has gone.
    pub(super) fn run(mut self, batches: &Receiver<Batch>) {
        loop {
            let now = clock::now();
            let wait = std::time::Duration::from_nanos(self.next_write.since(now).as_nanos());
            match batches.recv_timeout(wait) {
                Ok(batch) => self.take(&batch.bytes, batch.notes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = clock::now();
            if now >= self.next_write {
                self.next_write = now + WRITE;
                self.write(now);
            }
        }
        self.end();
    }

    fn take(&mut self, bytes: &[u8], notes: Vec<Note>) {
        if self.paused.is_some() {
            self.shared.dropped.fetch_add(notes.len() as u64, Ordering::Relaxed);
        }
        for note in notes {
            match note {
                Note::Step(peer, session, step) => {
                    self.note_delay(session, &step.kind);
                    if let StepKind::Skipped(count) = step.kind {
                        self.shared.dropped.fetch_add(count, Ordering::Relaxed);
                    }
                    self.fates.on_step(&peer, session, step);
                }
                Note::Began(session) => self.fates.on_began(session),
                Note::Path(at, peer, path, sample) => self.take_path(at, &peer, path, *sample),
                Note::Session(at, peer, session) => self.add(&topic::session(&peer), at, &*session),
                Note::Event(at, peer, level, message) => {
                    let timestamp = Time::from_ns(self.ns(at));
                    let name = peer.to_string();
                    let event = Event { timestamp, level, message, name, ..Event::default() };
                    self.add(topic::EVENTS, at, &event);
                }
                Note::Received(at, peer, message) => {
                    self.add(&topic::received(&peer), at, &message)
                }
                Note::Mavlink(at, from, to) => {
                    self.take_mavlink(at, bytes.get(from..to).unwrap_or_default());
                }
            }
        }
    }

    fn note_delay(&mut self, session: proto::SessionId, step: &StepKind) {
        let StepKind::Acked { path, sent_at, arrived: Some((at, error)) } = *step else { return };
        let Some(seen) = self.seen.get_mut(&PathRef { session, path }) else { return };
        let delay = words::ms(at.since(sent_at));
        let (count, sum, least) = seen.delays;
        let least = if count == 0 { delay } else { least.min(delay) };
        seen.delays = (count + 1, sum + delay, least);
        seen.error_ms = words::ms(error);
    }

    fn take_path(&mut self, at: Instant, peer: &str, path: PathRef, mut sample: schema::Path) {
        if self.seen.len() >= PATHS && !self.seen.contains_key(&path) {
            self.seen.clear();
        }
        let seen = self.seen.entry(path).or_default();
        if let Some(before) = seen.at {
            let mbps = |now: u64, then: u64| {
                proto::Rate::from_bytes_in(now.saturating_sub(then), at.since(before)).as_mbps()
            };
            sample.out_mbps = mbps(sample.sent_bytes, seen.bytes.0);
            sample.in_mbps = mbps(sample.received_bytes, seen.bytes.1);
        }
        let (count, sum, least) = std::mem::take(&mut seen.delays);
        if count > 0 {
            sample.delay_out_ms = Some(sum / f64::from(count));
            sample.least_delay_out_ms = Some(least);
            sample.clock_error_ms = Some(seen.error_ms);
        }
        (seen.at, seen.bytes) = (Some(at), (sample.sent_bytes, sample.received_bytes));
        self.fates.on_path(at, path, &sample);
        self.add(&topic::path(peer, &sample.name), at, &sample);
    }

    fn take_mavlink(&mut self, at: Instant, bytes: &[u8]) {
        if self.file.is_none() {
            return;
        }
        let ns = self.ns(at);
        for frame in MavlinkFrames::new(bytes) {
            tlog::add(&mut self.mavlink, ns, frame.bytes);
            if let Some(position) = tlog::position(ns, frame.bytes) {
                self.add(topic::POSITION, at, &position);
            }
        }
    }

    fn add<T: Schema>(&mut self, topic: &str, at: Instant, message: &T) {
        let ns = self.ns(at);
        let Some(file) = &mut self.file else { return };
        match file.segment.add(topic, ns, message) {
            Ok(()) => {}
            Err(Refused::Channels) => {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            }
            Err(Refused::Format(error)) => self.pause(clock::now(), &error.to_string()),
        }
    }

    /// Brings everything so far to disk; ends a file that is large or old, and tries again after a
    /// pause.
    fn write(&mut self, now: Instant) {
        for Known { peer, at, control } in self.fates.poll(now) {
            self.add(&topic::control(&peer), at, &control);
        }
        if let Some(since) = self.paused
            && now.since(since) >= PAUSE
        {
            self.resume(now);
        }
        self.writes = self.writes.wrapping_add(1);
        let syncs = self.writes.is_multiple_of(SYNC_EVERY);
        if syncs {
            let written_bytes = self.shared.written.load(Ordering::Relaxed);
            let dropped = self.shared.dropped.load(Ordering::Relaxed);
            self.add(topic::RECORDER, now, &schema::Recorder { written_bytes, dropped });
        }
        let Some(file) = &mut self.file else { return };
        let chunk = file.segment.take().map_err(io::Error::other);
        let is_old = now.since(file.began) >= LONGEST;
        let mut written = chunk.and_then(|chunk| self.append(&chunk));
        if syncs {
            written = written.and_then(|()| self.store.sync());
        }
        let stepped =
            (i128::from(self.epoch_ns_at(now)) - i128::from(self.epoch_ns)).abs() > STEP_NS;
        match written {
            Err(error) => self.pause(now, &error.to_string()),
            Ok(()) => {
                if syncs {
                    self.note_taken();
                }
                if self.store.is_large() || is_old || stepped {
                    self.replace(now, stepped);
                }
            }
        }
    }

    /// Notes that something is on the disk; after a pause the record then really goes on.
    fn note_taken(&mut self) {
        if std::mem::take(&mut self.refused) {
            self.shared.set(&self.shared.trouble, "");
            tracing::info!("the flight record goes on");
        }
    }

    fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.store.append(Part::Record, chunk)?;
        let mavlink = std::mem::take(&mut self.mavlink);
        self.store.append(Part::Mavlink, &mavlink)?;
        self.shared.written.fetch_add((chunk.len() + mavlink.len()) as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the file, and begins another one.
    fn replace(&mut self, now: Instant, stepped: bool) {
        let ended = self.end_file();
        if stepped {
            self.epoch_ns = self.epoch_ns_at(now);
        }
        if let Err(error) = ended.and_then(|()| self.begin(now)) {
            self.pause(now, &error.to_string());
        } else if stepped {
            tracing::info!(
                "the clock of this computer stepped; the flight record goes on in another file"
            );
        }
    }

    fn begin(&mut self, now: Instant) -> io::Result<()> {
        let segment = Segment::begin(&self.info).map_err(io::Error::other)?;
        self.store.begin(&date::utc(self.ns(now) / 1_000_000_000))?;
        self.file = Some(Growing { segment, began: now });
        let path = self.store.current().map(PathBuf::from).unwrap_or_default();
        self.shared.set(&self.shared.file, &path.display().to_string());
        Ok(())
    }

    fn pause(&mut self, now: Instant, why: &str) {
        // Dropped first: the format ends itself, into nothing.
        self.file = None;
        self.mavlink.clear();
        self.store.abandon();
        self.paused = Some(now);
        if !std::mem::replace(&mut self.refused, true) {
            tracing::warn!(
                why,
                "the flight record pauses; it goes on when the disk takes it again"
            );
        }
        self.shared.set(&self.shared.trouble, &format!("paused: {why}"));
        self.shared.set(&self.shared.file, "");
    }

    fn resume(&mut self, now: Instant) {
        self.epoch_ns = self.epoch_ns_at(now);
        if let Err(error) = self.begin(now) {
            return self.pause(now, &error.to_string());
        }
        self.paused = None;
    }

    fn end(&mut self) {
        for Known { peer, at, control } in self.fates.end() {
            self.add(&topic::control(&peer), at, &control);
        }
        if self.file.is_some()
            && let Err(error) = self.end_file()
        {
            tracing::warn!(%error, "the end of the flight record is not on disk");
        }
    }

    fn end_file(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let end = file.segment.finish().map_err(io::Error::other)?;
        self.append(&end)?;
        self.store.end()
    }

    fn ns(&self, at: Instant) -> u64 {
        self.epoch_ns.saturating_add(at.as_nanos())
    }

    /// Returns what this computer's date was at instant zero.
    fn epoch_ns_at(&self, now: Instant) -> u64 {
        (self.date)().saturating_sub(now.as_nanos())
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
