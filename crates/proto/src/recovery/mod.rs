//! What one path learns from what it sent and received: acknowledgements, RTT, loss, rates, clocks.
//!
//! Nothing here decides what to send: [`crate::path`] owns these estimators, feeds them in packet
//! order and draws the conclusions. Sits between the ACK frames of the wire and the path's state.

mod ack_tracker;
mod clock_offset;
mod delivery_rate;
mod landed;
mod least_of;
mod loss_estimator;
mod receipt;
mod rtt;
mod sent_packets;

pub(crate) use ack_tracker::{
    AckToSend, AckTracker, Arrival, MAX_ACK_DELAY, PACKETS_PER_ACK, RIDE,
};
pub(crate) use clock_offset::{Age, ClockOffset, ClockSample, PeerClock};
pub(crate) use delivery_rate::{DeliveryRate, RateSample};
pub(crate) use least_of::{LINK_MEMORY, LeastOf};
pub(crate) use loss_estimator::LOSS_DOUBT;
pub(crate) use receipt::Receipt;
pub(crate) use rtt::{GRANULARITY, INITIAL_RTT, RttEstimator, SLOW_ACK_DELAY, smoothed};
pub(crate) use sent_packets::{
    AckInfo, Mark, NewlyAcked, SentFrame, SentFrames, SentPacket, SentPackets,
};
