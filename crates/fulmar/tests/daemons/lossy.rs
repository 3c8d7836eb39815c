//! A link that delays and loses: a forwarder of datagrams in front of the station's daemon.
//!
//! Not the lab's emulator: a few milliseconds of error are nothing to these tests, which ask what
//! arrives and in which order.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use units::Rng;

use crate::rig::Rig;

/// Port at which the station's daemon listens behind the forwarder.
const BEHIND: u16 = 14_701;

/// Forwards between the drone's daemon and the station's while it lives.
pub(crate) struct LossyLink {
    /// Lost datagrams of a thousand, in both directions.
    per_mille: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl LossyLink {
    /// Puts itself in front of the station on link 0; before the station's daemon starts.
    pub(crate) fn new(rig: &mut Rig, per_mille: u32, delay: Duration) -> Self {
        rig.station_port = BEHIND;
        let bind = |at: &str| {
            let socket = rig.station.run(|| UdpSocket::bind(at).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            Arc::new(socket)
        };
        let (front, back) = (bind("192.168.0.2:14700"), bind("127.0.0.1:0"));
        let drone = Arc::new(Mutex::new(None::<SocketAddr>));
        let (per_mille, stop) =
            (Arc::new(AtomicU32::new(per_mille)), Arc::new(AtomicBool::new(false)));
        let forward = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, is_up: bool| {
            let (from, to, drone) = (Arc::clone(from), Arc::clone(to), Arc::clone(&drone));
            let (per_mille, stop) = (Arc::clone(&per_mille), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut rng = Rng::new(7 + u64::from(is_up));
                let (mut waiting, mut buffer) = (VecDeque::new(), [0; 2_048]);
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((length, source)) = from.recv_from(&mut buffer) {
                        if is_up {
                            *drone.lock().unwrap() = Some(source);
                        }
                        if rng.below(1_000) >= u64::from(per_mille.load(Ordering::Relaxed)) {
                            waiting.push_back((Instant::now() + delay, buffer[..length].to_vec()));
                        }
                    }
                    while waiting.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                        let (_, datagram): (_, Vec<u8>) = waiting.pop_front().unwrap();
                        let behind = SocketAddr::from(([127, 0, 0, 1], BEHIND));
                        let to_drone = *drone.lock().unwrap();
                        if let Some(there) = if is_up { Some(behind) } else { to_drone } {
                            let _ = to.send_to(&datagram, there);
                        }
                    }
                }
            })
        };
        let threads = vec![forward(&front, &back, true), forward(&back, &front, false)];
        Self { per_mille, stop, threads }
    }

    /// Loses so many datagrams of a thousand from now on.
    pub(crate) fn lose(&self, per_mille: u32) {
        self.per_mille.store(per_mille, Ordering::Relaxed);
    }
}

impl Drop for LossyLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
