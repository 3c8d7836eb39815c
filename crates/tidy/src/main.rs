//! `cargo run -p tidy`: checks the rules of CONTRIBUTING.md that a compiler does not know.
//!
//! It reads every file that git tracks (or would track), asks each rule about it and prints what it
//! found as `file:line: rule: text`. It changes nothing, and it is no substitute for rustfmt or
//! clippy: what those can say is left to them.
//!
//! Exit code 0 when nothing was found, 1 when something was, 2 when the tree could not be read.

mod masking;
mod rules;
mod tree;

use std::process::ExitCode;

use rules::Finding;
use tree::Tree;

fn main() -> ExitCode {
    let root = match tree::root() {
        Ok(root) => root,
        Err(error) => return unreadable(&error),
    };
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => return unreadable(&error),
    };
    let findings = rules::check(&tree);
    for Finding { path, line, rule, text } in &findings {
        println!("{path}:{line}: {rule}: {text}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn unreadable(error: &str) -> ExitCode {
    eprintln!("tidy: {error}");
    ExitCode::from(2)
}
