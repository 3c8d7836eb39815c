//! What all sessions of an endpoint hold together has a bound, and each session a share of it that
//! is its own.
//!
//! ```text
//! counted = Σ max(held, share)     free = bound − counted      a new session needs free ≥ share
//! limit of a session = share + free                            so the greedy come to hold the same [DT]
//! ```
//! A session holds what applications handed in (`ours`) and what the peer has sent (`theirs`): each
//! may be half of its limit, so that neither keeps the other from going on. As a side fills, what
//! can be lost gives way first, then writers wait, and control comes last:
//!
//! ```text
//! what can be lost, and what comes before its turn     up to 1/2 of the side
//! messages                                             up to 7/8
//! control                                              all of it
//! ```
//! Nothing that was taken is dropped but what can be lost. Counted are payloads and coders as they
//! come and go, and a flat sum for the rest of a session. Not counted is what has a bound that the
//! traffic seldom comes near:
//!
//! ```text
//! what applications have not fetched            as much as they let wait
//! datagrams that wait for their turn            64 MiB in all (`ALL_WAITING_BYTES`;
//!                                               `endpoint/turns.rs`)
//! records of what was sent, until it is known   32,768 a path (`SENT_PACKETS`): they hold no
//!                                               payload, and to
//!   whether it arrived                          drop one would free nothing that an application
//!                                               could use
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::limits;

/// Counting goes in steps of so many bytes.
const STEP: usize = 64 << 10;

/// The memory of all sessions of an endpoint.
#[derive(Debug)]
pub(crate) struct Memory {
    bound: AtomicUsize,
    counted: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { bound: AtomicUsize::new(limits::MEMORY), counted: AtomicUsize::new(0) }
    }
}

impl Memory {
    /// Returns the bytes that sessions may hold together.
    pub(crate) fn bound(&self) -> usize {
        self.bound.load(Relaxed)
    }

    /// Sets the bound; what is held already stays.
    pub(crate) fn set_bound(&self, bytes: usize) {
        self.bound.store(bytes, Relaxed);
    }

    /// Tells whether another session can have its share.
    pub(crate) fn has_share(&self) -> bool {
        self.free() >= limits::SESSION_SHARE
    }

    fn free(&self) -> usize {
        self.bound().saturating_sub(self.counted.load(Relaxed))
    }
}

/// What a session holds, and what is counted of it.
#[derive(Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    counted: usize,
    held: Held,
}

impl Account {
    /// Opens the account of a session, and counts its share.
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let counted = limits::SESSION_SHARE;
        memory.counted.fetch_add(counted, Relaxed);
        Self { memory, counted, held: Held::default() }
    }

    /// Takes note of what the session holds now.
    pub(crate) fn settle(&mut self, held: Held) {
        self.held = held;
        let counted = self.held().next_multiple_of(STEP).max(limits::SESSION_SHARE);
        if counted != self.counted {
            self.memory.counted.fetch_sub(self.counted, Relaxed);
            self.memory.counted.fetch_add(counted, Relaxed);
            self.counted = counted;
        }
    }

    /// Returns the bytes that the session holds.
    pub(crate) fn held(&self) -> usize {
        limits::SESSION_BYTES + self.held.ours + self.held.theirs
    }

    /// Returns how much more it may hold.
    pub(crate) fn room(&self) -> Room {
        let side = (limits::SESSION_SHARE + self.memory.free()) / 2;
        if side >= limits::SIDE {
            return Room::PLENTY;
        }
        let room = |held: usize| Side { side, left: side.saturating_sub(held) };
        Room { ours: room(self.held.ours), theirs: room(self.held.theirs) }
    }

    /// Opens the account of a session that takes this one's place.
    pub(crate) fn successor(&self) -> Self {
        Self::new(Arc::clone(&self.memory))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.memory.counted.fetch_sub(self.counted, Relaxed);
    }
}

/// Bytes that a session holds, or a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// What applications handed in, until its fate is known.
    pub(crate) ours: usize,
    /// What the peer has sent, until applications can have it.
    pub(crate) theirs: usize,
}

impl Held {
    /// Adds what another part holds.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { ours: self.ours + other.ours, theirs: self.theirs + other.theirs }
    }
}

/// How much more a session may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) ours: Side,
    pub(crate) theirs: Side,
}

impl Room {
    /// More than the bounds of one session let it hold.
    pub(crate) const PLENTY: Self = Self { ours: Side::PLENTY, theirs: Side::PLENTY };
}

/// How much more of what one side hands in may be held, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    side: usize,
    left: usize,
}

impl Side {
    const PLENTY: Self = Self { side: limits::SIDE, left: limits::SIDE };

    /// Returns the room for what can be lost, and for what comes before its turn.
    pub(crate) fn for_loss(self) -> usize {
        self.left.saturating_sub(self.side / 2)
    }

    /// Returns the room for messages.
    pub(crate) fn for_messages(self) -> usize {
        self.left.saturating_sub(self.side / 8)
    }

    /// Returns the room for control.
    pub(crate) fn for_control(self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    #[test]
    fn the_greedy_come_to_hold_the_same_and_others_keep_their_share() {
        let memory = Arc::new(Memory::default());
        memory.set_bound(40 * MB);
        let quiet: Vec<_> = (0..10).map(|_| Account::new(Arc::clone(&memory))).collect();
        let mut greedy: Vec<_> = (0..2).map(|_| Account::new(Arc::clone(&memory))).collect();
        for _ in 0..1_000 {
            for account in &mut greedy {
                let Held { ours, theirs } = account.held;
                let more = account.room().theirs.for_control().min(STEP);
                account.settle(Held { ours, theirs: theirs + more });
            }
        }
        let held: Vec<usize> = greedy.iter().map(Account::held).collect();
        assert!(held[0].abs_diff(held[1]) <= 2 * STEP, "{held:?}");
        assert!(held[0] > 5 * MB && memory.counted.load(Relaxed) <= 40 * MB, "{held:?}");
        for account in &quiet {
            assert!(account.room().ours.for_control() >= limits::SESSION_SHARE / 2);
        }
        drop((quiet, greedy));
        assert_eq!(memory.counted.load(Relaxed), 0);
    }

    #[test]
    fn what_can_be_lost_gives_way_first_and_control_last() {
        let memory = Arc::new(Memory::default());
        memory.set_bound(limits::SESSION_SHARE);
        let mut account = Account::new(memory);
        let side = limits::SESSION_SHARE / 2;
        let left = |account: &Account| {
            let ours = account.room().ours;
            [ours.for_loss(), ours.for_messages(), ours.for_control()].map(|left| left > 0)
        };
        assert_eq!(left(&account), [true; 3]);
        for (held, expected) in [
            (side / 2, [false, true, true]),
            (side / 8 * 7, [false, false, true]),
            (side, [false; 3]),
        ] {
            account.settle(Held { ours: held, theirs: 0 });
            assert_eq!(left(&account), expected);
            assert_eq!(account.room().theirs.for_control(), side, "the other side's is its own");
        }
    }
}
