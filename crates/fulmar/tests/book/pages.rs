//! The book as a whole: its table of contents, its links, and what it says of every piece of
//! advice.

use std::path::Path;

use crate::blocks::documents;
use crate::{root, text};

/// Returns the lines of a text that are in no fenced block.
fn prose(document: &str) -> Vec<String> {
    let mut fenced = false;
    let text = text(document);
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.map(str::to_owned).collect()
}

/// Returns the targets of a text's links that lead to files, and to headings of files: path and
/// anchor, either may be empty.
fn links(document: &str) -> Vec<(String, String)> {
    let lines = prose(document);
    let targets = lines.iter().flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let own = targets.filter(|target| !target.contains("://"));
    let parts = own.map(|target| target.split_once('#').unwrap_or((target, "")));
    parts.map(|(path, anchor)| (path.to_owned(), anchor.to_owned())).collect()
}

/// Returns the anchors of a text's headings, as GitHub and mdBook make them.
fn anchors(document: &str) -> Vec<String> {
    let lines = prose(document);
    let headings = lines.iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: &String| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading
            .chars()
            .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let mut told: Vec<String> =
        links("docs/SUMMARY.md").iter().map(|(page, _)| format!("docs/{page}")).collect();
    told.sort();
    let is_page = |name: &String| name.starts_with("docs/") && name != "docs/SUMMARY.md";
    let pages: Vec<String> = documents().into_iter().filter(is_page).collect();
    assert_eq!(told, pages, "docs/SUMMARY.md has each page of docs/ once");
}

#[test]
fn every_link_leads_somewhere() {
    for document in documents() {
        let folder = Path::new(&document).parent().unwrap();
        for (path, anchor) in links(&document) {
            let target = if path.is_empty() { document.clone() } else { at(folder, &path) };
            assert!(root().join(&target).exists(), "{document}: {path} is not there");
            let found = anchor.is_empty() || anchors(&target).contains(&anchor);
            assert!(found, "{document}: {target} has no heading for #{anchor}");
        }
    }
}

/// Returns a path of the project as seen from a folder of it.
fn at(folder: &Path, path: &str) -> String {
    folder.join(path).to_str().unwrap().to_owned()
}

#[test]
fn every_piece_of_advice_is_explained() {
    let page = text("docs/when-it-is-wrong.md");
    let source = include_str!("../../src/status/advice.rs");
    let (code, _) = source.split_once("#[cfg(test)]").unwrap();
    let advice = literals(code);
    assert!(advice.len() >= 20, "{advice:?}");
    for words in &advice {
        assert!(
            page.contains(words.as_str()),
            "docs/when-it-is-wrong.md does not explain \"{words}\""
        );
    }
}

/// What the page says in words that the source has not in one piece: the kernel's, and what is put
/// together from two texts.
const COMPOSED: [&str; 6] = [
    "the last from",
    "the last to",
    "Network is unreachable",
    "Operation not permitted",
    "has no IPv4 address",
    "has no IPv6 address",
];

#[test]
fn every_phrase_that_is_explained_is_still_said() {
    let source: String = ["fulmar", "proto", "record", "sys"]
        .iter()
        .flat_map(|name| sources(&root().join("crates").join(name).join("src")))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let joined: String = (source.lines())
        .map(|line| match line.trim_end().strip_suffix('\\') {
            Some(goes_on) => goes_on.trim_start().to_owned(),
            None => format!("{}\n", line.trim_start()),
        })
        .collect();
    let page = text("docs/when-it-is-wrong.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let phrases: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(phrases.len() >= 80, "{}", phrases.len());
    let mut gone = Vec::new();
    for phrase in phrases {
        for words in phrase.split(['…', ':', ';', ',', '(', ')', '"', '!']).flat_map(between_values)
        {
            let is_said = COMPOSED.contains(&words.as_str()) || joined.contains(&words);
            if words.contains(' ') && !is_said {
                gone.push(format!("\"{words}\" of `{phrase}`"));
            }
        }
    }
    assert!(gone.is_empty(), "docs/when-it-is-wrong.md explains what nothing says: {gone:#?}");
}

/// Returns the words between numbers and names in capitals, which stand for values.
fn between_values(text: &str) -> Vec<String> {
    let is_value = |word: &str| {
        word.contains(|letter: char| letter.is_ascii_digit() || letter == '.')
            || word.chars().all(|letter| letter.is_ascii_uppercase())
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    words.split(|word| is_value(word)).map(|part| part.join(" ")).collect()
}

/// Lists the source files of a folder and those in it.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inside = |path: std::path::PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    entries.flat_map(inside).filter(|path| path.extension().is_some_and(|it| it == "rs")).collect()
}

/// Returns of each text that code says in several words the longest part that is always the same.
fn literals(code: &str) -> Vec<String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
    let texts = code.split('"').skip(1).step_by(2).map(|text| text.replace("\\\n", ""));
    let several = texts.filter(|text| text.trim().contains(' '));
    let constant = several.filter_map(|text| {
        let parts = text.split(['{', '}']).step_by(2);
        parts.map(|part| part.trim_matches([' ', ',', ';', ':']).to_owned()).max_by_key(String::len)
    });
    constant.filter(|words| words.contains(' ')).collect()
}

#[test]
fn the_constant_part_of_advice_is_found() {
    let code =
        "// \"no text\"\nf(\"a\", \"loses {:.0} % of what \\\n    we send{x}\", \"two words\")\n";
    assert_eq!(literals(code), ["% of what we send", "two words"]);
}
