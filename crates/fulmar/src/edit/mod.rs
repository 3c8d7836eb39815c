//! Configuration files that Fulmar itself changes: comments and order stay, and at every moment
//! there is either the old file or the new one.
//!
//! Whoever edits holds the lock of the folder meanwhile ([`mod@lock`]). A new text is read as the
//! daemon reads it before it takes the old one's place, with the same owner and permissions. What a
//! peer shares with us lies in a file of its own beside it.
//!
//! Other daemons may have their files in the same folder: nothing is written over, and no secret is
//! removed that any file there names ([`folder`]).

pub(crate) mod folder;
mod lock;
pub(crate) mod sections;

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use proto::{Duration, StaticSecret};
use toml_edit::DocumentMut;
use zeroize::Zeroizing;

use crate::config::{self, Config};
use crate::keys;
use crate::reading::{check_is_file, within};
use folder::{create_beside, is_named, numbered};
use lock::lock;

/// What files of pre-shared keys end in.
const SECRET_SUFFIX: &str = "psk";

/// How long a file may take to lock and read: somebody else's edit and a reading, and some more.
const BEGINS_WITHIN: Duration = Duration::from_secs(12);

/// A file that is being edited; the folder is locked as long as this lives.
pub(crate) struct Editing {
    /// Where it lies, without symbolic links.
    file: PathBuf,
    pub(crate) document: DocumentMut,
    before: Zeroizing<String>,
    made: Made,
    _lock: File,
}

/// A new text that is on disk, beside the file whose place it is to take.
pub(crate) struct Staged {
    file: PathBuf,
    new: PathBuf,
    /// Keeps others from taking the new text for one that was left there.
    _open: File,
    before: Zeroizing<String>,
    made: Made,
}

/// Files that an edit has made; they go with it unless it was taken over.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| _ = fs::remove_file(path));
    }
}

impl Editing {
    /// Reads a file to edit it; waits while somebody else does, but not for long.
    ///
    /// # Errors
    /// Say what cannot be read, every mistake in the file, or who edits in its folder.
    pub(crate) fn begin(file: &Path) -> Result<Self, String> {
        let named = file.to_owned();
        within(file, BEGINS_WITHIN, move || Self::open(&named))
    }

    fn open(file: &Path) -> Result<Self, String> {
        let named = |error: io::Error| format!("{}: {error}", file.display());
        let file = file.canonicalize().map_err(named)?;
        check_is_file(&file)?;
        let lock = lock(&file)?;
        // It is to be a configuration, and one without mistakes.
        load(&file)?;
        let before = read(&file)?;
        let document = before.parse::<DocumentMut>();
        let document = document.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { file, document, before, made: Made::default(), _lock: lock })
    }

    /// Writes a secret into a file for this configuration, and returns its name there: `NAME.psk`,
    /// or another one where that is in use.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write_secret(
        &mut self,
        name: &str,
        secret: &StaticSecret,
    ) -> Result<String, String> {
        let like = self.secret_metadata()?;
        let text = Zeroizing::new(format!("{}\n", keys::encode(secret)));
        for path in numbered(&self.file, name, SECRET_SUFFIX) {
            // A name that some file mentions is not given away, even where no such file exists: its
            // daemon would take ours for its own.
            if path.symlink_metadata().is_ok() || is_named(&path).unwrap_or(false) {
                continue;
            }
            let file = folder::create(&path, 0o600).map_err(|error| not_written(&path, &error))?;
            write(&path, file, text.as_bytes(), &like, like.mode() & 0o640 | 0o600)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.made.0.push(path);
            return Ok(name);
        }
        Err("no name is free".into())
    }

    /// Puts the new text on disk, beside the file: what is left to do then needs neither room nor
    /// rights.
    ///
    /// # Errors
    /// Those of the file system, and the mistakes that a daemon would find in the new text.
    pub(crate) fn stage(self) -> Result<Staged, String> {
        let Self { file, document, before, mut made, _lock } = self;
        let (new, open) =
            create_beside(&file, 0o600).map_err(|error| not_written(&file, &error))?;
        made.0.push(new.clone());
        let again = open.try_clone().map_err(|error| not_written(&new, &error))?;
        let staged = Staged { file, new, _open: open, before, made };
        let text = Zeroizing::new(document.to_string());
        config::parse(&text, &staged.file)
            .map_err(|error| format!("the file would not be valid any more:\n{error}"))?;
        let like = metadata(&staged.file)?;
        write(&staged.new, again, text.as_bytes(), &like, like.mode() & 0o7777)?;
        Ok(staged)
    }

    /// Writes the new text in the place of the old one. Returns the files of secrets that it does
    /// not need any more, and that stay because some file may.
    ///
    /// # Errors
    /// As for [`Editing::stage`]; then nothing has changed.
    pub(crate) fn finish(self) -> Result<Vec<String>, String> {
        let Self { file, document, before, made, _lock: lock } = self;
        // Under the same lock from the first look to the last.
        let again = lock.try_clone().map_err(|error| format!("{}: {error}", file.display()))?;
        let editing = Self { file, document, before, made, _lock: again };
        editing.stage()?.rename()
    }

    /// Returns the metadata of what secrets are to be like: the private key, which the daemon can
    /// read.
    fn secret_metadata(&self) -> Result<Metadata, String> {
        let key = self.document.get("private_key_file").and_then(|name| name.as_str());
        let folder = self.file.parent().unwrap_or(Path::new(""));
        metadata(&key.map_or_else(|| self.file.clone(), |key| folder.join(key)))
    }
}

