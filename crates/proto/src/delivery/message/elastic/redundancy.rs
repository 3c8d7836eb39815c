//! How many repair symbols protect a source symbol: follows loss, its bursts, and the deadline.
//!
//! ```text
//! loss ← loss + (lost − loss) / min(n, 2,048)     per packet with a symbol, unless its path had a
//!                                                 queue: congestion loss asks for less, not more
//! ρ(loss): 1/32 below 0.1 %, 1/8 below 0.8 %, 0.24 below 3.2 %, 1/2 below 15 %, then 2.5 · loss
//! bursts  (runs of 2.5 packets, or unknown) and a second path: ρ = 1, all of it on other paths
//! deadline below 1.5 rtt: one level more, for nothing can be sent again
//!          above 4 rtt: nothing, for what is lost can be sent again twice
//! nothing after a source symbol for a quarter of a round trip (10 ms at least): one token more,
//!          whatever the deadline is, where ρ without one is 0.1 or more
//! tokens ← min(tokens + ρ, 1 + 16 ρ)              per source symbol; a repair symbol takes one, a
//!                                                 symbol sent again takes one where paths are few
//! spare ← min(spare + 0.08, 400)                  per source symbol where bursts are spread; saved
//!                                                 for when every path is silent (`silence.rs`)
//! ```
//! At 2, 5 and 10 % of independent loss these levels deliver 96.6, 96.6 and 91.2 % of the messages
//! without any wait, when every repair symbol leaves right beside its source; half as much delivers
//! 90 and 73 % at the latter two, and twice as much 98.8 % at 10 %: beyond 1/2 the price rises
//! faster than what it buys.

use smallvec::SmallVec;
use units::{Duration, Instant};

use crate::ids::PathId;
use crate::limits;
use crate::path::PathSnapshot;

/// Packets with symbols over which the estimate of their loss forgets: ± 0.3 points at 2 %. Eight
/// times as many as a path's own estimate, which is asked as well where it is suddenly higher.
const SYMBOLS_MEMORY: f64 = 2_048.0;
/// Packets after which the estimate is believed.
const KNOWN: f64 = 100.0;
/// Loss below which each level holds.
const BELOW: [f64; 4] = [0.001, 0.008, 0.032, 0.15];
/// Packets after which so much loss has half a repair symbol per source symbol sent at once.
const FIRST: f64 = 10.0;
const EARLY: f64 = 0.06;
/// Symbols sent again that may be owed.
const MOST_DEBT: f64 = -32.0;
/// As many repair symbols are saved for times when every path is silent: four rounds for a round
/// trip of 24 symbols, on two paths …
const MOST_SPARE: f64 = 400.0;
/// As many as are there at the start, when nothing could be saved yet.
const FIRST_SPARE: f64 = 128.0;
/// How much faster than the slow estimate the path's own one must rise to be believed.
const SUDDEN: f64 = 0.05;

/// The constants that say how much an elastic window repairs. No configuration sets them; the
/// laboratory varies them ([`crate::MessageForm::Tuned`]).
///
/// ```
/// use fulmar_proto::{ElasticRedundancy, MessageForm};
/// let twice = ElasticRedundancy { levels: [0.0625, 0.25, 0.48, 1.0],
///             ..ElasticRedundancy::default() };
/// assert_ne!(MessageForm::Tuned(twice), MessageForm::Tuned(ElasticRedundancy::default()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElasticRedundancy {
    /// Repair symbols per source symbol where loss is below 0.1, 0.8, 3.2 and 15 %.
    pub levels: [f64; 4],
    /// Above that: times the loss, and between 1/2 and 1.
    pub slope: f64,
    /// Repair symbols per source symbol before anything is known.
    pub unknown: f64,
    /// Repair symbols per source symbol where losses come in bursts and another path can repair
    /// them.
    pub bursts: f64,
    /// Mean run of lost packets that is no chance any more.
    pub burst_run: f64,
    /// Packets of each path after which no burst means that there are none.
    pub bursts_known: f64,
    /// Source symbols whose tokens may wait for a pause of the application.
    pub saved: f64,
    /// Repair symbols that a source symbol earns for times when every path is silent.
    pub spare: f64,
}

