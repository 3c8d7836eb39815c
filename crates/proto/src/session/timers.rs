//! What happens when nothing comes: lost packets, silent paths, old keys, expired messages.

use units::Instant;

use super::Session;

impl Session {
    /// Returns when [`Session::handle_timeout`] must be called next.
    ///
    /// Pacing is among the reasons: after it, paths have room that had none before.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let own = [self.keys.timeout(self.now), self.deliveries.timeout(), self.pacing_deadline()];
        own.into_iter().flatten().chain(self.paths.timeout()).min()
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
        self.joiner.tidy(now);
        self.settle_account();
        let probe = self.paths.probe_timeout();
        self.deliveries.handle_timeout(now, probe);
        self.after_change(now);
    }

    /// Returns when pacing lets a path take more of what waits for one.
    fn pacing_deadline(&self) -> Option<Instant> {
        if !self.deliveries.waiting().goes_once() {
            return None;
        }
        let open = self.paths.active().filter(|path| !self.paths.is_blocked(path));
        open.filter_map(|path| path.pacing_deadline(self.now)).min()
    }
}
