//! The session of a drone that is being paired: a daemon of its own in a thread of this process, with the guest's key,
//! a path over every link, and one endpoint for texts.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use proto::{Duration, Guest};
use sys::poller::Interest;
use sys::seqpacket::{Incoming, Seqpacket};
use zeroize::Zeroizing;

use super::code::Code;
use super::enrol::Message;
use super::links::Link;
use crate::config::{self, Config};
use crate::daemon;
use crate::guest_socket::LONGEST_TEXT;
use crate::log::Log;
use crate::status::{self, Report};
use crate::{daemon::guests::CHANNEL, keys};

/// How long the daemon may take to open what it needs.
const OPENED_WITHIN: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What the folders of sockets are called, with the number of their process.
const FOLDER: &str = "fulmar-pair-";

/// A session with a station; it ends when this goes.
pub(super) struct Session {
    texts: Seqpacket,
    thread: Option<JoinHandle<Result<(), String>>>,
    folder: PathBuf,
}

impl Session {
    /// Begins one. To be called before this process has other threads: it blocks signals.
    ///
    /// # Errors
    /// Where its daemon cannot be opened.
    pub(super) fn begin(code: &Code, guest: &Guest, links: &[Link]) -> Result<Self, String> {
        // The daemon hears them, and ends: no file is left half changed.
        sys::signals::Signals::block().map_err(|error| format!("block the signals: {error}"))?;
        let folder = make_folder()?;
        let config = configure(code, guest, links, &folder);
        let texts = folder.join("texts");
        let thread = config.and_then(|config| {
            let thread = std::thread::Builder::new().name("session".into());
            let spawned = thread.spawn(move || daemon::run(config, &Log::silent()));
            spawned.map_err(|error| format!("start a thread: {error}"))
        });
        let mut thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        let deadline = Instant::now() + std::time::Duration::from(OPENED_WITHIN);
        loop {
            if let Ok(texts) = Seqpacket::connect(&texts) {
                return Ok(Self { texts, thread, folder });
            }
            let ended = thread.take_if(|thread| thread.is_finished());
            if ended.is_some() || Instant::now() > deadline {
                let _ = fs::remove_dir_all(&folder);
                let why = ended.and_then(|thread| thread.join().ok()?.err());
                let why = why.unwrap_or_else(|| "it does not open its socket".into());
                return Err(format!("begin a session: {why}"));
            }
            std::thread::sleep(LOOK_EVERY.into());
        }
    }

    /// Says something to the station; it waits until there is a session.
    ///
    /// # Errors
    /// When the session's daemon has ended.
    pub(super) fn say(&self, message: &Message) -> Result<(), String> {
        self.texts.send(message.text().as_bytes()).map_err(|_| ended())
    }

    /// Waits for what the station says; nothing when the time is over, or what came is nonsense.
    ///
    /// # Errors
    /// When the session's daemon has ended, as on SIGTERM.
    pub(super) fn hear(&self, within: Duration) -> Result<Option<Message>, String> {
        let waited = self.texts.wait(Interest::Read, within);
        if !waited.map_err(|error| format!("wait for the station: {error}"))? {
            return Ok(None);
        }
        let mut text = Zeroizing::new(vec![0; LONGEST_TEXT]);
        match self.texts.receive(&mut text) {
            Ok(Incoming::Message(length)) => {
                let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
                Ok(Message::read(text).ok())
            }
            Ok(Incoming::TooLong(_)) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Ok(Incoming::End) | Err(_) => Err(ended()),
        }
    }

    /// Returns what the session's daemon reports of itself.
    pub(super) fn report(&self) -> Option<Report> {
        status::fetch(&self.folder.join("status")).ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It tells the station that the session is over.
            if thread.is_finished() || sys::signals::end_this_process().is_ok() {
                let _ = thread.join();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn ended() -> String {
    "interrupted: nothing was changed here".into()
}

/// Makes a folder that only we may enter, and removes those of processes that were killed.
fn make_folder() -> Result<PathBuf, String> {
    let around = std::env::temp_dir();
    for entry in fs::read_dir(&around).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        let process = process.and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = around.join(format!("{FOLDER}{}", std::process::id()));
    let made = DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| format!("make {}: {error}", folder.display()))?;
    Ok(folder)
}

fn configure(code: &Code, guest: &Guest, links: &[Link], folder: &Path) -> Result<Config, String> {
    let (key, folder) = (Zeroizing::new(keys::encode(&guest.secret)), folder.display());
    let path = |link: &Link| {
        let remotes: Vec<_> = link.remotes.iter().map(|remote| format!("\"{remote}\"")).collect();
        let (name, interface, remotes) = (&link.name, &link.interface, remotes.join(", "));
        format!("[[path]]\nname = \"{name}\"\ninterface = \"{interface}\"\nremote = [{remotes}]\n")
    };
    let paths: String = links.iter().map(path).collect();
    let text = Zeroizing::new(format!(
        "role = \"drone\"\nprivate_key = \"{}\"\n[status]\nsocket = \"{folder}/status\"\n\
         [[peer]]\nname = \"station\"\npublic_key = \"{}\"\n{paths}\
         [[message]]\nname = \"texts\"\nchannel = {CHANNEL}\nkind = \"seqpacket\"\n\
         path = \"{folder}/texts\"\nmode = \"0600\"\n",
        *key, code.station,
    ));
    let parsed = config::parse(&text, Path::new("pairing"));
    let mut config = parsed.map_err(|error| format!("configure a session: {error}"))?;
    for peer in &mut config.peers {
        peer.preshared_key = Some(guest.preshared_key.clone());
    }
    Ok(config)
}
