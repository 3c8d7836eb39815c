//! The flight recorder: what happened, on disk, for the day after.
//!
//! ```text
//! flight loop: notes → batch, handed on ten times a second ──bounded──► thread: fates.rs, JSON, MCAP → disk
//! ```
//!
//! The loop never waits for the disk: a batch for which there is no room is counted and dropped.
//! And the thread is not woken for each note. What the loop notes is in `daemon/recording.rs`.

mod fates;
mod thread;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use proto::{Duration, Instant, PathRef, SessionId, Step};
use record::schema;
use sys::capabilities::{Capability, is_root, keep_only};

use crate::config::RecordConfig;
use crate::status::RecordReport;
use thread::Recording;
pub(crate) use words::class as class_word;

/// How often paths are sampled, and notes handed on.
const SAMPLE: Duration = Duration::from_millis(100);
/// How often sessions are sampled.
const SESSION_SAMPLE: Duration = Duration::from_secs(1);
/// Samples of paths in a second, at most: a station with a hundred drones samples each of them less
/// often.
const SAMPLES_PER_SECOND: u64 = 400;
/// Notes of one batch: ten times what 200 control messages a second and a burst of events make.
const NOTES: usize = 4_096;
/// Bytes of MAVLink in one batch.
const BYTES: usize = 1 << 20;
/// Batches that wait for the disk: six seconds, which is how long a cheap card may think.
const BATCHES: usize = 64;
/// How long the end of the daemon waits for the disk.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(2);

/// What the flight loop has to tell.
#[derive(Debug)]
pub(crate) enum Note {
    /// A step of a control message.
    Step(Arc<str>, SessionId, Step),
    /// A session begins: numbers of messages begin again.
    Began(SessionId),
    /// A path at this moment; what follows from two samples is filled in by the thread.
    Path(Instant, Arc<str>, PathRef, Box<schema::Path>),
    /// A session at this moment.
    Session(Instant, Arc<str>, Box<schema::Session>),
    /// Something happened: severity, what.
    Event(Instant, Arc<str>, u8, String),
    /// A control message came.
    Received(Instant, Arc<str>, schema::Received),
    /// MAVLink passed: where its bytes lie in those of the batch.
    Mavlink(Instant, usize, usize),
}

/// Notes on their way.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    notes: Vec<Note>,
    bytes: Vec<u8>,
}

/// What both sides of the channel look at.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    file: Mutex<String>,
    trouble: Mutex<String>,
}

/// The flight loop's end of the recorder.
pub(crate) struct Recorder {
    batch: Batch,
    batches: Option<SyncSender<Batch>>,
    ended: Receiver<()>,
    shared: Arc<Shared>,
    mavlink: bool,
    next: Instant,
    next_session: Instant,
}

impl Recorder {
    /// Begins a record and starts the thread. A directory that takes nothing is tried again;
    /// without a thread all notes are dropped, and counted.
    pub(crate) fn open(now: Instant, config: &RecordConfig, role: &str) -> Self {
        let shared = Arc::<Shared>::default();
        let recording = Recording::open(config, role, Arc::clone(&shared));
        let (batches, waiting) = sync_channel(BATCHES);
        let (end, ended) = sync_channel(1);
        let work = move || {
            // It writes files, as root perhaps those of another user, and needs no other right.
            let files = if is_root() { &[Capability::DacOverride][..] } else { &[] };
            if let Err(error) = keep_only(files) {
                tracing::debug!(%error, "the recorder keeps its capabilities");
            }
            recording.run(&waiting);
            // Whoever waited for it may be gone.
            let _ = end.try_send(());
        };
        let thread = Builder::new().name("record".into()).spawn(work);
        if let Err(error) = thread {
            let trouble = format!("no thread to record in: {error}");
            tracing::warn!("the flight record: {trouble}");
            shared.set(&shared.trouble, &trouble);
        }
        Self {
            batch: Batch::default(),
            batches: Some(batches),
            ended,
            shared,
            mavlink: config.mavlink,
            next: now,
            next_session: now,
        }
    }

    /// When the next sample is due.
    pub(crate) fn timeout(&self) -> Instant {
        self.next
    }

    /// Notes that so many paths are sampled now; tells whether sessions are to be sampled too.
    pub(crate) fn on_sample(&mut self, now: Instant, paths: usize) -> bool {
        let least = Duration::from_millis(paths as u64 * 1_000 / SAMPLES_PER_SECOND);
        self.next = now + SAMPLE.max(least);
        let session = now >= self.next_session;
        if session {
            self.next_session = now + SESSION_SAMPLE.max(least);
        }
        session
    }

    /// Takes a note.
    pub(crate) fn note(&mut self, note: Note) {
        if self.batch.notes.len() < NOTES {
            self.batch.notes.push(note);
        } else {
            self.drop_notes(1);
        }
    }

    /// Takes MAVLink that was handed in, or is handed over.
    pub(crate) fn on_mavlink(&mut self, now: Instant, bytes: &[u8]) {
        if !self.mavlink {
            return;
        }
        let from = self.batch.bytes.len();
        if from + bytes.len() > BYTES {
            return self.drop_notes(1);
        }
        self.batch.bytes.extend_from_slice(bytes);
        self.note(Note::Mavlink(now, from, from + bytes.len()));
    }

    /// Hands the notes on; without room for them they are dropped, and counted.
    pub(crate) fn hand_on(&mut self) {
        let Some(batches) = self.batches.as_ref().filter(|_| !self.batch.notes.is_empty()) else {
            return;
        };
        let batch = std::mem::take(&mut self.batch);
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            batches.try_send(batch)
        {
            self.drop_notes(batch.notes.len() as u64);
        }
    }

    /// Says how it goes.
    pub(crate) fn report(&self) -> RecordReport {
        RecordReport {
            file: self.shared.text(&self.shared.file),
            written_bytes: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            trouble: self.shared.text(&self.shared.trouble),
        }
    }

    /// Writes what there is, and ends the record.
    pub(crate) fn finish(mut self) {
        self.hand_on();
        self.batches = None;
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(FAREWELL) {
            tracing::warn!("the disk did not take the end of the flight record in time");
        }
    }

    fn drop_notes(&self, count: u64) {
        self.shared.dropped.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shared {
    fn text(&self, text: &Mutex<String>) -> String {
        text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, text: &Mutex<String>, value: &str) {
        value.clone_into(&mut text.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
