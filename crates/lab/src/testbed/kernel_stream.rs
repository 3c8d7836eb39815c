//! The kernel's own opponents: TCP over the better link, multipath TCP over all of them.
//!
//! Each stream has a connection of its own, so that video cannot delay control at the sender. The
//! drone connects to the station. For multipath TCP the station announces its address on every
//! link, to which the drone's kernel adds sub-flows; measuring begins when all are there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use sys::byte_stream::{Transport, connect as connect_stream, listen};
use sys::netns::set_parameter;
use units::Duration;

use super::Stream;
use super::channel::{Channel, stream as stream_channel};
use super::interruption;
use super::links::{Copy, Side};

/// How long a connection may take: several SYN retransmissions.
const CONNECT: Duration = Duration::from_secs(20);
/// How long the other end may take to have the connection: its kernel repeats a SYN-ACK for 63 s.
const ACCEPT: Duration = Duration::from_secs(65);
/// How long sub-flows may take to be added.
const JOIN: Duration = Duration::from_secs(30);

/// The channels of a run, and the listeners that sub-flows need as long as they may join.
pub(crate) type Connected = (BTreeMap<(Side, Stream), Channel>, Vec<TcpListener>);

/// Connects the streams at both sides.
pub(crate) fn connect(
    (transport, congestion): (Transport, &str),
    copy: &Copy<'_>,
    streams: &[Stream],
    port: impl Fn(Stream) -> u16,
) -> Result<Connected, String> {
    if transport == Transport::Mptcp {
        prepare_path_managers(copy)?;
    }
    let station = copy.address(Side::Station, 0)?;
    let (mut channels, mut listeners) = (BTreeMap::new(), Vec::new());
    for stream in streams {
        // Sub-flows come to other addresses of the station: it listens at all of them.
        let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port(*stream)));
        let listener = copy.enter(Side::Station, || listen(transport, congestion, anywhere))?;
        let to = SocketAddr::from((station, port(*stream)));
        let from_drone =
            copy.enter(Side::Drone, || connect_stream(transport, congestion, to, CONNECT.into()))?;
        let at_station = accept(&listener).map_err(|error| format!("accept: {error}"))?;
        for (side, socket) in [(Side::Drone, from_drone), (Side::Station, at_station)] {
            let channel = stream_channel(socket).map_err(|error| error.to_string())?;
            channels.insert((side, *stream), channel);
        }
        listeners.push(listener);
    }
    Ok((channels, listeners))
}

/// Says what this machine lacks for a transport under a congestion control; none where it lacks
/// nothing.
pub(crate) fn lacks(transport: Transport, congestion: &str) -> Option<String> {
    let at = (Ipv4Addr::LOCALHOST, 0).into();
    listen(transport, congestion, at).err().map(|error| error.to_string())
}

/// A connection that the drone has made to the station.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) drone: TcpStream,
    pub(crate) station: TcpStream,
    /// Open for sub-flows that join later.
    pub(crate) listener: TcpListener,
}

/// Connects from the drone to an address of the station's; both ends have the congestion control.
///
/// # Errors
/// When the connection is not made within 20 s, or the kernel lacks what it is to be.
pub(crate) fn dial(
    copy: &Copy<'_>,
    transport: Transport,
    congestion: &str,
    to: SocketAddr,
) -> Result<Dialled, String> {
    // What an earlier connection learnt about the way is not to help or harm.
    let forget = || set_parameter("net/ipv4/tcp_no_metrics_save", "1");
    // Sub-flows come to other addresses of the station: it listens at all of them.
    let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, to.port()));
    let listener = copy.enter(Side::Station, || {
        forget()?;
        listen(transport, congestion, anywhere)
    })?;
    let drone = copy.enter(Side::Drone, || {
        forget()?;
        connect_stream(transport, congestion, to, CONNECT.into())
    })?;
    let station = accept(&listener).map_err(|error| format!("accept: {error}"))?;
    Ok(Dialled { drone, station, listener })
}

/// Lets a byte go each way between the ends of a connection.
///
/// # Errors
/// When one does not arrive within 20 s.
pub(crate) fn greet([one, other]: [&TcpStream; 2]) -> Result<(), String> {
    let pass = |mut from: &TcpStream, mut to: &TcpStream| -> io::Result<()> {
        to.set_read_timeout(Some(CONNECT.into()))?;
        from.write_all(&[1])?;
        to.read_exact(&mut [0])
    };
    let passed = pass(one, other).and_then(|()| pass(other, one));
    passed.map_err(|error| format!("a first byte each way: {error}"))
}

