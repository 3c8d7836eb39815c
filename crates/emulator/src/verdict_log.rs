//! Every verdict of an emulation, as lines of a CSV file.
//!
//! The format is `netem`'s, the same for both drivers. The engine records while it works; a thread
//! of ordinary priority writes, so that a slow disk makes nothing late.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use netem::{VERDICT_LOG_HEADER, VerdictRecord};
use sys::print::tell;

/// Bytes of text that are handed to the writer at once.
const CHUNK: usize = 1 << 16;
/// Chunks that may wait for the disk: 64 MiB, then lines are dropped and counted.
const CHUNKS_WAITING: usize = 1_024;

/// Collects verdicts and passes them to a writer.
#[derive(Debug)]
pub(crate) struct VerdictLog {
    text: String,
    dropped: u64,
    chunks: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
}

impl VerdictLog {
    /// Creates the file and starts its writer.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("create the log {}: {error}", path.display()))
        };
        let file = File::create(path).map_err(named)?;
        let (sender, receiver) = sync_channel(CHUNKS_WAITING);
        let writer = thread::Builder::new()
            .name("verdict-log".to_owned())
            .spawn(move || write_chunks(file, &receiver))?;
        Ok(Self {
            text: format!("{VERDICT_LOG_HEADER}\n"),
            dropped: 0,
            chunks: Some(sender),
            writer: Some(writer),
        })
    }

    /// Records one verdict.
    pub(crate) fn record(&mut self, record: &VerdictRecord<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{record}");
        if self.text.len() >= CHUNK {
            self.flush();
        }
    }

    /// Passes what was recorded to the writer.
    pub(crate) fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.text);
        let lines = text.lines().count() as u64;
        match self.chunks.as_ref().map(|chunks| chunks.try_send(text)) {
            Some(Err(TrySendError::Full(_))) => self.dropped += lines,
            // Without a writer the disk failed, and the writer said so.
            Some(Ok(()) | Err(TrySendError::Disconnected(_))) | None => {}
        }
    }
}

impl Drop for VerdictLog {
    fn drop(&mut self) {
        self.flush();
        if self.dropped > 0
            && let Some(chunks) = &self.chunks
        {
            let _ =
                chunks.send(format!("# {} lines dropped: the disk was too slow\n", self.dropped));
        }
        // The writer ends when nobody can send to it.
        drop(self.chunks.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_chunks(file: File, chunks: &Receiver<String>) {
    let mut file = BufWriter::new(file);
    for chunk in chunks {
        if let Err(error) = file.write_all(chunk.as_bytes()) {
            tell(format_args!("emulate: write the verdict log: {error}; it ends here"));
            return;
        }
    }
    if let Err(error) = file.flush() {
        tell(format_args!("emulate: write the verdict log: {error}; it is not complete"));
    }
}
