//! Windows of recorded links: which combinations there are, which stretches of time are chosen, and
//! how they become scenarios.
//!
//! A link *lives* in a second in which both directions carry at least a stated rate, lose less than
//! half, and take at most [`LATE`] for a packet at some instant of it. The rules:
//!
//! 1. Candidates. Simultaneous links: every [`STEP_S`] of each take in which no link has a gap.
//!    Others: every alignment of the recordings, in steps of [`ALIGNMENT_S`].
//! 2. `worst:N`: by seconds in which no link lives, then by those in which one does, most first;
//!    of equals the earliest. `random:N`: drawn with a seed.
//! 3. No two windows of a combination have an instant of all its links in common.
//!
//! A recording that is shorter than the window begins again, where the links are not simultaneous;
//! where they are, the window is shorter. Either is said in the window's notes.

use netem::{Delay, LinkModel, LinkRate, Scenario};
use std::sync::Arc;
use units::{Duration, Instant, Rate, Rng};

use super::{LinkSet, RecordedLink, Take};

/// A packet that takes longer is no use to control; as in the figures.
const LATE: Duration = Duration::from_millis(100);
/// How far apart candidate windows of simultaneous links begin.
const STEP_S: usize = 5;
/// The steps in which recordings that are not simultaneous are aligned.
const ALIGNMENT_S: usize = 20;
/// The most alignments that are tried; if there are more, the steps are doubled.
const CANDIDATES_MAX: usize = 20_000;
/// The shortest window of simultaneous links that are not recorded for as long as asked for.
const SHORTEST_S: usize = 20;
/// What is cut behind the end of a window, for what is delivered after the last packet.
const TAIL_S: usize = 10;
/// How often a window is drawn that overlaps with another before it is given up.
const DRAWS_MAX: usize = 1_000;

/// Says what a window is to be like.
#[derive(Clone, Debug)]
pub(crate) struct WindowOptions {
    /// How long it is.
    pub(crate) seconds: usize,
    /// A link that carries less than this in either direction does not live.
    pub(crate) alive: Rate,
    /// The rate from drone to station as a share of that from station to drone, from 0 to 1; none
    /// leaves what was recorded.
    pub(crate) to_station: Option<f64>,
    /// How many bytes wait for the transmitter of each direction.
    pub(crate) queue_bytes: u64,
}

impl Default for WindowOptions {
    /// Two minutes, 1 Mbit/s, as recorded, 250 kB (half a second at 4 Mbit/s).
    fn default() -> Self {
        let alive = Rate::from_bps(1_000_000);
        Self { seconds: 120, alive, to_station: None, queue_bytes: 250_000 }
    }
}

/// Says which windows of a combination are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Those with the most seconds in which no link lives.
    Worst(usize),
    /// Any.
    Random {
        /// How many.
        count: usize,
        /// What they are drawn with.
        seed: u64,
    },
}

/// A combination of two to four links of a set.
#[derive(Clone, Debug)]
pub(crate) struct Combination {
    /// The set and its links, as in `lte-drives:att+verizon`.
    pub(crate) name: String,
    simultaneous: bool,
    takes: Vec<Take>,
}

/// A window of a combination: a scenario, and what is to be said about it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The combination and the window, as in `lte-drives:att+verizon/worst-1`.
    pub(crate) name: String,
    /// The links `drone` to `station` in memory: the scenario's `up` is from the drone.
    pub(crate) scenario: Scenario,
    /// How many links live in each second.
    pub(crate) alive: Vec<usize>,
    /// When the window begins in each recording, in seconds.
    pub(crate) starts_s: Vec<usize>,
    /// What was assumed, repeated or shortened.
    pub(crate) notes: Vec<String>,
}

