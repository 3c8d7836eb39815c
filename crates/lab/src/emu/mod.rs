//! Runs schemes in real time: real daemons and the real kernel, between network namespaces.
//!
//! ```text
//! workload → application's socket → daemon or kernel → emulated link → … → socket → ledger
//! ```
//! Every scheme of a run has a copy of the scenario's links to itself (`testbed`), so that all run
//! at the same time and none disturbs another, except through the processors, which the
//! emulator's audit watches. The emulator is `emulate`; here are the programs that run in it.

mod bottleneck;
mod bulk;
mod carrier;
mod channel;
mod congestion;
mod daemon;
mod greeting;
mod interruption;
mod interval;
mod kernel_stream;
mod mavlink_bulk;
mod meeting;
mod message_carrier;
mod message_share;
mod messages;
mod player;
mod stream;
mod tcp_flow;
mod testbed;

pub(crate) use bottleneck::{Cell, CellRun, run_cells};
pub(crate) use bulk::{BulkPlan, run_bulk};
pub(crate) use congestion::Congestion;
pub(crate) use interval::run_intervals;
pub(crate) use mavlink_bulk::{BulkForm, MavlinkCell, MavlinkRun, run_mavlink};
pub(crate) use meeting::{Meeting, Sender, run_meetings};
pub(crate) use message_share::{Flow, Goodput, ShareCell, run_share};
pub(crate) use messages::run as run_messages;
pub(crate) use stream::{Progress, run_streams};
pub(crate) use tcp_flow::{FlowRun, FlowSample, Offer};

/// Where tunnels are made; every emulated daemon has one.
const TUNNEL_DEVICE: &str = "/dev/net/tun";

/// Tells whether the program may make network namespaces, and tunnels in them, from here on; see
/// [`sys::isolate`].
///
/// Must come before the program's first thread.
///
/// # Errors
/// Says what the machine forbids and what to do about it.
pub(crate) fn prepare() -> Result<(), String> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open(TUNNEL_DEVICE);
    device.map_err(|error| {
        format!(
            "open {TUNNEL_DEVICE}: {error}; the daemons' tunnels need it: run as root, or let \
             every user have it as Debian and Ubuntu do (sudo chmod 666 {TUNNEL_DEVICE})"
        )
    })?;
    let prepared = sys::isolate::isolate().and_then(|_| interruption::watch());
    prepared.map_err(|error| error.to_string())
}
