//! `accuracy`: how well the emulator keeps a delay on this machine.
//!
//! This is not the audit, which is the emulator's opinion of itself: it measures from outside.
//! Probe datagrams cross emulated links of fixed delay; taps in both hosts read the kernel's stamps
//! of their leaving and of their arrival. The error is arrival − leaving − delay, whatever caused
//! it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use netem::{Delay, LinkModel, Scenario};
use serde_json::{Value, json};
use sys::clock::now;
use sys::isolate::{Privileges, isolate, isolate_as_user};
use sys::packet_ring::PacketRing;
use sys::realtime;

use crate::Failure;
use crate::audit::{Lateness, lateness_histogram, record};
use crate::{Claim, Emulation, Options};
use sys::print::{print, tell};
use units::Duration;

/// UDP port of the probes.
const PORT: u16 = 9;
/// What probes begin with, so that a tap knows them.
const MAGIC: &[u8; 8] = b"fulmar?!";
/// Bytes before the UDP payload of a frame: Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 14 + 20 + 8;
/// Magic, flow and sequence number.
const PROBE_MIN: usize = 8 + 4 + 8;
const TAP_FRAMES: usize = 65_536;
const TAP_INTERVAL: Duration = Duration::from_millis(20);
const HOSTS: [&str; 2] = ["a", "b"];

/// Says what to measure.
#[derive(Clone, Debug, Args)]
pub struct AccuracyArgs {
    /// Delay of the links, one way, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    delay_ms: u64,
    /// Packets per second of each flow.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Bytes of the IP packets.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(48..=1500))]
    bytes: u64,
    /// Links; each has a flow in one direction.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    links: u64,
    /// Send flows in both directions of each link.
    #[arg(long)]
    both_ways: bool,
    /// How long.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Measure what an ordinary user gets, in a user namespace, even as root.
    #[arg(long)]
    as_user: bool,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// One stream of probes.
#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u32,
    from: usize,
    source: Ipv4Addr,
    destination: Ipv4Addr,
}

/// When probes were seen by one tap, in wall-clock nanoseconds: (flow, sequence number).
type Stamps = BTreeMap<(u32, u64), u64>;

/// Measures and reports; the exit code says whether the emulator's audit is content.
///
/// Call it before the first thread starts.
///
/// # Errors
/// When the machine does not allow it.
pub fn run_accuracy(args: &AccuracyArgs) -> Result<ExitCode, Failure> {
    let isolated = if args.as_user { isolate_as_user() } else { isolate() };
    let privileges = isolated.map_err(|error| error.to_string())?;
    let report = measure(args, privileges).map_err(|error| error.to_string())?;
    if args.json {
        print(&report)?;
    }
    let valid = report["valid"] == true;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn measure(args: &AccuracyArgs, privileges: Privileges) -> io::Result<Value> {
    let delay = Duration::from_millis(args.delay_ms);
    let model = LinkModel { delay: Delay::Fixed(delay), ..LinkModel::default() };
    let mut scenario = Scenario::new("accuracy", args.seconds as f64);
    for link in 0..args.links {
        scenario = scenario.link(&format!("link{link}"), HOSTS[0], HOSTS[1], &model);
    }
    let options = Options { claim: Claim::to(Duration::from_millis(1)), ..Options::default() };
    let mut emulation = Emulation::start(&scenario, 1, &options)?;
    let flows = flows(args, &scenario);
    let stop = AtomicBool::new(false);
    let (sent, seen) = thread::scope(|scope| {
        let taps: Vec<_> = HOSTS
            .iter()
            .map(|host| {
                let tap = emulation.enter(host, || PacketRing::open_tap(TAP_FRAMES, 1_500))??;
                let stop = &stop;
                Ok(scope.spawn(move || watch(tap, stop)))
            })
            .collect::<io::Result<_>>()?;
        emulation.begin(Duration::ZERO);
        let sent = send_all(args, &emulation, &flows);
        // The last probes are still on their way.
        thread::sleep((delay + Duration::from_millis(200)).into());
        stop.store(true, Ordering::Relaxed);
        let seen = taps.into_iter().map(|tap| tap.join().expect("a tap does not panic"));
        Ok::<_, io::Error>((sent?, seen.collect::<Vec<_>>()))
    })?;
    let (audit, _) = emulation.finish();
    let (error, arrived) = compare(&flows, &seen, delay);
    tell(format_args!(
        "{} packets/s of {} bytes on {} flows over {} ms for {} s: {arrived} of {sent} arrived, \
         error p50 {} p99 {} max {} µs",
        args.rate * flows.len() as u64,
        args.bytes,
        flows.len(),
        args.delay_ms,
        args.seconds,
        error.p50_us,
        error.p99_us,
        error.max_us,
    ));
    tell(audit.summary());
    Ok(json!({
        "valid": audit.valid,
        "root": privileges == Privileges::Root,
        "rate": args.rate,
        "bytes": args.bytes,
        "flows": flows.len(),
        "sent": sent,
        "arrived": arrived,
        "error": error,
        "audit": audit,
    }))
}

fn flows(args: &AccuracyArgs, scenario: &Scenario) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (one, other) in scenario.interfaces(0).iter().zip(&scenario.interfaces(1)) {
        let ends = [one.address, other.address];
        for from in 0..=usize::from(args.both_ways) {
            let (number, source, destination) = (flows.len() as u32, ends[from], ends[1 - from]);
            flows.push(Flow { number, from, source, destination });
        }
    }
    flows
}