impl Default for ElasticRedundancy {
    fn default() -> Self {
        Self {
            levels: [1.0 / 32.0, 0.125, 0.24, 0.5],
            slope: 2.5,
            unknown: 0.24,
            bursts: 1.0,
            burst_run: 2.5,
            bursts_known: 1_024.0,
            saved: 16.0,
            spare: 0.08,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct PathLoss {
    path: PathId,
    loss: f64,
    packets: f64,
}

/// Decides how much is repaired, and keeps the account of it.
#[derive(Clone, Debug)]
pub(super) struct Redundancy {
    constants: ElasticRedundancy,
    paths: SmallVec<[PathLoss; 4]>,
    tokens: f64,
    spare: f64,
}

impl Redundancy {
    pub(super) fn new(constants: ElasticRedundancy) -> Self {
        Self { constants, paths: SmallVec::new(), tokens: 0.0, spare: FIRST_SPARE }
    }

    /// Notes what became of a packet with a symbol.
    pub(super) fn on_outcome(&mut self, path: PathId, lost: bool) {
        let known = self.paths.iter().position(|known| known.path == path);
        let index = known.unwrap_or_else(|| {
            if self.paths.len() >= limits::PATHS {
                self.paths.remove(0);
            }
            self.paths.push(PathLoss { path, loss: 0.0, packets: 0.0 });
            self.paths.len() - 1
        });
        let entry = &mut self.paths[index];
        entry.packets += 1.0;
        entry.loss += (f64::from(u8::from(lost)) - entry.loss) / entry.packets.min(SYMBOLS_MEMORY);
    }

    /// Returns the loss of a path, as far as it is known.
    pub(super) fn loss(&self, path: &PathSnapshot) -> Option<f64> {
        let known = self.paths.iter().find(|known| known.path == path.id)?;
        let sudden = path.loss > 2.0 * known.loss + SUDDEN;
        let loss = if sudden { path.loss } else { known.loss };
        (known.packets >= KNOWN).then_some(loss)
    }

    /// Earns what a source symbol on `path` deserves; `spreads` where bursts are spread, `left` is
    /// the time until its deadline.
    pub(super) fn on_source(&mut self, path: &PathSnapshot, spreads: bool, left: Option<Duration>) {
        let share = self.share(path, spreads, left);
        self.tokens = (self.tokens + share).min(1.0 + self.constants.saved * share);
        if spreads {
            self.spare = (self.spare + self.constants.spare).min(MOST_SPARE);
        }
    }

    /// Lets one repair symbol go without a token: nothing follows that would protect the last
    /// source symbol.
    pub(super) fn grant(&mut self) {
        self.tokens = self.tokens.max(1.0);
    }

    /// Tells whether losses come in bursts and there is another path to repair them by. What is not
    /// known yet counts as bursts: the first one would come too early to be learned from.
    pub(super) fn spreads_bursts(&self, now: Instant, paths: &[PathSnapshot]) -> bool {
        let worth = || paths.iter().filter(|path| path.is_worth_symbols(now));
        let packets = |path: &PathSnapshot| {
            self.paths.iter().find(|known| known.path == path.id).map_or(0.0, |known| known.packets)
        };
        worth().count() > 1
            && worth().any(|path| {
                path.burst >= self.constants.burst_run
                    || packets(path) < self.constants.bursts_known
            })
    }

    /// Tells whether a repair symbol may be sent.
    pub(super) fn may_repair(&self) -> bool {
        self.tokens >= 1.0 - 1e-9
    }

    /// Pays for a symbol.
    pub(super) fn pay(&mut self) {
        self.tokens = (self.tokens - 1.0).max(MOST_DEBT);
    }

    /// Returns how many repair symbols are saved for a silence.
    pub(super) fn spare(&self) -> usize {
        self.spare as usize
    }

    /// Pays for a repair symbol out of what is saved for a silence.
    pub(super) fn pay_spare(&mut self) {
        self.spare = (self.spare - 1.0).max(0.0);
    }

    /// ρ while loss is not known yet: more at once where much is lost already.
    fn early_share(&self, path: &PathSnapshot) -> f64 {
        let known = self.paths.iter().find(|known| known.path == path.id);
        let lossy = known.is_some_and(|known| known.packets >= FIRST && known.loss >= EARLY);
        if lossy { 0.5 } else { self.constants.unknown }
    }

    /// ρ.
    pub(super) fn share(&self, path: &PathSnapshot, spreads: bool, left: Option<Duration>) -> f64 {
        let rtt = path.srtt_or_initial();
        if left.is_some_and(|left| left > rtt * 4) {
            return 0.0;
        }
        if spreads {
            return self.constants.bursts;
        }
        let more = usize::from(left.is_some_and(|left| left < rtt * 3 / 2));
        let Some(loss) = self.loss(path) else { return self.early_share(path) };
        let level = BELOW.iter().position(|below| loss < *below).map(|level| level + more);
        match level.and_then(|level| self.constants.levels.get(level)) {
            Some(share) => *share,
            None => (self.constants.slope * loss).clamp(0.5, 1.0),
        }
    }
}
