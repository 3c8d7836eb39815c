//! The same over connections of the kernel's, which the drone makes to the station: one for each
//! link, and for all streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use sys::byte_stream::{Transport, send_now};
use sys::tcp_info::tcp_info;
use units::Duration;

use super::super::Stream;
use super::super::channel::{Channel, MESSAGE_MAX};
use super::super::kernel_stream::{self, Connected};
use super::super::links::{Copy, Side};
use super::{HEADER, is_control};

/// The sending half of one stream.
pub(crate) struct Outlet {
    stream: Stream,
    connections: Arc<Mutex<Connections>>,
}

/// The receiving half of one stream; what it answers goes out as the stream does.
pub(crate) struct Inlet {
    came: Receiver<Vec<u8>>,
    answers: Outlet,
}

/// All connections of a side, as all its streams write to them. They end with the last stream.
struct Connections {
    open: Vec<(TcpStream, VecDeque<u8>)>,
    number: u32,
}

/// Hands each stream what comes for it, once.
struct Deliveries {
    streams: BTreeMap<u8, Sender<Vec<u8>>>,
    /// Numbers of control that came, of the last [`REMEMBERED`].
    seen: BTreeSet<u32>,
}

/// How many numbers of control are remembered: more than can be under way.
const REMEMBERED: usize = 65_536;

/// Connects both sides over every link, and opens a channel for each stream at each side.
///
/// # Errors
/// When a connection is not made within 20 s, or the machine gives no thread.
pub(crate) fn connect(
    copy: &Copy<'_>,
    streams: &[Stream],
    congestion: &str,
    port: u16,
) -> Result<Connected, String> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut ends: [Vec<TcpStream>; 2] = Default::default();
    for link in 0..copy.link_count() {
        let to = SocketAddr::from((copy.address(Side::Station, link)?, port + link as u16));
        let dialled = kernel_stream::dial(copy, Transport::Tcp, congestion, to)?;
        ends[0].push(dialled.drone);
        ends[1].push(dialled.station);
        listeners.push(dialled.listener);
    }
    let mut channels = BTreeMap::new();
    for (side, open) in [Side::Drone, Side::Station].into_iter().zip(ends) {
        let opened = open_side(open, streams).map_err(|error| error.to_string())?;
        channels.extend(opened.into_iter().map(|(stream, channel)| ((side, stream), channel)));
    }
    Ok((channels, listeners))
}

/// Makes the channels of one side.
fn open_side(open: Vec<TcpStream>, streams: &[Stream]) -> io::Result<Vec<(Stream, Channel)>> {
    let mut deliveries = Deliveries { streams: BTreeMap::new(), seen: BTreeSet::new() };
    let mut came = Vec::new();
    for stream in streams {
        let (sender, receiver) = channel();
        deliveries.streams.insert(*stream as u8, sender);
        came.push((*stream, receiver));
    }
    let deliveries = Arc::new(Mutex::new(deliveries));
    for connection in &open {
        let (connection, deliveries) = (connection.try_clone()?, Arc::clone(&deliveries));
        let reader = thread::Builder::new().name("read copies".into());
        reader.spawn(move || read_all(connection, &deliveries))?;
    }
    let open = open.into_iter().map(|connection| (connection, VecDeque::new())).collect();
    let connections = Arc::new(Mutex::new(Connections { open, number: 0 }));
    let outlet = |stream| Outlet { stream, connections: Arc::clone(&connections) };
    let make = |(stream, came)| {
        let inlet = Inlet { came, answers: outlet(stream) };
        (stream, super::super::channel::copies(outlet(stream), inlet))
    };
    Ok(came.into_iter().map(make).collect())
}

/// Reads a connection to its end.
fn read_all(mut connection: TcpStream, deliveries: &Mutex<Deliveries>) {
    let (mut buffer, mut partial) = (vec![0; 1 << 16], Vec::new());
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => partial.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nobody is left to hear of it: the ledger will tell.
            Err(_) => return,
        }
        let mut deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        if !deliveries.take(&mut partial) {
            return;
        }
    }
}

