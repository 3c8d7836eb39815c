//! Tests of `../bottleneck.rs`: what a hop of a known rate shows.

use super::*;
use crate::recovery::DeliveryRate;

const BASE: Duration = Duration::from_millis(30);

/// A hop with a given rate, and what is measured of it.
struct Hop {
    rate: Rate,
    free_at: Instant,
    in_flight: u64,
    /// How many datagrams it has sent.
    sent: u64,
    /// Something is always under way.
    is_long: bool,
    bottleneck: Bottleneck,
}

impl Hop {
    fn new(kbps: u64) -> Self {
        let (rate, bottleneck) = (Rate::from_bps(kbps * 1_000), Bottleneck::default());
        Self { rate, free_at: Instant::ZERO, in_flight: 0, sent: 0, is_long: false, bottleneck }
    }

    /// Sends a datagram and acknowledges it `jitter` after the hop has sent it.
    fn send(&mut self, at: Instant, bytes: u16, jitter: Duration) {
        self.lose(at, bytes);
        let received = self.free_at + BASE + jitter;
        let packet = SentPacket {
            pn: self.sent,
            sent_at: at,
            bytes,
            ack_eliciting: true,
            bulk: false,
            delivery: DeliveryRate::default().on_sent(at, self.in_flight == 0, self.in_flight),
            counts: true,
            marked: false,
            stood: self.in_flight,
            frames: Default::default(),
        };
        let rtt = received.since(at) + BASE;
        let sample = Sample {
            acked: &[&packet],
            newest: &packet,
            received_at_us: received.as_micros(),
            rtt,
            may_be_thin: false,
        };
        self.bottleneck.on_ack(received + BASE, &sample);
    }

    /// Sends a datagram that is lost behind the hop.
    fn lose(&mut self, at: Instant, bytes: u16) {
        let takes = self.rate.transmission_time(usize::from(bytes) + 28);
        self.in_flight = if self.free_at > at || self.is_long { 1_000 } else { 0 };
        self.free_at = self.free_at.max(at) + takes;
        self.sent += 1;
    }

    /// Sends for two seconds, 50 a second.
    fn fill(&mut self, bytes: u16, jitter: impl Fn(u64) -> u64) -> Instant {
        let at = |n| Instant::from_millis(1_000 + n * 20);
        (0..100).for_each(|n| self.send(at(n), bytes, Duration::from_millis(jitter(n))));
        self.free_at + BASE * 2
    }
}

#[test]
fn a_hop_that_is_busy_all_the_time_is_saturated_and_its_rate_is_what_it_sends() {
    let mut hop = Hop::new(64);
    hop.fill(149, |_| 0);
    let saturated = hop.bottleneck.saturated_rate().expect("saturated").as_bps();
    assert!((60_000..=66_000).contains(&saturated), "{saturated}");
    assert!(hop.bottleneck.queue() > Duration::from_millis(100));
}

#[test]
fn a_hop_with_room_is_not_saturated_whatever_the_jitter() {
    let mut hop = Hop::new(10_000);
    hop.fill(149, |n| n * 7 % 19);
    assert_eq!(hop.bottleneck.saturated_rate(), None);
    assert!(hop.bottleneck.calm_rate().is_none());
}

#[test]
fn delay_that_jumps_makes_no_hop_thin_that_sends_packets_as_they_came() {
    // Each message still arrives after the next one has left, as if they queued at a slow hop.
    let thin = |grows_ms| {
        let mut hop = Hop::new(5_000);
        // An MTU probe has shown that it is fast.
        hop.send(Instant::from_millis(500), 29, Duration::ZERO);
        hop.send(Instant::from_millis(700), 1_472, Duration::ZERO);
        hop.is_long = true;
        for n in 0..400_u64 {
            // Every 200 ms it is another, as pings of mobile networks have it.
            let delay = Duration::from_millis(if n < 20 { 0 } else { grows_ms + n / 20 % 3 * 5 });
            hop.send(Instant::from_millis(1_000 + n * 10), 149, delay);
        }
        let now = hop.free_at + BASE;
        let saturated = hop.bottleneck.saturated_rate();
        (saturated.or(hop.bottleneck.first_rate(now)), hop.bottleneck.calm_rate())
    };
    assert_eq!([thin(15), thin(60)], [(None, None); 2]);
}

