//! How much control a path takes at a time, so that a slow path drops superseded control instead of
//! queueing it [specs/paths.md §6] (rules 9 and 10).
//!
//! ```text
//! careful  : nothing until `silence.rs` lets a datagram leave; then what follows, 100 bytes of it
//! thin     : a rate below 300 kbit/s is known
//!   free at = when the newest packet known to have left the hop left it; then each one since, at
//!             the hop's rate
//!   fresh   = rate · (now + 30 ms − free at)            nothing of it is under way
//!             nothing while rate · (least round trip + 200 ms) of control is in flight, of a hop
//!             that did not fall
//!   newest  = of what a newer one will replace: fresh, or nothing until
//!             free at − 20 ms + (queue of that packet − 30 ms, if positive)
//!   repeat  = of what is under way elsewhere: fresh; nothing below 100 kbit/s (sooner where the
//!             path loses), beside bulk, or before any rate is known
//! was fast : no bound, if the hop ever sent 300 kbit/s and was not thin since
//! else     : fresh = rate of the hop · (base + 30 ms) − control in flight
//!   base    = round trip without our own queue + what the peer holds acknowledgements back
//! unknown  : fresh = 400 bytes + twice what the path has had under way without a queue − in flight
//! datagram ≤ 40 ms of the hop's time, 480 bytes at least; 250 ms of it where messages are late;
//!            480 bytes before the first answer
//! ```
//! On all but the thinnest links control never fills a window. What must wait waits here, where the
//! newest set-point replaces the older one and a command goes before a repeat, and not in the queue
//! of a modem. A path with nothing under way always takes a datagram.
//!
//! A thin hop is followed by what was sent and is not known to have left it, of whatever kind and
//! whatever was made of it since: a suspicion, a revival or an inherited round-trip time empty no
//! queue. A window of bytes in flight alone would not do. It counts a queue in the other direction
//! as time to fill; where both directions share the air, or have fallen together, each end fills it
//! so for the other. What a newer message will replace waits longest, for it costs nothing.
//!
//! The rate of a thin hop that becomes thinner is known a round trip later, and that has become as
//! long as what both directions hold. Until then a window over the least round trip bounds it.
//!
//! A rate is believed until something shows that it is wrong: a busy hop shows another, a datagram
//! takes less than half of what it should, the least delay of a hop that was fast once falls by
//! more than half of what one datagram takes. A rate that was forgotten after a while would be
//! found again by what is sent then, in a queue.
//!
//! A rate that is wrong was too low, perhaps by a half: what follows from that is to try more, not
//! to send all that waits. 25 kB in one go stood before a hop of 10 kbit/s for 20 s.
//!
//! How a path is treated before its hop has shown any rate matters as much: a session begins with
//! more than a thin link carries, and the queue that it makes looks like silence. So a path starts
//! small, as congestion control does, until it has shown that it is not slow; a single large
//! datagram, an MTU probe or bulk, shows it.

use units::{Duration, Instant, Rate};

use super::bottleneck::DEEP;
use super::{Path, THIN_QUEUE};
use crate::event::PathState;
use crate::limits;
use crate::recovery::{RIDE, SentPacket};

