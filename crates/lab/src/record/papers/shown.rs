//! An item on the page: its table, pictures, how it was made, and what can be taken home.

use std::fmt::Write;
use std::path::Path;

use super::data;
use super::html::{anchor, cell, download, prose, safe, table, verdict};
use super::item::{Column, Known, Measured, TableRow};
use super::shelf::{Origin, Shelf, Told};
use super::verdict::{Verdict, number};
use crate::record::row::Row;
use crate::report::Mode;

/// Writes an item.
pub(super) fn item(paper: &str, known: &Known<'_>, shelf: &Shelf) -> String {
    let item = known.item;
    let mut text = format!(
        "<article id=\"{}\"><h3>{} <span class=\"soft\">{}</span></h3>\n<p>{}</p>\n",
        id(paper, &item.name),
        safe(&item.name),
        prose(&item.title),
        verdict(&known.verdict)
    );
    if !item.says.is_empty() {
        let _ =
            writeln!(text, "<p><b>The paper:</b> {}.</p>", prose(item.says.trim_end_matches('.')));
    }
    text += &figures(known);
    text += &checks(known);
    for picture in &item.pictures {
        text += &drawn(paper, known, picture, shelf);
    }
    if !item.note.is_empty() {
        let _ =
            writeln!(text, "<p><b>To know:</b> {}.</p>", prose(item.note.trim_end_matches('.')));
    }
    for why in &known.faults {
        let _ = writeln!(text, "<p class=\"bad\">{}</p>", safe(why));
    }
    text += &provenance(paper, known, shelf);
    text + "</article>\n"
}

/// Returns what names an item's place.
pub(super) fn id(paper: &str, item: &str) -> String {
    anchor(&format!("{paper} {item}"))
}

/// Says how many of an item's records somebody vouches for.
pub(super) fn vouched(known: &Known<'_>) -> String {
    let all = known.records.len();
    let sound = known.records.iter().filter(|(_, told)| told.unvouched.is_empty()).count();
    match (all, sound) {
        (0, _) if known.item.why_not.is_some() => {
            "<span class=\"soft\">nothing to vouch for</span>".to_owned()
        }
        (0, _) => "computed or drawn".to_owned(),
        _ if all == sound => format!("{all} of {all} records"),
        _ => format!(
            "{sound} of {all} records <span class=\"soft\">(the others: another state of the code, or no audit)</span>"
        ),
    }
}

/// Writes a figure with its interval, or why it has none.
pub(super) fn value(row: &Row) -> String {
    let Some(now) = row.now else {
        return "<span class=\"bad\">did not come out</span>".to_owned();
    };
    let mut text = format!("<b>{}</b>", number(now));
    if row.error > 0.0 {
        let _ = write!(text, " ± {}", number(row.error));
    }
    if let Some((of, (low, high))) = row.compared.zip(row.interval) {
        let between = format!("{} to {}", number(low), number(high));
        let is_other = (of - now).abs() > 1e-6 * now.abs();
        let _ = if is_other {
            write!(text, " <span class=\"soft\">(seeds: {}, {between})</span>", number(of))
        } else {
            write!(text, " <span class=\"soft\">({between})</span>")
        };
    }
    text
}

/// Says in short how a record was made.
pub(super) fn made(path: &str, told: &Told) -> String {
    let record = &told.record;
    let mut text = String::new();
    let run = match record.pairs.as_ref() {
        Some(pairs) => format!("read from a table, which is made by: {}", pairs.made_by),
        None => format!("fulmar-lab run {}", record.run.join(" ")),
    };
    let _ = write!(text, "<code>fulmar-lab report experiments/{}</code>", safe(path));
    let _ = write!(text, "<br><code>{}</code><br>", safe(&run));
    let _ = write!(text, "{}; seeds: {}; ", life(told), safe(&seeds(&record.run)));
    match &record.recorded {
        Some(made) => {
            let _ = write!(text, "recorded {}", safe(&made.to_string()));
        }
        None => text += "nothing says when it was recorded",
    }
    text += match told.origin {
        Origin::Table => "; figures of the table",
        Origin::Run => "; figures of a run kept by this program",
        Origin::Result => "; figures with the result beside the record",
        Origin::Record => "; figures of the record alone, whose intervals were not kept",
    };
    let audit = match (told.mode, &told.account) {
        (Mode::Sim, _) => "none needed: virtual time is exact".to_owned(),
        (Mode::Emu, Some(account)) if !account.is_empty() => account.clone(),
        (Mode::Emu, _) => "not kept; only a run that it holds valid is recorded".to_owned(),
    };
    let _ = write!(text, "; audit: {}", safe(&audit));
    for why in &told.unvouched {
        let _ = write!(text, "<br><span class=\"unsure\">not vouched for: {}</span>", safe(why));
    }
    text
}

