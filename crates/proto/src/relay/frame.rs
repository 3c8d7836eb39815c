//! Frames between gateways and relays, to bytes and back [specs/relay.md §1].
//!
//! Total: whatever comes in is a frame within its bounds or malformed. Codes are the business of
//! `keys.rs`.

use core::fmt;

use crate::wire::{Reader, WireError};
use crate::{limits, window};

/// Bytes before the body …
const HEADER: usize = 17;
/// … and before that of a coded frame, which is short: it is what the air is full of.
const SHORT_HEADER: usize = 8;
/// Bytes of the code behind the body.
pub(crate) const CODE: usize = 8;
/// Bytes of a coded frame's body before its coefficients.
const CODED: usize = 18;
const VERSION: u8 = 2;
const CODED_KIND: u8 = 5;
/// The largest number of six bytes.
pub(crate) const U48: u64 = (1 << 48) - 1;

/// One of the two ends of a relayed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The station's.
    Ground,
    /// The drone's.
    Air,
}

impl Side {
    /// Returns the other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Ground => Self::Air,
            Self::Air => Self::Ground,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ground => "ground",
            Self::Air => "air",
        })
    }
}

/// What a frame travels over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// Between the nodes of one side.
    Wire,
    /// Between relays of both sides.
    Radio,
}

/// Names a gateway (number 0) or a relay of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    /// Its side.
    pub side: Side,
    /// Its number.
    pub number: u8,
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => write!(f, "{} gateway", self.side),
            number => write!(f, "{} relay {number}", self.side),
        }
    }
}

/// What stands before a body, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) sender: NodeName,
    pub(crate) hop: Hop,
    pub(crate) direction: Side,
    pub(crate) numbers: Numbers,
}

/// What a header says of its sender's boot and counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Whole {
        boot: u64,
        counter: u64,
    },
    /// A coded frame's: the low 16 bits of the boot, and the low 24 of the counter.
    Low {
        boot: u16,
        counter: u32,
    },
}

impl Said {
    /// Tells whether it may be of this boot.
    pub(crate) fn is_of(&self, known: u64) -> bool {
        match self.numbers {
            Numbers::Whole { boot, .. } => boot == known,
            Numbers::Low { boot, .. } => boot == known as u16,
        }
    }

    /// Returns the header in full, where it is of this boot, of which the counter `near` is the
    /// next.
    pub(crate) fn complete(&self, boot: u64, near: u64) -> Header {
        let Self { sender, hop, direction, numbers } = *self;
        let counter = match numbers {
            Numbers::Whole { counter, .. } => counter,
            Numbers::Low { counter, .. } => window::extend(counter << 8, near << 8) >> 8,
        };
        Header { sender, hop, direction, boot, counter }
    }
}

/// Who sent a frame, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sender: NodeName,
    pub(crate) hop: Hop,
    /// The side that what it is about comes from.
    pub(crate) direction: Side,
    pub(crate) boot: u64,
    pub(crate) counter: u64,
}

/// Who is asked, or who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: NodeName,
    pub(crate) boot: u64,
    pub(crate) token: u64,
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Rate of its radio, kbit/s.
    pub(crate) rate: u32,
    /// Coded frames that it has room for.
    pub(crate) room: u8,
    /// Low bits of the largest order that it has taken.
    pub(crate) taken: u32,
}

/// A packet or a combination of packets of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) source: u32,
    pub(crate) generation: u64,
    /// How far the source's oldest lies before it.
    pub(crate) back: u8,
    pub(crate) k: u8,
    /// Packets so far, and whether no more are to come.
    pub(crate) size: u8,
    pub(crate) closed: bool,
    /// Combinations that each relay sends when it has all of the generation.
    pub(crate) share: u8,
    /// Who is to transmit it, or has; [`NOBODY`].
    pub(crate) node: u8,
    /// Low bits of the order's number.
    pub(crate) order: u32,
    pub(crate) coefficients: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// A coded frame that is for no relay alone.
pub(crate) const NOBODY: u8 = 255;
/// In a report: all of the generation is there.
pub(crate) const COMPLETE: u8 = 255;