/// Returns every combination of `sizes` links of a set.
pub(crate) fn combinations(
    set: &LinkSet,
    sizes: core::ops::RangeInclusive<usize>,
) -> Vec<Combination> {
    let names: Vec<&str> = set
        .takes
        .first()
        .map_or_else(Vec::new, |take| take.links.iter().map(|link| link.name.as_str()).collect());
    // A set has few links: every subset is looked at.
    let subsets = (1_usize..1 << names.len().min(16)).filter(|bits| {
        let has = |name: &str| {
            names.iter().position(|one| *one == name).is_some_and(|n| bits >> n & 1 == 1)
        };
        sizes.contains(&(bits.count_ones() as usize)) && set.with.as_deref().is_none_or(has)
    });
    let mut subsets: Vec<usize> = subsets.collect();
    subsets.sort_by_key(|bits| (bits.count_ones(), bits.reverse_bits().wrapping_neg()));
    let combination = |bits: usize| {
        let of = |take: &Take| {
            let links = take.links.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
            Take { name: take.name.clone(), links: links.map(|(_, link)| link.clone()).collect() }
        };
        let takes: Vec<Take> = set.takes.iter().map(of).collect();
        let links: Vec<&str> = takes[0].links.iter().map(|link| link.name.as_str()).collect();
        let name = format!("{}:{}", set.name, links.join("+"));
        Combination { name, simultaneous: set.simultaneous, takes }
    };
    subsets.into_iter().map(combination).collect()
}

/// Where a window may be.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    take: usize,
    seconds: usize,
    /// When it begins in each link's recording, in seconds.
    starts: Vec<usize>,
    none_lives: usize,
    one_lives: usize,
}

impl Combination {
    /// Returns the names of the links.
    pub(crate) fn links(&self) -> Vec<&str> {
        let links = self.takes.first().map_or(&[][..], |take| &take.links);
        links.iter().map(|link| link.name.as_str()).collect()
    }

    /// Chooses windows by the rules at the head of this file; fewer where there are not as many.
    pub(crate) fn windows(&self, choice: Choice, options: &WindowOptions) -> Vec<Window> {
        if self.takes.is_empty() {
            return Vec::new();
        }
        let lives: Vec<Vec<Vec<bool>>> =
            self.takes.iter().map(|take| take.lives(options)).collect();
        let mut candidates = Vec::new();
        for (number, take) in self.takes.iter().enumerate() {
            let starts = if self.simultaneous {
                take.simultaneous(options.seconds)
            } else {
                take.alignments(options.seconds)
            };
            candidates.extend(starts.into_iter().map(|(starts, seconds)| {
                let count = alive(&lives[number], &starts, seconds);
                let seconds_with = |n| count.iter().filter(|&&alive| alive == n).count();
                let (none_lives, one_lives) = (seconds_with(0), seconds_with(1));
                Candidate { take: number, seconds, starts, none_lives, one_lives }
            }));
        }
        let (word, chosen) = match choice {
            Choice::Worst(count) => {
                // Whole ones first; stable: of equals the earliest.
                candidates.sort_by_key(|one| {
                    let is_whole = one.seconds == options.seconds;
                    core::cmp::Reverse((is_whole, one.none_lives, one.one_lives))
                });
                ("worst", self.apart(candidates.into_iter(), count))
            }
            Choice::Random { count, seed } => {
                let mut rng = Rng::stream(seed, &format!("windows of {}", self.name));
                let (whole, short): (Vec<_>, Vec<_>) =
                    candidates.into_iter().partition(|one| one.seconds == options.seconds);
                let mut draws = Vec::new();
                // Whole ones first, as above.
                for pool in [whole, short].iter().filter(|pool| !pool.is_empty()) {
                    let draw = |_| pool[rng.below(pool.len() as u64) as usize].clone();
                    draws.extend((0..DRAWS_MAX.min(pool.len() * 20)).map(draw));
                }
                ("random", self.apart(draws.into_iter(), count))
            }
        };
        let window = |(n, one): (usize, &Candidate)| {
            let count = alive(&lives[one.take], &one.starts, one.seconds);
            self.window(format!("{}/{word}-{}", self.name, n + 1), one, count, options)
        };
        chosen.iter().enumerate().map(window).collect()
    }

