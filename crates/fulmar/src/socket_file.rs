//! Sockets that have a place in the file system: before one is made, what an earlier daemon has left
//! behind is removed, and nothing else.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use proto::Duration;

/// Times that another program's socket must answer before the program is believed alive.
const LOOKS: u32 = 10;
/// Time between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Makes room for a socket at `path`; `answers` tells whether a program listens there.
///
/// # Errors
/// Those of the file system; `AddrInUse` where a daemon answers; `AlreadyExists` where
/// something other than a socket lies, which may be a key.
pub(crate) fn make_room(path: &Path, answers: impl Fn() -> bool) -> io::Result<()> {
    if let Some(directory) = path.parent()
        && !directory.as_os_str().is_empty()
    {
        fs::create_dir_all(directory)?;
    }
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
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => {
            let what = "something else than a socket lies there";
            Err(io::Error::new(ErrorKind::AlreadyExists, what))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
