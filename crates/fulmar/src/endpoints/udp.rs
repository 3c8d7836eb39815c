//! UDP endpoints: a server that answers the programs that speak to it, a client that speaks to one
//! address. At a multicast address a server is one of the group; a client may speak to a multicast
//! or broadcast address, and anybody may answer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use proto::select::{MavlinkFrame, StreamFramer, StreamLoss};
use proto::{Duration, Instant};
use sys::arrival::{self, Arrival};
use sys::interfaces::{self, Interface};
use sys::multicast;
use sys::poller::{Interest, Poller};

use super::intake::Piece;
use super::{Origin, Tokens, told};
use crate::awaited::RETRY;

/// Clients of one server. One more takes the place of the one that was silent for longest, unless
/// all are regular ones.
const CLIENTS: usize = 8;
/// A client that has been silent for longer is forgotten, unless it is the only one: ground
/// stations send a heartbeat every second.
const SILENCE: Duration = Duration::from_secs(30);
/// A client that has spoken for so long is a regular one: strangers cannot take its place.
const REGULAR: Duration = Duration::from_secs(1);
/// So long after the host of a client's address has said that nobody takes what is sent there, that
/// is so: it says so once a second, of a vehicle that sends a heartbeat a second.
const REFUSED: Duration = Duration::from_secs(5);
/// Datagrams read at a time, so that a flood leaves room for the links.
const AT_A_TIME: usize = 64;
/// `EMSGSIZE`, for which the library has no word yet.
const TOO_LONG: i32 = 90;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// A UDP endpoint's socket, and the addresses that it speaks to.
pub(super) struct UdpPort {
    socket: UdpSocket,
    far: Far,
    /// Whoever has spoken to it.
    clients: Vec<Client>,
    /// What the streams of clients that are forgotten lost.
    loss: StreamLoss,
    tokens: Tokens,
    paused: bool,
    /// Why nothing leaves, and what the log was told last.
    trouble: Option<String>,
    said: Option<String>,
    /// When the host of the one address answered last that nobody takes what is sent there.
    refused_at: Option<Instant>,
    /// Before this time no other socket is tried for what cannot be sent.
    renew_at: Instant,
    buffer: Vec<u8>,
}

/// Whom a port speaks to.
#[derive(Debug)]
pub(super) enum Far {
    /// Whoever has spoken to it.
    Clients,
    /// One address, to which the socket is connected: the kernel keeps strangers out.
    One(SocketAddr),
    /// All who listen at a broadcast or multicast address; the answers are their own addresses'.
    Many(SocketAddr),
    /// A group that it belongs to. What it says leaves by its own socket: others say things too.
    Group(SocketAddr, UdpSocket),
}

struct Client {
    address: SocketAddr,
    since: Instant,
    heard: Instant,
    /// Bounded as the clients are; strangers push it out no more than the client itself.
    frames: StreamFramer,
    /// Our own address towards it, of a group: by that interface it hears us.
    near: Option<Ipv4Addr>,
}

impl Client {
    /// Learns our own address towards a member of a group; IPv6 has its routes alone for that.
    fn find_near(&mut self) {
        if self.near.is_none()
            && self.address.is_ipv4()
            && let Ok(IpAddr::V4(near)) = near_address(self.address)
        {
            self.near = Some(near);
        }
    }

    /// Tells whether a newcomer may not take its place: it is there, and has been for a while.
    fn stays(&self, now: Instant) -> bool {
        now.since(self.heard) < SILENCE && self.heard.since(self.since) >= REGULAR
    }
}

impl UdpPort {
    /// Binds a server.
    pub(super) fn server(address: SocketAddr, tokens: Tokens, poller: &Poller) -> io::Result<Self> {
        if !address.ip().is_multicast() {
            return Self::over(UdpSocket::bind(address)?, Far::Clients, tokens, poller);
        }
        let out = UdpSocket::bind(any(address))?;
        out.set_nonblocking(true)?;
        let far = Far::Group(address, out);
        let mut port = Self::over(multicast::bind(address)?, far, tokens, poller)?;
        port.follow(&interfaces::list()?, poller);
        Ok(port)
    }

