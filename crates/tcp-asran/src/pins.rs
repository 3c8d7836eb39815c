//! The files in the BPF file system that keep algorithms registered after the program that
//! installed them has ended.
//!
//! ```text
//! /sys/fs/bpf/fulmar/tcp-<version of the object>/<flavour>      the registration of a flavour
//!                   /default-<network namespace> -> <name>      what its sockets began with before `set_default`
//! ```
//!
//! A registration lives as long as its file, and is made before the file: a process that is killed
//! in between leaves only files that are whole. What other versions have left is
//! replaced.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use sys::bpf_filesystem;

use crate::{Error, Flavour, object};

/// How the name of a generation's folder begins.
const GENERATION: &str = "tcp-";
/// How the name of a link that remembers a default begins.
const DEFAULT: &str = "default-";
/// How long to wait for a name: the kernel frees it a moment after the last file of its
/// registration has gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for another `fulmar cc` to finish.
const HELD: Duration = Duration::from_secs(10);

/// Holds the folder of all generations locked: no other process changes it meanwhile.
#[derive(Debug)]
pub(crate) struct Pins {
    folder: PathBuf,
    _held: File,
}

/// What one version of the object has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    folder: PathBuf,
}

impl Pins {
    /// Opens the folder; makes it, and mounts its file system, where they are missing.
    pub(crate) fn create() -> Result<Pins, Error> {
        let root = Path::new(bpf_filesystem::USUAL);
        bpf_filesystem::mount_on(root)
            .map_err(|error| Error::pins("mount a BPF file system on", root, error))?;
        let folder = folder();
        // If the folder is removed while we wait for it, we start again.
        for _ in 0..100 {
            // Not readable: a user who can open the folder could lock it for ever. Files in it can
            // still be reached by name.
            match DirBuilder::new().mode(0o711).create(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::pins("make", &folder, error));
                }
                _ => {}
            }
            if let Some(pins) = Self::open()? {
                return Ok(pins);
            }
        }
        Err(Error::pins("hold", &folder, io::ErrorKind::ResourceBusy.into()))
    }

    /// Opens the folder if it is there.
    pub(crate) fn open() -> Result<Option<Pins>, Error> {
        let folder = folder();
        let held = match bpf_filesystem::hold(&folder, HELD) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| Error::pins("hold", &folder, error))?,
        };
        let same = |found: &fs::Metadata| held.metadata().is_ok_and(|own| own.ino() == found.ino());
        let is_current = fs::metadata(&folder).is_ok_and(|found| same(&found));
        Ok(is_current.then_some(Pins { folder, _held: held }))
    }

    /// Returns the generation of this program's object; its folder need not exist.
    pub(crate) fn current(&self) -> Generation {
        current(&self.folder)
    }

    /// Returns those of other versions.
    pub(crate) fn others(&self) -> Vec<Generation> {
        let current = self.current();
        generations(&self.folder).into_iter().filter(|found| *found != current).collect()
    }

    /// Remembers the default of this network namespace. One that is remembered already is older,
    /// and stays.
    pub(crate) fn remember_default(&self, name: &str) -> Result<(), Error> {
        let path = self.folder.join(default_name());
        match symlink(name, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::pins("make", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns what was remembered for this network namespace.
    pub(crate) fn earlier_default(&self) -> Option<String> {
        let name = fs::read_link(self.folder.join(default_name())).ok()?;
        name.to_str().map(str::to_owned)
    }

    /// Removes everything, and the folder.
    pub(crate) fn remove(self) -> Result<Vec<Flavour>, Error> {
        let mut removed = Vec::new();
        for path in named(&self.folder, DEFAULT) {
            fs::remove_file(&path).map_err(|error| Error::pins("remove", &path, error))?;
        }
        for generation in generations(&self.folder) {
            removed.extend(generation.remove()?);
        }
        fs::remove_dir(&self.folder).map_err(|error| Error::pins("remove", &self.folder, error))?;
        removed.sort_unstable();
        removed.dedup();
        Ok(removed)
    }
}

impl Generation {
    /// Makes the folder.
    pub(crate) fn create(&self) -> Result<(), Error> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::pins("make", &self.folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns where a flavour's registration is kept.
    pub(crate) fn path(&self, flavour: Flavour) -> PathBuf {
        self.folder.join(flavour.name())
    }

    /// Returns the flavours whose files are there, whether or not the kernel knows them.
    pub(crate) fn flavours(&self) -> Vec<Flavour> {
        Flavour::ALL.into_iter().filter(|flavour| self.path(*flavour).exists()).collect()
    }

    /// Says whether this is the version of this program's object.
    pub(crate) fn is_current(&self) -> bool {
        current(&folder()) == *self
    }

    /// Removes a flavour and waits until its name is free.
    pub(crate) fn unregister(&self, flavour: Flavour) -> Result<(), Error> {
        let path = self.path(flavour);
        object::listen();
        if let Ok(link) = Link::open(&path) {
            // Kernels that cannot do it at once do it when the file goes.
            let _ = link.detach();
        }
        fs::remove_file(&path).map_err(|error| Error::pins("remove", &path, error))?;
        let end = Instant::now() + PATIENCE;
        while object::is_registered(flavour.name()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Removes the generation and returns which flavours it had.
    pub(crate) fn remove(&self) -> Result<Vec<Flavour>, Error> {
        let flavours = self.flavours();
        for &flavour in &flavours {
            self.unregister(flavour)?;
        }
        // Flavours of a later version, which this one does not know, go as well.
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            fs::remove_file(&path).map_err(|error| Error::pins("remove", &path, error))?;
        }
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::pins("remove", &self.folder, error))
            }
            _ => Ok(flavours),
        }
    }
}

/// Lists the generations, without a lock.
pub(crate) fn installed() -> Vec<Generation> {
    generations(&folder())
}

fn folder() -> PathBuf {
    Path::new(bpf_filesystem::USUAL).join("fulmar")
}

fn current(folder: &Path) -> Generation {
    Generation { folder: folder.join(format!("{GENERATION}{}", object::version())) }
}

fn generations(folder: &Path) -> Vec<Generation> {
    named(folder, GENERATION).map(|folder| Generation { folder }).collect()
}

/// Lists the entries whose names begin with `begin`.
fn named(folder: &Path, begin: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = move |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(begin);
    entries.filter(is_one).map(|entry| entry.path())
}

/// Names the network namespace of the calling thread by the number of its file, which lives as long
/// as it does.
fn default_name() -> String {
    let number = fs::metadata("/proc/thread-self/ns/net").map_or(0, |namespace| namespace.ino());
    format!("{DEFAULT}{number}")
}
