//! Serial endpoints: an autopilot on a UART or USB port, which may be missing or unplugged.
//!
//! The driver's own queue is kept short, since nothing can overtake in it: frames wait here in two
//! queues, replicated control before everything else, and the oldest of the rest is dropped when
//! the port is slower than the link.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use proto::select::{Class, MavlinkFrame, StreamFramer, StreamLoss, Tier};
use proto::{Duration, Instant};
use sys::poller::{Interest, Poller, Ready};
use sys::serial::Serial;

use super::{RETRY, Tokens};

/// How long what waits in the driver keeps the line busy: longer than the time between two looks.
const IN_DRIVER: Duration = Duration::from_millis(20);
/// The driver takes at least this much: a frame of MAVLink v2 with a signature has 293 bytes.
const AT_LEAST: usize = 300;
/// How much may wait here, in time on the line; older frames are dropped.
const WAITING: Duration = Duration::from_secs(2);
/// Bits on the line for each byte: start, eight of data, stop.
const BITS: u64 = 10;
/// Bytes read at a time.
const AT_A_TIME: usize = 4_096;

/// A serial endpoint's port and its queues.
pub(super) struct SerialPort {
    device: PathBuf,
    baud: u32,
    port: Option<Serial>,
    trouble: Option<String>,
    frames: StreamFramer,
    /// What was lost with a port that was lost itself.
    loss: StreamLoss,
    urgent: VecDeque<Vec<u8>>,
    rest: VecDeque<Vec<u8>>,
    rest_bytes: usize,
    /// What is left of a frame that went out in part.
    unfinished: Vec<u8>,
    tokens: Tokens,
    due: Option<Instant>,
}

impl SerialPort {
    /// Prepares the port; it opens at once in [`SerialPort::handle_timeout`].
    pub(super) fn new(device: PathBuf, baud: u32, tokens: Tokens, now: Instant) -> Self {
        Self {
            device,
            baud,
            port: None,
            trouble: None,
            frames: StreamFramer::of_line(baud),
            loss: StreamLoss::default(),
            urgent: VecDeque::new(),
            rest: VecDeque::new(),
            rest_bytes: 0,
            unfinished: Vec::new(),
            tokens,
            due: Some(now),
        }
    }

    /// Takes another speed: the port opens again, at once.
    pub(super) fn set_baud(&mut self, baud: u32, now: Instant) {
        if self.baud != baud {
            (self.baud, self.port, self.due) = (baud, None, Some(now));
        }
    }

