//! Frames: the typed units inside the sealed part of a data datagram.
//!
//! A datagram holds one frame after the other up to its end; every frame knows its own length. A
//! receiver refuses the rest of a datagram at the first frame that it does not understand: both
//! ends speak one version, which the handshake binds, so such a frame is a bug of an authenticated
//! peer.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::generation::generation;
use super::{
    AckRanges, CombinationFrame, DROPPED, DroppedFrame, FeedbackFrame, NOTE, NoteFrame, PATH_USE,
    PIECE, PathUseFrame, PieceFrame, RankFrame, Reader, RepairFrame, SourceFrame, TunnelFrame,
    UNCOUNTED, UncountedFrame, WireError, put_varint, varint_len,
};
use crate::ids::PathId;
use crate::limits;
use crate::select::{Class, Order};

/// Carries one unit of meaning inside a data datagram [specs/wire.md §3].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Fills a probe for the path's MTU; adjacent ones become one when decoded.
    Padding(usize),
    /// Asks for an acknowledgement.
    Ping,
    /// Says that the acknowledgement of this datagram may wait for one that leaves anyway.
    AckLater,
    /// Acknowledges packets of a path; travels on any path.
    Ack(AckFrame),
    /// Asks the other end to prove that it receives at this address.
    PathChallenge { token: u64 },
    /// Answers a challenge with its token.
    PathResponse { token: u64 },
    /// Gives up a path.
    PathClose { path: PathId },
    /// Says that the sender's end of a path has this address now; the receiver tries it.
    PathAddress { path: PathId, address: SocketAddr },
    /// Says how the initiator's operator wants a path to be used.
    PathUse(PathUseFrame),
    /// Names packets of this path whose absence is no loss of it.
    Uncounted(UncountedFrame),
    /// Tells something of the sender, for people.
    Note(NoteFrame<'a>),
    /// Carries a message with a policy of its own; the same frame on several paths is a replica.
    Control(ControlFrame<'a>),
    /// Says that no more messages of a lane below `floor` will come.
    LaneFloor { lane: u16, floor: u32 },
    /// Carries a packet of the plain datagram delivery.
    Datagram(DatagramFrame<'a>),
    /// Carries a symbol of message delivery, uncoded.
    Source(SourceFrame<'a>),
    /// Carries a combination of symbols of message delivery.
    Repair(RepairFrame<'a>),
    /// Says what the receiver of a coder has.
    Feedback(FeedbackFrame),
    /// Says how many symbols the decoder of a coder has seen.
    Rank(RankFrame),
    /// Carries a packet of the tunnel's TCP.
    Tunnel(TunnelFrame<'a>),
    /// A combination of the tunnel's symbols.
    TunnelRepair(RepairFrame<'a>),
    /// Carries a combination of a generation's packets.
    Combination(CombinationFrame<'a>),
    /// Says that a generation is decoded.
    Decoded { generation: u64 },
    /// Carries a piece of the frames of a datagram.
    Piece(PieceFrame<'a>),
    /// Says what the sender's clock shows, in microseconds.
    Clock { clock_us: u64 },
    /// Lists messages that came in and were not passed on.
    Dropped(DroppedFrame),
    /// Ends the session.
    Close { reason: u8 },
}

/// Acknowledges packets of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AckFrame {
    /// The path whose packet numbers these are.
    pub(crate) path: PathId,
    /// What was received, from the largest number down.
    pub(crate) ranges: AckRanges,
    /// When the largest was received, microseconds on the receiver's clock.
    pub(crate) received_at_us: u64,
    /// How long the receiver held the acknowledgement back, microseconds.
    pub(crate) delay_us: u32,
    /// Packets of the path that came in marked "congestion experienced": none, since nothing leaves
    /// that may be marked.
    pub(crate) ecn_ce: u32,
}

/// Carries a message of the control delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlFrame<'a> {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Its order within its lane.
    pub(crate) order: Order,
    /// Numbers control messages session-wide, for removing duplicates; low 32 bits.
    pub(crate) seq: u32,
    /// The domain of order.
    pub(crate) lane: u16,
    /// Numbers the messages of a lane.
    pub(crate) lane_seq: u32,
    /// The lowest number of the lane that is still alive at the sender.
    pub(crate) floor: u32,
    /// Beyond this age it is not delivered.
    pub(crate) ttl_ms: u16,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(crate) submitted_us: u32,
    /// The message.
    pub(crate) payload: &'a [u8],
}

/// Carries a packet of the plain datagram delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramFrame<'a> {
    /// The consumer: 0 is the tunnel.
    pub(crate) channel: u8,
    /// The class that the sender's selector gave it.
    pub(crate) class: Class,
    /// Its place in the order to be restored, where that is wanted.
    pub(crate) sequence: Option<u32>,
    /// When it was handed in, microseconds on the sender's clock; low 32 bits.
    pub(crate) submitted_us: u32,
    /// The packet.
    pub(crate) payload: &'a [u8],
}

/// Reason of a CLOSE frame: the session was closed.
pub(crate) const CLOSED: u8 = 0;
/// Reason of a CLOSE frame: another session holds the key of the peer that is told so.
pub(crate) const KEY_IN_USE: u8 = 1;
/// Reason of a CLOSE frame: the peer's key is no longer known.
pub(crate) const REVOKED: u8 = 2;
/// Bytes of an ACK frame with its newest range alone, at most.
pub(crate) const ACK_LEAST: usize = 10 + 5 + 5 + 8 + 16;
/// Bytes of a control frame around its payload, at most: with every field at its longest.
pub(crate) const CONTROL_OVERHEAD: usize = 15 + 3 + 5 + 3 + 3;
/// Bytes of a datagram frame around its payload, at most.
pub(crate) const DATAGRAM_OVERHEAD: usize = 5 + 1 + 4 + 4;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const ACK_LATER: u8 = 0x03;
const PATH_CHALLENGE: u8 = 0x04;
const PATH_RESPONSE: u8 = 0x05;
const PATH_CLOSE: u8 = 0x06;
const LANE_FLOOR: u8 = 0x07;
const CLOSE: u8 = 0x08;
const PATH_ADDRESS: u8 = 0x09;
const CLOCK: u8 = 0x0a;
/// Bytes of a CLOCK frame.
const CLOCK_BYTES: usize = 9;
const CONTROL: u8 = 0x10;
const SOURCE: u8 = 0x18;
const REPAIR: u8 = 0x19;
const FEEDBACK: u8 = 0x1a;
const RANK: u8 = 0x1b;
const TUNNEL: u8 = 0x20;
const TUNNEL_REPAIR: u8 = 0x23;
const COMBINATION: u8 = 0x21;
const DECODED: u8 = 0x22;
/// Type of a datagram frame; class and presence of fields stand in the low bits.
const DATAGRAM: u8 = 0x40;
const DATAGRAM_MASK: u8 = 0xe0;
const WITH_SEQUENCE: u8 = 0x01;
const WITH_CHANNEL: u8 = 0x02;
const CLASS_SHIFT: u8 = 2;

impl Frame<'_> {
    /// Returns true when the receiver has to acknowledge the packet that carries it.
    pub(crate) fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding(_)
                | Self::Ack(_)
                | Self::Uncounted(_)
                | Self::Feedback(_)
                | Self::Rank(_)
                | Self::Decoded { .. }
                | Self::Close { .. }
        )
    }

    /// Tells whether the peer waits for the acknowledgement: it learns of silence by it.
    pub(crate) fn is_urgent(&self) -> bool {
        match self {
            Self::Control(_) | Self::LaneFloor { .. } | Self::Ping | Self::PathChallenge { .. } => {
                true
            }
            Self::Piece(piece) => piece.urgent,
            _ => false,
        }
    }

    /// Tells whether its receiver passes it on in order: what is missing before it holds it up.
    pub(crate) fn is_in_order(&self) -> bool {
        matches!(self, Self::Tunnel(_))
    }

    /// Returns the bit of its group if a datagram holds only one frame of that group, else 0: no
    /// sender adds another, and a full datagram of them would cost milliseconds.
    pub(crate) fn single(&self) -> u8 {
        match self {
            Self::Source(_) | Self::Repair(_) => 1,
            Self::Feedback(_) => 2,
            Self::TunnelRepair(_) => 4,
            Self::Combination(_) => 8,
            Self::Piece(_) => 16,
            _ => 0,
        }
    }

    /// Returns how many bytes [`Frame::encode`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        match self {
            Self::Padding(len) => *len,
            Self::Ping | Self::AckLater => 1,
            Self::Ack(ack) => ack.encoded_len(),
            Self::PathChallenge { .. } | Self::PathResponse { .. } => 9,
            Self::Clock { .. } => CLOCK_BYTES,
            Self::PathClose { .. } | Self::Close { .. } => 2,
            Self::PathAddress { .. } => 20,
            Self::PathUse(_) => 8,
            Self::Uncounted(uncounted) => uncounted.encoded_len(),
            Self::Note(note) => note.encoded_len(),
            Self::Control(control) => control.encoded_len(),
            Self::Dropped(dropped) => dropped.encoded_len(),
            Self::LaneFloor { lane, .. } => 5 + varint_len(u64::from(*lane)),
            Self::Datagram(datagram) => datagram.encoded_len(),
            Self::Source(source) => source.encoded_len(),
            Self::Repair(repair) => repair.encoded_len(),
            Self::Feedback(feedback) => feedback.encoded_len(),
            Self::Rank(rank) => rank.encoded_len(),
            Self::Tunnel(tunnel) => 1 + tunnel.encoded_len(),
            Self::TunnelRepair(repair) => repair.encoded_len(),
            Self::Combination(combination) => 1 + combination.encoded_len(),
            Self::Decoded { generation } => 1 + varint_len(*generation),
            Self::Piece(piece) => piece.encoded_len(),
        }
    }

    /// Appends the frame to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Padding(len) => out.resize(out.len() + len, PADDING),
            Self::Ping => out.push(PING),
            Self::AckLater => out.push(ACK_LATER),
            Self::Ack(ack) => ack.encode(out),
            Self::PathChallenge { token } => {
                out.push(PATH_CHALLENGE);
                out.extend_from_slice(&token.to_le_bytes());
            }
            Self::PathResponse { token } => {
                out.push(PATH_RESPONSE);
                out.extend_from_slice(&token.to_le_bytes());
            }
            Self::PathClose { path } => out.extend_from_slice(&[PATH_CLOSE, path.0]),
            Self::PathAddress { path, address } => {
                out.extend_from_slice(&[PATH_ADDRESS, path.0]);
                out.extend_from_slice(&as_ipv6(address.ip()).octets());
                out.extend_from_slice(&address.port().to_le_bytes());
            }
            Self::PathUse(usage) => usage.encode(out),
            Self::Uncounted(uncounted) => uncounted.encode(out),
            Self::Note(note) => note.encode(out),
            Self::Control(control) => control.encode(out),
            Self::Dropped(dropped) => dropped.encode(out),
            Self::LaneFloor { lane, floor } => {
                out.push(LANE_FLOOR);
                put_varint(u64::from(*lane), out);
                out.extend_from_slice(&floor.to_le_bytes());
            }
            Self::Datagram(datagram) => datagram.encode(out),
            Self::Source(source) => {
                out.push(SOURCE);
                source.encode(out);
            }
            Self::Repair(repair) => {
                out.push(REPAIR);
                repair.encode(out);
            }
            Self::Feedback(feedback) => {
                out.push(FEEDBACK);
                feedback.encode(out);
            }
            Self::Rank(rank) => {
                out.push(RANK);
                rank.encode(out);
            }
            Self::Tunnel(tunnel) => {
                out.push(TUNNEL);
                tunnel.encode(out);
            }
            Self::TunnelRepair(repair) => {
                out.push(TUNNEL_REPAIR);
                repair.encode(out);
            }
            Self::Combination(combination) => {
                out.push(COMBINATION);
                combination.encode(out);
            }
            Self::Decoded { generation } => {
                out.push(DECODED);
                put_varint(*generation, out);
            }
            Self::Piece(piece) => piece.encode(out),
            Self::Clock { clock_us } => {
                out.push(CLOCK);
                out.extend_from_slice(&clock_us.to_le_bytes());
            }
            Self::Close { reason } => out.extend_from_slice(&[CLOSE, *reason]),
        }
    }
}

