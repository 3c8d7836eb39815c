//! Finds out that a hop has become thin, or is faster than was thought, or that only the way to it
//! has become longer.

use units::{Duration, Rate};

use super::super::control_window::THIN;
use super::super::rate_history::Slot;
use super::rise::Rise;
use super::{
    Bottleneck, DEEP, FASTER, FIRST_BUSY, JITTER, RISE, SATURATED, SATURATED_WITHIN, Sample,
    TELLING, came_as_sent, signed, whole,
};
use crate::limits;

impl Bottleneck {
    /// Tells whether most packets came as they were sent. What is sent at the pace of a thin hop
    /// does, too.
    pub(super) fn is_longer(&self, slot: &Slot) -> bool {
        let is_paced = self.fell || self.best_ever < THIN;
        slot.is_longer() && !is_paced
    }

    /// Tells whether packets have come at the rate of a thin hop since the queue is deep, for long
    /// enough to tell.
    pub(super) fn is_deep_and_thin(&self) -> bool {
        self.deep.is_some_and(|(_, slot)| {
            let tells = slot.busy >= FIRST_BUSY && !slot.is_jitter() && !self.is_longer(&slot);
            tells && slot.rate() < THIN
        })
    }

    /// Returns how long a datagram can have queued at most, where it took longer than that: what
    /// stands before it is what was sent before it, and the hop brings that at the rate at which it
    /// brought the last few.
    pub(super) fn longer_way(&mut self, beyond: Duration, sample: &Sample<'_>) -> Option<Duration> {
        let received = sample.received_at_us;
        if beyond < DEEP {
            self.rise = None;
            return None;
        }
        let before = sample.newest.stood + u64::from(sample.newest.bytes);
        let rise = self.rise.get_or_insert(Rise::new(received));
        let span = Duration::from_micros(received.saturating_sub(rise.from_us));
        if span.is_zero() {
            return None;
        }
        rise.receptions += 1;
        let bytes = sample.acked.iter().map(|packet| whole(packet)).sum::<u64>();
        rise.bytes += bytes;
        let last = self.last_received_us.unwrap_or(received);
        let gap = Duration::from_micros(received.saturating_sub(last));
        let sent_gap = sample.newest.sent_at.since(self.last_sent_at);
        rise.as_sent &= came_as_sent(gap, sent_gap);
        // What was lost in between took its time at the hop: then this is no pace.
        let between = sample.newest.pn.saturating_sub(self.last_pn);
        if between == sample.acked.len() as u64 {
            let pace = Rate::from_bytes_in(bytes, gap);
            rise.rates = (rise.rates.0.min(pace), rise.rates.1.max(pace));
        }
        if rise.receptions < RISE || span < DEEP {
            return None;
        }
        let rate = Rate::from_bytes_in(rise.bytes, span);
        // No full hop sends them as they came at paces of which one is twice the other.
        let keeps_pace = rise.as_sent && rise.rates.1 > rise.rates.0.mul_f64(2.0);
        let queued = if keeps_pace { 0 } else { 2 * before as usize };
        let most = rate.transmission_time(queued);
        self.rise = Some(Rise::new(received));
        (beyond > most + DEEP).then_some(most)
    }

    /// Takes the rate for wrong where a datagram takes less than the least before by more than half
    /// of what that one took at the hop: it has become faster. A hop that never was fast has not: a
    /// queue has drained that stood since the session began.
    pub(super) fn look_whether_shorter(&mut self, delay: i64) {
        let Some(((base, size), rate)) = self.delay.least().zip(self.calm_rate()) else { return };
        let took = rate.transmission_time(size + limits::IP_AND_UDP as usize);
        let is_shorter = base - delay > signed(took.as_micros()) / 2 && took > JITTER;
        if is_shorter && self.best_ever >= THIN {
            self.refute();
        }
    }

    /// Notes that the hop is thin, and what the delay was while it was not.
    pub(super) fn fall(&mut self) {
        if !self.fell && self.best_ever >= THIN {
            self.fast = self.delay.least().map(|(delay, _)| delay).zip(self.rtt.least());
        }
        self.fell = true;
    }

    pub(super) fn refute(&mut self) {
        self.saturated = None;
        self.refuted = true;
        self.recover();
    }

    /// Notes that the hop is no longer thin. What came too early for its rate of late shows that,
    /// and no jitter.
    pub(super) fn recover(&mut self) {
        if self.fell {
            self.history.excuse_early(SATURATED_WITHIN);
        }
        (self.fell, self.fast) = (false, None);
    }

    /// Ends saturation where datagrams take less than half of the time that the rate says: the hop
    /// has become faster.
    pub(super) fn look_whether_faster(&mut self, beyond: Duration, own: Duration) {
        if own < TELLING {
            return;
        }
        let shows = if own >= DEEP { FASTER } else { 1 };
        self.faster = if beyond * 2 < own { self.faster + shows } else { 0 };
        if self.faster >= FASTER {
            self.refute();
            self.faster = 0;
        }
    }

    /// Finds out whether the hop is saturated. A link that stalls is busy only while it stalls, and
    /// looks as thin as what is offered; a thin link is busy nearly all the time. So does one look
    /// that delays packets at random, but it brings some of them closer together than a thin one
    /// could.
    pub(super) fn look_whether_saturated(&mut self) {
        let recent = self.history.sum(SATURATED_WITHIN);
        let is_known = self.saturated.is_some();
        let is_deep = is_known || self.queue >= DEEP && !self.is_longer(&recent);
        let is_full = recent.busy >= SATURATED && is_deep && !recent.is_jitter();
        // A thin hop for which set-points wait here is not busy for long any more: a tenth of the
        // time tells.
        if is_full || is_known && recent.busy >= SATURATED_WITHIN / 10 {
            self.saturated = Some(recent.rate());
        }
    }
}
