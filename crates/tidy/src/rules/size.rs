//! Files fit a head. (That functions fit a screen is seen to by clippy.)

use super::Finding;
use crate::tree::{File, Tree};

/// Lines of a file [CONTRIBUTING, Size].
const FILE_LINES: usize = 600;

/// Finds files that are too long.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.files.iter().filter(|file| is_source(&file.path));
    sources.filter_map(file_length).collect()
}

fn is_source(path: &str) -> bool {
    [".rs", ".py", ".c", ".h", ".sh"].iter().any(|end| path.ends_with(end))
}

fn file_length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    (lines > FILE_LINES).then(|| Finding {
        path: file.path.clone(),
        line: FILE_LINES + 1,
        rule: "size",
        text: format!("{lines} lines in one file; at most {FILE_LINES}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    #[test]
    fn a_file_may_have_600_lines_and_no_more() {
        let line = "x = 1\n";
        let tree = tree(&[
            ("a.py", &line.repeat(FILE_LINES)),
            ("b.py", &line.repeat(FILE_LINES + 1)),
            ("c.csv", &line.repeat(FILE_LINES + 1)),
        ]);
        assert_eq!(shown(check(&tree)), ["b.py:601 601 lines in one file; at most 600"]);
    }
}
