//! What a relay's radio carries, as its gateway sees it from reports [specs/relay.md §5].
//!
//! ```text
//! under way  ≤ limit · (least + q) + slack; at first 2 frames and what was reported in time
//! least      the shortest time from order to report, and a ten-thousandth of the time that passes
//! q          30 ms, or the time of eight frames if longer; up to 125 ms, or the time of two
//! limit      what the relay says; where all reports of 100 ms come later than least + q, what they
//!            settled in that time, 10 kbit/s at least; where not, half as much again
//! slack      2 frames where limit is below what the relay says, for what waits there looks lost;
//!            else 16 / p, p being the part of what is sent that is heard
//! thin       limit below 300 kbit/s: one frame at a time, which takes 40 ms or more
//! another    a frame all the same, 50 ms after the last; later where the radio is thin or new
//! ```
//! Of several thin radios one has none ([`super::transmitters`]), so that control finds one free.
//! It gets a frame when 4 s have passed, and so is known to be heard.
//!
//! A relay says what its radio carries, since most radios tell nobody. Where one carries less for a
//! while, frames wait in it, and nothing overtakes them there: control neither. The bound is what
//! the radio can hold of them before its gateway knows.

use std::cmp::Ordering;

use units::{Duration, Instant, Rate};

use super::{ANSWERED, REPORT};
use crate::limits;
use crate::path::THIN;

/// How much later than at best a report may come, and in frames: more is a queue.
const QUEUED: Duration = Duration::from_millis(30);
const QUEUED_FRAMES: u32 = 8;
/// So much later is a queue even if it is fewer frames, two at least: control waits for it.
const QUEUED_LONG: Duration = Duration::from_millis(125);
/// What leaves is measured over so long, at least.
const MEASURED: Duration = Duration::from_millis(100);
/// Where no queue stands, the limit grows by this in that time.
const GROWS: f64 = 1.5;
/// Frames beyond what a radio is known to carry: those under way at first, and where that is less
/// than its relay says, for what is not reported may wait there, and not be lost.
const SLACK: usize = 2;
/// While none is reported, another follows after this. With [`UNHEARD`] of them out, the radio is
/// thin or hardly heard: it rests for as long as a thin one takes for some of them, or no longer
/// than reports are apart where another radio of its side is known not to be thin.
const FIRST_REST: Duration = Duration::from_millis(200);
const UNHEARD: usize = 5;
const UNHEARD_REST: Duration = Duration::from_millis(1_000);
/// The least limit: a frame every 1.2 s.
const LEAST: Rate = Rate::from_bps(10_000);
/// Where a radio has all that it may hold, it gets another frame when an answer is overdue
/// ([`ANSWERED`]): if that is heard, so was what came before. A thin one gets it after what so many
/// frames take at the limit, and one that starts after as many of the least round trips, if that is
/// longer: what carries control as well must not be filled by guesses.
const REST: u32 = 4;
/// Frames beyond what a radio carries, times n where one of n is heard: a run of misses that long
/// is chance. With fewer, a flight now and then stops sending to a radio that is heard; with more,
/// more stands in one that carries less all at once.
const MISSED: f64 = 16.0;
/// The least round trip is forgotten by this part of the time: relays may move.
const FORGOTTEN: f64 = 0.0001;

/// One relay's radio.
#[derive(Debug)]
pub(super) struct Radio {
    /// What the relay says.
    rate: Rate,
    limit: Rate,
    /// How many frames may be under way while nothing is known: those that came in time come on
    /// top, as a window of TCP starts.
    start: Option<usize>,
    /// Another radio of its side was heard and is not thin.
    has_fast_kin: bool,
    least: Option<(Instant, Duration)>,
    /// The last report came late: a queue stands.
    is_late: bool,
    /// Since when is measured, how many frames have left since, and the earliest report of these.
    since: Instant,
    reported_at: Instant,
    left: usize,
    earliest: Option<Duration>,
}

