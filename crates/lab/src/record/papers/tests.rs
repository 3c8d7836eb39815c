//! The papers' page and list: of the repository's own records, and of such as are wrong.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::record::Figure;

const PAPERS: &str = r#"
[better]
lower = ["gap_s"]
higher = []

[[claim]]
says = "the gap, s"
record = "p/r.toml"
scheme = "fulmar"
key = "gap_s"
beside = { schemes = ["kernel_mptcp"] }

[[paper]]
key = "P"
folder = "p"
figures = 1
tables = 1

[[paper.item]]
name = "Fig. 1"
title = "a gap"
says = "2 s"
shows = [{ record = "p/r.toml" }]

[[paper.item]]
name = "Table I"
title = "a drawing"
why_not = "a diagram: it claims nothing"
"#;

const RECORD: &str = r#"
title = "t"
source = "s"
run = ["conclone-interval", "--emu", "--seeds", "1-6"]
paper_schemes = { lrt = "LRT" }

[[figure]]
scheme = "fulmar"
key = "gap_s"
at_most = 1.5
ours = 1

[[figure]]
scheme = "lrt"
key = "gap_s"
paper = 2
ours = 2

[[figure]]
scheme = "kernel_mptcp"
key = "gap_s"
ours = 3
"#;

fn papers() -> Papers {
    Papers::of_text("papers.toml", PAPERS).expect("a sound file")
}

fn page_of(record: &str, result: Option<&[u8]>) -> String {
    let shelf = Shelf::of(&[("p/r.toml", record, result)]);
    page::page(&papers(), &shelf)
}

/// What a run came to whose seeds all have the same.
fn result(gap_of_lrt: f64, faults: &[&str]) -> String {
    let of = |scheme: &str, gap: f64| json!({"scheme": scheme, "gap_s": gap, "by_seed": vec![json!({"gap_s": gap}); 6]});
    let results = [of("fulmar", 1.0), of("lrt", gap_of_lrt), of("kernel_mptcp", 3.0)];
    let outcome = json!({
        "mode": "emu", "versions": {"code": crate::sweep::CODE}, "results": results, "faults": faults,
        "account": "quiet", "seconds": 1.0,
    });
    json!({"format": 1, "key": "c0ffee", "outcome": outcome}).to_string()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn own() -> Papers {
    let text = fs::read_to_string(folder().join("papers.toml")).expect("the file");
    Papers::of_text("papers.toml", &text).expect("a sound file")
}

#[test]
fn the_file_has_every_item_and_whatever_it_names_is_there() {
    let (papers, shelf) = (own(), Shelf::open(&folder(), None));
    let count: usize = papers.paper.iter().map(|paper| paper.item.len()).sum();
    assert_eq!(count, 40);
    for known in page::known(&papers, &shelf).iter().flatten() {
        let item = format!("{} {}", known.paper.key, known.item.name);
        assert!(known.faults.is_empty(), "{item}: {:?}", known.faults);
        for file in known.item.pictures.iter().chain(&known.item.data) {
            assert!(shelf.text(file).is_ok(), "{item}: {file:?}");
        }
    }
    let (count, _) = crate::scorecard::behind_of(&folder().join("scorecard.toml")).expect("a card");
    assert!(count > 0);
}

#[test]
fn every_figure_that_stands_beside_a_papers_is_shown_by_an_item() {
    let (papers, shelf) = (own(), Shelf::open(&folder(), None));
    let known = page::known(&papers, &shelf);
    let shown: Vec<*const Figure> = known
        .iter()
        .flatten()
        .flat_map(|known| known.rows.iter().flat_map(|row| &row.values))
        .map(|value| std::ptr::from_ref(value.figure))
        .collect();
    for book in shelf.books() {
        let told = book.told.as_ref().expect("a sound record");
        for (figure, _) in told.figures().filter(|(figure, _)| figure.paper.is_some()) {
            let is_shown = shown.contains(&std::ptr::from_ref(figure));
            assert!(is_shown, "{:?}: {} {}", book.path, figure.scheme, figure.key);
        }
    }
}

#[test]
fn the_list_of_the_repository_is_what_would_be_written() {
    let written = fs::read_to_string(folder().join("items.md")).expect("the list");
    let list = list::list(&own(), &Shelf::open(&folder(), None));
    let anew = "is not of these records: make page, which writes it";
    assert!(written == list, "experiments/items.md {anew}");
    let readme = fs::read_to_string(folder().join("../README.md")).expect("README.md");
    let claims = list::with_claims(&readme, &own(), &Shelf::open(&folder(), None));
    assert!(claims.expect("it has the marks") == readme, "the table of README.md {anew}");
    let why = list::with_claims("", &own(), &Shelf::of(&[])).expect_err("no mark");
    assert!(why.contains("<!-- claims -->"), "{why}");
}

#[test]
fn the_tables_of_the_readmes_are_what_would_be_written() {
    let mut count = 0;
    for readme in tables::readmes(&folder()) {
        let text = fs::read_to_string(&readme).expect("a README");
        let written = tables::with_rows(&text, |record| tables::results_beside(&readme, record));
        let written = written.unwrap_or_else(|why| panic!("{}: {why}", readme.display()));
        assert!(
            written == text,
            "{}: its tables are not of these results: make page",
            readme.display()
        );
        count += text.matches("<!-- rows of ").count();
    }
    assert!(count > 0, "some tables are written");
}

#[test]
fn the_page_is_whole_and_small_and_takes_nothing_from_elsewhere() {
    let (papers, shelf) = (own(), Shelf::open(&folder(), None));
    let page = page::page(&papers, &shelf);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.ends_with("</body></html>\n") && !page.contains("<script"));
    for (at, _) in page.match_indices("src=\"").chain(page.match_indices("href=\"")) {
        let address = page[at..].split('"').nth(1).expect("it ends");
        assert!(address.starts_with("data:") || address.starts_with('#'), "{address}");
        if let Some(place) = address.strip_prefix('#') {
            assert!(page.contains(&format!("id=\"{place}\"")), "nothing is at #{place}");
        }
    }
    assert!(
        !page.contains("<td data-h=\"verdict\"></td>") && !page.contains("\"></td>"),
        "an empty cell"
    );
    for paper in &papers.paper {
        for item in &paper.item {
            let id = format!("id=\"{}\"", shown::id(&paper.key, &item.name));
            assert!(page.contains(&id), "{id}");
        }
    }
    assert_eq!(page, page::page(&papers, &Shelf::open(&folder(), None)), "the same each time");
}

