//! MAVLink framing: finds the frames in a datagram, in a stream's bytes or in a packet's payload.
//!
//! Framing only; what a message means to delivery is `table.rs`. On their way through a session
//! frames are never altered. Ids that no public definition knows are framed by their length alone,
//! so that private dialects pass; the checksum of known ids is verified, which also finds the next
//! frame after corruption.

use super::messages::{MESSAGES, MessageDefinition};

/// First byte of a version 1 frame.
const MAGIC_V1: u8 = 0xfe;
/// First byte of a version 2 frame.
const MAGIC_V2: u8 = 0xfd;
/// Bytes of a version 1 frame beside its payload.
const OVERHEAD_V1: usize = 8;
/// Bytes of a version 2 frame beside its payload and signature.
const OVERHEAD_V2: usize = 12;
/// Bytes of a signature.
const SIGNATURE: usize = 13;
/// Incompatibility flag of a signed frame.
const SIGNED: u8 = 1;
/// The longest frame: version 2, 255 bytes of payload, signed.
pub(super) const MAX_FRAME: usize = OVERHEAD_V2 + 255 + SIGNATURE;
/// False starts after which the rest of a datagram is given up: bounds the checksums that a hostile
/// datagram can cost, and is far above what corruption leaves in one.
pub(super) const FALSE_STARTS: u32 = 32;

/// Says which MAVLink framing a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// 0xFE, 8-bit message ids.
    V1,
    /// 0xFD, 24-bit message ids, signatures.
    V2,
}

/// Shows one frame within the bytes that it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MavlinkFrame<'a> {
    /// The whole frame.
    pub bytes: &'a [u8],
    /// Its framing.
    pub version: Version,
    /// The sending system.
    pub system: u8,
    /// The sending component.
    pub component: u8,
    /// Its message id.
    pub message: u32,
    /// Its payload; version 2 cuts trailing zeros off.
    pub payload: &'a [u8],
    /// True when it carries a signature.
    pub is_signed: bool,
    /// What the public definitions know of the message id.
    pub definition: Option<&'static MessageDefinition>,
}

/// What the input holds at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A frame: its checksum is right, or its id is unknown and its length fits.
    Frame(MavlinkFrame<'a>),
    /// The beginning of a frame of this length, or of at least one more byte.
    Incomplete,
    /// A start byte, but the frame of a known id that it would start has a wrong checksum.
    BadChecksum,
    /// No start byte.
    NoFrame,
}

impl MavlinkFrame<'_> {
    /// Returns the system and component that the message is addressed to; zeros where it names
    /// none, and for bytes that version 2 cut off.
    pub fn target(&self) -> (u8, u8) {
        let at = |offset: Option<u8>| {
            offset.and_then(|offset| self.payload.get(usize::from(offset)).copied()).unwrap_or(0)
        };
        self.definition
            .map_or((0, 0), |known| (at(known.target_system), at(known.target_component)))
    }

    /// Returns the number that its sender gave it: one more than that of the frame before.
    pub fn sequence(&self) -> u8 {
        self.bytes[self.sequence_at()]
    }

    /// Returns the frame with another number; none where it is signed, since the signature covers
    /// the number.
    ///
    /// A checksum is linear in the bytes, so that of the other frame follows from this one's by
    /// what differs. That takes no definition, and leaves a wrong checksum wrong.
    pub fn with_sequence(&self, sequence: u8) -> Option<Vec<u8>> {
        if self.is_signed {
            return None;
        }
        let (at, crc_at) = (self.sequence_at(), self.bytes.len() - 2);
        let mut bytes = self.bytes.to_vec();
        bytes[at] = sequence;
        // The bytes after the number are the same, which is a difference of zero; the definition's
        // extra byte is one more.
        let difference =
            (at..crc_at).fold(step(0, self.bytes[at] ^ sequence), |crc, _| step(crc, 0));
        for (byte, other) in bytes[crc_at..].iter_mut().zip(difference.to_le_bytes()) {
            *byte ^= other;
        }
        Some(bytes)
    }

    /// Returns the place of the last byte of the checksum.
    pub fn checksum_end(&self) -> usize {
        self.bytes.len() - 1 - if self.is_signed { SIGNATURE } else { 0 }
    }

    fn sequence_at(&self) -> usize {
        match self.version {
            Version::V1 => 2,
            Version::V2 => 4,
        }
    }
}

