//! A path that gets no answer sends from another port: whoever translates addresses or looks into
//! flows on its way may have a dead entry for the one that it has. The line was connected anew,
//! another one took over, or the modem was not ready when the first packet came: each packet keeps
//! such an entry, and from another port all is well.
//!
//! ```text
//! silent for 5 s      : another port; and again after 10, 20, 40 s more, then every minute
//! heard(old), ¬heard(new) : the old one stays open beside the new one, since the dead part may be
//!                           the way out alone
//! ```
//!
//! The peer finds the path at its new address as it does when a translator changes its mind
//! [specs/paths.md §2] (rule 3).

use proto::{Duration, Instant, PathState};
use sys::poller::{Interest, Poller};
use sys::udp::UdpSocket;

use super::Daemon;
use super::paths::DronePath;
use super::sockets::{InterfaceSocket, Sockets, free};
use super::tokens::Token;

/// How long a path is silent before it first sends from another port: what autopilots wait until
/// they miss their ground station. It costs no more than a round trip where the link itself was
/// silent.
const FIRST: Duration = Duration::from_secs(5);
/// The longest until it does so again: an entry for each in translators that keep them for minutes.
const LONGEST: Duration = Duration::from_secs(60);

/// When a path sends from another port.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// When it does next, while it gets no answer, and how long it waits after that.
    next: Option<(Instant, Duration)>,
}

/// The port that a path had before.
pub(super) struct Former {
    pub(super) udp: UdpSocket,
    pub(super) heard: bool,
}

impl Renewal {
    /// Takes note that a path gets no answer; tells whether it is to send from another port now.
    fn is_due(&mut self, now: Instant) -> bool {
        let (due, wait) = *self.next.get_or_insert((now + FIRST, FIRST * 2));
        let is_due = due <= now;
        if is_due {
            self.next = Some((now + wait, (wait * 2).min(LONGEST)));
        }
        is_due
    }

    /// Tells whether the silence has just begun to count.
    fn is_first(&self) -> bool {
        self.next.is_some_and(|(_, wait)| wait == FIRST * 4)
    }
}

impl Daemon {
    /// Lets paths that get no answer send from another port, where it is time for that.
    pub(super) fn renew_ports(&mut self, now: Instant) {
        let state = |path: &DronePath| {
            let known = path.path?;
            self.endpoint.paths(known.session).find(|one| one.id == known.path).map(|one| one.state)
        };
        let states = self.paths.iter().filter_map(|(slot, path)| Some((*slot, state(path)?)));
        for (slot, state) in states.collect::<Vec<_>>() {
            match state {
                PathState::Validating | PathState::Suspected => self.renew_port(now, slot),
                _ => self.keep_port(slot),
            }
        }
    }

    fn renew_port(&mut self, now: Instant, slot: usize) {
        let Self { paths, sockets, batches, poller, .. } = self;
        let Some(path) = paths.get_mut(&slot) else { return };
        if !path.renewal.is_due(now) || !sockets.renew(slot, poller) {
            return;
        }
        batches.forget(slot);
        if path.renewal.is_first() {
            let (path, port, silent) = (&path.config.name, sockets.port(slot), FIRST.as_secs());
            tracing::info!(%path, port, "no answer for {silent} s: sends from another port");
        }
        self.follow_blocked();
    }

    /// Takes note that a path gets answers, or is not there.
    fn keep_port(&mut self, slot: usize) {
        if let Some(path) = self.paths.get_mut(&slot) {
            path.renewal = Renewal::default();
        }
        self.sockets.leave_former(slot);
    }
}

impl Sockets {
    /// Opens another socket for a path, and keeps the one of the two former ones where something is
    /// heard; tells whether that was possible.
    fn renew(&mut self, slot: usize, poller: &Poller) -> bool {
        let Self { list, options, news, .. } = self;
        let Some(socket) = list.get_mut(&slot).filter(|socket| !socket.listens()) else {
            return false;
        };
        let Some(udp) = socket.udp.take() else { return false };
        let token = Token::Socket(slot).encode();
        if let Err(error) = socket.open(options, token, poller) {
            tracing::debug!(link = %socket.name, %error, "another port");
            socket.udp = Some(udp);
            return false;
        }
        // Nobody waits for room there any more.
        let _ = poller.modify(&udp, token, Interest::Read);
        let mut outlets = std::mem::take(&mut socket.outlets);
        outlets.iter_mut().for_each(|(_, outlet)| free(outlet, news));
        let last = Former { udp, heard: std::mem::take(&mut socket.heard) };
        let older = socket.former.take().filter(|former| former.heard && !last.heard);
        socket.former = Some(older.map_or(last, |older| Former { heard: false, ..older }));
        true
    }

    /// Closes the port that a path had before, once nothing comes there any more.
    fn leave_former(&mut self, slot: usize) {
        if let Some(InterfaceSocket { former, .. }) = self.list.get_mut(&slot) {
            former.take_if(|former| !std::mem::take(&mut former.heard));
        }
    }

    fn port(&self, slot: usize) -> Option<u16> {
        let udp = self.list.get(&slot)?.udp.as_ref()?;
        udp.local_address().ok().map(|address| address.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_path_sends_from_another_port_ever_more_rarely() {
        let mut renewal = Renewal::default();
        let at = |seconds: u64| Instant::from_millis(1_000_000 + seconds * 1_000);
        let times: Vec<u64> = (0..300).filter(|second| renewal.is_due(at(*second))).collect();
        assert_eq!(times, [5, 15, 35, 75, 135, 195, 255]);
        renewal = Renewal::default();
        assert!(!renewal.is_due(at(300)) && !renewal.is_first());
        assert!(renewal.is_due(at(305)) && renewal.is_first());
        assert!(renewal.is_due(at(315)) && !renewal.is_first());
    }
}
