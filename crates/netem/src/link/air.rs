//! The second half of a link: what happens after the last bit has left the transmitter.
//!
//! Decides whether the packet is lost, when it arrives, how often and how intact. Each random
//! process draws from a stream of its own and draws for every packet, so that switching one process
//! on or off leaves the fates that the others decide as they were.
//!
//! ```text
//! arrival = departure + max(0, delay(departure) + jitter), not before the arrival before it
//! ```

use super::loss::{Channel, Losses};
use super::model::{Delay, Duplication, Jitter, JitterShape, LinkModel, Reordering};
use super::outage::Calendar;
use super::slots::Region;
use super::transmitter::{NEVER, Transmission};
use super::verdict::{Delivery, DropCause, Verdict};
use smallvec::smallvec;
use std::sync::Arc;
use units::{Duration, Instant, Rng};

/// The way from one transmitter to one receiver.
#[derive(Clone, Debug)]
pub(crate) struct Air {
    /// The outages of the present; none before the scenario's time zero.
    drops: Calendar,
    /// The outages from the scenario's time zero.
    scheduled: Calendar,
    origin: Instant,
    shared: Vec<Channel>,
    losses: Losses,
    delay: Delay,
    jitter: Jitter,
    keep_order: bool,
    /// The latest arrival among the packets that keep their order.
    latest: Instant,
    /// The same among those that go past the others at the transmitter.
    latest_aside: Instant,
    duplication: Duplication,
    reordering: Reordering,
    corruption: f64,
    jitter_rng: Rng,
    duplication_rng: Rng,
    reordering_rng: Rng,
    corruption_rng: Rng,
}

impl Air {
    /// Makes the way that `model` describes, with the channels and the dropping outages that it
    /// shares with others, and the region of all clocked links if it is one.
    pub(crate) fn new(
        model: &LinkModel,
        drops: Calendar,
        shared: Vec<Channel>,
        region: Option<&Arc<Region>>,
        seed: u64,
        label: &str,
    ) -> Self {
        let stream = |process: &str| Rng::stream(seed, &format!("{label}/{process}"));
        Self {
            drops: Calendar::default(),
            scheduled: drops,
            origin: NEVER,
            shared,
            losses: Losses::new(&model.loss, region, seed, label),
            delay: model.delay.clone(),
            jitter: model.jitter,
            keep_order: model.keep_order,
            latest: Instant::ZERO,
            latest_aside: Instant::ZERO,
            duplication: model.duplication,
            reordering: model.reordering,
            corruption: model.corruption,
            jitter_rng: stream("jitter"),
            duplication_rng: stream("duplicate"),
            reordering_rng: stream("reorder"),
            corruption_rng: stream("corrupt"),
        }
    }

    /// Sets the scenario's time zero to `origin`; until this is called it never comes.
    pub(crate) fn begin(&mut self, origin: Instant) {
        self.origin = origin;
        self.drops = self.scheduled.later(origin.since(Instant::ZERO));
        self.losses.begin(origin);
    }

    /// Decides the fate of a packet of `len` bytes.
    pub(crate) fn carry(&mut self, transmission: &Transmission, len: usize) -> Verdict {
        let departure = transmission.end;
        let mut shared_loss = false;
        for channel in &mut self.shared {
            shared_loss |= channel.loses(departure);
        }
        let lost = self.losses.loses(departure, transmission.slot, len);
        let travel = self.travel(departure);
        let held_back = self.reordering_rng.chance(self.reordering.probability);
        let doubled = self.duplication_rng.chance(self.duplication.probability);
        let damage = self.damage();
        if self.drops.contains(departure) {
            return Verdict::dropped(DropCause::Outage);
        }
        if shared_loss {
            return Verdict::dropped(DropCause::SharedLoss);
        }
        if lost {
            return Verdict::dropped(DropCause::Loss);
        }
        let at = self.arrival(departure + travel, held_back, transmission.aside);
        let original = Delivery { at, duplicate: false, corrupt: damage };
        let mut verdict = Verdict { deliveries: smallvec![original], dropped: None };
        if doubled {
            let at = at + self.duplication.lag;
            let corrupt = self.damage();
            verdict.deliveries.push(Delivery { at, duplicate: true, corrupt });
        }
        verdict
    }

    fn arrival(&mut self, at: Instant, held_back: bool, aside: bool) -> Instant {
        if held_back {
            return at + self.reordering.lag;
        }
        if !self.keep_order {
            return at;
        }
        let latest = if aside { &mut self.latest_aside } else { &mut self.latest };
        *latest = at.max(*latest);
        *latest
    }

    fn travel(&mut self, departure: Instant) -> Duration {
        let delay = match &self.delay {
            Delay::Fixed(delay) => *delay,
            Delay::File { series, .. } | Delay::Csv { series, .. } => {
                series.at(Instant::ZERO + departure.since(self.origin))
            }
        };
        if self.jitter.size.is_zero() {
            return delay;
        }
        let size = self.jitter.size.as_nanos() as f64;
        let added = match self.jitter.shape {
            JitterShape::Uniform => (self.jitter_rng.unit() * 2.0 - 1.0) * size,
            JitterShape::Normal => self.jitter_rng.normal() * size,
            JitterShape::Exponential => self.jitter_rng.exponential(size),
        };
        let added_nanos = Duration::from_nanos(added.abs() as u64);
        if added < 0.0 {
            delay.saturating_sub(added_nanos)
        } else {
            delay.saturating_add(added_nanos)
        }
    }

    fn damage(&mut self) -> Option<u32> {
        if self.corruption <= 0.0 {
            return None;
        }
        let (hit, bits) = (self.corruption_rng.unit(), self.corruption_rng.next_u64());
        (hit < self.corruption).then_some(bits as u32)
    }
}
