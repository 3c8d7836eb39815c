//! The daemon's end of the status socket: each client that connects is given one report.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use proto::{Duration, Instant};
use sys::clock;
use sys::poller::{Interest, Poller};

use super::{EndpointReport, PeerReport, Report};
use crate::awaited::Awaited;
use crate::socket_file::SocketFile;

/// Clients that one turn of the loop answers, so that a flood of them leaves room for the links.
const AT_A_TIME: usize = 4;
/// Clients that may be in the middle of an answer: that of a station with a fleet does not fit a
/// socket's buffer. One more takes the place of the client that has kept us waiting for longest.
const SLOW_CLIENTS: usize = 8;
/// Peers that one turn of the loop reports to a client: each takes tens of microseconds, and a
/// station may have a thousand.
const PEERS_AT_A_TIME: usize = 8;
/// Endpoints of which that is true: each takes some microseconds.
const ENDPOINTS_AT_A_TIME: usize = 40;
/// The last number of a client; the next is 1 again. A token has 16 bits for it.
const LAST_PART: usize = 0xFFFF;
/// Times that another program's socket must answer before the program is believed alive.
const LOOKS: u32 = 10;
/// Time between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The socket, and who is in the middle of an answer.
pub(crate) struct StatusServer {
    socket: SocketFile,
    slow: VecDeque<Answer>,
    last_part: usize,
}

/// Tells what stands in the lists of a report, which are as long as the fleet.
pub(crate) trait Lists {
    /// Tells of the peer at a place; none behind the last.
    fn peer(&self, place: usize) -> Option<PeerReport>;

    /// Tells of the first endpoint at or behind a place, and its place; none behind the last.
    fn endpoint(&self, from: usize) -> Option<(usize, EndpointReport)>;
}

/// A client, and what is left of its answer.
pub(crate) struct Answer {
    part: usize,
    stream: UnixStream,
    /// What is to be written next, and how much of it has been.
    text: Vec<u8>,
    written: usize,
    next: Next,
    /// What stands between the peers and the endpoints, and behind those.
    between: Vec<u8>,
    tail: Vec<u8>,
}

/// What is told next of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// The peer at a place.
    Peer(usize),
    /// The first endpoint at or behind a place.
    Endpoint(usize),
    /// Nothing any more.
    End,
}

impl StatusServer {
    /// Opens the socket as a daemon starts, with the token of newcomers; where it cannot be made,
    /// [`StatusServer::try_again`] makes it later.
    ///
    /// # Errors
    /// Says that another daemon answers there, which is the one of this file.
    pub(crate) fn start(path: &Path, poller: &Poller, token: u64) -> Result<Awaited<Self>, String> {
        let mut server = Awaited::new(format!("status socket {}", path.display()));
        for look in 1.. {
            match Self::open_for(path, poller, token) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    if look == LOOKS {
                        return Err(format!("status socket {}: {error}", path.display()));
                    }
                    // One that was killed a moment ago may still be on its way out.
                    std::thread::sleep(BETWEEN_LOOKS.into());
                }
                opened => {
                    server.try_again(clock::now(), || opened.map_err(|error| told(&error)));
                    break;
                }
            }
        }
        Ok(server)
    }

    /// Makes the socket where it could not be made, as far as that is due.
    pub(crate) fn try_again(
        server: &mut Awaited<Self>,
        now: Instant,
        path: &Path,
        poller: &Poller,
        token: u64,
    ) {
        server.try_again(now, || Self::open_for(path, poller, token).map_err(|error| told(&error)));
    }

    fn open_for(path: &Path, poller: &Poller, token: u64) -> io::Result<Self> {
        let server = Self::open(path)?;
        poller.add(&server.socket, token, Interest::Read)?;
        Ok(server)
    }

    /// Listens; takes the place of a socket that a killed daemon has left behind.
    ///
    /// # Errors
    /// Those of [`SocketFile::open`].
    fn open(path: &Path) -> io::Result<Self> {
        let (slow, last_part) = (VecDeque::new(), 0);
        Ok(Self { socket: SocketFile::open(path)?, slow, last_part })
    }

    /// Returns clients that have connected, a few at a time.
    pub(crate) fn newcomers(&self) -> Vec<UnixStream> {
        std::iter::from_fn(|| self.socket.accept().ok()).take(AT_A_TIME).collect()
    }

    /// Takes out the answer that the poller tells by its part, from 1 on: its socket has room, or
    /// its other end is gone.
    pub(crate) fn take(&mut self, part: usize) -> Option<Answer> {
        let place = self.slow.iter().position(|answer| answer.part == part)?;
        self.slow.remove(place)
    }

    /// Keeps an answer that is not complete; the poller tells its part under the token that `token`
    /// makes of it.
    pub(crate) fn keep(
        &mut self,
        mut answer: Answer,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) {
        if answer.part == 0 {
            answer.part = self.last_part % LAST_PART + 1;
            if poller.add(&answer.stream, token(answer.part), Interest::Write).is_err() {
                return;
            }
            self.last_part = answer.part;
            if self.slow.len() >= SLOW_CLIENTS {
                self.slow.pop_front();
            }
        }
        self.slow.push_back(answer);
    }
}

