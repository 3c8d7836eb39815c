//! A flight as one page: no script, nothing from the network, and a policy that allows neither.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use record::flight::{Flight, Series};
use record::schema::{Path, Position};
use ring::digest::{SHA256, digest};

use super::plot::{Plot, Points, Stretches, bands, escaped, legend, track};
use super::summary::{Episode, Summary, seconds};

const STYLE: &str = include_str!("style.css");
/// Misses and events that a page lists, each; CSV has them all.
const LISTED: usize = 5_000;
/// Metres of a degree of latitude, on a sphere of the earth's mean radius (6,371,009 m).
const METRES_PER_DEGREE: f64 = 111_195.0;

/// What a curve shows of a sample.
type Quantity = fn(&Path) -> Option<f64>;

/// Returns the page.
pub(super) fn page(flight: &Flight, summary: &Summary) -> String {
    let hash = BASE64.encode(digest(&SHA256, STYLE.as_bytes()));
    let title = escaped(&format!("Flight of {} ({})", summary.began, summary.role));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    page += &head(summary);
    page += "<h2>Links</h2>\n";
    page += &rows_table(&summary.path_rows());
    let (began, ended) = flight.span().unwrap_or_default();
    let whole = seconds(began, ended);
    let mut peers: Vec<&String> = flight.paths.keys().map(|(peer, _)| peer).collect();
    peers.dedup();
    for peer in peers {
        page += &links(flight, peer, began, whole);
    }
    page += &misses(flight, summary, began);
    page += &track_of(flight);
    page += &events(flight, began);
    page + "</body></html>\n"
}

/// Says how it went, in a few lines.
fn head(summary: &Summary) -> String {
    let mut text = format!(
        "<p>{:.1} s, {} events, {} positions; recorded by fulmar {}.</p>\n",
        summary.seconds,
        summary.events,
        summary.positions,
        escaped(&summary.version)
    );
    for control in &summary.control {
        let mark = if control.missed > 0 { " class=\"bad\"" } else { "" };
        let delay = control.delay_p50_ms.map_or(String::new(), |p50| {
            let p99 = control.delay_p99_ms.unwrap_or_default();
            format!(" The delay was {p50:.1} ms, p99 {p99:.1} ms.")
        });
        let _ = writeln!(
            text,
            "<p{mark}>Of {} control messages to {}, {} missed their 100 ms.{delay}</p>",
            control.messages,
            escaped(&control.peer),
            control.missed
        );
    }
    for (file, why) in &summary.cut {
        let _ = writeln!(text, "<p class=\"bad\">{} was cut: {}.</p>", escaped(file), escaped(why));
    }
    if summary.dropped > 0 {
        let _ = writeln!(text, "<p class=\"bad\">{} notes were not recorded.</p>", summary.dropped);
    }
    text
}

/// Draws the paths of one peer over time.
fn links(flight: &Flight, peer: &str, began: u64, whole: f64) -> String {
    let paths = flight.paths_in_order().into_iter().filter(|(of, _)| *of == peer);
    let paths: Vec<&Series<Path>> = paths.map(|(_, samples)| samples).collect();
    let name = |samples: &Series<Path>| {
        samples.last().map_or(String::new(), |(_, last)| last.name.clone())
    };
    let names: Vec<String> = paths.iter().map(|samples| name(samples)).collect();
    let misses = flight.control.get(peer).into_iter().flatten();
    let marks: Vec<f64> =
        misses.filter(|(_, it)| it.missed).map(|(at, _)| seconds(began, *at)).collect();
    let mut text = format!("<h2>Paths to {} over time</h2>\n", escaped(peer));
    text += &legend(names.iter().map(String::as_str));
    text += "<p class=\"soft\">Upright lines are control messages that missed their 100 ms.</p>\n";
    let rows: Vec<_> =
        paths.iter().map(|samples| (name(samples), stretches(samples, began))).collect();
    text += "<h3>State: active, validating, suspected or absent</h3>\n";
    text += &bands(&rows, whole);
    let quantities: [(&str, f64, Quantity); 5] = [
        ("Round trip, ms", 10.0, |path| path.srtt_ms),
        ("One-way delay of control to the peer, ms", 10.0, |path| path.delay_out_ms),
        ("Loss to the peer, percent", 5.0, |path| Some(path.loss_out * 100.0)),
        ("Sent, Mbit/s", 0.01, |path| Some(path.out_mbps)),
        ("Received, Mbit/s", 0.01, |path| Some(path.in_mbps)),
    ];
    for (title, least_top, value) in quantities {
        let points = |samples: &Series<Path>| -> Points {
            let known = samples.iter();
            known.filter_map(|(at, it)| Some((seconds(began, *at), value(it)?))).collect()
        };
        let curves = paths.iter().map(|samples| (name(samples), points(samples))).collect();
        let _ = writeln!(text, "<h3>{title}</h3>");
        text += &Plot { title, least_top, seconds: whole, curves, marks: &marks }.svg();
    }
    text
}

/// Joins samples of one state.
fn stretches(samples: &Series<Path>, began: u64) -> Stretches {
    let mut joined = Stretches::new();
    for (at, sample) in samples {
        let now = seconds(began, *at);
        match joined.last_mut() {
            Some((_, to, state)) if *state == sample.state => *to = now,
            last => {
                if let Some((_, to, _)) = last {
                    *to = now;
                }
                joined.push((now, now, sample.state.clone()));
            }
        }
    }
    joined
}

