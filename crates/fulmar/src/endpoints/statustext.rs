//! STATUSTEXT: what the pilot is told of the links, in the window where the vehicle's own messages
//! are.
//!
//! The message is made here, for the programs of one endpoint alone, and is never sent to the peer:
//! each end tells what it sees. It comes from a component of its own of the vehicle's system, since
//! ground stations show no other system's texts beside a vehicle; that component has no heartbeat,
//! for what it says needs none, and an invented one would look like a second vehicle. What there is
//! to say is up to `daemon/pilot`.

use proto::select::{MavlinkFrame, MavlinkFrames, Version, encode_frame};

/// Message id of STATUSTEXT.
const MESSAGE: u32 = 253;
/// Message id of HEARTBEAT.
pub(super) const HEARTBEAT: u32 = 0;
/// MAV_COMP_ID_TELEMETRY_RADIO.
const COMPONENT: u8 = 68;
/// MAV_AUTOPILOT_INVALID: what is no autopilot says so in its heartbeat.
const NO_AUTOPILOT: u8 = 8;
/// Where a heartbeat says which autopilot it is of.
const AUTOPILOT_AT: usize = 5;
/// Bytes of text in one message; longer ones would need MAVLink 2 and a receiver that joins them.
pub(crate) const LONGEST: usize = 50;

/// How much a text matters: MAV_SEVERITY. QGroundControl speaks everything up to a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The vehicle cannot be reached.
    Critical = 2,
    /// One more failure and it cannot.
    Error = 3,
    /// A link has failed, or carries just enough.
    Warning = 4,
    /// Something is well again.
    Notice = 5,
    /// For the record.
    Info = 6,
}

/// The maker of STATUSTEXT frames of one endpoint.
#[derive(Default)]
pub(super) struct StatusText {
    /// The vehicle's system, and the version that it speaks; none before its first heartbeat.
    vehicle: Option<(u8, Version)>,
    sequence: u8,
}

impl StatusText {
    /// Learns the vehicle from its heartbeats, whichever way they pass.
    pub(super) fn on_frames(&mut self, bytes: &[u8]) {
        // Once it is known, the first frame of a datagram is often enough.
        let looks = if self.vehicle.is_some() { 1 } else { usize::MAX };
        if looks == 1 && !may_begin_with_heartbeat(bytes) {
            return;
        }
        if let Some(frame) = MavlinkFrames::new(bytes).take(looks).find(is_vehicle) {
            self.vehicle = Some((frame.system, frame.version));
        }
    }

    /// Makes a frame of a text, of which the first [`LONGEST`] bytes count; none before the vehicle
    /// is known.
    pub(super) fn frame(&mut self, severity: Severity, text: &str) -> Option<Vec<u8>> {
        let (system, version) = self.vehicle?;
        // Version 2 has two more fields, which are zero for a text in one piece, and cuts them off.
        let mut payload = [0; 1 + LONGEST];
        payload[0] = severity as u8;
        for (place, byte) in payload[1..].iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        self.sequence = self.sequence.wrapping_add(1);
        encode_frame(version, self.sequence, (system, COMPONENT), MESSAGE, &payload)
    }

    /// Tells whether there is anybody to speak to.
    pub(super) fn knows_vehicle(&self) -> bool {
        self.vehicle.is_some()
    }
}

/// Tells whether a frame is the heartbeat of an autopilot.
pub(super) fn is_vehicle(frame: &MavlinkFrame<'_>) -> bool {
    let autopilot = frame.payload.get(AUTOPILOT_AT).copied().unwrap_or(0);
    frame.message == HEARTBEAT && autopilot != NO_AUTOPILOT
}

/// Tells whether the bytes may begin with a heartbeat, without looking at more than its header.
fn may_begin_with_heartbeat(bytes: &[u8]) -> bool {
    matches!(bytes, [0xFE, _, _, _, _, 0, ..] | [0xFD, _, _, _, _, _, _, 0, 0, 0, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(version: Version, system: u8, autopilot: u8) -> Vec<u8> {
        encode_frame(version, 1, (system, 1), HEARTBEAT, &[0, 0, 0, 0, 2, autopilot, 81, 4, 3])
            .unwrap()
    }

    #[test]
    fn it_speaks_as_the_vehicle_that_was_heard_and_in_its_version() {
        let mut text = StatusText::default();
        assert_eq!(text.frame(Severity::Warning, "too early"), None);
        text.on_frames(&heartbeat(Version::V2, 255, NO_AUTOPILOT));
        assert!(!text.knows_vehicle(), "a ground station");
        // Behind another frame, as long as it is not known.
        let other = encode_frame(Version::V2, 1, (7, 1), 30, &[1; 28]).unwrap();
        text.on_frames(&[other, heartbeat(Version::V2, 7, 3)].concat());
        let frame = text.frame(Severity::Warning, "wifi silent").unwrap();
        let read = MavlinkFrames::new(&frame).next().unwrap();
        assert_eq!((read.system, read.component, read.message), (7, 68, MESSAGE));
        assert_eq!(read.payload, b"\x04wifi silent");
        text.on_frames(&heartbeat(Version::V1, 8, 12));
        let frame = text.frame(Severity::Critical, &"x".repeat(80)).unwrap();
        let read = MavlinkFrames::new(&frame).next().unwrap();
        assert_eq!((read.system, read.version, read.payload.len()), (8, Version::V1, 51));
        assert_eq!(read.payload[0], 2);
    }
}
