//! UDP endpoints: a server that answers the programs that speak to it, a client that speaks to one address.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use proto::select::{StreamFramer, StreamLoss};
use proto::{Duration, Instant};
use sys::poller::{Interest, Poller};

use super::intake::Piece;
use super::{Origin, RETRY, Tokens};

/// Clients of one server. One more takes the place of the one that was silent for longest, unless all are
/// regular ones.
const CLIENTS: usize = 8;
/// A client that has been silent for longer is forgotten, unless it is the only one: ground
/// stations send a heartbeat every second.
const SILENCE: Duration = Duration::from_secs(30);
/// A client that has spoken for so long is a regular one: strangers cannot take its place.
const REGULAR: Duration = Duration::from_secs(1);
/// Datagrams read at a time, so that a flood leaves room for the links.
const AT_A_TIME: usize = 64;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// A UDP endpoint's socket, and the addresses that it speaks to.
pub(super) struct UdpPort {
    socket: Option<UdpSocket>,
    /// The one address of a client; a server has none.
    remote: Option<SocketAddr>,
    /// Whoever speaks to it; of a client the one address.
    clients: Vec<Client>,
    /// What the streams of clients that are forgotten lost.
    loss: StreamLoss,
    tokens: Tokens,
    retry: Option<Instant>,
    buffer: Vec<u8>,
}

struct Client {
    address: SocketAddr,
    since: Instant,
    heard: Instant,
    /// Whose memory has the bound of the clients, and which strangers cannot push out any more than the client itself.
    frames: StreamFramer,
}

impl Client {
    /// Tells whether a newcomer may not take its place: it is there, and has been for a while.
    fn stays(&self, now: Instant) -> bool {
        now.since(self.heard) < SILENCE && self.heard.since(self.since) >= REGULAR
    }
}

impl UdpPort {
    /// Binds a server.
    pub(super) fn server(address: SocketAddr, tokens: Tokens, poller: &Poller) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        poller.add(&socket, tokens.token(0), Interest::Read)?;
        Ok(Self::new(Some(socket), None, tokens, None))
    }

    /// Prepares a client; it connects at once in [`UdpPort::handle_timeout`].
    pub(super) fn client(address: SocketAddr, tokens: Tokens, now: Instant) -> Self {
        Self::new(None, Some(address), tokens, Some(now))
    }

    fn new(
        socket: Option<UdpSocket>,
        remote: Option<SocketAddr>,
        tokens: Tokens,
        retry: Option<Instant>,
    ) -> Self {
        let (clients, loss, buffer) = (Vec::new(), StreamLoss::default(), vec![0; LARGEST]);
        Self { socket, remote, clients, loss, tokens, retry, buffer }
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.retry
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        let (Some(remote), true) = (self.remote, self.retry.is_some_and(|retry| retry <= now))
        else {
            return;
        };
        match connect(remote, self.tokens, poller) {
            Ok(socket) => (self.socket, self.retry) = (Some(socket), None),
            // The address's network may not be there yet.
            Err(_) => self.retry = Some(now + RETRY),
        }
    }

    /// Reads until `take` says that it has enough; the datagrams of a source may be pieces of a stream of frames.
    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        is_stream: bool,
        take: &mut dyn FnMut(Origin, Piece<'_>) -> bool,
    ) {
        let Some(socket) = &self.socket else { return };
        for _ in 0..AT_A_TIME {
            match socket.recv_from(&mut self.buffer) {
                Ok((length, source)) => {
                    let bytes = &self.buffer[..length];
                    let (place, forgotten) = remember(&mut self.clients, source, now);
                    if let Some(mut client) = forgotten {
                        let from = Origin::Address(client.address);
                        client.frames.end(|frame| _ = take(from, Piece::Frame(frame)));
                        self.loss += client.frames.take_loss();
                    }
                    let Some(place) = place else { continue };
                    let from = Origin::Address(source);
                    if is_stream {
                        let frames = &mut self.clients[place].frames;
                        frames.push(now, bytes, |frame| _ = take(from, Piece::Frame(frame)));
                    } else if !take(from, Piece::Datagram(bytes)) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The application at the other end is not there at the moment.
                Err(_) => {}
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
        let Some(socket) = &self.socket else { return };
        let changed = match paused {
            true => poller.remove(socket),
            false => poller.add(socket, self.tokens.token(0), Interest::Read),
        };
        if let Err(error) = changed {
            tracing::warn!(%error, paused, "wait for a UDP endpoint");
        }
    }

    /// Gives a datagram to every client except `but`; returns whether any took it.
    pub(super) fn deliver(&mut self, now: Instant, bytes: &[u8], but: Option<Origin>) -> bool {
        let Some(socket) = &self.socket else { return false };
        if self.remote.is_some() {
            if but.is_some() {
                return false;
            }
            // An error that an earlier datagram has caused is reported once: the second try sends.
            return (0..2).any(|_| socket.send(bytes).is_ok());
        }
        if self.clients.len() > 1 {
            let latest = self.clients.iter().map(|client| client.heard).max();
            self.clients
                .retain(|client| Some(client.heard) == latest || now.since(client.heard) < SILENCE);
        }
        let mut given = false;
        let others = |client: &&Client| but != Some(Origin::Address(client.address));
        for client in self.clients.iter().filter(others) {
            given |= socket.send_to(bytes, client.address).is_ok();
        }
        given
    }
}

/// Connects, so that the kernel keeps strangers out.
fn connect(remote: SocketAddr, tokens: Tokens, poller: &Poller) -> io::Result<UdpSocket> {
    let any: SocketAddr = match remote {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    socket.set_nonblocking(true)?;
    poller.add(&socket, tokens.token(0), Interest::Read)?;
    Ok(socket)
}

/// Notes a client, and returns its place, none when there is no room for it, and who is forgotten for it. Programs of
/// this host take the place of strangers.
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
    clients.push(Client { address, since: now, heard: now, frames: StreamFramer::default() });
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
            port.handle_ready(now, false, &mut |_, piece| {
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
        let address = port.socket.as_ref().unwrap().local_addr().unwrap();
        assert!(!port.deliver(start, b"nobody is there", None));

        let (first, second) = (local(), local());
        first.send_to(b"one", address).unwrap();
        assert_eq!(taken(&mut port, start, 1), [b"one"]);
        second.send_to(b"two", address).unwrap();
        assert_eq!(taken(&mut port, start + Duration::from_secs(20), 1), [b"two"]);
        assert!(port.deliver(start + Duration::from_secs(20), b"both", None));
        let mut buffer = [0; 16];
        for socket in [&first, &second] {
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"both");
        }
        // The first has been silent for too long, the second is the latest however long it is.
        assert!(port.deliver(start + Duration::from_secs(90), b"late", None));
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
        // Strangers that stay are no better: they fill what is free of the table, and take no one's place.
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
        let mut port = UdpPort::client(far.local_addr().unwrap(), Tokens(0), now);
        assert_eq!(port.timeout(), Some(now));
        port.handle_timeout(now, &poller);
        assert_eq!(port.timeout(), None);
        let address = far.local_addr().unwrap();
        drop(far);
        for _ in 0..4 {
            port.deliver(now, b"into the void", None);
        }
        let far = UdpSocket::bind(address).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(2).into())).unwrap();
        assert!(port.deliver(now, b"again", None));
        let mut buffer = [0; 16];
        let (length, source) = far.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"again");
        far.send_to(b"answer", source).unwrap();
        poller.wait(now, None, &mut Vec::new()).unwrap();
        assert_eq!(taken(&mut port, now, 1), [b"answer"]);
    }
}
