//! One point of the experiments on coded messages: what is asked for, and what comes back, the same
//! in the world and on the emulator.
//!
//! ```text
//! station: message n of `bytes` bytes at n · interval ─→ transport ─→ links ─→ drone: fetched
//! delay n = fetched n − submitted n
//! exact: delay ≤ one-way delay + transmission of one datagram with a message + tolerance
//! ```
//! Source: [LRT §IV]. *Not in the paper*, and ours: the interval, the rate of the link, the loss on
//! the way back (the same as on the way there), bursts and a second path. `sim` and `emu` run it.

use emulator::Stalls;
use netem::{
    Delay, GilbertElliott, LinkModel, LinkRate, LossModel, Scenario, StateChange, UDP_IP_OVERHEAD,
};
use proto::MessageForm;
use serde::Serialize;
use serde_json::{Value, json};
use units::{Duration, Rate};

use crate::doubt::at_best;
use crate::report::{merged, rounded, rounded_option};
use crate::scheme::Scheme;
use crate::statistics::percentile;

/// Repair ÷ source that the faithful form and the block code spend unless asked otherwise; the
/// sweep behind it is in experiments/lrt/README.md.
pub(crate) const REDUNDANCY: f64 = 0.5;
/// The longest mean time between bursts: beyond any run.
const LONGEST_GOOD: Duration = Duration::from_secs(1_000_000);
/// β of the faithful form: nobody else is on the links.
const BETA: f64 = 1.0;

/// Describes one point of an experiment, run for every scheme and every loss.
#[derive(Clone, Debug)]
pub(crate) struct LrtParameters {
    /// The schemes to run.
    pub(crate) schemes: Vec<Scheme>,
    /// Shares of packets that each link loses, in both directions.
    pub(crate) losses: Vec<f64>,
    /// Share of packets that is lost on the way back, where it is another.
    pub(crate) loss_back: Option<f64>,
    /// From one message to the next.
    pub(crate) interval: Duration,
    /// Bytes of a message.
    pub(crate) bytes: usize,
    /// Messages per seed.
    pub(crate) messages: u32,
    /// One-way delay of each link.
    pub(crate) delay: Duration,
    /// Rate of each link.
    pub(crate) rate: Rate,
    /// Repair ÷ source that a coded scheme may spend; none leaves it to the scheme.
    pub(crate) redundancy: Option<f64>,
    /// Mean length of a burst of losses in packets; 1 is independent loss.
    pub(crate) burst: f64,
    /// Mean length of a burst in time, in place of that.
    pub(crate) burst_time: Option<Duration>,
    /// Number of links, 1 or 2.
    pub(crate) paths: u8,
    /// Source symbols that a coder of the faithful form holds at most [LRT §III-B].
    pub(crate) k: u16,
    /// First and last seed, pooled. The emulator runs the first.
    pub(crate) seeds: (u64, u64),
    /// Links in place of equal ones; delay, rate and number above are then theirs.
    pub(crate) links: Option<Scenario>,
    /// How much more than a message takes that nothing holds up still counts as exactly that.
    pub(crate) tolerance: Duration,
}

impl LrtParameters {
    /// Returns the links between station and drone that lose the share `loss`.
    pub(crate) fn scenario(&self, loss: f64) -> Scenario {
        if let Some(links) = &self.links {
            return links.clone();
        }
        let model = LinkModel {
            delay: Delay::Fixed(self.delay),
            rate: LinkRate::Constant(self.rate),
            loss: self.loss_model(loss),
            ..LinkModel::default()
        };
        let none = Scenario::new("lrt", 0.0);
        let mut scenario = (1..=self.paths).fold(none, |scenario, n| {
            scenario.link(&format!("net{n}"), "drone", "station", &model)
        });
        if let Some(back) = self.loss_back {
            for link in &mut scenario.links {
                link.up.loss = self.loss_model(back);
            }
        }
        // Two clocks are two clocks: neither host may rely on the other's.
        scenario.hosts[0].clock.offset_ns = 17_000_000_000;
        scenario.hosts[0].clock.skew_ppb = 20_000;
        scenario
    }

    /// Returns the faithful form of message delivery with these parameters.
    pub(crate) fn faithful_form(&self) -> MessageForm {
        let redundancy = self.redundancy.unwrap_or(REDUNDANCY);
        MessageForm::Lrt { k: self.k, redundancy, beta: BETA }
    }

    /// Returns how long a run submits messages.
    pub(crate) fn submitting(&self) -> Duration {
        self.interval * self.messages
    }

