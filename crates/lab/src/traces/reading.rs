//! What a file of measurements says about one link in one direction, and a link made of it.
//!
//! ```text
//! file → formats → Reading (samples and gaps) → LinkModel (series) → RecordedLink
//! ```
//! A sample holds until the next one. Where the next one comes much later than samples usually do,
//! nothing is known: that is a gap, which is said, and which no window contains.

use std::sync::Arc;

use netem::{CsvLoss, Delay, DeliveryTrace, LinkModel, LinkRate, Series};
use units::{Duration, Rate};

use super::RecordedLink;

/// Samples further apart than this many times the median distance leave a gap.
const GAP_FACTOR: f64 = 3.0;
/// Samples nearer than this to the one before are left out: a series has steps of 0.1 ms.
const APART_MIN_S: f64 = 0.000_2;
/// A rate below a packet in 10 s is nothing.
const RATE_MIN_MBPS: f64 = 0.001_2;

/// One sample; what was not measured is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// When, in seconds from the first.
    pub(crate) at_s: f64,
    /// How much the link carried, Mbit/s.
    pub(crate) rate_mbps: Option<f64>,
    /// How long a packet took one way, ms.
    pub(crate) delay_ms: Option<f64>,
    /// Which share of the packets was lost.
    pub(crate) loss: Option<f64>,
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// What kind of file it is.
    pub(crate) format: &'static str,
    /// When the first sample was taken, in seconds since 1970, where the file says so.
    pub(crate) start_s: Option<f64>,
    /// The samples, in order of time.
    pub(crate) samples: Vec<Sample>,
    /// Opportunities to deliver, in place of samples.
    pub(crate) deliveries: Option<DeliveryTrace>,
    /// When nothing was measured, in seconds from the first sample.
    pub(crate) gaps: Vec<(f64, f64)>,
    /// How long all of it is.
    pub(crate) length_s: f64,
    /// What the reader took for granted.
    pub(crate) notes: Vec<String>,
}

/// Says what a link has that no file tells about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed {
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
}

impl Reading {
    /// Puts samples in order, counts their times from the first, and finds the gaps between them;
    /// `gap_s` is the least, where the usual rule is not wanted.
    pub(crate) fn of(mut samples: Vec<Sample>, gap_s: Option<f64>) -> Self {
        samples.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let origin = samples.first().map_or(0.0, |first| first.at_s);
        for sample in &mut samples {
            sample.at_s -= origin;
        }
        let before = samples.len();
        let mut last = f64::NEG_INFINITY;
        samples.retain(|sample| {
            let keep = sample.at_s - last >= APART_MIN_S;
            if keep {
                last = sample.at_s;
            }
            keep
        });
        let mut notes = Vec::new();
        if samples.len() < before {
            notes.push(format!(
                "{} samples came with the one before them and are left out",
                before - samples.len()
            ));
        }
        let mut apart: Vec<f64> =
            samples.windows(2).map(|pair| pair[1].at_s - pair[0].at_s).collect();
        apart.sort_by(f64::total_cmp);
        let usual = apart.get(apart.len() / 2).copied().unwrap_or(1.0);
        let limit = gap_s.unwrap_or(usual * GAP_FACTOR);
        let mut gaps = Vec::new();
        for pair in samples.windows(2) {
            let apart = pair[1].at_s - pair[0].at_s;
            let is_empty = pair[0].is_empty();
            if apart > limit || is_empty {
                // The sample before a gap holds as long as one usually does.
                let from = if is_empty { pair[0].at_s } else { pair[0].at_s + usual };
                gaps.push((from, pair[1].at_s));
            }
        }
        let length_s = samples.last().map_or(0.0, |last| last.at_s + usual);
        if let Some(last) = samples.last().filter(|last| last.is_empty()) {
            gaps.push((last.at_s, length_s));
        }
        Self { samples, gaps: joined(gaps), length_s, notes, ..Self::default() }
    }

    /// Makes a direction of a link; a gap carries nothing, so that it is never held in silence.
    pub(crate) fn way(&self, name: &str, assumed: Assumed) -> Result<LinkModel, String> {
        let text = |error: netem::TraceError| error.to_string();
        let delay = Delay::Fixed(assumed.delay);
        let rate = LinkRate::Constant(assumed.rate);
        let mut model = LinkModel { delay, rate, ..LinkModel::default() };
        if let Some(trace) = &self.deliveries {
            let (path, trace) = (format!("{name}.deliveries"), Arc::new(trace.clone()));
            model.rate = LinkRate::Deliveries { path, trace };
            return Ok(model);
        }
        let length = Duration::try_from_secs_f64(self.length_s).unwrap_or_default();
        if let Some(rates) = self.steps(|sample| sample.rate_mbps, Some(0.0)) {
            let rate = |mbps: f64| {
                Rate::from_bps(if mbps < RATE_MIN_MBPS { 0 } else { (mbps * 1e6) as u64 })
            };
            let steps = rates.into_iter().map(|(at, mbps)| (at, rate(mbps)));
            let series = Arc::new(Series::from_steps(steps, Some(length), name).map_err(text)?);
            model.rate = LinkRate::Csv { path: format!("{name}.rate.csv"), series };
        }
        if let Some(delays) = self.steps(|sample| sample.delay_ms, None) {
            let delay = |ms: f64| Duration::from_secs_f64((ms / 1e3).clamp(0.0, 1e6));
            let steps = delays.into_iter().map(|(at, ms)| (at, delay(ms)));
            let series = Arc::new(Series::from_steps(steps, Some(length), name).map_err(text)?);
            model.delay = Delay::Csv { path: format!("{name}.delay.csv"), series };
        }
        if let Some(losses) = self.steps(|sample| sample.loss, Some(1.0)) {
            let series = Arc::new(Series::from_steps(losses, Some(length), name).map_err(text)?);
            model.loss.csv = Some(CsvLoss { path: format!("{name}.loss.csv"), series });
        }
        Ok(model)
    }

