//! What a target has come to: predicted, achieved, and what the samples prove.
//!
//! ```text
//! window    ten minutes, in buckets of ten seconds; besides, the whole session
//! share     missed weight / weight; a message weighs one, or, where the newest counts, the time
//!           since the one before
//! episode   misses less than a second apart
//! bound     upper bound of \[ClopperPearson\] for episodes in messages / (misses per episode)
//! ```
//! Misses of one outage are one sample: fifty of them prove no more than one does.

use std::collections::VecDeque;

use units::{Duration, Instant};

use super::{AFTERMATH, WINDOW, bound};

/// What became of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// When it was handed in.
    pub(super) submitted: Instant,
    /// What it weighs, and how much of that was missed.
    pub(super) weight: f64,
    pub(super) missed: f64,
    /// How much of that was in time by the estimate of the peer's clock, but not for certain.
    pub(super) open: f64,
    /// How far that estimate may be off; none where nothing arrived.
    pub(super) clock_error: Option<Duration>,
    /// Share that was expected to be missed, where there was evidence.
    pub(super) predicted: Option<f64>,
    /// Copies that left, and copies of a copy on every path.
    pub(super) copies: usize,
    pub(super) everywhere: usize,
    /// Bytes of a copy.
    pub(super) bytes: usize,
}

/// Sums over messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) messages: u64,
    pub(super) misses: u64,
    pub(super) episodes: u64,
    pub(super) copies: u64,
    pub(super) everywhere: u64,
    weight: f64,
    missed: f64,
    open: f64,
    predicted: f64,
    predicted_weight: f64,
}

/// Keeps the account of one target.
#[derive(Debug, Default)]
pub(super) struct Account {
    buckets: VecDeque<(Instant, Sums)>,
    session: Sums,
    last_miss: Option<Instant>,
    clock_error: Option<Duration>,
    saved_bytes: u64,
}

impl Sums {
    /// Returns the share that was missed.
    pub(super) fn miss_share(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.missed / self.weight)
    }

    /// Returns the share of which it is open whether it was missed: it counts as missed.
    pub(super) fn open_share(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.open / self.weight)
    }

    /// Returns the share that was expected to be.
    pub(super) fn predicted(&self) -> Option<f64> {
        (self.predicted_weight > 0.0).then(|| self.predicted / self.predicted_weight)
    }

    /// Returns the share that is not exceeded with 95 % confidence.
    pub(super) fn bound_95(&self) -> Option<f64> {
        let share = self.miss_share()?;
        Some(bound::upper(self.episodes as f64, self.samples()).max(share))
    }

    /// Returns the share that is reached for certain.
    pub(super) fn surely_missed(&self) -> f64 {
        bound::lower(self.episodes as f64, self.samples())
    }

    /// Returns the copies per message.
    pub(super) fn copies_per_message(&self) -> Option<f64> {
        (self.messages > 0).then(|| self.copies as f64 / self.messages as f64)
    }

    /// Returns the share of copies everywhere that did not leave.
    pub(super) fn saved_share(&self) -> Option<f64> {
        let share = self.copies as f64 / self.everywhere as f64;
        (self.everywhere > 0).then_some((1.0 - share).max(0.0))
    }

    /// Returns how many samples the messages are: what is missed in one episode is one.
    fn samples(&self) -> f64 {
        match self.miss_share() {
            Some(share) if share > 0.0 => self.episodes as f64 / share,
            _ => self.messages as f64,
        }
    }

    /// Returns those over one message.
    fn of(fate: &Fate, is_episode: bool) -> Self {
        Self {
            messages: 1,
            misses: u64::from(fate.missed > 0.0),
            episodes: u64::from(is_episode),
            copies: fate.copies as u64,
            everywhere: fate.everywhere as u64,
            weight: fate.weight,
            missed: fate.missed,
            open: fate.open,
            predicted: fate.predicted.map_or(0.0, |predicted| predicted * fate.weight),
            predicted_weight: fate.predicted.map_or(0.0, |_| fate.weight),
        }
    }

    fn and(mut self, other: &Self) -> Self {
        self.messages += other.messages;
        self.misses += other.misses;
        self.episodes += other.episodes;
        self.copies += other.copies;
        self.everywhere += other.everywhere;
        self.weight += other.weight;
        self.missed += other.missed;
        self.open += other.open;
        self.predicted += other.predicted;
        self.predicted_weight += other.predicted_weight;
        self
    }
}

