//! Lock files of serial ports, `LCK..ttyUSB0`, older than the kernel's own means and still looked
//! at: QGroundControl and everything else with Qt's `QSerialPort`, minicom, pppd.
//!
//! The first line has the number of the process. Qt writes the program's and the host's name below
//! it, and does not take a number for alive that belongs to a program of another name: so do we.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where lock files are; Linux has one place with two names.
const FOLDERS: [&str; 2] = ["/run/lock", "/var/lock"];
/// Bytes read of a lock file: a few short lines.
const LARGEST: u64 = 1_024;

/// A lock file of ours, which goes with it; or none, where this process may make none: it is a
/// courtesy.
#[derive(Debug)]
pub(crate) struct UucpLock(Option<PathBuf>);

impl UucpLock {
    /// Looks whether somebody has the lock of a device.
    ///
    /// # Errors
    /// `ResourceBusy` where a program that runs has it.
    pub(crate) fn check(device: &Path) -> io::Result<()> {
        file_of(folder(), device).map_or(Ok(()), |file| refuse_held(&file))
    }

    /// Takes the lock of a device.
    ///
    /// # Errors
    /// `ResourceBusy` where a program that runs has it.
    pub(crate) fn take(device: &Path) -> io::Result<Self> {
        Self::take_in(folder(), device)
    }

    fn take_in(folder: Option<&Path>, device: &Path) -> io::Result<Self> {
        let Some(file) = file_of(folder, device) else { return Ok(Self(None)) };
        refuse_held(&file)?;
        // What a program left behind that is gone is nobody's.
        let _ = fs::remove_file(&file);
        let made =
            OpenOptions::new().write(true).create_new(true).open(&file).and_then(|mut made| {
                // Others read who has it, whatever this process hides otherwise.
                made.set_permissions(Permissions::from_mode(0o644))
                    .and_then(|()| made.write_all(text().as_bytes()))
                    .inspect_err(|_| _ = fs::remove_file(&file))
            });
        Ok(Self(made.is_ok().then_some(file)))
    }
}

impl Drop for UucpLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

fn folder() -> Option<&'static Path> {
    FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir())
}

/// Names the lock file of a device: by its own name, whatever link leads to it.
fn file_of(folder: Option<&Path>, device: &Path) -> Option<PathBuf> {
    let real = device.canonicalize().ok()?;
    let name = real.strip_prefix("/dev").ok()?.to_str()?;
    Some(folder?.join(format!("LCK..{}", name.replace('/', "_"))))
}

fn refuse_held(file: &Path) -> io::Result<()> {
    let Some(holder) = holder(file) else { return Ok(()) };
    let what = format!("{holder} has it ({})", file.display());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// Names the program that has a lock file, while it runs.
fn holder(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    // Whoever may write there may have put anything there.
    let is_file = fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
    let file = is_file.then(|| File::open(file).ok()).flatten()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim);
    let process: u32 = lines.next()?.parse().ok()?;
    let comm = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    let name = fs::read_link(format!("/proc/{process}/exe")).ok();
    let name = name.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    let is_it = |wanted: &str| wanted == comm.trim() || name.is_none_or(|name| wanted == name);
    let told = lines.next().filter(|told| !told.is_empty());
    told.is_none_or(is_it).then(|| format!("{} (process {process})", comm.trim()))
}

/// What is written into a lock file: number, program, host.
fn text() -> String {
    let name = std::env::current_exe().ok();
    let name =
        name.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or("fulmar");
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{:10}\n{name}\n{host}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::PseudoTerminal;

    #[test]
    fn a_lock_file_of_a_program_that_runs_is_honoured_and_an_old_one_is_not() {
        let line = PseudoTerminal::open().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let take = || UucpLock::take_in(Some(folder.path()), line.device());
        let lock = take().unwrap();
        let file = lock.0.clone().unwrap();
        assert!(file.to_str().unwrap().contains("/LCK..pts_"), "{file:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().next().unwrap().trim(), std::process::id().to_string());
        let busy = take().unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        assert!(busy.to_string().contains(&format!("process {}", std::process::id())), "{busy}");
        drop(lock);
        assert!(!file.exists());
        // Without a name, by the number alone; of a program that is gone; of another one with its
        // number; of nonsense.
        let own = std::process::id();
        for (text, is_honoured) in [
            (format!("{own:10}\n"), true),
            ("4194303\n".into(), false),
            (format!("{own}\nQGroundControl\nhost\n"), false),
            ("nonsense".into(), false),
        ] {
            fs::write(&file, &text).unwrap();
            assert_eq!(take().is_err(), is_honoured, "{text}");
        }
    }
}
