//! What a crate compiles lies in its folder, or there is a link to it there: else it builds here,
//! and nowhere from a package of its sources.
//!
//! Tests may look further: they run in the checkout.

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

const BEGINS: [&str; 2] = ["include_str!(\"", "include_bytes!(\""];

/// Finds files that are included from outside their crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(from_outside).collect()
}

fn from_outside(file: &File) -> Vec<Finding> {
    let Some(depth) = depth(&file.path) else { return Vec::new() };
    let begins = BEGINS.iter().flat_map(|begin| file.text.match_indices(begin));
    let leaves = begins.filter_map(|(at, begin)| {
        let path = file.text[at + begin.len()..].split('"').next()?;
        (path.matches("../").count() > depth).then(|| {
            at_byte(file, at, "inclusion", format!("{path} is outside the crate: link it there"))
        })
    });
    leaves.collect()
}

/// Returns how many folders lie between a crate and one of its sources; none for tests and for what
/// is no source of a crate.
fn depth(path: &str) -> Option<usize> {
    let inside = path.strip_prefix("crates/")?.split_once("/src/")?.1;
    let is_test = inside.split('/').any(|part| matches!(part, "tests" | "tests.rs"));
    (!is_test).then(|| 1 + inside.matches('/').count())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_source_includes_what_lies_in_its_crate() {
        let text = "const A: &str = include_str!(\"../../a.toml\");\n";
        let tree = tree(&[
            ("crates/a/src/lib.rs", text),
            ("crates/a/src/b/mod.rs", text),
            ("crates/a/src/tests.rs", text),
            ("crates/a/tests/b.rs", text),
        ]);
        assert_eq!(
            shown(check(&tree)),
            ["crates/a/src/lib.rs:1 ../../a.toml is outside the crate: link it there"]
        );
    }
}
