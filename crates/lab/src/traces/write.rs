//! Writes a window as a folder: a scenario file, and the files of its recordings beside it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use netem::{Delay, LinkModel, LinkRate, Scenario, Series};

use super::Window;

/// Writes a window into a folder and returns the path of its scenario.
///
/// # Errors
/// When a file cannot be written, or does not read back as what was written.
pub(crate) fn write(window: &Window, folder: &Path) -> Result<PathBuf, String> {
    let describe =
        |path: &Path, error: std::io::Error| format!("write {}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| describe(folder, error))?;
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| describe(&path, error)).map(|()| path)
    };
    let mut scenario = window.scenario.clone();
    for pair in &mut scenario.links {
        let name = pair.name.clone();
        for (way, model) in [("from_drone", &mut pair.up), ("from_station", &mut pair.down)] {
            for (file, text) in files(model, &format!("{name}-{way}")) {
                put(&file, text)?;
            }
        }
    }
    let mut text = format!("# {}\n", window.name);
    for note in &window.notes {
        let _ = writeln!(text, "# {note}");
    }
    text.push_str(&scenario.to_toml());
    let path = put("scenario.toml", text)?;
    let again = emulator::read_scenario(&path)?;
    check(&scenario, &again).map(|()| path)
}

/// Returns a name as one of a folder.
pub(crate) fn folder_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    name.chars().map(allowed).collect()
}

/// Returns the files of a direction with their text, and makes the model name them.
fn files(model: &mut LinkModel, stem: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    match &mut model.rate {
        LinkRate::Csv { path, series } => {
            *path = format!("{stem}.rate.csv");
            files.push((path.clone(), csv(series, "rate_mbps", |rate| rate.as_mbps())));
        }
        LinkRate::Deliveries { path, trace } => {
            *path = format!("{stem}.deliveries");
            let lines = trace.times().map(|time| format!("{}\n", time.as_millis()));
            files.push((path.clone(), lines.collect()));
        }
        LinkRate::Unlimited | LinkRate::Constant(_) | LinkRate::Slots(_) => {}
    }
    if let Delay::Csv { path, series } = &mut model.delay {
        *path = format!("{stem}.delay.csv");
        files.push((path.clone(), csv(series, "delay_ms", |delay| delay.as_secs_f64() * 1e3)));
    }
    if let Some(loss) = &mut model.loss.csv {
        loss.path = format!("{stem}.loss.csv");
        files.push((loss.path.clone(), csv(&loss.series, "loss", |loss| loss)));
    }
    files
}

/// Writes a series. Its last row lasts as long as the one before it, which is why the last step is
/// written as two halves.
fn csv<T: Copy>(series: &Series<T>, column: &str, number: impl Fn(T) -> f64) -> String {
    let mut text = format!("time_s,{column}\n");
    let mut last = None;
    for (start, value) in series.steps() {
        let _ = writeln!(text, "{},{}", start.as_secs_f64(), number(value));
        last = Some((start, value));
    }
    if let (Some((start, value)), Some(period)) = (last, series.period())
        && series.len() > 1
    {
        let half = start + (period - start) / 2;
        let _ = writeln!(text, "{},{}", half.as_secs_f64(), number(value));
    }
    text
}

/// Makes sure that what was written says what was meant, at every quarter of a second.
fn check(meant: &Scenario, read: &Scenario) -> Result<(), String> {
    for (a, b) in meant.links.iter().zip(&read.links) {
        for (a, b) in [(&a.up, &b.up), (&a.down, &b.down)] {
            let same = |at| {
                let at = netem::Instant::from_millis(at);
                let delay = |model: &LinkModel| match &model.delay {
                    Delay::Fixed(delay) => *delay,
                    Delay::File { series, .. } | Delay::Csv { series, .. } => series.at(at),
                };
                let rate = |model: &LinkModel| match &model.rate {
                    LinkRate::Csv { series, .. } => Some(series.at(at)),
                    _ => None,
                };
                let loss = |model: &LinkModel| model.loss.csv.as_ref().map(|csv| csv.series.at(at));
                (delay(a), rate(a), loss(a)) == (delay(b), rate(b), loss(b))
            };
            let deliveries = |model: &LinkModel| match &model.rate {
                LinkRate::Deliveries { trace, .. } => Some(trace.clone()),
                _ => None,
            };
            let ends = (meant.seconds * 1e3) as u64;
            if deliveries(a) != deliveries(b) || !(0..ends).step_by(250).all(same) {
                return Err(format!("{}: what was written reads back as another", meant.name));
            }
        }
    }
    Ok(())
}
