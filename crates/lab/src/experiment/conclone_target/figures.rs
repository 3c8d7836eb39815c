//! Makes figures of a run's seconds.
//!
//! ```text
//! counted       from the second WARM_UP_S on; `from_start` holds what the first minutes were like
//! interval      batch means: misses come together, and a count of them says less than it seems to
//! wire_to_all   bytes on the wire over those of a copy on every path, over the same stretch of
//!               time
//! ```

use serde_json::{Value, json};

use super::ledger::{Lateness, Way, noticed_dead_s};
use super::said::said;
use super::sim::Run;
use super::step::after_steps_s;
use super::{Class, Point};
use crate::report::{merged, rounded, rounded_option};
use crate::statistics::ratio_of_batches_interval;

/// Seconds at the beginning that figures leave out.
pub(super) const WARM_UP_S: usize = 60;
/// The most batches of a run, and the least seconds of one.
pub(super) const BATCHES_MAX: usize = 100;
pub(super) const BATCH_MIN_S: usize = 10;
/// Stretches from the first message on whose bytes are told, seconds.
const STRETCHES_S: [usize; 3] = [60, 120, 600];

/// What the bytes of a run are measured against: those of a copy on every path.
#[derive(Clone, Debug)]
pub(super) struct Yardstick {
    /// At the beginning of each second.
    bytes: Vec<Vec<u64>>,
}

impl Yardstick {
    /// Takes a run with a copy on every path.
    pub(super) fn of(run: &Run) -> Self {
        Self { bytes: by_second(run) }
    }
}

/// Computes the figures of a point.
pub(super) fn figures(point: &Point<'_>, run: &Run, all: Option<&Yardstick>) -> Value {
    let (seconds, bytes) = (run.seconds(), by_second(run));
    let warm_up = WARM_UP_S.min(seconds / 2);
    let counted = Stretch { from: warm_up, to: seconds };
    let late = |way: &'static str| {
        let way = &run.ways[usize::from(way == "down")];
        (way, way.late.iter().find(|late| late.deadline_s == point.deadline_s))
    };
    let ways: Vec<(&Way, &Lateness)> =
        ["up", "down"].into_iter().filter_map(|way| Some((late(way).0, late(way).1?))).collect();
    let both = Tally::of(&ways, counted);
    let wire = wire(&bytes, counted);
    let to_all = |stretch| {
        let all = all.map(|all| self::wire(&all.bytes, stretch).iter().sum::<u64>());
        let own = self::wire(&bytes, stretch).iter().sum::<u64>();
        ratio(own as f64, all.map(|all| all as f64))
    };
    let costs = &point.links.costs;
    let cost_all = all.map(|all| cost(&self::wire(&all.bytes, counted), costs));
    let copies = |stretch: Stretch| {
        let [from, to] = [stretch.from, stretch.to].map(|at| run.copies[at]);
        (to.1 > from.1).then(|| (to.0 - from.0) as f64 / (to.1 - from.1) as f64)
    };
    let [worse, better] = after_steps_s(point.links, run);
    merged([
        json!({
            "links": point.links.name,
            "class": point.class,
            "target": point.target,
            "deadline_ms": rounded(point.deadline_s * 1e3, 3),
            "scheme": point.scheme,
            "messages": both.sent,
        }),
        both.result(),
        said(point, run, &ways, counted, &both),
        json!({
            "plan_after_step_s": rounded_option(worse.into_iter().chain(better).reduce(f64::max), 2),
            "plan_after_worse_s": rounded_option(worse, 2),
        }),
        json!({
            "copies_per_message": rounded_option(copies(counted), 4),
            "wire_bytes": wire.iter().sum::<u64>(),
            "wire_to_all": rounded_option(to_all(counted), 4),
            "cost": rounded(cost(&wire, costs), 1),
            "cost_to_all": rounded_option(ratio(cost(&wire, costs), cost_all), 4),
        }),
        dead(point, run, &ways, seconds),
        json!({
            "up": ways.first().map(|way| Tally::of(&[*way], counted).result()),
            "down": ways.get(1).map(|way| Tally::of(&[*way], counted).result()),
            "from_start": from_start(&ways, seconds, &copies, &to_all),
        }),
    ])
}

/// Returns what the bytes of all links cost.
pub(super) fn cost(bytes: &[u64], costs: &[f64]) -> f64 {
    bytes.iter().zip(costs).map(|(bytes, cost)| *bytes as f64 * cost).sum()
}

/// Returns a figure over that of a copy on every path.
pub(super) fn ratio(own: f64, all: Option<f64>) -> Option<f64> {
    all.filter(|all| *all > 0.0).map(|all| own / all)
}

/// Returns what a run was like from its first message on.
fn from_start(
    ways: &[(&Way, &Lateness)],
    seconds: usize,
    copies: &dyn Fn(Stretch) -> Option<f64>,
    to_all: &dyn Fn(Stretch) -> Option<f64>,
) -> Value {
    let whole = Tally::of(ways, Stretch { from: 0, to: seconds });
    let until = |to: &usize| (*to <= seconds).then_some(Stretch { from: 0, to: *to });
    let of = |what: &dyn Fn(Stretch) -> Option<f64>, to: &usize| {
        rounded_option(until(to).and_then(what), 4)
    };
    let stretches = STRETCHES_S.iter().flat_map(|to| {
        [
            (format!("copies_per_message_{to}s"), of(copies, to)),
            (format!("wire_to_all_{to}s"), of(to_all, to)),
        ]
    });
    merged([
        json!({
            "missed": whole.missed,
            "miss_share": rounded(whole.miss_share(), 8),
            "stale_share": rounded(whole.stale_share(), 8),
        }),
        Value::Object(stretches.collect()),
    ])
}

