//! The operator's end of the status socket.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use proto::Duration;

use super::{ReloadReport, Report};
use crate::config::RUN_DIRECTORY;

/// A daemon answers within one turn of its loop; one that does not is stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// A daemon has read its file by then.
const RELOADED_WITHIN: Duration = Duration::from_secs(10);
/// So often it is asked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Larger answers are not a daemon's.
const LARGEST: u64 = 16 << 20;

/// Asks the daemon at a socket for its report.
pub(crate) fn fetch(socket: &Path) -> io::Result<Report> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Lets the daemon at a socket read its file again, and returns what came of it.
pub(crate) fn reload(socket: &Path) -> io::Result<ReloadReport> {
    let before = fetch(socket)?.reload.count;
    sys::signals::ask_to_reload(&UnixStream::connect(socket)?)?;
    let deadline = Instant::now() + RELOADED_WITHIN;
    while Instant::now() < deadline {
        let reload = fetch(socket)?.reload;
        if reload.count != before {
            return Ok(reload);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the daemon does not say what came of it"))
}

/// Finds the socket of the one daemon of this host, or says which there are.
pub(crate) fn find_socket() -> Result<PathBuf, String> {
    let mut sockets: Vec<PathBuf> = std::fs::read_dir(RUN_DIRECTORY)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    sockets.sort();
    match sockets.as_slice() {
        [] => Err(format!(
            "no daemon has a socket in {RUN_DIRECTORY}; is one running? --socket names another"
        )),
        [one] => Ok(one.clone()),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            Err(format!("several daemons run here, choose one with --socket: {}", names.join(", ")))
        }
    }
}
