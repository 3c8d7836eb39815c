//! Which path brings a symbol first: symbols queued on a path that has become slow are sent again
//! on another, before the slow one has shown that they are lost.
//!
//! ```text
//! delay(p)   = until what leaves now on p arrives, by what the path's acknowledgements say of the
//!              peer's receptions and of the rate of the narrowest hop, or as long as its answer is
//!              overdue (`path/drain.rs`)
//! held up    : the symbol arrives later than now + delay(best) + 20 ms; or its answer is later
//!              than delay(p) at its departure + least rtt / 2 + 30 ms, and the best path is
//!              another
//! worth it   : delay(p) < delay(best) + least rtt(best): later, what is lost on the best one is
//!              there again sooner
//! reserve    ← min(reserve + 0.05, 64) per source symbol; one that is sent again by another path before
//!              it was given up takes one
//! ```
//! What comes back by the other path is no sign of life of this one: each symbol is judged by the
//! path that it was put on.
//!
//! Source: the idea of opportunistic retransmission in \[MPTCP\] and of reinjection in \[XLINK\],
//! which send again on a fast path what a slow one holds back. *Deviations*: 1. judged by the
//! one-way delay of each symbol, not by a window that is full or by what a player has left; 2. not
//! what repair symbols under way by other paths will recover; 3. bounded by what source symbols
//! have saved.

use smallvec::SmallVec;
use units::{Duration, Instant};

use crate::event::PathState;
use crate::ids::PathId;
use crate::path::PathSnapshot;
use crate::recovery::MAX_ACK_DELAY;

/// How much earlier another path must bring a symbol that is held up: two symbols of a thin link,
/// and more than the jitter of most.
const MARGIN: Duration = Duration::from_millis(20);
/// Symbols sent again early that a source symbol pays for …
const RESERVE: f64 = 0.05;
/// … and as many as are saved: what a fast stream has under way when a path falls.
const MOST_RESERVE: f64 = 64.0;

/// Says where a symbol was put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) path: PathId,
    sent_at: Instant,
    /// Behind so many bytes of the path.
    position: u64,
    /// When its answer is overdue.
    pub(super) late_at: Instant,
}

/// Shows how long a packet takes by one path.
#[derive(Clone, Copy, Debug)]
struct Way {
    path: PathSnapshot,
    /// What is sent now arrives after this.
    delay: Duration,
    /// The same where silence is taken for loss: what is lost in a burst ends it sooner.
    unless_silent: Duration,
}

/// Knows how long each path takes.
#[derive(Clone, Debug)]
pub(super) struct Detours {
    ways: SmallVec<[Way; 4]>,
    /// The place of the one among them that works and brings what leaves now first.
    best: Option<usize>,
    reserve: f64,
}

impl Default for Detours {
    fn default() -> Self {
        // Half of what can be saved is there at the start.
        Self { ways: SmallVec::new(), best: None, reserve: MOST_RESERVE / 2.0 }
    }
}

impl Detours {
    /// Notes what is known of the paths now.
    pub(super) fn follow(&mut self, now: Instant, paths: &[PathSnapshot]) {
        let way = |path: &PathSnapshot| {
            let unless_silent = path.arrival(now, path.bytes_sent).since(now);
            Way { path: *path, delay: unless_silent.max(path.silence()), unless_silent }
        };
        self.ways.clear();
        self.ways.extend(paths.iter().filter(|path| path.is_worth_symbols(now)).map(way));
        let all = self.ways.iter().enumerate();
        let active = all.filter(|(_, way)| way.path.state == PathState::Active);
        let best = active.min_by_key(|(_, way)| (way.delay, way.path.id));
        self.best = best.map(|(place, _)| place);
    }

    /// Earns what a source symbol saves.
    pub(super) fn on_source(&mut self) {
        self.reserve = (self.reserve + RESERVE).min(MOST_RESERVE);
    }

    /// Returns where a symbol is that leaves now on `path`.
    pub(super) fn place(&self, now: Instant, path: &PathSnapshot) -> Place {
        let position = path.bytes_sent;
        let answer = path.expected_delay(now) + path.least_rtt() / 2;
        Place {
            path: path.id,
            sent_at: now,
            position,
            late_at: now + answer + MAX_ACK_DELAY + MARGIN,
        }
    }

    /// Returns the path that brings a symbol earlier than where it is, by enough to be sent again.
    pub(super) fn around(&self, now: Instant, place: &Place) -> Option<PathId> {
        let best = self.best().filter(|best| best.path.id != place.path)?;
        let Some(way) = self.way(place.path) else { return Some(best.path.id) };
        let arrives = way.path.arrival(place.sent_at, place.position);
        let held_up = arrives > now + best.delay + MARGIN;
        let overdue = place.late_at <= now && best.delay < way.delay;
        (held_up || overdue).then_some(best.path.id)
    }

