//! Which sessions have something to do: the others are left alone.
//!
//! A session that gets an input is marked ([`Due::touch`]), and looked at once, when something is
//! next asked for (`sessions.rs`). Its timer, which costs more to find out, is looked up when
//! everything has been sent. What is known of a session also stands beside it ([`Marks`]), so that
//! the sets are left alone while nothing changes.
//!
//! ```text
//! input → changed → senders, talkers, givers, ended, resting, askers; untimed → timers, later
//! ```

use std::collections::BTreeSet;

use units::Instant;

use crate::ids::SessionId;

/// Sessions in an order by some moment of each.
pub(super) type Moments = BTreeSet<(Instant, SessionId)>;

/// Sessions in the order in which they were made. There are few in it at a time, so it is a row.
#[derive(Default)]
pub(super) struct Ids(Vec<SessionId>);

impl Ids {
    /// Returns the first one.
    pub(super) fn first(&self) -> Option<SessionId> {
        self.0.first().copied()
    }

    /// Returns the first one behind another.
    pub(super) fn after(&self, last: SessionId) -> Option<SessionId> {
        self.0.get(self.0.partition_point(|id| *id <= last)).copied()
    }

    /// Lists them.
    pub(super) fn iter(&self) -> impl Iterator<Item = SessionId> {
        self.0.iter().copied()
    }

    fn insert(&mut self, id: SessionId) {
        if let Err(place) = self.0.binary_search(&id) {
            self.0.insert(place, id);
        }
    }

    fn remove(&mut self, id: SessionId) {
        if let Ok(place) = self.0.binary_search(&id) {
            self.0.remove(place);
        }
    }
}

/// Keeps the sessions in the order in which they have to be attended to.
#[derive(Default)]
pub(super) struct Due {
    /// Those that had an input and have not been looked at since.
    changed: Vec<SessionId>,
    /// Those whose timer is not known.
    untimed: Vec<SessionId>,
    /// Those that may have something to send.
    pub(super) senders: Ids,
    /// Those with events.
    pub(super) talkers: Ids,
    /// Those with packets for the application.
    pub(super) givers: Ids,
    /// Those that are over but for the last datagrams.
    pub(super) ended: Ids,
    /// Those with a handshake under way that nobody needs any more.
    pub(super) resting: Ids,
    /// When those that began their session send the next Initiation, if nothing comes in; or an
    /// earlier moment, at which that is found out.
    pub(super) askers: Moments,
    /// When those whose timer is known have to be attended to …
    pub(super) timers: Moments,
    /// … unless they want new keys by then, which is from here on or later.
    later: Moments,
}

/// Says in which sets a session is.
#[derive(Default)]
pub(super) struct Marks {
    changed: bool,
    untimed: bool,
    pub(super) sends: bool,
    pub(super) talks: bool,
    pub(super) gives: bool,
    pub(super) ended: bool,
    pub(super) rests: bool,
    pub(super) asks_from: Option<Instant>,
    /// When the session itself has to be attended to, its handshake aside.
    pub(super) own_timer: Option<Instant>,
    /// When that was first seen to have come, while it has to wait for what came in before.
    pub(super) overdue_since: Option<Instant>,
    timer: Option<Instant>,
    later: Option<Instant>,
}

impl Marks {
    /// Tells whether the timer is known.
    pub(super) fn is_timed(&self) -> bool {
        !self.changed && !self.untimed
    }
}

impl Due {
    /// Notes that a session has had an input.
    pub(super) fn touch(&mut self, id: SessionId, marks: &mut Marks) {
        if !std::mem::replace(&mut marks.changed, true) {
            self.changed.push(id);
        }
    }

    /// Notes that the timer of a session may be another one now.
    pub(super) fn forget_timer(&mut self, id: SessionId, marks: &mut Marks) {
        marks.changed = false;
        if !std::mem::replace(&mut marks.untimed, true) {
            self.untimed.push(id);
        }
    }

    /// Notes the timer of a session, and from when on it wants keys.
    pub(super) fn set_timer(
        &mut self,
        now: Instant,
        id: SessionId,
        marks: &mut Marks,
        timer: Option<Instant>,
        later: Option<Instant>,
    ) {
        marks.untimed = false;
        order(&mut self.timers, id, &mut marks.timer, timer);
        order_by(now, &mut self.later, id, &mut marks.later, later);
    }

    /// Returns the next session that had an input.
    pub(super) fn next_changed(&mut self) -> Option<SessionId> {
        self.changed.pop()
    }

    /// Returns the next session whose timer is not known.
    pub(super) fn next_untimed(&mut self) -> Option<SessionId> {
        self.untimed.pop()
    }

    /// Returns the first timer, if all are known and nothing changes them by now.
    pub(super) fn first_timer(&self, now: Instant) -> Option<Option<Instant>> {
        let is_known = self.changed.is_empty()
            && self.untimed.is_empty()
            && self.later.first().is_none_or(|(at, _)| *at > now);
        is_known.then(|| self.timers.first().map(|(at, _)| *at))
    }

