//! The fenced blocks of the texts for users, and what they say that they are.

use crate::{root, text};

/// Words that may open a block, and what may follow them after a comma.
const KINDS: [(&str, &[&str]); 6] = [
    ("sh", &["hardware", "long"]),
    ("toml", &["drone", "station"]),
    ("text", &[]),
    ("ini", &[]),
    ("python", &["ray"]),
    ("c", &[]),
];

/// Texts whose TOML is no daemon's configuration, and has tests of its own: scenarios, experiments,
/// flights.
const LAB: [&str; 3] = ["docs/scenarios.md", "docs/experiments.md", "docs/traces.md"];

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) document: String,
    /// Line of its fence, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) mark: String,
    pub(crate) body: String,
}

impl Block {
    /// Says where it stands.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }

    /// Tells a daemon's configuration, whole or in part.
    pub(crate) fn is_configuration(&self) -> bool {
        self.language == "toml" && !LAB.contains(&self.document.as_str())
    }

    /// Returns the role of a whole configuration.
    pub(crate) fn role(&self) -> Option<&'static str> {
        ["drone", "station", "relay"]
            .into_iter()
            .find(|role| self.body.lines().any(|line| line == format!("role = \"{role}\"")))
    }
}

/// Returns the names of the texts for users.
pub(crate) fn documents() -> Vec<String> {
    let mut names = vec!["README.md".to_owned(), "dist/README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(name);
            } else if name.ends_with(".md") {
                names.push(name);
            }
        }
    }
    names.sort();
    names
}

/// Returns the blocks of a text, in their order.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    parse(document, &text(document))
}

fn parse(document: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        match (&mut open, trimmed.strip_prefix("```")) {
            (None, Some(info)) => {
                let (language, mark) = info.split_once(',').unwrap_or((info, ""));
                let block = Block {
                    document: document.to_owned(),
                    line: number + 1,
                    language: language.to_owned(),
                    mark: mark.to_owned(),
                    body: String::new(),
                };
                open = Some((block, indent));
            }
            (Some(_), Some("")) => blocks.extend(open.take().map(|(block, _)| block)),
            (Some((block, indent)), _) => {
                let strip = (*indent).min(line.len() - trimmed.len());
                block.body += &line[strip..];
                block.body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{document}: its last block does not end");
    blocks
}

#[test]
fn every_block_says_what_it_is() {
    for block in documents().iter().flat_map(|document| blocks(document)) {
        let marks = KINDS.iter().find(|(word, _)| *word == block.language).map(|(_, marks)| marks);
        let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        let Some(marks) = marks else {
            panic!("{}: a block opens with one of {}", block.place(), words.join(", "));
        };
        let known = block.mark.is_empty() || marks.contains(&block.mark.as_str());
        assert!(known, "{}: after {} may follow {marks:?}", block.place(), block.language);
    }
}

#[test]
fn blocks_are_read_with_their_marks_and_without_their_indent() {
    let found = parse("a.md", "x\n  ```sh,long\n  one\n    two\n  ```\n```toml\n```\n");
    let shown: Vec<_> = found
        .iter()
        .map(|block| (block.line, &*block.language, &*block.mark, &*block.body))
        .collect();
    assert_eq!(shown, [(2, "sh", "long", "one\n  two\n"), (6, "toml", "", "")]);
}
