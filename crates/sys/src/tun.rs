//! The TUN device: IP packets of this host, in batches.
//!
//! With offload the kernel hands over TCP segments of up to 64 kB, which are cut into packets here,
//! and takes runs of TCP packets as one: tun-rs does both. The device lives as long as its
//! descriptor: when the process ends, however it ends, the interface and its routes are gone.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::interface_setup;

/// Packets that one 64 kB segment is cut into, at most; smaller pieces than 512 bytes are refused.
const PACKETS: usize = 128;
/// Packets joined on the way to the kernel before they are written.
const JOINED: usize = 64;
/// The largest packet, and what a run of joined packets may grow to.
const LARGEST: usize = 65_535;

/// Settings of the kernel by which it would believe what comes out of the interface: other routers,
/// another router for an address. Their value is 0.
const BELIEFS: [&str; 3] = [
    "ipv6/conf/NAME/accept_ra",
    "ipv6/conf/NAME/accept_redirects",
    "ipv4/conf/NAME/accept_redirects",
];

/// Reads and writes the IP packets of a TUN interface.
pub struct Tun {
    device: SyncDevice,
    /// It stays when somebody gives it another name.
    index: u32,
    whole: Vec<u8>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    joined: Vec<Vec<u8>>,
    waiting: usize,
    table: GROTable,
}

impl Tun {
    /// Creates the interface `name` with `mtu`, gives it its addresses (address, prefix length)
    /// and brings it up.
    ///
    /// # Errors
    /// Those of `/dev/net/tun` and netlink: no permission, a name that is taken.
    pub fn create(name: &str, mtu: u16, addresses: &[(IpAddr, u8)]) -> io::Result<Self> {
        let device = DeviceBuilder::new()
            .name(name)
            .mtu(mtu)
            .with(|options| {
                options.offload(true);
            })
            .build_sync()?;
        device.set_nonblocking(true)?;
        let index = interface_setup::index(name)?;
        distrust(name);
        for &(address, prefix) in addresses {
            interface_setup::add_address(name, address, prefix)?;
        }
        interface_setup::set_up(name)?;
        let table = GROTable::default();
        Ok(Self {
            device,
            index,
            whole: vec![0; VIRTIO_NET_HDR_LEN + LARGEST],
            packets: vec![vec![0; usize::from(mtu).max(2_048)]; PACKETS],
            sizes: vec![0; PACKETS],
            // Room for a whole run, since any packet may become the head of one; memory that is
            // never written costs nothing.
            joined: (0..JOINED).map(|_| Vec::with_capacity(VIRTIO_NET_HDR_LEN + LARGEST)).collect(),
            waiting: 0,
            table,
        })
    }

