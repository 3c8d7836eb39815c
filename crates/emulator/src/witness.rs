//! Suffers what programs under test suffer: ordinary threads that sleep and note how late they
//! wake.
//!
//! Not part of the emulator: the engine may be on time on a machine whose programs are not. Then
//! the figures are the machine's and not the link's, and the audit has to say so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use hdrhistogram::Histogram;
use sys::clock::now;
use sys::realtime;

use crate::audit::{lateness_histogram, record};
use crate::stalls::{StallLog, Stalled};
use units::Duration;

/// How long the witness sleeps each time: 250 samples a second, so that the 99th percentile of a
/// short run means something, for under 1 % of a processor.
const NAP: Duration = Duration::from_millis(4);

/// Most processors that are watched.
const PROCESSORS: usize = 64;
/// Above the emulator, which spins.
const PRIORITY: i32 = 11;

/// Where a witness looks.
#[derive(Clone, Copy, Debug)]
enum Post {
    /// Wherever the kernel puts an ordinary thread: what programs wait for each other.
    Anywhere,
    /// On one processor, before all others there. A hypervisor takes processors away one by one,
    /// for hundreds of milliseconds at times: a witness that goes to another one does not see it,
    /// and a program that runs there just then does. An ordinary user's sees what programs wait for
    /// on that processor, which is more.
    On(usize),
}

/// A thread and its notes.
#[derive(Debug)]
pub(crate) struct Witness {
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Notes>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Notes {
    wakeups: Histogram<u64>,
    stalls: StallLog,
}

impl Witness {
    /// Starts the threads, which note stalls from a length of `shortest` on.
    pub(crate) fn start_all(shortest: Duration) -> std::io::Result<Vec<Self>> {
        let posts = realtime::processors().into_iter().take(PROCESSORS).map(Post::On);
        [Post::Anywhere].into_iter().chain(posts).map(|post| Self::start(post, shortest)).collect()
    }

    /// Forgets what was noted.
    pub(crate) fn reset(&self) {
        let mut notes = self.locked();
        notes.wakeups.reset();
        notes.stalls.clear();
    }

    /// Returns the lateness of its wake-ups in nanoseconds, and the stalls among them.
    pub(crate) fn notes(&self) -> (Histogram<u64>, StallLog) {
        let notes = self.locked();
        (notes.wakeups.clone(), notes.stalls.clone())
    }

    fn start(post: Post, shortest: Duration) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let who = match post {
            Post::Anywhere => Stalled::Programs,
            Post::On(_) => Stalled::Processor,
        };
        let stalls = StallLog::new(who, shortest);
        let notes = Arc::new(Mutex::new(Notes { wakeups: lateness_histogram(), stalls }));
        let (stopped, notebook) = (Arc::clone(&stop), Arc::clone(&notes));
        let thread = thread::Builder::new().name("witness".to_owned()).spawn(move || {
            let _ = realtime::set_timer_slack(Duration::from_nanos(1));
            if let Post::On(processor) = post {
                // A processor that has gone meanwhile needs no witness, and one elsewhere does no
                // harm.
                let _ = realtime::stay_on(processor);
                realtime::prefer_realtime(PRIORITY);
            }
            while !stopped.load(Ordering::Relaxed) {
                let wake = now() + NAP;
                thread::sleep(NAP.into());
                let time = now();
                let mut notes = notebook.lock().unwrap_or_else(PoisonError::into_inner);
                if matches!(post, Post::Anywhere) {
                    record(&mut notes.wakeups, time.since(wake));
                }
                notes.stalls.note(wake, time);
            }
        })?;
        Ok(Self { stop, notes, thread: Some(thread) })
    }

    fn locked(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
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
