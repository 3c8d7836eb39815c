//! How late messages are: 1,024 bytes every 5 ms, 50 ms one way, 100 Mbit/s, the same loss both
//! ways. What a full experiment pools over 20 seeds of 50,000 messages is pooled over fewer here;
//! thresholds are looser by the error of that alone.

use proto::{Duration, Instant, MessageOrder, MessageStream, Source};

use fulmar_world::{DRONE, Pair, STATION, one_link, two_links};

/// Bytes of a message: with its heads a datagram takes 0.09 ms at 100 Mbit/s.
const BYTES: usize = 1_024;
const EVERY: Duration = Duration::from_millis(5);
const STREAM: MessageStream = MessageStream { id: 1, order: MessageOrder::InOrder, deadline: None };
const SOURCE: Source = Source::Message { channel: 3, stream: STREAM };

/// Delays of all runs, ms, and symbols sent per message.
#[derive(Debug)]
struct Figures {
    delays: Vec<f64>,
    sent: f64,
}

impl Figures {
    fn pooled(scenario: &str, seeds: u64, messages: u32) -> Self {
        let (mut delays, mut sent) = (Vec::new(), 0);
        for seed in 1..=seeds {
            let mut pair = Pair::connected(scenario, seed);
            delays.extend(run(&mut pair, messages));
            let status = pair.status(DRONE).expect("connected").messages;
            sent += status.source_symbols + status.repair_symbols + status.resent_symbols;
        }
        let sent = sent as f64 / delays.len() as f64;
        delays.sort_by(f64::total_cmp);
        let figures = Self { delays, sent };
        let [p50, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|q| figures.quantile(q));
        println!(
            "exact {:.2} %, p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1}, max {most:.1} ms, sent {:.3}",
            figures.exact() * 100.0,
            figures.sent
        );
        figures
    }

    /// Share of messages that took 50 ms and no more than the time that two datagrams take on the
    /// link: their own, and that of the repair symbol beside them.
    fn exact(&self) -> f64 {
        self.delays.partition_point(|delay| *delay <= 50.2) as f64 / self.delays.len() as f64
    }

    fn quantile(&self, quantile: f64) -> f64 {
        let index = (self.delays.len() as f64 * quantile).ceil() as usize - 1;
        self.delays[index]
    }
}

/// Sends messages; returns their delays in ms. Every one must come once and in order.
fn run(pair: &mut Pair, messages: u32) -> Vec<f64> {
    let start = pair.world.now();
    let mut message = vec![7; BYTES];
    for index in 0..messages {
        pair.run_until(start + EVERY * index);
        message[..4].copy_from_slice(&index.to_be_bytes());
        pair.send(DRONE, SOURCE, &message).expect("there is room");
    }
    pair.run_for(Duration::from_secs(3));
    let seed = pair.seed;
    let delay = |(index, seen): (usize, &fulmar_world::Seen)| {
        let number = u32::from_be_bytes(seen.delivery.bytes[..4].try_into().expect("4 bytes"));
        assert_eq!(number, index as u32, "seed {seed}: in order");
        assert_eq!(seen.delivery.bytes.len(), BYTES);
        let submitted: Instant = start + EVERY * number;
        seen.at.since(submitted).as_secs_f64() * 1e3
    };
    let delays: Vec<f64> = pair.seen[STATION].iter().enumerate().map(delay).collect();
    assert_eq!(delays.len(), messages as usize, "seed {seed}: every message once");
    delays
}

fn lossy(loss: f64) -> String {
    one_link(&format!("delay_ms = 50\nrate_mbps = 100\nloss = {loss}"))
}

/// Two links that lose everything for 50 ms now and then, which is ten messages.
fn bursty(loss: f64) -> String {
    let good_ms = 50.0 * (1.0 - loss) / loss;
    let burst = format!("[link.burst_loss]\ngood_ms = {good_ms}\nbad_ms = 50");
    let link = format!("delay_ms = 50\nrate_mbps = 100\n{burst}");
    two_links(&link, &link, None)
}

#[test]
fn a_tenth_lost_costs_one_message_in_ten_its_time() {
    let figures = Figures::pooled(&lossy(0.10), 4, 10_000);
    assert!(figures.sent <= 1.5, "{}", figures.sent);
    assert!(figures.exact() >= 0.900, "{}", figures.exact());
    assert!(figures.quantile(0.99) <= 70.2 && figures.quantile(0.999) <= 115.2);
}

#[test]
fn a_twentieth_lost_costs_one_message_in_thirty_its_time() {
    let figures = Figures::pooled(&lossy(0.05), 3, 10_000);
    assert!(figures.sent <= 1.5, "{}", figures.sent);
    assert!(figures.exact() >= 0.957, "{}", figures.exact());
    assert!(figures.quantile(0.999) <= 80.2);
}

#[test]
fn a_fiftieth_lost_costs_one_message_in_thirty_its_time_at_half_the_price() {
    let figures = Figures::pooled(&lossy(0.02), 3, 10_000);
    assert!(figures.sent <= 1.25, "{}", figures.sent);
    assert!(figures.exact() >= 0.957, "{}", figures.exact());
    assert!(figures.quantile(0.999) <= 90.2);
}

#[test]
fn bursts_on_one_of_two_paths_cost_nobody_time() {
    let figures = Figures::pooled(&bursty(0.05), 3, 10_000);
    assert!(figures.sent <= 2.1, "{}", figures.sent);
    assert!(figures.exact() >= 0.98, "{}", figures.exact());
    assert!(figures.quantile(0.999) <= 210.2);
}

/// Two links that lose everything in one direction for a while, once, when it is not known yet that
/// they lose nothing else.
fn interrupted(direction: &str, seconds: f64) -> String {
    let outage = format!("start_s = 5\nseconds = {seconds}\nmode = \"drop\"");
    let outage = format!("[[link.outage]]\n{outage}\ndirection = \"{direction}\"");
    let link = format!("delay_ms = 50\nrate_mbps = 100\n{outage}");
    two_links(&link, &link, None)
}

#[test]
fn what_every_path_lost_is_there_a_round_trip_later_than_it_would_have_been() {
    let figures = Figures::pooled(&interrupted("up", 0.06), 3, 1_000);
    assert!(figures.exact() >= 0.965, "{}", figures.exact());
    assert!(figures.quantile(1.0) <= 157.0, "the peer says at once that it hears nothing");
}

#[test]
fn a_short_silence_on_the_way_back_alone_costs_nothing() {
    let figures = Figures::pooled(&interrupted("down", 0.04), 3, 1_000);
    assert_eq!(figures.exact(), 1.0);
    assert!(figures.sent <= 2.001, "{}", figures.sent);
}