/// What a destination has of each generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranks {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    /// Counts the reports of this destination.
    pub(crate) number: u32,
    /// The first generation that is not complete.
    pub(crate) floor: u64,
    pub(crate) ranks: Vec<u8>,
    /// Transmitters, and the largest order that came by each.
    pub(crate) heard: Vec<(u8, u32)>,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Challenge(Asked),
    Answer(Asked),
    State(State),
    Small { source: u32, number: u64, datagram: Vec<u8> },
    Coded(Coded),
    Ranks(Ranks),
}

impl Coded {
    /// Returns the place of the packet that this is, where it is one as it came.
    pub(crate) fn unit(&self) -> Option<usize> {
        let mut set = self.coefficients.iter().enumerate().filter(|(_, value)| **value != 0);
        match (set.next(), set.next()) {
            (Some((place, 1)), None) => Some(place),
            _ => None,
        }
    }

    /// Returns the first generation that its source has not given up.
    pub(crate) fn oldest(&self) -> u64 {
        self.generation.saturating_sub(self.back.into())
    }
}

impl Body {
    /// Appends it to a header.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Challenge(asked) | Self::Answer(asked) => {
                out.extend([asked.name.side as u8, asked.name.number]);
                out.extend(asked.boot.to_le_bytes());
                out.extend(asked.token.to_le_bytes());
            }
            Self::State(state) => {
                out.extend(state.rate.to_le_bytes());
                out.push(state.room);
                out.extend(state.taken.to_le_bytes());
            }
            Self::Small { source, number, datagram } => {
                out.extend(source.to_le_bytes());
                put_u48(*number, out);
                out.extend(datagram);
            }
            Self::Coded(coded) => {
                out.extend(coded.source.to_le_bytes());
                put_u48(coded.generation, out);
                let back = coded.back | u8::from(coded.closed) << 7;
                let packets = (coded.k - 1) << 4 | (coded.size - 1);
                out.extend([back, packets, coded.share, coded.node]);
                out.extend(coded.order.to_le_bytes());
                out.extend(&coded.coefficients);
                out.extend(&coded.payload);
            }
            Self::Ranks(ranks) => {
                for number in [ranks.source, ranks.destination, ranks.number] {
                    out.extend(number.to_le_bytes());
                }
                put_u48(ranks.floor, out);
                out.push(u8::try_from(ranks.ranks.len()).unwrap_or(0));
                out.extend(&ranks.ranks);
                out.push(u8::try_from(ranks.heard.len()).unwrap_or(0));
                for (node, order) in &ranks.heard {
                    out.push(*node);
                    out.extend(order.to_le_bytes());
                }
            }
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Challenge(_) => 1,
            Self::Answer(_) => 2,
            Self::State(_) => 3,
            Self::Small { .. } => 4,
            Self::Coded(_) => CODED_KIND,
            Self::Ranks(_) => 6,
        }
    }

    fn read(kind: u8, bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let body = match kind {
            1 => Self::Challenge(asked(&mut reader)?),
            2 => Self::Answer(asked(&mut reader)?),
            3 => {
                Self::State(State { rate: reader.u32()?, room: reader.u8()?, taken: reader.u32()? })
            }
            4 => Self::Small {
                source: reader.u32()?,
                number: u48(&mut reader)?,
                datagram: at_most(reader.take(reader.len())?, limits::RELAY_SMALL)?.to_vec(),
            },
            CODED_KIND => Self::Coded(coded(&mut reader)?),
            6 => Self::Ranks(ranks(&mut reader)?),
            _ => return Err(WireError::Invalid("kind")),
        };
        if reader.is_empty() { Ok(body) } else { Err(WireError::Invalid("length")) }
    }
}

/// Returns how long a datagram may be that travels in generations of k packets, in bytes: the frame
/// is as long as frames may be then [specs/relay.md §4].
pub fn longest_datagram(k: usize) -> usize {
    limits::MAX_DATAGRAM - SHORT_HEADER - CODED - k - crate::delivery::generation::LENGTH - CODE
}

/// Writes header and body.
pub(crate) fn write(header: &Header, body: &Body, out: &mut Vec<u8>) {
    write_header(header, body.kind(), out);
    body.write(out);
}

/// Writes the header of a frame of a kind.
pub(crate) fn write_header(header: &Header, kind: u8, out: &mut Vec<u8>) {
    out.clear();
    out.push(VERSION << 4 | kind);
    let hop = u8::from(header.hop == Hop::Radio);
    out.push(header.sender.side as u8 | hop << 1 | (header.direction as u8) << 2);
    out.push(header.sender.number);
    if kind == CODED_KIND {
        out.extend((header.boot as u16).to_le_bytes());
        out.extend(&header.counter.to_le_bytes()[..3]);
    } else {
        out.extend(header.boot.to_le_bytes());
        put_u48(header.counter, out);
    }
}