impl Answer {
    /// Begins to give a client a report, whose peers and endpoints come by [`Answer::go_on`].
    pub(crate) fn begin(stream: UnixStream, report: &Report) -> Option<Self> {
        let [text, between, tail] = around_lists(report)?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { part: 0, stream, text, written: 0, next: Next::Peer(0), between, tail })
    }

    /// Writes what there is room for, and a few peers or endpoints at most: no turn of the loop
    /// takes long, however many there are. True when the answer is not complete, and to be kept.
    pub(crate) fn go_on(&mut self, lists: &impl Lists) -> bool {
        let (mut peers, mut endpoints) = (0, 0);
        loop {
            while self.written < self.text.len() {
                match self.stream.write(&self.text[self.written..]) {
                    Ok(0) => return false,
                    Ok(written) => self.written += written,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
            match self.next {
                Next::End => return false,
                Next::Peer(_) => peers += 1,
                Next::Endpoint(_) => endpoints += 1,
            }
            if peers > PEERS_AT_A_TIME || endpoints > ENDPOINTS_AT_A_TIME {
                return true;
            }
            self.text.clear();
            self.written = 0;
            let Ok(next) = self.tell(lists) else { return false };
            self.next = next;
        }
    }

    /// Makes the text of what comes next, and returns what comes then.
    fn tell(&mut self, lists: &impl Lists) -> serde_json::Result<Next> {
        // What stands around a list ends in its bracket, and an item that is not the first follows
        // a comma.
        let text = &mut self.text;
        let next = match self.next {
            Next::Peer(place) => match lists.peer(place) {
                Some(report) => {
                    text.extend((place > 0).then_some(b','));
                    serde_json::to_writer(text, &report)?;
                    Next::Peer(place + 1)
                }
                None => {
                    text.append(&mut self.between);
                    Next::Endpoint(0)
                }
            },
            Next::Endpoint(from) => match lists.endpoint(from) {
                Some((place, report)) => {
                    text.extend((from > 0).then_some(b','));
                    serde_json::to_writer(text, &report)?;
                    Next::Endpoint(place + 1)
                }
                None => {
                    text.append(&mut self.tail);
                    Next::End
                }
            },
            Next::End => Next::End,
        };
        Ok(next)
    }
}

fn told(error: &io::Error) -> String {
    format!("{error}; [status] socket names another place")
}

/// Returns what stands before the peers of a report, between them and the endpoints, and behind
/// those; it has none of either itself.
fn around_lists(report: &Report) -> Option<[Vec<u8>; 3]> {
    const PEERS: &str = "\"peers\":[";
    const ENDPOINTS: &str = "\"endpoints\":[";
    let text = serde_json::to_string(report).ok()? + "\n";
    // Nothing that others have named stands before them.
    let (head, rest) = text.split_at(text.find(PEERS)? + PEERS.len());
    let (between, tail) = rest.split_at(rest.find(ENDPOINTS)? + ENDPOINTS.len());
    Some([head.into(), between.into(), tail.into()])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::status::{MessageStreamReport, fetch};

    /// Tells of the peers and endpoints of a report, and counts them.
    struct Told<'a>(&'a Report, std::cell::Cell<[usize; 2]>);

    impl<'a> Told<'a> {
        fn of(report: &'a Report) -> Self {
            Self(report, std::cell::Cell::default())
        }

        fn count(&self, list: usize) {
            let mut counts = self.1.get();
            counts[list] += 1;
            self.1.set(counts);
        }
    }

    impl Lists for Told<'_> {
        fn peer(&self, place: usize) -> Option<PeerReport> {
            self.count(0);
            self.0.peers.get(place).cloned()
        }

        /// Places of endpoints have gaps: those that a reload took away.
        fn endpoint(&self, from: usize) -> Option<(usize, EndpointReport)> {
            self.count(1);
            let place = from.next_multiple_of(3);
            Some((place, self.0.endpoints.get(place / 3)?.clone()))
        }
    }

    fn without_lists(report: &Report) -> Report {
        Report { peers: Vec::new(), endpoints: Vec::new(), ..report.clone() }
    }

    /// Does what a turn of the daemon's loop does; returns how many reports were taken.
    fn turn(server: &mut StatusServer, poller: &mut Poller, report: &Report) -> usize {
        let newcomers = server.newcomers();
        let taken = newcomers.len();
        let (head, told) = (without_lists(report), Told::of(report));
        for client in newcomers {
            go_on(server, poller, Answer::begin(client, &head), &told);
        }
        let mut ready = Vec::new();
        poller.wait(Instant::ZERO, Some(Instant::ZERO), &mut ready).unwrap();
        for event in ready {
            let answer = server.take(event.token as usize);
            go_on(server, poller, answer, &told);
        }
        taken
    }

    fn go_on(server: &mut StatusServer, poller: &Poller, answer: Option<Answer>, told: &Told<'_>) {
        let Some(mut answer) = answer else { return };
        if answer.go_on(told) {
            server.keep(answer, poller, |part| part as u64);
        }
    }

    #[test]
    fn report_arrives_and_the_socket_is_left_to_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/drone.sock");
        let (mut server, mut poller) = (StatusServer::open(&path).unwrap(), Poller::new().unwrap());
        let report = Report { role: "drone".into(), uptime_s: 1.5, ..Report::default() };
        let asked = std::thread::spawn({
            let path = path.clone();
            move || fetch(&path)
        });
        while !asked.is_finished() {
            turn(&mut server, &mut poller, &report);
        }
        assert_eq!(asked.join().unwrap().unwrap(), report);
        assert_eq!(StatusServer::open(&path).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        drop(server);
        assert!(!path.exists() && !path.parent().unwrap().exists(), "it was made for the socket");
        assert!(directory.path().exists(), "it was there before");

        drop(StatusServer::open(&directory.path().join("deep/er/drone.sock")).unwrap());
        assert!(!path.parent().unwrap().exists());
        let server = StatusServer::open(&path).unwrap();
        fs::write(path.with_extension("toml"), "another one's").unwrap();
        drop(server);
        assert!(path.with_extension("toml").exists() && !path.exists());

        // As after a kill: the file is there, and no listener.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        StatusServer::open(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("private.key");
        fs::write(&key, "precious").unwrap();
        let link = directory.path().join("link.sock");
        std::os::unix::fs::symlink(&key, &link).unwrap();
        for path in [&key, &link] {
            let refused = StatusServer::open(path).err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&key).unwrap(), b"precious");
    }

    #[test]
    fn a_thousand_peers_and_endpoints_are_told_a_few_in_each_turn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("station.sock");
        let (mut server, mut poller) = (StatusServer::open(&path).unwrap(), Poller::new().unwrap());
        let named =
            |place: usize| PeerReport { name: format!("d{place}"), ..PeerReport::default() };
        let called = |place: usize| EndpointReport {
            name: format!("\"endpoints\":[{place}"),
            ..EndpointReport::default()
        };
        let report = Report {
            peers: (0..1_000).map(named).collect(),
            endpoints: (0..1_000).map(called).collect(),
            ..Report::default()
        };
        let told = Told::of(&report);
        let asked = std::thread::spawn({
            let path = path.clone();
            move || fetch(&path)
        });
        let is_little = |before: [usize; 2]| {
            let [peers, endpoints] = told.1.get();
            peers <= before[0] + PEERS_AT_A_TIME && endpoints <= before[1] + ENDPOINTS_AT_A_TIME
        };
        let client = std::iter::from_fn(|| Some(server.newcomers())).find_map(|mut new| new.pop());
        let answer = Answer::begin(client.unwrap(), &without_lists(&report));
        go_on(&mut server, &poller, answer, &told);
        assert!(is_little([0, 0]));
        let mut ready = Vec::new();
        while !asked.is_finished() {
            let before = told.1.get();
            poller.wait(Instant::ZERO, Some(Instant::ZERO), &mut ready).unwrap();
            for event in ready.drain(..) {
                let answer = server.take(event.token as usize);
                go_on(&mut server, &poller, answer, &told);
            }
            assert!(is_little(before));
        }
        assert_eq!(asked.join().unwrap().unwrap(), report);
    }

    #[test]
    fn a_flood_of_clients_is_answered_a_few_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("drone.sock");
        let (mut server, mut poller) = (StatusServer::open(&path).unwrap(), Poller::new().unwrap());
        let clients: Vec<_> =
            (0..AT_A_TIME * 2 + 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut turn = || turn(&mut server, &mut poller, &Report::default());
        assert_eq!([turn(), turn(), turn(), turn()], [AT_A_TIME, AT_A_TIME, 1, 0]);
        drop(clients);
    }

    #[test]
    fn a_report_larger_than_the_sockets_buffer_arrives_and_clients_that_do_not_read_are_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("station.sock");
        let (mut server, mut poller) = (StatusServer::open(&path).unwrap(), Poller::new().unwrap());
        let message_streams = vec![MessageStreamReport::default(); 2_048];
        let peer = PeerReport { message_streams, ..PeerReport::default() };
        let report = Report { peers: vec![peer; 4], ..Report::default() };
        let idle: Vec<_> = (0..3 * SLOW_CLIENTS)
            .map(|_| {
                let client = UnixStream::connect(&path).unwrap();
                turn(&mut server, &mut poller, &report);
                client
            })
            .collect();
        assert_eq!(server.slow.len(), SLOW_CLIENTS);
        let asked = std::thread::spawn({
            let path = path.clone();
            move || fetch(&path)
        });
        while !asked.is_finished() {
            turn(&mut server, &mut poller, &report);
        }
        assert_eq!(asked.join().unwrap().unwrap(), report);
        drop(idle);
        turn(&mut server, &mut poller, &report);
        assert!(server.slow.is_empty(), "clients that are gone are forgotten");
    }
}
