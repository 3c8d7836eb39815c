//! The narrowest hop of one direction: how long packets queue in front of it, and how fast it
//! sends.
//!
//! ```text
//! delay  = received (peer's clock) − sent (our clock)                  the clocks' offset is in it
//! base   = least delay of the last ten seconds in which the path was shown nearly empty
//! queue  = min(delay − base, rtt − least rtt) − (bytes − bytes of the base's datagram) / rate
//! busy   ⇔ the oldest packet of an ACK would have been at the hop before its predecessor left it:
//!          sent + base + 1 ms ≤ predecessor received, and queue > 2 ms
//! rate   = bytes / time between receptions, over stretches of busy ACKs of at least 8 ms, smoothed
//!          over 40 ms; over 10 ms where it falls and the queue exceeds 20 ms
//! ```
//! A round-trip time holds two queues, and that of the other direction is not ours. A delivery rate
//! is the link's only while the link, not the sender, limits it: a rate measured under a bound
//! measures the bound, and a bound that follows it ratchets downwards.
//!
//! Delay that jumps by itself looks like a queue. But before a packet stands what was sent before
//! it, and no more: where the hop brings that in less time than the delay has grown by, the way has
//! become longer, and the base with it.
//!
//! Delay that varies looks like a queue as well. The measured rate is then what we send, and a
//! bound that rests on it would lower it for ever: for bulk `jitter.rs` says how much of it
//! comes and goes from packet to packet, and `passage.rs` whether packets come as they were sent.
//! Control comes at one pace and proves too little for that; but behind a thin hop that is overrun
//! no message comes as it was sent, and on a path that has become longer nearly all do: so for
//! control what came as it was sent is counted over a second (`rate_history.rs`).
//!
//! The second difference, that of round-trip times, guards against the clocks: one that drifts or
//! steps changes the delay and not the round-trip time. What a silence held up counts: a hop that
//! has become thin falls silent too, and one that merely stalled shows within milliseconds of being
//! busy how fast it is.

mod rise;
mod turns;

use smallvec::SmallVec;
use units::{Duration, Instant, Rate};

use self::rise::Rise;
use super::control_window::{MESSAGE, THIN};
use super::jitter::Jitter;
use super::passage::Passage;
use super::rate_history::{Came, RateHistory, Slot};
use crate::limits;
use crate::recovery::{GRANULARITY, LINK_MEMORY, LeastOf, SentPacket, smoothed};

/// The latest time that is believed, in microseconds: 285 years. A peer may claim anything.
pub(super) const LATEST_US: u64 = 1 << 53;
/// Differences of delay up to this may be jitter.
pub(super) const JITTER: Duration = Duration::from_millis(2);
/// A shorter queue counts as empty.
pub(super) const EMPTY: Duration = Duration::from_millis(5);
/// A shorter time at the hop tells nothing about its rate: receptions are noted some hundred
/// microseconds late.
const TELLING: Duration = Duration::from_millis(8);
/// How long a hop must have been busy within [`SATURATED_WITHIN`] for a first guess at its rate.
const FIRST_BUSY: Duration = Duration::from_millis(150);
/// The first guess is the best rate of this time, and the usual rate the median.
const RATE_MEMORY: Duration = Duration::from_secs(2);
/// A hop that was busy for this much of [`SATURATED_WITHIN`], behind a queue that was [`DEEP`], is
/// saturated.
const SATURATED: Duration = Duration::from_millis(600);
const SATURATED_WITHIN: Duration = Duration::from_secs(1);
/// A queue of this length shows that more is sent than the hop carries, less could be the bursts of
/// a radio. So a stretch of this length counts half in the rate, and a datagram of control takes no
/// longer at the hop.
pub(super) const DEEP: Duration = Duration::from_millis(40);
/// This many datagrams in a row that take less than half of the time that the rate says end that
/// sooner.
const FASTER: u32 = 3;
/// Receptions that tell a longer way from a queue.
const RISE: u32 = 4;
/// A datagram this many bytes longer than the one with the least delay shows how fast the hop is at
/// least.
const LARGE: usize = 1_000;
/// What takes longer than at this rate has stalled.
const LEAST_RATE: Rate = Rate::from_bps(4_000);

