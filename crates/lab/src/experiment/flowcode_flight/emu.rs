//! Flies schemes in real time: the kernel's TCP, daemons and the emulator's slots, each scheme on a
//! copy of its networks, all at once.
//!
//! Sessions are up and connections open before the flight begins; TCP sends from a second before it
//! on.

use std::thread;

use sys::byte_stream::Transport;
use sys::clock::now;
use sys::interface_setup::set_mtu;
use units::{Duration, Instant};

use super::connection::Running;
use super::field::{Field, HEADERS};
use super::scenario::{FRAME, Wiring, radio_rate};
use super::sim::{LEAD_IN, LRR_RATE, OPENED};
use super::{Cc, Direction, Flow, Point, is_relayed};
use crate::scheme::Scheme;
use crate::testbed::daemon::{DaemonPlan, Daemons, tunnel_address};
use crate::testbed::interruption::{check, sleep_until};
use crate::testbed::kernel_stream::{
    Dialled, await_subflows, dial, greet, lacks, prepare_path_managers,
};
use crate::testbed::links::{Copy, Side, Testbed};
use crate::testbed::low_rate_retry::{self, LowRateTunnel};
use crate::testbed::relays::RelayPlan;
use crate::testbed::tcp_counters::TcpCounters;
use emulator::{Audit, Claim, Options, Stalls};
use sys::print::tell;

/// What can be told apart: slots of about 12 ms, and seconds in which something arrived. Daemons,
/// shims and applications run in real time: a relay that is late by a slot leaves it empty, whoever
/// else wants the processor.
const CLAIM: Claim = Claim {
    extremes: Duration::from_secs(10),
    ..Claim::of_realtime_programs(Duration::from_millis(50))
};
/// The longest IP packet on a link: a packet of the trace as TCP's, and what the shim puts around
/// it.
const LINK_MTU: usize = FRAME + HEADERS + low_rate_retry::AROUND;
/// The longest packet that a daemon's tunnel takes.
const TUNNEL_MAX: usize = 1_400;
/// The port of TCP's receiver.
const PORT: u16 = 5_900;
/// How long a session may take to have all its paths.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is said how far the flight is.
const TOLD: Duration = Duration::from_secs(60);

/// What came of a scheme's flight, or why there was none.
pub(super) type Outcome = Result<Flow, String>;

/// The machine's account of a flight: nothing where nothing could fly.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) ran: Option<Audit>,
    pub(super) stalls: Stalls,
}

/// A scheme on its networks, connected.
struct Place {
    point: Point,
    copy: usize,
    payload_share: f64,
    below: Below,
    flow: Running,
    /// What the sending host's kernel had counted when the flow began.
    before: TcpCounters,
}

/// What is below TCP.
enum Below {
    Daemons(Daemons),
    Shim(LowRateTunnel),
    Nothing,
}

/// Flies all points at once; one that cannot says why.
///
/// # Errors
/// Says what of our own, or of the kernel's, could not be set up.
pub(super) fn fly(
    field: &Field,
    points: &[Point],
    cc: Cc,
    seed: u64,
) -> Result<(Vec<Outcome>, Account), String> {
    let lacking: Vec<Option<String>> =
        points.iter().map(|point| lacks(transport(point.scheme), cc.name())).collect();
    let able = points.iter().zip(&lacking).filter(|(_, lacks)| lacks.is_none());
    let wirings = able.map(|(point, _)| Ok((*point, Wiring::new(field, point)?)));
    let mut wirings = wirings.collect::<Result<Vec<_>, String>>()?;
    for (point, wiring) in &mut wirings {
        if matches!(point.scheme, Scheme::Session(_)) {
            wiring.mtu = wiring.mtu.min(TUNNEL_MAX);
        }
    }
    let flown = match wirings.is_empty() {
        true => (Vec::new(), Account::default()),
        false => fly_able(field, &wirings, cc, seed)?,
    };
    let (flows, account) = flown;
    let mut flows = flows.into_iter();
    let outcome = |lacks: Option<String>| match lacks {
        Some(why) => Err(why),
        None => flows.next().unwrap_or_else(|| Err("it was not flown".to_owned())),
    };
    Ok((lacking.into_iter().map(outcome).collect(), account))
}

