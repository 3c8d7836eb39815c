//! MAVLink beside a record, as Mission Planner, MAVProxy and QGroundControl read it: eight bytes of
//! microseconds since 1970, the most significant first, then the frame. And where a frame says that
//! the vehicle is.

use crate::schema::{Position, Time};

/// GLOBAL_POSITION_INT.
const POSITION: u32 = 33;
/// Bytes of its payload up to the altitude: time, latitude, longitude, altitude.
const POSITION_BYTES: usize = 16;
/// First bytes of frames of MAVLink 1 and 2.
const MAGIC1: u8 = 0xFE;
const MAGIC2: u8 = 0xFD;

/// Adds a frame to what is to be written.
pub fn add(log: &mut Vec<u8>, time_ns: u64, frame: &[u8]) {
    log.extend((time_ns / 1_000).to_be_bytes());
    log.extend(frame);
}

/// Returns the message id of a frame.
pub fn message_id(frame: &[u8]) -> Option<u32> {
    match *frame {
        [MAGIC1, _, _, _, _, id, ..] => Some(id.into()),
        [MAGIC2, _, _, _, _, _, _, low, middle, high, ..] => {
            Some(u32::from_le_bytes([low, middle, high, 0]))
        }
        _ => None,
    }
}

/// Returns the position that a frame tells; none of other frames, and of those without a fix (0°,
/// 0°).
pub fn position(time_ns: u64, frame: &[u8]) -> Option<Position> {
    if message_id(frame)? != POSITION {
        return None;
    }
    let header = if frame[0] == MAGIC1 { 6 } else { 10 };
    let (system, component) = if header == 6 { (frame[3], frame[4]) } else { (frame[5], frame[6]) };
    // Zeros at the end of a payload are not sent.
    let mut payload = [0; POSITION_BYTES];
    let sent = frame.get(header..)?.get(..usize::from(frame[1]))?;
    let sent = &sent[..sent.len().min(POSITION_BYTES)];
    payload[..sent.len()].copy_from_slice(sent);
    let number = |at: usize| {
        i32::from_le_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]])
    };
    let (latitude, longitude, altitude) = (number(4), number(8), number(12));
    let is_on_earth =
        latitude.unsigned_abs() <= 900_000_000 && longitude.unsigned_abs() <= 1_800_000_000;
    if (latitude, longitude) == (0, 0) || !is_on_earth {
        return None;
    }
    Some(Position {
        timestamp: Time::from_ns(time_ns),
        frame_id: format!("{system}/{component}"),
        latitude: f64::from(latitude) / 1e7,
        longitude: f64::from(longitude) / 1e7,
        altitude: f64::from(altitude) / 1e3,
        ..Position::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Vec<u8> {
        let mut payload = 1_000_u32.to_le_bytes().to_vec();
        for number in [473_977_420_i32, 85_455_940, 488_500] {
            payload.extend(number.to_le_bytes());
        }
        payload.extend([0; 12]);
        payload
    }

    #[test]
    fn position_is_read_of_both_versions_and_of_a_payload_cut_at_its_zeros() {
        let mut one = vec![MAGIC1, 28, 0, 7, 1, 33];
        one.extend(payload());
        let mut two = vec![MAGIC2, 16, 0, 0, 0, 7, 1, 33, 0, 0];
        two.extend(&payload()[..16]);
        for mut frame in [one, two] {
            frame.extend([0, 0]);
            let found = position(1_500_000_000, &frame).unwrap();
            assert_eq!((found.latitude, found.longitude), (47.397_742, 8.545_594));
            assert_eq!((found.altitude, found.frame_id.as_str()), (488.5, "7/1"));
            assert_eq!(found.timestamp, Time { sec: 1, nsec: 500_000_000 });
            for cut in 0..frame.len() {
                let _ = position(0, &frame[..cut]);
            }
        }
    }
}