/// What an ACK frame says about the packets that it is the first to acknowledge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    /// Packets newly acknowledged, the one with the largest number of the frame among them.
    pub(super) acked: &'a [&'a SentPacket],
    /// The newest of them.
    pub(super) newest: &'a SentPacket,
    /// When the peer received that one, on its clock.
    pub(super) received_at_us: u64,
    /// The round-trip time of that one, without the delay of the acknowledgement.
    pub(super) rtt: Duration,
    /// Whether the other direction has become thin: then this one may have, too.
    pub(super) may_be_thin: bool,
}

/// Estimates queue and rate of the narrowest hop of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Bottleneck {
    /// The delay, and the bytes of the datagram that had it.
    delay: LeastOf<(i64, usize)>,
    rtt: LeastOf<Duration>,
    queue: Duration,
    /// Least rtt and what stands in the other direction, smoothed, and how much it varies.
    round_trip: Option<(Duration, Duration)>,
    last_received_us: Option<u64>,
    last_sent_at: Instant,
    /// The number of the newest packet of the ACK before.
    last_pn: u64,
    passage: Passage,
    stretch: Option<Stretch>,
    /// What came since the queue is [`DEEP`].
    deep: Option<(u64, Slot)>,
    /// The rate of the last stretch.
    last: Option<Rate>,
    rate: Option<Rate>,
    rate_at: Instant,
    best_ever: Rate,
    history: RateHistory,
    /// Whether the hop looked busy of late because of jitter alone.
    is_jittery: bool,
    /// How much the delay varies whatever is sent.
    jitter: Jitter,
    /// The best recent rate, if the hop was busy enough to tell.
    first: Option<Rate>,
    /// The median of the recent rates.
    usual: Option<Rate>,
    busy_at: Instant,
    /// The rate of the hop while it was busy nearly all the time.
    saturated: Option<Rate>,
    /// What has come since datagrams take longer than they did.
    rise: Option<Rise>,
    /// Datagrams in a row that were faster than the rate.
    faster: u32,
    /// Whether they have shown that the hop is faster than its rate.
    refuted: bool,
    /// Whether the hop was seen to be thin behind a queue: what jitter looks like has none.
    fell: bool,
    /// The least delay and round-trip time before that, if the hop was fast then: a datagram takes
    /// so much again once it is.
    fast: Option<(i64, Duration)>,
}

/// When a packet was sent, and its bytes with all headers.
pub(super) type Sent = (Instant, u64);

/// Successive ACKs between whose packets the hop was never idle.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from_us: u64,
    bytes: u64,
}

impl Bottleneck {
    /// Takes an ACK frame whose largest number is acknowledged for the first time.
    pub(super) fn on_ack(&mut self, now: Instant, sample: &Sample<'_>) {
        let newest = sample.newest;
        let size = usize::from(newest.bytes);
        let delay = signed(sample.received_at_us) - signed(newest.sent_at.as_micros());
        let was_empty = self.shows_empty(newest);
        let alone = self.rate.map(|rate| rate.transmission_time(whole(newest) as usize));
        if alone.is_some_and(|takes| takes > sample.rtt) {
            self.refute();
        }
        let sent = by_sending(sample.acked);
        self.jitter.on_ack(delay, self.rate, &sent);
        self.look_whether_shorter(delay);
        let (base, base_size) = self.delay.on_sample(now, (delay, size), was_empty);
        let least_rtt = self.rtt.on_sample(now, sample.rtt, was_empty);
        let beyond = Duration::from_micros(u64::try_from(delay - base).unwrap_or(0));
        let mut beyond = beyond.min(sample.rtt.saturating_sub(least_rtt));
        if let Some(most) = self.longer_way(beyond, sample) {
            // What is beyond that is the way's own.
            let own = signed(most.as_micros());
            self.delay = LeastOf::default();
            self.rtt = LeastOf::default();
            self.delay.on_sample(now, (delay - own, size), true);
            self.rtt.on_sample(now, sample.rtt.saturating_sub(most), true);
            (self.rate, self.saturated, self.first) = (None, None, None);
            (self.fell, self.fast) = (false, None);
            self.history = RateHistory::default();
            beyond = most;
        }
        let longer = size.saturating_sub(base_size);
        // By a rate that is wrong, a datagram would take longer than it stood, and no queue would
        // ever show.
        let rate = self.rate.filter(|_| !self.refuted);
        let own = rate.map_or(Duration::ZERO, |rate| rate.transmission_time(longer));
        self.queue = beyond.saturating_sub(own);
        let since_fast = self.fast.zip(self.rate).map(|((fast, fast_rtt), rate)| {
            let took = Duration::from_micros(u64::try_from(delay - fast).unwrap_or(0));
            let took = took.min(sample.rtt.saturating_sub(fast_rtt));
            (took, rate.transmission_time(size + limits::IP_AND_UDP as usize))
        });
        let (took, should) = since_fast.unwrap_or((beyond, own));
        self.look_whether_faster(took, should);
        if beyond >= DEEP && sample.may_be_thin {
            // The first late answer: it was this slow at least, and what comes behind it tells
            // more.
            let guess = Rate::from_bytes_in(whole(newest), beyond);
            self.rate_at = if self.rate.is_none() { now } else { self.rate_at };
            if *self.rate.get_or_insert(guess) < THIN {
                self.fall();
            }
        }
        if longer >= LARGE {
            self.on_large(now, Rate::from_bytes_in(longer as u64, beyond.max(JITTER)), newest);
        }
        let without = sample.rtt.saturating_sub(beyond);
        let known = self.round_trip.unwrap_or((without, without / 2));
        self.round_trip = Some(smoothed(known, without));
        self.measure_rate(now, sample, &sent, base);
        self.look_back();
    }

