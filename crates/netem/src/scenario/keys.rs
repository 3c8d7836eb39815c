//! The keys that describe one direction of a link, wherever in a scenario file they stand.
//!
//! A key that is absent leaves the model as it was: a link's own table is read first, then those of
//! its directions on top. Which tables there are is in `parse.rs`.

use super::Direction;
use super::section::{ScenarioError, Section};
use crate::link::{
    CsvLoss, Delay, GilbertElliott, JitterShape, LinkModel, LinkRate, Outage, OutageMode,
    QueueLimit, SlotLoss, StateChange,
};
use crate::trace::{DeliveryTrace, Series, SlotTrace, Table, TraceError};
use std::sync::Arc;
use units::{Duration, Instant, Rate};

pub(super) type Read<T> = Result<T, ScenarioError>;

/// The most outages that one table may make.
const OUTAGES_MAX: usize = 100_000;

/// The most steps of a rate in a scenario file; longer series belong in a file of their own.
const STEPS_MAX: usize = 10_000;

/// The shortest sum of the mean lengths of both states: anything shorter is independent loss.
const STATES_MIN: Duration = Duration::from_micros(100);

/// Reads the keys of links; knows which names there are, and how to read trace files.
pub(super) struct Keys<'r> {
    pub(super) read: &'r mut dyn FnMut(&str) -> Result<String, String>,
    pub(super) groups: Vec<String>,
    pub(super) media: Vec<String>,
    /// How long the run lasts: outages that repeat do so until then.
    pub(super) seconds: f64,
}

