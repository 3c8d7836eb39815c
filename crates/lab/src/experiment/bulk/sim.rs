//! Runs the flow in virtual time: the world's model of TCP over real sessions.
//!
//! It knows CUBIC and NewReno, and our own schemes alone. Nothing is sent beside the flow: there are no
//! pings, and over recorded links no control.

use units::{Duration, Instant};
use world::tcp::{Congestion, FlowHost, FlowOptions, FlowWorld};

use super::Cc;
use super::emu::BulkRun;
use super::flow::Flow;
use super::point::Scene;
use crate::scheme::Scheme;
use crate::testbed::WireBytes;
use crate::testbed::world::{Places, calm, wire_bytes};

/// From the beginning of the run to that of the flow: handshakes, probes, and the start-up.
const LEAD_IN: Duration = Duration::from_secs(5);
/// How often the sender's round-trip time is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a scene with one seed; why not, where the model does not know it.
///
/// # Errors
/// When the scheme is no session's.
pub(super) fn run_flow(
    scene: &Scene,
    scheme: Scheme,
    cc: Cc,
    seed: u64,
) -> Result<Result<BulkRun, String>, String> {
    let Scheme::Session(session) = scheme else {
        return Err(format!("{scheme} needs a real kernel: run it with --emu"));
    };
    let congestion = match cc {
        Cc::Cubic => Congestion::Cubic,
        Cc::Reno => Congestion::Reno,
        Cc::Bbr => return Ok(Err("the world's TCP has no bbr: use --emu".to_owned())),
    };
    let scenario = &scene.scenario;
    let hosts = FlowHost::over_session(scenario, &session.config(), seed)?;
    let mut world = FlowWorld::new(scenario, hosts, &calm(seed));
    let (start, places) = (Instant::ZERO + LEAD_IN, Places::of(scenario)?);
    world.world.begin(start);
    // Where no link carries anything yet, the session goes on trying while the flow does.
    world.connect(start);
    world.run_until(start);
    let before = wire_bytes(&world.world, scenario, places);
    let number = world.start(places.drone, FlowOptions { congestion, ..FlowOptions::default() });
    let end = start + Duration::from_secs_f64(scene.seconds);
    let mut flow = Flow::new(scene.seconds);
    while world.world.now() < end {
        world.run_until(end.min(world.world.now() + LOOK));
        let srtt = world.statistics(number).srtt;
        flow.srtt_ms.extend(srtt.map(|srtt| srtt.as_secs_f64() * 1e3));
    }
    let mut read = 0;
    for (at, bytes) in world.delivered(number) {
        flow.on_delivered(at.since(start).as_secs_f64(), (bytes - read) as usize);
        read = *bytes;
    }
    let statistics = world.statistics(number);
    flow.retransmits = Some(statistics.retransmitted_segments);
    flow.timeouts = Some(statistics.rto_timeouts);
    let after = wire_bytes(&world.world, scenario, places);
    let entered = |all: [WireBytes; 2]| all.iter().map(|wire| wire.entered()).sum::<u64>();
    let wire_bytes = entered(after) - entered(before);
    Ok(Ok(BulkRun { flow, beside: None, wire_bytes, repair_share: None }))
}
