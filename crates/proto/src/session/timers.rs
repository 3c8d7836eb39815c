//! What happens when nothing comes: lost packets, silent paths, old keys, expired messages.

use units::Instant;

use super::Session;
use crate::event::PathState;
use crate::path::Path;

impl Session {
    /// Returns when [`Session::handle_timeout`] must be called next.
    ///
    /// Pacing is among the reasons: after it, paths have room that had none before.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let own = [
            self.keys.timeout(self.now),
            self.outbox.timeout(),
            self.inbox.timeout(),
            self.resequencer.timeout(),
            self.telemetry.timeout(),
            self.bulk.timeout(),
            self.messages.timeout(),
            self.pacing_deadline(),
        ];
        let paths = self.paths.iter().filter_map(Path::timeout);
        own.into_iter().flatten().chain(paths).min()
    }

    /// Lets time pass.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.ended {
            return;
        }
        self.keys.handle_timeout(now);
        for index in 0..self.paths.len() {
            let outcome = self.paths[index].on_timeout(now);
            let id = self.paths[index].id();
            self.apply(now, id, outcome);
        }
        self.outbox.handle_timeout(now);
        self.inbox.handle_timeout(now);
        self.resequencer.handle_timeout(now);
        self.telemetry.handle_timeout(now);
        self.bulk.handle_timeout(now);
        let probe = self.probe_timeout();
        self.messages.handle_timeout(now, probe);
        self.after_change(now);
    }

    /// Returns when pacing lets a path take more of what waits for one.
    fn pacing_deadline(&self) -> Option<Instant> {
        let active = self
            .paths
            .iter()
            .filter(|path| path.state() == PathState::Active && !self.is_blocked(path));
        let plain = !self.bulk.is_empty() || !self.telemetry.is_empty();
        let wanting = active.filter(|path| plain || self.wants_symbol(path.id()));
        wanting.filter_map(|path| path.pacing_deadline(self.now)).min()
    }
}
