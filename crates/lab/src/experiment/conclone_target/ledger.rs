//! What became of a run's messages, second by second: a million of them are kept as ten thousand
//! seconds.
//!
//! ```text
//! missed    not delivered within the deadline after it was handed in
//! stale     the newest message that the other application has was handed in longer ago than the
//!           deadline
//! ```
//! Both for several deadlines at once: a scheme that knows none is run once for all of them.
//! Nothing here knows whether the run was one of the world.

use crate::experiment::streams::ledger::StreamLedger;

/// After this long a dead link counts as noticed, seconds: what comes before is the price of
/// noticing.
const NOTICED_S: f64 = 0.3;
/// A command that comes later is no use: control's time to live.
const COMMAND_TTL_S: f64 = 2.0;

/// When messages are handed in.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    /// So many a second.
    Even(f64),
    /// At recorded times, again and again.
    Recorded {
        /// In ascending order, seconds.
        at_s: Vec<f64>,
        /// How long the recording is.
        length_s: f64,
    },
}

impl Schedule {
    /// Returns when a message is handed in, seconds.
    pub(super) fn at_s(&self, number: u32) -> f64 {
        match self {
            Self::Even(hz) => f64::from(number) / hz,
            Self::Recorded { at_s, length_s } => {
                let (round, place) = (number as usize / at_s.len(), number as usize % at_s.len());
                round as f64 * length_s + at_s[place]
            }
        }
    }

    /// Counts the messages that are handed in before `seconds`.
    fn count(&self, seconds: f64) -> usize {
        match self {
            Self::Even(hz) => (seconds * hz).round() as usize,
            Self::Recorded { at_s, .. } if at_s.is_empty() => 0,
            Self::Recorded { .. } => {
                (0..).take_while(|number| self.at_s(*number) < seconds).count()
            }
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Recorded { at_s: Vec::new(), length_s: 0.0 }
    }
}

/// One direction of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    schedule: Schedule,
    /// Messages handed in, by the second.
    pub(super) sent: Vec<u32>,
    /// For each deadline.
    pub(super) late: Vec<Lateness>,
    /// Which messages have come.
    seen: Vec<bool>,
    /// When the newest message that has come was handed in.
    newest_s: f64,
    /// Until when its age has been written down.
    aged_s: f64,
    /// Commands beside them: how many were handed in and how many came in time.
    pub(super) commands: (u32, u32),
}

/// What one deadline makes of a direction.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    pub(super) deadline_s: f64,
    /// Messages that came in time, by the second in which they were handed in.
    pub(super) in_time: Vec<u32>,
    /// How much of each second the newest was too old.
    pub(super) stale_s: Vec<f64>,
    /// The same while the first link is dead and that may have been noticed, in all.
    pub(super) stale_dead_s: f64,
}

impl Way {
    /// Makes the record of a direction in which messages are handed in for some seconds.
    pub(super) fn new(schedule: Schedule, seconds: f64, deadlines_s: &[f64]) -> Self {
        let bins = seconds.ceil() as usize + 1;
        let lateness = |deadline_s: &f64| Lateness {
            deadline_s: *deadline_s,
            in_time: vec![0; bins],
            stale_s: vec![0.0; bins],
            stale_dead_s: 0.0,
        };
        Self {
            seen: vec![false; schedule.count(seconds)],
            schedule,
            sent: vec![0; bins],
            late: deadlines_s.iter().map(lateness).collect(),
            newest_s: 0.0,
            aged_s: 0.0,
            commands: (0, 0),
        }
    }

    /// Returns when a message is handed in, seconds.
    pub(super) fn handed_in_s(&self, number: u32) -> f64 {
        self.schedule.at_s(number)
    }

    /// Counts the messages of the plan.
    pub(super) fn planned(&self) -> u32 {
        self.seen.len() as u32
    }

    /// Notes that a message was handed in.
    pub(super) fn on_sent(&mut self, number: u32) {
        let second = self.handed_in_s(number) as usize;
        if let Some(sent) = self.sent.get_mut(second) {
            *sent += 1;
        }
    }

    /// Notes that a message came `at_s`; what comes again is nothing new.
    pub(super) fn on_delivered(&mut self, number: u32, at_s: f64, dead_s: &[(f64, f64)]) {
        match self.seen.get_mut(number as usize) {
            Some(seen @ false) => *seen = true,
            _ => return,
        }
        let sent_s = self.handed_in_s(number);
        for late in &mut self.late {
            if at_s - sent_s <= late.deadline_s {
                late.in_time[sent_s as usize] += 1;
            }
        }
        if sent_s >= self.newest_s {
            self.age_until(at_s, dead_s);
            self.newest_s = sent_s;
        }
    }

