//! The repository speaks of the project alone: no path of a machine, no host of a package registry.
//!
//! Lock files are left out: cargo writes a registry's address into them.

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

/// Folders that only one machine has; split so that this file passes its own rule.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/us", "ers/"),
    TMP,
];
const TMP: &str = concat!("/t", "mp/");
/// What a program of ours may write below `/tmp`.
const OWN: &str = "fulmar";

/// Hosts that packages come from: which one is used is the machine's business.
const REGISTRIES: [&str; 7] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("pythonho", "sted.org"),
    concat!("npm", "js"),
    concat!("deb.deb", "ian.org"),
    concat!("proxy.go", "lang.org"),
    concat!("ghc", "r.io"),
];

/// Finds paths of a machine and hosts of registries.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let looked_at = |file: &&File| !file.path.ends_with(".lock");
    tree.files.iter().filter(looked_at).flat_map(forbidden).collect()
}

fn forbidden(file: &File) -> Vec<Finding> {
    // Byte offsets must stay, so ASCII case alone is folded.
    let text = file.text.to_ascii_lowercase();
    let mut found = Vec::new();
    for word in MACHINE_PATHS.iter().chain(&REGISTRIES) {
        for (at, _) in text.match_indices(word) {
            let after = &text[at + word.len()..];
            let part_of_a_path = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
            let own = *word == TMP && after.starts_with(OWN);
            let inner = word.starts_with('/') && part_of_a_path;
            if !own && !inner {
                found.push(at_byte(file, at, "words", format!("`{word}` has no place here")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn machine_paths_and_registries_are_found() {
        let text = format!("a\nsee {}x and {}\n{}y\n", MACHINE_PATHS[0], REGISTRIES[1], TMP);
        let tree = tree(&[("README.md", &text), ("Cargo.lock", REGISTRIES[0])]);
        assert_eq!(check(&tree).len(), 3, "{:?}", shown(check(&tree)));
    }

    #[test]
    fn our_own_folder_and_parts_of_paths_pass() {
        let text = format!("{TMP}fulmar-demo, frame{}x, ..{}", MACHINE_PATHS[0], MACHINE_PATHS[0]);
        assert_eq!(shown(check(&tree(&[("a.md", &text)]))), [""; 0]);
    }
}
