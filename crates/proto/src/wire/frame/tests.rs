//! Properties of frames: they round-trip, and nonsense gives an error or another frame, never
//! anything worse.

use proptest::prelude::*;

use super::*;
use crate::limits::ACK_RANGES;

const CLASSES: [Class; 6] =
    [Class::Liveness, Class::Live, Class::Control, Class::Telemetry, Class::Message, Class::Bulk];
const ORDERS: [Order; 4] = [Order::None, Order::Latest, Order::InOrder, Order::Sequenced];

const COEFFICIENTS: [u8; 16] = [0, 1, 2, 3, 255, 254, 7, 0, 0, 9, 10, 11, 12, 13, 14, 15];

/// A frame that owns its payload; proptest needs values without a lifetime.
#[derive(Clone, Debug)]
struct Owned {
    frame: Frame<'static>,
    payload: Vec<u8>,
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        match self.frame.clone() {
            Frame::Control(control) => {
                Frame::Control(ControlFrame { payload: &self.payload, ..control })
            }
            Frame::Datagram(datagram) => {
                Frame::Datagram(DatagramFrame { payload: &self.payload, ..datagram })
            }
            Frame::Source(source) => {
                Frame::Source(SourceFrame { payload: &self.payload, ..source })
            }
            Frame::Repair(repair) => {
                Frame::Repair(RepairFrame { payload: &self.payload, ..repair })
            }
            Frame::TunnelRepair(repair) => {
                Frame::TunnelRepair(RepairFrame { payload: &self.payload, ..repair })
            }
            Frame::Piece(piece) => {
                // None is empty.
                let payload = if self.payload.is_empty() { &[7] } else { &self.payload[..] };
                Frame::Piece(PieceFrame { payload, ..piece })
            }
            Frame::Tunnel(tunnel) => {
                Frame::Tunnel(TunnelFrame { payload: &self.payload, ..tunnel })
            }
            // As many coefficients as fit.
            Frame::Combination(combination) => {
                let packets = self.payload.len().clamp(1, 16);
                let coefficients = &COEFFICIENTS[..packets];
                let payload = &self.payload[..];
                Frame::Combination(CombinationFrame { coefficients, payload, ..combination })
            }
            Frame::Note(note) => {
                let text = &self.payload[..self.payload.len().min(crate::limits::NOTE_BYTES)];
                Frame::Note(NoteFrame { text, ..note })
            }
            other => other,
        }
    }
}

fn ack_ranges() -> impl Strategy<Value = AckRanges> {
    let steps = prop::collection::vec((0_u64..1_000, 2_u64..70_000), 1..ACK_RANGES + 3);
    (steps, 1_u64 << 30..1 << 48).prop_map(|(steps, top)| {
        let mut high = top;
        let ranges = steps.into_iter().map(|(len, gap)| {
            let range = high - len..=high;
            high = high - len - gap;
            range
        });
        AckRanges::from_descending(ranges.collect::<Vec<_>>()).expect("at least one")
    })
}

fn ack() -> impl Strategy<Value = Frame<'static>> {
    (any::<u8>(), ack_ranges(), any::<u64>(), any::<u32>(), any::<u32>()).prop_map(
        |(path, ranges, received_at_us, delay_us, ecn_ce)| {
            Frame::Ack(AckFrame { path: PathId(path), ranges, received_at_us, delay_us, ecn_ce })
        },
    )
}

fn dropped() -> impl Strategy<Value = Frame<'static>> {
    (0_u64..1 << 60, ack_ranges())
        .prop_map(|(unlisted, numbers)| Frame::Dropped(DroppedFrame { unlisted, numbers }))
}

fn control() -> impl Strategy<Value = Frame<'static>> {
    let places = (any::<u32>(), any::<u16>(), any::<u32>(), any::<u32>());
    let kinds = (any::<u8>(), 0..6_usize, 0..4_usize, any::<u16>(), any::<u32>());
    (places, kinds).prop_map(|((seq, lane, lane_seq, floor), kinds)| {
        let (channel, class, order, ttl_ms, submitted_us) = kinds;
        Frame::Control(ControlFrame {
            channel,
            class: CLASSES[class],
            order: ORDERS[order],
            seq,
            lane,
            lane_seq,
            floor,
            ttl_ms,
            submitted_us,
            payload: &[],
        })
    })
}

