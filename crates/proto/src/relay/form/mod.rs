//! How a gateway sends: when a generation is packed, who sends what of it, when more.

mod published;
mod ranked;

use core::fmt::Debug;

use units::{Duration, Instant};

use super::ANSWERED;
use super::frame::{Coded, Ranks};
use super::transmitters::{Order, Settled, Transmitters};

pub(super) use published::Published;
pub(super) use ranked::Ranked;

/// Which form a gateway sends in; the other end need not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayForm {
    /// Ours: packets as they are first, then exactly what reports say is missing and not under way.
    Ranked {
        /// Generations that may be open; none: what the way holds.
        f: Option<usize>,
    },
    /// As published [FlowCode §III-A].
    Published {
        /// Generations in flight; none: what the way holds.
        f: Option<usize>,
        /// Combinations for each packet of a generation, at most.
        r: usize,
    },
}

/// What became of a datagram that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// What it was handed in as.
    pub token: u64,
    /// Whether it came; otherwise it was given up.
    pub arrived: bool,
}

/// Counts what a gateway sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that were packed.
    pub datagrams: u64,
    /// Generations that were begun.
    pub generations: u64,
    /// Coded frames that left.
    pub frames: u64,
    /// Those of them beyond one for each packet.
    pub repeats: u64,
    /// Datagrams that were given up.
    pub given_up: u64,
    /// Generations that are open.
    pub open: usize,
}

/// A way of sending.
pub(super) trait Form: Debug + Send {
    /// Tells whether a datagram would leave now, or wait for others of its generation.
    fn wants(&self, now: Instant, transmitters: &Transmitters) -> bool;

    /// Takes a datagram, after [`Form::wants`].
    fn push(&mut self, now: Instant, token: u64, datagram: &[u8]);

    /// Makes the next frame, for the transmitter that has room.
    fn next(&mut self, now: Instant, transmitters: &mut Transmitters) -> Option<Coded>;

    /// Takes a report, newer than all before; `anew` where it is the first of another destination.
    fn on_ranks(&mut self, now: Instant, ranks: &Ranks, settled: &[Settled], anew: bool);

    /// Learns what is not under way any more.
    fn on_lost(&mut self, lost: &[Order]);

    /// Returns the number of the next generation: none from it on has been sent.
    fn next_generation(&self) -> u64;

    /// Returns after what time an order without an answer is given up, as long as a report may be
    /// late at most.
    fn patience(&self) -> Duration;

    /// Returns when [`Form::handle_timeout`] wants to be called.
    fn timeout(&self) -> Option<Instant>;

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns what became of the next datagram.
    fn poll_fate(&mut self) -> Option<Fate>;

    /// Returns what was sent.
    fn counters(&self) -> Sent;
}

/// Round trips from order to report.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    srtt: Duration,
    rttvar: Duration,
    least: Duration,
    is_known: bool,
}

impl RoundTrip {
    fn new() -> Self {
        Self { srtt: ANSWERED, rttvar: ANSWERED / 2, least: ANSWERED, is_known: false }
    }

    fn on_sample(&mut self, sample: Duration) {
        if self.is_known {
            let off = self.srtt.abs_diff(sample);
            self.rttvar = self.rttvar.mul_f64(0.75) + off.mul_f64(0.25);
            self.srtt = self.srtt.mul_f64(0.875) + sample.mul_f64(0.125);
            self.least = self.least.min(sample);
        } else {
            (self.srtt, self.rttvar, self.least) = (sample, sample / 2, sample);
            self.is_known = true;
        }
    }
}

/// Appends what is coded of a datagram.
fn symbol(datagram: &[u8]) -> Vec<u8> {
    let length = u16::try_from(datagram.len()).expect("a datagram is bounded");
    let mut symbol = length.to_be_bytes().to_vec();
    symbol.extend_from_slice(datagram);
    symbol
}
