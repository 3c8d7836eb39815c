//! Flows that fill one link in real time: message streams of sessions of their own, and TCP.
//!
//! ```text
//! drone's applications, each as fast as it is let ─→ daemon or kernel ─→ one link ─→ station's
//! ```
//! Every message stream has a pair of daemons to itself: what they share is the link alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use netem::Scenario;
use sys::clock::now;
use units::{Duration, Instant};

use super::channel::{Inlet, Outlet};
use super::interruption::{self, sleep_until};
use super::message_carrier::MessageCarrier;
use super::tcp_flow::{FlowPlan, RunningFlow, TcpFlow};
use super::testbed::{Side, Testbed};
use crate::emulate::Audit;
use crate::scheme::Scheme;

/// Port of the TCP flows' receivers.
const PORT: u16 = 5_800;
/// Bytes of a message: several symbols, and many messages a second.
const MESSAGE_BYTES: usize = 8_000;
/// From the beginning of the links' time to that of the flows.
const LEAD_IN: Duration = Duration::from_millis(200);
/// How long the emulator may be late without moving a goodput of seconds.
const RESOLUTION: Duration = Duration::from_millis(10);

/// Names a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Messages that are written without pause.
    Messages,
    /// TCP with this congestion control.
    Tcp(&'static str),
}

/// Is what came of one flow.
#[derive(Clone, Debug)]
pub(crate) struct ShareRun {
    pub(crate) flow: Flow,
    /// Payload that the receiving application got in each whole second, Mbit/s.
    pub(crate) goodput_mbps: Vec<f64>,
}

enum Running {
    Messages { carrier: MessageCarrier, threads: Vec<JoinHandle<Vec<u64>>> },
    Tcp(RunningFlow),
}

/// Lets the flows begin at the same time on the scenario's links and run for some seconds.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_share(
    scenario: &Scenario,
    flows: &[Flow],
    seconds: u64,
    seed: u64,
) -> Result<(Vec<ShareRun>, Audit), String> {
    let mut testbed = Testbed::start(scenario, 1, seed, RESOLUTION)?;
    let mut carriers = Vec::new();
    for (number, flow) in flows.iter().enumerate().filter(|(_, flow)| **flow == Flow::Messages) {
        let copy = testbed.copy(0);
        let carrier = MessageCarrier::through_daemons(Scheme::Fulmar, &copy, "", number as u16);
        let mut carrier = carrier.map_err(|error| format!("{flow:?}: {error}"))?;
        carrier.settle()?;
        carriers.push(carrier);
    }
    let mut connected = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let Flow::Tcp(congestion) = flow else { continue };
        let copy = testbed.copy(0);
        let plan = FlowPlan {
            from: copy.host(Side::Drone),
            to: copy.host(Side::Station),
            address: copy.address(Side::Station, 0)?,
            port: PORT + number as u16,
            congestion: (*congestion).to_owned(),
            start: Duration::ZERO,
            duration: Duration::from_secs(seconds),
            offered: None,
            sample_every: Duration::from_secs(1),
        };
        connected.push(TcpFlow::connect(copy.emulation(), &plan)?);
    }
    testbed.begin();
    let (start, stop) = (now() + LEAD_IN, Arc::new(AtomicBool::new(false)));
    let (mut carriers, mut connected) = (carriers.into_iter(), connected.into_iter());
    let mut running = Vec::new();
    for flow in flows {
        let begun = match flow {
            Flow::Messages => carriers.next().map(|carrier| fill(carrier, start, seconds, &stop)),
            Flow::Tcp(_) => connected.next().map(|flow| flow.begin(start).map(Running::Tcp)),
        };
        running.extend(begun.transpose()?);
    }
    sleep_until(start + Duration::from_secs(seconds))?;
    stop.store(true, Ordering::Relaxed);
    let runs: Result<Vec<ShareRun>, String> = flows
        .iter()
        .zip(running)
        .map(|(flow, running)| Ok(ShareRun { flow: *flow, goodput_mbps: running.finish()? }))
        .collect();
    Ok((runs?, testbed.finish()))
}

impl Running {
    fn finish(self) -> Result<Vec<f64>, String> {
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