/// Returns what the public definitions know of a message id.
pub fn message_definition(id: u32) -> Option<&'static MessageDefinition> {
    let index = MESSAGES.binary_search_by_key(&id, |message| message.id).ok()?;
    MESSAGES.get(index)
}

/// Returns the message id for a name such as `COMMAND_LONG`, or for a number such as `76`.
///
/// Numbers need not be known, but must fit into 24 bits.
pub fn message_id(name_or_id: &str) -> Option<u32> {
    match name_or_id.parse::<u32>() {
        Ok(id) => (id < 1 << 24).then_some(id),
        Err(_) => MESSAGES.iter().find(|known| known.name == name_or_id).map(|known| known.id),
    }
}

/// Writes a frame of a known message; `payload` is complete, trailing zeros included.
///
/// Returns none when the id is unknown or does not fit the version, or the payload is longer than
/// 255 bytes. The frame is not signed.
pub fn encode_frame(
    version: Version,
    sequence: u8,
    source: (u8, u8),
    message: u32,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let crc_extra = message_definition(message)?.crc_extra;
    let [id, middle, high, _] = message.to_le_bytes();
    let mut frame = Vec::with_capacity(MAX_FRAME);
    match version {
        Version::V1 if message > 255 => return None,
        Version::V1 => {
            let len = u8::try_from(payload.len()).ok()?;
            frame.extend_from_slice(&[MAGIC_V1, len, sequence, source.0, source.1, id]);
            frame.extend_from_slice(payload);
        }
        Version::V2 => {
            // Trailing zeros are cut off, but never the first byte.
            let zeros = payload.iter().skip(1).rev().take_while(|byte| **byte == 0).count();
            let payload = &payload[..payload.len() - zeros];
            let len = u8::try_from(payload.len()).ok()?;
            let (system, component) = source;
            frame.extend_from_slice(&[MAGIC_V2, len, 0, 0, sequence, system, component]);
            frame.extend_from_slice(&[id, middle, high]);
            frame.extend_from_slice(payload);
        }
    }
    let crc = checksum(&frame[1..], crc_extra);
    frame.extend_from_slice(&crc.to_le_bytes());
    Some(frame)
}

/// Parses what `input` begins with.
pub(super) fn parse(input: &[u8]) -> Parsed<'_> {
    match input.first() {
        Some(&MAGIC_V1) => parse_v1(input),
        Some(&MAGIC_V2) => parse_v2(input),
        Some(_) => Parsed::NoFrame,
        None => Parsed::Incomplete,
    }
}

/// Returns true when a frame may begin with `byte`.
pub(super) fn is_magic(byte: u8) -> bool {
    byte == MAGIC_V1 || byte == MAGIC_V2
}

fn parse_v1(input: &[u8]) -> Parsed<'_> {
    let [_, len, _, system, component, message, ..] = *input else { return Parsed::Incomplete };
    let end = OVERHEAD_V1 + usize::from(len);
    let Some(bytes) = input.get(..end) else { return Parsed::Incomplete };
    let frame = MavlinkFrame {
        bytes,
        version: Version::V1,
        system,
        component,
        message: u32::from(message),
        payload: &bytes[6..end - 2],
        is_signed: false,
        definition: message_definition(u32::from(message)),
    };
    check(frame, end - 2, true)
}

fn parse_v2(input: &[u8]) -> Parsed<'_> {
    let [_, len, incompatible, _, _, system, component, low, middle, high, ..] = *input else {
        return Parsed::Incomplete;
    };
    let is_signed = incompatible & SIGNED != 0;
    let crc_at = OVERHEAD_V2 - 2 + usize::from(len);
    let end = crc_at + 2 + if is_signed { SIGNATURE } else { 0 };
    let Some(bytes) = input.get(..end) else { return Parsed::Incomplete };
    let message = u32::from_le_bytes([low, middle, high, 0]);
    let frame = MavlinkFrame {
        bytes,
        version: Version::V2,
        system,
        component,
        message,
        payload: &bytes[10..crc_at],
        is_signed,
        definition: message_definition(message),
    };
    // An unknown flag may change the framing: then only a checksum proves the length.
    check(frame, crc_at, incompatible & !SIGNED == 0)
}

