//! `unsafe` stands in the crates that exist for it and nowhere else.

use super::{Finding, at_byte, words_of};
use crate::tree::{File, Tree};

/// The crates that touch the kernel or the vector unit.
const CRATES: [&str; 2] = ["sys", "coding"];
/// Calls the kernel's congestion controls, which are in C.
const FUZZ_TARGET: &str = "fuzz/targets/asran_hooks.rs";

/// Finds `unsafe` outside the crates that exist for it.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let outside = |file: &&File| {
        file.path != FUZZ_TARGET && !file.krate().is_some_and(|krate| CRATES.contains(&krate))
    };
    let found = tree.files.iter().filter(outside).flat_map(|file| {
        let code = file.rust.as_ref().map_or("", |rust| &rust.code);
        let places = words_of(code).filter(|(_, word)| *word == "unsafe");
        let text =
            || format!("unsafe outside {}", CRATES.map(|c| format!("crates/{c}")).join(", "));
        places.map(move |(at, _)| at_byte(file, at, "kernel", text()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn unsafe_is_for_sys_alone() {
        let tree = tree(&[
            ("crates/sys/src/lib.rs", "unsafe { f() }"),
            ("crates/proto/src/lib.rs", "#![forbid(unsafe_code)]\n// unsafe\nlet s = \"unsafe\";"),
            ("crates/netem/src/lib.rs", "\nunsafe impl Send for X {}"),
            ("fuzz/targets/asran_hooks.rs", "unsafe { f() }"),
            ("fuzz/targets/frames.rs", "unsafe { f() }"),
        ]);
        let expected = [
            "crates/netem/src/lib.rs:2 unsafe outside crates/sys, crates/coding",
            "fuzz/targets/frames.rs:1 unsafe outside crates/sys, crates/coding",
        ];
        assert_eq!(shown(check(&tree)), expected);
    }
}
