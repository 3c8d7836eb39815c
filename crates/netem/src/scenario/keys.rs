//! The keys that describe one direction of a link, wherever in a scenario file they stand.
//!
//! A key that is absent leaves the model as it was: a link's own table is read first, then those of
//! its directions on top. Which tables there are is in `parse.rs`.

use super::fields::{self, AIR, BURST, CLOCK, QUEUE, SLOT, SLOTS, millis};
use super::{Direction, RadioMatrix};
use crate::link::{
    CsvLoss, Delay, GilbertElliott, LinkModel, LinkRate, Outage, OutageMode, Protocol, QueueLimit,
    SMALL_BYTES, SlotClock, SlotLoss, StateChange,
};
use crate::trace::{DeliveryTrace, Series, SlotMatrix, SlotTrace, Table, TraceError};
use core::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use toml_keys::Section;
use units::{Duration, Instant, Rate};

/// The most outages that one table may make.
const OUTAGES_MAX: usize = 100_000;

/// The most steps of a rate in a scenario file; longer series belong in a file of their own.
const STEPS_MAX: usize = 10_000;

/// The longest slot of a back-off: 802.11 has 9 to 50 µs.
const BACKOFF_MAX_US: u64 = 1_000;
/// The most retries of a packet: radios count them in a byte.
const RETRIES_MAX: u64 = 255;

/// The most rows of a matrix that an error names.
const ROWS_TOLD: usize = 16;

/// The shortest sum of the mean lengths of both states: anything shorter is independent loss.
const STATES_MIN: Duration = Duration::from_micros(100);

/// The word of a protocol in `blocks`.
struct Blocked(Protocol);

impl FromStr for Blocked {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let known = Protocol::ALL.into_iter().find(|(word, _)| *word == text);
        known.map(|(_, protocol)| Self(protocol)).ok_or(())
    }
}

/// Reads the keys of links; knows which names there are, and how to read trace files.
pub(super) struct Keys<'r> {
    pub(super) read: &'r mut dyn FnMut(&str) -> Result<String, String>,
    pub(super) groups: Vec<String>,
    pub(super) media: Vec<String>,
    /// The matrices that were read, by their paths.
    pub(super) matrices: Vec<(String, Arc<SlotMatrix>)>,
    /// How long the run lasts: outages that repeat do so until then.
    pub(super) seconds: f64,
}

