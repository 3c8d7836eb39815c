//! The pictures of `lrt-tcp` and `lrt-block`: the distributions of each point, a panel per loss, as
//! the paper draws them [LRT Fig. 5], [LRT Fig. 6]; and of a sweep, what the swept parameter does.

use std::path::Path;

use super::point::{LrtParameters, LrtRow, milliseconds};
use crate::arguments::seeds_shown;
use crate::chart::{Distribution, DistributionChart, SweepCase, SweepChart, SweepCurve};
use crate::report::Mode;
use sys::print::tell;

/// How far the axis of a distribution goes beyond the one-way delay.
const AXIS_MS: f64 = 150.0;

/// Something that a list of the command line varies.
struct Parameter {
    /// What the axis says of it.
    axis: &'static str,
    /// Its value in a row.
    of: fn(&LrtRow) -> Option<f64>,
    /// What the title of a case says of a value.
    name: fn(f64) -> String,
}

/// Everything that can be varied beside the loss, which has a row of panels of its own.
const PARAMETERS: [Parameter; 6] = [
    Parameter {
        axis: "ms from one message to the next",
        of: |row| Some(row.interval_ms),
        name: |ms| format!("every {ms} ms"),
    },
    Parameter {
        axis: "repair symbols per source symbol, at most",
        of: |row| row.redundancy,
        name: |r| format!("r = {r}"),
    },
    Parameter {
        axis: "packets lost in a row, mean",
        of: |row| row.burst_ms.is_none().then_some(row.burst),
        name: |burst| format!("bursts of {burst}"),
    },
    Parameter {
        axis: "ms of a burst of losses, mean",
        of: |row| row.burst_ms,
        name: |ms| format!("bursts of {ms} ms"),
    },
    Parameter {
        axis: "links",
        of: |row| Some(row.paths.into()),
        name: |links| if links > 1.0 { format!("{links} links") } else { "one link".to_owned() },
    },
    Parameter {
        axis: "K, symbols of a coder of the published form",
        of: |row| Some(row.k.into()),
        name: |k| format!("K = {k}"),
    },
];

/// Draws one picture of distributions per point, and one of what varies from point to point.
pub(super) fn draw(
    name: &str,
    mode: Mode,
    points: &[LrtParameters],
    rows: &[LrtRow],
    directory: &Path,
) -> Result<(), String> {
    let each = rows.len() / points.len().max(1);
    for (index, (point, rows)) in points.iter().zip(rows.chunks(each.max(1))).enumerate() {
        let per_loss = rows.chunks(point.schemes.len().max(1));
        let one_way = milliseconds(point.delay);
        let bursts = match point.burst_time {
            Some(time) => format!("{} ms", milliseconds(time)),
            None => point.burst.to_string(),
        };
        let interval = milliseconds(point.interval);
        let links = format!("every {interval} ms, {} link(s), bursts of {bursts}", point.paths);
        let chart = DistributionChart {
            title: format!("{name}: share of the messages delivered, in order, after how long"),
            subtitle: format!("{}; {links}", setting(mode, point)),
            axis_ms: (one_way - 5.0, one_way + AXIS_MS),
            panels: per_loss.map(panel).collect(),
        };
        let file = match points.len() {
            1 => format!("{name}.svg"),
            _ => format!("{name}-{}.svg", index + 1),
        };
        tell(format_args!("picture: {}", chart.write(directory, &file)?.display()));
    }
    match points.first().and_then(|point| sweep(name, mode, point, rows)) {
        Some(chart) => {
            let file = chart.write(directory, &format!("{name}-sweep.svg"))?;
            tell(format_args!("picture: {}", file.display()));
            Ok(())
        }
        None => Ok(()),
    }
}

fn panel(rows: &[LrtRow]) -> (String, Vec<Distribution<'_>>) {
    let loss = rows.first().map_or(0.0, |row| row.loss);
    (lost(loss), rows.iter().map(curve).collect())
}

fn curve(row: &LrtRow) -> Distribution<'_> {
    let p999 = row.p999_ms.as_f64().map_or_else(|| "-".to_owned(), |p999| format!("{p999:.0}"));
    Distribution {
        scheme: row.scheme,
        note: format!(
            "{:.1} % exact, p99.9 {p999} ms, {:.2} sent",
            100.0 * row.exact_share,
            row.sent_per_message
        ),
        delays_ms: &row.delays_ms,
        messages: row.messages,
    }
}

