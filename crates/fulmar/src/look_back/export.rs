//! A flight as CSV: a file for each channel, its columns the fields of the channel's messages.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use record::flight::{Flight, Series};
use record::schema::{Control, Schema};
use serde::Serialize;
use serde_json::Value;

use super::replace;

/// Letters of a file's name; file systems take 255 bytes, with the ending and a number.
const NAME: usize = 200;

/// Writes every channel into a directory; returns how many files these are.
pub(super) fn write(flight: &Flight, directory: &Path) -> Result<usize, String> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("make {}: {error}", directory.display()))?;
    let mut names = BTreeSet::new();
    each(flight, |name, lay_out| {
        let file = directory.join(format!("{}.csv", free(&mut names, &file_name(name))));
        replace(&file, lay_out)
    })?;
    Ok(names.len())
}

/// What writes a channel.
type LayOut<'f> = &'f dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Hands over every channel, one after the other: what it is called, and what writes it.
pub(super) fn each(
    flight: &Flight,
    mut take: impl FnMut(&str, LayOut<'_>) -> Result<(), String>,
) -> Result<(), String> {
    for ((peer, path), samples) in &flight.paths {
        take(&format!("path-{peer}-{path}"), &|out| table(out, samples))?;
    }
    for (peer, messages) in &flight.control {
        take(&format!("control-{peer}"), &|out| table(out, messages))?;
        take(&format!("copies-{peer}"), &|out| copies(out, messages))?;
    }
    for (peer, messages) in &flight.received {
        take(&format!("received-{peer}"), &|out| table(out, messages))?;
    }
    for (peer, samples) in &flight.sessions {
        take(&format!("session-{peer}"), &|out| table(out, samples))?;
    }
    take("events", &|out| table(out, &flight.events))?;
    take("position", &|out| table(out, &flight.positions))
}

/// Lays a channel out. Fields that are structures are not columns: copies have a file of their own.
fn table<T: Schema>(out: &mut dyn Write, series: &Series<T>) -> io::Result<()> {
    let schema = T::schema();
    let is_plain =
        |field: &&(&String, &Value)| !matches!(field.1["type"].as_str(), Some("array" | "object"));
    let fields: Vec<(&String, &Value)> =
        schema["properties"].as_object().into_iter().flatten().collect();
    let names: Vec<&str> = fields.iter().filter(is_plain).map(|(name, _)| name.as_str()).collect();
    writeln!(out, "time_s,{}", names.join(","))?;
    for (at, message) in series {
        out.write_all(row(*at, message, &names).as_bytes())?;
    }
    Ok(())
}

/// Lays the copies of control messages out, a row for each.
fn copies(out: &mut dyn Write, messages: &Series<Control>) -> io::Result<()> {
    let names = ["path", "sent_ms", "arrived_ms", "acked", "lost"];
    writeln!(out, "time_s,number,{}", names.join(","))?;
    for (at, message) in messages {
        for copy in &message.copies {
            let row = row(*at, copy, &names);
            let (time, rest) = row.split_once(',').unwrap_or_default();
            write!(out, "{time},{},{rest}", message.number)?;
        }
    }
    Ok(())
}

fn row(at: u64, message: &impl Serialize, names: &[&str]) -> String {
    let value = serde_json::to_value(message).unwrap_or_default();
    let mut row = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
    for name in names {
        row.push(',');
        match &value[*name] {
            Value::Null => {}
            Value::String(text) => row += &cell(text),
            other => row += &other.to_string(),
        }
    }
    row.push('\n');
    row
}

/// Quotes what would end a cell, and what a spreadsheet would take for a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t']);
    if is_formula || text.contains(['"', ',', '\n', '\r']) {
        let mark = if is_formula { "'" } else { "" };
        return format!("\"{mark}{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Names come from configurations and from records: one part of a path, whatever they are.
fn file_name(name: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let letters = name.chars().take(NAME);
    letters.map(|letter| if kept(letter) { letter } else { '_' }).collect()
}

/// Takes a name that no other channel has, with a number behind it where that is needed.
fn free(names: &mut BTreeSet<String>, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(numbered);
    all.find(|name| names.insert(name.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use record::schema::Event;

    use super::*;

    #[test]
    fn cells_are_quoted_and_names_stay_in_the_directory() {
        let event =
            Event { message: "a, \"b\"".into(), name: "=1+1".into(), level: 2, ..Event::default() };
        let mut text = Vec::new();
        table(&mut text, &vec![(1_500_000_000, event)]).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "time_s,level,message,name,file,line\n1.500000000,2,\"a, \"\"b\"\"\",\"'=1+1\",,0\n"
        );
        assert_eq!(file_name("path-../../etc-10.0.0.1:5"), "path-.._.._etc-10.0.0.1_5");
    }

    #[test]
    fn every_channel_has_a_file_of_its_own_whatever_it_is_called() {
        let mut flight = Flight::default();
        let long = "x".repeat(300);
        for peer in ["a:b", "a_b", "a b", &long, &format!("{long}y"), "../../evil"] {
            flight.paths.insert((peer.into(), "w".into()), Vec::new());
        }
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        fs::write(&kept, "mine").unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        std::os::unix::fs::symlink(&kept, out.join("events.csv")).unwrap();
        assert_eq!(write(&flight, &out), Ok(8));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 8);
        assert_eq!(fs::read(&kept).unwrap(), b"mine", "a link is replaced, and not followed");
    }
}
