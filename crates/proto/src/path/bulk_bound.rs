//! How much bulk may be under way on a path besides what the congestion window allows, so that
//! control has a fast way when a rate falls [specs/paths.md §6] (rule 7).
//!
//! ```text
//! rate  = max(growth · delivery rate, share · rate of the hop)        while the queue is below 5 ms;
//!         the hop's counts if it was busy within a second
//!         rate of the hop                                             otherwise
//! bound = rate / (1 − usual loss) · (base + slack)           one datagram at least, six without a queue
//! ```
//! The base is the round trip without our own queue: least rtt + what stands in the other direction.
//!
//! When the rate of a hop falls from R to r, what stands before it must drain at r before anything
//! that comes behind it, control included. What was sent within one round trip before the fall cannot
//! be called back; all that a sender can do is to have little under way. A window that aims at a queue
//! of 20 ms in the round-trip time, over the largest rate of ten round trips, has more under way than
//! that, by the other direction's queue and by every rate that the link no longer has.
//!
//! Where the queue is empty the bound follows what is delivered, not what the link once carried: a
//! stream of 6 Mbit/s over 30 has no use for a window of 30, and loses with it what is under way when
//! the link falls to 1. The growth lets a burst, such as a key frame, have its way within some round
//! trips.
//!
//! Where several paths live, one of them is free, the others are sanctuaries, with less slack: on
//! those a fall costs control least. The free one is chosen by its present rate, because links that
//! fall in turn would otherwise be kept free in vain.

use units::{Duration, Instant, Rate};

use super::Path;

/// Datagrams that bulk may always have under way where there is no queue.
const LEAST_DATAGRAMS: u64 = 6;
/// Loss beyond this is not made up for by sending more.
const MOST_LOSS: f64 = 0.5;
/// What a path is worth is its median rate over this time of being busy …
const WORTH_MEMORY: Duration = Duration::from_secs(2);
/// … and its present rate behind a queue of this length.
const LONG_QUEUE: Duration = Duration::from_millis(40);
/// A path that is not the free one must be better by this factor to become it.
const HYSTERESIS: f64 = 1.3;

/// Says how much room bulk leaves to control on links whose rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtectControl {
    /// As much as control gains from, at the price of most of the video on links that change.
    Strict,
    /// As much as costs no video in the mean.
    #[default]
    Balanced,
    /// None: the congestion window alone says what is under way.
    Off,
}

impl ProtectControl {
    /// Tells whether control is protected as far as that costs nothing else.
    pub(super) fn is_balanced(self) -> bool {
        self == Self::Balanced
    }
}

/// Says what a path is to bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkRole {
    /// It may be filled up to what it carries at present.
    Free,
    /// It is kept so empty that control is fast on it when its rate falls.
    Sanctuary,
}

/// The numbers of one degree of protection. Found by trying, over steps and recorded links.
#[derive(Clone, Copy, Debug)]
struct Degree {
    /// How much faster than what is delivered bulk may leave where there is no queue.
    growth: f64,
    /// The same below the share of the hop's usual rate that follows: bulk moves here.
    far_growth: f64,
    /// Share of the hop's own rate that it may have at once.
    share: f64,
    /// Queue that bulk may keep on the free path.
    slack: Duration,
    /// Queue that it may keep on a sanctuary.
    sanctuary_slack: Duration,
}

const BALANCED: Degree = Degree {
    growth: 1.3,
    far_growth: 2.0,
    share: 0.4,
    slack: Duration::from_millis(30),
    sanctuary_slack: Duration::from_millis(10),
};

const STRICT: Degree = Degree {
    growth: 1.1,
    far_growth: 1.1,
    share: 0.1,
    slack: Duration::from_millis(5),
    sanctuary_slack: Duration::from_millis(5),
};

impl Path {
    /// Says what the path is to bulk from now on.
    pub(crate) fn set_bulk_role(&mut self, role: BulkRole) {
        self.bulk_role = role;
    }

    /// Returns how good a free path it would make: the rate that it has now.
    pub(crate) fn fitness(&self, now: Instant) -> f64 {
        let unlimited = Rate::from_bps(u64::MAX);
        let usual = self.bottleneck.usual_rate(WORTH_MEMORY).unwrap_or(unlimited);
        let present = self.bottleneck.rate().filter(|_| self.queue(now) > LONG_QUEUE);
        let rate = usual.min(present.unwrap_or(unlimited));
        let kept = if self.bulk_role == BulkRole::Free { HYSTERESIS } else { 1.0 };
        rate.as_bps() as f64 * kept
    }

    /// Returns how long a packet sent now would stand before the narrowest hop: as long as the newest
    /// one that was acknowledged, or as long as the oldest one without an answer is overdue.
    pub(crate) fn queue(&self, now: Instant) -> Duration {
        let overdue = self.sent.unanswered().next().map_or(Duration::ZERO, |oldest| {
            let view = self.health_view(now);
            // A burst of losses, such as the path comes back from, is silence and no queue.
            let usual = view.late_after(oldest.bulk).saturating_add(view.burst_patience());
            now.since(oldest.sent_at).saturating_sub(usual)
        });
        self.bottleneck.queue().max(overdue)
    }

    /// Returns the bytes that may be in flight for bulk to leave.
    pub(super) fn bulk_bound(&self, now: Instant) -> u64 {
        let degree = match self.config.protect_control {
            ProtectControl::Off => return u64::MAX,
            ProtectControl::Balanced => BALANCED,
            ProtectControl::Strict => STRICT,
        };
        let Some(rate) = self.bottleneck.rate() else { return u64::MAX };
        let is_empty = self.bottleneck.is_empty();
        let rate = if is_empty {
            let at_once = self.bottleneck.fresh_rate(now).unwrap_or_default();
            let usual = self.bottleneck.usual_rate(WORTH_MEMORY).unwrap_or_default();
            let is_far = self.delivery_rate < usual.mul_f64(degree.share);
            let delivered =
                if is_far { self.delivery_now.mul_f64(degree.far_growth) } else { Rate::ZERO };
            self.delivery_rate
                .mul_f64(degree.growth)
                .max(delivered)
                .max(at_once.mul_f64(degree.share))
        } else {
            rate
        };
        let slack = match self.bulk_role {
            BulkRole::Free => degree.slack,
            BulkRole::Sanctuary => degree.sanctuary_slack,
        };
        // What is lost where there is no queue is not lost to one.
        let lost = if is_empty { self.loss() } else { 0.0 };
        let loss = self.congestion.usual_loss().max(lost).min(MOST_LOSS);
        let time = self.rtt.min_rtt().unwrap_or_default() + slack;
        let least = match self.bulk_role {
            BulkRole::Sanctuary if self.is_thin(now) => 0,
            _ if is_empty => LEAST_DATAGRAMS,
            _ => 1,
        };
        let least = least * self.mtu.current() as u64;
        rate.mul_f64(1.0 / (1.0 - loss)).bytes_in(time).max(least)
    }
}