fn fly_able(
    field: &Field,
    wirings: &[(Point, Wiring)],
    cc: Cc,
    seed: u64,
) -> Result<(Vec<Outcome>, Account), String> {
    let scenarios: Vec<_> = wirings.iter().map(|(_, wiring)| wiring.scenario.clone()).collect();
    let options = Options { claim: CLAIM, mtu: LINK_MTU as u32, ..Options::default() };
    let mut testbed = Testbed::start_with(&scenarios, seed, &options)?;
    let mut places = Vec::new();
    for (number, (point, wiring)) in wirings.iter().enumerate() {
        tell(format_args!("starting {}", point.named(cc)));
        let copy = testbed.copy(number);
        let placed = connect(field, point, wiring, &copy, cc);
        places.push(placed.map_err(|error| format!("{}: {error}", point.named(cc)))?);
    }
    let start = testbed.begin(LEAD_IN);
    let end = start + Duration::from_secs_f64(field.seconds());
    let mut flying = Vec::new();
    for (number, ((below, ends), (point, wiring))) in places.into_iter().zip(wirings).enumerate() {
        let flow = Running::begin(ends, sender(point), start, OPENED, end)
            .map_err(|error| error.to_string())?;
        flying.push(Place {
            point: *point,
            copy: number,
            payload_share: wiring.payload_share(),
            below,
            flow,
            before: TcpCounters::read(&testbed.copy(number), sender(point))?,
        });
    }
    watch(&mut flying, cc, start, end)?;
    let flown: Vec<_> = flying.iter().map(|place| place.look(&testbed)).collect();
    let ended: Vec<_> = flying.into_iter().map(Place::finish).collect();
    let audit = testbed.finish();
    let outcomes = ended.into_iter().zip(flown).map(|(delivered, flow)| {
        delivered.and_then(|delivered| flow.map(|flow| Flow { delivered, ..flow }))
    });
    let outcomes = outcomes.collect();
    Ok((outcomes, Account { stalls: audit.stalls.clone(), ran: Some(audit) }))
}

/// Waits for the end of the flight, and says from time to time how far it is.
///
/// # Errors
/// When a daemon or a shim has ended, or the program is asked to.
fn watch(flying: &mut [Place], cc: Cc, start: Instant, end: Instant) -> Result<(), String> {
    let mut next = start;
    while next < end {
        next = (next + TOLD).min(end);
        sleep_until(next)?;
        let (at, of) = (next.since(start).as_secs_f64(), end.since(start).as_secs_f64());
        let mut told = format!("flowcode-flight --emu: {at:.0} of {of:.0} s; MB");
        for place in flying.iter_mut() {
            place.below.check()?;
            let megabytes = place.flow.delivered() as f64 / 1e6;
            told += &format!(", {} {megabytes:.2}", place.point.named(cc));
        }
        tell(format_args!("{told}"));
    }
    Ok(())
}

/// Sets a scheme up on its networks, and connects.
fn connect(
    field: &Field,
    point: &Point,
    wiring: &Wiring,
    copy: &Copy<'_>,
    cc: Cc,
) -> Result<(Below, Dialled), String> {
    let mtu = wiring.mtu as u16;
    let (below, to) = match point.scheme {
        Scheme::Session(_) => {
            let daemons = start_daemons(field, point, mtu, copy)?;
            (Below::Daemons(daemons), tunnel_address(Side::Station))
        }
        Scheme::TCP_LRR | Scheme::TCP_LRR_IDEAL => {
            let shim = LowRateTunnel::start(copy, mtu, LRR_RATE)?;
            (Below::Shim(shim), low_rate_retry::address(Side::Station))
        }
        _ => {
            for link in 0..copy.link_count() {
                for side in Side::BOTH {
                    copy.enter(side, || set_mtu(&copy.interface(link), mtu.into()))?;
                }
            }
            (Below::Nothing, copy.address(Side::Station, 0)?)
        }
    };
    let transport = transport(point.scheme);
    if transport == Transport::Mptcp {
        prepare_path_managers(copy)?;
    }
    let ends = dial(copy, transport, cc.name(), (to, PORT).into())?;
    greet([&ends.drone, &ends.station])?;
    if transport == Transport::Mptcp {
        await_subflows(copy, 1)?;
    }
    Ok((below, ends))
}

