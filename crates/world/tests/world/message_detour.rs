//! Messages over two paths of 30 ms whose rate falls to a twentieth for 2 s in every 10: nothing
//! waits in the queue of the path that fell. 1,000 bytes every 5 ms, 12 Mbit/s otherwise.

use proto::{Duration, MessageStream, Source};

use fulmar_world::{DRONE, Pair, STATION, two_links};

const SOURCE: Source = Source::Message {
    channel: 3,
    stream: MessageStream { id: 1, order: proto::MessageOrder::InOrder, deadline: None },
};
const MESSAGES: u32 = 12_000;
const EVERY: Duration = Duration::from_millis(5);
/// The longest that one message in a thousand may take.
const LONGEST: f64 = 150.0;

/// Returns a link that falls from second `falls` to the next but one in every ten, if it does.
fn link(falls: Option<u32>, rest: &str) -> String {
    let rate = |second| falls.is_some_and(|falls| (falls..falls + 2).contains(&second));
    let rates: Vec<&str> = (0..10).map(|second| if rate(second) { "0.6" } else { "12" }).collect();
    format!("delay_ms = 30\nrate_csv = \"{}\"\n{rest}", rates.join(","))
}

/// Returns the delays in milliseconds, ascending, and the symbols sent per message.
fn run(falls: [Option<u32>; 2], rest: &str) -> (Vec<f64>, f64) {
    run_links(&two_links(&link(falls[0], rest), &link(falls[1], rest), None))
}

fn run_links(scenario: &str) -> (Vec<f64>, f64) {
    let mut pair = Pair::connected(scenario, 1);
    let start = pair.world.now();
    for number in 0..MESSAGES {
        pair.run_until(start + EVERY * number);
        let mut message = vec![7; 1_000];
        message[..4].copy_from_slice(&number.to_be_bytes());
        pair.send(DRONE, SOURCE, &message).expect("there is room");
    }
    pair.run_for(Duration::from_secs(3));
    let seen = &pair.seen[STATION];
    assert_eq!(seen.len(), MESSAGES as usize, "every message once");
    let delays = (0..).zip(seen).map(|(number, seen)| {
        assert_eq!(seen.delivery.bytes[..4], u32::to_be_bytes(number), "in order");
        seen.at.since(start + EVERY * number).as_secs_f64() * 1e3
    });
    let mut delays: Vec<f64> = delays.collect();
    delays.sort_by(f64::total_cmp);
    let status = pair.status(DRONE).expect("connected").messages;
    let sent = status.source_symbols + status.repair_symbols + status.resent_symbols;
    (delays, sent as f64 / f64::from(MESSAGES))
}

/// Asserts the claim for both depths of the queue, with and without loss.
fn assert_quick(falls: [Option<u32>; 2]) {
    for (queue, loss, most_sent) in
        [(50_000, 0.0, 1.16), (500_000, 0.0, 1.16), (50_000, 0.01, 1.34), (500_000, 0.01, 1.34)]
    {
        let (delays, sent) = run(falls, &format!("queue_bytes = {queue}\nloss = {loss}"));
        let quantile = |q: f64| delays[(q * (delays.len() - 1) as f64) as usize];
        let [p99, p999, most] = [0.99, 0.999, 1.0].map(quantile);
        println!("queue {queue}, loss {loss}: {p99:.1}, {p999:.1}, {most:.1} ms, sent {sent:.3}");
        assert!(p999 <= LONGEST, "queue {queue}, loss {loss}: {p999} ms");
        assert!(sent <= most_sent, "queue {queue}, loss {loss}: {sent} per message");
    }
}

#[test]
fn one_path_that_falls_to_a_twentieth_holds_nothing_up() {
    assert_quick([Some(5), None]);
    assert_quick([None, Some(5)]);
}

#[test]
fn two_paths_that_fall_in_turn_hold_nothing_up() {
    assert_quick([Some(5), Some(1)]);
}

/// Together they carry little more than the messages, either of them much less every other second.
#[test]
fn two_links_that_are_poor_in_turn_are_both_kept_busy() {
    // Which message meets which change is a matter of milliseconds, and so is what each run comes
    // to: the mean of many.
    let run = |delay_ms: u32| {
        let link =
            |rates| format!("delay_ms = {delay_ms}\nrate_csv = \"{rates}\"\nqueue_bytes = 500000");
        let delays = run_links(&two_links(&link("2.5,0.5"), &link("0.5,2.5"), None)).0;
        [0.99, 0.999].map(|q| delays[(q * (delays.len() - 1) as f64) as usize])
    };
    let runs: Vec<[f64; 2]> = (20..=40).map(run).collect();
    let [p99, p999] =
        [0, 1].map(|at| runs.iter().map(|run| run[at]).sum::<f64>() / runs.len() as f64);
    assert!(p99 <= 280.0 && p999 <= 350.0, "{p99} and {p999} ms");
}
