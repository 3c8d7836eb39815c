//! Rights of the process: what the file does not need is given up once all that it names is open.

use sys::capabilities::{self, Capability};

use super::Daemon;
use crate::config::Config;
use crate::rights;

impl Daemon {
    /// Keeps what the file needs, and no other right. A daemon without peers keeps everything: the
    /// file that it is given next may be of any kind, and nobody can reach it before.
    pub(super) fn give_up_rights(&mut self) {
        if self.config.peers.is_empty() {
            return;
        }
        let needs = rights::needs(&self.config);
        let kept: Vec<_> = needs.iter().filter(|need| !need.at_start).collect();
        let capabilities: Vec<_> = kept.iter().map(|need| need.capability).collect();
        match capabilities::keep_only(&capabilities) {
            Ok(lost) if lost.is_empty() => {}
            Ok(lost) => {
                let held = capabilities::held().unwrap_or_default();
                let kept = kept.iter().filter(|need| held.contains(&need.capability));
                let kept: Vec<_> = kept.map(ToString::to_string).collect();
                let kept = if kept.is_empty() { "none".into() } else { kept.join(", ") };
                let given_up = names(&lost);
                tracing::info!(
                    kept,
                    given_up,
                    "capabilities that the file does not need are given up"
                );
                self.given_up.extend(lost);
            }
            Err(error) => {
                tracing::warn!(%error, "capabilities that the file does not need cannot be given up");
            }
        }
    }

    /// Looks whether a file that is read again needs a right that was given up.
    pub(super) fn check_rights(&self, new: &Config) -> Result<(), String> {
        rights::lacking(new, &self.given_up).map_or(Ok(()), Err)
    }
}

fn names(capabilities: &[Capability]) -> String {
    capabilities.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
