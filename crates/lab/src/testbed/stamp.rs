//! The stamp that measured packets carry: which one it is and when it was handed in.
//!
//! Sender and receiver are applications of one machine (or of one world), so the time is on the
//! measurement's clock, not on the clock of an emulated host. Video is RTP, as a camera sends it: a
//! header stands before its stamps, and all packets of a frame carry the time at which it was taken
//! [RFC 3550 §5.1]. The marker that ends a frame is left out: nothing here reads it. Telemetry is
//! MAVLink 2: its stamps are the payload of sound frames, so a session sees what it sees of a
//! vehicle.

use core::ops::RangeInclusive;

use proto::select::{Version, encode_frame};
use units::Duration;

use super::{Direction, Stream};

/// Bytes of a stamp at the front of a packet.
pub(crate) const STAMP_BYTES: usize = 17;
/// Bytes of a telemetry frame: those around the payload, and in it a stamp and one byte that is not
/// zero, because MAVLink 2 cuts zeros off the end, up to 255 in all.
pub(crate) const TELEMETRY_BYTES: RangeInclusive<usize> =
    MAVLINK_BYTES + STAMP_BYTES + 1..=MAVLINK_BYTES + 255;
/// Bits of a stamp's byte that name the stream; the others number the flow.
const STREAM_BITS: u32 = 3;
const _: () = assert!(Stream::ALL.len() <= 1 << STREAM_BITS);
/// The highest number of a flow.
pub(crate) const FLOW_MAX: u8 = u8::MAX >> STREAM_BITS;
/// Bit of the number of a ping that was sent back.
const REPLY: u32 = 1 << 31;
/// Bytes of the header before the stamps of video.
const RTP_BYTES: usize = 12;
/// Its first bytes: version 2; a dynamic payload type.
const RTP: [u8; 2] = [0x80, 96];
/// Its clock: 90 kHz, as for all video.
const RTP_CLOCK: f64 = 90_000.0;
/// Bytes of a MAVLink 2 frame around its payload: the header, and the checksum at the end.
const MAVLINK_BYTES: usize = MAVLINK_HEADER + 2;
const MAVLINK_HEADER: usize = 10;
/// What a MAVLink 2 frame begins with.
const MAVLINK: u8 = 0xFD;
/// What telemetry is made of, in turn: ATTITUDE and GLOBAL_POSITION_INT.
const TELEMETRY: [u32; 2] = [30, 33];
/// The system and component that it comes from: the first vehicle's autopilot.
const VEHICLE: (u8, u8) = (1, 1);
/// Tells stamped packets from anything else that may reach a measured port.
const MAGIC: [u8; 4] = *b"fLab";

/// Identifies a measured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The stream it belongs to.
    pub(crate) stream: Stream,
    /// Which of several flows of its stream it belongs to, [`FLOW_MAX`] at most.
    pub(crate) flow: u8,
    /// Its number within the flow and direction.
    pub(crate) sequence: u32,
    /// When it was handed in, on the measurement's clock.
    pub(crate) sent: Duration,
}

impl Stamp {
    /// Makes a packet of `len` bytes (at least [`STAMP_BYTES`]) that carries the stamp; of video it
    /// is a frame by itself.
    pub(crate) fn packet(&self, len: usize) -> Vec<u8> {
        self.piece(len, self.sent)
    }

