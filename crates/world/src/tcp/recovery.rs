//! What an acknowledgement, or its absence, means: Linux's states, PRR and the undoing of mistakes.
//!
//! ```text
//! Open ── SACK ──→ Disorder ── RACK: lost ──→ Recovery ── all acknowledged ──→ Open
//!   any ── RTO ──→ Loss ── all acknowledged ──→ Open;  a repeat lost ──→ Recovery
//! Recovery: sndcnt by PRR [RFC 6937 §3.1]: in proportion above ssthresh, slow start below
//! undo:     the timestamp echoed is older than the first repeat [RFC 3522], a DSACK came for each
//!           repeat [RFC 3708], or what was sent once is acknowledged after an RTO (F-RTO) [RFC
//!           5682 §3.1]
//! ```
//! Written after `tcp_input.c` of Linux 6. A TLP that repaired a loss reduces the window at once
//! [RFC 8985 §7.4].

use units::{Duration, Instant};

use super::congestion::{Congestion, CongestionControl, Moment, Window};
use super::rtt::RoundTrips;
use super::scoreboard::{Losses, Progress, Scoreboard};
use super::usage::Usage;

/// Linux's `tcp_ca_state`, without ECN's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is missing.
    Open,
    /// Something is sacked, nothing is thought lost.
    Disorder,
    /// Something was lost, and is sent again.
    Recovery,
    /// A retransmission timeout has run out.
    Loss,
}

/// One acknowledgement, in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack<'a> {
    pub(super) now: Instant,
    pub(super) ack: u64,
    pub(super) blocks: &'a [(u64, u64)],
    /// What the peer says that it has received twice.
    pub(super) duplicate: Option<(u64, u64)>,
    /// The timestamp that it echoes.
    pub(super) echoed: u32,
}

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    New,
    Repeat(u64),
}

/// What a mistake would give back.
#[derive(Debug)]
struct Undo {
    /// The oldest segment when the window was reduced.
    marker: u64,
    /// Repeats since whose DSACK has not come; none before the first.
    repeats: Option<u32>,
    cwnd: u32,
    ssthresh: u32,
}

/// Proportional rate reduction.
#[derive(Debug, Default)]
struct Prr {
    prior_cwnd: u32,
    delivered: u32,
    out: u32,
}

/// Counts for statistics.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) recoveries: u64,
    pub(super) timeouts: u64,
    pub(super) undone: u64,
}

/// Window, segments and state of a connection.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) board: Scoreboard,
    pub(super) window: Window,
    pub(super) times: RoundTrips,
    pub(super) counts: Counts,
    state: State,
    congestion: Box<dyn CongestionControl>,
    /// The next new segment when the present state began.
    high: u64,
    undo: Option<Undo>,
    /// Own clock in ms at the first repeat.
    first_repeat: Option<u32>,
    prr: Prr,
    /// F-RTO looks whether the timeout was for nothing; and has asked for new segments to find out.
    frto: bool,
    new_first: bool,
    /// Timeouts in a row.
    in_a_row: u32,
    /// The window was what the sender was last stopped by.
    limited: bool,
    /// What Linux remembers of that, where it is asked for.
    pub(super) usage: Option<Usage>,
    /// The segment after the last one when a tail was probed, and whether the probe was a repeat.
    probe: Option<(u64, bool)>,
}

impl Control {
    /// Begins a connection.
    pub(super) fn new(now: Instant, congestion: Congestion, rto_min: Duration) -> Self {
        Self {
            board: Scoreboard::default(),
            window: Window::default(),
            times: RoundTrips::new(rto_min),
            counts: Counts::default(),
            state: State::Open,
            congestion: congestion.make(now),
            high: 0,
            undo: None,
            first_repeat: None,
            prr: Prr::default(),
            frto: false,
            new_first: false,
            in_a_row: 0,
            limited: false,
            usage: None,
            probe: None,
        }
    }

    /// Returns its state.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Tells whether the tail may be probed.
    pub(super) fn may_probe(&self) -> bool {
        self.state == State::Open && !self.board.is_empty()
    }

