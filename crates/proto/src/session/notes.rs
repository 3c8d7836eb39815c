//! Notes: what each end tells the other of itself, for people: a few words under each of a few
//! names, of which the newest count [specs/wire.md §3] (3.13). What they mean is the application's
//! business.
//!
//! ```text
//! set → waits → in a datagram with room, the last thing there → acknowledged; waits again where it was lost
//! ```

use std::collections::BTreeMap;

use crate::limits;
use crate::rejection::Rejection;
use crate::wire::NoteFrame;

/// The notes of a session, both ways.
#[derive(Debug, Default)]
pub(super) struct Notes {
    own: BTreeMap<u16, Own>,
    /// The number of the last change of ours.
    last: u32,
    theirs: BTreeMap<u16, Theirs>,
    revision: u64,
}

/// What we say.
#[derive(Clone, Debug)]
struct Own {
    text: Vec<u8>,
    change: u32,
    told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    UnderWay,
    Yes,
}

/// What the peer says; it says nothing any more where there is no text.
#[derive(Debug)]
struct Theirs {
    text: Vec<u8>,
    change: u32,
}

impl Notes {
    /// Tells whether that would be something new. More than the bounds allow is not said.
    pub(super) fn is_news(&self, name: u16, text: &[u8]) -> bool {
        let known = self.own.get(&name).map(|own| own.text.as_slice());
        let fits =
            text.len() <= limits::NOTE_BYTES && (known.is_some() || self.own.len() < limits::NOTES);
        known.unwrap_or_default() != text && fits
    }

    /// Says something, or nothing any more; tells whether that is news.
    pub(super) fn set(&mut self, name: u16, text: &[u8]) -> bool {
        let is_news = self.is_news(name, text);
        if is_news {
            self.last += 1;
            let own = Own { text: text.to_vec(), change: self.last, told: Told::No };
            self.own.insert(name, own);
        }
        is_news
    }

    /// Tells whether something is to be said.
    pub(super) fn wait(&self) -> bool {
        self.own.values().any(|own| own.told == Told::No)
    }

    /// Returns what is to be said next.
    pub(super) fn next(&self) -> Option<NoteFrame<'_>> {
        let (name, own) = self.own.iter().find(|(_, own)| own.told == Told::No)?;
        Some(NoteFrame { name: *name, change: own.change, text: &own.text })
    }

    /// Notes that a change has left.
    pub(super) fn on_sent(&mut self, name: u16) {
        if let Some(own) = self.own.get_mut(&name) {
            own.told = Told::UnderWay;
        }
    }

    /// Notes what became of a change that had left.
    pub(super) fn on_fate(&mut self, name: u16, change: u32, arrived: bool) {
        let Some(own) = self.own.get_mut(&name).filter(|own| own.change == change) else { return };
        match (arrived, own.told) {
            (true, _) if own.text.is_empty() => _ = self.own.remove(&name),
            (true, _) => own.told = Told::Yes,
            (false, Told::Yes) => {}
            (false, _) => own.told = Told::No,
        }
    }

    /// Takes what the peer says.
    pub(super) fn take(&mut self, note: &NoteFrame<'_>) -> Result<(), Rejection> {
        let known = self.theirs.get(&note.name);
        if known.is_some_and(|known| known.change >= note.change) {
            return Ok(());
        }
        if known.is_none() && self.theirs.len() >= limits::NOTES {
            self.theirs.retain(|_, theirs| !theirs.text.is_empty());
            if self.theirs.len() >= limits::NOTES {
                return Err(Rejection::BeyondBound);
            }
        }
        let theirs = Theirs { text: note.text.to_vec(), change: note.change };
        self.theirs.insert(note.name, theirs);
        self.revision += 1;
        Ok(())
    }

    /// Walks what the peer says.
    pub(super) fn theirs(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let said = self.theirs.iter().map(|(name, theirs)| (*name, theirs.text.as_slice()));
        said.filter(|(_, text)| !text.is_empty())
    }

    /// Returns a number that changes whenever the peer says something new.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Makes the notes of a session that takes the place of this one: the peer is to be told all.
    pub(super) fn successor(&self) -> Self {
        let mut successor = Self { last: self.last, ..Self::default() };
        let own = self.own.iter().filter(|(_, own)| !own.text.is_empty());
        successor.own =
            own.map(|(name, own)| (*name, Own { told: Told::No, ..own.clone() })).collect();
        successor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: u16, change: u32, text: &[u8]) -> NoteFrame<'_> {
        NoteFrame { name, change, text }
    }

    #[test]
    fn what_is_new_is_said_until_it_has_arrived() {
        let mut notes = Notes::default();
        assert!(notes.set(1, b"lte") && !notes.set(1, b"lte") && notes.wait());
        assert_eq!(notes.next(), Some(note(1, 1, b"lte")));
        notes.on_sent(1);
        assert!(!notes.wait());
        notes.on_fate(1, 1, false);
        assert_eq!(notes.next(), Some(note(1, 1, b"lte")));
        assert!(notes.set(1, b"wifi"));
        notes.on_fate(1, 1, true);
        assert_eq!(notes.next(), Some(note(1, 2, b"wifi")), "what arrived is old");
        notes.on_fate(1, 2, true);
        notes.on_fate(1, 2, false);
        assert!(!notes.wait(), "a copy of what has arrived");
        assert_eq!(notes.successor().next(), Some(note(1, 2, b"wifi")));
        assert!(notes.set(1, b"") && !notes.set(2, b""));
        notes.on_fate(1, 3, true);
        assert!(notes.own.is_empty());
    }

    #[test]
    fn of_what_the_peer_says_the_newest_counts_and_all_has_a_bound() {
        let mut notes = Notes::default();
        let said = |notes: &Notes| {
            notes.theirs().map(|(name, text)| (name, text.to_vec())).collect::<Vec<_>>()
        };
        notes.take(&note(7, 2, b"new")).unwrap();
        notes.take(&note(7, 1, b"old")).unwrap();
        assert_eq!((said(&notes), notes.revision()), (vec![(7, b"new".to_vec())], 1));
        notes.take(&note(7, 3, b"")).unwrap();
        assert!(said(&notes).is_empty());
        for name in 0..1_000_u16 {
            let taken = notes.take(&note(1_000 + name, 4, b"x"));
            assert_eq!(taken.is_err(), usize::from(name) >= limits::NOTES, "{name}");
        }
        assert!(notes.take(&note(1_000, 5, b"y")).is_ok(), "what is known may change");
        assert_eq!(notes.theirs.len(), limits::NOTES);
        for name in 0..1_000 {
            notes.set(name, &[0; limits::NOTE_BYTES]);
        }
        assert_eq!(notes.own.len(), limits::NOTES);
        assert!(!notes.set(0, &[1; limits::NOTE_BYTES + 1]));
    }
}
