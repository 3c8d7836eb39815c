//! Messages at a constant interval in real time: how long each takes from submission to fetch.
//!
//! ```text
//! station's application ─ n · interval ─→ daemon or kernel ─→ links ─→ … ─→ drone's application
//! ```
//! The twin of the experiment in the world. All schemes of a loss run at the same time, each over
//! links of its own. Both applications are threads of this program and read one clock; the daemons'
//! clocks differ. A message is submitted when its turn comes: what the transport makes its writer
//! wait counts as delay, what the sending thread overslept does not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use sys::clock::now;
use sys::realtime::{prefer_realtime, set_timer_slack};
use units::{Duration, Instant};

use super::FIGURES;
use super::carrier::MessageCarrier;
use super::point::{LrtParameters, LrtRow, MessageLog};
use crate::doubt::add_errors;
use crate::scheme::Scheme;
use crate::testbed::channel::{Inlet, Outlet};
use crate::testbed::interruption;
use crate::testbed::interruption::sleep_until;
use crate::testbed::links::{Side, Testbed};
use crate::testbed::{Stamp, Stream};
use emulator::Failure;
use emulator::{Audit, Claim};
use sys::print::tell;

/// The audit passes where the emulator's error stays below a tenth of this.
const RESOLUTION: Duration = Duration::from_millis(10);
/// Until the scenario begins, and with it the first message.
const LEAD_IN: Duration = Duration::from_millis(200);
/// How long deliveries are awaited after the last message, while more of them come.
const QUIET: Duration = Duration::from_secs(10);
/// How long they are awaited at most: a transport that carries less than is submitted falls behind
/// without end. What has not come by then counts as not delivered.
const PATIENCE: Duration = Duration::from_secs(30);
/// Below the emulator and the daemons, which do the work.
const PRIORITY: i32 = 5;
/// How often to check whether everything has arrived.
const LOOK: Duration = Duration::from_millis(100);

type SharedLog = Arc<Mutex<MessageLog>>;

/// A row as it was seen, and its figures with their errors.
pub(crate) type RowInDoubt = (LrtRow, Value);

/// Runs every scheme at every loss with the first seed; returns the rows, and an audit per loss.
///
/// # Errors
/// Says which part of the set-up failed, or that a scheme exists in the world only.
pub(crate) fn run(parameters: &LrtParameters) -> Result<(Vec<RowInDoubt>, Vec<Audit>), Failure> {
    let (mut rows, mut audits) = (Vec::new(), Vec::new());
    for &loss in &parameters.losses {
        tell(format_args!("messages at {} % loss: {:?}", loss * 1e2, parameters.submitting()));
        let (logs, audit) = run_loss(parameters, loss)?;
        let row = |(scheme, log): (Scheme, MessageLog)| {
            let best = LrtRow::new(parameters, scheme, loss, &[log.at_best(&audit.stalls)]);
            let seen = LrtRow::new(parameters, scheme, loss, &[log]);
            let mut figures = json!(seen);
            add_errors(&mut figures, &json!(best), FIGURES);
            (seen, figures)
        };
        rows.extend(logs.into_iter().map(row));
        audits.push(audit);
    }
    Ok((rows, audits))
}

fn run_loss(
    parameters: &LrtParameters,
    loss: f64,
) -> Result<(Vec<(Scheme, MessageLog)>, Audit), String> {
    let (scenario, schemes) = (parameters.scenario(loss), &parameters.schemes);
    let scenarios = vec![scenario; schemes.len()];
    let claim = Claim::of_realtime_programs(RESOLUTION);
    let mut testbed = Testbed::start_each(&scenarios, parameters.seeds.0, claim)?;
    let mut carriers = Vec::new();
    for (number, scheme) in schemes.iter().enumerate() {
        let carrier = MessageCarrier::start(*scheme, &testbed.copy(number), parameters);
        carriers.push(carrier.map_err(|error| format!("{scheme}: {error}"))?);
    }
    for carrier in &mut carriers {
        carrier.settle()?;
    }
    let start = testbed.begin(LEAD_IN);
    let stop = Arc::new(AtomicBool::new(false));
    let mut plays = Vec::new();
    for carrier in carriers {
        plays.push(Play::start(carrier, parameters, start, &stop)?);
    }
    sleep_until(start + parameters.submitting())?;
    await_the_rest(&mut plays)?;
    stop.store(true, Ordering::Relaxed);
    // The counts of the links are a tenth of a second old.
    sleep_until(now() + LOOK * 2)?;
    let mut logs = Vec::new();
    for (number, play) in plays.into_iter().enumerate() {
        let (scheme, mut log) = play.finish();
        count_traffic(&mut log, &testbed, number, parameters.bytes);
        logs.push((scheme, log));
    }
    Ok((logs, testbed.finish()))
}

