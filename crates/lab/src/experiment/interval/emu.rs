//! Control messages one at a time in real time: the twin of `sim`.
//!
//! The station's application sends; the drone's application receives and tells the sender at once,
//! within this program and outside the links, so that one direction is measured [ConClone §5.1].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use netem::Scenario;
use sys::clock::now;
use sys::netns::set_parameter;
use units::{Duration, Instant};

use super::plan::{IntervalPlan, IntervalRun, Turn};
use crate::scheme::Scheme;
use crate::testbed::carrier::Carrier;
use crate::testbed::channel::{Inlet, Outlet};
use crate::testbed::greeting::greet;
use crate::testbed::interruption;
use crate::testbed::links::{Copy, Side, Testbed};
use crate::testbed::{Recording, Stamp, Stream};
use emulator::Audit;
use sys::print::tell;

/// Bytes of a packet of bulk beside the messages.
const BULK_BYTES: usize = 1_200;
/// How often a scheme is started until it uses all its links.
const STARTS: u32 = 4;
/// How often is looked whether programs still run.
const LOOK: Duration = Duration::from_millis(200);
/// How long duplicates are awaited after the last message.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs each scheme's plan at the same time, each over links of its own.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_intervals(
    scenario: &Scenario,
    plans: &[(Scheme, IntervalPlan)],
    seed: u64,
    resolution: Duration,
) -> Result<(Vec<(Scheme, IntervalRun)>, Audit), String> {
    let recording = Recording::load()?;
    let mut testbed = Testbed::start(scenario, plans.len(), seed, resolution)?;
    let mut carriers = Vec::new();
    for (number, (scheme, plan)) in plans.iter().enumerate() {
        tell(format_args!("starting {scheme}"));
        let copy = testbed.copy(number);
        let describe = |error| format!("{scheme}: {error}");
        set_rto_min(&copy, plan.rto_min).map_err(describe)?;
        // Of the kernel's multipath connections 2 of 28 never joined their second link, where
        // links lose as much as here: these are made once more.
        let mut starts = 0;
        let carrier = loop {
            let mut carrier = Carrier::start(*scheme, &copy, &streams(plan)).map_err(describe)?;
            greet(&mut carrier, &recording).map_err(describe)?;
            starts += 1;
            match carrier.await_paths(*scheme, &copy) {
                Ok(()) => break carrier,
                Err(why) if starts == STARTS || interruption::is_asked() => {
                    return Err(describe(why));
                }
                Err(why) => tell(format_args!("{scheme}: {why}; once more")),
            }
        };
        carriers.push(carrier);
    }
    let zero = testbed.begin(Duration::ZERO);
    let mut players: Vec<(Scheme, JoinHandle<IntervalRun>)> = Vec::new();
    // Daemons run, and listeners wait for sub-flows, until the last message.
    let mut kept = Vec::new();
    for ((scheme, plan), mut carrier) in plans.iter().zip(carriers) {
        let mut take = |side| carrier.channels.remove(&(side, plan.contents.stream()));
        let (Some((outlet, _)), Some((_, inlet))) = (take(Side::Station), take(Side::Drone)) else {
            return Err(format!("{scheme}: no control channel"));
        };
        let bulk = Bulk::start(&mut carrier, plan.bulk_mbps)
            .map_err(|error| format!("{scheme}: {error}"))?;
        kept.push((bulk, carrier.daemons, carrier.programs, carrier.listeners));
        let (name, player) =
            (scheme.name(), Player::new(*scheme, plan.clone(), zero, (outlet, inlet)));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(|| player.play());
        players.push((*scheme, thread.map_err(|error| format!("start a thread: {error}"))?));
    }
    while players.iter().any(|(_, player)| !player.is_finished()) {
        kept.iter_mut().for_each(|(_, _, programs, _)| programs.note_failed());
        thread::sleep(LOOK.into());
    }
    let mut runs = Vec::new();
    for (scheme, player) in players {
        let run = player.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        runs.push((scheme, run));
    }
    interruption::check()?;
    let audit = testbed.finish();
    drop(kept);
    Ok((runs, audit))
}

/// Tells the kernels at both ends how short a timeout may be.
fn set_rto_min(copy: &Copy<'_>, rto_min: Option<Duration>) -> Result<(), String> {
    let Some(least) = rto_min else { return Ok(()) };
    for side in Side::BOTH {
        let text = least.as_micros().to_string();
        copy.enter(side, || set_parameter("net/ipv4/tcp_rto_min_us", &text))
            .map_err(|error| format!("{error} (--rto-min-ms needs Linux 6.11)"))?;
    }
    Ok(())
}

/// Returns the streams of a plan.
fn streams(plan: &IntervalPlan) -> Vec<Stream> {
    let bulk = (plan.bulk_mbps > 0.0).then_some(Stream::Video);
    core::iter::once(plan.contents.stream()).chain(bulk).collect()
}

