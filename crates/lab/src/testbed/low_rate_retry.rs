//! TCP over one link with low-rate retry [FlowCode §V]: a shim at each end, between a tunnel and a
//! socket.
//!
//! ```text
//! kernel's TCP ═ tunnel ─► shim: packet as it is ─► UDP ═ link ═ UDP ─► shim ─► tunnel
//! ```
//! What is repeated and when is [`LowRateRetry`]'s, the one that the world has below its TCP; here
//! are its packets and its clock.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use sys::clock::now;
use sys::poller::{Interest, Poller};
use sys::realtime::prefer_realtime;
use sys::tun::Tun;
use sys::wakeup::Wakeup;
use units::Rate;
use world::tcp::LowRateRetry;

use super::links::{Copy, Side};

/// Port of both ends on the link.
const PORT: u16 = 14_720;
/// The tunnel's interface in both hosts.
const INTERFACE: &str = "lrr";
/// Bytes of a packet on the link around one of the tunnel: IP and UDP.
pub(crate) const AROUND: usize = 28;
/// Priority among real-time threads, below the emulator's: the shim stands for a part of the
/// kernel.
const PRIORITY: i32 = 6;
/// Bytes of the largest packet, and more.
const LARGEST: usize = 2_048;
const TUNNEL: u64 = 0;
const LINK: u64 = 1;
const END: u64 = 2;

/// Returns a side's address in the tunnel.
pub(crate) fn address(side: Side) -> Ipv4Addr {
    match side {
        Side::Station => Ipv4Addr::new(10, 97, 0, 1),
        Side::Drone => Ipv4Addr::new(10, 97, 0, 2),
    }
}

/// The shims of both sides of a copy; dropping it ends them, and their tunnels.
pub(crate) struct LowRateTunnel {
    shims: [Shim; 2],
}

/// One side's.
struct Shim {
    end: Arc<Wakeup>,
    repeats: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What a shim's thread has.
struct Ends {
    tunnel: Tun,
    link: UdpSocket,
    retry: LowRateRetry,
    repeats: Arc<AtomicU64>,
}

impl LowRateTunnel {
    /// Starts both over the first link of a copy, for packets of at most `mtu` bytes that are
    /// repeated at a rate.
    ///
    /// # Errors
    /// When the kernel gives no tunnel, or no socket.
    pub(crate) fn start(copy: &Copy<'_>, mtu: u16, rate: Rate) -> Result<Self, String> {
        let start = |side| Shim::start(copy, side, mtu, rate);
        Ok(Self { shims: [start(Side::Station)?, start(Side::Drone)?] })
    }

    /// Returns how many packets a side has repeated.
    pub(crate) fn repeats(&self, side: Side) -> u64 {
        self.shims[side as usize].repeats.load(Ordering::Relaxed)
    }

    /// Says so when one has ended.
    ///
    /// # Errors
    /// What its kernel refused.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for (side, shim) in Side::BOTH.into_iter().zip(&mut self.shims) {
            if shim.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                let why = shim.join().err().map_or(String::new(), |error| format!(": {error}"));
                return Err(format!("the {} shim ended{why}", side.name()));
            }
        }
        Ok(())
    }
}

impl Shim {
    fn start(copy: &Copy<'_>, side: Side, mtu: u16, rate: Rate) -> Result<Self, String> {
        let (own, peer) = (copy.address(side, 0)?, copy.address(side.other(), 0)?);
        let (tunnel, link) = copy.enter(side, || {
            let tunnel = Tun::create(INTERFACE, mtu, &[(address(side).into(), 24)])?;
            let link = UdpSocket::bind((own, PORT))?;
            link.connect((peer, PORT))?;
            link.set_nonblocking(true)?;
            Ok((tunnel, link))
        })?;
        let describe = |error: io::Error| format!("the {} shim: {error}", side.name());
        let end = Arc::new(Wakeup::new().map_err(describe)?);
        let repeats = Arc::new(AtomicU64::new(0));
        let retry = LowRateRetry::new(rate, usize::from(mtu));
        let ends = Ends { tunnel, link, retry, repeats: Arc::clone(&repeats) };
        let ended = Arc::clone(&end);
        let thread = thread::Builder::new().name("low-rate retry".to_owned());
        let thread = thread.spawn(move || ends.run(&ended)).map_err(describe)?;
        Ok(Self { end, repeats, thread: Some(thread) })
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.end.ring();
        // Nobody is left whom its error would tell anything.
        let _ = self.join();
    }
}

impl Ends {
    /// Passes packets on both ways until the bell rings.
    fn run(mut self, end: &Wakeup) -> io::Result<()> {
        prefer_realtime(PRIORITY);
        let mut poller = Poller::new()?;
        poller.add(&self.tunnel, TUNNEL, Interest::Read)?;
        poller.add(&self.link, LINK, Interest::Read)?;
        poller.add(end, END, Interest::Read)?;
        let mut ready = Vec::new();
        loop {
            poller.wait(now(), self.retry.timeout(), &mut ready)?;
            if ready.iter().any(|one| one.token == END) {
                return Ok(());
            }
            self.leave()?;
            self.arrive()?;
            if let Some(packet) = self.retry.poll(now()) {
                send(&self.link, &packet);
                self.repeats.store(self.retry.repeats(), Ordering::Relaxed);
            }
        }
    }

    /// Sends what the kernel has for the other side.
    fn leave(&mut self) -> io::Result<()> {
        let Self { tunnel, link, retry, .. } = self;
        while tunnel.receive(|packet| {
            retry.on_sent(now(), packet);
            send(link, packet);
        })? {}
        Ok(())
    }

    /// Hands the kernel what has come.
    fn arrive(&mut self) -> io::Result<()> {
        let mut bytes = [0; LARGEST];
        loop {
            match self.link.recv(&mut bytes) {
                Ok(length) => {
                    self.retry.on_received(&bytes[..length]);
                    self.tunnel.send(&bytes[..length])?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The other side's is not there yet, or no longer.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        self.tunnel.flush()
    }
}

/// Sends a packet; one for which there is no room is lost, as on any interface.
fn send(link: &UdpSocket, packet: &[u8]) {
    let _ = link.send(packet);
}
