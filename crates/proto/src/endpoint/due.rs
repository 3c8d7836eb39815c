//! Which sessions have something to do: nobody asks the others.
//!
//! Whoever gives a session an input marks it ([`Due::touch`]); a marked session is looked at once, when
//! somebody next asks for anything ([`super::sessions::Sessions`]). Its timer, which costs more to find
//! out, is looked up when all has been sent.
//!
//! ```text
//! input → changed → senders, talkers, givers, ended, askers; untimed → timers, later
//! ```

use std::collections::{BTreeMap, BTreeSet};

use units::Instant;

use crate::ids::SessionId;

/// Keeps the sessions in the order in which they have to be attended to.
#[derive(Default)]
pub(super) struct Due {
    /// Those that had an input and have not been looked at since.
    pub(super) changed: BTreeSet<SessionId>,
    /// Those that may have something to send.
    pub(super) senders: BTreeSet<SessionId>,
    /// Those with events.
    pub(super) talkers: BTreeSet<SessionId>,
    /// Those with packets for the application.
    pub(super) givers: BTreeSet<SessionId>,
    /// Those that are over but for the last datagrams.
    pub(super) ended: BTreeSet<SessionId>,
    /// Those with a handshake under way that nobody needs any more.
    pub(super) resting: BTreeSet<SessionId>,
    /// When those that began their session send the next Initiation, if nothing comes in.
    pub(super) askers: Moments,
    /// Those whose timer is not known.
    pub(super) untimed: BTreeSet<SessionId>,
    /// When the others have to be attended to …
    pub(super) timers: Moments,
    /// … unless they want new keys by then, which is from here on.
    pub(super) later: Moments,
}

impl Due {
    /// Notes that a session has had an input.
    pub(super) fn touch(&mut self, id: SessionId) {
        self.changed.insert(id);
    }

    /// Notes that the timer of a session may be another one now.
    pub(super) fn forget_timer(&mut self, id: SessionId) {
        if self.untimed.insert(id) {
            self.timers.set(id, None);
            self.later.set(id, None);
        }
    }

    /// Forgets a session.
    pub(super) fn remove(&mut self, id: SessionId) {
        for moments in [&mut self.askers, &mut self.timers, &mut self.later] {
            moments.set(id, None);
        }
        let Self { changed, senders, talkers, givers, ended, resting, untimed, .. } = self;
        for set in [changed, senders, talkers, givers, ended, resting, untimed] {
            set.remove(&id);
        }
    }

    /// Returns those whose timer is not known.
    pub(super) fn unknown(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.changed.iter().chain(&self.untimed).copied()
    }

    /// Returns how many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let Self { changed, senders, talkers, givers, ended, resting, untimed, .. } = self;
        let sets = [changed, senders, talkers, givers, ended, resting, untimed];
        let moments = [&self.askers, &self.timers, &self.later];
        sets.iter().map(|set| set.len()).sum::<usize>()
            + moments.iter().map(|moments| moments.order.len() + moments.of.len()).sum::<usize>()
    }
}

/// Keeps one moment for each of some sessions, and their order.
#[derive(Default)]
pub(super) struct Moments {
    of: BTreeMap<SessionId, Instant>,
    order: BTreeSet<(Instant, SessionId)>,
}

impl Moments {
    /// Sets the moment of a session, or forgets it.
    pub(super) fn set(&mut self, id: SessionId, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if before != at {
            before.map(|before| self.order.remove(&(before, id)));
            self.order.extend(at.map(|at| (at, id)));
        }
    }

    /// Returns the first moment.
    pub(super) fn first(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Returns the sessions whose moment has come, the first one first.
    pub(super) fn until(&self, now: Instant) -> impl Iterator<Item = SessionId> + '_ {
        self.order.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }
}

/// Sets or clears a mark.
pub(super) fn mark(set: &mut BTreeSet<SessionId>, id: SessionId, is_in: bool) {
    if is_in {
        set.insert(id);
    } else {
        set.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_keep_their_order_when_they_move() {
        let at = Instant::from_millis;
        let mut moments = Moments::default();
        (1..=3).for_each(|id| moments.set(SessionId(id), Some(at(10 * u64::from(id)))));
        moments.set(SessionId(1), Some(at(25)));
        moments.set(SessionId(3), None);
        assert_eq!(moments.first(), Some(at(20)));
        assert_eq!(moments.until(at(25)).collect::<Vec<_>>(), [SessionId(2), SessionId(1)]);
        assert_eq!(moments.until(at(24)).collect::<Vec<_>>(), [SessionId(2)]);
        assert_eq!((moments.of.len(), moments.order.len()), (2, 2));
    }

    #[test]
    fn nothing_is_left_of_a_session_that_goes() {
        let (mut due, id) = (Due::default(), SessionId(7));
        due.touch(id);
        due.forget_timer(id);
        due.timers.set(id, Some(Instant::ZERO));
        due.askers.set(id, Some(Instant::ZERO));
        due.remove(id);
        assert_eq!(due.len(), 0);
    }
}
