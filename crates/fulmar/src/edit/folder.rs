//! What else lies in the folder of a configuration: files of other daemons, secrets that they name,
//! texts that an edit has put there and that are to take a file's place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::config::read_text;

/// Paths beside a file: `STEM.END`, `STEM-2.END` and so on.
pub(crate) fn numbered(file: &Path, stem: &str, end: &str) -> impl Iterator<Item = PathBuf> {
    std::iter::once(format!("{stem}.{end}"))
        .chain((2..).map(move |number| format!("{stem}-{number}.{end}")))
        .map(|name| file.with_file_name(name))
}

/// Makes the file whose text is to replace another one's, `.NAME.new` beside it, and locks it: one
/// that is there and not locked was left by a process that was killed, and is removed.
pub(crate) fn create_beside(file: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    for path in numbered(file, &format!(".{name}"), "new") {
        if path.symlink_metadata().is_ok_and(|left| left.is_file())
            && File::open(&path).is_ok_and(|left| left.try_lock().is_ok())
        {
            fs::remove_file(&path)?;
        }
        match create(&path, mode) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                return made.map(|open| {
                    // Whoever was faster can do no more than let it lie there after us.
                    let _ = open.try_lock();
                    (path, open)
                });
            }
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Makes a file that was not there: nothing is written over, and through no link that somebody has
/// laid.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Tells whether a file of the folder names another one of it, in whatever words, or is a link to
/// it. What cannot be a configuration (too large, no text) names nothing.
///
/// # Errors
/// Those of a file that cannot be looked into, where no other one names it.
pub(crate) fn is_named(path: &Path) -> io::Result<bool> {
    let name = path.file_name().unwrap_or_default();
    let text = name.to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut unknown = None;
    for entry in fs::read_dir(folder)? {
        let other = entry?.path();
        if other == path {
            continue;
        }
        if fs::read_link(&other).is_ok_and(|to| to.file_name() == Some(name)) {
            return Ok(true);
        }
        if !other.is_file() {
            continue;
        }
        match read_text(&other) {
            Ok(words) if mentions(&words, &text) => return Ok(true),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::FileTooLarge | ErrorKind::InvalidData | ErrorKind::NotFound => {}
                _ => unknown = Some(error),
            },
        }
    }
    unknown.map_or(Ok(false), Err)
}

/// Finds a name that is not the end of a longer one: `1.psk` is not that of `drone-1`.
fn mentions(words: &str, name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    words.match_indices(name).any(|(at, _)| !words[..at].ends_with(is_of_name))
}
