//! What the applications send: a plan of packets in time, the same for every scheme and mode.
//!
//! Not how it is carried (`sim`, `emu`) and not what became of it (`ledger`). A plan is a pure
//! function of its parameters; the packets' bytes are made when they are sent.

use serde::Serialize;
use units::Duration;

use super::video::{PACKET_BYTES, VideoShape};
use crate::testbed::{Direction, FLOW_MAX, Recording, Stamp, Stream};

/// Bytes of a live message: MAVLink's RC_CHANNELS_OVERRIDE of 18 channels, 38 bytes and 12 around
/// them.
const LIVE_BYTES: usize = 50;

/// Says what the applications of a run send.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Workload {
    /// How long packets are sent.
    pub(crate) seconds: f64,
    /// Control messages per second and direction; zero for none.
    pub(crate) control_hz: f64,
    /// Bytes of a control message.
    pub(crate) control_bytes: usize,
    /// Live messages per second and direction; zero for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) live_hz: f64,
    /// Bytes of a live message.
    #[serde(skip_serializing_if = "is_usual_live")]
    pub(crate) live_bytes: usize,
    /// Whether the recorded flight plays.
    pub(crate) recording: bool,
    /// Payload rate of the video stream from drone to station; zero for none.
    pub(crate) video_mbps: f64,
    /// How the video stream's packets are spread.
    pub(crate) video_shape: VideoShape,
    /// Flows that have figures of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) flows: Vec<Flow>,
}

/// A flow with a name, by which its figures are told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flow {
    pub(crate) name: String,
    /// What carries it: flows of a kind share that.
    pub(crate) kind: Stream,
    /// Zero for the workload's own stream of the kind; other flows are numbered from 1.
    #[serde(skip)]
    pub(crate) number: u8,
    /// The only direction in which it is sent; none for both.
    pub(crate) way: Option<Direction>,
    /// Packets per second; for video, `mbps` decides.
    pub(crate) rate_hz: f64,
    /// Bytes of a packet.
    pub(crate) bytes: usize,
    /// Rate of video.
    pub(crate) mbps: f64,
    /// How video is spread in time.
    pub(crate) shape: VideoShape,
    /// A packet that takes longer is late.
    pub(crate) deadline_ms: f64,
}

impl Flow {
    /// Tells whether it is sent in a direction.
    pub(crate) fn goes(&self, direction: Direction) -> bool {
        self.way.is_none_or(|way| way == direction)
    }

    /// Plans a flow of its own. Each begins a little later than the one before, so that none rides
    /// on another's instants.
    fn packets(&self, seconds: f64) -> Vec<PlannedPacket> {
        let packets: Vec<PlannedPacket> = if self.kind == Stream::Video {
            video(self.shape, self.mbps, seconds).collect()
        } else {
            let phase = f64::from(self.number) / f64::from(FLOW_MAX + 1);
            even(self.kind, self.rate_hz, phase, seconds, self.bytes).collect()
        };
        packets.into_iter().map(|packet| PlannedPacket { flow: self.number, ..packet }).collect()
    }
}

impl Default for Workload {
    /// The workload of the mixed-blackout scene.
    fn default() -> Self {
        Self {
            seconds: 60.0,
            control_hz: 50.0,
            control_bytes: 100,
            live_hz: 0.0,
            live_bytes: LIVE_BYTES,
            recording: true,
            video_mbps: 5.8,
            video_shape: VideoShape::Camera,
            flows: Vec::new(),
        }
    }
}

impl Workload {
    /// Returns a workload that sends nothing.
    pub(crate) fn silent() -> Self {
        Self { control_hz: 0.0, recording: false, video_mbps: 0.0, ..Self::default() }
    }
}

impl Workload {
    /// Returns roughly how many packets a second the busier direction has, without the flight's.
    pub(crate) fn packets_per_second(&self) -> f64 {
        let of_video = |mbps: f64| mbps * 1e6 / 8.0 / PACKET_BYTES as f64;
        let flows = self.flows.iter().filter(|flow| flow.number > 0);
        let flows = flows.map(|flow| flow.rate_hz.max(of_video(flow.mbps)));
        self.control_hz + self.live_hz + of_video(self.video_mbps) + flows.sum::<f64>()
    }
}

/// One packet of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlannedPacket {
    /// When it is handed in, from the start of the workload.
    pub(crate) at: Duration,
    /// Which stream it belongs to.
    pub(crate) stream: Stream,
    /// Which of several flows of its stream it belongs to.
    pub(crate) flow: u8,
    /// When the video frame was taken of which it is a piece; elsewhere the same as `at`.
    pub(crate) taken: Duration,
    /// Its number within flow and direction, from 0 without holes.
    pub(crate) sequence: u32,
    /// Its length in bytes.
    pub(crate) len: usize,
}