    /// Tells whether a probe is under way.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Takes an acknowledgement; returns how long RACK waits until it looks again.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) -> Option<Duration> {
        let prior_una = self.board.una();
        if let Some((_, end)) = ack.duplicate {
            self.on_duplicate(ack.now, end);
        }
        let min = self.times.min();
        let progress = self.board.on_ack(ack.now, ack.ack, ack.blocks, self.high, min);
        let advanced = self.board.una() > prior_una;
        if advanced {
            self.in_a_row = 0;
        }
        self.on_round_trips(ack, &progress);
        self.on_probe_acked(ack, advanced, &progress);
        let losses = self.judge(ack, advanced, &progress);
        match self.state {
            State::Recovery => self.reduce(progress.delivered, advanced && losses.segments == 0),
            _ if self.may_raise(&progress) => {
                self.congestion.on_acked(ack.now, &mut self.window, progress.delivered);
            }
            _ => {}
        }
        losses.wait
    }

    /// Takes the retransmission timer's end: all that was not sent lately is lost.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        let (una, next) = (self.board.una(), self.board.next());
        let fresh = matches!(self.state, State::Open | State::Disorder);
        if fresh || self.high <= una || (self.state == State::Loss && self.in_a_row == 0) {
            self.begin_undo();
            self.window.ssthresh = self.congestion.ssthresh(&self.window);
        }
        self.congestion.on_timeout(Moment { now, una, next }, &mut self.window);
        self.board.on_timeout(now);
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.count = 0;
        self.frto = fresh || self.in_a_row > 0;
        (self.state, self.high) = (State::Loss, next);
        (self.new_first, self.probe) = (false, None);
        self.in_a_row += 1;
        self.counts.timeouts += 1;
        self.times.back_off();
    }

    /// Takes the end of RACK's wait; returns how long the next one is.
    pub(super) fn on_reordering_timeout(&mut self, now: Instant) -> Option<Duration> {
        let losses = self.detect(now);
        if losses.segments > 0 {
            if matches!(self.state, State::Open | State::Disorder) {
                self.enter_recovery();
            }
            if self.state == State::Recovery {
                self.reduce(1, false);
            }
        }
        losses.wait
    }

    /// Returns what may be sent now, if there is new data where `has_new`.
    pub(super) fn next(&mut self, has_new: bool) -> Option<Next> {
        self.limited = self.board.in_flight() >= self.window.cwnd;
        let mut next = None;
        if !self.limited {
            let repeat = if self.new_first { None } else { self.board.next_repeat() };
            next = repeat.map(Next::Repeat).or(has_new.then_some(Next::New));
        }
        if let Some(usage) = self.usage.as_mut().filter(|_| next.is_none()) {
            usage.on_stopped(self.limited, self.board.una(), self.board.next());
        }
        next
    }

    /// Takes down that a segment was sent.
    pub(super) fn on_sent(&mut self, now: Instant, what: Next) {
        match what {
            Next::New => self.board.on_sent(now),
            Next::Repeat(segment) => {
                self.board.on_repeated(segment, now);
                self.first_repeat.get_or_insert(milliseconds(now));
                if let Some(undo) = &mut self.undo {
                    undo.repeats = Some(undo.repeats.unwrap_or(0) + 1);
                }
            }
        }
        self.prr.out += 1;
        if let Some(usage) = &mut self.usage {
            usage.on_sent();
        }
    }

    /// Takes down that the tail is probed by this segment, beyond the window if need be.
    pub(super) fn on_probe(&mut self, now: Instant, what: Next) {
        self.on_sent(now, what);
        self.probe = Some((self.board.next(), what != Next::New));
    }

    fn on_duplicate(&mut self, now: Instant, end: u64) {
        if let Some(undo) = self.undo.as_mut().filter(|undo| end > undo.marker) {
            undo.repeats = undo.repeats.map(|repeats| repeats.saturating_sub(1));
        }
        if self.probe.is_none_or(|(high, _)| end < high) {
            self.board.on_duplicate(now, self.times.srtt().unwrap_or_default());
        }
    }

    fn on_round_trips(&mut self, ack: &Ack<'_>, progress: &Progress) {
        let once = !progress.repeated;
        let exact = progress.first_rtt.filter(|_| once);
        let echoed = || {
            let ms = milliseconds(ack.now).wrapping_sub(ack.echoed);
            (progress.acked > 0).then(|| Duration::from_millis(u64::from(ms.max(1))))
        };
        let latest = progress.last_rtt.filter(|_| once).or(progress.sack_rtt);
        let (una, next) = (self.board.una(), self.board.next());
        if let Some(rtt) = exact.or(progress.sack_rtt).or_else(echoed) {
            self.times.on_sample(rtt, una, next);
        }
        if let Some(rtt) = latest {
            self.times.on_least(rtt);
            let moment = Moment { now: ack.now, una, next };
            self.congestion.on_round_trip(moment, &mut self.window, rtt);
        }
    }

    /// Tells what a probe of the tail has brought [RFC 8985 §7.4].
    fn on_probe_acked(&mut self, ack: &Ack<'_>, advanced: bool, progress: &Progress) {
        let Some((high, repeated)) = self.probe.filter(|(high, _)| ack.ack >= *high) else {
            return;
        };
        let both_came = ack.duplicate.is_some() || (!advanced && progress.sacked == 0);
        if !repeated || both_came {
            self.probe = None;
        } else if ack.ack > high {
            // Only the probe came: what it repeated was lost.
            self.window.ssthresh = self.congestion.ssthresh(&self.window);
            self.congestion.on_mended(&mut self.window);
            self.window.cwnd = self.window.ssthresh;
            self.probe = None;
        }
    }

    /// Linux's `tcp_fastretrans_alert`.
    fn judge(&mut self, ack: &Ack<'_>, advanced: bool, progress: &Progress) -> Losses {
        if self.state == State::Recovery && self.board.una() >= self.high {
            self.leave_recovery(ack.echoed);
        }
        match self.state {
            State::Recovery => {
                if advanced && self.undo_partially(ack.echoed) {
                    return Losses::default();
                }
                if self.undo_by_duplicates() {
                    self.open();
                }
            }
            State::Loss => {
                self.on_ack_after_timeout(ack, advanced, progress);
            }
            State::Open | State::Disorder => {
                self.undo_by_duplicates();
            }
        }
        let losses = self.detect(ack.now);
        match self.state {
            State::Recovery => {}
            State::Loss if !losses.repeat => {}
            _ if self.board.lost() > 0 => self.enter_recovery(),
            _ => self.open(),
        }
        losses
    }

    /// Linux's `tcp_process_loss`.
    fn on_ack_after_timeout(&mut self, ack: &Ack<'_>, advanced: bool, progress: &Progress) {
        self.new_first = false;
        let recovered = self.board.una() >= self.high;
        let spurious = self.frto && progress.original;
        if spurious || (advanced && self.may_undo(ack.echoed)) {
            self.undo(true);
            self.state = State::Open;
            return;
        }
        if self.frto {
            let repeated = ack.duplicate.is_none() && !advanced;
            if self.board.next() > self.high {
                // The new segments came and the old ones did not: the loss was real.
                self.frto = progress.sacked == 0 && !repeated;
            } else if advanced && !recovered {
                (self.high, self.new_first) = (self.board.next(), true);
                return;
            }
        }
        if recovered {
            self.leave_recovery(ack.echoed);
        }
    }

    fn detect(&mut self, now: Instant) -> Losses {
        let in_recovery = matches!(self.state, State::Recovery | State::Loss);
        let srtt = self.times.srtt().unwrap_or_default();
        self.board.detect(now, self.times.min(), srtt, in_recovery)
    }

    fn enter_recovery(&mut self) {
        self.begin_undo();
        self.prr = Prr { prior_cwnd: self.window.cwnd, ..Prr::default() };
        self.window.ssthresh = self.congestion.ssthresh(&self.window);
        self.window.count = 0;
        (self.state, self.high) = (State::Recovery, self.board.next());
        (self.new_first, self.probe) = (false, None);
        self.counts.recoveries += 1;
    }

    /// Ends a recovery whose segments are all acknowledged.
    fn leave_recovery(&mut self, echoed: u32) {
        let reduced = self.state == State::Recovery;
        if self.may_undo(echoed) {
            self.undo(false);
        } else {
            self.board.on_recovered();
            if reduced {
                self.window.cwnd = self.window.ssthresh;
                self.congestion.on_recovered(&mut self.window);
            }
        }
        self.state = State::Open;
    }

    /// Finds nothing lost.
    fn open(&mut self) {
        let board = &self.board;
        let disorder = board.sacked() + board.lost() + board.again() > 0;
        let state = if disorder { State::Disorder } else { State::Open };
        if !disorder {
            self.first_repeat = None;
        }
        if self.state != state {
            (self.state, self.high) = (state, self.board.next());
        }
    }

    /// Linux's `tcp_cwnd_reduction`: PRR with slow start.
    fn reduce(&mut self, delivered: u32, is_good: bool) {
        if delivered == 0 || self.prr.prior_cwnd == 0 {
            return;
        }
        let (in_flight, ssthresh) = (self.board.in_flight(), self.window.ssthresh);
        let prr = &mut self.prr;
        prr.delivered += delivered;
        let count = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(prr.delivered);
            (share.div_ceil(u64::from(prr.prior_cwnd)) as u32).saturating_sub(prr.out)
        } else {
            let bound = prr.delivered.saturating_sub(prr.out).max(delivered);
            (bound + u32::from(is_good)).min(ssthresh - in_flight)
        };
        // The first repeat goes at once.
        let least = u32::from(prr.out == 0);
        self.window.cwnd = in_flight + count.max(least);
    }

    fn may_raise(&self, progress: &Progress) -> bool {
        // Linux lets SACK count where the order of segments changes.
        let counts = progress.acked > 0 || (self.board.reordering_seen() && progress.delivered > 0);
        let (cwnd, slow_start) = (self.window.cwnd, self.window.in_slow_start());
        let grows = match &self.usage {
            Some(usage) => usage.may_raise(cwnd, slow_start),
            None => self.limited || (slow_start && cwnd < 2 * self.board.in_flight()),
        };
        counts && grows
    }

    fn begin_undo(&mut self) {
        if self.board.again() == 0 {
            self.first_repeat = None;
        }
        let repeats = Some(self.board.again() as u32).filter(|&again| again > 0);
        let cwnd = self.window.cwnd;
        // Linux's tcp_current_ssthresh.
        let ssthresh = self.window.ssthresh.max(cwnd / 2 + cwnd / 4);
        self.undo = Some(Undo { marker: self.board.una(), repeats, cwnd, ssthresh });
    }

    /// Tells whether everything that was repeated came twice, or came before its repeat.
    fn may_undo(&self, echoed: u32) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.repeats == Some(0) || self.came_late(echoed))
    }

    /// Eifel: what is acknowledged was sent before the first repeat [RFC 3522 §3.2].
    fn came_late(&self, echoed: u32) -> bool {
        self.first_repeat.is_some_and(|first| (echoed.wrapping_sub(first) as i32) < 0)
    }

    fn undo_partially(&mut self, echoed: u32) -> bool {
        if self.undo.is_none() || !self.came_late(echoed) {
            return false;
        }
        self.board.on_reordering();
        if self.board.again() == 0 {
            self.undo(true);
            self.open();
        }
        true
    }

    fn undo_by_duplicates(&mut self) -> bool {
        let all_came = self.undo.as_ref().is_some_and(|undo| undo.repeats == Some(0));
        if all_came {
            self.undo(false);
        }
        all_came
    }

    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if let Some(undo) = self.undo.take() {
            self.window.cwnd = self.window.cwnd.max(undo.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
            self.congestion.on_undone();
            self.counts.undone += 1;
        }
    }
}

/// Returns what a timestamp says: ms, around every 49 days.
pub(super) fn milliseconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}
