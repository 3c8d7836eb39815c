//! What the kernel says about every TCP connection of a network namespace, whoever owns it.
//!
//! `tcp_info` asks about one connection of our own. Formats: sock_diag(7), linux/inet_diag.h.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::netlink::{Request, Socket, attributes};
use crate::tcp_info::{self, TcpInfo};

/// Type of a request for the sockets of one family.
const BY_FAMILY: u16 = 20;
/// Size of `inet_diag_msg`, which begins every answer.
const HEADER: usize = 72;
/// `TCP_ESTABLISHED` to `TCP_CLOSING` without those that listen or only wait for time to pass.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// Size of `inet_diag_sockid`; all zeroes stands for no socket in particular.
const SOCKET_ID: usize = 48;
/// Attributes of a request: `INET_DIAG_REQ_SK_BPF_STORAGES`, and in it
/// `SK_DIAG_BPF_STORAGE_REQ_MAP_FD` for each map.
const WANTED_STORAGES: u16 = 2;
const WANTED_MAP: u16 = 1;

// Attributes of an answer, `INET_DIAG_*`.
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
const UPPER_PROTOCOL: u16 = 19;
const STORAGES: u16 = 20;

/// Shows a TCP connection at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpSocket {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Name of its congestion control.
    pub congestion: String,
    /// Window, round-trip time, retransmissions.
    pub info: TcpInfo,
    /// Whether it is a sub-flow of multipath TCP; the kernel tells only privileged processes.
    pub is_subflow: bool,
    /// What the requested BPF map holds for it.
    pub storage: Option<Vec<u8>>,
}

/// Lists the connections of the calling thread's network namespace, IPv4 then IPv6.
///
/// `maps` are BPF maps of socket-local storage; for each socket the value of the first map that has
/// one is returned too.
///
/// # Errors
/// Those of netlink; with `maps`, `PermissionDenied` without CAP_BPF.
pub fn tcp_sockets(maps: &[BorrowedFd<'_>]) -> io::Result<Vec<TcpSocket>> {
    let mut socket = Socket::diagnosis()?;
    let mut sockets = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let request = request(family as u8, maps);
        let found = socket.exchange(request, |message| sockets.extend(parse(message.body)));
        match found {
            // A kernel without IPv6 has no such connections.
            Err(error) if family == libc::AF_INET6 && is_missing(&error) => {}
            other => other?,
        }
    }
    Ok(sockets)
}

pub(crate) fn parse(body: &[u8]) -> Option<TcpSocket> {
    let family = i32::from(*body.first()?);
    let mut socket = TcpSocket {
        local: address(family, body.get(4..6)?, body.get(8..24)?)?,
        remote: address(family, body.get(6..8)?, body.get(24..40)?)?,
        congestion: String::new(),
        info: TcpInfo::default(),
        is_subflow: false,
        storage: None,
    };
    for (kind, value) in attributes(body.get(HEADER..)?) {
        match kind {
            INFO => socket.info = tcp_info::from_message(value),
            CONGESTION => socket.congestion = text(value),
            // INET_ULP_INFO_NAME = 1
            UPPER_PROTOCOL => {
                socket.is_subflow =
                    attributes(value).any(|(kind, name)| kind == 1 && text(name) == "mptcp");
            }
            STORAGES => socket.storage = storage(value),
            _ => {}
        }
    }
    Some(socket)
}

fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOENT)
}

/// Encodes `inet_diag_req_v2`, and which maps' values are wanted.
fn request(family: u8, maps: &[BorrowedFd<'_>]) -> Request {
    let wanted = 1 << (INFO - 1) | 1 << (CONGESTION - 1);
    let request = Request::dump(BY_FAMILY)
        .fixed(&[family, libc::IPPROTO_TCP as u8, wanted, 0])
        .fixed(&STATES.to_ne_bytes())
        .fixed(&[0; SOCKET_ID]);
    if maps.is_empty() {
        return request;
    }
    request.nest(WANTED_STORAGES | libc::NLA_F_NESTED as u16, |request| {
        maps.iter().fold(request, |request, map| {
            request.attribute(WANTED_MAP, &map.as_raw_fd().to_ne_bytes())
        })
    })
}

/// SK_DIAG_BPF_STORAGE = 1 holds SK_DIAG_BPF_STORAGE_MAP_VALUE = 3.
fn storage(value: &[u8]) -> Option<Vec<u8>> {
    let (_, storage) = attributes(value).find(|(kind, _)| *kind == 1)?;
    let (_, value) = attributes(storage).find(|(kind, _)| *kind == 3)?;
    Some(value.to_vec())
}

fn address(family: i32, port: &[u8], address: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(port.try_into().ok()?);
    let ip = if family == libc::AF_INET6 {
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)).to_canonical()
    } else {
        IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address.get(..4)?).ok()?))
    };
    Some(SocketAddr::new(ip, port))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_listed_with_its_congestion_control() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let sockets = tcp_sockets(&[]).unwrap();
            let local = client.local_addr().unwrap();
            let found = sockets.iter().find(|socket| socket.local == local).unwrap();
            assert_eq!(found.remote, client.peer_addr().unwrap());
            assert!(!found.congestion.is_empty() && found.info.cwnd > 0, "{found:?}");
            assert!(!found.is_subflow && found.storage.is_none());
        }
    }

    #[test]
    fn a_cut_message_is_no_panic() {
        let body = [2_u8; 200];
        for length in 0..body.len() {
            parse(&body[..length]);
        }
    }
}
