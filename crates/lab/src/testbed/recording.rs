//! The recorded MAVLink that plays in both directions: a flight that comes with the program
//! (data/README.md says where it is from), or a tlog of one's own.
//!
//! A tlog repeats the time, microseconds since 1970 in eight bytes, the first the highest, and a
//! frame. What a radio has damaged is left out: a daemon would not forward it either.

use std::path::Path;

use proto::select::{Direction as Way, Policy, Selector, SelectorConfig};
use units::Duration;

use super::Direction;

/// Sixty seconds of an ArduCopter and its ground station, as a tlog.
const FLIGHT: &[u8] = include_bytes!("../../data/arducopter_flight.tlog");
/// The most bytes of a tlog: hours of a busy vehicle.
const FILE_MAX: u64 = 64 << 20;
/// Bytes of the time in front of every frame.
const TIME_BYTES: usize = 8;
/// First bytes of frames of MAVLink 1 and 2.
const MAGIC_V1: u8 = 0xFE;
const MAGIC_V2: u8 = 0xFD;
/// Frames further apart than this do not belong to one recording: garbage looks like any time.
const APART_MAX_US: u64 = 3_600_000_000;
/// HEARTBEAT: which systems are vehicles is said by their autopilots alone.
const HEARTBEAT: u32 = 0;
/// MAV_AUTOPILOT_INVALID: what a ground station says of its autopilot.
const NO_AUTOPILOT: u8 = 8;

/// One MAVLink frame of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedFrame {
    /// When it was sent, from the start of the recording.
    pub(crate) at: Duration,
    /// The whole frame.
    pub(crate) bytes: &'static [u8],
    /// How a session delivers it.
    pub(crate) policy: Policy,
}

/// Holds the recorded MAVLink, split by direction.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    up: Vec<RecordedFrame>,
    down: Vec<RecordedFrame>,
}

impl Recording {
    /// Reads the recording that comes with the program.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub(crate) fn load() -> Result<Self, String> {
        Self::parse(FLIGHT).map_err(|what| format!("recorded flight: {what}"))
    }

    /// Reads a tlog.
    ///
    /// # Errors
    /// Says which file does not read, or that it holds no MAVLink of a vehicle and its ground.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let describe = |what: &dyn core::fmt::Display| format!("read {}: {what}", path.display());
        let len = std::fs::metadata(path).map_err(|error| describe(&error))?.len();
        if len > FILE_MAX {
            return Err(describe(&format!("has {len} bytes; {FILE_MAX} are the most")));
        }
        let log = std::fs::read(path).map_err(|error| describe(&error))?;
        // A run plays one recording, as long as the program lives: what it sends and what it
        // compares with are slices of it.
        Self::parse(log.leak()).map_err(|what| describe(&what))
    }

    /// Returns the frames of one direction in the order of time.
    pub(crate) fn frames(&self, direction: Direction) -> &[RecordedFrame] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns how long it is.
    pub(crate) fn length(&self) -> Duration {
        let last =
            |frames: &[RecordedFrame]| frames.last().map_or(Duration::ZERO, |frame| frame.at);
        last(&self.up).max(last(&self.down))
    }

    /// Splits a tlog by the system that sent each frame.
    fn parse(log: &'static [u8]) -> Result<Self, String> {
        let frames: Vec<(u64, &'static [u8])> = frames(log);
        let vehicle = vehicle(&frames).ok_or(
            "no MAVLink of a vehicle in it: a tlog repeats eight bytes of time and a frame",
        )?;
        let mut recording = Self { up: Vec::new(), down: Vec::new() };
        let mut selectors = [Way::ToVehicle, Way::FromVehicle]
            .map(|way| Selector::new(&SelectorConfig::default(), way));
        let start_us = frames.iter().map(|(time_us, _)| *time_us).min().unwrap_or(0);
        for (time_us, bytes) in frames {
            let is_vehicles = system(bytes) == Some(vehicle);
            let selected = selectors[usize::from(is_vehicles)].select_frames(1, bytes).next();
            let Some(policy) = selected.map(|selected| selected.policy) else { continue };
            let at = Duration::from_micros(time_us - start_us);
            let frames = if is_vehicles { &mut recording.down } else { &mut recording.up };
            frames.push(RecordedFrame { at, bytes, policy });
        }
        recording.up.sort_by_key(|frame| frame.at);
        recording.down.sort_by_key(|frame| frame.at);
        if recording.up.is_empty() || recording.down.is_empty() {
            return Err("only one side speaks in it; both must".to_owned());
        }
        Ok(recording)
    }
}

