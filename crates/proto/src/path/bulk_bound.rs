//! How much bulk may be under way on a path besides what the congestion window allows, so that
//! control has a fast way when a rate falls [specs/paths.md §6] (rule 8).
//!
//! ```text
//! rtt    = least rtt + what the delay varies by (`jitter.rs`), or the present one where the way
//!          has become longer (`passage.rs`)
//! needs  = (1.5 + 3 · loss) · delivery rate · (rtt + 20 ms)    loss: without a queue
//! drains = rate of the hop · (rtt + 30 or 10 ms)      where its queue exceeds that by 5 ms
//! falls  = least rate of the hop in 20 s · rtt                 `strict` alone
//! bound  = min(needs, drains, falls) / (1 − usual loss)        and a few datagrams at least
//! ```
//! The numbers are those of `balanced`. `strict` has smaller ones, and takes all that the delay
//! varies by for a queue.
//!
//! When the rate of a hop falls from R to r, what waits before it must drain at r before anything
//! behind it, control included. What was sent within one round trip before the fall cannot be
//! called back; all that a sender can do is to have little under way. A window that aims at a queue
//! of 20 ms in the round-trip time, over the largest rate of ten round trips, has more under way
//! than that, by the other direction's queue and by every rate that the link no longer has.
//!
//! So the bound follows what is delivered, not what the link could carry: a stream of 6 Mbit/s on a
//! link of 30 has no use for a window of 30, and pays for it with what is under way when the link
//! falls to 1. The growth lets a burst, such as a key frame, through within a few round trips. It
//! holds behind a short queue as well: a bound that jumped to the hop's rate with the first 5 ms of
//! a key frame would bound nothing.
//!
//! Where several paths live, one of them is free and the others are sanctuaries, with less slack:
//! there a fall costs control least. The session chooses the free one (`choose_free_path`) by its
//! median rate of two seconds, or by the present one behind a long queue: chosen otherwise, it
//! would be the wrong one whenever links fall in turn.
//!
//! The growth is larger on a path that loses much without a queue, because such losses mostly come
//! in bursts, and after each burst the delivery rate has to recover.
//!
//! Two alternatives were rejected: allowing a share of the hop's rate at once, and growing faster
//! where much less than that is delivered. Both bring bulk back sooner to a path that it had left,
//! and both put just as much in front of control when that path falls too.

use units::{Duration, Instant, Rate};

use super::Path;
use super::bottleneck::{DEEP, EMPTY};
use crate::congestion::MOST_MADE_UP;

/// Added growth per unit of loss, so that bulk recovers soon after a burst.
const LOSS_GROWTH: f64 = 3.0;
/// A path that is not the free one must be better by this factor to become it.
const HYSTERESIS: f64 = 1.3;
/// How long `strict` remembers how low the rate of a hop has fallen.
const FALL_MEMORY: Duration = Duration::from_secs(20);

/// Says how much room bulk leaves to control on links whose rate falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtectControl {
    /// As much as helps control, at the price of most of the video on links that change.
    Strict,
    /// As much as can be had without losing video on average.
    #[default]
    Balanced,
    /// No bound: the congestion window alone limits what is under way.
    Off,
}