impl Keys<'_> {
    /// Reads what belongs to the transmitter: rate, queue, medium.
    pub(super) fn sender(&mut self, section: &mut Section<'_>, model: &mut LinkModel) -> Read<()> {
        section.exclusive(&["rate_mbps", "rate_csv", "rate_steps", "delivery_file"])?;
        if let Some(rate) = section.mbps("rate_mbps")? {
            model.rate = LinkRate::Constant(rate);
        }
        if let Some((path, series)) = self.file(section, "rate_csv", Series::rates_csv)? {
            model.rate = LinkRate::Csv { path, series };
        }
        if let Some(series) = rate_steps(section)? {
            model.rate = LinkRate::Csv { path: String::new(), series: Arc::new(series) };
        }
        if let Some((path, trace)) = self.file(section, "delivery_file", DeliveryTrace::parse)? {
            model.rate = LinkRate::Deliveries { path, trace };
        }
        if let Some(limit) = queue(section)? {
            model.queue = limit;
        }
        if let Some(medium) = section.string("medium")? {
            known(section, "medium", &medium, &self.media)?;
            model.medium = Some(medium);
        }
        Ok(())
    }

    /// Reads what happens after transmission: delay, loss and the rest.
    pub(super) fn air(&mut self, section: &mut Section<'_>, model: &mut LinkModel) -> Read<()> {
        self.delay(section, model)?;
        self.loss(section, model)?;
        if let Some(probability) = section.probability("duplicate")? {
            model.duplication.probability = probability;
        }
        if let Some(lag) = section.millis("duplicate_lag_ms")? {
            model.duplication.lag = lag;
        }
        if let Some(probability) = section.probability("reorder")? {
            model.reordering.probability = probability;
        }
        if let Some(lag) = section.millis("reorder_lag_ms")? {
            model.reordering.lag = lag;
        }
        if model.reordering.probability > 0.0 && model.reordering.lag.is_zero() {
            return Err(section.error("reorder", "needs a reorder_lag_ms above 0"));
        }
        if let Some(corruption) = section.probability("corrupt")? {
            model.corruption = corruption;
        }
        if let Some(groups) = section.strings("groups")? {
            for group in &groups {
                known(section, "groups", group, &self.groups)?;
            }
            model.groups = groups;
        }
        Ok(())
    }

    fn delay(&mut self, section: &mut Section<'_>, model: &mut LinkModel) -> Read<()> {
        section.exclusive(&["delay_ms", "delay_file", "delay_csv"])?;
        if let Some(delay) = section.millis("delay_ms")? {
            model.delay = Delay::Fixed(delay);
        }
        let interval = section.millis("delay_interval_ms")?;
        if section.has("delay_file") {
            let interval = required(interval, section, "delay_interval_ms")?;
            let parse = |text: &str, file: &str| Series::delays(text, file, interval);
            if let Some((path, series)) = self.file(section, "delay_file", parse)? {
                model.delay = Delay::File { path, interval, series };
            }
        }
        if let Some((path, series)) = self.file(section, "delay_csv", Series::delays_csv)? {
            model.delay = Delay::Csv { path, series };
        }
        if let Some(size) = section.millis("jitter_ms")? {
            model.jitter.size = size;
        }
        model.jitter.shape = match section.string("jitter_shape")?.as_deref() {
            None => model.jitter.shape,
            Some("uniform") => JitterShape::Uniform,
            Some("normal") => JitterShape::Normal,
            Some("exponential") => JitterShape::Exponential,
            Some(other) => {
                let what =
                    format!("must be \"uniform\", \"normal\" or \"exponential\", is {other:?}");
                return Err(section.error("jitter_shape", what));
            }
        };
        if let Some(keep_order) = section.boolean("keep_order")? {
            model.keep_order = keep_order;
        }
        Ok(())
    }

    fn loss(&mut self, section: &mut Section<'_>, model: &mut LinkModel) -> Read<()> {
        if let Some(loss) = section.probability("loss")? {
            model.loss.independent = loss;
        }
        if let Some(burst) = section.table("burst_loss")? {
            model.loss.burst = Some(gilbert_elliott(burst, false)?);
        }
        if let Some(slots) = section.table("slot_loss")? {
            model.loss.slots = Some(self.slots(slots)?);
        }
        if let Some((path, series)) = self.file(section, "loss_csv", Series::losses_csv)? {
            model.loss.csv = Some(CsvLoss { path, series });
        }
        Ok(())
    }

    fn slots(&mut self, mut section: Section<'_>) -> Read<SlotLoss> {
        let trace = self.file(&mut section, "file", SlotTrace::parse)?;
        let (path, trace) = required(trace, &section, "file")?;
        let slot = required(section.millis("slot_ms")?, &section, "slot_ms")?;
        if slot.is_zero() {
            return Err(section.error("slot_ms", "must be more than 0"));
        }
        let small_bytes = section.count("small_bytes")?.unwrap_or(0);
        let region = section.millis("region_ms")?.unwrap_or_default();
        section.finish()?;
        Ok(SlotLoss { path, trace, slot, small_bytes, region })
    }

    /// Reads `[[outage]]` and `outage_csv`; a direction is allowed where the two ends are given.
    pub(super) fn outages(
        &mut self,
        section: &mut Section<'_>,
        ends: Option<&[String; 2]>,
    ) -> Read<Vec<(Outage, Option<Direction>)>> {
        let mut all = Vec::new();
        for table in section.tables("outage")? {
            self.outage(table, ends, &mut all)?;
        }
        let parse = |text: &str, file: &str| outages_csv(text, file);
        if let Some((_, recorded)) = self.file(section, "outage_csv", parse)? {
            all.extend(recorded.iter().map(|&outage| (outage, None)));
        }
        Ok(all)
    }

    fn outage(
        &self,
        mut section: Section<'_>,
        ends: Option<&[String; 2]>,
        all: &mut Vec<(Outage, Option<Direction>)>,
    ) -> Read<()> {
        let direction = ends.map_or(Ok(None), |ends| direction(&mut section, ends))?;
        let start: Instant = required(section.instant("start_s")?, &section, "start_s")?;
        let duration = required(section.seconds("seconds")?, &section, "seconds")?;
        let mode = match section.required_string("mode")?.as_str() {
            "drop" => OutageMode::Drop,
            "hold" => OutageMode::Hold { queue: queue(&mut section)? },
            other => {
                let what = format!("must be \"drop\" or \"hold\", is {other:?}");
                return Err(section.error("mode", what));
            }
        };
        let every = section.seconds("every_s")?;
        if every.is_some_and(|every| every <= duration) {
            return Err(section.error("every_s", "must be longer than the outage"));
        }
        let end = Instant::ZERO + Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let mut start = start;
        for _ in 0..OUTAGES_MAX {
            all.push((Outage { start, duration, mode }, direction));
            match every {
                Some(every) if start + every < end => start += every,
                _ => return section.finish(),
            }
        }
        Err(section.error("every_s", format!("makes more than {OUTAGES_MAX} outages")))
    }

    /// Reads the trace file that `key` names.
    fn file<T>(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
        parse: impl Fn(&str, &str) -> Result<T, TraceError>,
    ) -> Read<Option<(String, Arc<T>)>> {
        let Some(path) = section.string(key)? else { return Ok(None) };
        let text = (self.read)(&path).map_err(|what| section.error(key, what))?;
        let trace = parse(&text, &path).map_err(|error| section.error(key, error.to_string()))?;
        Ok(Some((path, Arc::new(trace))))
    }
}

