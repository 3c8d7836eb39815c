//! Which MAVLink message gets which delivery policy, unless the configuration says otherwise.
//!
//! What an autopilot does with a copy, a late one or a missing one decides [specs/delivery.md §2].

use super::Policy;

/// SETUP_SIGNING carries the secret that frames are signed with.
pub const SETUP_SIGNING: u32 = 256;

/// Returns the policy of a message id that the public definitions know; `None` when it is not
/// forwarded.
pub(super) fn default_policy(message: u32) -> Option<Policy> {
    Some(match message {
        // Commands, missions, parameter writes, mode changes: a copy executes twice, a duplicate
        // mission item fails an upload.
        5
        | 6
        | 11
        | 20
        | 21
        | 23
        | 39
        | 40
        | 41
        | 43..=48
        | 51
        | 66
        | 73
        | 75..=77
        | 80
        | 126
        | 160
        | 161
        | 175
        | 176
        | 243
        | 253
        | 323
        | 324
        | 410
        | 412 => Policy::TRANSACTIONAL,
        // Sticks and set-points: an older one after a newer one holds for seconds.
        69 | 70 | 82 | 84 | 86 | 139 | 144 | 149 | 282 | 284 | 287 | 288 | 420 | 421 => {
            Policy::LIVE
        }
        // Heartbeat, system time, ping, time synchronisation: failsafes and clocks watch them.
        0 | 2 | 4 | 111 => Policy::LIVENESS,
        // Parameter values, files, logs, encapsulated data, terrain.
        22 | 110 | 117..=122 | 134 | 266..=268 | 385 => Policy::TRANSFER,
        // Corrections for satellite navigation.
        233 => Policy::EXPIRING,
        SETUP_SIGNING => return None,
        _ => Policy::TELEMETRY,
    })
}

#[cfg(test)]
mod tests {
    use super::super::messages::MESSAGES;
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

    #[test]
    fn every_id_of_the_table_is_a_known_message() {
        for policy in [Policy::TRANSACTIONAL, Policy::LIVE, Policy::LIVENESS, Policy::TRANSFER] {
            for id in ids(policy) {
                assert!(MESSAGES.iter().any(|known| known.id == id), "{id}");
            }
        }
    }
}
