//! Frames numbered anew, in the order in which an endpoint's programs are given them.
//!
//! A ground station works a link's quality out from the numbers that a vehicle gives its frames,
//! and takes a frame that comes after a later one for 254 lost ones [Mission Planner,
//! `MAVLinkInterface.cs`; QGroundControl, `MAVLinkProtocol.cc`; pymavlink, `mavutil.py`]. Over
//! several links frames do overtake each other, and control is meant to: over links that lose 2 %
//! such a ground station reads 9 % of quality. Here each source's frames are numbered as they
//! leave, and as many numbers are left out as frames are lost, so that the reading is what it says.
//!
//! A source that signs is left alone with all its frames: the signature covers the number.
//!
//! ```text
//! given(n) = given(n-1) + 1 + (numbers of the source that have left the window [newest-127,
//!            newest] and never came)
//! ```

use proto::select::{Class, MavlinkFrame, MavlinkFrames};

/// Sources that are numbered; frames of further ones pass as they are. A vehicle has a handful of
/// components.
const SOURCES: usize = 32;
/// How far ahead of all others bulk can be. What is further may as well be what was overtaken long
/// ago: numbers have 8 bits, and parameters and files may wait for seconds.
const BULK_AHEAD: u8 = 32;
/// Frames in a row without a signature after which a source signs no more.
const SIGNS_NO_MORE: u8 = 255;

/// The numbers of one endpoint.
#[derive(Default)]
pub(super) struct Renumber {
    sources: Vec<Source>,
}

/// The numbers of one component.
struct Source {
    system: u8,
    component: u8,
    /// Its newest number.
    newest: u8,
    /// Bit n: the number `newest - n` came, or is from before the first one.
    came: u128,
    /// The last number that was given out.
    given: u8,
    /// Frames without a signature since the last one with it; the most where there never was one.
    unsigned: u8,
}

impl Renumber {
    /// Takes note of the frames in `bytes`. Where they are given to the programs, returns them with
    /// their new numbers; those of a source that signs keep theirs.
    pub(super) fn on_frames(&mut self, class: Class, bytes: &[u8], is_given: bool) -> Vec<u8> {
        let mut numbered = Vec::with_capacity(bytes.len());
        for frame in MavlinkFrames::new(bytes) {
            let source = self.source((frame.system, frame.component), frame.sequence());
            let other = source.and_then(|source| {
                if source.signs(&frame) {
                    return None;
                }
                source.take(frame.sequence(), class);
                if is_given {
                    source.given = source.given.wrapping_add(1);
                }
                frame.with_sequence(source.given)
            });
            numbered.extend_from_slice(other.as_deref().unwrap_or(frame.bytes));
        }
        numbered
    }

    /// Tells whether frames of a source that signs are passed on as they are.
    pub(super) fn sees_signatures(&self) -> bool {
        self.sources.iter().any(|source| source.unsigned < SIGNS_NO_MORE)
    }

    fn source(&mut self, (system, component): (u8, u8), number: u8) -> Option<&mut Source> {
        let is = |source: &Source| (source.system, source.component) == (system, component);
        let place = self.sources.iter().position(is).unwrap_or(self.sources.len());
        if place == SOURCES {
            return None;
        }
        if place == self.sources.len() {
            let before = number.wrapping_sub(1);
            self.sources.push(Source {
                system,
                component,
                newest: before,
                came: u128::MAX,
                given: before,
                unsigned: SIGNS_NO_MORE,
            });
        }
        self.sources.get_mut(place)
    }
}

impl Source {
    /// Tells whether the source signs, as far as its frames up to this one tell. When it no longer
    /// does, its numbers begin anew with this frame.
    fn signs(&mut self, frame: &MavlinkFrame<'_>) -> bool {
        if frame.is_signed {
            self.unsigned = 0;
        } else if self.unsigned < SIGNS_NO_MORE {
            self.unsigned += 1;
            if self.unsigned == SIGNS_NO_MORE {
                let before = frame.sequence().wrapping_sub(1);
                (self.newest, self.came, self.given) = (before, u128::MAX, before);
            }
        }
        self.unsigned < SIGNS_NO_MORE
    }

