//! Nothing on the main branch says that it is still to be done.

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

/// Marks of unfinished work; split so that this file passes its own rule.
const MARKS: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("not yet impl", "emented"),
    concat!("Being wri", "tten"),
];

/// Finds marks of unfinished work in sources and documents.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ends = [".rs", ".py", ".md", ".toml", ".sh", ".c"];
    let looked_at = |file: &&File| ends.iter().any(|end| file.path.ends_with(end));
    let found = tree.files.iter().filter(looked_at).flat_map(|file| {
        MARKS.iter().flat_map(move |mark| {
            let places = file.text.match_indices(mark);
            let text = format!("`{mark}`: unfinished");
            places.map(move |(at, _)| at_byte(file, at, "unfinished", text.clone()))
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_mark_is_found_wherever_it_stands() {
        let code = format!("// {}: later\nfn f() {{ {}) }}\n", MARKS[2], MARKS[0]);
        let tree = tree(&[("a.rs", &code), ("b.csv", MARKS[3])]);
        let mut lines = shown(check(&tree));
        lines.sort();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("a.rs:1 ") && lines[1].starts_with("a.rs:2 "), "{lines:?}");
    }
}
