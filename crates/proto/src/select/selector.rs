//! Sorts what applications hand in: datagrams of MAVLink endpoints, packets of the tunnel.
//!
//! The rules are those of specs/delivery.md §2. It keeps no packet; it remembers only which sources
//! sign, which flows are RTP, and what it counts. `table.rs` says which MAVLink message is control.
//! What comes from declared endpoints [ConClone §3.3.1] and from message endpoints bypasses it:
//! whoever hands that in says how it is to be delivered.
//!
//! ```text
//! MAVLink endpoint   each frame is a message; a source (UDP address, TCP connection, serial line)
//!                    is one stream, in which a frame may lie across two datagrams (`stream.rs`)
//! tunnel             a packet stays whole, and takes the strictest policy among its frames: who
//!                    aggregates gives up the freshness of what goes with commands
//! TCP in the tunnel  keeps its own order; a frame across two segments is not recognised
//! unknown ids        by framing alone; behind garbage, or across two datagrams, only where another
//!                    frame or the end of what has come follows; on ports not configured not at all
//! ```

use super::config::{Direction, InspectedPorts, PolicyTable, SelectorConfig};
use super::ip::{Segment, segment};
use super::mavlink::{MavlinkFrame, MavlinkFrames};
use super::not_forwarded::{NotForwarded, NotForwardedCounts};
use super::rtp::{RtpFlows, RtpFrame};
use super::signing::SigningSources;
use super::{Class, LaneKey, Order, Policy, StreamKey};

/// A MAVLink frame of a local endpoint's datagram, and how it is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected<'a> {
    /// The frame, as it came.
    pub frame: &'a [u8],
    /// How it is to be delivered.
    pub policy: Policy,
    /// Whose order it keeps.
    pub lane: LaneKey,
}

/// How a packet of the tunnel is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// How it is to be delivered.
    pub policy: Policy,
    /// Whose order it keeps.
    pub lane: LaneKey,
    /// True for TCP: the receiver restores the order of what plain delivery carries.
    pub resequence: bool,
    /// For RTP, the frame that it is a piece of: useful for a while, in any order.
    pub rtp: Option<RtpFrame>,
}

/// Counts what the selector saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectorCounters {
    /// MAVLink frames found.
    pub frames: u64,
    /// Those whose id the public definitions do not know.
    pub unknown: u64,
}

/// Sorts packets into delivery policies.
#[derive(Debug)]
pub struct Selector {
    table: PolicyTable,
    ports: InspectedPorts,
    signing: SigningSources,
    rtp: RtpFlows,
    counters: SelectorCounters,
    not_forwarded: NotForwardedCounts,
}

impl Selector {
    /// Starts with a configuration, for the direction that this end sends in.
    pub fn new(config: &SelectorConfig, direction: Direction) -> Self {
        Self {
            table: config.table(direction),
            ports: config.ports.clone(),
            signing: SigningSources::default(),
            rtp: RtpFlows::default(),
            counters: SelectorCounters::default(),
            not_forwarded: NotForwardedCounts::default(),
        }
    }

    /// Takes another configuration; what is known of sources and flows stays.
    pub fn set_config(&mut self, config: &SelectorConfig, direction: Direction) {
        (self.table, self.ports) = (config.table(direction), config.ports.clone());
    }