/// Bulk beside the messages, from station to drone as they go; dropping it ends it.
struct Bulk {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Starts sending at a rate, and reading what comes; nothing where the rate is zero.
    fn start(carrier: &mut Carrier, mbps: f64) -> Result<Self, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut bulk = Self { stop: Arc::clone(&stop), threads: Vec::new() };
        let mut take = |side| carrier.channels.remove(&(side, Stream::Video));
        let (Some((mut outlet, _)), Some((_, mut inlet))) =
            (take(Side::Station), take(Side::Drone))
        else {
            return Ok(bulk);
        };
        let gap = Duration::from_secs_f64(BULK_BYTES as f64 * 8.0 / (mbps * 1e6));
        let stamp = Stamp { flow: 0, stream: Stream::Video, sequence: 0, sent: Duration::ZERO };
        let packet = stamp.packet(BULK_BYTES);
        let ended = Arc::clone(&stop);
        let send = move || {
            let mut due = now();
            while !ended.load(Ordering::Relaxed) && !interruption::is_asked() {
                due += gap;
                thread::sleep(due.since(now()).into());
                // What the transport does not take is lost, as a camera's would be.
                outlet.send(&packet, true);
            }
        };
        let receive =
            move || while !stop.load(Ordering::Relaxed) && inlet.receive(|_| {}).is_ok() {};
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let describe = |error| format!("start a thread: {error}");
        bulk.threads.push(named("send bulk").spawn(send).map_err(describe)?);
        bulk.threads.push(named("receive bulk").spawn(receive).map_err(describe)?);
        Ok(bulk)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// Both applications of one scheme.
///
/// One thread plays both: the receiver blocks on its socket while nothing is to be sent, and the
/// sender sleeps while nothing can arrive but duplicates.
struct Player {
    scheme: Scheme,
    plan: IntervalPlan,
    outlet: Outlet,
    inlet: Inlet,
    run: IntervalRun,
    delivered: Vec<bool>,
    /// The newest message that was sent.
    latest: u32,
    /// When the scenario's time was zero.
    zero: Instant,
    start: Instant,
    last: Instant,
}

impl Player {
    fn new(
        scheme: Scheme,
        plan: IntervalPlan,
        zero: Instant,
        (outlet, inlet): (Outlet, Inlet),
    ) -> Self {
        let delivered = vec![false; plan.messages as usize];
        let start = now();
        let run = IntervalRun::default();
        Self { scheme, plan, outlet, inlet, run, delivered, latest: 0, zero, start, last: start }
    }

    fn play(mut self) -> IntervalRun {
        self.start = now();
        self.last = self.start;
        let mut turn_over = self.start;
        for number in 0..self.plan.messages {
            if interruption::is_asked() || self.scheme.has_failed() {
                break;
            }
            let due = turn_over + self.plan.interval;
            // Late copies of earlier messages are read while waiting, or they would be taken for
            // answers to the next one.
            while now() + Duration::from_millis(120) < due {
                self.receive(None);
            }
            thread::sleep(due.since(now()).into());
            let sent = now();
            let message = self.plan.contents.message(number, sent.since(self.start));
            self.outlet.send(&message, false);
            while !self.delivered[number as usize]
                && now().since(sent) < self.plan.give_up
                && !interruption::is_asked()
                && !self.scheme.has_failed()
            {
                self.receive(Some(number));
                self.outlet.flush();
            }
            let (from, delivered) = (turn_over, self.delivered[number as usize]);
            turn_over = now();
            self.run.turns.push(Turn {
                from: from.since(self.zero),
                due: due.since(self.zero),
                delivered: delivered.then(|| self.last.since(self.zero)),
                until: turn_over.since(self.zero),
            });
            if number % 20 == 19 {
                let seconds = turn_over.since(self.start).as_secs_f64();
                tell(format_args!(
                    "{:>14}: {} messages in {seconds:.1} s",
                    self.scheme,
                    number + 1
                ));
            }
        }
        let end = now() + DRAIN;
        while now() < end {
            self.receive(None);
        }
        self.run.lost = u64::from(self.plan.messages) - self.run.intervals.len() as u64;
        self.run
    }

    /// Waits a little for messages; the one whose turn it is ends an interval.
    fn receive(&mut self, turn: Option<u32>) {
        let Self { inlet, run, delivered, start, last, plan, latest, .. } = self;
        *latest = turn.unwrap_or(*latest);
        // A channel that is broken delivers nothing more, which the figures will show.
        let _ = inlet.receive(|bytes| {
            let at = now();
            let Some(number) = plan.contents.number(bytes, *latest) else { return };
            match delivered.get_mut(number as usize) {
                Some(seen @ false) => *seen = true,
                _ => return run.duplicates += 1,
            }
            // One that was given up and comes after all counts as lost: its turn is over.
            if turn == Some(number) {
                run.intervals.push(at.since(*last).as_secs_f64());
                *last = at;
                run.completion_s = at.since(*start).as_secs_f64();
            }
        });
    }
}
