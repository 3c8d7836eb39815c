//! The daemon's end of the status socket: whoever connects is given one report.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::Report;
use crate::socket_file::make_room;

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
    /// Those of the file system, and of [`make_room`].
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        make_room(path, || UnixStream::connect(path).is_ok())?;
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
