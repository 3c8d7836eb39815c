//! A flight as CSV: a file for each channel, its columns the fields of the channel's messages.

use std::fs;
use std::path::Path;

use record::flight::{Flight, Series};
use record::schema::{Control, Schema};
use serde::Serialize;
use serde_json::Value;

use super::write as write_file;

/// Writes every channel into a directory; returns how many files these are.
pub(super) fn write(flight: &Flight, directory: &Path) -> Result<usize, String> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("make {}: {error}", directory.display()))?;
    let files = files(flight);
    for (name, text) in &files {
        write_file(&directory.join(format!("{}.csv", file_name(name))), text.as_bytes())?;
    }
    Ok(files.len())
}

/// Lays every channel out, under what it is called.
pub(super) fn files(flight: &Flight) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for ((peer, path), samples) in &flight.paths {
        files.push((format!("path-{peer}-{path}"), table(samples)));
    }
    for (peer, messages) in &flight.control {
        files.push((format!("control-{peer}"), table(messages)));
        files.push((format!("copies-{peer}"), copies(messages)));
    }
    for (peer, messages) in &flight.received {
        files.push((format!("received-{peer}"), table(messages)));
    }
    for (peer, samples) in &flight.sessions {
        files.push((format!("session-{peer}"), table(samples)));
    }
    files.push(("events".into(), table(&flight.events)));
    files.push(("position".into(), table(&flight.positions)));
    files
}

/// Lays a channel out. Fields that are structures are not columns: copies have a file of their own.
fn table<T: Schema>(series: &Series<T>) -> String {
    let schema = T::schema();
    let is_plain =
        |field: &&(&String, &Value)| !matches!(field.1["type"].as_str(), Some("array" | "object"));
    let fields: Vec<(&String, &Value)> =
        schema["properties"].as_object().into_iter().flatten().collect();
    let names: Vec<&str> = fields.iter().filter(is_plain).map(|(name, _)| name.as_str()).collect();
    let mut text = format!("time_s,{}\n", names.join(","));
    for (at, message) in series {
        text += &row(*at, message, &names);
    }
    text
}

/// Lays the copies of control messages out, a row for each.
fn copies(messages: &Series<Control>) -> String {
    let names = ["path", "sent_ms", "arrived_ms", "acked", "lost"];
    let mut text = format!("time_s,number,{}\n", names.join(","));
    for (at, message) in messages {
        for copy in &message.copies {
            let row = row(*at, copy, &names);
            let (time, rest) = row.split_once(',').unwrap_or_default();
            text += &format!("{time},{},{rest}", message.number);
        }
    }
    text
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
    name.chars().map(|letter| if kept(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use record::schema::Event;

    use super::*;

    #[test]
    fn cells_are_quoted_and_names_stay_in_the_directory() {
        let event =
            Event { message: "a, \"b\"".into(), name: "=1+1".into(), level: 2, ..Event::default() };
        let text = table(&vec![(1_500_000_000, event)]);
        assert_eq!(
            text,
            "time_s,level,message,name,file,line\n1.500000000,2,\"a, \"\"b\"\"\",\"'=1+1\",,0\n"
        );
        assert_eq!(file_name("path-../../etc-10.0.0.1:5"), "path-.._.._etc-10.0.0.1_5");
    }
}
