//! The kernel's TCP on a flight: a sender that always has data, and a receiver that notes what it
//! read when.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use sys::byte_stream::reset_on_close;
use sys::clock::now;
use sys::realtime::prefer_realtime;
use units::{Duration, Instant};

use crate::testbed::interruption::{is_asked, sleep_until};
use crate::testbed::kernel_stream::Dialled;
use crate::testbed::links::Side;

/// How often both ends look whether the flight is over.
const LOOK: Duration = Duration::from_millis(100);
/// Priority among real-time threads: below the daemons and the emulator.
const PRIORITY: i32 = 5;
/// What is written at once.
const CHUNK: usize = 1 << 16;

/// A flow under way.
#[derive(Debug)]
pub(super) struct Running {
    sender: JoinHandle<io::Result<()>>,
    receiver: JoinHandle<io::Result<Vec<(f64, u64)>>>,
    delivered: Arc<AtomicU64>,
    /// Open for sub-flows that join again after an outage.
    _listener: TcpListener,
}

impl Running {
    /// Lets a side send from `before` the start of the flight on, to its end.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(super) fn begin(
        ends: Dialled,
        sender: Side,
        start: Instant,
        before: Duration,
        end: Instant,
    ) -> io::Result<Self> {
        let Dialled { drone, station, listener } = ends;
        let (sending, receiving) = match sender {
            Side::Station => (station, drone),
            Side::Drone => (drone, station),
        };
        let delivered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&delivered);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let receiver =
            spawn("receive flight").spawn(move || receive(receiving, start, end, &count))?;
        let from = start - before;
        let sender = spawn("send flight").spawn(move || send(sending, from, end))?;
        Ok(Self { sender, receiver, delivered, _listener: listener })
    }

    /// Returns how many bytes have been read so far.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits for the end of the flight; returns when, in seconds of it, how many bytes were read.
    ///
    /// # Errors
    /// When the connection broke.
    pub(super) fn finish(self) -> io::Result<Vec<(f64, u64)>> {
        let sent = join(self.sender);
        let delivered = join(self.receiver)?;
        sent.map(|()| delivered)
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Writes without pause.
fn send(mut stream: TcpStream, from: Instant, end: Instant) -> io::Result<()> {
    prefer_realtime(PRIORITY);
    let bytes = vec![0; CHUNK];
    stream.set_write_timeout(Some(LOOK.into()))?;
    reset_on_close(&stream)?;
    // An interruption is noticed below.
    let _ = sleep_until(from);
    while now() < end && !is_asked() {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            // The receiver has read to the end and is gone.
            Err(_) if now() >= end => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Notes what is read until the flight is over.
fn receive(
    mut stream: TcpStream,
    start: Instant,
    end: Instant,
    count: &AtomicU64,
) -> io::Result<Vec<(f64, u64)>> {
    prefer_realtime(PRIORITY);
    let mut delivered = Vec::new();
    let mut bytes = vec![0; 1 << 18];
    stream.set_read_timeout(Some(LOOK.into()))?;
    while now() < end && !is_asked() {
        let length = match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => length as u64,
            Err(error) if is_passing(&error) => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && now() >= end => break,
            Err(error) => return Err(error),
        };
        count.fetch_add(length, Ordering::Relaxed);
        let at = now();
        if at >= start {
            delivered.push((at.since(start).as_secs_f64(), length));
        }
    }
    Ok(delivered)
}

/// Tells whether a socket only has nothing now.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    // A time-out of the kernel's own is the end of the connection, and has a number of its own.
    matches!(error.kind(), Interrupted | WouldBlock)
        || error.kind() == TimedOut && error.raw_os_error().is_none()
}
