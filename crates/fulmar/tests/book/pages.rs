//! The book as a whole: its table of contents, its links, and what it says of every piece of advice.

use std::path::Path;

use crate::blocks::documents;
use crate::{root, text};

/// Returns the targets of the links of a text that lead to files, with the folder that they start from.
fn links(document: &str) -> Vec<String> {
    let text = text(document);
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    let targets = lines.flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| target.split('#').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let mut told: Vec<String> =
        links("docs/SUMMARY.md").iter().map(|page| format!("docs/{page}")).collect();
    told.sort();
    let is_page = |name: &String| name.starts_with("docs/") && name != "docs/SUMMARY.md";
    let pages: Vec<String> = documents().into_iter().filter(is_page).collect();
    assert_eq!(told, pages, "docs/SUMMARY.md has each page of docs/ once");
}

#[test]
fn every_link_leads_somewhere() {
    for document in documents() {
        let folder = Path::new(&document).parent().unwrap();
        for target in links(&document) {
            let there = root().join(folder).join(&target).exists();
            assert!(there, "{document}: {target} is not there");
        }
    }
}

#[test]
fn every_piece_of_advice_is_explained() {
    let page = text("docs/when-it-is-wrong.md");
    let source = include_str!("../../src/status/advice.rs");
    let (code, _) = source.split_once("#[cfg(test)]").unwrap();
    let advice = literals(code);
    assert!(advice.len() >= 20, "{advice:?}");
    for words in &advice {
        assert!(page.contains(words.as_str()), "docs/when-it-is-wrong.md does not explain \"{words}\"");
    }
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
    let code = "// \"no text\"\nf(\"a\", \"loses {:.0} % of what \\\n    we send{x}\", \"two words\")\n";
    assert_eq!(literals(code), ["% of what we send", "two words"]);
}
