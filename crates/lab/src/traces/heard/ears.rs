//! Which of the datagrams that a node hears go into its log, and counts of those that do not.
//!
//! A radio is open to everybody: whatever comes in, what is written down and what is remembered
//! have a bound. A start of a transmitter (its name and boot) is known from its first frame on. Its
//! later ones lie where its clock and ours have got to since, and each comes once: a log grows by a
//! line for each slot and transmitter, however much is sent.

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

use super::frame::Frame;

/// The most starts of transmitters that are known at a time: sixteen hosts of a radio, restarted
/// three times each.
pub(super) const STARTS_MAX: usize = 64;
/// How far a frame may lie from where its transmitter's clock has got to: what radios and kernels
/// hold back.
const LATE: Duration = Duration::from_secs(5);
/// And beside that by how much clocks may differ in speed: a thousandth is ten times what bad ones
/// do.
const SKEW: u32 = 1_000;
/// But no more than this, after a day: what is remembered has a bound.
const SKEW_MAX: Duration = Duration::from_secs(90);

/// What a node has heard so far.
#[derive(Debug)]
pub(super) struct Ears {
    name: String,
    boot: u64,
    slot_ns: u64,
    starts: BTreeMap<(String, u64), Start>,
    /// How many frames of each transmitter were written down.
    heard: BTreeMap<String, u64>,
    /// Frames that were not, by reason.
    refused: BTreeMap<Reason, u64>,
}

/// A transmitter since its start.
#[derive(Debug)]
struct Start {
    first: (Instant, u64),
    /// What was heard of where its clock may be now: a forged frame ahead of it must not hide the
    /// true ones.
    seen: BTreeSet<u64>,
}

/// Why a datagram is not written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Not a frame of `trace record`.
    NoFrame,
    /// Another node has our name.
    OurName,
    /// The transmitter has slots of another length.
    OtherSlots,
    /// It was heard already.
    Repeated,
    /// It is not from where its transmitter's clock has got to.
    OutOfTime,
    /// More starts of transmitters than a node knows.
    TooMany,
}

impl Reason {
    /// Says it in the plural.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::NoFrame => "no frames of trace record",
            Self::OurName => "of another node with our name",
            Self::OtherSlots => "of nodes with other slots",
            Self::Repeated => "heard already",
            Self::OutOfTime => "from slots far from those before",
            Self::TooMany => "of more transmitters than a log knows",
        }
    }
}