impl ProtectControl {
    /// Tells whether control is protected as far as that costs no video.
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

/// The numbers of one degree of protection, found by trial on steps and recorded links.
#[derive(Clone, Copy, Debug)]
struct Degree {
    /// Factor by which more than is delivered may be under way, so that bulk can grow.
    growth: f64,
    /// Time by which held-back acknowledgements and jitter prolong the flight.
    jitter: Duration,
    /// Queue that bulk may keep on the free path.
    slack: Duration,
    /// Queue that bulk may keep on a sanctuary.
    sanctuary_slack: Duration,
    /// Datagrams that bulk may always have under way where there is no queue.
    least: u64,
    /// Whether the worst is assumed: no more may be under way than the least recent rate carries,
    /// and delay that varies by itself counts as a queue.
    is_wary: bool,
}

const BALANCED: Degree = Degree {
    growth: 1.5,
    jitter: Duration::from_millis(20),
    slack: Duration::from_millis(30),
    sanctuary_slack: Duration::from_millis(10),
    least: 6,
    is_wary: false,
};

const STRICT: Degree = Degree {
    growth: 1.1,
    jitter: Duration::from_millis(10),
    slack: EMPTY,
    sanctuary_slack: EMPTY,
    least: 1,
    is_wary: true,
};

/// What the bound depends on.
#[derive(Clone, Copy, Debug)]
struct View {
    /// The rate at which the peer receives.
    delivered: Rate,
    /// The rate of the hop, where it has a queue.
    hop: Option<Rate>,
    /// How low its rate fell lately, where that counts.
    low: Option<Rate>,
    /// Without a queue.
    rtt: Duration,
    role: BulkRole,
    is_thin: bool,
    /// Share of the packets that is lost without a queue.
    loss: f64,
    /// Bytes of a datagram.
    datagram: u64,
}

impl Path {
    /// Returns what the path is to bulk.
    pub(crate) fn bulk_role(&self) -> BulkRole {
        self.bulk.role
    }

    /// Says what the path is to bulk from now on.
    pub(crate) fn set_bulk_role(&mut self, role: BulkRole) {
        self.bulk.role = role;
    }

    /// Returns how good a free path this would be: the rate that it has now.
    pub(crate) fn fitness(&self, now: Instant) -> f64 {
        let unlimited = Rate::from_bps(u64::MAX);
        let usual = self.link.hop.usual_rate().unwrap_or(unlimited);
        let present = self.link.hop.rate();
        // Behind a deep queue a path is worth only its present rate.
        let present = present.filter(|rate| *rate < usual && self.queue(now) > DEEP);
        let rate = present.unwrap_or(usual);
        let kept = if self.bulk.role == BulkRole::Free { HYSTERESIS } else { 1.0 };
        rate.as_bps() as f64 * kept
    }

    /// Returns how long a packet sent now would queue at the narrowest hop: as long as the newest
    /// acknowledged one did, or as long as the oldest unanswered one is overdue.
    pub(crate) fn queue(&self, now: Instant) -> Duration {
        let overdue = self.sent.unanswered().next().map_or(Duration::ZERO, |oldest| {
            let view = self.health_view(now);
            // A burst of losses that the path usually comes back from is silence, not a queue.
            let usual = view.late_after(oldest.bulk).saturating_add(view.burst_patience());
            now.since(oldest.sent_at).saturating_sub(usual)
        });
        self.link.hop.queue().max(overdue)
    }

