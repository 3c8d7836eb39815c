//! Which tiers each path serves now, by what the operator says of the paths [specs/paths.md §8].
//!
//! ```text
//! carries(p)   = what the operator says, and control where no path is said to carry it
//! serves(p, t) = p carries t, and, where p is a backup, none of those before it that carry t works
//!                for it: paths that are no backups, then backups that cost less
//! works for t  : active; for control besides: fewer answers are missing than call for a backup,
//!                none is later than control may be (`health.rs`, `answers.rs`), and its socket is
//!                not full for that long
//! rests(p)     : p serves nothing, so that it is heard of rarely
//! ```
//! Where nothing was said of any path, each serves everything.

use std::cell::Ref;
use std::ops::Deref;

use smallvec::SmallVec;
use units::{Duration, Instant};

use super::answers::CALL_OVER;
use super::{Carries, Cost, HealthView, Path, PathSnapshot, PathUse, Paths, health};
use crate::event::{Call, PathState};
use crate::ids::PathId;
use crate::limits;
use crate::recovery::MAX_ACK_DELAY;
use crate::select::Tier;

/// How long a backup in reserve carries nothing before it is probed: 25 s, below the 30 s after
/// which the least patient translators forget a UDP flow. A probe of both ends costs 264 bytes with
/// all headers, 38 kB an hour.
pub(super) const RESERVE_PROBE: Duration = Duration::from_secs(25);

/// What is known of a path's use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Service {
    usage: PathUse,
    /// What of it the peer does not know yet: the number of the change, while it may not have
    /// arrived.
    untold: Option<u8>,
    /// How often the use has changed, modulo 256; at the responder, the newest change heard of.
    change: u8,
    carries: Carries,
    pub(super) serves: Carries,
    /// Whether a backup relies on being told when answers are missing here.
    is_watched: bool,
    /// Since when its socket has been full.
    full_since: Option<Instant>,
    /// What a backup serves something for.
    call: Option<Call>,
    /// Whether it was said that it does, and since when it has rested again.
    is_said: bool,
    rests_since: Option<Instant>,
}

impl Path {
    /// Returns what the operator says of it.
    pub(crate) fn usage(&self) -> PathUse {
        self.service.usage
    }

    /// Returns what it may carry, now or when it is called for.
    pub(crate) fn carries(&self) -> Carries {
        self.service.carries
    }

    /// Tells whether what is of a tier goes there now.
    pub(crate) fn serves(&self, tier: Tier) -> bool {
        self.service.serves.has(tier)
    }

    /// Returns what goes there now, if anything does.
    pub(super) fn serving(&self) -> Option<Carries> {
        Carries::new(self.service.serves.tiers())
    }

    /// Returns what a backup serves something for.
    pub(super) fn call(&self) -> Option<Call> {
        self.service.call
    }

    /// Tells whether it is in reserve, so that nothing goes there but what keeps it open.
    pub(crate) fn rests(&self) -> bool {
        self.service.serves == Carries::NONE
    }

    /// Takes what the operator says of it; the peer is to be told, and soon.
    pub(crate) fn set_usage(&mut self, usage: PathUse) {
        if self.service.usage != usage {
            self.service.usage = usage;
            self.service.change = self.service.change.wrapping_add(1);
            self.service.untold = Some(self.service.change);
            self.probes.wanted |=
                matches!(self.health.state, PathState::Active | PathState::Suspected);
        }
    }

    /// Takes what the peer's operator says of it; what was said before something known already is
    /// old.
    pub(crate) fn on_usage(&mut self, change: u8, usage: PathUse) {
        let is_newer = change.wrapping_sub(self.service.change) <= u8::MAX / 2;
        if is_newer {
            (self.service.change, self.service.usage) = (change, usage);
        }
    }

    /// Returns what the peer may not know yet, with the number of the change.
    pub(crate) fn untold_usage(&self) -> Option<(u8, PathUse)> {
        self.service.untold.map(|change| (change, self.service.usage))
    }

    /// Notes that the peer knows of a change; later ones are still to be told.
    pub(crate) fn on_usage_told(&mut self, change: u8) {
        self.service.untold.take_if(|untold| *untold == change);
    }

