//! What is known of the vehicles of a session from the HEARTBEAT and SYS_STATUS that pass by, at
//! whichever end they are.
//!
//! Nothing is asked for and nothing depends on it: a person who watches is shown mode, armed,
//! battery, and when each was last heard.

use std::collections::BTreeMap;

use proto::Instant;
use proto::select::MavlinkFrame;

use super::modes::mode;
use super::statustext::{HEARTBEAT, is_vehicle};

/// Message id of SYS_STATUS.
const SYS_STATUS: u32 = 1;
/// MAV_MODE_FLAG_SAFETY_ARMED.
const ARMED: u8 = 0x80;
/// Vehicles of one session that are told of; a further one takes the place of the one that has been
/// silent for longest.
const VEHICLES: usize = 16;

/// The vehicles of one session, by system.
#[derive(Default)]
pub(crate) struct Vehicles(BTreeMap<u8, Vehicle>);

/// A vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vehicle {
    component: u8,
    kind: u8,
    autopilot: u8,
    base_mode: u8,
    custom_mode: u32,
    state: u8,
    /// When it was heard last.
    pub(crate) heard: Instant,
    /// Voltage of its battery, in volts.
    pub(crate) battery_v: Option<f64>,
    /// What is left in it, in percent.
    pub(crate) battery_percent: Option<u8>,
}

impl Vehicles {
    /// Walks them, by system.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Vehicle)> {
        self.0.iter().map(|(system, vehicle)| (*system, vehicle))
    }

    /// Looks at a frame that passes by.
    pub(super) fn on_frame(&mut self, now: Instant, frame: &MavlinkFrame<'_>) {
        match frame.message {
            HEARTBEAT if is_vehicle(frame) => self.on_heartbeat(now, frame),
            SYS_STATUS => self.on_sys_status(frame),
            _ => {}
        }
    }

    fn on_heartbeat(&mut self, now: Instant, frame: &MavlinkFrame<'_>) {
        if self.0.len() >= VEHICLES && !self.0.contains_key(&frame.system) {
            let quietest = self.0.iter().min_by_key(|(_, vehicle)| vehicle.heard);
            if let Some((&system, _)) = quietest {
                self.0.remove(&system);
            }
        }
        let [a, b, c, d, kind, autopilot, base_mode, state] = whole(frame.payload);
        let known = self.0.get(&frame.system);
        let vehicle = Vehicle {
            component: frame.component,
            custom_mode: u32::from_le_bytes([a, b, c, d]),
            kind,
            autopilot,
            base_mode,
            state,
            heard: now,
            battery_v: known.and_then(|known| known.battery_v),
            battery_percent: known.and_then(|known| known.battery_percent),
        };
        self.0.insert(frame.system, vehicle);
    }

    fn on_sys_status(&mut self, frame: &MavlinkFrame<'_>) {
        let Some(vehicle) = self.0.get_mut(&frame.system) else { return };
        if vehicle.component != frame.component {
            return;
        }
        let payload: [u8; 31] = whole(frame.payload);
        let millivolts = u16::from_le_bytes([payload[14], payload[15]]);
        // What is not measured is all ones; no battery has no voltage.
        let is_known = !matches!(millivolts, 0 | u16::MAX);
        vehicle.battery_v = is_known.then(|| f64::from(millivolts) / 1e3);
        vehicle.battery_percent = Some(payload[30]).filter(|percent| *percent <= 100);
    }
}

impl Vehicle {
    /// Names its mode, as its makers do.
    pub(crate) fn mode(&self) -> String {
        mode(self.autopilot, self.kind, self.base_mode, self.custom_mode)
    }

    /// Tells whether it is armed.
    pub(crate) fn is_armed(&self) -> bool {
        self.base_mode & ARMED != 0
    }

    /// Returns the word for MAV_STATE.
    pub(crate) fn state(&self) -> &'static str {
        const WORDS: [&str; 9] = [
            "unknown",
            "boot",
            "calibrating",
            "standby",
            "active",
            "critical",
            "emergency",
            "poweroff",
            "termination",
        ];
        WORDS.get(usize::from(self.state)).copied().unwrap_or("unknown")
    }
}

/// Returns the first bytes of a payload, with the zeros that version 2 has cut off.
fn whole<const N: usize>(payload: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(payload).for_each(|(byte, given)| *byte = *given);
    bytes
}

#[cfg(test)]
mod tests {
    use proto::select::{MavlinkFrames, Version, encode_frame};

    use super::*;

    fn hear(vehicles: &mut Vehicles, ms: u64, source: (u8, u8), message: u32, payload: &[u8]) {
        let frame = encode_frame(Version::V2, 1, source, message, payload).unwrap();
        let frame = MavlinkFrames::new(&frame).next().unwrap();
        vehicles.on_frame(Instant::from_millis(ms), &frame);
    }

    #[test]
    fn mode_armed_and_battery_are_read_from_what_passes_by() {
        let mut vehicles = Vehicles::default();
        let mut battery = [0; 31];
        battery[14..16].copy_from_slice(&15_200_u16.to_le_bytes());
        battery[30] = 71;
        hear(&mut vehicles, 1, (7, 1), SYS_STATUS, &battery);
        assert_eq!(vehicles.iter().count(), 0, "of a vehicle that is not known");
        // A copter of ArduPilot in LOITER, armed; its gimbal and a ground station are no vehicles.
        hear(&mut vehicles, 2, (7, 1), HEARTBEAT, &[5, 0, 0, 0, 2, 3, 0x81, 4, 3]);
        hear(&mut vehicles, 3, (7, 154), HEARTBEAT, &[0, 0, 0, 0, 26, 8, 0, 4, 3]);
        hear(&mut vehicles, 4, (255, 190), HEARTBEAT, &[0, 0, 0, 0, 6, 8, 0xc0, 4, 3]);
        hear(&mut vehicles, 5, (7, 1), SYS_STATUS, &battery);
        hear(&mut vehicles, 6, (7, 154), SYS_STATUS, &[0; 31]);
        let all: Vec<_> = vehicles.iter().collect();
        let [(7, vehicle)] = all[..] else { panic!("{all:?}") };
        let told = (vehicle.mode(), vehicle.is_armed(), vehicle.state());
        assert_eq!(told, ("LOITER".into(), true, "active"));
        assert_eq!((vehicle.battery_v, vehicle.battery_percent), (Some(15.2), Some(71)));
        assert_eq!(vehicle.heard, Instant::from_millis(2));
        battery[14..16].fill(0xff);
        battery[30] = 0xff;
        hear(&mut vehicles, 7, (7, 1), SYS_STATUS, &battery);
        let (_, vehicle) = vehicles.iter().next().unwrap();
        assert_eq!((vehicle.battery_v, vehicle.battery_percent), (None, None));
    }

    #[test]
    fn a_swarm_behind_one_session_has_a_bound() {
        let mut vehicles = Vehicles::default();
        for system in 1..=250 {
            hear(
                &mut vehicles,
                system.into(),
                (system, 1),
                HEARTBEAT,
                &[0, 0, 0, 0, 2, 3, 1, 3, 3],
            );
        }
        let systems: Vec<u8> = vehicles.iter().map(|(system, _)| system).collect();
        assert_eq!(systems, (235..=250).collect::<Vec<u8>>());
    }
}
