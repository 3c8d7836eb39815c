//! The lock of a folder with configurations: a file of its own, which nobody can open but root and
//! the folder's owner. Whoever may look into the folder could lock the folder itself, and so keep
//! an operator from removing a peer.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use proto::Duration;

use super::folder::create;

const NAME: &str = ".fulmar.lock";
/// How long another edit may take: reading a thousand peers twice, and writing them, takes less
/// than a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Locks the folder of a file; until it is dropped nobody else edits there.
///
/// # Errors
/// Those of the file system, and who holds the lock where it is not free within some seconds.
pub(super) fn lock(file: &Path) -> Result<File, String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let path = folder.join(NAME);
    let failed = |error: io::Error| format!("lock {}: {error}", folder.display());
    let lock = open(folder, &path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => super::not_written(&path, &error),
        _ => failed(error),
    })?;
    let began = std::time::Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if began.elapsed() > PATIENCE.into() => {
                return Err(held(folder, &path, &lock));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY.into()),
        }
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    let owner = folder.metadata()?.uid();
    let file = match create(path, 0o600) {
        Ok(file) => {
            // One that root makes is the folder's owner's as well; who is not root makes it its
            // own.
            let _ = fchown(&file, Some(owner), None);
            file
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).write(true).open(path)?
        }
        Err(error) => return Err(error),
    };
    let (about, there) = (file.metadata()?, path.symlink_metadata()?);
    let own = Path::new("/proc/self").metadata()?.uid();
    let is_it = there.is_file() && (there.dev(), there.ino()) == (about.dev(), about.ino());
    if !is_it || about.mode() & 0o077 != 0 || ![0, owner, own].contains(&about.uid()) {
        let what = format!(
            "{} is not for root or the folder's owner alone, so that somebody else could hold it: remove it",
            path.display()
        );
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(file)
}

fn held(folder: &Path, path: &Path, lock: &File) -> String {
    let (folder, waited) = (folder.display(), PATIENCE.as_secs());
    match holder(lock) {
        Some((process, name)) => format!(
            "{folder} has been locked by {name} (process {process}) for more than {waited} s, and nothing was changed: \
             wait for its end, or end it (kill {process}), and try again"
        ),
        None => format!(
            "{folder} has been locked by somebody else for more than {waited} s, and nothing was changed; sudo fuser -v \
             {} says who it is",
            PathBuf::from(path).display()
        ),
    }
}

/// Finds the process that holds a lock, and its name, in `/proc/locks` (proc_locks(5)). File
/// systems of several disks show other devices there than by `stat`, so that the number of the file
/// decides.
fn holder(lock: &File) -> Option<(u32, String)> {
    let number = lock.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let process = locks.lines().find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, process, place, ..] = words.as_slice() else { return None };
        (place.rsplit(':').next() == Some(&number)).then(|| process.parse().ok()).flatten()
    })?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some((process, name.trim().escape_debug().to_string()))
}
