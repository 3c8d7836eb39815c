//! TCP endpoints: a server of MAVLink streams for a few clients, or the client of one server.
//!
//! What a client does not take waits here, and is dropped when its time is over (`waiting.rs`). The
//! kernel is let have little; what it has brought into the buffer of the client's own kernel, 64 kB
//! and more, nobody can take back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use proto::select::{MavlinkFrame, StreamFramer, StreamLoss};
use proto::{Duration, Instant};
use sys::byte_stream::keep_short;
use sys::poller::{Interest, Poller, Ready};

use super::dialer::Dialer;
use super::waiting::{Fates, Passed, Waiting};
use super::{Origin, Tokens, takes_nothing};
use crate::config::Remote;

/// Clients of one server. One more takes the place of one that has not brought a frame, or of the
/// one that was silent for longest, or is turned away where none gives way.
const CLIENTS: usize = 8;
/// A client that has been silent for longer may be gone without a word: ground stations send a
/// heartbeat every second.
const SILENCE: Duration = Duration::from_secs(30);
/// A client that has brought no frame for so long is no ground station, but a browser, a scanner,
/// or one that only listens.
const SPEAKS_WITHIN: Duration = Duration::from_secs(2);
/// How long it is told that a client was turned away.
const TOLD_FOR: Duration = Duration::from_secs(60);
/// Bytes that wait for a client that does not keep up; frames beyond are dropped, whole.
const WAITING: usize = 65_536;
/// Bytes that the kernel may hold of what it cannot send at once: a few frames, so that a stream
/// goes on while we wait for our turn.
const IN_KERNEL: u32 = 4_096;
/// Bytes read from a client at a time, so that a flood leaves room for the links.
const AT_A_TIME: usize = 16_384;

/// A TCP endpoint and its connections: a server's clients, or a client's one connection, at the
/// first place.
pub(super) struct TcpPort {
    origin: From,
    clients: Vec<Option<TcpClient>>,
    tokens: Tokens,
    /// What clients that have gone lost.
    loss: StreamLoss,
    fates: Fates,
    /// When a client was turned away last.
    turned_away: Option<Instant>,
}

/// Where connections come from.
enum From {
    Listener(TcpListener),
    Dialer(Box<Dialer>),
}

struct TcpClient {
    stream: TcpStream,
    since: Instant,
    /// When its last frame came.
    heard: Option<Instant>,
    frames: StreamFramer,
    waiting: Waiting,
}

