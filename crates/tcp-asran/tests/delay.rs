//! `asran_delay`, step by step, as the kernel runs it: what it makes of a loss with and without a
//! queue.

use fulmar_tcp_asran::{Error, Event, Flavour, Snapshot, replay};

/// Round-trip time of the path without a queue, µs.
const PATH_US: u32 = 40_000;
/// Time between two packets of the link: 20 of them fill the path.
const PACKET_US: u32 = 2_000;

/// A sender alone on a link: every ACK is a packet that the link has served.
struct Link {
    events: Vec<Event>,
    now_us: u64,
}

impl Link {
    fn new(cwnd: u32) -> Self {
        Self { events: vec![Event::Start { cwnd }], now_us: 1_000_000 }
    }

    /// ACKs of a span in which so many packets stand in the queue.
    fn acks(&mut self, count: u32, queued: u32) {
        for _ in 0..count {
            self.now_us += u64::from(PACKET_US);
            self.events.push(Event::TimedAck {
                packets: 1,
                now_us: self.now_us,
                rtt_us: PATH_US + queued * PACKET_US,
                rate_delivered: 10,
                rate_interval_us: 10 * PACKET_US,
            });
        }
    }

    fn then(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns the last steps; `None`, and a line that says why, where this machine cannot replay.
    fn last<const N: usize>(&self, test: &str) -> Option<[Snapshot; N]> {
        match replay(Flavour::AsranDelay, &self.events) {
            Ok(steps) => Some(steps[steps.len() - N..].try_into().expect("so many steps")),
            Err(error @ Error::Refused { .. }) => panic!("{error}"),
            Err(error) => {
                println!("SKIPPED: {test}: {error}");
                None
            }
        }
    }
}

#[test]
fn loss_without_a_queue_costs_no_window() {
    let mut link = Link::new(20);
    link.acks(3, 0);
    link.then(Event::Loss);
    link.then(Event::Recovered);
    let Some([before, lost, recovered]) = link.last("loss_without_a_queue") else { return };
    assert_eq!((lost.cwnd, lost.ssthresh), (20, 20), "the path carries 20 packets");
    assert!(before.cwnd > 20 && lost.last_max_cwnd == before.cwnd, "{before:?} {lost:?}");
    // Six packets may wait for the link after a loss that was not due to a queue.
    assert_eq!(recovered.ssthresh, before.cwnd.min(26));
}

#[test]
fn loss_behind_a_long_queue_halves_the_window_and_gives_nothing_back() {
    let mut link = Link::new(60);
    link.acks(1, 0);
    link.acks(30, 40);
    link.then(Event::Loss);
    link.then(Event::Recovered);
    let name = "loss_behind_a_long_queue_halves_the_window_and_gives_nothing_back";
    let Some([before, lost, recovered]) = link.last(name) else { return };
    let half = before.cwnd / 2;
    assert_eq!((lost.cwnd, lost.ssthresh), (half, half), "{before:?}");
    assert_eq!((recovered.cwnd, recovered.ssthresh), (half, half));
}

#[test]
fn slow_start_ends_where_a_queue_begins() {
    let mut link = Link::new(20);
    link.acks(12, 0);
    link.acks(40, 12);
    let Some([last]) = link.last("slow_start_ends_where_a_queue_begins") else { return };
    assert!(last.ssthresh <= 30 && last.cwnd <= 30, "{last:?}");
}

#[test]
fn timeout_is_the_base_algorithms() {
    let mut link = Link::new(30);
    link.acks(1, 0);
    link.then(Event::Timeout);
    let Some([before, after]) = link.last("timeout_is_the_base_algorithms") else { return };
    assert_eq!((after.cwnd, after.ssthresh), (1, before.cwnd / 2));
}

#[test]
fn a_queue_that_stays_when_our_own_packets_are_gone_is_others() {
    // Eight seconds of a queue of 40 packets that no window of ours makes shorter.
    let mut link = Link::new(30);
    link.acks(1, 0);
    link.then(Event::Loss);
    link.then(Event::Recovered);
    link.acks(4_000, 40);
    let name = "a_queue_that_stays_when_our_own_packets_are_gone_is_others";
    let Some(steps) = link.last::<4_000>(name) else { return };
    let least = steps.iter().map(|step| step.cwnd).min().expect("steps");
    let [.., last] = steps;
    assert!(least < 25, "it held back first: {least}");
    assert!(last.cwnd > least + 10, "then it grew as NewReno does: {last:?}");
}