fn datagram() -> impl Strategy<Value = Frame<'static>> {
    (any::<u8>(), 0..6_usize, any::<Option<u32>>(), any::<u32>()).prop_map(
        |(channel, class, sequence, submitted_us)| {
            let class = CLASSES[class];
            Frame::Datagram(DatagramFrame { channel, class, sequence, submitted_us, payload: &[] })
        },
    )
}

fn symbol() -> impl Strategy<Value = Frame<'static>> {
    let number = || 0..crate::wire::reader::VARINT_MAX;
    (number(), number(), number(), 1_u16.., 0..3).prop_map(|(coder, id, other, count, kind)| {
        let repair = RepairFrame { coder, repair: other, first: id, count, payload: &[] };
        match kind {
            0 => Frame::Source(SourceFrame { coder, id, back: other.min(id), payload: &[] }),
            1 => Frame::Repair(repair),
            _ => Frame::TunnelRepair(repair),
        }
    })
}

fn tunnel() -> impl Strategy<Value = Frame<'static>> {
    let number = || 0..crate::wire::reader::VARINT_MAX;
    (number(), number(), any::<u32>()).prop_map(|(number, back, submitted_us)| {
        Frame::Tunnel(TunnelFrame { number, back, submitted_us, payload: &[] })
    })
}

fn generation() -> impl Strategy<Value = Frame<'static>> {
    (0..=crate::limits::LAST_GENERATION, any::<bool>()).prop_map(|(generation, is_decoded)| {
        let combination = CombinationFrame { generation, coefficients: &[], payload: &[] };
        match is_decoded {
            true => Frame::Decoded { generation },
            false => Frame::Combination(combination),
        }
    })
}

fn feedback() -> impl Strategy<Value = Frame<'static>> {
    let steps = prop::collection::vec((0_u64..100_000, 1_u64..100_000), 0..16);
    (any::<[u32; 4]>(), steps, 0_u64..1_000).prop_map(
        |([coder, next, rank, repairs], steps, more)| {
            let mut end = u64::from(next);
            let missing = steps.into_iter().map(|(gap, count)| {
                let first = end + gap;
                end = first + count;
                (first, count)
            });
            let missing = missing.collect();
            let [coder, next, rank, repairs] = [coder, next, rank, repairs].map(u64::from);
            Frame::Feedback(FeedbackFrame { coder, next, end: end + more, rank, repairs, missing })
        },
    )
}

fn frame() -> impl Strategy<Value = Owned> {
    let frame = prop_oneof![
        (1..2_000_usize).prop_map(Frame::Padding),
        Just(Frame::Ping),
        Just(Frame::AckLater),
        ack(),
        dropped(),
        any::<u64>().prop_map(|token| Frame::PathChallenge { token }),
        any::<u64>().prop_map(|token| Frame::PathResponse { token }),
        any::<u8>().prop_map(|path| Frame::PathClose { path: PathId(path) }),
        any::<(u8, u128, u16)>().prop_map(|(path, address, port)| {
            let ip = Ipv6Addr::from(address).to_canonical();
            Frame::PathAddress { path: PathId(path), address: (ip, port).into() }
        }),
        any::<(u8, u32, u16)>().prop_map(|(path, address, port)| {
            let ip = std::net::Ipv4Addr::from(address);
            Frame::PathAddress { path: PathId(path), address: (ip, port).into() }
        }),
        control(),
        any::<(u16, u32)>().prop_map(|(lane, floor)| Frame::LaneFloor { lane, floor }),
        datagram(),
        symbol(),
        tunnel(),
        generation(),
        feedback(),
        any::<[u32; 3]>().prop_map(|numbers| {
            let [coder, rank, filter] = numbers.map(u64::from);
            Frame::Rank(RankFrame { coder, rank, filter })
        }),
        any::<u8>().prop_map(|reason| Frame::Close { reason }),
        any::<u64>().prop_map(|clock_us| Frame::Clock { clock_us }),
        (any::<(u16, bool)>(), 2..=4_u8, 0..4_u8).prop_map(|((datagram, urgent), count, place)| {
            Frame::Piece(PieceFrame { datagram, place: place % count, count, urgent, payload: &[] })
        }),
        any::<(u8, u8, u8, u32)>().prop_map(|(path, change, flags, cost)| {
            Frame::PathUse(PathUseFrame { path: PathId(path), change, flags, cost })
        }),
        any::<(u32, u16)>().prop_map(|(first, more)| {
            let (first, count) = (first.into(), 1 + u64::from(more));
            Frame::Uncounted(UncountedFrame { first, count })
        }),
        any::<(u16, u32)>()
            .prop_map(|(name, change)| { Frame::Note(NoteFrame { name, change, text: &[] }) }),
    ];
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    (frame, payload).prop_map(|(frame, payload)| Owned { frame, payload })
}