fn check(frame: MavlinkFrame<'_>, crc_at: usize, is_framing_known: bool) -> Parsed<'_> {
    let is_right = match frame.definition {
        Some(known) => {
            let crc = checksum(&frame.bytes[1..crc_at], known.crc_extra);
            frame.bytes[crc_at..crc_at + 2] == crc.to_le_bytes()
        }
        None => is_framing_known,
    };
    if is_right { Parsed::Frame(frame) } else { Parsed::BadChecksum }
}

/// CRC-16/MCRF4XX of a frame without its start byte, then of its definition's extra byte.
fn checksum(bytes: &[u8], crc_extra: u8) -> u16 {
    step(bytes.iter().fold(0xffff, |crc, &byte| step(crc, byte)), crc_extra)
}

/// One byte of that checksum.
fn step(crc: u16, byte: u8) -> u16 {
    let low = byte ^ crc as u8;
    let low = u16::from(low ^ (low << 4));
    (crc >> 8) ^ (low << 8) ^ (low << 3) ^ (low >> 4)
}

/// Walks the frames of a whole datagram, and finds the next one after bytes that are none.
#[derive(Clone, Debug)]
pub struct MavlinkFrames<'a> {
    input: &'a [u8],
    at: usize,
    /// False once something was skipped, until a frame follows.
    in_step: bool,
    false_starts: u32,
    skipped: usize,
}

impl<'a> MavlinkFrames<'a> {
    /// Starts at the front of a datagram.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { input: datagram, at: 0, in_step: true, false_starts: 0, skipped: 0 }
    }

    /// Returns how many bytes so far belonged to no frame.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns how many frames so far were broken: a wrong checksum, or cut short.
    pub fn broken(&self) -> u32 {
        self.false_starts
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        self.skipped += bytes;
        self.in_step = false;
    }

    /// Tells whether a frame of an unknown id is believed: when out of step, only if another frame
    /// or the end follows.
    fn is_credible(&self, frame: &MavlinkFrame<'_>) -> bool {
        let next = self.input.get(self.at + frame.bytes.len());
        frame.definition.is_some() || self.in_step || next.is_none_or(|byte| is_magic(*byte))
    }
}

