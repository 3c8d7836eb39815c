//! Serial endpoints: an autopilot on a UART or USB port, which may be missing or unplugged.
//!
//! The driver's own queue is kept short, since nothing can overtake in it, and nothing in it can be
//! taken back: frames wait here, replicated control before everything else, and none beyond its
//! time to live (`waiting.rs`). Drivers that do not tell how much they hold (pseudo-terminals) take
//! what they can, some 17 kB.

use std::io;
use std::path::PathBuf;

use proto::select::{MavlinkFrame, StreamFramer, StreamLoss, Tier};
use proto::{Duration, Instant};
use sys::poller::{Interest, Poller, Ready};
use sys::serial::{FlowControl, Serial};

use super::waiting::{Fates, Passed, Waiting};
use super::{RETRY, Tokens, takes_nothing};
use crate::config::Line;
use crate::holders::HolderWatch;

/// How long what waits in the driver keeps the line busy: longer than the time between two looks.
const IN_DRIVER: Duration = Duration::from_millis(20);
/// The driver takes at least this much: a frame of MAVLink v2 with a signature has 293 bytes.
const AT_LEAST: usize = 300;
/// How much may wait here, in time on the line.
const WAITING: Duration = Duration::from_secs(2);
/// Bits on the line for each byte: start, eight of data, stop.
const BITS: u64 = 10;
/// Bytes read at a time.
const AT_A_TIME: usize = 4_096;

/// A serial endpoint's port and its queues.
pub(super) struct SerialPort {
    device: PathBuf,
    line: Line,
    port: Option<Serial>,
    trouble: Option<String>,
    /// Another program that has it, or reads beside us.
    others: HolderWatch,
    frames: StreamFramer,
    /// What was lost with a port that was lost itself.
    loss: StreamLoss,
    waiting: Waiting,
    /// What the driver held when it was last asked.
    queued: usize,
    tokens: Tokens,
    due: Option<Instant>,
}

impl SerialPort {
    /// Prepares the port; it opens at once in [`SerialPort::handle_timeout`].
    pub(super) fn new(device: PathBuf, line: Line, tokens: Tokens, now: Instant) -> Self {
        Self {
            device,
            line,
            port: None,
            trouble: None,
            others: HolderWatch::default(),
            frames: StreamFramer::of_line(line.baud),
            loss: StreamLoss::default(),
            waiting: Waiting::new(bytes_in(WAITING, line.baud)),
            queued: 0,
            tokens,
            due: Some(now),
        }
    }

    /// Takes another speed or flow control: the port opens again, at once.
    pub(super) fn set_line(&mut self, line: Line, now: Instant) {
        if self.line != line {
            (self.line, self.port, self.due) = (line, None, Some(now));
            self.waiting.set_most(bytes_in(WAITING, line.baud));
        }
    }

    /// Tells whether the device is not there, or not ours.
    pub(super) fn is_lost(&self) -> bool {
        self.trouble.is_some()
    }

    /// For how long it has taken nothing.
    pub(super) fn takes_nothing_for(&self, now: Instant) -> Option<Duration> {
        self.waiting.takes_nothing_for(now)
    }

    /// Says why the port is not open, that it takes nothing, or who else reads it.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        let other = self.others.found();
        if let Some(trouble) = &self.trouble {
            return Some(match other {
                Some(other) => format!("{trouble}: {other}; it is tried every second"),
                None => format!("{trouble}; it is tried every second"),
            });
        }
        if let Some(time) = self.takes_nothing_for(now) {
            let is_clear = self.port.as_ref().and_then(Serial::is_clear_to_send);
            return Some(takes_nothing(time) + why_nothing(self.line, is_clear));
        }
        other.map(|other| {
            format!("{other} has it open as well: each of the two gets a part of what comes, so end that program")
        })
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        Some(self.due.map_or(self.others.timeout(), |due| due.min(self.others.timeout())))
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.others.look(now, &self.device);
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

    /// Returns what became of what was handed in, since this was asked last.
    pub(super) fn take_fates(&mut self) -> Fates {
        self.waiting.take_fates()
    }

    /// Returns whether the port is there to take it.
    pub(super) fn deliver(&mut self, now: Instant, passed: &Passed<'_>) -> bool {
        if self.port.is_none() {
            return false;
        }
        self.waiting.push(now, passed, passed.class.tier() == Tier::Control);
        self.flush(now);
        true
    }

    fn open(&mut self, now: Instant, poller: &Poller) {
        let Line { baud, rts_cts } = self.line;
        let flow = if rts_cts { FlowControl::RtsCts } else { FlowControl::None };
        let opened = Serial::open(&self.device, baud, flow).and_then(|port| {
            poller.add(&port, self.tokens.token(0), Interest::Read)?;
            Ok(port)
        });
        match opened {
            Ok(port) => {
                (self.port, self.trouble) = (Some(port), None);
                self.others.hurry();
                // A line that comes back begins anew.
                self.frames.end(|_| {});
                self.loss += self.frames.take_loss();
                self.frames = StreamFramer::of_line(baud);
                tracing::info!(device = %self.device.display(), baud, "serial port open");
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
            self.others.hurry();
        }
        self.trouble = Some(trouble);
        self.port = None;
        self.waiting.clear();
        self.due = Some(now + RETRY);
    }

    /// Writes while the driver's queue is short; what is left waits until it has drained.
    fn flush(&mut self, now: Instant) {
        let room = bytes_in(IN_DRIVER, self.line.baud).max(AT_LEAST);
        loop {
            let Some(port) = &self.port else { return };
            let queued = port.queued();
            if queued < self.queued {
                self.waiting.on_taken();
            }
            self.queued = queued;
            let Some(next) = self.waiting.next(now) else { return };
            if queued > 0 && queued + next.len() > room {
                self.waiting.on_refused(now);
                self.due = Some(now + self.time_for(queued / 2 + 1));
                return;
            }
            match port.write(next) {
                Ok(0) => {
                    self.waiting.on_refused(now);
                    self.due = Some(now + self.time_for(room));
                    return;
                }
                Ok(length) => self.waiting.on_left(length),
                Err(error) => return self.lose(now, &error),
            }
        }
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let micros = bytes as u64 * BITS * 1_000_000 / u64::from(self.line.baud.max(1));
        Duration::from_micros(micros.max(1_000))
    }
}

/// Says why a port may take nothing, as far as its wires tell.
fn why_nothing(line: Line, is_clear_to_send: Option<bool>) -> &'static str {
    match (line.rts_cts, is_clear_to_send) {
        (true, Some(false)) => {
            "; CTS is off: the other end does not let us send. Is its flow control on, and its RTS wired to our CTS? \
             flow_control = \"none\" does without"
        }
        _ => "",
    }
}