#[test]
fn a_delay_that_has_jumped_is_no_queue_and_a_slower_hop_has_one() {
    let is_empty = |kbps, jump_ms| {
        let mut hop = Hop::new(10_000);
        hop.is_long = true;
        for n in 0..200_u64 {
            let has_changed = n >= 100;
            hop.rate = Rate::from_bps(if has_changed { kbps } else { 10_000 } * 1_000);
            let delay = Duration::from_millis(if has_changed { jump_ms } else { 0 });
            // Four datagrams, a millisecond apart, every 20 ms.
            hop.send(Instant::from_millis(1_000 + n / 4 * 20 + n % 4), 1_200, delay);
        }
        hop.bottleneck.is_empty(Duration::ZERO)
    };
    assert!(is_empty(10_000, 40));
    assert!(!is_empty(1_800, 0));
}

#[test]
fn one_large_datagram_tells_how_slow_or_how_fast_an_empty_hop_is() {
    let rate = |kbps| {
        let mut hop = Hop::new(kbps);
        hop.send(Instant::from_millis(1_000), 29, Duration::ZERO);
        hop.send(Instant::from_millis(2_000), 1_472, Duration::ZERO);
        (hop.bottleneck.rate(), hop.bottleneck.best_ever())
    };
    let (slow, best) = rate(16);
    assert!(slow.is_some_and(|slow| slow == best && slow.as_bps() / 1_000 == 16), "{slow:?}");
    let (fast, best) = rate(10_000);
    assert!(fast.is_none() && best > THIN, "{best:?}");
}

#[test]
fn large_datagrams_that_are_too_fast_for_the_rate_end_it() {
    let mut hop = Hop::new(64);
    let now = hop.fill(149, |_| 0);
    hop.rate = Rate::from_mbps(5.0);
    hop.send(now, 29, Duration::ZERO);
    (1..=u64::from(FASTER)).for_each(|n| {
        hop.send(now + Duration::from_millis(100 * n), 700, Duration::ZERO);
    });
    assert_eq!(hop.bottleneck.saturated_rate(), None);
}

#[test]
fn how_low_the_rate_was_is_remembered_for_a_while() {
    let (mut hop, now) = (Bottleneck::default(), Instant::from_millis(5_000));
    hop.history.on_busy(now, 1_000, Duration::from_millis(8));
    hop.busy_at = now;
    let memory = Duration::from_secs(20);
    assert_eq!(hop.least_rate(now, memory), Some(Rate::from_mbps(1.0)));
    assert_eq!(hop.least_rate(now + memory, memory), None);
}

#[test]
fn a_way_that_has_become_longer_is_no_queue_where_packets_come_as_they_were_sent() {
    let jumped = |kbps: u64, delay_ms| {
        let mut hop = Hop::new(10_000);
        hop.is_long = true;
        for n in 0..50 {
            hop.send(Instant::from_millis(1_000 + n * 20), 149, Duration::ZERO);
        }
        hop.rate = Rate::from_bps(kbps * 1_000);
        for at in [2_000, 2_020, 2_022, 2_060, 2_100, 2_102] {
            hop.send(Instant::from_millis(at), 149, Duration::from_millis(delay_ms));
        }
        hop.bottleneck.queue()
    };
    assert!(jumped(10_000, 570) < EMPTY, "{:?}", jumped(10_000, 570));
    assert!(jumped(10, 0) > DEEP, "{:?}", jumped(10, 0));
}

/// What is sent at the pace of a full hop comes at that pace too, and a datagram that was lost in
/// between took its time.
#[test]
fn a_queue_is_no_longer_way_where_datagrams_behind_it_are_lost() {
    let mut hop = Hop::new(20);
    let takes = hop.rate.transmission_time(149 + 28);
    hop.send(Instant::from_millis(1_000), 149, Duration::ZERO);
    let at = |n: u32| Instant::from_millis(2_000) + takes * n;
    (0..4).for_each(|_| hop.send(at(0), 149, Duration::ZERO));
    for n in 1..20 {
        match n % 6 {
            3 | 4 => hop.lose(at(n), 149),
            _ => hop.send(at(n), 149, Duration::ZERO),
        }
    }
    assert!(hop.bottleneck.queue() > DEEP, "{:?}", hop.bottleneck.queue());
    assert!(hop.bottleneck.rate().is_some_and(|rate| rate.as_bps() < 21_000));
}

