//! The session of a drone that is being paired: a daemon of its own in a thread of this process,
//! with the guest's key, a path over every link, and one endpoint for texts.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Instant;

use proto::{Duration, Guest};
use sys::poller::Interest;
use sys::seqpacket::{Incoming, Seqpacket};
use tempfile::TempDir;
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
/// What the folders of sockets are called, with the number of their process and a word that nobody
/// knows before.
const FOLDER: &str = "fulmar-pair-";

/// A session with a station; it ends when this goes.
pub(super) struct Session {
    texts: Seqpacket,
    thread: Option<JoinHandle<Result<(), String>>>,
    folder: TempDir,
}

impl Session {
    /// Begins one. To be called before this process has other threads: it blocks signals.
    ///
    /// # Errors
    /// Where its daemon cannot be opened.
    pub(super) fn begin(code: &Code, guest: &Guest, links: &[Link]) -> Result<Self, String> {
        // The daemon hears them, and ends: no file is left half changed.
        sys::signals::Signals::block().map_err(|error| format!("block the signals: {error}"))?;
        let folder = make_folder(&std::env::temp_dir())?;
        let config = configure(code, guest, links, folder.path());
        let texts = folder.path().join("texts");
        let thread = config.and_then(|config| {
            let thread = std::thread::Builder::new().name("session".into());
            let spawned = thread.spawn(move || daemon::run(config, &Log::silent()));
            spawned.map_err(|error| format!("start a thread: {error}"))
        });
        let mut thread = Some(thread?);
        let deadline = Instant::now() + std::time::Duration::from(OPENED_WITHIN);
        loop {
            if let Ok(texts) = Seqpacket::connect(&texts) {
                return Ok(Self { texts, thread, folder });
            }
            let ended = thread.take_if(|thread| thread.is_finished());
            if ended.is_some() || Instant::now() > deadline {
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

    /// Waits for what the station says; nothing when the time is over.
    ///
    /// # Errors
    /// When the session's daemon has ended, as on SIGTERM, and where what came is nonsense.
    pub(super) fn hear(&self, within: Duration) -> Result<Option<Message>, String> {
        let waited = self.texts.wait(Interest::Read, within);
        if !waited.map_err(|error| format!("wait for the station: {error}"))? {
            return Ok(None);
        }
        let mut text = Zeroizing::new(vec![0; LONGEST_TEXT]);
        match self.texts.receive(&mut text) {
            Ok(Incoming::Message(length)) => {
                let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
                Message::read(text).map(Some).map_err(|why| {
                    format!(
                        "the station says what makes no sense here: {why}; is it of this version?"
                    )
                })
            }
            Ok(Incoming::TooLong(_)) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Ok(Incoming::End) | Err(_) => Err(ended()),
        }
    }

    /// Returns what the session's daemon reports of itself.
    pub(super) fn report(&self) -> Option<Report> {
        status::fetch(&self.folder.path().join("status")).ok()
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
    }
}

fn ended() -> String {
    "interrupted: nothing was changed here".into()
}

/// Makes a folder that only we may enter, and removes our own ones of processes that were killed.
fn make_folder(around: &Path) -> Result<TempDir, String> {
    let made = tempfile::Builder::new()
        .prefix(&format!("{FOLDER}{}-", std::process::id()))
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(around);
    let failed = |error| format!("make a folder in {}: {error}", around.display());
    let folder = made.map_err(failed)?;
    let owner = fs::metadata(folder.path()).map_err(failed)?.uid();
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.split('-').next());
        let process = process.and_then(|process| process.parse::<u32>().ok());
        let is_left =
            process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        // What others put there under such a name is theirs.
        let is_ours = || entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == owner);
        if is_left && is_ours() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_take_the_folders_name_before() {
        let around = tempfile::tempdir().unwrap();
        let taken = around.path().join(format!("{FOLDER}{}", std::process::id()));
        fs::create_dir(&taken).unwrap();
        let left = around.path().join(format!("{FOLDER}{}-abc", u32::MAX));
        fs::create_dir(&left).unwrap();
        let target = around.path().join("kept");
        fs::create_dir(&target).unwrap();
        let link = around.path().join(format!("{FOLDER}{}", u32::MAX));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let folder = make_folder(around.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        assert!(taken.exists() && !left.exists() && target.exists() && link.is_symlink());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
