//! What a form of the tunnel is: both its halves.

use core::fmt::Debug;

use units::Instant;

use super::queue::Waiting as Packet;
use super::release::Released;
use super::sender::Ask;
use super::ways::Ways;
use crate::delivery::{Builder, Incoming, Loss, Offer, Taken};
use crate::ids::PathId;
use crate::memory::{Held, Room};
use crate::recovery::Mark;
use crate::schedule::{Decision, ScheduleView};
use crate::status::TunnelStatus;
use crate::wire::Frame;

/// Sends and receives TCP of the tunnel in one way. The operator says which form takes what is
/// handed in here, the peer's which one its frames are for.
pub(super) trait Form: Debug {
    /// Takes a packet in.
    fn submit(&mut self, packet: Packet);

    /// Takes a frame that came in, if it is one of its own.
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken;

    /// Tells whether a path with room could take something.
    fn wants(&self) -> bool;

    /// Returns the bytes that wait for a path.
    fn backlog(&self) -> usize;

    /// Returns how many flows wait, what has left before counting as one.
    fn turns(&self) -> usize;

    /// Adds a frame to what leaves by a path, if that should take one; tells whether it did.
    fn poll_frame(&mut self, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) -> bool;

    /// Tells whether there is something to say that goes by this path as well, and waits for
    /// nothing.
    fn tells(&self, _path: PathId) -> bool {
        false
    }

    /// Adds that.
    fn poll_along(&mut self, _path: PathId, _datagram: &mut Builder<'_>) {}

    /// Learns that a packet arrived to which something was added.
    fn on_acked(&mut self, _mark: Mark) {}

    /// Learns that such a packet was lost.
    fn on_lost(&mut self, _mark: Mark, _loss: &Loss<'_>) {}

    /// Learns what the paths are like.
    fn set_ways(&mut self, now: Instant, ways: &Ways);

    /// Returns how many bytes it holds.
    fn held(&self) -> Held;

    /// Learns how many more it may hold.
    fn set_room(&mut self, room: &Room);

    /// Returns when [`Form::handle_timeout`] wants to be called.
    fn timeout(&self) -> Option<Instant>;

    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next packet that may be passed on.
    fn poll_released(&mut self) -> Option<Released>;

    /// Tells whether nothing waits and nothing is under way.
    fn is_idle(&self) -> bool;

    /// Gives back what is not needed while it is idle.
    fn give_back(&mut self);

    /// Adds what people and scripts may see.
    fn show(&self, status: &mut TunnelStatus);

    /// Returns how many packets were passed on before.
    fn duplicates(&self) -> u64;
}

/// Asks the scheduler on behalf of the path that is served.
pub(super) struct Asked<'a, 'b> {
    pub(super) offer: &'a Offer<'b>,
    /// Bytes of the form's own among those that wait.
    pub(super) own: usize,
}

impl Ask for Asked<'_, '_> {
    fn is_for(&self, backlog: usize, packet: usize, frame: usize) -> bool {
        let others = self.offer.backlog.saturating_sub(self.own);
        let view = ScheduleView { frame, ..self.offer.view(others + backlog, packet) };
        self.offer.scheduler.offer(&view, self.offer.turn.path.id()) == Decision::Send
    }
}
