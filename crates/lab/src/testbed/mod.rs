//! What carries a scheme's traffic over links, in virtual time and in real time; every experiment
//! builds on it.
//!
//! ```text
//! virtual time   application → end (session, datagrams) → world of links → end → application
//! real time      application's socket → daemon or kernel → emulated link → … → socket
//! ```
//! In virtual time everything is the deterministic `world`. In real time each scheme of a run has a
//! copy of the scenario's links to itself (`links`), so that all run at the same time and none
//! disturbs another, except through the processors, which the emulator's audit watches.

pub(crate) mod block_end;
pub(crate) mod carrier;
pub(crate) mod channel;
pub(crate) mod command;
pub(crate) mod congestion;
pub(crate) mod daemon;
pub(crate) mod end;
pub(crate) mod forwarded;
pub(crate) mod greeting;
pub(crate) mod ideal_arq;
pub(crate) mod interruption;
mod kcptun;
pub(crate) mod kernel_stream;
pub(crate) mod links;
pub(crate) mod low_rate_retry;
mod program;
mod recording;
pub(crate) mod relays;
mod stamp;
mod stream;
pub(crate) mod tcp_copies;
pub(crate) mod tcp_counters;
pub(crate) mod tcp_flow;
mod wire_bytes;
pub(crate) mod wireguard;
pub(crate) mod world;

pub(crate) use program::{Programs, find as find_program};
pub(crate) use recording::{RecordedFrame, Recording};
pub(crate) use stamp::{FLOW_MAX, STAMP_BYTES, Stamp, TELEMETRY_BYTES};
pub(crate) use stream::{Direction, Stream};
pub(crate) use wire_bytes::WireBytes;

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
