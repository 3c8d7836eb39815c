//! The command line: what can be said to `fulmar`, and what it says about itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tcp_asran::Flavour;

use crate::events::EventsArguments;
use crate::init::{INIT_LONG, InitCommand};
use crate::look_back::RecordCommand;
use crate::pair::{PAIR_LONG, PairArguments};
use crate::peers::PeersArguments;
use crate::top::TopArguments;
use crate::web::WebArguments;

const LONG: &str = "\
Keeps a drone and its ground station talking over several bad links at once.

Every link (Wi-Fi, LTE, 5G, radio modem, Ethernet) becomes a path of one encrypted session. Control \
messages are copied to every path and the first copy wins; everything else takes the best path. \
Applications see an IP tunnel and local MAVLink endpoints.";

const FIRST_STEPS: &str = "\
First steps, on each of the two computers:
  1. fulmar init drone (or station)                 writes /etc/fulmar/drone.toml and makes a key pair
  2. fulmar check /etc/fulmar/drone.toml            says what is wrong with it, once you have edited it
  3. fulmar run /etc/fulmar/drone.toml              or: systemctl enable --now fulmar@drone
  4. fulmar pair                                    at the station; then fulmar pair CODE on the drone
  5. fulmar status --watch                          shows every path, and what is wrong with it

Exit codes: 0 done, 1 failed, 2 wrong usage.";

const RELOADED: &str = "\
What it takes over, without a new session for the peers that stay:
  [[peer]]          peers come and go, with their endpoints; names and allowed_addresses change
  [[path]]          paths come and go; cost, backup and carries change. A path with another interface or remote is
                    another path: the old one stays until the new one works, for 5 s at most
  [[listen]]        addresses come and go; a drone finds those that are in its own file
  [[mavlink]], [[control]], [[message]]
                    endpoints come, go and change, targets included; programs at an address that stays do not notice,
                    even where it becomes another endpoint's
  [reliability.*], [selector], [log]
It is refused, and nothing changes, where the file has a mistake, where something cannot be opened, or where one of
these has changed, which needs a restart: role, realtime, the private key, [tunnel], [transport], [status].";

const CC_EXAMPLES: &str = "\
A loss on a radio link is not a full queue. ASRAN lowers the window as every TCP does, and then \
slow-starts back to what the path carried before, instead of creeping there. Only the sender needs it.

  fulmar cc install                          register them (as root); they stay until a reboot
  fulmar cc install --default asran_cubic    and let new connections of this machine use one
  iperf3 -c STATION -C asran_cubic           one program, one connection
  setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, \"asran_cubic\", 11)      the same in your own
  fulmar cc watch                            windows and round trips of live connections
  fulmar cc remove                           all of it gone; open connections keep theirs
  systemctl enable --now fulmar-cc           install at every boot

asran_cubic is for links that lose packets while their queue is short; asran is the same over NewReno. \
MPTCP passes the choice on to its sub-flows. docs/congestion-control.md has the rest.";

const STATUS_BLOCKS: &str = "\
What it shows of each peer:
  !             what is wrong with the peer as a whole
  path          each link: state, round trip, loss, rates, and what is wrong with it
  class         liveness, live, control, telemetry, message, bulk: messages sent, dropped, replaced, copies,
                late ones, delay
  messages out  coded messages of all streams: handed in, waiting, and how much repair they cost
  messages in   and those that came: delivered, skipped, recovered by decoding
  messages      a line for each of the first 16 streams: what it sent and received, and where the mean
                delay of what it received arises: division (the wait for a path), the way, decoding
                (losses), order (the wait for earlier messages); only once messages have gone
and below them the endpoints, the tunnel, and strangers. --json has more of each, --fields says what;
docs/messages.md explains the fields of messages.";

pub(crate) const RECORD_READERS: &str = "\
Foxglove and PlotJuggler open the same files; Mission Planner, MAVProxy and QGroundControl open the .tlog beside them. \
docs/record.md says what a record holds.";

