//! Every source that a comment cites is in PAPERS.md.
//!
//! A citation is a bracket with a key and a place in it: `[RFC 9002 §6.2]`, `[ConClone eq. 7]`,
//! `[CONTRIBUTING, Size]` is none. The first column of a table row in PAPERS.md, in brackets, is a key.

use std::collections::BTreeSet;

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

const PAPERS: &str = "PAPERS.md";

/// What begins the place within a source.
const PLACES: [&str; 9] =
    [" §", " eq. ", " eqs. ", " Fig. ", " Table ", " Alg. ", " App. ", " p. ", " ch. "];

/// Finds citations whose key PAPERS.md does not have.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let known = tree.file(PAPERS).map(|papers| keys(&papers.text)).unwrap_or_default();
    tree.files.iter().flat_map(|file| unknown(file, &known)).collect()
}

/// Lists the keys of PAPERS.md: `| [ConClone] | … |` has one.
fn keys(papers: &str) -> BTreeSet<&str> {
    let rows = papers.lines().filter_map(|line| line.strip_prefix("| ["));
    rows.filter_map(|row| row.split_once(']').map(|(key, _)| key)).collect()
}

fn unknown(file: &File, known: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let cited = citations(&rust.comments).into_iter().filter(|(_, key)| !known.contains(key));
    let text = |key: &str| format!("[{key} …] is not in {PAPERS}");
    cited.map(|(at, key)| at_byte(file, at, "citations", text(key))).collect()
}

/// Lists the citations in a text: the byte of the bracket, and the key.
fn citations(text: &str) -> Vec<(usize, &str)> {
    let brackets = text.match_indices('[').filter_map(|(at, _)| {
        let inside = &text[at + 1..];
        let (inside, _) = inside.split_once(']')?;
        if inside.contains(['[', '\n']) {
            return None;
        }
        Some((at, key(inside)?))
    });
    brackets.collect()
}

/// Gives the key of a bracket's inside, if it is a citation.
fn key(inside: &str) -> Option<&str> {
    let end = PLACES.iter().filter_map(|place| inside.find(place)).min();
    let end = end.or_else(|| is_whole_rfc(inside).then_some(inside.len()))?;
    let key = &inside[..end];
    key.starts_with(|c: char| c.is_alphabetic()).then_some(key)
}

fn is_whole_rfc(inside: &str) -> bool {
    let number = inside.strip_prefix("RFC").map(str::trim_start);
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