impl Workload {
    /// Returns the packets of one direction in the order of time.
    pub(crate) fn plan(&self, direction: Direction, recording: &Recording) -> Vec<PlannedPacket> {
        let mut packets: Vec<PlannedPacket> = self.control().chain(self.live()).collect();
        if self.recording {
            packets.extend(self.flight(direction, recording));
        }
        if direction == Direction::Down {
            packets.extend(self.video());
        }
        let flows = self.flows.iter().filter(|flow| flow.number > 0 && flow.goes(direction));
        packets.extend(flows.flat_map(|flow| flow.packets(self.seconds)));
        packets.sort_by_key(|packet| (packet.at, packet.stream, packet.flow, packet.sequence));
        packets
    }

    /// Plans the control stream.
    fn control(&self) -> impl Iterator<Item = PlannedPacket> {
        even(Stream::Control, self.control_hz, 0.0, self.seconds, self.control_bytes)
    }

    /// Plans the live stream, half an interval behind the control stream, so that neither rides on
    /// the other's instants.
    fn live(&self) -> impl Iterator<Item = PlannedPacket> {
        even(Stream::Live, self.live_hz, 0.5, self.seconds, self.live_bytes)
    }

    /// Plans the recorded flight of one direction, cut off where the workload ends.
    fn flight(
        &self,
        direction: Direction,
        recording: &Recording,
    ) -> impl Iterator<Item = PlannedPacket> {
        let end = Duration::from_secs_f64(self.seconds);
        let frames = recording.frames(direction).iter().take_while(move |frame| frame.at < end);
        frames.zip(0..).map(|(frame, sequence)| PlannedPacket {
            at: frame.at,
            taken: frame.at,
            stream: Stream::Mavlink,
            flow: 0,
            sequence,
            len: frame.bytes.len(),
        })
    }

    /// Plans the video stream.
    fn video(&self) -> impl Iterator<Item = PlannedPacket> {
        video(self.video_shape, self.video_mbps, self.seconds)
    }
}

/// Makes the bytes of a planned packet that is handed in at `sent`.
pub(crate) fn packet_bytes(
    packet: &PlannedPacket,
    direction: Direction,
    recording: &Recording,
    sent: Duration,
) -> Vec<u8> {
    match packet.stream {
        Stream::Mavlink => {
            let frame = recording.frames(direction).get(packet.sequence as usize);
            frame.map_or_else(Vec::new, |frame| frame.bytes.to_vec())
        }
        stream => Stamp { stream, flow: packet.flow, sequence: packet.sequence, sent }
            .piece(packet.len, packet.taken),
    }
}

/// Plans what a camera sends.
fn video(shape: VideoShape, mbps: f64, seconds: f64) -> impl Iterator<Item = PlannedPacket> {
    let packets = shape.packets(mbps, seconds);
    packets.into_iter().zip(0..).map(|(piece, sequence)| PlannedPacket {
        at: piece.at,
        taken: piece.taken,
        stream: Stream::Video,
        flow: 0,
        sequence,
        len: piece.len,
    })
}

/// Plans packets at even distances; the first after `phase` of a distance.
fn even(
    stream: Stream,
    hz: f64,
    phase: f64,
    seconds: f64,
    len: usize,
) -> impl Iterator<Item = PlannedPacket> {
    let count = (seconds * hz).round() as u32;
    (0..count).map(move |sequence| {
        let at = Duration::from_secs_f64((f64::from(sequence) + phase) / hz);
        PlannedPacket { at, taken: at, stream, flow: 0, sequence, len }
    })
}

/// Tells whether there is no rate: reports leave out streams that are not there.
fn is_zero(hz: &f64) -> bool {
    *hz == 0.0
}

/// Tells whether a live message has its usual size, which reports leave out.
fn is_usual_live(bytes: &usize) -> bool {
    *bytes == LIVE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_counts_what_the_scene_says() {
        let recording = Recording::load().expect("the recording is sound");
        let workload = Workload::default();
        for direction in Direction::BOTH {
            let plan = workload.plan(direction, &recording);
            let count = |stream| plan.iter().filter(|packet| packet.stream == stream).count();
            assert_eq!(count(Stream::Control), 3_000);
            assert!(count(Stream::Mavlink) > 500);
            assert_eq!(count(Stream::Video) > 0, direction == Direction::Down);
            assert!(plan.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }

    #[test]
    fn live_messages_come_between_control_messages() {
        let recording = Recording::load().expect("the recording is sound");
        let workload = Workload { seconds: 2.0, live_hz: 50.0, ..Workload::default() };
        let plan = workload.plan(Direction::Up, &recording);
        let live: Vec<_> = plan.iter().filter(|packet| packet.stream == Stream::Live).collect();
        assert_eq!((live.len(), live[0].at, live[0].len), (100, Duration::from_millis(10), 50));
        assert_eq!(live[99].at, Duration::from_millis(1_990));
    }

    #[test]
    fn video_has_its_rate() {
        let recording = Recording::load().expect("the recording is sound");
        let plan = Workload::default().plan(Direction::Down, &recording);
        let video = plan.iter().filter(|packet| packet.stream == Stream::Video);
        let bits: usize = video.map(|packet| packet.len * 8).sum();
        assert!((bits as f64 / 60.0 / 5.8e6 - 1.0).abs() < 0.01);
    }
}
