//! The daemon's end: the newest events as lines, and the clients that follow them.
//!
//! A client that connects is given every line that is kept, then each one as it happens. Nothing is
//! kept for a client but the number of its next line: one that reads too slowly is told how many it
//! has lost.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use proto::Instant;
use sys::poller::{Interest, Poller};

use super::{EventReport, socket_beside, timestamp};
use crate::awaited::Awaited;
use crate::socket_file::SocketFile;

/// Lines that are kept: some minutes of a station whose thousand drones lose a link at once, and 1
/// MiB at most.
const KEPT: usize = 4_096;
/// Clients that may follow at a time.
const FOLLOWERS: usize = 16;
/// Lines that one turn of the loop gives a client.
const LINES_AT_A_TIME: usize = 64;
/// The last number of a client; the next is 1 again. A token has 16 bits for it.
const LAST_PART: usize = 0xFFFF;

/// The events that are kept, and the socket that serves them.
pub(crate) struct EventServer {
    socket: Awaited<SocketFile>,
    path: PathBuf,
    run: String,
    ring: VecDeque<Vec<u8>>,
    /// The number of the event that comes next.
    next: u64,
    followers: Vec<Client>,
    last_part: usize,
}

/// A client that follows.
struct Client {
    part: usize,
    stream: UnixStream,
    /// The number of the line that it gets next.
    next: u64,
    /// What is left of the lines before it.
    rest: Vec<u8>,
    /// There is more for it than its socket or a turn has room for.
    waits: bool,
}

impl EventServer {
    /// Keeps events from now on; [`EventServer::listen`] opens the socket, beside that of `fulmar
    /// status`.
    ///
    /// # Errors
    /// That there is no randomness to be had.
    pub(crate) fn new(status: &Path) -> io::Result<Self> {
        let path = socket_beside(status);
        let run = sys::entropy::word()?;
        let socket = Awaited::new(format!("socket of events {}", path.display()));
        let (ring, followers) = (VecDeque::new(), Vec::new());
        Ok(Self { socket, path, run, ring, next: 1, followers, last_part: 0 })
    }

    /// Opens the socket where that is due, with the token of newcomers.
    pub(crate) fn listen(&mut self, now: Instant, poller: &Poller, token: u64) {
        let path = &self.path;
        self.socket.try_again(now, || {
            let opened = SocketFile::open(path).and_then(|socket| {
                poller.add(&socket, token, Interest::Read)?;
                Ok(socket)
            });
            opened.map_err(|error| error.to_string())
        });
    }

    /// Says why nobody can follow.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.socket.trouble()
    }

    /// Returns how many events there were.
    pub(crate) fn count(&self) -> u64 {
        self.next - 1
    }

    /// Keeps an event, of which number, run and time are filled in here, and gives it to those who
    /// follow.
    pub(crate) fn push(
        &mut self,
        event: EventReport,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) {
        let (seq, run) = (self.next, self.run.clone());
        let event = EventReport { seq, run, time: timestamp(SystemTime::now()), ..event };
        let Some(line) = line(&event) else { return };
        self.next += 1;
        if self.ring.len() == KEPT {
            self.ring.pop_front();
        }
        self.ring.push_back(line);
        let waiting: Vec<usize> = self
            .followers
            .iter()
            .filter(|client| !client.waits)
            .map(|client| client.part)
            .collect();
        for part in waiting {
            self.go_on(part, poller, token(part));
        }
    }

    /// Takes clients that have connected.
    pub(crate) fn take_newcomers(&mut self, poller: &Poller, token: impl Fn(usize) -> u64) {
        // One that finds no room is hung up on, and says so.
        while let Some(Ok(stream)) = self.socket.get().map(SocketFile::accept) {
            let part = self.last_part % LAST_PART + 1;
            let is_ready = stream.set_nonblocking(true).is_ok();
            if self.followers.len() >= FOLLOWERS
                || !is_ready
                || poller.add(&stream, token(part), Interest::Read).is_err()
            {
                continue;
            }
            self.last_part = part;
            let client = Client { part, stream, next: 1, rest: Vec::new(), waits: false };
            self.followers.push(client);
            self.go_on(part, poller, token(part));
        }
    }

    /// Goes on with a client: its socket has room, or its other end is gone.
    pub(crate) fn go_on(&mut self, part: usize, poller: &Poller, token: u64) {
        let Some(place) = self.followers.iter().position(|client| client.part == part) else {
            return;
        };
        let first = self.next - self.ring.len() as u64;
        let Self { ring, run, followers, .. } = self;
        let client = &mut followers[place];
        let waited = client.waits;
        let lives = client.is_there() && client.give(ring, first, run);
        let interest = if client.waits { Interest::ReadWrite } else { Interest::Read };
        let watched =
            waited == client.waits || poller.modify(&client.stream, token, interest).is_ok();
        if !lives || !watched {
            followers.swap_remove(place);
        }
    }
}