impl<'a> Frame<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(match reader.u8()? {
            PADDING => Self::Padding(1 + reader.zeros()),
            PING => Self::Ping,
            ACK_LATER => Self::AckLater,
            ACK => Self::Ack(AckFrame::decode(reader)?),
            PATH_CHALLENGE => Self::PathChallenge { token: reader.u64()? },
            PATH_RESPONSE => Self::PathResponse { token: reader.u64()? },
            PATH_CLOSE => Self::PathClose { path: PathId(reader.u8()?) },
            LANE_FLOOR => Self::LaneFloor { lane: reader.varint_as("lane")?, floor: reader.u32()? },
            CLOSE => Self::Close { reason: reader.u8()? },
            PATH_ADDRESS => Self::PathAddress {
                path: PathId(reader.u8()?),
                address: (
                    Ipv6Addr::from(reader.array::<16>()?).to_canonical(),
                    u16::from_le_bytes(reader.array()?),
                )
                    .into(),
            },
            CLOCK => Self::Clock { clock_us: reader.u64()? },
            PIECE => Self::Piece(PieceFrame::decode(reader)?),
            PATH_USE => Self::PathUse(PathUseFrame::decode(reader)?),
            UNCOUNTED => Self::Uncounted(UncountedFrame::decode(reader)?),
            NOTE => Self::Note(NoteFrame::decode(reader)?),
            DROPPED => Self::Dropped(DroppedFrame::decode(reader)?),
            CONTROL => Self::Control(ControlFrame::decode(reader)?),
            SOURCE => Self::Source(SourceFrame::decode(reader)?),
            REPAIR => Self::Repair(RepairFrame::decode(reader, limits::SYMBOL_BYTES)?),
            FEEDBACK => Self::Feedback(FeedbackFrame::decode(reader)?),
            RANK => Self::Rank(RankFrame::decode(reader)?),
            TUNNEL => Self::Tunnel(TunnelFrame::decode(reader)?),
            TUNNEL_REPAIR => Self::TunnelRepair(RepairFrame::decode(reader, limits::MAX_DATAGRAM)?),
            COMBINATION => Self::Combination(CombinationFrame::decode(reader)?),
            DECODED => Self::Decoded { generation: generation(reader)? },
            kind if kind & DATAGRAM_MASK == DATAGRAM => {
                Self::Datagram(DatagramFrame::decode(kind, reader)?)
            }
            other => return Err(WireError::UnknownType(other)),
        })
    }
}