    /// Tells whether a copy on `path` may arrive before one that is lost on the best path is there
    /// again. Silence is taken for loss where `lossy`, for a queue elsewhere.
    pub(super) fn is_worth(&self, path: PathId, lossy: bool) -> bool {
        self.best().is_none_or(|best| self.repairs_in_time(best.path.id, path, lossy))
    }

    /// Tells whether `path` brings something before what is lost on `source` is there again.
    pub(super) fn repairs_in_time(&self, source: PathId, path: PathId, lossy: bool) -> bool {
        let (Some(source), Some(way)) = (self.way(source), self.way(path)) else { return true };
        let delay = |way: &Way| if lossy { way.unless_silent } else { way.delay };
        delay(way) < delay(source) + source.path.least_rtt()
    }

    /// Tells whether `path` delivers no later than `other`.
    pub(super) fn is_no_later(&self, path: PathId, other: PathId) -> bool {
        self.way(path).zip(self.way(other)).is_none_or(|(way, other)| way.delay <= other.delay)
    }

    /// Tells whether a symbol may be sent again early.
    pub(super) fn may_hasten(&self) -> bool {
        self.ways.len() > 1 && self.reserve >= 1.0
    }

    /// Pays for a symbol sent again early.
    pub(super) fn pay(&mut self) {
        self.reserve = (self.reserve - 1.0).max(0.0);
    }

    fn way(&self, path: PathId) -> Option<&Way> {
        self.ways.iter().find(|way| way.path.id == path)
    }

    fn best(&self) -> Option<&Way> {
        self.best.map(|place| &self.ways[place])
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::congestion::CongestionKind;
    use crate::ids::InterfaceId;
    use crate::path::{Drain, Path, PathConfig, ProtectControl, Route};
    use crate::via::Via;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000 + ms)
    }

    /// A path of 60 ms whose newest known packet stood for `queue_ms` and was sent at 0.
    fn path(id: u8, queue_ms: u64) -> PathSnapshot {
        let remote = Via::Udp(([192, 0, 2, 1], 1).into());
        let route = Route { interface: InterfaceId(0), local: None, remote };
        let config = PathConfig {
            congestion: CongestionKind::default(),
            initiator: true,
            idle_probe: Duration::ZERO,
            protect_control: ProtectControl::Off,
        };
        let snapshot = Path::new(at(0), PathId(id), route, config, 0).snapshot(at(0), 0);
        let rate = (queue_ms > 0).then_some(Rate::from_mbps(0.8));
        let queue = Duration::from_millis(queue_ms);
        let drain = Drain { sent_at: at(0), queue, rate, ..Drain::default() };
        let least = Some(Duration::from_millis(60));
        PathSnapshot { state: PathState::Active, srtt: least, min_rtt: least, drain, ..snapshot }
    }

    #[test]
    fn a_symbol_goes_around_a_path_that_holds_it_up_and_around_one_that_does_not_answer() {
        let (slow, quick) = (path(0, 90), path(1, 0));
        let mut detours = Detours::default();
        detours.follow(at(0), &[slow, quick]);
        let place = detours.place(at(5), &slow);
        assert_eq!(detours.around(at(65), &place), Some(PathId(1)), "here at 120, there at 95");
        assert_eq!(detours.around(at(75), &place), None, "15 ms are not worth it");
        let placed = detours.place(at(5), &quick);
        assert_eq!(detours.around(at(65), &placed), None, "it is on the best one");
        let mut silent = quick;
        silent.drain.overdue = Duration::from_millis(500);
        detours.follow(at(105), &[path(0, 0), silent]);
        assert_eq!(detours.around(at(90), &placed), None, "its answer is not late enough");
        assert_eq!(detours.around(at(105), &placed), Some(PathId(0)));
    }

    #[test]
    fn repair_goes_where_it_is_in_time_and_silence_is_loss_where_losses_come_in_bursts() {
        let mut detours = Detours::default();
        let mut silent = path(1, 0);
        silent.drain.overdue = Duration::from_millis(500);
        detours.follow(at(0), &[path(0, 0), silent, path(2, 90)]);
        let [first, silent, slow] = [0, 1, 2].map(PathId);
        assert!(detours.repairs_in_time(first, silent, true));
        assert!(!detours.repairs_in_time(first, silent, false));
        assert!(!detours.repairs_in_time(first, slow, true));
    }

    #[test]
    fn what_is_sent_early_is_paid_for() {
        let mut detours = Detours::default();
        detours.follow(at(0), &[path(0, 0), path(1, 0)]);
        let mut early = 0;
        while detours.may_hasten() {
            detours.pay();
            early += 1;
        }
        assert_eq!(early, 32);
        for _ in 0..10_000 {
            detours.on_source();
        }
        assert!((detours.reserve - MOST_RESERVE).abs() < 1e-9);
        detours.follow(at(0), &[path(0, 0)]);
        assert!(!detours.may_hasten(), "there is no way around");
    }
}