#[test]
fn verdicts_come_from_the_result_and_from_the_record_without_one() {
    let with = page_of(RECORD, Some(result(2.0, &[]).as_bytes()));
    for words in [
        "agrees in 1 (of one figure); reaches 1 of 1 bars",
        "reaches ≤ 1.5; ahead of kernel_mptcp, 3, beyond the intervals",
        "(2 to 2)",
        "1 of 1 records",
        "not reproduced: a diagram: it claims nothing",
    ] {
        assert!(with.contains(words), "{words}: {with}");
    }
    let without = page_of(RECORD, None);
    for words in [
        "no interval in 1, +0.0 % (of one figure)",
        "ahead of kernel_mptcp, 3, no interval",
        "whose intervals were not kept",
        "nothing says by which code it was made",
    ] {
        assert!(without.contains(words), "{words}: {without}");
    }
    let refused = page_of(RECORD, Some(result(2.0, &["the clock stood still"]).as_bytes()));
    assert!(
        refused.contains("not vouched for: p/r.toml: the audit refuses it: the clock stood still")
    );
}

#[test]
fn what_is_wrong_is_named_and_takes_nothing_else_along() {
    let whole = result(2.0, &[]);
    let cut = &whole.as_bytes()[..whole.len() / 2];
    let other = whole.replace("\"format\":1", "\"format\":7");
    let odd = whole.replace("\"gap_s\":1.0,", "\"gap_s\":NaN,");
    let without = whole.replace("\"scheme\":\"lrt\"", "\"scheme\":\"gone\"");
    let unlike = result(2.5, &[]);
    for (result, words) in [
        (cut, "results.json: cut off or damaged"),
        (other.as_bytes(), "results.json: of format 7, this program reads 1"),
        (odd.as_bytes(), "results.json: cut off or damaged"),
        (b"{}", "results.json: says no `format`"),
        (b"", "cut off or damaged"),
        (b"{\"format\": 1, \"outcome\": 3}", "results.json: damaged"),
        (b"\xff\xfe", "cut off or damaged"),
        (without.as_bytes(), "<span class=\"bad\">did not come out</span>"),
        (
            unlike.as_bytes(),
            "the result is of another state than the record, and not used: lrt gap_s is 2.5 there and 2 in the record",
        ),
    ] {
        let page = page_of(RECORD, Some(result));
        let said = html::safe(words);
        assert!(page.contains(words) || page.contains(&said), "{words}: {page}");
        assert!(page.contains("ahead of kernel_mptcp"), "{words}: the other figures stand");
    }
    let evil = RECORD.replace("\"t\"", "\"<script>alert(1)</script>\"");
    let page = page_of(&evil, Some(result(2.0, &["<img src=x onerror=y>"]).as_bytes()));
    assert!(!page.contains("<script") && !page.contains("<img") && page.contains("&lt;script&gt;"));
    for (record, words) in [
        (RECORD.replace("ours = 1\n", "ours = nan\n"), "one of its numbers is none"),
        (RECORD.replace("paper = 2\n", "paper = inf\n"), "one of its numbers is none"),
        (RECORD[..60].to_owned(), "p/r.toml"),
    ] {
        let page = page_of(&record, None);
        assert!(
            page.contains(words) && page.contains("not vouched for: p/r.toml"),
            "{words}: {page}"
        );
        assert!(page.contains("id=\"p-table-i\""), "the other items stand");
    }
    let none = page::page(&papers(), &Shelf::of(&[]));
    assert!(none.contains("not vouched for: p/r.toml: there is no such record"), "{none}");
}

