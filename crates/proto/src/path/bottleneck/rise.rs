//! What tells a longer way from a queue (`../bottleneck.rs`).

use units::Rate;

/// What came of late, while datagrams took much longer than the least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rise {
    pub(super) from_us: u64,
    pub(super) bytes: u64,
    pub(super) receptions: u32,
    /// Whether they came as they were sent, and the slowest and the fastest of the rates of that.
    pub(super) as_sent: bool,
    pub(super) rates: (Rate, Rate),
}

impl Rise {
    /// Begins at a reception.
    pub(super) fn new(from_us: u64) -> Self {
        let rates = (Rate::from_bps(u64::MAX), Rate::ZERO);
        Self { from_us, bytes: 0, receptions: 0, as_sent: true, rates }
    }
}
