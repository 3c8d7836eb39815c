//! Sockets that have a place in the file system: before one is made, what an earlier daemon has
//! left behind is removed, and nothing else.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use sys::seqpacket::answers;

/// A listener for streams, at a path that goes when it does, and with it the directories that were
/// made for it.
pub(crate) struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    _directories: MadeDirectories,
}

impl SocketFile {
    /// Listens; takes the place of a socket that a killed daemon has left behind.
    ///
    /// # Errors
    /// Those of the file system, and of [`make_room`].
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let directories = make_room(path)?;
        let listener = UnixListener::bind(path)?;
        // From here on the path is ours to remove.
        let file = Self { listener, path: path.to_owned(), _directories: directories };
        file.listener.set_nonblocking(true)?;
        // For owner and group: the peers of a drone are no business of other users.
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        Ok(file)
    }

    /// Takes the next client that waits.
    ///
    /// # Errors
    /// `WouldBlock` when none does.
    pub(crate) fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept()?.0)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.path);
    }
}

impl AsFd for SocketFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The directories that were made for a socket: when this goes, those that are empty then are
/// removed. It has to go after the socket.
#[derive(Debug, Default)]
pub(crate) struct MadeDirectories {
    /// The deepest first.
    paths: Vec<PathBuf>,
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        // One that is not empty stays, and so do those around it.
        let _ = self.paths.iter().try_for_each(fs::remove_dir);
    }
}

/// Makes room for a socket at `path`.
///
/// # Errors
/// Those of the file system; `AddrInUse` where a program answers; `AlreadyExists` where
/// something other than a socket lies, which may be a key.
pub(crate) fn make_room(path: &Path) -> io::Result<MadeDirectories> {
    let made = make_directories(path)?;
    if answers(path) {
        let what = "another daemon answers there: is this file's daemon running already?";
        return Err(io::Error::new(ErrorKind::AddrInUse, what));
    }
    if is_socket_there(path)? {
        fs::remove_file(path)?;
    }
    Ok(made)
}

/// Tries whether [`make_room`] and a socket at `path` would succeed where nobody answers; changes
/// nothing.
///
/// # Errors
/// As of [`make_room`].
pub(crate) fn try_place(path: &Path) -> io::Result<()> {
    // A path may be too long for a socket.
    SocketAddr::from_pathname(path)?;
    let _made = make_directories(path)?;
    is_socket_there(path)?;
    // Beside it, for the socket that lies there may be a living daemon's.
    try_file(path)
}

/// Tries whether files can be made in a directory; changes nothing.
///
/// # Errors
/// Those of the file system.
pub(crate) fn try_directory(path: &Path) -> io::Result<()> {
    let any = path.join("any");
    let _made = make_directories(&any)?;
    try_file(&any)
}

/// Tries whether a file beside `path` can be made.
fn try_file(path: &Path) -> io::Result<()> {
    let probe = path.with_file_name(format!(".fulmar-check-{}", sys::entropy::word()?));
    fs::File::create_new(&probe)?;
    fs::remove_file(&probe)
}

/// Tells whether a socket lies there, or nothing.
fn is_socket_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => Ok(true),
        Ok(_) => {
            let what = "something else than a socket lies there";
            Err(io::Error::new(ErrorKind::AlreadyExists, what))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the directories around a path that are not there.
fn make_directories(path: &Path) -> io::Result<MadeDirectories> {
    let around = path.ancestors().skip(1).filter(|at| !at.as_os_str().is_empty());
    let missing: Vec<_> = around.take_while(|at| !at.exists()).map(Path::to_owned).collect();
    // What was made before one could not be made is removed again.
    let mut made = MadeDirectories::default();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(&directory) {
            Ok(()) => made.paths.insert(0, directory),
            // Another daemon that starts at this moment has made it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_that_start_at_once_share_the_directory_that_both_make() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let run = directory.path().join(format!("{round}/run/fulmar"));
            let start = std::sync::Barrier::new(2);
            let open = |name: &str| {
                start.wait();
                make_directories(&run.join(name))
            };
            std::thread::scope(|threads| {
                let other = threads.spawn(|| open("drone.sock"));
                let (one, other) = (open("station.sock"), other.join().unwrap());
                assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
            });
        }
    }
}
