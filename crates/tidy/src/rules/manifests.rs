//! Every crate takes its licence and its edition from the workspace, and has lints.

use super::Finding;
use crate::tree::{File, Tree};

/// Beginnings of lines that a crate's manifest must have.
const LINES: [&str; 3] = ["edition.workspace = true", "license.workspace = true", "[lints"];

/// Finds manifests that go their own way.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifest =
        |file: &&File| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
    tree.files.iter().filter(manifest).flat_map(missing).collect()
}

fn missing(file: &File) -> impl Iterator<Item = Finding> {
    let absent = |line: &&&str| !file.text.lines().any(|have| have.trim().starts_with(**line));
    LINES.iter().filter(absent).map(|line| Finding {
        path: file.path.clone(),
        line: 1,
        rule: "manifests",
        text: format!("no line `{line}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_crate_without_the_workspace_s_licence_is_found() {
        let good = "[package]\nedition.workspace = true\nlicense.workspace = true\n\n[lints]\n";
        let tree = tree(&[
            ("crates/a/Cargo.toml", good),
            ("crates/b/Cargo.toml", &good.replace("license.workspace = true", "license = \"MIT\"")),
            ("Cargo.toml", "[workspace]\n"),
        ]);
        assert_eq!(
            shown(check(&tree)),
            ["crates/b/Cargo.toml:1 no line `license.workspace = true`"]
        );
    }
}