    /// Returns those whose timer is not known, or may be another one by now.
    pub(super) fn unknown(&self, now: Instant) -> impl Iterator<Item = SessionId> + '_ {
        self.changed.iter().chain(&self.untimed).copied().chain(until(&self.later, now))
    }

    /// Forgets a session.
    pub(super) fn remove(&mut self, id: SessionId, marks: &mut Marks) {
        order(&mut self.timers, id, &mut marks.timer, None);
        order(&mut self.later, id, &mut marks.later, None);
        order(&mut self.askers, id, &mut marks.asks_from, None);
        self.changed.retain(|known| *known != id);
        self.untimed.retain(|known| *known != id);
        let Self { senders, talkers, givers, ended, resting, .. } = self;
        for set in [senders, talkers, givers, ended, resting] {
            set.remove(id);
        }
    }

    /// Returns how many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let Self { senders, talkers, givers, ended, resting, .. } = self;
        let sets = [senders, talkers, givers, ended, resting].map(|set| set.0.len());
        let moments = [&self.askers, &self.timers, &self.later].map(BTreeSet::len);
        let rows = [self.changed.len(), self.untimed.len()];
        sets.into_iter().chain(moments).chain(rows).sum()
    }
}

/// Puts a session into a set or takes it out; `is_in` is its mark.
pub(super) fn mark(set: &mut Ids, id: SessionId, is_in: &mut bool, wanted: bool) {
    if *is_in != wanted {
        *is_in = wanted;
        if wanted {
            set.insert(id);
        } else {
            set.remove(id);
        }
    }
}

/// Moves a session to another moment; `known` is the one before.
pub(super) fn order(
    moments: &mut Moments,
    id: SessionId,
    known: &mut Option<Instant>,
    at: Option<Instant>,
) {
    if *known != at {
        if let Some(before) = known {
            moments.remove(&(*before, id));
        }
        moments.extend(at.map(|at| (at, id)));
        *known = at;
    }
}

/// The same for moments that nearly always move on: one that is still to come stays where it is,
/// and what is found there when it comes is looked at again.
pub(super) fn order_by(
    now: Instant,
    moments: &mut Moments,
    id: SessionId,
    known: &mut Option<Instant>,
    at: Option<Instant>,
) {
    let may_stay = known.zip(at).is_some_and(|(known, at)| now < known && known <= at);
    if !may_stay {
        order(moments, id, known, at);
    }
}

/// Returns the sessions whose moment has come, the first one first.
pub(super) fn until(moments: &Moments, now: Instant) -> impl Iterator<Item = SessionId> + '_ {
    moments.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_keep_their_order_when_they_move() {
        let at = Instant::from_millis;
        let mut moments = Moments::default();
        let mut known = [None; 3];
        for (id, ms) in [(0, 10), (1, 20), (2, 30), (0, 25)] {
            order(&mut moments, SessionId(id), &mut known[id as usize], Some(at(ms)));
        }
        order(&mut moments, SessionId(2), &mut known[2], None);
        assert_eq!(until(&moments, at(25)).collect::<Vec<_>>(), [SessionId(1), SessionId(0)]);
        assert_eq!(until(&moments, at(24)).collect::<Vec<_>>(), [SessionId(1)]);
        assert_eq!(moments.len(), 2);
    }

    #[test]
    fn a_moment_that_moves_on_stays_until_it_comes() {
        let (at, id) = (Instant::from_millis, SessionId(0));
        let (mut moments, mut known) = (Moments::default(), None);
        let mut stands_at = |now, wanted| {
            order_by(at(now), &mut moments, id, &mut known, Some(at(wanted)));
            moments.first().map(|(moment, _)| *moment)
        };
        assert_eq!(stands_at(0, 20), Some(at(20)));
        assert_eq!(stands_at(10, 30), Some(at(20)), "it is looked at again then");
        assert_eq!(stands_at(10, 15), Some(at(15)), "never too late");
        assert_eq!(stands_at(15, 40), Some(at(40)), "it has come");
    }

    #[test]
    fn nothing_is_left_of_a_session_that_goes() {
        let (mut due, mut marks, id) = (Due::default(), Marks::default(), SessionId(7));
        due.touch(id, &mut marks);
        assert!(!marks.is_timed());
        let at = Some(Instant::ZERO);
        due.set_timer(Instant::ZERO, id, &mut marks, at, at);
        due.forget_timer(id, &mut marks);
        mark(&mut due.senders, id, &mut marks.sends, true);
        order(&mut due.askers, id, &mut marks.asks_from, Some(Instant::ZERO));
        assert_eq!(due.len(), 6);
        due.remove(id, &mut marks);
        assert_eq!(due.len(), 0);
    }
}
