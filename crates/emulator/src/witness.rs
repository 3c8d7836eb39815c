//! Suffers what programs under test suffer: an ordinary thread that sleeps and notes how late it
//! wakes.
//!
//! Not part of the emulator: the engine may be on time on a machine whose programs are not. Then the
//! figures are the machine's and not the link's, and the audit has to say so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hdrhistogram::Histogram;
use sys::clock::now;
use sys::realtime;

use crate::audit::{lateness_histogram, record};

/// How long the witness sleeps each time: 250 samples a second, so that the 99th percentile of a
/// short run means something, for under 1 % of a processor.
const NAP: Duration = Duration::from_millis(4);

/// The thread and its notes.
#[derive(Debug)]
pub(crate) struct Witness {
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Histogram<u64>>>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let notes = Arc::new(Mutex::new(lateness_histogram()));
        let (stopped, notebook) = (Arc::clone(&stop), Arc::clone(&notes));
        let thread = thread::Builder::new().name("witness".to_owned()).spawn(move || {
            let _ = realtime::set_timer_slack(Duration::from_nanos(1));
            while !stopped.load(Ordering::Relaxed) {
                let wake = now() + NAP;
                thread::sleep(NAP);
                let late = now().since(wake);
                record(&mut notebook.lock().unwrap_or_else(PoisonError::into_inner), late);
            }
        })?;
        Ok(Self { stop, notes, thread: Some(thread) })
    }

    /// Forgets what was noted.
    pub(crate) fn reset(&self) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).reset();
    }

    /// Returns the lateness of its wake-ups in nanoseconds.
    pub(crate) fn notes(&self) -> Histogram<u64> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
