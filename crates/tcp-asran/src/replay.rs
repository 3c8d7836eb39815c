//! Feeds a connection's events to the algorithm inside the kernel, without a connection.
//!
//! ASRAN's own part is the very functions that the hooks of the live algorithm call. The base
//! algorithm is modelled in packets: NewReno's growth for every flavour, CUBIC's factor for those
//! over CUBIC, and a recovery that reaches its window at once. It serves to compare another
//! implementation with this one, step by step.

use libbpf_rs::ProgramInput;

use crate::object::{self, Extras};
use crate::words::word;
use crate::{Error, Flavour};

/// Something that happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new connection with this window, in packets. Without it as the first event, the window
    /// starts at 10.
    Start {
        /// The first congestion window.
        cwnd: u32,
    },
    /// An ACK for so many packets. Changes nothing during a recovery.
    Ack {
        /// How many.
        packets: u32,
    },
    /// The same with what [`Flavour::AsranDelay`] looks at, during a recovery too. To the others it
    /// is a plain ACK.
    TimedAck {
        /// How many packets it acknowledges.
        packets: u32,
        /// When it comes, µs on a clock that starts anywhere.
        now_us: u64,
        /// Round-trip time of the newest packet that it acknowledges, µs; 0 for none.
        rtt_us: u32,
        /// The newest sample of the rate of delivery: so many packets ...
        rate_delivered: u32,
        /// ... in so many µs; 0 for none.
        rate_interval_us: u32,
    },
    /// Duplicate ACKs tell of a loss: a recovery begins, unless one is under way.
    Loss,
    /// The recovery is over: everything that was outstanding at its beginning is acknowledged.
    Recovered,
    /// The retransmission timer fires. Ends a recovery.
    Timeout,
    /// The last loss or timeout turns out to have been none.
    Undo,
}

/// Where the connection stands after an event, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow-start threshold; [`Snapshot::INFINITE`] before the first loss.
    pub ssthresh: u32,
    /// The window just before the last loss, 0 before the first.
    pub last_max_cwnd: u32,
}

impl Snapshot {
    /// The threshold of a connection that has lost nothing yet (`TCP_INFINITE_SSTHRESH`).
    pub const INFINITE: u32 = 0x7fff_ffff;
}

/// The initial window of Linux, in packets (`TCP_INIT_CWND`).
const INITIAL_WINDOW: u32 = 10;

/// Replays events on a new connection, and returns where each of them leaves it.
///
/// # Errors
///
/// Every kind of [`Error`] but [`Error::NameTaken`] and that of pins: nothing is registered.
pub fn replay(flavour: Flavour, events: &[Event]) -> Result<Vec<Snapshot>, Error> {
    let extras = Extras { replay: true, ..Extras::default() };
    let object = object::load(&[], "", extras)?;
    let program = object.progs_mut().find(|program| program.name() == "asran_replay");
    let program = program.ok_or_else(|| refused("the program is not in the object"))?;
    let step = |context: &mut Context, event: &Event| {
        context.set(event);
        let input = ProgramInput { context_in: Some(&mut context.0), ..ProgramInput::default() };
        let done = program.test_run(input).map_err(|error| object::explain("replay", &error))?;
        if done.return_value == 0 {
            Ok(context.snapshot())
        } else {
            Err(refused("the program does not know the event"))
        }
    };
    let mut context = Context::new(flavour);
    step(&mut context, &Event::Start { cwnd: INITIAL_WINDOW })?;
    events.iter().map(|event| step(&mut context, event)).collect()
}

fn refused(reason: &str) -> Error {
    Error::Refused { operation: "replay".to_owned(), reason: reason.to_owned() }
}

/// `struct replay` of the program: words in the machine's order, the five of `struct asran` first.
/// The state of `asran_delay` stands at its end and is opaque here.
struct Context([u8; 4 * Context::WORDS]);

impl Context {
    const WORDS: usize = 72;
    const LAST_MAX_CWND: usize = 0;
    const FLAVOUR: usize = 5;
    const EVENT: usize = 6;
    const VALUE: usize = 7;
    const CWND: usize = 8;
    const SSTHRESH: usize = 9;
    const NOW: usize = 14;
    const RTT: usize = 16;
    const RATE_DELIVERED: usize = 17;
    const RATE_INTERVAL: usize = 18;

    fn new(flavour: Flavour) -> Context {
        let mut context = Context([0; 4 * Self::WORDS]);
        context.put(Self::FLAVOUR, flavour as u32);
        context
    }

    fn set(&mut self, event: &Event) {
        let (kind, value) = match *event {
            Event::Start { cwnd } => (0, cwnd),
            Event::Ack { packets } | Event::TimedAck { packets, .. } => (1, packets),
            Event::Loss => (2, 0),
            Event::Recovered => (3, 0),
            Event::Timeout => (4, 0),
            Event::Undo => (5, 0),
        };
        self.put(Self::EVENT, kind);
        self.put(Self::VALUE, value);
        self.set_sample(event);
    }

    /// An event without a sample of the path keeps the time of the one before.
    fn set_sample(&mut self, event: &Event) {
        let (mut rtt, mut delivered, mut interval) = (0, 0, 0);
        if let Event::TimedAck { now_us, rtt_us, rate_delivered, rate_interval_us, .. } = *event {
            self.0[4 * Self::NOW..][..8].copy_from_slice(&now_us.to_ne_bytes());
            (rtt, delivered, interval) = (rtt_us, rate_delivered, rate_interval_us);
        }
        self.put(Self::RTT, rtt);
        self.put(Self::RATE_DELIVERED, delivered);
        self.put(Self::RATE_INTERVAL, interval);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: self.get(Self::CWND),
            ssthresh: self.get(Self::SSTHRESH),
            last_max_cwnd: self.get(Self::LAST_MAX_CWND),
        }
    }

    fn put(&mut self, word: usize, value: u32) {
        self.0[4 * word..][..4].copy_from_slice(&value.to_ne_bytes());
    }

    fn get(&self, index: usize) -> u32 {
        word(&self.0, index).unwrap_or_default()
    }
}
