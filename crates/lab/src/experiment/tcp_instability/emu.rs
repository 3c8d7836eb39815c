//! Flows that meet on the unstable hop of a network of UAVs, in real time: several networks, each
//! with its own outages and senders, side by side in one emulation.
//!
//! The network is `topology`, a flow `tcp_flow`; here they are put together. A sender that is no
//! TCP flow ([`Scheme::UDP`]) is the flow of constant rate that tells what the hop is like.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread::{self, JoinHandle};

use netem::{Direction as LinkDirection, Scenario};
use sys::clock::now;
use units::{Duration, Instant};

use super::offered::{OFFERED_GAP, OFFERED_PAYLOAD};
use super::plan::{Meeting, MeetingRun, SAMPLE, Sender};
use super::topology::{ground, hop, station, uav};
use crate::scheme::Scheme;
use crate::testbed::congestion::Congestion;
use crate::testbed::interruption;
use crate::testbed::interruption::sleep_until;
use crate::testbed::tcp_flow::{FlowPlan, FlowRun, RunningFlow, TcpFlow};
use emulator::{Audit, Claim, Emulation, LinkReport, Options};

/// From the start of the links to that of the flows: all threads stand ready by then.
const LEAD: Duration = Duration::from_millis(100);
/// Port of a network's first sender at its station.
const PORT: u16 = 5_001;

/// Runs all meetings at the same time for `seconds`.
///
/// # Errors
/// Says which part of the set-up failed.
pub(super) fn run_meetings(
    meetings: &[Meeting],
    congestion: &Congestion,
    seconds: u64,
    seed: u64,
    claim: Claim,
) -> Result<(Vec<MeetingRun>, Audit), String> {
    let empty = Scenario::new("uav networks", seconds as f64);
    let scenario = meetings.iter().enumerate().fold(empty, |scenario, (copy, meeting)| {
        meeting.network.add_to(scenario, copy, &meeting.outages)
    });
    let options = Options { claim, ..Options::default() };
    let mut emulation =
        Emulation::start(&scenario, seed, &options).map_err(|error| error.to_string())?;
    let connected = connect_all(&emulation, meetings, congestion, seconds)?;
    let origin = emulation.begin(LEAD);
    let begin = |flow: Connected| flow.begin(origin, seconds);
    let running: Vec<Vec<Running>> = connected
        .into_iter()
        .map(|flows| flows.into_iter().map(begin).collect())
        .collect::<Result<_, String>>()?;
    sleep_until(origin + Duration::from_secs(seconds))?;
    let runs: Vec<Vec<FlowRun>> = running
        .into_iter()
        .map(|flows| flows.into_iter().map(Running::finish).collect())
        .collect::<Result<_, String>>()?;
    let (audit, links) = emulation.finish();
    let meeting = |(copy, flows): (usize, Vec<FlowRun>)| {
        let of_hop = |link: &&LinkReport| {
            link.link == hop(copy) && link.entry.direction == LinkDirection::Up
        };
        let dropped = links.iter().find(of_hop).and_then(|link| link.dropped["queue"].as_u64());
        MeetingRun { flows, queue_drops: dropped.unwrap_or(0) }
    };
    Ok((runs.into_iter().enumerate().map(meeting).collect(), audit))
}

