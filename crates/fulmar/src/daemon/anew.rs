//! A daemon without peers that is given a file with peers begins anew: nothing flies yet, so that
//! nothing is lost, and paths and a tunnel that it did not have are opened like at any start.

use std::io;

use super::Daemon;
use super::guests::Guests;
use crate::config::Config;
use crate::log::Log;
use crate::status::ReloadReport;

/// How a daemon goes on after its end.
pub(super) struct Anew {
    pub(super) new: Config,
    /// What it had, should the new one not open.
    pub(super) old: Config,
    pub(super) reload: ReloadReport,
}

/// Runs a daemon until a signal ends it.
///
/// # Errors
/// Those of [`Daemon::open`], and of the event loop.
pub(crate) fn run(config: Config, log: &Log) -> Result<(), String> {
    let mut daemon = Daemon::open(config, log.clone())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "running");
    let failed = |error: io::Error| format!("the event loop: {error}");
    while let Some(Anew { new, old, mut reload }) = daemon.run().map_err(failed)? {
        daemon = match Daemon::open(new, log.clone()) {
            Ok(daemon) => daemon,
            Err(problem) => {
                tracing::error!(problem, "the file was read again, and cannot be used");
                (reload.changes, reload.problem) = (String::new(), problem);
                Daemon::open(old, log.clone())?
            }
        };
        daemon.reload = reload;
    }
    Ok(())
}

impl Daemon {
    /// Whether nothing is lost by beginning anew: there is no peer, and nobody is being paired.
    pub(super) fn may_begin_anew(&self) -> bool {
        self.config.peers.is_empty() && self.guests.get().is_none_or(Guests::is_empty)
    }

    /// Ends the loop after this turn; returns what changes.
    pub(super) fn begin_anew(&mut self, new: Config) -> String {
        let changes = format!(
            "peers: {} added, to a daemon without any; all else opened anew",
            new.peers.len()
        );
        (self.anew, self.running) = (Some(new), false);
        changes
    }
}
