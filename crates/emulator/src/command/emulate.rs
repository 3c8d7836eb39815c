//! `emulate`: any command, or a shell, between emulated hosts.
//!
//! Not an experiment: it measures nothing but the emulator itself. It reads a scenario, starts an
//! [`Emulation`], runs one command in one host and reports the audit when that ends.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use clap::Args;
use netem::Scenario;
use serde_json::json;
use sys::isolate::{Privileges, isolate, isolate_as_user};
use sys::signals::{Signals, terminate};
use sys::timens;

use crate::Failure;

use crate::{Audit, Claim, Emulation, LinkReport, Options};
use sys::print::{print, tell};
use units::Duration;

/// How often the command and the signals are checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How often counts are printed while nothing but the links runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Says what to emulate and what to run in it.
#[derive(Clone, Debug, Args)]
pub struct EmulateArgs {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// The host that the command runs in; the scenario's first unless said.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Print the audit and the links' counts as one JSON object on stdout; what the command prints
    /// there goes to stderr.
    #[arg(long)]
    json: bool,
    /// Seed of the links; the scenario's own unless said.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write every verdict on every packet into this CSV file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// What the run is to measure, in milliseconds: the audit calls it INVALID where the emulator's
    /// error reaches a tenth of that.
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = positive)]
    resolution_ms: f64,
    /// Run as an ordinary user would, in a user namespace, even as root.
    #[arg(long)]
    as_user: bool,
    /// Make the emulator late by this many microseconds, to see its audit notice.
    #[arg(long, value_name = "US", default_value_t = 0, hide = true)]
    sabotage_us: u64,
    /// The command to run; without one a shell on a terminal, else nothing until interrupted.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Does what `args` say.
///
/// Call it before the first thread starts.
///
/// # Errors
/// When the scenario or the machine does not allow it.
pub fn run_emulate(args: &EmulateArgs) -> Result<ExitCode, Failure> {
    let scenario = read_scenario(&args.scenario)?;
    let host = choose_host(args, &scenario)?;
    let isolated = if args.as_user { isolate_as_user() } else { isolate() };
    let privileges = isolated.map_err(|error| error.to_string())?;
    // From here on threads may start; signals are theirs to inherit as blocked.
    let signals = Signals::block().map_err(|error| format!("block signals: {error}"))?;
    let options = Options {
        claim: Claim::to(Duration::from_secs_f64(args.resolution_ms / 1e3)),
        log: args.log.clone(),
        sabotage: Duration::from_micros(args.sabotage_us),
        ..Options::default()
    };
    let seed = args.seed.unwrap_or(scenario.seed);
    let mut emulation =
        Emulation::start(&scenario, seed, &options).map_err(|error| error.to_string())?;
    explain(&emulation, &scenario, privileges);
    emulation.begin(Duration::ZERO);
    let status = match command(args) {
        Some(command) => run_in(&emulation, host, command, &signals)?,
        None => {
            wait(&emulation, &signals);
            None
        }
    };
    let (audit, links) = emulation.finish();
    report(args, &scenario, seed, status, &audit, &links)?;
    let failed = matches!(status, Some(code) if code != 0);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn read_scenario(path: &Path) -> Result<Scenario, String> {
    let scenario = crate::read_scenario(path)?;
    if scenario.link_count() == 0 {
        return Err(format!("{}: a scenario without links emulates nothing", path.display()));
    }
    Ok(scenario)
}

fn choose_host<'a>(args: &EmulateArgs, scenario: &'a Scenario) -> Result<&'a str, Failure> {
    let mut hosts = scenario.hosts.iter().map(|host| host.name.as_str());
    match &args.host {
        None => hosts.next().ok_or_else(|| Failure::Failed("the scenario has no hosts".to_owned())),
        Some(name) => hosts.clone().find(|host| host == name).ok_or_else(|| {
            let known: Vec<&str> = hosts.collect();
            let known = known.join(", ");
            Failure::Usage(format!("--host {name}: no such host; the scenario has {known}"))
        }),
    }
}

/// Returns what to run: the command given, a shell on a terminal, else nothing.
fn command(args: &EmulateArgs) -> Option<Command> {
    let mut command = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None if io::stdin().is_terminal() => {
            Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()))
        }
        None => return None,
    };
    if args.json {
        command.stdout(Stdio::from(io::stderr()));
    }
    Some(command)
}

