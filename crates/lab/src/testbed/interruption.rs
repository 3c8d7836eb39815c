//! Ends a run in good order when the program is asked to stop.
//!
//! The program is process 1 of its process namespace, and signals do not end that one unless it
//! handles them; and daemons, keys and links must go when the run does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sys::clock::now;
use sys::signals::Signals;
use units::{Duration, Instant};

/// How often signals, and whoever waits, look.
const LOOK: Duration = Duration::from_millis(100);

/// Set once, when the program was asked to end.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to take the signals that end a program. Must come before the program's first thread.
///
/// # Errors
/// When the kernel gives no descriptor or no thread.
pub(crate) fn watch() -> std::io::Result<()> {
    let signals = Signals::block()?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while signals.take().is_none() {
            thread::sleep(LOOK.into());
        }
        ASKED.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}

/// Tells whether the program was asked to end.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails where the program was asked to end, so that what is under way is taken down.
///
/// # Errors
/// When it was asked.
pub(crate) fn check() -> Result<(), String> {
    if is_asked() { Err("interrupted".to_owned()) } else { Ok(()) }
}

/// Sleeps until a time.
///
/// # Errors
/// When the program is asked to end meanwhile.
pub(crate) fn sleep_until(until: Instant) -> Result<(), String> {
    loop {
        check()?;
        let left = until.since(now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(LOOK).into());
    }
}
