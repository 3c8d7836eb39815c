//! The file system in which BPF objects outlive the process that made them.
//!
//! What the files in it stand for only the loader knows, in `tcp-asran`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

/// Where distributions mount it.
pub const USUAL: &str = "/sys/fs/bpf";

/// Time between two attempts to hold a folder that another process holds.
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// `BPF_FS_MAGIC` of linux/magic.h; the field has another width on each architecture.
const MAGIC: u32 = 0xcafe_4a11;

/// Says whether `folder` lies in a BPF file system.
///
/// # Errors
/// Those of `statfs`; a folder that does not exist lies in none.
pub fn contains(folder: &Path) -> io::Result<bool> {
    match statfs(folder) {
        Ok(found) => Ok(found.f_type as u32 == MAGIC),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Mounts one on `folder`, where there is none, for the whole machine.
///
/// # Errors
/// When this process alone sees its mounts (`ip netns exec` makes a set of mounts for what it
/// starts): a file system that is mounted there would vanish with the process. Else those of
/// `mount`.
pub fn mount_on(folder: &Path) -> io::Result<()> {
    if contains(folder)? {
        return Ok(());
    }
    if sees_mounts_alone() {
        return Err(io::Error::other(
            "no BPF file system is mounted here, and this process sees mounts of its own (as below \
             `ip netns exec`), so that one mounted now would vanish with it; call it outside, or \
             run `mount -t bpf bpf /sys/fs/bpf` there first",
        ));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RELATIME;
    // Everybody may look, as where the distribution mounts it; only the owner may remove.
    Ok(mount("bpf", folder, "bpf", flags, c"mode=0755")?)
}

/// Waits until no other process holds `folder`, and holds it until the result is dropped.
///
/// # Errors
/// Those of `open` and `flock`; `TimedOut` where another holds it for longer than `patience`, and
/// `PermissionDenied` where the folder is another user's, who could hold it for ever.
pub fn hold(folder: &Path, patience: Duration) -> io::Result<File> {
    let file = File::open(folder)?;
    let owner = file.metadata()?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        let what = format!("it belongs to user {owner}: remove it, it is no folder of ours");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let deadline = Instant::now() + patience;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(BETWEEN_TRIES)
            }
            Err(Errno::WOULDBLOCK) => {
                let what = format!("another process holds it for more than {patience:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Compares with the parent, which sees other mounts if this process was started with its own.
/// Process 1 would not do: the whole session may live in a container.
fn sees_mounts_alone() -> bool {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    let parent = parent_id().to_string();
    matches!((mounts("self"), mounts(&parent)), (Ok(own), Ok(others)) if own != others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_once_and_nobody_waits_for_ever() {
        let folder = std::env::temp_dir().join(format!("fulmar-hold-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let patience = Duration::from_millis(50);
        let held = hold(&folder, patience).unwrap();
        assert_eq!(hold(&folder, patience).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        hold(&folder, patience).unwrap();
        fs::remove_dir(&folder).unwrap();
        // A folder of another user: of root, or where we are root, of an id that nobody has.
        let foreign = Path::new("/");
        if !rustix::process::geteuid().is_root() {
            let refused = hold(foreign, patience).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn ordinary_and_missing_folders_are_none() {
        assert!(!contains(Path::new("/proc")).unwrap());
        assert!(!contains(Path::new("/nowhere/at/all")).unwrap());
    }
}
