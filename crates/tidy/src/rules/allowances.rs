//! A lint that is switched off says why.

use super::{Finding, at_byte, closing};
use crate::tree::{File, Tree};

/// Finds `#[allow(…)]` and `#[expect(…)]` without a `reason`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(unexplained).collect()
}

fn unexplained(file: &File) -> Vec<Finding> {
    let code = file.rust.as_ref().map_or("", |rust| &rust.code);
    let mut found = Vec::new();
    for kind in ["allow(", "expect("] {
        for (at, _) in code.match_indices(kind) {
            let attribute = code[..at].ends_with("#[") || code[..at].ends_with("#![");
            let inside = &code[at..closing(code, at + kind.len() - 1)];
            if attribute && !inside.contains("reason") {
                let text = format!("#[{kind}…)] without a reason");
                found.push(at_byte(file, at, "allowances", text));
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
    fn a_reason_is_wanted() {
        let code = "#![allow(missing_docs)]\n#[expect(dead_code, reason = \"x\")]\n\
                    fn f() { g().expect(\"y\"); allow(z) }\n";
        let tree = tree(&[("a.rs", code)]);
        assert_eq!(shown(check(&tree)), ["a.rs:1 #[allow(…)] without a reason"]);
    }
}