    /// Takes note of a number that came, and leaves out as many as are lost by now.
    fn take(&mut self, number: u8, class: Class) {
        let ahead = number.wrapping_sub(self.newest);
        let behind = ahead.wrapping_neg();
        match ahead {
            0 => {}
            1..=128 if class != Class::Bulk || ahead <= BULK_AHEAD => {
                let left = match ahead {
                    128 => self.came,
                    _ => self.came >> (128 - ahead),
                };
                let lost = u32::from(ahead) - left.count_ones();
                self.came = self.came.checked_shl(ahead.into()).unwrap_or(0) | 1;
                self.newest = number;
                // 128 at most.
                self.given = self.given.wrapping_add(lost as u8);
            }
            _ if behind < 128 => self.came |= 1 << behind,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::select::{Version, encode_frame};

    use super::*;

    fn frame(number: u8) -> Vec<u8> {
        encode_frame(Version::V2, number, (1, 1), 30, &[1; 28]).unwrap()
    }

    /// The same with a signature, whoever's.
    fn signed(number: u8) -> Vec<u8> {
        let mut bytes = frame(number);
        let crc_at = bytes.len() - 2;
        bytes[2] |= 1;
        // CRC-16/MCRF4XX, with the extra byte of ATTITUDE.
        let step = |crc: u16, byte: u8| {
            let low = byte ^ crc as u8;
            let low = u16::from(low ^ (low << 4));
            (crc >> 8) ^ (low << 8) ^ (low << 3) ^ (low >> 4)
        };
        let crc = step(bytes[1..crc_at].iter().fold(0xffff, |crc, &byte| step(crc, byte)), 39);
        bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
        bytes.extend([5; 13]);
        bytes
    }

    /// What ground stations read, in lost frames: a late one counts as 254.
    fn lost_as_read(numbers: &[u8]) -> u32 {
        let gap = |pair: &[u8]| u32::from(pair[1].wrapping_sub(pair[0]).wrapping_sub(1));
        numbers.windows(2).map(gap).sum()
    }

    /// Passes numbers through; those of the second list are bulk.
    fn given(numbers: &[u32], bulk: &[u32]) -> Vec<u8> {
        let mut renumber = Renumber::default();
        let mut pass = |number: &u32| {
            let class = if bulk.contains(number) { Class::Bulk } else { Class::Telemetry };
            let bytes = renumber.on_frames(class, &frame(*number as u8), true);
            let frame = MavlinkFrames::new(&bytes).next().expect("a frame with a right checksum");
            frame.sequence()
        };
        numbers.iter().map(&mut pass).collect()
    }

    #[test]
    fn what_was_overtaken_is_not_read_as_lost() {
        // Each heartbeat leaves before the three frames that were sent before it.
        let order = (0..250).flat_map(|four| [3, 0, 1, 2].map(|at| 4 * four + at));
        let order: Vec<u32> = order.collect();
        let sent: Vec<u8> = order.iter().map(|number| *number as u8).collect();
        assert!(lost_as_read(&sent) > 60_000);
        assert_eq!(lost_as_read(&given(&order, &[])), 0);
    }

    #[test]
    fn what_is_lost_is_read_as_lost() {
        let order: Vec<u32> = (0..2_000).filter(|number| number % 50 != 7).collect();
        let read = lost_as_read(&given(&order, &[]));
        assert!((37..=40).contains(&read), "{read} of 40, of which the window may hold three");
        // All of an outage, also of one that is longer than the window, as far as 8 bits tell.
        for (outage, told) in [(100, 100), (127, 127), (256 + 20, 20)] {
            let order: Vec<u32> = (0..300).chain(300 + outage..900 + outage).collect();
            assert_eq!(lost_as_read(&given(&order, &[])), told, "outage of {outage}");
        }
    }

    #[test]
    fn bulk_that_was_overtaken_for_long_moves_nothing() {
        // Each 50th frame is a parameter that comes 100 or 150 later. Numbers of the latter look
        // like some of the future, and once one is believed, so do those of the former.
        let mut order: Vec<u32> = (0..4_000).filter(|number| number % 50 != 0).collect();
        let bulk: Vec<u32> = (1..70).map(|count| 50 * count).collect();
        for number in &bulk {
            let late = if number % 100 == 0 { 150 } else { 100 };
            let place = order.iter().position(|other| *other == number + late + 1).unwrap();
            order.insert(place, *number);
        }
        // Those that are out of the window count as lost, since nobody can tell any more; nothing
        // else does but the last ten, which never come.
        let read = lost_as_read(&given(&order, &bulk));
        assert!(read <= 35 + 10, "{read} of 35 parameters that come late");
        assert!(lost_as_read(&given(&order, &[])) > 1_000, "as if it were telemetry");
    }

    #[test]
    fn a_restart_and_a_duplicate_cost_no_more_than_half_a_turn() {
        let restarted: Vec<u32> = (0..200).chain(0..600).collect();
        assert!(lost_as_read(&given(&restarted, &[])) < 128);
        assert_eq!(lost_as_read(&given(&[1, 2, 2, 3, 4], &[])), 0);
    }

    #[test]
    fn a_source_that_signs_keeps_its_numbers_until_it_signs_no_more() {
        let mut renumber = Renumber::default();
        let mut pass = |number: u8, is_signed: bool| {
            let bytes = if is_signed { signed(number) } else { frame(number) };
            let given = renumber.on_frames(Class::Telemetry, &bytes, true);
            let is_same = given == bytes;
            (
                MavlinkFrames::new(&given).next().unwrap().sequence(),
                is_same,
                renumber.sees_signatures(),
            )
        };
        assert_eq!(pass(9, false), (9, true, false));
        assert_eq!(pass(7, false), (10, false, false), "overtaken");
        for number in 11..100 {
            assert_eq!(pass(number, true), (number, true, true));
        }
        // Frames that it does not sign stand among those that it does, and are counted with them.
        assert_eq!(pass(100, false), (100, true, true));
        assert_eq!(pass(90, true), (90, true, true));
        for count in 1..SIGNS_NO_MORE {
            assert_eq!(pass(count.wrapping_add(100), false), (count.wrapping_add(100), true, true));
        }
        let anew = SIGNS_NO_MORE.wrapping_add(100);
        assert_eq!(pass(anew, false), (anew, true, false));
        assert_eq!(pass(anew - 5, false), (anew + 1, false, false), "numbered again");
    }

    #[test]
    fn two_vehicles_of_one_number_are_read_no_worse_than_apart() {
        for apart in [1, 3, 40, 100, 127, 128, 129, 200, 255] {
            // Their frames take turns, and overtake each other now and then; one of them sends a
            // little more.
            let numbers = (0..2_000_u32).flat_map(|turn| {
                let other = (turn % 10 != 3).then_some(turn * 9 / 10 + apart);
                [Some(turn), other].into_iter().flatten()
            });
            let order: Vec<u32> = numbers.collect();
            let sent: Vec<u8> = order.iter().map(|number| *number as u8).collect();
            let (read, as_sent) = (lost_as_read(&given(&order, &[])), lost_as_read(&sent));
            assert!(
                as_sent > 200_000,
                "{as_sent}: as it is sent, half a turn is read as lost each time"
            );
            assert!(read < as_sent / 50, "{apart} apart: {read} of {as_sent}");
        }
    }

    #[test]
    fn what_a_filter_keeps_back_leaves_no_gap_and_sources_are_bounded() {
        let mut renumber = Renumber::default();
        let mut numbers = Vec::new();
        for number in 0..200 {
            let bytes = renumber.on_frames(Class::Telemetry, &frame(number), number % 2 == 0);
            if number % 2 == 0 {
                numbers.extend(MavlinkFrames::new(&bytes).map(|frame| frame.sequence()));
            }
        }
        assert_eq!(lost_as_read(&numbers), 0);
        for system in 0..=255 {
            let other = encode_frame(Version::V1, 9, (system, 7), 30, &[1; 28]).unwrap();
            assert_eq!(renumber.on_frames(Class::Telemetry, &other, true), other);
        }
        assert_eq!(renumber.sources.len(), SOURCES);
    }
}
