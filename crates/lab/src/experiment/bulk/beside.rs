//! What is sent beside the flow, in both lives: pings through the same tunnel, and over recorded
//! links control.

use super::point::Scene;
use crate::experiment::streams::video::VideoShape;
use crate::experiment::streams::workload::{Flow, Workload};
use crate::testbed::{Direction, Stream};

/// The number of the pings' flow.
pub(super) const PING: u8 = 1;
/// Pings each second, and their bytes: with headers those of the usual program.
const PING_HZ: f64 = 20.0;
const PING_BYTES: usize = 56;

/// Returns what is sent beside the flow while it lasts.
pub(super) fn workload(scene: &Scene) -> Workload {
    let ping = Flow {
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