/// Reads a header; the body is read once the code has shown who wrote it.
pub(crate) fn read_header(bytes: &[u8]) -> Result<Said, WireError> {
    let least = header_bytes(bytes) + CODE;
    if bytes.len() > limits::MAX_DATAGRAM || bytes.len() < least {
        return Err(WireError::Invalid("length"));
    }
    let mut reader = Reader::new(bytes);
    if reader.u8()? >> 4 != VERSION {
        return Err(WireError::Invalid("version"));
    }
    let place = reader.u8()?;
    if place > 7 {
        return Err(WireError::Invalid("place"));
    }
    let side = |bit: u8| if place >> bit & 1 == 1 { Side::Air } else { Side::Ground };
    Ok(Said {
        sender: NodeName { side: side(0), number: number(reader.u8()?)? },
        hop: if place >> 1 & 1 == 1 { Hop::Radio } else { Hop::Wire },
        direction: side(2),
        numbers: if kind(bytes) == CODED_KIND {
            let [a, b, c, d, e] = reader.array()?;
            let counter = u32::from_le_bytes([c, d, e, 0]);
            Numbers::Low { boot: u16::from_le_bytes([a, b]), counter }
        } else {
            Numbers::Whole { boot: reader.u64()?, counter: u48(&mut reader)? }
        },
    })
}

/// Reads the body of a frame whose header has been read.
pub(crate) fn read_body(bytes: &[u8]) -> Result<Body, WireError> {
    let body = bytes.get(header_bytes(bytes)..bytes.len().saturating_sub(CODE));
    Body::read(kind(bytes), body.ok_or(WireError::Truncated)?)
}

fn kind(bytes: &[u8]) -> u8 {
    bytes.first().map_or(0, |first| first & 15)
}

fn header_bytes(bytes: &[u8]) -> usize {
    if kind(bytes) == CODED_KIND { SHORT_HEADER } else { HEADER }
}

fn asked(reader: &mut Reader<'_>) -> Result<Asked, WireError> {
    let side = match reader.u8()? {
        0 => Side::Ground,
        1 => Side::Air,
        _ => return Err(WireError::Invalid("side")),
    };
    let name = NodeName { side, number: number(reader.u8()?)? };
    Ok(Asked { name, boot: reader.u64()?, token: reader.u64()? })
}

fn coded(reader: &mut Reader<'_>) -> Result<Coded, WireError> {
    let source = reader.u32()?;
    let generation = u48(reader)?;
    let [back, packets, share, node] = reader.array()?;
    let (closed, back) = (back >> 7 == 1, back & 127);
    let (k, size) = ((packets >> 4) + 1, (packets & 15) + 1);
    let is_sound = size <= k
        && u64::from(back) < limits::RELAY_GENERATIONS
        // One after it can be told.
        && generation < U48
        && share <= k;
    if !is_sound {
        return Err(WireError::Invalid("generation"));
    }
    let order = reader.u32()?;
    let coefficients = reader.take(size.into())?.to_vec();
    let payload = reader.take(reader.len())?.to_vec();
    if payload.is_empty() {
        return Err(WireError::Invalid("combination"));
    }
    Ok(Coded {
        source,
        generation,
        back,
        k,
        size,
        closed,
        share,
        node,
        order,
        coefficients,
        payload,
    })
}

fn ranks(reader: &mut Reader<'_>) -> Result<Ranks, WireError> {
    let [source, destination, number] = [reader.u32()?, reader.u32()?, reader.u32()?];
    let floor = u48(reader)?;
    let count = usize::from(reader.u8()?);
    let ranks = at_most(reader.take(count)?, limits::RELAY_GENERATIONS as usize)?.to_vec();
    let count = usize::from(reader.u8()?);
    if count > limits::RELAY_HEARD {
        return Err(WireError::Invalid("heard"));
    }
    let mut heard = Vec::with_capacity(count);
    for _ in 0..count {
        heard.push((reader.u8()?, reader.u32()?));
    }
    Ok(Ranks { source, destination, number, floor, ranks, heard })
}

