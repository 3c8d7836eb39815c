//! A node while it records: one thread that broadcasts, one that listens, one that follows where
//! the node is.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use proto::select::MavlinkFrames;
use sys::clock::now;
use sys::print::tell;
use sys::udp::ReceiveBuffers;
use units::{Duration, Instant};

use super::ears::Ears;
use super::edges::Edges;
use super::frame::Frame;
use super::log::{Entry, LogFile, Position};
use super::radio::{self, Radio};
use super::turns::Turns;

/// How long a thread waits before it looks whether it is to end.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// How long at most before a full queue is tried again; short slots have it shorter.
const AGAIN: Duration = Duration::from_millis(1);
/// How many transmitters are told by name.
const TOLD: usize = 8;
/// A position older than this is not known any more.
const POSITION_AGE: Duration = Duration::from_secs(3);

/// What the threads of a node share.
pub(super) struct Node<'a> {
    name: &'a str,
    slot_ns: u64,
    radio: Mutex<Arc<Radio>>,
    ahead: u64,
    state: Mutex<State>,
    over: AtomicBool,
}

/// What has happened so far.
struct State {
    log: LogFile,
    ears: Ears,
    sent: u64,
    overslept: u64,
    refused: u64,
    refused_why: Option<String>,
    position: Option<(Instant, Position)>,
    /// Frames sent and heard when progress was last told.
    told: (u64, BTreeMap<String, u64>),
}

/// A transmitter since its start, or since its clock was set.
struct Begun {
    boot: u64,
    edges: Edges,
    turns: Turns,
}

impl<'a> Node<'a> {
    pub(super) fn new(name: &'a str, slot_ns: u64, radio: Radio, log: LogFile) -> Self {
        let state = State {
            log,
            ears: Ears::new(name, 0, slot_ns),
            sent: 0,
            overslept: 0,
            refused: 0,
            refused_why: None,
            position: None,
            told: (0, BTreeMap::new()),
        };
        let (ahead, radio) = (radio.ahead, Mutex::new(Arc::new(radio)));
        let (state, over) = (Mutex::new(state), AtomicBool::new(false));
        Self { name, slot_ns, radio, ahead, state, over }
    }

    /// Broadcasts one frame in each slot, or so many slots ahead of it as is asked for, as early as
    /// the machine lets us.
    pub(super) fn send(&self) {
        let mut begun = self.begin();
        while !self.is_over() {
            let edges = begun.edges;
            let wait = edges.begin(begun.turns.due()).since(now());
            if !wait.is_zero() {
                thread::sleep(wait.min(PATIENCE).into());
                continue;
            }
            if let Some(step) = edges.set_by() {
                let step = step.as_secs_f64();
                tell(format_args!("the clock was set by {step:.3} s: slots are numbered anew"));
                begun = self.begin();
                continue;
            }
            let (at, into) = edges.place(now());
            let missed = begun.turns.miss(at, into);
            if missed > 0 {
                let mut state = self.state();
                // Who has not begun has missed nothing.
                let has_begun = state.sent + state.refused > 0;
                state.overslept += if has_begun { missed } else { 0 };
                continue;
            }
            let slot = begun.turns.next();
            let (sender, boot, slot_ns) = (self.name.to_owned(), begun.boot, self.slot_ns);
            let frame = Frame { sender, boot, slot, slot_ns };
            match self.broadcast(&frame.to_bytes()) {
                Ok(()) => {
                    begun.turns.sent();
                    let mut state = self.state();
                    state.sent += 1;
                    state.write(self.name, true, &frame, edges.wall(now()));
                }
                // The interface's queue is full, or it is down for a moment.
                Err(error) => {
                    begun.turns.refused();
                    self.state().refuse(&error);
                }
            }
        }
    }

    /// Writes down what is heard.
    pub(super) fn listen(&self) {
        let mut buffers = ReceiveBuffers::default();
        while !self.is_over() {
            let radio = self.radio();
            let waited = radio.socket.wait(PATIENCE);
            match waited.and_then(|waits| Ok(waits && radio.socket.receive(&mut buffers)?)) {
                Ok(true) => buffers.for_each(|_, bytes| self.hear(bytes)),
                Ok(false) => {}
                Err(error) => rest(&error),
            }
        }
    }

    /// Follows where the node is.
    pub(super) fn follow(&self, mavlink: &UdpSocket) {
        let mut bytes = [0; 2_048];
        while !self.is_over() {
            let length = match mavlink.recv(&mut bytes) {
                Ok(length) => length,
                Err(error) => {
                    rest(&error);
                    continue;
                }
            };
            for frame in MavlinkFrames::new(&bytes[..length]) {
                if let Some(at) = record::tlog::position(0, frame.bytes) {
                    let (latitude, longitude, altitude) = (at.latitude, at.longitude, at.altitude);
                    let position = Position { latitude, longitude, altitude };
                    self.state().position = Some((now(), position));
                }
            }
        }
    }

