//! The rules: each is one file with one function that looks at the tree and says what it found.

mod citations;
mod constants;
mod inclusion;
mod manifests;
mod names;
mod order;
mod size;
mod test_files;
mod unfinished;
mod width;
mod words;

use crate::tree::{File, Tree};

/// Says where a rule is broken, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path within the checkout.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Name of the rule.
    pub(crate) rule: &'static str,
    /// What is wrong.
    pub(crate) text: String,
}

/// Asks every rule; the answers come in the order of path and line.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 11] = [
        citations::check,
        constants::check,
        inclusion::check,
        manifests::check,
        names::check,
        order::check,
        size::check,
        test_files::check,
        unfinished::check,
        width::check,
        words::check,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

/// Makes a finding of what starts at a byte of the file.
fn at_byte(file: &File, byte: usize, rule: &'static str, text: String) -> Finding {
    let line = 1 + file.text.as_bytes()[..byte].iter().filter(|&&byte| byte == b'\n').count();
    Finding { path: file.path.clone(), line, rule, text }
}

/// Yields the identifiers and keywords of a code with the byte that each starts at.
fn words_of(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_word)?;
        let end = code[start..].find(|c| !is_word(c)).map_or(code.len(), |length| start + length);
        rest = end;
        Some((start, &code[start..end]))
    })
}

/// Finds the bracket that closes the one at `open`, or the end of a code that is cut off.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a tree of files given as (path, text).
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File::new(path, (*text).to_owned()));
        Tree { files: files.collect() }
    }

    /// Shows findings as `path:line text`, for comparing.
    pub(super) fn shown(findings: Vec<Finding>) -> Vec<String> {
        findings.iter().map(|f| format!("{}:{} {}", f.path, f.line, f.text)).collect()
    }

    #[test]
    fn words_come_with_their_offsets() {
        let words: Vec<_> = words_of("pub fn é_1(x)").collect();
        assert_eq!(words, [(0, "pub"), (4, "fn"), (7, "é_1"), (12, "x")]);
    }

    #[test]
    fn brackets_are_matched_and_a_cut_is_survived() {
        assert_eq!(closing("{ (a) [b] } c", 0), 10);
        assert_eq!(closing("{ (a", 0), 4);
    }

    #[test]
    fn findings_come_sorted() {
        let tree =
            tree(&[("crates/b/src/lib.rs", "fn f() {}\n"), ("crates/a/src/lib.rs", "fn f() {}\n")]);
        let paths: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        assert!(paths.is_sorted() && paths.len() == 2, "{paths:?}");
    }
}
