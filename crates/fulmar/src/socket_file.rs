//! Sockets that have a place in the file system: before one is made, what an earlier daemon has left
//! behind is removed, and nothing else.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use proto::Duration;

/// Times that another program's socket must answer before the program is believed alive.
const LOOKS: u32 = 10;
/// Time between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The directories that were made for a socket: when this goes, those that are empty then are removed. It
/// has to go after the socket.
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

/// Makes room for a socket at `path`; `answers` tells whether a program listens there.
///
/// # Errors
/// Those of the file system; `AddrInUse` where a daemon answers; `AlreadyExists` where
/// something other than a socket lies, which may be a key.
pub(crate) fn make_room(path: &Path, answers: impl Fn() -> bool) -> io::Result<MadeDirectories> {
    let made = make_directories(path)?;
    // One that was killed a moment ago may still be on its way out.
    let mut looks = 0;
    while answers() {
        looks += 1;
        if looks == LOOKS {
            let what = "another daemon answers there: is this file's daemon running already?";
            return Err(io::Error::new(ErrorKind::AddrInUse, what));
        }
        std::thread::sleep(BETWEEN_LOOKS.into());
    }
    if is_socket_there(path)? {
        fs::remove_file(path)?;
    }
    Ok(made)
}

/// Tries whether [`make_room`] and a socket at `path` would succeed where nobody answers; changes nothing.
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
    let probe = path.with_file_name(format!(".fulmar-check-{}", std::process::id()));
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
        fs::create_dir(&directory)?;
        made.paths.insert(0, directory);
    }
    Ok(made)
}
