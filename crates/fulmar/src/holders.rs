//! Which other program has a device open, as far as this process may see: reading beside it would
//! take its bytes away. Who has it locked, the kernel tells everybody; which files a process has
//! open, only whoever has all of its rights.
//!
//! Looking through all processes takes milliseconds, on a slow computer tens of them: where the
//! loop asks, a thread looks.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use proto::{Duration, Instant};
use sys::device::{major, minor};

/// How often a port is looked at.
const EVERY: Duration = Duration::from_secs(10);

/// Knows which other program has a device open.
#[derive(Default)]
pub(crate) struct HolderWatch {
    /// What was seen last; whoever looks has it as well.
    found: Arc<Mutex<Option<String>>>,
    next: Instant,
}

impl HolderWatch {
    /// When [`HolderWatch::look`] is due.
    pub(crate) fn timeout(&self) -> Instant {
        self.next
    }

    /// Looks at the next opportunity.
    pub(crate) fn hurry(&mut self) {
        self.next = Instant::ZERO;
    }

    /// Looks where that is due, in a thread, unless one is still looking.
    pub(crate) fn look(&mut self, now: Instant, device: &Path) {
        if self.next > now {
            return;
        }
        self.next = now + EVERY;
        if Arc::strong_count(&self.found) > 1 {
            return;
        }
        let (device, found) = (device.to_owned(), Arc::clone(&self.found));
        let looker = move || {
            let holder = device.canonicalize().ok().and_then(|device| other_holder(&device));
            *found.lock().unwrap_or_else(PoisonError::into_inner) = holder;
        };
        if let Err(error) = std::thread::Builder::new().name("holders".into()).spawn(looker) {
            tracing::debug!(%error, "look for other programs at a port");
        }
    }

    /// Names the program that was seen last.
    pub(crate) fn found(&self) -> Option<String> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Names the program that has a device open; the device is named as the kernel does.
pub(crate) fn holder(device: &Path) -> Option<String> {
    holder_but(device, None)
}

/// Lists what lies in a folder, in order; nothing where that cannot be read.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Does the same, and leaves this process out.
fn other_holder(device: &Path) -> Option<String> {
    holder_but(device, Some(std::process::id()))
}

fn holder_but(device: &Path, but: Option<u32>) -> Option<String> {
    let but = but.map_or_else(String::new, |process| process.to_string());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    if let Some(locker) = fs::metadata(device).ok().and_then(|found| locker(&locks, &found))
        && locker != but
    {
        return Some(named(&locker));
    }
    let processes = entries(Path::new("/proc")).into_iter();
    for process in processes.filter(|process| process.join("fd").exists()) {
        let number = process.file_name().unwrap_or_default().to_string_lossy();
        let is_process = number.bytes().all(|byte| byte.is_ascii_digit());
        let open =
            if is_process && number != *but { entries(&process.join("fd")) } else { Vec::new() };
        if open.iter().any(|link| fs::read_link(link).is_ok_and(|target| target == device)) {
            return Some(named(&number));
        }
    }
    None
}

/// Returns the number of the process that has a file locked for itself, by the kernel's list.
fn locker(locks: &str, file: &Metadata) -> Option<String> {
    let is_it = |place: &str| {
        let mut parts = place.split(':');
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let device = (hex(), hex());
        let inode = place.rsplit(':').next().and_then(|inode| inode.parse().ok());
        let (major, minor) = (major(file.dev()), minor(file.dev()));
        device == (Some(major.into()), Some(minor.into())) && inode == Some(file.ino())
    };
    locks.lines().find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, place, ..] = words[..] else { return None };
        is_it(place).then(|| process.to_owned())
    })
}

fn named(process: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("{} (process {process})", name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_is_seen_and_this_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().canonicalize().unwrap().join("device");
        let ours = fs::File::create(&file).unwrap();
        assert_eq!(other_holder(&file), None);
        let mut other = std::process::Command::new("sleep").arg("60").stdin(ours).spawn().unwrap();
        let seen = other_holder(&file);
        let _ = other.kill();
        let _ = other.wait();
        assert_eq!(seen, Some(format!("sleep (process {})", other.id())));
    }
}
