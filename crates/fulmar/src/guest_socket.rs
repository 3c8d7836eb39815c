//! The socket by which `fulmar pair` has a station's daemon take on guests: what is said there, as
//! one JSON object in each message. It lies beside the status socket, for the daemon's own user and
//! root alone: whoever may look at a daemon may not let anybody in.

use std::io;
use std::path::{Path, PathBuf};

use proto::Duration;
use serde::{Deserialize, Serialize};
use sys::poller::Interest;
use sys::seqpacket::{Incoming, Seqpacket};

/// The longest text of a guest, in bytes.
pub(crate) const LONGEST_TEXT: usize = 4_096;
/// The longest request: guests as many as a daemon has peers.
pub(crate) const LONGEST_REQUEST: usize = 256 << 10;
/// The longest time that guests are taken on for.
pub(crate) const LONGEST_STAY: Duration = Duration::from_secs(24 * 3_600);
/// How long the daemon may take to answer a request: it agrees on keys with a thousand guests in
/// tenths of a second.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// What `fulmar pair` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Take these on, for so many seconds; the first thing that is said, and once.
    TakeOn { seconds: u64, guests: Vec<Identity> },
    /// Tell a guest something; guests are numbered as they were named.
    Tell { guest: usize, text: String },
}

/// How a guest is recognised.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// Its public key, as text.
    pub(crate) public_key: String,
    /// What it shares with this station beside that, in the form of a key.
    pub(crate) preshared_key: String,
}

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "it", rename_all = "snake_case")]
pub(crate) enum Report {
    /// The guests are awaited.
    TakenOn,
    /// They are not, and why.
    Refused { why: String },
    /// A guest has a session, from such an address.
    Came { guest: usize, from: String },
    /// A guest has said something.
    Said { guest: usize, text: String },
    /// Another one came with the same code while the first is there, and was turned away.
    Doubled { guest: usize, from: String },
    /// A guest's session is over.
    Left { guest: usize },
}

/// Returns where a daemon has the socket that has its status socket there.
pub(crate) fn beside(status: &Path) -> PathBuf {
    status.with_extension("pair")
}

/// The connection of `fulmar pair` to a daemon: when it ends, the guests are gone.
pub(crate) struct GuestDesk {
    socket: Seqpacket,
    buffer: Vec<u8>,
}

impl GuestDesk {
    /// Has the daemon whose status socket is at `status` take guests on.
    ///
    /// # Errors
    /// Those of the socket, and the daemon's own: words for the operator.
    pub(crate) fn open(
        status: &Path,
        valid: Duration,
        guests: Vec<Identity>,
    ) -> Result<Self, String> {
        let path = beside(status);
        let socket = Seqpacket::connect(&path).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "pairing is for root, or the daemon's own user",
                _ => "is the station's daemon running (fulmar status)?",
            };
            format!("{}: {error}; {hint}", path.display())
        })?;
        // A smaller buffer will do for fewer guests; what does not fit is an error below.
        let _ = socket.set_send_buffer(2 * LONGEST_REQUEST);
        let mut desk = Self { socket, buffer: vec![0; LONGEST_REQUEST] };
        desk.ask(&Request::TakeOn { seconds: valid.as_secs(), guests })?;
        match desk.hear(ANSWERED_WITHIN)? {
            Some(Report::TakenOn) => Ok(desk),
            Some(Report::Refused { why }) => Err(format!("the daemon takes no guests on: {why}")),
            Some(_) | None => Err("the daemon does not answer: is it of this version?".into()),
        }
    }

    /// Says something to the daemon.
    ///
    /// # Errors
    /// Where the daemon is gone, or does not listen.
    pub(crate) fn ask(&self, request: &Request) -> Result<(), String> {
        let text = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        self.socket.send(&text).map_err(|error| format!("speak to the daemon: {error}"))
    }

    /// Waits for what the daemon says next; nothing when the time is over.
    ///
    /// # Errors
    /// When the daemon has ended, or the time for the guests is over.
    pub(crate) fn hear(&mut self, within: Duration) -> Result<Option<Report>, String> {
        let gone =
            || "the daemon has ended the pairing: it was stopped, or the time is over".into();
        let ready = self.socket.wait(Interest::Read, within);
        if !ready.map_err(|error| format!("wait for the daemon: {error}"))? {
            return Ok(None);
        }
        match self.socket.receive(&mut self.buffer) {
            Ok(Incoming::Message(length)) => serde_json::from_slice(&self.buffer[..length])
                .map(Some)
                .map_err(|error| format!("the daemon is of another version: {error}")),
            Ok(Incoming::TooLong(_)) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Ok(Incoming::End) | Err(_) => Err(gone()),
        }
    }
}
