//! SEQPACKET endpoints: a Unix socket whose clients exchange whole messages with the far end.
//!
//! Nothing is dropped here in silence. While the session has no room nothing is read, and writers
//! wait. A reader that falls too far behind is disconnected: a reliable stream with a hole is worse
//! than one that visibly ends. Where a stream has a deadline, what waits beyond it is skipped, as
//! everywhere (`waiting.rs`), and the kernel is let have little at a time, since nothing there can
//! be taken back.

use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proto::{Duration, Instant};
use sys::arrival;
use sys::poller::{Interest, Poller, Ready};
use sys::seqpacket::{Incoming, Seqpacket, SeqpacketListener};

use super::Tokens;
use super::waiting::{Fates, Passed, Waiting};
use crate::socket_file::{MadeDirectories, make_room};

/// Clients of one socket; one more is turned away.
const CLIENTS: usize = 16;
/// The longest message: what message delivery takes.
const LONGEST: usize = 1 << 20;
/// Room that is asked for on the way to a client: the longest message and its bookkeeping, so that
/// it can be delivered at all.
pub(crate) const SEND_BUFFER: usize = LONGEST + 4_096;
/// What a message takes in the kernel beside its bytes, at most: the kernel is asked for room for
/// little more than the next one where messages have a deadline.
const BESIDE_MESSAGE: usize = 4_096;
/// Bytes that wait for a client that does not keep up, before it is disconnected.
const WAITING: usize = 8 << 20;
/// Bytes and messages read from a client at a time, so that a flood leaves room for the links.
const BYTES_AT_A_TIME: usize = 256 << 10;
const MESSAGES_AT_A_TIME: usize = 64;

/// A SEQPACKET endpoint's listener and its clients.
pub(super) struct SeqpacketPort {
    listener: SeqpacketListener,
    clients: Vec<Option<Client>>,
    tokens: Tokens,
    /// Nothing is read: the session has no room.
    paused: bool,
    fates: Fates,
    buffer: Vec<u8>,
    _directories: MadeDirectories,
}

struct Client {
    socket: Seqpacket,
    token: u64,
    /// What it is polled for at the moment.
    polled: Option<Interest>,
    /// The other end is gone; what it wrote before may still be read.
    gone: bool,
    waiting: Waiting,
    /// The send buffer that was asked for last.
    send_buffer: usize,
}

impl SeqpacketPort {
    /// Listens; takes the place of a socket that a killed daemon has left behind.
    pub(super) fn open(
        path: &Path,
        mode: u32,
        tokens: Tokens,
        poller: &Poller,
    ) -> io::Result<Self> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("socket {}: {error}", path.display()))
        };
        let directories = make_room(path).map_err(named)?;
        let listener = SeqpacketListener::bind(path, mode).map_err(named)?;
        poller.add(&listener, tokens.token(CLIENTS), Interest::Read)?;
        let clients = (0..CLIENTS).map(|_| None).collect();
        Ok(Self {
            listener,
            clients,
            tokens,
            paused: false,
            fates: Fates::default(),
            buffer: Vec::new(),
            _directories: directories,
        })
    }

    /// Gives the socket other permissions; who is connected stays so.
    pub(super) fn set_mode(&self, path: &Path, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        if let Err(error) = std::fs::set_permissions(path, mode) {
            tracing::warn!(path = %path.display(), %error, "set the permissions of a socket");
        }
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    /// Reads until `take` says that it has enough.
    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        came: Instant,
        part: usize,
        ready: Ready,
        poller: &Poller,
        take: &mut dyn FnMut(Instant, &[u8]) -> bool,
    ) {
        if part == CLIENTS {
            self.accept(poller);
            return;
        }
        let Some(Some(client)) = self.clients.get_mut(part) else { return };
        let mut alive = true;
        client.gone |= ready.gone;
        if ready.writable || ready.gone {
            alive = client.write(now) || ready.readable;
        }
        self.fates += client.waiting.take_fates();
        if alive && ready.readable && !self.paused {
            self.buffer.resize(LONGEST, 0);
            alive = client.read(came, &mut self.buffer, take);
        }
        if !alive || client.poll(self.paused, poller).is_err() {
            self.leave(part);
        }
    }

    /// Stops reading, or begins again.
    pub(super) fn set_paused(&mut self, paused: bool, poller: &Poller) {
        self.paused = paused;
        for place in &mut self.clients {
            if place.as_mut().is_some_and(|client| client.poll(paused, poller).is_err()) {
                *place = None;
            }
        }
    }

    /// Returns what became of what was handed in for each client, since this was asked last.
    pub(super) fn take_fates(&mut self) -> Fates {
        std::mem::take(&mut self.fates)
    }

    /// Says for how long the client that is worst off has taken nothing, where one takes nothing.
    pub(super) fn takes_nothing_for(&self, now: Instant) -> Option<Duration> {
        self.clients.iter().flatten().filter_map(|one| one.waiting.takes_nothing_for(now)).max()
    }

    /// Gives a message to every client; returns whether there is one.
    pub(super) fn deliver(&mut self, now: Instant, passed: &Passed<'_>, poller: &Poller) -> bool {
        let mut given = false;
        for part in 0..CLIENTS {
            let Some(client) = self.clients[part].as_mut().filter(|client| !client.gone) else {
                continue;
            };
            client.waiting.push(now, passed, false);
            let alive = client.write(now) && client.waiting.bytes() <= WAITING;
            let waiting_bytes = client.waiting.bytes();
            if alive && client.poll(self.paused, poller).is_ok() {
                given = true;
                self.fates += client.waiting.take_fates();
            } else {
                tracing::warn!(
                    waiting_bytes,
                    "a client of a SEQPACKET socket is disconnected: it is gone, reads too slowly, \
                     or its socket holds no message of this size (net.core.wmem_max)"
                );
                self.leave(part);
            }
        }
        given
    }

    /// Forgets a client that has gone, and what waited for it.
    fn leave(&mut self, part: usize) {
        if let Some(mut client) = self.clients[part].take() {
            client.waiting.clear();
            self.fates += client.waiting.take_fates();
        }
    }

    fn accept(&mut self, poller: &Poller) {
        let Ok(socket) = self.listener.accept() else { return };
        let Some(part) = self.clients.iter().position(Option::is_none) else { return };
        // Where the kernel does not tell when messages came, those of a standstill count as old as
        // that.
        let _ = arrival::stamp(&socket);
        // A smaller buffer will do for shorter messages; one that does not fit is reported then.
        let _ = socket.set_send_buffer(SEND_BUFFER);
        let mut client = Client {
            socket,
            token: self.tokens.token(part),
            polled: None,
            gone: false,
            // Beyond the bound the client goes, and no message of its stream is left out.
            waiting: Waiting::new(usize::MAX),
            send_buffer: SEND_BUFFER,
        };
        if client.poll(self.paused, poller).is_ok() {
            self.clients[part] = Some(client);
        }
    }
}

