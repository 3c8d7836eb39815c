//! TCP in the tunnel, through an outage of every link.
//!
//! A TCP sends again after waits that double: twenty seconds into an outage the next try is a dozen
//! away. It goes on at once only if the last try was kept for the return of the link.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::lossy::LossyLink;
use crate::rig::{Rig, inside_with_tunnels};

const DRONE: &str = "[tunnel]\naddress = \"10.77.0.2/24\"\n";
const STATION: &str = "[tunnel]\naddress = \"10.77.0.1/24\"\n";
const OUTAGE: Duration = Duration::from_secs(20);
/// From the return of the link to the next data; a link is found again within a second.
const PATIENCE: Duration = Duration::from_secs(2);

#[test]
fn tcp_goes_on_as_soon_as_a_link_is_back() {
    let name = "outage::tcp_goes_on_as_soon_as_a_link_is_back";
    if !inside_with_tunnels(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let link = LossyLink::new(&mut rig, 0, Duration::from_millis(20));
    let station = rig.start_station(STATION);
    let drone = rig.start_drone(&[0], DRONE);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    let listener = rig.station.run(|| TcpListener::bind("10.77.0.1:5001").unwrap()).unwrap();
    let mut near = rig.drone.run(|| TcpStream::connect("10.77.0.1:5001").unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let (received, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, sending) = (Arc::clone(&received), Arc::clone(&over));
    std::thread::spawn(move || {
        while !sending.load(Ordering::Relaxed) && near.write_all(&[7; 1_000]).is_ok() {
            std::thread::sleep(Duration::from_millis(4));
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = far.read(&mut buffer) {
            count.fetch_add(length as u64, Ordering::Relaxed);
        }
    });
    std::thread::sleep(Duration::from_secs(2));
    assert!(received.load(Ordering::Relaxed) > 100_000, "the stream runs");
    link.lose(1_000);
    std::thread::sleep(OUTAGE);
    let before = received.load(Ordering::Relaxed);
    link.lose(0);
    let returned = Instant::now();
    while received.load(Ordering::Relaxed) == before {
        assert!(returned.elapsed() < 10 * OUTAGE, "the connection is dead");
        std::thread::sleep(Duration::from_millis(1));
    }
    let waited = returned.elapsed();
    over.store(true, Ordering::Relaxed);
    assert!(waited < PATIENCE, "TCP waited {waited:?}: {:#}", drone.status()["tunnel"]);
}