impl Client {
    /// Tells whether the other end is there. It has nothing to say.
    fn is_there(&mut self) -> bool {
        let waits = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted);
        self.stream.read_exact(&mut [0]).is_err_and(|error| waits(error.kind()))
    }

    /// Gives the lines that it has not had, as far as there is room; false when the client is gone.
    fn give(&mut self, ring: &VecDeque<Vec<u8>>, first: u64, run: &str) -> bool {
        for _ in 0..LINES_AT_A_TIME {
            if self.rest.is_empty() {
                if self.next < first {
                    self.rest = lost(first, self.next, run);
                    self.next = first;
                } else if let Some(line) = ring.get((self.next - first) as usize) {
                    self.rest.clone_from(line);
                    self.next += 1;
                } else {
                    self.waits = false;
                    return true;
                }
            }
            while !self.rest.is_empty() {
                match self.stream.write(&self.rest) {
                    Ok(written) => _ = self.rest.drain(..written),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.waits = true;
                        return error.kind() == ErrorKind::WouldBlock;
                    }
                }
            }
        }
        self.waits = true;
        true
    }
}

/// Says that the lines from `next` to the one before `first` are not kept.
fn lost(first: u64, next: u64, run: &str) -> Vec<u8> {
    let event = EventReport {
        seq: first - 1,
        run: run.into(),
        time: timestamp(SystemTime::now()),
        level: "info".into(),
        event: "lost".into(),
        text: format!("{} earlier events are not kept any more", first - next),
        ..EventReport::default()
    };
    line(&event).unwrap_or_default()
}

fn line(event: &EventReport) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(event).ok()?;
    line.push(b'\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    struct Rig {
        server: EventServer,
        poller: Poller,
        _directory: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let mut server = EventServer::new(&directory.path().join("drone.sock")).unwrap();
            let poller = Poller::new().unwrap();
            server.listen(Instant::ZERO, &poller, 0);
            Self { server, poller, _directory: directory }
        }

        fn push(&mut self, text: &str) {
            let event = EventReport { text: text.into(), ..EventReport::default() };
            self.server.push(event, &self.poller, |part| part as u64);
        }

        fn follow(&mut self) -> UnixStream {
            let stream = UnixStream::connect(&self.server.path).unwrap();
            self.server.take_newcomers(&self.poller, |part| part as u64);
            stream
        }

        fn turn(&mut self) {
            let mut ready = Vec::new();
            self.poller.wait(Instant::ZERO, Some(Instant::ZERO), &mut ready).unwrap();
            for event in ready {
                self.server.go_on(event.token as usize, &self.poller, event.token);
            }
        }
    }

    /// Reads events up to number `last` while the server goes on.
    fn read(rig: &mut Rig, stream: &UnixStream, last: u64) -> Vec<EventReport> {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            let mut events: Vec<EventReport> = Vec::new();
            for line in lines {
                events.push(serde_json::from_str(&line.unwrap()).unwrap());
                if events.last().is_some_and(|event| event.seq == last) {
                    break;
                }
            }
            events
        });
        while !reader.is_finished() {
            rig.turn();
        }
        reader.join().unwrap()
    }

    #[test]
    fn a_client_is_given_what_is_kept_and_then_each_event_as_it_happens() {
        let mut rig = Rig::new();
        rig.push("before");
        let mut stream = rig.follow();
        rig.push("after");
        let events = read(&mut rig, &stream, 2);
        assert_eq!((events[0].seq, events[0].text.as_str()), (1, "before"));
        assert_eq!((events[1].seq, events[1].text.as_str()), (2, "after"));
        assert_eq!(events[0].run, events[1].run);
        // Who speaks is no client of ours, and neither is who has gone.
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        rig.turn();
        assert!(rig.server.followers.is_empty());
        drop(rig.follow());
        rig.turn();
        assert!(rig.server.followers.is_empty());
    }

    #[test]
    fn who_reads_slowly_is_told_how_much_was_lost_and_nobody_waits_for_it() {
        let mut rig = Rig::new();
        let slow = rig.follow();
        let long = "x".repeat(200);
        (0..3 * KEPT).for_each(|_| rig.push(&long));
        assert_eq!(rig.server.ring.len(), KEPT);
        let events = read(&mut rig, &slow, 3 * KEPT as u64);
        let mut last = 0;
        for event in &events {
            assert!(event.seq == last + 1 || event.event == "lost", "{last} → {}", event.seq);
            last = event.seq;
        }
        assert!(events.iter().any(|event| event.event == "lost"));
    }

    #[test]
    fn more_clients_than_may_follow_are_hung_up_on() {
        let mut rig = Rig::new();
        let clients: Vec<UnixStream> = (0..FOLLOWERS + 3).map(|_| rig.follow()).collect();
        assert_eq!(rig.server.followers.len(), FOLLOWERS);
        assert_eq!((&clients[FOLLOWERS]).read(&mut [0; 8]).unwrap(), 0);
    }
}