/// Waits until each of `connections` has a sub-flow on every link.
///
/// The kernel adds sub-flows only after a connection has carried data both ways.
pub(crate) fn await_subflows(copy: &Copy<'_>, connections: usize) -> Result<(), String> {
    let wanted = connections * (copy.link_count() - 1);
    let started = sys::clock::now();
    loop {
        interruption::check()?;
        let joined = copy.enter(Side::Station, joins)?;
        if joined >= wanted as u64 {
            return Ok(());
        }
        if sys::clock::now().since(started) > JOIN {
            return Err(format!("{joined} of {wanted} sub-flows after {JOIN:?}"));
        }
        thread::sleep(Duration::from_millis(50).into());
    }
}

/// Tells both kernels to use every link for multipath TCP.
///
/// # Errors
/// When the kernel or iproute2 lacks it.
pub(crate) fn prepare_path_managers(copy: &Copy<'_>) -> Result<(), String> {
    let links = copy.link_count();
    for side in Side::BOTH {
        // An announcement that is lost is repeated after this many seconds; the default, 120, is
        // longer than the runs.
        copy.enter(side, || set_parameter("net/mptcp/add_addr_timeout", "1"))?;
        // Where three SYNs came to nothing it goes on as plain TCP, from Linux 6.12 on for an hour,
        // unless it is told not to.
        for (name, value) in
            [("blackhole_timeout", "0"), ("syn_retrans_before_tcp_fallback", "128")]
        {
            let set = || set_parameter(&format!("net/mptcp/{name}"), value);
            let is_older = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            copy.enter(side, || {
                set().or_else(|error| if is_older(&error) { Ok(()) } else { Err(error) })
            })?;
        }
        let subflows = (links - 1).to_string();
        let limits = ["limits", "set", "subflows", &subflows, "add_addr_accepted", &subflows];
        ip_mptcp(copy, side, &limits)?;
        // Of connections that are no more.
        ip_mptcp(copy, side, &["endpoint", "flush"])?;
    }
    for link in 1..links {
        let address = copy.address(Side::Station, link)?.to_string();
        let interface = copy.interface(link);
        let endpoint = ["endpoint", "add", &address, "dev", &interface, "signal"];
        ip_mptcp(copy, Side::Station, &endpoint)?;
    }
    Ok(())
}

/// Takes the connection that was made to a listener. Its last packet may be lost, and where all
/// that ask for it again are as well it never comes.
///
/// # Errors
/// When none comes for as long as a kernel asks, or the program was asked to end.
pub(super) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let until = sys::clock::now() + ACCEPT;
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false)?;
                listener.set_nonblocking(false)?;
                return Ok(socket);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if interruption::is_asked() => return Err(io::Error::other("interrupted")),
            Err(_) if sys::clock::now() > until => {
                return Err(io::Error::other(format!("no connection within {ACCEPT:?}")));
            }
            Err(_) => thread::sleep(Duration::from_millis(5).into()),
        }
    }
}

/// Finds a counter in the kernel's pairs of lines: names, then values.
pub(crate) fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// Runs `ip mptcp` in a side's host.
fn ip_mptcp(copy: &Copy<'_>, side: Side, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("ip");
    // The folders that hold it are not in every user's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    // Standard output is the report's.
    command.arg("mptcp").args(arguments).stdout(Stdio::null());
    let what = format!("ip mptcp {}", arguments.join(" "));
    let child = copy.emulation().spawn(&copy.host(side), command);
    let status = child.and_then(|mut child| child.wait());
    let status = status.map_err(|error| format!("{what}: {error} (is iproute2 installed?)"))?;
    if status.success() { Ok(()) } else { Err(format!("{what}: {status}")) }
}

/// Reads how many sub-flows have joined in the calling thread's namespace.
fn joins() -> std::io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/netstat")?;
    Ok(counter(&text, "MPTcpExt:", "MPJoinAckRx").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: MPJoinSynRx MPJoinAckRx\nMPTcpExt: 4 7\n";
        assert_eq!(counter(text, "MPTcpExt:", "MPJoinAckRx"), Some(7));
        assert_eq!(counter(text, "TcpExt:", "B"), Some(2));
        assert_eq!(counter(text, "MPTcpExt:", "Missing"), None);
    }
}
