//! The first half of a link: the drop-tail queue in front of the transmitter.
//!
//! Decides at entry whether a packet is let in. `transmitter.rs` decides when it is transmitted,
//! `air.rs` what happens to it afterwards.

use super::model::{LinkModel, QueueLimit};
use super::outage::Calendar;
use super::transmitter::{Transmission, Transmitter};
use super::verdict::{DropCause, LinkStats};
use crate::medium::Medium;
use std::collections::VecDeque;
use units::{Duration, Instant};

/// A packet that would wait for longer than a day is never served: no run waits that long for a
/// packet, and recordings need not be followed into the far future.
const SERVED_WITHIN: Duration = Duration::from_secs(86_400);

/// The queue and the transmitter of one direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    transmitter: Transmitter,
    limit: QueueLimit,
    /// The outages of the present; none before the scenario's time zero.
    holds: Calendar,
    /// The outages from the scenario's time zero.
    scheduled: Calendar,
    /// Start of transmission and length of the packets that wait, in order.
    waiting: VecDeque<(Instant, u64)>,
    waiting_bytes: u64,
    packets_max: u64,
    bytes_max: u64,
    /// When the last packet entered.
    latest: Instant,
}

impl Sender {
    pub(crate) fn new(model: &LinkModel, holds: Calendar) -> Self {
        Self {
            transmitter: Transmitter::new(model),
            limit: model.queue,
            holds: Calendar::default(),
            scheduled: holds,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            packets_max: 0,
            bytes_max: 0,
            latest: Instant::ZERO,
        }
    }

    /// Sets the scenario's time zero to `origin`; until this is called it never comes.
    pub(crate) fn begin(&mut self, origin: Instant) {
        self.transmitter.begin(origin);
        self.holds = self.scheduled.later(origin.since(Instant::ZERO));
    }

    /// Lets a packet in at `at` and returns when it is transmitted.
    ///
    /// A packet that is older than its predecessor counts as having entered together with it.
    pub(crate) fn admit(
        &mut self,
        at: Instant,
        len: usize,
        medium: Option<&mut Medium>,
    ) -> Result<Transmission, DropCause> {
        let at = at.max(self.latest);
        self.latest = at;
        self.forget_started(at);
        let transmission = self.transmitter.plan(at, len, &self.holds, medium.as_deref());
        if transmission.start > at {
            self.check_room(at, len as u64)?;
        }
        if transmission.end.since(at) > SERVED_WITHIN {
            return Err(DropCause::NeverServed);
        }
        if transmission.start > at {
            // At the end, but for what goes aside and still waits for an outage that holds.
            let place = self.waiting.partition_point(|&(start, _)| start <= transmission.start);
            self.waiting.insert(place, (transmission.start, len as u64));
            self.waiting_bytes += len as u64;
            self.packets_max = self.packets_max.max(self.waiting.len() as u64);
            self.bytes_max = self.bytes_max.max(self.waiting_bytes);
        }
        self.transmitter.commit(at, &transmission, medium);
        Ok(transmission)
    }

    /// Writes the most that ever waited into `stats`.
    pub(crate) fn report(&self, stats: &mut LinkStats) {
        stats.queue_packets_max = self.packets_max;
        stats.queue_bytes_max = self.bytes_max;
    }

    fn forget_started(&mut self, at: Instant) {
        while let Some(&(start, len)) = self.waiting.front()
            && start <= at
        {
            self.waiting.pop_front();
            self.waiting_bytes -= len;
        }
    }

    fn check_room(&self, at: Instant, len: u64) -> Result<(), DropCause> {
        let limit = self.holds.queue(at).unwrap_or(self.limit);
        let packets_fit = limit.packets.is_none_or(|most| (self.waiting.len() as u64) < most);
        let bytes_fit = limit.bytes.is_none_or(|most| self.waiting_bytes + len <= most);
        if packets_fit && bytes_fit { Ok(()) } else { Err(DropCause::Queue) }
    }
}