impl Keys<'_> {
    /// Reads what belongs to the transmitter: rate, queue, medium.
    pub(super) fn sender(&mut self, section: &Section<'_>, model: &mut LinkModel) {
        section.exclusive(&["rate_mbps", "rate_csv", "rate_steps", "delivery_file", "slots"]);
        let stands_still = "for a link that stands still use an outage with mode = \"hold\"";
        if let Some(rate) = section.mbps("rate_mbps", stands_still) {
            model.rate = LinkRate::Constant(rate);
        }
        if let Some((path, series)) = self.file(section, "rate_csv", Series::rates_csv) {
            model.rate = LinkRate::Csv { path, series };
        }
        if let Some(series) = rate_steps(section) {
            model.rate = LinkRate::Csv { path: String::new(), series: Arc::new(series) };
        }
        if let Some((path, trace)) = self.file(section, "delivery_file", DeliveryTrace::parse) {
            model.rate = LinkRate::Deliveries { path, trace };
        }
        if let Some(clock) = section.section("slots").and_then(slot_clock) {
            model.rate = LinkRate::Slots(clock);
        }
        if let Some(retries) = section.number("retries", 0..=RETRIES_MAX) {
            model.retries = retries;
        }
        if let Some(micros) = section.number("backoff_us", 0..=BACKOFF_MAX_US) {
            model.backoff = Duration::from_micros(micros);
        }
        if let Some(limit) = queue(section) {
            model.queue = limit;
        }
        if section.has("blocks") {
            let words: Vec<Blocked> = section.list("blocks", "\"udp\" or \"tcp\"");
            model.blocks = words.into_iter().map(|Blocked(protocol)| protocol).collect();
        }
        if let Some(span) = blocks_during(section) {
            model.blocks_during = Some(span);
        }
        if let Some(medium) = section.text("medium") {
            check_known(section, "medium", medium, &self.media);
            model.medium = Some(medium.to_owned());
        }
    }

    /// Reads what happens after transmission: delay, loss and the rest.
    pub(super) fn air(&mut self, section: &Section<'_>, model: &mut LinkModel) {
        self.delay(section, model);
        fields::read(section, &AIR, model);
        self.loss(section, model);
        if model.reordering.probability > 0.0 && model.reordering.lag.is_zero() {
            section.wrong("reorder", "needs a reorder_lag_ms above 0");
        }
        if section.has("groups") {
            model.groups = section.list("groups", "the name of a [[group]]");
            for group in &model.groups {
                check_known(section, "groups", group, &self.groups);
            }
        }
    }

    fn delay(&mut self, section: &Section<'_>, model: &mut LinkModel) {
        section.exclusive(&["delay_ms", "delay_file", "delay_csv"]);
        if let Some(delay) = section.millis("delay_ms") {
            model.delay = Delay::Fixed(delay);
        }
        let interval = section.millis("delay_interval_ms");
        if section.has("delay_file") && section.require("delay_interval_ms") {
            let interval = interval.unwrap_or_default();
            let parse = |text: &str, file: &str| Series::delays(text, file, interval);
            if let Some((path, series)) = self.file(section, "delay_file", parse) {
                model.delay = Delay::File { path, interval, series };
            }
        }
        if let Some((path, series)) = self.file(section, "delay_csv", Series::delays_csv) {
            model.delay = Delay::Csv { path, series };
        }
    }

    fn loss(&mut self, section: &Section<'_>, model: &mut LinkModel) {
        if let Some(burst) = section.section("burst_loss") {
            model.loss.burst = Some(gilbert_elliott(burst, false));
        }
        if let Some(slots) = section.section("slot_loss") {
            let clock = match model.rate {
                LinkRate::Slots(clock) => Some(clock),
                _ => None,
            };
            model.loss.slots = self.slots(slots, clock);
        }
        if let Some((path, series)) = self.file(section, "loss_csv", Series::losses_csv) {
            model.loss.csv = Some(CsvLoss { path, series });
        }
    }

    /// Reads a recording of slots; where a clock has slots, they are the recording's if it does not
    /// say.
    fn slots(&mut self, section: Section<'_>, clock: Option<SlotClock>) -> Option<SlotLoss> {
        section.exclusive(&["file", "matrix"]);
        section.exclusive(&["matrix", "slot_ms"]);
        let mut slots = if section.has("matrix") {
            self.row(&section)?
        } else {
            section.require("file");
            if clock.is_none() {
                section.require("slot_ms");
            }
            let (path, trace) = self.file(&section, "file", SlotTrace::parse)?;
            let (slot, small_bytes) =
                clock.map_or((Duration::ZERO, 0), |clock| (clock.slot, clock.small_bytes));
            let region = Duration::ZERO;
            SlotLoss { path, matrix: None, trace, slot, small_bytes, region }
        };
        fields::read(&section, &SLOT, &mut slots);
        fields::read(&section, &SLOTS, &mut slots);
        if section.has("slot_ms") && slots.slot.is_zero() {
            section.wrong("slot_ms", "must be more than 0");
        }
        section.finish();
        Some(slots)
    }

    /// Reads which row of a matrix a link has; without `from` and `to` it has none.
    fn row(&mut self, section: &Section<'_>) -> Option<SlotLoss> {
        let (path, matrix) = self.matrix(section, "matrix")?;
        let pair = match (section.text("from"), section.text("to")) {
            (None, None) => None,
            (Some(from), Some(to)) => Some((from, to)),
            (given, _) => {
                section.require(if given.is_none() { "from" } else { "to" });
                return None;
            }
        };
        if let Some((from, to)) = pair
            && matrix.row(from, to).is_none()
        {
            let there = matrix.rows().iter().map(|row| format!("{} {}", row.from, row.to));
            let there: Vec<String> = there.take(ROWS_TOLD).collect();
            let what = format!("{path} has no row {from} {to}; it has {}", there.join(", "));
            section.wrong("from", what);
            return None;
        }
        Some(SlotLoss::of_matrix(&path, &matrix, pair))
    }

    /// Reads the matrix that `key` names, each file once.
    fn matrix(&mut self, section: &Section<'_>, key: &str) -> Option<(String, Arc<SlotMatrix>)> {
        let path = section.text(key)?;
        if let Some(known) = self.matrices.iter().find(|(known, _)| known == path) {
            return Some(known.clone());
        }
        let read = self.file(section, key, SlotMatrix::parse)?;
        self.matrices.push(read.clone());
        Some(read)
    }

    /// Reads `[[outage]]` and `outage_csv`; a direction is allowed where the two ends are given.
    pub(super) fn outages(
        &mut self,
        section: &Section<'_>,
        ends: Option<&[String; 2]>,
    ) -> Vec<(Outage, Option<Direction>)> {
        let mut all = Vec::new();
        for table in section.sections("outage") {
            self.outage(table, ends, &mut all);
        }
        let parse = |text: &str, file: &str| outages_csv(text, file);
        if let Some((_, recorded)) = self.file(section, "outage_csv", parse) {
            all.extend(recorded.iter().map(|&outage| (outage, None)));
        }
        all
    }

    fn outage(
        &self,
        section: Section<'_>,
        ends: Option<&[String; 2]>,
        all: &mut Vec<(Outage, Option<Direction>)>,
    ) {
        let direction = ends.and_then(|ends| direction(&section, ends));
        for key in ["start_s", "seconds", "mode"] {
            section.require(key);
        }
        let start = section.instant("start_s").unwrap_or(Instant::ZERO);
        let duration = section.seconds("seconds").unwrap_or_default();
        let holds = section.choice("mode", &[("drop", false), ("hold", true)]) == Some(true);
        let mode = match holds {
            false => OutageMode::Drop,
            true => OutageMode::Hold { queue: queue(&section) },
        };
        let mut every = section.seconds("every_s");
        if every.is_some_and(|every| every <= duration) {
            section.wrong("every_s", "must be longer than the outage");
            every = None;
        }
        let end = Instant::ZERO + Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let starts = core::iter::successors(Some(start), |start| {
            every.map(|every| *start + every).filter(|next| *next < end)
        });
        let before = all.len();
        let outages = starts.map(|start| (Outage { start, duration, mode }, direction));
        all.extend(outages.take(OUTAGES_MAX + 1));
        if all.len() - before > OUTAGES_MAX {
            section.wrong("every_s", format!("makes more than {OUTAGES_MAX} outages"));
        }
        section.finish();
    }

    /// Reads the table of a radio's matrix; its hosts are called as in the scenario if it does not
    /// say otherwise.
    pub(super) fn radio_matrix(
        &mut self,
        section: Section<'_>,
        hosts: &[String],
    ) -> Option<RadioMatrix> {
        section.require("file");
        let mut names: Vec<String> = section.list("names", "a name of the matrix");
        if !section.has("names") {
            names = hosts.to_vec();
        } else if names.len() != hosts.len() {
            section.wrong("names", format!("must have one for each host: {}", hosts.len()));
        }
        let twice = |(place, name): (usize, &String)| names[..place].contains(name);
        if let Some((_, name)) = names.iter().enumerate().find(|one| twice(*one)) {
            section.wrong("names", format!("{name:?} is there twice"));
        }
        let read = self.matrix(&section, "file");
        let mut slots = read.as_ref().map(|(path, matrix)| SlotLoss::of_matrix(path, matrix, None));
        if let Some(slots) = &mut slots {
            fields::read(&section, &SLOTS, slots);
        }
        let ((path, matrix), slots) = (read?, slots?);
        let there = matrix.names();
        if let Some(unknown) = names.iter().find(|name| !there.contains(&name.as_str())) {
            let told = there.iter().take(ROWS_TOLD).copied().collect::<Vec<_>>().join(", ");
            let what = format!("{path} has nobody called {unknown:?}; it has {told}");
            section.wrong(if section.has("names") { "names" } else { "file" }, what);
            return None;
        }
        section.finish();
        let (small_bytes, region) = (slots.small_bytes, slots.region);
        (names.len() == hosts.len()).then_some(RadioMatrix {
            path,
            matrix,
            names,
            small_bytes,
            region,
        })
    }

    /// Reads the trace file that `key` names.
    fn file<T>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl Fn(&str, &str) -> Result<T, TraceError>,
    ) -> Option<(String, Arc<T>)> {
        let path = section.text(key)?;
        let trace = (self.read)(path)
            .and_then(|text| parse(&text, path).map_err(|error| error.to_string()));
        match trace {
            Ok(trace) => Some((path.to_owned(), Arc::new(trace))),
            Err(what) => {
                section.wrong(key, what);
                None
            }
        }
    }
}

