//! What the operator of a swarm's run says of the drone's links: what each may carry, which is a
//! backup, and when that changes.

use core::fmt;

use proto::{Carries, Cost, PathUse};
use units::{Duration, Instant, Rng};

use super::draw::log_uniform;

/// The share of runs in which anything is said.
const SHARE: f64 = 0.3;
/// The share of the links of which something is said then.
const LINKS_SHARE: f64 = 0.6;
/// The share of those of which something else is said later.
const CHANGES_SHARE: f64 = 0.4;

/// What is said of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// The link's number.
    pub(super) link: usize,
    /// When it is said: before the drone starts, or while it flies.
    pub(super) at: Instant,
    /// What.
    pub(super) usage: PathUse,
}

/// Draws what is said of so many links, in the order of time, in a run in which applications send
/// for `traffic`.
pub(super) fn draw(seed: u64, links: usize, traffic: Duration) -> Vec<Use> {
    if !Rng::stream(seed, "uses").chance(SHARE) {
        return Vec::new();
    }
    let mut uses = Vec::new();
    for link in 0..links {
        let mut rng = Rng::stream(seed, &format!("use {link}"));
        if !rng.chance(LINKS_SHARE) {
            continue;
        }
        uses.push(Use { link, at: Instant::ZERO, usage: draw_usage(&mut rng) });
        if rng.chance(CHANGES_SHARE) {
            let part = rng.below(1_000) as f64 / 1e3;
            let at = Instant::ZERO + traffic.mul_f64(part);
            uses.push(Use { link, at, usage: draw_usage(&mut rng) });
        }
    }
    uses.sort_by_key(|said| said.at);
    uses
}

fn draw_usage(rng: &mut Rng) -> PathUse {
    let tiers = Carries::TIERS.into_iter().filter(|_| rng.chance(0.7)).collect::<Vec<_>>();
    let cost = Cost::new(log_uniform(rng, Cost::LEAST, Cost::MOST));
    PathUse {
        cost: cost.unwrap_or_default(),
        backup: rng.chance(0.4),
        carries: Carries::new(tiers).unwrap_or_default(),
    }
}

impl Use {
    /// Tells whether it is said before the drone starts for the first time.
    pub(super) fn is_first(&self) -> bool {
        self.at == Instant::ZERO
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathUse { cost, backup, carries } = self.usage;
        let tiers: Vec<_> = carries.tiers().collect();
        let backup = if backup { ", a backup" } else { "" };
        let at = self.at.as_secs_f64();
        write!(f, "link{} from {at:.3} s on: {tiers:?}{backup}, costs {}", self.link, cost.get())
    }
}
