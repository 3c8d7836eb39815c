//! TCP flows of the kernel between hosts of an emulation, with a curve of what the sender knew.
//!
//! Not the one connection of `throughput`, which tests the scheme below it: here the flows
//! themselves are under test, several on one link, each with a congestion control of its own.
//!
//! ```text
//! sending thread ─ write, TCP_INFO ─► socket in `from` ═ links ═► socket in `to` ─► receiving thread
//! ```
//! The windows move in the kernel whether these threads are on time or not. A flow connects before
//! it begins, so that a lost SYN does not shift it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use sys::byte_stream::{Transport, connect, listen, reset_on_close};
use sys::clock::now;
use sys::netns::set_parameter;
use sys::tcp_info::{TcpInfo, tcp_info};
use units::{Duration, Instant, Rate};

use super::interruption;
use super::interruption::sleep_until;
use super::kernel_stream::accept;
use crate::statistics::mean;
use emulator::Emulation;

/// How long a connection may take: several SYN retransmissions.
const CONNECT: Duration = Duration::from_secs(20);
/// How much later connected flows begin, so that all threads are ready.
const LEAD: Duration = Duration::from_millis(100);
/// What a flow without a limit writes at once: a few milliseconds of a slow link, so that samples
/// are on time.
const CHUNK: usize = 4_096;
/// The least that a flow with an offered load writes: a segment.
pub(crate) const OFFER: usize = 1_448;
/// Buffers of both ends, bytes: least, at first, most. At a few megabits per second they hold
/// seconds, so that a thread that gets no processor for a while neither starves the window nor
/// closes it.
const BUFFERS: &str = "4096 4194304 8388608";
/// From how many bytes on that it cannot send so far the kernel begins no new buffer for a live
/// source; the last buffer it still fills ([`LAST_BUFFER`]).
const NOT_SENT: &str = "8192";
/// Segments of a buffer of the kernel's: a GSO packet of 64 KiB.
pub(crate) const LAST_BUFFER: u64 = 45;
/// How long after the end of a flow its receiver waits for the end of the sender, whose reset has
/// to pass the queue and may be lost.
const LINGER: Duration = Duration::from_secs(2);
/// How often the receiver looks whether the flow is over while nothing arrives.
const LOOK: Duration = Duration::from_millis(100);

/// Describes one flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    /// The sending host.
    pub(crate) from: String,
    /// The receiving host.
    pub(crate) to: String,
    /// An address of the receiving host, to which the sending one has a route.
    pub(crate) address: Ipv4Addr,
    /// The receiver's port; each flow to a host needs one of its own.
    pub(crate) port: u16,
    /// Congestion control of the sender, by the kernel's name.
    pub(crate) congestion: String,
    /// When it begins to send, after the beginning of all flows.
    pub(crate) start: Duration,
    /// How long it sends and is measured.
    pub(crate) duration: Duration,
    /// What the application offers; none is as much as the connection takes.
    pub(crate) offered: Option<Offer>,
    /// How often the kernel is asked about the connection.
    pub(crate) sample_every: Duration,
}

/// Describes an application that makes data at a rate of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// How fast.
    pub(crate) rate: Rate,
    /// How old data may become that the connection does not take: a live source gives it up then.
    /// Without it everything is offered in the end, so that a slow connection never lacks data.
    pub(crate) patience: Option<Duration>,
}

/// What the sender's kernel said at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowSample {
    /// Seconds since the flow began.
    pub(crate) at_s: f64,
    /// The kernel's account.
    pub(crate) info: TcpInfo,
}

/// What came of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowRun {
    /// Payload that the receiving application got in each whole second of the flow, Mbit/s.
    pub(crate) goodput_mbps: Vec<f64>,
    /// Payload that it got in all, bytes.
    pub(crate) bytes: u64,
    /// Samples in the order of time; the last is of the flow's end.
    pub(crate) samples: Vec<FlowSample>,
}

