//! RADIO_STATUS: the one standard way to tell an autopilot how full the link is.
//!
//! Both autopilots slow their streams down when `txbuf` is low and recover when it is high. The
//! message is made here, for the autopilot alone: it is not sent to the peer. Beside STATUSTEXT
//! (`statustext.rs`) it is the only MAVLink message that Fulmar ever makes. Heartbeats and sticks
//! are never invented: failsafes must see the truth. While no session is connected nothing is said
//! at all.

use proto::select::{Version, encode_frame};
use proto::{Duration, Instant};

/// Message id of RADIO_STATUS.
const MESSAGE: u32 = 109;
/// The system and component that SiK radios use, and that autopilots know as a radio.
const RADIO: (u8, u8) = (51, 68);
/// What a field of RADIO_STATUS holds when nothing is known.
const UNKNOWN: u8 = 255;

/// The maker of RADIO_STATUS frames, one at each interval.
pub(super) struct RadioStatus {
    every: Duration,
    due: Instant,
    sequence: u8,
    /// The version that the autopilot speaks; none before its first frame.
    version: Option<Version>,
}

impl RadioStatus {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, due: now + every, sequence: 0, version: None }
    }

    /// Learns the autopilot's version of MAVLink from what it sends.
    pub(super) fn on_input(&mut self, bytes: &[u8]) {
        match bytes.first() {
            Some(0xFE) => self.version = Some(Version::V1),
            Some(0xFD) => self.version = Some(Version::V2),
            _ => {}
        }
    }

    /// Tells when the next frame is due; never, before the autopilot has spoken.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.version.map(|_| self.due)
    }

    /// Makes the frame that is due.
    pub(super) fn frame(
        &mut self,
        now: Instant,
        queue_free_percent: &mut dyn FnMut() -> Option<u8>,
    ) -> Option<Vec<u8>> {
        self.due = now + self.every;
        let (version, free) = (self.version?, queue_free_percent()?);
        self.sequence = self.sequence.wrapping_add(1);
        encode_frame(version, self.sequence, RADIO, MESSAGE, &payload(free.min(100)))
    }
}

/// The payload: receive errors and corrected errors (u16 each), then rssi, remrssi, txbuf, noise,
/// remnoise. Nothing of a radio's is known here but the queue.
fn payload(free: u8) -> [u8; 9] {
    [0, 0, 0, 0, UNKNOWN, UNKNOWN, free, UNKNOWN, UNKNOWN]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_before_the_autopilot_or_without_a_session() {
        let start = Instant::from_millis(0);
        let mut status = RadioStatus::new(Duration::from_secs(1), start);
        assert_eq!(status.timeout(), None);
        status.on_input(&[0xFD, 0]);
        let due = start + Duration::from_secs(1);
        assert_eq!(status.timeout(), Some(due));
        assert_eq!(status.frame(due, &mut || None), None);
        let frame = status.frame(due, &mut || Some(40)).unwrap();
        assert_eq!((frame.len(), frame[0], frame[5], frame[6], frame[7]), (21, 0xFD, 51, 68, 109));
        assert_eq!(frame[16], 40);
        status.on_input(&[0xFE, 0]);
        let frame = status.frame(due, &mut || Some(200)).unwrap();
        assert_eq!((frame.len(), frame[0], frame[3], frame[4], frame[5]), (17, 0xFE, 51, 68, 109));
        assert_eq!(frame[12], 100);
    }
}