impl Account {
    /// Takes the fate of a message; they come in the order in which they were handed in.
    pub(super) fn add(&mut self, fate: &Fate) {
        let at = fate.submitted;
        let mut is_episode = false;
        if fate.missed > 0.0 {
            is_episode = self.last_miss.is_none_or(|last| at.since(last) > AFTERMATH);
            self.last_miss = Some(at);
        }
        self.clock_error = fate.clock_error.or(self.clock_error);
        let own = Sums::of(fate, is_episode);
        self.session = self.session.and(&own);
        let saved = fate.everywhere.saturating_sub(fate.copies) * fate.bytes;
        self.saved_bytes += saved as u64;
        match self.buckets.back_mut() {
            Some((began, sums)) if at.since(*began) < WINDOW / 60 => *sums = sums.and(&own),
            _ => self.buckets.push_back((at, own)),
        }
        while self.buckets.front().is_some_and(|(began, _)| at.since(*began) > WINDOW) {
            self.buckets.pop_front();
        }
    }

    /// Returns the sums of the last ten minutes.
    pub(super) fn window(&self) -> Sums {
        self.buckets.iter().fold(Sums::default(), |sums, (_, bucket)| sums.and(bucket))
    }

    /// Returns those since the session began.
    pub(super) fn session(&self) -> &Sums {
        &self.session
    }

    /// Returns how far the peer's clock may have been off its estimate when a copy arrived last.
    pub(super) fn clock_error(&self) -> Option<Duration> {
        self.clock_error
    }

    /// Returns the bytes that a copy on every path would have cost more since the session began.
    pub(super) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(message: u64, missed: bool) -> Fate {
        Fate {
            submitted: Instant::from_millis(1_000 + message * 20),
            weight: 1.0,
            missed: f64::from(u8::from(missed)),
            open: 0.0,
            clock_error: None,
            predicted: Some(0.01),
            copies: 1,
            everywhere: 2,
            bytes: 100,
        }
    }

    #[test]
    fn misses_of_one_outage_are_one_sample() {
        let (mut outage, mut scattered) = (Account::default(), Account::default());
        for message in 0..10_000 {
            outage.add(&fate(message, (5_000..5_050).contains(&message)));
            scattered.add(&fate(message, message % 200 == 0));
        }
        let (outage, scattered) = (outage.window(), scattered.window());
        assert_eq!((outage.misses, outage.episodes), (50, 1));
        assert_eq!((scattered.misses, scattered.episodes), (50, 50));
        assert_eq!(outage.miss_share(), scattered.miss_share());
        let bounds = (outage.bound_95().expect("known"), scattered.bound_95().expect("known"));
        assert!(bounds.0 > 2.0 * bounds.1, "{bounds:?}");
        assert!(outage.surely_missed() < scattered.surely_missed() / 2.0);
    }

    #[test]
    fn ten_minutes_are_kept_in_a_bounded_number_of_buckets() {
        let mut account = Account::default();
        for message in 0..100_000 {
            account.add(&fate(message, message < 1_000));
        }
        assert!(account.buckets.len() <= 62);
        let window = account.window();
        assert!((30_000..31_000).contains(&window.messages), "{}", window.messages);
        assert_eq!((window.misses, account.session().misses), (0, 1_000));
        assert_eq!(account.saved_bytes(), 100_000 * 100);
    }
}