impl Ears {
    pub(super) fn new(name: &str, boot: u64, slot_ns: u64) -> Self {
        Self {
            name: name.to_owned(),
            boot,
            slot_ns,
            starts: BTreeMap::new(),
            heard: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Our transmitter has begun anew.
    pub(super) fn restarted(&mut self, boot: u64) {
        self.boot = boot;
    }

    /// Judges a datagram; returns the frame that is to be written down, or `Err` with what is to be
    /// told of one that is not: something the first time that it happens, nothing later and of our
    /// own.
    pub(super) fn hear(&mut self, now: Instant, bytes: &[u8]) -> Result<Frame, Option<String>> {
        let Some(frame) = Frame::parse(bytes) else {
            return Err(self.refuse(Reason::NoFrame, None));
        };
        if frame.sender == self.name {
            // The kernel gives us our own broadcasts too.
            let own = frame.boot == self.boot;
            return Err(if own { None } else { self.refuse(Reason::OurName, Some(&frame)) });
        }
        if frame.slot_ns != self.slot_ns {
            return Err(self.refuse(Reason::OtherSlots, Some(&frame)));
        }
        match self.place(now, &frame) {
            Ok(()) => {
                *self.heard.entry(frame.sender.clone()).or_default() += 1;
                Ok(frame)
            }
            Err(reason) => Err(self.refuse(reason, Some(&frame))),
        }
    }

    /// Returns how many frames were heard of each transmitter.
    pub(super) fn heard(&self) -> &BTreeMap<String, u64> {
        &self.heard
    }

    /// Returns what was not written down, by reason.
    pub(super) fn refused(&self) -> &BTreeMap<Reason, u64> {
        &self.refused
    }

    fn place(&mut self, now: Instant, frame: &Frame) -> Result<(), Reason> {
        let key = (frame.sender.clone(), frame.boot);
        let known = self.starts.len();
        let Some(start) = self.starts.get_mut(&key) else {
            if known >= STARTS_MAX {
                return Err(Reason::TooMany);
            }
            let start = Start { first: (now, frame.slot), seen: BTreeSet::from([frame.slot]) };
            self.starts.insert(key, start);
            return Ok(());
        };
        let since = now.since(start.first.0);
        let expected = start.first.1.saturating_add(since.as_nanos() / self.slot_ns);
        // A slot more, as the first frame lay somewhere in its slot.
        let tolerated = (LATE + (since / SKEW).min(SKEW_MAX)).as_nanos() / self.slot_ns + 1;
        if expected.abs_diff(frame.slot) > tolerated {
            return Err(Reason::OutOfTime);
        }
        start
            .mark(frame.slot, expected.saturating_sub(tolerated))
            .then_some(())
            .ok_or(Reason::Repeated)
    }

    fn refuse(&mut self, reason: Reason, frame: Option<&Frame>) -> Option<String> {
        let count = self.refused.entry(reason).or_default();
        *count += 1;
        if *count > 1 {
            return None;
        }
        let sender = frame.map_or("", |frame| frame.sender.as_str());
        Some(match reason {
            Reason::NoFrame | Reason::Repeated => return None,
            Reason::OurName => format!("another node is called {sender} too: say another --node"),
            Reason::OtherSlots => {
                let ms = frame.map_or(0.0, |frame| frame.slot_ns as f64 / 1e6);
                format!("{sender} has slots of {ms} ms: give all nodes the same --rate-mbps")
            }
            Reason::OutOfTime => {
                format!("a frame of {sender} is not from where its clock has got to: left out")
            }
            Reason::TooMany => {
                format!("{sender} is left out: a log knows {STARTS_MAX} starts of transmitters")
            }
        })
    }
}

impl Start {
    /// Notes a slot, and forgets those before `from`; false when it was noted before.
    fn mark(&mut self, slot: u64, from: u64) -> bool {
        while self.seen.first().is_some_and(|first| *first < from) {
            self.seen.pop_first();
        }
        self.seen.insert(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_NS: u64 = 10_000_000;

    fn frame(sender: &str, boot: u64, slot: u64) -> Vec<u8> {
        Frame { sender: sender.to_owned(), boot, slot, slot_ns: SLOT_NS }.to_bytes().to_vec()
    }

    fn ears() -> Ears {
        Ears::new("r1", 1, SLOT_NS)
    }

    #[test]
    fn a_frame_is_written_once_even_when_frames_overtake_each_other() {
        let mut ears = ears();
        let mut writes = |slot| ears.hear(Instant::ZERO, &frame("m1", 5, slot)).is_ok();
        assert_eq!(
            [100, 102, 101, 101, 102, 100].map(&mut writes),
            [true, true, true, false, false, false]
        );
        assert!(writes(99) && !writes(99), "one that the first one overtook");
        assert_eq!((ears.heard()["m1"], ears.refused()[&Reason::Repeated]), (4, 4));
    }

    #[test]
    fn a_forged_frame_ahead_of_a_transmitter_hides_none_of_its_own() {
        let mut ears = ears();
        let mut written = 0;
        for slot in 0..3_000 {
            let now = Instant::from_millis(slot * 10);
            // Almost as far ahead as is tolerated.
            if slot % 100 == 50 {
                let _ = ears.hear(now, &frame("m1", 5, 10_000 + slot + 480));
            }
            written += u64::from(ears.hear(now, &frame("m1", 5, 10_000 + slot)).is_ok());
        }
        // But for those that were forged before they were sent.
        assert_eq!(written, 3_000 - 25);
    }

    #[test]
    fn frames_that_do_not_fit_in_are_refused_by_reason_and_told_once() {
        let mut ears = ears();
        assert_eq!(ears.hear(Instant::ZERO, &frame("r1", 1, 5)), Err(None), "our own");
        let told = ears.hear(Instant::ZERO, &frame("r1", 2, 5)).unwrap_err().unwrap_or_default();
        assert_eq!(told, "another node is called r1 too: say another --node");
        let other = Frame { sender: "m2".to_owned(), boot: 1, slot: 1, slot_ns: 5_000_000 };
        let told = ears.hear(Instant::ZERO, &other.to_bytes()).unwrap_err().unwrap_or_default();
        assert_eq!(told, "m2 has slots of 5 ms: give all nodes the same --rate-mbps");
        assert_eq!(ears.hear(Instant::ZERO, &other.to_bytes()), Err(None));
        assert_eq!(ears.hear(Instant::ZERO, b"noise"), Err(None));
        let reasons: Vec<_> = ears.refused().iter().map(|(reason, n)| (*reason, *n)).collect();
        let expected = [(Reason::NoFrame, 1), (Reason::OurName, 1), (Reason::OtherSlots, 2)];
        assert_eq!((reasons, ears.heard().len()), (expected.to_vec(), 0));
    }

    #[test]
    fn a_log_grows_by_what_the_clock_allows_however_much_is_sent() {
        let mut ears = ears();
        let mut written = 0;
        // Ten seconds of a flood that takes every number there is, in steps of its own choice.
        for step in 0..200_000_u64 {
            let now = Instant::from_micros(step * 50);
            let slot = [step, step * 3, u64::MAX - step, 1 << 40][step as usize % 4];
            written += u64::from(ears.hear(now, &frame("m1", 5, slot)).is_ok());
        }
        // As long as the flood, and as far ahead of the clock as is tolerated.
        assert!(written <= 1_000 + 500 + 2, "{written}");
        // One frame of each of many starts, after which there are no more.
        let begun =
            (10..1_010).filter(|boot| ears.hear(Instant::ZERO, &frame("m1", *boot, 7)).is_ok());
        assert_eq!(begun.count(), STARTS_MAX - 1);
        assert!(ears.starts.len() == STARTS_MAX && ears.heard.len() <= STARTS_MAX);
    }

    #[test]
    fn a_transmitter_goes_on_after_hours_of_silence_and_of_clocks_that_differ() {
        let mut ears = ears();
        let hours = |hours: f64| Instant::ZERO + Duration::from_secs_f64(hours * 3_600.0);
        assert!(ears.hear(hours(0.0), &frame("m1", 5, 1_000)).is_ok());
        // 100 ppm too fast, and 3 s late.
        let slot = 1_000 + (8.0 * 3_600.0 * 1.000_1 * 100.0) as u64 - 300;
        assert!(ears.hear(hours(8.0), &frame("m1", 5, slot)).is_ok());
        assert!(ears.hear(hours(8.0), &frame("m1", 5, slot + 10_000)).is_err());
        assert!(
            ears.hear(hours(8.0), &frame("m1", 6, 3)).is_ok(),
            "begun anew, with another clock"
        );
    }
}