    /// Says why the port is not open.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        if self.port.is_none() {
            self.open(now, poller);
        }
        self.flush(now);
    }

    pub(super) fn handle_ready(
        &mut self,
        now: Instant,
        ready: Ready,
        take: &mut dyn FnMut(&MavlinkFrame<'_>),
    ) {
        let Some(port) = &self.port else { return };
        let mut buffer = [0; AT_A_TIME];
        match port.read(&mut buffer) {
            Ok(Some(length)) => self.frames.push(now, &buffer[..length], take),
            Ok(None) if !ready.gone => {}
            Ok(None) => self.lose(now, &io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(error) => self.lose(now, &error),
        }
    }

    /// The stream that comes in.
    pub(super) fn stream(&mut self) -> &mut StreamFramer {
        &mut self.frames
    }

    /// Returns what streams that have ended lost, since this was asked last.
    pub(super) fn take_loss(&mut self) -> StreamLoss {
        std::mem::take(&mut self.loss)
    }

    /// Returns whether the frame was written or queued.
    pub(super) fn deliver(&mut self, now: Instant, class: Class, frame: &[u8]) -> bool {
        if self.port.is_none() {
            return false;
        }
        if class.tier() == Tier::Control {
            self.urgent.push_back(frame.to_vec());
        } else {
            self.rest_bytes += frame.len();
            self.rest.push_back(frame.to_vec());
        }
        self.flush(now);
        let limit = self.bytes_in(WAITING);
        while self.rest_bytes > limit {
            let dropped = self.rest.pop_front().unwrap_or_default();
            self.rest_bytes -= dropped.len();
        }
        while self.urgent.iter().map(Vec::len).sum::<usize>() > limit {
            self.urgent.pop_front();
        }
        self.port.is_some()
    }

    fn open(&mut self, now: Instant, poller: &Poller) {
        let opened = Serial::open(&self.device, self.baud).and_then(|port| {
            poller.add(&port, self.tokens.token(0), Interest::Read)?;
            Ok(port)
        });
        match opened {
            Ok(port) => {
                (self.port, self.trouble) = (Some(port), None);
                // A line that comes back begins anew.
                self.frames.end(|_| {});
                self.loss += self.frames.take_loss();
                self.frames = StreamFramer::of_line(self.baud);
                tracing::info!(device = %self.device.display(), baud = self.baud, "serial port open");
            }
            Err(error) => self.lose(now, &error),
        }
    }

    /// Closes the port and says why, once.
    fn lose(&mut self, now: Instant, error: &io::Error) {
        let trouble = error.to_string();
        if self.trouble.as_ref() != Some(&trouble) {
            let device = self.device.display();
            tracing::warn!(%device, %error, "serial port lost; it is tried every second");
        }
        self.trouble = Some(trouble);
        self.port = None;
        self.urgent.clear();
        self.rest.clear();
        self.unfinished.clear();
        self.rest_bytes = 0;
        self.due = Some(now + RETRY);
    }

    /// Writes while the driver's queue is short; what is left waits until it has drained.
    fn flush(&mut self, now: Instant) {
        let room = self.bytes_in(IN_DRIVER).max(AT_LEAST);
        loop {
            let Some(port) = &self.port else { return };
            if self.unfinished.is_empty() {
                let next = self.urgent.pop_front().or_else(|| {
                    let frame = self.rest.pop_front()?;
                    self.rest_bytes -= frame.len();
                    Some(frame)
                });
                let Some(frame) = next else { return };
                self.unfinished = frame;
            }
            let queued = port.queued();
            if queued > 0 && queued + self.unfinished.len() > room {
                self.due = Some(now + self.time_for(queued / 2 + 1));
                return;
            }
            match port.write(&self.unfinished) {
                Ok(0) => {
                    self.due = Some(now + self.time_for(room));
                    return;
                }
                Ok(length) => drop(self.unfinished.drain(..length)),
                Err(error) => return self.lose(now, &error),
            }
        }
    }

    fn bytes_in(&self, time: Duration) -> usize {
        (u64::from(self.baud) / BITS * time.as_millis() / 1_000) as usize
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let micros = bytes as u64 * BITS * 1_000_000 / u64::from(self.baud.max(1));
        Duration::from_micros(micros.max(1_000))
    }
}

#[cfg(test)]
mod tests {
    use proto::select::{Version, encode_frame};

    use super::*;

    /// A heartbeat of MAVLink v2.
    fn heartbeat(sequence: u8) -> Vec<u8> {
        encode_frame(Version::V2, sequence, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap()
    }

    struct Line {
        master: sys::serial::PseudoTerminal,
        port: SerialPort,
        poller: Poller,
        now: Instant,
    }

    fn line(baud: u32) -> Line {
        let master = sys::serial::PseudoTerminal::open().unwrap();
        let now = Instant::from_millis(0);
        let poller = Poller::new().unwrap();
        let mut port = SerialPort::new(master.device().to_owned(), baud, Tokens(0), now);
        port.handle_timeout(now, &poller);
        assert_eq!(port.trouble(), None);
        Line { master, port, poller, now }
    }

    fn ready(gone: bool) -> Ready {
        Ready { token: 0, readable: true, writable: false, gone }
    }

    #[test]
    fn frames_pass_both_ways() {
        let mut line = line(57_600);
        let frame = heartbeat(1);
        assert!(line.port.deliver(line.now, Class::Telemetry, &frame));
        assert_eq!(line.master.read().unwrap(), frame);
        line.master.write(&frame).unwrap();
        let mut taken = Vec::new();
        // The kernel brings it from one end to the other when it has time.
        for _ in 0..10_000 {
            let take = &mut |frame: &MavlinkFrame<'_>| taken.push(frame.bytes.to_vec());
            line.port.handle_ready(line.now, ready(false), take);
            if !taken.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1).into());
        }
        assert_eq!(taken, [frame]);
    }

    #[test]
    fn lost_port_is_opened_again() {
        let mut line = line(57_600);
        drop(line.master);
        line.port.handle_ready(line.now, ready(true), &mut |_| {});
        assert!(line.port.trouble().is_some());
        assert!(!line.port.deliver(line.now, Class::Live, &heartbeat(1)));
        let again = sys::serial::PseudoTerminal::open().unwrap();
        line.port.device = again.device().to_owned();
        let due = line.port.timeout().unwrap();
        assert_eq!(due, line.now + RETRY);
        line.port.handle_timeout(due, &line.poller);
        assert!(line.port.deliver(due, Class::Live, &heartbeat(1)));
        assert_eq!(again.read().unwrap(), heartbeat(1));
    }

    #[test]
    fn what_waits_is_bounded_and_control_overtakes() {
        let mut line = line(1_200);
        // As if the driver were full, frame by frame: a frame went out in part.
        line.port.unfinished = vec![0; 4];
        let limit = line.port.bytes_in(WAITING);
        for sequence in 0..=255 {
            let frame = heartbeat(sequence);
            line.port.rest_bytes += frame.len();
            line.port.rest.push_back(frame);
        }
        line.port.urgent.push_back(vec![1, 2, 3]);
        assert!(line.port.deliver(line.now, Class::Control, &[4, 5, 6]));
        assert!(line.port.rest_bytes <= limit);
        // The kernel may pass on each write by itself.
        let mut written = Vec::new();
        while written.len() < 10 {
            written.extend(line.master.read().unwrap());
        }
        assert_eq!(&written[..10], [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]);
    }
}
