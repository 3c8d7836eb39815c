//! Plays a workload in real time through several schemes at once, and keeps their ledgers.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use netem::Scenario;
use serde_json::Value;
use sys::clock::now;
use units::{Duration, Instant};

use super::figures::Tally;
use super::ledger::{Ledger, StreamRun};
use super::player::{Receiver, Sender, SharedLedgers, locked};
use super::workload::Workload;
use crate::scheme::Scheme;
use crate::testbed::WireBytes;
use crate::testbed::carrier::Carrier;
use crate::testbed::daemon::Daemons;
use crate::testbed::greeting::greet;
use crate::testbed::interruption::sleep_until;
use crate::testbed::links::{Side, Testbed};
use crate::testbed::{Direction, Programs, Recording, Stream};
use emulator::{Audit, Stalls};
use sys::print::tell;

/// Until the scenario and the workload begin: time for round trips on the idle links.
const LEAD_IN: Duration = Duration::from_secs(1);
/// How long deliveries are awaited after the last packet was sent: a kernel may recover late.
const DRAIN: Duration = Duration::from_secs(5);
/// How often progress is shown.
const SHOW: Duration = Duration::from_millis(500);

/// Shows how the schemes of a run fare while it runs: elapsed seconds, and a count of each
/// direction's control messages so far.
pub(crate) type Progress<'a> = dyn FnMut(f64, &[(Scheme, [Tally; 2])]) + 'a;

/// What a workload is run over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'a> {
    pub(crate) scenario: &'a Scenario,
    /// The price of a byte on each link; without prices all cost the same.
    pub(crate) costs: &'a [f64],
    /// Where daemons keep their flight records; without they keep none.
    pub(crate) records: Option<&'a Path>,
}

impl<'a> Links<'a> {
    /// Takes links that cost the same, and keeps no records.
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        Self { scenario, costs: &[], records: None }
    }
}

/// Runs a workload through every scheme at once, each over links of its own.
///
/// The scenario's times count from the start of the workload. `resolution` is what the run
/// claims to measure, for the emulator's audit.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_streams(
    links: Links<'_>,
    schemes: &[Scheme],
    (workload, recording): (&Workload, &Recording),
    seed: u64,
    resolution: Duration,
    progress: &mut Progress<'_>,
) -> Result<(Vec<(Scheme, StreamRun)>, Audit), String> {
    let recording = Arc::new(recording.clone());
    let mut testbed = Testbed::start(links.scenario, schemes.len(), seed, resolution)?;
    testbed.set_costs(links.costs);
    testbed.set_records(links.records)?;
    let streams = streams(workload);
    let (mut carriers, mut connected) = (Vec::new(), Vec::new());
    for (number, scheme) in schemes.iter().enumerate() {
        tell(format_args!("starting {scheme}"));
        let copy = testbed.copy(number);
        let describe = |error| format!("{scheme}: {error}");
        let started = now();
        let mut carrier = Carrier::start(*scheme, &copy, &streams).map_err(describe)?;
        connected.push(greet(&mut carrier, &recording).map_err(describe)?.since(started));
        carrier.await_paths(*scheme, &copy).map_err(describe)?;
        carriers.push(carrier);
    }
    let start = testbed.begin(LEAD_IN);
    let stop = Arc::new(AtomicBool::new(false));
    let mut plays = Vec::new();
    for (scheme, carrier) in schemes.iter().zip(carriers) {
        plays.push(Play::start(*scheme, carrier, workload, &recording, start, &stop)?);
    }
    sleep_until(start)?;
    let count = |testbed: &Testbed| (0..schemes.len()).map(|copy| testbed.wire(copy)).collect();
    let entered =
        |testbed: &Testbed| (0..schemes.len()).map(|copy| testbed.entered(copy)).collect();
    let before: Vec<[WireBytes; 2]> = count(&testbed);
    let before_by_link: Vec<Vec<u64>> = entered(&testbed);
    let end = start + Duration::from_secs_f64(workload.seconds);
    while now() < end {
        sleep_until(end.min(now() + SHOW))?;
        show(&mut plays, now().since(start).as_secs_f64(), progress)?;
    }
    let after: Vec<[WireBytes; 2]> = count(&testbed);
    let after_by_link: Vec<Vec<u64>> = entered(&testbed);
    sleep_until(end + DRAIN)?;
    stop.store(true, Ordering::Relaxed);
    // While there are links: without them every path is silent.
    let statuses: Vec<_> = plays.iter().map(Play::status).collect();
    let audit = testbed.finish();
    let stalls = Arc::new(audit.stalls.clone());
    let wires = after.iter().zip(before).map(|(after, before)| {
        core::array::from_fn(|direction| after[direction].since(before[direction]))
    });
    let by_link = after_by_link.iter().zip(before_by_link).map(|(after, before)| {
        after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<u64>>()
    });
    let counts = wires.zip(by_link).zip(connected.into_iter().zip(statuses));
    let runs = plays.into_iter().zip(counts).map(|(play, ((wire, by_link), (took, status)))| {
        let (scheme, run) = play.finish(wire, Arc::clone(&stalls));
        (scheme, StreamRun { by_link, connected: Some(took), status, ..run })
    });
    Ok((runs.collect(), audit))
}

