//! The last step of a datagram: those of equal size and route leave in one system call.
//!
//! Only segmentation offload makes sending cheap: 97 ns a datagram in a batch of 46 against 1170
//! alone. A batch takes datagrams of one size and, as its last, a shorter one.

use std::net::{IpAddr, SocketAddr};

use proto::select::Policy;
use proto::{Duration, Instant, PathRef};
use sys::poller::Poller;
use sys::udp::{MAX_BATCH, Outgoing, UdpSocket};

use super::sockets::Sockets;

/// Datagrams that have waited so long for a full socket are dropped: what is in them has been told
/// lost by then, and the telemetry among it, whose age the other end does not judge, has outlived
/// its time.
const LONGEST_WAIT: Duration = Policy::TELEMETRY.ttl;

/// The way by which a datagram leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The slot of the socket at the interface.
    pub(super) slot: usize,
    /// The kernel's number of the interface, where the socket serves several.
    pub(super) interface: Option<u32>,
    pub(super) local: Option<IpAddr>,
    pub(super) destination: SocketAddr,
    pub(super) dscp: u8,
    /// The place of the outlet that it leaves through.
    pub(super) outlet: usize,
}

/// Names a packet of a session by its path and its number there.
type Number = (PathRef, u64);

/// Datagrams that leave together.
#[derive(Debug)]
struct Batch {
    way: Way,
    bytes: Vec<u8>,
    /// Which packets of sessions they are.
    numbers: Vec<Number>,
    /// When the first of them was made.
    since: Instant,
    segment: usize,
    count: usize,
    /// The last one was shorter: nothing can follow it.
    full: bool,
}

/// Datagrams that are collected until they are flushed.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: Vec<Batch>,
    spare: Vec<(Vec<u8>, Vec<Number>)>,
    /// Packets that the kernel refused since the sessions were told: their links have not lost
    /// them.
    pub(super) refused: Vec<Number>,
}

impl Batches {
    /// Adds a datagram; a batch that it does not fit into is sent first.
    pub(super) fn push(
        &mut self,
        now: Instant,
        (way, number): (Way, Option<Number>),
        datagram: &[u8],
        sockets: &mut Sockets,
        poller: &Poller,
    ) {
        let Some(socket) = sockets.list.get_mut(&way.slot) else { return };
        let outlet = socket.outlets.get(way.outlet).filter(|outlet| !outlet.blocked.is_empty());
        if let Some(for_strangers) = outlet.map(|outlet| outlet.for_strangers) {
            sockets.block(way.slot, way.outlet, way.interface, poller);
            if for_strangers || self.waiting(&way) + datagram.len() > MAX_BATCH {
                if let Some(socket) = sockets.list.get_mut(&way.slot) {
                    socket.errors += u64::from(!for_strangers);
                }
                return;
            }
        }
        let udp = sockets.list.get(&way.slot).and_then(|socket| socket.udp.as_ref());
        let most = udp.map_or(1, UdpSocket::max_segments);
        let found = self.open.iter().position(|batch| batch.way == way);
        if let Some(at) = found {
            let batch = &mut self.open[at];
            let room = batch.count < most && batch.bytes.len() + datagram.len() <= MAX_BATCH;
            if room && !batch.full && datagram.len() <= batch.segment {
                batch.full = datagram.len() < batch.segment;
                batch.bytes.extend_from_slice(datagram);
                batch.numbers.extend(number);
                batch.count += 1;
                return;
            }
            let batch = self.open.remove(at);
            self.send(now, batch, sockets, poller);
        }
        let (mut bytes, mut numbers) = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        numbers.clear();
        numbers.extend(number);
        let (since, segment) = (now, datagram.len());
        self.open.push(Batch { way, bytes, numbers, since, segment, count: 1, full: false });
    }

    /// Sends everything that can be sent; what a full socket does not take stays.
    pub(super) fn flush(&mut self, now: Instant, sockets: &mut Sockets, poller: &Poller) {
        for batch in std::mem::take(&mut self.open) {
            self.send(now, batch, sockets, poller);
        }
    }

    /// Drops what waits for a socket that is gone.
    pub(super) fn forget(&mut self, slot: usize) {
        self.open.retain(|batch| batch.way.slot != slot);
    }

    /// Bytes that wait for an outlet whose socket is full.
    fn waiting(&self, way: &Way) -> usize {
        let place = (way.slot, way.outlet);
        let batches = self.open.iter().filter(|batch| (batch.way.slot, batch.way.outlet) == place);
        batches.map(|batch| batch.bytes.len()).sum()
    }

    fn send(&mut self, now: Instant, mut batch: Batch, sockets: &mut Sockets, poller: &Poller) {
        let Some(socket) = sockets.list.get_mut(&batch.way.slot) else { return };
        if now.since(batch.since) >= LONGEST_WAIT {
            // Its session finds it lost, and counts it so.
            return;
        }
        let Some(outlet) = socket.outlets.get(batch.way.outlet) else { return };
        let for_strangers = outlet.for_strangers;
        let Some(udp) = outlet.socket.as_mut().or(socket.udp.as_mut()) else { return };
        if !outlet.blocked.is_empty() {
            self.open.push(batch);
            return;
        }
        let outgoing = Outgoing {
            destination: batch.way.destination,
            local: batch.way.local,
            interface: batch.way.interface,
            dscp: batch.way.dscp,
            ecn: 0,
            bytes: &batch.bytes,
            segment: batch.segment,
        };
        let mut sent = udp.send(&outgoing);
        // The interface that the question came by is gone, perhaps replaced by another of the same
        // name: the routes know better.
        if outgoing.interface.is_some() && is_gone(&sent) {
            sent = udp.send(&Outgoing { interface: None, ..outgoing });
        }
        match sent {
            Ok(sent) if sent < batch.bytes.len() => {
                sockets.block(batch.way.slot, batch.way.outlet, batch.way.interface, poller);
                if for_strangers {
                    return;
                }
                batch.bytes.drain(..sent);
                let left = sent / batch.segment;
                batch.numbers.drain(..left.min(batch.numbers.len()));
                batch.count -= left;
                self.open.push(batch);
                return;
            }
            Ok(_) => socket.last_error = None,
            // A stranger's address may not exist: that is no fault of this socket.
            Err(error) if for_strangers => {
                tracing::debug!(link = %socket.name, to = %batch.way.destination, %error, "answer");
            }
            Err(error) => {
                let error = error.to_string();
                if socket.is_news(&error) {
                    tracing::warn!(link = %socket.name, to = %batch.way.destination, error, "send");
                }
                socket.errors += batch.count as u64;
                self.refused.append(&mut batch.numbers);
                socket.last_error = Some(error);
            }
        }
        self.spare.push((batch.bytes, batch.numbers));
    }
}

fn is_gone(sent: &std::io::Result<usize>) -> bool {
    /// ENODEV of Linux.
    const NO_SUCH_DEVICE: i32 = 19;
    matches!(sent, Err(error) if error.raw_os_error() == Some(NO_SUCH_DEVICE))
}
