//! UDP to everybody on one network: broadcast or multicast at one interface, for the wire and the
//! radio of relays.
//!
//! Two sockets: one waits at the port, and shares it with others of this host; the other one sends,
//! from a port of its own, by which its own datagrams are told when the kernel gives them back.
//! Both are bound to the interface: once that is gone, sending fails, nothing comes any more, and
//! another socket must be opened when it is back, under whatever number.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{InterfaceIndexOrAddress, Socket};
use units::Duration;

use crate::udp::{
    Incoming, ReceiveBuffers, UdpOptions, UdpSocket, enlarge_receive_buffer, set_send_buffer,
    unbound,
};

/// Says how a socket is opened.
#[derive(Clone, Debug)]
pub struct BroadcastOptions {
    /// The interface that all datagrams come from and leave by (`SO_BINDTODEVICE`).
    pub interface: String,
    /// Its number, for the membership in a multicast group.
    pub index: u32,
    /// Where datagrams go: a broadcast address or a multicast group, and the port at which all
    /// wait.
    pub address: SocketAddrV4,
    /// Bytes of `SO_SNDBUF`: small, since what waits there can no longer be overtaken.
    pub send_buffer: usize,
    /// Bytes of `SO_RCVBUF`: what may come in while the process does not run.
    pub receive_buffer: usize,
}

/// Sends to everybody on a network, and hears everybody there.
#[derive(Debug)]
pub struct BroadcastSocket {
    incoming: UdpSocket,
    outgoing: Socket,
    address: SocketAddr,
    own_port: u16,
}

impl BroadcastSocket {
    /// Opens both sockets; a multicast group is joined.
    ///
    /// # Errors
    /// Those of `socket`, `setsockopt` and `bind`; `NotFound` when the interface is missing.
    pub fn bind(options: &BroadcastOptions) -> io::Result<Self> {
        let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let of_port = |port| UdpOptions {
            local: any(port),
            both_families: false,
            interface: Some(options.interface.clone()),
            send_buffer: options.send_buffer,
            receive_buffer: options.receive_buffer,
            segmentation: false,
            shared: false,
        };
        let (group, port) = (*options.address.ip(), options.address.port());
        let waiting = unbound(&of_port(port))?;
        // Everybody on this host hears everything: each socket is given a copy.
        waiting.set_reuse_address(true)?;
        enlarge_receive_buffer(&waiting, options.receive_buffer)?;
        waiting.bind(&any(port).into())?;
        let outgoing = unbound(&of_port(0))?;
        outgoing.set_nonblocking(true)?;
        set_send_buffer(&outgoing, options.send_buffer)?;
        outgoing.set_broadcast(true)?;
        outgoing.bind(&any(0).into())?;
        if group.is_multicast() {
            let at = InterfaceIndexOrAddress::Index(options.index);
            waiting.join_multicast_v4_n(&group, &at)?;
            outgoing.set_multicast_loop_v4(true)?;
        }
        let own = outgoing.local_addr()?.as_socket().map_or(0, |address| address.port());
        let incoming = UdpSocket::over(waiting)?;
        Ok(Self { incoming, outgoing, address: options.address.into(), own_port: own })
    }

    /// Waits until something has come in, and tells whether it has.
    ///
    /// # Errors
    /// Those of `poll`; an interrupted wait is no error.
    pub fn wait(&self, within: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(std::time::Duration::from(within))
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.incoming, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives what waits, up to the size of `buffers`; returns whether anything did.
    ///
    /// # Errors
    /// Those of `recvmmsg`; an empty socket is no error.
    pub fn receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<bool> {
        self.incoming.receive(buffers)
    }

    /// Tells whether a datagram is our own, given back by the kernel; `addresses` are this host's.
    pub fn is_own(&self, incoming: &Incoming, addresses: &[IpAddr]) -> bool {
        let source = incoming.source;
        source.port() == self.own_port
            && (source.ip().is_unspecified() || addresses.contains(&source.ip()))
    }

    /// Sends a datagram to everybody; false when the socket's buffer is full.
    ///
    /// # Errors
    /// Those of `sendto`, other than a full buffer.
    pub fn send(&self, bytes: &[u8]) -> io::Result<bool> {
        loop {
            match self.outgoing.send_to(bytes, &self.address.into()) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the socket that tells when something has come in.
    pub fn incoming(&self) -> BorrowedFd<'_> {
        self.incoming.as_fd()
    }

    /// Returns the socket that tells when there is room to send.
    pub fn outgoing(&self) -> BorrowedFd<'_> {
        self.outgoing.as_fd()
    }
}

/// Tells a full socket.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface_setup::{self, VethEnd};
    use crate::netns::Namespace;
    use crate::sandbox;

