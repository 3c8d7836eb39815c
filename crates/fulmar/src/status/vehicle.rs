//! A vehicle in one line, for tables, the screen and the page.

use super::VehicleReport;
use super::table::span;

/// After so many seconds without a heartbeat a vehicle is told as silent; they come once a second.
const SILENT_S: f64 = 4.0;

/// Says how a vehicle is: "vehicle 1: LOITER, armed, battery 71 % (15.2 V), heard 1 s ago".
pub(crate) fn vehicle_words(vehicle: &VehicleReport) -> String {
    let VehicleReport { system, mode, heard_s, .. } = vehicle;
    let armed = if vehicle.armed { "armed" } else { "disarmed" };
    let battery = match (vehicle.battery_percent, vehicle.battery_v) {
        (Some(percent), Some(volts)) => format!(", battery {percent} % ({volts:.1} V)"),
        (Some(percent), None) => format!(", battery {percent} %"),
        (None, Some(volts)) => format!(", battery {volts:.1} V"),
        (None, None) => String::new(),
    };
    let state = match vehicle.state.as_str() {
        state @ ("critical" | "emergency" | "termination") => format!(", {state}"),
        _ => String::new(),
    };
    let silent = if *heard_s < SILENT_S { "heard" } else { "silent, last heard" };
    let ago = span(*heard_s);
    format!("vehicle {system}: {mode}, {armed}{state}{battery}, {silent} {ago} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vehicle_is_told_in_one_line() {
        let vehicle = VehicleReport {
            system: 1,
            mode: "LOITER".into(),
            armed: true,
            state: "active".into(),
            battery_percent: Some(71),
            battery_v: Some(15.21),
            heard_s: 0.4,
        };
        let told = "vehicle 1: LOITER, armed, battery 71 % (15.2 V), heard 0 s ago";
        assert_eq!(vehicle_words(&vehicle), told);
        let vehicle = VehicleReport {
            armed: false,
            state: "emergency".into(),
            battery_percent: None,
            battery_v: None,
            heard_s: 75.0,
            ..vehicle
        };
        let told = "vehicle 1: LOITER, disarmed, emergency, silent, last heard 1 min 15 s ago";
        assert_eq!(vehicle_words(&vehicle), told);
    }
}