/// Sends all flows; returns how many probes left.
fn send_all(args: &AccuracyArgs, emulation: &Emulation, flows: &[Flow]) -> io::Result<u64> {
    thread::scope(|scope| {
        let mut senders = Vec::new();
        for flow in flows {
            let bind = |address, host| {
                emulation.enter(host, move || UdpSocket::bind(SocketAddrV4::new(address, PORT)))?
            };
            // The kernel answers a probe to a closed port; an open one keeps it quiet.
            let sink = bind(flow.destination, HOSTS[1 - flow.from]);
            let socket = bind(flow.source, HOSTS[flow.from]);
            let socket = match (socket, sink) {
                (Ok(socket), sink) => (socket, sink.ok()),
                (Err(error), _) => return Err(error),
            };
            senders.push(scope.spawn(move || send(args, flow, &socket.0)));
        }
        let sent =
            senders.into_iter().map(|sender| sender.join().expect("a sender does not panic"));
        sent.sum()
    })
}

fn send(args: &AccuracyArgs, flow: &Flow, socket: &UdpSocket) -> io::Result<u64> {
    let _ = realtime::set_timer_slack(Duration::from_nanos(1));
    let mut probe = vec![0; (args.bytes as usize - 28).max(PROBE_MIN)];
    probe[..8].copy_from_slice(MAGIC);
    probe[8..12].copy_from_slice(&flow.number.to_ne_bytes());
    let total = args.rate * args.seconds;
    let start = now();
    for sequence in 0..total {
        let due = start + Duration::from_nanos(sequence * 1_000_000_000 / args.rate);
        let wait = due.since(now());
        if !wait.is_zero() {
            thread::sleep(wait.into());
        }
        probe[12..20].copy_from_slice(&sequence.to_ne_bytes());
        socket.send_to(&probe, SocketAddrV4::new(flow.destination, PORT))?;
    }
    Ok(total)
}

/// Notes the kernel's stamps of probes until told to stop.
fn watch(mut tap: PacketRing, stop: &AtomicBool) -> Stamps {
    let mut stamps = Stamps::new();
    while !stop.load(Ordering::Relaxed) || tap.is_ready() {
        while let Some(seen) = tap.with_next(|frame| {
            let key = probe_key(frame.bytes)?;
            Some((key, frame.received_at_wall_nanos))
        }) {
            if let Some((key, at)) = seen {
                stamps.entry(key).or_insert(at);
            }
        }
        thread::sleep(TAP_INTERVAL.into());
    }
    stamps
}

fn probe_key(frame: &[u8]) -> Option<(u32, u64)> {
    let payload = frame.get(HEADERS..)?.strip_prefix(MAGIC)?;
    let flow = payload.get(..4)?.try_into().ok()?;
    let sequence = payload.get(4..12)?.try_into().ok()?;
    Some((u32::from_ne_bytes(flow), u64::from_ne_bytes(sequence)))
}

fn compare(flows: &[Flow], seen: &[Stamps], delay: Duration) -> (Lateness, u64) {
    let mut errors = lateness_histogram();
    for flow in flows {
        let (left, arrived) = (&seen[flow.from], &seen[1 - flow.from]);
        let range = (flow.number, 0)..=(flow.number, u64::MAX);
        for (key, leaving) in left.range(range) {
            if let Some(arrival) = arrived.get(key) {
                // A frame that arrived too early would be an error too.
                let took = arrival.saturating_sub(*leaving);
                let error = took.abs_diff(delay.as_nanos());
                record(&mut errors, Duration::from_nanos(error));
            }
        }
    }
    (Lateness::of(&errors), errors.len())
}