impl Offer {
    /// Returns how many bytes, of all that were made by a time, are too old to be sent.
    pub(crate) fn given_up(&self, at: Duration) -> u64 {
        self.patience.map_or(0, |patience| self.rate.bytes_in(at.saturating_sub(patience)))
    }
}

impl FlowRun {
    /// Returns the mean goodput from a second of the flow on, Mbit/s.
    pub(crate) fn mean_goodput_mbps(&self, from_s: usize) -> f64 {
        mean(self.goodput_mbps.get(from_s..).unwrap_or_default()).unwrap_or(0.0)
    }

    /// Returns how many segments were sent again in all.
    pub(crate) fn retransmits(&self) -> u32 {
        self.samples.last().map_or(0, |sample| sample.info.retransmits)
    }

    /// Returns the mean of the smoothed round-trip time from a second of the flow on; none without
    /// samples.
    pub(crate) fn mean_srtt_ms(&self, from_s: f64) -> Option<f64> {
        let later = self.samples.iter().filter(|sample| sample.at_s >= from_s);
        let srtt: Vec<f64> = later.map(|sample| sample.info.srtt.as_secs_f64() * 1e3).collect();
        mean(&srtt)
    }
}

/// A connection that waits for its flow to begin.
#[derive(Debug)]
pub(crate) struct TcpFlow {
    plan: FlowPlan,
    sending: TcpStream,
    receiving: TcpStream,
}

/// A flow under way.
#[derive(Debug)]
pub(crate) struct RunningFlow {
    congestion: String,
    sender: JoinHandle<io::Result<Vec<FlowSample>>>,
    receiver: JoinHandle<io::Result<Vec<u64>>>,
}

/// Connects all flows, starts the scenario anew, lets the flows begin with it (each `start` later)
/// and waits for their end.
///
/// # Errors
/// As of [`TcpFlow::connect`] and [`RunningFlow::finish`].
pub(crate) fn run_flows(
    emulation: &mut Emulation,
    plans: &[FlowPlan],
) -> Result<Vec<FlowRun>, String> {
    let connect = |plan: &FlowPlan| TcpFlow::connect(emulation, plan);
    let connected = plans.iter().map(connect).collect::<Result<Vec<TcpFlow>, String>>()?;
    let origin = emulation.begin(LEAD);
    let begun = connected.into_iter().map(|flow| flow.begin(origin));
    let running = begun.collect::<Result<Vec<RunningFlow>, String>>()?;
    let last = plans.iter().map(|plan| plan.start + plan.duration).max().unwrap_or_default();
    sleep_until(origin + last)?;
    running.into_iter().map(RunningFlow::finish).collect()
}

impl TcpFlow {
    /// Connects a flow; it sends nothing yet.
    ///
    /// # Errors
    /// When a host is missing, the kernel does not know the congestion control, or the connection
    /// is not made within 20 s.
    pub(crate) fn connect(emulation: &Emulation, plan: &FlowPlan) -> Result<Self, String> {
        let named = |error: io::Error| {
            format!("{} from {} to {}: {error}", plan.congestion, plan.from, plan.to)
        };
        let (sending, receiving) = connected(emulation, plan).map_err(named)?;
        Ok(Self { plan: plan.clone(), sending, receiving })
    }

    /// Starts the threads of the flow, which sends from `origin` + `plan.start` on.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(crate) fn begin(self, origin: Instant) -> Result<RunningFlow, String> {
        let Self { plan, sending, receiving } = self;
        let (begin, duration) = (origin + plan.start, plan.duration);
        let congestion = plan.congestion.clone();
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let receiver = spawn("receive flow").spawn(move || receive(receiving, begin, duration));
        let receiver = receiver.map_err(|error| error.to_string())?;
        let sender = spawn("send flow").spawn(move || send(sending, begin, &plan));
        let sender = sender.map_err(|error| error.to_string())?;
        Ok(RunningFlow { congestion, sender, receiver })
    }
}

