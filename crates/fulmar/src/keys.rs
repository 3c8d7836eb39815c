//! Key pairs: made once per airframe, written as base64 on one line.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use proto::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// The largest file that can be a key.
const LARGEST_FILE: u64 = 4_096;

/// Makes a new secret key.
pub(crate) fn generate() -> io::Result<StaticSecret> {
    Ok(StaticSecret::generate(sys::entropy::seed()?))
}

/// Writes a secret key into a new file that only its owner may read.
///
/// An existing file is not overwritten: the old key would be lost, and with it the pairing.
pub(crate) fn write_new(path: &Path, secret: &StaticSecret) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", encode(secret))?;
    file.sync_all()
}

/// Writes a secret key as text: the same form as a public key.
pub(crate) fn encode(secret: &StaticSecret) -> String {
    // Written as a public key is.
    PublicKey(secret.to_bytes()).to_string()
}

/// Reads a key file: base64 of 32 bytes, alone on its line; lines that begin with # are comments.
pub(crate) fn read_key(path: &Path) -> io::Result<Zeroizing<[u8; 32]>> {
    let mut text = Zeroizing::new(String::with_capacity(LARGEST_FILE as usize));
    std::fs::File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    decode(&text)
}

/// Reads the text of a key file.
pub(crate) fn decode(text: &str) -> io::Result<Zeroizing<[u8; 32]>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let key = line.unwrap_or_default().parse::<StaticSecret>();
    key.map(|key| Zeroizing::new(key.to_bytes()))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
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
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = write_new(&path, &secret).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn comments_are_skipped_and_nonsense_is_refused() {
        let key = encode(&generate().unwrap());
        assert!(decode(&format!("# drone 7\n\n {key} \n")).is_ok());
        assert!(decode("").is_err());
        assert!(decode("not a key").is_err());
    }
}
