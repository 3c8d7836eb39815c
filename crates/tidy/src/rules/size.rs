//! Functions fit a screen, files fit a head.
//!
//! A function counts from its `fn` to its closing brace; what a macro writes is not seen.

use super::{Finding, at_byte, closing, words_of};
use crate::tree::{File, Tree};

/// Lines of a function: a screen [CONTRIBUTING, Size].
const FUNCTION_LINES: usize = 70;
/// Lines of a file.
const FILE_LINES: usize = 600;

/// Finds functions and files that are too long.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.files.iter().filter(|file| is_source(&file.path));
    sources.flat_map(|file| file_length(file).into_iter().chain(function_lengths(file))).collect()
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

fn function_lengths(file: &File) -> Vec<Finding> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let functions = bodies(&rust.code).into_iter().filter_map(|(name, start, end)| {
        let lines = 1 + rust.code[start..end].matches('\n').count();
        let text = format!("fn {name} has {lines} lines; at most {FUNCTION_LINES}");
        (lines > FUNCTION_LINES).then(|| at_byte(file, start, "size", text))
    });
    functions.collect()
}

/// Lists the functions that have a body: name, first byte, byte of the closing brace.
fn bodies(code: &str) -> Vec<(&str, usize, usize)> {
    let mut found = Vec::new();
    let mut words = words_of(code).peekable();
    while let Some((start, word)) = words.next() {
        if word != "fn" {
            continue;
        }
        let Some(&(name_at, name)) = words.peek() else { break };
        // A pointer type, `fn(u8) -> u8`, has a bracket where a function has its name.
        if !code[start + 2..name_at].trim().is_empty() {
            continue;
        }
        if let Some(open) = body_start(code, name_at + name.len()) {
            found.push((name, start, closing(code, open)));
        }
    }
    found
}

/// Finds the brace that opens the body of a function whose name ends at `at`; a trait's has none.
fn body_start(code: &str, mut at: usize) -> Option<usize> {
    while at < code.len() {
        match code.as_bytes()[at] {
            b'{' => return Some(at),
            b';' => return None,
            b'(' | b'[' => at = closing(code, at) + 1,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn f(x: [u8; 3]) -> u8\nwhere\n    u8: Copy,\n{{{}}}\n", "\n".repeat(lines - 4))
    }

    #[test]
    fn a_function_may_fill_the_screen_and_no_more() {
        let (fits, long) = (function(FUNCTION_LINES), function(FUNCTION_LINES + 1));
        let tree = tree(&[("a.rs", &fits), ("b.rs", &format!("//! B.\n\n{long}"))]);
        assert_eq!(shown(check(&tree)), ["b.rs:3 fn f has 71 lines; at most 70"]);
    }

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

    #[test]
    fn signatures_and_pointer_types_have_no_body() {
        let code =
            "trait T { fn a(&self); fn b() { c() } }\nstruct S { f: fn(u8) -> u8 }\nfn d() {}";
        let names: Vec<_> = bodies(code).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["b", "d"]);
    }
}