impl RunningFlow {
    /// Waits for the flow's end and returns what came of it.
    ///
    /// # Errors
    /// When the connection broke.
    pub(crate) fn finish(self) -> Result<FlowRun, String> {
        let describe = |error: io::Error| format!("{}: {error}", self.congestion);
        let samples = join(self.sender).map_err(describe)?;
        let per_second = join(self.receiver).map_err(describe)?;
        Ok(FlowRun {
            goodput_mbps: per_second.iter().map(|bytes| *bytes as f64 * 8.0 / 1e6).collect(),
            bytes: per_second.iter().sum(),
            samples,
        })
    }
}

fn connected(emulation: &Emulation, plan: &FlowPlan) -> io::Result<(TcpStream, TcpStream)> {
    let (congestion, at) = (plan.congestion.as_str(), SocketAddr::from((plan.address, plan.port)));
    let listener: TcpListener = emulation.enter(&plan.to, || {
        set_parameter("net/ipv4/tcp_rmem", BUFFERS)?;
        listen(Transport::Tcp, "reno", at)
    })??;
    let sending = emulation.enter(&plan.from, || {
        // Otherwise a flow would begin with the ssthresh of the one before it.
        set_parameter("net/ipv4/tcp_no_metrics_save", "1")?;
        set_parameter("net/ipv4/tcp_wmem", BUFFERS)?;
        if plan.offered.is_some_and(|offer| offer.patience.is_some()) {
            // The data would grow old in the kernel, where nobody can give it up.
            set_parameter("net/ipv4/tcp_notsent_lowat", NOT_SENT)?;
        }
        connect(Transport::Tcp, congestion, at, CONNECT.into())
    })??;
    let receiving = accept(&listener)?;
    // What is still on its way at the end is of no interest, and would disturb the next flows.
    reset_on_close(&sending)?;
    Ok((sending, receiving))
}