    /// Returns what a message takes that is alone and arrives: delay and transmission.
    pub(crate) fn undisturbed(&self) -> Duration {
        self.delay + self.rate.transmission_time(self.bytes + UDP_IP_OVERHEAD)
    }

    /// Returns the parameters as reports carry them.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "scenario": self.links.as_ref().map(|links| &links.name),
            "messages_per_seed": self.messages,
            "bytes": self.bytes,
            "delay_ms": milliseconds(self.delay),
            "rate_mbps": self.rate.as_mbps(),
            "tolerance_ms": milliseconds(self.tolerance),
            "exact_up_to_ms": rounded(milliseconds(self.undisturbed() + self.tolerance), 4),
        })
    }

    /// Spreads the loss evenly, or gathers it in bursts that last for a number of packets or for a
    /// time.
    fn loss_model(&self, loss: f64) -> LossModel {
        let change = match self.burst_time {
            _ if loss <= 0.0 => return LossModel::default(),
            Some(bad) => {
                let good = bad.as_secs_f64() * (1.0 - loss) / loss;
                let good = Duration::try_from_secs_f64(good).unwrap_or(LONGEST_GOOD);
                StateChange::OverTime { good: good.min(LONGEST_GOOD), bad }
            }
            None if self.burst <= 1.0 => {
                return LossModel { independent: loss, ..LossModel::default() };
            }
            None => {
                let to_good = 1.0 / self.burst;
                StateChange::PerPacket { to_bad: to_good * loss / (1.0 - loss), to_good }
            }
        };
        let burst = Some(GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 });
        LossModel { burst, ..LossModel::default() }
    }
}

/// The diary of one run of one scheme: what was submitted, fetched and sent.
#[derive(Clone, Debug)]
pub(crate) struct MessageLog {
    submitted: Vec<Option<Duration>>,
    fetched: Vec<Option<Duration>>,
    /// Messages that were fetched.
    count: usize,
    /// Fetches of what had been fetched before.
    pub(crate) duplicates: u64,
    /// Fetches of a message after one with a higher number.
    pub(crate) out_of_order: u64,
    /// Datagrams with a symbol or a message in them that the sender put on the links.
    pub(crate) sent: u64,
    /// Everything that the sender put on the links, in bytes with all headers.
    pub(crate) sent_bytes: u64,
    /// Datagrams that the receiver put on the links.
    pub(crate) returned: u64,
    /// One more than the highest number fetched.
    next: u32,
    /// Messages that are not to be counted in shares: lost, and something stood still.
    in_doubt: u64,
}

impl MessageLog {
    /// Opens a diary for this many messages.
    pub(crate) fn new(messages: u32) -> Self {
        let none = vec![None; messages as usize];
        Self {
            submitted: none.clone(),
            fetched: none,
            count: 0,
            duplicates: 0,
            out_of_order: 0,
            sent: 0,
            sent_bytes: 0,
            returned: 0,
            next: 0,
            in_doubt: 0,
        }
    }

    /// Notes that message `number` was due to be submitted at `at`: a transport that pushes back
    /// pays for it.
    pub(crate) fn on_submitted(&mut self, number: u32, at: Duration) {
        if let Some(slot) = self.submitted.get_mut(number as usize) {
            slot.get_or_insert(at);
        }
    }

    /// Notes that message `number` was fetched at `at`, on the clock of the submissions.
    pub(crate) fn on_fetched(&mut self, number: u32, at: Duration) {
        match self.fetched.get_mut(number as usize) {
            Some(slot @ None) => *slot = Some(at),
            _ => return self.duplicates += 1,
        }
        self.count += 1;
        self.out_of_order += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
    }

    /// Tells whether every message was fetched.
    pub(crate) fn is_complete(&self) -> bool {
        self.count == self.fetched.len()
    }

    /// Returns how many messages were fetched.
    pub(crate) fn fetched_count(&self) -> usize {
        self.count
    }

    /// Returns what would have been seen at best had nothing stood still.
    pub(crate) fn at_best(&self, stalls: &Stalls) -> Self {
        let mut best = self.clone();
        for (submitted, fetched) in best.submitted.iter().zip(&mut best.fetched) {
            let counts = submitted.is_none_or(|at| at_best(at, fetched, stalls));
            best.in_doubt += u64::from(!counts);
        }
        best
    }

    /// Returns the delays of what was fetched, in milliseconds.
    fn delays(&self) -> impl Iterator<Item = f64> {
        let pairs = self.submitted.iter().zip(&self.fetched);
        pairs.filter_map(|(from, to)| Some(milliseconds((*to)?.saturating_sub((*from)?))))
    }
}

