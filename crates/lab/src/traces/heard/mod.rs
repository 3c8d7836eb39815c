//! `fulmar-lab trace record`: broadcasts in slots on a radio, and writes down what is heard of
//! others [FlowCode §IV].
//!
//! Both sides run it: transmitters with `--send`, and everybody listens.
//!
//! ```text
//! edge of a slot → Frame (sender, number of the slot) → broadcast ~~~ → Ears → log: sender, number, time, place
//! logs → reading → matrix
//! ```
//! A frame's place is the number of the slot in which its transmitter sent it, so receivers need no
//! clocks. Those of transmitters must agree to within a slot, as NTP and GPS make them.

mod ears;
mod edges;
mod frame;
mod log;
mod matrix;
mod node;
mod radio;
mod reading;
mod turns;

pub(crate) use matrix::matrix;
pub(crate) use reading::{Heard, is_log};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use clap::Args;
use emulator::Failure;
use sys::clock::now;
use sys::print::tell;
use sys::signals::{Asked, Signals};
use units::Duration;

use crate::arguments::positive;
use frame::{FRAME_BYTES, is_name};
use log::LogFile;
use node::{Node, PATIENCE};

/// How often what was written goes to the disk.
const SYNC: Duration = Duration::from_secs(1);
/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Record a flight past two masts. All nodes are on one network (an ad-hoc Wi-Fi, say) and have the
same rate; the masts transmit, the receivers of the drone listen:
  mast 1    fulmar-lab trace record wlan0 --node m1 --send --out m1.log
  mast 2    fulmar-lab trace record wlan0 --node m2 --send --out m2.log
  drone     fulmar-lab trace record wlan0 --node r1 --out r1.log --mavlink 127.0.0.1:14551
            fulmar-lab trace record wlan1 --node r2 --out r2.log
Air to ground as well: let the drone's nodes --send too.

Choose the rate by what the air carries: a frame has 1,472 bytes and its headers, all that transmit
on one channel share it, and slots must leave room for one frame of each. Let the clocks of those
that transmit agree (NTP, GPS); receivers need none. Start those that listen first and end them last:
what is sent while they are not there is a 0 as well. It ends with Ctrl-C, SIGTERM or --seconds, and
goes on when its terminal goes away. Of a node that loses its power the last second is lost.

Then make a slot matrix of all logs, look at it, and fly it again on a desk ([[radio]] in a scenario):
  fulmar-lab trace convert --to slots m1.log m2.log r1.log r2.log --out flight.slots
  fulmar-lab trace plot flight.slots --out flight.svg

What it writes, a line for each frame that was sent or received:
  time_s,event,node,sender,slot,slot_ms,lat_deg,lon_deg,alt_m";

/// The arguments of `trace record`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RecordArgs {
    /// Interface of the radio.
    #[arg(value_name = "INTERFACE")]
    interface: String,
    /// What this node is called: 1 to 15 letters, digits, - or _.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Transmit too: one broadcast of 1,472 bytes in each slot.
    #[arg(long)]
    send: bool,
    /// Where the log goes; it must not be there yet.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Rate that makes the slots: a slot is what 1,472 bytes take at it. All nodes have the same.
    #[arg(long, default_value_t = 1.0, value_name = "MBPS", value_parser = positive)]
    rate_mbps: f64,
    /// UDP port; all nodes have the same.
    #[arg(long, default_value_t = 47_470, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Hand frames to the interface so many slots ahead: for interfaces with slots of their own, as
    /// emulated ones, so that none of these passes idle when this machine is late.
    #[arg(long, default_value_t = 0, value_name = "SLOTS", value_parser = clap::value_parser!(u64).range(..=16))]
    ahead: u64,
    /// How long to record; without it, until Ctrl-C.
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,
    /// Where MAVLink comes in by UDP that tells the position, for instance 127.0.0.1:14551.
    #[arg(long, value_name = "ADDRESS:PORT")]
    mavlink: Option<SocketAddr>,
}

