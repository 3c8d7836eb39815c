//! Flows that fill one link in real time: message streams of sessions of their own, and TCP.
//!
//! ```text
//! station's applications, each as fast as it is let ─→ daemon or kernel ─→ one link ─→ drone's
//! ```
//! Every message stream has a pair of daemons to itself, so that streams share the link and nothing
//! else. Several such links run at the same time, each with hosts of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use netem::Scenario;
use sys::clock::now;
use sys::realtime::prefer_realtime;
use units::{Duration, Instant};

use crate::experiment::messages::carrier::MessageCarrier;
use crate::scheme::Scheme;
use crate::testbed::channel::{Inlet, Outlet};
use crate::testbed::interruption;
use crate::testbed::interruption::sleep_until;
use crate::testbed::links::{Copy, Side, Testbed};
use crate::testbed::tcp_flow::{FlowPlan, RunningFlow, TcpFlow};
use emulator::{Audit, Claim};

/// Port of the TCP flows' receivers.
const PORT: u16 = 5_800;
/// Bytes of a message: several symbols, and many messages a second.
const MESSAGE_BYTES: usize = 8_000;
/// From the beginning of the links' time to that of the flows.
const LEAD_IN: Duration = Duration::from_millis(200);
/// The applications, below the emulator and the daemons: what is measured is the transport.
const PRIORITY: i32 = 5;
/// A goodput of seconds is moved by neither; a queue of 25 ms, by more than 5 ms.
const CLAIM: Claim = Claim {
    extremes: Duration::from_secs(10),
    ..Claim::of_realtime_programs(Duration::from_millis(50))
};

/// Names a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Messages that are written without pause.
    Messages,
    /// TCP with this congestion control.
    Tcp(&'static str),
}

/// Payload that a flow's receiving application got in each whole second, Mbit/s.
pub(crate) type Goodput = Vec<f64>;

/// A link and the flows on it, all from the station to the drone.
#[derive(Clone, Debug)]
pub(crate) struct ShareCell {
    /// One link between `station` and `drone`.
    pub(crate) scenario: Scenario,
    /// The flows that begin at the same time.
    pub(crate) flows: Vec<Flow>,
}

/// A flow that waits for its beginning.
enum Ready {
    Messages(MessageCarrier),
    Tcp(TcpFlow),
}

enum Running {
    Messages { carrier: MessageCarrier, threads: Vec<JoinHandle<Vec<u64>>> },
    Tcp(RunningFlow),
}

/// Lets the flows of all cells begin at the same time and run for some seconds; returns what came
/// of each cell's flows.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_share(
    cells: &[ShareCell],
    seconds: u64,
    seed: u64,
) -> Result<(Vec<Vec<Goodput>>, Audit), String> {
    let scenarios: Vec<Scenario> = cells.iter().map(|cell| cell.scenario.clone()).collect();
    let mut testbed = Testbed::start_each(&scenarios, seed, CLAIM)?;
    let mut ready = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let copy = testbed.copy(number);
        for (place, flow) in (0..).zip(&cell.flows) {
            let prepared = flow.prepare(&copy, place, seconds);
            ready.push(prepared.map_err(|error| format!("{flow:?}: {error}"))?);
        }
    }
    thread::scope(|scope| {
        let settle = |ready| match ready {
            &mut Ready::Messages(ref mut carrier) => Some(scope.spawn(|| carrier.settle())),
            Ready::Tcp(_) => None,
        };
        let settling: Vec<_> = ready.iter_mut().filter_map(settle).collect();
        let settled = settling
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        settled.collect::<Result<(), String>>()
    })?;
    let (start, stop) = (testbed.begin(LEAD_IN), Arc::new(AtomicBool::new(false)));
    let begin = |ready| match ready {
        Ready::Messages(carrier) => fill(carrier, start, seconds, &stop),
        Ready::Tcp(flow) => flow.begin(start).map(Running::Tcp),
    };
    let running: Vec<Running> = ready.into_iter().map(begin).collect::<Result<_, String>>()?;
    sleep_until(start + Duration::from_secs(seconds))?;
    stop.store(true, Ordering::Relaxed);
    let mut running = running.into_iter();
    let mut runs = Vec::new();
    for cell in cells {
        let of_cell = running.by_ref().take(cell.flows.len()).map(Running::finish);
        runs.push(of_cell.collect::<Result<Vec<Goodput>, String>>()?);
    }
    Ok((runs, testbed.finish()))
}

