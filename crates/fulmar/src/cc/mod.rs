//! `fulmar cc`: puts ASRAN into the kernel's TCP, takes it out again, and shows what it does there.
//!
//! It needs no daemon. How algorithms are registered is the business of `tcp_asran`.

mod watch;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sys::netns::Namespace;
use sys::print::print;
use tcp_asran::{Flavour, Installed, Removed, State, Status};

use crate::cli::{CcCommand, Place};
use crate::status::columns;

/// Does what the command line asks for.
pub(crate) fn run(command: CcCommand) -> Result<(), String> {
    let (json, answer) = match command {
        CcCommand::Install { flavours, default, place, json } => {
            (json, install(&flavours, default, &place))
        }
        CcCommand::Remove { place, json } => (json, remove(&place)),
        CcCommand::Status { place, json } => (json, status(&place)),
        CcCommand::Watch { all, place, count, json } => {
            let shown = within(&place, || watch::run(all, count, json)).and_then(|done| done);
            return report_as(json, shown);
        }
    };
    let answer = report_as(json, answer)?;
    print(if json { answer.0.to_string() } else { answer.1 }.trim_end())
}

/// An answer, for programs and for people.
type Answer = (Value, String);

/// Tells programs of a failure in their own form, too.
fn report_as<T>(json: bool, outcome: Result<T, String>) -> Result<T, String> {
    if let (true, Err(error)) = (json, &outcome) {
        print(json!({"error": error}))?;
    }
    outcome
}

fn install(
    flavours: &[Flavour],
    default: Option<Flavour>,
    place: &Place,
) -> Result<Answer, String> {
    let mut wanted = if flavours.is_empty() { Flavour::ALL.to_vec() } else { flavours.to_vec() };
    wanted.extend(default);
    // A namespace that is not there must fail before anything is changed.
    within(place, || ())?;
    let done = tcp_asran::install(&wanted).map_err(|error| error.to_string())?;
    if let Some(default) = default {
        within(place, || tcp_asran::set_default(default))?.map_err(|error| error.to_string())?;
    }
    let Installed { added, kept, replaced } = &done;
    let mut text = String::new();
    for (what, flavours) in
        [("installed", added), ("already installed", kept), ("replaced by this version", replaced)]
    {
        if !flavours.is_empty() {
            let _ = writeln!(text, "{what}: {}", names(flavours).join(", "));
        }
    }
    if let Some(default) = default {
        let _ = writeln!(text, "new connections begin with {default}");
    }
    let value = json!({"added": names(added), "kept": names(kept), "replaced": names(replaced),
        "default": default.map(Flavour::name)});
    Ok((value, text))
}

fn remove(place: &Place) -> Result<Answer, String> {
    let done = within(place, tcp_asran::remove)?;
    let Removed { flavours, default } = done.map_err(|error| error.to_string())?;
    let mut text = match flavours.as_slice() {
        [] => "nothing was installed\n".to_owned(),
        some => format!("removed: {}\n", names(some).join(", ")),
    };
    if let Some(default) = &default {
        let _ = writeln!(text, "new connections begin with {default} again");
    }
    Ok((json!({"removed": names(&flavours), "default": default}), text))
}

fn status(place: &Place) -> Result<Answer, String> {
    let status = within(place, tcp_asran::status)?.map_err(|error| error.to_string())?;
    let Status { version, flavours, available, default } = &status;
    let value = json!({
        "built": version.is_some(),
        "version": version,
        "algorithms": flavours.iter().map(|(flavour, state)| {
            json!({"name": flavour.name(), "state": word(*state), "for": flavour.purpose()})
        }).collect::<Vec<_>>(),
        "available": available,
        "default": default,
    });
    let mut rows = vec![["algorithm", "state", "for"].map(str::to_owned).to_vec()];
    rows.extend(flavours.iter().map(|(flavour, state)| {
        [flavour.name(), word(*state), flavour.purpose()].map(str::to_owned).to_vec()
    }));
    let mut text = columns(&rows);
    let _ = writeln!(
        text,
        "\nnew connections begin with {default}; the kernel knows {}",
        available.join(", ")
    );
    for (_, state) in flavours {
        let advice = advice(*state);
        if !advice.is_empty() && !text.contains(advice) {
            let _ = writeln!(text, "{advice}");
        }
    }
    if version.is_none() {
        let _ = writeln!(text, "{}", tcp_asran::Error::NotBuilt);
    }
    Ok((value, text))
}

fn word(state: State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Installed => "installed",
        State::OtherVersion => "other version",
        State::Broken => "broken",
        State::Foreign => "foreign",
    }
}

fn advice(state: State) -> &'static str {
    match state {
        State::Absent | State::Installed => "",
        State::OtherVersion => {
            "other version: another build of fulmar installed it; `fulmar cc install` replaces it"
        }
        State::Broken => {
            "broken: its file is there, the kernel does not know it; `fulmar cc install` mends it"
        }
        State::Foreign => {
            "foreign: registered, but not by a file in /sys/fs/bpf that can be seen from here (as below `ip netns exec`: use --netns outside instead)"
        }
    }
}

fn names(flavours: &[Flavour]) -> Vec<&'static str> {
    flavours.iter().map(|flavour| flavour.name()).collect()
}

/// Runs `work` in the network namespace that was asked for. Not `ip netns exec`: that hides
/// /sys/fs/bpf.
fn within<T: Send>(place: &Place, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let Some(name) = &place.netns else { return Ok(work()) };
    let path = namespace_path(name);
    let namespace = Namespace::open(&path).map_err(|error| error.to_string())?;
    namespace.run(work).map_err(|error| error.to_string())
}

fn namespace_path(name: &str) -> PathBuf {
    match name.parse::<u32>() {
        Ok(process) => Path::new("/proc").join(process.to_string()).join("ns/net"),
        Err(_) if name.contains('/') => name.into(),
        Err(_) => Path::new("/run/netns").join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_named_like_everywhere() {
        for (name, path) in
            [("drone", "/run/netns/drone"), ("17", "/proc/17/ns/net"), ("./x", "./x")]
        {
            assert_eq!(namespace_path(name), Path::new(path));
        }
    }
}