/// Finds out whether the slots of a transmitter and those of its recording are the same, and
/// whether there is something to repeat.
pub(super) fn check_slots(section: &Section<'_>, sender: &LinkModel, air: &LinkModel) {
    if !sender.backoff.is_zero() && sender.retries == 0 {
        section.wrong("backoff_us", "is how long a repeat waits: needs retries beside it");
    }
    let (clock, slots) = (&sender.rate, &air.loss.slots);
    match (clock, slots) {
        (LinkRate::Slots(clock), Some(slots)) if clock.slot != slots.slot => {
            let [clock, slots] = [clock.slot, slots.slot].map(millis);
            let what = format!("has slots of {clock} ms, and slot_loss slots of {slots} ms");
            section.wrong("slots", what);
        }
        (LinkRate::Slots(_), Some(_)) => {}
        _ if sender.retries > 0 => {
            let what = "repeats what recorded slots lose: needs slots and slot_loss beside it";
            section.wrong("retries", what);
        }
        _ => {}
    }
}

/// Reads the table of a channel with bursts; in a group, only time may change its state.
pub(super) fn gilbert_elliott(section: Section<'_>, shared: bool) -> GilbertElliott {
    let good = section.millis("good_ms");
    let bad = section.millis("bad_ms");
    let to_bad = if shared { None } else { section.probability("to_bad") };
    let to_good = if shared { None } else { section.probability("to_good") };
    let change = StateChange::PerPacket { to_bad: 0.0, to_good: 0.0 };
    let mut burst = GilbertElliott { change, loss_good: 0.0, loss_bad: 1.0 };
    fields::read(&section, &BURST, &mut burst);
    match (good, bad, to_bad, to_good) {
        (Some(good), Some(bad), None, None) => {
            if good + bad < STATES_MIN {
                section.wrong("good_ms", "good_ms and bad_ms together are under 0.1 ms");
            }
            burst.change = StateChange::OverTime { good, bad };
        }
        (None, None, Some(to_bad), Some(to_good)) => {
            burst.change = StateChange::PerPacket { to_bad, to_good };
        }
        _ if shared => section.wrong("", "needs good_ms and bad_ms"),
        _ => section.wrong("", "needs either good_ms and bad_ms or to_bad and to_good"),
    }
    section.finish();
    burst
}

