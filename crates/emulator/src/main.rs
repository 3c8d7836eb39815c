//! The program `fulmar-emulator`: the emulator's two commands on their own. `fulmar-lab` has the
//! same.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fulmar_emulator::{AccuracyArgs, EmulateArgs, run_accuracy, run_emulate};
use sys::print::tell;

/// Runs real programs over emulated links, in real time.
#[derive(Debug, Parser)]
#[command(name = "fulmar-emulator", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run any command between emulated hosts, in real time.
    ///
    /// Each host is a network namespace with an interface per link; the command finds addresses and
    /// namespaces in `FULMAR_ADDRESS_<HOST>_<LINK>` and `FULMAR_NETNS_<HOST>`.
    Emulate(EmulateArgs),
    /// Measure how well the emulator keeps a delay on this machine.
    Accuracy(AccuracyArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Emulate(args) => run_emulate(&args),
        Command::Accuracy(args) => run_accuracy(&args),
    };
    done.unwrap_or_else(|failure| {
        tell(format_args!("fulmar-emulator: {failure}"));
        failure.exit_code()
    })
}
