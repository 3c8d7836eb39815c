//! One direction of a link as it was in flight: outages, loss, delay and rate over time.

use record::schema::Path;
use units::Rate;

use super::aligned::Link;
use super::losses::{self, Spans, Steps, put};
use super::view::{Fate, Role, Seen};

/// An outage of this length is written as one; a shorter one is loss.
const OUTAGE_S: f64 = 0.25;
/// What a link carried at its best is its rate with this much to spare, where nothing filled it.
const SPARE: f64 = 1.25;
/// What filled a link lately: for so long its rate is that, unless more passes.
const FILLED_S: f64 = 1.0;
/// Estimates of a rate that are so near are put together: one alone rests on the packets of a
/// moment.
const NEAR_S: f64 = 0.25;
/// A link that carries at least this share of what it carried when something filled it, and is not
/// filled, has become faster.
const AS_MUCH: f64 = 0.7;
/// The least delay around a moment is looked for within so much time before it and after it.
const FLOOR_S: f64 = 5.0;
/// What a copy took longer than the least, while something filled the path, is its own queue up to
/// this: a frame of video, and the standing queue that congestion control keeps. A link that holds
/// packets back takes longer.
const QUEUE_MS: f64 = 60.0;
/// Delays within so much of each other are the same: 0.3 ms, and 2 %.
const SAME_MS: f64 = 0.3;
const SAME_SHARE: f64 = 0.02;
/// Rates within so much of each other are the same.
const SAME_RATE: f64 = 0.1;
/// The delay of a link of which no record says one.
const UNKNOWN_MS: f64 = 30.0;
/// The longest delay that is believed.
const LONGEST_MS: f64 = 60_000.0;

/// A direction, its times in seconds from the beginning of the scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    /// Whether the sender's record was there.
    pub(super) is_measured: bool,
    /// When nothing arrived of what left.
    pub(super) outages: Spans,
    /// When what left arrived afterwards.
    pub(super) holds: Spans,
    pub(super) losses: Steps,
    pub(super) delays_ms: Steps,
    pub(super) rates_mbps: Steps,
    /// Copies of control that left, and that were lost.
    pub(super) copies: (usize, usize),
    /// Mean rate of all that was sent.
    pub(super) carried_mbps: f64,
    /// Seconds in which something filled it.
    pub(super) filled_s: f64,
    /// What was assumed.
    pub(super) notes: Vec<String>,
}

/// Returns both directions of one of the links: from the drone, from the station.
pub(super) fn ways(links: &[Link], number: usize, span: (f64, f64), assumed: Rate) -> [Way; 2] {
    let link = &links[number];
    let way = |sender: Role, other: Role| {
        let beside = links.iter().enumerate().filter(|(place, _)| *place != number);
        let beside: Vec<&Seen> =
            beside.filter_map(|(_, link)| link.seen[sender as usize].as_ref()).collect();
        let mut way = match (&link.seen[sender as usize], &link.seen[other as usize]) {
            (Some(seen), _) => measured(seen, &beside, span, assumed),
            (None, Some(seen)) => assumed_from(seen, span, assumed),
            (None, None) => Way::default(),
        };
        let named = |note| format!("{} from the {}: {note}", link.name, sender.name());
        way.notes = way.notes.into_iter().map(named).collect();
        way
    };
    [way(Role::Drone, Role::Station), way(Role::Station, Role::Drone)]
}

/// What the sender's record says.
fn measured(seen: &Seen, beside: &[&Seen], span: (f64, f64), assumed: Rate) -> Way {
    let (dead, shares) = losses::outward(seen, beside, span);
    let (outages, losses) = losses::divided(&dead, &shares, span.0, OUTAGE_S);
    let holds = losses::held(seen, span);
    let in_span: Vec<_> =
        seen.copies.iter().filter(|copy| (span.0..span.1).contains(&copy.sent)).collect();
    let lost = in_span.iter().filter(|copy| copy.fate == Fate::Lost).count();
    let mut way = Way {
        is_measured: true,
        outages,
        holds,
        losses,
        copies: (in_span.len(), lost),
        carried_mbps: mean(seen, span, |sample| sample.out_mbps),
        ..Way::default()
    };
    let mut delays = delays(seen, span);
    if delays.is_empty() {
        delays = half_round_trips(seen, span);
        way.notes.push("no copy of control tells its delay: half the round trip".to_owned());
    }
    way.delays_ms = steps(&delays, span.0, UNKNOWN_MS);
    rates(&mut way, seen, span, assumed);
    way
}

