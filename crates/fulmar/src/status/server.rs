//! The daemon's end of the status socket: whoever connects is given one report.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use proto::Duration;

use super::Report;

/// How often, and how far apart, somebody else's socket is looked at before it is believed alive.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Listens at a path of the file system; the path goes when the server does.
pub(crate) struct StatusServer {
    listener: UnixListener,
    path: PathBuf,
}

impl StatusServer {
    /// Listens; takes the place of a socket that a killed daemon has left behind.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent()
            && !directory.as_os_str().is_empty()
        {
            fs::create_dir_all(directory)?;
        }
        // One that was killed a moment ago may still be on its way out.
        let mut looks = 0;
        while UnixStream::connect(path).is_ok() {
            looks += 1;
            if looks == LOOKS {
                let what = "another daemon answers there: is this file's daemon running already?";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        // The group may look too; strangers need not know whom a drone talks to.
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Gives the report to whoever has connected. Who does not read is not waited for.
    pub(crate) fn answer(&self, mut report: impl FnMut() -> Report) {
        while let Ok((mut client, _)) = self.listener.accept() {
            let Ok(mut text) = serde_json::to_vec(&report()) else { return };
            text.push(b'\n');
            // A report fits the socket's buffer many times.
            let _ = client.set_nonblocking(true).and_then(|()| client.write_all(&text));
        }
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl AsFd for StatusServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::fetch;

    #[test]
    fn report_arrives_and_the_socket_is_left_to_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/drone.sock");
        let server = StatusServer::open(&path).unwrap();
        let report = Report { role: "drone".into(), uptime_s: 1.5, ..Report::default() };
        let asked = std::thread::spawn({
            let path = path.clone();
            move || fetch(&path)
        });
        while !asked.is_finished() {
            server.answer(|| report.clone());
        }
        assert_eq!(asked.join().unwrap().unwrap(), report);
        assert_eq!(StatusServer::open(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        drop(server);
        assert!(!path.exists());

        // As after a kill: the file is there, nobody listens.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        StatusServer::open(&path).unwrap();
    }
}
