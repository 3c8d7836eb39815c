//! What files came to, kept so that a run that was cut off goes on where it was, and so that a page
//! can be made of it without running anything.
//!
//! ```text
//! DIR/conclone-fig5-lifetime.json   --resume: what it came to, under the key of what made it
//! results/fig5-lifetime.json        --record: the same beside the record, under its commit
//! ```
//! The key of the former is a hash of the program, of what it is given, of the files that this
//! names with all that lies beside them, and of the recordings: another build, a file that runs
//! something else now, another table of rates or other recordings, and it is run again.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Outcome, Record};
use crate::sweep::CODE;
use crate::traces::folder;
use crate::whole_file;

/// The folder of results beside records.
const RESULTS: &str = "results";
/// The form of these files: one of another form is not read.
const FORMAT: u64 = 1;
/// Longest list that the result beside a record has: enough for any curve.
const POINTS: usize = 200;
/// No result is larger, bytes.
const LARGEST: u64 = 16 << 20;

/// The directory of what is kept.
pub(super) struct Kept {
    directory: PathBuf,
    /// What every key begins with.
    program: Blake2s256,
}

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    format: u64,
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
        let entry = read_entry(&self.place(file)).ok()??;
        (entry.key == key).then_some(entry.outcome)
    }

    /// Returns what a record came to, if this program made it of what the record runs now.
    ///
    /// # Errors
    /// Names the file of what it came to, and what is wrong with that.
    pub(super) fn look(&self, file: &Path, record: &Record) -> Result<Option<Outcome>, String> {
        let key = self.key(&inputs_of(file, record));
        let entry = read_entry(&self.place(file))?;
        Ok(entry.filter(|entry| entry.key == key).map(|entry| entry.outcome))
    }

    /// Keeps what a file came to.
    ///
    /// # Errors
    /// Names what cannot be written.
    pub(super) fn put(&self, file: &Path, key: &str, outcome: &Outcome) -> Result<(), String> {
        let entry = Entry { format: FORMAT, key: key.to_owned(), outcome };
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

/// Returns what the outcome of a file depends on, beside the program.
pub(super) fn inputs_of(file: &Path, record: &Record) -> Vec<String> {
    match &record.pairs {
        None => record.run.clone(),
        Some(pairs) => {
            let table = file.parent().unwrap_or(Path::new(".")).join(&pairs.file);
            vec![table.display().to_string(), format!("{pairs:?}")]
        }
    }
}

/// Returns where the result of a record lies.
pub(super) fn result_of(record: &Path) -> PathBuf {
    let name = PathBuf::from(record.file_stem().unwrap_or_default()).with_extension("json");
    record.parent().unwrap_or(Path::new(".")).join(RESULTS).join(name)
}

/// Writes the result of a record beside it, whole, its longer lists thinned.
///
/// # Errors
/// Names what cannot be written.
pub(super) fn write_result(
    record: &Path,
    commit: Option<&str>,
    outcome: &Outcome,
) -> Result<(), String> {
    let place = result_of(record);
    let results = outcome.results.iter().map(thinned).collect();
    let outcome = Outcome { results, ..outcome.clone() };
    let entry = Entry { format: FORMAT, key: commit.unwrap_or_default().to_owned(), outcome };
    let named = |why: &dyn core::fmt::Display| format!("{}: {why}", place.display());
    let text = serde_json::to_string(&entry).map_err(|error| named(&error))?;
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(|error| named(&error))?;
    }
    whole_file::write(&place, (text + "\n").as_bytes())
}

/// Reads the result of a record; none where there is none.
///
/// # Errors
/// Names the file, and what is wrong with it.
pub(super) fn read_result(place: &Path) -> Result<Option<Outcome>, String> {
    Ok(read_entry(place)?.map(|entry| entry.outcome))
}

/// Reads the bytes of a result.
///
/// # Errors
/// The name, and what is wrong with them.
#[cfg(any(test, fuzzing))]
pub(super) fn parse_result(name: &str, bytes: &[u8]) -> Result<Outcome, String> {
    parse_entry(name, bytes).map(|entry| entry.outcome)
}

fn read_entry(place: &Path) -> Result<Option<Entry<Outcome>>, String> {
    let name = place.display().to_string();
    let length = match fs::metadata(place) {
        Ok(known) => known.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("read {name}: {error}")),
    };
    if length > LARGEST {
        return Err(format!("{name}: larger than {LARGEST} bytes, and not read"));
    }
    let bytes = fs::read(place).map_err(|error| format!("read {name}: {error}"))?;
    parse_entry(&name, &bytes).map(Some)
}

fn parse_entry(name: &str, bytes: &[u8]) -> Result<Entry<Outcome>, String> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("{name}: cut off or damaged: {error}"))?;
    match &value["format"] {
        format if format.as_u64() == Some(FORMAT) => {}
        Value::Null => {
            return Err(format!("{name}: says no `format`, this program reads {FORMAT}"));
        }
        format => return Err(format!("{name}: of format {format}, this program reads {FORMAT}")),
    }
    serde_json::from_value(value).map_err(|error| format!("{name}: damaged: {error}"))
}

/// Returns a value whose longer lists have every so-manyth element alone, but for those of seeds
/// and repetitions, of which intervals are made.
fn thinned(value: &Value) -> Value {
    match value {
        Value::Array(all) => {
            let step = all.len().div_ceil(POINTS).max(1);
            all.iter().step_by(step).map(thinned).collect()
        }
        Value::Object(fields) => {
            let of = |(key, field): (&String, &Value)| {
                let is_whole = key == "by_seed" || key == "by_repetition";
                (key.clone(), if is_whole { field.clone() } else { thinned(field) })
            };
            Value::Object(fields.iter().map(of).collect())
        }
        other => other.clone(),
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

    #[test]
    fn the_result_beside_a_record_has_all_seeds_and_no_more_of_a_curve_than_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("fig5.toml");
        let place = result_of(&record);
        assert!(place.ends_with("results/fig5.json"), "{place:?}");
        assert!(read_result(&place).expect("nothing is wrong").is_none());
        let seeds: Vec<Value> = (0..300).map(|seed| json!({"gap_s": seed})).collect();
        let curve: Vec<usize> = (0..1_000).collect();
        let result = json!({"scheme": "udp", "by_seed": seeds, "down": {"curve": curve}});
        let outcome = Outcome::sound(Mode::Emu, vec![result]);
        write_result(&record, Some("c0ffee"), &outcome).expect("written");
        let read = read_result(&place).expect("sound").expect("it is there");
        assert_eq!(read.results[0]["by_seed"], json!(seeds), "each of them");
        let thinned = read.results[0]["down"]["curve"].as_array().expect("a list");
        assert_eq!((thinned.len(), &thinned[1]), (200, &json!(5)));
        let whole = fs::read(&place).expect("there");
        for length in 0..whole.len() - 2 {
            let why = parse_result("r.json", &whole[..length]).expect_err("cut off");
            assert!(why.starts_with("r.json: cut off"), "{why}");
        }
    }
}