impl TcpPort {
    /// Listens.
    pub(super) fn open(address: SocketAddr, tokens: Tokens, poller: &Poller) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        poller.add(&listener, tokens.token(CLIENTS), Interest::Read)?;
        Ok(Self::of(From::Listener(listener), tokens))
    }

    /// Will connect, at once in [`TcpPort::handle_timeout`].
    pub(super) fn client(remote: Remote, tokens: Tokens) -> Self {
        Self::of(From::Dialer(Box::new(Dialer::new(remote))), tokens)
    }

    /// When [`TcpPort::handle_timeout`] is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.dialer().map(Dialer::timeout)
    }

    /// Connects, of a client.
    pub(super) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        let is_connected = self.clients() > 0;
        if let From::Dialer(dialer) = &mut self.origin
            && !is_connected
        {
            dialer.handle_timeout(now, self.tokens.token(CLIENTS), poller);
        }
    }

    /// Says what is wrong: nobody is there, of a client, or somebody takes nothing.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        match (self.dialer(), self.takes_nothing_for(now), &self.origin) {
            (Some(dialer), ..) => Some(dialer.trouble()),
            (None, Some(time), From::Listener(_)) => {
                Some(format!("a client {}", takes_nothing(time)))
            }
            (None, Some(time), From::Dialer(_)) => {
                Some(format!("the other end {}", takes_nothing(time)))
            }
            (None, None, _) => {
                let is_told = self.turned_away.is_some_and(|at| now.since(at) < TOLD_FOR);
                is_told
                    .then(|| format!("{CLIENTS} clients are connected, one more was turned away"))
            }
        }
    }

    /// Says for how long the client that is worst off has taken nothing, where one takes nothing.
    pub(super) fn takes_nothing_for(&self, now: Instant) -> Option<Duration> {
        self.clients.iter().flatten().filter_map(|one| one.waiting.takes_nothing_for(now)).max()
    }

    /// Tells whether a client has no connection.
    pub(super) fn is_lost(&self) -> bool {
        self.dialer().is_some()
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        part: usize,
        ready: Ready,
        poller: &Poller,
        take: &mut dyn FnMut(&MavlinkFrame<'_>),
    ) {
        if part == CLIENTS {
            match &mut self.origin {
                From::Listener(listener) => {
                    let Ok((stream, from)) = listener.accept() else { return };
                    match self.free_place(now) {
                        Some(part) => self.add(now, part, stream, poller),
                        None => self.turn_away(now, from),
                    }
                }
                From::Dialer(dialer) => {
                    if let Some(stream) = dialer.handle_ready(now, poller) {
                        self.add(now, 0, stream, poller);
                    }
                }
            }
            return;
        }
        let Some(Some(client)) = self.clients.get_mut(part) else { return };
        let mut alive = true;
        if ready.readable {
            alive = client.read(now, take);
        }
        if alive && ready.writable {
            alive = client.flush(now, self.tokens.token(part), poller);
        }
        self.fates += client.waiting.take_fates();
        if !alive {
            client.frames.end(take);
            self.leave(part);
        }
    }

    /// Walks the streams that come in.
    pub(super) fn streams(&mut self) -> impl Iterator<Item = (Origin, &mut StreamFramer)> {
        let clients = self.clients.iter_mut().enumerate();
        clients
            .filter_map(|(part, client)| Some((Origin::Client(part), &mut client.as_mut()?.frames)))
    }

    /// Returns what streams that have ended lost, since this was asked last.
    pub(super) fn take_loss(&mut self) -> StreamLoss {
        std::mem::take(&mut self.loss)
    }

    /// Returns what became of what was handed in for each client, since this was asked last.
    pub(super) fn take_fates(&mut self) -> Fates {
        std::mem::take(&mut self.fates)
    }

    /// Gives a frame to every client except `but`; returns whether there is one.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        passed: &Passed<'_>,
        but: Option<Origin>,
        poller: &Poller,
    ) -> bool {
        let mut given = false;
        for part in 0..CLIENTS {
            let Some(client) = self.clients[part].as_mut() else { continue };
            if but == Some(Origin::Client(part)) {
                continue;
            }
            // In one order: their numbers are those of the order in which they came.
            client.waiting.push(now, passed, false);
            let alive = client.flush(now, self.tokens.token(part), poller);
            self.fates += client.waiting.take_fates();
            given |= alive;
            if !alive {
                self.leave(part);
            }
        }
        given
    }

    /// Forgets a client that has gone, and what waited for it.
    fn leave(&mut self, part: usize) {
        if let Some(mut client) = self.clients[part].take() {
            self.loss += client.frames.take_loss();
            client.waiting.clear();
            self.fates += client.waiting.take_fates();
            if let From::Dialer(dialer) = &mut self.origin {
                dialer.lose();
            }
        }
    }

    fn of(origin: From, tokens: Tokens) -> Self {
        let clients = (0..CLIENTS).map(|_| None).collect();
        let (loss, fates, turned_away) = Default::default();
        Self { origin, clients, tokens, loss, fates, turned_away }
    }

    /// Returns what connects, of a client that has no connection.
    fn dialer(&self) -> Option<&Dialer> {
        match &self.origin {
            From::Dialer(dialer) if self.clients() == 0 => Some(dialer),
            _ => None,
        }
    }

    /// Takes a connection into a place, where another one may end with that.
    fn add(&mut self, now: Instant, part: usize, stream: TcpStream, poller: &Poller) {
        let opened = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| keep_short(&stream, IN_KERNEL))
            .and_then(|()| poller.add(&stream, self.tokens.token(part), Interest::Read));
        if opened.is_ok() {
            self.leave(part);
            let (frames, waiting) = (StreamFramer::default(), Waiting::new(WAITING));
            self.clients[part] =
                Some(TcpClient { stream, since: now, heard: None, frames, waiting });
        }
    }

    /// Finds a place for one more client.
    fn free_place(&self, now: Instant) -> Option<usize> {
        let gives_way = |part: usize| match &self.clients[part] {
            None => Some((None, None)),
            Some(client) => client.gives_way(now).then_some((client.heard, Some(client.since))),
        };
        // A free place has no times, and none is less than any.
        let places = (0..CLIENTS).filter_map(|part| Some((gives_way(part)?, part)));
        places.min().map(|(_, part)| part)
    }

    fn turn_away(&mut self, now: Instant, from: SocketAddr) {
        if self.turned_away.is_none_or(|at| now.since(at) >= TOLD_FOR) {
            tracing::warn!(%from, "client turned away: {CLIENTS} are connected");
        }
        self.turned_away = Some(now);
    }
}