/// Records until it is time or somebody says so.
///
/// # Errors
/// Says which interface, port or file, what is the matter, and what to do.
pub(crate) fn run(args: &RecordArgs) -> Result<(), Failure> {
    let slot_ns = slot_ns(args).map_err(Failure::Usage)?;
    record(args, slot_ns).map_err(Failure::Failed)
}

/// Hears the bytes as a datagram, reads them as a log, and makes a matrix where that is not too
/// long for a fuzzer.
///
/// # Errors
/// As of [`Heard::read`].
#[cfg(fuzzing)]
pub(crate) fn try_log(bytes: &[u8]) -> Result<(), String> {
    let mut ears = ears::Ears::new("own", 1, 11_776_000);
    let mut datagram = bytes.to_vec();
    datagram.resize(FRAME_BYTES, 0);
    let first = ears.hear(units::Instant::ZERO, &datagram);
    assert!(first.is_err() || ears.hear(units::Instant::ZERO, &datagram).is_err(), "heard twice");
    let mut heard = Heard::default();
    heard.read(&mut &*bytes, "fuzz.log")?;
    let slots = || heard.pairs().flat_map(|(_, frames)| &frames.slots);
    let (from, to) = (slots().min().copied().unwrap_or(0), slots().max().copied().unwrap_or(0));
    if to - from > 1_000 {
        return Ok(());
    }
    if let Ok((matrix, _)) = matrix(&heard) {
        let again = netem::SlotMatrix::parse(&matrix.to_text(), "again");
        assert_eq!(again.as_ref(), Ok(&matrix));
    }
    Ok(())
}

fn slot_ns(args: &RecordArgs) -> Result<u64, String> {
    if !is_name(&args.node) {
        let name = &args.node;
        return Err(format!("--node {name:?}: a node has 1 to 15 letters, digits, - or _"));
    }
    let slot_ns = (FRAME_BYTES as f64 * 8.0 / args.rate_mbps * 1e3).round();
    if !(1e5..=6e10).contains(&slot_ns) {
        let (mbps, ms) = (args.rate_mbps, slot_ns / 1e6);
        return Err(format!(
            "--rate-mbps {mbps}: slots would last {ms} ms, not 0.1 ms to a minute"
        ));
    }
    Ok(slot_ns as u64)
}

fn record(args: &RecordArgs, slot_ns: u64) -> Result<(), String> {
    let radio = radio::open(&args.interface, args.port, args.ahead)?;
    let mavlink = args.mavlink.map(radio::open_mavlink).transpose()?;
    let signals = Signals::block().map_err(|error| format!("signals: {error}"))?;
    let node = Node::new(&args.node, slot_ns, radio, LogFile::create(&args.out)?);
    let ms = slot_ns as f64 / 1e6;
    let does = if args.send { "sends and listens" } else { "listens" };
    tell(format_args!("{} {does} on {} in slots of {ms} ms", args.node, args.interface));
    let ended = thread::scope(|scope| {
        scope.spawn(|| node.listen());
        if args.send {
            scope.spawn(|| node.send());
        }
        if let Some(socket) = &mavlink {
            scope.spawn(|| node.follow(socket));
        }
        let ended = watch(&node, &signals, args.seconds);
        node.end();
        ended
    });
    ended.and_then(|()| node.finish(&args.out))
}

/// Looks after the log until it is time to end.
fn watch(node: &Node<'_>, signals: &Signals, seconds: Option<f64>) -> Result<(), String> {
    let start = now();
    let (mut synced, mut told) = (start, start);
    loop {
        let at = now();
        let is_late = seconds.is_some_and(|most| at.since(start).as_secs_f64() >= most);
        // SIGHUP asks for nothing: who recorded over ssh goes on when that breaks.
        if is_late || matches!(signals.take(), Some(Asked::End(_))) || node.is_over() {
            return Ok(());
        }
        if at.since(synced) >= SYNC {
            synced = at;
            node.every_second()?;
        }
        if at.since(told) >= PROGRESS {
            told = at;
            node.progress(at.since(start));
        }
        thread::sleep(PATIENCE.into());
    }
}

#[cfg(test)]
mod tests;
