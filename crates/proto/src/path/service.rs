//! Which tiers each path serves now, by what the operator says of the paths [specs/paths.md §8].
//!
//! ```text
//! carries(p)   = what the operator says, and control where no path is said to carry it
//! serves(p, t) = p carries t, and, where p is a backup, no other path that carries t works for it
//! works for t  : active; for control besides: fewer answers are missing than call for a backup (`health.rs`)
//! rests(p)     : p serves nothing, so that it is heard of rarely
//! ```
//! A path of which nothing was said serves everything, and nothing here changes what it does.

use std::cell::Ref;
use std::ops::Deref;

use units::{Duration, Instant};

use super::{Carries, Path, PathSnapshot, PathUse, Paths, health};
use crate::event::PathState;
use crate::select::Tier;

/// How long a backup in reserve carries nothing before it is probed: 25 s, below the 30 s after which the
/// least patient translators forget a UDP flow. A probe of both ends costs 264 bytes with all headers, 38 kB
/// an hour.
pub(super) const RESERVE_PROBE: Duration = Duration::from_secs(25);

/// What is known of a path's use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    usage: PathUse,
    /// What of it the peer does not know yet: the number of the change, while it may not have arrived.
    untold: Option<u8>,
    /// How often the use has changed, modulo 256; at the responder, the newest change heard of.
    change: u8,
    carries: Carries,
    pub(super) serves: Carries,
    /// Whether a backup relies on being told when answers are missing here.
    is_watched: bool,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            usage: PathUse::default(),
            untold: None,
            change: 0,
            carries: Carries::ALL,
            serves: Carries::ALL,
            is_watched: false,
        }
    }
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
            self.probe_wanted |= matches!(self.state, PathState::Active | PathState::Suspected);
        }
    }

    /// Takes what the peer's operator says of it; what was said before something known already is old.
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

    /// Returns when so many answers will be missing that a backup has to carry control; none while no
    /// backup waits for that.
    pub(super) fn alarm_at(&self, now: Instant) -> Option<Instant> {
        let is_watched = self.service.is_watched && self.state == PathState::Active;
        let view = is_watched.then(|| self.health_view(now))?;
        health::alarm_at(&view, self.sent.unanswered())
    }

    /// Returns how long it may carry nothing before it is probed; zero never probes.
    pub(super) fn idle_probe(&self) -> Duration {
        match self.config.idle_probe {
            interval if self.rests() && !interval.is_zero() => interval.max(RESERVE_PROBE),
            interval => interval,
        }
    }

    /// Returns the least time between probes of a silent path, so that a backup which is not there costs
    /// little either: a second while it may come back, then what it costs when it is there.
    pub(super) fn least_silent_probe(&self, silent_for: Duration) -> Duration {
        match self.rests() {
            true if silent_for < Duration::from_secs(60) => Duration::from_secs(1),
            true => RESERVE_PROBE,
            false => Duration::ZERO,
        }
    }

    /// Tells whether it works as well as a tier asks: other paths of it may rest.
    fn works_for(&self, now: Instant, tier: Tier) -> bool {
        self.state == PathState::Active
            && (tier != Tier::Control || self.alarm_at(now).is_none_or(|at| at > now))
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
        let has_backup = self.iter().any(|path| path.service.usage.backup);
        for index in 0..self.len() {
            let is_watched = has_backup && !self[index].service.usage.backup;
            if self[index].service.is_watched != is_watched {
                self.receiving(index).service.is_watched = is_watched;
            }
        }
        let some_carries_control =
            self.iter().any(|path| path.service.usage.carries.has(Tier::Control));
        for index in 0..self.len() {
            let usage = self[index].service.usage;
            let carries = match some_carries_control {
                true => usage.carries,
                false => usage.carries.with(Tier::Control),
            };
            let works = |tier: Tier| {
                let others = self.iter().filter(|path| !path.service.usage.backup);
                let mut carrying = others.filter(|path| path.service.usage.carries.has(tier));
                carrying.any(|path| path.works_for(now, tier))
            };
            let is_called = |tier: &Tier| !usage.backup || !works(*tier);
            let serves = carries.tiers().filter(is_called).fold(Carries::NONE, Carries::with);
            let service = &self[index].service;
            if (service.carries, service.serves) != (carries, serves) {
                self.change_service(now, index, carries, serves);
            }
        }
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
        let all = self.snapshots(now);
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
            path.probe_wanted |= matches!(path.state, PathState::Active | PathState::Suspected);
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
