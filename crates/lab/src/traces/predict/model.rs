//! Plays a recording to a TCP in virtual time: over an ideal coded link, and over one of its pairs
//! with repeats by the radio and, while TCP is silent, by a shim below it.
//!
//! ```text
//! sender → queue → slot: as many packets as it lets through → delay → receiver
//!   └──── delay ← region? ← acknowledgements ←───────────────────────┘
//! ```
//! Before the recording begins nothing is lost, and TCP has been connected for a second.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use netem::{SMALL_BYTES, SlotMatrix, SlotRow};
use units::{Duration, Instant, Rate};
use world::tcp::{Config, Congestion, LowRateRetry, RTO_MIN, Receiver, Sender, WINDOW};

use super::waiting::Waiting;
use crate::traces::synth::heard;

/// Bytes of a packet of TCP before its payload, with time stamps.
pub(super) const HEADERS: u64 = 52;
/// How often a radio sends a frame at most: 15 repeats [FlowCode §V].
const TRIES: u32 = 16;
/// Packets that wait at a radio at most: half a second.
const RADIO_QUEUE: usize = 50;
/// The rate of repeats in place of what TCP does not send [FlowCode §V].
const RETRY_RATE: Rate = Rate::from_bps(10_000);
/// For how long TCP has been connected when the recording begins.
const LEAD_IN: Duration = Duration::from_secs(1);
/// The ends of the flow.
const ENDS: [SocketAddrV4; 2] = [
    SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 1), 40_000),
    SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 2), 5_001),
];

/// What is assumed of TCP and of what lies around the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// How the window grows and falls.
    pub(crate) congestion: Congestion,
    /// TCP's payload in a packet, bytes.
    pub(crate) payload_bytes: u64,
    /// Each way, beside the slots.
    pub(crate) delay: Duration,
    /// How far from a packet that was heard there is a connection for acknowledgements.
    pub(crate) region: Duration,
    /// Packets that may wait for the slots of a pair, if not those of a radio.
    pub(crate) queue: Option<usize>,
}

/// A link that is made of a recording.
#[derive(Clone, Debug)]
pub(crate) enum Over<'m> {
    /// All pairs at once, ideally coded.
    Coded,
    /// One of its pairs.
    Pair(&'m SlotRow),
}

/// Returns how many bytes TCP has delivered by the end of each slot.
pub(crate) fn play(matrix: &SlotMatrix, over: &Over<'_>, around: &Around) -> Vec<u64> {
    let mut play = Play::new(matrix, over, around);
    let before = play.receiver.received_bytes();
    (0..matrix.slots()).map(|slot| play.slot(Some(slot)) - before).collect()
}

/// Returns the pair that heard most, of equals the first.
pub(crate) fn best(matrix: &SlotMatrix) -> Option<&SlotRow> {
    let heard = |row: &SlotRow| row.trace.slots().iter().filter(|heard| **heard).count();
    matrix.rows().iter().rev().max_by_key(|row| heard(row))
}

/// Tells in which slots small packets pass: those at most `reach` from one in which anything was
/// heard.
pub(super) fn regions(heard: &[u16], slot: Duration, reach: Duration) -> Vec<bool> {
    let reach = usize::try_from(reach.as_nanos() / slot.as_nanos()).unwrap_or(usize::MAX);
    let mut connected = vec![false; heard.len()];
    let mut done = 0;
    for (place, _) in heard.iter().enumerate().filter(|(_, count)| **count > 0) {
        let to = place.saturating_add(reach).saturating_add(1).min(heard.len());
        connected[place.saturating_sub(reach).max(done)..to].fill(true);
        done = to;
    }
    connected
}

/// Packets on their way, in the order in which they come, and when.
type Coming = VecDeque<(Instant, Vec<u8>)>;

/// A flow over a recording.
struct Play {
    slot: Duration,
    delay: Duration,
    /// When the next slot begins.
    now: Instant,
    sender: Sender,
    /// Below the sender, over a pair.
    retry: Option<LowRateRetry>,
    receiver: Receiver,
    /// Packets that each slot lets through, those of a slot before the recording, and where small
    /// ones pass.
    counts: Vec<u16>,
    calm: u16,
    connected: Vec<bool>,
    waiting: Waiting,
    /// Of a pair: how often the packet at the transmitter has been sent; none over a code.
    tries: Option<u32>,
    /// Packets on their way, to the receiver and to the sender: when they come.
    coming: [Coming; 2],
}

