//! Hashes the sources that figures come from: results of different code are told apart by it,
//! wherever they were made.

use std::io;
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest};

/// What a figure of the world depends on, beside this crate.
const CRATES: [&str; 9] =
    ["units", "ip", "coding", "toml-keys", "netem", "proto", "world", "models", "lab"];
/// Letters of the hash that are kept.
const LETTERS: usize = 16;

fn main() -> io::Result<()> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = here.parent().unwrap_or(&here);
    let mut hash = Blake2s256::new();
    for name in CRATES {
        let sources = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        add(&sources, Path::new(name), &mut hash)?;
    }
    let letters: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=FULMAR_CODE={}", &letters[..LETTERS]);
    Ok(())
}

/// Adds a folder: names and contents of all files, in the order of their names.
fn add(folder: &Path, name: &Path, hash: &mut Blake2s256) -> io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = name.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            add(&path, &name, hash)?;
        } else {
            let bytes = std::fs::read(&path)?;
            hash.update(name.display().to_string().as_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
        }
    }
    Ok(())
}