impl AckFrame {
    /// Drops the oldest ranges until the frame fits into `room` bytes, at least [`ACK_LEAST`];
    /// tells whether all stayed.
    pub(crate) fn fit(&mut self, room: usize) -> bool {
        let all = self.encoded_len() <= room;
        while self.encoded_len() > room && self.ranges.pop_lowest() {}
        all
    }

    fn encoded_len(&self) -> usize {
        10 + self.ranges.encoded_len()
            + varint_len(u64::from(self.delay_us))
            + varint_len(u64::from(self.ecn_ce))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[ACK, self.path.0]);
        out.extend_from_slice(&self.received_at_us.to_le_bytes());
        put_varint(u64::from(self.delay_us), out);
        put_varint(u64::from(self.ecn_ce), out);
        self.ranges.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            path: PathId(reader.u8()?),
            received_at_us: reader.u64()?,
            delay_us: reader.varint_as("ack delay")?,
            ecn_ce: reader.varint_as("ecn count")?,
            ranges: AckRanges::decode(reader)?,
        })
    }
}

impl<'a> ControlFrame<'a> {
    /// Returns how far the number lies above the floor; the sender's floor is never above it.
    fn above_floor(&self) -> u64 {
        u64::from(self.lane_seq.wrapping_sub(self.floor))
    }