/// Connects the flows of all meetings, all at once: one after the other would take a round trip
/// each, and the first would wait for the last.
fn connect_all(
    emulation: &Emulation,
    meetings: &[Meeting],
    congestion: &Congestion,
    seconds: u64,
) -> Result<Vec<Vec<Connected>>, String> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (copy, meeting) in meetings.iter().enumerate() {
            let connect = move || {
                let senders = meeting.senders.iter().enumerate();
                let connect = |(number, sender): (usize, &Sender)| {
                    Connected::of(emulation, congestion, copy, number, sender, seconds)
                };
                senders.map(connect).collect::<Result<Vec<_>, String>>()
            };
            let thread = thread::Builder::new().spawn_scoped(scope, connect);
            threads.push(thread.map_err(|error| format!("start a thread: {error}"))?);
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A flow that waits to begin.
enum Connected {
    Tcp(TcpFlow),
    Constant(UdpSocket, UdpSocket),
}

impl Connected {
    fn of(
        emulation: &Emulation,
        congestion: &Congestion,
        copy: usize,
        number: usize,
        sender: &Sender,
        seconds: u64,
    ) -> Result<Self, String> {
        let (from, to) = (uav(copy, sender.uav), station(copy));
        let address = emulation.address(&to, &ground(copy));
        let address = address.ok_or_else(|| format!("{to} is not on link {}", ground(copy)))?;
        let port = PORT + number as u16;
        if sender.scheme == Scheme::UDP {
            let at = SocketAddr::from((address, port));
            let described = |error: io::Error| format!("the flow from {from} to {at}: {error}");
            let receiving = emulation.enter(&to, || UdpSocket::bind(at));
            let receiving = receiving.and_then(|result| result).map_err(described)?;
            let sending = emulation.enter(&from, || {
                let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
                socket.connect(at)?;
                Ok(socket)
            });
            let sending = sending.and_then(|result: io::Result<_>| result).map_err(described)?;
            return Ok(Self::Constant(sending, receiving));
        }
        let plan = FlowPlan {
            from,
            to,
            address,
            port,
            congestion: congestion.name(sender.scheme.control()?).to_owned(),
            start: Duration::ZERO,
            duration: Duration::from_secs(seconds),
            offered: sender.offered,
            sample_every: SAMPLE,
        };
        TcpFlow::connect(emulation, &plan).map(Self::Tcp)
    }

    fn begin(self, origin: Instant, seconds: u64) -> Result<Running, String> {
        let (sending, receiving) = match self {
            Self::Tcp(flow) => return flow.begin(origin).map(Running::Tcp),
            Self::Constant(sending, receiving) => (sending, receiving),
        };
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let end = origin + Duration::from_secs(seconds);
        let sender = spawn("send constant").spawn(move || send_constant(&sending, origin, end));
        sender.map_err(|error| error.to_string())?;
        let receiver = spawn("receive constant");
        let receiver = receiver.spawn(move || count_constant(&receiving, origin, seconds));
        Ok(Running::Constant(receiver.map_err(|error| error.to_string())?))
    }
}

/// A flow under way.
enum Running {
    Tcp(RunningFlow),
    Constant(JoinHandle<io::Result<Vec<u64>>>),
}

impl Running {
    fn finish(self) -> Result<FlowRun, String> {
        let receiver = match self {
            Self::Tcp(flow) => return flow.finish(),
            Self::Constant(receiver) => receiver,
        };
        let counted = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let datagrams = counted.map_err(|error| format!("the flow of constant rate: {error}"))?;
        let mbps = |count: &u64| *count as f64 * OFFERED_PAYLOAD as f64 * 8.0 / 1e6;
        Ok(FlowRun {
            goodput_mbps: datagrams.iter().map(mbps).collect(),
            bytes: datagrams.iter().sum::<u64>() * OFFERED_PAYLOAD as u64,
            samples: Vec::new(),
        })
    }
}

/// Sends a datagram at each due time.
fn send_constant(socket: &UdpSocket, from: Instant, to: Instant) {
    let payload = [0; OFFERED_PAYLOAD];
    let mut due = from;
    while due < to && !interruption::is_asked() {
        thread::sleep(due.since(now()).into());
        // A full socket loses the datagram as a link would.
        let _ = socket.send(&payload);
        due += OFFERED_GAP;
    }
}

/// Counts the datagrams of each second after the first one came: without the links' delay.
fn count_constant(socket: &UdpSocket, origin: Instant, seconds: u64) -> io::Result<Vec<u64>> {
    let mut per_second = vec![0; usize::try_from(seconds).unwrap_or(0)];
    let mut first = None;
    socket.set_read_timeout(Some(Duration::from_millis(100).into()))?;
    // What is under way at the end belongs to the last second.
    let end = origin + Duration::from_secs(seconds) + Duration::from_millis(500);
    while now() < end && !interruption::is_asked() {
        match socket.recv(&mut [0; OFFERED_PAYLOAD]) {
            Ok(_) => {
                let at = now();
                let first = *first.get_or_insert(at);
                let second = (at.since(first) + OFFERED_GAP / 2).as_secs() as usize;
                if let Some(count) = per_second.get_mut(second) {
                    *count += 1;
                }
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(per_second)
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}
