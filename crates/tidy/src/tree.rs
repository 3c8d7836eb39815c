//! The files that the rules look at: what git tracks, as it is in the working tree.
//!
//! Not a general file walker: build output and whatever else git ignores is left out by asking git.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::masking::Masked;

/// Holds the text files of a checkout.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// In the order of their paths.
    pub(crate) files: Vec<File>,
}

/// Holds one text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root of the checkout, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// Its code and its comments kept apart, for Rust sources.
    pub(crate) rust: Option<Masked>,
}

impl Tree {
    /// Reads every text file that git tracks below `root`, and the new ones that it does not
    /// ignore.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            // A file that is not UTF-8 is data; one that is gone was deleted and not yet committed.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.push(File::new(path, text));
            }
        }
        Ok(Tree { files })
    }

    /// Finds a file by its path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl File {
    /// Takes a file's text, and its parts when it is Rust.
    pub(crate) fn new(path: &str, text: String) -> File {
        let rust = path.ends_with(".rs").then(|| Masked::new(&text));
        File { path: path.to_owned(), text, rust }
    }
}

/// Finds the root of the checkout that the current folder is in.
pub(crate) fn root() -> Result<PathBuf, String> {
    let answer = git(Path::new("."), &["rev-parse", "--show-toplevel"])?;
    Ok(PathBuf::from(answer.trim_end()))
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .output()
        .map_err(|error| format!("git: {error}; tidy asks git which files there are"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), said.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("git: a path is not UTF-8: {error}"))
}
