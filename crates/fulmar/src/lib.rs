//! `fulmar`: the daemon on the drone and at the ground station, and the commands around it.
//!
//! ```text
//! config → sockets, tunnel, local endpoints → one loop (daemon/) over proto::Endpoint → status
//! ```

// Where nobody reads any more, `println!` panics: `sys::print` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod awaited;
mod cc;
mod cli;
mod config;
mod daemon;
mod edit;
mod endpoints;
mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod guest_socket;
mod holders;
mod init;
mod interface;
mod keys;
mod knock;
mod log;
mod look_back;
mod machine;
mod names;
mod pair;
mod peers;
mod reading;
mod recorder;
mod relay;
mod rights;
mod socket_file;
mod status;
mod top;
mod watch;
mod ways;
mod web;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use proto::{Duration, StaticSecret};
use ratatui::crossterm::terminal;
use serde_json::json;
use sys::print::{Reader, print, print_anew, print_while_read, tell};
use toml_keys::one_line;

use cli::{Arguments, Command};
use config::Kind;

/// Columns below which nobody can read a table, whatever a terminal says.
const LEAST_WIDTH: usize = 40;

/// Does what the command line says.
pub fn main() -> ExitCode {
    // Wrong usage ends here with code 2.
    let done = match Arguments::parse().command {
        Command::Run { file, config } => run(&file.or(config).unwrap_or_default()),
        Command::Check { file, json } => check(&file, json),
        Command::Reload { socket } => reload(socket),
        Command::Keygen { out } => keygen(out.as_deref()),
        Command::Pubkey { file } => pubkey(file.as_deref()),
        Command::Init { command } => init::run(&command),
        Command::Pair(arguments) => pair::run(&arguments),
        Command::Peers(arguments) => peers::run(&arguments),
        Command::Cc { command } => cc::run(command),
        Command::Events(arguments) => events::run(arguments),
        Command::Record { command } => look_back::run(command),
        Command::Top(arguments) => top::run(&arguments),
        Command::Web(arguments) => web::run(arguments),
        Command::Status { fields: true, .. } => print(status::fields().trim_end()),
        Command::Status { socket, json, watch, .. } => show_status(socket, json, watch),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            tell(format_args!("fulmar: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns what can be said on the command line, for manual pages and shells' completions.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

fn run(file: &Path) -> Result<(), String> {
    // Before any key is read.
    let undumped = sys::dumps::forbid();
    let kind = config::load_any(file).map_err(|error| format!("the configuration:\n{error}"))?;
    let log = log::Log::start(kind.log());
    for warning in kind.warnings().iter().map(|warning| one_line(warning)) {
        tracing::warn!("{warning}");
    }
    if let Err(error) = undumped {
        tracing::warn!(%error, "a crash may write the keys to disk");
    }
    match kind {
        Kind::End(config) => daemon::run(*config, &log),
        Kind::Relay(config) => relay::run(*config, &log),
    }
}

fn check(file: &Path, json: bool) -> Result<(), String> {
    let loaded = config::load_any(file);
    if json {
        let (problems, warnings, needs) = match &loaded {
            Ok(kind) => (Vec::new(), all_warnings(kind), needs(kind)),
            Err(error) => (error.lines(), Vec::new(), Vec::new()),
        };
        let need = |need: &rights::Need| {
            let capability = need.capability.to_string();
            json!({"capability": capability, "for": need.reason, "at_start": need.at_start})
        };
        let needs: Vec<_> = needs.iter().map(need).collect();
        let valid = loaded.is_ok();
        let said =
            json!({"valid": valid, "problems": problems, "warnings": warnings, "needs": needs});
        print(said)?;
        return if valid { Ok(()) } else { Err(format!("{} is not valid", file.display())) };
    }
    let kind = loaded.map_err(|error| format!("the configuration:\n{error}"))?;
    for warning in all_warnings(&kind) {
        tell(format_args!("warning: {warning}"));
    }
    let who = match &kind {
        Kind::End(config) => format!("our public key is {}", config.secret.public()),
        Kind::Relay(config) => format!("this is {} relay {}", config.side, config.number),
    };
    print(format_args!("{} is valid; {who}", file.display()))?;
    let needs: Vec<_> = needs(&kind).iter().map(rights::Need::to_string).collect();
    let needs = if needs.is_empty() { "no capability".into() } else { needs.join(", ") };
    print(format_args!("needs: {needs}"))
}

/// Lists the capabilities that a file needs.
fn needs(kind: &Kind) -> Vec<rights::Need> {
    match kind {
        Kind::End(config) => rights::needs(config),
        Kind::Relay(_) => rights::relay_needs(),
    }
}

/// Returns what is odd about a file, and what of it does not fit this computer.
fn all_warnings(kind: &Kind) -> Vec<String> {
    let mut warnings = kind.warnings().to_vec();
    warnings.extend(match kind {
        Kind::End(config) => machine::warnings(config),
        Kind::Relay(config) => machine::relay_warnings(config),
    });
    warnings.iter().map(|warning| one_line(warning)).collect()
}

fn reload(socket: Option<PathBuf>) -> Result<(), String> {
    let socket = socket.map_or_else(status::find_socket, Ok)?;
    let outcome = status::reload(&socket).map_err(|error| status::explain(&socket, &error))?;
    if outcome.problem.is_empty() {
        return print(&outcome.changes);
    }
    Err(format!("nothing was changed:\n{}", outcome.problem))
}

fn keygen(out: Option<&Path>) -> Result<(), String> {
    let secret = keys::generate().map_err(|error| format!("draw random numbers: {error}"))?;
    let Some(path) = out else { return print(keys::encode(&secret)) };
    keys::write_new(path, &secret).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; a key is not overwritten, remove it first",
            _ => "",
        };
        format!("write {}: {error}{hint}", path.display())
    })?;
    print(secret.public())
}

fn pubkey(file: Option<&Path>) -> Result<(), String> {
    let bytes = match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            keys::read_key(path).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => {
            let mut text = String::new();
            let read = std::io::stdin().take(4_096).read_to_string(&mut text);
            read.and_then(|_| keys::decode(&text)).map_err(|error| format!("stdin: {error}"))?
        }
    };
    print(StaticSecret::from_bytes(*bytes).public())
}

