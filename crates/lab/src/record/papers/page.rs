//! All of it as one page: no script, nothing from the network, and a policy that allows neither.
//!
//! ```text
//! what we claim, and where we fall short    in front
//! every item and its verdict                a row each
//! each paper, item by item                  shown.rs
//! the scorecard, bars, records              behind
//! ```

use std::fmt::Write;

use super::claim::{self, Judged};
use super::html::{anchor, cell, download, prose, safe, table, verdict};
use super::item::Known;
use super::shelf::{Book, Origin, Shelf, Told};
use super::verdict::{Tone, Verdict};
use super::{Papers, data, shown};
use crate::scorecard;
use crate::sweep::CODE;

const STYLE: &str = include_str!("style.css");
/// The card, from the folder of the records.
const CARD: &str = "scorecard.toml";

/// Returns the page.
pub(super) fn page(papers: &Papers, shelf: &Shelf) -> String {
    let all = known(papers, shelf);
    let title = "Four papers, and what comes here";
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style></head><body>\n<header><h1>{title}</h1>\n"
    );
    page += &head(papers, &all, shelf);
    page += "</header>\n<main>\n";
    page += &faults(shelf);
    page += &claims(papers, shelf);
    page += &items(&all);
    for (paper, of_paper) in papers.paper.iter().zip(&all) {
        let id = anchor(&paper.key);
        let _ = writeln!(page, "<section id=\"{id}\"><h2>{}</h2>", safe(&paper.key));
        let (own, beside) = of_paper.split_at(paper.item.len());
        for known in own {
            page += &shown::item(&paper.key, known, shelf);
        }
        if !beside.is_empty() {
            page += "<h3 class=\"part\">Not figures, but claimed</h3>\n";
        }
        for known in beside {
            page += &shown::item(&paper.key, known, shelf);
        }
        page += "</section>\n";
    }
    page += &card(shelf);
    page += &short(shelf);
    page += &records(shelf);
    page + "</main></body></html>\n"
}

/// Gathers every item of every paper, those beside the numbered ones last.
pub(super) fn known<'a>(papers: &'a Papers, shelf: &'a Shelf) -> Vec<Vec<Known<'a>>> {
    let of_paper = |paper: &'a super::Paper| {
        let items = paper.item.iter().chain(&paper.beside);
        items.map(|item| Known::of(papers, paper, item, shelf)).collect()
    };
    papers.paper.iter().map(of_paper).collect()
}

/// How verdicts are read.
const HOW: &str = "<p class=\"soft\">Verdicts are computed. <b>Agrees</b>: the paper's figure lies in the 95 % interval of the seeds (or repetitions), which stands \
in brackets. <b>Differs</b>: it does not, and by how much of it the median lies off. <b>Not decided</b>: the interval holds as well that there is nothing in the claim. \
<b>Not testable</b>: ours was fitted to it, or is so by construction. <b>No interval</b>: one run, fewer than six seeds, or the result was not kept. <b>Reaches</b>, \
<b>falls short of</b>: what a record says must be. <b>Ahead of</b>, <b>behind</b>: others over the same links in the same run. <b>Vouched for</b>: by the code of this \
program, in a run that the audit does not refuse.</p>\n";

