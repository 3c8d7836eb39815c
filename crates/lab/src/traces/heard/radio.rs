//! The radio's interface and the sockets of a node.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use sys::broadcast::{BroadcastOptions, BroadcastSocket};
use sys::interfaces::{self, Interface};

use super::node::PATIENCE;

/// What a frame takes of the memory of a socket, in bytes; the kernel counts twice of what it is
/// told.
const FRAME_MEMORY: usize = 2_304 / 2;
/// How many frames there is room for beside those that wait on purpose: one that leaves, and the
/// next one.
const WAITING: usize = 2;
/// Bytes that may come in while the process does not run: a second of sixteen transmitters at 1
/// Mbit/s.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket on the radio's interface.
pub(super) struct Radio {
    pub(super) interface: String,
    index: u32,
    pub(super) port: u16,
    /// How many frames wait for the interface on purpose.
    pub(super) ahead: u64,
    pub(super) socket: BroadcastSocket,
}

/// Opens the radio.
///
/// # Errors
/// Says what is the matter with the interface or the port, and what to do.
pub(super) fn open(interface: &str, port: u16, ahead: u64) -> Result<Radio, String> {
    let all = interfaces::list().map_err(|error| format!("list interfaces: {error}"))?;
    let Some(found) = all.iter().find(|one| one.name == interface) else {
        let there: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        let there = there.join(", ");
        return Err(format!("{interface}: no such interface; interfaces here are {there}"));
    };
    if !found.running {
        return Err(format!(
            "{interface} is down or has no carrier: ip link set {interface} up, and join the radio's network"
        ));
    }
    open_found(found, port, ahead)
}

/// Opens the radio again if its interface is another than before; `None` while it is the same, or
/// away.
///
/// # Errors
/// As of [`open`].
pub(super) fn opened_again(before: &Radio) -> Result<Option<Radio>, String> {
    let all = interfaces::list().unwrap_or_default();
    let other =
        |one: &&Interface| one.name == before.interface && one.index != before.index && one.running;
    all.iter().find(other).map(|found| open_found(found, before.port, before.ahead)).transpose()
}

/// Opens the socket that MAVLink comes in by.
///
/// # Errors
/// Says what is the matter with the address.
pub(super) fn open_mavlink(address: SocketAddr) -> Result<UdpSocket, String> {
    let opened = UdpSocket::bind(address)
        .and_then(|socket| socket.set_read_timeout(Some(PATIENCE.into())).map(|()| socket));
    opened.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => format!(
            "--mavlink {address}: somebody listens there already: let MAVLink go to another port as well"
        ),
        _ => format!("--mavlink {address}: {error}"),
    })
}

fn open_found(found: &Interface, port: u16, ahead: u64) -> Result<Radio, String> {
    let interface = found.name.clone();
    let options = BroadcastOptions {
        interface: interface.clone(),
        index: found.index,
        address: SocketAddrV4::new(Ipv4Addr::BROADCAST, port),
        send_buffer: (WAITING + ahead as usize) * FRAME_MEMORY,
        receive_buffer: RECEIVE_BUFFER,
    };
    let socket = BroadcastSocket::bind(&options).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{interface}: a socket of one interface takes the right to (CAP_NET_RAW) before Linux 5.7: run it as root"
        ),
        ErrorKind::AddrInUse => {
            format!("{interface}: port {port} is taken: end what uses it, or give all nodes another --port")
        }
        _ => format!("{interface}: open UDP port {port}: {error}"),
    })?;
    Ok(Radio { interface, index: found.index, port, ahead, socket })
}