pub(crate) const RECORD_CSV: &str = "\
path-PEER-PATH.csv has a path's samples, control-PEER.csv each control message with its end, copies-PEER.csv each copy \
of them, received-PEER.csv the peer's, session-PEER.csv, events.csv, position.csv. Times are seconds since 1970.";

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
    /// Let a running daemon read its file again. A file with a mistake, or with a change that needs
    /// a restart, changes nothing.
    #[command(after_long_help = RELOADED, after_help = "fulmar reload --help says what is taken over.")]
    Reload {
        /// The daemon's socket; needed where several daemons run on one host.
        #[arg(short, long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    /// Check a configuration file: every mistake with file, line and key, and as warnings what does
    /// not fit this computer.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Print one JSON object: {"valid": …, "problems": […], "warnings": […], "needs": […]}.
        #[arg(long)]
        json: bool,
    },
    /// Write the configuration of this end from what the machine has, and make its key.
    #[command(after_long_help = INIT_LONG, after_help = "fulmar init --help shows how it goes at both ends.")]
    Init {
        #[command(subcommand)]
        command: InitCommand,
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
    /// Pair a drone with a station: the station shows a code, the drone is given it, and both files
    /// have what they need.
    #[command(after_long_help = PAIR_LONG, after_help = "fulmar pair --help shows how it goes at both ends.")]
    Pair(Box<PairArguments>),
    /// List the peers of a configuration, call one otherwise, or remove one.
    Peers(PeersArguments),
    /// Give the kernel's own TCP a congestion control for bad links (ASRAN), with or without a
    /// daemon.
    #[command(after_long_help = CC_EXAMPLES, after_help = "fulmar cc --help shows how to use one.")]
    Cc {
        #[command(subcommand)]
        command: CcCommand,
    },
    /// Follow what happens in a running daemon, a line for each event.
    Events(EventsArguments),
    /// Watch the daemons of this host on the terminal: what is wrong first, and the last minutes of
    /// each path.
    Top(TopArguments),
    /// Serve a page that shows the daemons of this host, live, and metrics for Prometheus.
    Web(WebArguments),
    /// Look back at flights that a daemon with [record] has recorded: figures, CSV, one page.
    Record {
        #[command(subcommand)]
        command: RecordCommand,
    },
    /// Show a running daemon: its paths, its traffic, its streams of messages, and what is wrong.
    #[command(after_long_help = STATUS_BLOCKS)]
    Status {
        /// The daemon's socket; needed where several daemons run on one host.
        #[arg(short, long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Print one JSON object instead of a table; with --watch one on each line.
        #[arg(long)]
        json: bool,
        /// Show it anew every second, until interrupted.
        #[arg(short, long)]
        watch: bool,
        /// List every field of --json with its kind, its unit and what it says; asks no daemon.
        #[arg(long, conflicts_with_all = ["socket", "json", "watch"])]
        fields: bool,
    },
}

/// What is to be done about the kernel's TCP.
#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// Register the algorithms, until they are removed or the machine starts again. Needs root.
    Install {
        /// Which ones; all without any.
        #[arg(value_name = "ALGORITHM")]
        flavours: Vec<Flavour>,
        /// Let new connections begin with this one, too: on this machine, or in --netns alone.
        #[arg(short, long, value_name = "ALGORITHM")]
        default: Option<Flavour>,
        #[command(flatten)]
        place: Place,
        /// Print one JSON object: {"added": […], "kept": […], "replaced": […], "default": …}.
        #[arg(long)]
        json: bool,
    },
    /// Remove all of them. Connections that use one keep it until they close. Needs root.
    Remove {
        #[command(flatten)]
        place: Place,
        /// Print one JSON object: {"removed": […], "default": …}.
        #[arg(long)]
        json: bool,
    },
    /// Show which are installed, in which version, and what the kernel has besides.
    Status {
        #[command(flatten)]
        place: Place,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Show the connections that use them, every second until interrupted: windows, round trip,
    /// losses. As root also what the algorithm remembers, and which are sub-flows of MPTCP.
    Watch {
        /// Show the connections of every congestion control.
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        place: Place,
        /// End after so many tables.
        #[arg(short = 'n', long, value_name = "N")]
        count: Option<u64>,
        /// Print one JSON object on a line of its own each time.
        #[arg(long)]
        json: bool,
    },
}

/// Where a command looks.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// In this network namespace: a name of `ip netns`, a process number, or a path.
    #[arg(long, value_name = "NAME")]
    pub(crate) netns: Option<String>,
}