/// Returns the streams that a workload has.
fn streams(workload: &Workload) -> Vec<Stream> {
    let present = |stream: &Stream| match stream {
        Stream::Control => workload.control_hz > 0.0,
        Stream::Live => workload.live_hz > 0.0,
        Stream::Mavlink => workload.recording,
        Stream::Video => workload.video_mbps > 0.0,
        Stream::Datagrams | Stream::Messages | Stream::Ping | Stream::Telemetry => false,
    };
    let of_flow = |stream: &Stream| workload.flows.iter().any(|flow| flow.kind == *stream);
    Stream::ALL.into_iter().filter(|stream| present(stream) || of_flow(stream)).collect()
}

/// One scheme while it is running.
pub(crate) struct Play {
    scheme: Scheme,
    ledgers: SharedLedgers,
    threads: Vec<JoinHandle<()>>,
    daemons: Option<Daemons>,
    programs: Programs,
    /// Kept open for sub-flows that join again after an outage.
    _listeners: Vec<TcpListener>,
}

impl Play {
    /// Starts the applications of a scheme.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(crate) fn start(
        scheme: Scheme,
        carrier: Carrier,
        workload: &Workload,
        recording: &Arc<Recording>,
        start: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let plans = Direction::BOTH.map(|direction| workload.plan(direction, recording));
        let ledgers: SharedLedgers = Arc::new(Direction::BOTH.map(|direction| {
            Mutex::new(Ledger::new(&plans[direction as usize], direction, recording))
        }));
        let describe = |error: std::io::Error| format!("{scheme}: start a thread: {error}");
        let mut threads = Vec::new();
        let mut outlets: BTreeMap<Side, BTreeMap<Stream, _>> = BTreeMap::new();
        for ((side, stream), (outlet, inlet)) in carrier.channels {
            outlets.entry(side).or_default().insert(stream, outlet);
            let direction = side.other().sends();
            let (ledgers, stop) = (Arc::clone(&ledgers), Arc::clone(stop));
            let receiver = Receiver { direction, inlet, ledgers, start, stop };
            threads.push(receiver.spawn().map_err(describe)?);
        }
        for ((side, outlets), plan) in outlets.into_iter().zip(plans) {
            let direction = side.sends();
            let (ledgers, recording) = (Arc::clone(&ledgers), Arc::clone(recording));
            let sender = Sender { direction, plan, outlets, ledgers, recording, start };
            threads.push(sender.spawn().map_err(describe)?);
        }
        Ok(Self {
            scheme,
            ledgers,
            threads,
            daemons: carrier.daemons,
            programs: carrier.programs,
            _listeners: carrier.listeners,
        })
    }

    /// Notes it with somebody's own scheme where a program of it has failed.
    pub(crate) fn note_failed(&mut self) {
        self.programs.note_failed();
    }

    /// Says so when a daemon has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let Some(daemons) = &mut self.daemons else { return Ok(()) };
        daemons.check().map_err(|error| format!("{}: {error}", self.scheme))
    }

    /// Returns the daemons that carry it, where any do.
    pub(crate) fn daemons(&self) -> Option<&Daemons> {
        self.daemons.as_ref()
    }

    /// Returns the processor time so far of the programs that carry it, at both ends; none where
    /// the kernel alone does.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        match &self.daemons {
            Some(daemons) => daemons.processor_time(),
            None => self.programs.processor_time(),
        }
    }

    /// Returns what the daemons say of themselves, where there are any.
    fn status(&self) -> Option<[Value; 2]> {
        let daemons = self.daemons.as_ref()?;
        let [up, down] = [Side::Station, Side::Drone].map(|side| daemons.status(side).ok());
        Some([up?, down?])
    }

    /// Ends the applications and hands the ledgers over.
    pub(crate) fn finish(self, wire: [WireBytes; 2], stalls: Arc<Stalls>) -> (Scheme, StreamRun) {
        let status = self.status();
        drop(self.daemons);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let ledgers = Direction::BOTH.map(|direction| {
            self.ledgers[direction as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        (
            self.scheme,
            StreamRun {
                ledgers,
                wire,
                by_link: Vec::new(),
                stalls: Some(stalls),
                status,
                connected: None,
            },
        )
    }

    /// Counts what became of the control messages so far.
    fn tallies(&self) -> [Tally; 2] {
        Direction::BOTH.map(|direction| {
            let ledger = locked(&self.ledgers, direction);
            Tally::of(ledger.stream(Stream::Control), ledger.stream(Stream::Video))
        })
    }
}

/// Shows progress and notices daemons that ended.
fn show(plays: &mut [Play], seconds: f64, progress: &mut Progress<'_>) -> Result<(), String> {
    let mut tallies = Vec::new();
    for play in plays {
        play.check()?;
        play.note_failed();
        tallies.push((play.scheme, play.tallies()));
    }
    progress(seconds, &tallies);
    Ok(())
}
