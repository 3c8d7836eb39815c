//! Which MAVLink message gets which delivery policy, unless the configuration says otherwise.
//!
//! What an autopilot does with a copy, a late one or a missing one decides [specs/delivery.md §2].

use super::Policy;
use super::messages::MESSAGES;

/// SETUP_SIGNING carries the secret that frames are signed with.
pub const SETUP_SIGNING: u32 = id("SETUP_SIGNING");

/// Commands, missions, parameter writes, mode changes: a copy executes twice, a duplicate mission
/// item fails an upload.
const TRANSACTIONAL: [u32; 33] = ids([
    "CHANGE_OPERATOR_CONTROL",
    "CHANGE_OPERATOR_CONTROL_ACK",
    "SET_MODE",
    "PARAM_REQUEST_READ",
    "PARAM_REQUEST_LIST",
    "PARAM_SET",
    "MISSION_ITEM",
    "MISSION_REQUEST",
    "MISSION_SET_CURRENT",
    "MISSION_REQUEST_LIST",
    "MISSION_COUNT",
    "MISSION_CLEAR_ALL",
    "MISSION_ITEM_REACHED",
    "MISSION_ACK",
    "SET_GPS_GLOBAL_ORIGIN",
    "MISSION_REQUEST_INT",
    "REQUEST_DATA_STREAM",
    "MISSION_ITEM_INT",
    "COMMAND_INT",
    "COMMAND_LONG",
    "COMMAND_ACK",
    "COMMAND_CANCEL",
    "SERIAL_CONTROL",
    "FENCE_POINT",
    "FENCE_FETCH_POINT",
    "RALLY_POINT",
    "RALLY_FETCH_POINT",
    "SET_HOME_POSITION",
    "STATUSTEXT",
    "PARAM_EXT_SET",
    "PARAM_EXT_ACK",
    "EVENT",
    "REQUEST_EVENT",
]);

/// Sticks and set-points: an older one after a newer one holds for seconds.
const LIVE: [u32; 14] = ids([
    "MANUAL_CONTROL",
    "RC_CHANNELS_OVERRIDE",
    "SET_ATTITUDE_TARGET",
    "SET_POSITION_TARGET_LOCAL_NED",
    "SET_POSITION_TARGET_GLOBAL_INT",
    "SET_ACTUATOR_CONTROL_TARGET",
    "FOLLOW_TARGET",
    "LANDING_TARGET",
    "GIMBAL_MANAGER_SET_ATTITUDE",
    "GIMBAL_DEVICE_SET_ATTITUDE",
    "GIMBAL_MANAGER_SET_PITCHYAW",
    "GIMBAL_MANAGER_SET_MANUAL_CONTROL",
    "RADIO_RC_CHANNELS",
    "RC_CHANNELS_OVERRIDE_V2",
]);

/// Heartbeat, system time, ping, time synchronisation: failsafes and clocks watch them.
const LIVENESS: [u32; 4] = ids(["HEARTBEAT", "SYSTEM_TIME", "PING", "TIMESYNC"]);

/// Parameter values, files, logs, encapsulated data, terrain.
const TRANSFER: [u32; 13] = ids([
    "PARAM_VALUE",
    "FILE_TRANSFER_PROTOCOL",
    "LOG_REQUEST_LIST",
    "LOG_ENTRY",
    "LOG_REQUEST_DATA",
    "LOG_DATA",
    "LOG_ERASE",
    "LOG_REQUEST_END",
    "TERRAIN_DATA",
    "LOGGING_DATA",
    "LOGGING_DATA_ACKED",
    "LOGGING_ACK",
    "TUNNEL",
]);

/// Corrections for satellite navigation.
const EXPIRING: [u32; 1] = ids(["GPS_RTCM_DATA"]);

/// Returns the policy of a message id that the public definitions know; `None` when it is not
/// forwarded.
pub(super) fn default_policy(message: u32) -> Option<Policy> {
    Some(match message {
        SETUP_SIGNING => return None,
        _ if TRANSACTIONAL.contains(&message) => Policy::TRANSACTIONAL,
        _ if LIVE.contains(&message) => Policy::LIVE,
        _ if LIVENESS.contains(&message) => Policy::LIVENESS,
        _ if TRANSFER.contains(&message) => Policy::TRANSFER,
        _ if EXPIRING.contains(&message) => Policy::EXPIRING,
        _ => Policy::TELEMETRY,
    })
}

const fn ids<const N: usize>(names: [&str; N]) -> [u32; N] {
    let mut ids = [0; N];
    let mut at = 0;
    while at < N {
        ids[at] = id(names[at]);
        at += 1;
    }
    ids
}

/// Looks a message up by its name; an unknown name does not compile.
const fn id(name: &str) -> u32 {
    let mut at = 0;
    while at < MESSAGES.len() {
        if is_same(MESSAGES[at].name.as_bytes(), name.as_bytes()) {
            return MESSAGES[at].id;
        }
        at += 1;
    }
    panic!("the public definitions have no message of this name");
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(policy: Policy) -> Vec<u32> {
        let has = |id: &u32| default_policy(*id) == Some(policy);
        (0..1 << 16).filter(has).collect()
    }

    #[test]
    fn table_is_as_specified() {
        let transactional = [
            5, 6, 11, 20, 21, 23, 39, 40, 41, 43, 44, 45, 46, 47, 48, 51, 66, 73, 75, 76, 77, 80,
            126, 160, 161, 175, 176, 243, 253, 323, 324, 410, 412,
        ];
        let live = [69, 70, 82, 84, 86, 139, 144, 149, 282, 284, 287, 288, 420, 421];
        let bulk = [22, 110, 117, 118, 119, 120, 121, 122, 134, 266, 267, 268, 385];
        assert_eq!(ids(Policy::TRANSACTIONAL), transactional);
        assert_eq!(ids(Policy::LIVE), live);
        assert_eq!(ids(Policy::LIVENESS), [0, 2, 4, 111]);
        assert_eq!(ids(Policy::TRANSFER), bulk);
        assert_eq!(ids(Policy::EXPIRING), [233]);
        assert_eq!(default_policy(SETUP_SIGNING), None);
        assert_eq!(default_policy(30), Some(Policy::TELEMETRY));
    }
}
