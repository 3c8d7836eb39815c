//! Stand-ins for the parts of `proto` that have not arrived yet, with their final signatures.

use proto::Duration;
use proto::select::SelectorConfig;

/// See `proto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    #[default]
    MinRtt,
    RoundRobin,
    Redundant,
}
/// See `proto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionKind {
    #[default]
    DelayBounded,
    NewReno,
    Cubic,
    None,
}
/// See `proto`.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    pub scheduler: SchedulerKind,
    pub congestion: CongestionKind,
    pub selector: SelectorConfig,
    pub bulk_max_age: Duration,
    pub resequence_max: Duration,
}
impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::default(),
            congestion: CongestionKind::default(),
            selector: SelectorConfig::default(),
            bulk_max_age: Duration::from_millis(150),
            resequence_max: Duration::from_millis(60),
        }
    }
}