/// Says on stderr what there is and how to get into it.
fn explain(emulation: &Emulation, scenario: &Scenario, privileges: Privileges) {
    let links = scenario.link_count();
    tell(format_args!("emulating {}: {links} links", scenario.name));
    for (index, host) in emulation.hosts().enumerate() {
        let addresses: Vec<String> = scenario
            .interfaces(index)
            .iter()
            .map(|found| {
                let link = scenario.link_name(found.link).unwrap_or_default();
                format!("{link} {}", found.address)
            })
            .collect();
        let path = emulation.outer_namespace_path(host).display().to_string();
        let user = match (privileges, path.split_once("/fd/")) {
            (Privileges::UserNamespace, Some((process, _))) => {
                format!("--user={process}/ns/user --preserve-credentials ")
            }
            _ => String::new(),
        };
        tell(format_args!("  {host}: {}", addresses.join(", ")));
        tell(format_args!("    a shell there: nsenter {user}--net={path}"));
    }
    if scenario.hosts.iter().any(|host| !host.clock.steps.is_empty() || host.clock.skew_ppb != 0) {
        tell("  skew and steps of clocks are for virtual time; here clocks have offsets only");
    }
    if scenario.hosts.iter().any(|host| host.clock.offset_ns != 0) && !timens::is_available() {
        tell("  no time namespaces in this kernel: all clocks are alike");
    }
    if privileges == Privileges::UserNamespace {
        tell("  not root: no real-time scheduling; the audit says whether it mattered");
    }
}

/// Runs `command` until it ends; returns its exit code, that of a signal as shells count them.
fn run_in(
    emulation: &Emulation,
    host: &str,
    command: Command,
    signals: &Signals,
) -> Result<Option<i32>, String> {
    use std::os::unix::process::ExitStatusExt;
    let mut child = emulation.spawn(host, command).map_err(|error| error.to_string())?;
    let mut deadline = None;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("wait: {error}"))? {
            let by_signal = || 128 + status.signal().unwrap_or(0);
            return Ok(Some(status.code().unwrap_or_else(by_signal)));
        }
        if signals.take().is_some() {
            deadline.get_or_insert_with(|| Instant::now() + std::time::Duration::from(GRACE));
            end(&child);
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            tell("emulate: the command does not end; killing it");
            child.kill().map_err(|error| format!("kill the command: {error}"))?;
        }
        thread::sleep(LOOK_INTERVAL.into());
    }
}

fn end(child: &Child) {
    if let Err(error) = terminate(child) {
        tell(format_args!("emulate: ask the command to end: {error}"));
    }
}

/// Waits for a signal; prints counts meanwhile.
fn wait(emulation: &Emulation, signals: &Signals) {
    tell("running until interrupted");
    let mut printed = Instant::now();
    while signals.take().is_none() {
        thread::sleep(LOOK_INTERVAL.into());
        if Duration::from(printed.elapsed()) >= PROGRESS_INTERVAL {
            printed = Instant::now();
            print_progress(emulation);
        }
    }
}

fn print_progress(emulation: &Emulation) {
    let counts: Vec<String> = emulation
        .links()
        .iter()
        .map(|link| {
            let LinkReport { link, to, packets_out, packets_in, .. } = link;
            format!("{link} to {to} {packets_out} of {packets_in}")
        })
        .collect();
    let seconds = emulation.elapsed().as_secs();
    let p99 = emulation.lateness().p99_us;
    tell(format_args!("{seconds} s: packets through: {}; late p99 {p99} µs", counts.join(", ")));
}

fn report(
    args: &EmulateArgs,
    scenario: &Scenario,
    seed: u64,
    status: Option<i32>,
    audit: &Audit,
    links: &[LinkReport],
) -> Result<(), String> {
    tell(audit.summary());
    if args.json {
        let report = json!({
            "scenario": scenario.name,
            "seed": seed,
            "valid": audit.valid,
            "command_status": status,
            "audit": audit,
            "links": links,
        });
        print(&report)?;
    }
    Ok(())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 60_000.0 => Ok(value),
        _ => Err("must be a number of milliseconds above 0, a minute at most".to_owned()),
    }
}
