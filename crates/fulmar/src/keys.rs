//! Key pairs: made once per airframe, written as base64 on one line.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use proto::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// The largest file that can be a key.
const LARGEST_FILE: u64 = 4_096;

/// Makes a new secret key.
pub(crate) fn generate() -> io::Result<StaticSecret> {
    Ok(StaticSecret::generate(sys::entropy::seed()?))
}

/// Writes a secret key into a new file that only its owner may read, and the group that a folder
/// gives to what is made in it: `/etc/fulmar` of the package gives the daemon's.
///
/// An existing file is not overwritten: the old key would be lost, and with it the pairing.
pub(crate) fn write_new(path: &Path, secret: &StaticSecret) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if gives_its_group(path) {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    writeln!(file, "{}", encode(secret))?;
    file.sync_all()
}

/// Tells whether others may read a file with a secret: the group too, unless its folder gives it
/// that group.
pub(crate) fn is_open(path: &Path) -> bool {
    let meant_to = if gives_its_group(path) { 0o640 } else { 0o600 };
    path.metadata().is_ok_and(|file| file.mode() & 0o077 & !meant_to != 0)
}

/// Writes a secret key as text: the same form as a public key.
pub(crate) fn encode(secret: &StaticSecret) -> String {
    // Written as a public key is.
    PublicKey(secret.to_bytes()).to_string()
}

/// Reads a key file: base64 of 32 bytes, alone on its line; lines that begin with # are comments.
pub(crate) fn read_key(path: &Path) -> io::Result<Zeroizing<[u8; 32]>> {
    let mut text = Zeroizing::new(String::with_capacity(LARGEST_FILE as usize));
    File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    decode(&text)
}

/// Reads the text of a key file.
pub(crate) fn decode(text: &str) -> io::Result<Zeroizing<[u8; 32]>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let key = line.unwrap_or_default().parse::<StaticSecret>();
    key.map(|key| Zeroizing::new(key.to_bytes()))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Tells whether bytes were hardly drawn: zeros, one byte over and over, words. Of 32 drawn ones
/// some 30 are different, and fewer than 16 once in 10¹⁵ keys.
pub(crate) fn is_guessable(key: &[u8; 32]) -> bool {
    key.iter().collect::<BTreeSet<_>>().len() < 16
}

/// Tells whether the file's folder has the set-group-ID bit (inode(7)), with which root says whose
/// its files are.
fn gives_its_group(path: &Path) -> bool {
    const SET_GROUP_ID: u32 = 0o2000;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).metadata();
    folder.is_ok_and(|folder| folder.uid() == 0 && folder.mode() & SET_GROUP_ID != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_file_which_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("private.key");
        let secret = generate().unwrap();
        write_new(&path, &secret).unwrap();
        assert_eq!(*read_key(&path).unwrap(), secret.to_bytes());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = write_new(&path, &secret).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_key_is_for_the_group_of_a_folder_that_root_has_given_one() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o2750)).unwrap();
        let path = directory.path().join("private.key");
        write_new(&path, &generate().unwrap()).unwrap();
        let by_root = directory.path().metadata().unwrap().uid() == 0;
        let mode = path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, if by_root { 0o640 } else { 0o600 });
        assert!(!is_open(&path));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(is_open(&path));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o750)).unwrap();
        assert!(is_open(&path), "the group is not one that the folder gives");
    }

    #[test]
    fn keys_that_nobody_drew_are_known() {
        let words = *b"correct horse battery staple    ";
        let counted = |step: u8| std::array::from_fn(|at| at as u8 % step);
        for guess in [[0; 32], [0xFF; 32], counted(2), counted(15), words] {
            assert!(is_guessable(&guess), "{guess:?}");
        }
        assert!((0..1_000).all(|_| !is_guessable(&generate().unwrap().to_bytes())));
    }

    #[test]
    fn comments_are_skipped_and_nonsense_is_refused() {
        let key = encode(&generate().unwrap());
        assert!(decode(&format!("# drone 7\n\n {key} \n")).is_ok());
        assert!(decode("").is_err());
        assert!(decode("not a key").is_err());
    }
}