    /// Opens a client.
    pub(super) fn client(remote: SocketAddr, tokens: Tokens, poller: &Poller) -> io::Result<Self> {
        let (socket, far) = speak_to(remote)?;
        if matches!(far, Far::Many(_)) {
            tracing::warn!(
                "UDP to {remote} is heard by all there: whoever answers speaks to the vehicle without a key"
            );
        }
        Self::over(socket, far, tokens, poller)
    }

    fn over(socket: UdpSocket, far: Far, tokens: Tokens, poller: &Poller) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        stamp(&socket);
        poller.add(&socket, tokens.token(0), Interest::Read)?;
        let (clients, loss, trouble, said, refused_at, renew_at) = Default::default();
        let (paused, buffer) = (false, vec![0; LARGEST]);
        Ok(Self {
            socket,
            far,
            clients,
            loss,
            tokens,
            paused,
            trouble,
            said,
            refused_at,
            renew_at,
            buffer,
        })
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns the one address that it speaks to.
    pub(super) fn remote(&self) -> Option<SocketAddr> {
        match self.far {
            Far::One(remote) | Far::Many(remote) => Some(remote),
            Far::Clients | Far::Group(..) => None,
        }
    }

    /// Returns when something was heard last.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.heard).max()
    }

    /// Says why nothing leaves.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Says that nobody takes what leaves.
    pub(super) fn refusal(&self, now: Instant) -> Option<String> {
        let is_refused = self.refused_at.is_some_and(|at| now.since(at) < REFUSED);
        self.remote().filter(|_| is_refused).map(nobody_there)
    }

    /// Follows this host's addresses and routes: a client's datagrams leave from the route's
    /// present address, and a group is heard on every interface. Joining once more changes nothing.
    pub(super) fn follow(&mut self, interfaces: &[Interface], poller: &Poller) {
        match self.far {
            Far::One(remote) => {
                let near = self.socket.local_addr().map(|near| near.ip());
                // Where there is no way at the moment, the next datagram says so.
                if let (Ok(near), Ok(now)) = (near, near_address(remote))
                    && near != now
                    && self.renew(remote, poller).is_ok()
                {
                    tracing::info!("UDP to {remote} leaves from {now} now, not from {near}");
                }
            }
            Far::Group(group, _) => {
                let mut joined = 0;
                let mut refused = None;
                for interface in interfaces.iter().filter(|interface| interface.running) {
                    match multicast::join(&self.socket, group.ip(), interface.index) {
                        Ok(()) => joined += 1,
                        Err(error) => refused = Some(error),
                    }
                }
                match refused {
                    Some(error) if joined == 0 => self.note(&error),
                    _ => self.trouble = None,
                }
            }
            Far::Clients | Far::Many(_) => {}
        }
    }

    /// Takes another socket to the same address.
    fn renew(&mut self, remote: SocketAddr, poller: &Poller) -> io::Result<()> {
        let (socket, far) = speak_to(remote)?;
        socket.set_nonblocking(true)?;
        stamp(&socket);
        if !self.paused {
            poller.add(&socket, self.tokens.token(0), Interest::Read)?;
        }
        (self.socket, self.far) = (socket, far);
        Ok(())
    }

    /// Notes why something did not leave; the log is told of each reason once.
    fn note(&mut self, error: &io::Error) {
        let trouble = told(error, false);
        if self.said.as_ref() != Some(&trouble) {
            if let Far::One(to) | Far::Many(to) | Far::Group(to, _) = self.far {
                tracing::warn!("UDP to {to}: {trouble}");
            }
            self.said = Some(trouble.clone());
        }
        self.trouble = Some(trouble);
    }

    /// Reads until `take`, which is told where something is from and when it came, says that it has
    /// enough. `came` is that of what the kernel does not tell it of. The datagrams of a source may
    /// be pieces of a stream of frames.
    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        came: Instant,
        is_stream: bool,
        take: &mut dyn FnMut(Origin, Instant, Piece<'_>) -> bool,
    ) {
        for _ in 0..AT_A_TIME {
            match arrival::receive(&self.socket, &mut self.buffer) {
                Ok(Arrival { length, source, at }) => {
                    // The kernel names no source where a socket is connected.
                    let source = match self.far {
                        Far::One(remote) => source.unwrap_or(remote),
                        _ => {
                            let Some(source) = source else { continue };
                            source
                        }
                    };
                    if matches!(&self.far, Far::Group(_, out) if is_own(out, source)) {
                        continue;
                    }
                    self.refused_at = None;
                    let (place, forgotten) = remember(&mut self.clients, source, now);
                    if let Some(mut client) = forgotten {
                        let from = Origin::Address(client.address);
                        client.frames.end(|frame| _ = take(from, now, Piece::Frame(frame)));
                        self.loss += client.frames.take_loss();
                    }
                    let Some(place) = place else { continue };
                    let client = &mut self.clients[place];
                    if matches!(self.far, Far::Group(..)) {
                        client.find_near();
                    }
                    let (from, came) = (Origin::Address(source), at.unwrap_or(came));
                    let bytes = &self.buffer[..length.min(LARGEST)];
                    if is_stream {
                        let take = |frame: &MavlinkFrame<'_>| {
                            _ = take(from, came, Piece::Frame(frame));
                        };
                        client.frames.push(now, bytes, take);
                    } else if !take(from, came, Piece::Datagram(bytes)) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.on_refused(now, &error),
            }
        }
    }

    /// Walks the streams that come in.
    pub(super) fn streams(&mut self) -> impl Iterator<Item = (Origin, &mut StreamFramer)> {
        let clients = self.clients.iter_mut();
        clients.map(|client| (Origin::Address(client.address), &mut client.frames))
    }

    /// Returns what streams that have ended lost, since this was asked last.
    pub(super) fn take_loss(&mut self) -> StreamLoss {
        std::mem::take(&mut self.loss)
    }

    /// Stops reading, which leaves to the kernel what comes meanwhile, or begins again.
    pub(super) fn set_paused(&mut self, paused: bool, poller: &Poller) {
        self.paused = paused;
        let changed = match paused {
            true => poller.remove(&self.socket),
            false => poller.add(&self.socket, self.tokens.token(0), Interest::Read),
        };
        if let Err(error) = changed {
            tracing::warn!(%error, paused, "wait for a UDP endpoint");
        }
    }

    /// Gives a datagram to every client except `but`; returns whether any took it.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        bytes: &[u8],
        but: Option<Origin>,
        poller: &Poller,
    ) -> bool {
        if self.clients.len() > 1 {
            let latest = self.clients.iter().map(|client| client.heard).max();
            self.clients
                .retain(|client| Some(client.heard) == latest || now.since(client.heard) < SILENCE);
        }
        if !matches!(self.far, Far::Clients) {
            // The one at the other end has said it, or has heard the one who did.
            return but.is_none() && self.send(now, bytes, poller);
        }
        let mut given = false;
        let others = |client: &&Client| but != Some(Origin::Address(client.address));
        for client in self.clients.iter().filter(others) {
            given |= self.socket.send_to(bytes, client.address).is_ok();
        }
        given
    }

    /// Sends to the one address, or to all at it; where our own is gone, from the present one.
    fn send(&mut self, now: Instant, bytes: &[u8], poller: &Poller) -> bool {
        let mut sent = self.send_once(now, bytes);
        if let (Err(error), Far::One(remote) | Far::Many(remote)) = (&sent, &self.far)
            && !is_passing(error)
            && now >= self.renew_at
        {
            let remote = *remote;
            self.renew_at = now + RETRY;
            sent = self.renew(remote, poller).and_then(|()| self.send_once(now, bytes));
        }
        match sent {
            Ok(()) => self.trouble = None,
            Err(error) if is_passing(&error) => return false,
            Err(error) => {
                self.note(&error);
                return false;
            }
        }
        true
    }

    /// Notes that the application at the other end is not there at the moment; the log is told when
    /// that is news.
    fn on_refused(&mut self, now: Instant, error: &io::Error) {
        if error.kind() != ErrorKind::ConnectionRefused {
            return;
        }
        let is_news = self.refused_at.is_none_or(|at| now.since(at) >= REFUSED);
        if let Some(remote) = self.remote().filter(|_| is_news) {
            tracing::info!("UDP: {}", nobody_there(remote));
        }
        self.refused_at = Some(now);
    }

    fn send_once(&mut self, now: Instant, bytes: &[u8]) -> io::Result<()> {
        if let Far::One(_) = self.far {
            // An error that an earlier datagram has caused is reported once: the second try sends.
            let Err(error) = self.socket.send(bytes) else { return Ok(()) };
            self.on_refused(now, &error);
        }
        match &self.far {
            Far::Clients => Ok(()),
            Far::One(_) => self.socket.send(bytes).map(|_| ()),
            Far::Many(to) => self.socket.send_to(bytes, to).map(|_| ()),
            Far::Group(group, out) => {
                let mut near: Vec<_> = self.clients.iter().filter_map(|it| it.near).collect();
                near.sort_unstable();
                near.dedup();
                // Where nobody was heard yet, the route to the group says by which interface.
                if near.is_empty() {
                    return out.send_to(bytes, group).map(|_| ());
                }
                let sent = near.into_iter().map(|near| {
                    multicast::leave_by(out, near)?;
                    out.send_to(bytes, group).map(|_| ())
                });
                // One interface that is gone does not keep the others from hearing.
                sent.fold(Err(ErrorKind::NetworkUnreachable.into()), io::Result::or)
            }
        }
    }
}

