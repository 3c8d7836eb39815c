//! The sender: its handshake, its segments as packets, and its one timer.
//!
//! ```text
//! packet → Segment → Ack (in segments) → Control → next → Segment → packet
//! timer: RACK's wait, the probe of the tail, or the retransmission timeout: one at a time, as in Linux
//! ```

use std::net::SocketAddrV4;

use units::{Duration, Instant};

use super::congestion::{Congestion, INITIAL_WINDOW};
use super::cuts::Cuts;
use super::recovery::{Ack, Control, Next, State, milliseconds};
use super::segment::{SACK_BLOCKS, Segment, Syn, announced_mss, payload_of};
use super::usage::Usage;

/// How long the first SYN waits for its answer; each one more twice as long [RFC 6298 §2.1].
pub(super) const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// Doublings of that time.
pub(super) const SYN_DOUBLINGS: u32 = 6;
/// What Linux adds to two round trips before it probes a tail: two ticks of its clock.
const PROBE_SLACK: Duration = Duration::from_millis(2);
/// The window in a SYN, which is not scaled.
pub(super) const SYN_WINDOW: u16 = 65_535;

/// What a sender is to do.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its own address and port.
    pub source: SocketAddrV4,
    /// The receiver's.
    pub destination: SocketAddrV4,
    /// Bytes of the longest packet: the tunnel's MTU.
    pub mtu: usize,
    /// How its window grows and falls.
    pub congestion: Congestion,
    /// Bytes that it sends, and more once [`Sender::write`] says so; none: it never ends.
    pub bytes: Option<u64>,
    /// The least that its timeout is above the smoothed round trip; Linux has 200 ms
    /// (`tcp_rto_min_us`).
    pub rto_min: Duration,
}

/// What a sender has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Segments with payload, repeats included.
    pub sent_segments: u64,
    /// Repeats among them.
    pub retransmitted_segments: u64,
    /// Repeats of the SYN.
    pub retransmitted_syns: u32,
    /// Retransmission timeouts that ran out.
    pub rto_timeouts: u64,
    /// Probes of a tail.
    pub probes: u64,
    /// Times that a recovery began.
    pub recoveries: u64,
    /// Reductions of the window that turned out to be mistakes.
    pub undone: u64,
    /// Bytes that are acknowledged.
    pub acknowledged_bytes: u64,
    /// The smoothed round-trip time; none before the first sample.
    pub srtt: Option<Duration>,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The threshold of slow start, in segments.
    pub ssthresh: u32,
    /// What it thinks of what is under way.
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    Probe,
    Reordering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// SYNs so far; the next one is due.
    Due(u32),
    /// When the SYN was sent, and how many before it.
    Waits(Instant, u32),
    Done,
}

/// The sending end of one flow.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    handshake: Handshake,
    control: Control,
    cuts: Cuts,
    mss: u64,
    /// The peer's window: bits of its scale, and the byte where it ends.
    scale: u8,
    window_end: u64,
    /// The number of the first byte on the wire.
    first_number: u32,
    /// The peer's next byte, and its timestamp that is echoed.
    peer_number: u32,
    echo: u32,
    /// An acknowledgement is to be sent, as the handshake's third packet.
    owes_ack: bool,
    /// The probe of the tail is to be sent.
    owes_probe: bool,
    timer: Option<(Timer, Instant)>,
    statistics: Statistics,
}

impl Sender {
    /// Makes a sender whose SYN is due at once.
    pub fn new(now: Instant, config: Config) -> Self {
        let mss = payload_of(announced_mss(config.mtu));
        Self {
            config,
            handshake: Handshake::Due(0),
            control: Control::new(now, config.congestion, config.rto_min),
            cuts: Cuts::default(),
            mss,
            scale: 0,
            window_end: 0,
            // Any number will do; this one goes around 2³² soon.
            first_number: u32::MAX - 100_000,
            peer_number: 0,
            echo: 0,
            owes_ack: false,
            owes_probe: false,
            timer: None,
            statistics: Statistics {
                sent_segments: 0,
                retransmitted_segments: 0,
                retransmitted_syns: 0,
                rto_timeouts: 0,
                probes: 0,
                recoveries: 0,
                undone: 0,
                acknowledged_bytes: 0,
                srtt: None,
                cwnd: INITIAL_WINDOW,
                ssthresh: u32::MAX,
                state: State::Open,
            },
        }
    }