/// Queue of its own that control may keep.
const SLACK: Duration = Duration::from_millis(30);
/// A message that a newer one replaces leaves this long before a thin hop is free: early enough for
/// the hop never to be idle, which is when it shows its rate, and late enough to be new.
const NEXT: Duration = Duration::from_millis(20);
/// Behind a queue of this length a path of unknown rate takes only [`LEAST_WINDOW`].
const UNKNOWN_QUEUE: Duration = Duration::from_millis(100);
/// Control that may be under way on any path: two messages of 100 bytes. On a silent path more
/// would keep its queue full, and it would never be heard again.
const LEAST_WINDOW: u64 = 400;
/// A message of control.
pub(super) const MESSAGE: usize = 100;
/// Bytes that a datagram of control may always hold, however slow the hop: four messages.
const LEAST_DATAGRAM: usize = 480;
/// … unless that takes longer than this: then it holds one message.
const MOST_DATAGRAM: Duration = Duration::from_millis(300);
/// How long it may take at the hop where messages wait for so long that they are late: fewer
/// headers bring more of them.
const LATE_DATAGRAM: Duration = Duration::from_millis(250);
/// A path below this rate is thin: a datagram takes tens of milliseconds, and probes are traffic.
pub(crate) const THIN: Rate = Rate::from_bps(300_000);
/// What 50 messages of 100 bytes a second take with their headers, and acknowledgements that ride:
/// below it there is no room for copies.
pub(super) const FULL: Rate = Rate::from_bps(100_000);
/// By how much a copy is worth more for each share of what the path loses: where one in five is
/// lost, half of [`FULL`] will do.
const LOSS_WORTH: f64 = 5.0;
/// On a thin path that fell silent probes go this far apart.
const DRIP: Duration = Duration::from_millis(200);
/// Bytes by which a datagram with a message exceeds a PING, which has the least round trip.
const OWN: usize = 55;

/// Says how many bytes of payload a path takes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyRoom {
    /// Of messages of which no copy is under way anywhere.
    pub(crate) fresh: usize,
    /// Of those among them that a newer one replaces.
    pub(crate) newest: usize,
    /// Of other copies.
    pub(crate) repeat: usize,
    /// Of those that ask for no datagram of their own: some where one leaves anyway.
    pub(crate) ride: usize,
    /// How long a copy takes at least, without its own time at the hop: what has less time to live
    /// is not worth sending.
    pub(crate) transit: Duration,
    /// The rate at which the hop sends it.
    pub(crate) rate: Rate,
    /// By how much the peer may take a copy for older than it is.
    pub(crate) doubt: Duration,
}

impl CopyRoom {
    /// The same room for all copies.
    pub(crate) fn both(bytes: usize) -> Self {
        let (transit, rate, doubt) = (Duration::ZERO, Rate::from_bps(u64::MAX), Duration::ZERO);
        Self { fresh: bytes, newest: bytes, repeat: bytes, ride: 0, transit, rate, doubt }
    }

    /// No more than `bytes` of either; what is not nothing may be used whole.
    pub(crate) fn within(self, bytes: usize) -> Self {
        let within = |room: usize| if room == 0 { 0 } else { bytes };
        let [fresh, newest, repeat, ride] =
            [self.fresh, self.newest, self.repeat, self.ride].map(within);
        Self { fresh, newest, repeat, ride, ..self }
    }

    /// Tells whether no copy at all may leave.
    pub(crate) fn is_none(&self) -> bool {
        self.fresh.max(self.newest).max(self.repeat) == 0
    }
}

impl Path {
    /// Returns how many bytes of control may leave now.
    pub(crate) fn control_room(&self, now: Instant) -> CopyRoom {
        if self.drips() {
            let is_full = self.sent.in_flight() >= LEAST_WINDOW;
            return CopyRoom::both(if is_full { 0 } else { usize::MAX });
        }
        if self.is_stream() {
            return CopyRoom::both(usize::MAX);
        }
        let patient_until = self.patient_until(now);
        if patient_until.is_some_and(|at| now < at) {
            return CopyRoom::both(0);
        }
        if let Some(rate) = self.slow_rate(now).filter(|_| self.link.relayed.is_none()) {
            return self.thin_room(now, rate);
        }
        let in_flight = self.sent.control_in_flight();
        // A hop that was fast has no queue of control before its rate is known to be low.
        let is_fast = self.link.hop.best_ever() >= THIN && !self.link.hop.is_to_be_tried();
        let was_fast = self.link.relayed.is_none() && is_fast;
        let is_silent = patient_until.is_some() || self.health.state == PathState::Suspected;
        let is_open = was_fast || is_silent;
        let known = self.control_rate(now).filter(|_| in_flight > 0 && !is_open);
        let Some(rate) = known else { return CopyRoom::both(usize::MAX) };
        let base = self.link.hop.round_trip() + self.control_held();
        let is_unknown = rate == Rate::ZERO && !self.is_congested();
        let window = match is_unknown {
            true => LEAST_WINDOW + self.link.proved,
            false => rate.bytes_in(base + SLACK).max(LEAST_WINDOW),
        };
        let fresh = usize::try_from(window.saturating_sub(in_flight)).unwrap_or(usize::MAX);
        let repeat = if self.may_be_slow(now) { 0 } else { fresh };
        let newest = if self.newest_ready_at(now).is_some() { 0 } else { fresh };
        CopyRoom { newest, repeat, transit: self.control_arrival(now), ..CopyRoom::both(fresh) }
    }