    /// The same, as a piece of a video frame that was taken at `taken`.
    pub(crate) fn piece(&self, len: usize, taken: Duration) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.max(RTP_BYTES + STAMP_BYTES));
        if self.stream == Stream::Video {
            bytes.extend_from_slice(&RTP);
            bytes.extend_from_slice(&(self.sequence as u16).to_be_bytes());
            let ticks = (taken.as_secs_f64() * RTP_CLOCK) as u64;
            bytes.extend_from_slice(&(ticks as u32).to_be_bytes());
            bytes.extend_from_slice(&MAGIC);
        }
        bytes.extend_from_slice(&MAGIC);
        bytes.push(self.stream as u8 | self.flow << STREAM_BITS);
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.sent.as_nanos().to_le_bytes());
        if self.stream == Stream::Telemetry {
            return self.frame(bytes, len);
        }
        bytes.resize(len.max(bytes.len()), 0);
        bytes
    }

    /// Returns what answers a ping; none for what is no ping, or an answer itself.
    pub(crate) fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
        let stamp = Self::read(bytes).filter(|stamp| stamp.stream == Stream::Ping)?;
        let answer = Self { sequence: stamp.sequence | REPLY, ..stamp };
        (!stamp.is_answer()).then(|| answer.packet(bytes.len()))
    }

    /// Returns the direction whose ledger records a packet that came in `direction`: for the answer
    /// to a ping, that of the ping.
    pub(crate) fn measured(bytes: &[u8], direction: Direction) -> Direction {
        let is_answer = Self::read(bytes).is_some_and(|stamp| stamp.is_answer());
        if is_answer { direction.other() } else { direction }
    }

    /// Tells whether it is on a ping that was sent back.
    pub(crate) fn is_answer(&self) -> bool {
        self.stream == Stream::Ping && self.sequence & REPLY != 0
    }

    /// Returns its number within its flow, of a ping also where it was sent back.
    pub(crate) fn number(&self) -> u32 {
        if self.is_answer() { self.sequence & !REPLY } else { self.sequence }
    }

    /// Reads the stamp of a packet; none when it carries none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let start = match bytes {
            [MAVLINK, ..] => MAVLINK_HEADER,
            _ if bytes.starts_with(&RTP) => RTP_BYTES,
            _ => 0,
        };
        let rest = bytes.get(start..)?.strip_prefix(&MAGIC)?;
        let (&first, rest) = rest.split_first()?;
        let (sequence, rest) = rest.split_first_chunk::<4>()?;
        let (nanos, _) = rest.split_first_chunk::<8>()?;
        Some(Self {
            stream: *Stream::ALL.get(usize::from(first & ((1 << STREAM_BITS) - 1)))?,
            flow: first >> STREAM_BITS,
            sequence: u32::from_le_bytes(*sequence),
            sent: Duration::from_nanos(u64::from_le_bytes(*nanos)),
        })
    }

    /// Makes a MAVLink frame of `len` bytes whose payload begins with `stamp`; what is longer than
    /// the message's own fields is an extension to whoever reads it.
    fn frame(&self, stamp: Vec<u8>, len: usize) -> Vec<u8> {
        let mut payload = stamp;
        payload
            .resize(len.clamp(*TELEMETRY_BYTES.start(), *TELEMETRY_BYTES.end()) - MAVLINK_BYTES, 1);
        let message = TELEMETRY[self.sequence as usize % TELEMETRY.len()];
        encode_frame(Version::V2, self.sequence as u8, VEHICLE, message, &payload)
            .expect("a known message, and a payload that fits it")
    }
}

#[cfg(test)]
mod tests {
    use proto::select::{Direction, Policy, Selector, SelectorConfig};

    use super::*;

    #[test]
    fn a_stamp_survives_its_packet() {
        for stream in Stream::ALL {
            let sent = Duration::from_nanos(1_234_567);
            let stamp = Stamp { stream, flow: FLOW_MAX, sequence: 77, sent };
            let packet = stamp.packet(100);
            assert_eq!(packet.len(), 100);
            assert_eq!(Stamp::read(&packet), Some(stamp));
            assert_eq!(Stamp::read(&packet[..STAMP_BYTES - 1]), None);
        }
        assert_eq!(Stamp::read(b"something else"), None);
    }

    #[test]
    fn telemetry_is_sound_mavlink_of_every_length() {
        for (sequence, len) in (0..).zip(TELEMETRY_BYTES) {
            let sent = Duration::ZERO;
            let stamp = Stamp { stream: Stream::Telemetry, flow: 2, sequence, sent };
            let packet = stamp.packet(len);
            assert_eq!((packet.len(), Stamp::read(&packet)), (len, Some(stamp)));
            let mut selector = Selector::new(&SelectorConfig::default(), Direction::FromVehicle);
            let policies: Vec<Policy> =
                selector.select_frames(1, &packet).map(|selected| selected.policy).collect();
            assert_eq!(policies, [Policy::TELEMETRY]);
        }
    }

    #[test]
    fn pings_are_answered_once() {
        let stamp = |stream| Stamp { stream, flow: 3, sequence: 7, sent: Duration::ZERO };
        let answer = Stamp::answer(&stamp(Stream::Ping).packet(64)).unwrap();
        let read = Stamp::read(&answer).unwrap();
        assert_eq!((answer.len(), read.is_answer(), read.number(), read.flow), (64, true, 7, 3));
        assert_eq!(Stamp::answer(&answer), None);
        assert_eq!(Stamp::answer(&stamp(Stream::Control).packet(64)), None);
    }
}