    /// Returns when a backup has to carry control unless there is an answer, and what for; none
    /// while no backup waits for that.
    pub(super) fn alarm_at(&self, now: Instant) -> Option<(Instant, Call)> {
        let is_watched = self.service.is_watched && self.health.state == PathState::Active;
        let view = is_watched.then(|| self.health_view(now))?;
        // How long a slow hop may hold an answer back is seen in what is usual, once there were
        // answers.
        let held = self.control_held();
        // A path that was called knows little of its variation, and the next one costs no more than
        // its bytes.
        let most = if self.service.usage.backup { view.srtt / 8 } else { view.rttvar };
        let rttvar = view.rttvar.min(most);
        let ack_delay = held.max(MAX_ACK_DELAY);
        let view = HealthView { control_ack_delay: held, ack_delay, rttvar, ..view };
        let missing = health::alarm_at(&view, self.sent.unanswered());
        let oldest = self.sent.unanswered().next();
        let late = oldest.map(|packet| packet.sent_at + self.health.answers.bound() + held);
        let full = self.service.full_since.map(|since| since + view.overdue_after(false));
        let at = [(missing, Call::Silent), (late, Call::Slow), (full, Call::Full)];
        at.into_iter().filter_map(|(at, call)| at.zip(Some(call))).min_by_key(|(at, _)| *at)
    }

    /// Returns how long an answer may take by what is usual, where a backup relies on it.
    pub(super) fn usual_answer(&self, srtt: Duration) -> Duration {
        if self.service.is_watched { self.health.answers.patience(srtt) } else { Duration::ZERO }
    }

    /// Returns how long it may carry nothing before it is probed; zero never probes.
    pub(super) fn idle_probe(&self) -> Duration {
        match self.config.idle_probe {
            interval if self.rests() && !interval.is_zero() => interval.max(RESERVE_PROBE),
            interval => interval,
        }
    }

    /// Returns the least time between probes of a silent path, so that a backup which is not there
    /// costs little either: a second while it may come back, then what it costs when it is there.
    pub(super) fn least_silent_probe(&self, silent_for: Duration) -> Duration {
        match self.rests() {
            true if silent_for < Duration::from_secs(60) => limits::LONGEST_SIGN_OF_LIFE,
            true => RESERVE_PROBE,
            false => Duration::ZERO,
        }
    }

    /// Returns why it does not work as well as a tier asks; none where it does, so that others may
    /// rest.
    fn trouble(&self, now: Instant, tier: Tier) -> Option<Call> {
        if self.health.state != PathState::Active {
            return Some(Call::Down);
        }
        let control = tier == Tier::Control && self.service.is_watched;
        if control && self.health.answers.is_slow(now) {
            return Some(Call::Slow);
        }
        let (at, call) = self.alarm_at(now).filter(|_| control)?;
        (at <= now).then_some(call)
    }

    /// Tells whether what it serves is news: that it is called, or has rested for a while.
    fn take_call_news(&mut self, now: Instant) -> bool {
        let rests = self.service.call.is_none();
        let since = rests.then(|| *self.service.rests_since.get_or_insert(now));
        self.service.rests_since = since;
        let is_news = match since {
            Some(since) => self.service.is_said && now.since(since) >= CALL_OVER,
            None => !self.service.is_said,
        };
        self.service.is_said ^= is_news;
        is_news
    }

    /// Returns where it stands among those of which the first that works serves: by what it costs,
    /// where it is a backup.
    fn place_in_reserve(&self) -> (bool, Cost, PathId) {
        let PathUse { backup, cost, .. } = self.service.usage;
        (backup, if backup { cost } else { Cost::default() }, self.id)
    }

    fn is_limited(&self) -> bool {
        self.service.usage.backup || self.service.usage.carries != Carries::ALL
    }
}