/// Writes what the plan offers and asks the kernel about the connection, until the flow is over.
fn send(mut stream: TcpStream, begin: Instant, plan: &FlowPlan) -> io::Result<Vec<FlowSample>> {
    let (bytes, mut written) = (vec![0; 8 * CHUNK], 0);
    let (mut samples, mut next_sample) = (Vec::new(), Duration::ZERO);
    let sample_every = plan.sample_every.max(Duration::from_millis(1));
    stream.set_write_timeout(Some(sample_every.into()))?;
    // An interruption is noticed below.
    let _ = sleep_until(begin);
    loop {
        let at = now().since(begin);
        let over = at >= plan.duration || interruption::is_asked();
        if at >= next_sample || over {
            samples.push(FlowSample { at_s: at.as_secs_f64(), info: tcp_info(&stream)? });
            next_sample = at + sample_every;
        }
        if over {
            return Ok(samples);
        }
        let due = match plan.offered {
            None => CHUNK,
            Some(offer) => {
                written = written.max(offer.given_up(at));
                usize::try_from(offer.rate.bytes_in(at) - written).unwrap_or(usize::MAX)
            }
        };
        if let Some(offer) = plan.offered.filter(|_| due < OFFER) {
            let wait = offer.rate.transmission_time(OFFER - due);
            thread::sleep(wait.min(next_sample.saturating_sub(at)).into());
            continue;
        }
        match stream.write(&bytes[..due.min(bytes.len())]) {
            Ok(len) => written += len as u64,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Counts the bytes that arrive in every second of the flow, and reads on until the sender has
/// ended: a receiver that left first would break the sender's last write.
fn receive(mut stream: TcpStream, begin: Instant, duration: Duration) -> io::Result<Vec<u64>> {
    let mut per_second = vec![0; usize::try_from(duration.as_secs()).unwrap_or(0)];
    let mut bytes = vec![0; 1 << 16];
    stream.set_read_timeout(Some(LOOK.into()))?;
    while now() < begin + duration + LINGER && !interruption::is_asked() {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(len) => {
                let second = now().since(begin).as_secs() as usize;
                // What comes in a last broken second, or after the end, counts for nothing.
                if let Some(sum) = per_second.get_mut(second) {
                    *sum += len as u64;
                }
            }
            Err(error) if is_passing(&error) => {}
            // The sender is gone: it ended first, or tells why itself.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(per_second)
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

#[cfg(test)]
mod tests {
    use netem::Scenario;

    use super::*;
    use emulator::Options;

    #[test]
    fn flows_share_an_emulated_link() {
        let text = r#"
            [[link]]
            name = "radio"
            between = ["uav", "station"]
            delay_ms = 5
            rate_mbps = 4
            queue_packets = 40
        "#;
        let scenario = Scenario::from_toml(text, "one-link").expect("a sound scenario");
        let mut emulation = match Emulation::start(&scenario, 1, &Options::default()) {
            Ok(emulation) => emulation,
            Err(error) => {
                return sys::sandbox::skip("flows_share_an_emulated_link", &error.to_string());
            }
        };
        let address = emulation.address("station", "radio").expect("the station is on the link");
        let plan = |port, offered| FlowPlan {
            from: "uav".to_owned(),
            to: "station".to_owned(),
            address,
            port,
            congestion: "reno".to_owned(),
            start: Duration::ZERO,
            duration: Duration::from_secs(2),
            offered,
            sample_every: Duration::from_millis(50),
        };
        let plans = [
            plan(5_001, None),
            plan(5_002, Some(Offer { rate: Rate::from_mbps(0.4), patience: None })),
        ];
        let runs = run_flows(&mut emulation, &plans).expect("both flows run");
        let [greedy, limited] = &runs[..] else { panic!("two flows") };
        assert_eq!(greedy.goodput_mbps.len(), 2);
        // Whatever the machine does, a link does not carry more than its rate.
        let sum = greedy.goodput_mbps[1] + limited.goodput_mbps[1];
        assert!(sum < 4.2 && greedy.goodput_mbps > limited.goodput_mbps, "{greedy:?} {limited:?}");
        let offered: f64 = limited.goodput_mbps.iter().sum();
        assert!(offered > 0.0 && offered <= 0.81, "{limited:?}");
        let first = greedy.samples.first().expect("samples").info;
        assert!(first.min_rtt >= Duration::from_millis(10), "{first:?}");
    }

    #[test]
    fn a_live_source_gives_up_what_is_old() {
        let patience = Some(Duration::from_millis(500));
        let live = Offer { rate: Rate::from_mbps(0.8), patience };
        let given_up = [0.0, 0.5, 2.0].map(|at| live.given_up(Duration::from_secs_f64(at)));
        assert_eq!(given_up, [0, 0, 150_000]);
        let patient = Offer { patience: None, ..live };
        assert_eq!(patient.given_up(Duration::from_secs(9)), 0);
    }

    #[test]
    fn means_leave_out_the_start() {
        let sample = |at_s: f64, srtt_ms: u64, retransmits| FlowSample {
            at_s,
            info: TcpInfo {
                srtt: Duration::from_millis(srtt_ms),
                retransmits,
                ..TcpInfo::default()
            },
        };
        let run = FlowRun {
            goodput_mbps: vec![1.0, 4.0, 6.0],
            bytes: 0,
            samples: vec![sample(0.0, 90, 0), sample(1.0, 40, 2), sample(2.0, 60, 5)],
        };
        assert_eq!((run.mean_goodput_mbps(1), run.mean_goodput_mbps(9)), (5.0, 0.0));
        assert_eq!((run.mean_srtt_ms(1.0), run.mean_srtt_ms(9.0)), (Some(50.0), None));
        assert_eq!(run.retransmits(), 5);
    }
}