    /// Notes that nothing newer came until `at_s`.
    pub(super) fn age_until(&mut self, at_s: f64, dead_s: &[(f64, f64)]) {
        for late in &mut self.late {
            let from_s = self.aged_s.max(self.newest_s + late.deadline_s);
            late.stale_dead_s += noticed(dead_s, from_s, at_s);
            let mut from_s = from_s;
            while from_s < at_s {
                let second = from_s as usize;
                let to_s = at_s.min((second + 1) as f64);
                match late.stale_s.get_mut(second) {
                    Some(stale) => *stale += to_s - from_s,
                    None => break,
                }
                from_s = to_s;
            }
        }
        self.aged_s = self.aged_s.max(at_s);
    }

    /// Takes what the ledger of a real run has: when each was handed in and came, in seconds.
    pub(super) fn of_ledger(
        ledger: &StreamLedger,
        hz: f64,
        seconds: f64,
        deadlines_s: &[f64],
    ) -> Self {
        let mut way = Self::new(Schedule::Even(hz), seconds, deadlines_s);
        let mut arrivals = Vec::new();
        for (number, (sent, delivered)) in (0..).zip(ledger.sent.iter().zip(&ledger.delivered)) {
            let Some(sent) = sent else { continue };
            way.on_sent(number);
            if let Some(at) = delivered {
                // It counts from when it should have been handed in, as if that had been then.
                let delay_s = at.saturating_sub(*sent).as_secs_f64();
                arrivals.push((way.handed_in_s(number) + delay_s, number));
            }
        }
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        arrivals.into_iter().for_each(|(at_s, number)| way.on_delivered(number, at_s, &[]));
        way.age_until(seconds, &[]);
        way
    }

    /// Notes what became of a command, by its delay in seconds; none while it has not come.
    pub(super) fn on_command(&mut self, delay_s: Option<f64>) {
        match delay_s {
            None => self.commands.0 += 1,
            Some(delay_s) => self.commands.1 += u32::from(delay_s <= COMMAND_TTL_S),
        }
    }
}

/// Returns how long the first link is dead in all, without the time of noticing, seconds.
pub(super) fn noticed_dead_s(dead_s: &[(f64, f64)], seconds: f64) -> f64 {
    noticed(dead_s, 0.0, seconds)
}

/// Returns how much of a stretch of time lies where the first link is dead and that may have been
/// noticed.
fn noticed(dead_s: &[(f64, f64)], from_s: f64, to_s: f64) -> f64 {
    let first = dead_s.partition_point(|(_, end)| *end <= from_s);
    let within =
        |(start, end): &(f64, f64)| (end.min(to_s) - (start + NOTICED_S).max(from_s)).max(0.0);
    dead_s[first..].iter().take_while(|(start, _)| *start < to_s).map(within).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_missed_and_the_newest_grows_stale() {
        let dead = [(0.5, 1.5)];
        let mut way = Way::new(Schedule::Even(10.0), 3.0, &[0.2, 0.5]);
        // The messages of 0.5 s to 1.3 s are lost; that of 1.4 s takes 250 ms.
        let mut arrivals = Vec::new();
        for number in 0..way.planned() {
            way.on_sent(number);
            let delay = match number {
                5..=13 => continue,
                14 => 0.25,
                _ => 0.05,
            };
            arrivals.push((way.handed_in_s(number) + delay, number));
        }
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at_s, number) in arrivals {
            way.on_delivered(number, at_s, &dead);
        }
        way.age_until(3.0, &dead);
        let missed = |way: &Way, which: usize| {
            way.sent.iter().sum::<u32>() - way.late[which].in_time.iter().sum::<u32>()
        };
        assert_eq!((missed(&way, 0), missed(&way, 1)), (10, 9));
        // The newest was of 0.4 s until 1.55 s, when that of 1.5 s came.
        let stale = |late: &Lateness| late.stale_s.iter().sum::<f64>();
        assert!((stale(&way.late[0]) - (1.55 - 0.6)).abs() < 1e-9, "{way:?}");
        assert!((stale(&way.late[1]) - (1.55 - 0.9)).abs() < 1e-9, "{way:?}");
        assert!((way.late[1].stale_dead_s - (1.5 - 0.9)).abs() < 1e-9, "{way:?}");
        assert!((noticed_dead_s(&dead, 3.0) - 0.7).abs() < 1e-9);
        way.on_delivered(20, 9.0, &dead);
        assert_eq!(missed(&way, 0), 10, "what comes twice is nothing new");
    }
}