/// What the receiver's record lets assume.
fn assumed_from(seen: &Seen, span: (f64, f64), assumed: Rate) -> Way {
    let (dead, shares) = losses::inward(seen, span);
    let (outages, losses) = losses::divided(&dead, &shares, span.0, OUTAGE_S);
    let holds = losses::held(seen, span);
    let out = delays(seen, span);
    let round_trip = seen.samples.iter().filter_map(|(_, sample)| sample.min_rtt_ms);
    let round_trip = round_trip.min_by(f64::total_cmp);
    let least = out.iter().map(|(_, ms)| *ms).min_by(f64::total_cmp);
    let delays = match (least, round_trip) {
        (Some(least), Some(round_trip)) => {
            let back = (round_trip - least).max(0.0);
            out.iter().map(|(at, ms)| (*at, ms - least + back)).collect()
        }
        (Some(_), None) => out,
        (None, _) => half_round_trips(seen, span),
    };
    let carried = |sample: &Path| sample.in_mbps;
    let most = most(seen, span, carried) * SPARE;
    let rate = assumed.as_mbps().max(most);
    let mut way = Way {
        outages,
        holds,
        losses,
        delays_ms: steps(&delays, span.0, UNKNOWN_MS),
        rates_mbps: vec![(0.0, rate)],
        carried_mbps: mean(seen, span, carried),
        ..Way::default()
    };
    way.notes.push(format!("rate {rate:.3} Mbit/s is assumed"));
    way
}

/// Returns when copies left, and how long they took without what our own traffic had queued up
/// before them, ms.
fn delays(seen: &Seen, (begin, end): (f64, f64)) -> Vec<(f64, f64)> {
    let arrived = seen.copies.iter().filter_map(|copy| match copy.fate {
        Fate::Arrived(at) if copy.sent >= begin - FLOOR_S && copy.sent < end + FLOOR_S => {
            Some((copy.sent, ((at - copy.sent) * 1e3).min(LONGEST_MS)))
        }
        _ => None,
    });
    let arrived: Vec<(f64, f64)> = arrived.collect();
    let floors = floors(&arrived);
    let in_span = arrived.iter().zip(floors).filter(|((sent, _), _)| (begin..end).contains(sent));
    let without_queue = |(&(sent, ms), floor): (&(f64, f64), f64)| {
        // The rate makes this queue again.
        let is_queue = queued_ms(seen, sent).is_some_and(|queued| ms - floor <= queued);
        (sent, if is_queue { floor } else { ms })
    };
    in_span.map(without_queue).collect()
}

/// Returns how long what was under way around a moment may have waited for the narrowest hop, ms;
/// none where nothing filled that, so that its rate is not known.
fn queued_ms(seen: &Seen, at: f64) -> Option<f64> {
    let first = seen.samples.partition_point(|(sampled, _)| *sampled < at - FILLED_S);
    let last = seen.samples.partition_point(|(sampled, _)| *sampled <= at + FILLED_S);
    let queued = (first..last).filter_map(|place| {
        let sample = &seen.samples[place].1;
        let under_way = sample.in_flight_bytes as f64 * 8.0 / (carried_at(seen, place)? * 1e3);
        Some(under_way - sample.min_rtt_ms.unwrap_or(0.0))
    });
    queued.reduce(f64::max).map(|queued| queued.max(QUEUE_MS))
}

/// Returns the least delay around each copy, [`FLOOR_S`] to both sides.
fn floors(arrived: &[(f64, f64)]) -> Vec<f64> {
    // A queue of candidates, each less than those behind it: the front one is the least of the
    // window.
    let mut least: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    let mut ahead = 0;
    let mut floors = Vec::with_capacity(arrived.len());
    for &(sent, _) in arrived {
        while ahead < arrived.len() && arrived[ahead].0 <= sent + FLOOR_S {
            while least.back().is_some_and(|&place| arrived[place].1 >= arrived[ahead].1) {
                least.pop_back();
            }
            least.push_back(ahead);
            ahead += 1;
        }
        while least.front().is_some_and(|&place| arrived[place].0 < sent - FLOOR_S) {
            least.pop_front();
        }
        floors.push(least.front().map_or(0.0, |&place| arrived[place].1));
    }
    floors
}

fn half_round_trips(seen: &Seen, (begin, end): (f64, f64)) -> Vec<(f64, f64)> {
    let samples = seen.samples.iter().filter(|(at, _)| (begin..end).contains(at));
    let half =
        |(at, sample): &(f64, Path)| Some((*at, (sample.srtt_ms? / 2.0).clamp(0.0, LONGEST_MS)));
    samples.filter_map(half).collect()
}

/// Makes steps of delays, each of which holds half the way to its neighbours.
fn steps(delays: &[(f64, f64)], begin: f64, unknown: f64) -> Steps {
    let mut steps = Steps::new();
    let mut last: Option<f64> = None;
    for &(at, ms) in delays {
        let ms = (ms * 1e3).round() / 1e3;
        let from = last.map_or(begin, |last| f64::midpoint(last, at));
        last = Some(at);
        let held = steps.last().map(|(_, held)| *held);
        if held.is_none_or(|held| (ms - held).abs() > SAME_MS.max(held * SAME_SHARE)) {
            put(&mut steps, from - begin, ms);
        }
    }
    if steps.is_empty() { vec![(0.0, unknown)] } else { steps }
}