    /// Takes the first `count` that have no instant in common.
    fn apart(&self, candidates: impl Iterator<Item = Candidate>, count: usize) -> Vec<Candidate> {
        let mut chosen: Vec<Candidate> = Vec::new();
        for one in candidates {
            if chosen.len() == count {
                break;
            }
            if chosen.iter().all(|other| !self.takes[one.take].overlap(&one, other)) {
                chosen.push(one);
            }
        }
        chosen
    }

    fn window(
        &self,
        name: String,
        one: &Candidate,
        alive: Vec<usize>,
        options: &WindowOptions,
    ) -> Window {
        let take = &self.takes[one.take];
        let mut window = Window::cut(&name, take, &one.starts, one.seconds, options);
        window.alive = alive;
        if one.seconds < options.seconds {
            let what = format!("{} s, for no more was recorded at the same time", one.seconds);
            window.notes.insert(0, what);
        }
        window
    }
}

impl Window {
    /// Makes one window of all that links say, from their beginning, gaps and all.
    pub(crate) fn whole(name: &str, take: &Take, options: &WindowOptions) -> Self {
        Self::cut(name, take, &vec![0; take.links.len()], options.seconds, options)
    }

    fn cut(
        name: &str,
        take: &Take,
        starts: &[usize],
        seconds: usize,
        options: &WindowOptions,
    ) -> Self {
        let mut scenario = Scenario::new(name, seconds as f64);
        let mut notes = Vec::new();
        for (link, &start) in take.links.iter().zip(starts) {
            let tail = if link.is_recorded(start, seconds + TAIL_S) { TAIL_S } else { 0 };
            let cut = |model: &LinkModel| {
                let length = Duration::from_secs((seconds + tail) as u64);
                let mut model = cut(model, Instant::ZERO + secs(start), length);
                model.queue = netem::QueueLimit { packets: None, bytes: Some(options.queue_bytes) };
                model
            };
            let mut to_station = cut(&link.to_station);
            if let Some(share) = options.to_station {
                to_station.rate = scaled(&cut(&link.to_drone).rate, share);
                notes.push(format!(
                    "{}: the rate to the station is {share} of that to the drone",
                    link.name
                ));
            }
            scenario = scenario.link(&link.name, "drone", "station", &to_station);
            if let Some(pair) = scenario.links.last_mut() {
                pair.down = cut(&link.to_drone);
            }
            if start + seconds > link.seconds() {
                notes.push(format!(
                    "{}: the recording of {} s begins again within the window",
                    link.name,
                    link.length.as_secs_f64()
                ));
            }
            notes.extend(link.notes.iter().map(|note| format!("{}: {note}", link.name)));
        }
        let (name, starts_s) = (name.to_owned(), starts.to_vec());
        Self { name, scenario, alive: Vec::new(), starts_s, notes }
    }
}

impl Take {
    /// Says for each link and second of its recording whether it lives.
    fn lives(&self, options: &WindowOptions) -> Vec<Vec<bool>> {
        let of = |link: &RecordedLink| {
            (0..link.seconds())
                .map(|second| {
                    let at = Instant::ZERO + secs(second);
                    let to_station = match options.to_station {
                        None => mean_rate(&link.to_station, at),
                        Some(share) => mean_rate(&link.to_drone, at) * share,
                    };
                    let rate = to_station.min(mean_rate(&link.to_drone, at));
                    let is_timely = |model| is_timely(model, at);
                    rate >= options.alive.as_bps() as f64
                        && is_timely(&link.to_drone)
                        && is_timely(&link.to_station)
                })
                .collect()
        };
        self.links.iter().map(of).collect()
    }