    /// Returns the bytes that may be in flight for bulk to leave.
    pub(super) fn bulk_bound(&self, now: Instant) -> u64 {
        let degree = match self.config.protect_control {
            ProtectControl::Off => return u64::MAX,
            ProtectControl::Balanced => &BALANCED,
            ProtectControl::Strict => &STRICT,
        };
        let Some(hop) = self.link.hop.rate() else { return u64::MAX };
        let noise = if degree.is_wary { Duration::ZERO } else { self.link.hop.noise() };
        let has_queue = !self.link.hop.is_empty(noise);
        // A path that has become longer holds more.
        let rtt = match self.link.hop.passes() {
            true => self.link.rtt.srtt(),
            false => self.link.rtt.min_rtt().map(|rtt| rtt + noise),
        };
        // Only what is lost without a queue is the path's own loss.
        let lost = if has_queue { 0.0 } else { self.loss() };
        bound(
            degree,
            &View {
                delivered: self.link.delivery_rate,
                hop: has_queue.then_some(hop),
                low: match degree.is_wary {
                    true => self.link.hop.least_rate(now, FALL_MEMORY),
                    false => None,
                },
                rtt: rtt.unwrap_or_default(),
                role: self.bulk.role,
                is_thin: self.is_thin(),
                loss: self.bulk.congestion.usual_loss().max(lost),
                datagram: self.mtu.current() as u64,
            },
        )
    }
}

fn bound(degree: &Degree, view: &View) -> u64 {
    let slack = match view.role {
        BulkRole::Free => degree.slack,
        BulkRole::Sanctuary => degree.sanctuary_slack,
    };
    let loss = view.loss.min(MOST_MADE_UP);
    let growth = degree.growth + LOSS_GROWTH * loss;
    let needs = view.delivered.mul_f64(growth).bytes_in(view.rtt + degree.jitter);
    let drains = view.hop.map(|hop| hop.bytes_in(view.rtt + slack));
    let falls = view.low.map(|low| low.bytes_in(view.rtt));
    let bytes = [drains, falls].into_iter().flatten().fold(needs, u64::min);
    let sent = bytes as f64 / (1.0 - loss);
    (sent as u64).max(least_datagrams(degree, view) * view.datagram)
}

fn least_datagrams(degree: &Degree, view: &View) -> u64 {
    match view.role {
        BulkRole::Sanctuary if view.is_thin && view.hop.is_some() => 0,
        _ if view.hop.is_some() => 1,
        _ => degree.least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 12 Mbit/s and 60 ms that carries 6 Mbit/s without a queue: 45 kB are under way.
    const VIEW: View = View {
        delivered: Rate::from_bps(6_000_000),
        hop: None,
        low: None,
        rtt: Duration::from_millis(60),
        role: BulkRole::Free,
        is_thin: false,
        loss: 0.0,
        datagram: 1_200,
    };

    #[test]
    fn what_is_under_way_follows_what_is_delivered_and_may_grow() {
        assert_eq!(bound(&BALANCED, &VIEW), 90_000, "9 Mbit/s for 80 ms");
        let twice = View { delivered: Rate::from_mbps(12.0), ..VIEW };
        assert_eq!(bound(&BALANCED, &twice), 180_000);
        assert_eq!(bound(&STRICT, &VIEW), 57_750, "6.6 Mbit/s for 70 ms");
    }

    #[test]
    fn a_short_queue_does_not_let_bulk_have_all_that_the_hop_carries() {
        let queued = View { hop: Some(Rate::from_mbps(12.0)), ..VIEW };
        assert_eq!(bound(&BALANCED, &queued), bound(&BALANCED, &VIEW));
    }

    #[test]
    fn behind_a_queue_no_more_is_under_way_than_drains_in_time() {
        let fallen = View { hop: Some(Rate::from_mbps(0.8)), ..VIEW };
        assert_eq!(bound(&BALANCED, &fallen), 9_000, "0.8 Mbit/s for 90 ms");
        let sanctuary = View { role: BulkRole::Sanctuary, ..fallen };
        assert_eq!(bound(&BALANCED, &sanctuary), 7_000, "… and for 70 ms");
        let hardly = View { hop: Some(Rate::from_bps(64_000)), ..fallen };
        assert_eq!(bound(&BALANCED, &hardly), 1_200, "one datagram at a time");
    }

    #[test]
    fn an_idle_path_takes_a_few_datagrams_and_a_full_thin_sanctuary_none() {
        let idle = View { delivered: Rate::ZERO, ..VIEW };
        assert_eq!(bound(&BALANCED, &idle), 7_200);
        assert_eq!(bound(&STRICT, &idle), 1_200);
        let thin = View { is_thin: true, ..idle };
        assert_eq!(bound(&BALANCED, &thin), 7_200, "it is all there is");
        let full = View { hop: Some(Rate::from_mbps(12.0)), ..thin };
        assert_eq!(bound(&BALANCED, &View { role: BulkRole::Sanctuary, ..full }), 0);
    }

    #[test]
    fn strict_leaves_under_way_what_the_worst_rate_of_late_carries() {
        let fell = View { low: Some(Rate::from_mbps(0.8)), ..VIEW };
        assert_eq!(bound(&STRICT, &fell), 6_000, "0.8 Mbit/s for 60 ms");
    }

    #[test]
    fn loss_is_made_up_for_and_lets_bulk_grow_faster_up_to_a_half() {
        let lossy = |loss| bound(&BALANCED, &View { loss, ..VIEW });
        assert_eq!((lossy(0.25), lossy(0.5), lossy(0.9)), (180_000, 360_000, 360_000));
    }
}
