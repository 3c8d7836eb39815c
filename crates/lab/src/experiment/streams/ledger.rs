//! What was sent and what became of it: the raw record that every figure is computed from.
//!
//! One ledger per scheme and direction. Times are on the measurement's clock, from the start of
//! the workload; deliveries are what the receiving application sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use emulator::Stalls;
use serde_json::Value;
use units::Duration;

use super::workload::PlannedPacket;
use crate::doubt::at_best;
use crate::testbed::{Direction, Recording, Stamp, Stream, WireBytes};

/// Records one stream of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamLedger {
    /// Length of every planned packet, by sequence number.
    pub(crate) lens: Vec<usize>,
    /// When the video frame was taken that each is a piece of; empty where there are none.
    pub(crate) taken: Vec<Duration>,
    /// When each was handed in; none while it has not been.
    pub(crate) sent: Vec<Option<Duration>>,
    /// When each was delivered first; none while it has not been.
    pub(crate) delivered: Vec<Option<Duration>>,
    /// Deliveries of what had been delivered before.
    pub(crate) duplicates: u64,
    /// Packets that the sending application could not hand in: the transport pushed back.
    pub(crate) refused: u64,
}

impl StreamLedger {
    /// Makes a ledger that expects packets of these lengths.
    pub(crate) fn new(lens: Vec<usize>) -> Self {
        let count = lens.len();
        Self {
            lens,
            taken: Vec::new(),
            sent: vec![None; count],
            delivered: vec![None; count],
            duplicates: 0,
            refused: 0,
        }
    }

    /// Returns the delays of what was delivered, in seconds, in the order of sending.
    pub(crate) fn delays(&self) -> impl Iterator<Item = f64> {
        self.messages().filter_map(|(_, delay)| delay)
    }