impl Paths {
    /// Finds out what each path serves now.
    pub(crate) fn assign(&mut self, now: Instant) {
        let are_limited = self.iter().any(Path::is_limited);
        if !std::mem::replace(&mut self.are_limited, are_limited) && !are_limited {
            return;
        }
        let some_carries_control =
            self.iter().any(|path| path.service.usage.carries.has(Tier::Control));
        let mut order: SmallVec<[usize; 4]> = (0..self.len()).collect();
        order.sort_by_key(|&index| self[index].place_in_reserve());
        // Why none of those before works, for each tier.
        let mut calls = [Some(Call::Alone); Carries::TIERS.len()];
        for place in 0..order.len() {
            let index = order[place];
            let usage = self[index].service.usage;
            let carries = match some_carries_control {
                true => usage.carries,
                false => usage.carries.with(Tier::Control),
            };
            let call = |tier: &Tier| calls[*tier as usize].filter(|_| usage.backup);
            let is_served = |tier: &Tier| !usage.backup || call(tier).is_some();
            let serves = carries.tiers().filter(is_served).fold(Carries::NONE, Carries::with);
            let call = carries.tiers().find_map(|tier| call(&tier));
            let may_help = usage.backup && self.target_calls && carries.has(Tier::Control);
            let call = call.or(may_help.then_some(Call::Target));
            let is_followed =
                order[place + 1..].iter().any(|&later| self[later].service.usage.backup);
            let is_full = self.is_blocked(&self[index]);
            let service = &self[index].service;
            let full_since = is_full.then(|| service.full_since.unwrap_or(now));
            let is_watched = is_followed && serves != Carries::NONE;
            if (service.is_watched, service.full_since, service.call)
                != (is_watched, full_since, call)
            {
                let service = &mut self.receiving(index).service;
                (service.is_watched, service.full_since) = (is_watched, full_since);
                service.call = call;
            }
            let service = &self[index].service;
            if (service.carries, service.serves) != (carries, serves) {
                self.change_service(now, index, carries, serves);
            }
            for tier in carries.tiers() {
                let before = &mut calls[tier as usize];
                let trouble = before.and_then(|_| self[index].trouble(now, tier));
                *before = if *before == Some(Call::Alone) { trouble } else { before.and(trouble) };
            }
            let may_be_news = usage.backup || self[index].service.is_said;
            if may_be_news && self.receiving(index).take_call_news(now) {
                let path = &self[index];
                self.call_news.push((path.id, path.service.call));
            }
        }
    }

    /// Notes whether a target needs backups that nothing else calls for: its plans name them, and
    /// what they serve stays the same.
    pub(crate) fn set_target_calls(&mut self, calls: bool) {
        self.target_calls = calls;
    }

    /// Lists the backups that are called, and those that have been let go.
    pub(crate) fn take_call_news(&mut self) -> Vec<(PathId, Option<Call>)> {
        std::mem::take(&mut self.call_news)
    }

    /// Lists the paths that serve a tier.
    pub(crate) fn serving(&self, tier: Tier) -> impl Iterator<Item = &Path> {
        self.iter().filter(move |path| path.serves(tier))
    }

    /// Lists the paths that work and serve a tier.
    pub(crate) fn active_for(&self, tier: Tier) -> impl Iterator<Item = &Path> {
        self.active().filter(move |path| path.serves(tier))
    }

    /// Shows the paths that serve a tier; one that is blocked has room for nothing.
    pub(crate) fn shown_for(&self, now: Instant, tier: Tier) -> Shown<'_> {
        self.serving_of(self.snapshots(now), tier)
    }

    /// The same for each of some tiers.
    pub(crate) fn shown_for_each<const N: usize>(
        &self,
        now: Instant,
        tiers: [Tier; N],
    ) -> [Shown<'_>; N] {
        let all = self.snapshots(now);
        tiers.map(|tier| self.serving_of(Ref::clone(&all), tier))
    }

    fn serving_of<'a>(&self, all: Ref<'a, [PathSnapshot]>, tier: Tier) -> Shown<'a> {
        if !self.are_limited {
            return Shown::All(all);
        }
        let serves = |shown: &&PathSnapshot| shown.serves.has(tier);
        Shown::Some(all.iter().filter(serves).copied().collect())
    }

    fn change_service(&mut self, now: Instant, index: usize, carries: Carries, serves: Carries) {
        let path = &mut self[index];
        let rested = path.rests();
        (path.service.carries, path.service.serves) = (carries, serves);
        if rested {
            // What was heard of it last may be old, or it may be back by now.
            path.probes.wanted |=
                matches!(path.health.state, PathState::Active | PathState::Suspected);
            path.address.hurry(now);
        }
    }
}

/// The paths that serve a tier, as schedulers see them.
#[derive(Debug)]
pub(crate) enum Shown<'a> {
    /// All there are.
    All(Ref<'a, [PathSnapshot]>),
    /// Not all.
    Some(Vec<PathSnapshot>),
}

impl Deref for Shown<'_> {
    type Target = [PathSnapshot];

    fn deref(&self) -> &[PathSnapshot] {
        match self {
            Self::All(all) => all,
            Self::Some(some) => some,
        }
    }
}
