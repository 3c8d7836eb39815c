//! `fulmar pair`: a code at the station, the same code on the drone, and both files have what they
//! need.
//!
//! ```text
//! station: code.rs → shown (qr.rs), guests of the daemon (guest_socket) → enrol.rs, decided in desk.rs → edit/
//!          for the page of `fulmar web`: hosted.rs
//! drone:   code.rs, picture.rs → a session of its own (session.rs) → enrol.rs, in drone.rs → offered.rs → edit/
//! ```

mod arguments;
mod code;
mod desk;
mod drone;
mod drone_file;
mod enrol;
mod hosted;
mod links;
mod offered;
mod picture;
mod qr;
mod session;
mod station;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use proto::PublicKey;

use crate::config::{Config, Role};
use crate::edit::load;
use crate::status;

pub(crate) use arguments::{LONG as PAIR_LONG, PairArguments};
#[cfg(fuzzing)]
pub(crate) use code::Code;
#[cfg(fuzzing)]
pub(crate) use enrol::Message;
pub(crate) use hosted::{Hosted, station_file};

/// Where the files of this host lie.
pub(crate) const FOLDER: &str = "/etc/fulmar";

/// Pairs, at the end that the arguments are for.
pub(crate) fn run(arguments: &PairArguments) -> Result<(), String> {
    let is_for_drone = arguments.is_for_drone();
    if let Some(misplaced) = arguments.misplaced() {
        return Err(match is_for_drone {
            true => format!(
                "{misplaced} belongs to the station, and a code to the drone: which one is this?"
            ),
            false => {
                format!("{misplaced} belongs to the drone, which needs a code: fulmar pair CODE")
            }
        });
    }
    match is_for_drone {
        true => drone::run(arguments),
        false => station::run(arguments),
    }
}

/// Finds the configuration of this host: the one that is named, or the usual one.
pub(crate) fn find_file(named: Option<&Path>, role: Option<Role>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let names: &[&str] = match role {
        Some(Role::Drone) => &["drone.toml"],
        Some(Role::Station) => &["station.toml"],
        None => &["drone.toml", "station.toml"],
    };
    let there = names.iter().map(|name| Path::new(FOLDER).join(name)).filter(|path| path.exists());
    match there.collect::<Vec<_>>().as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!(
            "there is no {} in {FOLDER}; --config names another file",
            names.join(" and no ")
        )),
        _ => Err(format!("{FOLDER} has {}: name one with --config", names.join(" and "))),
    }
}

/// Reads a configuration that must be of a role.
fn load_of(file: &Path, role: Role) -> Result<Config, String> {
    let config = load(file)?;
    if config.role == role {
        return Ok(config);
    }
    let file = file.display();
    Err(match role {
        Role::Station => format!(
            "{file} is a drone's: give it the code of its station (fulmar pair CODE), or with --config a station's file"
        ),
        Role::Drone => {
            format!("{file} is a station's: the code is for the drone; --config names its file")
        }
    })
}

/// What a daemon did with a changed file.
pub(crate) enum Reloaded {
    /// It took the file over.
    Yes,
    /// There is none.
    NotRunning,
    /// The one at this socket has this key, which is not the file's.
    Anothers(PathBuf, String),
    /// It did not, and why.
    No(String),
}

impl Reloaded {
    /// Has the daemon with a status socket and a key read its file again.
    pub(crate) fn by(socket: &Path, key: &PublicKey) -> Self {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        if let Ok(report) = status::fetch(socket)
            && report.public_key != key.to_string()
        {
            return Self::Anothers(socket.to_path_buf(), report.public_key);
        }
        match status::reload(socket) {
            Ok(outcome) if outcome.problem.is_empty() => Self::Yes,
            Ok(outcome) => Self::No(outcome.problem),
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Self::NotRunning,
            Err(error) => Self::No(format!("{}: {error}", socket.display())),
        }
    }

    /// One word for scripts.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Yes => "reloaded",
            Self::NotRunning | Self::Anothers(..) => "not running",
            Self::No(_) => "restart needed",
        }
    }

    /// Says what is left to do, if anything is.
    pub(crate) fn advice(&self, file: &Path) -> Option<String> {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let file = file.display();
        match self {
            Self::Yes => None,
            Self::NotRunning => Some(format!(
                "its daemon is not running: systemctl start fulmar@{name}, or fulmar run {file}"
            )),
            Self::Anothers(socket, key) => Some(format!(
                "the daemon at {} has the key {key}, which is not that of {file}, and took nothing over. If it is of another file, give \
                 this one a socket of its own ([status] socket) and a daemon (fulmar run {file}); if it is of this one, restart it",
                socket.display()
            )),
            Self::No(why) => Some(format!(
                "its daemon goes on with the old file until a restart (systemctl restart fulmar@{name}): {why}"
            )),
        }
    }
}
