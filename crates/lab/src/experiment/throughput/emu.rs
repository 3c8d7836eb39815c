//! One TCP connection as fast as it goes, from drone to station, through each scheme at once.
//!
//! Through a daemon's tunnel iperf3 makes it; over the kernel's own transports it is a plain
//! connection written without pause, because iperf3 cannot ask for multipath TCP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use netem::Scenario;
use serde_json::Value;
use sys::byte_stream::Transport;
use sys::clock::now;
use units::{Duration, Instant};

use crate::experiment::streams::emu::Play;
use crate::experiment::streams::ledger::StreamRun;
use crate::experiment::streams::workload::Workload;
use crate::scheme::{Carries, Scheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::channel::{Inlet, Outlet};
use crate::testbed::daemon::tunnel_address;
use crate::testbed::greeting::greet;
use crate::testbed::interruption::sleep_until;
use crate::testbed::kernel_stream::{Dialled, dial};
use crate::testbed::links::{Copy, Side, Testbed};
use crate::testbed::{Recording, Stream, WireBytes, wireguard};
use emulator::Audit;

/// Time at the beginning that does not count: TCP's start-up and what the session learns.
pub(super) const START_UP: Duration = Duration::from_secs(3);

/// Where the station awaits the flow in a tunnel of others.
const PORT: u16 = 5_900;

/// Describes the flow.
#[derive(Clone, Debug)]
pub(crate) struct BulkPlan {
    /// How long it is measured after its start-up.
    pub(crate) seconds: u64,
    /// Congestion control of the TCP connection inside the tunnel.
    pub(crate) congestion: String,
    /// Control messages beside it, from the start of its start-up on.
    pub(crate) control: Option<Workload>,
}

/// What came of one scheme's flow.
#[derive(Debug, Default)]
pub(crate) struct BulkRun {
    /// Payload that the receiving application got per second, Mbit/s.
    pub(crate) goodput_mbps: f64,
    /// Segments that TCP sent again; none where the kernel does not say.
    pub(crate) retransmits: Option<u64>,
    /// Bytes that entered the links while it was measured, over the payload delivered.
    pub(crate) wire_overhead: f64,
    /// What became of the control messages beside it.
    pub(crate) control: Option<StreamRun>,
}

/// Runs the flow through every scheme at once, each over links of its own.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_bulk(
    scenario: &Scenario,
    schemes: &[Scheme],
    plan: &BulkPlan,
    seed: u64,
    resolution: Duration,
) -> Result<(Vec<(Scheme, BulkRun)>, Audit), String> {
    let recording = Arc::new(Recording::load()?);
    let streams: &[Stream] = match plan.control {
        Some(_) => &[Stream::Video, Stream::Control],
        None => &[Stream::Video],
    };
    let mut testbed = Testbed::start(scenario, schemes.len(), seed, resolution)?;
    let mut carriers = Vec::new();
    for (number, scheme) in schemes.iter().enumerate() {
        let copy = testbed.copy(number);
        let describe = |error| format!("{scheme}: {error}");
        if let Scheme::Command(own) = scheme {
            own.ask_for_connections();
        }
        let mut carrier = Carrier::start(*scheme, &copy, streams).map_err(describe)?;
        greet(&mut carrier, &recording).map_err(describe)?;
        carrier.await_paths(*scheme, &copy).map_err(describe)?;
        carriers.push(carrier);
    }
    let start = testbed.begin(Duration::ZERO);
    let mut flows = Vec::new();
    for (number, (scheme, carrier)) in schemes.iter().zip(&mut carriers).enumerate() {
        let copy = testbed.copy(number);
        let flow = match (scheme, Flow::start(*scheme, carrier, &copy, plan)) {
            (Scheme::Command(own), Err(why)) => {
                own.fail(carrier.programs.with_last_words(why));
                Flow::None
            }
            (_, flow) => flow.map_err(|error| format!("{scheme}: {error}"))?,
        };
        flows.push(flow);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut beside = Vec::new();
    for (scheme, carrier) in schemes.iter().zip(carriers) {
        let control = plan.control.clone().unwrap_or_else(Workload::silent);
        beside.push(Play::start(*scheme, carrier, &control, &recording, start, &stop)?);
    }
    let wire = |testbed: &Testbed| -> Vec<u64> {
        (0..schemes.len()).map(|copy| testbed.wire_bytes(copy)).collect()
    };
    sleep_until(now() + START_UP)?;
    let before = wire(&testbed);
    sleep_until(now() + Duration::from_secs(plan.seconds))?;
    let after = wire(&testbed);
    beside.iter_mut().for_each(Play::note_failed);
    let mut runs = Vec::new();
    for ((scheme, flow), (after, before)) in schemes.iter().zip(flows).zip(after.iter().zip(before))
    {
        let mut run = flow.finish().map_err(|error| format!("{scheme}: {error}"))?;
        let payload = run.goodput_mbps * 1e6 / 8.0 * plan.seconds as f64;
        run.wire_overhead = (after - before) as f64 / payload.max(1.0);
        runs.push((*scheme, run));
    }
    stop.store(true, Ordering::Relaxed);
    let audit = testbed.finish();
    let stalls = Arc::new(audit.stalls.clone());
    for ((_, run), play) in runs.iter_mut().zip(beside) {
        let (_, control) = play.finish([WireBytes::default(); 2], Arc::clone(&stalls));
        run.control = plan.control.is_some().then_some(control);
    }
    Ok((runs, audit))
}

/// A flow under way.
enum Flow {
    /// Server and client of iperf3.
    Iperf(Child, Child),
    /// The receiving thread, which returns the bytes that counted, and the time that they took.
    Plain(JoinHandle<(u64, f64)>),
    /// Somebody's own scheme that has failed.
    None,
}

impl Flow {
    fn start(
        scheme: Scheme,
        carrier: &mut Carrier,
        copy: &Copy<'_>,
        plan: &BulkPlan,
    ) -> Result<Self, String> {
        if carrier.daemons.is_some() {
            return start_iperf(copy, plan);
        }
        match scheme {
            Scheme::Command(own) if own.has_failed() => return Ok(Self::None),
            Scheme::Command(own) if own.carries() == Carries::Tunnel => {
                let to = (wireguard::address(Side::Station), PORT).into();
                let Dialled { drone, station, .. } =
                    dial(copy, Transport::Tcp, &plan.congestion, to)?;
                return start_plain(drone, station, plan).map_err(|error| error.to_string());
            }
            _ => {}
        }
        let mut take = |side| carrier.channels.remove(&(side, Stream::Video));
        match (take(Side::Drone), take(Side::Station)) {
            (Some((Outlet::Stream(sending, _), _)), Some((_, Inlet::Stream(receiving, _)))) => {
                start_plain(sending, receiving, plan).map_err(|error| error.to_string())
            }
            _ => Err("what is sent is a TCP connection, which takes a byte stream or a tunnel"
                .to_owned()),
        }
    }

    fn finish(self) -> Result<BulkRun, String> {
        match self {
            Self::None => Ok(BulkRun::default()),
            Self::Iperf(mut server, client) => {
                let output = client.wait_with_output().map_err(|error| error.to_string())?;
                // It served one client and has ended; if not, it is not needed any more.
                let _ = server.kill();
                let _ = server.wait();
                read_iperf(&output.stdout)
            }
            Self::Plain(receiver) => {
                let joined = receiver.join();
                let (bytes, seconds) =
                    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let goodput_mbps = bytes as f64 * 8.0 / 1e6 / seconds;
                Ok(BulkRun { goodput_mbps, ..BulkRun::default() })
            }
        }
    }
}

/// Starts iperf3 at both ends of a tunnel.
fn start_iperf(copy: &Copy<'_>, plan: &BulkPlan) -> Result<Flow, String> {
    let station = tunnel_address(Side::Station).to_string();
    let spawn = |side: Side, arguments: &[&str]| {
        let mut command = Command::new("iperf3");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = copy.emulation().spawn(&copy.host(side), command);
        child.map_err(|error| format!("{error} (is the package iperf3 installed?)"))
    };
    let mut server = spawn(Side::Station, &["-s", "-1", "-B", &station])?;
    // It says nothing when it listens; a quarter of a second is ample on a working machine, and
    // the client fails loudly where it is not.
    thread::sleep(Duration::from_millis(250).into());
    let (seconds, start_up) = (plan.seconds.to_string(), START_UP.as_secs().to_string());
    let client = spawn(
        Side::Drone,
        &["-c", &station, "-t", &seconds, "-O", &start_up, "-C", &plan.congestion, "-J"],
    );
    match client {
        Ok(client) => Ok(Flow::Iperf(server, client)),
        Err(error) => {
            // Nobody will ever connect to it.
            let _ = server.kill();
            let _ = server.wait();
            Err(error)
        }
    }
}

/// Reads what iperf3's client reports.
fn read_iperf(output: &[u8]) -> Result<BulkRun, String> {
    let report: Value =
        serde_json::from_slice(output).map_err(|error| format!("iperf3 wrote no JSON: {error}"))?;
    if let Some(error) = report["error"].as_str() {
        return Err(format!("iperf3: {error}"));
    }
    let end = &report["end"];
    let goodput = end["sum_received"]["bits_per_second"].as_f64();
    let goodput = goodput.ok_or("iperf3 reports no goodput")?;
    let retransmits = end["sum_sent"]["retransmits"].as_u64();
    Ok(BulkRun { goodput_mbps: goodput / 1e6, retransmits, ..BulkRun::default() })
}

/// Writes without pause on one thread and counts on another.
fn start_plain(
    mut sending: TcpStream,
    mut receiving: TcpStream,
    plan: &BulkPlan,
) -> std::io::Result<Flow> {
    let measured = now() + START_UP;
    let end = measured + Duration::from_secs(plan.seconds);
    sending.set_write_timeout(Some(Duration::from_millis(200).into()))?;
    thread::Builder::new().name("send bulk".to_owned()).spawn(move || {
        let bytes = vec![0; 65_536];
        while now() < end {
            match sending.write(&bytes) {
                Err(error) if !is_timeout(&error) => break,
                _ => {}
            }
        }
    })?;
    let receiver = thread::Builder::new()
        .name("receive bulk".to_owned())
        .spawn(move || count(&mut receiving, measured, end))?;
    Ok(Flow::Plain(receiver))
}

/// Counts the bytes that come in between two times; returns them with the seconds between.
fn count(receiving: &mut TcpStream, from: Instant, to: Instant) -> (u64, f64) {
    let (mut buffer, mut bytes) = (vec![0; 1 << 18], 0);
    while now() < to {
        match receiving.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) if (from..to).contains(&now()) => bytes += len as u64,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => break,
        }
    }
    (bytes, to.since(from).as_secs_f64())
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf_reports_and_errors_are_read() {
        let text = br#"{"end": {"sum_sent": {"retransmits": 7},
                                "sum_received": {"bits_per_second": 9.5e6}}}"#;
        let run = read_iperf(text).expect("a sound report");
        assert_eq!((run.goodput_mbps, run.retransmits), (9.5, Some(7)));
        let error = read_iperf(br#"{"error": "unable to connect"}"#).expect_err("an error");
        assert!(error.contains("unable to connect"));
        assert!(read_iperf(b"").is_err());
    }
}
