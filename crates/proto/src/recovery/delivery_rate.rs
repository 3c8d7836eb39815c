//! The rate at which the peer receives what we send, sampled once per acknowledgement.
//!
//! ```text
//! rate = Δdelivered / max(Δsent, Δacked)
//! ```
//! where each Δ counts from the state that travelled with the newest packet acknowledged [BBRv3
//! §4.1]. A sample taken while the application had nothing to send is a lower bound and says so.

use units::{Duration, Instant, Rate};

/// Travels with every packet in flight: the delivery count when it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryState {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    app_limited: bool,
    in_flight: u64,
}

impl DeliveryState {
    /// Returns the bytes that were in flight before the packet; on a relayed link, those of control
    /// alone.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }
}

/// Tells what one acknowledgement says about the rate of delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// The rate, or zero when the interval was too short to tell.
    pub(crate) rate: Rate,
    /// True when the application, not the path, limited the rate.
    pub(crate) app_limited: bool,
    /// Bytes delivered before the newest packet acknowledged now was sent: marks packet-timed
    /// rounds.
    pub(crate) prior_delivered: u64,
    /// Bytes delivered in all.
    pub(crate) delivered: u64,
}

/// Counts deliveries and takes rate samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Delivery count up to which samples are limited by the application.
    app_limited_until: u64,
    newest: Option<(DeliveryState, Instant)>,
}

impl DeliveryRate {
    /// Notes that a packet is sent, and whether nothing is in flight; returns the state that must
    /// travel with it, with the bytes before it.
    pub(crate) fn on_sent(&mut self, now: Instant, is_idle: bool, in_flight: u64) -> DeliveryState {
        if is_idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliveryState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > self.delivered,
            in_flight,
        }
    }

    /// Notes that the application has nothing more to send although the path has room.
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Notes the delivery of one packet.
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        bytes: u64,
        sent_at: Instant,
        state: DeliveryState,
    ) {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.newest.is_none_or(|(newest, _)| state.delivered >= newest.delivered) {
            self.newest = Some((state, sent_at));
        }
    }

    /// Makes the sample of one acknowledgement, after its packets; `min_rtt` guards against
    /// intervals that are implausibly short.
    pub(crate) fn take_sample(&mut self, now: Instant, min_rtt: Duration) -> Option<RateSample> {
        let (state, sent_at) = self.newest.take()?;
        self.first_sent_at = sent_at;
        let interval = sent_at.since(state.first_sent_at).max(now.since(state.delivered_at));
        let bytes = self.delivered - state.delivered;
        let rate =
            if interval < min_rtt { Rate::ZERO } else { Rate::from_bytes_in(bytes, interval) };
        Some(RateSample {
            rate,
            app_limited: state.app_limited,
            prior_delivered: state.delivered,
            delivered: self.delivered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `count` packets of 1,250 bytes every millisecond over a 20 ms path.
    fn steady(count: u64) -> RateSample {
        let mut rate = DeliveryRate::default();
        let mut flying = std::collections::VecDeque::new();
        let mut last = RateSample::default();
        for ms in 0..count + 20 {
            let now = Instant::from_millis(ms);
            if ms >= 20 {
                let (sent_at, state) = flying.pop_front().expect("one per millisecond");
                rate.on_acked(now, 1_250, sent_at, state);
                last = rate.take_sample(now, Duration::from_millis(20)).expect("something acked");
            }
            let in_flight = flying.len() as u64 * 1_250;
            flying.push_back((now, rate.on_sent(now, in_flight == 0, in_flight)));
        }
        last
    }

    #[test]
    fn steady_sending_is_measured_exactly() {
        let sample = steady(200);
        assert!((sample.rate.as_mbps() - 10.0).abs() < 0.6, "{sample:?}");
        assert!(!sample.app_limited);
    }

    #[test]
    fn a_release_after_a_stall_is_not_taken_for_speed() {
        let mut rate = DeliveryRate::default();
        let mut flying = Vec::new();
        for ms in 0..100 {
            let now = Instant::from_millis(ms);
            flying.push((now, rate.on_sent(now, flying.is_empty(), flying.len() as u64)));
        }
        let release = Instant::from_millis(2_000);
        for (sent_at, state) in flying {
            rate.on_acked(release, 1_250, sent_at, state);
        }
        let sample = rate.take_sample(release, Duration::from_millis(20)).expect("acked");
        assert!(sample.rate.as_mbps() < 0.6, "{sample:?}");
    }

    #[test]
    fn samples_sent_while_app_limited_say_so() {
        let mut rate = DeliveryRate::default();
        rate.on_app_limited(0);
        let state = rate.on_sent(Instant::ZERO, true, 0);
        rate.on_acked(Instant::from_millis(20), 1_250, Instant::ZERO, state);
        let sample = rate.take_sample(Instant::from_millis(20), Duration::ZERO).expect("acked");
        assert!(sample.app_limited);
    }
}
