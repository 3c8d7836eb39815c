//! The applications of a run: threads that send by plan and threads that receive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use sys::clock::now;
use units::{Duration, Instant};

use super::ledger::Ledger;
use super::workload::{PlannedPacket, packet_bytes};
use crate::testbed::channel::{Inlet, Outlet};
use crate::testbed::{Direction, Recording, Stamp, Stream};

/// How often a sender that has nothing due gives its transports what waits for them.
const FLUSH: Duration = Duration::from_millis(5);

/// The ledgers of a run, in the order of [`Direction::BOTH`]; shared with whoever shows progress.
pub(super) type SharedLedgers = Arc<[Mutex<Ledger>; 2]>;

/// Locks a ledger; a thread that panicked over it has ended the run already.
pub(super) fn locked(
    ledgers: &SharedLedgers,
    direction: Direction,
) -> std::sync::MutexGuard<'_, Ledger> {
    ledgers[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a sending thread is given.
pub(super) struct Sender {
    pub(super) direction: Direction,
    pub(super) plan: Vec<PlannedPacket>,
    pub(super) outlets: BTreeMap<Stream, Outlet>,
    pub(super) ledgers: SharedLedgers,
    pub(super) recording: Arc<Recording>,
    /// When the plan's time is zero.
    pub(super) start: Instant,
}

impl Sender {
    /// Plays the plan on a thread of its own.
    pub(super) fn spawn(mut self) -> std::io::Result<JoinHandle<()>> {
        let name = format!("send {}", self.direction.name());
        thread::Builder::new().name(name).spawn(move || self.play())
    }

    fn play(&mut self) {
        let plan = core::mem::take(&mut self.plan);
        for packet in &plan {
            self.wait_until(self.start + packet.at);
            let at = now().since(self.start);
            let bytes = packet_bytes(packet, self.direction, &self.recording, at);
            let Some(outlet) = self.outlets.get_mut(&packet.stream) else { continue };
            // The ledger knows of the packet before anyone can receive it.
            locked(&self.ledgers, self.direction).on_sent(packet, at);
            if !outlet.send(&bytes, packet.stream == Stream::Video) {
                locked(&self.ledgers, self.direction).on_refused(packet, at);
            }
        }
    }

    /// Sleeps until a time, and keeps bytes flowing that a transport did not take at once.
    fn wait_until(&mut self, until: Instant) {
        loop {
            let left = until.since(now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(FLUSH).into());
            self.outlets.values_mut().for_each(|outlet| _ = outlet.flush());
        }
    }
}

/// What a receiving thread is given.
pub(super) struct Receiver {
    /// The direction of what it receives.
    pub(super) direction: Direction,
    pub(super) inlet: Inlet,
    pub(super) ledgers: SharedLedgers,
    pub(super) start: Instant,
    pub(super) stop: Arc<AtomicBool>,
}

impl Receiver {
    /// Receives on a thread of its own until told to stop, or the channel breaks.
    pub(super) fn spawn(mut self) -> std::io::Result<JoinHandle<()>> {
        let name = format!("receive {}", self.direction.name());
        thread::Builder::new().name(name).spawn(move || {
            while !self.stop.load(Ordering::Relaxed) {
                let (start, ledgers, direction) = (self.start, &self.ledgers, self.direction);
                let mut answers = Vec::new();
                let result = self.inlet.receive(|bytes| {
                    let at = now().since(start);
                    match Stamp::answer(bytes) {
                        Some(answer) => answers.push(answer),
                        None => locked(ledgers, Stamp::measured(bytes, direction))
                            .on_delivered(bytes, at),
                    }
                });
                for answer in answers {
                    self.inlet.answer(&answer);
                }
                if result.is_err() {
                    break;
                }
            }
        })
    }
}
