//! Files that are there whole, or as they were: whoever is killed while writing leaves nothing half
//! done under their name.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// What the name of a file begins with that is not whole yet.
pub(crate) const UNFINISHED: &str = ".unfinished-";
/// Others, on a cluster's file system too, are to read it.
const MODE: u32 = 0o644;

/// Writes a file whole, or not at all.
///
/// # Errors
/// Names the file, and why it cannot be written.
pub(crate) fn write(place: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = || -> std::io::Result<NamedTempFile> {
        let beside = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file =
            Builder::new().prefix(UNFINISHED).tempfile_in(beside.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(MODE))?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let failed = |error: std::io::Error| format!("write {}: {error}", place.display());
    written().map_err(failed)?.persist(place).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_one_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("card.toml");
        for text in ["one", "another"] {
            write(&place, text.as_bytes()).expect("written");
            assert_eq!(std::fs::read_to_string(&place).expect("there"), text);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let why = write(&folder.path().join("none/card.toml"), b"").expect_err("no such folder");
        assert!(why.contains("none/card.toml"), "{why}");
    }
}
