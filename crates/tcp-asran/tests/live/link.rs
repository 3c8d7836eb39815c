//! A link between two namespaces that delays every packet, and loses what it is told to lose.
//!
//! Not the emulator: a test says which packet is lost, and when, by what the connection has done.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sys::netns::Namespace;
use sys::tun::Tun;

/// One way.
const DELAY: Duration = Duration::from_millis(20);
const MTU: u16 = 1_500;

/// A sender's and a receiver's namespace, with a link in between.
pub(crate) struct Link {
    pub(crate) sender: Namespace,
    pub(crate) receiver: Namespace,
    orders: Arc<Orders>,
    forwarder: Option<JoinHandle<()>>,
}

/// What the link is told.
#[derive(Default)]
struct Orders {
    /// So many of the sender's next packets with data are lost.
    lose: AtomicU32,
    /// All of the sender's packets are lost.
    outage: AtomicBool,
    end: AtomicBool,
}

impl Link {
    /// The sender has 10.9.0.1 and 10.9.0.3, the receiver 10.9.0.2.
    pub(crate) fn create() -> io::Result<Link> {
        let (sender, receiver) = (Namespace::create()?, Namespace::create()?);
        let end = |namespace: &Namespace, hosts: &[u8]| {
            let addresses: Vec<(IpAddr, u8)> =
                hosts.iter().map(|host| (Ipv4Addr::new(10, 9, 0, *host).into(), 24)).collect();
            namespace.run(|| Tun::create("link0", MTU, &addresses)).and_then(|made| made)
        };
        let near = end(&sender, &[1, 3])?;
        let far = end(&receiver, &[2])?;
        // At most a few hundred packets in flight: on a busy machine the trace of more would not
        // fit into its buffer.
        receiver.run(|| sys::netns::set_parameter("net/ipv4/tcp_rmem", "4096 800000 800000"))??;
        let orders = Arc::<Orders>::default();
        let told = Arc::clone(&orders);
        let forwarder = thread::spawn(move || forward(near, far, &told));
        Ok(Link { sender, receiver, orders, forwarder: Some(forwarder) })
    }

    /// Loses the sender's next packet with data.
    pub(crate) fn lose_one(&self) {
        self.orders.lose.store(1, Ordering::Release);
    }

    /// Turns an outage on or off, in which everything that the sender sends is lost.
    pub(crate) fn outage(&self, on: bool) {
        self.orders.outage.store(on, Ordering::Release);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.orders.end.store(true, Ordering::Release);
        if let Some(forwarder) = self.forwarder.take() {
            let _ = forwarder.join();
        }
    }
}

type Queue = VecDeque<(Instant, Vec<u8>)>;

fn forward(mut near: Tun, mut far: Tun, orders: &Orders) {
    let (mut there, mut back) = (Queue::new(), Queue::new());
    while !orders.end.load(Ordering::Acquire) {
        let taken = take(&mut near, &mut there, |packet| !is_lost(packet, orders))
            | take(&mut far, &mut back, |_| true);
        let given = give(&mut far, &mut there) | give(&mut near, &mut back);
        if !taken && !given {
            thread::sleep(Duration::from_micros(500));
        }
    }
}

fn take(from: &mut Tun, queue: &mut Queue, passes: impl Fn(&[u8]) -> bool) -> bool {
    let due = Instant::now() + DELAY;
    let taken = from.receive(|packet| {
        if passes(packet) {
            queue.push_back((due, packet.to_vec()));
        }
    });
    taken.unwrap_or(false)
}

fn give(to: &mut Tun, queue: &mut Queue) -> bool {
    let now = Instant::now();
    let mut given = false;
    while queue.front().is_some_and(|(due, _)| *due <= now) {
        if let Some((_, packet)) = queue.pop_front() {
            let _ = to.send(&packet);
            given = true;
        }
    }
    let _ = to.flush();
    given
}

fn is_lost(packet: &[u8], orders: &Orders) -> bool {
    if orders.outage.load(Ordering::Acquire) {
        return true;
    }
    // A bare ACK would not be missed.
    let one_less = |count: u32| count.checked_sub(1);
    packet.len() > 200
        && orders.lose.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
}