impl Flow {
    /// Sets up everything that the flow needs, as number `place` of its link.
    fn prepare(self, copy: &Copy<'_>, place: u16, seconds: u64) -> Result<Ready, String> {
        let Self::Tcp(congestion) = self else {
            let carrier = MessageCarrier::through_daemons(Scheme::FULMAR, copy, "", place)?;
            return Ok(Ready::Messages(carrier));
        };
        let plan = FlowPlan {
            from: copy.host(Side::Station),
            to: copy.host(Side::Drone),
            address: copy.address(Side::Drone, 0)?,
            port: PORT + place,
            congestion: congestion.to_owned(),
            start: Duration::ZERO,
            duration: Duration::from_secs(seconds),
            offered: None,
            sample_every: Duration::from_secs(1),
        };
        TcpFlow::connect(copy.emulation(), &plan).map(Ready::Tcp)
    }
}

impl Running {
    fn finish(self) -> Result<Goodput, String> {
        match self {
            Self::Tcp(flow) => Ok(flow.finish()?.goodput_mbps),
            Self::Messages { mut carrier, threads } => {
                carrier.check()?;
                // The writer waits for room until its daemon is gone.
                drop(carrier);
                let joined = threads.into_iter().map(JoinHandle::join);
                let ends = joined.map(|end| end.unwrap_or_else(|p| std::panic::resume_unwind(p)));
                let bytes: Vec<u64> = ends.flatten().collect();
                Ok(bytes.into_iter().map(|bytes| bytes as f64 * 8.0 / 1e6).collect())
            }
        }
    }
}

/// Starts the applications of a message stream.
fn fill(
    mut carrier: MessageCarrier,
    start: Instant,
    seconds: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Running, String> {
    let (outlet, inlet) = carrier.take_channel()?;
    let writer = {
        let stop = Arc::clone(stop);
        move || write(outlet, start, &stop)
    };
    let reader = {
        let stop = Arc::clone(stop);
        move || read(inlet, start, seconds, &stop)
    };
    let describe = |error: std::io::Error| format!("start a thread: {error}");
    let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
    let threads = vec![
        spawn("write messages").spawn(writer).map_err(describe)?,
        spawn("read messages").spawn(reader).map_err(describe)?,
    ];
    Ok(Running::Messages { carrier, threads })
}

/// Writes messages as fast as they are taken; counts nothing.
fn write(mut outlet: Outlet, start: Instant, stop: &AtomicBool) -> Vec<u64> {
    prefer_realtime(PRIORITY);
    // An interruption is noticed below.
    let _ = sleep_until(start);
    let message = vec![7; MESSAGE_BYTES];
    while !stop.load(Ordering::Relaxed) && !interruption::is_asked() && outlet.send(&message, false)
    {
    }
    Vec::new()
}

/// Counts the bytes of every second.
fn read(mut inlet: Inlet, start: Instant, seconds: u64, stop: &AtomicBool) -> Vec<u64> {
    prefer_realtime(PRIORITY);
    let mut per_second = vec![0; usize::try_from(seconds).unwrap_or(0)];
    while !stop.load(Ordering::Relaxed) {
        let result = inlet.receive(|bytes| {
            let second = now().since(start).as_secs();
            if let Some(sum) = per_second.get_mut(usize::try_from(second).unwrap_or(usize::MAX)) {
                *sum += bytes.len() as u64;
            }
        });
        if result.is_err() {
            break;
        }
    }
    per_second
}
