//! What leaves on a path whose answers are missing [specs/paths.md §6] (rule 9).
//!
//! What was sent and is unanswered is lost, or it stands before a hop that has become thin. Where it is lost, more of it
//! costs nothing; where it stands, every datagram comes behind all that was sent before, until what arrives is too old.
//! Nobody can tell the two apart before an answer comes. So the sender goes on, and waits after each datagram for as long
//! as the silence had lasted when that one left:
//!
//! ```text
//! silent since = when so many answers were missing that neither chance nor the usual bursts of the path explain it
//! next at      = last sent + clamp(last sent − silent since, 0, 250 ms)
//! ```
//! A hop that takes *t* for a datagram answers when the silence is *t* and its queues old, and by then some log₂(t) more
//! stand before it, whatever *t* is. And where answers come, each later than the one before, datagrams leave as far apart
//! as the oldest unanswered one is overdue: the queue settles at that of one or two of them. A path that is dead gets
//! a datagram every quarter of a second, so that it is heard as soon as it is back.

use units::{Duration, Instant};

use super::{HealthView, Path, health};
use crate::event::PathState;

/// The longest time between two datagrams of control on a silent path.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

impl Path {
    /// Returns since when answers have been missing; none while what is missing may be chance.
    pub(super) fn silent_since(&self, now: Instant) -> Option<Instant> {
        let oldest = self.sent.unheard().next()?;
        if matches!(self.state, PathState::Absent | PathState::Validating | PathState::Closed)
            || now.since(oldest.sent_at) <= self.rtt.min_rtt().unwrap_or_default()
        {
            return None;
        }
        let view = self.empty_view(now);
        let due = self.slow_rate(now).map(|rate| {
            let left = self.known.0 + self.bottleneck.queue();
            left.max(oldest.sent_at).since(oldest.sent_at) + rate.transmission_time(usize::from(oldest.bytes) + 28)
        });
        let since = health::silent_since(&view, due.unwrap_or_default(), self.sent.unheard())?;
        (since < now).then_some(since)
    }

    /// Returns what answers of the path depend on while nothing of ours stands before its hop.
    fn empty_view(&self, now: Instant) -> HealthView {
        let coming = self.received.loss().recent();
        let view = self.health_view(now);
        let view = HealthView {
            loss: view.loss.max(self.sent.recent_loss()).max(coming),
            loss_in: view.loss_in.max(coming),
            ..view
        };
        match self.bottleneck.empty_rtt() {
            Some((srtt, rttvar)) if srtt < view.srtt && !self.bottleneck.came_as_sent() => {
                HealthView { srtt, rttvar: rttvar.min(view.rttvar), ..view }
            }
            _ => view,
        }
    }

    /// Tells whether datagrams of the peer come in, but as far apart as on a thin link.
    pub(super) fn comes_slowly(&self, now: Instant) -> bool {
        let t = |name, default| Duration::from_millis(super::tune::get(name, default) as u64);
        let since = self.last_received_at.map_or(Duration::ZERO, |at| now.since(at));
        let gap = since.max(self.received_gap);
        gap >= t("GL", 50.0) && gap <= t("GH", 900.0)
    }

    /// Returns since when what is sent must be little: answers are missing, and the hop may have become thin.
    pub(super) fn careful_since(&self, now: Instant) -> Option<Instant> {
        if super::tune::get("SIL", 1.0) == 0.0 { return None; }
        let since = self.silent_since(now)? + self.stalls.usual(now);
        let t = |name, default| Duration::from_millis(super::tune::get(name, default) as u64);
        let may_be_thin = now.since(since) <= t("EC", 200.0) || self.comes_slowly(now);
        (since < now && may_be_thin).then_some(since)
    }

    /// Returns when the next datagram with control may leave because of silence; none while there is none.
    pub(super) fn patient_until(&self, now: Instant) -> Option<Instant> {
        let since = self.careful_since(now)?;
        let last = self.last_eliciting_at;
        Some(last + self.careful_wait(last, since))
    }

    /// Returns how long nothing follows on what is sent at a time of silence.
    pub(super) fn careful_wait(&self, sent_at: Instant, since: Instant) -> Duration {
        let most = if self.comes_slowly(sent_at) { self.received_gap.mul_f64(super::tune::get("CF", 1.5)) } else { longest() };
        sent_at.since(since).min(most)
    }
}
fn factor() -> f64 {
    static V: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *V.get_or_init(|| std::env::var("DF").ok().and_then(|v| v.parse().ok()).unwrap_or(1.0))
}
fn longest() -> Duration {
    static V: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    Duration::from_millis(*V.get_or_init(|| std::env::var("LW").ok().and_then(|v| v.parse().ok()).unwrap_or(250)))
}
