//! Requests of 1 kB and answers as long, over a TCP connection of their own that is kept open: what
//! a program feels that shares the links with a transfer.
//!
//! ```text
//! one each 200 ms (50 over connections of their own), whether the one before was answered or not
//! 0 ──── beside the flow ──── end of the flow, pause ──── alone, as long ────
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use sys::clock::now;
use units::{Duration, Instant};

use super::connection::{Connection, LOOK, is_passing, join};
use super::point::Scene;
use crate::doubt::at_best;
use crate::report::rounded_option;
use crate::statistics::percentile;
use crate::testbed::interruption::{is_asked, sleep_until};
use emulator::Stalls;

/// Bytes of a request, and of its answer.
pub(super) const BYTES: usize = 1_000;
/// From one request to the next.
const EACH: Duration = Duration::from_millis(200);
/// The same where each has a connection of its own.
const EACH_CONNECTION: Duration = Duration::from_millis(50);
/// When the first is sent: not with the flow, nor with a ping.
const FIRST: Duration = Duration::from_millis(107);
/// How long the last answers are awaited, in both lives.
pub(super) const DRAIN: Duration = Duration::from_secs(1);

/// The record of requests; times count from the beginning of the flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    sent: Vec<Duration>,
    /// As many as were answered: answers come in order.
    answered: Vec<Duration>,
    /// Bytes of an answer that is not all there yet.
    part: usize,
}

/// Requests under way between real hosts.
#[derive(Debug)]
pub(super) struct Running {
    asker: JoinHandle<io::Result<Vec<Duration>>>,
    reader: JoinHandle<io::Result<Requests>>,
    answerer: JoinHandle<io::Result<()>>,
}

impl Requests {
    /// Returns when the next one is due; none after the last.
    pub(super) fn due(&self, scene: &Scene) -> Option<Duration> {
        let each = if scene.has_connections() { EACH_CONNECTION } else { EACH };
        let due = FIRST + each * self.sent.len() as u32;
        (due.as_secs_f64() < scene.end()).then_some(due)
    }

    /// Returns how many were sent.
    pub(super) fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Notes that one was sent.
    pub(super) fn on_sent(&mut self, at: Duration) {
        self.sent.push(at);
    }

    /// Notes that bytes of answers came.
    pub(super) fn on_answer(&mut self, at: Duration, bytes: usize) {
        self.part += bytes;
        while self.part >= BYTES {
            self.part -= BYTES;
            self.answered.push(at);
        }
    }

    /// Notes that what was sent with this number is there: each goes over a connection of its own,
    /// and comes when it comes.
    pub(super) fn on_arrival(&mut self, at: Duration, number: usize) {
        let length = self.answered.len().max(number + 1);
        self.answered.resize(length, Duration::MAX);
        self.answered[number] = at;
    }

    /// Returns the figures: medians and 95th percentiles beside the flow, without it, and what it
    /// adds. With `stalls` as they would have been at best had nothing stood still.
    pub(super) fn figures(&self, scene: &Scene, stalls: Option<&Stalls>) -> Value {
        let Some((from_s, to_s)) = scene.requests_alone() else { return json!({}) };
        let beside = self.delays_ms(scene, (0.0, scene.seconds), stalls);
        let alone = self.delays_ms(scene, (from_s, to_s), stalls);
        let both = |p| (percentile(&beside, p), percentile(&alone, p));
        let more = |(beside, alone): (Option<f64>, Option<f64>)| Some(beside? - alone?);
        let (p50, p95) = (both(0.5), both(0.95));
        let of = |ms| rounded_option(ms, 3);
        json!({
            "request_p50_ms": of(p50.0),
            "request_p95_ms": of(p95.0),
            "request_alone_p50_ms": of(p50.1),
            "request_alone_p95_ms": of(p95.1),
            "request_more_p50_ms": of(more(p50)),
            "request_more_p95_ms": of(more(p95)),
        })
    }