    /// Tells whether relays fell silent that were thin, or of which nothing was known: a little is
    /// under way there at most.
    fn drips(&self) -> bool {
        self.link.relayed.is_some()
            && self.link.was_thin
            && self.health.state == PathState::Suspected
    }

    /// Returns the room on a hop that is thin: what it sends within the slack, beyond what may
    /// stand before it.
    fn thin_room(&self, now: Instant, rate: Rate) -> CopyRoom {
        let free_at = self.free_at(rate);
        let transit = self.least_one_way() + free_at.since(now);
        let room = |bytes| CopyRoom { transit, rate, ..CopyRoom::both(bytes) };
        if self.sent.unheard().next().is_none() {
            return room(usize::MAX);
        }
        if self.has_enough_under_way(rate) {
            return room(0);
        }
        // Behind bulk control keeps its place: more of that follows.
        let left = (now + SLACK + self.bulk_before(rate)).since(free_at);
        let fresh = if left.is_zero() { 0 } else { rate.bytes_in(left).max(LEAST_WINDOW) as usize };
        let repeat = if self.may_be_slow(now) { 0 } else { fresh };
        let newest = if self.newest_ready_at(now).is_some() { 0 } else { fresh };
        CopyRoom { newest, repeat, ..room(fresh) }
    }

    /// Tells whether more control is in flight than a hop of that rate leaves open, where nothing
    /// has shown yet that it is slower.
    fn has_enough_under_way(&self, rate: Rate) -> bool {
        let hop = &self.link.hop;
        let open = hop.least_rtt().unwrap_or(hop.round_trip()) + self.control_held() + THIN_QUEUE;
        let window = rate.bytes_in(open).max(LEAST_WINDOW);
        !hop.fell() && self.sent.control_in_flight() >= window
    }

    /// Tells whether so much stands before a thin hop that bulk has to wait, as control does.
    pub(super) fn is_overfull(&self, now: Instant) -> bool {
        let rate = self.slow_rate(now).filter(|_| self.link.relayed.is_none());
        rate.is_some_and(|rate| self.free_at(rate) > now + SLACK)
    }

    /// Returns when a thin hop takes more than it does now.
    pub(super) fn control_ready_at(&self, now: Instant) -> Option<Instant> {
        let rate = self.slow_rate(now)?;
        // A moment later, by the precision of timers: at that time itself there is no room yet.
        let bulk_at = self.free_at(rate) + Duration::from_micros(1) - SLACK;
        let fresh_at = bulk_at - self.bulk_before(rate);
        let all = [fresh_at, bulk_at].into_iter().chain(self.newest_ready_at(now));
        all.filter(|at| *at > now).min()
    }

    /// Returns when the newest packet that is known to have left the hop left it.
    fn left_at(&self, rate: Rate) -> Instant {
        let (sent_at, bytes) = self.link.seen;
        sent_at + self.link.hop.queue() + rate.transmission_time(bytes)
    }

    /// Returns when the hop has sent all that may stand before it.
    fn free_at(&self, rate: Rate) -> Instant {
        let before_it = self.sent.standing().filter(|packet| self.is_timed(packet.bytes));
        before_it.fold(self.left_at(rate), |free_at, packet| {
            let bytes = usize::from(packet.bytes) + limits::IP_AND_UDP as usize;
            free_at.max(packet.sent_at) + rate.transmission_time(bytes)
        })
    }

