//! What meets in a network of UAVs, and what came of it, in either life.

use netem::Outage;

use super::topology::UavNetwork;
use crate::scheme::Scheme;
use crate::testbed::tcp_flow::{FlowRun, Offer};
use units::Duration;

/// How often a connection is looked at: often enough to see each recovery, which takes a round
/// trip.
pub(super) const SAMPLE: Duration = Duration::from_millis(50);

/// One network with its senders.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    /// The network.
    pub(super) network: UavNetwork,
    /// When its hop does not work.
    pub(super) outages: Vec<Outage>,
    /// Who sends.
    pub(super) senders: Vec<Sender>,
}

/// One flow of a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// The UAV that sends it, from zero.
    pub(super) uav: usize,
    /// The congestion control, or a flow of constant rate.
    pub(super) scheme: Scheme,
    /// What its application offers; none is as much as the connection takes.
    pub(super) offered: Option<Offer>,
}

/// What came of one meeting.
#[derive(Clone, Debug)]
pub(super) struct MeetingRun {
    /// Each sender's flow.
    pub(super) flows: Vec<FlowRun>,
    /// Packets to the station that found the hop's queue full.
    pub(super) queue_drops: u64,
}