    /// Splits a datagram of a local MAVLink endpoint into its frames, in their order.
    ///
    /// Frames that are not to be forwarded, broken ones and bytes between frames are left out and
    /// counted.
    pub fn select_frames<'a>(
        &mut self,
        channel: u8,
        datagram: &'a [u8],
    ) -> impl Iterator<Item = Selected<'a>> {
        let mut frames = MavlinkFrames::new(datagram);
        std::iter::from_fn(move || {
            loop {
                let (skipped, broken) = (frames.skipped(), frames.broken());
                let frame = frames.next();
                let skipped = (frames.skipped() - skipped) as u64;
                let broken = u64::from(frames.broken() - broken);
                self.not_forwarded.add(channel, NotForwarded::Bytes, skipped);
                self.not_forwarded.add(channel, NotForwarded::Broken, broken);
                let frame = frame?;
                if let Some((policy, lane)) = self.select(channel, 0, &frame) {
                    return Some(Selected { frame: frame.bytes, policy, lane });
                }
            }
        })
    }

    /// Inspects an IP packet of the tunnel; `None` when it is not to be forwarded.
    ///
    /// The strictest policy among the packet's MAVLink frames counts; without any it is
    /// [`Policy::BULK`]. TCP restores its own order, so its packets have none to keep.
    pub fn select_packet(&mut self, packet: &[u8]) -> Option<Selection> {
        let Some(segment) = segment(packet) else { return Some(plain(0, false, None)) };
        let inspected = self.ports.contains(segment.source_port, segment.destination_port);
        let strictest = if inspected { self.select_segment(&segment)? } else { None };
        let Some(mut strictest) = strictest else {
            let udp = !segment.is_tcp;
            let rtp = udp.then(|| self.rtp.note(segment.flow, segment.payload)).flatten();
            return Some(plain(segment.flow, segment.is_tcp, rtp));
        };
        if segment.is_tcp {
            strictest.policy.order = Order::None;
        }
        Some(strictest)
    }

    /// Returns what was seen so far.
    pub fn counters(&self) -> SelectorCounters {
        self.counters
    }

    /// Lists what was not forwarded: on which channel, why, and how much.
    pub fn not_forwarded(&self) -> impl Iterator<Item = (u8, NotForwarded, u64)> + '_ {
        self.not_forwarded.iter()
    }

    /// Finds the strictest selection among the frames of a segment: `None` if one of them must not
    /// be forwarded, `Some(None)` if there are no frames.
    fn select_segment(&mut self, segment: &Segment<'_>) -> Option<Option<Selection>> {
        let mut strictest: Option<Selection> = None;
        for frame in MavlinkFrames::new(segment.payload) {
            // Where no port vouches for MAVLink, anything may look like a frame of an unknown id.
            if self.ports == InspectedPorts::Any && frame.definition.is_none() {
                continue;
            }
            let (policy, lane) = self.select(0, segment.flow, &frame)?;
            if strictest.is_none_or(|known| strictness(&policy) < strictness(&known.policy)) {
                let resequence = segment.is_tcp;
                strictest = Some(Selection { policy, lane, resequence, rtp: None });
            }
        }
        Some(strictest)
    }

    fn select(
        &mut self,
        channel: u8,
        flow: u32,
        frame: &MavlinkFrame<'_>,
    ) -> Option<(Policy, LaneKey)> {
        self.counters.frames += 1;
        self.counters.unknown += u64::from(frame.definition.is_none());
        let Some(mut policy) = self.table.policy(frame.message, frame.definition.is_some()) else {
            let rule = if self.table.names(frame.message) || frame.definition.is_some() {
                NotForwarded::Message(frame.message)
            } else {
                NotForwarded::Unknown
            };
            self.not_forwarded.add(channel, rule, 1);
            return None;
        };
        let stream = StreamKey { message: frame.message, target: frame.target() };
        let source = (frame.system, frame.component);
        let lane = LaneKey { channel, flow, source, stream: Some(stream) };
        if self.signing.note(lane, frame.is_signed) {
            policy.order = Order::Sequenced;
            // A frame that cannot be sent counts against what its lane may keep, and the commands
            // behind it need that room: none lives longer than they do.
            policy.ttl = policy.ttl.min(Policy::TRANSACTIONAL.ttl);
        }
        Some((policy, lane))
    }
}

fn plain(flow: u32, is_tcp: bool, rtp: Option<RtpFrame>) -> Selection {
    let lane = LaneKey { channel: 0, flow, source: (0, 0), stream: None };
    Selection { policy: Policy::BULK, lane, resequence: is_tcp, rtp }
}

