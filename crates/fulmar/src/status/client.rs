//! The operator's end of the status socket.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use proto::Duration;
use record::harmless::steers_a_terminal;
use serde_json::Value;

use super::{ReloadReport, Report};
use crate::config::RUN_DIRECTORY;

/// How long an answer may take: a daemon gives it within one turn of its loop, or is stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a daemon may take to read its file.
const RELOADED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The one text of several lines: what `fulmar reload` says is wrong with the file.
const OF_SEVERAL_LINES: &str = "problem";
/// The largest answer that can be a daemon's.
const LARGEST: u64 = 16 << 20;

/// Asks the daemon at a socket for its report.
pub(crate) fn fetch(socket: &Path) -> io::Result<Report> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE.into()))?;
    let mut text = Vec::new();
    stream.take(LARGEST).read_to_end(&mut text).map_err(|error| match error.kind() {
        // A socket whose time is over says that it would have to wait.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let within = PATIENCE.as_secs();
            let what = format!("the daemon is there and does not answer within {within} s: is it stopped, or this computer overloaded?");
            io::Error::new(ErrorKind::TimedOut, what)
        }
        _ => error,
    })?;
    parse(&text).map_err(io::Error::other)
}

/// Says why a daemon cannot be asked at a socket.
pub(crate) fn explain(socket: &Path, error: &io::Error) -> String {
    let place = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!("no daemon runs at {place}")
        }
        ErrorKind::PermissionDenied => format!("{place} is for root and its group alone"),
        ErrorKind::TimedOut => format!("{place}: {error}"),
        _ => format!("{place}: {error}; is the daemon of this version?"),
    }
}

/// Reads the answer of a daemon. What others have named (peers, addresses, errors of the network)
/// could move a terminal's cursor or turn its text around: such characters are replaced.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<Report> {
    let mut answer: Value = serde_json::from_slice(text)?;
    make_harmless(&mut answer, false);
    serde_json::from_value(answer)
}

/// Lets the daemon at a socket read its file again, and returns what came of it.
pub(crate) fn reload(socket: &Path) -> io::Result<ReloadReport> {
    let before = fetch(socket)?.reload.count;
    sys::signals::ask_to_reload(&UnixStream::connect(socket)?)?;
    let deadline = Instant::now() + std::time::Duration::from(RELOADED_WITHIN);
    while Instant::now() < deadline {
        match fetch(socket) {
            Ok(Report { reload, .. }) if reload.count != before => return Ok(reload),
            // A daemon that begins anew is away for a moment.
            Ok(_) | Err(_) => {}
        }
        std::thread::sleep(LOOK_EVERY.into());
    }
    Err(io::Error::new(ErrorKind::TimedOut, "the daemon does not say what came of it"))
}

/// Finds the socket of the one daemon of this host, or says which there are.
pub(crate) fn find_socket() -> Result<PathBuf, String> {
    match sockets().as_slice() {
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

/// Returns the sockets of the daemons of this host that lie at the usual place, in the order of
/// their names.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let mut sockets: Vec<PathBuf> = std::fs::read_dir(RUN_DIRECTORY)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    sockets.sort();
    sockets
}

/// Replaces what could steer a terminal in every text of an answer; `has_lines` says whether one
/// may have several lines.
pub(crate) fn make_harmless(value: &mut Value, has_lines: bool) {
    match value {
        Value::String(text) => {
            let odd = |c: char| steers_a_terminal(c) && !(has_lines && c == '\n');
            *text = text.replace(odd, "\u{fffd}");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_harmless(item, false)),
        Value::Object(fields) => {
            fields
                .iter_mut()
                .for_each(|(key, value)| make_harmless(value, key == OF_SEVERAL_LINES));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ENDLESS, PathReport, PeerReport, table};

    #[test]
    fn what_others_named_does_not_steer_the_terminal() {
        let evil = "\x1b[2J\x1b]0;ok\x07 \u{9b}31m\r\n\u{202e}\u{7f}all is well";
        let mut peer = PeerReport { name: evil.into(), trouble: evil.into(), ..Default::default() };
        peer.paths =
            vec![PathReport { name: evil.into(), trouble: evil.into(), ..Default::default() }];
        let mut report = Report { role: evil.into(), peers: vec![peer], ..Report::default() };
        report.reload.problem = format!("line 1: {evil}\nline 2");
        let read = parse(&serde_json::to_vec(&report).unwrap()).unwrap();
        let shown = table(&read, ENDLESS);
        assert!(shown.chars().all(|c| c == '\n' || !steers_a_terminal(c)), "{shown:?}");
        assert_eq!(shown.lines().count(), 6, "{shown}");
        assert!(shown.contains("all is well"), "{shown}");
        assert!(!serde_json::to_string(&read).unwrap().contains(['\u{9b}', '\u{202e}']));
        assert_eq!(read.reload.problem.lines().count(), 3, "its lines stay");
    }

    #[test]
    fn the_answer_of_another_version_is_read() {
        let read = parse(br#"{"role":"drone","peers":[{"name":"ground","new":[1]}]}"#).unwrap();
        assert_eq!((read.role.as_str(), read.peers[0].name.as_str()), ("drone", "ground"));
        assert_eq!(read.strangers.garbage, 0);
    }
}