fn encode(frames: &[Owned]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for owned in frames {
        let before = bytes.len();
        owned.frame().encode(&mut bytes);
        assert_eq!(bytes.len() - before, owned.frame().encoded_len());
    }
    bytes
}

/// Joins adjacent padding, as decoding does.
fn melted(frames: &[Owned]) -> Vec<Frame<'_>> {
    let mut melted: Vec<Frame<'_>> = Vec::new();
    for owned in frames {
        match (melted.last_mut(), owned.frame()) {
            (Some(Frame::Padding(len)), Frame::Padding(more)) => *len += more,
            (_, frame) => melted.push(frame),
        }
    }
    melted
}

proptest! {
    #[test]
    fn frames_round_trip(frames in prop::collection::vec(frame(), 0..8)) {
        let bytes = encode(&frames);
        let decoded: Result<Vec<_>, _> = Frames::new(&bytes).collect();
        prop_assert_eq!(decoded.expect("what we wrote"), melted(&frames));
    }

    #[test]
    fn a_truncated_frame_is_an_error(owned in frame()) {
        let bytes = encode(std::slice::from_ref(&owned));
        prop_assume!(!matches!(owned.frame, Frame::Padding(_)));
        for len in 1..bytes.len() {
            let mut frames = Frames::new(&bytes[..len]);
            prop_assert_eq!(frames.next(), Some(Err(WireError::Truncated)));
            prop_assert_eq!(frames.next(), None);
        }
    }

    #[test]
    fn a_flipped_bit_gives_at_most_other_frames_that_encode_again(
        owned in frame(),
        flips in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut bytes = encode(std::slice::from_ref(&owned));
        for flip in flips {
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        decoded_frames_encode_again(&bytes);
    }

    #[test]
    fn garbage_never_panics_and_never_yields_more_frames_than_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
    ) {
        prop_assert!(Frames::new(&bytes).count() <= bytes.len());
        decoded_frames_encode_again(&bytes);
    }
}

/// What was accepted means the same when it is encoded again.
fn decoded_frames_encode_again(bytes: &[u8]) {
    for frame in Frames::new(bytes).map_while(Result::ok) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(again.len(), frame.encoded_len());
        assert_eq!(Frames::new(&again).next(), Some(Ok(frame)));
    }
}

/// Every string of up to three bytes, alone and followed by zeros that complete it.
#[test]
fn every_short_string_is_frames_or_an_error() {
    for number in 0..1_u32 << 24 {
        let [_, a, b, c] = number.to_be_bytes();
        decoded_frames_encode_again(&[a, b, c]);
        if c == 0 {
            let mut long = [0; 48];
            long[..2].copy_from_slice(&[a, b]);
            decoded_frames_encode_again(&long);
        }
    }
}

#[test]
fn a_bulk_packet_of_the_tunnel_costs_seven_bytes() {
    let datagram = DatagramFrame {
        channel: 0,
        class: Class::Bulk,
        sequence: None,
        submitted_us: 1,
        payload: &[0; 1_300],
    };
    assert_eq!(Frame::Datagram(datagram).encoded_len() - 1_300, 7);
    let ordered = DatagramFrame { sequence: Some(9), ..datagram };
    assert_eq!(Frame::Datagram(ordered).encoded_len() - 1_300, 11);
}
