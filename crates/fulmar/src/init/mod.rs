//! `fulmar init`: the file of a drone or a station, from what the machine has.
//!
//! ```text
//! found.rs, autopilot.rs → what cannot be known is asked (ask.rs) → text.rs → place.rs → what `check` says
//! ```
//!
//! The other end is not in it: `fulmar pair` adds it to both files.

mod arguments;
mod ask;
mod autopilot;
mod found;
mod place;
mod text;

use std::path::Path;

use serde_json::{Value, json};
use sys::print::{print, tell};
use toml_keys::one_line;

use crate::config::Role;
use crate::holders::holder;
use crate::machine;
use crate::pair::FOLDER;

use arguments::{Autopilot, DroneArguments, How, StationArguments, Tunnel};
pub(crate) use arguments::{InitCommand, LONG as INIT_LONG};
use ask::Question;
use autopilot::{Heard, Outcome};
use found::Links;
use place::Written;

/// What is said of a station's network where none is free.
const NO_TUNNEL: &str = "none";

/// Writes the file of the end that the command names.
pub(crate) fn run(command: &InitCommand) -> Result<(), String> {
    match command {
        InitCommand::Drone(arguments) => drone(arguments),
        InitCommand::Station(arguments) => station(arguments),
    }
}

fn drone(arguments: &DroneArguments) -> Result<(), String> {
    let DroneArguments { file, interface, serial, how } = arguments;
    place::check(file, how.force)?;
    let links = match interface.as_slice() {
        [] => found::links()?,
        named => Links { ready: named.to_vec(), waiting: Vec::new() },
    };
    for name in &links.ready {
        note(how, &format!("link {name}"));
    }
    for name in &links.waiting {
        note(
            how,
            &format!("link {name} is down or has no address: it is in the file as a comment"),
        );
    }
    if links.ready.is_empty() {
        note(
            how,
            "no link of hardware is up: fulmar pair adds those that reach the station; --interface names one, of any kind",
        );
    }
    let heard = match serial {
        Some(Autopilot::Udp | Autopilot::Serial(_, Some(_))) => Vec::new(),
        Some(Autopilot::Serial(device, None)) => listen(how, vec![port(device)]),
        None => listen(how, found::ports()),
    };
    let autopilot = autopilot_of(serial.as_ref(), &heard, how)?;
    let written = place::write(file, &text::drone(&links, &autopilot), how.force)?;
    let ports: Vec<_> = heard.iter().map(as_json).collect();
    let found = json!({"links": links.ready, "links_waiting": links.waiting, "ports": ports});
    tell_end(file, &written, how, found)
}

/// Returns a port that was named, and who has it.
fn port(device: &Path) -> found::Port {
    let real = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let taken = holder(&real).map(|program| format!("in use by {program}"));
    found::Port { device: device.to_owned(), taken }
}

/// Listens to the ports that are nobody's.
fn listen(how: &How, ports: Vec<found::Port>) -> Vec<Heard> {
    let (taken, free): (Vec<_>, Vec<_>) = ports.into_iter().partition(|port| port.taken.is_some());
    let free: Vec<_> = free.into_iter().map(|port| port.device).collect();
    if !free.is_empty() {
        let count = free.len();
        note(how, &format!("listening for an autopilot on {count} serial ports, 9 s at most"));
    }
    let mut heard = autopilot::listen(&free);
    heard.extend(taken.into_iter().map(|port| Heard {
        device: port.device,
        outcome: Outcome::Trouble(port.taken.unwrap_or_default()),
    }));
    for Heard { device, outcome } in &heard {
        let what = match outcome {
            Outcome::Autopilot { system, baud } => {
                format!("the autopilot of system {system} at {baud} baud")
            }
            Outcome::Nothing => "no autopilot heard".into(),
            Outcome::Trouble(trouble) => trouble.clone(),
        };
        note(how, &format!("{}: {what}", device.display()));
    }
    heard
}

/// Decides where the vehicle's MAVLink comes from: what was said, the one that is heard, or an
/// answer.
fn autopilot_of(said: Option<&Autopilot>, heard: &[Heard], how: &How) -> Result<Autopilot, String> {
    let autopilots = heard.iter().filter_map(|port| match port.outcome {
        Outcome::Autopilot { baud, .. } => Some(Autopilot::Serial(port.device.clone(), Some(baud))),
        _ => None,
    });
    let autopilots: Vec<_> = autopilots.collect();
    if let ([only], _) | ([only, ..], true) = (autopilots.as_slice(), how.yes) {
        return Ok(only.clone());
    }
    if let Some(said) = said {
        if let Autopilot::Serial(_, None) = said {
            let baud = text::USUAL_BAUD;
            note(
                how,
                &format!("it is written with {baud} baud: --serial DEVICE:BAUD says another"),
            );
        }
        return Ok(said.clone());
    }
    let free = heard.iter().find(|port| port.outcome == Outcome::Nothing);
    let default = match (autopilots.first(), free) {
        (Some(Autopilot::Serial(device, Some(baud))), _) => format!("{}:{baud}", device.display()),
        (_, Some(port)) => format!("{}:{}", port.device.display(), text::USUAL_BAUD),
        _ => "udp".into(),
    };
    let question = Question {
        asked: "the autopilot's port, DEVICE:BAUD, or udp for another program's",
        reason: if autopilots.is_empty() { "no autopilot is heard" } else { "several are heard" },
        option: "--serial",
        default: &default,
        read: arguments::autopilot,
    };
    question.answer(how)
}

