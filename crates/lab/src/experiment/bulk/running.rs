//! One scheme while it runs in real time: its flows, what goes beside them, and what is read off at
//! their beginning and end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use units::{Duration, Instant};

use super::beside::workload;
use super::connection::{self, Connection};
use super::flow::{BulkRun, Flow};
use super::point::Scene;
use super::{repair, requests};
use crate::experiment::streams::emu::Play;
use crate::scheme::Scheme;
use crate::testbed::Recording;
use crate::testbed::carrier::Carrier;
use crate::testbed::links::{Side, Testbed};
use crate::testbed::low_rate_retry::LowRateTunnel;
use crate::testbed::tcp_counters::TcpCounters;
use emulator::Stalls;

/// A scheme on its links, connected.
pub(super) struct Place {
    pub(super) copy: usize,
    pub(super) scheme: Scheme,
    /// Below the connections of TCP with low-rate retry.
    pub(super) shim: Option<LowRateTunnel>,
    pub(super) carrier: Carrier,
    /// One for each flow, and one for requests where there are any.
    pub(super) connections: Vec<Connection>,
}

/// A scheme under way.
pub(super) struct Running {
    copy: usize,
    pub(super) scheme: Scheme,
    shim: Option<LowRateTunnel>,
    play: Play,
    flows: Vec<connection::Running>,
    requests: Option<requests::Running>,
    /// What was read off when the flow began, and when it ended.
    pub(super) before: Look,
    pub(super) after: Look,
}

/// What a scheme has done since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    counters: TcpCounters,
    /// Bytes that entered the links; none of cables.
    wire_bytes: Option<u64>,
    processor: Option<Duration>,
    repair_share: Option<f64>,
}

impl Running {
    /// Lets the flows begin at `start`, and what goes beside them.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(super) fn begin(
        place: Place,
        scene: &Scene,
        recording: &Arc<Recording>,
        start: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let Place { copy, scheme, shim, carrier, mut connections } = place;
        let play = Play::start(scheme, carrier, &workload(scene), recording, start, stop)?;
        let further = connections.split_off(scene.flows.min(connections.len()));
        let flows = connections.into_iter().map(|one| one.begin(start, scene.seconds));
        let flows = flows.collect::<std::io::Result<_>>();
        let flows = flows.map_err(|error| format!("{scheme}: {error}"))?;
        let requests = further.into_iter().next();
        let requests = requests.map(|one| requests::Running::begin(one, scene, start));
        let requests = requests.transpose().map_err(|error| format!("{scheme}: {error}"))?;
        let (before, after) = (Look::default(), Look::default());
        Ok(Self { copy, scheme, shim, play, flows, requests, before, after })
    }

    /// Notes it with somebody's own scheme where a program of it has failed.
    pub(super) fn note_failed(&mut self) {
        self.play.note_failed();
    }

    /// Says so when something below it has ended.
    ///
    /// # Errors
    /// What has.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.play.check()?;
        self.shim.as_mut().map_or(Ok(()), LowRateTunnel::check)
    }

    /// Reads off what it has done so far.
    ///
    /// # Errors
    /// When the kernel or a daemon does not tell.
    pub(super) fn look(&self, testbed: &Testbed, scene: &Scene) -> Result<Look, String> {
        let wire_bytes = || testbed.wire(self.copy).iter().map(|wire| wire.entered()).sum();
        let status = self.play.daemons().map(|daemons| daemons.status(Side::Drone)).transpose();
        let status = status.map_err(|error| format!("{}: {error}", self.scheme))?;
        Ok(Look {
            counters: TcpCounters::read(&testbed.copy(self.copy), Side::Drone)?,
            wire_bytes: (!scene.is_of_cables()).then(wire_bytes),
            processor: self.play.processor_time(),
            repair_share: status.as_ref().and_then(repair::of_daemon),
        })
    }

    /// Waits for the end of everything, and says what came of it.
    ///
    /// # Errors
    /// When a connection broke.
    pub(super) fn finish(self, stalls: &Arc<Stalls>) -> Result<BulkRun, String> {
        // The shim is there until the connections have ended.
        let Self { scheme, shim: _shim, play, flows, requests, before, after, .. } = self;
        let flows = flows.into_iter().map(connection::Running::finish);
        let flows = flows.collect::<std::io::Result<Vec<Flow>>>();
        let flows = flows.map_err(|error| format!("{scheme}: {error}"))?;
        let requests = requests.map(requests::Running::finish).transpose();
        let requests = requests.map_err(|error| format!("{scheme}: {error}"))?;
        let (_, beside) = play.finish(Default::default(), Arc::clone(stalls));
        let (mut flow, each) = Flow::together(flows);
        // The kernel counts for the whole host.
        flow.retransmits = Some(after.counters.retransmits - before.counters.retransmits);
        flow.timeouts = Some(after.counters.timeouts - before.counters.timeouts);
        let cpu = after.processor.zip(before.processor).map(|(after, before)| after - before);
        Ok(BulkRun {
            flow,
            each,
            beside,
            requests,
            wire_bytes: after
                .wire_bytes
                .zip(before.wire_bytes)
                .map(|(after, before)| after - before),
            outside_mbps: None,
            repair_share: after.repair_share,
            cpu_s: cpu.map(Duration::as_secs_f64),
        })
    }
}