fn bytes_in(time: Duration, baud: u32) -> usize {
    (u64::from(baud) / BITS * time.as_millis() / 1_000) as usize
}

#[cfg(test)]
mod tests {
    use proto::select::{Class, MavlinkFrames, Version, encode_frame};

    use super::*;

    /// A heartbeat of MAVLink v2.
    fn heartbeat(sequence: u8) -> Vec<u8> {
        encode_frame(Version::V2, sequence, (1, 1), 0, &[0, 0, 0, 0, 2, 3, 81, 4, 3]).unwrap()
    }

    struct Rig {
        master: sys::serial::PseudoTerminal,
        port: SerialPort,
        poller: Poller,
        now: Instant,
    }

    fn line(baud: u32) -> Rig {
        let master = sys::serial::PseudoTerminal::open().unwrap();
        let now = Instant::from_millis(0);
        let poller = Poller::new().unwrap();
        let line = Line { baud, rts_cts: false };
        let mut port = SerialPort::new(master.device().to_owned(), line, Tokens(0), now);
        port.handle_timeout(now, &poller);
        assert_eq!(port.trouble(now), None);
        Rig { master, port, poller, now }
    }

    fn ready(gone: bool) -> Ready {
        Ready { token: 0, readable: true, writable: false, gone }
    }

    #[test]
    fn frames_pass_both_ways() {
        let mut line = line(57_600);
        let frame = heartbeat(1);
        assert!(line.port.deliver(line.now, &passed(line.now, Class::Telemetry, &frame)));
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
        assert!(line.port.trouble(line.now).is_some());
        assert!(!line.port.deliver(line.now, &passed(line.now, Class::Live, &heartbeat(1))));
        let again = sys::serial::PseudoTerminal::open().unwrap();
        line.port.device = again.device().to_owned();
        let due = line.port.due.unwrap();
        assert_eq!(due, line.now + RETRY);
        line.port.handle_timeout(due, &line.poller);
        assert!(line.port.deliver(due, &passed(due, Class::Live, &heartbeat(1))));
        assert_eq!(again.read().unwrap(), heartbeat(1));
    }

    #[test]
    fn a_port_that_takes_nothing_gets_nothing_old_afterwards() {
        let mut line = line(921_600);
        let mut now = line.now;
        let mut numbers = 0..=u8::MAX;
        // Fills what the kernel takes of a pseudo-terminal, whose driver does not say how much it
        // holds, and makes room once more when the kernel has time to bring it to the other end:
        // full is what has taken nothing at a hundred looks.
        let mut looks_in_vain = 0;
        while looks_in_vain < 100 {
            while line.port.waiting.bytes() == 0 {
                line.port.deliver(now, &passed(now, Class::Control, &heartbeat(0)));
                looks_in_vain = 0;
            }
            std::thread::sleep(Duration::from_millis(1).into());
            line.port.flush(now);
            looks_in_vain += 1;
        }
        for number in numbers.by_ref() {
            now += Duration::from_millis(350);
            let frame = heartbeat(number);
            line.port.deliver(now, &passed(now, Class::Control, &frame));
        }
        let trouble = line.port.trouble(now).unwrap();
        assert!(trouble.starts_with("has taken nothing for 1 min"), "{trouble}");
        // It reads again: first what the kernel has, then what is not too old, and no frame is cut.
        let mut read = Vec::new();
        while !read.ends_with(&heartbeat(u8::MAX)) {
            read.extend(line.master.read().unwrap());
            line.port.flush(now);
        }
        let frames: Vec<u8> = MavlinkFrames::new(&read).map(|frame| frame.sequence()).collect();
        let late: Vec<u8> = frames.into_iter().skip_while(|number| *number == 0).collect();
        assert_eq!(late, (250..=255).collect::<Vec<u8>>());
        assert_eq!(line.port.trouble(now), None);
        let fates = line.port.take_fates();
        assert!((250..=252).contains(&fates.too_old) && fates.dropped == 0, "{fates:?}");
    }

    #[test]
    fn a_line_whose_cts_is_off_says_so_where_it_is_asked() {
        let line = |rts_cts| Line { baud: 57_600, rts_cts };
        assert!(why_nothing(line(true), Some(false)).contains("CTS is off"));
        for (line, is_clear) in
            [(line(true), Some(true)), (line(true), None), (line(false), Some(false))]
        {
            assert_eq!(why_nothing(line, is_clear), "");
        }
    }

    fn passed(now: Instant, class: Class, bytes: &[u8]) -> Passed<'_> {
        Passed { class, expires: Some(now + Duration::from_secs(2)), bytes }
    }
}