#[test]
fn a_hop_that_was_idle_between_two_packets_was_not_busy_then() {
    let mut hop = Bottleneck::default();
    let (rate, size) = (Rate::from_bps(32_000), 149);
    let takes = rate.transmission_time(usize::from(size) + 28);
    let packet = |pn, at| SentPacket {
        pn,
        sent_at: Instant::from_millis(at),
        bytes: size,
        ack_eliciting: true,
        bulk: false,
        delivery: DeliveryRate::default().on_sent(Instant::from_millis(at), false, 1_000),
        counts: true,
        marked: false,
        stood: 1_000,
        frames: Default::default(),
    };
    let mut acknowledge = |acked: &[&SentPacket], left: Instant| {
        let newest = acked.last().expect("some");
        let rtt = (left + BASE * 2).since(newest.sent_at);
        let received_at_us = (left + BASE).as_micros();
        hop.on_ack(
            left + BASE * 2,
            &Sample { acked, newest, received_at_us, rtt, may_be_thin: false },
        );
        hop.rate()
    };
    let first = packet(0, 1_000);
    acknowledge(&[&first], first.sent_at + takes);
    let second = packet(1, 1_000);
    acknowledge(&[&second], second.sent_at + takes * 2);
    // One that is heard of late, a second of rest, and four at once.
    let late = packet(2, 1_001);
    let burst: Vec<_> = (3..7).map(|pn| packet(pn, 2_000)).collect();
    let acked: Vec<_> = std::iter::once(&late).chain(&burst).collect();
    let shown = acknowledge(&acked, burst[0].sent_at + takes * 4).expect("the hop was busy");
    assert!((28_000..=36_000).contains(&shown.as_bps()), "{shown:?}");
}

#[test]
fn a_round_trip_shorter_than_the_transmission_refutes_the_rate() {
    let mut hop = Hop::new(2);
    hop.send(Instant::from_millis(1_000), 29, Duration::ZERO);
    hop.send(Instant::from_millis(2_000), 1_472, Duration::ZERO);
    assert!(hop.bottleneck.calm_rate().is_some_and(|rate| rate.as_bps() / 1_000 == 2));
    (hop.rate, hop.free_at) = (Rate::from_mbps(5.0), Instant::ZERO);
    hop.send(Instant::from_millis(9_000), 29, Duration::ZERO);
    assert_eq!(hop.bottleneck.calm_rate(), None);
}

/// What the hop was a moment ago, its rate and packets that came as they were sent, hid what it had
/// become for up to two seconds.
#[test]
fn a_fall_shows_within_half_a_second_whatever_the_hop_was_before() {
    let mut hop = Hop::new(10_000);
    hop.is_long = true;
    for n in 0..200_u64 {
        // Two at once now and then: the hop is busy for a moment, and fast.
        hop.send(Instant::from_millis(1_000 + n / 2 * 20 + n % 2), 149, Duration::ZERO);
    }
    hop.rate = Rate::from_bps(34_000);
    for n in 0..10 {
        hop.send(Instant::from_millis(3_000 + n * 20), 149, Duration::ZERO);
    }
    assert!(hop.bottleneck.fell());
    let rate = hop.bottleneck.calm_rate().map_or(0, Rate::as_bps);
    assert!((30_000..=38_000).contains(&rate), "{rate}");
}

/// What came early as a fall ended was taken for jitter for ten seconds, and the next fall was not
/// believed.
#[test]
fn what_comes_early_as_a_fall_ends_is_no_jitter() {
    let mut hop = Hop::new(20);
    hop.is_long = true;
    for n in 0..30 {
        hop.send(Instant::from_millis(1_000 + n * 20), 149, Duration::ZERO);
    }
    assert!(hop.bottleneck.fell());
    hop.rate = Rate::from_mbps(10.0);
    for n in 30..150 {
        hop.send(Instant::from_millis(1_000 + n * 20), 149, Duration::ZERO);
    }
    assert!(!hop.bottleneck.fell() && !hop.bottleneck.is_jittery);
}

/// By the rate that was refuted a datagram took longer than it stood, so the queue was none however
/// long it grew.
#[test]
fn the_queue_of_a_hop_that_has_become_faster_shows_before_its_rate_is_known() {
    let mut hop = Hop::new(10);
    hop.send(Instant::from_millis(1_000), 29, Duration::ZERO);
    hop.fill(149, |_| 0);
    assert!(hop.bottleneck.calm_rate().is_some_and(|rate| rate.as_bps() < 11_000));
    let rested = hop.free_at + Duration::from_secs(1);
    hop.rate = Rate::from_bps(100_000);
    (0..4).for_each(|n| hop.send(rested + Duration::from_millis(n * 20), 149, Duration::ZERO));
    let later = rested + Duration::from_millis(500);
    (0..4).for_each(|n| hop.send(later + Duration::from_millis(n), 1_359, Duration::ZERO));
    assert!(hop.bottleneck.queue() > Duration::from_millis(300), "{:?}", hop.bottleneck.queue());
}