    fn encoded_len(&self) -> usize {
        15 + varint_len(u64::from(self.lane))
            + varint_len(self.above_floor())
            + varint_len(u64::from(self.ttl_ms))
            + varint_len(self.payload.len() as u64)
            + self.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let delivery = encode_class(self.class) << CLASS_SHIFT | encode_order(self.order);
        out.extend_from_slice(&[CONTROL, self.channel, delivery]);
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.lane_seq.to_le_bytes());
        out.extend_from_slice(&self.submitted_us.to_le_bytes());
        put_varint(u64::from(self.lane), out);
        put_varint(self.above_floor(), out);
        put_varint(u64::from(self.ttl_ms), out);
        put_varint(self.payload.len() as u64, out);
        out.extend_from_slice(self.payload);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let channel = reader.u8()?;
        let delivery = reader.u8()?;
        let class = decode_class(delivery >> CLASS_SHIFT)?;
        let order = decode_order(delivery & 3);
        let seq = reader.u32()?;
        let lane_seq = reader.u32()?;
        let submitted_us = reader.u32()?;
        let lane = reader.varint_as("lane")?;
        let above_floor: u32 = reader.varint_as("floor")?;
        let floor = lane_seq.wrapping_sub(above_floor);
        let ttl_ms = reader.varint_as("time to live")?;
        let len = reader.varint_as("payload length")?;
        let payload = reader.take(len)?;
        Ok(Self {
            channel,
            class,
            order,
            seq,
            lane,
            lane_seq,
            floor,
            ttl_ms,
            submitted_us,
            payload,
        })
    }
}