    /// Returns when each message was sent and its delay, none where it was lost; in seconds.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        let pairs = self.sent.iter().zip(&self.delivered);
        pairs.filter_map(|(sent, delivered)| {
            let sent = (*sent)?.as_secs_f64();
            Some((sent, delivered.map(|at| at.as_secs_f64() - sent)))
        })
    }

    /// Counts what was handed in.
    pub(crate) fn sent_count(&self) -> usize {
        self.sent.iter().flatten().count()
    }

    /// Counts what was delivered at least once.
    pub(crate) fn delivered_count(&self) -> usize {
        self.delivered.iter().flatten().count()
    }

    /// Returns what would have been seen at best had nothing stood still.
    fn at_best(&self, stalls: &Stalls) -> Self {
        let mut best = self.clone();
        for (sent, delivered) in best.sent.iter_mut().zip(&mut best.delivered) {
            let Some(from) = *sent else { continue };
            if !at_best(from, delivered, stalls) {
                *sent = None;
            }
        }
        best
    }

    /// Returns the times of first deliveries in ascending order, in seconds.
    pub(crate) fn delivery_times(&self) -> Vec<f64> {
        let mut times: Vec<f64> =
            self.delivered.iter().flatten().map(|at| at.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// Records all streams of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    streams: [StreamLedger; Stream::ALL.len()],
    /// Those of the flows that are numbered, from number 1.
    flows: Vec<StreamLedger>,
    flight: FlightIndex,
    /// Deliveries that no packet of the plan accounts for.
    pub(crate) strangers: u64,
}

impl Ledger {
    /// Makes a ledger for a plan of one direction.
    pub(crate) fn new(plan: &[PlannedPacket], direction: Direction, recording: &Recording) -> Self {
        let expected = |is_of: &dyn Fn(&&PlannedPacket) -> bool| {
            let packets = plan.iter().filter(is_of);
            let (lens, taken) = packets.map(|packet| (packet.len, packet.taken)).unzip();
            StreamLedger { taken, ..StreamLedger::new(lens) }
        };
        let streams = Stream::ALL
            .map(|stream| expected(&|packet| packet.stream == stream && packet.flow == 0));
        let last = plan.iter().map(|packet| packet.flow).max().unwrap_or(0);
        let flows = (1..=last).map(|flow| expected(&|packet| packet.flow == flow)).collect();
        let flight = FlightIndex::new(recording, direction);
        Self { streams, flows, flight, strangers: 0 }
    }

    /// Returns the record of a flow of a stream; none where it has no packets in this direction.
    pub(crate) fn flow(&self, stream: Stream, number: u8) -> Option<&StreamLedger> {
        match number.checked_sub(1) {
            None => Some(self.stream(stream)),
            Some(place) => self.flows.get(usize::from(place)),
        }
    }

    fn flow_mut(&mut self, stream: Stream, number: u8) -> Option<&mut StreamLedger> {
        match number.checked_sub(1) {
            None => Some(&mut self.streams[stream as usize]),
            Some(place) => self.flows.get_mut(usize::from(place)),
        }
    }

    /// Returns the record of one stream.
    pub(crate) fn stream(&self, stream: Stream) -> &StreamLedger {
        &self.streams[stream as usize]
    }

    /// Notes that a planned packet was handed in at `at`.
    pub(crate) fn on_sent(&mut self, packet: &PlannedPacket, at: Duration) {
        let ledger = self.flow_mut(packet.stream, packet.flow);
        let sent = ledger.and_then(|ledger| ledger.sent.get_mut(packet.sequence as usize));
        if let Some(sent) = sent {
            sent.get_or_insert(at);
        }
    }

    /// Notes that a planned packet could not be handed in at `at`; it counts as sent and lost.
    pub(crate) fn on_refused(&mut self, packet: &PlannedPacket, at: Duration) {
        self.on_sent(packet, at);
        if let Some(ledger) = self.flow_mut(packet.stream, packet.flow) {
            ledger.refused += 1;
        }
    }

    /// Notes what an application received at `at`: a stamped packet, or MAVLink, of which a
    /// datagram may hold several frames.
    pub(crate) fn on_delivered(&mut self, bytes: &[u8], at: Duration) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = mavlink_len(rest).unwrap_or(rest.len()).min(rest.len());
            let (frame, after) = rest.split_at(len);
            rest = after;
            if let Some(stamp) = Stamp::read(frame) {
                self.mark(stamp.stream, stamp.flow, stamp.number(), at);
            } else if let Some(sequence) = self.flight.take(frame) {
                self.mark(Stream::Mavlink, 0, sequence, at);
            } else {
                self.strangers += 1;
            }
        }
    }

    /// Marks one packet as delivered.
    fn mark(&mut self, stream: Stream, flow: u8, sequence: u32, at: Duration) {
        let Some(ledger) = self.flow_mut(stream, flow) else {
            self.strangers += 1;
            return;
        };
        match ledger.delivered.get_mut(sequence as usize) {
            Some(slot @ None) => *slot = Some(at),
            Some(Some(_)) => ledger.duplicates += 1,
            None => self.strangers += 1,
        }
    }
}

/// What came out of one scheme's run.
#[derive(Debug)]
pub(crate) struct StreamRun {
    /// What became of the packets, in the order of [`Direction::BOTH`].
    pub(crate) ledgers: [Ledger; 2],
    /// What each direction handed to the links while the workload ran, in the same order.
    pub(crate) wire: [WireBytes; 2],
    /// Bytes that entered each link meanwhile, both directions; empty where nobody counted them
    /// apart.
    pub(crate) by_link: Vec<u64>,
    /// When the emulator or the programs stood still; none in the world, where nothing does.
    pub(crate) stalls: Option<Arc<Stalls>>,
    /// What the daemons that send in each direction say of themselves at the end, in the same
    /// order; none where there are none.
    pub(crate) status: Option<[Value; 2]>,
    /// How long it took from its start until every stream had come through both ways; none in the
    /// world.
    pub(crate) connected: Option<Duration>,
}