/// Reads the table of a channel with bursts; in a group, only time may change its state.
pub(super) fn gilbert_elliott(mut section: Section<'_>, shared: bool) -> Read<GilbertElliott> {
    let good = section.millis("good_ms")?;
    let bad = section.millis("bad_ms")?;
    let to_bad = if shared { None } else { section.probability("to_bad")? };
    let to_good = if shared { None } else { section.probability("to_good")? };
    let change = match (good, bad, to_bad, to_good) {
        (Some(good), Some(bad), None, None) if good + bad < STATES_MIN => {
            return Err(section.error("good_ms", "good_ms and bad_ms together are under 0.1 ms"));
        }
        (Some(good), Some(bad), None, None) => StateChange::OverTime { good, bad },
        (None, None, Some(to_bad), Some(to_good)) => StateChange::PerPacket { to_bad, to_good },
        _ if shared => return Err(section.error("", "needs good_ms and bad_ms")),
        _ => {
            let what = "needs either good_ms and bad_ms or to_bad and to_good";
            return Err(section.error("", what));
        }
    };
    let loss_good = section.probability("loss_good")?.unwrap_or(0.0);
    let loss_bad = section.probability("loss_bad")?.unwrap_or(1.0);
    section.finish()?;
    Ok(GilbertElliott { change, loss_good, loss_bad })
}

pub(super) fn required<T>(value: Option<T>, section: &Section<'_>, key: &str) -> Read<T> {
    value.ok_or_else(|| section.error(key, "is missing"))
}

/// Reads a queue limit; a limit that is given replaces the earlier one as a whole.
fn queue(section: &mut Section<'_>) -> Read<Option<QueueLimit>> {
    let limit = QueueLimit {
        packets: section.count("queue_packets")?,
        bytes: section.count("queue_bytes")?,
    };
    let given = limit != QueueLimit::UNLIMITED;
    match section.string("queue")?.as_deref() {
        None => Ok(given.then_some(limit)),
        Some("unlimited") if !given => Ok(Some(QueueLimit::UNLIMITED)),
        Some("unlimited") => Err(section.error("queue", "is unlimited and has a limit as well")),
        Some(other) => {
            Err(section.error("queue", format!("can only be \"unlimited\", is {other:?}")))
        }
    }
}

/// Reads `rate_steps` and `rate_every_s`: rates in a file that a person can read.
fn rate_steps(section: &mut Section<'_>) -> Read<Option<Series<Rate>>> {
    let steps = section.pairs("rate_steps", STEPS_MAX)?;
    let every = section.seconds("rate_every_s")?;
    let Some(steps) = steps else {
        return match every {
            Some(_) => Err(section.error("rate_every_s", "needs rate_steps")),
            None => Ok(None),
        };
    };
    if steps.iter().any(|&(start, mbps)| start > 1e9 || mbps > 1e6) {
        return Err(section.error("rate_steps", "are [seconds, Mbit/s], up to 1e9 and 1e6"));
    }
    let step = |&(start, mbps): &(f64, f64)| {
        (Duration::from_secs_f64(start), Rate::from_bps((mbps * 1e6).round() as u64))
    };
    let series = Series::from_steps(steps.iter().map(step), every, "");
    let wrong = |error: TraceError| format!("step {}: {}", error.line, error.what);
    series.map(Some).map_err(|error| section.error("rate_steps", wrong(error)))
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

fn direction(section: &mut Section<'_>, ends: &[String; 2]) -> Read<Option<Direction>> {
    let given = section.string("direction")?;
    let from = |end: &String| {
        given.as_deref().and_then(|word| word.strip_prefix("from_")) == Some(end.as_str())
    };
    match given.as_deref() {
        None | Some("both") => Ok(None),
        Some("up") => Ok(Some(Direction::Up)),
        Some("down") => Ok(Some(Direction::Down)),
        Some(_) if from(&ends[0]) => Ok(Some(Direction::Up)),
        Some(_) if from(&ends[1]) => Ok(Some(Direction::Down)),
        Some(other) => {
            let [a, b] = ends;
            let what = format!("must be \"from_{a}\", \"from_{b}\" or \"both\", is {other:?}");
            Err(section.error("direction", what))
        }
    }
}

fn known(section: &Section<'_>, key: &str, name: &str, names: &[String]) -> Read<()> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(section.error(key, format!("no {name:?} in this scenario; there are {there}")))
}
