//! Names say what a thing is; a few words say nothing, whatever they are put on.

use super::{Finding, at_byte, words_of};
use crate::tree::{File, Tree};

/// Words that no file, module or item may be named with.
const EMPTY: [&str; 6] = ["utils", "util", "helpers", "helper", "manager", "misc"];
/// Names that no file or module may have as a whole; within a name they can mean something.
const EMPTY_AS_A_WHOLE: [&str; 3] = ["common", "v2", "part2"];
/// Keywords that the name of an item follows.
const ITEMS: [&str; 9] =
    ["struct", "enum", "trait", "mod", "fn", "type", "const", "static", "union"];

/// Finds names that say nothing.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(|file| path(file).into_iter().chain(items(file))).collect()
}

fn path(file: &File) -> Option<Finding> {
    let mut parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let part = parts.find(|part| says_nothing(part) || EMPTY_AS_A_WHOLE.contains(part))?;
    let text = format!("`{part}` in a path says nothing");
    Some(Finding { path: file.path.clone(), line: 1, rule: "names", text })
}

fn items(file: &File) -> Vec<Finding> {
    let code = file.rust.as_ref().map_or("", |rust| &rust.code);
    let words: Vec<(usize, &str)> = words_of(code).collect();
    let mut found = Vec::new();
    for pair in words.windows(2) {
        let ((_, keyword), (at, name)) = (pair[0], pair[1]);
        let module = keyword == "mod" && EMPTY_AS_A_WHOLE.contains(&name);
        if ITEMS.contains(&keyword) && (says_nothing(name) || module) {
            found.push(at_byte(file, at, "names", format!("the name `{name}` says nothing")));
        }
    }
    found
}

fn says_nothing(name: &str) -> bool {
    parts(name).iter().any(|part| EMPTY.contains(&part.as_str()))
}

/// Splits `PathManager` and `path_manager` into `path` and `manager`.
fn parts(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_uppercase() && before.is_lowercase() {
            spaced.push('_');
        }
        spaced.extend(c.to_lowercase());
        before = c;
    }
    spaced.split(['_', '-']).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn empty_words_are_found_in_paths_and_items() {
        let code = "struct PathManager;\nfn reset_helper() {}\nmod v2;\nfn common_prefix() {}\n\
                    let manager = 1;\nconst MAGIC_V2: u8 = 0xFD;\n";
        let tree = tree(&[("a.rs", code), ("crates/x/utils.rs", ""), ("tests/common/mod.rs", "")]);
        let expected = [
            "a.rs:1 the name `PathManager` says nothing",
            "a.rs:2 the name `reset_helper` says nothing",
            "a.rs:3 the name `v2` says nothing",
            "crates/x/utils.rs:1 `utils` in a path says nothing",
            "tests/common/mod.rs:1 `common` in a path says nothing",
        ];
        assert_eq!(shown(check(&tree)), expected);
    }

    #[test]
    fn a_name_is_split_at_capitals_and_underscores() {
        assert_eq!(parts("PathManager"), ["path", "manager"]);
        assert_eq!(parts("path_manager"), ["path", "manager"]);
        assert_eq!(parts("MAX"), ["max"]);
    }
}