impl Radio {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            limit: rate,
            start: Some(SLACK),
            has_fast_kin: false,
            least: None,
            is_late: false,
            since: Instant::ZERO,
            reported_at: Instant::ZERO,
            left: 0,
            earliest: None,
        }
    }

    /// Learns what the relay says.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        if self.rate != rate {
            (self.rate, self.limit) = (rate, rate);
        }
    }

    /// Returns what the relay says that it carries.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns what it is held to carry.
    pub(super) fn limit(&self) -> Rate {
        self.limit
    }

    /// Leaves a time out in which nothing was under way.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since += now.since(self.reported_at);
        self.reported_at = now;
    }

    /// Learns from a report that so many frames have left, and after what time it answers the last
    /// of them.
    pub(super) fn on_report(&mut self, now: Instant, left: usize, after: Duration) {
        self.reported_at = now;
        self.left += left;
        self.earliest = Some(self.earliest.map_or(after, |earliest| earliest.min(after)));
        let least = self
            .least
            .map_or(after, |(at, least)| (least + now.since(at).mul_f64(FORGOTTEN)).min(after));
        self.least = Some((now, least));
        self.is_late = after > least + self.queued();
        let left_for_start = if self.is_late { 0 } else { left };
        let held = self.held(least);
        self.start =
            self.start.map(|start| start + left_for_start).filter(|start| (*start as f64) < held);
        let time = now.since(self.since);
        if time < MEASURED {
            return;
        }
        let is_queued = self.earliest.is_some_and(|earliest| earliest > least + self.queued());
        let bits = (self.left * limits::MAX_DATAGRAM * 8) as f64;
        let carried = Rate::from_bps((bits / time.as_secs_f64()) as u64);
        let grown = if self.limit < THIN { carried.max(LEAST) } else { self.limit }.mul_f64(GROWS);
        self.limit = match is_queued {
            true => self.limit.min(carried.max(LEAST)),
            false => self.limit.max(grown).min(self.rate),
        };
        self.start = self.start.filter(|_| !is_queued);
        (self.since, self.left, self.earliest) = (now, 0, None);
    }

    /// Learns whether another radio of its side was heard and is not thin.
    pub(super) fn set_fast_kin(&mut self, has: bool) {
        self.has_fast_kin = has;
    }

    /// Tells whether anything was ever reported of it.
    pub(super) fn is_known(&self) -> bool {
        self.least.is_some()
    }

    /// Tells whether a report of it came so short a time ago.
    pub(super) fn reported_within(&self, now: Instant, time: Duration) -> bool {
        self.least.is_some_and(|(at, _)| now.since(at) < time)
    }

    /// Tells whether frames stand in it.
    pub(super) fn is_behind(&self) -> bool {
        self.is_late || self.limit < self.rate
    }

    /// Tells whether control would wait long behind what it sends.
    pub(super) fn is_thin(&self) -> bool {
        self.limit < THIN
    }

    /// Returns how many frames leave in that time and what a queue may take.
    fn held(&self, least: Duration) -> f64 {
        self.limit.bytes_in(least + self.queued()) as f64 / limits::MAX_DATAGRAM as f64
    }

    fn queued(&self) -> Duration {
        let takes = self.rate.transmission_time(limits::MAX_DATAGRAM);
        QUEUED.max((takes * QUEUED_FRAMES).min(QUEUED_LONG.max(takes * 2)))
    }

    /// Returns how many frames may be under way, where this part of them is heard.
    pub(super) fn window(&self, heard: f64) -> usize {
        let (None, Some((_, least))) = (self.start, self.least) else {
            return self.start.unwrap_or(SLACK);
        };
        if self.limit < self.rate.min(THIN) {
            return 1;
        }
        let held = self.held(least);
        let slack = if self.limit < self.rate { SLACK as f64 } else { MISSED / heard };
        (held + slack) as usize
    }

    /// Returns after what time it gets another frame all the same, where so many are under way.
    pub(super) fn pause(&self, under_way: usize) -> Duration {
        let Some((_, least)) = self.least else {
            return match under_way.cmp(&UNHEARD) {
                Ordering::Less => FIRST_REST,
                Ordering::Equal if !self.has_fast_kin => UNHEARD_REST,
                _ => REPORT,
            };
        };
        let takes = self.limit.transmission_time(limits::MAX_DATAGRAM);
        match (self.start, self.is_thin()) {
            (Some(_), _) => ANSWERED.max(least * REST),
            (None, true) => takes * REST,
            (None, false) => ANSWERED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A radio of 20 Mbit/s that carries `mbps`, of which all is heard, and `heard` is believed to
    /// be: gives it what may be under way for some seconds; returns how many frames stood in it at
    /// most in each.
    fn fly(radio: &mut Radio, from: Instant, seconds: u32, mbps: f64, heard: f64) -> Vec<usize> {
        let frame = Rate::from_mbps(mbps).transmission_time(limits::MAX_DATAGRAM);
        let way = Duration::from_millis(6);
        let (mut under_way, mut free_at) = (std::collections::VecDeque::new(), from);
        let mut most = vec![0; seconds as usize];
        for ms in 0..seconds * 1_000 {
            let now = from + Duration::from_millis(ms.into());
            let arrived = under_way.iter().take_while(|(_, at)| *at + way <= now).count();
            if let Some((sent, _)) = under_way.drain(..arrived).next_back() {
                radio.on_report(now, arrived, now.since(sent));
            }
            let mut ordered = 0;
            while under_way.len() < radio.window(heard) && ordered < 2 {
                if under_way.is_empty() {
                    radio.begin(now);
                }
                free_at = free_at.max(now) + frame;
                under_way.push_back((now, free_at));
                ordered += 1;
            }
            let second = (ms / 1_000) as usize;
            most[second] = most[second].max(under_way.len());
        }
        most
    }

    #[test]
    fn a_radio_that_carries_a_twentieth_holds_a_tenth_of_a_second_soon_after() {
        let mut radio = Radio::new(Rate::from_mbps(20.0));
        let before = fly(&mut radio, Instant::ZERO, 5, 22.0, 1.0);
        assert!(before.iter().all(|most| *most < 82), "{before:?}");
        assert_eq!(radio.limit(), Rate::from_mbps(20.0));
        let fall = fly(&mut radio, Instant::from_millis(5_000), 2, 1.1, 1.0);
        let thin = fly(&mut radio, Instant::from_millis(7_000), 8, 1.1, 0.05);
        // 11 ms each: what the radio had been given before the fall was known, and then 30 ms and
        // two frames, though what waits in it is taken for lost.
        assert!(fall[0] < 82 && thin.iter().all(|most| *most <= 14), "{fall:?} {thin:?}");
        let back = fly(&mut radio, Instant::from_millis(15_000), 5, 22.0, 1.0);
        assert!(back[2..].iter().all(|most| (10..82).contains(most)), "{back:?}");
        assert_eq!(radio.limit(), Rate::from_mbps(20.0));
    }

    #[test]
    fn what_is_hardly_heard_does_not_look_like_a_queue() {
        let mut radio = Radio::new(Rate::from_mbps(1.0));
        assert_eq!(radio.window(0.5), 2, "nothing is known yet");
        radio.on_report(Instant::from_millis(1_000), 2, Duration::from_millis(50));
        assert_eq!(radio.window(0.5), 4, "both came in time");
        radio.on_report(Instant::from_millis(1_050), 9, Duration::from_millis(50));
        assert!((325..340).contains(&radio.window(0.05)), "{}", radio.window(0.05));
        assert!((25..32).contains(&radio.window(1.0)), "{}", radio.window(1.0));
    }
}