/// What came of one scheme at one loss, pooled over the seeds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LrtRow {
    pub(crate) scheme: Scheme,
    pub(crate) loss: f64,
    pub(crate) loss_back: Option<f64>,
    pub(crate) interval_ms: f64,
    pub(crate) redundancy: Option<f64>,
    pub(crate) burst: f64,
    pub(crate) burst_ms: Option<f64>,
    pub(crate) paths: u8,
    pub(crate) k: u16,
    /// Messages submitted.
    pub(crate) messages: u64,
    /// Messages fetched, each counted once.
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) out_of_order: u64,
    /// Share of the messages submitted that nothing held up, to the tolerance: a repair symbol
    /// right behind its source symbol still recovers it in time.
    pub(crate) exact_share: f64,
    /// Share of the messages submitted that took the one-way delay and the tolerance, no more:
    /// the transmission of the message must fit in, that of a second symbol must not.
    pub(crate) strict_share: f64,
    /// Share of the messages submitted that took up to 10 ms more than the one-way delay.
    pub(crate) within_10ms_share: f64,
    /// Share of the messages submitted that took up to 70 ms more than the one-way delay.
    pub(crate) within_70ms_share: f64,
    /// Share of the messages submitted that took up to 100 ms more than the one-way delay: 150 ms
    /// where that is 50 [LRT §IV-B].
    pub(crate) within_100ms_share: f64,
    /// Percentiles over what was delivered.
    pub(crate) p50_ms: Value,
    pub(crate) p99_ms: Value,
    pub(crate) p999_ms: Value,
    pub(crate) max_ms: Value,
    /// Datagrams with a symbol or a message in them, per message.
    pub(crate) sent_per_message: f64,
    /// Bytes on the links with all headers, per byte of a message.
    pub(crate) sent_bytes_per_byte: f64,
    /// Datagrams on the way back, per message.
    pub(crate) returned_per_message: f64,
    /// The same of each seed, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) by_seed: Vec<Value>,
    /// Every delay in milliseconds, ascending: what curves are drawn from.
    #[serde(skip)]
    pub(crate) delays_ms: Vec<f64>,
}

impl LrtRow {
    /// Pools the diaries of a scheme at one loss.
    pub(crate) fn new(
        parameters: &LrtParameters,
        scheme: Scheme,
        loss: f64,
        logs: &[MessageLog],
    ) -> Self {
        let mut delays: Vec<f64> = logs.iter().flat_map(MessageLog::delays).collect();
        delays.sort_by(f64::total_cmp);
        let messages: u64 = logs.iter().map(|log| log.submitted.len() as u64).sum();
        let sum = |count: fn(&MessageLog) -> u64| logs.iter().map(count).sum::<u64>();
        let per_message = |count: u64| rounded(count as f64 / messages.max(1) as f64, 4);
        let one_way = milliseconds(parameters.delay);
        let counted = (messages - sum(|log| log.in_doubt)).max(1);
        let within = |limit: f64| {
            let in_time = delays.partition_point(|delay| *delay <= limit + 1e-9);
            rounded(in_time as f64 / counted as f64, 4)
        };
        let at = |p| rounded_option(percentile(&delays, p), 3);
        Self {
            scheme,
            loss,
            loss_back: parameters.loss_back,
            interval_ms: milliseconds(parameters.interval),
            redundancy: parameters.redundancy,
            burst: parameters.burst,
            burst_ms: parameters.burst_time.map(milliseconds),
            paths: parameters.paths,
            k: parameters.k,
            messages,
            delivered: delays.len() as u64,
            duplicates: sum(|log| log.duplicates),
            out_of_order: sum(|log| log.out_of_order),
            exact_share: within(milliseconds(parameters.undisturbed() + parameters.tolerance)),
            strict_share: within(milliseconds(parameters.delay + parameters.tolerance)),
            within_10ms_share: within(one_way + 10.0),
            within_70ms_share: within(one_way + 70.0),
            within_100ms_share: within(one_way + 100.0),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
            sent_per_message: per_message(sum(|log| log.sent)),
            sent_bytes_per_byte: rounded(
                sum(|log| log.sent_bytes) as f64
                    / (messages.max(1) * parameters.bytes as u64) as f64,
                4,
            ),
            returned_per_message: per_message(sum(|log| log.returned)),
            by_seed: Vec::new(),
            delays_ms: delays,
        }
    }

