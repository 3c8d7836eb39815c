//! Which of a drone's addresses say that nobody takes what is sent there ([`crate::knock`]): those
//! of paths that get no answer.

use proto::{Duration, Instant, PathState, Via};

use super::Daemon;
use crate::config::Role;
use crate::knock::Knock;

/// For how long an address is silent before it is asked, and how often it is then: an empty
/// datagram costs next to nothing beside the handshakes, and a path that works sees none.
const EVERY: Duration = Duration::from_secs(3);

impl Daemon {
    /// Follows which paths get no answer, and looks what is answered at their addresses.
    pub(super) fn look_at_silent(&mut self, now: Instant) {
        if self.config.role != Role::Drone {
            return;
        }
        let Self { paths, endpoint, sockets, .. } = self;
        for (&slot, path) in paths.iter_mut() {
            let known = path
                .path
                .and_then(|path| endpoint.paths(path.session).find(|known| known.id == path.path));
            let silent = known.filter(|known| {
                matches!(known.state, PathState::Validating | PathState::Suspected)
            });
            let is_there = sockets.list.get(&slot).is_some_and(|socket| socket.udp.is_some());
            let Some(Via::Udp(remote)) = silent.filter(|_| is_there).map(|known| known.remote)
            else {
                path.knock = None;
                continue;
            };
            if path.knock.as_ref().is_none_or(|knock| knock.remote() != remote) {
                let interface = sockets.interface_of(slot).unwrap_or_default();
                // Where there is no way, the path says so.
                path.knock = Knock::new(&interface, remote, now + EVERY, EVERY).ok();
            }
            if let Some(knock) = &mut path.knock {
                knock.look();
            }
        }
    }

    /// Asks at the address of a path that gets no answer, as far as that is due, right before
    /// something else leaves for it: a host answers one of these in a second, the first that comes
    /// when the second is over. Handshakes leave a second apart, and whatever is asked between two
    /// of them might never be answered.
    pub(super) fn ask_before(&mut self, now: Instant, slot: usize) {
        if let Some(knock) = self.paths.get_mut(&slot).and_then(|path| path.knock.as_mut()) {
            knock.ask(now);
        }
    }
}
