//! A path's last ten minutes, in a few kilobytes: a thousand drones fit a small station.

use std::collections::VecDeque;
use std::time::Duration;

use crate::status::PathReport;

/// The time that a bucket stands for.
pub(crate) const BUCKET: Duration = Duration::from_secs(2);
/// Buckets of ten minutes.
const BUCKETS: usize = 300;
/// Buckets in a row that may be missing and are taken to be like the one before: a large station is
/// asked less often.
const BRIDGED: u64 = 5;
/// Stands for a delay that is not known.
const UNKNOWN: u16 = u16::MAX;

/// What a path did, bucket by bucket, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The number of the newest bucket.
    newest: u64,
    buckets: VecDeque<Bucket>,
}

/// The worst of some seconds; of rates, the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Tenths of a millisecond.
    delay: u16,
    loss: u8,
    loss_in: u8,
    out_kbps: u32,
    in_kbps: u32,
    works: bool,
    /// Nothing was heard from the daemon in this time.
    is_gap: bool,
}

const GAP: Bucket = Bucket {
    delay: UNKNOWN,
    loss: 0,
    loss_in: 0,
    out_kbps: 0,
    in_kbps: 0,
    works: true,
    is_gap: true,
};

impl History {
    /// Adds what a report says at `now`, a time since the watch began.
    pub(crate) fn add(&mut self, now: Duration, path: &PathReport) {
        let number = number(now);
        if self.buckets.is_empty() {
            self.newest = number;
            self.buckets.push_back(GAP);
        }
        let missing = number.saturating_sub(self.newest + 1);
        let last = self.buckets.back().copied().filter(|_| missing <= BRIDGED).unwrap_or(GAP);
        while self.newest < number {
            self.newest += 1;
            if self.buckets.len() == BUCKETS {
                self.buckets.pop_front();
            }
            self.buckets.push_back(if self.newest < number { last } else { GAP });
        }
        if let Some(bucket) = self.buckets.back_mut() {
            bucket.take(path);
        }
    }

    /// Tells whether it has anything of the last ten minutes.
    pub(crate) fn is_fresh(&self, now: Duration) -> bool {
        number(now) < self.newest + BUCKETS as u64
    }

    /// Returns the buckets, the newest last.
    pub(crate) fn buckets(&self) -> impl ExactSizeIterator<Item = &Bucket> {
        self.buckets.iter()
    }
}

impl Bucket {
    /// Returns the round-trip time in milliseconds; none while the path did not work or nothing was
    /// known.
    pub(crate) fn delay_ms(&self) -> Option<f64> {
        (self.delay != UNKNOWN && self.works).then(|| f64::from(self.delay) / 10.0)
    }

    /// Returns the worse of both directions' losses in percent; none where nothing was known.
    pub(crate) fn loss_percent(&self) -> Option<u8> {
        (!self.is_gap).then(|| self.loss.max(self.loss_in))
    }

    /// Returns what went out and came in, in kbit/s; none where nothing was known.
    pub(crate) fn kbps(&self) -> Option<(u32, u32)> {
        (!self.is_gap).then_some((self.out_kbps, self.in_kbps))
    }

    /// Tells whether the path worked all the time, as far as is known.
    pub(crate) fn works(&self) -> bool {
        self.works
    }

    fn take(&mut self, path: &PathReport) {
        if let Some(srtt) = path.srtt_ms {
            // As casts saturate, nothing that a daemon says is out of range.
            let delay = ((srtt * 10.0) as u16).min(UNKNOWN - 1);
            self.delay = if self.delay == UNKNOWN { delay } else { self.delay.max(delay) };
        }
        self.loss = self.loss.max(path.loss_percent.round() as u8);
        self.loss_in = self.loss_in.max(path.loss_in_percent.round() as u8);
        self.out_kbps = (path.out_mbps * 1e3) as u32;
        self.in_kbps = (path.in_mbps * 1e3) as u32;
        self.works &= path.state == "active";
        self.is_gap = false;
    }
}

fn number(now: Duration) -> u64 {
    now.as_secs() / BUCKET.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_bucket_holds_the_worst_and_ten_minutes_are_kept() {
        let mut history = History::default();
        let active = || PathReport { state: "active".into(), ..PathReport::default() };
        history.add(at(0), &PathReport { srtt_ms: Some(80.0), loss_percent: 3.0, ..active() });
        history.add(at(1), &PathReport { srtt_ms: Some(20.0), loss_in_percent: 7.4, ..active() });
        let buckets: Vec<Bucket> = history.buckets().copied().collect();
        assert_eq!(buckets.len(), 1);
        assert_eq!((buckets[0].delay_ms(), buckets[0].loss_percent()), (Some(80.0), Some(7)));
        let silent = PathReport { state: "suspected".into(), srtt_ms: Some(1e9), ..active() };
        history.add(at(19), &silent);
        let buckets: Vec<Bucket> = history.buckets().copied().collect();
        assert_eq!(buckets.len(), 10, "the time that nobody looked is a gap");
        assert_eq!((buckets[2].delay_ms(), buckets[2].loss_percent()), (None, None));
        assert!(buckets[2].works() && !buckets[9].works() && buckets[9].delay_ms().is_none());
        history.add(at(27), &active());
        let bridged = history.buckets().nth(11).copied();
        assert!(
            bridged.is_some_and(|bucket| !bucket.is_gap && !bucket.works()),
            "a short one is not"
        );
        (28..3_000).for_each(|second| history.add(at(second), &active()));
        assert_eq!(history.buckets().len(), BUCKETS);
        assert!(history.is_fresh(at(3_500)) && !history.is_fresh(at(3_700)));
    }
}
