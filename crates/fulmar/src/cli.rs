//! The command line: what can be said to `fulmar`, and what it says about itself.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

const LONG: &str = "\
Keeps a drone and its ground station talking over several bad links at once.

Every link (Wi-Fi, LTE, 5G, radio modem, Ethernet) becomes a path of one encrypted session. Control \
messages are copied to every path and the first copy wins; everything else takes the best path. \
Applications see an IP tunnel and local MAVLink endpoints.";

const FIRST_STEPS: &str = "\
First steps, on each of the two computers:
  1. fulmar keygen --out /etc/fulmar/private.key    makes a key pair, prints the public key
  2. edit /etc/fulmar/drone.toml (or station.toml)  put the other end's public key into [[peer]]
  3. fulmar check /etc/fulmar/drone.toml            says what is wrong with it, line by line
  4. fulmar run /etc/fulmar/drone.toml              or: systemctl enable --now fulmar@drone
  5. fulmar status --watch                          shows every path, and what is wrong with it

Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The arguments of a call.
#[derive(Debug, Parser)]
#[command(name = "fulmar", version, about, long_about = LONG, after_long_help = FIRST_STEPS)]
#[command(after_help = "fulmar --help shows the first steps.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon that a file configures, in the foreground.
    Run {
        /// The configuration file, such as /etc/fulmar/drone.toml.
        #[arg(required_unless_present = "config", conflicts_with = "config")]
        file: Option<PathBuf>,
        /// The same, for habit's sake.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration file: every mistake with file, line and key.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Print one JSON object: {"valid": …, "problems": […], "warnings": […]}.
        #[arg(long)]
        json: bool,
    },
    /// Make a key pair: one per airframe, one per station.
    Keygen {
        /// Write the private key into this new file and print the public key; without it, print
        /// the private key alone, for a pipe to `fulmar pubkey`.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the public key that belongs to a private key: what the other end's file needs.
    Pubkey {
        /// The file with the private key; without it, or with -, standard input.
        file: Option<PathBuf>,
    },
    /// Show a running daemon: its paths, its traffic, and what is wrong.
    Status {
        /// The daemon's socket; needed where several daemons run on one host.
        #[arg(short, long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
        /// Show it anew every second, until interrupted.
        #[arg(short, long, conflicts_with = "json")]
        watch: bool,
    },
}