/// Reads the table of a transmitter's slots.
fn slot_clock(section: Section<'_>) -> Option<SlotClock> {
    section.require("slot_ms");
    let mut clock = SlotClock { slot: Duration::ZERO, small_bytes: SMALL_BYTES };
    fields::read(&section, &CLOCK, &mut clock);
    if section.has("slot_ms") && clock.slot.is_zero() {
        section.wrong("slot_ms", "must be more than 0");
    }
    section.finish();
    (!clock.slot.is_zero()).then_some(clock)
}

/// Reads a queue limit; a limit that is given replaces the earlier one as a whole.
fn queue(section: &Section<'_>) -> Option<QueueLimit> {
    let mut limit = QueueLimit::UNLIMITED;
    fields::read(section, &QUEUE, &mut limit);
    let given = limit != QueueLimit::UNLIMITED;
    let unlimited = section.choice("queue", &[("unlimited", ())]).is_some();
    if unlimited && given {
        section.wrong("queue", "is unlimited and has a limit as well");
    }
    (given || unlimited).then_some(limit)
}

/// Reads `rate_steps` and `rate_every_s`: rates in a file that a person can read.
fn rate_steps(section: &Section<'_>) -> Option<Series<Rate>> {
    let steps = section.pairs("rate_steps", STEPS_MAX);
    let every = section.seconds("rate_every_s");
    if every.is_some() && !section.has("rate_steps") {
        section.wrong("rate_every_s", "needs rate_steps");
    }
    let steps = steps?;
    if steps.iter().any(|&(start, mbps)| start > 1e9 || mbps > 1e6) {
        section.wrong("rate_steps", "are [seconds, Mbit/s], up to 1e9 and 1e6");
        return None;
    }
    let step = |&(start, mbps): &(f64, f64)| {
        (Duration::from_secs_f64(start), Rate::from_bps((mbps * 1e6).round() as u64))
    };
    let series = Series::from_steps(steps.iter().map(step), every, "");
    let wrong = |error: TraceError| format!("step {}: {}", error.line, error.what);
    series.map_err(|error| section.wrong("rate_steps", wrong(error))).ok()
}