/// Starts daemons, and relays where the scheme has them, and waits until they have all their paths.
fn start_daemons(
    field: &Field,
    point: &Point,
    mtu: u16,
    copy: &Copy<'_>,
) -> Result<Daemons, String> {
    let flight = &field.flown.flight;
    let relays = is_relayed(point.scheme).then(|| RelayPlan {
        form: gateway_lines(point),
        rate: radio_rate(field, point),
        relays: [flight.transmitters.len(), flight.receivers.len()],
    });
    let plan = DaemonPlan {
        transport: transport_lines(point.scheme),
        path_lines: &|_| String::new(),
        carried: None,
        endpoints: &|_, _| String::new(),
        tunnel_mtu: Some(mtu),
        relays: relays.as_ref(),
        realtime: true,
        pair: 0,
    };
    let mut daemons = Daemons::start_with(&plan, copy)?;
    let paths = copy.link_count().max(1);
    let started = now();
    loop {
        check()?;
        daemons.check()?;
        let active = active_paths(&daemons);
        if active >= paths {
            return Ok(daemons);
        }
        if now().since(started) > PATIENCE {
            return Err(format!("{active} of {paths} paths after {PATIENCE:?}"));
        }
        thread::sleep(Duration::from_millis(50).into());
    }
}

/// Returns how many paths of the drone's session are there; none as long as its daemon does not
/// answer.
fn active_paths(daemons: &Daemons) -> usize {
    let Ok(status) = daemons.status(Side::Drone) else { return 0 };
    let paths = status["peers"][0]["paths"].as_array();
    paths.map_or(0, |paths| paths.iter().filter(|path| path["state"] == "active").count())
}

/// Returns the lines of a gateway that say the same as `sim::form`.
fn gateway_lines(point: &Point) -> String {
    let Point { scheme, k, f, r, .. } = point;
    match *scheme {
        Scheme::FLOWCODE => format!("form = \"published\"\nk = {k}\nf = {f}\nr = {r}\n"),
        _ => format!("form = \"ranked\"\nk = {k}\n"),
    }
}

/// Returns the lines of `[transport]` that say the same as `sim::session`.
fn transport_lines(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::FLOWCODE => "tunnel_form = \"plain\"\n",
        Scheme::Session(session) => session.daemon_lines(),
        _ => "",
    }
}

fn transport(scheme: Scheme) -> Transport {
    if scheme == Scheme::KERNEL_MPTCP { Transport::Mptcp } else { Transport::Tcp }
}

fn sender(point: &Point) -> Side {
    match point.direction {
        Direction::Up => Side::Station,
        Direction::Down => Side::Drone,
    }
}

impl Below {
    /// Says so when something of it has ended.
    fn check(&mut self) -> Result<(), String> {
        match self {
            Self::Daemons(daemons) => daemons.check(),
            Self::Shim(shim) => shim.check(),
            Self::Nothing => Ok(()),
        }
    }
}

impl Place {
    /// Reads off what was counted beside the flow, of which nothing is known yet.
    fn look(&self, testbed: &Testbed) -> Result<Flow, String> {
        let sender = sender(&self.point);
        let after = TcpCounters::read(&testbed.copy(self.copy), sender)?;
        let sent = match &self.below {
            Below::Daemons(daemons) if is_relayed(self.point.scheme) => {
                Some(relay_sent(daemons, sender)?)
            }
            _ => None,
        };
        let repeats = match &self.below {
            Below::Shim(shim) => shim.repeats(sender),
            _ => 0,
        };
        Ok(Flow {
            delivered: Vec::new(),
            payload_share: self.payload_share,
            retransmits: after.retransmits - self.before.retransmits,
            timeouts: after.timeouts - self.before.timeouts,
            repeats,
            sent,
        })
    }

    /// Waits for the end of the flow, and ends what is below it.
    fn finish(self) -> Result<Vec<(f64, u64)>, String> {
        self.flow.finish().map_err(|error| error.to_string())
    }
}

/// Returns what a gateway counted.
fn relay_sent(daemons: &Daemons, side: Side) -> Result<proto::RelaySent, String> {
    let status = daemons.status(side)?;
    let sent = &status["relays"][0]["sent"];
    let count = |key: &str| {
        sent[key].as_u64().ok_or_else(|| format!("the {} daemon tells no {key}", side.name()))
    };
    Ok(proto::RelaySent {
        datagrams: count("datagrams")?,
        generations: count("generations")?,
        frames: count("frames")?,
        repeats: count("repeats")?,
        given_up: count("given_up")?,
        ..Default::default()
    })
}