/// Ranks policies, for a packet that holds frames of several: first what must not be lost, then
/// what must not be late.
fn strictness(policy: &Policy) -> u8 {
    match policy.class {
        Class::Control => 0,
        Class::Live => 1,
        Class::Liveness => 2,
        Class::Message => 3,
        Class::Telemetry => 4,
        Class::Bulk => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ip::tests::{tcp4, udp4};
    use super::super::{Version, encode_frame};
    use super::*;

    /// Message ids: HEARTBEAT, ATTITUDE, COMMAND_LONG, RC_CHANNELS_OVERRIDE, PARAM_VALUE.
    const HEARTBEAT: u32 = 0;
    const ATTITUDE: u32 = 30;
    const COMMAND: u32 = 76;
    const OVERRIDE: u32 = 70;
    const PARAMETER: u32 = 22;

    fn selector() -> Selector {
        Selector::new(&SelectorConfig::default(), Direction::ToVehicle)
    }

    fn frame(message: u32) -> Vec<u8> {
        encode_frame(Version::V2, 0, (255, 190), message, &[7; 33]).expect("a known message")
    }

    /// A frame of an id that nobody knows, or a signed one.
    fn raw(message: u32, is_signed: bool) -> Vec<u8> {
        let id = message.to_le_bytes();
        let flags = u8::from(is_signed);
        let mut frame = vec![0xfd, 2, flags, 0, 0, 255, 190, id[0], id[1], id[2], 1, 2, 9, 9];
        frame.resize(frame.len() + if is_signed { 13 } else { 0 }, 5);
        frame
    }

    fn policies(selector: &mut Selector, datagram: &[u8]) -> Vec<Policy> {
        selector.select_frames(1, datagram).map(|selected| selected.policy).collect()
    }

    #[test]
    fn every_frame_of_a_datagram_gets_its_own_policy_unaltered() {
        let frames = [frame(HEARTBEAT), frame(COMMAND), frame(ATTITUDE), frame(OVERRIDE)];
        let datagram = frames.concat();
        let mut selector = selector();
        let selected: Vec<_> = selector.select_frames(1, &datagram).collect();
        let expected = [Policy::LIVENESS, Policy::TRANSACTIONAL, Policy::TELEMETRY, Policy::LIVE];
        for ((selected, frame), policy) in selected.iter().zip(&frames).zip(expected) {
            assert_eq!((selected.frame, selected.policy), (&frame[..], policy));
            assert_eq!((selected.lane.channel, selected.lane.source), (1, (255, 190)));
        }
        assert_eq!(selected.len(), 4);
    }

    #[test]
    fn live_messages_keep_a_stream_per_target() {
        let mut selector = selector();
        let mut stream = |target: u8| {
            let mut payload = [0; 18];
            payload[16] = target;
            let frame = encode_frame(Version::V2, 0, (255, 190), OVERRIDE, &payload)?;
            let mut selected = selector.select_frames(1, &frame);
            selected.next().map(|selected| selected.lane.stream)
        };
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
        let expected = StreamKey { message: OVERRIDE, target: (3, 0) };
        assert_eq!(stream(3), Some(Some(expected)));
    }

    #[test]
    fn garbage_is_left_out_and_counted() {
        let mut broken = frame(COMMAND);
        broken[15] ^= 1;
        let datagram =
            [b"noise".to_vec(), frame(COMMAND), broken.clone(), frame(ATTITUDE)].concat();
        let mut selector = selector();
        assert_eq!(policies(&mut selector, &datagram), [Policy::TRANSACTIONAL, Policy::TELEMETRY]);
        assert_eq!(selector.counters().frames, 2);
        let bytes = 5 + broken.len() as u64;
        let expected = [(1, NotForwarded::Broken, 1), (1, NotForwarded::Bytes, bytes)];
        assert!(selector.not_forwarded().eq(expected));
    }

    #[test]
    fn unknown_ids_are_forwarded_by_framing_alone() {
        let datagram = [raw(59_999, false), frame(COMMAND)].concat();
        let mut selector = selector();
        assert_eq!(policies(&mut selector, &datagram), [Policy::TELEMETRY, Policy::TRANSACTIONAL]);
        assert_eq!(selector.counters().unknown, 1);
    }

    #[test]
    fn setup_signing_is_withheld() {
        let mut selector = selector();
        let setup = encode_frame(Version::V2, 0, (255, 190), 256, &[1; 42]).expect("known");
        assert_eq!(policies(&mut selector, &setup), []);
        let expected = [(1, NotForwarded::Message(256), 1)];
        assert!(selector.not_forwarded().eq(expected));
        assert_eq!(selector.select_packet(&udp4((14_550, 9), &setup)), None);
    }

    #[test]
    fn all_frames_of_a_signing_source_share_one_sequenced_lane() {
        let mut selector = selector();
        assert_eq!(policies(&mut selector, &frame(COMMAND))[0].order, Order::InOrder);
        policies(&mut selector, &raw(59_999, true));
        for message in [COMMAND, OVERRIDE, ATTITUDE, HEARTBEAT, PARAMETER] {
            let policy = policies(&mut selector, &frame(message))[0];
            assert_eq!(policy.order, Order::Sequenced);
            assert!(policy.ttl <= Policy::TRANSACTIONAL.ttl);
        }
        let other = encode_frame(Version::V2, 0, (1, 1), COMMAND, &[0; 33]).expect("known");
        assert_eq!(policies(&mut selector, &other)[0].order, Order::InOrder);
    }

    #[test]
    fn tunnel_packets_take_the_strictest_policy_on_listed_ports_only() {
        let mut selector = selector();
        let payload = [frame(ATTITUDE), frame(COMMAND), frame(OVERRIDE)].concat();
        let mut policy = |packet: &[u8]| selector.select_packet(packet).map(|found| found.policy);
        assert_eq!(policy(&udp4((40_000, 14_550), &payload)), Some(Policy::TRANSACTIONAL));
        assert_eq!(policy(&udp4((14_540, 3), &frame(OVERRIDE))), Some(Policy::LIVE));
        assert_eq!(policy(&udp4((40_000, 40_001), &payload)), Some(Policy::BULK));
        assert_eq!(policy(&udp4((40_000, 14_550), b"no MAVLink")), Some(Policy::BULK));
        assert_eq!(policy(b"no packet"), Some(Policy::BULK));
        assert_eq!(policy(b""), Some(Policy::BULK));
    }

    #[test]
    fn on_any_port_only_proven_frames_count() {
        let ports = InspectedPorts::Any;
        let config = SelectorConfig { ports, ..SelectorConfig::default() };
        let mut selector = Selector::new(&config, Direction::ToVehicle);
        let mut policy = |packet: &[u8]| selector.select_packet(packet).map(|found| found.policy);
        assert_eq!(policy(&udp4((1, 2), &raw(59_999, false))), Some(Policy::BULK));
        assert_eq!(policy(&udp4((1, 2), &frame(HEARTBEAT))), Some(Policy::LIVENESS));
    }

    #[test]
    fn tcp_keeps_its_own_order_and_asks_for_resequencing() {
        let mut selector = selector();
        let control = selector.select_packet(&tcp4((5_760, 9), &frame(COMMAND))).expect("passes");
        assert_eq!(control.policy, Policy { order: Order::None, ..Policy::TRANSACTIONAL });
        let bulk = selector.select_packet(&tcp4((443, 9), b"data")).expect("passes");
        assert!(control.resequence && bulk.resequence);
        assert_eq!(bulk.policy, Policy::BULK);
    }

    #[test]
    fn flows_of_the_tunnel_have_lanes_of_their_own() {
        let mut selector = selector();
        let mut lane = |port| {
            let packet = udp4((port, 14_550), &frame(COMMAND));
            selector.select_packet(&packet).map(|found| found.lane)
        };
        assert_eq!(lane(1), lane(1));
        assert_ne!(lane(1), lane(2));
    }
}