impl Staged {
    /// Puts the new text in the place of the old one.
    ///
    /// # Errors
    /// Where somebody else has edited the file meanwhile; then it stays as it is.
    pub(crate) fn take_over(self) -> Result<(), String> {
        let _lock = lock(&self.file)?;
        self.rename().map(drop)
    }

    fn rename(mut self) -> Result<Vec<String>, String> {
        if *read(&self.file)? != *self.before {
            let file = self.file.display();
            return Err(format!("{file} was edited by somebody else meanwhile: begin again"));
        }
        let named = |error: io::Error| format!("{}: {error}", self.file.display());
        fs::rename(&self.new, &self.file).map_err(named)?;
        self.made.0.clear();
        sync_folder(&self.file)?;
        Ok(self.remove_unused_secrets())
    }

    /// Removes files of secrets that the old text named and no file of the folder names any more;
    /// returns those that stay.
    fn remove_unused_secrets(&self) -> Vec<String> {
        let secrets = |text: &str| {
            let document = text.parse::<DocumentMut>();
            document.map(|document| sections::secret_files(&document)).unwrap_or_default()
        };
        let Ok(now) = read(&self.file) else { return Vec::new() };
        let (mut unused, now) = (secrets(&self.before), secrets(&now));
        let is_ours = |name: &String| {
            Path::new(name).extension().is_some_and(|end| end == SECRET_SUFFIX)
                && !name.contains('/')
        };
        unused.retain(|name| is_ours(name) && !now.contains(name));
        // What cannot be looked into may name it.
        unused.retain(|name| {
            let path = self.file.with_file_name(name);
            let is_there = path.symlink_metadata().is_ok();
            is_there && (is_named(&path).unwrap_or(true) || fs::remove_file(path).is_err())
        });
        unused
    }
}

/// Reads a configuration, with all its mistakes in one text.
///
/// # Errors
/// The mistakes.
pub(crate) fn load(file: &Path) -> Result<Config, String> {
    config::load(file).map_err(|error| error.to_string())
}

/// Says that a file of a folder with configurations cannot be written.
pub(crate) fn not_written(path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; files in there are root's to change (sudo)",
        _ => "",
    };
    format!("write {}: {error}{hint}", path.display())
}

fn sync_folder(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let synced = File::open(folder).and_then(|open| open.sync_all());
    synced.map_err(|error| format!("{}: {error}", folder.display()))
}

fn read(file: &Path) -> Result<Zeroizing<String>, String> {
    let mut text = Zeroizing::new(String::new());
    let done = File::open(file).and_then(|mut open| open.read_to_string(&mut text));
    done.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text)
}

fn metadata(file: &Path) -> Result<Metadata, String> {
    file.metadata().map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a file that was just made, whole and to disk, with the owner of another one.
fn write(
    path: &Path,
    mut file: File,
    bytes: &[u8],
    like: &Metadata,
    mode: u32,
) -> Result<(), String> {
    let mut done = || -> io::Result<()> {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    done().map_err(|error| {
        // What is half written is of no use.
        let _ = fs::remove_file(path);
        not_written(path, &error)
    })
}

#[cfg(test)]
pub(crate) mod tests;