    /// Returns how long the first packet that is not known to have left the hop took to leave it.
    pub(super) fn queued(&self, rate: Rate, first: &SentPacket) -> Duration {
        let bytes = usize::from(first.bytes) + limits::IP_AND_UDP as usize;
        self.left_at(rate).since(first.sent_at) + rate.transmission_time(bytes)
    }

    /// Returns how many bytes stand before a thin hop by that.
    pub(super) fn believed_queue(&self, now: Instant) -> Option<u64> {
        let rate = self.slow_rate(now)?;
        Some(rate.bytes_in(self.free_at(rate).since(now)))
    }

    /// Returns how much of what stands before the hop is bulk, as far as control waits behind it
    /// rather than here.
    fn bulk_before(&self, rate: Rate) -> Duration {
        let bulk = self.sent.standing().filter(|packet| packet.bulk);
        let bytes = bulk.map(|packet| usize::from(packet.bytes)).sum();
        rate.transmission_time(bytes).min(UNKNOWN_QUEUE)
    }

    /// Returns how long a datagram is under way at least.
    fn least_one_way(&self) -> Duration {
        self.link.hop.least_rtt().or(self.link.rtt.min_rtt()).unwrap_or_default() / 2
    }

    /// Returns when a message may leave that a newer one replaces, where it has to wait: until the
    /// hop has sent what is under way. While it waits here, it is still the newest when it leaves.
    pub(super) fn newest_ready_at(&self, now: Instant) -> Option<Instant> {
        let rate = match self.link.relayed {
            None => self.slow_rate(now),
            Some(_) => self.saturated_rate().filter(|rate| *rate < THIN),
        };
        let free_at = self.free_at(rate?);
        let ready_at = free_at + self.link.hop.queue().saturating_sub(SLACK) - NEXT;
        (ready_at > now).then_some(ready_at)
    }

    /// Tells whether so much waits at the hop that its rate must be found out first.
    pub(super) fn is_congested(&self) -> bool {
        self.link.hop.queue() > UNKNOWN_QUEUE
    }

    /// Notes how much the path has carried at once: twice as much is tried next, unless that made a
    /// queue.
    pub(super) fn prove(&mut self, packet: &SentPacket) {
        let carried = packet.delivery.in_flight() + u64::from(packet.bytes);
        if self.is_congested() {
            self.link.proved = 0;
        } else {
            self.link.proved = self.link.proved.max(2 * carried);
        }
    }

    /// Returns the rate to which control keeps: zero where none is known.
    fn control_rate(&self, now: Instant) -> Option<Rate> {
        if !self.shows_hop() {
            return None;
        }
        let is_new = self.link.was_thin || self.link.hop.is_to_be_tried();
        let careful = is_new || self.is_congested();
        let known = self.saturated_rate().or_else(|| self.link.hop.first_rate(now));
        known.or(careful.then_some(Rate::ZERO))
    }

    /// Returns the rate of a hop that may be too slow for control; none if it is not, or not known.
    pub(crate) fn slow_rate(&self, now: Instant) -> Option<Rate> {
        if self.lets_all_go() || self.is_stream() {
            return None;
        }
        // What is paced by a rate makes no queue that would show another: it holds until it is
        // refuted.
        self.busy_rate(now).or_else(|| self.thin_rate())
    }

    fn busy_rate(&self, now: Instant) -> Option<Rate> {
        let fallen = self.link.hop.first_rate(now).filter(|_| self.link.hop.fell());
        let known = self.saturated_rate().or(fallen).filter(|rate| *rate < THIN);
        known.or(self.thin_radios())
    }

    /// Tells whether the hop is slow, or may be for all that is known.
    pub(crate) fn may_be_slow(&self, now: Instant) -> bool {
        if self.link.relayed.is_some() {
            return self.is_thin();
        }
        let is_unknown =
            self.link.was_thin && self.link.proved == 0 && self.link.hop.rate().is_none();
        let worth = 1.0 + LOSS_WORTH * self.loss();
        let is_full = self.slow_rate(now).is_some_and(|rate| rate.mul_f64(worth) < FULL);
        is_full
            || self.has_bulk() && self.is_thin()
            || is_unknown && self.link.hop.best_ever() < THIN
    }