impl Client {
    /// Returns whether the connection stands.
    fn read(
        &mut self,
        came: Instant,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Instant, &[u8]) -> bool,
    ) -> bool {
        let mut bytes = 0;
        for _ in 0..MESSAGES_AT_A_TIME {
            match self.socket.receive_stamped(buffer) {
                Ok((Incoming::Message(length), at)) => {
                    bytes += length;
                    if !take(at.unwrap_or(came), &buffer[..length]) || bytes >= BYTES_AT_A_TIME {
                        return true;
                    }
                }
                Ok((Incoming::TooLong(bytes), _)) => {
                    tracing::warn!(
                        bytes,
                        "a client of a SEQPACKET socket is disconnected: it sent a message of more \
                         than {LONGEST} bytes"
                    );
                    return false;
                }
                Ok((Incoming::End, _)) => return false,
                Err(error) => return is_passing(&error),
            }
        }
        true
    }

    /// Writes what waits and is not too old; returns whether the connection stands.
    fn write(&mut self, now: Instant) -> bool {
        while let Some(message) = self.waiting.next(now) {
            let length = message.len();
            let room = match self.waiting.expires_next() {
                true => (length + BESIDE_MESSAGE).next_power_of_two(),
                false => SEND_BUFFER,
            };
            if std::mem::replace(&mut self.send_buffer, room) != room {
                // A smaller buffer will do for shorter messages; one that does not fit is reported
                // then.
                let _ = self.socket.set_send_buffer(room);
            }
            let Some(message) = self.waiting.next(now) else { break };
            match self.socket.send(message) {
                Ok(()) => self.waiting.on_left(length),
                Err(error) => {
                    self.waiting.on_refused(now);
                    return is_passing(&error);
                }
            }
        }
        true
    }

    /// Waits for what can happen next: a socket that hung up is always ready, and would keep the
    /// loop spinning while nothing is read.
    fn poll(&mut self, paused: bool, poller: &Poller) -> io::Result<()> {
        let wanted = match (paused, self.waiting.bytes() == 0 || self.gone) {
            (false, true) => Some(Interest::Read),
            (false, false) => Some(Interest::ReadWrite),
            (true, false) => Some(Interest::Write),
            (true, true) => None,
        };
        match (self.polled, wanted) {
            (None, Some(interest)) => poller.add(&self.socket, self.token, interest)?,
            (Some(_), None) => poller.remove(&self.socket)?,
            (Some(old), Some(new)) if old != new => {
                poller.modify(&self.socket, self.token, new)?;
            }
            _ => {}
        }
        self.polled = wanted;
        Ok(())
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proto::Duration;
    use proto::select::Class;

    use tempfile::TempDir;

    use super::*;

    struct Server {
        port: SeqpacketPort,
        poller: Poller,
        path: PathBuf,
        taken: Vec<Vec<u8>>,
        /// Messages that are taken before the port is paused.
        room: usize,
        _folder: TempDir,
    }

    impl Server {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (path, poller) = (folder.path().join("deep/socket"), Poller::new().unwrap());
            let port = SeqpacketPort::open(&path, 0o600, Tokens(0), &poller).unwrap();
            Self { port, poller, path, taken: Vec::new(), room: usize::MAX, _folder: folder }
        }

        fn client(&mut self) -> Seqpacket {
            let (client, before) = (Seqpacket::connect(&self.path).unwrap(), self.port.clients());
            self.turn();
            assert_eq!(self.port.clients(), before + 1);
            client
        }

        /// Handles what is ready; returns how much that was.
        fn turn(&mut self) -> usize {
            let (now, mut ready) = (sys::clock::now(), Vec::new());
            self.poller.wait(now, Some(now), &mut ready).unwrap();
            for &event in &ready {
                let (taken, room) = (&mut self.taken, self.room);
                let mut take = |_, bytes: &[u8]| {
                    taken.push(bytes.to_vec());
                    taken.len() < room
                };
                self.port.handle_ready(
                    now,
                    now,
                    event.token as usize,
                    event,
                    &self.poller,
                    &mut take,
                );
                if self.taken.len() >= self.room {
                    self.port.set_paused(true, &self.poller);
                }
            }
            ready.len()
        }
    }

    /// A message of a stream without a deadline.
    fn give(server: &mut Server, message: &[u8]) -> bool {
        let passed = Passed { class: Class::Message, expires: None, bytes: message };
        server.port.deliver(sys::clock::now(), &passed, &server.poller)
    }

    #[test]
    fn a_writer_waits_while_there_is_no_room_and_loses_nothing() {
        let mut server = Server::new();
        let (writer, other) = (server.client(), server.client());
        server.room = 3;
        for number in 0..10 {
            writer.send(&[number; 100]).unwrap();
        }
        drop(writer);
        while server.turn() > 0 {}
        assert_eq!(server.taken.len(), 3);
        assert_eq!(server.turn(), 0, "a writer that has gone keeps no loop spinning");
        assert!(give(&mut server, b"meanwhile"));
        let mut buffer = [0; 100];
        assert_eq!(other.receive(&mut buffer).unwrap(), Incoming::Message(9));
        server.room = usize::MAX;
        server.port.set_paused(false, &server.poller);
        while server.turn() > 0 {}
        let numbers: Vec<u8> = server.taken.iter().map(|message| message[0]).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<u8>>());
        assert_eq!(server.port.clients(), 1);
    }

    #[test]
    fn a_reader_that_is_behind_gets_everything_or_is_disconnected() {
        let mut server = Server::new();
        let reader = server.client();
        let message = |number: u32| [&number.to_le_bytes()[..], &[0; 50_000]].concat();
        for number in 0..40 {
            assert!(give(&mut server, &message(number)));
        }
        let mut buffer = vec![0; LONGEST];
        for number in 0..40_u32 {
            assert_eq!(reader.receive(&mut buffer).unwrap(), Incoming::Message(50_004));
            assert_eq!(buffer[..4], number.to_le_bytes());
            server.turn();
        }
        let given = (0..1_000).take_while(|n| give(&mut server, &message(*n)));
        assert!(given.count() < 1_000);
        assert_eq!(server.port.clients(), 0);
    }

    #[test]
    fn a_reader_that_is_behind_gets_nothing_beyond_its_deadline() {
        let mut server = Server::new();
        let reader = server.client();
        let mut now = sys::clock::now();
        for number in 0..=255 {
            now += Duration::from_millis(100);
            let expires = Some(now + Duration::from_secs(1));
            let passed = Passed { class: Class::Message, expires, bytes: &[number; 1_000] };
            assert!(server.port.deliver(now, &passed, &server.poller));
        }
        assert!(server.port.takes_nothing_for(now).is_some());
        let (mut numbers, mut buffer) = (Vec::new(), vec![0; LONGEST]);
        while numbers.last() != Some(&255) {
            assert_eq!(reader.receive(&mut buffer).unwrap(), Incoming::Message(1_000));
            numbers.push(buffer[0]);
            server.port.clients[0].as_mut().unwrap().write(now);
        }
        let in_kernel = numbers.iter().filter(|number| **number < 246).count();
        assert!(in_kernel <= 16, "the kernel holds little: {numbers:?}");
        assert!(numbers.ends_with(&(246..=255).collect::<Vec<u8>>()), "{numbers:?}");
    }

    #[test]
    fn the_socket_of_a_killed_daemon_is_replaced_and_one_in_use_is_not() {
        let server = Server::new();
        let second = |path: &Path| SeqpacketPort::open(path, 0o600, Tokens(0), &server.poller);
        let refused = second(&server.path).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(refused.to_string().contains("deep/socket"), "{refused}");
        let stale = server.path.with_file_name("stale");
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        assert!(second(&stale).is_ok());
        assert!(!stale.exists(), "it goes with the port");
    }
}
