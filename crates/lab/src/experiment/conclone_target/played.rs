//! Recorded MAVLink of one class, again and again, in place of messages at even distances.

use std::collections::HashMap;

use super::Class;
use super::ledger::Schedule;
use crate::testbed::{Direction, RecordedFrame, Recording};

/// The recorded messages of a class, each way.
#[derive(Clone, Debug)]
pub(super) struct Played {
    ways: [Way; 2],
    length_s: f64,
}

#[derive(Clone, Debug)]
struct Way {
    frames: Vec<RecordedFrame>,
    /// Where equal frames stand.
    places: HashMap<&'static [u8], Vec<u32>>,
}

impl Played {
    /// Takes the messages of a class.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn new(recording: &Recording, class: Class) -> Result<Self, String> {
        let way = |direction| {
            let frames = recording.frames(direction).iter();
            let of_class = frames.filter(|frame| frame.policy.class == class.class());
            let frames: Vec<RecordedFrame> = of_class.copied().collect();
            let mut places: HashMap<&'static [u8], Vec<u32>> = HashMap::new();
            for (place, frame) in (0..).zip(&frames) {
                places.entry(frame.bytes).or_default().push(place);
            }
            Way { frames, places }
        };
        let ways = Direction::BOTH.map(way);
        if ways.iter().all(|way| way.frames.is_empty()) {
            return Err(format!("--tlog: nothing in it is {}", class.name()));
        }
        // What comes last is followed by the first a moment later.
        let length_s = recording.length().as_secs_f64() + 0.02;
        Ok(Self { ways, length_s })
    }

    /// Returns when the messages of a direction are handed in.
    pub(super) fn schedule(&self, direction: Direction) -> Schedule {
        let frames = &self.ways[direction as usize].frames;
        let at_s = frames.iter().map(|frame| frame.at.as_secs_f64()).collect();
        Schedule::Recorded { at_s, length_s: self.length_s }
    }

    /// Makes a message.
    pub(super) fn message(&self, direction: Direction, number: u32) -> Vec<u8> {
        let frames = &self.ways[direction as usize].frames;
        frames[number as usize % frames.len()].bytes.to_vec()
    }

    /// Returns the number of a message that came, of equal ones the newest before `next`; none of
    /// anything else.
    pub(super) fn number(&self, direction: Direction, bytes: &[u8], next: u32) -> Option<u32> {
        let way = &self.ways[direction as usize];
        let len = way.frames.len() as u32;
        let newest = next.checked_sub(1)?;
        let places = way.places.get(bytes)?.iter();
        places
            .filter_map(|place| {
                let back = (newest % len + len - place) % len;
                newest.checked_sub(back)
            })
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_follows_the_other_and_the_newest_of_equal_messages_is_meant() {
        let recording = Recording::load().expect("sound");
        let played = Played::new(&recording, Class::Live).expect("sticks");
        let len = played.ways[0].frames.len() as u32;
        let bytes = played.message(Direction::Up, 3);
        assert_eq!(played.message(Direction::Up, len + 3), bytes);
        let first = played.number(Direction::Up, &bytes, 5).expect("it is one of them");
        assert!((3..5).contains(&first) && played.message(Direction::Up, first) == bytes);
        assert_eq!(played.number(Direction::Up, &bytes, 0), None);
        let second = played.number(Direction::Up, &bytes, len + 4).expect("of the second round");
        assert_eq!(second, len + 3);
        assert_eq!(played.number(Direction::Up, b"another", 5), None);
        let Schedule::Recorded { length_s, .. } = played.schedule(Direction::Up) else {
            panic!("not recorded")
        };
        assert!(length_s > 58.0);
    }
}