impl<'a> DatagramFrame<'a> {
    fn encoded_len(&self) -> usize {
        5 + usize::from(self.channel != 0)
            + if self.sequence.is_some() { 4 } else { 0 }
            + varint_len(self.payload.len() as u64)
            + self.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut kind = DATAGRAM | encode_class(self.class) << CLASS_SHIFT;
        if self.channel != 0 {
            kind |= WITH_CHANNEL;
        }
        if self.sequence.is_some() {
            kind |= WITH_SEQUENCE;
        }
        out.push(kind);
        if self.channel != 0 {
            out.push(self.channel);
        }
        if let Some(sequence) = self.sequence {
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        out.extend_from_slice(&self.submitted_us.to_le_bytes());
        put_varint(self.payload.len() as u64, out);
        out.extend_from_slice(self.payload);
    }

    fn decode(kind: u8, reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let class = decode_class((kind & !DATAGRAM_MASK) >> CLASS_SHIFT)?;
        let channel = if kind & WITH_CHANNEL != 0 { reader.u8()? } else { 0 };
        let sequence = if kind & WITH_SEQUENCE != 0 { Some(reader.u32()?) } else { None };
        let submitted_us = reader.u32()?;
        let len = reader.varint_as("payload length")?;
        let payload = reader.take(len)?;
        Ok(Self { channel, class, sequence, submitted_us, payload })
    }
}

/// Addresses on the wire: IPv4 is mapped into IPv6.
fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Classes on the wire: three bits.
fn encode_class(class: Class) -> u8 {
    match class {
        Class::Liveness => 0,
        Class::Live => 1,
        Class::Control => 2,
        Class::Telemetry => 3,
        Class::Message => 4,
        Class::Bulk => 5,
    }
}

fn decode_class(bits: u8) -> Result<Class, WireError> {
    Ok(match bits {
        0 => Class::Liveness,
        1 => Class::Live,
        2 => Class::Control,
        3 => Class::Telemetry,
        4 => Class::Message,
        5 => Class::Bulk,
        _ => return Err(WireError::Invalid("class")),
    })
}

/// Orders on the wire: two bits.
fn encode_order(order: Order) -> u8 {
    match order {
        Order::None => 0,
        Order::Latest => 1,
        Order::InOrder => 2,
        Order::Sequenced => 3,
    }
}

fn decode_order(bits: u8) -> Order {
    match bits & 3 {
        0 => Order::None,
        1 => Order::Latest,
        2 => Order::InOrder,
        _ => Order::Sequenced,
    }
}

/// Walks the frames of a datagram's plaintext; ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Starts at the front of an opened datagram's plaintext.
    pub(crate) fn new(plaintext: &'a [u8]) -> Self {
        Self { reader: Reader::new(plaintext) }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = Frame::decode(&mut self.reader);
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests;