/// Opens a socket that speaks to an address: connected, unless many may hear and answer.
pub(super) fn speak_to(remote: SocketAddr) -> io::Result<(UdpSocket, Far)> {
    let socket = UdpSocket::bind(any(remote))?;
    let mut is_many = remote.ip().is_multicast();
    match socket.connect(remote) {
        // So the kernel tells who has not said that it means a broadcast address.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && remote.is_ipv4() => {
            socket.set_broadcast(true)?;
            socket.connect(remote)?;
            is_many = true;
        }
        connected => connected?,
    }
    if !is_many {
        return Ok((socket, Far::One(remote)));
    }
    // There is a way; but a connected socket would hear no answer.
    let socket = UdpSocket::bind(any(remote))?;
    socket.set_broadcast(remote.is_ipv4())?;
    Ok((socket, Far::Many(remote)))
}

/// Says that the host of an address answers that nobody is there.
fn nobody_there(remote: SocketAddr) -> String {
    format!("nobody takes what is sent to {remote}: does the program there run, is that its port?")
}

/// Returns the address from which this host would speak to another.
fn near_address(remote: SocketAddr) -> io::Result<IpAddr> {
    if remote.ip().is_loopback() {
        return Ok(remote.ip());
    }
    let socket = UdpSocket::bind(any(remote))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

fn any(of: SocketAddr) -> SocketAddr {
    match of {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    }
}

/// Tells whether a datagram of a group is our own: from the port of our socket, and from an address
/// of this host.
fn is_own(out: &UdpSocket, source: SocketAddr) -> bool {
    let is_port = out.local_addr().is_ok_and(|own| own.port() == source.port());
    is_port && UdpSocket::bind((source.ip(), 0)).is_ok()
}

/// Tells whether an error says nothing of the address: no room at the moment, or a datagram that is
/// too long.
fn is_passing(error: &io::Error) -> bool {
    let is_too_long = error.raw_os_error() == Some(TOO_LONG);
    is_too_long
        || matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
        )
}

