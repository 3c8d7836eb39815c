//! Whether the window is what limits a sender, as Linux remembers it (`tcp_cwnd_validate`): that it
//! was the limit holds for a round trip, and so does the most that was under way.
//!
//! A sender that has always something to send needs no memory. One whose application comes and goes
//! hardly grows without.

/// What limited a sender in the present round trip.
#[derive(Debug, Default)]
pub(super) struct Usage {
    limited: bool,
    /// Segments that were under way.
    most: u64,
    /// The segment with which the round trip ends.
    round_ends: u64,
    /// Something was sent since the sender was last stopped.
    sent: bool,
}

impl Usage {
    /// Takes down that a segment was sent.
    pub(super) fn on_sent(&mut self) {
        self.sent = true;
    }

    /// Takes down that the sender was stopped, by its window where `limited`; `una` and `next` are
    /// the oldest segment that is not acknowledged and the next new one.
    pub(super) fn on_stopped(&mut self, limited: bool, una: u64, next: u64) {
        let sent = std::mem::take(&mut self.sent);
        let (out, is_over) = (next - una, una >= self.round_ends);
        let is_news = is_over || limited || (!self.limited && out > self.most);
        if (sent || limited) && is_news {
            *self = Self { limited, most: out, round_ends: next, sent: false };
        }
    }

    /// Tells whether the window may grow; in slow start up to twice what was under way.
    pub(super) fn may_raise(&self, cwnd: u32, slow_start: bool) -> bool {
        self.limited || (slow_start && u64::from(cwnd) < 2 * self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_a_round_trip_and_the_most_under_way_too() {
        let mut usage = Usage::default();
        let mut stop = |limited, una, next| {
            usage.on_sent();
            usage.on_stopped(limited, una, next);
            [usage.may_raise(30, false), usage.may_raise(30, true), usage.may_raise(50, true)]
        };
        assert_eq!(stop(true, 0, 10), [true; 3]);
        assert_eq!(stop(false, 9, 12), [true; 3], "the round trip is not over");
        assert_eq!(stop(false, 10, 30), [false, true, false], "20 under way");
        assert_eq!(stop(false, 20, 32), [false, true, false], "they still count");
        assert_eq!(stop(false, 30, 35), [false; 3]);
        assert_eq!(stop(false, 30, 58), [false, true, true]);
    }
}