/// Writes the table of an item's figures, the columns that nothing is in left out and named below.
fn figures(known: &Known<'_>) -> String {
    if known.rows.is_empty() {
        return String::new();
    }
    let (there, lacking): (Vec<Column>, Vec<Column>) =
        Column::ALL.into_iter().partition(|column| known.has(*column));
    let headings: Vec<&str> =
        std::iter::once("figure").chain(there.iter().map(|column| column.title())).collect();
    let row = |row: &TableRow<'_>| {
        let point =
            if row.point.is_empty() { String::new() } else { format!("<br>{}", safe(&row.point)) };
        let title =
            if row.title.is_empty() { String::new() } else { format!("{}<br>", safe(&row.title)) };
        let name = format!("<th scope=\"row\">{title}<code>{}</code>{point}</th>", safe(row.key));
        let cells = there.iter().map(|column| cell(column.title(), &content(row, *column)));
        name + &cells.collect::<String>()
    };
    let rows: Vec<String> = known.rows.iter().map(row).collect();
    let reasons: Vec<String> = lacking
        .iter()
        .map(|column| format!("{}: {}", column.title(), column.why_empty()))
        .collect();
    let below = if reasons.is_empty() {
        String::new()
    } else {
        format!("<p class=\"soft\">No column for {}.</p>\n", reasons.join("; "))
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"table\">{}</div>\n{below}",
        table(&headings, &rows)
    )
}

fn content(row: &TableRow<'_>, column: Column) -> String {
    if !row.has(column) {
        return format!("<span class=\"soft\">{}</span>", column.why_empty());
    }
    let line = |text: String| format!("<div>{text}</div>");
    let printed = |all: &[(String, String)]| {
        let one = |(value, of): &(String, String)| {
            line(format!("<b>{}</b> <span class=\"soft\">{}</span>", safe(value), safe(of)))
        };
        all.iter().map(one).collect::<String>()
    };
    match column {
        Column::Paper => printed(&row.paper),
        Column::Theory => printed(&row.theory),
        _ => {
            let own = row.values.iter().filter(|value| value.column == column);
            let mut told: Vec<&str> = Vec::new();
            let mut text = String::new();
            for one in own {
                // A reason that several have is given once.
                let why = one.row.why.as_deref().filter(|why| !told.contains(why));
                told.extend(why);
                text += &line(measured(one, why));
            }
            text
        }
    }
}

fn measured(one: &Measured<'_>, why: Option<&str>) -> String {
    let life =
        if one.column != Column::Sim && one.mode == Mode::Sim { ", virtual time" } else { "" };
    let of = one.row.paper_scheme.as_ref().filter(|of| **of != one.figure.scheme);
    let of = of.map_or_else(String::new, |of| format!(" for {of}"));
    let setting = if one.setting.is_empty() { String::new() } else { format!(", {}", one.setting) };
    let who = format!("{}{of}{setting}{life}", one.figure.scheme);
    let mut text = format!("{} <span class=\"soft\">{}</span>", value(one.row), safe(&who));
    for judged in &one.verdicts {
        let _ = write!(text, "<br>{}", verdict(judged));
    }
    if let Some(why) = why {
        let _ = write!(text, "<br><span class=\"soft\">{}</span>", prose(why));
    }
    text
}

