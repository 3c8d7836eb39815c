//! What files came to, kept so that a run that was cut off goes on where it was.
//!
//! ```text
//! DIR/conclone-fig5-lifetime.json   what it came to, under the key of what made it
//! ```
//! The key is a hash of the program, of what it is given, of the files that this names with all
//! that lies beside them, and of the recordings: another build, a file that runs something else
//! now, another table of rates or other recordings, and it is run again.

use std::fs;
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::sweep::CODE;
use crate::traces::folder;
use crate::whole_file;

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
        let mut program = Blake2s256::new().chain_update(CODE).chain_update(program);
        for set in folders_of(&folder()) {
            add_folder(&mut program, &set);
        }
        Ok(Self { directory: directory.to_owned(), program })
    }

    /// Returns the key of what a program makes of these words.
    pub(super) fn key(&self, words: &[String]) -> String {
        let mut hash = self.program.clone();
        for word in words {
            add(&mut hash, word.as_bytes());
            let file = Path::new(word);
            // A scenario names tables that lie beside it.
            if let Some(beside) = file.parent().filter(|_| file.is_file()) {
                add_folder(&mut hash, beside);
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
        let entry = Entry { key: key.to_owned(), outcome };
        let text = serde_json::to_string(&entry).map_err(|error| format!("--resume: {error}"))?;
        let written = whole_file::write(&self.place(file), text.as_bytes());
        written.map_err(|error| format!("--resume: {error}"))
    }

    /// Returns where what a file came to has its place: by the name of the file and that of its
    /// folder.
    fn place(&self, file: &Path) -> PathBuf {
        let last = |path: Option<&Path>| {
            path.and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned()
        };
        let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let (folder, stem) = (last(whole.parent()), last(Some(&whole)));
        self.directory.join(format!("{folder}-{stem}.json"))
    }
}

/// Adds the names of a folder's files and what is in them, in an order that does not change.
fn add_folder(hash: &mut Blake2s256, folder: &Path) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort_unstable();
    for file in files {
        add(hash, file.as_os_str().as_encoded_bytes());
        add(hash, &fs::read(&file).unwrap_or_default());
    }
}

/// Returns a folder, and those in it.
fn folders_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inner = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = std::iter::once(folder.to_owned()).chain(inner).collect();
    all.sort_unstable();
    all
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
        let result = json!({"scheme": "udp", "third": 1.0 / 3.0, "odd": 0.1 + 0.2, "count": 7});
        let outcome = Outcome {
            versions: json!({"code": "c"}),
            seconds: 2.5,
            ..Outcome::sound(Mode::Sim, vec![result])
        };
        let record = folder.path().join("r.toml");
        assert!(kept.get(&record, &key).is_none());
        kept.put(&record, &key, &outcome).expect("kept");
        let again = kept.get(&record, &key).expect("it is there");
        assert_eq!(json!(again).to_string(), json!(outcome).to_string());
        assert!(kept.get(&record, &other).is_none(), "something else is run");
        fs::write(&scenario, "2").expect("written");
        assert!(kept.get(&record, &kept.key(&with_file)).is_none(), "it names another file now");
        fs::write(&scenario, "1").expect("written");
        fs::write(folder.path().join("rates.csv"), "0,1").expect("written");
        assert!(kept.get(&record, &kept.key(&with_file)).is_none(), "another table lies beside it");
        fs::write(kept.place(&record), "{\"key\": \"").expect("written");
        assert!(kept.get(&record, &key).is_none(), "what is broken is run again");
    }
}