impl Deliveries {
    /// Hands on every whole message at the front; false where that is none.
    fn take(&mut self, partial: &mut Vec<u8>) -> bool {
        let mut taken = 0;
        while let Some((header, rest)) = partial[taken..].split_first_chunk::<HEADER>() {
            let len = usize::from(u16::from_be_bytes([header[0], header[1]]));
            if len > MESSAGE_MAX {
                return false;
            }
            let Some(message) = rest.get(..len) else { break };
            let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            if header[3] == 0 || self.is_first(number) {
                let stream = self.streams.get(&header[2]);
                // Who listens no longer misses nothing.
                stream.map(|stream| stream.send(message.to_vec()));
            }
            taken += HEADER + len;
        }
        partial.drain(..taken);
        true
    }

    fn is_first(&mut self, number: u32) -> bool {
        let is_first = self.seen.insert(number);
        if self.seen.len() > REMEMBERED {
            self.seen.pop_first();
        }
        is_first
    }
}

impl Connections {
    /// Gives each connection what it takes; tells whether more waits.
    fn flush(&mut self) -> bool {
        self.open.iter_mut().fold(false, |waits, (connection, waiting)| {
            while !waiting.is_empty() {
                match send_now(connection, waiting.as_slices().0) {
                    Ok(taken) if taken > 0 => drop(waiting.drain(..taken)),
                    // Full for now, or broken for good.
                    _ => return true,
                }
            }
            waits
        })
    }
}

impl Outlet {
    /// Sends a message; false for data where no connection has sent all that it was given.
    pub(crate) fn send(&self, message: &[u8]) -> bool {
        let mut connections = self.lock();
        let mut order: Vec<(Duration, usize)> = Vec::new();
        let is_control = is_control(self.stream);
        for (at, (connection, waiting)) in connections.open.iter().enumerate() {
            let Ok(info) = tcp_info(connection) else { continue };
            if is_control || (info.not_sent == 0 && waiting.is_empty()) {
                order.push((info.srtt, at));
            }
        }
        order.sort_unstable();
        if !is_control {
            order.truncate(1);
        }
        connections.number = connections.number.wrapping_add(1);
        let len = (message.len() as u16).to_be_bytes();
        let kind = [self.stream as u8, u8::from(is_control)];
        let header = [&len[..], &kind, &connections.number.to_be_bytes()].concat();
        for (_, at) in &order {
            connections.open[*at].1.extend(header.iter().chain(message));
        }
        connections.flush();
        !order.is_empty()
    }

    /// Gives the connections what they take of what waits; tells whether more waits.
    pub(crate) fn flush(&self) -> bool {
        self.lock().flush()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inlet {
    /// Sends an answer.
    pub(crate) fn answer(&self, message: &[u8]) {
        self.answers.send(message);
    }

    /// Waits a little for a message.
    ///
    /// # Errors
    /// When all connections have ended.
    pub(crate) fn receive(&self, within: Duration, handle: impl FnOnce(&[u8])) -> io::Result<()> {
        match self.came.recv_timeout(within.into()) {
            Ok(message) => handle(&message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for (connection, _) in &mut self.open {
            // The readers have clones, and end by this; it may have ended by itself.
            let _ = connection.flush();
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_comes_once_and_data_as_often_as_it_was_sent() {
        let (control, came) = channel();
        let (video, data) = channel();
        let streams = [(Stream::Control as u8, control), (Stream::Video as u8, video)];
        let mut deliveries = Deliveries { streams: streams.into(), seen: BTreeSet::new() };
        let message = |stream: Stream, number: u32, text: &[u8]| {
            let head = [0, text.len() as u8, stream as u8, u8::from(is_control(stream))];
            [&head[..], &number.to_be_bytes(), text].concat()
        };
        let bytes = [
            message(Stream::Control, 1, b"arm"),
            message(Stream::Video, 2, b"frame"),
            message(Stream::Control, 1, b"arm"),
            message(Stream::Control, 3, b"land"),
        ];
        let mut partial = Vec::new();
        // However the stream was cut.
        for byte in bytes.concat() {
            partial.push(byte);
            assert!(deliveries.take(&mut partial));
        }
        drop(deliveries);
        assert_eq!(came.iter().collect::<Vec<_>>(), [b"arm".to_vec(), b"land".to_vec()]);
        assert_eq!(data.iter().collect::<Vec<_>>(), [b"frame".to_vec()]);
    }
}
