//! Every source that a comment cites is in PAPERS.md, every rule of ours in `specs/`.
//!
//! A citation is a bracket with a key and a place in it: `[RFC 9002 §6.2]`, `[ConClone eq. 7]`; two
//! are parted by a semicolon. The first column of a table row in PAPERS.md, in brackets, is a key.
//! The key `specs/wire.md` is that file, and its place a heading that begins with the number.

use std::collections::BTreeSet;

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

const PAPERS: &str = "PAPERS.md";

/// What begins the place within a source.
const PLACES: [&str; 9] =
    [" §", " eq. ", " eqs. ", " Fig. ", " Table ", " Alg. ", " App. ", " p. ", " ch. "];

/// Finds citations whose key or place does not exist.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let known = tree.file(PAPERS).map(|papers| keys(&papers.text)).unwrap_or_default();
    tree.files.iter().flat_map(|file| unknown(tree, file, &known)).collect()
}

/// Lists the keys of PAPERS.md: `| [ConClone] | … |` has one.
fn keys(papers: &str) -> BTreeSet<&str> {
    let rows = papers.lines().filter_map(|line| line.strip_prefix("| ["));
    rows.filter_map(|row| row.split_once(']').map(|(key, _)| key)).collect()
}

fn unknown(tree: &Tree, file: &File, known: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let mut found = Vec::new();
    for Citation { at, key, place } in citations(&rust.comments) {
        let text = if !key.ends_with(".md") {
            (!known.contains(key)).then(|| format!("[{key} …] is not in {PAPERS}"))
        } else if let Some(spec) = tree.file(key) {
            let missing = !has_heading(&spec.text, place);
            missing.then(|| format!("{key} has no heading{place}"))
        } else {
            Some(format!("there is no {key}"))
        };
        found.extend(text.map(|text| at_byte(file, at, "citations", text)));
    }
    found
}

/// Tells whether a heading begins with the number of a place such as ` §3.2`.
fn has_heading(spec: &str, place: &str) -> bool {
    let number = place.trim_start_matches([' ', '§']);
    let headings = spec.lines().filter_map(|line| line.strip_prefix('#'));
    let mut numbers = headings.filter_map(|heading| {
        heading
            .trim_start_matches('#')
            .split_whitespace()
            .next()
            .map(|n| n.trim_matches(['§', '.']))
    });
    numbers.any(|have| have == number)
}

/// Holds a citation: the byte of its bracket, the key, and the place with what begins it.
#[derive(Debug, PartialEq)]
struct Citation<'a> {
    at: usize,
    key: &'a str,
    place: &'a str,
}

/// Lists the citations in a text.
fn citations(text: &str) -> Vec<Citation<'_>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('[') {
        let Some((inside, _)) = text[at + 1..].split_once(']') else { break };
        if inside.contains(['[', '\n']) {
            continue;
        }
        let parts = inside.split(';').map(str::trim);
        found.extend(parts.filter_map(|part| {
            let (key, place) = key_and_place(part)?;
            Some(Citation { at, key, place })
        }));
    }
    found
}

/// Splits one citation; whatever else stands in a bracket is none.
fn key_and_place(part: &str) -> Option<(&str, &str)> {
    let split = PLACES.iter().filter_map(|place| part.find(place)).min();
    let split = split.or_else(|| is_whole_rfc(part).then_some(part.len()))?;
    let (key, place) = part.split_at(split);
    key.starts_with(|c: char| c.is_alphabetic()).then_some((key, place))
}

fn is_whole_rfc(part: &str) -> bool {
    let number = part.strip_prefix("RFC").map(str::trim_start);
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    const KNOWN: &str = "| key | source |\n| --- | --- |\n| [ConClone] | x |\n| [RFC 9002] | y |\n";

    #[test]
    fn a_known_key_passes_and_an_unknown_one_is_found() {
        let code = "//! [ConClone §3.3.1], [ConClone eq. 7], [RFC 9002 §6.2], [RFC 9002]\n\
                    // see [ConCone Fig. 1]\n// and [RFC9002 §2] and [RFC 1]\nlet x = y[z];\n";
        let tree = tree(&[("a.rs", code), (PAPERS, KNOWN)]);
        let expected = [
            "a.rs:2 [ConCone …] is not in PAPERS.md",
            "a.rs:3 [RFC9002 …] is not in PAPERS.md",
            "a.rs:3 [RFC 1 …] is not in PAPERS.md",
        ];
        assert_eq!(shown(check(&tree)), expected);
    }

    #[test]
    fn rules_of_our_own_are_looked_up_in_their_file() {
        let spec = "# Wire\n\n## 3 Frames\n\n### 3.2. ACK\n";
        let code =
            "// [specs/wire.md §3], [specs/wire.md §3.2]; [specs/wire.md §4; specs/x.md §1]\n";
        let tree = tree(&[("a.rs", code), ("specs/wire.md", spec)]);
        let expected = ["a.rs:1 specs/wire.md has no heading §4", "a.rs:1 there is no specs/x.md"];
        assert_eq!(shown(check(&tree)), expected);
    }

    #[test]
    fn links_ranges_and_strings_are_no_citations() {
        let code =
            "//! [`Path`], [text](url), [0, 1], [a §\n//! b]\nlet s = \"[No §1]\"; // x[1]\n";
        assert_eq!(shown(check(&tree(&[("a.rs", code)]))), [""; 0]);
    }

    #[test]
    fn without_papers_nothing_is_known() {
        let findings = check(&tree(&[("a.rs", "// [ConClone §1]\n")]));
        assert_eq!(findings.len(), 1);
    }
}
