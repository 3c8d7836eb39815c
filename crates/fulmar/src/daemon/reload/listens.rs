//! The addresses that a station listens at, of another file.

use proto::Instant;

use crate::config::{Config, Listen};
use crate::daemon::Daemon;

/// How many addresses came and went.
pub(super) struct Counted {
    pub(super) opened: usize,
    pub(super) closed: usize,
}

impl Daemon {
    /// Listens where the new file says. What comes is opened before what goes is closed, unless
    /// that is in its way.
    ///
    /// # Errors
    /// Say which address cannot be listened at, and why; nothing has changed then.
    pub(super) fn replace_listens(
        &mut self,
        now: Instant,
        new: &Config,
    ) -> Result<Counted, String> {
        let gone = self.sockets.listens_but(&new.listens);
        let is_new = |listen: &&Listen| self.sockets.listen_slot(listen).is_none();
        let fresh: Vec<Listen> = new.listens.iter().filter(is_new).cloned().collect();
        let counted = Counted { opened: fresh.len(), closed: gone.len() };
        let mut opened = self.open_listens(&fresh);
        if opened.is_err() && !gone.is_empty() {
            self.sockets.close(&gone);
            opened = self.open_listens(&fresh);
        }
        if let Err(problem) = opened {
            // Opens again what was closed.
            self.refresh_sockets(now);
            return Err(problem);
        }
        gone.into_iter().for_each(|slot| self.close_link(now, slot));
        self.sockets.rename(&new.listens);
        Ok(counted)
    }

    fn open_listens(&mut self, fresh: &[Listen]) -> Result<(), String> {
        let mut opened = Vec::new();
        for listen in fresh {
            match self.sockets.listen(listen, &self.poller) {
                Ok(slot) => opened.push(slot),
                Err(problem) => {
                    opened.into_iter().for_each(|slot| self.sockets.remove(slot));
                    return Err(problem);
                }
            }
        }
        Ok(())
    }
}
