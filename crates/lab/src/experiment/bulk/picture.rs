//! The pictures: goodput over time, a picture for each point, a panel for each congestion control.

use std::path::Path;

use super::flow::BulkRun;
use super::point::Scene;
use crate::chart::{Panel, TimeChart, TimeCurve, style};
use crate::scheme::Scheme;
use sys::print::tell;

/// A scene under a congestion control, with what each scheme made of it.
pub(super) type Drawn<'a> = (&'a Scene, &'static str, Vec<SchemeRun>);

/// What a scheme made of a scene, or why it could not run.
pub(super) type SchemeRun = (Scheme, Result<BulkRun, String>);

/// Writes the pictures of the first repetition into a directory, which is made.
///
/// # Errors
/// Says which path could not be written, and why.
pub(super) fn write(directory: &Path, experiment: &str, drawn: &[Drawn<'_>]) -> Result<(), String> {
    for (number, (scene, ..)) in drawn.iter().enumerate() {
        let name = scene.name();
        let same = |other: &&Drawn<'_>| other.0.name() == name;
        if drawn[..number].iter().any(|other| same(&other)) {
            continue;
        }
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let file: String = name.chars().map(safe).collect();
        let chart = TimeChart {
            title: format!("{experiment}, {name}: goodput of half seconds"),
            subtitle: format!(
                "{}, {}; shaded: links are silent",
                if scene.flows == 1 { "One TCP flow" } else { "Two TCP flows together" },
                scene.ceiling_text()
            ),
            seconds: scene.seconds,
            spans: scene.silence.into_iter().collect(),
            panels: drawn.iter().filter(same).map(panel).collect(),
        };
        tell(format_args!(
            "picture: {}",
            chart.write(directory, &format!("{file}.svg"))?.display()
        ));
    }
    Ok(())
}

fn panel((_, cc, runs): &Drawn<'_>) -> Panel {
    let curve = |(scheme, run): &SchemeRun| {
        let points = run.as_ref().ok()?.flow.curve();
        Some(TimeCurve { name: scheme.name().to_owned(), colour: style(*scheme).0, points })
    };
    Panel { title: format!("{cc}, Mbit/s"), curves: runs.iter().filter_map(curve).collect() }
}
