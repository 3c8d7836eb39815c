//! Congestion control of one path: how much bulk may be in flight, and how fast it may leave
//! [specs/paths.md §6].
//!
//! One trait, a read-only [`LinkView`] and one file per algorithm. Control and probes count as in
//! flight but are never held back. What sits above is [`crate::path`], which feeds the controller
//! with acknowledgements and losses and obeys its window; a path that falls silent is not a matter
//! of congestion, so the controller does not hear of the packets that silence cost.

mod asran;
mod asran_delay;
mod cubic;
mod delay_bounded;
mod delay_judge;
mod loss_guard;
mod max_filter;
mod none;
mod reno;
mod standing_queue;
#[cfg(test)]
mod tests;

use core::fmt::Debug;

use units::{Duration, Instant, Rate};

use crate::recovery::RateSample;

/// A queue in the standing round-trip time: a shorter one is jitter. It ends the start of the
/// default controller.
pub(crate) const LEAST_QUEUE: Duration = Duration::from_millis(8);
/// Loss beyond this is not made up for by sending more.
pub(crate) const MOST_MADE_UP: f64 = 0.5;
/// The least window of controllers that watch the delay, datagrams: acknowledgements keep coming.
const LEAST_WINDOW: u64 = 4;

/// Names a congestion controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CongestionKind {
    /// Tolerates random loss and bounds its own queue to about 20 ms.
    #[default]
    DelayBounded,
    /// NewReno [RFC 9002 §7].
    NewReno,
    /// CUBIC [RFC 9438].
    Cubic,
    /// ASRAN over NewReno [ASRAN §3.2].
    Asran,
    /// ASRAN over CUBIC.
    AsranCubic,
    /// ASRAN that tells a full queue from a bad link by the delay.
    AsranDelay,
    /// No limit at all: for experiments, and for links that are shaped outside.
    None,
}

impl CongestionKind {
    /// Makes a controller in its initial state; `mtu` is the size of a full datagram in bytes.
    pub(crate) fn controller(self, mtu: usize) -> Box<dyn Controller> {
        let mtu = mtu as u64;
        match self {
            Self::DelayBounded => Box::new(delay_bounded::DelayBounded::new(mtu)),
            Self::NewReno => Box::new(reno::NewReno::new(mtu)),
            Self::Cubic => Box::new(cubic::Cubic::new(mtu)),
            Self::Asran => Box::new(asran::Asran::over(reno::NewReno::new(mtu))),
            Self::AsranCubic => Box::new(asran::Asran::over(cubic::Cubic::new(mtu))),
            Self::AsranDelay => Box::new(asran_delay::AsranDelay::new(mtu)),
            Self::None => Box::new(none::Unlimited),
        }
    }
}

/// Shows a controller what is known of its path at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkView {
    /// The moment.
    pub(crate) now: Instant,
    /// Smoothed round-trip time, or the initial guess.
    pub(crate) srtt: Duration,
    /// Least round-trip time of the last ten seconds, or the initial guess.
    pub(crate) min_rtt: Duration,
    /// Bytes of a full datagram.
    pub(crate) mtu: u64,
}

/// Tells what one ACK frame acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    /// Bytes newly acknowledged.
    pub(crate) bytes: u64,
    /// Further bytes acknowledged, of packets that had been declared lost.
    pub(crate) late_bytes: u64,
    /// When the newest of them was sent.
    pub(crate) newest_sent_at: Instant,
    /// The round-trip time of the newest, if it is fit to be used.
    pub(crate) rtt: Option<Duration>,
    /// The rate of delivery, if it is fit to be used.
    pub(crate) rate: Option<RateSample>,
    /// Whether the window, not the application, limited the sender within the last round trip.
    pub(crate) window_limited: bool,
}

/// Tells what was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Bytes declared lost.
    pub(crate) bytes: u64,
    /// When the newest of them was sent.
    pub(crate) newest_sent_at: Instant,
}

/// Decides how much may be in flight on a path, and how fast it may leave.
///
/// ```text
/// controller.on_ack(&view, &acked);           // per ACK frame that acknowledges anything
/// controller.on_loss(&view, &lost);           // after it, where packets were lost
/// while in_flight < controller.cwnd() { … }   // sent at controller.pacing_rate(&view)
/// ```
pub(crate) trait Controller: Debug + Send {
    /// Learns of delivered packets.
    fn on_ack(&mut self, view: &LinkView, acked: &Acked);

    /// Learns of lost packets.
    fn on_loss(&mut self, view: &LinkView, lost: &Lost);

    /// Learns that the path carries traffic again after it had fallen silent.
    fn on_revival(&mut self, view: &LinkView);

    /// Returns the congestion window: bytes that may be in flight.
    fn cwnd(&self) -> u64;

    /// Tells whether the window is small for a moment, on purpose: to show what the path is like
    /// when it is empty.
    fn runs_dry(&self) -> bool {
        false
    }

    /// Returns the share of packets that the path loses at any rate, 0 to 1, as far as it is known.
    fn usual_loss(&self) -> f64 {
        0.0
    }

    /// Returns the rate at which bulk may leave; none leaves it unpaced.
    fn pacing_rate(&self, view: &LinkView) -> Option<Rate>;
}

/// Returns the initial window of a path, ten full datagrams [RFC 9002 §7.2].
pub(crate) fn initial_window(mtu: u64) -> u64 {
    10 * mtu
}

/// Returns the rate that sends `window` in `rtt`, multiplied by `gain`.
fn window_rate(window: u64, rtt: Duration, gain: f64) -> Rate {
    Rate::from_bytes_in(window, rtt.max(Duration::from_micros(100))).mul_f64(gain)
}
