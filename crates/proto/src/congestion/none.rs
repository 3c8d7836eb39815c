//! No congestion control: everything may leave at once. For experiments, and for links that are
//! shaped elsewhere.

use units::Rate;

use super::{Acked, Controller, LinkView, Lost};

/// Lets everything go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unlimited;

impl Controller for Unlimited {
    fn on_ack(&mut self, _view: &LinkView, _acked: &Acked) {}

    fn on_loss(&mut self, _view: &LinkView, _lost: &Lost) {}

    fn on_revival(&mut self, _view: &LinkView) {}

    fn cwnd(&self) -> u64 {
        u64::MAX
    }

    fn pacing_rate(&self, _view: &LinkView) -> Option<Rate> {
        None
    }
}