    /// The same, with what came of each seed by itself, of which the first is given.
    pub(crate) fn of_seeds(
        parameters: &LrtParameters,
        scheme: Scheme,
        loss: f64,
        logs: &[MessageLog],
        first_seed: u64,
    ) -> Self {
        let one = |(seed, log): (u64, &MessageLog)| {
            let own = Self::new(parameters, scheme, loss, std::slice::from_ref(log));
            merged([json!({"seed": seed}), json!(own)])
        };
        let by_seed =
            if logs.len() > 1 { (first_seed..).zip(logs).map(one).collect() } else { Vec::new() };
        Self { by_seed, ..Self::new(parameters, scheme, loss, logs) }
    }
}

/// Returns a time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use emulator::{Stall, Stalled};

    use super::*;

    fn parameters() -> LrtParameters {
        LrtParameters {
            schemes: vec![Scheme::UDP],
            losses: vec![0.05],
            loss_back: None,
            interval: Duration::from_millis(5),
            bytes: 1_000,
            messages: 4,
            delay: Duration::from_millis(50),
            rate: Rate::from_mbps(100.0),
            redundancy: None,
            burst: 1.0,
            burst_time: None,
            paths: 1,
            k: 8,
            seeds: (1, 1),
            links: None,
            tolerance: Duration::from_micros(100),
        }
    }

    #[test]
    fn a_row_counts_what_was_lost_late_or_fetched_again() {
        let mut log = MessageLog::new(4);
        for number in 0..4 {
            log.on_submitted(number, Duration::from_millis(5 * u64::from(number)));
        }
        log.on_fetched(0, Duration::from_micros(50_170));
        log.on_fetched(2, Duration::from_micros(60_183));
        log.on_fetched(1, Duration::from_micros(175_000));
        log.on_fetched(1, Duration::from_micros(175_000));
        log.sent = 6;
        assert!(!log.is_complete());
        let row = LrtRow::new(&parameters(), Scheme::UDP, 0.05, &[log]);
        assert_eq!((row.messages, row.delivered), (4, 3));
        assert_eq!((row.duplicates, row.out_of_order), (1, 1));
        assert_eq!(
            (row.exact_share, row.within_10ms_share, row.within_70ms_share),
            (0.25, 0.5, 0.5)
        );
        assert_eq!(row.strict_share, 0.0);
        assert_eq!((row.p50_ms, row.max_ms), (json!(50.183), json!(170.0)));
        assert_eq!(row.sent_per_message, 1.5);
    }

    #[test]
    fn at_best_nothing_was_late_or_lost_because_something_stood_still() {
        let mut log = MessageLog::new(4);
        (0..4).for_each(|n| log.on_submitted(n, Duration::from_millis(100 * u64::from(n))));
        // Late by 10 ms in a stall of 11, lost in its reach, lost for the links' own reasons, in
        // time.
        log.on_fetched(0, Duration::from_micros(60_080));
        log.on_fetched(3, Duration::from_micros(350_080));
        let stall = Stall { who: Stalled::Programs, from_s: 0.049, to_s: 0.060 };
        let lost_in = Stall { who: Stalled::Emulator, from_s: 0.095, to_s: 0.101 };
        let best = log.at_best(&Stalls::new(vec![stall, lost_in], 0.0));
        let rows = [log, best].map(|log| LrtRow::new(&parameters(), Scheme::UDP, 0.05, &[log]));
        assert_eq!([rows[0].within_10ms_share, rows[1].within_10ms_share], [0.25, 0.6667]);
        assert_eq!([&rows[0].max_ms, &rows[1].max_ms], [&json!(60.08), &json!(50.08)]);
        assert_eq!((rows[0].messages, rows[0].delivered), (rows[1].messages, rows[1].delivered));
    }

    #[test]
    fn bursts_lose_the_same_share() {
        let bursty = LrtParameters { burst: 50.0, paths: 2, ..parameters() };
        let scenario = bursty.scenario(0.1);
        assert_eq!(scenario.links.len(), 2);
        let burst = scenario.links[0].up.loss.burst.expect("bursts");
        assert!((burst.mean_loss() - 0.1).abs() < 1e-12);
        let burst_time = Some(Duration::from_millis(50));
        let timed = LrtParameters { burst_time, ..parameters() }.scenario(0.1);
        let burst = timed.links[0].down.loss.burst.expect("bursts");
        assert!((burst.mean_loss() - 0.1).abs() < 1e-9);
        assert_eq!(parameters().scenario(0.1).links[0].down.loss.independent, 0.1);
        let back = LrtParameters { loss_back: Some(0.0), ..parameters() }.scenario(0.1);
        let (there, back) = (&back.links[0].down.loss, &back.links[0].up.loss);
        assert_eq!((there.independent, back.independent), (0.1, 0.0));
    }
}
