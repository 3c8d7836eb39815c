//! The daemon's end of the status socket: whoever connects is given one report.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use proto::Duration;

use super::Report;

/// How often, and how far apart, somebody else's socket is looked at before it is believed alive.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Clients that one turn of the loop answers: a flood of them must leave room for the links.
const AT_A_TIME: usize = 4;

/// Listens at a path of the file system; the path goes when the server does.
pub(crate) struct StatusServer {
    listener: UnixListener,
    path: PathBuf,
}

impl StatusServer {
    /// Listens; takes the place of a socket that a killed daemon has left behind.
    ///
    /// # Errors
    /// Those of the file system; `AddrInUse` where a daemon answers; `AlreadyExists` where
    /// something other than a socket lies, which may be somebody's key.
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
        match fs::symlink_metadata(path) {
            Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => {
                let what = "something else than a socket lies there";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        // The group may look too; strangers need not know whom a drone talks to.
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Gives the report to whoever has connected, a few at a time. Who does not read is not waited
    /// for.
    pub(crate) fn answer(&self, mut report: impl FnMut() -> Report) {
        for _ in 0..AT_A_TIME {
            let Ok((mut client, _)) = self.listener.accept() else { return };
            let Ok(text) = serde_json::to_string(&report()) else { return };
            let text = text + "\n";
            // A report fits the socket's buffer many times.
            let _ = client.set_nonblocking(true).and_then(|()| client.write_all(text.as_bytes()));
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

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("private.key");
        fs::write(&key, "precious").unwrap();
        let link = directory.path().join("link.sock");
        std::os::unix::fs::symlink(&key, &link).unwrap();
        for path in [&key, &link] {
            let refused = StatusServer::open(path).err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&key).unwrap(), b"precious");
    }

    #[test]
    fn a_flood_of_clients_is_answered_a_few_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drone.sock");
        let server = StatusServer::open(&path).unwrap();
        let clients: Vec<_> =
            (0..AT_A_TIME * 2 + 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let reports = || {
            let mut made = 0;
            server.answer(|| {
                made += 1;
                Report::default()
            });
            made
        };
        assert_eq!([reports(), reports(), reports()], [AT_A_TIME, AT_A_TIME, 1]);
        drop(clients);
    }
}