    const LIMITED: Ipv4Addr = Ipv4Addr::BROADCAST;
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);

    fn open(name: &str, address: Ipv4Addr, port: u16) -> io::Result<BroadcastSocket> {
        let index = interface_setup::index(name).unwrap_or(0);
        BroadcastSocket::bind(&BroadcastOptions {
            interface: name.into(),
            index,
            address: SocketAddrV4::new(address, port),
            send_buffer: 65_536,
            receive_buffer: 1 << 18,
        })
    }

    /// Returns what comes within a tenth of a second: whether it is `socket`'s own, first byte,
    /// length.
    fn heard(socket: &BroadcastSocket, own: &[IpAddr]) -> Vec<(bool, u8, usize)> {
        let mut buffers = ReceiveBuffers::default();
        let mut heard = Vec::new();
        for _ in 0..100 {
            if socket.receive(&mut buffers).unwrap() {
                buffers.for_each(|from, bytes| {
                    heard.push((socket.is_own(from, own), bytes[0], bytes.len()));
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        heard
    }

    /// Makes two hosts on one network, 10.9.0.1 and .2.
    fn hosts() -> [Namespace; 2] {
        let hosts = [0, 1].map(|_| Namespace::create().unwrap());
        let end = |at: usize| VethEnd {
            name: "w0",
            mac: [2, 0, 0, 0, 9, at as u8],
            namespace: &hosts[at],
        };
        interface_setup::create_veth(&end(0), &end(1), 1_500).unwrap();
        for (last, host) in (1..).zip(&hosts) {
            host.run(|| {
                interface_setup::set_up("w0").unwrap();
                interface_setup::add_address("w0", Ipv4Addr::new(10, 9, 0, last), 24).unwrap();
            })
            .unwrap();
        }
        // Both ends are up now, and each is told so by and by.
        for host in &hosts {
            host.run(|| {
                let index = interface_setup::index("w0").unwrap();
                while !interface_setup::has_carrier(index).unwrap() {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            })
            .unwrap();
        }
        hosts
    }

    #[test]
    fn everybody_hears_a_broadcast_and_a_multicast_two_on_one_host_too() {
        let name =
            "broadcast::tests::everybody_hears_a_broadcast_and_a_multicast_two_on_one_host_too";
        if !sandbox::inside(name) {
            return;
        }
        let hosts = hosts();
        let own = |last| [IpAddr::from([10, 9, 0, last])];
        for (port, address) in [(900, LIMITED), (901, Ipv4Addr::new(10, 9, 0, 255)), (902, GROUP)] {
            let near = hosts[0].run(|| open("w0", address, port).unwrap()).unwrap();
            let beside = hosts[0].run(|| open("w0", address, port).unwrap()).unwrap();
            let far = hosts[1].run(|| open("w0", address, port).unwrap()).unwrap();
            assert!(near.send(&[7; 1_472]).unwrap());
            assert_eq!(heard(&far, &own(2)), [(false, 7, 1_472)], "{address}");
            assert_eq!(heard(&beside, &own(1)), [(false, 7, 1_472)], "{address}");
            assert_eq!(heard(&near, &own(1)), [(true, 7, 1_472)], "{address}");
        }
    }

    #[test]
    fn an_interface_that_is_gone_fails_and_one_of_its_name_is_opened_anew() {
        let name =
            "broadcast::tests::an_interface_that_is_gone_fails_and_one_of_its_name_is_opened_anew";
        if !sandbox::inside(name) {
            return;
        }
        let before = hosts();
        let [near, _far] = &before;
        let socket = near.run(|| open("w0", LIMITED, 900).unwrap()).unwrap();
        assert!(socket.send(b"one").unwrap());
        near.run(|| interface_setup::remove("w0").unwrap()).unwrap();
        assert!(socket.send(b"two").is_err());
        let missing = near.run(|| open("w0", LIMITED, 900).map(drop).unwrap_err()).unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let after = hosts();
        let [near, far] = &after;
        let sockets = [near, far].map(|host| host.run(|| open("w0", LIMITED, 900).unwrap()));
        let [near, far] = sockets.map(Result::unwrap);
        assert!(near.send(b"three").unwrap());
        assert_eq!(heard(&far, &[]), [(false, b't', 5)]);
    }
}