/// Lists every miss with its cause, by episode.
fn misses(flight: &Flight, summary: &Summary, began: u64) -> String {
    let mut text = String::from("<h2>Misses</h2>\n");
    for control in &summary.control {
        if control.missed == 0 {
            let _ = writeln!(text, "<p>None to {}.</p>", escaped(&control.peer));
            continue;
        }
        let mut listed = 0;
        let of_peer = flight.control.get(&control.peer).into_iter().flatten();
        let mut of_peer = of_peer.filter(|(_, message)| message.missed);
        for Episode { from_s, to_s, misses, why } in &control.episodes {
            if listed == LISTED {
                break;
            }
            let open = if *misses == 1 { " open" } else { "" };
            let _ = writeln!(
                text,
                "<details{open}><summary>{from_s:.2} to {to_s:.2} s: {misses} to {}, first: {}</summary>\n<div \
                 class=\"wide\"><table><tr><th>at</th><th>class</th><th>message</th><th>outcome</th><th>why</th></tr>",
                escaped(&control.peer),
                escaped(why)
            );
            // Episodes are the misses in their order.
            for (at, message) in of_peer.by_ref().take(*misses) {
                if listed == LISTED {
                    break;
                }
                let second = seconds(began, *at);
                listed += 1;
                let what = message.mavlink.map_or_else(
                    || format!("{} bytes", message.bytes),
                    crate::daemon::message_name,
                );
                let _ = writeln!(
                    text,
                    "<tr><td class=\"n\">{second:.3} s</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escaped(&message.class),
                    escaped(&what),
                    escaped(&message.outcome),
                    escaped(&message.why)
                );
            }
            text += "</table></div></details>\n";
        }
        if control.missed > listed {
            let more = control.missed - listed;
            let _ = writeln!(
                text,
                "<p>{more} more are in what <code>fulmar record export</code> writes.</p>"
            );
        }
    }
    text
}

/// Draws where the vehicle was, and where it was at each miss.
fn track_of(flight: &Flight) -> String {
    let mut text = String::from("<h2>Track</h2>\n");
    let Some((_, first)) = flight.positions.first() else {
        return text
            + "<p class=\"soft\">No position was recorded: none of MAVLink's GLOBAL_POSITION_INT passed.</p>\n";
    };
    let is_same = |position: &&(u64, Position)| position.1.frame_id == first.frame_id;
    let positions: Vec<&(u64, Position)> = flight.positions.iter().filter(is_same).collect();
    let width = METRES_PER_DEGREE * first.latitude.to_radians().cos();
    let metres = |position: &Position| {
        let east = (position.longitude - first.longitude) * width;
        (east, (position.latitude - first.latitude) * METRES_PER_DEGREE)
    };
    let points: Points = positions.iter().map(|(_, position)| metres(position)).collect();
    let missed = flight.control.values().flatten().filter(|(_, message)| message.missed);
    let at = |moment: u64| {
        let place = positions.partition_point(|(at, _)| *at <= moment).saturating_sub(1);
        metres(&positions[place].1)
    };
    let misses: Points = missed.map(|(moment, _)| at(*moment)).collect();
    let _ = writeln!(
        text,
        "<p class=\"soft\">System {}; the ring is where the record begins ({:.6}°, {:.6}°), dots are where control was \
         missed.</p>",
        escaped(&first.frame_id),
        first.latitude,
        first.longitude
    );
    text + &track(&points, &misses)
}

fn events(flight: &Flight, began: u64) -> String {
    let mut text = String::from("<h2>Events</h2>\n<div class=\"wide\"><table>\n");
    for (at, event) in flight.events.iter().filter(|(_, event)| event.level > 1).take(LISTED) {
        let mark = if event.level > 2 { " class=\"bad\"" } else { "" };
        let _ = writeln!(
            text,
            "<tr><td class=\"n\">{:.3} s</td><td>{}</td><td{mark}>{}</td></tr>",
            seconds(began, *at),
            escaped(&event.name),
            escaped(&event.message)
        );
    }
    text + "</table></div>\n"
}

fn rows_table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>\n");
    for (place, row) in rows.iter().enumerate() {
        let tag = if place == 0 { "th" } else { "td" };
        let cells: Vec<String> =
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        let _ = writeln!(text, "<tr>{}</tr>", cells.concat());
    }
    text + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use record::schema::{Control, Event};

    use super::*;

    #[test]
    fn nothing_of_a_record_becomes_markup_and_the_page_loads_nothing() {
        let mut flight = Flight::default();
        let evil = "<script src=\"http://x\">'&".to_owned();
        let message =
            Control { missed: true, why: evil.clone(), class: evil.clone(), ..Control::default() };
        flight.control.insert(evil.clone(), vec![(2_000_000_000, message)]);
        let sample = Path { name: evil.clone(), state: evil.clone(), ..Path::default() };
        flight.paths.insert((evil.clone(), evil.clone()), vec![(1_000_000_000, sample)]);
        let event =
            Event { level: 3, message: evil.clone(), name: evil.clone(), ..Event::default() };
        flight.events.push((1_500_000_000, event));
        flight.positions.push((1, Position { frame_id: evil.clone(), ..Position::default() }));
        flight.cut.insert(evil.clone(), evil.clone());
        flight.info.insert("role".into(), evil.clone());
        flight.info.insert("version".into(), evil);
        let page = page(&flight, &Summary::of(&flight));
        assert!(!page.contains("<script") && !page.contains("src=\"http"));
        assert!(page.contains("default-src 'none'; style-src 'sha256-"));
        assert!(page.contains("&lt;script"));
    }
}