/// Has the kernel note when it receives something.
fn stamp(socket: &UdpSocket) {
    if let Err(error) = arrival::stamp(socket) {
        tracing::debug!(%error, "the kernel does not tell when datagrams come");
    }
}

/// Notes a client, and returns its place, none when there is no room for it, and who is forgotten
/// for it. Programs of this host take the place of strangers.
fn remember(
    clients: &mut Vec<Client>,
    address: SocketAddr,
    now: Instant,
) -> (Option<usize>, Option<Client>) {
    if let Some(place) = clients.iter().position(|client| client.address == address) {
        clients[place].heard = now;
        return (Some(place), None);
    }
    let mut forgotten = None;
    if clients.len() == CLIENTS {
        let is_ours = address.ip().is_loopback();
        let may_go =
            |client: &Client| !client.stays(now) || (is_ours && !client.address.ip().is_loopback());
        let places = (0..clients.len()).filter(|&at| may_go(&clients[at]));
        let Some(place) = places.min_by_key(|&at| (clients[at].stays(now), clients[at].heard))
        else {
            return (None, None);
        };
        forgotten = Some(clients.swap_remove(place));
    }
    let frames = StreamFramer::default();
    clients.push(Client { address, since: now, heard: now, frames, near: None });
    (Some(clients.len() - 1), forgotten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2).into())).unwrap();
        socket
    }

    /// Lets the port read until it has taken `count` datagrams.
    fn taken(port: &mut UdpPort, now: Instant, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            port.handle_ready(now, now, false, &mut |_, _, piece| {
                if let Piece::Datagram(bytes) = piece {
                    all.push(bytes.to_vec());
                }
                true
            });
            if all.len() >= count {
                break;
            }
            std::thread::sleep(Duration::from_millis(1).into());
        }
        all
    }

    #[test]
    fn server_answers_its_recent_clients_and_no_one_else() {
        let poller = Poller::new().unwrap();
        let start = Instant::from_millis(0);
        let mut port = UdpPort::server("127.0.0.1:0".parse().unwrap(), Tokens(0), &poller).unwrap();
        let address = port.socket.local_addr().unwrap();
        assert!(!port.deliver(start, b"nobody is there", None, &poller));

        let (first, second) = (local(), local());
        first.send_to(b"one", address).unwrap();
        assert_eq!(taken(&mut port, start, 1), [b"one"]);
        second.send_to(b"two", address).unwrap();
        assert_eq!(taken(&mut port, start + Duration::from_secs(20), 1), [b"two"]);
        assert!(port.deliver(start + Duration::from_secs(20), b"both", None, &poller));
        let mut buffer = [0; 16];
        for socket in [&first, &second] {
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"both");
        }
        // The first has been silent for too long, the second is the latest however long it is.
        assert!(port.deliver(start + Duration::from_secs(90), b"late", None, &poller));
        assert_eq!(port.clients(), 1);
        assert_eq!(second.recv(&mut buffer).unwrap(), 4);
    }

    #[test]
    fn clients_are_bounded() {
        let mut clients = Vec::new();
        for port in 1..=100 {
            let now = Instant::from_millis(u64::from(port));
            remember(&mut clients, SocketAddr::from(([127, 0, 0, 1], port)), now);
        }
        assert_eq!(clients.len(), CLIENTS);
        assert!(clients.iter().all(|client| client.address.port() > 92));
    }

    #[test]
    fn strangers_do_not_take_the_place_of_a_ground_station() {
        let mut clients = Vec::new();
        let at = |ms| Instant::from_millis(ms);
        let station = SocketAddr::from(([192, 0, 2, 1], 14_550));
        for ms in (0..=2_000).step_by(1_000) {
            assert!(remember(&mut clients, station, at(ms)).0.is_some());
        }
        let stranger = |port: u16| SocketAddr::from(([203, 0, 113, 9], port));
        for port in 1..1_000 {
            remember(&mut clients, stranger(port), at(2_000 + u64::from(port)));
        }
        assert!(clients.iter().any(|client| client.address == station));
        // Strangers that stay are no better: they fill what is free of the table, and take no one's
        // place.
        for port in 1_000 - CLIENTS as u16..1_000 {
            for ms in [4_000, 5_500] {
                remember(&mut clients, stranger(port), at(ms));
            }
        }
        assert!(clients.iter().any(|client| client.address == station));
        assert!(remember(&mut clients, stranger(5), at(5_600)).0.is_none());
        let own = remember(&mut clients, ([127, 0, 0, 1], 9).into(), at(5_700));
        assert!(own.0.is_some() && own.1.is_some(), "of this host");
    }

    #[test]
    fn client_survives_that_nobody_listens() {
        let mut poller = Poller::new().unwrap();
        let now = Instant::from_millis(0);
        let far = local();
        let mut port = UdpPort::client(far.local_addr().unwrap(), Tokens(0), &poller).unwrap();
        let address = far.local_addr().unwrap();
        drop(far);
        for _ in 0..4 {
            port.deliver(now, b"into the void", None, &poller);
        }
        let far = UdpSocket::bind(address).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(2).into())).unwrap();
        assert!(port.deliver(now, b"again", None, &poller));
        let mut buffer = [0; 16];
        let (length, source) = far.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"again");
        far.send_to(b"answer", source).unwrap();
        poller.wait(now, None, &mut Vec::new()).unwrap();
        assert_eq!(taken(&mut port, now, 1), [b"answer"]);
    }
}
