//! The recorded flight that plays in both directions (data/README.md says where it is from).

use units::Duration;

use super::Direction;

/// Sixty seconds of an ArduCopter and its ground station, as a tlog.
const FLIGHT: &[u8] = include_bytes!("../../data/arducopter_flight.tlog");
/// System id of the vehicle in the recording; all others are on the ground.
const VEHICLE: u8 = 1;
/// Bytes of the time in front of every frame.
const TIME_BYTES: usize = 8;
/// First byte of a MAVLink 2 frame.
const MAGIC_V2: u8 = 0xFD;

/// One MAVLink frame of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedFrame {
    /// When it was sent, from the start of the recording.
    pub(crate) at: Duration,
    /// The whole frame.
    pub(crate) bytes: &'static [u8],
}

/// Holds the recorded flight, split by direction.
#[derive(Debug)]
pub(crate) struct Recording {
    up: Vec<RecordedFrame>,
    down: Vec<RecordedFrame>,
}

impl Recording {
    /// Reads the recording that comes with the program.
    ///
    /// # Errors
    /// Says at which byte the recording cannot be understood.
    pub(crate) fn load() -> Result<Self, String> {
        Self::parse(FLIGHT)
    }

    /// Returns the frames of one direction in the order of time.
    pub(crate) fn frames(&self, direction: Direction) -> &[RecordedFrame] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Splits a tlog of MAVLink 2 frames by the system that sent them.
    fn parse(log: &'static [u8]) -> Result<Self, String> {
        let mut recording = Self { up: Vec::new(), down: Vec::new() };
        let mut rest = log;
        let mut start_us = None;
        while !rest.is_empty() {
            let at_byte = log.len() - rest.len();
            let (time_us, bytes) = first_frame(rest)
                .ok_or_else(|| format!("recorded flight: no MAVLink 2 frame at byte {at_byte}"))?;
            rest = &rest[TIME_BYTES + bytes.len()..];
            let since_start = time_us.saturating_sub(*start_us.get_or_insert(time_us));
            let frame = RecordedFrame { at: Duration::from_micros(since_start), bytes };
            let vehicle = bytes[5] == VEHICLE;
            if vehicle { &mut recording.down } else { &mut recording.up }.push(frame);
        }
        Ok(recording)
    }
}

/// Returns time and bytes of the first frame of a tlog.
fn first_frame(log: &'static [u8]) -> Option<(u64, &'static [u8])> {
    let (time, frames) = log.split_first_chunk::<TIME_BYTES>()?;
    let [MAGIC_V2, payload, incompatible, ..] = frames else { return None };
    let signature = if incompatible & 1 == 1 { 13 } else { 0 };
    let len = 12 + usize::from(*payload) + signature;
    Some((u64::from_be_bytes(*time), frames.get(..len)?))
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn a_cut_recording_is_refused() {
        assert!(Recording::parse(&FLIGHT[..FLIGHT.len() - 1]).is_err());
        assert!(Recording::parse(b"12345678no frame").is_err());
    }
}
