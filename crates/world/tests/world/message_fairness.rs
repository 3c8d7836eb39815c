//! Saturating message streams share a link with each other, and leave TCP its share.

use proto::select::Policy;
use proto::{CongestionKind, Duration, MessageStream, SessionConfig, Source};

use fulmar_world::{Crowd, one_link};

const MESSAGE: usize = 1_024;

/// What an application of the test does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Application {
    /// Hands in messages as fast as they are taken.
    Messages,
    /// Hands in packets as fast as a link of 10 Mbit/s could carry, for a session that does what
    /// TCP's congestion control would.
    Packets,
}

/// Runs applications side by side for 80 s; returns the goodput of each over the last 60 s, Mbit/s.
fn goodputs(link: &str, seed: u64, applications: &[Application]) -> Vec<f64> {
    let config = |application: &Application| match application {
        Application::Messages => SessionConfig::default(),
        Application::Packets => SessionConfig {
            congestion: CongestionKind::Cubic,
            bulk_max_age: Duration::from_secs(1),
            ..SessionConfig::default()
        },
    };
    let configs: Vec<_> = applications.iter().map(config).collect();
    let mut crowd = Crowd::connected(&one_link(link), seed, &configs);
    let mut before = vec![0; applications.len()];
    for tick in 0..8_000 {
        if tick == 2_000 {
            before = (0..applications.len()).map(|index| crowd.delivered(index)).collect();
        }
        for (index, application) in applications.iter().enumerate() {
            crowd.with_drone(index, |endpoint, session, now| match application {
                Application::Messages => {
                    let source = Source::Message { channel: 3, stream: MessageStream::default() };
                    let waiting = endpoint.status(now, session).map(|s| s.messages.waiting_bytes);
                    for _ in waiting.unwrap_or(0) / MESSAGE..64 {
                        let _ = endpoint.send(now, session, source, &[7; MESSAGE]);
                    }
                }
                Application::Packets => {
                    let source = Source::Declared { channel: 3, policy: Policy::BULK };
                    for _ in 0..14 {
                        let _ = endpoint.send(now, session, source, &[7; MESSAGE]);
                    }
                }
            });
        }
        crowd.run_for(Duration::from_millis(10));
    }
    let rate = |(index, before): (usize, &u64)| {
        (crowd.delivered(index) - before) as f64 * 8.0 / 60.0 / 1e6
    };
    let rates = before.iter().enumerate().map(rate).collect();
    println!("{link:?} seed {seed}: {rates:.2?} Mbit/s");
    rates
}

#[test]
fn four_saturating_message_streams_get_a_quarter_each() {
    for (seed, link) in [
        (1, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 125000"),
        (3, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 62500"),
    ] {
        assert!(furthest_from_a_quarter(link, seed) <= 0.2);
    }
}

/// Where packets are lost at random, shares of a minute move with the seed, so the claim is about
/// many.
#[test]
fn four_saturating_message_streams_get_a_quarter_each_where_packets_are_lost() {
    let link = "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 125000\nloss = 0.02";
    let mut furthest: Vec<_> = (11..20).map(|seed| furthest_from_a_quarter(link, seed)).collect();
    furthest.sort_by(f64::total_cmp);
    assert!(furthest[4] <= 0.1 && furthest[8] <= 0.3, "{furthest:.3?}");
}

/// Returns by how much of a quarter the stream that is furthest from it misses it, of four.
fn furthest_from_a_quarter(link: &str, seed: u64) -> f64 {
    let rates = goodputs(link, seed, &[Application::Messages; 4]);
    let quarter = rates.iter().sum::<f64>() / 4.0;
    rates.iter().map(|rate| (rate / quarter - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn a_competing_tcp_flow_keeps_half_of_its_fair_share() {
    for (seed, link) in [
        (1, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 125000"),
        (2, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 50000"),
        (3, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 500000"),
        // Shorter than the queue that a stream aims at: 25 and 16 ms.
        (4, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 31250"),
        (5, "delay_ms = 20\nrate_mbps = 10\nqueue_bytes = 20000"),
    ] {
        let rates = goodputs(link, seed, &[Application::Messages, Application::Packets]);
        // A fair share of the goodput, and nobody starves.
        let fair = rates.iter().sum::<f64>() / 2.0;
        assert!(rates[1] >= fair / 2.0 && rates[0] >= 0.05, "seed {seed}: {rates:?}");
    }
}
