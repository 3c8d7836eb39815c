//! What became of the traffic, class by class, since the session began.
//!
//! Counting alone: nothing here decides anything.

use hdrhistogram::Histogram;
use units::Duration;

use crate::select::Class;
use crate::status::{ClassStatus, DelayPercentiles};

/// Counts one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) submitted: u64,
    pub(crate) dropped: u64,
    pub(crate) copies_sent: u64,
    pub(crate) delivered: u64,
    /// Made with the first delivery: it takes 10 kB.
    delays_us: Option<Histogram<u32>>,
}

impl Account {
    /// Counts a delivery and its delay from submission.
    pub(crate) fn on_delivered(&mut self, delay: Duration) {
        self.delivered += 1;
        let delays_us = self.delays_us.get_or_insert_with(delays);
        delays_us.saturating_record(delay.as_micros());
    }

    fn percentiles(&self) -> DelayPercentiles {
        let Some(delays_us) = &self.delays_us else { return DelayPercentiles::default() };
        let at = |quantile| Duration::from_micros(delays_us.value_at_quantile(quantile));
        DelayPercentiles {
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: Duration::from_micros(delays_us.max()),
        }
    }
}

fn delays() -> Histogram<u32> {
    // A minute is beyond any time to live.
    Histogram::new_with_bounds(1, 60_000_000, 2)
        .expect("1 µs to 1 minute at two digits is a valid histogram")
}

/// Keeps the account of every class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts([Account; Class::ALL.len()]);

impl Accounts {
    /// Returns the account of `class`.
    pub(crate) fn of(&mut self, class: Class) -> &mut Account {
        &mut self.0[class.index()]
    }

    /// Returns a row for each class in the order of their priority: what deliveries count
    /// themselves is still to be added.
    pub(super) fn rows(&self) -> Vec<ClassStatus> {
        let rows = Class::ALL.iter().zip(&self.0);
        rows.map(|(&class, account)| ClassStatus {
            class,
            submitted: account.submitted,
            dropped: account.dropped,
            superseded: 0,
            copies_sent: account.copies_sent,
            acknowledged: 0,
            indeterminate: 0,
            delivered: account.delivered,
            held: 0,
            duplicates: 0,
            late: 0,
            delay: account.percentiles(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_an_account_of_its_own() {
        let mut accounts = Accounts::default();
        for class in Class::ALL {
            accounts.of(class).submitted += 1;
        }
        let rows = accounts.rows();
        assert!(rows.iter().all(|row| row.submitted == 1));
    }

    #[test]
    fn percentiles_follow_the_deliveries() {
        let mut account = Account::default();
        assert_eq!(account.percentiles(), DelayPercentiles::default());
        (1..=100).for_each(|ms| account.on_delivered(Duration::from_millis(ms)));
        let delay = account.percentiles();
        assert_eq!(delay.p50.as_millis(), 50);
        assert!(delay.max >= Duration::from_millis(99));
    }
}