fn station(arguments: &StationArguments) -> Result<(), String> {
    let StationArguments { file, listen, ground_station, tunnel, how } = arguments;
    place::check(file, how.force)?;
    let ground_station = match ground_station {
        Some(address) => *address,
        None => Question {
            asked: "where the ground station listens for MAVLink, ADDRESS:PORT",
            reason: "it may be another computer",
            option: "--ground-station",
            default: "127.0.0.1:14550",
            read: arguments::address,
        }
        .answer(how)?,
    };
    let tunnel = match tunnel {
        Some(tunnel) => *tunnel,
        None => {
            let free = found::free_tunnel().filter(|_| Path::new("/dev/net/tun").exists());
            let default = free.map_or(NO_TUNNEL.into(), |net| net.to_string());
            Question {
                asked: "this station's address in the tunnel, ADDRESS/NN, or none",
                reason: "the tunnel is for video and ssh; MAVLink needs none",
                option: "--tunnel",
                default: &default,
                read: arguments::tunnel,
            }
            .answer(how)?
        }
    };
    let written = place::write(file, &text::station(*listen, ground_station, tunnel), how.force)?;
    let net = match tunnel {
        Tunnel::At(net) => Some(net.to_string()),
        Tunnel::None => None,
    };
    let said = json!({"listen": listen, "ground_station": ground_station, "tunnel": net});
    tell_end(file, &written, how, said)
}

/// Says what was written, what `check` says of it, and what comes next.
fn tell_end(file: &Path, written: &Written, how: &How, mut found: Value) -> Result<(), String> {
    let Written { config, key, key_is_new, old } = written;
    // That there is no peer is what the next step is for.
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .cloned()
        .chain(machine::warnings(config))
        .map(|warning| one_line(&warning))
        .filter(|warning| !warning.contains("[[peer]]"))
        .collect();
    let next = next(file, config.role);
    let public = config.secret.public().to_string();
    if how.json {
        let end = json!({"file": file, "old_file": old, "key_file": key, "key_is_new": key_is_new,
                         "public_key": public, "warnings": warnings, "next": next});
        if let (Value::Object(found), Value::Object(end)) = (&mut found, end) {
            found.extend(end);
        }
        return print(found);
    }
    for warning in &warnings {
        tell(format_args!("warning: {}", one_line(warning)));
    }
    if let Some(old) = old {
        print(format_args!("the old file is {}", old.display()))?;
    }
    let made = if *key_is_new { "made" } else { "was there" };
    print(format_args!("{}: {made}; our public key is {public}", key.display()))?;
    print(format_args!("{} is written, and valid; next:", file.display()))?;
    next.iter().try_for_each(|step| print(format_args!("  {step}")))
}

fn next(file: &Path, role: Role) -> Vec<String> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_usual = file.parent() == Some(Path::new(FOLDER));
    let shown = file.display();
    let start = match is_usual {
        true => format!("sudo systemctl enable --now fulmar@{stem}"),
        false => format!("fulmar run {shown}"),
    };
    let is_found = is_usual && ["drone", "station"].contains(&&*stem);
    let config = if is_found { String::new() } else { format!(" --config {shown}") };
    match role {
        Role::Station => {
            vec![start, format!("sudo fulmar pair{config}   # shows a code for the drone")]
        }
        Role::Drone => {
            vec![
                format!(
                    "sudo fulmar pair CODE{config}   # the code that fulmar pair shows at the station"
                ),
                start,
            ]
        }
    }
}

fn as_json(heard: &Heard) -> Value {
    let device = &heard.device;
    match &heard.outcome {
        Outcome::Autopilot { system, baud } => {
            json!({"device": device, "autopilot": {"system": system, "baud": baud}})
        }
        Outcome::Nothing => json!({"device": device, "autopilot": null}),
        Outcome::Trouble(trouble) => json!({"device": device, "trouble": trouble}),
    }
}

/// Tells people what is found; scripts have it in the object.
fn note(how: &How, line: &str) {
    if !how.json {
        tell(one_line(line));
    }
}
