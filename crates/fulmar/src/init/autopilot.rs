//! Listens on serial ports for an autopilot, at one speed after the other.
//!
//! An autopilot is known by its HEARTBEAT, which comes once a second with a checksum of its own.
//! Nothing is written to a port: what hangs there may not be an autopilot at all.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;

use proto::Duration;
use proto::select::{MavlinkFrame, StreamFramer};
use sys::clock;
use sys::serial::{FlowControl, Serial};

/// Speeds in baud, likely ones first: ArduPilot's and PX4's defaults, and what telemetry is raised
/// to.
const SPEEDS: [u32; 6] = [115_200, 57_600, 921_600, 460_800, 230_400, 1_500_000];
/// Time at each speed: a heartbeat a second, and half of one to spare.
const AT_EACH: Duration = Duration::from_millis(1_500);
/// Between two looks at a port; its driver holds 4 kB, 27 ms at the highest speed.
const LOOK: Duration = Duration::from_millis(10);
/// The message id of HEARTBEAT, and where its payload says which autopilot sends it.
const HEARTBEAT: u32 = 0;
const AUTOPILOT_AT: usize = 5;
/// `MAV_AUTOPILOT_INVALID`: a ground station or a gimbal, no autopilot.
const NO_AUTOPILOT: u8 = 8;

/// What was heard on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) device: PathBuf,
    pub(super) outcome: Outcome,
}

/// What listening to a port came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The heartbeat of this system, at this speed in baud.
    Autopilot { system: u8, baud: u32 },
    /// Nothing that is an autopilot's.
    Nothing,
    /// The port cannot be listened to, and why.
    Trouble(String),
}

/// Listens to all ports at once; takes nine seconds where nothing is heard.
pub(super) fn listen(ports: &[PathBuf]) -> Vec<Heard> {
    let one =
        |device: &PathBuf| Heard { device: device.clone(), outcome: listen_to(device, AT_EACH) };
    thread::scope(|scope| {
        let started: Vec<_> = ports.iter().map(|port| scope.spawn(move || one(port))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn listen_to(device: &Path, at_each: Duration) -> Outcome {
    let mut opened = false;
    let mut trouble = None;
    for baud in SPEEDS {
        match Serial::open(device, baud, FlowControl::None) {
            Ok(port) => {
                opened = true;
                match heartbeat(&port, at_each) {
                    Ok(Some(system)) => return Outcome::Autopilot { system, baud },
                    Ok(None) => {}
                    Err(error) => return Outcome::Trouble(words(&error)),
                }
            }
            // Some speeds are not every port's.
            Err(error) => trouble = Some(words(&error)),
        }
    }
    match trouble {
        Some(trouble) if !opened => Outcome::Trouble(trouble),
        _ => Outcome::Nothing,
    }
}

/// Waits for an autopilot's heartbeat; returns its system id.
fn heartbeat(port: &Serial, within: Duration) -> std::io::Result<Option<u8>> {
    let deadline = clock::now() + within;
    let mut framer = StreamFramer::default();
    let mut buffer = [0_u8; 4_096];
    // However much comes in: the clock ends it.
    while clock::now() < deadline {
        let Some(count) = port.read(&mut buffer)? else {
            thread::sleep(LOOK.into());
            continue;
        };
        let mut system = None;
        let take = |frame: &MavlinkFrame<'_>| system = system.or(autopilot_of(frame));
        framer.push(clock::now(), &buffer[..count], take);
        if system.is_some() {
            return Ok(system);
        }
    }
    Ok(None)
}

fn autopilot_of(frame: &MavlinkFrame<'_>) -> Option<u8> {
    let autopilot = frame.payload.get(AUTOPILOT_AT).copied().unwrap_or(0);
    (frame.message == HEARTBEAT && autopilot != NO_AUTOPILOT).then_some(frame.system)
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "not permitted: sudo, or the group dialout".into(),
        ErrorKind::ResourceBusy => "busy: another program has it".into(),
        ErrorKind::NotFound => "not there".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proto::select::{Version, encode_frame};
    use sys::serial::PseudoTerminal;

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    fn beat(version: Version, autopilot: u8) -> Vec<u8> {
        encode_frame(version, 0, (7, 1), HEARTBEAT, &[0, 0, 0, 0, 2, autopilot, 81, 4, 3]).unwrap()
    }

    /// What is heard on a line on which `bytes` come in again and again, without a pause where
    /// there are many.
    fn heard(bytes: &[u8]) -> Outcome {
        let line = PseudoTerminal::open().unwrap();
        let device = line.device().to_owned();
        let bytes = bytes.to_owned();
        // It ends with the test's process: a write waits for as long as nobody reads.
        thread::spawn(move || {
            while line.write(&bytes).is_ok() {
                thread::sleep(if bytes.len() < 512 { LOOK } else { Duration::ZERO }.into());
            }
        });
        listen_to(&device, SHORT)
    }

    #[test]
    fn an_autopilot_is_heard_in_both_versions_of_mavlink_and_behind_a_boot_loaders_words() {
        for version in [Version::V1, Version::V2] {
            let bytes = [b"boot: ok\r\n".as_slice(), &beat(version, 3)].concat();
            assert_eq!(heard(&bytes), Outcome::Autopilot { system: 7, baud: SPEEDS[0] });
        }
    }

    #[test]
    fn a_ground_station_or_a_broken_heartbeat_is_no_autopilot() {
        assert_eq!(heard(&beat(Version::V2, NO_AUTOPILOT)), Outcome::Nothing);
        let mut broken = beat(Version::V2, 3);
        *broken.last_mut().unwrap() ^= 1;
        assert_eq!(heard(&broken), Outcome::Nothing);
    }

    #[test]
    fn a_flood_of_nonsense_ends_in_time() {
        let flood = [0xfd, 0xff, 0, 0, 0, 1, 1, 0, 0, 0].repeat(100);
        assert_eq!(heard(&flood), Outcome::Nothing);
    }

    #[test]
    fn what_cannot_be_listened_to_is_named() {
        let ports = ["/nonexistent/tty", "/dev/null"].map(PathBuf::from);
        let all = listen(&ports);
        assert_eq!(all[0].outcome, Outcome::Trouble("not there".into()));
        assert!(matches!(all[1].outcome, Outcome::Trouble(_)), "{all:?}");
    }
}
