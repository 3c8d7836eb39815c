//! Sends messages from a drone to its station over a link that loses a tenth of all packets.
//!
//! A pair of sessions is all that a program needs to try something. The link is emulated and time
//! is virtual, so that it ends at once and prints the same every time. What moves the datagrams of
//! an endpoint is `src/driver.rs`; with sockets and a clock in the place of [`netem::World`] it is
//! a daemon.
//!
//! ```text
//! cargo run -p fulmar-world --example messages
//! ```
#![allow(clippy::expect_used, reason = "an example shows the way that succeeds")]

use fulmar_world::{DRONE, Pair, STATION};
use proto::{Duration, MessageOrder, MessageStream, Source};

const SCENARIO: &str = r#"
name = "example"
seconds = 60
[[host]]
name = "drone"
[[host]]
name = "station"
[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 50
rate_mbps = 20
loss = 0.1
"#;

fn main() {
    let mut pair = Pair::connected(SCENARIO, 1);
    let start = pair.world.now();

    // Waypoints in order, each of them certain; positions that are of no use after 120 ms.
    let waypoints = MessageStream::default();
    let deadline = Some(Duration::from_millis(120));
    let positions = MessageStream { id: 1, order: MessageOrder::Unordered, deadline };
    for number in 0..200_u32 {
        pair.run_until(start + Duration::from_millis(20) * number);
        for (stream, text) in [(waypoints, "waypoint"), (positions, "position")] {
            // `Err(SendError::Busy)` is back-pressure; `Event::RoomForMessages` ends it.
            let source = Source::Message { channel: 30, stream };
            let text = format!("{text} {number}");
            pair.send(DRONE, source, text.as_bytes()).expect("there is room");
        }
    }
    pair.run_for(Duration::from_secs(2));

    println!(
        "50 ms and a tenth of all packets lost, each way; a waypoint and a position every 20 ms"
    );
    for (stream, name) in [(waypoints, "waypoint"), (positions, "position")] {
        let delivered = pair.seen[STATION].iter().map(|seen| &seen.delivery);
        let ours = delivered.filter(|delivery| delivery.stream == Some(stream.id));
        let mut ages: Vec<Duration> = ours.clone().map(|delivery| delivery.age).collect();
        let numbers: Vec<u32> = ours
            .filter_map(|delivery| {
                String::from_utf8_lossy(&delivery.bytes).split(' ').nth(1)?.parse().ok()
            })
            .collect();
        ages.sort();
        let ms = |age: Option<&Duration>| age.map_or(0.0, |age| age.as_secs_f64()) * 1e3;
        println!(
            "{name}s: {} of 200 delivered, {}; half within {:.0} ms, the slowest {:.0} ms",
            ages.len(),
            if numbers.is_sorted() { "in order" } else { "as they came" },
            ms(ages.get(ages.len() / 2)),
            ms(ages.last()),
        );
        if stream.order == MessageOrder::InOrder {
            assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "every one, once, in order");
        }
    }
    show_status(&pair);
}

/// What either end knows: how much repair was sent, what it was good for, and where delay arises.
fn show_status(pair: &Pair) {
    let status = |host| pair.status(host).expect("the session lives");
    let (sent, received) = (status(DRONE).messages, status(STATION).messages);
    println!(
        "the drone sent {} symbols, {} combinations of them and {} once more; the station computed {} \
         that were lost",
        sent.source_symbols, sent.repair_symbols, sent.resent_symbols, received.decoded_symbols
    );
    for row in status(STATION).message_streams {
        let delay = row.delay;
        println!(
            "stream {}: {} skipped; mean delay: {:.1?} for a path, {:.1?} on the way, {:.1?} decoding, {:.1?} for \
             earlier messages",
            row.stream,
            row.late,
            delay.division,
            delay.end_to_end,
            delay.decoding,
            delay.reconstruction
        );
    }
}
