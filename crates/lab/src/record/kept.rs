//! What files came to, kept so that a run that was cut off goes on where it was.
//!
//! ```text
//! DIR/conclone-fig5-lifetime.json   what it came to, under the key of what made it
//! ```
//! The key is a hash of the program, of what it is given, and of the files that this names: another build, a file that runs
//! something else now, or other recordings, and it is run again. Each file is written under another name first: it is whole, or
//! not there.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::Outcome;
use crate::sweep::CODE;
use crate::traces::folder;

/// The directory of what is kept.
pub(super) struct Kept {
    directory: PathBuf,
    /// What every key begins with.
    program: Blake2s256,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    key: String,
    outcome: T,
}

impl Kept {
    /// Opens a directory, which is made.
    ///
    /// # Errors
    /// Names what cannot be written or read.
    pub(super) fn open(directory: &Path) -> Result<Self, String> {
        fs::create_dir_all(directory)
            .map_err(|error| format!("--resume: make {}: {error}", directory.display()))?;
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.map_err(|error| format!("--resume: read this program: {error}"))?;
        let program = Blake2s256::new().chain_update(CODE).chain_update(program);
        Ok(Self { directory: directory.to_owned(), program })
    }

    /// Returns the key of what a program makes of these words.
    pub(super) fn key(&self, words: &[String]) -> String {
        let mut hash = self.program.clone();
        let recordings = folder();
        add(&mut hash, recordings.display().to_string().as_bytes());
        add(&mut hash, &[u8::from(recordings.is_dir())]);
        for word in words {
            add(&mut hash, word.as_bytes());
            if let Ok(bytes) = fs::read(word) {
                add(&mut hash, &bytes);
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns what a file came to, if the same made it.
    pub(super) fn get(&self, file: &Path, key: &str) -> Option<Outcome> {
        let text = fs::read_to_string(self.place(file)).ok()?;
        let entry: Entry<Outcome> = serde_json::from_str(&text).ok()?;
        (entry.key == key).then_some(entry.outcome)
    }

    /// Keeps what a file came to.
    ///
    /// # Errors
    /// Names what cannot be written.
    pub(super) fn put(&self, file: &Path, key: &str, outcome: &Outcome) -> Result<(), String> {
        let place = self.place(file);
        let named = |error: &dyn core::fmt::Display| {
            format!("--resume: write {}: {error}", place.display())
        };
        let entry = Entry { key: key.to_owned(), outcome };
        let text = serde_json::to_string(&entry).map_err(|error| named(&error))?;
        let mut whole = NamedTempFile::new_in(&self.directory).map_err(|error| named(&error))?;
        whole.write_all(text.as_bytes()).map_err(|error| named(&error))?;
        whole.persist(&place).map_err(|error| named(&error))?;
        Ok(())
    }

    /// Returns where what a file came to has its place: by the name of the file and that of its folder.
    fn place(&self, file: &Path) -> PathBuf {
        let last = |path: Option<&Path>| {
            path.and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned()
        };
        let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let (folder, stem) = (last(whole.parent()), last(Some(&whole)));
        self.directory.join(format!("{folder}-{stem}.json"))
    }
}

/// Adds a piece with its length.
fn add(hash: &mut Blake2s256, piece: &[u8]) {
    hash.update((piece.len() as u64).to_le_bytes());
    hash.update(piece);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Mode;

    #[test]
    fn what_came_is_found_again_to_the_last_bit_unless_something_else_is_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = Kept::open(&folder.path().join("kept")).expect("opened");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let scenario = folder.path().join("s.toml");
        fs::write(&scenario, "1").expect("written");
        let with_file = words(&format!("run {}", scenario.display()));
        let (key, other) = (kept.key(&with_file), kept.key(&words("run x")));
        let outcome = Outcome {
            mode: Mode::Sim,
            versions: json!({"code": "c"}),
            results: vec![
                json!({"scheme": "udp", "third": 1.0 / 3.0, "odd": 0.1 + 0.2, "count": 7}),
            ],
            faults: Vec::new(),
            account: String::new(),
            seconds: 2.5,
        };
        let record = folder.path().join("r.toml");
        assert!(kept.get(&record, &key).is_none());
        kept.put(&record, &key, &outcome).expect("kept");
        let again = kept.get(&record, &key).expect("it is there");
        assert_eq!(json!(again).to_string(), json!(outcome).to_string());
        assert!(kept.get(&record, &other).is_none(), "something else is run");
        fs::write(&scenario, "2").expect("written");
        assert!(kept.get(&record, &kept.key(&with_file)).is_none(), "it names another file now");
        fs::write(kept.place(&record), "{\"key\": \"").expect("written");
        assert!(kept.get(&record, &key).is_none(), "what is broken is run again");
    }
}