    /// The same sender, which remembers for a round trip that its window was the limit, as Linux's
    /// does: where the application comes and goes, the window grows more.
    pub fn remembering(mut self) -> Self {
        self.control.usage = Some(Usage::default());
        self
    }

    /// Takes an IP packet; false when it is not for this sender.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> bool {
        Segment::read(packet).is_some_and(|segment| self.handle_segment(now, &segment))
    }

    /// Returns the next IP packet to send.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Handshake::Due(before) = self.handshake {
            self.handshake = Handshake::Waits(now, before);
            self.statistics.retransmitted_syns = before;
            let syn = Syn { mss: announced_mss(self.config.mtu), window_scale: 7 };
            return Some(self.segment(now, 0, 0, Some(syn)).write());
        }
        if self.handshake != Handshake::Done {
            return None;
        }
        if std::mem::take(&mut self.owes_probe) {
            return Some(self.probe(now));
        }
        let Some(next) = self.control.next(self.has_new()) else {
            let owes_ack = std::mem::take(&mut self.owes_ack);
            let at = self.control.board.next();
            return owes_ack.then(|| self.segment(now, at, 0, None).write());
        };
        Some(self.send(now, next))
    }

    /// Returns when [`Self::handle_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        match self.handshake {
            Handshake::Due(_) => None,
            Handshake::Waits(at, before) => {
                Some(at + SYN_TIMEOUT * (1 << before.min(SYN_DOUBLINGS)))
            }
            Handshake::Done => self.timer.map(|(_, at)| at),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timeout().is_none_or(|at| now < at) {
            return;
        }
        if let Handshake::Waits(_, before) = self.handshake {
            self.handshake = Handshake::Due(before + 1);
            return;
        }
        match self.timer.take() {
            Some((Timer::Retransmission, _)) => {
                self.control.on_timeout(now);
                self.set(Timer::Retransmission, now + self.control.times.rto());
            }
            Some((Timer::Probe, _)) => self.owes_probe = true,
            Some((Timer::Reordering, _)) => {
                let wait = self.control.on_reordering_timeout(now);
                self.rearm(now, Some(Timer::Reordering));
                if let Some(wait) = wait {
                    self.set_reordering(now, wait);
                }
            }
            None => {}
        }
    }

    /// Gives a sender that ends more bytes, which leave at once where the window is open.
    pub fn write(&mut self, bytes: u64) {
        if let Some(total) = &mut self.config.bytes {
            *total += bytes;
        }
    }

    /// Ends it with what it has sent so far.
    pub fn finish(&mut self) {
        self.config.bytes = Some(self.cuts.end());
    }

    /// Returns how many bytes were written and not sent so far: the window, or the receiver's, is
    /// full.
    pub fn unsent(&self) -> u64 {
        self.config.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(self.cuts.end()))
    }

    /// Tells whether all bytes are acknowledged.
    pub fn is_done(&self) -> bool {
        self.config.bytes.is_some_and(|bytes| self.acknowledged() >= bytes)
    }

    /// Returns what happened so far.
    pub fn statistics(&self) -> Statistics {
        let control = &self.control;
        Statistics {
            rto_timeouts: control.counts.timeouts,
            recoveries: control.counts.recoveries,
            undone: control.counts.undone,
            acknowledged_bytes: self.acknowledged(),
            srtt: control.times.srtt(),
            cwnd: control.window.cwnd,
            ssthresh: control.window.ssthresh,
            state: control.state(),
            ..self.statistics
        }
    }

    /// Takes a segment; false when it is not for this sender.
    pub(super) fn handle_segment(&mut self, now: Instant, segment: &Segment) -> bool {
        let Config { source, destination, .. } = self.config;
        if (segment.source, segment.destination) != (destination, source) {
            return false;
        }
        let Some(ack) = segment.ack else { return true };
        match (self.handshake, segment.syn) {
            (Handshake::Waits(at, before), Some(syn)) if ack == self.first_number => {
                self.begin(now, segment, syn, at, before);
            }
            // The third packet of the handshake was lost.
            (Handshake::Done, Some(_)) => self.owes_ack = true,
            (Handshake::Done, None) => self.on_ack(now, ack, segment),
            _ => {}
        }
        true
    }

    fn begin(&mut self, now: Instant, segment: &Segment, syn: Syn, at: Instant, before: u32) {
        self.handshake = Handshake::Done;
        self.mss = self.mss.min(payload_of(syn.mss));
        self.scale = syn.window_scale.min(14);
        self.window_end = u64::from(segment.window);
        (self.peer_number, self.echo) = (segment.sequence.wrapping_add(1), segment.timestamps.0);
        self.owes_ack = true;
        if before == 0 {
            self.control.times.on_sample(now.since(at), 0, 0);
            self.control.times.on_least(now.since(at));
        } else if before > 1 {
            // One lost SYN says nothing of the link, two do [RFC 6298 §5].
            self.control.window.cwnd = 1;
        }
    }

    fn on_ack(&mut self, now: Instant, number: u32, segment: &Segment) {
        self.echo = segment.timestamps.0;
        let una = self.control.board.una();
        let Some(ack) = self.segment_at(number) else { return };
        let (mut blocks, mut count, mut duplicate) = ([(0, 0); SACK_BLOCKS], 0, None);
        for (start, end) in segment.sack_blocks() {
            let Some(block) = self.block(start, end) else { continue };
            // What lies below, or in the next block, was received twice [RFC 2883 §4].
            if count == 0 && duplicate.is_none() && self.is_duplicate(segment, block, ack) {
                duplicate = Some(block);
            } else {
                (blocks[count], count) = (block, count + 1);
            }
        }
        if ack < una {
            return;
        }
        let end = self.cuts.start_of(ack) + (u64::from(segment.window) << self.scale);
        self.window_end = self.window_end.max(end);
        let ack =
            Ack { now, ack, blocks: &blocks[..count], duplicate, echoed: segment.timestamps.1 };
        let wait = self.control.on_ack(&ack);
        self.cuts.forget(self.control.board.una());
        if let Some(wait) = wait {
            self.set_reordering(now, wait);
        } else if self.control.board.una() > una || self.control.board.is_empty() {
            self.owes_probe = false;
            let pending = self.timer.take().map(|(timer, _)| timer);
            if !self.schedule_probe(now) {
                self.rearm(now, pending);
            }
        }
    }

    fn is_duplicate(&self, segment: &Segment, (_, end): (u64, u64), ack: u64) -> bool {
        let second = segment.sack_blocks().nth(1).and_then(|(start, end)| self.block(start, end));
        let first = segment.sack_blocks().next().and_then(|(start, end)| self.block(start, end));
        let within = |outer: (u64, u64)| first.is_some_and(|(start, _)| outer.0 <= start);
        end <= ack || second.is_some_and(|second| within(second) && end <= second.1)
    }

    /// Returns the segments of a block of bytes.
    fn block(&self, start: u32, end: u32) -> Option<(u64, u64)> {
        let block = (self.segment_at(start)?, self.segment_at(end)?);
        (block.0 < block.1).then_some(block)
    }

    /// Returns the segment that begins with the byte of a number on the wire; none where nothing
    /// was sent so far, or the number is too old.
    fn segment_at(&self, number: u32) -> Option<u64> {
        let una = self.acknowledged();
        let ahead = number.wrapping_sub(self.number_of(una)) as i32;
        let byte = una.checked_add_signed(i64::from(ahead))?;
        self.cuts.segment_at(byte)
    }

    fn acknowledged(&self) -> u64 {
        self.cuts.start_of(self.control.board.una())
    }

    fn number_of(&self, byte: u64) -> u32 {
        self.first_number.wrapping_add(byte as u32)
    }

    /// Tells whether there is a new segment, and room for it at the receiver.
    fn has_new(&self) -> bool {
        let bytes = self.mss.min(self.unsent());
        bytes > 0 && self.cuts.end() + bytes <= self.window_end
    }

    fn send(&mut self, now: Instant, next: Next) -> Vec<u8> {
        let empty = self.control.board.is_empty();
        let (at, is_new) = match next {
            Next::New => (self.control.board.next(), true),
            Next::Repeat(segment) => (segment, false),
        };
        self.control.on_sent(now, next);
        self.cut(is_new);
        self.count(is_new);
        let pending = self.timer.map(|(timer, _)| timer);
        if is_new {
            if empty || pending == Some(Timer::Probe) {
                self.rearm(now, None);
            }
            if pending != Some(Timer::Reordering) {
                self.schedule_probe(now);
            }
        } else if at == self.control.board.una() && pending != Some(Timer::Reordering) {
            self.rearm(now, None);
        }
        self.data(now, at)
    }

    /// Sends the probe of a tail: new data, or the last segment once more [RFC 8985 §7.3].
    fn probe(&mut self, now: Instant) -> Vec<u8> {
        let end = self.control.board.next();
        let (at, next) = match self.has_new() {
            true => (end, Next::New),
            false => (end.saturating_sub(1), Next::Repeat(end.saturating_sub(1))),
        };
        self.control.on_probe(now, next);
        self.cut(next == Next::New);
        self.count(next == Next::New);
        self.statistics.probes += 1;
        self.rearm(now, None);
        self.data(now, at)
    }

    fn cut(&mut self, is_new: bool) {
        if is_new {
            self.cuts.push(self.mss.min(self.unsent()));
        }
    }

    fn count(&mut self, is_new: bool) {
        self.statistics.sent_segments += 1;
        self.statistics.retransmitted_segments += u64::from(!is_new);
    }

    fn data(&mut self, now: Instant, at: u64) -> Vec<u8> {
        self.owes_ack = false;
        let len = self.cuts.start_of(at + 1) - self.cuts.start_of(at);
        self.segment(now, at, len as usize, None).write()
    }

    fn segment(&self, now: Instant, at: u64, len: usize, syn: Option<Syn>) -> Segment {
        // A SYN takes the number before the first byte's.
        let number = self.number_of(self.cuts.start_of(at));
        Segment {
            source: self.config.source,
            destination: self.config.destination,
            sequence: if syn.is_some() { number.wrapping_sub(1) } else { number },
            ack: syn.is_none().then_some(self.peer_number),
            syn,
            window: SYN_WINDOW,
            timestamps: (milliseconds(now), self.echo),
            sack: Default::default(),
            len,
        }
    }

    fn set(&mut self, timer: Timer, at: Instant) {
        self.timer = Some((timer, at));
    }

    fn set_reordering(&mut self, now: Instant, wait: Duration) {
        self.owes_probe = false;
        self.set(Timer::Reordering, now + wait.max(Duration::from_micros(1)));
    }

    /// Sets the retransmission timer, from now on; behind another timer, from when the oldest
    /// segment was sent (Linux's `tcp_rearm_rto`).
    fn rearm(&mut self, now: Instant, behind: Option<Timer>) {
        let Some(oldest) = self.control.board.oldest_sent_at() else {
            self.timer = None;
            return;
        };
        let rto = self.control.times.rto();
        let from =
            if behind.is_none_or(|timer| timer == Timer::Retransmission) { now } else { oldest };
        self.set(Timer::Retransmission, (from + rto).max(now + Duration::from_micros(1)));
    }

    /// Sets the timer of the probe, where a tail may be probed [RFC 8985 §7.2].
    fn schedule_probe(&mut self, now: Instant) -> bool {
        if !self.control.may_probe() || self.control.is_probing() {
            return false;
        }
        let alone = self.control.board.next() - self.control.board.una() == 1;
        let slack = if alone { self.config.rto_min } else { PROBE_SLACK };
        let wait = self.control.times.srtt().map_or(SYN_TIMEOUT, |srtt| srtt * 2 + slack);
        self.set(Timer::Probe, now + wait.min(self.control.times.rto()));
        true
    }
}
