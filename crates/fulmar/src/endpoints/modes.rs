//! The names of flight modes: HEARTBEAT has a number whose meaning is the autopilot's own.
//!
//! Sources: ArduPilot's `mode.h` of Copter, Plane, Rover and Sub; PX4's `px4_custom_mode.h`.

/// MAV_AUTOPILOT of ArduPilot and PX4.
const ARDUPILOT: u8 = 3;
const PX4: u8 = 12;
/// MAV_MODE_FLAG_CUSTOM_MODE_ENABLED: without it the number says nothing.
const HAS_NUMBER: u8 = 1;

/// The modes of a kind of vehicle, by number; those without a name are empty.
type Modes = &'static [&'static str];

const COPTER: Modes = &[
    "STABILIZE",
    "ACRO",
    "ALT_HOLD",
    "AUTO",
    "GUIDED",
    "LOITER",
    "RTL",
    "CIRCLE",
    "",
    "LAND",
    "",
    "DRIFT",
    "",
    "SPORT",
    "FLIP",
    "AUTOTUNE",
    "POSHOLD",
    "BRAKE",
    "THROW",
    "AVOID_ADSB",
    "GUIDED_NOGPS",
    "SMART_RTL",
    "FLOWHOLD",
    "FOLLOW",
    "ZIGZAG",
    "SYSTEMID",
    "AUTOROTATE",
    "AUTO_RTL",
    "TURTLE",
];
const PLANE: Modes = &[
    "MANUAL",
    "CIRCLE",
    "STABILIZE",
    "TRAINING",
    "ACRO",
    "FBWA",
    "FBWB",
    "CRUISE",
    "AUTOTUNE",
    "",
    "AUTO",
    "RTL",
    "LOITER",
    "TAKEOFF",
    "AVOID_ADSB",
    "GUIDED",
    "INITIALISING",
    "QSTABILIZE",
    "QHOVER",
    "QLOITER",
    "QLAND",
    "QRTL",
    "QAUTOTUNE",
    "QACRO",
    "THERMAL",
    "LOITER_TO_QLAND",
    "AUTOLAND",
];
const ROVER: Modes = &[
    "MANUAL",
    "ACRO",
    "",
    "STEERING",
    "HOLD",
    "LOITER",
    "FOLLOW",
    "SIMPLE",
    "DOCK",
    "CIRCLE",
    "AUTO",
    "RTL",
    "SMART_RTL",
    "",
    "",
    "GUIDED",
    "INITIALISING",
];
const SUB: Modes = &[
    "STABILIZE",
    "ACRO",
    "ALT_HOLD",
    "AUTO",
    "GUIDED",
    "",
    "",
    "CIRCLE",
    "",
    "SURFACE",
    "",
    "",
    "",
    "",
    "",
    "",
    "POSHOLD",
    "",
    "",
    "MANUAL",
    "MOTOR_DETECT",
    "SURFTRAK",
];
const PX4_MAIN: Modes = &[
    "",
    "MANUAL",
    "ALTCTL",
    "POSCTL",
    "AUTO",
    "ACRO",
    "OFFBOARD",
    "STABILIZED",
    "RATTITUDE",
    "SIMPLE",
    "TERMINATION",
];
const PX4_AUTO: Modes = &[
    "",
    "READY",
    "TAKEOFF",
    "LOITER",
    "MISSION",
    "RTL",
    "LAND",
    "RTGS",
    "FOLLOW_TARGET",
    "PRECLAND",
    "VTOL_TAKEOFF",
];

/// Names a mode of an autopilot of some MAV_AUTOPILOT, in a vehicle of some MAV_TYPE.
pub(super) fn mode(autopilot: u8, kind: u8, base_mode: u8, number: u32) -> String {
    if base_mode & HAS_NUMBER == 0 {
        return by_flags(base_mode).into();
    }
    let named = match autopilot {
        ARDUPILOT => ardupilot(kind).and_then(|modes| named(modes, number)).map(str::to_owned),
        PX4 => px4(number),
        _ => None,
    };
    named.unwrap_or_else(|| format!("mode {number}"))
}

fn ardupilot(kind: u8) -> Option<Modes> {
    Some(match kind {
        // Quadrotor, coaxial, helicopter, hexa-, octo-, tri-, deca-, dodecarotor.
        2..=4 | 13..=15 | 29 | 35 => COPTER,
        // Fixed wing, and what takes off upright.
        1 | 19..=25 => PLANE,
        10 | 11 => ROVER,
        12 => SUB,
        _ => return None,
    })
}

fn px4(number: u32) -> Option<String> {
    let (main, sub) = (number >> 16 & 0xff, number >> 24);
    let name = named(PX4_MAIN, main)?;
    let of_auto = named(PX4_AUTO, sub).filter(|_| name == "AUTO");
    Some(of_auto.map_or_else(|| name.into(), |sub| format!("AUTO.{sub}")))
}

fn named(modes: Modes, number: u32) -> Option<&'static str> {
    let name = modes.get(usize::try_from(number).ok()?)?;
    (!name.is_empty()).then_some(name)
}

/// Names a mode by the flags that every autopilot has.
fn by_flags(base_mode: u8) -> &'static str {
    match base_mode {
        flags if flags & 0x04 != 0 => "auto",
        flags if flags & 0x08 != 0 => "guided",
        flags if flags & 0x10 != 0 => "stabilize",
        flags if flags & 0x40 != 0 => "manual",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_names_that_their_makers_give_them() {
        for (autopilot, kind, number, name) in [
            (3, 2, 4, "GUIDED"),
            (3, 13, 17, "BRAKE"),
            (3, 1, 11, "RTL"),
            (3, 1, 26, "AUTOLAND"),
            (3, 10, 4, "HOLD"),
            (3, 12, 19, "MANUAL"),
            (3, 2, 8, "mode 8"),
            (3, 26, 3, "mode 3"),
            (12, 2, 3 << 16, "POSCTL"),
            (12, 2, 4 << 16 | 4 << 24, "AUTO.MISSION"),
            (12, 2, 4 << 16 | 99 << 24, "AUTO"),
            (12, 2, u32::MAX, "mode 4294967295"),
            (18, 2, 7, "mode 7"),
        ] {
            assert_eq!(mode(autopilot, kind, 0x81, number), name);
        }
        assert_eq!([0x80, 0xc0, 0x9c].map(by_flags), ["unknown", "manual", "auto"]);
    }
}