impl<'a> Iterator for MavlinkFrames<'a> {
    type Item = MavlinkFrame<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.input.len() {
            match parse(&self.input[self.at..]) {
                Parsed::Frame(frame) if self.is_credible(&frame) => {
                    self.at += frame.bytes.len();
                    self.in_step = true;
                    return Some(frame);
                }
                Parsed::NoFrame => self.skip(1),
                Parsed::Frame(_) | Parsed::BadChecksum | Parsed::Incomplete => {
                    self.false_starts += 1;
                    let rest = self.input.len() - self.at;
                    self.skip(if self.false_starts < FALSE_STARTS { 1 } else { rest });
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksum_is_mcrf4xx() {
        // The check value of CRC-16/MCRF4XX is that of "123456789".
        assert_eq!(checksum(b"12345678", b'9'), 0x6f91);
    }

    #[test]
    fn frame_of_a_ground_station_parses() {
        // A version 2 HEARTBEAT as pymavlink writes it.
        let bytes = [
            0xfd, 0x09, 0x00, 0x00, 0x00, 0xff, 0xbe, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x06, 0x08, 0x00, 0x00, 0x03, 0x5c, 0x2b,
        ];
        let Parsed::Frame(frame) = parse(&bytes) else { panic!("{:?}", parse(&bytes)) };
        assert_eq!((frame.version, frame.message, frame.is_signed), (Version::V2, 0, false));
        assert_eq!((frame.system, frame.component), (255, 190));
        let payload = [0, 0, 0, 0, 6, 8, 0, 0, 3];
        assert_eq!(encode_frame(Version::V2, 0, (255, 190), 0, &payload), Some(bytes.to_vec()));
    }

    #[test]
    fn target_survives_the_cutting_of_zeros() {
        let payload = [0; 33];
        let frame = encode_frame(Version::V2, 0, (1, 1), 76, &payload).expect("known");
        assert_eq!(frame.len(), OVERHEAD_V2 + 1);
        let Parsed::Frame(frame) = parse(&frame) else { panic!("no frame") };
        assert_eq!(frame.target(), (0, 0));
        let mut payload = [0; 33];
        payload[30..32].copy_from_slice(&[7, 8]);
        let frame = encode_frame(Version::V1, 0, (1, 1), 76, &payload).expect("known");
        let Parsed::Frame(frame) = parse(&frame) else { panic!("no frame") };
        assert_eq!(frame.target(), (7, 8));
    }

    #[test]
    fn frame_with_another_number_is_the_one_that_would_have_been_written() {
        for (version, message) in [(Version::V1, 76), (Version::V2, 76), (Version::V2, 0)] {
            let payload = [7; 33];
            let written = |sequence| encode_frame(version, sequence, (1, 1), message, &payload);
            let bytes = written(200).expect("known");
            for sequence in 0..=255 {
                let Parsed::Frame(frame) = parse(&bytes) else { panic!("no frame") };
                assert_eq!(frame.sequence(), 200);
                assert_eq!(frame.with_sequence(sequence), written(sequence));
            }
        }
        let signed = [0xfd, 1, SIGNED, 0, 9, 1, 1, 0xff, 0xff, 0xff, 5, 0, 0];
        let signed = [&signed[..], &[0; SIGNATURE]].concat();
        let Parsed::Frame(frame) = parse(&signed) else { panic!("no frame") };
        assert_eq!((frame.sequence(), frame.with_sequence(1)), (9, None));
    }

    #[test]
    fn table_is_sorted_and_finds_names() {
        assert!(MESSAGES.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert_eq!(message_id("COMMAND_LONG"), Some(76));
        assert_eq!(message_id("76"), Some(76));
        assert_eq!(message_id("NO_SUCH_MESSAGE"), None);
        assert_eq!(message_id("16777216"), None);
        assert_eq!(message_definition(76).map(|known| known.crc_extra), Some(152));
    }

    #[test]
    fn hostile_datagram_asks_for_a_bounded_number_of_checksums() {
        let datagram = [0xfd, 0xff, 0, 0, 0, 1, 1, 0, 0, 0].repeat(6_000);
        let mut frames = MavlinkFrames::new(&datagram);
        assert_eq!(frames.next(), None);
        assert_eq!((frames.broken(), frames.skipped()), (FALSE_STARTS, datagram.len()));
    }

    proptest! {
        /// Whatever comes in, frames lie one after the other inside it and every byte is accounted
        /// for.
        #[test]
        fn nonsense_is_survived(bytes in prop::collection::vec(
            prop_oneof![Just(MAGIC_V1), Just(MAGIC_V2), 0_u8..12, any::<u8>()], 0..600)) {
            let mut frames = MavlinkFrames::new(&bytes);
            let mut used = 0;
            for frame in frames.by_ref() {
                used += frame.bytes.len();
            }
            prop_assert_eq!(used + frames.skipped(), bytes.len());
        }

        #[test]
        fn frames_come_back_behind_noise(
            noise in prop::collection::vec(any::<u8>(), 0..40),
            payload in prop::collection::vec(any::<u8>(), 33),
        ) {
            prop_assume!(noise.iter().filter(|byte| is_magic(**byte)).count() == 0);
            let frame = encode_frame(Version::V2, 1, (1, 1), 76, &payload).expect("known");
            let bytes = [&noise[..], &frame, &noise, &frame].concat();
            let found: Vec<_> = MavlinkFrames::new(&bytes).map(|found| found.bytes).collect();
            prop_assert_eq!(found, [&frame[..], &frame[..]]);
        }
    }
}
