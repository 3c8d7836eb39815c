//! Plays a recording to a TCP in virtual time: over an ideal coded link, and over one of its pairs with repeats.

use std::sync::Arc;

use netem::{
    Delay, DeliveryTrace, LinkModel, LinkRate, LossModel, OPPORTUNITY_BYTES, QueueLimit,
    SMALL_BYTES, Scenario, SlotClock, SlotLoss, SlotMatrix, SlotRow, UDP_IP_OVERHEAD, WorldOptions,
};
use units::{Duration, Instant};
use world::tcp::{Congestion, FlowHost, FlowOptions, FlowWorld};

use crate::traces::synth::heard;

/// Bytes of a packet that fills an opportunity of the link on its way, and of TCP's payload in it.
const MTU: usize = OPPORTUNITY_BYTES as usize - UDP_IP_OVERHEAD;
const PAYLOAD: u64 = MTU as u64 - 52;
/// How often a radio repeats a frame [FlowCode §V].
const RETRIES: u64 = 15;

/// What is assumed of TCP and of what lies around the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// How the window grows and falls.
    pub(crate) congestion: Congestion,
    /// Each way, beside the slots.
    pub(crate) delay: Duration,
    /// How far from a packet that was heard there is a connection for acknowledgements.
    pub(crate) region: Duration,
    /// Packets that may wait for their slots.
    pub(crate) queue: u64,
}

/// A link that is made of a recording.
#[derive(Clone, Debug)]
pub(crate) enum Over<'m> {
    /// All pairs at once, ideally coded.
    Coded,
    /// One of its pairs.
    Pair(&'m SlotRow),
}

/// Returns how many packets of TCP had arrived by the end of each slot; TCP starts with the recording, and never ends.
///
/// # Panics
/// Never: a matrix has rows and slots, and the scenario has its two hosts.
pub(crate) fn play(matrix: &SlotMatrix, over: &Over<'_>, around: &Around) -> Vec<u64> {
    let length = until(matrix, matrix.slots());
    let there = match over {
        Over::Coded => coded(matrix, length),
        Over::Pair(row) => Some(pair(matrix, row)),
    };
    // Nothing was ever heard.
    let Some(there) = there else { return vec![0; matrix.slots()] };
    let mut scenario = Scenario::new("predict", length.as_secs_f64());
    let there =
        LinkModel { delay: Delay::Fixed(around.delay), queue: limit(around.queue), ..there };
    scenario = scenario.link("air", "station", "drone", &there);
    scenario.links[0].down = back(matrix, around);
    let hosts = FlowHost::over_links(&scenario).expect("a station and a drone");
    let options = WorldOptions { seed: Some(1), ..WorldOptions::default() };
    let mut world = FlowWorld::new(&scenario, hosts, &options);
    let station = scenario.host("station").expect("it was named above");
    let options = FlowOptions { congestion: around.congestion, mtu: MTU, ..FlowOptions::default() };
    let flow = world.start(station, options);
    world.run_until(Instant::ZERO + length);
    let mut arrived = vec![0; matrix.slots()];
    let mut delivered = world.delivered(flow).iter().peekable();
    let mut packets = 0;
    for (slot, arrived) in arrived.iter_mut().enumerate() {
        let end = Instant::ZERO + until(matrix, slot + 1);
        while let Some((_, bytes)) = delivered.next_if(|(at, _)| *at <= end) {
            packets = bytes / PAYLOAD;
        }
        *arrived = packets;
    }
    arrived
}

/// Returns the pair that heard most.
pub(crate) fn best(matrix: &SlotMatrix) -> Option<&SlotRow> {
    let heard = |row: &SlotRow| row.trace.slots().iter().filter(|heard| **heard).count();
    // Of equals the first.
    matrix.rows().iter().rev().max_by_key(|row| heard(row))
}

/// Returns how long the first slots take.
fn until(matrix: &SlotMatrix, slots: usize) -> Duration {
    // A matrix has ten million slots at most.
    matrix.slot() * slots as u32
}

fn limit(packets: u64) -> QueueLimit {
    QueueLimit { packets: Some(packets), bytes: None }
}

/// Makes a link with an opportunity for each packet heard, at the end of its slot.
fn coded(matrix: &SlotMatrix, length: Duration) -> Option<LinkModel> {
    let counts = heard(matrix);
    let times = counts.iter().enumerate().flat_map(|(slot, &count)| {
        let end = until(matrix, slot + 1);
        core::iter::repeat_n(end, usize::from(count))
    });
    let trace = Arc::new(DeliveryTrace::from_times(times, length, "predict").ok()?);
    Some(LinkModel {
        rate: LinkRate::Deliveries { path: String::new(), trace },
        ..LinkModel::default()
    })
}

fn pair(matrix: &SlotMatrix, row: &SlotRow) -> LinkModel {
    let alone = SlotMatrix::new(matrix.slot(), vec![row.clone()]);
    let alone = Arc::new(alone.expect("a row of a matrix is a matrix"));
    let slots = SlotLoss::of_matrix("", &alone, Some((&row.from, &row.to)));
    LinkModel { retries: RETRIES, ..clocked(matrix, slots) }
}

/// Makes the way of the acknowledgements.
fn back(matrix: &SlotMatrix, around: &Around) -> LinkModel {
    let slots = SlotLoss::of_matrix("", &Arc::new(matrix.clone()), None);
    let slots = SlotLoss { region: around.region, ..slots };
    LinkModel { delay: Delay::Fixed(around.delay), ..clocked(matrix, slots) }
}

fn clocked(matrix: &SlotMatrix, slots: SlotLoss) -> LinkModel {
    let clock = SlotClock { slot: matrix.slot(), small_bytes: SMALL_BYTES };
    let loss = LossModel { slots: Some(slots), ..LossModel::default() };
    LinkModel { rate: LinkRate::Slots(clock), loss, ..LinkModel::default() }
}