    /// Returns the times to the answers of requests sent between two times, ascending. One that was
    /// not answered by the end of the run counts as answered then.
    fn delays_ms(
        &self,
        scene: &Scene,
        (from_s, to_s): (f64, f64),
        stalls: Option<&Stalls>,
    ) -> Vec<f64> {
        let end = Duration::from_secs_f64(scene.end()) + DRAIN;
        let answers = self.answered.iter().map(Some).chain(core::iter::repeat(None));
        let within = |at: &Duration| (from_s..to_s).contains(&at.as_secs_f64());
        let of = |(sent, answered): (&Duration, Option<&Duration>)| {
            let mut answered = Some(answered.map_or(end, |at| (*at).min(end)));
            if let Some(stalls) = stalls {
                at_best(*sent, &mut answered, stalls);
            }
            answered.map_or(0.0, |at| at.saturating_sub(*sent).as_secs_f64() * 1e3)
        };
        let mut delays: Vec<f64> =
            self.sent.iter().zip(answers).filter(|(sent, _)| within(sent)).map(of).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }
}

impl Running {
    /// Starts the threads that ask, answer and read the answers.
    ///
    /// # Errors
    /// When the machine gives no thread, or the sockets cannot be set up.
    pub(super) fn begin(
        connection: Connection,
        scene: &Scene,
        start: Instant,
    ) -> Result<Self, String> {
        let describe = |error: io::Error| format!("requests: {error}");
        let end = start + Duration::from_secs_f64(scene.end()) + DRAIN;
        let Connection { sending, receiving, .. } = connection;
        let ends = [&sending, &receiving].map(|socket| {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(LOOK.into()))
        });
        ends.into_iter().collect::<io::Result<()>>().map_err(describe)?;
        let answers = sending.try_clone().map_err(describe)?;
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let answerer = spawn("answer").spawn(move || answer(receiving, end)).map_err(describe)?;
        let reader =
            spawn("read answers").spawn(move || read(answers, start, end)).map_err(describe)?;
        let scene = scene.clone();
        let asker = spawn("ask").spawn(move || ask(sending, &scene, start)).map_err(describe)?;
        Ok(Self { asker, reader, answerer })
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the connection broke.
    pub(super) fn finish(self) -> Result<Requests, String> {
        let describe = |error: io::Error| format!("requests: {error}");
        let sent = join(self.asker).map_err(describe)?;
        join(self.answerer).map_err(describe)?;
        let read = join(self.reader).map_err(describe)?;
        Ok(Requests { sent, ..read })
    }
}

/// Sends the requests at their times; returns when.
fn ask(mut socket: TcpStream, scene: &Scene, start: Instant) -> io::Result<Vec<Duration>> {
    let mut requests = Requests::default();
    while let Some(due) = requests.due(scene) {
        // An interruption is noticed below.
        let _ = sleep_until(start + due);
        if is_asked() {
            break;
        }
        requests.on_sent(now().since(start));
        socket.write_all(&[1; BYTES])?;
    }
    Ok(requests.sent)
}

/// Sends back what comes.
fn answer(mut socket: TcpStream, end: Instant) -> io::Result<()> {
    let mut bytes = [0; BYTES];
    while now() < end && !is_asked() {
        match socket.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => socket.write_all(&bytes[..length])?,
            Err(error) if is_passing(&error) => {}
            // The other end was through first.
            Err(_) if now() >= end => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Notes when answers were all there.
fn read(mut socket: TcpStream, start: Instant, end: Instant) -> io::Result<Requests> {
    let (mut requests, mut bytes) = (Requests::default(), [0; BYTES]);
    while now() < end && !is_asked() {
        match socket.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => requests.on_answer(now().since(start), length),
            Err(error) if is_passing(&error) => {}
            // The other end was through first.
            Err(_) if now() >= end => break,
            Err(error) => return Err(error),
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::bulk::point::Point;

    #[test]
    fn what_the_flow_adds_is_told_and_what_is_not_answered_waits_to_the_end() {
        let scenes = Point::Requests.scenes(1, "", 1).expect("a sound scenario");
        let scene = &scenes[0];
        let mut requests = Requests::default();
        while let Some(due) = requests.due(scene) {
            requests.on_sent(due);
            let beside = due < Duration::from_secs(1);
            let delay = Duration::from_millis(if beside { 70 } else { 40 });
            requests.on_answer(due + delay, 400);
            requests.on_answer(due + delay, BYTES - 400);
        }
        assert_eq!((requests.sent.len(), requests.answered.len()), (20, 20));
        let figures = requests.figures(scene, None);
        assert_eq!(figures["request_more_p50_ms"], json!(30.0));
        assert_eq!(figures["request_alone_p95_ms"], json!(40.0));
        requests.answered.truncate(2);
        let waits = requests.figures(scene, None)["request_p50_ms"].as_f64();
        assert!(waits.is_some_and(|ms| ms > 4_000.0), "{waits:?}");
    }
}
