//! Configuration files that Fulmar itself changes: comments and order stay, and at every moment there is either the old
//! file or the new one.
//!
//! Whoever edits locks the folder meanwhile. A new text is read as the daemon reads it before it takes the old one's
//! place, with the same owner and permissions. What a peer shares with us lies in a file of its own beside it.

pub(crate) mod sections;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use proto::StaticSecret;
use toml_edit::DocumentMut;
use zeroize::Zeroizing;

use crate::config::{self, Config};
use crate::keys;

/// What files of pre-shared keys end in.
const SECRET_SUFFIX: &str = "psk";

/// A file that is being edited; the folder is locked as long as this lives.
pub(crate) struct Editing {
    /// Where it lies, without symbolic links.
    file: PathBuf,
    pub(crate) document: DocumentMut,
    before: Zeroizing<String>,
    /// Files of secrets that were written for the new text.
    written: Vec<PathBuf>,
    _lock: File,
}

/// A new text that is on disk, beside the file whose place it is to take.
pub(crate) struct Staged {
    file: PathBuf,
    before: Zeroizing<String>,
    written: Vec<PathBuf>,
    taken_over: bool,
}

impl Editing {
    /// Reads a file to edit it; waits while somebody else does.
    ///
    /// # Errors
    /// Say what cannot be read, or every mistake in the file.
    pub(crate) fn begin(file: &Path) -> Result<Self, String> {
        let named = |error: io::Error| format!("{}: {error}", file.display());
        let file = file.canonicalize().map_err(named)?;
        let lock = lock_folder(&file)?;
        // It is to be a configuration, and one without mistakes.
        load(&file)?;
        let before = read(&file)?;
        let document = before.parse::<DocumentMut>();
        let document = document.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { file, document, before, written: Vec::new(), _lock: lock })
    }

    /// Writes a secret into a file for this configuration, and returns its name there: `NAME.psk`, or another one where
    /// that is in use.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write_secret(
        &mut self,
        name: &str,
        secret: &StaticSecret,
    ) -> Result<String, String> {
        let names = std::iter::once(format!("{name}.{SECRET_SUFFIX}"))
            .chain((2..).map(|number| format!("{name}-{number}.{SECRET_SUFFIX}")));
        // One that the file does not mention was left by somebody who was killed.
        let mut free = names.filter(|name| !self.before.contains(name.as_str()));
        let name = free.next().ok_or("no name is free")?;
        let like = self.secret_metadata()?;
        let path = self.file.with_file_name(&name);
        let text = Zeroizing::new(format!("{}\n", keys::encode(secret)));
        write(&path, text.as_bytes(), &like, like.mode() & 0o640 | 0o600)?;
        self.written.push(path);
        Ok(name)
    }

    /// Puts the new text on disk, beside the file: what is left to do then needs neither room nor rights.
    ///
    /// # Errors
    /// Those of the file system, and the mistakes that a daemon would find in the new text.
    pub(crate) fn stage(self) -> Result<Staged, String> {
        let Self { file, document, before, written, _lock } = self;
        let staged = Staged { file, before, written, taken_over: false };
        let text = Zeroizing::new(document.to_string());
        config::parse(&text, &staged.file)
            .map_err(|error| format!("the file would not be valid any more:\n{error}"))?;
        let like = metadata(&staged.file)?;
        write(&staged.beside(), text.as_bytes(), &like, like.mode() & 0o7777)?;
        Ok(staged)
    }

    /// Writes the new text in the place of the old one.
    ///
    /// # Errors
    /// As for [`Editing::stage`]; then nothing has changed.
    pub(crate) fn finish(self) -> Result<(), String> {
        let Self { file, document, before, written, _lock: lock } = self;
        // Under the same lock from the first look to the last.
        let again = lock.try_clone().map_err(|error| format!("{}: {error}", file.display()))?;
        let editing = Self { file, document, before, written, _lock: again };
        editing.stage()?.rename()
    }

    /// Returns the metadata of what secrets are to be like: the private key, which the daemon can read.
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
        let _lock = lock_folder(&self.file)?;
        self.rename()
    }

    fn rename(mut self) -> Result<(), String> {
        if *read(&self.file)? != *self.before {
            let file = self.file.display();
            return Err(format!("{file} was edited by somebody else meanwhile: begin again"));
        }
        let named = |error: io::Error| format!("{}: {error}", self.file.display());
        fs::rename(self.beside(), &self.file).map_err(named)?;
        self.taken_over = true;
        sync_folder(&self.file)?;
        self.remove_unused_secrets();
        Ok(())
    }

    /// Removes files of secrets that only the old text names.
    fn remove_unused_secrets(&self) {
        let Ok(now) = read(&self.file) else { return };
        let document = self.before.parse::<DocumentMut>();
        let old = document.map(|document| sections::secret_files(&document)).unwrap_or_default();
        for name in old {
            let is_ours = Path::new(&name).extension().is_some_and(|end| end == SECRET_SUFFIX)
                && !name.contains('/');
            if is_ours && !now.contains(&name) {
                let _ = fs::remove_file(self.file.with_file_name(name));
            }
        }
    }

    fn beside(&self) -> PathBuf {
        beside(&self.file)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.taken_over {
            let _ = fs::remove_file(self.beside());
            self.written.iter().for_each(|path| _ = fs::remove_file(path));
        }
    }
}

/// Reads a configuration, with all its mistakes in one text.
///
/// # Errors
/// The mistakes.
pub(crate) fn load(file: &Path) -> Result<Config, String> {
    config::load(file).map_err(|error| error.to_string())
}

/// The new text of a file; one that was left there is written over.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.new"))
}

fn lock_folder(file: &Path) -> Result<File, String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let locked = File::open(folder).and_then(|open| open.lock().map(|()| open));
    locked.map_err(|error| format!("lock {}: {error}", folder.display()))
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

/// Writes a file whole and to disk, with the owner of another one.
fn write(path: &Path, bytes: &[u8], like: &Metadata, mode: u32) -> Result<(), String> {
    let done = || -> io::Result<()> {
        // Never through a link that somebody has laid there.
        let _ = fs::remove_file(path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
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
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "; files in there are root's to change (sudo)",
            _ => "",
        };
        format!("write {}: {error}{hint}", path.display())
    })
}

#[cfg(test)]
pub(crate) mod tests;