    /// Returns the kernel's number of the interface.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Sends packets for `destination` to this interface; the route ends with the interface.
    /// Returns whether there was none yet.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn add_route(&self, destination: IpAddr, prefix: u8) -> io::Result<bool> {
        interface_setup::add_route(&self.name()?, destination, prefix)
    }

    /// Gives the interface an address.
    ///
    /// # Errors
    /// Those of netlink; `AlreadyExists` where it has it.
    pub fn add_address(&self, address: IpAddr, prefix: u8) -> io::Result<()> {
        interface_setup::add_address(&self.name()?, address, prefix)
    }

    /// Switches the interface on.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn set_up(&self) -> io::Result<()> {
        interface_setup::set_up(&self.name()?)
    }

    /// Limits the interface to IP packets of so many bytes.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        interface_setup::set_mtu(&self.name()?, mtu)
    }

    /// Keeps the kernel from believing what comes out of the interface about routers and routes;
    /// returns the settings that were otherwise, and are not any more. Where /proc may not be
    /// written, as under the unit, they stay.
    pub fn distrust(&self) -> Vec<String> {
        self.name().map(|name| distrust(&name)).unwrap_or_default()
    }

    /// Ends what [`Tun::add_route`] began.
    ///
    /// # Errors
    /// Those of netlink; a route that does not exist is no error.
    pub fn remove_route(&self, destination: IpAddr, prefix: u8) -> io::Result<()> {
        interface_setup::remove_route(&self.name()?, destination, prefix)
    }

    /// Reads one packet, or one segment cut into packets, and gives each to `handle`; returns
    /// whether there was anything.
    ///
    /// # Errors
    /// Those of `read`. A segment that cannot be cut is dropped and reported as `InvalidData`.
    pub fn receive(&mut self, mut handle: impl FnMut(&mut [u8])) -> io::Result<bool> {
        let received =
            self.device.recv_multiple(&mut self.whole, &mut self.packets, &mut self.sizes, 0);
        match received {
            Ok(count) => {
                for (packet, &size) in self.packets.iter_mut().zip(&self.sizes).take(count) {
                    handle(&mut packet[..size]);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.raw_os_error().is_some() => Err(error),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// Queues a packet for the kernel; [`Tun::flush`] writes it.
    ///
    /// # Errors
    /// Those of [`Tun::flush`], which is called when many wait.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let slot = &mut self.joined[self.waiting];
        slot.clear();
        slot.resize(VIRTIO_NET_HDR_LEN, 0);
        slot.extend_from_slice(&packet[..packet.len().min(LARGEST)]);
        self.waiting += 1;
        if self.waiting == JOINED { self.flush() } else { Ok(()) }
    }

    /// Writes the queued packets, runs of TCP packets joined.
    ///
    /// # Errors
    /// Those of `write`; the packets are gone either way.
    pub fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting == 0 {
            return Ok(());
        }
        let packets = &mut self.joined[..waiting];
        self.device.send_multiple(&mut self.table, packets, VIRTIO_NET_HDR_LEN)?;
        Ok(())
    }

    fn name(&self) -> io::Result<String> {
        interface_setup::name_of(self.index)
    }
}

/// Sets what the kernel believes; returns what was otherwise.
fn distrust(name: &str) -> Vec<String> {
    let set = |belief: &str| {
        let setting = belief.replace("NAME", name);
        let file = Path::new("/proc/sys/net").join(&setting);
        let is = std::fs::read_to_string(&file).ok()?;
        (is.trim() != "0" && std::fs::write(&file, "0").is_ok()).then_some(setting)
    };
    BELIEFS.into_iter().filter_map(set).collect()
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device owns the descriptor and outlives the borrow of `self`.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;
    use crate::{interfaces, sandbox};

    fn device(test: &str) -> Option<Tun> {
        let address = (Ipv4Addr::new(10, 77, 0, 1).into(), 24);
        match Tun::create("fulmar-t0", 1_280, &[address]) {
            Ok(tun) => Some(tun),
            Err(error) => {
                sandbox::skip(test, &format!("no TUN device: {error}"));
                None
            }
        }
    }

    /// Reads packets until one is for `destination`; the kernel sends some of its own.
    fn packet_to(tun: &mut Tun, destination: Ipv4Addr) -> Vec<u8> {
        for _ in 0..1_000 {
            let mut found = None;
            tun.receive(|packet| {
                if packet[0] >> 4 == 4 && packet[16..20] == destination.octets() {
                    found = Some(packet.to_vec());
                }
            })
            .unwrap();
            if let Some(packet) = found {
                return packet;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("no packet to {destination}");
    }

    #[test]
    fn packets_pass_both_ways_and_the_interface_ends_with_the_device() {
        let name = "tun::tests::packets_pass_both_ways_and_the_interface_ends_with_the_device";
        if !sandbox::inside(name) {
            return;
        }
        let Some(mut tun) = device(name) else { return };
        let find = || interfaces::list().unwrap().into_iter().find(|at| at.name == "fulmar-t0");
        assert_eq!(find().unwrap().addresses, [IpAddr::from([10, 77, 0, 1])]);
        assert!(tun.add_route([10, 99, 0, 0].into(), 16).unwrap());
        assert!(!tun.add_route([10, 99, 0, 0].into(), 16).unwrap(), "it is there");
        for belief in BELIEFS {
            let file = Path::new("/proc/sys/net").join(belief.replace("NAME", "fulmar-t0"));
            assert!(std::fs::read_to_string(&file).map_or(true, |is| is == "0\n"), "{belief}");
        }

        let socket = UdpSocket::bind("10.77.0.1:4000").unwrap();
        socket.send_to(b"out", "10.99.1.2:5000").unwrap();
        let mut packet = packet_to(&mut tun, Ipv4Addr::new(10, 99, 1, 2));
        assert_eq!(&packet[28..], b"out");

        // The answer: addresses and ports change places, which leaves both checksums as they are.
        let (source, destination) = packet[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
        let (from, to) = packet[20..24].split_at_mut(2);
        from.swap_with_slice(to);
        tun.send(&packet).unwrap();
        tun.flush().unwrap();
        let mut buffer = [0; 16];
        socket.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"out"[..], "10.99.1.2:5000".parse().unwrap()));

        drop(tun);
        assert_eq!(find(), None);
    }
}