/// Returns time and bytes of every frame of a tlog; what looks like none is stepped over.
fn frames(log: &'static [u8]) -> Vec<(u64, &'static [u8])> {
    let (mut frames, mut rest, mut before) = (Vec::new(), log, None::<u64>);
    while !rest.is_empty() {
        let found = first_frame(rest).filter(|(time_us, _)| {
            before.is_none_or(|before| time_us.abs_diff(before) <= APART_MAX_US)
        });
        let Some((time_us, bytes)) = found else {
            rest = &rest[1..];
            continue;
        };
        before = Some(time_us);
        rest = &rest[TIME_BYTES + bytes.len()..];
        frames.push((time_us, bytes));
    }
    frames
}

/// Returns time and bytes of the first frame of a tlog.
fn first_frame(log: &'static [u8]) -> Option<(u64, &'static [u8])> {
    let (time, frames) = log.split_first_chunk::<TIME_BYTES>()?;
    let len = match frames {
        [MAGIC_V2, payload, incompatible, ..] => {
            12 + usize::from(*payload) + if incompatible & 1 == 1 { 13 } else { 0 }
        }
        [MAGIC_V1, payload, ..] => 8 + usize::from(*payload),
        _ => return None,
    };
    Some((u64::from_be_bytes(*time), frames.get(..len)?))
}

/// Returns the system that sent a frame.
fn system(frame: &[u8]) -> Option<u8> {
    frame.get(if frame.first() == Some(&MAGIC_V1) { 3 } else { 5 }).copied()
}

/// Returns the system that is a vehicle: that with an autopilot which says so most often.
fn vehicle(frames: &[(u64, &[u8])]) -> Option<u8> {
    let mut beats = [0_u32; 256];
    for (_, frame) in frames {
        let (id, payload) = match frame {
            [MAGIC_V1, _, _, _, _, id, payload @ ..] => (u32::from(*id), payload),
            [MAGIC_V2, _, _, _, _, _, _, a, b, c, payload @ ..] => {
                (u32::from_le_bytes([*a, *b, *c, 0]), payload)
            }
            _ => continue,
        };
        let has_autopilot = payload.get(5).is_some_and(|autopilot| *autopilot != NO_AUTOPILOT);
        if let Some(system) = system(frame).filter(|_| id == HEARTBEAT && has_autopilot) {
            beats[usize::from(system)] += 1;
        }
    }
    let most = (0..=u8::MAX).max_by_key(|system| beats[usize::from(*system)])?;
    (beats[usize::from(most)] > 0).then_some(most)
}

#[cfg(test)]
mod tests {
    use proto::select::Class;

    use super::*;

    #[test]
    fn recording_holds_both_directions_of_a_minute() {
        let recording = Recording::load().expect("the recording is sound");
        for direction in Direction::BOTH {
            let frames = recording.frames(direction);
            assert!(frames.windows(2).all(|pair| pair[0].at <= pair[1].at));
            let last = frames.last().expect("frames in both directions").at;
            assert!(last > Duration::from_secs(58) && last < Duration::from_secs(60));
        }
        assert!(recording.frames(Direction::Down).len() > 6_000);
        let live = recording.frames(Direction::Up).iter().filter(|f| f.policy.class == Class::Live);
        assert!(live.count() > 100);
        assert!(recording.length() > Duration::from_secs(58));
    }

    #[test]
    fn what_is_damaged_is_stepped_over() {
        let whole = Recording::load().expect("sound").frames(Direction::Down).len();
        let mut damaged = FLIGHT.to_vec();
        damaged.splice(1_000..1_000, *b"noise of a radio");
        damaged.truncate(damaged.len() - 1);
        let rest =
            Recording::parse(damaged.leak()).expect("most of it").frames(Direction::Down).len();
        assert!(rest < whole && rest + 10 > whole, "{rest} of {whole}");
        assert!(Recording::parse(b"12345678no frame").is_err());
    }

    #[test]
    fn recordings_of_others_are_split_by_who_has_an_autopilot() {
        let folder = crate::traces::folder().with_file_name("mavlink");
        if !folder.is_dir() {
            let test = "recordings_of_others_are_split_by_who_has_an_autopilot";
            eprintln!("SKIPPED: {test}: no recordings in {}", folder.display());
            return;
        }
        for (file, seconds) in [
            ("dronekit_flight_replay.tlog", 1_300),
            ("sitl_arducopter_v2_bidirectional.tlog", 150),
            ("sitl_px4_v2_bidirectional.tlog", 50),
        ] {
            let recording = Recording::read(&folder.join(file)).expect(file);
            let [up, down] = Direction::BOTH.map(|direction| recording.frames(direction).len());
            assert!(up > 20 && down > up, "{file}: {up} up, {down} down");
            assert!(recording.length() > Duration::from_secs(seconds), "{file}");
        }
    }
}
