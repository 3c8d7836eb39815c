//! What the tunnel's forms know of the paths.

use smallvec::SmallVec;
use units::{Duration, Instant, Rate};

use super::repair::Lossy;
use crate::event::PathState;
use crate::ids::PathId;
use crate::path::{Path, Paths};
use crate::select::Tier;
use crate::wire::DATA_OVERHEAD;

/// For how long a path that fell silent counts as one that may come back: most gaps of a radio in
/// flight, a turn behind a hill or a handover, are shorter.
const MAY_COME_BACK: Duration = Duration::from_secs(30);

/// The paths that work, together.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    /// Which they are.
    pub(super) active: SmallVec<[PathId; 4]>,
    /// Bytes of frames in the longest datagram that one of them carries, be it in pieces.
    pub(super) longest: usize,
    /// How each of them loses.
    pub(super) lossy: SmallVec<[Lossy; 4]>,
    /// What all of them carry.
    pub(super) rate: Rate,
    /// What those carried that have fallen silent and may come back.
    pub(super) silent: Rate,
    /// One of them carries less for a moment, on purpose.
    pub(super) runs_dry: bool,
    /// All of them were filled once: it is what they carry.
    pub(super) is_known: bool,
    /// The largest of their least round-trip times, and the least of these.
    pub(super) least_rtt: Duration,
    pub(super) fastest_rtt: Duration,
    /// The largest of their smoothed round-trip times; none where none works.
    pub(super) slowest: Option<Duration>,
    /// The same for what is missing: relays repair it below, and take their time where they hear
    /// little.
    pub(super) awaited: Option<Duration>,
}

impl Ways {
    /// Looks at all paths that serve bulk.
    pub(super) fn new(now: Instant, paths: &Paths) -> Self {
        let mut ways = Self { is_known: true, ..Self::default() };
        let (mut longest, mut fastest_rtt) = (0, None);
        for path in paths.active_for(Tier::Bulk) {
            let (least_rtt, lossy) = (path.least_rtt(), lossy(path));
            ways.active.push(path.id());
            ways.lossy.push(lossy);
            longest = path.longest_datagram().max(longest);
            ways.rate = together(ways.rate, lossy.rate);
            ways.runs_dry |= path.runs_dry();
            ways.is_known &= path.was_filled();
            ways.least_rtt = ways.least_rtt.max(least_rtt);
            fastest_rtt = fastest_rtt.into_iter().chain([least_rtt]).min();
            ways.slowest = ways.slowest.max(Some(path.srtt_or_initial()));
            ways.awaited = ways.awaited.max(Some(path.awaited()));
        }
        let silent = paths.serving(Tier::Bulk).filter(|path| may_come_back(now, path));
        ways.silent = silent.map(Path::send_rate).fold(Rate::ZERO, together);
        ways.longest = longest.saturating_sub(DATA_OVERHEAD);
        ways.fastest_rtt = fastest_rtt.unwrap_or_default();
        ways
    }

    /// One that carries so much, and has done so before; none that works where it carries nothing.
    pub(super) fn alone(rate: Option<Rate>, least_rtt: Duration) -> Self {
        let active = rate.iter().map(|_| PathId(0)).collect();
        Self {
            active,
            rate: rate.unwrap_or_default(),
            is_known: true,
            least_rtt,
            ..Self::default()
        }
    }

    /// So many paths that work and carry so much together.
    #[cfg(any(test, fuzzing, feature = "doors"))]
    pub(super) fn test(paths: u8, mbps: f64) -> Self {
        let active = (0..paths).map(PathId).collect();
        Self { active, rate: Rate::from_mbps(mbps), is_known: true, ..Self::default() }
    }
}

/// Returns what two carry together. Without congestion control a path's rate has no end.
fn together(one: Rate, other: Rate) -> Rate {
    Rate::from_bps(one.as_bps().saturating_add(other.as_bps()))
}

fn may_come_back(now: Instant, path: &Path) -> bool {
    let heard = path.last_received_at().is_some_and(|at| now.since(at) < MAY_COME_BACK);
    path.state() == PathState::Suspected && heard && path.was_filled()
}

fn lossy(path: &Path) -> Lossy {
    Lossy { rate: path.send_rate(), loss: path.loss(), rtt: path.srtt_or_initial() }
}
