//! Traffic that looks like a video camera's: frames at a constant rate, packets in bursts.
//!
//! ```text
//! 30 frames/s, a key frame every 30: share K of the bytes of a group, the others equal
//! a frame leaves as RTP-sized packets back to back, `SPACING` apart
//! ```
//! *Source*: measured on a 1080p30 stream of 6 Mbit/s, a key frame is 104 packets within 0.7 ms.
//!
//! *Deviations*: real frames vary in size with the scene; these do not, so that every run and
//! scheme carries the same bytes at the same times.

use serde::Serialize;
use units::Duration;

/// Frames a second.
const FRAMES_PER_SECOND: f64 = 30.0;
/// Frames from one key frame to the next.
const GROUP: u32 = 30;
/// Share of a group's bytes that its key frame takes: 104 of 625 packets at 6 Mbit/s.
const KEY_SHARE: f64 = 104.0 / 625.0;
/// Bytes of a full packet: what RTP senders use so that tunnels need not fragment.
pub(super) const PACKET_BYTES: usize = 1_200;
/// Time between packets of a frame: 104 packets in 0.7 ms.
const SPACING: Duration = Duration::from_nanos(6_731);

/// Says how the packets of the stream are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VideoShape {
    /// Frames as a camera's encoder makes them.
    Camera,
    /// Full packets at even distances, for experiments that look at instants.
    Even,
}

impl VideoShape {
    /// Returns every packet, in order; a rate of zero sends nothing.
    pub(super) fn packets(self, mbps: f64, seconds: f64) -> Vec<Piece> {
        if mbps <= 0.0 {
            return Vec::new();
        }
        match self {
            Self::Camera => {
                let stream = Frames { mbps };
                let frames = 0..(seconds * FRAMES_PER_SECOND) as u32;
                frames.flat_map(|frame| stream.frame(frame)).collect()
            }
            Self::Even => {
                let gap = PACKET_BYTES as f64 * 8.0 / (mbps * 1e6);
                let packets = 0..(seconds / gap) as u32;
                let at = |i| Duration::from_secs_f64(f64::from(i) * gap);
                packets.map(|i| Piece { taken: at(i), at: at(i), len: PACKET_BYTES }).collect()
            }
        }
    }
}

/// One packet of the stream: a piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// When its frame was taken.
    pub(super) taken: Duration,
    /// When it is handed in.
    pub(super) at: Duration,
    /// Its length in bytes.
    pub(super) len: usize,
}

/// The frames of a camera's stream.
struct Frames {
    mbps: f64,
}

impl Frames {
    /// Returns the packets of one frame.
    fn frame(&self, frame: u32) -> impl Iterator<Item = Piece> + use<> {
        let taken = Duration::from_secs_f64(f64::from(frame) / FRAMES_PER_SECOND);
        let mut left = self.frame_bytes(frame);
        let lengths = core::iter::from_fn(move || {
            let len = left.min(PACKET_BYTES);
            left -= len;
            // A tail that could not hold the stamp of a measured packet joins nothing: skip it.
            (len >= crate::testbed::STAMP_BYTES).then_some(len)
        });
        lengths.zip(0..).map(move |(len, i)| Piece { taken, at: taken + SPACING * i, len })
    }

    /// Returns the bytes of one frame.
    fn frame_bytes(&self, frame: u32) -> usize {
        let group_bytes = self.mbps * 1e6 / 8.0 * f64::from(GROUP) / FRAMES_PER_SECOND;
        let share = match frame % GROUP {
            0 => KEY_SHARE,
            _ => (1.0 - KEY_SHARE) / f64::from(GROUP - 1),
        };
        (group_bytes * share) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_packets_have_their_rate() {
        let packets = VideoShape::Even.packets(0.96, 2.0);
        assert_eq!((packets.len(), packets[100].at), (200, Duration::from_secs(1)));
    }

    #[test]
    fn key_frames_burst() {
        let packets = VideoShape::Camera.packets(6.0, 2.0);
        let key = packets.iter().filter(|piece| piece.at < Duration::from_millis(10)).count();
        assert_eq!(key, 104);
        assert!(packets[103].at < Duration::from_micros(700));
        assert!(packets[..104].iter().all(|piece| piece.taken == Duration::ZERO));
        assert!(VideoShape::Camera.packets(0.0, 2.0).is_empty());
    }
}
