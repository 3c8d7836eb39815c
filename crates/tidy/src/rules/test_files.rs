//! A file that only tests need is called `tests.rs` or lies in a folder `tests/`: nobody takes it
//! for the product.

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

/// Finds modules of files that are for tests alone and say so nowhere in their path.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let code = file.rust.as_ref().map_or("", |rust| &rust.code);
    let places = code.match_indices("#[cfg(test)]").map(|(at, attribute)| at + attribute.len());
    places.filter_map(|at| finding(file, at, &code[at..])).collect()
}

fn finding(file: &File, at: usize, item: &str) -> Option<Finding> {
    let (head, _) =
        item.split_once([';', '{']).filter(|(head, _)| item[head.len()..].starts_with(';'))?;
    let is_other_path = head.contains("#[");
    let mut words = head.split_whitespace().skip_while(|word| *word != "mod").skip(1);
    let name = words.next()?;
    let text =
        format!("`{name}` is for tests alone: call its file tests.rs, or put it into tests/");
    (is_other_path || name != "tests").then(|| at_byte(file, at, "test files", text))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_file_for_tests_alone_is_called_tests() {
        let code = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod bench;\n#[cfg(test)]\nmod tables { fn f(); }\n\
                    #[cfg(test)]\nuse a;\n#[cfg(test)]\n#[path = \"b.rs\"]\npub(crate) mod tests;\n";
        let what = "is for tests alone: call its file tests.rs, or put it into tests/";
        let expected = [format!("a.rs:3 `bench` {what}"), format!("a.rs:9 `tests` {what}")];
        assert_eq!(shown(check(&tree(&[("a.rs", code)]))), expected);
    }
}