/// Returns what becomes of the newest message while the first link is dead, of the modem while it
/// is not, and of commands beside set-points.
fn dead(point: &Point<'_>, run: &Run, ways: &[(&Way, &Lateness)], seconds: usize) -> Value {
    let links = point.links;
    let dead_s = noticed_dead_s(&links.dead_s, seconds as f64) * ways.len() as f64;
    let stale: f64 = ways.iter().map(|(_, late)| late.stale_dead_s).sum();
    let (sent, in_time) = ways.iter().fold((0, 0), |(sent, in_time), (way, _)| {
        (sent + way.commands.0, in_time + way.commands.1)
    });
    let is_dead =
        |second: f64| links.dead_s.iter().any(|(from, to)| *from < second + 1.0 && second < *to);
    let modem = links.thin_bps.map(|bps| {
        let alive = (0..seconds).filter(|second| !is_dead(*second as f64));
        let (bytes, count) = alive.fold((0, 0_u32), |(bytes, count), second| {
            let [before, after] =
                [second, second + 1].map(|at| run.bytes[at].last().copied().unwrap_or_default());
            (bytes + after - before, count + 1)
        });
        bytes as f64 * 8.0 / (bps as f64 * f64::from(count.max(1)))
    });
    json!({
        "stale_share_dead": rounded_option((dead_s > 0.0).then(|| stale / dead_s), 6),
        "modem_share": rounded_option(modem, 4),
        "commands_missed": (sent > 0).then(|| sent - in_time),
    })
}

/// Seconds of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What a deadline makes of one or both directions over a stretch of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    sent: u64,
    missed: u64,
    stale_s: f64,
    seconds: f64,
    /// Misses and messages, stale and whole seconds of each batch.
    batches: Vec<[(f64, f64); 2]>,
}

impl Tally {
    pub(super) fn of(ways: &[(&Way, &Lateness)], stretch: Stretch) -> Self {
        let seconds = stretch.to - stretch.from;
        let count = (seconds / BATCH_MIN_S).clamp(1, BATCHES_MAX);
        let mut tally = Self::default();
        for batch in 0..count {
            let range = stretch.from + seconds * batch / count
                ..stretch.from + seconds * (batch + 1) / count;
            let sum = |of: &dyn Fn(&Way, &Lateness, usize) -> f64| -> f64 {
                let each = |(way, late): &(&Way, &Lateness)| -> f64 {
                    range.clone().map(|second| of(way, late, second)).sum()
                };
                ways.iter().map(each).sum()
            };
            let sent = sum(&|way, _, second| f64::from(way.sent[second]));
            let in_time = sum(&|_, late, second| f64::from(late.in_time[second]));
            let stale_s = sum(&|_, late, second| late.stale_s[second]);
            let whole_s = (range.len() * ways.len()) as f64;
            tally.sent += sent as u64;
            tally.missed += (sent - in_time) as u64;
            tally.stale_s += stale_s;
            tally.seconds += whole_s;
            tally.batches.push([(sent - in_time, sent), (stale_s, whole_s)]);
        }
        tally
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns below which share of a class's misses 99 % of such runs do not come.
    pub(super) fn low(&self, class: Class) -> Option<f64> {
        let which = usize::from(class == Class::Live);
        let batches: Vec<(f64, f64)> = self.batches.iter().map(|batch| batch[which]).collect();
        ratio_of_batches_interval(&batches).map(|(low, _)| low)
    }

    pub(super) fn miss_share(&self) -> f64 {
        self.missed as f64 / self.sent.max(1) as f64
    }

    pub(super) fn stale_share(&self) -> f64 {
        self.stale_s / self.seconds.max(1.0)
    }

    pub(super) fn result(&self) -> Value {
        let batches = |which: usize| -> Vec<(f64, f64)> {
            self.batches.iter().map(|batch| batch[which]).collect()
        };
        let interval = |which| ratio_of_batches_interval(&batches(which));
        let (miss, stale) = (interval(0), interval(1));
        let hit = self.batches.iter().filter(|batch| batch[0].0 > 0.0).count();
        json!({
            "missed": self.missed,
            "batches_hit": hit,
            "miss_share": rounded(self.miss_share(), 8),
            "miss_low_99": rounded_option(miss.map(|(low, _)| low), 8),
            "miss_high_99": rounded_option(miss.map(|(_, high)| high), 8),
            "stale_share": rounded(self.stale_share(), 8),
            "stale_low_99": rounded_option(stale.map(|(low, _)| low), 8),
            "stale_high_99": rounded_option(stale.map(|(_, high)| high), 8),
        })
    }
}

/// Returns the bytes that entered each link over a stretch of time.
fn wire(bytes: &[Vec<u64>], stretch: Stretch) -> Vec<u64> {
    bytes[stretch.to].iter().zip(&bytes[stretch.from]).map(|(to, from)| to - from).collect()
}

fn by_second(run: &Run) -> Vec<Vec<u64>> {
    (0..=run.seconds()).map(|second| run.bytes_at(second).to_vec()).collect()
}
