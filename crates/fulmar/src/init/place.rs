//! Puts a new file and its key on disk: whole or not at all, and nothing is overwritten unless that
//! was asked for.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::config::{self, Config};
use crate::edit::folder::{create_beside, numbered};
use crate::edit::not_written;
use crate::keys;

/// The key's name, as the texts of the files have it.
const KEY: &str = "private.key";

/// What was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) config: Config,
    pub(super) key: PathBuf,
    /// Whether the key is new.
    pub(super) key_is_new: bool,
    /// Where the file is that was there before.
    pub(super) old: Option<PathBuf>,
}

/// Says why a file may not be written, before anybody is asked anything.
///
/// # Errors
/// Where it exists and `force` is not given, or its folder is something else. One that is not there
/// is made.
pub(super) fn check(file: &Path, force: bool) -> Result<(), String> {
    let shown = file.display();
    if file.is_dir() {
        return Err(format!("{shown} is a folder: name the file in it"));
    }
    if file.symlink_metadata().is_ok() && !force {
        return Err(format!(
            "{shown} is there already: --force writes a new one and keeps it as {}",
            free_old(file).display()
        ));
    }
    let folder = folder(file);
    if folder.exists() && !folder.is_dir() {
        return Err(format!("{} is no folder", folder.display()));
    }
    Ok(())
}

/// Writes the file, and a key beside it where there is none.
///
/// # Errors
/// Those of the file system, and mistakes that the daemon would find; then there is no new file.
pub(super) fn write(file: &Path, text: &str, force: bool) -> Result<Written, String> {
    make_folder(folder(file))?;
    let key = folder(file).join(KEY);
    let key_is_new = make_key(&key)?;
    let written = put(file, text, force);
    if written.is_err() && key_is_new {
        let _ = fs::remove_file(&key);
    }
    let (config, old) = written?;
    Ok(Written { config, key, key_is_new, old })
}

/// Makes the folder where it is missing. It holds secrets: nobody else looks into it, and sockets,
/// which others may use, are elsewhere.
fn make_folder(folder: &Path) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| not_written(folder, &error))
}

fn make_key(key: &Path) -> Result<bool, String> {
    let secret = keys::generate().map_err(|error| format!("draw random numbers: {error}"))?;
    match keys::write_new(key, &secret) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(not_written(key, &error)),
    }
}

fn put(file: &Path, text: &str, force: bool) -> Result<(Config, Option<PathBuf>), String> {
    let config = config::parse(text, file).map_err(|error| error.to_string())?;
    // What the process's mask leaves, as for any new file.
    let (new, mut open) = create_beside(file, 0o666).map_err(|error| not_written(file, &error))?;
    let mut done = || -> io::Result<Option<PathBuf>> {
        open.write_all(text.as_bytes())?;
        open.sync_all()?;
        if !(force && file.exists()) {
            // Unlike a rename, it never takes the place of another file.
            fs::hard_link(&new, file)?;
            return Ok(None);
        }
        let old = free_old(file);
        fs::hard_link(file.canonicalize()?, &old)?;
        fs::rename(&new, file)?;
        Ok(Some(old))
    };
    let old = done().map_err(|error| not_written(file, &error));
    let _ = fs::remove_file(&new);
    let old = old?;
    let synced = fs::File::open(folder(file)).and_then(|folder| folder.sync_all());
    synced.map_err(|error| not_written(folder(file), &error))?;
    Ok((config, old))
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the file goes that was there before: `FILE.old`, or with a number where one is there from
/// an earlier time.
fn free_old(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut all = numbered(file, &name, "old");
    all.find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "role = \"drone\"\nprivate_key_file = \"private.key\"\n";

    #[test]
    fn nothing_is_overwritten_unless_asked_and_then_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drone.toml");
        assert!(write(&file, TEXT, false).unwrap().key_is_new);
        let key = fs::read(folder.path().join(KEY)).unwrap();
        assert!(check(&file, false).is_err_and(|error| error.contains("--force")));
        assert!(write(&file, "role = \"drone\" # 2", false).is_err());
        assert!(write(&file, TEXT, false).is_err());
        let second = format!("{TEXT}# the second\n");
        let again = write(&file, &second, true).unwrap();
        assert!(!again.key_is_new && fs::read(folder.path().join(KEY)).unwrap() == key);
        assert_eq!(fs::read_to_string(again.old.unwrap()).unwrap(), TEXT);
        assert_eq!(fs::read_to_string(&file).unwrap(), second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "file, old, key");
        fs::write(folder.path().join("drone.toml.new"), "mine").unwrap();
        let third = write(&file, TEXT, true).unwrap().old.unwrap();
        assert_eq!(fs::read_to_string(third).unwrap(), second);
        for (name, text) in [("drone.toml.old", TEXT), ("drone.toml.new", "mine")] {
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), text, "{name} stays");
        }
    }

    #[test]
    fn a_folder_that_is_missing_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("etc/fulmar/drone.toml");
        check(&file, false).unwrap();
        write(&file, TEXT, false).unwrap();
        let mode = fs::metadata(file.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(check(&file.join("x.toml"), false).is_err_and(|error| error.contains("no folder")));
    }

    #[test]
    fn a_text_with_a_mistake_leaves_neither_file_nor_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drone.toml");
        assert!(write(&file, &format!("{TEXT}nonsense = 1\n"), false).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(check(folder.path(), true).is_err());
    }
}
