//! The receiver: its handshake, the bytes in order, and when it acknowledges, as Linux does.
//!
//! ```text
//! at once:   the first 16 segments, every second one, gaps and what fills them, what came twice
//!            (DSACK)
//! 40 ms:     one that stays alone
//! together:  beyond three for one gap, acknowledgements wait for min(1 ms, rtt/20), at most 44 of
//!            them
//! ```
//! *Deviations from Linux*: the window is constant and never limits by itself; the application
//! reads at once; old timestamps are not refused (PAWS); the delay of ACKs does not adapt below 40
//! ms.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use units::{Duration, Instant};

use super::recovery::milliseconds;
use super::segment::{SACK_BLOCKS, Segment, Syn, announced_mss, payload_of};
use super::sender::{SYN_DOUBLINGS, SYN_TIMEOUT, SYN_WINDOW};

/// The window of a receiver that Linux has let grow, in bytes: `tcp_rmem`'s default limit.
pub const WINDOW: u64 = 6 << 20;
/// Bits by which the window is shifted.
const WINDOW_SCALE: u8 = 7;
/// Segments acknowledged at once, at the beginning and after a pause.
const QUICK: u32 = 16;
/// How long an acknowledgement waits for a second segment.
const DELAY: Duration = Duration::from_millis(40);
/// Acknowledgements of one gap that go at once, and those that one may stand for afterwards.
const AT_ONCE: u32 = 3;
const TOGETHER: u32 = 44;
const TOGETHER_DELAY: Duration = Duration::from_millis(1);
/// Pieces out of order whose order of coming is remembered.
const RECENT: usize = 8;

/// The receiving end of one flow.
#[derive(Debug)]
pub struct Receiver {
    local: SocketAddrV4,
    mtu: usize,
    window: u64,
    peer: Option<Peer>,
    /// The next byte in order.
    next: u64,
    /// What came beyond it, from where to where.
    pieces: BTreeMap<u64, u64>,
    /// Bytes of the pieces that came last, newest first.
    recent: Vec<u64>,
    duplicate: Option<(u64, u64)>,
    /// What the last acknowledgement said.
    acknowledged: u64,
    quick: u32,
    last_data: Option<Instant>,
    /// Acknowledgements for the present gap, and those that wait.
    for_gap: (u64, u32),
    waiting: u32,
    owes: bool,
    due: Option<Instant>,
    /// Segments with payload that came, and those that came twice.
    segments: u64,
    duplicates: u64,
}

/// What is known of the sender.
#[derive(Debug)]
struct Peer {
    address: SocketAddrV4,
    first_number: u32,
    mss: u64,
    /// Its timestamp that is echoed.
    echo: u32,
    /// When the SYN-ACK was sent, and how many before it; none when it was answered.
    opening: Option<(Instant, u32)>,
    rtt: Duration,
}

impl Receiver {
    /// Makes a receiver that waits for a SYN, with a window in bytes ([`WINDOW`], as a rule).
    pub fn new(local: SocketAddrV4, mtu: usize, window: u64) -> Self {
        Self {
            local,
            mtu,
            window,
            peer: None,
            next: 0,
            pieces: BTreeMap::new(),
            recent: Vec::new(),
            duplicate: None,
            acknowledged: 0,
            quick: QUICK,
            last_data: None,
            for_gap: (0, 0),
            waiting: 0,
            owes: false,
            due: None,
            segments: 0,
            duplicates: 0,
        }
    }