impl Play {
    fn new(matrix: &SlotMatrix, over: &Over<'_>, around: &Around) -> Self {
        let slot = matrix.slot();
        let counts = match over {
            Over::Coded => heard(matrix),
            Over::Pair(row) => row.trace.slots().iter().map(|heard| u16::from(*heard)).collect(),
        };
        let (tries, waiting) = match over {
            Over::Coded => (None, Waiting::tunnel(slot, around)),
            Over::Pair(_) => (Some(0), Waiting::radio(around.queue.unwrap_or(RADIO_QUEUE))),
        };
        let mtu = (around.payload_bytes + HEADERS) as usize;
        let [source, destination] = ENDS;
        let congestion = around.congestion;
        let config = Config { source, destination, mtu, congestion, bytes: None, rto_min: RTO_MIN };
        let mut play = Self {
            slot,
            delay: around.delay,
            now: Instant::ZERO,
            sender: Sender::new(Instant::ZERO, config),
            retry: tries.map(|_| LowRateRetry::new(RETRY_RATE, mtu)),
            receiver: Receiver::new(destination, mtu, WINDOW),
            calm: 1,
            connected: regions(&heard(matrix), slot, around.region),
            counts,
            waiting,
            tries,
            coming: [VecDeque::new(), VecDeque::new()],
        };
        for _ in 0..LEAD_IN.as_nanos().div_ceil(slot.as_nanos()) {
            play.slot(None);
        }
        play
    }

    /// Lets a slot pass, of the recording or before it; returns how many bytes have been delivered
    /// by its end.
    fn slot(&mut self, slot: Option<usize>) -> u64 {
        let connected = slot.is_none_or(|slot| self.connected[slot]);
        let through = slot.map_or(self.calm, |slot| self.counts[slot]);
        self.waiting.set_way(self.now, connected, through);
        self.exchange(self.now, connected);
        let end = self.now + self.slot;
        for packet in self.taken(through) {
            put(&mut self.coming[0], end + self.delay, packet);
        }
        while let Some(at) = self.next().filter(|at| *at < end) {
            let at = at.max(self.now);
            self.exchange(at, connected);
        }
        self.now = end;
        self.receiver.received_bytes()
    }

    /// Returns the packets that a slot lets through.
    fn taken(&mut self, through: u16) -> Vec<Vec<u8>> {
        let Some(tries) = &mut self.tries else {
            return (0..through).map_while(|_| self.waiting.pop(self.now)).collect();
        };
        if self.waiting.is_empty() {
            return Vec::new();
        }
        *tries += 1;
        let is_through = through > 0;
        if !is_through && *tries < TRIES {
            return Vec::new();
        }
        *tries = 0;
        self.waiting.pop(self.now).into_iter().filter(|_| is_through).collect()
    }

    /// Returns when something comes or is due.
    fn next(&self) -> Option<Instant> {
        let coming = self.coming.iter().filter_map(|way| way.front().map(|(at, _)| *at));
        let retry = self.retry.as_ref().and_then(LowRateRetry::timeout);
        let due = [self.sender.timeout(), self.receiver.timeout(), retry].into_iter().flatten();
        coming.chain(due).min()
    }

    /// Returns the next packet of the sender, or of the shim below it.
    fn sent(&mut self, now: Instant) -> Option<Vec<u8>> {
        let packet = self.sender.poll_packet(now);
        let Some(retry) = &mut self.retry else { return packet };
        packet.iter().for_each(|packet| retry.on_sent(now, packet));
        packet.or_else(|| retry.poll(now))
    }

    /// Hands over what has come, does what is due, and takes what either end sends.
    fn exchange(&mut self, now: Instant, connected: bool) {
        let come = |way: &mut Coming| {
            let is_due = way.front().is_some_and(|(at, _)| *at <= now);
            if is_due { way.pop_front().map(|(_, packet)| packet) } else { None }
        };
        while let Some(packet) = come(&mut self.coming[0]) {
            self.receiver.handle_packet(now, &packet);
        }
        while let Some(packet) = come(&mut self.coming[1]) {
            if let Some(retry) = &mut self.retry {
                retry.on_received(&packet);
            }
            self.sender.handle_packet(now, &packet);
        }
        if self.sender.timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
        }
        if self.receiver.timeout().is_some_and(|at| at <= now) {
            self.receiver.handle_timeout(now);
        }
        while let Some(packet) = self.sent(now) {
            if packet.len() as u64 > SMALL_BYTES {
                self.waiting.push(now, packet);
            } else if connected {
                put(&mut self.coming[0], now + self.delay, packet);
            }
        }
        while let Some(packet) = self.receiver.poll_packet(now) {
            if connected {
                put(&mut self.coming[1], now + self.delay, packet);
            }
        }
    }
}

/// Puts a packet on its way.
fn put(way: &mut Coming, at: Instant, packet: Vec<u8>) {
    let place = way.partition_point(|(other, _)| *other <= at);
    way.insert(place, (at, packet));
}
