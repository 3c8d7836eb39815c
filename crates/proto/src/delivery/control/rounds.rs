//! The rounds of copies of the messages that the outbox keeps: when one begins, and what else
//! brings a copy.
//!
//! ```text
//! handed in │ all copies lost │ next round due │ a path silent or back  →  the message's policy in `plan/` is asked
//! ```
//! Which copies those are is the policy's affair; where a copy waits until its path has room,
//! `pending.rs`'s.

use units::Instant;

use super::message::{Message, SecondCopy};
use super::outbox::Outbox;
use super::plan::{Form, Round, View, wants_on_gained};
use crate::ids::PathId;

impl Outbox {
    /// Queues the copies of a round.
    pub(super) fn begin_round(&mut self, now: Instant, seq: u64) {
        let view = View { now, probe: self.probe, pending: &self.pending };
        let Some(message) = self.messages.get_mut(&seq) else { return };
        message.begin_round();
        let entry = (message.rank, seq);
        let round = self.plans.of_mut(message.form).round(view, seq, message);
        self.pending.end_ride(entry);
        match round {
            Round::Best => self.pending.add_best(entry),
            Round::On(paths) if paths.is_empty() => message.round_started = Some(now),
            Round::On(paths) => paths.iter().for_each(|path| self.pending.add_on(*path, entry)),
        }
    }

    /// Sets the timer of a message to what it waits for next.
    pub(super) fn arm(&mut self, now: Instant, seq: u64) {
        let view = View { now, probe: self.probe, pending: &self.pending };
        let Some(message) = self.messages.get_mut(&seq) else { return };
        let at = message.next_timer(self.plans.of(message.form).next_round(view, seq, message));
        if let Some(old) = message.timer.replace(at) {
            self.timers.remove(&(old, seq));
        }
        self.timers.insert((at, seq));
    }

    pub(super) fn handle_message_timeout(&mut self, now: Instant, seq: u64) {
        let view = View { now, probe: self.probe, pending: &self.pending };
        let Some(message) = self.messages.get_mut(&seq) else { return };
        message.timer = None;
        let mut second = None;
        if now >= message.expires {
            self.expire(now, seq);
            return;
        }
        if let SecondCopy::Due(due) = message.second
            && due.at_last() <= now
        {
            message.second = SecondCopy::Done;
            second = self.pending.lone_usable(message.policy().class);
        }
        let round = self.plans.of(message.form).next_round(view, seq, message);
        if message.second == SecondCopy::Done {
            self.pending.end_ride((message.rank, seq));
        }
        if let Some(path) = second {
            self.pending.add_on(path, (message.rank, seq));
        }
        if round.is_some_and(|at| at <= now) {
            self.begin_round(now, seq);
        }
        if self.is_spent(seq) {
            self.remove(seq, false);
        } else {
            self.arm(now, seq);
        }
    }

    /// Starts the next round at once when no copy is under way, unless one waits for every working
    /// path: a path where one waits may leave it to another that takes it sooner.
    pub(super) fn follow_up_loss(&mut self, now: Instant, seq: u64) {
        let Some(message) = self.messages.get(&seq) else { return };
        let entry = (message.rank, seq);
        if !message.flights.is_empty() || self.pending.waits_everywhere(entry) {
            return;
        }
        if !message.policy().reliable {
            if !self.pending.contains_usable(entry)
                && self.is_spent(seq)
                && let Some(message) = self.remove(seq, false)
            {
                self.counters[message.policy().class.index()].expired += 1;
            }
        } else if self.pending.any_usable(message.policy().class) {
            self.begin_round(now, seq);
            self.arm(now, seq);
        }
    }

    /// Takes back what a path that fell silent alone carries; replicas have their other paths.
    pub(super) fn on_silent(&mut self, now: Instant, path: PathId, is_removed: bool) {
        let keeps = !is_removed && self.pending.keeps(path);
        let forget = |message: &mut Message| {
            let forgot = message.forget_path(path);
            message.left_on = Some(path).filter(|_| forgot && keeps).or(message.left_on);
            forgot
        };
        let affected: Vec<u64> = self
            .messages
            .iter_mut()
            .filter(|(_, message)| is_removed || message.form == Form::Best)
            .filter_map(|(&seq, message)| forget(message).then_some(seq))
            .collect();
        for seq in affected {
            self.follow_up_loss(now, seq);
        }
    }

    /// Sends what is not acknowledged yet on a path that is new or works again, but where a copy
    /// merely waits in its queue: a moment's doubt loses none.
    pub(super) fn on_gained(&mut self, now: Instant, path: PathId) {
        let (mut waiting, mut wanting) = (Vec::new(), Vec::new());
        let Some(gained) = self.pending.paths().find(|known| known.id == path) else { return };
        for (&seq, message) in &self.messages {
            if message.form != Form::Best {
                if wants_on_gained(now, message, gained) {
                    wanting.push((message.rank, seq));
                }
            } else if message.flights.is_empty() && message.policy().reliable {
                waiting.push(seq);
            }
        }
        wanting.into_iter().for_each(|entry| self.pending.add_on(path, entry));
        for seq in waiting {
            self.begin_round(now, seq);
            self.arm(now, seq);
        }
    }

    /// Returns true when nothing is left to do for an unreliable message. In a lane it stays until
    /// its copies are accounted for: the floor must not pass it while it may arrive.
    pub(super) fn is_spent(&self, seq: u64) -> bool {
        self.messages.get(&seq).is_some_and(|message| {
            !message.policy().reliable
                && message.is_copied
                && !matches!(message.second, SecondCopy::Due(_))
                && !self.pending.contains((message.rank, seq))
                && (message.place.is_none() || message.flights.is_empty())
        })
    }
}
