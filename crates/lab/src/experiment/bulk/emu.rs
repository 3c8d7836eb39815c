//! Runs the flow in real time: every scheme at once, each over links of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::byte_stream::{Transport, listen};
use units::Duration;

use super::connection::{Connection, Counters};
use super::flow::Flow;
use super::point::Scene;
use crate::experiment::streams::emu::Play;
use crate::experiment::streams::ledger::StreamRun;
use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::{Flow as StreamFlow, Workload};
use crate::scheme::{Scheme, SessionScheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::greeting::greet;
use crate::testbed::interruption::sleep_until;
use crate::testbed::links::{Copy, Testbed};
use crate::testbed::{Direction, Recording, Stream, find_program};
use emulator::{Audit, Claim, Stalls};
use sys::print::tell;

/// From when every connection is there to the beginning of the flow.
pub(super) const START_UP: Duration = Duration::from_secs(3);
/// How long the last pings are awaited.
const DRAIN: Duration = Duration::from_secs(1);
/// Pings each second, and their bytes: with headers those of the usual program.
const PING_HZ: f64 = 20.0;
const PING_BYTES: usize = 56;
/// The number of the pings' flow.
pub(super) const PING: u8 = 1;
/// Goodputs of seconds, pings of tens of milliseconds: stalls of a few are in nobody's way.
const CLAIM: Claim =
    Claim { extremes: Duration::from_secs(10), ..Claim::to(Duration::from_millis(50)) };

/// A scheme that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) scheme: Scheme,
    /// Why it cannot run on this machine, where it cannot.
    lacks: Option<String>,
}

/// What came of a flow and of what was sent beside it.
#[derive(Debug)]
pub(super) struct BulkRun {
    pub(super) flow: Flow,
    /// Pings, and control; none in the world.
    pub(super) beside: Option<StreamRun>,
    /// Bytes that entered the links while the flow lasted, both ways.
    pub(super) wire_bytes: u64,
    /// Repair over what it repairs; none where nothing is coded.
    pub(super) repair_share: Option<f64>,
}

/// The machine's account of a run: nothing where nothing could run.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) ran: Option<Audit>,
    pub(super) stalls: Stalls,
}

impl Asked {
    /// Finds out whether a scheme can run here.
    pub(super) fn new(scheme: Scheme, congestion: &str) -> Self {
        Self { scheme, lacks: lacks(scheme, congestion) }
    }
}

/// Runs a scene once; a scheme that cannot run says why.
///
/// # Errors
/// Says what of our own, or of the kernel's, could not be set up.
pub(super) fn run_scene(
    scene: &Scene,
    asked: &[Asked],
    congestion: &str,
    seed: u64,
) -> Result<(Vec<Result<BulkRun, String>>, Account), String> {
    let present = asked.iter().filter(|asked| asked.lacks.is_none()).count();
    let mut testbed = match present {
        0 => {
            let why = |asked: &Asked| Err(asked.lacks.clone().unwrap_or_default());
            return Ok((asked.iter().map(why).collect(), Account::default()));
        }
        _ => Testbed::start_each(&vec![scene.scenario.clone(); present], seed, CLAIM)?,
    };
    let (recording, workload) = (Arc::new(Recording::load()?), workload(scene));
    let places = set_up(&testbed, asked, congestion, &workload, &recording)?;
    let (start, stop) = (testbed.begin(START_UP), Arc::new(AtomicBool::new(false)));
    let mut running = Vec::new();
    for place in places {
        running.push(match place {
            Err(why) => Err(why),
            Ok(Place { copy, scheme, carrier, connection }) => {
                let play = Play::start(scheme, carrier, &workload, &recording, start, &stop)?;
                let flow = connection.begin(start, scene.seconds);
                Ok((copy, scheme, play, flow.map_err(|error| format!("{scheme}: {error}"))?))
            }
        });
    }
    let look = |testbed: &Testbed| -> Result<Vec<(Counters, u64)>, String> {
        let of = |copy| {
            let wire = testbed.wire(copy).iter().map(|wire| wire.entered()).sum();
            Ok((Counters::read(&testbed.copy(copy))?, wire))
        };
        (0..present).map(of).collect()
    };
    sleep_until(start)?;
    let before = look(&testbed)?;
    sleep_until(start + Duration::from_secs_f64(scene.seconds))?;
    let after = look(&testbed)?;
    sleep_until(start + Duration::from_secs_f64(scene.seconds) + DRAIN)?;
    stop.store(true, Ordering::Relaxed);
    for (_, _, play, _) in running.iter_mut().flatten() {
        play.check()?;
    }
    let audit = testbed.finish();
    let stalls = Arc::new(audit.stalls.clone());
    let mut runs = Vec::new();
    for place in running {
        runs.push(match place {
            Err(why) => Err(why),
            Ok((copy, scheme, play, flow)) => {
                let mut flow = flow.finish().map_err(|error| format!("{scheme}: {error}"))?;
                let (_, beside) = play.finish(Default::default(), Arc::clone(&stalls));
                let ((old, wire_before), (new, wire_after)) = (before[copy], after[copy]);
                flow.retransmits = Some(new.retransmits - old.retransmits);
                flow.timeouts = Some(new.timeouts - old.timeouts);
                let wire_bytes = wire_after - wire_before;
                Ok(BulkRun { flow, beside: Some(beside), wire_bytes, repair_share: None })
            }
        });
    }
    Ok((runs, Account { stalls: audit.stalls.clone(), ran: Some(audit) }))
}

