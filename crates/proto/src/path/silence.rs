//! What leaves on a path whose answers are missing [specs/paths.md §6] (rule 11).
//!
//! What was sent and is unanswered is lost, or it stands before a hop that has become thin. Where
//! it is lost, more of it costs nothing and arrives as soon as anything does; where it stands,
//! every datagram comes behind all that was sent before, until what arrives is too old. Nobody can
//! tell the two apart before an answer comes. So the sender stays *careful* for as long as the hop
//! may be thin.
//!
//! ```text
//! silent  from  so many answers missing that neither chance, nor the bursts of this path, nor what
//!               stands before a hop of known rate explains it
//!         until something is answered that was sent after that
//! since         = when it fell silent + the stall that is usual here
//! careful  from since, for 400 ms, and after that while something has come in since, in the last
//!               2.5 s: what is dead or stands still brings nothing. Only while most of what is
//!               unanswered is control
//! next at       = last sent + min(last sent − since, twice the distance at which datagrams came in
//!               last)
//! ```
//! That is hardly slower than what is sent anyway, until something comes in slowly; then it is half
//! of what comes. Waits that only grow, with nothing to cap them, were tried: on recorded mobile
//! links, which stall and then release what they hold, they cost more than they saved. A third or a
//! quarter of what comes drains most falls to 5 to 20 kbit/s in half of the time; but each end
//! waits for the other, so the distances grow by that factor each time, and over 5 kbit/s two ends
//! that begin anew did not hear each other for a minute.

use units::{Duration, Instant};

use super::{HealthView, Path, THIN_QUEUE, health};
use crate::event::PathState;

/// For so long a silent hop may be thin for all that is known: one of 5 kbit/s has brought
/// something by then.
const MAY_BE_THIN: Duration = Duration::from_millis(400);

impl Path {
    /// Returns since when answers have been missing; none while what is missing may be chance.
    pub(super) fn silent_since(&self, now: Instant) -> Option<Instant> {
        // Relays tell of their radios what is to be known.
        let is_heard = self.link.relayed.is_none()
            && !self.is_stream()
            && matches!(self.health.state, PathState::Active | PathState::Suspected);
        let oldest = self.sent.unheard().next().filter(|_| is_heard)?;
        let age = now.since(oldest.sent_at);
        // Whatever else is known, no answer is overdue before.
        let srtt = self.link.rtt.srtt_or_initial();
        let empty = self.link.hop.empty_rtt().map_or(srtt, |(empty, _)| empty.min(srtt));
        if self.health.silence.is_none() && age <= empty {
            return None;
        }
        // A suspicion may have made the other, of all that has come, as long as what ended it.
        let least = self.link.hop.least_rtt().into_iter().chain(self.link.rtt.min_rtt()).min();
        if age <= least.unwrap_or_default() {
            return None;
        }
        let rate = self.slow_rate(now);
        let queued = rate.map_or(Duration::ZERO, |rate| self.queued(rate, oldest));
        let missing = health::silent_since(now, &self.empty_view(now), queued, self.sent.unheard());
        // An answer to what was sent before says nothing of the hop since, whatever its rate was.
        let since = missing.into_iter().chain(self.health.silence).min()?;
        (since < now).then_some(since)
    }

    /// Returns what answers depend on while nothing of ours stands before the hop. How many fail to
    /// come by chance is judged by the last few, and by what is missing of the peer's: a path that
    /// begins to lose nearly all is not silent.
    fn empty_view(&self, now: Instant) -> HealthView {
        let coming = self.incoming.acks.loss().recent();
        let known = self.health_view(now);
        let view = HealthView {
            loss: known.loss.max(self.sent.recent_loss()).max(coming),
            loss_in: known.loss_in.max(coming),
            ..known
        };
        match self.link.hop.empty_rtt() {
            Some((srtt, rttvar)) if srtt < view.srtt && !self.link.hop.came_as_sent() => {
                HealthView { srtt, rttvar: rttvar.min(view.rttvar), ..view }
            }
            _ => view,
        }
    }

    /// Notes how long the path had been silent, where an answer ends that and shows no thin hop.
    pub(super) fn on_silence_ended(&mut self, now: Instant, since: Instant) {
        if self.silent_since(now).is_none() && self.link.hop.queue() < THIN_QUEUE {
            self.health.stalls.on_return(now, now.since(since));
        }
    }

    /// Returns since when little may be sent: answers are missing, and the hop may have become
    /// thin.
    pub(super) fn careful_since(&self, now: Instant) -> Option<Instant> {
        if self.lets_all_go() {
            return None;
        }
        let since = self.silent_since(now)? + self.health.stalls.usual(now);
        let may_be_thin = now.since(since) <= MAY_BE_THIN || self.incoming.comes_in(now, since);
        (since < now && may_be_thin && self.is_of_control()).then_some(since)
    }

    /// Tells whether most of what may stand before the hop is control: behind bulk a little more is
    /// nothing, and probes alone fill nothing.
    fn is_of_control(&self) -> bool {
        let (mut control, mut bulk) = (0, 0);
        for packet in self.sent.unheard() {
            let bytes = u64::from(packet.bytes);
            control += if packet.is_control() { bytes } else { 0 };
            bulk += if packet.bulk { bytes } else { 0 };
        }
        control > bulk
    }

    /// Returns when the next datagram with control may leave because of silence; none where nothing
    /// holds it back.
    pub(super) fn patient_until(&self, now: Instant) -> Option<Instant> {
        self.careful_since(now).map(|since| self.patient_from(since))
    }

    /// Returns the same where the path has been careful since then.
    pub(super) fn patient_from(&self, since: Instant) -> Instant {
        let last = self.probes.last_eliciting_at;
        last + self.careful_wait(last, since)
    }

    /// Returns how long nothing may come in before the peer is asked for keys: where something did
    /// while answers were missing, it has them, and what follows comes as slowly. Five seconds at
    /// most, by what counts as a distance.
    pub(crate) fn may_be_quiet_for(&self) -> Duration {
        let came = self.incoming.last_at;
        let is_slow = self.health.silence.is_some_and(|since| came.is_some_and(|at| at > since));
        if is_slow { self.incoming.distance * 2 } else { Duration::ZERO }
    }

    /// Returns how long nothing follows on what is sent while the path is careful: twice as long at
    /// most as on what the peer sends, since that is as large, and acknowledgements are in the same
    /// queue.
    pub(super) fn careful_wait(&self, sent_at: Instant, since: Instant) -> Duration {
        sent_at.since(since).min(self.incoming.distance * 2)
    }
}