#[test]
fn a_file_of_papers_is_refused_with_what_is_wrong() {
    let why = |from: &str, to: &str| {
        let text = PAPERS.replace(from, to);
        Papers::of_text("papers.toml", &text).map(|_| ()).expect_err("wrong")
    };
    assert!(why("\"Fig. 1\"", "\"Fig. 2\"").contains("P: no item is called Fig. 1"));
    let neither = "says neither what shows it";
    assert!(why("why_not = \"a diagram: it claims nothing\"", "").contains(neither));
    assert!(why("a diagram: it claims nothing", " ").contains("`why_not` says why"));
    assert!(why("says = \"2 s\"", "verdict = \"agrees\"").contains("verdict"), "none is typed");
}

#[test]
fn what_is_in_the_corpus_makes_a_page() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/papers_page");
    let files = fs::read_dir(corpus).expect("the corpus").flatten();
    let inputs: Vec<Vec<u8>> = files.flat_map(|file| fs::read(file.path())).collect();
    assert!(inputs.len() >= 5);
    for input in inputs {
        try_page(&input);
    }
}

#[test]
fn all_are_the_records_of_one_life_or_of_both() {
    let of = |sim, emu, long| {
        let papers = folder().join("papers.toml");
        let args = ReportArgs { all: true, sim, emu, long, papers, ..ReportArgs::default() };
        args.with_all().expect("records").files
    };
    let (sim, emu, both) = (of(true, false, true), of(false, true, true), of(false, false, true));
    let short = of(true, false, false);
    assert!(short.len() < sim.len() && short.iter().all(|path| sim.contains(path)), "--long");
    assert_eq!(of(false, true, false), emu, "what runs in real time is all run");
    assert!(!sim.is_empty() && !emu.is_empty() && sim.len() + emu.len() == both.len());
    assert!(sim.iter().all(|path| !path.ends_with("conclone/fig1-throughput.toml")));
    assert!(emu.iter().all(|path| !path.ends_with("asran/ns3-mobility.toml")));
    assert!(both.is_sorted());
    let none = ReportArgs { all: true, ..ReportArgs::default() };
    let none = ReportArgs { papers: "nowhere/papers.toml".into(), ..none };
    assert!(none.with_all().is_err_and(|why| why.contains("nowhere")));
}
