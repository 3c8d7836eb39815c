//! Comments fit beside each other: what is longer than a line of code is read in two glances.

use super::Finding;
use crate::tree::{File, Tree};

/// Columns of a line with a comment, as rustfmt has it for code [CONTRIBUTING, Size].
const COLUMNS: usize = 100;

/// Finds comments that are too wide; drawings and tables may be.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    sources.flat_map(wide_comments).collect()
}

fn wide_comments(file: &File) -> Vec<Finding> {
    let (mut is_drawing, mut findings) = (false, Vec::new());
    for (number, line) in file.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map(|text| text.trim_start_matches(['/', '!']).trim_start());
        is_drawing = text.is_some_and(|text| text.starts_with("```") != is_drawing);
        let is_free = is_drawing || text.is_none_or(|text| text.starts_with('|'));
        let columns = line.chars().count();
        if columns > COLUMNS && !is_free {
            let text = format!("a comment of {columns} columns; at most {COLUMNS}");
            let (path, line) = (file.path.clone(), number + 1);
            findings.push(Finding { path, line, rule: "width", text });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_comment_is_as_wide_as_code_but_drawings_and_tables_are_not_held_to_it() {
        let long = "é".repeat(COLUMNS);
        let text = format!(
            "//! a\n//! {long}\n//! ```text\n//! {long}\n//! ```\n    // {long}\n/// | {long} |\nlet a = \"{long}\";\n"
        );
        let tree = tree(&[("a.rs", &text), ("a.md", &long)]);
        let expected = [
            "a.rs:2 a comment of 104 columns; at most 100",
            "a.rs:6 a comment of 107 columns; at most 100",
        ];
        assert_eq!(shown(check(&tree)), expected);
    }
}