    /// Returns where windows of simultaneous links may begin, and how long they are.
    fn simultaneous(&self, seconds: usize) -> Vec<(Vec<usize>, usize)> {
        let length = self.links.iter().map(RecordedLink::seconds).min().unwrap_or(0);
        let recorded = |start: usize, seconds: usize| {
            self.links.iter().all(|link| link.is_recorded(start, seconds))
        };
        let shortest = SHORTEST_S.min(seconds);
        let longest = |start: usize| {
            let fits = |&seconds: &usize| recorded(start, seconds);
            (shortest..=seconds.min(length - start)).rev().find(fits)
        };
        let starts = (0..length).step_by(STEP_S);
        let found = starts.filter_map(|start| Some((start, longest(start)?)));
        found.map(|(start, seconds)| (vec![start; self.links.len()], seconds)).collect()
    }

    /// Returns all alignments of recordings that are not simultaneous.
    fn alignments(&self, seconds: usize) -> Vec<(Vec<usize>, usize)> {
        let mut step = ALIGNMENT_S;
        loop {
            let starts = self.links.iter().map(|link| link.starts(step, seconds));
            let starts: Vec<Vec<usize>> = starts.collect();
            if starts.iter().map(Vec::len).product::<usize>() <= CANDIDATES_MAX {
                let mut all = vec![Vec::new()];
                for of_link in &starts {
                    let longer = |one: &Vec<usize>, start| [&one[..], &[start]].concat();
                    all = all
                        .iter()
                        .flat_map(|one| of_link.iter().map(move |&start| longer(one, start)))
                        .collect();
                }
                return all.into_iter().map(|starts| (starts, seconds)).collect();
            }
            step *= 2;
        }
    }

    /// Returns true when two windows have an instant of all links in common.
    fn overlap(&self, one: &Candidate, other: &Candidate) -> bool {
        let same = |shift: isize| {
            let starts = one.starts.iter().zip(&other.starts);
            starts.zip(&self.links).all(|((&a, &b), link)| {
                let length = link.seconds().max(1) as isize;
                (a as isize + shift - b as isize).rem_euclid(length) == 0
            })
        };
        let apart = other.seconds as isize;
        one.take == other.take && (1 - apart..one.seconds as isize).any(same)
    }
}

impl RecordedLink {
    /// Keeps this many seconds, from `start_s` on.
    pub(super) fn cut(&mut self, start_s: f64, seconds: f64) {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let start = Instant::ZERO + time(start_s);
        self.length = time(seconds);
        self.to_drone = cut(&self.to_drone, start, self.length);
        self.to_station = cut(&self.to_station, start, self.length);
        for (from, to) in &mut self.gaps {
            (*from, *to) = (*from - start_s, *to - start_s);
        }
        self.gaps.retain(|&(from, to)| to > 0.0 && from < seconds);
    }

    /// Returns the length in whole seconds.
    fn seconds(&self) -> usize {
        self.length.as_secs() as usize
    }

    /// Returns true when the recording covers the seconds without a gap and without repeating.
    fn is_recorded(&self, start: usize, seconds: usize) -> bool {
        let (from, to) = (start as f64, (start + seconds) as f64);
        to <= self.length.as_secs_f64()
            && self.gaps.iter().all(|&(begins, ends)| to <= begins || from >= ends)
    }

    /// Returns where windows may begin in a recording that may be repeated.
    fn starts(&self, step: usize, seconds: usize) -> Vec<usize> {
        let length = self.seconds();
        // A window that is longer than the recording contains all of it, and so each gap.
        let has_gap = |start: usize| {
            (start..start + seconds)
                .any(|second| !self.gaps.is_empty() && !self.is_recorded(second % length.max(1), 1))
        };
        (0..length.max(1)).step_by(step).filter(|&start| !has_gap(start)).collect()
    }
}

/// Counts the links that live in each second of a window.
fn alive(lives: &[Vec<bool>], starts: &[usize], seconds: usize) -> Vec<usize> {
    let lives_at = |second: usize| {
        let of_link = |(of_link, start): (&Vec<bool>, &usize)| {
            !of_link.is_empty() && of_link[(start + second) % of_link.len()]
        };
        lives.iter().zip(starts).filter(|&one| of_link(one)).count()
    };
    (0..seconds).map(lives_at).collect()
}

