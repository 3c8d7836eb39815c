//! The scenario of a scheme: ten hosts on two wires and a radio, or a station and a drone with
//! links between.

use core::fmt::Write as _;

use netem::{Scenario, SlotMatrix};
use units::Rate;

use super::field::{Field, HEADERS};
use super::{Direction, Point};
use crate::scheme::Scheme;

/// Packets of so many bytes take no slot: acknowledgements, reports, control, with all headers.
pub(super) const SMALL: u64 = 300;
/// Packets that wait for the transmitter of a single link: half a second of it.
const QUEUE: u32 = 50;
/// A slot of 802.11b's back-off, µs: the paper's radios are 802.11b/g at 1 Mbit/s [FlowCode §IV-A].
const BACKOFF_US: u32 = 20;
/// The link layer's acknowledgement, µs: a short inter-frame space, a long preamble, 14 bytes
/// [IEEE 802.11 §15, §16].
const ACK_US: u32 = 10 + 192 + 14 * 8;
/// What a small packet takes of the air beside its own bytes and headers of IP, µs: an inter-frame
/// space, the mean of a first back-off (31 slots at most), a long preamble, 36 bytes around it, its
/// acknowledgement.
const AROUND_SMALL_US: u32 = 50 + 31 * BACKOFF_US / 2 + 192 + 36 * 8 + ACK_US;
/// A small packet draws the slot of a waiting large one, and costs it its slot, once in so many
/// times.
const COLLISION: u32 = 32;
/// Bytes of a packet of TCP without its payload, with time stamps.
const TCP_HEADERS: usize = 52;
/// What a session adds to a packet of its tunnel.
const SESSION: usize = 57;

/// Bytes of the longest coded frame, and of the shortest packet of a trace that such a frame can be
/// as long as.
pub(super) const FRAME: usize = 1_472;
const PACKET_MIN: usize = 700;

/// A scheme's hosts and networks.
pub(super) struct Wiring {
    pub(super) scenario: Scenario,
    /// Bytes of the longest packet of TCP.
    pub(super) mtu: usize,
    /// Bytes of a payload of the trace.
    packet: usize,
}

impl Wiring {
    /// Lays the networks of a point.
    ///
    /// # Errors
    /// When the flight has more radios than a group of relays.
    pub(super) fn new(field: &Field, point: &Point) -> Result<Self, String> {
        let links = field.links(point.scheme);
        let packet = field.flown.flight.air.packet_bytes as usize;
        if !(PACKET_MIN..=FRAME).contains(&packet) {
            return Err(format!("air.packet_bytes: {packet} is not {PACKET_MIN} to {FRAME}"));
        }
        let (text, mtu) = match point.scheme {
            Scheme::FULMAR | Scheme::FLOWCODE => {
                let relay = FRAME - proto::longest_relay_datagram(point.k);
                (group(field, point), packet - relay - SESSION)
            }
            // One packet of TCP is as long as one of the trace.
            Scheme::TCP_LRR | Scheme::TCP_LRR_IDEAL | Scheme::KERNEL_MPTCP => {
                (parallel(field, &links.matrix, point), packet + HEADERS)
            }
            _ => (parallel(field, &links.matrix, point), packet - SESSION),
        };
        let matrix = links.matrix.to_text();
        let scenario =
            Scenario::from_toml_with(&text, "flowcode-flight", &mut |_: &str| Ok(matrix.clone()));
        let scenario = scenario.map_err(|error| error.to_string())?;
        Ok(Self { scenario, mtu, packet })
    }

    /// Returns how much of a packet of the trace is TCP's payload.
    pub(super) fn payload_share(&self) -> f64 {
        (self.mtu - TCP_HEADERS) as f64 / self.packet as f64
    }
}

/// Returns what a relay's radio carries: a frame with fewer coefficients takes a slot as well.
pub(super) fn radio_rate(field: &Field, point: &Point) -> Rate {
    let slot = field.links(point.scheme).matrix.slot();
    Rate::from_bytes_in(field.flown.flight.air.packet_bytes - point.k as u64 + 1, slot)
}

/// A gateway and relays on each wire, a radio between.
fn group(field: &Field, point: &Point) -> String {
    let flight = &field.flown.flight;
    let name = |letter: char, count: usize| -> Vec<String> {
        (1..=count).map(|number| format!("{letter}{number}")).collect()
    };
    let (ground, air) = (name('g', flight.transmitters.len()), name('a', flight.receivers.len()));
    let names = flight.transmitters.iter().map(|one| &one.name);
    let names: Vec<_> = names.chain(flight.receivers.iter().map(|one| &one.name)).collect();
    let mut text = head(field);
    for host in ground.iter().chain(&air) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[host]]\nname = \"{host}\"");
    }
    let with = |first: &str, others: &[String]| [&[first.to_owned()], others].concat();
    for (wire, hosts) in [("ground", with("station", &ground)), ("air", with("drone", &air))] {
        let _ = writeln!(
            text,
            "[[radio]]\nname = \"{wire}\"\nhosts = {hosts:?}\nrate_mbps = 100\ndelay_ms = 0.2"
        );
    }
    let hosts = [ground, air].concat();
    let region = point.region_ms;
    let _ = writeln!(
        text,
        "[[radio]]\nname = \"radio\"\nhosts = {hosts:?}\n[radio.matrix]\nfile = \"flight.slots\"\n\
         names = {names:?}\nsmall_bytes = {SMALL}\nregion_ms = {region}"
    );
    text
}

/// A station and a drone, and a link for each row.
fn parallel(field: &Field, matrix: &SlotMatrix, point: &Point) -> String {
    let contends = point.scheme == Scheme::TCP_LRR;
    let backoff = if contends { BACKOFF_US } else { 0 };
    let mut text = head(field);
    let (ms, region) = (matrix.slot().as_nanos() as f64 / 1e6, point.region_ms);
    let [sends, hears] = match point.direction {
        Direction::Up => ["station", "drone"],
        Direction::Down => ["drone", "station"],
    };
    let medium = if contends { "medium = \"air\"\n" } else { "" };
    if contends {
        let collision = (matrix.slot() / COLLISION).as_nanos() as f64 / 1e3;
        let gap = (f64::from(AROUND_SMALL_US) + collision) / 1e3;
        let ack = f64::from(ACK_US) / 1e3;
        let _ = writeln!(text, "[[medium]]\nname = \"air\"\ngap_ms = {gap}\nack_ms = {ack}");
    }
    for (number, row) in matrix.rows().iter().enumerate() {
        let more =
            format!("matrix = \"flight.slots\"\nsmall_bytes = {SMALL}\nregion_ms = {region}");
        let _ = writeln!(
            text,
            "[[link]]\nname = \"link{number}\"\nbetween = [\"station\", \"drone\"]\n\
             queue_packets = {QUEUE}\nretries = 15\nbackoff_us = {backoff}\n{medium}\
             [link.slots]\nslot_ms = {ms}\nsmall_bytes = {SMALL}\n\
             [link.from_{sends}.slot_loss]\n{more}\nfrom = \"{}\"\nto = \"{}\"\n\
             [link.from_{hears}.slot_loss]\n{more}",
            row.from, row.to
        );
    }
    text
}

fn head(field: &Field) -> String {
    format!(
        "name = \"flowcode-flight\"\nseconds = {:.0}\n\
         [[host]]\nname = \"station\"\n[[host]]\nname = \"drone\"\n",
        field.seconds().ceil()
    )
}