/// A scheme on its links, connected.
struct Place {
    copy: usize,
    scheme: Scheme,
    carrier: Carrier,
    connection: Connection,
}

/// Sets every scheme up that can run, each on a copy of the links; of the others, why they cannot.
fn set_up(
    testbed: &Testbed,
    asked: &[Asked],
    congestion: &str,
    workload: &Workload,
    recording: &Recording,
) -> Result<Vec<Result<Place, String>>, String> {
    let (mut places, mut next) = (Vec::new(), 0);
    for Asked { scheme, lacks } in asked {
        if let Some(why) = lacks {
            places.push(Err(why.clone()));
            continue;
        }
        tell(format_args!("starting {scheme}"));
        let (scheme, copy) = (*scheme, next);
        next += 1;
        places.push(match open(scheme, &testbed.copy(copy), congestion, workload, recording) {
            Ok((carrier, connection)) => Ok(Place { copy, scheme, carrier, connection }),
            // Others' programs may not run everywhere.
            Err(why) if matches!(scheme, Scheme::Tunnel(_)) => Err(why),
            Err(why) => return Err(format!("{scheme}: {why}")),
        });
    }
    Ok(places)
}

/// Returns what is sent beside the flow.
fn workload(scene: &Scene) -> Workload {
    let ping = StreamFlow {
        name: "ping".to_owned(),
        kind: Stream::Ping,
        number: PING,
        way: Some(Direction::Down),
        rate_hz: PING_HZ,
        bytes: PING_BYTES,
        mbps: 0.0,
        shape: VideoShape::Even,
        deadline_ms: 0.0,
    };
    Workload {
        seconds: scene.seconds,
        control_hz: scene.control_hz,
        flows: vec![ping],
        ..Workload::silent()
    }
}

/// Sets a scheme up on its links, and connects.
fn open(
    scheme: Scheme,
    copy: &Copy<'_>,
    congestion: &str,
    workload: &Workload,
    recording: &Recording,
) -> Result<(Carrier, Connection), String> {
    // Beside the kernel's TCP all else goes as it does without a tunnel.
    let below = if matches!(scheme, Scheme::Kernel(_)) { Scheme::UDP } else { scheme };
    let mut streams = vec![Stream::Ping];
    if workload.control_hz > 0.0 {
        streams.push(Stream::Control);
    }
    let mut carrier = Carrier::start(below, copy, &streams)?;
    greet(&mut carrier, recording)?;
    let connection = Connection::open(scheme, &carrier, copy, congestion)?;
    Ok((carrier, connection))
}

/// Says what a scheme needs and this machine lacks.
fn lacks(scheme: Scheme, congestion: &str) -> Option<String> {
    let socket = |transport| {
        let at = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        listen(transport, congestion, at).err().map(|error| error.to_string())
    };
    if let Some(why) = socket(Transport::Tcp) {
        return Some(why);
    }
    match scheme {
        Scheme::KERNEL_MPTCP => socket(Transport::Mptcp),
        Scheme::Tunnel(tunnel) => {
            let (programs, package) = tunnel.programs();
            let missing = programs.iter().find(|name| find_program(name).is_none())?;
            Some(format!("{missing} is not installed (package {package})"))
        }
        Scheme::Session(SessionScheme::Lrt) => Some("it carries messages alone".to_owned()),
        _ => None,
    }
}