/// Returns the picture of what varies most often; none where nothing but the loss does. What varies
/// beside it makes cases of its own.
fn sweep(name: &str, mode: Mode, point: &LrtParameters, rows: &[LrtRow]) -> Option<SweepChart> {
    let values = |parameter: &Parameter| distinct(rows.iter().filter_map(parameter.of));
    let varied = || PARAMETERS.iter().filter(|parameter| values(parameter).len() > 1);
    // Of equally many the first: max_by_key would take the last.
    let swept = varied().rev().max_by_key(|parameter| values(parameter).len())?;
    let title = |row: &LrtRow| {
        let others = varied().filter(|other| other.axis != swept.axis);
        let others = others.filter_map(|other| Some((other.name)((other.of)(row)?)));
        std::iter::once(lost(row.loss)).chain(others).collect::<Vec<_>>().join(", ")
    };
    let mut cases: Vec<SweepCase> = Vec::new();
    for row in rows {
        let share = format!("{}: without delay", title(row));
        let place = cases.iter().position(|other| other.share == share).unwrap_or(cases.len());
        if place == cases.len() {
            let delay = "one in a thousand takes longer than".to_owned();
            cases.push(SweepCase { share, delay, curves: Vec::new() });
        }
        let curves = &mut cases[place].curves;
        let known = curves.iter().position(|curve| curve.scheme == row.scheme);
        let curve = known.unwrap_or(curves.len());
        if curve == curves.len() {
            curves.push(SweepCurve { scheme: row.scheme, points: Vec::new() });
        }
        let value = (swept.of)(row)?;
        curves[curve].points.push((value, row.exact_share, row.p999_ms.as_f64()));
    }
    Some(SweepChart {
        title: format!("{name}: messages without delay, and the slowest of a thousand"),
        subtitle: setting(mode, point),
        parameter: swept.axis.to_owned(),
        values: values(swept),
        least_ms: milliseconds(point.delay),
        cases,
    })
}

/// Returns each value once, in the order in which they came.
fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}

fn lost(loss: f64) -> String {
    // A tenth of a thousandth is enough, and hides what a binary fraction adds.
    format!("{} % loss", (1e4 * loss).round() / 1e2)
}

/// Says what all points have in common.
fn setting(mode: Mode, point: &LrtParameters) -> String {
    let place = match mode {
        Mode::Sim => "In the deterministic world",
        Mode::Emu => "Real daemons and kernel, emulated links",
    };
    let seeds = seeds_shown(point.seeds);
    format!(
        "{place}: {} messages of {} bytes, links of {} ms and {} Mbit/s, {seeds}",
        point.messages,
        point.bytes,
        milliseconds(point.delay),
        point.rate.as_mbps(),
    )
}

#[cfg(test)]
mod tests {
    use units::{Duration, Rate};

    use super::*;
    use crate::experiment::messages::point::MessageLog;
    use crate::scheme::Scheme;

    fn point(interval_ms: u64, paths: u8) -> LrtParameters {
        LrtParameters {
            schemes: vec![Scheme::FULMAR, Scheme::LRT],
            losses: vec![0.05],
            loss_back: None,
            interval: Duration::from_millis(interval_ms),
            bytes: 1_000,
            messages: 1,
            delay: Duration::from_millis(50),
            rate: Rate::from_mbps(100.0),
            redundancy: None,
            burst: 1.0,
            burst_time: None,
            paths,
            k: 64,
            seeds: (1, 1),
            links: None,
            tolerance: Duration::from_micros(100),
        }
    }

    fn rows(points: &[LrtParameters]) -> Vec<LrtRow> {
        let mut log = MessageLog::new(1);
        log.on_submitted(0, Duration::ZERO);
        log.on_fetched(0, Duration::from_millis(60));
        let logs = [log];
        let of = |point: &LrtParameters| {
            point.schemes.clone().into_iter().map(|s| LrtRow::new(point, s, 0.05, &logs)).collect()
        };
        points.iter().flat_map(|point| -> Vec<LrtRow> { of(point) }).collect()
    }

    #[test]
    fn the_longest_list_is_the_axis_and_the_other_makes_cases() {
        let points =
            [point(2, 1), point(5, 1), point(20, 1), point(2, 2), point(5, 2), point(20, 2)];
        let chart = sweep("lrt-tcp", Mode::Sim, &points[0], &rows(&points)).expect("two lists");
        assert_eq!(chart.values, [2.0, 5.0, 20.0]);
        assert!(chart.parameter.starts_with("ms from one message"), "{}", chart.parameter);
        let titles: Vec<&str> = chart.cases.iter().map(|case| case.share.as_str()).collect();
        assert_eq!(
            titles,
            ["5 % loss, one link: without delay", "5 % loss, 2 links: without delay"]
        );
        for SweepCase { curves, .. } in &chart.cases {
            assert_eq!(curves.len(), 2, "one per scheme");
            assert!(curves.iter().all(|curve| curve.points.len() == 3));
        }
    }

    #[test]
    fn a_run_of_one_point_is_no_sweep() {
        let points = [point(5, 1)];
        assert!(sweep("lrt-tcp", Mode::Sim, &points[0], &rows(&points)).is_none());
    }
}