/// Reads when a link blocks what it blocks: from zero on, and for ever, where that is not said.
fn blocks_during(section: &Section<'_>) -> Option<Range<Duration>> {
    let [from, until] = ["blocks_from_s", "blocks_until_s"].map(|key| section.seconds(key));
    if from.or(until).is_none() || !section.require("blocks") {
        return None;
    }
    let span = from.unwrap_or_default()..until.unwrap_or(Duration::MAX);
    if span.is_empty() {
        section.wrong("blocks_until_s", "must be later than blocks_from_s");
    }
    Some(span)
}

/// Reads the columns `start_s`, `seconds` and, where there is one, `mode`.
fn outages_csv(text: &str, file: &str) -> Result<Vec<Outage>, TraceError> {
    let table = Table::from_csv(text, file)?;
    let starts = table.numbers("start_s")?;
    let lengths = table.numbers("seconds")?;
    let modes = if table.has("mode") { table.texts("mode")? } else { Vec::new() };
    let mut outages = Vec::with_capacity(starts.len());
    for (index, &(line, start)) in starts.iter().enumerate() {
        let wrong = |what: String| TraceError { file: file.to_owned(), line, what };
        let time = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|error| wrong(error.to_string()))
        };
        let mode = match modes.get(index).map(|&(_, mode)| mode) {
            None | Some("drop") => OutageMode::Drop,
            Some("hold") => OutageMode::Hold { queue: None },
            Some(other) => {
                return Err(wrong(format!("mode must be drop or hold, is {other:?}")));
            }
        };
        let (start, duration) = (Instant::ZERO + time(start)?, time(lengths[index].1)?);
        outages.push(Outage { start, duration, mode });
    }
    Ok(outages)
}

fn direction(section: &Section<'_>, ends: &[String; 2]) -> Option<Direction> {
    let given = section.text("direction")?;
    let from = |end: &String| given.strip_prefix("from_") == Some(end.as_str());
    match given {
        "both" => None,
        "up" => Some(Direction::Up),
        "down" => Some(Direction::Down),
        _ if from(&ends[0]) => Some(Direction::Up),
        _ if from(&ends[1]) => Some(Direction::Down),
        other => {
            let [a, b] = ends;
            let what = format!("{other:?} is not one of \"from_{a}\", \"from_{b}\", \"both\"");
            section.wrong("direction", what);
            None
        }
    }
}

fn check_known(section: &Section<'_>, key: &str, name: &str, names: &[String]) {
    if names.iter().any(|known| known == name) {
        return;
    }
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    section.wrong(key, format!("no {name:?} in this scenario; there are {there}"));
}