/// Fills in the rate: what the narrowest hop carried where it was filled, else what it is known or
/// assumed to carry.
fn rates(way: &mut Way, seen: &Seen, span: (f64, f64), assumed: Rate) {
    let in_span = |place: &usize| (span.0..span.1).contains(&seen.samples[*place].0);
    let places: Vec<usize> = (0..seen.samples.len()).filter(in_span).collect();
    let mut known: Vec<(f64, f64)> = places
        .iter()
        .filter_map(|&place| Some((passed(&seen.samples[place]), carried_at(seen, place)?)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let otherwise = unfilled(seen, &places, &known, span, assumed);
    if known.is_empty() {
        way.notes.push(format!("rate {otherwise:.3} Mbit/s is assumed: nothing filled it"));
    }
    way.filled_s = filled(&known);
    let mut lately: Option<(f64, f64)> = None;
    let mut at = span.0;
    for place in places {
        // Round trips become shorter faster than time passes.
        at = passed(&seen.samples[place]).max(at);
        let first = known.partition_point(|(known, _)| *known < at - NEAR_S);
        let last = known.partition_point(|(known, _)| *known <= at + NEAR_S);
        let is_new = carried_at(seen, place).is_some();
        match median(&known[first..last]).filter(|_| is_new) {
            Some(mbps) => lately = Some((at, mbps)),
            // What passes now, a queue does not hold up.
            None => {
                let passes = seen.samples[place].1.out_mbps;
                lately =
                    lately.filter(|(then, mbps)| at - then <= FILLED_S && passes <= mbps * SPARE);
            }
        }
        let mbps = lately.map_or(otherwise, |(_, mbps)| mbps);
        let before = way.rates_mbps.last().map(|(_, mbps)| *mbps);
        if before.is_none_or(|before| (mbps - before).abs() > before * SAME_RATE) {
            put(&mut way.rates_mbps, at - span.0, (mbps * 1e3).round() / 1e3);
        }
    }
    if way.rates_mbps.is_empty() {
        way.rates_mbps.push((0.0, otherwise));
    }
}

/// Returns what a direction carries where nothing fills it. Where only a fall filled it, and as
/// much passes otherwise without filling it, it carries more than what is known of the fall.
fn unfilled(
    seen: &Seen,
    places: &[usize],
    known: &[(f64, f64)],
    span: (f64, f64),
    assumed: Rate,
) -> f64 {
    let most = most(seen, span, |sample| sample.out_mbps) * SPARE;
    let Some(median) = median(known) else { return most.max(assumed.as_mbps()) };
    let is_known = |place: &&usize| carried_at(seen, **place).is_some();
    let (at_known, elsewhere): (Vec<usize>, Vec<usize>) = places.iter().partition(is_known);
    let carried = |places: &[usize]| {
        let works = places.iter().map(|place| &seen.samples[*place].1);
        let works = works.filter(|sample| sample.state == "active");
        let rates: Vec<f64> = works.map(|sample| sample.out_mbps.clamp(0.0, 1e5)).collect();
        rates.iter().sum::<f64>() / rates.len().max(1) as f64
    };
    if elsewhere.is_empty() || carried(&elsewhere) < carried(&at_known) * AS_MUCH {
        return median.max(most);
    }
    let best = known.iter().map(|(_, mbps)| *mbps).fold(0.0, f64::max);
    best.max(most).max(assumed.as_mbps())
}

/// Returns about when what a sample tells of passed the narrowest hop.
fn passed((at, sample): &(f64, Path)) -> f64 {
    at - (sample.srtt_ms.unwrap_or(0.0) / 2e3).clamp(0.0, NEAR_S)
}

/// Returns what the narrowest hop carried, where a sample tells anything new of that: an estimate
/// that is the same as in the sample before is an old one.
fn carried_at(seen: &Seen, place: usize) -> Option<f64> {
    let mbps = capacity(&seen.samples[place].1)?;
    let before = place.checked_sub(1).and_then(|before| capacity(&seen.samples[before].1));
    (before != Some(mbps)).then_some(mbps)
}

fn median(values: &[(f64, f64)]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Returns for how long the rate is known.
fn filled(known: &[(f64, f64)]) -> f64 {
    known.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|apart| *apart <= FILLED_S).sum()
}

/// Returns what the narrowest hop carries, where it makes sense.
fn capacity(sample: &Path) -> Option<f64> {
    sample.capacity_mbps.filter(|mbps| (0.001..=1e5).contains(mbps))
}

fn most(seen: &Seen, (begin, end): (f64, f64), of: impl Fn(&Path) -> f64) -> f64 {
    let samples = seen.samples.iter().filter(|(at, _)| (begin..end).contains(at));
    samples.map(|(_, sample)| of(sample).clamp(0.0, 1e5)).fold(0.0, f64::max)
}

fn mean(seen: &Seen, (begin, end): (f64, f64), of: impl Fn(&Path) -> f64) -> f64 {
    // A rate is that since the sample before.
    let pairs = seen.samples.windows(2).filter(|pair| pair[0].0 >= begin && pair[1].0 <= end);
    let carried: f64 =
        pairs.map(|pair| of(&pair[1].1).clamp(0.0, 1e5) * (pair[1].0 - pair[0].0)).sum();
    carried / (end - begin)
}
