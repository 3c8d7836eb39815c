//! `fulmar peers`: whom a configuration knows, and how one is called otherwise or ends.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sys::print::{print, tell};

use crate::config::{Config, Peer};
use crate::edit::sections::{remove_peer, rename_peer};
use crate::edit::{Editing, load};
use crate::pair::{Reloaded, find_file};
use crate::status::{self, Report};

/// Characters of a key that tell it from others: 60 bits, which is as much as people compare.
const FINGERPRINT: usize = 10;

/// Whom to list, or what to change.
#[derive(Debug, Args)]
pub(crate) struct PeersArguments {
    #[command(subcommand)]
    change: Option<Change>,
    /// The configuration; without it /etc/fulmar/station.toml or drone.toml.
    #[arg(short, long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

/// What is changed.
#[derive(Debug, Subcommand)]
enum Change {
    /// Call a peer otherwise, in all sections; its session goes on.
    Rename {
        /// Its name.
        old: String,
        /// Its new name.
        new: String,
    },
    /// Take a peer out of the file, with its endpoints and paths; its session ends at once.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Lists peers, or changes one.
pub(crate) fn run(arguments: &PeersArguments) -> Result<(), String> {
    let file = find_file(arguments.config.as_deref(), None)?;
    match &arguments.change {
        None => list(&file, arguments.json),
        Some(change) => {
            let mut editing = Editing::begin(&file)?;
            let config = load(&file)?;
            let mut done = match change {
                Change::Rename { old, new } => {
                    rename_peer(&mut editing.document, old, new)?;
                    format!("{old} is {new} now")
                }
                Change::Remove { name } => match remove_peer(&mut editing.document, name)? {
                    0 => format!("{name} is removed"),
                    others => {
                        format!("{name} is removed, with {others} of its endpoints and paths")
                    }
                },
            };
            for secret in editing.finish()? {
                done += &format!("; {secret} stays: a file of the folder names it, or may");
            }
            let reloaded = Reloaded::by(&config.status, &config.secret.public());
            let advice = reloaded.advice(&file).unwrap_or_default();
            if arguments.json {
                return print(json!({"done": done, "daemon": reloaded.word(), "advice": advice}));
            }
            print(format_args!("{}: {done}", file.display()))?;
            if !advice.is_empty() {
                tell(advice);
            }
            Ok(())
        }
    }
}

fn list(file: &Path, json: bool) -> Result<(), String> {
    let config = load(file)?;
    // Without a daemon of this file nobody is connected.
    let own = config.secret.public().to_string();
    let report = status::fetch(&config.status).ok().filter(|report| report.public_key == own);
    if json {
        let peers: Vec<Value> =
            config.peers.iter().map(|peer| as_json(peer, report.as_ref())).collect();
        return print(json!({"file": file, "running": report.is_some(), "peers": peers}));
    }
    if config.peers.is_empty() {
        return print(format_args!("{} has no peer yet: fulmar pair makes one", file.display()));
    }
    print(table(&config, report.as_ref()).trim_end())
}

/// Whether a peer is connected; not known without a report.
fn is_connected(peer: &Peer, report: Option<&Report>) -> Option<bool> {
    let key = peer.key.to_string();
    let known = report?.peers.iter().find(|known| known.public_key == key);
    Some(known.is_some_and(|known| known.connected))
}

fn as_json(peer: &Peer, report: Option<&Report>) -> Value {
    json!({
        "name": peer.name,
        "public_key": peer.key.to_string(),
        "preshared_key": peer.preshared_key.is_some(),
        "allowed_addresses": peer.allowed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "connected": is_connected(peer, report),
    })
}

fn table(config: &Config, report: Option<&Report>) -> String {
    let row = |peer: &Peer| {
        let connected = match is_connected(peer, report) {
            Some(true) => "connected",
            Some(false) => "not connected",
            None => "?",
        };
        let addresses: Vec<_> = peer.allowed.iter().map(ToString::to_string).collect();
        let key: String = peer.key.to_string().chars().take(FINGERPRINT).collect();
        vec![peer.name.clone(), format!("{key}…"), connected.into(), addresses.join(" ")]
    };
    let head = ["peer", "key", "session", "tunnel"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(config.peers.iter().map(row)).collect();
    status::columns(&rows)
}
