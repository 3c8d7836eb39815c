//! What became of each message and each packet of a run, as columns.

use std::cell::RefCell;
use std::rc::Rc;

use netem::VerdictRecord;

use super::blackout::Blackout;
use super::ledger::{Ledger, StreamLedger};
use super::sim::{LEAD_IN, run_watched};
use crate::scheme::Scheme;
use crate::testbed::{Direction, Recording, Stream};

/// What a run left behind. Times are nanoseconds after the workload began.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// A row for each message that an application sent or meant to send.
    pub messages: Messages,
    /// A row for each packet that entered a link, and each of its receivers.
    pub packets: Packets,
}

/// Columns of messages, all of one length.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// The kind of stream: the place of its name in [`Messages::STREAMS`].
    pub stream: Vec<i8>,
    /// Number of the flow of its kind; 0 is the workload's own.
    pub flow: Vec<u8>,
    /// The place of the direction's name in [`Messages::DIRECTIONS`].
    pub direction: Vec<i8>,
    /// Number in its flow and direction, from 0.
    pub sequence: Vec<u32>,
    /// Length, bytes.
    pub bytes: Vec<u32>,
    /// When it was handed in, ns; none where it never was.
    pub sent_ns: Vec<Option<i64>>,
    /// When it was delivered first, ns; none where it was lost.
    pub delivered_ns: Vec<Option<i64>>,
}

impl Messages {
    /// Names of the kinds of streams.
    pub const STREAMS: [&'static str; Stream::ALL.len()] = {
        let mut names = [""; Stream::ALL.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = Stream::ALL[place].name();
            place += 1;
        }
        names
    };
    /// Names of the directions: from the station, from the drone.
    pub const DIRECTIONS: [&'static str; 2] = [Direction::Up.name(), Direction::Down.name()];

    fn add(&mut self, of: &StreamLedger, stream: Stream, flow: u8, direction: Direction) {
        let place = Stream::ALL.iter().position(|known| *known == stream).unwrap_or(0);
        let ns = |at: Option<units::Duration>| at.map(|at| at.as_nanos() as i64);
        for (number, len) in of.lens.iter().enumerate() {
            self.stream.push(place as i8);
            self.flow.push(flow);
            self.direction.push(direction as i8);
            self.sequence.push(number as u32);
            self.bytes.push(*len as u32);
            self.sent_ns.push(ns(of.sent.get(number).copied().flatten()));
            self.delivered_ns.push(ns(of.delivered.get(number).copied().flatten()));
        }
    }
}

/// Columns of packets on links, all of one length.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// The packet's number among all packets of the run, from 1.
    pub number: Vec<u64>,
    /// When it entered the link, ns; negative before the workload.
    pub entry_ns: Vec<i64>,
    /// The place of the link's name in `links`.
    pub link: Vec<i8>,
    /// The place of the sending host's name in `hosts`.
    pub sender: Vec<i8>,
    /// The place of the receiving host's name in `hosts`.
    pub receiver: Vec<i8>,
    /// Length with IP and UDP headers, bytes.
    pub bytes: Vec<u32>,
    /// The place of its fate in `fates`: delivered, or why the link dropped it.
    pub fate: Vec<i8>,
    /// When its first copy arrives, ns; none where none does.
    pub arrival_ns: Vec<Option<i64>>,
    /// Copies that arrive.
    pub copies: Vec<u8>,
    /// Names of links.
    pub links: Vec<String>,
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Names of fates.
    pub fates: Vec<String>,
}

impl Packets {
    fn add(&mut self, record: &VerdictRecord<'_>) {
        let ns = |at: units::Instant| at.as_nanos() as i64 - LEAD_IN.as_nanos() as i64;
        let fate = record.verdict.dropped.map_or("delivered", |cause| cause.name());
        self.number.push(record.number);
        self.entry_ns.push(ns(record.at));
        self.link.push(place(&mut self.links, record.link));
        self.sender.push(place(&mut self.hosts, record.sender));
        self.receiver.push(place(&mut self.hosts, record.receiver));
        self.bytes.push(record.len as u32);
        self.fate.push(place(&mut self.fates, fate));
        let deliveries = &record.verdict.deliveries;
        self.arrival_ns.push(deliveries.iter().map(|one| ns(one.at)).min());
        self.copies.push(deliveries.len().min(usize::from(u8::MAX)) as u8);
    }
}

/// Runs a scene under one scheme, and keeps all of it.
///
/// # Errors
/// When the scheme needs a real kernel.
pub(crate) fn run_detailed(
    scene: &Blackout,
    scheme: Scheme,
    recording: &Recording,
    seed: u64,
) -> Result<Detail, String> {
    let packets = Rc::new(RefCell::new(Packets::default()));
    let sink = Rc::clone(&packets);
    let (scenario, workload) = (&scene.scenario, &scene.workload);
    let scheme = (scheme, scene.elastic);
    let run = run_watched(scenario, scheme, workload, recording, seed, |world| {
        world.set_verdict_log(move |record| sink.borrow_mut().add(record));
    })?;
    let mut messages = Messages::default();
    for direction in Direction::BOTH {
        let ledger = run.ledger(direction);
        for stream in Stream::ALL {
            messages.add(ledger.stream(stream), stream, 0, direction);
        }
        for flow in workload.flows.iter().filter(|flow| flow.number > 0) {
            if let Some(of) = Ledger::flow(ledger, flow.kind, flow.number) {
                messages.add(of, flow.kind, flow.number, direction);
            }
        }
    }
    let packets = packets.take();
    Ok(Detail { messages, packets })
}

/// Returns the place of a name in a list, which it is added to.
fn place(names: &mut Vec<String>, name: &str) -> i8 {
    let known = names.iter().position(|known| known == name);
    let place = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    i8::try_from(place).unwrap_or(i8::MAX)
}