fn show_status(socket: Option<PathBuf>, json: bool, watch: bool) -> Result<(), String> {
    let fetched = socket.map_or_else(status::find_socket, Ok).and_then(|socket| {
        let report = status::fetch(&socket).map_err(|error| status::explain(&socket, &error))?;
        Ok((socket, report))
    });
    let shown = fetched.and_then(|(socket, report)| match (watch, json) {
        (true, _) => watch_status(&socket, report, json),
        (false, true) => print(as_json(&report)?),
        (false, false) => print(status::table(&report, width()).trim_end()),
    });
    if let (Err(error), true) = (&shown, json) {
        print(json!({"error": error}))?;
    }
    shown
}

/// Shows a report and those that follow it, until interrupted or until nobody reads them.
fn watch_status(socket: &Path, mut report: status::Report, json: bool) -> Result<(), String> {
    loop {
        let reader = match json {
            true => print_while_read(&as_json(&report)?)?,
            false => print_anew(&status::table(&report, width()))?,
        };
        if reader == Reader::Gone {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1).into());
        report = status::fetch(socket).map_err(|error| format!("the daemon is gone: {error}"))?;
    }
}

/// Returns how long lines may be: what COLUMNS says, else what the terminal has. For a file or a
/// program each is as long as it is.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || match std::io::stdout().is_terminal() {
        true => terminal::size().ok().map(|(columns, _)| usize::from(columns)),
        false => None,
    };
    said.or_else(seen)
        .filter(|width| *width > 0)
        .map_or(status::ENDLESS, |width| width.max(LEAST_WIDTH))
}

fn as_json(report: &status::Report) -> Result<String, String> {
    serde_json::to_string(report).map_err(|error| error.to_string())
}