/// Returns the mean rate in bit/s of the second from `at`.
fn mean_rate(model: &LinkModel, at: Instant) -> f64 {
    let second = Duration::from_secs(1);
    match &model.rate {
        LinkRate::Unlimited => f64::MAX,
        LinkRate::Constant(rate) => rate.as_bps() as f64,
        LinkRate::Slots(_) => model.mean_rate().map_or(f64::MAX, |rate| rate.as_bps() as f64),
        LinkRate::Csv { series, .. } => {
            let window = series.window(at, second);
            let ends = window.steps().skip(1).map(|(start, _)| start).chain([second]);
            let parts = window.steps().zip(ends);
            parts
                .map(|((start, rate), end)| rate.as_bps() as f64 * (end - start).as_secs_f64())
                .sum()
        }
        LinkRate::Deliveries { trace, .. } => {
            // The window marks its end with an opportunity, which may be the trace's own.
            (trace.window(at, second).opportunities() - 1) as f64
                * netem::OPPORTUNITY_BYTES as f64
                * 8.0
        }
    }
}

/// Returns true when a packet may arrive in time at some instant of the second from `at`, and half
/// of them do arrive.
fn is_timely(model: &LinkModel, at: Instant) -> bool {
    let second = Duration::from_secs(1);
    let least = match &model.delay {
        Delay::Fixed(delay) => *delay,
        Delay::File { series, .. } | Delay::Csv { series, .. } => {
            series.window(at, second).values().iter().min().copied().unwrap_or_default()
        }
    };
    let lost = model.loss.csv.as_ref().map_or(0.0, |csv| {
        let window = csv.series.window(at, second);
        let ends = window.steps().skip(1).map(|(start, _)| start).chain([second]);
        window.steps().zip(ends).map(|((start, p), end)| p * (end - start).as_secs_f64()).sum()
    });
    least <= LATE && lost < 0.5
}

/// Cuts a stretch out of everything that changes with time.
fn cut(model: &LinkModel, start: Instant, length: Duration) -> LinkModel {
    let mut model = model.clone();
    model.rate = match model.rate {
        LinkRate::Deliveries { path, trace } => {
            LinkRate::Deliveries { path, trace: Arc::new(trace.window(start, length)) }
        }
        LinkRate::Csv { path, series } => {
            LinkRate::Csv { path, series: Arc::new(series.window(start, length)) }
        }
        rate => rate,
    };
    model.delay = match model.delay {
        Delay::File { path, series, .. } | Delay::Csv { path, series } => {
            Delay::Csv { path, series: Arc::new(series.window(start, length)) }
        }
        delay => delay,
    };
    if let Some(csv) = &mut model.loss.csv {
        csv.series = Arc::new(csv.series.window(start, length));
    }
    model
}

/// Returns a share of a rate.
fn scaled(rate: &LinkRate, share: f64) -> LinkRate {
    let path = |path: &str| format!("{share}-of-{path}");
    match rate {
        LinkRate::Unlimited => LinkRate::Unlimited,
        // A share of a slot clock would be one whose slots last longer; recordings have none.
        LinkRate::Slots(clock) => LinkRate::Slots(*clock),
        LinkRate::Constant(rate) => LinkRate::Constant(rate.mul_f64(share)),
        LinkRate::Csv { path: of, series } => {
            let series = Arc::new(series.map(|rate| rate.mul_f64(share)));
            LinkRate::Csv { path: path(of), series }
        }
        LinkRate::Deliveries { path: of, trace } => {
            LinkRate::Deliveries { path: path(of), trace: Arc::new(trace.thinned(share)) }
        }
    }
}

fn secs(seconds: usize) -> Duration {
    Duration::from_secs(seconds as u64)
}