    /// Takes an IP packet; false when it is not for this receiver.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> bool {
        Segment::read(packet).is_some_and(|segment| self.handle_segment(now, &segment))
    }

    /// Returns the next IP packet to send.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.owes) {
            return None;
        }
        self.due = None;
        let blocks = self.blocks();
        let peer = self.peer.as_mut()?;
        let syn = match &mut peer.opening {
            Some((at, _)) => {
                *at = now;
                Some(Syn { mss: announced_mss(self.mtu), window_scale: WINDOW_SCALE })
            }
            None => None,
        };
        let number = |byte: u64| peer.first_number.wrapping_add(byte as u32);
        let scaled = (self.window >> WINDOW_SCALE).min(SYN_WINDOW.into()) as u16;
        let segment = Segment {
            source: self.local,
            destination: peer.address,
            sequence: u32::from(syn.is_none()),
            ack: Some(number(self.next)),
            window: if syn.is_some() { SYN_WINDOW } else { scaled },
            syn,
            timestamps: (milliseconds(now), peer.echo),
            sack: blocks.map(|(start, end)| (number(start), number(end))),
            len: 0,
        };
        self.duplicate = None;
        (self.acknowledged, self.waiting) = (self.next, 0);
        self.quick = self.quick.saturating_sub(1);
        Some(segment.write())
    }

    /// Returns when [`Self::handle_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        let opening = self.peer.as_ref().and_then(|peer| peer.opening);
        let opening =
            opening.map(|(at, before)| at + SYN_TIMEOUT * (1 << before.min(SYN_DOUBLINGS)));
        [opening, self.due].into_iter().flatten().min().filter(|_| !self.owes)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timeout().is_none_or(|at| now < at) {
            return;
        }
        if let Some((_, before)) = self.peer.as_mut().and_then(|peer| peer.opening.as_mut()) {
            *before += 1;
        }
        self.owes = true;
    }

    /// Returns the bytes that the application has read, in order.
    pub fn received_bytes(&self) -> u64 {
        self.next
    }

    /// Returns how many segments with payload came, and how many of them for nothing.
    pub fn segments(&self) -> (u64, u64) {
        (self.segments, self.duplicates)
    }

    /// Takes a segment; false when it is not for this receiver.
    pub(super) fn handle_segment(&mut self, now: Instant, segment: &Segment) -> bool {
        let from_peer = self.peer.as_ref().is_none_or(|peer| peer.address == segment.source);
        if segment.destination != self.local || !from_peer {
            return false;
        }
        if let Some(syn) = segment.syn {
            self.on_syn(now, segment, syn);
            return true;
        }
        let Some(peer) = &mut self.peer else { return true };
        if let Some((at, _)) = peer.opening.take() {
            peer.rtt = now.since(at);
        }
        let ahead = segment.sequence.wrapping_sub(peer.first_number.wrapping_add(self.next as u32));
        let Some(start) = self.next.checked_add_signed(i64::from(ahead as i32)) else {
            return true;
        };
        if start <= self.acknowledged {
            // The timestamp of the segment that an acknowledgement answers first [RFC 7323 §4.3].
            peer.echo = segment.timestamps.0;
        }
        if segment.len > 0 && start + segment.len as u64 <= self.next + self.window {
            self.on_data(now, start, start + segment.len as u64);
        }
        true
    }

    fn on_syn(&mut self, now: Instant, segment: &Segment, syn: Syn) {
        if self.peer.is_none() {
            self.peer = Some(Peer {
                address: segment.source,
                first_number: segment.sequence.wrapping_add(1),
                mss: payload_of(syn.mss.min(announced_mss(self.mtu))),
                echo: segment.timestamps.0,
                opening: Some((now, 0)),
                rtt: Duration::ZERO,
            });
        } else if let Some(peer) = self.peer.as_mut().filter(|peer| peer.opening.is_some()) {
            peer.echo = segment.timestamps.0;
        }
        self.owes = true;
    }

    fn on_data(&mut self, now: Instant, start: u64, end: u64) {
        self.segments += 1;
        let rtt = self.peer.as_ref().map_or(Duration::ZERO, |peer| peer.rtt);
        let pause = self.last_data.replace(now).map(|last| now.since(last));
        if pause.is_some_and(|pause| pause > rtt + Duration::from_millis(200)) {
            self.quick = QUICK;
        }
        if self.has(start, end) {
            self.duplicates += 1;
            self.duplicate = Some((start, end));
            self.owes = true;
        } else if start <= self.next {
            self.next = end.max(self.next);
            self.on_in_order(now, rtt);
        } else {
            self.keep(start, end);
            self.on_gap(now, rtt);
        }
    }

    fn has(&self, start: u64, end: u64) -> bool {
        let before = self.pieces.range(..=start).next_back();
        end <= self.next || before.is_some_and(|(_, piece_end)| end <= *piece_end)
    }

    fn on_in_order(&mut self, now: Instant, rtt: Duration) {
        let gaps = !self.pieces.is_empty();
        while let Some(piece) = self.pieces.first_entry().filter(|piece| *piece.key() <= self.next)
        {
            self.next = self.next.max(piece.remove());
        }
        self.recent.retain(|byte| *byte >= self.next);
        let mss = self.peer.as_ref().map_or(1, |peer| peer.mss);
        let second = self.next - self.acknowledged > mss;
        if second || self.quick > 0 || (gaps && self.pieces.is_empty()) {
            self.owes = true;
        } else if !self.pieces.is_empty() {
            self.on_gap(now, rtt);
        } else {
            self.due = self.due.or(Some(now + DELAY));
        }
    }

    /// Keeps a piece beyond a gap, joined with its neighbours.
    fn keep(&mut self, mut start: u64, mut end: u64) {
        self.recent.insert(0, start);
        self.recent.truncate(RECENT);
        while let Some((&piece, &piece_end)) = self.pieces.range(..=end).next_back() {
            if piece_end < start {
                break;
            }
            (start, end) = (start.min(piece), end.max(piece_end));
            self.pieces.remove(&piece);
        }
        self.pieces.insert(start, end);
    }

    /// Acknowledges beyond a gap: at once a few times, then together (Linux's `tcp_comp_sack`).
    fn on_gap(&mut self, now: Instant, rtt: Duration) {
        if self.for_gap.0 != self.next {
            self.for_gap = (self.next, 0);
        }
        if self.quick > 0 || self.for_gap.1 < AT_ONCE || self.waiting >= TOGETHER {
            self.for_gap.1 += 1;
            self.owes = true;
            return;
        }
        self.waiting += 1;
        if self.waiting == 1 {
            self.due = Some(now + TOGETHER_DELAY.min(rtt / 20));
        }
    }

    /// Returns what an acknowledgement tells beside its number: what came twice, then the newest
    /// pieces.
    fn blocks(&self) -> [(u64, u64); SACK_BLOCKS] {
        let (mut blocks, mut count) = ([(0, 0); SACK_BLOCKS], 0);
        if let Some(duplicate) = self.duplicate {
            (blocks[0], count) = (duplicate, 1);
        }
        let recent = self.recent.iter().filter_map(|byte| self.pieces.range(..=*byte).next_back());
        for (&start, &end) in recent.chain(&self.pieces) {
            let told = blocks[usize::from(self.duplicate.is_some())..count].contains(&(start, end));
            if count < SACK_BLOCKS && !told {
                (blocks[count], count) = ((start, end), count + 1);
            }
        }
        blocks
    }
}