fn number(number: u8) -> Result<u8, WireError> {
    if number <= LAST_NODE { Ok(number) } else { Err(WireError::Invalid("node")) }
}

/// The largest number of a relay.
pub(crate) const LAST_NODE: u8 = 63;

fn at_most(bytes: &[u8], most: usize) -> Result<&[u8], WireError> {
    if bytes.len() <= most { Ok(bytes) } else { Err(WireError::Invalid("length")) }
}

fn put_u48(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= U48, "{value}");
    out.extend(&value.to_le_bytes()[..6]);
}

fn u48(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&reader.array::<6>()?);
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const U24: u32 = (1 << 24) - 1;

    fn header() -> Header {
        let sender = NodeName { side: Side::Air, number: 7 };
        let (hop, direction) = (Hop::Radio, Side::Ground);
        Header { sender, hop, direction, boot: 0x0102_0304_0506_0708, counter: U48 }
    }

    pub(crate) fn bodies() -> Vec<Body> {
        let name = NodeName { side: Side::Ground, number: 63 };
        let asked = Asked { name, boot: 9, token: u64::MAX };
        let coded = Coded {
            source: 1,
            generation: U48 - 1,
            back: 63,
            k: 16,
            size: 2,
            closed: true,
            share: 1,
            node: 5,
            order: u32::MAX,
            coefficients: vec![0, 1],
            payload: vec![9; 20],
        };
        let ranks = Ranks {
            source: 1,
            destination: 2,
            number: 3,
            floor: 4,
            ranks: vec![3; 64],
            heard: vec![(1, 2); 16],
        };
        vec![
            Body::Challenge(asked),
            Body::Answer(asked),
            Body::State(State { rate: 1_000, room: 2, taken: 5 }),
            Body::Small { source: 4, number: 5, datagram: vec![1; 200] },
            Body::Coded(coded),
            Body::Ranks(ranks),
        ]
    }

    fn written(body: &Body) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&header(), body, &mut bytes);
        bytes.extend([0; CODE]);
        bytes
    }

    #[test]
    fn a_coded_frame_is_of_the_boot_and_counter_that_its_low_bits_are_near_to() {
        let said = read_header(&written(&bodies()[4])).expect("it was written");
        let Header { boot, counter, .. } = header();
        assert!(said.is_of(boot) && said.is_of(boot ^ 1 << 16) && !said.is_of(boot ^ 1));
        for ahead in [0, 1, 1_000, u64::from(U24 / 2)] {
            assert_eq!(said.complete(boot, counter - ahead).counter, counter);
        }
        let far = counter - u64::from(U24) - 1;
        assert_eq!(said.complete(boot, far).counter, far, "one that is not sent by then");
        let new = Said { numbers: Numbers::Low { boot: 1, counter: U24 }, ..said };
        assert_eq!(new.complete(1, 0).counter, U24.into(), "none is below zero");
    }

    #[test]
    fn frames_are_read_as_they_were_written_and_cut_ones_never() {
        for body in bodies() {
            let bytes = written(&body);
            let said = read_header(&bytes).map(|said| said.complete(header().boot, U48));
            assert_eq!(said, Ok(header()));
            assert_eq!(read_body(&bytes), Ok(body.clone()));
            let is_open = matches!(body, Body::Small { .. } | Body::Coded(_));
            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                let same = read_header(cut).is_ok() && read_body(cut) == Ok(body.clone());
                assert!(!same, "{length} of {body:?}");
                assert!(is_open || read_header(cut).is_err() || read_body(cut).is_err());
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_bounds_is_malformed() {
        let coded = |at: usize, value: u8| {
            let mut bytes = written(&bodies()[4]);
            bytes[SHORT_HEADER + at] = value;
            read_body(&bytes)
        };
        for (at, value) in [(4, 255), (10, 64), (11, 0x12), (12, 17)] {
            assert!(coded(at, value).is_err(), "{at} {value}");
        }
        assert!(coded(11, 0x11).is_ok() && coded(10, 63).is_ok());
        for (at, value) in [(0, 0x15), (1, 8), (2, 64)] {
            let mut bytes = written(&bodies()[4]);
            bytes[at] = value;
            assert!(read_header(&bytes).is_err());
        }
        let long = Body::Small { source: 0, number: 0, datagram: vec![0; 201] };
        assert!(read_body(&written(&long)).is_err());
        assert!(read_header(&[0x25; 1_473]).is_err());
    }
}