    /// Returns the rate that a hop had when it was last busy, if it was seen to be thin then and
    /// nothing since has shown it to be faster, or if it was never seen to be faster at all.
    fn thin_rate(&self) -> Option<Rate> {
        let hop = &self.link.hop;
        let counts = hop.fell() || hop.best_ever() < THIN;
        hop.calm_rate().filter(|rate| *rate < THIN && counts && self.link.relayed.is_none())
    }

    /// Returns how long a copy of control would take from now.
    pub(crate) fn control_arrival(&self, now: Instant) -> Duration {
        if let Some(rate) = self.slow_rate(now) {
            let waits = self.free_at(rate).since(now);
            return self.least_one_way() + waits + rate.transmission_time(OWN);
        }
        let known = self.control_rate(now).filter(|rate| *rate > Rate::ZERO);
        let waits =
            known.map(|rate| rate.transmission_time(self.sent.control_in_flight() as usize + OWN));
        self.link.rtt.min_rtt().unwrap_or_default() / 2 + waits.unwrap_or_default()
    }

    /// Returns the age at which the answer to a copy of control is overdue.
    pub(crate) fn control_answer_after(&self) -> Duration {
        self.link.rtt.probe_timeout() + self.control_held()
    }

    /// Returns the same of a copy whose answer may not wait for a datagram to ride in.
    pub(crate) fn answer_at_once_after(&self) -> Duration {
        self.link.rtt.probe_timeout() + self.link.peer_holds
    }

    /// Returns how long the peer may hold an acknowledgement of control back: that of the oldest
    /// packet which has none counts.
    pub(super) fn control_held(&self) -> Duration {
        let oldest = self.sent.unanswered().next().map(|packet| packet.sent_at);
        let may_wait =
            self.link.let_wait_at >= Some(oldest.unwrap_or(self.probes.last_eliciting_at));
        if may_wait { self.link.peer_holds.max(RIDE) } else { self.link.peer_holds }
    }

    /// Returns how large a datagram with control may be; messages that are late anyway need no
    /// small ones.
    pub(crate) fn control_datagram(&self, now: Instant, is_late: bool) -> usize {
        if self.drips() || self.careful_since(now).is_some() {
            return MESSAGE;
        }
        if self.link.rtt.srtt().is_none() {
            return LEAST_DATAGRAM;
        }
        let takes = if is_late { LATE_DATAGRAM } else { DEEP };
        let rate = self.slow_rate(now);
        rate.map_or(usize::MAX, |rate| {
            let least = (rate.bytes_in(MOST_DATAGRAM) as usize).min(LEAST_DATAGRAM);
            (rate.bytes_in(takes) as usize).max(least)
        })
    }

    /// Tells whether the path is thin, or was never seen to be faster.
    pub(super) fn may_be_thin(&self) -> bool {
        self.is_thin() || self.link.hop.best_ever() < THIN
    }

    /// Returns the rate of a hop that was busy nearly all the time.
    fn saturated_rate(&self) -> Option<Rate> {
        self.link.hop.saturated_rate().filter(|_| self.shows_hop())
    }

    /// Returns the age at which a copy of control that is under way may be repeated on this path:
    /// not while it may still arrive, or merely waits before the hop. A path that loses much has no
    /// copy to spare.
    pub(crate) fn repeat_after(&self) -> Duration {
        if self.is_stream() {
            return Duration::MAX;
        }
        let rate = self.link.hop.rate().filter(|_| !self.link.hop.is_empty(self.link.hop.noise()));
        match rate.map(|rate| rate.transmission_time(self.sent.in_flight() as usize)) {
            None if !self.loses_little() || self.link.relayed.is_some() => Duration::ZERO,
            waits => self.link.rtt.probe_timeout() + waits.unwrap_or_default(),
        }
    }

