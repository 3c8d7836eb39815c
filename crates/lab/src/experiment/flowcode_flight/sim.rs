//! Flies a scheme in virtual time: the world's TCP over daemons' state machines and the emulator's
//! slots.
//!
//! The session is up, and the connection open, when the flight begins.

use proto::{RelayForm, SessionConfig, TunnelForm};
use units::{Duration, Instant, Rate};
use world::RelayGroup;
use world::tcp::{FlowHost, FlowOptions, FlowWorld, LowRateRetry};

use super::field::{Field, HEADERS};
use super::scenario::{SMALL, Wiring, radio_rate};
use super::{Cc, Direction, Flow, Point};
use crate::scheme::{Scheme, SessionScheme};
use crate::testbed::world::calm;

/// From the beginning of the run to that of the flight: handshakes, probes, and the start-up.
pub(super) const LEAD_IN: Duration = Duration::from_secs(5);
/// How long before the flight the connection is opened, and begins to send.
pub(super) const OPENED: Duration = Duration::from_secs(1);

/// Flies a scheme.
///
/// # Errors
/// When the scheme does not connect before the flight begins, where nothing is lost.
pub(super) fn fly(field: &Field, point: &Point, cc: Cc, seed: u64) -> Result<Flow, String> {
    let scheme = point.scheme;
    let wiring = Wiring::new(field, point)?;
    let scenario = &wiring.scenario;
    let mut world = match scheme {
        Scheme::FULMAR | Scheme::FLOWCODE => {
            let group =
                RelayGroup { form: form(point), k: point.k, rate: radio_rate(field, point) };
            let hosts = FlowHost::over_relays(scenario, &session(scheme), &group, seed)?;
            FlowWorld::relayed(scenario, hosts, &calm(seed))
        }
        Scheme::TCP_LRR | Scheme::TCP_LRR_IDEAL => {
            let retry = || LowRateRetry::new(LRR_RATE, wiring.mtu);
            let hosts = FlowHost::over_links(scenario)?.map(|host| host.with_retry(retry()));
            FlowWorld::new(scenario, hosts, &calm(seed))
        }
        _ => {
            let hosts = FlowHost::over_session(scenario, &session(scheme), seed)?;
            FlowWorld::new(scenario, hosts, &calm(seed))
        }
    };
    let start = Instant::ZERO + LEAD_IN;
    world.world.begin(start);
    if !world.connect(start - OPENED) {
        return Err(format!("{scheme} has not connected within {:?}", LEAD_IN - OPENED));
    }
    world.run_until(start - OPENED);
    let options = FlowOptions { congestion: cc.of_world()?, mtu: wiring.mtu, ..Default::default() };
    let sender = usize::from(point.direction == Direction::Down);
    let number = world.start(sender, options);
    world.run_until(start + Duration::from_secs_f64(field.seconds()));
    let mut read = 0;
    let delivered = world.delivered(number).iter().map(|(at, bytes)| {
        let more = *bytes - core::mem::replace(&mut read, *bytes);
        (at.as_nanos() as f64 / 1e9 - LEAD_IN.as_secs_f64(), more)
    });
    let delivered = delivered.collect();
    let statistics = world.statistics(number);
    let host = world.world.host(sender);
    let status = host.relay_status(world.world.host_now(sender));
    Ok(Flow {
        delivered,
        payload_share: wiring.payload_share(),
        retransmits: statistics.retransmitted_segments,
        timeouts: statistics.rto_timeouts,
        repeats: host.repeats(),
        sent: status.map(|status| status.sent),
    })
}

/// The rate of repeats in place of what TCP does not send [FlowCode §V].
pub(super) const LRR_RATE: Rate = Rate::from_bps(10_000);

/// Returns how gateways send.
pub(super) fn form(point: &Point) -> RelayForm {
    match point.scheme {
        Scheme::FLOWCODE => RelayForm::Published { f: Some(point.f), r: point.r },
        _ => RelayForm::Ranked { f: None },
    }
}

/// Returns the session of a scheme.
fn session(scheme: Scheme) -> SessionConfig {
    match scheme {
        // As published there is no tunnel that would send again what the link gives up.
        Scheme::FLOWCODE => {
            SessionConfig { tunnel: TunnelForm::Plain, ..SessionScheme::Fulmar.config() }
        }
        Scheme::Session(session) => session.config(),
        _ => SessionConfig::default(),
    }
}

const _: () = assert!(HEADERS < SMALL as usize);