/// Counts as the world does: a packet of the sender with half a message's length or more carries a
/// symbol or a message.
fn count_traffic(log: &mut MessageLog, testbed: &Testbed, number: usize, bytes: usize) {
    for stats in testbed.sent_by(Side::Station, number) {
        log.sent += stats.packets_of_at_least(bytes / 2);
        log.sent_bytes += stats.bytes_in;
    }
    let back = testbed.sent_by(Side::Drone, number);
    log.returned = back.iter().map(|stats| stats.packets_in).sum();
}

/// Waits until everything has arrived, or nothing more comes.
fn await_the_rest(plays: &mut [Play]) -> Result<(), String> {
    let (mut before, mut since) = (0, now());
    let deadline = since + PATIENCE;
    loop {
        for play in &mut *plays {
            play.carrier.check()?;
        }
        let waits = |play: &&Play| play.carrier.is_reliable() && !locked(&play.log).is_complete();
        if plays.iter().filter(waits).count() == 0 {
            // Plain datagrams, and copies, that are still under way.
            return sleep_until(now() + LOOK * 10);
        }
        let fetched: usize = plays.iter().map(|play| locked(&play.log).fetched_count()).sum();
        if fetched > before {
            (before, since) = (fetched, now());
        }
        if now().since(since) > QUIET || now() > deadline {
            return Ok(());
        }
        sleep_until(now() + LOOK)?;
    }
}

/// One scheme while it runs.
struct Play {
    carrier: MessageCarrier,
    log: SharedLog,
    threads: Vec<JoinHandle<()>>,
}

impl Play {
    fn start(
        mut carrier: MessageCarrier,
        parameters: &LrtParameters,
        start: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let (outlet, inlet) = carrier.take_channel()?;
        let log = Arc::new(Mutex::new(MessageLog::new(parameters.messages)));
        let sender = {
            let (log, interval, bytes) = (Arc::clone(&log), parameters.interval, parameters.bytes);
            let (messages, stop) = (parameters.messages, Arc::clone(stop));
            let due = move |n| (n, interval * n);
            move || submit(outlet, &log, start, (0..messages).map(due), bytes, &stop)
        };
        let receiver = {
            let (log, stop) = (Arc::clone(&log), Arc::clone(stop));
            move || fetch(inlet, &log, start, &stop)
        };
        let threads = vec![spawn("submit", sender)?, spawn("fetch", receiver)?];
        Ok(Self { carrier, log, threads })
    }

    fn finish(self) -> (Scheme, MessageLog) {
        let scheme = self.carrier.scheme();
        drop(self.carrier);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let log = Arc::try_unwrap(self.log).map(Mutex::into_inner);
        let log = log.unwrap_or_else(|_| unreachable!("its threads have ended"));
        (scheme, log.unwrap_or_else(PoisonError::into_inner))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        wake_early();
        work();
    });
    thread.map_err(|error| format!("start a thread: {error}"))
}

/// What is measured is the transport: the applications, and the daemons, run before other programs
/// where they may.
fn wake_early() {
    let _ = set_timer_slack(Duration::from_nanos(1));
    prefer_realtime(PRIORITY);
}

/// Submits each message at its time.
fn submit(
    mut outlet: Outlet,
    log: &SharedLog,
    start: Instant,
    messages: impl Iterator<Item = (u32, Duration)>,
    bytes: usize,
    stop: &AtomicBool,
) {
    for (number, at) in messages {
        let due = start + at;
        let on_time = now() < due;
        while let left = due.since(now())
            && !left.is_zero()
        {
            thread::sleep(left.min(LOOK).into());
            outlet.flush();
        }
        if interruption::is_asked() {
            return;
        }
        let submitted = if on_time { now() } else { due };
        let sent = submitted.since(start);
        locked(log).on_submitted(number, sent);
        outlet.send(
            &Stamp { flow: 0, stream: Stream::Control, sequence: number, sent }.packet(bytes),
            false,
        );
    }
    // What a byte stream has not taken yet, while anybody waits for it.
    while outlet.flush() && !stop.load(Ordering::Relaxed) && !interruption::is_asked() {
        thread::sleep(Duration::from_millis(1).into());
    }
}

/// Fetches messages until told to stop, or the channel ends.
fn fetch(mut inlet: Inlet, log: &SharedLog, start: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let result = inlet.receive(|bytes| {
            let at = now().since(start);
            if let Some(stamp) = Stamp::read(bytes) {
                locked(log).on_fetched(stamp.sequence, at);
            }
        });
        if result.is_err() {
            return;
        }
    }
}

fn locked(log: &SharedLog) -> MutexGuard<'_, MessageLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