    /// Tells whether the narrowest hop is so slow that a full datagram would delay control.
    pub(crate) fn is_thin(&self) -> bool {
        self.saturated_rate().or(self.thin_radios()).is_some_and(|rate| rate < THIN)
    }

    /// Returns the least time between probes: they must not fill a thin path.
    pub(super) fn least_probe_interval(&self, now: Instant) -> Duration {
        let slow = self.slow_rate(now).filter(|_| self.link.relayed.is_none());
        // An answer to it comes after those to what stands before it.
        let stands = slow.map_or(Duration::ZERO, |rate| self.free_at(rate).since(now));
        let fell_silent = self.health.state == PathState::Suspected && slow.is_some();
        if fell_silent { stands.max(DRIP) } else { stands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionKind;
    use crate::ids::{InterfaceId, PathId};
    use crate::path::{KNOWN_FOR, Outgoing, PathConfig, ProtectControl, Route};
    use crate::recovery::AckInfo;
    use crate::via::Via;

    const KBPS: u64 = 64;
    const MESSAGE: usize = 149;
    const RTT: Duration = Duration::from_millis(60);
    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    fn path() -> Path {
        let remote = Via::Udp(([10, 0, 0, 1], 4_600).into());
        let route = Route { interface: InterfaceId(0), local: None, remote };
        let config = PathConfig {
            congestion: CongestionKind::DelayBounded,
            initiator: true,
            idle_probe: Duration::ZERO,
            protect_control: ProtectControl::Balanced,
        };
        let mut path = Path::new(at(0), PathId(0), route, config, 1);
        path.confirm_address(at(0), Duration::ZERO);
        path
    }

    fn send(path: &mut Path, now: Instant, bytes: usize) -> u64 {
        let pn = path.next_packet_number();
        let frames = Default::default();
        let outgoing = Outgoing {
            pn,
            bytes,
            ack_eliciting: true,
            bulk: false,
            marked: false,
            route: None,
            frames,
        };
        path.on_packet_sent(now, outgoing);
        pn
    }

    /// Acknowledges a packet that the hop had sent by `left`.
    fn acknowledge(path: &mut Path, pn: u64, left: Instant) {
        let ranges = [pn..=pn];
        let received_at_us = (left + RTT / 2).as_micros();
        let ack = AckInfo {
            largest: pn,
            ranges: &ranges,
            received_at_us,
            delay: Duration::ZERO,
            elsewhere: false,
        };
        path.on_ack(left + RTT, &ack);
    }

    /// Sends a message every 20 ms over a hop of 64 kbit/s for `seconds`, as far as there is room;
    /// returns the time after which nothing happens.
    fn fill(path: &mut Path, seconds: u64) -> Instant {
        fill_where(path, seconds, |path, now| path.control_room(now).fresh > 0)
    }

    fn fill_where(
        path: &mut Path,
        seconds: u64,
        may_send: impl Fn(&Path, Instant) -> bool,
    ) -> Instant {
        let takes = Rate::from_bps(KBPS * 1_000).transmission_time(MESSAGE + 28);
        let (mut free_at, mut waiting) = (at(0), std::collections::VecDeque::new());
        for ms in 0..seconds * 1_000 {
            let now = at(ms);
            while waiting.front().is_some_and(|(_, left)| *left + RTT <= now) {
                let (pn, left) = waiting.pop_front().expect("one is there");
                acknowledge(path, pn, left);
            }
            if ms % 20 == 0 && may_send(path, now) {
                free_at = free_at.max(now) + takes;
                waiting.push_back((send(path, now, MESSAGE), free_at));
            }
        }
        at(seconds * 1_000)
    }

    #[test]
    fn an_unknown_path_takes_a_little_until_it_has_carried_more() {
        let mut path = path();
        assert_eq!(path.control_room(at(0)), CopyRoom::both(usize::MAX), "nothing is under way");
        let sent: Vec<u64> = (0..3).map(|_| send(&mut path, at(0), MESSAGE)).collect();
        assert_eq!(path.control_room(at(1)).fresh, 0, "three are enough");
        acknowledge(&mut path, sent[2], at(2));
        let room = path.control_room(at(70));
        assert!(room.fresh > 2 * MESSAGE && room.fresh < 20 * MESSAGE, "{room:?}");
    }

    #[test]
    fn on_a_thin_path_little_stands_before_the_hop_and_nothing_is_repeated() {
        let mut path = path();
        let now = fill(&mut path, 3);
        assert!(path.slow_rate(now).is_some() && path.may_be_slow(now));
        assert_eq!(path.control_room(now).repeat, 0);
        assert!(path.link.hop.queue() < Duration::from_millis(100));
        let window = Rate::from_bps(KBPS * 1_000).bytes_in(RTT + SLACK * 2);
        assert!(path.sent.control_in_flight() <= window, "{}", path.sent.control_in_flight());
        assert_eq!(path.control_datagram(now, false), LEAST_DATAGRAM);
        assert!(path.control_datagram(now, true) > 3 * LEAST_DATAGRAM);
    }

    #[test]
    fn on_a_thin_path_what_a_newer_message_replaces_waits_until_the_hop_is_about_to_be_free() {
        let mut path = path();
        let now = fill(&mut path, 3);
        send(&mut path, now, MESSAGE);
        let one = path.newest_ready_at(now).expect("later");
        assert_eq!(path.control_room(now).newest, 0);
        send(&mut path, now, MESSAGE);
        let two = path.newest_ready_at(now).expect("later");
        let takes = Rate::from_bps(KBPS * 1_000).transmission_time(MESSAGE + 28);
        assert!(two.since(one) > takes - MS && two.since(one) < takes + MS, "{:?}", two.since(one));
        let room = path.control_room(two);
        assert_eq!(room.newest, room.fresh);
    }

    #[test]
    fn no_symbol_exceeds_a_window_behind_what_stands_before_a_thin_hop() {
        let mut path = path();
        let now = fill(&mut path, 3);
        for after in (1..20).map(|count| now + RTT * 2 * count) {
            let pn = send(&mut path, after, MESSAGE);
            acknowledge(&mut path, pn, after);
        }
        let now = now + RTT * 40;
        assert!(path.slow_rate(now).is_some() && path.may_exceed(now));
        (0..4).for_each(|_| _ = send(&mut path, now, MESSAGE));
        assert!(!path.has_queue() && !path.may_exceed(now), "it has not shown the queue yet");
    }

    /// A dead path would be found out later by that, long after its hop was thin.
    #[test]
    fn answers_may_take_longer_on_a_thin_path_only_while_its_hop_is_busy() {
        let mut path = path();
        let now = fill_where(&mut path, 3, |_, _| true);
        path.looked_at = now;
        assert!(path.is_thin() && path.thin_patience() >= MS * 200);
        let (largest, ranges) = (path.numbers.next - 1, [0..=path.numbers.next - 1]);
        let (received_at_us, delay) = ((now + RTT).as_micros(), Duration::ZERO);
        let all = AckInfo { largest, ranges: &ranges, received_at_us, delay, elsewhere: false };
        path.on_ack(now + RTT * 2, &all);
        path.looked_at = now + RTT * 2 + KNOWN_FOR;
        assert!(path.is_thin() && path.thin_patience() < MS * 200);
    }

    #[test]
    fn one_large_datagram_shows_that_a_path_is_not_slow() {
        let mut path = path();
        let ping = send(&mut path, at(0), 29);
        acknowledge(&mut path, ping, at(0));
        let probe = send(&mut path, at(100), 1_472);
        acknowledge(&mut path, probe, at(101));
        send(&mut path, at(200), MESSAGE);
        assert!(!path.may_be_slow(at(200)) && path.slow_rate(at(200)).is_none());
        assert!(path.control_room(at(200)).repeat > MESSAGE);
    }
}