    /// Returns what a direction made of this takes for granted.
    pub(crate) fn assumptions(&self, assumed: Assumed) -> Vec<String> {
        let mut notes = self.notes.clone();
        let has = |of: fn(&Sample) -> Option<f64>| self.samples.iter().any(|one| of(one).is_some());
        if self.deliveries.is_none() && !has(|sample| sample.rate_mbps) {
            let mbps = assumed.rate.as_mbps();
            notes.push(format!("rate {mbps} Mbit/s: the recording has none"));
        }
        if !has(|sample| sample.delay_ms) {
            let ms = assumed.delay.as_secs_f64() * 1e3;
            notes.push(format!("delay {ms} ms: the recording has none"));
        }
        for (from, to) in self.gaps.iter().take(GAPS_SAID) {
            notes.push(format!("nothing is known from {from:.3} to {to:.3} s"));
        }
        if self.gaps.len() > GAPS_SAID {
            notes.push(format!("and {} gaps more", self.gaps.len() - GAPS_SAID));
        }
        notes
    }

    /// Returns the steps of one quantity, where it was measured at all; a gap has the value given,
    /// or else that before it.
    fn steps(
        &self,
        of: impl Fn(&Sample) -> Option<f64>,
        in_gaps: Option<f64>,
    ) -> Option<Vec<(Duration, f64)>> {
        let measured = self.samples.iter().filter_map(|sample| Some((sample.at_s, of(sample)?)));
        let mut all: Vec<(f64, f64)> = measured.collect();
        let &(first, value) = all.first()?;
        if first > 0.0 {
            all.insert(0, (0.0, in_gaps.unwrap_or(value)));
        }
        if let Some(value) = in_gaps {
            all.extend(self.gaps.iter().map(|&(from, _)| (from, value)));
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(all.len());
        for (at, value) in all {
            let at = Duration::try_from_secs_f64(at).ok()?;
            match steps.last_mut() {
                Some((last, before)) if at < *last + Duration::from_micros(100) => *before = value,
                _ => steps.push((at, value)),
            }
        }
        // A last step so near the end that it would be no step.
        let end = Duration::try_from_secs_f64(self.length_s).ok()?;
        steps.retain(|(at, _)| at.is_zero() || *at + Duration::from_micros(100) <= end);
        Some(steps)
    }
}

/// More gaps than this are counted, not listed.
pub(crate) const GAPS_SAID: usize = 10;

impl Sample {
    fn is_empty(&self) -> bool {
        self.rate_mbps.is_none() && self.delay_ms.is_none() && self.loss.is_none()
    }
}

/// Makes a link of a reading of each direction; where there is one only, the other is the same.
pub(crate) fn link(
    name: &str,
    to_drone: &Reading,
    to_station: Option<&Reading>,
    assumed: Assumed,
) -> Result<RecordedLink, String> {
    let mut notes = to_drone.assumptions(assumed);
    match to_station {
        None => notes.push("one direction was recorded: the other is the same".to_owned()),
        Some(other) => {
            let other = other.assumptions(assumed).into_iter();
            notes.extend(other.filter(|note| !notes.contains(note)).collect::<Vec<_>>());
        }
    }
    let other = to_station.unwrap_or(to_drone);
    let length = to_drone.length_s.min(other.length_s);
    if length < 1.0 {
        return Err(format!("{name}: is shorter than a second"));
    }
    let gaps = to_drone.gaps.iter().chain(&other.gaps).copied().collect();
    Ok(RecordedLink {
        name: name.to_owned(),
        to_drone: to_drone.way(name, assumed)?,
        to_station: other.way(name, assumed)?,
        length: Duration::from_secs_f64(length),
        gaps: joined(gaps),
        notes,
    })
}

/// Joins gaps that touch.
fn joined(mut gaps: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all: Vec<(f64, f64)> = Vec::new();
    for (from, to) in gaps {
        match all.last_mut() {
            Some(last) if from <= last.1 + 1e-9 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}