    /// Returns how long the newest packet acknowledged stood before the hop.
    pub(super) fn queue(&self) -> Duration {
        self.queue
    }

    /// Tells whether there is no queue to speak of: it is hardly longer than `noise`, or what looks
    /// like one is delay that does not depend on what we send.
    pub(super) fn is_empty(&self, noise: Duration) -> bool {
        self.queue < EMPTY + noise || self.passes()
    }

    /// Tells whether most packets came as they were sent: the way is longer, or jitters.
    pub(super) fn came_as_sent(&self) -> bool {
        self.is_jittery || self.passes()
    }

    /// Tells whether packets come as they were sent, however long they take.
    pub(super) fn passes(&self) -> bool {
        self.passage.passes()
    }

    /// Returns by how much a delay may exceed the least where there is no queue.
    pub(super) fn noise(&self) -> Duration {
        self.jitter.noise()
    }

    /// Returns the least round-trip time of a path without queues.
    pub(super) fn least_rtt(&self) -> Option<Duration> {
        self.rtt.least()
    }

    /// Returns the round-trip time that packets would have without a queue in this direction.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |(usual, _)| usual)
    }

    /// Returns the same and how much it varies; none before there was any answer.
    pub(super) fn empty_rtt(&self) -> Option<(Duration, Duration)> {
        self.round_trip
    }

    /// Returns the rate of the hop when it was last busy; none if it never was.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns the rate of the hop if it was busy within the last `memory`.
    pub(super) fn rate_within(&self, now: Instant, memory: Duration) -> Option<Rate> {
        self.rate.filter(|_| now.since(self.rate_at) < memory)
    }

    /// Returns that rate, unless the hop only looked busy because of jitter.
    pub(super) fn calm_rate(&self) -> Option<Rate> {
        self.rate.filter(|_| !self.is_jittery && !self.refuted)
    }

    /// Tells whether the hop was seen to be thin behind a queue, and nothing since has shown it to
    /// be faster.
    pub(super) fn fell(&self) -> bool {
        self.fell
    }

    /// Tells whether the hop became thin, or was so and was seen to be faster, by how much is not
    /// known. Where a message took no longer than a deep queue, what is tried costs little.
    pub(super) fn is_to_be_tried(&self) -> bool {
        let was_slow = |rate: Rate| rate.transmission_time(MESSAGE) > DEEP;
        self.fell || self.refuted && self.rate.is_some_and(was_slow)
    }

    /// Returns the rate of a hop that was busy nearly all the time, and was not seen to be faster
    /// since.
    pub(super) fn saturated_rate(&self) -> Option<Rate> {
        self.saturated
    }

    /// Returns the median rate of the hop in the last two seconds of being busy.
    pub(super) fn usual_rate(&self) -> Option<Rate> {
        self.usual
    }

    /// Returns the least rate that the hop had in the last `memory`, before a silence too, if it
    /// was busy within it.
    pub(super) fn least_rate(&self, now: Instant, memory: Duration) -> Option<Rate> {
        if now.since(self.busy_at) < memory { self.history.low(memory, 0.0) } else { None }
    }

    /// Returns the best rate that the hop ever had, over at least 8 ms.
    pub(super) fn best_ever(&self) -> Rate {
        self.best_ever
    }

    /// Returns the best rate of the hop in the last two seconds, if it was busy for a good part of
    /// the last one.
    pub(super) fn first_rate(&self, now: Instant) -> Option<Rate> {
        self.first.filter(|_| now.since(self.rate_at) < RATE_MEMORY)
    }

    /// Tells whether what was under way when the packet was sent fits into the path without a
    /// queue: then its delay is the path's own, however long that has become.
    fn shows_empty(&self, packet: &SentPacket) -> bool {
        let Some((rate, rtt)) = self.rate.zip(self.rtt.least()) else { return true };
        packet.stood <= rate.bytes_in(rtt) / 2
    }

    /// Takes the rate that a large datagram shows: whatever else delayed it, the hop sends at least
    /// this fast, and little faster if the datagram was alone. That is a guess, until the hop is
    /// busy.
    fn on_large(&mut self, now: Instant, at_least: Rate, packet: &SentPacket) {
        self.best_ever = self.best_ever.max(at_least);
        // What stood before it, a PING or two, adds a tenth to its time at most.
        let is_guess = self.rate.is_none() && packet.stood <= LARGE as u64 / 10;
        if is_guess && self.best_ever < THIN {
            (self.rate, self.rate_at) = (Some(at_least), now);
        }
    }

    /// Learns at what rate packets were delivered: the hop is no slower, however little of it small
    /// ones show.
    pub(super) fn on_delivered(&mut self, rate: Rate) {
        self.best_ever = self.best_ever.max(rate);
    }

    fn measure_rate(&mut self, now: Instant, sample: &Sample<'_>, sent: &[Sent], base: i64) {
        let received = sample.received_at_us;
        let Some(last) = self.last_received_us.replace(received) else { return };
        let oldest = sample.acked.iter().map(|packet| packet.sent_at).min();
        let oldest_us = signed(oldest.unwrap_or(sample.newest.sent_at).as_micros());
        // A packet that was alone did not queue behind one of ours, however long it took.
        let at_hop_us = oldest_us + base + signed(GRANULARITY.as_micros());
        let behind = at_hop_us <= signed(last) && sample.newest.stood > 0;
        let all = sample.acked.iter().map(|packet| whole(packet)).sum();
        let gap = Duration::from_micros(received.saturating_sub(last));
        let sent_at = sample.newest.sent_at;
        let sent_gap = sent_at.since(std::mem::replace(&mut self.last_sent_at, sent_at));
        self.last_pn = sample.newest.pn;
        self.passage.on_reception(gap, sent_gap, all);
        let at = Instant::from_micros(received);
        let recent = self.history.sum(SATURATED_WITHIN);
        let takes = recent.rate().transmission_time(all as usize);
        // What is early by a rate that has been refuted shows a faster hop, not jitter.
        let early = !recent.busy.is_zero() && gap * 2 < takes && !self.refuted;
        let came = Came { early, as_sent: came_as_sent(gap, sent_gap) };
        self.history.on_reception(at, came);
        match &mut self.deep {
            _ if self.queue < DEEP => self.deep = None,
            Some((from_us, slot)) => {
                slot.bytes += all;
                slot.busy = Duration::from_micros(received.saturating_sub(*from_us));
                slot.note(came);
            }
            None => self.deep = Some((received, Slot::default())),
        }
        if received < last || !behind || self.queue <= JITTER {
            self.stretch = Some(Stretch { from_us: received, bytes: 0 });
            return;
        }
        let is_faster = |(bytes, busy): &(u64, Duration)| {
            // By a tenth at least: less may be noise.
            Rate::from_bytes_in(*bytes, *busy) > Rate::from_bytes_in(all, gap).mul_f64(1.1)
        };
        let (bytes, gap) = match self.since_idle(sample, sent, base).filter(is_faster) {
            // The hop was idle in between.
            Some((bytes, busy)) => {
                self.stretch = None;
                (bytes, busy)
            }
            None => (all, gap),
        };
        let busy = gap.min(LEAST_RATE.transmission_time(bytes as usize));
        self.history.on_busy(at, bytes, busy);
        self.busy_at = now;
        self.look_whether_saturated();
        let from_us = received.saturating_sub(gap.as_micros());
        let stretch = self.stretch.get_or_insert(Stretch { from_us, bytes: 0 });
        stretch.bytes += bytes;
        let span = Duration::from_micros(received - stretch.from_us);
        if span >= TELLING {
            let rate = Rate::from_bytes_in(stretch.bytes, span);
            self.smooth(rate, span);
            self.refuted = false;
            self.best_ever = self.best_ever.max(rate);
            self.rate_at = now;
            self.stretch = Some(Stretch { from_us: received, bytes: 0 });
        }
    }

    /// Returns what the hop sent at least, and the time that it had for it at most: the last
    /// packets of those that came, since the first of them reached it. Of all such runs the one
    /// that shows the highest rate: where the hop was idle before a packet, that is its rate.
    fn since_idle(&self, sample: &Sample<'_>, sent: &[Sent], base: i64) -> Option<(u64, Duration)> {
        let base_size = self.delay.least().map_or(0, |(_, size)| size as u64 + limits::IP_AND_UDP);
        let mut bytes = 0;
        let runs = sent.iter().rev().filter_map(|(sent_at, size)| {
            bytes += size;
            let reached = signed(sent_at.as_micros()) + base;
            let busy = u64::try_from(signed(sample.received_at_us) - reached).ok()?;
            let busy = Duration::from_micros(busy);
            (busy >= TELLING).then_some((bytes.saturating_sub(base_size), busy))
        });
        runs.max_by_key(|(bytes, busy)| Rate::from_bytes_in(*bytes, *busy))
    }

    /// Keeps what follows from the history, which is asked for far more often than it changes.
    fn look_back(&mut self) {
        if self.fell && self.rate.is_some_and(|rate| rate >= THIN) {
            self.recover();
        }
        // Jitter is judged by a longer time than saturation.
        let calm = self.history.sum(LINK_MEMORY);
        self.is_jittery = calm.is_jitter() || self.is_longer(&calm);
        let recent = self.history.sum(SATURATED_WITHIN);
        let tells = recent.busy >= FIRST_BUSY && !recent.is_jitter() && !self.is_longer(&recent);
        self.first = if tells { self.history.low(RATE_MEMORY, 1.0) } else { None };
        self.usual = self.history.low(RATE_MEMORY, 0.5);
        let thin = |rate: Option<Rate>| rate.is_some_and(|rate| rate < THIN);
        let is_thin = thin(self.first) || thin(self.rate) && self.is_deep_and_thin();
        if self.queue >= DEEP && is_thin {
            self.fall();
        }
    }

    /// Lets the rate follow a stretch: slowly, because radios send in bursts; four times as fast
    /// where it falls and half of a deep queue shows it. It takes two stretches to fall to a third:
    /// one may hold a stall.
    fn smooth(&mut self, rate: Rate, span: Duration) {
        let old = self.rate.unwrap_or(rate);
        let last = self.last.replace(rate).unwrap_or(rate);
        let third = old.as_bps() / 3;
        if rate.as_bps() < third && last.as_bps() >= third {
            return;
        }
        let lag = if rate < old && self.queue > DEEP / 2 { DEEP / 4 } else { DEEP };
        let weight = span.as_secs_f64() / (span + lag).as_secs_f64();
        let bps = old.as_bps() as f64 * (1.0 - weight) + rate.as_bps() as f64 * weight;
        self.rate = Some(Rate::from_bps(bps as u64));
    }
}

/// Tells whether two receptions are as far apart as their sendings.
fn came_as_sent(gap: Duration, sent_gap: Duration) -> bool {
    gap.abs_diff(sent_gap) <= GRANULARITY
}

/// Returns packets in the order of sending.
fn by_sending(packets: &[&SentPacket]) -> SmallVec<[Sent; 16]> {
    let mut sent: SmallVec<_> =
        packets.iter().map(|packet| (packet.sent_at, whole(packet))).collect();
    sent.sort_unstable();
    sent
}

/// Returns the bytes of a packet with all headers.
fn whole(packet: &SentPacket) -> u64 {
    u64::from(packet.bytes) + limits::IP_AND_UDP
}

/// No time is out of range: 2⁶³ µs are 292,000 years.
fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
