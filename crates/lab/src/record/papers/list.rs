//! All of it as a list, for a reader of the repository.

use std::fmt::Write;

use super::item::Known;
use super::page::known;
use super::shelf::Shelf;
use super::verdict::number;
use super::{Papers, claim};

const HEAD: &str = "\
# Every figure and table of the four papers

What each shows, what the paper says of it, and the verdict: how many of the figures here agree with the paper's (they lie in the 95 % interval of the
seeds or repetitions), differ, or have no interval, and how many reach what their records say must be. `fulmar-lab report --html DIR` makes a page of it with
every figure beside the paper's, the kernel's and others', with intervals, pictures and commands; `fulmar-lab report experiments/FILE` runs a record again.

Made of [papers.toml](papers.toml) and the records by `fulmar-lab report --list experiments/items.md`, and never typed. In short, and the worst first:
[what is reproduced, and what is not](README.md#what-is-reproduced-and-what-is-not).
";

/// Between these stands the table of what we claim.
const BEGIN: &str = "<!-- claims -->";
const END: &str = "<!-- /claims -->";

/// Returns the list.
pub(super) fn list(papers: &Papers, shelf: &Shelf) -> String {
    let mut text = HEAD.to_owned();
    for (paper, of_paper) in papers.paper.iter().zip(known(papers, shelf)) {
        let tables = match paper.tables {
            0 => String::new(),
            1 => ", 1 table".to_owned(),
            tables => format!(", {tables} tables"),
        };
        let _ = write!(
            text,
            "\n## {}: {} figures{tables} ([README]({}/README.md))\n\n| item | the paper | verdict | shown by |\n| --- | --- | --- | --- |\n",
            paper.key, paper.figures, paper.folder
        );
        let (own, beside) = of_paper.split_at(paper.item.len());
        text.extend(own.iter().map(row));
        text += "\nNot figures, but claimed:\n\n| item | the paper | verdict | shown by |\n| --- | --- | --- | --- |\n";
        text.extend(beside.iter().map(row));
    }
    text
}

/// Returns a text with the table of what we claim in place of what stands between its marks.
///
/// # Errors
/// Says which mark is missing.
pub(super) fn with_claims(text: &str, papers: &Papers, shelf: &Shelf) -> Result<String, String> {
    let missing = |mark: &str| format!("has no line {mark}");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| missing(END))?;
    let mut table = "| claim | ours | verdict |\n| --- | --- | --- |\n".to_owned();
    for judged in claim::all(papers, shelf) {
        let ours = judged.own.and_then(|row| row.now).map_or_else(|| "–".to_owned(), number);
        let says = &judged.claim.says;
        let record = judged.claim.record.display();
        let words = format!("[{says}](experiments/{record})");
        let cells = [words, ours, judged.verdict.words].map(|cell| in_cell(&cell));
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn row(known: &Known<'_>) -> String {
    let item = known.item;
    let mut shown: Vec<String> = Vec::new();
    for (path, _) in &known.records {
        let path = path.display().to_string();
        let name = path.rsplit_once('/').map_or(&path[..], |(_, name)| name);
        shown.push(format!("[{}]({path})", name.trim_end_matches(".toml")));
    }
    for picture in &item.pictures {
        let path = picture.display().to_string();
        let name = path.rsplit_once('/').map_or(&path[..], |(_, name)| name);
        shown.push(format!("[{name}]({path})"));
    }
    if let Some(command) = item.made_by.as_ref().filter(|_| known.records.is_empty()) {
        shown.push(format!("`{command}`"));
    }
    let note = if item.note.is_empty() { String::new() } else { format!(". {}", item.note) };
    let cells = [
        format!("{}: {}", item.name, item.title),
        item.says.clone(),
        format!("{}{note}", known.verdict.words),
        shown.join(", "),
    ];
    let cells = cells.map(|cell| in_cell(&cell));
    format!("| {} |\n", cells.join(" | "))
}

fn in_cell(text: &str) -> String {
    let cell = text.replace('|', "\\|").replace(['\n', '\r'], " ");
    if cell.is_empty() { "–".to_owned() } else { cell }
}