    /// Puts on the disk what was written, and opens the radio again where it was plugged out and
    /// in.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub(super) fn every_second(&self) -> Result<(), String> {
        let file = {
            let mut state = self.state();
            state.log.flush();
            state.log.check()?;
            state.log.to_sync()
        };
        // Not under the lock: a memory card takes its time.
        if let Some(file) = file {
            file.sync_data().map_err(|error| format!("write the log: {error}"))?;
        }
        let radio = self.radio();
        match radio::opened_again(&radio) {
            Ok(None) => {}
            Ok(Some(opened)) => {
                tell(format_args!("{} is back", opened.interface));
                *self.radio.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(opened);
            }
            Err(error) => tell(error),
        }
        Ok(())
    }

    /// Says what was sent and heard since this was last said.
    pub(super) fn progress(&self, since_start: Duration) {
        let mut state = self.state();
        let so_far = (state.sent, state.ears.heard().clone());
        let (sent, heard) = std::mem::replace(&mut state.told, so_far);
        let mut parts = vec![format!("sent {}", state.sent - sent)];
        let news =
            |(name, n): (&String, &u64)| (name.clone(), n - heard.get(name).copied().unwrap_or(0));
        let news = state.ears.heard().iter().map(news).filter(|(_, n)| *n > 0).collect();
        parts.push(format!("heard {}", most(news)));
        if state.refused > 0 {
            parts.push(format!("{} refused by the interface so far", state.refused));
        }
        let at = state.position.filter(|(at, _)| now().since(*at) < POSITION_AGE);
        if let Some((_, at)) = at {
            parts.push(format!("at {:.5} {:.5}, {:.0} m", at.latitude, at.longitude, at.altitude));
        }
        drop(state);
        tell(format_args!("{:>5.0} s: {}", since_start.as_secs_f64(), parts.join("; ")));
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Closes the log and says what is in it and what is not.
    ///
    /// # Errors
    /// When the log could not be written.
    pub(super) fn finish(self, path: &Path) -> Result<(), String> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.log.flush();
        state.log.check()?;
        let synced = state.log.to_sync().map_or(Ok(()), |file| file.sync_data());
        synced.map_err(|error| format!("write {}: {error}", path.display()))?;
        let heard = state.ears.heard().iter().map(|(name, n)| (name.clone(), *n)).collect();
        let heard = most(heard);
        tell(format_args!("{}: sent {}; heard {heard}", path.display(), state.sent));
        if state.overslept > 0 {
            let slots = state.overslept;
            tell(format_args!("nothing was sent in {slots} slots, which this machine overslept"));
        }
        if let Some(why) = &state.refused_why {
            tell(format_args!("the interface refused {} frames, first with: {why}", state.refused));
        }
        for (reason, n) in state.ears.refused() {
            tell(format_args!("not written: {n} datagrams {}", reason.text()));
        }
        Ok(())
    }

    /// Hands a frame to the interface, which may take some time while its queue is full.
    fn broadcast(&self, bytes: &[u8]) -> io::Result<()> {
        let until = now() + PATIENCE;
        while !self.radio().socket.send(bytes)? {
            if now() > until {
                return Err(io::Error::other("its queue is full: it is slower than the slots"));
            }
            thread::sleep(Duration::from_nanos(self.slot_ns / 8).min(AGAIN).into());
        }
        Ok(())
    }

    fn hear(&self, bytes: &[u8]) {
        let mut state = self.state();
        match state.ears.hear(now(), bytes) {
            Ok(frame) => state.write(self.name, false, &frame, sys::wall_clock::realtime_nanos()),
            Err(Some(problem)) => tell(problem),
            Err(None) => {}
        }
    }

    /// Begins to transmit, or begins anew: under another number, for receivers to tell.
    fn begin(&self) -> Begun {
        let (boot, edges) = (boot_number(), Edges::new(self.slot_ns));
        self.state().ears.restarted(boot);
        let turns = Turns::after(edges.place(now()).0, self.slot_ns, self.ahead);
        Begun { boot, edges, turns }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn radio(&self) -> Arc<Radio> {
        Arc::clone(&self.radio.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn write(&mut self, node: &str, sent: bool, frame: &Frame, time_ns: u64) {
        let position = self.position.filter(|(at, _)| now().since(*at) < POSITION_AGE);
        let entry = Entry {
            time_ns,
            sent,
            node,
            sender: &frame.sender,
            slot: frame.slot,
            slot_ns: frame.slot_ns,
            position: position.map(|(_, position)| position),
        };
        self.log.line(&entry.to_line());
    }

    fn refuse(&mut self, error: &io::Error) {
        self.refused += 1;
        self.refused_why.get_or_insert_with(|| error.to_string());
    }
}

/// Says how many frames were heard of each transmitter: of a few that were heard most, as strangers
/// may make up many.
fn most(mut heard: Vec<(String, u64)>) -> String {
    heard.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), name.clone()));
    let rest = heard.split_off(heard.len().min(TOLD));
    let mut parts: Vec<String> = heard.iter().map(|(name, n)| format!("{n} of {name}")).collect();
    if !rest.is_empty() {
        let frames: u64 = rest.iter().map(|(_, n)| n).sum();
        parts.push(format!("{frames} of {} others", rest.len()));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Waits after an error that would come again at once.
fn rest(error: &io::Error) {
    if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
    {
        thread::sleep(PATIENCE.into());
    }
}

/// Returns a number that tells this start from others: random, or of the clock where there is no
/// randomness.
fn boot_number() -> u64 {
    let Ok(seed) = sys::entropy::seed() else { return sys::wall_clock::realtime_nanos() };
    seed.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