/// Writes what equations give beside what the paper prints.
fn checks(known: &Known<'_>) -> String {
    let row = |check: &models::Check| {
        let judged = Verdict::of_check(check, known.item.fitted.as_deref());
        let judged = judged.as_ref().map_or_else(
            || "<span class=\"soft\">the paper prints none</span>".to_owned(),
            verdict,
        );
        let paper = check
            .paper
            .map_or_else(|| "<span class=\"soft\">prints none</span>".to_owned(), number);
        let note = if check.note.is_empty() {
            String::new()
        } else {
            format!("<br><span class=\"soft\">{}</span>", prose(check.note))
        };
        [
            cell("equation", &safe(check.source)),
            cell("figure", &safe(&check.what)),
            cell("the paper", &paper),
            cell("ours", &format!("<b>{}</b>", number(check.ours))),
            cell("verdict", &(judged + &note)),
        ]
        .concat()
    };
    let rows: Vec<String> = known.checks.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let fitted = known.item.fitted.as_ref();
    let fitted = fitted.map(|why| format!("<p>Not testable: {}.</p>\n", prose(why)));
    let headings = ["equation", "figure", "the paper", "ours", "verdict"];
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"table\">{}</div>\n{}",
        table(&headings, &rows),
        fitted.unwrap_or_default()
    )
}

/// Writes a picture into the page.
fn drawn(paper: &str, known: &Known<'_>, picture: &Path, shelf: &Shelf) -> String {
    let name = picture.display().to_string();
    let svg = match shelf.text(picture) {
        Ok(text) if text.trim_start().starts_with("<svg") => text,
        Ok(_) => return format!("<p class=\"bad\">{}: is no picture</p>\n", safe(&name)),
        Err(why) => return format!("<p class=\"bad\">{}</p>\n", safe(&why)),
    };
    let alt = format!("{paper} {}: {}", known.item.name, known.item.title);
    let address = data::address("image/svg+xml", &svg);
    format!(
        "<figure><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"picture\"><img src=\"{address}\" alt=\"{}\"></div>\n<figcaption>{}</figcaption></figure>\n",
        safe(&alt),
        download(&name.replace('/', "-"), &address)
    )
}

/// Says how an item was made, and gives what can be taken home.
fn provenance(paper: &str, known: &Known<'_>, shelf: &Shelf) -> String {
    let item = known.item;
    let mut text = String::new();
    if let Some(made_by) = &item.made_by {
        let what = if item.pictures.is_empty() { "Made by" } else { "Picture by" };
        let _ = writeln!(text, "<p><b>{what}:</b> <code>{}</code></p>", safe(made_by));
    }
    if !known.records.is_empty() {
        let count = known.records.len();
        let _ = writeln!(
            text,
            "<details><summary>How it was made: {count} record{}</summary>",
            if count == 1 { "" } else { "s" }
        );
        for (path, told) in &known.records {
            let path = path.display().to_string();
            let _ = writeln!(
                text,
                "<p class=\"made\"><b><a href=\"#r-{}\">{}</a>:</b> {}</p>",
                anchor(&path),
                safe(&path),
                made(&path, told)
            );
        }
        text += "</details>\n";
    }
    let mut files = Vec::new();
    if !known.rows.is_empty() || !known.checks.is_empty() {
        let name = format!("{}.csv", id(paper, &item.name));
        files.push(download(&name, &data::address("text/csv", &data::csv(paper, known))));
    }
    for table in &item.data {
        files.push(match shelf.text(table) {
            Ok(csv) => download(
                &table.display().to_string().replace('/', "-"),
                &data::address("text/csv", &csv),
            ),
            Err(why) => format!("<span class=\"bad\">{}</span>", safe(&why)),
        });
    }
    if !files.is_empty() {
        let _ = writeln!(text, "<p><b>Take home:</b> {}</p>", files.join(", "));
    }
    text
}

fn life(told: &Told) -> &'static str {
    match (told.origin, told.mode) {
        (Origin::Table, _) => "a table",
        (_, Mode::Sim) => "virtual time",
        (_, Mode::Emu) => "the kernel",
    }
}

/// Says which seeds, or how many repetitions, a run has.
fn seeds(words: &[String]) -> String {
    let after = |name: &str| {
        let place = words.iter().position(|word| word == name)?;
        words.get(place + 1)
    };
    match (after("--seeds"), after("--seed"), after("--repetitions")) {
        (Some(seeds), ..) => seeds.clone(),
        (_, Some(seed), _) => seed.clone(),
        (.., Some(count)) => format!("{count} repetitions"),
        _ => "those of the experiment".to_owned(),
    }
}