impl TcpClient {
    /// Tells whether one more client may take its place.
    fn gives_way(&self, now: Instant) -> bool {
        match self.heard {
            Some(heard) => now.since(heard) >= SILENCE,
            None => now.since(self.since) >= SPEAKS_WITHIN,
        }
    }

    /// Returns whether the connection stands.
    fn read(&mut self, now: Instant, take: &mut dyn FnMut(&MavlinkFrame<'_>)) -> bool {
        let mut buffer = [0; AT_A_TIME];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                let Self { frames, heard, .. } = self;
                frames.push(now, &buffer[..length], |frame| {
                    *heard = Some(now);
                    take(frame);
                });
                true
            }
            Err(error) => passing(&error),
        }
    }

    /// Writes what waits and is not too old; returns whether the connection stands.
    fn flush(&mut self, now: Instant, token: u64, poller: &Poller) -> bool {
        while let Some(next) = self.waiting.next(now) {
            match self.stream.write(next) {
                Ok(0) => return false,
                Ok(length) => self.waiting.on_left(length),
                Err(error) if passing(&error) => {
                    self.waiting.on_refused(now);
                    return poller.modify(&self.stream, token, Interest::ReadWrite).is_ok();
                }
                Err(_) => return false,
            }
        }
        poller.modify(&self.stream, token, Interest::Read).is_ok()
    }
}

fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use proto::select::{Class, MavlinkFrames, Version, encode_frame};

    use super::*;

    /// A heartbeat of MAVLink v2.
    fn heartbeat(sequence: u8) -> Vec<u8> {
        encode_frame(Version::V2, sequence, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap()
    }

    struct Server {
        port: TcpPort,
        poller: Poller,
        taken: Vec<Vec<u8>>,
    }

    impl Server {
        fn new() -> (Self, SocketAddr) {
            let poller = Poller::new().unwrap();
            let port = TcpPort::open("127.0.0.1:0".parse().unwrap(), Tokens(0), &poller).unwrap();
            let From::Listener(listener) = &port.origin else { unreachable!() };
            let address = listener.local_addr().unwrap();
            (Self { port, poller, taken: Vec::new() }, address)
        }

        fn accept(&mut self, now: Instant) {
            let ready = Ready { token: 0, readable: true, writable: false, gone: false };
            self.port.handle_ready(now, CLIENTS, ready, &self.poller, &mut |_| {});
        }

        /// Handles what is ready until `done`, for two seconds at most.
        fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
            let mut ready = Vec::new();
            for _ in 0..200 {
                if done(self) {
                    return;
                }
                let now = sys::clock::now();
                let deadline: Instant = now + Duration::from_millis(10);
                self.poller.wait(now, Some(deadline), &mut ready).unwrap();
                for &event in &ready {
                    let taken = &mut self.taken;
                    let mut take = |frame: &MavlinkFrame<'_>| taken.push(frame.bytes.to_vec());
                    let part = event.token as usize;
                    self.port.handle_ready(now, part, event, &self.poller, &mut take);
                }
            }
            panic!("did not happen");
        }
    }

    #[test]
    fn frames_are_found_in_a_stream_that_is_cut_anywhere() {
        let (mut server, address) = Server::new();
        let mut client = TcpStream::connect(address).unwrap();
        server.run_until(|server| server.port.clients() == 1);
        let frame = heartbeat(1);
        let bytes = [&b"noise"[..], &frame, &frame].concat();
        for piece in bytes.chunks(5) {
            client.write_all(piece).unwrap();
            client.flush().unwrap();
        }
        server.run_until(|server| server.taken.len() == 2);
        assert_eq!(server.taken, [&frame[..], &frame]);

        let (start, class) = (sys::clock::now(), Class::Telemetry);
        let passed = Passed { class, expires: None, bytes: &frame };
        assert!(server.port.deliver(start, &passed, None, &server.poller));
        let mut buffer = vec![0; frame.len()];
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, frame);
        drop(client);
        server.run_until(|server| server.port.clients() == 0);
        assert!(!server.port.deliver(start, &passed, None, &server.poller));
    }

    #[test]
    fn clients_and_what_waits_for_them_are_bounded() {
        let (mut server, address) = Server::new();
        let mut streams: Vec<_> =
            (0..=CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        server.run_until(|server| server.port.clients() == CLIENTS);
        for stream in &mut streams {
            stream.set_read_timeout(Some(Duration::from_millis(200).into())).unwrap();
        }
        // The one too many is turned away: its stream ends.
        server.run_until(|_| true);
        let mut ended = false;
        for _ in 0..20 {
            server.accept(sys::clock::now());
            let last = streams.last_mut().unwrap();
            ended |= last.read(&mut [0; 1]).is_ok_and(|length| length == 0);
        }
        assert!(ended);
        assert!(server.port.trouble(sys::clock::now()).unwrap().contains("was turned away"));
        // Where the others have been silent for long, one of them makes room.
        let mut late = TcpStream::connect(address).unwrap();
        late.set_read_timeout(Some(Duration::from_millis(200).into())).unwrap();
        let later = sys::clock::now() + SILENCE;
        for _ in 0..20 {
            server.accept(later);
        }
        assert_eq!(server.port.clients(), CLIENTS);
        let error = late.read(&mut [0; 1]).unwrap_err();
        assert!(passing(&error), "it stands: {error}");
        // The client does not read: frames are dropped in the end, and none is cut.
        let frame = heartbeat(1);
        let passed = Passed { class: Class::Telemetry, expires: None, bytes: &frame };
        while server.port.fates.dropped == 0 {
            server.port.deliver(later, &passed, None, &server.poller);
        }
        let client = server.port.clients[0].as_ref().unwrap();
        assert!(client.waiting.bytes() <= WAITING);
    }

    #[test]
    fn whoever_brings_no_frame_gives_way_to_a_ground_station() {
        let (mut server, address) = Server::new();
        let mut speaks = TcpStream::connect(address).unwrap();
        server.run_until(|server| server.port.clients() == 1);
        let mut others: Vec<_> =
            (1..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        server.run_until(|server| server.port.clients() == CLIENTS);
        speaks.write_all(&heartbeat(1)).unwrap();
        others.iter_mut().for_each(|other| other.write_all(b"GET / HTTP/1.1").unwrap());
        server.run_until(|server| server.taken.len() == 1);
        let now = sys::clock::now();
        let turned_away = TcpStream::connect(address).unwrap();
        server.accept(now);
        assert!(server.port.turned_away.take().is_some(), "all of them may still speak");
        drop(turned_away);
        let later = now + SPEAKS_WITHIN;
        let newcomers: Vec<_> =
            (1..=CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
        newcomers.iter().for_each(|_| server.accept(later));
        let clients = || server.port.clients.iter().flatten();
        assert!(clients().any(|client| client.heard.is_some()), "who speaks keeps its place");
        assert_eq!(clients().filter(|client| client.since == later).count(), CLIENTS - 1);
        assert!(server.port.turned_away.is_some(), "the eighth");
    }

    #[test]
    fn a_client_that_does_not_read_gets_nothing_old_of_what_waited_here() {
        let (mut server, address) = Server::new();
        let mut client = TcpStream::connect(address).unwrap();
        server.run_until(|server| server.port.clients() == 1);
        let mut now = sys::clock::now();
        let give = |server: &mut Server, now: Instant, number| {
            let (expires, frame) = (Some(now + Duration::from_secs(1)), heartbeat(number));
            let passed = Passed { class: Class::Telemetry, expires, bytes: &frame };
            assert!(server.port.deliver(now, &passed, None, &server.poller));
        };
        let waits = |server: &Server| server.port.clients[0].as_ref().unwrap().waiting.bytes() > 0;
        while !waits(&server) {
            give(&mut server, now, 0);
        }
        for number in 1..=100 {
            now += Duration::from_millis(300);
            give(&mut server, now, number);
        }
        let trouble = server.port.trouble(now).unwrap();
        assert!(trouble.starts_with("a client has taken nothing for 30 s"), "{trouble}");
        client.set_read_timeout(Some(Duration::from_secs(10).into())).unwrap();
        let mut read = Vec::new();
        while !read.ends_with(&heartbeat(100)) {
            let mut buffer = [0; 65_536];
            let length = client.read(&mut buffer).unwrap();
            read.extend_from_slice(&buffer[..length]);
            server.port.clients[0].as_mut().unwrap().flush(now, 0, &server.poller);
        }
        let numbers = MavlinkFrames::new(&read).map(|frame| frame.sequence());
        assert_eq!(
            numbers.skip_while(|number| *number == 0).collect::<Vec<_>>(),
            [97, 98, 99, 100]
        );
        assert_eq!(server.port.trouble(now), None);
    }
}