/// Says what this is, and where to find what.
fn head(papers: &Papers, all: &[Vec<Known<'_>>], shelf: &Shelf) -> String {
    let told: Vec<&Told> = shelf.books().filter_map(|book| book.told.as_ref().ok()).collect();
    let of_origin = |origin| told.iter().filter(|told| told.origin == origin).count();
    let vouched = told.iter().filter(|told| told.unvouched.is_empty()).count();
    let items: usize = all.iter().map(Vec::len).sum();
    let links = papers.paper.iter().map(|paper| (anchor(&paper.key), &paper.key[..]));
    let front = [
        ("short", "Where we fall short"),
        ("claims", "What we claim"),
        ("items", "All figures and tables"),
    ];
    let back = [("card", "Scorecard"), ("bars", "Bars not reached"), ("records", "Records")];
    let own = |(id, name): (&'static str, &'static str)| (id.to_owned(), name);
    let links = front.map(own).into_iter().chain(links).chain(back.map(own));
    let links: String =
        links.map(|(id, name)| format!("<a href=\"#{id}\">{}</a>\n", safe(name))).collect();
    format!(
        "<p>Every figure and table of four papers, and what else they claim, beside what comes here: {items} entries of {} records, made by \
         <code>fulmar-lab report --html</code> without running anything. Of {} a run by this program is kept, of {} a result, of {} a table, of {} the figures \
         alone, without intervals; {vouched} are by the code of this program, {CODE} (version {}).</p>\n<nav>{links}</nav>\n",
        told.len(),
        of_origin(Origin::Run),
        of_origin(Origin::Result),
        of_origin(Origin::Table),
        of_origin(Origin::Record),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Lists what cannot be read or believed.
fn faults(shelf: &Shelf) -> String {
    let line = |book: &Book| {
        let faults = match &book.told {
            Ok(told) => told.faults.clone(),
            Err(why) => vec![why.clone()],
        };
        let named = |why: String| {
            format!(
                "<li><code>{}</code>: {}</li>\n",
                safe(&book.path.display().to_string()),
                safe(&why)
            )
        };
        faults.into_iter().map(named).collect::<String>()
    };
    let lines: String = shelf.books().map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "<section id=\"faults\"><h2>What is wrong with what is kept</h2>\n<ul class=\"bad\">\n{lines}</ul></section>\n"
    )
}

/// Sets out what we claim: what falls short first.
fn claims(papers: &Papers, shelf: &Shelf) -> String {
    let judged = claim::all(papers, shelf);
    let headings = ["claim", "ours", "verdict", "record"];
    let row = |judged: &Judged<'_>| {
        let record = judged.claim.record.display().to_string();
        let link = format!("<a href=\"#r-{}\">{}</a>", anchor(&record), safe(&record));
        // A record that is not there has no place on the page.
        let is_there = shelf.books().any(|book| book.path == judged.claim.record);
        [
            cell("claim", &prose(&judged.claim.says)),
            cell("ours", &judged.own.map_or_else(|| "no figure".to_owned(), shown::value)),
            cell("verdict", &verdict(&judged.verdict)),
            cell("record", &if is_there { link } else { safe(&record) }),
        ]
        .concat()
    };
    let (short, holds): (Vec<_>, Vec<_>) =
        judged.iter().partition(|judged| judged.verdict.tone == Tone::Bad);
    let rows = |part: Vec<&Judged<'_>>| part.into_iter().map(row).collect::<Vec<_>>();
    let (short, holds) = (rows(short), rows(holds));
    format!(
        "<section id=\"short\"><h2>Where we fall short</h2>\n<p>Of {} claims {} fall short; <a href=\"#bars\">all bars that are not reached</a>, and \
         <a href=\"#card\">where somebody else is better</a>, stand below.</p>\n{}</section>\n\
         <section id=\"claims\"><h2>What we claim</h2>\n{}</section>\n",
        judged.len(),
        short.len(),
        if short.is_empty() { "<p>None does.</p>".to_owned() } else { table(&headings, &short) },
        table(&headings, &holds),
    )
}

/// Lists every item with its verdict.
fn items(all: &[Vec<Known<'_>>]) -> String {
    let mut rows = Vec::new();
    for (paper, known) in all.iter().flatten().map(|known| (&known.paper.key, known)) {
        if known.is_beside {
            continue;
        }
        let id = shown::id(paper, &known.item.name);
        let name = format!("<a href=\"#{id}\">{} {}</a>", safe(paper), safe(&known.item.name));
        rows.push(
            [
                cell("item", &name),
                cell("shows", &prose(&known.item.title)),
                cell("verdict", &verdict(&known.verdict)),
                cell("vouched for", &shown::vouched(known)),
            ]
            .concat(),
        );
    }
    let count = rows.len();
    format!(
        "<section id=\"items\"><h2>All {count} figures and tables</h2>\n{HOW}{}</section>\n",
        table(&["item", "shows", "verdict", "vouched for"], &rows)
    )
}

/// Says where the scorecard has somebody ahead of us.
fn card(shelf: &Shelf) -> String {
    let title = "<section id=\"card\"><h2>The scorecard: where somebody else is better</h2>\n";
    let (count, behind) = match scorecard::behind_of(&shelf.place(CARD.as_ref())) {
        Ok(found) => found,
        Err(why) => {
            return format!("{title}<p class=\"bad\">No card: {}</p></section>\n", safe(&why));
        }
    };
    let row = |(place, ours, rival, theirs): &(String, String, &str, String)| {
        [
            cell("scene, point, scheme, figure", &format!("<code>{}</code>", safe(place))),
            cell("ours", &safe(ours)),
            cell("who is better", &safe(rival)),
            cell("theirs", &safe(theirs)),
        ]
        .concat()
    };
    let rows: Vec<String> = behind.iter().map(row).collect();
    format!(
        "{title}<p>In {} of {count} figures of ours plain copies, one path at a time or plain UDP do better by more than the seeds differ, and miss no more; \
         medians, in brackets the seeds' span.</p>\n{}</section>\n",
        behind.len(),
        table(&["scene, point, scheme, figure", "ours", "who is better", "theirs"], &rows)
    )
}

/// Lists every figure of a record that does not reach what it must.
fn short(shelf: &Shelf) -> String {
    let mut rows = Vec::new();
    for book in shelf.books() {
        for (figure, row) in book.told.iter().flat_map(Told::figures).filter(|(_, row)| !row.met) {
            let Some(judged) = Verdict::of_bar(figure, row) else { continue };
            let why = row.unreached.as_deref().unwrap_or("nothing says why");
            let path = book.path.display().to_string();
            rows.push(
                [
                    cell(
                        "record",
                        &format!("<a href=\"#r-{}\">{}</a>", anchor(&path), safe(&path)),
                    ),
                    cell(
                        "figure",
                        &format!("{} <code>{}</code>", safe(&row.scheme), safe(&row.key)),
                    ),
                    cell("ours", &shown::value(row)),
                    cell("verdict", &verdict(&judged)),
                    cell("why", &prose(why)),
                ]
                .concat(),
            );
        }
    }
    format!(
        "<section id=\"bars\"><h2>Bars that are not reached</h2>\n<p>{} of all records.</p>\n{}</section>\n",
        rows.len(),
        table(&["record", "figure", "ours", "verdict", "why"], &rows)
    )
}

/// Lists the records, with what made them.
fn records(shelf: &Shelf) -> String {
    let row = |book: &Book| {
        let path = book.path.display().to_string();
        let name = path.replace('/', "-");
        let file = download(&name, &data::address("application/toml", &book.text));
        let (title, made) = match &book.told {
            Ok(told) => (prose(&told.record.title), shown::made(&path, told)),
            Err(why) => ("unknown".to_owned(), format!("<span class=\"bad\">{}</span>", safe(why))),
        };
        let id = format!("<span id=\"r-{}\">{}</span>", anchor(&path), safe(&path));
        [cell("record", &id), cell("shows", &title), cell("made", &made), cell("take home", &file)]
            .concat()
    };
    let rows: Vec<String> = shelf.books().map(row).collect();
    format!(
        "<section id=\"records\"><h2>Records</h2>\n{}</section>\n",
        table(&["record", "shows", "made", "take home"], &rows)
    )
}
