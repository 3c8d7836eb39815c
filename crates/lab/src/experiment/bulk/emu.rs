//! Runs flows in real time: every scheme at once, each over links of its own; over cables, one at a
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::byte_stream::Transport;
use units::Duration;

use super::connection::Connection;
use super::flow::BulkRun;
use super::point::{LINK_MTU, Scene};
use super::requests::DRAIN;
use super::running::{Place, Running};
use super::sim::RETRY_RATE;
use crate::scheme::{Scheme, SessionScheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::greeting::greet;
use crate::testbed::interruption::{self, sleep_until};
use crate::testbed::kernel_stream;
use crate::testbed::links::{Copy, Testbed};
use crate::testbed::low_rate_retry::{self, LowRateTunnel};
use crate::testbed::{Recording, Stream, find_program};
use emulator::{Audit, Claim, Stalls};
use sys::print::tell;

/// From when every connection is there to the beginning of the flow.
pub(super) const START_UP: Duration = Duration::from_secs(3);
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
    let scenarios = vec![scene.scenario.clone(); present];
    let mut testbed = match present {
        0 => {
            let why = |asked: &Asked| Err(asked.lacks.clone().unwrap_or_default());
            return Ok((asked.iter().map(why).collect(), Account::default()));
        }
        _ if scene.is_of_cables() => Testbed::start_cables(&scenarios, CLAIM)?,
        _ => Testbed::start_each(&scenarios, seed, CLAIM)?,
    };
    let recording = Arc::new(Recording::load()?);
    let places = set_up(&testbed, asked, congestion, scene, &recording)?;
    let (start, stop) = (testbed.begin(START_UP), Arc::new(AtomicBool::new(false)));
    let mut running = Vec::new();
    for place in places {
        running.push(match place {
            Err(why) => Err(why),
            Ok(place) => Ok(Running::begin(place, scene, &recording, start, &stop)?),
        });
    }
    sleep_until(start)?;
    for place in running.iter_mut().flatten() {
        place.before = place.look(&testbed, scene)?;
    }
    sleep_until(start + Duration::from_secs_f64(scene.seconds))?;
    for place in running.iter_mut().flatten() {
        place.note_failed();
        place.after = place.look(&testbed, scene)?;
    }
    sleep_until(start + Duration::from_secs_f64(scene.end()) + DRAIN)?;
    stop.store(true, Ordering::Relaxed);
    for place in running.iter_mut().flatten() {
        place.check()?;
    }
    let audit = testbed.finish();
    // What the processors carry is what cables are there to show: that one is busy is no fault
    // there.
    let account = match scene.is_of_cables() {
        true => Account::default(),
        false => Account { stalls: audit.stalls.clone(), ran: Some(audit) },
    };
    let stalls = Arc::new(account.stalls.clone());
    let mut runs = Vec::new();
    for place in running {
        runs.push(match place {
            Err(why) => Err(why),
            Ok(place) => match (place.scheme, place.finish(&stalls)) {
                (Scheme::Command(own), Err(why)) => {
                    own.fail(why.clone());
                    Err(why)
                }
                (_, run) => Ok(run?),
            },
        });
    }
    Ok((runs, account))
}

/// Sets every scheme up that can run, each on a copy of the links; of the others, why they cannot.
fn set_up(
    testbed: &Testbed,
    asked: &[Asked],
    congestion: &str,
    scene: &Scene,
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
        places.push(match open(scheme, &testbed.copy(copy), congestion, scene, recording) {
            Ok((shim, carrier, connections)) => {
                Ok(Place { copy, scheme, shim, carrier, connections })
            }
            // Others' programs may not run everywhere.
            Err(why) => match scheme {
                Scheme::Tunnel(_) => Err(why),
                Scheme::Command(own) => {
                    interruption::check()?;
                    own.fail(why.clone());
                    Err(why)
                }
                _ => return Err(format!("{scheme}: {why}")),
            },
        });
    }
    Ok(places)
}

/// What is below a scheme's connections, and these.
type Opened = (Option<LowRateTunnel>, Carrier, Vec<Connection>);

/// Sets a scheme up on its links, and connects.
fn open(
    scheme: Scheme,
    copy: &Copy<'_>,
    congestion: &str,
    scene: &Scene,
    recording: &Recording,
) -> Result<Opened, String> {
    // Beside the kernel's TCP all else goes as it does without a tunnel.
    let below = if matches!(scheme, Scheme::Kernel(_)) { Scheme::UDP } else { scheme };
    let mut streams = vec![Stream::Ping];
    if scene.control_hz > 0.0 {
        streams.push(Stream::Control);
    }
    let mut carrier = Carrier::start(below, copy, &streams)?;
    greet(&mut carrier, recording)?;
    if let Scheme::Command(own) = scheme {
        own.failure().map_or(Ok(()), Err)?;
    }
    // Its tunnel takes the less for what is around a packet on the link.
    let mtu = LINK_MTU as u16 - low_rate_retry::AROUND as u16;
    let shim = (scheme == Scheme::TCP_LRR).then(|| LowRateTunnel::start(copy, mtu, RETRY_RATE));
    let shim = shim.transpose()?;
    let count = scene.flows + usize::from(scene.requests_alone().is_some());
    let connections = Connection::open(scheme, &mut carrier, copy, congestion, count)?;
    Ok((shim, carrier, connections))
}

/// Says what a scheme needs and this machine lacks.
fn lacks(scheme: Scheme, congestion: &str) -> Option<String> {
    if let Some(why) = kernel_stream::lacks(Transport::Tcp, congestion) {
        return Some(why);
    }
    match scheme {
        Scheme::KERNEL_MPTCP => kernel_stream::lacks(Transport::Mptcp, congestion),
        Scheme::Tunnel(tunnel) => {
            let (programs, package) = tunnel.programs();
            let missing = programs.iter().find(|name| find_program(name).is_none())?;
            Some(format!("{missing} is not installed (package {package})"))
        }
        Scheme::Command(own) => {
            own.ask_for_connections();
            own.failure()
        }
        Scheme::Session(SessionScheme::Lrt) => Some("it carries messages alone".to_owned()),
        _ => None,
    }
}
