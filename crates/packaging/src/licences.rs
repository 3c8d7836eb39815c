//! The licences of what is linked into a program: they ask that their text goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// How the names of licence files begin, in capitals.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The crates of the workspace and what they depend on, for one target.
#[derive(Debug, Deserialize)]
pub(crate) struct Crates {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// "build" or "dev"; none of what is linked in.
    kind: Option<String>,
}

impl Crates {
    /// Asks cargo what there is.
    ///
    /// # Errors
    /// Say what cargo answered.
    pub(crate) fn ask_cargo(target: &str) -> Result<Self, String> {
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform"];
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let answer = Command::new(cargo)
            .args(arguments)
            .arg(target)
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stderr);
            return Err(format!("cargo metadata: {}", said.trim_end()));
        }
        serde_json::from_slice(&answer.stdout).map_err(|error| format!("cargo metadata: {error}"))
    }

    /// Writes the licences of everything foreign in `program` into a file of that name.
    ///
    /// # Errors
    /// Say which crate has no licence, or which file could not be read or written.
    pub(crate) fn write(&self, program: &str, folder: &Path) -> Result<(), String> {
        let mut text = String::from(
            "Linked into this program, beside its own crates, are those below: name, version, licence as its authors \
             state it. The licences' texts follow.\n\n",
        );
        let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
        for package in self.linked_into(program)? {
            let Package { name, version, license, .. } = package;
            let licence = license.as_deref().unwrap_or("see below");
            // Writing into a string does not fail.
            let _ = writeln!(text, "{name} {version}: {licence}");
            let found = licence_texts(package)?;
            if found.is_empty() && license.is_none() {
                return Err(format!("{name} {version} says nothing of its licence"));
            }
            for of_licence in found {
                texts.entry(of_licence).or_default().insert(format!("{name} {version}"));
            }
        }
        for (of_licence, names) in &texts {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let _ = write!(text, "\n\n==== {}\n\n{of_licence}\n", names.join(", "));
        }
        let file = folder.join(program);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, text))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Returns what is linked into a program of the workspace, without the workspace's own crates.
    fn linked_into(&self, program: &str) -> Result<Vec<&Package>, String> {
        let own = |package: &&Package| package.name == program && package.source.is_none();
        let root = self.packages.iter().find(own);
        let root = root.ok_or_else(|| format!("the workspace has no crate {program}"))?;
        let mut open = vec![root.id.as_str()];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = self.resolve.nodes.iter().find(|node| node.id == id);
            let linked = |dependency: &&Dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind.is_none())
            };
            let dependencies = node.into_iter().flat_map(|node| node.deps.iter().filter(linked));
            open.extend(dependencies.map(|dependency| dependency.pkg.as_str()));
        }
        let foreign =
            |package: &&Package| package.source.is_some() && seen.contains(package.id.as_str());
        Ok(self.packages.iter().filter(foreign).collect())
    }
}

/// Returns the texts of the licence files that a crate comes with, and of libbpf, which is a folder
/// of one.
fn licence_texts(package: &Package) -> Result<Vec<String>, String> {
    let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
    let mut texts = Vec::new();
    for folder in [folder.to_owned(), folder.join("libbpf")] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.is_file() && is_licence(file));
        files.sort();
        for file in files {
            let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            texts.push(String::from_utf8_lossy(&text).replace('\r', "").trim().to_owned());
        }
    }
    Ok(texts)
}

fn is_licence(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_of_what_is_linked_go_with_a_program_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let crates = Crates::ask_cargo("x86_64-unknown-linux-gnu").unwrap();
        crates.write("fulmar", folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join("fulmar")).unwrap();
        for linked in ["\nring ", "\nsnow ", "\nlibbpf-sys ", "BSD 2-Clause", "Apache License"] {
            assert!(text.contains(linked), "{linked:?} is missing");
        }
        for other in ["\nproptest ", "\ncc ", "\nclap_mangen ", "\nfulmar "] {
            assert!(!text.contains(other), "{other:?} is not linked in");
        }
    }
}
