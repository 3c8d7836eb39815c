//! What is run, message after message, and what comes of it: the same in both lives.

use std::sync::Arc;

use emulator::{Failure, Stalls};
use proto::select::Tier;
use units::Duration;

use crate::arguments::RunArgs;
use crate::doubt::at_best;
use crate::testbed::{Direction, RecordedFrame, Stamp, Stream};

/// Describes a run.
#[derive(Clone, Debug)]
pub(crate) struct IntervalPlan {
    /// Messages to deliver.
    pub(crate) messages: u32,
    /// Time from a delivery to the next sending.
    pub(crate) interval: Duration,
    /// After this long without a delivery a message counts as lost, and it is the next one's turn.
    pub(crate) give_up: Duration,
    /// Rate of bulk that flows beside the messages, Mbit/s.
    pub(crate) bulk_mbps: f64,
    /// The least that a TCP's timeout is above its smoothed round trip; none: what its kernel has.
    pub(crate) rto_min: Option<Duration>,
    /// What the messages are.
    pub(crate) contents: Contents,
}

/// What the messages of a run are.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// Stamped messages of so many bytes.
    Stamped(usize),
    /// What the station says in recorded MAVLink of the control tier, over and over.
    Recorded(Arc<[RecordedFrame]>),
}

impl Contents {
    /// Returns the recorded control of a run that plays any, else messages of 100 bytes.
    ///
    /// # Errors
    /// When the recording does not read, or has no control from the station.
    pub(crate) fn of(run: &RunArgs) -> Result<Self, Failure> {
        if run.tlog.is_none() {
            return Ok(Self::Stamped(100));
        }
        let recording = run.recording()?;
        let frames = recording.frames(Direction::Up).iter();
        let control: Arc<[RecordedFrame]> =
            frames.filter(|frame| frame.policy.class.tier() == Tier::Control).copied().collect();
        if control.is_empty() {
            let what = "--tlog: the station says nothing in it that is control".to_owned();
            return Err(Failure::Usage(what));
        }
        Ok(Self::Recorded(control))
    }

    /// Returns the stream that carries them.
    pub(crate) fn stream(&self) -> Stream {
        match self {
            Self::Stamped(_) => Stream::Control,
            Self::Recorded(_) => Stream::Mavlink,
        }
    }

    /// Makes a message that is handed in at `sent`.
    pub(crate) fn message(&self, number: u32, sent: Duration) -> Vec<u8> {
        match self {
            Self::Stamped(len) => {
                Stamp { flow: 0, stream: Stream::Control, sequence: number, sent }.packet(*len)
            }
            Self::Recorded(frames) => frames[number as usize % frames.len()].bytes.to_vec(),
        }
    }

    /// Returns the number of a message that came while that of `turn` was awaited; none of anything
    /// else.
    pub(crate) fn number(&self, bytes: &[u8], turn: u32) -> Option<u32> {
        match self {
            Self::Stamped(_) => Stamp::read(bytes)
                .filter(|stamp| stamp.stream == Stream::Control)
                .map(|stamp| stamp.sequence),
            // Of equal frames the newest that was sent.
            Self::Recorded(frames) => {
                let of = |number: u32| frames[number as usize % frames.len()].bytes;
                let oldest = turn.saturating_sub(frames.len() as u32 - 1);
                (oldest..=turn).rev().find(|number| of(*number) == bytes)
            }
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalRun {
    /// Times between one delivery and the next, seconds; the first counts from one interval before
    /// the first sending.
    pub(crate) intervals: Vec<f64>,
    /// From one interval before the first sending to the last delivery, seconds.
    pub(crate) completion_s: f64,
    /// Messages that were not delivered.
    pub(crate) lost: u64,
    /// Deliveries of what had been delivered before.
    pub(crate) duplicates: u64,
    /// Each message's turn, where something may have stood still in it: not in the world.
    pub(crate) turns: Vec<Turn>,
}

/// The turn of one message, in time of the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When the one before was over.
    pub(crate) from: Duration,
    /// When the message was due.
    pub(crate) due: Duration,
    /// When it was delivered; none where it was given up.
    pub(crate) delivered: Option<Duration>,
    /// When the turn was over.
    pub(crate) until: Duration,
}

impl IntervalRun {
    /// Returns what would have been seen at best had nothing stood still. What held one message up
    /// moved all that followed, so that no interval has a part in another's error.
    pub(crate) fn at_best(&self, stalls: &Stalls) -> Self {
        let mut best = self.clone();
        let (mut intervals, mut gained_s) = (best.intervals.iter_mut(), 0.0);
        for turn in &self.turns {
            let mut delivered = turn.delivered;
            let counts = at_best(turn.due, &mut delivered, stalls);
            if let (Some(seen), Some(at)) = (turn.delivered, delivered) {
                gained_s += seen.saturating_sub(at).as_secs_f64();
                intervals.next().into_iter().for_each(|interval| *interval -= gained_s);
                best.completion_s -= gained_s;
                gained_s = 0.0;
            } else if !counts {
                best.lost -= 1;
                gained_s += turn.until.saturating_sub(turn.from).as_secs_f64();
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use emulator::{Stall, Stalled};

    use super::*;

    #[test]
    fn a_turn_may_be_shorter_by_its_stalls_and_one_lost_in_a_stall_by_all_of_it() {
        let ms = Duration::from_millis;
        let turn = |from, delivered: Option<u64>, until| Turn {
            from: ms(from),
            due: ms(from + 500),
            delivered: delivered.map(ms),
            until: ms(until),
        };
        let run = IntervalRun {
            intervals: vec![0.515, 2.010],
            completion_s: 2.525,
            lost: 1,
            duplicates: 0,
            turns: vec![
                turn(0, Some(515), 515),
                turn(515, None, 2_015),
                turn(2_015, Some(2_525), 2_525),
            ],
        };
        let stall = |from_s, to_s| Stall { who: Stalled::Programs, from_s, to_s };
        // Of the first 5 ms; before the message was due nothing; the second was lost in the last
        // one.
        let stalls =
            Stalls::new(vec![stall(0.2, 0.21), stall(0.505, 0.510), stall(1.010, 1.020)], 0.0);
        let best = run.at_best(&stalls);
        let close = |seen: f64, expected: f64| assert!((seen - expected).abs() < 1e-9, "{seen}");
        close(best.intervals[0], 0.510);
        close(best.intervals[1], 0.510);
        close(best.completion_s, 1.020);
        assert_eq!((best.lost, best.intervals.len()), (0, 2));
    }
}