impl StreamRun {
    /// Returns what would have been seen at best had nothing stood still.
    pub(crate) fn at_best(&self, stalls: &Stalls) -> Self {
        let ledgers = self.ledgers.clone().map(|mut ledger| {
            ledger.streams = ledger.streams.map(|stream| stream.at_best(stalls));
            ledger.flows.iter_mut().for_each(|flow| *flow = flow.at_best(stalls));
            ledger
        });
        let by_link = self.by_link.clone();
        let (status, connected) = (self.status.clone(), self.connected);
        Self { ledgers, wire: self.wire, by_link, stalls: None, status, connected }
    }

    /// Returns what became of the packets of a direction.
    pub(crate) fn ledger(&self, direction: Direction) -> &Ledger {
        &self.ledgers[direction as usize]
    }

    /// Returns the bytes that both ends handed to the links.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.wire.iter().map(|wire| wire.sent).sum()
    }
}

/// Returns the length of the MAVLink 2 frame at the front, where there is one.
fn mavlink_len(bytes: &[u8]) -> Option<usize> {
    let [0xFD, payload, incompatible, ..] = bytes else { return None };
    Some(12 + usize::from(*payload) + if incompatible & 1 == 1 { 13 } else { 0 })
}

/// Finds the number of a recorded frame by its bytes; equal frames are taken in turn.
#[derive(Clone, Debug)]
struct FlightIndex {
    numbers: BTreeMap<&'static [u8], Vec<u32>>,
    taken: BTreeMap<&'static [u8], usize>,
}

impl FlightIndex {
    fn new(recording: &Recording, direction: Direction) -> Self {
        let mut numbers: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (frame, number) in recording.frames(direction).iter().zip(0..) {
            numbers.entry(frame.bytes).or_default().push(number);
        }
        Self { numbers, taken: BTreeMap::new() }
    }

    /// Returns the number of the next frame with these bytes, or the last one's when all are taken.
    fn take(&mut self, frame: &[u8]) -> Option<u32> {
        let (bytes, numbers) = self.numbers.get_key_value(frame)?;
        let taken = self.taken.entry(bytes).or_default();
        let number = numbers[(*taken).min(numbers.len() - 1)];
        *taken += 1;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::streams::workload::Workload;

    fn ledger() -> (Vec<PlannedPacket>, Ledger, Recording) {
        let recording = Recording::load().expect("the recording is sound");
        let plan = Workload::default().plan(Direction::Down, &recording);
        let ledger = Ledger::new(&plan, Direction::Down, &recording);
        (plan, ledger, recording)
    }

    #[test]
    fn deliveries_are_matched_and_duplicates_counted() {
        let (plan, mut ledger, recording) = ledger();
        let control = plan.iter().find(|p| p.stream == Stream::Control).expect("control");
        let at = Duration::from_millis(3);
        ledger.on_sent(control, at);
        let stamp =
            Stamp { flow: 0, stream: Stream::Control, sequence: control.sequence, sent: at };
        for _ in 0..3 {
            ledger.on_delivered(&stamp.packet(100), Duration::from_millis(15));
        }
        let stream = ledger.stream(Stream::Control);
        assert_eq!((stream.sent_count(), stream.delivered_count(), stream.duplicates), (1, 1, 2));
        assert!((stream.delays().next().expect("one delay") - 0.012).abs() < 1e-9);

        let frames = &recording.frames(Direction::Down)[..2];
        let both = [frames[0].bytes, frames[1].bytes].concat();
        ledger.on_delivered(&both, at);
        assert_eq!(ledger.stream(Stream::Mavlink).delivered_count(), 2);
        ledger.on_delivered(frames[0].bytes, at);
        assert_eq!(ledger.stream(Stream::Mavlink).duplicates, 1);
    }

    #[test]
    fn strangers_are_counted_apart() {
        let (_, mut ledger, _) = ledger();
        ledger.on_delivered(b"what is this", Duration::ZERO);
        let stamp =
            Stamp { flow: 0, stream: Stream::Control, sequence: 9_999, sent: Duration::ZERO };
        ledger.on_delivered(&stamp.packet(100), Duration::ZERO);
        assert_eq!(ledger.strangers, 2);
    }
}
