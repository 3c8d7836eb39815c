//! The second half of a link: what happens after the last bit has left the transmitter.
//!
//! Decides whether the packet is lost and when it arrives. Each random process draws from a stream
//! of its own and draws for every packet, so that switching one process on or off leaves the fates
//! that the others decide as they were.

use super::model::{Delay, LinkModel};
use super::outage::Calendar;
use super::verdict::{Delivery, DropCause, Verdict};
use smallvec::smallvec;
use units::{Instant, Rng};

/// The way from one transmitter to one receiver.
#[derive(Clone, Debug)]
pub(crate) struct Air {
    delay: Delay,
    drops: Calendar,
    independent_loss: f64,
    loss_rng: Rng,
}

impl Air {
    pub(crate) fn new(model: &LinkModel, seed: u64, label: &str) -> Self {
        Self {
            delay: model.delay.clone(),
            drops: Calendar::of_drops(&model.outages),
            independent_loss: model.loss.independent,
            loss_rng: Rng::stream(seed, &format!("{label}/loss")),
        }
    }

    /// Decides the fate of a packet whose last bit leaves the transmitter at `departure`.
    pub(crate) fn carry(&mut self, departure: Instant) -> Verdict {
        let lost = self.loss_rng.chance(self.independent_loss);
        if self.drops.contains(departure) {
            return Verdict::dropped(DropCause::Outage);
        }
        if lost {
            return Verdict::dropped(DropCause::Loss);
        }
        let Delay::Fixed(delay) = self.delay;
        let delivery = Delivery { at: departure + delay, duplicate: false, corrupt: None };
        Verdict { deliveries: smallvec![delivery], dropped: None }
    }
}
